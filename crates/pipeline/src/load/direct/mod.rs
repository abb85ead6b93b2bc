//! Heap pages in one transaction of one session: streams build pages ([`stream`], [`batches`] of columnar sources), each
//! for its partition where there are partitions ([`divide`]), and the session has the server append them ([`append`]).
//! Over a network they go packed where that is quicker ([`packing`]).
//!
//! Of many streams one session could not keep up, so they have several where there are several partitions. All but the
//! first commit as soon as they have appended: nobody sees these partitions, the first one's ledger does not know of their
//! rows until its own commit, and who begins again empties them.
//!
//! What fits no page, and what only the server can read, goes by COPY into the same table in the same transaction, in
//! batches between the pages: so a job needs no other way because of some records. Where they are many, it ends with
//! [`Error::Unsuited`], and the caller takes another way.

mod append;
mod batches;
mod divide;
mod outbox;
mod packing;
mod stream;

use super::Context;
use super::queue::{Order, WorkQueue};
use super::rejects::RejectLog;
use super::transaction;
use crate::counters::StreamState;
use crate::error::Result;
use crate::plan::{AfterStatement, DirectPlan, PostgresTarget};
use append::{Appender, Inlet, Outlet};
use batches::BatchStream;
use outbox::{Counts, Outbox};
use std::time::Duration;
use stream::Stream;
use tipple_codec::encode::heap::PageLayout;

/// How often a wait on a channel looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

/// A stream takes a little more of the processor's time for its pages than the server does to append them, so that so
/// many streams keep a session and a core each busy. There is one session more, since each waits for the disk at times.
const STREAMS_PER_SESSION: usize = 2;

pub(super) fn run(
    context: &Context<'_>,
    target: &PostgresTarget,
    plan: &DirectPlan,
    after: &[AfterStatement],
) -> Result<()> {
    let tables = match &target.routing {
        Some(routing) => &routing.tables[..],
        None => std::slice::from_ref(&target.table),
    };
    let useful = (context.plan.streams / STREAMS_PER_SESSION + 1).min(context.plan.streams);
    let sessions = useful.clamp(1, tables.len().max(1));
    let (outlets, mut inlets): (Vec<Outlet>, Vec<Inlet>) = (0..sessions)
        .map(|number| append::connect(context, plan, tables.iter().skip(number).step_by(sessions).len()))
        .unzip();
    let first = Appender::begin(context, target, (0, sessions), tables)?;
    let others = inlets.split_off(1);
    let inlet = inlets.remove(0);
    let (writer, block_size) = first.open(plan, &inlet)?;
    let layout = PageLayout { block_size, fillfactor: plan.fillfactor };
    let queue = WorkQueue::new(context, Order::of_tables(false, tables.len()));
    let counts = Counts::default();
    let keeps_rejects = target.ledger.is_some();
    let mut log = RejectLog::open(context, "session");
    let mut logs: Vec<RejectLog<'_, '_>> = std::thread::scope(|scope| {
        queue.start_feeders(scope, context);
        let streams = (0..context.plan.streams).map(|index| {
            let (queue, counts, outlets) = (&queue, &counts, outlets.clone());
            scope.spawn(move || {
                let mut rejects = RejectLog::open(context, &format!("stream-{index}"));
                let counters = &context.counters.streams[index];
                let outbox = Outbox::new(context, counters, layout, tables.len(), outlets, counts, keeps_rejects);
                let built = context.pin(index).and_then(|()| build(target, plan, outbox, index, queue, &mut rejects));
                if let Err(error) = built {
                    context.fail(error);
                }
                counters.enter(StreamState::Done);
                rejects
            })
        });
        let appenders = (1..).zip(others).map(|(number, inlet)| {
            scope.spawn(move || {
                let mut log = RejectLog::open(context, &format!("session-{number}"));
                let appended = Appender::begin(context, target, (number, sessions), tables)
                    .and_then(|appender| append_apart(&appender, plan, after, inlet, log.as_mut()));
                if let Err(error) = appended {
                    context.fail(error);
                }
                log
            })
        });
        let threads: Vec<_> = streams.chain(appenders).collect();
        drop(outlets);
        // Streams that wait for a slot or for room in the channel see when nobody is there any more.
        if let Err(error) = first.append_all(writer, plan.run_slots, inlet, log.as_mut()) {
            context.fail(error);
        }
        threads.into_iter().filter_map(|thread| context.joined(thread)).flatten().collect()
    });
    logs.extend(log);
    if let Some(error) = context.failure() {
        return Err(error);
    }
    if context.late_rejects() > 0 {
        context.forget_digest();
    }
    transaction::write_cut_and_rejects(context, target, &first.session, &mut logs)?;
    transaction::write_and_commit(context, &first.session, after)
}

/// What a stream does.
fn build<'c>(
    target: &PostgresTarget,
    plan: &DirectPlan,
    outbox: Outbox<'c, 'c>,
    index: usize,
    queue: &WorkQueue<'_>,
    rejects: &mut Option<RejectLog<'_, '_>>,
) -> Result<()> {
    match &outbox.context.columnar {
        Some(job) => BatchStream::new(job, target, plan, outbox)?.run(queue, rejects),
        None => Stream::new(target, plan, outbox, index)?.run(queue, rejects),
    }
}

/// What a session does that is not the first one.
fn append_apart(
    appender: &Appender<'_, '_>,
    plan: &DirectPlan,
    after: &[AfterStatement],
    inlet: Inlet,
    log: Option<&mut RejectLog<'_, '_>>,
) -> Result<()> {
    let (writer, _) = appender.open(plan, &inlet)?;
    appender.append_all(writer, plan.run_slots, inlet, log)?;
    // Another run may have filled and finished these partitions meanwhile: it must not find them emptied.
    transaction::prove_ownership(&appender.session, after)?;
    appender.session.run("COMMIT", "committing pages")
}
