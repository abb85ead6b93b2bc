/*
 * regular_page.c
 *		Accepting a page column by column.
 *
 * This is the server's main cost per row. Gone through row by row, as in page_check.c, half of it is finding out what is
 * next; here a column's values are gone through on all rows of a page, in a loop that knows what they are. It says only
 * whether all is well. Whatever is not as most values are (long ones, letters beyond ASCII, numbers of many digits) is
 * looked at by the other way's own function, value by value, and what is wrong leaves the page to it. Where a column has
 * NULLs on a page, the rows that have a value are gone through as if there were no others.
 *
 * Advice for who changes this: what is accepted here must be accepted there; the fuzz driver compares the two. Each read
 * must be proven to lie inside the page: a value's place is compared with its tuple's end before it is read, and what is
 * read "backwards" (eight bytes up to an end) lies behind the tuple's header of 24 bytes.
 */
#include "postgres.h"

#include "regular_page.h"

#include "access/htup_details.h"
#include "storage/bufpage.h"
#include "utils/date.h"

#include "numeric_format.h"
#include "page_rows.h"
#include "plain_text.h"
#include "words.h"

#define HEADER_BYTES	MAXALIGN(SizeofHeapTupleHeader)

/* Finds the rows, each behind the one before; and the columns of which all rows have a value, if some row has a NULL. */
static inline bool
find_rows(const PageCheck *check, Rows *rows, bool *any_nulls, uint8 *all_present)
{
	const char *page = rows->page;
	int			lower = ((PageHeader) page)->pd_lower;
	int			begin = BLCKSZ;

	*any_nulls = false;
	rows->count = (lower - SizeOfPageHeaderData) / sizeof(ItemIdData);
	if (rows->count > MaxHeapTuplesPerPage)
		return false;
	for (int i = 0; i < rows->count; i++)
	{
		/* An ItemIdData: 15 bits offset, 2 bits flags, 15 bits length. */
		uint32		pointer = load32(page + SizeOfPageHeaderData + i * sizeof(ItemIdData));
		int			length = pointer >> 17;
		const char *tuple;

		begin -= (int) MAXALIGN(length);
		if (unlikely(length < (int) HEADER_BYTES || begin < lower ||
					 (pointer & 0x1FFFF) != (begin | LP_NORMAL << 15)))
			return false;
		tuple = page + begin;
		if (unlikely(load16(tuple + offsetof(HeapTupleHeaderData, t_infomask2)) != check->natts))
			return false;
		rows->begin[i] = begin;
		rows->next[i] = begin + HEADER_BYTES;
		rows->end[i] = begin + length;
		if (load16(tuple + offsetof(HeapTupleHeaderData, t_infomask)) & HEAP_HASNULL)
		{
			int			attnum;

			if (check_nulls(check, tuple, length, &attnum) != NULL)
				return false;
			if (!*any_nulls)
				memset(all_present, 0xFF, check->bitmap_bytes);
			*any_nulls = true;
			for (int byte = 0; byte < check->bitmap_bytes; byte++)
				all_present[byte] &= (uint8) tuple[SizeofHeapTupleHeader + byte];
			rows->next[i] = begin + check->hoff_with_nulls;
		}
		/* t_hoff is followed by the one byte up to the data. */
		else if (unlikely(load16(tuple + offsetof(HeapTupleHeaderData, t_infomask)) != check->infomask_without_nulls ||
						  load16(tuple + offsetof(HeapTupleHeaderData, t_hoff)) != HEADER_BYTES || check->always_null))
			return false;
	}
	return begin == ((PageHeader) page)->pd_upper;
}

/* Not a part of the loops: they need the registers. */
pg_noinline bool
accept_any(const PageCheck *check, const ColumnCheck *column, Rows *rows, int row)
{
	int			begin = rows->begin[row];
	int			offset = rows->next[row] - begin;

	if (check_any_value(check, column, rows->page + begin, rows->end[row] - begin, &offset, &rows->padding) != NULL)
		return false;
	rows->next[row] = begin + offset;
	return true;
}

static bool
accept_all(const PageCheck *check, const ColumnCheck *column, Rows *rows)
{
	for (int row = 0; row < rows->count; row++)
	{
		if (unlikely(!accept_any(check, column, rows, row)))
			return false;
	}
	return true;
}

/* Values of fixed width, of this kind: one whose check needs no division. */
static pg_attribute_always_inline bool
accept_fixed(const ColumnCheck *column, Rows *rows, ValueKind kind)
{
	const char *page = rows->page;
	int			mask = column->align_mask;
	int			width = column->width;
	uint64		padding = 0;
	bool		in_range = true;

	for (int row = 0; row < rows->count; row++)
	{
		int			next = rows->next[row];
		int			aligned = (next + mask) & ~mask;

		if (unlikely(aligned + width > rows->end[row]))
			return false;
		padding |= bytes_before(page + aligned, aligned - next);
		if (kind == VALUE_BOOL)
			in_range &= (uint8) page[aligned] <= 1;
		else if (kind == VALUE_DATE)
		{
			DateADT		date = (DateADT) load32(page + aligned);

			in_range &= IS_VALID_DATE(date) | DATE_NOT_FINITE(date);
		}
		else if (kind == VALUE_TIMESTAMP)
		{
			Timestamp	timestamp = (Timestamp) load64(page + aligned);

			in_range &= IS_VALID_TIMESTAMP(timestamp) | TIMESTAMP_NOT_FINITE(timestamp);
		}
		rows->next[row] = aligned + width;
	}
	rows->padding |= padding;
	return in_range;
}

/* Texts. */
static inline bool
accept_texts(const PageCheck *check, const ColumnCheck *column, Rows *rows)
{
	const char *page = rows->page;
	int			most = column->max_chars < 0 ? BLCKSZ : column->max_chars;
	int			least = column->min_chars;

	for (int row = 0; row < rows->count; row++)
	{
		int			next = rows->next[row];
		int			end = rows->end[row];
		int			size;

		if (unlikely(next >= end))
			return false;
		/* A short header has its lowest bit set, and no value out of line has a length. */
		size = VARSIZE_1B(page + next);
		if (likely(VARATT_IS_1B(page + next) && size > 0 && next + size <= end && size - 1 <= most &&
				   size - 1 >= least && is_plain_ascii(page + next + 1, size - 1)))
			rows->next[row] = next + size;
		else if (!accept_any(check, column, rows, row))
			return false;
	}
	return true;
}

/* Texts of char(n), which all have the same length as long as they are ASCII. */
static inline bool
accept_padded(const PageCheck *check, const ColumnCheck *column, Rows *rows)
{
	const char *page = rows->page;
	int			length = column->min_chars;
	/* VARSIZE_1B counts itself; the lowest bit says that it is short. */
	uint8		header = (length + VARHDRSZ_SHORT) << 1 | 1;

	for (int row = 0; row < rows->count; row++)
	{
		int			next = rows->next[row];
		int			end = next + VARHDRSZ_SHORT + length;

		if (likely(end <= rows->end[row] && (uint8) page[next] == header &&
				   is_plain_ascii(page + next + VARHDRSZ_SHORT, length)))
			rows->next[row] = end;
		else if (!accept_any(check, column, rows, row))
			return false;
	}
	return true;
}

/* To divide a digit group by a power of ten: 2^24 / 10^n, rounded up; the last one never divides what is not zero. */
static const uint32 reciprocals[] = {1 << 24, (1 << 24) / 10 + 1, (1 << 24) / 100 + 1, (1 << 24) / 1000 + 1, 0};
static const uint32 powers_of_ten[] = {1, 10, 100, 1000, 0};

/* What the first digit group has to be below, where so many of its decimal digits are too many for the precision. */
static const uint16 first_limits[] = {NUMERIC_BASE, 1000, 100, 10};

/*
 * A shape says which power of ten has to divide the last digit group, and from the fourth bit on how many digits of the
 * first group are too many: by the number's sign and weight, as its header has them, and how many groups it has.
 */
#define NO_SHAPE			4
#define SHAPE_POWER(shape)	((shape) & 7)
#define SHAPE_LIMIT(shape)	(first_limits[(shape) >> 3])

uint8 *
make_number_shapes(int precision, int scale)
{
	uint8	   *shapes = palloc(NUMBER_SHAPES);

	memset(shapes, NO_SHAPE, NUMBER_SHAPES);
	shapes[0] = 0;				/* zero: neither sign nor weight nor groups */
	for (int index = 0; index < NUMBER_SHAPES; index++)
	{
		int			groups = index & 7;
		int			header = index >> 3;
		int			weight = (header & NUMERIC_SHORT_WEIGHT_MASK) - (header & NUMERIC_SHORT_WEIGHT_SIGN);
		int			excess = Max((groups - 1 - weight) * NUMERIC_BASE_DIGITS - scale, 0);
		int			too_many = Max((weight + 1) * NUMERIC_BASE_DIGITS - (precision - scale), 0);

		if (groups >= 1 && groups <= 4 && excess < NUMERIC_BASE_DIGITS && too_many < NUMERIC_BASE_DIGITS)
			shapes[index] = excess | too_many << 3;
	}
	return shapes;
}

/*
 * Is this a number of at most four base-10000 digits in the short form, as numeric(p, s) with the header `expected` (but
 * for sign and weight) stores it? May say no to what is one. Without branches: which digits a number has is nothing that a
 * processor could foresee.
 */
static inline bool
is_regular_number(const uint8 *shapes, const char *data, int length, uint16 expected)
{
	uint16		header = load16(data);
	int			digits = (length - 2) / 2;
	/* Without digits, those of a number that has one. */
	uint64		groups = digits == 0 ? 1 : load64(data + length - 8) >> (-16 * digits & 63);
	uint32		last = load16(data + length - 2);
	uint8		shape = shapes[((header & 0x7F) | (header >> 6 & 0x80)) << 3 | digits];
	uint32		quotient = (uint32) (((uint64) last * reciprocals[SHAPE_POWER(shape)]) >> 24);
	uint32		rest = last - quotient * powers_of_ten[SHAPE_POWER(shape)];
	uint16		first = (uint16) groups;

	StaticAssertStmt(NUMERIC_SHORT_NEGATIVE >> 6 == 0x80, "the sign has another place");
	return ((header & (NUMERIC_SIGN_BITS | NUMERIC_SHORT_DSCALE_MAX << NUMERIC_SHORT_DSCALE_SHIFT)) == expected) &
		(first != 0) & (first < SHAPE_LIMIT(shape)) & (last != 0) & (rest == 0) &
		(((groups | ((groups & ~LANE_HIGHS) + LANE_LIMITS)) & LANE_HIGHS) == 0);
}

/* Numbers of a column with a precision, whose scale fits the short form. */
static inline bool
accept_numbers(const PageCheck *check, const ColumnCheck *column, Rows *rows)
{
	const char *page = rows->page;
	const uint8 *shapes = column->number_shapes;
	uint16		expected = NUMERIC_SHORT | column->scale << NUMERIC_SHORT_DSCALE_SHIFT;

	for (int row = 0; row < rows->count; row++)
	{
		int			next = rows->next[row];
		int			end = rows->end[row];
		int			size;

		if (unlikely(next >= end))
			return false;
		/* A short header has its lowest bit set; its numeric has a header of two bytes, and up to four digits of two. */
		size = VARSIZE_1B(page + next);
		if (likely((page[next] & 0x83) == 0x03 && size <= 11 && size > 1 && next + size <= end &&
				   is_regular_number(shapes, page + next + 1, size - 1, expected)))
			rows->next[row] = next + size;
		else if (!accept_any(check, column, rows, row))
			return false;
	}
	return true;
}

/* Values of fixed width, of this kind. */
static pg_attribute_always_inline bool
accept_fixed_by(const ColumnCheck *column, Rows *rows, ValueKind kind, bool wide)
{
#ifdef TIPPLE_HAS_WIDE_LOOPS
	if (wide)
		return accept_fixed_wide(column, rows, kind);
#endif
	return accept_fixed(column, rows, kind);
}

static pg_attribute_always_inline bool
accept_column(const PageCheck *check, const ColumnCheck *column, Rows *rows, bool wide)
{
	switch (column->kind)
	{
		case VALUE_ANY:
			return accept_fixed_by(column, rows, VALUE_ANY, wide);
		case VALUE_BOOL:
			return accept_fixed_by(column, rows, VALUE_BOOL, wide);
		case VALUE_DATE:
			return accept_fixed_by(column, rows, VALUE_DATE, wide);
		case VALUE_TIMESTAMP:
			if (column->unit == 1)
				return accept_fixed_by(column, rows, VALUE_TIMESTAMP, wide);
			break;
		case VALUE_TEXT:
			if (!column->may_be_short)
				break;
#ifdef TIPPLE_HAS_WIDE_LOOPS
			if (wide)
				return accept_texts_wide(check, column, rows);
#endif
			if (column->min_chars > 0 && column->min_chars == column->max_chars &&
				column->min_chars <= VARATT_SHORT_MAX - VARHDRSZ_SHORT)
				return accept_padded(check, column, rows);
			return accept_texts(check, column, rows);
		case VALUE_NUMERIC:
			if (column->number_shapes == NULL)
				break;
#ifdef TIPPLE_HAS_WIDE_LOOPS
			if (wide)
				return accept_numbers_wide(check, column, rows);
#endif
			return accept_numbers(check, column, rows);
		default:
			break;
	}
	return accept_all(check, column, rows);
}

/* The values of a column that is NULL in some of the rows. */
static pg_attribute_always_inline bool
accept_present(const PageCheck *check, int index, Rows *rows, bool wide)
{
	Rows		present;
	uint16		place[MaxHeapTuplesPerPage];

	present.page = rows->page;
	present.padding = 0;
	present.count = 0;
	for (int row = 0; row < rows->count; row++)
	{
		const char *tuple = rows->page + rows->begin[row];
		int			count = present.count;

		present.begin[count] = rows->begin[row];
		present.next[count] = rows->next[row];
		present.end[count] = rows->end[row];
		place[count] = row;
		present.count += (load16(tuple + offsetof(HeapTupleHeaderData, t_infomask)) & HEAP_HASNULL) == 0 ||
			((uint8) tuple[SizeofHeapTupleHeader + index / 8] >> index % 8 & 1);
	}
	if (present.count > 0 && !accept_column(check, &check->columns[index], &present, wide))
		return false;
	for (int i = 0; i < present.count; i++)
		rows->next[place[i]] = present.next[i];
	rows->padding |= present.padding;
	return true;
}

static pg_attribute_always_inline int
count_rows(const PageCheck *check, const char *page, bool wide)
{
	Rows		rows;
	uint8		all_present[BITMAPLEN(MaxHeapAttributeNumber)];
	bool		any_nulls = false;
	bool		found = false;
	int			left = 0;

	rows.page = page;
	rows.padding = 0;
#ifdef TIPPLE_HAS_WIDE_LOOPS
	found = wide && find_full_rows_wide(check, &rows);
#endif
	if (!found && !find_rows(check, &rows, &any_nulls, all_present))
		return 0;
	if (any_nulls)
	{
		for (int i = 0; i < check->natts; i++)
		{
			if (all_present[i / 8] >> i % 8 & 1 ? !accept_column(check, &check->columns[i], &rows, wide)
				: !accept_present(check, i, &rows, wide))
				return 0;
		}
	}
	else
	{
		for (int i = 0; i < check->nruns; i++)
		{
			if (!accept_column(check, &check->runs[i], &rows, wide))
				return 0;
		}
	}
	for (int row = 0; row < rows.count; row++)
		left |= rows.next[row] ^ rows.end[row];
	return left == 0 && rows.padding == 0 ? rows.count : 0;
}

#ifdef TIPPLE_HAS_WIDE_LOOPS
static int
count_rows_by_wide_loops(const PageCheck *check, const char *page)
{
	return count_rows(check, page, true);
}
#else
#define has_wide_loops() false
#define count_rows_by_wide_loops(check, page) count_rows(check, page, false)
#endif

/* TIPPLE_PLAIN_SHIFTS: to test on any processor what others have. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(TIPPLE_PLAIN_SHIFTS)
/* Shifts by any number of bits are a third of the instructions here, and another one each without BMI2. */
#define HAS_FAST_SHIFTS() (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))

__attribute__((target("avx2,bmi2"), flatten)) static int
count_rows_with_fast_shifts(const PageCheck *check, const char *page)
{
	return count_rows(check, page, false);
}
#else
#define HAS_FAST_SHIFTS() false
#define count_rows_with_fast_shifts(check, page) count_rows(check, page, false)
#endif

int
count_regular_rows(const PageCheck *check, const char *page)
{
	if (has_wide_loops())
		return count_rows_by_wide_loops(check, page);
	return HAS_FAST_SHIFTS() ? count_rows_with_fast_shifts(check, page) : count_rows(check, page, false);
}
