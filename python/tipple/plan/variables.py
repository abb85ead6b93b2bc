"""Variables in texts: `${name}` for a variable of the job, `${env:NAME}` for one of the environment.

`${env:NAME:-text}` is the text where the environment has no NAME; `$${` is a `${` that is meant as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from tipple.errors import UsageError

__all__ = ["VARIABLE_NAME", "Variables"]

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}|\$\{")
_BODY = re.compile(rf"(?:env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?|(?P<name>{VARIABLE_NAME.pattern}))")


class Variables:
    """The variables of a job, each with its value, which may name others."""

    def __init__(
        self, values: Mapping[str, Any], environment: Mapping[str, str], within: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """
        Args:
            values: by name; texts may hold references.
            environment: what `${env:NAME}` looks into.
            within: by the name of a variable, what others mean in its own value.
        """
        self._values = values
        self._within = within
        self._environment = environment
        self.used: set[str] = set()
        """Names that were asked for, whether they are there or not."""

    def fill(self, value: Any) -> tuple[Any, bool]:
        """The value with all references in it replaced, and whether there was one.

        A text that is one reference and nothing else becomes the variable's value as it is, a number for example.

        Raises:
            UsageError: a reference to what is not there, to itself, or one that is none.
        """
        return self._fill(value, ())

    def _fill(self, value: Any, within: tuple[str, ...]) -> tuple[Any, bool]:
        if isinstance(value, list):
            filled = [self._fill(element, within) for element in value]
            return [element for element, _ in filled], any(changed for _, changed in filled)
        if not isinstance(value, str):
            return value, False
        whole = _REFERENCE.fullmatch(value)
        if whole is not None and whole["body"] is not None:
            return self._look_up(whole["body"], within), True
        changed = False

        def replace(match: re.Match[str]) -> str:
            nonlocal changed
            changed = True
            if match[0] == "$${":
                return "${"
            if match["body"] is None:
                raise UsageError("${ without its }", hint="write ${name}, or $${ for a ${ that is meant as it is")
            return _text(match["body"], self._look_up(match["body"], within))

        text = _REFERENCE.sub(replace, value)
        return text, changed

    def _look_up(self, body: str, within: tuple[str, ...]) -> Any:
        match = _BODY.fullmatch(body)
        if match is None:
            raise UsageError(
                f"${{{body}}} is not a reference to a variable",
                hint="write ${name}, ${env:NAME} or ${env:NAME:-default}; $${ for a ${ that is meant as it is",
            )
        if match["env"] is not None:
            value = self._environment.get(match["env"], match["default"])
            if value is None:
                raise UsageError(
                    f"the environment has no variable {match['env']}",
                    hint=f"set it, or write ${{env:{match['env']}:-default}}",
                )
            return value
        name = match["name"]
        self.used.add(name)
        if name in within:
            chain = " → ".join([*within[within.index(name) :], name])
            raise UsageError(f"the variable {name} is made of itself: {chain}", hint="break the circle")
        own = self._within.get(within[-1], {}) if within else {}
        if name in own:
            return own[name]
        if name not in self._values:
            raise UsageError(f"the variable {name} has no value", hint=self._missing_hint(name))
        return self._fill(self._values[name], (*within, name))[0]

    def _missing_hint(self, name: str) -> str:
        hint = f"give it one: --set {name}=…, or under [variables]"
        near = get_close_matches(name, self._values, n=1)
        return f"{hint}; or did you mean {near[0]}?" if near else hint


def _text(name: str, value: Any) -> str:
    """A variable's value inside a text, as TOML spells it.

    Raises:
        UsageError: it has none there.
    """
    if isinstance(value, list | dict):
        raise UsageError(
            f"the variable {name} is a {'list' if isinstance(value, list) else 'table'}, and no part of a text",
            hint=f'write "${{{name}}}" and nothing else for all of it',
        )
    return str(value).lower() if isinstance(value, bool) else str(value)
