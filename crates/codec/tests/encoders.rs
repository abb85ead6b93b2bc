//! What the encoders make of records, read back by slow readers and compared with the values that were written.

mod rows;

use proptest::prelude::*;
use rows::{Value, any_rows, columns, read_arrow, read_copy_binary, write};
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::decode::Decoder;
use tipple_codec::dialect::{Dialect, LineEnd};
use tipple_codec::digest;
use tipple_codec::encode::Encoded;
use tipple_codec::encode::arrow::ArrowEncoder;
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::encode::copy_text::CopyTextEncoder;
use tipple_codec::problem::ProblemKind;
use tipple_codec::scan::{Irregularity, Scanner};
use tipple_codec::value::{Refusal, ServerVersion};

fn binary(text: &[u8], columns: &[Column], dialect: &Dialect) -> (Vec<u8>, Encoded, u128) {
    let mut scanner = Scanner::new(dialect.clone(), columns.len());
    let mut encoder = CopyBinaryEncoder::new(columns, dialect.clone(), ServerVersion::NEWEST, true);
    let mut out = Vec::new();
    let encoded = encoder.encode(&scanner.scan(text), &mut out);
    (out, encoded, encoder.digest())
}

fn arrow(text: &[u8], columns: &[Column], dialect: &Dialect) -> (arrow_array::RecordBatch, Encoded) {
    let mut scanner = Scanner::new(dialect.clone(), columns.len());
    ArrowEncoder::new(columns.to_vec(), dialect.clone()).encode(&scanner.scan(text))
}

fn text(text: &[u8], columns: &[Column], dialect: &Dialect) -> (Vec<u8>, Encoded) {
    let mut scanner = Scanner::new(dialect.clone(), columns.len());
    let mut out = Vec::new();
    let encoded = CopyTextEncoder::new(columns.to_vec(), dialect.clone()).encode(&scanner.scan(text), &mut out);
    (out, encoded)
}

/// The decoded fields of `text`.
fn decoded(text: &[u8], fields: usize, dialect: &Dialect) -> Vec<Vec<Option<Vec<u8>>>> {
    let mut scanner = Scanner::new(dialect.clone(), fields);
    let records = scanner.scan(text);
    assert_eq!((records.consumed, records.irregular), (text.len(), None));
    let mut decoder = Decoder::new(dialect.clone());
    let mut field = |row, column| decoder.decode(records.field(row, column), column).map(<[u8]>::to_vec);
    (0..records.rows()).map(|row| (0..fields).map(|column| field(row, column)).collect()).collect()
}

fn any_dialect() -> impl Strategy<Value = Dialect> {
    let kinds = [
        Dialect::csv(),
        Dialect { escape: b'\\', null_text: "NULL".into(), ..Dialect::csv() },
        Dialect::text(),
        Dialect::tbl(),
    ];
    let ends = proptest::sample::select(vec![LineEnd::Lf, LineEnd::Crlf, LineEnd::Cr]);
    (proptest::sample::select(kinds.to_vec()), ends).prop_map(|(kind, line_end)| Dialect { line_end, ..kind })
}

/// A text that no column but one of text reads, and a row and column to put it in.
fn spoils() -> impl Strategy<Value = Vec<(usize, usize)>> {
    proptest::collection::vec((0_usize..12, 0_usize..columns().len()), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn encoders_give_the_values_that_were_written(dialect in any_dialect(), rows in any_rows(12), cut in 0_usize..13) {
        let columns = columns();
        let file = write(&rows, &dialect);
        let (out, encoded, sum) = binary(&file, &columns, &dialect);
        prop_assert_eq!(encoded, Encoded { rows: rows.len(), problem: None });
        let expected: Vec<Vec<Value>> = rows.iter().map(|row| row.iter().map(Value::stored).collect()).collect();
        let (read, records) = read_copy_binary(&out, &columns);
        prop_assert_eq!(&read, &expected);

        let (batch, encoded) = arrow(&file, &columns, &dialect);
        prop_assert_eq!(encoded, Encoded { rows: rows.len(), problem: None });
        prop_assert_eq!(read_arrow(&batch), expected);
        for (column, array) in batch.columns().iter().enumerate() {
            let nulls = rows.iter().filter(|row| row[column] == Value::Null).count();
            prop_assert_eq!(arrow_array::Array::null_count(array), nulls);
        }

        // COPY text gives the decoded fields again.
        let (out, encoded) = text(&file, &columns, &dialect);
        prop_assert_eq!(encoded, Encoded { rows: rows.len(), problem: None });
        prop_assert_eq!(decoded(&out, columns.len(), &Dialect::text()), decoded(&file, columns.len(), &dialect));

        // The digest is the sum over records, however they are divided.
        let by_record = records.iter().fold(0_u128, |sum, &record| sum.wrapping_add(digest::of_copy_binary_record(record)));
        prop_assert_eq!(sum, by_record);
        let (first, second) = rows.split_at(cut.min(rows.len()));
        let first = binary(&write(first, &dialect), &columns, &dialect).2;
        let second = binary(&write(second, &dialect), &columns, &dialect).2;
        prop_assert_eq!(sum, second.wrapping_add(first));
    }

    #[test]
    fn the_first_problem_is_the_one_reported(dialect in any_dialect(), rows in any_rows(12), spoils in spoils()) {
        let columns = columns();
        let mut spoilt = rows.clone();
        let mut first = None;
        for &(row, column) in &spoils {
            // Every type but text refuses it, or it is too long.
            if row < rows.len() && !matches!(columns[column].kind, ColumnType::Text | ColumnType::Decimal) {
                spoilt[row][column] = Value::Text("neither number nor date".into());
                first = Some(first.map_or((row, column), |first: (usize, usize)| first.min((row, column))));
            }
        }
        let file = write(&spoilt, &dialect);
        let (out, encoded, _) = binary(&file, &columns, &dialect);
        let (batch, by_column) = arrow(&file, &columns, &dialect);
        prop_assert_eq!(encoded, by_column);
        prop_assert_eq!(encoded.rows, first.map_or(rows.len(), |(row, _)| row));
        let expected: Vec<Vec<Value>> =
            rows[..encoded.rows].iter().map(|row| row.iter().map(Value::stored).collect()).collect();
        prop_assert_eq!(&read_copy_binary(&out, &columns).0, &expected);
        prop_assert_eq!(batch.num_rows(), encoded.rows);
        prop_assert_eq!(read_arrow(&batch), expected);
        let Some((row, column)) = first else {
            prop_assert!(encoded.problem.is_none());
            return Ok(());
        };
        let problem = encoded.problem.expect("a spoilt value");
        prop_assert_eq!(problem.row, row);
        prop_assert!(matches!(problem.kind, ProblemKind::Value { column: found, .. } if found == column), "{:?}", problem);
        prop_assert_eq!(&file[problem.start..problem.end], &write(&spoilt[row..=row], &dialect)[..]);
    }

    /// By row or by column: records of any bytes are stored, or refused at the same place for the same reason.
    #[test]
    fn all_encoders_refuse_the_same_records(
        dialect in any_dialect(),
        tokens in proptest::collection::vec(proptest::sample::select(
            &["1", "t", "-", "a", "é", "\"", "\\", "\\xff", "\\0", "\\N", "\0", "", ",", "\t", "|", "\n", "\r\n", "\r"][..]), 0..40),
        invalid in proptest::option::weighted(0.2, 0_usize..30),
        prefix in 0_usize..4,
    ) {
        let columns = [
            Column { name: "a".into(), kind: ColumnType::Varchar { limit: 3 }, not_null: false },
            Column { name: "b".into(), kind: ColumnType::Char { limit: 2 }, not_null: true },
        ];
        let mut file: Vec<u8> = Vec::new();
        let good: Vec<Vec<Value>> = vec![vec![Value::Text("x".into()), Value::Text("y".into())]; prefix];
        file.extend(write(&good, &dialect));
        file.extend(tokens.concat().bytes());
        if let Some(place) = invalid && place < file.len() {
            file[place] = 0xff;
        }
        let (out, encoded, _) = binary(&file, &columns, &dialect);
        let (batch, by_column) = arrow(&file, &columns, &dialect);
        prop_assert_eq!(encoded, by_column);
        prop_assert_eq!(read_copy_binary(&out, &columns).0, read_arrow(&batch));
        // Lengths are the server's business there, so that it goes at least as far.
        let (_, as_text) = text(&file, &columns, &dialect);
        prop_assert!(as_text.rows >= encoded.rows);
    }
}

fn column(kind: ColumnType, not_null: bool) -> Vec<Column> {
    vec![Column { name: "c".into(), kind, not_null }]
}

/// The same outcome by all three encoders.
fn refusal(file: &[u8], columns: &[Column], dialect: &Dialect) -> Option<(usize, ProblemKind)> {
    let (_, encoded, _) = binary(file, columns, dialect);
    assert_eq!(arrow(file, columns, dialect).1, encoded);
    assert_eq!(text(file, columns, dialect).1, encoded);
    encoded.problem.map(|problem| (problem.row, problem.kind))
}

#[test]
fn null_is_refused_where_the_column_says_so() {
    let file = b"a\n\"\"\n\nb\n";
    let null = ProblemKind::Value { column: 0, refusal: Refusal::NullNotAllowed };
    assert_eq!(refusal(file, &column(ColumnType::Text, true), &Dialect::csv()), Some((2, null)));
    assert_eq!(refusal(file, &column(ColumnType::Text, false), &Dialect::csv()), None);
    assert_eq!(refusal(b"\\N\n", &column(ColumnType::Int4, true), &Dialect::text()), Some((0, null)));
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let kinds = [ColumnType::Text, ColumnType::Varchar { limit: 9 }, ColumnType::Char { limit: 9 }];
    let broken = ProblemKind::Value { column: 0, refusal: Refusal::InvalidEncoding };
    for kind in kinds {
        let columns = column(kind, false);
        let csv: [&[u8]; 7] = [b"a\xff", b"\0", b"\"a\0\"", b"\"\xc3\"", b"\xe9", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"];
        for field in csv {
            let file = [b"good\n", field, b"\nafter\n"].concat();
            assert_eq!(refusal(&file, &columns, &Dialect::csv()), Some((1, broken)), "{field:?}");
        }
        // Spelled with escapes the window's bytes are valid, the values are not.
        let escaped: [&[u8]; 6] = [b"a\\xff", b"\\377", b"\\0", b"a\\x00b", b"\\xc3", b"\\xa9\\xc3"];
        for field in escaped {
            let file = [b"good\n", field, b"\nafter\n"].concat();
            assert_eq!(refusal(&file, &columns, &Dialect::text()), Some((1, broken)), "{field:?}");
        }
        for field in [&b"\\xc3\\xa9"[..], b"\\303\\251", "é".as_bytes(), "\\é".as_bytes()] {
            let file = [field, b"\n"].concat();
            let (out, encoded, _) = binary(&file, &columns, &Dialect::text());
            assert_eq!(encoded.problem, None);
            let (rows, _) = read_copy_binary(&out, &columns);
            let Value::Text(text) = &rows[0][0] else { panic!("{rows:?}") };
            assert_eq!(text.trim_end(), "é");
        }
    }
}

/// The bytes around such a delimiter would be valid UTF-8 only together.
#[test]
#[should_panic(expected = "ASCII")]
fn a_delimiter_inside_a_character_is_refused() {
    drop(Scanner::new(Dialect { delimiter: 0xa9, ..Dialect::csv() }, 2));
}

#[test]
fn char_is_padded_by_characters() {
    for limit in [1_u32, 3, 33, 64, 65, 200] {
        let columns = column(ColumnType::Char { limit }, false);
        for field in ["", "a", "é", "\"\"", "a  "] {
            let file = format!("x\n{field}\n\"é\"\n");
            if field == "a  " && limit < 3 {
                continue;
            }
            let (out, encoded, _) = binary(file.as_bytes(), &columns, &Dialect::csv());
            assert_eq!(encoded, Encoded { rows: 3, problem: None }, "{field:?} as char({limit})");
            let (rows, _) = read_copy_binary(&out, &columns);
            assert_eq!(rows, read_arrow(&arrow(file.as_bytes(), &columns, &Dialect::csv()).0));
            for row in rows {
                if let Value::Text(text) = &row[0] {
                    assert_eq!(text.chars().count(), limit as usize);
                }
            }
        }
    }
}

#[test]
fn a_record_of_wrong_structure_comes_after_the_good_ones() {
    let columns = [column(ColumnType::Int4, false), column(ColumnType::Text, false)].concat();
    let missing = ProblemKind::Structure(Irregularity::MissingFields { found: 1 });
    assert_eq!(refusal(b"1,a\n2\n3,c\n", &columns, &Dialect::csv()), Some((1, missing)));
    // A bad value before it is the first problem.
    let (out, encoded, _) = binary(b"1,a\nx,b\n3\n", &columns, &Dialect::csv());
    let bad = ProblemKind::Value { column: 0, refusal: Refusal::InvalidSyntax };
    assert_eq!(
        encoded.problem.map(|problem| (problem.row, problem.start, problem.end, problem.kind)),
        Some((1, 4, 8, bad))
    );
    assert_eq!(read_copy_binary(&out, &columns).0.len(), 1);
}

#[test]
fn opaque_columns_are_left_to_the_target() {
    let columns = column(ColumnType::Opaque, false);
    let (out, encoded, _) = binary(b"1\n", &columns, &Dialect::csv());
    assert!(out.is_empty() && encoded.problem.is_some_and(|problem| problem.is_unsure()));
    assert_eq!(text(b"a\"b\n\"a\tb\\\"\n", &columns, &Dialect::csv()).1.problem, None);
}

#[test]
fn every_length_of_text_at_every_distance_from_the_end() {
    // Texts are copied past their end where the window has the bytes: no byte of the next field may show.
    let columns = [column(ColumnType::Text, false), column(ColumnType::Int8, false)].concat();
    for length in 0..=140 {
        for behind in [0, 1, 13, 47, 48, 49, 63, 64, 65, 130] {
            let mut file = vec![b'a'; length];
            file.extend(b",7\n");
            if behind > 0 {
                file.extend(vec![b'b'; behind]);
                file.extend(b",8\n");
            }
            let (out, encoded, _) = binary(&file, &columns, &Dialect::csv());
            assert_eq!(encoded.problem, None);
            let (rows, _) = read_copy_binary(&out, &columns);
            let first = if length == 0 { Value::Null } else { Value::Text("a".repeat(length)) };
            assert_eq!(rows[0], [first, Value::Integer(7)]);
            assert_eq!(rows.get(1).is_some(), behind > 0);
        }
    }
}
