//! Four texts of a window, for readers that read as many at once.

/// Where four texts stand in a window. Behind each is one byte more.
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
}

/// Four numbers as they are stored, each in as many of its bytes as its length says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FourStored {
    pub(crate) bytes: [[u8; 16]; 4],
    pub(crate) lengths: [u64; 4],
}
