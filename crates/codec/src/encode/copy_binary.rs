//! Records as PostgreSQL's COPY binary format (`sql-copy`, "Binary Format"): per record the number of fields as
//! int16, then per field its length as int32 (-1 for NULL) and the bytes that the type's `receive` function takes.
//!
//! Advice for whoever works here: this loop runs once per field of every file that is loaded. Nothing in it may
//! allocate, and the only branch per field that is not predictable is the type, which repeats with the record.

use super::hot::HotType;
use super::text_check::TextCheck;
use super::unchecked::{self, SLACK_BYTES};
use super::{Encoded, copy_binary_rare};
use crate::column::{Column, ColumnType};
use crate::decode::Decoder;
use crate::dialect::Dialect;
use crate::digest;
use crate::problem::Problem;
use crate::scan::{RawField, Records};
use crate::value::array::ArrayReader;
use crate::value::groups::Groups;
use crate::value::reader::{Reader, Words};
use crate::value::{self, Refusal, ServerVersion, Span};

/// What a binary COPY begins with: signature, flags, length of the header extension.
pub const HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// What a binary COPY ends with.
pub const TRAILER: &[u8; 2] = b"\xff\xff";

/// What the loop needs to know of a column, and no more.
#[derive(Debug, Clone)]
struct FieldPlan {
    hot: HotType,
    kind: ColumnType,
    /// Its index among the record's columns.
    place: usize,
    /// Its field in a record.
    field: usize,
    not_null: bool,
    /// Whether the server sends the value back as it got it.
    digested: bool,
}

/// Encodes the records of one stream.
#[derive(Debug)]
pub struct CopyBinaryEncoder {
    columns: Vec<FieldPlan>,
    /// How many fields a record must have.
    fields: usize,
    /// The part of a record that is digested, where that is not all of it.
    digested_part: Option<Vec<u8>>,
    arrays: ArrayReader,
    decoder: Decoder,
    dialect: Dialect,
    server: ServerVersion,
    /// Bytes that a record can take beyond twice its text: lengths, fixed-width values, padding.
    fixed_bytes: usize,
    digest: Option<u128>,
}

impl CopyBinaryEncoder {
    /// An encoder for `columns`, as the server of version `server` reads them; with `digest`, the order-independent
    /// sum of the 128-bit hashes of the records' digestible columns is kept.
    #[must_use]
    pub fn new(columns: &[Column], dialect: Dialect, server: ServerVersion, digest: bool) -> Self {
        let places: Vec<usize> = (0..columns.len()).collect();
        Self::of_fields(columns, &places, dialect, server, digest)
    }

    /// The same for some fields of the records only, in this order: `places` are indexes into `columns`.
    ///
    /// # Panics
    /// Where one of them is none.
    #[must_use]
    pub fn of_fields(
        columns: &[Column],
        places: &[usize],
        dialect: Dialect,
        server: ServerVersion,
        digest: bool,
    ) -> Self {
        let decoder = Decoder::new(dialect.clone());
        let columns: Vec<FieldPlan> = places
            .iter()
            .map(|&place| FieldPlan {
                digested: columns[place].kind.is_digestible(),
                hot: HotType::of(&columns[place].kind),
                kind: columns[place].kind.clone(),
                place,
                field: dialect.field_of(place),
                not_null: columns[place].not_null,
            })
            .collect();
        let fixed_bytes = 2 + columns.iter().map(|column| fixed_bytes(&column.kind)).sum::<usize>();
        let digested_part = columns.iter().any(|column| !column.digested).then(Vec::new);
        let arrays = ArrayReader::default();
        let digest = digest.then_some(0);
        let fields = columns.iter().map(|column| column.field + 1).max().unwrap_or(0);
        Self { columns, fields, digested_part, arrays, decoder, dialect, server, fixed_bytes, digest }
    }

    /// The sum of the hashes of all records encoded so far, modulo 2^128; 0 where none was asked for.
    #[must_use]
    pub fn digest(&self) -> u128 {
        self.digest.unwrap_or(0)
    }

    /// Appends the records to `out`, up to the first that cannot be stored.
    pub fn encode(&mut self, records: &Records<'_>, out: &mut Vec<u8>) -> Encoded {
        self.encode_unless(records, out, |_| false)
    }

    /// Appends the records to `out`, without those that cannot be stored and that `skip` takes; stops at the first
    /// that it does not take. [`Encoded::rows`] counts the skipped ones too.
    #[inline]
    pub fn encode_unless(
        &mut self,
        records: &Records<'_>,
        out: &mut Vec<u8>,
        skip: impl FnMut(&Problem) -> bool,
    ) -> Encoded {
        self.encode_those(records, out, skip, |_, _| true)
    }

    /// As [`CopyBinaryEncoder::encode_unless`], but for the records that `keep` does not want: it gets a record's
    /// index, and its bytes. [`Encoded::rows`] counts those too.
    #[inline]
    pub fn encode_those(
        &mut self,
        records: &Records<'_>,
        out: &mut Vec<u8>,
        skip: impl FnMut(&Problem) -> bool,
        keep: impl FnMut(usize, &[u8]) -> bool,
    ) -> Encoded {
        assert!(records.fields() >= self.fields, "records have all fields");
        if records.is_plain() {
            self.encode_all::<true>(records, out, skip, keep)
        } else {
            self.encode_all::<false>(records, out, skip, keep)
        }
    }

    /// [`CopyBinaryEncoder::encode_those`], for plain records and for others.
    #[inline(always)]
    fn encode_all<const PLAIN: bool>(
        &mut self,
        records: &Records<'_>,
        out: &mut Vec<u8>,
        mut skip: impl FnMut(&Problem) -> bool,
        mut keep: impl FnMut(usize, &[u8]) -> bool,
    ) -> Encoded {
        let check = TextCheck::of(records, self.dialect.family);
        let count = (self.columns.len() as u16).to_be_bytes();
        'records: for row in 0..records.rows() {
            let begin = out.len();
            let room = self.fixed_bytes + 2 * (records.start(row + 1) - records.start(row));
            out.reserve(room);
            out.extend_from_slice(&count);
            let record = records.record::<PLAIN>(row);
            for column in &self.columns {
                let index = column.place;
                // SAFETY: records were seen to have all fields.
                let field = unsafe { record.field(column.field) };
                let (decoder, arrays) = (&mut self.decoder, &mut self.arrays);
                // SAFETY: room for the whole record was reserved, column by column.
                let encoded =
                    unsafe { encode_field((column, index), field, decoder, arrays, check, self.server, room, out) };
                if let Err(refusal) = encoded {
                    out.truncate(begin);
                    let problem = Problem::value(records, row, index, refusal);
                    if skip(&problem) {
                        continue 'records;
                    }
                    return Encoded { rows: row, problem: Some(problem) };
                }
            }
            if !keep(row, &out[begin..]) {
                out.truncate(begin);
                continue;
            }
            if let Some(digest) = &mut self.digest {
                let record = match &mut self.digested_part {
                    None => &out[begin..],
                    Some(part) => {
                        select_digested(&self.columns, &out[begin..], part);
                        part
                    }
                };
                *digest = digest.wrapping_add(digest::of_copy_binary_record(record));
            }
        }
        Encoded { rows: records.rows(), problem: Problem::structure(records) }
    }
}

/// Where each of the records in `bytes`, as [`CopyBinaryEncoder`] makes them, ends.
///
/// # Panics
/// Where `bytes` are no whole records.
#[must_use]
pub fn row_ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        let fields = u16::from_be_bytes([bytes[position], bytes[position + 1]]);
        position += 2;
        for _ in 0..fields {
            let length = &bytes[position..position + 4];
            let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
            // NULL has the length -1 and no bytes.
            position += 4 + usize::try_from(length).unwrap_or(0);
        }
        ends.push(position);
    }
    ends
}

/// The most bytes that a column takes of a record beyond twice its text.
fn fixed_bytes(kind: &ColumnType) -> usize {
    let padding = match kind {
        ColumnType::Char { limit } => *limit as usize,
        _ => 0,
    };
    32 + SLACK_BYTES + padding
}

/// Writes the record that the server sends when it is asked for the digested columns only.
fn select_digested(columns: &[FieldPlan], record: &[u8], part: &mut Vec<u8>) {
    part.clear();
    part.extend_from_slice(&(columns.iter().filter(|column| column.digested).count() as u16).to_be_bytes());
    let mut rest = &record[2..];
    for column in columns {
        // The encoder itself wrote these lengths; -1, for NULL, has no bytes behind it.
        let Some((length, _)) = rest.split_first_chunk::<4>() else { return };
        let end = 4 + i32::from_be_bytes(*length).max(0) as usize;
        if column.digested {
            part.extend_from_slice(&rest[..end]);
        }
        rest = &rest[end..];
    }
}

/// Appends one field.
///
/// # Safety
/// `out` has room for what `fixed_bytes` counts for the column, and for twice the field's text; afterwards it has it
/// for the columns that follow, `room` being that of the whole record.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "inlined: they are the loop's own variables")]
unsafe fn encode_field(
    (column, index): (&FieldPlan, usize),
    field: RawField<'_>,
    decoder: &mut Decoder,
    arrays: &mut ArrayReader,
    check: TextCheck,
    server: ServerVersion,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let Some(text) = decoder.decode(field, index) else {
        if column.not_null {
            return Err(Refusal::NullNotAllowed);
        }
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        return Ok(());
    };
    // SAFETY: by the caller's promise.
    unsafe { encode_value((column.hot, &column.kind), field, text, Some(arrays), check, server, room, out) }
}

/// Appends an element of an array behind its length.
///
/// # Errors
/// What the type's parser says.
#[inline(never)]
pub(super) fn put_element(
    kind: &ColumnType,
    text: &[u8],
    server: ServerVersion,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let room = fixed_bytes(kind) + 2 * text.len();
    out.reserve(room);
    // SAFETY: the room was just reserved.
    unsafe {
        let kind = (HotType::of(kind), kind);
        encode_value(kind, RawField::new(text, true), text, None, TextCheck::PASSED, server, room, out)
    }
}

/// Appends one value behind its length; arrays only where there is somebody to read them.
///
/// # Safety
/// As for [`encode_field`].
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "inlined: they are the loop's own variables")]
unsafe fn encode_value(
    (hot, kind): (HotType, &ColumnType),
    field: RawField<'_>,
    text: &[u8],
    arrays: Option<&mut ArrayReader>,
    check: TextCheck,
    server: ServerVersion,
    room: usize,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let span = field.span(text);
    // SAFETY: fixed widths are 24 bytes at most, of the 96 counted per column; texts take their own length, of the
    // twice counted, their padding, which is counted, and a slack of 64.
    unsafe {
        match hot {
            HotType::Bool => put_value(out, [u8::from(value::boolean::parse(text)?)]),
            HotType::Int2 => put_value(out, value::integer::parse_int2(span, server)?.to_be_bytes()),
            HotType::Int4 => put_value(out, value::integer::parse_int4(span, server)?.to_be_bytes()),
            HotType::Int8 => put_value(out, value::integer::parse_int8(span, server)?.to_be_bytes()),
            HotType::Float4 => put_value(out, value::float::parse_float4(text)?.to_be_bytes()),
            HotType::Float8 => put_value(out, value::float::parse_float8(text)?.to_be_bytes()),
            HotType::Date => put_value(out, value::date::parse(text)?.to_be_bytes()),
            HotType::Timestamp(precision) => {
                put_value(out, value::timestamp::parse_with_precision(text, precision)?.to_be_bytes());
            }
            HotType::Numeric(typmod) => {
                match Words.groups(span, typmod.into()) {
                    Some(groups) => put_groups(out, groups),
                    None => {
                        put_numeric(out, text, Some(typmod), server)?;
                        // `1e1000` has more digits than characters: what it took of the room is given back.
                        out.reserve(room);
                    }
                }
            }
            HotType::Text => {
                check.check(field, text)?;
                put_text(out, span, 0);
            }
            HotType::Varchar(limit) => {
                check.check(field, text)?;
                put_text(out, span.prefix(value::text::fit_varchar(text, limit)?.len()), 0);
            }
            HotType::Char(limit) => {
                check.check(field, text)?;
                let (text, padding) = check.fit_char(field, text, limit)?;
                put_text(out, span.prefix(text.len()), padding);
            }
            HotType::TimestampTz(..) | HotType::Uuid | HotType::Rare => match kind {
                ColumnType::Decimal => {
                    put_numeric(out, text, None, server)?;
                    out.reserve(room);
                }
                ColumnType::Array(array) => {
                    let reader = arrays.ok_or(Refusal::Unsure)?;
                    copy_binary_rare::put_array(array, field, text, check, reader, server, out)?;
                    // `{1,2}` has fewer characters than its elements have bytes.
                    out.reserve(room);
                }
                _ => copy_binary_rare::put(kind, field, text, check, out)?,
            },
        }
    }
    Ok(())
}

/// A value of fixed width behind its length.
///
/// # Safety
/// `out` has room for both.
#[inline(always)]
unsafe fn put_value<const WIDTH: usize>(out: &mut Vec<u8>, value: [u8; WIDTH]) {
    // SAFETY: by the caller's promise.
    unsafe {
        unchecked::put(out, (WIDTH as i32).to_be_bytes());
        unchecked::put(out, value);
    }
}

/// Text and `padding` spaces behind their length.
///
/// # Safety
/// `out` has room for all of it and the slack.
#[inline(always)]
unsafe fn put_text(out: &mut Vec<u8>, span: Span<'_>, padding: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        unchecked::put(out, ((span.text().len() + padding) as i32).to_be_bytes());
        unchecked::put_text(out, span);
        if padding > 0 {
            unchecked::put_spaces(out, padding);
        }
    }
}

/// A `numeric` of few digits behind its length.
///
/// # Safety
/// `out` has room for 20 bytes.
#[inline(always)]
unsafe fn put_groups(out: &mut Vec<u8>, groups: Groups) {
    let (bytes, length) = groups.sent();
    // SAFETY: by the caller's promise; all bytes are written, of which some count.
    unsafe {
        unchecked::put(out, (length as i32).to_be_bytes());
        unchecked::put(out, bytes);
        out.set_len(out.len() - bytes.len() + length);
    }
}

/// A number that says itself how long it is.
#[inline(never)]
fn put_numeric(
    out: &mut Vec<u8>,
    text: &[u8],
    typmod: Option<value::numeric::Typmod>,
    server: ServerVersion,
) -> Result<(), Refusal> {
    let place = out.len();
    out.extend_from_slice(&[0; 4]);
    value::numeric::encode_short(text, typmod, server, out)?;
    let length = (out.len() - place - 4) as i32;
    out[place..place + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
