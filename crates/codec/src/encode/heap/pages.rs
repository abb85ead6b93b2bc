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
    at: Position,
}

/// How far it is filled. Whoever fills it keeps this in registers, so nothing may be handed a reference to it.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    /// Where the open page begins.
    start: usize,
    /// Its `pd_lower` and `pd_upper`; 0 where there is no page.
    lower: usize,
    upper: usize,
    /// Its tuples; none where it has just been opened.
    items: usize,
    /// The tuples of all pages.
    rows: u64,
}

impl<M: DerefMut<Target = [u8]>> PageBuffer<M> {
    /// Begins to fill `memory`, whatever it holds, of which whole pages are used.
    pub fn new(memory: M, layout: PageLayout) -> Self {
        let (reserve, most_tuples) = (layout.reserve(), layout.most_tuples());
        Self { memory, layout, reserve, most_tuples, at: Position::default() }
    }

    /// Lends itself with its memory as a slice: what the memory is need not be found out for each tuple then.
    #[inline(always)]
    pub(in crate::encode) fn lend<T>(&mut self, work: impl FnOnce(&mut PageBuffer<&mut [u8]>) -> T) -> T {
        let Self { layout, reserve, most_tuples, at, .. } = *self;
        let mut lent = PageBuffer { memory: &mut *self.memory, layout, reserve, most_tuples, at };
        let done = work(&mut lent);
        self.at = lent.at;
        done
    }

    /// How many tuples it has.
    pub fn rows(&self) -> u64 {
        self.at.rows
    }

    /// Forgets all pages: the memory is filled anew.
    pub fn reset(&mut self) {
        self.at = Position::default();
    }

    /// The memory, and how many pages are in it.
    pub fn finish(mut self) -> (M, usize) {
        let end = self.layout.close_page(&mut self.memory, self.at);
        (self.memory, end / self.layout.block_size)
    }

    /// Where to write the next tuple of `length` bytes and what it takes to be aligned, all of which the caller fills;
    /// `None` where no page is left for it.
    ///
    /// # Panics
    /// Where no page can hold such a tuple.
    #[inline(always)]
    pub(super) fn place(&mut self, length: usize) -> Option<&mut [u8]> {
        let taken = max_align(length);
        let mut at = self.at;
        let free = at.upper - at.lower;
        if free < taken + LINE_POINTER_BYTES + self.reserve || at.items == self.most_tuples || at.items == 0 {
            at = self.layout.next_page(&mut self.memory, at, length);
            if at.upper == 0 {
                self.at = at;
                return None;
            }
        }
        at.upper -= taken;
        let pointer = at.upper as u32 | NORMAL << 15 | (length as u32) << 17;
        let page = &mut self.memory[at.start..at.start + self.layout.block_size];
        page[at.lower..at.lower + LINE_POINTER_BYTES].copy_from_slice(&pointer.to_le_bytes());
        at.lower += LINE_POINTER_BYTES;
        at.items += 1;
        at.rows += 1;
        self.at = at;
        Some(&mut page[at.upper..at.upper + taken])
    }
}

impl PageLayout {
    /// Closes the open page, if there is one, and opens the next, if there is room for it.
    #[inline(never)]
    fn next_page(self, memory: &mut [u8], at: Position, length: usize) -> Position {
        assert!(length <= self.largest_tuple(), "the caller has compared lengths");
        let start = self.close_page(memory, at);
        if start + self.block_size > memory.len() {
            return Position { start, rows: at.rows, ..Position::default() };
        }
        Position { start, lower: PAGE_HEADER_BYTES, upper: self.block_size, items: 0, rows: at.rows }
    }

    /// Writes the header of the open page, if there is one, and zeros what is free on it; gives where the next one begins.
    fn close_page(self, memory: &mut [u8], at: Position) -> usize {
        if at.items == 0 {
            return at.start;
        }
        let size = self.block_size;
        let page = &mut memory[at.start..at.start + size];
        page[at.lower..at.upper].fill(0);
        page[..PAGE_HEADER_BYTES].fill(0);
        let words = [ALL_VISIBLE, at.lower as u16, at.upper as u16, size as u16, size as u16 | LAYOUT_VERSION];
        for (place, word) in words.into_iter().enumerate() {
            page[10 + 2 * place..][..2].copy_from_slice(&word.to_le_bytes());
        }
        at.start + size
    }
}
