//! What can go wrong in a job, as one tree that is handed to Python as JSON.
//!
//! A failing stream stops the others, and the first cause is what is reported, but for a record that stands before another.

use serde::Serialize;
use std::path::Path;

/// The result of anything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. Serialised with its variant's name in `kind`.
#[derive(Debug, Clone, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Error {
    /// A record that cannot be stored.
    #[error("{}: record {}: {}", .0.file, .0.record_number, .0.reason)]
    BadRecord(Box<BadRecord>),
    /// One record more than may be rejected cannot be stored.
    #[error("more than {limit} records cannot be stored; the last: {}", .record.reason)]
    TooManyRejects {
        /// How many may be rejected.
        limit: u64,
        /// The record that was too much.
        record: Box<BadRecord>,
    },
    /// A larger share of the records than may be rejected cannot be stored.
    #[error("{rejects} of {records} records cannot be stored, which is more than {percent} %")]
    TooLargeShare {
        /// Rejects.
        rejects: u64,
        /// Records in all.
        records: u64,
        /// The limit.
        percent: f64,
    },
    /// Records whose keys no partition takes, where one can be made for them.
    #[error("no partition for {}", keys.join(", "))]
    NoPartition {
        /// The texts of the first key column, each once, as far as they were met.
        keys: Vec<String>,
    },
    /// A file could not be opened or read, or written.
    #[error("{file}: {message}")]
    File {
        /// The file.
        file: String,
        /// What the operating system said.
        message: String,
        /// What to do next.
        remedy: String,
    },
    /// A file is not what it was when the job was planned.
    #[error("{file} changed while it was being loaded: {message}")]
    SourceChanged {
        /// The file.
        file: String,
        /// What changed.
        message: String,
    },
    /// The server refused a statement.
    #[error("{}", .0.message)]
    Server(Box<ServerError>),
    /// The server ended a COPY at a record that is not to blame.
    #[error("{}: near record {record_number}: {}", file, .error.message)]
    NearRecord {
        /// What it said.
        #[serde(flatten)]
        error: Box<ServerError>,
        /// The file that the record stands in.
        file: String,
        /// Its number in the file, from 1, the header not counted.
        record_number: u64,
    },
    /// No connection, or it was lost and did not come back in time.
    #[error("{message}")]
    Connection {
        /// What happened.
        message: String,
        /// What the pipeline was doing.
        doing: String,
    },
    /// The connection was lost after COMMIT was sent: the ledger knows the outcome.
    #[error("the connection was lost while committing: {message}")]
    CommitInDoubt {
        /// What happened.
        message: String,
    },
    /// Pages are not the way for these records; nothing was stored.
    #[error("{reason}")]
    Unsuited {
        /// Why.
        reason: String,
    },
    /// A text of a columnar source is one that only the server can read; nothing is published.
    #[error("{reason}")]
    OnlyServerReads {
        /// The text, and its column.
        reason: String,
    },
    /// Keys must judge while rows are stored; nothing is published.
    #[error("{reason}")]
    UnreadableKeys {
        /// Why.
        reason: String,
    },
    /// Columns of the table have other types than values are encoded for.
    #[error("columns were changed: {}", .columns.join(", "))]
    ColumnsChanged {
        /// Their names.
        columns: Vec<String>,
    },
    /// Another run took the job over.
    #[error("another run has taken this job over")]
    LostOwnership,
    /// The job was cancelled.
    #[error("interrupted")]
    Cancelled,
    /// The source cannot be read as it is described.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
    },
    /// A fault of Tipple itself.
    #[error("internal error: {message}")]
    Internal {
        /// What happened.
        message: String,
    },
}

/// A record that cannot be stored, with all that is needed to find and mend it.
#[derive(Debug, Clone, Serialize)]
pub struct BadRecord {
    /// The file it stands in.
    pub file: String,
    /// Its number in the file, from 1, the header not counted.
    pub record_number: u64,
    /// Where it begins in the file, in bytes; `None` for the rows of columnar sources, which do not lie in one place, and
    /// where standard input is gone by the time the server refuses it.
    pub byte_offset: Option<u64>,
    /// The column, where one is to blame.
    pub column: Option<String>,
    /// The offending text, shortened; `None` where nobody has it any more.
    pub text: Option<String>,
    /// Why it cannot be stored.
    pub reason: String,
    /// The server's code for that reason.
    pub sqlstate: Option<String>,
    /// What to do next.
    pub remedy: String,
}

/// What a server said.
#[derive(Debug, Clone, Serialize)]
pub struct ServerError {
    /// Its message.
    pub message: String,
    /// Its five-character code.
    pub sqlstate: String,
    /// Its detail line.
    pub detail: Option<String>,
    /// Its hint.
    pub hint: Option<String>,
    /// Where in the server it happened.
    pub context: Option<String>,
    /// The constraint that was violated, if it was one.
    pub constraint: Option<String>,
    /// The server's function that raised it: what it is about, where its words are in the server's own language.
    pub routine: Option<String>,
    /// What the pipeline was doing.
    pub doing: String,
}

impl Error {
    /// A failed file operation.
    pub fn file(path: &Path, doing: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let remedy = match error.kind() {
            ErrorKind::NotFound => "check the path",
            ErrorKind::PermissionDenied => "grant this user the right to the file, or run as one who has it",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space, then run the same command again",
            _ => "check the disk, then run the same command again",
        };
        Self::File {
            file: path.display().to_string(),
            message: format!("cannot {doing}: {error}"),
            remedy: remedy.into(),
        }
    }

    /// Whether both are about records of one file, this one about the one that stands before the other's.
    pub(crate) fn stands_before(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::BadRecord(one), Self::BadRecord(other)) => {
                one.file == other.file && one.record_number < other.record_number
            }
            _ => false,
        }
    }
}
