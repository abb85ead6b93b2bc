//! One stream of a columnar source: batches in, pages out.

use super::super::Context;
use super::super::columnar::{BatchFeed, ColumnarJob, Fed, Stored};
use super::super::queue::WorkQueue;
use super::super::rejects::RejectLog;
use super::outbox::Outbox;
use crate::error::{Error, Result};
use crate::plan::{DirectPlan, PostgresTarget, WritePath};
use arrow_array::RecordBatch;
use tipple_codec::encode::batch::copy_binary::BatchBinaryEncoder;
use tipple_codec::encode::batch::heap_pages::BatchPageEncoder;
use tipple_codec::encode::batch::{BatchProblem, Unfit};
use tipple_codec::encode::heap::Stop;
use tipple_codec::value::{Refusal, ServerVersion};

/// The one relation: rows of batches are not divided.
const RELATION: usize = 0;

/// A value that only the server can read.
const UNSURE: Unfit = Unfit::Refused(Refusal::Unsure);

/// One stream.
pub(super) struct BatchStream<'c, 'p> {
    feed: BatchFeed<'c, 'p>,
    pages: Pages<'c, 'p>,
}

/// Where its rows go.
struct Pages<'c, 'p> {
    context: &'c Context<'p>,
    outbox: Outbox<'c, 'p>,
    heap: BatchPageEncoder,
    /// For what goes by COPY.
    binary: BatchBinaryEncoder,
    /// For the digest alone, where one is wanted.
    digested: Option<(BatchBinaryEncoder, Vec<u8>)>,
}

impl<'c, 'p> BatchStream<'c, 'p> {
    pub(super) fn new(
        job: &'c ColumnarJob,
        target: &PostgresTarget,
        plan: &DirectPlan,
        outbox: Outbox<'c, 'p>,
    ) -> Result<Self> {
        let context = outbox.context;
        let columns = &context.plan.columns;
        let server = ServerVersion(target.server_version);
        let heap = BatchPageEncoder::new(columns, &plan.fields, server, outbox.layout)
            .map_err(|column| Error::Unsuited { reason: format!("no pages can be built of column {}", column.name) })?;
        let binary = BatchBinaryEncoder::new(columns, server, false);
        let digested = context.plan.digest.then(|| (BatchBinaryEncoder::new(columns, server, true), Vec::new()));
        Ok(Self { feed: BatchFeed::new(job), pages: Pages { context, outbox, heap, binary, digested } })
    }

    pub(super) fn run<'lc, 'lp>(
        &mut self,
        queue: &WorkQueue<'_>,
        rejects: &mut Option<RejectLog<'lc, 'lp>>,
    ) -> Result<()> {
        let Self { feed, pages } = self;
        let (context, counters) = (pages.context, pages.outbox.counters);
        while let Some(work) = queue.take(context)? {
            counters.take(work.n());
            if let Some(log) = rejects {
                log.enter(work.n());
            }
            let before = pages.digest();
            let mut totals = feed.read(context, counters, &work, rejects, |fed, rejects| pages.store(fed, rejects))?;
            totals.digest.sum = pages.digest().wrapping_sub(before);
            context.add(&work, &totals);
            pages.outbox.reject(&work, rejects)?;
        }
        pages.outbox.finish()
    }
}

impl Pages<'_, '_> {
    fn digest(&self) -> u128 {
        self.digested.as_ref().map_or(0, |(encoder, _)| encoder.digest())
    }

    /// Puts the rows of a batch on pages, or where they go else.
    fn store(&mut self, fed: &mut Fed<'_>, rejects: &mut Option<RejectLog<'_, '_>>) -> Result<()> {
        let Stored { batch, rows } = fed.conform(self.context, rejects)?;
        let mut refused = Vec::new();
        let (mut next, mut copied) = (0, 0);
        while next < batch.num_rows() {
            let heap = &mut self.heap;
            let left = next..batch.num_rows();
            let Some(encoded) = self.outbox.fill(RELATION, |pages| heap.encode(&batch, left, pages))? else {
                break;
            };
            next = encoded.row + 1;
            let problem = match encoded.stop {
                Some(Stop::Full) => {
                    next = encoded.row;
                    self.outbox.hand_over(RELATION)?;
                    None
                }
                Some(Stop::Problem(problem)) if problem.unfit != UNSURE => Some(problem),
                _ => {
                    copied += 1;
                    self.copy(fed, &batch, (encoded.row, rows[encoded.row]), rejects.is_some())?
                }
            };
            if let Some(problem) = problem {
                fed.refuse(self.context, rejects, &BatchProblem { row: rows[encoded.row], ..problem })?;
                refused.push(encoded.row);
            }
        }
        self.add_to_digest(&batch, &refused)?;
        self.outbox.judge(batch.num_rows() as u64, copied)
    }

    /// Sends one row by COPY, unless it cannot be stored.
    fn copy(
        &mut self,
        fed: &Fed<'_>,
        batch: &RecordBatch,
        (row, source_row): (usize, usize),
        with_origin: bool,
    ) -> Result<Option<BatchProblem>> {
        let mut bytes = Vec::new();
        // A limit of one byte is one row.
        if let Err(problem) = self.binary.encode(batch, row, 1, &mut bytes) {
            return Ok(Some(problem));
        }
        let chunk = fed.chunk(WritePath::Binary, bytes, vec![source_row], with_origin);
        self.outbox.copy(RELATION, chunk)?;
        Ok(None)
    }

    /// Adds a batch without the rows that were refused.
    fn add_to_digest(&mut self, batch: &RecordBatch, refused: &[usize]) -> Result<()> {
        let Some((encoder, out)) = &mut self.digested else { return Ok(()) };
        let mut next = 0;
        while next < batch.num_rows() {
            out.clear();
            next = match encoder.encode(batch, next, usize::MAX, out) {
                Ok(end) => end,
                Err(problem) if refused.contains(&problem.row) => problem.row + 1,
                Err(problem) => {
                    let message = format!("row {} was stored, and has no COPY binary", problem.row);
                    return Err(Error::Internal { message });
                }
            };
        }
        Ok(())
    }
}
