//! Batches on their way to COPY: the same bytes as the same values in a text file, whatever Arrow type they come in.

mod rows;

use arrow_array::{ArrayRef, Decimal128Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use proptest::prelude::*;
use rows::{any_rows, columns, write};
use std::sync::Arc;
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::dialect::Dialect;
use tipple_codec::encode::arrow::ArrowEncoder;
use tipple_codec::encode::batch::conform::{Conformer, Taker, output_schema};
use tipple_codec::encode::batch::copy_binary::BatchBinaryEncoder;
use tipple_codec::encode::batch::copy_text::BatchTextEncoder;
use tipple_codec::encode::batch::heap_pages::BatchPageEncoder;
use tipple_codec::encode::batch::{BatchProblem, Loss, Unfit};
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::encode::heap::{Encoded, PageBuffer, PageLayout, Stop, read};
use tipple_codec::scan::Scanner;
use tipple_codec::value::{Refusal, ServerVersion};

const SERVER: ServerVersion = ServerVersion::NEWEST;

/// COPY binary, and its digest, by the way of text.
fn by_text(text: &[u8], columns: &[Column], dialect: &Dialect) -> (Vec<u8>, u128) {
    let mut encoder = CopyBinaryEncoder::new(columns, dialect.clone(), SERVER, true);
    let mut out = Vec::new();
    let encoded = encoder.encode(&Scanner::new(dialect.clone(), columns.len()).scan(text), &mut out);
    assert_eq!(encoded.problem, None);
    (out, encoder.digest())
}

/// A batch as the target `taker` gets it.
fn conform(batch: &RecordBatch, columns: &[Column], taker: Taker) -> Result<RecordBatch, BatchProblem> {
    let schema = batch.schema();
    let output = output_schema(schema.fields(), columns, &[], taker).expect("types that can be read");
    Conformer::new(schema.fields(), columns, &[], output).expect("types that can be converted").conform(batch)
}

/// COPY binary of a batch, a few bytes at a time.
fn by_batch(batch: &RecordBatch, columns: &[Column]) -> Result<(Vec<u8>, u128), BatchProblem> {
    let conformed = conform(batch, columns, Taker::CopyBinary)?;
    let mut encoder = BatchBinaryEncoder::new(columns, SERVER, true);
    let (mut out, mut row) = (Vec::new(), 0);
    while row < conformed.num_rows() {
        let mut chunk = Vec::new();
        row = encoder.encode(&conformed, row, 100, &mut chunk)?;
        out.extend(chunk);
    }
    Ok((out, encoder.digest()))
}

const LAYOUT: PageLayout = PageLayout { block_size: 8192, fillfactor: 100 };

/// COPY binary of the tuples on a batch's pages, of which two are built at a time; and the rows that fit none.
fn by_pages(batch: &RecordBatch, columns: &[Column]) -> Result<(Vec<u8>, Vec<usize>), BatchProblem> {
    let conformed = conform(batch, columns, Taker::CopyBinary)?;
    let fields: Vec<_> = (0..columns.len()).map(Some).collect();
    let mut encoder = BatchPageEncoder::new(columns, &fields, SERVER, LAYOUT).expect("types with pages");
    let memory = || vec![0xAA; 2 * LAYOUT.block_size];
    let (mut out, mut too_large, mut row) = (Vec::new(), Vec::new(), 0);
    let mut ended = false;
    while !ended {
        let mut pages = PageBuffer::new(memory(), LAYOUT);
        loop {
            match encoder.encode(&conformed, row..conformed.num_rows(), &mut pages) {
                None => ended = true,
                Some(Encoded { row: next, stop: Some(Stop::Full) }) => row = next,
                Some(Encoded { row: next, stop: Some(Stop::TooLarge) }) => {
                    too_large.push(next);
                    row = next + 1;
                    continue;
                }
                Some(Encoded { stop: Some(Stop::Problem(problem)), .. }) => return Err(problem),
                Some(Encoded { stop: None, .. }) => unreachable!("it says why it stops"),
            }
            break;
        }
        let (memory, used) = pages.finish();
        for page in memory[..used * LAYOUT.block_size].chunks(LAYOUT.block_size) {
            for tuple in read::tuples(page).expect("a readable page") {
                read::append_copy_binary(tuple, columns, &mut out).expect("a readable tuple");
            }
        }
    }
    Ok((out, too_large))
}

/// COPY text of a batch.
fn text_of(batch: &RecordBatch, columns: &[Column]) -> Vec<u8> {
    let conformed = conform(batch, columns, Taker::CopyText).expect("no problem");
    let mut out = Vec::new();
    let mut encoder = BatchTextEncoder::new(batch.schema().fields(), columns, &[]);
    assert_eq!(encoder.encode(&conformed, 0, usize::MAX, &mut out), Ok(conformed.num_rows()));
    out
}

/// Other types for the same values, chosen by a number per column.
fn retyped(batch: &RecordBatch, choices: &[usize]) -> RecordBatch {
    let column = |(array, choice): (&ArrayRef, &usize)| {
        let others = match array.data_type() {
            DataType::Int16 => vec![DataType::Int64, DataType::Int32, DataType::Decimal128(20, 0)],
            DataType::Int32 => vec![DataType::Int64, DataType::Decimal64(12, 2), DataType::Utf8],
            DataType::Int64 => vec![DataType::Utf8, DataType::Decimal128(30, 5)],
            DataType::Float32 | DataType::Float64 => vec![DataType::Utf8],
            DataType::Boolean => vec![DataType::Utf8],
            DataType::Decimal64(_, scale) => {
                vec![DataType::Decimal128(38, *scale), DataType::Decimal128(38, *scale + 4), DataType::Utf8]
            }
            DataType::Decimal128(..) => vec![DataType::Utf8, DataType::Utf8View],
            DataType::Utf8 => vec![
                DataType::LargeUtf8,
                DataType::Utf8View,
                DataType::Binary,
                DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8)),
            ],
            _ => vec![],
        };
        match others.get(choice % (others.len() + 1)) {
            Some(other) => arrow_cast::cast(array, other).expect("a cast that Arrow has"),
            None => array.clone(),
        }
    };
    let arrays: Vec<ArrayRef> = batch.columns().iter().zip(choices).map(column).collect();
    let fields: Vec<Field> = arrays
        .iter()
        .zip(batch.schema().fields())
        .map(|(array, field)| Field::new(field.name(), array.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).expect("a batch")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_bytes_of_the_same_text(
        rows in any_rows(12),
        skip in 0_usize..4,
        choices in proptest::collection::vec(0_usize..5, columns().len()),
    ) {
        let (columns, dialect) = (columns(), Dialect::csv());
        let kept = &rows[skip.min(rows.len())..];
        let expected = by_text(&write(kept, &dialect), &columns, &dialect);
        let file = write(&rows, &dialect);
        let mut scanner = Scanner::new(dialect.clone(), columns.len());
        let (batch, _) = ArrowEncoder::new(columns.clone(), dialect).encode(&scanner.scan(&file));
        // Behind an offset, so that a buffer that is read from its start is found out.
        let batch = batch.slice(skip.min(rows.len()), kept.len());
        prop_assert_eq!(&by_batch(&batch, &columns).expect("no problem"), &expected);
        let retyped = retyped(&batch, &choices);
        prop_assert_eq!(&by_batch(&retyped, &columns).expect("no problem"), &expected);
        for batch in [&batch, &retyped] {
            prop_assert_eq!(&by_pages(batch, &columns).expect("no problem"), &(expected.0.clone(), vec![]));
            prop_assert_eq!(&by_text(&text_of(batch, &columns), &columns, &Dialect::text()), &expected);
        }
    }

    /// A decimal of another scale is what its text would be, rounded or refused.
    #[test]
    fn decimals_change_their_scale_as_text_does(
        value in prop_oneof![any::<i128>(), -100_000_i128..100_000].prop_map(|value| value % 10_i128.pow(38)),
        from in -5_i8..=38,
        precision in 1_u16..=38,
        scale in 0_i16..=38,
    ) {
        prop_assume!(scale.cast_unsigned() <= precision);
        let column = Column { name: "n".into(), kind: ColumnType::Numeric { precision, scale }, not_null: false };
        let array = Decimal128Array::from(vec![value]).with_precision_and_scale(38, from).expect("a decimal");
        let field = Field::new("n", DataType::Decimal128(38, from), true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(array)]).expect("a batch");
        let columns = [column];
        let digits = format!("{}e{}\n", value, -i32::from(from));
        let mut encoder = CopyBinaryEncoder::new(&columns, Dialect::text(), SERVER, false);
        let mut expected = Vec::new();
        let encoded = encoder.encode(&Scanner::new(Dialect::text(), 1).scan(digits.as_bytes()), &mut expected);
        match by_batch(&batch, &columns) {
            Ok((bytes, _)) => {
                prop_assert_eq!(encoded.problem, None);
                prop_assert_eq!(&by_pages(&batch, &columns).expect("no problem").0, &bytes);
                prop_assert_eq!(bytes, expected);
            }
            Err(problem) => {
                prop_assert!(encoded.problem.is_some());
                prop_assert_eq!(problem.unfit, Unfit::Refused(Refusal::OutOfRange));
            }
        }
    }
}

/// Numbers of any size, infinities and NaN among them, as text and as integers.
#[test]
fn numbers_on_pages_are_those_of_copy_binary() {
    let text = ["0", "-1", "1e40", "1e-40", "NaN", "-Infinity", "12345678901234567890.00000000000000000001", "0.000"];
    let (batch, columns) = one_column(ColumnType::Decimal, Arc::new(arrow_array::StringArray::from(text.to_vec())));
    assert_eq!(by_pages(&batch, &columns).expect("numbers").0, by_batch(&batch, &columns).expect("numbers").0);
    let whole = [0, 1, -9_999_999_999_999, 9_999_999_999_999, 10_000_000_000_000, i64::MIN, i64::MAX];
    let (batch, columns) = one_column(ColumnType::Decimal, Arc::new(arrow_array::Int64Array::from(whole.to_vec())));
    assert_eq!(by_pages(&batch, &columns).expect("numbers").0, by_batch(&batch, &columns).expect("numbers").0);
}

/// What the server would compress or store elsewhere goes on no page; what goes is beside it as if nothing had been.
#[test]
fn rows_that_fit_no_page_are_named() {
    let text = |length: usize| "ä".repeat(length / 2);
    let lengths = [0, 126, 128, 1900, 2100, 8000, 300_000, 4];
    let texts = arrow_array::LargeStringArray::from_iter_values(lengths.map(text));
    let (batch, columns) = one_column(ColumnType::Text, Arc::new(texts));
    let (out, too_large) = by_pages(&batch, &columns).expect("texts");
    assert_eq!(too_large, [4, 5, 6]);
    let kept = arrow_array::LargeStringArray::from_iter_values([0, 126, 128, 1900, 4].map(text));
    let (batch, columns) = one_column(ColumnType::Text, Arc::new(kept));
    assert_eq!(out, by_batch(&batch, &columns).expect("texts").0);
}

/// Columns in another order than the relation's, and an attribute that was dropped.
#[test]
fn attributes_come_from_any_column() {
    let numbers: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![Some(1), None]));
    let texts: ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["x", "y"]));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).expect("a batch");
    let column = |name: &str, kind| Column { name: name.into(), kind, not_null: false };
    let columns = [column("n", ColumnType::Int8), column("t", ColumnType::Text)];
    let fields = [Some(1), None, Some(0)];
    let mut encoder = BatchPageEncoder::new(&columns, &fields, SERVER, LAYOUT).expect("types with pages");
    let mut pages = PageBuffer::new(vec![0; 8192], LAYOUT);
    assert_eq!(encoder.encode(&batch, 0..2, &mut pages), None);
    let attributes = [columns[1].clone(), column("dropped", ColumnType::Text), columns[0].clone()];
    let mut out = Vec::new();
    for tuple in read::tuples(&pages.finish().0).expect("a readable page") {
        read::append_copy_binary(tuple, &attributes, &mut out).expect("a readable tuple");
    }
    let null = [255; 4];
    let mut expected = [&[0, 3, 0, 0, 0, 1, b'x'][..], &null, &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
    expected.extend([&[0, 3, 0, 0, 0, 1, b'y'][..], &null, &null].concat());
    assert_eq!(out, expected);
    let opaque = [column("o", ColumnType::Opaque)];
    let refused = BatchPageEncoder::new(&opaque, &[None, Some(0)], SERVER, LAYOUT).map(drop);
    assert_eq!(refused, Err(&opaque[0]));
}

fn one_column(kind: ColumnType, array: ArrayRef) -> (RecordBatch, [Column; 1]) {
    let field = Field::new("a", array.data_type().clone(), true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).expect("a batch");
    (batch, [Column { name: "a".into(), kind, not_null: true }])
}

#[test]
fn the_first_row_is_the_one_reported() {
    let numbers: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![Some(1), Some(2), Some(1 << 20), None]));
    let texts: ArrayRef = Arc::new(arrow_array::StringArray::from(vec![Some("ok"), Some("long"), None, None]));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).expect("a batch");
    let column = |name: &str, kind, not_null| Column { name: name.into(), kind, not_null };
    let problem = |columns: &[Column]| conform(&batch, columns, Taker::CopyBinary).expect_err("a problem");
    let short = ColumnType::Varchar { limit: 3 };
    let (n, t) = (column("n", ColumnType::Int2, true), column("t", short, true));
    let too_long = Unfit::Refused(Refusal::TooLong { limit: 3 });
    assert_eq!(problem(&[n.clone(), t]), BatchProblem { row: 1, column: 1, unfit: too_long });
    let out_of_range = Unfit::Refused(Refusal::OutOfRange);
    let free = column("t", ColumnType::Text, false);
    assert_eq!(problem(&[n, free.clone()]), BatchProblem { row: 2, column: 0, unfit: out_of_range });
    let wide = column("n", ColumnType::Int8, true);
    let null = Unfit::Refused(Refusal::NullNotAllowed);
    assert_eq!(problem(&[wide, free]), BatchProblem { row: 3, column: 0, unfit: null });
}

#[test]
fn nothing_finer_than_the_target_is_cut_off() {
    let nanos = |value: i64| Arc::new(arrow_array::TimestampNanosecondArray::from(vec![value])) as ArrayRef;
    let (batch, columns) = one_column(ColumnType::Timestamp { precision: 6 }, nanos(-1000));
    assert!(by_batch(&batch, &columns).is_ok());
    let (batch, columns) = one_column(ColumnType::Timestamp { precision: 6 }, nanos(-1001));
    let problem = by_batch(&batch, &columns).expect_err("nanoseconds");
    assert_eq!(problem.unfit, Unfit::Lossy(Loss::Nanoseconds));
    let (batch, columns) = one_column(ColumnType::Date, nanos(-86_400_000_000_000));
    assert!(by_batch(&batch, &columns).is_ok());
    let (batch, columns) = one_column(ColumnType::Date, nanos(-1));
    assert_eq!(by_batch(&batch, &columns).expect_err("a time of day").unfit, Unfit::Lossy(Loss::TimeOfDay));
}

/// A server that has no such type of its own gets the text of numbers that are of it.
#[test]
fn integers_without_a_sign_are_read_for_copy_text() {
    let kind = |bits| ColumnType::Integer { bits, signed: false };
    let floats = |value: f64| Arc::new(arrow_array::Float64Array::from(vec![value])) as ArrayRef;
    let integers = |value: i64| Arc::new(arrow_array::Int64Array::from(vec![value])) as ArrayRef;
    let most = 9_223_372_036_854_775_808.0;
    for (bits, array, text) in
        [(64, floats(most), "9223372036854775808\n"), (32, integers(4_294_967_295), "4294967295\n")]
    {
        let (batch, columns) = one_column(kind(bits), array);
        assert_eq!(text_of(&batch, &columns), text.as_bytes());
    }
    for (bits, array) in [(64, integers(-1)), (32, integers(1 << 32)), (64, floats(1.5)), (64, floats(2.0 * most))] {
        let (batch, columns) = one_column(kind(bits), array);
        assert_eq!(conform(&batch, &columns, Taker::CopyText).expect_err("no such number").row, 0);
    }
    let (batch, columns) = one_column(kind(64), Arc::new(arrow_array::NullArray::new(1)));
    let columns = columns.map(|column| Column { not_null: false, ..column });
    assert_eq!(text_of(&batch, &columns), b"\\N\n");
}

/// What a foreign producer calls text is looked at: a string cut within a character, and bytes that are none.
#[test]
fn text_of_others_is_checked() {
    use arrow_array::StringArray;
    use arrow_buffer::{Buffer, OffsetBuffer};
    let unchecked = |bytes: &[u8], offsets: Vec<i32>| {
        // SAFETY: the offsets are in order and in range; what is no UTF-8 is only looked at as bytes.
        let array = unsafe { StringArray::new_unchecked(OffsetBuffer::new(offsets.into()), Buffer::from(bytes), None) };
        Arc::new(array) as ArrayRef
    };
    for (bytes, offsets, row) in
        [("aé".as_bytes(), vec![0, 2, 3], 0), (&b"ab\xff"[..], vec![0, 1, 3], 1), (&b"a\0"[..], vec![0, 1, 2], 1)]
    {
        let (batch, columns) = one_column(ColumnType::Text, unchecked(bytes, offsets));
        let problem = by_batch(&batch, &columns).expect_err("no text");
        assert_eq!((problem.row, problem.unfit), (row, Unfit::Refused(Refusal::InvalidEncoding)));
    }
}

/// A moment is stored by its UTC clock where the target has no zone; a clock is no moment.
#[test]
fn time_zones() {
    let micros = arrow_array::TimestampMicrosecondArray::from(vec![1_000_000]).with_timezone("+05:30");
    let (batch, columns) = one_column(ColumnType::Timestamp { precision: 6 }, Arc::new(micros));
    assert_eq!(text_of(&batch, &columns), b"1970-01-01 00:00:01\n");
    let (batch, columns) = one_column(ColumnType::Opaque, batch.column(0).clone());
    assert_eq!(text_of(&batch, &columns), b"1970-01-01 00:00:01+00\n");
    assert_eq!(batch.column(0).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, Some("+05:30".into())));
}
