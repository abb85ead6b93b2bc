//! `numeric`: what PostgreSQL's `numeric_in` reads, as a scaled integer or in the binary form of `numeric_send`.
//!
//! The binary form is four 16-bit numbers, big endian: how many digits follow; the weight of the first, as a power
//! of 10,000; the sign; the number of decimal places to show. Then the digits, base 10,000, 16 bits each, without
//! zeros at either end.
//!
//! Prices and quantities are what these functions are for: up to 16 characters, at most one point, fewer decimal
//! places than the column has. Those never leave registers. Everything else is taken apart by `decimal.rs` and
//! written digit by digit.

use super::decimal::{Decimal, Scanned, scan};
use super::digits::{
    POWERS_OF_TEN, all_digits, combine_fours, parse_short_decimal, parse_up_to_eight, repeat, without_byte,
};
use super::groups::{Groups, NEGATIVE};
use super::reader::{Reader, Words};
use super::{Refusal, ServerVersion, Span};

/// The most digits that [`parse_scaled_i64`] holds.
pub const MAX_PRECISION_I64: u8 = 18;

/// The most digits that [`parse_scaled_i128`] holds.
pub const MAX_PRECISION_I128: u8 = 38;

/// The binary forms of what is not a number. An infinity carries 32 decimal places for no reason but how the
/// server stores it.
const NAN: [u8; 8] = [0, 0, 0, 0, 0xC0, 0, 0, 0];
const INFINITY: [u8; 8] = [0, 0, 0, 0, 0xD0, 0, 0, 0x20];
const NEGATIVE_INFINITY: [u8; 8] = [0, 0, 0, 0, 0xF0, 0, 0, 0x20];

/// The most decimal places that the server stores.
const MAX_DISPLAY_SCALE: i64 = 0x3FFF;

/// The declared size of a column: `numeric(precision, scale)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Typmod {
    /// How many decimal digits at most, 1 to 1000.
    pub precision: u16,
    /// How many of them stand after the point, -1000 to 1000; negative rounds before the point, and more than
    /// `precision` demands zeros behind it (both since version 15).
    pub scale: i16,
}

impl Typmod {
    /// Reads `pg_attribute.atttypmod` of a numeric column; `None` where the column has no declared size.
    pub const fn from_atttypmod(atttypmod: i32) -> Option<Self> {
        if atttypmod < 4 {
            return None;
        }
        let packed = atttypmod - 4;
        // Eleven bits of two's complement, below the precision.
        let scale = ((packed & 0x7FF) ^ 0x400) - 0x400;
        Some(Self { precision: (packed >> 16) as u16, scale: scale as i16 })
    }

    /// How many digits may stand before the point.
    pub(super) const fn whole_digits(self) -> i64 {
        self.precision as i64 - self.scale as i64
    }
}

/// A [`Typmod`] made ready for readers that take a number apart at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumericSize {
    pub(super) typmod: Typmod,
    /// Decimal places of so many base-10,000 digits.
    pub(super) fraction_groups: usize,
    /// Decimal places and digits before the point, at most; of the latter none where readers know no such number.
    pub(super) most_places: usize,
    pub(super) most_whole: usize,
}

impl From<Typmod> for NumericSize {
    fn from(typmod: Typmod) -> Self {
        const SIXTEEN: i64 = 16;
        let places = usize::try_from(typmod.scale).unwrap_or(usize::MAX);
        // Three digits of four places are as many as a reader knows.
        let readable = places <= 12;
        let fraction_groups = if readable { places.div_ceil(4) } else { 0 };
        let most_whole = typmod.whole_digits().clamp(0, SIXTEEN - 4 * fraction_groups as i64);
        Self {
            typmod,
            fraction_groups,
            most_places: if readable { places } else { 0 },
            most_whole: if readable { most_whole as usize } else { 0 },
        }
    }
}

/// Reads a number into `value * 10^scale`, rounded half away from zero, as `numeric(precision, scale)` stores it.
///
/// `precision` is 1 to [`MAX_PRECISION_I64`]. What versions read differently (`0x1f`, `1_000`, `1e 5`) is
/// [`Refusal::Unsure`].
///
/// # Errors
/// [`Refusal::OutOfRange`] for more than `precision` digits, and for NaN and the infinities, of which
/// PostgreSQL's column would store the first: a scaled integer has no room for it.
#[inline(always)]
pub fn parse_scaled_i64<'t>(text: impl Into<Span<'t>>, precision: u8, scale: u8) -> Result<i64, Refusal> {
    read_scaled_i64(Words, text.into(), precision, scale)
}

/// [`parse_scaled_i64`] by a reader of one's own.
#[inline(always)]
pub(crate) fn read_scaled_i64(reader: impl Reader, span: Span<'_>, precision: u8, scale: u8) -> Result<i64, Refusal> {
    debug_assert!((1..=MAX_PRECISION_I64).contains(&precision));
    match reader.scaled(span, precision, scale) {
        Some(value) => Ok(value),
        None => parse_scaled_short(span.text(), precision, scale),
    }
}

/// [`parse_scaled_i64`] of what is not as regular as a price. Apart, so that the caller's hot path stays small.
#[inline(never)]
fn parse_scaled_short(text: &[u8], precision: u8, scale: u8) -> Result<i64, Refusal> {
    let span = Span::from(text);
    if let Some(short) = parse_short_decimal(span)
        && short.fraction_digits <= u32::from(scale)
    {
        let added = u32::from(scale) - short.fraction_digits;
        // The digits must stay below this for the result to stay below 10^precision.
        if short.digits >= POWERS_OF_TEN[u32::from(precision).saturating_sub(added) as usize] {
            // Zero is the one number that fits however many places are added to it.
            return if short.digits == 0 { Ok(0) } else { Err(Refusal::OutOfRange) };
        }
        let magnitude = (short.digits * POWERS_OF_TEN[(added as usize).min(19)]) as i64;
        return Ok(if short.negative { -magnitude } else { magnitude });
    }
    parse_scaled_slowly(span.text(), precision, scale).map(|value| value as i64)
}

/// The value of up to eight characters behind a sign that have exactly `scale` decimal places, one at least; `None` for
/// any other text. Where the point must stand is known beforehand.
#[inline(always)]
pub(super) fn read_scaled_price(span: Span<'_>, precision: u8, scale: u8) -> Option<i64> {
    let (negative, span) = span.split_minus();
    let length = span.text().len();
    let point = length.wrapping_sub(usize::from(scale) + 1);
    // At least one digit before the point and one behind it, and no more than the column holds.
    if scale == 0 || point.wrapping_sub(1) >= 7 || length > 8 || length - 1 > usize::from(precision) {
        return None;
    }
    let word = span.first_word();
    if (word >> (8 * point)) as u8 != b'.' {
        return None;
    }
    let digits = parse_up_to_eight(without_byte(word, point as u32), length - 1)? as i64;
    Some(if negative { -digits } else { digits })
}

/// [`parse_scaled_i64`] for up to [`MAX_PRECISION_I128`] digits.
///
/// # Errors
/// As [`parse_scaled_i64`].
#[inline]
pub fn parse_scaled_i128<'t>(text: impl Into<Span<'t>>, precision: u8, scale: u8) -> Result<i128, Refusal> {
    let span = text.into();
    debug_assert!((1..=MAX_PRECISION_I128).contains(&precision));
    if precision <= MAX_PRECISION_I64 {
        return parse_scaled_i64(span, precision, scale).map(i128::from);
    }
    if let Some(short) = parse_short_decimal(span)
        && short.fraction_digits <= u32::from(scale)
    {
        let added = u32::from(scale) - short.fraction_digits;
        let room = u32::from(precision).saturating_sub(added) as usize;
        if short.digits >= POWERS_OF_TEN[room.min(20)] {
            return if short.digits == 0 { Ok(0) } else { Err(Refusal::OutOfRange) };
        }
        let magnitude = (u128::from(short.digits) * 10_u128.pow(added.min(38))) as i128;
        return Ok(if short.negative { -magnitude } else { magnitude });
    }
    parse_scaled_slowly(span.text(), precision, scale)
}

/// The whole grammar of the scaled readers.
#[inline(never)]
fn parse_scaled_slowly(text: &[u8], precision: u8, scale: u8) -> Result<i128, Refusal> {
    let number = match scan(text, None)? {
        Scanned::Finite(number) => number,
        Scanned::NaN | Scanned::Infinity { .. } => return Err(Refusal::OutOfRange),
    };
    let rounded = number.round(i64::from(scale));
    let mut magnitude = 0_u128;
    if let Some(highest) = rounded.highest_power() {
        let length = highest + i64::from(scale) + 1;
        if length > i64::from(precision) {
            return Err(Refusal::OutOfRange);
        }
        // At most 38 digits from the first that is not zero down to the last place.
        for power in (-i64::from(scale)..=highest).rev() {
            magnitude = magnitude * 10 + u128::from(rounded.digit(power));
        }
    }
    magnitude += u128::from(rounded.carry);
    if magnitude >= 10_u128.pow(u32::from(precision)) {
        return Err(Refusal::OutOfRange);
    }
    let value = magnitude as i128;
    Ok(if number.negative { -value } else { value })
}

/// Reads a number and appends the binary form that the server would send of the value stored in a column of this
/// size (`None`: `numeric` without one). The field's length in bytes, which COPY wants first, is the caller's.
///
/// # Errors
/// [`Refusal::OutOfRange`] for more digits than the column or the server holds and for an infinity in a column
/// with a size; `out` is then as it was.
#[inline(always)]
pub fn encode_binary<'t>(
    text: impl Into<Span<'t>>,
    typmod: Option<Typmod>,
    server: ServerVersion,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let span = text.into();
    if let Some(groups) = typmod.and_then(|typmod| read_price(span, typmod)) {
        append(groups, out);
        return Ok(());
    }
    encode_short(span.text(), typmod, server, out)
}

/// [`encode_binary`] of what is not as regular as a price. Apart, so that the caller's hot path stays small.
///
/// # Errors
/// As for [`encode_binary`].
#[inline(never)]
pub(crate) fn encode_short(
    text: &[u8],
    typmod: Option<Typmod>,
    server: ServerVersion,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    match read_short(text, typmod)? {
        Some(groups) => {
            append(groups, out);
            Ok(())
        }
        None => encode_slowly(text, typmod, server, out),
    }
}

/// Appends the sent form.
#[inline]
fn append(groups: Groups, out: &mut Vec<u8>) {
    let (bytes, length) = groups.sent();
    out.extend_from_slice(&bytes[..length]);
}

/// The digits of a text as regular as most prices and quantities are, for a column with one to four decimal places;
/// `None` for any other text, right or wrong.
#[inline(always)]
pub(super) fn read_price(span: Span<'_>, typmod: Typmod) -> Option<Groups> {
    let scale @ 1..=4 = typmod.scale else { return None };
    if span.text().len() <= 3 {
        return read_quantity(span, typmod);
    }
    let price = parse_price(span, scale as usize)?;
    (price.whole_digits <= typmod.whole_digits()).then(|| {
        let [first, second, fraction] = price.groups;
        let lanes = u64::from(first) << 16 | u64::from(second) << 32 | u64::from(fraction) << 48;
        Groups::new(lanes, 1, price.negative, scale as u16)
    })
}

/// The same of one to three digits.
#[inline(always)]
fn read_quantity(span: Span<'_>, typmod: Typmod) -> Option<Groups> {
    let length = span.text().len();
    let digits = (span.first_word() ^ repeat(b'0')) << ((64 - 8 * length) & 63);
    if length == 0 || !all_digits(digits) || length as i64 > typmod.whole_digits() {
        return None;
    }
    let value = combine_fours(digits) >> 32;
    Some(Groups::new(value << 32, 1, false, typmod.scale as u16))
}

/// The digits of a number in up to 16 characters that its column need not round; `None` for any other text.
///
/// # Errors
/// [`Refusal::OutOfRange`] for more digits than the column holds.
#[inline]
pub(crate) fn read_short(text: &[u8], typmod: Option<Typmod>) -> Result<Option<Groups>, Refusal> {
    if let Some(short) = parse_short_decimal(text.into()) {
        let (scale, whole_digits) = match typmod {
            Some(typmod) => (i64::from(typmod.scale), typmod.whole_digits()),
            None => (i64::from(short.fraction_digits), 20),
        };
        // Fewer places than the column has: no rounding. Some room before the point: the common overflow test.
        if i64::from(short.fraction_digits) <= scale && whole_digits >= 0 {
            let fraction_groups = short.fraction_digits.div_ceil(4);
            let aligned = short.digits * POWERS_OF_TEN[(fraction_groups * 4 - short.fraction_digits) as usize];
            let room = whole_digits as usize + 4 * fraction_groups as usize;
            if aligned < SIXTEEN_DIGITS {
                if aligned >= POWERS_OF_TEN[room.min(20)] {
                    return Err(Refusal::OutOfRange);
                }
                let groups = Groups::of_aligned(aligned, fraction_groups as usize, short.negative, scale as u16);
                return Ok(Some(groups));
            }
        }
    }
    Ok(None)
}

/// A number with exactly as many decimal places as its column, one to four.
struct Price {
    /// Its three base-10,000 digits: the whole number in two, the fraction in the last.
    groups: [u16; 3],
    /// How many decimal digits stand before the point, 1 to 8.
    whole_digits: i64,
    negative: bool,
}

/// Reads `-?` with 1 to 8 digits, a point and exactly `scale` digits, in four or more bytes after the sign.
///
/// Where the point must stand is known beforehand, and four decimal digits on either side of it are one digit of
/// the binary form: so nothing is searched for, and nothing divided.
#[inline]
fn parse_price(span: Span<'_>, scale: usize) -> Option<Price> {
    let (negative, span) = span.split_minus();
    let text = span.text();
    let last = u64::from(u32::from_le_bytes(*text.last_chunk::<4>()?));
    let whole_digits = text.len().wrapping_sub(scale + 1);
    if whole_digits.wrapping_sub(1) >= 8 || text.get(whole_digits) != Some(&b'.') {
        return None;
    }
    // The fraction moves to the front of its four places, the whole number to the end of its eight.
    let fraction = (last ^ repeat(b'0') >> 32) >> (8 * (4 - scale));
    let shift = 8 * (8 - whole_digits);
    let whole = (span.first_word() ^ repeat(b'0')) << shift;
    if !(all_digits(whole) & all_digits(fraction)) {
        return None;
    }
    let whole = combine_fours(whole);
    let groups = [whole as u16, (whole >> 32) as u16, combine_fours(fraction) as u16];
    Some(Price { groups, whole_digits: whole_digits as i64, negative })
}

/// Four base-10,000 digits hold less than this.
const SIXTEEN_DIGITS: u64 = POWERS_OF_TEN[16];

/// Appends the binary form of `value / 10^scale`: what the server would send of a `numeric(38, scale)`.
#[inline]
pub fn encode_binary_from_scaled(value: i128, scale: u8, out: &mut Vec<u8>) {
    if let Some(groups) = read_scaled(value, scale) {
        append(groups, out);
        return;
    }
    let (fraction_groups, padding) = fraction(scale);
    append_wide(value.unsigned_abs(), fraction_groups, padding, value < 0, u16::from(scale), out);
}

/// The digits of `value / 10^scale`, where they are known to be no more than four.
#[inline]
pub(crate) fn read_scaled(value: i128, scale: u8) -> Option<Groups> {
    let magnitude = value.unsigned_abs();
    let (fraction_groups, padding) = fraction(scale);
    (magnitude < 10_000_000_000_000 && fraction_groups <= 4).then(|| {
        let aligned = magnitude as u64 * POWERS_OF_TEN[padding as usize];
        Groups::of_aligned(aligned, fraction_groups as usize, value < 0, u16::from(scale))
    })
}

/// How many base-10,000 digits so many decimal places take, and how many more places these have.
#[inline]
fn fraction(scale: u8) -> (u32, u32) {
    let groups = u32::from(scale).div_ceil(4);
    (groups, groups * 4 - u32::from(scale))
}

/// [`encode_binary_from_scaled`] for what does not fit 16 digits.
fn append_wide(magnitude: u128, fraction_groups: u32, padding: u32, negative: bool, scale: u16, out: &mut Vec<u8>) {
    // The last group takes fewer digits of the value where the scale is no multiple of four, so that the padding
    // cannot overflow.
    let last_unit = u128::from(POWERS_OF_TEN[4 - padding as usize]);
    let start = begin(out);
    let mut rest = magnitude;
    let mut groups = [0_u16; 12];
    let mut count = 0;
    while rest > 0 {
        let unit = if count == 0 { last_unit } else { 10_000 };
        let group = (rest % unit) as u16;
        groups[count] = if count == 0 { group * POWERS_OF_TEN[padding as usize] as u16 } else { group };
        rest /= unit;
        count += 1;
    }
    for group in groups[..count].iter().rev() {
        out.extend_from_slice(&group.to_be_bytes());
    }
    let weight = count as i64 - 1 - i64::from(fraction_groups);
    // Below 10^39 / 10^0 nothing reaches the server's limits.
    let weight = strip(out, start, weight).map_or(0, |(weight, _)| weight);
    finish(out, start, weight as i16, negative, scale);
}

/// The whole grammar of [`encode_binary`].
#[inline(never)]
fn encode_slowly(text: &[u8], typmod: Option<Typmod>, server: ServerVersion, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let number = match (scan(text, Some(server))?, typmod) {
        (Scanned::Finite(number), _) => number,
        (Scanned::NaN, _) => {
            out.extend_from_slice(&NAN);
            return Ok(());
        }
        (Scanned::Infinity { negative }, None) => {
            out.extend_from_slice(if negative { &NEGATIVE_INFINITY } else { &INFINITY });
            return Ok(());
        }
        (Scanned::Infinity { .. }, Some(_)) => return Err(Refusal::OutOfRange),
    };
    let start = begin(out);
    let encoded = append_decimal(&number, typmod, start, out);
    if encoded.is_err() {
        out.truncate(start);
    }
    encoded
}

/// Writes `number` behind the header that starts at `start`, and the header.
fn append_decimal(
    number: &Decimal<'_>,
    typmod: Option<Typmod>,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let scale = typmod.map_or_else(|| number.display_scale(), |typmod| i64::from(typmod.scale));
    let display_scale = scale.max(0);
    if display_scale > MAX_DISPLAY_SCALE {
        return Err(Refusal::OutOfRange);
    }
    let rounded = number.round(scale);
    let highest = rounded.highest_power();
    // Nothing is written of a number that is too large anyway; rounding may still add a digit to others.
    let most_digits = typmod.map_or(i64::MAX, Typmod::whole_digits);
    if highest.is_some_and(|power| power >= most_digits || power.div_euclid(4) > i64::from(i16::MAX)) {
        return Err(Refusal::OutOfRange);
    }

    // From the group of the highest digit down to that of the lowest; one group more where a carry may need it.
    let lowest = if rounded.carry { -scale } else { rounded.lowest_power().unwrap_or(0) };
    let lowest_group = lowest.div_euclid(4);
    let highest_group = highest.map_or(lowest_group, |power| power.div_euclid(4)) + i64::from(rounded.carry);
    if highest.is_some() || rounded.carry {
        for group in (lowest_group..=highest_group).rev() {
            let digit = |place: i64| u16::from(rounded.digit(4 * group + place));
            let value = digit(3) * 1000 + digit(2) * 100 + digit(1) * 10 + digit(0);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
    if rounded.carry {
        let unit = POWERS_OF_TEN[lowest.rem_euclid(4) as usize] as u16;
        add_to_last(&mut out[start + 8..], unit);
    }

    let Some((weight, first)) = strip(out, start, highest_group) else {
        finish(out, start, 0, false, display_scale as u16);
        return Ok(());
    };
    if weight * 4 + i64::from(first.ilog10()) >= most_digits {
        return Err(Refusal::OutOfRange);
    }
    let weight = i16::try_from(weight).map_err(|_| Refusal::OutOfRange)?;
    finish(out, start, weight, number.negative, display_scale as u16);
    Ok(())
}

/// Adds `unit` to the last base-10,000 digit and carries towards the first, which has room.
fn add_to_last(digits: &mut [u8], mut unit: u16) {
    for digit in digits.as_chunks_mut::<2>().0.iter_mut().rev() {
        let sum = u16::from_be_bytes(*digit) + unit;
        let carries = sum >= 10_000;
        *digit = (if carries { sum - 10_000 } else { sum }).to_be_bytes();
        if !carries {
            return;
        }
        unit = 1;
    }
}

/// Makes room for a header; returns where.
fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    start
}

/// Removes zero digits from both ends of those behind the header at `start`, the first of which has `weight`.
/// The weight and value of the first that stays; `None` where none does.
fn strip(out: &mut Vec<u8>, start: usize, weight: i64) -> Option<(i64, u16)> {
    let first = start + 8;
    while out.len() > first && out.ends_with(&[0, 0]) {
        out.truncate(out.len() - 2);
    }
    let digits = out[first..].as_chunks::<2>().0;
    let zeros = digits.iter().position(|digit| *digit != [0, 0])?;
    let value = u16::from_be_bytes(digits[zeros]);
    out.drain(first..first + 2 * zeros);
    Some((weight - zeros as i64, value))
}

/// Fills in the header at `start` of the digits behind it.
fn finish(out: &mut [u8], start: usize, weight: i16, negative: bool, display_scale: u16) {
    // The server's count wraps at 65,536 just as this one would, but no number has that many.
    let count = ((out.len() - start - 8) / 2) as u16;
    let sign = if negative && count > 0 { NEGATIVE } else { 0 };
    for (place, word) in [count, weight as u16, sign, display_scale].into_iter().enumerate() {
        out[start + 2 * place..][..2].copy_from_slice(&word.to_be_bytes());
    }
}

#[cfg(test)]
#[path = "numeric_tests.rs"]
mod tests;
