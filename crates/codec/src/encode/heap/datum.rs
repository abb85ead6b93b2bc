//! One value as it is stored: aligned, in the machine's own byte order, behind a header where its length varies.

use super::layout::{LONG_HEADER_BYTES, LONGEST_SHORT};
use crate::column::ColumnType;
use crate::encode::hot::HotType;
use crate::encode::text_check::TextCheck;
use crate::encode::unchecked;
use crate::scan::RawField;
use crate::value::four::{FourStored, FourTexts};
use crate::value::groups::{Groups, LARGEST_SHORT_SCALE, Stored, short_header};
use crate::value::numeric::{NumericSize, Typmod};
use crate::value::reader::Reader;
use crate::value::{self, Refusal, ServerVersion, Span};

/// Values of one type that are written as most are. A type for each type of column, so that each has a loop of its own.
pub(super) trait Regular: Copy {
    /// Writes a value at `to` and gives where it ends; `None` where it is not regular. How `to` is aligned is how the value
    /// is in its tuple.
    ///
    /// # Safety
    /// As for [`put`].
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8>;

    /// Whether [`Regular::put_four`] is to be tried.
    const TAKES_FOUR: bool = false;

    /// [`Regular::put`] for four records; `None`, and nothing is written, where one of the values is not regular.
    ///
    /// # Safety
    /// As for [`put`], of each.
    #[inline(always)]
    unsafe fn put_four(self, _texts: FourTexts<'_>, _to: [*mut u8; 4]) -> Option<[*mut u8; 4]> {
        None
    }
}

/// Four values of fixed width, aligned.
///
/// # Safety
/// As for [`put_fixed`], of each.
#[inline(always)]
unsafe fn put_four_fixed<const WIDTH: usize>(to: [*mut u8; 4], values: [[u8; WIDTH]; 4], align: usize) -> [*mut u8; 4] {
    // SAFETY: by the caller's promise.
    std::array::from_fn(|place| unsafe { put_fixed(to[place], values[place], align) })
}

/// Integers of so many bytes.
#[derive(Clone, Copy)]
pub(super) struct Integers<R, const WIDTH: usize>(pub(super) R);

impl<R: Reader, const WIDTH: usize> Regular for Integers<R, WIDTH> {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        let value = if WIDTH == 8 { self.0.long_integer(span)? } else { self.0.integer(span)? };
        // SAFETY: by the caller's promise.
        unsafe {
            Some(match WIDTH {
                2 => put_fixed(to, i16::try_from(value).ok()?.to_le_bytes(), 2),
                4 => put_fixed(to, i32::try_from(value).ok()?.to_le_bytes(), 4),
                _ => put_fixed(to, value.to_le_bytes(), 8),
            })
        }
    }

    const TAKES_FOUR: bool = R::READS_FOUR;

    #[inline(always)]
    unsafe fn put_four(self, texts: FourTexts<'_>, to: [*mut u8; 4]) -> Option<[*mut u8; 4]> {
        let values = self.0.four_integers(texts)?;
        let bits = 8 * WIDTH as u32 - 1;
        if WIDTH < 8 && values.iter().any(|&value| value >> bits != value >> 63) {
            return None;
        }
        // SAFETY: by the caller's promise.
        unsafe {
            Some(match WIDTH {
                2 => put_four_fixed(to, values.map(|value| (value as i16).to_le_bytes()), 2),
                4 => put_four_fixed(to, values.map(|value| (value as i32).to_le_bytes()), 4),
                _ => put_four_fixed(to, values.map(i64::to_le_bytes), 8),
            })
        }
    }
}

/// `boolean`
#[derive(Clone, Copy)]
pub(super) struct Booleans;

impl Regular for Booleans {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        let value = value::boolean::parse(span.text()).ok()?;
        // SAFETY: by the caller's promise.
        Some(unsafe { put_fixed(to, [u8::from(value)], 1) })
    }
}

/// `date`
#[derive(Clone, Copy)]
pub(super) struct Dates<R>(pub(super) R);

impl<R: Reader> Regular for Dates<R> {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        // SAFETY: by the caller's promise.
        Some(unsafe { put_fixed(to, self.0.date(span)?.to_le_bytes(), 4) })
    }
}

/// `double precision`
#[derive(Clone, Copy)]
pub(super) struct Doubles<R>(pub(super) R);

impl<R: Reader> Regular for Doubles<R> {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        // SAFETY: by the caller's promise.
        Some(unsafe { put_fixed(to, self.0.double(span)?.to_le_bytes(), 8) })
    }
}

/// `real`
#[derive(Clone, Copy)]
pub(super) struct Singles<R>(pub(super) R);

impl<R: Reader> Regular for Singles<R> {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        // SAFETY: by the caller's promise.
        Some(unsafe { put_fixed(to, value::float::regular_float4(self.0, span)?.to_le_bytes(), 4) })
    }
}

/// `timestamp(p)`
#[derive(Clone, Copy)]
pub(super) struct Timestamps<R>(pub(super) R, pub(super) u8);

impl<R: Reader> Regular for Timestamps<R> {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        let micros = value::timestamp::round(self.0.timestamp(span)?, self.1).ok()?;
        // SAFETY: by the caller's promise.
        Some(unsafe { put_fixed(to, micros.to_le_bytes(), 8) })
    }
}

/// `timestamp(p) with time zone`, and whether the session's time zone is UTC
#[derive(Clone, Copy)]
pub(super) struct ZonedTimestamps<R>(pub(super) R, pub(super) u8, pub(super) bool);

impl<R: Reader> Regular for ZonedTimestamps<R> {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        let micros = value::timestamp::regular_tz(self.0, span, self.2)?;
        let micros = value::timestamp::round(micros, self.1).ok()?;
        // SAFETY: by the caller's promise.
        Some(unsafe { put_fixed(to, micros.to_le_bytes(), 8) })
    }
}

/// `uuid`
#[derive(Clone, Copy)]
pub(super) struct Uuids;

impl Regular for Uuids {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        // SAFETY: by the caller's promise.
        Some(unsafe { put_fixed(to, value::uuid::parse_plain(span.text())?, 1) })
    }
}

/// `numeric(p, s)`
#[derive(Clone, Copy)]
pub(super) struct Numbers<R>(pub(super) R, pub(super) NumericSize);

impl<R: Reader> Regular for Numbers<R> {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        // SAFETY: by the caller's promise.
        Some(unsafe { put_groups(to, self.0.groups(span, self.1)?) })
    }

    const TAKES_FOUR: bool = R::READS_FOUR;

    #[inline(always)]
    unsafe fn put_four(self, texts: FourTexts<'_>, to: [*mut u8; 4]) -> Option<[*mut u8; 4]> {
        let FourStored { bytes, lengths } = self.0.four_groups(texts, self.1)?;
        // SAFETY: by the caller's promise; a byte array needs no alignment.
        Some(std::array::from_fn(|place| unsafe {
            to[place].cast::<[u8; 16]>().write(bytes[place]);
            to[place].add(lengths[place] as usize)
        }))
    }
}

/// `text` and `varchar`, of texts that were found to be valid: so many bytes, at most.
#[derive(Clone, Copy)]
pub(super) struct Texts(pub(super) usize);

impl Regular for Texts {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        // SAFETY: by the caller's promise.
        (span.text().len() <= self.0).then(|| unsafe { put_text(to, span, 0) })
    }
}

/// `char` of so many bytes, of texts in ASCII.
#[derive(Clone, Copy)]
pub(super) struct Chars(pub(super) usize);

impl Regular for Chars {
    #[inline(always)]
    unsafe fn put(self, span: Span<'_>, to: *mut u8) -> Option<*mut u8> {
        let padding = self.0.checked_sub(span.text().len())?;
        // SAFETY: by the caller's promise.
        Some(unsafe { put_text(to, span, padding) })
    }
}

/// Types of which no value is regular.
#[derive(Clone, Copy)]
pub(super) struct Others;

impl Regular for Others {
    #[inline(always)]
    unsafe fn put(self, _span: Span<'_>, _to: *mut u8) -> Option<*mut u8> {
        None
    }
}

/// Writes a value at `to` and gives where it ends. How `to` is aligned is how the value is in its tuple.
///
/// # Errors
/// What the type's parser says.
///
/// # Safety
/// There is room for `FIXED_BYTES`, for twice the text, for the padding of `char(n)`, and for the slack.
pub(super) unsafe fn put(
    hot: HotType,
    kind: &ColumnType,
    field: RawField<'_>,
    text: &[u8],
    check: TextCheck,
    server: ServerVersion,
    to: *mut u8,
) -> Result<*mut u8, Refusal> {
    let span = field.span(text);
    // SAFETY: by the caller's promise: values of fixed width take 16 bytes and 7 of alignment; texts their own length
    // and padding, 4 bytes of header, 3 of alignment, and the slack.
    unsafe {
        Ok(match hot {
            HotType::Bool => put_fixed(to, [u8::from(value::boolean::parse(text)?)], 1),
            HotType::Int2 => put_fixed(to, value::integer::parse_int2(span, server)?.to_le_bytes(), 2),
            HotType::Int4 => put_fixed(to, value::integer::parse_int4(span, server)?.to_le_bytes(), 4),
            HotType::Int8 => put_fixed(to, value::integer::parse_int8(span, server)?.to_le_bytes(), 8),
            HotType::Date => put_fixed(to, value::date::parse(text)?.to_le_bytes(), 4),
            HotType::Numeric(typmod) => put_other_numeric(to, text, Some(typmod), server)?,
            HotType::Text => {
                check.check(field, text)?;
                put_text(to, span, 0)
            }
            HotType::Varchar(limit) => {
                check.check(field, text)?;
                put_text(to, span.prefix(value::text::fit_varchar(text, limit)?.len()), 0)
            }
            HotType::Char(limit) => {
                check.check(field, text)?;
                let (text, padding) = check.fit_char(field, text, limit)?;
                put_text(to, span.prefix(text.len()), padding)
            }
            HotType::Float4
            | HotType::Float8
            | HotType::Timestamp(_)
            | HotType::TimestampTz(..)
            | HotType::Uuid
            | HotType::Rare => put_rare(kind, text, server, to)?,
        })
    }
}

/// [`put`] for the types that are rarer than numbers, texts and dates.
///
/// # Safety
/// As for [`put`].
#[inline(never)]
unsafe fn put_rare(kind: &ColumnType, text: &[u8], server: ServerVersion, to: *mut u8) -> Result<*mut u8, Refusal> {
    // SAFETY: by the caller's promise, which is that of `put`.
    unsafe {
        Ok(match *kind {
            ColumnType::Float4 => put_fixed(to, value::float::parse_float4(text)?.to_le_bytes(), 4),
            ColumnType::Float8 => put_fixed(to, value::float::parse_float8(text)?.to_le_bytes(), 8),
            ColumnType::Timestamp { precision } => {
                put_fixed(to, value::timestamp::parse_with_precision(text, precision)?.to_le_bytes(), 8)
            }
            ColumnType::TimestampTz { precision, utc } => {
                put_fixed(to, value::timestamp::parse_tz(text, precision, utc)?.to_le_bytes(), 8)
            }
            ColumnType::Time { precision } => put_fixed(to, value::time::parse(text, precision)?.to_le_bytes(), 8),
            ColumnType::TimeTz { precision } => {
                let time = value::time::parse_tz(text, precision)?;
                let to = put_fixed(to, time.micros.to_le_bytes(), 8);
                put_fixed(to, time.seconds_west.to_le_bytes(), 4)
            }
            ColumnType::Interval { precision } => {
                let interval = value::interval::parse(text, precision)?;
                let to = put_fixed(to, interval.micros.to_le_bytes(), 8);
                let to = put_fixed(to, interval.days.to_le_bytes(), 4);
                put_fixed(to, interval.months.to_le_bytes(), 4)
            }
            ColumnType::Uuid => put_fixed(to, value::uuid::parse(text)?, 1),
            ColumnType::Decimal => put_other_numeric(to, text, None, server)?,
            ColumnType::Bytea => {
                let mut bytes = Vec::with_capacity(text.len());
                value::bytea::append(text, &mut bytes)?;
                put_bytes(to, &bytes, text)?
            }
            _ => return Err(Refusal::Unsure),
        })
    }
}

/// A value of fixed width, aligned.
///
/// # Safety
/// There is room for it and 15 more bytes.
#[inline(always)]
pub(in crate::encode) unsafe fn put_fixed<const WIDTH: usize>(
    to: *mut u8,
    value: [u8; WIDTH],
    align: usize,
) -> *mut u8 {
    // SAFETY: by the caller's promise; a byte array needs no alignment.
    unsafe {
        let to = self::align(to, align);
        to.cast::<[u8; WIDTH]>().write(value);
        to.add(WIDTH)
    }
}

/// Fills up with zeros to a multiple of `align`, 8 at most.
///
/// # Safety
/// There is room for 8 bytes.
#[inline(always)]
unsafe fn align(to: *mut u8, align: usize) -> *mut u8 {
    if align == 1 {
        return to;
    }
    // SAFETY: by the caller's promise; the new place is at most 7 bytes further, all of them written.
    unsafe {
        to.cast::<[u8; 8]>().write([0; 8]);
        // The next multiple: two instructions, of which `align_offset` makes five.
        to.with_addr((to.addr() + (align - 1)) & !(align - 1))
    }
}

/// The header of a value of `length` bytes: one byte where that is enough, else four, aligned.
///
/// # Safety
/// There is room for 12 bytes.
#[inline(always)]
unsafe fn put_header(to: *mut u8, length: usize) -> *mut u8 {
    // SAFETY: by the caller's promise.
    unsafe {
        if length <= LONGEST_SHORT {
            to.write(((length + 1) << 1) as u8 | 1);
            to.add(1)
        } else {
            put_fixed(to, (((length + LONG_HEADER_BYTES) as u32) << 2).to_le_bytes(), 4)
        }
    }
}

/// Text and `padding` spaces behind their header.
///
/// # Safety
/// There is room for all of it, 12 bytes and the slack.
#[inline(always)]
unsafe fn put_text(to: *mut u8, span: Span<'_>, padding: usize) -> *mut u8 {
    let length = span.text().len();
    // SAFETY: by the caller's promise.
    unsafe {
        let to = put_header(to, length + padding);
        unchecked::copy_text(to, span);
        let to = to.add(length);
        if padding > 0 {
            unchecked::fill_spaces(to, padding);
        }
        to.add(padding)
    }
}

/// Bytes that were made of `text`, behind their header.
///
/// # Errors
/// [`Refusal::Unsure`] where they take more room than was made for the text; none of PostgreSQL's types does that.
///
/// # Safety
/// As for [`put`].
unsafe fn put_bytes(to: *mut u8, bytes: &[u8], text: &[u8]) -> Result<*mut u8, Refusal> {
    if bytes.len() > 2 * text.len() + 32 {
        return Err(Refusal::Unsure);
    }
    // SAFETY: by the caller's promise, and by what was just compared.
    unsafe {
        let to = put_header(to, bytes.len());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        Ok(to.add(bytes.len()))
    }
}

/// A `numeric` that is not as regular as a price. Apart, so that the caller's hot path stays small.
///
/// # Safety
/// As for [`put`].
#[inline(never)]
pub(in crate::encode) unsafe fn put_other_numeric(
    to: *mut u8,
    text: &[u8],
    typmod: Option<Typmod>,
    server: ServerVersion,
) -> Result<*mut u8, Refusal> {
    match value::numeric::read_short(text, typmod)? {
        // SAFETY: by the caller's promise.
        Some(groups) if groups.display_scale() <= LARGEST_SHORT_SCALE => Ok(unsafe { put_groups(to, groups) }),
        _ => {
            let mut sent = Vec::new();
            value::numeric::encode_binary(text, typmod, server, &mut sent)?;
            let mut stored = Vec::with_capacity(sent.len());
            store_numeric(&sent, &mut stored);
            // SAFETY: by the caller's promise.
            unsafe { put_bytes(to, &stored, text) }
        }
    }
}

/// A `numeric` of the value `value / 10^scale`.
///
/// # Safety
/// There is room for 48 bytes.
#[inline(always)]
pub(in crate::encode) unsafe fn put_scaled(to: *mut u8, value: i128, scale: u8) -> Result<*mut u8, Refusal> {
    match value::numeric::read_scaled(value, scale) {
        // SAFETY: by the caller's promise.
        Some(groups) => Ok(unsafe { put_groups(to, groups) }),
        // SAFETY: by the caller's promise; 38 digits and their header are less than that.
        None => unsafe { put_wide(to, value, scale) },
    }
}

/// [`put_scaled`] for what has more than four base-10,000 digits.
///
/// # Safety
/// As for [`put_scaled`].
#[inline(never)]
unsafe fn put_wide(to: *mut u8, value: i128, scale: u8) -> Result<*mut u8, Refusal> {
    let (mut sent, mut stored) = (Vec::with_capacity(32), Vec::with_capacity(32));
    value::numeric::encode_binary_from_scaled(value, scale, &mut sent);
    store_numeric(&sent, &mut stored);
    // SAFETY: by the caller's promise.
    unsafe { put_bytes(to, &stored, &[]) }
}

/// A text that lies anywhere, behind its header.
///
/// # Safety
/// There is room for all of it and 12 bytes.
#[inline(always)]
pub(in crate::encode) unsafe fn put_any_text(to: *mut u8, text: &[u8]) -> *mut u8 {
    // SAFETY: by the caller's promise; nobody else knows the memory that is written.
    unsafe {
        let to = put_header(to, text.len());
        std::ptr::copy_nonoverlapping(text.as_ptr(), to, text.len());
        to.add(text.len())
    }
}

/// A `numeric` with at most [`LARGEST_SHORT_SCALE`] decimal places.
///
/// # Safety
/// There is room for 11 bytes.
#[inline(always)]
unsafe fn put_groups(to: *mut u8, groups: Groups) -> *mut u8 {
    let Stored { head, digits, length } = groups.stored();
    // SAFETY: by the caller's promise; a byte array needs no alignment, and no form is longer than its bytes.
    unsafe {
        to.cast::<[u8; 4]>().write(head.to_le_bytes());
        to.add(3).cast::<[u8; 8]>().write(digits.to_le_bytes());
        to.add(length)
    }
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
