"""SQL of `--mode upsert` that engines have in common: staged rows into a table by key, the last record winning.

Both PostgreSQL 15 and DuckDB know MERGE as SQL:2016 has it. The staged rows carry their place in the sources; of
several with the same key the last one counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tipple.errors import TippleError, UsageError
from tipple.plan.url import TableName, quote_identifier


class MergeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the records of an upsert; together they are all that were read, if the table has no key twice."""

    inserted: int
    updated: int
    """Rows of the table with new values: several for one record, where the table has its key more than once."""
    ignored: int
    """Left out because the table had their key already (`--on-conflict ignore`)."""
    superseded: int
    """Left out because a later record of the same load has the same key."""


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """The statements for one upsert; all names are quoted."""

    target: str
    staging: str
    """A table, or a query in parentheses."""
    columns: Sequence[str]
    key: Sequence[str]
    order: str = ""
    """What `latest` orders staged rows by to have the order of the sources, each part followed by DESC."""
    on_conflict: str
    """update, ignore or error."""
    within: str = ""
    """A further condition on `t`, ` AND …`, such as the range of the keys: by it the planner leaves partitions out."""

    @property
    def latest(self) -> str:
        """A query for the last staged row of each key."""
        key, names = self._key(), self._names()
        return f"SELECT DISTINCT ON ({key}) {names} FROM {self.staging} r ORDER BY {key}, {self.order}"

    @property
    def match(self) -> str:
        """Whether the target's row `t` and the staged row `s` have the same key."""
        return " AND ".join(f"t.{name} = s.{name}" for name in map(quote_identifier, self.key)) + self.within

    def count_latest(self) -> str:
        """How many keys are staged."""
        return f"SELECT count(*) FROM (SELECT DISTINCT {self._key()} FROM {self.staging} r) s"

    def count_matched(self) -> str:
        """How many staged keys the target has, and how many rows with them."""
        return (
            "SELECT count(*), coalesce(sum(held), 0) FROM ("
            f"SELECT count(*) AS held FROM (SELECT DISTINCT {self._key()} FROM {self.staging} r) s "
            f"JOIN {self.target} t ON {self.match} GROUP BY {self._key('s.')}) matched"
        )

    def conflicts(self) -> str:
        """Keys that are staged more than once, or that the target has; at most five, as text."""
        text = " || ', ' || ".join(f"CAST({name} AS varchar)" for name in map(quote_identifier, self.key))
        return (
            f"SELECT {text} FROM (SELECT {self._key()} FROM {self.staging} r GROUP BY {self._key()} "
            "HAVING count(*) > 1 "
            f"UNION SELECT {self._key('s.')} FROM {self.staging} s "
            f"WHERE EXISTS (SELECT 1 FROM {self.target} t WHERE {self.match})) conflict LIMIT 5"
        )

    def merge(self) -> str:
        """The one statement."""
        others = [name for name in self.columns if name not in self.key]
        matched = ""
        if self.on_conflict == "update" and others:
            values = ", ".join(f"{name} = s.{name}" for name in map(quote_identifier, others))
            matched = f"WHEN MATCHED THEN UPDATE SET {values} "
        names = self._names()
        return (
            f"MERGE INTO {self.target} t USING ({self.latest}) s ON {self.match} {matched}"
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({self._names('s.')})"
        )

    def counts(self, *, read: int, latest: int, matched: int, held: int | None = None) -> MergeCounts:
        """What became of `read` records with `latest` keys, of which the target had `matched`, in `held` rows."""
        updates = self.on_conflict == "update" and any(name not in self.key for name in self.columns)
        return MergeCounts(
            inserted=latest - matched,
            updated=(matched if held is None else held) if updates else 0,
            ignored=0 if updates else matched,
            superseded=read - latest,
        )

    def _names(self, prefix: str = "") -> str:
        return ", ".join(prefix + quote_identifier(name) for name in self.columns)

    def _key(self, prefix: str = "") -> str:
        return ", ".join(prefix + quote_identifier(name) for name in self.key)


def own_name(table: TableName, column: str, hint: str) -> UsageError:
    """The refusal of a column that is called like one that Tipple puts beside the rows."""
    return UsageError(f"{table} has a column named {column}, as Tipple calls one of its own beside the rows", hint=hint)


def refuse_conflicts(table: TableName, key: Sequence[str], found: Sequence[Sequence[object]]) -> None:
    """Ends a load with `--on-conflict error` where keys are there twice.

    Raises:
        TippleError: there are some.
    """
    if found:
        values = "; ".join(str(row[0]) for row in found)
        raise TippleError(
            f"{table}: these keys ({', '.join(key)}) are in the table already, or twice in the sources: {values}",
            hint="nothing was published; mend the sources, or use --on-conflict update or ignore",
        )
