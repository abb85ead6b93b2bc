//! Reads a piece of a source in windows that begin at the start of a record.
//!
//! The buffer keeps the record that a window cut off and reads on behind it; it grows only for a record longer than
//! a window, up to a limit, and shrinks back afterwards.

use super::SourceFile;
use crate::error::Result;
use crate::plan::Piece;
use tipple_codec::dialect::{Dialect, Family};
use tipple_codec::split::{self, State};

/// The bytes now in the buffer.
#[derive(Debug)]
pub struct Window<'b> {
    /// They begin at the start of a record.
    pub bytes: &'b [u8],
    /// How many of them are the source's own: the last record of a file may have been given its record end.
    pub source_bytes: usize,
    /// Where they begin in the source.
    pub offset: u64,
    /// No more follow in this piece, or a record begins behind it that is longer than the limit.
    pub last: bool,
    /// It holds the beginning of one record that is longer than the limit, and nothing else. The next window is to be
    /// that behind it: [`Windows::leave_out`].
    pub overlong: bool,
    /// It is one line that is no record, since a quote is missing or too many in it.
    pub unclosed: bool,
}

/// What was left out of a record that is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// From the record's beginning.
    pub bytes: u64,
    /// Whether the record ended, and not only the piece.
    pub ended: bool,
}

/// What gives windows of one piece, one after the other.
pub trait Windows {
    /// Gives the bytes not consumed yet; `None` at the end of the piece. Reads on first, unless there are `enough`: then
    /// they may be looked at in part, and what is consumed of them is some.
    ///
    /// # Errors
    /// Where reading fails.
    fn fill(&mut self, enough: usize) -> Result<Option<Window<'_>>>;

    /// Marks the first `bytes` of the window as done.
    fn consume(&mut self, bytes: usize);

    /// Goes on behind the record that is longer than the limit. `go_on` is asked now and then: such a record may be
    /// most of a file.
    ///
    /// # Errors
    /// Where reading fails; what `go_on` says.
    fn leave_out(&mut self, go_on: &mut dyn FnMut() -> Result<()>) -> Result<LeftOut>;

    /// Goes back to this offset in the source, of what was left out; says whether that can be read once more.
    fn go_back(&mut self, offset: u64) -> bool;
}

/// Reads one piece.
#[derive(Debug)]
pub struct WindowReader<'s, 'p> {
    source: &'s SourceFile<'p>,
    piece: Piece,
    buffer: &'s mut Vec<u8>,
    /// Bytes of `buffer` that were consumed.
    begin: usize,
    /// Bytes of the piece that are in the buffer or were consumed.
    read: u64,
    /// Offset in the source of `buffer[begin]`.
    offset: u64,
    window_bytes: usize,
    max_record_bytes: usize,
    dialect: &'s Dialect,
    /// The last record of the file has got its record end.
    ended: bool,
    /// Something of the last window was consumed: what is left may be whole records, and not one that is too long.
    went_on: bool,
}

impl<'s, 'p> WindowReader<'s, 'p> {
    /// A reader of `piece`, with a buffer that is used again and again.
    pub fn new(
        source: &'s SourceFile<'p>,
        piece: Piece,
        buffer: &'s mut Vec<u8>,
        window_bytes: usize,
        max_record_bytes: usize,
        dialect: &'s Dialect,
    ) -> Self {
        buffer.clear();
        Self {
            source,
            piece,
            buffer,
            begin: 0,
            read: 0,
            offset: piece.offset,
            window_bytes,
            max_record_bytes,
            dialect,
            ended: false,
            went_on: false,
        }
    }

    /// What is read and not consumed.
    fn window(&self) -> Window<'_> {
        Window {
            bytes: &self.buffer[self.begin..],
            source_bytes: (self.piece.offset + self.read - self.offset) as usize,
            offset: self.offset,
            last: self.read == self.piece.length,
            overlong: false,
            unclosed: false,
        }
    }

    /// The last record of a file need not have a record end; give it one.
    ///
    /// As COPY does, a backslash that is the last byte of the file is dropped, and a carriage return that is the last
    /// byte of a file with CR LF stays data, which the scanner then refuses.
    fn end_last_record(&mut self) {
        end_last_record(self.buffer, self.dialect.line_end.bytes(), self.dialect.family == Family::Text);
    }
}

impl Windows for WindowReader<'_, '_> {
    fn fill(&mut self, enough: usize) -> Result<Option<Window<'_>>> {
        let pending = self.buffer.len() - self.begin;
        let left = self.piece.length - self.read;
        if pending == 0 && left == 0 {
            return Ok(None);
        }
        if pending > 0 && (pending >= enough || left == 0) {
            return Ok(Some(self.window()));
        }
        self.buffer.copy_within(self.begin.., 0);
        self.begin = 0;
        // A window that holds no whole record is doubled.
        let target = if pending * 2 > self.window_bytes { pending * 2 } else { self.window_bytes };
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(target - pending);
        if pending >= self.max_record_bytes && left > 0 {
            // Behind what was moved to the front, bytes are left that stand there already.
            self.buffer.truncate(pending);
            let (bytes, overlong) = (&self.buffer[..], !self.went_on);
            let (source_bytes, offset) = (pending, self.offset);
            return Ok(Some(Window { bytes, source_bytes, offset, last: false, overlong, unclosed: false }));
        }
        self.buffer.resize(pending + wanted, 0);
        self.source.read_exact_at(&mut self.buffer[pending..], self.piece.offset + self.read)?;
        self.read += wanted as u64;
        let all_is_read = self.read == self.piece.length;
        if all_is_read && !self.ended && self.piece.offset + self.piece.length == self.source.planned().size {
            self.end_last_record();
            self.ended = true;
        }
        Ok(Some(self.window()))
    }

    fn consume(&mut self, bytes: usize) {
        self.begin += bytes;
        self.offset += bytes as u64;
        self.went_on = bytes > 0;
    }

    fn leave_out(&mut self, go_on: &mut dyn FnMut() -> Result<()>) -> Result<LeftOut> {
        let begin = self.offset;
        let mut ended = false;
        let (_, mut state) = split::count_records(&self.buffer[self.begin..], State::Outside, self.dialect);
        // The buffer is used again, and is no larger than a window afterwards.
        self.buffer.clear();
        self.buffer.shrink_to(self.window_bytes);
        self.begin = 0;
        while self.read < self.piece.length {
            go_on()?;
            let length = (self.piece.length - self.read).min(self.window_bytes as u64) as usize;
            self.buffer.resize(length, 0);
            self.source.read_exact_at(self.buffer, self.piece.offset + self.read)?;
            if let Some(end) = split::first_record(self.buffer, state, self.dialect) {
                self.read += end as u64;
                ended = true;
                break;
            }
            state = split::count_records(self.buffer, state, self.dialect).1;
            self.read += length as u64;
        }
        self.buffer.clear();
        self.offset = self.piece.offset + self.read;
        Ok(LeftOut { bytes: self.offset - begin, ended })
    }

    fn go_back(&mut self, offset: u64) -> bool {
        self.buffer.clear();
        self.begin = 0;
        self.offset = offset;
        self.read = offset - self.piece.offset;
        self.ended = false;
        true
    }
}

/// Gives the last record its record end, where it has none.
pub(super) fn end_last_record(text: &mut Vec<u8>, line_end: &[u8], escapes: bool) {
    if escapes && ends_with_escape(text) {
        text.pop();
        text.extend_from_slice(line_end);
        return;
    }
    let Some((last, before)) = text.split_last() else { return };
    let ended = Some(last) == line_end.last();
    if !ended || (escapes && ends_with_escape(before)) {
        text.extend_from_slice(line_end);
    }
}

/// Whether the last byte is a backslash that is not itself made literal by one before it.
pub(super) fn ends_with_escape(bytes: &[u8]) -> bool {
    bytes.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}
