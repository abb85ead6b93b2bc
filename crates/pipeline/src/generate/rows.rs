//! Chunks as text: `tbl` as dbgen writes it, and `csv`.
//!
//! tpchgen's rows can print themselves, but through `core::fmt`, which costs more than making the row. Here each
//! field is appended to the buffer directly. Advice for hackers: the tests hold every table against tpchgen's own
//! printing, row by row; a new field type belongs into that test too.

use std::fmt::Display;
use std::io::Write;
use std::sync::LazyLock;

use tpchgen::dates::{MIN_GENERATE_DATE, TOTAL_DATE_RANGE, TPCHDate};
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::{
    Customer, CustomerGenerator, LineItem, LineItemGenerator, Nation, NationGenerator, Order, OrderGenerator, Part,
    PartGenerator, PartSupp, PartSuppGenerator, Region, RegionGenerator, Supplier, SupplierGenerator,
};

use super::plan::Chunk;
use super::table::Table;

/// `1992-01-01` and the days that follow, by tpchgen's date index.
static DATES: LazyLock<Vec<[u8; 10]>> = LazyLock::new(|| {
    (0..TOTAL_DATE_RANGE)
        .map(|day| {
            let text = TPCHDate::new(MIN_GENERATE_DATE + day).to_string();
            text.as_bytes().try_into().expect("a date has ten characters")
        })
        .collect()
});

/// `00` to `99`.
static TWO_DIGITS: [[u8; 2]; 100] = {
    let mut digits = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        digits[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    digits
};

/// How fields and records end.
pub(super) trait Dialect {
    /// Byte after each field.
    const DELIMITER: u8;
    /// Whether a field that holds the delimiter is quoted.
    const QUOTES: bool;
    /// Ends the record, whose last field is followed by a delimiter.
    fn end_record(out: &mut Vec<u8>);
}

/// dbgen's text: every field is followed by `|`, the last one too.
pub(super) struct Tbl;

impl Dialect for Tbl {
    const DELIMITER: u8 = b'|';
    const QUOTES: bool = false;

    fn end_record(out: &mut Vec<u8>) {
        out.push(b'\n');
    }
}

/// RFC 4180.
pub(super) struct Csv;

impl Dialect for Csv {
    const DELIMITER: u8 = b',';
    const QUOTES: bool = true;

    fn end_record(out: &mut Vec<u8>) {
        out.pop();
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the rows of a chunk to `out` and returns their number.
pub(super) fn append_chunk<D: Dialect>(table: Table, scale: f64, chunk: &Chunk, out: &mut Vec<u8>) -> u64 {
    macro_rules! rows {
        ($generator:ident, $key:ident, $append:ident) => {{
            let mut rows = 0;
            for row in $generator::new(scale, chunk.block, chunk.block_count).iter() {
                if row.$key < chunk.first_key {
                    continue;
                }
                if row.$key > chunk.last_key {
                    break;
                }
                $append::<D>(&row, out);
                D::end_record(out);
                rows += 1;
            }
            rows
        }};
    }
    match table {
        Table::Region => rows!(RegionGenerator, r_regionkey, region),
        Table::Nation => rows!(NationGenerator, n_nationkey, nation),
        Table::Supplier => rows!(SupplierGenerator, s_suppkey, supplier),
        Table::Customer => rows!(CustomerGenerator, c_custkey, customer),
        Table::Part => rows!(PartGenerator, p_partkey, part),
        Table::Partsupp => rows!(PartSuppGenerator, ps_partkey, partsupp),
        Table::Orders => rows!(OrderGenerator, o_orderkey, order),
        Table::Lineitem => rows!(LineItemGenerator, l_orderkey, lineitem),
    }
}

fn region<D: Dialect>(row: &Region<'_>, out: &mut Vec<u8>) {
    integer::<D>(row.r_regionkey, out);
    text::<D>(row.r_name, out);
    text::<D>(row.r_comment, out);
}

fn nation<D: Dialect>(row: &Nation<'_>, out: &mut Vec<u8>) {
    integer::<D>(row.n_nationkey, out);
    text::<D>(row.n_name, out);
    integer::<D>(row.n_regionkey, out);
    text::<D>(row.n_comment, out);
}

fn supplier<D: Dialect>(row: &Supplier, out: &mut Vec<u8>) {
    integer::<D>(row.s_suppkey, out);
    numbered::<D>("Supplier#", row.s_suppkey, out);
    displayed::<D>(&row.s_address, out);
    integer::<D>(row.s_nationkey, out);
    displayed::<D>(&row.s_phone, out);
    decimal::<D>(row.s_acctbal, out);
    text::<D>(&row.s_comment, out);
}

fn customer<D: Dialect>(row: &Customer<'_>, out: &mut Vec<u8>) {
    integer::<D>(row.c_custkey, out);
    numbered::<D>("Customer#", row.c_custkey, out);
    displayed::<D>(&row.c_address, out);
    integer::<D>(row.c_nationkey, out);
    displayed::<D>(&row.c_phone, out);
    decimal::<D>(row.c_acctbal, out);
    text::<D>(row.c_mktsegment, out);
    text::<D>(row.c_comment, out);
}

fn part<D: Dialect>(row: &Part<'_>, out: &mut Vec<u8>) {
    integer::<D>(row.p_partkey, out);
    displayed::<D>(&row.p_name, out);
    displayed::<D>(&row.p_mfgr, out);
    displayed::<D>(&row.p_brand, out);
    text::<D>(row.p_type, out);
    integer::<D>(i64::from(row.p_size), out);
    text::<D>(row.p_container, out);
    decimal::<D>(row.p_retailprice, out);
    text::<D>(row.p_comment, out);
}

fn partsupp<D: Dialect>(row: &PartSupp<'_>, out: &mut Vec<u8>) {
    integer::<D>(row.ps_partkey, out);
    integer::<D>(row.ps_suppkey, out);
    integer::<D>(i64::from(row.ps_availqty), out);
    decimal::<D>(row.ps_supplycost, out);
    text::<D>(row.ps_comment, out);
}

fn order<D: Dialect>(row: &Order<'_>, out: &mut Vec<u8>) {
    integer::<D>(row.o_orderkey, out);
    integer::<D>(row.o_custkey, out);
    text::<D>(row.o_orderstatus.as_str(), out);
    decimal::<D>(row.o_totalprice, out);
    date::<D>(row.o_orderdate, out);
    text::<D>(row.o_orderpriority, out);
    displayed::<D>(&row.o_clerk, out);
    integer::<D>(i64::from(row.o_shippriority), out);
    text::<D>(row.o_comment, out);
}

fn lineitem<D: Dialect>(row: &LineItem<'_>, out: &mut Vec<u8>) {
    integer::<D>(row.l_orderkey, out);
    integer::<D>(row.l_partkey, out);
    integer::<D>(row.l_suppkey, out);
    integer::<D>(i64::from(row.l_linenumber), out);
    integer::<D>(row.l_quantity, out);
    decimal::<D>(row.l_extendedprice, out);
    decimal::<D>(row.l_discount, out);
    decimal::<D>(row.l_tax, out);
    text::<D>(row.l_returnflag, out);
    text::<D>(row.l_linestatus, out);
    date::<D>(row.l_shipdate, out);
    date::<D>(row.l_commitdate, out);
    date::<D>(row.l_receiptdate, out);
    text::<D>(row.l_shipinstruct, out);
    text::<D>(row.l_shipmode, out);
    text::<D>(row.l_comment, out);
}

#[inline]
fn integer<D: Dialect>(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    out.push(D::DELIMITER);
}

/// Hundredths with exactly two decimals, as `%d.%02d`.
#[inline]
fn decimal<D: Dialect>(value: TPCHDecimal, out: &mut Vec<u8>) {
    let hundredths = value.into_inner();
    if hundredths < 0 {
        out.push(b'-');
    }
    let hundredths = hundredths.unsigned_abs();
    out.extend_from_slice(itoa::Buffer::new().format(hundredths / 100).as_bytes());
    let [tens, ones] = TWO_DIGITS[(hundredths % 100) as usize];
    out.extend_from_slice(&[b'.', tens, ones, D::DELIMITER]);
}

#[inline]
fn date<D: Dialect>(value: TPCHDate, out: &mut Vec<u8>) {
    out.extend_from_slice(&DATES[value.into_inner() as usize]);
    out.push(D::DELIMITER);
}

#[inline]
fn text<D: Dialect>(value: &str, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(value.as_bytes());
    end_text::<D>(start, out);
}

/// A key of at least nine digits after a word: `Customer#000000001`.
fn numbered<D: Dialect>(word: &str, key: i64, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(key).as_bytes();
    out.extend_from_slice(word.as_bytes());
    out.extend_from_slice(&b"000000000"[digits.len().min(9)..]);
    out.extend_from_slice(digits);
    out.push(D::DELIMITER);
}

/// A field that tpchgen only hands out by printing it.
fn displayed<D: Dialect>(value: &impl Display, out: &mut Vec<u8>) {
    let start = out.len();
    write!(out, "{value}").expect("writing to memory does not fail");
    end_text::<D>(start, out);
}

#[inline]
fn end_text<D: Dialect>(start: usize, out: &mut Vec<u8>) {
    if D::QUOTES && out[start..].iter().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        quote(start, out);
    }
    out.push(D::DELIMITER);
}

/// Puts the field that begins at `start` in quotes and doubles those in it, where it stands.
fn quote(start: usize, out: &mut Vec<u8>) {
    for position in (start..out.len()).rev() {
        if out[position] == b'"' {
            out.insert(position, b'"');
        }
    }
    out.insert(start, b'"');
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv_field(value: &str) -> String {
        let mut out = Vec::new();
        text::<Csv>(value, &mut out);
        String::from_utf8(out).expect("csv of text is text")
    }

    #[test]
    fn a_csv_field_is_quoted_only_where_it_must_be() {
        assert_eq!(csv_field("plain text"), "plain text,");
        assert_eq!(csv_field(""), ",");
        assert_eq!(csv_field("a,b"), "\"a,b\",");
        assert_eq!(csv_field("\"a\""), "\"\"\"a\"\"\",");
        assert_eq!(csv_field("line\nfeed"), "\"line\nfeed\",");
    }

    #[test]
    fn a_decimal_is_written_as_dbgen_writes_it() {
        for (hundredths, expected) in
            [(0, "0.00|"), (5, "0.05|"), (-5, "-0.05|"), (-99_999, "-999.99|"), (10_494_950, "104949.50|")]
        {
            let mut out = Vec::new();
            decimal::<Tbl>(TPCHDecimal(hundredths), &mut out);
            assert_eq!(out, expected.as_bytes());
            assert_eq!(out[..out.len() - 1], *TPCHDecimal(hundredths).to_string().as_bytes());
        }
    }

    #[test]
    fn a_number_in_a_name_has_nine_digits_or_more() {
        for (key, expected) in
            [(1, "Clerk#000000001|"), (123_456_789, "Clerk#123456789|"), (1_500_000_000, "Clerk#1500000000|")]
        {
            let mut out = Vec::new();
            numbered::<Tbl>("Clerk#", key, &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
