/*
 * page_rows_wide.c
 *		The loops of regular_page.c for processors with AVX-512: sixteen rows at a time, or a text at once.
 *
 * Advice for who changes this: what is accepted here must be accepted there, and the fuzz driver compares the two. Each read
 * must be proven to lie inside the page: a value's place is compared with its tuple's end before it is read, what is read
 * "backwards" lies behind the tuple's header of 24 bytes, and lanes beyond the last row are masked in all loads.
 */
#include "postgres.h"

#include "page_rows.h"

#ifdef TIPPLE_HAS_WIDE_LOOPS

#include <immintrin.h>

#include "access/htup_details.h"
#include "storage/bufpage.h"
#include "utils/date.h"

#include "numeric_format.h"
#include "plain_text.h"

#define WIDE		__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,bmi2")))
#define WIDE_INLINE	static inline __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512dq,bmi2")))

#define LANES		16
#define HEADER_BYTES	MAXALIGN(SizeofHeapTupleHeader)

bool
has_wide_loops(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("bmi2");
}

/* The lanes that have a row, from this one on. */
WIDE_INLINE __mmask16
lanes_of(const Rows *rows, int row)
{
	return _bzhi_u32(0xFFFF, Min(rows->count - row, LANES));
}

WIDE_INLINE __m512i
load_places(const uint16 *places, __mmask16 lanes)
{
	return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, places));
}

WIDE_INLINE void
store_places(uint16 *places, __mmask16 lanes, __m512i values)
{
	_mm256_mask_storeu_epi16(places, lanes, _mm512_cvtepi32_epi16(values));
}

/* Four bytes of the page at each place. */
WIDE_INLINE __m512i
gather32(const char *page, __mmask16 lanes, __m512i places)
{
	return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes, places, page, 1);
}

/* Eight bytes at each of eight places. */
WIDE_INLINE __m512i
gather64(const char *page, __mmask8 lanes, __m256i places)
{
	return _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), lanes, places, page, 1);
}

WIDE_INLINE __m256i
half(__m512i values, int which)
{
	return which == 0 ? _mm512_castsi512_si256(values) : _mm512_extracti64x4_epi64(values, 1);
}

/* Sixteen numbers of 32 bits of two times eight of 64. */
WIDE_INLINE __m512i
join_halves(__m512i low, __m512i high)
{
	return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(low)), _mm512_cvtepi64_epi32(high), 1);
}

WIDE bool
find_full_rows_wide(const PageCheck *check, Rows *rows)
{
	const char *page = rows->page;
	int			lower = ((PageHeader) page)->pd_lower;
	int			count = (lower - SizeOfPageHeaderData) / sizeof(ItemIdData);
	const char *pointers = page + SizeOfPageHeaderData;
	/* Of a tuple's bytes 16 to 23 those that say how many columns it has, its flags, and where its data begins. */
	const __m512i expected = _mm512_set1_epi64((int64) ((uint64) check->natts << 16 |
														(uint64) check->infomask_without_nulls << 32 |
														(uint64) HEADER_BYTES << 48));
	const __m512i telling = _mm512_set1_epi64(~INT64CONST(0xFFFF));
	const __m512i eights = _mm512_set1_epi32(~(MAXIMUM_ALIGNOF - 1));
	__m512i		before = _mm512_set1_epi32(BLCKSZ);
	int			last = BLCKSZ;

	rows->count = count;
	if (count > MaxHeapTuplesPerPage || check->always_null)
		return false;
	for (int row = 0; row < count; row += LANES)
	{
		__mmask16	lanes = lanes_of(rows, row);
		__m512i		pointer = _mm512_maskz_loadu_epi32(lanes, pointers + row * sizeof(ItemIdData));
		/* An ItemIdData: 15 bits offset, 2 bits flags, 15 bits length. */
		__m512i		offset = _mm512_and_si512(pointer, _mm512_set1_epi32(0x7FFF));
		__m512i		flags = _mm512_and_si512(pointer, _mm512_set1_epi32(0x3 << 15));
		__m512i		length = _mm512_srli_epi32(pointer, 17);
		__m512i		aligned = _mm512_and_si512(_mm512_add_epi32(length, _mm512_set1_epi32(MAXIMUM_ALIGNOF - 1)), eights);
		/* Where the tuple before each begins: that of the lane before, and of the last lane of the lanes before. */
		__m512i		end = _mm512_alignr_epi32(offset, before, LANES - 1);

		if (_mm512_mask_cmpneq_epi32_mask(lanes, _mm512_add_epi32(offset, aligned), end) != 0 ||
			_mm512_mask_cmpneq_epi32_mask(lanes, flags, _mm512_set1_epi32(LP_NORMAL << 15)) != 0 ||
			_mm512_mask_cmplt_epi32_mask(lanes, length, _mm512_set1_epi32(HEADER_BYTES)) != 0 ||
			_mm512_mask_cmplt_epi32_mask(lanes, offset, _mm512_set1_epi32(lower)) != 0)
			return false;
		for (int part = 0; part < 2; part++)
		{
			__mmask8	some = (__mmask8) (lanes >> 8 * part);
			__m512i		header = gather64(page + 16, some, half(offset, part));

			if (_mm512_mask_cmpneq_epi64_mask(some, _mm512_and_si512(header, telling), expected) != 0)
				return false;
		}
		store_places(rows->begin + row, lanes, offset);
		store_places(rows->next + row, lanes, _mm512_add_epi32(offset, _mm512_set1_epi32(HEADER_BYTES)));
		store_places(rows->end + row, lanes, _mm512_add_epi32(offset, length));
		before = offset;
		last = rows->begin[Min(row + LANES, count) - 1];
	}
	return last == ((PageHeader) page)->pd_upper;
}

/* Which of the values at these places are none of their kind. */
WIDE_INLINE __mmask16
wrong_values(const char *page, __mmask16 lanes, __m512i places, ValueKind kind)
{
	if (kind == VALUE_BOOL)
	{
		/* The byte is the highest of the four up to it. */
		__m512i		value = gather32(page - 3, lanes, places);

		return _mm512_mask_cmpgt_epu32_mask(lanes, _mm512_srli_epi32(value, 24), _mm512_set1_epi32(1));
	}
	if (kind == VALUE_DATE)
	{
		const int32 first = DATETIME_MIN_JULIAN - POSTGRES_EPOCH_JDATE;
		const int32 end = DATE_END_JULIAN - POSTGRES_EPOCH_JDATE;
		__m512i		value = gather32(page, lanes, places);
		__mmask16	wrong = _mm512_mask_cmplt_epi32_mask(lanes, value, _mm512_set1_epi32(first)) |
			_mm512_mask_cmpge_epi32_mask(lanes, value, _mm512_set1_epi32(end));

		return _mm512_mask_cmpneq_epi32_mask(wrong, value, _mm512_set1_epi32(DATEVAL_NOBEGIN)) &
			_mm512_mask_cmpneq_epi32_mask(wrong, value, _mm512_set1_epi32(DATEVAL_NOEND));
	}
	if (kind == VALUE_TIMESTAMP)
	{
		__mmask16	all_wrong = 0;

		for (int part = 0; part < 2; part++)
		{
			__mmask8	some = (__mmask8) (lanes >> 8 * part);
			__m512i		value = gather64(page, some, half(places, part));
			__mmask8	wrong = _mm512_mask_cmplt_epi64_mask(some, value, _mm512_set1_epi64(MIN_TIMESTAMP)) |
				_mm512_mask_cmpge_epi64_mask(some, value, _mm512_set1_epi64(END_TIMESTAMP));

			wrong &= _mm512_mask_cmpneq_epi64_mask(wrong, value, _mm512_set1_epi64(DT_NOBEGIN)) &
				_mm512_mask_cmpneq_epi64_mask(wrong, value, _mm512_set1_epi64(DT_NOEND));
			all_wrong |= (__mmask16) wrong << 8 * part;
		}
		return all_wrong;
	}
	return 0;
}

/* Whether one of the `skipped` bytes before one of these places is not zero. */
WIDE_INLINE bool
any_padding(const char *page, __mmask16 lanes, __m512i places, __m512i skipped)
{
	uint64		any = 0;

	for (int part = 0; part < 2; part++)
	{
		__mmask8	some = (__mmask8) (lanes >> 8 * part);
		__m512i		bytes = gather64(page - 8, some, half(places, part));
		__m512i		bits = _mm512_slli_epi64(_mm512_cvtepu32_epi64(half(skipped, part)), 3);
		/* A shift by 64 leaves nothing. */
		__m512i		padding = _mm512_srlv_epi64(bytes, _mm512_sub_epi64(_mm512_set1_epi64(64), bits));

		any |= _mm512_mask_test_epi64_mask(some, padding, padding);
	}
	return any != 0;
}

WIDE_INLINE bool
accept_fixed_of(const ColumnCheck *column, Rows *rows, ValueKind kind)
{
	const char *page = rows->page;
	__m512i		mask = _mm512_set1_epi32(column->align_mask);
	__m512i		width = _mm512_set1_epi32(column->width);

	for (int row = 0; row < rows->count; row += LANES)
	{
		__mmask16	lanes = lanes_of(rows, row);
		__m512i		next = load_places(rows->next + row, lanes);
		__m512i		end = load_places(rows->end + row, lanes);
		__m512i		aligned = _mm512_andnot_si512(mask, _mm512_add_epi32(next, mask));
		__m512i		behind = _mm512_add_epi32(aligned, width);
		__m512i		skipped = _mm512_sub_epi32(aligned, next);

		if (unlikely(_mm512_mask_cmpgt_epi32_mask(lanes, behind, end) != 0))
			return false;
		if (_mm512_test_epi32_mask(skipped, skipped) != 0 && any_padding(page, lanes, aligned, skipped))
			return false;
		if (unlikely(wrong_values(page, lanes, aligned, kind) != 0))
			return false;
		store_places(rows->next + row, lanes, behind);
	}
	return true;
}

WIDE bool
accept_fixed_wide(const ColumnCheck *column, Rows *rows, ValueKind kind)
{
	switch (kind)
	{
		case VALUE_BOOL:
			return accept_fixed_of(column, rows, VALUE_BOOL);
		case VALUE_DATE:
			return accept_fixed_of(column, rows, VALUE_DATE);
		case VALUE_TIMESTAMP:
			return accept_fixed_of(column, rows, VALUE_TIMESTAMP);
		default:
			return accept_fixed_of(column, rows, VALUE_ANY);
	}
}

/*
 * By how many decimal digits of the last digit group have to be zeros: a group divided by that power of ten is its product
 * with the factor, shifted, for all groups below 10,000. By how many of the first group have to be: what it is below.
 */
static const int32 factors[LANES] = {1, 6554, 5243, 8389};
static const int32 shifts[LANES] = {0, 16, 19, 23};
static const int32 powers[LANES] = {1, 10, 100, 1000};
static const int32 limits[LANES] = {NUMERIC_BASE, 1000, 100, 10};

/* An entry of such a table for each lane. */
WIDE_INLINE __m512i
look_up(const int32 *entries, __m512i places)
{
	return _mm512_permutexvar_epi32(places, _mm512_loadu_si512(entries));
}

/*
 * Which of the values are numbers of at most four base-10000 digits in the short form, as numeric(p, s) stores them. `sizes`
 * with their header byte, which was found to be odd, and within the tuple.
 */
WIDE_INLINE __mmask16
regular_numbers(const char *page, __mmask16 lanes, const ColumnCheck *column, __m512i next, __m512i sizes, __m512i header)
{
	const __m512i zero = _mm512_setzero_si512();
	const __m512i four = _mm512_set1_epi32(NUMERIC_BASE_DIGITS);
	const int	expected = NUMERIC_SHORT | column->scale << NUMERIC_SHORT_DSCALE_SHIFT;
	__m512i		digits = _mm512_srli_epi32(_mm512_sub_epi32(sizes, _mm512_set1_epi32(3)), 1);
	__m512i		sign = _mm512_set1_epi32(NUMERIC_SHORT_WEIGHT_SIGN);
	__m512i		weight = _mm512_and_si512(header, _mm512_set1_epi32(NUMERIC_SHORT_WEIGHT_SIGN | NUMERIC_SHORT_WEIGHT_MASK));
	__m512i		excess;
	__m512i		too_many;
	__m512i		groups[2];
	__m512i		last_groups[2];
	__m512i		first;
	__m512i		last;
	__m512i		rest;
	__mmask16	wrong = 0;
	__mmask16	zeros = _mm512_mask_cmpeq_epi32_mask(lanes, digits, zero);

	/* The weight has seven bits with its sign. */
	weight = _mm512_sub_epi32(_mm512_xor_si512(weight, sign), sign);
	/* Decimal digits of the last group beyond the scale, and of the first beyond the precision. */
	excess = _mm512_sub_epi32(digits, _mm512_add_epi32(weight, _mm512_set1_epi32(1)));
	excess = _mm512_sub_epi32(_mm512_mullo_epi32(excess, four), _mm512_set1_epi32(column->scale));
	excess = _mm512_max_epi32(excess, zero);
	too_many = _mm512_mullo_epi32(_mm512_add_epi32(weight, _mm512_set1_epi32(1)), four);
	too_many = _mm512_sub_epi32(too_many, _mm512_set1_epi32(column->precision - column->scale));
	too_many = _mm512_max_epi32(too_many, zero);
	for (int part = 0; part < 2; part++)
	{
		__mmask8	some = (__mmask8) (lanes >> 8 * part);
		__m256i		ends = _mm256_add_epi32(half(next, part), half(sizes, part));
		__m512i		bits = _mm512_slli_epi64(_mm512_cvtepu32_epi64(half(digits, part)), 4);
		/* The eight bytes up to the number's end; a shift by 64 leaves nothing. */
		__m512i		up_to_end = gather64(page - 8, some, ends);
		__m512i		added;

		groups[part] = _mm512_srlv_epi64(up_to_end, _mm512_sub_epi64(_mm512_set1_epi64(64), bits));
		added = _mm512_andnot_si512(_mm512_set1_epi64(LANE_HIGHS), groups[part]);
		added = _mm512_or_si512(groups[part], _mm512_add_epi64(added, _mm512_set1_epi64(LANE_LIMITS)));
		wrong |= (__mmask16) _mm512_mask_test_epi64_mask(some, added, _mm512_set1_epi64(LANE_HIGHS)) << 8 * part;
		/* The last group is the highest, of those that there are. */
		bits = _mm512_max_epi64(_mm512_sub_epi64(bits, _mm512_set1_epi64(16)), zero);
		last_groups[part] = _mm512_srlv_epi64(groups[part], bits);
	}
	last = join_halves(last_groups[0], last_groups[1]);
	first = _mm512_and_si512(join_halves(groups[0], groups[1]), _mm512_set1_epi32(0xFFFF));
	rest = _mm512_mullo_epi32(last, look_up(factors, excess));
	rest = _mm512_srlv_epi32(rest, look_up(shifts, excess));
	rest = _mm512_sub_epi32(last, _mm512_mullo_epi32(rest, look_up(powers, excess)));
	wrong |= _mm512_mask_cmpgt_epi32_mask(lanes, excess, _mm512_set1_epi32(NUMERIC_BASE_DIGITS - 1)) |
		_mm512_mask_cmpgt_epi32_mask(lanes, too_many, _mm512_set1_epi32(NUMERIC_BASE_DIGITS - 1)) |
		_mm512_mask_cmpeq_epi32_mask(lanes, first, zero) |
		_mm512_mask_cmpge_epi32_mask(lanes, first, look_up(limits, too_many)) |
		_mm512_mask_cmpeq_epi32_mask(lanes, last, zero) |
		_mm512_mask_cmpneq_epi32_mask(lanes, rest, zero);
	/* Without digits it is zero, which has neither sign nor weight. */
	wrong &= ~zeros;
	wrong |= _mm512_mask_cmpneq_epi32_mask(zeros, header, _mm512_set1_epi32(expected));
	header = _mm512_and_si512(header, _mm512_set1_epi32(NUMERIC_SIGN_BITS |
														NUMERIC_SHORT_DSCALE_MAX << NUMERIC_SHORT_DSCALE_SHIFT));
	wrong |= _mm512_mask_cmpneq_epi32_mask(lanes, header, _mm512_set1_epi32(expected));
	return lanes & ~wrong;
}

WIDE bool
accept_numbers_wide(const PageCheck *check, const ColumnCheck *column, Rows *rows)
{
	const char *page = rows->page;

	for (int row = 0; row < rows->count; row += LANES)
	{
		__mmask16	lanes = lanes_of(rows, row);
		__m512i		next = load_places(rows->next + row, lanes);
		__m512i		end = load_places(rows->end + row, lanes);
		/* The least number has three bytes: its length and its header, which are read with the byte before them. */
		__mmask16	known = _mm512_mask_cmple_epi32_mask(lanes, _mm512_add_epi32(next, _mm512_set1_epi32(3)), end);
		__m512i		head = gather32(page - 1, known, next);
		__m512i		length = _mm512_and_si512(_mm512_srli_epi32(head, 8), _mm512_set1_epi32(0xFF));
		__m512i		size = _mm512_srli_epi32(length, 1);
		__m512i		behind = _mm512_add_epi32(next, size);
		__m512i		shape = _mm512_and_si512(length, _mm512_set1_epi32(0x83));

		/* A short length has its lowest bit set; that of a numeric is odd, and of one with four digits eleven. */
		known = _mm512_mask_cmpeq_epi32_mask(known, shape, _mm512_set1_epi32(0x03));
		known = _mm512_mask_cmple_epi32_mask(known, size, _mm512_set1_epi32(11));
		known = _mm512_mask_cmpge_epi32_mask(known, size, _mm512_set1_epi32(3));
		known = _mm512_mask_cmple_epi32_mask(known, behind, end);
		known = regular_numbers(page, known, column, next, size, _mm512_srli_epi32(head, 16));
		store_places(rows->next + row, known, behind);
		for (unsigned others = lanes & ~known; others != 0; others &= others - 1)
		{
			if (!accept_any(check, column, rows, row + __builtin_ctz(others)))
				return false;
		}
	}
	return true;
}

/* Is this ASCII without NUL? At most 64 bytes, of which no others are read. */
WIDE_INLINE bool
is_short_plain_ascii(const char *text, int length)
{
	__mmask64	lanes = _bzhi_u64(~UINT64CONST(0), length);
	__m512i		bytes = _mm512_maskz_loadu_epi8(lanes, text);

	return (_mm512_movepi8_mask(bytes) | _mm512_mask_testn_epi8_mask(lanes, bytes, bytes)) == 0;
}

WIDE bool
accept_texts_wide(const PageCheck *check, const ColumnCheck *column, Rows *rows)
{
	const char *page = rows->page;
	int			most = column->max_chars < 0 ? BLCKSZ : column->max_chars;
	int			least = column->min_chars;

	for (int row = 0; row < rows->count; row++)
	{
		int			next = rows->next[row];
		int			end = rows->end[row];
		int			length;

		if (unlikely(next >= end))
			return false;
		/* A short header has its lowest bit set, and no value out of line has a length. */
		length = (int) VARSIZE_1B(page + next) - VARHDRSZ_SHORT;
		if (likely(VARATT_IS_1B(page + next) && length >= least && next + VARHDRSZ_SHORT + length <= end && length <= most &&
				   (length <= 64 ? is_short_plain_ascii(page + next + VARHDRSZ_SHORT, length)
					: is_plain_ascii(page + next + VARHDRSZ_SHORT, length))))
			rows->next[row] = next + VARHDRSZ_SHORT + length;
		else if (!accept_any(check, column, rows, row))
			return false;
	}
	return true;
}

#endif
