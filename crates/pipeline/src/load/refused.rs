//! Records of rows that are staged, and that the table itself has refused since: they are found again in the sources,
//! and become rejects like any other.
//!
//! A slice is read as it was read when its rows were staged, so that its n-th row comes from the same record. Nothing
//! is stored.

use super::Context;
use super::batch_chunks::ChunkFeed;
use super::chunks::Encoder;
use super::explain::remedy;
use super::parse::Parser;
use super::queue::{Order, Work, WorkQueue};
use super::rejects::RejectLog;
use crate::error::{Error, Result};
use crate::plan::{PostgresTarget, RefusedRow, RefusedSlice};
use crate::postgres::copy::Chunk;
use crate::source::locate::{self, Complaint};
use std::collections::{HashMap, HashSet};
use std::iter::Peekable;
use std::slice::Iter;

pub(super) fn run(context: &Context<'_>, target: &PostgresTarget, slices: &[RefusedSlice]) -> Result<()> {
    let slices: HashMap<(usize, u64), &RefusedSlice> =
        slices.iter().map(|slice| ((slice.source, slice.offset), slice)).collect();
    let queue = WorkQueue::new(context, Order::Largest);
    queue.share_out(context, |index| stream(context, target, &queue, &slices, index));
    context.failure().map_or(Ok(()), Err)
}

fn stream(
    context: &Context<'_>,
    target: &PostgresTarget,
    queue: &WorkQueue<'_>,
    slices: &HashMap<(usize, u64), &RefusedSlice>,
    index: usize,
) -> Result<()> {
    let mut parser = Parser::new(context);
    let mut columnar = context.columnar.as_ref().map(|job| ChunkFeed::new(job, target));
    // What could not be read is a reject already: it is only passed over.
    let mut known = RejectLog::aside(context, &format!("known-{index}"));
    let mut log = RejectLog::open(context, &format!("refused-{index}"))
        .ok_or_else(|| Error::Internal { message: "refused records, but nowhere to keep them".into() })?;
    let counters = &context.counters.streams[index];
    while let Some(work) = queue.take(context)? {
        let first = work.pieces().first().map(|piece| (piece.source, piece.offset));
        let Some(slice) = first.and_then(|first| slices.get(&first)) else { continue };
        counters.take(work.n());
        log.begin(slice.n)?;
        let mut search = Search::new(context, slice);
        if let Some(feed) = &mut columnar {
            feed.read(context, counters, &work, true, &mut known, |chunk, _| search.look(&chunk, &mut log))?;
        } else {
            let mut encoder = Encoder::new(context, target, true);
            parser.parse(context, counters, &work, &mut known, |parsed, known| {
                let chunks = encoder.encode(context, parsed, known)?;
                chunks.iter().try_for_each(|chunk| search.look(chunk, &mut log))
            })?;
        }
        search.finish(&work)?;
        log.keep()?;
        context.counters.slice_done();
    }
    Ok(())
}

/// Counts the rows of a slice, and keeps the records of those that were refused.
struct Search<'s> {
    context: &'s Context<'s>,
    slice: &'s RefusedSlice,
    /// Records that a server had refused before they were staged.
    rejected: HashSet<(usize, u64)>,
    refused: Peekable<Iter<'s, RefusedRow>>,
    rows: u64,
}

impl<'s> Search<'s> {
    fn new(context: &'s Context<'_>, slice: &'s RefusedSlice) -> Self {
        let rejected = slice.rejected.iter().copied().collect();
        Self { context, slice, rejected, refused: slice.refused.iter().peekable(), rows: 0 }
    }

    fn look(&mut self, chunk: &Chunk, log: &mut RejectLog<'_, '_>) -> Result<()> {
        let Some(origin) = &chunk.origin else { return Ok(()) };
        if self.rejected.is_empty() {
            // Only the rows that were asked for are looked at.
            let first = self.rows;
            self.rows += origin.len() as u64;
            while let Some(row) = self.refused.next_if(|row| row.index < self.rows) {
                let (place, index, record) = origin.record((row.index - first) as usize);
                log.push(place, index, &record, complaint(row, &record))?;
            }
            return Ok(());
        }
        for row in 0..origin.len() {
            let (place, index, record) = origin.record(row);
            if self.rejected.contains(&(place.source, place.offset)) {
                continue;
            }
            if let Some(row) = self.refused.next_if(|row| row.index == self.rows) {
                log.push(place, index, &record, complaint(row, &record))?;
            }
            self.rows += 1;
        }
        self.context.check_cancelled()
    }

    /// # Errors
    /// The slice has not the rows that were staged.
    fn finish(mut self, work: &Work<'_>) -> Result<()> {
        if self.rows == self.slice.rows && self.refused.next().is_none() {
            return Ok(());
        }
        Err(Error::Internal {
            message: format!("slice {} has {} rows now, and {} were staged", work.n(), self.rows, self.slice.rows),
        })
    }
}

fn complaint(row: &RefusedRow, record: &[u8]) -> Complaint {
    let RefusedRow { reason, sqlstate, .. } = row;
    let (text, remedy) = (locate::shown(record), remedy(sqlstate, reason));
    Complaint { column: None, text, reason: reason.clone(), sqlstate: sqlstate.clone(), remedy }
}
