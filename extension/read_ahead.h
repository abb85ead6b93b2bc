/*
 * read_ahead.h
 *		Brings a relation into the kernel's page cache before it is read here and there.
 */
#ifndef TIPPLE_READ_AHEAD_H
#define TIPPLE_READ_AHEAD_H

#include "postgres.h"

#include "storage/block.h"
#include "utils/rel.h"

/* Asks the kernel for all blocks of a permanent or unlogged relation; the number of them, 0 where it cannot be asked. */
extern BlockNumber read_ahead(Relation relation);

#endif
