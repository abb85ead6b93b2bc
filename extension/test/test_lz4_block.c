/*
 * test_lz4_block.c
 *		lz4_block.c on blocks made by hand, cut off at every byte, and spoilt; built with sanitizers.
 *
 *	test_lz4_block				the blocks made by hand
 *	test_lz4_block BYTES FILE	unpacks a file to so many bytes on standard output; exit status 2 if it is no block
 *	test_lz4_block BYTES FILE SEED TIMES	unpacks it spoilt: nothing but the sanitizers speaks then
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lz4_block.h"

typedef struct Case
{
	const char *packed;
	size_t		packed_bytes;
	const char *unpacked;		/* or NULL: no block */
	size_t		bytes;
} Case;

#define CASE(packed, unpacked) {packed, sizeof(packed) - 1, unpacked, sizeof(unpacked) - 1}
#define NO_BLOCK(packed, bytes) {packed, sizeof(packed) - 1, NULL, bytes}

static const Case cases[] = {
	CASE("\x00", ""),
	CASE("\x10" "a", "a"),
	CASE("\xf0\x00" "abcdefghijklmno", "abcdefghijklmno"),
	/* A match of 4 bytes one byte back, of 6 two back, of 20 one back. */
	CASE("\x10" "a\x01\x00\x10" "b", "aaaaab"),
	CASE("\x22" "ab\x02\x00\x10" "c", "abababab" "c"),
	CASE("\x1f" "x\x01\x00\x01\x10" "y", "xxxxxxxxxxxxxxxxxxxxxy"),
	NO_BLOCK("", 0),
	NO_BLOCK("\x00", 1),
	NO_BLOCK("\x10" "a", 0),
	NO_BLOCK("\x10" "a", 2),
	NO_BLOCK("\x20" "a", 2),
	/* Ends with a match; in the midst of an offset, of a length. */
	NO_BLOCK("\x10" "a\x01\x00", 5),
	NO_BLOCK("\x10" "a\x01", 5),
	NO_BLOCK("\xf0", 15),
	NO_BLOCK("\x1f" "x\x01\x00", 20),
	/* An offset of nothing, and one before the begin. */
	NO_BLOCK("\x10" "a\x00\x00\x10" "b", 6),
	NO_BLOCK("\x10" "a\x02\x00\x10" "b", 6),
	/* A match past the end. */
	NO_BLOCK("\x10" "a\x01\x00\x10" "b", 4),
};

/* Of exactly so many bytes, so that a sanitizer sees what lies beside them. */
static char *
memory(const void *content, size_t bytes)
{
	char	   *copy = malloc(bytes > 0 ? bytes : 1);

	if (copy == NULL)
		exit(1);
	if (content != NULL)
		memcpy(copy, content, bytes);
	return copy;
}

static bool
unpacks(const char *packed, size_t packed_bytes, const char *unpacked, size_t bytes)
{
	char	   *from = memory(packed, packed_bytes);
	char	   *out = memory(NULL, bytes);
	bool		done = lz4_unpack_block(from, packed_bytes, out, bytes);
	bool		same = done && (unpacked == NULL || memcmp(out, unpacked, bytes) == 0);

	free(from);
	free(out);
	return same;
}

static int
by_hand(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const Case *it = &cases[i];

		if (unpacks(it->packed, it->packed_bytes, it->unpacked, it->bytes) != (it->unpacked != NULL))
		{
			printf("case %zu is wrong\n", i);
			return 1;
		}
		for (size_t cut = 0; it->unpacked != NULL && cut < it->packed_bytes; cut++)
		{
			if (unpacks(it->packed, cut, NULL, it->bytes))
			{
				printf("case %zu is a block without its end too\n", i);
				return 1;
			}
		}
	}
	puts("blocks are right");
	return 0;
}

static uint32_t
next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* A few bytes of it changed, and cut off at times. */
static void
spoil(const char *packed, size_t packed_bytes, size_t bytes, uint32_t seed, int times)
{
	for (int i = 0; i < times; i++)
	{
		char	   *copy = memory(packed, packed_bytes);
		size_t		length = next_random(&seed) % 4 == 0 ? next_random(&seed) % (packed_bytes + 1) : packed_bytes;

		for (uint32_t change = next_random(&seed) % 4; length > 0 && change < 4; change++)
			copy[next_random(&seed) % length] = (char) next_random(&seed);
		(void) unpacks(copy, length, NULL, next_random(&seed) % 8 == 0 ? next_random(&seed) % (bytes + 1) : bytes);
		free(copy);
	}
}

int
main(int argc, char **argv)
{
	static char packed[1 << 24];
	FILE	   *file;
	size_t		packed_bytes;
	size_t		bytes;
	char	   *out;

	if (argc < 3)
		return by_hand();
	bytes = strtoul(argv[1], NULL, 10);
	file = fopen(argv[2], "rb");
	if (file == NULL)
		return 1;
	packed_bytes = fread(packed, 1, sizeof(packed), file);
	fclose(file);
	if (argc == 5)
	{
		spoil(packed, packed_bytes, bytes, (uint32_t) strtoul(argv[3], NULL, 10), atoi(argv[4]));
		return 0;
	}
	out = memory(NULL, bytes);
	if (!lz4_unpack_block(packed, packed_bytes, out, bytes))
		return 2;
	fwrite(out, 1, bytes, stdout);
	free(out);
	return 0;
}
