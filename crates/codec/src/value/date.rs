//! `date`: what PostgreSQL's `date_in` reads, in days since 2000-01-01.
//!
//! Read here are the spellings that mean the same under every `DateStyle` (listed in `civil.rs`); the rest is
//! [`Refusal::Unsure`]. A time of day and a time zone behind the date are checked and ignored, as the server does.

use super::civil::{self, Moment, days_from_recent};
use super::reader::{Reader, Words};
use super::{Refusal, Span, TypeFamily};

/// Add to PostgreSQL's days (since 2000-01-01) to get Unix days (since 1970-01-01).
pub const UNIX_EPOCH_DAYS: i32 = civil::UNIX_EPOCH_DAYS;

/// `infinity`, later than every date.
pub const INFINITY: i32 = i32::MAX;

/// `-infinity`, earlier than every date.
pub const NEGATIVE_INFINITY: i32 = i32::MIN;

/// The first date, 4714-11-24 BC: day 0 of the Julian day count.
pub const FIRST: i32 = -2_451_545;

/// The last date, 5874897-12-31.
pub const LAST: i32 = 2_145_031_948;

/// Which SQLSTATE codes this type's refusals carry.
pub const FAMILY: TypeFamily = TypeFamily::DateTime;

/// Reads a date: days since 2000-01-01, [`INFINITY`] or [`NEGATIVE_INFINITY`].
///
/// # Errors
/// [`Refusal::OutOfRange`] for days that do not exist and days before [`FIRST`] or after [`LAST`];
/// [`Refusal::InvalidSyntax`] only for a text in which nothing names a day, as what else is no date is
/// [`Refusal::Unsure`].
#[inline(always)]
pub fn parse(text: &[u8]) -> Result<i32, Refusal> {
    read(Words, text.into())
}

/// [`parse`] by a reader of one's own.
///
/// # Errors
/// As [`parse`].
#[inline(always)]
pub(crate) fn read(reader: impl Reader, span: Span<'_>) -> Result<i32, Refusal> {
    match reader.date(span) {
        Some(days) => Ok(days),
        None => parse_slowly(span.text()),
    }
}

/// `YYYY-MM-DD`.
#[inline(always)]
pub(super) fn parse_regular(text: &[u8]) -> Option<i32> {
    let (year, month, day) = parse_iso(<&[u8; 10]>::try_from(text).ok()?)?;
    days_from_recent(year, month, day)
}

/// The three numbers of `YYYY-MM-DD`, not yet checked for being a day.
#[inline]
pub(super) fn parse_iso(text: &[u8; 10]) -> Option<(u32, u8, u32)> {
    let [head @ .., d0, d1] = text;
    // Digits become their values and dashes zero; the sum catches what is above 9, or above 0 for a dash.
    let fields = u64::from_le_bytes(*head) ^ u64::from_le_bytes(*b"0000-00-");
    let (d0, d1) = (d0 ^ b'0', d1 ^ b'0');
    let bad = (fields.wrapping_add(0x7F76_767F_7676_7676) | fields) & 0x8080_8080_8080_8080;
    if bad != 0 || d0 > 9 || d1 > 9 {
        return None;
    }
    let pairs = fields.wrapping_mul(10).wrapping_add(fields >> 8);
    let year = (pairs & 0xFF) * 100 + (pairs >> 16 & 0xFF);
    Some((year as u32, (pairs >> 40) as u8, u32::from(d0 * 10 + d1)))
}

/// The whole certain grammar.
#[inline(never)]
fn parse_slowly(text: &[u8]) -> Result<i32, Refusal> {
    match civil::parse(text)? {
        Moment::Infinity => Ok(INFINITY),
        Moment::NegativeInfinity => Ok(NEGATIVE_INFINITY),
        Moment::Epoch => Ok(-UNIX_EPOCH_DAYS),
        Moment::Finite { days, .. } => match i32::try_from(days) {
            Ok(days @ FIRST..=LAST) => Ok(days),
            _ => Err(Refusal::OutOfRange),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_values() {
        for (text, days) in [
            ("2000-01-01", 0),
            ("1970-01-01", -UNIX_EPOCH_DAYS),
            ("1998-12-01", -396),
            ("2000-02-29", 59),
            ("0001-01-01", -730_119),
            ("9999-12-31", 2_921_939),
            ("2000-1-2", 1),
            (" 2000-01-02\n", 1),
            ("20000102", 1),
            ("2000/1/2", 1),
            ("2000.01.02", 1),
            ("02000-01-02", 1),
            ("10000-01-01", 2_921_940),
            ("0001-12-31 BC", -730_120),
            ("0001-12-31bc", -730_120),
            ("2000-01-02 AD", 1),
            ("4714-11-24 BC", FIRST),
            ("5874897-12-31", LAST),
            ("epoch", -UNIX_EPOCH_DAYS),
            ("Infinity", INFINITY),
            (" -infinity ", NEGATIVE_INFINITY),
            ("2000-01-02 23:59:60", 1),
            ("2000-01-02T24:00:00Z", 1),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(days), "{text:?}");
        }
    }

    #[test]
    fn refusals() {
        for text in [
            "2001-02-29",
            "2000-13-01",
            "2000-00-01",
            "2000-01-00",
            "2000-01-32",
            "0000-01-01",
            "0000-01-01 BC",
            "20001301",
            "4714-11-23 BC",
            "5874898-01-01",
            "999999999-01-01",
            "2000-01-01 25:00:00",
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Refusal::OutOfRange), "{text:?}");
        }
        for text in [
            "01/02/2003",
            "1-2-2003",
            "99-01-01",
            "200-01-01",
            "January 8, 1999",
            "now",
            "today",
            "now()",
            "2000-01-001",
            "2000/01-01",
            "2000/01",
            "2000.01.01.01",
            "2000-01",
            "000101",
            "2000-01-01x",
            "2000-01-01 PST",
            "2000-01-01+02",
            "+infinity",
            "inf",
            "J1",
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Refusal::Unsure), "{text:?}");
        }
        for text in [
            "",
            "  ",
            "x",
            "n/a",
            "#N/A",
            "-",
            "unknown",
            "Jan",
            "Monday",
            "BC",
            "utc",
            "america/new_york",
            "Z",
            "Nowhere",
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Refusal::InvalidSyntax), "{text:?}");
        }
    }

    #[test]
    fn every_byte_in_every_place_of_an_iso_date() {
        for place in 0..10 {
            for byte in 0..=255_u8 {
                let mut text = *b"1998-12-01";
                text[place] = byte;
                let fields = std::str::from_utf8(&text).ok().and_then(|text| {
                    let fields: Vec<&str> = text.split('-').collect();
                    let well_formed = fields.iter().map(|f| f.len()).eq([4, 2, 2])
                        && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
                    well_formed.then(|| {
                        let numbers: Vec<u32> = fields.iter().map(|f| f.parse().unwrap()).collect();
                        (numbers[0], numbers[1] as u8, numbers[2])
                    })
                });
                assert_eq!(parse_iso(&text), fields, "{text:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn fast_and_slow_agree(year in 0_u32..=9999, month in 0_u32..=19, day in 0_u32..=39) {
            let text = format!("{year:04}-{month:02}-{day:02}");
            prop_assert_eq!(parse(text.as_bytes()), parse_slowly(text.as_bytes()));
        }
    }
}
