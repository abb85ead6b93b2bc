"""Where the keys of a TOML document stand, so that an error can name the line.

`tomllib` reads values and forgets where they stood. This walks over the same text once more and notes the line of
every key; it is called with text that `tomllib` has read, so it may take the syntax (TOML 1.0) for granted.
"""

from __future__ import annotations

import re
import tomllib

__all__ = ["Path", "key_lines"]

Path = tuple[str | int, ...]
"""The keys that lead to a value, with the number of the element in an array: `("tables", "orders", "sources", 0)`."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' + r"|'''.*?'{3,5}(?!')" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"[^,\]}#\r\n]+")


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, on which each key and each element of an array begins."""
    return _Walk(text).lines


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._elements: dict[Path, int] = {}
        """How many elements the arrays of tables have so far."""
        table: Path = ()
        while not self._ends():
            table = self._header() if self.text[self.at] == "[" else self._pair(table)

    def _ends(self) -> bool:
        self._skip(_BLANK)
        return self.at >= len(self.text)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"not the TOML that was expected at byte {self.at}")
        self.at = match.end()
        return match[0]

    def _note(self, path: Path) -> None:
        self.lines.setdefault(path, self.text.count("\n", 0, self.at) + 1)

    def _keys(self, base: Path) -> Path:
        """A dotted key, behind which the place is then."""
        path = base
        while True:
            self._skip(_SPACE)
            part_at = self.at
            part = self._skip(_KEY_PART)
            path = (*path, _unquoted(part))
            line_end, self.at = self.at, part_at
            self._note(path)
            self.at = line_end
            self._skip(_SPACE)
            if self.text[self.at] != ".":
                return path
            self.at += 1

    def _header(self) -> Path:
        """`[table]` or `[[array of tables]]`; gives the path of what stands below it."""
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        written = self._keys(())
        self.at += 2 if is_array else 1
        path: Path = ()
        for part in written[:-1]:
            path = (*path, part)
            if path in self._elements:
                path = (*path, self._elements[path] - 1)
        path = (*path, written[-1])
        if is_array:
            number = self._elements.get(path, 0)
            self._elements[path] = number + 1
            path = (*path, number)
        self._note(path)
        return path

    def _pair(self, table: Path) -> Path:
        path = self._keys(table)
        self.at += 1
        self._value(path)
        return table

    def _value(self, path: Path) -> None:
        self._skip(_SPACE)
        first = self.text[self.at]
        if first in "\"'":
            self._skip(_STRING)
        elif first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        self.at += 1
        number = 0
        while True:
            self._skip(_BLANK)
            if self.text[self.at] == "]":
                break
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._note((*path, number))
            self._value((*path, number))
            number += 1
        self.at += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self._skip(_BLANK)
            if self.text[self.at] == "}":
                break
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._pair(path)
        self.at += 1


def _unquoted(part: str) -> str:
    """A key's part as `tomllib` gives it."""
    if part[0] not in "\"'":
        return part
    value = tomllib.loads(f"k = {part}")["k"]
    return str(value)
