//! Memory that is being filled with pages.

use super::layout::{
    ALL_VISIBLE, LAYOUT_VERSION, LINE_POINTER_BYTES, NORMAL, PAGE_HEADER_BYTES, PageLayout, max_align,
};
use std::ops::DerefMut;

/// Fills memory with pages, tuple by tuple, as the server itself would: line pointers from the front, tuples from the
/// back, each page as full as its fillfactor allows.
///
/// Left to the server, which alone knows them: transaction, command, tuple addresses, WAL position and checksum; they
/// are zero.
#[derive(Debug)]
pub struct PageBuffer<M> {
    memory: M,
    layout: PageLayout,
    /// What the layout says of each page: bytes to keep free, and tuples at most.
    reserve: usize,
    most_tuples: usize,
    /// Where the open page begins.
    start: usize,
    /// Its `pd_lower` and `pd_upper`.
    lower: usize,
    upper: usize,
    /// Its tuples; none where no page is open.
    items: usize,
    rows: u64,
}

impl<M: DerefMut<Target = [u8]>> PageBuffer<M> {
    /// Begins to fill `memory`, whatever it holds, of which whole pages are used.
    pub fn new(memory: M, layout: PageLayout) -> Self {
        let (reserve, most_tuples) = (layout.reserve(), layout.most_tuples());
        Self { memory, layout, reserve, most_tuples, start: 0, lower: 0, upper: 0, items: 0, rows: 0 }
    }

    /// Lends itself with its memory as a slice: what the memory is need not be found out for each tuple then.
    pub(in crate::encode) fn lend<T>(&mut self, work: impl FnOnce(&mut PageBuffer<&mut [u8]>) -> T) -> T {
        let Self { memory, layout, reserve, most_tuples, start, lower, upper, items, rows } = self;
        let (layout, reserve, most_tuples) = (*layout, *reserve, *most_tuples);
        let mut lent = PageBuffer {
            memory: &mut **memory,
            layout,
            reserve,
            most_tuples,
            start: *start,
            lower: *lower,
            upper: *upper,
            items: *items,
            rows: *rows,
        };
        let done = work(&mut lent);
        (*start, *lower, *upper, *items, *rows) = (lent.start, lent.lower, lent.upper, lent.items, lent.rows);
        done
    }

    /// How many tuples it has.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Forgets all pages: the memory is filled anew.
    pub fn reset(&mut self) {
        (self.start, self.lower, self.upper, self.items, self.rows) = (0, 0, 0, 0, 0);
    }

    /// The memory, and how many pages are in it.
    pub fn finish(mut self) -> (M, usize) {
        if self.items > 0 {
            self.close_page();
        }
        let pages = self.start / self.layout.block_size;
        (self.memory, pages)
    }

    /// Where to write the next tuple of `length` bytes and what it takes to be aligned, all of which the caller fills;
    /// `None` where no page is left for it.
    ///
    /// # Panics
    /// Where no page can hold such a tuple.
    #[inline(always)]
    pub(super) fn place(&mut self, length: usize) -> Option<&mut [u8]> {
        let taken = max_align(length);
        let free = self.upper - self.lower;
        if free < taken + LINE_POINTER_BYTES + self.reserve || self.items == self.most_tuples || self.items == 0 {
            self.next_page(length)?;
        }
        self.upper -= taken;
        let pointer = self.upper as u32 | NORMAL << 15 | (length as u32) << 17;
        let page = &mut self.memory[self.start..self.start + self.layout.block_size];
        page[self.lower..self.lower + LINE_POINTER_BYTES].copy_from_slice(&pointer.to_le_bytes());
        self.lower += LINE_POINTER_BYTES;
        self.items += 1;
        self.rows += 1;
        Some(&mut page[self.upper..self.upper + taken])
    }

    #[inline(never)]
    fn next_page(&mut self, length: usize) -> Option<()> {
        assert!(length <= self.layout.largest_tuple(), "the caller has compared lengths");
        if self.items > 0 {
            self.close_page();
        }
        if self.start + self.layout.block_size > self.memory.len() {
            return None;
        }
        self.lower = PAGE_HEADER_BYTES;
        self.upper = self.layout.block_size;
        Some(())
    }

    /// Writes the header of the open page, and zeros what is free on it.
    fn close_page(&mut self) {
        let size = self.layout.block_size;
        let page = &mut self.memory[self.start..self.start + size];
        page[self.lower..self.upper].fill(0);
        page[..PAGE_HEADER_BYTES].fill(0);
        let words = [ALL_VISIBLE, self.lower as u16, self.upper as u16, size as u16, size as u16 | LAYOUT_VERSION];
        for (place, word) in words.into_iter().enumerate() {
            page[10 + 2 * place..][..2].copy_from_slice(&word.to_le_bytes());
        }
        self.start += size;
        self.items = 0;
    }
}
