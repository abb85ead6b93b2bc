/*
 * relation_write.h
 *		Writes new blocks at the end of a relation's files, past the page cache where the file system lets us.
 */
#ifndef TIPPLE_RELATION_WRITE_H
#define TIPPLE_RELATION_WRITE_H

#include "postgres.h"

#include "compat.h"
#include "storage/block.h"

typedef struct RelationWriter
{
	RelationFile file;
	char	   *path;			/* of segment 0 */
	bool		register_syncs; /* tell the checkpointer to fsync what was written */
	bool		direct_io;
	int			fd;				/* of the segment below, or -1 */
	uint32		segment;
} RelationWriter;

/* Opens the first segment, which exists. `path` is kept. The file closes with the subtransaction at the latest. */
extern void open_writer(RelationWriter *writer, RelationFile file, char *path, bool register_syncs);

/*
 * Writes `count` blocks from `block` on, the relation's end. `pages` is aligned to PG_IO_ALIGN_SIZE. What is written
 * is in the file, not necessarily on the disk.
 */
extern void write_blocks(RelationWriter *writer, BlockNumber block, const char *pages, int count);

extern void close_writer(RelationWriter *writer);

#endif
