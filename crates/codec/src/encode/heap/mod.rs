//! Records as complete heap pages of PostgreSQL, as COPY with FREEZE would leave them (`heap_form_tuple`,
//! `heap_multi_insert`): the server checks and appends them, and no work per row is left to it.
//!
//! Advice for whoever works here: a tuple is written into scratch memory first, because pages grow from the back and
//! its length is known last; the loop over fields is that of `copy_binary.rs`, with what is said there.

mod datum;
mod layout;
mod pages;
pub mod read;

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
use layout::{
    FROZEN, HAS_NULL, HAS_VAR_WIDTH, HOFF_AT, INFOMASK_AT, INFOMASK2_AT, Storage, TUPLE_HEADER_BYTES, max_align,
};
use std::ops::DerefMut;

/// Records of more text than this are left to the server without a look: no page would hold them.
const LONGEST_TEXT_BYTES: usize = 256 << 10;

/// Bytes of scratch for a field beyond twice its text: fixed width, alignment, header, what block copies overshoot.
const FIXED_BYTES: usize = 48 + SLACK_BYTES;

/// An attribute of the relation.
#[derive(Debug, Clone)]
struct Attribute {
    hot: HotType,
    kind: ColumnType,
    not_null: bool,
    /// Whether values differ in length.
    varies: bool,
    /// The field that it comes from; without one it is NULL.
    field: Option<usize>,
}

/// Why the encoder came to a halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// All memory is full.
    Full,
    /// A tuple that the server would compress, or store in part elsewhere.
    TooLarge,
    /// A record that cannot be stored, or that only the server can read.
    Problem(Problem),
}

/// How far the encoder came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// The record that it stopped at; the number of records where it did not.
    pub row: usize,
    /// Why, if it did.
    pub stop: Option<Stop>,
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
    layout: PageLayout,
    /// The longest tuple that goes on a page as it is.
    longest: usize,
    /// Room for the values of a tuple, aligned as a tuple is.
    scratch: Vec<u64>,
    /// Its bitmap: a bit for each attribute that is not NULL.
    present: Vec<u8>,
    /// Spaces that `char(n)` may add to a record.
    padding: usize,
    /// The header of a tuple without NULLs.
    header: [u8; PLAIN_HEADER_BYTES],
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
        let mut attributes = Vec::with_capacity(fields.len());
        let mut may_be_toasted = false;
        let mut padding = 0;
        for &field in fields {
            let Some(index) = field else {
                let kind = ColumnType::Text;
                attributes.push(Attribute { hot: HotType::of(&kind), kind, not_null: false, varies: true, field });
                continue;
            };
            let column = &columns[index];
            let storage = Storage::of(&column.kind).ok_or(column)?;
            may_be_toasted |= storage.width.is_none();
            if let ColumnType::Char { limit } = column.kind {
                padding += limit as usize;
            }
            attributes.push(Attribute {
                hot: HotType::of(&column.kind),
                kind: column.kind.clone(),
                not_null: column.not_null,
                varies: storage.width.is_none(),
                field,
            });
        }
        let longest = if may_be_toasted { layout.toast_threshold() } else { layout.largest_tuple() };
        let decoder = Decoder::new(dialect.clone());
        let present = vec![0; attributes.len().div_ceil(8)];
        let mut header = [0; PLAIN_HEADER_BYTES];
        header[INFOMASK2_AT..INFOMASK_AT].copy_from_slice(&(attributes.len() as u16).to_le_bytes());
        let infomask = FROZEN | if may_be_toasted { HAS_VAR_WIDTH } else { 0 };
        header[INFOMASK_AT..HOFF_AT].copy_from_slice(&infomask.to_le_bytes());
        header[HOFF_AT] = PLAIN_HEADER_BYTES as u8;
        let scratch = Vec::new();
        let fields = fields.iter().flatten().max().map_or(0, |last| last + 1);
        Ok(Self { attributes, fields, decoder, dialect, server, layout, longest, scratch, present, padding, header })
    }

    /// What its pages have in common.
    #[must_use]
    pub fn layout(&self) -> PageLayout {
        self.layout
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
                Ok(shape) => match self.put_tuple(shape, pages) {
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
        let room = 2 * text + self.padding + FIXED_BYTES * self.attributes.len();
        self.scratch.reserve(room.div_ceil(8));
        let begin = self.scratch.as_mut_ptr().cast::<u8>();
        let record = records.record::<PLAIN>(row);
        let mut to = begin;
        let mut shape = Shape { length: 0, has_null: false };
        for (index, attribute) in self.attributes.iter().enumerate() {
            let Some(place) = attribute.field else {
                shape.note_null(&mut self.present, index);
                continue;
            };
            // SAFETY: the caller has seen that records have all fields.
            let field = unsafe { record.field(place) };
            let Some(text) = self.decoder.decode(field, place) else {
                if attribute.not_null {
                    return Err(Problem::value(records, row, place, NULL_NOT_ALLOWED));
                }
                shape.note_null(&mut self.present, index);
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

    /// Puts the values on a page.
    #[inline(always)]
    fn put_tuple<M: DerefMut<Target = [u8]>>(&self, shape: Shape, pages: &mut PageBuffer<M>) -> Option<Stop> {
        let bitmap = if shape.has_null { self.present.len() } else { 0 };
        let header = max_align(TUPLE_HEADER_BYTES + bitmap);
        let length = header + shape.length;
        if length > self.longest {
            return Some(Stop::TooLarge);
        }
        let Some(tuple) = pages.place(length) else { return Some(Stop::Full) };
        let (head, values) = tuple.split_at_mut(header);
        // SAFETY: so many bytes of the scratch memory were just written.
        let made = unsafe { std::slice::from_raw_parts(self.scratch.as_ptr().cast::<u8>(), shape.length) };
        values.copy_from_slice(made);
        head[..PLAIN_HEADER_BYTES].copy_from_slice(&self.header);
        if shape.has_null {
            self.put_bitmap(head);
        }
        None
    }

    /// Completes the header of a tuple with NULLs.
    #[inline(never)]
    fn put_bitmap(&self, head: &mut [u8]) {
        let present = |index: usize| self.present[index / 8] & 1 << (index % 8) != 0;
        let has_var_width = (0..).zip(&self.attributes).any(|(index, attribute)| attribute.varies && present(index));
        let infomask = FROZEN | HAS_NULL | if has_var_width { HAS_VAR_WIDTH } else { 0 };
        head[INFOMASK_AT..HOFF_AT].copy_from_slice(&infomask.to_le_bytes());
        head[HOFF_AT] = head.len() as u8;
        let bits = &mut head[TUPLE_HEADER_BYTES..];
        bits.fill(0);
        bits[..self.present.len()].copy_from_slice(&self.present);
        // Bits behind the last attribute are zero.
        let used = self.attributes.len() % 8;
        if used > 0 {
            bits[self.present.len() - 1] &= (1 << used) - 1;
        }
    }
}

/// The header of a tuple without NULLs, aligned.
const PLAIN_HEADER_BYTES: usize = max_align(TUPLE_HEADER_BYTES);

const NULL_NOT_ALLOWED: crate::value::Refusal = crate::value::Refusal::NullNotAllowed;

/// What a tuple's header has to say of its values.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Bytes of all values.
    length: usize,
    has_null: bool,
}

impl Shape {
    /// An attribute is NULL; `present` is the bitmap of those that are not, valid once there is one.
    #[inline(never)]
    fn note_null(&mut self, present: &mut [u8], index: usize) {
        if !self.has_null {
            self.has_null = true;
            present.fill(0xFF);
        }
        present[index / 8] &= !(1 << (index % 8));
    }
}
