"""Names as users type them: the target's URL and the table's name. Pure text, no connection, no environment.

Target URLs follow SQLAlchemy's habit, which most users of DuckDB and PostgreSQL from Python already have:

    duckdb:///night.duckdb         a file, relative to the working directory (three slashes)
    duckdb:////data/night.duckdb   a file by its absolute path (four slashes: three, and the path's own)
    duckdb:///:memory:             a database that lives as long as the process
    postgresql://..., postgres://  any libpq URI; it is handed to libpq as it is

So in `duckdb:///path/to/file.duckdb` the path is `path/to/file.duckdb`, in the working directory. Nothing in
a DuckDB URL is percent-decoded, again as SQLAlchemy does, so a file name can be written as it is; but what looks like
options of a URL (`?access_mode=read_only`) is refused, and not taken for a part of the name.

A URL may hold a password and must not be shown. `Target.display` is the form for people, logs and the ledger.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

import msgspec

from tipple.errors import UsageError

__all__ = [
    "LONGEST_NAME_BYTES",
    "TableName",
    "Target",
    "cut_name",
    "fold_identifier",
    "is_utf8",
    "note_of_cut",
    "parse_table_name",
    "parse_target",
    "quote_identifier",
    "quote_literal",
]

MEMORY = ":memory:"
HIDDEN = "***"

LONGEST_NAME_BYTES = 63
"""PostgreSQL's NAMEDATALEN without its end; it cuts longer names."""

ENGINE_BY_SCHEME = {
    "duckdb": "duckdb",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mssql": "mssql",
}
"""Every scheme that Tipple knows of, with the name of the engine's folder."""

ENGINES_TO_COME = {"mssql": "SQL Server"}
"""Engines that are recognised, so that the message is better than "unknown scheme", but not built yet."""

URL_EXAMPLES = "write duckdb:///file.duckdb or postgresql://user@host/database"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed target URL."""

    engine: str
    """Name of the engine: `duckdb` or `postgresql`."""
    url: str
    """What was typed, with the scheme in lower case. May hold a password: for the driver only."""
    display: str
    """The same without any secret."""
    location: str
    """What the driver opens: DuckDB's file path or `:memory:`; for PostgreSQL the URL itself."""


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8, which one with lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_target(text: str) -> Target:
    """Parse a target URL.

    Raises:
        UsageError: an unknown scheme, an engine that comes later, or a DuckDB URL without a path. The message
            never repeats the text beyond its scheme, for it may hold a password.
    """
    text = text.strip()
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator:
        named = re.fullmatch(r"(?:duckdb:)?([\w./~-]+)", text, re.IGNORECASE)
        if named is not None and not named[1].endswith("/"):
            raise UsageError(f"the target {text!r} is not a URL", hint=f"for a DuckDB file write duckdb:///{named[1]}")
        raise UsageError("the target is not a URL", hint=URL_EXAMPLES)
    engine = ENGINE_BY_SCHEME.get(scheme)
    if engine is None:
        shown = f" {scheme!r}" if re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) else ""
        raise UsageError(f"unknown scheme{shown} in the target's URL", hint=URL_EXAMPLES)
    if engine in ENGINES_TO_COME:
        raise UsageError(
            f"{ENGINES_TO_COME[engine]} is not supported yet",
            hint="targets today are DuckDB (duckdb:///file.duckdb) and PostgreSQL (postgresql://user@host/db)",
        )
    if not is_utf8(rest):
        hint = "give a file another name; in a server's URL, write other bytes as %XX"
        raise UsageError("the target's URL is not UTF-8", hint=hint)
    if "\0" in rest:
        raise UsageError("the target's URL holds a zero character", hint=URL_EXAMPLES)
    url = f"{scheme}://{rest}"
    if engine == "duckdb":
        return Target(engine=engine, url=url, display=url, location=_duckdb_path(rest))
    return Target(engine=engine, url=url, display=redact_postgresql_url(url), location=url)


def _duckdb_path(rest: str) -> str:
    if not rest.startswith("/"):
        if rest:
            hint = f"DuckDB has no host, so write three slashes: duckdb:///{rest}"
        else:
            hint = f"write duckdb:///file.duckdb, or duckdb:///{MEMORY} for a database in memory"
        raise UsageError("the DuckDB URL has no path", hint=hint)
    path = rest[1:]
    if not path or path.endswith("/"):
        raise UsageError(
            "the DuckDB URL names no file",
            hint=f"write duckdb:///file.duckdb (relative), duckdb:////directory/file.duckdb (absolute), "
            f"or duckdb:///{MEMORY}",
        )
    if path.startswith(MEMORY) and path != MEMORY:
        raise UsageError(
            "a database in memory has no name and no options here", hint=f"write duckdb:///{MEMORY}, or name a file"
        )
    options = re.search(r"\?\w+=[^/]*$", path)
    if options is not None:
        raise UsageError(
            f"a DuckDB URL has no options here, as {options[0]} seems to be",
            hint=f"write duckdb:///{path[: options.start()]}",
        )
    return path


# The grammar of libpq's conninfo_uri_parse_options (src/interfaces/libpq/fe-connect.c), made stricter where
# libpq guesses. What does not match, for example a password with an unescaped "@" or "/", is hidden whole:
# where the password ends can then only be guessed, and a wrong guess would show a part of it. The one "@" that may
# stand in the parameters is where `host=@NAME` says that a Unix socket is in no directory.
_POSTGRESQL_URL = re.compile(
    r"""
    (?P<scheme>postgres(?:ql)?)://
    (?: (?P<user>[^:@/]*) (?P<password>:[^@/]*)? @ )?
    (?P<hosts> [^:@/?\[\],]* (?: \[[0-9A-Fa-f:.%]*\] )? (?: :[0-9]* )?
          (?: , [^:@/?\[\],]* (?: \[[0-9A-Fa-f:.%]*\] )? (?: :[0-9]* )? )* )
    (?P<database> / [^?@]* )?
    (?: \? (?P<query> (?: [^@] | (?<=[?&]host=)@ )* ) )?
    """,
    re.VERBOSE | re.DOTALL,
)

_SECRET_PARAMETERS = re.compile(r"password|secret|token|^scram_(client|server)_key$")
_HARMLESS_PARAMETERS = frozenset(
    {
        "application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname",
        "fallback_application_name", "gssdelegation", "gssencmode", "gsslib", "host", "hostaddr",
        "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "krbsrvname",
        "load_balance_mode", "max_protocol_version", "min_protocol_version", "oauth_client_id",
        "oauth_issuer", "oauth_scope", "options", "passfile", "port", "replication", "require_auth",
        "requirepeer", "requiressl", "service", "servicefile", "ssl", "ssl_max_protocol_version",
        "ssl_min_protocol_version", "sslcert", "sslcertmode", "sslcompression", "sslcrl", "sslcrldir",
        "sslkey", "sslkeylogfile", "sslmode", "sslnegotiation", "sslrootcert", "sslsni",
        "target_session_attrs", "tcp_user_timeout", "user",
    }
)  # fmt: skip
"""Those of libpq 18 that hold no secret (PostgreSQL's documentation, "Parameter Key Words"). Any other one may be a
misspelt password, or what an unescaped "&" has left of one."""


class _Redacted(NamedTuple):
    """A PostgreSQL URL in two: what may be shown, and what must not be."""

    shown: str
    secrets: tuple[str, ...]
    """The secret parts as they are written in the URL."""
    is_certain: bool
    """Whether it is known where each secret begins and ends."""


def redact_postgresql_url(url: str) -> str:
    """The URL with `***` for the password, wherever libpq would accept one.

    Keeps user, hosts, database and harmless parameters. A URL that is not well formed is hidden as a whole.
    """
    return _redact(url).shown


def redact_postgresql_text(url: str, text: str) -> str | None:
    """What libpq says of a URL, without what the URL has of secrets; None where they might be anywhere in it."""
    redacted = _redact(url)
    if not redacted.is_certain:
        return None
    forms = {form for secret in redacted.secrets for form in (secret, unquote(secret), unquote_plus(secret)) if form}
    for form in sorted(forms, key=len, reverse=True):
        # Not in the middle of a word: a password of one letter would leave nothing to be read.
        text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text)
    return text


def malformed_escape(url: str) -> bool:
    """Whether a PostgreSQL URL has a `%` that libpq takes for no escape, or a space: its message would repeat them."""
    return re.search(r"%(?![0-9A-Fa-f]{2})|%00|\s", url) is not None


def _redact(url: str) -> _Redacted:
    match = _POSTGRESQL_URL.fullmatch(url)
    if match is None:
        return _Redacted(f"{url.partition('://')[0]}://{HIDDEN}", (), False)
    shown = f"{match['scheme']}://"
    secrets: list[str] = []
    if match["user"] is not None:
        shown += match["user"]
        if match["password"] is not None:
            shown += f":{HIDDEN}"
            secrets.append(match["password"][1:])
        shown += "@"
    shown += match["hosts"] + (match["database"] or "")
    is_certain = True
    if match["query"] is not None:
        parts: list[str] = []
        after_secret = False
        for part in match["query"].split("&"):
            name, separator, value = part.partition("=")
            keyword = unquote(name).lower()
            is_secret = _SECRET_PARAMETERS.search(keyword) is not None
            if separator and keyword in _HARMLESS_PARAMETERS:
                parts.append(part)
            elif part and (not separator or (after_secret and not is_secret)):
                # Left over from an unescaped "&" in the value before, which may have been a password.
                parts.append(HIDDEN)
                is_certain = False
            elif part:
                parts.append(f"{name}={HIDDEN}")
                secrets.append(value)
            else:
                parts.append("")
            after_secret = after_secret or is_secret
        shown += "?" + "&".join(parts)
    return _Redacted(shown, tuple(secrets), is_certain)


class TableName(msgspec.Struct, frozen=True):
    """A table's name as the database holds it: folded where it was not quoted, verbatim where it was."""

    schema: str | None
    """None where the user named no schema: the target's own default applies."""
    name: str

    @property
    def sql(self) -> str:
        """The name for a statement, every part quoted."""
        if self.schema is None:
            return quote_identifier(self.name)
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"

    def __str__(self) -> str:
        """The name for people, quoted where it has to be; `parse_table_name` gives the same back."""
        parts = [self.name] if self.schema is None else [self.schema, self.name]
        return ".".join(part if _PLAIN_FOLDED.fullmatch(part) else quote_identifier(part) for part in parts)


# PostgreSQL's scan.l: ident_start is [A-Za-z\200-\377_], ident_cont adds digits and $.
IDENTIFIER_START = r"[^\x00-@\[-^`{-\x7f]"
"""A letter, an underscore, or any character beyond ASCII. Said by what it is not: `re` takes milliseconds to compile a
range of a million characters, and every start of the command would wait for it."""
UNQUOTED_IDENTIFIER = rf"{IDENTIFIER_START}[^\x00-#%-/:-@\[-^`{{-\x7f]*"
QUOTED_IDENTIFIER = r'"(?:[^"]|"")*"'
_PART = re.compile(rf"[ \t\r\n]*(?:(?P<quoted>{QUOTED_IDENTIFIER})|(?P<plain>{UNQUOTED_IDENTIFIER}))[ \t\r\n]*")
_PLAIN_FOLDED = re.compile(r"[a-z_][a-z0-9_$]*")
_UPPER_TO_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def fold_identifier(text: str) -> str:
    """An identifier as written in SQL, to the name that it means.

    Unquoted, A to Z become a to z and nothing else changes, as in PostgreSQL's downcase_identifier() for
    multi-byte encodings. Quoted, the quotes go and doubled quotes become one.
    """
    if text.startswith('"'):
        return text[1:-1].replace('""', '"')
    return text.translate(_UPPER_TO_LOWER)


def cut_name(name: str, limit_bytes: int = LONGEST_NAME_BYTES) -> str:
    """As much of a name as fits, in whole characters: what PostgreSQL makes of one that is too long for it."""
    return name.encode()[:limit_bytes].decode(errors="ignore")


def note_of_cut(asked: TableName, kept: TableName) -> str | None:
    """What to say of a table's name that was too long, and of which the database keeps the beginning; else None."""
    pairs = ((asked.name, kept.name), (asked.schema or "", kept.schema or ""))
    if not any(name != beginning and beginning and name.startswith(beginning) for name, beginning in pairs):
        return None
    return f"the name {asked} is longer than the {LONGEST_NAME_BYTES} bytes that are kept of it: the table is {kept}"


def quote_identifier(name: str) -> str:
    """`name` as a quoted SQL identifier.

    Raises:
        UsageError: an empty name, or one with a zero character: no database takes those.
    """
    if not name:
        raise UsageError("a name is empty", hint="give it at least one character")
    if "\0" in name:
        raise UsageError("a name holds a zero character", hint="no database accepts such a name")
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """A text as an SQL literal.

    Backslashes stand for themselves: in PostgreSQL because every session sets `standard_conforming_strings`, and in
    DuckDB anyway, where not every statement knows the form E'…'.
    """
    return "'" + text.replace("'", "''") + "'"


def parse_table_name(text: str) -> TableName:
    """Parse `[SCHEMA.]NAME` by SQL's rules, so that `Lineitem` is `lineitem` and `"Lineitem"` is `Lineitem`.

    Raises:
        UsageError: not one or two identifiers. Names with spaces, hyphens or dots must be quoted.
    """
    hint = (
        "write NAME or SCHEMA.NAME, and put a name with upper case, spaces or signs in double quotes "
        "(for most shells: '\"My Table\"')"
    )
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None or "\0" in match[0]:
            raise UsageError(f"{text!r} is not a table name", hint=hint)
        part = fold_identifier(match["quoted"] or match["plain"])
        if not part:
            raise UsageError(f"a part of the table name {text!r} is empty", hint=hint)
        parts.append(part)
        position = match.end()
        if position == len(text):
            break
        if text[position] != ".":
            raise UsageError(f"{text!r} is not a table name: unexpected {text[position]!r}", hint=hint)
        position += 1
    if len(parts) > 2:
        raise UsageError(
            f"the table name {text!r} has {len(parts)} parts",
            hint="write NAME or SCHEMA.NAME; the database is named in the target's URL",
        )
    return TableName(parts[0] if len(parts) == 2 else None, parts[-1])
