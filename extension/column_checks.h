/*
 * column_checks.h
 *		What a table's definition means for the values on its pages.
 */
#ifndef TIPPLE_COLUMN_CHECKS_H
#define TIPPLE_COLUMN_CHECKS_H

#include "postgres.h"

#include "access/tupdesc.h"

#include "page_check.h"

/* Why pages cannot hold this column: a sentence fragment that begins with "its column", or NULL. */
extern char *column_refusal(Form_pg_attribute attribute);

/* The checks of a table whose columns are all accepted, in the current memory context. */
extern PageCheck *make_page_check(TupleDesc descriptor);

#endif
