/*
 * lz4_block.h
 *		Unpacks a block in LZ4's block format, from a client that may mean harm.
 *
 * The format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md. The server's own LZ4 is a choice of whoever
 * built it, and not for extensions to use. No server is needed here, so it is tested by itself (test_lz4_block.c).
 */
#ifndef TIPPLE_LZ4_BLOCK_H
#define TIPPLE_LZ4_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Unpacks `packed_bytes` bytes into exactly `bytes`; false if they are no such block. Reads and writes nothing outside,
 * whatever the block says.
 */
extern bool lz4_unpack_block(const char *packed, size_t packed_bytes, char *unpacked, size_t bytes);

#endif
