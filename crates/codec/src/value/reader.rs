//! Who reads the common spellings of the common types: the loops of a column are compiled for each reader.
//!
//! A reader knows nothing of errors. What it does not recognise, right or wrong, goes to the parser of the whole grammar,
//! which is the same for all readers: so they may know more or fewer spellings, but never mean another value by one.

use super::four::{FourStored, FourTexts};
use super::groups::Groups;
use super::numeric::NumericSize;
use super::{Span, date, float, integer, numeric, timestamp};

/// A loop over many fields.
pub(crate) trait Loop {
    /// Runs it. To be marked `#[inline(always)]`, and so is whatever in it needs the reader's target features.
    fn run(self);
}

/// Reads regular texts.
pub(crate) trait Reader: Copy {
    /// Runs a loop in a function of its own, which has the reader's target features, and all registers for itself.
    fn run(self, body: impl Loop);

    /// A minus sign or none, and digits.
    fn integer(self, span: Span<'_>) -> Option<i64>;

    /// The same, and as many digits as a `bigint` has.
    fn long_integer(self, span: Span<'_>) -> Option<i64>;

    /// A number that a column of this size need not round, in base-10,000 digits.
    fn groups(self, span: Span<'_>, size: NumericSize) -> Option<Groups>;

    /// The same, as an integer that counts the last of `scale` decimal places; `precision` is at most 18.
    fn scaled(self, span: Span<'_>, precision: u8, scale: u8) -> Option<i64>;

    /// A minus sign or none, and digits with a point among them or none: the double that is nearest.
    fn double(self, span: Span<'_>) -> Option<f64>;

    /// A day as ISO 8601 has it, in days since 2000-01-01.
    fn date(self, span: Span<'_>) -> Option<i32>;

    /// Such a day and a time of that day, in microseconds since 2000-01-01; the year has four digits.
    fn timestamp(self, span: Span<'_>) -> Option<i64>;

    /// Whether it reads four texts at once, by the methods below. They say nothing where one of the four is not regular, or
    /// is near the window's end, or begins with anything but a digit or a minus sign: what means NULL is not asked before.
    const READS_FOUR: bool = false;

    /// [`Reader::integer`] of four texts.
    #[inline(always)]
    fn four_integers(self, _texts: FourTexts<'_>) -> Option<[i64; 4]> {
        None
    }

    /// [`Reader::groups`] of four texts, as they are stored.
    #[inline(always)]
    fn four_groups(self, _texts: FourTexts<'_>, _size: NumericSize) -> Option<FourStored> {
        None
    }
}

/// By words of eight bytes, on any processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words;

impl Reader for Words {
    #[inline(never)]
    fn run(self, body: impl Loop) {
        body.run();
    }

    #[inline(always)]
    fn integer(self, span: Span<'_>) -> Option<i64> {
        integer::parse_plain(span)
    }

    #[inline(always)]
    fn long_integer(self, span: Span<'_>) -> Option<i64> {
        integer::parse_plain(span).or_else(|| integer::parse_long(span))
    }

    #[inline(always)]
    fn groups(self, span: Span<'_>, size: NumericSize) -> Option<Groups> {
        numeric::read_price(span, size.typmod)
    }

    #[inline(always)]
    fn scaled(self, span: Span<'_>, precision: u8, scale: u8) -> Option<i64> {
        numeric::read_scaled_price(span, precision, scale)
    }

    #[inline(always)]
    fn date(self, span: Span<'_>) -> Option<i32> {
        date::parse_regular(span.text())
    }

    #[inline(always)]
    fn double(self, span: Span<'_>) -> Option<f64> {
        float::parse_plain(span)
    }

    #[inline(always)]
    fn timestamp(self, span: Span<'_>) -> Option<i64> {
        timestamp::parse_plain(span.text())
    }
}
