-- What needs no pages: the functions, their rights, and what is refused.
-- Pages come from clients; tests/extension of Tipple's sources has those tests.
CREATE EXTENSION tipple_direct;
SELECT tipple_direct.version() = extversion AS same FROM pg_extension WHERE extname = 'tipple_direct';
SELECT proname, prosrc, provolatile, proparallel, proisstrict, has_function_privilege('tipple_direct', oid, 'execute')
  FROM pg_proc WHERE pronamespace = 'tipple_direct'::regnamespace ORDER BY proname;
SELECT count(*) FROM pg_proc, aclexplode(proacl)
 WHERE pronamespace = 'tipple_direct'::regnamespace AND grantee = 0;

-- The tables that qualify.
CREATE TABLE taken (
    a bigint PRIMARY KEY, b boolean, c smallint, d integer, e oid, f real, g double precision, h numeric(15,2), i text,
    j varchar(10), k char(3), l bytea, m date, n time, o timetz, p timestamp, q timestamptz, r interval, s uuid
);
SELECT tipple_direct.why_not('taken');
CREATE TABLE not_taken (a integer, b jsonb);
SELECT tipple_direct.why_not('not_taken');
SELECT tipple_direct.why_not('pg_class');
SELECT tipple_direct.why_not(NULL) IS NULL AS no_table;

-- A load of nothing.
BEGIN;
CREATE TABLE loaded (LIKE taken);
SELECT block_size, shared_memory FROM tipple_direct.open('loaded', 0, 0);
SELECT tipple_direct.append('');
SELECT * FROM tipple_direct.finish();
COMMIT;
SELECT count(*) FROM loaded;

-- What is no page.
BEGIN;
TRUNCATE loaded;
SELECT block_size FROM tipple_direct.open('loaded', 0, 0);
SELECT tipple_direct.append('\x00');
ROLLBACK;
BEGIN;
TRUNCATE loaded;
SELECT block_size FROM tipple_direct.open('loaded', 0, 0);
SELECT tipple_direct.append(decode(repeat('00', 8192), 'hex'));
ROLLBACK;
BEGIN;
TRUNCATE loaded;
SELECT block_size FROM tipple_direct.open('loaded', 0, 0);
SELECT tipple_direct.append_packed('\x00', 0);
ROLLBACK;
BEGIN;
TRUNCATE loaded;
SELECT block_size FROM tipple_direct.open('loaded', 0, 0);
SELECT tipple_direct.append_packed('\x00', 1);
ROLLBACK;

-- The wrong order.
SELECT tipple_direct.append('');
SELECT tipple_direct.finish();
SELECT tipple_direct.open('loaded', 0, 0);
BEGIN;
TRUNCATE loaded;
SELECT block_size FROM tipple_direct.open('loaded', 0, 0);
SELECT tipple_direct.open('loaded', 0, 0);
ROLLBACK;

-- Reading ahead.
INSERT INTO loaded (a) SELECT generate_series(1, 1000);
SELECT tipple_direct.read_ahead('loaded', 1000) = pg_relation_size('loaded') / current_setting('block_size')::int AS all_of_it,
       tipple_direct.read_ahead('loaded', 1) AS too_long, tipple_direct.read_ahead('taken', 1) AS nothing;
CREATE ROLE tipple_reader IN ROLE tipple_direct;
GRANT SELECT ON loaded TO tipple_reader;
SET ROLE tipple_reader;
SELECT tipple_direct.read_ahead('loaded', 1000);
RESET ROLE;
DROP OWNED BY tipple_reader;
DROP ROLE tipple_reader;
DROP TABLE taken, not_taken, loaded;
DROP EXTENSION tipple_direct;
