//! The types of Arrow columns whose common spellings are read by a [`Reader`], and dates and moments as Arrow counts them.

use super::arrow_column::SERVER;
use crate::value::reader::Reader;
use crate::value::{self, Refusal, Span};

/// A type whose values readers know. A trait and not a function: those would be without the loop's target features.
pub(super) trait RegularType<V>: Copy {
    /// The value of a text.
    ///
    /// # Errors
    /// What the type's parser says.
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<V, Refusal>;
}

/// Integers.
#[derive(Clone, Copy)]
pub(super) struct Integers;

impl RegularType<i16> for Integers {
    #[inline(always)]
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<i16, Refusal> {
        value::integer::read_int2(reader, span, SERVER)
    }
}

impl RegularType<i32> for Integers {
    #[inline(always)]
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<i32, Refusal> {
        value::integer::read_int4(reader, span, SERVER)
    }
}

impl RegularType<i64> for Integers {
    #[inline(always)]
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<i64, Refusal> {
        value::integer::read_int8(reader, span, SERVER)
    }
}

/// `real` and `double precision`.
#[derive(Clone, Copy)]
pub(super) struct Floats;

impl RegularType<f32> for Floats {
    #[inline(always)]
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<f32, Refusal> {
        value::float::read_float4(reader, span)
    }
}

impl RegularType<f64> for Floats {
    #[inline(always)]
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<f64, Refusal> {
        value::float::read_float8(reader, span)
    }
}

/// Microseconds since 1970 of `timestamp(precision)`.
#[derive(Clone, Copy)]
pub(super) struct Timestamps {
    pub(super) precision: u8,
}

impl RegularType<i64> for Timestamps {
    #[inline(always)]
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<i64, Refusal> {
        unix_micros(value::timestamp::read(reader, span, self.precision)?)
    }
}

/// The same with time zone.
#[derive(Clone, Copy)]
pub(super) struct ZonedTimestamps {
    pub(super) precision: u8,
    /// Whether a text without a zone means UTC.
    pub(super) utc: bool,
}

impl RegularType<i64> for ZonedTimestamps {
    #[inline(always)]
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<i64, Refusal> {
        unix_micros(value::timestamp::read_tz(reader, span, self.precision, self.utc)?)
    }
}

/// Days since 1970.
#[derive(Clone, Copy)]
pub(super) struct Dates;

impl RegularType<i32> for Dates {
    #[inline(always)]
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<i32, Refusal> {
        unix_days(value::date::read(reader, span)?)
    }
}

/// `numeric(digits, fraction)` of at most 18 digits.
#[derive(Clone, Copy)]
pub(super) struct Decimals {
    pub(super) digits: u8,
    pub(super) fraction: u8,
}

impl RegularType<i64> for Decimals {
    #[inline(always)]
    fn parse(self, reader: impl Reader, span: Span<'_>) -> Result<i64, Refusal> {
        value::numeric::read_scaled_i64(reader, span, self.digits, self.fraction)
    }
}

/// Days since 1970. Infinity keeps its place at the end of the range, where DuckDB reads it as infinity too; its minus
/// infinity is `-i32::MAX`.
#[inline(always)]
fn unix_days(days: i32) -> Result<i32, Refusal> {
    match days {
        value::date::INFINITY => Ok(i32::MAX),
        value::date::NEGATIVE_INFINITY => Ok(-i32::MAX),
        _ => days.checked_add(value::date::UNIX_EPOCH_DAYS).ok_or(Refusal::OutOfRange),
    }
}

/// As [`unix_days`], in microseconds.
#[inline(always)]
fn unix_micros(micros: i64) -> Result<i64, Refusal> {
    match micros {
        value::timestamp::INFINITY => Ok(i64::MAX),
        value::timestamp::NEGATIVE_INFINITY => Ok(-i64::MAX),
        // The greatest one stands for infinity there.
        _ => {
            let since_1970 = micros.checked_add(value::timestamp::UNIX_EPOCH_MICROS);
            since_1970.filter(|&micros| micros != i64::MAX).ok_or(Refusal::OutOfRange)
        }
    }
}
