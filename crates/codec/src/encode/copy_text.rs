//! Records as PostgreSQL's COPY text format: the decoded fields again, with the format's own escapes.
//!
//! The way for values that only the server can read: it gets the field's text and judges it by its own input
//! functions. Because the fields were found and decoded by the same code, a file means the same rows and NULLs on
//! this path as on any other.

use super::Encoded;
use super::text_check::TextCheck;
use crate::column::Column;
use crate::decode::Decoder;
use crate::dialect::Dialect;
use crate::problem::Problem;
use crate::scan::Records;
use crate::value::Refusal;

/// Encodes the records of one stream.
#[derive(Debug)]
pub struct CopyTextEncoder {
    columns: Vec<Column>,
    decoder: Decoder,
    dialect: Dialect,
}

impl CopyTextEncoder {
    /// An encoder for `columns`.
    #[must_use]
    pub fn new(columns: Vec<Column>, dialect: Dialect) -> Self {
        Self { columns, decoder: Decoder::new(dialect.clone()), dialect }
    }

    /// Appends the records to `out`, up to the first that cannot be stored.
    pub fn encode(&mut self, records: &Records<'_>, out: &mut Vec<u8>) -> Encoded {
        self.encode_unless(records, out, |_| false)
    }

    /// Appends the records to `out`, without those that cannot be stored and that `skip` takes; stops at the first
    /// that it does not take. [`Encoded::rows`] counts the skipped ones too.
    pub fn encode_unless(
        &mut self,
        records: &Records<'_>,
        out: &mut Vec<u8>,
        mut skip: impl FnMut(&Problem) -> bool,
    ) -> Encoded {
        let check = TextCheck::of(records, self.dialect.family);
        'records: for row in 0..records.rows() {
            let begin = out.len();
            for (index, column) in self.columns.iter().enumerate() {
                if index > 0 {
                    out.push(b'\t');
                }
                let field = records.field(row, index);
                let outcome = match self.decoder.decode(field, index) {
                    None if column.not_null => Err(Refusal::NullNotAllowed),
                    None => {
                        out.extend_from_slice(b"\\N");
                        Ok(())
                    }
                    Some(text) => check.check(field, text).map(|()| escape(text, out)),
                };
                if let Err(refusal) = outcome {
                    out.truncate(begin);
                    let problem = Problem::value(records, row, index, refusal);
                    if skip(&problem) {
                        continue 'records;
                    }
                    return Encoded { rows: row, problem: Some(problem) };
                }
            }
            out.push(b'\n');
        }
        Encoded { rows: records.rows(), problem: Problem::structure(records) }
    }
}

/// Where each of the records in `bytes`, as [`CopyTextEncoder`] makes them, ends: a newline in a value is escaped.
#[must_use]
pub fn row_ends(bytes: &[u8]) -> Vec<usize> {
    memchr::memchr_iter(b'\n', bytes).map(|position| position + 1).collect()
}

/// Appends `text` so that COPY reads the same text back.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => out.push(byte),
        }
    }
}
