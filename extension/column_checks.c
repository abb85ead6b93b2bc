/*
 * column_checks.c
 *		Translates a tuple descriptor, once per load, into the list that page_check.c walks for every tuple.
 *
 * The white list of types stands here. A type is on it when everything that its receive function would refuse is
 * checked by page_check.c.
 */
#include "postgres.h"

#include "column_checks.h"

#include "numeric_format.h"
#include "regular_page.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "utf8_wide.h"

#define MICROSECOND_DIGITS	6

typedef struct TypeCheck
{
	Oid			type;
	ValueKind	kind;
} TypeCheck;

static const TypeCheck white_list[] = {
	{BOOLOID, VALUE_BOOL},
	{INT2OID, VALUE_ANY},
	{INT4OID, VALUE_ANY},
	{INT8OID, VALUE_ANY},
	{OIDOID, VALUE_ANY},
	{FLOAT4OID, VALUE_ANY},
	{FLOAT8OID, VALUE_ANY},
	{UUIDOID, VALUE_ANY},
	{NUMERICOID, VALUE_NUMERIC},
	{TEXTOID, VALUE_TEXT},
	{VARCHAROID, VALUE_TEXT},
	{BPCHAROID, VALUE_TEXT},
	{BYTEAOID, VALUE_BYTEA},
	{DATEOID, VALUE_DATE},
	{TIMEOID, VALUE_TIME},
	{TIMETZOID, VALUE_TIMETZ},
	{TIMESTAMPOID, VALUE_TIMESTAMP},
	{TIMESTAMPTZOID, VALUE_TIMESTAMP},
	{INTERVALOID, VALUE_INTERVAL},
};

static const TypeCheck *
find_type(Oid type)
{
	for (size_t i = 0; i < lengthof(white_list); i++)
	{
		if (white_list[i].type == type)
			return &white_list[i];
	}
	return NULL;
}

char *
column_refusal(Form_pg_attribute attribute)
{
	const char *name = NameStr(attribute->attname);

	if (attribute->attisdropped)
		return NULL;
	if (attribute->attgenerated != '\0')
		return psprintf("its column %s is generated", quote_identifier(name));
	if (find_type(attribute->atttypid) == NULL)
		return psprintf("its column %s is of type %s, which has to be checked by its input function",
						quote_identifier(name), format_type_be(attribute->atttypid));
	if (attribute->atttypid == INTERVALOID && attribute->atttypmod >= 0 &&
		INTERVAL_RANGE(attribute->atttypmod) != INTERVAL_FULL_RANGE)
		return psprintf("its column %s is of type %s, whose fields are restricted", quote_identifier(name),
						format_type_with_typemod(attribute->atttypid, attribute->atttypmod));
	return NULL;
}

/* Microseconds between two values of a time type with this precision. */
static int32
microsecond_unit(int precision)
{
	int32		unit = 1;

	for (int digits = precision; digits < MICROSECOND_DIGITS; digits++)
		unit *= 10;
	return unit;
}

static int32
time_unit(Form_pg_attribute attribute)
{
	int			typmod = attribute->atttypmod;

	if (typmod < 0)
		return 1;
	if (attribute->atttypid == INTERVALOID)
		typmod = INTERVAL_PRECISION(typmod);
	return typmod > MICROSECOND_DIGITS ? 1 : microsecond_unit(typmod);
}

static uint8
alignment_mask(char attalign)
{
	switch (attalign)
	{
		case TYPALIGN_CHAR:
			return 0;
		case TYPALIGN_SHORT:
			return ALIGNOF_SHORT - 1;
		case TYPALIGN_INT:
			return ALIGNOF_INT - 1;
		default:
			return ALIGNOF_DOUBLE - 1;
	}
}

static void
fill_column(ColumnCheck *column, Form_pg_attribute attribute)
{
	int32		typmod = attribute->atttypmod;

	memset(column, 0, sizeof(*column));
	column->attnum = attribute->attnum;
	column->unit = 1;
	column->max_chars = -1;
	if (attribute->attisdropped)
		return;					/* always null: never looked at */
	column->kind = find_type(attribute->atttypid)->kind;
	column->align_mask = alignment_mask(attribute->attalign);
	column->may_be_short = attribute->attstorage != TYPSTORAGE_PLAIN;
	column->width = Max(attribute->attlen, 0);
	switch (column->kind)
	{
		case VALUE_TEXT:
			if (attribute->atttypid != TEXTOID && typmod >= VARHDRSZ)
				column->max_chars = typmod - VARHDRSZ;
			if (attribute->atttypid == BPCHAROID && column->max_chars > 0)
				column->min_chars = column->max_chars;
			break;
		case VALUE_NUMERIC:
			if (typmod >= VARHDRSZ)
			{
				/* As numeric_typmod_precision and numeric_typmod_scale of utils/adt/numeric.c. */
				column->has_typmod = true;
				column->precision = ((typmod - VARHDRSZ) >> 16) & 0xFFFF;
				column->scale = (((typmod - VARHDRSZ) & 0x7FF) ^ 1024) - 1024;
			}
			break;
		case VALUE_TIME:
		case VALUE_TIMETZ:
		case VALUE_TIMESTAMP:
		case VALUE_INTERVAL:
			column->unit = time_unit(attribute);
			break;
		default:
			break;
	}
	/* Nothing to check in an interval of full precision. */
	if (column->kind == VALUE_INTERVAL && column->unit == 1)
		column->kind = VALUE_ANY;
}

/* Numbers whose scale fits the short form share the shapes of an earlier column of the same size. */
static void
add_number_shapes(ColumnCheck *columns, int index)
{
	ColumnCheck *column = &columns[index];

	if (column->kind != VALUE_NUMERIC || !column->has_typmod || !column->may_be_short ||
		column->scale < 0 || column->scale > NUMERIC_SHORT_DSCALE_MAX)
		return;
	for (int i = 0; i < index; i++)
	{
		if (columns[i].number_shapes != NULL &&
			columns[i].precision == column->precision && columns[i].scale == column->scale)
		{
			column->number_shapes = columns[i].number_shapes;
			return;
		}
	}
	column->number_shapes = make_number_shapes(column->precision, column->scale);
}

/* Adjacent columns of which only the place is checked are one run, where no padding can be between them. */
static int
merge_runs(ColumnCheck *runs, const ColumnCheck *columns, int natts)
{
	int			nruns = 0;

	for (int i = 0; i < natts; i++)
	{
		ColumnCheck *run = nruns > 0 ? &runs[nruns - 1] : NULL;
		const ColumnCheck *column = &columns[i];

		if (run != NULL && run->kind == VALUE_ANY && column->kind == VALUE_ANY &&
			column->align_mask <= run->align_mask && (run->width & column->align_mask) == 0 &&
			run->width + column->width <= BLCKSZ)
		{
			run->width += column->width;
			continue;
		}
		runs[nruns] = *column;
		if (nruns == 0 && column->kind < FIRST_VARLENA_KIND)
			runs[0].align_mask = MAXIMUM_ALIGNOF - 1;	/* a tuple's data begins aligned */
		nruns++;
	}
	return nruns;
}

static bool
text_is_valid(const char *text, int length)
{
#ifdef TIPPLE_HAS_WIDE_LOOPS
	if (GetDatabaseEncoding() == PG_UTF8 && has_wide_loops())
		return is_utf8_wide(text, length);
#endif
	return pg_verify_mbstr(GetDatabaseEncoding(), text, length, true);
}

PageCheck *
make_page_check(TupleDesc descriptor)
{
	PageCheck  *check = palloc0(sizeof(PageCheck));
	int			natts = descriptor->natts;

	check->natts = natts;
	check->bitmap_bytes = BITMAPLEN(natts);
	check->hoff_with_nulls = MAXALIGN(SizeofHeapTupleHeader + check->bitmap_bytes);
	check->infomask_without_nulls = HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID;
	check->spare_bits = natts % 8 == 0 ? 0 : (uint8) (0xFF << (natts % 8));
	check->text_is_valid = text_is_valid;
	check->text_chars = pg_mbstrlen_with_len;
	check->columns = palloc(sizeof(ColumnCheck) * Max(natts, 1));
	check->runs = palloc(sizeof(ColumnCheck) * Max(natts, 1));
	check->varlena_bits = palloc0(check->bitmap_bytes + 1);
	check->not_null_bits = palloc0(check->bitmap_bytes + 1);
	check->dropped_bits = palloc0(check->bitmap_bytes + 1);
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);
		uint8		bit = 1 << (i % 8);

		fill_column(&check->columns[i], attribute);
		add_number_shapes(check->columns, i);
		if (attribute->attisdropped)
		{
			check->dropped_bits[i / 8] |= bit;
			check->always_null = true;
			continue;
		}
		if (check->columns[i].kind >= FIRST_VARLENA_KIND)
		{
			check->varlena_bits[i / 8] |= bit;
			check->infomask_without_nulls |= HEAP_HASVARWIDTH;
		}
		if (attribute->attnotnull)
			check->not_null_bits[i / 8] |= bit;
	}
	check->nruns = merge_runs(check->runs, check->columns, natts);
	return check;
}
