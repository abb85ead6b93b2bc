//! Conformed batches as complete heap pages of PostgreSQL (see [`crate::encode::heap`]).

use super::values::{self, Values};
use super::{BatchProblem, Unfit, strings};
use crate::column::Column;
use crate::encode::heap::datum::{put_any_text, put_fixed, put_other_numeric, put_scaled};
use crate::encode::heap::tuple::{TupleLoop, TupleMaker};
use crate::encode::heap::{Encoded, FIXED_BYTES, LONGEST_TEXT_BYTES, PageBuffer, PageLayout, ROW_SLACK_BYTES, Stop};
use crate::encode::strip::{Strip, StripValues};
use crate::value::reader::{Reader, Words};
use crate::value::{self, Refusal, ServerVersion};
use arrow_array::RecordBatch;
use arrow_buffer::NullBuffer;
use std::convert::Infallible;
use std::ops::{DerefMut, Range};

/// Makes the pages of one stream of batches.
#[derive(Debug)]
pub struct BatchPageEncoder {
    /// Of each attribute, the column of the batches that it comes from; without one it is NULL.
    fields: Vec<Option<usize>>,
    columns: Vec<Column>,
    server: ServerVersion,
    strip: Strip,
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
        let strip = Strip::new(fields.len());
        Ok(Self { fields: fields.to_vec(), columns: columns.to_vec(), server, strip, tuples })
    }

    /// Puts some rows of a batch into `pages`; `None` where it came to their end. Stops at the first that cannot be stored,
    /// at one that fits no page, and where no page is left.
    pub fn encode<M: DerefMut<Target = [u8]>>(
        &mut self,
        batch: &RecordBatch,
        mut rows: Range<usize>,
        pages: &mut PageBuffer<M>,
    ) -> Option<Encoded<BatchProblem>> {
        let attributes: Vec<_> = (self.fields.iter())
            .map(|field| field.map(|index| values::of_column(batch, index, &self.columns[index].kind)))
            .collect();
        let fixed = FIXED_BYTES * attributes.len() + ROW_SLACK_BYTES;
        let text = |row: usize| -> usize {
            let present =
                attributes.iter().flatten().filter(|(_, nulls)| !nulls.is_some_and(|nulls| nulls.is_null(row)));
            present.map(|(values, _)| values.text_bytes(row)).sum()
        };
        while !rows.is_empty() {
            let short = rows.clone().map(|row| (row, text(row))).take_while(|&(_, text)| text <= LONGEST_TEXT_BYTES);
            let count = self.strip.begin(short.map(|(row, text)| (row, 2 * text + fixed)));
            if count == 0 {
                self.strip.break_off();
                return Some(Encoded { row: rows.start, stop: Some(Stop::TooLarge) });
            }
            for (index, attribute) in attributes.iter().enumerate() {
                match attribute {
                    Some((values, nulls)) => fill(&mut self.strip, index, values, *nulls, self.server),
                    None => self.strip.all_null(index),
                }
            }
            let mut ended = (0, None);
            let (strip, tuples) = (&self.strip, &self.tuples);
            pages.lend(|pages| Words.run(TupleLoop { strip, tuples, pages, rows: 0..count, ended: &mut ended }));
            let (place, stop) = ended;
            let row = rows.start + place;
            let refused = self.strip.refusal(place).filter(|_| stop.is_none()).map(|(attribute, refusal)| {
                // An attribute with values has a column.
                let column = self.fields[attribute].unwrap_or(0);
                Stop::Problem(BatchProblem { row, column, unfit: Unfit::Refused(refusal) })
            });
            if let Some(stop) = stop.or(refused) {
                if stop != Stop::Full {
                    self.strip.break_off();
                }
                return Some(Encoded { row, stop: Some(stop) });
            }
            self.strip.use_up();
            rows.start += count;
        }
        None
    }
}

/// Fills a column of a strip; what a value is refused for is what [`super::copy_binary`] says of it.
fn fill(strip: &mut Strip, index: usize, values: &Values<'_>, nulls: Option<&NullBuffer>, server: ServerVersion) {
    let mut column = StripColumn { strip, index, nulls };
    // SAFETY: there is room for `FIXED_BYTES` for each value and twice all text. No value of fixed width takes more than 8
    // bytes and 7 of alignment or the 16 of a UUID, a number of 38 digits less than `FIXED_BYTES`, a text its own length, 4
    // bytes of header and 3 of alignment.
    unsafe {
        match values {
            Values::Bool(array) => column.fill(|row, to| Ok(put_fixed(to, [u8::from(array.value(row))], 1))),
            Values::Int2(values) => column.fill(|row, to| Ok(put_fixed(to, values[row].to_le_bytes(), 2))),
            Values::Int4(values) => column.fill(|row, to| Ok(put_fixed(to, values[row].to_le_bytes(), 4))),
            Values::Int8(values) => column.fill(|row, to| Ok(put_fixed(to, values[row].to_le_bytes(), 8))),
            Values::Float4(values) => column.fill(|row, to| Ok(put_fixed(to, values[row].to_le_bytes(), 4))),
            Values::Float8(values) => column.fill(|row, to| Ok(put_fixed(to, values[row].to_le_bytes(), 8))),
            Values::Date(values) => {
                column.fill(|row, to| Ok(put_fixed(to, values::date(values[row])?.to_le_bytes(), 4)));
            }
            Values::Timestamp(values) => {
                column.fill(|row, to| Ok(put_fixed(to, values::timestamp(values[row])?.to_le_bytes(), 8)));
            }
            Values::Time(values) => {
                column.fill(|row, to| Ok(put_fixed(to, values::time(values[row])?.to_le_bytes(), 8)));
            }
            Values::Scaled64(values, scale) => {
                column.fill(|row, to| put_scaled(to, i128::from(values[row]), *scale));
            }
            Values::Scaled128(values, scale) => column.fill(|row, to| put_scaled(to, values[row], *scale)),
            Values::Number(texts, typmod) => {
                column.fill(|row, to| put_other_numeric(to, texts.value(row).as_bytes(), *typmod, server));
            }
            Values::Text(texts) => column.fill(|row, to| Ok(put_any_text(to, texts.value(row).as_bytes()))),
            Values::Bytes(bytes) => column.fill(|row, to| Ok(put_any_text(to, bytes.value(row)))),
            Values::Uuid(texts) => {
                column.fill(|row, to| Ok(put_fixed(to, value::uuid::parse(texts.value(row).as_bytes())?, 1)));
            }
            Values::AnyText(array) => column.fill(|row, to| Ok(put_any_text(to, strings::bytes(*array, row)))),
            Values::Unknown => column.fill(|_, _| Err(Refusal::Unsure)),
        }
    }
}

/// A column of a strip, and which of a batch's values are NULL.
struct StripColumn<'c> {
    strip: &'c mut Strip,
    index: usize,
    nulls: Option<&'c NullBuffer>,
}

impl StripColumn<'_> {
    /// Writes the values by `put`, which gets a value's row and its place, and says where it ends.
    ///
    /// # Safety
    /// As for [`Strip::each`].
    #[inline(always)]
    unsafe fn fill(&mut self, put: impl Fn(usize, *mut u8) -> Result<*mut u8, Refusal>) {
        // SAFETY: by the caller's promise.
        unsafe { self.strip.each(self.index, BatchValues { nulls: self.nulls, put }) };
    }
}

struct BatchValues<'b, F> {
    nulls: Option<&'b NullBuffer>,
    put: F,
}

impl<F: Fn(usize, *mut u8) -> Result<*mut u8, Refusal>> StripValues for BatchValues<'_, F> {
    type ByFour = Infallible;

    #[inline(always)]
    fn by_four(&self) -> Option<Infallible> {
        None
    }

    #[inline(always)]
    unsafe fn put(&mut self, row: usize, to: *mut u8) -> Option<*mut u8> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        (self.put)(row, to).ok()
    }

    unsafe fn put_any(&mut self, row: usize, to: *mut u8) -> Result<Option<*mut u8>, Refusal> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) { Ok(None) } else { (self.put)(row, to).map(Some) }
    }
}
