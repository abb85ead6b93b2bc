/*
 * page_append.c
 *		The path of a batch: copy, check, stamp, log, checksum, write.
 *
 * A page is copied before it is checked, so that what was checked is what is written. Copying, checking and stamping
 * go page by page, so that a page is still in the processor's cache when it is next looked at.
 */
#include "postgres.h"

#include "page_append.h"

#include <time.h>

#include "access/htup_details.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufpage.h"
#include "storage/proc.h"

#include "page_checksum.h"

/* Pages between two looks for interrupts, and how long a checkpoint is kept waiting where pages are logged: 4 MB. */
#define BATCH_PAGES	512

/* So long at most, where rows take their time to be judged. */
#define DELAY_MILLISECONDS	100

/* Pages that the file gets room for at a time: as many as a client hands over at once. */
#define RESERVED_PAGES	1024

#define CACHE_LINE_BYTES	64

/* The part of a tuple's header that only the server knows, as it lies on the page. */
typedef struct TupleStamp
{
	TransactionId xmin;
	TransactionId xmax;
	CommandId	cid;
	BlockIdData block;
} TupleStamp;

StaticAssertDecl(sizeof(TupleStamp) == 16, "a tuple stamp has padding");
StaticAssertDecl(offsetof(HeapTupleHeaderData, t_ctid) == offsetof(TupleStamp, block), "t_ctid is elsewhere");

/* Writes what heap_insert would have written: t_xmin, t_xmax, t_cid and t_ctid. */
static void
stamp_page(char *page, int nitems, TupleStamp stamp)
{
	for (OffsetNumber item = 1; item <= nitems; item++)
	{
		char	   *tuple = page + ItemIdGetOffset(PageGetItemId((Page) page, item));

		memcpy(tuple, &stamp, sizeof(stamp));
		memcpy(tuple + sizeof(stamp), &item, sizeof(item));
	}
}

/* The address of a page that may only be read through read_slot, or prefetched. */
static const char *
source_page(const DirectLoad *load, const PageSource *source, int page)
{
	const char *memory = source->memory != NULL ? source->memory : slot_memory(load->shared, source->slot);

	return memory + (size_t) page * BLCKSZ;
}

/* Fetches a page into the cache while another is checked. A prefetch never faults. */
static void
prefetch_page(const char *page)
{
	for (int line = 0; line < BLCKSZ; line += CACHE_LINE_BYTES)
		__builtin_prefetch(page + line, 0, 2);
}

static int64
pages_of(const PageSource *sources, int count)
{
	int64		pages = 0;

	for (int i = 0; i < count; i++)
		pages += sources[i].pages;
	return pages;
}

static void
refuse_page(Relation relation, int64 page, const PageFault *fault)
{
	StringInfoData place;

	initStringInfo(&place);
	if (fault->item > 0)
		appendStringInfo(&place, "item %d", fault->item);
	if (fault->attnum > 0)
		appendStringInfo(&place, "%scolumn \"%s\"", fault->item > 0 ? ", " : "",
						 NameStr(TupleDescAttr(RelationGetDescr(relation), fault->attnum - 1)->attname));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("page " INT64_FORMAT " of the batch is not a heap page of relation \"%s\"%s%s: %s", page,
					RelationGetRelationName(relation), place.len > 0 ? ", " : "", place.data, fault->reason),
			 errhint("The client made it wrongly, or for another definition of the table. Nothing was loaded; "
					 "load it with COPY.")));
}

/* Of a clock that costs next to nothing, and ticks every few of them. */
static int64
milliseconds(void)
{
	struct timespec now;

#ifdef CLOCK_MONOTONIC_COARSE
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
	clock_gettime(CLOCK_MONOTONIC, &now);
#endif
	return (int64) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * No checkpoint may begin between the pages' log records and their place in the file: it would let a recovery or a base
 * backup begin behind the records, and could miss the pages.
 */
static void
delay_checkpoints(DirectLoad *load)
{
	if (load->delayed_since == 0)
		load->delayed_since = milliseconds();
	MyProc->delayChkptFlags |= DELAY_CHKPT_START;
}

/* What is logged is in its place then. */
static void
let_checkpoints_begin(DirectLoad *load)
{
	settle_writes(&load->queue);
	load->delayed_since = 0;
	MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
}

/* Behind each row that was judged: an expression of the table's owner may take as long as it likes. */
static void
after_row(void *context)
{
	DirectLoad *load = context;

	CHECK_FOR_INTERRUPTS();
	if (load->delayed_since != 0 && milliseconds() - load->delayed_since > DELAY_MILLISECONDS)
		let_checkpoints_begin(load);
}

/* Copies, checks and stamps `count` pages from `begin` of the source on, which `before` pages of others precede. */
static int64
take_pages(DirectTarget *target, Relation relation, const PageSource *source, int64 before, int begin, int count,
		   BlockNumber block, char *piece)
{
	DirectLoad *load = target->load;
	TupleStamp	stamp;
	int64		rows = 0;

	stamp.xmin = GetCurrentTransactionId();
	stamp.xmax = InvalidTransactionId;
	stamp.cid = GetCurrentCommandId(true);
	for (int i = 0; i < count; i++)
	{
		char	   *page = piece + (size_t) i * BLCKSZ;
		PageFault	fault;
		int			nitems;

		if (source->memory != NULL)
			memcpy(page, source->memory + (size_t) (begin + i) * BLCKSZ, BLCKSZ);
		else
			read_slot(load->shared, source->slot, (size_t) (begin + i) * BLCKSZ, page, BLCKSZ);
		if (i + 1 < count)
			prefetch_page(source_page(load, source, begin + i + 1));
		nitems = check_page(target->check, page, &fault);
		if (unlikely(nitems == 0))
			refuse_page(relation, before + begin + i, &fault);
		BlockIdSet(&stamp.block, block + i);
		stamp_page(page, nitems, stamp);
		if (target->row_check != NULL)
			check_rows(target->row_check, relation, page, nitems, after_row, load);
		/* A page that is logged gets its LSN first. */
		if (load->checksums && !target->needs_wal)
			((PageHeader) page)->pd_checksum = page_checksum(page, block + i);
		rows += nitems;
	}
	return rows;
}

/* Looks for interrupts once per batch, and lets a checkpoint that waits for logged pages begin. */
static void
begin_piece(DirectTarget *target, int pages)
{
	DirectLoad *load = target->load;

	if (load->batch_pages > 0 && load->batch_pages + pages <= BATCH_PAGES)
	{
		load->batch_pages += pages;
		return;
	}
	load->batch_pages = pages;
	if (target->needs_wal)
		let_checkpoints_begin(load);
	CHECK_FOR_INTERRUPTS();
}

static void
log_piece(DirectTarget *target, BlockNumber block, int count, char *piece)
{
	BlockNumber blocks[PIECE_PAGES];
	Page		pages[PIECE_PAGES];

	for (int i = 0; i < count; i++)
	{
		blocks[i] = block + i;
		pages[i] = (Page) (piece + (size_t) i * BLCKSZ);
	}
	delay_checkpoints(target->load);
	log_newpages(&target->file, MAIN_FORKNUM, count, blocks, pages, true);
	/* The WAL writer brings it to the disk, as after an asynchronous commit: else it would be this backend's work. */
	XLogSetAsyncXactLSN(XactLastRecEnd);
	for (int i = 0; target->load->checksums && i < count; i++)
		((PageHeader) pages[i])->pd_checksum = page_checksum((char *) pages[i], blocks[i]);
}

/*
 * Piece by piece: some are written while the next is checked. The last ones may still be under way at the end. Of the
 * call's pages `before` have been appended, and `left` are to be.
 */
static int64
append_source(DirectTarget *target, Relation relation, const PageSource *source, int64 before, int64 left,
			  BlockNumber block)
{
	DirectLoad *load = target->load;
	int64		rows = 0;

	for (int done = 0; done < source->pages; done += PIECE_PAGES)
	{
		int			number = load->piece;
		char	   *piece = load->pieces + number * PIECE_BYTES;
		int			pages = Min(PIECE_PAGES, source->pages - done);

		begin_piece(target, pages);
		settle_write(&load->queue, number);
		rows += take_pages(target, relation, source, before, done, pages, block + done, piece);
		/* Not before: a client whose first pages are refused has taken no room. */
		if (load->reserved < block + done + pages)
		{
			int64		room = Min(RESERVED_PAGES, left - done);

			reserve_blocks(&target->writer, block + done, room);
			load->reserved = block + done + room;
		}
		if (target->needs_wal)
			log_piece(target, block + done, pages, piece);
		write_blocks(&target->writer, block + done, piece, pages, number);
		load->piece = (number + 1) % QUEUED_WRITES;
	}
	return rows;
}

static int64
append_sources(DirectTarget *target, Relation relation, BlockNumber block, const PageSource *sources, int count)
{
	int64		pages = pages_of(sources, count);
	int64		before = 0;
	int64		rows = 0;

	target->load->reserved = block;
	for (int i = 0; i < count; i++)
	{
		rows += append_source(target, relation, &sources[i], before, pages - before, block + before);
		before += sources[i].pages;
	}
	/* Whatever comes next asks the file for its length. */
	settle_writes(&target->load->queue);
	return rows;
}

/* The same where pages are logged. */
static int64
append_logged_sources(DirectTarget *target, Relation relation, BlockNumber block, const PageSource *sources, int count)
{
	int64		rows;

	PG_TRY();
	{
		rows = append_sources(target, relation, block, sources, count);
	}
	PG_FINALLY();
	{
		target->load->delayed_since = 0;
		MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
	}
	PG_END_TRY();
	return rows;
}

int64
append_pages(DirectTarget *target, Relation relation, BlockNumber block, const PageSource *sources, int count)
{
	int64		pages = pages_of(sources, count);
	int64		rows;

	if ((uint64) block + pages > MaxBlockNumber)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot extend relation \"%s\" beyond %u blocks", RelationGetRelationName(relation),
						MaxBlockNumber)));
	target->load->batch_pages = 0;
	rows = target->needs_wal ?
		append_logged_sources(target, relation, block, sources, count) :
		append_sources(target, relation, block, sources, count);
	target->pages += pages;
	target->rows += rows;
	release_file(target);
	return rows;
}
