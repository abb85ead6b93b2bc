/*
 * tipple_direct.c
 *		The SQL functions of the extension: arguments in, results out, nothing else.
 *
 * README.md tells what they are for.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/objectaddress.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "direct_load.h"
#include "lz4_block.h"
#include "page_append.h"
#include "read_ahead.h"
#include "relation_check.h"
#include "visibility.h"

/* The version of this library: the installed extension's (pg_extension.extversion) should be the same. */
#define TIPPLE_DIRECT_VERSION "1.4"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(tipple_direct_version);
PG_FUNCTION_INFO_V1(tipple_direct_why_not);
PG_FUNCTION_INFO_V1(tipple_direct_open);
PG_FUNCTION_INFO_V1(tipple_direct_opened);
PG_FUNCTION_INFO_V1(tipple_direct_also);
PG_FUNCTION_INFO_V1(tipple_direct_append);
PG_FUNCTION_INFO_V1(tipple_direct_append_packed);
PG_FUNCTION_INFO_V1(tipple_direct_append_slot);
PG_FUNCTION_INFO_V1(tipple_direct_append_slots);
PG_FUNCTION_INFO_V1(tipple_direct_finish);
PG_FUNCTION_INFO_V1(tipple_direct_read_ahead);

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	init_direct_load();
}

static Datum
make_record(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/* version() -> text */
Datum
tipple_direct_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(TIPPLE_DIRECT_VERSION));
}

/* why_not(relation regclass) -> text */
Datum
tipple_direct_why_not(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	char	   *reason = rights_refusal(relid);

	if (reason == NULL)
	{
		Relation	relation = relation_open(relid, AccessShareLock);

		reason = relation_refusal(relation);
		relation_close(relation, AccessShareLock);
	}
	if (reason == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(reason));
}

/* open(relation regclass, slots int, slot_pages int) -> (block_size, checksums, wal, direct_io, shared_memory) */
Datum
tipple_direct_open(PG_FUNCTION_ARGS)
{
	DirectLoad *load = open_direct_load(PG_GETARG_OID(0), PG_GETARG_INT32(1), PG_GETARG_INT32(2));
	Datum		values[5];
	bool		nulls[5] = {0};

	values[0] = Int32GetDatum(BLCKSZ);
	values[1] = BoolGetDatum(load->checksums);
	values[2] = BoolGetDatum(load->targets[0]->needs_wal);
	values[3] = BoolGetDatum(load->targets[0]->writer.direct_io);
	nulls[4] = load->shared == NULL;
	values[4] = nulls[4] ? (Datum) 0 : CStringGetTextDatum(shared_slots_path(load->shared));
	return make_record(fcinfo, values, nulls);
}

/* opened() -> void */
Datum
tipple_direct_opened(PG_FUNCTION_ARGS)
{
	DirectLoad *load = require_direct_load();

	if (load->shared != NULL)
		unlink_shared_slots(load->shared);
	PG_RETURN_VOID();
}

/* also(relation regclass) -> int */
Datum
tipple_direct_also(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(add_direct_target(PG_GETARG_OID(0)));
}

static void
check_slot(const DirectLoad *load, const PageSource *source)
{
	if (source->slot < 0 || source->slot >= load->slots || source->pages < 0 || source->pages > load->slot_pages)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no slot %d of %d pages: the load has %d slots of %d pages", source->slot,
						source->pages, load->slots, load->slot_pages)));
}

/* A slot that is named twice would have its pages appended twice. */
static void
check_slots(const DirectLoad *load, const PageSource *sources, int count)
{
	bool	   *named = palloc0(load->slots + 1);

	for (int i = 0; i < count; i++)
	{
		if (sources[i].memory != NULL)
			continue;
		check_slot(load, &sources[i]);
		if (named[sources[i].slot])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("slot %d is named twice", sources[i].slot)));
		named[sources[i].slot] = true;
	}
	pfree(named);
}

static int64
append_sources(int number, const PageSource *sources, int count)
{
	Relation	relation;
	BlockNumber blocks;
	DirectTarget *target;
	int64		rows;

	refuse_beside_cursor();
	target = current_direct_target(number, &relation, &blocks);
	check_slots(target->load, sources, count);
	/* An error ends the load, with the subtransaction that it was opened in. */
	target->load->appending = true;
	rows = append_pages(target, relation, blocks, sources, count);
	target->load->appending = false;
	table_close(relation, NoLock);
	return rows;
}

/* append(pages bytea, target int) -> bigint */
Datum
tipple_direct_append(PG_FUNCTION_ARGS)
{
	bytea	   *pages = PG_GETARG_BYTEA_PP(0);
	size_t		bytes = VARSIZE_ANY_EXHDR(pages);
	PageSource	source = {VARDATA_ANY(pages), 0, bytes / BLCKSZ};

	if (bytes % BLCKSZ != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%zu bytes are not whole pages of %d bytes", bytes, BLCKSZ)));
	PG_RETURN_INT64(append_sources(PG_NARGS() > 1 ? PG_GETARG_INT32(1) : 0, &source, 1));
}

/* The load's memory for so many pages, kept for those that follow. */
static char *
room_for_pages(DirectLoad *load, int pages)
{
	if (load->unpacked_pages < pages)
	{
		char	   *room = MemoryContextAlloc(load->context, (Size) pages * BLCKSZ);

		if (load->unpacked != NULL)
			pfree(load->unpacked);
		load->unpacked = room;
		load->unpacked_pages = pages;
	}
	return load->unpacked;
}

/* append_packed(packed bytea, pages int, target int) -> bigint */
Datum
tipple_direct_append_packed(PG_FUNCTION_ARGS)
{
	bytea	   *packed = PG_GETARG_BYTEA_PP(0);
	int32		pages = PG_GETARG_INT32(1);
	PageSource	source;
	char	   *room;

	if (pages < 1 || pages > MOST_PACKED_PAGES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%d pages at once are not possible: from 1 to %d are", pages, MOST_PACKED_PAGES)));
	room = room_for_pages(require_direct_load(), pages);
	if (!lz4_unpack_block(VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed), room, (size_t) pages * BLCKSZ))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("%zu bytes are not %d pages, packed as a block of LZ4",
						(size_t) VARSIZE_ANY_EXHDR(packed), pages)));
	source = (PageSource) {room, 0, pages};
	PG_RETURN_INT64(append_sources(PG_GETARG_INT32(2), &source, 1));
}

/* append_slot(slot int, pages int, target int) -> bigint */
Datum
tipple_direct_append_slot(PG_FUNCTION_ARGS)
{
	PageSource	source = {NULL, PG_GETARG_INT32(0), PG_GETARG_INT32(1)};

	PG_RETURN_INT64(append_sources(PG_NARGS() > 2 ? PG_GETARG_INT32(2) : 0, &source, 1));
}

/* The numbers in an argument of type int[]. */
static const int32 *
integers(ArrayType *array, int *count)
{
	*count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	if (ARR_NDIM(array) > 1 || array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("slots and their pages are lists of numbers")));
	return (const int32 *) ARR_DATA_PTR(array);
}

/* append_slots(slots int[], pages int[], target int) -> bigint */
Datum
tipple_direct_append_slots(PG_FUNCTION_ARGS)
{
	int			count;
	int			lengths;
	const int32 *slots = integers(PG_GETARG_ARRAYTYPE_P(0), &count);
	const int32 *pages = integers(PG_GETARG_ARRAYTYPE_P(1), &lengths);
	PageSource *sources;

	if (count != lengths || count > MAX_SLOTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%d slots and pages of %d are not possible", count, lengths)));
	sources = palloc(Max(count, 1) * sizeof(PageSource));
	for (int i = 0; i < count; i++)
		sources[i] = (PageSource) {NULL, slots[i], pages[i]};
	PG_RETURN_INT64(append_sources(PG_GETARG_INT32(2), sources, count));
}

/* Makes durable what the commit would not, and gives what others go by; the relation is closed. */
static void
finish_target(DirectTarget *target, Relation relation, BlockNumber blocks)
{
	close_writer(&target->writer);
	refuse_refilled(target, relation);
	/* Without WAL, the commit itself syncs the file, or logs it if it is small. */
	if (target->needs_wal)
		smgrimmedsync(RelationGetSmgr(relation), MAIN_FORKNUM);
	/* A page that COPY shares with us may hold rows that are not frozen: then the map is VACUUM's to make. */
	if (blocks > 0 && target->all_ours)
		(void) write_visibility_map(relation, blocks);

	/*
	 * The row counts of pg_class are left to ANALYZE, which the client runs anyway; the counters that autovacuum goes
	 * by are those of any insert.
	 */
	pgstat_count_heap_insert(relation, target->rows);
	table_close(relation, NoLock);
}

/* finish() -> (pages bigint, rows bigint) */
Datum
tipple_direct_finish(PG_FUNCTION_ARGS)
{
	DirectLoad *load = require_direct_load();
	int64		pages = 0;
	int64		rows = 0;
	Datum		values[2];
	bool		nulls[2] = {0};

	for (int number = 0; number < load->ntargets; number++)
	{
		Relation	relation;
		BlockNumber blocks;
		DirectTarget *target = current_direct_target(number, &relation, &blocks);

		CHECK_FOR_INTERRUPTS();
		pages += target->pages;
		rows += target->rows;
		finish_target(target, relation, blocks);
	}
	values[0] = Int64GetDatum(pages);
	values[1] = Int64GetDatum(rows);
	close_direct_load();
	return make_record(fcinfo, values, nulls);
}

/* read_ahead(relation regclass, most_blocks int) -> bigint */
Datum
tipple_direct_read_ahead(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	int32		most_blocks = PG_GETARG_INT32(1);
	Relation	relation;
	BlockNumber blocks = 0;

	/* Before the lock, so that nobody waits for one on what is not theirs. */
	if (!OwnsRelation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	relation = relation_open(relid, AccessShareLock);
	if (relation->rd_rel->relkind == RELKIND_RELATION &&
		relation->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		most_blocks > 0 && RelationGetNumberOfBlocks(relation) <= (BlockNumber) most_blocks)
		blocks = read_ahead(relation);
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT64(blocks);
}
