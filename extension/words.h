/*
 * words.h
 *		Numbers read from bytes that are aligned anyhow.
 */
#ifndef TIPPLE_WORDS_H
#define TIPPLE_WORDS_H

static inline uint16
load16(const char *p)
{
	uint16		value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint32
load32(const char *p)
{
	uint32		value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint64
load64(const char *p)
{
	uint64		value;

	memcpy(&value, p, sizeof(value));
	return value;
}

/* The bytes from `end - count` to `end`, count <= 7, as one number: zero if all are zero. */
static inline uint64
bytes_before(const char *end, unsigned count)
{
	return (load64(end - 8) >> 1) >> (63 - 8 * count);
}

/* Sixteen bytes as two numbers: a vector register where the processor has one, and two plain ones where not. */
typedef uint64 TwoWords __attribute__((vector_size(16)));

static inline TwoWords
load_two_words(const char *p)
{
	TwoWords	value;

	memcpy(&value, p, sizeof(value));
	return value;
}

#endif
