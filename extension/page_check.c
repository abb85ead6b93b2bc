/*
 * page_check.c
 *		The checks behind page_check.h. What regular_page.c cannot accept is checked here, row by row, and refused with
 *		its reason.
 *
 * Advice for who changes this. Each read must be proven to lie inside the page, whatever the bytes are: `offset` never
 * passes `length`, `length` never passes the page, and what is read "backwards" (eight bytes up to an end) lies behind
 * the tuple's header of at least 24 bytes. The layout rules are those of heap_form_tuple, heap_fill_tuple and
 * PageAddItem; the values' rules are those of the types' receive functions. A tuple that the server would not have
 * written this way is refused even where it could be read: two spellings of one row are one too many.
 */
#include "postgres.h"

#include "page_check.h"

#include "numeric_format.h"
#include "plain_text.h"
#include "regular_page.h"
#include "words.h"

#include "datatype/timestamp.h"
#include "storage/bufpage.h"
#include "utils/date.h"

/* The longest text that fits behind a 1-byte header. */
#define SHORT_DATA_MAX	(VARATT_SHORT_MAX - VARHDRSZ_SHORT)

static pg_noinline const char *
check_other_text(const PageCheck *check, const ColumnCheck *column, const char *text, int length)
{
	int			chars;

	if (!check->text_is_valid(text, length))
		return "its text is not valid in the database's encoding";
	if (column->max_chars < 0)
		return NULL;
	chars = check->text_chars(text, length);
	if (chars > column->max_chars)
		return "its text is longer than the column allows";
	if (chars < column->min_chars)
		return "its text is shorter than the column's padded width";
	return NULL;
}

static inline const char *
check_text(const PageCheck *check, const ColumnCheck *column, const char *text, int length)
{
	if (unlikely(!is_plain_ascii(text, length)))
		return check_other_text(check, column, text, length);
	if (unlikely(column->max_chars >= 0 && length > column->max_chars))
		return "its text is longer than the column allows";
	if (unlikely(length < column->min_chars))
		return "its text is shorter than the column's padded width";
	return NULL;
}

/* Is the digit group free of its last `digits` decimal digits? Constants, so that no division is needed. */
static inline bool
ends_in_zeros(uint16 group, int digits)
{
	switch (digits)
	{
		case 1:
			return group % 10 == 0;
		case 2:
			return group % 100 == 0;
		case 3:
			return group % 1000 == 0;
		default:
			return false;		/* a stored last group is not zero */
	}
}

/* As numeric_recv and make_result would have it: see the macros of utils/adt/numeric.c for the format. */
static inline const char *
check_numeric(const ColumnCheck *column, const char *data, int length)
{
	uint16		header;
	int			dscale;
	int			weight;
	int			scale;
	int			ndigits;
	int			excess;
	bool		negative;
	const char *digits;
	uint16		first;
	uint16		last;

	if (unlikely(length < 2 || (length & 1) != 0))
		return "its numeric has a length that no numeric has";
	header = load16(data);
	if (likely((header & NUMERIC_SIGN_BITS) == NUMERIC_SHORT))
	{
		negative = (header & NUMERIC_SHORT_NEGATIVE) != 0;
		dscale = (header >> NUMERIC_SHORT_DSCALE_SHIFT) & NUMERIC_SHORT_DSCALE_MAX;
		weight = header & NUMERIC_SHORT_WEIGHT_MASK;
		if (header & NUMERIC_SHORT_WEIGHT_SIGN)
			weight -= NUMERIC_SHORT_WEIGHT_MASK + 1;
		digits = data + 2;
		ndigits = (length - 2) / 2;
	}
	else if ((header & NUMERIC_SIGN_BITS) == NUMERIC_SPECIAL)
	{
		if (length != 2 ||
			(header != NUMERIC_NAN && header != NUMERIC_PLUS_INFINITY && header != NUMERIC_MINUS_INFINITY))
			return "its numeric is neither a number nor NaN nor infinite";
		if (column->has_typmod && header != NUMERIC_NAN)
			return "its numeric is infinite and the column has a precision";
		return NULL;
	}
	else
	{
		if (length < 4)
			return "its numeric has a length that no numeric has";
		negative = (header & NUMERIC_NEGATIVE) != 0;
		dscale = header & NUMERIC_LONG_DSCALE_MASK;
		weight = (int16) load16(data + 2);
		digits = data + 4;
		ndigits = (length - 4) / 2;
		if (dscale <= NUMERIC_SHORT_DSCALE_MAX &&
			weight <= NUMERIC_SHORT_WEIGHT_MASK && weight >= -(NUMERIC_SHORT_WEIGHT_MASK + 1))
			return "its numeric is in the long form and fits the short one";
	}

	scale = dscale;
	if (column->has_typmod)
	{
		scale = column->scale;
		if (unlikely(dscale != Max(scale, 0)))
			return "its numeric has not the column's scale";
	}
	if (ndigits == 0)
		return weight != 0 || negative ? "its numeric is a zero that is not written as one" : NULL;

	first = load16(digits);
	last = load16(digits + 2 * (ndigits - 1));
	if (unlikely(first == 0 || last == 0))
		return "its numeric has zeros before or behind its digits";
	if (likely(ndigits <= 4))
	{
		/* The four groups at once: a lane's high bit is set if it is, or becomes with 0x8000 - 10000 added. */
		uint64		groups = (load64(digits + 2 * ndigits - 8)) >> (64 - 16 * ndigits);

		if (unlikely(((groups | ((groups & ~LANE_HIGHS) + LANE_LIMITS)) & LANE_HIGHS) != 0))
			return "its numeric has a digit group above 9999";
	}
	else
	{
		for (int i = 0; i < ndigits; i++)
		{
			if (load16(digits + 2 * i) >= NUMERIC_BASE)
				return "its numeric has a digit group above 9999";
		}
	}
	/* Decimal places that the last group has beyond the scale have to be zeros. */
	excess = (ndigits - 1 - weight) * NUMERIC_BASE_DIGITS - scale;
	if (excess > 0 && unlikely(!ends_in_zeros(last, excess)))
		return "its numeric has digits beyond its scale";
	if (column->has_typmod)
	{
		int			integer_digits = (weight + 1) * NUMERIC_BASE_DIGITS -
			(first < 10 ? 3 : first < 100 ? 2 : first < 1000 ? 1 : 0);

		if (unlikely(integer_digits > column->precision - column->scale))
			return "its numeric is out of the column's precision";
	}
	return NULL;
}

static inline const char *
check_time(int64 time, int32 unit)
{
	if (unlikely(time < 0 || time > USECS_PER_DAY))
		return "its time is out of range";
	if (unlikely(unit != 1 && time % unit != 0))
		return "its time has more digits than the column's precision";
	return NULL;
}

static pg_noinline const char *
check_interval(const char *value, int32 unit)
{
	int64		time = (int64) load64(value);

	if (unit == 1)
		return NULL;
	if (time % unit == 0)
		/* What rounds to the precision adds half a unit. */
		return time > PG_INT64_MAX - unit / 2 || time < PG_INT64_MIN + unit / 2 ? "its interval is out of range" : NULL;
#if PG_VERSION_NUM >= 170000
	{
		int32		day = (int32) load32(value + 8);
		int32		month = (int32) load32(value + 12);

		if ((time == PG_INT64_MIN && day == PG_INT32_MIN && month == PG_INT32_MIN) ||
			(time == PG_INT64_MAX && day == PG_INT32_MAX && month == PG_INT32_MAX))
			return NULL;
	}
#endif
	return "its interval has more digits than the column's precision";
}

static inline const char *
check_fixed(const ColumnCheck *column, const char *value)
{
	switch (column->kind)
	{
		case VALUE_BOOL:
			if (unlikely((unsigned char) *value > 1))
				return "its boolean is neither true nor false";
			return NULL;
		case VALUE_DATE:
			{
				DateADT		date = (DateADT) load32(value);

				if (unlikely(!DATE_NOT_FINITE(date) && !IS_VALID_DATE(date)))
					return "its date is out of range";
				return NULL;
			}
		case VALUE_TIME:
			return check_time((int64) load64(value), column->unit);
		case VALUE_TIMETZ:
			{
				int32		zone = (int32) load32(value + 8);

				if (zone <= -TZDISP_LIMIT || zone >= TZDISP_LIMIT)
					return "its time zone is out of range";
				return check_time((int64) load64(value), column->unit);
			}
		case VALUE_TIMESTAMP:
			{
				Timestamp	timestamp = (Timestamp) load64(value);

				if (TIMESTAMP_NOT_FINITE(timestamp))
					return NULL;
				if (unlikely(!IS_VALID_TIMESTAMP(timestamp)))
					return "its timestamp is out of range";
				if (unlikely(column->unit != 1 && timestamp % column->unit != 0))
					return "its timestamp has more digits than the column's precision";
				return NULL;
			}
		case VALUE_INTERVAL:
			return check_interval(value, column->unit);
		default:
			return NULL;
	}
}

/*
 * Checks the value at *offset of a tuple of `length` bytes and moves *offset behind it. *padding collects the bytes
 * that were skipped for alignment: the tuple is refused if they are not all zero.
 */
static pg_attribute_always_inline const char *
check_value(const PageCheck *check, const ColumnCheck *column, const char *tuple, int length,
			int *offset, uint64 *padding)
{
	int			start = *offset;
	int			size;
	const char *data;

	if (column->kind < FIRST_VARLENA_KIND)
	{
		int			aligned = (start + column->align_mask) & ~(int) column->align_mask;

		if (unlikely(aligned + column->width > length))
			return "it ends behind its tuple";
		*padding |= bytes_before(tuple + aligned, aligned - start);
		*offset = aligned + column->width;
		if (column->kind == VALUE_ANY)
			return NULL;
		return check_fixed(column, tuple + aligned);
	}

	if (unlikely(start >= length))
		return "it begins behind its tuple";
	if (likely(VARATT_IS_1B(tuple + start)))
	{
		if (unlikely(VARATT_IS_1B_E(tuple + start)))
			return "it is stored out of line";
		if (unlikely(!column->may_be_short))
			return "it has a short header, and the column's storage is PLAIN";
		size = VARSIZE_1B(tuple + start);
		data = tuple + start + VARHDRSZ_SHORT;
		if (unlikely(start + size > length))
			return "it ends behind its tuple";
		*offset = start + size;
		size -= VARHDRSZ_SHORT;
	}
	else
	{
		int			aligned = (start + column->align_mask) & ~(int) column->align_mask;
		uint32		total;

		if (aligned + VARHDRSZ > length)
			return "it ends behind its tuple";
		*padding |= bytes_before(tuple + aligned, aligned - start);
		if (!VARATT_IS_4B_U(tuple + aligned))
			return "it is compressed, or its header is at a wrong place";
		total = VARSIZE_4B(tuple + aligned);
		if (total < VARHDRSZ || total > (uint32) (length - aligned))
			return "it ends behind its tuple";
		if (column->may_be_short && total - VARHDRSZ <= SHORT_DATA_MAX)
			return "it has a long header and fits a short one";
		size = (int) total - VARHDRSZ;
		data = tuple + aligned + VARHDRSZ;
		*offset = aligned + (int) total;
	}

	switch (column->kind)
	{
		case VALUE_TEXT:
			return check_text(check, column, data, size);
		case VALUE_NUMERIC:
			return check_numeric(column, data, size);
		default:
			return NULL;
	}
}

const char *
check_any_value(const PageCheck *check, const ColumnCheck *column, const char *tuple, int length, int *offset,
				uint64 *padding)
{
	return check_value(check, column, tuple, length, offset, padding);
}

const char *
check_nulls(const PageCheck *check, const char *tuple, int length, int *attnum)
{
	const uint8 *bits = (const uint8 *) tuple + SizeofHeapTupleHeader;
	int			bytes = check->bitmap_bytes;
	bool		any_null = false;
	bool		any_varlena = false;
	uint16		infomask;

	if ((uint8) tuple[offsetof(HeapTupleHeaderData, t_hoff)] != check->hoff_with_nulls)
		return "its data begins at a wrong place (t_hoff)";
	if (check->hoff_with_nulls > length)
		return "its null bitmap ends behind it";
	for (int i = 0; i < bytes; i++)
	{
		uint8		present = bits[i];
		uint8		missing = check->not_null_bits[i] & (uint8) ~present;
		uint8		dropped = check->dropped_bits[i] & present;

		if (missing != 0 || dropped != 0)
		{
			uint8		wrong = missing != 0 ? missing : dropped;

			*attnum = i * 8 + 1;
			for (; (wrong & 1) == 0; wrong >>= 1)
				(*attnum)++;
			return missing != 0 ? "it is null, and the column is NOT NULL" : "it is not null, and the column is dropped";
		}
		any_varlena |= (present & check->varlena_bits[i]) != 0;
		any_null |= (i == bytes - 1 ? (uint8) (present | check->spare_bits) : present) != 0xFF;
	}
	if (!any_null)
		return "it has a null bitmap and no null";
	if ((bits[bytes - 1] & check->spare_bits) != 0)
		return "its null bitmap has bits beyond its columns";
	for (int i = SizeofHeapTupleHeader + bytes; i < check->hoff_with_nulls; i++)
	{
		if (tuple[i] != 0)
			return "the padding behind its null bitmap is not zero";
	}
	infomask = HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID | HEAP_HASNULL | (any_varlena ? HEAP_HASVARWIDTH : 0);
	if (load16(tuple + offsetof(HeapTupleHeaderData, t_infomask)) != infomask)
		return "its flags (t_infomask) are not those of a frozen row with these values";
	return NULL;
}

static inline const char *
check_tuple(const PageCheck *check, const char *tuple, int length, int *attnum)
{
	uint16		infomask2 = load16(tuple + offsetof(HeapTupleHeaderData, t_infomask2));
	uint16		infomask = load16(tuple + offsetof(HeapTupleHeaderData, t_infomask));
	uint64		padding = 0;
	int			offset;
	const char *reason;

	if (unlikely(infomask2 != check->natts))
		return "its number of columns (t_infomask2) is not the table's";
	if (likely((infomask & HEAP_HASNULL) == 0))
	{
		if (unlikely(infomask != check->infomask_without_nulls))
			return "its flags (t_infomask) are not those of a frozen row with these values";
		/* t_hoff, and behind it the one byte up to the data */
		if (unlikely(load16(tuple + offsetof(HeapTupleHeaderData, t_hoff)) != MAXALIGN(SizeofHeapTupleHeader)))
			return "its data begins at a wrong place (t_hoff)";
		if (unlikely(check->always_null))
			return "it has no null bitmap, and the table has a dropped column";
		offset = MAXALIGN(SizeofHeapTupleHeader);
		for (const ColumnCheck *column = check->runs, *end = column + check->nruns; column < end; column++)
		{
			reason = check_value(check, column, tuple, length, &offset, &padding);
			if (unlikely(reason != NULL))
			{
				*attnum = column->attnum;
				return reason;
			}
		}
	}
	else
	{
		const uint8 *bits = (const uint8 *) tuple + SizeofHeapTupleHeader;

		reason = check_nulls(check, tuple, length, attnum);
		if (reason != NULL)
			return reason;
		offset = check->hoff_with_nulls;
		for (int i = 0; i < check->natts; i++)
		{
			if ((bits[i >> 3] & (1 << (i & 7))) == 0)
				continue;
			reason = check_value(check, &check->columns[i], tuple, length, &offset, &padding);
			if (unlikely(reason != NULL))
			{
				*attnum = i + 1;
				return reason;
			}
		}
	}
	if (unlikely(offset != length))
		return "it is longer than its values";
	if (unlikely(padding != 0))
		return "the padding between its values is not zero";
	return NULL;
}

static const char *
check_header(const char *page)
{
	const PageHeaderData *header = (const PageHeaderData *) page;

	if (PageXLogRecPtrGet(header->pd_lsn) != 0 || header->pd_checksum != 0 ||
		header->pd_prune_xid != InvalidTransactionId)
		return "its LSN, its checksum or its pruning xid is set";
	if (header->pd_flags != PD_ALL_VISIBLE)
		return "its flags (pd_flags) are not those of a page of frozen rows";
	if (header->pd_pagesize_version != (BLCKSZ | PG_PAGE_LAYOUT_VERSION))
		return "its size or layout version is not this server's";
	if (header->pd_special != BLCKSZ)
		return "it has a special space";
	if (header->pd_lower <= SizeOfPageHeaderData || header->pd_lower > header->pd_upper ||
		header->pd_upper > BLCKSZ || (header->pd_lower - SizeOfPageHeaderData) % sizeof(ItemIdData) != 0)
		return "its bounds (pd_lower, pd_upper) are impossible, or it is empty";
	return NULL;
}

int
check_page_row_by_row(const PageCheck *check, char *page, PageFault *fault)
{
	int			lower;
	int			upper;
	int			nitems;
	int			end = BLCKSZ;

	fault->item = 0;
	fault->attnum = 0;
	fault->reason = check_header(page);
	if (unlikely(fault->reason != NULL))
		return 0;
	lower = ((PageHeader) page)->pd_lower;
	upper = ((PageHeader) page)->pd_upper;
	nitems = (lower - SizeOfPageHeaderData) / sizeof(ItemIdData);

	for (int item = 1; item <= nitems; item++)
	{
		/* An ItemIdData: 15 bits offset, 2 bits flags, 15 bits length. */
		uint32		pointer = load32(page + SizeOfPageHeaderData + (item - 1) * sizeof(ItemIdData));
		int			offset = pointer & 0x7FFF;
		int			flags = (pointer >> 15) & 3;
		int			length = pointer >> 17;
		int			begin = end - (int) MAXALIGN(length);
		int			unused = -length & 7;

		if (unlikely(flags != LP_NORMAL || length < (int) MAXALIGN(SizeofHeapTupleHeader) ||
					 begin < lower || offset != begin))
		{
			fault->item = item;
			fault->reason = "its line pointer does not point to the place behind the one before";
			return 0;
		}
		fault->reason = check_tuple(check, page + begin, length, &fault->attnum);
		if (unlikely(fault->reason != NULL))
		{
			fault->item = item;
			return 0;
		}
		/* After the check, which would have to wait for what was just written. */
		if (unused != 0)
		{
			uint64		tail = load64(page + end - 8) & (~UINT64CONST(0) >> (8 * unused));

			memcpy(page + end - 8, &tail, sizeof(tail));
		}
		end = begin;
	}
	if (unlikely(end != upper))
	{
		fault->reason = "its tuples do not end at pd_upper";
		return 0;
	}
	memset(page + lower, 0, upper - lower);
	return nitems;
}

/* Zeros behind each tuple, up to the one before, and between line pointers and tuples. */
static void
clear_unused(char *page, int nitems)
{
	PageHeader	header = (PageHeader) page;

	for (int item = 0; item < nitems; item++)
	{
		uint32		pointer = load32(page + SizeOfPageHeaderData + item * sizeof(ItemIdData));
		int			length = pointer >> 17;
		int			unused = -length & 7;

		if (unused != 0)
		{
			char	   *last = page + (pointer & 0x7FFF) + MAXALIGN(length) - 8;
			uint64		tail = load64(last) & (~UINT64CONST(0) >> (8 * unused));

			memcpy(last, &tail, sizeof(tail));
		}
	}
	memset(page + header->pd_lower, 0, header->pd_upper - header->pd_lower);
}

int
check_page(const PageCheck *check, char *page, PageFault *fault)
{
	int			nitems = check_header(page) == NULL ? count_regular_rows(check, page) : 0;

	if (unlikely(nitems == 0))
		return check_page_row_by_row(check, page, fault);
	clear_unused(page, nitems);
	return nitems;
}
