//! Quotes that are escaped by doubling them, 64 bytes at a time.
//!
//! In most texts a few dozen bytes lie between two quotes: to look for each quote, and to copy what is before it, takes several
//! times as long as to find out for a whole block which bytes stay.

use crate::scan::RawField;
#[cfg(test)]
use crate::scan::block::each_block;
use crate::scan::block::{BLOCK_BYTES, Block, KEPT_READ_BYTES, by_best_block};

/// Writes what a field holds into `text`: without the quotes around it, and with one for each two in it. If it returns false,
/// the field has other quotes, or stands too near to the window's end, and `text` means nothing.
pub(super) fn undouble(field: RawField<'_>, quote: u8, text: &mut Vec<u8>) -> bool {
    let [first, inner @ .., last] = field.bytes else { return false };
    if *first != quote || *last != quote {
        return false;
    }
    // The field's own quote stands before the text.
    let readable = field.readable - 1;
    // What `undouble_with` is promised: the text is a part of the field, from which on so many bytes can be read.
    by_best_block!(undouble_with(inner: &[u8], readable: usize, quote: u8, text: &mut Vec<u8>) -> bool)
}

/// What each of the processor's instructions makes of a field between quotes, for comparison in tests.
#[cfg(test)]
pub(super) fn by_each(field: RawField<'_>, quote: u8, mut check: impl FnMut(Option<&[u8]>)) {
    let inner = &field.bytes[1..field.bytes.len() - 1];
    each_block!(B => {
        let mut text = Vec::new();
        // SAFETY: so many bytes can be read behind the field's own quote, and the processor has the features.
        let known = unsafe { undouble_with::<B>(inner, field.readable - 1, quote, &mut text) };
        check(known.then_some(&text[..]));
    });
}

/// # Safety
/// From the start of `inner` on `readable` bytes can be read, and the CPU has the features that `B` needs.
#[inline(always)]
unsafe fn undouble_with<B: Block>(inner: &[u8], readable: usize, quote: u8, text: &mut Vec<u8>) -> bool {
    text.clear();
    text.reserve(inner.len() + KEPT_READ_BYTES);
    let (mut at, mut length) = (0, 0);
    // All bits are set behind an odd number of quotes.
    let mut carry = 0;
    while at < inner.len() {
        if readable - at < KEPT_READ_BYTES {
            return false;
        }
        let inside = u64::MAX >> (BLOCK_BYTES - (inner.len() - at).min(BLOCK_BYTES));
        // SAFETY: as many bytes can be read as was just seen, there is room for them behind what was written, which is no
        // more than was read, and the CPU has the features.
        unsafe {
            let from = inner.as_ptr().add(at);
            let quotes = B::load(from).equals(quote) & inside;
            let odd = B::prefix_xor(quotes) ^ carry;
            let (firsts, seconds) = (quotes & odd, quotes & !odd);
            // Each second one stands right behind a first.
            if (firsts << 1 | carry & 1) & inside != seconds {
                return false;
            }
            carry = if odd >> (BLOCK_BYTES - 1) == 1 { u64::MAX } else { 0 };
            let kept = inside & !seconds;
            B::write_kept(from, kept, text.as_mut_ptr().add(length));
            length += kept.count_ones() as usize;
        }
        at += BLOCK_BYTES;
    }
    // SAFETY: so many bytes were written.
    unsafe { text.set_len(length) };
    carry == 0
}
