//! Parquet: row groups, read in batches of some thousand rows, only the columns that are wanted.

use super::positioned::Positioned;
use super::{Unit, damaged};
use crate::error::Result;
use crate::source::SourceFile;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Type as PhysicalType;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// The key under which writers keep the Arrow schema of what they wrote.
const ARROW_SCHEMA: &str = "ARROW:schema";

/// The size of a batch to aim at, before compression.
const BATCH_BYTES: u64 = 4 << 20;
/// Rows of a batch: few enough to stay in a cache, enough for its fixed costs.
const BATCH_ROWS: Range<u64> = 64..16 * 1024;

/// What a file says of itself.
#[derive(Debug)]
pub(super) struct ParquetFooter(ArrowReaderMetadata);

impl ParquetFooter {
    pub(super) fn read(source: &SourceFile<'_>) -> Result<Self> {
        let file = Positioned::new(source.duplicate()?, source.planned().size);
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
        let metadata = metadata.map_err(|error| damaged(source, error))?;
        let Some(schema) = wide_int96(&metadata) else { return Ok(Self(metadata)) };
        let options = ArrowReaderOptions::new().with_schema(schema);
        // Where a struct has other nanoseconds beside INT96, its schema does not fit and the reader keeps its own.
        Ok(Self(ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).unwrap_or(metadata)))
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.0.schema().clone()
    }

    pub(super) fn units(&self) -> Vec<Unit> {
        let unit = |group: &parquet::file::metadata::RowGroupMetaData| Unit {
            offset: group.columns().iter().map(|column| column.byte_range().0).min().unwrap_or(0),
            bytes: group.compressed_size().max(0).cast_unsigned(),
            rows: group.num_rows().max(0).cast_unsigned(),
        };
        self.0.metadata().row_groups().iter().map(unit).collect()
    }

    /// The batches of some row groups; of the columns only those in `projection`, and in its order.
    pub(super) fn batches<'f>(
        &self,
        source: &'f SourceFile<'_>,
        groups: Range<usize>,
        projection: &[usize],
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<'f>> {
        let metadata = self.0.metadata();
        let chosen = &metadata.row_groups()[groups.clone()];
        let rows: u64 = chosen.iter().map(|group| group.num_rows().max(0).cast_unsigned()).sum();
        let bytes: u64 = chosen.iter().map(|group| group.total_byte_size().max(0).cast_unsigned()).sum();
        let batch_rows = (BATCH_BYTES * rows / bytes.max(1)).clamp(BATCH_ROWS.start, BATCH_ROWS.end);
        let file = Positioned::new(source.duplicate()?, source.planned().size);
        let mask = ProjectionMask::roots(self.0.parquet_schema(), projection.iter().copied());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.0.clone())
            .with_row_groups(groups.collect())
            .with_projection(mask)
            .with_batch_size(batch_rows as usize)
            .build()
            .map_err(|error| damaged(source, error))?;
        // The reader gives the columns in the order of the file.
        let mut sorted = projection.to_vec();
        sorted.sort_unstable();
        let order: Vec<usize> = projection.iter().map(|index| sorted.partition_point(|other| other < index)).collect();
        Ok(reader
            .map(move |batch| batch.and_then(|batch| batch.project(&order)).map_err(|error| damaged(source, error))))
    }
}

/// The file's schema with all INT96 in microseconds; `None` where there is none, or the writer says what it meant.
///
/// INT96 holds any day of 5.8 million years and nanoseconds of the day. As nanoseconds of one number, which is what
/// readers make of it by default, the year 9999 that Spark's users write for "never" would silently become another one.
fn wide_int96(metadata: &ArrowReaderMetadata) -> Option<SchemaRef> {
    let file = metadata.metadata().file_metadata();
    let says_itself = file.key_value_metadata().is_some_and(|all| all.iter().any(|one| one.key == ARROW_SCHEMA));
    let parquet = metadata.parquet_schema();
    let is_int96 = |leaf: usize| parquet.column(leaf).physical_type() == PhysicalType::INT96;
    let roots: HashSet<usize> = (0..parquet.num_columns())
        .filter(|&leaf| is_int96(leaf))
        .map(|leaf| parquet.get_column_root_idx(leaf))
        .collect();
    if says_itself || roots.is_empty() {
        return None;
    }
    let schema = metadata.schema();
    let fields = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(root, field)| if roots.contains(&root) { Arc::new(in_microseconds(field)) } else { field.clone() });
    Some(Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())))
}

fn in_microseconds(field: &Field) -> Field {
    let of = |field: &Arc<Field>| Arc::new(in_microseconds(field));
    let kind = match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::List(element) => DataType::List(of(element)),
        DataType::Map(entries, sorted) => DataType::Map(of(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        other => other.clone(),
    };
    field.clone().with_data_type(kind)
}
