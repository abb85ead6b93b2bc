//! Counts and finds record ends outside quotes, 64 bytes at a time: one thread counts for all that parse, and a source
//! with quotes is looked through as a whole before it is loaded.

#[cfg(test)]
use crate::scan::block::each_block;
use crate::scan::block::{Block, by_best_block};

/// The bytes `end` outside quotes, and whether the bytes end inside quotes.
pub(super) fn count(bytes: &[u8], inside: bool, quote: u8, end: u8) -> (u64, bool) {
    by_best_block!(count_with(bytes: &[u8], inside: bool, quote: u8, end: u8) -> (u64, bool))
}

/// # Safety
/// The CPU has the features that `B` needs.
#[inline(always)]
unsafe fn count_with<B: Block>(bytes: &[u8], inside: bool, quote: u8, end: u8) -> (u64, bool) {
    // All bits are set while the bytes before have left the reader inside quotes.
    let mut carry = if inside { u64::MAX } else { 0 };
    let mut records = 0;
    let (blocks, tail) = bytes.as_chunks::<64>();
    for block in blocks {
        // SAFETY: 64 bytes, and the features by the caller's promise.
        let (odd, ends) = unsafe {
            let block = B::load(block.as_ptr());
            (B::prefix_xor(block.equals(quote)), block.equals(end))
        };
        let inside = odd ^ carry;
        records += u64::from((ends & !inside).count_ones());
        carry = if inside >> 63 == 1 { u64::MAX } else { 0 };
    }
    let mut inside = carry != 0;
    for &byte in tail {
        inside ^= byte == quote;
        records += u64::from(byte == end && !inside);
    }
    (records, inside)
}

/// The first byte `end` outside quotes if the bytes begin outside quotes, the same if they begin inside, and whether
/// they hold an odd number of quotes.
pub(super) fn first_ends(bytes: &[u8], quote: u8, end: u8) -> ([Option<usize>; 2], bool) {
    by_best_block!(first_ends_with(bytes: &[u8], quote: u8, end: u8) -> ([Option<usize>; 2], bool))
}

/// # Safety
/// The CPU has the features that `B` needs.
#[inline(always)]
unsafe fn first_ends_with<B: Block>(bytes: &[u8], quote: u8, end: u8) -> ([Option<usize>; 2], bool) {
    let mut first = [None; 2];
    // All bits are set behind an odd number of quotes.
    let mut carry = 0;
    let (blocks, tail) = bytes.as_chunks::<64>();
    for (number, block) in blocks.iter().enumerate() {
        // SAFETY: 64 bytes, and the features by the caller's promise.
        let (odd, ends) = unsafe {
            let block = B::load(block.as_ptr());
            (B::prefix_xor(block.equals(quote)), block.equals(end))
        };
        let odd = odd ^ carry;
        for (first, ends) in first.iter_mut().zip([ends & !odd, ends & odd]) {
            if first.is_none() && ends != 0 {
                *first = Some(number * 64 + ends.trailing_zeros() as usize);
            }
        }
        carry = if odd >> 63 == 1 { u64::MAX } else { 0 };
    }
    let mut odd = carry != 0;
    for (position, &byte) in (blocks.len() * 64..).zip(tail) {
        odd ^= byte == quote;
        if byte == end {
            first[usize::from(odd)].get_or_insert(position);
        }
    }
    (first, odd)
}

/// Whether both functions say the same by each of the processor's instructions, for tests.
#[cfg(test)]
pub(super) fn agree(bytes: &[u8], quote: u8, end: u8) -> bool {
    let mut all = true;
    each_block!(B => {
        for inside in [false, true] {
            // SAFETY: the processor has the features.
            all &= unsafe { count_with::<B>(bytes, inside, quote, end) } == count(bytes, inside, quote, end);
        }
        // SAFETY: as above.
        all &= unsafe { first_ends_with::<B>(bytes, quote, end) } == first_ends(bytes, quote, end);
    });
    all
}
