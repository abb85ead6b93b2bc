"""How sure the parts of a chosen layout are, and why: format, delimiter, quote."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from tipple.plan.sniff_candidate import Candidate
from tipple.plan.sniff_escapes import escaped_in_quotes
from tipple.plan.sniff_options import spell
from tipple.plan.sniff_profile import Decision, Given, Layout, Profile
from tipple.plan.sniff_quotes import doubt_of_apostrophes
from tipple.plan.sniff_score import NEVER_IN_TEXT, RARE_DELIMITERS, is_empty, padding
from tipple.plan.sniff_unquoted import doubt_of_quotes_as_data, holds_line_ends, is_unquoted, unquoted_layout

__all__ = [
    "UNSPLIT_CONFIDENCE",
    "ProfileOf",
    "always_inside",
    "confidence_of",
    "decide_layout",
    "decide_quote",
    "fields_of",
    "stands_in_values",
    "why",
]

ProfileOf = Callable[[Layout], Profile]
"""What the sample looks like in a layout."""

UNSPLIT_CONFIDENCE = 0.5
"""That records are one field each, though another delimiter stands in all of them."""
_MOST_LINES = 0.5
"""Of so many lines the number of fields counts."""


def why(candidate: Candidate) -> str:
    """The records that speak for a candidate."""
    profile = candidate.profile
    regular = profile.field_counts.get(profile.fields, 0)
    return f"{regular:,} of {profile.records:,} sampled records have {fields_of(profile)}"


def fields_of(profile: Profile) -> str:
    """How many fields records have."""
    return f"{profile.fields} field{'s' if profile.fields != 1 else ''}"


def always_inside(candidate: Candidate) -> bool:
    """Whether some column has a delimiter in each of its values."""
    columns = candidate.profile.columns_with_heads
    return any(column.delimiters_inside == sum(column.kinds.values()) > 1 for column in columns)


def stands_in_values(other: Candidate, own: Candidate) -> bool:
    """Whether another delimiter divides all records into as many fields, of which no fewer are values, or into values
    alone, and this one leaves a delimiter in each value of a column.
    """
    return (
        other.healthy
        and own.healthy
        and own.layout.delimiter not in NEVER_IN_TEXT
        and other.layout.delimiter not in RARE_DELIMITERS
        and (other.profile.fields >= own.profile.fields or other.typed == 1.0)
        and other.typed >= own.typed
        and always_inside(own)
    )


def confidence_of(chosen: Candidate, others: Sequence[Candidate], *, kept: bool) -> float:
    """How sure a candidate is beside others; `kept` says that it is what the name says."""
    profile = chosen.profile
    # A dialect that makes fewer values of a type is the less likely for it.
    second = max((c.score * (1 - max(0.0, chosen.typed - c.typed)) for c in others), default=0.0)
    margin = min(1.0, 1.5 * max(0.0, 1 - second / chosen.score)) if chosen.score else 0.0
    confidence = 0.45 + 0.55 * margin
    if kept and chosen.healthy and not any(stands_in_values(other, chosen) for other in others):
        confidence = max(confidence, 0.85)
    if profile.fields == 1 and not chosen.layout.trails:
        confidence = min(confidence, 0.8 if kept or chosen.typed == 1.0 else 0.5)
    confidence *= profile.regularity**2
    if profile.stray_quotes or profile.unterminated:
        confidence *= 0.6
    if profile.records < 3 and not kept:
        confidence *= 0.85
    return round(confidence, 2)


def decide_layout(
    chosen: Candidate, others: Sequence[Candidate], reason: str, confidence: float, given: Given, quote: Decision | None
) -> list[Decision]:
    """What was decided of a layout, beside what the user says.

    Args:
        chosen: the candidate that was taken.
        others: those that were not.
        reason: why it was taken.
        confidence: how sure that is.
        given: what the user says.
        quote: the decision on quotes, where there are any.
    """
    layout = chosen.layout
    decisions = [Decision(option="format", value=layout.format, confidence=confidence, reason=reason)]
    if given.delimiter is None:
        reason, sure = why(chosen), confidence
        if _every_second_is_empty(chosen):
            pair = 2 * spell(layout.delimiter)
            reason = f"every second field is empty: if {pair} divides fields, make one character of it first"
            sure = min(confidence, UNSPLIT_CONFIDENCE)
        elif padding(layout, chosen.profile):
            reason = "spaces that align fields make empty ones: if spaces divide fields, make one of several first"
            sure = min(confidence, UNSPLIT_CONFIDENCE)
        decisions.append(
            Decision(
                option="delimiter",
                value=spell(layout.delimiter),
                confidence=sure,
                reason=reason,
                alternatives=tuple(spell(other.layout.delimiter) for other in others[:2]),
                alternative_reasons=tuple(why(other) for other in others[:2]),
            )
        )
    if quote is not None and given.quote is None:
        decisions.append(quote)
    if layout.trailing:
        reason = "all sampled records end with a delimiter"
        decisions.append(Decision(option="trailing-delimiter", value="yes", confidence=0.85, reason=reason))
    return decisions


def _every_second_is_empty(candidate: Candidate) -> bool:
    """Whether two delimiters stand between all fields: bcp and others take more than a character."""
    profile = candidate.profile
    seconds = profile.columns_with_heads[1::2]
    # A single empty column between commas is more likely just that.
    enough = len(seconds) > 1 or (len(seconds) == 1 and candidate.layout.delimiter not in ",;\t")
    return enough and all(map(is_empty, seconds)) and profile.fields % 2 == 1


def decide_quote(layout: Layout, profile: Profile, profile_of: ProfileOf, data: Sequence[bytes]) -> Decision | None:
    """How sure the quote of a layout is, and why; None where its format has none.

    Args:
        layout: the one that was chosen.
        profile: what the sample looks like in it.
        profile_of: what it looks like in others.
        data: the sample.
    """
    if layout.format != "csv":
        return None
    quote = spell(layout.quote or '"')
    if is_unquoted(layout):
        doubt = doubt_of_quotes_as_data(layout, profile, profile_of)
        if doubt:
            return Decision(option="quote", value=quote, confidence=0.6, reason=doubt, alternatives=('"',))
        return Decision(
            option="quote", value=quote, confidence=0.8,
            reason="nothing is quoted, quotes stand at most inside fields, and this byte does not occur",
        )  # fmt: skip
    if profile.stray_quotes or profile.unterminated:
        reason = "there are quotes that open or close in the middle of a field, or never close"
        return Decision(
            option="quote",
            value=quote,
            confidence=0.4,
            reason=reason + _without_quoting(layout, profile, profile_of, data),
        )
    doubt = doubt_of_apostrophes(layout, profile, profile_of, data)
    if doubt:
        other = '"' if quote == "'" else "'"
        return Decision(option="quote", value=quote, confidence=0.6, reason=doubt, alternatives=(other,))
    if profile.quoted_fields:
        escaped = escaped_in_quotes(layout, data)
        if escaped:
            return Decision(option="quote", value=quote, confidence=0.6, reason=escaped)
        escape = " with a backslash before quotes inside" if layout.escape == "\\" else ""
        return Decision(
            option="quote", value=quote, confidence=0.95, reason=f"{profile.quoted_fields:,} fields are quoted{escape}"
        )
    return Decision(option="quote", value=quote, confidence=0.9, reason="nothing is quoted in the sample")


def _without_quoting(layout: Layout, profile: Profile, profile_of: ProfileOf, data: Sequence[bytes]) -> str:
    """What lines are without quotes, where records hold line ends."""
    plain = unquoted_layout(layout.delimiter, data)
    lines = profile_of(plain)
    if not holds_line_ends(profile, lines) or lines.fields != profile.fields or lines.regularity < _MOST_LINES:
        return ""
    unused = shlex.quote(spell(plain.quote or ""))
    return (
        f", and records hold line ends for it; without quoting (--quote {unused}) "
        f"{lines.field_counts[lines.fields]:,} of {lines.records:,} lines have {fields_of(lines)}"
    )
