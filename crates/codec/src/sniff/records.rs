//! Reads the records of a sample with any number of fields: what the scanner does for records whose number of fields
//! is known, from one byte that means something to the next. Meant for a few megabytes, not for loading.

use crate::dialect::{Dialect, Family, LineEnd};

/// One field as it stands in the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// A sample is much shorter than 4 GiB.
    start: u32,
    end: u32,
    /// Whether quotes or escapes have to be decoded.
    pub(super) marked: bool,
}

impl Span {
    fn new(start: usize, end: usize, marked: bool) -> Self {
        Self { start: start as u32, end: end as u32, marked }
    }

    /// Its bytes.
    pub(super) fn of<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start as usize..self.end as usize]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// What was met while reading, beside fields.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quotes {
    /// Quotes that open in the middle of a field, or close before its end.
    pub(super) stray: usize,
    /// Fields that begin with a quote that opens, or with spaces before one.
    pub(super) opened: usize,
    /// Those of them whose quote closes at the end of the field.
    pub(super) enclosed: usize,
}

/// Where reading a record came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Behind the record end.
    Record(usize),
    /// The text ends before the record does; `true` inside quotes.
    Text(bool),
}

/// Reads records of one dialect.
pub(super) struct Reader<'d> {
    dialect: &'d Dialect,
    /// Whether a byte means anything outside quotes.
    stops: [bool; 256],
}

impl<'d> Reader<'d> {
    pub(super) fn new(dialect: &'d Dialect) -> Self {
        let mut stops = [false; 256];
        let marker = match dialect.family {
            Family::Csv => Some(dialect.quote),
            Family::Text => Some(b'\\'),
            Family::Plain | Family::Fixed => None,
        };
        for byte in [Some(dialect.delimiter), Some(dialect.line_end.last_byte()), marker].into_iter().flatten() {
            stops[usize::from(byte)] = true;
        }
        Self { dialect, stops }
    }

    pub(super) fn dialect(&self) -> &'d Dialect {
        self.dialect
    }

    /// Past the end of the record in whose middle `text` begins, inside a quoted field or outside.
    pub(super) fn behind_record(&self, text: &[u8], in_quote: bool) -> usize {
        match self.read(text, 0, in_quote, &mut Vec::new(), &mut Quotes::default()) {
            End::Record(next) => next,
            End::Text(_) => text.len(),
        }
    }

    /// Reads the record that begins at `start`, and adds its fields to `fields`; `in_quote` says that it begins inside a
    /// quoted field.
    pub(super) fn read(
        &self,
        text: &[u8],
        start: usize,
        mut in_quote: bool,
        fields: &mut Vec<Span>,
        quotes: &mut Quotes,
    ) -> End {
        let dialect = self.dialect;
        let mut field_start = start;
        let mut marked = in_quote;
        // Whether all that the field has so far is in one pair of quotes.
        let mut enclosed = false;
        let mut position = start;
        let last_byte = dialect.line_end.last_byte();
        let cut = usize::from(dialect.line_end == LineEnd::Crlf);
        loop {
            if in_quote && dialect.family == Family::Csv {
                let Some(skipped) = memchr::memchr2(dialect.quote, dialect.escape, &text[position..]) else { break };
                position += skipped;
                if dialect.is_escape_pair(text, position) {
                    position += 2;
                    continue;
                }
                if text[position] == dialect.quote {
                    if dialect.escape == dialect.quote && text.get(position + 1) == Some(&dialect.quote) {
                        position += 2;
                        continue;
                    }
                    in_quote = false;
                    let ends = ends_field(text, position + 1, dialect);
                    quotes.enclosed += usize::from(enclosed && ends);
                    quotes.stray += usize::from(!ends);
                }
                position += 1;
                continue;
            }
            let rest = text.get(position..).unwrap_or_default();
            let Some(skipped) = rest.iter().position(|&byte| self.stops[usize::from(byte)]) else { break };
            position += skipped;
            let byte = text[position];
            match dialect.family {
                Family::Csv if byte == dialect.quote => {
                    in_quote = true;
                    marked = true;
                    // COPY keeps spaces before a quote, and writers of such files mean the quote all the same.
                    enclosed = text[field_start..position].iter().all(|&byte| byte == b' ');
                    if enclosed {
                        quotes.opened += 1;
                    } else {
                        quotes.stray += 1;
                    }
                    position += 1;
                    continue;
                }
                Family::Text if byte == b'\\' => {
                    marked = true;
                    position += 2;
                    continue;
                }
                _ => {}
            }
            if byte == dialect.delimiter {
                fields.push(Span::new(field_start, position, marked));
                field_start = position + 1;
                marked = false;
            } else if byte == last_byte && (cut == 0 || (position > start && text[position - 1] == b'\r')) {
                fields.push(Span::new(field_start, position - cut, marked));
                return End::Record(position + 1);
            }
            position += 1;
        }
        fields.push(Span::new(field_start, text.len(), marked));
        End::Text(in_quote)
    }
}

fn ends_field(text: &[u8], position: usize, dialect: &Dialect) -> bool {
    text.get(position).is_none_or(|&byte| byte == dialect.delimiter || matches!(byte, b'\n' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, dialect: &Dialect, in_quote: bool) -> (Vec<String>, End, Quotes) {
        let (mut fields, mut quotes) = (Vec::new(), Quotes::default());
        let end = Reader::new(dialect).read(text.as_bytes(), 0, in_quote, &mut fields, &mut quotes);
        (
            fields.iter().map(|field| String::from_utf8_lossy(field.of(text.as_bytes())).into_owned()).collect(),
            end,
            quotes,
        )
    }

    #[test]
    fn csv() {
        let csv = Dialect::csv();
        let (fields, end, quotes) = read("a,\"b,\"\"\nc\",d\nx", &csv, false);
        assert_eq!(fields, ["a", "\"b,\"\"\nc\"", "d"]);
        assert_eq!((end, quotes), (End::Record(13), Quotes { stray: 0, opened: 1, enclosed: 1 }));
        let (fields, end, quotes) = read("5\" pipe,\"x\"y\n", &csv, false);
        assert_eq!(fields.len(), 1);
        assert_eq!(end, End::Text(true));
        assert!(quotes.stray > 0);
        assert_eq!(quotes.enclosed, 0);
        assert_eq!(read("b\",c\n", &csv, true).0, ["b\"", "c"]);
    }

    #[test]
    fn line_ends() {
        let crlf = Dialect { line_end: LineEnd::Crlf, ..Dialect::csv() };
        assert_eq!(read("a,b\r\nc", &crlf, false).0, ["a", "b"]);
        assert_eq!(read("\r\nc", &crlf, false), (vec![String::new()], End::Record(2), Quotes::default()));
        assert_eq!(read("a,\r\n", &crlf, false).0, ["a", ""]);
        assert_eq!(read("a,b\nc\r\n", &crlf, false).0, ["a", "b\nc"]);
        assert_eq!(read("\n\r\n", &crlf, false).0, ["\n"]);
        let cr = Dialect { line_end: LineEnd::Cr, ..Dialect::csv() };
        assert_eq!(read("a,b\rc", &cr, false).0, ["a", "b"]);
    }

    #[test]
    fn text_and_plain() {
        assert_eq!(read("a\\\tb\t\\\nc\n", &Dialect::text(), false).0, ["a\\\tb", "\\\nc"]);
        assert_eq!(read("a|\"b|\nc", &Dialect::tbl(), false).0, ["a", "\"b", ""]);
        assert_eq!(read("a\\", &Dialect::text(), false).1, End::Text(false));
    }
}
