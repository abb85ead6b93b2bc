//! `smallint`, `integer` and `bigint`: what PostgreSQL's `int2in`, `int4in` and `int8in` read.
//!
//! The three differ only in their range. Version 16 added hexadecimal, octal and binary notation and underscores
//! between digits, and with it changed the point at which an over-long number with something else behind it is
//! called out of range instead of badly written; both orders are kept, so that a reject names the server's cause.

use super::digits::{parse_digits, parse_long_digits};
use super::reader::{Reader, Words};
use super::{Refusal, ServerVersion, Span, is_space, malformed, only_space, trim_start};
use std::ops::{Div, Mul};

/// Reads a `smallint`.
#[inline(always)]
pub fn parse_int2<'t>(text: impl Into<Span<'t>>, server: ServerVersion) -> Result<i16, Refusal> {
    read_int2(Words, text.into(), server)
}

/// Reads an `integer`.
#[inline(always)]
pub fn parse_int4<'t>(text: impl Into<Span<'t>>, server: ServerVersion) -> Result<i32, Refusal> {
    read_int4(Words, text.into(), server)
}

/// Reads a `bigint`.
#[inline(always)]
pub fn parse_int8<'t>(text: impl Into<Span<'t>>, server: ServerVersion) -> Result<i64, Refusal> {
    read_int8(Words, text.into(), server)
}

/// [`parse_int2`] by a reader of one's own.
#[inline(always)]
pub(crate) fn read_int2(reader: impl Reader, span: Span<'_>, server: ServerVersion) -> Result<i16, Refusal> {
    match reader.integer(span).map(i16::try_from) {
        Some(Ok(value)) => Ok(value),
        _ => parse_slowly(span.text(), server, i16::BITS).map(|value| value as i16),
    }
}

/// [`parse_int4`] by a reader of one's own.
#[inline(always)]
pub(crate) fn read_int4(reader: impl Reader, span: Span<'_>, server: ServerVersion) -> Result<i32, Refusal> {
    match reader.integer(span).map(i32::try_from) {
        Some(Ok(value)) => Ok(value),
        _ => parse_slowly(span.text(), server, i32::BITS).map(|value| value as i32),
    }
}

/// [`parse_int8`] by a reader of one's own.
#[inline(always)]
pub(crate) fn read_int8(reader: impl Reader, span: Span<'_>, server: ServerVersion) -> Result<i64, Refusal> {
    match reader.long_integer(span) {
        Some(value) => Ok(value),
        None => parse_slowly(span.text(), server, i64::BITS),
    }
}

/// Reads an integer of a width that PostgreSQL does not have, by the newest grammar: the magnitude, and whether it is
/// below zero. `bits` is 8 to 128.
///
/// # Errors
/// As the other integers.
pub fn parse_other(text: &[u8], bits: u8, signed: bool) -> Result<(bool, u128), Refusal> {
    let largest = u128::MAX >> (128 - u32::from(bits) + u32::from(signed));
    if let Some(value) = parse_plain(text.into())
        && (signed || value >= 0)
        && u128::from(value.unsigned_abs()) <= largest
    {
        return Ok((value < 0, u128::from(value.unsigned_abs())));
    }
    let (negative, rest) = match trim_start(text) {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (digits, rest) = Digits::begin(text, rest);
    let (magnitude, rest) = digits.accumulate_unsigned(rest, largest)?;
    if !only_space(rest) {
        return Err(malformed(text));
    }
    let most = match (negative, signed) {
        (false, _) => largest,
        (true, true) => largest + 1,
        (true, false) => 0,
    };
    if magnitude <= most { Ok((negative && magnitude > 0, magnitude)) } else { Err(Refusal::OutOfRange) }
}

/// The common spelling: an optional minus sign and 1 to 16 digits.
#[inline(always)]
pub(super) fn parse_plain(span: Span<'_>) -> Option<i64> {
    let (negative, digits) = span.split_minus();
    let magnitude = parse_digits(digits)? as i64;
    Some(if negative { -magnitude } else { magnitude })
}

/// An optional minus sign and 17 to 19 digits, where a `bigint` can hold them.
#[inline(never)]
pub(super) fn parse_long(span: Span<'_>) -> Option<i64> {
    let (negative, digits) = span.split_minus();
    let magnitude = i64::try_from(parse_long_digits(digits)?).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

/// The whole grammar, for a type of `bits` bits.
#[inline(never)]
fn parse_slowly(text: &[u8], server: ServerVersion, bits: u32) -> Result<i64, Refusal> {
    // The largest magnitude, that of the smallest negative number.
    let limit = 1_u64 << (bits - 1);
    let rest = trim_start(text);
    let (negative, rest) = match rest {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, rest),
    };
    let (magnitude, rest) = if server.reads_extended_integers() {
        let (digits, rest) = Digits::begin(text, rest);
        digits.accumulate_unsigned(rest, limit)?
    } else {
        accumulate_negatively(text, rest, limit)?
    };
    if !only_space(rest) {
        return Err(malformed(text));
    }
    match (negative, magnitude) {
        (true, _) if magnitude <= limit => Ok((magnitude as i64).wrapping_neg()),
        (false, _) if magnitude < limit => Ok(magnitude as i64),
        _ => Err(Refusal::OutOfRange),
    }
}

/// How the digits after the sign are written, from version 16 on.
struct Digits<'a> {
    /// The whole field, for the refusal.
    text: &'a [u8],
    radix: u32,
    /// After a radix prefix the first digit may be separated from it.
    underscore_may_lead: bool,
}

/// An unsigned integer wide enough for what is summed up in it.
trait Magnitude: Copy + PartialOrd + From<u32> + Mul<Output = Self> + Div<Output = Self> {
    /// The sum, or `None` where it is not wide enough.
    fn checked_add(self, other: Self) -> Option<Self>;
}
impl Magnitude for u64 {
    fn checked_add(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
}
impl Magnitude for u128 {
    fn checked_add(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
}

impl<'t> Digits<'t> {
    /// Steps over the prefix of a radix, if there is one.
    fn begin<'r>(text: &'t [u8], rest: &'r [u8]) -> (Self, &'r [u8]) {
        let (radix, rest, underscore_may_lead) = match rest {
            [b'0', b'x' | b'X', rest @ ..] => (16, rest, true),
            [b'0', b'o' | b'O', rest @ ..] => (8, rest, true),
            [b'0', b'b' | b'B', rest @ ..] => (2, rest, true),
            _ => (10, rest, false),
        };
        (Self { text, radix, underscore_may_lead }, rest)
    }

    /// The magnitude and what follows it. Refused only when one more digit would go far beyond `limit`, so that
    /// the accumulator never overflows; a magnitude just above the limit is returned.
    fn accumulate_unsigned<'r, T: Magnitude>(&self, mut rest: &'r [u8], limit: T) -> Result<(T, &'r [u8]), Refusal> {
        let digit_of = |byte: u8| char::from(byte).to_digit(self.radix).map(T::from);
        let radix = T::from(self.radix);
        let mut magnitude = T::from(0);
        let mut any = false;
        while let [first, after @ ..] = rest {
            if let Some(digit) = digit_of(*first) {
                if magnitude > limit / radix {
                    return Err(Refusal::OutOfRange);
                }
                // The limit may be the largest number of the accumulator: then the last digit leaves it.
                magnitude = (magnitude * radix).checked_add(digit).ok_or(Refusal::OutOfRange)?;
                any = true;
            } else if *first == b'_' && (any || self.underscore_may_lead) {
                if after.first().and_then(|&next| digit_of(next)).is_none() {
                    return Err(malformed(self.text));
                }
            } else {
                break;
            }
            rest = after;
        }
        if any { Ok((magnitude, rest)) } else { Err(malformed(self.text)) }
    }
}

/// Up to version 15 the server sums up negative numbers, and refuses at the first digit that passes the smallest.
fn accumulate_negatively<'r>(text: &[u8], mut rest: &'r [u8], limit: u64) -> Result<(u64, &'r [u8]), Refusal> {
    let mut magnitude = 0_u64;
    if !rest.first().is_some_and(u8::is_ascii_digit) {
        return Err(malformed(text));
    }
    while let [first @ b'0'..=b'9', after @ ..] = rest {
        let digit = u64::from(first - b'0');
        if magnitude > (limit - digit) / 10 {
            return Err(Refusal::OutOfRange);
        }
        magnitude = magnitude * 10 + digit;
        rest = after;
    }
    debug_assert!(rest.first().is_none_or(|&byte| is_space(byte) || !byte.is_ascii_digit()));
    Ok((magnitude, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD: ServerVersion = ServerVersion(15);
    const NEW: ServerVersion = ServerVersion::NEWEST;

    #[test]
    fn boundaries() {
        for server in [OLD, NEW] {
            assert_eq!(parse_int2(b"32767", server), Ok(i16::MAX));
            assert_eq!(parse_int2(b"-32768", server), Ok(i16::MIN));
            assert_eq!(parse_int2(b"32768", server), Err(Refusal::OutOfRange));
            assert_eq!(parse_int2(b"-32769", server), Err(Refusal::OutOfRange));
            assert_eq!(parse_int4(b"2147483647", server), Ok(i32::MAX));
            assert_eq!(parse_int4(b"-2147483648", server), Ok(i32::MIN));
            assert_eq!(parse_int4(b"2147483648", server), Err(Refusal::OutOfRange));
            assert_eq!(parse_int4(b"-2147483649", server), Err(Refusal::OutOfRange));
            assert_eq!(parse_int8(b"9223372036854775807", server), Ok(i64::MAX));
            assert_eq!(parse_int8(b"-9223372036854775808", server), Ok(i64::MIN));
            assert_eq!(parse_int8(b"9223372036854775808", server), Err(Refusal::OutOfRange));
            assert_eq!(parse_int8(b"-9223372036854775809", server), Err(Refusal::OutOfRange));
            assert_eq!(parse_int8(b"99999999999999999999999999", server), Err(Refusal::OutOfRange));
        }
    }

    #[test]
    fn spellings_that_every_version_reads_alike() {
        for server in [OLD, NEW] {
            for (text, value) in [("0", 0), ("-0", 0), ("+7", 7), (" \t7\r\n", 7), ("0000000000000000000000007", 7)] {
                assert_eq!(parse_int4(text.as_bytes(), server), Ok(value), "{text:?}");
            }
            for text in ["", " ", "-", "+", "--1", "+-1", "- 1", "1 2", "1.0", "1e3", "x", "1x", "０", "_1", "1_"] {
                assert_eq!(parse_int4(text.as_bytes(), server), Err(Refusal::InvalidSyntax), "{text:?}");
            }
            assert_eq!(parse_int4(b"1\0", server), Err(Refusal::InvalidEncoding));
        }
    }

    #[test]
    fn spellings_of_version_16() {
        for (text, value) in [
            ("0x1f", 31),
            ("-0X_1_F ", -31),
            ("0o17", 15),
            ("0b_101", 5),
            ("1_000", 1000),
            ("0_0", 0),
            ("-0x80000000", i32::MIN),
        ] {
            assert_eq!(parse_int4(text.as_bytes(), NEW), Ok(value), "{text:?}");
            assert_eq!(parse_int4(text.as_bytes(), OLD), Err(Refusal::InvalidSyntax), "{text:?}");
        }
        for text in ["0x", "0x_", "0xg", "0b2", "0o8", "1__0", "0x1__0", "00x1"] {
            assert_eq!(parse_int4(text.as_bytes(), NEW), Err(Refusal::InvalidSyntax), "{text:?}");
        }
        assert_eq!(parse_int4(b"0x80000000", NEW), Err(Refusal::OutOfRange));
        assert_eq!(parse_int2(b"0x10000", NEW), Err(Refusal::OutOfRange));
    }

    #[test]
    fn digits_that_leave_the_widest_accumulator() {
        let wraps = ["340282366920938463463374607431768211456", "340282366920938463463374607431768211459"];
        let longer = ["3402823669209384634633746074317682114565", "0xffffffffffffffffffffffffffffffff0"];
        for text in wraps.into_iter().chain(longer) {
            assert_eq!(parse_other(text.as_bytes(), 128, false), Err(Refusal::OutOfRange), "{text}");
        }
        let most = "0x".to_owned() + &"f".repeat(32);
        assert_eq!(parse_other(most.as_bytes(), 128, false), Ok((false, u128::MAX)));
    }

    #[test]
    fn other_widths() {
        for (bits, signed, least, most) in [
            (8, true, i128::from(i8::MIN), 127_u128),
            (8, false, 0, 255),
            (16, false, 0, 65_535),
            (32, false, 0, u32::MAX.into()),
            (64, false, 0, u64::MAX.into()),
            (64, true, i64::MIN.into(), i64::MAX as u128),
            (128, true, i128::MIN, i128::MAX as u128),
            (128, false, 0, u128::MAX),
        ] {
            let parse = |text: String| parse_other(text.as_bytes(), bits, signed);
            assert_eq!(parse(most.to_string()), Ok((false, most)));
            assert_eq!(parse(format!(" +{most} ")), Ok((false, most)));
            assert_eq!(parse(format!("{most}0")), Err(Refusal::OutOfRange));
            assert_eq!(parse(least.to_string()), Ok((least < 0, least.unsigned_abs())));
            assert_eq!(parse("-0".into()), Ok((false, 0)));
            assert_eq!(parse("x".into()), Err(Refusal::InvalidSyntax));
            if let Some(above) = most.checked_add(1) {
                assert_eq!(parse(above.to_string()), Err(Refusal::OutOfRange));
            }
            if let Some(below) = least.checked_sub(1) {
                assert_eq!(parse(below.to_string()), Err(Refusal::OutOfRange));
            }
        }
        assert_eq!(parse_other(b"0xFF", 8, false), Ok((false, 255)));
    }

    #[test]
    fn which_fault_comes_first() {
        assert_eq!(parse_int4(b"99999999999x", OLD), Err(Refusal::OutOfRange));
        assert_eq!(parse_int4(b"99999999999x", NEW), Err(Refusal::OutOfRange));
        assert_eq!(parse_int4(b"2147483649x", OLD), Err(Refusal::OutOfRange));
        assert_eq!(parse_int4(b"2147483649x", NEW), Err(Refusal::InvalidSyntax));
        assert_eq!(parse_int4(b"2147483648x", OLD), Err(Refusal::InvalidSyntax));
    }

    proptest! {
        #[test]
        fn decimal_as_the_standard_library_reads_it(text in "[+-]?[0-9]{1,21}", server in 15_u16..=18) {
            let server = ServerVersion(server);
            let value: i128 = text.parse().unwrap();
            let bytes = text.as_bytes();
            prop_assert_eq!(parse_int2(bytes, server), i16::try_from(value).map_err(|_| Refusal::OutOfRange));
            prop_assert_eq!(parse_int4(bytes, server), i32::try_from(value).map_err(|_| Refusal::OutOfRange));
            prop_assert_eq!(parse_int8(bytes, server), i64::try_from(value).map_err(|_| Refusal::OutOfRange));
        }

        #[test]
        fn every_value_survives_its_own_text(value: i64) {
            prop_assert_eq!(parse_int8(value.to_string().as_bytes(), NEW), Ok(value));
            prop_assert_eq!(parse_int4((value as i32).to_string().as_bytes(), NEW), Ok(value as i32));
            prop_assert_eq!(parse_int2((value as i16).to_string().as_bytes(), NEW), Ok(value as i16));
            prop_assert_eq!(parse_int8(format!("{:#x}", value >> 1 & i64::MAX).as_bytes(), NEW), Ok(value >> 1 & i64::MAX));
        }
    }
}
