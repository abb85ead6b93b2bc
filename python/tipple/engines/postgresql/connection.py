"""The control connection, and the same parameters for the streams as libpq resolved them.

libpq reads the URL, every PG* variable, the service file and the password file; the streams are told what it made of
them, so that they reach the same server as the same role without a second copy of those rules.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.pq import ConnStatus, PGconn

from tipple.engines.core import LoginRefused
from tipple.engines.postgresql.sessions.pooler import keeps_its_session
from tipple.engines.server_errors import full_hint
from tipple.errors import ConnectionFailed, UsageError
from tipple.plan.quotes import has_word
from tipple.plan.url import Target, malformed_escape, quote_identifier, redact_postgresql_text

# Python would show what it says to nobody on stderr: of a cancelled or lost connection, which is told anyway.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

ANSWER_MILLISECONDS = 2000
"""How long somebody's lock is waited for where only a question depends on it."""
DEFAULT_CONNECT_TIMEOUT_SECONDS = 15
DEFAULT_TCP_USER_TIMEOUT_SECONDS = 60

ESCAPES = (
    "in user, password and parameters write %25 for %, %40 for @, %3A for :, %2F for /, %3F for ?, %23 for #, %26 for "
    "& and %20 for a space; or give the password in PGPASSWORD or ~/.pgpass"
)

ENCODING = "SET client_encoding TO 'UTF8'"
CONTROL_SETTINGS = (
    ENCODING,
    "SET statement_timeout TO 0",
    "SET idle_in_transaction_session_timeout TO 0",
    "SET idle_session_timeout TO 0",
    # A record that is refused ends no session: what went before it is kept behind a savepoint.
    "SET exit_on_error TO off",
    # What is done behind a lock must see the rows that others have committed while it was waited for.
    "SET default_transaction_isolation TO 'read committed'",
    # As every statement here, and a file of CREATE TABLE statements, is written.
    "SET standard_conforming_strings TO on",
    # Bounds, predicates and defaults that the server shows are run again as they are shown, and mean the same only with
    # all digits, and with moments whose zone is a number. The order of day and month stays the user's.
    "SET extra_float_digits TO 1",
    "SET DateStyle TO 'ISO'",
    "SET IntervalStyle TO 'postgres'",
    # What a NULL among an array's elements means is no matter of who sends it.
    "SET array_nulls TO on",
    # Names of types are compared with what they are called here.
    "SET quote_all_identifiers TO off",
)
LONG_TRANSACTIONS = "SET transaction_timeout TO 0"
"""The same for servers that know this one too: from version 17 on."""
IN_ENGLISH = (
    "SELECT CASE WHEN has_parameter_privilege('lc_messages', 'SET') THEN set_config('lc_messages', 'C', false) END"
)
"""Messages as they are documented, where the role may choose the language. Before version 15 nobody can be asked."""
# A statement that runs for long, an index say, ends when the client is gone, and keeps no lock from who begins again.
# Not every system's server can look.
END_WITH_CLIENT = "SET client_connection_check_interval TO '2s'"
# Rows and ledger are lost together where a crash takes an asynchronous commit, so a slice needs no flush of its own.
SLICE_SETTINGS = ("SET synchronous_commit TO off",)


_VALUE_SETTINGS = """
SELECT format('DateStyle TO %L', 'ISO, ' || split_part(current_setting('DateStyle'), ', ', 2))
"""

_OWN_SETTINGS = """
SELECT format('SET %I TO %L', name, current_setting(name))
FROM unnest(ARRAY['TimeZone', 'client_connection_check_interval']) AS name
"""


def connect(target: Target, application_name: str, within_seconds: int | None = None) -> psycopg.Connection[Any]:
    """A control connection in autocommit mode.

    Args:
        target: the server.
        application_name: of the session, where the user has not chosen one.
        within_seconds: how long to wait for it. Default: as the URL and the environment say.

    Raises:
        ConnectionFailed: with libpq's reason, and a remedy for the usual ones.
        UsageError: it is a pool's, and not always the same session of the server.
    """
    if malformed_escape(target.location):
        raise ConnectionFailed(
            f"cannot connect to {target.display}: its URL has a space, or a % that begins no escape", hint=ESCAPES
        )
    defaults: dict[str, Any] = {
        "application_name": application_name,
        "tcp_user_timeout": DEFAULT_TCP_USER_TIMEOUT_SECONDS * 1000,
    }
    if not os.environ.get("PGCONNECT_TIMEOUT"):
        defaults["connect_timeout"] = DEFAULT_CONNECT_TIMEOUT_SECONDS
    try:
        given = psycopg.conninfo.conninfo_to_dict(target.location)
        if "PGAPPNAME" in os.environ:
            del defaults["application_name"]
        parameters = {key: value for key, value in defaults.items() if key not in given}
        if within_seconds is not None:
            parameters["connect_timeout"] = within_seconds
        another = functools.partial(open_session, target.location, **parameters)
        connection = another()
        try:
            _prepare(connection, another, target)
        except BaseException:
            connection.close()
            raise
    except psycopg.Error as error:
        said = redact_postgresql_text(target.location, " ".join(str(error).split()))
        if said is None:
            raise ConnectionFailed(
                f"cannot connect to {target.display}: the URL does not say for certain where its password ends, so "
                "what libpq says of it is not shown",
                hint=ESCAPES,
            ) from None
        hint = _remedy(error)
        kind = LoginRefused if _REFUSED in said or hint == _CHECK_PASSWORD else ConnectionFailed
        raise kind(f"cannot connect to {target.display}: {said}", hint=hint) from None
    return connection


def _prepare(
    connection: psycopg.Connection[Any], another: Callable[[], psycopg.Connection[Any]], target: Target
) -> None:
    """Sets what a new control session needs; `another` makes one more like it.

    Raises:
        psycopg.Error: the server refuses it.
        UsageError: it is a pool's, and not always the same session of the server.
    """
    # Some pools keep a session for whoever has set anything in it.
    connection.execute(ENCODING)
    if not keeps_its_session(connection, another):
        raise UsageError(
            f"{target.display} is a connection pool that gives every transaction another session of the server",
            hint="name the server itself, by its own host and port, or a pool that keeps sessions (in PgBouncer "
            "pool_mode = session): locks and settings of a load would stay behind in other people's sessions",
        )
    # At once: each answer that is waited for takes as long as the way to the server and back.
    connection.execute("; ".join(_control_settings(connection)).encode())
    with suppress(psycopg.DataError):
        connection.execute(END_WITH_CLIENT)


def open_session(location: str, **parameters: Any) -> psycopg.Connection[Any]:
    """A session in autocommit mode, as libpq makes it of a URL.

    psycopg looks hosts up itself, so that all their addresses are tried within the time allowed, and takes the Unix
    socket `@name`, which is in no directory, for the name of a host. Such ones are left to libpq; they answer at once.

    Raises:
        psycopg.Error: with libpq's reason.
    """
    given = psycopg.conninfo.conninfo_to_dict(location, **parameters)
    hosts = str(given.get("host") or os.environ.get("PGHOST") or "").split(",")
    if "hostaddr" in given or not any(host.startswith("@") for host in hosts):
        return psycopg.connect(location, autocommit=True, **parameters)
    server = PGconn.connect(psycopg.conninfo.make_conninfo(location, **parameters).encode())
    if server.status != ConnStatus.OK:
        raise psycopg.OperationalError(server.get_error_message())
    connection = psycopg.Connection[Any](server)
    connection.autocommit = True
    return connection


MAY_WRITE = (
    "add options=-c%20default_transaction_read_only%3Doff to the URL, or take the setting from the role, the database "
    "or the server"
)
"""What to do where sessions are read-only."""


def require_writable(connection: psycopg.Connection[Any], target: Target) -> None:
    """Finds out before a load or a change of the ledger, rather than in it, that nothing can be written.

    Raises:
        UsageError: the server is a standby, or sessions of this role are read-only.
    """
    found = connection.execute("SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool").fetchone()
    is_standby, is_read_only = found or (False, False)
    if is_standby:
        raise UsageError(
            f"{target.display} is a standby: nothing can be written there",
            hint="name the primary in the URL, or all hosts with target_session_attrs=read-write",
        )
    if is_read_only:
        raise UsageError(
            f"sessions with {target.display} are read-only: default_transaction_read_only is on",
            hint=MAY_WRITE,
        )


def pasted(part: str) -> str:
    """Names, of tables, columns or types, in a statement that is executed with parameters: of psycopg, to which every %
    there is a parameter's, unlike in one without."""
    return part.replace("%", "%%")


def make_ready(connection: psycopg.Connection[Any], statement: str) -> None:
    """Has the server look whether it would carry out a statement, which is not done.

    Raises:
        psycopg.Error: it would not; LockNotAvailable where somebody's lock is in the way for longer than an answer is
            worth.
    """
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = {ANSWER_MILLISECONDS}".encode())
        connection.execute(f"EXPLAIN {statement}".encode())


def reconnect(target: Target, application_name: str, retry_seconds: float) -> psycopg.Connection[Any]:
    """Connects again to a server that has gone away, for so long.

    Raises:
        LoginRefused: it is there, and does not let this user in any more.
        ConnectionFailed: it did not come back in time.
    """
    until = time.monotonic() + retry_seconds
    pause = 0.2
    while True:
        try:
            return connect(target, application_name)
        except LoginRefused:
            raise
        except ConnectionFailed:
            if time.monotonic() + pause > until:
                raise
        time.sleep(pause)
        pause = min(pause * 2, 5.0)


def stream_parameters(connection: psycopg.Connection[Any], application_name: str) -> dict[str, Any]:
    """The core's `Connection`: what `connection` really uses."""
    options = {
        option.keyword.decode(): option.val.decode() for option in connection.pgconn.info if option.val is not None
    }
    info = connection.info
    home = os.path.expanduser("~/.postgresql")
    sslmode = options.get("sslmode", "prefer")
    if not connection.pgconn.ssl_in_use:
        sslmode = "disable"
    elif sslmode in ("allow", "prefer"):
        sslmode = "require"
    return {
        "host": info.host,
        "hostaddr": info.hostaddr or None,
        "port": info.port,
        "user": info.user,
        "password": info.password or None,
        "dbname": info.dbname,
        "sslmode": sslmode,
        "sslrootcert": options.get("sslrootcert") or _existing(home, "root.crt"),
        "sslcert": options.get("sslcert") or _existing(home, "postgresql.crt"),
        "sslkey": options.get("sslkey") or _existing(home, "postgresql.key"),
        "channel_binding": options.get("channel_binding"),
        "options": info.options or None,
        "application_name": _application_name(options.get("application_name", ""), application_name),
        "connect_timeout_seconds": int(options.get("connect_timeout") or DEFAULT_CONNECT_TIMEOUT_SECONDS),
        "tcp_user_timeout_seconds": max(
            1, int(options.get("tcp_user_timeout") or DEFAULT_TCP_USER_TIMEOUT_SECONDS * 1000) // 1000
        ),
    }


def current_role(connection: psycopg.Connection[Any]) -> str:
    """The role whose rights count, quoted: a URL's `options=-c role=...` makes it another one than has logged in."""
    row = connection.execute("SELECT current_user::text").fetchone()
    return quote_identifier(row[0] if row is not None else connection.info.user)


def value_settings(connection: psycopg.Connection[Any]) -> Sequence[str]:
    """What values mean that are left to the server: the order of day and month is the one of the control session."""
    ((date_style,),) = connection.execute(_VALUE_SETTINGS).fetchall()
    # `sql_standard` would read the signs of an interval otherwise.
    return (date_style, "IntervalStyle TO 'postgres'")


def stream_session(connection: psycopg.Connection[Any], *, slices: bool) -> Sequence[str]:
    """What every new stream session runs, as one text.

    What the control session `connection` could set goes for them too, the time zone among it, which libpq sets by PGTZ.
    """
    found = connection.execute(_OWN_SETTINGS).fetchall()
    own = [statement for (statement,) in found]
    values = [f"SET {setting}" for setting in value_settings(connection)]
    return ["; ".join([*_control_settings(connection), *values, *own, *(SLICE_SETTINGS if slices else ())])]


def _control_settings(connection: psycopg.Connection[Any]) -> Sequence[str]:
    """Statements for every session."""
    version = connection.info.server_version
    return [
        *CONTROL_SETTINGS,
        *([LONG_TRANSACTIONS] if version >= 170000 else ()),
        *([IN_ENGLISH] if version >= 150000 else ()),
    ]


def _application_name(given: str, own: str) -> str:
    """The user's own name, if there is one, stands first; the job's makes the sessions findable."""
    return own if given in ("", "tipple") else f"{given[:40]} {own}"


def add_name(connection: psycopg.Connection[Any], own: str) -> None:
    """Has a session be found by `own` too, where the user has chosen its name."""
    given = connection.info.parameter_status("application_name") or ""
    if own not in given:
        name = _application_name(given, own)
        connection.execute("SELECT set_config('application_name', %s, false)", (name,))


def _existing(directory: str, name: str) -> str | None:
    path = os.path.join(directory, name)
    return path if os.path.exists(path) else None


_CHECK_PASSWORD = "check user and password (PGUSER, PGPASSWORD, ~/.pgpass)"


_REFUSED = "authentication failed"
"""In what the server says, by passwords and other ways to log in."""


def _remedy(error: psycopg.Error) -> str:
    """What to do about what libpq or the server say; anything else is the URL's fault, or the way there. Of a session
    that does not come about, libpq tells no code.
    """
    message = str(error)
    for sign, remedy in (
        ("password authentication failed", _CHECK_PASSWORD),
        (
            "no password supplied",
            "give a password: in PGPASSWORD or ~/.pgpass, rather than on the command line",
        ),
        (
            "eer authentication failed",
            "the server asks the operating system who you are (peer in its pg_hba.conf): run as the user of that name, "
            "or connect by a host's name with a password",
        ),
        ("dent authentication failed", "use another way to log in: ident asks a server of this machine who you are"),
        ("is not permitted to log in", "as a superuser: ALTER ROLE this role LOGIN"),
        ("does not have CONNECT privilege", "as the database's owner: GRANT CONNECT ON DATABASE … TO this role"),
        ("not currently accepting connections", "as a superuser: ALTER DATABASE … ALLOW_CONNECTIONS true"),
        (
            "does not support SSL",
            "turn ssl on at the server, or ask for less by sslmode=prefer where nobody else reads the network",
        ),
        ("root certificate file", "put the certificate of the server's authority there, or name it by sslrootcert"),
        (
            "definition of service",
            "check the name of the service, and the file that has it (~/.pg_service.conf, PGSERVICEFILE)",
        ),
        (
            "not yet accepting connections",
            "the server is starting or recovering from a crash: wait until it is there, and run the same command again",
        ),
        ("does not exist", "check the names of database and role (createdb, createuser)"),
        ("resolve host", "check the host's name"),
        ("Name or service not known", "check the host's name"),
        ("Connection refused", "check host and port, and whether the server is running"),
        (
            "could not access file",
            "a library that the server loads for each session is not there: look at session_preload_libraries and "
            "local_preload_libraries of the role, the database and the server",
        ),
        (
            # What the server says stands behind FATAL.
            "failed: No such file or directory",
            "check the directory of the Unix socket, and whether the server is running",
        ),
        ("pg_hba.conf", "allow this user, database and address in the server's pg_hba.conf"),
        ("certificate", "check sslmode, sslrootcert and the host's name"),
        ("timeout expired", "check the network, and raise connect_timeout where the server is just slow"),
    ):
        if sign in message:
            return remedy
    return full_hint(message) or _remedy_by_names(error) or "check the URL, and that psql reaches the server with it"


def _remedy_by_names(error: psycopg.Error) -> str | None:
    """What to do where a server that speaks another language names the role or the database that it refuses."""
    tried = error.pgconn
    if tried is None:
        return None
    # As no encoding is agreed on yet, the server writes its language's signs, quotes too, as well as ASCII can.
    said = str(error).rpartition("failed: ")[2]
    user, database = (name is not None and has_word(said, name.decode()) for name in (tried.user, tried.db))
    if user and not database and tried.used_password:
        return _CHECK_PASSWORD
    if user or database:
        return (
            "check the names of database and role (createdb, createuser), the password (PGUSER, PGPASSWORD, "
            "~/.pgpass), and whether the role may log in and CONNECT to the database"
        )
    return None


def is_lost(error: Exception) -> bool:
    """Whether an error of psycopg means that the connection is gone."""
    return isinstance(
        error,
        (
            errors.AdminShutdown,
            errors.CrashShutdown,
            errors.CannotConnectNow,
            errors.ConnectionException,
            errors.IdleSessionTimeout,
        ),
    ) or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None)
