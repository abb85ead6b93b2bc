//! Columns of text: checked as text for PostgreSQL and every other target, and fitted to `varchar(n)` and `char(n)`.

use super::nested;
use crate::column::ColumnType;
use crate::value::{self, Refusal};
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait};
use arrow_schema::DataType;
use std::sync::Arc;

/// Whether the type is one of Arrow's strings.
pub(super) fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The bytes of a string; those of a foreign producer are not known to be UTF-8 before [`check`].
#[inline(always)]
pub(super) fn bytes(array: &dyn Array, row: usize) -> &[u8] {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes(),
        _ => array.as_string_view().value(row).as_bytes(),
    }
}

/// Checks that every value is UTF-8 without NUL; the first row that is not.
pub(super) fn check(array: &dyn Array) -> Option<usize> {
    let clean = match array.data_type() {
        DataType::Utf8 => is_clean(array.as_string::<i32>()),
        DataType::LargeUtf8 => is_clean(array.as_string::<i64>()),
        _ => false,
    };
    if clean {
        return None;
    }
    (0..array.len()).find(|&row| !array.is_null(row) && !is_text(bytes(array, row)))
}

/// Whether the bytes of all values together are text, and no value begins within a character.
fn is_clean<Offset: OffsetSizeTrait>(array: &GenericStringArray<Offset>) -> bool {
    let offsets = array.value_offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    let bytes = &array.value_data()[first..last];
    if bytes.is_ascii() {
        return memchr::memchr(0, bytes).is_none();
    }
    is_text(bytes)
        && offsets.iter().all(|offset| bytes.get(offset.as_usize() - first).is_none_or(|byte| byte & 0xC0 != 0x80))
}

pub(super) fn is_text(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok() && memchr::memchr(0, bytes).is_none()
}

/// Whether there are strings in the lists, structs or maps of the type.
pub(super) fn are_within(data_type: &DataType) -> bool {
    let within = |item: &DataType| is_string(item) || are_within(item);
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => within(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| within(field.data_type())),
        _ => false,
    }
}

/// The first row with a string, at any depth, that is not UTF-8.
pub(super) fn first_garbled(array: &dyn Array) -> Option<usize> {
    nested::first_row(array, &|leaf| {
        let is_garbled = |row| leaf.is_valid(row) && simdutf8::basic::from_utf8(bytes(leaf, row)).is_err();
        if is_string(leaf.data_type()) { (0..leaf.len()).find(|&row| is_garbled(row)) } else { None }
    })
}

/// Fits checked values to their column; the array itself where nothing has to change.
///
/// # Errors
/// The first row that is too long.
pub(super) fn fit(array: &ArrayRef, kind: &ColumnType) -> Result<ArrayRef, (usize, Refusal)> {
    if !matches!(kind, ColumnType::Varchar { .. } | ColumnType::Char { .. }) {
        return Ok(array.clone());
    }
    let mut changes = false;
    for row in (0..array.len()).filter(|&row| !array.is_null(row)) {
        let text = bytes(array.as_ref(), row);
        let (fitted, padding) = fit_one(text, kind).map_err(|refusal| (row, refusal))?;
        changes |= padding > 0 || fitted.len() != text.len();
    }
    if !changes {
        return Ok(array.clone());
    }
    let mut builder = StringBuilder::with_capacity(array.len(), array.len() * 16);
    let mut padded = String::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
            continue;
        }
        let (fitted, padding) = fit_one(bytes(array.as_ref(), row), kind).map_err(|refusal| (row, refusal))?;
        padded.clear();
        // Checked before, and cut only between characters.
        padded.push_str(std::str::from_utf8(fitted).map_err(|_| (row, Refusal::InvalidEncoding))?);
        padded.extend(std::iter::repeat_n(' ', padding));
        builder.append_value(&padded);
    }
    Ok(Arc::new(builder.finish()))
}

/// One text as its column stores it, and the spaces to add to it.
#[inline(always)]
fn fit_one<'t>(text: &'t [u8], kind: &ColumnType) -> Result<(&'t [u8], usize), Refusal> {
    match kind {
        ColumnType::Varchar { limit } => Ok((value::text::fit_varchar(text, *limit)?, 0)),
        ColumnType::Char { limit } => value::text::fit_char(text, *limit),
        _ => Ok((text, 0)),
    }
}
