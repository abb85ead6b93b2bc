"""`--format auto` and `--schema auto`: samples the sources, and has the core and `plan` say what they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from tipple import _core
from tipple.errors import UsageError
from tipple.plan.sniff import Chunk, Decision, Given, Layout, Profile, choose_layout
from tipple.plan.sniff_columns import decide_header, decide_null
from tipple.plan.sniff_encoding import decide_encoding, to_utf8
from tipple.plan.sources import Dialect, named_format, plan_dialect
from tipple.run.sampling import Sample, take_sample

__all__ = ["Sniffed", "Sniffer"]

SMALL_HEAD_BYTES = 64 * 1024
SMALL_PIECE_BYTES = 8 * 1024
SMALL_TOTAL_BYTES = 192 * 1024
"""What every candidate is tried on; the whole sample is read in the chosen dialect only."""
REGULAR_SHARE = 0.9
"""A file of which so much is regular shows its format by itself, where all files together are irregular."""


class Sniffed(msgspec.Struct, frozen=True, kw_only=True):
    """What the sources turned out to be."""

    dialect: Dialect
    """Its header is the one that was asked for; see `header`."""
    header: Decision
    decisions: list[Decision]
    """All but the header."""
    null_columns: list[int]
    """The columns that say what means NULL, where it is not the usual text."""
    profile: Profile
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
            quoting = options.quote is not None or options.escape is not None
            checked = "csv" if quoting else self.named or "csv"
        self.dialect = self._plan(checked, options)
        given = {
            name: getattr(self.dialect, name) for name in ("delimiter", "quote", "escape") if getattr(options, name)
        }
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
        )

    def look(self, expected_fields: int | None) -> Sniffed:
        """Reads the sample and decides.

        Args:
            expected_fields: the number of fields that the target wants, where it is known.

        Raises:
            UsageError: the format cannot be told, or differs from file to file.
        """
        sample = take_sample(self.paths)
        decisions: list[Decision] = []
        encoding = decide_encoding([piece.data for piece in sample.pieces])
        if not self.auto or self.given.encoding is not None:
            encoding = msgspec.structs.replace(encoding, value=self.dialect.encoding)
        elif sample.pieces:
            decisions.append(encoding)
        chunks = [
            Chunk(file=p.file, begins=p.begins, ends=p.ends, data=to_utf8(p.data, encoding.value))
            for p in sample.pieces
        ]
        layout = Layout(
            format=self.dialect.format,
            delimiter=self.dialect.delimiter,
            quote=self.dialect.quote,
            escape=self.dialect.escape,
        )
        if self.auto:
            layout, found = self._layout(sample, chunks, expected_fields, layout)
            decisions += found
        profile = _profile(chunks, layout)
        header = decide_header(profile)
        if (self.given.header or header.value) == "no":
            profile = _profile(chunks, layout, heads_are_data=True)
        null, null_columns = decide_null(profile, layout.format)
        null_text = self.given.null_text
        if self.auto and null_text is None and chunks:
            decisions.append(null)
            null_text = null.value
        if null_text is None or null_text != null.value:
            null_columns = []
        options = msgspec.structs.replace(
            self.given,
            delimiter=layout.delimiter,
            quote=layout.quote if layout.format == "csv" else None,
            escape=layout.escape if layout.format == "csv" else None,
            null_text=null_text,
            encoding=encoding.value if self.auto else self.given.encoding,
        )
        return Sniffed(
            dialect=self._plan(layout.format, options),
            header=header,
            decisions=decisions,
            null_columns=null_columns,
            profile=profile,
            sampled_bytes=sample.size_bytes,
        )

    def _layout(
        self, sample: Sample, chunks: Sequence[Chunk], expected_fields: int | None, fallback: Layout
    ) -> tuple[Layout, list[Decision]]:
        if not chunks and self.named is not None:
            return fallback, []
        layout, decisions, told = self._choose(_small(chunks), expected_fields)
        if not told:
            layout, decisions, told = self._choose(chunks, expected_fields)
        if not told and self.named is None:
            names = sorted({str(named_format([path])) for path in self.paths})
            if len(names) > 1:
                raise _different(f"{named_format([path])} ({path})" for path in self.paths[:3])
            path = sample.paths[0] if sample.paths else self.paths[0]
            raise UsageError(
                f"{path}: neither its name nor its content says which format the file has",
                hint="name it: --format csv, perhaps with --delimiter and --quote; --format tbl (| after every field); "
                "or --format text (tabs and backslashes)",
                detail={"path": path},
            )
        self._same_format(sample, chunks, layout)
        return layout, decisions

    def _choose(self, chunks: Sequence[Chunk], expected_fields: int | None) -> tuple[Layout, list[Decision], bool]:
        return choose_layout(
            [chunk.data for chunk in chunks],
            lambda layout: _profile(chunks, layout),
            given=self.given,
            named=self.named,
            expected_fields=expected_fields,
        )

    def _same_format(self, sample: Sample, chunks: Sequence[Chunk], layout: Layout) -> None:
        """Refuses files that are of different formats, before a record of one is blamed for it."""
        if len(sample.paths) < 2:
            return
        if _profile(chunks, layout).regularity == 1.0:
            return
        found: dict[tuple[str, bool], str] = {}
        for number, path in enumerate(sample.paths):
            own_chunks = _small([chunk for chunk in chunks if chunk.file == number])
            own, _, told = self._choose(own_chunks, None)
            profile = _profile(own_chunks, own)
            if told and profile.fields > 1 and profile.regularity >= REGULAR_SHARE:
                found.setdefault((own.delimiter, own.format == "tbl"), f"{own.format} with {own.delimiter!r} ({path})")
        if len(found) > 1:
            raise _different(found.values())


def _different(found: Iterable[str]) -> UsageError:
    return UsageError(
        f"the sources have different formats: {', '.join(found)}",
        hint="load each format by a command of its own, or name one for all by --format",
    )


def _profile(chunks: Sequence[Chunk], layout: Layout, *, heads_are_data: bool = False) -> Profile:
    places = [{"file": chunk.file, "begins": chunk.begins, "ends": chunk.ends} for chunk in chunks]
    data = [chunk.data for chunk in chunks]
    found = _core.profile_sample(json.dumps(layout.codec), json.dumps(places), data, heads_are_data)
    return msgspec.json.decode(found, type=Profile, strict=False)


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
