//! Counts record ends outside quotes, 64 bytes at a time: one thread counts for all that parse.

#[cfg(target_arch = "x86_64")]
use crate::scan::block::Avx2;
use crate::scan::block::{Block, Portable};

/// The bytes `end` outside quotes, and whether the bytes end inside quotes.
pub(super) fn count(bytes: &[u8], inside: bool, quote: u8, end: u8) -> (u64, bool) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the features were just found.
        return unsafe { count_avx2(bytes, inside, quote, end) };
    }
    // SAFETY: the portable block needs no feature.
    unsafe { count_with::<Portable>(bytes, inside, quote, end) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_avx2(bytes: &[u8], inside: bool, quote: u8, end: u8) -> (u64, bool) {
    // SAFETY: this function has the features.
    unsafe { count_with::<Avx2>(bytes, inside, quote, end) }
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
        let (quotes, ends) = unsafe {
            let block = B::load(block.as_ptr());
            (block.equals(quote), block.equals(end))
        };
        let inside = prefix_xor(quotes) ^ carry;
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

/// Bit i is the parity of the bits 0 to i.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}
