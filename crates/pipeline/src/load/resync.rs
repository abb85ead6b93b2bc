//! Where to go on behind a quote that is missing or too many, where bad records are skipped.
//!
//! It takes lines with it: all up to the next such quote, or to the end of the source, are one record, and that has not
//! the fields that it should have. If the lines behind the first one look like records, only that one is rejected. A
//! long text whose last quote is missing does not look like that, and stays one reject.

use super::Context;
use tipple_codec::dialect::Family;
use tipple_codec::scan::Scanner;

/// How much of what follows is looked at: enough for a few records, and little where many bad ones have several lines.
const SAMPLE_BYTES: usize = 16 * 1024;
/// So many records in a row are records, whatever comes behind them.
const ENOUGH: usize = 4;

impl Context<'_> {
    /// The length of the first line of a bad record of several lines, where those behind it look like records.
    ///
    /// `text` begins with the record, whose length is `record_bytes`, and goes on with what follows; `is_all`: to the end.
    pub(super) fn line_of_unclosed(&self, text: &[u8], record_bytes: usize, is_all: bool) -> Option<usize> {
        let (dialect, columns) = (&self.plan.dialect, self.plan.columns.len());
        // Every line looks like a record of one field.
        if dialect.family != Family::Csv || columns < 2 {
            return None;
        }
        let line_end = dialect.line_end.bytes();
        // All of a line end: a newline alone may well be a value's, where records end with CRLF.
        let first = memchr::memmem::find(text, line_end)? + line_end.len();
        if first >= record_bytes {
            return None;
        }
        let mut sample = text[first..text.len().min(first + SAMPLE_BYTES)].to_vec();
        let is_all = is_all && first + sample.len() == text.len();
        if is_all && !sample.ends_with(line_end) {
            sample.extend_from_slice(line_end);
        }
        let mut scanner = Scanner::new(dialect.clone(), columns);
        let records = scanner.scan(&sample);
        let all_are_regular = is_all && records.irregular.is_none() && records.consumed == sample.len();
        (records.rows() >= ENOUGH || (records.rows() > 0 && all_are_regular)).then_some(first)
    }
}
