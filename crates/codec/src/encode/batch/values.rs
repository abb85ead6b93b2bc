//! The values of a conformed batch, looked at once for each column.

use super::strings;
use crate::column::ColumnType;
use crate::value::{self, Refusal};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{Array, BinaryArray, BooleanArray, RecordBatch, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};

const DAY_MICROS: i64 = 86_400_000_000;

/// A column's values in their own type.
pub(super) enum Values<'b> {
    Bool(&'b BooleanArray),
    Int2(&'b [i16]),
    Int4(&'b [i32]),
    Int8(&'b [i64]),
    Float4(&'b [f32]),
    Float8(&'b [f64]),
    Date(&'b [i32]),
    Timestamp(&'b [i64]),
    Time(&'b [i64]),
    Scaled64(&'b [i64], u8),
    Scaled128(&'b [i128], u8),
    Number(&'b StringArray, Option<value::numeric::Typmod>),
    Text(&'b StringArray),
    Bytes(&'b BinaryArray),
    Uuid(&'b StringArray),
    AnyText(&'b dyn Array),
    Unknown,
}

impl Values<'_> {
    /// Bytes of a value's text, where it has one.
    #[inline(always)]
    pub(super) fn text_bytes(&self, row: usize) -> usize {
        match self {
            Self::Number(texts, _) | Self::Text(texts) | Self::Uuid(texts) => texts.value_length(row) as usize,
            Self::Bytes(bytes) => bytes.value_length(row) as usize,
            Self::AnyText(array) => strings::bytes(*array, row).len(),
            _ => 0,
        }
    }
}

/// A column of a batch: its values, and which of them are NULL, if any.
pub(super) fn of_column<'b>(
    batch: &'b RecordBatch,
    index: usize,
    kind: &ColumnType,
) -> (Values<'b>, Option<&'b NullBuffer>) {
    let array = batch.column(index).as_ref();
    (values(array, kind), array.nulls().filter(|nulls| nulls.null_count() > 0))
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
        (DataType::Timestamp(..), ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. }) => {
            Values::Timestamp(array.as_primitive::<TimestampMicrosecondType>().values())
        }
        (DataType::Time64(TimeUnit::Microsecond), ColumnType::Time { precision: 6 }) => {
            Values::Time(array.as_primitive::<Time64MicrosecondType>().values())
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
        (DataType::Utf8, ColumnType::Uuid) => Values::Uuid(array.as_string()),
        (DataType::Binary, ColumnType::Bytea) => Values::Bytes(array.as_binary()),
        (DataType::Utf8, ColumnType::Text | ColumnType::Varchar { .. } | ColumnType::Char { .. }) => {
            Values::Text(array.as_string())
        }
        (from, ColumnType::Text | ColumnType::Varchar { .. } | ColumnType::Char { .. }) if strings::is_string(from) => {
            Values::AnyText(array)
        }
        _ => Values::Unknown,
    }
}

/// Days since 1970 as days since 2000. The ends of the range are infinities, as DuckDB has them and as
/// [`crate::encode::arrow`] hands them over.
#[inline(always)]
pub(super) fn date(days: i32) -> Result<i32, Refusal> {
    if days == i32::MAX {
        return Ok(value::date::INFINITY);
    }
    if days == -i32::MAX {
        return Ok(value::date::NEGATIVE_INFINITY);
    }
    let days = days.checked_sub(value::UNIX_EPOCH_DAYS).ok_or(Refusal::OutOfRange)?;
    if (value::date::FIRST..=value::date::LAST).contains(&days) { Ok(days) } else { Err(Refusal::OutOfRange) }
}

/// Microseconds since midnight; a day's end is one.
#[inline(always)]
pub(super) fn time(micros: i64) -> Result<i64, Refusal> {
    if (0..=DAY_MICROS).contains(&micros) { Ok(micros) } else { Err(Refusal::OutOfRange) }
}

/// As [`date`], in microseconds.
#[inline(always)]
pub(super) fn timestamp(micros: i64) -> Result<i64, Refusal> {
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
