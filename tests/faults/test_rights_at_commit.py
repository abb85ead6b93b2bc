"""Rights that are missing when the server checks foreign keys at COMMIT: as the owners of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from loading import load
from servers.postgres import LOADER
from targets import PostgresTarget, write


@pytest.mark.parametrize("write_path", ["text", "auto"])
def test_a_foreign_key_is_checked_as_somebody_else(
    postgres_target: PostgresTarget, tmp_path: Path, write_path: str
) -> None:
    """The owner of the table that others refer to may not look into its schema: the hint names whom to grant it to."""
    path = write(tmp_path / "in.csv", "1,x\n2,y\n")
    server, name = postgres_target.server, postgres_target.database
    referred, referring = '"My schema".m', '"My schema".c'
    server.execute("CREATE ROLE other")
    try:
        for statement in (
            f'CREATE SCHEMA "My schema" AUTHORIZATION {LOADER}',
            f"CREATE TABLE {referred} (a integer PRIMARY KEY, b text)",
            f"CREATE TABLE {referring} (a integer REFERENCES {referred} DEFERRABLE INITIALLY DEFERRED)",
            f"INSERT INTO {referred} VALUES (1, 'x'), (5, 'y'); INSERT INTO {referring} VALUES (1)",
            f"ALTER TABLE {referred} OWNER TO other; GRANT ALL ON {referred} TO {LOADER}",
        ):
            server.execute(statement, name)
        run = load(postgres_target, path, table=referred, mode="replace", write_path=write_path, check=False)
        assert run.exit_code == 1, str(run)
        assert "permission denied for schema My schema" in run.stderr
        assert 'GRANT USAGE ON SCHEMA "My schema" TO the role that owns the tables of the key' in run.stderr
        server.execute('GRANT USAGE ON SCHEMA "My schema" TO other', name)
        load(postgres_target, path, table=referred, mode="replace", write_path=write_path)
    finally:
        server.execute("DROP OWNED BY other CASCADE", name)
        server.execute("DROP ROLE other")
