"""What Tipple can do with DuckDB, as data; imports no driver."""

from tipple.engines.capabilities import Capabilities

CAPABILITIES = Capabilities(
    engine="duckdb",
    write_paths=("arrow",),
    modes=("append", "replace", "upsert", "create"),
    parallel_sessions=False,
    in_process=True,
    resumes_slices=False,
    unbounded_numeric=False,
    uneven_lists=True,
    names_refused_records=False,
    preserves_order=True,
    structures=("columnstore", "sorted", "btree", "memory", "parquet"),
    own_schemas="information_schema|pg_catalog",
    together=frozenset({"transaction", "merge"}),
)
