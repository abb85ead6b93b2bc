"""What Tipple can do with DuckDB, as data; imports no driver."""

from tipple.engines.base import Capabilities

CAPABILITIES = Capabilities(
    engine="duckdb",
    write_paths=("arrow",),
    modes=("append", "replace", "upsert", "create"),
    parallel_sessions=False,
    resumes_slices=False,
    unbounded_numeric=False,
    names_refused_records=False,
    preserves_order=True,
    together=frozenset({"transaction", "merge"}),
)
