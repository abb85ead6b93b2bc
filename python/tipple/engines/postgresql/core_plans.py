"""The plans that the core gets for a load into PostgreSQL, in their JSON form."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg

from tipple.engines import core
from tipple.engines.base import Cut, LoadTask
from tipple.engines.postgresql import connection as connections
from tipple.engines.postgresql import direct, known_types, ledger, stage, structure, unlogged
from tipple.engines.postgresql.choice import Chooser
from tipple.engines.postgresql.job import OwnedJob
from tipple.engines.postgresql.keys import late_keys
from tipple.engines.postgresql.partitioned import partition_growth, partitions
from tipple.engines.postgresql.place import emptying
from tipple.engines.postgresql.upsert import merge
from tipple.errors import BadRecord
from tipple.plan.url import TableName, quote_identifier

if TYPE_CHECKING:
    from tipple.engines.postgresql.session import PostgresSession

_WITHOUT_XMIN = """
SELECT FROM pg_class
WHERE (oid = to_regclass(%(table)s) OR oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%(table)s))))
  AND relkind <> 'p' AND (relkind <> 'r' OR relam <> (SELECT oid FROM pg_am WHERE amname = 'heap'))
LIMIT 1
"""


HIGHEST_ASCII = 0x7F
HIGHEST_CHARACTERS = {"UTF8": 0x10FFFF, "SQL_ASCII": 0x10FFFF, "LATIN1": 0xFF}
"""By a database's encoding: the code point up to which it has all characters; of others only ASCII is known."""


class CorePlans:
    """Makes the plans of one load."""

    def __init__(self, session: PostgresSession, task: LoadTask, notes: list[str], chooser: Chooser) -> None:
        """`notes` gets remarks for the user."""
        self.session = session
        self.task = task
        self.notes = notes
        self.chooser = chooser
        self.exists = task.definition is None
        self.table = task.table
        self.settings: dict[str, str] = {}
        """Of the server, as far as the load sets them."""
        self.server_routes = ""
        """Why the server finds the partition of each record, where it does."""
        self.grown = 0
        """Partitions that were made for keys which the core had met."""
        self.hopeless: set[str] = set()
        """Keys for which no partition can be made, though --partition-by makes those that are missing."""
        self.left_out: dict[str, str] = {}
        """The bounds of partitions that could not be made, each with the partition that is in the way."""
        self.gaps: dict[str, str] = {}
        """The same of partitions that records may lack."""

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The control connection; another one after the server was gone."""
        return self.session.connection

    @property
    def write_path(self) -> str:
        """As it was chosen."""
        return self.chooser.write_path

    def slices(self, owned: OwnedJob, into: TableName, cut: Cut, rejects_before: int) -> str:
        """A load into `into`, slice by slice, or by pages in one transaction."""
        self.left_out |= owned.plan.get("left_out", {})
        self.gaps |= owned.plan.get("gaps", {})
        in_order = self.task.preserve_order or structure.needs_order(self.task) or self._judges_by_keys(owned)
        target = self._target(owned, into, {"name": "slices", "keep_order": in_order})
        if self.write_path == "direct":
            # What does not go by pages is read by the server itself; rows of batches have been read already.
            target["write_path"] = "text" if self.task.columnar is None else "binary"
            host, routing = target["connection"]["host"], target["routing"]
            tables = len(routing["tables"]) if routing is not None else 1
            target["strategy"] = {
                "name": "direct",
                "pages": direct.plan(self.connection, self.task, into, host, tables=tables),
                "after": self._owner_proof(owned) + self._slices_done(owned),
            }
        return core.load_plan(
            self.task,
            owned.job_id,
            cut,
            target,
            digest=self.task.verify == "checksum",
            rejects_before=rejects_before,
            # Pages are one transaction, and what a limit left over would belong to nobody.
            commit_records=self.task.commit_every if self.write_path != "direct" else None,
            in_order=in_order,
        )

    def refused(
        self, task: LoadTask, owned: OwnedJob, cut: Cut, slices: Sequence[dict[str, Any]], rejects_before: int
    ) -> str:
        """A search for the records of staged rows that the table has refused; nothing is stored."""
        if owned.resumed:
            # A column that became NOT NULL after they were staged: what was rejected for it meanwhile is told apart.
            columns = [msgspec.structs.replace(column, not_null=False) for column in task.columns]
            task = msgspec.structs.replace(task, columns=columns)
        target = self._target(owned, owned.staging or self.table, {"name": "refused", "slices": slices})
        return core.load_plan(task, owned.job_id, cut, target, digest=False, rejects_before=rejects_before)

    def repeated(self, owned: OwnedJob, cut: Cut, known: dict[str, Any], rejects_before: int) -> str:
        """A search for the records that repeat a key, of which so much is `known` (the core's `Repeated`)."""
        target = self._target(owned, owned.staging or self.table, {"name": "repeated", **known}, routed=False)
        # Keys are read as COPY binary, and so are rows that come back.
        target["write_path"] = "binary"
        digest = self.task.verify == "checksum"
        return core.load_plan(self._quoting(), owned.job_id, cut, target, digest=digest, rejects_before=rejects_before)

    def _quoting(self) -> LoadTask:
        """The task with its columns called as the server calls them when it tells of a key."""
        names = [column.name for column in self.task.columns]
        quoted = self.connection.execute(
            "SELECT quote_ident(name) FROM unnest(%s::text[]) WITH ORDINALITY n (name, place) ORDER BY place", (names,)
        ).fetchall()
        columns = [
            msgspec.structs.replace(column, name=name)
            for column, (name,) in zip(self.task.columns, quoted, strict=True)
        ]
        return msgspec.structs.replace(self.task, columns=columns)

    def sought(self, owned: OwnedJob, cut: Cut, sought: dict[str, Any]) -> str:
        """A search for a record with one of some keys (the core's `Sought`); nothing is stored."""
        target = self._target(owned, self.table, {"name": "sought", **sought}, routed=False)
        # Keys are compared as COPY binary has them.
        target["write_path"] = "binary"
        # What only the server can read is compared as it is written.
        columns = [
            msgspec.structs.replace(column, codec_type="text") if column.codec_type == "opaque" else column
            for column in self.task.columns
        ]
        task = msgspec.structs.replace(self.task, columns=columns)
        return core.load_plan(task, owned.job_id, cut, target, digest=False)

    def single(self, owned: OwnedJob, cut: Cut, *, digest: bool) -> str:
        """A load into the table itself, in one transaction."""
        strategy = self._single_strategy(owned)
        target = self._target(owned, self.table, strategy)
        # Slices of files are put in order by the session that stores them. Batches in memory are no slices: of what
        # several streams share, each takes what happens to come.
        in_order = strategy["keep_order"] and self.task.stream is not None
        return core.load_plan(self.task, owned.job_id, cut, target, digest=digest, in_order=in_order)

    def _judges_by_keys(self, owned: OwnedJob) -> bool:
        """Whether slices go into the table itself, and its keys say which records are rejects: the first one in
        the order of the files is stored, which one stream knows, and two might wait for each other."""
        if owned.strategy != "incremental" or self.task.rejects is None:
            return False
        tables = [self.table, *partitions.leaves(self.connection, self.table)]
        return any(stage.has_keys(self.connection, table) for table in tables)

    def _superseding(self, owned: OwnedJob) -> list[dict[str, Any]]:
        """What makes this the job of its command, in the place of one that was published before."""
        replaced = self.chooser.job.replaces
        if replaced is None:
            return []
        key = self.task.request_key.hex()
        statements = (
            ledger.SUPERSEDE.replace("%s", f"'{replaced}'"),
            f"UPDATE tipple.job SET request_key = '\\x{key}' WHERE {_owned_by(owned)}",
        )
        return [{"sql": statement, "proves_ownership": False} for statement in statements]

    def _single_strategy(self, owned: OwnedJob) -> dict[str, Any]:
        # A foreign table cannot be locked.
        before = [] if self.chooser.is_foreign else [f"LOCK TABLE {self.table.sql} IN ROW EXCLUSIVE MODE"]
        if not self.exists and self.task.definition is not None:
            before = [self.task.definition.create_sql(self.table.sql, with_constraints=True)]
        if self.task.mode == "replace":
            before += emptying.statements(self.connection, self.table)
        if owned.unlogged:
            # With the rows, since a crash of the server has taken what was said before.
            before.append(unlogged.INSERT.format(job_id=owned.job_id))
        after: list[dict[str, Any]] = []
        if self.task.ledger:
            after = [
                *self._superseding(owned),
                {
                    "sql": "UPDATE tipple.job SET state = 'published', rows = :rows, row_digest = :digest, "
                    f"owner_pid = NULL, finished_at = {ledger.PUBLISHED_AT} WHERE {_owned_by(owned)} RETURNING 1",
                    "proves_ownership": True,
                },
                *self._slices_done(owned),
            ]
        verify = None
        if self.task.verify == "checksum" and self.write_path == "binary" and self.reads_back:
            # In this transaction every new row has its xmin; no subtransaction stores rows.
            only = "" if partitions.is_partitioned(self.connection, self.table) else "ONLY "
            verify = f"SELECT {self.digested_list()} FROM {only}{self.table.sql} WHERE xmin = pg_current_xact_id()::xid"
        return {
            "name": "single",
            "before": before,
            # Which of two records with the same key is stored must not depend on which came first by chance.
            "keep_order": self.task.preserve_order or self.task.rejects is not None,
            "verify_query": verify,
            "after": after,
        }

    @functools.cached_property
    def reads_back(self) -> bool:
        """Whether the rows of a transaction can be read back from the table itself: other access methods than heap, and
        foreign tables among partitions, have no xmin."""
        return not self.exists or self.connection.execute(_WITHOUT_XMIN, {"table": self.table.sql}).fetchone() is None

    def verification(self, owned: OwnedJob, queries: Sequence[str]) -> str:
        """The digest of the rows of all queries."""
        return json.dumps(
            {
                "connection": self._stream_connection(owned),
                "session": connections.stream_session(self.connection, slices=False),
                "queries": list(queries),
                "streams": self.task.streams,
                "stall_seconds": self.task.stall_seconds,
            }
        )

    def _owner_proof(self, owned: OwnedJob) -> list[dict[str, Any]]:
        """A statement that finds out, in the transaction that stores all rows, whether the job is still this run's."""
        if not self.task.ledger:
            return []
        return [{"sql": f"SELECT FROM tipple.job WHERE {_owned_by(owned)} FOR SHARE", "proves_ownership": True}]

    def _slices_done(self, owned: OwnedJob) -> list[dict[str, Any]]:
        """A statement that marks all slices as done, in the transaction that stores all rows."""
        if not self.task.ledger:
            return []
        sql = (
            "UPDATE tipple.slice SET state = 'done', attempt = attempt + 1, rows = v.rows, rejects = v.rejects, "
            "row_digest = v.digest, xid = pg_current_xact_id()::text, finished_at = clock_timestamp() "
            f"FROM (VALUES :slices) v (n, rows, rejects, digest) WHERE job_id = '{owned.job_id}' AND slice.n = v.n "
            "RETURNING 1"
        )
        return [{"sql": sql, "proves_ownership": False}]

    def digested_list(self) -> str:
        """The columns that a checksum covers, quoted; says which it does not."""
        left_out = [column.name for column in self.task.columns if not column.digested]
        note = f"PostgreSQL keeps {', '.join(left_out)} in a form of its own: not part of the checksum"
        if left_out and note not in self.notes:
            self.notes.append(note)
        return ", ".join(quote_identifier(column.name) for column in self.task.columns if column.digested)

    def _stream_connection(self, owned: OwnedJob) -> dict[str, Any]:
        return connections.stream_parameters(self.connection, ledger.session_name(owned.job_id))

    def _target(
        self, owned: OwnedJob, into: TableName, strategy: dict[str, Any], *, routed: bool = True
    ) -> dict[str, Any]:
        # What came from standard input is gone once it is stored: a crash of the server must not take it back. Nor must
        # it take back what decides which records are rejects.
        in_order = structure.needs_order(self.task) or self._judges_by_keys(owned)
        is_final = self.task.reads_stdin or in_order
        sliced = owned.strategy != "single" and self.write_path != "direct" and not is_final
        # In place: the report has been given them already.
        self.settings["synchronous_commit"] = "off for slices, on for publish" if sliced else "on"
        if self.task.tablespaces:
            self.settings["tablespace"] = ", ".join(self.task.tablespaces)
        return {
            "kind": "postgres",
            "connection": self._stream_connection(owned),
            "session": connections.stream_session(self.connection, slices=sliced),
            "strategy": strategy,
            "table": into.sql,
            "routing": self._routing(owned, into) if routed else None,
            "growing": self._growing(),
            "known_types": self._known_types(owned, into) if strategy["name"] in ("single", "slices") else None,
            "unique": late_keys.core_plan(owned.plan, self.task),
            "slice_setting": merge.SLICE_SETTING if owned.strategy == "merge" else None,
            "column_list": self.task.column_list,
            "write_path": self.write_path,
            "server_may_read": self._server_may_read(owned),
            "server_version": self.session.version,
            "ledger": self._ledger(owned) if self.task.ledger else None,
            "retry_seconds": self.task.retry_seconds,
            "stall_seconds": self.task.stall_seconds,
        }

    def _server_may_read(self, owned: OwnedJob) -> bool:
        """Whether a load can begin anew as COPY text: what is visible already is not taken back."""
        return self.task.write_path == "auto" and not self.task.reads_once and owned.strategy != "incremental"

    def _known_types(self, owned: OwnedJob, into: TableName) -> dict[str, Any] | None:
        """The core's `KnownTypes`; what the server reads as text is right whatever a column has become."""
        if into != self.table or self.write_path == "text" or not (self.exists or owned.strategy == "incremental"):
            return None
        locks = owned.strategy == "incremental" and not self.chooser.is_foreign
        return known_types.core_plan(self.connection, into, self.task.columns, locks=locks)

    def _ledger(self, owned: OwnedJob) -> dict[str, Any]:
        """The core's `LedgerKey`."""
        encoding = self.connection.info.parameter_status("server_encoding")
        highest = HIGHEST_CHARACTERS.get(encoding or "", HIGHEST_ASCII)
        return {"job_id": owned.job_id, "epoch": owned.epoch, "highest_character": highest}

    def _growing(self) -> dict[str, Any] | None:
        """The core's `Growing`, where partitions can be made; what is read once cannot go on with them."""
        asked = self.task.partition_by
        if asked is None or not asked.grows or not self.task.ledger or self.task.reads_once:
            return None
        return {"column": asked.columns[0], "hopeless": sorted(self.hopeless)}

    def route_notes(self, routes: dict[str, int], *, rejected: bool) -> list[str]:
        """How rows came into their partitions; `routes`: the core's `Routes`, `rejected`: whether some did not."""
        left_out = self.left_out | self.gaps if rejected else self.left_out
        return partitions.route_notes(self.server_routes, routes, self.grown, left_out)

    def explained(self, error: BadRecord) -> BadRecord:
        """The complaint with all that is known of its cause."""
        return partition_growth.explained(error, self.left_out | self.gaps)

    def _routing(self, owned: OwnedJob, into: TableName) -> dict[str, Any] | None:
        """The core's `Routing`."""
        if owned.strategy != "partition":
            return None
        by_core = self.write_path != "text"
        routed = partitions.routing(self.connection, self.task, into, self.hopeless, binary=by_core)
        self.server_routes = routed.reason
        return routed.plan


def _owned_by(owned: OwnedJob) -> str:
    """The condition on `tipple.job` that a job is loading, and nobody has taken it over."""
    return f"job_id = '{owned.job_id}' AND epoch = {owned.epoch} AND state = 'loading'"
