//! What kind of value a field's text looks like, for guessing the type of a column.
//!
//! A kind is narrower than its type's input function: `0123` and `+5` are integers to PostgreSQL, but a column of them
//! is more likely one of ZIP codes or telephone numbers, whose zeros and signs must not be lost. So a text has first
//! the plain shape of a kind, and then the codec's own parser must take it too: what is called a date here loads as
//! one.

use crate::value::{ServerVersion, date, float, integer, numeric, timestamp};
use serde::{Serialize, Serializer};

/// The kinds that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `true` or `false`, in any mixture of cases.
    Boolean,
    /// `t` or `f`, as PostgreSQL writes them: a boolean only where both occur.
    BooleanLetter,
    /// A plain integer within the range of `bigint`.
    Integer,
    /// A plain integer outside that range.
    LongInteger,
    /// Digits with a decimal point.
    Decimal,
    /// A number with an exponent.
    Float,
    /// `NaN` and the infinities.
    NotFinite,
    /// An ISO date.
    Date,
    /// An ISO date and time.
    Timestamp,
    /// An ISO date and time with its distance from UTC.
    Timestamptz,
    /// A time of day.
    Time,
    /// A UUID in the usual form.
    Uuid,
    /// Day and month in an order that only settings decide, such as `13/12/2024`.
    LocalDate,
    /// The same with a year of two digits: it may as well be a code, or begin with the year.
    DoubtfulDate,
    /// A number with a decimal comma.
    DecimalComma,
    /// A number with commas between its thousands.
    Thousands,
    /// Digits with a zero, or a sign, that a number would lose.
    LeadingZero,
    /// Anything else.
    Text,
}

impl Kind {
    /// All of them, in their order.
    pub const ALL: [Self; 18] = [
        Self::Boolean,
        Self::BooleanLetter,
        Self::Integer,
        Self::LongInteger,
        Self::Decimal,
        Self::Float,
        Self::NotFinite,
        Self::Date,
        Self::Timestamp,
        Self::Timestamptz,
        Self::Time,
        Self::Uuid,
        Self::LocalDate,
        Self::DoubtfulDate,
        Self::DecimalComma,
        Self::Thousands,
        Self::LeadingZero,
        Self::Text,
    ];
}

/// How many values there are of each kind.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct KindCounts([usize; Kind::ALL.len()]);

impl KindCounts {
    /// One more of a kind.
    pub fn add(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    /// The kinds that there are, each with how many values.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, usize)> {
        Kind::ALL.into_iter().zip(self.0).filter(|&(_, count)| count > 0)
    }
}

impl Serialize for KindCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Texts that often stand for NULL, apart from the empty one.
pub const NULL_WORDS: [&str; 18] = [
    "\\N", "NULL", "Null", "null", "(null)", "<null>", "NA", "<NA>", "N/A", "n/a", "#N/A", "None", "none", "-", ".",
    "..", "?", "*",
];

/// The one of [`NULL_WORDS`] that a text is.
#[inline]
#[must_use]
pub fn null_word(text: &[u8]) -> Option<&'static str> {
    // Nearly all values begin otherwise.
    if !matches!(text.first()?, b'\\' | b'N' | b'n' | b'(' | b'<' | b'#' | b'-' | b'.' | b'?' | b'*') {
        return None;
    }
    NULL_WORDS.into_iter().find(|word| word.as_bytes() == text)
}

/// Fraction digits that a timestamp keeps; a text with more would be rounded, and so is none.
const FRACTION_DIGITS: usize = 6;
/// Digits of the longest number that every engine has an exact type for.
const MAX_DIGITS: usize = 38;

/// Whether an integer may be a year, from 1500 to 2199.
#[must_use]
pub fn may_be_year(text: &[u8]) -> bool {
    matches!(text.trim_ascii(), [b'1', b'5'..=b'9', _, _] | [b'2', b'0' | b'1', _, _])
}

/// The kind of a text.
#[must_use]
pub fn classify(text: &[u8]) -> Kind {
    let shape = text.trim_ascii();
    match shape {
        [] => Kind::Text,
        [b'0'..=b'9' | b'-' | b'+' | b'.', ..] => {
            let kind = number(shape, text);
            if kind == Kind::Text { date_or_uuid(shape, text) } else { kind }
        }
        [b't' | b'f'] => Kind::BooleanLetter,
        _ if shape.eq_ignore_ascii_case(b"true") || shape.eq_ignore_ascii_case(b"false") => Kind::Boolean,
        _ if not_finite(shape) => Kind::NotFinite,
        _ if is_uuid(shape) => Kind::Uuid,
        _ => Kind::Text,
    }
}

/// The number of digits after the point of a [`Kind::Decimal`], and before it.
#[must_use]
pub fn decimal_digits(text: &[u8]) -> (usize, usize) {
    let digits = text.trim_ascii().strip_prefix(b"-").unwrap_or(text.trim_ascii());
    match digits.iter().position(|&byte| byte == b'.') {
        Some(point) => (digits.len() - point - 1, point),
        None => (0, digits.len()),
    }
}

/// The first two numbers of a [`Kind::LocalDate`].
#[must_use]
pub fn local_date_parts(text: &[u8]) -> Option<(u32, u32)> {
    let mut parts = text.trim_ascii().splitn(3, |byte| matches!(byte, b'.' | b'/' | b'-'));
    let mut part = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
    Some((part()?, part()?))
}

/// What stands between the parts of a local date.
pub fn local_date_separator(text: &[u8]) -> Option<char> {
    text.trim_ascii().iter().find(|byte| !byte.is_ascii_digit()).map(|&byte| char::from(byte))
}

fn number(shape: &[u8], text: &[u8]) -> Kind {
    let signed = matches!(shape[0], b'-' | b'+');
    let digits = &shape[usize::from(signed)..];
    let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let zero_first = whole > 1 && digits[0] == b'0';
    let rest = &digits[whole..];
    if rest.is_empty() {
        return match digits {
            [] => Kind::Text,
            _ if zero_first || shape[0] == b'+' || shape == b"-0" => Kind::LeadingZero,
            _ if integer::parse_int8(text, ServerVersion(15)).is_ok() => Kind::Integer,
            _ if whole <= MAX_DIGITS => Kind::LongInteger,
            _ => Kind::Text,
        };
    }
    match rest[0] {
        b'.' => {
            let fraction = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            match &rest[1 + fraction..] {
                _ if fraction == 0 => Kind::Text,
                [] if zero_first || shape[0] == b'+' => Kind::LeadingZero,
                [] if whole + fraction <= MAX_DIGITS => Kind::Decimal,
                [] if numeric::encode_binary(text, None, ServerVersion(15), &mut Vec::new()).is_ok() => Kind::Decimal,
                [b'e' | b'E', exponent @ ..] if !zero_first && is_exponent(exponent) => float(text),
                _ if has_pointed_thousands(digits) => Kind::DecimalComma,
                _ => Kind::Text,
            }
        }
        b'e' | b'E' if whole > 0 && !zero_first && is_exponent(&rest[1..]) => float(text),
        b',' if whole > 0 => {
            let mut groups = rest[1..].split(|&byte| byte == b',').peekable();
            let mut thousands = whole <= 3 && !zero_first;
            let mut count = 0;
            while let Some(group) = groups.next() {
                count += 1;
                let last = groups.peek().is_none();
                let group = match group.iter().position(|&byte| byte == b'.') {
                    Some(point) if last && all_digits(&group[point + 1..]) => &group[..point],
                    _ => group,
                };
                thousands &= group.len() == 3 && all_digits(group);
            }
            if thousands {
                Kind::Thousands
            } else if count == 1 && all_digits(&rest[1..]) {
                Kind::DecimalComma
            } else {
                Kind::Text
            }
        }
        b'I' | b'i' | b'N' | b'n' if whole == 0 && not_finite(digits) => Kind::NotFinite,
        _ => Kind::Text,
    }
}

/// Thousands with points and a decimal comma: `1.234.567,50`.
fn has_pointed_thousands(digits: &[u8]) -> bool {
    let Some(comma) = digits.iter().position(|&byte| byte == b',') else { return false };
    let mut groups = digits[..comma].split(|&byte| byte == b'.');
    let first = groups.next().is_some_and(|group| (1..=3).contains(&group.len()) && all_digits(group));
    first && groups.all(|group| group.len() == 3 && all_digits(group)) && all_digits(&digits[comma + 1..])
}

fn float(text: &[u8]) -> Kind {
    if float::parse_float8(text).is_ok() { Kind::Float } else { Kind::Text }
}

fn all_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn is_exponent(text: &[u8]) -> bool {
    match text {
        [b'+' | b'-', digits @ ..] => all_digits(digits),
        digits => all_digits(digits),
    }
}

fn not_finite(shape: &[u8]) -> bool {
    ["nan", "inf", "infinity"].iter().any(|word| shape.eq_ignore_ascii_case(word.as_bytes()))
}

fn date_or_uuid(shape: &[u8], text: &[u8]) -> Kind {
    if is_iso_date(shape.get(..10).unwrap_or_default()) {
        let rest = &shape[10..];
        return match rest {
            [] if date::parse(text).is_ok() => Kind::Date,
            [b' ' | b'T', time @ ..] => date_and_time(shape, time),
            _ if is_uuid(shape) => Kind::Uuid,
            _ => Kind::Text,
        };
    }
    if clock_length(shape) == Some(shape.len()) {
        return Kind::Time;
    }
    if let Some(rest) = behind_slashes(shape)
        && timestamp::parse(shape).is_ok()
    {
        return match rest {
            [] => Kind::Date,
            [b' ', time @ ..] if is_clock(time) => Kind::Timestamp,
            _ => Kind::Text,
        };
    }
    if let Some(year) = local_year(shape) {
        // Of other centuries tables have codes such as 24-01-0001, and hardly dates.
        return match (year.len(), value(year)) {
            (2, _) => Kind::DoubtfulDate,
            (_, 1800..2200) => Kind::LocalDate,
            _ => Kind::Text,
        };
    }
    if is_uuid(shape) { Kind::Uuid } else { Kind::Text }
}

pub(super) fn is_iso_date(text: &[u8]) -> bool {
    text.len() == 10
        && text
            .iter()
            .enumerate()
            .all(|(index, byte)| if matches!(index, 4 | 7) { *byte == b'-' } else { byte.is_ascii_digit() })
}

/// What stands behind a date such as `2024/12/31`.
fn behind_slashes(shape: &[u8]) -> Option<&[u8]> {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = shape;
    for (most, least, separator) in [(4, 4, Some(b'/')), (2, 1, Some(b'/')), (2, 1, None)] {
        let length = digits(rest);
        if !(least..=most).contains(&length) {
            return None;
        }
        rest = &rest[length..];
        if let Some(separator) = separator {
            rest = rest.strip_prefix(&[separator])?;
        }
    }
    Some(rest)
}

fn date_and_time(shape: &[u8], time: &[u8]) -> Kind {
    if is_clock(time) && timestamp::parse(shape).is_ok() {
        return Kind::Timestamp;
    }
    let Some(length) = clock_length(time) else { return Kind::Text };
    let zone = &time[length..];
    if timestamp::parse(&shape[..shape.len() - zone.len()]).is_err() {
        return Kind::Text;
    }
    match zone {
        [] => Kind::Timestamp,
        b"Z" => Kind::Timestamptz,
        [b'+' | b'-', offset @ ..] if is_offset(offset) => Kind::Timestamptz,
        _ => Kind::Text,
    }
}

/// `hh`, `hhmm` or `hh:mm`, up to 15 hours.
pub(super) fn is_offset(text: &[u8]) -> bool {
    let shape_fits = match text {
        [_, _] | [_, _, _, _] => all_digits(text),
        [hours @ .., b':', a, b] => hours.len() == 2 && all_digits(hours) && all_digits(&[*a, *b]),
        _ => false,
    };
    shape_fits && text[..2] <= b"14"[..] && (text.len() == 2 || text[text.len() - 2] < b'6')
}

/// How long the time of day is that `text` begins with: `hh:mm`, `hh:mm:ss` or `hh:mm:ss.ffffff`.
pub(super) fn clock_length(text: &[u8]) -> Option<usize> {
    let two = |at: usize, below: u8| {
        let digits = text.get(at..at + 2)?;
        (all_digits(digits) && (digits[0] - b'0') * 10 + (digits[1] - b'0') < below).then_some(())
    };
    two(0, 24)?;
    if text.get(2) != Some(&b':') {
        return None;
    }
    two(3, 60)?;
    if text.get(5) != Some(&b':') {
        return Some(5);
    }
    two(6, 60)?;
    if text.get(8) != Some(&b'.') {
        return Some(8);
    }
    let fraction = text[9..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (1..=FRACTION_DIGITS).contains(&fraction).then_some(9 + fraction)
}

/// Whether a text is a time of day, with one digit or two for the hour, and perhaps `AM` or `PM`.
fn is_clock(text: &[u8]) -> bool {
    let half = |word| text.len() > 2 && text[text.len() - 2..].eq_ignore_ascii_case(word);
    let twelve = half(b"AM") || half(b"PM");
    let clock = if twelve { text[..text.len() - 2].trim_ascii_end() } else { text };
    let mut padded = [b'0'; 16];
    let padding = usize::from(clock.get(1) == Some(&b':'));
    let Some(place) = padded.get_mut(padding..padding + clock.len()) else { return false };
    place.copy_from_slice(clock);
    let padded = &padded[..padding + clock.len()];
    clock_length(padded) == Some(padded.len()) && (!twelve || padded[..2] <= b"12"[..])
}

/// The year of one or two digits, twice, and a year of two or four, with the same separator; perhaps a time behind it.
fn local_year(shape: &[u8]) -> Option<&[u8]> {
    let (date, time) = match shape.iter().position(|&byte| byte == b' ') {
        Some(space) => (&shape[..space], Some(&shape[space + 1..])),
        None => (shape, None),
    };
    let &separator = date.iter().find(|byte| !byte.is_ascii_digit())?;
    if !matches!(separator, b'.' | b'/' | b'-') {
        return None;
    }
    let parts: [&[u8]; 3] = {
        let mut parts = date.split(|&byte| byte == separator);
        let found = [parts.next(), parts.next(), parts.next()];
        let ([Some(a), Some(b), Some(c)], None) = (found, parts.next()) else { return None };
        [a, b, c]
    };
    // With points and a year of two digits it may as well be a version, unless all numbers have two.
    let short_enough = |part: &[u8]| part.len() == 2 && separator != b'-';
    let small = |part: &[u8]| part.len() <= 2 && all_digits(part) && part != b"0" && part != b"00" && value(part) <= 31;
    let is_date = small(parts[0])
        && small(parts[1])
        && value(parts[0]).min(value(parts[1])) <= 12
        && all_digits(parts[2])
        && (parts[2].len() == 4
            || short_enough(parts[2]) && (separator == b'/' || parts[..2].iter().all(|part| short_enough(part))))
        && time.is_none_or(is_clock);
    is_date.then_some(parts[2])
}

fn value(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |value, &digit| value * 10 + u32::from(digit - b'0'))
}

pub(super) fn is_uuid(shape: &[u8]) -> bool {
    shape.len() == 36
        && shape.iter().enumerate().all(|(index, byte)| {
            if matches!(index, 8 | 13 | 18 | 23) { *byte == b'-' } else { byte.is_ascii_hexdigit() }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_texts() {
        for (kind, texts) in [
            (Kind::Boolean, &["true", "FALSE", " True "][..]),
            (Kind::BooleanLetter, &["t", "f"]),
            (Kind::Integer, &["0", "-1", " 12 ", "9223372036854775807", "-9223372036854775808"]),
            (Kind::LongInteger, &["9223372036854775808", "99999999999999999999999999999999999999"]),
            (Kind::Decimal, &["0.1", "-1.50", ".5", "-.5", "123456789012345678901234567890.5"]),
            (Kind::Float, &["1e5", "-1.5E-10", "6.02e+23"]),
            (Kind::NotFinite, &["NaN", "inf", "-Infinity"]),
            (Kind::Date, &["2024-02-29", "0001-01-01", "2024/2/29", "2024/02/03"]),
            (
                Kind::Timestamp,
                &[
                    "2024-02-29 12:00",
                    "2024-02-29T12:00:01",
                    "2024-02-29 23:59:59.123456",
                    "2024-02-29 9:05",
                    "2024-02-29 9:05 pm",
                ],
            ),
            (
                Kind::Timestamptz,
                &[
                    "2024-02-29 12:00:00+02",
                    "2024-02-29T12:00:00Z",
                    "2024-02-29 12:00:00.5-05:30",
                    "2024-02-29T12:00:00+0200",
                ],
            ),
            (Kind::Time, &["12:00", "23:59:59", "00:00:00.000001"]),
            (Kind::Uuid, &["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "ABA7B810-9DAD-11D1-80B4-00C04FD430C8"]),
            (
                Kind::LocalDate,
                &["13/12/2024", "12-31-1999", "31.12.2024 13:30", "1/2/2024 9:05 PM", "1/2/2024 12:05:01AM"],
            ),
            (Kind::DoubtfulDate, &["1/2/24", "01.02.24", "24/12/31"]),
            (Kind::DecimalComma, &["1,5", "-0,25", "1.234,50", "-12.345.678,5", "1234,5"]),
            (Kind::Thousands, &["1,234", "12,345,678.90"]),
            (Kind::LeadingZero, &["00123", "-01", "+49", "01.50", "-0", "00"]),
            (
                Kind::Text,
                &[
                    "",
                    " ",
                    "x",
                    "1x",
                    "1.2.3",
                    "1.2.24",
                    "24-01-0001",
                    "14-07-6619",
                    "1.23.456,7",
                    "1.234.567",
                    "1/2/2024 13:05 PM",
                    "-",
                    "+",
                    ".",
                    "2024-02-30",
                    "2024/02/30",
                    "2024/2/3/4",
                    "2024/2",
                    "2024-02-29 25:00",
                    "24:00",
                    "T",
                    "F",
                    "yes",
                    "0x1f",
                    "1_000",
                    "1e",
                    "1e999",
                    "32.1.2024",
                    "13/13/2024",
                    "2024-02-29 12:00:00.1234567",
                    "1-2-24",
                    "2024-02-29 12:00+16",
                    "6ba7b810-9dad-11d1-80b4-00c04fd430cg",
                    "1,2,3",
                    "12:00:00.",
                    "5.",
                    "2024-02-29 12:00:00+2",
                    "2024-02-29 12:00 CET",
                ],
            ),
        ] {
            for text in texts {
                assert_eq!(classify(text.as_bytes()), kind, "{text:?}");
            }
        }
    }

    #[test]
    fn kinds_stand_in_their_order() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "{kind:?}");
        }
        assert!(Kind::ALL.is_sorted());
    }

    #[test]
    fn words_for_null() {
        for word in NULL_WORDS {
            assert_eq!(null_word(word.as_bytes()), Some(word));
        }
        for text in ["", "N", "--", "NULL ", "-1", "nan", "x"] {
            assert_eq!(null_word(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn digits_of_decimals() {
        assert_eq!(decimal_digits(b"-12.345 "), (3, 2));
        assert_eq!(decimal_digits(b".5"), (1, 0));
        assert_eq!(decimal_digits(b"7"), (0, 1));
    }

    #[test]
    fn parts_of_local_dates() {
        assert_eq!(local_date_parts(b" 13/12/2024"), Some((13, 12)));
        assert_eq!(local_date_parts(b"1/2/24"), Some((1, 2)));
    }
}
