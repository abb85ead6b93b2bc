/*
 * page_append.h
 *		Checks a client's pages, makes them this transaction's, and puts them behind the relation's last block.
 */
#ifndef TIPPLE_PAGE_APPEND_H
#define TIPPLE_PAGE_APPEND_H

#include "postgres.h"

#include "direct_load.h"

/* Where pages come from: memory that nobody changes, or a slot of the shared memory, which the client may. */
typedef struct PageSource
{
	const char *memory;			/* or NULL: the slot */
	int			slot;
	int			pages;
} PageSource;

/*
 * Appends `count` sources in turn. `block` is the relation's length. Returns the number of rows. A bad page is an error; the pages before it may have
 * been written.
 */
extern int64 append_pages(DirectTarget *target, Relation relation, BlockNumber block, const PageSource *sources,
						  int count);

#endif
