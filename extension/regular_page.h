/*
 * regular_page.h
 *		The quick way to accept a page: column by column.
 */
#ifndef TIPPLE_REGULAR_PAGE_H
#define TIPPLE_REGULAR_PAGE_H

#include "page_check.h"

/*
 * The number of rows of a page whose header was checked, if all of them can be accepted, and 0 if one by one they have to
 * be looked at. The page is read, and not changed.
 */
extern int	count_regular_rows(const PageCheck *check, const char *page);

/* Bytes of what make_number_shapes makes: 128 weights with and without sign, up to eight digit groups. */
#define NUMBER_SHAPES	(256 * 8)

/* What count_regular_rows needs to know of a column numeric(precision, scale) whose scale fits the short form. */
extern uint8 *make_number_shapes(int precision, int scale);

#endif
