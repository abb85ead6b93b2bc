"""Which records of an upsert want what another key has, where something else than the key must be unique. Pure.

Keys take turns in the order of their last records. A key takes what its last record wants to be unique, and gives up
what it had; where another key has that, the record is refused, and the key's record before it is tried. So it is what a
server would say to one record after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

__all__ = ["Claim", "Suspect", "judged"]

Claim = tuple[int, tuple[str | None, ...]]
"""A constraint, and values that it wants to be unique."""
Place = tuple[int, int]
"""Where a record stands; ascending in the order of the sources."""


class Suspect(NamedTuple):
    """A record whose key may want what another key has."""

    place: Place
    key: int
    claims: tuple[Claim, ...]


def judged(
    suspects: Iterable[Suspect], held: dict[Claim, int | None], turned_down: Collection[Place] = ()
) -> Iterator[tuple[Place, Claim]]:
    """The refused records, each with what another key has.

    Args:
        suspects: all records of the keys that are looked at, in any order.
        held: what rows of the table have, and the key of the row; None for a key that has no record.
        turned_down: records that are refused for another reason.
    """
    by_key: dict[int, list[Suspect]] = {}
    for suspect in sorted(suspects, key=lambda suspect: suspect.place):
        by_key.setdefault(suspect.key, []).append(suspect)
    holders = dict(held)
    has: dict[int, list[Claim]] = {}
    for claim, holder in held.items():
        if holder is not None:
            has.setdefault(holder, []).append(claim)
    for key, records in sorted(by_key.items(), key=lambda item: item[1][-1].place):
        for record in reversed(records):
            if record.place in turned_down:
                continue
            taken = next((claim for claim in record.claims if holders.get(claim, key) != key), None)
            if taken is not None:
                yield record.place, taken
                continue
            for claim in has.pop(key, []):
                holders.pop(claim, None)
            holders |= dict.fromkeys(record.claims, key)
            break
