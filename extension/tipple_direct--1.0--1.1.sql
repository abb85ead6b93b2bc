-- complain if the script is not run by CREATE EXTENSION or ALTER EXTENSION
\echo Use "ALTER EXTENSION tipple_direct UPDATE" to load this file. \quit

CREATE FUNCTION tipple_direct.also(relation regclass) RETURNS integer
    AS 'MODULE_PATHNAME', 'tipple_direct_also'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.also(regclass) IS
    'adds another such table to the load; returns its number, the first one''s being 0';

DROP FUNCTION tipple_direct.append(bytea);
CREATE FUNCTION tipple_direct.append(pages bytea, target integer DEFAULT 0) RETURNS bigint
    AS 'MODULE_PATHNAME', 'tipple_direct_append'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.append(bytea, integer) IS
    'checks and appends whole pages; returns their number of rows';

DROP FUNCTION tipple_direct.append_slot(integer, integer);
CREATE FUNCTION tipple_direct.append_slot(slot integer, pages integer, target integer DEFAULT 0) RETURNS bigint
    AS 'MODULE_PATHNAME', 'tipple_direct_append_slot'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.append_slot(integer, integer, integer) IS
    'checks and appends the first pages of a slot of the shared memory; returns their number of rows';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tipple_direct FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tipple_direct TO tipple_direct;
