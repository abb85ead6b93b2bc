//! All rows in one transaction of one session: streams only parse and encode, one session sends.
//!
//! The way into a table that already has rows and readers: nothing is staged, nothing is copied twice, and the one
//! COMMIT is the publish. What is lost with a broken connection is the whole transaction, which then starts again.

use super::Context;
use super::context::SliceTotals;
use super::parse::Parser;
use super::queue::SliceQueue;
use super::slices::{Encoder, waits};
use crate::counters::StreamState;
use crate::error::{Error, Result};
use crate::plan::{AfterStatement, PostgresTarget};
use crate::postgres::copy::{Chunk, CopyWriter};
use crate::postgres::digest;
use crate::postgres::session::Session;
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender};
use std::time::Duration;

/// How often a wait on the channel looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

pub(super) fn run(
    context: &Context<'_>,
    target: &PostgresTarget,
    before: &[String],
    verify_query: Option<&str>,
    after: &[AfterStatement],
) -> Result<()> {
    let session = Session::connect(&target.connection, " 1", &target.session, waits(context, target))?;
    session.run("BEGIN", "beginning the transaction")?;
    for statement in before {
        session.run(statement, "preparing the table")?;
    }
    let queue = SliceQueue::new(&context.plan.slices, false);
    let (sender, receiver) = crossbeam_channel::bounded(2 * context.plan.streams.max(1));
    std::thread::scope(|scope| {
        for index in 0..context.plan.streams {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                if let Err(error) = stream(context, target, queue, &sender, index) {
                    context.fail(error);
                }
                context.counters.streams[index].enter(StreamState::Done);
            });
        }
        drop(sender);
        if let Err(error) = send_all(context, target, &session, &receiver) {
            context.fail(error);
        }
    });
    if let Some(error) = context.failure() {
        return Err(error);
    }
    // Rows that the server itself read have no digest on this side.
    if let Some(query) = verify_query.filter(|_| context.fallback_windows() == 0) {
        let held = digest::of_query(&session, query)?;
        context.set_target_digest(held);
        if held != context.digest() {
            // Rolled back by hanging up; the caller compares both digests and says what differs.
            return Ok(());
        }
    }
    let digest = context.digest();
    for statement in after {
        let sql = statement
            .sql
            .replace(":rows", &digest.rows.to_string())
            .replace(":digest", &format!("'{:032x}'", digest.sum))
            .replace(":bytes", &context.plan.slices.iter().map(crate::plan::Slice::bytes).sum::<u64>().to_string());
        if session.query(&sql, "writing the ledger")?.is_empty() && statement.proves_ownership {
            return Err(Error::LostOwnership);
        }
    }
    session.run("COMMIT", "committing").map_err(|error| match error {
        Error::Connection { message, .. } => Error::CommitInDoubt { message },
        other => other,
    })
}

fn stream(
    context: &Context<'_>,
    target: &PostgresTarget,
    queue: &SliceQueue<'_>,
    sender: &Sender<Chunk>,
    index: usize,
) -> Result<()> {
    let counters = &context.counters.streams[index];
    let mut parser = Parser::new(context);
    while let Some(slice) = queue.take() {
        counters.take(slice.n);
        let mut encoder = Encoder::new(context, target);
        let mut totals: SliceTotals = parser.parse(context, counters, slice, |parsed| {
            let chunks = encoder.encode(context, parsed)?;
            counters.enter(StreamState::Send);
            for chunk in chunks {
                send(context, sender, chunk)?;
            }
            Ok(())
        })?;
        totals.digest.sum = encoder.digest();
        context.add(slice, &totals);
    }
    Ok(())
}

fn send(context: &Context<'_>, sender: &Sender<Chunk>, chunk: Chunk) -> Result<()> {
    let mut chunk = chunk;
    loop {
        match sender.send_timeout(chunk, CANCEL_CHECK) {
            Ok(()) => return Ok(()),
            Err(SendTimeoutError::Timeout(back)) if !context.counters.is_cancelled() => chunk = back,
            Err(_) => return Err(Error::Cancelled),
        }
    }
}

fn send_all(
    context: &Context<'_>,
    target: &PostgresTarget,
    session: &Session,
    receiver: &Receiver<Chunk>,
) -> Result<()> {
    let mut writer = CopyWriter::new(session, &target.table, &target.column_list);
    loop {
        match receiver.recv_timeout(CANCEL_CHECK) {
            Ok(chunk) => writer.send(chunk).map_err(|failure| context.explain_copy(failure))?,
            Err(RecvTimeoutError::Timeout) => context.check_cancelled()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    context.check_cancelled()?;
    writer.finish().map_err(|failure| context.explain_copy(failure))
}
