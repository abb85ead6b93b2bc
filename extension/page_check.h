/*
 * page_check.h
 *		Is this heap page, which a client made, one that the server itself could have written?
 *
 * No backend function is called from here, so that the checker also runs alone, under AddressSanitizer, in a fuzz
 * driver: what needs the backend (multi-byte text) comes in as function pointers.
 */
#ifndef TIPPLE_PAGE_CHECK_H
#define TIPPLE_PAGE_CHECK_H

#include "postgres.h"

#include "access/htup_details.h"

/* How a value is checked, beyond its place in the tuple. */
typedef enum ValueKind
{
	VALUE_ANY,					/* fixed width, every bit pattern is a value */
	VALUE_BOOL,
	VALUE_DATE,
	VALUE_TIME,
	VALUE_TIMETZ,
	VALUE_TIMESTAMP,			/* with or without time zone */
	VALUE_INTERVAL,
	/* from here on varlena */
	VALUE_BYTEA,
	VALUE_TEXT,					/* text, varchar and bpchar */
	VALUE_NUMERIC
} ValueKind;

#define FIRST_VARLENA_KIND VALUE_BYTEA

/* One column; or, in the list for tuples without nulls, a run of adjacent VALUE_ANY columns. */
typedef struct ColumnCheck
{
	uint8		kind;
	uint8		align_mask;		/* alignment - 1 */
	bool		may_be_short;	/* varlena: stored with a 1-byte header where that suffices */
	uint16		width;			/* fixed width, in bytes */
	uint16		attnum;			/* of the first column of a run */
	int32		max_chars;		/* text: -1 is no limit */
	int32		min_chars;		/* text: bpchar(n) has exactly n */
	bool		has_typmod;		/* numeric */
	int32		precision;		/* numeric with typmod */
	int32		scale;			/* numeric with typmod */
	uint8	   *number_shapes;	/* numeric with typmod, where its scale fits the short form: see regular_page.h */
	int32		unit;			/* time kinds: microseconds that the precision leaves, 1 if all */
} ColumnCheck;

typedef struct PageCheck
{
	int			natts;
	int			bitmap_bytes;
	uint8		hoff_with_nulls;
	uint16		infomask_without_nulls;
	bool		always_null;	/* some column is dropped: a tuple without nulls cannot be */
	int			nruns;
	ColumnCheck *runs;			/* for tuples without nulls */
	ColumnCheck *columns;		/* all natts */
	uint8	   *varlena_bits;	/* like a null bitmap: varlena columns */
	uint8	   *not_null_bits;	/* columns that are NOT NULL */
	uint8	   *dropped_bits;	/* columns that are dropped */
	uint8		spare_bits;		/* bits of the bitmap's last byte beyond natts */
	bool		(*text_is_valid) (const char *text, int length);
	int			(*text_chars) (const char *text, int length);	/* of valid text */
} PageCheck;

/* Where and why a page is refused. */
typedef struct PageFault
{
	int			item;			/* line pointer from 1; 0 if the page as a whole */
	int			attnum;			/* column from 1; 0 if the tuple as a whole */
	const char *reason;
} PageFault;

/*
 * Checks a page of BLCKSZ bytes, aligned to 8, that nobody else can change. What no row uses (the space between line
 * pointers and tuples, the padding behind a tuple) is set to zero, so that nothing can be hidden there.
 *
 * Returns the number of tuples, or 0 with *fault filled in.
 */
extern int	check_page(const PageCheck *check, char *page, PageFault *fault);

/* The same without the quick way; by itself for the fuzz driver only. */
extern int	check_page_row_by_row(const PageCheck *check, char *page, PageFault *fault);

/*
 * Checks the value at *offset of a tuple of `length` bytes and moves *offset behind it; *padding collects the bytes that
 * were skipped for alignment. Returns why the value is refused, or NULL.
 */
extern const char *check_any_value(const PageCheck *check, const ColumnCheck *column, const char *tuple, int length,
								   int *offset, uint64 *padding);

/*
 * Checks the header of a tuple of `length` bytes that says it has NULLs: its bitmap, and what follows from it. Returns why it
 * is refused, with the column in *attnum where there is one, or NULL.
 */
extern const char *check_nulls(const PageCheck *check, const char *tuple, int length, int *attnum);

#endif
