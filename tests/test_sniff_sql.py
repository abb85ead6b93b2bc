"""Dumps that are statements are refused, and what only looks like them is not."""

import contextlib
import re
import subprocess
from pathlib import Path

import pytest

from loading import load_here
from sniffing import sniff
from targets import DuckdbTarget, write
from tipple.errors import UsageError

PG_DUMP = (
    "--\n-- PostgreSQL database dump\n--\n\n\\restrict xyz\n\n-- Dumped by pg_dump\n\nSET statement_timeout = 0;\n"
    "CREATE TABLE public.t (\n    a integer,\n    b text\n);\n\n"
)
DUMPS = {
    "pg_dump": PG_DUMP + "COPY public.t (a, b) FROM stdin;\n1\tx\n2\t\\N\n\\.\n\nSELECT 1;\n",
    "copy": "COPY t (a, b) FROM stdin;\n1\tx\n\\.\n",
    "inserts": PG_DUMP + "INSERT INTO public.t VALUES (1, 'x');\n",
    "inserts alone": "INSERT INTO t (a, b) VALUES (1, 'x');\nINSERT INTO t (a, b) VALUES (2, 'y');\n",
    "mysqldump": "-- MySQL dump 10.13\n-- \n\n/*!40101 SET NAMES utf8 */;\nDROP TABLE IF EXISTS `t`;\n",
    "navicat": "\ufeff/*\n Navicat * Premium\n*/\r\n\r\nSET NAMES utf8mb4;\r\nSET FOREIGN_KEY_CHECKS = 0;\r\n",
    "sqlite": "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE t(a int, b text);\n",
    "sql server": "USE [shop];\nINSERT INTO dbo.t SELECT 1, 'x';\n",
}
RECORDS = {
    "drop": "Drop type;Count\nsoft;1\nhard;2\n",
    "use": "Use case;Name\na;1\nc;2\n",
    "set": "Set names;a = b\nx;1\ny;2\n",
    "copy": "copy from stdin;n\na;1\nb;2\n",
    "insert": "id,verb\n1,INSERT INTO t VALUES (1)\n2,DROP TABLE t;\n",
    "comment": "-- id,n\n1,2\n3,4\n",
}


@pytest.mark.parametrize("name", DUMPS)
def test_statements_are_no_records(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"a\.csv holds SQL statements, no records"):
        sniff(write(tmp_path / "a.csv", DUMPS[name]))


@pytest.mark.parametrize("name", RECORDS)
def test_records_that_begin_like_statements(tmp_path: Path, name: str) -> None:
    assert sniff(write(tmp_path / "a.csv", RECORDS[name])).profile.fields == 2


@pytest.mark.parametrize("table", ["public.t", '"a+b".t', 'public."t(1)[2]{3}*^$/"'])
def test_the_rows_of_a_dump_alone(tmp_path: Path, table: str) -> None:
    """By the command that the error gives."""
    target = DuckdbTarget(tmp_path / "t.duckdb")
    dump = write(tmp_path / "it's a.csv", DUMPS["pg_dump"].replace("COPY public.t", f"COPY {table}"))
    run = load_here(target, dump, schema="auto", check=2)
    found = re.search("alone: (.*) [|] tipple load - --format text", run.stderr.replace("\n", " "))
    assert found is not None, run.stderr
    rows = subprocess.run(found[1], shell=True, capture_output=True, check=True).stdout
    assert rows == b"1\tx\n2\t\\N\n"
    load_here(target, dump, schema="auto", format="csv", header="no", delimiter="\\x01")
    assert target.count("t") == DUMPS["pg_dump"].count("\n")


@pytest.mark.parametrize("unit", ["-- \n", "/* a */ ", " ", "/*", "BEGIN;\n", "COPY x ", "SET a", "\n \n"])
def test_a_beginning_without_an_end_is_not_looked_at_for_ever(tmp_path: Path, unit: str) -> None:
    """Ways to read it must not multiply: a minute for 200 kB would be a hang."""
    with contextlib.suppress(UsageError):
        sniff(write(tmp_path / "a.csv", unit * (200_000 // len(unit)) + "x"))
