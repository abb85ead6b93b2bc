//! The rows of a spool as Arrow batches, for engines that take those.

use super::row::{Body, Head};
use super::spool::Rows;
use arrow_array::builder::{Int32Builder, Int64Builder, LargeBinaryBuilder, StringBuilder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::path::PathBuf;
use std::sync::Arc;
use std::{io, vec};

/// A batch has at most so many rows ...
const MOST_ROWS: usize = 2048;
/// ... and its records so many bytes, but for the last one.
const MOST_BYTES: usize = 1 << 20;

/// The rows of files, one after the other, in the order that they were written.
#[derive(Debug)]
pub struct Batches {
    schema: SchemaRef,
    files: vec::IntoIter<PathBuf>,
    open: Option<Rows>,
}

impl Batches {
    /// Of these files. Columns: `n`, `source`, `byte_offset`, `record_index`, `column_name`, `reason`, `sqlstate` and
    /// `record`, as the ledger has them.
    #[must_use]
    pub fn new(files: Vec<PathBuf>) -> Self {
        let fields = [
            ("n", DataType::Int32),
            ("source", DataType::Int32),
            ("byte_offset", DataType::Int64),
            ("record_index", DataType::Int64),
            ("column_name", DataType::Utf8),
            ("reason", DataType::Utf8),
            ("sqlstate", DataType::Utf8),
            ("record", DataType::LargeBinary),
        ];
        let fields: Vec<_> = fields.into_iter().map(|(name, form)| Field::new(name, form, true)).collect();
        Self { schema: Arc::new(Schema::new(fields)), files: files.into_iter(), open: None }
    }

    /// As a stream of the C data interface.
    #[must_use]
    pub fn stream(self) -> FFI_ArrowArrayStream {
        FFI_ArrowArrayStream::new(Box::new(self))
    }

    /// Where the next reject's record is; `None` after the last one.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub fn next_place(&mut self) -> io::Result<Option<Head>> {
        self.next_of(Rows::pass)
    }

    fn next_of<T>(&mut self, next: impl Fn(&mut Rows) -> io::Result<Option<T>>) -> io::Result<Option<T>> {
        loop {
            if let Some(rows) = &mut self.open
                && let Some(found) = next(rows)?
            {
                return Ok(Some(found));
            }
            let Some(path) = self.files.next() else { return Ok(None) };
            self.open = Some(Rows::open(&path)?);
        }
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let (mut n, mut source) = (Int32Builder::new(), Int32Builder::new());
        let (mut offset, mut index) = (Int64Builder::new(), Int64Builder::new());
        let [mut column, mut reason, mut sqlstate] = [StringBuilder::new(), StringBuilder::new(), StringBuilder::new()];
        let mut record = LargeBinaryBuilder::new();
        let (mut rows, mut bytes) = (0, 0);
        while rows < MOST_ROWS && bytes < MOST_BYTES {
            let Some((head, body)) = self.next_of(Rows::read_next)? else { break };
            let Body { column: blamed, reason: why, sqlstate: state, record: text } = body;
            (rows, bytes) = (rows + 1, bytes + why.len() + text.len());
            n.append_value(head.slice.cast_signed());
            source.append_value(head.source as i32);
            offset.append_value(head.offset.cast_signed());
            index.append_value(head.index.cast_signed());
            column.append_option(blamed);
            reason.append_value(why);
            sqlstate.append_value(state);
            record.append_value(text);
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays: [ArrayRef; 8] = [
            Arc::new(n.finish()),
            Arc::new(source.finish()),
            Arc::new(offset.finish()),
            Arc::new(index.finish()),
            Arc::new(column.finish()),
            Arc::new(reason.finish()),
            Arc::new(sqlstate.finish()),
            Arc::new(record.finish()),
        ];
        RecordBatch::try_new(self.schema.clone(), arrays.into()).map(Some)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::copy::Place;
    use crate::rejects::row::{self, JobId};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    #[test]
    fn all_rows_of_all_files_come_in_batches() {
        let directory = tempfile::tempdir().unwrap();
        let count = MOST_ROWS as u64 + 7;
        let paths: Vec<_> = ["a", "empty", "b"].map(|name| directory.path().join(name)).into();
        for (number, path) in paths.iter().enumerate() {
            let mut rows = Vec::new();
            for offset in (0..count).filter(|_| number != 1) {
                let place = Place::uncounted(number, offset);
                let column = (offset % 2 == 0).then_some("c");
                row::write(&mut rows, (JobId([0; 16]), 5, place, offset), (column, "r", "22P02"), &[255]).unwrap();
            }
            std::fs::write(path, rows).unwrap();
        }
        let batches: Vec<_> = Batches::new(paths.clone()).collect::<Result<_, _>>().unwrap();
        assert!(batches.iter().all(|batch| batch.num_rows() <= MOST_ROWS));
        let offsets: Vec<i64> =
            batches.iter().flat_map(|it| it.column(2).as_primitive::<Int64Type>().values().to_vec()).collect();
        let expected: Vec<i64> = (0..count as i64).chain(0..count as i64).collect();
        assert_eq!(offsets, expected);
        let nulls: usize = batches.iter().map(|batch| batch.column(4).null_count()).sum();
        assert_eq!(nulls as u64, count / 2 * 2);
        assert!(batches.iter().all(|batch| batch.column(7).as_binary::<i64>().iter().all(|it| it == Some(&[255]))));
        let mut places = Batches::new(paths);
        let mut sources = 0;
        while let Some(head) = places.next_place().unwrap() {
            sources += head.source;
        }
        assert_eq!(sources as u64, 2 * count);
    }
}
