/*
 * relation_check.c
 *		Refuses what the direct path cannot do as COPY would, so that nothing that a table's owner has set up is
 *		skipped in silence.
 */
#include "postgres.h"

#include "relation_check.h"

#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/lwlock.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "column_checks.h"
#include "compat.h"
#include "row_check.h"

/* The role whose members may use the functions; the extension's script makes it. */
#define DIRECT_ROLE "tipple_direct"

/* The output plugin that decodes what publications name, and no more. */
#define PUBLICATION_PLUGIN "pgoutput"

char *
rights_refusal(Oid relation)
{
	Oid			role;

	if (superuser())
		return NULL;
	role = get_role_oid(DIRECT_ROLE, true);
	if (!OidIsValid(role) || !has_privs_of_role(GetUserId(), role))
		return pstrdup("the current user is not a member of the role " DIRECT_ROLE);
	if (!OwnsRelation(relation, GetUserId()))
		return pstrdup("the current user does not own it");
	return NULL;
}

static char *
kind_refusal(Relation relation)
{
	Form_pg_class form = relation->rd_rel;

	if (form->relkind == RELKIND_PARTITIONED_TABLE)
		return pstrdup("it is partitioned: pages go into its partitions");
	if (form->relkind == RELKIND_FOREIGN_TABLE)
		return pstrdup("it is a foreign table");
	if (form->relkind != RELKIND_RELATION)
		return pstrdup("it is not a table");
	if (IsSystemRelation(relation) || RelationIsUsedAsCatalogTable(relation))
		return pstrdup("it is a catalog");
	if (form->relpersistence == RELPERSISTENCE_TEMP)
		return pstrdup("it is temporary");
	if (form->relpersistence == RELPERSISTENCE_UNLOGGED)
		return pstrdup("it is unlogged");
	if (form->relam != HEAP_TABLE_AM_OID)
		return psprintf("its access method is not %s", DEFAULT_TABLE_ACCESS_METHOD);
	return NULL;
}

static bool
copy_would_fire(const Trigger *trigger)
{
	char		never = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA ?
		TRIGGER_FIRES_ON_ORIGIN : TRIGGER_FIRES_ON_REPLICA;

	/* Foreign keys, the internal triggers, are checked after the load. */
	return TRIGGER_FOR_INSERT(trigger->tgtype) && !trigger->tgisinternal &&
		trigger->tgenabled != TRIGGER_DISABLED && trigger->tgenabled != never;
}

static char *
trigger_refusal(Relation relation)
{
	TriggerDesc *triggers = relation->trigdesc;

	if (triggers == NULL)
		return NULL;
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		if (copy_would_fire(&triggers->triggers[i]))
			return psprintf("it has the trigger %s", quote_identifier(triggers->triggers[i].tgname));
	}
	return NULL;
}

/* The name of a publication among these that replicates inserted rows, or NULL. */
static char *
inserting_publication(List *publications)
{
	ListCell   *cell;

	foreach(cell, publications)
	{
		HeapTuple	tuple = SearchSysCache1(PUBLICATIONOID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_publication form;
		char	   *name = NULL;

		if (!HeapTupleIsValid(tuple))
			continue;
		form = (Form_pg_publication) GETSTRUCT(tuple);
		if (form->pubinsert)
			name = pstrdup(quote_identifier(NameStr(form->pubname)));
		ReleaseSysCache(tuple);
		if (name != NULL)
			return name;
	}
	return NULL;
}

/* Full-page images are not decoded: subscribers would miss the rows. */
static char *
publication_refusal(Relation relation)
{
	List	   *publications = GetAllTablesPublications();
	List	   *tables = list_make1_oid(RelationGetRelid(relation));
	ListCell   *cell;
	char	   *name;

	if (relation->rd_rel->relispartition)
		tables = list_concat(tables, get_partition_ancestors(RelationGetRelid(relation)));
	foreach(cell, tables)
	{
		Oid			table = lfirst_oid(cell);

		publications = list_concat(publications, GetRelationPublications(table));
		publications = list_concat(publications, GetSchemaPublications(get_rel_namespace(table)));
	}
	name = inserting_publication(publications);
	return name == NULL ? NULL : psprintf("it is in the publication %s, which replicates inserted rows", name);
}

/*
 * Consumers of other output plugins than the publications' want all tables. They would miss the rows, too.
 */
static char *
slot_refusal(void)
{
	char	   *reason = NULL;

	if (!XLogLogicalInfoActive())
		return NULL;
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];

		if (slot->in_use && SlotIsLogical(slot) && slot->data.database == MyDatabaseId &&
			strcmp(NameStr(slot->data.plugin), PUBLICATION_PLUGIN) != 0)
		{
			reason = psprintf("the replication slot %s decodes its database's inserted rows",
							  quote_identifier(NameStr(slot->data.name)));
			break;
		}
	}
	LWLockRelease(ReplicationSlotControlLock);
	return reason;
}

static char *
columns_refusal(Relation relation)
{
	TupleDesc	descriptor = RelationGetDescr(relation);

	for (int i = 0; i < descriptor->natts; i++)
	{
		char	   *reason = column_refusal(TupleDescAttr(descriptor, i));

		if (reason != NULL)
			return reason;
	}
	return NULL;
}

char *
relation_refusal(Relation relation)
{
	char	   *reason;

	if ((reason = kind_refusal(relation)) != NULL)
		return reason;
	/* Owners may take it from themselves, and COPY would refuse them. */
	if (pg_class_aclcheck(RelationGetRelid(relation), GetUserId(), ACL_INSERT) != ACLCHECK_OK)
		return pstrdup("the current user may not insert into it");
	if (relation->rd_rel->relrowsecurity)
		return pstrdup("it has row security");
	if ((reason = trigger_refusal(relation)) != NULL ||
		(reason = publication_refusal(relation)) != NULL ||
		(reason = slot_refusal()) != NULL)
		return reason;
	return columns_refusal(relation);
}

char *
staging_refusal(Relation relation)
{
	SubTransactionId current = GetCurrentSubTransactionId();

	/* The condition of COPY FREEZE: an abort takes the file away, and nobody else sees the rows before the commit. */
	if (relation->rd_createSubid != current && NewFileSubid(relation) != current)
		return pstrdup("it was not created or truncated in the current subtransaction");
	if (RelationGetIndexList(relation) != NIL)
		return pstrdup("it has an index");
	if (relation->trigdesc != NULL)
		return pstrdup("it has a trigger or a foreign key");
	if (relation->rd_rules != NULL)
		return pstrdup("it has a rule");
	if (has_subclass(RelationGetRelid(relation)))
		return pstrdup("it has children");
	return row_check_refusal(relation);
}
