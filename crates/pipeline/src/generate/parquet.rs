//! Chunks as row groups of a parquet file: encoded by any thread, appended in order by one.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use super::plan::{Chunk, Compression};
use super::table::Table;

/// Bytes between the encoder and the file; a page of a column is smaller, a column chunk may be larger.
const BUFFER_BYTES: usize = 1 << 20;

/// Rows that are turned into columns and encoded at a time.
const BATCH_ROWS: usize = 8_192;

/// A row group that waits to be appended.
pub(super) struct RowGroup {
    columns: Vec<ArrowColumnChunk>,
    pub(super) rows: u64,
}

/// What encodes row groups for one file. Shared between threads.
pub(super) struct Encoder {
    table: Table,
    scale: f64,
    schema: SchemaRef,
    factory: ArrowRowGroupWriterFactory,
}

/// The one place that appends row groups to one file.
pub(super) struct Writer {
    file: SerializedFileWriter<BufWriter<File>>,
    /// The system's error that has ended it: whoever comes behind that is told the same, and not what it led to.
    failure: Option<i32>,
}

/// Begins a parquet file.
pub(super) fn begin(table: Table, scale: f64, compression: Compression, file: File) -> io::Result<(Encoder, Writer)> {
    let schema = schema(table);
    let columns = ArrowSchemaConverter::new().convert(&schema).map_err(into_io)?;
    let mut properties = WriterProperties::builder()
        .set_compression(match compression {
            Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
            Compression::Snappy => Codec::SNAPPY,
            Compression::None => Codec::UNCOMPRESSED,
        })
        .set_created_by(concat!("tipple ", env!("CARGO_PKG_VERSION")).to_string())
        .build();
    add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
    let writer = SerializedFileWriter::new(
        BufWriter::with_capacity(BUFFER_BYTES, file),
        columns.root_schema_ptr(),
        Arc::new(properties),
    )
    .map_err(into_io)?;
    let factory = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(&schema));
    Ok((Encoder { table, scale, schema, factory }, Writer { file: writer, failure: None }))
}

impl Encoder {
    /// Generates and encodes a chunk. Calls `stopped` now and then and gives up when it says so.
    pub(super) fn encode(&self, chunk: &Chunk, stopped: impl Fn() -> bool) -> io::Result<RowGroup> {
        let index = usize::try_from(chunk.index).map_err(io::Error::other)?;
        let mut writers = self.factory.create_column_writers(index).map_err(into_io)?;
        let mut rows = 0;
        for batch in self.batches(chunk) {
            if stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let batch = rows_of_chunk(&batch.map_err(io::Error::other)?, chunk);
            rows += batch.num_rows() as u64;
            let fields = self.schema.fields().iter().zip(batch.columns());
            for (writer, (field, column)) in writers.iter_mut().zip(fields) {
                for leaf in compute_leaves(field, column).map_err(into_io)? {
                    writer.write(&leaf).map_err(into_io)?;
                }
            }
        }
        let columns =
            writers.into_iter().map(|writer| writer.close()).collect::<Result<Vec<_>, _>>().map_err(into_io)?;
        Ok(RowGroup { columns, rows })
    }

    fn batches(&self, chunk: &Chunk) -> Box<dyn RecordBatchReader> {
        macro_rules! batches {
            ($arrow:ident, $generator:ident) => {
                Box::new(
                    $arrow::new($generator::new(self.scale, chunk.block, chunk.block_count))
                        .with_batch_size(BATCH_ROWS),
                )
            };
        }
        match self.table {
            Table::Region => batches!(RegionArrow, RegionGenerator),
            Table::Nation => batches!(NationArrow, NationGenerator),
            Table::Supplier => batches!(SupplierArrow, SupplierGenerator),
            Table::Customer => batches!(CustomerArrow, CustomerGenerator),
            Table::Part => batches!(PartArrow, PartGenerator),
            Table::Partsupp => batches!(PartSuppArrow, PartSuppGenerator),
            Table::Orders => batches!(OrderArrow, OrderGenerator),
            Table::Lineitem => batches!(LineItemArrow, LineItemGenerator),
        }
    }
}

impl Writer {
    /// Appends a row group; they must come in the order of their chunks. Returns the bytes written.
    pub(super) fn append(&mut self, row_group: RowGroup) -> io::Result<u64> {
        if let Some(failure) = self.failure {
            return Err(io::Error::from_raw_os_error(failure));
        }
        let before = self.file.bytes_written();
        if row_group.rows > 0 {
            let appended = self.append_rows(row_group).map_err(into_io);
            self.failure = appended.as_ref().err().and_then(io::Error::raw_os_error);
            appended?;
        }
        Ok((self.file.bytes_written() - before) as u64)
    }

    fn append_rows(&mut self, row_group: RowGroup) -> Result<(), ParquetError> {
        let mut writer = self.file.next_row_group()?;
        for column in row_group.columns {
            column.append_to_row_group(&mut writer)?;
        }
        writer.close()?;
        Ok(())
    }

    /// Writes the footer and hands back the file.
    pub(super) fn finish(self) -> io::Result<File> {
        let buffered = self.file.into_inner().map_err(into_io)?;
        buffered.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

fn schema(table: Table) -> SchemaRef {
    match table {
        Table::Region => RegionArrow::schema_ref(),
        Table::Nation => NationArrow::schema_ref(),
        Table::Supplier => SupplierArrow::schema_ref(),
        Table::Customer => CustomerArrow::schema_ref(),
        Table::Part => PartArrow::schema_ref(),
        Table::Partsupp => PartSuppArrow::schema_ref(),
        Table::Orders => OrderArrow::schema_ref(),
        Table::Lineitem => LineItemArrow::schema_ref(),
    }
}

/// The rows of a batch that belong to the chunk. The first column is the key, and ascends.
fn rows_of_chunk(batch: &RecordBatch, chunk: &Chunk) -> RecordBatch {
    let keys = batch.column(0).as_primitive::<Int64Type>().values();
    let first = keys.partition_point(|key| *key < chunk.first_key);
    let end = keys.partition_point(|key| *key <= chunk.last_key).max(first);
    batch.slice(first, end - first)
}

/// The operating system's error inside, if there is one: it names the cause ("no space left on device").
fn into_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}
