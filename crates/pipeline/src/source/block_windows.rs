//! Windows of what was cut into blocks.

use super::block_text::{BlockPiece, BlockText};
use super::window::{LeftOut, Window, Windows};
use crate::error::Result;
use std::ops::Range;
use tipple_codec::dialect::Dialect;
use tipple_codec::split::{self, State};

/// Windows of one piece of a block.
#[derive(Debug)]
pub struct BlockWindows<'b> {
    dialect: &'b Dialect,
    piece: BlockPiece,
    text: &'b [u8],
    /// Lines from `position` on that are no records.
    unclosed: &'b [Range<usize>],
    position: usize,
    window_bytes: usize,
    max_record_bytes: usize,
    /// The window that was given last held no whole record.
    grow: usize,
}

impl<'b> BlockWindows<'b> {
    /// Windows of `piece`, which is one of `block`'s.
    #[must_use]
    pub fn new(
        dialect: &'b Dialect,
        piece: BlockPiece,
        block: &'b BlockText,
        window_bytes: usize,
        max_record_bytes: usize,
    ) -> Self {
        let (position, text, unclosed) = (piece.begin, &block.text, &block.unclosed);
        let mut windows = Self { dialect, piece, text, unclosed, position, window_bytes, max_record_bytes, grow: 0 };
        windows.pass(position);
        windows
    }

    /// Goes on at `position`.
    fn pass(&mut self, position: usize) {
        self.position = position;
        self.unclosed = &self.unclosed[self.unclosed.partition_point(|line| line.start < position)..];
    }

    /// Where what can be read from here on ends: a record that is too long stands by itself, whatever seems to lead into
    /// it, and so does a line that is none.
    fn end(&self) -> usize {
        let overlong = self.piece.overlong.filter(|&overlong| overlong > self.position).unwrap_or(self.piece.end);
        let line = self.unclosed.first().map_or(overlong, |line| line.start);
        overlong.min(line)
    }

    fn offset(&self) -> u64 {
        self.piece.piece.offset + (self.position - self.piece.begin) as u64
    }
}

impl Windows for BlockWindows<'_> {
    fn fill(&mut self, enough: usize) -> Result<Option<Window<'_>>> {
        if self.position == self.piece.end {
            return Ok(None);
        }
        if let Some(line) = self.unclosed.first().filter(|line| line.start == self.position) {
            let (bytes, offset) = (&self.text[line.clone()], self.offset());
            let source_bytes = bytes.len();
            return Ok(Some(Window { bytes, source_bytes, offset, last: false, overlong: false, unclosed: true }));
        }
        let cut_off = self.piece.overlong == Some(self.position);
        let has_enough = self.grow >= enough;
        if cut_off || (!has_enough && self.grow >= self.max_record_bytes.max(self.window_bytes)) {
            let bytes = &self.text[self.position..self.end()];
            let (source_bytes, offset) = (bytes.len(), self.offset());
            return Ok(Some(Window { bytes, source_bytes, offset, last: false, overlong: true, unclosed: false }));
        }
        let rest = self.end() - self.position;
        let length = if has_enough { self.grow } else { self.window_bytes.max(2 * self.grow).min(rest) };
        self.grow = length;
        let own_end = self.piece.begin + self.piece.piece.length as usize;
        let end = self.position + length;
        Ok(Some(Window {
            bytes: &self.text[self.position..end],
            source_bytes: end.min(own_end) - self.position.min(own_end),
            offset: self.offset(),
            last: end == self.end(),
            overlong: false,
            unclosed: false,
        }))
    }

    fn consume(&mut self, bytes: usize) {
        self.pass(self.position + bytes);
        if bytes > 0 {
            self.grow = 0;
        }
    }

    fn leave_out(&mut self, _go_on: &mut dyn FnMut() -> Result<()>) -> Result<LeftOut> {
        let rest = &self.text[self.position..self.end()];
        let end = if self.piece.overlong == Some(self.position) {
            None
        } else {
            split::first_record(rest, State::Outside, self.dialect)
        };
        let length = end.unwrap_or(rest.len());
        self.consume(length);
        Ok(LeftOut { bytes: length as u64, ended: end.is_some() })
    }

    fn go_back(&mut self, offset: u64) -> bool {
        let position = self.piece.begin + (offset - self.piece.piece.offset) as usize;
        // Of such a record the block has only the beginning.
        if self.piece.overlong.is_some_and(|overlong| overlong < position) {
            return false;
        }
        // Nothing goes back in a block whose lines were judged: `unclosed` is empty.
        debug_assert!(self.unclosed.is_empty(), "lines behind {position} were passed");
        self.position = position;
        self.grow = 0;
        true
    }
}
