//! `text`, `varchar(n)` and `char(n)`: fitting text to a declared length as `varcharin` and `bpcharin` do.
//!
//! The length counts characters, and what passes it may only be spaces, which are cut. All functions expect
//! valid UTF-8 (checked once per slice, not per field) and no NUL, which is UTF-8 but not text to PostgreSQL:
//! [`contains_nul`] finds it, best once per slice too.

use super::Refusal;
use super::digits::{load_short, repeat};

/// Whether `text` holds a NUL byte, which no PostgreSQL text type stores (refuse it as
/// [`Refusal::InvalidEncoding`], SQLSTATE 22021).
#[inline]
pub fn contains_nul(text: &[u8]) -> bool {
    memchr::memchr(0, text).is_some()
}

/// Fits `text` to `varchar(limit)`: unchanged, or cut to `limit` characters where only spaces are lost.
///
/// # Errors
/// [`Refusal::TooLong`] where anything but spaces would be lost.
#[inline]
pub fn fit_varchar(text: &[u8], limit: u32) -> Result<&[u8], Refusal> {
    // A character has at least one byte, so a text with few enough bytes needs no counting.
    if text.len() <= limit as usize { Ok(text) } else { cut_to(text, limit) }
}

/// Fits `text` to `char(limit)`: the text to store, cut like [`fit_varchar`], and how many spaces to add to it.
///
/// # Errors
/// [`Refusal::TooLong`] where anything but spaces would be lost.
#[inline]
pub fn fit_char(text: &[u8], limit: u32) -> Result<(&[u8], usize), Refusal> {
    let characters = count_characters(text);
    match (limit as usize).checked_sub(characters) {
        Some(pad_spaces) => Ok((text, pad_spaces)),
        None => cut_to(text, limit).map(|cut| (cut, 0)),
    }
}

/// The first `limit` characters of `text`, where only spaces follow them.
fn cut_to(text: &[u8], limit: u32) -> Result<&[u8], Refusal> {
    let mut seen = 0;
    let end = text.iter().position(|&byte| {
        seen += u32::from(is_first_byte(byte));
        seen > limit
    });
    match end {
        None => Ok(text),
        Some(end) if text[end..].iter().all(|&byte| byte == b' ') => Ok(&text[..end]),
        Some(_) => Err(Refusal::TooLong { limit }),
    }
}

/// Whether a byte of UTF-8 begins a character.
#[inline]
const fn is_first_byte(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// How many characters valid UTF-8 has, counted eight bytes at a time.
#[inline]
pub fn count_characters(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    // The missing bytes of the last word are zero, which is not a following byte.
    let last = if rest.is_empty() { 0 } else { load_short(rest) };
    let following = words.iter().map(|word| following_bytes(u64::from_le_bytes(*word))).sum::<usize>();
    text.len() - following - following_bytes(last)
}

/// How many of a word's bytes continue a character: 10xxxxxx, bit 7 set and bit 6 not.
#[inline]
const fn following_bytes(word: u64) -> usize {
    const ONES: u64 = repeat(1);
    // The multiplication adds up all bytes in the highest.
    (((word >> 7) & !(word >> 6) & ONES).wrapping_mul(ONES) >> 56) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn varchar_boundaries() {
        let too_long = |limit| Err(Refusal::TooLong { limit });
        assert_eq!(fit_varchar(b"abc", 3), Ok(&b"abc"[..]));
        assert_eq!(fit_varchar(b"abcd", 3), too_long(3));
        assert_eq!(fit_varchar(b"abc  ", 3), Ok(&b"abc"[..]));
        assert_eq!(fit_varchar(b"abc  ", 4), Ok(&b"abc "[..]));
        assert_eq!(fit_varchar(b"abc\t", 3), too_long(3));
        assert_eq!(fit_varchar(b"abc  x", 3), too_long(3));
        assert_eq!(fit_varchar("éèà".as_bytes(), 3), Ok("éèà".as_bytes()));
        assert_eq!(fit_varchar("éèà  ".as_bytes(), 3), Ok("éèà".as_bytes()));
        assert_eq!(fit_varchar("éèàù".as_bytes(), 3), too_long(3));
        assert_eq!(fit_varchar("é\u{a0}".as_bytes(), 1), too_long(1));
        assert_eq!(fit_varchar(b"", 1), Ok(&b""[..]));
    }

    #[test]
    fn char_boundaries() {
        assert_eq!(fit_char(b"", 2), Ok((&b""[..], 2)));
        assert_eq!(fit_char(b"a", 2), Ok((&b"a"[..], 1)));
        assert_eq!(fit_char(b"ab", 2), Ok((&b"ab"[..], 0)));
        assert_eq!(fit_char(b"ab  ", 2), Ok((&b"ab"[..], 0)));
        assert_eq!(fit_char(b"ab c", 2), Err(Refusal::TooLong { limit: 2 }));
        assert_eq!(fit_char("é".as_bytes(), 3), Ok(("é".as_bytes(), 2)));
        assert_eq!(fit_char("𝄞𝄞   ".as_bytes(), 2), Ok(("𝄞𝄞".as_bytes(), 0)));
    }

    #[test]
    fn nul_is_found() {
        assert!(contains_nul(b"a\0b"));
        assert!(!contains_nul(b"ab"));
    }

    proptest! {
        #[test]
        fn as_counting_characters_says(text in "[a é€𝄞\t]{0,24} {0,4}", limit in 1_u32..26) {
            let count = text.chars().count();
            let head: String = text.chars().take(limit as usize).collect();
            let fits = text.chars().skip(limit as usize).all(|c| c == ' ');
            let expected = if fits { Ok(head.as_bytes()) } else { Err(Refusal::TooLong { limit }) };
            prop_assert_eq!(count_characters(text.as_bytes()), count);
            prop_assert_eq!(fit_varchar(text.as_bytes(), limit), expected);
            let pad = (limit as usize).saturating_sub(count);
            prop_assert_eq!(fit_char(text.as_bytes(), limit), expected.map(|head| (head, pad)));
        }
    }
}
