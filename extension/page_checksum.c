/*
 * page_checksum.c
 *		storage/checksum_impl.h, which the server gives to programs like this one, with AVX2 where there is AVX2:
 *		the server's own copy is compiled for any x86-64 and takes twice as long.
 */
#include "postgres.h"

#include "page_checksum.h"

/* Not to be confused with the server's function of this name. */
#define pg_checksum_page tipple_pg_checksum_page

#include "storage/checksum.h"
#include "storage/checksum_impl.h"

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones) && __has_attribute(flatten)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("avx2", "default"), flatten))
#endif
#endif
#ifndef FOR_THIS_PROCESSOR
#define FOR_THIS_PROCESSOR
#endif

FOR_THIS_PROCESSOR uint16
page_checksum(char *page, BlockNumber block)
{
	return tipple_pg_checksum_page(page, block);
}
