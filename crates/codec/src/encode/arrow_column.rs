//! One column of Arrow arrays: the texts of fields, or of the elements of arrays, read by the column's type.

use super::arrow::{data_type, dimensions, is_arrow_decimal, list_item};
use super::arrow_regular::{Dates, Decimals, Floats, Integers, RegularType, Timestamps, ZonedTimestamps};
use super::text_check::{TextCheck, check_text};
use super::unchecked::{self, SLACK_BYTES};
use crate::column::{ArrayType, ColumnType};
use crate::decode::Decoder;
use crate::scan::ColumnFields;
use crate::value::array::ArrayReader;
use crate::value::reader::{Loop, Reader, Words};
#[cfg(target_arch = "x86_64")]
use crate::value::wide::Wide;
use crate::value::{self, Refusal, ServerVersion, Span};
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

pub(super) const SERVER: ServerVersion = ServerVersion::NEWEST;

/// The row at which reading stopped, and why.
pub(super) type Stopped = Option<(usize, Refusal)>;

/// Where the texts of a column come from. A trait, so that fields and elements are read by the same code, compiled once
/// for each: nothing is dispatched per value.
pub(super) trait Texts {
    /// The text of a row, `None` for NULL.
    fn get(&mut self, row: usize) -> Option<Text<'_>>;

    /// How many bytes the texts of the first `rows` rows have together, at most.
    fn bytes(&self, rows: usize) -> usize;
}

/// A text, and whether it may still hold bytes that are no text.
pub(super) struct Text<'t> {
    span: Span<'t>,
    unchecked: bool,
    /// It is known to be ASCII.
    ascii: bool,
}

impl<'t> Text<'t> {
    /// The bytes, which are valid UTF-8 without NUL.
    #[inline(always)]
    fn checked(&self) -> Result<&'t [u8], Refusal> {
        if self.unchecked {
            check_text(self.span.text())?;
        }
        Ok(self.span.text())
    }
}

/// The fields of one column.
pub(super) struct FieldTexts<'a, const PLAIN: bool> {
    pub(super) column: ColumnFields<'a, PLAIN>,
    pub(super) decoder: &'a mut Decoder,
    pub(super) check: TextCheck,
    pub(super) index: usize,
}

impl<const PLAIN: bool> Texts for FieldTexts<'_, PLAIN> {
    #[inline(always)]
    fn get(&mut self, row: usize) -> Option<Text<'_>> {
        let field = self.column.field(row);
        let unchecked = self.check.must_check(field);
        let ascii = self.check.is_ascii() && !unchecked;
        self.decoder.decode(field, self.index).map(|text| Text { span: field.span(text), unchecked, ascii })
    }

    fn bytes(&self, rows: usize) -> usize {
        // Decoding makes no text longer.
        (0..rows).map(|row| self.column.field(row).bytes.len()).sum()
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
        self.elements[row].clone().map(|place| Text {
            span: Span::from(&self.bytes[place]),
            unchecked: false,
            ascii: false,
        })
    }

    fn bytes(&self, _rows: usize) -> usize {
        self.bytes.len()
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
            ColumnType::Int2 => arc(self.regular::<Int16Type>(Integers)),
            ColumnType::Int4 => arc(self.regular::<Int32Type>(Integers)),
            ColumnType::Int8 => arc(self.regular::<Int64Type>(Integers)),
            ColumnType::Float4 => arc(self.regular::<Float32Type>(Floats)),
            ColumnType::Float8 => arc(self.regular::<Float64Type>(Floats)),
            ColumnType::Date => arc(self.regular::<Date32Type>(Dates)),
            ColumnType::Timestamp { precision } => {
                arc(self.regular::<TimestampMicrosecondType>(Timestamps { precision }))
            }
            ColumnType::TimestampTz { precision, utc } => {
                let kind = ZonedTimestamps { precision, utc };
                let (array, stopped) = self.regular::<TimestampMicrosecondType>(kind);
                (Arc::new(array.with_timezone("UTC")), stopped)
            }
            ColumnType::Time { precision } => {
                self.primitive::<Time64MicrosecondType>(move |span| value::time::parse(span.text(), precision))
            }
            ColumnType::Interval { precision } => self.primitive::<IntervalMonthDayNanoType>(move |span| {
                let value::interval::Interval { months, days, micros } =
                    value::interval::parse(span.text(), precision)?;
                // Arrow counts nanoseconds, of which fewer hours fit.
                let nanos = micros.checked_mul(1000).ok_or(Refusal::OutOfRange)?;
                Ok(IntervalMonthDayNano::new(months, days, nanos))
            }),
            ColumnType::Numeric { precision, scale } if is_arrow_decimal(precision, scale) => {
                let (digits, fraction) = (precision as u8, scale as u8);
                if precision <= 18 {
                    let (array, stopped) = self.regular::<Decimal64Type>(Decimals { digits, fraction });
                    let array = array.with_precision_and_scale(digits, fraction.cast_signed());
                    (Arc::new(array.expect("checked when the schema was made")), stopped)
                } else {
                    let (array, stopped) = self.primitive_array::<Decimal128Type>(move |span| {
                        value::numeric::parse_scaled_i128(span, digits, fraction)
                    });
                    let array = array.with_precision_and_scale(digits, fraction.cast_signed());
                    (Arc::new(array.expect("checked when the schema was made")), stopped)
                }
            }
            ColumnType::Integer { bits, signed } => self.other_integers(bits, signed),
            ColumnType::Varchar { limit } => {
                self.strings(move |text| Ok((value::text::fit_varchar(text, limit)?.len(), 0)))
            }
            ColumnType::Char { limit } => self.texts(move |text| {
                let bytes = text.checked()?;
                if text.ascii && bytes.len() <= limit as usize {
                    return Ok((bytes.len(), limit as usize - bytes.len()));
                }
                value::text::fit_char(bytes, limit).map(|(text, padding)| (text.len(), padding))
            }),
            ColumnType::Enum { ref labels } => {
                self.strings(|text| Ok((value::enumeration::parse(text, labels)?.len(), 0)))
            }
            ColumnType::Json | ColumnType::Jsonb => {
                let check = |text: &[u8]| value::json::check(text).and_then(|()| value::json::check_surrogates(text));
                self.strings(move |text| check(text).map(|()| (text.len(), 0)))
            }
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
            | ColumnType::Opaque => self.strings(|text| Ok((text.len(), 0))),
        }
    }

    /// Values of the common types, by the best reader that the processor has.
    fn regular<P: ArrowPrimitiveType>(&mut self, kind: impl RegularType<P::Native>) -> (PrimitiveArray<P>, Stopped) {
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Wide::found() {
            return self.regular_by(wide, kind);
        }
        self.regular_by(Words, kind)
    }

    fn regular_by<P: ArrowPrimitiveType>(
        &mut self,
        reader: impl Reader,
        kind: impl RegularType<P::Native>,
    ) -> (PrimitiveArray<P>, Stopped) {
        let mut values = RegularValues { values: Vec::with_capacity(self.rows), reader, kind };
        let mut ended = (Validity::default(), None);
        reader.run(ColumnLoop { column: self, values: &mut values, ended: &mut ended });
        let (nulls, stopped) = ended;
        let nulls = nulls.finish(values.values.len());
        (PrimitiveArray::new(ScalarBuffer::from(values.values), nulls), stopped)
    }

    fn primitive<P: ArrowPrimitiveType>(
        &mut self,
        parse: impl Fn(Span<'_>) -> Result<P::Native, Refusal>,
    ) -> (ArrayRef, Stopped) {
        arc(self.primitive_array::<P>(parse))
    }

    #[inline(always)]
    fn primitive_array<P: ArrowPrimitiveType>(
        &mut self,
        parse: impl Fn(Span<'_>) -> Result<P::Native, Refusal>,
    ) -> (PrimitiveArray<P>, Stopped) {
        let mut values = Fixed { values: Vec::with_capacity(self.rows), null: P::Native::default(), parse };
        let (nulls, stopped) = self.each(&mut values);
        let nulls = nulls.finish(values.values.len());
        (PrimitiveArray::new(ScalarBuffer::from(values.values), nulls), stopped)
    }

    /// Integers of a width that PostgreSQL does not have.
    fn other_integers(&mut self, bits: u8, signed: bool) -> (ArrayRef, Stopped) {
        let parse = move |text: &[u8]| value::integer::parse_other(text, bits, signed);
        let narrow = move |text: &[u8]| {
            let (negative, magnitude) = parse(text)?;
            Ok(if negative { (magnitude as i64).wrapping_neg() } else { magnitude as i64 })
        };
        match (bits, signed) {
            (8, true) => self.primitive::<Int8Type>(|span| Ok(narrow(span.text())? as i8)),
            (8, false) => self.primitive::<UInt8Type>(|span| Ok(narrow(span.text())? as u8)),
            (16, true) => self.primitive::<Int16Type>(|span| Ok(narrow(span.text())? as i16)),
            (16, false) => self.primitive::<UInt16Type>(|span| Ok(narrow(span.text())? as u16)),
            (32, true) => self.primitive::<Int32Type>(|span| Ok(narrow(span.text())? as i32)),
            (32, false) => self.primitive::<UInt32Type>(|span| Ok(narrow(span.text())? as u32)),
            (64, true) => self.primitive::<Int64Type>(|span| narrow(span.text())),
            (64, false) => self.primitive::<UInt64Type>(|span| Ok(narrow(span.text())?.cast_unsigned())),
            _ => self.written(|text, out| {
                let (negative, magnitude) = parse(text)?;
                let sign = if negative { "-" } else { "" };
                write!(out, "{sign}{magnitude}").map_err(|_| Refusal::OutOfRange)
            }),
        }
    }

    fn booleans(&mut self) -> (ArrayRef, Stopped) {
        let parse = |span: Span<'_>| value::boolean::parse(span.text());
        let mut values = Fixed { values: Vec::with_capacity(self.rows), null: false, parse };
        let (nulls, stopped) = self.each(&mut values);
        let nulls = nulls.finish(values.values.len());
        (Arc::new(BooleanArray::new(BooleanBuffer::from(values.values), nulls)), stopped)
    }

    /// Texts that are checked, of which `fit` tells how many bytes are kept and how many spaces are added.
    #[inline(always)]
    fn strings(&mut self, fit: impl Fn(&[u8]) -> Result<(usize, usize), Refusal>) -> (ArrayRef, Stopped) {
        self.texts(|text| fit(text.checked()?))
    }

    /// The same where `fit` checks them.
    #[inline(always)]
    fn texts(&mut self, fit: impl Fn(&Text<'_>) -> Result<(usize, usize), Refusal>) -> (ArrayRef, Stopped) {
        let (bytes, stopped) = self.variable(|text, bytes| {
            let (length, padding) = fit(text)?;
            bytes.reserve(length + SLACK_BYTES);
            // SAFETY: there is room for the text and the slack.
            unsafe { unchecked::put_text(bytes, text.span.prefix(length)) };
            if padding > 0 {
                bytes.resize(bytes.len() + padding, b' ');
            }
            Ok(())
        });
        (bytes.into_strings(), stopped)
    }

    /// Values that are written anew, in ASCII.
    fn written(&mut self, write: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), Refusal>) -> (ArrayRef, Stopped) {
        let (bytes, stopped) = self.variable(|text, bytes| write(text.span.text(), bytes));
        (bytes.into_strings(), stopped)
    }

    fn binaries(&mut self) -> (ArrayRef, Stopped) {
        let (bytes, stopped) = self.variable(|text, bytes| value::bytea::append(text.span.text(), bytes));
        let Bytes { offsets, bytes, nulls } = bytes;
        let array = BinaryArray::new(OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(bytes), nulls);
        (Arc::new(array), stopped)
    }

    #[inline(always)]
    fn variable(&mut self, append: impl Fn(&Text<'_>, &mut Vec<u8>) -> Result<(), Refusal>) -> (Bytes, Stopped) {
        let mut offsets: Vec<i32> = Vec::with_capacity(self.rows + 1);
        offsets.push(0);
        let bytes = Vec::with_capacity(self.texts.bytes(self.rows) + SLACK_BYTES);
        let mut values = Variable { offsets, bytes, append };
        let (nulls, stopped) = self.each(&mut values);
        let Variable { offsets, bytes, .. } = values;
        let nulls = nulls.finish(offsets.len() - 1);
        (Bytes { offsets, bytes, nulls }, stopped)
    }

    /// Arrays as nested lists. Their elements are gathered first and then read as a column of their own.
    fn lists(&mut self, array: &ArrayType) -> (ArrayRef, Stopped) {
        let mut values = Lists {
            reader: ArrayReader::default(),
            elements: ElementTexts::default(),
            levels: vec![vec![0]; dimensions(array)],
            ends: Vec::with_capacity(self.rows),
        };
        let (mut nulls, mut stopped) = self.each(&mut values);
        let Lists { mut elements, mut levels, ends, .. } = values;
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

    /// Puts every text into `values`; stops at the first refusal.
    #[inline(always)]
    fn each(&mut self, values: &mut impl Values) -> (Validity, Stopped) {
        let mut nulls = Validity::default();
        for row in 0..self.rows {
            // Each of these calls stands here once, so that it becomes a part of the loop.
            let stored = match self.texts.get(row) {
                Some(text) => values.put(text),
                None if self.not_null => Err(Refusal::NullNotAllowed),
                None => {
                    nulls.note_null(row);
                    values.put_null();
                    continue;
                }
            };
            if let Err(refusal) = stored {
                let Some(refused) = &mut self.refused else { return (nulls, Some((row, refusal))) };
                refused.push((row, self.index, refusal));
                values.put_null();
            }
        }
        (nulls, None)
    }
}

/// A column in the making. A trait, so that the loop over its texts is compiled for each kind of column.
trait Values {
    /// Appends a value; nothing, where it is refused.
    fn put(&mut self, text: Text<'_>) -> Result<(), Refusal>;

    /// Appends what stands in the place of a NULL.
    fn put_null(&mut self);
}

/// The loop over a column, to be run by a reader.
struct ColumnLoop<'l, 'c, T, V> {
    column: &'l mut ColumnReader<'c, T>,
    values: &'l mut V,
    ended: &'l mut (Validity, Stopped),
}

impl<T: Texts, V: Values> Loop for ColumnLoop<'_, '_, T, V> {
    #[inline(always)]
    fn run(self) {
        *self.ended = self.column.each(self.values);
    }
}

/// Values of such a type.
struct RegularValues<V, R, K> {
    values: Vec<V>,
    reader: R,
    kind: K,
}

impl<V: Copy + Default, R: Reader, K: RegularType<V>> Values for RegularValues<V, R, K> {
    #[inline(always)]
    fn put(&mut self, text: Text<'_>) -> Result<(), Refusal> {
        self.values.push(self.kind.parse(self.reader, text.span)?);
        Ok(())
    }

    #[inline(never)]
    fn put_null(&mut self) {
        self.values.push(V::default());
    }
}

/// Values of fixed width.
struct Fixed<V, F> {
    values: Vec<V>,
    null: V,
    parse: F,
}

impl<V: Copy, F: Fn(Span<'_>) -> Result<V, Refusal>> Values for Fixed<V, F> {
    #[inline(always)]
    fn put(&mut self, text: Text<'_>) -> Result<(), Refusal> {
        self.values.push((self.parse)(text.span)?);
        Ok(())
    }

    #[inline(never)]
    fn put_null(&mut self) {
        self.values.push(self.null);
    }
}

/// Values of variable length, and where each ends.
struct Variable<F> {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    append: F,
}

impl<F: Fn(&Text<'_>, &mut Vec<u8>) -> Result<(), Refusal>> Values for Variable<F> {
    #[inline(always)]
    fn put(&mut self, text: Text<'_>) -> Result<(), Refusal> {
        let begin = self.bytes.len();
        (self.append)(&text, &mut self.bytes).inspect_err(|_| self.bytes.truncate(begin))?;
        // A window is smaller than 2^31 bytes, but padding may make more of it.
        self.offsets.push(i32::try_from(self.bytes.len()).map_err(|_| Refusal::OutOfRange)?);
        Ok(())
    }

    #[inline(never)]
    fn put_null(&mut self) {
        // What an end too far left behind is no value.
        let end = self.offsets.last().copied().unwrap_or(0);
        self.bytes.truncate(end as usize);
        self.offsets.push(end);
    }
}

/// Lists, and the texts of their elements.
struct Lists {
    reader: ArrayReader,
    elements: ElementTexts,
    /// Per level, the outermost first, where each list ends in the level below.
    levels: Vec<Vec<i32>>,
    /// How many elements there are up to each row.
    ends: Vec<usize>,
}

impl Values for Lists {
    fn put(&mut self, text: Text<'_>) -> Result<(), Refusal> {
        self.reader.read(text.checked()?)?;
        let lengths = self.reader.lengths();
        if lengths.is_empty() {
            push_lists(&mut self.levels[0], 1, 0)?;
        } else if lengths.len() != self.levels.len() {
            return Err(Refusal::InvalidSyntax);
        } else {
            let mut lists = 1;
            for (level, &length) in self.levels.iter_mut().zip(lengths) {
                push_lists(level, lists, length)?;
                lists *= length;
            }
            let ElementTexts { bytes, elements } = &mut self.elements;
            for element in self.reader.elements() {
                let start = bytes.len();
                elements.push(element.map(|text| {
                    bytes.extend_from_slice(text);
                    start..bytes.len()
                }));
            }
        }
        self.ends.push(self.elements.elements.len());
        Ok(())
    }

    fn put_null(&mut self) {
        let end = self.levels[0].last().copied().unwrap_or(0);
        self.levels[0].push(end);
        self.ends.push(self.elements.elements.len());
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

fn arc<P: ArrowPrimitiveType>((array, stopped): (PrimitiveArray<P>, Stopped)) -> (ArrayRef, Stopped) {
    (Arc::new(array), stopped)
}
