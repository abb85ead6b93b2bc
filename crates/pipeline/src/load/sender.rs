//! Rows by COPY in one session, where a record that the server refuses either ends the job or is rejected.

use super::Context;
use super::guard::Guard;
use super::rejects::RejectLog;
use crate::error::Result;
use crate::plan::PostgresTarget;
use crate::postgres::copy::{Chunk, CopyWriter};
use crate::postgres::session::Session;

/// Sends chunks; with a log, those that have their origin with them go in batches that can be taken back.
pub(super) struct RowSender<'c, 'p, 's, 'l, 'lc, 'lp> {
    context: &'c Context<'p>,
    writer: CopyWriter<'s>,
    guard: Guard<'c, 'p, 's>,
    log: Option<&'l mut RejectLog<'lc, 'lp>>,
}

impl<'c, 'p, 's, 'l, 'lc, 'lp> RowSender<'c, 'p, 's, 'l, 'lc, 'lp> {
    pub(super) fn new(
        context: &'c Context<'p>,
        session: &'s Session,
        target: &'s PostgresTarget,
        log: Option<&'l mut RejectLog<'lc, 'lp>>,
    ) -> Self {
        let writer = CopyWriter::new(session, &target.table, &target.column_list);
        Self { context, writer, guard: Guard::new(context, session, target), log }
    }

    /// Sends a chunk.
    ///
    /// # Errors
    /// The record that the server refused, or what it said else.
    pub(super) fn send(&mut self, chunk: Chunk) -> Result<()> {
        let context = self.context;
        match (self.log.as_deref_mut(), chunk.origin.clone()) {
            (Some(log), Some(origin)) => self.guard.send(&chunk, &origin, &mut |refused| {
                context.reject_late(refused.slice, refused.place.source);
                refused.keep_in(log)
            }),
            _ => self.writer.send(chunk).map_err(|failure| context.explain_copy(failure, None)),
        }
    }

    /// Whether no COPY is open, with rows under way.
    pub(super) fn is_idle(&self) -> bool {
        self.writer.is_idle()
    }

    /// Ends the COPY and the savepoint that are open, if any. More rows can be sent afterwards.
    ///
    /// # Errors
    /// As [`RowSender::send`].
    pub(super) fn finish(&mut self) -> Result<()> {
        self.writer.finish().map_err(|failure| self.context.explain_copy(failure, None))?;
        self.guard.finish()
    }
}
