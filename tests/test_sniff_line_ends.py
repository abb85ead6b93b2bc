"""A first line that ends in another way than those below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from targets import write
from tipple.errors import UsageError
from tipple.plan.sniff_profile import Given
from tipple.run.sniff import Sniffer


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
    sniffer = Sniffer([str(write(tmp_path / "a.csv", data.encode()))], "auto", Given())
    if says is None:
        assert sniffer.look(None).profile.fields == 2
        return
    with pytest.raises(UsageError, match=says) as failed:
        sniffer.look(None)
    assert "FILE > NEW" in str(failed.value.hint)
