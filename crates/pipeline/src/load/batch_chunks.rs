//! Batches as chunks for COPY: what [`super::chunks`] is to text.

use super::Context;
use super::columnar::{BatchFeed, ColumnarJob, Stored};
use super::context::SliceTotals;
use super::queue::Work;
use super::rejects::RejectLog;
use crate::counters::StreamCounters;
use crate::error::Result;
use crate::plan::{PostgresTarget, WritePath};
use crate::postgres::copy::Chunk;
use tipple_codec::encode::batch::BatchProblem;
use tipple_codec::encode::batch::copy_binary::BatchBinaryEncoder;
use tipple_codec::value::ServerVersion;

/// About how much is sent at a time.
const CHUNK_BYTES: usize = 512 * 1024;

/// Encodes slices for PostgreSQL.
pub(super) struct ChunkFeed<'j> {
    feed: BatchFeed<'j, 'j>,
    write_path: WritePath,
    server: ServerVersion,
}

impl<'j> ChunkFeed<'j> {
    pub(super) fn new(job: &'j ColumnarJob, target: &PostgresTarget) -> Self {
        Self { feed: BatchFeed::new(job), write_path: target.write_path, server: ServerVersion(target.server_version) }
    }

    /// Hands the slice's rows to `send`, with their origin where `with_origin` says so or they cannot be read again; the totals have a digest where
    /// rows go as COPY binary.
    pub(super) fn read<'lc, 'lp>(
        &mut self,
        context: &Context<'j>,
        stream: &StreamCounters,
        work: &Work<'_>,
        with_origin: bool,
        log: &mut Option<RejectLog<'lc, 'lp>>,
        mut send: impl FnMut(Chunk, &mut Option<RejectLog<'lc, 'lp>>) -> Result<()>,
    ) -> Result<SliceTotals> {
        let mut binary = BatchBinaryEncoder::new(&context.plan.columns, self.server, context.plan.digest);
        let format = self.write_path;
        let with_origin = with_origin || context.is_in_memory();
        let mut totals = self.feed.read(context, stream, work, log, |fed, log| {
            let Stored { batch, rows } = fed.conform(context, log)?;
            let mut first = 0;
            while first < batch.num_rows() {
                let mut bytes = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 8);
                let mut sent = Vec::new();
                while first < batch.num_rows() && bytes.len() < CHUNK_BYTES {
                    let end = match format {
                        WritePath::Binary => binary.encode(&batch, first, CHUNK_BYTES, &mut bytes),
                        WritePath::Text => fed.shape.text.encode(&batch, first, CHUNK_BYTES, &mut bytes),
                    };
                    match end {
                        Ok(end) => {
                            sent.extend_from_slice(&rows[first..end]);
                            first = end;
                        }
                        Err(problem) => {
                            sent.extend_from_slice(&rows[first..problem.row]);
                            first = problem.row + 1;
                            fed.refuse(context, log, &BatchProblem { row: rows[problem.row], ..problem })?;
                        }
                    }
                }
                if !sent.is_empty() {
                    send(fed.chunk(format, bytes, sent, with_origin), log)?;
                }
            }
            Ok(())
        })?;
        totals.digest.sum = binary.digest();
        Ok(totals)
    }
}
