//! Every slice a transaction of its own, with its row in the ledger: rows and bookkeeping commit together or not
//! at all, so a slice whose fate is unknown is simply looked up.

use super::Context;
use super::context::SliceTotals;
use super::parse::Parser;
use super::queue::SliceQueue;
use crate::counters::StreamState;
use crate::error::{Error, Result};
use crate::plan::{LedgerKey, PostgresTarget, Slice, WritePath};
use crate::postgres::copy::{Chunk, CopyWriter};
use crate::postgres::session::{Session, Waits};
use std::time::{Duration, Instant};
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::encode::copy_text::CopyTextEncoder;
use tipple_codec::problem::Problem;

/// The first pause before a lost server is tried again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Windows in a row that only the server could read, after which a slice goes on as text altogether.
const TEXT_AFTER_FALLBACKS: u32 = 8;

pub(super) fn run(context: &Context<'_>, target: &PostgresTarget) -> Result<()> {
    let queue = SliceQueue::new(&context.plan.slices, false);
    std::thread::scope(|scope| {
        for index in 0..context.plan.streams {
            let queue = &queue;
            scope.spawn(move || {
                if let Err(error) = stream(context, target, queue, index) {
                    context.fail(error);
                }
                context.counters.streams[index].enter(StreamState::Done);
            });
        }
    });
    context.failure().map_or(Ok(()), Err)
}

fn stream(context: &Context<'_>, target: &PostgresTarget, queue: &SliceQueue<'_>, index: usize) -> Result<()> {
    let mut session: Option<Session> = None;
    let mut worker = Worker::new(context, target, index);
    while let Some(slice) = queue.take() {
        context.counters.streams[index].take(slice.n);
        let mut lost_since: Option<Instant> = None;
        let mut pause = FIRST_PAUSE;
        loop {
            match worker.load(&mut session, slice, lost_since.is_some()) {
                Ok(totals) => {
                    context.add(slice, &totals);
                    break;
                }
                Err(error @ Error::Connection { .. }) => {
                    session = None;
                    let since = *lost_since.get_or_insert_with(Instant::now);
                    // Without a ledger nobody can tell whether a lost COMMIT took place.
                    if target.ledger.is_none() || since.elapsed() >= Duration::from_secs(target.retry_seconds) {
                        return Err(error);
                    }
                    context.counters.retry();
                    wait_before_retry(context, index, pause)?;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
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
}

impl<'c, 'p> Worker<'c, 'p> {
    fn new(context: &'c Context<'p>, target: &'c PostgresTarget, index: usize) -> Self {
        Self { context, target, index, parser: Parser::new(context) }
    }

    /// Loads one slice in one transaction; `again` where an earlier attempt may have committed.
    fn load(&mut self, slot: &mut Option<Session>, slice: &Slice, again: bool) -> Result<SliceTotals> {
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
        if again && let Some(done) = self.find_done(session, slice)? {
            return Ok(done);
        }
        let result = self.transaction(session, slice);
        if let Err(error) = &result {
            // A session that is still alive is left clean; a lost one has nothing to clean.
            if !matches!(error, Error::Connection { .. } | Error::Cancelled) {
                // The first error is the one to report, and the session is dropped with the stream anyway.
                let _already_failing = session.run("ROLLBACK", "rolling back");
            }
        }
        result
    }

    fn transaction(&mut self, session: &Session, slice: &Slice) -> Result<SliceTotals> {
        let context = self.context;
        let stream = &context.counters.streams[self.index];
        session.run("BEGIN", "beginning a slice")?;
        let mut writer = CopyWriter::new(session, &self.target.table, &self.target.column_list);
        let mut encoder = Encoder::new(context, self.target);
        let mut sent = (0, 0);
        let result = self.parser.parse(context, stream, slice, |parsed| {
            let chunks = encoder.encode(context, parsed)?;
            stream.enter(StreamState::Send);
            for chunk in chunks {
                writer.send(chunk).map_err(|failure| context.explain_copy(failure))?;
            }
            sent = (sent.0 + parsed.source_bytes, sent.1 + parsed.records.rows() as u64);
            Ok(())
        });
        let finished = result.and_then(|mut totals| {
            stream.enter(StreamState::Wait);
            writer.finish().map_err(|failure| context.explain_copy(failure))?;
            totals.digest.sum = encoder.digest();
            self.record_and_commit(session, slice, &totals, encoder.has_digest())?;
            Ok(totals)
        });
        if finished.is_err() {
            stream.take_back(sent.0, sent.1);
        }
        finished
    }

    fn record_and_commit(
        &self,
        session: &Session,
        slice: &Slice,
        totals: &SliceTotals,
        has_digest: bool,
    ) -> Result<()> {
        if let Some(key) = &self.target.ledger {
            let statement = done_statement(key, slice, totals, has_digest);
            if session.query(&statement, "writing the ledger")?.is_empty() {
                return Err(Error::LostOwnership);
            }
        }
        session.run("COMMIT", "committing a slice")
    }

    /// The totals of a slice that an attempt with a lost answer has committed after all.
    fn find_done(&self, session: &Session, slice: &Slice) -> Result<Option<SliceTotals>> {
        let Some(key) = &self.target.ledger else { return Ok(None) };
        let statement = format!(
            "SELECT rows, row_digest FROM tipple.slice WHERE job_id = '{}' AND n = {} AND state = 'done'",
            key.job_id, slice.n
        );
        let found = session.query(&statement, "reading the ledger")?;
        let Some(row) = found.first() else { return Ok(None) };
        let (rows, digest): (i64, Option<String>) = (row.get(0), row.get(1));
        let mut totals = SliceTotals::default();
        totals.digest.rows = rows.cast_unsigned();
        totals.digest.sum = digest.and_then(|text| u128::from_str_radix(&text, 16).ok()).unwrap_or(0);
        // Which of several grouped sources the rows came from is not worth a second reading.
        for (index, piece) in slice.pieces.iter().enumerate() {
            totals.pieces.push((piece.source, if index == 0 { totals.digest.rows } else { 0 }, piece.length));
        }
        self.context.counters.streams[self.index].add(slice.bytes(), totals.digest.rows);
        Ok(Some(totals))
    }
}

/// Marks a slice as done, if the job is still this owner's and the slice not done yet; returns a row if so.
fn done_statement(key: &LedgerKey, slice: &Slice, totals: &SliceTotals, has_digest: bool) -> String {
    let digest = if has_digest { format!("'{:032x}'", totals.digest.sum) } else { "NULL".into() };
    format!(
        "WITH owner AS (SELECT FROM tipple.job WHERE job_id = '{job}' AND epoch = {epoch} \
           AND state = 'loading' FOR SHARE) \
         UPDATE tipple.slice SET state = 'done', rows = {rows}, row_digest = {digest}, \
           attempt = attempt + 1, xid = pg_current_xact_id()::text, finished_at = clock_timestamp() \
         FROM owner WHERE job_id = '{job}' AND n = {n} AND state <> 'done' RETURNING n",
        job = key.job_id,
        epoch = key.epoch,
        rows = totals.digest.rows,
        n = slice.n,
    )
}

/// Encodes windows as COPY binary, and as COPY text what only the server can read.
pub(super) struct Encoder {
    binary: Option<CopyBinaryEncoder>,
    text: CopyTextEncoder,
    fallbacks_in_a_row: u32,
    fell_back: bool,
}

impl Encoder {
    pub(super) fn new(context: &Context<'_>, target: &PostgresTarget) -> Self {
        let plan = context.plan;
        let version = tipple_codec::value::ServerVersion(target.server_version);
        let binary = (target.write_path == WritePath::Binary)
            .then(|| CopyBinaryEncoder::new(&plan.columns, plan.dialect.clone(), version, plan.digest));
        let text = CopyTextEncoder::new(plan.columns.clone(), plan.dialect.clone());
        Self { binary, text, fallbacks_in_a_row: 0, fell_back: false }
    }

    /// Whether [`Encoder::digest`] covers all rows: those that the server itself read have none.
    pub(super) fn has_digest(&self) -> bool {
        self.binary.is_some() && !self.fell_back
    }

    pub(super) fn digest(&self) -> u128 {
        self.binary.as_ref().map_or(0, CopyBinaryEncoder::digest)
    }

    /// The window's records as one chunk, or two where the server has to read from some record on.
    pub(super) fn encode(
        &mut self,
        context: &Context<'_>,
        parsed: &super::parse::ParsedWindow<'_>,
    ) -> Result<Vec<Chunk>> {
        let explain = |problem: Problem| context.explain_problem(parsed.place, parsed.window, &problem);
        let chunk = |format, bytes, rows: usize, first: usize| {
            let mut place = parsed.place;
            place.offset += parsed.records.start(first) as u64;
            Chunk { format, bytes, rows: rows as u64, place }
        };
        let mut chunks = Vec::with_capacity(2);
        let mut first = 0;
        if let Some(binary) = self.binary.as_mut().filter(|_| self.fallbacks_in_a_row < TEXT_AFTER_FALLBACKS) {
            let mut bytes = Vec::with_capacity(2 * parsed.window.len());
            let encoded = binary.encode(parsed.records, &mut bytes);
            chunks.push(chunk(WritePath::Binary, bytes, encoded.rows, 0));
            match encoded.problem {
                None => {
                    self.fallbacks_in_a_row = 0;
                    return Ok(chunks);
                }
                Some(problem) if problem.is_unsure() => {
                    context.note_fallback(|| match problem.kind {
                        tipple_codec::problem::ProblemKind::Value { column, .. } => format!(
                            "\"{}\" in column {}",
                            context.field_text(&parsed.window[problem.start..problem.end], column),
                            context.plan.columns[column].name
                        ),
                        tipple_codec::problem::ProblemKind::Structure(_) => String::new(),
                    });
                    self.fell_back = true;
                    self.fallbacks_in_a_row += 1;
                    first = encoded.rows;
                }
                Some(problem) => return Err(explain(problem)),
            }
        }
        let rest = parsed.records.skip(first);
        let mut bytes = Vec::with_capacity(parsed.window.len() + parsed.window.len() / 8);
        let encoded = self.text.encode(&rest, &mut bytes);
        chunks.push(chunk(WritePath::Text, bytes, encoded.rows, first));
        match encoded.problem {
            None => Ok(chunks),
            Some(problem) => Err(explain(problem)),
        }
    }
}
