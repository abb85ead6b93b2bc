//! One column of Arrow arrays: the texts of fields, or of the elements of arrays, read by the column's type.

use super::arrow::{data_type, dimensions, is_arrow_decimal, list_item};
use super::text_check::{TextCheck, check_text};
use crate::column::{ArrayType, ColumnType};
use crate::decode::Decoder;
use crate::scan::Records;
use crate::value::array::ArrayReader;
use crate::value::{self, Refusal, ServerVersion};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, ListArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

const SERVER: ServerVersion = ServerVersion::NEWEST;

/// The row at which reading stopped, and why.
pub(super) type Stopped = Option<(usize, Refusal)>;

/// Where the texts of a column come from. A trait, so that fields and elements are read by the same code, compiled once
/// for each: nothing is dispatched per value.
pub(super) trait Texts {
    /// The text of a row, `None` for NULL.
    fn get(&mut self, row: usize) -> Option<Text<'_>>;
}

/// A text, and whether it may still hold bytes that are no text.
pub(super) struct Text<'t> {
    bytes: &'t [u8],
    unchecked: bool,
}

impl<'t> Text<'t> {
    /// The bytes, which are valid UTF-8 without NUL.
    #[inline(always)]
    fn checked(&self) -> Result<&'t [u8], Refusal> {
        if self.unchecked {
            check_text(self.bytes)?;
        }
        Ok(self.bytes)
    }
}

/// The fields of one column.
pub(super) struct FieldTexts<'a> {
    pub(super) records: &'a Records<'a>,
    pub(super) decoder: &'a mut Decoder,
    pub(super) check: TextCheck,
    pub(super) index: usize,
}

impl Texts for FieldTexts<'_> {
    #[inline(always)]
    fn get(&mut self, row: usize) -> Option<Text<'_>> {
        let field = self.records.field(row, self.index);
        let unchecked = self.check.must_check(field);
        self.decoder.decode(field, self.index).map(|bytes| Text { bytes, unchecked })
    }
}

/// The elements of a column of arrays, taken from texts that were checked.
#[derive(Default)]
struct ElementTexts {
    bytes: Vec<u8>,
    elements: Vec<Option<Range<usize>>>,
}

impl Texts for ElementTexts {
    #[inline(always)]
    fn get(&mut self, row: usize) -> Option<Text<'_>> {
        self.elements[row].clone().map(|place| Text { bytes: &self.bytes[place], unchecked: false })
    }
}

/// Row, column and reason.
pub(super) type RefusedField = (usize, usize, Refusal);

/// Which column is read, and how far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) not_null: bool,
    pub(super) rows: usize,
}

/// Reads the rows of a column, up to one that is refused; or all of them where refusals are collected in `refused`: such
/// a row then has some value, and is left out in the end.
pub(super) fn read_column(
    texts: &mut impl Texts,
    kind: &ColumnType,
    place: Place,
    refused: Option<&mut Vec<RefusedField>>,
) -> (ArrayRef, Stopped) {
    let Place { index, not_null, rows } = place;
    ColumnReader { texts, index, not_null, rows, refused }.read(kind)
}

struct ColumnReader<'a, T> {
    texts: &'a mut T,
    index: usize,
    not_null: bool,
    rows: usize,
    refused: Option<&'a mut Vec<RefusedField>>,
}

impl<T: Texts> ColumnReader<'_, T> {
    fn read(&mut self, kind: &ColumnType) -> (ArrayRef, Stopped) {
        match *kind {
            ColumnType::Bool => self.booleans(),
            ColumnType::Int2 => self.primitive::<Int16Type>(|text| value::integer::parse_int2(text, SERVER)),
            ColumnType::Int4 => self.primitive::<Int32Type>(|text| value::integer::parse_int4(text, SERVER)),
            ColumnType::Int8 => self.primitive::<Int64Type>(|text| value::integer::parse_int8(text, SERVER)),
            ColumnType::Float4 => self.primitive::<Float32Type>(value::float::parse_float4),
            ColumnType::Float8 => self.primitive::<Float64Type>(value::float::parse_float8),
            ColumnType::Date => self.primitive::<Date32Type>(|text| unix_days(value::date::parse(text)?)),
            ColumnType::Timestamp { precision } => self.primitive::<TimestampMicrosecondType>(move |text| {
                unix_micros(value::timestamp::parse_with_precision(text, precision)?)
            }),
            ColumnType::TimestampTz { precision, utc } => {
                let (array, stopped) = self.primitive_array::<TimestampMicrosecondType>(move |text| {
                    unix_micros(value::timestamp::parse_tz(text, precision, utc)?)
                });
                (Arc::new(array.with_timezone("UTC")), stopped)
            }
            ColumnType::Time { precision } => {
                self.primitive::<Time64MicrosecondType>(move |text| value::time::parse(text, precision))
            }
            ColumnType::Interval { precision } => self.primitive::<IntervalMonthDayNanoType>(move |text| {
                let value::interval::Interval { months, days, micros } = value::interval::parse(text, precision)?;
                // Arrow counts nanoseconds, of which fewer hours fit.
                let nanos = micros.checked_mul(1000).ok_or(Refusal::OutOfRange)?;
                Ok(IntervalMonthDayNano::new(months, days, nanos))
            }),
            ColumnType::Numeric { precision, scale } if is_arrow_decimal(precision, scale) => {
                let (digits, fraction) = (precision as u8, scale as u8);
                if precision <= 18 {
                    let (array, stopped) = self.primitive_array::<Decimal64Type>(move |text| {
                        value::numeric::parse_scaled_i64(text, digits, fraction)
                    });
                    let array = array.with_precision_and_scale(digits, fraction.cast_signed());
                    (Arc::new(array.expect("checked when the schema was made")), stopped)
                } else {
                    let (array, stopped) = self.primitive_array::<Decimal128Type>(move |text| {
                        value::numeric::parse_scaled_i128(text, digits, fraction)
                    });
                    let array = array.with_precision_and_scale(digits, fraction.cast_signed());
                    (Arc::new(array.expect("checked when the schema was made")), stopped)
                }
            }
            ColumnType::Integer { bits, signed } => self.other_integers(bits, signed),
            ColumnType::Varchar { limit } => self.strings(move |text| Ok((value::text::fit_varchar(text, limit)?, 0))),
            ColumnType::Char { limit } => self.strings(move |text| value::text::fit_char(text, limit)),
            ColumnType::Enum { ref labels } => self.strings(|text| Ok((value::enumeration::parse(text, labels)?, 0))),
            ColumnType::Json | ColumnType::Jsonb => self.strings(|text| value::json::check(text).map(|()| (text, 0))),
            ColumnType::Uuid => self.written(|text, out| {
                value::uuid::push_text(value::uuid::parse(text)?, out);
                Ok(())
            }),
            ColumnType::Bytea => self.binaries(),
            ColumnType::Array(ref array) => self.lists(array),
            ColumnType::Numeric { .. }
            | ColumnType::Decimal
            | ColumnType::Text
            | ColumnType::TimeTz { .. }
            | ColumnType::Inet
            | ColumnType::Cidr
            | ColumnType::Opaque => self.strings(|text| Ok((text, 0))),
        }
    }

    fn primitive<P: ArrowPrimitiveType>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<P::Native, Refusal>,
    ) -> (ArrayRef, Stopped) {
        let (array, stopped) = self.primitive_array::<P>(parse);
        (Arc::new(array), stopped)
    }

    #[inline(always)]
    fn primitive_array<P: ArrowPrimitiveType>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<P::Native, Refusal>,
    ) -> (PrimitiveArray<P>, Stopped) {
        let mut values: Vec<P::Native> = Vec::with_capacity(self.rows);
        let mut nulls = Validity::default();
        let stopped = self.each(&mut nulls, |text| {
            values.push(match text {
                Some(text) => parse(text.bytes)?,
                None => P::Native::default(),
            });
            Ok(())
        });
        let nulls = nulls.finish(values.len());
        (PrimitiveArray::new(ScalarBuffer::from(values), nulls), stopped)
    }

    /// Integers of a width that PostgreSQL does not have.
    fn other_integers(&mut self, bits: u8, signed: bool) -> (ArrayRef, Stopped) {
        let parse = move |text: &[u8]| value::integer::parse_other(text, bits, signed);
        let narrow = move |text: &[u8]| {
            let (negative, magnitude) = parse(text)?;
            Ok(if negative { (magnitude as i64).wrapping_neg() } else { magnitude as i64 })
        };
        match (bits, signed) {
            (8, true) => self.primitive::<Int8Type>(|text| Ok(narrow(text)? as i8)),
            (8, false) => self.primitive::<UInt8Type>(|text| Ok(narrow(text)? as u8)),
            (16, true) => self.primitive::<Int16Type>(|text| Ok(narrow(text)? as i16)),
            (16, false) => self.primitive::<UInt16Type>(|text| Ok(narrow(text)? as u16)),
            (32, true) => self.primitive::<Int32Type>(|text| Ok(narrow(text)? as i32)),
            (32, false) => self.primitive::<UInt32Type>(|text| Ok(narrow(text)? as u32)),
            (64, true) => self.primitive::<Int64Type>(narrow),
            (64, false) => self.primitive::<UInt64Type>(|text| Ok(narrow(text)?.cast_unsigned())),
            _ => self.written(|text, out| {
                let (negative, magnitude) = parse(text)?;
                let sign = if negative { "-" } else { "" };
                write!(out, "{sign}{magnitude}").map_err(|_| Refusal::OutOfRange)
            }),
        }
    }

    fn booleans(&mut self) -> (ArrayRef, Stopped) {
        let mut values: Vec<bool> = Vec::with_capacity(self.rows);
        let mut nulls = Validity::default();
        let stopped = self.each(&mut nulls, |text| {
            values.push(text.map_or(Ok(false), |text| value::boolean::parse(text.bytes))?);
            Ok(())
        });
        let nulls = nulls.finish(values.len());
        (Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)), stopped)
    }

    #[inline(always)]
    fn strings(&mut self, fit: impl Fn(&[u8]) -> Result<(&[u8], usize), Refusal>) -> (ArrayRef, Stopped) {
        let (bytes, stopped) = self.variable(|text, bytes| {
            let (text, padding) = fit(text.checked()?)?;
            bytes.extend_from_slice(text);
            if padding > 0 {
                bytes.resize(bytes.len() + padding, b' ');
            }
            Ok(())
        });
        (bytes.into_strings(), stopped)
    }

    /// Values that are written anew, in ASCII.
    fn written(&mut self, write: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), Refusal>) -> (ArrayRef, Stopped) {
        let (bytes, stopped) = self.variable(|text, bytes| write(text.bytes, bytes));
        (bytes.into_strings(), stopped)
    }

    fn binaries(&mut self) -> (ArrayRef, Stopped) {
        let (bytes, stopped) = self.variable(|text, bytes| value::bytea::append(text.bytes, bytes));
        let Bytes { offsets, bytes, nulls } = bytes;
        let array = BinaryArray::new(OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(bytes), nulls);
        (Arc::new(array), stopped)
    }

    #[inline(always)]
    fn variable(&mut self, append: impl Fn(&Text<'_>, &mut Vec<u8>) -> Result<(), Refusal>) -> (Bytes, Stopped) {
        let mut offsets: Vec<i32> = Vec::with_capacity(self.rows + 1);
        offsets.push(0);
        let mut bytes: Vec<u8> = Vec::new();
        let mut nulls = Validity::default();
        let stopped = self.each(&mut nulls, |text| {
            if let Some(text) = text {
                append(&text, &mut bytes)?;
            }
            // A window is smaller than 2^31 bytes, but padding may make more of it.
            offsets.push(i32::try_from(bytes.len()).map_err(|_| Refusal::OutOfRange)?);
            Ok(())
        });
        let nulls = nulls.finish(offsets.len() - 1);
        (Bytes { offsets, bytes, nulls }, stopped)
    }

    /// Arrays as nested lists. Their elements are gathered first and then read as a column of their own.
    fn lists(&mut self, array: &ArrayType) -> (ArrayRef, Stopped) {
        let dimensions = dimensions(array);
        let mut reader = ArrayReader::default();
        let mut elements = ElementTexts::default();
        // Per level, the outermost first, where each list ends in the level below.
        let mut levels: Vec<Vec<i32>> = vec![vec![0]; dimensions];
        // How many elements there are up to each row.
        let mut ends: Vec<usize> = Vec::with_capacity(self.rows);
        let mut nulls = Validity::default();
        let mut stopped = self.each(&mut nulls, |text| {
            let lengths: &[usize] = match text {
                Some(text) => {
                    reader.read(text.checked()?)?;
                    reader.lengths()
                }
                None => &[],
            };
            if !lengths.is_empty() && lengths.len() != dimensions {
                return Err(Refusal::InvalidSyntax);
            }
            if lengths.is_empty() {
                push_lists(&mut levels[0], 1, 0)?;
            } else {
                let mut lists = 1;
                for (level, &length) in levels.iter_mut().zip(lengths) {
                    push_lists(level, lists, length)?;
                    lists *= length;
                }
                for element in reader.elements() {
                    let start = elements.bytes.len();
                    elements.elements.push(element.map(|text| {
                        elements.bytes.extend_from_slice(text);
                        start..elements.bytes.len()
                    }));
                }
            }
            ends.push(elements.elements.len());
            Ok(())
        });
        let mut rows = ends.len();
        let count = ends.last().copied().unwrap_or(0);
        let place = Place { index: self.index, not_null: false, rows: count };
        let row_of = |element: usize| ends.partition_point(|&end| end <= element);
        let mut refused_elements = Vec::new();
        let collected = self.refused.is_some().then_some(&mut refused_elements);
        let (mut items, stopped_at) = read_column(&mut elements, &array.element, place, collected);
        if let Some((element, refusal)) = stopped_at {
            rows = row_of(element);
            stopped = Some((rows, refusal));
        }
        if let Some(refused) = &mut self.refused {
            // The first bad element of a row is the one to name.
            refused_elements.dedup_by_key(|&mut (element, _, _)| row_of(element));
            refused.extend(refused_elements.iter().map(|&(element, index, why)| (row_of(element), index, why)));
        }
        // A refused row leaves nothing behind, on any level.
        let mut lists = rows;
        for level in &mut levels {
            level.truncate(lists + 1);
            lists = level.last().map_or(0, |&end| end as usize);
        }
        items = items.slice(0, lists);
        let mut item_type = data_type(&array.element);
        for (index, level) in levels.into_iter().enumerate().rev() {
            let nulls = if index == 0 { std::mem::take(&mut nulls).finish(rows) } else { None };
            let offsets = OffsetBuffer::new(ScalarBuffer::from(level));
            let list = ListArray::new(list_item(item_type), offsets, items, nulls);
            item_type = list.data_type().clone();
            items = Arc::new(list);
        }
        (items, stopped)
    }

    /// Hands every text, `None` for NULL, to `store`; stops at the first refusal.
    #[inline(always)]
    fn each(
        &mut self,
        nulls: &mut Validity,
        mut store: impl FnMut(Option<Text<'_>>) -> Result<(), Refusal>,
    ) -> Stopped {
        for row in 0..self.rows {
            let text = self.texts.get(row);
            let stored = if text.is_none() && self.not_null {
                Err(Refusal::NullNotAllowed)
            } else {
                if text.is_none() {
                    nulls.note_null(row);
                }
                store(text)
            };
            if let Err(refusal) = stored {
                let Some(refused) = &mut self.refused else { return Some((row, refusal)) };
                refused.push((row, self.index, refusal));
                let placeholder = store(None);
                debug_assert!(placeholder.is_ok(), "NULL is never refused");
            }
        }
        None
    }
}

/// Appends the ends of `lists` lists of `length` items each.
fn push_lists(level: &mut Vec<i32>, lists: usize, length: usize) -> Result<(), Refusal> {
    let length = i32::try_from(length).map_err(|_| Refusal::OutOfRange)?;
    for _ in 0..lists {
        let end = level.last().copied().unwrap_or(0).checked_add(length).ok_or(Refusal::OutOfRange)?;
        level.push(end);
    }
    Ok(())
}

/// Values of variable length.
struct Bytes {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    nulls: Option<NullBuffer>,
}

impl Bytes {
    /// Of values that are text.
    fn into_strings(self) -> ArrayRef {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let bytes = Buffer::from(MutableBuffer::from(self.bytes));
        // SAFETY: the bytes are whole texts that were found to be valid UTF-8, padded with spaces, or ASCII that was
        // written here; the offsets were pushed in ascending order and end at the buffer's length.
        let array = unsafe { StringArray::new_unchecked(offsets, bytes, self.nulls) };
        Arc::new(array)
    }
}

/// Which values are NULL; costs nothing where none is.
#[derive(Default)]
struct Validity {
    null_rows: Vec<usize>,
}

impl Validity {
    #[inline(always)]
    fn note_null(&mut self, row: usize) {
        self.null_rows.push(row);
    }

    fn finish(self, length: usize) -> Option<NullBuffer> {
        if self.null_rows.first().is_none_or(|&row| row >= length) {
            return None;
        }
        let mut bits = arrow_array::builder::BooleanBufferBuilder::new(length);
        bits.append_n(length, true);
        for row in self.null_rows {
            if row < length {
                bits.set_bit(row, false);
            }
        }
        Some(NullBuffer::new(bits.finish()))
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
        _ => micros.checked_add(value::timestamp::UNIX_EPOCH_MICROS).ok_or(Refusal::OutOfRange),
    }
}
