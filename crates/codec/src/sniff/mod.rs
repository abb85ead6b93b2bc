//! What a sample of a source looks like when it is read in one dialect: how regular its records are, and what kinds of
//! values its columns hold. Which dialect it is decides whoever compares the profiles of several.

mod columns;
pub mod guessed;
pub mod kind;
mod outline;
mod records;

pub use columns::ColumnProfile;

use crate::dialect::{Dialect, LineEnd};
use columns::{Columns, MAX_COLUMNS};
use kind::Kind;
use outline::Outline;
use records::{Reader, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an irregular record weighs against regular ones where it is undecided whether a chunk begins inside quotes.
const IRREGULAR_WEIGHT: i64 = 10;

/// A piece of a source.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// Its bytes, in UTF-8 or nearly so.
    pub bytes: &'a [u8],
    /// Which source it is of.
    pub file: usize,
    /// Whether it begins where the source begins; otherwise it begins anywhere.
    pub begins: bool,
    /// Whether it ends where the source ends.
    pub ends: bool,
}

/// Where a chunk lies, for callers that hand the bytes over apart.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Place {
    /// Which source it is of.
    pub file: usize,
    /// Whether it begins where the source begins.
    pub begins: bool,
    /// Whether it ends where the source ends.
    pub ends: bool,
}

/// A sample, read in one dialect.
#[derive(Debug, Default, Serialize)]
pub struct Profile {
    /// What ends records.
    pub line_end: Option<LineEnd>,
    /// Whole records.
    pub records: usize,
    /// How many records have so many fields. 0: the trailing delimiter is missing.
    pub field_counts: BTreeMap<usize, usize>,
    /// The most frequent number of fields; the columns are those of records with so many.
    pub fields: usize,
    /// Records whose last field is empty and unquoted.
    pub last_empty: usize,
    /// Sources that end inside quotes.
    pub unterminated: usize,
    /// Quotes in places where they should not be.
    pub stray_quotes: usize,
    /// Fields that begin with a quote.
    pub quoted_fields: usize,
    /// Those of them that end where that quote closes.
    pub enclosed_fields: usize,
    /// By source: whole records, and those of them that have `fields` fields.
    pub files: BTreeMap<usize, (usize, usize)>,
    /// The first record of each source.
    pub heads: BTreeMap<usize, Vec<HeadField>>,
    /// The columns, without the first records of sources.
    pub columns: Vec<ColumnProfile>,
    /// The columns with them: what they are where there are no headers.
    pub columns_with_heads: Vec<ColumnProfile>,
}

/// A field of a source's first record.
#[derive(Debug, Serialize)]
pub struct HeadField {
    /// Its text, shortened.
    pub text: String,
    /// Its kind.
    pub kind: Kind,
    /// Whether it is quoted or escaped.
    pub marked: bool,
    /// Whether digits are in it.
    #[serde(skip)]
    numbered: bool,
}

/// Reads `chunks` in `dialect`; its NULL text counts for nothing here, and its line end is found out.
#[must_use]
pub fn profile(chunks: &[Chunk<'_>], dialect: &Dialect) -> Profile {
    let line_end = chunks.iter().filter(|chunk| chunk.begins).find_map(|chunk| LineEnd::detect(chunk.bytes, dialect));
    let dialect = Dialect { line_end: line_end.unwrap_or(LineEnd::Lf), ..dialect.clone() };
    let reader = Reader::new(&dialect);
    let begun: Vec<_> = chunks
        .iter()
        .map(|chunk| chunk.begins.then(|| Outline::read(chunk, outside(chunk, &reader), &reader)))
        .collect();
    let expected = Structure::of(begun.iter().flatten(), &dialect).most_frequent();
    let outlines: Vec<_> = chunks
        .iter()
        .zip(begun)
        .map(|(chunk, outline)| outline.unwrap_or_else(|| align(chunk, &reader, expected)))
        .collect();
    let structure = Structure::of(&outlines, &dialect);
    let mut profile = Profile {
        line_end,
        records: structure.records,
        fields: structure.most_frequent(),
        last_empty: structure.last_empty,
        unterminated: structure.unterminated,
        stray_quotes: structure.stray_quotes,
        quoted_fields: structure.quoted_fields,
        enclosed_fields: structure.enclosed_fields,
        field_counts: structure.field_counts,
        ..Profile::default()
    };
    let mut columns = Columns::new(&dialect, profile.fields.min(MAX_COLUMNS));
    for (chunk, outline) in chunks.iter().zip(&outlines) {
        columns.read(chunk, outline, &dialect, &mut profile);
    }
    (profile.columns, profile.columns_with_heads) = columns.finish();
    profile
}

/// Where the first whole record of a chunk begins that begins outside quotes.
fn outside(chunk: &Chunk<'_>, reader: &Reader<'_>) -> usize {
    if chunk.begins {
        return if chunk.bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    }
    reader.behind_record(chunk.bytes, false)
}

/// A chunk from the middle by the better of two guesses: it begins outside quotes, or inside.
fn align(chunk: &Chunk<'_>, reader: &Reader<'_>, expected: usize) -> Outline {
    let dialect = reader.dialect();
    let by_outside = Outline::read(chunk, outside(chunk, reader), reader);
    if !crate::split::needs_scan(dialect) || memchr::memchr(dialect.quote, chunk.bytes).is_none() {
        return by_outside;
    }
    let by_inside = Outline::read(chunk, reader.behind_record(chunk.bytes, true), reader);
    let score = |outline: &Outline| {
        let structure = Structure::of([outline], dialect);
        let regular = structure.field_counts.get(&expected).copied().unwrap_or(0);
        regular as i64 - IRREGULAR_WEIGHT * (structure.records - regular) as i64 - structure.stray_quotes as i64
    };
    if score(&by_inside) > score(&by_outside) { by_inside } else { by_outside }
}

/// The number of fields of a record in the dialect; 0 where its trailing delimiter is missing.
fn field_count(fields: &[Span], dialect: &Dialect) -> usize {
    if !dialect.trailing_delimiter {
        return fields.len();
    }
    if fields.last().is_some_and(Span::is_empty) { fields.len() - 1 } else { 0 }
}

/// How regular some chunks are; its figures are those of [`Profile`].
#[derive(Default)]
struct Structure {
    records: usize,
    field_counts: BTreeMap<usize, usize>,
    last_empty: usize,
    unterminated: usize,
    stray_quotes: usize,
    quoted_fields: usize,
    enclosed_fields: usize,
}

impl Structure {
    fn of<'o>(outlines: impl IntoIterator<Item = &'o Outline>, dialect: &Dialect) -> Self {
        let mut structure = Self::default();
        for outline in outlines {
            for fields in outline.records() {
                structure.records += 1;
                *structure.field_counts.entry(field_count(fields, dialect)).or_default() += 1;
                structure.last_empty += usize::from(fields.last().is_some_and(Span::is_empty));
            }
            structure.unterminated += usize::from(outline.unterminated);
            structure.stray_quotes += outline.quotes.stray;
            structure.quoted_fields += outline.quotes.opened;
            structure.enclosed_fields += outline.quotes.enclosed;
        }
        structure
    }

    /// The most frequent number of fields, of several the largest.
    fn most_frequent(&self) -> usize {
        self.field_counts.iter().max_by_key(|&(&fields, &count)| (count, fields)).map_or(0, |(&fields, _)| fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Chunk<'_> {
        Chunk { bytes: text.as_bytes(), file: 0, begins: true, ends: true }
    }

    fn kinds(column: &ColumnProfile) -> Vec<(Kind, usize)> {
        column.kinds.iter().collect()
    }

    #[test]
    fn columns_of_a_table() {
        let text = "id,name,at\n1,\"a,b\",2024-01-01\n-22,,2024-01-02\n,\"\",NULL\n";
        let profile = profile(&[whole(text)], &Dialect::csv());
        assert_eq!((profile.records, profile.fields, profile.quoted_fields), (4, 3, 2));
        assert_eq!(profile.heads[&0].iter().map(|field| field.text.as_str()).collect::<Vec<_>>(), ["id", "name", "at"]);
        let [id, name, at] = &profile.columns[..] else { panic!("three columns") };
        assert_eq!(kinds(id), [(Kind::Integer, 2)]);
        assert_eq!((id.empty, name.empty, name.quoted_empty, id.whole_digits), (1, 1, 1, 2));
        assert_eq!(kinds(at), [(Kind::Date, 2)]);
        assert_eq!(at.null_words, BTreeMap::from([("NULL", 1)]));
        assert_eq!(kinds(&profile.columns_with_heads[0]), [(Kind::Integer, 2), (Kind::Text, 1)]);
    }

    #[test]
    fn quoted_words_for_null_are_values_that_are_counted() {
        let profile = profile(&[whole("a\n1\n\"NA\"\nNA\n\"NAN\"\n")], &Dialect::csv());
        let [a] = &profile.columns[..] else { panic!("a column") };
        assert_eq!(a.quoted_null_words, BTreeMap::from([("NA", 1)]));
        assert_eq!(
            (a.null_words["NA"], kinds(a)),
            (1, vec![(Kind::Integer, 1), (Kind::NotFinite, 1), (Kind::Text, 1)])
        );
    }

    #[test]
    fn texts_that_only_numbers_tell_from_the_first_one() {
        let text =
            "order-001,a,user7@x.org,1\norder-2,a,user12@x.org,22\norder-x,b,user@x.org,\norder-003 ,a,u8@x.org,3\n";
        let profile = profile(&[whole(text)], &Dialect::csv());
        let found: Vec<_> = profile.columns.iter().map(|it| (it.like_head, it.numbered_like_head)).collect();
        assert_eq!(found, [(0, 1), (2, 0), (0, 1), (0, 2)]);
    }

    #[test]
    fn irregular_records_and_open_quotes() {
        let profile = profile(&[whole("1,2\n3\n4,5\n\"6,7\n")], &Dialect::csv());
        assert_eq!(profile.field_counts, BTreeMap::from([(1, 1), (2, 2)]));
        assert_eq!((profile.unterminated, profile.quoted_fields), (1, 1));
        let profile = super::profile(&[whole("1|a|\n2|b\n")], &Dialect::tbl());
        assert_eq!(profile.field_counts, BTreeMap::from([(0, 1), (2, 1)]));
    }

    /// Inches: the quote of the second record opens all that the chunk has.
    #[test]
    fn a_quote_that_opens_the_rest_of_a_chunk() {
        let text = format!("1,rod\n2,5\" pipe\n{}", "3,rod\n".repeat(9));
        for ends in [true, false] {
            let profile = profile(&[Chunk { ends, ..whole(&text) }], &Dialect::csv());
            assert_eq!((profile.stray_quotes, profile.enclosed_fields), (1, 0), "{ends}");
        }
        let cut = profile(&[Chunk { ends: false, ..whole("1,\"a\"\n2,\"b\nc") }], &Dialect::csv());
        assert_eq!((cut.stray_quotes, cut.enclosed_fields, cut.unterminated), (0, 1, 0));
    }

    #[test]
    fn nothing() {
        for text in ["", "\u{feff}", "x", "\n"] {
            assert!(profile(&[whole(text)], &Dialect::csv()).records <= 1, "{text:?}");
        }
        assert_eq!(profile(&[], &Dialect::csv()).records, 0);
    }

    /// Wherever a chunk is cut out of the middle, inside quotes or outside, its records are those of the file.
    #[test]
    fn chunks_from_the_middle_begin_at_records() {
        let record = "17,\"a, \"\"b\"\"\nc,d\n\",x\r\n";
        let text = record.repeat(40);
        let head = Chunk { bytes: &text.as_bytes()[..record.len() * 4], file: 0, begins: true, ends: false };
        for start in record.len() * 4..record.len() * 6 {
            for length in [record.len() * 6, record.len() * 9 + 5] {
                let bytes = &text.as_bytes()[start..start + length];
                let middle = Chunk { bytes, file: 0, begins: false, ends: false };
                let profile = profile(&[head, middle], &Dialect::csv());
                assert_eq!(profile.field_counts.keys().copied().collect::<Vec<_>>(), [3], "{start} {length}");
                assert!(profile.records > 4 + 3);
                assert!(matches!(kinds(&profile.columns[0])[..], [(Kind::Integer, _)]));
                assert_eq!(profile.stray_quotes, 0);
            }
        }
    }
}
