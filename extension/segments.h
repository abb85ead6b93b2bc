/*
 * segments.h
 *		Where a block lies: a relation is cut into files of RELSEG_SIZE blocks.
 *
 * Pure arithmetic, tested by itself with small segments (test_segments.c).
 */
#ifndef TIPPLE_SEGMENTS_H
#define TIPPLE_SEGMENTS_H

#include <stdint.h>

/* Blocks that lie side by side in one segment file. */
typedef struct SegmentSpan
{
	uint32_t	segment;		/* number of the segment file: 0 has no suffix, n has ".n" */
	uint32_t	first;			/* block within that file */
	uint32_t	blocks;
} SegmentSpan;

/* The first span of `blocks` blocks from `block` on, in segments of `segment_blocks` blocks. */
static inline SegmentSpan
first_span(uint32_t block, uint32_t blocks, uint32_t segment_blocks)
{
	SegmentSpan span;

	span.segment = block / segment_blocks;
	span.first = block % segment_blocks;
	span.blocks = segment_blocks - span.first;
	if (span.blocks > blocks)
		span.blocks = blocks;
	return span;
}

#endif
