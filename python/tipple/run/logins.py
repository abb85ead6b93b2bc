"""Logins of a job's tables into their targets: one that was refused is not tried again, which may lock the account."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tipple.engines.core import LoginRefused
from tipple.plan.url import Target

TURN_SECONDS = 1.0
"""How long a table waits for the logins of others: a server that does not answer is to hold up none."""


class Logins:
    """The logins of one run."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._refused: dict[str, LoginRefused] = {}
        """By target, what was said."""

    @contextmanager
    def turn(self, target: Target) -> Iterator[None]:
        """Around a login; they take turns, so that the next table knows how the one before fared.

        Raises:
            LoginRefused: by this login, or by an earlier one into the same target.
        """
        has_turn = self._turn.acquire(timeout=TURN_SECONDS)
        try:
            refused = self._refused.get(target.url)
            if refused is not None:
                raise LoginRefused(str(refused), hint=refused.hint)
            yield
        except LoginRefused as error:
            self._refused[target.url] = error
            raise
        finally:
            if has_turn:
                self._turn.release()
