//! The binary forms of the types that are rarer than numbers, texts and dates, and of arrays. Apart from
//! `copy_binary.rs`, whose loop must stay small.

use super::copy_binary::put_element;
use super::text_check::TextCheck;
use crate::column::{ArrayType, ColumnType};
use crate::scan::RawField;
use crate::value::array::ArrayReader;
use crate::value::{self, Refusal, ServerVersion};

/// Appends a value behind its length. It takes 24 bytes at most, or five more than its text.
///
/// # Errors
/// What the type's parser says; [`Refusal::Unsure`] for types that have no binary form here.
#[inline(never)]
pub(super) fn put(
    kind: &ColumnType,
    field: RawField<'_>,
    text: &[u8],
    check: TextCheck,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    match kind {
        ColumnType::TimestampTz { precision, utc } => {
            put_bytes(out, &value::timestamp::parse_tz(text, *precision, *utc)?.to_be_bytes());
        }
        ColumnType::Time { precision } => put_bytes(out, &value::time::parse(text, *precision)?.to_be_bytes()),
        ColumnType::TimeTz { precision } => {
            let time = value::time::parse_tz(text, *precision)?;
            put_length(out, 12);
            out.extend_from_slice(&time.micros.to_be_bytes());
            out.extend_from_slice(&time.seconds_west.to_be_bytes());
        }
        ColumnType::Interval { precision } => {
            let interval = value::interval::parse(text, *precision)?;
            put_length(out, 16);
            out.extend_from_slice(&interval.micros.to_be_bytes());
            out.extend_from_slice(&interval.days.to_be_bytes());
            out.extend_from_slice(&interval.months.to_be_bytes());
        }
        ColumnType::Uuid => put_bytes(out, &value::uuid::parse(text)?),
        ColumnType::Bytea => {
            let place = out.len();
            put_length(out, 0);
            value::bytea::append(text, out)?;
            let length = (out.len() - place - 4) as i32;
            out[place..place + 4].copy_from_slice(&length.to_be_bytes());
        }
        // The server checks it while it receives.
        ColumnType::Json => {
            check.check(field, text)?;
            put_bytes(out, text);
        }
        ColumnType::Jsonb => {
            check.check(field, text)?;
            put_length(out, text.len() + 1);
            out.push(JSONB_VERSION);
            out.extend_from_slice(text);
        }
        ColumnType::Inet => put_bytes(out, value::network::parse(text, value::network::Kind::Inet)?.as_bytes()),
        ColumnType::Cidr => put_bytes(out, value::network::parse(text, value::network::Kind::Cidr)?.as_bytes()),
        ColumnType::Enum { labels } => put_bytes(out, value::enumeration::parse(text, labels)?),
        _ => return Err(Refusal::Unsure),
    }
    Ok(())
}

/// What `jsonb_recv` wants to see first.
const JSONB_VERSION: u8 = 1;

fn put_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&(length as i32).to_be_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends an array behind its length, as `array_send` writes it: number of dimensions, whether it has NULLs, the
/// element's type, length and lower bound of each dimension, then the elements.
///
/// # Errors
/// What the notation or the first bad element makes necessary.
#[inline(never)]
pub(super) fn put_array(
    array: &ArrayType,
    field: RawField<'_>,
    text: &[u8],
    check: TextCheck,
    reader: &mut ArrayReader,
    server: ServerVersion,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    check.check(field, text)?;
    reader.read(text)?;
    let place = out.len();
    put_length(out, 0);
    put_length(out, reader.lengths().len());
    put_length(out, usize::from(reader.elements().any(|element| element.is_none())));
    out.extend_from_slice(&array.element_oid.to_be_bytes());
    for &length in reader.lengths() {
        put_length(out, length);
        put_length(out, 1);
    }
    for element in reader.elements() {
        match element {
            Some(text) => put_element(&array.element, text, server, out)?,
            None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
    }
    let length = i32::try_from(out.len() - place - 4).map_err(|_| Refusal::Unsure)?;
    out[place..place + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
