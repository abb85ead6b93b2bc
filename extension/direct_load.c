/*
 * direct_load.c
 *		Opening, watching and closing the backend's load.
 */
#include "postgres.h"

#include "direct_load.h"

#include "access/table.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"

#include "column_checks.h"
#include "relation_check.h"

/* Of what a client may ask for. */
#define MAX_SLOTS			64
#define MAX_SHARED_BYTES	(INT64CONST(1) << 30)

static DirectLoad *load = NULL;

void
close_direct_load(void)
{
	DirectLoad *closing = load;

	if (closing == NULL)
		return;
	load = NULL;
	close_writer(&closing->writer);
	if (closing->shared != NULL)
		close_shared_slots(closing->shared);
	MemoryContextDelete(closing->context);
}

static void
refuse_unfinished(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
			 errmsg("the load into relation with OID %u is not finished", load->relid),
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
	if (load != NULL && (relid == load->relid || relid == InvalidOid))
		load->altered = true;
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

/* Refuses the relation, or makes the checks of its pages in `context`. */
static PageCheck *
check_relation(Relation relation, MemoryContext context)
{
	MemoryContext caller;
	PageCheck  *check;
	char	   *reason = relation_refusal(relation);

	if (reason == NULL)
		reason = staging_refusal(relation);
	if (reason != NULL)
		refuse(relation, reason);
	MemoryContextReset(context);
	caller = MemoryContextSwitchTo(context);
	check = make_page_check(RelationGetDescr(relation));
	MemoryContextSwitchTo(caller);
	return check;
}

static void
check_arguments(Oid relid, int slots, int slot_pages)
{
	char	   *reason;

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
	/* Frozen rows would be seen by a cursor that was opened before them: as COPY FREEZE. */
	InvalidateCatalogSnapshot();
	if (!ThereAreNoReadyPortals())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("pages cannot be appended while a cursor is open"),
				 errhint("Close it first.")));
	/* Before the lock, so that nobody can lock what is not theirs. */
	reason = rights_refusal(relid);
	if (reason != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("pages cannot be appended to relation with OID %u: %s", relid, reason)));
}

DirectLoad *
open_direct_load(Oid relid, int slots, int slot_pages)
{
	MemoryContext context;
	MemoryContext caller;
	Relation	relation;
	DirectLoad *opening;

	check_arguments(relid, slots, slot_pages);
	relation = table_open(relid, RowExclusiveLock);

	/* Below the caller's context at first: an error frees it. */
	context = AllocSetContextCreate(CurrentMemoryContext, "tipple_direct load", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	opening = palloc0(sizeof(DirectLoad));
	opening->context = context;
	opening->check_context = AllocSetContextCreate(context, "tipple_direct checks", ALLOCSET_SMALL_SIZES);
	opening->check = check_relation(relation, opening->check_context);
	if (smgrnblocks(RelationGetSmgr(relation), MAIN_FORKNUM) != 0)
		refuse(relation, "it is not empty");
	opening->subid = GetCurrentSubTransactionId();
	opening->relid = relid;
	opening->file = RelationFileOf(relation);
	opening->needs_wal = RelationNeedsWAL(relation);
	opening->checksums = DataChecksumsEnabled();
	opening->all_ours = true;
	opening->pieces = (char *) TYPEALIGN(PG_IO_ALIGN_SIZE, palloc(PIECES * PIECE_PAGES * BLCKSZ + PG_IO_ALIGN_SIZE));
	/* It starts a thread, as its last act: from here on an error has to close the load. */
	open_writer(&opening->writer, opening->file, RelationForkPath(opening->file, MAIN_FORKNUM), opening->needs_wal);
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

DirectLoad *
require_direct_load(void)
{
	if (load == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no load is open in this session"),
				 errhint("Call tipple_direct.open() first, in the same transaction.")));
	return load;
}

DirectLoad *
current_direct_load(Relation *relation, BlockNumber *blocks)
{
	static const char truncated[] = "it was truncated or rewritten since the load was opened";

	require_direct_load();
	PreventCommandIfParallelMode("tipple_direct");
	/* A subtransaction could abort and leave its rows. */
	if (GetCurrentSubTransactionId() != load->subid)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("the load was opened in another subtransaction")));
	*relation = table_open(load->relid, RowExclusiveLock);
	if (load->altered)
	{
		load->altered = false;
		if (!RelationFileEquals(RelationFileOf(*relation), load->file))
			refuse(*relation, truncated);
		load->check = check_relation(*relation, load->check_context);
	}
	/* TRUNCATE keeps a file that is as new as the transaction. */
	*blocks = smgrnblocks(RelationGetSmgr(*relation), MAIN_FORKNUM);
	if (*blocks < load->pages)
		refuse(*relation, truncated);
	if (*blocks != load->pages)
		load->all_ours = false; /* COPY has put rows in between */
	return load;
}
