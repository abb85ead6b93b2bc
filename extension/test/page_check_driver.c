/*
 * page_check_driver.c
 *		Runs page_check.c and column_checks.c without a server: to fuzz them under AddressSanitizer, and to time them.
 *
 *	page_check_driver fuzz COLUMNS PAGES ROUNDS SEED ACCEPTED
 *	page_check_driver time COLUMNS PAGES ROUNDS
 *	page_check_driver utf8
 *
 * COLUMNS has a line per column: atttypid atttypmod attlen attalign attstorage attnotnull attisdropped, as in
 * pg_attribute. PAGES is a file of valid pages. `fuzz` takes a page, damages it, and checks it in memory of exactly its
 * size, once as the server does and once row by row, which must come to the same. What is accepted is read again by a slow
 * and careful reader, which must find each value inside its tuple, and goes as it came to the file ACCEPTED, for a server
 * to read. `utf8` compares what the check says of texts with a slow reader: all of three bytes, and those of four and five
 * that are near a border of anything, at each place where blocks of them may end.
 */
#include "postgres.h"

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "storage/bufpage.h"

#include "column_checks.h"
#include "regular_page.h"

/* ---- what column_checks.c needs of the server ---- */

#undef printf
#undef fprintf

extern void *palloc(Size size);
extern void *palloc0(Size size);
extern char *psprintf(const char *format,...);
extern const char *quote_identifier(const char *name);
extern char *format_type_be(Oid type);
extern char *format_type_with_typemod(Oid type, int32 typmod);

void *
palloc(Size size)
{
	return malloc(size);
}

void *
palloc0(Size size)
{
	return calloc(1, size);
}

char *
psprintf(const char *format,...)
{
	return strdup(format);
}

const char *
quote_identifier(const char *name)
{
	return name;
}

char *
format_type_be(Oid type)
{
	return strdup("?");
}

char *
format_type_with_typemod(Oid type, int32 typmod)
{
	return strdup("?");
}

int
GetDatabaseEncoding(void)
{
	return PG_UTF8;
}

/* The length of a UTF-8 sequence that stands for a character, or 0. RFC 3629. */
static int
utf8_sequence(const unsigned char *text, int length)
{
	int			bytes = text[0] < 0x80 ? 1 : text[0] < 0xC2 ? 0 : text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 :
		text[0] < 0xF5 ? 4 : 0;

	if (bytes == 0 || bytes > length || text[0] == 0)
		return 0;
	for (int i = 1; i < bytes; i++)
	{
		if ((text[i] & 0xC0) != 0x80)
			return 0;
	}
	if ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] > 0x9F) ||
		(text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] > 0x8F))
		return 0;
	return bytes;
}

bool
pg_verify_mbstr(int encoding, const char *text, int length, bool no_error)
{
	for (int done = 0; done < length;)
	{
		int			bytes = utf8_sequence((const unsigned char *) text + done, length - done);

		if (bytes == 0)
			return false;
		done += bytes;
	}
	return true;
}

int
pg_mbstrlen_with_len(const char *text, int length)
{
	int			chars = 0;

	for (int i = 0; i < length; i++)
		chars += (text[i] & 0xC0) != 0x80;
	return chars;
}

/* ---- the table ---- */

static TupleDesc
read_columns(const char *path)
{
	FILE	   *file = fopen(path, "r");
	TupleDesc	descriptor;
	FormData_pg_attribute columns[1600];
	int			natts = 0;
	unsigned	type;
	int			typmod,
				length,
				not_null,
				dropped;
	char		align,
				storage;

	if (file == NULL)
	{
		perror(path);
		exit(2);
	}
	memset(columns, 0, sizeof(columns));
	while (natts < 1600 && fscanf(file, "%u %d %d %c %c %d %d", &type, &typmod, &length, &align, &storage,
								  &not_null, &dropped) == 7)
	{
		FormData_pg_attribute *column = &columns[natts++];

		column->atttypid = type;
		column->atttypmod = typmod;
		column->attlen = length;
		column->attalign = align;
		column->attstorage = storage;
		column->attnotnull = not_null != 0;
		column->attisdropped = dropped != 0;
		column->attnum = natts;
	}
	fclose(file);
	/* More than any version's descriptor takes; TupleDescAttr knows the place of an attribute. */
	descriptor = calloc(1, sizeof(*descriptor) + natts * (sizeof(FormData_pg_attribute) + 64));
	descriptor->natts = natts;
	for (int i = 0; i < natts; i++)
		*TupleDescAttr(descriptor, i) = columns[i];
	return descriptor;
}

static char *
read_pages(const char *path, int *count)
{
	FILE	   *file = fopen(path, "rb");
	char	   *pages;
	long		bytes;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < BLCKSZ)
	{
		perror(path);
		exit(2);
	}
	rewind(file);
	pages = aligned_alloc(4096, bytes);
	*count = (int) (fread(pages, BLCKSZ, bytes / BLCKSZ, file));
	fclose(file);
	return pages;
}

/* ---- the careful reader: as heap_deform_tuple, with every bound checked ---- */

static void
must(bool condition, const char *what)
{
	if (!condition)
	{
		fprintf(stderr, "the check is wrong about %s\n", what);
		abort();
	}
}

static void
read_tuple(TupleDesc descriptor, const char *tuple, int length)
{
	HeapTupleHeader header = (HeapTupleHeader) tuple;
	bool		nulls = (header->t_infomask & HEAP_HASNULL) != 0;
	int			offset = header->t_hoff;
	volatile unsigned char sum = 0;

	must(HeapTupleHeaderGetNatts(header) == descriptor->natts, "natts");
	must(!HeapTupleHeaderHasExternal(header), "external");
	must(offset >= 24 && offset <= length && offset % 8 == 0, "t_hoff");
	must(!nulls || 23 + BITMAPLEN(descriptor->natts) <= offset, "bitmap");
	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);
		int			bytes = column->attlen;
		int			align = column->attalign == 'd' ? 8 : column->attalign == 'i' ? 4 : column->attalign == 's' ? 2 : 1;

		if (nulls && att_isnull(i, header->t_bits))
		{
			must(!column->attnotnull || column->attisdropped, "null in a NOT NULL column");
			continue;
		}
		must(!column->attisdropped, "value in a dropped column");
		must(bytes > 0 || offset < length, "begin");
		if (bytes > 0 || tuple[offset] == 0)
			offset = (offset + align - 1) / align * align;
		if (bytes < 0)
		{
			unsigned char first;

			must(offset < length, "begin after alignment");
			first = (unsigned char) tuple[offset];
			if (first & 1)
			{
				must(first != 1, "out of line");
				bytes = first >> 1;
			}
			else
			{
				unsigned	word;

				must(offset % 4 == 0 && offset + 4 <= length && (first & 3) == 0, "long header");
				memcpy(&word, tuple + offset, 4);
				must((word >> 2) >= 4 && (word >> 2) <= (unsigned) length, "length");
				bytes = (int) (word >> 2);
			}
		}
		must(offset + bytes <= length, "end");
		for (int k = 0; k < bytes; k++)
			sum += (unsigned char) tuple[offset + k];
		offset += bytes;
	}
	must(offset == length, "length of the tuple");
}

static void
read_page(TupleDesc descriptor, const char *page, int nitems)
{
	int			above = BLCKSZ;

	must(nitems == (((PageHeader) page)->pd_lower - 24) / 4, "number of items");
	for (int i = 1; i <= nitems; i++)
	{
		ItemId		item = PageGetItemId((Page) page, i);

		must(ItemIdIsNormal(item) && ItemIdGetOffset(item) >= ((PageHeader) page)->pd_upper, "line pointer");
		must(ItemIdGetOffset(item) + ItemIdGetLength(item) <= above, "overlap");
		above = ItemIdGetOffset(item);
		read_tuple(descriptor, page + above, ItemIdGetLength(item));
	}
}

/* ---- damage ---- */

static uint64 random_state;

static uint32
random_below(uint32 limit)
{
	/* xorshift64* (Vigna) */
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (uint32) ((random_state * UINT64CONST(2685821657736338717)) >> 32) % limit;
}

/* Where damage tells most: the header, the line pointers, a tuple's header, or anything that is used. */
static int
random_place(const char *page)
{
	PageHeader	header = (PageHeader) page;
	int			nitems = (header->pd_lower - 24) / 4;
	ItemId		item = PageGetItemId((Page) page, 1 + random_below(nitems));
	int			tuple = ItemIdGetOffset(item);

	switch (random_below(6))
	{
		case 0:
			return random_below(24);
		case 1:
			return 24 + random_below(header->pd_lower - 24);
		case 2:
			return tuple + 18 + random_below(Min(14, ItemIdGetLength(item) - 18));
		case 3:
			return tuple + random_below(ItemIdGetLength(item));
		default:
			return header->pd_upper + random_below(BLCKSZ - header->pd_upper);
	}
}

static void
damage(char *page, const char *original, const char *other)
{
	static const unsigned char telling[] = {0x00, 0x01, 0x02, 0x03, 0x7F, 0x80, 0xC0, 0xFE, 0xFF};

	for (int times = 1 + random_below(3); times > 0; times--)
	{
		int			place = random_place(original);

		switch (random_below(5))
		{
			case 0:
				page[place] ^= 1 << random_below(8);
				break;
			case 1:
				page[place] = telling[random_below(sizeof(telling))];
				break;
			case 2:
				page[place] += random_below(2) ? 1 : -1;
				break;
			case 3:
				page[place] = random_below(256);
				break;
			default:
				{
					int			bytes = 1 + random_below(64);
					int			from = random_place(other);

					memcpy(page + place, other + from, Min(bytes, BLCKSZ - Max(place, from)));
				}
		}
	}
}

/* Memory for a page between two that nobody may read, which also stops what AddressSanitizer does not see: vectors. */
static char *
guarded_page(void)
{
	size_t		guard = sysconf(_SC_PAGESIZE);
	size_t		inside = TYPEALIGN(guard, BLCKSZ);
	char	   *memory = mmap(NULL, inside + 2 * guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(memory != MAP_FAILED, "memory");
	must(mprotect(memory, guard, PROT_NONE) == 0 && mprotect(memory + guard + inside, guard, PROT_NONE) == 0, "guards");
	/* Where the system's pages are larger, what is behind it matters more. */
	return memory + guard + inside - BLCKSZ;
}

static void
fuzz(TupleDesc descriptor, const char *pages, int count, long rounds, long seed, FILE *output)
{
	PageCheck  *check = make_page_check(descriptor);
	long		accepted = 0;
	long		quickly = 0;
	char		sent[BLCKSZ];
	char	   *page = guarded_page();

	random_state = seed * 2 + 1;
	for (long round = 0; round < rounds; round++)
	{
		const char *original = pages + (size_t) random_below(count) * BLCKSZ;
		char	   *twin = malloc(BLCKSZ);
		PageFault	fault;
		int			nitems;

		memcpy(page, original, BLCKSZ);
		damage(page, original, pages + (size_t) random_below(count) * BLCKSZ);
		memcpy(sent, page, BLCKSZ);
		memcpy(twin, page, BLCKSZ);
		nitems = check_page(check, page, &fault);
		must(check_page_row_by_row(check, twin, &fault) == nitems, "what is accepted");
		must(nitems == 0 || memcmp(page, twin, BLCKSZ) == 0, "what is cleared");
		free(twin);
		if (nitems > 0)
		{
			accepted++;
			quickly += count_regular_rows(check, page) > 0;
			read_page(descriptor, page, nitems);
			must(fwrite(sent, BLCKSZ, 1, output) == 1, "output");
		}
		else
			must(fault.reason != NULL && fault.item >= 0 && fault.attnum >= 0 && fault.attnum <= descriptor->natts,
				 "fault");
	}
	printf("%ld of %ld accepted, %ld quickly\n", accepted, rounds, quickly);
}

static int
take_time(TupleDesc descriptor, char *pages, int count, long rounds)
{
	PageCheck  *check = make_page_check(descriptor);
	struct timespec begin,
				end;
	long		rows = 0;
	double		nanoseconds;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (long round = 0; round < rounds; round++)
	{
		for (int i = 0; i < count; i++)
		{
			PageFault	fault;
			int			nitems = check_page(check, pages + (size_t) i * BLCKSZ, &fault);

			if (nitems == 0)
			{
				fprintf(stderr, "page %d, item %d, column %d: %s\n", i, fault.item, fault.attnum, fault.reason);
				return 1;
			}
			rows += nitems;
		}
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	nanoseconds = (end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec);
	printf("%.1f ns a tuple (%ld tuples)\n", nanoseconds / rows, rows);
	return 0;
}

/* Compares the two on a text between ASCII, and that between bytes that would spoil it. */
static void
compare_text(const PageCheck *check, const unsigned char *text, int length, int before, int behind)
{
	char		buffer[384];
	char	   *begin = buffer + 64;

	memset(buffer, 0xF0, sizeof(buffer));
	memset(begin, 'a', before + length + behind);
	memcpy(begin + before, text, length);
	must(check->text_is_valid(begin, before + length + behind) ==
		 pg_verify_mbstr(PG_UTF8, begin, before + length + behind, true), "what is valid");
}

static int
compare_utf8(void)
{
	static const unsigned char borders[] = {0x00, 0x01, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
	0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF8, 0xFF};
	static const int places[] = {0, 1, 30, 59, 60, 61, 62, 63, 64, 65, 125, 126, 127, 128};
	const int	count = sizeof(borders);
	PageCheck  *check = make_page_check(calloc(1, sizeof(TupleDescData)));
	unsigned char text[5];

	for (int i = 0; i < 1 << 24; i++)
	{
		memcpy(text, &i, 3);
		compare_text(check, text, 3, i % 67, i % 3);
	}
	for (int i = 0; i < count * count * count * count * count; i++)
	{
		for (int byte = 0, rest = i; byte < 5; byte++, rest /= count)
			text[byte] = borders[rest % count];
		compare_text(check, text, 5, places[i % lengthof(places)], i % 2);
	}
	for (int i = 0; i < count * count * count * count; i++)
	{
		for (int byte = 0, rest = i; byte < 4; byte++, rest /= count)
			text[byte] = borders[rest % count];
		for (int place = 0; place < lengthof(places); place++)
		{
			compare_text(check, text, 4, places[place], 0);
			compare_text(check, text, 4, places[place], 64);
		}
	}
	return 0;
}

int
main(int argc, char **argv)
{
	TupleDesc	descriptor;
	char	   *pages;
	int			count;

	FILE	   *output;

	if (argc == 2 && strcmp(argv[1], "utf8") == 0)
		return compare_utf8();
	if (argc < 5 || (strcmp(argv[1], "fuzz") == 0 && argc < 7))
	{
		fprintf(stderr, "usage: %s fuzz COLUMNS PAGES ROUNDS SEED ACCEPTED\n       %s time COLUMNS PAGES ROUNDS\n       %s utf8\n",
				argv[0], argv[0], argv[0]);
		return 2;
	}
	descriptor = read_columns(argv[2]);
	pages = read_pages(argv[3], &count);
	if (strcmp(argv[1], "time") == 0)
		return take_time(descriptor, pages, count, atol(argv[4]));
	output = fopen(argv[6], "wb");
	if (output == NULL)
	{
		perror(argv[6]);
		return 2;
	}
	fuzz(descriptor, pages, count, atol(argv[4]), atol(argv[5]), output);
	return fclose(output) == 0 ? 0 : 2;
}
