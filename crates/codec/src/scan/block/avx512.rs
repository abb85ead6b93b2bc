//! Blocks on processors with AVX-512 (F, BW, VBMI2), PCLMULQDQ, POPCNT, BMI1 and BMI2: a comparison gives a mask at once, and
//! the places of a mask's bits are one instruction instead of three for each.

use super::Block;
use std::arch::x86_64::{
    __m512i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_set1_epi8, _mm512_add_epi32,
    _mm512_cmpeq_epi8_mask, _mm512_cvtepu8_epi32, _mm512_extracti32x4_epi32, _mm512_loadu_si512, _mm512_mask_or_epi32,
    _mm512_maskz_compress_epi8, _mm512_min_epu8, _mm512_movepi8_mask, _mm512_or_si512, _mm512_set1_epi8,
    _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512, _pext_u64,
};

/// One register.
pub(crate) struct Avx512(__m512i);

impl Avx512 {
    /// Whether this processor is one: has all that `by_best_block` asks the compiler for.
    #[inline]
    pub(crate) fn found() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
    }
}

/// The number of each byte of a block.
const NUMBERS: &[u8; 64] = &{
    let mut numbers = [0; 64];
    let mut number = 0;
    while number < 64 {
        numbers[number] = number as u8;
        number += 1;
    }
    numbers
};

/// Places of a store.
const LANES: usize = 16;

impl Block for Avx512 {
    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> Self {
        // SAFETY: 64 readable bytes, an unaligned load, AVX-512 present, all by the caller's promise.
        unsafe { Self(_mm512_loadu_si512(bytes.cast())) }
    }

    #[inline(always)]
    unsafe fn equals(&self, byte: u8) -> u64 {
        // SAFETY: AVX-512 present by the caller's promise.
        unsafe { _mm512_cmpeq_epi8_mask(self.0, _mm512_set1_epi8(byte.cast_signed())) }
    }

    type Seen = (__m512i, __m512i);

    #[inline(always)]
    unsafe fn unseen() -> Self::Seen {
        // SAFETY: AVX-512 present by the caller's promise.
        unsafe { (_mm512_setzero_si512(), _mm512_set1_epi8(-1)) }
    }

    #[inline(always)]
    unsafe fn see(&self, (bits, least): &mut Self::Seen) {
        // SAFETY: AVX-512 present by the caller's promise.
        unsafe {
            *bits = _mm512_or_si512(*bits, self.0);
            *least = _mm512_min_epu8(*least, self.0);
        }
    }

    #[inline(always)]
    unsafe fn is_ascii((bits, _): Self::Seen) -> bool {
        // SAFETY: AVX-512 present by the caller's promise.
        unsafe { _mm512_movepi8_mask(bits) == 0 }
    }

    #[inline(always)]
    unsafe fn has_nul((_, least): Self::Seen) -> bool {
        // SAFETY: AVX-512 present by the caller's promise.
        unsafe { _mm512_cmpeq_epi8_mask(least, _mm512_setzero_si512()) != 0 }
    }

    #[inline(always)]
    unsafe fn prefix_xor(bits: u64) -> u64 {
        // SAFETY: PCLMULQDQ present by the caller's promise.
        unsafe {
            // A product without carries with all ones: each bit is the sum of those up to it.
            let product = _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, bits.cast_signed()), _mm_set1_epi8(-1));
            _mm_cvtsi128_si64(product).cast_unsigned()
        }
    }

    #[inline(always)]
    unsafe fn write_places(bits: u64, (marked, mark): (u64, u32), first: u32, to: *mut u32) {
        // SAFETY: AVX-512 present, and room, by the caller's promise.
        unsafe {
            let numbers = _mm512_maskz_compress_epi8(bits, _mm512_loadu_si512(NUMBERS.as_ptr().cast()));
            let (first, mark) = (_mm512_set1_epi32(first.cast_signed()), _mm512_set1_epi32(mark.cast_signed()));
            let marked = if marked == 0 { 0 } else { _pext_u64(marked, bits) };
            let count = bits.count_ones() as usize;
            macro_rules! write_lanes {
                ($part:literal) => {
                    let places = _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32::<$part>(numbers));
                    let places = _mm512_add_epi32(places, first);
                    let lanes = (marked >> ($part * LANES)) as u16;
                    let places = _mm512_mask_or_epi32(places, lanes, places, mark);
                    _mm512_storeu_si512(to.add($part * LANES).cast(), places);
                };
            }
            write_lanes!(0);
            if count > LANES {
                write_lanes!(1);
            }
            if count > 2 * LANES {
                write_lanes!(2);
                write_lanes!(3);
            }
        }
    }

    #[inline(always)]
    unsafe fn write_kept(from: *const u8, kept: u64, to: *mut u8) {
        // SAFETY: AVX-512 present, and bytes to be read and written, by the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi8(kept, _mm512_loadu_si512(from.cast()))) };
    }
}
