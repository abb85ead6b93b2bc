//! `boolean`: what PostgreSQL's `boolin` reads.
//!
//! Any beginning of `true`, `false`, `yes`, `no`, `on` and `off` that names one of them alone (so not `o`), and
//! `1` and `0`, in any case, with white space around.

use super::{Refusal, malformed, trim};

/// Reads a boolean. A refusal is [`Refusal::InvalidSyntax`], or whatever refuses before the server's parser.
#[inline]
pub fn parse(text: &[u8]) -> Result<bool, Refusal> {
    // Compared without short circuits: which of the two it is cannot be predicted, that it is one can.
    if let [letter] = text {
        let is_true = (*letter == b't') | (*letter == b'T') | (*letter == b'1');
        let is_false = (*letter == b'f') | (*letter == b'F') | (*letter == b'0');
        if is_true | is_false {
            return Ok(is_true);
        }
    }
    match text {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => parse_word(text),
    }
}

/// The whole grammar.
fn parse_word(text: &[u8]) -> Result<bool, Refusal> {
    let word = trim(text);
    let begins = |whole: &[u8]| word.len() <= whole.len() && word.eq_ignore_ascii_case(&whole[..word.len()]);
    match word {
        [] | [b'o' | b'O'] => Err(malformed(text)),
        _ if begins(b"true") || begins(b"yes") || begins(b"on") || begins(b"1") => Ok(true),
        _ if begins(b"false") || begins(b"no") || begins(b"off") || begins(b"0") => Ok(false),
        _ => Err(malformed(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every accepted word, spelled out.
    const TRUE: [&str; 9] = ["t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"];
    const FALSE: [&str; 10] = ["f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"];

    #[test]
    fn accepted_words() {
        for (words, value) in [(&TRUE[..], true), (&FALSE[..], false)] {
            for word in words {
                for text in [word.to_string(), word.to_uppercase(), format!(" \t{word}\r\n\x0b\x0c")] {
                    assert_eq!(parse(text.as_bytes()), Ok(value), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn refused_words() {
        for text in ["", " ", "o", "O ", "2", "01", "10", "truee", "t rue", "offf", "onn", "yess", "+1", "é", "-"] {
            assert_eq!(parse(text.as_bytes()), Err(Refusal::InvalidSyntax), "{text:?}");
        }
        assert_eq!(parse(b"t\0"), Err(Refusal::InvalidEncoding));
    }

    proptest! {
        #[test]
        fn as_the_list_of_words_says(text in "[ \t\n]{0,2}[tTrRuUeEfFaAlLsSyYnNoO01]{0,5}[ \t]{0,2}") {
            let word = text.trim().to_lowercase();
            let expected = if TRUE.contains(&&*word) {
                Ok(true)
            } else if FALSE.contains(&&*word) {
                Ok(false)
            } else {
                Err(Refusal::InvalidSyntax)
            };
            prop_assert_eq!(parse(text.as_bytes()), expected);
        }
    }
}
