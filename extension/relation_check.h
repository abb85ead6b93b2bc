/*
 * relation_check.h
 *		Which relations take pages, and if not, why not.
 */
#ifndef TIPPLE_RELATION_CHECK_H
#define TIPPLE_RELATION_CHECK_H

#include "postgres.h"

#include "utils/rel.h"

/*
 * Why the current user may not append pages to this relation, or NULL. To be asked before the relation is locked.
 */
extern char *rights_refusal(Oid relation);

/*
 * Why pages could not be appended to a relation like this one: a sentence fragment such as "it has the trigger t",
 * or NULL. Rights are not part of it; neither is what a bare copy of it lacks (indexes, CHECKs, foreign keys).
 */
extern char *relation_refusal(Relation relation);

/*
 * Why pages cannot be appended to this very relation, beyond relation_refusal: what a staging table must not have.
 * NULL if they can.
 */
extern char *staging_refusal(Relation relation);

#endif
