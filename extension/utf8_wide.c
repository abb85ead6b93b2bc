/*
 * utf8_wide.c
 *		UTF-8, 64 bytes at a time.
 *
 * The server's own check is at 1 GB/s where letters beyond ASCII stand here and there; for long texts it was the largest
 * part of what a page costs. This is the algorithm of John Keiser and Daniel Lemire, "Validating UTF-8 in less than one
 * instruction per byte" (2021): what two neighbouring bytes may be wrong in is three tables of sixteen entries, by the
 * first one's two halves and the second one's upper half, and a fault is what all three have in common.
 */
#include "postgres.h"

#include "utf8_wide.h"

#ifdef TIPPLE_HAS_WIDE_LOOPS

#include <immintrin.h>

#define WIDE		__attribute__((target("avx512f,avx512bw,bmi2")))
#define WIDE_INLINE	static inline __attribute__((always_inline, target("avx512f,avx512bw,bmi2")))

#define BLOCK_BYTES 64

/* Faults that a byte and the one behind it may have together. */
#define TOO_SHORT	0x01		/* a first byte, or ASCII, where another byte has to follow */
#define TOO_LONG	0x02		/* ASCII and a continuation */
#define OVERLONG_3	0x04
#define TOO_LARGE	0x08
#define SURROGATE	0x10
#define OVERLONG_2	0x20
#define OVERLONG_4	0x40		/* or far too large */
#define TWO_CONTINUATIONS	0x80	/* which is one where three or four bytes belong together */
#define ANY_LOW		(TOO_SHORT | TOO_LONG | TWO_CONTINUATIONS)

static const uint8 first_high[16] = {
	TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
	TWO_CONTINUATIONS, TWO_CONTINUATIONS, TWO_CONTINUATIONS, TWO_CONTINUATIONS,
	TOO_SHORT | OVERLONG_2,
	TOO_SHORT,
	TOO_SHORT | OVERLONG_3 | SURROGATE,
	TOO_SHORT | TOO_LARGE | OVERLONG_4,
};

static const uint8 first_low[16] = {
	ANY_LOW | OVERLONG_2 | OVERLONG_3 | OVERLONG_4,
	ANY_LOW | OVERLONG_2,
	ANY_LOW,
	ANY_LOW,
	ANY_LOW | TOO_LARGE,
	ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4,
	ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4,
	ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4,
	ANY_LOW | TOO_LARGE | OVERLONG_4 | SURROGATE,
	ANY_LOW | TOO_LARGE | OVERLONG_4, ANY_LOW | TOO_LARGE | OVERLONG_4,
};

static const uint8 second_high[16] = {
	TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
	TOO_LONG | OVERLONG_2 | TWO_CONTINUATIONS | OVERLONG_3 | OVERLONG_4,
	TOO_LONG | OVERLONG_2 | TWO_CONTINUATIONS | OVERLONG_3 | TOO_LARGE,
	TOO_LONG | OVERLONG_2 | TWO_CONTINUATIONS | SURROGATE | TOO_LARGE,
	TOO_LONG | OVERLONG_2 | TWO_CONTINUATIONS | SURROGATE | TOO_LARGE,
	TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
};

/* The entry of a table for each half byte. */
WIDE_INLINE __m512i
look_up(const uint8 *entries, __m512i places)
{
	return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) entries)), places);
}

WIDE_INLINE __m512i
high_halves(__m512i bytes)
{
	return _mm512_and_si512(_mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(0x0F));
}

/* A block's bytes moved back by some: those before the text and behind it are zero, which is ASCII. */
WIDE_INLINE __m512i
load_before(const char *text, int length, int at, int back)
{
	uint64		lanes = _bzhi_u64(~UINT64CONST(0), Min(length - at + back, BLOCK_BYTES));

	if (at == 0)
		lanes &= ~UINT64CONST(0) << back;
	return _mm512_maskz_loadu_epi8(lanes, text + at - back);
}

WIDE bool
is_utf8_wide(const char *text, int length)
{
	/* One block more than are full, in which a letter that is cut off at the end shows. */
	for (int at = 0; at <= length; at += BLOCK_BYTES)
	{
		uint64		lanes = _bzhi_u64(~UINT64CONST(0), Min(length - at, BLOCK_BYTES));
		__m512i		bytes = _mm512_maskz_loadu_epi8(lanes, text + at);
		__m512i		before = load_before(text, length, at, 1);
		__m512i		faults = look_up(first_high, high_halves(before));
		__m512i		third;
		__m512i		fourth;
		__m512i		continued;

		if (_mm512_mask_testn_epi8_mask(lanes, bytes, bytes) != 0)
			return false;
		faults = _mm512_and_si512(faults, look_up(first_low, _mm512_and_si512(before, _mm512_set1_epi8(0x0F))));
		faults = _mm512_and_si512(faults, look_up(second_high, high_halves(bytes)));
		/* Two bytes behind one from 0xE0 on, and three behind one from 0xF0 on, there has to be a second continuation. */
		third = _mm512_subs_epu8(load_before(text, length, at, 2), _mm512_set1_epi8(0xE0 - 0x80));
		fourth = _mm512_subs_epu8(load_before(text, length, at, 3), _mm512_set1_epi8(0xF0 - 0x80));
		continued = _mm512_and_si512(_mm512_or_si512(third, fourth), _mm512_set1_epi8((char) 0x80));
		faults = _mm512_xor_si512(faults, continued);
		if (_mm512_test_epi8_mask(faults, faults) != 0)
			return false;
	}
	return true;
}

#endif
