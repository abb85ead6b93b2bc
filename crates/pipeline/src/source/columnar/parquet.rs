//! Parquet: row groups, read in batches of some thousand rows, only the columns that are wanted.

use super::positioned::Positioned;
use super::{Unit, damaged};
use crate::error::Result;
use crate::source::SourceFile;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use std::ops::Range;

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
        Ok(Self(metadata.map_err(|error| damaged(source, error))?))
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
