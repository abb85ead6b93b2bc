//! Whether the text of a window may be stored: valid UTF-8 without NUL bytes.
//!
//! The whole window is checked at memory speed; only where that finds something are the fields looked at one by
//! one, to name the right one.

use crate::dialect::Family;
use crate::scan::{RawField, Records};
use crate::value::Refusal;

/// The verdict on one window.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextCheck {
    /// Every field has to be checked.
    all: bool,
    /// Fields with escapes have to be checked: an escape can spell any byte.
    marked: bool,
}

impl TextCheck {
    /// Checks the whole window.
    pub(super) fn of(records: &Records<'_>, family: Family) -> Self {
        let bytes = records.bytes();
        let all = simdutf8::basic::from_utf8(bytes).is_err() || memchr::memchr(0, bytes).is_some();
        Self { all, marked: family == Family::Text && records.any_marked }
    }

    /// Checks one decoded text where the window's verdict does not cover it.
    #[inline(always)]
    pub(super) fn check(self, field: RawField<'_>, text: &[u8]) -> Result<(), Refusal> {
        if self.all || (self.marked && field.marked) { check_text(text) } else { Ok(()) }
    }
}

#[inline(never)]
fn check_text(text: &[u8]) -> Result<(), Refusal> {
    if simdutf8::basic::from_utf8(text).is_err() || memchr::memchr(0, text).is_some() {
        return Err(Refusal::InvalidEncoding);
    }
    Ok(())
}
