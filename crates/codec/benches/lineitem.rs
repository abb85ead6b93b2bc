//! Text to COPY binary, to heap pages and to Arrow, on lineitem as dbgen writes it; megabytes are of text. And what
//! looks at every byte besides: the check of UTF-8 where not all is ASCII, the exact cutting of what has quotes.

mod support;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use support::{WINDOW_BYTES, column, each_window, heap_pages};
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::dialect::Dialect;
use tipple_codec::encode::arrow::ArrowEncoder;
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::scan::Scanner;
use tipple_codec::split::scan_part;
use tipple_codec::value::ServerVersion;
use tpchgen::generators::LineItemGenerator;

/// As much as is read at a time to find record ends.
const SPLIT_BYTES: usize = 1 << 20;

fn lineitem() -> Vec<u8> {
    use std::io::Write;
    let mut text = Vec::new();
    for row in LineItemGenerator::new(0.01, 1, 1).iter() {
        writeln!(text, "{row}").expect("writing to memory");
    }
    text
}

fn columns() -> Vec<Column> {
    let decimal = || ColumnType::Numeric { precision: 15, scale: 2 };
    let kinds = [
        ("l_orderkey", ColumnType::Int8),
        ("l_partkey", ColumnType::Int4),
        ("l_suppkey", ColumnType::Int4),
        ("l_linenumber", ColumnType::Int4),
        ("l_quantity", decimal()),
        ("l_extendedprice", decimal()),
        ("l_discount", decimal()),
        ("l_tax", decimal()),
        ("l_returnflag", ColumnType::Char { limit: 1 }),
        ("l_linestatus", ColumnType::Char { limit: 1 }),
        ("l_shipdate", ColumnType::Date),
        ("l_commitdate", ColumnType::Date),
        ("l_receiptdate", ColumnType::Date),
        ("l_shipinstruct", ColumnType::Char { limit: 25 }),
        ("l_shipmode", ColumnType::Char { limit: 10 }),
        ("l_comment", ColumnType::Varchar { limit: 44 }),
    ];
    kinds.map(|(name, kind)| column(name, kind, true)).into()
}

/// The same records with a letter of two bytes in most comments.
fn accented(text: &[u8]) -> Vec<u8> {
    let lines = std::str::from_utf8(text).expect("dbgen writes ASCII").lines();
    let accented = lines.map(|line| {
        let comment = line.trim_end_matches('|').rfind('|').expect("a record has fields");
        format!("{}{}\n", &line[..comment], line[comment..].replacen('e', "é", 1))
    });
    accented.collect::<String>().into_bytes()
}

/// The same records as CSV, all text quoted.
fn quoted(text: &[u8], columns: &[Column]) -> Vec<u8> {
    let is_text = |kind: &ColumnType| matches!(kind, ColumnType::Char { .. } | ColumnType::Varchar { .. });
    let mut csv = String::new();
    for line in std::str::from_utf8(text).expect("dbgen writes ASCII").lines() {
        let fields = line.split('|').zip(columns);
        let fields =
            fields.map(|(field, column)| if is_text(&column.kind) { format!("\"{field}\"") } else { field.into() });
        csv.push_str(&fields.collect::<Vec<_>>().join(","));
        csv.push('\n');
    }
    csv.into_bytes()
}

fn copy_binary(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    text: &[u8],
    columns: &[Column],
    dialect: Dialect,
    digest: bool,
) {
    let mut scanner = Scanner::new(dialect.clone(), columns.len());
    let mut encoder = CopyBinaryEncoder::new(columns, dialect, ServerVersion(18), digest);
    group.bench_function(name, |bencher| {
        bencher.iter_batched_ref(
            || Vec::with_capacity(4 * WINDOW_BYTES),
            |out| {
                each_window(text, &mut scanner, |records| {
                    out.clear();
                    assert!(encoder.encode(records, out).problem.is_none());
                });
            },
            BatchSize::LargeInput,
        );
    });
}

fn lineitem_benches(criterion: &mut Criterion) {
    let text = lineitem();
    let columns = columns();
    let mut group = criterion.benchmark_group("lineitem");
    group.throughput(Throughput::Bytes(text.len() as u64));
    let mut scanner = Scanner::new(Dialect::tbl(), columns.len());
    group.bench_function("scan", |bencher| {
        bencher.iter(|| each_window(&text, &mut scanner, |records| assert!(records.irregular.is_none())));
    });
    for (name, digest) in [("copy_binary", false), ("copy_binary_digest", true)] {
        copy_binary(&mut group, name, &text, &columns, Dialect::tbl(), digest);
    }
    heap_pages(&mut group, "heap_pages", &text, &columns, Dialect::tbl());
    let mut encoder = ArrowEncoder::new(columns.clone(), Dialect::tbl());
    group.bench_function("arrow", |bencher| {
        bencher.iter(|| {
            each_window(&text, &mut scanner, |records| assert!(encoder.encode(records).1.problem.is_none()));
        });
    });

    let accented = accented(&text);
    group.throughput(Throughput::Bytes(accented.len() as u64));
    group.bench_function("validate_utf8", |bencher| {
        bencher.iter(|| {
            for window in accented.chunks(WINDOW_BYTES) {
                // It judges when it has read all, so windows that end within a letter take no less time.
                black_box(simdutf8::basic::from_utf8(window).is_ok());
            }
        });
    });
    copy_binary(&mut group, "copy_binary_utf8", &accented, &columns, Dialect::tbl(), false);

    let quoted = quoted(&text, &columns);
    group.throughput(Throughput::Bytes(quoted.len() as u64));
    group.bench_function("split_quoted", |bencher| {
        let dialect = Dialect::csv();
        bencher.iter(|| {
            for part in quoted.chunks(SPLIT_BYTES) {
                black_box(scan_part(part, &dialect));
            }
        });
    });
    copy_binary(&mut group, "copy_binary_quoted", &quoted, &columns, Dialect::csv(), false);
    group.finish();
}

criterion_group!(benches, lineitem_benches);
criterion_main!(benches);
