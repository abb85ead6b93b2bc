//! Cuts sources that are read as streams into blocks of whole records, while they are read.
//!
//! A block is the shortest run of whole records that is not shorter than the plan says; small sources share one. So
//! where blocks begin depends on nothing but the text, and an interrupted job finds the same ones again.

use super::SourceFile;
use super::cut::end_marker_bytes;
use super::locate;
use super::text::{CHUNK_BYTES, TextReader, Unreadable};
use super::window::{LeftOut, Window, Windows, end_last_record, too_long};
use crate::counters::Counters;
use crate::error::{BadRecord, Error, Result};
use crate::plan::{Piece, Source};
use std::sync::Arc;
use tipple_codec::dialect::{Dialect, Family};
use tipple_codec::split::{self, State};

/// The most sources that one block groups.
const MAX_PIECES: usize = 1024;

/// Whole records of one source in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPiece {
    /// Where they stand in their source's text.
    pub piece: Piece,
    /// The number of the first one, from 1, the header not counted.
    pub first_record: u64,
    /// Where they begin in the block.
    pub begin: usize,
    /// Where they end in the block; the last record of a source may have been given its record end.
    pub end: usize,
    /// Where in the block a last record begins that is longer than the limit: the block has its beginning only.
    pub overlong: Option<usize>,
}

/// Whole records of one or several sources.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BlockText {
    /// Their text.
    pub text: Vec<u8>,
    /// Where it comes from.
    pub pieces: Vec<BlockPiece>,
    /// Bytes of the files that were read for it.
    pub file_bytes: u64,
}

/// How to cut.
#[derive(Debug, Clone, Copy)]
pub struct Cutting<'p> {
    /// All sources.
    pub sources: &'p [Source],
    /// How they are written.
    pub dialect: &'p Dialect,
    /// Whether the first record of each is a header.
    pub header: bool,
    /// The least length of a block.
    pub block_bytes: usize,
    /// The most records of a block; 0 where there is no limit.
    pub block_records: u64,
    /// Text that is read at a time; 0 for the default.
    pub chunk_bytes: usize,
    /// The longest record.
    pub max_record_bytes: usize,
    /// Whether bad records are skipped: one that is longer than the limit, or has a byte without a character, then does
    /// not end the source.
    pub skips: bool,
}

/// Cuts the sources of one feed.
pub struct BlockCutter<'p> {
    how: Cutting<'p>,
    counters: Option<Arc<Counters>>,
    feed: std::slice::Iter<'p, usize>,
    open: Option<OpenSource>,
    block: BlockText,
    /// Records of the block, where they are limited; at the end of a source one more, which may have no record end.
    block_records: u64,
    /// Bytes of the block that are whole records, where they are limited.
    whole: usize,
    /// Bytes of the block whose records were counted.
    scanned: usize,
    /// What the bytes before `scanned` have left the reader in.
    state: State,
    /// The record at the end of the block is longer than the limit.
    overlong: Option<Overlong>,
}

/// A record that is longer than the limit, of which the block has the beginning only.
struct Overlong {
    /// Where it begins in the block.
    begin: usize,
    /// Its bytes that were left out so far.
    left_out: u64,
}

struct OpenSource {
    index: usize,
    reader: TextReader,
    /// Where its text begins in the block.
    begin: usize,
    /// The same place in its own text.
    offset: u64,
    /// Records before that place.
    records_before: u64,
    /// Records from there to `scanned`.
    records: u64,
    header: bool,
    begun: bool,
    file_bytes: u64,
}

impl<'p> BlockCutter<'p> {
    /// A cutter of the sources with these indexes.
    #[must_use]
    pub fn new(how: Cutting<'p>, feed: &'p [usize], counters: Option<Arc<Counters>>) -> Self {
        Self {
            how,
            counters,
            feed: feed.iter(),
            open: None,
            block: BlockText::default(),
            block_records: 0,
            whole: 0,
            scanned: 0,
            state: State::Outside,
            overlong: None,
        }
    }

    /// The next block, or `None` at the end; `fresh` is a buffer to use.
    ///
    /// # Errors
    /// Where a source cannot be read, has changed, has a byte that is no text, or a record longer than the limit.
    pub fn next(&mut self, fresh: Vec<u8>) -> Result<Option<BlockText>> {
        let mut fresh = Some(fresh);
        loop {
            let Some(source) = &mut self.open else {
                let full = self.block.text.len() >= self.how.block_bytes
                    || self.block.pieces.len() >= MAX_PIECES
                    || self.is_at_limit();
                let next = if full { None } else { self.feed.next() };
                match next {
                    Some(&index) => self.begin_source(index)?,
                    None if self.block.pieces.is_empty() && self.block.file_bytes == 0 => return Ok(None),
                    None => return Ok(Some(self.hand_out(Vec::new(), &mut fresh))),
                }
                continue;
            };
            if self.overlong.is_some() {
                if let Some(block) = self.leave_out(&mut fresh)? {
                    return Ok(Some(block));
                }
                continue;
            }
            if !source.header
                && let Some(cut) = self.find_cut()
            {
                return Ok(Some(self.cut_at(cut, &mut fresh)));
            }
            if !self.read_on()? {
                self.end_source()?;
            }
        }
    }

    fn begin_source(&mut self, index: usize) -> Result<()> {
        let planned = &self.how.sources[index];
        let reader = TextReader::open(planned, self.how.dialect, self.how.chunk_bytes, self.counters.as_ref())?
            .marking(self.how.skips);
        self.scanned = self.block.text.len();
        self.whole = self.scanned;
        self.state = State::Outside;
        self.open = Some(OpenSource {
            index,
            reader,
            begin: self.scanned,
            offset: 0,
            records_before: 0,
            records: 0,
            header: self.how.header,
            begun: false,
            file_bytes: 0,
        });
        Ok(())
    }

    /// Where the block ends, if that is known: something has to follow, so that the end of a source is seen as such.
    fn find_cut(&mut self) -> Option<usize> {
        if self.how.block_records > 0 {
            return self.find_cut_by_records();
        }
        let source = self.open.as_mut()?;
        let text = &self.block.text;
        let (least, dialect) = (self.how.block_bytes.max(1), self.how.dialect);
        let counted_to = text.len().min(least - 1);
        if self.scanned < counted_to {
            let (records, state) = split::count_records(&text[self.scanned..counted_to], self.state, dialect);
            source.records += records;
            (self.scanned, self.state) = (counted_to, state);
        }
        if text.len() < least {
            return None;
        }
        match split::first_record(&text[self.scanned..], self.state, dialect) {
            Some(length) if self.scanned + length < text.len() => {
                source.records += 1;
                Some(self.scanned + length)
            }
            Some(_) => None,
            None => {
                self.state = split::count_records(&text[self.scanned..], self.state, dialect).1;
                self.scanned = text.len();
                None
            }
        }
    }

    fn is_at_limit(&self) -> bool {
        self.how.block_records > 0 && self.block_records >= self.how.block_records
    }

    /// The same where records are limited: they are looked at one by one.
    fn find_cut_by_records(&mut self) -> Option<usize> {
        while !self.is_at_limit() && self.whole < self.how.block_bytes.max(1) {
            let rest = &self.block.text[self.scanned..];
            let Some(length) = split::first_record(rest, self.state, self.how.dialect) else {
                self.state = split::count_records(rest, self.state, self.how.dialect).1;
                self.scanned = self.block.text.len();
                return None;
            };
            self.scanned += length;
            self.whole = self.scanned;
            self.state = State::Outside;
            self.block_records += 1;
            self.open.as_mut()?.records += 1;
        }
        (self.whole < self.block.text.len()).then_some(self.whole)
    }

    /// Reads on in a record that is longer than the limit, and hands out the block where it ends.
    fn leave_out(&mut self, fresh: &mut Option<Vec<u8>>) -> Result<Option<BlockText>> {
        let (Some(source), Some(overlong)) = (&mut self.open, &mut self.overlong) else { return Ok(None) };
        if self.counters.as_ref().is_some_and(|counters| counters.is_cancelled()) {
            return Err(Error::Cancelled);
        }
        let mut text = Vec::new();
        let more = match source.reader.read(&mut text) {
            Ok(more) => more,
            Err(Unreadable::Source(error)) => return Err(error),
            Err(Unreadable::Undecodable { offset, encoding }) => return Err(self.undecodable(offset, &encoding)),
        };
        let end = split::first_record(&text, self.state, self.how.dialect);
        if end.is_none() && more {
            overlong.left_out += text.len() as u64;
            self.state = split::count_records(&text, self.state, self.how.dialect).1;
            return Ok(None);
        }
        let end = end.unwrap_or(text.len());
        source.records += 1;
        let own_end = self.block.text.len() as u64 + overlong.left_out + end as u64;
        self.close_piece(own_end as usize);
        self.overlong = None;
        self.note_file_bytes();
        if let Some(source) = &mut self.open {
            source.begin = 0;
        }
        self.scanned = 0;
        self.whole = 0;
        self.state = State::Outside;
        Ok(Some(self.hand_out(text[end..].to_vec(), fresh)))
    }

    /// Hands out the block up to `cut`; what follows begins the next one.
    fn cut_at(&mut self, cut: usize, fresh: &mut Option<Vec<u8>>) -> BlockText {
        let rest = self.block.text[cut..].to_vec();
        self.block.text.truncate(cut);
        self.close_piece(cut);
        self.note_file_bytes();
        if let Some(source) = &mut self.open {
            source.begin = 0;
        }
        self.scanned = 0;
        self.whole = 0;
        self.state = State::Outside;
        self.hand_out(rest, fresh)
    }

    fn hand_out(&mut self, rest: Vec<u8>, fresh: &mut Option<Vec<u8>>) -> BlockText {
        self.block_records = 0;
        let mut text = fresh.take().unwrap_or_default();
        text.clear();
        text.reserve(self.how.block_bytes.max(rest.len()) + CHUNK_BYTES);
        text.extend_from_slice(&rest);
        std::mem::replace(&mut self.block, BlockText { text, ..BlockText::default() })
    }

    /// Notes what the open source has in the block, up to `end`; `own_end` is without a record end that was added.
    fn close_piece(&mut self, own_end: usize) {
        let Some(source) = &mut self.open else { return };
        let length = (own_end - source.begin) as u64;
        if length > 0 {
            self.block.pieces.push(BlockPiece {
                piece: Piece { source: source.index, offset: source.offset, length },
                first_record: source.records_before + 1,
                begin: source.begin,
                end: self.block.text.len(),
                overlong: self.overlong.as_ref().map(|overlong| overlong.begin),
            });
        }
        source.offset += length;
        source.records_before += source.records;
        source.records = 0;
    }

    fn note_file_bytes(&mut self) {
        if let Some(source) = &mut self.open {
            let read = source.reader.file_bytes();
            self.block.file_bytes += read - source.file_bytes;
            source.file_bytes = read;
        }
    }

    /// Reads more of the open source; false at its end.
    fn read_on(&mut self) -> Result<bool> {
        let Some(source) = &self.open else { return Ok(false) };
        // What was looked through to its end, so far behind where a block may end, holds one record.
        if self.scanned == self.block.text.len()
            && self.scanned > self.how.block_bytes.saturating_add(self.how.max_record_bytes)
        {
            let start = self.last_record_start(source);
            if self.how.skips {
                let kept = self.block.text.len().min(start + self.how.max_record_bytes);
                let left_out = (self.block.text.len() - kept) as u64;
                self.block.text.truncate(kept);
                self.overlong = Some(Overlong { begin: start, left_out });
                return Ok(true);
            }
            let offset = source.offset + (start - source.begin) as u64;
            return Err(too_long(&self.how.sources[source.index], offset, self.how.max_record_bytes));
        }
        let Some(source) = &mut self.open else { return Ok(false) };
        let text = &mut self.block.text;
        // Doubling would take twice the longest record.
        if text.capacity() - text.len() < CHUNK_BYTES {
            text.reserve_exact(CHUNK_BYTES.max(text.len() / 8));
        }
        let more = match source.reader.read(text) {
            Ok(more) => more,
            Err(Unreadable::Source(error)) => return Err(error),
            Err(Unreadable::Undecodable { offset, encoding }) => return Err(self.undecodable(offset, &encoding)),
        };
        if !source.begun {
            source.begun = true;
            source.offset += source.reader.begin_offset();
        }
        if source.header {
            let header = split::first_record(&text[source.begin..], State::Outside, self.how.dialect);
            if let Some(length) = header {
                text.drain(source.begin..source.begin + length);
                source.offset += length as u64;
                source.header = false;
            } else if text.len() - source.begin > self.how.max_record_bytes {
                return Err(Error::Invalid {
                    message: format!(
                        "{}: the header is longer than {} bytes; an unclosed quote?",
                        self.how.sources[source.index].path.display(),
                        self.how.max_record_bytes
                    ),
                });
            }
        }
        Ok(more)
    }

    /// Where in the block the record that has no end yet begins.
    fn last_record_start(&self, source: &OpenSource) -> usize {
        let mut start = source.begin;
        while let Some(length) = split::first_record(&self.block.text[start..], State::Outside, self.how.dialect) {
            start += length;
        }
        start
    }

    fn undecodable(&self, offset: u64, encoding: &str) -> Error {
        let Some(source) = &self.open else {
            return Error::Internal { message: "an undecodable byte in no source".into() };
        };
        let text = &self.block.text[source.begin..];
        let (records, _) = split::count_records(text, State::Outside, self.how.dialect);
        let start = self.last_record_start(source);
        Error::BadRecord(Box::new(BadRecord {
            file: self.how.sources[source.index].path.display().to_string(),
            record_number: source.records_before + records + u64::from(!source.header),
            byte_offset: Some(source.offset + (start - source.begin) as u64),
            column: None,
            text: locate::shown(&self.block.text[start..]),
            reason: format!("the byte at offset {offset} of the unpacked file is no character of {encoding}"),
            sqlstate: Some("22021".into()),
            remedy: "check --encoding, or mend the record".into(),
        }))
    }

    /// The source has no more text: its last record gets its end.
    fn end_source(&mut self) -> Result<()> {
        let Some(source) = &mut self.open else { return Ok(()) };
        let dialect = self.how.dialect;
        if source.header {
            self.block.text.truncate(source.begin);
        }
        let mut tail = self.block.text.split_off(source.begin);
        if dialect.family == Family::Text {
            tail.truncate(tail.len() - end_marker_bytes(&tail, dialect));
        }
        let own = source.begin + tail.len();
        end_last_record(&mut tail, dialect.line_end.bytes(), dialect.family == Family::Text);
        if source.begin == 0 {
            self.block.text = tail;
        } else {
            self.block.text.extend_from_slice(&tail);
        }
        self.close_piece(own);
        self.note_file_bytes();
        // A block without pieces is not full, whatever was counted: a header, or an end-of-data marker.
        self.block_records = if self.block.pieces.is_empty() { 0 } else { self.block_records + 1 };
        if let Some(source) = self.open.take() {
            let planned = &self.how.sources[source.index];
            if !planned.is_stdin() {
                SourceFile::open(planned)?;
            }
        }
        Ok(())
    }
}

/// Windows of one piece of a block.
#[derive(Debug)]
pub struct BlockWindows<'b> {
    dialect: &'b Dialect,
    piece: BlockPiece,
    text: &'b [u8],
    position: usize,
    window_bytes: usize,
    max_record_bytes: usize,
    /// The window that was given last held no whole record.
    grow: usize,
}

impl<'b> BlockWindows<'b> {
    /// Windows of `piece`, which is one of `text`'s.
    #[must_use]
    pub fn new(
        dialect: &'b Dialect,
        piece: BlockPiece,
        text: &'b [u8],
        window_bytes: usize,
        max_record_bytes: usize,
    ) -> Self {
        Self { dialect, piece, text, position: piece.begin, window_bytes, max_record_bytes, grow: 0 }
    }

    fn offset(&self) -> u64 {
        self.piece.piece.offset + (self.position - self.piece.begin) as u64
    }
}

impl Windows for BlockWindows<'_> {
    fn fill(&mut self) -> Result<Option<Window<'_>>> {
        if self.position == self.piece.end {
            return Ok(None);
        }
        let cut_off = self.piece.overlong == Some(self.position);
        if cut_off || self.grow >= self.max_record_bytes.max(self.window_bytes) {
            let bytes = &self.text[self.position..self.piece.end];
            let (source_bytes, offset) = (bytes.len(), self.offset());
            return Ok(Some(Window { bytes, source_bytes, offset, last: false, overlong: true }));
        }
        let rest = self.piece.overlong.unwrap_or(self.piece.end) - self.position;
        let length = self.window_bytes.max(2 * self.grow).min(rest);
        self.grow = length;
        let own_end = self.piece.begin + self.piece.piece.length as usize;
        let end = self.position + length;
        Ok(Some(Window {
            bytes: &self.text[self.position..end],
            source_bytes: end.min(own_end) - self.position.min(own_end),
            offset: self.offset(),
            last: end == self.piece.end,
            overlong: false,
        }))
    }

    fn consume(&mut self, bytes: usize) {
        self.position += bytes;
        if bytes > 0 {
            self.grow = 0;
        }
    }

    fn leave_out(&mut self, _go_on: &mut dyn FnMut() -> Result<()>) -> Result<LeftOut> {
        let rest = &self.text[self.position..self.piece.end];
        let end = if self.piece.overlong == Some(self.position) {
            None
        } else {
            split::first_record(rest, State::Outside, self.dialect)
        };
        let length = end.unwrap_or(rest.len());
        self.consume(length);
        Ok(LeftOut { bytes: length as u64, ended: end.is_some() })
    }

    fn go_back(&mut self, _offset: u64) -> bool {
        // The block has only the beginning of what was left out.
        false
    }
}
