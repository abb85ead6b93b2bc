-- complain if the script is not run by CREATE EXTENSION or ALTER EXTENSION
\echo Use "ALTER EXTENSION tipple_direct UPDATE" to load this file. \quit

CREATE FUNCTION tipple_direct.append_packed(packed bytea, pages integer, target integer DEFAULT 0) RETURNS bigint
    AS 'MODULE_PATHNAME', 'tipple_direct_append_packed'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.append_packed(bytea, integer, integer) IS
    'unpacks a block of LZ4 to so many pages, checks and appends them; returns their number of rows';

REVOKE ALL ON FUNCTION tipple_direct.append_packed(bytea, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tipple_direct.append_packed(bytea, integer, integer) TO tipple_direct;
