/*
 * async_write.h
 *		Writes spans of files while the backend checks the next pages.
 *
 * A write with O_DIRECT blocks until the disk has it, about as long as the check of as many pages takes. So the kernel
 * is asked to do it meanwhile: with Linux's own io_submit, because io_uring is switched off in many containers, and not
 * by a thread, which would have to wait for a processor that is busy. io_submit blocks where a file grows: make it as
 * long as it will be first. It blocks on some file systems anyhow, and then it is as good as pwrite.
 *
 * Deliberately without the server's headers.
 */
#ifndef TIPPLE_ASYNC_WRITE_H
#define TIPPLE_ASYNC_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct AsyncWrites AsyncWrites;

/* What is to be written; after a failure, what is left of it. */
typedef struct SpanWrite
{
	int			fd;
	const char *bytes;
	size_t		left;
	off_t		offset;
} SpanWrite;

/*
 * Room for writes with the numbers 0 to `count` - 1, the same in every call. NULL if the system has none to give.
 *
 * It is made once per process: the kernel takes 40 milliseconds to take it back.
 */
extern AsyncWrites *async_writes(int count);

/*
 * Begins a write; there must be none of this number under way. Memory and file stay untouched until wait_for_write.
 * False if the system takes none now: nothing was begun.
 */
extern bool begin_write(AsyncWrites *writes, int number, SpanWrite write);

/* Waits for the write of this number, if one is under way, and returns what is left: nothing if it succeeded. */
extern SpanWrite wait_for_write(AsyncWrites *writes, int number);

/* Waits for all, whether or not they succeed. */
extern void end_writes(AsyncWrites *writes);

#endif
