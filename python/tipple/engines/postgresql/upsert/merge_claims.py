"""What the suspects of an upsert want to be unique, and which rows of the table have it: see `merge_turns.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.merge_turns import Claim, Place, Suspect, judged
from tipple.engines.postgresql.upsert.merge_constraints import Unique
from tipple.plan.url import quote_identifier

__all__ = ["PLACE", "Claims"]

PLACE = "tipple_slice, tipple_row"
"""The columns of the staging table that say where a row comes from."""


class Claims:
    """The claims of all suspects, read once, and what is known by now of their rows."""

    def __init__(self) -> None:
        self.suspects: dict[Place, Suspect] = {}
        self.held: dict[Claim, int | None] = {}
        self.reasons: dict[Place, str] = {}
        """The rows that are refused because another key has what they want, each with what the server would say."""
        self._indexes: Sequence[Unique] = ()
        self._turned_down: set[Place] = set()
        self._in_the_way: set[Claim] = set()
        """What others have, and rows were refused for."""

    def read(
        self, connection: psycopg.Connection[Any], task: LoadTask, suspects: str, target: str, indexes: Sequence[Unique]
    ) -> None:
        """Reads them from the table of suspects, with a turn for each key, and from the one that they go to."""
        self._indexes = indexes
        key = ", ".join(map(quote_identifier, task.key))
        of_key = " AND ".join(f"x.{name} = w.{name}" for name in map(quote_identifier, task.key))
        for number, unique in enumerate(indexes):
            names = ", ".join(f"{name}::text" for name in unique.names)
            wanted = unique.values(suspects, f"{PLACE}, tipple_turn")
            for order, row, turn, *values in connection.execute(
                f"SELECT {PLACE}, tipple_turn, {names} FROM ({wanted}) v".encode()
            ).fetchall():
                earlier = self.suspects.get((order, row))
                claims = earlier.claims if earlier is not None else ()
                self.suspects[order, row] = Suspect((order, row), turn, (*claims, (number, tuple(values))))
            has = unique.values(f"{target} t", key)
            parts = ", ".join(unique.names)
            texts = ", ".join(f"w.{name}::text" for name in unique.names)
            for turn, *values in connection.execute(
                f"SELECT x.tipple_turn, {texts} FROM ({has}) w "
                f"JOIN (SELECT DISTINCT {parts} FROM ({wanted}) v) v ON {unique.same('v', 'w')} "
                f"LEFT JOIN (SELECT DISTINCT {key}, tipple_turn FROM {suspects}) x ON {of_key}".encode()
            ).fetchall():
                self.held[number, tuple(values)] = turn
        # Those that claim nothing take part: their keys give up what they have.
        for order, row, turn in connection.execute(f"SELECT {PLACE}, tipple_turn FROM {suspects}").fetchall():
            self.suspects.setdefault((order, row), Suspect((order, row), turn, ()))

    def judge(self) -> set[Place]:
        """Says anew what is refused; returns the places of which something else was said before."""
        refused = dict(judged(self.suspects.values(), self.held, self._turned_down))
        self._in_the_way = set(refused.values())
        found = {place: self._indexes[claim[0]].reason(claim[1]) for place, claim in refused.items()}
        changed = found.keys() ^ self.reasons.keys()
        self.reasons = found
        return changed

    def turn_down(self, place: Place) -> bool:
        """Tells that the server refuses a row that was not foreseen; whether others may now be judged otherwise."""
        self._turned_down.add(place)
        suspect = self.suspects.get(place)
        return suspect is not None and not self._in_the_way.isdisjoint(suspect.claims)
