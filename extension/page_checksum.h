/*
 * page_checksum.h
 *		The server's page checksum, from the server's own header, compiled for the processor that runs it.
 */
#ifndef TIPPLE_PAGE_CHECKSUM_H
#define TIPPLE_PAGE_CHECKSUM_H

#include "postgres.h"

#include "storage/block.h"

/* What pg_checksum_page returns. */
extern uint16 page_checksum(char *page, BlockNumber block);

#endif
