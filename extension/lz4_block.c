/*
 * lz4_block.c
 *		A block is a row of sequences: literal bytes, and a match, which repeats what was unpacked before.
 */
#include "lz4_block.h"

#include <stdint.h>
#include <string.h>

/* A match has at least so many bytes. */
#define MIN_MATCH	4
/* What a half of a token can say by itself; a longer length goes on in bytes behind it. */
#define LONG_LENGTH	15
/* Most literals and matches are this short: where there is room, so many bytes are copied, whatever the length. */
#define SHORT_BYTES	16

typedef struct Reading
{
	const uint8_t *next;
	const uint8_t *end;
} Reading;

/* The rest of a length: bytes to be added up to the first that is not 255. */
static bool
add_length(Reading *from, size_t *length, size_t most)
{
	uint8_t		byte;

	do
	{
		/* Before it can overflow. */
		if (from->next == from->end || *length > most)
			return false;
		byte = *from->next++;
		*length += byte;
	} while (byte == 255);
	return true;
}

/* Repeats `length` bytes that begin `offset` before `out`; both ranges may overlap, and bytes repeat themselves then. */
static void
copy_match(uint8_t *out, size_t offset, size_t length)
{
	const uint8_t *match = out - offset;

	while (length > offset)
	{
		memcpy(out, match, offset);
		out += offset;
		length -= offset;
		/* What has been repeated belongs to what is repeated now. */
		offset *= 2;
	}
	memcpy(out, match, length);
}

bool
lz4_unpack_block(const char *packed, size_t packed_bytes, char *unpacked, size_t bytes)
{
	Reading		from = {(const uint8_t *) packed, (const uint8_t *) packed + packed_bytes};
	uint8_t    *out = (uint8_t *) unpacked;
	size_t		left = bytes;

	while (from.next < from.end)
	{
		uint8_t		token = *from.next++;
		size_t		length = token >> 4;
		size_t		offset;

		if (length == LONG_LENGTH && !add_length(&from, &length, left))
			return false;
		if (length > left || length > (size_t) (from.end - from.next))
			return false;
		if (length <= SHORT_BYTES && left >= SHORT_BYTES && from.end - from.next >= SHORT_BYTES)
			memcpy(out, from.next, SHORT_BYTES);
		else
			memcpy(out, from.next, length);
		from.next += length;
		out += length;
		left -= length;
		/* The last sequence has no match. */
		if (from.next == from.end)
			return left == 0;

		if (from.end - from.next < 2)
			return false;
		offset = from.next[0] | from.next[1] << 8;
		from.next += 2;
		length = token & 15;
		if (length == LONG_LENGTH && !add_length(&from, &length, left))
			return false;
		length += MIN_MATCH;
		if (offset == 0 || offset > bytes - left || length > left)
			return false;
		if (length <= SHORT_BYTES && offset >= SHORT_BYTES && left >= SHORT_BYTES)
			memcpy(out, out - offset, SHORT_BYTES);
		else
			copy_match(out, offset, length);
		out += length;
		left -= length;
	}
	return false;
}
