"""Why another table cannot take a table's place unnoticed.

A staging table does so only where nothing would be lost by it: every property that PostgreSQL keeps by the table's OID
rules it out, unless `CREATE TABLE (LIKE ...)` copies it, or `belongings` gives it to the other table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from tipple.engines.base import LoadTask
from tipple.engines.postgresql.place import estranged, sequences, views, whole_rows
from tipple.plan.url import TableName, quote_identifier

# Partitions whose indexes ATTACH PARTITION would pair with other ones of their table, or make.
_PAIRED_ANEW = """
SELECT h.inhrelid, 'it lacks the index ' || c.relname || ' of its table' FROM pg_inherits h
    -- CREATE INDEX ON ONLY: ATTACH PARTITION would make it, while everybody waits.
    JOIN pg_index i ON i.indrelid = h.inhparent JOIN pg_class c ON c.oid = i.indexrelid
    WHERE h.inhrelid = ANY (%(oids)s::oid[]) AND %(partition)s AND NOT EXISTS (
        SELECT FROM pg_inherits a JOIN pg_index o ON o.indexrelid = a.inhrelid
        WHERE a.inhparent = i.indexrelid AND o.indrelid = h.inhrelid)
UNION ALL SELECT i.indrelid, 'its index ' || c.relname || ' may be taken for another one of its table' FROM pg_index i
    -- ATTACH PARTITION takes the first one that fits, whichever way it is sorted.
    JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_index o ON o.indrelid = i.indrelid AND o.indexrelid <> i.indexrelid
    JOIN pg_class d ON d.oid = o.indexrelid AND d.relam = c.relam AND d.relispartition
    WHERE i.indrelid = ANY (%(oids)s::oid[]) AND %(partition)s
        AND format('%%s %%s %%s', o.indkey, o.indclass, o.indcollation)
            = format('%%s %%s %%s', i.indkey, i.indclass, i.indcollation)
        AND (o.indisunique, o.indnkeyatts) = (i.indisunique, i.indnkeyatts)
        AND pg_get_expr(o.indexprs, o.indrelid) IS NOT DISTINCT FROM pg_get_expr(i.indexprs, i.indrelid)
        AND pg_get_expr(o.indpred, o.indrelid) IS NOT DISTINCT FROM pg_get_expr(i.indpred, i.indrelid)
"""

# Foreign keys that this role cannot give to another table, or that judge rows only as they come in. Before 18 there is
# no column `conenforced`. One that refers to a partitioned table has others below it (`conparentid`), which are the
# server's own.
_MAY_NOT_REFER = """(NOT has_schema_privilege(o.relnamespace, 'USAGE') OR EXISTS (
    SELECT FROM unnest(k.confkey) n WHERE NOT has_column_privilege(o.oid, n, 'REFERENCES')))"""
_BY_ITSELF = "(NOT convalidated AND to_jsonb(k) ->> 'conenforced' IS DISTINCT FROM 'false')"
_SAYS_NOT_ALLOWED = (
    "format('this role may not refer to %%s, as its foreign key %%s does (GRANT REFERENCES)', o.relname, conname)"
)
_SAYS_NOT_VALID = "format('its foreign key %%s is not valid', conname)"
_REFERENCES = f"""
SELECT k.conrelid, CASE WHEN {_MAY_NOT_REFER}
    THEN {_SAYS_NOT_ALLOWED}
    WHEN {_BY_ITSELF} THEN {_SAYS_NOT_VALID}
    WHEN o.relpersistence = 'u' THEN format('its foreign key %%s refers to an unlogged table', conname)
    ELSE format('its foreign key %%s is to find rows that are published together with it', conname) END
FROM pg_constraint k JOIN pg_class o ON o.oid = confrelid
WHERE contype = 'f' AND conparentid = 0 AND conrelid = ANY (%(oids)s::oid[]) AND NOT %(partition)s
    AND (%(together)s OR o.relpersistence = 'u' AND %(restructured)s OR {_BY_ITSELF} OR {_MAY_NOT_REFER})
"""

# A table, or an index, in the tablespace `s`: no other one can be made there, or is.
_MAY_NOT_LIE = "NOT has_tablespace_privilege(s.oid, 'CREATE')"
_KEEPS_PLACE = f"NOT %(moved)s AND (%(restructured)s AND NOT %(partition)s OR {_MAY_NOT_LIE})"
_SAYS_OWN_PLACE = f"""CASE WHEN {_MAY_NOT_LIE}
    THEN '{{0}} lies in the tablespace ' || spcname || ', where this role may make none (GRANT CREATE ON TABLESPACE)'
    ELSE '{{0}} lies in a tablespace of its own' END"""

# Each query names what stands in the way of replacing tables of %(oids)s, or gives no row: the first one counts.
# One for all of them, and none that goes through a catalog for each table: there may be thousands of partitions.
_OBSTACLES = f"""
SELECT oid::bigint, CASE WHEN relkind = 'r' AND relpersistence = 'u' THEN 'it is unlogged'
    ELSE 'it is not an ordinary table' END FROM pg_class WHERE oid = ANY (%(oids)s::oid[])
    AND (relkind <> 'r' OR NOT %(restructured)s
         AND (relpersistence <> 'p' OR relam <> (SELECT oid FROM pg_am WHERE amname = 'heap')))
UNION ALL SELECT inhrelid, 'it is a partition, or part of an inheritance tree' FROM pg_inherits
    WHERE inhrelid = ANY (%(oids)s::oid[]) AND NOT %(partition)s
UNION ALL SELECT inhparent, 'it is a partition, or part of an inheritance tree' FROM pg_inherits
    WHERE inhparent = ANY (%(oids)s::oid[]) AND NOT %(partition)s
UNION ALL SELECT tgrelid, 'it has the trigger ' || tgname FROM pg_trigger
    WHERE tgrelid = ANY (%(oids)s::oid[]) AND NOT tgisinternal
UNION ALL SELECT confrelid, 'the foreign key ' || conname || ' refers to it' FROM pg_constraint
    WHERE contype = 'f' AND confrelid = ANY (%(oids)s::oid[])
UNION ALL {_REFERENCES}
UNION ALL SELECT oid, 'it has row security' FROM pg_class
    WHERE oid = ANY (%(oids)s::oid[]) AND (relrowsecurity OR relforcerowsecurity)
UNION ALL SELECT polrelid, 'it has the policy ' || polname FROM pg_policy WHERE polrelid = ANY (%(oids)s::oid[])
UNION ALL SELECT oid, 'it has grants by ' || pg_get_userbyid(grantor) || ', who does not own it'
    FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
    WHERE oid = ANY (%(oids)s::oid[]) AND grantor <> relowner
UNION ALL SELECT attrelid, format('its column %%s has grants by %%s, who does not own it', attname,
                                  pg_get_userbyid(grantor))
    FROM pg_attribute JOIN pg_class c ON c.oid = attrelid CROSS JOIN LATERAL aclexplode(attacl)
    WHERE attrelid = ANY (%(oids)s::oid[]) AND grantor <> relowner AND NOT attisdropped
UNION ALL SELECT attrelid, why FROM ({sequences.OWN_IDENTITIES}) n
    WHERE attrelid = ANY (%(oids)s::oid[]) AND %(partition)s
UNION ALL {sequences.OBSTACLES}
UNION ALL SELECT oid, 'another role owns it' FROM pg_class
    WHERE oid = ANY (%(oids)s::oid[]) AND relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
UNION ALL SELECT oid, 'it has storage parameters' FROM pg_class
    WHERE oid = ANY (%(oids)s::oid[]) AND reloptions IS NOT NULL AND %(columnar)s
UNION ALL SELECT c.oid, {_SAYS_OWN_PLACE.format("it")} FROM pg_class c JOIN pg_tablespace s ON s.oid = reltablespace
    WHERE c.oid = ANY (%(oids)s::oid[]) AND {_KEEPS_PLACE}
UNION ALL SELECT oid, 'its replica identity is set' FROM pg_class
    WHERE oid = ANY (%(oids)s::oid[]) AND relreplident <> 'd' AND %(restructured)s
UNION ALL SELECT m.oid, 'it belongs to the publication ' || p.pubname FROM pg_publication_rel r
    JOIN pg_publication p ON p.oid = r.prpubid
    JOIN unnest(%(oids)s::oid[]) AS m (oid)
        ON r.prrelid = m.oid OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(m.oid))
UNION ALL SELECT m.oid, 'the publication ' || pubname || ' covers all tables'
    FROM pg_publication CROSS JOIN unnest(%(oids)s::oid[]) AS m (oid) WHERE puballtables
UNION ALL SELECT m.oid, 'the publication ' || p.pubname || ' covers its schema' FROM unnest(%(oids)s::oid[]) AS m (oid)
    CROSS JOIN LATERAL (SELECT m.oid AS relid UNION SELECT relid FROM pg_partition_ancestors(m.oid)) AS a
    JOIN pg_class c ON c.oid = a.relid JOIN pg_publication_namespace n ON n.pnnspid = c.relnamespace
    JOIN pg_publication p ON p.oid = n.pnpubid
UNION ALL SELECT r.srrelid, 'the subscription ' || s.subname || ' feeds it' FROM pg_subscription_rel r
    JOIN pg_subscription s ON s.oid = r.srsubid WHERE r.srrelid = ANY (%(oids)s::oid[])
UNION ALL SELECT stxrelid, 'it has the statistics object ' || stxname FROM pg_statistic_ext
    WHERE stxrelid = ANY (%(oids)s::oid[])
        AND (%(partition)s OR stxowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
             OR NOT has_schema_privilege(stxnamespace, 'CREATE'))
UNION ALL SELECT i.indrelid, format('its index %%s has a statistics target', c.relname) FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE i.indrelid = ANY (%(oids)s::oid[]) AND a.attstattarget >= 0
UNION ALL SELECT a.attrelid, 'its column ' || a.attname || ' is stored or compressed in a way of its own'
    FROM pg_attribute a JOIN pg_attribute r ON r.attrelid = pg_partition_root(a.attrelid) AND r.attname = a.attname
    WHERE a.attrelid = ANY (%(oids)s::oid[]) AND %(partition)s AND a.attnum > 0 AND NOT a.attisdropped
        AND (a.attstorage <> r.attstorage OR a.attcompression <> r.attcompression)
UNION ALL SELECT conrelid, 'its constraint ' || conname || ' is not valid' FROM pg_constraint
    WHERE conrelid = ANY (%(oids)s::oid[]) AND contype IN ('c', 'n') AND NOT convalidated
UNION ALL SELECT conrelid, 'its constraint ' || conname || ' asks which table a row is in' FROM pg_constraint
    WHERE conrelid = ANY (%(oids)s::oid[]) AND contype = 'c' AND -6 = ANY (conkey)
UNION ALL SELECT conrelid, 'its constraint ' || conname || ' has a whole-row reference' FROM pg_constraint
    WHERE conrelid = ANY (%(oids)s::oid[]) AND {whole_rows.CHECKED}
UNION ALL SELECT i.indrelid, 'its index ' || c.relname || ' has a whole-row reference' FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = ANY (%(oids)s::oid[]) AND {whole_rows.INDEXED}
UNION ALL SELECT c.conrelid, 'its constraint ' || c.conname || ' has a comment' FROM pg_constraint c
    JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_constraint'::regclass
    WHERE c.conrelid = ANY (%(oids)s::oid[]) AND %(restructured)s
UNION ALL SELECT i.indrelid, 'its index ' || c.relname || ' has a comment' FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass
    WHERE i.indrelid = ANY (%(oids)s::oid[]) AND %(restructured)s
UNION ALL SELECT i.indrelid, {_SAYS_OWN_PLACE.format("its index ' || c.relname || '")} FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_tablespace s ON s.oid = c.reltablespace
    WHERE i.indrelid = ANY (%(oids)s::oid[]) AND {_KEEPS_PLACE}
UNION ALL SELECT i.indrelid, 'its indexes lie in different tablespaces' FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = ANY (%(oids)s::oid[]) AND NOT %(moved)s AND NOT %(restructured)s
    GROUP BY i.indrelid HAVING count(DISTINCT c.reltablespace) > 1
UNION ALL SELECT i.indrelid, 'its index ' || c.relname || ' is not valid' FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = ANY (%(oids)s::oid[]) AND NOT i.indisvalid
UNION ALL {_PAIRED_ANEW}UNION ALL SELECT tgrelid, 'its foreign key ' || conname || ' is switched off' FROM pg_trigger t
    -- DISABLE TRIGGER ALL: the new one would check.
    JOIN pg_constraint k ON k.oid = t.tgconstraint
    WHERE tgrelid = ANY (%(oids)s::oid[]) AND tgisinternal AND tgenabled <> 'O'
UNION ALL SELECT c.oid, 'its long values have storage parameters' FROM pg_class c
    JOIN pg_class t ON t.oid = c.reltoastrelid
    WHERE c.oid = ANY (%(oids)s::oid[]) AND t.reloptions IS NOT NULL AND %(columnar)s
UNION ALL SELECT d.objid, 'the extension ' || e.extname || ' owns it' FROM pg_depend d
    JOIN pg_extension e ON e.oid = d.refobjid
    WHERE d.classid = 'pg_class'::regclass AND d.objid = ANY (%(oids)s::oid[])
        AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
UNION ALL SELECT i.indrelid, format('its index %%s depends on the extension %%s', c.relname, e.extname) FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'x'
    JOIN pg_extension e ON e.oid = d.refobjid WHERE i.indrelid = ANY (%(oids)s::oid[])
UNION ALL SELECT oid, 'it is of a composite type' FROM pg_class WHERE oid = ANY (%(oids)s::oid[]) AND reloftype <> 0
UNION ALL SELECT objoid, 'it has a security label' FROM pg_seclabel WHERE objoid = ANY (%(oids)s::oid[])
UNION ALL SELECT DISTINCT d.refobjid,
        coalesce((SELECT format('the view %%s depends on it, and is not this role''s to make again', v.oid::regclass)
                  FROM pg_rewrite w JOIN pg_class v ON v.oid = w.ev_class WHERE d.classid = 'pg_rewrite'::regclass
                      AND w.oid = d.objid AND w.rulename = '_RETURN' AND v.relkind = 'v' AND NOT %(partition)s),
                 'other objects depend on it (' || pg_describe_object(d.classid, d.objid, 0) || ')')
    FROM pg_depend d
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY (%(oids)s::oid[]) AND d.deptype IN ('n', 'a')
      AND (d.classid IN ('pg_rewrite'::regclass, 'pg_class'::regclass, 'pg_proc'::regclass, 'pg_policy'::regclass)
           -- The table as a constant, 't'::regclass, in a default or a CHECK, or all of a row.
           OR d.deptype = 'n' AND d.refobjsubid = 0)
      AND NOT (d.classid = 'pg_class'::regclass AND EXISTS (
               SELECT FROM pg_index i WHERE i.indexrelid = d.objid AND i.indrelid = d.refobjid))
      -- Serial columns: see `sequences.take`.
      AND NOT (d.classid = 'pg_class'::regclass AND d.deptype = 'a' AND NOT %(partition)s AND EXISTS (
               SELECT FROM pg_class s WHERE s.oid = d.objid AND s.relkind = 'S' AND s.relpersistence = 'p'))
      AND NOT (d.classid = 'pg_rewrite'::regclass AND NOT %(partition)s AND EXISTS ({views.REMADE}))
UNION ALL SELECT c.oid, 'its row type is used by ' || pg_describe_object(d.classid, d.objid, d.objsubid)
    FROM pg_class c JOIN pg_type t ON t.oid = c.reltype
    JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = ANY (ARRAY[t.oid, t.typarray])
    WHERE c.oid = ANY (%(oids)s::oid[]) AND d.deptype = 'n'
"""


# What rows of hidden partitions would have met, or would lose, on their way through the partitioned table itself.
_DETOURS = f"""
SELECT 'it has the trigger ' || tgname FROM pg_trigger WHERE tgrelid = %(oid)s AND NOT tgisinternal
UNION ALL SELECT 'the foreign key ' || conname || ' refers to it' FROM pg_constraint
    WHERE contype = 'f' AND confrelid = %(oid)s AND conparentid = 0
UNION ALL SELECT CASE WHEN {_BY_ITSELF} THEN {_SAYS_NOT_VALID}
    ELSE {_SAYS_NOT_ALLOWED} END
    FROM pg_constraint k JOIN pg_class o ON o.oid = confrelid
    WHERE contype = 'f' AND conparentid = 0 AND conrelid IN (SELECT relid FROM pg_partition_tree(%(oid)s))
        AND ({_BY_ITSELF} OR {_MAY_NOT_REFER})
UNION ALL SELECT 'it has row security' FROM pg_class WHERE oid = %(oid)s AND relrowsecurity
UNION ALL SELECT 'it has the policy ' || polname FROM pg_policy WHERE polrelid = %(oid)s
UNION ALL SELECT 'it has the rule ' || rulename FROM pg_rewrite WHERE ev_class = %(oid)s AND ev_type <> '1'
UNION ALL SELECT why FROM ({sequences.UNUSABLE}) n WHERE attrelid = %(oid)s
UNION ALL SELECT 'it belongs to the publication ' || p.pubname FROM pg_publication_rel r
    JOIN pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = %(oid)s
UNION ALL SELECT 'the publication ' || pubname || ' covers all tables' FROM pg_publication WHERE puballtables
UNION ALL SELECT 'the publication ' || p.pubname || ' covers its schema' FROM pg_publication_namespace n
    JOIN pg_publication p ON p.oid = n.pnpubid JOIN pg_class c ON c.relnamespace = n.pnnspid WHERE c.oid = %(oid)s
UNION ALL SELECT 'the constraint ' || conname || ' asks which table a row is in' FROM pg_constraint
    WHERE conrelid IN (SELECT relid FROM pg_partition_tree(%(oid)s)) AND contype = 'c' AND -6 = ANY (conkey)
UNION ALL SELECT 'the constraint ' || conname || ' has a whole-row reference' FROM pg_constraint
    WHERE conrelid IN (SELECT relid FROM pg_partition_tree(%(oid)s)) AND {whole_rows.CHECKED}
UNION ALL SELECT 'the index ' || c.relname || ' has a whole-row reference' FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid IN (SELECT relid FROM pg_partition_tree(%(oid)s) WHERE NOT isleaf) AND {whole_rows.INDEXED}
UNION ALL SELECT 'another role owns it' FROM pg_class WHERE oid = %(oid)s AND NOT pg_has_role(relowner, 'USAGE')
UNION ALL SELECT 'another role owns its partition ' || c.oid::regclass
    FROM pg_partition_tree(%(oid)s) JOIN pg_class c ON c.oid = relid WHERE NOT pg_has_role(c.relowner, 'USAGE')
UNION ALL SELECT 'this role may not create tables in the schema of its partition ' || c.oid::regclass
    FROM pg_partition_tree(%(oid)s) JOIN pg_class c ON c.oid = relid
    WHERE relid <> %(oid)s AND NOT has_schema_privilege(c.relnamespace, 'CREATE')
UNION ALL SELECT 'it is a partition itself' FROM pg_class WHERE oid = %(oid)s AND relispartition
LIMIT 1
"""


def of_all(
    connection: psycopg.Connection[Any], tables: Sequence[TableName], task: LoadTask | None, *, partition: bool = False
) -> dict[TableName, str]:
    """Why other tables cannot take the place of these unnoticed, by table; those where one can are left out.

    A partition's place in its tree, where it lies, if this role may make tables there, and its own foreign keys are
    seen to by who replaces a `partition`.
    What the load gives the table anew, a structure or a place, is no obstacle.
    """
    if not tables:
        return {}
    rows = connection.execute(
        "SELECT to_regclass(name)::oid::bigint FROM unnest(%s::text[]) WITH ORDINALITY AS t (name, n) ORDER BY n",
        ([table.sql for table in tables],),
    ).fetchall()
    oids = {oid: table for table, (oid,) in zip(tables, rows, strict=True) if oid is not None}
    facts = {
        "oids": list(oids),
        "partition": partition,
        "restructured": task is not None and task.structure is not None,
        "columnar": task is not None and task.structure is not None and task.structure.structure == "columnstore",
        "moved": task is not None and bool(task.tablespaces),
        "together": task is not None and task.together is not None,
    }
    # Whoever asks has seen them a moment ago.
    found = dict.fromkeys(set(tables) - set(oids.values()), "it is gone")
    for oid, why in connection.execute(_OBSTACLES.encode(), facts).fetchall():
        found.setdefault(oids[oid], str(why))
    return found


def of(
    connection: psycopg.Connection[Any], table: TableName, task: LoadTask | None, *, partition: bool = False
) -> str | None:
    """Why another table cannot take this one's place unnoticed, or None."""
    return of_all(connection, [table], task, partition=partition).get(table)


def keeps_indexes(connection: psycopg.Connection[Any], partition: TableName) -> bool:
    """Whether a partition that is detached and attached again has the indexes that it had, and its table too."""
    found = connection.execute("SELECT to_regclass(%s)::oid::bigint", (partition.sql,)).fetchone()
    facts = {"oids": list(found or ()), "partition": True}
    return connection.execute(_PAIRED_ANEW.encode(), facts).fetchone() is None


def detour(connection: psycopg.Connection[Any], table: TableName) -> str | None:
    """What rows would not meet, or would take away, if they did not come through the partitioned table itself."""
    found = connection.execute(_DETOURS.replace("%(oid)s", "to_regclass(%(table)s)"), {"table": table.sql}).fetchone()
    return str(found[0]) if found is not None else None


def publication_of_new(connection: psycopg.Connection[Any], schema: str | None) -> str | None:
    """Which publication sends the rows of a table that is made in `schema` (None: `public`), or None."""
    found = connection.execute(
        "SELECT format('the publication %%s covers all tables', pubname) FROM pg_publication "
        "WHERE puballtables AND pubinsert AND current_setting('wal_level') = 'logical' "
        "UNION ALL SELECT format('the publication %%s covers its schema', pubname) FROM pg_publication_namespace "
        "JOIN pg_publication p ON p.oid = pnpubid WHERE pnnspid = to_regnamespace(%s) "
        "AND pubinsert AND current_setting('wal_level') = 'logical' LIMIT 1",
        (quote_identifier(schema or "public"),),
    ).fetchone()
    return None if found is None else str(found[0])


def missing_right(connection: psycopg.Connection[Any], table: TableName) -> str | None:
    """Why this role may not, or cannot, put a table of its own in the place of this one, or None."""
    found = connection.execute(
        "SELECT n.nspname, has_schema_privilege(n.oid, 'CREATE') FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
        (table.sql,),
    ).fetchone()
    if found is not None and not found[1]:
        return f"this role may not create tables in the schema {found[0]}"
    place = place_of_staged(connection, table)
    # The one whose place is taken is dropped, or what was staged in vain.
    withheld = estranged.withheld(connection, place, drops=[place] if found is None else [place, found[0]])
    return None if withheld is None else withheld.why


def place_of_staged(connection: psycopg.Connection[Any], table: TableName) -> str:
    """The schema in which a load into the table stages rows: the ledger's, or its own where that cannot be had."""
    found = connection.execute(
        "SELECT coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = 'tipple'), "
        "has_database_privilege(current_database(), 'CREATE'))"
    ).fetchone()
    return "tipple" if table.schema is None or (found is not None and found[0]) else table.schema
