//! How the values of a partition key compare, in the form in which PostgreSQL sends and receives them.

use super::hash;
use serde::Deserialize;
use std::cmp::Ordering;

/// A family of types whose values compare alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// Two's complement of 1, 2, 4 or 8 bytes: integers, date, time, timestamps. (A boolean is 0 or 1.)
    Integer,
    /// IEEE 754 of 4 or 8 bytes; NaN is the greatest, and both zeros are equal.
    Float,
    /// `numeric`
    Numeric,
    /// Byte by byte: uuid, bytea, and texts whose collation is that of their bytes.
    Bytes,
    /// `char(n)`: as [`KeyKind::Bytes`], without the spaces at the end.
    Padded,
}

impl KeyKind {
    /// Whether the bytes are a value of this kind.
    pub(super) fn is_valid(self, bytes: &[u8]) -> bool {
        match self {
            Self::Integer => matches!(bytes.len(), 1 | 2 | 4 | 8),
            Self::Float => matches!(bytes.len(), 4 | 8),
            Self::Numeric => Numeric::read(bytes).is_some(),
            Self::Bytes | Self::Padded => true,
        }
    }

    /// The order of two values.
    #[inline]
    pub(super) fn compare(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            Self::Integer => integer(one).cmp(&integer(other)),
            Self::Float => compare_floats(float(one), float(other)),
            Self::Numeric => compare_numerics(one, other),
            Self::Bytes => one.cmp(other),
            Self::Padded => trim(one).cmp(trim(other)),
        }
    }

    /// Appends a form that is the same for equal values, and that no other column of a key can be taken for.
    pub(crate) fn write_canonical(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Integer => out.extend_from_slice(&integer(bytes).to_le_bytes()),
            Self::Float => out.extend_from_slice(&canonical(float(bytes)).to_le_bytes()),
            Self::Numeric => match Numeric::read(bytes) {
                Some(number) => number.write_canonical(out),
                // No encoder writes it.
                None => write_sized(bytes, out),
            },
            Self::Bytes => write_sized(bytes, out),
            Self::Padded => write_sized(trim(bytes), out),
        }
    }

    /// Whether [`KeyKind::hash`] knows the server's hash.
    pub(super) fn hashes(self) -> bool {
        matches!(self, Self::Integer | Self::Bytes | Self::Padded)
    }

    /// What the type's hash function gives with the seed of hash partitioning.
    pub(super) fn hash(self, bytes: &[u8]) -> Option<u64> {
        match self {
            Self::Integer if bytes.len() == 8 => Some(hash::of_int8(integer(bytes))),
            Self::Integer => Some(hash::of_int4(integer(bytes) as i32)),
            Self::Bytes => Some(hash::of_bytes(bytes)),
            Self::Padded => Some(hash::of_bytes(trim(bytes))),
            Self::Float | Self::Numeric => None,
        }
    }
}

/// An integer of 1, 2, 4 or 8 bytes; 0 for anything else, which no encoder writes.
#[inline]
pub(super) fn integer(bytes: &[u8]) -> i64 {
    match *bytes {
        [a, b, c, d, e, f, g, h] => i64::from_be_bytes([a, b, c, d, e, f, g, h]),
        [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
        [a, b] => i64::from(i16::from_be_bytes([a, b])),
        [a] => i64::from(a),
        _ => 0,
    }
}

fn float(bytes: &[u8]) -> f64 {
    match *bytes {
        [a, b, c, d, e, f, g, h] => f64::from_be_bytes([a, b, c, d, e, f, g, h]),
        [a, b, c, d] => f64::from(f32::from_be_bytes([a, b, c, d])),
        _ => 0.0,
    }
}

/// As float8_cmp_internal (float.h).
fn compare_floats(one: f64, other: f64) -> Ordering {
    one.partial_cmp(&other).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
}

/// One of the zeros, and of all that is no number.
fn canonical(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

fn write_sized(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn trim(text: &[u8]) -> &[u8] {
    let spaces = text.iter().rev().take_while(|&&byte| byte == b' ').count();
    &text[..text.len() - spaces]
}

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const PLUS_INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;

/// A `numeric` as numeric_send writes it: number of digits, weight of the first, sign, scale, digits of base 10,000.
struct Numeric<'v> {
    weight: i16,
    sign: u16,
    /// Without zeros at the beginning and the end.
    digits: &'v [u8],
}

impl<'v> Numeric<'v> {
    fn read(bytes: &'v [u8]) -> Option<Self> {
        let (head, mut digits) = bytes.split_first_chunk::<8>()?;
        let [n0, n1, w0, w1, s0, s1, _, _] = *head;
        if digits.len() != 2 * usize::from(u16::from_be_bytes([n0, n1])) {
            return None;
        }
        let mut weight = i16::from_be_bytes([w0, w1]);
        while let [0, 0, rest @ ..] = digits {
            digits = rest;
            weight = weight.wrapping_sub(1);
        }
        while let [rest @ .., 0, 0] = digits {
            digits = rest;
        }
        let sign = u16::from_be_bytes([s0, s1]);
        // There is one zero only.
        let sign = if digits.is_empty() && sign == NEGATIVE { 0 } else { sign };
        Some(Self { weight, sign, digits })
    }

    fn write_canonical(&self, out: &mut Vec<u8>) {
        let class = self.class();
        let (weight, digits) = if class.abs() == 1 { (self.weight, self.digits) } else { (0, &[][..]) };
        out.push(class.cast_unsigned());
        out.extend_from_slice(&weight.to_le_bytes());
        write_sized(digits, out);
    }

    /// Where the sign alone puts it: NaN is the greatest of all.
    fn class(&self) -> i8 {
        match self.sign {
            NAN => 3,
            PLUS_INFINITY => 2,
            MINUS_INFINITY => -2,
            NEGATIVE => -1,
            _ if self.digits.is_empty() => 0,
            _ => 1,
        }
    }
}

fn compare_numerics(one: &[u8], other: &[u8]) -> Ordering {
    // Bounds were checked, and encoders write nothing else.
    let (Some(one), Some(other)) = (Numeric::read(one), Numeric::read(other)) else { return one.cmp(other) };
    let classes = one.class().cmp(&other.class());
    if classes != Ordering::Equal || one.class().abs() != 1 {
        return classes;
    }
    // Digits are two bytes each, most significant first: their order is that of their bytes.
    let sizes = one.weight.cmp(&other.weight).then_with(|| one.digits.cmp(other.digits));
    if one.class() < 0 { sizes.reverse() } else { sizes }
}
