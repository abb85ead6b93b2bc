"""The verbs: what the command line and the library both call.

One of them has the package's own name. So that `tipple.run("job.toml")` is that verb, as `tipple.load(…)` is another,
the package can be called; `help(tipple.run.job.run)` tells its arguments.
"""

import sys
from types import ModuleType
from typing import Any

from tipple.importing import uninterrupted


class _Verb(ModuleType):
    """The package, called as the verb `run`."""

    @property
    def __wrapped__(self) -> Any:
        """The verb itself, by which `inspect` and `help` find its signature."""
        with uninterrupted():
            from tipple.run.job import run

        return run

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.__wrapped__(*arguments, **options)


sys.modules[__name__].__class__ = _Verb
