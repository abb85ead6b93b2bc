//! Enumerated types: what PostgreSQL's `enum_in` reads, which is a label exactly as it was declared.

use super::{Refusal, misspelled};

/// Looks a label up among `labels`, which are sorted by their bytes.
///
/// # Errors
/// [`Refusal::InvalidSyntax`], or whatever refuses before the server's parser.
#[inline]
pub fn parse<'t>(text: &'t [u8], labels: &[String]) -> Result<&'t [u8], Refusal> {
    debug_assert!(labels.is_sorted());
    match labels.binary_search_by(|label| label.as_bytes().cmp(text)) {
        Ok(_) => Ok(text),
        Err(_) => Err(misspelled(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_matched_exactly() {
        let labels = ["Happy", "sad", "ök"].map(String::from);
        assert_eq!(parse(b"sad", &labels), Ok(&b"sad"[..]));
        assert_eq!(parse("ök".as_bytes(), &labels), Ok("ök".as_bytes()));
        for text in ["", "Sad", "sad ", "happy", "saddle"] {
            assert_eq!(parse(text.as_bytes(), &labels), Err(Refusal::InvalidSyntax), "{text:?}");
        }
        assert_eq!(parse(b"\xff", &labels), Err(Refusal::InvalidEncoding));
    }
}
