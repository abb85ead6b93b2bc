//! Arrays, UUIDs, bytes and other rarer types: golden bytes of COPY binary, Arrow lists, digests that leave columns out.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, IntervalMonthDayNanoType, Time64MicrosecondType};
use arrow_array::{Array, DictionaryArray, RecordBatch, StringArray};
use arrow_schema::DataType;
use proptest::prelude::*;
use std::sync::Arc;
use tipple_codec::column::{ArrayType, Column, ColumnType};
use tipple_codec::dialect::Dialect;
use tipple_codec::digest;
use tipple_codec::encode::Encoded;
use tipple_codec::encode::arrow::ArrowEncoder;
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::problem::ProblemKind;
use tipple_codec::scan::Scanner;
use tipple_codec::value::{Refusal, ServerVersion};

fn columns(kinds: impl IntoIterator<Item = ColumnType>) -> Vec<Column> {
    kinds.into_iter().map(|kind| Column { name: format!("{kind:?}"), kind, not_null: false }).collect()
}

fn array_of(element: ColumnType, dimensions: u8) -> ColumnType {
    ColumnType::Array(Box::new(ArrayType { element, element_oid: 23, dimensions: Some(dimensions) }))
}

fn arrow(text: &str, columns: &[Column]) -> (RecordBatch, Encoded) {
    let mut scanner = Scanner::new(Dialect::csv(), columns.len());
    ArrowEncoder::new(columns.to_vec(), Dialect::csv()).encode(&scanner.scan(text.as_bytes()))
}

fn binary(text: &str, columns: &[Column]) -> (Vec<u8>, Encoded, u128) {
    let mut scanner = Scanner::new(Dialect::csv(), columns.len());
    let mut encoder = CopyBinaryEncoder::new(columns, Dialect::csv(), ServerVersion::NEWEST, true);
    let mut out = Vec::new();
    let encoded = encoder.encode(&scanner.scan(text.as_bytes()), &mut out);
    (out, encoded, encoder.digest())
}

/// The digest of a batch's single column.
fn digest_of(batch: &RecordBatch) -> digest::RowDigest {
    digest::of_batch(batch, &[true]).expect("a type with a canonical form")
}

#[test]
fn golden_bytes_of_an_array() {
    let (bytes, encoded, _) = binary("\"{7,NULL}\"\n{}\n", &columns([array_of(ColumnType::Int4, 1)]));
    assert_eq!((encoded.rows, encoded.problem), (2, None));
    let ints: Vec<i32> = vec![1, 1, 23, 2, 1, 4, 7, -1];
    let mut expected = vec![0, 1, 0, 0, 0, 32];
    expected.extend(ints.iter().flat_map(|int| int.to_be_bytes()));
    expected.extend([0, 1, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23]);
    assert_eq!(bytes, expected);
}

#[test]
fn golden_bytes_of_rarer_types() {
    let kinds = columns([
        ColumnType::TimeTz { precision: 6 },
        ColumnType::Interval { precision: 6 },
        ColumnType::Jsonb,
        ColumnType::Bytea,
        ColumnType::Enum { labels: vec!["ok".into()] },
    ]);
    let (bytes, encoded, _) = binary("00:00:01+01,1 mon 2 days 00:00:03,[],\\x0aff,ok\n", &kinds);
    assert_eq!(encoded.problem, None);
    let mut expected = vec![0, 5, 0, 0, 0, 12];
    expected.extend(1_000_000_i64.to_be_bytes());
    expected.extend((-3600_i32).to_be_bytes());
    expected.extend([0, 0, 0, 16]);
    expected.extend(3_000_000_i64.to_be_bytes());
    expected.extend([0, 0, 0, 2, 0, 0, 0, 1]);
    expected.extend(b"\0\0\0\x03\x01[]\0\0\0\x02\x0a\xff\0\0\0\x02ok");
    assert_eq!(bytes, expected);
}

#[test]
fn what_the_server_changes_is_left_out_of_the_digest() {
    let mixed = columns([ColumnType::Int4, ColumnType::Jsonb, array_of(ColumnType::Jsonb, 1), ColumnType::Text]);
    let plain = columns([ColumnType::Int4, ColumnType::Text]);
    let (_, _, with) = binary("1,\"[1, 2]\",{},a\n,,,\n", &mixed);
    let (_, _, without) = binary("1,a\n,\n", &plain);
    assert_eq!(with, without);
    assert_ne!(with, binary("1,b\n,\n", &plain).2);
}

#[test]
fn an_array_takes_more_room_than_its_text() {
    let kinds =
        columns([array_of(ColumnType::Char { limit: 50 }, 1), ColumnType::Text, array_of(ColumnType::Decimal, 1)]);
    let wide = vec!["1"; 1000].join(",");
    let record = format!("\"{{{wide}}}\",{},\"{{{wide},1e400}}\"\n", "x".repeat(300));
    let (bytes, encoded, _) = binary(&record.repeat(20), &kinds);
    assert_eq!((encoded.rows, encoded.problem), (20, None));
    assert!(bytes.len() > 20 * 54_000);
}

#[test]
fn lists_with_nulls_and_nothing_in_them() {
    let (batch, encoded) = arrow("\"{1,NULL,3}\"\n\n{}\n{4}\n", &columns([array_of(ColumnType::Int4, 1)]));
    assert_eq!(encoded.problem, None);
    let list = batch.column(0).as_list::<i32>();
    assert_eq!(list.value_offsets(), [0, 3, 3, 3, 4]);
    assert_eq!((0..4).map(|row| list.is_null(row)).collect::<Vec<_>>(), [false, true, false, false]);
    let items = list.values().as_primitive::<Int32Type>();
    assert_eq!(items.iter().collect::<Vec<_>>(), [Some(1), None, Some(3), Some(4)]);
}

#[test]
fn lists_of_lists() {
    let (batch, encoded) = arrow("\"{{1,2},{3,4}}\"\n{}\n{{5}}\n", &columns([array_of(ColumnType::Int4, 2)]));
    assert_eq!(encoded.problem, None);
    let outer = batch.column(0).as_list::<i32>();
    let inner = outer.values().as_list::<i32>();
    assert_eq!(outer.value_offsets(), [0, 2, 2, 3]);
    assert_eq!(inner.value_offsets(), [0, 2, 4, 5]);
    assert_eq!(inner.values().len(), 5);
    for (text, refusal) in
        [("{1}", Refusal::InvalidSyntax), ("{{{1}}}", Refusal::InvalidSyntax), ("{{1}", Refusal::Unsure)]
    {
        let (batch, encoded) = arrow(&format!("{{{{1}}}}\n{text}\n"), &columns([array_of(ColumnType::Int4, 2)]));
        assert_eq!(batch.num_rows(), 1);
        let kind = encoded.problem.map(|problem| problem.kind);
        assert_eq!(kind, Some(ProblemKind::Value { column: 0, refusal }), "{text}");
    }
}

#[test]
fn a_day_and_a_span() {
    let kinds = columns([ColumnType::Time { precision: 6 }, ColumnType::Interval { precision: 6 }, ColumnType::Uuid]);
    let (batch, encoded) = arrow("24:00:00,1 mon -1 days,{A0EEBC999C0B4EF8BB6D6BB9BD380A11}\n,,\n", &kinds);
    assert_eq!(encoded.problem, None);
    assert_eq!(batch.column(0).as_primitive::<Time64MicrosecondType>().value(0), 86_400_000_000);
    let span = batch.column(1).as_primitive::<IntervalMonthDayNanoType>().value(0);
    assert_eq!((span.months, span.days, span.nanoseconds), (1, -1, 0));
    assert_eq!(batch.column(2).as_string::<i32>().value(0), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    // More hours than Arrow's nanoseconds hold.
    let (_, encoded) = arrow("3000000 hours\n", &columns([ColumnType::Interval { precision: 6 }]));
    let refusal = Refusal::OutOfRange;
    assert_eq!(encoded.problem.map(|problem| problem.kind), Some(ProblemKind::Value { column: 0, refusal }));
}

#[test]
fn labels_have_the_digest_of_their_texts() {
    let labels = ["a", "b", "a"];
    let texts: StringArray = labels.into_iter().map(Some).chain([None]).collect();
    let dictionary: DictionaryArray<Int32Type> = labels.into_iter().map(Some).chain([None]).collect();
    let of = |array: Arc<dyn Array>| digest_of(&RecordBatch::try_from_iter([("c", array)]).expect("one column"));
    assert!(matches!(dictionary.data_type(), DataType::Dictionary(..)));
    assert_eq!(of(Arc::new(texts)), of(Arc::new(dictionary)));
}

/// A list of small numbers, and how PostgreSQL writes it.
fn any_list() -> impl Strategy<Value = Vec<Option<i32>>> {
    prop::collection::vec(prop::option::weighted(0.8, 0..100), 0..4)
}

fn written(list: &[Option<i32>]) -> String {
    let items: Vec<String> = list.iter().map(|item| item.map_or("NULL".into(), |item| item.to_string())).collect();
    format!("\"{{{}}}\"\n", items.join(","))
}

proptest! {
    #[test]
    fn lists_come_back(lists in prop::collection::vec(any_list(), 1..12), bad in any::<prop::sample::Index>()) {
        let kinds = columns([array_of(ColumnType::Int4, 1)]);
        let text: String = lists.iter().map(|list| written(list)).collect();
        let read = |batch: &RecordBatch| -> Vec<Vec<Option<i32>>> {
            batch.column(0).as_list::<i32>().iter()
                .map(|list| list.expect("not null").as_primitive::<Int32Type>().iter().collect())
                .collect()
        };
        let (batch, _) = arrow(&text, &kinds);
        prop_assert_eq!(&read(&batch), &lists);

        // A bad element in the middle: the rows before it are there, and it is named.
        let place = bad.index(lists.len());
        let mut with_bad: Vec<String> = lists.iter().map(|list| written(list)).collect();
        with_bad.insert(place, "\"{1,x,2}\"\n".into());
        with_bad.push("{broken\n".into());
        let (batch, encoded) = arrow(&with_bad.concat(), &kinds);
        prop_assert_eq!(&read(&batch)[..], &lists[..place]);
        prop_assert_eq!(encoded.problem.map(|problem| problem.row), Some(place));
    }

    /// Bad notation, bad elements and good lists in any order: the good ones stay, each bad one is told of once.
    #[test]
    fn bad_lists_are_skipped(lists in prop::collection::vec(prop::option::weighted(0.7, any_list()), 1..12)) {
        let kinds = columns([array_of(ColumnType::Int4, 1), ColumnType::Int4]);
        let bad = |row: usize| ["\"{x,1,y}\"", "{1", "\"{{1},{2}}\""][row % 3].to_owned();
        let text: String = lists
            .iter()
            .enumerate()
            .map(|(row, list)| {
                let list = list.as_ref().map_or_else(|| bad(row), |list| written(list).trim_end().to_owned());
                format!("{list},{row}\n")
            })
            .collect();
        let mut scanner = Scanner::new(Dialect::csv(), 2);
        let mut skipped = Vec::new();
        let batch = ArrowEncoder::new(kinds, Dialect::csv())
            .encode_skipping(&scanner.scan(text.as_bytes()), &[], |problem| skipped.push(problem.row));
        let expected: Vec<usize> = (0..lists.len()).filter(|&row| lists[row].is_none()).collect();
        prop_assert_eq!(skipped, expected);
        let kept: Vec<Vec<Option<i32>>> = batch.column(0).as_list::<i32>().iter()
            .map(|list| list.expect("not null").as_primitive::<Int32Type>().iter().collect())
            .collect();
        prop_assert_eq!(kept, lists.into_iter().flatten().collect::<Vec<_>>());
    }

    #[test]
    fn the_digest_of_lists_sees_order_and_bounds(first in any_list(), second in any_list()) {
        let kinds = columns([array_of(ColumnType::Int4, 1)]);
        let of = |text: &str| digest_of(&arrow(text, &kinds).0);
        prop_assert_eq!(of(&written(&first)) == of(&written(&second)), first == second);
        // In a slice of a longer batch, and in any order of rows, the same.
        let (both, swapped) = (written(&first) + &written(&second), written(&second) + &written(&first));
        prop_assert_eq!(of(&both), of(&swapped));
        let rows = arrow(&both, &kinds).0;
        prop_assert_eq!(digest_of(&rows.slice(0, 1)).plus(digest_of(&rows.slice(1, 1))), of(&both));
    }
}
