//! 64 bytes at a time: which of them equal a given byte, as a bit mask.
//!
//! Advice for whoever works here: `scan::flatten` is generic over [`Block`] and is compiled once per
//! implementation inside a function that has the target feature; a method that is not `#[inline(always)]` loses it.

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

    /// Whether all bytes seen are ASCII, and none is NUL.
    ///
    /// # Safety
    /// The CPU has the features that the implementation needs.
    unsafe fn is_plain_text(seen: Self::Seen) -> bool;
}

/// Bit i is the parity of the bits 0 to i.
#[inline(always)]
pub(crate) fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
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
    unsafe fn is_plain_text((bits, least): Self::Seen) -> bool {
        bits.is_ascii() && least > 0
    }
}

/// Two AVX2 registers.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx2(std::arch::x86_64::__m256i, std::arch::x86_64::__m256i);

#[cfg(target_arch = "x86_64")]
impl Block for Avx2 {
    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> Self {
        use std::arch::x86_64::_mm256_loadu_si256;
        // SAFETY: 64 readable bytes, unaligned loads, AVX2 present, all by the caller's promise.
        unsafe { Self(_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast())) }
    }

    #[inline(always)]
    unsafe fn equals(&self, byte: u8) -> u64 {
        use std::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_set1_epi8};
        // SAFETY: AVX2 present by the caller's promise.
        unsafe {
            let wanted = _mm256_set1_epi8(byte.cast_signed());
            let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(self.0, wanted)).cast_unsigned();
            let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(self.1, wanted)).cast_unsigned();
            u64::from(low) | (u64::from(high) << 32)
        }
    }

    type Seen = (std::arch::x86_64::__m256i, std::arch::x86_64::__m256i);

    #[inline(always)]
    unsafe fn unseen() -> Self::Seen {
        use std::arch::x86_64::{_mm256_set1_epi8, _mm256_setzero_si256};
        // SAFETY: AVX2 present by the caller's promise.
        unsafe { (_mm256_setzero_si256(), _mm256_set1_epi8(-1)) }
    }

    #[inline(always)]
    unsafe fn see(&self, (bits, least): &mut Self::Seen) {
        use std::arch::x86_64::{_mm256_min_epu8, _mm256_or_si256};
        // SAFETY: AVX2 present by the caller's promise.
        unsafe {
            *bits = _mm256_or_si256(*bits, _mm256_or_si256(self.0, self.1));
            *least = _mm256_min_epu8(*least, _mm256_min_epu8(self.0, self.1));
        }
    }

    #[inline(always)]
    unsafe fn is_plain_text((bits, least): Self::Seen) -> bool {
        use std::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_setzero_si256};
        // SAFETY: AVX2 present by the caller's promise.
        unsafe {
            let zeros = _mm256_cmpeq_epi8(least, _mm256_setzero_si256());
            _mm256_movemask_epi8(bits) == 0 && _mm256_movemask_epi8(zeros) == 0
        }
    }
}
