//! Decimal digits read a word at a time, shared by the numeric types and the dates.
//!
//! A loop over bytes costs about a nanosecond per digit and a branch per byte; fields are short, so a handful of
//! operations on one or two 64-bit words reads the whole field. Advice for hackers: words are loaded little
//! endian, so the first character is the lowest byte and "shift left" means "move towards the end of the text".
//! Loads never pass the end of what can be read; a short text at the very end is put together from two overlapping loads.

use super::Span;

/// Ten to the power of the index; the last entry is an unreachable limit (10^20 does not fit) for capped look-ups.
pub(super) const POWERS_OF_TEN: [u64; 21] = {
    let mut powers = [u64::MAX; 21];
    let mut value = 1_u64;
    let mut index = 0;
    while index < 20 {
        powers[index] = value;
        if index < 19 {
            value *= 10;
        }
        index += 1;
    }
    powers
};

/// A byte repeated eight times.
pub(super) const fn repeat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The first eight bytes of `text`, or all of them followed by zero bytes.
#[inline]
pub(super) fn load_short(text: &[u8]) -> u64 {
    if let Some(word) = text.first_chunk::<8>() {
        u64::from_le_bytes(*word)
    } else if let (Some(low), Some(high)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let low = u64::from(u32::from_le_bytes(*low));
        let high = u64::from(u32::from_le_bytes(*high));
        low | high << (8 * (text.len() - 4))
    } else {
        match *text {
            [] => 0,
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_le_bytes([a, b])),
            [a, b, c, ..] => u64::from(u32::from_le_bytes([a, b, c, 0])),
        }
    }
}

/// Whether every byte of `digits` is 0 to 9 (digit values, not characters).
#[inline]
pub(super) const fn all_digits(digits: u64) -> bool {
    // 0x76 lifts everything above 9 over the top bit; a byte that has the top bit already is caught by itself,
    // and only such a byte could carry into its neighbour.
    ((digits.wrapping_add(repeat(0x76))) | digits) & repeat(0x80) == 0
}

/// The two numbers below 10,000 that eight digit values spell, each in its half of the word, the first lower.
#[inline]
pub(super) const fn combine_fours(digits: u64) -> u64 {
    // Neighbours are joined into pairs, pairs into fours: 10·a + b in every lane at once.
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_FFFF_0000_FFFF
}

/// The number that eight digit values spell, the first in the lowest byte.
#[inline]
pub(super) const fn combine_eight(digits: u64) -> u64 {
    let fours = combine_fours(digits);
    (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xFFFF_FFFF
}

/// The number written by 1 to 8 digits and nothing else; what `word` has behind them does not matter.
#[inline(always)]
pub(super) fn parse_up_to_eight(word: u64, length: usize) -> Option<u64> {
    debug_assert!((1..=8).contains(&length));
    let shift = 8 * (8 - length);
    let digits = (word << shift) ^ (repeat(b'0') << shift);
    all_digits(digits).then(|| combine_eight(digits))
}

/// The number written by 1 to 16 digits and nothing else.
#[inline(always)]
pub(super) fn parse_digits(span: Span<'_>) -> Option<u64> {
    match span.text().len() {
        length @ 1..=8 => parse_up_to_eight(span.first_word(), length),
        length @ 9..=16 => parse_up_to_sixteen(span, length),
        _ => None,
    }
}

/// The number written by 9 to 16 digits and nothing else.
#[inline(never)]
fn parse_up_to_sixteen(span: Span<'_>, length: usize) -> Option<u64> {
    let upper = parse_up_to_eight(span.first_word(), length - 8)?;
    let lower = parse_up_to_eight(u64::from_le_bytes(*span.text().last_chunk::<8>()?), 8)?;
    Some(upper * 100_000_000 + lower)
}

/// The number written by 17 to 19 digits and nothing else.
#[inline(always)]
pub(super) fn parse_long_digits(span: Span<'_>) -> Option<u64> {
    let length = span.text().len();
    if !(17..=19).contains(&length) {
        return None;
    }
    let upper = parse_up_to_eight(span.first_word(), length - 16)?;
    let (_, last) = span.text().split_at(length - 16);
    Some(upper * POWERS_OF_TEN[16] + parse_up_to_sixteen(last.into(), 16)?)
}

/// A decimal number of at most 16 digits: `digits` / 10^`fraction_digits`, with a sign of its own for -0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShortDecimal {
    /// All digits, without the point: below 10^16.
    pub(super) digits: u64,
    /// How many of them stand after the point: 0 to 16.
    pub(super) fraction_digits: u32,
    /// Whether a minus sign stands first.
    pub(super) negative: bool,
}

/// Reads `-?` and 1 to 16 digits with at most one point anywhere among them, in 16 bytes after the sign.
/// `None` says nothing about the text but that it is not one of these.
#[inline(always)]
pub(super) fn parse_short_decimal(span: Span<'_>) -> Option<ShortDecimal> {
    let (negative, span) = span.split_minus();
    let length = span.text().len();
    if !(1..=8).contains(&length) {
        return parse_longer_decimal(span.text(), negative);
    }
    // Zeros behind the text: no point is found there.
    let word = span.first_word() & (u64::MAX >> (64 - 8 * length));
    let (digits, count, fraction_digits) = take_out_point_64(word, length);
    if count == 0 {
        return None;
    }
    Some(ShortDecimal { digits: parse_up_to_eight(digits, count)?, fraction_digits, negative })
}

/// [`parse_short_decimal`] of 9 to 16 characters behind the sign.
#[inline(never)]
fn parse_longer_decimal(text: &[u8], negative: bool) -> Option<ShortDecimal> {
    let length = text.len();
    if length > 16 {
        return None;
    }
    let (Some(low), Some(high)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) else {
        return None;
    };
    let word = u128::from(u64::from_le_bytes(*low)) | u128::from(u64::from_le_bytes(*high)) << (8 * (length - 8));
    let (word, count, fraction_digits) = take_out_point_128(word, length);
    let shift = 8 * (16 - count);
    let zeros = u128::from(repeat(b'0')) << 64 | u128::from(repeat(b'0'));
    let digits = (word << shift) ^ (zeros << shift);
    let (first, second) = (digits as u64, (digits >> 64) as u64);
    if !(all_digits(first) && all_digits(second)) {
        return None;
    }
    let digits = combine_eight(first) * 100_000_000 + combine_eight(second);
    Some(ShortDecimal { digits, fraction_digits, negative })
}

/// A word without the byte at `position`, 0 to 7: those behind it move up.
#[inline(always)]
pub(super) const fn without_byte(word: u64, position: u32) -> u64 {
    let before = (1_u64 << (8 * position)) - 1;
    (word & before) | ((word >> 8) & !before)
}

/// Closes the gap that the first point leaves: the word, how many characters remain, how many followed the point.
#[inline]
const fn take_out_point_64(word: u64, length: usize) -> (u64, usize, u32) {
    let points = word ^ repeat(b'.');
    // The lowest marked byte is exactly the first zero of `points`; higher marks may be false but are not used.
    let marks = points.wrapping_sub(repeat(0x01)) & !points & repeat(0x80);
    if marks == 0 {
        return (word, length, 0);
    }
    let position = marks.trailing_zeros() / 8;
    (without_byte(word, position), length - 1, length as u32 - 1 - position)
}

/// [`take_out_point_64`] for 9 to 16 characters.
#[inline]
const fn take_out_point_128(word: u128, length: usize) -> (u128, usize, u32) {
    const fn repeat_wide(byte: u8) -> u128 {
        u128::from_ne_bytes([byte; 16])
    }
    let points = word ^ repeat_wide(b'.');
    let marks = points.wrapping_sub(repeat_wide(0x01)) & !points & repeat_wide(0x80);
    if marks == 0 {
        return (word, length, 0);
    }
    let position = marks.trailing_zeros() / 8;
    let before = (1_u128 << (8 * position)) - 1;
    ((word & before) | ((word >> 8) & !before), length - 1, length as u32 - 1 - position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The obvious version of [`parse_short_decimal`].
    fn parse_short_decimal_slowly(text: &str) -> Option<ShortDecimal> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let digits: String = unsigned.chars().filter(|&c| c != '.').collect();
        let well_formed = unsigned.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && unsigned.matches('.').count() <= 1
            && !digits.is_empty()
            && unsigned.len() <= 16;
        well_formed.then(|| ShortDecimal {
            digits: digits.parse().unwrap(),
            fraction_digits: unsigned.find('.').map_or(0, |point| unsigned.len() - 1 - point) as u32,
            negative: text.starts_with('-'),
        })
    }

    #[test]
    fn powers_of_ten() {
        assert_eq!(POWERS_OF_TEN[0], 1);
        assert_eq!(POWERS_OF_TEN[19], 10_000_000_000_000_000_000);
        assert_eq!(POWERS_OF_TEN[20], u64::MAX);
    }

    #[test]
    fn every_byte_in_every_place_of_every_length() {
        for length in 1..=17_usize {
            for place in 0..length {
                for byte in 0..=255_u8 {
                    let mut text = b"12345678901234567"[..length].to_vec();
                    text[place] = byte;
                    let expected = std::str::from_utf8(&text).ok();
                    let digits = expected.filter(|t| length <= 16 && t.bytes().all(|b| b.is_ascii_digit()));
                    let decimal = expected.and_then(parse_short_decimal_slowly);
                    let digits = digits.map(|t| t.parse().unwrap());
                    // Alone, and with what must not be taken for a part of it behind it.
                    let behind = [&text[..], b"7.77777777"].concat();
                    // SAFETY: all of `behind` can be read.
                    let within = unsafe { Span::within(&behind[..length], behind.len()) };
                    for span in [Span::from(&text[..]), within] {
                        assert_eq!(parse_digits(span), digits, "{text:?}");
                        assert_eq!(parse_short_decimal(span), decimal, "{text:?}");
                    }
                }
            }
        }
        assert_eq!(parse_digits(b"".into()), None);
        assert_eq!(parse_short_decimal(b"".into()), None);
        assert_eq!(parse_short_decimal(b"-".into()), None);
    }

    proptest! {
        #[test]
        fn short_decimals_as_the_slow_reader_sees_them(text in "-?[0-9]{0,9}[.]?[0-9]{0,9}|[-0-9.e ]{0,18}") {
            prop_assert_eq!(parse_short_decimal(text.as_bytes().into()), parse_short_decimal_slowly(&text));
        }
    }
}
