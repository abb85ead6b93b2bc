/*
 * read_ahead.c
 *		What pg_prewarm's 'prefetch' does, in steps that the disk reads at once.
 *
 * Pages are written past the page cache, so whoever reads them first waits for the disk. ANALYZE reads 30,000 blocks here
 * and there, which takes several times as long as reading a table of four times as many from its beginning to its end.
 */
#include "postgres.h"

#include "read_ahead.h"

#include <fcntl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pg_config_manual.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"

#include "compat.h"
#include "segments.h"

/* The kernel cuts a longer request to what it reads ahead by itself; 1 MB and 2 MB are slower. */
#define STEP_BYTES	(8 * 1024 * 1024)

#ifdef USE_PREFETCH

/* False where there is no such file, or the file system takes no advice. */
static bool
read_segment_ahead(const char *path, off_t bytes)
{
	int			fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	int			refused = 0;

	if (fd < 0)
		return false;
	for (off_t begin = 0; begin < bytes && refused == 0; begin += STEP_BYTES)
	{
		CHECK_FOR_INTERRUPTS();
		refused = posix_fadvise(fd, begin, Min(bytes - begin, STEP_BYTES), POSIX_FADV_WILLNEED);
	}
	CloseTransientFile(fd);
	return refused == 0;
}

BlockNumber
read_ahead(Relation relation)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(relation);
	BlockNumber done = 0;
	char	   *path = RelationForkPath(RelationFileOf(relation), MAIN_FORKNUM);

	while (done < blocks)
	{
		SegmentSpan span = first_span(done, blocks - done, RELSEG_SIZE);
		char	   *segment = span.segment == 0 ? pstrdup(path) : psprintf("%s.%u", path, span.segment);

		if (!read_segment_ahead(segment, (off_t) span.blocks * BLCKSZ))
			return 0;
		done += span.blocks;
	}
	return blocks;
}

#else

BlockNumber
read_ahead(Relation relation)
{
	return 0;
}

#endif
