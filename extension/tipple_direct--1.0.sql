-- Functions for a session of Tipple: open, append as often as there are pages, finish; all in one transaction.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION tipple_direct" to load this file. \quit

-- Whoever owns the schema could put functions beside these, for the client to call.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) nspowner
               WHERE nspname OPERATOR(pg_catalog.=) 'tipple_direct' AND NOT rolsuper
                   AND rolname OPERATOR(pg_catalog.<>) current_user) THEN
        RAISE EXCEPTION 'the schema tipple_direct is there already, and belongs to no superuser'
            USING HINT = 'DROP SCHEMA tipple_direct CASCADE; if nothing of value is in it';
    END IF;
END
$$;

-- Roles belong to the whole cluster: another database may have made it. Dropping the extension leaves it.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) 'tipple_direct') THEN
        CREATE ROLE tipple_direct NOLOGIN;
    END IF;
END
$$;

CREATE FUNCTION tipple_direct.version() RETURNS text
    AS 'MODULE_PATHNAME', 'tipple_direct_version'
    LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tipple_direct.version() IS
    'version of the loaded library';

CREATE FUNCTION tipple_direct.why_not(relation regclass) RETURNS text
    AS 'MODULE_PATHNAME', 'tipple_direct_why_not'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.why_not(regclass) IS
    'why pages could not be appended to a table like this one; null if they could';

CREATE FUNCTION tipple_direct.open(
    relation regclass, slots integer, slot_pages integer,
    OUT block_size integer, OUT checksums boolean, OUT wal boolean, OUT direct_io boolean, OUT shared_memory text
) RETURNS record
    AS 'MODULE_PATHNAME', 'tipple_direct_open'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.open(regclass, integer, integer) IS
    'opens a load into an empty table that this transaction created or truncated';

CREATE FUNCTION tipple_direct.opened() RETURNS void
    AS 'MODULE_PATHNAME', 'tipple_direct_opened'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.opened() IS
    'takes the shared memory''s name away, once the client has opened it';

CREATE FUNCTION tipple_direct.append(pages bytea) RETURNS bigint
    AS 'MODULE_PATHNAME', 'tipple_direct_append'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.append(bytea) IS
    'checks and appends whole pages; returns their number of rows';

CREATE FUNCTION tipple_direct.append_slot(slot integer, pages integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'tipple_direct_append_slot'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.append_slot(integer, integer) IS
    'checks and appends the first pages of a slot of the shared memory; returns their number of rows';

CREATE FUNCTION tipple_direct.finish(OUT pages bigint, OUT rows bigint) RETURNS record
    AS 'MODULE_PATHNAME', 'tipple_direct_finish'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.finish() IS
    'ends the load; has to come before the commit';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tipple_direct FROM PUBLIC;
REVOKE ALL ON SCHEMA tipple_direct FROM PUBLIC;
GRANT USAGE ON SCHEMA tipple_direct TO tipple_direct;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tipple_direct TO tipple_direct;
