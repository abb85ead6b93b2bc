"""Files in which nothing is quoted, although quotes stand around some fields: records between two marks were merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sniffing import decision, sniff, types
from targets import write
from tipple.plan.sniff_profile import LOW_CONFIDENCE

TEXTS = ["Anna", '5" pipe', '3/4" x 2" bolt', '"WOW"', "nail"]


def records(texts: list[str], count: int = 300) -> str:
    return "".join(f"{n},{texts[n % len(texts)]},{n}.50,2024-01-02\n" for n in range(count))


@pytest.mark.parametrize("count", [20, 300, 9000])
@pytest.mark.parametrize("name", ["a.csv", "a.dat"])
def test_marks_beside_fields_in_quotes_that_need_none(tmp_path: Path, count: int, name: str) -> None:
    sniffed = sniff(write(tmp_path / name, records(TEXTS, count)))
    assert (sniffed.dialect.quote, sniffed.profile.regularity) == ("\x02", 1.0)
    assert types(sniffed) == ["bigint", "text", "numeric", "date"]
    quote = decision(sniffed, "quote")
    assert (quote.confidence < LOW_CONFIDENCE, quote.alternatives) == (True, ('"',))


@pytest.mark.parametrize(
    "texts",
    [
        # One field needs its quotes; some are doubled; all of a column are in quotes.
        ['5" pipe', '6" pipe', '"nut, big"', "nail"],
        ['5" pipe', '6" pipe', '"a ""nut"""', "nail"],
    ],
)
def test_marks_beside_fields_that_need_their_quotes(tmp_path: Path, texts: list[str]) -> None:
    """Neither reading is right, and the note says what each of them makes."""
    quote = decision(sniff(write(tmp_path / "a.csv", records(texts, 20))), "quote")
    assert (quote.value, quote.confidence < LOW_CONFIDENCE) == ('"', True)
    assert "records hold line ends" in quote.reason
    assert "--quote '\\x02'" in quote.reason
    assert "of 20 lines have 4 fields" in quote.reason


QUOTED: dict[str, Callable[[int], str]] = {
    "one mark too many": lambda n: f'"{n}","a{chr(34) * (n == 7)} b","x"\n',
    "in one column": lambda n: f'{n},"a{chr(34) * (n == 7)} b",x\n',
    "over several lines": lambda n: f'{n},"a\nb{n}",x{chr(34) * (n == 7)}y\n',
}


@pytest.mark.parametrize("case", QUOTED)
def test_a_mark_too_many_among_fields_in_quotes(tmp_path: Path, case: str) -> None:
    """It is told; to store the quotes of all the others would be no answer to it."""
    quote = decision(sniff(write(tmp_path / "a.csv", "".join(map(QUOTED[case], range(200))))), "quote")
    assert (quote.value, quote.confidence < LOW_CONFIDENCE) == ('"', True)


def test_fields_over_several_lines(tmp_path: Path) -> None:
    sniffed = sniff(write(tmp_path / "a.csv", "".join(f'{n},"a,{n},x\n{n},b",x\n' for n in range(50))))
    assert (sniffed.dialect.quote, sniffed.profile.records) == ('"', 50)
    assert decision(sniffed, "quote").confidence >= LOW_CONFIDENCE
