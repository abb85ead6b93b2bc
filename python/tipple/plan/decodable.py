"""Structs that may be decoded on several threads at once."""

from __future__ import annotations

from typing import TypeVar

import msgspec

_Struct = TypeVar("_Struct", bound=type[msgspec.Struct])


def decodable(struct: _Struct) -> _Struct:
    """A struct that is `msgspec.json.decode`d or `msgspec.convert`ed into, by itself or within another type.

    What msgspec must know of its fields is worked out here, where the class is made. msgspec would do it when the first
    value is decoded and show the unfinished result to other threads, which then crash (version 0.22, Python 3.11).
    """
    msgspec.json.Decoder(struct)
    return struct
