/*
 * relation_write.c
 *		What md.c's mdextend does, many blocks at a time and with O_DIRECT.
 *
 * Half of the time of an append through the page cache is the kernel's copy into it. md.c sees the new length by
 * itself, since it asks the file for it. Nobody else has these blocks in a buffer: they did not exist.
 */
#include "postgres.h"

#include "relation_write.h"

#include <fcntl.h>
#include <unistd.h>

#include "pgstat.h"
#include "storage/fd.h"
#include "storage/sync.h"

#include "segments.h"

static char *
segment_path(const RelationWriter *writer, uint32 segment)
{
	return segment == 0 ? pstrdup(writer->path) : psprintf("%s.%u", writer->path, segment);
}

void
close_writer(RelationWriter *writer)
{
	if (writer->fd < 0)
		return;
	if (CloseTransientFile(writer->fd) != 0)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not close a segment of file \"%s\": %m", writer->path)));
	writer->fd = -1;
}

static void
open_segment(RelationWriter *writer, uint32 segment)
{
	char	   *path = segment_path(writer, segment);
	int			flags = O_RDWR | PG_BINARY | (segment > 0 ? O_CREAT : 0);

	close_writer(writer);
	if (writer->direct_io)
	{
		writer->fd = OpenTransientFile(path, flags | PG_O_DIRECT);
		if (writer->fd < 0 && errno == EINVAL)
			writer->direct_io = false;	/* not on this file system */
	}
	if (!writer->direct_io)
		writer->fd = OpenTransientFile(path, flags);
	if (writer->fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	writer->segment = segment;
	pfree(path);
}

void
open_writer(RelationWriter *writer, WriteQueue *queue, RelationFile file, char *path, bool register_syncs)
{
	writer->queue = queue;
	writer->file = file;
	writer->path = path;
	writer->register_syncs = register_syncs;
	writer->fd = -1;
	/* Where O_DIRECT is not the kernel's flag, it is not worth another way. */
#if PG_O_DIRECT != 0 && !defined(PG_O_DIRECT_USE_F_NOCACHE)
	writer->direct_io = true;
#else
	writer->direct_io = false;
#endif
	open_segment(writer, 0);
	/* Through the page cache there is nothing to wait for. */
	if (writer->direct_io && queue->writes == NULL)
		queue->writes = async_writes(QUEUED_WRITES);
}

void
close_write_queue(WriteQueue *queue)
{
	if (queue->writes != NULL)
		end_writes(queue->writes);
	memset(queue, 0, sizeof(*queue));
}

static void
refuse_extension(const RelationWriter *writer, int error)
{
	errno = error;
	ereport(ERROR,
			(errcode_for_file_access(),
			 errmsg("could not extend file \"%s\": %m", segment_path(writer, writer->segment)),
			 errhint("Check free disk space.")));
}

static void
write_now(RelationWriter *writer, SpanWrite span)
{
	while (span.left > 0)
	{
		ssize_t		written;

		errno = 0;
		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_EXTEND);
		written = pwrite(writer->fd, span.bytes, span.left, span.offset);
		pgstat_report_wait_end();
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && errno == EINVAL && writer->direct_io)
		{
			/* Some file systems take the flag and refuse the write; so do all after half a write. */
			writer->direct_io = false;
			open_segment(writer, writer->segment);
			continue;
		}
		if (written <= 0)
			refuse_extension(writer, written == 0 ? ENOSPC : errno);
		span.bytes += written;
		span.offset += written;
		span.left -= written;
	}
}

/* A checkpoint that begins after the pages were logged has to bring them to the disk: as md.c's register_dirty_segment. */
static void
register_sync(RelationWriter *writer)
{
	FileTag		tag;

	memset(&tag, 0, sizeof(tag));
	tag.handler = SYNC_HANDLER_MD;
	tag.forknum = MAIN_FORKNUM;
	RelationFileTag(tag) = writer->file;
	tag.segno = writer->segment;
	if (!RegisterSyncRequest(&tag, SYNC_REQUEST, false) && pg_fsync(writer->fd) != 0)
		ereport(data_sync_elevel(ERROR),
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", segment_path(writer, writer->segment))));
}

void
settle_write(WriteQueue *queue, int number)
{
	RelationWriter *writer = queue->writers[number];
	SpanWrite	rest;

	if (writer == NULL)
		return;
	queue->writers[number] = NULL;
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_EXTEND);
	rest = wait_for_write(queue->writes, number);
	pgstat_report_wait_end();
	write_now(writer, rest);
	if (writer->register_syncs)
		register_sync(writer);
}

void
settle_writes(WriteQueue *queue)
{
	for (int number = 0; number < QUEUED_WRITES; number++)
		settle_write(queue, number);
}

/* Makes the segment the open one. */
static void
turn_to_segment(RelationWriter *writer, uint32 segment)
{
	if (writer->fd >= 0 && writer->segment == segment)
		return;
	/* They know the writer's file only. */
	settle_writes(writer->queue);
	open_segment(writer, segment);
}

void
reserve_blocks(RelationWriter *writer, BlockNumber block, int64 count)
{
#ifdef __linux__
	while (count > 0 && writer->direct_io && writer->queue->writes != NULL)
	{
		SegmentSpan span = first_span(block, count, RELSEG_SIZE);
		int			error;

		turn_to_segment(writer, span.segment);
		do
		{
			error = fallocate(writer->fd, 0, (off_t) span.first * BLCKSZ, (off_t) span.blocks * BLCKSZ) == 0 ? 0 : errno;
		} while (error == EINTR);
		/* A file system that cannot do it has the writes wait instead. */
		if (error == ENOSPC || error == EDQUOT || error == EFBIG)
			refuse_extension(writer, error);
		block += span.blocks;
		count -= span.blocks;
	}
#endif
}

void
write_blocks(RelationWriter *writer, BlockNumber block, const char *pages, int count, int number)
{
	while (count > 0)
	{
		SegmentSpan span = first_span(block, count, RELSEG_SIZE);
		SpanWrite	write;

		turn_to_segment(writer, span.segment);
		write.fd = writer->fd;
		write.bytes = pages;
		write.left = (size_t) span.blocks * BLCKSZ;
		write.offset = (off_t) span.first * BLCKSZ;
		if (writer->direct_io && writer->queue->writes != NULL && begin_write(writer->queue->writes, number, write))
			writer->queue->writers[number] = writer;
		else
		{
			write_now(writer, write);
			if (writer->register_syncs)
				register_sync(writer);
		}
		block += span.blocks;
		pages += (size_t) span.blocks * BLCKSZ;
		count -= span.blocks;
	}
}
