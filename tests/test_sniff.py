"""Small files of awkward kinds, and what they are: dialect, header, NULL, types."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from sniffing import decision, sniff, types
from targets import write
from tipple.errors import UsageError
from tipple.plan.sniff_columns import describe_dates
from tipple.plan.sniff_encoding import decide_encoding, to_utf8
from tipple.plan.sniff_names import clean_names
from tipple.plan.sniff_options import options_text
from tipple.plan.sniff_profile import LOW_CONFIDENCE, Given
from tipple.plan.sources import plan_dialect
from tipple.run.sampling import TOTAL_BYTES, take_sample
from tipple.run.sniff import Sniffed, Sniffer

CSV = {"format": "csv", "delimiter": ",", "quote": '"', "escape": '"', "null_text": "", "header": "no"}
SEMICOLON = {**CSV, "delimiter": ";"}
TAB = {**CSV, "delimiter": "\t"}
BAR = {**CSV, "delimiter": "|"}
TBL = {"format": "tbl", "delimiter": "|", "null_text": "", "header": "no"}
TEXT = {"format": "text", "delimiter": "\t", "null_text": "\\N", "header": "no"}
NAMED = {"header": "yes"}
COMMAS = {**SEMICOLON, "decimal_separator": ","}
DMY, MDY = {"date_style": "DMY"}, {"date_style": "MDY"}
DATE = "date"

INT, DEC, DBL, TXT = "bigint", "numeric", "double precision", "text"

# Name of the file, its content, what it is, and the types of its columns.
CORPUS: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    # -- as the name says
    "csv": ("a.csv", "1,a\n2,b\n", CSV, [INT, TXT]),
    "csv_header": ("a.csv", "id,name\n1,a\n2,b\n3,c\n", CSV | NAMED, [INT, TXT]),
    "csv_one_record": ("a.csv", "1,a", CSV, [INT, TXT]),
    "csv_one_column": ("a.csv", "a\nb\nc\n", CSV, [TXT]),
    "csv_one_number": ("a.csv", "7", CSV, [INT]),
    "csv_only_header": ("a.csv", "id,name\n", CSV | NAMED, [TXT, TXT]),
    "csv_quoted": ("a.csv", '1,"a,b"\n2,"c""d"\n3,"e\nf"\n', CSV, [INT, TXT]),
    "csv_all_quoted": ("a.csv", '"id","name"\n"1","a"\n"2","b"\n"3","c"\n', CSV | NAMED, [INT, TXT]),
    "csv_lists_with_semicolons": ("a.csv", "1,a;b;c\n2,d;e;f\n", CSV, [INT, TXT]),
    "csv_crlf": ("a.csv", "1,a\r\n2,b\r\n", CSV, [INT, TXT]),
    "csv_cr": ("a.csv", "1,a\r2,b\r", CSV, [INT, TXT]),
    "csv_empty_fields": ("a.csv", "1,,x\n,2,\n3,4,y\n", CSV, [INT, INT, TXT]),
    "csv_empty_column": ("a.csv", "1,,x\n2,,y\n", CSV, [INT, TXT, TXT]),
    "csv_backslashes_are_data": ("a.csv", '1,"c\\"\n2,a\\nb\n', CSV, [INT, TXT]),
    "csv_apostrophes": ("a.csv", "1,it's\n2,O'Brien\n3,'tis\n", CSV, [INT, TXT]),
    "csv_spaces_around": ("a.csv", "1, 2.5, x\n2, 3.5, y\n", CSV, [INT, DEC, TXT]),
    "csv_byte_order_mark": ("a.csv", "\ufeffid,n\n1,2\n3,4\n5,6\n", CSV | NAMED, [INT, INT]),
    "csv_multi_byte": ("a.csv", "1,漢字\n2,äöü\n3,🚂\n", CSV, [INT, TXT]),
    "csv_sentences": ("a.csv", '1,"Well, yes; perhaps"\n2,"No: never"\n', CSV, [INT, TXT]),
    "csv_mixed_lengths": ("a.csv", "1,2,3\n4,5,6\n7,8\n9,10,11\n12,13,14\n", CSV, [INT, INT, INT]),
    "csv_one_quoted_column": ("a.csv", '"a"\n"b ""c"""\n"d, e"\n', CSV, [TXT]),
    "csv_one_column_in_apostrophes": ("a.csv", "'a'\n'b'\n'c'\n", CSV | {"quote": "'", "escape": "'"}, [TXT]),
    "csv_codes_with_exponents": ("a.csv", "12E5,1e3,5\n1E400,7,1e3\n3E07,8,9\n", CSV, [TXT, TXT, TXT]),
    "csv_numbers_with_exponents": ("a.csv", "12E5,1e-3,1E+5\n1.5e4,7,2E+17\n3E07,8,9\n", CSV, [DBL, DBL, DBL]),
    "csv_codes_and_decimals": ("a.csv", "x,1e5\ny,2.5\n", CSV, [TXT, DBL]),
    "csv_quoted_codes": ("a.csv", '"id","part"\n1,"12E5"\n2,"7"\n3,\n', CSV | NAMED, [INT, TXT]),
    "csv_header_of_questions": ("a.csv", f"q,{'how satisfied ' * 20}\n1,2\n3,4\n5,6\n", CSV | NAMED, [INT, INT]),
    "csv_header_with_line_breaks": ("a.csv", '"No\nof","Net\r\nsum"\n1,2.5\n3,4.5\n5,6.5\n', CSV | NAMED, [INT, DEC]),
    "csv_header_with_a_gap": ("a.csv", "id,,v\n1,a,2\n3,b,4\n5,c,6\n", CSV | NAMED, [INT, TXT, INT]),
    "csv_header_with_na": ("a.csv", "id,NA,v\n1,5,2\n3,6,4\n5,7,6\n", CSV | NAMED, [INT, INT, INT]),
    "csv_header_of_dates": ("a.csv", "r,2024-01-01,2024-02-01\na,1.5,2\nb,3.5,4\n", CSV | NAMED, [TXT, DEC, INT]),
    "csv_header_of_days": ("a.csv", "r,1/22/20,1/23/20\na,1,2\nb,3,4\nc,2,3\n", CSV | NAMED, [TXT, INT, INT]),
    "csv_dates_first": ("a.csv", "r,2024-01-01,5\na,2024-01-02,6\nb,2024-01-03,7\n", CSV, [TXT, "date", INT]),
    "csv_first_record_of_nulls": ("a.csv", "x,NULL,a\n1,5,b\n2,6,c\n", CSV | {"null_text": "NULL"}, [TXT, INT, TXT]),
    "csv_first_record_of_gaps": ("a.csv", "total,,,\n1,2,a,b\n3,4,c,d\n5,6,e,f\n", CSV, [TXT, INT, TXT, TXT]),
    "csv_text_with_line_breaks_first": ("a.csv", '"a\nb",c\n"d",e\n', CSV, [TXT, TXT]),
    "csv_times": ("a.csv", "1,12:30:00\n2,13:45:10\n", CSV, [INT, "time"]),
    "tbl": ("a.tbl", "1|a|\n2|b|\n", TBL, [INT, TXT]),
    "tbl_part": ("a.tbl.3", "1|a|\n2|b|\n", TBL, [INT, TXT]),
    "tbl_one_column": ("a.tbl", "1|\n2|\n", TBL, [INT]),
    "tbl_quotes_are_data": ("a.tbl", '1|"a|\n2|b"|\n', TBL, [INT, TXT]),
    "tbl_commas": ("a.tbl", "1|a,b;c|\n2|d,e;f|\n", TBL, [INT, TXT]),
    "text_one_quoted_column": ("a.txt", '"a"\n"b ""c"""\n\n"d\ne"\n', TAB, [TXT]),
    "text_one_quoted_column_of_numbers": ("a.tsv", '"n"\n"1"\n"2"\n"3"\n', TAB | NAMED, [INT]),
    "text_one_column_with_quotes": ("a.txt", 'a\n"b"\n"c"\n', TEXT, [TXT]),
    "text_one_column_of_titles": ("a.txt", '"a" or "b"\n"c" or "d"\n', TEXT, [TXT]),
    "text_one_quoted_column_of_paths": ("a.txt", '"\\\\server\\share"\n"b"\n', TAB, [TXT]),
    "text": ("a.txt", "1\ta\n2\tb\n", TEXT, [INT, TXT]),
    "text_nulls": ("a.tsv", "1\t\\N\n\\N\tb\n", TEXT, [INT, TXT]),
    "text_escapes": ("a.txt", "1\ta\\tb\n2\tc\\\\d\n", TEXT, [INT, TXT]),
    "text_escaped_line_end": ("a.txt", "1\ta\\\nb\n2\tc\n", TEXT, [INT, TXT]),
    # -- not as the name says
    "semicolons": ("a.csv", "1;a\n2;b\n", SEMICOLON, [INT, TXT]),
    "decimal_commas": ("a.csv", "1;Anna;2,5\n2;Bob;3,75\n3;Eva;4,1\n", COMMAS, [INT, TXT, DEC]),
    "decimal_commas_two_columns": ("a.csv", "1;2,5\n2;3,75\n", COMMAS, [INT, DEC]),
    "decimal_commas_first": ("a.csv", "1,5;a;x\n2,4;b;y\n3,3;c;z\n", COMMAS, [DEC, TXT, TXT]),
    "lists_with_semicolons": ("a.csv", "1,a;b;c\n2,d;e;f\n", CSV, [INT, TXT]),
    "decimal_commas_header": ("a.csv", "id;preis\n1;2,5\n2;3,75\n3;1,0\n", COMMAS | NAMED, [INT, DEC]),
    "excel": (
        "a.csv", 'Nr;Name;Am\r\n1;"a;b";31.12.2024\r\n2;"c";01.01.2025\r\n', SEMICOLON | NAMED | DMY, [INT, TXT, DATE]
    ),
    "tabs_in_csv": ("a.csv", "1\ta\n2\tb\n", TAB, [INT, TXT]),
    "bars_in_csv": ("a.csv", "1|a|x\n2|b|y\n", BAR, [INT, TXT, TXT]),
    "trailing_semicolons": ("a.csv", "1;a;\n2;b;\n", SEMICOLON, [INT, TXT]),
    "trailing_commas": ("a.csv", "id,v,\n1,a,\n2,b,\n", CSV | NAMED, [INT, TXT]),
    "trailing_semicolons_and_quotes": ("a.csv", 'id;v;\n1;"a;b";\n2;b;\n', SEMICOLON | NAMED, [INT, TXT]),
    "trailing_bars_and_quotes": ("a.csv", '1|"a|b"|\n2|b|\n', BAR, [INT, TXT]),
    "last_texts_empty": ("a.csv", '1;"a;b";""\n2;"b";\n', SEMICOLON, [INT, TXT, TXT]),
    "trailing_bars_in_csv": ("a.csv", "1|a|\n2|b|\n", TBL, [INT, TXT]),
    "tbl_without_trailing": ("a.tbl", "1|a\n2|b\n", BAR | {"quote": "\x02", "escape": "\x02"}, [INT, TXT]),
    "tbl_without_trailing_quotes": ("a.tbl", '1|5" a\n2|b\n', BAR | {"quote": "\x02", "escape": "\x02"}, [INT, TXT]),
    "commas_in_tbl": ("a.tbl", "1,a,x\n2,b,y\n", CSV, [INT, TXT, TXT]),
    "commas_in_txt": ("a.txt", "1,a\n2,b\n", CSV, [INT, TXT]),
    "quoted_tabs": ("a.tsv", '1\t"a\tb"\n2\t"c"\n', TAB, [INT, TXT]),
    "partly_quoted_tabs": ("a.txt", '1\t"Smith, J"\n2\tAnna\n3\t"5"" x"\n', TAB, [INT, TXT]),
    "mysql_line_ends": ("a.dat", "1\ta\\\nb\t\\N\n2\tc\\\\d\t3.5\n3\te\\\nf\t4.5\n", TEXT, [INT, TXT, DEC]),
    "mysql_tabs": ("a.dat", "1\ta\\tb\t\\N\n2\tc\\\nd\t7\n3\te\t5\n", TEXT, [INT, TXT, INT]),
    "escaped_commas": ("a.csv", "1,a\\,b,2\n2,c,\\N\n3,d,4\n", TEXT | {"delimiter": ","}, [INT, TXT, INT]),
    "escaped_bars": ("a.txt", "1|a\\|b|t\n2|c|f\n3|d\\\\e|t\n", TEXT | {"delimiter": "|"}, [INT, TXT, "boolean"]),
    "escaped_bars_nameless": ("part_00", "1|a\\|b|2\n2|c|3\n3|d|4\n", TEXT | {"delimiter": "|"}, [INT, TXT, INT]),
    "escaped_bars_in_quotes": ("a.csv", '1|"a\\|b"|2\n2|"c"|3\n', BAR, [INT, TXT, INT]),
    "backslashes_before_commas": ("a.csv", "1,a\\,2\n2,b\\,3\n3,c,4\n", CSV, [INT, TXT, INT]),
    "paths_like_escapes": ("a.dat", "1\tc:\\temp\\new\n2\td:\\reports\\north\n", TAB, [INT, TXT]),
    "paths_like_escapes_in_txt": ("a.txt", "1\tc:\\temp\\new\n2\td:\\reports\\north\n", TAB, [INT, TXT]),
    "words_like_escapes": ("a.dat", "1\ta\\new\n2\tb\\temp\n", TAB, [INT, TXT]),
    "escapes_in_words": ("a.dat", "1\ta\\new\n2\tb\\\\temp\n", TEXT, [INT, TXT]),
    "paths_with_tabs": ("a.txt", "1\tC:\\data\\x\n2\tD:\\y\n", TAB, [INT, TXT]),
    # -- the name says nothing
    "nameless_csv": ("a.dat", "id,v\n1,2.5\n2,3.5\n3,4.5\n", CSV | NAMED, [INT, DEC]),
    "nameless_tabs": ("a.dat", "1\ta\n2\tb\n", TAB, [INT, TXT]),
    "nameless_text": ("a", "1\ta\n2\t\\N\n", TEXT, [INT, TXT]),
    "nameless_tbl": ("a.dat", "1|a|\n2|b|\n", TBL, [INT, TXT]),
    "hive": ("000000_0", "1\x01a\x01x\n2\x01b\x01y\n", CSV | {"delimiter": "\x01"}, [INT, TXT, TXT]),
    "unit_separator": ("a.dat", "1\x1fa,b\n2\x1fc,d\n", CSV | {"delimiter": "\x1f"}, [INT, TXT]),
    "carets": ("a.dat", "1^a^2.5\n2^b^3.5\n", CSV | {"delimiter": "^"}, [INT, TXT, DEC]),
    "colons": ("passwd", "root:x:0:0:r\nbin:x:1:1:b\n", CSV | {"delimiter": ":"}, [TXT, TXT, INT, INT, TXT]),
    "spaces": ("a.dat", "1 2.5 x\n2 3.5 y\n", CSV | {"delimiter": " "}, [INT, DEC, TXT]),
    "nameless_numbers": ("a.dat", "1\n2\n3\n", CSV, [INT]),
    "nameless_timestamps": ("a.dat", "2024-01-01 12:00:00\n2024-01-02 13:00:00\n", CSV, ["timestamp"]),
    # -- quotes and escapes
    "apostrophe_quotes": ("a.csv", "1,'a,b'\n2,'c'\n", CSV | {"quote": "'", "escape": "'"}, [INT, TXT]),
    "apostrophe_quotes_alone": ("a.csv", "1,'a'\n2,'it''s'\n", CSV | {"quote": "'", "escape": "'"}, [INT, TXT]),
    "backslash_escape": ("a.csv", '1,"a\\"b"\n2,"c\\"d"\n', CSV | {"escape": "\\"}, [INT, TXT]),
    "backslash_escape_delimiter": ("a.csv", '1,"a\\",b"\n2,"c"\n', CSV | {"escape": "\\"}, [INT, TXT]),
    "inches": ("a.csv", '1,5" pipe\n2,6" pipe\n', CSV | {"quote": "\x02", "escape": "\x02"}, [INT, TXT]),
    # -- NULL
    "na": ("a.csv", "1,NA\n2,5\n3,NA\n", CSV | {"null_text": "NA"}, [INT, INT]),
    "na_in_the_first_record": ("a.csv", "NA,1\n2,3\n", CSV | {"null_text": "NA"}, [INT, INT]),
    "backslash_n_in_csv": ("a.csv", "1,\\N,2024-01-01\n2,5,\\N\n", CSV | {"null_text": "\\N"}, [INT, INT, "date"]),
    "null_word": ("a.csv", "1,NULL\n2,2.5\n", CSV | {"null_text": "NULL"}, [INT, DEC]),
    "hyphen": ("a.csv", "1,-\n2,3\n", CSV | {"null_text": "-"}, [INT, INT]),
    "excels_na": ("a.csv", "1,#N/A\n2,3\n", CSV | {"null_text": "#N/A"}, [INT, INT]),
    "two_points": ("a.csv", "1,..\n2,3.5\n", CSV | {"null_text": ".."}, [INT, DEC]),
    "longest_null_word": ("a.csv", "1,<null>\n2,3\n", CSV | {"null_text": "<null>"}, [INT, INT]),
    "null_word_among_texts": ("a.csv", "1,NULL\n2,x\n", CSV, [INT, TXT]),
    "null_word_and_empty": ("a.csv", "1,NULL,\n2,3,4\n", CSV, [INT, TXT, INT]),
    "empty_in_text": ("a.tsv", "1\t\t3\n2\t5\t\n", TEXT | {"null_text": ""}, [INT, INT, INT]),
    # -- types
    "leading_zeros": ("a.csv", "00123,1\n00456,2\n", CSV, [TXT, INT]),
    "telephone": ("a.csv", "+4930123,1\n+4940456,2\n", CSV, [TXT, INT]),
    "thousands": ("a.csv", '1,"1,234"\n2,"12,345.50"\n', CSV, [INT, TXT]),
    "lists_of_numbers": ("a.csv", '1,"101,102"\n2,"104,105,106"\n', CSV, [INT, TXT]),
    "pairs_of_numbers": ("a.csv", '1,"3,4"\n2,"10,20"\n', CSV, [INT, TXT]),
    "thousands_or_thousandths": ("a.csv", '1,"1,234"\n2,"5,678"\n', CSV, [INT, TXT]),
    "points_between_thousands": ("a.csv", "1;1.234,50\n2;7,25\n", COMMAS | {"thousands": "."}, [INT, DEC]),
    "points_that_may_be_either": ("a.csv", "1;1.234;2,5\n2;7.123;7,25\n", COMMAS | {"thousands": "."}, [INT, INT, DEC]),
    "points_and_a_comma_between_thousands": ("a.csv", "1.5;1,250\n2.0;2,500\n", SEMICOLON, [DEC, TXT]),
    "commas_and_doubles": ("a.csv", "1.234,50;1.2e+05\n2.345,75;2.5e-03\n", SEMICOLON, [TXT, DBL]),
    "one_comma_among_many": ("a.csv", "1;7\n" * 30 + "1;1,5\n", SEMICOLON, [INT, TXT]),
    "commas_and_no_numbers": ("a.csv", "1;1,5\n2;NaN\n3;1,5\n", COMMAS, [INT, DBL]),
    "points_and_commas": ("a.csv", "1;2.75;2,5\n2;7.1;7,25\n", SEMICOLON, [INT, DEC, TXT]),
    "commas_and_whole_numbers": ("a.csv", "1;0,125\n2;7\n3;1,5\n", COMMAS, [INT, DEC]),
    "two_commas": ("a.csv", "1;1,2,3\n2;7,25\n", SEMICOLON, [INT, TXT]),
    "booleans": ("a.csv", "true,t\nFALSE,f\n", CSV, ["boolean", "boolean"]),
    "only_f": ("a.csv", "1,f\n2,f\n", CSV, [INT, TXT]),
    "yes_and_no": ("a.csv", "1,yes\n2,no\n", CSV, [INT, TXT]),
    "zero_and_one": ("a.csv", "0,x\n1,y\n", CSV, [INT, TXT]),
    "long_integers": ("a.csv", "9223372036854775808,1\n5,2\n", CSV, [DEC, INT]),
    "exponents": ("a.csv", "1e10,1\n2.5,2\nNaN,3\n", CSV, [DBL, INT]),
    "long_integers_and_floats": ("a.csv", "9007199254740993,9007199254740993\n1e5,NaN\n", CSV, [TXT, TXT]),
    "exact_decimals_and_floats": ("a.csv", "0.12345678901234567,1\n1e2,2\n", CSV, [TXT, INT]),
    "printed_doubles": ("a.csv", "0.12345678901234568,1\n1e-05,2\n0.5,3\n7,4\n", CSV, [DBL, INT]),
    "what_doubles_change": ("a.csv", "0.12345678901234567,1\n1e-05,2\n0.5,3\n7,4\n", CSV, [TXT, INT]),
    "nanoseconds_alone": ("a.csv", "".join(f"2024-04-1{n} 03:46:25.51419176{n}\n" for n in range(9)), CSV, [TXT]),
    "addresses_alone": ("a.csv", "".join(f"2001:db8:0:0:0:0:{n}:1\n" for n in range(9)), CSV, [TXT]),
    "short_addresses_alone": ("a.csv", "fe80::1:2\nfe80::1:3\n", CSV, [TXT]),
    "dates": ("a.csv", "2024-02-29,2024-02-29 12:00\n2024-03-01,2024-03-01\n", CSV, ["date", "timestamp"]),
    "time_zones": ("a.csv", "2024-02-29T12:00:00Z,1\n2024-02-29 12:00+02,2\n", CSV, ["timestamp with time zone", INT]),
    "zones_on_some": ("a.csv", "2024-02-29T12:00:00Z,1\n2024-02-29 12:00,2\n", CSV, [TXT, INT]),
    "no_such_day": ("a.csv", "2024-02-30,1\n2024-02-28,2\n", CSV, [TXT, INT]),
    "local_dates": ("a.csv", "13/12/2024,1\n01/02/2024,2\n", CSV | DMY, [DATE, INT]),
    "german_dates": ("a.csv", "1;31.12.2024\n2;1.2.2024\n", SEMICOLON | DMY, [INT, "date"]),
    "years_of_two_digits": ("a.csv", "1,01.02.24\n2,31.12.99\n", CSV, [INT, TXT]),
    "years_first_or_last": ("a.csv", "1,24/12/31\n2,23/11/30\n", CSV, [INT, TXT]),
    "years_first_beside_days_first": (
        "a.csv", "31/12/2024,24/12/31\n30/11/2024,23/11/30\n", CSV, [TXT, TXT]
    ),
    "one_day_above_12_among_many": ("a.csv", "01/02/2024,1\n" * 30 + "01/19/2024,1\n", CSV, [TXT, INT]),
    "codes_like_dates": ("a.csv", "24-01-0001,1\n24-02-0002,2\n14-07-6619,3\n", CSV, [TXT, INT]),
    "american_dates": ("a.csv", "12/31/2024,1\n01/02/2024,2\n", CSV | MDY, [DATE, INT]),
    "american_times": ("a.csv", "12/31/2024 9:05 AM,1\n01/02/2024 12:30:05 PM,2\n", CSV | MDY, ["timestamp", INT]),
    "other_columns_show_the_order": ("a.csv", "1/2/2024,31/1/2024\n3/4/2024,1/1/2024\n", CSV | DMY, ["date", "date"]),
    "dates_in_no_order": ("a.csv", "01/02/2024,1\n03/04/2024,2\n", CSV, [TXT, INT]),
    "dates_in_both_orders": ("a.csv", "13/02/2024,1\n03/14/2024,2\n", CSV, [TXT, INT]),
    "orders_that_differ": ("a.csv", "13/02/2024,1/2/2024\n03/02/2024,1/31/2024\n", CSV, [TXT, TXT]),
    "dates_and_days_that_are_none": ("a.csv", "31/12/2024,1\n31/02/2024,2\n", CSV | DMY, [TXT, INT]),
    "dates_in_two_forms": ("a.csv", "31/12/2024,1\n2024-12-30,2\n", CSV | DMY, [DATE, INT]),
    "versions_like_dates": ("a.csv", "13.2.10,1\n14.1.24,2\n", CSV, [TXT, INT]),
    "slashes_and_the_year_first": ("a.csv", "2024/12/31,1\n2024/1/2,2\n", CSV, [DATE, INT]),
    "uuids": ("a.csv", "6ba7b810-9dad-11d1-80b4-00c04fd430c8,1\n", CSV, ["uuid", INT]),
    "quoted_empty": ("a.csv", '1,""\n2,"3"\n', CSV, [INT, TXT]),
    "versions": ("a.csv", "1.2.3,1\n1.10.0,2\n", CSV, [TXT, INT]),
    # -- headers
    "years_are_data": ("a.csv", "2019,2020\n1,2\n", CSV, [INT, INT]),
    "all_texts": ("a.csv", "Anna,Berlin\nBob,Paris\nEva,Rome\n", CSV, [TXT, TXT]),
    "all_texts_header": ("a.csv", "name,city\nAnna,Berlin\nBob,Paris\n", CSV | NAMED, [TXT, TXT]),
    "header_without_first_name": ("a.csv", ",x,y\n0,1,2\n1,3,4\n2,5,6\n", CSV | NAMED, [INT, INT, INT]),
    "single_letters": ("a.csv", "c,x\nf,y\nf,z\n", CSV, [TXT, TXT]),
    "header_twice_the_same": ("a.csv", "a,a\nb,c\n", CSV, [TXT, TXT]),
    "bad_first_record": ("a.csv", "x,,,\n1,2,3,4\n", CSV, [TXT, INT, INT, INT]),
    "years_are_names": ("a.csv", "country,2020,2021\nDE,1,2\nFR,4,5\n", CSV | NAMED, [TXT, INT, INT]),
    "year_is_a_name": ("a.csv", "x,2020\n1,5\n2,6\n3,17\n", CSV | NAMED, [INT, INT]),
    "year_of_birth": ("a.csv", "Anna,Berlin,1985\nBob,Paris,1990\n", CSV, [TXT, TXT, INT]),
    "name_twice": ("a.csv", "id,ID,v\n0,1,x\n1,2,y\n", CSV | NAMED, [INT, INT, TXT]),
    "usual_word_in_a_text": ("a.csv", "Alice,customer support\nBob,sales\nEve,ops\n", CSV, [TXT, TXT]),
    "usual_word_in_a_title": ("a.csv", "Country Road\nHey Jude\nLet it be\n", CSV, [TXT]),
    "usual_word_in_a_city": ("a.csv", "New York City,NY\nBoston,MA\n", CSV, [TXT, TXT]),
    "more_columns_than_are_kept": (
        "a.csv", ",".join(f"c{i}" for i in range(2003)) + ("\n" + ",".join("7" * 2003)) * 3, CSV | NAMED, [INT] * 2000
    ),
    "text_header": ("a.tsv", "id\tname\n1\ta\n2\tb\n3\tc\n", TEXT | NAMED, [INT, TXT]),
}  # fmt: skip


def facts(sniffed: Sniffed) -> dict[str, Any]:
    dialect = sniffed.dialect
    names = ("format", "delimiter", "quote", "escape", "null_text", "date_style", "thousands")
    found = {name: getattr(dialect, name) for name in names}
    if dialect.decimal_separator is not None:
        found["decimal_separator"] = dialect.decimal_separator
    return {name: value for name, value in found.items() if value is not None} | {"header": sniffed.header.value}


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(tmp_path: Path, name: str) -> None:
    file_name, data, expected, expected_types = CORPUS[name]
    sniffed = sniff(write(tmp_path / file_name, data))
    assert facts(sniffed) == expected
    assert types(sniffed) == expected_types


def test_an_order_that_dates_of_another_form_show(tmp_path: Path) -> None:
    """Who writes them otherwise may mean another order."""
    same, other = (
        sniff(write(tmp_path / "a.csv", f"31/1/2024,{one}\n1/1/2024,{two}\n")).noted.date_style
        for one, two in (("1/2/2024", "3/4/2024"), ("1.2.2024", "3.4.2024"))
    )
    assert same is not None
    assert other is not None
    assert (same.value, other.value) == ("DMY", "DMY")
    assert same.confidence >= LOW_CONFIDENCE > other.confidence
    assert other.reason.endswith("none shows the order of those with . in them")


def test_records_that_nothing_divides_evenly(tmp_path: Path) -> None:
    """One field each is then a doubtful reading, whatever the name says."""
    delimiter = decision(sniff(write(tmp_path / "a.csv", "1;a;x\n2;b;y\n3;c\n4;d\n")), "delimiter")
    assert delimiter.value == ","
    assert delimiter.confidence < LOW_CONFIDENCE
    assert delimiter.alternatives[0] == ";"
    sure = decision(sniff(write(tmp_path / "b.csv", "a;b\nc\nd; e; f\n")), "delimiter")
    assert sure.confidence >= LOW_CONFIDENCE


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("name", CORPUS)
def test_the_options_say_the_same(tmp_path: Path, name: str) -> None:
    """What is printed can be pasted, and then means the same dialect without any sniffing."""
    file_name, data, _, _ = CORPUS[name]
    dialect = sniff(write(tmp_path / file_name, data)).dialect
    words = shlex.split(options_text(dialect, dialect.header))
    options = {word.removeprefix("--"): value for word, value in zip(words[::2], words[1::2], strict=True)}
    again = plan_dialect(
        options["format"],
        delimiter=options["delimiter"],
        quote=options.get("quote"),
        escape=options.get("escape"),
        null_text=options["null"],
        header=options["header"],
        encoding=options.get("encoding"),
        trailing_delimiter=True if "trailing-delimiter" in options else None,
        date_style=options.get("date-style"),
        decimal_separator=options.get("decimal-separator"),
        thousands=options.get("thousands"),
    )
    assert again == dialect


@pytest.mark.parametrize(
    ("file_name", "data"),
    [("notes.dat", "Dear all,\nthis is a letter; it has no fields\nat all.\n"), ("x", "word\n")],
)
def test_no_format(tmp_path: Path, file_name: str, data: str) -> None:
    path = write(tmp_path / file_name, data)
    with pytest.raises(UsageError, match="neither its name nor its content") as caught:
        sniff(path)
    assert str(path) in str(caught.value)
    assert "--format" in str(caught.value.hint)


@pytest.mark.parametrize("file_name", ["a.csv", "a.tbl", "a.txt"])
def test_an_empty_file_is_what_its_name_says(tmp_path: Path, file_name: str) -> None:
    expected = {"a.csv": "csv", "a.tbl": "tbl", "a.txt": "text"}[file_name]
    assert sniff(write(tmp_path / file_name, "")).dialect == plan_dialect(expected)


GIVEN: list[tuple[dict[str, str], str, dict[str, str]]] = [
    ({"delimiter": ";"}, "1;2,5\n2;3,5\n", {"delimiter": ";"}),
    ({"delimiter": ","}, "1;2,5\n2;3,5\n", {"delimiter": ","}),
    ({"delimiter": "\\t"}, "1\t2,5\n", {"delimiter": "\t"}),
    ({"quote": "'"}, '1,"a"\n2,"b"\n', {"quote": "'", "escape": "'"}),
    ({"escape": "\\"}, '1,"a"\n2,"b"\n', {"quote": '"', "escape": "\\"}),
    ({"null_text": "x"}, "1,NA\n2,5\n", {"null_text": "x"}),
    ({"null_text": ""}, "1,NA\n2,5\n", {"null_text": ""}),
]


@pytest.mark.parametrize(("given", "data", "expected"), GIVEN)
def test_what_is_given_is_not_sniffed(
    tmp_path: Path, given: dict[str, str], data: str, expected: dict[str, str]
) -> None:
    found = facts(sniff(write(tmp_path / "a.csv", data), **given))
    assert expected.items() <= found.items()


def test_the_number_of_columns_decides(tmp_path: Path) -> None:
    """Both delimiters are regular; the target has as many columns as one of them makes."""
    path = write(tmp_path / "a.csv", "a,b;c;d\ne,f;g;h\n")
    assert sniff(path, 2).dialect.delimiter == ","
    assert sniff(path, 3).dialect.delimiter == ";"


def test_two_characters_between_fields(tmp_path: Path) -> None:
    for text, doubted in (
        ("1||a||2\n3||b||4\n", True),
        ("id||v\n1||2\n", True),
        ("1||a|3|2\n3||b||4\n", False),
        ("1,,x\n2,,y\n", False),
    ):
        found = sniff(write(tmp_path / "a.csv", text)).decisions
        delimiter = next(decision for decision in found if decision.option == "delimiter")
        assert ("every second field" in delimiter.reason) == doubted
        assert (delimiter.confidence < LOW_CONFIDENCE) == doubted


def test_a_title_above_the_header(tmp_path: Path) -> None:
    titled = sniff(write(tmp_path / "a.csv", "Report;;\nId;Name;Sum\n1;a;2\n2;b;3\n3;c;4\n")).header
    assert (titled.value, titled.confidence < LOW_CONFIDENCE) == ("no", True)
    assert "--skip-lines" in titled.reason
    assert sniff(write(tmp_path / "b.csv", "a;;\n1;b;2\n2;c;3\n")).header.confidence >= LOW_CONFIDENCE
    assert sniff(write(tmp_path / "c.csv", "id;;\n1;4;2\n2;5;3\n")).header.confidence < LOW_CONFIDENCE


def test_low_confidence(tmp_path: Path) -> None:
    broken = sniff(write(tmp_path / "a.csv", '1,2\n"x,3\n4\n5,6,7\n'))
    assert min(decision.confidence for decision in broken.decisions) < LOW_CONFIDENCE
    clean = sniff(write(tmp_path / "b.csv", "id,x\n" + "1,2.5\n" * 20))
    assert min(decision.confidence for decision in clean.decisions) >= LOW_CONFIDENCE
    assert clean.header.confidence > 0.9


def test_numbers_for_an_engine_without_plain_numeric(tmp_path: Path) -> None:
    data = "1.25,1.5,9223372036854775808,123456789012345678901.25\n2.50,2.25,1,1.25\n"
    sniffed = sniff(write(tmp_path / "a.csv", data))
    found = types(sniffed, unbounded_numeric=False)
    assert found == ["decimal(18,2)", "double precision", "decimal(38,0)", "decimal(38,2)"]


def test_dates_are_told(tmp_path: Path) -> None:
    for data, said in (
        ("1/2/2024,1\n2/3/2024,2\n", "does not show"),
        ("13/12/2024,1\n12/13/2024,2\n", "differ in the order"),
        ("31/12/2024,1\n31/02/2024,2\n", "none in the order DMY"),
    ):
        sniffed = sniff(write(tmp_path / "a.csv", data))
        (note,) = describe_dates(sniffed.profile, ["d", "n"], sniffed.dialect.date_style)
        assert "column d" in note
        assert said in note
        assert describe_dates(sniffed.profile, [None, "n"], sniffed.dialect.date_style) == []


def test_files_of_one_header(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / f"{i}.csv", f"left,right\nx{i},y{i}\n")) for i in range(30)]
    assert Sniffer(paths, "auto", Given()).look(None).header.value == "yes"


@pytest.mark.parametrize(
    "data",
    [
        "Alice,customer support\nBob,sales\n",
        "Road,2024\nHill,5\nWay,77\n",
        "1\ta\\new\n2\tb\\temp\n",
        '1\t"Smith"\n2\tAnna\n3\tx\n',
    ],
)
def test_a_second_reading_is_told(tmp_path: Path, data: str) -> None:
    """Where another reading is as good, the note says so."""
    for name in ("a.dat", "a.txt") if "\t" in data else ("a.csv",):
        sniffed = sniff(write(tmp_path / name, data))
        unsure = min(decision.confidence for decision in [*sniffed.decisions, sniffed.header]) < LOW_CONFIDENCE
        assert unsure == (name != "a.dat" or "Smith" not in data), name


@pytest.mark.parametrize("data", ['a\n"b"\n"c"\n', '"a" or "b"\n"c" or "d"\n', '"a"\n\n"b"\n'])
def test_quotes_around_some_values_of_one_column(tmp_path: Path, data: str) -> None:
    """They stay, and the note says so; where all have them, there is no doubt."""
    found = {decision.option: decision for decision in sniff(write(tmp_path / "a.txt", data)).decisions}
    stays = "\n\n" not in data
    assert (found["format"].value == "text") == stays
    assert (found["format"].confidence < LOW_CONFIDENCE) == stays


@pytest.mark.parametrize(("line", "remedy"), [("sep=;", "--delimiter ';'"), ('\ufeff"sep=\t"', "--delimiter '\\t'")])
def test_the_line_that_tells_excel_the_delimiter(tmp_path: Path, line: str, remedy: str) -> None:
    with pytest.raises(UsageError, match="Excel") as failed:
        sniff(write(tmp_path / "a.csv", f"{line}\r\nid;name\r\n1;a\r\n2;b\r\n"))
    assert f"--skip-lines 1 {remedy}" in str(failed.value.hint)


@pytest.mark.parametrize("lines", ["\n", "\r\n", "\ufeff\n\n\n", "\n\n"])
def test_empty_lines_above_the_header(tmp_path: Path, lines: str) -> None:
    with pytest.raises(UsageError, match="begins with") as failed:
        sniff(write(tmp_path / "a.csv", f"{lines}id,name\n1,a\n\n2,b\n"))
    assert f"--skip-lines {lines.count(chr(10))} " in str(failed.value.hint)
    # An empty text is a record where there is one column.
    assert sniff(write(tmp_path / "a.csv", f"{lines}a\nb\n")).profile.fields == 1


@pytest.mark.parametrize("null", ["", "NULL", "\\N"])
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.dat"])
def test_moments_and_nulls_of_a_single_column(tmp_path: Path, name: str, null: str) -> None:
    """Spaces and colons stand in every value."""
    values = [f"2024-03-{day:02} 12:{day:02}:56.5" for day in range(1, 29)]
    sniffed = sniff(write(tmp_path / name, "".join(f"{value}\n" for value in [*values, null, *values])))
    assert sniffed.profile.fields == 1
    assert types(sniffed) == ["timestamp"]


def test_a_word_for_null_that_is_a_text_elsewhere(tmp_path: Path) -> None:
    among_texts = "stands among texts too, in 1 column, and becomes NULL there, where --force-not-null keeps it"
    for text, other, confidence, said in (
        ("NA", "Chad", 0.6, among_texts), ("GB", "Chad", 0.85, "in 1 column of"), ("NA", "FR", 0.85, "in 1 column of"),
    ):  # fmt: skip
        sniffed = sniff(write(tmp_path / "a.csv", f"id,x,n\n1,{text},2\n2,DE,NA\n3,{other},5\n"))
        null = next(decision for decision in sniffed.decisions if decision.option == "null")
        assert (null.value, null.confidence) == ("NA", confidence)
        assert said in null.reason


def test_headers_of_files_that_were_put_together(tmp_path: Path) -> None:
    for mark in ("", "\ufeff"):
        text = f"{mark}id,name\n1,a\n2,b\n{mark}id,name\n3,c\n"
        header = sniff(write(tmp_path / "a.csv", text)).header
        assert (header.value, header.confidence < LOW_CONFIDENCE) == ("yes", True)
        assert "repeated header lines" in header.reason


def test_files_that_begin_with_the_same_record(tmp_path: Path) -> None:
    """What occurs again below is a value, in however many files it comes first."""
    paths = [str(write(tmp_path / f"{i}.csv", "DE,Berlin\nDE,Bonn\nFR,Nice\n")) for i in range(2)]
    header = Sniffer(paths, "auto", Given()).look(None).header
    assert header.value == "no"
    assert header.confidence < LOW_CONFIDENCE


def test_files_of_different_formats(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / "a.csv", "1,x\n2,y\n")), str(write(tmp_path / "b.csv", "1;x;5\n2;y;6\n3;z;7\n"))]
    with pytest.raises(UsageError, match="different formats") as caught:
        Sniffer(paths, "auto", Given()).look(None)
    assert "a.csv" in str(caught.value)
    assert "b.csv" in str(caught.value)


# ---- samples -----------------------------------------------------------------------------------------------


def test_a_large_file_is_sampled_everywhere(tmp_path: Path) -> None:
    """The first half has nothing but integers, the second one has fractions, and the last record a text."""
    rows = [f'{i},{i if i < 300_000 else i + 0.5},"a, ""b""\n{i}"\n' for i in range(600_000)]
    path = write(tmp_path / "a.csv", "".join([*rows, "1,1,end\n"]))
    sample = take_sample([str(path)])
    assert sample.size_bytes <= TOTAL_BYTES
    assert sum(piece.ends for piece in sample.pieces) == 1
    sniffed = sniff(path)
    assert facts(sniffed) == CSV
    assert types(sniffed) == [INT, DEC, TXT]
    assert sniffed.profile.regularity == 1.0


def test_many_files_are_sampled_within_the_limit(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / f"{i:03}.csv", "1,2\n" * 300_000)) for i in range(20)]
    sample = take_sample([*paths, str(write(tmp_path / "empty.csv", ""))])
    assert sample.size_bytes <= TOTAL_BYTES
    assert sample.paths[0] == paths[0]
    assert sample.paths[-1] == paths[-1]
    assert take_sample(paths) == take_sample(paths)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 2047, 2048])
def test_samples_of_all_sizes(tmp_path: Path, size: int) -> None:
    """Around the limits between one piece and many; every byte of a small file is in its sample."""
    path = write(tmp_path / "a.csv", b"1\n" * (size * 512))
    sample = take_sample([str(path)])
    assert all(piece.data for piece in sample.pieces)
    assert [piece.begins for piece in sample.pieces].count(True) == min(size, 1)
    if len(sample.pieces) == 1:
        assert sample.size_bytes == size * 1024


def test_a_record_longer_than_the_head(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '1,"' + "x" * 1_000_000 + '"\n2,y\n')
    assert facts(sniff(path)) == CSV


# ---- encodings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"1,a\n", "UTF8"),
        ("1,äöü 漢字\n".encode(), "UTF8"),
        ("1,Größe\n2,Müller\n".encode("latin-1"), "WIN1252"),
        ("1,caf\xe9\n".encode("latin-1"), "WIN1252"),
        ("1,Größe\x81\n".encode("latin-1"), "LATIN1"),
        ("1,Größe 5 €\n".encode("cp1252") + b"2,x\x9dy\n", "WIN1252"),
        ("1,Müller\n2,Größe\n".encode("cp850"), "UTF8"),
        (b"1,,,\xff\n", "UTF8"),
        ("1,äöü\n2,漢字\n".encode() + b"3,\xe4x\n", "UTF8"),
        ("1,a\n".encode("utf-16"), "UTF-16LE"),
        ("\ufeff1,a\n".encode("utf-16-be"), "UTF-16BE"),
    ],
)
def test_encodings(data: bytes, encoding: str) -> None:
    decision = decide_encoding([data])
    assert decision.value == encoding
    text = data.decode({"WIN1252": "cp1252", "LATIN1": "latin-1", "UTF8": "utf-8"}.get(encoding, encoding), "replace")
    assert to_utf8(data, encoding).decode(errors="replace") == text.removeprefix("\ufeff")


def test_an_encoding_that_parts_contradict() -> None:
    decision = decide_encoding([b"1,caf\xe9\n2,gr\xfcn\n", "3,grün\n".encode()])
    assert decision.value == "WIN1252"
    assert "valid UTF-8" in decision.reason


def test_characters_cut_by_a_chunk() -> None:
    text = "äöü漢字🚂".encode()
    for start in range(len(text)):
        for end in range(start, len(text) + 1):
            assert decide_encoding([text[start:end]]).value == "UTF8", (start, end)


# ---- names and types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "cleaned"),
    [
        (["id", "Name"], ["id", "name"]),
        (["First Name", "orderID", "HTTPStatus"], ["first_name", "order_id", "http_status"]),
        (["a", "A", "a "], ["a", "a_2", "a_3"]),
        (["", "x", ""], ["column1", "x", "column3"]),
        (["column2", ""], ["column2", "column2_2"]),
        (["2020", "%", "Größe (m²)"], ["_2020", "column2", "größe_m2"]),
        (['a"b', "a.b", "a;b"], ["a_b", "a_b_2", "a_b_3"]),
        (["x" * 70, "x" * 80], ["x" * 63, "x" * 61 + "_2"]),
        (["ä" * 40], ["ä" * 31]),
    ],
)
def test_clean_names(names: list[str], cleaned: list[str]) -> None:
    assert clean_names(names) == cleaned
    assert clean_names(cleaned) == cleaned
