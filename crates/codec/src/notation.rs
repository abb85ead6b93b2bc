//! Dates and numbers as people write them, in the words that the types' own grammar has.
//!
//! `31.12.2024` and `1.234,50` mean nothing certain: PostgreSQL reads the one by a session's `DateStyle`, and the other
//! never. Where the user says how a source writes them, the decoder hands every reader `2024-12-31` and `1234.50` instead,
//! so that no reader has to know of it. The order of day and month is that of PostgreSQL's `DateStyle`
//! (`datetime.c`, `DecodeDate`); separators are those of DuckDB's `read_csv` (`decimal_separator`, `thousands`).

use crate::value::days_from_civil;
use serde::{Deserialize, Serialize};

/// The order of a date's numbers, in the words of PostgreSQL's `DateStyle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DateOrder {
    /// `31/12/2024`
    Dmy,
    /// `12/31/2024`
    Mdy,
    /// `24/12/31`; with all digits of the year no order is in doubt.
    Ymd,
}

/// How the values of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notation {
    /// As the type's grammar has it.
    #[default]
    Plain,
    /// Dates, with or without a time of day, whose numbers stand in this order.
    Date(DateOrder),
    /// Numbers.
    Number {
        /// What stands before the fraction.
        decimal: u8,
        /// What stands between groups of three digits.
        thousands: Option<u8>,
    },
}

impl Notation {
    /// Appends what `text` is in the type's own grammar to `out`, unless it is that already.
    ///
    /// A number that is not written this way becomes a text that is none, and no other number. A date that is not, or
    /// that no calendar has, stays as it is: the target reads it, or refuses it.
    pub(crate) fn rewrite(self, text: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::Plain => false,
            Self::Date(order) => put_iso_date(order, text.trim_ascii(), out).is_some(),
            Self::Number { decimal, thousands } => {
                put_number(decimal, thousands, text, out);
                true
            }
        }
    }
}

/// Two numbers of one or two digits and a year of two or four, with one separator between them, and then perhaps a time.
fn put_iso_date(order: DateOrder, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (first, rest) = take_digits(text)?;
    let (&separator, rest) = rest.split_first().filter(|(byte, _)| matches!(byte, b'.' | b'/' | b'-'))?;
    let (second, rest) = take_digits(rest)?;
    let (third, rest) = take_digits(rest.strip_prefix(&[separator])?)?;
    let (year, month, day) = match order {
        DateOrder::Dmy => (third, second, first),
        DateOrder::Mdy => (third, first, second),
        DateOrder::Ymd => (first, second, third),
    };
    if month.len() > 2 || day.len() > 2 || !is_time(rest) {
        return None;
    }
    let (month, day) = (number(month), number(day));
    let year = match (year.len(), number(year)) {
        // `ValidateDate`: 1970 to 2069.
        (2, year @ 0..70) => 2000 + year,
        (2, year) => 1900 + year,
        (4, year @ 1..) => year,
        _ => return None,
    };
    days_from_civil(i64::from(year), month, day)?;
    let pairs = [year / 100, year % 100, month, day];
    for (place, pair) in pairs.into_iter().enumerate() {
        if place > 1 {
            out.push(b'-');
        }
        out.extend_from_slice(&[b'0' + (pair / 10) as u8, b'0' + (pair % 10) as u8]);
    }
    out.extend_from_slice(rest);
    Some(())
}

/// Whether a text is a date, in whatever order, that ends in a year of two digits: its century is a guess.
#[must_use]
pub fn has_short_year(text: &[u8]) -> bool {
    let year = || {
        let (first, rest) = take_digits(text.trim_ascii())?;
        let (&separator, rest) = rest.split_first().filter(|(byte, _)| matches!(byte, b'.' | b'/' | b'-'))?;
        let (_, rest) = take_digits(rest)?;
        let (third, _) = take_digits(rest.strip_prefix(&[separator])?)?;
        Some(if first.len() > 2 { first } else { third })
    };
    year().is_some_and(|year| year.len() <= 2)
}

/// Whether nothing stands behind a date, or what may be a time of day: no word that would change the date's meaning.
fn is_time(rest: &[u8]) -> bool {
    let Some(time) = rest.strip_prefix(b" ") else { return rest.is_empty() };
    time.trim_ascii_start().first().is_some_and(u8::is_ascii_digit)
        && time.iter().all(|byte| byte.is_ascii_digit() || b" :.+-AaMmPpZzUuTtCc".contains(byte))
}

/// One to four digits.
fn take_digits(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (1..=4).contains(&length).then(|| text.split_at(length))
}

fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'))
}

/// The number without what separates its thousands, and with a point before its fraction. Of what is not written so, a
/// text that is no number.
fn put_number(decimal: u8, thousands: Option<u8>, text: &[u8], out: &mut Vec<u8>) {
    /// What no number has.
    const NONE: u8 = b',';
    let text = text.trim_ascii();
    let grouped = thousands.is_some_and(|separator| text.contains(&separator));
    let groups = grouped && has_groups(decimal, thousands, text);
    for &byte in text {
        match byte {
            _ if byte == decimal => out.push(b'.'),
            _ if Some(byte) == thousands && groups => {}
            _ if byte == b'.' || Some(byte) == thousands => out.push(NONE),
            _ => out.push(byte),
        }
    }
}

/// Whether a number is a sign, whole groups of three digits but for the first, which begins with no zero, and perhaps a
/// fraction: nothing that could be anything else.
fn has_groups(decimal: u8, thousands: Option<u8>, text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let (whole, fraction) = match unsigned.iter().position(|&byte| byte == decimal) {
        Some(place) => (&unsigned[..place], &unsigned[place + 1..]),
        None => (unsigned, &[][..]),
    };
    let all_digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let mut groups = whole.split(|&byte| Some(byte) == thousands);
    let first = groups.next().unwrap_or_default();
    let begins = (1..=3).contains(&first.len()) && all_digits(first) && first[0] != b'0';
    begins && groups.all(|group| group.len() == 3 && all_digits(group)) && all_digits(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewritten(notation: Notation, text: &str) -> Option<String> {
        let mut out = Vec::new();
        notation.rewrite(text.as_bytes(), &mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn dates() {
        use DateOrder::{Dmy, Mdy, Ymd};
        for (order, text, expected) in [
            (Dmy, "31.12.2024", Some("2024-12-31")),
            (Dmy, " 1/2/2024 ", Some("2024-02-01")),
            (Dmy, "01-02-69", Some("2069-02-01")),
            (Dmy, "01-02-70", Some("1970-02-01")),
            (Dmy, "29.02.2023", None),
            (Dmy, "29.02.2024", Some("2024-02-29")),
            (Dmy, "12/31/2024", None),
            (Dmy, "2024-12-31", None),
            (Dmy, "31.12/2024", None),
            (Dmy, "31.12.2024 1:30 PM", Some("2024-12-31 1:30 PM")),
            (Dmy, "31.12.2024 13:30:00.5+02", Some("2024-12-31 13:30:00.5+02")),
            (Dmy, "31.12.2024 BC", None),
            (Dmy, "31.12.2024T13:30", None),
            (Dmy, "31.12.024", None),
            (Dmy, "31.12.0000", None),
            (Dmy, "31.12.0001", Some("0001-12-31")),
            (Dmy, "0.1.2024", None),
            (Dmy, "1.0.2024", None),
            (Dmy, "1.2", None),
            (Dmy, "", None),
            (Mdy, "12/31/2024", Some("2024-12-31")),
            (Mdy, "31/12/2024", None),
            (Ymd, "24/12/31", Some("2024-12-31")),
            (Ymd, "2024/12/31", Some("2024-12-31")),
            (Ymd, "31/12/2024", None),
        ] {
            assert_eq!(rewritten(Notation::Date(order), text).as_deref(), expected, "{order:?} {text:?}");
        }
    }

    #[test]
    fn years_of_two_digits() {
        for short in ["05/06/45", " 5.6.45 ", "05-06-45 12:00", "24/12/31", "1/2/3"] {
            assert!(has_short_year(short.as_bytes()), "{short}");
        }
        for other in ["05/06/1945", "2045-06-05", "2045-06-05 12:00", "", "05/06", "05/06-45", "x", "12"] {
            assert!(!has_short_year(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn numbers() {
        for (decimal, thousands, text, expected) in [
            (b',', None, "1,5", "1.5"),
            (b',', None, "-0,25", "-0.25"),
            (b',', None, "7", "7"),
            (b',', None, " 1,5e-3 ", "1.5e-3"),
            (b',', None, "NaN", "NaN"),
            (b',', None, "1.5", "1,5"),
            (b',', None, "1.234,5", "1,234.5"),
            (b',', None, "1,2,3", "1.2.3"),
            (b',', Some(b'.'), "1.234.567,89", "1234567.89"),
            (b',', Some(b'.'), "-1.234", "-1234"),
            (b',', Some(b'.'), "123.456", "123456"),
            (b',', Some(b'.'), "1234.567", "1234,567"),
            (b',', Some(b'.'), "1.23", "1,23"),
            (b',', Some(b'.'), "1.2345", "1,2345"),
            (b',', Some(b'.'), "1.23.456", "1,23,456"),
            (b',', Some(b'.'), ".234", ",234"),
            (b',', Some(b'.'), "1,234.567", "1.234,567"),
            (b',', Some(b'.'), "0.123", "0,123"),
            (b',', Some(b'.'), "-0.750", "-0,750"),
            (b',', Some(b'.'), "012.345", "012,345"),
            (b',', Some(b'.'), "0x1.234", "0x1,234"),
            (b',', Some(b'.'), "1_0.000", "1_0,000"),
            (b',', Some(b'.'), "1.234e5", "1,234e5"),
            (b',', Some(b'.'), "1.234,5e5", "1,234.5e5"),
            (b',', Some(b'.'), " +1.234,5 ", "+1234.5"),
            (b'.', Some(b' '), "  1 234.5", "1234.5"),
            (b'.', Some(b','), "0,123", "0,123"),
            (b'.', Some(b'_'), "2_4.8", "2,4.8"),
            (b'.', Some(b','), "1,234,567.89", "1234567.89"),
            (b'.', Some(b','), "1,5", "1,5"),
            (b'.', Some(b','), "1.5", "1.5"),
            (b'.', Some(b','), "1.234.567", "1.234.567"),
            (b'.', Some(b' '), "1 234.5", "1234.5"),
            (b'.', Some(b'\''), "1'234'567.05", "1234567.05"),
        ] {
            let notation = Notation::Number { decimal, thousands };
            assert_eq!(rewritten(notation, text).as_deref(), Some(expected), "{text:?}");
        }
    }

    proptest! {
        /// Whatever is a number in this notation is that number, and what has a point elsewhere is none.
        #[test]
        fn numbers_come_back(value in -10_i64.pow(15)..10_i64.pow(15), scale in 0_usize..5) {
            let digits = format!("{:0>1$}", value.unsigned_abs(), scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            let sign = if value < 0 { "-" } else { "" };
            let mut grouped = String::new();
            for (place, digit) in whole.chars().enumerate() {
                if place > 0 && (whole.len() - place) % 3 == 0 {
                    grouped.push('.');
                }
                grouped.push(digit);
            }
            let tail = |point: &str| if scale > 0 { format!("{point}{fraction}") } else { String::new() };
            let notation = Notation::Number { decimal: b',', thousands: Some(b'.') };
            let expected = format!("{sign}{whole}{}", tail("."));
            prop_assert_eq!(rewritten(notation, &format!("{sign}{grouped}{}", tail(","))), Some(expected.clone()));
            prop_assert_eq!(rewritten(notation, &format!("{sign}{whole}{}", tail(","))), Some(expected));
        }

        #[test]
        fn no_text_is_a_panic_and_dates_are_dates(text in "[0-9]{0,5}[./-][0-9]{0,5}[./-][0-9]{0,5}[ :0-9A-Z]{0,8}|.{0,12}") {
            for order in [DateOrder::Dmy, DateOrder::Mdy, DateOrder::Ymd] {
                if let Some(iso) = rewritten(Notation::Date(order), &text) {
                    prop_assert!(crate::value::date::parse(&iso.as_bytes()[..10]).is_ok(), "{text:?} became {iso:?}");
                }
            }
            let _ = rewritten(Notation::Number { decimal: b',', thousands: Some(b'.') }, &text);
        }
    }
}
