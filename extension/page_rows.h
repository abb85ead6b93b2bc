/*
 * page_rows.h
 *		The rows of a page while its columns are gone through, and the loops for processors with AVX-512.
 *
 * The loops say of a column's values on all rows whether they are what the server could have written, and set where the
 * next value of each row begins. They know the values that most are; others they hand to accept_any, one by one.
 */
#ifndef TIPPLE_PAGE_ROWS_H
#define TIPPLE_PAGE_ROWS_H

#include "page_check.h"

/* Where the next value of each row begins, and where its tuple does and ends, in bytes of the page. */
typedef struct Rows
{
	const char *page;
	int			count;
	uint64		padding;		/* all bytes skipped for alignment */
	uint16		next[MaxHeapTuplesPerPage];
	uint16		begin[MaxHeapTuplesPerPage];
	uint16		end[MaxHeapTuplesPerPage];
} Rows;

/* Has the other way look at a value. */
extern bool accept_any(const PageCheck *check, const ColumnCheck *column, Rows *rows, int row);

/*
 * Where the compiler knows the instructions; clang says that it is an old gcc. TIPPLE_NO_WIDE_LOOPS: to test on any processor
 * what others have.
 */
#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 7)) && \
	!defined(TIPPLE_NO_WIDE_LOOPS)
#define TIPPLE_HAS_WIDE_LOOPS

/* Whether the processor has what the functions below are made of. */
extern bool has_wide_loops(void);

/* Finds the rows of a page, each behind the one before, where none of them has a NULL. */
extern bool find_full_rows_wide(const PageCheck *check, Rows *rows);

/* Values of fixed width, of this kind: one whose check needs no division. */
extern bool accept_fixed_wide(const ColumnCheck *column, Rows *rows, ValueKind kind);

/* Numbers of a column with a precision, whose scale fits the short form. */
extern bool accept_numbers_wide(const PageCheck *check, const ColumnCheck *column, Rows *rows);

/* Texts of any length. */
extern bool accept_texts_wide(const PageCheck *check, const ColumnCheck *column, Rows *rows);
#endif

#endif
