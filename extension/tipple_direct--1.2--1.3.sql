-- complain if the script is not run by CREATE EXTENSION or ALTER EXTENSION
\echo Use "ALTER EXTENSION tipple_direct UPDATE" to load this file. \quit

CREATE FUNCTION tipple_direct.append_slots(slots integer[], pages integer[], target integer DEFAULT 0) RETURNS bigint
    AS 'MODULE_PATHNAME', 'tipple_direct_append_slots'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.append_slots(integer[], integer[], integer) IS
    'checks and appends the first pages of each of these slots of the shared memory; returns their number of rows';

REVOKE ALL ON FUNCTION tipple_direct.append_slots(integer[], integer[], integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tipple_direct.append_slots(integer[], integer[], integer) TO tipple_direct;
