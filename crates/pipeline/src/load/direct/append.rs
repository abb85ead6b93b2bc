//! One session: it empties its relations, and has the server append what the streams build for them, in one transaction.

use super::super::Context;
use super::super::rejects::{KeptRejects, RejectLog};
use super::super::sender::RowSender;
use super::super::slices::{BEGIN_IMMEDIATE, waits};
use super::super::unique::page_places::{PageLog, SlotRecords};
use super::CANCEL_CHECK;
use super::packing::{Packing, Trials};
use crate::error::{Error, Result};
use crate::plan::{DirectPlan, PostgresTarget};
use crate::postgres::copy::Chunk;
use crate::postgres::direct::{self, DirectWriter, Pages, Slot};
use crate::postgres::session::Session;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Text of COPY that is collected before the pages are interrupted for it.
const COPY_BATCH_BYTES: usize = 4 << 20;

/// How long the server is waited for when it is asked whether it refuses an earlier record than the one that ended the job.
const REFUSAL_LIMIT: Duration = Duration::from_secs(2);

/// SQLSTATE `lock_not_available`, and `deadlock_detected`.
const LOCKED: [&str; 2] = ["55P03", "40P01"];

/// What streams hand to a session.
pub(super) enum Parcel {
    /// Pages for the session's table of this number, and which records are on them.
    Pages(usize, Pages, Option<SlotRecords>),
    /// Rows that go by COPY.
    Rows(Chunk),
    /// Rejects of a slice that is read, for the ledger.
    Rejects(KeptRejects),
}

/// Where a stream gets memory from, and where what it has built goes.
#[derive(Debug, Clone)]
pub(super) struct Outlet {
    pub(super) free: Receiver<Slot>,
    pub(super) parcels: Sender<Parcel>,
    pub(super) packing: Packing,
}

/// The session's side of it.
pub(super) struct Inlet {
    free: Sender<Slot>,
    parcels: Receiver<Parcel>,
    packing: Packing,
}

/// Both sides of a session with so many tables.
pub(super) fn connect(context: &Context<'_>, plan: &DirectPlan, tables: usize) -> (Outlet, Inlet) {
    let slots = slots(context, plan, tables);
    let (free_sender, free) = crossbeam_channel::bounded(slots);
    let (parcels, received) = crossbeam_channel::bounded(slots + context.plan.streams);
    let packing = Packing::default();
    (Outlet { free, parcels, packing: packing.clone() }, Inlet { free: free_sender, parcels: received, packing })
}

/// A stream fills one slot for each table, while the session has a run of them and another one gathers.
fn slots(context: &Context<'_>, plan: &DirectPlan, tables: usize) -> usize {
    context.plan.streams * tables + context.plan.streams.max(plan.run_slots) + plan.run_slots
}

/// One of the job's sessions, in its transaction.
pub(super) struct Appender<'c, 'p> {
    context: &'c Context<'p>,
    target: &'c PostgresTarget,
    tables: Vec<String>,
    pub(super) session: Session,
    /// Whether other sessions have other tables.
    is_one_of_several: bool,
}

impl<'c, 'p> Appender<'c, 'p> {
    /// The session of this number, which takes every table whose number leaves this remainder.
    pub(super) fn begin(
        context: &'c Context<'p>,
        target: &'c PostgresTarget,
        (number, sessions): (usize, usize),
        tables: &[String],
    ) -> Result<Self> {
        let name = format!(" {}", number + 1);
        let session = Session::connect(&target.connection, &name, &target.session, waits(context, target))?;
        let skips = context.plan.rejects.is_some();
        session.run(if skips { BEGIN_IMMEDIATE } else { "BEGIN" }, "beginning the transaction")?;
        let tables: Vec<String> = tables.iter().skip(number).step_by(sessions).cloned().collect();
        // What an attempt before this one has left; and only what its own transaction has emptied takes pages.
        session.run(&format!("TRUNCATE {}", tables.join(", ")), "preparing the table")?;
        Ok(Self { context, target, tables, session, is_one_of_several: sessions > 1 })
    }

    /// Opens the tables, and gives the streams their memory.
    pub(super) fn open(&self, plan: &DirectPlan, inlet: &Inlet) -> Result<(DirectWriter<'_>, usize)> {
        let slots = slots(self.context, plan, self.tables.len());
        let opened =
            direct::open(&self.session, &self.tables, slots, plan.slot_pages, (plan.share_memory, plan.packs))?;
        for slot in opened.slots {
            // The channel has room for all of them.
            let _has_room = inlet.free.send(slot);
        }
        Ok((opened.writer, opened.block_size))
    }

    /// Has the server append what the streams have built, until the last of them has ended.
    pub(super) fn append_all(
        &self,
        writer: DirectWriter<'_>,
        run_slots: usize,
        inlet: Inlet,
        log: Option<&mut RejectLog<'_, '_>>,
    ) -> Result<()> {
        let mut sender = RowSender::new(self.context, &self.session, self.target, log);
        let mut waiting = Vec::new();
        let appended = self.append_parcels(writer, run_slots, &inlet, &mut sender, &mut waiting);
        // Between two COPYs, what was refused elsewhere has stopped nothing here but the pages.
        let is_stopped = matches!(appended, Err(Error::Cancelled)) && sender.is_idle();
        if is_stopped && self.context.plan.rejects.is_none() && self.context.has_failed_by_a_record() {
            let rows = |parcel| if let Parcel::Rows(chunk) = parcel { Some(chunk) } else { None };
            waiting.extend(inlet.parcels.try_iter().filter_map(rows));
            return Err(self.earlier_refusal(&mut sender, waiting).unwrap_or(Error::Cancelled));
        }
        appended
    }

    /// A record that the server refuses among rows that were still to go by COPY when another record ended the job. It may
    /// stand before that one, and whoever mends files goes by their order.
    fn earlier_refusal(
        &self,
        sender: &mut RowSender<'_, '_, '_, '_, '_, '_>,
        mut waiting: Vec<Chunk>,
    ) -> Option<Error> {
        self.session.persist(REFUSAL_LIMIT);
        self.copy(sender, &mut waiting).err().filter(|error| matches!(error, Error::BadRecord(_)))
    }

    fn append_parcels(
        &self,
        writer: DirectWriter<'_>,
        run_slots: usize,
        inlet: &Inlet,
        sender: &mut RowSender<'_, '_, '_, '_, '_, '_>,
        waiting: &mut Vec<Chunk>,
    ) -> Result<()> {
        let (mut waiting_bytes, mut appended) = (0, 0);
        let mut ready = ReadyPages::new(self.tables.len());
        let mut places = PageLog::create(self.target)?;
        let mut trials = writer.packs().then(|| Trials::new(inlet.packing.clone(), writer.block_size()));
        loop {
            let parcel = if ready.is_empty() {
                inlet.parcels.recv_timeout(CANCEL_CHECK)
            } else {
                // Whether all streams have ended is seen when nothing is left to append.
                inlet.parcels.try_recv().map_err(|_| RecvTimeoutError::Timeout)
            };
            match parcel {
                Ok(Parcel::Pages(table, pages, records)) => ready.add(table, pages, records),
                Ok(Parcel::Rows(chunk)) => {
                    waiting_bytes += chunk.bytes.len();
                    waiting.push(chunk);
                    if waiting_bytes >= COPY_BATCH_BYTES {
                        places.as_mut().map_or(Ok(()), PageLog::lose_track)?;
                        self.copy(sender, waiting)?;
                        waiting_bytes = 0;
                    }
                }
                Ok(Parcel::Rejects(rows)) => rows.copy_to_ledger(&self.session)?,
                Err(RecvTimeoutError::Timeout) => {
                    self.context.check_cancelled()?;
                    if let Some((table, run, records)) = ready.take(run_slots) {
                        appended += writer.append(table, &run)?;
                        if let Some(places) = &mut places {
                            let mut of_slots = std::iter::zip(&run, &records);
                            of_slots.try_for_each(|(pages, records)| places.appended(pages.count, records.as_ref()))?;
                        }
                        if let Some(trials) = &mut trials {
                            trials.appended(&run, Instant::now());
                            self.context.add_sent_pages(&run);
                        }
                        for Pages { slot, .. } in run {
                            // Nobody waits for it once all streams have ended.
                            let _may_be_unwanted = inlet.free.send(slot);
                        }
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.context.check_cancelled()?;
        places.as_mut().map_or(Ok(()), PageLog::finish)?;
        self.copy(sender, waiting)?;
        let finished = writer.finish()?;
        if finished != appended {
            let message = format!("{appended} rows were appended, but the server counted {finished}");
            return Err(Error::Internal { message });
        }
        Ok(())
    }

    /// Sends rows that were put aside. The server finds their partitions itself, as the streams have found them; where
    /// it finds another one, another session may have it locked until all is done.
    fn copy(&self, sender: &mut RowSender<'_, '_, '_, '_, '_, '_>, waiting: &mut Vec<Chunk>) -> Result<()> {
        if waiting.is_empty() {
            return Ok(());
        }
        if self.is_one_of_several {
            self.session.run("SET LOCAL lock_timeout = '1s'", "limiting waits for locks")?;
        }
        // Streams bring them by partition, and the first that is refused ought to be the first of its file.
        waiting.sort_by_key(|chunk| (chunk.place.source, chunk.place.offset));
        waiting
            .drain(..)
            .try_for_each(|chunk| sender.send(chunk))
            .and_then(|()| sender.finish())
            .map_err(or_unsuited)?;
        if self.is_one_of_several {
            self.session.run("SET LOCAL lock_timeout TO DEFAULT", "waiting for locks again")?;
        }
        Ok(())
    }
}

/// Pages that streams have handed over, by table. Streams that work on different tables hand them over by turns; but the
/// server waits for its writes at the end of each statement, and so does best with many pages of one table at a time.
struct ReadyPages {
    tables: Vec<Vec<(Pages, Option<SlotRecords>)>>,
    slots: usize,
}

impl ReadyPages {
    fn new(tables: usize) -> Self {
        Self { tables: (0..tables).map(|_| Vec::new()).collect(), slots: 0 }
    }

    fn is_empty(&self) -> bool {
        self.slots == 0
    }

    fn add(&mut self, table: usize, pages: Pages, records: Option<SlotRecords>) {
        self.tables[table].push((pages, records));
        self.slots += 1;
    }

    /// A run of at most so many slots, in the order in which they came, for the table that has the most of them.
    fn take(&mut self, most_slots: usize) -> Option<(usize, Vec<Pages>, Vec<Option<SlotRecords>>)> {
        if self.is_empty() {
            return None;
        }
        let (table, ready) = self.tables.iter_mut().enumerate().max_by_key(|(_, ready)| ready.len())?;
        let (run, records): (Vec<_>, _) = ready.drain(..ready.len().min(most_slots)).unzip();
        self.slots -= run.len();
        Some((table, run, records))
    }
}

/// The server names a record where it waits for a lock, which is not to blame.
fn or_unsuited(error: Error) -> Error {
    let sqlstate = match &error {
        Error::Server(error) | Error::NearRecord { error, .. } => Some(error.sqlstate.as_str()),
        _ => None,
    };
    if sqlstate.is_some_and(|sqlstate| LOCKED.contains(&sqlstate)) {
        return Error::Unsuited { reason: "only the server can find the partition of some records".into() };
    }
    error
}

#[cfg(test)]
mod tests {
    use super::{Pages, ReadyPages, Slot};

    fn taken(ready: &mut ReadyPages, most_slots: usize) -> Option<(usize, Vec<usize>)> {
        let (table, run, _) = ready.take(most_slots)?;
        Some((table, run.into_iter().map(|pages| pages.count).collect()))
    }

    #[test]
    fn pages_of_one_table_go_together_in_their_order() {
        let mut ready = ReadyPages::new(3);
        assert_eq!(taken(&mut ready, 4), None);
        for (count, table) in [2, 0, 2, 0, 2, 2].into_iter().enumerate() {
            ready.add(table, Pages { slot: Slot::Own(Vec::new()), count, packed: None }, None);
        }
        assert_eq!(taken(&mut ready, 3), Some((2, vec![0, 2, 4])));
        assert_eq!(taken(&mut ready, 3), Some((0, vec![1, 3])));
        assert!(!ready.is_empty());
        assert_eq!(taken(&mut ready, 3), Some((2, vec![5])));
        assert!(ready.is_empty());
        assert_eq!(taken(&mut ready, 3), None);
    }
}
