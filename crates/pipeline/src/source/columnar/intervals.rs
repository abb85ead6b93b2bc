//! Intervals of Parquet: three numbers, of months, days and milliseconds.
//!
//! The reader gives either the months or the days and milliseconds of a column, and leaves the other ones out without a
//! word. So such columns are read in both ways, and put together here.

use arrow_array::cast::AsArray;
use arrow_array::types::{IntervalDayTimeType, IntervalMonthDayNano, IntervalYearMonthType};
use arrow_array::{Array, ArrayRef, IntervalMonthDayNanoArray, ListArray, MapArray, StructArray};
use arrow_schema::{ArrowError, DataType, IntervalUnit};
use std::sync::Arc;

const NANOSECONDS: i64 = 1_000_000;

/// Whether a type is an interval, or has one in it.
pub(super) fn holds_intervals(kind: &DataType) -> bool {
    match kind {
        DataType::Interval(_) => true,
        DataType::List(item) | DataType::Map(item, _) => holds_intervals(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_intervals(field.data_type())),
        _ => false,
    }
}

/// A column of type `kind`, whose intervals have all three parts, from the two that the reader gives.
pub(super) fn joined(days: &ArrayRef, months: &ArrayRef, kind: &DataType) -> Result<ArrayRef, ArrowError> {
    let nulls = days.nulls().cloned();
    Ok(match kind {
        DataType::Interval(IntervalUnit::MonthDayNano) => Arc::new(intervals(days, months)),
        DataType::List(item) if holds_intervals(kind) => {
            let (days, months) = (days.as_list::<i32>(), months.as_list::<i32>());
            let values = joined(days.values(), months.values(), item.data_type())?;
            Arc::new(ListArray::try_new(item.clone(), days.offsets().clone(), values, nulls)?)
        }
        DataType::Map(entries, sorted) if holds_intervals(kind) => {
            let offsets = days.as_map().offsets().clone();
            let of = |map: &ArrayRef| Arc::new(map.as_map().entries().clone()) as ArrayRef;
            let found = joined(&of(days), &of(months), entries.data_type())?.as_struct().clone();
            Arc::new(MapArray::try_new(entries.clone(), offsets, found, nulls, *sorted)?)
        }
        DataType::Struct(fields) if holds_intervals(kind) => {
            let pairs = days.as_struct().columns().iter().zip(months.as_struct().columns());
            let columns = fields.iter().zip(pairs);
            let columns = columns.map(|(field, (days, months))| joined(days, months, field.data_type()));
            Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Result<_, _>>()?, nulls)?)
        }
        _ => days.clone(),
    })
}

/// The milliseconds have no sign (Parquet's logical type INTERVAL); more than 2^31 are 25 days and are written. As many
/// days or months are no time that anybody means: there the bit is a sign, which some writers use.
fn intervals(days: &ArrayRef, months: &ArrayRef) -> IntervalMonthDayNanoArray {
    let days = days.as_primitive::<IntervalDayTimeType>();
    let months = months.as_primitive::<IntervalYearMonthType>();
    let pairs = months.values().iter().zip(days.values());
    let values = pairs.map(|(&months, days)| {
        let milliseconds = i64::from(days.milliseconds.cast_unsigned());
        IntervalMonthDayNano::new(months, days.days, milliseconds * NANOSECONDS)
    });
    IntervalMonthDayNanoArray::new(values.collect::<Vec<_>>().into(), days.nulls().cloned())
}
