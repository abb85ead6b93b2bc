"""Quotes that are missing or too many take no record with them, and those that are right are not taken for such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extension.pages import make_ready
from loading import load
from spoilt import told
from targets import PostgresTarget, Target, write

SKIP: dict[str, Any] = {"format": "csv", "header": "no", "on_error": "skip", "max_rejects": "100%"}


@pytest.mark.parametrize("ending", [",x", None], ids=["extra field", "missing field"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("escape", [None, "\\"])
def test_several_lines_in_quotes_that_are_right(
    engine_target: Target, tmp_path: Path, ending: str | None, end: str, escape: str | None
) -> None:
    """Inside out, the records behind one with another number of fields look like records too."""
    engine_target.execute("CREATE TABLE t (a varchar, b varchar)")
    inner = '""' if escape is None else '\\"'
    texts = [f'"Dear {inner}Sir{inner}, hello{end}foo {n}"' for n in range(100)]
    records = [f"k{n},{text}{end}" for n, text in enumerate(texts)]
    records[6] = texts[6] + end if ending is None else f"k6,{texts[6]}{ending}{end}"
    rejects = tmp_path / "bad"
    load(engine_target, write(tmp_path / "in.csv", "".join(records)), **SKIP, escape=escape, rejects=rejects, check=3)
    stored = [(f"k{n}", f'Dear "Sir", hello{end}foo {n}') for n in range(100) if n != 6]
    assert sorted(engine_target.rows("SELECT * FROM t")) == sorted(stored)
    assert rejects.read_bytes() == records[6].encode()


@pytest.mark.parametrize("limit", ["64KiB", "250kB", None])
@pytest.mark.parametrize("third", [True, False])
def test_whole_records_behind_a_stray_quote_are_not_too_long(
    engine_target: Target, tmp_path: Path, limit: str | None, third: bool
) -> None:
    """What is left of a window then is no record that goes on and on."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c integer)")
    records = [f"{n},abcdefg,{n % 7}\n" for n in range(40_000)]
    stray = {50: '50,abc"defg,1\n', 60: '60,abcdefg,"1\n'} | ({70: '70,abc"defg,1\n'} if third else {})
    for n, record in stray.items():
        records[n] = record
    rejects = tmp_path / "bad"
    path = write(tmp_path / "in.csv", "".join(records))
    load(engine_target, path, **SKIP, rejects=rejects, max_record_size=limit, jobs=1, check=3)
    assert rejects.read_text() == "".join(stray.values())
    assert engine_target.count("t") == 40_000 - len(stray)
    assert len(told(rejects)) == len(stray)


def test_slices_behind_a_stray_quote(engine_target: Target, tmp_path: Path) -> None:
    """Lines within a text of several lines are no records, though they look like some."""
    engine_target.execute("CREATE TABLE t (a integer, b varchar, c integer)")
    lines = [
        f'{n},"mail:\n-{n},forwarded,7\nend",3\n' if n % 300 == 0 else f"{n},{'t' * 90},{n % 100}\n"
        for n in range(200_000)
    ]
    lines[5] = '5,"abc,1\n'
    rejects = tmp_path / "bad"
    path = write(tmp_path / "in.csv", "".join(lines))
    run = load(engine_target, path, **SKIP, rejects=rejects, verify="checksum", check=3)
    assert run.summary is not None
    assert run.summary["slices"] > 2
    assert rejects.read_text() == lines[5]
    assert engine_target.rows("SELECT count(*), min(a) FROM t") == [(199_999, 0)]


def test_a_value_that_only_the_server_reads_has_no_digest(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """Without a ledger too the rows by pages are then verified by their count."""
    make_ready(postgres_target.server, postgres_target.database)
    postgres_target.execute("CREATE TABLE t (at date)")
    path = write(tmp_path / "in.csv", "2024-02-29\n" * 2000 + '"January 8, 1999"\n' + "2024-02-29\n" * 2000)
    run = load(postgres_target, path, header="no", verify="checksum", no_ledger=True, write_path="direct")
    assert run.summary is not None
    assert run.summary["verify"]["kind"] == "count"
    assert postgres_target.count("t") == 4001
