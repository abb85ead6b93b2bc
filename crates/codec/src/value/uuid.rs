//! `uuid`: what PostgreSQL's `uuid_in` reads.
//!
//! 32 hexadecimal digits in any case, with a hyphen or none after every fourth, in braces or without. No white space.

use super::{Refusal, misspelled};

/// What a byte is worth as a hexadecimal digit; 0xFF for all others.
pub(super) const HEX_VALUES: [u8; 256] = {
    let mut values = [0xFF; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Reads a UUID.
///
/// # Errors
/// [`Refusal::InvalidSyntax`], or whatever refuses before the server's parser.
#[inline]
pub fn parse(text: &[u8]) -> Result<[u8; 16], Refusal> {
    parse_plain(text).or_else(|| parse_loosely(text)).ok_or_else(|| misspelled(text))
}

/// `8-4-4-4-12`.
#[inline]
pub(crate) fn parse_plain(text: &[u8]) -> Option<[u8; 16]> {
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let text = <&[u8; 36]>::try_from(text).ok()?;
    let mut bytes = [0; 16];
    let mut bad = 0;
    for (byte, place) in bytes.iter_mut().zip(PLACES) {
        let (high, low) = (HEX_VALUES[text[place] as usize], HEX_VALUES[text[place + 1] as usize]);
        bad |= high | low;
        *byte = high << 4 | (low & 15);
    }
    let hyphens = text[8] == b'-' && text[13] == b'-' && text[18] == b'-' && text[23] == b'-';
    (hyphens && bad < 16).then_some(bytes)
}

/// The whole grammar.
fn parse_loosely(text: &[u8]) -> Option<[u8; 16]> {
    let mut rest = match text {
        [b'{', inner @ .., b'}'] => inner,
        _ => text,
    };
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        let [high, low, after @ ..] = rest else { return None };
        let (high, low) = (HEX_VALUES[*high as usize], HEX_VALUES[*low as usize]);
        if high | low > 15 {
            return None;
        }
        *byte = high << 4 | low;
        rest = match after {
            [b'-', after @ ..] if index % 2 == 1 && index < 15 => after,
            _ => after,
        };
    }
    rest.is_empty().then_some(bytes)
}

/// Appends the form in which UUIDs are shown: lower case, `8-4-4-4-12`.
pub fn push_text(bytes: [u8; 16], out: &mut Vec<u8>) {
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        let digits = b"0123456789abcdef";
        out.extend_from_slice(&[digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: [u8; 16] =
        [0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11];

    #[test]
    fn every_form_of_the_manual() {
        for text in [
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(EXPECTED), "{text}");
        }
        let mut text = Vec::new();
        push_text(EXPECTED, &mut text);
        assert_eq!(text, b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    }

    #[test]
    fn every_byte_in_every_place() {
        for place in 0..36 {
            for byte in 0..=255_u8 {
                let mut text = b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11".to_vec();
                text[place] = byte;
                assert_eq!(parse_plain(&text), parse_loosely(&text), "{text:?}");
            }
        }
    }

    #[test]
    fn refusals() {
        for text in [
            "",
            " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-",
            "a0-eebc999c0b4ef8bb6d6bb9bd380a11",
            "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ] {
            assert_eq!(parse(text.as_bytes()), Err(Refusal::InvalidSyntax), "{text}");
        }
        assert_eq!(parse(b"\0"), Err(Refusal::InvalidEncoding));
    }
}
