"""Loads by pages into a server that Tipple takes for one on another machine: no memory is shared with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from extension.pages import assert_sound, forget_packing
from extension.test_write_path import NUMBERS, numbers, path_of
from loading import load
from servers.postgres import LOADER
from servers.proxy import Proxy
from targets import PostgresTarget, write
from tipple.engines.postgresql.direct import sending_notes

FAR = "127.0.0.2"
"""Of this machine as well, but not one of those that everybody knows for it."""
PARTITIONED = (
    f"{NUMBERS} PARTITION BY RANGE (id); CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (MINVALUE) TO (20000); "
    "CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (20000) TO (MAXVALUE)"
)


@pytest.mark.parametrize(
    ("table", "parts"), [(NUMBERS, ["t"]), (PARTITIONED, ["t_low", "t_high"])], ids=["table", "partitions"]
)
def test_pages_go_over_the_session(
    target: PostgresTarget, tmp_path: Path, proxy_to: Callable[..., Proxy], table: str, parts: list[str]
) -> None:
    """All of them, and between them the record that fits no page."""
    target.execute(table)
    proxy = proxy_to(target.server, host=FAR)
    url = target.server.url(LOADER, target.database, FAR, port=proxy.port)
    text = numbers(60_000).replace("30000,note 5", f"30000,{'long text ' * 2000}")
    path = write(tmp_path / "in.csv", text)
    run = load(url, path, jobs=2, verify="checksum", write_path="direct")
    assert path_of(run)[0] == "direct", run
    assert target.rows("SELECT count(*), sum(id), max(length(note)) FROM t") == [(60_000, 60_000 * 59_999 // 2, 20_000)]
    assert proxy.bytes_from_clients > sum(target.value(f"SELECT pg_relation_size('{part}')") for part in parts)
    for part in parts:
        assert_sound(target.server, target.database, part, mapped=False)


@pytest.mark.parametrize("older", [False, True], ids=["current", "without unpacking"])
def test_pages_go_packed_where_both_ways_were_tried(
    target: PostgresTarget, tmp_path: Path, proxy_to: Callable[..., Proxy], older: bool
) -> None:
    """Behind the first 32 MB some go packed, whatever comes of it. An extension that cannot unpack gets none."""
    target.execute(NUMBERS)
    if older:
        forget_packing(target.server, target.database)
    proxy = proxy_to(target.server, host=FAR)
    url = target.server.url(LOADER, target.database, FAR, port=proxy.port)
    rows = 110_000
    path = write(tmp_path / "in.csv", "".join(f"{n},{n:0700},2024-01-01\n" for n in range(rows)))
    run = load(url, path, jobs=2, verify="checksum", write_path="direct")
    assert path_of(run)[0] == "direct", run
    assert target.rows("SELECT count(*), sum(id), sum(length(note)) FROM t") == [
        (rows, rows * (rows - 1) // 2, 700 * rows)
    ]
    size = target.value("SELECT pg_relation_size('t')")
    assert (proxy.bytes_from_clients > size) if older else (proxy.bytes_from_clients < size * 3 // 4)
    assert_sound(target.server, target.database, "t", mapped=False)


def test_what_is_said_of_packed_pages() -> None:
    """Only where it has turned out to be the quicker way."""
    assert [sending_notes(sent, packed) for sent, packed in [(0, 0), (80, 0), (80, 39)]] == [[], [], []]
    (note,) = sending_notes(80, 72)
    assert note.startswith("90% of the pages went packed (LZ4)")
