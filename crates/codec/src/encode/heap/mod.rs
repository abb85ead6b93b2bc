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
    kind: ColumnType,
    not_null: bool,
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
    decoder: Decoder,
    dialect: Dialect,
    server: ServerVersion,
    layout: PageLayout,
    /// The longest tuple that goes on a page as it is.
    longest: usize,
    /// The values of a tuple, from its first that is not NULL.
    values: Vec<u8>,
    /// Its bitmap: a bit for each attribute that is not NULL.
    present: Vec<u8>,
    padding: usize,
    numeric: Vec<u8>,
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
                attributes.push(Attribute { kind: ColumnType::Text, not_null: false, field });
                continue;
            };
            let column = &columns[index];
            let storage = Storage::of(&column.kind).ok_or(column)?;
            may_be_toasted |= storage.width.is_none();
            if let ColumnType::Char { limit } = column.kind {
                padding += limit as usize;
            }
            attributes.push(Attribute { kind: column.kind.clone(), not_null: column.not_null, field });
        }
        let longest = if may_be_toasted { layout.toast_threshold() } else { layout.largest_tuple() };
        let decoder = Decoder::new(dialect.clone());
        let present = vec![0; attributes.len().div_ceil(8)];
        let values = Vec::new();
        let numeric = Vec::new();
        Ok(Self { attributes, decoder, dialect, server, layout, longest, values, present, padding, numeric })
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
        let check = TextCheck::of(records, self.dialect.family);
        for row in first..records.rows() {
            let text = records.start(row + 1) - records.start(row);
            if text > LONGEST_TEXT_BYTES {
                return Encoded { row, stop: Some(Stop::TooLarge) };
            }
            let stop = match self.fill_values(records, row, text, check) {
                Ok(shape) => match self.put_tuple(shape, pages) {
                    None => continue,
                    Some(stop) => stop,
                },
                Err(problem) if skip(&problem) => continue,
                Err(problem) => Stop::Problem(problem),
            };
            return Encoded { row, stop: Some(stop) };
        }
        Encoded { row: records.rows(), stop: Problem::structure(records).map(Stop::Problem) }
    }

    /// Writes a record's values into the scratch memory, as `heap_fill_tuple` does.
    #[inline(always)]
    fn fill_values(
        &mut self,
        records: &Records<'_>,
        row: usize,
        text: usize,
        check: TextCheck,
    ) -> Result<Shape, Problem> {
        let room = 2 * text + self.padding + FIXED_BYTES * self.attributes.len();
        self.values.clear();
        self.values.reserve(room);
        let mut shape = Shape { has_null: false, has_var_width: false };
        for (index, attribute) in self.attributes.iter().enumerate() {
            let value = attribute.field.and_then(|place| {
                let field = records.field(row, place);
                self.decoder.decode(field, place).map(|text| (field, text))
            });
            let Some((field, text)) = value else {
                if attribute.not_null {
                    return Err(Problem::value(records, row, attribute.field.unwrap_or(0), NULL_NOT_ALLOWED));
                }
                if !shape.has_null {
                    shape.has_null = true;
                    self.present.fill(0xFF);
                }
                self.present[index / 8] &= !(1 << (index % 8));
                continue;
            };
            // SAFETY: there is room for twice the text of all fields, for what they may be padded with, and
            // for the fixed bytes of each; `put` keeps it that way.
            let put = unsafe {
                datum::put(&attribute.kind, field, text, check, self.server, room, &mut self.numeric, &mut self.values)
            };
            match put {
                Ok(varies) => shape.has_var_width |= varies,
                Err(refusal) => return Err(Problem::value(records, row, attribute.field.unwrap_or(0), refusal)),
            }
        }
        Ok(shape)
    }

    /// Puts the values on a page.
    #[inline(always)]
    fn put_tuple<M: DerefMut<Target = [u8]>>(&self, shape: Shape, pages: &mut PageBuffer<M>) -> Option<Stop> {
        let bitmap = if shape.has_null { self.present.len() } else { 0 };
        let header = max_align(TUPLE_HEADER_BYTES + bitmap);
        let length = header + self.values.len();
        if length > self.longest {
            return Some(Stop::TooLarge);
        }
        let Some(tuple) = pages.place(length) else { return Some(Stop::Full) };
        let (head, values) = tuple.split_at_mut(header);
        head.fill(0);
        head[INFOMASK2_AT..INFOMASK_AT].copy_from_slice(&(self.attributes.len() as u16).to_le_bytes());
        let mut infomask = FROZEN;
        if shape.has_var_width {
            infomask |= HAS_VAR_WIDTH;
        }
        if shape.has_null {
            infomask |= HAS_NULL;
            let bits = &mut head[TUPLE_HEADER_BYTES..TUPLE_HEADER_BYTES + bitmap];
            bits.copy_from_slice(&self.present);
            // Bits behind the last attribute are zero.
            let used = self.attributes.len() % 8;
            if used > 0 {
                bits[bitmap - 1] &= (1 << used) - 1;
            }
        }
        head[INFOMASK_AT..HOFF_AT].copy_from_slice(&infomask.to_le_bytes());
        head[HOFF_AT] = header as u8;
        values.copy_from_slice(&self.values);
        None
    }
}

const NULL_NOT_ALLOWED: crate::value::Refusal = crate::value::Refusal::NullNotAllowed;

/// What a tuple's header has to say of its values.
#[derive(Debug, Clone, Copy)]
struct Shape {
    has_null: bool,
    has_var_width: bool,
}
