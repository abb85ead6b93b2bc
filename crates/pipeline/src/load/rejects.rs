//! Records that cannot be stored: counted against the limit, and kept in a file per stream.
//!
//! A slice that is done again begins by taking back what its earlier attempt had written.

use super::Context;
use super::parse::ParsedWindow;
use crate::error::{Error, Result};
use crate::plan::{RejectPlan, Target};
use crate::postgres::copy::{Place, copy_in};
use crate::postgres::session::Session;
use crate::rejects::row;
use crate::source::locate::Complaint;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use tipple_codec::problem::Problem;

/// What the names of the files end with.
const EXTENSION: &str = "rows";

/// Of so many bytes are the messages that rows go to the ledger in.
const PIECE_BYTES: usize = 64 * 1024;

/// The rejects in a log, where there is one.
pub(super) fn count(log: &Option<RejectLog<'_, '_>>) -> u64 {
    log.as_ref().map_or(0, RejectLog::count)
}

/// The rejects of one stream.
#[derive(Debug)]
pub(super) struct RejectLog<'c, 'p> {
    context: &'c Context<'p>,
    plan: &'p RejectPlan,
    path: PathBuf,
    file: Option<BufWriter<Arc<File>>>,
    row: Vec<u8>,
    /// The largest code point that a reason may have.
    highest_character: u32,
    /// Bytes of the slices that are done.
    kept: u64,
    /// Bytes in all.
    written: u64,
    slice: u32,
    count: u64,
    /// Whether its rejects count against the limit.
    counts: bool,
}

impl<'c, 'p> RejectLog<'c, 'p> {
    /// The log of the stream called `name`; `None` where the first bad record ends the job.
    pub(super) fn open(context: &'c Context<'p>, name: &str) -> Option<Self> {
        let plan = context.plan.rejects.as_ref()?;
        let path = plan.spool.join(format!("{name}.{EXTENSION}"));
        let ledger = match &context.plan.target {
            Target::Postgres(target) => target.ledger.as_ref(),
            Target::Arrow { .. } => None,
        };
        Some(Self {
            context,
            plan,
            path,
            file: None,
            row: Vec::new(),
            highest_character: ledger.map_or(u32::MAX, |ledger| ledger.highest_character),
            kept: 0,
            written: 0,
            slice: 0,
            count: 0,
            counts: true,
        })
    }

    /// A log of rejects that somebody has counted and kept already: nobody reads it.
    pub(super) fn aside(context: &'c Context<'p>, name: &str) -> Option<Self> {
        let log = Self::open(context, name)?;
        Some(Self { path: log.path.with_extension("aside"), counts: false, ..log })
    }

    /// A slice begins; what an attempt before had written is taken back.
    pub(super) fn begin(&mut self, slice: u32) -> Result<()> {
        if self.counts {
            self.context.take_back_rejects(self.count);
        }
        self.slice = slice;
        self.count = 0;
        if self.written > self.kept
            && let Some(file) = &mut self.file
        {
            file.seek(SeekFrom::Start(self.kept))
                .and_then(|_| file.get_ref().set_len(self.kept))
                .map_err(|error| Error::file(&self.path, "shorten it", &error))?;
            self.written = self.kept;
        }
        Ok(())
    }

    /// What is kept from now on belongs to this slice; nothing is taken back.
    pub(super) fn enter(&mut self, slice: u32) {
        self.slice = slice;
    }

    /// The slice is safely done.
    pub(super) fn keep(&mut self) -> Result<()> {
        self.flush()?;
        self.kept = self.written;
        self.count = 0;
        Ok(())
    }

    /// Rejects since [`RejectLog::keep`].
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Keeps the record at `place`, which is number `index` of its piece, counted from 0.
    ///
    /// # Errors
    /// The record itself, where it is one too many; the disk's.
    pub(super) fn push(&mut self, place: Place, index: u64, record: &[u8], complaint: Complaint) -> Result<()> {
        self.count += 1;
        let total = if self.counts { self.context.add_rejects(1) } else { 0 };
        if let Some(limit) = self.plan.max.filter(|&limit| total > limit) {
            return Err(match self.context.explain_complaint(place, complaint) {
                Error::BadRecord(record) if limit > 0 => Error::TooManyRejects { limit, record },
                other => other,
            });
        }
        let Complaint { column, reason, sqlstate, .. } = &complaint;
        self.row.clear();
        let reason = representable(reason, self.highest_character);
        let told = (column.as_deref(), &*reason, sqlstate.as_str());
        row::write(&mut self.row, (self.plan.job_id, self.slice, place, index), told, record)
            .map_err(|error| Error::file(&self.path, "write it", &error))?;
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = File::options().read(true).write(true).create(true).truncate(true).open(&self.path);
                let file = file.map_err(|error| Error::file(&self.path, "create it", &error))?;
                self.file.insert(BufWriter::new(Arc::new(file)))
            }
        };
        file.write_all(&self.row).map_err(|error| Error::file(&self.path, "write it", &error))?;
        self.written += self.row.len() as u64;
        Ok(())
    }

    /// Keeps the record of a window that the codec found a problem in.
    ///
    /// # Errors
    /// As [`RejectLog::push`].
    pub(super) fn push_problem(&mut self, parsed: &ParsedWindow<'_>, problem: &Problem) -> Result<()> {
        let complaint = self.context.complaint(parsed.place.source, parsed.window, problem);
        let record = &parsed.window[problem.start..problem.end];
        let index = parsed.first_record + problem.row as u64;
        self.push(parsed.place.behind(problem.start, index), index, record, complaint)
    }

    /// Stores the rejects since [`RejectLog::keep`] in the ledger, in the transaction that is open.
    ///
    /// # Errors
    /// What the server says.
    pub(super) fn copy_to_ledger(&mut self, session: &Session) -> Result<()> {
        self.rows()?.map_or(Ok(()), |rows| rows.copy_to_ledger(session))
    }

    /// The rejects since [`RejectLog::keep`], which somebody else stores in the ledger: they are kept from now on.
    pub(super) fn hand_over(&mut self) -> Result<Option<KeptRejects>> {
        let rows = self.rows()?;
        self.keep()?;
        Ok(rows)
    }

    fn rows(&mut self) -> Result<Option<KeptRejects>> {
        self.flush()?;
        let Some(file) = self.file.as_ref().filter(|_| self.written > self.kept) else { return Ok(None) };
        let file = file.get_ref().clone();
        Ok(Some(KeptRejects { file, path: self.path.clone(), range: self.kept..self.written }))
    }

    fn flush(&mut self) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.flush().map_err(|error| Error::file(&self.path, "write it", &error))
    }
}

/// A text whose characters are none above the highest: others, of a value that it quotes, stand there by their number.
fn representable(text: &str, highest: u32) -> Cow<'_, str> {
    let fits = |it: char| u32::from(it) <= highest;
    if text.chars().all(fits) {
        return Cow::Borrowed(text);
    }
    let spelled = |it: char| if fits(it) { it.to_string() } else { it.escape_unicode().to_string() };
    Cow::Owned(text.chars().map(spelled).collect())
}

/// Rows in the file of a log, as long as nobody takes them back.
#[derive(Debug)]
pub(super) struct KeptRejects {
    file: Arc<File>,
    path: PathBuf,
    range: Range<u64>,
}

impl KeptRejects {
    /// Stores them in the ledger, in the transaction that is open.
    ///
    /// # Errors
    /// What the server says.
    pub(super) fn copy_to_ledger(&self, session: &Session) -> Result<()> {
        let statement = format!("COPY tipple.reject ({}) FROM STDIN (FORMAT binary)", row::COLUMNS);
        copy_in(session, &statement, "writing rejects to the ledger", |take| {
            let (header, trailer) = row::AROUND;
            take(header.to_vec())?;
            for from in self.range.clone().step_by(PIECE_BYTES) {
                let mut piece = vec![0; (self.range.end - from).min(PIECE_BYTES as u64) as usize];
                let read = self.file.read_exact_at(&mut piece, from);
                read.map_err(|error| Error::file(&self.path, "read it", &error))?;
                take(piece)?;
            }
            take(trailer.to_vec())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_database_cannot_hold_stands_by_its_number() {
        for (highest, expected) in [(u32::MAX, "é€\""), (0xFF, "é\\u{20ac}\""), (0x7F, "\\u{e9}\\u{20ac}\"")] {
            assert_eq!(representable("é€\"", highest), expected);
        }
    }
}
