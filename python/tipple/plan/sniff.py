"""What format a sample of the sources has: dialects are tried, and the most regular and most meaningful one is taken.

The idea is that of CleverCSV (van den Burg, Nazábal and Sutton: Wrangling Messy CSV Files by Detecting Row and Type
Patterns, 2019): the right dialect gives records of equal length, and fields that look like values of some type. The
score of a dialect is the product of both. Two things are added here. What a file's name says is kept as long as the
content does not clearly contradict it, since a loader must not read yesterday's kind of file in another way today. And
every decision comes with a confidence and its reasons.

Everything here depends on the sample alone, so that the same files always give the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from tipple.plan.sniff_candidate import Candidate
from tipple.plan.sniff_decisions import (
    UNSPLIT_CONFIDENCE,
    ProfileOf,
    always_inside,
    confidence_of,
    decide_layout,
    decide_quote,
    fields_of,
    stands_in_values,
    why,
)
from tipple.plan.sniff_escapes import Backslashes, occurs
from tipple.plan.sniff_profile import Decision, Given, Layout, Profile
from tipple.plan.sniff_quotes import apostrophes_may_quote, apostrophes_quote, wrapped_columns
from tipple.plan.sniff_score import DELIMITERS, NEVER_IN_TEXT, RARE_DELIMITERS
from tipple.plan.sniff_score import score as score_of
from tipple.plan.sniff_unquoted import is_unquoted, quotes_are_data, unquoted_layout

__all__ = ["QUOTED_FOR_A_REASON", "choose_layout"]

QUOTED_FOR_A_REASON = re.compile(rb'"[^"\t\n]*,[^"\t\n]*"|""|(?:^|[\t\n])"[^"\n]*[\t\n][^"]*"')
"""What programs quote a field for: a comma, a quote, a tab or a line end in it."""
_NAME_LAYOUTS = {
    "csv": Layout(format="csv", delimiter=",", quote='"', escape='"'),
    "text": Layout(format="text", delimiter="\t"),
    "tbl": Layout(format="tbl", delimiter="|"),
}
_NAME_BONUS = 1.25
_EXPECTED_BONUS = 1.5
_ENOUGH_SCORE = 0.15
"""Below this, a dialect with several fields is no more convincing than one without."""
_OVERWHELMING = 4.0
"""So many times as convincing as what the name says, a dialect is taken though it makes no sense of some records."""
_REGULAR_ENOUGH = 0.75
"""So large a share of the records has to have the same number of fields for that."""


def choose_layout(
    data: Sequence[bytes],
    profile_of: ProfileOf,
    *,
    given: Given,
    named: str | None,
    expected_fields: int | None,
) -> tuple[Layout, list[Decision], bool]:
    """The layout of the sample's records.

    Args:
        data: the sample's bytes.
        profile_of: what the sample looks like in a layout.
        named: the format that the files' names say.
        expected_fields: the number of fields that the target wants, where it is known.

    Returns:
        The layout, how it was chosen, and whether the sample tells anything at all.
    """
    default = _default(given, named)
    delimiters = [given.delimiter] if given.delimiter else [c for c in DELIMITERS if any(c.encode() in d for d in data)]
    # Without a name, a delimiter that does not occur stands for a single column.
    fallback = default.delimiter if default is not None else ","
    if fallback not in delimiters and given.delimiter is None:
        delimiters.append(fallback)

    def candidate(layout: Layout) -> Candidate:
        profile = profile_of(layout)
        score, typed = score_of(layout, profile)
        # A delimiter that nowhere stands is not what the name says: `1,5` is two integers in any file.
        divides = profile.fields > 1 or layout.trails or delimiters == [layout.delimiter]
        if default is not None and layout.delimiter == default.delimiter and divides:
            score *= _NAME_BONUS
        if expected_fields is not None and profile.fields == expected_fields:
            score *= _EXPECTED_BONUS
        return Candidate(layout, profile, score, typed)

    named_candidate = candidate(default) if default is not None else None
    best_by_delimiter: list[Candidate] = []
    for delimiter in delimiters:
        best_by_delimiter.append(_with_delimiter(delimiter, data, candidate, given, named, expected_fields))
    ranked = sorted(best_by_delimiter, key=lambda c: -c.score)
    chosen, reason = _between(
        ranked,
        named_candidate,
        named,
        expected_fields,
        has_header=given.header in ("yes", "match"),
        has_delimiter=given.delimiter is not None,
        may_be_escapes=named_candidate is not None
        and Backslashes(data, named_candidate.layout.delimiter).may_be_escapes(nulls=named_candidate.has_nulls),
    )
    if chosen is None:
        return Layout(format="csv", delimiter=",", quote='"', escape='"'), [], False
    others = [
        c
        for c in ranked
        if c.layout.delimiter != chosen.layout.delimiter
        and c.profile.fields > 1
        and c.score > 0.05
        and not _divides_heads_too(chosen, c)
    ]
    confidence = confidence_of(chosen, others, kept=chosen is named_candidate or chosen.quotes_every_value)
    single = chosen.profile.fields == 1 != expected_fields
    unsplit = [c for c in ranked if _splits_every_record(c, chosen)] if single else []
    if unsplit and not chosen.layout.trails and not chosen.quotes_every_value:
        others += [c for c in unsplit if c not in others]
        confidence = min(confidence, UNSPLIT_CONFIDENCE)
    whole = next((c for c in ranked if c.is_single), None)
    if whole is not None and _may_be_addresses(chosen, whole):
        others.append(whole)
        confidence = min(confidence, UNSPLIT_CONFIDENCE)
    told = chosen.profile.records > 0
    quote = decide_quote(chosen.layout, chosen.profile, profile_of, data)
    decisions = decide_layout(chosen, others, reason, confidence, given, quote)
    doubt = _doubt(chosen, data, named)
    if doubt is not None:
        decisions[0] = doubt
    return chosen.layout, decisions, told


def _splits_every_record(candidate: Candidate, whole: Candidate) -> bool:
    """Whether a usual delimiter stands in every record, if not as often in each; or a rare one between values only,
    which are none without it: times have colons.
    """
    profile = candidate.profile
    usual = candidate.layout.delimiter not in RARE_DELIMITERS
    values = candidate.typed == 1.0 == profile.regularity and whole.typed < 1.0
    return (usual or values) and profile.records > 1 and min(profile.field_counts, default=0) > 1


def _may_be_addresses(chosen: Candidate, whole: Candidate) -> bool:
    """Whether what divides records may stand in addresses (`0a:1b:2c`, `DE61 7011 7376`), which are one field: below a
    first record of one field, or where the parts are as long in each record, and not all of them numbers.
    """
    equal = all(column.longest == column.shortest > 1 for column in chosen.profile.columns)
    doubted = _heads_a_single_column(whole, chosen) or (equal and chosen.typed < 1.0)
    return chosen.layout.delimiter in RARE_DELIMITERS and doubted


def _default(given: Given, named: str | None) -> Layout | None:
    """What the name says, changed to what the user says."""
    if given.quote is not None or given.escape is not None:
        named = "csv"
    if named is None:
        return None
    layout = _NAME_LAYOUTS[named]
    quote = given.quote or layout.quote
    return Layout(
        format=layout.format,
        delimiter=given.delimiter or layout.delimiter,
        quote=quote,
        escape=given.escape or quote,
    )


def _with_delimiter(
    delimiter: str,
    data: Sequence[bytes],
    candidate: Callable[[Layout], Candidate],
    given: Given,
    named: str | None,
    expected_fields: int | None,
) -> Candidate:
    """The best layout with this delimiter: which quoting, or COPY's text format, or a delimiter at the end."""
    quote = given.quote or '"'
    plain = candidate(Layout(format="csv", delimiter=delimiter, quote=quote, escape=given.escape or quote))
    if given.quote is not None or given.escape is not None:
        if given.escape is None:
            return _with_escape(plain, data, candidate)
        return plain
    best = _with_escape(plain, data, candidate)
    if apostrophes_may_quote(plain.profile, data):
        single = _with_escape(
            candidate(Layout(format="csv", delimiter=delimiter, quote="'", escape="'")), data, candidate
        )
        escaped = single.layout.escape == "\\"
        if apostrophes_quote(single.profile, plain.profile, data, escaped=escaped):
            best = single
    tabs = delimiter == "\t" or (named == "text" and given.delimiter is not None)
    nulls = plain.has_nulls
    escaped = occurs(b"\\" + delimiter.encode(), data) or occurs(b"\\\n", data)
    plain_backslashes = nulls and tabs and not Backslashes(data, delimiter).may_be_escapes(nulls=True)
    if plain_backslashes and not best.makes_sense_of_quotes:
        # Who writes \N, but no escapes, writes no quotes either.
        best = candidate(unquoted_layout(delimiter, data))
    elif (tabs or nulls or escaped) and _text_allows(delimiter):
        text = _as_text(delimiter, candidate, named, expected_fields)
        csv_fields = best.profile.fields - _trails(best.profile, delimiter, named, expected_fields)
        wanted = text.profile.fields == expected_fields != csv_fields
        divided = escaped and (text.profile.regularity > best.profile.regularity or wanted)
        if (tabs or nulls or divided) and _is_text_format(text, best, data, named, nulls=nulls, divided=divided):
            return text
    profile = best.profile
    strays = profile.stray_quotes and not profile.enclosed_fields
    if best.layout.quote == '"' and (strays or (profile.unterminated and not profile.quoted_fields)):
        # Quotes only in the middle of fields: inches, and the like. One that opens a field may lack its end.
        unquoted = candidate(unquoted_layout(delimiter, data))
        same = unquoted.profile.fields == profile.fields
        if unquoted.profile.regularity > profile.regularity or (same and unquoted.profile.regularity == 1.0):
            best = unquoted
    elif best.layout.quote == best.layout.escape == '"' and profile.stray_quotes:
        unquoted = candidate(unquoted_layout(delimiter, data))
        if quotes_are_data(profile, unquoted.profile, data):
            best = unquoted
    elif named == "tbl" and delimiter == "|" and best.layout.quote == '"' and not profile.quoted_fields:
        best = candidate(unquoted_layout(delimiter, data))
    if _trails(best.profile, delimiter, named, expected_fields):
        trailing = candidate(_with_trailing(best, named))
        if trailing.profile.regularity >= best.profile.regularity or trailing.profile.fields == expected_fields:
            best = trailing
    return best


def _as_text(
    delimiter: str, candidate: Callable[[Layout], Candidate], named: str | None, expected_fields: int | None
) -> Candidate:
    """COPY's text format, perhaps with a delimiter after the last field, as Informix unloads it."""
    text = candidate(Layout(format="text", delimiter=delimiter))
    # Between tabs an empty text at the end is more likely just that.
    wanted = delimiter != "\t" or expected_fields == text.profile.fields - 1
    if not wanted or not _trails(text.profile, delimiter, named, expected_fields):
        return text
    trailing = candidate(msgspec.structs.replace(text.layout, trailing=True))
    return trailing if trailing.profile.regularity >= text.profile.regularity else text


def _with_escape(plain: Candidate, data: Sequence[bytes], candidate: Callable[[Layout], Candidate]) -> Candidate:
    """The same with a backslash as the escape, where doubled quotes make no sense of the sample."""
    profile = plain.profile
    broken = profile.stray_quotes or profile.unterminated or profile.regularity < 1.0
    quote = plain.layout.quote or '"'
    if not broken or not occurs(b"\\" + quote.encode(), data):
        return plain
    escaped = candidate(Layout(format="csv", delimiter=plain.layout.delimiter, quote=quote, escape="\\"))
    return escaped if escaped.score > plain.score and not escaped.profile.stray_quotes else plain


def _text_allows(delimiter: str) -> bool:
    """COPY refuses these delimiters in its text format."""
    return delimiter not in "\\.abcdefghijklmnopqrstuvwxyz0123456789"


def _is_text_format(
    text: Candidate, csv: Candidate, data: Sequence[bytes], named: str | None, *, nulls: bool, divided: bool
) -> bool:
    """Whether this is COPY's text format, and not CSV with tabs.

    Args:
        nulls: whether `\\N` stands for NULL.
        divided: whether CSV divides records at delimiters or line ends that stand behind a backslash.
    """
    if text.profile.regularity < csv.profile.regularity and not csv.profile.stray_quotes:
        return False
    whole = b"\n".join(data)
    if csv.makes_sense_of_quotes:
        quoted = wrapped_columns(text.profile, 0) > 0
        if not nulls and (quoted or csv.profile.regularity > text.profile.regularity):
            return False
        # Spreadsheets and programs write `\N` between fields that they quote.
        only_nulls = whole.count(b"\\") == whole.count(b"\\N")
        if only_nulls and csv.profile.regularity >= text.profile.regularity and QUOTED_FOR_A_REASON.search(whole):
            return False
    if csv.quotes_every_value:
        return False
    if b"\\" not in whole:
        # The text format has no quotes: what makes sense of all that are there as quotes was written with them.
        by_quotes = csv.makes_sense_of_quotes and csv.profile.regularity >= text.profile.regularity
        return named == "text" and not by_quotes
    backslashes = Backslashes(data, text.layout.delimiter)
    if not backslashes.may_be_escapes(nulls=nulls):
        return False
    if nulls and not divided:
        return text.layout.delimiter == "\t" or named == "text"
    return named == "text" or divided or not backslashes.may_be_part_of_words


def _doubt(chosen: Candidate, data: Sequence[bytes], named: str | None) -> Decision | None:
    """The format once more, where COPY's text format and CSV with tabs are both good readings of the sample."""
    layout, profile = chosen.layout, chosen.profile
    if layout.delimiter != "\t":
        return _doubt_of_escaped_delimiters(chosen, data)
    nulls = chosen.has_nulls
    whole = b"\n".join(data)
    backslashes = Backslashes(data, layout.delimiter)
    reason = ""
    if nulls and layout.format == "csv" and profile.quoted_fields:
        reason = "fields are in quotes beside \\N, which may be quotes of CSV, or part of the values"
    elif nulls:
        reason = backslashes.doubt_beside_nulls(escapes=layout.format == "text")
    elif layout.format == "text" and profile.fields == 1 and any(column.wrapped[0] for column in profile.columns):
        reason = "some values are in quotes, which may be quotes of CSV, or part of the values"
    elif backslashes.may_be_part_of_words and not backslashes.are_of_paths:
        reason = "backslashes before n, r and t may be parts of names and paths, or stand for line ends and tabs"
    elif (
        named == "text"
        and layout.format == "csv"
        and profile.quoted_fields
        and profile.quoted_fields < profile.records
        and not chosen.quotes_every_value
        and not QUOTED_FOR_A_REASON.search(whole)
    ):
        reason = "some fields are in quotes, which may be quotes of CSV, or part of the values"
    if not reason:
        return None
    other = "csv" if layout.format == "text" else "text"
    return Decision(option="format", value=layout.format, confidence=0.6, reason=reason, alternatives=(other,))


def _doubt_of_escaped_delimiters(chosen: Candidate, data: Sequence[bytes]) -> Decision | None:
    """The format once more, where every record has the same delimiters behind a backslash: it may be one of COPY's text
    format with fewer fields.
    """
    layout = chosen.layout
    if layout.format == "text" or chosen.profile.quoted_fields or not _text_allows(layout.delimiter):
        return None
    escaped = occurs(b"\\" + layout.delimiter.encode(), data)
    if not escaped or not Backslashes(data, layout.delimiter).may_be_escapes(nulls=False):
        return None
    return Decision(
        option="format",
        value=layout.format,
        confidence=0.6,
        reason="backslashes before delimiters may be escapes, or the ends of values",
        alternatives=("text",),
    )


def _trails(profile: Profile, delimiter: str, named: str | None, expected_fields: int | None) -> bool:
    """Whether every record ends with a delimiter that separates nothing."""
    if profile.fields < 2 or _last_is_quoted(profile):
        return False
    if expected_fields == profile.fields - 1:
        # Or else nearly all records would be bad ones.
        return 2 * profile.last_empty > profile.records
    if profile.last_empty != profile.records or expected_fields == profile.fields:
        return False
    return named == "tbl" or delimiter == "|" or profile.records > 1


def _last_is_quoted(profile: Profile) -> bool:
    """Whether the last field of some records is an empty text in quotes: a field like others."""
    if not profile.quoted_fields:
        return False
    columns = profile.columns_with_heads
    return len(columns) < profile.fields or bool(columns[-1].quoted_empty)


def _with_trailing(best: Candidate, named: str | None) -> Layout:
    """The same with a delimiter after the last field too."""
    layout = best.layout
    # Between bars quotes are data, as dbgen has it; anything else may have some where the sample has none.
    if layout.format == "csv" and layout.delimiter == "|" and (named == "tbl" or not best.profile.quoted_fields):
        return Layout(format="tbl", delimiter="|")
    return msgspec.structs.replace(layout, trailing=True)


def _between(
    ranked: Sequence[Candidate],
    named: Candidate | None,
    name: str | None,
    expected_fields: int | None,
    *,
    has_header: bool,
    has_delimiter: bool,
    may_be_escapes: bool,
) -> tuple[Candidate | None, str]:
    """The best one, if it may take the place of what the name says.

    Args:
        has_header: whether the user says that first records name the columns.
        has_delimiter: whether the user says what divides fields.
        may_be_escapes: whether all backslashes may be those of COPY's text format.
    """
    best = ranked[0] if ranked else None
    if named is None:
        if best is None or (best.score < _ENOUGH_SCORE and not has_delimiter):
            return None, ""
        best = next(
            (other for other in ranked if _divides_heads_too(other, best) or _keeps_decimal_commas(other, best)), best
        )
        return best, why(best)
    own = next((c for c in ranked if c.layout.delimiter == named.layout.delimiter), named)
    if named.profile.records == 0 and (best is None or best.profile.records == 0):
        return named, f"the sample holds no whole record: as the name says ({name})"
    if best is None:
        return named, f"as the name says ({name})"
    for other in sorted(ranked, key=lambda other: not _is_never_in_text(other, own)):
        if other.layout.delimiter == named.layout.delimiter:
            continue
        # A title of one word stands above a single column too, of addresses (`0a:1b:2c`) or of groups of digits.
        whole = has_header or other.layout.delimiter in RARE_DELIMITERS
        if _beats(other, own, expected_fields) and not (whole and _heads_a_single_column(own, other)):
            keeping = (c for c in ranked if _keeps_decimal_commas(c, other) and _beats(c, own, expected_fields))
            other = next(keeping, other)
            return other, f"{why(other)}; the name says {name}, which gives {fields_of(own.profile)}"
        break
    if own.layout == named.layout:
        return named, f"as the name says ({name}): {why(named)}"
    if named.healthy and not _reads_more(own, named):
        return named, f"as the name says ({name}): {why(named)}"
    if own.quotes_every_value and _reads_more(own, named):
        return own, f"{why(own)}, every value in quotes; not quite as the name says ({name})"
    apart = own.is_single or is_unquoted(own.layout)
    if name == "text" and own.layout.format == "csv" and apart and not may_be_escapes:
        return own, f"{why(own)}, with backslashes that escape nothing; not quite as the name says ({name})"
    trails = own.layout.trails and not named.layout.trails
    apostrophes = own.layout.quote == "'" and own.profile.regularity == 1.0
    quotes = own.quotes_instead_of(named)
    better = own.healthy or trails or apostrophes or quotes or own.profile.regularity > named.profile.regularity
    if not better and own.profile.stray_quotes >= named.profile.stray_quotes:
        return named, f"as the name says ({name}), though only {why(named)}"
    return own, f"{why(own)}; not quite as the name says ({name})"


def _is_never_in_text(other: Candidate, own: Candidate) -> bool:
    """Whether each value of a column has a delimiter that values hardly have, and which divides all records as well."""
    return other.layout.delimiter in NEVER_IN_TEXT and stands_in_values(other, own)


def _heads_a_single_column(own: Candidate, other: Candidate) -> bool:
    """Whether the first records have one field in either reading, and so have all in the first one."""
    heads = other.profile.heads.values()
    return own.profile.fields == 1 and bool(heads) and all(len(head) == 1 for head in heads)


def _beats(other: Candidate, own: Candidate, expected_fields: int | None) -> bool:
    """Whether the content contradicts the name's delimiter clearly."""
    if other.profile.fields < 2 and not other.layout.trails:
        return False
    if own.profile.fields == expected_fields != other.profile.fields:
        # What the target wants is what the name gives: `12:34:56` in a table of one column is no three fields.
        return False
    if _divides_heads_too(other, own):
        return True
    if other.profile.fields != expected_fields and _heads_are_names(own, other):
        return False
    if _is_overwhelming(other, own):
        return True
    if other.profile.regularity < 0.9 or other.score < _ENOUGH_SCORE:
        return False
    if _keeps_decimal_commas(other, own):
        return True
    if _is_never_in_text(other, own):
        return True
    if other.score <= own.score:
        return False
    if own.profile.fields < 2 and not own.layout.trails:
        return True
    if own.healthy:
        wanted = expected_fields is not None and other.profile.fields == expected_fields != own.profile.fields
        finer = other.profile.fields >= own.profile.fields + 2 and 0 < other.typed >= own.typed - 0.1
        return wanted or finer or other.layout.delimiter in NEVER_IN_TEXT or other.typed > own.typed + 0.1
    return own.profile.regularity < 1.0 and other.profile.regularity >= 0.95


def _is_overwhelming(other: Candidate, own: Candidate) -> bool:
    """Whether nearly all records make sense with another delimiter, and hardly one does with this one: decimal commas,
    and commas of texts."""
    regular = other.profile.regularity >= _REGULAR_ENOUGH
    return regular and other.score > max(_ENOUGH_SCORE, _OVERWHELMING * own.score) and not own.healthy


def _divides_heads_too(other: Candidate, own: Candidate) -> bool:
    """Whether a delimiter divides all records as often, and another one all but the first, which it does not occur in:
    commas of prices, fractions of seconds or cities stand in every record, but in no name above them.

    More fields, of which more are values, have a title above them rather.
    """
    usual = other.layout.delimiter not in RARE_DELIMITERS
    finer = own.profile.fields > other.profile.fields and _typed_columns(own) > _typed_columns(other)
    return (
        usual
        and not finer
        and other.healthy
        and other.profile.records > 2
        and other.profile.fields > 1 < own.profile.fields
        and bool(own.profile.heads)
        and all(len(head) == 1 for head in own.profile.heads.values())
    )


def _heads_are_names(own: Candidate, other: Candidate) -> bool:
    """Whether a delimiter divides all records as often, the first into names, and another one all but the first: what
    that one divides is a list (`0;2;3;4`). In a title there are spaces behind commas.
    """
    heads = own.profile.heads.values()
    return (
        own.healthy
        and own.profile.records > 2
        and own.profile.fields > 1 < other.profile.fields
        and bool(heads)
        and all(field.kind == "text" and _may_be_name(field.text) for head in heads for field in head)
        and all(len(head) == 1 for head in other.profile.heads.values())
    )


def _may_be_name(text: str) -> bool:
    return text == text.strip() != "" and not text[0].isdigit()


def _typed_columns(candidate: Candidate) -> int:
    return sum(bool(column.kinds) and "text" not in column.kinds for column in candidate.profile.columns)


def _keeps_decimal_commas(other: Candidate, own: Candidate) -> bool:
    """Whether commas divide decimals, all of which another delimiter keeps whole."""
    if own.layout.delimiter != "," or other.layout.delimiter not in ";\t|" or other.profile.regularity < 1.0:
        return False
    decimals = any(
        "decimal_comma" in column.kinds and column.kinds.keys() <= {"decimal_comma", "thousands", "integer"}
        for column in other.profile.columns_with_heads
    )
    # Or it may be a list (`7;3`) between commas: who counts begins with no zero, and what stands behind a comma may.
    zeros = any("leading_zero" in column.kinds for column in own.profile.columns)
    better = other.score > own.score or (other.typed == 1.0 and zeros)
    return decimals and better and always_inside(own)


def _reads_more(own: Candidate, named: Candidate) -> bool:
    """Whether the same delimiter with another quoting or format makes sense of quotes that the named one keeps."""
    if own.layout.format == "csv" and named.layout.format == "text":
        return True
    if own.layout.trails and not named.layout.trails:
        return True
    if own.layout.format == "csv" and named.layout.format == "csv":
        return own.layout.quote == "'" or own.profile.regularity > named.profile.regularity
    return named.layout.format == "csv" and own.layout.format == "text"
