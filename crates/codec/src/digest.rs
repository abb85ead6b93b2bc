//! An order-independent digest of rows in Arrow batches: equal sets of rows have equal digests, in any order, in any
//! division into batches, with any of the Arrow types that one value can be handed over in.
//!
//! Per row two 64-bit hashes run over the columns; the digest is the sum of the rows' 128 bits modulo 2^128. (A sum,
//! not an exclusive or: a row stored twice must not cancel itself.)

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use xxhash_rust::xxh3::xxh3_128;

/// Rows seen and the sum of their hashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowDigest {
    /// How many rows.
    pub rows: u64,
    /// The sum of their hashes modulo 2^128.
    pub sum: u128,
}

impl RowDigest {
    /// The digest of both sets of rows together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, sum: self.sum.wrapping_add(other.sum) }
    }

    /// The digest of the rows that `self` has beyond `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { rows: self.rows.wrapping_sub(other.rows), sum: self.sum.wrapping_sub(other.sum) }
    }
}

/// The hash of one record in COPY binary form, whose sum is the digest on the way into and out of PostgreSQL.
#[inline]
#[must_use]
pub fn of_copy_binary_record(record: &[u8]) -> u128 {
    xxh3_128(record)
}

/// A column whose type has no canonical form here; carries the type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndigestableType(pub DataType);

/// The digest of the rows of `batch`, over the columns whose entry in `digested` is true.
///
/// # Errors
/// Where such a column is of a type without a canonical form.
pub fn of_batch(batch: &RecordBatch, digested: &[bool]) -> Result<RowDigest, UndigestableType> {
    let mut lanes = vec![EMPTY; batch.num_rows()];
    for (column, _) in batch.columns().iter().zip(digested).filter(|(_, digested)| **digested) {
        mix_column(column.as_ref(), &mut lanes)?;
    }
    let sum = lanes.iter().fold(0_u128, |sum, [low, high]| {
        sum.wrapping_add(u128::from(finish(*low)) | (u128::from(finish(*high)) << 64))
    });
    Ok(RowDigest { rows: batch.num_rows() as u64, sum })
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const EMPTY: [u64; 2] = [SEED, !SEED];
const NULL: u128 = 0x6e75_6c6c_6e75_6c6c_a076_1d64_78bd_642f;

fn mix_column(column: &dyn Array, lanes: &mut [[u64; 2]]) -> Result<(), UndigestableType> {
    match column.data_type() {
        DataType::Boolean => mix_each(column, lanes, |row| u128::from(column.as_boolean().value(row))),
        DataType::Int8 => mix_each(column, lanes, |row| integer(column.as_primitive::<Int8Type>().value(row))),
        DataType::Int16 => mix_each(column, lanes, |row| integer(column.as_primitive::<Int16Type>().value(row))),
        DataType::Int32 => mix_each(column, lanes, |row| integer(column.as_primitive::<Int32Type>().value(row))),
        DataType::Int64 => mix_each(column, lanes, |row| integer(column.as_primitive::<Int64Type>().value(row))),
        DataType::Date32 => mix_each(column, lanes, |row| integer(column.as_primitive::<Date32Type>().value(row))),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            mix_each(column, lanes, |row| integer(column.as_primitive::<TimestampMicrosecondType>().value(row)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            mix_each(column, lanes, |row| widened(column.as_primitive::<TimestampMillisecondType>().value(row), 1000))
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            mix_each(column, lanes, |row| widened(column.as_primitive::<TimestampSecondType>().value(row), 1_000_000))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            mix_each(column, lanes, |row| integer(column.as_primitive::<Time64MicrosecondType>().value(row)))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => mix_each(column, lanes, |row| {
            let interval = column.as_primitive::<IntervalMonthDayNanoType>().value(row);
            let whole = u128::from(interval.months.cast_unsigned()) << 32 | u128::from(interval.days.cast_unsigned());
            whole << 64 | u128::from(interval.nanoseconds.cast_unsigned())
        }),
        DataType::UInt8 => mix_each(column, lanes, |row| column.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => mix_each(column, lanes, |row| column.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => mix_each(column, lanes, |row| column.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => mix_each(column, lanes, |row| column.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Decimal32(..) => {
            mix_each(column, lanes, |row| integer(column.as_primitive::<Decimal32Type>().value(row)));
        }
        DataType::Decimal64(..) => {
            mix_each(column, lanes, |row| integer(column.as_primitive::<Decimal64Type>().value(row)));
        }
        DataType::Decimal128(..) => {
            mix_each(column, lanes, |row| column.as_primitive::<Decimal128Type>().value(row).cast_unsigned())
        }
        DataType::Float32 => mix_each(column, lanes, |row| {
            let value = column.as_primitive::<Float32Type>().value(row);
            u128::from(if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() })
        }),
        DataType::Float64 => mix_each(column, lanes, |row| {
            let value = column.as_primitive::<Float64Type>().value(row);
            u128::from(if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() })
        }),
        DataType::Utf8 => mix_each(column, lanes, |row| xxh3_128(column.as_string::<i32>().value(row).as_bytes())),
        DataType::LargeUtf8 => {
            mix_each(column, lanes, |row| xxh3_128(column.as_string::<i64>().value(row).as_bytes()));
        }
        DataType::Utf8View => mix_each(column, lanes, |row| xxh3_128(column.as_string_view().value(row).as_bytes())),
        DataType::Binary => mix_each(column, lanes, |row| xxh3_128(column.as_binary::<i32>().value(row))),
        DataType::LargeBinary => mix_each(column, lanes, |row| xxh3_128(column.as_binary::<i64>().value(row))),
        // Labels of an enumerated type; they went there as texts.
        DataType::Dictionary(_, labels) if **labels == DataType::Utf8 => {
            let dictionary = column.as_any_dictionary();
            let (keys, labels) = (dictionary.normalized_keys(), dictionary.values().as_string::<i32>());
            mix_each(column, lanes, |row| xxh3_128(labels.value(keys[row]).as_bytes()));
        }
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            let items = digest_items(list.values().as_ref())?;
            mix_each(column, lanes, |row| {
                let offsets = list.value_offsets();
                of_list(&items[offsets[row] as usize..offsets[row + 1] as usize])
            });
        }
        other => return Err(UndigestableType(other.clone())),
    }
    Ok(())
}

/// The hashes of a list's items.
fn digest_items(items: &dyn Array) -> Result<Vec<[u64; 2]>, UndigestableType> {
    let mut lanes = vec![EMPTY; items.len()];
    mix_column(items, &mut lanes)?;
    Ok(lanes)
}

/// The items of one list in their order, and how many there are.
fn of_list(items: &[[u64; 2]]) -> u128 {
    let [mut low, mut high] = [items.len() as u64, !(items.len() as u64)];
    for [first, second] in items {
        low = fold(low ^ first, 0xa076_1d64_78bd_642f ^ second);
        high = fold(high ^ second, 0xe703_7ed1_a0b4_28db ^ first);
    }
    u128::from(high) << 64 | u128::from(low)
}

/// A timestamp of a coarser unit in microseconds; infinities stay at the ends of the range.
#[inline(always)]
fn widened(value: i64, factor: i64) -> u128 {
    integer(if value.unsigned_abs() == i64::MAX.unsigned_abs() { value } else { value.wrapping_mul(factor) })
}

/// A signed integer of any width, widened so that the width does not matter.
#[inline(always)]
fn integer(value: impl Into<i64>) -> u128 {
    i128::from(value.into()).cast_unsigned()
}

#[inline(always)]
fn mix_each(column: &dyn Array, lanes: &mut [[u64; 2]], value: impl Fn(usize) -> u128) {
    let nulls = column.nulls();
    for (row, [low, high]) in lanes.iter_mut().enumerate() {
        let bits = if nulls.is_some_and(|nulls| nulls.is_null(row)) { NULL } else { value(row) };
        *low = fold(*low ^ bits as u64, 0xa076_1d64_78bd_642f ^ (bits >> 64) as u64);
        *high = fold(*high ^ (bits >> 64) as u64, 0xe703_7ed1_a0b4_28db ^ (bits as u64));
    }
}

/// The 128-bit product folded to 64 bits, as wyhash does, and kept dependent on the order of the columns.
#[inline(always)]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64 ^ (product >> 64) as u64).rotate_left(23).wrapping_add(SEED)
}

#[inline(always)]
fn finish(lane: u64) -> u64 {
    fold(lane ^ (lane >> 32), 0x8ebc_6af0_9c88_c6e3)
}
