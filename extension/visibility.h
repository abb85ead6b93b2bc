/*
 * visibility.h
 *		The visibility map of a relation that holds nothing but frozen pages.
 */
#ifndef TIPPLE_VISIBILITY_H
#define TIPPLE_VISIBILITY_H

#include "postgres.h"

#include "utils/rel.h"

/*
 * Makes the map, with every block all-visible and all-frozen, and durable in the way the relation's pages are.
 * Returns false, and does nothing, if there is a map already.
 */
extern bool write_visibility_map(Relation relation, BlockNumber blocks);

#endif
