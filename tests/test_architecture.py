"""The arrows of ARCHITECTURE.md: who may know whom."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "tipple"

ALLOWED = {
    "cli": {"cli", "run", "plan", "report", "errors", "engines"},
    "run": {"run", "engines", "plan", "report", "errors", "importing", "_core"},
    "engines": {"engines", "plan", "errors", "importing", "_core"},
    "plan": {"plan", "errors"},
    "report": {"report", "plan", "errors"},
}
IMPURE = {"os", "sys", "time", "socket", "subprocess", "threading", "pathlib", "random", "datetime"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module == "tipple":
                yield from (f"tipple.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("folder", ALLOWED)
def test_python_arrows(folder: str) -> None:
    files = sorted((PACKAGE / folder).rglob("*.py"))
    assert files
    for path in files:
        for module in imported(path):
            parts = module.split(".")
            if parts[0] == "tipple" and len(parts) > 1 and parts[1] not in ("__version__",):
                assert parts[1] in ALLOWED[folder], f"{path.relative_to(ROOT)} imports {module}"


def test_plan_is_pure() -> None:
    for path in sorted((PACKAGE / "plan").glob("*.py")):
        found = {module.split(".")[0] for module in imported(path)} & IMPURE
        assert not found, f"{path.relative_to(ROOT)} imports {found}"


def test_decoded_structs_are_decodable() -> None:
    """A struct of which msgspec learns when it is first decoded crashes threads that decode at once."""
    decorated: dict[str, bool] = {}
    decoded: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any("Struct" in ast.unparse(base) for base in node.bases):
                decorated[node.name] = "decodable" in map(ast.unparse, node.decorator_list)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("msgspec.json.decode", "msgspec.convert"):
                types = [word.value for word in node.keywords if word.arg == "type"] + node.args[1:]
                decoded |= {word: path.name for kind in types for word in re.findall(r"\w+", ast.unparse(kind))}
    found = decoded.keys() & decorated.keys()
    assert len(found) >= 9
    assert not [f"{decoded[name]}: {name}" for name in found if not decorated[name]]


def test_engines_have_the_same_files() -> None:
    folders = [path for path in (PACKAGE / "engines").iterdir() if path.is_dir() and path.name != "__pycache__"]
    common = {"__init__.py", "capabilities.py", "columns.py", "connection.py", "ledger.py", "load.py", "session.py"}
    assert len(folders) >= 2
    for folder in folders:
        assert common <= {path.name for path in folder.glob("*.py")}, folder


def test_capabilities_need_no_driver() -> None:
    for path in (PACKAGE / "engines").glob("*/capabilities.py"):
        assert {module.split(".")[0] for module in imported(path)} <= {"tipple", "__future__"}, path


def test_crate_arrows() -> None:
    known = {"codec": set(), "pipeline": {"codec"}, "python": {"codec", "pipeline"}}
    for crate, allowed in known.items():
        manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
        found = {name.removeprefix("tipple-") for name in manifest["dependencies"] if name.startswith("tipple-")}
        assert found <= allowed, crate
        if crate != "python":
            assert "pyo3" not in manifest["dependencies"]


def test_codec_is_pure() -> None:
    impure = re.compile(r"std::(fs|net|thread|time|env|process|io::(Read|stdin))")
    for path in sorted((ROOT / "crates" / "codec" / "src").rglob("*.rs")):
        assert impure.search(path.read_text()) is None, path
