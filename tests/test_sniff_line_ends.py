"""Lines that end in another way than the first one, or than lines do."""

from __future__ import annotations

from pathlib import Path

import pytest

from targets import write
from tipple.errors import UsageError
from tipple.plan.sniff_profile import Given
from tipple.run.sniff import Sniffer


def look(directory: Path, data: str, says: str | None) -> str:
    """The hint of a refusal that `says` so; or nothing, where a file of two columns is seen."""
    sniffer = Sniffer([str(write(directory / "a.csv", data.encode()))], "auto", Given())
    if says is None:
        assert sniffer.look(None).profile.fields == 2
        return ""
    with pytest.raises(UsageError, match=says) as failed:
        sniffer.look(None)
    return str(failed.value.hint)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("a,b\r\n1,x\n2,y\n", "CRLF, and those below it with LF"),
        ('a,b\n1,"x\n"\r\n2,y\r\n', "LF, and those below it with CRLF"),
        ("a,b\r1,x\n2,y\n", "CR, and those below it with LF"),
        ('a,b\r\n1,"x\ny"\r\n2,"x\n"', None),
    ],
)
def test_a_header_whose_line_ends_otherwise(tmp_path: Path, data: str, says: str | None) -> None:
    hint = look(tmp_path, data, says)
    assert says is None or "FILE > NEW" in hint


BY_TURNS = "".join(f"{n},x" + ("\r\n" if n % 2 else "\n") for n in range(30))


@pytest.mark.parametrize(
    ("data", "says", "command"),
    [
        ("a,b\r\r\n" + "1,x\r\r\n" * 9, "end with CR CR LF", "sed 's/\\r*$//'"),
        ("a\r\r\n" + "1\r\r\n" * 9, "end with CR CR LF", "sed 's/\\r*$//'"),
        (f"a,b\r\n{BY_TURNS}", "have different ends: CRLF, LF", "sed 's/\\r$//'"),
        # A few are bad records; and these are parts of values.
        ("a,b\r\n" + "1,x\r\n" * 20 + "2,y\n" + "3,z\r\n" * 9, None, ""),
        ("a,b\r\n" + "1,'x\n\ny'\r\n" * 9, None, ""),
    ],
)
def test_lines_that_end_by_turns(tmp_path: Path, data: str, says: str | None, command: str) -> None:
    hint = look(tmp_path, data, says)
    assert says is None or f"{command} FILE > NEW" in hint


def test_lines_that_end_by_turns_where_columns_are_known(tmp_path: Path) -> None:
    """They are bad records then, which can be skipped; but not where every second one is empty."""
    sniffer = Sniffer([str(write(tmp_path / "a.csv", f"a,b\r\n{BY_TURNS}".encode()))], "auto", Given())
    assert sniffer.look(2).profile.records > 1
    sniffer = Sniffer([str(write(tmp_path / "b.csv", b"a,b\r\r\n" + b"1,x\r\r\n" * 9))], "auto", Given())
    with pytest.raises(UsageError, match="CR CR LF"):
        sniffer.look(2)
