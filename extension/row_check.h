/*
 * row_check.h
 *		Judges rows that lie on checked pages by the relation's CHECK constraints and by its bounds as a partition.
 *
 * The server's own executor judges, as it does for COPY: a row that it refuses is an error with COPY's SQLSTATE.
 */
#ifndef TIPPLE_ROW_CHECK_H
#define TIPPLE_ROW_CHECK_H

#include "postgres.h"

#include "utils/rel.h"

typedef struct RowCheck RowCheck;

/*
 * Why the relation's rows cannot be judged while pages are under way, or NULL. Functions that somebody has written
 * could use the relation, or this extension, meanwhile; and a checkpoint waits for them.
 */
extern char *row_check_refusal(Relation relation);

/* NULL where the relation has nothing of the kind. All memory is of the current context. */
extern RowCheck *make_row_check(Relation relation);

/* Raises an error at the first of the `nitems` rows of a checked page that is refused; calls `after_row` behind each. */
extern void check_rows(RowCheck *check, Relation relation, const char *page, int nitems,
					   void (*after_row) (void *context), void *context);

#endif
