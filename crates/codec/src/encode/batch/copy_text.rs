//! Batches as PostgreSQL's COPY text format, for columns that only the server can read: it gets each value's text.

use super::conform::spelling;
use super::text_form::{self, Spelling};
use super::{BatchProblem, Unfit, strings};
use crate::column::Column;
use crate::encode::copy_text::escape;
use crate::value::Refusal;
use arrow_array::{Array, RecordBatch};
use arrow_schema::Field;
use std::sync::Arc;

/// Encodes the batches of one source file, conformed for [`super::conform::Taker::CopyText`].
#[derive(Debug)]
pub struct BatchTextEncoder {
    spellings: Vec<Spelling>,
    text: Vec<u8>,
}

impl BatchTextEncoder {
    /// From the fields of a source, one per target column.
    #[must_use]
    pub fn new(source: &[Arc<Field>], columns: &[Column], spellings: &[Spelling]) -> Self {
        let spell = |(index, (field, column)): (usize, (&Arc<Field>, &Column))| {
            spelling(field, &column.kind, spellings.get(index))
        };
        Self { spellings: source.iter().zip(columns).enumerate().map(spell).collect(), text: Vec::new() }
    }

    /// Appends rows from `first` on until `out` has `limit_bytes` or the batch ends; the row after the last.
    ///
    /// # Errors
    /// The first value that cannot be stored; `out` has the rows before it.
    pub fn encode(
        &mut self,
        batch: &RecordBatch,
        first: usize,
        limit_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, BatchProblem> {
        let mut row = first;
        while row < batch.num_rows() && out.len() < limit_bytes {
            let begin = out.len();
            let fail = |out: &mut Vec<u8>, column: usize, unfit: Unfit| {
                out.truncate(begin);
                BatchProblem { row, column, unfit }
            };
            for (index, (array, spelling)) in batch.columns().iter().zip(&self.spellings).enumerate() {
                if index > 0 {
                    out.push(b'\t');
                }
                if array.is_null(row) {
                    out.extend_from_slice(b"\\N");
                    continue;
                }
                self.text.clear();
                if let Err(loss) = text_form::write(array.as_ref(), row, *spelling, &mut self.text) {
                    return Err(fail(out, index, loss.into()));
                }
                // Bytes and what is nested were not checked before.
                if !strings::is_text(&self.text) {
                    return Err(fail(out, index, Refusal::InvalidEncoding.into()));
                }
                escape(&self.text, out);
            }
            out.push(b'\n');
            row += 1;
        }
        Ok(row)
    }
}
