//! `timestamp` with and without time zone: what PostgreSQL's `timestamp_in` and `timestamptz_in` read, in microseconds
//! since 2000-01-01 00:00.
//!
//! Read here are the spellings that mean the same under every `DateStyle` (listed in `civil.rs`); the rest is
//! [`Refusal::Unsure`]. Without time zone in the type, one in the text is checked and ignored, as the server does.

use super::civil::{self, MICROS_PER_DAY, Moment, days_from_recent, round_micros};
use super::date::parse_iso;
use super::digits::{all_digits, combine_eight};
use super::reader::{Reader, Words};
use super::{Refusal, Span, TypeFamily};

/// Add to PostgreSQL's microseconds (since 2000-01-01) to get Unix microseconds (since 1970-01-01).
pub const UNIX_EPOCH_MICROS: i64 = civil::UNIX_EPOCH_DAYS as i64 * MICROS_PER_DAY;

/// `infinity`, later than every timestamp.
pub const INFINITY: i64 = i64::MAX;

/// `-infinity`, earlier than every timestamp.
pub const NEGATIVE_INFINITY: i64 = i64::MIN;

/// The first timestamp, 4714-11-24 00:00:00 BC.
pub const FIRST: i64 = -211_813_488_000_000_000;

/// The last timestamp, 294276-12-31 23:59:59.999999.
pub const LAST: i64 = 9_223_371_331_199_999_999;

/// Which SQLSTATE codes this type's refusals carry.
pub const FAMILY: TypeFamily = TypeFamily::DateTime;

/// Reads a timestamp: microseconds since 2000-01-01 00:00, [`INFINITY`] or [`NEGATIVE_INFINITY`].
///
/// # Errors
/// [`Refusal::OutOfRange`] for days and times that do not exist and moments before [`FIRST`] or after [`LAST`];
/// [`Refusal::InvalidSyntax`] only for a text in which nothing names a day, as what else is no timestamp is
/// [`Refusal::Unsure`].
#[inline]
pub fn parse(text: &[u8]) -> Result<i64, Refusal> {
    match parse_plain(text) {
        Some(micros) => Ok(micros),
        None => parse_slowly(text),
    }
}

/// Reads a `timestamp(precision)`: like [`parse`], then rounded to `precision` digits of a second, half away from
/// 2000-01-01. Six digits (and more) are all there are.
///
/// # Errors
/// As [`parse`]; and [`Refusal::Unsure`] where rounding leads past [`LAST`], which the server stores from text
/// but refuses to receive in binary.
#[inline]
pub fn parse_with_precision(text: &[u8], precision: u8) -> Result<i64, Refusal> {
    read(Words, text.into(), precision)
}

/// [`parse_with_precision`] by a reader of one's own.
#[inline(always)]
pub(crate) fn read(reader: impl Reader, span: Span<'_>, precision: u8) -> Result<i64, Refusal> {
    let micros = match reader.timestamp(span) {
        Some(micros) => micros,
        None => parse_any(span.text())?,
    };
    round(micros, precision)
}

/// Reads a `timestamp(precision) with time zone` in microseconds since 2000-01-01 00:00 UTC. Where the session's time
/// zone is not `utc`, a text without a zone of its own is [`Refusal::Unsure`].
///
/// # Errors
/// As [`parse_with_precision`].
#[inline]
pub fn parse_tz(text: &[u8], precision: u8, utc: bool) -> Result<i64, Refusal> {
    read_tz(Words, text.into(), precision, utc)
}

/// [`parse_tz`] by a reader of one's own.
#[inline(always)]
pub(crate) fn read_tz(reader: impl Reader, span: Span<'_>, precision: u8, utc: bool) -> Result<i64, Refusal> {
    let micros = match regular_tz(reader, span, utc) {
        Some(micros) => micros,
        None => parse_any_tz(span.text(), utc)?,
    };
    round(micros, precision)
}

/// What another reader does not know: at a window's end, and in other centuries, it is as plain as elsewhere.
#[inline(never)]
fn parse_any(text: &[u8]) -> Result<i64, Refusal> {
    parse(text)
}

/// As [`parse_any`].
#[inline(never)]
fn parse_any_tz(text: &[u8], utc: bool) -> Result<i64, Refusal> {
    regular_tz(Words, text.into(), utc).map_or_else(|| parse_tz_slowly(text, utc), Ok)
}

#[inline]
pub(crate) fn round(micros: i64, precision: u8) -> Result<i64, Refusal> {
    if precision >= 6 || micros == INFINITY || micros == NEGATIVE_INFINITY {
        return Ok(micros);
    }
    let rounded = round_micros(micros, precision);
    if rounded > LAST { Err(Refusal::Unsure) } else { Ok(rounded) }
}

/// What a reader knows, followed by `Z`, `+HH` or `+HH:MM`, or by nothing.
#[inline(always)]
pub(crate) fn regular_tz(reader: impl Reader, span: Span<'_>, utc: bool) -> Option<i64> {
    let (zone_bytes, minutes_ahead) = regular_zone(span.text())?;
    if zone_bytes == 0 && !utc {
        return None;
    }
    // The years 1 to 9999, so that nothing comes near the ends of the range.
    let local = reader.timestamp(span.prefix(span.text().len() - zone_bytes))?;
    Some(local - minutes_ahead * 60_000_000)
}

/// How many bytes at the end of a text are its zone, and how many minutes that is ahead of UTC.
#[inline(always)]
fn regular_zone(text: &[u8]) -> Option<(usize, i64)> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    let offset = |sign: u8, minutes: i64| if sign == b'-' { -minutes } else { minutes };
    Some(match text {
        [.., b'Z'] => (1, 0),
        [.., sign @ (b'+' | b'-'), h1, h0, b':', m1, m0] => {
            let (hours, minutes) = (10 * digit(*h1)? + digit(*h0)?, 10 * digit(*m1)? + digit(*m0)?);
            if hours > 14 || minutes > 59 {
                return None;
            }
            (6, offset(*sign, 60 * hours + minutes))
        }
        [.., sign @ (b'+' | b'-'), h1, h0] => {
            let hours = 10 * digit(*h1)? + digit(*h0)?;
            if hours > 14 {
                return None;
            }
            (3, offset(*sign, 60 * hours))
        }
        _ => (0, 0),
    })
}

/// `YYYY-MM-DD HH:MM:SS` with 1 to 6 digits of fraction or none, and a space or `T` between.
#[inline]
pub(super) fn parse_plain(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_first_chunk::<10>()?;
    let ([separator, time @ ..], fraction) = rest.split_first_chunk::<9>()?;
    if !matches!(separator, b' ' | b'T') {
        return None;
    }
    let (year, month, day) = parse_iso(date)?;
    let time = u64::from_le_bytes(*time);
    // Digits become their values and colons zero; the first sum catches what is above 9, or 0 for a colon.
    let fields = time ^ u64::from_le_bytes(*b"00:00:00");
    if (fields.wrapping_add(0x7676_7F76_767F_7676) | fields) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = fields.wrapping_mul(10).wrapping_add(fields >> 8);
    let (hour, minute, second) = (pairs & 0xFF, pairs >> 24 & 0xFF, pairs >> 48 & 0xFF);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = match fraction.len() {
        0 => 0,
        length @ 2..=7 if fraction[0] == b'.' => {
            let last = u64::from_le_bytes(*text.last_chunk::<8>()?);
            // Keeps the fraction's digits at the end, behind zeros.
            let kept = u64::MAX << (8 * (9 - length));
            let digits = (last ^ 0x3030_3030_3030_3030) & kept;
            if !all_digits(digits) {
                return None;
            }
            const SCALES: [u64; 8] = [1, 1, 100_000, 10_000, 1_000, 100, 10, 1];
            combine_eight(digits) * SCALES[length]
        }
        _ => return None,
    };
    let days = i64::from(days_from_recent(year, month, day)?);
    let micros = ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction;
    Some(days * MICROS_PER_DAY + micros as i64)
}

/// The whole certain grammar.
#[inline(never)]
fn parse_slowly(text: &[u8]) -> Result<i64, Refusal> {
    match civil::parse(text)? {
        Moment::Infinity => Ok(INFINITY),
        Moment::NegativeInfinity => Ok(NEGATIVE_INFINITY),
        Moment::Epoch => Ok(-UNIX_EPOCH_MICROS),
        Moment::Finite { days, micros, .. } => in_range(days, micros),
    }
}

/// The whole certain grammar with a time zone.
#[inline(never)]
fn parse_tz_slowly(text: &[u8], utc: bool) -> Result<i64, Refusal> {
    match civil::parse(text)? {
        Moment::Infinity => Ok(INFINITY),
        Moment::NegativeInfinity => Ok(NEGATIVE_INFINITY),
        Moment::Epoch => Ok(-UNIX_EPOCH_MICROS),
        Moment::Finite { zone_seconds: None, .. } if !utc => Err(Refusal::Unsure),
        Moment::Finite { days, micros, zone_seconds } => {
            in_range(days, micros - i64::from(zone_seconds.unwrap_or(0)) * 1_000_000)
        }
    }
}

fn in_range(days: i64, micros: i64) -> Result<i64, Refusal> {
    match days.checked_mul(MICROS_PER_DAY).and_then(|start| start.checked_add(micros)) {
        Some(micros @ FIRST..=LAST) => Ok(micros),
        _ => Err(Refusal::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_values() {
        for (text, micros) in [
            ("2000-01-01 00:00:00", 0),
            ("1970-01-01 00:00:00", -UNIX_EPOCH_MICROS),
            ("2000-01-01 00:00:00.000001", 1),
            ("1999-12-31 23:59:59.999999", -1),
            ("2000-01-01T01:02:03.5", 3_723_500_000),
            ("2000-01-01t01:02:03.5", 3_723_500_000),
            ("2000-01-01 1:2:3.", 3_723_000_000),
            ("2000-01-01 01:02", 3_720_000_000),
            ("2000/1/1 1:02 am", 3_720_000_000),
            ("2000-01-02", MICROS_PER_DAY),
            ("20000102", MICROS_PER_DAY),
            ("2000-01-01 24:00:00", MICROS_PER_DAY),
            ("2000-01-01 23:59:60", MICROS_PER_DAY),
            ("2000-01-01 23:59:59.9999999", MICROS_PER_DAY),
            ("2000-01-01 12:30:60.5", 45_060_500_000),
            ("2000-01-01 00:00:00.0000005", 0),
            ("2000-01-01 00:00:00.0000015", 2),
            ("2000-01-01 00:00:01Z", 1_000_000),
            ("2000-01-01 00:00:01+02", 1_000_000),
            ("2000-01-01 00:00:01 -0530", 1_000_000),
            ("2000-01-01 00:00:01+05:30", 1_000_000),
            ("4714-11-24 00:00:00 BC", FIRST),
            ("294276-12-31 23:59:59.999999", LAST),
            ("epoch", -UNIX_EPOCH_MICROS),
            ("infinity", INFINITY),
            ("-Infinity", NEGATIVE_INFINITY),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(micros), "{text:?}");
        }
    }

    #[test]
    fn refusals() {
        for text in [
            "2001-02-29 00:00:00",
            "2000-01-01 24:00:01",
            "2000-01-01 25:00:00",
            "2000-01-01 00:60:00",
            "2000-01-01 00:00:61",
            "2000-01-01 23:59:60.1",
            "294276-12-31 24:00:00",
            "4714-11-23 23:59:59 BC",
            "5874897-12-31 00:00:00",
            "0000-01-01 00:00:00",
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Refusal::OutOfRange), "{text:?}");
        }
        for text in [
            "now",
            "2000-01-01 01",
            "2000-01-01 01:02.5",
            "2000-01-01 010203",
            "2000-01-01 01:02:03 M",
            "2000-01-01 01:02:03 CET",
            "2000-01-01 01:02:03+99",
            "2000-01-01 001:02:03",
            "01/02/2003 00:00:00",
            "2000-01-01 01:02:03.4.5",
            "2000-01-01 01:02:03ZBC",
            "2000-01-01 01:02:03,5",
            "2000-01-01 T01:02:03",
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Refusal::Unsure), "{text:?}");
        }
        assert_eq!(parse(b""), Err(Refusal::InvalidSyntax));
    }

    #[test]
    fn precision_rounds_away_from_the_epoch() {
        for (text, precision, micros) in [
            ("2000-01-01 00:00:00.5", 0, 1_000_000),
            ("2000-01-01 00:00:00.499999", 0, 0),
            ("1999-12-31 23:59:59.5", 0, -1_000_000),
            ("1999-12-31 23:59:59.500001", 0, 0),
            ("2000-01-01 00:00:00.12345", 4, 123_500),
            ("2000-01-01 00:00:00.123456", 6, 123_456),
            ("infinity", 0, INFINITY),
            ("-infinity", 0, NEGATIVE_INFINITY),
        ] {
            assert_eq!(parse_with_precision(text.as_bytes(), precision), Ok(micros), "{text:?}");
        }
        assert_eq!(parse_with_precision(b"294276-12-31 23:59:59.5", 0), Err(Refusal::Unsure));
    }

    proptest! {
        #[test]
        fn fast_and_slow_agree(
            date in "(0000|19[0-9]{2}|2[0-9]{3})-[01][0-9]-[0-3][0-9]",
            time in "[ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.][0-9]{0,9})?|[ T][0-9:.]{8,12}",
        ) {
            let text = date + &time;
            prop_assert_eq!(parse(text.as_bytes()), parse_slowly(text.as_bytes()));
        }

        #[test]
        fn precision_as_integer_arithmetic_says(micros in -10_i64.pow(15)..10_i64.pow(15), precision in 0_u8..=6) {
            let (days, rest) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
            let day = (1900..2200_i64)
                .flat_map(|year| (1..=12).flat_map(move |month| (1..=31).map(move |day| (year, month, day))))
                .find(|&(year, month, day)| civil::days_from_civil(year, month, day) == Some(days));
            prop_assume!(day.is_some());
            let (year, month, day) = day.unwrap();
            let (hours, minutes, seconds) = (rest / 3_600_000_000, rest / 60_000_000 % 60, rest / 1_000_000 % 60);
            let text = format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}.{:06}", rest % 1_000_000);
            prop_assert_eq!(parse(text.as_bytes()), Ok(micros));
            let step = 10_i64.pow(6 - u32::from(precision));
            let nearest = (micros.abs() + step / 2) / step * step * micros.signum();
            prop_assert_eq!(parse_with_precision(text.as_bytes(), precision), Ok(nearest));
        }
    }
}
