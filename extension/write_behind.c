/*
 * write_behind.c
 *		The thread of write_behind.h. Deliberately without the server's headers.
 */
#include "write_behind.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Enough for a thread that calls pwrite. */
#define STACK_BYTES	(64 * 1024)

struct WriteBehind
{
	pthread_t	thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool		busy;			/* `write` belongs to the thread */
	bool		ending;
	SpanWrite	write;
};

/* Stops at the first failure: whoever handed it over tries the rest again and finds out why. */
static void
write_span(SpanWrite *write)
{
	while (write->left > 0)
	{
		ssize_t		written = pwrite(write->fd, write->bytes, write->left, write->offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return;
		write->bytes += written;
		write->offset += written;
		write->left -= (size_t) written;
	}
}

static void *
run(void *argument)
{
	WriteBehind *behind = argument;

	pthread_mutex_lock(&behind->lock);
	for (;;)
	{
		while (!behind->busy && !behind->ending)
			pthread_cond_wait(&behind->changed, &behind->lock);
		if (!behind->busy)
			break;
		pthread_mutex_unlock(&behind->lock);
		write_span(&behind->write);
		pthread_mutex_lock(&behind->lock);
		behind->busy = false;
		pthread_cond_broadcast(&behind->changed);
	}
	pthread_mutex_unlock(&behind->lock);
	return NULL;
}

WriteBehind *
start_write_behind(void)
{
	WriteBehind *behind = calloc(1, sizeof(WriteBehind));
	pthread_attr_t attributes;
	sigset_t	every_signal;
	sigset_t	before;
	int			error;

	if (behind == NULL)
		return NULL;
	pthread_mutex_init(&behind->lock, NULL);
	pthread_cond_init(&behind->changed, NULL);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	/* The thread inherits the mask: the server's signals are for the backend's own thread. */
	sigfillset(&every_signal);
	pthread_sigmask(SIG_SETMASK, &every_signal, &before);
	error = pthread_create(&behind->thread, &attributes, run, behind);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error != 0)
	{
		free(behind);
		return NULL;
	}
	return behind;
}

void
hand_over_write(WriteBehind *behind, SpanWrite write)
{
	pthread_mutex_lock(&behind->lock);
	behind->write = write;
	behind->busy = true;
	pthread_cond_broadcast(&behind->changed);
	pthread_mutex_unlock(&behind->lock);
}

SpanWrite
wait_write_behind(WriteBehind *behind)
{
	SpanWrite	left;

	pthread_mutex_lock(&behind->lock);
	while (behind->busy)
		pthread_cond_wait(&behind->changed, &behind->lock);
	left = behind->write;
	behind->write.left = 0;
	pthread_mutex_unlock(&behind->lock);
	return left;
}

void
end_write_behind(WriteBehind *behind)
{
	pthread_mutex_lock(&behind->lock);
	behind->ending = true;
	pthread_cond_broadcast(&behind->changed);
	pthread_mutex_unlock(&behind->lock);
	pthread_join(behind->thread, NULL);
	pthread_mutex_destroy(&behind->lock);
	pthread_cond_destroy(&behind->changed);
	free(behind);
}
