"""Errors: what they say, what the command line exits with, and that whoever has one can print, copy and send it."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipple import errors
from tipple.engines.core import core_error, shortage
from tipple.errors import BadRecord, ConnectionFailed, Interrupted, TippleError, TooManyRejects, UsageError


def test_exit_statuses_are_those_of_the_contract() -> None:
    expected = {
        "TippleError": 1,
        "UsageError": 2,
        "ConnectionFailed": 2,
        "JobBusy": 1,
        "SourceChanged": 1,
        "VerifyFailed": 1,
        "Interrupted": 130,
    }
    assert {*expected, "BadRecord", "JobFailed", "TooManyRejects"} == set(errors.__all__)
    assert errors.TooManyRejects("5").exit_status == 1
    for name, exit_status in expected.items():
        error = getattr(errors, name)("message", hint="hint", detail={"a": 1})
        assert (error.exit_status, str(error), error.hint) == (exit_status, "message", "hint")
        assert error.detail == {"a": 1}
        assert isinstance(error, TippleError)
    assert issubclass(ConnectionFailed, UsageError)
    assert Interrupted("x", exit_status=1).exit_status == 1


def test_a_system_that_gives_no_more_threads() -> None:
    """No fault of Tipple's, and the limits have names."""
    message = "no thread could be started: Resource temporarily unavailable (os error 11)"
    error = core_error(Exception(json.dumps({"kind": "invalid", "message": message})))
    assert (error.exit_status, str(error)) == (1, message)
    assert "ulimit -u" in str(error.hint)
    assert "nothing was published" in str(error.hint)


def test_a_system_that_gives_no_more_memory() -> None:
    """It may be the system's, or what DuckDB was allowed."""
    with pytest.raises(MemoryError) as systems:
        bytearray(1 << 62)
    error = shortage(systems.value)
    assert error is not None
    assert (error.exit_status, str(error)) == (1, "out of memory")
    assert "ulimit -v" in str(error.hint)
    connection = duckdb.connect(config={"memory_limit": "200KB"})
    with pytest.raises(duckdb.OutOfMemoryException) as duckdbs:
        connection.execute("SELECT list(i) FROM range(1000000) t(i)").fetchall()
    error = shortage(duckdbs.value)
    assert error is not None
    assert str(error).startswith("out of memory: failed to allocate")
    assert "SET" not in str(error)
    assert "--memory-limit" in str(error.hint)
    assert shortage(RuntimeError("out of memory")) is None


def bad_record(**changes: Any) -> BadRecord:
    fields: dict[str, Any] = {
        "file": "data/lineitem.tbl",
        "record_number": 1_234_567,
        "byte_offset": 156_000_000,
        "column": "l_shipdate",
        "text": "1996-13-45",
        "reason": 'date/time field value out of range: "1996-13-45"',
        "sqlstate": "22008",
        "remedy": "correct the date",
    }
    return BadRecord(**{**fields, **changes})


def test_bad_record_names_everything() -> None:
    error = bad_record()
    for part in (
        "data/lineitem.tbl",
        "1,234,567",
        "byte 156,000,000",
        "l_shipdate",
        "'1996-13-45'",
        "out of range",
        "22008",
        "correct the date",
    ):
        assert part in str(error)
    assert error.exit_status == 1
    assert json.loads(json.dumps(error.detail))["byte_offset"] == 156_000_000


def test_bad_record_leaves_out_what_is_not_known() -> None:
    shown = str(bad_record(column=None, text=None, sqlstate=None, remedy=None))
    assert "column " not in shown
    assert "SQLSTATE" not in shown
    assert "text " not in shown
    assert "Nothing was published" in shown


@given(st.text(max_size=300))
def test_offending_text_is_short_and_harmless(text: str) -> None:
    shown = str(bad_record(text=text, reason="bad"))
    assert all(line.isprintable() for line in shown.split("\n"))
    assert len(shown.split("\n")) == 8
    error = bad_record(text=text)
    assert error.text is not None
    assert len(error.text) < 140
    assert error.text.startswith(text[:100])


@pytest.mark.parametrize(
    "error",
    [
        TippleError("a\ud800b", hint="c\udcff"),
        bad_record(file="/\udcff", column="\ud800", text="\udcff", reason="\ud800", remedy="\udcff"),
        TooManyRejects("1", bad_record(file="/\udcff", reason="\ud800")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_printed(error: TippleError) -> None:
    """Bytes of a path that are no UTF-8, for example, are surrogates in Python's texts."""
    for text in (str(error), error.message, *map(str, error.args), error.hint or ""):
        assert text.encode().decode() == text
    assert "\\ud800" in str(error)


@pytest.mark.parametrize("error", [bad_record(), UsageError("m", hint="h"), TippleError("m", exit_status=7)])
def test_errors_survive_a_process_pool(error: TippleError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
