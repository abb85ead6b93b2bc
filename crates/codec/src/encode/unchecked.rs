//! Writes into a `Vec` whose room was reserved for a whole record before: no check per value.
//!
//! Advice for whoever works here: a copy of variable length is a call and a mispredicted branch per field, which is
//! what this loop spends its time on; so short texts are copied in blocks of fixed size, past their end. That needs
//! [`SLACK_BYTES`] of room behind the record in the output, and enough bytes behind the field in the window.

use crate::value::Span;

/// Bytes that a write may touch behind the end of what it writes.
pub(super) const SLACK_BYTES: usize = 64;

/// Appends `value`.
///
/// # Safety
/// `out` has room for `WIDTH` more bytes.
#[inline(always)]
pub(super) unsafe fn put<const WIDTH: usize>(out: &mut Vec<u8>, value: [u8; WIDTH]) {
    debug_assert!(out.capacity() - out.len() >= WIDTH, "room was reserved");
    let length = out.len();
    // SAFETY: by the caller's promise; a byte array needs no alignment.
    unsafe {
        out.as_mut_ptr().add(length).cast::<[u8; WIDTH]>().write(value);
        out.set_len(length + WIDTH);
    }
}

/// Appends a text.
///
/// # Safety
/// `out` has room for the text and [`SLACK_BYTES`] more.
#[inline(always)]
pub(super) unsafe fn put_text(out: &mut Vec<u8>, span: Span<'_>) {
    let text = span.text().len();
    debug_assert!(out.capacity() - out.len() >= text + SLACK_BYTES, "room was reserved");
    let length = out.len();
    // SAFETY: by the caller's promise.
    unsafe {
        copy_text(out.as_mut_ptr().add(length), span);
        out.set_len(length + text);
    }
}

/// Writes a text to `target`.
///
/// # Safety
/// There is room for the text and [`SLACK_BYTES`] more.
#[inline(always)]
pub(super) unsafe fn copy_text(target: *mut u8, span: Span<'_>) {
    let (text, readable) = (span.text(), span.readable());
    // SAFETY: by the caller's promise and the span's; input and output do not overlap.
    unsafe {
        if text.len() <= 16 && readable >= 16 {
            target.cast::<[u8; 16]>().write(text.as_ptr().cast::<[u8; 16]>().read());
        } else if text.len() <= 64 && readable >= 64 {
            target.cast::<[u8; 64]>().write(text.as_ptr().cast::<[u8; 64]>().read());
        } else {
            std::ptr::copy_nonoverlapping(text.as_ptr(), target, text.len());
        }
    }
}

/// Appends `count` spaces.
///
/// # Safety
/// `out` has room for them and [`SLACK_BYTES`] more.
#[inline(always)]
pub(super) unsafe fn put_spaces(out: &mut Vec<u8>, count: usize) {
    debug_assert!(out.capacity() - out.len() >= count + SLACK_BYTES, "room was reserved");
    let length = out.len();
    // SAFETY: by the caller's promise.
    unsafe {
        fill_spaces(out.as_mut_ptr().add(length), count);
        out.set_len(length + count);
    }
}

/// Writes `count` spaces to `target`.
///
/// # Safety
/// There is room for them and [`SLACK_BYTES`] more.
#[inline(always)]
pub(super) unsafe fn fill_spaces(target: *mut u8, count: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        if count <= 32 {
            target.cast::<[u8; 32]>().write([b' '; 32]);
        } else {
            fill_many_spaces(target, count);
        }
    }
}

/// [`fill_spaces`] for many. Apart, since the compiler makes one call of both, whose length differs.
///
/// # Safety
/// There is room for them.
#[inline(never)]
unsafe fn fill_many_spaces(target: *mut u8, count: usize) {
    // SAFETY: by the caller's promise.
    unsafe { std::ptr::write_bytes(target, b' ', count) };
}
