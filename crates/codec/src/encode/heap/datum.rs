//! One value as it is stored: aligned, in the machine's own byte order, behind a header where its length varies.

use super::layout::{LONG_HEADER_BYTES, LONGEST_SHORT};
use crate::column::ColumnType;
use crate::encode::text_check::TextCheck;
use crate::encode::unchecked;
use crate::scan::RawField;
use crate::value::numeric::{ShortForm, Typmod};
use crate::value::{self, Refusal, ServerVersion};

/// Appends a value; says whether its length varies. The length of `out` is the value's place in the tuple.
///
/// # Errors
/// What the type's parser says.
///
/// # Safety
/// `out` has room for `FIXED_BYTES`, for twice the text, and for the padding of `char(n)`; afterwards it has it for the
/// columns that follow, `room` being that of the whole record.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "inlined: they are the loop's own variables")]
pub(super) unsafe fn put(
    kind: &ColumnType,
    field: RawField<'_>,
    text: &[u8],
    check: TextCheck,
    server: ServerVersion,
    room: usize,
    numeric: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<bool, Refusal> {
    // A decoded text lies in a buffer of its own, behind which nothing may be read.
    let readable = if field.marked { text.len() } else { field.readable };
    // SAFETY: by the caller's promise: values of fixed width take 16 bytes and 7 of alignment; texts their own length
    // and padding, 4 bytes of header, 3 of alignment, and the slack.
    unsafe {
        match *kind {
            ColumnType::Bool => put_fixed(out, [u8::from(value::boolean::parse(text)?)], 1),
            ColumnType::Int2 => put_fixed(out, value::integer::parse_int2(text, server)?.to_le_bytes(), 2),
            ColumnType::Int4 => put_fixed(out, value::integer::parse_int4(text, server)?.to_le_bytes(), 4),
            ColumnType::Int8 => put_fixed(out, value::integer::parse_int8(text, server)?.to_le_bytes(), 8),
            ColumnType::Date => put_fixed(out, value::date::parse(text)?.to_le_bytes(), 4),
            ColumnType::Numeric { precision, scale } => {
                put_numeric(text, Some(Typmod { precision, scale }), server, room, numeric, out)?;
                return Ok(true);
            }
            ColumnType::Text => {
                check.check(field, text)?;
                put_text(out, text, readable, 0);
                return Ok(true);
            }
            ColumnType::Varchar { limit } => {
                check.check(field, text)?;
                put_text(out, value::text::fit_varchar(text, limit)?, readable, 0);
                return Ok(true);
            }
            ColumnType::Char { limit } => {
                check.check(field, text)?;
                let (text, padding) = check.fit_char(field, text, limit)?;
                put_text(out, text, readable, padding);
                return Ok(true);
            }
            _ => return put_rare(kind, text, server, room, numeric, out),
        }
    }
    Ok(false)
}

/// [`put`] for the types that are rarer than numbers, texts and dates.
///
/// # Safety
/// As for [`put`].
#[inline(never)]
unsafe fn put_rare(
    kind: &ColumnType,
    text: &[u8],
    server: ServerVersion,
    room: usize,
    numeric: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<bool, Refusal> {
    // SAFETY: by the caller's promise, which is that of `put`.
    unsafe {
        match *kind {
            ColumnType::Float4 => put_fixed(out, value::float::parse_float4(text)?.to_le_bytes(), 4),
            ColumnType::Float8 => put_fixed(out, value::float::parse_float8(text)?.to_le_bytes(), 8),
            ColumnType::Timestamp { precision } => {
                put_fixed(out, value::timestamp::parse_with_precision(text, precision)?.to_le_bytes(), 8);
            }
            ColumnType::TimestampTz { precision, utc } => {
                put_fixed(out, value::timestamp::parse_tz(text, precision, utc)?.to_le_bytes(), 8);
            }
            ColumnType::Time { precision } => put_fixed(out, value::time::parse(text, precision)?.to_le_bytes(), 8),
            ColumnType::TimeTz { precision } => {
                let time = value::time::parse_tz(text, precision)?;
                put_fixed(out, time.micros.to_le_bytes(), 8);
                put_fixed(out, time.seconds_west.to_le_bytes(), 4);
            }
            ColumnType::Interval { precision } => {
                let interval = value::interval::parse(text, precision)?;
                put_fixed(out, interval.micros.to_le_bytes(), 8);
                put_fixed(out, interval.days.to_le_bytes(), 4);
                put_fixed(out, interval.months.to_le_bytes(), 4);
            }
            ColumnType::Uuid => put_fixed(out, value::uuid::parse(text)?, 1),
            ColumnType::Decimal => {
                put_numeric(text, None, server, room, numeric, out)?;
                return Ok(true);
            }
            ColumnType::Bytea => {
                numeric.clear();
                value::bytea::append(text, numeric)?;
                put_bytes(numeric, room, out);
                return Ok(true);
            }
            _ => return Err(Refusal::Unsure),
        }
    }
    Ok(false)
}

/// A value of fixed width, aligned.
///
/// # Safety
/// `out` has room for it and 7 more bytes.
#[inline(always)]
unsafe fn put_fixed<const WIDTH: usize>(out: &mut Vec<u8>, value: [u8; WIDTH], align: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        self::align(out, align);
        unchecked::put(out, value);
    }
}

/// Fills up with zeros to a multiple of `align`, 8 at most.
///
/// # Safety
/// `out` has room for 8 bytes.
#[inline(always)]
unsafe fn align(out: &mut Vec<u8>, align: usize) {
    if align > 1 {
        let length = out.len();
        // SAFETY: by the caller's promise; the new length is at most 7 bytes further, all of them written.
        unsafe {
            unchecked::put(out, [0; 8]);
            out.set_len((length + align - 1) & !(align - 1));
        }
    }
}

/// The header of a value of `length` bytes: one byte where that is enough, else four, aligned.
///
/// # Safety
/// `out` has room for 12 bytes.
#[inline(always)]
unsafe fn put_header(out: &mut Vec<u8>, length: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        if length <= LONGEST_SHORT {
            unchecked::put(out, [((length + 1) << 1) as u8 | 1]);
        } else {
            align(out, 4);
            unchecked::put(out, (((length + LONG_HEADER_BYTES) as u32) << 2).to_le_bytes());
        }
    }
}

/// Text and `padding` spaces behind their header.
///
/// # Safety
/// `out` has room for all of it, 12 bytes and the slack; `readable` bytes from the start of `text` are readable.
#[inline(always)]
unsafe fn put_text(out: &mut Vec<u8>, text: &[u8], readable: usize, padding: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        put_header(out, text.len() + padding);
        unchecked::put_text(out, text, readable);
        if padding > 0 {
            unchecked::put_spaces(out, padding);
        }
    }
}

/// Bytes of any number behind their header.
fn put_bytes(bytes: &[u8], room: usize, out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 16);
    // SAFETY: the room was just reserved.
    unsafe { put_header(out, bytes.len()) };
    out.extend_from_slice(bytes);
    out.reserve(room);
}

/// What [`put_form`] writes.
const SHORT_FORM_BYTES: usize = 11;

/// `NUMERIC_SHORT_DSCALE_MAX`
const LARGEST_SHORT_SCALE: u16 = 0x3F;

/// A `numeric` (utils/adt/numeric.c, "make_result"): one word with sign, scale and weight where they are small, else
/// two, and the digits base 10,000.
#[inline(always)]
unsafe fn put_numeric(
    text: &[u8],
    typmod: Option<Typmod>,
    server: ServerVersion,
    room: usize,
    wire: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    match value::numeric::read_price(text, typmod) {
        // SAFETY: by the caller's promise: it takes 11 bytes.
        Some(form) => unsafe { put_form(form, out) },
        None => put_other_numeric(text, typmod, server, room, wire, out)?,
    }
    Ok(())
}

/// What is not as regular as a price. Apart, so that the caller's hot path stays small.
#[inline(never)]
fn put_other_numeric(
    text: &[u8],
    typmod: Option<Typmod>,
    server: ServerVersion,
    room: usize,
    wire: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    match value::numeric::read_short(text, typmod)? {
        Some(form) if form.display_scale() <= LARGEST_SHORT_SCALE => {
            out.reserve(SHORT_FORM_BYTES);
            // SAFETY: the room was just reserved.
            unsafe { put_form(form, out) };
            Ok(())
        }
        _ => put_numeric_slowly(text, typmod, server, room, wire, out),
    }
}

#[inline(never)]
fn put_numeric_slowly(
    text: &[u8],
    typmod: Option<Typmod>,
    server: ServerVersion,
    room: usize,
    wire: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    wire.clear();
    value::numeric::encode_binary(text, typmod, server, wire)?;
    let mut stored = Vec::with_capacity(wire.len());
    store_numeric(wire, &mut stored);
    put_bytes(&stored, room, out);
    Ok(())
}

/// A number of at most four digits with the short header: at most [`LARGEST_SHORT_SCALE`] decimal places.
///
/// # Safety
/// `out` has room for 11 bytes.
#[inline(always)]
unsafe fn put_form(form: ShortForm, out: &mut Vec<u8>) {
    let count = form.count();
    let header = short_header(form.is_negative(), form.display_scale(), form.weight());
    let length = out.len();
    // Four digits, each with its lower byte first.
    let digits = form.digits().swap_bytes();
    let digits = (digits & 0x00FF_00FF_00FF_00FF) << 8 | (digits >> 8) & 0x00FF_00FF_00FF_00FF;
    // SAFETY: by the caller's promise; the new length takes in at most what was written.
    unsafe {
        unchecked::put(out, [((3 + 2 * count) << 1) as u8 | 1]);
        unchecked::put(out, header.to_le_bytes());
        unchecked::put(out, digits.to_le_bytes());
        out.set_len(length + 3 + 2 * count.min(4));
    }
}

/// `NUMERIC_SHORT` with its parts.
#[inline(always)]
const fn short_header(negative: bool, display_scale: u16, weight: i16) -> u16 {
    0x8000 | (negative as u16) << 13 | display_scale << 7 | (weight as u16) & 0x7F
}

/// Turns the form of `numeric_send` into the stored one, without a header for its length.
fn store_numeric(wire: &[u8], out: &mut Vec<u8>) {
    let word = |place: usize| u16::from_be_bytes([wire[2 * place], wire[2 * place + 1]]);
    let (weight, sign, display_scale) = (word(1) as i16, word(2), word(3));
    if sign & 0xC000 == 0xC000 {
        // NaN and the infinities are a header and nothing else.
        out.extend_from_slice(&sign.to_le_bytes());
        return;
    }
    if display_scale <= LARGEST_SHORT_SCALE && (-0x40..=0x3F).contains(&weight) {
        out.extend_from_slice(&short_header(sign != 0, display_scale, weight).to_le_bytes());
    } else {
        out.extend_from_slice(&(sign | display_scale).to_le_bytes());
        out.extend_from_slice(&weight.to_le_bytes());
    }
    for place in 4..wire.len() / 2 {
        out.extend_from_slice(&word(place).to_le_bytes());
    }
}
