//! Into an embedded engine: streams make Arrow batches, the engine pulls them through the C stream interface.
//!
//! Streams and engine share the cores; the channel between them is short, so that neither runs ahead and memory
//! stays bounded.

use super::Context;
use super::columnar::{BatchFeed, ColumnarJob};
use super::parse::{ParsedWindow, Parser};
use super::queue::{Order, WorkQueue};
use super::rejects::RejectLog;
use super::row_groups::RowGroups;
use super::violations::{self, Examined, Wanted, kept};
use crate::counters::{Counters, StreamState};
use crate::error::{Error, Result};
use crate::plan::{LoadPlan, Target};
use crate::source::locate;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use crossbeam_channel::{Receiver, SendTimeoutError, Sender};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tipple_codec::digest;
use tipple_codec::encode::Encoded;
use tipple_codec::encode::arrow::{self, ArrowEncoder};

/// How often a stream that waits for the engine looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

/// DuckDB's vectors have so many rows, and cost the same with fewer: 100 columns took 3 % longer window by window.
const VECTOR_ROWS: usize = 2048;
/// And with more bytes than this a batch is large enough, however few rows it has.
const BATCH_BYTES: usize = 4 << 20;

/// How the job ended, set before the channel closes: the end of the channel alone is not the end of the rows.
type Ending = OnceLock<Result<()>>;

/// Where the engine pulls batches from.
#[derive(Debug, Clone)]
pub struct BatchSource {
    schema: SchemaRef,
    receiver: Receiver<RecordBatch>,
    ending: Arc<Ending>,
    row_groups: Option<Arc<Mutex<RowGroups>>>,
    ends_quietly: bool,
    counters: Arc<Counters>,
}

/// Where the streams put batches.
#[derive(Debug)]
pub(super) struct BatchSink {
    sender: Sender<RecordBatch>,
    ending: Arc<Ending>,
}

/// A channel that holds two batches per stream.
pub(super) fn channel(
    plan: &LoadPlan,
    schema: Option<SchemaRef>,
    counters: &Arc<Counters>,
) -> (BatchSource, BatchSink) {
    let (sender, receiver) = crossbeam_channel::bounded(2 * plan.streams.max(1));
    let ending = Arc::new(Ending::new());
    let mut schema = schema.unwrap_or_else(|| arrow::schema(&plan.columns));
    if let Some(wanted) = Wanted::of(&plan.target) {
        schema = wanted.schema(&schema);
    }
    let whole = match plan.target {
        Target::Arrow { row_groups, .. } => row_groups,
        Target::Postgres(_) => None,
    };
    let row_groups = whole.map(|plan| Arc::new(Mutex::new(RowGroups::new(plan))));
    let ends_quietly = matches!(plan.target, Target::Arrow { ends_quietly: true, .. });
    let source =
        BatchSource { schema, receiver, ending: ending.clone(), row_groups, ends_quietly, counters: counters.clone() };
    (source, BatchSink { sender, ending })
}

impl BatchSource {
    /// A C stream of the batches (Arrow specification, "The Arrow C stream interface"). Several streams share the
    /// batches among them; one that only asks for the schema takes none.
    #[must_use]
    pub fn stream(&self) -> FFI_ArrowArrayStream {
        FFI_ArrowArrayStream::new(Box::new(Reader { source: self.clone(), ended: false }))
    }

    /// The next batch; None where the job has ended, well or not.
    fn receive(&self) -> Option<RecordBatch> {
        let receive = || self.receiver.recv().ok();
        match &self.row_groups {
            None => receive(),
            // Whoever comes meanwhile has to wait for batches either way.
            Some(groups) => {
                let mut groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
                groups.next(receive, || self.counters.expected_rows())
            }
        }
    }
}

struct Reader {
    source: BatchSource,
    /// The end, or the failure, was handed out.
    ended: bool,
}

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        // After a failure the batches that are still in the channel are of no use to anybody.
        if !matches!(self.source.ending.get(), Some(Err(_)))
            && let Some(batch) = self.source.receive()
        {
            return Some(Ok(batch));
        }
        self.ended = true;
        let error = match self.source.ending.get() {
            Some(Ok(())) => return None,
            // Whoever waits for the job learns of it there.
            Some(Err(_)) if self.source.ends_quietly => return None,
            Some(Err(error)) => error.clone(),
            None => Error::Internal { message: "the job ended without saying how".into() },
        };
        Some(Err(ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.source.schema.clone()
    }
}

impl BatchSink {
    /// Waits for room, but not on after the job was cancelled.
    fn send(&self, counters: &Counters, batch: RecordBatch) -> Result<()> {
        let mut batch = batch;
        loop {
            match self.sender.send_timeout(batch, CANCEL_CHECK) {
                Ok(()) => return Ok(()),
                Err(SendTimeoutError::Timeout(back)) if !counters.is_cancelled() => batch = back,
                Err(_) => return Err(Error::Cancelled),
            }
        }
    }

    /// Says how the job ended, before the channel closes; never waits for the engine.
    fn end(&self, outcome: &Result<()>) {
        // Set once, here: `run` is called once per sink.
        let _already_set = self.ending.set(outcome.clone());
    }
}

/// Batches of windows, joined where they have few rows.
struct Joined<'s> {
    sink: &'s BatchSink,
    waiting: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl<'s> Joined<'s> {
    fn new(sink: &'s BatchSink) -> Self {
        Self { sink, waiting: Vec::new(), rows: 0, bytes: 0 }
    }

    fn send(&mut self, counters: &Counters, batch: RecordBatch) -> Result<()> {
        if self.waiting.is_empty() && batch.num_rows() >= VECTOR_ROWS {
            return self.sink.send(counters, batch);
        }
        self.rows += batch.num_rows();
        self.bytes += batch.get_array_memory_size();
        self.waiting.push(batch);
        if self.rows < VECTOR_ROWS && self.bytes < BATCH_BYTES {
            return Ok(());
        }
        self.flush(counters)
    }

    fn flush(&mut self, counters: &Counters) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        (self.rows, self.bytes) = (0, 0);
        let Some(first) = waiting.first() else { return Ok(()) };
        let batch = arrow_select::concat::concat_batches(&first.schema(), &waiting)
            .map_err(|error| Error::Internal { message: format!("batches cannot be joined: {error}") })?;
        self.sink.send(counters, batch)
    }
}

pub(super) fn run(context: &Context<'_>, sink: &BatchSink) -> Result<()> {
    let plan = context.plan;
    let keep_order = matches!(plan.target, Target::Arrow { preserve_order: true, .. });
    let queue = WorkQueue::new(context, Order::of_tables(keep_order, 1));
    // What the engine itself reads, or keeps in a form of its own, is not for us to digest.
    let digested: Arc<[bool]> = plan.columns.iter().map(|column| column.kind.is_digestible()).collect();
    queue.share_out(context, |index| stream(context, sink, &queue, &digested, index));
    let outcome = context.failure().map_or_else(|| context.check_cancelled(), Err);
    sink.end(&outcome);
    outcome
}

fn stream(
    context: &Context<'_>,
    sink: &BatchSink,
    queue: &WorkQueue<'_>,
    digested: &[bool],
    index: usize,
) -> Result<()> {
    let plan = context.plan;
    if let Some(job) = &context.columnar {
        return columnar_stream(context, job, sink, queue, digested, index);
    }
    let counters = &context.counters.streams[index];
    let mut parser = Parser::new(context);
    let mut encoder = ArrowEncoder::new(plan.columns.clone(), plan.dialect.clone());
    let mut rejects = RejectLog::open(context, &format!("stream-{index}"));
    let mut joined = Joined::new(sink);
    while let Some(work) = queue.take(context)? {
        counters.take(work.n());
        let mut sum = digest::RowDigest::default();
        if let Some(log) = &mut rejects {
            log.begin(work.n())?;
        }
        let mut totals = parser.parse(context, counters, &work, &mut rejects, |parsed, rejects| {
            let batch = encode(context, &mut encoder, parsed, rejects)?;
            if plan.digest {
                sum = sum.plus(digest_of(&batch, digested)?);
            }
            counters.enter(StreamState::Send);
            joined.send(&context.counters, batch)
        })?;
        totals.digest.sum = sum.sum;
        if let Some(log) = &mut rejects {
            log.keep()?;
        }
        context.leave(&work, &totals);
        context.add(&work, &totals);
    }
    joined.flush(&context.counters)
}

/// The records of a window that can be stored.
fn encode(
    context: &Context<'_>,
    encoder: &mut ArrowEncoder,
    parsed: &ParsedWindow<'_>,
    rejects: &mut Option<RejectLog<'_, '_>>,
) -> Result<RecordBatch> {
    let records = parsed.records;
    let mut skipped = refuse_violations(context, parsed, rejects)?;
    let batch = match rejects {
        None => match encoder.encode(records) {
            (batch, Encoded { problem: None, .. }) => batch,
            (_, Encoded { problem: Some(problem), .. }) => return Err(context.explain_problem(parsed, &problem)),
        },
        Some(log) => {
            let (mut outcome, mut refused) = (Ok(()), Vec::new());
            let batch = encoder.encode_skipping(records, &skipped, |problem| {
                if outcome.is_ok() {
                    outcome = log.push_problem(parsed, problem);
                }
                refused.push(problem.row);
            });
            outcome?;
            skipped.extend(refused);
            skipped.sort_unstable();
            batch
        }
    };
    let Some(wanted) = Wanted::of(&context.plan.target) else { return Ok(batch) };
    let kept = kept(records.rows(), &skipped).map(|row| Examined {
        offset: parsed.place.offset + records.start(row) as u64,
        index: parsed.first_record + row as u64,
        record: Cow::Borrowed(&parsed.window[records.start(row)..records.start(row + 1)]),
    });
    Ok(wanted.batch(&batch, (parsed.place.source, parsed.slice), kept))
}

/// Rejects the records of a window that are known to violate constraints; their rows, ascending.
fn refuse_violations(
    context: &Context<'_>,
    parsed: &ParsedWindow<'_>,
    rejects: &mut Option<RejectLog<'_, '_>>,
) -> Result<Vec<usize>> {
    let (records, place) = (parsed.records, parsed.place);
    let range = place.offset + records.start(0) as u64..place.offset + records.start(records.rows()) as u64;
    let mut rows = Vec::new();
    for (offset, constraint) in context.plan.violations.between(place.source, range) {
        let start = (offset - place.offset) as usize;
        let row = violations::row_at(records, start);
        let record = &parsed.window[records.start(row)..records.start(row + 1)];
        let complaint =
            context.violation(constraint, locate::shown(record), |column| context.field_text(record, column));
        let index = parsed.first_record + row as u64;
        match rejects {
            None => return Err(context.explain_complaint(place.behind(start, index), complaint)),
            Some(log) => log.push(place.behind(start, index), index, record, complaint)?,
        }
        rows.push(row);
    }
    Ok(rows)
}

/// [`stream`] for columnar sources.
fn columnar_stream(
    context: &Context<'_>,
    job: &ColumnarJob,
    sink: &BatchSink,
    queue: &WorkQueue<'_>,
    digested: &[bool],
    index: usize,
) -> Result<()> {
    let counters = &context.counters.streams[index];
    let mut feed = BatchFeed::new(job);
    let mut rejects = RejectLog::open(context, &format!("stream-{index}"));
    while let Some(work) = queue.take(context)? {
        counters.take(work.n());
        let mut sum = digest::RowDigest::default();
        if let Some(log) = &mut rejects {
            log.begin(work.n())?;
        }
        let mut totals = feed.read(context, counters, &work, &mut rejects, |fed, rejects| {
            let mut stored = fed.conform(context, rejects)?;
            if let Some(wanted) = Wanted::of(&context.plan.target) {
                stored.batch = fed.examined(&wanted, &stored);
            }
            if context.plan.digest {
                sum = sum.plus(digest_of(&stored.batch, digested)?);
            }
            counters.enter(StreamState::Send);
            sink.send(&context.counters, stored.batch)
        })?;
        totals.digest.sum = sum.sum;
        if let Some(log) = &mut rejects {
            log.keep()?;
        }
        context.add(&work, &totals);
    }
    Ok(())
}

fn digest_of(batch: &RecordBatch, digested: &[bool]) -> Result<digest::RowDigest> {
    digest::of_batch(batch, digested).map_err(|error| Error::Internal { message: format!("no digest of {}", error.0) })
}
