//! Text to heap pages and to Arrow on tables of other shapes than lineitem, those of `benchmarks/shapes.py`: 100 columns of
//! all kinds, three integers, long texts. Megabytes are of text.

mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::fmt::Write as _;
use support::{column, each_window, heap_pages};
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::dialect::Dialect;
use tipple_codec::encode::arrow::ArrowEncoder;
use tipple_codec::scan::Scanner;

/// A number that looks random, the same on every machine (splitmix64).
fn hash(row: u64, column: u64) -> u64 {
    let mut value = (row * 1000 + column + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

const WIDE_COLUMNS: usize = 100;

fn wide_kind(number: usize) -> ColumnType {
    match number % 10 {
        0 | 1 => ColumnType::Int4,
        2 => ColumnType::Int8,
        3 => ColumnType::Numeric { precision: 12, scale: 2 },
        4 => ColumnType::Numeric { precision: 15, scale: 4 },
        5 => ColumnType::Float8,
        6 => ColumnType::Date,
        7 => ColumnType::Timestamp { precision: 6 },
        8 => ColumnType::Bool,
        _ => ColumnType::Text,
    }
}

fn wide_value(out: &mut String, number: usize, value: u64) {
    let (day, month, year) = (1 + value % 28, 1 + value / 28 % 12, 1992 + value / 336 % 27);
    let written = match number % 10 {
        0 => write!(out, "{}", value % 2_000_000_000),
        1 => write!(out, "{}", value % 1000),
        2 => write!(out, "{}", value >> 2),
        3 => write!(out, "{}.{:02}", value % 1_000_000_000, value >> 40 & 63),
        4 => write!(out, "{}.{:04}", value % 100, value >> 40 & 4095),
        5 => write!(out, "{}", (value % 1_000_000_007) as f64 / 1024.0),
        6 => write!(out, "{year}-{month:02}-{day:02}"),
        7 => {
            let (micros, second) = (value >> 20 & 0x7FFFF, value % 60);
            write!(out, "{year}-{month:02}-{day:02} {:02}:{second:02}:{second:02}.{micros:06}", value % 24)
        }
        8 => write!(out, "{}", value.is_multiple_of(3)),
        _ => write!(out, "{}", &format!("{value:016x}")[..4 + (value % 12) as usize]),
    };
    written.expect("writing to memory");
}

/// Every other column of every other ten may be NULL, and every tenth of its values is.
fn wide() -> (String, Vec<Column>) {
    let mut text = String::new();
    for row in 0..4000 {
        for number in 0..WIDE_COLUMNS {
            let value = hash(row, number as u64);
            if !(number % 2 == 1 && number / 10 % 2 == 1 && value.is_multiple_of(10)) {
                wide_value(&mut text, number, value);
            }
            text.push(if number + 1 < WIDE_COLUMNS { ',' } else { '\n' });
        }
    }
    (text, (0..WIDE_COLUMNS).map(|number| column(format!("c{number}"), wide_kind(number), false)).collect())
}

fn narrow() -> (String, Vec<Column>) {
    let mut text = String::new();
    for row in 0..150_000 {
        let [a, b, c] = [0, 1, 2].map(|column| hash(row, column) % 2_000_000_000);
        writeln!(text, "{a},{b},{c}").expect("writing to memory");
    }
    (text, ["a", "b", "c"].map(|name| column(name, ColumnType::Int4, false)).into())
}

/// Quoted texts of several paragraphs, with quotes, line ends and letters of two and three bytes.
fn long_text() -> (String, Vec<Column>) {
    let mut text = String::new();
    let words = |seed: u64| format!("{:016x}{:016x}", hash(seed, 1), hash(seed, 2));
    for row in 0..8000 {
        write!(text, "{row},2024-02-{:02} 01:02:03.{:06},\"Report {row}, {}\",\"", 1 + row % 28, row, words(row))
            .expect("writing to memory");
        for paragraph in 0..1 + hash(row, 99) % 7 {
            text.push_str(if paragraph > 0 { "\n" } else { "" });
            for _ in 0..1 + hash(row, paragraph) % 3 {
                let (first, second) = (words(hash(row, paragraph) % 256), words(hash(row, paragraph) % 256 + 256));
                write!(text, "{first}, \"\"{second}\"\" — naïve ").expect("writing to memory");
            }
        }
        text.push_str("\"\n");
    }
    let kinds = [
        ("id", ColumnType::Int8),
        ("written", ColumnType::Timestamp { precision: 6 }),
        ("title", ColumnType::Text),
        ("body", ColumnType::Text),
    ];
    (text, kinds.map(|(name, kind)| column(name, kind, false)).into())
}

fn shapes(criterion: &mut Criterion) {
    for (name, (text, columns)) in [("wide", wide()), ("narrow", narrow()), ("long_text", long_text())] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(text.len() as u64));
        let mut scanner = Scanner::new(Dialect::csv(), columns.len());
        group.bench_function("scan", |bencher| {
            bencher.iter(|| each_window(text.as_bytes(), &mut scanner, |records| assert!(records.irregular.is_none())));
        });
        heap_pages(&mut group, "heap_pages", text.as_bytes(), &columns, Dialect::csv());
        let mut encoder = ArrowEncoder::new(columns, Dialect::csv());
        group.bench_function("arrow", |bencher| {
            bencher.iter(|| {
                each_window(text.as_bytes(), &mut scanner, |records| {
                    assert!(encoder.encode(records).1.problem.is_none());
                });
            });
        });
        group.finish();
    }
}

criterion_group!(benches, shapes);
criterion_main!(benches);
