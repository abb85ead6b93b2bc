//! Reads a slice window by window and finds its records; what is done with them is the caller's.

use super::Context;
use super::context::SliceTotals;
use crate::counters::{StreamCounters, StreamState};
use crate::error::{Error, Result};
use crate::plan::Slice;
use crate::postgres::copy::Place;
use crate::source::SourceFile;
use crate::source::window::WindowReader;
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
    /// Bytes of the source that the records take.
    pub(super) source_bytes: u64,
}

impl Parser {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self {
            scanner: Scanner::new(context.plan.dialect.clone(), context.plan.columns.len()),
            buffer: Vec::with_capacity(context.plan.window_bytes + 2),
        }
    }

    /// Hands every window of `slice` to `store`, which stores all its regular records or says why not; a window
    /// whose first complete record is irregular is handed over without records, so that `store` can report it.
    pub(super) fn parse(
        &mut self,
        context: &Context<'_>,
        stream: &StreamCounters,
        slice: &Slice,
        mut store: impl FnMut(&ParsedWindow<'_>) -> Result<()>,
    ) -> Result<SliceTotals> {
        let plan = context.plan;
        let mut totals = SliceTotals::default();
        for &piece in &slice.pieces {
            let source = SourceFile::open(&plan.sources[piece.source])?;
            let (window_bytes, limit) = (plan.window_bytes, plan.max_record_bytes);
            let mut reader = WindowReader::new(&source, piece, &mut self.buffer, window_bytes, limit, &plan.dialect);
            let mut piece_rows = 0;
            loop {
                context.check_cancelled()?;
                stream.enter(StreamState::Read);
                let Some(window) = reader.fill()? else { break };
                stream.enter(StreamState::Encode);
                let place = Place { source: piece.source, offset: window.offset };
                let records = self.scanner.scan(window.bytes);
                let (rows, consumed, last) = (records.rows() as u64, records.consumed, window.last);
                let source_bytes = consumed.min(window.source_bytes) as u64;
                if rows > 0 || records.irregular.is_some() {
                    let irregular = records.irregular.is_some();
                    store(&ParsedWindow { records: &records, window: window.bytes, place, source_bytes })?;
                    if irregular {
                        return Err(Error::Internal { message: "an irregular record was not reported".into() });
                    }
                } else if last && !window.bytes.is_empty() {
                    return Err(context.explain_unterminated(place, window.bytes));
                }
                piece_rows += rows;
                stream.add(source_bytes, rows);
                reader.consume(consumed);
            }
            source.check_unchanged()?;
            totals.pieces.push((piece.source, piece_rows, piece.length));
        }
        totals.digest.rows = totals.rows();
        Ok(totals)
    }
}
