"""Job files: what they may say, and how what is wrong in one is said: with file, line and key."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tipple
from targets import write
from tipple.errors import UsageError
from tipple.plan.toml_lines import key_lines
from tipple.run.jobfile import JobFile, read_job_file
from tipple.run.options import option_types


def read(tmp_path: Path, text: str, environment: dict[str, str] | None = None, **settings: str) -> JobFile:
    return read_job_file(write(tmp_path / "job.toml", text), settings, environment or {})


def options(job: JobFile) -> dict[str, dict[str, Any]]:
    return {table.name: table.options for table in job.tables}


def test_defaults_variables_and_order(tmp_path: Path) -> None:
    job = read(
        tmp_path,
        """
        publish = "together"
        jobs = "${streams}"
        [variables]
        root = "${env:ROOT}/tpch"
        data = "${root}/day"
        streams = 2
        [defaults]
        sources = "${data}/${table}.tbl"
        into = "postgresql://me:${env:PASSWORD:-none}@db/x"
        on-error = "skip"
        max-rejects = 5
        [tables.lineitem]
        after = ["orders", "part"]
        sources = ["${here}/a", "b"]
        jobs = "${streams}"
        max-rejects = "1%"
        [tables.part]
        null = "$${no}"
        [tables.orders]
        after = "part"
        atomic = false
        """,
        {"ROOT": "/data"},
        streams="4",
    )
    assert (job.publish, job.jobs) == ("together", 4)
    assert [table.name for table in job.tables] == ["part", "orders", "lineitem"]
    found = options(job)
    assert found["part"] == {
        "table": "part",
        "sources": "/data/tpch/day/part.tbl",
        "into": "postgresql://me:none@db/x",
        "on_error": "skip",
        "max_rejects": 5,
        "null": "${no}",
    }
    assert found["lineitem"]["sources"] == [f"{tmp_path}/a", "b"]
    assert (found["lineitem"]["jobs"], found["lineitem"]["max_rejects"]) == (4, "1%")
    assert found["orders"]["atomic"] is False
    assert job.tables[1].place == f"{tmp_path}/job.toml, line 20"


def test_includes(tmp_path: Path) -> None:
    """What includes counts more than what is included; a file that comes in twice counts once."""
    write(
        tmp_path / "sub/base.toml",
        "jobs = 7\n[variables]\na = 'base'\nb = 'base'\n[tables.x]\nsources = '${here}/${a}'",
    )
    write(tmp_path / "more.toml", "include = 'sub/base.toml'\n[variables]\nb = 'more'\n[defaults]\nschema = '${b}'")
    job = read(tmp_path, "include = ['sub/base.toml', '${file}.toml']\n[variables]\na='top'\n", file="more")
    assert options(job) == {"x": {"table": "x", "sources": f"{tmp_path}/sub/top", "schema": "more"}}
    assert job.jobs == 7


def test_here_is_where_it_stands(tmp_path: Path) -> None:
    """In a variable of an included file too, wherever that is used; in a setting, where that is used."""
    write(tmp_path / "sub/base.toml", "[variables]\ndata = '${here}/in'\nfile = '${data}/a'\nother = ''\n")
    text = "include = 'sub/base.toml'\n[tables.x]\nsources = ['${file}', '${here}/b', '${other}']"
    found = options(read(tmp_path, text, other="${here}/c"))["x"]["sources"]
    assert found == [f"{tmp_path}/sub/in/a", f"{tmp_path}/b", f"{tmp_path}/c"]


def test_options_are_those_of_load() -> None:
    """One list: every option of the library is a key, spelled as on the command line, but for those of a whole run."""
    of_load = {name.replace("_", "-") for name in inspect.signature(tipple.load).parameters if name[0] != "_"}
    assert of_load - set(option_types()) == {"dry-run", "progress", "resume", "restart"}


def test_the_guides_job(tmp_path: Path) -> None:
    guide = (Path(__file__).parent.parent / "docs" / "guide.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```toml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    write(tmp_path / "common.toml", "")
    job = read(tmp_path, text, {"DAY": "monday"})
    assert [table.name for table in job.tables] == ["customer", "orders", "sales.detail"]
    assert options(job)["orders"]["sources"] == "/data/monday/orders.csv.gz"


T = "[tables.t]\nsources = 'x'\n"


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("a = \n", "job.toml, line 1, column 5: Invalid value", "toml.io"),
        ("\npublsh = 'each'\n" + T, "line 2: publsh: no such key", "did you mean publish?"),
        ("publish = 'all'\n" + T, "line 1: publish: 'all' is none of each, together", None),
        ("[[tables]]\nsources = 'x'\n", "line 1: tables: tables have names, and are neither", "write [tables.NAME]"),
        ("tables = 3\n", "line 1: tables: tables have names, and are neither", "write [tables.NAME]"),
        ("[tables]\nt = 'x'\n", "line 2: tables.t: a table has options, and is no value", "write [tables.t]"),
        ("into = 'duckdb:'\n" + T, "line 1: into: no such key", "options stand under [defaults]"),
        ("[tables.t]\nfiles = 'x'\n", "line 2: tables.t.files: no such key", "did you mean sources?"),
        ("[tables.s.t]\nsources = 'x'\n", "line 1: tables.s.t: no such key", 'in quotes: [tables."s.t"]'),
        (T + "memory-limit = 500.5\n", "line 3: tables.t.memory-limit: expected", 'or a size in quotes: "500MB"'),
        (T + "max-rejects = 0.5\n", "line 3: tables.t.max-rejects: expected", 'or a share in quotes: "0.5%"'),
        (T + "streams = 2\n", "line 3: tables.t.streams: no such key", "jobs = N, above [defaults] and [tables]"),
        ("jobs = 'many'\n" + T, "line 1: jobs: expected int, got str", None),
        ("jobs = '4'\n" + T, "line 1: jobs: expected int, got str", None),
        ("jobs = 0\n" + T, "line 1: jobs: must be a whole number from 1 to 65535, and not 0", None),
        ("jobs = 100000000000000000000\n" + T, "line 1: jobs: ", None),
        (T + "retry-for = -1\n", "line 3: tables.t.retry-for: must be a whole number from 0 to", None),
        (T + "stall-timeout = 0\n", "line 3: tables.t.stall-timeout: must be a whole number from 1 to", None),
        (T + "max-record-size = -1\n", "line 3: tables.t.max-record-size: must be", None),
        (T + "table = 'a b'\n", "line 3: tables.t.table: 'a b' is not a table name", "double quotes"),
        ("[tables.'a b']\nsources = 'x'\n", "line 1: tables.\"a b\": 'a b' is not a table name", "double quotes"),
        (T + "into = 'oracle://x'\n", "line 3: tables.t.into: unknown scheme 'oracle'", "duckdb:///"),
        ("[defaults]\ninto = ''\n" + T, "line 2: defaults.into: the target's URL is empty", None),
        ("[defaults]\nskip-lines = -1\n" + T, "line 2: defaults.skip-lines: must be a whole number from 0", None),
        ("jobs = 1\n", "the job has no tables", "[tables.NAME]"),
        ("[tables.t]\nschema = 'tpch'\n", "line 1: tables.t: the table has no sources", None),
        ("[tables.t]\nsources = '-'\n", "line 2: tables.t.sources: standard input", "tipple load"),
        (T + "write_path = 'text'\n", "line 3: tables.t.write_path: no such key", "did you mean write-path?"),
        (T + "header = 'maybe'\n", "line 3: tables.t.header: 'maybe' is none of yes, no, match", None),
        (T + "ledger = 'off'\n", "line 3: tables.t.ledger: expected bool, got str", None),
        (T + "key = 'a, b'\n", "line 3: tables.t.key: expected array, got str", 'key = ["a", "b"]'),
        (T + "key = '\"A\"'\n", "line 3: tables.t.key: expected array, got str", None),
        (T + "sources2 = 1\n", "line 3: tables.t.sources2: no such key", "did you mean sources?"),
        (T + "dry-run = true\n", "line 3: tables.t.dry-run: no such key", "tipple run --dry-run"),
        (T + "resume = 'd238'\n", "line 3: tables.t.resume: no such key", "run again"),
        (T + "no-atomic = true\n", "line 3: tables.t.no-atomic: no such key", "atomic = false"),
        ("[defaults]\n\ncolumns = ['a', 1]\n" + T, "line 3: defaults.columns: expected str, got int", None),
        ("[defaults]\nafter = ['a']\n" + T, "line 2: defaults.after: no table comes after others by default", None),
        (T + "null = '${nope}'\n", "line 3: tables.t.null: the variable nope has no value", "--set nope=…"),
        ("[tables.t]\nsources = [\n'x',\n'${nope}'\n]\n", "line 4: tables.t.sources: the variable nope", "--set nope"),
        ("[tables.t]\nsources = [\n'x',\n\n3]\n", "line 5: tables.t.sources: expected str, got int", None),
        (T + "null = '${nul}'\n[variables]\nnull=''\n", "the variable nul has no value", "did you mean null?"),
        (T + "null = '${env:NOT_THERE}'\n", "tables.t.null: the environment has no variable NOT_THERE", "set it"),
        ("[defaults]\nnull = ''\ntables.a.sources = 'x'\n", "line 3: defaults.tables: no such key", "[tables.NAME]"),
        ("[variables]\na = ['x']\n" + T + "null = 'q${a}'\n", "tables.t.null: the variable a is a list", "${a}"),
        (
            "[variables]\na = 'x'\ntables.a.sources = 'x'\n" + T,
            "line 3: variables.tables.a.sources: a variable is a value",
            "write [tables.NAME]",
        ),
        ("[variables]\ndefaults.null = 'x'\n", "line 2: variables.defaults.null: a variable is a value", "[defaults]"),
        (T + "null = '${a'\n", "line 3: tables.t.null: ${ without its }", "$${"),
        (T + "null = '${a b}'\n", "line 3: tables.t.null: ${a b} is not a reference", "${env:NAME}"),
        ("[variables]\na='${b}'\nb='x${a}'\n" + T + "null='${a}'", "the variable a is made of itself: a → b → a", None),
        ("[variables]\n'a b' = 1\n" + T, 'line 2: variables."a b": not a name', None),
        ("include = 'no.toml'\n" + T, "line 1: include: there is no file", "relative to the file"),
        ("include = [\n'a.toml',\n'no.toml']\n" + T, "line 3: include: there is no file", None),
        (T + "after = ['s']\n", "line 3: tables.t.after: there is no table s in the job", "tables of the job: t"),
        (T + "after = 't'\n", "these tables wait for each other: t → t", None),
        (
            T + "after = 'u'\n[tables.u]\nsources='x'\nafter = ['v']\n[tables.v]\nsources='x'\nafter = ['t']\n",
            "line 3: tables.t.after: these tables wait for each other: t → u → v → t",
            "v: ",
        ),
        (T + "[tables.u]\nsources='y'\ntable='T'\n", "u and t", 'after = ["t"]'),
        (
            T + "".join(f"[tables.{name}]\nsources='y'\ntable='t'\nafter='t'\n" for name in "uv"),
            "line 7: v and u (",
            'after = ["u"]',
        ),
        ("[defaults]\nrejects='r'\n" + T + "[tables.u]\nsources='y'\n", "one file for their rejects", "${table}"),
        ("include = '.'\n" + T, "line 1: include: ", "the files in it"),
        (T + "jobs = 1\njobs = 2", "line 4: ", "syntax"),
        ("publish='together'\n" + T + "[tables.u]\nsources='y'\ntable='t'\nafter='t'", "the same table", "all sources"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, text: str, said: str, hint: str | None) -> None:
    write(tmp_path / "a.toml", "")
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
    assert str(tmp_path / "job.toml") in str(caught.value)
    assert hint is None or hint in (caught.value.hint or "")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = write(tmp_path / "job.toml", b"\xef\xbb\xbf[tables.t]\nsources = 'a.csv'\nfoo = 1\n")
    with pytest.raises(UsageError, match=r"job.toml, line 3: tables.t.foo: no such key"):
        read_job_file(path, {}, {})


def test_an_include_that_no_file_can_be(tmp_path: Path) -> None:
    path = write(tmp_path / "job.toml", 'include = "\\u0000"\n')
    with pytest.raises(UsageError, match=r"job.toml, line 1: include: there is no file"):
        read_job_file(path, {}, {})


def test_a_long_chain_of_tables(tmp_path: Path) -> None:
    """Each comes after the one that is written behind it."""
    count = 2000
    entries = [f"[tables.t{n}]\nsources = 'x'\nafter = 't{n + 1}'\n" for n in range(count - 1)]
    entries.append(f"[tables.t{count - 1}]\nsources = 'x'\n")
    job = read(tmp_path, "".join(entries))
    assert [table.name for table in job.tables] == [f"t{n}" for n in reversed(range(count))]


def test_a_circle_of_includes(tmp_path: Path) -> None:
    write(tmp_path / "a.toml", "\ninclude = ['b.toml']\n")
    write(tmp_path / "b.toml", "include = 'job.toml'\n")
    with pytest.raises(UsageError) as caught:
        read(tmp_path, "include = ['a.toml']\n" + T)
    for name in ("job.toml → ", "a.toml → ", "b.toml, line 1: include: "):
        assert name in str(caught.value)


def test_a_table_in_two_files(tmp_path: Path) -> None:
    write(tmp_path / "a.toml", "\n" + T)
    with pytest.raises(UsageError, match=r"job.toml, line 2: tables.t: .* already: .*a.toml, line 2"):
        read(tmp_path, "include = ['a.toml']\n" + T)


def test_a_setting_that_nothing_asks_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--set steams: .* has no such variable") as caught:
        read(tmp_path, "[variables]\nstreams = 1\n" + T, steams="3")
    assert caught.value.hint == "did you mean streams?"
    for own in ("here", "table"):
        with pytest.raises(UsageError, match=f"--set {own}: the job itself knows"):
            read(tmp_path, T + "rejects = '${table}'\n", **{own: "3"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jobs = '${x}'\n" + T, "--set x: {file}, line 1: jobs: expected int, got str"),
        ("[defaults]\nmode = '${x}'\n" + T, "--set x: {file}, line 2: defaults.mode: 'bad' is none of append"),
        ("[variables]\ny = '${x}'\n" + T + "jobs = '${y}'\n", "--set x: {file}, line 5: tables.t.jobs: expected int"),
        (T + "into = '${x}'\n", "--set x: {file}, line 3: tables.t.into: the target 'bad' is not a URL"),
        (T + "jobs = 'bad'\nrejects = '${x}'\n", "{file}, line 3: tables.t.jobs: expected int"),
    ],
)
def test_a_setting_that_does_not_fit(tmp_path: Path, text: str, said: str) -> None:
    """It is the command line that has to change, and not the file."""
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text, x="bad")
    assert str(caught.value).startswith(said.format(file=tmp_path / "job.toml"))
    assert (caught.value.hint == "give another value there") == said.startswith("--set")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no job file"):
        read_job_file(tmp_path / "none.toml", {}, {})
    with pytest.raises(UsageError, match="cannot read the job file"):
        read_job_file(tmp_path, {}, {})
    latin = write(tmp_path / "latin.toml", b"# caf\xc3\xa9\n# caf\xe9\n")
    with pytest.raises(UsageError, match="line 2: not UTF-8"):
        read_job_file(latin, {}, {})


TOML = '''# [not.a.table]
title = "a # b ] \\" c"   # a comment
"quoted key" = 'literal \\'
dotted.key . "with.dot" = 1
multi = """
[no.table]
x = 1\\"""" # three and one
lines = \'\'\'
it''s \'\'\'
list = [ # comment ]
  1, [2, 3],
  { a = "}", b.c = [4,
   5] },
]
date = 1979-05-27T07:32:00-08:00
[a.b]
c = true
[[a.list]]
d = 1
[[a.list]]
d = 2
[a.list.sub]
e = "x"
'''


def paths(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key)
        yield from paths(inner, (*above, key))


def test_lines_of_keys() -> None:
    """Every key that `tomllib` reads has its line, and it is the one on which the key is written."""
    content = tomllib.loads(TOML)
    for ends in ("\n", "\r\n"):
        found = key_lines(TOML.replace("\n", ends))
        assert set(paths(content)) <= set(found)
        written = TOML.splitlines()
        for path, line in found.items():
            if isinstance(path[-1], str) and path[-1] != "list":
                assert path[-1] in written[line - 1], (path, line)
        assert found["list", 2, "b", "c", 1] == 13
        assert found["a", "list", 1, "sub", "e"] == 23
