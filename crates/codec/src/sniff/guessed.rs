//! Whether a value is kept by a type that was guessed from a sample without it.
//!
//! A type's input function takes more than the kinds of values that the type is guessed from, and changes some of it: a
//! `date` drops a time of day, a `bigint` leading zeros. Had the sample shown such a value, the column would have become
//! one of texts. So a value behind the sample must be of those kinds too.

use super::kind::{Kind, classify, clock_length, decimal_digits, is_iso_date, is_offset, is_uuid};
use crate::decode::Decoder;
use crate::dialect::Dialect;
use crate::notation::{Notation, has_short_year};
use crate::scan::{RawField, Records};
use crate::value::{Refusal, ServerVersion, boolean, date, float, integer, numeric, time, timestamp, uuid};
use serde::Deserialize;

/// Digits that every double keeps.
const DOUBLE_DIGITS: usize = 15;
/// Digits of the longest integer that is surely one of 64 bits.
const INTEGER_DIGITS: usize = 18;

/// What a column was guessed to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guessed {
    /// `boolean`
    Boolean,
    /// `bigint`
    Integer,
    /// Numbers with every digit, or with so many after the point.
    Decimal {
        /// `None`: with all of them.
        scale: Option<usize>,
    },
    /// `double precision`
    Double,
    /// `date`
    Date,
    /// `timestamp`
    Timestamp,
    /// `timestamp with time zone`
    Timestamptz,
    /// `time`
    Time,
    /// `uuid`
    Uuid,
    /// Dates whose order of day and month was guessed too: a year of two digits was not among them.
    InOrder(Moment),
}

/// The type of a column of dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// `date`
    Date,
    /// `timestamp`
    Timestamp,
    /// `timestamp with time zone`
    Timestamptz,
    /// The target's own, which is no guess.
    Given,
}

impl Moment {
    fn guessed(self) -> Option<Guessed> {
        match self {
            Self::Date => Some(Guessed::Date),
            Self::Timestamp => Some(Guessed::Timestamp),
            Self::Timestamptz => Some(Guessed::Timestamptz),
            Self::Given => None,
        }
    }
}

impl Guessed {
    /// Whether a value is kept as it is. One that the type does not take at all counts as kept: whoever stores it says
    /// what is wrong.
    #[inline]
    #[must_use]
    pub fn keeps(self, text: &[u8]) -> bool {
        if let Self::InOrder(moment) = self {
            return moment.guessed().is_none_or(|guessed| guessed.keeps(text));
        }
        self.plainly_keeps(text) || self.carefully_keeps(text) || self.is_refused(text)
    }

    /// The shapes that nearly all values have.
    #[inline]
    fn plainly_keeps(self, text: &[u8]) -> bool {
        match self {
            Self::Boolean => matches!(text, b"t" | b"f" | b"true" | b"false"),
            Self::Integer => plain_number(text, INTEGER_DIGITS, 0),
            Self::Decimal { scale } => plain_number(text, DOUBLE_DIGITS, scale.unwrap_or(DOUBLE_DIGITS)),
            Self::Double => plain_number(text, DOUBLE_DIGITS, DOUBLE_DIGITS),
            Self::Date => is_iso_date(text),
            Self::Timestamp => date_and_clock(text).is_some_and(<[u8]>::is_empty),
            Self::Timestamptz => match date_and_clock(text) {
                Some(b"Z") => true,
                Some([b'+' | b'-', offset @ ..]) => is_offset(offset),
                _ => false,
            },
            Self::Time => clock_length(text) == Some(text.len()),
            Self::Uuid => is_uuid(text),
            Self::InOrder(_) => false,
        }
    }

    #[inline(never)]
    fn carefully_keeps(self, text: &[u8]) -> bool {
        let kind = classify(text);
        match self {
            Self::Boolean => matches!(kind, Kind::Boolean | Kind::BooleanLetter),
            Self::Integer => kind == Kind::Integer,
            Self::Decimal { scale: None } => is_number(kind),
            Self::Decimal { scale: Some(scale) } => match kind {
                Kind::Decimal => {
                    let surplus = decimal_digits(text).0.saturating_sub(scale);
                    text.trim_ascii().iter().rev().take(surplus).all(|&digit| digit == b'0')
                }
                Kind::Float => false,
                _ => is_number(kind),
            },
            Self::Double => is_number(kind) && double_keeps(text),
            // The words for infinity are no numbers here.
            Self::Date => matches!(kind, Kind::Date | Kind::NotFinite),
            Self::Timestamp => matches!(kind, Kind::Date | Kind::Timestamp | Kind::NotFinite),
            Self::Timestamptz => matches!(kind, Kind::Timestamptz | Kind::NotFinite),
            Self::Time => kind == Kind::Time,
            Self::Uuid => kind == Kind::Uuid,
            Self::InOrder(_) => false,
        }
    }

    /// Whether the type's input function takes no such text.
    #[inline(never)]
    fn is_refused(self, text: &[u8]) -> bool {
        let server = ServerVersion::NEWEST;
        let refusal = match self {
            Self::Boolean => boolean::parse(text).err(),
            Self::Integer => integer::parse_int8(text, server).err(),
            Self::Decimal { .. } => numeric::encode_binary(text, None, server, &mut Vec::new()).err(),
            Self::Double => float::parse_float8(text).err(),
            Self::Date => date::parse(text).err(),
            Self::Timestamp => timestamp::parse(text).err(),
            Self::Timestamptz => timestamp::parse_tz(text, 6, true).err(),
            Self::Time => time::parse(text, 6).err(),
            Self::Uuid => uuid::parse(text).err(),
            Self::InOrder(_) => None,
        };
        refusal.is_some_and(|refusal| refusal != Refusal::Unsure)
    }
}

fn is_number(kind: Kind) -> bool {
    matches!(kind, Kind::Integer | Kind::LongInteger | Kind::Decimal | Kind::Float | Kind::NotFinite)
}

/// Whether a text is a number as programs write it, with up to `digits` digits, and up to `scale` of them behind a point.
#[inline]
fn plain_number(text: &[u8], digits: usize, scale: usize) -> bool {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let whole = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if whole == 0 || (unsigned[0] == b'0' && (whole > 1 || unsigned.len() != text.len())) {
        // A negative number below one is rare enough.
        return false;
    }
    match &unsigned[whole..] {
        [] => whole <= digits,
        [b'.', fraction @ ..] => {
            (1..=scale).contains(&fraction.len())
                && whole + fraction.len() <= digits
                && fraction.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// What stands behind an ISO date and a time of day.
#[inline]
fn date_and_clock(text: &[u8]) -> Option<&[u8]> {
    if !is_iso_date(text.get(..10)?) || !matches!(text.get(10), Some(b' ' | b'T')) {
        return None;
    }
    Some(&text[11 + clock_length(&text[11..])?..])
}

/// Whether a double that is read from a number, and written with as many digits, has the same digits. Up to 15 are always
/// kept. More of them are where a program wrote a double: the 16 or 17 that tell it from all others, or all of it, as
/// `%.18e` does.
#[must_use]
pub fn double_keeps(number: &[u8]) -> bool {
    if number.len() <= DOUBLE_DIGITS {
        return true;
    }
    let text = number.trim_ascii();
    let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let digits = || significant(mantissa);
    let count = digits().count();
    if count <= DOUBLE_DIGITS {
        return true;
    }
    // What is no double is for others to refuse.
    let Ok(value) = float::parse_float8(text) else { return true };
    let is_written = |number: &str| digits().eq(significant(number.split('e').next().unwrap_or_default().as_bytes()));
    // The shortest digits of a power of two need not be the nearest ones of that number; and halfway between two, one
    // program takes the even digit and another one the larger.
    is_written(ryu::Buffer::new().format(value))
        || is_written(&format!("{:.*e}", count - 1, value))
        || is_written(&format!("{value:e}"))
}

/// The digits of a number without the zeros before and behind them.
fn significant(number: &[u8]) -> impl Iterator<Item = u8> {
    let counts = |byte: &u8| matches!(byte, b'1'..=b'9');
    let first = number.iter().position(counts).unwrap_or(number.len());
    let end = number.iter().rposition(counts).map_or(first, |last| last + 1);
    number[first..end].iter().copied().filter(u8::is_ascii_digit)
}

/// A value that a guessed type would change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed {
    /// The index of its record.
    pub row: usize,
    /// The index of its column.
    pub column: usize,
}

/// Looks for values that guessed types would change.
#[derive(Debug)]
pub struct Guesses {
    columns: Vec<(usize, Guessed)>,
    decoder: Decoder,
}

impl Guesses {
    /// Of records of `dialect`: the columns, by index, whose types were guessed.
    #[must_use]
    pub fn new(columns: Vec<(usize, Guessed)>, dialect: Dialect) -> Self {
        Self { columns, decoder: Decoder::new(dialect) }
    }

    /// The records that have such a value, ascending, each with the first one.
    pub fn changed(&mut self, records: &Records<'_>) -> Vec<Changed> {
        let mut changed = Vec::new();
        let Self { columns, decoder } = self;
        for &(column, guessed) in columns.iter() {
            // What is to be rewritten first says nothing as it stands.
            let is_plain = decoder.notation(column) == Notation::Plain;
            let mut look = |row: usize, field: RawField<'_>| {
                if is_plain && !field.marked && guessed.plainly_keeps(field.bytes) {
                    return;
                }
                let in_order = matches!(guessed, Guessed::InOrder(_));
                let is_short = in_order && decoder.decode_plain(field, column).is_some_and(has_short_year);
                if is_short || decoder.decode(field, column).is_some_and(|text| !guessed.keeps(text)) {
                    changed.push(Changed { row, column });
                }
            };
            if records.is_plain() {
                let fields = records.column::<true>(column);
                (0..records.rows()).for_each(|row| look(row, fields.field(row)));
            } else {
                let fields = records.column::<false>(column);
                (0..records.rows()).for_each(|row| look(row, fields.field(row)));
            }
        }
        changed.sort_unstable();
        changed.dedup_by_key(|changed| changed.row);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::DateOrder;
    use crate::scan::Scanner;
    use proptest::prelude::*;

    const DECIMAL: Guessed = Guessed::Decimal { scale: Some(2) };
    const NUMERIC: Guessed = Guessed::Decimal { scale: None };

    #[test]
    fn kept_and_changed() {
        for (guessed, kept, changed) in [
            (Guessed::Boolean, &["t", "f", "TRUE", "False"][..], &["y", "1", "off", "T", "yes", "0"][..]),
            (
                Guessed::Integer,
                &["0", "-1", " 12", "9223372036854775807", "99999999999999999"],
                &["00123", "+5", "-0", "0x10", "1_0"],
            ),
            (
                NUMERIC,
                &["1.239", "-0.5", ".5", "1e5", "NaN", "123456789012345678901234567890.5"],
                &["00.5", "+1", "0x10", "1_000.5", "01"],
            ),
            (DECIMAL, &["1.23", "-1", "1.230", "1.2", "0", "-0.50"], &["1.239", "1.2301", "1e-3", "01.20", "+1.2"]),
            (
                Guessed::Double,
                &[
                    "0.30000000000000004",
                    "1e5",
                    "NaN",
                    "12345678901234567000",
                    "1.000000000000000056e-01",
                    "-0.1",
                    "1000000000000000000000",
                    "0.1000000000000000055511151231257827",
                    "5.684341886080802E-14",
                ],
                &[
                    "12345678901234567.25",
                    "12345678901234567",
                    "0.1000000000000000000001",
                    "9.9999999999999999",
                    "0.12345678901234567",
                    "007.5",
                    "0x1p3",
                ],
            ),
            (Guessed::Date, &["2024-02-29", " 2024-02-29 ", "infinity"], &["2024-01-01 23:59:59", "20240101", "today"]),
            (
                Guessed::Timestamp,
                &["2024-02-29", "2024-02-29 12:00", "2024-02-29T23:59:59.123456", "-infinity"],
                &["2024-02-29 12:00:00+02", "2024-02-29 12:00:00Z", "2024-02-29 12:00:00.1234567", "now"],
            ),
            (
                Guessed::Timestamptz,
                &["2024-02-29 12:00:00+02", "2024-02-29T12:00:00.5Z", "2024-02-29 12:00-0530"],
                &["2024-02-29 12:00:00", "2024-02-29", "2024-02-29 12:00:00.1234567Z", "2024-02-29 12:00 CET"],
            ),
            (Guessed::Time, &["12:00", "23:59:59.5"], &["12:00:00.1234567", "12:00+02", "12:00 PM"]),
            (
                Guessed::Uuid,
                &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"],
                &[
                    "a0eebc999c0b4ef8bb6d6bb9bd380a11",
                    "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
                    "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
                ],
            ),
        ] {
            for text in kept {
                assert!(guessed.keeps(text.as_bytes()), "{guessed:?} keeps {text:?}");
            }
            for text in changed {
                assert!(!guessed.keeps(text.as_bytes()), "{guessed:?} changes {text:?}");
            }
        }
    }

    /// What the sniffer guesses a type from. A few doubles are left: those that it makes texts of.
    fn kinds(guessed: Guessed) -> &'static [Kind] {
        match guessed {
            Guessed::Boolean => &[Kind::Boolean, Kind::BooleanLetter],
            Guessed::Integer => &[Kind::Integer],
            Guessed::Decimal { .. } => &[Kind::Integer, Kind::LongInteger, Kind::Decimal],
            Guessed::Double => &[Kind::Integer, Kind::Decimal, Kind::Float, Kind::NotFinite],
            Guessed::Date => &[Kind::Date],
            Guessed::Timestamp => &[Kind::Date, Kind::Timestamp],
            Guessed::Timestamptz => &[Kind::Timestamptz],
            Guessed::Time => &[Kind::Time],
            Guessed::Uuid => &[Kind::Uuid],
            Guessed::InOrder(_) => &[],
        }
    }

    const ALL: [Guessed; 10] = [
        Guessed::Boolean,
        Guessed::Integer,
        NUMERIC,
        Guessed::Decimal { scale: Some(6) },
        Guessed::Double,
        Guessed::Date,
        Guessed::Timestamp,
        Guessed::Timestamptz,
        Guessed::Time,
        Guessed::Uuid,
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// Whatever the sniffer takes for a value of a type is kept, and what is plainly kept is one, if it is a value.
        #[test]
        fn the_sniffer_and_the_load_agree(
            text in "[-+ ]?([0-9]{1,20}(\\.[0-9]{1,8})?([eE]-?[0-9]{1,2})?|[tf]|true|[0-9]{4}-[01][0-9]-[0-3][0-9]([ T][0-2][0-9]:[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,7})?)?(Z|[+-][01][0-9](:?[03]0)?)?)?|[0-2][0-9]:[0-5][0-9](:[0-5][0-9])?|NaN|0x1|1_0)[ ]?"
        ) {
            let text = text.as_bytes();
            let kind = classify(text);
            for guessed in ALL {
                let is_sniffed = kinds(guessed).contains(&kind) && match guessed {
                    Guessed::Double => double_keeps(text),
                    Guessed::Decimal { scale: Some(scale) } => kind != Kind::Decimal || decimal_digits(text).0 <= scale,
                    _ => true,
                };
                if is_sniffed {
                    prop_assert!(guessed.keeps(text), "{:?} {:?}", guessed, kind);
                }
                // A date that is none has the shape of one, and is refused by whoever reads it.
                if guessed.plainly_keeps(text) && kind != Kind::Text {
                    prop_assert!(kinds(guessed).contains(&kind), "{:?} {:?}", guessed, kind);
                }
            }
        }

        /// However doubles are written, they are kept.
        #[test]
        fn doubles_are_kept(value in any::<f64>().prop_filter("a number", |value| value.is_finite()), digits in 16usize..40) {
            for text in [format!("{value}"), format!("{value:e}"), format!("{value:.digits$e}"), format!("{value:.16e}")] {
                prop_assert!(double_keeps(text.as_bytes()), "{text}");
            }
        }
    }

    #[test]
    fn records_with_changed_values() {
        let text = b"1,2024-01-01,x\n02,2024-01-01 10:00:00,x\n\"3\",\"2024-01-01\",x\n,,\n4,2024-01-01T10:00:00,x\n";
        let mut scanner = Scanner::new(Dialect::csv(), 3);
        let mut guesses = Guesses::new(vec![(1, Guessed::Date), (0, Guessed::Integer)], Dialect::csv());
        let changed = guesses.changed(&scanner.scan(text));
        assert_eq!(changed, [Changed { row: 1, column: 0 }, Changed { row: 4, column: 1 }]);
        assert_eq!(guesses.changed(&scanner.scan(b"1,2024-01-01,02\n")), []);
    }

    #[test]
    fn centuries_are_not_guessed() {
        let dialect = Dialect { notations: vec![Notation::Date(DateOrder::Dmy)], ..Dialect::csv() };
        let text = b"31.12.2024\n31.12.24\n\"1/2/24\"\n2024-12-31\n31.12.2024 10:00\n\n";
        for (moment, rows) in [(Moment::Given, &[1, 2][..]), (Moment::Date, &[1, 2, 4]), (Moment::Timestamp, &[1, 2])] {
            let mut scanner = Scanner::new(dialect.clone(), 1);
            let changed =
                Guesses::new(vec![(0, Guessed::InOrder(moment))], dialect.clone()).changed(&scanner.scan(text));
            assert_eq!(changed.iter().map(|changed| changed.row).collect::<Vec<_>>(), rows, "{moment:?}");
        }
        let moments: Vec<Guessed> =
            serde_json::from_str(r#"[{"in_order":"given"},{"in_order":"timestamptz"}]"#).unwrap();
        assert_eq!(moments, [Guessed::InOrder(Moment::Given), Guessed::InOrder(Moment::Timestamptz)]);
    }
}
