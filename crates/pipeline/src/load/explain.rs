//! Turns what a codec or a server found wrong into an error that names file, record, offset, column and text.

use super::Context;
use super::feed::{Block, cutting};
use super::guard::{TOO_LONG, is_records_fault};
use super::parse::ParsedWindow;
use crate::error::{BadRecord, Error, ServerError};
use crate::plan::{Growing, Target};
use crate::postgres::copy::{CopyFailure, Place};
use crate::source::block_text::BlockPiece;
use crate::source::blocks::BlockCutter;
use crate::source::locate::{self, Complaint};
use tipple_codec::decode::Decoder;
use tipple_codec::dialect::Dialect;
use tipple_codec::notation::has_short_year;
use tipple_codec::problem::{Problem, ProblemKind};
use tipple_codec::scan::Scanner;
use tipple_codec::sniff::guessed::Guessed;
use tipple_codec::value::Refusal;

impl Context<'_> {
    /// The problem that the codec found in a window that begins at `place`.
    pub(super) fn explain_problem(&self, parsed: &ParsedWindow<'_>, problem: &Problem) -> Error {
        let place = parsed.place.behind(problem.start, parsed.first_record + problem.row as u64);
        self.explain_complaint(place, self.complaint(place.source, parsed.window, problem))
    }

    /// What is wrong with a record, found by the codec.
    pub(super) fn complaint(&self, source: usize, window: &[u8], problem: &Problem) -> Complaint {
        let record = &window[problem.start..problem.end];
        let (column, text, reason, sqlstate, remedy) = match problem.kind {
            ProblemKind::Structure(what) => {
                let (mut reason, column, mut remedy) =
                    locate::describe_structure(what, &self.plan.columns, &self.plan.dialect);
                if record.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
                    reason = format!("the line is empty: {reason}");
                    remedy = "remove the empty line, or leave it out by --on-error skip".into();
                }
                (column, locate::shown(record), reason, "22P04", remedy)
            }
            ProblemKind::Value { column, refusal } => {
                let text = self.field_text(record, column);
                let column = &self.plan.columns[column];
                let (mut reason, sqlstate, remedy) = locate::describe_refusal(refusal, column, &text);
                if refusal == Refusal::InvalidEncoding
                    && let Some(undecodable) = locate::undecodable_reason(&self.plan.sources[source], record)
                {
                    reason = undecodable;
                }
                (Some(column.name.clone()), text, reason, sqlstate, remedy)
            }
        };
        Complaint { column, text, reason, sqlstate: sqlstate.into(), remedy }
    }

    /// What is wrong with a record that has a value which a guessed type would change.
    pub(super) fn changed(&self, record: &[u8], column: usize) -> Complaint {
        let text = self.field_text(record, column);
        let in_order = self.plan.guessed.iter().any(|it| it.0 == column && matches!(it.1, Guessed::InOrder(_)));
        let column = &self.plan.columns[column];
        let type_name = locate::type_name(&column.kind);
        let (reason, remedy) = if in_order && has_short_year(text.as_bytes()) {
            (
                format!(
                    "the year of \"{text}\" has two digits, and the order of its numbers was guessed from other values"
                ),
                "write all digits of the year, or say the order: --date-style DMY, MDY or YMD",
            )
        } else {
            (
                format!("\"{text}\" would be changed by the type {type_name}, which was guessed from other values"),
                "mend the value, or give the column another type",
            )
        };
        Complaint {
            column: Some(column.name.clone()),
            reason,
            text,
            sqlstate: Refusal::InvalidSyntax.sqlstate(column.kind.family()).unwrap_or("22P02").into(),
            remedy: remedy.into(),
        }
    }

    /// An error that names the record at `place`.
    pub(super) fn explain_complaint(&self, place: Place, complaint: Complaint) -> Error {
        let plan = self.plan;
        if self.columnar.is_some() {
            let Complaint { column, text, reason, sqlstate, remedy } = complaint;
            return Error::BadRecord(Box::new(BadRecord {
                file: plan.sources[place.source].path.display().to_string(),
                record_number: place.offset + 1,
                byte_offset: None,
                column,
                text: Some(text),
                reason,
                sqlstate: (!sqlstate.is_empty()).then_some(sqlstate),
                remedy,
            }));
        }
        let at = (place.offset, place.record);
        locate::bad_record(&plan.sources[place.source], at, &plan.dialect, plan.header, complaint)
    }

    /// The same of a record that a quote may have run away with: also told is the line in which it begins.
    pub(super) fn explain_runaway(&self, place: Place, mut complaint: Complaint) -> Error {
        if let Some(line) = locate::line_number(&self.plan.sources[place.source], place.offset, &self.plan.dialect) {
            complaint.reason += &format!(" (line {line} of the file)");
        }
        self.explain_complaint(place, complaint)
    }

    /// What is wrong with a record that the file ends in the middle of.
    pub(super) fn unterminated(record: &[u8]) -> Complaint {
        Complaint {
            column: None,
            text: locate::shown(record),
            reason: "unterminated quoted field: the record that begins here never ends".into(),
            sqlstate: "22P04".into(),
            remedy: "close the quote in this record, or check --quote and --escape".into(),
        }
    }

    /// What is wrong with a line whose quote is not closed in it, though the lines behind it are records.
    pub(super) fn unclosed(line: &[u8]) -> Complaint {
        let reason = "unterminated quoted field: a quote is missing or too many in this line; the lines behind it look \
                      like records, and were read as such";
        Complaint { reason: reason.into(), ..Self::unterminated(line) }
    }

    /// What the server said while rows were stored, `block` being what they came from, if it is still there.
    pub(super) fn explain_copy(&self, failure: CopyFailure, block: Option<&Block>) -> Error {
        let beside = match failure.error.as_ref() {
            Error::Server(server) if !is_records_fault(&failure) => Some(server.clone()),
            _ => None,
        };
        match (self.explain_line(failure, block), beside) {
            (Error::BadRecord(told), Some(error)) => {
                Error::NearRecord { error, file: told.file, record_number: told.record_number }
            }
            (error, _) => error,
        }
    }

    /// The same, as if the record that the server names were to blame.
    fn explain_line(&self, failure: CopyFailure, block: Option<&Block>) -> Error {
        if let Error::Server(server) = failure.error.as_ref()
            && let Some(missing) = self.missing_partition(server)
        {
            return missing;
        }
        let (Some((place, index)), Error::Server(server)) = (failure.record, failure.error.as_ref()) else {
            return *failure.error;
        };
        if server.sqlstate == TOO_LONG && failure.column.is_none() {
            return self.explain_batch(place, index, server);
        }
        if self.columnar.is_some() {
            return self.explain_copy_of_row((place, index), server, &failure);
        }
        let CopyFailure { error, column, .. } = failure;
        let error = *error;
        let Error::Server(server) = &error else { return error };
        let Some((offset, bytes)) = self.record_after(place, index, block) else {
            let is_gone = self.plan.sources[place.source].is_stdin() && place.record.is_some();
            return if is_gone { self.explain_gone((place, index), server, column.as_deref()) } else { error };
        };
        let complaint = self.server_complaint(&bytes, server, column.as_deref(), |_| None);
        let record = place.record.map(|first| first + index);
        self.explain_complaint(Place { offset, record, ..place }, complaint)
    }

    /// A key without a partition that the server has found, where one can be made for it. The server tells it in its detail,
    /// `Partition key of the failing row contains (day) = (1990-01-05).`, whose words depend on its language.
    pub(super) fn missing_partition(&self, server: &ServerError) -> Option<Error> {
        let Target::Postgres(target) = &self.plan.target else { return None };
        let Growing { column, hopeless } = target.growing.as_ref()?;
        if server.sqlstate != "23514" || server.constraint.is_some() {
            return None;
        }
        let (columns, value) = server.detail.as_ref()?.split_once(") = (")?;
        // A partition may itself be divided, by another key.
        let quoted = format!("(\"{}\"", column.replace('"', "\"\""));
        if !columns.ends_with(&quoted) && !columns.ends_with(&format!("({column}")) {
            return None;
        }
        let key = &value[..value.rfind(')')?];
        (!hopeless.contains(key)).then(|| Error::NoPartition { keys: vec![key.to_owned()] })
    }

    /// What is wrong with one of the records that the server stores together, up to `index` records after `place`.
    fn explain_batch(&self, place: Place, index: u64, server: &ServerError) -> Error {
        let source = self.plan.sources[place.source].path.display();
        let until = place.record.map_or_else(String::new, |first| format!(" up to record {}", first + index));
        let mut server = server.clone();
        server.message = format!("{} (one of the last 1,000 records{until} of {source})", server.message);
        server.hint =
            Some("shorten the record, or keep such records apart by --on-error skip --max-rejects 100".into());
        Error::Server(Box::new(server))
    }

    /// What is wrong with a record, found by the server; `value` gives the text of a column where the source is columnar.
    pub(super) fn server_complaint(
        &self,
        record: &[u8],
        server: &ServerError,
        column: Option<&str>,
        value: impl Fn(usize) -> Option<Vec<u8>>,
    ) -> Complaint {
        let ServerError { message, sqlstate, detail, .. } = server;
        let position = column.and_then(|name| self.plan.columns.iter().position(|column| column.name == *name));
        let text = match position {
            None => locate::shown(record),
            // The record of a columnar source is no text of the plan's dialect.
            Some(position) if self.columnar.is_some() => {
                value(position).map_or_else(|| "NULL".into(), |text| locate::shown(&text))
            }
            Some(position) => self.field_text(record, position),
        };
        let reason = detail.as_ref().map_or_else(|| message.clone(), |detail| format!("{message} ({detail})"));
        let remedy = match sqlstate.as_str() {
            // There is no constraint to drop.
            "23514" if server.routine.as_deref() == Some("ExecFindPartition") => PARTITION_REMEDY.into(),
            sqlstate => remedy(sqlstate, &reason),
        };
        Complaint { column: column.map(Into::into), text, reason, sqlstate: sqlstate.clone(), remedy }
    }

    /// The same of a record of standard input, of which only the number is left.
    fn explain_gone(&self, (place, index): (Place, u64), server: &ServerError, column: Option<&str>) -> Error {
        let complaint = self.server_complaint(&[], server, column, |_| None);
        let record = place.record.map(|first| first + index);
        match self.explain_complaint(Place { record, ..place }, complaint) {
            Error::BadRecord(told) => Error::BadRecord(Box::new(BadRecord { byte_offset: None, text: None, ..*told })),
            other => other,
        }
    }

    /// Where the record that is `index` records after `place` begins, and its bytes, as far as they can be had.
    fn record_after(&self, place: Place, index: u64, block: Option<&Block>) -> Option<(u64, Vec<u8>)> {
        let plan = self.plan;
        let source = &plan.sources[place.source];
        if source.form.is_none() {
            return locate::record_after(source, place.offset, index, &plan.dialect).ok();
        }
        let inside = |text: &[u8], pieces: &[BlockPiece]| {
            let of_place = |piece: &&BlockPiece| {
                let (begin, length) = (piece.piece.offset, piece.piece.length);
                piece.piece.source == place.source && (begin..begin + length).contains(&place.offset)
            };
            let piece = pieces.iter().find(of_place)?;
            let begin = piece.begin + (place.offset - piece.piece.offset) as usize;
            Some(locate::record_in(&text[begin..piece.end], place.offset, index, &plan.dialect))
        };
        if let Some(found) = block.and_then(|block| inside(block.text(), block.pieces())) {
            return Some(found);
        }
        if source.is_stdin() {
            return None;
        }
        let feed = [place.source];
        let mut cutter = BlockCutter::new(cutting(plan), &feed, None);
        while let Ok(Some(block)) = cutter.next(Vec::new()) {
            if let Some(found) = inside(&block.text, &block.pieces) {
                return Some(found);
            }
        }
        None
    }

    /// The decoded text of one field of a record, for a message.
    pub(super) fn field_text(&self, record: &[u8], column: usize) -> String {
        self.field_value(record, column).unwrap_or_else(|| "NULL".into())
    }

    /// The decoded text of one field of a record; `None` for NULL.
    pub(super) fn field_value(&self, record: &[u8], column: usize) -> Option<String> {
        let mut ended = record.to_vec();
        if !ended.ends_with(self.plan.dialect.line_end.bytes()) {
            ended.extend_from_slice(self.plan.dialect.line_end.bytes());
        }
        let mut scanner = Scanner::new(self.plan.dialect.clone(), self.plan.columns.len());
        let records = scanner.scan(&ended);
        if records.rows() == 0 {
            return Some(locate::shown(record));
        }
        // As it is written there, so that it can be found.
        let mut decoder = Decoder::new(Dialect { notations: Vec::new(), ..self.plan.dialect.clone() });
        decoder.decode(records.field(0, column), column).map(locate::shown)
    }
}

/// What helps where no partition takes a record.
const PARTITION_REMEDY: &str = "add a partition for it, or mend the value";

/// What helps against a violation; `reason` is the server's words, or ours where we have found it.
pub(super) fn remedy(sqlstate: &str, reason: &str) -> String {
    match sqlstate {
        "23514" if reason.contains("no partition of ") => PARTITION_REMEDY.into(),
        "23505" => "remove the duplicate, or drop the constraint for the load".into(),
        "23502" => "give a value, drop the constraint, or check --null".into(),
        "23503" => "load the referenced table first".into(),
        code if code.starts_with("23") => "mend the record, or drop the constraint for the load".into(),
        _ => "mend the value".into(),
    }
}
