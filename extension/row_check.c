/*
 * row_check.c
 *		See row_check.h.
 */
#include "postgres.h"

#include "row_check.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/partition.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "storage/bufpage.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"

struct RowCheck
{
	EState	   *estate;
	ResultRelInfo *result;
	TupleTableSlot *slot;
	bool		has_checks;
	bool		is_partition;
};

/* `bounded` is the partition whose own bounds call the function; NULL of a CHECK, which may name any hash partition. */
static bool
is_not_the_servers_own(Oid function, void *bounded)
{
	/* It calls those of the key's operator classes. */
	if (function == F_SATISFIES_HASH_PARTITION && bounded == NULL)
		return true;
	return function >= FirstUnpinnedObjectId || func_volatile(function) != PROVOLATILE_IMMUTABLE;
}

/*
 * Of other nodes nothing is known: a domain has constraints of its own, JSON constructors call casts and XML ones output
 * functions, of which check_functions_in_node() does not tell.
 */
static bool
calls_no_more_than_it_tells(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_List:
		case T_Var:
		case T_Const:
		case T_FuncExpr:
		case T_NamedArgExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_RowCompareExpr:
		case T_RelabelType:
		case T_CollateExpr:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_FieldSelect:
		case T_SubscriptingRef:
			return true;
			/* GREATEST compares by the operator class of its type, which only a superuser can make. */
		case T_MinMaxExpr:
			return true;
		default:
			return false;
	}
}

static bool
may_call_anything(Node *node, void *bounded)
{
	if (node == NULL)
		return false;
	if (!calls_no_more_than_it_tells(node) || check_functions_in_node(node, is_not_the_servers_own, bounded))
		return true;
	return expression_tree_walker(node, may_call_anything, bounded);
}

/* What a hash partition's bounds call by way of that one function. */
static bool
hashes_by_anything(Oid partition)
{
	ListCell   *cell;
	bool		found = false;

	foreach(cell, get_partition_ancestors(partition))
	{
		Relation	ancestor = table_open(lfirst_oid(cell), AccessShareLock);
		PartitionKey key = RelationGetPartitionKey(ancestor);

		for (int i = 0; key->strategy == PARTITION_STRATEGY_HASH && i < key->partnatts; i++)
			found |= is_not_the_servers_own(key->partsupfunc[i].fn_oid, NULL);
		table_close(ancestor, AccessShareLock);
	}
	return found;
}

char *
row_check_refusal(Relation relation)
{
	TupleConstr *constraints = RelationGetDescr(relation)->constr;

	for (int i = 0; constraints != NULL && i < constraints->num_check; i++)
	{
		ConstrCheck *constraint = &constraints->check[i];

		if (may_call_anything(stringToNode(constraint->ccbin), NULL))
			return psprintf("its CHECK constraint %s calls a function that is not immutable and the server's own",
							quote_identifier(constraint->ccname));
	}
	if (relation->rd_rel->relispartition &&
		(may_call_anything((Node *) RelationGetPartitionQual(relation), relation) ||
		 hashes_by_anything(RelationGetRelid(relation))))
		return pstrdup("its partition key calls a function that is not immutable and the server's own");
	return NULL;
}

RowCheck *
make_row_check(Relation relation)
{
	TupleConstr *constraints = RelationGetDescr(relation)->constr;
	bool		has_checks = constraints != NULL && constraints->num_check > 0;
	bool		is_partition = relation->rd_rel->relispartition;
	RowCheck   *check;

	if (!has_checks && !is_partition)
		return NULL;
	check = palloc0(sizeof(RowCheck));
	check->has_checks = has_checks;
	check->is_partition = is_partition;
	check->estate = CreateExecutorState();
	/* A copy of the descriptor: the relation's own would be pinned until the end of this statement only. */
	check->slot = MakeSingleTupleTableSlot(CreateTupleDescCopyConstr(RelationGetDescr(relation)), &TTSOpsHeapTuple);
	check->result = makeNode(ResultRelInfo);
	/* In no range table, as for a partition that COPY finds by itself. */
	InitResultRelInfo(check->result, relation, 0, NULL, 0);
	return check;
}

void
check_rows(RowCheck *check, Relation relation, const char *page, int nitems,
		   void (*after_row) (void *context), void *context)
{
	EState	   *estate = check->estate;
	HeapTupleData tuple;

	/* The relation may have moved in memory since the last call. */
	check->result->ri_RelationDesc = relation;
	tuple.t_tableOid = RelationGetRelid(relation);
	for (OffsetNumber item = 1; item <= nitems; item++)
	{
		ItemId		pointer = PageGetItemId((Page) page, item);

		tuple.t_len = ItemIdGetLength(pointer);
		tuple.t_data = (HeapTupleHeader) PageGetItem((Page) page, pointer);
		tuple.t_self = tuple.t_data->t_ctid;
		ExecStoreHeapTuple(&tuple, check->slot, false);
		check->slot->tts_tableOid = tuple.t_tableOid;
		if (check->has_checks)
			ExecConstraints(check->result, check->slot, estate);
		if (check->is_partition)
			(void) ExecPartitionCheck(check->result, check->slot, estate, true);
		ResetPerTupleExprContext(estate);
		after_row(context);
	}
	ExecClearTuple(check->slot);
}
