//! `inet` and `cidr`: what PostgreSQL's `inet_in` and `cidr_in` read.
//!
//! Read here are whole addresses (four numbers, or the forms of RFC 4291), with or without a number of bits. Shortened
//! networks such as `10.1` are [`Refusal::Unsure`], and so is everything that is no address.

use super::{Refusal, misspelled};
use core::net::{Ipv4Addr, Ipv6Addr};

/// Which of the two types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A host in a network.
    Inet,
    /// A network: no bits to the right of its mask.
    Cidr,
}

/// The binary form of `inet_send` and `cidr_send`: family, bits, type, length, address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binary {
    bytes: [u8; 20],
    length: u8,
}

impl Binary {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The numbers of the two families in PostgreSQL (`utils/inet.h`), the same on every platform that it runs on.
const FAMILY_4: u8 = 2;
const FAMILY_6: u8 = 3;

/// Reads an address.
///
/// # Errors
/// [`Refusal::InvalidSyntax`] for an empty text; everything else that is not read here is [`Refusal::Unsure`].
pub fn parse(text: &[u8], kind: Kind) -> Result<Binary, Refusal> {
    let text = std::str::from_utf8(text).map_err(|_| misspelled(text))?;
    if text.is_empty() {
        return Err(Refusal::InvalidSyntax);
    }
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let mut binary = Binary { bytes: [0; 20], length: 0 };
    let (family, octets) = if address.contains(':') {
        let address: Ipv6Addr = address.parse().map_err(|_| Refusal::Unsure)?;
        binary.bytes[4..].copy_from_slice(&address.octets());
        (FAMILY_6, 16)
    } else {
        let address: Ipv4Addr = address.parse().map_err(|_| Refusal::Unsure)?;
        binary.bytes[4..8].copy_from_slice(&address.octets());
        (FAMILY_4, 4)
    };
    let most_bits = octets * 8;
    let bits = match bits.map(str::as_bytes) {
        None => most_bits,
        Some(&[digit @ b'0'..=b'9']) => digit - b'0',
        Some(&[tens @ b'1'..=b'9', digit @ b'0'..=b'9']) => 10 * (tens - b'0') + digit - b'0',
        Some(&[b'1', tens @ b'0'..=b'2', digit @ b'0'..=b'9']) => 100 + 10 * (tens - b'0') + digit - b'0',
        Some(_) => return Err(Refusal::Unsure),
    };
    if bits > most_bits {
        return Err(Refusal::Unsure);
    }
    if kind == Kind::Cidr {
        let address = u128::from_be_bytes(*binary.bytes.last_chunk().ok_or(Refusal::Unsure)?);
        // An address of version 4 stands in the upper bits of those sixteen bytes.
        if address.checked_shl(u32::from(bits)).unwrap_or(0) != 0 {
            return Err(Refusal::Unsure);
        }
    }
    binary.length = 4 + octets;
    binary.bytes[..4].copy_from_slice(&[family, bits, u8::from(kind == Kind::Cidr), octets]);
    Ok(binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_values() {
        let inet = |text: &str| parse(text.as_bytes(), Kind::Inet).unwrap().as_bytes().to_vec();
        assert_eq!(inet("10.0.0.1/8"), [2, 8, 0, 4, 10, 0, 0, 1]);
        assert_eq!(inet("255.255.255.255"), [2, 32, 0, 4, 255, 255, 255, 255]);
        assert_eq!(inet("::1")[..4], [3, 128, 0, 16]);
        assert_eq!(inet("::ffff:1.2.3.4/96")[14..], [255, 255, 1, 2, 3, 4]);
        let cidr = parse(b"10.0.0.0/8", Kind::Cidr).unwrap();
        assert_eq!(cidr.as_bytes(), [2, 8, 1, 4, 10, 0, 0, 0]);
        assert!(parse(b"0.0.0.0/0", Kind::Cidr).is_ok());
        assert!(parse(b"ffff::/16", Kind::Cidr).is_ok());
    }

    #[test]
    fn what_is_left_to_the_server() {
        for text in ["10", "10.1", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/08", " 1.2.3.4", "::1/129", "1.2.3.400", "x"] {
            assert_eq!(parse(text.as_bytes(), Kind::Inet), Err(Refusal::Unsure), "{text}");
        }
        for text in ["10.0.0.1/8", "ffff::1/16", "0.0.0.1/0"] {
            assert_eq!(parse(text.as_bytes(), Kind::Cidr), Err(Refusal::Unsure), "{text}");
        }
        assert_eq!(parse(b"", Kind::Inet), Err(Refusal::InvalidSyntax));
    }
}
