/*
 * relation_write.h
 *		Writes new blocks at the end of a relation's files, past the page cache where the file system lets us.
 */
#ifndef TIPPLE_RELATION_WRITE_H
#define TIPPLE_RELATION_WRITE_H

#include "postgres.h"

#include "async_write.h"
#include "compat.h"
#include "storage/block.h"

/* Writes that may be under way at once. Each is of another piece of memory, whose number is the write's. */
#define QUEUED_WRITES	4

/* The writes that may be under way, of whichever relations. */
typedef struct WriteQueue
{
	AsyncWrites *writes;		/* NULL: each write is waited for */
	struct RelationWriter *writers[QUEUED_WRITES];	/* of the writes that may be under way, or NULL */
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

/* Waits for the writes that are under way, whether or not they succeed. Raises no error. */
extern void close_write_queue(WriteQueue *queue);

/*
 * Opens the first segment, which exists. `path` is kept. The file closes with the subtransaction at the latest.
 * A queue that is not open yet is opened where that is of use.
 */
extern void open_writer(RelationWriter *writer, WriteQueue *queue, RelationFile file, char *path, bool register_syncs);

/*
 * Makes the files long enough for `count` blocks from `block` on, the relation's end, where that is of use before they
 * are written. They have to be, all of them: until then they read as zeros.
 */
extern void reserve_blocks(RelationWriter *writer, BlockNumber block, int64 count);

/*
 * Writes `count` blocks from `block` on. `pages` is aligned to PG_IO_ALIGN_SIZE, and stays untouched until settle_write
 * with the same number.
 */
extern void write_blocks(RelationWriter *writer, BlockNumber block, const char *pages, int count, int number);

/* Waits until what was written with this number is in its file, which is not to say on the disk. */
extern void settle_write(WriteQueue *queue, int number);

/* The same for all of them. */
extern void settle_writes(WriteQueue *queue);

/* Closes the file, which nothing may be under way to; the next write opens it again. Raises no error. */
extern void close_writer(RelationWriter *writer);

#endif
