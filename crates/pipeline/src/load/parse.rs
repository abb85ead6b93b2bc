//! Reads a slice window by window and finds its records; what is done with them is the caller's.

use super::Context;
use super::context::SliceTotals;
use super::rejects::RejectLog;
use crate::counters::{StreamCounters, StreamState};
use crate::error::{Error, Result};
use crate::plan::Slice;
use crate::postgres::copy::Place;
use crate::source::SourceFile;
use crate::source::window::WindowReader;
use tipple_codec::problem::Problem;
use tipple_codec::scan::{Records, Scanner};

/// What a stream keeps from slice to slice.
pub(super) struct Parser {
    scanner: Scanner,
    buffer: Vec<u8>,
}

/// The records of one window.
pub(super) struct ParsedWindow<'w> {
    /// The records.
    pub(super) records: &'w Records<'w>,
    /// The bytes they were found in.
    pub(super) window: &'w [u8],
    /// Where it begins.
    pub(super) place: Place,
    /// The number of the first record in its piece, from 0.
    pub(super) first_record: u64,
    /// The slice.
    pub(super) slice: u32,
}

impl Parser {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self {
            scanner: Scanner::new(context.plan.dialect.clone(), context.plan.columns.len()),
            buffer: Vec::with_capacity(context.plan.window_bytes + 2),
        }
    }

    /// Hands the regular records of `slice` to `store`, which stores them or says why not. Irregular records go to
    /// `rejects`; without one they are handed over too, so that `store` can report them.
    pub(super) fn parse<'c, 'p>(
        &mut self,
        context: &Context<'_>,
        stream: &StreamCounters,
        slice: &Slice,
        rejects: &mut Option<RejectLog<'c, 'p>>,
        mut store: impl FnMut(&ParsedWindow<'_>, &mut Option<RejectLog<'c, 'p>>) -> Result<()>,
    ) -> Result<SliceTotals> {
        let plan = context.plan;
        let mut totals = SliceTotals::default();
        let rejects_before_slice = count(rejects);
        for &piece in &slice.pieces {
            let source = SourceFile::open(&plan.sources[piece.source])?;
            let (window_bytes, limit) = (plan.window_bytes, plan.max_record_bytes);
            let mut reader = WindowReader::new(&source, piece, &mut self.buffer, window_bytes, limit, &plan.dialect);
            let rejects_before = count(rejects);
            let mut piece_records = 0;
            loop {
                context.check_cancelled()?;
                stream.enter(StreamState::Read);
                let Some(window) = reader.fill()? else { break };
                stream.enter(StreamState::Encode);
                let place = Place { source: piece.source, offset: window.offset };
                let mut records = self.scanner.scan(window.bytes);
                let (mut consumed, mut rows) = (0, 0);
                loop {
                    if records.rows() > 0 || (records.irregular.is_some() && rejects.is_none()) {
                        let (window, first_record) = (window.bytes, piece_records);
                        let parsed = ParsedWindow { records: &records, window, place, first_record, slice: slice.n };
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
                        if !window.last {
                            // What is wrong is known, where the record ends is not.
                            break;
                        }
                        problem.end = window.bytes.len();
                    }
                    let complaint = context.complaint(window.bytes, &problem);
                    let record = &window.bytes[problem.start..problem.end];
                    log.push(place.behind(problem.start), piece_records, record, complaint)?;
                    piece_records += 1;
                    consumed = problem.end;
                    match records.rest() {
                        Some(rest) => records = rest,
                        None => break,
                    }
                }
                if consumed == 0 && window.last && !window.bytes.is_empty() {
                    let complaint = Context::unterminated(window.bytes);
                    match rejects {
                        None => return Err(context.explain_complaint(place, complaint)),
                        Some(log) => log.push(place, piece_records, window.bytes, complaint)?,
                    }
                    piece_records += 1;
                    consumed = window.bytes.len();
                }
                stream.add(consumed.min(window.source_bytes) as u64, rows);
                reader.consume(consumed);
            }
            source.check_unchanged()?;
            let rejected = count(rejects) - rejects_before;
            totals.pieces.push((piece.source, piece_records - rejected, piece.length));
        }
        totals.rejects = count(rejects) - rejects_before_slice;
        totals.digest.rows = totals.rows();
        Ok(totals)
    }
}

fn count(rejects: &Option<RejectLog<'_, '_>>) -> u64 {
    rejects.as_ref().map_or(0, RejectLog::count)
}
