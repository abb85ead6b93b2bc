//! Reads a slice window by window and finds its records; what is done with them is the caller's.

use super::Context;
use super::context::SliceTotals;
use super::queue::Work;
use super::rejects::{RejectLog, count};
use crate::counters::{StreamCounters, StreamState};
use crate::error::{Error, Result};
use crate::plan::Piece;
use crate::postgres::copy::Place;
use crate::source::SourceFile;
use crate::source::block_windows::BlockWindows;
use crate::source::ends::Ends;
use crate::source::locate;
use crate::source::resync::{SAMPLE_BYTES, has_stray_quote, line_of_unclosed};
use crate::source::window::{WindowReader, Windows};
use tipple_codec::problem::Problem;
use tipple_codec::scan::{Records, Scanner};
use tipple_codec::sniff::guessed::Guesses;

/// So much is looked through behind a record from whose end on a window has to be scanned anew.
const FIRST_REACH: usize = 4 * 1024;

/// What a stream keeps from slice to slice.
pub(super) struct Parser {
    finder: Finder,
    buffer: Vec<u8>,
}

/// Finds the records of a window.
struct Finder {
    scanner: Scanner,
    /// What they are judged by where types of columns were guessed.
    guesses: Option<Guesses>,
}

/// The records of one window.
pub(super) struct ParsedWindow<'w> {
    /// The records.
    pub(super) records: &'w Records<'w>,
    /// The bytes they were found in.
    pub(super) window: &'w [u8],
    /// Where it begins.
    pub(super) place: Place,
    /// The number of the first record in its piece, from 0; in its source, where records were counted beforehand.
    pub(super) first_record: u64,
    /// The slice.
    pub(super) slice: u32,
}

impl Parser {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self {
            finder: Finder {
                scanner: Scanner::new(context.plan.dialect.clone(), context.plan.columns.len()),
                guesses: (!context.plan.guessed.is_empty())
                    .then(|| Guesses::new(context.plan.guessed.clone(), context.plan.dialect.clone())),
            },
            buffer: Vec::with_capacity(context.plan.window_bytes + 2),
        }
    }

    /// Hands the regular records of `work` to `store`, which stores them or says why not. Irregular records go to
    /// `rejects`; without one they are handed over too, so that `store` can report them.
    pub(super) fn parse<'c, 'p>(
        &mut self,
        context: &Context<'_>,
        stream: &StreamCounters,
        work: &Work<'_>,
        rejects: &mut Option<RejectLog<'c, 'p>>,
        mut store: impl FnMut(&ParsedWindow<'_>, &mut Option<RejectLog<'c, 'p>>) -> Result<()>,
    ) -> Result<SliceTotals> {
        let plan = context.plan;
        let (window_bytes, limit) = (plan.window_bytes, plan.max_record_bytes);
        let mut totals = SliceTotals::default();
        let rejects_before_slice = count(rejects);
        // What is cut while it is read is no longer than a transaction may be.
        let mut left = plan.commit_records.unwrap_or(u64::MAX);
        match work {
            Work::Slice(slice) => {
                // Records of a slice of several sources are numbered by source: it is divided between them.
                let divisible = slice.pieces.len() == 1;
                for (index, &piece) in slice.pieces.iter().enumerate() {
                    if left == 0 {
                        totals.rest = slice.pieces[index..].to_vec();
                        break;
                    }
                    let source = SourceFile::open(&plan.sources[piece.source])?;
                    let mut reader =
                        WindowReader::new(&source, piece, &mut self.buffer, window_bytes, limit, &plan.dialect);
                    let limit_records = if divisible { left } else { u64::MAX };
                    let begin = PieceBegin {
                        source: piece.source,
                        slice: slice.n,
                        record: None,
                        read: (1, 1),
                        limit_records,
                        is_judged: false,
                    };
                    let (rows, end) =
                        parse_piece(&mut self.finder, context, stream, &mut reader, begin, rejects, &mut store)?;
                    source.check_unchanged()?;
                    left = left.saturating_sub(rows);
                    let length = end.map_or(piece.length, |end| end - piece.offset);
                    if length < piece.length {
                        let offset = piece.offset + length;
                        totals.rest = vec![Piece { offset, length: piece.length - length, ..piece }];
                    }
                    totals.pieces.push((piece.source, rows, length));
                }
            }
            Work::Block(block) => {
                for &piece in block.pieces() {
                    let index = piece.piece.source;
                    let mut reader = BlockWindows::new(&plan.dialect, piece, block.whole(), window_bytes, limit);
                    let begin = PieceBegin {
                        source: index,
                        slice: block.n(),
                        record: Some(piece.first_record),
                        read: (block.file_bytes(), block.text().len() as u64),
                        limit_records: u64::MAX,
                        is_judged: block.whole().is_judged,
                    };
                    let (rows, _) =
                        parse_piece(&mut self.finder, context, stream, &mut reader, begin, rejects, &mut store)?;
                    totals.pieces.push((index, rows, piece.piece.length));
                }
            }
        }
        totals.rejects = count(rejects) - rejects_before_slice;
        totals.digest.rows = totals.rows();
        Ok(totals)
    }
}

/// The regular records, ascending, that are not to be stored whatever they hold: looked for only where types were guessed,
/// or where the window is longer than a record may be.
fn unfit(
    guesses: &mut Option<Guesses>,
    records: &Records<'_>,
    window: &[u8],
    limit_bytes: usize,
) -> Vec<(usize, Unfit)> {
    let changed = guesses.as_mut().map_or_else(Vec::new, |guesses| guesses.changed(records));
    let mut unfit: Vec<_> = changed.iter().map(|it| (it.row, Unfit::Changed { column: it.column })).collect();
    if window.len() > limit_bytes {
        let is_overlong = |row: &usize| records.start(row + 1) - records.start(*row) > limit_bytes;
        unfit.extend((0..records.rows()).filter(is_overlong).map(|row| (row, Unfit::Overlong)));
        unfit.sort_unstable_by_key(|&(row, unfit)| (row, !matches!(unfit, Unfit::Overlong)));
        unfit.dedup_by_key(|(row, _)| *row);
    }
    unfit
}

/// Why a regular record is not to be stored.
#[derive(Debug, Clone, Copy)]
enum Unfit {
    /// It has a value that a guessed type would change.
    Changed { column: usize },
    /// It is longer than a record may be.
    Overlong,
}

/// Rejects a record, or gives the error that it is.
fn refuse(
    context: &Context<'_>,
    place: Place,
    index: u64,
    record: &[u8],
    unfit: Unfit,
    rejects: &mut Option<RejectLog<'_, '_>>,
) -> Result<()> {
    let (plan, limit) = (context.plan, context.plan.max_record_bytes);
    match (unfit, rejects) {
        (Unfit::Changed { column }, None) => Err(context.explain_complaint(place, context.changed(record, column))),
        (Unfit::Changed { column }, Some(log)) => log.push(place, index, record, context.changed(record, column)),
        (Unfit::Overlong, None) => Err(context.explain_runaway(place, locate::too_long(record, limit))),
        (Unfit::Overlong, Some(log)) => {
            let record = locate::beginning(record, limit, &plan.dialect, plan.columns.len());
            let complaint = locate::overlong(&record, limit);
            log.push(place, index, &record, complaint)
        }
    }
}

/// What there is to know of a piece before its first window.
struct PieceBegin {
    source: usize,
    slice: u32,
    /// The number of its first record in the source, from 1, where it was counted.
    record: Option<u64>,
    /// Bytes of the file per bytes of text.
    read: (u64, u64),
    /// The most regular records to read.
    limit_records: u64,
    /// Whether it is known which lines are no records.
    is_judged: bool,
}

/// Reads one piece, and gives the rows that were stored, and where it stopped if the limit was reached.
fn parse_piece<'c, 'p>(
    finder: &mut Finder,
    context: &Context<'_>,
    stream: &StreamCounters,
    reader: &mut impl Windows,
    begin: PieceBegin,
    rejects: &mut Option<RejectLog<'c, 'p>>,
    store: &mut impl FnMut(&ParsedWindow<'_>, &mut Option<RejectLog<'c, 'p>>) -> Result<()>,
) -> Result<(u64, Option<u64>)> {
    let Finder { scanner, guesses } = finder;
    let rejects_before = count(rejects);
    let line_of = |text: &[u8], bytes, is_all| {
        let line = || line_of_unclosed(&context.plan.dialect, context.plan.columns.len(), text, bytes, is_all);
        if begin.is_judged { None } else { line() }
    };
    // Where records were counted beforehand, their numbers are those in the source; behind a quote too many nobody knows
    // those before all is read, and the count will do for messages only.
    let counted = begin.record.map_or(0, |record| record - 1);
    let (first, before) = if context.plan.feeding.resyncs { (0, counted) } else { (counted, 0) };
    let mut piece_records = first;
    let mut left = begin.limit_records;
    let mut end = None;
    // So much of a window is scanned: where it has to be scanned anew, the next such record may be close by.
    let mut reach = usize::MAX;
    let mut enough = usize::MAX;
    let mut ends = Ends::default();
    while end.is_none() {
        context.check_cancelled()?;
        stream.enter(StreamState::Read);
        let Some(window) = reader.fill(enough)? else { break };
        stream.enter(StreamState::Encode);
        let place = Place {
            source: begin.source,
            offset: window.offset,
            record: begin.record.map(|_| before + piece_records + 1),
            records_before: before,
        };
        if window.unclosed {
            let complaint = Context::unclosed(window.bytes);
            let Some(log) = rejects else { return Err(context.explain_runaway(place, complaint)) };
            log.push(place, piece_records, window.bytes, complaint)?;
            piece_records += 1;
            let bytes = window.bytes.len();
            stream.add(bytes as u64 * begin.read.0 / begin.read.1.max(1), 0);
            reader.consume(bytes);
            continue;
        }
        if window.overlong {
            let (plan, limit, columns) = (context.plan, context.plan.max_record_bytes, context.plan.columns.len());
            let Some(log) = rejects else {
                return Err(context.explain_runaway(place, locate::too_long(window.bytes, limit)));
            };
            let record = locate::beginning(window.bytes, limit, &plan.dialect, columns);
            let unclosed = line_of(window.bytes, window.bytes.len(), false);
            let line = unclosed.map(|length| window.bytes[..length].to_vec());
            let offset = window.offset;
            let left_out = reader.leave_out(&mut || context.check_cancelled())?;
            let mut bytes = left_out.bytes;
            // That it ends somewhere says nothing of what a stray quote has opened.
            let is_line = |line: &Vec<u8>| !left_out.ended || has_stray_quote(line, &plan.dialect);
            match line.filter(|line| is_line(line) && reader.go_back(offset + line.len() as u64)) {
                Some(line) => {
                    log.push(place, piece_records, &line, Context::unclosed(&line))?;
                    bytes = line.len() as u64;
                }
                None => log.push(place, piece_records, &record, locate::overlong(&record, limit))?,
            }
            piece_records += 1;
            stream.add(bytes * begin.read.0 / begin.read.1.max(1), 0);
            continue;
        }
        let scanned = reach.min(window.bytes.len());
        let mut is_all = scanned == window.bytes.len();
        reach = if is_all { usize::MAX } else { 2 * reach };
        let mut records = scanner.scan(&window.bytes[..scanned]);
        let (mut consumed, mut rows) = (0, 0);
        loop {
            if records.rows() as u64 > left {
                records.truncate(left as usize);
            }
            left -= records.rows() as u64;
            let mut behind = 0;
            for (row, unfit) in unfit(guesses, &records, window.bytes, context.plan.max_record_bytes) {
                let mut before = records.skip(behind);
                before.truncate(row - behind);
                if before.rows() > 0 {
                    let (records, window, slice) = (&before, window.bytes, begin.slice);
                    store(&ParsedWindow { records, window, place, first_record: piece_records, slice }, rejects)?;
                }
                rows += before.rows() as u64;
                piece_records += before.rows() as u64;
                let start = records.start(row);
                let record = &window.bytes[start..records.start(row + 1)];
                refuse(context, place.behind(start, piece_records), piece_records, record, unfit, rejects)?;
                piece_records += 1;
                behind = row + 1;
            }
            if behind > 0 {
                records = records.skip(behind);
            }
            if records.rows() > 0 || (records.irregular.is_some() && rejects.is_none()) {
                let parsed = ParsedWindow {
                    records: &records,
                    window: window.bytes,
                    place,
                    first_record: piece_records,
                    slice: begin.slice,
                };
                store(&parsed, rejects)?;
            }
            rows += records.rows() as u64;
            piece_records += records.rows() as u64;
            consumed = consumed.max(records.consumed);
            let Some(mut problem) = Problem::structure(&records) else { break };
            let Some(log) = rejects else {
                return Err(Error::Internal { message: "an irregular record was not reported".into() });
            };
            if records.irregular.is_some_and(|irregular| !irregular.complete) {
                if !(window.last && is_all) {
                    // What is wrong is known, where the record ends is not.
                    break;
                }
                problem.end = window.bytes.len();
            }
            let (text, length) = (&window.bytes[problem.start..], problem.end - problem.start);
            let unclosed = line_of(text, length, window.last);
            let complaint = match unclosed {
                Some(length) => {
                    problem.end = problem.start + length;
                    Context::unclosed(&window.bytes[problem.start..problem.end])
                }
                None => context.complaint(begin.source, window.bytes, &problem),
            };
            let record = &window.bytes[problem.start..problem.end];
            log.push(place.behind(problem.start, piece_records), piece_records, record, complaint)?;
            piece_records += 1;
            consumed = problem.end;
            match records.rest().filter(|_| unclosed.is_none()) {
                Some(rest) => records = rest,
                None => {
                    reach = FIRST_REACH;
                    break;
                }
            }
        }
        if consumed == 0 && !is_all {
            // Only of a window that was looked through is it known that no record ends in it.
            let end = ends.find(window.bytes, window.offset, &context.plan.dialect);
            reach = reach.max(end.unwrap_or(usize::MAX));
            if end.is_some() || window.last || window.bytes.len() < context.plan.window_bytes {
                enough = window.bytes.len();
                continue;
            }
            is_all = true;
        }
        if consumed == 0 && is_all && window.last && !window.bytes.is_empty() {
            let Some(log) = rejects else {
                return Err(context.explain_runaway(place, Context::unterminated(window.bytes)));
            };
            let unclosed = line_of(window.bytes, window.bytes.len(), true);
            consumed = unclosed.unwrap_or(window.bytes.len());
            reach = FIRST_REACH;
            let record = &window.bytes[..consumed];
            let complaint = if unclosed.is_some() { Context::unclosed(record) } else { Context::unterminated(record) };
            log.push(place, piece_records, record, complaint)?;
            piece_records += 1;
        }
        // Where a stray quote ends is not looked for: where there are many, each might lead through all that is left.
        if consumed == 0
            && is_all
            && !window.last
            && window.bytes.len() >= context.plan.window_bytes
            && let Some(log) = rejects
            && let Some(length) = line_of(window.bytes, window.bytes.len(), false)
            && has_stray_quote(&window.bytes[..length], &context.plan.dialect)
        {
            let line = &window.bytes[..length];
            log.push(place, piece_records, line, Context::unclosed(line))?;
            piece_records += 1;
            consumed = length;
            reach = FIRST_REACH;
        }
        enough = reach.saturating_add(SAMPLE_BYTES);
        end = (left == 0).then(|| window.offset + consumed.min(window.source_bytes) as u64);
        let read = consumed.min(window.source_bytes) as u64 * begin.read.0 / begin.read.1.max(1);
        stream.add(read, rows);
        reader.consume(consumed);
    }
    let rejected = count(rejects) - rejects_before;
    Ok((piece_records - first - rejected, end))
}
