//! Nanoseconds of columns that an engine casts by itself: its casts round them, and a value is stored as it is or not at
//! all. So what such an engine gets counts microseconds, once nothing has been found to be lost.

use super::{Loss, Unfit, nested};
use crate::value::Refusal;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, DurationNanosecondType, IntervalMonthDayNanoType, Time64NanosecondType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

/// `data_type` with microseconds in place of nanoseconds, at every depth. `kept`: only where no engine keeps them, which
/// is in spans of time.
pub(super) fn counted(data_type: &DataType, kept: bool) -> DataType {
    match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) if !kept => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        DataType::Time64(TimeUnit::Nanosecond) if !kept => DataType::Time64(TimeUnit::Microsecond),
        DataType::Duration(TimeUnit::Nanosecond) => DataType::Duration(TimeUnit::Microsecond),
        other => nested::with_items(other, |item| counted(item, kept)),
    }
}

/// Whether values of the type may have nanoseconds.
pub(super) fn may_be_lost(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(unit, _) | DataType::Time64(unit) | DataType::Duration(unit) => {
            *unit == TimeUnit::Nanosecond
        }
        DataType::Interval(unit) => *unit == IntervalUnit::MonthDayNano,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            may_be_lost(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| may_be_lost(field.data_type())),
        DataType::Map(entries, _) => may_be_lost(entries.data_type()),
        _ => false,
    }
}

/// `array` as `to`, which is [`counted`] of its type, or the first value that would lose something.
pub(super) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, (usize, Unfit)> {
    let kept = counted(array.data_type(), false) != *to;
    if let Some(row) = nested::first_row(array.as_ref(), &|leaf| first_lost(leaf, kept)) {
        return Err((row, Loss::Nanoseconds.into()));
    }
    if array.data_type() == to {
        return Ok(array.clone());
    }
    arrow_cast::cast(array, to).map_err(|_| (0, Refusal::OutOfRange.into()))
}

/// What is lost of the values of an array that is neither list nor struct; `kept`: as for [`counted`].
fn first_lost(array: &dyn Array, kept: bool) -> Option<usize> {
    match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            first::<IntervalMonthDayNanoType>(array, |value| value.nanoseconds)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) if !kept => first::<TimestampNanosecondType>(array, |value| value),
        DataType::Time64(TimeUnit::Nanosecond) if !kept => first::<Time64NanosecondType>(array, |value| value),
        DataType::Duration(TimeUnit::Nanosecond) => first::<DurationNanosecondType>(array, |value| value),
        _ => None,
    }
}

fn first<T: ArrowPrimitiveType>(array: &dyn Array, nanoseconds: impl Fn(T::Native) -> i64) -> Option<usize> {
    let values = array.as_primitive::<T>().values();
    values
        .iter()
        .enumerate()
        .find(|&(row, &value)| nanoseconds(value) % 1000 != 0 && array.is_valid(row))
        .map(|it| it.0)
}
