//! The full grammar of `numeric`, taken apart without copying: digits before and after the point, and an exponent.
//!
//! Versions differ here. Up to 15 the exponent was read by C's `strtol`, which skips white space; 16 added radix
//! prefixes and underscores. Of what is new in 16 the codec knows where it begins, and leaves it to the server.

use super::{Refusal, ServerVersion, is_space, malformed, only_space, starts_with_word, trim_start};

/// What a text spells.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scanned<'a> {
    Finite(Decimal<'a>),
    NaN,
    Infinity { negative: bool },
}

/// A decimal number in parts: its value is `whole.fraction * 10^exponent`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal<'a> {
    pub(super) negative: bool,
    /// Digits before the point.
    whole: &'a [u8],
    /// Digits after the point.
    fraction: &'a [u8],
    exponent: i64,
}

/// A number cut to a scale: which of its digits stay, and whether the last is to be raised by one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounded<'a> {
    number: Decimal<'a>,
    /// The place of the first digit that is not zero, counted from the number's first.
    first: usize,
    /// The place after the last digit that stays.
    end: usize,
    /// Whether one is to be added at the place of the scale: the digits that were cut are half of it or more.
    pub(super) carry: bool,
}

/// Beyond this magnitude every version calls an exponent out of range; version 15 also at it.
const LARGEST_EXPONENT: i64 = (i32::MAX / 2) as i64;

/// Takes a text apart as `server` would, or as all versions would where none is named: what they read differently
/// is then [`Refusal::Unsure`].
pub(super) fn scan(text: &[u8], server: Option<ServerVersion>) -> Result<Scanned<'_>, Refusal> {
    let may_be_extended = server.is_none_or(ServerVersion::reads_extended_integers);
    let number = trim_start(text);
    let (sign, unsigned) = match number {
        [sign @ (b'-' | b'+'), rest @ ..] => (Some(*sign), rest),
        _ => (None, number),
    };
    let negative = sign == Some(b'-');
    if !matches!(unsigned, [b'0'..=b'9' | b'.', ..]) {
        let (special, length) = if starts_with_word(unsigned, b"infinity") {
            (Scanned::Infinity { negative }, 8)
        } else if starts_with_word(unsigned, b"inf") {
            (Scanned::Infinity { negative }, 3)
        } else if sign.is_none() && starts_with_word(unsigned, b"nan") {
            (Scanned::NaN, 3)
        } else {
            return Err(malformed(text));
        };
        return if only_space(&unsigned[length..]) { Ok(special) } else { Err(malformed(text)) };
    }
    if may_be_extended && matches!(unsigned, [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', ..]) {
        return Err(Refusal::Unsure);
    }

    let (whole, rest) = split_digits(unsigned);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => split_digits(rest),
        _ => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(malformed(text));
    }
    let (exponent, rest) = match rest {
        [b'e' | b'E', rest @ ..] => scan_exponent(text, rest, server)?,
        _ => (0, rest),
    };
    match rest {
        [b'_', ..] if may_be_extended => Err(Refusal::Unsure),
        _ if only_space(rest) => Ok(Scanned::Finite(Decimal { negative, whole, fraction, exponent })),
        _ => Err(malformed(text)),
    }
}

/// The exponent behind its letter, and what follows.
fn scan_exponent<'a>(text: &[u8], rest: &'a [u8], server: Option<ServerVersion>) -> Result<(i64, &'a [u8]), Refusal> {
    let is_new = server.map(ServerVersion::reads_extended_integers);
    if rest.first().is_some_and(|&byte| is_space(byte)) && is_new != Some(true) {
        return Err(Refusal::Unsure);
    }
    let (negative, rest) = match rest {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, rest),
    };
    let (digits, rest) = split_digits(rest);
    if digits.is_empty() {
        return Err(malformed(text));
    }
    let magnitude = digits
        .iter()
        .fold(0_i64, |magnitude, digit| (magnitude * 10 + i64::from(digit - b'0')).min(LARGEST_EXPONENT + 1));
    // Out of range comes before whatever may follow the exponent.
    match (magnitude.cmp(&LARGEST_EXPONENT), is_new) {
        (std::cmp::Ordering::Greater, _) | (std::cmp::Ordering::Equal, Some(false)) => Err(Refusal::OutOfRange),
        (std::cmp::Ordering::Equal, None) => Err(Refusal::Unsure),
        _ => Ok((if negative { -magnitude } else { magnitude }, rest)),
    }
}

/// The digits that `text` begins with, and what follows them.
fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

impl<'a> Decimal<'a> {
    /// How many digits were written.
    fn len(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    /// The digit written at a place, counted from the first.
    fn at(&self, place: usize) -> u8 {
        let digit = match place.checked_sub(self.whole.len()) {
            None => self.whole[place],
            Some(place) => self.fraction[place],
        };
        digit - b'0'
    }

    /// The power of ten that the first digit counts.
    fn first_power(&self) -> i64 {
        self.whole.len() as i64 + self.exponent - 1
    }

    /// How many decimal places the server shows of this number where no scale is declared.
    pub(super) fn display_scale(&self) -> i64 {
        (self.fraction.len() as i64 - self.exponent).max(0)
    }

    /// Cuts to `scale` decimal places (negative: to a power of ten), rounding half away from zero.
    pub(super) fn round(self, scale: i64) -> Rounded<'a> {
        let length = self.len();
        let kept = self.first_power() + scale + 1;
        let (end, carry) = match usize::try_from(kept) {
            Ok(kept) if kept < length => (kept, self.at(kept) >= 5),
            Ok(_) => (length, false),
            // Below a tenth of the last place.
            Err(_) => (0, false),
        };
        let first = (0..end).find(|&place| self.at(place) != 0).unwrap_or(end);
        Rounded { number: self, first, end, carry }
    }
}

impl Rounded<'_> {
    /// The power of ten of the first digit that is not zero; `None` where there is none, before the carry.
    pub(super) fn highest_power(&self) -> Option<i64> {
        (self.first < self.end).then(|| self.number.first_power() - self.first as i64)
    }

    /// The power of ten of the last digit that stays.
    pub(super) fn lowest_power(&self) -> Option<i64> {
        (self.first < self.end).then(|| self.number.first_power() - (self.end - 1) as i64)
    }

    /// The digit that counts a power of ten; zero where none was written.
    pub(super) fn digit(&self, power: i64) -> u8 {
        match usize::try_from(self.number.first_power() - power) {
            Ok(place) if (self.first..self.end).contains(&place) => self.number.at(place),
            _ => 0,
        }
    }
}
