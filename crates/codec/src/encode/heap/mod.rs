//! Records as complete heap pages of PostgreSQL, as COPY with FREEZE would leave them (`heap_form_tuple`,
//! `heap_multi_insert`): the server checks and appends them, and no work per row is left to it.
//!
//! Advice for whoever works here: the loop over fields is that of `copy_binary.rs`, with what is said there.

pub(in crate::encode) mod datum;
mod layout;
mod pages;
pub mod read;
pub(in crate::encode) mod tuple;

pub use layout::PageLayout;
pub use pages::PageBuffer;

use super::hot::HotType;
use super::text_check::TextCheck;
use super::unchecked::SLACK_BYTES;
use crate::column::{Column, ColumnType};
use crate::decode::Decoder;
use crate::dialect::Dialect;
use crate::problem::Problem;
use crate::scan::Records;
use crate::value::ServerVersion;
use std::ops::DerefMut;
use tuple::{Shape, TupleMaker};

/// Records of more text than this are left to the server without a look: no page would hold them.
pub(in crate::encode) const LONGEST_TEXT_BYTES: usize = 256 << 10;

/// Bytes of scratch for a field beyond twice its text: fixed width, alignment, header, what block copies overshoot.
pub(in crate::encode) const FIXED_BYTES: usize = 48 + SLACK_BYTES;

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
    /// The record that it stopped at; the number of records where it did not.
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
    tuples: TupleMaker,
}

impl HeapPageEncoder {
    /// An encoder for a relation whose attributes come from the fields that `fields` names, each with its column in
    /// `columns`; an attribute without a field is NULL.
    ///
    /// # Errors
    /// The column, where values of its type cannot be put on pages.
    pub fn new<'c>(
        columns: &'c [Column],
        fields: &[Option<usize>],
        dialect: Dialect,
        server: ServerVersion,
        layout: PageLayout,
    ) -> Result<Self, &'c Column> {
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
        Ok(Self { attributes, fields, decoder, dialect, server, padding, tuples })
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
        self.encode_rows(records, &mut (first..records.rows()), pages, &mut skip)
            .unwrap_or_else(|| Encoded { row: records.rows(), stop: Problem::structure(records).map(Stop::Problem) })
    }

    /// The same for some of the records, which `rows` names; `None` where it came to their end. What is behind the
    /// last whole record is not looked at.
    #[inline]
    pub fn encode_rows<M: DerefMut<Target = [u8]>>(
        &mut self,
        records: &Records<'_>,
        rows: &mut impl Iterator<Item = usize>,
        pages: &mut PageBuffer<M>,
        mut skip: impl FnMut(&Problem) -> bool,
    ) -> Option<Encoded> {
        assert!(records.fields() >= self.fields, "records have all fields");
        if records.is_plain() {
            self.encode_these::<true, M>(records, rows, pages, &mut skip)
        } else {
            self.encode_these::<false, M>(records, rows, pages, &mut skip)
        }
    }

    /// [`HeapPageEncoder::encode_rows`], for plain records and for others.
    #[inline(always)]
    fn encode_these<const PLAIN: bool, M: DerefMut<Target = [u8]>>(
        &mut self,
        records: &Records<'_>,
        rows: &mut impl Iterator<Item = usize>,
        pages: &mut PageBuffer<M>,
        skip: &mut impl FnMut(&Problem) -> bool,
    ) -> Option<Encoded> {
        let check = TextCheck::of(records, self.dialect.family);
        for row in rows {
            let text = records.start(row + 1) - records.start(row);
            if text > LONGEST_TEXT_BYTES {
                return Some(Encoded { row, stop: Some(Stop::TooLarge) });
            }
            let stop = match self.fill_values::<PLAIN>(records, row, text, check) {
                // SAFETY: its values were just written.
                Ok(shape) => match unsafe { self.tuples.put(shape, pages) } {
                    None => continue,
                    Some(stop) => stop,
                },
                Err(problem) if skip(&problem) => continue,
                Err(problem) => Stop::Problem(problem),
            };
            return Some(Encoded { row, stop: Some(stop) });
        }
        None
    }

    /// Writes a record's values into the scratch memory, as `heap_fill_tuple` does.
    #[inline(always)]
    fn fill_values<const PLAIN: bool>(
        &mut self,
        records: &Records<'_>,
        row: usize,
        text: usize,
        check: TextCheck,
    ) -> Result<Shape, Problem> {
        let begin = self.tuples.scratch(2 * text + self.padding + FIXED_BYTES * self.attributes.len());
        let record = records.record::<PLAIN>(row);
        let mut to = begin;
        let mut shape = Shape::default();
        for (index, attribute) in self.attributes.iter().enumerate() {
            let Some(place) = attribute.field else {
                self.tuples.note_null(&mut shape, index);
                continue;
            };
            // SAFETY: the caller has seen that records have all fields.
            let field = unsafe { record.field(place) };
            let Some(text) = self.decoder.decode(field, place) else {
                if attribute.not_null {
                    return Err(Problem::value(records, row, place, NULL_NOT_ALLOWED));
                }
                self.tuples.note_null(&mut shape, index);
                continue;
            };
            // SAFETY: there is room for twice the text of all fields, for what they may be padded with, and
            // for the fixed bytes of each.
            match unsafe { datum::put(attribute.hot, &attribute.kind, field, text, check, self.server, to) } {
                Ok(end) => to = end,
                Err(refusal) => return Err(Problem::value(records, row, place, refusal)),
            }
        }
        shape.length = to as usize - begin as usize;
        Ok(shape)
    }
}

const NULL_NOT_ALLOWED: crate::value::Refusal = crate::value::Refusal::NullNotAllowed;
