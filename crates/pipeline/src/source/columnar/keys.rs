//! The values of one column of columnar sources: which partitions a load needs is known by them before its first row is
//! stored. Reading one column is cheap where the file has its columns apart, and a stream in memory is in no other way
//! to be asked.
//!
//! A source has a few partitions and millions of values, so a value is told only if none was told before that no
//! partition of this width can part from it.

use super::ColumnarFile;
use crate::error::{Error, Result};
use crate::plan::{ColumnarFormat, FieldPlan, Piece, Source};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field, SchemaRef};
use serde::Deserialize;
use std::collections::{BTreeSet, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use tipple_codec::column::Column;
use tipple_codec::encode::batch::UnreadableType;
use tipple_codec::encode::batch::conform::{Conformer, Taker, output_schema};
use tipple_codec::encode::batch::text_form::{Spelling, shown};

/// Days, months and years begin at a quarter of an hour in every time zone there is today.
const MICROSECONDS_TOGETHER: i128 = 15 * 60 * 1_000_000;

/// Whose values are wanted.
#[derive(Debug, Deserialize)]
pub struct ColumnKeysPlan {
    /// The files; a stream in memory stands for one.
    pub sources: Vec<Source>,
    /// How they are written.
    pub format: ColumnarFormat,
    /// The field that the key comes from.
    pub field: FieldPlan,
    /// The key's column.
    pub column: Column,
    /// The width of a partition where it is a number: its digits, and how many of them are behind the point.
    pub every: Option<(i64, u32)>,
}

/// Texts of the column, so many that each partition that a value needs is needed by one of them. Values that the column
/// does not take are passed over: the load will name them. Whether to stop is asked with every batch.
///
/// # Errors
/// Where a source cannot be read, has changed, or has no such column; [`Error::Cancelled`] where it was to stop.
pub fn distinct(
    plan: &ColumnKeysPlan,
    stream: Option<Box<dyn RecordBatchReader + Send>>,
    mut stops: impl FnMut() -> bool,
) -> Result<Vec<String>> {
    let mut found = Found { every: plan.every, ..Found::default() };
    let mut go_on = || if stops() { Err(Error::Cancelled) } else { Ok(()) };
    match stream {
        Some(stream) => read_stream(plan, stream, &mut found, &mut go_on)?,
        None => plan.sources.iter().try_for_each(|source| read_file(plan, source, &mut found, &mut go_on))?,
    }
    Ok(found.texts.into_iter().collect())
}

fn read_file(
    plan: &ColumnKeysPlan,
    source: &Source,
    found: &mut Found,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let file = ColumnarFile::open(source, plan.format)?;
    let fields = std::slice::from_ref(&plan.field);
    let mut reader = KeyReader::new(plan, &file.fields(fields)?)?;
    let whole = Piece { source: 0, offset: 0, length: u64::MAX };
    for batch in file.batches(whole, fields)? {
        go_on()?;
        reader.add(&batch?, found);
    }
    file.check_unchanged()
}

fn read_stream(
    plan: &ColumnKeysPlan,
    stream: Box<dyn RecordBatchReader + Send>,
    found: &mut Found,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let failed = |error: arrow_schema::ArrowError| Error::Invalid { message: format!("the stream failed: {error}") };
    let schema: SchemaRef = stream.schema();
    let index = schema.index_of(&plan.field.name).map_err(failed)?;
    let mut reader = KeyReader::new(plan, std::slice::from_ref(&schema.fields()[index]))?;
    for batch in stream {
        go_on()?;
        reader.add(&batch.and_then(|batch| batch.project(&[index])).map_err(failed)?, found);
    }
    Ok(())
}

/// Turns the values of one source into those of the column.
struct KeyReader {
    conformer: Conformer,
}

impl KeyReader {
    fn new(plan: &ColumnKeysPlan, fields: &[Arc<Field>]) -> Result<Self> {
        // A NULL needs no partition that could be made for it.
        let columns = [Column { not_null: false, ..plan.column.clone() }];
        let spellings = [plan.field.spelling];
        let unreadable = |unreadable: UnreadableType| Error::Invalid {
            message: format!("column {}: {}; leave it out with --columns", plan.column.name, unreadable.reason),
        };
        let schema = output_schema(fields, &columns, &spellings, Taker::CopyBinary).map_err(unreadable)?;
        let conformer = Conformer::new(fields, &columns, &spellings, schema).map_err(unreadable)?;
        Ok(Self { conformer })
    }

    fn add(&mut self, batch: &RecordBatch, found: &mut Found) {
        let Ok((batch, _)) = self.conformer.conform_skipping(batch, |_| Ok::<_, Infallible>(()));
        found.add(batch.column(0));
    }
}

/// What was told already.
#[derive(Default)]
struct Found {
    every: Option<(i64, u32)>,
    /// What values have in common that no partition parts, with the scale that they are counted in.
    together: HashSet<(i128, i8)>,
    texts: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, array: &ArrayRef) {
        match array.data_type() {
            DataType::Int16 => self.add_numbers(array, 0, |row| array.as_primitive::<Int16Type>().value(row).into()),
            DataType::Int32 => self.add_numbers(array, 0, |row| array.as_primitive::<Int32Type>().value(row).into()),
            DataType::Int64 => self.add_numbers(array, 0, |row| array.as_primitive::<Int64Type>().value(row).into()),
            DataType::Decimal64(_, scale) => {
                self.add_numbers(array, *scale, |row| array.as_primitive::<Decimal64Type>().value(row).into());
            }
            DataType::Decimal128(_, scale) => {
                self.add_numbers(array, *scale, |row| array.as_primitive::<Decimal128Type>().value(row));
            }
            DataType::Date32 => {
                self.add_each(array, |row| Some((array.as_primitive::<Date32Type>().value(row).into(), 0)));
            }
            DataType::Timestamp(..) => {
                let moments = array.as_primitive::<TimestampMicrosecondType>();
                self.add_each(array, |row| Some((i128::from(moments.value(row)).div_euclid(MICROSECONDS_TOGETHER), 0)));
            }
            _ => self.add_each(array, |_| None),
        }
    }

    /// Numbers with so many digits behind the point: those that the same multiple of the width lies below.
    fn add_numbers(&mut self, array: &ArrayRef, scale: i8, value: impl Fn(usize) -> i128) {
        let every = self.every;
        let together = |value: i128| {
            let Some((digits, places)) = every.filter(|&(digits, _)| digits > 0) else { return Some(value) };
            let width = i128::from(digits).checked_mul(10_i128.checked_pow(u32::try_from(scale).ok()?)?)?;
            Some(value.checked_mul(10_i128.checked_pow(places)?)?.div_euclid(width))
        };
        self.add_each(array, |row| Some((together(value(row))?, scale)));
    }

    /// Adds the values that are no NULL and have nothing in common with one that was there before; `None` says that it
    /// is not known what they have in common.
    fn add_each(&mut self, array: &ArrayRef, together: impl Fn(usize) -> Option<(i128, i8)>) {
        let mut last = None;
        for row in (0..array.len()).filter(|&row| array.is_valid(row)) {
            let now = together(row);
            if now.is_some() && (now == last || !now.is_some_and(|now| self.together.insert(now))) {
                last = now;
                continue;
            }
            last = now;
            let text = shown(array.as_ref(), row, Spelling { exact: true, ..Spelling::default() });
            self.texts.insert(String::from_utf8_lossy(&text).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, Int64Array, StringArray, TimestampMicrosecondArray};

    fn texts(array: ArrayRef, every: Option<(i64, u32)>) -> Vec<String> {
        let mut found = Found { every, ..Found::default() };
        found.add(&array);
        found.texts.into_iter().collect()
    }

    #[test]
    fn one_text_for_each_multiple_of_the_width() {
        let numbers = Int64Array::from(vec![Some(-1), Some(-10), Some(-11), None, Some(0), Some(9), Some(10)]);
        assert_eq!(texts(Arc::new(numbers), Some((10, 0))), ["-1", "-11", "0", "10"]);
        let prices = Decimal128Array::from(vec![49, 50, 51, 100, -1]).with_precision_and_scale(10, 2);
        assert_eq!(texts(Arc::new(prices.unwrap()), Some((5, 1))), ["-0.01", "0.49", "0.50", "1.00"]);
    }

    #[test]
    fn without_a_width_every_number_is_told() {
        assert_eq!(texts(Arc::new(Int64Array::from(vec![3, 3, 4])), None), ["3", "4"]);
        assert_eq!(texts(Arc::new(Int64Array::from(vec![i64::MAX])), Some((1, 30))), [i64::MAX.to_string()]);
    }

    #[test]
    fn moments_are_told_apart_as_far_as_time_zones_part_them() {
        let minute = 60_000_000;
        let moments = TimestampMicrosecondArray::from(vec![0, 14 * minute, 15 * minute, -1]);
        let found = texts(Arc::new(moments), None);
        assert_eq!(found, ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "1970-01-01 00:15:00"]);
    }

    #[test]
    fn texts_are_told_once() {
        assert_eq!(texts(Arc::new(StringArray::from(vec![Some("b"), Some("a"), None, Some("b")])), None), ["a", "b"]);
    }
}
