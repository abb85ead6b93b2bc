/*
 * write_behind.h
 *		Writes a span of a file while the backend checks the next pages.
 *
 * A write with O_DIRECT blocks until the disk has it, about as long as the check of as many pages takes. Kernel
 * interfaces for asynchronous writes do not help: io_submit blocks where a file grows, and io_uring is switched off in
 * many containers. So a thread does it, that calls pwrite and nothing else: no function of the server, no allocation,
 * and no signal reaches it.
 */
#ifndef TIPPLE_WRITE_BEHIND_H
#define TIPPLE_WRITE_BEHIND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct WriteBehind WriteBehind;

/* What is to be written; after a failure, what is left of it. */
typedef struct SpanWrite
{
	int			fd;
	const char *bytes;
	size_t		left;
	off_t		offset;
} SpanWrite;

/* Starts the thread. NULL if the system has none to give. */
extern WriteBehind *start_write_behind(void);

/* Hands a write over. There must be none under way. Memory and file stay untouched until wait_write_behind. */
extern void hand_over_write(WriteBehind *behind, SpanWrite write);

/* Waits until nothing is under way, and returns what is left: nothing if the write succeeded. */
extern SpanWrite wait_write_behind(WriteBehind *behind);

/* Waits, ends the thread, and frees everything. */
extern void end_write_behind(WriteBehind *behind);

#endif
