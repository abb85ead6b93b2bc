"""`--format auto` and `--schema auto`: samples the sources, and has the core and `plan` say what they are."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from tipple import _core
from tipple.engines.base import STDIN, Identity
from tipple.errors import UsageError
from tipple.plan.sniff import choose_layout
from tipple.plan.sniff_again import is_contradicted, loses_quotes
from tipple.plan.sniff_codes import mark_codes, masked
from tipple.plan.sniff_columns import decide_null
from tipple.plan.sniff_decisions import ProfileOf, decide_quote
from tipple.plan.sniff_encoding import to_utf8
from tipple.plan.sniff_header import (
    decide_header,
    have_different_headers,
    headers_of_some,
    heads_differ,
    ruled_header,
)
from tipple.plan.sniff_labels import row_labels
from tipple.plan.sniff_notations import Notations, Noted, decide_notations, notations_of
from tipple.plan.sniff_profile import LOW_CONFIDENCE, Chunk, Decision, Given, Layout, Profile
from tipple.plan.sniff_top import Top, find_top
from tipple.plan.sources import Dialect, named_format, plan_dialect
from tipple.run.encoding import RECODED, look_at_encoding
from tipple.run.remarks import marked_inside
from tipple.run.sampling import Sample, take_sample
from tipple.run.sniff_refusals import (
    refuse_doubled_line_ends,
    refuse_mixed_line_ends,
    refuse_other_first_line_end,
    refuse_other_text,
    refuse_separator_line,
)
from tipple.run.sniff_sql import refuse_sql

__all__ = ["Sniffed", "Sniffer"]

SMALL_HEAD_BYTES = 64 * 1024
SMALL_PIECE_BYTES = 8 * 1024
SMALL_TOTAL_BYTES = 192 * 1024
"""What every candidate is tried on; the whole sample is read in the chosen dialect, and in all others where it
shows what this part does not."""
_JSON = re.compile(rb"\s*(?:\xef\xbb\xbf)?(\[\s*)?(?=\{\s*\")")
_INDENTED_JSON = re.compile(rb"\s*(?:\xef\xbb\xbf)?(?:\[\s*)?\{[ \t]*\r?\n\s*\"[^\"\r\n]*\"\s*:")
_JSON_HINT = "it seems to be JSON: make Parquet of it first (in DuckDB: COPY (FROM 'a.json') TO 'a.parquet')"
_EMPTY_LINES = re.compile(rb"(?:\xef\xbb\xbf)?((?:\r\n|\n|\r)+)")
REGULAR_SHARE = 0.9
"""A file of which so much is regular shows its format by itself, where all files together are irregular."""


class Sniffed(msgspec.Struct, frozen=True, kw_only=True):
    """What the sources turned out to be."""

    dialect: Dialect
    """Its header is the one that was asked for; see `header`."""
    header: Decision
    different_headers: bool
    """Whether every sampled file begins with a header beyond doubt, but not with the same one."""
    headers_of_some: list[list[str]]
    """The folded names of headers beyond doubt, where some sampled files begin with one, and others do not."""
    decisions: list[Decision]
    """All but the header."""
    odd_encodings: dict[str, str]
    """Files that are of another encoding than the others, and of which one."""
    null_columns: list[int]
    """The columns that say what means NULL, where it is not the usual text."""
    noted: Noted
    """How dates and numbers are written, as far as nothing is known of columns."""
    decide: Callable[..., Noted]
    """The same where a table says which columns are to hold `dates` and `numbers`."""
    profile: Profile
    top: Top | None
    """Records at the top that may be none, and are not a header alone."""
    marked: list[str]
    """Files with byte order marks within them."""
    sampled_bytes: int


class Sniffer:
    """Finds out the dialect of sources, or only what their columns hold."""

    def __init__(self, paths: Sequence[str], format: str, options: Given) -> None:
        """Checks the options.

        Args:
            paths: the sources.
            format: `auto`, or the format, which then has COPY's defaults.
            options: as the user wrote them.

        Raises:
            UsageError: options that no format has.
        """
        self.paths = paths
        self.options = options
        self.named = named_format(paths) if format == "auto" else None
        self.auto = format == "auto"
        checked = format
        if self.auto:
            forced = bool(options.force_null or options.force_not_null)
            quoting = options.quote is not None or options.escape is not None or forced
            checked = "csv" if quoting else self.named or "csv"
        self.dialect = self._plan(checked, options)
        resolved = ("delimiter", "quote", "escape", "date_style")
        given = {name: getattr(self.dialect, name) for name in resolved if getattr(options, name)}
        if self.auto and forced:
            given["quote"] = self.dialect.quote
        self.given = msgspec.structs.replace(options, **given)

    @staticmethod
    def _plan(format: str, options: Given) -> Dialect:
        return plan_dialect(
            format,
            delimiter=options.delimiter,
            quote=options.quote,
            escape=options.escape,
            null_text=options.null_text,
            header=options.header,
            encoding=options.encoding,
            trailing_delimiter=options.trailing_delimiter,
            skip_lines=options.skip_lines,
            comment=options.comment,
            force_null=options.force_null,
            force_not_null=options.force_not_null,
            field_widths=options.field_widths,
            date_style=options.date_style,
            decimal_separator=options.decimal_separator,
            thousands=options.thousands,
        )

    def look(self, expected_fields: int | None, sources: Sequence[Identity] = ()) -> Sniffed:
        """Reads the sample and decides.

        Args:
            expected_fields: the number of fields that the target wants, where it is known.
            sources: the sources as far as their form is known; without them every one is plain text.

        Raises:
            UsageError: the format cannot be told, or differs from file to file.
        """
        if self.dialect.format == "fixed":
            raise UsageError(
                "--schema auto cannot see columns in --format fixed", hint="give the columns: --schema FILE.sql"
            )
        identified = zip(self.paths, sources, strict=True) if sources else ()
        streams = {path: source for path, source in identified if source.form is not None}
        sample = take_sample(self.paths, streams, self._quoting_of_comments(streams, expected_fields))
        decisions: list[Decision] = []
        sniffed_encoding = None
        odd_encodings: dict[str, str] = {}
        if self.auto and self.given.encoding is None and sample.pieces:
            encoding, odd_encodings = look_at_encoding(sample, self.paths, streams)
            decisions.append(encoding)
            if encoding.value in RECODED:
                sniffed_encoding = encoding.value
        chunks = _chunks(sample, sniffed_encoding)
        if self.auto:
            refuse_other_text(sample.paths, chunks)
            refuse_sql(sample.paths, chunks)
        refuse_separator_line(sample.paths, chunks)
        usual_quotes = self.given.quote in (None, '"')
        # Where the columns are known, what ends otherwise is a bad record, which can be skipped.
        guesses_columns = expected_fields is None and usual_quotes
        if usual_quotes:
            refuse_doubled_line_ends(sample.paths, chunks)
        if guesses_columns:
            refuse_other_first_line_end(sample.paths, chunks)
        layout = self._planned_layout
        profile_of = functools.cache(lambda layout: self._profile(chunks, layout))
        if self.auto:
            layout, found = self._layout(sample, chunks, profile_of, expected_fields, layout)
            if expected_fields is None:
                # Where the columns are known, such a line is a bad record, which can be skipped.
                self._refuse_empty_lines(sample, chunks, layout)
            decisions += found
        profile = self._with_codes(profile_of(layout), chunks, layout)
        if guesses_columns:
            refuse_mixed_line_ends(sample.paths, chunks, profile)
        own = [
            self._profile([chunk for chunk in chunks if chunk.file == number], layout)
            for number in (profile.heads if heads_differ(profile) else ())
        ]
        top = self._top(chunks, layout, profile)
        judged = profile if top is None or not top.is_sure else top.above(profile)
        header = decide_header(judged, own, row_labels(chunks, layout, profile))
        if top is not None and top.is_ruled and header.value == "no" and not heads_differ(profile):
            header = ruled_header()
        different_headers = have_different_headers(profile, own)
        some_headers = headers_of_some(profile)
        has_header = (self.given.header or header.value) != "no"
        if top is not None and not _tells(top, header, has_header=has_header):
            top = None
        profile = _without_header(profile, has_header=has_header)

        def again(tried: Notations) -> Profile:
            read = self._with_codes(self._profile(chunks, layout, tried), chunks, layout, tried)
            return _without_header(read, has_header=has_header)

        decide = functools.partial(decide_notations, profile, self.given, again, delimiter=layout.delimiter)
        noted = decide()
        options = noted.added_to(self.given)
        notations = notations_of(profile, options, again)
        if notations:
            profile = again(notations)
        keeps_texts = bool(self.given.force_not_null)
        null, null_columns = decide_null(profile, layout.format, tabs=layout.delimiter == "\t", keeps_texts=keeps_texts)
        null_text = self.given.null_text
        if self.auto and null_text is None and chunks:
            decisions.append(null)
            null_text = null.value
        if null_text is None or null_text != null.value:
            null_columns = []
        trailing = self.given.trailing_delimiter
        options = msgspec.structs.replace(
            options,
            delimiter=layout.delimiter,
            quote=layout.quote if layout.format == "csv" else None,
            escape=layout.escape if layout.format == "csv" else None,
            null_text=null_text,
            encoding=sniffed_encoding or self.given.encoding,
            trailing_delimiter=True if layout.trailing and trailing is None else trailing,
        )
        return Sniffed(
            dialect=self._plan(layout.format, options),
            header=header,
            different_headers=different_headers,
            headers_of_some=some_headers,
            decisions=decisions,
            odd_encodings=odd_encodings,
            null_columns=null_columns,
            noted=noted,
            decide=decide,
            profile=profile,
            top=top,
            marked=marked_inside(sample.paths, chunks),
            sampled_bytes=sample.size_bytes,
        )

    def _top(self, chunks: Sequence[Chunk], layout: Layout, profile: Profile) -> Top | None:
        """Records at the top that are unlike all others."""
        given = self.given.trailing_delimiter
        dialect = plan_dialect(
            layout.format,
            delimiter=layout.delimiter,
            quote=layout.quote if layout.format == "csv" else None,
            escape=layout.escape if layout.format == "csv" else None,
            trailing_delimiter=True if layout.trailing and given is None else given,
        )
        return find_top(chunks, dialect, profile, lambda others: self._profile(others, layout))

    @property
    def _planned_layout(self) -> Layout:
        """As far as the options say it, and for the rest as COPY has it."""
        dialect = self.dialect
        return Layout(format=dialect.format, delimiter=dialect.delimiter, quote=dialect.quote, escape=dialect.escape)

    def _quoting_of_comments(self, streams: Mapping[str, Identity], expected_fields: int | None) -> Layout | None:
        """What quotes lines that look like comments, which have to be left out before a layout can be chosen."""
        if self.dialect.comment is None:
            return None
        if not self.auto or self.given.quote is not None or self.given.escape is not None:
            return self._planned_layout
        usual = Layout(format="csv", delimiter=self.dialect.delimiter, quote='"', escape='"')
        sample = take_sample(self.paths, streams, usual)
        if sample == take_sample(self.paths, streams):
            return None
        chunks = _chunks(sample)
        chosen, _, _ = self._choose(_small(chunks), expected_fields)
        profile = self._profile(chunks, chosen)
        makes_sense = chosen.quote == usual.quote and not profile.stray_quotes and not profile.unterminated
        return usual if makes_sense else None

    def _layout(
        self,
        sample: Sample,
        chunks: Sequence[Chunk],
        profile_of: ProfileOf,
        expected_fields: int | None,
        fallback: Layout,
    ) -> tuple[Layout, list[Decision]]:
        if not chunks and self.named is not None:
            return fallback, []
        small = _small(chunks)
        layout, decisions, told = self._choose(small, expected_fields)
        if not told:
            layout, decisions, told = self._choose(chunks, expected_fields, profile_of)
        elif small != chunks:
            layout, decisions = self._checked(layout, decisions, small, chunks, profile_of, expected_fields)
        if not told and self.named is None:
            examples = {named_format([path]): path for path in reversed(self.paths)}
            if len(examples) > 1:
                raise _different(f"{name or 'unknown'} ({path})" for name, path in reversed(examples.items()))
            path = sample.paths[0] if sample.paths else self.paths[0]
            hint = (
                "name it: --format csv, perhaps with --delimiter and --quote; --format tbl (| after every field); "
                "or --format text (tabs and backslashes)"
            )
            if not sample.size_bytes:
                raise UsageError(
                    "standard input is empty"
                    if path == STDIN
                    else f"{path} is empty, and its name does not say which format it has",
                    hint="if that is as it should be: --format csv loads 0 rows of it, into a table that exists or one "
                    "of --schema FILE.sql",
                    detail={"path": path},
                )
            if chunks and _JSON.match(chunks[0].data):
                hint = _JSON_HINT
            raise UsageError(
                f"{path}: neither its name nor its content says which format the file has",
                hint=hint,
                detail={"path": path},
            )
        # As the text of the only column JSON is welcome; what delimiters and quotes make of it is nothing.
        is_json = self.given.delimiter is None and bool(chunks) and _is_json(chunks[0].data)
        if is_json and (self.named == "csv" or profile_of(layout).fields > 1):
            path = sample.paths[chunks[0].file]
            raise UsageError(f"{path} holds JSON objects", hint=_JSON_HINT, detail={"path": path})
        self._same_format(sample, chunks, profile_of(layout))
        return layout, decisions

    def _checked(
        self,
        layout: Layout,
        decisions: list[Decision],
        small: Sequence[Chunk],
        chunks: Sequence[Chunk],
        profile_of: ProfileOf,
        expected_fields: int | None,
    ) -> tuple[Layout, list[Decision]]:
        """What was chosen by a `small` sample, or the choice by all of it where that shows more."""
        part, whole = self._profile(small, layout), profile_of(layout)
        samples = ([chunk.data for chunk in small], part), ([chunk.data for chunk in chunks], whole)
        if is_contradicted(layout, *samples, named=self.named):
            again, found, told = self._choose(chunks, expected_fields, profile_of)
            if told and not loses_quotes(layout, part, again):
                return again, found
        seen = part.quoted_fields, part.stray_quotes, part.unterminated
        if seen == (whole.quoted_fields, whole.stray_quotes, whole.unterminated):
            return layout, decisions
        quote = decide_quote(layout, whole, profile_of, [chunk.data for chunk in chunks])
        return layout, [quote if found.option == "quote" and quote is not None else found for found in decisions]

    def _refuse_empty_lines(self, sample: Sample, chunks: Iterable[Chunk], layout: Layout) -> None:
        """Refuses empty lines above the first record: they are none of several columns, and hide a header."""
        for chunk in chunks:
            found = _EMPTY_LINES.match(chunk.data) if chunk.begins else None
            if found is None:
                continue
            rest = msgspec.structs.replace(chunk, data=chunk.data[found.end() :])
            if self._profile([rest], layout).fields > 1:
                lines = len(found.group(1).splitlines())
                path = sample.paths[chunk.file]
                raise UsageError(
                    f"{path} begins with {'an empty line' if lines == 1 else f'{lines} empty lines'}",
                    hint=f"--skip-lines {lines} leaves out as many lines at the beginning of every file",
                    detail={"path": path},
                )

    def _choose(
        self, chunks: Sequence[Chunk], expected_fields: int | None, profile_of: ProfileOf | None = None
    ) -> tuple[Layout, list[Decision], bool]:
        return choose_layout(
            [chunk.data for chunk in chunks],
            profile_of or (lambda layout: self._profile(chunks, layout)),
            given=self.given,
            named=self.named,
            expected_fields=expected_fields,
        )

    def _same_format(self, sample: Sample, chunks: Sequence[Chunk], profile: Profile) -> None:
        """Refuses files that are of different formats, before a record of one is blamed for it."""
        if len(sample.paths) < 2 or profile.regularity == 1.0:
            return
        found: dict[tuple[str, bool], str] = {}
        for number, path in enumerate(sample.paths):
            own_chunks = _small([chunk for chunk in chunks if chunk.file == number])
            own, _, told = self._choose(own_chunks, None)
            seen = self._profile(own_chunks, own)
            if told and seen.fields > 1 and seen.regularity >= REGULAR_SHARE:
                ends = " at line ends too" if own.trailing else ""
                found.setdefault((own.delimiter, own.trails), f"{own.format} with {own.delimiter!r}{ends} ({path})")
        if len(found) > 1:
            raise _different(found.values())

    def _with_codes(
        self, profile: Profile, chunks: Sequence[Chunk], layout: Layout, notations: Notations | None = None
    ) -> Profile:
        """The profile in which codes such as 12E5 are told from numbers."""
        if not any("float" in column.kinds for column in profile.columns):
            return profile
        return mark_codes(profile, self._profile([masked(chunk) for chunk in chunks], layout, notations))

    def _profile(self, chunks: Sequence[Chunk], layout: Layout, notations: Notations | None = None) -> Profile:
        places = [{"file": chunk.file, "begins": chunk.begins, "ends": chunk.ends} for chunk in chunks]
        data = [chunk.data for chunk in chunks]
        codec = layout.codec
        if self.given.trailing_delimiter is not None:
            codec["trailing_delimiter"] = self.given.trailing_delimiter
        if notations:
            codec["notations"] = [notations.get(index, "plain") for index in range(max(notations) + 1)]
        found = _core.profile_sample(json.dumps(codec), json.dumps(places), data)
        return msgspec.json.decode(found, type=Profile, strict=False)


def _chunks(sample: Sample, encoding: str | None = None) -> list[Chunk]:
    """The pieces of a sample as UTF-8."""
    return [
        Chunk(
            file=piece.file,
            begins=piece.begins,
            ends=piece.ends,
            data=piece.data if encoding is None else to_utf8(piece.data, encoding),
        )
        for piece in sample.pieces
    ]


def _is_json(data: bytes) -> bool:
    """Whether a sample begins with a JSON object in a line of its own, with an array of objects, or with one of either
    over several lines, which may not end in the sample.
    """
    found = _JSON.match(data)
    if found is None:
        return False
    if _INDENTED_JSON.match(data):
        return True
    is_array = found[1] is not None
    text = data[found.end() :] if is_array else data[found.end() :].split(b"\n", 1)[0]
    try:
        _, end = json.JSONDecoder().raw_decode(decoded := text.decode(errors="replace"))
    except (ValueError, RecursionError):
        return False
    rest = decoded[end:].lstrip()
    return rest[:1] in (",", "]") if is_array else not rest


def _without_header(profile: Profile, *, has_header: bool) -> Profile:
    """The profile with columns of records only."""
    return profile if has_header else msgspec.structs.replace(profile, columns=profile.columns_with_heads)


def _tells(top: Top, header: Decision, *, has_header: bool) -> bool:
    """Whether there is more to be said of the records at the top than what the decision on a header says."""
    if top.records > 1:
        return has_header or top.is_below_names
    return not has_header and header.confidence >= LOW_CONFIDENCE


def _different(found: Iterable[str]) -> UsageError:
    return UsageError(
        f"the sources have different formats: {', '.join(found)}",
        hint="load each format by a command of its own, such as tipple load 'DIR/*.csv' ..., or name one for all by "
        "--format",
    )


def _small(chunks: Sequence[Chunk]) -> list[Chunk]:
    """A smaller sample of the same places."""
    heads = sum(chunk.begins for chunk in chunks)
    head_bytes = SMALL_HEAD_BYTES if heads == 1 else SMALL_TOTAL_BYTES // 2 // max(1, heads)
    rest = max(1, len(chunks) - heads)
    piece_bytes = max(1024, min(SMALL_PIECE_BYTES, SMALL_TOTAL_BYTES // 2 // rest))
    small = []
    for chunk in chunks:
        limit = head_bytes if chunk.begins else piece_bytes
        if len(chunk.data) <= limit:
            small.append(chunk)
        elif chunk.begins or not chunk.ends:
            small.append(msgspec.structs.replace(chunk, data=chunk.data[:limit], ends=False))
        else:
            small.append(msgspec.structs.replace(chunk, data=chunk.data[-limit:]))
    return small
