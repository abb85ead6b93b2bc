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

/* The one write that may be under way, of whichever relation. */
typedef struct WriteQueue
{
	WriteBehind *behind;		/* NULL: each write is waited for */
	struct RelationWriter *writer;	/* of the write that may be under way, or NULL */
} WriteQueue;

typedef struct RelationWriter
{
	WriteQueue *queue;			/* shared with the load's other relations */
	RelationFile file;
	char	   *path;			/* of segment 0 */
	bool		register_syncs; /* tell the checkpointer to fsync what was written */
	bool		direct_io;
	int			fd;				/* of the segment below, or -1 */
	uint32		segment;
} RelationWriter;

/* Waits for a write that is under way, whether or not it succeeds, and frees everything. Raises no error. */
extern void close_write_queue(WriteQueue *queue);

/*
 * Opens the first segment, which exists. `path` is kept. The file closes with the subtransaction at the latest.
 * Without a thread yet, the queue gets one where that is of use.
 */
extern void open_writer(RelationWriter *writer, WriteQueue *queue, RelationFile file, char *path, bool register_syncs);

/*
 * Writes `count` blocks from `block` on, the relation's end. `pages` is aligned to PG_IO_ALIGN_SIZE, and stays untouched
 * until the next call with this queue, or settle_writes, returns.
 */
extern void write_blocks(RelationWriter *writer, BlockNumber block, const char *pages, int count);

/* Waits until all blocks of all relations are in their files, which is not to say on the disk. */
extern void settle_writes(WriteQueue *queue);

/* Closes the file, which nothing may be under way to; the next write opens it again. Raises no error. */
extern void close_writer(RelationWriter *writer);

#endif
