//! What a sample of a source looks like when it is read in one dialect: how regular its records are, and what kinds of
//! values its columns hold. Which dialect it is decides whoever compares the profiles of several.

pub mod guessed;
pub mod kind;
pub mod records;

use crate::decode::Decoder;
use crate::dialect::{Dialect, LineEnd};
use crate::scan::RawField;
use kind::{Kind, LONGEST_NULL_WORD, NULL_WORDS};
use records::{End, Quotes, Span, read_record};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Characters of a text that a profile keeps as an example, or as a name in a header.
const MAX_NAME_BYTES: usize = 1000;
/// Fields of a record beyond which only their number is kept.
const MAX_COLUMNS: usize = 2000;
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
    pub kinds: BTreeMap<Kind, usize>,
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

/// Reads `chunks` in `dialect`; its NULL text counts for nothing here, and its line end is found out.
#[must_use]
pub fn profile(chunks: &[Chunk<'_>], dialect: &Dialect) -> Profile {
    let line_end = chunks.iter().filter(|chunk| chunk.begins).find_map(|chunk| LineEnd::detect(chunk.bytes, dialect));
    let dialect = Dialect { line_end: line_end.unwrap_or(LineEnd::Lf), ..dialect.clone() };
    let mut profile = Profile { line_end, ..Profile::default() };
    let mut structure = Structure::default();
    for chunk in chunks.iter().filter(|chunk| chunk.begins) {
        structure.read(chunk, chunk_start(chunk, false, &dialect), &dialect);
    }
    let expected = structure.most_frequent();
    let starts: Vec<usize> = chunks.iter().map(|chunk| align(chunk, &dialect, expected)).collect();
    let mut structure = Structure::default();
    for (chunk, &start) in chunks.iter().zip(&starts) {
        structure.read(chunk, start, &dialect);
    }
    profile.records = structure.records;
    profile.fields = structure.most_frequent();
    profile.last_empty = structure.last_empty;
    profile.unterminated = structure.unterminated;
    profile.stray_quotes = structure.quotes.stray;
    profile.quoted_fields = structure.quotes.opened;
    profile.enclosed_fields = structure.quotes.enclosed;
    profile.field_counts = structure.field_counts;
    let mut columns = Columns::new(&dialect, profile.fields.min(MAX_COLUMNS));
    for (chunk, &start) in chunks.iter().zip(&starts) {
        columns.read(chunk, start, &dialect, &mut profile);
    }
    profile.columns = columns.columns.clone();
    columns.add_heads();
    profile.columns_with_heads = columns.columns;
    profile
}

/// Where the first whole record of a chunk begins, if the chunk begins inside quotes, or outside.
fn chunk_start(chunk: &Chunk<'_>, in_quote: bool, dialect: &Dialect) -> usize {
    if chunk.begins {
        return if chunk.bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    }
    match read_record(chunk.bytes, 0, in_quote, dialect, &mut Vec::new(), &mut Quotes::default()) {
        End::Record(next) => next,
        End::Text(_) => chunk.bytes.len(),
    }
}

/// The better of two guesses: the chunk begins outside quotes, or inside.
fn align(chunk: &Chunk<'_>, dialect: &Dialect, expected: usize) -> usize {
    let outside = chunk_start(chunk, false, dialect);
    if chunk.begins || !crate::split::needs_scan(dialect) || memchr::memchr(dialect.quote, chunk.bytes).is_none() {
        return outside;
    }
    let inside = chunk_start(chunk, true, dialect);
    let score = |start| {
        let mut structure = Structure::default();
        structure.read(chunk, start, dialect);
        let regular = structure.field_counts.get(&expected).copied().unwrap_or(0);
        regular as i64 - IRREGULAR_WEIGHT * (structure.records - regular) as i64 - structure.quotes.stray as i64
    };
    if score(inside) > score(outside) { inside } else { outside }
}

/// Calls `with` for every whole record of a chunk from `start` on.
fn each_record(
    chunk: &Chunk<'_>,
    start: usize,
    dialect: &Dialect,
    quotes: &mut Quotes,
    mut with: impl FnMut(&[Span], usize),
) -> bool {
    let mut fields = Vec::new();
    let mut position = start;
    while position < chunk.bytes.len() {
        let before = *quotes;
        match read_record(chunk.bytes, position, false, dialect, &mut fields, quotes) {
            End::Record(next) => {
                with(&fields, position);
                position = next;
            }
            End::Text(inside) if chunk.ends && !inside => {
                with(&fields, position);
                return false;
            }
            End::Text(inside) => {
                if !chunk.ends {
                    // A record that is cut off says little; but a quote in the middle of a field that opens all that
                    // is left of the chunk is none that such quotes surround.
                    let strays = if inside { quotes.stray } else { before.stray };
                    *quotes = Quotes { stray: strays, ..before };
                }
                return chunk.ends && inside;
            }
        }
    }
    false
}

/// The number of fields of a record in the dialect; 0 where its trailing delimiter is missing.
fn field_count(fields: &[Span], dialect: &Dialect) -> usize {
    if !dialect.trailing_delimiter {
        return fields.len();
    }
    if fields.last().is_some_and(|last| last.range.is_empty()) { fields.len() - 1 } else { 0 }
}

#[derive(Default)]
struct Structure {
    records: usize,
    field_counts: BTreeMap<usize, usize>,
    last_empty: usize,
    unterminated: usize,
    quotes: Quotes,
}

impl Structure {
    fn read(&mut self, chunk: &Chunk<'_>, start: usize, dialect: &Dialect) {
        let mut quotes = self.quotes;
        let unterminated = each_record(chunk, start, dialect, &mut quotes, |fields, _| {
            self.records += 1;
            *self.field_counts.entry(field_count(fields, dialect)).or_default() += 1;
            self.last_empty += usize::from(fields.last().is_some_and(|last| last.range.is_empty()));
        });
        self.quotes = quotes;
        self.unterminated += usize::from(unterminated);
    }

    /// The most frequent number of fields, of several the largest.
    fn most_frequent(&self) -> usize {
        self.field_counts.iter().max_by_key(|&(&fields, &count)| (count, fields)).map_or(0, |(&fields, _)| fields)
    }
}

struct Columns<'a> {
    decoder: Decoder,
    /// Gives names as they are written.
    plain: Decoder,
    columns: Vec<ColumnProfile>,
    /// The first records of sources, as far as they have as many fields as others.
    heads: Vec<(&'a [u8], Vec<Span>)>,
}

impl<'a> Columns<'a> {
    fn new(dialect: &Dialect, count: usize) -> Self {
        let columns = (0..count)
            .map(|_| ColumnProfile { shortest: usize::MAX, scale_min: usize::MAX, ..ColumnProfile::default() })
            .collect();
        // No unmarked field is equal to a text with a line end in it: NULL is told apart below.
        let dialect = Dialect { null_text: "\n".into(), ..dialect.clone() };
        let plain = Decoder::new(Dialect { notations: Vec::new(), ..dialect.clone() });
        Self { decoder: Decoder::new(dialect), plain, columns, heads: Vec::new() }
    }

    fn read(&mut self, chunk: &Chunk<'a>, start: usize, dialect: &Dialect, profile: &mut Profile) {
        let fields_wanted = profile.fields;
        each_record(chunk, start, dialect, &mut Quotes::default(), |fields, position| {
            let regular = field_count(fields, dialect) == fields_wanted;
            let (records, regulars) = profile.files.entry(chunk.file).or_default();
            *records += 1;
            *regulars += usize::from(regular);
            let fields = &fields[..fields.len().min(if regular { fields_wanted } else { MAX_COLUMNS })];
            let first = chunk.begins && position == start;
            if first {
                profile.heads.insert(chunk.file, self.head(chunk.bytes, fields));
            }
            if regular && first {
                self.heads.push((chunk.bytes, fields.to_vec()));
            } else if regular {
                let head = profile.heads.get(&chunk.file).map_or(&[][..], Vec::as_slice);
                self.record(chunk.bytes, fields, head);
            }
        });
    }

    fn record(&mut self, bytes: &[u8], fields: &[Span], head: &[HeadField]) {
        for (index, field) in fields.iter().take(self.columns.len()).enumerate() {
            self.value(index, &bytes[field.range.clone()], field.marked, head.get(index));
        }
    }

    fn add_heads(&mut self) {
        for (bytes, fields) in std::mem::take(&mut self.heads) {
            self.record(bytes, &fields, &[]);
        }
    }

    fn head(&mut self, bytes: &[u8], fields: &[Span]) -> Vec<HeadField> {
        fields
            .iter()
            .take(MAX_COLUMNS)
            .enumerate()
            .map(|(index, field)| {
                let raw = RawField::new(&bytes[field.range.clone()], field.marked);
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
            && bytes.len() <= LONGEST_NULL_WORD
            && let Some(word) = NULL_WORDS.iter().find(|word| word.as_bytes() == bytes)
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
        if marked && let Some(word) = NULL_WORDS.iter().find(|word| word.as_bytes() == text) {
            *column.quoted_null_words.entry(word).or_default() += 1;
        }
        *column.kinds.entry(kind).or_default() += 1;
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

    fn whole(text: &str) -> Chunk<'_> {
        Chunk { bytes: text.as_bytes(), file: 0, begins: true, ends: true }
    }

    #[test]
    fn columns_of_a_table() {
        let text = "id,name,at\n1,\"a,b\",2024-01-01\n-22,,2024-01-02\n,\"\",NULL\n";
        let profile = profile(&[whole(text)], &Dialect::csv());
        assert_eq!((profile.records, profile.fields, profile.quoted_fields), (4, 3, 2));
        assert_eq!(profile.heads[&0].iter().map(|field| field.text.as_str()).collect::<Vec<_>>(), ["id", "name", "at"]);
        let [id, name, at] = &profile.columns[..] else { panic!("three columns") };
        assert_eq!(id.kinds, BTreeMap::from([(Kind::Integer, 2)]));
        assert_eq!((id.empty, name.empty, name.quoted_empty, id.whole_digits), (1, 1, 1, 2));
        assert_eq!(at.kinds, BTreeMap::from([(Kind::Date, 2)]));
        assert_eq!(at.null_words, BTreeMap::from([("NULL", 1)]));
        assert_eq!(profile.columns_with_heads[0].kinds, BTreeMap::from([(Kind::Integer, 2), (Kind::Text, 1)]));
    }

    #[test]
    fn quoted_words_for_null_are_values_that_are_counted() {
        let profile = profile(&[whole("a\n1\n\"NA\"\nNA\n\"NAN\"\n")], &Dialect::csv());
        let [a] = &profile.columns[..] else { panic!("a column") };
        assert_eq!(a.quoted_null_words, BTreeMap::from([("NA", 1)]));
        assert_eq!((a.null_words["NA"], a.kinds[&Kind::Text]), (1, 1));
    }

    #[test]
    fn texts_that_only_numbers_tell_from_the_first_one() {
        let text =
            "order-001,a,user7@x.org,1\norder-2,a,user12@x.org,22\norder-x,b,user@x.org,\norder-003 ,a,u8@x.org,3\n";
        let profile = profile(&[whole(text)], &Dialect::csv());
        let found: Vec<_> = profile.columns.iter().map(|it| (it.like_head, it.numbered_like_head)).collect();
        assert_eq!(found, [(0, 1), (2, 0), (0, 1), (0, 2)]);
        assert!(
            differ_by_numbers(b"1a2", b"33a4") && !differ_by_numbers(b"1a2", b"33a") && !differ_by_numbers(b"a", b"a1")
        );
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
                assert_eq!(profile.columns[0].kinds.keys().copied().collect::<Vec<_>>(), [Kind::Integer]);
                assert_eq!(profile.stray_quotes, 0);
            }
        }
    }
}
