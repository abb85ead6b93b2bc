//! Records as complete heap pages of PostgreSQL, as COPY with FREEZE would leave them (`heap_form_tuple`,
//! `heap_multi_insert`): the server checks and appends them, and no work per row is left to it.
//!
//! Advice for whoever works here: the loops over fields are those of a strip, with what is said in `strip.rs`.

pub(in crate::encode) mod datum;
mod layout;
mod pages;
pub mod read;
pub(in crate::encode) mod tuple;

pub use layout::PageLayout;
pub use pages::PageBuffer;

use super::hot::HotType;
use super::strip::{FourValues, Strip, StripValues};
use super::text_check::TextCheck;
use super::unchecked::SLACK_BYTES;
use crate::column::{Column, ColumnType};
use crate::decode::{Decoder, NullHint, QuoteHint};
use crate::dialect::Dialect;
use crate::notation::Notation;
use crate::problem::Problem;
use crate::scan::{FieldColumn, Records};
use crate::value::reader::{Loop, Reader, Words};
use crate::value::{Refusal, ServerVersion};
#[cfg(target_arch = "x86_64")]
use crate::value::{wide::Wide, wider::Wider};
use datum::{
    Booleans, Chars, Dates, Doubles, Integers, Numbers, Others, Regular, Singles, Texts, Timestamps, Uuids,
    ZonedTimestamps,
};
use std::ops::{DerefMut, Range};
use tuple::{TupleLoop, TupleMaker};

/// Records of more text than this are left to the server without a look: no page would hold them.
pub(in crate::encode) const LONGEST_TEXT_BYTES: usize = 256 << 10;

/// Bytes that a value may take beyond twice its text: fixed width, alignment, header.
pub(in crate::encode) const FIXED_BYTES: usize = 48;

/// Bytes behind a row that may be written: what block copies overshoot.
pub(in crate::encode) const ROW_SLACK_BYTES: usize = SLACK_BYTES;

/// An attribute of the relation.
#[derive(Debug, Clone)]
struct Attribute {
    hot: HotType,
    kind: ColumnType,
    not_null: bool,
    /// The field that it comes from; without one it is NULL.
    field: Option<usize>,
}

/// Why the encoder came to a halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop<P = Problem> {
    /// All memory is full.
    Full,
    /// A tuple that the server would compress, or store in part elsewhere.
    TooLarge,
    /// A record that cannot be stored, or that only the server can read.
    Problem(P),
}

/// How far the encoder came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded<P = Problem> {
    /// The record that it stopped at, by its place among those that it was given; the number of records where it did not
    /// stop.
    pub row: usize,
    /// Why, if it did.
    pub stop: Option<Stop<P>>,
}

/// Makes the pages of one stream.
#[derive(Debug)]
pub struct HeapPageEncoder {
    attributes: Vec<Attribute>,
    /// How many fields a record must have.
    fields: usize,
    decoder: Decoder,
    dialect: Dialect,
    server: ServerVersion,
    /// Spaces that `char(n)` may add to a record.
    padding: usize,
    strip: Strip,
    tuples: TupleMaker,
}

impl HeapPageEncoder {
    /// An encoder for a relation whose attributes come from the fields that `fields` names, each with its column in
    /// `columns`; an attribute without a field is NULL.
    ///
    /// # Errors
    /// The column, where values of its type cannot be put on pages.
    ///
    /// # Panics
    /// Where two attributes come from one field: a record has room for each of its fields once.
    pub fn new<'c>(
        columns: &'c [Column],
        fields: &[Option<usize>],
        dialect: Dialect,
        server: ServerVersion,
        layout: PageLayout,
    ) -> Result<Self, &'c Column> {
        let mut taken = vec![false; columns.len()];
        for &field in fields.iter().flatten() {
            assert!(!std::mem::replace(&mut taken[field], true), "field {field} is that of two attributes");
        }
        let kinds: Vec<_> = fields.iter().map(|field| field.map(|index| &columns[index].kind)).collect();
        let tuples = TupleMaker::new(&kinds, layout).map_err(|attribute| &columns[fields[attribute].unwrap_or(0)])?;
        let mut padding = 0;
        let attribute = |&field: &Option<usize>| {
            let column = field.map(|index| &columns[index]);
            if let Some(ColumnType::Char { limit }) = column.map(|column| &column.kind) {
                padding += *limit as usize;
            }
            let kind = column.map_or(ColumnType::Text, |column| column.kind.clone());
            let not_null = column.is_some_and(|column| column.not_null);
            Attribute { hot: HotType::of(&kind), kind, not_null, field }
        };
        let attributes = fields.iter().map(attribute).collect();
        let decoder = Decoder::new(dialect.clone());
        let fields = fields.iter().flatten().max().map_or(0, |last| last + 1);
        let strip = Strip::new(kinds.len());
        Ok(Self { attributes, fields, decoder, dialect, server, padding, strip, tuples })
    }

    /// What its pages have in common.
    #[must_use]
    pub fn layout(&self) -> PageLayout {
        self.tuples.layout()
    }

    /// Puts the records from `first` on into `pages`, without those that cannot be stored and that `skip` takes; stops
    /// at the first that it does not take, at one that fits no page, and where no page is left.
    #[inline]
    pub fn encode_unless<M: DerefMut<Target = [u8]>>(
        &mut self,
        records: &Records<'_>,
        first: usize,
        pages: &mut PageBuffer<M>,
        mut skip: impl FnMut(&Problem) -> bool,
    ) -> Encoded {
        self.encode_rows(records, (first..records.rows(), |row| row), pages, &mut skip)
            .unwrap_or_else(|| Encoded { row: records.rows(), stop: Problem::structure(records).map(Stop::Problem) })
    }

    /// The same for some of the records: those whose rows `at` gives for each of `places`. [`Encoded::row`] is the place
    /// that it stopped at; `None` where it came to their end. What is behind the last whole record is not looked at.
    #[inline]
    pub fn encode_rows<M: DerefMut<Target = [u8]>>(
        &mut self,
        records: &Records<'_>,
        rows: (Range<usize>, impl Fn(usize) -> usize),
        pages: &mut PageBuffer<M>,
        mut skip: impl FnMut(&Problem) -> bool,
    ) -> Option<Encoded> {
        assert!(records.fields() >= self.fields, "records have all fields");
        pages.lend(|pages| {
            #[cfg(target_arch = "x86_64")]
            if let Some(wider) = Wider::found() {
                return self.encode_with(wider, records, rows, pages, &mut skip);
            } else if let Some(wide) = Wide::found() {
                return self.encode_with(wide, records, rows, pages, &mut skip);
            }
            self.encode_with(Words, records, rows, pages, &mut skip)
        })
    }

    /// [`HeapPageEncoder::encode_rows`] by a reader.
    #[inline(always)]
    fn encode_with(
        &mut self,
        reader: impl Reader,
        records: &Records<'_>,
        (mut places, at): (Range<usize>, impl Fn(usize) -> usize),
        pages: &mut PageBuffer<&mut [u8]>,
        skip: &mut impl FnMut(&Problem) -> bool,
    ) -> Option<Encoded> {
        let check = TextCheck::of(records, self.dialect.family);
        let plain = records.is_plain();
        while !places.is_empty() {
            let count = self.begin_strip(records, places.clone().map(&at));
            if count == 0 {
                self.strip.break_off();
                return Some(Encoded { row: places.start, stop: Some(Stop::TooLarge) });
            }
            if plain {
                self.fill_strip::<true>(reader, records, check);
            } else {
                self.fill_strip::<false>(reader, records, check);
            }
            let mut place = 0;
            while place < count {
                let mut ended = (place, None);
                let (strip, tuples) = (&self.strip, &self.tuples);
                reader.run(TupleLoop { strip, tuples, pages: &mut *pages, rows: place..count, ended: &mut ended });
                place = ended.0;
                let stop = match (ended.1, self.strip.refusal(place)) {
                    (Some(stop), _) => stop,
                    (None, None) => continue,
                    (None, Some((attribute, refusal))) => {
                        // An attribute without a field is NULL, which is not refused.
                        let field = self.attributes[attribute].field.unwrap_or(0);
                        let problem = Problem::value(records, at(places.start + place), field, refusal);
                        if skip(&problem) {
                            place += 1;
                            continue;
                        }
                        Stop::Problem(problem)
                    }
                };
                if stop != Stop::Full {
                    self.strip.break_off();
                }
                return Some(Encoded { row: places.start + place, stop: Some(stop) });
            }
            self.strip.use_up();
            places.start += count;
        }
        None
    }

    /// Begins a strip with some of the records at `rows`; with none where the first of them is too long for pages.
    #[inline(always)]
    fn begin_strip(&mut self, records: &Records<'_>, rows: impl Iterator<Item = usize>) -> usize {
        let fixed = self.padding + FIXED_BYTES * self.attributes.len() + ROW_SLACK_BYTES;
        let texts = rows.map(|row| (records.entry(row), records.start(row + 1) - records.start(row)));
        let short = texts.take_while(|&(_, text)| text <= LONGEST_TEXT_BYTES);
        self.strip.begin(short.map(|(entry, text)| (entry, 2 * text + fixed)))
    }

    /// Writes the values of a strip's records, as `heap_fill_tuple` does.
    #[inline(always)]
    fn fill_strip<const PLAIN: bool>(&mut self, reader: impl Reader, records: &Records<'_>, check: TextCheck) {
        for (index, attribute) in self.attributes.iter().enumerate() {
            let Some(place) = attribute.field else {
                self.strip.all_null(index);
                continue;
            };
            let column = Fields::<PLAIN> {
                fields: records.field_column(place),
                null: self.decoder.null_hint(),
                quote: self.decoder.quote_hint(),
                check,
                server: self.server,
                decoder: &mut self.decoder,
                hot: attribute.hot,
                kind: &attribute.kind,
                place,
                not_null: attribute.not_null,
            };
            let strip = (&mut self.strip, index);
            match attribute.hot {
                // A number must not be read before it is rewritten, and few of such dates are regular ones.
                _ if column.decoder.notation(place) != Notation::Plain => column.fill(reader, Others, strip),
                HotType::Bool => column.fill(reader, Booleans, strip),
                HotType::Int2 => column.fill(reader, Integers::<_, 2>(reader), strip),
                HotType::Int4 => column.fill(reader, Integers::<_, 4>(reader), strip),
                HotType::Int8 => column.fill(reader, Integers::<_, 8>(reader), strip),
                HotType::Float4 => column.fill(reader, Singles(reader), strip),
                HotType::Float8 => column.fill(reader, Doubles(reader), strip),
                HotType::Date => column.fill(reader, Dates(reader), strip),
                HotType::Timestamp(precision) => column.fill(reader, Timestamps(reader, precision), strip),
                HotType::TimestampTz(precision, utc) => {
                    column.fill(reader, ZonedTimestamps(reader, precision, utc), strip);
                }
                HotType::Uuid => column.fill(reader, Uuids, strip),
                HotType::Numeric(typmod) => column.fill(reader, Numbers(reader, typmod.into()), strip),
                HotType::Text if check.passed() => column.fill(reader, Texts(LONGEST_TEXT_BYTES), strip),
                HotType::Varchar(limit) if check.passed() => column.fill(reader, Texts(limit as usize), strip),
                HotType::Char(limit) if check.is_ascii() => column.fill(reader, Chars(limit as usize), strip),
                _ => column.fill(reader, Others, strip),
            }
        }
    }
}

/// The fields that an attribute comes from, and what is to be made of them.
struct Fields<'s, const PLAIN: bool> {
    fields: FieldColumn<'s, PLAIN>,
    null: NullHint,
    quote: QuoteHint,
    check: TextCheck,
    server: ServerVersion,
    decoder: &'s mut Decoder,
    hot: HotType,
    kind: &'s ColumnType,
    /// Which field of a record it is.
    place: usize,
    not_null: bool,
}

impl<const PLAIN: bool> Fields<'_, PLAIN> {
    /// Fills the column of that index, in a loop of its own for each type.
    fn fill(self, reader: impl Reader, regular: impl Regular, (strip, index): (&mut Strip, usize)) {
        reader.run(ColumnLoop { strip, index, values: FieldValues { regular, fields: self } });
    }
}

/// The values of an attribute.
struct FieldValues<'s, V, const PLAIN: bool> {
    regular: V,
    fields: Fields<'s, PLAIN>,
}

impl<'s, V: Regular, const PLAIN: bool> StripValues for FieldValues<'s, V, PLAIN> {
    type ByFour = FourFields<'s, V, PLAIN>;

    #[inline(always)]
    fn by_four(&self) -> Option<Self::ByFour> {
        let Fields { fields, null, .. } = self.fields;
        // What may be NULL has to be looked at.
        (V::TAKES_FOUR && PLAIN && null.is_no_number()).then_some(FourFields { regular: self.regular, fields })
    }

    #[inline(always)]
    unsafe fn put(&mut self, entry: usize, to: *mut u8) -> Option<*mut u8> {
        // SAFETY: the strip was begun with entries of these records.
        let field = unsafe { self.fields.fields.field(entry) };
        let span = if field.marked {
            self.fields.quote.text(field)?
        } else if self.fields.null.matches(field.bytes) {
            return None;
        } else {
            field.span(field.bytes)
        };
        // SAFETY: by the caller's promise.
        unsafe { self.regular.put(span, to) }
    }

    #[inline(never)]
    unsafe fn put_any(&mut self, entry: usize, to: *mut u8) -> Result<Option<*mut u8>, Refusal> {
        let Fields { fields, check, server, decoder, hot, kind, place, not_null, .. } = &mut self.fields;
        // SAFETY: the strip was begun with entries of these records.
        let field = unsafe { fields.field(entry) };
        match decoder.decode(field, *place) {
            // SAFETY: by the caller's promise.
            Some(text) => unsafe { datum::put(*hot, kind, field, text, *check, *server, to).map(Some) },
            None if *not_null => Err(Refusal::NullNotAllowed),
            None => Ok(None),
        }
    }
}

/// The values of an attribute all of whose fields are plain, where nothing that is read by four is NULL.
#[derive(Clone, Copy)]
struct FourFields<'s, V, const PLAIN: bool> {
    regular: V,
    fields: FieldColumn<'s, PLAIN>,
}

impl<V: Regular, const PLAIN: bool> FourValues for FourFields<'_, V, PLAIN> {
    #[inline(always)]
    unsafe fn put(self, entries: [usize; 4], to: [*mut u8; 4]) -> Option<[*mut u8; 4]> {
        // SAFETY: the strip was begun with entries of these records, which are plain; the rest is the caller's promise.
        unsafe { self.regular.put_four(self.fields.four(entries), to) }
    }
}

/// Fills a strip's column.
struct ColumnLoop<'s, V> {
    strip: &'s mut Strip,
    index: usize,
    values: V,
}

impl<V: StripValues> Loop for ColumnLoop<'_, V> {
    #[inline(always)]
    fn run(self) {
        // SAFETY: a strip's rows have room for what their values take.
        unsafe { self.strip.each(self.index, self.values) };
    }
}

#[cfg(test)]
mod tests;
