/*
 * visibility.c
 *		Writes a whole visibility map at once. visibilitymap_set would read each heap page back for it.
 *
 * The fork is made as heapam_relation_copy_data makes one: created, logged, written behind the buffer manager's back,
 * which cannot know of it since it did not exist.
 */
#include "postgres.h"

#include "visibility.h"

#include "access/visibilitymap.h"
#include "catalog/storage_xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "utils/inval.h"

#include "compat.h"
#include "page_checksum.h"

/* As in visibilitymap.c. */
#define MAP_BYTES			(BLCKSZ - MAXALIGN(SizeOfPageHeaderData))
#define BLOCKS_PER_BYTE		(BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define BLOCKS_PER_MAP_PAGE	(MAP_BYTES * BLOCKS_PER_BYTE)

static void
fill_map_page(Page page, BlockNumber blocks)
{
	char	   *map = PageGetContents(page);

	PageInit(page, BLCKSZ, 0);
	memset(map, 0xFF, blocks / BLOCKS_PER_BYTE);
	if (blocks % BLOCKS_PER_BYTE != 0)
		map[blocks / BLOCKS_PER_BYTE] = (1 << (blocks % BLOCKS_PER_BYTE) * BITS_PER_HEAPBLOCK) - 1;
}

bool
write_visibility_map(Relation relation, BlockNumber blocks)
{
	RelationFile file = RelationFileOf(relation);
	bool		needs_wal = RelationNeedsWAL(relation);
	PGIOAlignedBlock buffer;
	Page		page = (Page) buffer.data;
	BlockNumber map_block = 0;

	if (smgrexists(RelationGetSmgr(relation), VISIBILITYMAP_FORKNUM))
		return false;
	smgrcreate(RelationGetSmgr(relation), VISIBILITYMAP_FORKNUM, false);
	if (needs_wal)
		log_smgrcreate(&file, VISIBILITYMAP_FORKNUM);
	for (BlockNumber done = 0; done < blocks; done += BLOCKS_PER_MAP_PAGE, map_block++)
	{
		CHECK_FOR_INTERRUPTS();
		fill_map_page(page, Min(blocks - done, BLOCKS_PER_MAP_PAGE));
		/* Not the standard layout: what lies between pd_lower and pd_upper is the map. */
		if (needs_wal)
			log_newpage(&file, VISIBILITYMAP_FORKNUM, map_block, page, false);
		if (DataChecksumsEnabled())
			((PageHeader) page)->pd_checksum = page_checksum((char *) page, map_block);
		smgrextend(RelationGetSmgr(relation), VISIBILITYMAP_FORKNUM, map_block, buffer.data, true);
	}
	if (needs_wal)
		smgrimmedsync(RelationGetSmgr(relation), VISIBILITYMAP_FORKNUM);
	/* Whoever remembers that there was no map has to look again. */
	RelationGetSmgr(relation)->smgr_cached_nblocks[VISIBILITYMAP_FORKNUM] = InvalidBlockNumber;
	CacheInvalidateSmgr(SmgrFileOf(RelationGetSmgr(relation)));
	return true;
}
