//! Rows of a columnar source as CSV: what a reject file keeps of a record that has no text of its own.
//!
//! The dialect is the one that Tipple reads by default (comma, double quote, NULL as an empty field), and every value
//! has the spelling that the target's column reads back, so the mended records can be loaded.

use super::text_form::{self, Spelling};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

/// Writes rows of the batches of one source.
#[derive(Debug, Clone)]
pub struct CsvRows {
    /// Per column: the type whose text is told, where it is not the column's, and how its values are spelled.
    pub(super) columns: Vec<(Option<DataType>, Spelling)>,
}

impl CsvRows {
    /// Appends a row of `batch`, its record end included. Bytes that are no text stand as they are.
    pub fn write(&self, batch: &RecordBatch, row: usize, out: &mut Vec<u8>) {
        for index in 0..batch.num_columns() {
            if index > 0 {
                out.push(b',');
            }
            if let Some(text) = self.value(batch, row, index) {
                quote(&text, out);
            }
        }
        out.push(b'\n');
    }

    /// The text of one value of `batch`; `None` for NULL.
    #[must_use]
    pub fn value(&self, batch: &RecordBatch, row: usize, column: usize) -> Option<Vec<u8>> {
        let (unpack, spelling) = &self.columns[column];
        text_of(batch.column(column), row, unpack.as_ref(), *spelling)
    }
}

/// The text of a value; `None` for NULL.
pub(super) fn text_of(array: &ArrayRef, row: usize, unpack: Option<&DataType>, spelling: Spelling) -> Option<Vec<u8>> {
    let value = array.slice(row, 1);
    let value = match unpack {
        Some(plain) => super::unpack::unpack(&value, plain).ok()?,
        None => value,
    };
    if value.is_null(0) || *value.data_type() == DataType::Null {
        return None;
    }
    Some(text_form::shown(value.as_ref(), 0, spelling))
}

/// Appends a field. An empty text is no NULL, and `\.` alone would end the data.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() || text[0] == b'\\' {
        put_in_quotes(text, out);
    } else {
        put_field(text, out);
    }
}

/// Appends a text as a field of a CSV file, in quotes where it needs them.
pub fn put_field(text: &[u8], out: &mut Vec<u8>) {
    if text.iter().any(|byte| b",\"\r\n".contains(byte)) {
        put_in_quotes(text, out);
    } else {
        out.extend_from_slice(text);
    }
}

fn put_in_quotes(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int32Array, StringArray};
    use arrow_schema::{Field, Schema};
    use std::sync::Arc;

    #[test]
    fn fields_are_read_back_as_what_they_are() {
        let texts = StringArray::from(vec![Some("a,\"b\"\nc"), Some(""), None, Some("\\."), Some("plain")]);
        let schema = Schema::new(vec![Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8, true)]);
        let numbers = Int32Array::from(vec![Some(1), None, Some(-3), Some(4), Some(5)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(numbers), Arc::new(texts)]).expect("a batch");
        let spelling = Spelling { nanoseconds: true, ..Spelling::default() };
        let rows = CsvRows { columns: vec![(None, spelling); 2] };
        let mut out = Vec::new();
        for row in 0..5 {
            rows.write(&batch, row, &mut out);
        }
        assert_eq!(out, b"1,\"a,\"\"b\"\"\nc\"\n,\"\"\n-3,\n4,\"\\.\"\n5,plain\n");
    }
}
