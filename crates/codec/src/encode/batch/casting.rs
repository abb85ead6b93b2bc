//! What a target makes of values that it converts by itself: the core decides which of them would not be stored whole.

use super::{Loss, nested};
use crate::column::ColumnType;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a column whose values the target converts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Casting {
    /// The type to read values as, where an engine would otherwise cast them by itself and name none that it refuses, or a
    /// server would make other numbers of them.
    pub read_as: Option<ColumnType>,
    /// What it stores of values, where that is not all.
    pub part: Option<Part>,
    /// Whether floats of fewer bits become such of 64.
    pub doubles: bool,
    /// Whether the keys of each map must differ.
    pub unique_keys: bool,
    /// Whether moments are stored without their zone, as the clock in UTC shows them: engines that convert them by
    /// themselves take the clock of the machine's own zone.
    pub without_zone: bool,
}

/// What is stored of a value; of a list, of each of its items.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A moment's day.
    Day,
    /// A moment's time of day.
    Time,
    /// A number's whole part.
    Whole,
    /// Whether a number is zero.
    Truth,
    /// By the lower-case names of a struct's fields, or `key` and `value` of a map's; `None` where all is stored. Of a
    /// field that is not among them nothing is.
    Fields(BTreeMap<String, Option<Part>>),
}

impl Part {
    /// The first row with a value of which not all is stored, and what of it is not.
    pub(super) fn first_lost(&self, array: &dyn Array) -> Option<(usize, Loss)> {
        let losses = [Loss::TimeOfDay, Loss::Day, Loss::Fraction, Loss::Number, Loss::Field];
        let losing = |loss| self.first_losing(array, loss).map(|row| (row, loss));
        losses.into_iter().filter_map(losing).min_by_key(|(row, _)| *row)
    }

    fn first_losing(&self, array: &dyn Array, loss: Loss) -> Option<usize> {
        let Self::Fields(parts) = self else {
            return nested::first_row(array, &|leaf| match (self, loss) {
                (Self::Day, Loss::TimeOfDay) => first_with_time(leaf),
                (Self::Time, Loss::Day) => first_with_day(leaf),
                (Self::Whole, Loss::Fraction) => first_with_fraction(leaf),
                (Self::Truth, Loss::Number) => first_number(leaf),
                _ => None,
            });
        };
        let of_field = |name: &str, column: &dyn Array| match parts.get(&name.to_lowercase()) {
            Some(part) => part.as_ref()?.first_losing(column, loss),
            None => first_field(column, loss),
        };
        match array.data_type() {
            DataType::Struct(fields) => nested::first_of_struct(array.as_struct(), &|array| {
                let mut known = BTreeSet::new();
                let columns = fields.iter().zip(array.columns());
                let losing = columns.filter_map(|(field, column)| {
                    // Of fields whose names are the same, or differ in the case of ASCII, the first one is stored.
                    let is_first = known.insert(field.name().to_ascii_lowercase());
                    if is_first { of_field(field.name(), column) } else { first_field(column, loss) }
                });
                losing.min()
            }),
            // Whatever their names are.
            DataType::Map(..) => nested::first_of_items(array, &|entries| {
                nested::first_of_struct(entries.as_struct(), &|entries| {
                    let columns = ["key", "value"].into_iter().zip(entries.columns());
                    columns.filter_map(|(name, column)| of_field(name, column)).min()
                })
            }),
            _ => nested::first_of_items(array, &|items| self.first_losing(items, loss)),
        }
    }
}

const DAY_SECONDS: i64 = 86_400;

/// The first value of a field of which nothing is stored.
fn first_field(column: &dyn Array, loss: Loss) -> Option<usize> {
    (0..column.len()).find(|&row| loss == Loss::Field && column.is_valid(row))
}

/// The first moment that is not the beginning of its day (UTC).
fn first_with_time(array: &dyn Array) -> Option<usize> {
    match array.data_type() {
        DataType::Date64 => first::<Date64Type>(array, |value| value % (DAY_SECONDS * 1000) != 0),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => first::<TimestampSecondType>(array, |value| value % DAY_SECONDS != 0),
            TimeUnit::Millisecond => {
                first::<TimestampMillisecondType>(array, |value| value % (DAY_SECONDS * 1000) != 0)
            }
            // The ends of the range are infinities.
            TimeUnit::Microsecond => first::<TimestampMicrosecondType>(array, |value| {
                value % (DAY_SECONDS * 1_000_000) != 0 && value.checked_abs() != Some(i64::MAX)
            }),
            TimeUnit::Nanosecond => {
                first::<TimestampNanosecondType>(array, |value| value % (DAY_SECONDS * 1_000_000_000) != 0)
            }
        },
        _ => None,
    }
}

/// The first value that has a day.
fn first_with_day(array: &dyn Array) -> Option<usize> {
    let has_day = matches!(array.data_type(), DataType::Date32 | DataType::Date64 | DataType::Timestamp(..));
    (0..array.len()).find(|&row| has_day && array.is_valid(row))
}

/// The first number that is not a whole one. What is no number at all the target refuses.
fn first_with_fraction(array: &dyn Array) -> Option<usize> {
    match array.data_type() {
        DataType::Float16 => first::<Float16Type>(array, |value| value.to_f64().fract() != 0.0),
        DataType::Float32 => first::<Float32Type>(array, |value| value.fract() != 0.0),
        DataType::Float64 => first::<Float64Type>(array, |value| value.fract() != 0.0),
        DataType::Decimal32(_, scale) => {
            let unit = 10_i32.checked_pow(u32::try_from(*scale).ok()?);
            first::<Decimal32Type>(array, |value| unit.map_or(value, |unit| value % unit) != 0)
        }
        DataType::Decimal64(_, scale) => {
            let unit = 10_i64.checked_pow(u32::try_from(*scale).ok()?);
            first::<Decimal64Type>(array, |value| unit.map_or(value, |unit| value % unit) != 0)
        }
        DataType::Decimal128(_, scale) => {
            let unit = 10_i128.checked_pow(u32::try_from(*scale).ok()?);
            first::<Decimal128Type>(array, |value| unit.map_or(value, |unit| value % unit) != 0)
        }
        DataType::Decimal256(_, scale) => {
            let ten = i256::from_i128(10);
            let unit = (0..*scale).try_fold(i256::ONE, |unit, _| unit.checked_mul(ten));
            first::<Decimal256Type>(array, |value| {
                unit.map_or(Some(value), |unit| value.checked_rem(unit)) != Some(i256::ZERO)
            })
        }
        DataType::Utf8 => first_text(array.as_string::<i32>().iter(), has_fraction),
        DataType::LargeUtf8 => first_text(array.as_string::<i64>().iter(), has_fraction),
        DataType::Utf8View => first_text(array.as_string_view().iter(), has_fraction),
        _ => None,
    }
}

/// Whether a text is a number with a fraction, as `1.5` and `12e-1`; what it is else, the target says.
fn has_fraction(text: &str) -> bool {
    let text = text.trim();
    if text.contains(['e', 'E']) {
        return text.parse::<f64>().is_ok_and(|value| value.fract() != 0.0);
    }
    text.split_once('.')
        .is_some_and(|(_, fraction)| fraction.contains(|digit: char| digit.is_ascii_digit() && digit != '0'))
}

/// The first number that is neither 0 nor 1.
fn first_number(array: &dyn Array) -> Option<usize> {
    match array.data_type() {
        DataType::Int8 => first::<Int8Type>(array, |value| !matches!(value, 0 | 1)),
        DataType::Int16 => first::<Int16Type>(array, |value| !matches!(value, 0 | 1)),
        DataType::Int32 => first::<Int32Type>(array, |value| !matches!(value, 0 | 1)),
        DataType::Int64 => first::<Int64Type>(array, |value| !matches!(value, 0 | 1)),
        DataType::UInt8 => first::<UInt8Type>(array, |value| value > 1),
        DataType::UInt16 => first::<UInt16Type>(array, |value| value > 1),
        DataType::UInt32 => first::<UInt32Type>(array, |value| value > 1),
        DataType::UInt64 => first::<UInt64Type>(array, |value| value > 1),
        // No number with a fraction or an exponent stands for a boolean.
        DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => (0..array.len()).find(|&row| array.is_valid(row)),
        _ => None,
    }
}

fn first_text<'t>(texts: impl Iterator<Item = Option<&'t str>>, is_lost: impl Fn(&str) -> bool) -> Option<usize> {
    texts.enumerate().find(|(_, text)| text.is_some_and(&is_lost)).map(|it| it.0)
}

fn first<T: ArrowPrimitiveType>(array: &dyn Array, is_lost: impl Fn(T::Native) -> bool) -> Option<usize> {
    let values = array.as_primitive::<T>().values();
    values.iter().enumerate().find(|&(row, &value)| is_lost(value) && array.is_valid(row)).map(|it| it.0)
}

/// `data_type` with floats of 64 bits in place of smaller ones, at every depth.
pub(super) fn with_doubles(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Float16 | DataType::Float32 => DataType::Float64,
        other => nested::with_items(other, with_doubles),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{ListBuilder, TimestampMicrosecondBuilder};
    use arrow_array::{
        ArrayRef, Decimal128Array, Decimal256Array, Float32Array, Float64Array, Int64Array, StringArray, StructArray,
        TimestampMicrosecondArray,
    };
    use arrow_schema::Field;
    use std::sync::Arc;

    const DAY: i64 = 86_400_000_000;

    fn moments(values: &[Option<i64>]) -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(values.to_vec()))
    }

    #[test]
    fn moments_are_days_at_midnight_only_and_never_times() {
        let array = moments(&[Some(0), None, Some(-DAY), Some(i64::MAX), Some(-i64::MAX), Some(DAY + 1)]);
        assert_eq!(Part::Day.first_lost(array.as_ref()), Some((5, Loss::TimeOfDay)));
        assert_eq!(Part::Day.first_lost(array.slice(0, 5).as_ref()), None);
        assert_eq!(Part::Time.first_lost(array.slice(1, 5).as_ref()), Some((1, Loss::Day)));
        assert_eq!(Part::Time.first_lost(moments(&[None]).as_ref()), None);
    }

    #[test]
    fn items_and_fields() {
        let mut lists = ListBuilder::new(TimestampMicrosecondBuilder::new());
        lists.append_value([Some(0), None]);
        lists.append_null();
        lists.append_value([Some(DAY), Some(1)]);
        let lists: ArrayRef = Arc::new(lists.finish());
        assert_eq!(Part::Day.first_lost(lists.as_ref()), Some((2, Loss::TimeOfDay)));
        let field = |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
        let plain = moments(&[Some(1), Some(1), Some(1)]);
        let whole = StructArray::from(vec![(field("A", &lists), lists.clone()), (field("b", &plain), plain.clone())]);
        let fields = |parts: &[(&str, Option<Part>)]| {
            Part::Fields(parts.iter().map(|(name, part)| ((*name).to_owned(), part.clone())).collect())
        };
        assert_eq!(fields(&[("a", Some(Part::Day)), ("b", None)]).first_lost(&whole), Some((2, Loss::TimeOfDay)));
        assert_eq!(fields(&[("a", Some(Part::Day)), ("b", Some(Part::Time))]).first_lost(&whole), Some((0, Loss::Day)));
        assert_eq!(fields(&[("a", None), ("b", None), ("c", Some(Part::Day))]).first_lost(&whole), None);
        // A field that the target lacks holds nothing where it is NULL.
        assert_eq!(fields(&[("b", None)]).first_lost(&whole), Some((0, Loss::Field)));
        assert_eq!(fields(&[("b", None)]).first_lost(&whole.slice(1, 1)), None);
        let twice = StructArray::from(vec![(field("a", &plain), plain.clone()), (field("A", &lists), lists)]);
        assert_eq!(fields(&[("a", None)]).first_lost(&twice), Some((0, Loss::Field)));
        assert_eq!(fields(&[("a", None)]).first_lost(&twice.slice(1, 1)), None);
    }

    #[test]
    fn numbers_are_whole_or_not() {
        let lost = |array: ArrayRef| Part::Whole.first_lost(array.as_ref());
        let at = |row| Some((row, Loss::Fraction));
        assert_eq!(lost(Arc::new(Float64Array::from(vec![Some(2.0), None, Some(-1e300), Some(0.5)]))), at(3));
        assert_eq!(lost(Arc::new(Float32Array::from(vec![1.0, 16_777_216.0, -0.25]))), at(2));
        let decimals = |values: Vec<i128>, scale| {
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, scale).unwrap()) as ArrayRef
        };
        assert_eq!(lost(decimals(vec![100, -200, 250], 2)), at(2));
        assert_eq!(lost(decimals(vec![1, 2], -2)), None);
        let wide = Decimal256Array::from(vec![i256::from_i128(100), i256::from_i128(-101)]);
        assert_eq!(lost(Arc::new(wide.with_precision_and_scale(76, 2).unwrap())), at(1));
        let texts = ["7", " 1.0 ", "1e3", "-12.50e1", "x", "1.e", "9007199254740993.5", "15e-1"];
        let found: Vec<bool> = texts.iter().map(|text| has_fraction(text)).collect();
        assert_eq!(found, [false, false, false, false, false, false, true, true]);
        assert_eq!(lost(Arc::new(StringArray::from(vec![Some("3"), None, Some("1.5")]))), at(2));
        let lost = |array: ArrayRef| Part::Truth.first_lost(array.as_ref());
        assert_eq!(lost(Arc::new(Int64Array::from(vec![Some(1), Some(0), None, Some(-1)]))), Some((3, Loss::Number)));
        assert_eq!(lost(Arc::new(Float64Array::from(vec![None, Some(1.0)]))), Some((1, Loss::Number)));
        assert_eq!(lost(Arc::new(StringArray::from(vec!["yes"]))), None);
    }
}
