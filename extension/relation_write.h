/*
 * relation_write.h
 *		Writes new blocks at the end of a relation's files, past the page cache where the file system lets us.
 */
#ifndef TIPPLE_RELATION_WRITE_H
#define TIPPLE_RELATION_WRITE_H

#include "postgres.h"

#include "compat.h"
#include "storage/block.h"
#include "write_behind.h"

typedef struct RelationWriter
{
	RelationFile file;
	char	   *path;			/* of segment 0 */
	bool		register_syncs; /* tell the checkpointer to fsync what was written */
	bool		direct_io;
	int			fd;				/* of the segment below, or -1 */
	uint32		segment;
	WriteBehind *behind;		/* NULL: each write is waited for */
	bool		unsettled;		/* a write may be under way */
} RelationWriter;

/* Opens the first segment, which exists. `path` is kept. The file closes with the subtransaction at the latest. */
extern void open_writer(RelationWriter *writer, RelationFile file, char *path, bool register_syncs);

/*
 * Writes `count` blocks from `block` on, the relation's end. `pages` is aligned to PG_IO_ALIGN_SIZE, and stays untouched
 * until the next call, or settle_writer, returns.
 */
extern void write_blocks(RelationWriter *writer, BlockNumber block, const char *pages, int count);

/* Waits until all blocks are in the file, which is not to say on the disk. */
extern void settle_writer(RelationWriter *writer);

/* Waits for a write that is under way, whether or not it succeeds, and closes. Raises no error. */
extern void close_writer(RelationWriter *writer);

#endif
