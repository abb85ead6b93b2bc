-- complain if the script is not run by CREATE EXTENSION or ALTER EXTENSION
\echo Use "ALTER EXTENSION tipple_direct UPDATE" to load this file. \quit

CREATE FUNCTION tipple_direct.read_ahead(relation regclass, most_blocks integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'tipple_direct_read_ahead'
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tipple_direct.read_ahead(regclass, integer) IS
    'asks the kernel to read a table of the caller''s into its page cache, unless it has more blocks; returns how many';

REVOKE ALL ON FUNCTION tipple_direct.read_ahead(regclass, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tipple_direct.read_ahead(regclass, integer) TO tipple_direct;
