//! The slow, obvious reader of records that the fast ones are compared with: one byte after the other, as COPY's
//! `CopyReadLineText` and `CopyReadAttributesCSV`/`Text` go, with no list, no blocks and no masks.

use super::{IrregularRecord, Irregularity};
use crate::dialect::{Dialect, Family, LineEnd};
use proptest::prelude::*;

/// What the reference finds in a window.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Per regular record its fields: bytes, and whether they hold a quote or an escape.
    pub(crate) records: Vec<Vec<(Vec<u8>, bool)>>,
    /// Where each of them begins.
    pub(crate) starts: Vec<usize>,
    /// Bytes that they take.
    pub(crate) consumed: usize,
    /// The record after them.
    pub(crate) irregular: Option<IrregularRecord>,
}

/// One record as it stands, regular or not.
pub(crate) struct Record {
    /// The bytes between the delimiters, and whether they hold a quote or an escape.
    pub(crate) pieces: Vec<(Vec<u8>, bool)>,
    /// Past its record end; `None` where the text ends before.
    pub(crate) end: Option<usize>,
    /// What makes it irregular whatever its fields, and where.
    fault: Option<(usize, Irregularity)>,
}

/// Reads the record that begins at `start`.
pub(crate) fn record(text: &[u8], start: usize, dialect: &Dialect) -> Record {
    let at = |position: usize| text.get(position).copied();
    let mut record = Record { pieces: Vec::new(), end: None, fault: None };
    let (mut piece, mut marked, mut in_quote) = (Vec::new(), false, false);
    let mut position = start;
    while let Some(byte) = at(position) {
        let next = at(position + 1);
        let mut take = 1;
        if dialect.family == Family::Csv && in_quote {
            let escapes = byte == dialect.escape && dialect.escape != dialect.quote;
            if escapes && (next == Some(dialect.quote) || next == Some(dialect.escape)) {
                take = 2;
            } else if byte == dialect.quote {
                in_quote = false;
            }
        } else if dialect.family == Family::Csv && byte == dialect.quote {
            in_quote = true;
            marked = true;
        } else if dialect.family == Family::Text && byte == b'\\' {
            marked = true;
            take = 2;
            if next == Some(b'.') {
                record.fault.get_or_insert((position, Irregularity::EndMarker));
            }
            if dialect.line_end == LineEnd::Crlf && next == Some(b'\r') && at(position + 2) == Some(b'\n') {
                record.fault.get_or_insert((position + 2, Irregularity::MixedLineEnds));
            }
        } else if byte == dialect.delimiter {
            record.pieces.push((std::mem::take(&mut piece), std::mem::take(&mut marked)));
            position += 1;
            continue;
        } else if byte == b'\n' || byte == b'\r' {
            let (ends, mixed) = match (dialect.line_end, byte) {
                (LineEnd::Lf, b'\n') | (LineEnd::Cr, b'\r') => (true, false),
                (LineEnd::Crlf, b'\r') if next == Some(b'\n') => {
                    record.pieces.push((piece, marked));
                    record.end = Some(position + 2);
                    return record;
                }
                // The other half may still come.
                (LineEnd::Crlf, b'\r') => (false, next.is_some()),
                (LineEnd::Crlf, _) => (true, true),
                _ => (false, true),
            };
            if mixed {
                record.fault.get_or_insert((position, Irregularity::MixedLineEnds));
            }
            if ends {
                record.pieces.push((piece, marked));
                record.end = Some(position + 1);
                return record;
            }
        }
        piece.extend((position..position + take).filter_map(at));
        position += take;
    }
    record
}

/// Reads whole records of `fields` fields from the beginning of `text`, up to the first irregular one.
pub(crate) fn read(text: &[u8], dialect: &Dialect, fields: usize) -> Found {
    let mut found = Found::default();
    loop {
        let start = found.consumed;
        let Record { mut pieces, end, fault } = record(text, start, dialect);
        let complete = end.is_some();
        let irregular = |end, what| Some(IrregularRecord { start, end, what, complete });
        if let Some((position, what)) = fault {
            found.irregular = irregular(end.unwrap_or(position + 1), what);
            return found;
        }
        let Some(end) = end else { return found };
        let mut trails = true;
        if dialect.trailing_delimiter {
            trails = pieces.len() > 1 && pieces[pieces.len() - 1].0.is_empty();
            if trails {
                pieces.pop();
            }
        }
        if pieces.len() < fields || (pieces.len() == fields && !trails) {
            found.irregular = irregular(end, Irregularity::MissingFields { found: pieces.len() });
            return found;
        }
        if pieces.len() > fields {
            found.irregular = irregular(end, Irregularity::ExtraFields { found: pieces.len() });
            return found;
        }
        found.records.push(pieces);
        found.starts.push(start);
        found.consumed = end;
    }
}

/// Where records begin in `text`, whatever their structure, the end behind the last whole one included.
pub(crate) fn starts(text: &[u8], dialect: &Dialect) -> Vec<usize> {
    let mut starts = vec![0];
    while let Some(end) = record(text, starts[starts.len() - 1], dialect).end {
        starts.push(end);
    }
    starts
}

/// Every kind of dialect with every record end.
pub(crate) fn dialects() -> Vec<Dialect> {
    let kinds = [
        Dialect::csv(),
        Dialect { escape: b'\\', ..Dialect::csv() },
        Dialect { quote: b'\'', delimiter: b';', ..Dialect::csv() },
        Dialect { trailing_delimiter: true, delimiter: b'|', ..Dialect::csv() },
        Dialect::text(),
        Dialect { delimiter: b',', ..Dialect::text() },
        Dialect::tbl(),
        Dialect { trailing_delimiter: false, ..Dialect::tbl() },
    ];
    let ends = [LineEnd::Lf, LineEnd::Crlf, LineEnd::Cr];
    kinds.iter().flat_map(|kind| ends.map(|line_end| Dialect { line_end, ..kind.clone() })).collect()
}

/// One of [`dialects`].
pub(crate) fn any_dialect() -> impl Strategy<Value = Dialect> {
    proptest::sample::select(dialects())
}

/// Text of a few bytes that mean something, as it comes: mostly broken records.
pub(crate) fn noise(dialect: &Dialect, tokens: usize) -> impl Strategy<Value = Vec<u8>> + use<> {
    let special = [dialect.delimiter, dialect.quote, dialect.escape, b'\\', b'\n', b'\r', b'.'];
    let mut alphabet: Vec<Vec<u8>> = special.iter().map(|&byte| vec![byte]).collect();
    alphabet.extend([b"a".to_vec(), "é".into(), "𝄞".into(), b"aaaaaaaaaaaaaaaaaaaaaaaaaa".to_vec()]);
    alphabet.extend(std::iter::repeat_n(dialect.line_end.bytes().to_vec(), 2));
    proptest::collection::vec(proptest::sample::select(alphabet), 0..=tokens).prop_map(|tokens| tokens.concat())
}

/// Well-written records of `fields` fields, some quoted or escaped.
pub(crate) fn records(dialect: &Dialect, fields: usize, count: usize) -> impl Strategy<Value = Vec<u8>> + use<> {
    let dialect = dialect.clone();
    let plain = "[aé ]{0,9}";
    let special = "[aé,;|\"'\\\\\t\r\n]{0,5}";
    let field = prop_oneof![4 => plain.prop_map(|text| (text, false)), 1 => special.prop_map(|text| (text, true))];
    proptest::collection::vec(proptest::collection::vec(field, fields), 0..=count).prop_map(move |rows| {
        let mut text = Vec::new();
        for row in rows {
            for (index, (field, special)) in row.iter().enumerate() {
                if index > 0 {
                    text.push(dialect.delimiter);
                }
                if *special { protect(field.as_bytes(), &dialect, &mut text) } else { text.extend(field.as_bytes()) }
            }
            if dialect.trailing_delimiter {
                text.push(dialect.delimiter);
            }
            text.extend(dialect.line_end.bytes());
        }
        text
    })
}

/// Writes a field as its dialect protects it; where it cannot, without the bytes that need it.
fn protect(field: &[u8], dialect: &Dialect, text: &mut Vec<u8>) {
    match dialect.family {
        Family::Csv => {
            text.push(dialect.quote);
            for &byte in field {
                if byte == dialect.quote || byte == dialect.escape {
                    text.push(dialect.escape);
                }
                text.push(byte);
            }
            text.push(dialect.quote);
        }
        Family::Text => {
            for (index, &byte) in field.iter().enumerate() {
                // A newline behind a literal carriage return would be half a record end.
                if byte == b'\n' && index > 0 && field[index - 1] == b'\r' {
                    continue;
                }
                text.extend([b'\\', byte].iter().skip(usize::from(byte >= 0x80)));
            }
        }
        Family::Plain | Family::Fixed => {
            text.extend(field.iter().filter(|&&byte| byte != dialect.delimiter && byte != b'\n' && byte != b'\r'));
        }
    }
}
