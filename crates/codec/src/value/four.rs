//! Four texts of a window, for readers that read as many at once.

/// Where four texts stand in a window. Behind each is one byte more.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "the only reader of four texts has AVX-512"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct FourTexts<'w> {
    pub(super) window: &'w [u8],
    /// Where each begins, and where the byte behind it ends.
    pub(super) places: [(u32, u32); 4],
}

impl<'w> FourTexts<'w> {
    /// Texts of a window, by where each begins and where the byte behind it ends.
    ///
    /// # Safety
    /// They are in the window.
    #[inline(always)]
    pub(crate) unsafe fn within(window: &'w [u8], places: [(u32, u32); 4]) -> Self {
        debug_assert!(places.iter().all(|&(start, end)| start < end), "a byte is behind each text");
        debug_assert!(places.iter().all(|&(_, end)| end as usize <= window.len()), "texts are in the window");
        Self { window, places }
    }

    /// Each of them, for a reader that takes them one by one.
    #[cfg(test)]
    pub(crate) fn spans(self) -> [super::Span<'w>; 4] {
        self.places.map(|(start, end)| {
            let (start, end) = (start as usize, end as usize - 1);
            // SAFETY: they are in the window, all of which can be read.
            unsafe { super::Span::within(&self.window[start..end], self.window.len() - start) }
        })
    }
}

/// Four numbers as they are stored, each in as many of its bytes as its length says.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "the only reader of four texts has AVX-512"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct FourStored {
    pub(crate) bytes: [[u8; 16]; 4],
    pub(crate) lengths: [u64; 4],
}
