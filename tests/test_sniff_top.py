"""Records at the top that are none: dashes, types and units below the names of columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from sniffing import sniff
from targets import write

TYPED = "1,N1,1.50\n2,N2,2.50\n3,N3,3.50\n4,N4,4.50\n"
TEXTS = "Wien,AT\nGraz,AT\nLinz,AT\n"


@pytest.mark.parametrize(
    ("names", "below", "rest", "columns", "header"),
    [
        ("id,name,amount", "--,----,------", TYPED, (0, 2), "yes"),
        ("foo,bar,baz", "---,---,---", TYPED, (0, 2), "yes"),
        ("id  ,name,amount", "----,----,------", TYPED, (0, 2), "yes"),
        ("stadt,land", "-----,----", TEXTS, (), "yes"),
        ("ab,cd", "==,==", "1,2\n3,4\n", (0, 1), "yes"),
        ("id,name,amount", "UInt64,LowCardinality(String),Decimal(18 2)", TYPED, (0, 2), "yes"),
        ("foo,bar,baz", "bigint,varchar(5),double precision", TYPED, (0, 2), "yes"),
        ("time,name,value", "s,,m/s", TYPED, (0, 2), "yes"),
        ("t,n,v", "s,,m/s", TYPED, (0, 2), "yes"),
        ("t 1,n,v 2", "s,,m/s", TYPED, (0, 2), "no"),
        ('"id\nx",name,amount', "s,,m", TYPED, (0, 2), "no"),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_stands_below_the_names(
    tmp_path: Path, names: str, below: str, rest: str, columns: tuple[int, ...], header: str, mark: str
) -> None:
    for end in ("\n", "\r\n"):
        text = f"{mark}{names}\n{below}\n{rest}".replace("\n", end)
        sniffed = sniff(write(tmp_path / "a.csv", text))
        assert sniffed.top is not None
        assert (sniffed.top.records, sniffed.top.columns, sniffed.header.value) == (2, columns, header)
        assert sniffed.top.lines == 2 + names.count("\n")
        assert sniffed.top.texts == tuple(below.split(","))


@pytest.mark.parametrize(
    "text",
    [
        "id,name,amount\n" + TYPED,
        # A record with a value, one of a few, one among others like it, words for NULL.
        "id,code\n1,A7\n2,15\n3,16\n4,17\n",
        "name,score\nAnna,absent\nBob,5\nEve,7\n",
        "name,score\nAnna,absent\nBob,5\nEve,7\nCid,absent\nDan,late\n",
        "a,b\n--,--\n" + TEXTS,
        # A title above the names.
        "Report,,\nId,Name,Sum\n" + TYPED,
        "Report 2024\nId,Name,Sum\n" + TYPED,
        "",
        "a\n",
        "a,b\n--,--",
    ],
)
def test_what_is_nothing_of_the_kind(tmp_path: Path, text: str) -> None:
    assert sniff(write(tmp_path / "a.csv", text)).top is None


def test_a_record_that_lacks_its_number(tmp_path: Path) -> None:
    """It is one, and keeps its column from being one of numbers."""
    top = sniff(write(tmp_path / "a.csv", "Anna,n.a.\nBob,7\nEve,8\nCid,9\n")).top
    assert top is not None
    assert (top.records, top.texts, top.columns) == (1, ("Anna", "n.a."), (1,))
    # What is in doubt anyway is said already.
    assert sniff(write(tmp_path / "b.csv", "Anna,<5\nBob,7\nEve,8\nCid,9\n")).top is None
