/*
 * direct_load.h
 *		The one load that a backend can have open: the relations that it goes into, and what ends it.
 *
 * Opened by one subtransaction, used and finished by the same; an abort of it closes it, a commit before it is
 * finished is an error.
 */
#ifndef TIPPLE_DIRECT_LOAD_H
#define TIPPLE_DIRECT_LOAD_H

#include "postgres.h"

#include "access/xact.h"
#include "utils/rel.h"

#include "compat.h"
#include "page_check.h"
#include "relation_write.h"
#include "row_check.h"
#include "shared_slots.h"

/* Pages that are checked, logged and written together: 1 MB; while they are written, the next are checked. */
#define PIECE_PAGES	128
#define PIECE_BYTES	((size_t) PIECE_PAGES * BLCKSZ)

/* Slots that a client may ask for, at most. */
#define MAX_SLOTS	4096

/* Pages that a client may pack together: 64 MB. */
#define MOST_PACKED_PAGES	((64 << 20) / BLCKSZ)

/* A relation that pages are appended to. */
typedef struct DirectTarget
{
	struct DirectLoad *load;
	Oid			relid;
	RelationFile file;
	bool		altered;		/* the relation may have been, since it was checked */
	bool		needs_wal;
	MemoryContext check_context;	/* of the two checks below */
	PageCheck  *check;
	RowCheck   *row_check;		/* or NULL: no constraint is left to judge */
	RelationWriter writer;
	BlockNumber pages;			/* appended */
	int64		rows;			/* appended */
	bool		all_ours;		/* no block of the relation comes from elsewhere */
} DirectTarget;

typedef struct DirectLoad
{
	MemoryContext context;		/* of everything here */
	SubTransactionId subid;
	bool		appending;		/* no other call may come meanwhile, whatever pages have the server call */
	bool		checksums;
	DirectTarget **targets;
	int			ntargets;
	WriteQueue	queue;
	char	   *pieces;			/* QUEUED_WRITES pieces, aligned for direct I/O */
	int			piece;			/* the next to be filled */
	int			batch_pages;	/* since the last look for interrupts; 0: there was none */
	int64		delayed_since;	/* when checkpoints began to wait, in milliseconds; 0: they do not */
	int64		reserved;		/* the length of the target's file, with the room that it has got */
	SharedSlots *shared;		/* or NULL */
	int			slots;
	int			slot_pages;
	char	   *unpacked;		/* what the client has packed, or NULL: so many pages fit in */
	int			unpacked_pages;
} DirectLoad;

/* Registers the callbacks that end a load. Once per backend. */
extern void init_direct_load(void);

/* Opens a load; see the SQL function. The relation is locked until the transaction ends. */
extern DirectLoad *open_direct_load(Oid relid, int slots, int slot_pages);

/* One more relation for the open load; returns its number. */
extern int	add_direct_target(Oid relid);

/*
 * A target of the open load, its relation, which is opened and has been found unaltered or acceptable again, and the
 * relation's length. The caller closes the relation with table_close(relation, NoLock).
 */
extern DirectTarget *current_direct_target(int number, Relation *relation, BlockNumber *blocks);

/* Refuses while a cursor is open: it would see frozen rows that are younger than it is. As COPY FREEZE. */
extern void refuse_beside_cursor(void);

/* Closes a target's file if the load has so many that not all can stay open. */
extern void release_file(DirectTarget *target);

/* Refuses a relation that seems to consist of the load's pages only, and was truncated and filled again meanwhile. */
extern void refuse_refilled(const DirectTarget *target, Relation relation);

/* The open load, whatever its relations have become; an error within a call that appends. */
extern DirectLoad *require_direct_load(void);

/* Ends the load and frees everything. */
extern void close_direct_load(void);

#endif
