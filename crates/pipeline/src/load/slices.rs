//! Every slice a transaction of its own, with its row in the ledger: rows and bookkeeping commit together or not
//! at all, so a slice whose fate is unknown is simply looked up.

use super::Context;
use super::batch_chunks::ChunkFeed;
use super::chunks::Encoder;
use super::context::{SliceTotals, done_pieces, rest_pieces};
use super::guard::{Guard, is_records_fault};
use super::kept::Blocks;
use super::parse::Parser;
use super::queue::{Order, Work, WorkQueue};
use super::rejects::RejectLog;
use super::router::{Divider, PartitionWriter, blocks_for};
use super::transaction;
use super::unique::KeyLog;
use crate::counters::StreamState;
use crate::error::{Error, Result};
use crate::plan::{LedgerKey, Piece, PostgresTarget, Routes, Slice, WritePath};
use crate::postgres::copy::{CopyFailure, CopyWriter};
use crate::postgres::session::{Session, Waits};
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// The first pause before a lost server is tried again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Begins a transaction in which deferred constraints are checked at once: at COMMIT no record could be named.
pub(super) const BEGIN_IMMEDIATE: &str = "BEGIN; SET CONSTRAINTS ALL IMMEDIATE";

pub(super) fn run(context: &Context<'_>, target: &PostgresTarget, keep_order: bool) -> Result<()> {
    if context.is_in_memory() && context.plan.rejects.is_some() {
        // There is no second attempt at what cannot be read again.
        context.guard();
    }
    let tables = target.routing.as_ref().map_or(1, |routing| routing.tables.len());
    let queue = WorkQueue::new(context, Order::of_tables(keep_order, tables));
    queue.share_out(context, |index| stream(context, target, &queue, index));
    context.failure().map_or(Ok(()), Err)
}

fn stream(context: &Context<'_>, target: &PostgresTarget, queue: &WorkQueue<'_>, index: usize) -> Result<()> {
    let mut session: Option<Session> = None;
    let mut worker = Worker::new(context, target, index)?;
    let mut rest: Option<Work<'_>> = None;
    while let Some(work) = rest.take().map_or_else(|| queue.take(context), |rest| Ok(Some(rest)))? {
        context.counters.streams[index].take(work.n());
        worker.rest_n = None;
        let mut lost_since: Option<Instant> = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let guarded = context.is_guarded();
            match worker.load(&mut session, &work, lost_since.is_some()) {
                Ok(Some(totals)) => {
                    context.add(&work, &totals);
                    worker.keys.as_mut().map_or(Ok(()), KeyLog::keep)?;
                    if let Some(n) = worker.rest_n.filter(|_| !totals.rest.is_empty()) {
                        context.counters.slice_found();
                        rest = Some(Work::Slice(Cow::Owned(Slice { n, pieces: totals.rest })));
                    }
                    break;
                }
                // A crash has taken the transaction with it that made this slice of the rest of another one, which the
                // ledger has as planned again: whoever called loads that once more.
                Ok(None) => break,
                Err(error @ Error::Connection { .. }) => {
                    session = None;
                    let since = *lost_since.get_or_insert_with(Instant::now);
                    // Without a ledger nobody can tell whether a lost COMMIT took place; what a stream in memory
                    // has given, it does not give again.
                    let lost = target.ledger.is_none() || context.is_in_memory();
                    if lost || since.elapsed() >= Duration::from_secs(target.retry_seconds) {
                        return Err(error);
                    }
                    context.counters.retry();
                    wait_before_retry(context, index, pause)?;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                // The server has refused a record that can be rejected: the slice is done again, in batches.
                Err(_) if worker.refused && !guarded => context.guard(),
                Err(error) => return Err(error),
            }
        }
    }
    worker.keys.map_or(Ok(()), KeyLog::finish)
}

fn wait_before_retry(context: &Context<'_>, index: usize, pause: Duration) -> Result<()> {
    context.counters.streams[index].enter(StreamState::Retry);
    let until = Instant::now() + pause;
    while Instant::now() < until {
        context.check_cancelled()?;
        std::thread::sleep(Duration::from_millis(50).min(until.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

/// The bounds of every wait of a session.
pub(super) fn waits(context: &Context<'_>, target: &PostgresTarget) -> Waits {
    Waits { stall: Duration::from_secs(target.stall_seconds), counters: context.counters.clone() }
}

struct Worker<'c, 'p> {
    context: &'c Context<'p>,
    target: &'c PostgresTarget,
    index: usize,
    parser: Parser,
    rejects: Option<RejectLog<'c, 'p>>,
    /// The keys of what is stored, where they are judged by afterwards.
    keys: Option<KeyLog>,
    /// The last attempt failed because the server refused a record that can be rejected.
    refused: bool,
    columnar: Option<ChunkFeed<'c>>,
    /// For rows that wait for their partition's turn.
    blocks: Option<Blocks>,
    /// The number of what the slice leaves over, the same in every attempt.
    rest_n: Option<u32>,
}

impl<'c, 'p> Worker<'c, 'p> {
    fn new(context: &'c Context<'p>, target: &'c PostgresTarget, index: usize) -> Result<Self> {
        let rejects = RejectLog::open(context, &format!("stream-{index}"));
        let columnar = context.columnar.as_ref().map(|job| ChunkFeed::new(job, target));
        let parser = Parser::new(context);
        let blocks = target.routing.as_ref().map(blocks_for);
        let keys = KeyLog::open(context, target, index)?;
        Ok(Self { context, target, index, parser, rejects, keys, refused: false, columnar, blocks, rest_n: None })
    }

    /// Loads one slice in one transaction, or as much of it as a transaction may hold; `again` where an earlier attempt
    /// may have committed. `None` where the ledger does not know the slice.
    fn load(&mut self, slot: &mut Option<Session>, work: &Work<'_>, again: bool) -> Result<Option<SliceTotals>> {
        let stream = &self.context.counters.streams[self.index];
        stream.enter(StreamState::Wait);
        let session = match slot {
            Some(session) => session,
            None => slot.insert(Session::connect(
                &self.target.connection,
                &format!(" {}", self.index + 1),
                &self.target.session,
                waits(self.context, self.target),
            )?),
        };
        if again {
            match self.find_done(session, work)? {
                Known::Done(totals) => return Ok(Some(totals)),
                Known::Planned => {}
                Known::Gone => return Ok(None),
            }
        }
        let result = self.transaction(session, work);
        if let Err(error) = &result {
            // A session that is still alive is left clean; a lost one has nothing to clean.
            if !matches!(error, Error::Connection { .. } | Error::Cancelled) {
                // The first error is the one to report, and the session is dropped with the stream anyway.
                let _already_failing = session.run("ROLLBACK", "rolling back");
            }
        }
        result.map(Some)
    }

    fn transaction(&mut self, session: &Session, work: &Work<'_>) -> Result<SliceTotals> {
        let (context, target) = (self.context, self.target);
        let stream = &context.counters.streams[self.index];
        let mark = stream.mark();
        if let Some(log) = &mut self.rejects {
            log.begin(work.n())?;
        }
        if let Some(keys) = &mut self.keys {
            keys.begin();
        }
        session.run(if self.rejects.is_some() { BEGIN_IMMEDIATE } else { "BEGIN" }, "beginning a slice")?;
        transaction::require_known_types(target, session)?;
        if let Some(setting) = &target.slice_setting {
            session.run(&format!("SET LOCAL {setting} = {}", work.order()), "beginning a slice")?;
        }
        self.refused = false;
        let mut refused = false;
        let mut explain = |failure: CopyFailure| {
            refused |= is_records_fault(&failure);
            context.explain_copy(failure, work.block())
        };
        let mut writer = CopyWriter::new(session, &target.table, &target.column_list);
        let has_rows = self.columnar.is_some();
        // Once a record was refused, rows go into the table itself, where their places are known. A stream in memory
        // cannot be read again, and of rows of a columnar source the router rejects none.
        let unrouted = context.is_guarded() || context.is_in_memory() || (has_rows && self.rejects.is_some());
        let routing = target.routing.as_ref().filter(|_| !unrouted);
        let mut divider = target.routing.as_ref().map(|routing| Divider::new(context, routing)).transpose()?;
        let mut routed = routing
            .zip(self.blocks.clone())
            .map(|(routing, blocks)| PartitionWriter::new(session, target, routing, blocks));
        let mut guard = (self.rejects.is_some() && context.is_guarded()).then(|| Guard::new(context, session, target));
        if let Some(feed) = &mut self.columnar {
            let keys = &mut self.keys;
            let read = feed.read(context, stream, work, guard.is_some(), &mut self.rejects, |chunk, rejects| {
                keys.as_mut().map_or(Ok(()), |keys| keys.note_chunk(&chunk))?;
                stream.enter(StreamState::Send);
                match (&mut guard, rejects.as_mut(), chunk.origin.clone()) {
                    (Some(guard), Some(log), Some(origin)) => {
                        guard.send(&chunk, &origin, &mut |refused| refused.keep_in(log))
                    }
                    _ => match (&mut routed, &mut divider) {
                        (Some(routed), Some(divider)) if chunk.format == WritePath::Binary => {
                            divider.divide(context, &chunk)?;
                            routed.take(chunk, divider).map_err(&mut explain)
                        }
                        _ => writer.send(chunk).map_err(&mut explain),
                    },
                }
            });
            stream.enter(StreamState::Wait);
            let finished = read.and_then(|totals| {
                let routes = finish(&mut routed, totals.rows()).map_err(&mut explain)?;
                writer.finish().map_err(&mut explain)?;
                let has_digest =
                    target.write_path == WritePath::Binary && guard.as_ref().is_none_or(|guard| guard.refused == 0);
                self.record_and_commit(session, work, &totals, has_digest)?;
                context.add_routes(routes);
                Ok(totals)
            });
            self.refused = refused && (self.rejects.is_some() || routing.is_some());
            if finished.is_err() {
                stream.take_back_to(mark);
            }
            return finished;
        }
        let mut encoder = Encoder::new(context, target, guard.is_some()).divided_by(divider);
        let keys = &mut self.keys;
        let result = self.parser.parse(context, stream, work, &mut self.rejects, |parsed, rejects| {
            keys.as_mut().map_or(Ok(()), |keys| keys.note(parsed))?;
            let chunks = encoder.encode(context, parsed, rejects)?;
            stream.enter(StreamState::Send);
            for chunk in chunks {
                match (&mut guard, rejects.as_mut(), chunk.origin.clone()) {
                    (Some(guard), Some(log), Some(origin)) => {
                        guard.send(&chunk, &origin, &mut |refused| refused.keep_in(log))?;
                    }
                    _ => match (&mut routed, encoder.divider()) {
                        (Some(routed), Some(divider)) => routed.take(chunk, divider).map_err(&mut explain)?,
                        _ => writer.send(chunk).map_err(&mut explain)?,
                    },
                }
            }
            Ok(())
        });
        let finished = result.and_then(|mut totals| {
            stream.enter(StreamState::Wait);
            let routes = finish(&mut routed, totals.rows()).map_err(&mut explain)?;
            writer.finish().map_err(&mut explain)?;
            totals.digest.sum = encoder.digest();
            let has_digest = encoder.has_digest() && guard.as_ref().is_none_or(|guard| guard.refused == 0);
            self.record_and_commit(session, work, &totals, has_digest)?;
            context.add_routes(routes);
            Ok(totals)
        });
        // Of a routed record the place is not known: the slice is done again, unrouted, if only to name it.
        self.refused = refused && (self.rejects.is_some() || routing.is_some());
        if finished.is_err() {
            stream.take_back_to(mark);
        }
        finished
    }

    fn record_and_commit(
        &mut self,
        session: &Session,
        work: &Work<'_>,
        totals: &SliceTotals,
        has_digest: bool,
    ) -> Result<()> {
        if !has_digest {
            self.context.forget_digest();
        }
        if let Some(key) = &self.target.ledger {
            if !totals.rest.is_empty() && self.rest_n.is_none() {
                self.rest_n = Some(self.context.new_part_n());
            }
            let statement = done_statement(key, work, totals, has_digest, self.rest_n);
            if session.query(&statement, "writing the ledger")?.is_empty() {
                return Err(Error::LostOwnership);
            }
            if let Some(log) = self.rejects.as_mut().filter(|log| log.count() > 0) {
                log.copy_to_ledger(session)?;
            }
        }
        session.run("COMMIT", "committing a slice")?;
        self.rejects.as_mut().map_or(Ok(()), RejectLog::keep)
    }

    /// The totals of a slice that an attempt with a lost answer has committed after all.
    fn find_done(&self, session: &Session, work: &Work<'_>) -> Result<Known> {
        let Some(key) = &self.target.ledger else { return Ok(Known::Planned) };
        let statement = format!(
            "SELECT rows, row_digest, rejects, pieces::text, state FROM tipple.slice WHERE job_id = '{}' AND n = {}",
            key.job_id,
            work.n()
        );
        let found = session.query(&statement, "reading the ledger")?;
        let Some(row) = found.first() else {
            return Ok(if work.block().is_some() { Known::Planned } else { Known::Gone });
        };
        if row.get::<_, &str>(4) != "done" {
            return Ok(Known::Planned);
        }
        let (rows, digest, rejects): (i64, Option<String>, i64) = (row.get(0), row.get(1), row.get(2));
        let done: Vec<Piece> = serde_json::from_str(row.get(3))
            .map_err(|error| Error::Internal { message: format!("the ledger's pieces: {error}") })?;
        let mut totals = SliceTotals { rejects: rejects.cast_unsigned(), ..SliceTotals::default() };
        totals.digest.rows = rows.cast_unsigned();
        totals.digest.sum = digest.and_then(|text| u128::from_str_radix(&text, 16).ok()).unwrap_or(0);
        // Which of several grouped sources the rows came from is not worth a second reading.
        for (index, piece) in done.iter().enumerate() {
            totals.pieces.push((piece.source, if index == 0 { totals.digest.rows } else { 0 }, piece.length));
        }
        totals.rest = rest_pieces(&work.pieces(), &done);
        let left: u64 = totals.rest.iter().map(|piece| piece.length).sum();
        self.context.counters.streams[self.index].add(work.file_bytes() - left, totals.digest.rows);
        Ok(Known::Done(totals))
    }
}

/// What the ledger says of a slice.
enum Known {
    Done(SliceTotals),
    Planned,
    Gone,
}

/// Stores what is left of a slice's rows; without partitions they came to their places by the server.
fn finish(routed: &mut Option<PartitionWriter<'_>>, rows: u64) -> std::result::Result<Routes, CopyFailure> {
    match routed {
        Some(routed) => routed.finish(),
        None => Ok(Routes { server_rows: rows, ..Routes::default() }),
    }
}

/// Marks a slice as done, if the job is still this owner's and the slice not done yet; returns a row if so. What it
/// leaves over becomes a slice with the number `rest_n`.
fn done_statement(
    key: &LedgerKey,
    work: &Work<'_>,
    totals: &SliceTotals,
    has_digest: bool,
    rest_n: Option<u32>,
) -> String {
    let digest = if has_digest { format!("'{:032x}'", totals.digest.sum) } else { "NULL".into() };
    let owner = format!(
        "WITH owner AS (SELECT FROM tipple.job WHERE job_id = '{job}' AND epoch = {epoch} \
           AND state = 'loading' FOR SHARE) ",
        job = key.job_id,
        epoch = key.epoch,
    );
    let (job, n, rows, rejects) = (&key.job_id, work.n(), totals.digest.rows, totals.rejects);
    match work {
        Work::Slice(_) if !totals.rest.is_empty() => {
            let done = slice_values(&done_pieces(&work.pieces(), &totals.rest));
            let rest = slice_values(&totals.rest);
            format!(
                "{owner}, done AS (UPDATE tipple.slice SET state = 'done', rows = {rows}, rejects = {rejects}, \
                   row_digest = {digest}, attempt = attempt + 1, xid = pg_current_xact_id()::text, \
                   finished_at = clock_timestamp(), (source, byte_offset, byte_length, pieces) = ROW({done}) \
                 FROM owner WHERE job_id = '{job}' AND n = {n} AND state <> 'done' RETURNING n) \
                 INSERT INTO tipple.slice (job_id, n, source, byte_offset, byte_length, pieces) \
                 SELECT '{job}', {rest_n}, {rest} FROM done RETURNING n",
                rest_n = rest_n.unwrap_or_default(),
            )
        }
        Work::Slice(_) => format!(
            "{owner}UPDATE tipple.slice SET state = 'done', rows = {rows}, rejects = {rejects}, row_digest = {digest}, \
               attempt = attempt + 1, xid = pg_current_xact_id()::text, finished_at = clock_timestamp() \
             FROM owner WHERE job_id = '{job}' AND n = {n} AND state <> 'done' RETURNING n",
        ),
        // How many blocks there are is known at the end only, so each brings its own row.
        Work::Block(_) => {
            let values = slice_values(&work.pieces());
            format!(
                "{owner}INSERT INTO tipple.slice (job_id, n, source, byte_offset, byte_length, pieces, state, attempt, \
                   rows, rejects, row_digest, xid, finished_at) \
                 SELECT '{job}', {n}, {values}, 'done', 1, {rows}, {rejects}, {digest}, \
                   pg_current_xact_id()::text, clock_timestamp() FROM owner RETURNING n"
            )
        }
    }
}

/// The values of `source, byte_offset, byte_length, pieces` for a slice of these pieces.
fn slice_values(pieces: &[Piece]) -> String {
    let length: u64 = pieces.iter().map(|piece| piece.length).sum();
    let first = pieces.first().copied().unwrap_or(Piece { source: 0, offset: 0, length: 0 });
    let pieces = serde_json::to_string(pieces).unwrap_or_default();
    format!("{}, {}, {length}, '{pieces}'::jsonb", first.source, first.offset)
}
