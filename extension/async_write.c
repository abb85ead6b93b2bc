/*
 * async_write.c
 *		The system calls behind async_write.h: io_setup(2), io_submit(2), io_getevents(2).
 *
 * The C library has no functions for them, and libaio's are not worth a dependency.
 */
#include "async_write.h"

#ifdef __linux__

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct AsyncWrite
{
	struct iocb control;
	SpanWrite	span;
	bool		under_way;
} AsyncWrite;

struct AsyncWrites
{
	aio_context_t context;
	int			count;
	AsyncWrite	writes[];
};

AsyncWrites *
async_writes(int count)
{
	static AsyncWrites *kept = NULL;
	AsyncWrites *writes;

	if (kept != NULL)
		return kept;
	writes = calloc(1, sizeof(AsyncWrites) + count * sizeof(AsyncWrite));
	if (writes == NULL)
		return NULL;
	writes->count = count;
	if (syscall(SYS_io_setup, count, &writes->context) != 0)
	{
		free(writes);
		return NULL;
	}
	kept = writes;
	return kept;
}

bool
begin_write(AsyncWrites *writes, int number, SpanWrite span)
{
	AsyncWrite *write = &writes->writes[number];
	struct iocb *control = &write->control;

	memset(control, 0, sizeof(*control));
	control->aio_data = (uint64_t) number;
	control->aio_lio_opcode = IOCB_CMD_PWRITE;
	control->aio_fildes = span.fd;
	control->aio_buf = (uint64_t) (uintptr_t) span.bytes;
	control->aio_nbytes = span.left;
	control->aio_offset = span.offset;
	if (syscall(SYS_io_submit, writes->context, 1L, &control) != 1)
		return false;
	write->span = span;
	write->under_way = true;
	return true;
}

/* A write has ended; what it has not written, whoever began it tries again and finds out why. */
static void
note_end(AsyncWrites *writes, const struct io_event *event)
{
	AsyncWrite *write = &writes->writes[event->data];

	if (event->res > 0)
	{
		write->span.bytes += event->res;
		write->span.offset += event->res;
		write->span.left -= (size_t) event->res;
	}
	write->under_way = false;
}

SpanWrite
wait_for_write(AsyncWrites *writes, int number)
{
	AsyncWrite *write = &writes->writes[number];
	SpanWrite	rest;

	while (write->under_way)
	{
		struct io_event event;
		long		ended = syscall(SYS_io_getevents, writes->context, 1L, 1L, &event, NULL);

		if (ended == 1)
			note_end(writes, &event);
		else if (ended < 0 && errno != EINTR)
			break;				/* not for a context that is ours */
	}
	rest = write->span;
	write->span.left = 0;
	return rest;
}

void
end_writes(AsyncWrites *writes)
{
	for (int number = 0; number < writes->count; number++)
		(void) wait_for_write(writes, number);
}

#else

AsyncWrites *
async_writes(int count)
{
	return NULL;
}

bool
begin_write(AsyncWrites *writes, int number, SpanWrite write)
{
	return false;
}

SpanWrite
wait_for_write(AsyncWrites *writes, int number)
{
	return (SpanWrite) {0};
}

void
end_writes(AsyncWrites *writes)
{
}

#endif
