"""Amounts of money, of which the server reads the text as `lc_monetary` has it: where that is another number than its
own cast makes."""

from __future__ import annotations

from typing import Any

import psycopg

# cash.c: cash_in goes by the setting's decimal point, its separator of thousands and its sign; numeric_cash by its
# number of decimals alone.
_IS_READ_AS_CAST = "SELECT '-1234.56'::pg_catalog.money = (-1234.56)::pg_catalog.money"
_DECIMALS = "SELECT scale(1::numeric::pg_catalog.money::numeric), current_setting('lc_monetary')"

C_DECIMALS = 2
"""The decimals of an amount under `lc_monetary = C`: the same as under most others, so that it is stored the same."""


def misreading(connection: psycopg.Connection[Any]) -> tuple[str, str] | None:
    """Why this server makes another amount of the text of a number with a fraction, and what to do, if it does."""
    try:
        # The caller may be within a transaction, which goes on.
        with connection.transaction():
            ((is_right,),) = connection.execute(_IS_READ_AS_CAST).fetchall()
    except psycopg.DataError:
        is_right = False
    if is_right:
        return None
    ((decimals, setting),) = connection.execute(_DECIMALS).fetchall()
    remedy = "load it into a column of type numeric, of another table, and from there by INSERT … SELECT …::money"
    if decimals == C_DECIMALS:
        remedy = (
            "add options=-c%20lc_monetary%3DC to the URL, or set PGOPTIONS='-c lc_monetary=C', for sessions that read "
            "amounts with a point and store the same"
        )
    return f"with lc_monetary {setting} the server does not read 1234.56 as that amount", remedy
