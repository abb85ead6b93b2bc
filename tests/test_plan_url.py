"""Target URLs, what of them may be shown, and table names."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipple.errors import UsageError
from tipple.plan.url import TableName, fold_identifier, parse_table_name, parse_target, quote_identifier

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("duckdb:///tipple.duckdb", "tipple.duckdb"),
        ("duckdb:///path/to/file.duckdb", "path/to/file.duckdb"),
        ("duckdb:////abs/night.duckdb", "/abs/night.duckdb"),
        ("duckdb:///:memory:", ":memory:"),
        ("duckdb:///100%25 sure.db", "100%25 sure.db"),
        ("duckdb:///why?/is=it?.db", "why?/is=it?.db"),
        ("DuckDB:///x", "x"),
        (" duckdb:///x\n", "x"),
    ],
)
def test_duckdb_location(url: str, location: str) -> None:
    target = parse_target(url)
    assert (target.engine, target.location) == ("duckdb", location)


@pytest.mark.parametrize(
    ("url", "display"),
    [
        ("postgresql://", "postgresql://"),
        ("postgres:///db?host=/tmp", "postgres:///db?host=/tmp"),
        ("postgresql://u@h:5432/db", "postgresql://u@h:5432/db"),
        ("postgresql://u:pw@h:1,[::1]:2/db", "postgresql://u:***@h:1,[::1]:2/db"),
        ("postgresql://:pw@h", "postgresql://:***@h"),
        ("postgresql://h/db?password=pw&sslmode=require", "postgresql://h/db?password=***&sslmode=require"),
        ("postgresql://h/db?%70assword=pw", "postgresql://h/db?%70assword=***"),
        ("postgresql://h/?sslpassword=pw&sslkey=k", "postgresql://h/?sslpassword=***&sslkey=k"),
        ("postgresql://h/?oauth_client_secret=pw&scram_client_key=pw", None),
        # An "&" that should have been escaped leaves a piece of the password behind.
        ("postgresql://h/?password=p&w", "postgresql://h/?password=***&***"),
        ("postgresql://h/?password=p&a=pw", "postgresql://h/?password=***&***"),
        ("postgresql://h/?password=p&port=1&pw=a", "postgresql://h/?password=***&port=1&***"),
        # Most likely a misspelt one.
        ("postgresql://h/?passwrod=pw", "postgresql://h/?passwrod=***"),
        # Where the password ends can only be guessed: nothing is shown.
        ("postgresql://u:p@w@h/db", "postgresql://***"),
        ("postgresql://u:p/w@h/db", "postgresql://***"),
        ("postgresql://u:1/pw@h/db", "postgresql://***"),
        ("postgresql://u:1?a=pw@h/db", "postgresql://u:***@h/db"),
        # A Unix socket in no directory.
        ("postgresql://u:pw@/db?host=@name&port=1", "postgresql://u:***@/db?host=@name&port=1"),
        ("postgresql:///db?port=1&host=@name", "postgresql:///db?port=1&host=@name"),
        ("postgresql://u:p@/db?host=@w@name", "postgresql://***"),
        ("postgresql://u@/db?application_name=@pw", "postgresql://***"),
    ],
)
def test_postgresql_display(url: str, display: str | None) -> None:
    target = parse_target(url)
    assert target.engine == "postgresql"
    assert target.url == target.location == url, "libpq must get what was typed"
    if display is not None:
        assert target.display == display
    assert "pw" not in target.display


@given(user=names, password=names)
def test_no_escaped_password_is_ever_shown(user: str, password: str) -> None:
    marked = f"<{password}>"
    inside = f"postgresql://{quote(user, safe='')}:{quote(marked, safe='')}@host/db"
    parameter = f"postgresql://{quote(user, safe='')}@host/db?password={quote(marked, safe='')}"
    for url in (inside, parameter):
        shown = parse_target(url).display
        assert quote(marked, safe="") not in shown
        assert "@host/db" in shown


signs = st.text(st.sampled_from("a1:@/?&=,[]%#"), max_size=8)


@given(signs, signs)
def test_no_raw_password_is_ever_shown(before: str, after: str) -> None:
    """Whatever signs stand in it that should have been escaped."""
    url = f"postgresql://user:{before}SECRET{after}@host/db"
    assert "SECRET" not in parse_target(url).display
    assert parse_target(url).url == url


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("mysql://u:SECRET@h/d", "unknown scheme 'mysql'"),
        ("mssql://u:SECRET@h/d", "SQL Server is not supported yet"),
        ("duckdb://host/x", "no path"),
        ("duckdb://", "no path"),
        ("duckdb:///", "names no file"),
        ("duckdb:///directory/", "names no file"),
        ("duckdb:///:memory:night", "no name and no options"),
        ("duckdb:///:memory:?x=1", "no name and no options"),
        ("duckdb:///night.duckdb?access_mode=read_only", "no options here, as ?access_mode=read_only"),
        ("host=h password=SECRET", "not a URL"),
        ("SECRET!://x", "unknown scheme in"),
        ("night.duckdb", "'night.duckdb' is not a URL"),
        ("duckdb:night.duckdb", "'duckdb:night.duckdb' is not a URL"),
        ("", "not a URL"),
        ("duckdb:///a\0b", "zero"),
    ],
)
def test_refused_url(url: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(url)
    assert part in str(caught.value)
    assert caught.value.hint
    assert caught.value.exit_status == 2
    assert "SECRET" not in str(caught.value) + str(caught.value.hint) + repr(caught.value)


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("Lineitem", None, "lineitem"),
        ('"Lineitem"', None, "Lineitem"),
        ("TPCH.LineItem", "tpch", "lineitem"),
        ('"a.b"."c""d"', "a.b", 'c"d'),
        (' public . "My Table" ', "public", "My Table"),
        ("übung_1$", None, "übung_1$"),
        # As PostgreSQL with UTF-8: only A to Z fold.
        ("ÄA", None, "Äa"),
        ("order", None, "order"),
    ],
)
def test_table_name(text: str, schema: str | None, name: str) -> None:
    assert parse_table_name(text) == TableName(schema, name)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a.b.c", "a b", "a-b", "1a", '"a', '""', 'a."', 'a"b"', "a\0b"])
def test_refused_table_name(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_table_name(text)
    assert caught.value.hint


@given(st.none() | names, names)
def test_table_name_survives_being_written(schema: str | None, name: str) -> None:
    table = TableName(schema, name)
    assert parse_table_name(str(table)) == table
    assert parse_table_name(table.sql) == table


@given(names)
def test_quoted_identifier_means_the_same_name(name: str) -> None:
    quoted = quote_identifier(name)
    assert fold_identifier(quoted) == name
    assert quoted[1:-1].replace('""', "").count('"') == 0


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_names_that_no_database_takes(name: str) -> None:
    with pytest.raises(UsageError):
        quote_identifier(name)


def test_a_url_that_is_not_utf8() -> None:
    """As bytes of a command line arrive; what is wrong is said without the text, which may hold a password."""
    for url in ("duckdb:///x\udcff.duckdb", "postgresql://u:s3cret\udcff@h/db"):
        with pytest.raises(UsageError, match="the target's URL is not UTF-8"):
            parse_target(url)
