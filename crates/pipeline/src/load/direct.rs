//! Heap pages in one transaction of one session: streams build pages, one session has the server append them.
//!
//! What fits no page, and what only the server can read, goes by COPY into the same table in the same transaction, in
//! batches between the pages: so a job needs no other way because of some records. Where they are many, it ends with
//! [`Error::Unsuited`], and the caller takes another way.

use super::Context;
use super::chunks::{Encoder, Skip, example, explain};
use super::parse::{ParsedWindow, Parser};
use super::queue::WorkQueue;
use super::rejects::RejectLog;
use super::sender::RowSender;
use super::slices::{BEGIN_IMMEDIATE, waits};
use super::transaction;
use crate::counters::{StreamCounters, StreamState};
use crate::error::{Error, Result};
use crate::plan::{AfterStatement, DirectPlan, PostgresTarget};
use crate::postgres::copy::Chunk;
use crate::postgres::direct::{self, DirectWriter, Opened, Slot};
use crate::postgres::session::Session;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::encode::heap::{HeapPageEncoder, PageBuffer, PageLayout, Stop};
use tipple_codec::value::ServerVersion;

/// How often a wait on a channel looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

/// Text of COPY that is collected before the pages are interrupted for it.
const COPY_BATCH_BYTES: usize = 4 << 20;

/// So many records are looked at before their way is judged ...
const JUDGED_AFTER_ROWS: u64 = 20_000;
/// ... and of so many, one may go by COPY.
const COPIED_SHARE: u64 = 10;

/// What streams hand to the session.
enum Parcel {
    /// The first pages of a slot.
    Pages { slot: Slot, pages: usize },
    /// Rows that go by COPY.
    Rows(Chunk),
}

pub(super) fn run(
    context: &Context<'_>,
    target: &PostgresTarget,
    plan: &DirectPlan,
    before: &[String],
    after: &[AfterStatement],
) -> Result<()> {
    let session = Session::connect(&target.connection, " 1", &target.session, waits(context, target))?;
    let skips = context.plan.rejects.is_some();
    session.run(if skips { BEGIN_IMMEDIATE } else { "BEGIN" }, "beginning the transaction")?;
    for statement in before {
        session.run(statement, "preparing the table")?;
    }
    // A stream fills one while the session has one, and one lies ready.
    let slots = 2 * context.plan.streams + 1;
    let Opened { writer, slots, block_size } =
        direct::open(&session, &target.table, slots, plan.slot_pages, plan.share_memory)?;
    let (free_sender, free) = crossbeam_channel::bounded(slots.len());
    for slot in slots {
        // The channel has room for all of them.
        let _has_room = free_sender.send(slot);
    }
    let layout = PageLayout { block_size, fillfactor: plan.fillfactor };
    let (parcels, received) = crossbeam_channel::bounded(2 * context.plan.streams + 1);
    let queue = WorkQueue::new(context, false);
    let counts = Counts::default();
    let mut log = RejectLog::open(context, "session");
    let mut logs: Vec<RejectLog<'_, '_>> = std::thread::scope(|scope| {
        queue.start_feeders(scope, context);
        let streams: Vec<_> = (0..context.plan.streams)
            .map(|index| {
                let (queue, free, parcels, counts) = (&queue, free.clone(), parcels.clone(), &counts);
                scope.spawn(move || {
                    let mut rejects = RejectLog::open(context, &format!("stream-{index}"));
                    let counters = &context.counters.streams[index];
                    let pinned = context.pin(index);
                    let built = pinned
                        .and_then(|()| Stream::new(context, target, plan, layout, counters, free, parcels, counts))
                        .and_then(|mut stream| stream.run(queue, &mut rejects));
                    if let Err(error) = built {
                        context.fail(error);
                    }
                    counters.enter(StreamState::Done);
                    rejects
                })
            })
            .collect();
        drop(parcels);
        if let Err(error) = append_all(context, target, &session, writer, &received, &free_sender, log.as_mut()) {
            context.fail(error);
        }
        // Streams that wait for a slot or for room in the channel see that nobody is there any more.
        drop(received);
        drop(free_sender);
        streams.into_iter().filter_map(|stream| stream.join().ok().flatten()).collect()
    });
    logs.extend(log);
    if let Some(error) = context.failure() {
        return Err(error);
    }
    transaction::write_cut_and_rejects(context, target, &session, &mut logs)?;
    transaction::write_and_commit(context, &session, after)
}

/// Has the server append what the streams have built, until the last of them has ended.
#[allow(clippy::too_many_arguments, reason = "called once; they are the caller's own variables")]
fn append_all(
    context: &Context<'_>,
    target: &PostgresTarget,
    session: &Session,
    writer: DirectWriter<'_>,
    parcels: &Receiver<Parcel>,
    free: &Sender<Slot>,
    log: Option<&mut RejectLog<'_, '_>>,
) -> Result<()> {
    let mut sender = RowSender::new(context, session, target, log);
    let (mut waiting, mut waiting_bytes, mut appended) = (Vec::new(), 0, 0);
    loop {
        match parcels.recv_timeout(CANCEL_CHECK) {
            Ok(Parcel::Pages { slot, pages }) => {
                appended += writer.append(&slot, pages)?;
                // Nobody waits for it once all streams have ended.
                let _may_be_unwanted = free.send(slot);
            }
            Ok(Parcel::Rows(chunk)) => {
                waiting_bytes += chunk.bytes.len();
                waiting.push(chunk);
                if waiting_bytes >= COPY_BATCH_BYTES {
                    copy(&mut sender, &mut waiting)?;
                    waiting_bytes = 0;
                }
            }
            Err(RecvTimeoutError::Timeout) => context.check_cancelled()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    context.check_cancelled()?;
    copy(&mut sender, &mut waiting)?;
    let finished = writer.finish()?;
    if finished != appended {
        let message = format!("{appended} rows were appended, but the server counted {finished}");
        return Err(Error::Internal { message });
    }
    Ok(())
}

fn copy(sender: &mut RowSender<'_, '_, '_, '_, '_, '_>, waiting: &mut Vec<Chunk>) -> Result<()> {
    for chunk in waiting.drain(..) {
        sender.send(chunk)?;
    }
    sender.finish()
}

/// Records that went one way and the other.
#[derive(Debug, Default)]
struct Counts {
    seen: AtomicU64,
    copied: AtomicU64,
}

/// One stream: text in, pages out.
struct Stream<'c, 'p> {
    context: &'c Context<'p>,
    counters: &'c StreamCounters,
    heap: HeapPageEncoder,
    /// For what goes by COPY.
    text: Encoder,
    /// For the digest alone, where one is wanted.
    digested: Option<(CopyBinaryEncoder, Vec<u8>)>,
    buffer: Option<PageBuffer<Slot>>,
    layout: PageLayout,
    free: Receiver<Slot>,
    parcels: Sender<Parcel>,
    counts: &'c Counts,
}

impl<'c, 'p> Stream<'c, 'p> {
    #[allow(clippy::too_many_arguments, reason = "called once; they are the caller's own variables")]
    fn new(
        context: &'c Context<'p>,
        target: &PostgresTarget,
        plan: &DirectPlan,
        layout: PageLayout,
        counters: &'c StreamCounters,
        free: Receiver<Slot>,
        parcels: Sender<Parcel>,
        counts: &'c Counts,
    ) -> Result<Self> {
        let load = context.plan;
        let server = ServerVersion(target.server_version);
        let heap = HeapPageEncoder::new(&load.columns, &plan.fields, load.dialect.clone(), server, layout)
            .map_err(|column| Error::Unsuited { reason: format!("no pages can be built of column {}", column.name) })?;
        let digested = load
            .digest
            .then(|| (CopyBinaryEncoder::new(&load.columns, load.dialect.clone(), server, true), Vec::new()));
        let text = Encoder::new(context, target, load.rejects.is_some());
        Ok(Self { context, counters, heap, text, digested, buffer: None, layout, free, parcels, counts })
    }

    fn run<'lc, 'lp>(&mut self, queue: &WorkQueue<'_>, rejects: &mut Option<RejectLog<'lc, 'lp>>) -> Result<()> {
        let context = self.context;
        let mut parser = Parser::new(context);
        while let Some(work) = queue.take(context)? {
            self.counters.take(work.n());
            if let Some(log) = rejects {
                log.enter(work.n());
            }
            let before = self.digest();
            let mut totals =
                parser.parse(context, self.counters, &work, rejects, |parsed, rejects| self.store(parsed, rejects))?;
            totals.digest.sum = self.digest().wrapping_sub(before);
            context.add(&work, &totals);
        }
        self.hand_over()
    }

    fn digest(&self) -> u128 {
        self.digested.as_ref().map_or(0, |(encoder, _)| encoder.digest())
    }

    /// Puts the records of a window on pages, or where they go else.
    fn store(&mut self, parsed: &ParsedWindow<'_>, rejects: &mut Option<RejectLog<'_, '_>>) -> Result<()> {
        let records = parsed.records;
        if let Some((encoder, out)) = &mut self.digested {
            out.clear();
            encoder.encode_unless(records, out, |_| true);
        }
        let (mut row, mut copied) = (0, 0);
        loop {
            let mut buffer = match self.buffer.take() {
                Some(buffer) => buffer,
                None => PageBuffer::new(self.wait_for_slot()?, self.layout),
            };
            let mut skip = Skip::new(parsed, rejects);
            let encoded = self.heap.encode_unless(records, row, &mut buffer, |problem| skip.take(problem));
            skip.finish()?;
            self.buffer = Some(buffer);
            row = encoded.row;
            match encoded.stop {
                None => break,
                Some(Stop::Full) => self.hand_over()?,
                Some(Stop::TooLarge) => {
                    self.copy(parsed, row, rejects)?;
                    (row, copied) = (row + 1, copied + 1);
                }
                Some(Stop::Problem(problem)) if problem.is_unsure() => {
                    self.context.note_fallback(|| example(self.context, parsed, &problem));
                    self.copy(parsed, row, rejects)?;
                    (row, copied) = (row + 1, copied + 1);
                }
                // Whoever parses keeps irregular records, where they are kept.
                Some(Stop::Problem(_)) if rejects.is_some() => break,
                Some(Stop::Problem(problem)) => return Err(explain(self.context, parsed, &problem)),
            }
        }
        self.judge(records.rows() as u64, copied)
    }

    /// Gives up where too many records go by COPY: other ways are faster then.
    fn judge(&self, rows: u64, copied: u64) -> Result<()> {
        let seen = self.counts.seen.fetch_add(rows, Ordering::Relaxed) + rows;
        let copied = self.counts.copied.fetch_add(copied, Ordering::Relaxed) + copied;
        if seen >= JUDGED_AFTER_ROWS && copied * COPIED_SHARE > seen {
            let reason = format!("of the first {seen} records, {copied} fit no page or need the server's own reading");
            return Err(Error::Unsuited { reason });
        }
        Ok(())
    }

    /// Sends one record by COPY.
    fn copy(&mut self, parsed: &ParsedWindow<'_>, row: usize, rejects: &mut Option<RejectLog<'_, '_>>) -> Result<()> {
        let mut record = parsed.records.skip(row);
        record.truncate(1);
        let parsed = ParsedWindow { records: &record, first_record: parsed.first_record + row as u64, ..*parsed };
        for chunk in self.text.encode(self.context, &parsed, rejects)? {
            self.send(Parcel::Rows(chunk))?;
        }
        Ok(())
    }

    /// Hands over the pages that are built.
    fn hand_over(&mut self) -> Result<()> {
        let Some(buffer) = self.buffer.take() else { return Ok(()) };
        let (slot, pages) = buffer.finish();
        if pages == 0 {
            return Ok(());
        }
        self.counters.enter(StreamState::Send);
        self.send(Parcel::Pages { slot, pages })?;
        self.counters.enter(StreamState::Encode);
        Ok(())
    }

    fn wait_for_slot(&self) -> Result<Slot> {
        self.counters.enter(StreamState::Wait);
        loop {
            match self.free.recv_timeout(CANCEL_CHECK) {
                Ok(slot) => {
                    self.counters.enter(StreamState::Encode);
                    return Ok(slot);
                }
                Err(RecvTimeoutError::Timeout) => self.context.check_cancelled()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Cancelled),
            }
        }
    }

    fn send(&self, parcel: Parcel) -> Result<()> {
        super::single::send(self.context, &self.parcels, parcel)
    }
}
