//! Conformed batches as PostgreSQL's COPY binary format (see [`crate::encode::copy_binary`]).
//!
//! Columns become rows here: per batch each column is looked at once ([`Values`]), and the loop over the rows has one
//! match per field, which repeats with every row.

use super::values::{self, Values};
use super::{BatchProblem, Unfit, strings};
use crate::column::Column;
use crate::digest;
use crate::value::{self, Refusal, ServerVersion};
use arrow_array::RecordBatch;

/// Encodes the conformed batches of one stream.
#[derive(Debug)]
pub struct BatchBinaryEncoder {
    columns: Vec<Column>,
    server: ServerVersion,
    digest: Option<u128>,
}

impl BatchBinaryEncoder {
    /// An encoder for `columns`; with `digest`, the order-independent sum of the records' 128-bit hashes is kept.
    #[must_use]
    pub fn new(columns: &[Column], server: ServerVersion, digest: bool) -> Self {
        Self { columns: columns.to_vec(), server, digest: digest.then_some(0) }
    }

    /// The sum of the hashes of all records encoded so far, modulo 2^128; 0 where none was asked for.
    #[must_use]
    pub fn digest(&self) -> u128 {
        self.digest.unwrap_or(0)
    }

    /// Appends rows from `first` on until `out` has `limit_bytes` or the batch ends; the row after the last.
    ///
    /// # Errors
    /// The first value that cannot be stored; `out` has the rows before it.
    pub fn encode(
        &mut self,
        batch: &RecordBatch,
        first: usize,
        limit_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, BatchProblem> {
        let columns: Vec<_> = (self.columns.iter().enumerate())
            .map(|(index, column)| values::of_column(batch, index, &column.kind))
            .collect();
        let count = (columns.len() as u16).to_be_bytes();
        let mut row = first;
        while row < batch.num_rows() && out.len() < limit_bytes {
            let begin = out.len();
            out.extend_from_slice(&count);
            for (index, (values, nulls)) in columns.iter().enumerate() {
                if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                    out.extend_from_slice(&(-1_i32).to_be_bytes());
                } else if let Err(refusal) = put(values, row, self.server, out) {
                    out.truncate(begin);
                    return Err(BatchProblem { row, column: index, unfit: Unfit::Refused(refusal) });
                }
            }
            if let Some(digest) = &mut self.digest {
                *digest = digest.wrapping_add(digest::of_copy_binary_record(&out[begin..]));
            }
            row += 1;
        }
        Ok(row)
    }
}

/// Appends one value behind its length.
#[inline(always)]
fn put(values: &Values<'_>, row: usize, server: ServerVersion, out: &mut Vec<u8>) -> Result<(), Refusal> {
    match values {
        Values::Bool(array) => fixed(out, [u8::from(array.value(row))]),
        Values::Int2(values) => fixed(out, values[row].to_be_bytes()),
        Values::Int4(values) => fixed(out, values[row].to_be_bytes()),
        Values::Int8(values) => fixed(out, values[row].to_be_bytes()),
        Values::Float4(values) => fixed(out, values[row].to_be_bytes()),
        Values::Float8(values) => fixed(out, values[row].to_be_bytes()),
        Values::Date(values) => fixed(out, values::date(values[row])?.to_be_bytes()),
        Values::Timestamp(values) => fixed(out, values::timestamp(values[row])?.to_be_bytes()),
        Values::Time(values) => fixed(out, values::time(values[row])?.to_be_bytes()),
        Values::Scaled64(values, scale) => sized(out, |out| {
            value::numeric::encode_binary_from_scaled(i128::from(values[row]), *scale, out);
            Ok(())
        })?,
        Values::Scaled128(values, scale) => sized(out, |out| {
            value::numeric::encode_binary_from_scaled(values[row], *scale, out);
            Ok(())
        })?,
        Values::Number(texts, typmod) => {
            sized(out, |out| value::numeric::encode_binary(texts.value(row).as_bytes(), *typmod, server, out))?;
        }
        Values::Text(texts) => text(out, texts.value(row).as_bytes())?,
        Values::Bytes(bytes) => text(out, bytes.value(row))?,
        Values::Uuid(texts) => fixed(out, value::uuid::parse(texts.value(row).as_bytes())?),
        Values::AnyText(array) => text(out, strings::bytes(*array, row))?,
        Values::Unknown => return Err(Refusal::Unsure),
    }
    Ok(())
}

#[inline(always)]
fn fixed<const WIDTH: usize>(out: &mut Vec<u8>, value: [u8; WIDTH]) {
    out.extend_from_slice(&(WIDTH as i32).to_be_bytes());
    out.extend_from_slice(&value);
}

#[inline(always)]
fn text(out: &mut Vec<u8>, text: &[u8]) -> Result<(), Refusal> {
    // A field longer than this is more than the server stores.
    let length = i32::try_from(text.len()).map_err(|_| Refusal::OutOfRange)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text);
    Ok(())
}

/// A value that says itself how long it is.
#[inline(always)]
fn sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal>) -> Result<(), Refusal> {
    let place = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let length = (out.len() - place - 4) as i32;
    out[place..place + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
