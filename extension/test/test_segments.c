/*
 * test_segments.c
 *		segments.h against counting blocks one by one, for every begin and length in small segments.
 */
#include <stdio.h>

#include "segments.h"

int
main(void)
{
	for (uint32_t segment_blocks = 1; segment_blocks <= 7; segment_blocks++)
	{
		for (uint32_t begin = 0; begin < 30; begin++)
		{
			for (uint32_t blocks = 1; blocks < 30; blocks++)
			{
				uint32_t	block = begin;

				while (block < begin + blocks)
				{
					SegmentSpan span = first_span(block, begin + blocks - block, segment_blocks);

					if (span.blocks == 0 || block + span.blocks > begin + blocks)
						return 1;
					for (uint32_t i = 0; i < span.blocks; i++, block++)
					{
						if (span.segment != block / segment_blocks || span.first + i != block % segment_blocks)
							return 1;
					}
					/* As long as it can be: it ends with the blocks or with the segment. */
					if (block < begin + blocks && block % segment_blocks != 0)
						return 1;
				}
			}
		}
	}
	puts("segments are right");
	return 0;
}
