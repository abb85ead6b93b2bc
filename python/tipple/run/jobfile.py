"""Job files: TOML with the tables of a job, read, put together from its includes, filled in and checked.

Whatever is wrong is said with file, line and key, and before anything is started.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NoReturn, get_args, get_origin

import msgspec

from tipple.engines.base import STDIN
from tipple.errors import UsageError
from tipple.plan.toml_lines import Path, key_lines
from tipple.plan.url import parse_table_name
from tipple.plan.variables import VARIABLE_NAME, Variables
from tipple.run.arguments import check_number
from tipple.run.options import choices_of, option_types
from tipple.run.sources import refuse_undecodable
from tipple.run.target import choose_target

__all__ = ["JobFile", "Publish", "TableEntry", "read_job_file", "refuse_shared_tables"]

Publish = Literal["each", "together"]
TOP_LEVEL: Mapping[str, Any] = {
    "include": str | list[str],
    "publish": Publish,
    "jobs": int,
    "variables": dict[str, Any],
    "defaults": dict[str, Any],
    "tables": dict[str, dict[str, Any]],
}
AFTER: Mapping[str, Any] = {"after": str | list[str]}
OPTIONS_OF_RUN = ("dry-run", "json", "progress", "restart", "summary")
"""What is said of one run of the whole job, on the command line."""
_NAMES_OF_SOURCES = ("file", "files", "path", "paths", "source", "input", "inputs", "from")
_NAMES_OF_JOBS = ("jobs", "streams", "threads", "workers")
HERE = "here"
"""The variable for the directory of the file that it stands in."""
TABLE = "table"
"""The variable for the table's name."""
_OPTION = re.compile(r"--(no-)?([a-z][a-z-]*)")


class TableEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a job."""

    name: str
    """Its key under [tables]."""
    after: tuple[str, ...]
    """Names of the tables that must be loaded before."""
    options: dict[str, Any]
    """Arguments of `load`."""
    place: str
    """File and line, for errors."""
    keys: dict[str, str]
    """For each option that it has, from [defaults] too: file, line and key."""
    from_defaults: frozenset[str] = frozenset()
    """The options that it has from there alone."""

    def place_of(self, complaint: str) -> str:
        """File, line and key of the option of its own that a complaint names first; else its own place and name."""
        for negation, option in _OPTION.findall(complaint):
            found = self.keys.get(negation + option) or self.keys.get(option)
            if found is not None:
                return found
        return f"{self.place}: {self.name}"


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """A job file with nothing left to fill in."""

    path: str
    files: tuple[str, ...]
    """That one, and those that it includes."""
    publish: Publish
    jobs: int | None
    """All streams together; None: as many as there are cores."""
    tables: tuple[TableEntry, ...]
    """In an order in which each stands behind those that it is `after`."""


def read_job_file(path: str | os.PathLike[str], settings: Mapping[str, Any], environment: Mapping[str, str]) -> JobFile:
    """The job in a file.

    Args:
        path: the file.
        settings: values for its variables, which count more than its own.
        environment: what `${env:NAME}` looks into.

    Raises:
        UsageError: the file, or one that it includes, is not there or not well; says where.
    """
    return _Reader(os.fspath(path), settings, environment).job()


class _Document:
    """One file."""

    def __init__(self, path: str) -> None:
        """Reads it.

        Raises:
            UsageError: it cannot be read, or is no TOML, or its name is not UTF-8.
            FileNotFoundError, IsADirectoryError: it is not there, or is a directory.
        """
        self.path = path
        refuse_undecodable(path)
        if "\0" in path:
            raise FileNotFoundError
        try:
            # Some editors begin a file with a byte order mark.
            with open(path, encoding="utf-8-sig") as file:
                text = file.read()
        except (FileNotFoundError, IsADirectoryError):
            raise
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise UsageError(f"{path}, line {line}: not UTF-8, as TOML is", hint="save it as UTF-8") from None
        except OSError as error:
            raise UsageError(f"cannot read the job file {path}: {error.strerror}", hint="give a file") from None
        try:
            self.content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
            where = f"{path}, line {found[2]}, column {found[3]}: {found[1]}" if found else f"{path}: {error}"
            if str(error).endswith(" (at end of document)"):
                last = len(text.rstrip("\n").split("\n"))
                where = f"{path}, line {last}: {str(error).removesuffix(' (at end of document)')}"
            raise UsageError(f"{where}: not valid TOML", hint="https://toml.io has the syntax") from None
        self.lines = key_lines(text)
        for key, value in self.content.items():
            self._check(TOP_LEVEL, (), key, value)
        for key, value in self.content.get("variables", {}).items():
            if isinstance(value, dict) and key in TOP_LEVEL:
                heading = "tables.NAME" if key == "tables" else key
                hint = f"keys below [variables] belong to that: write [{heading}] on a line of its own"
                self.refuse(_first_within(("variables", key), value), "a variable is a value, and has no keys", hint)
            if not VARIABLE_NAME.fullmatch(key) or key in (HERE, TABLE):
                self.refuse(
                    ("variables", key), "not a name for a variable", "letters, digits, _ and -; not here, table"
                )

    @property
    def directory(self) -> str:
        """In which the file lies."""
        return os.path.dirname(self.path) or "."

    def place(self, path: Path) -> str:
        """File and line of a key, or of what is nearest above it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.path}, line {self.lines[path]}" if path else self.path

    def where(self, path: Path) -> str:
        """File, line and key."""
        return f"{self.place(path)}: {'.'.join(_shown(part) for part in path if isinstance(part, str))}"

    def refuse(self, path: Path, complaint: str, hint: str | None) -> NoReturn:
        """Says what is wrong with a key."""
        raise UsageError(f"{self.where(path)}: {complaint}", hint=hint)

    def convert(self, known: Mapping[str, Any], path: Path, value: Any, *, filled: bool = False) -> Any:
        """A key's value, in the type that it must have; a text in which a variable was filled in may stand for it."""
        key = path[-1]
        wanted = known[str(key)]
        if value in ("yes", "no") and (wanted is bool or bool in get_args(wanted)):
            # As the command line has it for some of them.
            value = value == "yes"
        try:
            converted = msgspec.convert(value, wanted, strict=not filled)
        except msgspec.ValidationError as error:
            choices = choices_of(wanted)
            complaint = f"{value!r} is none of {', '.join(choices)}" if choices else _lower(str(error))
            if path == ("tables",):
                self._refuse_tables(value)
            element = re.search(r"\$\[(\d+)\]", str(error))
            place = path if element is None else (*path, int(element[1]))
            self.refuse(place, complaint, _hint_for_list(key, value, wanted) or _hint_for_type(key, wanted, value))
        if isinstance(converted, int):
            out_of_range = check_number(str(key).replace("-", "_"), converted)
            if out_of_range is not None:
                self.refuse(path, out_of_range, None)
        return converted

    def _refuse_tables(self, value: Any) -> NoReturn:
        path: Path = ("tables",)
        if isinstance(value, dict):
            name = next(name for name, options in value.items() if not isinstance(options, dict))
            shown = _shown(name)
            self.refuse(
                (*path, name), "a table has options, and is no value", f"write [tables.{shown}] and its sources"
            )
        # The way most TOML files write several of a kind.
        self.refuse(path, "tables have names, and are neither a list nor a value", "write [tables.NAME], one for each")

    def require(self, parse: Callable[[str], object], value: str, path: Path) -> None:
        """Refuses a value that cannot be parsed."""
        try:
            parse(value)
        except UsageError as error:
            self.refuse(path, str(error), error.hint)

    def known_key(self, known: Mapping[str, Any], path: Path) -> None:
        """Refuses a key that there is not, with the one that may be meant."""
        key = str(path[-1])
        if key not in known:
            self.refuse(path, "no such key", _hint_for_key(key.replace("_", "-"), known))

    def _check(self, known: Mapping[str, Any], above: Path, key: str, value: Any) -> None:
        self.known_key(known, (*above, key))
        if key in ("variables", "defaults", "tables"):
            self.convert(known, (*above, key), value)


def _hint_for_list(key: object, value: Any, wanted: Any) -> str | None:
    """How a list is written that is given as on the command line."""
    # Names in quotes may hold commas.
    if get_origin(wanted) is not list or not isinstance(value, str) or '"' in value:
        return None
    parts = [part.strip() for part in value.split(",")]
    numbers = get_args(wanted) == (int,) and all(part.isdecimal() for part in parts)
    return f"a list is written {key} = {json.dumps(list(map(int, parts)) if numbers else parts)}"


def _hint_for_type(key: object, wanted: Any, value: Any) -> str | None:
    """How a value is written that is no text."""
    kinds = {wanted, *get_args(wanted)}
    if get_origin(wanted) is list:
        return None
    if isinstance(value, float) and int in kinds and float not in kinds:
        text = 'a share in quotes: "0.5%"' if key == "max-rejects" else 'a size in quotes: "500MB"'
        return "write a whole number" + (f", or {text}" if str in kinds else "")
    if bool in kinds:
        return "write true or false, without quotes"
    return "write a number, without quotes" if kinds & {int, float} else None


def _hint_for_key(key: str, known: Mapping[str, Any]) -> str:
    """What may be meant by a key that there is not."""
    if key in OPTIONS_OF_RUN:
        return f"it is an option of the command: tipple run --{key}"
    if key == "tables":
        return "keys below [defaults] or [tables.NAME] belong to that: write [tables.NAME] on a line of its own"
    if key == "resume":
        return "leave it out: the job goes on by itself when it is run again"
    if known is TOP_LEVEL and key in option_types():
        return "options stand under [defaults], or under a table's [tables.NAME]"
    if key in _NAMES_OF_SOURCES and "sources" in known:
        return "did you mean sources?"
    if key in _NAMES_OF_JOBS:
        return "the streams of all tables together are jobs = N, above [defaults] and [tables]"
    positive = key.removeprefix("no-")
    if positive != key and positive in known:
        return f"--{key} is {positive} = false here"
    near = get_close_matches(key, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"


class _Value(msgspec.Struct, frozen=True):
    """What a key says."""

    value: Any
    document: _Document
    path: Path
    by: str
    """What of the command line has a part in it, for errors; a value may be a secret, and is not told."""

    @property
    def where(self) -> str:
        """Who is to be asked about it."""
        return self.by + self.document.where(self.path)


@contextmanager
def _blaming(by: str) -> Iterator[None]:
    """Says of what is wrong with a value that the command line has given it, where it has."""
    try:
        yield
    except UsageError as error:
        if not by:
            raise
        raise UsageError(f"{by}{error}", hint="give another value there") from None


class _Reader:
    """Puts a job together."""

    def __init__(self, path: str, settings: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        for name, value in settings.items():
            if value is None:
                # A text in a file would be "None".
                raise UsageError(f"--set {name}: None is no value", hint="give one, or leave it out")
        self.path = path
        self.settings = settings
        self.environment = environment
        self.documents: list[_Document] = []
        self.used: set[str] = set()
        self.within: dict[str, dict[str, str]] = {}
        """By the name of a variable, what others mean where it stands."""
        try:
            self._read(path, ())
        except FileNotFoundError:
            raise UsageError(f"there is no job file {path}", hint="check the path") from None
        except IsADirectoryError:
            raise UsageError(f"cannot read the job file {path}: it is a directory", hint="give a file") from None
        self.values: dict[str, Any] = {}
        for document in self.documents:
            declared = document.content.get("variables", {})
            self.values |= declared
            self.within |= {name: {HERE: document.directory} for name in declared if name not in settings}
        self.values |= settings

    def _read(self, path: str, within: tuple[str, ...]) -> None:
        """The documents of a file, those that it includes before it."""
        document = _Document(path)
        include = document.content.get("include", [])
        included = [include] if isinstance(include, str) else document.convert(TOP_LEVEL, ("include",), include)
        for number, name in enumerate(included):
            place: Path = ("include",) if isinstance(include, str) else ("include", number)
            values = document.content.get("variables", {}) | dict(self.settings)
            name, _ = self._fill(document, place, name, values)
            file = os.path.normpath(os.path.join(os.path.dirname(path), str(name)))
            chain = [*within, path]
            if any(os.path.abspath(file) == os.path.abspath(earlier) for earlier in chain):
                document.refuse(place, f"the file includes itself: {' → '.join([*chain, file])}", "break the circle")
            if any(os.path.abspath(file) == os.path.abspath(known.path) for known in self.documents):
                continue
            try:
                self._read(file, (*within, path))
            except FileNotFoundError:
                document.refuse(place, f"there is no file {file}", "paths are relative to the file that includes")
            except IsADirectoryError:
                document.refuse(place, f"{file} is a directory", "name the files in it")
        self.documents.append(document)

    def _fill(
        self, document: _Document, path: Path, value: Any, values: Mapping[str, Any], **own: str
    ) -> tuple[Any, bool]:
        """A value with its variables filled in, and whether it had some."""
        if isinstance(value, list):
            # Each by itself: what is wrong with one is told by its own line.
            elements = [
                self._fill(document, (*path, number), element, values, **own) for number, element in enumerate(value)
            ]
            return [element for element, _ in elements], any(filled for _, filled in elements)
        variables = Variables({**values, HERE: document.directory, **own}, self.environment, self.within)
        try:
            return variables.fill(value)
        except UsageError as error:
            document.refuse(path, str(error), error.hint)
        finally:
            self.used |= variables.used

    def _value(self, document: _Document, known: Mapping[str, Any], path: Path, value: Any, **own: str) -> _Value:
        """A key's value, filled in, and in the type that it must have."""
        earlier, self.used = self.used, set()
        try:
            filled_in, filled = self._fill(document, path, value, self.values, **own)
            by = "".join(f"--set {name}: " for name in self.settings if name in self.used)
        finally:
            self.used |= earlier
        with _blaming(by):
            converted = document.convert(known, path, filled_in, filled=filled)
        return _Value(converted, document, path, by)

    def job(self) -> JobFile:
        """All of it."""
        found: dict[str, tuple[_Document, dict[str, Any]]] = {}
        for document in self.documents:
            for name, options in document.content.get("tables", {}).items():
                if name in found:
                    earlier = found[name][0].place(("tables", name))
                    document.refuse(("tables", name), f"this table is in the job already: {earlier}", None)
                found[name] = document, options
        if not found:
            for document in self.documents:
                for key in document.content.get("defaults", {}):
                    # Such as tables.NAME.sources, written below [defaults].
                    document.known_key(option_types(), ("defaults", key))
            raise UsageError(f"{self.path}: the job has no tables", hint="write [tables.NAME] with sources = […]")
        tables = {name: self._table(name, document, options) for name, (document, options) in found.items()}
        self._check_order(tables, {name: document for name, (document, _) in found.items()})
        job = JobFile(
            path=self.path,
            files=tuple(document.path for document in self.documents),
            publish=self._top_level("publish", "each"),
            jobs=self._top_level("jobs", None),
            tables=tuple(_in_order(tables)),
        )
        self._check_settings()
        self._check_places(job)
        return job

    def _last(self, key: str) -> _Document:
        """The document whose value for a key counts."""
        return next((d for d in reversed(self.documents) if key in d.content), self.documents[-1])

    def _top_level(self, key: str, default: Any) -> Any:
        document = self._last(key)
        if key not in document.content:
            return default
        return self._value(document, TOP_LEVEL, (key,), document.content[key]).value

    def _table(self, name: str, document: _Document, options: Mapping[str, Any]) -> TableEntry:
        known = option_types()
        found = {"table": _Value(name, document, ("tables", name), "")}
        for source, path, given, keys in [
            *((d, ("defaults",), d.content.get("defaults", {}), known) for d in self.documents),
            (document, ("tables", name), options, {**known, **AFTER}),
        ]:
            for key, value in given.items():
                place: Path = (*path, key)
                if key in AFTER and keys is known:
                    source.refuse(place, "no table comes after others by default", "write it under [tables.NAME]")
                if isinstance(value, dict) and keys is not known and key not in keys:
                    shown = _shown(f"{name}.{key}")
                    source.refuse(place, "no such key", f"a table in a schema is written in quotes: [tables.{shown}]")
                source.known_key(keys, place)
                found[key] = self._value(source, keys, place, value, **{TABLE: name})
        for key, parse in (("table", parse_table_name), ("into", choose_target)):
            if key in found:
                with _blaming(found[key].by):
                    found[key].document.require(parse, found[key].value, found[key].path)
        values = {key: value.value for key, value in found.items()}
        after = values.pop("after", ())
        sources = values.get("sources")
        if not sources:
            document.refuse(("tables", name), "the table has no sources", "name its files: sources = […]")
        if STDIN in ([sources] if isinstance(sources, str) else sources):
            document.refuse(
                ("tables", name, "sources"),
                "standard input cannot be a source of a job, which is planned before it is run",
                "write it to a file, or use tipple load",
            )
        return TableEntry(
            name=name,
            after=(after,) if isinstance(after, str) else tuple(after),
            options={key.replace("-", "_"): value for key, value in values.items()},
            place=document.place(("tables", name)),
            keys={
                key: value.where + (f", for {name}" if value.path[0] == "defaults" else "")
                for key, value in found.items()
            },
            from_defaults=frozenset(key for key, value in found.items() if value.path[0] == "defaults"),
        )

    def _check_order(self, tables: Mapping[str, TableEntry], documents: Mapping[str, _Document]) -> None:
        for table in tables.values():
            for other in table.after:
                if other not in tables:
                    near = get_close_matches(other, tables, n=1)
                    hint = f"did you mean {near[0]}?" if near else f"tables of the job: {', '.join(tables)}"
                    documents[table.name].refuse(
                        ("tables", table.name, "after"), f"there is no table {other} in the job", hint
                    )
        circle = _circle(tables)
        if circle:
            first = circle[0]
            chain = " → ".join([*circle, first])
            documents[first].refuse(
                ("tables", first, "after"),
                f"these tables wait for each other: {chain}",
                "; ".join(f"{name}: {tables[name].place}" for name in circle),
            )

    def _check_settings(self) -> None:
        """A value for what nobody asks for is most likely a misspelt one."""
        for name in self.settings:
            if name in (HERE, TABLE):
                raise UsageError(
                    f"--set {name}: the job itself knows what ${{{name}}} is",
                    hint="leave it out, or give the variable another name",
                )
            declared = {key for document in self.documents for key in document.content.get("variables", {})}
            if name not in declared | self.used:
                near = get_close_matches(name, sorted(declared | self.used), n=1)
                known = f"variables of the job: {', '.join(sorted(declared | self.used))}"
                if not declared | self.used:
                    known = f"write ${{{name}}} in the file where its value belongs"
                hint = f"did you mean {near[0]}?" if near else known
                raise UsageError(f"--set {name}: {self.path} has no such variable", hint=hint)

    def _check_places(self, job: JobFile) -> None:
        """Two entries for one table must stand in an order, and two tables' rejects in two files."""
        rejects: dict[str, TableEntry] = {}
        for table in job.tables:
            if "rejects" in table.options and rejects.setdefault(table.options["rejects"], table) is not table:
                other = rejects[table.options["rejects"]]
                raise UsageError(
                    f"{table.place}: {table.name} and {other.name} ({other.place}) have one file for their rejects",
                    hint='write rejects = "${table}.rejects"',
                )
        refuse_shared_tables(
            job.tables,
            job.publish,
            lambda table: (table.options.get("into", ""), str(parse_table_name(table.options["table"]))),
        )


def refuse_shared_tables(
    tables: Sequence[TableEntry], publish: Publish, place_of_rows: Callable[[TableEntry], tuple[str, str]]
) -> None:
    """Refuses entries for one table that do not stand in an order.

    Args:
        tables: the entries, in an order in which each stands behind those that it is `after`.
        publish: whether they are published each by itself.
        place_of_rows: target and table of an entry.

    Raises:
        UsageError: there are such entries.
    """
    earlier: dict[tuple[str, str], TableEntry] = {}
    for table in tables:
        place = place_of_rows(table)
        # Behind the last one is behind all: that one was.
        other, earlier[place] = earlier.get(place), table
        if other is None:
            continue
        if publish == "together":
            raise UsageError(
                f"{table.place}: {table.name} and {other.name} ({other.place}) go into the same table",
                hint='give one entry all sources, or write publish = "each"',
            )
        if other.name not in _ancestors(table, {entry.name: entry for entry in tables}):
            raise UsageError(
                f"{table.place}: {table.name} and {other.name} ({other.place}) go into the same table at once",
                hint=f'give one entry all sources, or write after = ["{other.name}"]',
            )


def _in_order(tables: Mapping[str, TableEntry]) -> Sequence[TableEntry]:
    """The tables as they are written, but for those that others come after: these stand before them."""
    done: dict[str, TableEntry] = {}
    for table in tables.values():
        # Those that wait for the one behind them; by recursion, a long chain would be too deep.
        waiting = [table]
        while waiting:
            last = waiting[-1]
            other = next((name for name in last.after if name not in done), None)
            if other is None:
                done.setdefault(last.name, waiting.pop())
            else:
                waiting.append(tables[other])
    return list(done.values())


def _circle(tables: Mapping[str, TableEntry]) -> list[str]:
    """Tables of which each waits for the next, and the last for the first; none where there is an order."""
    try:
        TopologicalSorter({name: table.after for name, table in tables.items()}).prepare()
    except CycleError as error:
        # Each is one that the next waits for, and the first is named at the end again.
        circle: list[str] = error.args[1][:0:-1]
        places = list(tables)
        begin = circle.index(min(circle, key=places.index))
        return [*circle[begin:], *circle[:begin]]
    return []


def _ancestors(table: TableEntry, tables: Mapping[str, TableEntry]) -> set[str]:
    found: set[str] = set()
    left = list(table.after)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += tables[name].after
    return found


def _first_within(path: Path, value: Any) -> Path:
    """The first key with a value that is none of keys, there or below."""
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        path = (*path, key)
    return path


def _shown(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"'


def _lower(text: str) -> str:
    """A message of msgspec in the middle of a sentence."""
    text = text.replace("`", "")
    return text[:1].lower() + text[1:]
