//! Cuts sources that are read as streams into blocks of whole records, while they are read.
//!
//! A block is the shortest run of whole records that is not shorter than the plan says; small sources share one. So
//! where blocks begin depends on nothing but the text, and an interrupted job finds the same ones again.
//!
//! Where bad records are skipped, a quote may be too many or missing, and all behind it seems to be inside out. So what
//! lies behind a cut is looked at; and where no record seems to end any more, what lies behind the line that began it.

use super::SourceFile;
use super::block_text::{BlockPiece, BlockText};
use super::cut::end_marker_bytes;
use super::locate;
use super::resync::{LOOK_BYTES, Taken, Taker, has_stray_quote, length_inside, line_of_unclosed, look_like_records};
use super::text::{CHUNK_BYTES, TextReader, Unreadable};
use super::window::end_last_record;
use crate::counters::Counters;
use crate::error::{BadRecord, Error, Result};
use crate::plan::{Piece, Source};
use std::sync::Arc;
use tipple_codec::dialect::{Dialect, Family};
use tipple_codec::split::{self, State};

/// The most sources that one block groups.
const MAX_PIECES: usize = 1024;

/// How to cut.
#[derive(Debug, Clone, Copy)]
pub struct Cutting<'p> {
    /// All sources.
    pub sources: &'p [Source],
    /// How they are written.
    pub dialect: &'p Dialect,
    /// The columns that its fields belong to.
    pub columns: usize,
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
    /// Whether the quotes behind a cut count too, and a block that holds a part of a source holds nothing else.
    pub resyncs: bool,
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
    /// Where the last record of the block begins that is known to be one, whatever the quotes before it.
    sure: usize,
    /// Where a record ends that may be the block's last one.
    candidate: Option<usize>,
    /// The record at the end of the block is longer than the limit, whatever its quotes.
    is_long: bool,
    /// What takes records one by one, where they are limited.
    taker: Taker,
    /// The block has a part of a source.
    has_part: bool,
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
    /// Its beginning is in another block.
    was_cut: bool,
    /// All of it was read.
    ended: bool,
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
            sure: 0,
            candidate: None,
            is_long: false,
            taker: Taker::new(how.dialect, how.columns),
            has_part: false,
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
                    || self.is_at_limit()
                    || self.has_part;
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
            let (has_header, ended) = (source.header, source.ended);
            if !has_header {
                let cut = self.find_cut();
                if let Some(begin) = self.begin_behind_others(cut.is_some()) {
                    return Ok(Some(self.hand_out_up_to(begin, &mut fresh)));
                }
                if let Some(cut) = cut {
                    return Ok(Some(self.cut_at(cut, &mut fresh)));
                }
            }
            if ended {
                self.end_source()?;
            } else if !self.read_on()? {
                // What comes behind a cut is known only now.
                match self.open.as_mut().filter(|_| self.how.resyncs) {
                    Some(source) => source.ended = true,
                    None => self.end_source()?,
                }
            }
        }
    }

    /// Where the open source begins in the block, where it does not fit in behind others: records are numbered by block,
    /// so one of several sources holds whole ones.
    fn begin_behind_others(&self, has_cut: bool) -> Option<usize> {
        let does_not_fit = has_cut || self.block.text.len() >= self.how.block_bytes.max(1);
        let source = self.open.as_ref().filter(|_| self.how.resyncs && does_not_fit)?;
        (!self.block.pieces.is_empty()).then_some(source.begin)
    }

    fn begin_source(&mut self, index: usize) -> Result<()> {
        let planned = &self.how.sources[index];
        let reader = TextReader::open(planned, self.how.dialect, self.how.chunk_bytes, self.counters.as_ref())?
            .marking(self.how.skips);
        let begin = self.block.text.len();
        self.scan_from(begin);
        self.open = Some(OpenSource {
            index,
            reader,
            begin,
            offset: 0,
            records_before: 0,
            records: 0,
            header: self.how.header,
            begun: false,
            was_cut: false,
            ended: false,
            file_bytes: 0,
        });
        Ok(())
    }

    /// Scans on from there, where a record begins.
    fn scan_from(&mut self, begin: usize) {
        (self.scanned, self.whole, self.sure) = (begin, begin, begin);
        self.state = State::Outside;
        (self.candidate, self.is_long) = (None, false);
    }

    /// Where the block ends, if that is known: something has to follow, so that the end of a source is seen as such.
    fn find_cut(&mut self) -> Option<usize> {
        loop {
            if self.candidate.is_none() {
                self.candidate =
                    if self.how.block_records > 0 { self.find_cut_by_records() } else { self.find_cut_by_bytes() };
            }
            if !self.minds_quotes() {
                return self.candidate;
            }
            match self.candidate {
                // What the quotes before it open was looked at.
                Some(cut) if self.how.block_records > 0 => return Some(cut),
                Some(cut) => return self.behind_quotes(cut),
                None if self.scanned < self.longest() || self.is_between_records() => return None,
                None => self.go_on_behind_line(),
            }
        }
    }

    /// Whether quotes are not taken for what they seem to be.
    fn minds_quotes(&self) -> bool {
        self.how.resyncs && self.how.dialect.family == Family::Csv && !self.is_long
    }

    /// So far a block goes at most, if no record is longer than the limit.
    fn longest(&self) -> usize {
        self.how.block_bytes.saturating_add(self.how.max_record_bytes)
    }

    /// How far the text is looked through.
    fn known(&self) -> usize {
        let bytes = self.block.text.len();
        if self.minds_quotes() { bytes.min(self.longest()) } else { bytes }
    }

    fn find_cut_by_bytes(&mut self) -> Option<usize> {
        let known = self.known();
        let source = self.open.as_mut()?;
        let text = &self.block.text;
        let (least, dialect) = (self.how.block_bytes.max(1), self.how.dialect);
        let counted_to = known.min(least - 1);
        if self.scanned < counted_to {
            let (records, state) = split::count_records(&text[self.scanned..counted_to], self.state, dialect);
            source.records += records;
            (self.scanned, self.state) = (counted_to, state);
        }
        if known < least {
            return None;
        }
        match split::first_record(&text[self.scanned..known], self.state, dialect) {
            Some(length) if self.scanned + length < text.len() => {
                source.records += 1;
                Some(self.scanned + length)
            }
            Some(_) => None,
            None => {
                self.state = split::count_records(&text[self.scanned..known], self.state, dialect).1;
                self.scanned = known;
                None
            }
        }
    }

    /// Whether all that is known are whole records, where they are limited.
    fn is_between_records(&self) -> bool {
        self.how.block_records > 0 && self.whole == self.scanned
    }

    fn is_at_limit(&self) -> bool {
        self.how.block_records > 0 && self.block_records >= self.how.block_records
    }

    /// The same where records are limited: they are looked at one by one.
    fn find_cut_by_records(&mut self) -> Option<usize> {
        let known = self.known();
        while !self.is_at_limit() && self.whole < self.how.block_bytes.max(1) {
            let rest = self.scanned..known;
            let length = split::first_record(&self.block.text[rest.clone()], self.state, self.how.dialect);
            let end = length.map(|length| rest.start + length);
            let end = match (self.take(end), end) {
                (Taken::Line(length), _) => {
                    let line = self.whole..self.whole + length;
                    self.block.unclosed.push(line.clone());
                    line.end
                }
                (Taken::Unknown, Some(_)) => return None,
                (Taken::Record, Some(end)) => end,
                (_, None) => {
                    self.state = split::count_records(&self.block.text[rest], self.state, self.how.dialect).1;
                    self.scanned = known;
                    return None;
                }
            };
            (self.scanned, self.whole, self.sure, self.state) = (end, end, end, State::Outside);
            self.block_records += 1;
            self.open.as_mut()?.records += 1;
        }
        (self.whole < self.block.text.len()).then_some(self.whole)
    }

    /// What the record is taken for that begins at `whole` and seems to end there, if it does.
    fn take(&mut self, end: Option<usize>) -> Taken {
        let ended = self.open.as_ref().is_some_and(|source| source.ended);
        if !self.minds_quotes() {
            return Taken::Record;
        }
        let text = &self.block.text[self.whole..];
        if let Some(end) = end {
            return self.taker.take(text, end - self.whole, ended);
        }
        let is_endless = text.len() >= LOOK_BYTES && self.scanned - self.whole < LOOK_BYTES;
        match if is_endless { self.taker.take_endless(text) } else { Taken::Record } {
            // Else it is gone on behind its line, whether its end is known by then or not.
            Taken::Record if ended && self.block.text.len() < self.longest() => self.taker.take_last(text),
            taken => taken,
        }
    }

    /// Where the block ends that seems to end at `cut`, as far as the quotes behind it tell; `None` where more has to be
    /// read for that.
    fn behind_quotes(&self, cut: usize) -> Option<usize> {
        let behind = &self.block.text[cut..];
        if behind.len() < LOOK_BYTES && !self.open.as_ref()?.ended {
            return None;
        }
        let behind = &behind[..behind.len().min(LOOK_BYTES)];
        Some(cut + length_inside(self.how.dialect, self.how.columns, behind).unwrap_or(0))
    }

    /// The record at the end of the block does not end where it should: its first line may have a quote too many.
    fn go_on_behind_line(&mut self) {
        let scanned = &self.block.text[..self.scanned];
        let start = last_record_start(scanned, self.sure, self.how.dialect);
        let record = &scanned[start..];
        let line = line_of_unclosed(self.how.dialect, self.how.columns, record, record.len(), false);
        let Some(length) = line else {
            self.is_long = true;
            return;
        };
        let (end, least) = (start + length, self.how.block_bytes.max(1));
        // Where there are many such lines, to begin anew behind each would take as long for each.
        let begin = if self.how.block_records == 0 && has_stray_quote(&record[..length], self.how.dialect) {
            self.line_behind(scanned, end.max(least))
        } else {
            None
        };
        if let Some(source) = &mut self.open {
            source.records += 1;
        }
        if self.how.block_records > 0 {
            self.block_records += 1;
            self.block.unclosed.push(start..end);
        }
        self.scan_from(begin.unwrap_or(end));
    }

    /// The next line from there on, if it surely begins with records.
    fn line_behind(&self, text: &[u8], from: usize) -> Option<usize> {
        let (dialect, line_end) = (self.how.dialect, self.how.dialect.line_end.bytes());
        let begin = from + memchr::memmem::find(&text[from..], line_end)? + line_end.len();
        let behind = &text[begin..];
        (look_like_records(dialect, self.how.columns, behind, false) && !split::begins_inside(behind, dialect))
            .then_some(begin)
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
        self.begin_anew(true);
        Ok(Some(self.hand_out(text[end..].to_vec(), fresh)))
    }

    /// Hands out the block up to `cut`; what follows begins the next one.
    fn cut_at(&mut self, cut: usize, fresh: &mut Option<Vec<u8>>) -> BlockText {
        let rest = self.block.text.split_off(cut);
        self.close_piece(cut);
        self.note_file_bytes();
        self.begin_anew(true);
        self.hand_out(rest, fresh)
    }

    /// Hands out the sources before the open one, which begins the next block.
    fn hand_out_up_to(&mut self, begin: usize, fresh: &mut Option<Vec<u8>>) -> BlockText {
        let rest = self.block.text.split_off(begin);
        // They are found once more.
        self.block.unclosed.retain(|line| line.end <= begin);
        self.begin_anew(false);
        self.hand_out(rest, fresh)
    }

    /// The next block begins with the open source, of which something may be in the one before.
    fn begin_anew(&mut self, was_cut: bool) {
        if let Some(source) = &mut self.open {
            source.begin = 0;
            source.records = 0;
            source.was_cut |= was_cut;
        }
        self.scan_from(0);
    }

    fn hand_out(&mut self, rest: Vec<u8>, fresh: &mut Option<Vec<u8>>) -> BlockText {
        self.block_records = 0;
        self.has_part = false;
        self.block.is_judged = self.how.resyncs && self.how.block_records > 0;
        // A short block must not hold the memory of a long one: it counts by its text.
        if self.block.text.capacity() / 2 > self.block.text.len() {
            let own = self.block.text.as_slice().to_vec();
            *fresh = Some(std::mem::replace(&mut self.block.text, own));
        }
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
        if self.scanned == self.block.text.len() && self.scanned > self.longest() && !self.is_between_records() {
            let (start, offset, number) = self.open_record(source);
            if self.how.skips {
                let kept = self.block.text.len().min(start + self.how.max_record_bytes);
                let left_out = (self.block.text.len() - kept) as u64;
                self.block.text.truncate(kept);
                self.overlong = Some(Overlong { begin: start, left_out });
                return Ok(true);
            }
            let complaint = locate::too_long(&self.block.text[start..], self.how.max_record_bytes);
            let planned = &self.how.sources[source.index];
            return Err(locate::bad_record(
                planned,
                (offset, Some(number)),
                self.how.dialect,
                source.header,
                complaint,
            ));
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
                return Err(locate::header_too_long(&self.how.sources[source.index], self.how.max_record_bytes));
            }
        }
        Ok(more)
    }

    /// Where the record that has not ended yet begins in the block and in its source, and its number there.
    fn open_record(&self, source: &OpenSource) -> (usize, u64, u64) {
        let (text, dialect) = (&self.block.text, self.how.dialect);
        let start = last_record_start(text, self.sure, dialect);
        let (records, _) = split::count_records(&text[source.begin..start], State::Outside, dialect);
        let number = source.records_before + records + u64::from(!source.header);
        (start, source.offset + (start - source.begin) as u64, number)
    }

    fn undecodable(&self, offset: u64, encoding: &str) -> Error {
        let Some(source) = &self.open else {
            return Error::Internal { message: "an undecodable byte in no source".into() };
        };
        let (start, begin, number) = self.open_record(source);
        Error::BadRecord(Box::new(BadRecord {
            file: self.how.sources[source.index].path.display().to_string(),
            record_number: number,
            byte_offset: Some(begin),
            column: None,
            text: Some(locate::shown(&self.block.text[start..])),
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
        let was_cut = self.open.as_ref().is_some_and(|source| source.was_cut);
        self.has_part = self.how.resyncs && was_cut && !self.block.pieces.is_empty();
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

/// Where the record begins that has no end yet; `from` there begins one.
fn last_record_start(text: &[u8], from: usize, dialect: &Dialect) -> usize {
    let mut start = from;
    while let Some(length) = split::first_record(&text[start..], State::Outside, dialect) {
        start += length;
    }
    start
}
