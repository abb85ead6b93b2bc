//! `interval`: what PostgreSQL's `interval_in` reads.
//!
//! Read here is what means the same in every `IntervalStyle` but `sql_standard` (which Tipple's sessions do not have):
//! whole numbers with a unit, of which every unit comes once, and seconds with up to six decimal places
//! (`1 year 2 mons -3 days`, `@ 4 hours ago`); a time with colons (`-04:05:06.7`) alone or after them; and ISO 8601
//! with designators (`P1Y2M3DT4H5M6.7S`). Everything else is [`Refusal::Unsure`]: fractions of days, `1-2`, decades.

use super::civil::round_micros;
use super::{Refusal, is_space, malformed, trim, trim_start};

/// A span of time, as the server stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    /// Whole months.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// Hours, minutes, seconds.
    pub micros: i64,
}

/// A longer text is left to the server, whose buffers end somewhat later.
const LONGEST_BYTES: usize = 128;

const SECOND_MICROS: i64 = 1_000_000;
const MINUTE_MICROS: i64 = 60 * SECOND_MICROS;
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;

/// Reads an `interval(precision)`.
///
/// # Errors
/// [`Refusal::InvalidSyntax`] for an empty text; everything else that is not read here is [`Refusal::Unsure`].
#[inline(never)]
pub fn parse(text: &[u8], precision: u8) -> Result<Interval, Refusal> {
    let trimmed = trim(text);
    if trimmed.is_empty() {
        return Err(malformed(text));
    }
    if trimmed.len() > LONGEST_BYTES {
        return Err(Refusal::Unsure);
    }
    // The server tries ISO 8601 last, and then with nothing around it.
    let sum = if text[0] == b'P' { parse_iso(&text[1..])? } else { parse_units(trimmed)? };
    sum.finish(precision).ok_or(Refusal::Unsure)
}

/// The units, each with a bit of its own, so that none comes twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Sum {
    months: i64,
    days: i64,
    micros: i64,
    seen: u8,
}

impl Sum {
    fn add(&mut self, quantity: &Quantity, unit: Unit) -> Result<(), Refusal> {
        if self.seen & 1 << unit as u8 != 0 || (quantity.fraction && unit != Unit::Second) {
            return Err(Refusal::Unsure);
        }
        self.seen |= 1 << unit as u8;
        // At most nine digits: no product comes near the end of 64 bits.
        match unit {
            Unit::Year => self.months += 12 * quantity.whole,
            Unit::Month => self.months += quantity.whole,
            Unit::Week => self.days += 7 * quantity.whole,
            Unit::Day => self.days += quantity.whole,
            Unit::Hour => self.micros += HOUR_MICROS * quantity.whole,
            Unit::Minute => self.micros += MINUTE_MICROS * quantity.whole,
            Unit::Second => self.micros += SECOND_MICROS * quantity.whole + quantity.micros,
        }
        Ok(())
    }

    fn finish(&self, precision: u8) -> Option<Interval> {
        Some(Interval {
            months: i32::try_from(self.months).ok()?,
            days: i32::try_from(self.days).ok()?,
            micros: round_micros(self.micros, precision),
        })
    }
}

/// A number before a unit. Sign and fraction are in both parts.
struct Quantity {
    whole: i64,
    micros: i64,
    fraction: bool,
}

/// One to nine digits and perhaps a point with one to six more.
fn take_quantity(rest: &mut &[u8]) -> Result<Quantity, Refusal> {
    let negative = match rest.first() {
        Some(sign @ (b'-' | b'+')) => {
            *rest = &rest[1..];
            *sign == b'-'
        }
        _ => false,
    };
    let whole = take_digits(rest, 9)?;
    let fraction = rest.first() == Some(&b'.');
    let micros = if fraction { take_fraction(rest)? } else { 0 };
    let sign = if negative { -1 } else { 1 };
    Ok(Quantity { whole: sign * whole, micros: sign * micros, fraction })
}

/// A point and one to six digits behind it, in microseconds.
fn take_fraction(rest: &mut &[u8]) -> Result<i64, Refusal> {
    *rest = &rest[1..];
    let before = rest.len();
    let digits = take_digits(rest, 6)?;
    Ok(digits * 10_i64.pow(6 - (before - rest.len()) as u32))
}

fn take_digits(rest: &mut &[u8], most: usize) -> Result<i64, Refusal> {
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=most).contains(&length) {
        return Err(Refusal::Unsure);
    }
    let (digits, after) = rest.split_at(length);
    *rest = after;
    Ok(digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

/// Numbers with units and a time, in any order but the time last.
fn parse_units(text: &[u8]) -> Result<Sum, Refusal> {
    let mut sum = Sum::default();
    let mut rest = match text {
        [b'@', after @ ..] => trim_start(after),
        _ => text,
    };
    if rest.is_empty() {
        return Err(Refusal::Unsure);
    }
    while !rest.is_empty() {
        if sum.seen != 0 && rest.eq_ignore_ascii_case(b"ago") {
            sum = Sum { months: -sum.months, days: -sum.days, micros: -sum.micros, ..sum };
            break;
        }
        let start = rest;
        let quantity = take_quantity(&mut rest)?;
        if rest.first() == Some(&b':') && !quantity.fraction {
            add_time(&mut sum, start, &mut rest)?;
        } else {
            let spaced = trim_start(rest);
            let length = spaced.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
            let (word, after) = spaced.split_at(length);
            // Anything else would make another word of it.
            if !after.first().is_none_or(|&byte| is_space(byte)) {
                return Err(Refusal::Unsure);
            }
            sum.add(&quantity, unit_of(word).ok_or(Refusal::Unsure)?)?;
            rest = after;
        }
        rest = trim_start(rest);
    }
    Ok(sum)
}

/// `HH:MM` or `HH:MM:SS` with a fraction, of which the hours were just read; a sign is that of the whole time.
fn add_time<'t>(sum: &mut Sum, start: &'t [u8], rest: &mut &'t [u8]) -> Result<(), Refusal> {
    let mut time = start.strip_prefix(b"-").or(start.strip_prefix(b"+")).unwrap_or(start);
    let sign = if start[0] == b'-' { -1 } else { 1 };
    let hours = take_digits(&mut time, 9)?;
    time = &time[1..];
    let minutes = take_digits(&mut time, 2)?;
    let (mut seconds, mut micros) = (0, 0);
    if time.first() == Some(&b':') {
        time = &time[1..];
        seconds = take_digits(&mut time, 2)?;
        if time.first() == Some(&b'.') {
            micros = take_fraction(&mut time)?;
        }
    }
    let ends = time.first().is_none_or(|&byte| is_space(byte));
    if minutes > 59 || seconds > 59 || !ends {
        return Err(Refusal::Unsure);
    }
    for (whole, micros, unit) in [(hours, 0, Unit::Hour), (minutes, 0, Unit::Minute), (seconds, micros, Unit::Second)] {
        sum.add(&Quantity { whole: sign * whole, micros: sign * micros, fraction: false }, unit)?;
    }
    *rest = time;
    Ok(())
}

/// The units in their usual spellings (`datetime.c`, `deltatktbl`).
fn unit_of(word: &[u8]) -> Option<Unit> {
    const SPELLINGS: [(&[u8], Unit); 27] = [
        (b"day", Unit::Day),
        (b"days", Unit::Day),
        (b"d", Unit::Day),
        (b"mon", Unit::Month),
        (b"mons", Unit::Month),
        (b"month", Unit::Month),
        (b"months", Unit::Month),
        (b"year", Unit::Year),
        (b"years", Unit::Year),
        (b"y", Unit::Year),
        (b"yr", Unit::Year),
        (b"week", Unit::Week),
        (b"weeks", Unit::Week),
        (b"w", Unit::Week),
        (b"hour", Unit::Hour),
        (b"hours", Unit::Hour),
        (b"h", Unit::Hour),
        (b"hr", Unit::Hour),
        (b"minute", Unit::Minute),
        (b"minutes", Unit::Minute),
        (b"min", Unit::Minute),
        (b"mins", Unit::Minute),
        (b"second", Unit::Second),
        (b"seconds", Unit::Second),
        (b"sec", Unit::Second),
        (b"secs", Unit::Second),
        (b"s", Unit::Second),
    ];
    SPELLINGS.iter().find(|(spelling, _)| spelling.eq_ignore_ascii_case(word)).map(|(_, unit)| *unit)
}

/// ISO 8601 behind its `P`: numbers with designators.
fn parse_iso(mut rest: &[u8]) -> Result<Sum, Refusal> {
    let mut sum = Sum::default();
    let mut in_time = false;
    while !rest.is_empty() {
        if !in_time && rest[0] == b'T' {
            in_time = true;
            rest = &rest[1..];
            if rest.is_empty() {
                return Err(Refusal::Unsure);
            }
            continue;
        }
        if rest[0] == b'+' {
            return Err(Refusal::Unsure);
        }
        let quantity = take_quantity(&mut rest)?;
        let unit = match (rest.first(), in_time) {
            (Some(b'Y'), false) => Unit::Year,
            (Some(b'M'), false) => Unit::Month,
            (Some(b'W'), false) => Unit::Week,
            (Some(b'D'), false) => Unit::Day,
            (Some(b'H'), true) => Unit::Hour,
            (Some(b'M'), true) => Unit::Minute,
            (Some(b'S'), true) => Unit::Second,
            _ => return Err(Refusal::Unsure),
        };
        rest = &rest[1..];
        sum.add(&quantity, unit)?;
    }
    if sum.seen == 0 { Err(Refusal::Unsure) } else { Ok(sum) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interval(months: i32, days: i32, micros: i64) -> Result<Interval, Refusal> {
        Ok(Interval { months, days, micros })
    }

    #[test]
    fn golden_values() {
        for (text, expected) in [
            ("1 year 2 mons 3 days 04:05:06.789", interval(14, 3, 14_706_789_000)),
            ("1 year 2 mons -3 days -04:05:06", interval(14, -3, -14_706_000_000)),
            ("@ 1 minute ago", interval(0, 0, -60_000_000)),
            ("P1Y2M3DT4H5M6.7S", interval(14, 3, 14_706_700_000)),
            ("P-1W", interval(0, -7, 0)),
            ("PT0S", interval(0, 0, 0)),
            ("00:00:00", interval(0, 0, 0)),
            ("100:00", interval(0, 0, 360_000_000_000)),
            ("1d 2h", interval(0, 1, 7_200_000_000)),
            (" 1.5 SECS ", interval(0, 0, 1_500_000)),
            ("-0.000001 seconds", interval(0, 0, -1)),
        ] {
            assert_eq!(parse(text.as_bytes(), 6), expected, "{text}");
        }
        assert_eq!(parse(b"1.5 s", 0), interval(0, 0, 2_000_000));
        assert_eq!(parse(b"-1.5 s", 0), interval(0, 0, -2_000_000));
    }

    #[test]
    fn what_is_left_to_the_server() {
        for text in [
            "1",
            "1d2h",
            "1 day-2 hours",
            "P+1Y",
            "1.5 days",
            "1 day 1 day",
            "1-2",
            "1 2:03",
            "P1Y1Y",
            "P",
            "PT",
            "P1YT",
            "p1y",
            " P1Y",
            "1 decade",
            "1 day ago 2 hours",
            "ago",
            "12:34.5",
            "1:60",
            "9999999999 s",
            "200000000 years",
            "x",
            "infinity",
            "@",
            "P0001-02-03",
            "1.1234567 s",
        ] {
            assert_eq!(parse(text.as_bytes(), 6), Err(Refusal::Unsure), "{text}");
        }
        assert_eq!(parse(b" ", 6), Err(Refusal::InvalidSyntax));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[P@]?[0-9a-zA-Z:.+ -]{0,30}") {
            let _ = parse(text.as_bytes(), 6);
        }
    }
}
