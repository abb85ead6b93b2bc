//! Records as Arrow record batches, column by column: one tight loop per column and no branch on the type per value.
//!
//! `char(n)` and `varchar(n)` become `Utf8`; `numeric(p, s)` becomes `Decimal64` up to 18 digits and `Decimal128`
//! up to 38; dates and timestamps count from the Unix epoch, as Arrow has it. UUIDs, labels, JSON and integers of 128
//! bits are checked and stay text, which the engine casts; arrays are nested lists.

use super::Encoded;
use super::arrow_column::{FieldTexts, Place, RefusedField, read_column};
use super::text_check::TextCheck;
use crate::column::{ArrayType, Column, ColumnType};
use crate::decode::Decoder;
use crate::dialect::Dialect;
use crate::problem::Problem;
use crate::scan::Records;
use crate::value::Refusal;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// The Arrow type in which values of a column are handed over.
#[must_use]
pub fn data_type(kind: &ColumnType) -> DataType {
    match *kind {
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
        ColumnType::TimestampTz { .. } => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ColumnType::Time { .. } => DataType::Time64(TimeUnit::Microsecond),
        ColumnType::Interval { .. } => DataType::Interval(IntervalUnit::MonthDayNano),
        ColumnType::Bytea => DataType::Binary,
        ColumnType::Integer { bits: 8, signed: true } => DataType::Int8,
        ColumnType::Integer { bits: 8, signed: false } => DataType::UInt8,
        ColumnType::Integer { bits: 16, signed: true } => DataType::Int16,
        ColumnType::Integer { bits: 16, signed: false } => DataType::UInt16,
        ColumnType::Integer { bits: 32, signed: true } => DataType::Int32,
        ColumnType::Integer { bits: 32, signed: false } => DataType::UInt32,
        ColumnType::Integer { bits: 64, signed: true } => DataType::Int64,
        ColumnType::Integer { bits: 64, signed: false } => DataType::UInt64,
        ColumnType::Array(ref array) => {
            (0..dimensions(array)).fold(data_type(&array.element), |inner, _| DataType::List(list_item(inner)))
        }
        ColumnType::Numeric { .. }
        | ColumnType::Decimal
        | ColumnType::Text
        | ColumnType::Varchar { .. }
        | ColumnType::Char { .. }
        | ColumnType::TimeTz { .. }
        | ColumnType::Uuid
        | ColumnType::Json
        | ColumnType::Jsonb
        | ColumnType::Inet
        | ColumnType::Cidr
        | ColumnType::Enum { .. }
        | ColumnType::Integer { .. }
        | ColumnType::Opaque => DataType::Utf8,
    }
}

/// How deep an array's lists are nested.
pub(super) fn dimensions(array: &ArrayType) -> usize {
    usize::from(array.dimensions.unwrap_or(1)).max(1)
}

/// The field of a list's items.
pub(super) fn list_item(item: DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(item, true))
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
        columns.iter().map(|column| Field::new(&column.name, data_type(&column.kind), !column.not_null)).collect();
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

    /// Turns the records into a batch, without those in `left_out` (ascending) and those that cannot be stored: `skip`
    /// gets the first problem of each of these.
    pub fn encode_skipping(
        &mut self,
        records: &Records<'_>,
        left_out: &[usize],
        mut skip: impl FnMut(&Problem),
    ) -> RecordBatch {
        let mut refused = Vec::new();
        let mut arrays = self.read(records, Some(&mut refused), |_, _| {});
        if refused.is_empty() && left_out.is_empty() {
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
        for &row in left_out {
            keep.set_bit(row, false);
        }
        let keep = BooleanArray::new(keep.finish(), None);
        for array in &mut arrays {
            *array = arrow_select::filter::filter(array, &keep).expect("every column has a value per record");
        }
        self.batch(arrays, keep.true_count())
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
        let plain = records.is_plain();
        let mut rows = records.rows();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            let decoder = &mut self.decoder;
            let refused = refused.as_deref_mut();
            let place = Place { index, not_null: column.not_null, rows };
            let (array, stopped) = if plain {
                let mut texts = FieldTexts { column: records.column::<true>(index), decoder, check, index };
                read_column(&mut texts, &column.kind, place, refused)
            } else {
                let mut texts = FieldTexts { column: records.column::<false>(index), decoder, check, index };
                read_column(&mut texts, &column.kind, place, refused)
            };
            if let Some(stopped) = stopped {
                rows = stopped.0;
                stop(index, stopped);
            }
            arrays.push(array);
        }
        arrays
    }
}
