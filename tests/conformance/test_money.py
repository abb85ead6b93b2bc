"""Amounts of money, of which PostgreSQL reads the text as `lc_monetary` has it: stored as its own cast stores them, or
refused before the first row, with a remedy that works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from columnar_files import write_parquet
from loading import load
from servers import locales
from servers.postgres import LOADER, PostgresServer
from targets import PostgresTarget, write

LOCALES = ("de_DE", "is_IS", "ja_JP", "ar_KW")
"""With a comma; with one and no decimals; with a point and no decimals, and with three of them."""
CENTS = [Decimal("1234.56"), Decimal("-0.05")]
WITH_A_POINT = {"PGOPTIONS": "-c lc_monetary=C"}


@pytest.fixture(scope="module")
def server_with_locales(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server that knows LOCALES, which most machines lack."""
    why_not = locales.missing_reason()
    if why_not is not None:
        pytest.skip(why_not)
    server = PostgresServer(18, environment=locales.make_locales(tmp_path_factory.mktemp("locales"), LOCALES))
    try:
        server.start()
        yield server
    finally:
        server.destroy()


@pytest.fixture
def target_in(server_with_locales: PostgresServer) -> Iterator[Callable[[str], PostgresTarget]]:
    """Makes databases where the loader's amounts are those of a locale."""
    targets = []

    def make(locale: str) -> PostgresTarget:
        targets.append(PostgresTarget(server_with_locales))
        name = f'"{targets[-1].database}"'
        setting = f"ALTER ROLE {LOADER} IN DATABASE {name} SET lc_monetary = '{locale}.UTF-8'"
        with server_with_locales.connect() as connection:
            connection.execute(setting)  # type: ignore[arg-type]
        targets[-1].execute("CREATE DOMAIN price AS money")
        return targets[-1]

    yield make
    for target in targets:
        target.close()


def source(path: Path, of_type: str, values: list[Any], kind: pa.DataType) -> Path:
    within = of_type.endswith("[]")
    array = pa.array([[value] for value in values], pa.list_(kind)) if within else pa.array(values, kind)
    return write_parquet(path / "in.parquet", pa.table({"v": array}))


def stored(target: PostgresTarget) -> list[Decimal]:
    """What is in `t`, as the server's cast from `money` has it."""
    of_arrays = target.value(
        "SELECT atttypid = '_money'::regtype FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'v'"
    )
    return [value for (value,) in target.rows(f"SELECT v{'[1]' if of_arrays else ''}::money::numeric FROM t")]


@pytest.mark.parametrize("of_type", ["money", "price", "money[]"])
def test_decimals_where_the_server_reads_a_comma(
    target_in: Callable[[str], PostgresTarget], tmp_path: Path, of_type: str
) -> None:
    """Their text has a point, which is no decimal one there: 1234.56 became 123456."""
    target = target_in("de_DE")
    target.execute(f"CREATE TABLE t (v {of_type})")
    path = source(tmp_path, of_type, CENTS, pa.decimal128(10, 2))
    run = load(target, path, check=2)
    assert f"the column v of type {of_type} cannot be loaded from" in run.stderr
    assert "lc_monetary de_DE.UTF-8" in run.stderr
    assert "PGOPTIONS='-c lc_monetary=C'" in run.stderr
    load(target, path, env=WITH_A_POINT)
    assert stored(target) == CENTS
    load(f"{target.url}&options=-c%20lc_monetary%3DC", path, mode="replace")
    assert stored(target) == CENTS


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(10, 0), pa.string()])
@pytest.mark.parametrize("of_type", ["money", "money[]"])
def test_what_has_no_point_where_the_server_reads_a_comma(
    target_in: Callable[[str], PostgresTarget], tmp_path: Path, of_type: str, kind: pa.DataType
) -> None:
    """Whole numbers mean the same everywhere, and a text is what the server reads."""
    target = target_in("de_DE")
    target.execute(f"CREATE TABLE t (v {of_type})")
    values: list[Any] = ["-1.234,56"] if kind == pa.string() else [1234, -7]
    load(target, source(tmp_path, of_type, values, kind))
    assert stored(target) == ([Decimal("-1234.56")] if kind == pa.string() else [1234, -7])


@pytest.mark.parametrize("of_type", ["money", "price"])
def test_text_where_the_server_reads_a_comma(
    target_in: Callable[[str], PostgresTarget], tmp_path: Path, of_type: str
) -> None:
    """It means what COPY makes of it; what an option reads is written anew with a point."""
    target = target_in("de_DE")
    target.execute(f"CREATE TABLE t (v {of_type}, n text)")
    path = write(tmp_path / "in.csv", "v;n\n1.234,56;a\n-0,05;b\n")
    text = {"format": "csv", "delimiter": ";", "header": "yes"}
    load(target, path, **text)
    assert stored(target) == CENTS
    german = {**text, "mode": "replace", "decimal_separator": ",", "thousands": "."}
    run = load(target, path, **german, check=2)
    assert "numbers as --decimal-separator , --thousands . has them" in run.stderr
    load(target, path, **german, env=WITH_A_POINT)
    assert stored(target) == CENTS


def test_a_decimal_comma_in_domains_of_money(postgres_target: PostgresTarget, tmp_path: Path) -> None:
    """They are columns of numbers, too: 1,50 became 150."""
    postgres_target.execute("CREATE DOMAIN price AS money; CREATE TABLE t (v price, n text)")
    path = write(tmp_path / "in.csv", "1,50;a\n-1.234,99;b\n")
    load(postgres_target, path, format="csv", delimiter=";", decimal_separator=",", thousands=".")
    assert stored(postgres_target) == [Decimal("1.50"), Decimal("-1234.99")]


def test_amounts_without_decimals_and_with_a_comma(target_in: Callable[[str], PostgresTarget], tmp_path: Path) -> None:
    """Sessions of another setting would store a hundredfold there: the remedy is another."""
    target = target_in("is_IS")
    target.execute("CREATE TABLE t (v money); CREATE TABLE n (v numeric)")
    path = source(tmp_path, "money", CENTS, pa.decimal128(10, 2))
    run = load(target, path, check=2)
    assert "type numeric" in run.stderr
    assert "PGOPTIONS" not in run.stderr
    load(target, path, table="n")
    target.execute("INSERT INTO t SELECT v::money FROM n")
    assert stored(target) == [1235, 0]


@pytest.mark.parametrize(("locale", "expected"), [("ja_JP", "1235"), ("ar_KW", "1234.560")])
def test_amounts_of_other_decimals_with_a_point(
    target_in: Callable[[str], PostgresTarget], tmp_path: Path, locale: str, expected: str
) -> None:
    target = target_in(locale)
    target.execute("CREATE TABLE t (v money)")
    load(target, source(tmp_path, "money", CENTS[:1], pa.decimal128(10, 2)))
    assert str(stored(target)[0]) == expected
