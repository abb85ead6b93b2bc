//! All rows in one transaction of one session: streams only parse and encode, one session sends.
//!
//! The way into a table that already has rows and readers: nothing is staged, nothing is copied twice, and the one
//! COMMIT is the publish. What is lost with a broken connection is the whole transaction, which then starts again.

use super::Context;
use super::batch_chunks::ChunkFeed;
use super::chunks::Encoder;
use super::context::SliceTotals;
use super::parse::Parser;
use super::queue::{Order, WorkQueue};
use super::rejects::RejectLog;
use super::sender::RowSender;
use super::slices::{BEGIN_IMMEDIATE, waits};
use super::transaction;
use crate::counters::StreamState;
use crate::error::{Error, Result};
use crate::job::lock;
use crate::plan::{AfterStatement, PostgresTarget, Slice};
use crate::postgres::copy::Chunk;
use crate::postgres::digest;
use crate::postgres::session::Session;
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a wait on the channel looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

/// What surrounds the rows in their transaction.
pub(super) struct Transaction<'p> {
    /// Statements before the first row.
    pub(super) before: &'p [String],
    /// A query for the rows, whose digest must be that of what was read.
    pub(super) verify_query: Option<&'p str>,
    /// Statements after the last row.
    pub(super) after: &'p [AfterStatement],
}

pub(super) fn run(
    context: &Context<'_>,
    target: &PostgresTarget,
    keep_order: bool,
    transaction: &Transaction<'_>,
) -> Result<()> {
    let session = Session::connect(&target.connection, " 1", &target.session, waits(context, target))?;
    let skips = context.plan.rejects.is_some();
    session.run(if skips { BEGIN_IMMEDIATE } else { "BEGIN" }, "beginning the transaction")?;
    for statement in transaction.before {
        session.run(statement, "preparing the table")?;
    }
    transaction::require_known_types(target, &session)?;
    let queue = WorkQueue::new(context, Order::of_tables(keep_order, 1));
    // Of what is cut while it is read, nobody knows beforehand how many slices there are: one stream keeps the order.
    let fed_in_order = keep_order && !context.plan.feeding.feeds.is_empty();
    let streams = if fed_in_order { 1 } else { context.plan.streams };
    let (lanes, receivers) =
        Lanes::new(&context.plan.slices, keep_order && !fed_in_order, 2 * context.plan.streams.max(1));
    let mut log = RejectLog::open(context, "session");
    let mut logs: Vec<RejectLog<'_, '_>> = std::thread::scope(|scope| {
        queue.start_feeders(scope, context);
        let streams: Vec<_> = (0..streams)
            .map(|index| {
                let (queue, lanes) = (&queue, lanes.clone());
                scope.spawn(move || {
                    let mut rejects = RejectLog::open(context, &format!("stream-{index}"));
                    let pinned = context.pin(index);
                    let streamed = pinned.and_then(|()| stream(context, target, queue, &lanes, &mut rejects, index));
                    if let Err(error) = streamed {
                        context.fail(error);
                    }
                    context.counters.streams[index].enter(StreamState::Done);
                    rejects
                })
            })
            .collect();
        drop(lanes);
        if let Err(error) = send_all(context, target, &session, &receivers, log.as_mut()) {
            context.fail(error);
        }
        streams.into_iter().filter_map(|stream| context.joined(stream)).flatten().collect()
    });
    logs.extend(log);
    if let Some(error) = context.failure() {
        return Err(error);
    }
    let Transaction { verify_query, after, .. } = *transaction;
    transaction::write_cut_and_rejects(context, target, &session, &mut logs)?;
    // Rows that the server itself read have no digest on this side; rows behind savepoints are not told apart.
    if let Some(query) = verify_query.filter(|_| context.fallback_windows() == 0 && !skips) {
        let held = digest::of_query(&session, query)?;
        context.set_target_digest(held);
        if held != context.digest() {
            // Rolled back by hanging up; the caller compares both digests and says what differs.
            return Ok(());
        }
    }
    transaction::write_and_commit(context, &session, after)
}

/// The senders of slices that no stream has taken yet.
type Untaken = Arc<Mutex<HashMap<u32, Sender<Chunk>>>>;

/// How chunks get to the one session; a lane ends when all of its senders are dropped.
#[derive(Clone)]
enum Lanes {
    /// All on one lane, as they come.
    One(Sender<Chunk>),
    /// A lane for each slice, emptied in the order of the slices.
    InOrder(Untaken),
}

impl Lanes {
    fn new(slices: &[Slice], keep_order: bool, capacity: usize) -> (Self, Vec<Receiver<Chunk>>) {
        if !keep_order {
            let (sender, receiver) = crossbeam_channel::bounded(capacity);
            return (Self::One(sender), vec![receiver]);
        }
        let (mut senders, mut receivers) = (HashMap::new(), Vec::new());
        for slice in slices {
            let (sender, receiver) = crossbeam_channel::bounded(capacity);
            senders.insert(slice.n, sender);
            receivers.push(receiver);
        }
        (Self::InOrder(Arc::new(Mutex::new(senders))), receivers)
    }

    /// The sender for a slice that is taken now.
    fn of(&self, slice: u32) -> Result<Sender<Chunk>> {
        match self {
            Self::One(sender) => Ok(sender.clone()),
            Self::InOrder(untaken) => lock(untaken)
                .remove(&slice)
                .ok_or_else(|| Error::Internal { message: format!("slice {slice} was taken twice") }),
        }
    }
}

fn stream<'c, 'p>(
    context: &Context<'_>,
    target: &PostgresTarget,
    queue: &WorkQueue<'_>,
    lanes: &Lanes,
    rejects: &mut Option<RejectLog<'c, 'p>>,
    index: usize,
) -> Result<()> {
    let counters = &context.counters.streams[index];
    if let Some(job) = &context.columnar {
        let mut feed = ChunkFeed::new(job, target);
        while let Some(work) = queue.take(context)? {
            counters.take(work.n());
            let lane = lanes.of(work.n())?;
            if let Some(log) = rejects {
                log.enter(work.n());
            }
            let with_origin = rejects.is_some();
            let totals = feed.read(context, counters, &work, with_origin, rejects, |chunk, _| {
                counters.enter(StreamState::Send);
                send(context, &lane, chunk)
            })?;
            context.add(&work, &totals);
        }
        return Ok(());
    }
    let mut parser = Parser::new(context);
    while let Some(work) = queue.take(context)? {
        counters.take(work.n());
        let lane = lanes.of(work.n())?;
        if let Some(log) = rejects {
            log.enter(work.n());
        }
        let mut encoder = Encoder::new(context, target, rejects.is_some());
        let mut totals: SliceTotals = parser.parse(context, counters, &work, rejects, |parsed, rejects| {
            let chunks = encoder.encode(context, parsed, rejects)?;
            counters.enter(StreamState::Send);
            for chunk in chunks {
                send(context, &lane, chunk)?;
            }
            Ok(())
        })?;
        totals.digest.sum = encoder.digest();
        context.add(&work, &totals);
    }
    Ok(())
}

/// Sends, but does not wait on after the job was cancelled.
pub(super) fn send<T>(context: &Context<'_>, sender: &Sender<T>, parcel: T) -> Result<()> {
    let mut parcel = parcel;
    loop {
        match sender.send_timeout(parcel, CANCEL_CHECK) {
            Ok(()) => return Ok(()),
            Err(SendTimeoutError::Timeout(back)) if !context.counters.is_cancelled() => parcel = back,
            Err(_) => return Err(Error::Cancelled),
        }
    }
}

fn send_all(
    context: &Context<'_>,
    target: &PostgresTarget,
    session: &Session,
    receivers: &[Receiver<Chunk>],
    log: Option<&mut RejectLog<'_, '_>>,
) -> Result<()> {
    let mut sender = RowSender::new(context, session, target, log);
    for receiver in receivers {
        loop {
            let chunk = match receiver.recv_timeout(CANCEL_CHECK) {
                Ok(chunk) => chunk,
                Err(RecvTimeoutError::Timeout) => {
                    context.check_cancelled()?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            sender.send(chunk)?;
        }
    }
    context.check_cancelled()?;
    sender.finish()
}
