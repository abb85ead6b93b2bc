//! `real` and `double precision`: what PostgreSQL's `float4in` and `float8in` read.
//!
//! The server calls the C library's `strtod` and `strtof`, which round correctly, as Rust's own parser does. What
//! C reads and Rust does not is either read here (white space) or left to the server, because platforms differ:
//! hexadecimal floats, signed NaN and NaN with a payload.

use super::digits::{POWERS_OF_TEN, parse_short_decimal};
use super::reader::{Reader, Words};
use super::{Refusal, Span, malformed, only_space, starts_with_word, trim_start};

/// The longest text judged here. Rust's parser caps an exponent's size, which only a text far longer than this
/// could make visible.
const LONGEST_BYTES: usize = 4096;

/// The most digits of a number whose digits alone are an integer of 64 bits.
pub(super) const MOST_DIGITS: u32 = 19;

/// Powers of ten that a double holds exactly.
const EXACT_POWERS: [f64; MOST_DIGITS as usize + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19];

/// The greatest integer up to which a double holds all.
const LAST_EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

/// Reads a `real`.
///
/// # Errors
/// [`Refusal::OutOfRange`] for what rounds to infinity, or to zero without being zero.
#[inline]
pub fn parse_float4(text: &[u8]) -> Result<f32, Refusal> {
    read_float4(Words, text.into())
}

/// Reads a `double precision`.
///
/// # Errors
/// [`Refusal::OutOfRange`] for what rounds to infinity, or to zero without being zero.
#[inline]
pub fn parse_float8(text: &[u8]) -> Result<f64, Refusal> {
    read_float8(Words, text.into())
}

/// [`parse_float4`] by a reader of one's own.
#[inline(always)]
pub(crate) fn read_float4(reader: impl Reader, span: Span<'_>) -> Result<f32, Refusal> {
    match regular_float4(reader, span) {
        Some(value) => Ok(value),
        None => parse_any_float4(span.text()),
    }
}

/// [`parse_float8`] by a reader of one's own.
#[inline(always)]
pub(crate) fn read_float8(reader: impl Reader, span: Span<'_>) -> Result<f64, Refusal> {
    match reader.double(span) {
        Some(value) => Ok(value),
        None => parse_any_float8(span.text()),
    }
}

/// What another reader does not know: at a window's end it is as plain as elsewhere.
#[inline(never)]
fn parse_any_float4(text: &[u8]) -> Result<f32, Refusal> {
    regular_float4(Words, text.into()).map_or_else(|| parse_slowly(text), Ok)
}

/// As [`parse_any_float4`].
#[inline(never)]
fn parse_any_float8(text: &[u8]) -> Result<f64, Refusal> {
    parse_plain(text.into()).map_or_else(|| parse_slowly(text), Ok)
}

/// A `real` that the nearest double tells.
#[inline(always)]
pub(crate) fn regular_float4(reader: impl Reader, span: Span<'_>) -> Option<f32> {
    let double = reader.double(span)?;
    // Rounding twice goes wrong only where the double lies in the middle between two singles: everywhere else
    // the number itself lies on the same side of that middle.
    const MIDDLE: u64 = 1 << 28;
    (double.to_bits() & (2 * MIDDLE - 1) != MIDDLE).then_some(double as f32)
}

/// The common spelling, of up to 16 characters behind a minus sign.
#[inline]
pub(super) fn parse_plain(span: Span<'_>) -> Option<f64> {
    let short = parse_short_decimal(span)?;
    let magnitude = nearest_quotient(short.digits, short.fraction_digits);
    Some(if short.negative { -magnitude } else { magnitude })
}

/// The double nearest to `digits` / 10^`fraction_digits`, where the digits are exactly a double, as is the power of ten:
/// one division of two exact numbers rounds once, hence correctly (Clinger, "How to read floating point numbers
/// accurately", 1990).
#[inline(always)]
fn exact_quotient(digits: u64, fraction_digits: u32) -> Option<f64> {
    let power = EXACT_POWERS.get(fraction_digits as usize)?;
    (digits <= LAST_EXACT).then(|| digits as f64 / power)
}

/// The double nearest to `digits` / 10^`fraction_digits`, of which there are [`MOST_DIGITS`] at most.
#[inline(always)]
pub(super) fn nearest_quotient(digits: u64, fraction_digits: u32) -> f64 {
    match exact_quotient(digits, fraction_digits) {
        Some(value) => value,
        None => divide_and_round(digits, POWERS_OF_TEN[fraction_digits as usize]),
    }
}

/// The double nearest to `dividend` / `divisor`, neither of them zero; of two that are equally near, the even one.
#[inline(never)]
fn divide_and_round(dividend: u64, divisor: u64) -> f64 {
    let (up, down) = (dividend.leading_zeros(), divisor.leading_zeros());
    // Between 1/2 and 2, in units of 2^-63: 63 bits at least, of which a double keeps 53.
    let (dividend, divisor) = (u128::from(dividend << up) << 63, u128::from(divisor << down));
    let quotient = (dividend / divisor) as u64;
    // What was left over only says on which side of the middle the number lies, as the lowest bit does then.
    let sticky = u64::from(u128::from(quotient) * divisor != dividend);
    // To make a double of an integer rounds to the nearest, and a power of two changes no digit.
    (quotient | sticky) as f64 * power_of_two(down as i32 - up as i32 - 63)
}

/// 2^`exponent`, of a double that is not among the smallest.
fn power_of_two(exponent: i32) -> f64 {
    const BIAS: i32 = f64::MAX_EXP - 1;
    f64::from_bits(((exponent + BIAS) as u64) << (f64::MANTISSA_DIGITS - 1))
}

/// What the two types differ in.
trait Float: Copy + std::str::FromStr + std::ops::Neg<Output = Self> {
    const NAN: Self;
    const INFINITY: Self;
    fn is_infinite(self) -> bool;
    fn is_zero(self) -> bool;
}

macro_rules! float {
    ($float:ty) => {
        impl Float for $float {
            const NAN: Self = <$float>::NAN;
            const INFINITY: Self = <$float>::INFINITY;
            #[inline]
            fn is_infinite(self) -> bool {
                self.is_infinite()
            }
            #[inline]
            fn is_zero(self) -> bool {
                self == 0.0
            }
        }
    };
}

float!(f32);
float!(f64);

/// The whole grammar.
#[inline(never)]
fn parse_slowly<F: Float>(text: &[u8]) -> Result<F, Refusal> {
    if text.len() > LONGEST_BYTES {
        return Err(Refusal::Unsure);
    }
    // Most of what comes here is a plain number with many digits. Rust also reads words, but no word ends in a digit.
    if let [.., b'0'..=b'9'] = text
        && let Some(value) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<F>().ok())
    {
        let lost = value.is_infinite() || (value.is_zero() && !is_spelled_zero(text));
        return if lost { Err(Refusal::OutOfRange) } else { Ok(value) };
    }
    let number = trim_start(text);
    let unsigned = match number {
        [b'-' | b'+', rest @ ..] => rest,
        _ => number,
    };
    match unsigned {
        [b'0', b'x' | b'X', ..] => return Err(Refusal::Unsure),
        [b'0'..=b'9' | b'.', ..] => {}
        _ => return parse_special(text, number, unsigned),
    }
    // Range comes before what follows the number: the server's `strtod` reads as far as it can and complains
    // about the range first.
    let length = number_length(unsigned) + (number.len() - unsigned.len());
    let (number, rest) = number.split_at(length);
    let Some(value) = std::str::from_utf8(number).ok().and_then(|number| number.parse::<F>().ok()) else {
        return Err(malformed(text));
    };
    if value.is_infinite() || (value.is_zero() && !is_spelled_zero(number)) {
        Err(Refusal::OutOfRange)
    } else if only_space(rest) {
        Ok(value)
    } else {
        Err(malformed(text))
    }
}

/// How many bytes of `text` are digits, a point among them and an exponent.
fn number_length(text: &[u8]) -> usize {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(0);
    if text.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        // Without digits the letter is not an exponent but what follows the number.
        if let exponent @ 1.. = text.get(end + 1 + sign..).map_or(0, |_| digits(end + 1 + sign)) {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// Whether the number's digits before the exponent are all zero.
fn is_spelled_zero(number: &[u8]) -> bool {
    number.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).all(|byte| !matches!(byte, b'1'..=b'9'))
}

/// `NaN` and the infinities.
fn parse_special<F: Float>(text: &[u8], number: &[u8], unsigned: &[u8]) -> Result<F, Refusal> {
    let (value, length) = if starts_with_word(unsigned, b"infinity") {
        (F::INFINITY, 8)
    } else if starts_with_word(unsigned, b"inf") {
        (F::INFINITY, 3)
    } else if starts_with_word(unsigned, b"nan") {
        // C libraries read a sign and a payload in brackets too; whether the stored bits show them differs.
        if number.len() != unsigned.len() || unsigned.get(3) == Some(&b'(') {
            return Err(Refusal::Unsure);
        }
        (F::NAN, 3)
    } else {
        return Err(malformed(text));
    };
    if !only_space(&unsigned[length..]) {
        return Err(malformed(text));
    }
    Ok(if number[0] == b'-' { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_values() {
        for (text, value) in [
            ("0", 0.0),
            ("1", 1.0),
            ("-33203.72", -33203.72),
            (".5", 0.5),
            ("5.", 5.0),
            (" +1.5e3\n", 1500.0),
            ("1E-3", 0.001),
            ("9007199254740993", 9007199254740992.0),
            ("0.30000000000000004", 0.30000000000000004),
            ("1.7976931348623157e308", f64::MAX),
            ("5e-324", 5e-324),
            ("2.4703282292062328e-324", 5e-324),
            ("2.2250738585072011e-308", f64::from_bits(0x000F_FFFF_FFFF_FFFF)),
            ("Infinity", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
            (" +INFINITY ", f64::INFINITY),
            ("0e999999999", 0.0),
        ] {
            assert_eq!(parse_float8(text.as_bytes()), Ok(value), "{text:?}");
        }
        assert_eq!(parse_float8(b"-0").map(f64::to_bits), Ok((-0.0_f64).to_bits()));
        assert_eq!(parse_float8(b"nan").map(f64::to_bits), Ok(0x7FF8_0000_0000_0000));
        assert_eq!(parse_float4(b" NaN").map(f32::to_bits), Ok(0x7FC0_0000));
        // Rounding through a double would give the other neighbour.
        assert_eq!(parse_float4(b"1.00000017881393432617187499").map(f32::to_bits), Ok(0x3F80_0001));
        assert_eq!(parse_float4(b"2.5703"), Ok(2.5703_f32));
        assert_eq!(parse_float4(b"1e-45"), Ok(1e-45));
    }

    #[test]
    fn refusals() {
        for text in ["1e400", "-1e400", "1e-400", "2.4703282292062327e-324", "1e400x", "-.000001e-320", "1e99999999999"]
        {
            assert_eq!(parse_float8(text.as_bytes()), Err(Refusal::OutOfRange), "{text:?}");
        }
        for text in
            ["", " ", ".", "-", "+-1", "1e", "1e+", "1.2.3", ".e5", "1 2", "1,5", "infinit", "nanx", "e5", "- 1"]
        {
            assert_eq!(parse_float8(text.as_bytes()), Err(Refusal::InvalidSyntax), "{text:?}");
        }
        for text in ["0x1p3", "-0X1", "-nan", "+NaN", "nan(1)"] {
            assert_eq!(parse_float8(text.as_bytes()), Err(Refusal::Unsure), "{text:?}");
        }
        assert_eq!(parse_float4(b"3.5e38"), Err(Refusal::OutOfRange));
        assert_eq!(parse_float4(b"1e-46"), Err(Refusal::OutOfRange));
        assert_eq!(parse_float8(&[b'1'; LONGEST_BYTES + 1]), Err(Refusal::Unsure));
    }

    proptest! {
        #[test]
        fn decimals_as_the_standard_library_reads_them(text in "-?([0-9]{1,18}[.]?|[0-9]{0,17}[.][0-9]{1,17})") {
            let double: f64 = text.parse().unwrap();
            prop_assert_eq!(parse_float8(text.as_bytes()).map(f64::to_bits), Ok(double.to_bits()));
            let single: f32 = text.parse().unwrap();
            prop_assert_eq!(parse_float4(text.as_bytes()).map(f32::to_bits), Ok(single.to_bits()));
        }

        #[test]
        fn every_double_survives_its_own_text(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(parse_float8(format!("{value:e}").as_bytes()).map(f64::to_bits), Ok(bits));
        }

        #[test]
        fn every_single_survives_its_own_text(bits: u32) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(parse_float4(format!("{value:e}").as_bytes()).map(f32::to_bits), Ok(bits));
        }
    }
}
