//! Records as PostgreSQL's COPY binary format (`sql-copy`, "Binary Format"): per record the number of fields as
//! int16, then per field its length as int32 (-1 for NULL) and the bytes that the type's `receive` function takes.
//!
//! Advice for whoever works here: this loop runs once per field of every file that is loaded. Nothing in it may
//! allocate, and the only branch per field that is not predictable is the type, which repeats with the record.

use super::Encoded;
use super::text_check::TextCheck;
use crate::column::{Column, ColumnType};
use crate::decode::Decoder;
use crate::dialect::Dialect;
use crate::digest;
use crate::problem::Problem;
use crate::scan::{RawField, Records};
use crate::value::{self, Refusal, ServerVersion};

/// What a binary COPY begins with: signature, flags, length of the header extension.
pub const HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// What a binary COPY ends with.
pub const TRAILER: &[u8; 2] = b"\xff\xff";

/// Encodes the records of one stream.
#[derive(Debug)]
pub struct CopyBinaryEncoder {
    columns: Vec<Column>,
    decoder: Decoder,
    dialect: Dialect,
    server: ServerVersion,
    /// Bytes that a record can take beyond twice its text: lengths, fixed-width values, padding.
    fixed_bytes: usize,
    digest: Option<u128>,
}

impl CopyBinaryEncoder {
    /// An encoder for `columns`, as the server of version `server` reads them; with `digest`, the order-independent
    /// sum of the records' 128-bit hashes is kept.
    #[must_use]
    pub fn new(columns: Vec<Column>, dialect: Dialect, server: ServerVersion, digest: bool) -> Self {
        let padding = |column: &Column| match column.kind {
            ColumnType::Char { limit } => limit as usize,
            _ => 0,
        };
        let fixed_bytes = 2 + columns.iter().map(|column| 32 + padding(column)).sum::<usize>();
        let decoder = Decoder::new(dialect.clone());
        Self { columns, decoder, dialect, server, fixed_bytes, digest: digest.then_some(0) }
    }

    /// The sum of the hashes of all records encoded so far, modulo 2^128; 0 where none was asked for.
    #[must_use]
    pub fn digest(&self) -> u128 {
        self.digest.unwrap_or(0)
    }

    /// Appends the records to `out`, up to the first that cannot be stored.
    pub fn encode(&mut self, records: &Records<'_>, out: &mut Vec<u8>) -> Encoded {
        let check = TextCheck::of(records, self.dialect.family);
        let count = (self.columns.len() as u16).to_be_bytes();
        for row in 0..records.rows() {
            let begin = out.len();
            out.reserve(self.fixed_bytes + 2 * (records.start(row + 1) - records.start(row)));
            out.extend_from_slice(&count);
            for (index, column) in self.columns.iter().enumerate() {
                let field = records.field(row, index);
                if let Err(refusal) = encode_field(column, field, &mut self.decoder, check, self.server, out) {
                    out.truncate(begin);
                    return Encoded { rows: row, problem: Some(Problem::value(records, row, index, refusal)) };
                }
            }
            if let Some(digest) = &mut self.digest {
                *digest = digest.wrapping_add(digest::of_copy_binary_record(&out[begin..]));
            }
        }
        Encoded { rows: records.rows(), problem: Problem::structure(records) }
    }
}

#[inline(always)]
fn encode_field(
    column: &Column,
    field: RawField<'_>,
    decoder: &mut Decoder,
    check: TextCheck,
    server: ServerVersion,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let Some(text) = decoder.decode(field) else {
        if column.not_null {
            return Err(Refusal::NullNotAllowed);
        }
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        return Ok(());
    };
    match column.kind {
        ColumnType::Bool => put(out, [u8::from(value::boolean::parse(text)?)]),
        ColumnType::Int2 => put(out, value::integer::parse_int2(text, server)?.to_be_bytes()),
        ColumnType::Int4 => put(out, value::integer::parse_int4(text, server)?.to_be_bytes()),
        ColumnType::Int8 => put(out, value::integer::parse_int8(text, server)?.to_be_bytes()),
        ColumnType::Float4 => put(out, value::float::parse_float4(text)?.to_be_bytes()),
        ColumnType::Float8 => put(out, value::float::parse_float8(text)?.to_be_bytes()),
        ColumnType::Date => put(out, value::date::parse(text)?.to_be_bytes()),
        ColumnType::Timestamp { precision } => {
            put(out, value::timestamp::parse_with_precision(text, precision)?.to_be_bytes());
        }
        ColumnType::Numeric { precision, scale } => {
            let typmod = value::numeric::Typmod { precision, scale };
            put_sized(out, |out| value::numeric::encode_binary(text, Some(typmod), server, out))?;
        }
        ColumnType::Decimal => put_sized(out, |out| value::numeric::encode_binary(text, None, server, out))?,
        ColumnType::Text => {
            check.check(field, text)?;
            put_text(out, text, 0);
        }
        ColumnType::Varchar { limit } => {
            check.check(field, text)?;
            put_text(out, value::text::fit_varchar(text, limit)?, 0);
        }
        ColumnType::Char { limit } => {
            check.check(field, text)?;
            let (text, padding) = value::text::fit_char(text, limit)?;
            put_text(out, text, padding);
        }
        ColumnType::Opaque => return Err(Refusal::Unsure),
    }
    Ok(())
}

/// A value of fixed width behind its length.
#[inline(always)]
fn put<const WIDTH: usize>(out: &mut Vec<u8>, value: [u8; WIDTH]) {
    out.extend_from_slice(&(WIDTH as i32).to_be_bytes());
    out.extend_from_slice(&value);
}

/// Text and `padding` spaces behind their length.
#[inline(always)]
fn put_text(out: &mut Vec<u8>, text: &[u8], padding: usize) {
    out.extend_from_slice(&((text.len() + padding) as i32).to_be_bytes());
    out.extend_from_slice(text);
    out.resize(out.len() + padding, b' ');
}

/// A value that says itself how long it is.
#[inline(always)]
fn put_sized(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let place = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let length = (out.len() - place - 4) as i32;
    out[place..place + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
