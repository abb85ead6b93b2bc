"""`tipple generate tpch`: bytes, parts, forms, and what must not be left behind."""

from __future__ import annotations

import csv
import datetime
import decimal
import hashlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from tipple.cli.commands import cli
from tipple.errors import Interrupted, TippleError, UsageError
from tipple.plan.tpch import CREATE_TABLE, PRIMARY_KEYS, TABLES
from tipple.run.generate import GenerateReport, generate

SCALE = 0.01

SPLIT_TABLES = tuple(name for name in TABLES if name not in ("region", "nation"))

# Rows and MD5 of `dbgen -s 0.01`, version 2.17.3 of the TPC-H tools, built from its C source.
GOLDEN = {
    "region": (5, "c235841b00d29ad4f817771fcc851207"),
    "nation": (25, "2f588e0b7fa72939b498c2abecd9fbbe"),
    "supplier": (100, "56e0621c472064c2a998757c70b44043"),
    "customer": (1500, "a8aa97edad6d47b183a569759fbd3eec"),
    "part": (2000, "9cce16188c241c25617ca5ed6191e37e"),
    "partsupp": (8000, "c6889c3ed0939ca02475f7fb410cbb50"),
    "orders": (15000, "c8d2008fb47f47f9e56543d4cb0f4e6a"),
    "lineitem": (60175, "4c6d44350a1f7974f56f5d3d7091c2be"),
}

# MD5 of parts that the same dbgen writes with `-s 0.01 -C 7 -S 3` and `-S 7`.
GOLDEN_PARTS = {
    "supplier.tbl.3": "f5e21793d8cbd0f1963e501f3721bcad",
    "supplier.tbl.7": "293a29db94c35e29e44a547e2a69aa24",
    "customer.tbl.3": "84c26a97ed44a5256311d2e8b40892be",
    "customer.tbl.7": "f8f2094f43bd5fc3e92829769b31f8c2",
    "part.tbl.3": "c2503bf2676bc7ca242e295ca7be0b52",
    "part.tbl.7": "e1e27f3458780d08cdb9ccd74b411879",
    "partsupp.tbl.3": "cec15b21fefd11b677bac5ab2ebd728f",
    "partsupp.tbl.7": "653d4cabeb2107cec16dcbf4c29db479",
    "orders.tbl.3": "7a137e0d02c6d50003d29655d15ff88a",
    "orders.tbl.7": "4006d4b3cfe4656a3263850810d52020",
    "lineitem.tbl.3": "27ec76a0440dc80660f2ad6a06e81f4e",
    "lineitem.tbl.7": "0c0e77cadf55f119ae3c972ed80f77fe",
}

# First rows of `dbgen -s 1`, as the documentation of several systems shows them.
FIRST_ROWS_AT_SCALE_1 = {
    "region": "0|AFRICA|lar deposits. blithely final packages cajole. regular waters are final requests. "
    "regular accounts are according to |",
    "nation": "0|ALGERIA|0| haggle. carefully final deposits detect slyly agai|",
    "supplier": "1|Supplier#000000001| N kD4on9OM Ipw3,gf0JBoQDd7tgrzrddZ|17|27-918-335-1736|5755.94|"
    "each slyly above the careful|",
}

MAIN = "import sys; from tipple.cli import main; sys.exit(main())"


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables at `SCALE` as tbl."""
    out = tmp_path_factory.mktemp("whole")
    generate(out=out, scale=SCALE)
    return out


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def records(path: Path) -> list[list[str]]:
    """Fields of the records of a tbl file."""
    lines = path.read_text("ascii").split("\n")
    assert lines.pop() == ""
    assert all(line.endswith("|") for line in lines)
    return [line[:-1].split("|") for line in lines]


def run_command(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", MAIN, "generate", "tpch", *arguments], **options)


@pytest.mark.parametrize("table", TABLES)
def test_the_bytes_are_those_of_dbgen(whole: Path, table: str) -> None:
    content = (whole / f"{table}.tbl").read_bytes()
    rows, md5 = GOLDEN[table]
    assert content.count(b"\n") == rows
    assert hashlib.md5(content).hexdigest() == md5


def test_the_first_rows_are_those_that_are_published(tmp_path: Path) -> None:
    generate(out=tmp_path, scale=1, table=list(FIRST_ROWS_AT_SCALE_1))
    for table, row in FIRST_ROWS_AT_SCALE_1.items():
        with (tmp_path / f"{table}.tbl").open() as file:
            assert file.readline() == row + "\n"


@pytest.mark.parametrize(
    ("scale", "rows"),
    [
        (0.001, {"supplier": 10, "customer": 150, "part": 200, "partsupp": 800, "orders": 1500}),
        # Floating-point arithmetic alone would make 1,799 parts and 13,499 orders of this one.
        (0.009, {"supplier": 90, "customer": 1350, "part": 1800, "partsupp": 7200, "orders": 13500}),
        (0.1, {"supplier": 1000, "customer": 15000, "part": 20000, "partsupp": 80000, "orders": 150000}),
    ],
)
def test_row_counts_follow_the_specification(tmp_path: Path, scale: float, rows: dict[str, int]) -> None:
    report = generate(out=tmp_path, scale=scale)
    counted = {file.table: file.rows for file in report.files}
    assert {name: counted[name] for name in rows} == rows
    assert (counted["region"], counted["nation"]) == (5, 25)
    assert 3.8 < counted["lineitem"] / counted["orders"] < 4.2
    for file in report.files:
        content = Path(file.path).read_bytes()
        assert (len(content), content.count(b"\n")) == (file.bytes, file.rows)


@pytest.mark.parametrize("parts", [2, 3, 7, 48])
def test_joined_parts_are_the_whole(whole: Path, tmp_path: Path, parts: int) -> None:
    generate(out=tmp_path, scale=SCALE, parts=parts)
    expected = {f"{name}.tbl.{part}" for name in SPLIT_TABLES for part in range(1, parts + 1)}
    assert set(names(tmp_path)) == expected | {"region.tbl", "nation.tbl"}
    for name in SPLIT_TABLES:
        joined = b"".join((tmp_path / f"{name}.tbl.{part}").read_bytes() for part in range(1, parts + 1))
        assert joined == (whole / f"{name}.tbl").read_bytes()
    for name in ("region", "nation"):
        assert (tmp_path / f"{name}.tbl").read_bytes() == (whole / f"{name}.tbl").read_bytes()


def test_a_part_alone_is_that_part_of_all(tmp_path: Path) -> None:
    generate(out=tmp_path / "all", scale=SCALE, parts=7)
    for part in range(1, 8):
        generate(out=tmp_path / "alone", scale=SCALE, parts=7, part=part, jobs=1)
    assert names(tmp_path / "alone") == names(tmp_path / "all")
    for name in names(tmp_path / "all"):
        assert (tmp_path / "alone" / name).read_bytes() == (tmp_path / "all" / name).read_bytes()


def test_a_part_has_the_rows_that_dbgen_gives_it(tmp_path: Path) -> None:
    # 15,000 orders in 7 parts: dbgen gives 2,142 to each and the 6 that are left to the last.
    report = generate(out=tmp_path, scale=SCALE, table="orders", parts=7)
    assert [file.rows for file in report.files] == [2142] * 6 + [2148]
    assert [file.part for file in report.files] == list(range(1, 8))


@pytest.mark.parametrize("part", [3, 7])
def test_the_bytes_of_a_part_are_those_of_dbgen(tmp_path: Path, part: int) -> None:
    generate(out=tmp_path, scale=SCALE, parts=7, part=part)
    for name in SPLIT_TABLES:
        content = (tmp_path / f"{name}.tbl.{part}").read_bytes()
        assert hashlib.md5(content).hexdigest() == GOLDEN_PARTS[f"{name}.tbl.{part}"]


def test_there_may_be_more_parts_than_rows(tmp_path: Path) -> None:
    report = generate(out=tmp_path, scale=0.001, table="supplier", parts=11)
    assert [file.rows for file in report.files] == [0] * 10 + [10]
    assert len(names(tmp_path)) == 11


@pytest.mark.parametrize("jobs", [1, 2, 16])
def test_the_number_of_jobs_changes_nothing(whole: Path, tmp_path: Path, jobs: int) -> None:
    assert generate(out=tmp_path, scale=SCALE, jobs=jobs).jobs == jobs
    for name in names(whole):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("table", TABLES)
def test_csv_holds_the_same_values(whole: Path, tmp_path: Path, table: str) -> None:
    generate(out=tmp_path, scale=SCALE, table=table, format="csv")
    content = (tmp_path / f"{table}.csv").read_bytes()
    assert content.count(b"\r\n") == content.count(b"\n") == content.count(b"\r")
    with (tmp_path / f"{table}.csv").open(newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    assert rows == records(whole / f"{table}.tbl")
    assert header == [line.split()[0] for line in CREATE_TABLE[table].splitlines()[1:-1]]


def test_every_csv_part_has_a_header(tmp_path: Path) -> None:
    generate(out=tmp_path, scale=0.001, table="part", format="csv", parts=3)
    assert names(tmp_path) == ["part.1.csv", "part.2.csv", "part.3.csv"]
    for name in names(tmp_path):
        assert (tmp_path / name).read_text().startswith("p_partkey,p_name,")


def text(value: object) -> str:
    """A value of a parquet file as dbgen writes it; `l_quantity` is handled apart."""
    match value:
        case datetime.date():
            return value.isoformat()
        case int() | str() | decimal.Decimal():
            return str(value)
    raise AssertionError(f"{value!r} has an unexpected type")


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("parts", [1, 3])
def test_parquet_holds_the_same_values(whole: Path, tmp_path: Path, table: str, parts: int) -> None:
    report = generate(out=tmp_path, scale=SCALE, table=table, format="parquet", parts=parts)
    tables = [pyarrow.parquet.read_table(file.path) for file in report.files]
    assert [len(part) for part in tables] == [file.rows for file in report.files]
    assert [Path(file.path).stat().st_size for file in report.files] == [file.bytes for file in report.files]
    whole_table = pyarrow.concat_tables(tables)
    columns = [[text(value) for value in column.to_pylist()] for column in whole_table.columns]
    if table == "lineitem":
        # dbgen writes quantities, which are decimals, without decimals.
        columns[4] = [value.removesuffix(".00") for value in columns[4]]
    assert [list(row) for row in zip(*columns, strict=True)] == records(whole / f"{table}.tbl")


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_parquet_is_compressed_as_asked(tmp_path: Path, compression: Any) -> None:
    generate(out=tmp_path, scale=0.001, table="orders", format="parquet", compression=compression)
    metadata = pyarrow.parquet.read_metadata(tmp_path / "orders.parquet")
    expected = "UNCOMPRESSED" if compression == "none" else compression.upper()
    assert metadata.row_group(0).column(0).compression == expected


def test_row_groups_are_in_order(tmp_path: Path) -> None:
    generate(out=tmp_path, scale=0.2, table="orders", format="parquet", jobs=4)
    metadata = pyarrow.parquet.read_metadata(tmp_path / "orders.parquet")
    keys = [metadata.row_group(n).column(0).statistics for n in range(metadata.num_row_groups)]
    assert metadata.num_row_groups > 1
    assert all(one.max < next_one.min for one, next_one in itertools.pairwise(keys))


def test_the_tables_are_those_of_the_specification() -> None:
    assert set(CREATE_TABLE) == set(PRIMARY_KEYS) == set(TABLES)
    for name, statement in CREATE_TABLE.items():
        columns = [line.split()[0] for line in statement.splitlines()[1:-1]]
        assert set(PRIMARY_KEYS[name]) <= set(columns)
        assert statement.startswith(f"CREATE TABLE {name} (")
        assert statement.count("NOT NULL") == len(columns)
    assert sum(statement.count("NOT NULL") for statement in CREATE_TABLE.values()) == 61


def test_values_fit_the_declared_lengths(whole: Path) -> None:
    for name, statement in CREATE_TABLE.items():
        for number, line in enumerate(statement.splitlines()[1:-1]):
            kind = line.split()[1]
            if "char(" in kind:
                limit = int(kind[kind.index("(") + 1 : kind.index(")")])
                assert max(len(record[number]) for record in records(whole / f"{name}.tbl")) <= limit


def test_an_existing_file_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "lineitem.tbl").write_text("mine")
    with pytest.raises(UsageError, match=r"lineitem\.tbl exists already") as caught:
        generate(out=tmp_path, scale=SCALE)
    assert caught.value.hint is not None
    assert "--force" in caught.value.hint
    assert names(tmp_path) == ["lineitem.tbl"]
    assert (tmp_path / "lineitem.tbl").read_text() == "mine"


def test_force_replaces(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "nation.tbl").write_text("mine")
    generate(out=tmp_path, scale=SCALE, force=True, fsync=True)
    assert names(tmp_path) == names(whole)
    assert (tmp_path / "nation.tbl").read_bytes() == (whole / "nation.tbl").read_bytes()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("orders.tbl", {}),
        ("nation.tbl", {"parts": 2}),
        ("orders.tbl.2", {"parts": 2}),
        ("orders.2.csv", {"parts": 2, "part": 2, "format": "csv"}),
    ],
)
def test_force_does_not_replace_a_directory(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    """Nothing else is replaced either: all or nothing."""
    (tmp_path / name).mkdir()
    (tmp_path / "region.tbl").write_text("mine")
    with pytest.raises(UsageError, match=rf"{re.escape(name)} is a directory") as caught:
        generate(out=tmp_path, scale=SCALE, force=True, **options)
    assert caught.value.hint is not None
    assert (tmp_path / "region.tbl").read_text() == "mine"
    assert names(tmp_path) == sorted([name, "region.tbl"])
    # One that is in nobody's way may stay.
    (tmp_path / name).rename(tmp_path / "orders.tbl.3")
    generate(out=tmp_path, scale=SCALE, force=True, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 0}, "--scale"),
        ({"scale": -1}, "--scale"),
        ({"scale": float("nan")}, "--scale"),
        ({"scale": float("inf")}, "--scale"),
        ({"scale": 0.0001}, "--scale"),
        ({"scale": 100000}, "--scale"),
        ({"table": "lineitems"}, "lineitems"),
        ({"table": []}, "no table"),
        ({"parts": 0}, "--parts must be a whole number from 1 to 100000, and not 0"),
        ({"parts": 100_001, "force": True}, "--parts must be a whole number from 1 to 100000, and not 100001"),
        ({"parts": 10**12, "force": True}, "--parts must be a whole number from 1 to 100000"),
        ({"parts": 2**70}, "--parts must be a whole number from 1 to 100000"),
        ({"part": 1}, "--parts"),
        ({"parts": 4, "part": 5}, "--part 5"),
        ({"parts": 4, "part": 0}, "--part must be a whole number from 1 to 100000, and not 0"),
        ({"jobs": 0}, "--jobs"),
        ({"jobs": 100000}, "--jobs"),
        ({"format": "text"}, "text"),
        ({"compression": "lz4"}, "lz4"),
        ({"format": "csv", "compression": "zstd"}, "--compression is of parquet files, and csv is not compressed"),
    ],
)
def test_a_bad_option_starts_nothing(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        generate(out=tmp_path / "out", **options)
    assert caught.value.exit_status == 2
    assert not (tmp_path / "out").exists()


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(TippleError, match="out") as caught:
        generate(out=tmp_path / "out", scale=SCALE)
    assert caught.value.hint is not None


def test_a_directory_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="cannot create the directory /proc/x") as caught:
        generate(out="/proc/x", scale=SCALE)
    assert caught.value.hint is not None


def test_a_directory_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    # Root may write everywhere, so root becomes somebody else (65534 is "nobody").
    script = (
        "import os, sys; from tipple.run.generate import generate; from tipple.errors import TippleError\n"
        "if os.geteuid() == 0: os.seteuid(65534)\n"
        "try: generate(out=sys.argv[1], scale=0.001)\n"
        "except TippleError as error: print(error, error.hint, sep='; ')"
    )
    try:
        ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=True)
    finally:
        tmp_path.chmod(0o700)
    assert b"Permission denied" in ended.stdout
    assert b"You may not write to" in ended.stdout
    assert str(tmp_path).encode() in ended.stdout
    assert names(tmp_path) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a size limit that raises no signal")
@pytest.mark.parametrize("form", ["tbl", "parquet"])
def test_a_failed_write_names_the_file_and_leaves_nothing(tmp_path: Path, form: str) -> None:
    # Python ignores SIGXFSZ, so a file that outgrows the limit is a failed write.
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); {MAIN}"
    arguments = ["--table", "lineitem", "--format", form, "--out", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-c", limited, "generate", "tpch", "--scale", "0.05", *arguments],
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 1
    assert b"lineitem." + form.encode() in ended.stderr
    assert b"--parts" in ended.stderr
    assert names(tmp_path) == []


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    process = run_command("--scale", "100", "--out", str(tmp_path), stderr=subprocess.PIPE)
    wait_for_bytes(tmp_path)
    assert all(name.startswith(".tipple-partial-") for name in names(tmp_path))
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    process.communicate(timeout=60)
    assert time.monotonic() - started < 5
    assert process.returncode == 130
    assert names(tmp_path) == []


def test_ctrl_c_in_the_library_is_an_interruption(tmp_path: Path) -> None:
    timer = threading.Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(Interrupted):
            generate(out=tmp_path, scale=1000, table="lineitem")
    finally:
        timer.cancel()
    assert names(tmp_path) == []


def test_a_failing_progress_function_stops_the_job(tmp_path: Path) -> None:
    def fail(_snapshot: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        generate(out=tmp_path, scale=1000, table="lineitem", on_progress=fail)
    assert names(tmp_path) == []


def test_a_killed_process_leaves_no_file_under_its_name_and_is_tidied_by_the_next(tmp_path: Path) -> None:
    process = run_command("--scale", "100", "--out", str(tmp_path), stderr=subprocess.PIPE)
    wait_for_bytes(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    (left,) = names(tmp_path)
    assert left.startswith(".tipple-partial-")
    generate(out=tmp_path, scale=0.001, table="region")
    assert names(tmp_path) == ["region.tbl"]


def wait_for_bytes(directory: Path) -> None:
    """Waits until something has been written below the directory."""
    for _ in range(600):
        if any(path.is_file() and path.stat().st_size for path in directory.rglob("*")):
            return
        time.sleep(0.1)
    raise AssertionError("nothing is written")


def test_the_command_prints_a_table(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["generate", "tpch", "--scale", "0.001", "--out", str(tmp_path), "-j", "1"])
    assert result.exit_code == 0, result.output
    assert "lineitem" in result.stdout
    assert "6,005" in result.stdout
    assert result.stderr == ""


def test_the_command_prints_json(tmp_path: Path) -> None:
    arguments = [
        "tpch",
        "--scale",
        "0.001",
        "--table",
        "region",
        "--table",
        "part",
        "--out",
        str(tmp_path),
        "--json",
    ]
    result = CliRunner().invoke(cli, ["generate", *arguments])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert set(report) == set(GenerateReport.__struct_fields__)
    assert [file["table"] for file in report["files"]] == ["region", "part"]
    assert report["rows"] == 205
    assert [file["path"] for file in report["files"]] == [str(tmp_path / f"{t}.tbl") for t in ("region", "part")]


def test_progress_goes_to_stderr(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        cli, ["generate", "tpch", "--scale", "0.5", "--out", str(tmp_path), "--progress", "json", "--json"]
    )
    assert result.exit_code == 0, result.output
    json.loads(result.stdout)
    snapshots = [json.loads(line) for line in result.stderr.splitlines()]
    assert snapshots
    assert all(one["rows"] <= other["rows"] for one, other in itertools.pairwise(snapshots))
    assert snapshots[-1]["phase"] in ("generate", "publish")


@pytest.mark.parametrize(
    "arguments",
    [[], ["--out", "x", "--table", "lineitems"], ["--out", "x", "--scale", "one"], ["--out", "x", "-j", "0"]],
)
def test_wrong_usage_of_the_command(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["generate", "tpch", *arguments])
    assert result.exit_code == 2
    assert not Path("x").exists()


def test_the_help_teaches_by_example() -> None:
    result = CliRunner().invoke(cli, ["generate", "tpch", "--help"])
    assert result.exit_code == 0
    assert "tipple generate tpch --scale 100 --table lineitem --parts 48 --part 7 --out data" in result.output
