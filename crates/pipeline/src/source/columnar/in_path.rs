//! Columns whose values stand in the names of a file's directories, as in `day=2024-01-31/part-0.parquet`: one value for
//! all rows of the file, read as a text would be.

use crate::plan::PathColumn;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, new_null_array};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use std::sync::Arc;

/// A file's own fields, and those of its path behind them.
pub(super) fn with_path_columns(own: &SchemaRef, columns: &[PathColumn]) -> SchemaRef {
    if columns.is_empty() {
        return own.clone();
    }
    let in_path = columns.iter().map(|PathColumn(name, _)| Arc::new(Field::new(name, DataType::Utf8, true)));
    let fields: Fields = own.fields().iter().cloned().chain(in_path).collect();
    Arc::new(Schema::new(fields))
}

/// Where a column of a wanted batch comes from.
enum Place {
    /// A column of the batch that is read.
    Own(usize),
    /// The path's value.
    Path(Option<String>),
}

/// The fields that are wanted of a file: what is read of it, and how that and the values of its path make a batch.
pub(super) struct Arrangement {
    /// Indices of the file's own fields.
    pub(super) own: Vec<usize>,
    /// By wanted field.
    places: Vec<Place>,
    schema: SchemaRef,
}

impl Arrangement {
    /// For `projection`, which has indices in `schema` ([`with_path_columns`]); `None` where the file has it all.
    pub(super) fn new(projection: &[usize], schema: &SchemaRef, columns: &[PathColumn]) -> Option<Self> {
        let of_file = schema.fields().len() - columns.len();
        if projection.iter().all(|&index| index < of_file) {
            return None;
        }
        let mut own = Vec::new();
        let mut place = |index: usize| {
            if index >= of_file {
                return Place::Path(columns[index - of_file].1.clone());
            }
            own.push(index);
            Place::Own(own.len() - 1)
        };
        let places = projection.iter().map(|&index| place(index)).collect();
        // Something has to be read to know how many rows there are.
        if own.is_empty() && of_file > 0 {
            own.push(0);
        }
        let fields: Fields = projection.iter().map(|&index| schema.fields()[index].clone()).collect();
        Some(Self { own, places, schema: Arc::new(Schema::new(fields)) })
    }

    /// The batch that is wanted, from one of the file's own fields.
    pub(super) fn batch(&self, own: &RecordBatch) -> RecordBatch {
        let rows = own.num_rows();
        let column = |place: &Place| -> ArrayRef {
            match place {
                Place::Own(index) => own.column(*index).clone(),
                Place::Path(Some(value)) => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows))),
                Place::Path(None) => new_null_array(&DataType::Utf8, rows),
            }
        };
        let columns = self.places.iter().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .expect("columns have the types of their fields, and a row for each of the file's")
    }
}
