//! Into an embedded engine: streams make Arrow batches, the engine pulls them through the C stream interface.
//!
//! Streams and engine share the cores; the channel between them is short, so that neither runs ahead and memory
//! stays bounded.

use super::Context;
use super::parse::Parser;
use super::queue::SliceQueue;
use crate::counters::{Counters, StreamState};
use crate::error::{Error, Result};
use crate::plan::{LoadPlan, Target};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;
use tipple_codec::column::ColumnType;
use tipple_codec::digest;
use tipple_codec::encode::arrow::{self, ArrowEncoder};

/// How often a stream that waits for the engine looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

type Message = std::result::Result<RecordBatch, Error>;

/// Where the engine pulls batches from.
#[derive(Debug, Clone)]
pub struct BatchSource {
    schema: SchemaRef,
    receiver: Receiver<Message>,
}

/// Where the streams put batches.
#[derive(Debug)]
pub(super) struct BatchSink {
    sender: Sender<Message>,
}

/// A channel that holds two batches per stream.
pub(super) fn channel(plan: &LoadPlan) -> (BatchSource, BatchSink) {
    let (sender, receiver) = crossbeam_channel::bounded(2 * plan.streams.max(1));
    (BatchSource { schema: arrow::schema(&plan.columns), receiver }, BatchSink { sender })
}

impl BatchSource {
    /// A C stream of the batches (Arrow specification, "The Arrow C stream interface"). Several streams share the
    /// batches among them; one that only asks for the schema takes none.
    #[must_use]
    pub fn stream(&self) -> FFI_ArrowArrayStream {
        FFI_ArrowArrayStream::new(Box::new(Reader(self.clone())))
    }
}

struct Reader(BatchSource);

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            return match self.0.receiver.recv_timeout(CANCEL_CHECK) {
                Ok(Ok(batch)) => Some(Ok(batch)),
                Ok(Err(error)) => Some(Err(ArrowError::ExternalError(Box::new(error)))),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => None,
            };
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }
}

impl BatchSink {
    /// Waits for room, but not on after the job was cancelled.
    fn send(&self, counters: &Counters, message: Message) -> Result<()> {
        let mut message = message;
        loop {
            match self.sender.send_timeout(message, CANCEL_CHECK) {
                Ok(()) => return Ok(()),
                Err(SendTimeoutError::Timeout(back)) if !counters.is_cancelled() => message = back,
                Err(_) => return Err(Error::Cancelled),
            }
        }
    }
}

pub(super) fn run(context: &Context<'_>, sink: &BatchSink) -> Result<()> {
    let plan = context.plan;
    let keep_order = matches!(plan.target, Target::Arrow { preserve_order: true });
    let queue = SliceQueue::new(&plan.slices, keep_order);
    // Opaque columns are read by the engine: what it makes of them is not for us to digest.
    let digested: Arc<[bool]> = plan.columns.iter().map(|column| column.kind != ColumnType::Opaque).collect();
    std::thread::scope(|scope| {
        for index in 0..plan.streams {
            let (queue, digested) = (&queue, digested.clone());
            scope.spawn(move || {
                if let Err(error) = stream(context, sink, queue, &digested, index) {
                    context.fail(error);
                }
                context.counters.streams[index].enter(StreamState::Done);
            });
        }
    });
    if let Some(error) = context.failure() {
        // The engine must not take the end of the channel for the end of the rows. Room is certain to come, or the
        // engine to hang up: it pulls until it gets this.
        let mut message = Err(error.clone());
        while let Err(SendTimeoutError::Timeout(back)) = sink.sender.send_timeout(message, CANCEL_CHECK) {
            message = back;
        }
        return Err(error);
    }
    Ok(())
}

fn stream(
    context: &Context<'_>,
    sink: &BatchSink,
    queue: &SliceQueue<'_>,
    digested: &[bool],
    index: usize,
) -> Result<()> {
    let plan = context.plan;
    let counters = &context.counters.streams[index];
    let mut parser = Parser::new(context);
    let mut encoder = ArrowEncoder::new(plan.columns.clone(), plan.dialect.clone());
    while let Some(slice) = queue.take() {
        counters.take(slice.n);
        let mut sum = digest::RowDigest::default();
        let mut totals = parser.parse(context, counters, slice, |parsed| {
            let (batch, encoded) = encoder.encode(parsed.records);
            if let Some(problem) = encoded.problem {
                return Err(context.explain_problem(parsed.place, parsed.window, &problem));
            }
            if plan.digest {
                let of_batch = digest::of_batch(&batch, digested)
                    .map_err(|error| Error::Internal { message: format!("no digest of {}", error.0) })?;
                sum = sum.plus(of_batch);
            }
            counters.enter(StreamState::Send);
            sink.send(&context.counters, Ok(batch))
        })?;
        totals.digest.sum = sum.sum;
        context.add(&totals);
    }
    Ok(())
}
