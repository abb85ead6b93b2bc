//! Numbers of four records at once, on processors with AVX-512.
//!
//! Each text is loaded into a quarter of a register, and what `wide.rs` does to one is done to four. So are the questions
//! that decide whether a text is a regular one: where the answer is no for one, nothing is said of all, and `wide.rs` reads
//! each by itself. Of a price that leaves two fifths of the instructions.
//!
//! Where the point is, most often as many digits from the end as the column has places, is else found without a loop: the
//! places of all points of a text are added up. Of one point the sum is its place. Of more it is never the place of the first,
//! and every byte but the one at that place, and the sign, has to be a digit. A point before all digits counts as none, and is
//! no digit either.

use super::Span;
use super::four::{FourStored, FourTexts};
use super::groups::{Groups, stored_words};
use super::numeric::NumericSize;
use super::reader::{Loop, Reader};
use super::wide::Wide;
use std::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_add_epi8, _mm512_add_epi64, _mm512_and_si512, _mm512_broadcast_i32x4,
    _mm512_castsi128_si512, _mm512_cmpeq_epi8_mask, _mm512_cmpge_epu8_mask, _mm512_cmpgt_epi8_mask,
    _mm512_cmpgt_epu8_mask, _mm512_cmplt_epu8_mask, _mm512_inserti32x4, _mm512_loadu_si512, _mm512_madd_epi16,
    _mm512_maddubs_epi16, _mm512_mask_cmpeq_epi8_mask, _mm512_mask_mov_epi8, _mm512_mask_set1_epi64,
    _mm512_mask_sub_epi64, _mm512_maskz_mov_epi8, _mm512_maskz_mov_epi16, _mm512_maskz_permutex2var_epi32,
    _mm512_maskz_shuffle_epi8, _mm512_movm_epi8, _mm512_mul_epu32, _mm512_or_si512, _mm512_packus_epi32,
    _mm512_sad_epu8, _mm512_set_epi32, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_shuffle_epi32, _mm512_srli_epi64, _mm512_srlv_epi64,
    _mm512_storeu_si512, _mm512_sub_epi8, _mm512_test_epi16_mask, _mm512_test_epi64_mask, _mm512_testn_epi8_mask,
    _mm512_unpacklo_epi64, _mm512_xor_si512,
};

/// Bytes of a quarter.
const WIDTH: usize = 16;

/// Texts of a register.
const LANES: usize = 4;

/// The first byte of each quarter, as a mask.
const FIRST_BYTES: u64 = 0x0001_0001_0001_0001;

/// A quarter of the places of bytes, each as a byte.
const PLACES: &[u8; WIDTH] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// By how many of four base-10,000 digits stand behind the point: which byte of a text goes where, counted from its point.
/// Before the point they end where that many digits are left; the point itself goes nowhere.
const AROUND_POINT: &[[u8; WIDTH]; 5] = &{
    let mut from_point = [[0; WIDTH]; 5];
    let mut fraction_groups = 0;
    while fraction_groups <= 4 {
        let whole = WIDTH - 4 * fraction_groups;
        let mut to = 0;
        while to < WIDTH {
            let behind_point = (to >= whole) as u8;
            from_point[fraction_groups][to] = (to as u8).wrapping_sub(whole as u8).wrapping_add(behind_point);
            to += 1;
        }
        fraction_groups += 1;
    }
    from_point
};

/// A processor that has AVX-512 (F, BW, VL) beside what a [`Wide`] one has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wider(Wide);

impl Wider {
    /// Where the processor is one.
    #[inline]
    pub(crate) fn found() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        if found { Wide::found().map(Self) } else { None }
    }
}

/// The same sixteen bytes in each quarter.
#[inline(always)]
fn quarters(bytes: &[u8; WIDTH]) -> __m512i {
    // SAFETY: there is no `Wider` without the features, and only its methods call this; the load needs no alignment.
    unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(bytes.as_ptr().cast())) }
}

/// The first byte of each quarter, in all of its bytes.
#[inline(always)]
fn spread(register: __m512i) -> __m512i {
    // SAFETY: as in `quarters`.
    unsafe { _mm512_shuffle_epi8(register, _mm512_setzero_si512()) }
}

/// Sixteen digits in each quarter as four numbers below 10,000, sixteen bits each, the first in the lowest bits; twice.
#[inline(always)]
fn fours(digits: __m512i) -> __m512i {
    // SAFETY: as in `quarters`.
    unsafe {
        let pairs = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010A));
        let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0001_0064));
        _mm512_packus_epi32(fours, fours)
    }
}

/// Four texts of one to sixteen bytes, each in a quarter.
struct Quarters {
    /// Their bytes, and whatever stands behind them.
    bytes: __m512i,
    /// The length of each, in all bytes of its quarter.
    lengths: __m512i,
    /// A bit for the first byte of each that begins with a minus sign.
    negative: u64,
}

impl Quarters {
    /// `None` where one of them is empty or longer, or has fewer than sixteen bytes to be read.
    #[inline(always)]
    fn load(texts: FourTexts<'_>) -> Option<Self> {
        const ONE: i32 = 0x0101_0101;
        const TWO: i32 = 2 * ONE;
        const THREE: i32 = 3 * ONE;
        let FourTexts { window, places } = texts;
        let last = window.len().checked_sub(WIDTH)?;
        let starts = places.map(|(start, _)| start as usize);
        let behind = starts.iter().fold(0, |behind, &start| behind | last.wrapping_sub(start));
        // One less than the length: of what is empty that is the largest number.
        let [a, b, c, d] = places.map(|(start, end)| end.wrapping_sub(start).wrapping_sub(2));
        if a | b | c | d >= WIDTH as u32 || behind.cast_signed() < 0 {
            return None;
        }
        let lengths = (a | b << 8 | c << 16 | d << 24) + 0x0101_0101;
        // SAFETY: there is no `Wider` without the features, and only its methods call this; sixteen bytes can be read where
        // each of the texts begins.
        unsafe {
            let text = |lane: usize| _mm_loadu_si128(window.as_ptr().add(starts[lane]).cast());
            let bytes = _mm512_castsi128_si512(text(0));
            let bytes = _mm512_inserti32x4::<1>(bytes, text(1));
            let bytes = _mm512_inserti32x4::<2>(bytes, text(2));
            let bytes = _mm512_inserti32x4::<3>(bytes, text(3));
            let each = _mm512_set_epi32(THREE, THREE, THREE, THREE, TWO, TWO, TWO, TWO, ONE, ONE, ONE, ONE, 0, 0, 0, 0);
            let lengths = _mm512_shuffle_epi8(_mm512_set1_epi32(lengths.cast_signed()), each);
            let negative = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(b'-'.cast_signed())) & FIRST_BYTES;
            Some(Self { bytes, lengths, negative })
        }
    }

    /// What each byte is as a digit; a sign is a zero.
    #[inline(always)]
    fn digits(&self) -> __m512i {
        // SAFETY: as in `quarters`.
        unsafe {
            let digits = _mm512_xor_si512(self.bytes, _mm512_set1_epi8(b'0'.cast_signed()));
            if self.negative == 0 { digits } else { _mm512_maskz_mov_epi8(!self.negative, digits) }
        }
    }

    /// Where the point of each may be, in all bytes of its quarter; behind the text, where it has none. The bytes elsewhere
    /// are to be looked at.
    #[inline(always)]
    fn find_points(&self) -> __m512i {
        // SAFETY: as in `quarters`.
        unsafe {
            let places = quarters(PLACES);
            let points = _mm512_cmplt_epu8_mask(places, self.lengths)
                & _mm512_cmpeq_epi8_mask(self.bytes, _mm512_set1_epi8(b'.'.cast_signed()));
            let found = _mm512_sad_epu8(_mm512_maskz_mov_epi8(points, places), _mm512_setzero_si512());
            let found = spread(_mm512_add_epi64(found, _mm512_shuffle_epi32::<0b01_00_11_10>(found)));
            _mm512_mask_mov_epi8(found, _mm512_testn_epi8_mask(found, found), self.lengths)
        }
    }

    /// One less than zero in each byte of a quarter whose text has a sign.
    #[inline(always)]
    fn negative_quarters(&self) -> __m512i {
        // SAFETY: as in `quarters`.
        unsafe { spread(_mm512_movm_epi8(self.negative)) }
    }

    /// The first word of each quarter whose text has a sign, as a mask.
    #[inline(always)]
    fn negative_words(&self) -> u8 {
        // SAFETY: as in `quarters`.
        unsafe {
            let marks = _mm512_movm_epi8(self.negative);
            _mm512_test_epi64_mask(marks, marks)
        }
    }
}

/// The first word of each quarter.
#[inline(always)]
fn first_words(register: __m512i) -> [u64; LANES] {
    let mut words = [0; 2 * LANES];
    // SAFETY: as in `quarters`.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), register) };
    [words[0], words[2], words[4], words[6]]
}

/// The bytes that are no digits, as a mask.
#[inline(always)]
fn no_digits(bytes: __m512i) -> u64 {
    // SAFETY: as in `quarters`.
    unsafe { _mm512_cmpgt_epu8_mask(bytes, _mm512_set1_epi8(9)) }
}

impl Reader for Wider {
    #[inline(always)]
    fn run(self, body: impl Loop) {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl")]
        #[inline(never)]
        fn apart(body: impl Loop) {
            body.run();
        }
        // SAFETY: there is no `Wider` without the features.
        unsafe { apart(body) };
    }

    #[inline(always)]
    fn integer(self, span: Span<'_>) -> Option<i64> {
        self.0.integer(span)
    }

    #[inline(always)]
    fn long_integer(self, span: Span<'_>) -> Option<i64> {
        self.0.long_integer(span)
    }

    #[inline(always)]
    fn groups(self, span: Span<'_>, size: NumericSize) -> Option<Groups> {
        self.0.groups(span, size)
    }

    #[inline(always)]
    fn scaled(self, span: Span<'_>, precision: u8, scale: u8) -> Option<i64> {
        self.0.scaled(span, precision, scale)
    }

    #[inline(always)]
    fn double(self, span: Span<'_>) -> Option<f64> {
        self.0.double(span)
    }

    #[inline(always)]
    fn date(self, span: Span<'_>) -> Option<i32> {
        self.0.date(span)
    }

    #[inline(always)]
    fn timestamp(self, span: Span<'_>) -> Option<i64> {
        self.0.timestamp(span)
    }

    const READS_FOUR: bool = true;

    #[inline(always)]
    fn four_integers(self, texts: FourTexts<'_>) -> Option<[i64; LANES]> {
        let texts = Quarters::load(texts)?;
        // SAFETY: there is no `Wider` without the features.
        unsafe {
            // The last digit comes to the end, and before the first there are zeros.
            let from = _mm512_add_epi8(texts.lengths, _mm512_sub_epi8(quarters(PLACES), _mm512_set1_epi8(WIDTH as i8)));
            let digits = _mm512_shuffle_epi8(texts.digits(), from);
            // A sign alone is no number.
            let alone = _mm512_mask_cmpeq_epi8_mask(texts.negative, texts.lengths, _mm512_set1_epi8(1));
            if no_digits(digits) | alone != 0 {
                return None;
            }
            let eights = _mm512_madd_epi16(fours(digits), _mm512_set1_epi32(0x0001_2710));
            let upper = _mm512_mul_epu32(eights, _mm512_set1_epi64(100_000_000));
            let mut numbers = _mm512_add_epi64(upper, _mm512_srli_epi64::<32>(eights));
            if texts.negative != 0 {
                numbers = _mm512_mask_sub_epi64(numbers, texts.negative_words(), _mm512_setzero_si512(), numbers);
            }
            Some(first_words(numbers).map(u64::cast_signed))
        }
    }

    #[inline(always)]
    fn four_groups(self, texts: FourTexts<'_>, size: NumericSize) -> Option<FourStored> {
        let texts = Quarters::load(texts)?;
        let NumericSize { fraction_groups, most_places, most_whole, .. } = size;
        let known = stored_words(fraction_groups);
        let Quarters { bytes, lengths, .. } = texts;
        // SAFETY: there is no `Wider` without the features; the table has two registers of words.
        unsafe {
            let (zero, full_stop) = (_mm512_setzero_si512(), _mm512_set1_epi8(b'.'.cast_signed()));
            // Most often as many digits are behind the point as the column has.
            let behind_point = _mm512_set1_epi8(1 + most_places as i8);
            let mut point = _mm512_sub_epi8(lengths, behind_point);
            let points = _mm512_cmpeq_epi8_mask(quarters(PLACES), point);
            if _mm512_mask_cmpeq_epi8_mask(points, bytes, full_stop).count_ones() != LANES as u32 {
                point = texts.find_points();
            }
            let (mut whole, mut signs) = (point, zero);
            if texts.negative != 0 {
                whole = _mm512_add_epi8(whole, texts.negative_quarters());
                signs = _mm512_mask_set1_epi64(signs, texts.negative_words(), 16);
            }
            // There is a digit before the point, and not more than the column has, nor behind it.
            let shorter = _mm512_sub_epi8(whole, _mm512_set1_epi8(1));
            let unfit = _mm512_cmpge_epu8_mask(shorter, _mm512_set1_epi8(most_whole as i8))
                | _mm512_cmpgt_epi8_mask(_mm512_sub_epi8(lengths, point), behind_point);
            let from = _mm512_add_epi8(quarters(&AROUND_POINT[fraction_groups]), point);
            let inside = _mm512_cmplt_epu8_mask(from, lengths);
            let digits = _mm512_maskz_shuffle_epi8(inside, texts.digits(), from);
            if unfit | no_digits(digits) != 0 {
                return None;
            }
            let fours = fours(digits);
            let present = _mm512_test_epi16_mask(fours, fours);
            let weights = _mm512_set1_epi64(8 << 48 | 4 << 32 | 2 << 16 | 1);
            let shapes = _mm512_sad_epu8(_mm512_maskz_mov_epi16(present, weights), zero);
            let shapes = _mm512_or_si512(shapes, signs);
            let lower = _mm512_loadu_si512(known.as_ptr().cast());
            let upper = _mm512_loadu_si512(known.as_ptr().add(16).cast());
            let heads = _mm512_maskz_permutex2var_epi32(0x1111, lower, shapes, upper);
            // The compiler has to be told that no shift is too far.
            let shift = _mm512_and_si512(_mm512_srli_epi64::<24>(heads), _mm512_set1_epi64(63));
            let digits = _mm512_srlv_epi64(fours, shift);
            let lengths = _mm512_srli_epi64::<1>(_mm512_and_si512(heads, _mm512_set1_epi64(0xFF)));
            let heads = _mm512_or_si512(heads, _mm512_set1_epi64((most_places as i64) << 15));
            // Three bytes of the head, and the digits behind them.
            const NONE: u8 = 0x80;
            const JOINED: &[u8; WIDTH] = &[0, 1, 2, 8, 9, 10, 11, 12, 13, 14, 15, NONE, NONE, NONE, NONE, NONE];
            let joined = _mm512_shuffle_epi8(_mm512_unpacklo_epi64(heads, digits), quarters(JOINED));
            let mut bytes = [[0; WIDTH]; LANES];
            _mm512_storeu_si512(bytes.as_mut_ptr().cast(), joined);
            Some(FourStored { bytes, lengths: first_words(lengths) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::numeric::{Typmod, read_short};
    use crate::value::{ServerVersion, integer};
    use proptest::prelude::*;

    /// Columns of so many digits at most, and so many of them behind the point.
    const SIZES: [(u16, i16); 9] = [(15, 2), (18, 0), (18, 12), (5, 5), (4, 1), (9, 4), (12, 5), (30, 8), (16, 3)];

    /// Some texts in a window, in which other bytes stand between and behind them.
    fn window_of(texts: [&[u8]; 4], between: u8, behind: &[u8]) -> (Vec<u8>, [(u32, u32); 4]) {
        let mut window = b"-7.".to_vec();
        let places = texts.map(|text| {
            let start = window.len() as u32;
            window.extend_from_slice(text);
            window.push(between);
            (start, window.len() as u32)
        });
        window.extend_from_slice(behind);
        (window, places)
    }

    /// What a number is stored as, by the parser of the whole grammar.
    fn stored(text: &[u8], typmod: Typmod) -> Vec<u8> {
        let groups = read_short(text, Some(typmod)).expect("a known number").expect("a short one");
        let stored = groups.stored();
        let bytes = [&stored.head.to_le_bytes()[..3], &stored.digits.to_le_bytes()[..]].concat();
        bytes[..stored.length].to_vec()
    }

    /// What is said of four texts is what the parser of the whole grammar says of each; and it is said, where a reader of one
    /// knows each of them and there is room behind it. Returns how much is said.
    fn compare(texts: [&[u8]; 4]) -> usize {
        let Some(wider) = Wider::found() else { return 0 };
        let mut known = 0;
        for (between, behind) in
            [(b'|', &b"7777777777777777"[..]), (b'7', b""), (b'.', b"."), (b'-', b"----------------")]
        {
            let (window, places) = window_of(texts, between, behind);
            // SAFETY: they are in the window.
            let four = unsafe { FourTexts::within(&window, places) };
            let spans = four.spans();
            let has_room = places.iter().all(|&(start, _)| start as usize + WIDTH <= window.len());
            let are_short = texts.iter().all(|text| text.len() <= WIDTH);
            match wider.four_integers(four) {
                Some(values) => {
                    let expected = texts.map(|text| integer::parse_int8(text, ServerVersion::NEWEST));
                    assert_eq!(values.map(Ok), expected, "{texts:?}");
                    known += 1;
                }
                None => {
                    assert!(
                        !(has_room && are_short && spans.iter().all(|&span| wider.integer(span).is_some())),
                        "{texts:?}"
                    )
                }
            }
            for (precision, scale) in SIZES {
                let typmod = Typmod { precision, scale };
                match wider.four_groups(four, typmod.into()) {
                    Some(FourStored { bytes, lengths }) => {
                        for (text, (bytes, length)) in texts.iter().zip(bytes.iter().zip(lengths)) {
                            assert_eq!(bytes[..length as usize], stored(text, typmod), "{texts:?} {typmod:?}");
                        }
                        known += 1;
                    }
                    None => {
                        let all_known = spans.iter().all(|&span| wider.groups(span, typmod.into()).is_some());
                        assert!(!(has_room && are_short && all_known), "{texts:?} {typmod:?}");
                    }
                }
            }
        }
        known
    }

    #[test]
    fn every_byte_in_every_place_of_every_text() {
        let texts: [[&[u8]; 4]; 3] = [
            [b"12", b"-345678", b"1234567890123456", b"0"],
            [b"17.00", b"-0.04", b"123456.78", b"5"],
            [b"-12345678.12345", b"0.5", b"1234567.1234567", b"-7.1"],
        ];
        for texts in texts {
            assert!(Wider::found().is_none() || compare(texts) > 0, "{texts:?}");
            for lane in 0..texts.len() {
                for place in 0..texts[lane].len() {
                    for byte in 0..=255 {
                        let mut other = texts[lane].to_vec();
                        other[place] = byte;
                        let mut texts = texts;
                        texts[lane] = &other;
                        compare(texts);
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_said_of_what_is_no_value() {
        for text in [
            "",
            "-",
            ".",
            "-.",
            "+1",
            " 1",
            "1 ",
            "1e5",
            "--1",
            "1.2.3",
            "1..",
            "-.5",
            "12345678901234567",
            "2001-02-29",
            "2001-00-01",
            "2001-16-01",
            "2001-32-01",
        ] {
            for lane in 0..4 {
                for other in ["1", "2000-01-01"] {
                    let mut texts = [other.as_bytes(); 4];
                    texts[lane] = text.as_bytes();
                    assert_eq!(compare(texts), 0, "{text} among {other}");
                }
            }
        }
    }

    fn four(text: &'static str) -> impl Strategy<Value = [String; 4]> {
        [text, text, text, text]
    }

    proptest! {
        #[test]
        fn numbers(texts in four("-?[0-9]{1,16}|-?[0-9]{1,9}[.][0-9]{2}|-?[0-9]{0,13}[.]?[0-9]{0,13}")) {
            compare(texts.each_ref().map(|text| text.as_bytes()));
        }

        #[test]
        fn numbers_with_points(texts in four("-?[0-9]{1,12}[.][0-9]{0,5}|[0-9.-]{1,16}")) {
            compare(texts.each_ref().map(|text| text.as_bytes()));
        }
    }
}
