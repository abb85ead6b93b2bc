//! A tuple on its way to a page: its values are made in scratch memory, because pages grow from the back and its length is
//! known last.

use super::Stop;
use super::layout::{
    FROZEN, HAS_NULL, HAS_VAR_WIDTH, HOFF_AT, INFOMASK_AT, INFOMASK2_AT, PageLayout, Storage, TUPLE_HEADER_BYTES,
    max_align,
};
use super::pages::PageBuffer;
use crate::column::ColumnType;
use std::ops::DerefMut;

/// The header of a tuple without NULLs, aligned.
const PLAIN_HEADER_BYTES: usize = max_align(TUPLE_HEADER_BYTES);

/// What the tuples of a relation have in common, and room for the values of one.
#[derive(Debug)]
pub(in crate::encode) struct TupleMaker {
    layout: PageLayout,
    /// The longest tuple that goes on a page as it is.
    longest: usize,
    /// Aligned as a tuple is.
    scratch: Vec<u64>,
    /// The bitmap of a tuple: a bit for each attribute that is not NULL.
    present: Vec<u8>,
    attributes: usize,
    /// A bit for each attribute whose values differ in length.
    varies: Vec<u8>,
    /// The header of a tuple without NULLs.
    header: [u8; PLAIN_HEADER_BYTES],
}

/// What a tuple's header has to say of its values.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::encode) struct Shape {
    /// Bytes of all values.
    pub(in crate::encode) length: usize,
    has_null: bool,
}

impl TupleMaker {
    /// Of a relation with attributes of these types; one without a type is always NULL.
    ///
    /// # Errors
    /// The first attribute of a type whose values cannot be put on pages.
    pub(in crate::encode) fn new(kinds: &[Option<&ColumnType>], layout: PageLayout) -> Result<Self, usize> {
        let mut varies = vec![0; kinds.len().div_ceil(8)];
        let mut may_be_toasted = false;
        for (index, kind) in kinds.iter().enumerate() {
            let storage = kind.map(|kind| Storage::of(kind).ok_or(index)).transpose()?;
            may_be_toasted |= storage.is_some_and(|storage| storage.width.is_none());
            let differs = storage.is_none_or(|storage| storage.width.is_none());
            varies[index / 8] |= u8::from(differs) << (index % 8);
        }
        let longest = if may_be_toasted { layout.toast_threshold() } else { layout.largest_tuple() };
        let present = vec![0; varies.len()];
        let mut header = [0; PLAIN_HEADER_BYTES];
        header[INFOMASK2_AT..INFOMASK_AT].copy_from_slice(&(kinds.len() as u16).to_le_bytes());
        let infomask = FROZEN | if may_be_toasted { HAS_VAR_WIDTH } else { 0 };
        header[INFOMASK_AT..HOFF_AT].copy_from_slice(&infomask.to_le_bytes());
        header[HOFF_AT] = PLAIN_HEADER_BYTES as u8;
        Ok(Self { layout, longest, scratch: Vec::new(), present, attributes: kinds.len(), varies, header })
    }

    /// What its pages have in common.
    pub(in crate::encode) fn layout(&self) -> PageLayout {
        self.layout
    }

    /// Where to write the next tuple's values, `room` bytes at most; aligned as they are in a tuple.
    #[inline(always)]
    pub(in crate::encode) fn scratch(&mut self, room: usize) -> *mut u8 {
        self.scratch.reserve(room.div_ceil(8));
        self.scratch.as_mut_ptr().cast()
    }

    /// An attribute of the tuple is NULL.
    #[inline(never)]
    pub(in crate::encode) fn note_null(&mut self, shape: &mut Shape, index: usize) {
        if !shape.has_null {
            // The bitmap is valid only once there is one.
            shape.has_null = true;
            self.present.fill(0xFF);
        }
        self.present[index / 8] &= !(1 << (index % 8));
    }

    /// Puts the tuple on a page.
    ///
    /// # Safety
    /// So many bytes as the shape says were written where [`TupleMaker::scratch`] has said last.
    #[inline(always)]
    pub(in crate::encode) unsafe fn put<P, M: DerefMut<Target = [u8]>>(
        &self,
        shape: Shape,
        pages: &mut PageBuffer<M>,
    ) -> Option<Stop<P>> {
        let bitmap = if shape.has_null { self.present.len() } else { 0 };
        let header = max_align(TUPLE_HEADER_BYTES + bitmap);
        let length = header + shape.length;
        if length > self.longest {
            return Some(Stop::TooLarge);
        }
        let Some(tuple) = pages.place(length) else { return Some(Stop::Full) };
        let (head, values) = tuple.split_at_mut(header);
        // SAFETY: by the caller's promise.
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
        let has_var_width = self.varies.iter().zip(&self.present).any(|(varies, present)| varies & present != 0);
        let infomask = FROZEN | HAS_NULL | if has_var_width { HAS_VAR_WIDTH } else { 0 };
        head[INFOMASK_AT..HOFF_AT].copy_from_slice(&infomask.to_le_bytes());
        head[HOFF_AT] = head.len() as u8;
        let bits = &mut head[TUPLE_HEADER_BYTES..];
        bits.fill(0);
        bits[..self.present.len()].copy_from_slice(&self.present);
        // Bits behind the last attribute are zero.
        let used = self.attributes % 8;
        if used > 0 {
            bits[self.present.len() - 1] &= (1 << used) - 1;
        }
    }
}
