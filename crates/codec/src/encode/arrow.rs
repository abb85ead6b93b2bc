//! Records as Arrow record batches, column by column: one tight loop per column and no branch on the type per value.
//!
//! `char(n)` and `varchar(n)` become `Utf8`; `numeric(p, s)` becomes `Decimal64` up to 18 digits and `Decimal128`
//! up to 38; dates and timestamps count from the Unix epoch, as Arrow has it.

use super::Encoded;
use super::text_check::TextCheck;
use crate::column::{Column, ColumnType};
use crate::decode::Decoder;
use crate::dialect::Dialect;
use crate::problem::Problem;
use crate::scan::{RawField, Records};
use crate::value::{self, Refusal, ServerVersion};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_buffer::{
    BooleanBuffer, BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

const SERVER: ServerVersion = ServerVersion::NEWEST;

/// The Arrow type in which values of a column are handed over.
#[must_use]
pub fn data_type(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Int2 => DataType::Int16,
        ColumnType::Int4 => DataType::Int32,
        ColumnType::Int8 => DataType::Int64,
        ColumnType::Float4 => DataType::Float32,
        ColumnType::Float8 => DataType::Float64,
        ColumnType::Numeric { precision, scale } if is_arrow_decimal(precision, scale) => {
            let (precision, scale) = (precision as u8, scale as i8);
            if precision <= 18 { DataType::Decimal64(precision, scale) } else { DataType::Decimal128(precision, scale) }
        }
        ColumnType::Date => DataType::Date32,
        ColumnType::Timestamp { .. } => DataType::Timestamp(TimeUnit::Microsecond, None),
        ColumnType::Numeric { .. }
        | ColumnType::Decimal
        | ColumnType::Text
        | ColumnType::Varchar { .. }
        | ColumnType::Char { .. }
        | ColumnType::Opaque => DataType::Utf8,
    }
}

/// Whether `numeric(precision, scale)` fits Arrow's decimals as the codec scales them.
#[must_use]
pub fn is_arrow_decimal(precision: u16, scale: i16) -> bool {
    precision <= 38 && (0..=precision.cast_signed()).contains(&scale)
}

/// The Arrow schema of `columns`.
#[must_use]
pub fn schema(columns: &[Column]) -> SchemaRef {
    let fields: Vec<Field> =
        columns.iter().map(|column| Field::new(&column.name, data_type(column.kind), !column.not_null)).collect();
    Arc::new(Schema::new(fields))
}

/// Encodes the records of one stream.
#[derive(Debug)]
pub struct ArrowEncoder {
    columns: Vec<Column>,
    schema: SchemaRef,
    decoder: Decoder,
    dialect: Dialect,
}

impl ArrowEncoder {
    /// An encoder for `columns`.
    #[must_use]
    pub fn new(columns: Vec<Column>, dialect: Dialect) -> Self {
        let schema = schema(&columns);
        Self { columns, schema, decoder: Decoder::new(dialect.clone()), dialect }
    }

    /// The schema of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Turns the records up to the first that cannot be stored into a batch.
    pub fn encode(&mut self, records: &Records<'_>) -> (RecordBatch, Encoded) {
        let mut rows = records.rows();
        let mut problem = Problem::structure(records);
        let mut arrays = self.read(records, None, |index, (row, refusal)| {
            rows = row;
            problem = Some(Problem::value(records, row, index, refusal));
        });
        // A later column may have stopped earlier than the first ones did.
        for array in &mut arrays {
            if array.len() > rows {
                *array = array.slice(0, rows);
            }
        }
        (self.batch(arrays, rows), Encoded { rows, problem })
    }

    /// Turns the records into a batch, without those that cannot be stored: `skip` gets the first problem of each.
    pub fn encode_skipping(&mut self, records: &Records<'_>, mut skip: impl FnMut(&Problem)) -> RecordBatch {
        let mut refused = Vec::new();
        let mut arrays = self.read(records, Some(&mut refused), |_, _| {});
        if refused.is_empty() {
            return self.batch(arrays, records.rows());
        }
        // Column by column they came; a record is told of once, with the first of its fields that is to blame.
        refused.sort_unstable_by_key(|&(row, column, _)| (row, column));
        refused.dedup_by_key(|&mut (row, _, _)| row);
        let mut keep = BooleanBufferBuilder::new(records.rows());
        keep.append_n(records.rows(), true);
        for &(row, column, refusal) in &refused {
            keep.set_bit(row, false);
            skip(&Problem::value(records, row, column, refusal));
        }
        let keep = BooleanArray::new(keep.finish(), None);
        for array in &mut arrays {
            *array = arrow_select::filter::filter(array, &keep).expect("every column has a value per record");
        }
        self.batch(arrays, records.rows() - refused.len())
    }

    fn batch(&self, arrays: Vec<ArrayRef>, rows: usize) -> RecordBatch {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .expect("arrays are built after the schema")
    }

    /// An array per column; `stop` is told where one ended early, which it does not where refusals are collected.
    fn read(
        &mut self,
        records: &Records<'_>,
        mut refused: Option<&mut Vec<RefusedField>>,
        mut stop: impl FnMut(usize, (usize, Refusal)),
    ) -> Vec<ArrayRef> {
        let check = TextCheck::of(records, self.dialect.family);
        let mut rows = records.rows();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            let (decoder, not_null) = (&mut self.decoder, column.not_null);
            let refused = refused.as_deref_mut();
            let mut reader = ColumnReader { records, decoder, check, index, not_null, rows, refused };
            let (array, stopped) = reader.read(column.kind);
            if let Some(stopped) = stopped {
                rows = stopped.0;
                stop(index, stopped);
            }
            arrays.push(array);
        }
        arrays
    }
}

/// Record, column and reason.
type RefusedField = (usize, usize, Refusal);

type Stopped = Option<(usize, Refusal)>;

struct ColumnReader<'a> {
    records: &'a Records<'a>,
    decoder: &'a mut Decoder,
    check: TextCheck,
    index: usize,
    not_null: bool,
    rows: usize,
    /// Where refusals are collected; the record then has some value in this column, and is left out in the end.
    refused: Option<&'a mut Vec<RefusedField>>,
}

impl ColumnReader<'_> {
    fn read(&mut self, kind: ColumnType) -> (ArrayRef, Stopped) {
        match kind {
            ColumnType::Bool => self.booleans(),
            ColumnType::Int2 => self.primitive::<Int16Type>(|text| value::integer::parse_int2(text, SERVER)),
            ColumnType::Int4 => self.primitive::<Int32Type>(|text| value::integer::parse_int4(text, SERVER)),
            ColumnType::Int8 => self.primitive::<Int64Type>(|text| value::integer::parse_int8(text, SERVER)),
            ColumnType::Float4 => self.primitive::<Float32Type>(value::float::parse_float4),
            ColumnType::Float8 => self.primitive::<Float64Type>(value::float::parse_float8),
            ColumnType::Date => self.primitive::<Date32Type>(|text| {
                let days = value::date::parse(text)?;
                // Infinity keeps its place at the end of the range, where Arrow consumers read it as infinity too.
                Ok(if days == i32::MAX || days == -i32::MAX - 1 {
                    infinite_date(days)
                } else {
                    days.checked_add(value::date::UNIX_EPOCH_DAYS).ok_or(Refusal::OutOfRange)?
                })
            }),
            ColumnType::Timestamp { precision } => self.primitive::<TimestampMicrosecondType>(move |text| {
                let micros = value::timestamp::parse_with_precision(text, precision)?;
                Ok(if micros == i64::MAX || micros == i64::MIN {
                    infinite_timestamp(micros)
                } else {
                    micros.checked_add(value::timestamp::UNIX_EPOCH_MICROS).ok_or(Refusal::OutOfRange)?
                })
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
            ColumnType::Varchar { limit } => self.strings(move |text| Ok((value::text::fit_varchar(text, limit)?, 0))),
            ColumnType::Char { limit } => self.strings(move |text| value::text::fit_char(text, limit)),
            ColumnType::Numeric { .. } | ColumnType::Decimal | ColumnType::Text | ColumnType::Opaque => {
                self.strings(|text| Ok((text, 0)))
            }
        }
    }

    fn primitive<T: ArrowPrimitiveType>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<T::Native, Refusal>,
    ) -> (ArrayRef, Stopped) {
        let (array, stopped) = self.primitive_array::<T>(parse);
        (Arc::new(array), stopped)
    }

    #[inline(always)]
    fn primitive_array<T: ArrowPrimitiveType>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<T::Native, Refusal>,
    ) -> (PrimitiveArray<T>, Stopped) {
        let mut values: Vec<T::Native> = Vec::with_capacity(self.rows);
        let mut nulls = Validity::default();
        let stopped = self.each(&mut nulls, |text, _, _| {
            values.push(match text {
                Some(text) => parse(text)?,
                None => T::Native::default(),
            });
            Ok(())
        });
        let nulls = nulls.finish(values.len());
        (PrimitiveArray::new(ScalarBuffer::from(values), nulls), stopped)
    }

    fn booleans(&mut self) -> (ArrayRef, Stopped) {
        let mut values: Vec<bool> = Vec::with_capacity(self.rows);
        let mut nulls = Validity::default();
        let stopped = self.each(&mut nulls, |text, _, _| {
            values.push(text.map_or(Ok(false), value::boolean::parse)?);
            Ok(())
        });
        let nulls = nulls.finish(values.len());
        (Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)), stopped)
    }

    #[inline(always)]
    fn strings(&mut self, fit: impl Fn(&[u8]) -> Result<(&[u8], usize), Refusal>) -> (ArrayRef, Stopped) {
        let mut offsets: Vec<i32> = Vec::with_capacity(self.rows + 1);
        offsets.push(0);
        let mut bytes: Vec<u8> = Vec::new();
        let mut nulls = Validity::default();
        let stopped = self.each(&mut nulls, |text, field, check| {
            if let Some(text) = text {
                check.check(field, text)?;
                let (text, padding) = fit(text)?;
                bytes.extend_from_slice(text);
                if padding > 0 {
                    bytes.resize(bytes.len() + padding, b' ');
                }
            }
            // A window is smaller than 2^31 bytes, but padding may make more of it.
            offsets.push(i32::try_from(bytes.len()).map_err(|_| Refusal::OutOfRange)?);
            Ok(())
        });
        let nulls = nulls.finish(offsets.len() - 1);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let bytes = Buffer::from(MutableBuffer::from(bytes));
        // SAFETY: the bytes are whole fields that `TextCheck` found to be valid UTF-8, padded with spaces, and the
        // offsets were pushed in ascending order and end at the buffer's length.
        let array = unsafe { StringArray::new_unchecked(offsets, bytes, nulls) };
        (Arc::new(array), stopped)
    }

    /// Hands every field's text, `None` for NULL, to `store`; stops at the first refusal.
    #[inline(always)]
    fn each(
        &mut self,
        nulls: &mut Validity,
        mut store: impl FnMut(Option<&[u8]>, RawField<'_>, TextCheck) -> Result<(), Refusal>,
    ) -> Stopped {
        for row in 0..self.rows {
            let field = self.records.field(row, self.index);
            let text = self.decoder.decode(field, self.index);
            let stored = if text.is_none() && self.not_null {
                Err(Refusal::NullNotAllowed)
            } else {
                if text.is_none() {
                    nulls.note_null(row);
                }
                store(text, field, self.check)
            };
            if let Err(refusal) = stored {
                let Some(refused) = &mut self.refused else { return Some((row, refusal)) };
                refused.push((row, self.index, refusal));
                let placeholder = store(None, field, self.check);
                debug_assert!(placeholder.is_ok(), "NULL is never refused");
            }
        }
        None
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

/// DuckDB, like PostgreSQL, keeps infinities at the ends of the range; its minus infinity is `-i32::MAX`.
fn infinite_date(days: i32) -> i32 {
    if days == i32::MAX { i32::MAX } else { -i32::MAX }
}

/// As [`infinite_date`], in microseconds.
fn infinite_timestamp(micros: i64) -> i64 {
    if micros == i64::MAX { i64::MAX } else { -i64::MAX }
}
