//! What a target makes of values that it converts by itself: the core decides which of them would not be stored whole.

use super::{Loss, nested};
use crate::column::ColumnType;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_schema::{DataType, TimeUnit};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What is known of a column whose values the target converts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Casting {
    /// The type to read values as, where an engine would otherwise cast them by itself and name none that it refuses.
    pub read_as: Option<ColumnType>,
    /// What it stores of moments, where that is not all.
    pub part: Option<Part>,
    /// Whether floats of fewer bits become such of 64.
    pub doubles: bool,
}

/// What is stored of a moment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Its day; of a list, those of its items.
    Day,
    /// Its time of day; of a list, those of its items.
    Time,
    /// By the lower-case names of a struct's fields, or `key` and `value` of a map's. Of others all is stored.
    Fields(BTreeMap<String, Part>),
}

impl Part {
    /// The first row with a value of which not all is stored, and what of it is not.
    pub(super) fn first_lost(&self, array: &dyn Array) -> Option<(usize, Loss)> {
        let losing = |loss| self.first_losing(array, loss).map(|row| (row, loss));
        [losing(Loss::TimeOfDay), losing(Loss::Day)].into_iter().flatten().min_by_key(|(row, _)| *row)
    }

    fn first_losing(&self, array: &dyn Array, loss: Loss) -> Option<usize> {
        let Self::Fields(parts) = self else {
            return nested::first_row(array, &|leaf| match (self, loss) {
                (Self::Day, Loss::TimeOfDay) => first_with_time(leaf),
                (Self::Time, Loss::Day) => first_with_day(leaf),
                _ => None,
            });
        };
        let of_field = |name: &str, column: &dyn Array| parts.get(&name.to_lowercase())?.first_losing(column, loss);
        match array.data_type() {
            DataType::Struct(fields) => nested::first_of_struct(array.as_struct(), &|array| {
                let columns = fields.iter().zip(array.columns());
                columns.filter_map(|(field, column)| of_field(field.name(), column)).min()
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
    use arrow_array::{ArrayRef, StructArray, TimestampMicrosecondArray};
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
        let fields = |parts: &[(&str, Part)]| {
            Part::Fields(parts.iter().map(|(name, part)| ((*name).to_owned(), part.clone())).collect())
        };
        assert_eq!(fields(&[("a", Part::Day)]).first_lost(&whole), Some((2, Loss::TimeOfDay)));
        assert_eq!(fields(&[("a", Part::Day), ("b", Part::Time)]).first_lost(&whole), Some((0, Loss::Day)));
        assert_eq!(fields(&[("c", Part::Day)]).first_lost(&whole), None);
    }
}
