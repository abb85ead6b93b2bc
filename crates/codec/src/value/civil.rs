//! The part of PostgreSQL's date and time grammar that means the same under every setting, and the calendar.
//!
//! Dates, timestamps and times of day share one grammar on the server. Most of it depends on `DateStyle`, on the session's
//! time zone or on the clock; what does not, and is read here, is ISO 8601 as people write it: a year of four or
//! more digits first (before dashes, slashes or points), or eight digits together; then perhaps a time of day with colons,
//! `AM` or `PM`, a numeric time zone, `Z` or `UTC`, and `BC` or `AD`; and the words `epoch`, `infinity` and `-infinity`.
//! Types without time zone check it and ignore it, as the server does. Everything else is [`Refusal::Unsure`], but for
//! texts in which nothing names a day.

use super::{Refusal, is_space, malformed, starts_with_word, trim};

/// Days between 1970-01-01 and PostgreSQL's epoch, 2000-01-01.
pub(super) const UNIX_EPOCH_DAYS: i32 = 10_957;

/// Microseconds in a day.
pub(super) const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A longer text is left to the server, whose buffers end somewhat later.
const LONGEST_BYTES: usize = 64;

/// How many days each month has in a common year; no days for what is not a month.
const DAYS_IN_MONTH: [u8; 16] = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0];

/// What a date or timestamp means, before the range of either type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Days since 2000-01-01, microseconds since that day began (all 24 hours of them for 24:00:00), and how many
    /// seconds its clocks are ahead of UTC, where a time zone is given.
    Finite { days: i64, micros: i64, zone_seconds: Option<i32> },
    /// 1970-01-01 00:00 UTC.
    Epoch,
    /// Later than every other.
    Infinity,
    /// Earlier than every other.
    NegativeInfinity,
}

/// Whether the year has a 29 February; year 0 is 1 BC.
#[inline]
const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days since 2000-01-01 of a day in the Gregorian calendar, extended backwards; year 0 is 1 BC. `None` where
/// there is no such day. Years from -999,999,999 on.
#[inline]
pub(crate) const fn days_from_civil(year: i64, month: u32, day: u32) -> Option<i64> {
    let known = DAYS_IN_MONTH[(month & 15) as usize] as u32;
    let exists = (month <= 12 && day.wrapping_sub(1) < known) || (month == 2 && day == 29 && is_leap(year));
    if !exists {
        return None;
    }
    // The year is made to begin in March, so that the leap day is its last; 400 years are 146,097 days.
    let (year, month) = if month <= 2 { (year - 1, month + 12) } else { (year, month) };
    let day_of_year = (153 * (month - 3) + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(365 * year + leap_days + day_of_year as i64 - 730_425)
}

/// [`days_from_civil`] for the years 1 to 9999, where everything fits 32 bits.
#[inline]
pub(super) const fn days_from_recent(year: u32, month: u8, day: u32) -> Option<i32> {
    /// Of each number that a byte holds: how many days such a month has at least, and how many are before it in a
    /// year that begins in March.
    const MONTHS: [(u16, u16); 256] = {
        let mut months = [(0, 0); 256];
        let before = [306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275];
        let mut month = 1;
        while month <= 12 {
            months[month] = (DAYS_IN_MONTH[month] as u16, before[month - 1]);
            month += 1;
        }
        months
    };
    let (known, before) = MONTHS[month as usize];
    if year == 0 || day.wrapping_sub(1) >= known as u32 && !(month == 2 && day == 29 && is_leap(year as i64)) {
        return None;
    }
    let year = year - (month <= 2) as u32;
    let centuries = year / 100;
    let days = 365 * year + year / 4 - centuries + centuries / 4;
    Some((days + before as u32 + day - 1) as i32 - 730_425)
}

/// The years of [`MONTHS`].
const TABLED: std::ops::Range<usize> = 1900..2100;

/// Of each month from the first of these years on, sixteen a year: in the lowest byte how many days it has, and above the
/// days from 2000-01-01 to the one before its first.
static MONTHS: [i32; 16 * (TABLED.end - TABLED.start)] = {
    let mut months = [0; 16 * (TABLED.end - TABLED.start)];
    let mut year = TABLED.start;
    while year < TABLED.end {
        let mut month = 1;
        while month <= 12 {
            let leap_day = month == 2 && is_leap(year as i64);
            let days = DAYS_IN_MONTH[month] as i32 + leap_day as i32;
            let Some(first) = days_from_recent(year as u32, month as u8, 1) else { panic!("months have a first day") };
            months[16 * (year - TABLED.start) + month] = (first - 1) << 8 | days;
            month += 1;
        }
        year += 1;
    }
    months
};

/// [`days_from_recent`] for most dates; `sixteen_years` is sixteen times the year.
#[inline(always)]
pub(super) fn days_of(sixteen_years: usize, month: usize, day: u32) -> Option<i32> {
    if month >= 16 {
        return None;
    }
    // A month that does not exist has no days.
    let known = *MONTHS.get((sixteen_years + month).wrapping_sub(16 * TABLED.start))?;
    (day.wrapping_sub(1) < known as u32 & 0xFF).then(|| (known >> 8) + day as i32)
}

/// Where the reader stands in the text.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Steps over `byte` if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    /// Steps over white space; whether there was any.
    fn take_space(&mut self) -> bool {
        let before = self.rest.len();
        while self.peek().is_some_and(is_space) {
            self.rest = &self.rest[1..];
        }
        self.rest.len() != before
    }

    /// All digits that come next.
    fn take_digits(&mut self) -> &[u8] {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        digits
    }

    /// A number of one or two digits: the server counts digits to tell what they are.
    fn take_short(&mut self) -> Result<u32, Refusal> {
        let digits = self.take_digits();
        if (1..=2).contains(&digits.len()) { Ok(number(digits) as u32) } else { Err(Refusal::Unsure) }
    }
}

/// The value of at most 18 digits.
fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'))
}

/// Reads a date with an optional time of day, or one of the special words.
///
/// # Errors
/// [`Refusal::InvalidSyntax`] for an empty text, [`Refusal::OutOfRange`] for days and times that do not exist,
/// [`Refusal::Unsure`] for everything that is not spelled as this file's head says.
#[inline(never)]
pub(super) fn parse(text: &[u8]) -> Result<Moment, Refusal> {
    let trimmed = trim(text);
    match trimmed {
        [] => return Err(malformed(text)),
        [b'0'..=b'9', ..] if trimmed.len() <= LONGEST_BYTES => {}
        _ if trimmed.eq_ignore_ascii_case(b"infinity") => return Ok(Moment::Infinity),
        _ if trimmed.eq_ignore_ascii_case(b"-infinity") => return Ok(Moment::NegativeInfinity),
        _ if trimmed.eq_ignore_ascii_case(b"epoch") => {
            return Ok(Moment::Epoch);
        }
        _ if names_no_day(trimmed) => return Err(malformed(text)),
        _ => return Err(Refusal::Unsure),
    }
    let mut cursor = Cursor { rest: trimmed };
    let (year, month, day) = take_date(&mut cursor)?;

    let spaced = cursor.take_space();
    let is_time = match cursor.peek() {
        Some(b'T' | b't') if !spaced => {
            cursor.rest = &cursor.rest[1..];
            true
        }
        Some(b'0'..=b'9') => spaced,
        _ => false,
    };
    let micros = if is_time { take_time(&mut cursor)? } else { Ok(0) };
    let zone = if is_time { take_zone(&mut cursor)? } else { None };

    let spaced = cursor.take_space();
    let before_christ = match cursor.rest {
        [] => false,
        // A letter right behind `Z` would make another word of it.
        _ if zone.is_some_and(|zone| zone.named) && !spaced => return Err(Refusal::Unsure),
        era if era.eq_ignore_ascii_case(b"BC") => true,
        era if era.eq_ignore_ascii_case(b"AD") => false,
        _ => return Err(Refusal::Unsure),
    };
    // There is no year zero.
    if year == 0 {
        return Err(Refusal::OutOfRange);
    }
    let year = if before_christ { 1 - year } else { year };
    let days = days_from_civil(year, month, day).ok_or(Refusal::OutOfRange)?;
    Ok(Moment::Finite { days, micros: micros?, zone_seconds: zone.map(|zone| zone.seconds) })
}

/// Whether no day can be in a text, whatever the server's settings: `n/a`, `unknown`, `-`. Without a digit only words of its
/// `datetktbl` (src/backend/utils/adt/datetime.c) name one.
fn names_no_day(text: &[u8]) -> bool {
    const DAYS: [&[u8]; 7] = [b"inf", b"infinity", b"epoch", b"now", b"today", b"tomorrow", b"yesterday"];
    let mut words = text.split(|byte| !byte.is_ascii_alphabetic());
    !text.iter().any(u8::is_ascii_digit) && !words.any(|word| DAYS.iter().any(|day| word.eq_ignore_ascii_case(day)))
}

/// Reads a time of day alone: microseconds since midnight, and how many seconds its clocks are ahead of UTC, where a
/// time zone is given.
///
/// # Errors
/// As [`parse`].
#[inline(never)]
pub(super) fn parse_time(text: &[u8]) -> Result<(i64, Option<i32>), Refusal> {
    let trimmed = trim(text);
    if trimmed.is_empty() {
        return Err(malformed(text));
    }
    if trimmed.len() > LONGEST_BYTES {
        return Err(Refusal::Unsure);
    }
    let mut cursor = Cursor { rest: trimmed };
    let micros = take_time(&mut cursor)?;
    let zone = take_zone(&mut cursor)?;
    if !cursor.rest.is_empty() {
        return Err(Refusal::Unsure);
    }
    Ok((micros?, zone.map(|zone| zone.seconds)))
}

/// Rounds microseconds to `precision` digits of a second (six and more are all there are), half away from zero.
#[inline]
pub(super) const fn round_micros(micros: i64, precision: u8) -> i64 {
    const STEPS_MICROS: [i64; 7] = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    let step = STEPS_MICROS[if precision > 6 { 6 } else { precision } as usize];
    if step == 1 || micros % step == 0 {
        return micros;
    }
    let magnitude = (micros.abs() + step / 2) / step * step;
    if micros < 0 { -magnitude } else { magnitude }
}

/// `YYYY-MM-DD` with more year digits or fewer month and day digits, the same with slashes or points, or `YYYYMMDD`. Not
/// yet checked for being a day.
fn take_date(cursor: &mut Cursor<'_>) -> Result<(i64, u32, u32), Refusal> {
    let digits = cursor.take_digits();
    let length = digits.len();
    if !(4..=9).contains(&length) {
        return Err(Refusal::Unsure);
    }
    let leading = number(digits);
    if let Some(separator @ (b'-' | b'/' | b'.')) = cursor.peek() {
        cursor.take(separator);
        let month = cursor.take_short()?;
        if !cursor.take(separator) {
            return Err(Refusal::Unsure);
        }
        Ok((leading, month, cursor.take_short()?))
    } else if length == 8 {
        Ok((leading / 10_000, (leading / 100 % 100) as u32, (leading % 100) as u32))
    } else {
        Err(Refusal::Unsure)
    }
}

/// `HH:MM` or `HH:MM:SS` with a fraction, and perhaps `AM` or `PM`: the microseconds since midnight, or that there is no such time of day.
/// The outer result is about the spelling.
fn take_time(cursor: &mut Cursor<'_>) -> Result<Result<i64, Refusal>, Refusal> {
    let mut hour = cursor.take_short()?;
    if !cursor.take(b':') {
        return Err(Refusal::Unsure);
    }
    let minute = cursor.take_short()?;
    let (mut second, mut fraction) = (0, 0);
    if cursor.take(b':') {
        second = cursor.take_short()?;
        if cursor.take(b'.') {
            fraction = fraction_micros(cursor.take_digits());
        }
    }
    // Another point or colon would make it a different kind of field.
    if matches!(cursor.peek(), Some(b'.' | b':')) {
        return Err(Refusal::Unsure);
    }
    if let Some(half) = take_half(cursor)? {
        if second > 59 || fraction >= 1_000_000 {
            return Err(Refusal::Unsure);
        }
        if hour > 12 {
            return Ok(Err(Refusal::OutOfRange));
        }
        hour = hour % 12 + half;
    }
    let micros = i64::from((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction;
    // A minute may have 60 seconds and a day may end with 24:00:00, but nothing may lie beyond that.
    let exists = minute <= 59 && second <= 60 && micros <= MICROS_PER_DAY;
    Ok(if exists { Ok(micros) } else { Err(Refusal::OutOfRange) })
}

/// `AM` or `PM`, if it follows: the hours to add to those of the first half of the day.
fn take_half(cursor: &mut Cursor<'_>) -> Result<Option<u32>, Refusal> {
    let before = cursor.rest;
    cursor.take_space();
    let half = match cursor.rest {
        rest if starts_with_word(rest, b"am") => 0,
        rest if starts_with_word(rest, b"pm") => 12,
        _ => {
            cursor.rest = before;
            return Ok(None);
        }
    };
    cursor.rest = &cursor.rest[2..];
    // With a dash right behind it, it is the name of a time zone.
    let ends = cursor.peek().is_none_or(|byte| is_space(byte) || byte == b'+');
    if ends { Ok(Some(half)) } else { Err(Refusal::Unsure) }
}

/// Microseconds of a fraction of a second: 0 to 1,000,000, rounded as the server does, which reads the fraction
/// as a double and rounds a million times it to the nearest integer, ties to even.
fn fraction_micros(digits: &[u8]) -> i64 {
    if digits.len() <= 6 {
        return number(digits) * 10_i64.pow(6 - digits.len() as u32);
    }
    let mut spelled = [0; LONGEST_BYTES + 1];
    spelled[0] = b'.';
    spelled[1..=digits.len()].copy_from_slice(digits);
    let fraction: f64 =
        std::str::from_utf8(&spelled[..=digits.len()]).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    (fraction * 1e6).round_ties_even() as i64
}

/// A time zone whose distance from UTC is certain.
#[derive(Debug, Clone, Copy)]
struct Zone {
    /// How far its clocks are ahead of UTC.
    seconds: i32,
    /// Whether it is a word.
    named: bool,
}

/// A time zone, if one follows: `Z`, `UTC`, `+HH`, `+HHMM`, `+HH:MM` or `+HH:MM:SS`.
fn take_zone(cursor: &mut Cursor<'_>) -> Result<Option<Zone>, Refusal> {
    let before = cursor.rest;
    cursor.take_space();
    if starts_with_word(cursor.rest, b"utc") || starts_with_word(cursor.rest, b"z") {
        cursor.rest = &cursor.rest[if cursor.rest[0].eq_ignore_ascii_case(&b'z') { 1 } else { 3 }..];
        return Ok(Some(Zone { seconds: 0, named: true }));
    }
    let Some(sign @ (b'+' | b'-')) = cursor.peek() else {
        cursor.rest = before;
        return Ok(None);
    };
    cursor.rest = &cursor.rest[1..];
    let digits = cursor.take_digits();
    let (mut hours, mut minutes, mut seconds) = (number(&digits[..digits.len().min(4)]), 0, 0);
    match digits.len() {
        2 => {}
        4 => (hours, minutes) = (hours / 100, hours % 100),
        _ => return Err(Refusal::Unsure),
    }
    if digits.len() == 2 && cursor.take(b':') {
        minutes = take_pair(cursor)?;
        if cursor.take(b':') {
            seconds = take_pair(cursor)?;
        }
    }
    let ends = !matches!(cursor.peek(), Some(b':' | b'.' | b'-'));
    // The server accepts offsets below 16 hours; what lies above the inhabited ones is left to it.
    if hours > 14 || minutes > 59 || seconds > 59 || !ends {
        return Err(Refusal::Unsure);
    }
    let distance = ((hours * 60 + minutes) * 60 + seconds) as i32;
    Ok(Some(Zone { seconds: if sign == b'-' { -distance } else { distance }, named: false }))
}

/// A number of exactly two digits.
fn take_pair(cursor: &mut Cursor<'_>) -> Result<i64, Refusal> {
    let digits = cursor.take_digits();
    if digits.len() == 2 { Ok(number(digits)) } else { Err(Refusal::Unsure) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The obvious calendar: walks from 2000-01-01 a day at a time.
    fn walk(mut visit: impl FnMut(i64, u32, u32, i64), years: i64) {
        let length = |year: i64, month: u32| match month {
            4 | 6 | 9 | 11 => 30,
            2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
            2 => 28,
            _ => 31,
        };
        let (mut year, mut month, mut day, mut days) = (2000, 1, 1, 0);
        while year < 2000 + years {
            visit(year, month, day, days);
            (day, days) = (day + 1, days + 1);
            if day > length(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        (year, month, day, days) = (2000, 1, 1, 0);
        while year > 2000 - years {
            visit(year, month, day, days);
            (day, days) = (day - 1, days - 1);
            if day == 0 {
                month -= 1;
                if month == 0 {
                    (year, month) = (year - 1, 12);
                }
                day = length(year, month);
            }
        }
    }

    #[test]
    fn calendar_as_walking_day_by_day_finds_it() {
        walk(
            |year, month, day, days| {
                assert_eq!(days_from_civil(year, month, day), Some(days), "{year}-{month}-{day}");
                if TABLED.contains(&(year as usize)) {
                    assert_eq!(days_of(16 * year as usize, usize::from(month as u8), day), Some(days as i32));
                }
                if (1..=9999).contains(&year) {
                    assert_eq!(days_from_recent(year as u32, month as u8, day), Some(days as i32));
                }
            },
            2600,
        );
    }

    #[test]
    fn days_that_do_not_exist() {
        for (year, month, day) in
            [(1999, 2, 29), (1900, 2, 29), (2001, 4, 31), (2001, 13, 1), (2001, 0, 1), (2001, 1, 0)]
        {
            assert_eq!(days_from_civil(year, month, day), None);
            assert_eq!(days_from_recent(year as u32, month as u8, day), None);
            assert_eq!(days_of(16 * year as usize, month as usize, day), None);
        }
        for (year, month, day) in [(1899, 12, 31), (2100, 1, 1), (1999, 15, 1), (1999, 17, 1), (1999, 99, 99)] {
            assert_eq!(days_of(16 * year, month, day), None);
        }
        assert_eq!(days_from_civil(2001, 17, 1), None);
        assert_eq!(days_from_recent(0, 1, 1), None);
        assert_eq!(days_from_civil(2000, 2, 29), Some(59));
        assert_eq!(days_from_civil(0, 2, 29), Some(-730_426));
    }

    #[test]
    fn fractions_round_to_the_nearest_even_microsecond() {
        for (digits, micros) in [
            ("", 0),
            ("5", 500_000),
            ("000001", 1),
            ("0000005", 0),
            ("0000015", 2),
            ("00000050001", 1),
            ("9999995", 1_000_000),
            ("99999949", 999_999),
        ] {
            assert_eq!(fraction_micros(digits.as_bytes()), micros, "{digits}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[0-9]{0,9}-?[0-9]{0,3}-?[0-9]{0,3}[ Tt]?[0-9:.+ZzBC -]{0,30}") {
            let _ = parse(text.as_bytes());
        }

        #[test]
        fn four_hundred_years_repeat(year in -900_000_000_i64..900_000_000, month in 1_u32..=12, day in 1_u32..=28) {
            let days = days_from_civil(year, month, day).unwrap();
            prop_assert_eq!(days_from_civil(year + 400, month, day), Some(days + 146_097));
        }
    }
}
