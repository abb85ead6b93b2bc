//! 64 bytes at a time: which of them equal a given byte, as a bit mask, and where a mask's bits are.
//!
//! Advice for whoever works here: `scan::flatten` is generic over [`Block`] and is compiled once per
//! implementation inside a function that has the target feature; a method that is not `#[inline(always)]` loses it.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;

/// Calls a function that is generic over [`Block`] for the best one of this processor, inside a function that has its target
/// features: those are named here and in `found`, and nowhere else.
macro_rules! by_best_block {
    ($work:ident($($name:ident: $kind:ty),*) -> $result:ty) => {{
        #[cfg(target_arch = "x86_64")]
        {
            use crate::scan::block::{Avx2, Avx512};

            #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,pclmulqdq,popcnt,bmi1,bmi2")]
            unsafe fn by_avx512($($name: $kind),*) -> $result {
                // SAFETY: this function has the features; the rest is the caller's promise.
                unsafe { $work::<Avx512>($($name),*) }
            }

            #[target_feature(enable = "avx2,bmi1,popcnt")]
            unsafe fn by_avx2($($name: $kind),*) -> $result {
                // SAFETY: as above.
                unsafe { $work::<Avx2>($($name),*) }
            }

            if Avx512::found() {
                // SAFETY: the features were just found; the rest is the caller's promise.
                return unsafe { by_avx512($($name),*) };
            } else if Avx2::found() {
                // SAFETY: as above.
                return unsafe { by_avx2($($name),*) };
            }
        }
        // SAFETY: the portable block needs no feature; the rest is the caller's promise.
        unsafe { $work::<crate::scan::block::Portable>($($name),*) }
    }};
}
pub(crate) use by_best_block;

/// Does something with each block that this processor has, for comparison in tests.
#[cfg(test)]
macro_rules! each_block {
    ($block:ident => $work:block) => {{
        {
            type $block = crate::scan::block::Portable;
            $work
        }
        #[cfg(target_arch = "x86_64")]
        if crate::scan::block::Avx2::found() {
            type $block = crate::scan::block::Avx2;
            $work
        }
        #[cfg(target_arch = "x86_64")]
        if crate::scan::block::Avx512::found() {
            type $block = crate::scan::block::Avx512;
            $work
        }
    }};
}
#[cfg(test)]
pub(crate) use each_block;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 64;

/// Bytes that [`Block::write_kept`] may read, and write.
pub(crate) const KEPT_READ_BYTES: usize = 2 * BLOCK_BYTES;

/// Places that [`Block::write_places`] may write to, whatever it is given.
pub(super) const ROOM_FOR_PLACES: usize = 64 + UNFORESEEN;

/// Places that are written without asking how many there are.
const UNFORESEEN: usize = 12;

/// 64 consecutive bytes.
pub(crate) trait Block {
    /// Loads 64 bytes.
    ///
    /// # Safety
    /// `bytes` is valid for reads of 64 bytes, and the CPU has the features that the implementation needs.
    unsafe fn load(bytes: *const u8) -> Self;

    /// Bit i is set where byte i equals `byte`.
    ///
    /// # Safety
    /// The CPU has the features that the implementation needs.
    unsafe fn equals(&self, byte: u8) -> u64;

    /// Of all bytes seen before and these: their bits together, and the least byte of each place.
    type Seen: Copy;

    /// Nothing seen.
    ///
    /// # Safety
    /// The CPU has the features that the implementation needs.
    unsafe fn unseen() -> Self::Seen;

    /// Adds these bytes.
    ///
    /// # Safety
    /// The CPU has the features that the implementation needs.
    unsafe fn see(&self, seen: &mut Self::Seen);

    /// Whether all bytes seen are ASCII.
    ///
    /// # Safety
    /// The CPU has the features that the implementation needs.
    unsafe fn is_ascii(seen: Self::Seen) -> bool;

    /// Whether one of the bytes seen is NUL.
    ///
    /// # Safety
    /// The CPU has the features that the implementation needs.
    unsafe fn has_nul(seen: Self::Seen) -> bool;

    /// Bit i is the parity of the bits 0 to i.
    ///
    /// # Safety
    /// The CPU has the features that the implementation needs.
    #[inline(always)]
    unsafe fn prefix_xor(mut bits: u64) -> u64 {
        for shift in [1, 2, 4, 8, 16, 32] {
            bits ^= bits << shift;
        }
        bits
    }

    /// Writes `first + i` for every bit i of `bits`, one behind the other; with `mark` in those that are also in `marked`.
    /// What is behind them in the first [`ROOM_FOR_PLACES`] may be overwritten with anything.
    ///
    /// # Safety
    /// There is room for so many places, `marked` has no other bits, and the CPU has the features that the implementation
    /// needs.
    #[inline(always)]
    unsafe fn write_places(bits: u64, (mut marked, mark): (u64, u32), first: u32, to: *mut u32) {
        // Some at a time without a branch for each. A dozen first, which most blocks have not: how many there are is
        // nothing that a processor could foresee.
        // SAFETY: by the caller's promise.
        unsafe {
            let (mut rest, mut place) = (bits, to);
            let end = place.add(bits.count_ones() as usize);
            for offset in 0..UNFORESEEN {
                place.add(offset).write(first.wrapping_add(rest.trailing_zeros()));
                rest &= rest.wrapping_sub(1);
            }
            place = place.add(UNFORESEEN);
            while place < end {
                for offset in 0..8 {
                    place.add(offset).write(first.wrapping_add(rest.trailing_zeros()));
                    rest &= rest.wrapping_sub(1);
                }
                place = place.add(8);
            }
            while marked != 0 {
                let bit = marked & marked.wrapping_neg();
                *to.add((bits & (bit - 1)).count_ones() as usize) |= mark;
                marked ^= bit;
            }
        }
    }

    /// Writes those bytes of a block whose bits are set in `kept`, one behind the other, and anything behind them.
    ///
    /// # Safety
    /// [`KEPT_READ_BYTES`] can be read at `from` and written at `to`, and the CPU has the features that the implementation
    /// needs.
    #[inline(always)]
    unsafe fn write_kept(from: *const u8, kept: u64, mut to: *mut u8) {
        // A block's bytes from one that is kept up to the first that is not; the next ones overwrite what is behind it.
        let (mut dropped, mut begin) = (!kept, 0);
        // SAFETY: `begin` is at most a block's length, and no more bytes were written than that; arrays of bytes need no
        // alignment.
        unsafe {
            while dropped != 0 {
                let end = dropped.trailing_zeros() as usize;
                dropped &= dropped - 1;
                to.cast::<[u8; BLOCK_BYTES]>().write(from.add(begin).cast::<[u8; BLOCK_BYTES]>().read());
                to = to.add(end - begin);
                begin = end + 1;
            }
            to.cast::<[u8; BLOCK_BYTES]>().write(from.add(begin).cast::<[u8; BLOCK_BYTES]>().read());
        }
    }
}

/// For any CPU; the compiler vectorises the loop with what the target has.
pub(crate) struct Portable([u8; 64]);

impl Block for Portable {
    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> Self {
        // SAFETY: the caller vouches for 64 readable bytes; an array of u8 needs no alignment.
        Self(unsafe { bytes.cast::<[u8; 64]>().read() })
    }

    #[inline(always)]
    unsafe fn equals(&self, byte: u8) -> u64 {
        let mut mask = 0_u64;
        for (index, &candidate) in self.0.iter().enumerate() {
            mask |= u64::from(candidate == byte) << index;
        }
        mask
    }

    type Seen = (u8, u8);

    #[inline(always)]
    unsafe fn unseen() -> Self::Seen {
        (0, u8::MAX)
    }

    #[inline(always)]
    unsafe fn see(&self, (bits, least): &mut Self::Seen) {
        *bits |= self.0.iter().fold(0, |bits, byte| bits | byte);
        *least = self.0.iter().fold(*least, |least, &byte| least.min(byte));
    }

    #[inline(always)]
    unsafe fn is_ascii((bits, _): Self::Seen) -> bool {
        bits.is_ascii()
    }

    #[inline(always)]
    unsafe fn has_nul((_, least): Self::Seen) -> bool {
        least == 0
    }
}
