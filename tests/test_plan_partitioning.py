"""`--partition-by` as text, and the names of new partitions."""

from __future__ import annotations

import pytest

from tipple.errors import UsageError
from tipple.plan.hive import hive_column
from tipple.plan.partitioning import PartitionBy, parse_partition_by, partition_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("range(L_Orderkey, every=250000000)", PartitionBy(method="range", columns=("l_orderkey",), every="250000000")),
        (' RANGE ( "Day" ,every = Year ) ', PartitionBy(method="range", columns=("Day",), every="year")),
        ("range(a, every=0.5)", PartitionBy(method="range", columns=("a",), every="0.5")),
        ("range(a, every=1_000)", PartitionBy(method="range", columns=("a",), every="1000")),
        (
            "range(a, bounds=[-1, 5,'7'])",
            PartitionBy(method="range", columns=("a",), boundaries=(("-1",), ("5",), ("7",))),
        ),
        (
            "range(a, b, bounds=[(1, 'it''s'), (2, x)])",
            PartitionBy(method="range", columns=("a", "b"), boundaries=(("1", "it's"), ("2", "x"))),
        ),
        # What is in quotes may be texts, whose order it is.
        (
            "range(a, bounds=['10', '9', 8])",
            PartitionBy(method="range", columns=("a",), boundaries=(("10",), ("9",), ("8",))),
        ),
        (
            "range(d, bounds=[1995-01-01, '1996-01-01 00:00'])",
            PartitionBy(method="range", columns=("d",), boundaries=(("1995-01-01",), ("1996-01-01 00:00",))),
        ),
        (
            "list(k, values=[A, [N, 'R, S'], null])",
            PartitionBy(method="list", columns=("k",), values=(("A",), ("N", "R, S"), (None,))),
        ),
        ("hash(a, 8)", PartitionBy(method="hash", columns=("a",), count=8)),
        ("hash(a, b, 2)", PartitionBy(method="hash", columns=("a", "b"), count=2)),
    ],
)  # fmt: skip
def test_what_can_be_said(text: str, expected: PartitionBy) -> None:
    assert parse_partition_by(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "lacks range, list or hash"),
        ("tree(a, every=5)", "begins with 'tree'"),
        ("range", "lacks '('"),
        ("range(a)", "does not say which partitions"),
        ("range(a, every=5", "lacks ')'"),
        ("range(a, every=5) x", "goes on with 'x'"),
        ("range(a, every=0)", "not above 0"),
        ("range(a, every=-5)", "not above 0"),
        ("range(a, every=1e999999999)", "no key is as large"),
        ("range(a, every=1e-999999999)", "no key is as large"),
        ("range(a, every=fortnight)", "not a number or one of day"),
        ("range(a, b, every=5)", "several columns"),
        ("range(a, a, bounds=[(1, 1)])", "names a column twice"),
        ("range(a, bounds=[5, 3])", "overlap"),
        ("range(a, bounds=[5, 5])", "overlap"),
        ("range(a, bounds=[x, y, x])", "twice"),
        ("range(a, bounds=[null])", "NULL belongs to no range"),
        ("range(a, bounds=[(1, 2)])", "2 values for 1 columns"),
        ("range(a, bounds=[])", "lacks a value"),
        ("range(a, values=[1])", "every= or bounds="),
        ("list(a, values=[x, [y, x]])", "value x twice"),
        ("list(a, b, values=[1])", "several columns"),
        ('list(a, values=["x"])', "double quotes"),
        ("range(a, bounds=['5', '5'])", "twice"),
        ("range(a, bounds=['9', 5, 3])", "overlap"),
        ("hash(a, 0)", "0 partitions"),
        ("hash(a, ²)", "² partitions, and not 1 to 10000"),
        ("hash(a, count=٣)", "٣ partitions, and not 1 to 10000"),
        (f"hash(a, {'1' * 5000})", "partitions, and not 1 to 10000"),
        ("hash(a, every=5)", "a number"),
        ("hash(a, count=x)", "x partitions"),
        ("range(a, every='5)", "cannot be read"),
    ],
)
def test_what_cannot(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_partition_by(text)
    assert reason in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("FOR VALUES FROM ('0') TO ('250000000')", "t_0"),
        ("FOR VALUES FROM ('-5') TO ('0')", "t_m5"),
        ("FOR VALUES FROM (MINVALUE) TO (5)", "t_min"),
        ("FOR VALUES FROM ('1992-01-01') TO ('1993-01-01')", "t_1992_01_01"),
        ("FOR VALUES FROM ('1992-01-01 00:00:00') TO ('1993-01-01 00:00:00')", "t_1992_01_01"),
        ("FOR VALUES IN ('A', 'N')", "t_a_n"),
        ("FOR VALUES IN (NULL)", "t_null"),
        ("FOR VALUES WITH (modulus 4, remainder 3)", "t_h_3"),
        ("DEFAULT", "t_default"),
        ("FOR VALUES IN ('é')", "t_p"),
    ],
)
def test_names_say_where_a_partition_begins(bound: str, expected: str) -> None:
    assert partition_name("t", bound, set()) == expected
    assert partition_name("t", bound, {expected}) == f"{expected}_2"


def test_names_fit() -> None:
    long = "ö" * 31
    name = partition_name(long, "FOR VALUES FROM ('1992-01-01') TO ('1993-01-01')", set())
    assert len(name.encode()) <= 63
    assert name.endswith("_1992_01_01")


@pytest.mark.parametrize(("kind", "every"), [("DECIMAL(38,2)", "0.0005"), ("DOUBLE", "0." + "0" * 21 + "1")])
def test_a_width_of_directories_with_too_many_digits(kind: str, every: str) -> None:
    """DuckDB would reckon by doubles, without a word."""
    with pytest.raises(UsageError, match=rf"k is of type .*, which every={every} cannot divide"):
        hive_column(parse_partition_by(f"range(k, every={every})"), {"k": kind})
