//! Windows as chunks for COPY: binary, and text from the first value on that only the server can read.

use super::Context;
use super::parse::ParsedWindow;
use super::rejects::RejectLog;
use super::router::Divider;
use crate::error::{Error, Result};
use crate::plan::{PostgresTarget, WritePath};
use crate::postgres::copy::{Chunk, Origin, OriginRows};
use bytes::Bytes;
use std::sync::Arc;
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::encode::copy_text::CopyTextEncoder;
use tipple_codec::problem::{Problem, ProblemKind};

/// Windows in a row that only the server could read, after which a slice goes on as text altogether.
const TEXT_AFTER_FALLBACKS: u32 = 8;

/// Encodes windows as COPY binary, and as COPY text what only the server can read.
pub(super) struct Encoder {
    binary: Option<CopyBinaryEncoder>,
    text: CopyTextEncoder,
    fallbacks_in_a_row: u32,
    fell_back: bool,
    digests: bool,
    /// Chunks carry the records that they were made of.
    with_origin: bool,
    /// Finds the partition of each record that goes as COPY binary.
    divider: Option<Divider>,
}

impl Encoder {
    pub(super) fn new(context: &Context<'_>, target: &PostgresTarget, with_origin: bool) -> Self {
        let plan = context.plan;
        let version = tipple_codec::value::ServerVersion(target.server_version);
        let binary = (target.write_path == WritePath::Binary)
            .then(|| CopyBinaryEncoder::new(&plan.columns, plan.dialect.clone(), version, plan.digest));
        let text = CopyTextEncoder::new(plan.columns.clone(), plan.dialect.clone());
        Self { binary, text, fallbacks_in_a_row: 0, fell_back: false, digests: plan.digest, with_origin, divider: None }
    }

    /// The same, telling for each binary record which partition it belongs to.
    pub(super) fn divided_by(self, divider: Option<Divider>) -> Self {
        Self { divider, ..self }
    }

    /// Where the records of the last binary chunk belong.
    pub(super) fn divider(&self) -> Option<&Divider> {
        self.divider.as_ref()
    }

    /// Whether there is a digest, and it covers all rows: those that the server itself read have none.
    pub(super) fn has_digest(&self) -> bool {
        self.digests && self.binary.is_some() && !self.fell_back
    }

    pub(super) fn digest(&self) -> u128 {
        self.binary.as_ref().map_or(0, CopyBinaryEncoder::digest)
    }

    /// The window's records as one chunk, or two where the server has to read from some record on. Records that
    /// cannot be stored go to `rejects`; without one the first of them is the error.
    pub(super) fn encode(
        &mut self,
        context: &Context<'_>,
        parsed: &ParsedWindow<'_>,
        rejects: &mut Option<RejectLog<'_, '_>>,
    ) -> Result<Vec<Chunk>> {
        let mut chunks = Vec::with_capacity(2);
        let mut first = 0;
        if let Some(binary) = self.binary.as_mut().filter(|_| self.fallbacks_in_a_row < TEXT_AFTER_FALLBACKS) {
            let mut bytes = Vec::with_capacity(2 * parsed.window.len());
            let mut skip = Skip::new(parsed, rejects);
            let (encoded, skipped) = match &mut self.divider {
                None => {
                    let encoded = binary.encode_unless(parsed.records, &mut bytes, |problem| skip.take(problem));
                    (encoded, skip.finish()?)
                }
                Some(divider) => {
                    divider.begin();
                    let encoded = binary.encode_those(
                        parsed.records,
                        &mut bytes,
                        |problem| skip.take(problem),
                        |row, record| divider.keep(row, record),
                    );
                    let mut skipped = skip.finish()?;
                    divider.reject_homeless(context, parsed, rejects, &mut skipped)?;
                    (encoded, skipped)
                }
            };
            chunks.push(self.chunk(parsed, WritePath::Binary, bytes, (0, encoded.rows), &skipped));
            match encoded.problem.filter(|problem| rejects.is_none() || problem.is_unsure()) {
                None => {
                    self.fallbacks_in_a_row = 0;
                    return Ok(chunks);
                }
                Some(problem) if problem.is_unsure() => {
                    context.note_fallback(|| example(context, parsed, &problem));
                    self.fell_back = true;
                    self.fallbacks_in_a_row += 1;
                    first = encoded.rows;
                }
                Some(problem) => return Err(explain(context, parsed, &problem)),
            }
        }
        let rest = parsed.records.skip(first);
        let rest = ParsedWindow { records: &rest, first_record: parsed.first_record + first as u64, ..*parsed };
        let mut bytes = Vec::with_capacity(parsed.window.len() + parsed.window.len() / 8);
        let mut skip = Skip::new(&rest, rejects);
        let encoded = self.text.encode_unless(rest.records, &mut bytes, |problem| skip.take(problem));
        let skipped = skip.finish()?;
        chunks.push(self.chunk(&rest, WritePath::Text, bytes, (0, encoded.rows), &skipped));
        match encoded.problem.filter(|_| rejects.is_none()) {
            None => Ok(chunks),
            Some(problem) => Err(explain(context, &rest, &problem)),
        }
    }

    /// A chunk of the records `first` to `end` without those that were skipped.
    fn chunk(
        &self,
        parsed: &ParsedWindow<'_>,
        format: WritePath,
        bytes: Vec<u8>,
        (first, end): (usize, usize),
        skipped: &[usize],
    ) -> Chunk {
        let records = parsed.records;
        let start = records.start(first);
        let begin = parsed.place.behind(start, parsed.first_record + first as u64);
        let origin = self.with_origin.then(|| {
            let mut skipped = skipped.iter().copied().peekable();
            let rows = (first..end).filter(|&row| skipped.next_if_eq(&row).is_none());
            let place = |row| {
                let index = parsed.first_record + row as u64;
                (index, (records.start(row) - start) as u32, (records.start(row + 1) - start) as u32)
            };
            let text = parsed.window[start..records.start(end)].to_vec();
            let rows = OriginRows::Text { text, records: rows.map(place).collect() };
            Arc::new(Origin { slice: parsed.slice, place: begin, rows })
        });
        Chunk { format, bytes: Bytes::from(bytes), rows: (end - first - skipped.len()) as u64, place: begin, origin }
    }
}

/// Takes the problems of a window, where there is a log to keep them in.
pub(super) struct Skip<'w, 'l, 'c, 'p> {
    parsed: &'w ParsedWindow<'w>,
    log: Option<&'l mut RejectLog<'c, 'p>>,
    skipped: Vec<usize>,
    failure: Option<Error>,
}

impl<'w, 'l, 'c, 'p> Skip<'w, 'l, 'c, 'p> {
    pub(super) fn new(parsed: &'w ParsedWindow<'w>, rejects: &'l mut Option<RejectLog<'c, 'p>>) -> Self {
        Self { parsed, log: rejects.as_mut(), skipped: Vec::new(), failure: None }
    }

    /// Whether the encoder can go on behind this record.
    pub(super) fn take(&mut self, problem: &Problem) -> bool {
        let Some(log) = self.log.as_mut().filter(|_| !problem.is_unsure()) else { return false };
        match log.push_problem(self.parsed, problem) {
            Ok(()) => {
                self.skipped.push(problem.row);
                true
            }
            Err(error) => {
                self.failure = Some(error);
                false
            }
        }
    }

    pub(super) fn finish(self) -> Result<Vec<usize>> {
        self.failure.map_or(Ok(self.skipped), Err)
    }
}

/// A record's problem as the job's error.
pub(super) fn explain(context: &Context<'_>, parsed: &ParsedWindow<'_>, problem: &Problem) -> Error {
    context.explain_problem(parsed, problem)
}

/// The field that only the server can read.
pub(super) fn example(context: &Context<'_>, parsed: &ParsedWindow<'_>, problem: &Problem) -> String {
    match problem.kind {
        ProblemKind::Value { column, .. } => format!(
            "\"{}\" in column {}",
            context.field_text(&parsed.window[problem.start..problem.end], column),
            context.plan.columns[column].name
        ),
        ProblemKind::Structure(_) => String::new(),
    }
}
