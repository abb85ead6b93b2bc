//! Counts and finds record ends outside quotes, 64 bytes at a time: one thread counts for all that parse, and a source
//! with quotes is looked through as a whole before it is loaded.

#[cfg(target_arch = "x86_64")]
use crate::scan::block::{Avx2, Avx512};
use crate::scan::block::{Block, Portable};

/// The bytes `end` outside quotes, and whether the bytes end inside quotes.
pub(super) fn count(bytes: &[u8], inside: bool, quote: u8, end: u8) -> (u64, bool) {
    #[cfg(target_arch = "x86_64")]
    if Avx512::found() {
        // SAFETY: the features were just found.
        return unsafe { count_avx512(bytes, inside, quote, end) };
    } else if Avx2::found() {
        // SAFETY: the features were just found.
        return unsafe { count_avx2(bytes, inside, quote, end) };
    }
    // SAFETY: the portable block needs no feature.
    unsafe { count_with::<Portable>(bytes, inside, quote, end) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,pclmulqdq,popcnt,bmi1,bmi2")]
fn count_avx512(bytes: &[u8], inside: bool, quote: u8, end: u8) -> (u64, bool) {
    // SAFETY: this function has the features.
    unsafe { count_with::<Avx512>(bytes, inside, quote, end) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,popcnt")]
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
    #[cfg(target_arch = "x86_64")]
    if Avx512::found() {
        // SAFETY: the features were just found.
        return unsafe { first_ends_avx512(bytes, quote, end) };
    } else if Avx2::found() {
        // SAFETY: the features were just found.
        return unsafe { first_ends_avx2(bytes, quote, end) };
    }
    // SAFETY: the portable block needs no feature.
    unsafe { first_ends_with::<Portable>(bytes, quote, end) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,pclmulqdq,popcnt,bmi1,bmi2")]
fn first_ends_avx512(bytes: &[u8], quote: u8, end: u8) -> ([Option<usize>; 2], bool) {
    // SAFETY: this function has the features.
    unsafe { first_ends_with::<Avx512>(bytes, quote, end) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn first_ends_avx2(bytes: &[u8], quote: u8, end: u8) -> ([Option<usize>; 2], bool) {
    // SAFETY: this function has the features.
    unsafe { first_ends_with::<Avx2>(bytes, quote, end) }
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
