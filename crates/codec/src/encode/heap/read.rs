//! Reads heap pages: the tuples of a page, and the values of a tuple in COPY's binary form.

use super::layout::{
    HAS_NULL, HOFF_AT, INFOMASK_AT, INFOMASK2_AT, LINE_POINTER_BYTES, LONG_HEADER_BYTES, NORMAL, PAGE_HEADER_BYTES,
    Storage, TUPLE_HEADER_BYTES,
};
use crate::column::{Column, ColumnType};

/// Where `pd_lower` stands.
const LOWER_AT: usize = 12;

/// Why a page cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The page's header or a line pointer says something impossible.
    Page,
    /// A tuple ends before its values do, or has another number of attributes.
    Tuple,
    /// A value is compressed or stored elsewhere, or its type has no known form.
    Value,
}

/// The tuples of a page, in the order of their line pointers, with their headers.
///
/// # Errors
/// [`Unreadable::Page`] where a line pointer leads outside the page.
pub fn tuples(page: &[u8]) -> Result<Vec<&[u8]>, Unreadable> {
    let lower = usize::from(word(page, LOWER_AT).ok_or(Unreadable::Page)?);
    let pointers = page.get(PAGE_HEADER_BYTES..lower).ok_or(Unreadable::Page)?;
    let mut found = Vec::with_capacity(pointers.len() / LINE_POINTER_BYTES);
    for pointer in pointers.as_chunks::<LINE_POINTER_BYTES>().0 {
        let pointer = u32::from_le_bytes(*pointer);
        let (start, flags, length) = ((pointer & 0x7FFF) as usize, pointer >> 15 & 3, (pointer >> 17) as usize);
        if flags == NORMAL {
            found.push(page.get(start..start + length).ok_or(Unreadable::Page)?);
        }
    }
    Ok(found)
}

/// How many line pointers a page has, by what its header says.
#[must_use]
pub fn line_pointers(page: &[u8]) -> usize {
    let lower = word(page, LOWER_AT).map_or(0, usize::from);
    lower.saturating_sub(PAGE_HEADER_BYTES) / LINE_POINTER_BYTES
}

/// Appends a tuple as COPY's binary format has it. `columns` are the relation's attributes, all of them.
///
/// # Errors
/// What is wrong with the tuple; `out` then has a part of it.
pub fn append_copy_binary(tuple: &[u8], columns: &[Column], out: &mut Vec<u8>) -> Result<(), Unreadable> {
    let attributes = word(tuple, INFOMASK2_AT).ok_or(Unreadable::Tuple)? & 0x07FF;
    let has_null = word(tuple, INFOMASK_AT).ok_or(Unreadable::Tuple)? & HAS_NULL != 0;
    if usize::from(attributes) != columns.len() {
        return Err(Unreadable::Tuple);
    }
    let header = usize::from(*tuple.get(HOFF_AT).ok_or(Unreadable::Tuple)?);
    let values = tuple.get(header..).ok_or(Unreadable::Tuple)?;
    let mut at: usize = 0;
    out.extend_from_slice(&attributes.to_be_bytes());
    for (index, column) in columns.iter().enumerate() {
        let bits = tuple.get(TUPLE_HEADER_BYTES + index / 8).ok_or(Unreadable::Tuple)?;
        if has_null && bits & 1 << (index % 8) == 0 {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        }
        let storage = Storage::of(&column.kind).ok_or(Unreadable::Value)?;
        let value = match storage.width {
            Some(width) => {
                at = at.next_multiple_of(storage.align);
                let value = values.get(at..at + width).ok_or(Unreadable::Tuple)?;
                at += width;
                value
            }
            None => varying(values, &mut at, storage.align)?,
        };
        append_value(&column.kind, value, out)?;
    }
    Ok(())
}

/// The value behind the header at `at`, which moves behind it.
fn varying<'v>(values: &'v [u8], at: &mut usize, align: usize) -> Result<&'v [u8], Unreadable> {
    let first = *values.get(*at).ok_or(Unreadable::Tuple)?;
    let (start, end) = if first & 1 == 1 {
        // A short header with the length zero points to where the value is stored.
        let total = usize::from(first >> 1);
        if total == 0 {
            return Err(Unreadable::Value);
        }
        (*at + 1, *at + total)
    } else {
        let start = if first == 0 { at.next_multiple_of(align) } else { *at };
        let header = values.get(start..).and_then(|rest| rest.first_chunk::<4>()).ok_or(Unreadable::Tuple)?;
        let header = u32::from_le_bytes(*header);
        if header & 3 != 0 {
            return Err(Unreadable::Value);
        }
        (start + LONG_HEADER_BYTES, start + (header >> 2) as usize)
    };
    *at = end;
    values.get(start..end).ok_or(Unreadable::Tuple)
}

/// Appends a stored value behind its length, as its `send` function would make it.
fn append_value(kind: &ColumnType, value: &[u8], out: &mut Vec<u8>) -> Result<(), Unreadable> {
    let place = out.len();
    out.extend_from_slice(&[0; 4]);
    match kind {
        ColumnType::Numeric { .. } | ColumnType::Decimal => append_numeric(value, out)?,
        // 8 bytes, then one or two times 4.
        ColumnType::TimeTz { .. } | ColumnType::Interval { .. } => {
            out.extend(value[..8].iter().rev());
            for word in value[8..].as_chunks::<4>().0 {
                out.extend(word.iter().rev());
            }
        }
        ColumnType::Uuid
        | ColumnType::Text
        | ColumnType::Varchar { .. }
        | ColumnType::Char { .. }
        | ColumnType::Bytea => out.extend_from_slice(value),
        _ => out.extend(value.iter().rev()),
    }
    let length = (out.len() - place - 4) as u32;
    out[place..place + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The form of `numeric_send`.
fn append_numeric(value: &[u8], out: &mut Vec<u8>) -> Result<(), Unreadable> {
    let header = word(value, 0).ok_or(Unreadable::Value)?;
    let (sign, display_scale, weight, digits) = match header & 0xC000 {
        // It has no digits; an infinity's scale is what `numeric_send` makes of the mask.
        0xC000 => {
            let scale = if header == 0xC000 { 0 } else { 0x20 };
            (header, scale, 0, &value[2..2])
        }
        0x8000 => {
            let sign = if header & 0x2000 != 0 { 0x4000 } else { 0 };
            let weight = ((header & 0x7F) as i16) << 9 >> 9;
            (sign, header >> 7 & 0x3F, weight, &value[2..])
        }
        sign => {
            let weight = word(value, 2).ok_or(Unreadable::Value)? as i16;
            (sign, header & 0x3FFF, weight, &value[4..])
        }
    };
    let digits = digits.as_chunks::<2>().0;
    for word in [digits.len() as u16, weight as u16, sign, display_scale] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend(digits.iter().flat_map(|&[low, high]| [high, low]));
    Ok(())
}

/// Two bytes of the machine's own order.
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk::<2>().map(|word| u16::from_le_bytes(*word))
}
