//! Records whose fields have fixed widths: no bytes between them, a record end after the last.
//!
//! A width is in characters, because such files mostly come from single-byte encodings. The last field that a record
//! reaches may be short, since editors cut spaces off at line ends, and the last of all may be missing where the one before
//! it has its whole width; what stands behind the last field may be spaces.

use super::{IrregularRecord, Irregularity, MARKED};
use crate::dialect::{Dialect, LineEnd};

/// Writes the end of every field of the regular records that `window` begins with into `next`, behind a sentinel 0,
/// the last one behind the record end; every field is marked, so that its spaces are cut off when it is decoded.
///
/// Gives the number of records, and the record after them where it is irregular.
pub(super) fn flatten(window: &[u8], dialect: &Dialect, next: &mut Vec<u32>) -> (usize, Option<IrregularRecord>) {
    next.clear();
    next.push(0);
    let (mut rows, mut start) = (0, 0);
    while let Some(length) = memchr::memchr(dialect.line_end.last_byte(), &window[start..]) {
        let end = start + length + 1;
        let entries = next.len();
        if let Err(what) = record(window, start, end, dialect, next) {
            next.truncate(entries);
            return (rows, Some(IrregularRecord { start, end, what, complete: true }));
        }
        rows += 1;
        start = end;
    }
    (rows, None)
}

fn record(window: &[u8], start: usize, end: usize, dialect: &Dialect, next: &mut Vec<u32>) -> Result<(), Irregularity> {
    let Some(line) = window[start..end].strip_suffix(dialect.line_end.bytes()) else {
        return Err(Irregularity::MixedLineEnds);
    };
    let foreign = match dialect.line_end {
        LineEnd::Lf => memchr::memchr(b'\r', line),
        LineEnd::Cr => memchr::memchr(b'\n', line),
        LineEnd::Crlf => memchr::memchr2(b'\r', b'\n', line),
    };
    if foreign.is_some() {
        return Err(Irregularity::MixedLineEnds);
    }
    let ascii = line.is_ascii();
    let (mut position, mut is_whole) = (0, false);
    for (column, &width) in dialect.widths.iter().enumerate() {
        let begin = position;
        let may_be_missing = is_whole && column + 1 == dialect.widths.len();
        if begin == line.len() && !may_be_missing {
            return Err(Irregularity::MissingFields { found: column });
        }
        position = if ascii { line.len().min(begin + width as usize) } else { after(line, begin, width) };
        is_whole = position < line.len() || characters(&line[begin..]) == width as usize;
        next.push((start + position) as u32 | MARKED);
    }
    if line[position..].iter().any(|&byte| byte != b' ') {
        return Err(Irregularity::ExtraFields { found: dialect.widths.len() + 1 });
    }
    // The last field's entry is the record's end, as everywhere.
    if let Some(last) = next.last_mut() {
        *last = end as u32 | MARKED;
    }
    Ok(())
}

/// The characters of UTF-8.
fn characters(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

/// The position `characters` characters of UTF-8 after `position`.
fn after(line: &[u8], position: usize, characters: u32) -> usize {
    let mut left = characters;
    let mut end = position;
    while end < line.len() {
        // A continuation byte belongs to the character before it.
        if line[end] & 0xc0 != 0x80 {
            if left == 0 {
                break;
            }
            left -= 1;
        }
        end += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::super::Scanner;
    use super::*;
    use crate::decode::Decoder;

    fn rows(
        window: &str,
        widths: &[u32],
        line_end: LineEnd,
    ) -> (Vec<Vec<Option<String>>>, usize, Option<Irregularity>) {
        let dialect = Dialect { line_end, ..Dialect::fixed(widths.to_vec()) };
        let mut scanner = Scanner::new(dialect.clone(), widths.len());
        let records = scanner.scan(window.as_bytes());
        let mut decoder = Decoder::new(dialect);
        let rows = (0..records.rows())
            .map(|row| {
                (0..widths.len())
                    .map(|column| {
                        let text = decoder.decode(records.field(row, column), column)?;
                        Some(String::from_utf8(text.to_vec()).expect("UTF-8"))
                    })
                    .collect()
            })
            .collect();
        (rows, records.consumed, records.irregular.map(|irregular| irregular.what))
    }

    fn some(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| (!text.is_empty()).then(|| (*text).to_owned())).collect()
    }

    #[test]
    fn widths_count_characters_and_spaces_are_cut() {
        for end in ["\n", "\r\n", "\r"] {
            let line_end = match end {
                "\n" => LineEnd::Lf,
                "\r\n" => LineEnd::Crlf,
                _ => LineEnd::Cr,
            };
            let text = format!("ab  12 x{end}ä€🚂d   y{end}    99z  {end}a   1 {end}par");
            let (found, consumed, irregular) = rows(&text, &[4, 3, 2], line_end);
            assert_eq!(found[..3], [some(&["ab", "12", "x"]), some(&["ä€🚂d", "", "y"]), some(&["", "99z", ""])]);
            assert_eq!(irregular, Some(Irregularity::MissingFields { found: 2 }));
            assert!(text[consumed..].starts_with("a   1 "));
        }
    }

    #[test]
    fn other_lengths() {
        assert_eq!(rows("abc\n", &[2, 2], LineEnd::Lf).0, [some(&["ab", "c"])]);
        assert_eq!(rows("abcd   \n", &[2, 2], LineEnd::Lf).0, [some(&["ab", "cd"])]);
        assert_eq!(rows("abcde\n", &[2, 2], LineEnd::Lf).2, Some(Irregularity::ExtraFields { found: 3 }));
        assert_eq!(rows("ab\näb\n", &[2, 2], LineEnd::Lf).0, [some(&["ab", ""]), some(&["äb", ""])]);
        assert_eq!(rows("a\n", &[2, 2], LineEnd::Lf).2, Some(Irregularity::MissingFields { found: 1 }));
        assert_eq!(rows("ä\n", &[2, 2], LineEnd::Lf).2, Some(Irregularity::MissingFields { found: 1 }));
        assert_eq!(rows("ab\n", &[2, 2, 2], LineEnd::Lf).2, Some(Irregularity::MissingFields { found: 1 }));
        assert_eq!(rows("\n", &[2, 2], LineEnd::Lf).2, Some(Irregularity::MissingFields { found: 0 }));
        assert_eq!(rows("abcd\r\n", &[2, 2], LineEnd::Lf).2, Some(Irregularity::MixedLineEnds));
        assert_eq!(rows("abcd\n", &[2, 2], LineEnd::Crlf).2, Some(Irregularity::MixedLineEnds));
    }
}
