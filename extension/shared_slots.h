/*
 * shared_slots.h
 *		Shared memory through which a client on the same machine hands over pages, without the socket's two copies.
 *
 * The client may run as any operating system user, and is hostile until its pages are checked. It gets a file with a
 * name that cannot be guessed or listed. It may cut the file short at any time, which makes reading the mapping a bus
 * error: that is caught, and an error like any other.
 */
#ifndef TIPPLE_SHARED_SLOTS_H
#define TIPPLE_SHARED_SLOTS_H

#include "postgres.h"

typedef struct SharedSlots SharedSlots;

/*
 * Makes a file of `slots` slots of `slot_bytes` each, in the current memory context. NULL where it cannot be made: why
 * is reported as DEBUG1. Also removes what backends that died without a chance to do so have left behind.
 */
extern SharedSlots *make_shared_slots(int slots, size_t slot_bytes);

extern const char *shared_slots_path(const SharedSlots *shared);

/* Where a slot lies. For prefetching only: reading may be a bus error, see read_slot. */
extern const char *slot_memory(const SharedSlots *shared, int slot);

/* Copies from a slot. The caller has checked that slot, offset and bytes are inside. */
extern void read_slot(SharedSlots *shared, int slot, size_t offset, char *target, size_t bytes);

/* Takes the file's name away; who has opened it keeps it. */
extern void unlink_shared_slots(SharedSlots *shared);

/* Also unlinks. Raises no error. */
extern void close_shared_slots(SharedSlots *shared);

#endif
