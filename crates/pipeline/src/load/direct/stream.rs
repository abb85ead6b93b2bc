//! One stream: text in, pages out.

use super::super::Context;
use super::super::chunks::{Encoder, Skip, example, explain};
use super::super::parse::{ParsedWindow, Parser};
use super::super::queue::WorkQueue;
use super::super::rejects::RejectLog;
use super::super::unique::KeyLog;
use super::divide::{PageDivider, Parts};
use super::outbox::Outbox;
use crate::error::{Error, Result};
use crate::plan::{DirectPlan, PostgresTarget, Routes};
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::encode::heap::{HeapPageEncoder, Stop};
use tipple_codec::problem::Problem;
use tipple_codec::value::ServerVersion;

/// One stream.
pub(super) struct Stream<'c, 'p> {
    context: &'c Context<'p>,
    outbox: Outbox<'c, 'p>,
    heap: HeapPageEncoder,
    /// For what goes by COPY.
    text: Encoder,
    /// For the digest alone, where one is wanted.
    digested: Option<(CopyBinaryEncoder, Vec<u8>)>,
    /// Finds a record's relation, where there are several.
    divider: Option<PageDivider>,
    routes: Routes,
    /// The keys of what is stored, where they are judged by afterwards.
    keys: Option<KeyLog>,
}

impl<'c, 'p> Stream<'c, 'p> {
    /// The stream `index`.
    pub(super) fn new(
        target: &PostgresTarget,
        plan: &DirectPlan,
        mut outbox: Outbox<'c, 'p>,
        index: usize,
    ) -> Result<Self> {
        let context = outbox.context;
        let load = context.plan;
        let server = ServerVersion(target.server_version);
        let heap = HeapPageEncoder::new(&load.columns, &plan.fields, load.dialect.clone(), server, outbox.layout)
            .map_err(|column| Error::Unsuited { reason: format!("no pages can be built of column {}", column.name) })?;
        let digested = load
            .digest
            .then(|| (CopyBinaryEncoder::new(&load.columns, load.dialect.clone(), server, true), Vec::new()));
        let text = Encoder::new(context, target, load.rejects.is_some());
        let divider = target.routing.as_ref().map(|routing| PageDivider::new(context, routing, server)).transpose()?;
        let keys = KeyLog::open(context, target, index)?;
        if keys.is_some() && divider.is_none() {
            outbox.tell_records();
        }
        Ok(Self { context, outbox, heap, text, digested, divider, routes: Routes::default(), keys })
    }

    pub(super) fn run<'lc, 'lp>(
        &mut self,
        queue: &WorkQueue<'_>,
        rejects: &mut Option<RejectLog<'lc, 'lp>>,
    ) -> Result<()> {
        let (context, counters) = (self.context, self.outbox.counters);
        let mut parser = Parser::new(context);
        while let Some(work) = queue.take(context)? {
            counters.take(work.n());
            if let Some(log) = rejects {
                log.enter(work.n());
            }
            let before = self.digest();
            let mut totals =
                parser.parse(context, counters, &work, rejects, |parsed, rejects| self.store(parsed, rejects))?;
            totals.digest.sum = self.digest().wrapping_sub(before);
            context.add(&work, &totals);
            self.outbox.reject(&work, rejects)?;
            self.keys.as_mut().map_or(Ok(()), KeyLog::keep)?;
            context.add_routes(std::mem::take(&mut self.routes));
        }
        self.keys.take().map_or(Ok(()), KeyLog::finish)?;
        self.outbox.finish()
    }

    fn digest(&self) -> u128 {
        self.digested.as_ref().map_or(0, |(encoder, _)| encoder.digest())
    }

    /// Puts the records of a window on pages, or where they go else.
    fn store(&mut self, parsed: &ParsedWindow<'_>, rejects: &mut Option<RejectLog<'_, '_>>) -> Result<()> {
        let records = parsed.records;
        self.keys.as_mut().map_or(Ok(()), |keys| keys.note(parsed))?;
        let mut divider = self.divider.take();
        let parts = match &mut divider {
            None => Parts::One(0),
            Some(divider) => divider.divide(records),
        };
        let mut copied = 0;
        let mut first_problem = None;
        match parts {
            Parts::One(relation) => {
                first_problem = self.put((parsed, relation, records.rows()), rejects, &mut copied, |row| row)?;
                self.routes.straight_rows += records.rows() as u64;
            }
            Parts::Many(ref parts) => {
                for &(relation, rows) in parts {
                    let problem =
                        self.put((parsed, relation, rows.len()), rejects, &mut copied, |place| rows[place] as usize)?;
                    self.routes.routed_rows += rows.len() as u64;
                    // As if the records had been taken in their order.
                    first_problem = [first_problem, problem].into_iter().flatten().min_by_key(|problem| problem.row);
                }
            }
        }
        let before = first_problem.as_ref().map_or(records.rows(), |problem: &Problem| problem.row);
        let homeless = match &mut divider {
            None => Vec::new(),
            Some(divider) => divider.refuse_homeless(self.context, parsed, before, &mut self.heap, rejects)?,
        };
        self.divider = divider;
        if let Some(problem) = first_problem.or_else(|| Problem::structure(records)).filter(|_| rejects.is_none()) {
            // Whoever parses keeps irregular records, where they are kept.
            return Err(explain(self.context, parsed, &problem));
        }
        if let Some((encoder, out)) = &mut self.digested {
            out.clear();
            let context = self.context;
            let pass_over = |problem: &Problem| {
                if problem.is_unsure() {
                    // A long record has gone by COPY unread: what the server makes of it, nobody here knows.
                    context.forget_digest();
                }
                true
            };
            encoder.encode_those(records, out, pass_over, |row, _| homeless.binary_search(&row).is_err());
        }
        self.outbox.judge(records.rows() as u64, copied)
    }

    /// Puts `count` records of a window on pages of a relation, those whose rows `at` gives in turn; returns the first
    /// that cannot be stored and is no reject. What fits no page goes by COPY, and is counted.
    fn put(
        &mut self,
        (parsed, relation, count): (&ParsedWindow<'_>, usize, usize),
        rejects: &mut Option<RejectLog<'_, '_>>,
        copied: &mut u64,
        at: impl Fn(usize) -> usize,
    ) -> Result<Option<Problem>> {
        let mut place = 0;
        loop {
            let mut skip = Skip::new(parsed, rejects);
            let heap = &mut self.heap;
            let (rows, encoded) = self.outbox.fill(relation, |pages| {
                let rows = pages.rows();
                (rows, heap.encode_rows(parsed.records, (place..count, &at), pages, |problem| skip.take(problem)))
            })?;
            let skipped = skip.finish()?;
            self.outbox.note(parsed, place..encoded.map_or(count, |encoded| encoded.row), &skipped, rows);
            let Some(encoded) = encoded else { return Ok(None) };
            place = encoded.row;
            match encoded.stop {
                None => return Ok(None),
                Some(Stop::Full) => self.outbox.hand_over(relation)?,
                Some(Stop::TooLarge) => {
                    self.copy(parsed, relation, at(place), rejects)?;
                    (place, *copied) = (place + 1, *copied + 1);
                }
                Some(Stop::Problem(problem)) if problem.is_unsure() => {
                    self.context.note_fallback(|| example(self.context, parsed, &problem));
                    // What the server makes of it, nobody here knows.
                    self.context.forget_digest();
                    self.copy(parsed, relation, at(place), rejects)?;
                    (place, *copied) = (place + 1, *copied + 1);
                }
                Some(Stop::Problem(problem)) => return Ok(Some(problem)),
            }
        }
    }

    /// Sends one record by COPY.
    fn copy(
        &mut self,
        parsed: &ParsedWindow<'_>,
        relation: usize,
        row: usize,
        rejects: &mut Option<RejectLog<'_, '_>>,
    ) -> Result<()> {
        let mut record = parsed.records.skip(row);
        record.truncate(1);
        let parsed = ParsedWindow { records: &record, first_record: parsed.first_record + row as u64, ..*parsed };
        for chunk in self.text.encode(self.context, &parsed, rejects)? {
            self.outbox.copy(relation, chunk)?;
        }
        Ok(())
    }
}
