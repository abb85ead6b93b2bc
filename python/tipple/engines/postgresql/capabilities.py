"""What Tipple can do with PostgreSQL, as data; imports no driver."""

from tipple.engines.capabilities import Capabilities

CAPABILITIES = Capabilities(
    engine="postgresql",
    write_paths=("direct", "binary", "text"),
    modes=("append", "replace", "upsert", "create"),
    parallel_sessions=True,
    resumes_slices=True,
    unbounded_numeric=True,
    uneven_lists=False,
    names_refused_records=True,
    preserves_order=False,
    partitions=True,
    structures=("heap", "btree", "sorted", "columnstore", "memory"),
    tablespaces=True,
    system_columns=frozenset({"cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"}),
    own_schemas="information_schema|pg_.*",
    together=frozenset({"swap", "merge", "partition"}),
)

OLDEST_VERSION = 15
"""The oldest major version that is tested."""
