//! What a job tells while it runs, and at the end. Their JSON forms go to Python.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use super::table::Table;

/// A snapshot of a running job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// `running`, `publishing`, `done`, `failed` or `interrupted`.
    pub state: &'static str,
    /// Share of the work that is done, from 0 to 1, by the size of the text.
    pub fraction: f64,
    /// Rows written.
    pub rows: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files that are complete, and all files.
    pub files_done: u64,
    /// All files of the job.
    pub files_total: u64,
    /// Seconds since the start.
    pub elapsed_seconds: f64,
    /// Threads that generate and write.
    pub jobs: usize,
}

/// A file that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Its table.
    pub table: Table,
    /// Number of the part, or none where it holds the whole table.
    pub part: Option<i64>,
    /// Path, in the output directory as the caller named it.
    pub path: String,
    /// Rows in it.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// It was there already, byte for byte (region and nation beside another part), and was left alone.
    pub kept: bool,
}

/// What a job made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The files, in the order of [`Table::ALL`] and of their parts.
    pub files: Vec<FileReport>,
    /// Rows in all files.
    pub rows: u64,
    /// Bytes in all files.
    pub bytes: u64,
    /// Seconds from start to publication.
    pub seconds: f64,
    /// Threads that generated and wrote.
    pub jobs: usize,
}

/// Counters that the threads of a job share.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) files_done: AtomicU64,
    /// Work in bytes of `tbl` text, estimated; the same measure for every format.
    pub(crate) work_done: AtomicU64,
    pub(crate) work_total: u64,
    pub(crate) files_total: u64,
    pub(crate) jobs: usize,
    pub(crate) started: Instant,
}

impl Counters {
    pub(crate) fn new(work_total: u64, files_total: u64, jobs: usize) -> Self {
        Self {
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            files_done: AtomicU64::new(0),
            work_done: AtomicU64::new(0),
            work_total,
            files_total,
            jobs,
            started: Instant::now(),
        }
    }

    pub(crate) fn snapshot(&self, state: &'static str) -> Progress {
        let done = self.work_done.load(Ordering::Relaxed);
        Progress {
            state,
            fraction: if self.work_total == 0 { 1.0 } else { (done as f64 / self.work_total as f64).min(1.0) },
            rows: self.rows.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            files_done: self.files_done.load(Ordering::Relaxed),
            files_total: self.files_total,
            elapsed_seconds: self.started.elapsed().as_secs_f64(),
            jobs: self.jobs,
        }
    }
}
