//! Blocks on processors with AVX2, POPCNT and BMI1.

use super::Block;
use std::arch::x86_64::{
    __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256,
    _mm256_set1_epi8, _mm256_setzero_si256,
};

/// Two AVX2 registers.
pub(crate) struct Avx2(__m256i, __m256i);

impl Avx2 {
    /// Whether this processor is one: has all that `by_best_block` asks the compiler for.
    #[inline]
    pub(crate) fn found() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("popcnt")
    }
}

impl Block for Avx2 {
    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> Self {
        // SAFETY: 64 readable bytes, unaligned loads, AVX2 present, all by the caller's promise.
        unsafe { Self(_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast())) }
    }

    #[inline(always)]
    unsafe fn equals(&self, byte: u8) -> u64 {
        // SAFETY: AVX2 present by the caller's promise.
        unsafe {
            let wanted = _mm256_set1_epi8(byte.cast_signed());
            let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(self.0, wanted)).cast_unsigned();
            let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(self.1, wanted)).cast_unsigned();
            u64::from(low) | (u64::from(high) << 32)
        }
    }

    type Seen = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn unseen() -> Self::Seen {
        // SAFETY: AVX2 present by the caller's promise.
        unsafe { (_mm256_setzero_si256(), _mm256_set1_epi8(-1)) }
    }

    #[inline(always)]
    unsafe fn see(&self, (bits, least): &mut Self::Seen) {
        // SAFETY: AVX2 present by the caller's promise.
        unsafe {
            *bits = _mm256_or_si256(*bits, _mm256_or_si256(self.0, self.1));
            *least = _mm256_min_epu8(*least, _mm256_min_epu8(self.0, self.1));
        }
    }

    #[inline(always)]
    unsafe fn is_ascii((bits, _): Self::Seen) -> bool {
        // SAFETY: AVX2 present by the caller's promise.
        unsafe { _mm256_movemask_epi8(bits) == 0 }
    }

    #[inline(always)]
    unsafe fn has_nul((_, least): Self::Seen) -> bool {
        // SAFETY: AVX2 present by the caller's promise.
        unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi8(least, _mm256_setzero_si256())) != 0 }
    }
}
