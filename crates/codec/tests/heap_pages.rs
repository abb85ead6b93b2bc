//! Heap pages, read back and compared with COPY binary of the same records.

mod rows;

use proptest::prelude::*;
use rows::{Value, any_rows, columns, write};
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::dialect::{Dialect, LineEnd, NullRule};
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::encode::heap::{Encoded, HeapPageEncoder, PageBuffer, PageLayout, Stop, read};
use tipple_codec::problem::Problem;
use tipple_codec::scan::Scanner;
use tipple_codec::value::{Refusal, ServerVersion};

const LAYOUT: PageLayout = PageLayout { block_size: 8192, fillfactor: 100 };

fn column(name: &str, kind: ColumnType) -> Column {
    Column { name: name.into(), kind, not_null: false }
}

/// Encodes all records; memory of `pages` pages at a time, begun anew whenever it is full. Gives the pages and the
/// records that go another way.
fn pages_of(text: &[u8], columns: &[Column], layout: PageLayout, pages: usize) -> (Vec<u8>, Vec<(usize, Stop)>) {
    pages_in(Dialect::csv(), text, columns, layout, pages)
}

/// The same in another dialect.
fn pages_in(
    dialect: Dialect,
    text: &[u8],
    columns: &[Column],
    layout: PageLayout,
    pages: usize,
) -> (Vec<u8>, Vec<(usize, Stop)>) {
    let mut scanner = Scanner::new(dialect.clone(), columns.len());
    let records = scanner.scan(text);
    assert_eq!((records.consumed, records.irregular), (text.len(), None));
    let fields: Vec<Option<usize>> = (0..columns.len()).map(Some).collect();
    let mut encoder =
        HeapPageEncoder::new(columns, &fields, dialect, ServerVersion::NEWEST, layout).expect("types with pages");
    let (mut all, mut others) = (Vec::new(), Vec::new());
    // What memory holds before must not matter.
    let memory = || vec![0xAA; pages * layout.block_size];
    let mut buffer = PageBuffer::new(memory(), layout);
    let mut row = 0;
    loop {
        let Encoded { row: next, stop } = encoder.encode_unless(&records, row, &mut buffer, |_| false);
        row = next;
        match stop {
            Some(Stop::Full) => {
                let (memory_used, used) = std::mem::replace(&mut buffer, PageBuffer::new(memory(), layout)).finish();
                assert_eq!(used, pages, "full means full");
                all.extend_from_slice(&memory_used[..used * layout.block_size]);
            }
            Some(stop) => {
                others.push((row, stop));
                row += 1;
            }
            None => break,
        }
    }
    let (memory, used) = buffer.finish();
    all.extend_from_slice(&memory[..used * layout.block_size]);
    (all, others)
}

/// All tuples as COPY binary.
fn as_copy_binary(pages: &[u8], columns: &[Column], layout: PageLayout) -> Vec<u8> {
    let mut out = Vec::new();
    for page in pages.chunks(layout.block_size) {
        for tuple in read::tuples(page).expect("a readable page") {
            read::append_copy_binary(tuple, columns, &mut out).expect("a readable tuple");
        }
    }
    out
}

fn copy_binary(text: &[u8], columns: &[Column]) -> Vec<u8> {
    copy_binary_in(Dialect::csv(), text, columns)
}

fn copy_binary_in(dialect: Dialect, text: &[u8], columns: &[Column]) -> Vec<u8> {
    let mut scanner = Scanner::new(dialect.clone(), columns.len());
    let mut out = Vec::new();
    let mut encoder = CopyBinaryEncoder::new(columns, dialect, ServerVersion::NEWEST, false);
    let encoded = encoder.encode(&scanner.scan(text), &mut out);
    assert_eq!(encoded.problem, None);
    out
}

/// Every page is laid out as the server does it: no gaps, nothing left over in what is free.
fn check_layout(pages: &[u8], layout: PageLayout) {
    for page in pages.chunks(layout.block_size) {
        let word = |at: usize| usize::from(u16::from_le_bytes([page[at], page[at + 1]]));
        let (lower, upper) = (word(12), word(14));
        assert_eq!((word(16), word(18)), (layout.block_size, layout.block_size | 4));
        assert!(page[lower..upper].iter().all(|&byte| byte == 0), "what is free is zero");
        let mut above = layout.block_size;
        for pointer in page[24..lower].chunks(4) {
            let pointer = u32::from_le_bytes(pointer.try_into().expect("four bytes"));
            let (start, length) = ((pointer & 0x7FFF) as usize, (pointer >> 17) as usize);
            assert_eq!(pointer >> 15 & 3, 1);
            assert_eq!(start + length.next_multiple_of(8), above);
            assert!(page[start + length..above].iter().all(|&byte| byte == 0), "padding is zero");
            above = start;
        }
        assert_eq!(above, upper);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pages_hold_what_copy_binary_says(rows in any_rows(100), pages in 1_usize..4, fillfactor in 10_u8..=100) {
        let columns = columns();
        let layout = PageLayout { fillfactor, ..LAYOUT };
        let text = write(&rows, &Dialect::csv());
        let (all, others) = pages_of(&text, &columns, layout, pages);
        prop_assert!(others.is_empty(), "{:?}", others);
        check_layout(&all, layout);
        prop_assert_eq!(as_copy_binary(&all, &columns, layout), copy_binary(&text, &columns));
        let nulls = rows.iter().flatten().filter(|value| **value == Value::Null).count();
        prop_assert!(nulls == 0 || all.iter().any(|&byte| byte != 0));
    }

    #[test]
    fn dialects_mean_what_they_mean_to_copy_binary(rows in any_rows(70), other in 0_usize..4, crlf: bool) {
        let columns = columns();
        let line_end = if crlf { LineEnd::Crlf } else { LineEnd::Lf };
        let mut dialect = match other {
            0 => Dialect::text(),
            1 => Dialect { null_text: "NULL".into(), ..Dialect::csv() },
            2 => Dialect { escape: b'\\', ..Dialect::csv() },
            _ => Dialect { delimiter: b';', null_text: "-".into(), ..Dialect::csv() },
        };
        dialect.line_end = line_end;
        let text = write(&rows, &dialect);
        let (all, others) = pages_in(dialect.clone(), &text, &columns, LAYOUT, 2);
        prop_assert!(others.is_empty(), "{:?}", others);
        check_layout(&all, LAYOUT);
        prop_assert_eq!(as_copy_binary(&all, &columns, LAYOUT), copy_binary_in(dialect, &text, &columns));
    }

    #[test]
    fn texts_of_every_length_keep_their_alignment(lengths in proptest::collection::vec(0_usize..700, 1..30), block in 0_usize..3) {
        let columns = [column("a", ColumnType::Text), column("n", ColumnType::Int8), column("b", ColumnType::Bytea)];
        let layout = PageLayout { block_size: 4096 << block, fillfactor: 100 };
        let text: String = lengths
            .iter()
            .map(|&length| format!("{},{length},\\x{}\n", "ä".repeat(length / 2), "7f".repeat(length / 3)))
            .collect();
        let (all, others) = pages_of(text.as_bytes(), &columns, layout, 2);
        check_layout(&all, layout);
        let longest = layout.block_size / 4 - 100;
        prop_assert!(others.iter().all(|(row, stop)| *stop == Stop::TooLarge && 2 * lengths[*row] > longest));
        let kept: String = text
            .lines()
            .enumerate()
            .filter(|(row, _)| !others.iter().any(|(other, _)| other == row))
            .map(|(_, line)| format!("{line}\n"))
            .collect();
        prop_assert_eq!(as_copy_binary(&all, &columns, layout), copy_binary(kept.as_bytes(), &columns));
    }

    #[test]
    fn numbers_of_every_size_are_stored_as_sent(digits in "[0-9]{1,60}", places in "[0-9]{0,90}", negative: bool, power in -400_i32..400) {
        let columns = [column("n", ColumnType::Decimal), column("price", ColumnType::Numeric { precision: 15, scale: 2 })];
        let sign = if negative { "-" } else { "" };
        let text = format!("{sign}{digits}.{places}e{power},{sign}{}.5\n", &digits[..digits.len().min(12)]);
        let (all, others) = pages_of(text.as_bytes(), &columns, LAYOUT, 1);
        prop_assert!(others.is_empty());
        prop_assert_eq!(as_copy_binary(&all, &columns, LAYOUT), copy_binary(text.as_bytes(), &columns));
    }
}

#[test]
fn rarer_types_are_stored_as_sent() {
    let columns = [
        column("ttz", ColumnType::TimeTz { precision: 6 }),
        column("iv", ColumnType::Interval { precision: 6 }),
        column("id", ColumnType::Uuid),
        column("tstz", ColumnType::TimestampTz { precision: 6, utc: true }),
        column("t", ColumnType::Time { precision: 3 }),
        column("f", ColumnType::Float4),
        column("d", ColumnType::Float8),
        column("nan", ColumnType::Decimal),
    ];
    let text = b"04:05:06.789-08,1 mon -2 days 03:04:05.678,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,\
        2001-02-03 04:05:06+02,23:59:59.9996,1.5,-2.25e300,NaN\n,,,,,,,Infinity\n00:00:00+12:00,00:00:00,\
        00000000-0000-0000-0000-000000000000,infinity,24:00:00,NaN,-Infinity,-Infinity\n";
    let (all, others) = pages_of(text, &columns, LAYOUT, 1);
    assert_eq!(others, []);
    assert_eq!(as_copy_binary(&all, &columns, LAYOUT), copy_binary(text, &columns));
}

#[test]
fn tuples_go_up_to_the_limit_and_no_further() {
    // Nothing of these can be compressed or stored elsewhere: the page is the limit.
    let columns: Vec<Column> = (0..1020).map(|n| column(&format!("c{n}"), ColumnType::Int8)).collect();
    let record = |fields: usize| -> String {
        let values: Vec<&str> = (0..1020).map(|n| if n < fields { "7" } else { "" }).collect();
        format!("{}\n", values.join(","))
    };
    let text = format!("{}{}{}", record(1001), record(1002), record(0));
    let (all, others) = pages_of(text.as_bytes(), &columns, LAYOUT, 8);
    // 8160 bytes of tuple: 152 of header and bitmap, and 1001 values of 8 bytes.
    assert_eq!(others, [(1, Stop::TooLarge)]);
    check_layout(&all, LAYOUT);
    assert_eq!(all.len(), 2 * LAYOUT.block_size);

    // Of a text, the server would compress what is longer than 2032 bytes.
    let columns = [column("a", ColumnType::Text)];
    let text = format!("{}\n{}\n", "x".repeat(2032 - 28), "x".repeat(2032 - 27));
    let (all, others) = pages_of(text.as_bytes(), &columns, LAYOUT, 1);
    assert_eq!(others, [(1, Stop::TooLarge)]);
    assert_eq!(as_copy_binary(&all, &columns, LAYOUT).len(), 2 + 4 + 2004);
}

#[test]
fn a_page_has_no_more_tuples_than_the_server_allows() {
    let columns = [column("a", ColumnType::Int4)];
    let text = "\n".repeat(600);
    let (all, _) = pages_of(text.as_bytes(), &columns, LAYOUT, 4);
    let tuples: Vec<usize> = all.chunks(8192).map(|page| read::tuples(page).expect("a page").len()).collect();
    assert_eq!(tuples, [291, 291, 18]);
}

#[test]
fn problems_are_those_of_copy_binary() {
    let mut columns = [column("a", ColumnType::Int4), column("d", ColumnType::Date)];
    columns[0].not_null = true;
    let text = b"1,2020-01-01\nx,2020-01-01\n,2020-01-01\n3,Jan 5 1999\n4,2020-02-30\n";
    let (all, others) = pages_of(text, &columns, LAYOUT, 1);
    let refusals: Vec<(usize, Refusal)> = others
        .iter()
        .map(|(row, stop)| match stop {
            Stop::Problem(Problem { kind: tipple_codec::problem::ProblemKind::Value { refusal, .. }, .. }) => {
                (*row, *refusal)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [Refusal::InvalidSyntax, Refusal::NullNotAllowed, Refusal::Unsure, Refusal::OutOfRange];
    assert_eq!(refusals, (1..5).zip(expected).collect::<Vec<_>>());
    assert_eq!(as_copy_binary(&all, &columns, LAYOUT), copy_binary(b"1,2020-01-01\n", &columns));
}

#[test]
fn bad_records_among_many_are_skipped_in_their_order() {
    let columns = [
        column("a", ColumnType::Int4),
        column("n", ColumnType::Numeric { precision: 15, scale: 2 }),
        column("d", ColumnType::Date),
        column("t", ColumnType::Varchar { limit: 20 }),
    ];
    let record = |row: usize| {
        let date = if row.is_multiple_of(5) { "" } else { "1998-12-01" };
        let number = if row.is_multiple_of(7) { "1.2.3".into() } else { format!("-{row}.{}", row % 10) };
        let text = if row.is_multiple_of(11) { "y".repeat(21) } else { "z".repeat(row % 20) };
        format!("{row},{number},{date},{text}\n")
    };
    let is_bad = |row: &usize| row.is_multiple_of(7) || row.is_multiple_of(11);
    let (text, good): (String, String) =
        ((0..1000).map(record).collect(), (0..1000).filter(|row| !is_bad(row)).map(record).collect());
    let mut scanner = Scanner::new(Dialect::csv(), columns.len());
    let records = scanner.scan(text.as_bytes());
    let fields: Vec<_> = (0..columns.len()).map(Some).collect();
    let mut encoder = HeapPageEncoder::new(&columns, &fields, Dialect::csv(), ServerVersion::NEWEST, LAYOUT)
        .expect("types with pages");
    let (mut all, mut skipped, mut row) = (Vec::new(), Vec::new(), 0);
    // A page at a time: it is full in the middle of whatever goes on.
    while row < records.rows() {
        let mut pages = PageBuffer::new(vec![0xAA; LAYOUT.block_size], LAYOUT);
        let encoded = encoder.encode_unless(&records, row, &mut pages, |problem| {
            let tipple_codec::problem::ProblemKind::Value { column, refusal } = problem.kind else { return false };
            skipped.push((problem.row, column, refusal));
            true
        });
        assert!(encoded.row > row, "a page takes some");
        row = encoded.row;
        all.extend_from_slice(&pages.finish().0);
    }
    let expected = (0..1000).filter(is_bad).map(|row| {
        if row.is_multiple_of(7) { (row, 1, Refusal::InvalidSyntax) } else { (row, 3, Refusal::TooLong { limit: 20 }) }
    });
    assert_eq!(skipped, expected.collect::<Vec<_>>());
    check_layout(&all, LAYOUT);
    assert_eq!(as_copy_binary(&all, &columns, LAYOUT), copy_binary(good.as_bytes(), &columns));
}

#[test]
fn null_texts_that_look_like_values() {
    let columns = [
        column("i", ColumnType::Int4),
        column("n", ColumnType::Numeric { precision: 9, scale: 2 }),
        column("d", ColumnType::Date),
        column("c", ColumnType::Char { limit: 10 }),
    ];
    let text: String = (0..200)
        .map(|row| match row % 4 {
            0 => "0,0.00,2000-01-01,0\n".into(),
            1 => format!("{row},0,2000-01-02,x\n"),
            2 => "-1,-1,1999-12-31,-1\n".into(),
            _ => format!("\"{row}\",\"0\",\"2001-01-01\",\"0\"\n"),
        })
        .collect();
    let rule = |quoted_is_null, unquoted_is_value| NullRule { quoted_is_null, unquoted_is_value };
    for null_text in ["0", "-1", "2000-01-01", "x", "0.00"] {
        for null_rules in [vec![], vec![rule(true, false), rule(false, true), rule(true, true), rule(true, false)]] {
            let dialect = Dialect { null_text: null_text.into(), null_rules, ..Dialect::csv() };
            // A NULL text that a rule takes for a value may be none of its type, and is skipped.
            let (all, others) = pages_in(dialect.clone(), text.as_bytes(), &columns, LAYOUT, 3);
            let kept: String = text
                .lines()
                .enumerate()
                .filter(|(row, _)| !others.iter().any(|(other, _)| other == row))
                .map(|(_, line)| format!("{line}\n"))
                .collect();
            assert!(all.iter().any(|&byte| byte != 0), "{null_text}");
            let expected = copy_binary_in(dialect, kept.as_bytes(), &columns);
            assert_eq!(as_copy_binary(&all, &columns, LAYOUT), expected, "{null_text}");
        }
    }
}

#[test]
fn some_records_in_another_order() {
    let columns = [column("a", ColumnType::Int4), column("c", ColumnType::Char { limit: 3 })];
    let text: String = (0..300).map(|row| format!("{row},{}\n", ["x", "yy", "zzz"][row % 3])).collect();
    let mut scanner = Scanner::new(Dialect::csv(), 2);
    let records = scanner.scan(text.as_bytes());
    let mut encoder =
        HeapPageEncoder::new(&columns, &[Some(0), Some(1)], Dialect::csv(), ServerVersion::NEWEST, LAYOUT)
            .expect("types with pages");
    let mut pages = PageBuffer::new(vec![0; 8 * 8192], LAYOUT);
    // Every third one, the last first.
    let encoded = encoder.encode_rows(&records, (0..100, |place| 299 - 3 * place), &mut pages, |_| false);
    assert_eq!(encoded, None);
    let (memory, used) = pages.finish();
    let expected: String =
        (0..100).map(|place| format!("{}\n", text.lines().nth(299 - 3 * place).expect("a line"))).collect();
    assert_eq!(as_copy_binary(&memory[..used * 8192], &columns, LAYOUT), copy_binary(expected.as_bytes(), &columns));
}

#[test]
fn records_that_go_another_way_among_many() {
    let columns = [column("d", ColumnType::Date), column("t", ColumnType::Text)];
    let record = |row: usize| match row % 9 {
        3 => "Jan 5 1999,x\n".into(),
        5 => format!("2000-01-01,{}\n", "long ".repeat(600)),
        7 if row == 70 => format!("2000-01-01,{}\n", "y".repeat(300 << 10)),
        _ => format!("2000-01-{:02},{row}\n", 1 + row % 28),
    };
    let text: String = (0..300).map(record).collect();
    let (all, others) = pages_of(text.as_bytes(), &columns, LAYOUT, 1);
    let stays = |row: &usize| !matches!(row % 9, 3 | 5) && *row != 70;
    assert_eq!(
        others.iter().map(|(row, _)| *row).collect::<Vec<_>>(),
        (0..300).filter(|row| !stays(row)).collect::<Vec<_>>()
    );
    let kept: String = (0..300).filter(stays).map(record).collect();
    assert_eq!(as_copy_binary(&all, &columns, LAYOUT), copy_binary(kept.as_bytes(), &columns));
}

#[test]
fn an_attribute_without_a_field_is_null() {
    let columns = [column("a", ColumnType::Int4)];
    let mut scanner = Scanner::new(Dialect::csv(), 1);
    let fields = [None, Some(0), None];
    let mut encoder =
        HeapPageEncoder::new(&columns, &fields, Dialect::csv(), ServerVersion::NEWEST, LAYOUT).expect("an integer");
    let mut pages = PageBuffer::new(vec![0; 8192], LAYOUT);
    encoder.encode_unless(&scanner.scan(b"5\n"), 0, &mut pages, |_| false);
    let (memory, used) = pages.finish();
    assert_eq!(used, 1);
    let relation = [column("x", ColumnType::Text), columns[0].clone(), column("y", ColumnType::Text)];
    let null = (-1_i32).to_be_bytes();
    let expected = [&[0, 3][..], &null, &4_i32.to_be_bytes(), &5_i32.to_be_bytes(), &null].concat();
    assert_eq!(as_copy_binary(&memory, &relation, LAYOUT), expected);
}

#[test]
fn types_that_the_server_must_check_have_no_pages() {
    let columns = [column("a", ColumnType::Int4), column("j", ColumnType::Json)];
    let made =
        HeapPageEncoder::new(&columns, &[Some(0), Some(1)], Dialect::csv(), ServerVersion::NEWEST, LAYOUT).map(drop);
    assert_eq!(made, Err(&columns[1]));
}
