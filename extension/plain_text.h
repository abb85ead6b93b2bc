/*
 * plain_text.h
 *		Texts that need no look at the database's encoding.
 */
#ifndef TIPPLE_PLAIN_TEXT_H
#define TIPPLE_PLAIN_TEXT_H

#include "words.h"

#define ONES	UINT64CONST(0x0101010101010101)
#define HIGHS	UINT64CONST(0x8080808080808080)

/*
 * ASCII without NUL? Eight bytes before `text` must be readable. May say no to what is, never yes to what is not.
 *
 * A byte above 127 has its high bit set, and so has, after subtracting one from each byte, a byte of zero.
 */
static inline bool
is_plain_ascii(const char *text, int length)
{
	const char *end = text + length;
	uint64		seen;

	if (length >= 16)
	{
		const TwoWords ones = {ONES, ONES};
		TwoWords	words = load_two_words(end - 16);
		TwoWords	both = words | (words - ones);

		for (; end - text > 16; text += 16)
		{
			words = load_two_words(text);
			both |= words | (words - ones);
		}
		seen = both[0] | both[1];
	}
	else if (length >= 8)
	{
		uint64		first = load64(text);
		uint64		last = load64(end - 8);

		seen = first | (first - ONES) | last | (last - ONES);
	}
	else
	{
		/* Ones fill the word up. */
		uint64		word = bytes_before(end, length) | (ONES << (8 * length));

		seen = word | (word - ONES);
	}
	return (seen & HIGHS) == 0;
}

#endif
