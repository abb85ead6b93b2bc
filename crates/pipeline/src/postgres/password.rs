//! Passwords as PostgreSQL prepares them for SCRAM (`pg_saslprep` in its src/common/saslprep.c, after RFC 4013).
//!
//! RFC 4013 forbids some characters in what comes out of the normalisation. PostgreSQL looks for them, and at the
//! directions of writing, in what goes in, and takes a password with one of them as it is. The driver looks at what comes
//! out, as most do. So `xᵢ` (a character younger than the RFC's Unicode 3.2, and normalised to `xi`) is `xᵢ` for the
//! server and `xi` for the driver.

use ring::digest::{SHA256, digest};
use stringprep::tables;
use unicode_normalization::UnicodeNormalization;

/// HMAC's block with SHA-256 (RFC 2104, section 2; RFC 6234).
const BLOCK: usize = 64;

/// What to give to the driver as the password for a server that asks for SCRAM, where that is not the password.
///
/// It prepares what it is given, except where that holds what the RFC forbids. Of the password SCRAM makes the key of an
/// HMAC; a zero character behind it is forbidden and changes no key, for keys are filled with zeros up to a block. Of a
/// longer key the hash counts, which is no text. A password of exactly one block has no such form, and goes as it is.
///
/// Servers that ask for MD5 or the password itself want it as it was given.
pub(super) fn for_scram(password: &str) -> Option<Vec<u8>> {
    let wanted = prepared(password);
    if stringprep::saslprep(password).map_or(password == wanted, |by_driver| by_driver == wanted) {
        return None;
    }
    let mut key =
        if wanted.len() > BLOCK { digest(&SHA256, wanted.as_bytes()).as_ref().to_vec() } else { wanted.into() };
    if key.len() < BLOCK {
        key.push(0);
    }
    Some(key)
}

/// As `pg_saslprep` does it.
fn prepared(password: &str) -> String {
    // ASCII is left alone, control characters included.
    if password.is_ascii() {
        return password.to_owned();
    }
    let mapped: Vec<char> = password
        .chars()
        .map(|character| if tables::non_ascii_space_character(character) { ' ' } else { character })
        .filter(|&character| !tables::commonly_mapped_to_nothing(character))
        .collect();
    let is_refused = mapped.is_empty()
        || mapped.iter().any(|&character| is_prohibited(character) || tables::unassigned_code_point(character))
        || has_mixed_directions(&mapped);
    if is_refused { password.to_owned() } else { mapped.into_iter().nfkc().collect() }
}

/// RFC 4013, section 2.3.
fn is_prohibited(character: char) -> bool {
    [
        tables::non_ascii_space_character,
        tables::ascii_control_character,
        tables::non_ascii_control_character,
        tables::private_use,
        tables::non_character_code_point,
        tables::surrogate_code,
        tables::inappropriate_for_plain_text,
        tables::inappropriate_for_canonical_representation,
        tables::change_display_properties_or_deprecated,
        tables::tagging_character,
    ]
    .iter()
    .any(|is_one| is_one(character))
}

/// RFC 3454, section 6.
fn has_mixed_directions(text: &[char]) -> bool {
    let is_leftwards = |character: Option<&char>| character.is_some_and(|&character| tables::bidi_r_or_al(character));
    text.iter().any(|character| tables::bidi_r_or_al(*character))
        && (text.iter().any(|&character| tables::bidi_l(character))
            || !is_leftwards(text.first())
            || !is_leftwards(text.last()))
}

#[cfg(test)]
mod tests {
    use super::{for_scram, prepared};

    #[test]
    fn what_the_server_makes_of_passwords() {
        for (given, expected) in [
            ("plain", "plain"),
            ("tab\there", "tab\there"),
            ("pa\u{308}sswo\u{308}rd", "pässwörd"),
            ("Ⅸ", "IX"),
            ("a\u{a0}b\u{ad}c", "a bc"),
            // Forbidden in what goes in.
            ("a\u{341}b", "a\u{341}b"),
            ("a🉐b", "a🉐b"),
            ("xᵢ", "xᵢ"),
            ("Aₙ", "Aₙ"),
            ("\u{ad}", "\u{ad}"),
            // Forbidden in what comes out only.
            ("ℵ0", "א0"),
        ] {
            assert_eq!(prepared(given), expected);
        }
    }

    #[test]
    fn what_the_driver_is_given() {
        for same in ["plain", "pässwörd", "Ⅸ", "🙂", "א0", ""] {
            assert_eq!(for_scram(same), None, "{same}");
        }
        assert_eq!(for_scram("xᵢ").unwrap(), b"x\xe1\xb5\xa2\0");
        assert_eq!(for_scram("ℵ0").unwrap(), "א0\0".as_bytes());
        let long = "ᵢ".repeat(30);
        assert_eq!(for_scram(&long).unwrap().len(), 33);
    }

    /// What is handed over must be no text that the driver would prepare.
    #[test]
    fn the_driver_leaves_it_alone() {
        for character in '\u{80}'..=char::MAX {
            let Some(key) = for_scram(&format!("a{character}1")) else { continue };
            if let Ok(text) = std::str::from_utf8(&key) {
                assert!(stringprep::saslprep(text).is_err(), "{text:?}");
            }
        }
    }
}
