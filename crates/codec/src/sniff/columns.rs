//! What kinds of values the columns of a sample hold.

use super::kind::{self, Kind, KindCounts};
use super::outline::Outline;
use super::records::Span;
use super::{Chunk, HeadField, Profile, field_count, guessed};
use crate::decode::Decoder;
use crate::dialect::Dialect;
use crate::scan::RawField;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Fields of a record beyond which their values do not count.
pub(super) const MAX_COLUMNS: usize = 2000;
/// Characters of a text that a profile keeps as an example, or as a name in a header.
const MAX_NAME_BYTES: usize = 1000;

/// A column of a sample.
#[derive(Debug, Default, Clone, Serialize)]
pub struct ColumnProfile {
    /// Unquoted empty fields.
    pub empty: usize,
    /// Quoted empty fields.
    pub quoted_empty: usize,
    /// Unquoted fields that often stand for NULL, by their text; they are no values below.
    pub null_words: BTreeMap<&'static str, usize>,
    /// Quoted fields with such a text; they are values, unless somebody says that they mean NULL too.
    pub quoted_null_words: BTreeMap<&'static str, usize>,
    /// All other fields, by kind.
    pub kinds: KindCounts,
    /// Fields that begin and end with a double quote, or with an apostrophe, which the dialect does not take for one.
    pub wrapped: [usize; 2],
    /// Texts with a character that is a usual delimiter.
    pub delimiters_inside: usize,
    /// Bytes of the longest value.
    pub longest: usize,
    /// Bytes of the shortest value.
    pub shortest: usize,
    /// Of decimals: the fewest and the most digits after the point, and the most before it.
    pub scale_min: usize,
    /// See `scale_min`.
    pub scale_max: usize,
    /// Digits before the point; of integers too.
    pub whole_digits: usize,
    /// Integers that may be years, from 1500 to 2199.
    pub years: usize,
    /// Of texts: those with a digit in them.
    pub numbered: usize,
    /// Numbers that a double would change.
    pub inexact: usize,
    /// Of local dates: those whose first part can be no month.
    pub first_over_12: usize,
    /// Of local dates: those whose second part can be no month.
    pub second_over_12: usize,
    /// Of local dates: what stands between their parts.
    pub date_separators: BTreeSet<char>,
    /// Whether `f` occurs, and `t`.
    pub letters: [bool; 2],
    /// Fields with the text that the first record of their source has here.
    pub like_head: usize,
    /// Fields with the same text but for numbers in it, where it has some.
    pub numbered_like_head: usize,
}

/// The columns of a sample while its records are read.
pub(super) struct Columns<'a> {
    decoder: Decoder,
    /// Gives names as they are written.
    plain: Decoder,
    columns: Vec<ColumnProfile>,
    /// The first records of sources, as far as they have as many fields as others.
    heads: Vec<(&'a [u8], Vec<Span>)>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(dialect: &Dialect, count: usize) -> Self {
        let columns = (0..count)
            .map(|_| ColumnProfile { shortest: usize::MAX, scale_min: usize::MAX, ..ColumnProfile::default() })
            .collect();
        // No unmarked field is equal to a text with a line end in it: NULL is told apart below.
        let dialect = Dialect { null_text: "\n".into(), ..dialect.clone() };
        let plain = Decoder::new(Dialect { notations: Vec::new(), ..dialect.clone() });
        Self { decoder: Decoder::new(dialect), plain, columns, heads: Vec::new() }
    }

    /// Reads the records of a chunk, and notes in the profile which ones are regular and what the first one holds.
    pub(super) fn read(&mut self, chunk: &Chunk<'a>, outline: &Outline, dialect: &Dialect, profile: &mut Profile) {
        let wanted = profile.fields;
        let mut records = outline.records().map(|fields| {
            let regular = field_count(fields, dialect) == wanted;
            (regular, &fields[..fields.len().min(if regular { wanted } else { MAX_COLUMNS })])
        });
        let (mut count, mut regulars) = (0, 0);
        if chunk.begins
            && let Some((regular, fields)) = records.next()
        {
            (count, regulars) = (1, usize::from(regular));
            profile.heads.insert(chunk.file, self.head(chunk.bytes, fields));
            if regular {
                self.heads.push((chunk.bytes, fields.to_vec()));
            }
        }
        let head = profile.heads.get(&chunk.file).map_or(&[][..], Vec::as_slice);
        for (regular, fields) in records {
            count += 1;
            if regular {
                regulars += 1;
                self.record(chunk.bytes, fields, head);
            }
        }
        if count > 0 {
            let file = profile.files.entry(chunk.file).or_default();
            *file = (file.0 + count, file.1 + regulars);
        }
    }

    /// The columns without the first records of sources, and with them.
    pub(super) fn finish(mut self) -> (Vec<ColumnProfile>, Vec<ColumnProfile>) {
        let without = self.columns.clone();
        for (bytes, fields) in std::mem::take(&mut self.heads) {
            self.record(bytes, &fields, &[]);
        }
        (without, self.columns)
    }

    fn record(&mut self, bytes: &[u8], fields: &[Span], head: &[HeadField]) {
        for (index, field) in fields.iter().take(self.columns.len()).enumerate() {
            self.value(index, field.of(bytes), field.marked, head.get(index));
        }
    }

    fn head(&mut self, bytes: &[u8], fields: &[Span]) -> Vec<HeadField> {
        fields
            .iter()
            .take(MAX_COLUMNS)
            .enumerate()
            .map(|(index, field)| {
                let raw = RawField::new(field.of(bytes), field.marked);
                let kind = kind::classify(self.decoder.decode(raw, index).unwrap_or_default());
                let text = self.plain.decode(raw, index).unwrap_or_default();
                let text = String::from_utf8_lossy(&text[..text.len().min(MAX_NAME_BYTES)]).into_owned();
                let numbered = text.bytes().any(|byte| byte.is_ascii_digit());
                HeadField { text, kind, marked: field.marked, numbered }
            })
            .collect()
    }

    fn value(&mut self, index: usize, bytes: &[u8], marked: bool, head: Option<&HeadField>) {
        let column = &mut self.columns[index];
        if bytes.is_empty() {
            column.empty += 1;
            return;
        }
        // `\N` is marked where backslashes escape, and means the same.
        if (!marked || bytes == b"\\N")
            && let Some(word) = kind::null_word(bytes)
        {
            *column.null_words.entry(word).or_default() += 1;
            return;
        }
        let text = self.decoder.decode(RawField::new(bytes, marked), index).unwrap_or_default();
        if text.is_empty() {
            column.quoted_empty += 1;
            return;
        }
        let kind = kind::classify(text);
        if marked && let Some(word) = kind::null_word(text) {
            *column.quoted_null_words.entry(word).or_default() += 1;
        }
        column.kinds.add(kind);
        column.longest = column.longest.max(text.len());
        column.shortest = column.shortest.min(text.len());
        // Files that were put together keep their byte order marks.
        let unmarked = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        if let Some(head) = head {
            column.like_head += usize::from(head.text.as_bytes() == unmarked);
            column.numbered_like_head +=
                usize::from(head.numbered && differ_by_numbers(head.text.as_bytes(), unmarked));
        }
        if matches!(kind, Kind::Decimal | Kind::Integer | Kind::LongInteger | Kind::Float) {
            column.inexact += usize::from(!guessed::double_keeps(text));
        }
        column.years += usize::from(kind == Kind::Integer && kind::may_be_year(text));
        match kind {
            Kind::Decimal | Kind::Integer | Kind::LongInteger => {
                let (scale, whole) = kind::decimal_digits(text);
                column.whole_digits = column.whole_digits.max(whole);
                if kind == Kind::Decimal {
                    column.scale_min = column.scale_min.min(scale);
                    column.scale_max = column.scale_max.max(scale);
                }
            }
            Kind::LocalDate => {
                if let Some((first, second)) = kind::local_date_parts(text) {
                    column.first_over_12 += usize::from(first > 12);
                    column.second_over_12 += usize::from(second > 12);
                }
                column.date_separators.extend(kind::local_date_separator(text));
            }
            Kind::BooleanLetter => column.letters[usize::from(text.trim_ascii() == b"t")] = true,
            Kind::Text => {
                column.numbered += usize::from(text.iter().any(u8::is_ascii_digit));
                if !marked && bytes.len() >= 2 && bytes[0] == bytes[bytes.len() - 1] {
                    column.wrapped[0] += usize::from(bytes[0] == b'"');
                    column.wrapped[1] += usize::from(bytes[0] == b'\'');
                }
                if !marked && memchr::memchr3(b',', b';', b'|', bytes).is_some() | bytes.contains(&b'\t') {
                    column.delimiters_inside += 1;
                }
            }
            _ => {}
        }
    }
}

/// Whether two texts are the same but for the numbers in them.
fn differ_by_numbers(one: &[u8], other: &[u8]) -> bool {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a.is_ascii_digit() && b.is_ascii_digit() => {
                while one.next_if(|byte| byte.is_ascii_digit()).is_some() {}
                while other.next_if(|byte| byte.is_ascii_digit()).is_some() {}
            }
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_by_numbers() {
        assert!(differ_by_numbers(b"1a2", b"33a4"));
        assert!(!differ_by_numbers(b"1a2", b"33a"));
        assert!(!differ_by_numbers(b"a", b"a1"));
    }
}
