//! Numbers and dates by sixteen bytes at once.
//!
//! A text is loaded as it lies in the window, with whatever follows it, and moved by one shuffle so that its digits stand
//! where the multiplications want them: digits become pairs, pairs fours, and fours are what `numeric` consists of.
//! Longer ones, doubles and moments above all, are two such loads. What has not so many bytes to be read, at the end of a
//! window, is left to others. A third as many instructions as with words, and but for whether there are two loads no branch
//! depends on a text's length or on where its point is.
//!
//! Advice for whoever works here: the loops of a column are compiled for [`Wide`], and for `Wider`, inside functions with the target
//! features; a method that is not `#[inline(always)]` loses them, and with them all that is gained.

use super::Span;
use super::civil::{MICROS_PER_DAY, days_of};
use super::digits::POWERS_OF_TEN;
use super::float::nearest_quotient;
use super::groups::Groups;
use super::numeric::NumericSize;
use super::reader::{Loop, Reader};
use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpeq_epi16, _mm_cvtsi128_si64, _mm_extract_epi32, _mm_loadu_si128,
    _mm_madd_epi16, _mm_maddubs_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_packus_epi32, _mm_set1_epi8,
    _mm_set1_epi16, _mm_set1_epi32, _mm_setzero_si128, _mm_shuffle_epi8, _mm_subs_epu8, _mm_testz_si128, _mm_xor_si128,
};

/// Bytes of a load.
const WIDTH: usize = 16;

/// A processor that has AVX2, BMI1, BMI2, LZCNT and POPCNT.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wide(());

impl Wide {
    /// Where the processor is one.
    #[inline]
    pub(crate) fn found() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        found.then_some(Self(()))
    }
}

/// As shuffle, from byte n on: moves the first n bytes of a register to its end, and zeros before them.
const TO_END: &[u8; 2 * WIDTH] = &{
    let mut places = [0x80; 2 * WIDTH];
    let mut place = 0;
    while place < WIDTH {
        places[WIDTH + place] = place as u8;
        place += 1;
    }
    places
};

/// As mask, from byte 16 - n on: the first n bytes.
const FIRST: &[u8; 2 * WIDTH] = &{
    let mut mask = [0; 2 * WIDTH];
    let mut place = 0;
    while place < WIDTH {
        mask[place] = 0xFF;
        place += 1;
    }
    mask
};

/// The most characters of a number that is read in two parts.
const MOST_DIGITS: usize = super::float::MOST_DIGITS as usize;

/// The most decimal places that a text is read into.
const MOST_PLACES: usize = 12;

/// As shuffle, by the number of decimal places and then by where the point is: the digits before the point end where that
/// many places are left, and those behind it follow.
const AROUND_POINT: &[[[u8; WIDTH]; WIDTH]; MOST_PLACES + 1] = &{
    let mut shuffles = [[[0x80; WIDTH]; WIDTH]; MOST_PLACES + 1];
    let mut places = 0;
    while places <= MOST_PLACES {
        let whole = WIDTH - places;
        let mut point = 0;
        while point < WIDTH {
            let mut to = 0;
            while to < WIDTH {
                let from = if to < whole { (to + point).wrapping_sub(whole) } else { point + 1 + to - whole };
                // Before the text and behind the register there are zeros.
                if from < WIDTH {
                    shuffles[places][point][to] = from as u8;
                }
                to += 1;
            }
            point += 1;
        }
        places += 1;
    }
    shuffles
};

/// As shuffle, by where the point is: the bytes without it, and a zero behind them.
const WITHOUT_POINT: &[[u8; WIDTH]; WIDTH + 1] = &{
    let mut shuffles = [[0x80; WIDTH]; WIDTH + 1];
    let mut point = 0;
    while point <= WIDTH {
        let mut to = 0;
        while to < WIDTH {
            let from = if to < point { to } else { to + 1 };
            if from < WIDTH {
                shuffles[point][to] = from as u8;
            }
            to += 1;
        }
        point += 1;
    }
    shuffles
};

/// A date as ISO 8601 has it: its bytes, exclusively or'ed with these, are no greater than the limits.
const ISO_DATE: &[u8; WIDTH] = b"0000-00-00\0\0\0\0\0\0";
const ISO_LIMITS: &[u8; WIDTH] = &[9, 9, 9, 9, 0, 9, 9, 0, 9, 9, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
/// As shuffle: its digits side by side.
const ISO_DIGITS: &[u8; WIDTH] = &[0, 1, 2, 3, 5, 6, 8, 9, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];

/// # Safety
/// Sixteen bytes can be read from `bytes` on.
#[inline(always)]
unsafe fn load(bytes: *const u8) -> __m128i {
    // SAFETY: by the caller's promise; this load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.cast()) }
}

/// Whether every byte is at most as large as that of `limits`.
#[inline(always)]
fn within(bytes: __m128i, limits: __m128i) -> bool {
    // SAFETY: there is no `Wide` without the features, and only its methods call this.
    unsafe {
        let above = _mm_subs_epu8(bytes, limits);
        _mm_testz_si128(above, above) == 1
    }
}

/// Sixteen digits as four numbers below 10,000, sixteen bits each, the first in the lowest bits; twice.
#[inline(always)]
fn fours(digits: __m128i) -> __m128i {
    // SAFETY: as in `within`.
    unsafe {
        let pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(0x010A));
        let fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0001_0064));
        _mm_packus_epi32(fours, fours)
    }
}

/// The number that sixteen digits spell.
#[inline(always)]
fn sixteen(digits: __m128i) -> u64 {
    // SAFETY: as in `within`.
    let eights = unsafe { _mm_cvtsi128_si64(_mm_madd_epi16(fours(digits), _mm_set1_epi32(0x0001_2710))) };
    let eights = eights.cast_unsigned();
    (eights & 0xFFFF_FFFF) * 100_000_000 + (eights >> 32)
}

/// A part of a number's text.
#[derive(Clone, Copy)]
struct Part {
    /// What its digits spell.
    value: u64,
    /// How many there are.
    digits: usize,
    /// How many stand behind a point; `None` where there is no point.
    behind_point: Option<usize>,
}

impl Part {
    /// The part that begins there, of at most sixteen bytes: digits, and a point among them or none.
    ///
    /// # Safety
    /// Sixteen bytes can be read from `start` on, and there is a [`Wide`].
    #[inline(always)]
    unsafe fn read(start: *const u8, length: usize) -> Option<Self> {
        // SAFETY: by the caller's promise; the tables are long enough for lengths up to sixteen.
        unsafe {
            let text = load(start);
            let points = _mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8(b'.'.cast_signed()))).cast_unsigned();
            // Where there is none, it is behind the text.
            let point = (points | 1 << length).trailing_zeros() as usize;
            let pointed = point < length;
            let count = length - usize::from(pointed);
            let digits = _mm_xor_si128(text, _mm_set1_epi8(b'0'.cast_signed()));
            let digits = _mm_shuffle_epi8(digits, load(WITHOUT_POINT[point].as_ptr()));
            let digits = _mm_shuffle_epi8(digits, load(TO_END.as_ptr().add(count)));
            if !within(digits, _mm_set1_epi8(9)) {
                return None;
            }
            let behind_point = pointed.then(|| length - 1 - point);
            Some(Self { value: sixteen(digits), digits: count, behind_point })
        }
    }

    /// A part and the one behind it, which has at most nineteen digits together with it.
    #[inline(always)]
    fn join(self, last: Self) -> Option<Self> {
        let behind_point = match (self.behind_point, last.behind_point) {
            (Some(_), Some(_)) => return None,
            (Some(behind), None) => Some(behind + last.digits),
            (None, behind) => behind,
        };
        let value = self.value * POWERS_OF_TEN[last.digits] + last.value;
        Some(Self { value, digits: self.digits + last.digits, behind_point })
    }
}

/// A text without its minus sign, and whether there is one.
#[derive(Clone, Copy)]
struct Unsigned {
    start: *const u8,
    /// Nonsense where the text is empty and a minus sign stands behind it.
    length: usize,
    negative: bool,
}

impl Unsigned {
    /// `None` where behind a sign there are not sixteen bytes to read.
    #[inline(always)]
    fn of(span: Span<'_>) -> Option<Self> {
        if span.readable() <= WIDTH {
            return None;
        }
        let start = span.text().as_ptr();
        // SAFETY: more than sixteen bytes can be read there.
        let negative = unsafe { *start } == b'-';
        let start = start.wrapping_add(usize::from(negative));
        Some(Self { start, length: span.text().len().wrapping_sub(usize::from(negative)), negative })
    }

    /// All of it as a number of at most [`MOST_DIGITS`] characters, the point among them.
    #[inline(always)]
    fn number(self) -> Option<Part> {
        if self.length.wrapping_sub(1) >= MOST_DIGITS {
            return None;
        }
        // SAFETY: there is no `Unsigned` without a `Wide`, nor with less than sixteen bytes to be read; of a longer text
        // the last sixteen are its own.
        unsafe {
            if self.length <= WIDTH {
                return Part::read(self.start, self.length);
            }
            let first = self.length - WIDTH;
            Part::read(self.start, first)?.join(Part::read(self.start.add(first), WIDTH)?)
        }
    }

    /// A value with the sign that was left out.
    #[inline(always)]
    fn signed(self, magnitude: i64) -> i64 {
        if self.negative { -magnitude } else { magnitude }
    }

    /// The digits as `shuffles` (one of [`AROUND_POINT`]) has them, zeros where the text has fewer; `None` where it has more
    /// than `most_places` behind the point, and before it none or more than `most_whole`.
    #[inline(always)]
    fn around_point(self, shuffles: &[[u8; WIDTH]; WIDTH], most_places: usize, most_whole: usize) -> Option<__m128i> {
        if self.length >= WIDTH {
            return None;
        }
        // SAFETY: there is no `Wide` without the features; sixteen bytes can be read at the start, and the tables are
        // long enough for texts of fifteen.
        unsafe {
            let text = load(self.start);
            let points = _mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8(b'.'.cast_signed()))).cast_unsigned();
            // Where there is none, it is behind the text.
            let point = (points | 1 << self.length).trailing_zeros() as usize;
            if point.wrapping_sub(1) >= most_whole || self.length > point + 1 + most_places {
                return None;
            }
            let digits = _mm_xor_si128(text, _mm_set1_epi8(b'0'.cast_signed()));
            let digits = _mm_and_si128(digits, load(FIRST.as_ptr().add(WIDTH - self.length)));
            let digits = _mm_shuffle_epi8(digits, load(shuffles[point].as_ptr()));
            within(digits, _mm_set1_epi8(9)).then_some(digits)
        }
    }
}

impl Reader for Wide {
    #[inline(always)]
    fn run(self, body: impl Loop) {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        #[inline(never)]
        fn apart(body: impl Loop) {
            body.run();
        }
        // SAFETY: there is no `Wide` without the features.
        unsafe { apart(body) };
    }

    #[inline(always)]
    fn integer(self, span: Span<'_>) -> Option<i64> {
        let text = Unsigned::of(span)?;
        if text.length.wrapping_sub(1) >= WIDTH {
            return None;
        }
        // SAFETY: there is no `Wide` without the features; sixteen bytes can be read at the start, and the table is long
        // enough for texts of sixteen.
        let digits = unsafe {
            let digits = _mm_xor_si128(load(text.start), _mm_set1_epi8(b'0'.cast_signed()));
            _mm_shuffle_epi8(digits, load(TO_END.as_ptr().add(text.length)))
        };
        // SAFETY: as above.
        if !within(digits, unsafe { _mm_set1_epi8(9) }) {
            return None;
        }
        Some(text.signed(sixteen(digits).cast_signed()))
    }

    #[inline(always)]
    fn long_integer(self, span: Span<'_>) -> Option<i64> {
        let text = Unsigned::of(span)?;
        let number = text.number()?;
        let magnitude = i64::try_from(number.value).ok()?;
        number.behind_point.is_none().then(|| text.signed(magnitude))
    }

    #[inline(always)]
    fn groups(self, span: Span<'_>, size: NumericSize) -> Option<Groups> {
        let text = Unsigned::of(span)?;
        let NumericSize { fraction_groups, most_places, most_whole, .. } = size;
        let digits = text.around_point(&AROUND_POINT[4 * fraction_groups], most_places, most_whole)?;
        // SAFETY: there is no `Wide` without the features.
        let (lanes, present) = unsafe {
            let fours = fours(digits);
            let zeros = _mm_cmpeq_epi16(fours, _mm_setzero_si128());
            let zeros = _mm_movemask_epi8(_mm_packs_epi16(zeros, zeros));
            (_mm_cvtsi128_si64(fours).cast_unsigned(), !zeros.cast_unsigned() as usize & 15)
        };
        Some(Groups::with_present((lanes, present), fraction_groups, text.negative, most_places as u16))
    }

    #[inline(always)]
    fn scaled(self, span: Span<'_>, precision: u8, scale: u8) -> Option<i64> {
        let text = Unsigned::of(span)?;
        let places = usize::from(scale);
        let most_whole = usize::from(precision).checked_sub(places)?.min(WIDTH.saturating_sub(places));
        let digits = text.around_point(AROUND_POINT.get(places)?, places, most_whole)?;
        Some(text.signed(sixteen(digits).cast_signed()))
    }

    #[inline(always)]
    fn double(self, span: Span<'_>) -> Option<f64> {
        let text = Unsigned::of(span)?;
        let number = text.number()?;
        if number.digits == 0 {
            return None;
        }
        let magnitude = nearest_quotient(number.value, number.behind_point.unwrap_or(0) as u32);
        Some(if text.negative { -magnitude } else { magnitude })
    }

    #[inline(always)]
    fn date(self, span: Span<'_>) -> Option<i32> {
        if span.text().len() != 10 || span.readable() < WIDTH {
            return None;
        }
        // Sixteen times the year, and behind it the month and 256 times the day.
        const WEIGHTS: [i16; 8] = [1600, 16, 1, 256, 0, 0, 0, 0];
        // SAFETY: there is no `Wide` without the features; sixteen bytes can be read where the text begins.
        let parts = unsafe {
            let digits = _mm_xor_si128(load(span.text().as_ptr()), load(ISO_DATE.as_ptr()));
            if !within(digits, load(ISO_LIMITS.as_ptr())) {
                return None;
            }
            let pairs = _mm_maddubs_epi16(_mm_shuffle_epi8(digits, load(ISO_DIGITS.as_ptr())), _mm_set1_epi16(0x010A));
            _mm_cvtsi128_si64(_mm_madd_epi16(pairs, load(WEIGHTS.as_ptr().cast()))).cast_unsigned()
        };
        days_of(parts as usize & 0xFFFF_FFFF, (parts >> 32 & 0xFF) as usize, (parts >> 40) as u32)
    }

    #[inline(always)]
    fn timestamp(self, span: Span<'_>) -> Option<i64> {
        /// What is behind the minutes: seconds and their fraction.
        const REST: usize = WIDTH;
        const ANY: u8 = 0xFF;
        const NONE: u8 = 0x80;
        const ISO: &[u8; WIDTH] = b"0000-00-00\x0000:00";
        const LIMITS: [u8; WIDTH] = [9, 9, 9, 9, 0, 9, 9, 0, 9, 9, ANY, 9, 9, 0, 9, 9];
        const DIGITS: [u8; WIDTH] = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, NONE, NONE, NONE, NONE];
        // As for a date, and behind it the hour and 256 times the minute.
        const WEIGHTS: [i16; 8] = [1600, 16, 1, 256, 1, 256, 0, 0];
        const SECONDS: &[u8; WIDTH] = b":00.000000\0\0\0\0\0\0";
        const REST_LIMITS: [u8; WIDTH] = [0, 9, 9, 0, 9, 9, 9, 9, 9, 9, ANY, ANY, ANY, ANY, ANY, ANY];
        const REST_DIGITS: [u8; WIDTH] = [NONE, NONE, 1, 2, 4, 5, 6, 7, 8, 9, NONE, NONE, NONE, NONE, NONE, NONE];
        // The second, the first four digits of its fraction, the other two.
        const REST_WEIGHTS: [i16; 8] = [0, 1, 100, 1, 1, 0, 0, 0];
        let (text, length) = (span.text(), span.text().len());
        // `:SS` alone, or a point and one to six digits behind it.
        if !matches!(length.wrapping_sub(REST), 3 | 5..=10) || span.readable() < REST + WIDTH {
            return None;
        }
        if !matches!(text[10], b' ' | b'T') {
            return None;
        }
        // SAFETY: there is no `Wide` without the features; 32 bytes can be read where the text begins.
        let (day, time, seconds, last_micros) = unsafe {
            let pairs_of = |digits: __m128i, places: &[u8; WIDTH], weights: &[i16; 8]| {
                let pairs = _mm_maddubs_epi16(_mm_shuffle_epi8(digits, load(places.as_ptr())), _mm_set1_epi16(0x010A));
                _mm_madd_epi16(pairs, load(weights.as_ptr().cast()))
            };
            let digits = _mm_xor_si128(load(text.as_ptr()), load(ISO.as_ptr()));
            let rest = _mm_xor_si128(load(text.as_ptr().add(REST)), load(SECONDS.as_ptr()));
            let rest = _mm_and_si128(rest, load(FIRST.as_ptr().add(REST + WIDTH - length)));
            if !within(digits, load(LIMITS.as_ptr())) || !within(rest, load(REST_LIMITS.as_ptr())) {
                return None;
            }
            let moment = pairs_of(digits, &DIGITS, &WEIGHTS);
            let rest = pairs_of(rest, &REST_DIGITS, &REST_WEIGHTS);
            (
                _mm_cvtsi128_si64(moment).cast_unsigned(),
                _mm_extract_epi32(moment, 2).cast_unsigned(),
                _mm_cvtsi128_si64(rest).cast_unsigned(),
                _mm_extract_epi32(rest, 2),
            )
        };
        let (hour, minute, second) = (time & 0xFF, time >> 8, seconds as u32);
        if (hour > 23) | (minute > 59) | (second > 59) {
            return None;
        }
        let days = days_of(day as usize & 0xFFFF_FFFF, (day >> 32 & 0xFF) as usize, (day >> 40) as u32)?;
        let second_of_day = i64::from((hour * 60 + minute) * 60 + second);
        let micros = (seconds >> 32).cast_signed() * 100 + i64::from(last_micros);
        Some(i64::from(days) * MICROS_PER_DAY + second_of_day * 1_000_000 + micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::numeric::{Typmod, encode_binary, parse_scaled_i64};
    use crate::value::{ServerVersion, date, integer, timestamp};
    use proptest::prelude::*;

    /// A text and what stands behind it in a window, which must not be taken for a part of it.
    fn each_neighbour(text: &[u8], mut check: impl FnMut(Span<'_>)) {
        for behind in [&b"7777777777777777777777"[..], b"|1.5|2001-01-01|-3|aa", b"..................", b"\n"] {
            let window = [text, behind].concat();
            // SAFETY: all of the window can be read.
            check(unsafe { Span::within(&window[..text.len()], window.len()) });
        }
    }

    /// What a reader says is what the parser of the whole grammar says, if it says anything.
    fn compare(text: &[u8]) -> usize {
        let Some(wide) = Wide::found() else { return 0 };
        let mut known = 0;
        each_neighbour(text, |span| {
            if let Some(value) = wide.integer(span) {
                assert_eq!(integer::parse_int8(text, ServerVersion::NEWEST), Ok(value), "{text:?}");
                known += 1;
            }
            if let Some(value) = wide.long_integer(span) {
                assert_eq!(integer::parse_int8(text, ServerVersion::NEWEST), Ok(value), "{text:?}");
                known += 1;
            }
            if let Some(value) = wide.double(span) {
                let expected: f64 = std::str::from_utf8(text).expect("digits").parse().expect("a number");
                assert_eq!(value.to_bits(), expected.to_bits(), "{text:?}");
                known += 1;
            }
            if let Some(micros) = wide.timestamp(span) {
                assert_eq!(timestamp::parse(text), Ok(micros), "{text:?}");
                known += 1;
            }
            if let Some(days) = wide.date(span) {
                assert_eq!(date::parse(text), Ok(days), "{text:?}");
                known += 1;
            }
            for (precision, scale) in [(15, 2), (18, 0), (18, 18), (5, 5), (4, 1), (9, 4), (12, 5), (18, 8), (18, 12)] {
                if let Some(value) = wide.scaled(span, precision, scale) {
                    assert_eq!(parse_scaled_i64(text, precision, scale), Ok(value), "{text:?} {precision} {scale}");
                    known += 1;
                }
                for (precision, scale) in [(precision, scale), (30, scale)] {
                    let typmod = Typmod { precision: precision.into(), scale: scale.into() };
                    if let Some(groups) = wide.groups(span, typmod.into()) {
                        let mut sent = Vec::new();
                        encode_binary(text, Some(typmod), ServerVersion::NEWEST, &mut sent).expect("a known number");
                        let (bytes, length) = groups.sent();
                        assert_eq!(bytes[..length], sent[..], "{text:?} {typmod:?}");
                        known += 1;
                    }
                }
            }
        });
        known
    }

    #[test]
    fn every_byte_in_every_place() {
        let texts: [&[u8]; 16] = [
            b"9223372036854775807",
            b"-922337203685477580",
            b"-1.2345678901234567",
            b"0.1234567890123456",
            b"12345678901234.5678",
            b"2024-02-29 23:59:59",
            b"1999-12-31T00:00:00.123456",
            b"1234567890123456",
            b"-123456789012345",
            b"12345678.12",
            b"-0.00",
            b"0.5",
            b"1234567890.1234",
            b"2024-02-29",
            b"1999-12-31",
            b"7",
        ];
        for text in texts {
            for place in 0..text.len() {
                for byte in 0..=255 {
                    let mut text = text.to_vec();
                    text[place] = byte;
                    compare(&text);
                }
            }
        }
    }

    #[test]
    fn what_is_common_is_known() {
        if Wide::found().is_none() {
            return;
        }
        for text in [
            "0",
            "-1",
            "42",
            "1234567",
            "2147483647",
            "-9007199254740",
            "9223372036854775807",
            "17.00",
            "0.04",
            "-12345.67",
            "0.30000000000000004",
            "9007199254740993",
            "9007199254740993.0",
            "9007199254740993.01",
            "9007199254740995",
            "-9007199254740993.10",
            "-976562.5068359375",
            "1998-12-01",
            "1998-12-01 12:34:56",
            "1998-12-01T12:34:56.7",
            "1998-12-01 12:34:56.789012",
        ] {
            assert!(compare(text.as_bytes()) > 0, "{text}");
        }
        // Each by its own reader, and not by another one that knows it too.
        each_neighbour(b"-922337203685477580", |span| {
            assert_eq!(Wide::found().and_then(|wide| wide.long_integer(span)), Some(-922_337_203_685_477_580));
        });
        for text in
            ["", "-", ".", "-.", "+1", " 1", "1 ", "1e5", "0x1f", "1_000", "--1", "1.2.3", "2001-02-29", "2001-20-01"]
        {
            let scaled = |span: Span<'_>| Wide::found().and_then(|wide| wide.scaled(span, 15, 2));
            each_neighbour(text.as_bytes(), |span| assert_eq!(scaled(span), None, "{text}"));
            compare(text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn numbers(text in "-?[0-9]{0,17}[.]?[0-9]{0,13}|[-+0-9.eE ]{0,18}") {
            compare(text.as_bytes());
        }

        #[test]
        fn doubles(text in "-?([0-9]{1,19}[.]?|[0-9]{0,18}[.][0-9]{1,18})|-?[0-9.]{0,20}") {
            compare(text.as_bytes());
        }

        #[test]
        fn timestamps(
            date in "(19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]",
            time in "[ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.][0-9]{0,8})?|[ T][0-9:.]{7,16}",
        ) {
            compare((date + &time).as_bytes());
        }

        #[test]
        fn dates(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}|(19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]") {
            compare(text.as_bytes());
        }
    }
}
