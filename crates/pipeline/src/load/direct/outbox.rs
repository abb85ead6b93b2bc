//! What a stream has in work for each relation, and the way from it to the sessions.

use super::super::Context;
use super::super::parse::ParsedWindow;
use super::super::queue::Work;
use super::super::rejects::RejectLog;
use super::super::single;
use super::super::unique::page_places::SlotRecords;
use super::CANCEL_CHECK;
use super::append::{Outlet, Parcel};
use crate::counters::{StreamCounters, StreamState};
use crate::error::{Error, Result};
use crate::postgres::copy::Chunk;
use crate::postgres::direct::{Pages, Slot};
use crossbeam_channel::RecvTimeoutError;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use tipple_codec::encode::heap::{PageBuffer, PageLayout};

/// So many records are looked at before their way is judged ...
const JUDGED_AFTER_ROWS: u64 = 20_000;
/// ... and of so many, one may go by COPY.
const COPIED_SHARE: u64 = 10;

/// A relation of the session that commits the ledger, which is the first.
const LEDGER_RELATION: usize = 0;

/// Records that went one way and the other, in all streams.
#[derive(Debug, Default)]
pub(super) struct Counts {
    seen: AtomicU64,
    copied: AtomicU64,
}

/// The pages of one stream.
pub(super) struct Outbox<'c, 'p> {
    pub(super) context: &'c Context<'p>,
    pub(super) counters: &'c StreamCounters,
    pub(super) layout: PageLayout,
    /// By relation.
    buffers: Vec<Option<PageBuffer<Slot>>>,
    /// To each session.
    outlets: Vec<Outlet>,
    counts: &'c Counts,
    /// Whether there is a ledger, which rejects are stored in.
    keeps_rejects: bool,
    /// Which records are on the pages, where that is asked for: there is one relation then.
    records: Option<SlotRecords>,
}

impl<'c, 'p> Outbox<'c, 'p> {
    /// For so many relations.
    pub(super) fn new(
        context: &'c Context<'p>,
        counters: &'c StreamCounters,
        layout: PageLayout,
        relations: usize,
        outlets: Vec<Outlet>,
        counts: &'c Counts,
        keeps_rejects: bool,
    ) -> Self {
        let buffers = (0..relations).map(|_| None).collect();
        Self { context, counters, layout, buffers, outlets, counts, keeps_rejects, records: None }
    }

    /// From now on it is told with the pages which records are on them.
    pub(super) fn tell_records(&mut self) {
        self.records = Some(SlotRecords::default());
    }

    /// These records of a window have gone behind so many rows of the slot, but for those that were skipped.
    pub(super) fn note(&mut self, parsed: &ParsedWindow<'_>, records: Range<usize>, skipped: &[usize], rows: u64) {
        if let Some(noted) = &mut self.records {
            noted.add(parsed, records, skipped, rows);
        }
    }

    /// Lets `fill` put rows on pages of a relation.
    pub(super) fn fill<T>(&mut self, relation: usize, fill: impl FnOnce(&mut PageBuffer<Slot>) -> T) -> Result<T> {
        let mut buffer = match self.buffers[relation].take() {
            Some(buffer) => buffer,
            None => PageBuffer::new(self.wait_for_slot(relation)?, self.layout),
        };
        let filled = fill(&mut buffer);
        self.buffers[relation] = Some(buffer);
        Ok(filled)
    }

    /// Hands over the pages that are built for a relation.
    pub(super) fn hand_over(&mut self, relation: usize) -> Result<()> {
        let Some(buffer) = self.buffers[relation].take() else { return Ok(()) };
        let (slot, count) = buffer.finish();
        if count == 0 {
            return Ok(());
        }
        let records = self.records.as_mut().map(std::mem::take).map(|mut records| {
            records.close(&slot[..count * self.layout.block_size], self.layout.block_size);
            records
        });
        let packed = self.outlet(relation).packing.pack(&slot[..count * self.layout.block_size]);
        self.counters.enter(StreamState::Send);
        self.send(relation, Parcel::Pages(relation / self.outlets.len(), Pages { slot, count, packed }, records))?;
        self.counters.enter(StreamState::Encode);
        Ok(())
    }

    /// Hands over what is left.
    pub(super) fn finish(&mut self) -> Result<()> {
        (0..self.buffers.len()).try_for_each(|relation| self.hand_over(relation))
    }

    /// Hands over rows that go by COPY.
    pub(super) fn copy(&self, relation: usize, chunk: Chunk) -> Result<()> {
        self.send(relation, Parcel::Rows(chunk))
    }

    /// Hands over the rejects of what was read last, to be stored while pages are built. What was cut while it was read is
    /// not in the ledger yet; its rejects follow it there.
    pub(super) fn reject(&self, work: &Work<'_>, rejects: &mut Option<RejectLog<'_, '_>>) -> Result<()> {
        let is_known = self.keeps_rejects && work.block().is_none();
        let Some(log) = rejects.as_mut().filter(|_| is_known) else { return Ok(()) };
        let Some(rows) = log.hand_over()? else { return Ok(()) };
        self.counters.enter(StreamState::Send);
        self.send(LEDGER_RELATION, Parcel::Rejects(rows))
    }

    /// Gives up where too many records go by COPY: other ways are faster then. What can be read only once stays on its way.
    pub(super) fn judge(&self, rows: u64, copied: u64) -> Result<()> {
        let seen = self.counts.seen.fetch_add(rows, Ordering::Relaxed) + rows;
        let copied = self.counts.copied.fetch_add(copied, Ordering::Relaxed) + copied;
        if seen >= JUDGED_AFTER_ROWS && copied * COPIED_SHARE > seen && self.context.can_begin_anew() {
            let reason = format!("of the first {seen} records, {copied} fit no page or need the server's own reading");
            return Err(Error::Unsuited { reason });
        }
        Ok(())
    }

    fn wait_for_slot(&self, relation: usize) -> Result<Slot> {
        self.counters.enter(StreamState::Wait);
        loop {
            match self.outlet(relation).free.recv_timeout(CANCEL_CHECK) {
                Ok(slot) => {
                    self.counters.enter(StreamState::Encode);
                    return Ok(slot);
                }
                Err(RecvTimeoutError::Timeout) => self.context.check_cancelled()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Cancelled),
            }
        }
    }

    fn send(&self, relation: usize, parcel: Parcel) -> Result<()> {
        single::send(self.context, &self.outlet(relation).parcels, parcel)
    }

    /// To the session that has this relation, as its table of the number `relation / sessions`.
    fn outlet(&self, relation: usize) -> &Outlet {
        &self.outlets[relation % self.outlets.len()]
    }
}
