//! Whether the text of a window may be stored: valid UTF-8 without NUL bytes.
//!
//! The whole window is checked at memory speed; only where that finds something are the fields looked at one by
//! one, to name the right one.

use crate::dialect::Family;
use crate::scan::{RawField, Records};
use crate::value::{self, Refusal};

/// The verdict on one window.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextCheck {
    /// Every field has to be checked.
    all: bool,
    /// Every byte is one character, so that lengths need no counting.
    ascii: bool,
    /// Fields with escapes have to be checked: an escape can spell any byte.
    marked: bool,
}

impl TextCheck {
    /// Of texts that are parts of one that was checked.
    pub(super) const PASSED: Self = Self { all: false, ascii: false, marked: false };

    /// Checks the whole window.
    pub(super) fn of(records: &Records<'_>, family: Family) -> Self {
        let marked = family == Family::Text && records.any_marked;
        let bytes = records.bytes();
        let ascii = records.is_ascii() || bytes.is_ascii();
        let valid = ascii || simdutf8::basic::from_utf8(bytes).is_ok();
        let all = !valid || (!records.is_free_of_nul() && memchr::memchr(0, bytes).is_some());
        Self { all, ascii, marked }
    }

    /// Whether texts without escapes are valid.
    #[inline(always)]
    pub(super) fn passed(self) -> bool {
        !self.all
    }

    /// Whether texts without escapes are valid, and of one byte per character.
    #[inline(always)]
    pub(super) fn is_ascii(self) -> bool {
        self.ascii && !self.all
    }

    /// Fits a text to `char(limit)`: the text and the spaces to add.
    #[inline(always)]
    pub(super) fn fit_char<'t>(
        self,
        field: RawField<'_>,
        text: &'t [u8],
        limit: u32,
    ) -> Result<(&'t [u8], usize), Refusal> {
        if self.ascii && !self.must_check(field) && text.len() <= limit as usize {
            return Ok((text, limit as usize - text.len()));
        }
        value::text::fit_char(text, limit)
    }

    /// Checks one decoded text where the window's verdict does not cover it.
    #[inline(always)]
    pub(super) fn check(self, field: RawField<'_>, text: &[u8]) -> Result<(), Refusal> {
        if self.must_check(field) { self.check_both(field, text) } else { Ok(()) }
    }

    /// Checks a text, and what it was decoded from: half of a character may stand there as it is and half as an escape, or
    /// with a quote in between, which the server refuses before it decodes anything.
    #[inline(never)]
    fn check_both(self, field: RawField<'_>, text: &[u8]) -> Result<(), Refusal> {
        check_text(text)?;
        if self.all && field.marked { check_text(field.bytes) } else { Ok(()) }
    }

    /// Whether the window's verdict does not cover a field.
    #[inline(always)]
    pub(super) fn must_check(self, field: RawField<'_>) -> bool {
        self.all || (self.marked && field.marked)
    }
}

/// Checks one text.
#[inline(never)]
pub(super) fn check_text(text: &[u8]) -> Result<(), Refusal> {
    if simdutf8::basic::from_utf8(text).is_err() || memchr::memchr(0, text).is_some() {
        return Err(Refusal::InvalidEncoding);
    }
    Ok(())
}
