/*
 * direct_load.c
 *		Opening, watching and closing the backend's load.
 */
#include "postgres.h"

#include "direct_load.h"

#include <sys/mman.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"

#include "column_checks.h"
#include "relation_check.h"

/* Of what a client may ask for. */
#define MAX_SHARED_BYTES	(INT64CONST(1) << 30)
#define MAX_TARGETS			1024

#define HUGE_PAGE_BYTES		((size_t) 2 << 20)

/* Files that a load keeps open, and their share of what a backend may open: the server gives a third to such files. */
#define MAX_OPEN_FILES		64
#define OPEN_FILES_SHARE	6

static const char truncated[] = "it was truncated or rewritten since the load was opened";

static DirectLoad *load = NULL;

void
close_direct_load(void)
{
	DirectLoad *closing = load;

	if (closing == NULL)
		return;
	load = NULL;
	close_write_queue(&closing->queue);
	for (int i = 0; i < closing->ntargets; i++)
		close_writer(&closing->targets[i]->writer);
	if (closing->shared != NULL)
		close_shared_slots(closing->shared);
	MemoryContextDelete(closing->context);
}

static void
refuse_unfinished(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
			 errmsg("the load into relation with OID %u is not finished", load->targets[0]->relid),
			 errhint("Call tipple_direct.finish() before the commit.")));
}

static void
at_transaction_event(XactEvent event, void *arg)
{
	if (load == NULL)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			refuse_unfinished();
			break;
		case XACT_EVENT_ABORT:
			close_direct_load();
			break;
		default:
			break;
	}
}

static void
at_subtransaction_event(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	if (load == NULL || load->subid != subid)
		return;
	if (event == SUBXACT_EVENT_PRE_COMMIT_SUB)
		refuse_unfinished();
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		close_direct_load();
}

static void
at_relcache_invalidation(Datum arg, Oid relid)
{
	for (int i = 0; load != NULL && i < load->ntargets; i++)
	{
		if (relid == load->targets[i]->relid || relid == InvalidOid)
			load->targets[i]->altered = true;
	}
}

void
init_direct_load(void)
{
	RegisterXactCallback(at_transaction_event, NULL);
	RegisterSubXactCallback(at_subtransaction_event, NULL);
	CacheRegisterRelcacheCallback(at_relcache_invalidation, (Datum) 0);
}

static void
refuse(Relation relation, const char *reason)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("pages cannot be appended to relation \"%s\": %s", RelationGetRelationName(relation), reason),
			 errhint("Load it with COPY.")));
}

/* Refuses the relation, or makes the checks of its pages and rows. */
static void
check_relation(DirectTarget *target, Relation relation)
{
	MemoryContext caller;
	char	   *reason = relation_refusal(relation);

	if (reason == NULL)
		reason = staging_refusal(relation);
	if (reason != NULL)
		refuse(relation, reason);
	MemoryContextReset(target->check_context);
	caller = MemoryContextSwitchTo(target->check_context);
	target->check = make_page_check(RelationGetDescr(relation));
	target->row_check = make_row_check(relation);
	MemoryContextSwitchTo(caller);
}

void
refuse_beside_cursor(void)
{
	if (!ThereAreNoReadyPortals())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("pages cannot be appended while a cursor is open"),
				 errhint("Close it first.")));
}

static void
check_rights(Oid relid)
{
	char	   *reason = rights_refusal(relid);

	if (reason != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("pages cannot be appended to relation with OID %u: %s", relid, reason)));
}

/* Refuses where a relation cannot be opened now, or not by this user. */
static void
check_moment(Oid relid)
{
	InvalidateCatalogSnapshot();
	refuse_beside_cursor();
	/* Before the lock, so that nobody can lock what is not theirs. */
	check_rights(relid);
}

static void
check_arguments(int slots, int slot_pages)
{
	PreventCommandIfReadOnly("tipple_direct.open()");
	PreventCommandIfParallelMode("tipple_direct.open()");
	if (load != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a load is open in this session"),
				 errhint("Call tipple_direct.finish(), or roll back.")));
	if (slots < 0 || slots > MAX_SLOTS || (slots > 0 && slot_pages < 1) ||
		(int64) slots * slot_pages > MAX_SHARED_BYTES / BLCKSZ)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%d slots of %d pages are not possible", slots, slot_pages),
				 errhint("At most %d slots and 1 GB together.", MAX_SLOTS)));
}

/* A target in a context of its own below the caller's: an error frees it. Its writer is not open yet. */
static DirectTarget *
make_target(Relation relation)
{
	MemoryContext caller = CurrentMemoryContext;
	DirectTarget *target = palloc0(sizeof(DirectTarget));

	target->check_context = AllocSetContextCreate(caller, "tipple_direct checks", ALLOCSET_SMALL_SIZES);
	check_relation(target, relation);
	if (smgrnblocks(RelationGetSmgr(relation), MAIN_FORKNUM) != 0)
		refuse(relation, "it is not empty");
	target->relid = RelationGetRelid(relation);
	target->file = RelationFileOf(relation);
	target->needs_wal = RelationNeedsWAL(relation);
	target->all_ours = true;
	target->writer.fd = -1;
	return target;
}

/* From here on the load knows the target. Opens the queue of writes, as its last act: an error has to close the load then. */
static void
take_target(DirectLoad *opening, DirectTarget *target)
{
	target->load = opening;
	opening->targets[opening->ntargets++] = target;
	open_writer(&target->writer, &opening->queue, target->file, RelationForkPath(target->file, MAIN_FORKNUM),
				target->needs_wal);
	release_file(target);
}

void
release_file(DirectTarget *target)
{
	if (target->load->ntargets > Min(MAX_OPEN_FILES, max_safe_fds / OPEN_FILES_SHARE))
		close_writer(&target->writer);
}

/* In huge pages where the system has them: for a write the kernel looks up each page that it comes from. */
static char *
make_pieces(void)
{
	size_t		bytes = QUEUED_WRITES * PIECE_BYTES;
	char	   *pieces = (char *) TYPEALIGN(HUGE_PAGE_BYTES, palloc(bytes + HUGE_PAGE_BYTES));

#ifdef MADV_HUGEPAGE
	(void) madvise(pieces, bytes, MADV_HUGEPAGE);
#endif
	return pieces;
}

DirectLoad *
open_direct_load(Oid relid, int slots, int slot_pages)
{
	MemoryContext context;
	MemoryContext caller;
	Relation	relation;
	DirectLoad *opening;

	check_arguments(slots, slot_pages);
	check_moment(relid);
	relation = table_open(relid, RowExclusiveLock);

	/* Below the caller's context at first: an error frees it. */
	context = AllocSetContextCreate(CurrentMemoryContext, "tipple_direct load", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	opening = palloc0(sizeof(DirectLoad));
	opening->context = context;
	opening->subid = GetCurrentSubTransactionId();
	opening->checksums = DataChecksumsEnabled();
	opening->targets = palloc(sizeof(DirectTarget *) * MAX_TARGETS);
	opening->pieces = make_pieces();
	take_target(opening, make_target(relation));
	MemoryContextSetParent(context, TopMemoryContext);
	load = opening;
	if (slots > 0)
		load->shared = make_shared_slots(slots, (size_t) slot_pages * BLCKSZ);
	if (load->shared != NULL)
	{
		load->slots = slots;
		load->slot_pages = slot_pages;
	}
	MemoryContextSwitchTo(caller);
	table_close(relation, NoLock);
	return load;
}

/* A subtransaction could abort and leave its rows. */
static void
check_subtransaction(void)
{
	if (GetCurrentSubTransactionId() != load->subid)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("the load was opened in another subtransaction")));
}

int
add_direct_target(Oid relid)
{
	MemoryContext caller;
	Relation	relation;

	require_direct_load();
	PreventCommandIfParallelMode("tipple_direct.also()");
	check_subtransaction();
	check_moment(relid);
	for (int i = 0; i < load->ntargets; i++)
	{
		if (load->targets[i]->relid == relid)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("the load has relation with OID %u already", relid)));
	}
	if (load->ntargets == MAX_TARGETS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a load has at most %d relations", MAX_TARGETS)));
	relation = table_open(relid, RowExclusiveLock);
	/* An error ends the subtransaction, and with it the load's context. */
	caller = MemoryContextSwitchTo(load->context);
	take_target(load, make_target(relation));
	MemoryContextSwitchTo(caller);
	table_close(relation, NoLock);
	return load->ntargets - 1;
}

DirectLoad *
require_direct_load(void)
{
	if (load == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no load is open in this session"),
				 errhint("Call tipple_direct.open() first, in the same transaction.")));
	if (load->appending)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("the load is in the middle of appending pages")));
	return load;
}

DirectTarget *
current_direct_target(int number, Relation *relation, BlockNumber *blocks)
{
	DirectTarget *target;

	require_direct_load();
	PreventCommandIfParallelMode("tipple_direct");
	PreventCommandIfReadOnly("tipple_direct");
	check_subtransaction();
	if (number < 0 || number >= load->ntargets)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no relation %d: the load has %d", number, load->ntargets)));
	target = load->targets[number];
	*relation = table_open(target->relid, RowExclusiveLock);
	/* Whoever has opened the load, and locked it, may have been another role. */
	check_rights(target->relid);
	if (target->altered)
	{
		target->altered = false;
		if (!RelationFileEquals(RelationFileOf(*relation), target->file))
			refuse(*relation, truncated);
		check_relation(target, *relation);
	}
	/* TRUNCATE keeps a file that is as new as the transaction. */
	*blocks = smgrnblocks(RelationGetSmgr(*relation), MAIN_FORKNUM);
	if (*blocks < target->pages)
		refuse(*relation, truncated);
	if (*blocks != target->pages)
		target->all_ours = false;	/* COPY has put rows in between */
	return target;
}

/* Is the relation's first row frozen, as the load's own are? */
static bool
begins_frozen(Relation relation)
{
	Buffer		buffer = ReadBuffer(relation, 0);
	Page		page;
	bool		frozen = false;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (PageGetMaxOffsetNumber(page) >= FirstOffsetNumber)
	{
		ItemId		item = PageGetItemId(page, FirstOffsetNumber);

		frozen = ItemIdIsNormal(item) && HeapTupleHeaderXminFrozen((HeapTupleHeader) PageGetItem(page, item));
	}
	UnlockReleaseBuffer(buffer);
	return frozen;
}

void
refuse_refilled(const DirectTarget *target, Relation relation)
{
	if (target->pages > 0 && target->all_ours && !begins_frozen(relation))
		refuse(relation, truncated);
}
