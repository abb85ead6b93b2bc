"""pg_bulkload, where somebody has built it: `--pg-bulkload DIRECTORY`, its source tree after `make`.

It is no dependency and nothing of it is here. The server of the benchmarks gets the library and the scripts of that
tree; PARALLEL is its fastest writer, which parses in one process and writes pages in another. It skips the WAL.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from contest import Contestant, Digest
from measure import BenchmarkError, Command
from peers_postgresql import PostgresTrack
from psycopg.conninfo import conninfo_to_dict
from report import BULKLOAD

_LIBRARY = "lib/pg_bulkload.so"
_SCRIPTS = "lib/pg_bulkload.control", "lib/pg_bulkload--*.sql"


def bulkload(track: PostgresTrack, tree: Path, pieces: tuple[Path, ...], expected: Digest) -> Contestant:
    """pg_bulkload with the writer PARALLEL, from one file.

    Raises:
        BenchmarkError: the tree has not been built for this server.
    """
    _install(track, tree)
    server = track.server
    whole = server.scratch / "bulkload.csv"

    def prepare(database: str) -> None:
        server.create_table(database)
        server.server.execute("CREATE EXTENSION pg_bulkload", database)
        if not whole.exists():
            with whole.open("wb") as file:
                for piece in pieces:
                    with piece.open("rb") as part:
                        shutil.copyfileobj(part, file, 1 << 20)
            whole.chmod(0o644)

    def commands(database: str) -> list[Command]:
        given = conninfo_to_dict(server.server.url(dbname=database))
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
        environment = [f"{name}={given[key]}" for key, name in names.items() if given.get(key)]
        options = ["TYPE=CSV", "DELIMITER=|", "WRITER=PARALLEL"]
        words = ["-i", str(whole), "-O", "lineitem", *(word for option in options for word in ("-o", option))]
        return [["env", *environment, str(tree / "bin/pg_bulkload"), *words]]

    return Contestant(BULKLOAD, "pg_bulkload, PARALLEL", commands, expected, prepare, ("lineitem",))


def _install(track: PostgresTrack, tree: Path) -> None:
    library = tree / _LIBRARY
    if not library.is_file() or not (tree / "bin/pg_bulkload").is_file():
        raise BenchmarkError(f"{tree} has no {_LIBRARY} and bin/pg_bulkload: build it with this server's pg_config")
    root = track.server.server.bin.parent
    targets = {library: root / "lib/postgresql"}
    for pattern in _SCRIPTS:
        targets |= dict.fromkeys(tree.glob(pattern), root / "share/postgresql/extension")
    for source, place in targets.items():
        shutil.copy(source, place)
        (place / source.name).chmod(0o755)
    # Its writer is a second session, that the server itself opens, without a password.
    access = track.server.server.data / "pg_hba.conf"
    access.write_text(f"host all postgres localhost trust\n{access.read_text()}")
    track.server.server.execute("SELECT pg_reload_conf()")
