//! `time` with and without time zone: what PostgreSQL's `time_in` and `timetz_in` read.
//!
//! Read here are `HH:MM` and `HH:MM:SS` with a fraction, and a time zone of certain distance (see `civil.rs`); the rest
//! (`AM` and `PM`, times without colons, dates before the time) is [`Refusal::Unsure`].

use super::Refusal;
use super::civil::{parse_time, round_micros};

/// A time of day somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZonedTime {
    /// Microseconds since midnight, up to and with 24:00:00.
    pub micros: i64,
    /// How far its clocks are *behind* UTC, as PostgreSQL stores it.
    pub seconds_west: i32,
}

/// Reads a `time(precision)`: microseconds since midnight, up to and with 24:00:00. A time zone is checked and ignored.
///
/// # Errors
/// [`Refusal::OutOfRange`] for times that no day has; [`Refusal::InvalidSyntax`] only for an empty text.
#[inline]
pub fn parse(text: &[u8], precision: u8) -> Result<i64, Refusal> {
    let micros = match parse_plain(text) {
        Some(micros) => micros,
        None => parse_time(text)?.0,
    };
    Ok(round_micros(micros, precision))
}

/// Reads a `time(precision) with time zone`. Without a zone in the text, the session's decides: [`Refusal::Unsure`].
///
/// # Errors
/// As [`parse`].
#[inline]
pub fn parse_tz(text: &[u8], precision: u8) -> Result<ZonedTime, Refusal> {
    let (micros, zone_seconds) = parse_time(text)?;
    let zone_seconds = zone_seconds.ok_or(Refusal::Unsure)?;
    Ok(ZonedTime { micros: round_micros(micros, precision), seconds_west: -zone_seconds })
}

/// `HH:MM:SS`.
#[inline]
fn parse_plain(text: &[u8]) -> Option<i64> {
    let time = u64::from_le_bytes(*<&[u8; 8]>::try_from(text).ok()?);
    // Digits become their values and colons zero; the sum catches what is above 9, or 0 for a colon.
    let fields = time ^ u64::from_le_bytes(*b"00:00:00");
    if (fields.wrapping_add(0x7676_7F76_767F_7676) | fields) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = fields.wrapping_mul(10).wrapping_add(fields >> 8);
    let (hour, minute, second) = (pairs & 0xFF, pairs >> 24 & 0xFF, pairs >> 48 & 0xFF);
    (hour <= 23 && minute <= 59 && second <= 59).then(|| ((hour * 60 + minute) * 60 + second) as i64 * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_values() {
        for (text, micros) in [
            ("00:00:00", 0),
            ("12:34:56", 45_296_000_000),
            ("12:34:56.7", 45_296_700_000),
            (" 1:2 ", 3_720_000_000),
            ("24:00:00", 86_400_000_000),
            ("23:59:60", 86_400_000_000),
            ("23:59:59.9999999", 86_400_000_000),
            ("12:34:56+02", 45_296_000_000),
            ("12:00 AM", 0),
            ("0:30 am", 1_800_000_000),
            ("12:34:56.5pm", 45_296_500_000),
            ("1:02 PM+02", 46_920_000_000),
        ] {
            assert_eq!(parse(text.as_bytes(), 6), Ok(micros), "{text:?}");
        }
        assert_eq!(parse(b"23:59:59.5", 0), Ok(86_400_000_000));
        let expected = ZonedTime { micros: 3_600_000_000, seconds_west: 18_015 };
        assert_eq!(parse_tz(b"01:00:00-05:00:15", 6), Ok(expected));
        assert_eq!(parse_tz(b"01:00Z", 6), Ok(ZonedTime { micros: 3_600_000_000, seconds_west: 0 }));
    }

    #[test]
    fn refusals() {
        assert_eq!(parse(b"", 6), Err(Refusal::InvalidSyntax));
        for text in ["24:00:01", "25:00", "12:60:00", "12:00:61", "13:00 PM", "24:00 am"] {
            assert_eq!(parse(text.as_bytes(), 6), Err(Refusal::OutOfRange), "{text}");
        }
        for text in [
            "010203",
            "1:2:3 PX",
            "1:2:3 PMx",
            "11:59:60 PM",
            "2000-01-01 01:02:03",
            "T01:02",
            "01:02:03 CET",
            "noon",
            "01",
        ] {
            assert_eq!(parse(text.as_bytes(), 6), Err(Refusal::Unsure), "{text}");
        }
        assert_eq!(parse_tz(b"01:02:03", 6), Err(Refusal::Unsure));
    }
}
