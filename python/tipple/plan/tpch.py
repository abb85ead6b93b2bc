"""The eight tables of TPC-H: names, columns and primary keys, for `--schema tpch` and `tipple generate tpch`.

The tables are those of the TPC-H specification 3.0.1, clause 1.4, as standard SQL. An identifier is `int`, or
`bigint` where scale 1000 would outgrow that: the order keys. Keys stand apart from columns, because a load
that creates a table builds its keys when the rows are in.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["CREATE_TABLE", "PRIMARY_KEYS", "TABLES", "WHOLE"]

TABLES: Final = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
"""In the order in which foreign keys allow loading them."""

WHOLE: Final = ("region", "nation")
"""Those that no number of parts divides."""

CREATE_TABLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "region": """\
CREATE TABLE region (
    r_regionkey int NOT NULL,
    r_name char(25) NOT NULL,
    r_comment varchar(152) NOT NULL
)""",
        "nation": """\
CREATE TABLE nation (
    n_nationkey int NOT NULL,
    n_name char(25) NOT NULL,
    n_regionkey int NOT NULL,
    n_comment varchar(152) NOT NULL
)""",
        "supplier": """\
CREATE TABLE supplier (
    s_suppkey int NOT NULL,
    s_name char(25) NOT NULL,
    s_address varchar(40) NOT NULL,
    s_nationkey int NOT NULL,
    s_phone char(15) NOT NULL,
    s_acctbal decimal(15,2) NOT NULL,
    s_comment varchar(101) NOT NULL
)""",
        "customer": """\
CREATE TABLE customer (
    c_custkey int NOT NULL,
    c_name varchar(25) NOT NULL,
    c_address varchar(40) NOT NULL,
    c_nationkey int NOT NULL,
    c_phone char(15) NOT NULL,
    c_acctbal decimal(15,2) NOT NULL,
    c_mktsegment char(10) NOT NULL,
    c_comment varchar(117) NOT NULL
)""",
        "part": """\
CREATE TABLE part (
    p_partkey int NOT NULL,
    p_name varchar(55) NOT NULL,
    p_mfgr char(25) NOT NULL,
    p_brand char(10) NOT NULL,
    p_type varchar(25) NOT NULL,
    p_size int NOT NULL,
    p_container char(10) NOT NULL,
    p_retailprice decimal(15,2) NOT NULL,
    p_comment varchar(23) NOT NULL
)""",
        "partsupp": """\
CREATE TABLE partsupp (
    ps_partkey int NOT NULL,
    ps_suppkey int NOT NULL,
    ps_availqty int NOT NULL,
    ps_supplycost decimal(15,2) NOT NULL,
    ps_comment varchar(199) NOT NULL
)""",
        "orders": """\
CREATE TABLE orders (
    o_orderkey bigint NOT NULL,
    o_custkey int NOT NULL,
    o_orderstatus char(1) NOT NULL,
    o_totalprice decimal(15,2) NOT NULL,
    o_orderdate date NOT NULL,
    o_orderpriority char(15) NOT NULL,
    o_clerk char(15) NOT NULL,
    o_shippriority int NOT NULL,
    o_comment varchar(79) NOT NULL
)""",
        "lineitem": """\
CREATE TABLE lineitem (
    l_orderkey bigint NOT NULL,
    l_partkey int NOT NULL,
    l_suppkey int NOT NULL,
    l_linenumber int NOT NULL,
    l_quantity decimal(15,2) NOT NULL,
    l_extendedprice decimal(15,2) NOT NULL,
    l_discount decimal(15,2) NOT NULL,
    l_tax decimal(15,2) NOT NULL,
    l_returnflag char(1) NOT NULL,
    l_linestatus char(1) NOT NULL,
    l_shipdate date NOT NULL,
    l_commitdate date NOT NULL,
    l_receiptdate date NOT NULL,
    l_shipinstruct char(25) NOT NULL,
    l_shipmode char(10) NOT NULL,
    l_comment varchar(44) NOT NULL
)""",
    }
)
"""CREATE TABLE of each table, without its keys and without a semicolon at the end."""

PRIMARY_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "region": ("r_regionkey",),
        "nation": ("n_nationkey",),
        "supplier": ("s_suppkey",),
        "customer": ("c_custkey",),
        "part": ("p_partkey",),
        "partsupp": ("ps_partkey", "ps_suppkey"),
        "orders": ("o_orderkey",),
        "lineitem": ("l_orderkey", "l_linenumber"),
    }
)
"""Columns of the primary key of each table (clause 1.4.2)."""
