//! Days, moments, times of day and durations that Arrow can write down and no target that takes Arrow can hold, and
//! decimals of more digits than their type says. DuckDB takes them as they are: it stores such values, and fails when they
//! are read, ends the statement, or stores others.
//!
//! The limits are DuckDB's (`Date`, `Timestamp`, `dtime_t` and `interval_t` of its sources), where the greatest values stand for
//! infinity. PostgreSQL's are narrower, and its encoders know them.

use super::nested;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMillisecondType,
    DurationSecondType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_schema::{DataType, TimeUnit};

const DAY_SECONDS: i64 = 86_400;
/// 290309-12-22 (BC), the first whole day of the least microseconds.
const LEAST_SECOND: i64 = -9_223_372_022_400;
const GREATEST_SECOND: i64 = i64::MAX / 1_000_000;
const GREATEST_DAY: i64 = i32::MAX as i64 - 1;

/// Whether values of the type have such limits, at any depth. The digits of a decimal that is no part of another value
/// are counted where it is converted.
pub(super) fn concern(data_type: &DataType) -> bool {
    use DataType::{
        Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, FixedSizeList, LargeList, List, Map, Struct,
        Time32, Time64, Timestamp,
    };
    let within = |kind: &DataType| matches!(kind, Decimal32(..) | Decimal64(..) | Decimal128(..)) || concern(kind);
    match data_type {
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => true,
        List(item) | LargeList(item) | FixedSizeList(item, _) | Map(item, _) => within(item.data_type()),
        Struct(fields) => fields.iter().any(|field| within(field.data_type())),
        _ => false,
    }
}

/// The first row with a value beyond the limits.
pub(super) fn first_outside(array: &dyn Array) -> Option<usize> {
    nested::first_row(array, &first_value)
}

fn first_value(array: &dyn Array) -> Option<usize> {
    let seconds = |value: i64, unit: i64| (LEAST_SECOND * unit..=GREATEST_SECOND * unit).contains(&value);
    match array.data_type() {
        DataType::Date32 => first::<Date32Type>(array, |v| v != i32::MIN),
        DataType::Date64 => first::<Date64Type>(array, |v| (v / (DAY_SECONDS * 1000)).abs() <= GREATEST_DAY),
        DataType::Time32(TimeUnit::Second) => first::<Time32SecondType>(array, |v| is_of_day(v.into(), 1)),
        DataType::Time32(_) => first::<Time32MillisecondType>(array, |v| is_of_day(v.into(), 1000)),
        DataType::Time64(TimeUnit::Microsecond) => first::<Time64MicrosecondType>(array, |v| is_of_day(v, 1_000_000)),
        DataType::Time64(_) => first::<Time64NanosecondType>(array, |v| is_of_day(v, 1_000_000_000)),
        DataType::Timestamp(TimeUnit::Second, _) => first::<TimestampSecondType>(array, |v| seconds(v, 1)),
        DataType::Timestamp(TimeUnit::Millisecond, _) => first::<TimestampMillisecondType>(array, |v| seconds(v, 1000)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            first::<TimestampMicrosecondType>(array, |v| v >= LEAST_SECOND * 1_000_000 || v == -i64::MAX)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            // The greatest ones, by which pandas has a last moment, would become infinities.
            first::<TimestampNanosecondType>(array, |v| v.checked_abs().is_some_and(|v| v < i64::MAX))
        }
        DataType::Duration(TimeUnit::Second) => {
            first::<DurationSecondType>(array, |v| v.checked_mul(1_000_000).is_some())
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            first::<DurationMillisecondType>(array, |v| v.checked_mul(1000).is_some())
        }
        &DataType::Decimal32(precision, _) => {
            first::<Decimal32Type>(array, |v| u128::from(v.unsigned_abs()) < power_of_ten(precision))
        }
        &DataType::Decimal64(precision, _) => {
            first::<Decimal64Type>(array, |v| u128::from(v.unsigned_abs()) < power_of_ten(precision))
        }
        &DataType::Decimal128(precision, _) => {
            first::<Decimal128Type>(array, |v| v.unsigned_abs() < power_of_ten(precision))
        }
        _ => None,
    }
}

/// What a number of so many digits is less than.
fn power_of_ten(digits: u8) -> u128 {
    10_u128.pow(u32::from(digits.min(38)))
}

/// Midnight at a day's end is one, as for both engines.
fn is_of_day(value: i64, unit: i64) -> bool {
    (0..=DAY_SECONDS * unit).contains(&value)
}

fn first<T: ArrowPrimitiveType>(array: &dyn Array, is_within: impl Fn(T::Native) -> bool) -> Option<usize> {
    let values = array.as_primitive::<T>().values();
    values.iter().enumerate().find(|&(row, &value)| !is_within(value) && array.is_valid(row)).map(|it| it.0)
}
