//! A tuple on its way to a page: its values are made elsewhere, because pages grow from the back and its length is known
//! last.

use super::Stop;
use super::layout::{
    FROZEN, HAS_NULL, HAS_VAR_WIDTH, HOFF_AT, INFOMASK_AT, INFOMASK2_AT, PageLayout, Storage, TUPLE_HEADER_BYTES,
    max_align,
};
use super::pages::PageBuffer;
use crate::column::ColumnType;
use crate::encode::strip::Strip;
use crate::value::reader::Loop;
use std::ops::Range;

/// The header of a tuple without NULLs, aligned.
const PLAIN_HEADER_BYTES: usize = max_align(TUPLE_HEADER_BYTES);

/// What the tuples of a relation have in common.
#[derive(Debug)]
pub(in crate::encode) struct TupleMaker {
    layout: PageLayout,
    /// The longest tuple that goes on a page as it is.
    longest: usize,
    attributes: usize,
    /// A bit for each attribute whose values differ in length.
    varies: Vec<u8>,
    /// The header of a tuple without NULLs.
    header: [u8; PLAIN_HEADER_BYTES],
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
        let mut header = [0; PLAIN_HEADER_BYTES];
        header[INFOMASK2_AT..INFOMASK_AT].copy_from_slice(&(kinds.len() as u16).to_le_bytes());
        let infomask = FROZEN | if may_be_toasted { HAS_VAR_WIDTH } else { 0 };
        header[INFOMASK_AT..HOFF_AT].copy_from_slice(&infomask.to_le_bytes());
        header[HOFF_AT] = PLAIN_HEADER_BYTES as u8;
        Ok(Self { layout, longest, attributes: kinds.len(), varies, header })
    }

    /// What its pages have in common.
    pub(in crate::encode) fn layout(&self) -> PageLayout {
        self.layout
    }

    /// Puts the tuple on a page whose `length` bytes of values are at `values`; `present` has a bit for each attribute that
    /// is not NULL, where one is.
    ///
    /// # Safety
    /// The values can be read there.
    #[inline(always)]
    unsafe fn put<P>(
        &self,
        (values, length): (*const u8, usize),
        present: Option<&[u8]>,
        pages: &mut PageBuffer<&mut [u8]>,
    ) -> Option<Stop<P>> {
        let header = max_align(TUPLE_HEADER_BYTES + present.map_or(0, <[u8]>::len));
        if header + length > self.longest {
            return Some(Stop::TooLarge);
        }
        let Some(tuple) = pages.place(header + length) else { return Some(Stop::Full) };
        // The bytes up to the alignment, before others are written over some of them. Not behind the values, where they would
        // be copied with them: a load that meets a store of a part of it waits until all stores before that one have come
        // to the cache, and those are of pages that another core has had last.
        let end = tuple.len();
        tuple[end - 8..].copy_from_slice(&[0; 8]);
        // SAFETY: by the caller's promise; the tuple's place is as long as header and values, and nobody else knows it.
        unsafe { copy_bytes(values, tuple.as_mut_ptr().add(header), length) };
        tuple[..PLAIN_HEADER_BYTES].copy_from_slice(&self.header);
        if let Some(present) = present {
            self.put_bitmap(&mut tuple[..header], present);
        }
        None
    }

    /// Completes the header of a tuple with NULLs.
    #[inline(never)]
    fn put_bitmap(&self, head: &mut [u8], present: &[u8]) {
        let has_var_width = self.varies.iter().zip(present).any(|(varies, present)| varies & present != 0);
        let infomask = FROZEN | HAS_NULL | if has_var_width { HAS_VAR_WIDTH } else { 0 };
        head[INFOMASK_AT..HOFF_AT].copy_from_slice(&infomask.to_le_bytes());
        head[HOFF_AT] = head.len() as u8;
        let bits = &mut head[TUPLE_HEADER_BYTES..];
        bits.fill(0);
        bits[..present.len()].copy_from_slice(present);
        // Bits behind the last attribute are zero.
        let used = self.attributes % 8;
        if used > 0 {
            bits[present.len() - 1] &= (1 << used) - 1;
        }
    }
}

/// Puts the rows of a strip on pages, up to one that was refused, that fits none, or for which none is left.
pub(in crate::encode) struct TupleLoop<'l, 'm, P> {
    pub(in crate::encode) strip: &'l Strip,
    pub(in crate::encode) tuples: &'l TupleMaker,
    pub(in crate::encode) pages: &'l mut PageBuffer<&'m mut [u8]>,
    /// The places of the rows to be put.
    pub(in crate::encode) rows: Range<usize>,
    /// The place that it came to, and why it stopped, where it is not for a refusal.
    pub(in crate::encode) ended: &'l mut (usize, Option<Stop<P>>),
}

impl<P> Loop for TupleLoop<'_, '_, P> {
    #[inline(always)]
    fn run(self) {
        let Self { strip, tuples, pages, rows, ended } = self;
        let (end, made) = (rows.end, strip.rows());
        *ended = pages.lend(|pages| {
            for place in rows {
                if made.is_refused(place) {
                    return (place, None);
                }
                // SAFETY: a strip's rows can be read.
                let stop = unsafe { tuples.put(made.row(place), made.present(place), pages) };
                if stop.is_some() {
                    return (place, stop);
                }
            }
            (end, None)
        });
    }
}

/// Copies `length` bytes without a call, if it is not few: tuples are short, and their lengths differ.
///
/// # Safety
/// So many bytes can be read and written, and do not overlap.
#[inline(always)]
unsafe fn copy_bytes(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: by the caller's promise; the last block ends with the bytes, over some that were copied before.
    unsafe {
        match length {
            32.. => copy_blocks::<32>(from, to, length),
            16.. => copy_blocks::<16>(from, to, length),
            8.. => copy_blocks::<8>(from, to, length),
            _ => copy_blocks::<1>(from, to, length),
        }
    }
}

/// [`copy_bytes`] of as many bytes at once, which there are, or none.
///
/// # Safety
/// As for [`copy_bytes`].
#[inline(always)]
unsafe fn copy_blocks<const BLOCK: usize>(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        let copy = |at: usize| to.add(at).cast::<[u8; BLOCK]>().write(from.add(at).cast::<[u8; BLOCK]>().read());
        let mut at = 0;
        while at + BLOCK < length {
            copy(at);
            at += BLOCK;
        }
        if length > 0 {
            copy(length - BLOCK);
        }
    }
}
