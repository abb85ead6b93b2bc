//! Conformed batches as PostgreSQL's COPY binary format (see [`crate::encode::copy_binary`]).
//!
//! Columns become rows here: per batch each column is looked at once ([`Values`]), and the loop over the rows has one
//! match per field, which repeats with every row.

use super::{BatchProblem, Unfit, strings};
use crate::column::{Column, ColumnType};
use crate::digest;
use crate::value::{self, Refusal, ServerVersion};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, BooleanArray, RecordBatch, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

/// Encodes the conformed batches of one stream.
#[derive(Debug)]
pub struct BatchBinaryEncoder {
    columns: Vec<Column>,
    server: ServerVersion,
    digest: Option<u128>,
}

/// A column's values in their own type.
enum Values<'b> {
    Bool(&'b BooleanArray),
    Int2(&'b [i16]),
    Int4(&'b [i32]),
    Int8(&'b [i64]),
    Float4(&'b [f32]),
    Float8(&'b [f64]),
    Date(&'b [i32]),
    Timestamp(&'b [i64]),
    Scaled64(&'b [i64], u8),
    Scaled128(&'b [i128], u8),
    Number(&'b StringArray, Option<value::numeric::Typmod>),
    Text(&'b StringArray),
    AnyText(&'b dyn Array),
    Unknown,
}

fn values<'b>(array: &'b dyn Array, kind: &ColumnType) -> Values<'b> {
    match (array.data_type(), kind) {
        (DataType::Boolean, ColumnType::Bool) => Values::Bool(array.as_boolean()),
        (DataType::Int16, ColumnType::Int2) => Values::Int2(array.as_primitive::<Int16Type>().values()),
        (DataType::Int32, ColumnType::Int4) => Values::Int4(array.as_primitive::<Int32Type>().values()),
        (DataType::Int64, ColumnType::Int8) => Values::Int8(array.as_primitive::<Int64Type>().values()),
        (DataType::Float32, ColumnType::Float4) => Values::Float4(array.as_primitive::<Float32Type>().values()),
        (DataType::Float64, ColumnType::Float8) => Values::Float8(array.as_primitive::<Float64Type>().values()),
        (DataType::Date32, ColumnType::Date) => Values::Date(array.as_primitive::<Date32Type>().values()),
        (DataType::Timestamp(..), ColumnType::Timestamp { .. }) => {
            Values::Timestamp(array.as_primitive::<TimestampMicrosecondType>().values())
        }
        (DataType::Decimal64(_, scale), _) => {
            Values::Scaled64(array.as_primitive::<Decimal64Type>().values(), scale.unsigned_abs())
        }
        (DataType::Decimal128(_, scale), _) => {
            Values::Scaled128(array.as_primitive::<Decimal128Type>().values(), scale.unsigned_abs())
        }
        (DataType::Utf8, ColumnType::Numeric { precision, scale }) => {
            Values::Number(array.as_string(), Some(value::numeric::Typmod { precision: *precision, scale: *scale }))
        }
        (DataType::Utf8, ColumnType::Decimal) => Values::Number(array.as_string(), None),
        (DataType::Utf8, ColumnType::Text | ColumnType::Varchar { .. } | ColumnType::Char { .. }) => {
            Values::Text(array.as_string())
        }
        (from, ColumnType::Text | ColumnType::Varchar { .. } | ColumnType::Char { .. }) if strings::is_string(from) => {
            Values::AnyText(array)
        }
        _ => Values::Unknown,
    }
}

impl BatchBinaryEncoder {
    /// An encoder for `columns`; with `digest`, the order-independent sum of the records' 128-bit hashes is kept.
    #[must_use]
    pub fn new(columns: &[Column], server: ServerVersion, digest: bool) -> Self {
        Self { columns: columns.to_vec(), server, digest: digest.then_some(0) }
    }

    /// The sum of the hashes of all records encoded so far, modulo 2^128; 0 where none was asked for.
    #[must_use]
    pub fn digest(&self) -> u128 {
        self.digest.unwrap_or(0)
    }

    /// Appends rows from `first` on until `out` has `limit_bytes` or the batch ends; the row after the last.
    ///
    /// # Errors
    /// The first value that cannot be stored; `out` has the rows before it.
    pub fn encode(
        &mut self,
        batch: &RecordBatch,
        first: usize,
        limit_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, BatchProblem> {
        let columns: Vec<(Values<'_>, Option<&NullBuffer>)> = batch
            .columns()
            .iter()
            .zip(&self.columns)
            .map(|(array, column)| {
                (values(array.as_ref(), &column.kind), array.nulls().filter(|nulls| nulls.null_count() > 0))
            })
            .collect();
        let count = (columns.len() as u16).to_be_bytes();
        let mut row = first;
        while row < batch.num_rows() && out.len() < limit_bytes {
            let begin = out.len();
            out.extend_from_slice(&count);
            for (index, (values, nulls)) in columns.iter().enumerate() {
                if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                    out.extend_from_slice(&(-1_i32).to_be_bytes());
                } else if let Err(refusal) = put(values, row, self.server, out) {
                    out.truncate(begin);
                    return Err(BatchProblem { row, column: index, unfit: Unfit::Refused(refusal) });
                }
            }
            if let Some(digest) = &mut self.digest {
                *digest = digest.wrapping_add(digest::of_copy_binary_record(&out[begin..]));
            }
            row += 1;
        }
        Ok(row)
    }
}

/// Appends one value behind its length.
#[inline(always)]
fn put(values: &Values<'_>, row: usize, server: ServerVersion, out: &mut Vec<u8>) -> Result<(), Refusal> {
    match values {
        Values::Bool(array) => fixed(out, [u8::from(array.value(row))]),
        Values::Int2(values) => fixed(out, values[row].to_be_bytes()),
        Values::Int4(values) => fixed(out, values[row].to_be_bytes()),
        Values::Int8(values) => fixed(out, values[row].to_be_bytes()),
        Values::Float4(values) => fixed(out, values[row].to_be_bytes()),
        Values::Float8(values) => fixed(out, values[row].to_be_bytes()),
        Values::Date(values) => fixed(out, date(values[row])?.to_be_bytes()),
        Values::Timestamp(values) => fixed(out, timestamp(values[row])?.to_be_bytes()),
        Values::Scaled64(values, scale) => sized(out, |out| {
            value::numeric::encode_binary_from_scaled(i128::from(values[row]), *scale, out);
            Ok(())
        })?,
        Values::Scaled128(values, scale) => sized(out, |out| {
            value::numeric::encode_binary_from_scaled(values[row], *scale, out);
            Ok(())
        })?,
        Values::Number(texts, typmod) => {
            sized(out, |out| value::numeric::encode_binary(texts.value(row).as_bytes(), *typmod, server, out))?;
        }
        Values::Text(texts) => text(out, texts.value(row).as_bytes())?,
        Values::AnyText(array) => text(out, strings::bytes(*array, row))?,
        Values::Unknown => return Err(Refusal::Unsure),
    }
    Ok(())
}

#[inline(always)]
fn fixed<const WIDTH: usize>(out: &mut Vec<u8>, value: [u8; WIDTH]) {
    out.extend_from_slice(&(WIDTH as i32).to_be_bytes());
    out.extend_from_slice(&value);
}

#[inline(always)]
fn text(out: &mut Vec<u8>, text: &[u8]) -> Result<(), Refusal> {
    // A field longer than this is more than the server stores.
    let length = i32::try_from(text.len()).map_err(|_| Refusal::OutOfRange)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text);
    Ok(())
}

/// A value that says itself how long it is.
#[inline(always)]
fn sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal>) -> Result<(), Refusal> {
    let place = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let length = (out.len() - place - 4) as i32;
    out[place..place + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Days since 1970 as days since 2000. The ends of the range are infinities, as DuckDB has them and as
/// [`crate::encode::arrow`] hands them over.
#[inline(always)]
fn date(days: i32) -> Result<i32, Refusal> {
    if days == i32::MAX {
        return Ok(value::date::INFINITY);
    }
    if days == -i32::MAX {
        return Ok(value::date::NEGATIVE_INFINITY);
    }
    let days = days.checked_sub(value::UNIX_EPOCH_DAYS).ok_or(Refusal::OutOfRange)?;
    if (value::date::FIRST..=value::date::LAST).contains(&days) { Ok(days) } else { Err(Refusal::OutOfRange) }
}

/// As [`date`], in microseconds.
#[inline(always)]
fn timestamp(micros: i64) -> Result<i64, Refusal> {
    if micros == i64::MAX {
        return Ok(value::timestamp::INFINITY);
    }
    if micros == -i64::MAX {
        return Ok(value::timestamp::NEGATIVE_INFINITY);
    }
    let micros = micros.checked_sub(value::UNIX_EPOCH_MICROS).ok_or(Refusal::OutOfRange)?;
    let range = value::timestamp::FIRST..=value::timestamp::LAST;
    if range.contains(&micros) { Ok(micros) } else { Err(Refusal::OutOfRange) }
}
