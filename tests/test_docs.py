"""The documents keep their word: generated ones are current, and every command line in the others can be parsed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from tipple.cli.commands import cli
from tipple.cli.jobs import ACTIONS
from tipple.plan.size import parse_size
from tipple.plan.sources import plan_dialect
from tipple.plan.url import parse_table_name, parse_target

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    "README.md",
    "docs/guide.md",
    "docs/concepts.md",
    "docs/reference.md",
    "docs/figures.md",
    "CONTRIBUTING.md",
)
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
# A quoted text, an escaped character, a comment, what ends a command (a redirection with its number too), the rest.
_SHELL = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|(?<!\S)\#.*|(?P<end>(?:(?<=\s)\d+)?[;|&<>()]+)|.""")


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a language in a document; none where the document is not there."""
    path = ROOT / document
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [found["text"] for found in _BLOCK.finditer(text) if found["language"] == language]


def command_lines(script: str) -> Iterator[list[str]]:
    """The words of every `tipple ...` in a shell script, without what is before and behind it."""
    for line in script.replace("\\\n", " ").splitlines():
        commands = [""]
        for piece in _SHELL.finditer(line):
            if piece["end"]:
                commands.append("")
            elif not piece[0].startswith("#"):
                commands[-1] += piece[0]
        for command in commands:
            words = shlex.split(command)
            while words and re.fullmatch(r"\w+=.*", words[0]):
                words.pop(0)
            if words and words[0].rpartition("/")[2] == "tipple":
                yield words[1:]


def all_command_lines() -> list[Any]:
    return [
        pytest.param(words, id=f"{document}: {' '.join(words)}")
        for document in DOCUMENTS
        for script in blocks(document, "sh")
        for words in command_lines(script)
    ]


def parse(words: list[str]) -> click.Context | None:
    """The context of the command that the words call, which is not run; None for `--help` and `--version`."""
    command: click.Command = cli
    context: click.Context | None = None
    name = "tipple"
    try:
        while True:
            context = command.make_context(name, words, parent=context)
            if not isinstance(command, click.Group):
                return context
            found, subcommand, words = command.resolve_command(context, [*context._protected_args, *context.args])
            assert subcommand is not None
            name, command = str(found), subcommand
    except click.exceptions.Exit:
        return None


@pytest.mark.parametrize("words", all_command_lines())
def test_command_line_can_be_parsed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    context = parse(words)
    capsys.readouterr()
    if context is None:
        return
    given = context.params
    for url in (given.get("into"), *given.get("words", ())[:1]):
        if url is not None and not url.startswith("$") and url not in ACTIONS:
            parse_target(url)
    if context.command.name == "load":
        parse_table_name(given["table"])
        for name in ("memory_limit", "max_record_size"):
            if given[name] is not None:
                parse_size(given[name])
        plan_dialect(
            "csv" if given["format_name"] == "auto" else given["format_name"],
            delimiter=given["delimiter"],
            quote=given["quote"],
            escape=given["escape"],
            null_text=given["null_text"],
            header=given["header"],
            encoding=given["encoding"],
        )


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("cd x && A=1 .venv/bin/tipple jobs a | head", [["jobs", "a"]]),
        ("tipple load a \\\n  --table 't' # why\n", [["load", "a", "--table", "t"]]),
        ("tipple load a --null ';' 2>log", [["load", "a", "--null", ";"]]),
        ("# tipple nothing\necho tipple\ntipple load 'p://h/d?a=b&c=d' >out.json", [["load", "p://h/d?a=b&c=d"]]),
    ],
)
def test_command_lines_are_found(script: str, expected: list[list[str]]) -> None:
    assert list(command_lines(script)) == expected


def test_a_wrong_option_is_found() -> None:
    with pytest.raises(click.UsageError):
        parse(["load", "a.csv", "--table", "t", "--no-such-option"])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_can_be_compiled(document: str) -> None:
    for number, text in enumerate(blocks(document, "python")):
        if document != "docs/reference.md":  # whose blocks are signatures
            compile(text, f"{document}, block {number}", "exec")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    if not path.exists():
        pytest.skip(f"there is no {document}")
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert "://" in link or (path.parent / link).exists(), link


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """scripts/generate-reference as a module."""
    loader = importlib.machinery.SourceFileLoader("generate_reference", str(ROOT / "scripts" / "generate-reference"))
    specification = importlib.util.spec_from_loader(loader.name, loader)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    return module


def test_generated_documents_are_current(generator: ModuleType) -> None:
    assert generator.problems() == []


def test_a_stale_document_is_found(generator: ModuleType, tmp_path: Path) -> None:
    for path, text in generator.documents().items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert generator.problems(tmp_path) == []
    (tmp_path / generator.SCHEMA).unlink()
    with (tmp_path / generator.REFERENCE).open("a", encoding="utf-8") as file:
        file.write("More.\n")
    assert [problem.split()[0] for problem in generator.problems(tmp_path)] == [
        "docs/reference.md",
        "docs/summary.schema.json",
    ]
