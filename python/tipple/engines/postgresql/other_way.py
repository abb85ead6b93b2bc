"""Loads that begin anew by another way, where the one that was chosen turns out not to be one for these records."""

from __future__ import annotations

from collections.abc import Callable

from tipple.engines import core, spool
from tipple.engines.base import Cut, LoadTask, Runner
from tipple.engines.postgresql import direct
from tipple.engines.postgresql.choice import Choice, Chooser
from tipple.engines.postgresql.job import JobOwner, OwnedJob
from tipple.engines.postgresql.keys import late_keys
from tipple.errors import JobBusy, TippleError, UsageError


class OtherWay:
    """The other ways of one load; nothing of it is published when one is taken."""

    def __init__(
        self, task: LoadTask, notes: list[str], job: JobOwner, chooser: Chooser, in_users_words: Callable[[str], str]
    ) -> None:
        """`notes` gets what was done; `in_users_words` gives the names that a user knows to what a server says."""
        self.task = task
        self.notes = notes
        self.job = job
        self.chooser = chooser
        self._in_users_words = in_users_words

    def without_pages(
        self, runner: Runner, owned: OwnedJob, choice: Choice, error: core.Unsuited
    ) -> tuple[OwnedJob, Cut]:
        """Begins anew, and with everything, where records do not suit pages."""
        reason = self._in_users_words(str(error))
        if self.task.reads_once:
            raise TippleError(
                f"ready-made pages are not the way for this input, which can be read only once: {reason}",
                hint="nothing was published; load it once more with --write-path binary",
            )
        self._give_up(owned)
        if self.task.write_path == "direct":
            # A row that the server refuses, it would refuse by other ways too.
            of_row = error.hint == direct.NAMED_OTHERWISE
            raise TippleError(
                f"a record cannot be stored: {reason}" if of_row else f"--write-path direct is not possible: {reason}",
                hint=f"nothing was published; {error.hint or 'leave out the option: rows then go by COPY'}",
            )
        self.chooser.leave_direct(reason)
        self._say(runner, f"begun anew without ready-made pages: {reason}")
        with runner.phase("split"):
            # What was left of an interrupted job is not all.
            cut = self.chooser.cut(choice)
        with runner.phase("prepare"):
            return self.job.begin(choice.strategy, cut), cut

    def by_text(self, runner: Runner, owned: OwnedJob, error: core.OnlyServerReads) -> tuple[OwnedJob, Choice, Cut]:
        """Begins anew as COPY text, where only the server can read a text of a columnar source."""
        self._give_up(owned)
        reason = f"only the server can read {error}"
        self._say(runner, f"begun anew as COPY text: {reason}")
        self.chooser.leave_to_server(reason)
        return self._begin(runner, f"as COPY text ({reason})")

    def judging_at_once(self, runner: Runner, owned: OwnedJob, reason: str) -> tuple[OwnedJob, Choice, Cut]:
        """Begins anew where keys or indexes must judge each record as it is stored."""
        self._give_up(owned)
        reason = self._in_users_words(reason)
        judges = "keys" if late_keys.of_job(owned.plan) else "indexes"
        self._say(runner, f"begun anew with the {judges} in place: {reason}")
        self.chooser.keys_judge_at_once = True
        return self._begin(runner, f"with its {judges} judging each record as it is stored ({reason})")

    def _begin(self, runner: Runner, how: str) -> tuple[OwnedJob, Choice, Cut]:
        """Chooses once more, and begins with everything; `how` is the only way that is left.

        Raises:
            TippleError: the options are in its way.
        """
        with runner.phase("prepare"):
            try:
                choice = self.chooser.choose()
                self.chooser.require_together(choice, choice.strategy)
            except (UsageError, JobBusy) as error:
                raise TippleError(
                    f"{self.task.table}: it has to be loaded {how}, but {error}",
                    hint=f"nothing was published; load it without {self._in_the_way()}, or mend the values: dates are "
                    "read everywhere as 2024-12-31, moments with their zone as 2024-12-31 10:00:00+01",
                ) from None
            cut = self.chooser.cut(choice)
            return self.chooser.begin(choice, cut), choice, cut

    def _in_the_way(self) -> str:
        """The options that leave a load no other way."""
        task = self.task
        given = {
            "--partition-by": task.partition_by is not None,
            "--replace-scope partitions": task.replace_scope == "partitions",
            "--indexes rebuild": task.indexes == "rebuild",
            'publish = "together"': task.together is not None,
        }
        return " and ".join(option for option, is_given in given.items() if is_given) or "the option that is in the way"

    def _give_up(self, owned: OwnedJob) -> None:
        self.job.give_up(owned)
        spool.discard(self.task, whole=True)

    def _say(self, runner: Runner, text: str) -> None:
        """Notes what the user should know at once too: a load takes as long again."""
        self.notes.append(text)
        runner.warn(text)
