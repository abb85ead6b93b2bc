//! A load: streams take slices from a queue, turn text into what the target takes, and hand it over.
//!
//! [`parse`] is what all targets share, and [`columnar`] its counterpart for columnar sources; [`arrow`], [`slices`],
//! [`single`] and [`direct`] are the ways in.

pub mod arrow;
mod batch_chunks;
mod batch_complaint;
mod chunks;
pub mod columnar;
mod context;
mod direct;
mod explain;
mod feed;
mod guard;
mod kept;
mod parse;
mod pin;
mod queue;
mod refused;
mod rejects;
mod router;
mod row_groups;
mod sender;
mod single;
mod slices;
mod sought;
mod transaction;
mod unique;
mod violations;

pub use context::Context;

use crate::counters::{Counters, Snapshot};
use crate::error::{Error, Result};
use crate::job::Background;
use crate::plan::{LoadOutcome, LoadPlan, Strategy, Target};
use arrow::BatchSource;
use std::sync::Arc;
use std::time::Duration;

/// A load that runs on threads of its own.
#[derive(Debug)]
pub struct LoadJob {
    counters: Arc<Counters>,
    batches: Option<BatchSource>,
    work: Background<LoadOutcome>,
}

impl LoadJob {
    /// Starts the job that `plan` describes.
    #[must_use]
    pub fn start(plan: LoadPlan) -> Self {
        Self::start_from(plan, None)
    }

    /// Starts the job that `plan` describes over columnar sources, or over a stream in memory.
    ///
    /// # Errors
    /// Where the first source cannot be read, or not into these columns.
    pub fn start_columnar(plan: LoadPlan, stream: Option<columnar::Stream>) -> Result<Self> {
        let job = columnar::Opening::open(&plan, stream)?;
        Ok(Self::start_from(plan, Some(job)))
    }

    fn start_from(plan: LoadPlan, columnar: Option<columnar::Opening>) -> Self {
        let fed = || plan.feeding.feeds.iter().flatten().map(|&source| &plan.sources[source]);
        // Nobody knows how long standard input is; without a total none is shown.
        let bytes = if fed().any(crate::plan::Source::is_stdin) {
            0
        } else {
            plan.slices.iter().map(crate::plan::Slice::bytes).chain(fed().map(|source| source.size)).sum()
        };
        let counters = Arc::new(Counters::new(plan.streams, bytes, plan.slices.len() as u64));
        let (batches, batch_sink) = match &plan.target {
            Target::Arrow { .. } => {
                let schema = columnar.as_ref().map(columnar::Opening::schema);
                let (source, sink) = arrow::channel(&plan, schema, &counters);
                (Some(source), Some(sink))
            }
            Target::Postgres(_) => (None, None),
        };
        let shared = counters.clone();
        Self { counters, batches, work: Background::start(move || run(&plan, &shared, columnar, batch_sink)) }
    }

    /// What has been done so far.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.counters.snapshot()
    }

    /// Asks the streams to stop; [`LoadJob::wait`] tells when they have.
    pub fn cancel(&self) {
        self.counters.cancel();
    }

    /// The batches of a load into an embedded engine.
    #[must_use]
    pub fn batches(&self) -> Option<&BatchSource> {
        self.batches.as_ref()
    }

    /// Waits for the end, at most so long; `None` while the job still runs.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> Option<Result<LoadOutcome>> {
        self.work.wait(limit)
    }
}

impl Drop for LoadJob {
    fn drop(&mut self) {
        self.counters.cancel();
    }
}

fn run(
    plan: &LoadPlan,
    counters: &Arc<Counters>,
    columnar: Option<columnar::Opening>,
    batch_sink: Option<arrow::BatchSink>,
) -> Result<LoadOutcome> {
    let mut context = Context::new(plan, counters.clone());
    context.columnar = columnar.map(|opening| opening.begin(counters));
    let context = context;
    match (&plan.target, batch_sink) {
        (Target::Arrow { .. }, Some(sink)) => arrow::run(&context, &sink)?,
        (Target::Arrow { .. }, None) => {
            return Err(Error::Internal { message: "an Arrow load without a channel".into() });
        }
        (Target::Postgres(target), _) => match &target.strategy {
            Strategy::Slices { keep_order } => slices::run(&context, target, *keep_order)?,
            Strategy::Single { before, keep_order, verify_query, after } => {
                let transaction = single::Transaction { before, verify_query: verify_query.as_deref(), after };
                single::run(&context, target, *keep_order, &transaction)?;
            }
            Strategy::Refused { slices } => refused::run(&context, target, slices)?,
            Strategy::Sought(sought) => sought::run(&context, target, sought)?,
            Strategy::Repeated(known) => unique::repeated::run(&context, target, known)?,
            Strategy::Direct { pages, after } => direct::run(&context, target, pages, after)?,
        },
    }
    context.into_outcome()
}
