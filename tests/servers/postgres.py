"""One PostgreSQL server of its own: started by a test run, stopped or crashed at will, gone at the end.

It listens on 127.0.0.1 with a free port and on a socket in a short-named directory. `postgres` connects over
the socket without a password; every other role needs its password (SCRAM), over the socket too. The server
dies with the process that started it, however that ends.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg

from memory_disk import memory_disk
from servers.installations import ServerUser, copied_bin, server_user

LOADER = "loader"
"""An ordinary role, as a user of Tipple would have: no superuser, owner of the test's database."""

LOADER_PASSWORD = "s3cret-Kohle+42"
"""Password of LOADER: a text that occurs nowhere else, with a sign that a URL has to escape."""

FUNCTIONAL_SETTINGS: Mapping[str, str] = {
    # Tests of what is loaded, not of what survives a power cut: tests of that give their own settings.
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    # It may lie in memory.
    "max_wal_size": "256MB",
    "timezone": "'Asia/Kathmandu'",  # an odd one, so that whoever depends on it is found out
    "log_min_messages": "warning",
    "log_line_prefix": "'%m [%p] %q%a '",
    "log_statement": "'ddl'",
}

START_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.03

STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    # After the change of user, which would clear it (prctl(2)).
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


class Scratch:
    """The directories below which all servers of this process live; removed when the process ends."""

    def __init__(self) -> None:
        base = Path("/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir())
        self.path = _own_directory(base)  # socket paths have room for 107 bytes only
        data_base = memory_disk()
        self.data = self.path if data_base is None else _own_directory(data_base)
        self.user = server_user()
        self._bins: dict[int, Path] = {}
        self._templates: dict[int, Path] = {}
        self._numbers = itertools.count(1)

    def new_directory(self, parent: Path | None = None) -> Path:
        directory = (parent or self.path) / f"s{next(self._numbers)}"
        directory.mkdir(mode=0o755)
        _give(directory, self.user)
        return directory

    def bin(self, version: int) -> Path:
        if version not in self._bins:
            self._bins[version] = copied_bin(version, self.path, self.user)
        return self._bins[version]

    def template(self, version: int) -> Path:
        """A data directory as initdb leaves it: made once, then copied."""
        if version not in self._templates:
            data = self.new_directory(self.data) / "data"
            _run_as(
                self.user,
                self.bin(version) / "initdb",
                "--pgdata", data, "--username", "postgres", "--auth", "trust",
                "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions",
            )  # fmt: skip
            self._templates[version] = data
        return self._templates[version]


def _own_directory(base: Path) -> Path:
    """A new directory of this process; those of processes that were killed are removed."""
    prefix = "tipple-servers-"
    for old in base.glob(f"{prefix}*-*"):
        pid = old.name.removeprefix(prefix).partition("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(old, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=base))
    path.chmod(0o755)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


_scratch: Scratch | None = None


def scratch() -> Scratch:
    """This process's Scratch, made at first use."""
    global _scratch
    if _scratch is None:
        _scratch = Scratch()
    return _scratch


class PostgresServer:
    """A server of one major version. Use it as a context manager, or call `start` and `destroy`."""

    def __init__(
        self,
        version: int,
        settings: Mapping[str, str] | None = None,
        *,
        parent: Path | None = None,
        first_lines_of_hba: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Make the data directory; nothing runs yet.

        Args:
            version: major version, one of `installations.VERSIONS`.
            settings: lines for postgresql.conf, over FUNCTIONAL_SETTINGS.
            parent: where the data directory goes, for example on a small file system.
            first_lines_of_hba: rules for pg_hba.conf that come before the usual ones.
            environment: variables of the server's process.
        """
        self.version = version
        self._place = scratch()
        self.directory = self._place.new_directory(parent or self._place.data)
        self.socket_directory = self._place.new_directory()
        self.data = self.directory / "data"
        self.log = self.socket_directory / "log"
        self.bin = self._place.bin(version)
        self.port = _free_port()
        self._environment = {"PATH": "/usr/bin:/bin", "LANG": "C", "TZ": "UTC", **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._prepared = False
        self._databases = itertools.count(1)
        subprocess.run(["cp", "-a", str(self._place.template(version)), str(self.data)], check=True)
        self.configure({**FUNCTIONAL_SETTINGS, **(settings or {})})
        hba = self.data / "pg_hba.conf"
        hba.write_text(
            f"{first_lines_of_hba}\n"
            "local all postgres trust\n"
            "local all all scram-sha-256\n"
            "host all all 127.0.0.1/32 scram-sha-256\n"
        )

    def configure(self, settings: Mapping[str, str]) -> None:
        """Append settings to postgresql.conf; they hold from the next start on."""
        with (self.data / "postgresql.conf").open("a") as file:
            for name, value in settings.items():
                file.write(f"{name} = {value}\n")

    def adopt(self) -> None:
        """Take a data directory of another server, copied over ours, as it is: with its roles and databases."""
        self._prepared = True

    def install_certificate(self, certificate: Path, key: Path) -> None:
        """Switch TLS on. The installation has to be built with OpenSSL."""
        for source, name in ((certificate, "server.crt"), (key, "server.key")):
            copy = self.data / name
            shutil.copyfile(source, copy)
            copy.chmod(0o600)
            _give(copy, self._place.user)
        self.configure({"ssl": "on"})

    def move_wal(self, place: Path) -> None:
        """Move pg_wal of the stopped server to another file system and leave a link."""
        assert not self.running
        new = place / "pg_wal"
        subprocess.run(["cp", "-a", str(self.data / "pg_wal"), str(new)], check=True)
        shutil.rmtree(self.data / "pg_wal")
        (self.data / "pg_wal").symlink_to(new)
        for parent in new.parents:
            if parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)

    # ---- life ----------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and return when the server accepts connections.

        Raises:
            RuntimeError: it did not; the message ends with the server's log.
        """
        assert not self.running
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self.bin / "postgres", "-D", self.data,
                    "-c", f"port={self.port}", "-c", "listen_addresses=127.0.0.1",
                    "-c", f"unix_socket_directories={self.socket_directory}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self._environment,
                start_new_session=True,
                preexec_fn=_die_with_parent,
                **self._place.user.popen_arguments,  # type: ignore[call-overload]
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            if not self.running or time.monotonic() > deadline:
                text = self.log_text()[-2000:]
                self.stop("immediate")
                raise RuntimeError(f"PostgreSQL {self.version} did not start:\n{text}")
            time.sleep(POLL_SECONDS)
        if not self._prepared:
            # Not to the log: a test looks there for the password.
            with self.connect(options="-c log_statement=none") as connection:
                connection.execute(f"CREATE ROLE {LOADER} LOGIN PASSWORD '{LOADER_PASSWORD}'")  # type: ignore[arg-type]
            self._prepared = True

    def _ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self._pid()) and lines[7].strip() == "ready"

    def _pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, mode: str = "fast") -> None:
        """Stop by `mode`: smart, fast, or immediate (which is a crash: no checkpoint, recovery at start)."""
        if self._process is None:
            return
        children = self.processes()
        if self.running:
            self._process.send_signal(STOP_SIGNALS[mode])
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _, alive = psutil.wait_procs(children, timeout=5)
        for child in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(alive, timeout=5)
        self._process = None

    def crash(self) -> None:
        """Stop at once, as a crash does."""
        self.stop("immediate")

    def restart(self, mode: str = "fast") -> None:
        """Stop and start again on the same port."""
        self.stop(mode)
        self.start()

    def destroy(self) -> None:
        """Stop and remove everything."""
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.rmtree(self.socket_directory, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def processes(self) -> list[psutil.Process]:
        """All processes of this server but the postmaster."""
        if not self.running:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._pid()).children(recursive=True)
        return []

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def run(self, program: str, *arguments: object) -> str:
        """Run a program of the installation as the server's user, in its directory; returns what it wrote.

        Raises:
            RuntimeError: it failed.
        """
        return _run_as(self._place.user, self.bin / program, *arguments, cwd=self.directory)

    # ---- connections ---------------------------------------------------------------------------------------

    def url(
        self,
        user: str = "postgres",
        dbname: str = "postgres",
        host: str = "socket",
        *,
        password: str | None = None,
        port: int | None = None,
        **parameters: str,
    ) -> str:
        """A URL for libpq. `host` is "socket" or an address; LOADER's password is filled in."""
        if password is None and user == LOADER:
            password = LOADER_PASSWORD
        account = quote(user, safe="") + ("" if password is None else ":" + quote(password, safe=""))
        number = port or self.port
        if host == "socket":
            parameters = {"host": str(self.socket_directory), "port": str(number), **parameters}
            place = ""
        else:
            place = f"{host}:{number}"
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
        return f"postgresql://{account}@{place}/{quote(dbname, safe='')}" + (f"?{query}" if query else "")

    @property
    def superuser_url(self) -> str:
        return self.url()

    def connect(self, dbname: str = "postgres", **arguments: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A superuser's connection, in autocommit."""
        return psycopg.connect(self.url(dbname=dbname), autocommit=True, **arguments)

    def execute(self, sql: str, dbname: str = "postgres") -> None:
        """Run statements as superuser."""
        with self.connect(dbname) as connection:
            connection.execute(sql)  # type: ignore[arg-type]

    def rows(self, sql: str, dbname: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a query as superuser."""
        with self.connect(dbname) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[arg-type]

    def create_database(self, name: str | None = None, *, owner: str = LOADER, options: str = "") -> str:
        """A fresh database, with further `options` of CREATE DATABASE; returns its name."""
        name = name or f"test{next(self._databases)}"
        self.execute(f'CREATE DATABASE "{name}" OWNER "{owner}" {options}')
        return name

    def create_tablespace(self, name: str, *, owner: str = LOADER) -> None:
        """A tablespace in a directory of its own, unless it is there already; the owner may create tables in it."""
        if not self.rows(f"SELECT FROM pg_tablespace WHERE spcname = '{name}'"):
            directory = self._place.new_directory()
            self.execute(f"CREATE TABLESPACE {name} OWNER {owner} LOCATION '{directory}'")

    def drop_database(self, name: str) -> None:
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _run_as(user: ServerUser, *command: object, cwd: Path = Path("/")) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "LANG": "C"},
        **user.popen_arguments,  # type: ignore[call-overload]
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _give(path: Path, user: ServerUser) -> None:
    if user.uid != os.geteuid():
        os.chown(path, user.uid, user.gid)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def postgres_server(
    version: int, settings: Mapping[str, str] | None = None, **arguments: Any
) -> Iterator[PostgresServer]:
    """A started server, destroyed at the end."""
    server = PostgresServer(version, settings, **arguments)
    try:
        server.start()
        yield server
    finally:
        server.destroy()
