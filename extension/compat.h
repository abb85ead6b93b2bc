/*
 * compat.h
 *		What differs between PostgreSQL 15, 16, 17 and 18, in one place.
 */
#ifndef TIPPLE_COMPAT_H
#define TIPPLE_COMPAT_H

#include "postgres.h"

#include "access/xloginsert.h"
#include "common/relpath.h"
#include "storage/smgr.h"
#include "utils/acl.h"
#include "utils/rel.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "tipple_direct is for PostgreSQL 15, 16, 17 and 18"
#endif

/* Pages come from a client on a little-endian machine of eight-byte alignment: the layout is part of the contract. */
#if defined(WORDS_BIGENDIAN) || MAXIMUM_ALIGNOF != 8
#error "tipple_direct needs a little-endian server with eight-byte alignment"
#endif

/* The storage identity of a relation: 16 renamed RelFileNode to RelFileLocator. */
#if PG_VERSION_NUM >= 160000
typedef RelFileLocator RelationFile;
#define RelationFileOf(relation)		((relation)->rd_locator)
#define SmgrFileOf(reln)				((reln)->smgr_rlocator)
#define RelationFileEquals(a, b)		RelFileLocatorEquals(a, b)
#define RelationFileTag(tag)			((tag).rlocator)
#define NewFileSubid(relation)			((relation)->rd_newRelfilelocatorSubid)
#define OwnsRelation(relid, roleid)		object_ownercheck(RelationRelationId, relid, roleid)
#else
typedef RelFileNode RelationFile;
#define RelationFileOf(relation)		((relation)->rd_node)
#define SmgrFileOf(reln)				((reln)->smgr_rnode)
#define RelationFileEquals(a, b)		RelFileNodeEquals(a, b)
#define RelationFileTag(tag)			((tag).rnode)
#define NewFileSubid(relation)			((relation)->rd_newRelfilenodeSubid)
#define OwnsRelation(relid, roleid)		pg_class_ownercheck(relid, roleid)
#endif

/* 15 has not got these names, and no direct I/O of its own. */
#ifndef PG_IO_ALIGN_SIZE
#define PG_IO_ALIGN_SIZE 4096
typedef PGAlignedBlock PGIOAlignedBlock;
#endif

/* The path of a permanent relation's fork, allocated. 18 returns it in a struct. */
static inline char *
RelationForkPath(RelationFile file, ForkNumber fork)
{
#if PG_VERSION_NUM >= 180000
	return pstrdup(relpathperm(file, fork).str);
#else
	return relpathperm(file, fork);
#endif
}

#endif
