//! `bytea`: what PostgreSQL's `byteain` reads.
//!
//! The hexadecimal form begins with `\x`; everything else is the escape form, where a backslash stands before another
//! one or before three octal digits.

use super::uuid::HEX_VALUES;
use super::{Refusal, misspelled};

/// Appends the bytes that `text` stands for; never more than `text` has. After a refusal `out` is as it was.
///
/// # Errors
/// [`Refusal::InvalidSyntax`] for an escape that is none; [`Refusal::Unsure`] for bad hexadecimal digits (for which the
/// server has a SQLSTATE of its own) and for letters outside ASCII (whose bytes depend on the server's encoding).
#[inline]
pub fn append(text: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let start = out.len();
    let appended = match text {
        [b'\\', b'x', digits @ ..] => append_hex(digits, out),
        _ => append_escaped(text, out),
    };
    if appended.is_err() {
        out.truncate(start);
    }
    appended
}

fn append_hex(digits: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    out.reserve(digits.len() / 2);
    let start = out.len();
    let mut bad = digits.len() as u8 & 1;
    out.extend(digits.chunks_exact(2).map(|pair| {
        let (high, low) = (HEX_VALUES[pair[0] as usize], HEX_VALUES[pair[1] as usize]);
        // Above 15 where one of them is no digit.
        bad |= (high | low) >> 4;
        high << 4 | (low & 15)
    }));
    if bad == 0 {
        return Ok(());
    }
    out.truncate(start);
    append_spaced_hex(digits, out)
}

/// White space may stand between pairs of digits.
#[cold]
fn append_spaced_hex(mut digits: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    loop {
        match digits {
            [] => return Ok(()),
            [b' ' | b'\n' | b'\t' | b'\r', rest @ ..] => digits = rest,
            [high, low, rest @ ..] => {
                let (high, low) = (HEX_VALUES[*high as usize], HEX_VALUES[*low as usize]);
                if high | low > 15 {
                    return Err(Refusal::Unsure);
                }
                out.push(high << 4 | low);
                digits = rest;
            }
            _ => return Err(Refusal::Unsure),
        }
    }
}

fn append_escaped(text: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut rest = text;
    loop {
        match rest {
            [] => return Ok(()),
            [b'\\', b'\\', after @ ..] => {
                out.push(b'\\');
                rest = after;
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                out.push((a & 3) << 6 | (b & 7) << 3 | (c & 7));
                rest = after;
            }
            [b'\\', ..] => return Err(misspelled(text)),
            [1..=0x7F, ..] => {
                out.push(rest[0]);
                rest = &rest[1..];
            }
            _ if text.contains(&0) => return Err(Refusal::InvalidEncoding),
            _ => return Err(Refusal::Unsure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut out = Vec::new();
        append(text, &mut out).map(|()| out)
    }

    #[test]
    fn golden_values() {
        for (text, bytes) in [
            (&br"\x"[..], &b""[..]),
            (br"\x00fFaB10", b"\x00\xff\xab\x10"),
            (b"\\x 00 ff\n", b"\x00\xff"),
            (b"", b""),
            (b"abc", b"abc"),
            (br"a\\b\000\377", b"a\\b\0\xff"),
            (br" \\x00", br" \x00"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn refusals() {
        for text in [&br"\"[..], br"a\b", br"\400", br"\08", br"\1", br"\X00"] {
            assert_eq!(parse(text), Err(Refusal::InvalidSyntax), "{text:?}");
        }
        for text in [&br"\x0"[..], br"\x0g", br"\x0 0", "é".as_bytes()] {
            assert_eq!(parse(text), Err(Refusal::Unsure), "{text:?}");
        }
        assert_eq!(parse(b"a\0"), Err(Refusal::InvalidEncoding));
    }

    #[test]
    fn every_byte_survives_its_own_text() {
        for byte in 0..=255_u8 {
            assert_eq!(parse(format!("\\x{byte:02x}").as_bytes()), Ok(vec![byte]));
            assert_eq!(parse(format!("\\{byte:03o}").as_bytes()), Ok(vec![byte]));
        }
    }
}
