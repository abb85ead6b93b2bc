"""What a server's errors are about, and what helps.

They are told apart by their SQLSTATE, and by the server's function that raised them where PostgreSQL has one code for
several things. Its words depend on its language, which an ordinary role cannot choose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tipple.plan.url import TableName

__all__ = [
    "FOREIGN_KEY",
    "PREPARING",
    "ROW_SECURITY_HINT",
    "ServerError",
    "copy_hint",
    "files_hint",
    "full_hint",
    "hint",
    "is_english",
    "is_of_circumstances",
    "is_of_functions",
    "lacks_right",
    "lock_hint",
    "may_pass",
    "reference_hint",
    "rights_hint",
    "room_hint",
    "schema_hint",
    "tablespace_hint",
    "tablespace_hint_of",
]

_CIRCUMSTANCES = ("25", "40", "53", "55", "57", "58", "XX")
"""Classes of SQLSTATE that end a statement whatever it says, and a COPY wherever it stands: the state of the
transaction, another transaction, a lack of resources, the state of an object, an operator, the system, the server
itself."""
_FAULT_OF_FUNCTIONS = ("20", "21", "22", "2F", "38", "39", "P0")
_RAISE = "exec_stmt_raise"
"""Where PL/pgSQL raises an error (src/pl/plpgsql/src/pl_exec.c)."""
_PASSING = ("40", "53", "57", "58")
_NEVER_A_RECORDS = (*_PASSING, "XX")
_MISSING_RIGHT = "42501"
"""Of the class 42 what can be granted, and what a policy of row security does not let in."""
_OF_RIGHTS = ("aclcheck_error", "aclcheck_error_col")
"""Where the server says that a right is missing (src/backend/catalog/aclchk.c)."""
_OF_LOCKS = ("55006", "55P03")
"""Of the class 55 those that say that somebody else has a table, or a lock on it."""
_OF_TIMEOUTS = "ProcessInterrupts"
"""Where the server ends a statement that has waited too long (src/backend/tcop/postgres.c)."""
FOREIGN_KEY = "23503"
PREPARING = "preparing the table"
"""What the core does when it removes rows that are to be replaced: no record is to blame for what is refused there."""


class ServerError(msgspec.Struct, frozen=True):
    """An error as the server has sent it."""

    sqlstate: str | None
    message: str
    detail: str = ""
    routine: str | None = None
    """The server's function that raised it; None where that is not known."""
    constraint: str | None = None

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> ServerError:
        """Of the facts of the core, or of another error of Tipple's that has them."""
        message = facts.get("message") or facts.get("reason") or ""
        detail, routine, constraint = (facts.get(name) for name in ("detail", "routine", "constraint"))
        return cls(facts.get("sqlstate"), message, detail or "", routine, constraint)

    @property
    def facts(self) -> dict[str, Any]:
        """What an error of Tipple's keeps of it."""
        return {"sqlstate": self.sqlstate, "message": self.text, "routine": self.routine}

    @property
    def text(self) -> str:
        """All that it says."""
        return " ".join(part for part in (self.message, self.detail) if part)


def is_of_circumstances(sqlstate: str | None) -> bool:
    """Whether the server refuses neither a statement nor a value."""
    return (sqlstate or "")[:2] in _CIRCUMSTANCES


def is_of_functions(error: ServerError) -> bool:
    """Whether it comes from within a function, or one raises it by whatever code, as `guard.rs` has it."""
    kind = (error.sqlstate or "")[:2]
    return kind in _FAULT_OF_FUNCTIONS or (error.routine == _RAISE and kind not in _NEVER_A_RECORDS)


def lacks_right(error: ServerError) -> bool:
    """Whether it is a right that is missing. A policy refuses a record under the same code, and so may a trigger."""
    return error.sqlstate == _MISSING_RIGHT and (
        error.routine in _OF_RIGHTS or is_english(error) or files_hint(error) is not None
    )


def may_pass(error: ServerError) -> bool:
    """Whether the same may succeed another time, when others, room, time or a right no longer stand against it."""
    return (error.sqlstate or "")[:2] in _PASSING or error.sqlstate in _OF_LOCKS or lacks_right(error)


def hint(error: ServerError) -> str | None:
    """What helps against what has nothing to do with the statement; None where it is none of that."""
    return room_hint(error.sqlstate) or files_hint(error) or lock_hint(error) or numbers_hint(error.sqlstate)


def numbers_hint(sqlstate: str | None) -> str | None:
    """What helps where a sequence has come to its end; None where it has not."""
    if sqlstate != "2200H":
        return None
    return (
        "the sequence that numbers the rows has no more numbers; give it more (ALTER SEQUENCE … MAXVALUE, where the "
        "column's type has room), or --columns and numbers of your own"
    )


def room_hint(sqlstate: str | None) -> str | None:
    """What helps a server whose disk is full; None where it is not."""
    if sqlstate != "53100":
        return None
    return (
        "free space for the server and run the same command again; where attempts have filled it, tipple jobs URL "
        "clean gives back what they have staged"
    )


_SERVERS_FILE = re.compile(r"\b(?:base|global|pg_tblspc|pg_wal|pg_xact|pg_multixact|pg_subtrans)/\w")
"""In the data directory. Around its name the server speaks its own language."""


def files_hint(error: ServerError) -> str | None:
    """What helps where the system does not let the server write its own files; None where it is not that. PostgreSQL
    has one code for it and for what a role may not do.
    """
    if error.sqlstate != _MISSING_RIGHT or _SERVERS_FILE.search(error.message) is None:
        return None
    return (
        "the server cannot write its own files: its disk is mounted read-only, as the system itself does after an "
        "error of the disk (dmesg on the server's machine), or the files are another user's; mend that and run the "
        "same command again"
    )


def lock_hint(error: ServerError) -> str | None:
    """What helps where a setting has ended the wait for a lock, or the server a deadlock."""
    if error.sqlstate == "40P01":
        return (
            "another session waited for what this one had locked, and this one for what the other one had, so that the "
            "server ended one of them; run the same command again"
        )
    if error.sqlstate != "55P03" or not (error.routine == _OF_TIMEOUTS or "lock timeout" in error.message):
        return None
    return (
        "a lock was waited for as long as lock_timeout allows, a setting of the role, the database or the URL: nothing "
        "was published; run the same command again"
    )


def full_hint(message: str) -> str | None:
    """What to do where a server, a database or a role has all the sessions that it may have."""
    # Where no session comes about, libpq tells no code.
    if not any(sign in message for sign in ("too many clients", "too many connections", "connection slots")):
        return None
    return (
        "have fewer streams (-j), wait until other sessions end, or raise the limit: max_connections, ALTER ROLE … "
        "CONNECTION LIMIT, ALTER DATABASE … CONNECTION LIMIT; then run the same command again"
    )


def reference_hint(error: ServerError, *, doing: str = "", is_of_others: bool = False) -> str | None:
    """What to do where rows that are to be replaced are referred to.

    Args:
        error: what the server says.
        doing: what the core was doing.
        is_of_others: whether the foreign key is known to be another table's.
    """
    if error.sqlstate != FOREIGN_KEY:
        return None
    if not is_of_others and doing != PREPARING and "is still referenced from" not in error.detail:
        return None
    return (
        "--mode upsert keeps rows that others refer to; or make that foreign key DEFERRABLE, and have the files bring "
        "such rows again; nothing was published"
    )


def rights_hint(error: ServerError, *, is_at_end: bool = False) -> str | None:
    """What to do about a missing right.

    `is_at_end`: whether it was at COMMIT, where it is no longer the role of the load that is asked for it: the server
    checks foreign keys as the owners of the tables.
    """
    if (of_files := files_hint(error)) is not None or not lacks_right(error):
        return of_files
    schema = _refused("schema", error)
    if schema is not None:
        return schema_hint(schema, is_at_end=is_at_end)
    return tablespace_hint_of(error) or (
        "as the table's owner: GRANT SELECT, INSERT ON the table TO this role; --mode replace also needs DELETE, "
        "--mode upsert UPDATE"
    )


def is_english(error: ServerError) -> bool:
    """Whether what is said of a missing right tells in English what it is that is refused."""
    return "permission denied" in error.message


def tablespace_hint_of(error: ServerError) -> str | None:
    """What to do where an English server says that a role may make no tables in a tablespace; None of all else."""
    name = _refused("tablespace", error)
    return None if name is None else tablespace_hint(name)


def _refused(kind: str, error: ServerError) -> str | None:
    """The schema or tablespace that an English server says it refuses."""
    found = re.search(rf"for {kind} (.+)", error.message)
    return found[1] if found is not None else None


def schema_hint(name: str, *, is_at_end: bool = False) -> str:
    """What to do where a role may not use a schema, or may make no tables there; `is_at_end` as for `rights_hint`."""
    schema = _as_sql(name)
    if is_at_end:
        return (
            "foreign keys are checked at the end as the owners of their tables: as the schema's owner: GRANT USAGE ON "
            f"SCHEMA {schema} TO the role that owns the tables of the key; and run the same again"
        )
    return f"as the schema's owner: GRANT USAGE, CREATE ON SCHEMA {schema} TO this role; and run the same again"


def tablespace_hint(name: str) -> str:
    """What to do where a role may make no tables in a tablespace."""
    return (
        f"as a superuser: GRANT CREATE ON TABLESPACE {_as_sql(name)} TO this role; and run the same command again. "
        "Where neither an option nor the table names it, default_tablespace does, a setting of the role or the database"
    )


def _as_sql(name: str) -> str:
    """Quoted where SQL needs it, by the same rule as a table's."""
    return str(TableName(None, name))


def copy_hint(error: ServerError, *, doing: str, advice: str | None) -> str | None:
    """What to do where row security does not let COPY: the server's own advice, the only one of its kind, is INSERT."""
    return ROW_SECURITY_HINT if error.sqlstate == "0A000" and doing == "starting COPY" and advice else None


ROW_SECURITY_HINT = (
    "load as a role that row security is not for: the owner, where it is not forced (NO FORCE ROW LEVEL SECURITY), "
    "or one with BYPASSRLS"
)
