//! What a field's text means: one file per type, each equal to PostgreSQL's own input function.
//!
//! Every parser takes the field's text after unquoting and has three outcomes: the value, a refusal that the
//! server would give too, or [`Refusal::Unsure`] where the text lies outside the grammar that the codec knows
//! for certain. An unsure field is never guessed at: the caller hands it to the server's own text input.
//!
//! The common spelling of a type is read eight bytes at a time (`digits.rs`), those of numbers and dates on their way
//! to pages and to Arrow sixteen where the processor can (`wide.rs`), on their way to pages four times sixteen
//! (`wider.rs`); whatever that does not recognise goes through a slower reader of the whole grammar, which also decides
//! how a text is refused.

pub mod array;
pub mod boolean;
pub mod bytea;
mod civil;
pub mod date;
mod decimal;
mod digits;
pub mod enumeration;
pub mod float;
pub(crate) mod four;
pub(crate) mod groups;
pub mod integer;
pub mod interval;
pub mod json;
pub mod network;
pub mod numeric;
pub(crate) mod reader;
mod span;
pub mod text;
pub mod time;
pub mod timestamp;
pub mod uuid;
#[cfg(target_arch = "x86_64")]
pub(crate) mod wide;
#[cfg(target_arch = "x86_64")]
pub(crate) mod wider;

pub(crate) use civil::days_from_civil;
pub use date::UNIX_EPOCH_DAYS;
pub use span::Span;
pub use timestamp::UNIX_EPOCH_MICROS;

/// Why a field's text was not turned into a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No value of the type is written like this (SQLSTATE 22P02, dates 22007).
    InvalidSyntax,
    /// Well written, but outside the type's range (SQLSTATE 22003, dates 22008).
    OutOfRange,
    /// More than the `limit` characters that `varchar(limit)` or `char(limit)` holds (SQLSTATE 22001).
    TooLong {
        /// The declared length, in characters.
        limit: u32,
    },
    /// NULL in a column declared NOT NULL (SQLSTATE 23502).
    NullNotAllowed,
    /// A map with a key twice, or with NULL for a key (SQLSTATE 22030, as for JSON objects).
    MapKeys,
    /// Bytes that are not text in the source's encoding (SQLSTATE 22021).
    InvalidEncoding,
    /// Outside the grammar that the codec knows for certain: only the server can say.
    Unsure,
}

/// Which SQLSTATE codes a type's refusals carry: the server has its own for dates and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeFamily {
    /// Every type but dates and times.
    Plain,
    /// Dates, times, timestamps and intervals.
    DateTime,
}

impl Refusal {
    /// The SQLSTATE that PostgreSQL gives for this refusal; `None` for [`Refusal::Unsure`], which is not one yet.
    pub const fn sqlstate(self, family: TypeFamily) -> Option<&'static str> {
        Some(match (self, family) {
            (Self::InvalidSyntax, TypeFamily::Plain) => "22P02",
            (Self::InvalidSyntax, TypeFamily::DateTime) => "22007",
            (Self::OutOfRange, TypeFamily::Plain) => "22003",
            (Self::OutOfRange, TypeFamily::DateTime) => "22008",
            (Self::TooLong { .. }, _) => "22001",
            (Self::NullNotAllowed, _) => "23502",
            (Self::MapKeys, _) => "22030",
            (Self::InvalidEncoding, _) => "22021",
            (Self::Unsure, _) => return None,
        })
    }

    /// What is wrong with the text, to stand after the column's name and type in a message.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::InvalidSyntax => "the text is not written as a value of this type",
            Self::OutOfRange => "the value is outside the range of this type",
            Self::TooLong { .. } => "the text has more characters than the column holds",
            Self::NullNotAllowed => "the column does not allow NULL",
            Self::MapKeys => "a map has the same key twice, or NULL for a key",
            Self::InvalidEncoding => "the bytes are not text in the source's encoding",
            Self::Unsure => "only the server can say what this text means",
        }
    }
}

/// The major version whose input grammar rules, for the few texts that PostgreSQL versions read differently
/// (16 added `0x1f`, `0o17`, `0b1` and `1_000` to integers and numerics).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion(pub u16);

impl ServerVersion {
    /// The newest grammar; what engines other than PostgreSQL follow.
    pub const NEWEST: Self = Self(18);

    /// Whether integers and numerics may be written as `0x1f`, `0o17`, `0b1` and `1_000`.
    #[inline]
    const fn reads_extended_integers(self) -> bool {
        self.0 >= 16
    }
}

/// White space as every input function sees it: `isspace` in the C locale.
#[inline]
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// `text` without white space at its start.
#[inline]
fn trim_start(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text {
        if !is_space(*first) {
            break;
        }
        text = rest;
    }
    text
}

/// `text` without white space at its start and end.
#[inline]
fn trim(text: &[u8]) -> &[u8] {
    let mut text = trim_start(text);
    while let [rest @ .., last] = text {
        if !is_space(*last) {
            break;
        }
        text = rest;
    }
    text
}

/// Whether nothing but white space follows.
#[inline]
fn only_space(text: &[u8]) -> bool {
    text.iter().all(|&byte| is_space(byte))
}

/// Whether `text` begins with `word` (in lower case) in any mixture of cases.
#[inline]
fn starts_with_word(text: &[u8], word: &[u8]) -> bool {
    text.len() >= word.len() && text[..word.len()].eq_ignore_ascii_case(word)
}

/// The refusal of a text that is not written as a value of its type.
///
/// A NUL or broken UTF-8 never reaches the server's input function: its encoding check refuses first. And the
/// bytes 0x85 and 0xA0 are white space to `isspace` on some platforms and in some encodings, so a text with one
/// of them is left to the server.
#[cold]
#[inline(never)]
fn malformed(text: &[u8]) -> Refusal {
    let refusal = misspelled(text);
    if refusal == Refusal::InvalidSyntax && text.iter().any(|byte| matches!(byte, 0x85 | 0xA0)) {
        Refusal::Unsure
    } else {
        refusal
    }
}

/// [`malformed`] for types that take no white space at all.
#[cold]
#[inline(never)]
fn misspelled(text: &[u8]) -> Refusal {
    if text.contains(&0) || std::str::from_utf8(text).is_err() {
        Refusal::InvalidEncoding
    } else {
        Refusal::InvalidSyntax
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlstates_follow_the_type_family() {
        use TypeFamily::{DateTime, Plain};
        assert_eq!(Refusal::InvalidSyntax.sqlstate(Plain), Some("22P02"));
        assert_eq!(Refusal::InvalidSyntax.sqlstate(DateTime), Some("22007"));
        assert_eq!(Refusal::OutOfRange.sqlstate(Plain), Some("22003"));
        assert_eq!(Refusal::OutOfRange.sqlstate(DateTime), Some("22008"));
        assert_eq!(Refusal::TooLong { limit: 3 }.sqlstate(Plain), Some("22001"));
        assert_eq!(Refusal::Unsure.sqlstate(DateTime), None);
    }

    #[test]
    fn space_is_what_the_c_locale_calls_space() {
        let spaces: Vec<u8> = (0..=255).filter(|&byte| is_space(byte)).collect();
        assert_eq!(spaces, b"\t\n\x0b\x0c\r ");
    }

    #[test]
    fn malformed_text_names_the_first_gate_that_refuses() {
        assert_eq!(malformed(b"x"), Refusal::InvalidSyntax);
        assert_eq!(malformed("é".as_bytes()), Refusal::InvalidSyntax);
        assert_eq!(malformed(b"1\0"), Refusal::InvalidEncoding);
        assert_eq!(malformed(b"1\xff"), Refusal::InvalidEncoding);
        assert_eq!(malformed("1\u{a0}".as_bytes()), Refusal::Unsure);
    }
}
