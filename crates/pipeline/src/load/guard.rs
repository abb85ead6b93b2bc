//! Rows in batches that can be taken back: where the server refuses a batch for one record's sake, the record is
//! rejected and the others are stored.
//!
//! A batch is a COPY behind a savepoint. The server names the line that it stumbled over, and rows before it are
//! sent once more; what it refuses without a line (a foreign key is checked at the end of a statement) is found by
//! halving. So a bad record costs at most the batch that it stands in, whatever the size of the job. Where bad records
//! stand close together, batches are as short: the server stores up to a thousand rows before it looks whether one of
//! them repeats a key, and what it has to take back stays in the table's file.

use super::Context;
use super::rejects::RejectLog;
use crate::error::{Error, Result};
use crate::plan::{PostgresTarget, WritePath};
use crate::postgres::copy::{Chunk, CopyFailure, CopyWriter, Origin};
use crate::postgres::session::Session;
use crate::source::locate::Complaint;
use tipple_codec::encode::{copy_binary, copy_text};

/// Whether this refusal is a record's fault: a bad value, a violated constraint, a trigger's or a view's objection, a row
/// that is too long for a page or for an index.
pub(super) fn is_records_fault(failure: &CopyFailure) -> bool {
    let Error::Server(server) = failure.error.as_ref() else { return false };
    let is_of = |classes: &[&str]| classes.iter().any(|class| server.sqlstate.starts_with(class));
    let is_of_value = || failure.column.is_some() && (is_of(&OF_VALUES) || server.sqlstate == NO_CODE);
    if server.sqlstate == NO_MORE_NUMBERS {
        return false;
    }
    let is_raised = server.routine.as_deref() == Some(RAISE) && !is_of(&NEVER_A_RECORDS);
    server.sqlstate == TOO_LONG
        || is_of(&["22", "23", "44", "P0"])
        || is_of(&OF_FUNCTIONS)
        || !is_of(&SERVERS_OWN)
        || is_of_value()
        || is_raised
}

/// What the server calls where PL/pgSQL raises an error: `RAISE ... USING ERRCODE` takes any SQLSTATE.
const RAISE: &str = "exec_stmt_raise";

/// Classes of errors that are those of circumstances, whoever raises them: another transaction, a lack of resources, an
/// operator, the system, the server itself.
const NEVER_A_RECORDS: [&str; 5] = ["40", "53", "57", "58", "XX"];

/// Classes of errors that come from within functions, and so from triggers and CHECK constraints: a case that is not
/// provided for, a query of several rows, a routine's own exception.
const OF_FUNCTIONS: [&str; 5] = ["20", "21", "2F", "38", "39"];

/// The classes that the server itself has (its manual's appendix A): an SQLSTATE of another one is that of a function's author.
const SERVERS_OWN: [&str; 44] = [
    "00", "01", "02", "03", "08", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "10", "20", "21", "22", "23", "24", "25",
    "26", "27", "28", "2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F", "40", "42", "44", "53", "54", "55", "57",
    "58", "72", "F0", "HV", "P0", "XX",
];

/// Classes of errors that end a statement, unless the server was reading a value: `tsquery` and `jsonpath` have a syntax,
/// `regclass` names tables that may not be there or be forbidden, and any nesting may be too deep. It names a column then,
/// and at no other time.
const OF_VALUES: [&str; 4] = ["0A", "3F", "42", "54"];

/// SQLSTATE `sequence_generator_limit_exceeded`: whichever record comes next, its row gets no number.
const NO_MORE_NUMBERS: &str = "2200H";

/// SQLSTATE of errors without one, such as that of hstore's syntax before 16.
const NO_CODE: &str = "XX000";

/// SQLSTATE `program_limit_exceeded`. The server stores rows in batches, and the line that it names is how far it has read.
pub(super) const TOO_LONG: &str = "54000";

/// Rows of the shortest batch that others follow: what a COPY takes by itself is worth some rows that are taken back.
const LEAST_ROWS: usize = 16;

/// What is still to be done with the rows of a chunk.
enum Step {
    /// Store rows from the first number to the one before the second.
    Store(usize, usize),
    /// Reject a row, unless other rows were refused since it was.
    Refuse { row: usize, complaint: Complaint, refused_before: u64 },
}

/// Sends rows in batches that can be taken back.
pub(super) struct Guard<'c, 'p, 's> {
    context: &'c Context<'p>,
    session: &'s Session,
    writer: CopyWriter<'s>,
    begun: bool,
    /// Rows that the server refused.
    pub(super) refused: u64,
    /// How many rows were stored between the last two that were refused, and since.
    gap: usize,
    since: usize,
}

impl<'c, 'p, 's> Guard<'c, 'p, 's> {
    pub(super) fn new(context: &'c Context<'p>, session: &'s Session, target: &'s PostgresTarget) -> Self {
        let writer = CopyWriter::new(session, &target.table, &target.column_list);
        Self { context, session, writer, begun: false, refused: 0, gap: usize::MAX, since: 0 }
    }

    /// Stores the rows of a chunk that has its origin with it; `reject` gets the records that the server refuses.
    pub(super) fn send(
        &mut self,
        chunk: &Chunk,
        origin: &Origin,
        reject: &mut impl FnMut(Refused<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut ends = None;
        let mut steps = vec![Step::Store(0, origin.len())];
        while let Some(step) = steps.pop() {
            let (low, high) = match step {
                Step::Store(low, high) if low == high => continue,
                Step::Store(low, high) => {
                    let end = low.saturating_add(self.most_rows()).min(high);
                    steps.push(Step::Store(end, high));
                    (low, end)
                }
                Step::Refuse { row, complaint, refused_before } if refused_before == self.refused => {
                    self.refused += 1;
                    self.gap = std::mem::take(&mut self.since);
                    let (place, index, record) = origin.record(row);
                    reject(Refused { slice: origin.slice, place, index, record: &record, complaint })?;
                    continue;
                }
                // Records before it, which it may have been refused for, are not stored themselves.
                Step::Refuse { row, .. } => (row, row + 1),
            };
            let whole = (low, high) == (0, origin.len());
            let part =
                if whole { chunk.clone() } else { part(chunk, ends.get_or_insert_with(|| row_ends(chunk)), low, high) };
            let Err(failure) = self.attempt(part)? else {
                self.since = self.since.saturating_add(high - low);
                continue;
            };
            let Error::Server(server) = failure.error.as_ref() else { return Err(*failure.error) };
            if let Some(missing) = self.context.missing_partition(server) {
                return Err(missing);
            }
            let line = failure.record.filter(|_| server.sqlstate != TOO_LONG || failure.column.is_some());
            let named = line.map(|(_, index)| low + index as usize).filter(|row| (low..high).contains(row));
            match named.or_else(|| (high - low == 1).then_some(low)) {
                Some(row) => {
                    let (_, _, record) = origin.record(row);
                    let value = |column| origin.value(row, column);
                    let complaint = self.context.server_complaint(&record, server, failure.column.as_deref(), value);
                    let refusal = Step::Refuse { row, complaint, refused_before: self.refused };
                    steps.extend([Step::Store(row + 1, high), refusal, Step::Store(low, row)]);
                }
                None => {
                    let middle = low.midpoint(high);
                    steps.extend([Step::Store(middle, high), Step::Store(low, middle)]);
                }
            }
        }
        Ok(())
    }

    /// Rows of the next batch: a multiple of those that lie between bad records here.
    fn most_rows(&self) -> usize {
        self.gap.max(self.since).saturating_mul(2).max(LEAST_ROWS)
    }

    /// Ends the savepoint, so that what follows is part of the transaction itself.
    pub(super) fn finish(&mut self) -> Result<()> {
        if std::mem::take(&mut self.begun) {
            self.session.run("RELEASE SAVEPOINT tipple", "releasing a savepoint")?;
        }
        Ok(())
    }

    /// One batch; the inner error is one that a record may be to blame for, and the batch has been taken back.
    fn attempt(&mut self, chunk: Chunk) -> Result<std::result::Result<(), CopyFailure>> {
        let savepoint = if self.begun { "RELEASE SAVEPOINT tipple; SAVEPOINT tipple" } else { "SAVEPOINT tipple" };
        self.session.run(savepoint, "setting a savepoint")?;
        self.begun = true;
        let sent = self.writer.send(chunk).and_then(|()| self.writer.finish());
        match sent {
            Err(failure) if is_records_fault(&failure) => {
                self.session.run("ROLLBACK TO SAVEPOINT tipple", "taking a batch back")?;
                Ok(Err(failure))
            }
            Err(failure) => Err(self.context.explain_copy(failure, None)),
            Ok(()) => Ok(Ok(())),
        }
    }
}

/// A record that the server refused.
pub(super) struct Refused<'o> {
    pub(super) slice: u32,
    pub(super) place: crate::postgres::copy::Place,
    pub(super) index: u64,
    pub(super) record: &'o [u8],
    pub(super) complaint: Complaint,
}

impl Refused<'_> {
    /// Keeps it in `log`.
    pub(super) fn keep_in(self, log: &mut RejectLog<'_, '_>) -> Result<()> {
        log.enter(self.slice);
        log.push(self.place, self.index, self.record, self.complaint)
    }
}

/// Where each row of a chunk ends.
fn row_ends(chunk: &Chunk) -> Vec<usize> {
    match chunk.format {
        WritePath::Binary => copy_binary::row_ends(&chunk.bytes),
        WritePath::Text => copy_text::row_ends(&chunk.bytes),
    }
}

/// Rows `low` to `high` of a chunk.
fn part(chunk: &Chunk, ends: &[usize], low: usize, high: usize) -> Chunk {
    let start = if low == 0 { 0 } else { ends[low - 1] };
    Chunk { bytes: chunk.bytes.slice(start..ends[high - 1]), rows: (high - low) as u64, origin: None, ..chunk.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ServerError;

    /// A server's error; `column` as its context names it.
    fn failure(sqlstate: &str, column: Option<&str>) -> CopyFailure {
        let error = Error::Server(Box::new(ServerError {
            message: String::new(),
            sqlstate: sqlstate.into(),
            detail: None,
            hint: None,
            context: None,
            constraint: None,
            routine: None,
            doing: String::new(),
        }));
        CopyFailure { column: column.map(Into::into), ..error.into() }
    }

    #[test]
    fn a_full_disk_is_no_records_fault() {
        for sqlstate in ["22P02", "23505", "44000", "P0001", "54000"] {
            assert!(is_records_fault(&failure(sqlstate, None)), "{sqlstate}");
        }
        for sqlstate in ["53100", "42501", "54001", "57014", "40001", "25P02", "XX000"] {
            assert!(!is_records_fault(&failure(sqlstate, None)), "{sqlstate}");
        }
        assert!(!is_records_fault(&Error::Cancelled.into()));
    }

    #[test]
    fn a_statements_fault_is_a_records_where_a_value_was_read() {
        for sqlstate in ["42601", "42P01", "42501", "3F000", "0A000", "54001", "XX000"] {
            assert!(is_records_fault(&failure(sqlstate, Some("a"))), "{sqlstate}");
        }
        for sqlstate in ["53100", "57014", "40001", "25P02", "XX001"] {
            assert!(!is_records_fault(&failure(sqlstate, Some("a"))), "{sqlstate}");
        }
    }
}
