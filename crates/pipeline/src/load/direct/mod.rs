//! Heap pages in one transaction of one session: streams build pages ([`stream`]), each for its partition where there
//! are partitions ([`divide`]), and one session has the server append them.
//!
//! What fits no page, and what only the server can read, goes by COPY into the same table in the same transaction, in
//! batches between the pages: so a job needs no other way because of some records. Where they are many, it ends with
//! [`Error::Unsuited`], and the caller takes another way.

mod divide;
mod stream;

use super::Context;
use super::queue::WorkQueue;
use super::rejects::RejectLog;
use super::sender::RowSender;
use super::slices::{BEGIN_IMMEDIATE, waits};
use super::transaction;
use crate::counters::StreamState;
use crate::error::{Error, Result};
use crate::plan::{AfterStatement, DirectPlan, PostgresTarget};
use crate::postgres::copy::Chunk;
use crate::postgres::direct::{self, DirectWriter, Opened, Slot};
use crate::postgres::session::Session;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use stream::{Counts, Outlet, Stream};
use tipple_codec::encode::heap::PageLayout;

/// How often a wait on a channel looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

/// Text of COPY that is collected before the pages are interrupted for it.
const COPY_BATCH_BYTES: usize = 4 << 20;

/// What streams hand to the session.
enum Parcel {
    /// The first pages of a slot, for the relation of this number.
    Pages { relation: usize, slot: Slot, pages: usize },
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
    let tables = match &target.routing {
        Some(routing) => &routing.tables[..],
        None => std::slice::from_ref(&target.table),
    };
    // A stream fills one for each relation while the session has one, and one lies ready.
    let slots = context.plan.streams * (tables.len() + 1) + 1;
    let Opened { writer, slots, block_size } =
        direct::open(&session, tables, slots, plan.slot_pages, plan.share_memory)?;
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
                let (queue, counts) = (&queue, &counts);
                let outlet = Outlet { free: free.clone(), parcels: parcels.clone() };
                scope.spawn(move || {
                    let mut rejects = RejectLog::open(context, &format!("stream-{index}"));
                    let counters = &context.counters.streams[index];
                    let built = context
                        .pin(index)
                        .and_then(|()| Stream::new(context, target, plan, layout, counters, outlet, counts))
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
        streams.into_iter().filter_map(|stream| context.joined(stream)).flatten().collect()
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
            Ok(Parcel::Pages { relation, slot, pages }) => {
                appended += writer.append(relation, &slot, pages)?;
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
