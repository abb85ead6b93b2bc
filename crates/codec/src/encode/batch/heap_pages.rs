//! Conformed batches as complete heap pages of PostgreSQL (see [`crate::encode::heap`]).

use super::values::{self, Values};
use super::{BatchProblem, Unfit, strings};
use crate::column::Column;
use crate::encode::heap::datum::{put_any_text, put_fixed, put_other_numeric, put_scaled};
use crate::encode::heap::tuple::{Shape, TupleMaker};
use crate::encode::heap::{Encoded, FIXED_BYTES, LONGEST_TEXT_BYTES, PageBuffer, PageLayout, Stop};
use crate::value::{Refusal, ServerVersion};
use arrow_array::RecordBatch;
use std::ops::DerefMut;

/// Makes the pages of one stream of batches.
#[derive(Debug)]
pub struct BatchPageEncoder {
    /// Of each attribute, the column of the batches that it comes from; without one it is NULL.
    fields: Vec<Option<usize>>,
    columns: Vec<Column>,
    server: ServerVersion,
    tuples: TupleMaker,
}

impl BatchPageEncoder {
    /// An encoder for a relation whose attributes come from the columns that `fields` names; an attribute without one is
    /// NULL.
    ///
    /// # Errors
    /// The column, where values of its type cannot be put on pages.
    pub fn new<'c>(
        columns: &'c [Column],
        fields: &[Option<usize>],
        server: ServerVersion,
        layout: PageLayout,
    ) -> Result<Self, &'c Column> {
        let kinds: Vec<_> = fields.iter().map(|field| field.map(|index| &columns[index].kind)).collect();
        let tuples = TupleMaker::new(&kinds, layout).map_err(|attribute| &columns[fields[attribute].unwrap_or(0)])?;
        Ok(Self { fields: fields.to_vec(), columns: columns.to_vec(), server, tuples })
    }

    /// Puts the rows of a batch that `rows` names into `pages`; `None` where it came to their end. Stops at the first that
    /// cannot be stored, at one that fits no page, and where no page is left.
    pub fn encode<M: DerefMut<Target = [u8]>>(
        &mut self,
        batch: &RecordBatch,
        rows: &mut impl Iterator<Item = usize>,
        pages: &mut PageBuffer<M>,
    ) -> Option<Encoded<BatchProblem>> {
        let attributes: Vec<_> = (self.fields.iter())
            .map(|field| field.map(|index| values::of_column(batch, index, &self.columns[index].kind)))
            .collect();
        for row in rows {
            let present =
                attributes.iter().flatten().filter(|(_, nulls)| !nulls.is_some_and(|nulls| nulls.is_null(row)));
            let text: usize = present.map(|(values, _)| values.text_bytes(row)).sum();
            if text > LONGEST_TEXT_BYTES {
                return Some(Encoded { row, stop: Some(Stop::TooLarge) });
            }
            let begin = self.tuples.scratch(2 * text + FIXED_BYTES * attributes.len());
            let mut to = begin;
            let mut shape = Shape::default();
            for (index, attribute) in attributes.iter().enumerate() {
                let put = match attribute {
                    Some((values, nulls)) if !nulls.is_some_and(|nulls| nulls.is_null(row)) => {
                        // SAFETY: there is room for twice the text of all values, and for the fixed bytes of each.
                        unsafe { put(values, row, self.server, to) }
                    }
                    _ => {
                        self.tuples.note_null(&mut shape, index);
                        continue;
                    }
                };
                match put {
                    Ok(end) => to = end,
                    Err(refusal) => {
                        // An attribute with values has a column.
                        let column = self.fields[index].unwrap_or(0);
                        let problem = BatchProblem { row, column, unfit: Unfit::Refused(refusal) };
                        return Some(Encoded { row, stop: Some(Stop::Problem(problem)) });
                    }
                }
            }
            shape.length = to as usize - begin as usize;
            // SAFETY: its values were just written.
            let stop = unsafe { self.tuples.put(shape, pages) };
            if stop.is_some() {
                return Some(Encoded { row, stop });
            }
        }
        None
    }
}

/// Writes a value at `to` and gives where it ends. How `to` is aligned is how the value is in its tuple.
///
/// # Errors
/// What [`super::copy_binary`] says of the same value.
///
/// # Safety
/// There is room for [`FIXED_BYTES`] and twice the text.
#[inline(always)]
unsafe fn put(values: &Values<'_>, row: usize, server: ServerVersion, to: *mut u8) -> Result<*mut u8, Refusal> {
    // SAFETY: by the caller's promise: no value of fixed width takes more than 8 bytes and 7 of alignment, a number of 38
    // digits less than `FIXED_BYTES`, a text its own length, 4 bytes of header and 3 of alignment.
    unsafe {
        Ok(match values {
            Values::Bool(array) => put_fixed(to, [u8::from(array.value(row))], 1),
            Values::Int2(values) => put_fixed(to, values[row].to_le_bytes(), 2),
            Values::Int4(values) => put_fixed(to, values[row].to_le_bytes(), 4),
            Values::Int8(values) => put_fixed(to, values[row].to_le_bytes(), 8),
            Values::Float4(values) => put_fixed(to, values[row].to_le_bytes(), 4),
            Values::Float8(values) => put_fixed(to, values[row].to_le_bytes(), 8),
            Values::Date(values) => put_fixed(to, values::date(values[row])?.to_le_bytes(), 4),
            Values::Timestamp(values) => put_fixed(to, values::timestamp(values[row])?.to_le_bytes(), 8),
            Values::Scaled64(values, scale) => put_scaled(to, i128::from(values[row]), *scale)?,
            Values::Scaled128(values, scale) => put_scaled(to, values[row], *scale)?,
            Values::Number(texts, typmod) => put_other_numeric(to, texts.value(row).as_bytes(), *typmod, server)?,
            Values::Text(texts) => put_any_text(to, texts.value(row).as_bytes()),
            Values::AnyText(array) => put_any_text(to, strings::bytes(*array, row)),
            Values::Unknown => return Err(Refusal::Unsure),
        })
    }
}
