//! The digest of rows: what it must not notice, and what it must.

mod rows;

use arrow_array::{
    ArrayRef, Decimal64Array, Decimal128Array, Float64Array, Int32Array, Int64Array, LargeStringArray, RecordBatch,
    StringArray, StringViewArray,
};
use proptest::prelude::*;
use rows::{Value, any_rows, columns, write};
use std::sync::Arc;
use tipple_codec::dialect::Dialect;
use tipple_codec::digest::{RowDigest, UndigestableType, of_batch};
use tipple_codec::encode::arrow::ArrowEncoder;
use tipple_codec::scan::Scanner;

fn batch(rows: &[Vec<Value>]) -> RecordBatch {
    let file = write(rows, &Dialect::csv());
    let mut scanner = Scanner::new(Dialect::csv(), columns().len());
    let (batch, encoded) = ArrowEncoder::new(columns(), Dialect::csv()).encode(&scanner.scan(&file));
    assert_eq!((encoded.rows, encoded.problem), (rows.len(), None));
    batch
}

fn digest(rows: &[Vec<Value>]) -> RowDigest {
    let batch = batch(rows);
    of_batch(&batch, &vec![true; batch.num_columns()]).expect("digestable types")
}

fn of_column(array: ArrayRef) -> RowDigest {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).expect("one column");
    of_batch(&batch, &[true]).expect("a digestable type")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn order_and_division_do_not_matter(
        (rows, shuffled) in any_rows(10).prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
        cut in 0_usize..11,
    ) {
        let whole = digest(&rows);
        prop_assert_eq!(whole.rows, rows.len() as u64);
        prop_assert_eq!(whole, digest(&shuffled));
        let (first, second) = rows.split_at(cut.min(rows.len()));
        prop_assert_eq!(whole, digest(second).plus(digest(first)));
        prop_assert_eq!(whole.minus(digest(first)), digest(second));
        // Slices of one batch, whose nulls and offsets do not begin at their buffers' start.
        let batch = batch(&rows);
        let all = vec![true; batch.num_columns()];
        let parts = [batch.slice(0, first.len()), batch.slice(first.len(), second.len())];
        let sum = parts.map(|part| of_batch(&part, &all).expect("digestable types"));
        prop_assert_eq!(whole, sum[0].plus(sum[1]));
    }

    #[test]
    fn any_change_of_any_value_shows(rows in any_rows(6), row in 0_usize..6, column in 0_usize..14, other in any_rows(1)) {
        if let (true, [other]) = (row < rows.len(), &other[..]) {
            let mut changed = rows.clone();
            changed[row][column] = other[column].clone();
            prop_assert_eq!(rows[row][column].stored() == other[column].stored(), digest(&rows) == digest(&changed));
        }
    }

    #[test]
    fn a_row_more_or_twice_shows(rows in any_rows(6)) {
        if let Some(first) = rows.first() {
            let mut more = rows.clone();
            more.push(first.clone());
            prop_assert_ne!(digest(&rows).sum, digest(&more).sum);
            // Twice more is not the same as not at all.
            more.push(first.clone());
            prop_assert_ne!(digest(&rows).sum, digest(&more).sum);
            prop_assert_ne!(digest(&rows[1..]).sum, digest(&more[1..]).sum);
        }
    }

    #[test]
    fn the_arrow_type_of_a_value_does_not_matter(
        numbers in proptest::collection::vec(proptest::option::of(-(10_i64.pow(18) - 1)..10_i64.pow(18)), 0..20),
        texts in proptest::collection::vec(proptest::option::of("[a-zé]{0,20}"), 0..20),
    ) {
        let narrow = Decimal64Array::from(numbers.clone()).with_precision_and_scale(18, 2).expect("fits");
        let wide: Decimal128Array = numbers.iter().map(|number| number.map(i128::from)).collect();
        let wide = wide.with_precision_and_scale(18, 2).expect("fits");
        prop_assert_eq!(of_column(Arc::new(narrow)), of_column(Arc::new(wide)));
        let expected = of_column(Arc::new(StringArray::from(texts.clone())));
        prop_assert_eq!(of_column(Arc::new(StringViewArray::from_iter(texts.clone()))), expected);
        prop_assert_eq!(of_column(Arc::new(LargeStringArray::from(texts))), expected);
    }
}

#[test]
fn integers_of_any_width_are_equal() {
    let narrow = Int32Array::from(vec![Some(-1), None, Some(i32::MAX)]);
    let wide = Int64Array::from(vec![Some(-1), None, Some(i64::from(i32::MAX))]);
    assert_eq!(of_column(Arc::new(narrow)), of_column(Arc::new(wide)));
}

#[test]
fn null_is_no_value() {
    let null = of_column(Arc::new(Int32Array::from(vec![None::<i32>])));
    assert_ne!(null, of_column(Arc::new(Int32Array::from(vec![0]))));
    assert_ne!(
        of_column(Arc::new(StringArray::from(vec![Some("")]))),
        of_column(Arc::new(StringArray::from(vec![None::<&str>])))
    );
}

#[test]
fn columns_do_not_exchange_their_values() {
    let (one, two): (ArrayRef, ArrayRef) = (Arc::new(Int32Array::from(vec![1])), Arc::new(Int32Array::from(vec![2])));
    let pair = |left: &ArrayRef, right: &ArrayRef| {
        let batch = RecordBatch::try_from_iter([("a", left.clone()), ("b", right.clone())]).expect("two columns");
        of_batch(&batch, &[true, true]).expect("digestable types")
    };
    assert_ne!(pair(&one, &two), pair(&two, &one));
    assert_ne!(pair(&one, &one), pair(&two, &two));
}

#[test]
fn columns_can_be_left_out() {
    let batch = |second: i32| {
        let columns: [(&str, ArrayRef); 2] =
            [("a", Arc::new(Int32Array::from(vec![1]))), ("b", Arc::new(Int32Array::from(vec![second])))];
        RecordBatch::try_from_iter(columns).expect("two columns")
    };
    assert_eq!(of_batch(&batch(2), &[true, false]), of_batch(&batch(3), &[true, false]));
    assert_ne!(of_batch(&batch(2), &[true, true]), of_batch(&batch(3), &[true, true]));
}

#[test]
fn a_type_without_canonical_form_is_named() {
    let array: ArrayRef = Arc::new(arrow_array::NullArray::new(1));
    let batch = RecordBatch::try_from_iter([("c", array)]).expect("one column");
    assert_eq!(of_batch(&batch, &[true]), Err(UndigestableType(arrow_schema::DataType::Null)));
    assert_eq!(of_batch(&batch, &[false]).map(|digest| digest.rows), Ok(1));
}

#[test]
fn all_ways_to_write_not_a_number_are_equal() {
    let other = f64::from_bits(f64::NAN.to_bits() | 1 << 63 | 1);
    assert_eq!(
        of_column(Arc::new(Float64Array::from(vec![f64::NAN]))),
        of_column(Arc::new(Float64Array::from(vec![other])))
    );
}
