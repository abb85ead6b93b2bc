//! Conversions from one Arrow type to another that need no text between: a tight loop per column.

use super::text_form::whole_days;
use super::{Loss, Unfit};
use crate::value::Refusal;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};
use std::sync::Arc;

/// A conversion: the column again, or its first value that does not fit.
pub(super) type Convert = fn(&dyn Array, &DataType) -> Result<ArrayRef, (usize, Unfit)>;

/// The conversion between two types, where there is a direct one.
pub(super) fn find(from: &DataType, to: &DataType) -> Option<Convert> {
    use DataType::{Date32, Date64, Decimal64, Decimal128, Float32, Float64, Int16, Int32, Int64, Timestamp};
    macro_rules! from_integers {
        ($to:ty) => {
            match from {
                DataType::Int8 => Some(integer::<Int8Type, $to> as Convert),
                Int16 => Some(integer::<Int16Type, $to>),
                Int32 => Some(integer::<Int32Type, $to>),
                Int64 => Some(integer::<Int64Type, $to>),
                DataType::UInt8 => Some(integer::<UInt8Type, $to>),
                DataType::UInt16 => Some(integer::<UInt16Type, $to>),
                DataType::UInt32 => Some(integer::<UInt32Type, $to>),
                DataType::UInt64 => Some(integer::<UInt64Type, $to>),
                DataType::Decimal32(..) => Some(whole::<Decimal32Type, $to>),
                Decimal64(..) => Some(whole::<Decimal64Type, $to>),
                Decimal128(..) => Some(whole::<Decimal128Type, $to>),
                _ => None,
            }
        };
    }
    macro_rules! to_decimal {
        ($to:ty) => {
            match from {
                DataType::Int8 => Some(decimal::<Int8Type, $to> as Convert),
                Int16 => Some(decimal::<Int16Type, $to>),
                Int32 => Some(decimal::<Int32Type, $to>),
                Int64 => Some(decimal::<Int64Type, $to>),
                DataType::UInt8 => Some(decimal::<UInt8Type, $to>),
                DataType::UInt16 => Some(decimal::<UInt16Type, $to>),
                DataType::UInt32 => Some(decimal::<UInt32Type, $to>),
                DataType::UInt64 => Some(decimal::<UInt64Type, $to>),
                DataType::Decimal32(..) => Some(decimal::<Decimal32Type, $to>),
                Decimal64(..) => Some(decimal::<Decimal64Type, $to>),
                Decimal128(..) => Some(decimal::<Decimal128Type, $to>),
                _ => None,
            }
        };
    }
    match (from, to) {
        (_, Int16) => from_integers!(Int16Type),
        (_, Int32) => from_integers!(Int32Type),
        (_, Int64) => from_integers!(Int64Type),
        (DataType::Float16, Float32) => Some(|array, _| map::<Float16Type, Float32Type>(array, |v| Ok(v.to_f32()))),
        (DataType::Float16, Float64) => Some(|array, _| map::<Float16Type, Float64Type>(array, |v| Ok(v.to_f64()))),
        (Float32, Float64) => Some(|array, _| map::<Float32Type, Float64Type>(array, |v| Ok(f64::from(v)))),
        (Float64, Float32) => Some(|array, _| map::<Float64Type, Float32Type>(array, narrow)),
        (_, Decimal64(..)) => to_decimal!(Decimal64Type),
        (_, Decimal128(..)) => to_decimal!(Decimal128Type),
        (Date64, Date32) => Some(|array, _| {
            map::<Date64Type, Date32Type>(array, |v| {
                i32::try_from(whole_days(v)?).map_err(|_| Refusal::OutOfRange.into())
            })
        }),
        (Timestamp(TimeUnit::Second, _), Date32) => Some(days::<TimestampSecondType, 86_400>),
        (Timestamp(TimeUnit::Millisecond, _), Date32) => Some(days::<TimestampMillisecondType, 86_400_000>),
        (Timestamp(TimeUnit::Microsecond, _), Date32) => Some(days::<TimestampMicrosecondType, 86_400_000_000>),
        (Timestamp(TimeUnit::Nanosecond, _), Date32) => Some(days::<TimestampNanosecondType, 86_400_000_000_000>),
        (Date32, Timestamp(TimeUnit::Microsecond, None)) => {
            Some(|array, _| map::<Date32Type, TimestampMicrosecondType>(array, midnight))
        }
        (Date64, Timestamp(TimeUnit::Microsecond, None)) => Some(scale_up::<Date64Type, 1_000>),
        // A moment keeps its UTC clock where the target has no zone; a clock without a zone is no moment.
        (Timestamp(_, None), Timestamp(_, Some(_))) => None,
        (Timestamp(unit, _), Timestamp(TimeUnit::Microsecond, _)) => Some(match unit {
            TimeUnit::Second => scale_up::<TimestampSecondType, 1_000_000>,
            TimeUnit::Millisecond => scale_up::<TimestampMillisecondType, 1_000>,
            TimeUnit::Microsecond => scale_up::<TimestampMicrosecondType, 1>,
            TimeUnit::Nanosecond => |array, to| {
                timestamp(array, to, |array| {
                    map::<TimestampNanosecondType, TimestampMicrosecondType>(array, |v| {
                        if v % 1000 == 0 { Ok(v / 1000) } else { Err(Loss::Nanoseconds.into()) }
                    })
                })
            },
        }),
        _ => None,
    }
}

/// Whether the conversion between two types gives back every value that it takes: numbers are not rounded, a float keeps
/// its text, and moments stay moments.
pub(super) fn keeps(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Timestamp};
    match (from, to) {
        (
            Decimal32(_, from) | Decimal64(_, from) | Decimal128(_, from),
            Decimal32(_, to) | Decimal64(_, to) | Decimal128(_, to),
        ) => from <= to,
        (Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale), _) => *scale <= 0,
        (Timestamp(_, Some(_)), _) => matches!(to, Timestamp(_, Some(_))),
        _ => !(from.is_floating() && to.is_floating()),
    }
}

/// Converts every value that is not NULL.
#[inline(always)]
fn map<From: ArrowPrimitiveType, To: ArrowPrimitiveType>(
    array: &dyn Array,
    convert: impl Fn(From::Native) -> Result<To::Native, Unfit>,
) -> Result<ArrayRef, (usize, Unfit)> {
    map_array::<From, To>(array, convert).map(|array| Arc::new(array) as ArrayRef)
}

#[inline(always)]
pub(super) fn map_array<From: ArrowPrimitiveType, To: ArrowPrimitiveType>(
    array: &dyn Array,
    convert: impl Fn(From::Native) -> Result<To::Native, Unfit>,
) -> Result<PrimitiveArray<To>, (usize, Unfit)> {
    let array = array.as_primitive::<From>();
    let mut values = Vec::with_capacity(array.len());
    for (row, &value) in array.values().iter().enumerate() {
        values.push(match convert(value) {
            Ok(value) => value,
            // What stands under a NULL is no value.
            Err(_) if array.is_null(row) => To::Native::default(),
            Err(unfit) => return Err((row, unfit)),
        });
    }
    Ok(PrimitiveArray::new(values.into(), array.nulls().cloned()))
}

fn integer<From, To>(array: &dyn Array, _: &DataType) -> Result<ArrayRef, (usize, Unfit)>
where
    From: ArrowPrimitiveType,
    To: ArrowPrimitiveType,
    To::Native: TryFrom<From::Native>,
{
    map::<From, To>(array, |value| To::Native::try_from(value).map_err(|_| Refusal::OutOfRange.into()))
}

/// As the server narrows a number: to the nearest, but a finite one may become neither infinite nor zero.
fn narrow(value: f64) -> Result<f32, Unfit> {
    let narrowed = value as f32;
    if (narrowed.is_infinite() && value.is_finite()) || (narrowed == 0.0 && value != 0.0) {
        return Err(Refusal::OutOfRange.into());
    }
    Ok(narrowed)
}

/// The types of a decimal's integer, and integers themselves.
trait Scaled: ArrowPrimitiveType {
    fn widen(value: Self::Native) -> i128;
}

macro_rules! scaled {
    ($($type:ty),*) => {
        $(impl Scaled for $type {
            #[inline(always)]
            fn widen(value: Self::Native) -> i128 {
                i128::from(value)
            }
        })*
    };
}

scaled!(
    Int8Type,
    Int16Type,
    Int32Type,
    Int64Type,
    UInt8Type,
    UInt16Type,
    UInt32Type,
    UInt64Type,
    Decimal32Type,
    Decimal64Type,
    Decimal128Type
);

/// A decimal without a fraction as an integer; one with a fraction is none, as its text would be.
fn whole<From, To>(array: &dyn Array, _: &DataType) -> Result<ArrayRef, (usize, Unfit)>
where
    From: Scaled,
    To: ArrowPrimitiveType,
    To::Native: TryFrom<i128>,
{
    let scale = scale_of(array);
    let power = 10_i128.pow(u32::from(scale.unsigned_abs().min(38)));
    map::<From, To>(array, |value| {
        let value = From::widen(value);
        let whole = if scale <= 0 {
            value.checked_mul(power).ok_or(Refusal::OutOfRange)?
        } else if value % power == 0 {
            value / power
        } else {
            return Err(Refusal::InvalidSyntax.into());
        };
        To::Native::try_from(whole).map_err(|_| Refusal::OutOfRange.into())
    })
}

fn scale_of(array: &dyn Array) -> i8 {
    match array.data_type() {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// To another scale, rounded half away from zero as the server rounds what has more places than its column.
fn decimal<From, To>(array: &dyn Array, to: &DataType) -> Result<ArrayRef, (usize, Unfit)>
where
    From: Scaled,
    To: arrow_array::types::DecimalType,
    To::Native: TryFrom<i128>,
{
    let from_scale = scale_of(array);
    let (DataType::Decimal64(precision, scale) | DataType::Decimal128(precision, scale)) = *to else {
        return Err((0, Refusal::OutOfRange.into()));
    };
    let limit = 10_i128.pow(u32::from(precision.min(38)));
    let store = |value: i128| {
        if value.unsigned_abs() >= limit.unsigned_abs() {
            return Err(Refusal::OutOfRange.into());
        }
        To::Native::try_from(value).map_err(|_| Unfit::from(Refusal::OutOfRange))
    };
    let shift = i32::from(scale) - i32::from(from_scale);
    let power = 10_i128.checked_pow(shift.unsigned_abs());
    let converted = match (shift, power) {
        (0, _) => map_array::<From, To>(array, |value| store(From::widen(value))),
        (1.., Some(power)) => map_array::<From, To>(array, |value| {
            store(From::widen(value).checked_mul(power).ok_or(Unfit::from(Refusal::OutOfRange))?)
        }),
        (1.., None) => map_array::<From, To>(array, |value| {
            if From::widen(value) == 0 { store(0) } else { Err(Refusal::OutOfRange.into()) }
        }),
        (_, Some(power)) => map_array::<From, To>(array, |value| {
            let value = From::widen(value);
            let (quotient, rest) = (value / power, value % power);
            // Half of an even power is exact; the power is at least ten.
            store(if rest.abs() >= power / 2 { quotient + value.signum() } else { quotient })
        }),
        // More places are dropped than any value has digits; even half of the last one is out of reach.
        (_, None) => map_array::<From, To>(array, |_| store(0)),
    };
    let array = converted?.with_precision_and_scale(precision, scale);
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|_| (0, Refusal::OutOfRange.into()))
}

const DAY_MICROS: i64 = 86_400_000_000;

/// The ends of both ranges are infinities.
fn midnight(days: i32) -> Result<i64, Unfit> {
    if days.checked_abs() == Some(i32::MAX) {
        return Ok(if days > 0 { i64::MAX } else { -i64::MAX });
    }
    i64::from(days).checked_mul(DAY_MICROS).ok_or_else(|| Refusal::OutOfRange.into())
}

fn days<From, const UNITS_PER_DAY: i64>(array: &dyn Array, _: &DataType) -> Result<ArrayRef, (usize, Unfit)>
where
    From: ArrowPrimitiveType<Native = i64>,
{
    map::<From, Date32Type>(array, |value| {
        if UNITS_PER_DAY == DAY_MICROS && value.checked_abs() == Some(i64::MAX) {
            return Ok(if value > 0 { i32::MAX } else { -i32::MAX });
        }
        if value % UNITS_PER_DAY != 0 {
            return Err(Loss::TimeOfDay.into());
        }
        i32::try_from(value / UNITS_PER_DAY).map_err(|_| Refusal::OutOfRange.into())
    })
}

fn scale_up<From, const FACTOR: i64>(array: &dyn Array, to: &DataType) -> Result<ArrayRef, (usize, Unfit)>
where
    From: ArrowPrimitiveType<Native = i64>,
{
    timestamp(array, to, |array| {
        map::<From, TimestampMicrosecondType>(array, |value| {
            value.checked_mul(FACTOR).ok_or_else(|| Refusal::OutOfRange.into())
        })
    })
}

/// Gives the timestamps the zone of the type they are for.
fn timestamp(
    array: &dyn Array,
    to: &DataType,
    convert: impl Fn(&dyn Array) -> Result<ArrayRef, (usize, Unfit)>,
) -> Result<ArrayRef, (usize, Unfit)> {
    let converted = convert(array)?;
    let DataType::Timestamp(_, zone) = to else { return Ok(converted) };
    Ok(Arc::new(converted.as_primitive::<TimestampMicrosecondType>().clone().with_timezone_opt(zone.clone())))
}
