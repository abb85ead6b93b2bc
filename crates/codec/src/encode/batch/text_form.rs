//! A value's text: the spelling that PostgreSQL's input functions, and so the codec's own readers, take back as the
//! same value. Nested values are JSON, or an array literal where the target is an array.

use super::{Loss, strings};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// The key of a field's metadata under which Arrow keeps an extension type, and that of UUIDs (Arrow's canonical extension
/// types, "UUID").
pub(super) const EXTENSION_NAME: &str = "ARROW:extension:name";
pub(super) const UUID: &str = "arrow.uuid";

/// How values are spelled for their target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Bytes as the text they hold; nested values as JSON.
    #[default]
    Plain,
    /// Bytes as `\x` and hexadecimal digits.
    Bytes,
    /// Sixteen bytes as a UUID.
    Uuid,
    /// Lists as PostgreSQL's array literals.
    Array,
}

/// How a column's values become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Spelling {
    /// The form.
    pub form: Form,
    /// That of the items of an array, where the target's type says it.
    pub items: Form,
    /// Whether the target keeps nanoseconds, as text does.
    pub nanoseconds: bool,
    /// Whether the target counts in tens, so that a whole number has all its digits: the shortest text that is read back
    /// as the same float may be another whole number.
    pub exact: bool,
}

/// `data_type` with dictionaries and runs replaced by what they hold, and views of lists by lists, at every depth.
#[must_use]
pub fn unpacked(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => unpacked(values),
        DataType::RunEndEncoded(_, values) => unpacked(values.data_type()),
        DataType::ListView(item) => super::nested::with_items(&DataType::List(item.clone()), unpacked),
        DataType::LargeListView(item) => super::nested::with_items(&DataType::LargeList(item.clone()), unpacked),
        other => super::nested::with_items(other, unpacked),
    }
}

/// Whether [`write`] knows the type, once [`unpacked`].
#[must_use]
pub fn is_writable(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_writable(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_writable(field.data_type())),
        DataType::Map(entries, _) => is_writable(entries.data_type()),
        DataType::Union(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Dictionary(..)
        | DataType::RunEndEncoded(..) => false,
        _ => true,
    }
}

/// Appends the text of the value in `row`, which is not NULL.
///
/// # Errors
/// What the target could not keep of it.
pub fn write(array: &dyn Array, row: usize, spelling: Spelling, out: &mut Vec<u8>) -> Result<(), Loss> {
    match array.data_type() {
        DataType::Utf8 => out.extend_from_slice(array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => out.extend_from_slice(array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => out.extend_from_slice(array.as_string_view().value(row).as_bytes()),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            write_bytes(bytes(array, row), spelling.form, out);
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) if spelling.form == Form::Array => {
            write_array(array, row, spelling, out)?;
        }
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::Struct(_)
        | DataType::Map(..) => write_json(array, row, None, out),
        _ => return write_scalar(array, row, spelling, out),
    }
    Ok(())
}

/// The text of a value for a message: nothing of it is refused.
#[must_use]
pub fn shown(array: &dyn Array, row: usize, spelling: Spelling) -> Vec<u8> {
    let mut text = Vec::new();
    if write(array, row, Spelling { nanoseconds: true, ..spelling }, &mut text).is_err() {
        // Only a Date64 with a time of day has no text of its own.
        text.clear();
        match array.as_primitive_opt::<Date64Type>() {
            Some(days) => put(&mut text, format_args!("{} ms", days.value(row))),
            None => write_json(array, row, None, &mut text),
        }
    }
    text
}

/// Appends a value that is neither text, nor bytes, nor nested.
fn write_scalar(array: &dyn Array, row: usize, spelling: Spelling, out: &mut Vec<u8>) -> Result<(), Loss> {
    let Spelling { nanoseconds, exact, .. } = spelling;
    macro_rules! number {
        ($type:ty) => {
            put(out, format_args!("{}", array.as_primitive::<$type>().value(row)))
        };
    }
    macro_rules! count {
        ($type:ty) => {
            i64::from(array.as_primitive::<$type>().value(row))
        };
    }
    match array.data_type() {
        DataType::Boolean => out.extend_from_slice(if array.as_boolean().value(row) { b"true" } else { b"false" }),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float16 => write_float4(array.as_primitive::<Float16Type>().value(row).to_f32(), exact, out),
        DataType::Float32 => write_float4(array.as_primitive::<Float32Type>().value(row), exact, out),
        DataType::Float64 => write_float8(array.as_primitive::<Float64Type>().value(row), exact, out),
        DataType::Decimal32(_, scale) => {
            write_decimal(i128::from(array.as_primitive::<Decimal32Type>().value(row)), *scale, out);
        }
        DataType::Decimal64(_, scale) => {
            write_decimal(i128::from(array.as_primitive::<Decimal64Type>().value(row)), *scale, out);
        }
        DataType::Decimal128(_, scale) => {
            write_decimal(array.as_primitive::<Decimal128Type>().value(row), *scale, out);
        }
        DataType::Decimal256(_, scale) => {
            write_decimal(array.as_primitive::<Decimal256Type>().value(row), *scale, out);
        }
        DataType::Date32 if put_infinity(count!(Date32Type), i32::MAX.into(), out) => {}
        DataType::Date32 => write_date(count!(Date32Type), out),
        DataType::Date64 => write_date(whole_days(count!(Date64Type))?, out),
        DataType::Timestamp(TimeUnit::Microsecond, _)
            if put_infinity(count!(TimestampMicrosecondType), i64::MAX, out) => {}
        DataType::Timestamp(unit, zone) => {
            let (value, per_second) = match unit {
                TimeUnit::Second => (count!(TimestampSecondType), 1),
                TimeUnit::Millisecond => (count!(TimestampMillisecondType), 1_000),
                TimeUnit::Microsecond => (count!(TimestampMicrosecondType), 1_000_000),
                TimeUnit::Nanosecond => (count!(TimestampNanosecondType), 1_000_000_000),
            };
            write_timestamp(value, per_second, zone.is_some(), nanoseconds, out)?;
        }
        DataType::Time32(TimeUnit::Second) => write_time(count!(Time32SecondType), 1, nanoseconds, out)?,
        DataType::Time32(_) => write_time(count!(Time32MillisecondType), 1_000, nanoseconds, out)?,
        DataType::Time64(TimeUnit::Microsecond) => {
            write_time(count!(Time64MicrosecondType), 1_000_000, nanoseconds, out)?;
        }
        DataType::Time64(_) => write_time(count!(Time64NanosecondType), 1_000_000_000, nanoseconds, out)?,
        DataType::Duration(unit) => {
            let (value, per_second) = match unit {
                TimeUnit::Second => (count!(DurationSecondType), 1),
                TimeUnit::Millisecond => (count!(DurationMillisecondType), 1_000),
                TimeUnit::Microsecond => (count!(DurationMicrosecondType), 1_000_000),
                TimeUnit::Nanosecond => (count!(DurationNanosecondType), 1_000_000_000),
            };
            out.extend_from_slice(b"PT");
            write_seconds(value, per_second, nanoseconds, out)?;
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            put(out, format_args!("P{}M", array.as_primitive::<IntervalYearMonthType>().value(row)));
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = array.as_primitive::<IntervalDayTimeType>().value(row);
            put(out, format_args!("P{}DT", value.days));
            write_seconds(i64::from(value.milliseconds), 1_000, nanoseconds, out)?;
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            put(out, format_args!("P{}M{}DT", value.months, value.days));
            write_seconds(value.nanoseconds, 1_000_000_000, nanoseconds, out)?;
        }
        // A column of nulls has no value to write; every other type is handled above or refused before.
        _ => {}
    }
    Ok(())
}

fn put(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("a vector takes everything");
}

macro_rules! write_float {
    ($name:ident, $float:ty) => {
        /// As PostgreSQL reads it back. Without an exponent as far as integers reach, so that whole numbers are read as
        /// such too; with every digit of a whole number where it is to be `exact`.
        fn $name(value: $float, exact: bool, out: &mut Vec<u8>) {
            let magnitude = value.abs();
            if value.is_nan() {
                out.extend_from_slice(b"NaN");
            } else if value.is_infinite() {
                out.extend_from_slice(if value < 0.0 { b"-Infinity" } else { b"Infinity" });
            } else if exact && value.fract() == 0.0 {
                put(out, format_args!("{value:.0}"));
            } else if magnitude == 0.0 || (1e-5..1e19).contains(&magnitude) {
                put(out, format_args!("{value}"));
            } else {
                put(out, format_args!("{value:e}"));
            }
        }
    };
}

write_float!(write_float4, f32);
write_float!(write_float8, f64);

/// `value / 10^scale`, with every place that the scale counts.
fn write_decimal(value: impl std::fmt::Display, scale: i8, out: &mut Vec<u8>) {
    let start = out.len();
    put(out, format_args!("{value}"));
    if scale <= 0 {
        if &out[start..] != b"0" {
            out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0');
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    let first_digit = start + usize::from(out[start] == b'-');
    let missing = (scale + 1).saturating_sub(out.len() - first_digit);
    out.splice(first_digit..first_digit, std::iter::repeat_n(b'0', missing));
    let point = out.len() - scale;
    out.insert(point, b'.');
}

const MILLIS_PER_DAY: i64 = 86_400_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// The days of a `Date64`, which counts milliseconds but means days.
pub(super) fn whole_days(millis: i64) -> Result<i64, Loss> {
    if millis % MILLIS_PER_DAY == 0 { Ok(millis / MILLIS_PER_DAY) } else { Err(Loss::TimeOfDay) }
}

/// Year, month and day of a day counted from the Unix epoch; year 0 is 1 BC. (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", `civil_from_days`.)
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Appends what the ends of a range stand for, as DuckDB has it; says whether the value was one.
fn put_infinity(value: i64, infinity: i64, out: &mut Vec<u8>) -> bool {
    if value == infinity {
        out.extend_from_slice(b"infinity");
    } else if value == -infinity {
        out.extend_from_slice(b"-infinity");
    }
    value == infinity || value == -infinity
}

fn write_date(days: i64, out: &mut Vec<u8>) {
    if put_date(days, out) {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a date without its era; whether that is BC.
fn put_date(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil(days);
    let before_christ = year <= 0;
    put(out, format_args!("{:04}-{month:02}-{day:02}", if before_christ { 1 - year } else { year }));
    before_christ
}

fn write_timestamp(value: i64, per_second: i64, zone: bool, nanoseconds: bool, out: &mut Vec<u8>) -> Result<(), Loss> {
    let seconds = value.div_euclid(per_second);
    let before_christ = put_date(seconds.div_euclid(SECONDS_PER_DAY), out);
    out.push(b' ');
    put_clock(seconds.rem_euclid(SECONDS_PER_DAY), out);
    put_fraction(value.rem_euclid(per_second), per_second, nanoseconds, out)?;
    if zone {
        out.extend_from_slice(b"+00");
    }
    if before_christ {
        out.extend_from_slice(b" BC");
    }
    Ok(())
}

fn write_time(value: i64, per_second: i64, nanoseconds: bool, out: &mut Vec<u8>) -> Result<(), Loss> {
    put_clock(value.div_euclid(per_second), out);
    put_fraction(value.rem_euclid(per_second), per_second, nanoseconds, out)
}

fn put_clock(seconds: i64, out: &mut Vec<u8>) {
    put(out, format_args!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
}

/// Appends a fraction of a second, without zeros at its end.
fn put_fraction(fraction: i64, per_second: i64, nanoseconds: bool, out: &mut Vec<u8>) -> Result<(), Loss> {
    if fraction == 0 {
        return Ok(());
    }
    let digits = per_second.ilog10() as usize;
    if digits > 6 && !nanoseconds && fraction % 1000 != 0 {
        return Err(Loss::Nanoseconds);
    }
    put(out, format_args!(".{fraction:0digits$}"));
    while out.last() == Some(&b'0') {
        out.pop();
    }
    Ok(())
}

/// Appends a time as an ISO 8601 duration has it, behind its `T`: hours apart, because PostgreSQL reads the number of
/// seconds as a float, which of many seconds has no microseconds.
fn write_seconds(value: i64, per_second: i64, nanoseconds: bool, out: &mut Vec<u8>) -> Result<(), Loss> {
    let (magnitude, per_second_unsigned) = (value.unsigned_abs(), per_second.unsigned_abs());
    let sign = if value < 0 { "-" } else { "" };
    let (hours, seconds) = (magnitude / per_second_unsigned / 3600, magnitude / per_second_unsigned % 3600);
    if hours > 0 {
        put(out, format_args!("{sign}{hours}H"));
    }
    put(out, format_args!("{sign}{seconds}"));
    put_fraction((magnitude % per_second_unsigned).cast_signed(), per_second, nanoseconds, out)?;
    out.push(b'S');
    Ok(())
}

fn bytes(array: &dyn Array, row: usize) -> &[u8] {
    match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        _ => array.as_fixed_size_binary().value(row),
    }
}

fn write_bytes(bytes: &[u8], form: Form, out: &mut Vec<u8>) {
    match form {
        Form::Bytes => {
            out.extend_from_slice(b"\\x");
            put_hex(bytes, out);
        }
        Form::Uuid if bytes.len() == 16 => {
            for (index, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                if index > 0 {
                    out.push(b'-');
                }
                put_hex(&bytes[part], out);
            }
        }
        _ => out.extend_from_slice(bytes),
    }
}

fn put_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// The items of a list.
fn items(array: &dyn Array, row: usize) -> ArrayRef {
    match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value(row),
        DataType::LargeList(_) => array.as_list::<i64>().value(row),
        _ => array.as_fixed_size_list().value(row),
    }
}

/// Appends an array literal: every item that is not NULL in quotes.
fn write_array(array: &dyn Array, row: usize, spelling: Spelling, out: &mut Vec<u8>) -> Result<(), Loss> {
    let items = items(array, row);
    let nested = matches!(items.data_type(), DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..));
    let form = match spelling.items {
        Form::Plain => item_form(array.data_type()),
        said => said,
    };
    let spelling_of_item = Spelling { form, ..spelling };
    let mut text = Vec::new();
    out.push(b'{');
    for index in 0..items.len() {
        if index > 0 {
            out.push(b',');
        }
        if items.is_null(index) || *items.data_type() == DataType::Null {
            out.extend_from_slice(b"NULL");
        } else if nested {
            write_array(items.as_ref(), index, spelling, out)?;
        } else {
            text.clear();
            write(items.as_ref(), index, spelling_of_item, &mut text)?;
            out.push(b'"');
            for &byte in &text {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(byte);
            }
            out.push(b'"');
        }
    }
    out.push(b'}');
    Ok(())
}

/// Bytes within an array can only be meant for `bytea[]` (or are text, which this also is), sixteen each for `uuid[]`, where
/// the column's type does not say it.
fn item_form(list: &DataType) -> Form {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => match item.data_type() {
            DataType::FixedSizeBinary(16) => Form::Uuid,
            _ => Form::Bytes,
        },
        _ => Form::Plain,
    }
}

/// How bytes are spelled within what is nested: as UUIDs where their field says so.
fn form_of_bytes(field: Option<&Field>) -> Form {
    if field.is_some_and(is_uuid) { Form::Uuid } else { Form::Bytes }
}

/// Whether the field's bytes are UUIDs (Arrow's canonical extension types, "UUID").
pub(super) fn is_uuid(field: &Field) -> bool {
    field.metadata().get(EXTENSION_NAME).is_some_and(|name| name == UUID)
}

/// Appends JSON (RFC 8259). What JSON has no number for (NaN, infinities) and every other scalar is a string, but for what
/// its `field` says is JSON itself.
fn write_json(array: &dyn Array, row: usize, field: Option<&Field>, out: &mut Vec<u8>) {
    if array.is_null(row) {
        out.extend_from_slice(b"null");
        return;
    }
    match array.data_type() {
        DataType::Null => out.extend_from_slice(b"null"),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let items = items(array, row);
            out.push(b'[');
            for index in 0..items.len() {
                if index > 0 {
                    out.push(b',');
                }
                write_json(items.as_ref(), index, Some(item), out);
            }
            out.push(b']');
        }
        DataType::Struct(fields) => {
            out.push(b'{');
            for (index, (field, column)) in fields.iter().zip(array.as_struct().columns()).enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_json_string(field.name().as_bytes(), out);
                out.push(b':');
                write_json(column.as_ref(), row, Some(field), out);
            }
            out.push(b'}');
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            out.push(b'{');
            for index in 0..entries.len() {
                if index > 0 {
                    out.push(b',');
                }
                let mut key = Vec::new();
                let field = entries.fields().first().map(AsRef::as_ref);
                write_text_or_json(entries.column(0).as_ref(), index, field, &mut key);
                write_json_string(&key, out);
                out.push(b':');
                write_json(entries.column(1).as_ref(), index, entries.fields().get(1).map(AsRef::as_ref), out);
            }
            out.push(b'}');
        }
        data_type => {
            let start = out.len();
            write_text_or_json(array, row, field, out);
            let is_number = data_type.is_numeric() && out[start..].last().is_some_and(u8::is_ascii_digit);
            let is_json = strings::is_string(data_type) && field.is_some_and(is_json);
            if !is_number && !is_json && *data_type != DataType::Boolean {
                let text = out.split_off(start);
                write_json_string(&text, out);
            }
        }
    }
}

/// Whether a field's texts are JSON (Arrow's canonical extension types, "JSON").
fn is_json(field: &Field) -> bool {
    field.metadata().get(EXTENSION_NAME).is_some_and(|name| name == "arrow.json")
}

/// The text of a value within JSON: nothing of it can be lost there.
fn write_text_or_json(array: &dyn Array, row: usize, field: Option<&Field>, out: &mut Vec<u8>) {
    let spelling = Spelling { form: form_of_bytes(field), nanoseconds: true, ..Spelling::default() };
    // Only a Date64 with a time of day is refused here; its milliseconds then stand for it.
    if write(array, row, spelling, out).is_err() {
        put(out, format_args!("{}", array.as_primitive::<Date64Type>().value(row)));
    }
}

fn write_json_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => put(out, format_args!("\\u{byte:04x}")),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
