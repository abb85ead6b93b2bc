//! Where to go on behind a quote that is missing or too many, where bad records are skipped.
//!
//! It takes lines with it: all up to the next such quote, or to the end of the source, are one record, and that has not
//! the fields that it should have. If the lines behind the first one look like records, only that one is rejected. A
//! long text whose last quote is missing does not look like that, and stays one reject.

use super::window::end_last_record;
use tipple_codec::dialect::{Dialect, Family};
use tipple_codec::scan::Scanner;
use tipple_codec::split::{self, State};

/// How much of what follows is looked at: enough for a few records, and little where many bad ones have several lines.
pub const SAMPLE_BYTES: usize = 16 * 1024;
/// How much is looked at first: most records are short.
const FIRST_SAMPLE_BYTES: usize = 1024;
/// How much behind a cut is looked at to tell whether it is inside quotes.
pub const LOOK_BYTES: usize = 256 * 1024;
/// So many records in a row are records, whatever comes behind them.
const ENOUGH: usize = 4;

/// What the beginning of a text is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The record that it seems to be.
    Record,
    /// A line of so many bytes, in which a quote is missing or too many.
    Line(usize),
    /// That is known when more is read.
    Unknown,
}

/// Takes records one by one, for what they are taken for where they are read window by window.
#[derive(Debug)]
pub struct Taker {
    dialect: Dialect,
    columns: usize,
    scanner: Scanner,
}

impl Taker {
    /// What takes records of so many columns.
    #[must_use]
    pub fn new(dialect: &Dialect, columns: usize) -> Self {
        Self { dialect: dialect.clone(), columns, scanner: Scanner::new(dialect.clone(), columns) }
    }

    /// What `text` begins with, which seems to be a record of so many bytes; `is_all`: nothing follows the text.
    pub fn take(&mut self, text: &[u8], record_bytes: usize, is_all: bool) -> Taken {
        let line_end = self.dialect.line_end.bytes();
        let first = memchr::memmem::find(text, line_end).map_or(record_bytes, |at| at + line_end.len());
        if first >= record_bytes {
            return Taken::Record;
        }
        let record = &text[..record_bytes];
        let is_regular = self.scanner.scan(record).rows() == 1;
        // Where the end of a stray quote is so far away, it is not looked for.
        let is_far = record_bytes > LOOK_BYTES && has_stray_quote(&text[..first], &self.dialect);
        if is_regular && !is_far {
            return Taken::Record;
        }
        if !is_all && text.len() <= first + SAMPLE_BYTES {
            return Taken::Unknown;
        }
        self.line(text, record_bytes, is_all)
    }

    /// The same of a text that is long, and in which the record does not end.
    pub fn take_endless(&mut self, text: &[u8]) -> Taken {
        let line_end = self.dialect.line_end.bytes();
        let first = memchr::memmem::find(text, line_end).unwrap_or(text.len());
        if has_stray_quote(&text[..first], &self.dialect) { self.line(text, text.len(), false) } else { Taken::Record }
    }

    /// The same of a text that nothing follows, and in which the record has no end.
    pub fn take_last(&mut self, text: &[u8]) -> Taken {
        let mut text = text.to_vec();
        end_last_record(&mut text, self.dialect.line_end.bytes(), false);
        let record_bytes = split::first_record(&text, State::Outside, &self.dialect);
        self.take(&text, record_bytes.unwrap_or(text.len()), true)
    }

    fn line(&self, text: &[u8], record_bytes: usize, is_all: bool) -> Taken {
        line_of_unclosed(&self.dialect, self.columns, text, record_bytes, is_all).map_or(Taken::Record, Taken::Line)
    }
}

/// How the quotes of a record stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// Each opens at the beginning of a field, and is closed at its end.
    Well,
    /// So does each, but that the last one is not closed.
    Unclosed,
    /// One stands elsewhere.
    Misplaced,
}

fn quoting(record: &[u8], dialect: &Dialect) -> Quoting {
    let Dialect { quote, escape, delimiter, .. } = *dialect;
    let mut begins_field = true;
    let mut at = 0;
    while let Some(&byte) = record.get(at) {
        at += 1;
        if byte != quote {
            begins_field = byte == delimiter;
            continue;
        }
        if !begins_field {
            return Quoting::Misplaced;
        }
        loop {
            match (record.get(at).copied(), record.get(at + 1).copied()) {
                (None, _) => return Quoting::Unclosed,
                (Some(byte), Some(next)) if byte == escape && (next == quote || next == escape) => at += 2,
                (Some(byte), _) if byte == quote => break,
                _ => at += 1,
            }
        }
        at += 1;
        begins_field = false;
        if record.get(at).is_some_and(|&next| next != delimiter && next != b'\n' && next != b'\r') {
            return Quoting::Misplaced;
        }
    }
    Quoting::Well
}

/// Whether a line has a quote where none belongs. What such a one opens is no text of several lines.
#[must_use]
pub fn has_stray_quote(line: &[u8], dialect: &Dialect) -> bool {
    quoting(line, dialect) == Quoting::Misplaced
}

/// The length of the first line of a bad record of several lines, where those behind it look like records of so many
/// columns.
///
/// `text` begins with the record, whose length is `record_bytes`, and goes on with what follows; `is_all`: to the end.
#[must_use]
pub fn line_of_unclosed(
    dialect: &Dialect,
    columns: usize,
    text: &[u8],
    record_bytes: usize,
    is_all: bool,
) -> Option<usize> {
    if dialect.family != Family::Csv {
        return None;
    }
    let line_end = dialect.line_end.bytes();
    // All of a line end: a newline alone may well be a value's, where records end with CRLF.
    let first = memchr::memmem::find(text, line_end)? + line_end.len();
    // A record whose quotes are where they belong is what it seems to be, however its lines may look by themselves.
    if first >= record_bytes || quoting(&text[..record_bytes], dialect) == Quoting::Well {
        return None;
    }
    look_like_records(dialect, columns, &text[first..], is_all).then_some(first)
}

/// Whether what `text` begins with looks like records of so many columns; `is_all`: nothing follows it.
#[must_use]
pub fn look_like_records(dialect: &Dialect, columns: usize, text: &[u8], is_all: bool) -> bool {
    // Every line looks like a record of one field.
    if dialect.fields(columns) < 2 {
        return false;
    }
    let mut scanner = Scanner::new(dialect.clone(), columns);
    if scanner.scan(&text[..text.len().min(FIRST_SAMPLE_BYTES)]).rows() >= ENOUGH {
        return true;
    }
    let line_end = dialect.line_end.bytes();
    let mut sample = text[..text.len().min(SAMPLE_BYTES)].to_vec();
    let is_all = is_all && sample.len() == text.len();
    if is_all && !sample.ends_with(line_end) {
        sample.extend_from_slice(line_end);
    }
    let records = scanner.scan(&sample);
    let all_are_regular = is_all && records.irregular.is_none() && records.consumed == sample.len();
    records.rows() >= ENOUGH || (records.rows() > 0 && all_are_regular)
}

/// Whether text that seems to begin with a record begins inside quotes: gives the length of what is inside.
#[must_use]
pub fn length_inside(dialect: &Dialect, columns: usize, text: &[u8]) -> Option<usize> {
    let length = split::first_record(text, State::Inside, dialect)?;
    is_inside_out(dialect, columns, text, &text[length..]).then_some(length)
}

/// Whether `text` begins inside quotes and `other` with a record, one of which is so.
///
/// Quotes tell that by where they stand; but they may be meant where they stand oddly. So more of `other` has to be
/// records of so many columns, from its beginning on, and little of `text`.
#[must_use]
pub fn is_inside_out(dialect: &Dialect, columns: usize, text: &[u8], other: &[u8]) -> bool {
    // Everything is a record of one field.
    if dialect.fields(columns) < 2 || !split::begins_inside(text, dialect) || split::begins_inside(other, dialect) {
        return false;
    }
    let mut scanner = Scanner::new(dialect.clone(), columns);
    let of_text = scanner.scan(text).consumed;
    scanner.scan(other).consumed > of_text && of_text <= text.len() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_belong_around_fields() {
        let doubled = Dialect::csv();
        let escaped = Dialect { escape: b'\\', ..doubled.clone() };
        for (record, well) in [
            ("a,b\n", true),
            ("", true),
            ("\"\"\n", true),
            ("a,\"b\nc\",d\n", true),
            ("\"a\"\"b\",\"\"\"\"\r\n", true),
            ("a,b\"c\nd\"\n", false),
            ("a,\"b\nc,\"d\",e\n", false),
            ("a,\"b\n", false),
            ("a, \"b\"\n", false),
        ] {
            assert_eq!(quoting(record.as_bytes(), &doubled) == Quoting::Well, well, "{record}");
        }
        for (record, well) in [("a,\"b\\\"c\",d\n", true), ("a,\"b\\\\\",d\n", true), ("a,\"b\"\"c\"\n", false)] {
            assert_eq!(quoting(record.as_bytes(), &escaped) == Quoting::Well, well, "{record}");
        }
        for (line, stray) in [
            ("a,b\n", false),
            ("a,\"b\",c\n", false),
            ("a,\"b\n", false),
            ("a,b\"\n", true),
            ("a,\"b\"c,d\n", true),
            ("a, \"b\n", true),
        ] {
            assert_eq!(has_stray_quote(line.as_bytes(), &doubled), stray, "{line}");
        }
    }
}
