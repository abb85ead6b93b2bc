//! A text in the middle of a window, of which a load of fixed size may take more than belongs to it.
//!
//! Where a text ends decides how many bytes a careful reader loads, which is a branch that the processor cannot foresee
//! and a dozen instructions per number. Nearly every text has eight more bytes behind it, though: those of the record.

/// A text, and how many bytes from its start on may be read.
#[derive(Debug, Clone, Copy)]
pub struct Span<'t> {
    text: &'t [u8],
    /// At least the length of `text`.
    readable: usize,
}

impl<'t> From<&'t [u8]> for Span<'t> {
    #[inline(always)]
    fn from(text: &'t [u8]) -> Self {
        Self { text, readable: text.len() }
    }
}

impl<'t, const LENGTH: usize> From<&'t [u8; LENGTH]> for Span<'t> {
    fn from(text: &'t [u8; LENGTH]) -> Self {
        Self::from(text.as_slice())
    }
}

impl<'t> Span<'t> {
    /// A text behind which there is more.
    ///
    /// # Safety
    /// From the start of `text` on `readable` bytes can be read as long as `text` lives; they are no fewer than it has.
    #[inline(always)]
    pub(crate) unsafe fn within(text: &'t [u8], readable: usize) -> Self {
        debug_assert!(readable >= text.len(), "a text can be read itself");
        Self { text, readable }
    }

    /// The text itself.
    #[inline(always)]
    #[must_use]
    pub fn text(self) -> &'t [u8] {
        self.text
    }

    /// How many bytes from its start on can be read.
    #[inline(always)]
    pub(crate) fn readable(self) -> usize {
        self.readable
    }

    /// Its first `length` bytes.
    ///
    /// # Panics
    /// Where it has fewer.
    #[inline(always)]
    pub(crate) fn prefix(self, length: usize) -> Self {
        Self { text: &self.text[..length], readable: self.readable }
    }

    /// The text without a minus sign that it begins with, and whether there was one.
    #[inline(always)]
    pub(super) fn split_minus(self) -> (bool, Self) {
        match self.text {
            [b'-', rest @ ..] => (true, Self { text: rest, readable: self.readable - 1 }),
            _ => (false, self),
        }
    }

    /// The first eight bytes of the text; where it has fewer, what follows it or zeros.
    #[inline(always)]
    pub(super) fn first_word(self) -> u64 {
        if self.readable >= 8 {
            // SAFETY: so many bytes can be read; an integer read like this needs no alignment.
            u64::from_le_bytes(unsafe { self.text.as_ptr().cast::<[u8; 8]>().read() })
        } else {
            super::digits::load_short(self.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_the_text_and_what_follows_it() {
        let window = b"-12345|xy";
        for length in 0..=8 {
            // SAFETY: the whole window can be read.
            let span = unsafe { Span::within(&window[..length], window.len()) };
            assert_eq!(span.first_word(), u64::from_le_bytes(*b"-12345|x"));
            let mut alone = [0; 8];
            alone[..length].copy_from_slice(&window[..length]);
            assert_eq!(Span::from(&window[..length]).first_word(), u64::from_le_bytes(alone));
            let (negative, rest) = span.split_minus();
            assert_eq!((negative, rest.text()), (length > 0, &window[length.min(1)..length]));
            let expected = if length > 0 { b"12345|xy" } else { b"-12345|x" };
            assert_eq!(rest.first_word(), u64::from_le_bytes(*expected));
        }
    }
}
