//! Random rows of every type: written as text, and read back from COPY binary and from Arrow by slow readers.

#![allow(dead_code, reason = "every test file takes what it needs")]

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use proptest::prelude::*;
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::dialect::{Dialect, Family};

/// Days from 2000-01-01, where PostgreSQL counts from, back to 1970-01-01, where Arrow does.
const EPOCH_DAYS: i64 = 10_957;
const DAY_MICROS: i64 = 86_400_000_000;

/// One value, as it is written and as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float4(f32),
    Float8(f64),
    /// The value times 10 to the power of the scale, and the scale.
    Scaled(i128, u8),
    /// `numeric` without scale, as it is written.
    Decimal(String),
    Text(String),
    /// Text, and the length that `char(n)` pads it to.
    Padded(String, usize),
    /// Days since 1970-01-01.
    Date(i64),
    /// Microseconds since 1970-01-01.
    Timestamp(i64),
}

impl Value {
    /// The value as a target holds it.
    pub(crate) fn stored(&self) -> Self {
        match self {
            Self::Padded(text, length) => {
                let padding = length - text.chars().count();
                Self::Text(format!("{text}{}", " ".repeat(padding)))
            }
            other => other.clone(),
        }
    }

    fn written(&self) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(value) => if *value { "t" } else { "false" }.into(),
            Self::Integer(value) => value.to_string(),
            Self::Float4(value) => format!("{value:?}"),
            Self::Float8(value) => format!("{value:?}"),
            Self::Scaled(value, scale) => scaled_text(*value, *scale),
            Self::Decimal(text) | Self::Text(text) | Self::Padded(text, _) => text.clone(),
            Self::Date(days) => date_text(*days),
            Self::Timestamp(micros) => {
                let (days, rest) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS));
                let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
                let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
                format!("{} {hour:02}:{minute:02}:{second:02}.{fraction:06}", date_text(days))
            }
        })
    }
}

fn scaled_text(value: i128, scale: u8) -> String {
    let digits = format!("{:0width$}", value.unsigned_abs(), width = usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    format!("{}{whole}.{fraction}", if value < 0 { "-" } else { "" })
}

/// A day of the years 1 to 9999, counted year by year and month by month.
fn date_text(days: i64) -> String {
    let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    // Days from 0001-01-01.
    let mut left = days + 719_162;
    let mut year = 1;
    while left >= 365 + i64::from(leap(year)) {
        left -= 365 + i64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, left + 1)
}

/// A column of every type.
pub(crate) fn columns() -> Vec<Column> {
    let kinds = [
        ColumnType::Bool,
        ColumnType::Int2,
        ColumnType::Int4,
        ColumnType::Int8,
        ColumnType::Float4,
        ColumnType::Float8,
        ColumnType::Numeric { precision: 15, scale: 2 },
        ColumnType::Numeric { precision: 38, scale: 10 },
        ColumnType::Decimal,
        ColumnType::Text,
        ColumnType::Varchar { limit: 12 },
        ColumnType::Char { limit: 7 },
        ColumnType::Date,
        ColumnType::Timestamp { precision: 6 },
    ];
    kinds.into_iter().map(|kind| Column { name: format!("{kind:?}"), kind, not_null: false }).collect()
}

/// Rows for [`columns`]. The texts hold no byte that `tbl` cannot write.
pub(crate) fn any_rows(most: usize) -> impl Strategy<Value = Vec<Vec<Value>>> {
    let days = -719_162_i64..2_932_896;
    let nine = 10_i128.pow(15) - 1;
    let large = 10_i128.pow(38) - 1;
    let values = vec![
        any::<bool>().prop_map(Value::Bool).boxed(),
        any::<i16>().prop_map(|value| Value::Integer(value.into())).boxed(),
        any::<i32>().prop_map(|value| Value::Integer(value.into())).boxed(),
        prop_oneof![any::<i64>(), -99_i64..99].prop_map(Value::Integer).boxed(),
        (-1e30_f32..1e30).prop_map(Value::Float4).boxed(),
        prop_oneof![-1e300_f64..1e300, -100.0..100.0].prop_map(Value::Float8).boxed(),
        prop_oneof![-nine..=nine, -99_999_i128..99_999].prop_map(|value| Value::Scaled(value, 2)).boxed(),
        prop_oneof![-large..=large, -99_999_i128..99_999].prop_map(|value| Value::Scaled(value, 10)).boxed(),
        "-?[1-9][0-9]{0,40}(\\.[0-9]{1,20})?".prop_map(Value::Decimal).boxed(),
        "[a-cé𝄞 ,;\"'\\\\\t]{1,30}".prop_map(Value::Text).boxed(),
        "[a-cé𝄞\"\\\\]{1,12}".prop_map(Value::Text).boxed(),
        "[a-cé𝄞 ]{0,6}[a-c]".prop_map(|text| Value::Padded(text, 7)).boxed(),
        days.clone().prop_map(Value::Date).boxed(),
        (days, 0..DAY_MICROS).prop_map(|(days, micros)| Value::Timestamp(days * DAY_MICROS + micros)).boxed(),
    ];
    let row: Vec<_> = values.into_iter().map(|value| prop_oneof![1 => Just(Value::Null), 5 => value]).collect();
    proptest::collection::vec(row, 0..=most)
}

/// The rows as a file of `dialect`.
pub(crate) fn write(rows: &[Vec<Value>], dialect: &Dialect) -> Vec<u8> {
    let mut file = Vec::new();
    for row in rows {
        for (index, value) in row.iter().enumerate() {
            if index > 0 {
                file.push(dialect.delimiter);
            }
            match value.written() {
                None => file.extend(dialect.null_text.as_bytes()),
                Some(text) => write_field(text.as_bytes(), index, dialect, &mut file),
            }
        }
        if dialect.trailing_delimiter {
            file.push(dialect.delimiter);
        }
        file.extend(dialect.line_end.bytes());
    }
    file
}

fn write_field(text: &[u8], index: usize, dialect: &Dialect, file: &mut Vec<u8>) {
    let special = [dialect.delimiter, dialect.quote, dialect.escape, b'\\'];
    match dialect.family {
        // Some columns are quoted without need.
        Family::Csv if index % 3 == 1 || text.is_empty() || text.iter().any(|byte| special.contains(byte)) => {
            file.push(dialect.quote);
            for &byte in text {
                if byte == dialect.quote || byte == dialect.escape {
                    file.push(dialect.escape);
                }
                file.push(byte);
            }
            file.push(dialect.quote);
        }
        Family::Text => {
            for &byte in text {
                match byte {
                    b'\\' => file.extend(b"\\\\"),
                    b'\t' => file.extend(b"\\t"),
                    b'c' => file.extend(b"\\143"),
                    _ => file.push(byte),
                }
            }
        }
        Family::Csv | Family::Plain | Family::Fixed => file.extend(text),
    }
}

/// Reads records in COPY binary form: the values, and the bytes of each record.
pub(crate) fn read_copy_binary<'b>(mut bytes: &'b [u8], columns: &[Column]) -> (Vec<Vec<Value>>, Vec<&'b [u8]>) {
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let whole = bytes;
        assert_eq!(usize::from(u16::from_be_bytes(*take(&mut bytes))), columns.len());
        let mut row = Vec::new();
        for column in columns {
            let length = i32::from_be_bytes(*take(&mut bytes));
            row.push(if length == -1 {
                Value::Null
            } else {
                let (value, rest) = bytes.split_at(length as usize);
                bytes = rest;
                read_binary_value(value, &column.kind)
            });
        }
        rows.push(row);
        records.push(&whole[..whole.len() - bytes.len()]);
    }
    (rows, records)
}

fn take<'b, const COUNT: usize>(bytes: &mut &'b [u8]) -> &'b [u8; COUNT] {
    let (taken, rest) = bytes.split_first_chunk().expect("enough bytes");
    *bytes = rest;
    taken
}

fn read_binary_value(mut bytes: &[u8], kind: &ColumnType) -> Value {
    let whole = bytes;
    let bytes = &mut bytes;
    let value = match kind {
        ColumnType::Bool => Value::Bool(take::<1>(bytes)[0] == 1),
        ColumnType::Int2 => Value::Integer(i16::from_be_bytes(*take(bytes)).into()),
        ColumnType::Int4 => Value::Integer(i32::from_be_bytes(*take(bytes)).into()),
        ColumnType::Int8 => Value::Integer(i64::from_be_bytes(*take(bytes))),
        ColumnType::Float4 => Value::Float4(f32::from_be_bytes(*take(bytes))),
        ColumnType::Float8 => Value::Float8(f64::from_be_bytes(*take(bytes))),
        ColumnType::Date => Value::Date(i64::from(i32::from_be_bytes(*take(bytes))) + EPOCH_DAYS),
        ColumnType::Timestamp { .. } => Value::Timestamp(i64::from_be_bytes(*take(bytes)) + EPOCH_DAYS * DAY_MICROS),
        ColumnType::Numeric { scale, .. } => {
            let text = read_numeric(bytes);
            let (_, fraction) = text.split_once('.').expect("a scale");
            assert_eq!(fraction.len(), *scale as usize);
            Value::Scaled(text.replace('.', "").parse().expect("digits"), *scale as u8)
        }
        ColumnType::Decimal => Value::Decimal(read_numeric(bytes)),
        ColumnType::Text | ColumnType::Varchar { .. } | ColumnType::Char { .. } | ColumnType::Opaque => {
            *bytes = &[];
            Value::Text(String::from_utf8(whole.to_vec()).expect("UTF-8"))
        }
        other => unreachable!("{other:?} is none of the columns here"),
    };
    assert!(bytes.is_empty(), "{kind:?} of {} bytes", whole.len());
    value
}

/// `numeric_send`: digits to the base 10000, the weight of the first, sign, digits after the point.
fn read_numeric(bytes: &mut &[u8]) -> String {
    let digits = i16::from_be_bytes(*take(bytes));
    let weight = i32::from(i16::from_be_bytes(*take(bytes)));
    let sign = u16::from_be_bytes(*take(bytes));
    let scale = usize::from(u16::from_be_bytes(*take(bytes)));
    let digits: Vec<i16> = (0..digits).map(|_| i16::from_be_bytes(*take(bytes))).collect();
    assert!(digits.first() != Some(&0) && digits.last() != Some(&0), "stripped of zeros: {digits:?}");
    let digit = |place: i32| digits.get(usize::try_from(weight - place).unwrap_or(usize::MAX)).copied().unwrap_or(0);
    let whole: String = (0..=weight.max(0)).rev().map(|place| format!("{:04}", digit(place))).collect();
    let fraction: String = (1..=scale as i32 / 4 + 1).map(|place| format!("{:04}", digit(-place))).collect();
    let whole = whole.trim_start_matches('0');
    let point = if scale > 0 { "." } else { "" };
    let sign = if sign == 0x4000 { "-" } else { "" };
    format!("{sign}{}{point}{}", if whole.is_empty() { "0" } else { whole }, &fraction[..scale])
}

/// Reads a batch value by value.
pub(crate) fn read_arrow(batch: &RecordBatch) -> Vec<Vec<Value>> {
    (0..batch.num_rows())
        .map(|row| {
            let fields = batch.schema_ref().fields().iter().zip(batch.columns());
            fields.map(|(field, column)| read_arrow_value(field.name(), column.as_ref(), row)).collect()
        })
        .collect()
}

fn read_arrow_value(name: &str, column: &dyn Array, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Boolean => Value::Bool(column.as_boolean().value(row)),
        DataType::Int16 => Value::Integer(column.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Value::Integer(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Value::Integer(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => Value::Float4(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Value::Float8(column.as_primitive::<Float64Type>().value(row)),
        DataType::Date32 => Value::Date(column.as_primitive::<Date32Type>().value(row).into()),
        DataType::Timestamp(..) => Value::Timestamp(column.as_primitive::<TimestampMicrosecondType>().value(row)),
        DataType::Decimal64(_, scale) => {
            Value::Scaled(column.as_primitive::<Decimal64Type>().value(row).into(), *scale as u8)
        }
        DataType::Decimal128(_, scale) => {
            Value::Scaled(column.as_primitive::<Decimal128Type>().value(row), *scale as u8)
        }
        DataType::Utf8 if name == "Decimal" => Value::Decimal(column.as_string::<i32>().value(row).into()),
        DataType::Utf8 => Value::Text(column.as_string::<i32>().value(row).into()),
        other => panic!("{other}"),
    }
}
