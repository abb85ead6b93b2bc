//! The plan of a load, as Python hands it down: what to read, how it is written, where it goes.

use crate::rejects::row::JobId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use tipple_codec::column::Column;
use tipple_codec::dialect::Dialect;
use tipple_codec::route::RoutePlan;
use tipple_codec::sniff::guessed::Guessed;

mod columnar;
mod direct;
mod found;
mod known_types;
mod numbers;
mod unique;

pub use columnar::{ColumnarFormat, ColumnarPlan, FieldPlan};
pub use direct::DirectPlan;
pub use found::{RefusedRow, RefusedSlice, Sought, SoughtColumn};
pub use known_types::KnownTypes;
pub use numbers::{FIRST_PART_N, OFFSET_BITS};
pub use unique::{Repeated, UniqueKey, UniqueKeys};

/// One source file, as it was when the job was planned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last changed, in nanoseconds since the Unix epoch.
    pub mtime_ns: i64,
    /// How its bytes become text; `None` where they are the text, and can be read from any place.
    #[serde(default)]
    pub form: Option<StreamForm>,
    /// What the names of its directories say of all its rows, where it is a columnar file.
    #[serde(default)]
    pub path_columns: Vec<PathColumn>,
}

/// A column's name and its value in all rows of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PathColumn(pub String, pub Option<String>);

impl Source {
    /// Whether this is standard input.
    #[must_use]
    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == STDIN
    }
}

/// The path that means standard input.
pub const STDIN: &str = "-";

/// How the bytes of a source that is read from beginning to end become text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamForm {
    /// How it is compressed.
    pub compression: Option<Compression>,
    /// Its encoding by any of its names; `None`: UTF-8, or what a byte order mark says.
    pub encoding: Option<String>,
    /// Lines to leave out at the beginning.
    pub skip_lines: u64,
    /// Lines that begin with this byte are left out.
    pub comment: Option<u8>,
}

/// How a source is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// RFC 1952, one member or several.
    Gzip,
    /// RFC 8878, one frame or several.
    Zstd,
    /// bzip2, one stream or several.
    Bzip2,
    /// The .xz file format.
    Xz,
}

/// What is read as streams, and cut into slices while it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Feeding {
    /// Indexes of sources; those of one feed are read one after the other, and small ones share slices.
    pub feeds: Vec<Vec<usize>>,
    /// Slices that an earlier run of the job has stored: first source, and offset in its text.
    pub done: Vec<(usize, u64)>,
    /// The number of the first slice that is cut.
    pub first_n: u32,
    /// The text of a slice: the shortest run of whole records that is not shorter than this.
    pub block_bytes: usize,
    /// The most records of a slice; 0 where there is no limit.
    pub block_records: u64,
    /// Whether the quotes behind a cut count too, and a slice that holds a part of a source holds nothing else.
    pub resyncs: bool,
    /// Text that is read at a time; 0 for the default.
    pub chunk_bytes: usize,
}

/// A byte range of one source that holds whole records. Of a columnar source it holds the row groups (Parquet) or
/// record batches (Arrow) that begin in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The index of the source.
    pub source: usize,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
}

/// The unit of work, retry and bookkeeping: one piece of a large source, or many small sources together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Its number in the job, from 0.
    pub n: u32,
    /// What it holds.
    pub pieces: Vec<Piece>,
}

impl Slice {
    /// The bytes of all its pieces.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.length).sum()
    }
}

/// How to cut sources into slices.
#[derive(Debug, Clone, Deserialize)]
pub struct CutPlan {
    /// The files.
    pub sources: Vec<Source>,
    /// How they are written.
    pub dialect: Dialect,
    /// Whether bad records are skipped: a quote may then be too many.
    #[serde(default)]
    pub skips: bool,
    /// The columns that their fields belong to.
    #[serde(default)]
    pub columns: usize,
    /// Whether the first record of each file is a header.
    pub header: bool,
    /// The size to aim at, in bytes.
    pub slice_bytes: u64,
    /// Threads to scan with.
    pub streams: usize,
    /// The longest record, in bytes.
    pub max_record_bytes: usize,
    /// The format, where the sources are columnar: nothing but `sources` and `slice_bytes` counts then.
    #[serde(default)]
    pub columnar: Option<ColumnarFormat>,
    /// Whether small sources share slices. Only a slice of one source can be divided at any record.
    #[serde(default = "yes")]
    pub groups: bool,
}

fn yes() -> bool {
    true
}

/// What all loads have in common.
#[derive(Debug, Clone, Deserialize)]
pub struct LoadPlan {
    /// The files.
    pub sources: Vec<Source>,
    /// How they are written.
    pub dialect: Dialect,
    /// Whether the first record of each file is a header (for counting records; slices begin behind it).
    pub header: bool,
    /// The columns, in the order of the fields.
    pub columns: Vec<Column>,
    /// Those, by index, whose types were guessed from a sample, and what they were guessed to hold: a value that such a
    /// type would change is a bad record.
    #[serde(default)]
    pub guessed: Vec<(usize, Guessed)>,
    /// What is left to load, where that is known beforehand.
    pub slices: Vec<Slice>,
    /// What is cut into slices while it is read.
    #[serde(default)]
    pub feeding: Feeding,
    /// How many streams.
    pub streams: usize,
    /// The processors that the streams' threads are pinned to, in turn; none: the kernel places them.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// The most records that a transaction stores of a slice; the rest of it becomes a slice of its own.
    #[serde(default)]
    pub commit_records: Option<u64>,
    /// The number of the first of these slices.
    #[serde(default)]
    pub first_part_n: u32,
    /// Bytes that are parsed at a time.
    pub window_bytes: usize,
    /// The longest record, in bytes.
    pub max_record_bytes: usize,
    /// Whether to keep the digest of what was read.
    pub digest: bool,
    /// What to do with records that cannot be stored; without it the first one ends the job.
    #[serde(default)]
    pub rejects: Option<RejectPlan>,
    /// Records that are known to violate constraints of the target.
    #[serde(default)]
    pub violations: Violations,
    /// How the sources are read where they are columnar; `dialect` and `header` then count for nothing.
    #[serde(default)]
    pub columnar: Option<ColumnarPlan>,
    /// Where the rows go.
    pub target: Target,
}

/// What to do with records that cannot be stored.
#[derive(Debug, Clone, Deserialize)]
pub struct RejectPlan {
    /// The most rejects of the whole job; one more ends it.
    pub max: Option<u64>,
    /// The largest share of all records, in percent. Whoever publishes checks it: this crate does so only where all
    /// rows are one transaction of its own.
    pub max_percent: Option<f64>,
    /// How many an earlier run of the job has already.
    pub before: u64,
    /// An existing directory of this run alone, for the rejects until somebody fetches them.
    pub spool: PathBuf,
    /// The job in the ledger; the first field of every row of the spool.
    pub job_id: JobId,
}

/// Records that violate constraints of the target, found before they are stored: an engine that ends its statement with
/// the first of them names none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Violations {
    /// The constraints.
    pub constraints: Vec<Constraint>,
    /// By source, in no order.
    pub sources: Vec<ViolationsOfSource>,
}

/// A constraint of the target, in the words of whoever violates it.
#[derive(Debug, Clone, Deserialize)]
pub struct Constraint {
    /// What is to be said of the record.
    pub reason: String,
    /// The columns that it is about, by index.
    pub columns: Vec<usize>,
    /// What is wrong with their values; without it they are not told.
    pub about_key: Option<String>,
    /// Whether it is the value of its one column that is at fault.
    #[serde(default)]
    pub about_value: bool,
    /// The server's code.
    pub sqlstate: String,
}

/// Records of one source.
#[derive(Debug, Clone, Deserialize)]
pub struct ViolationsOfSource {
    /// Its index.
    pub source: usize,
    /// Where they begin in its text, ascending; of a columnar source their rows, from 0.
    pub offsets: Vec<u64>,
    /// The index of the constraint that each of them violates.
    pub constraints: Vec<usize>,
}

/// Where the rows go.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Target {
    /// Arrow batches that an embedded engine pulls.
    Arrow {
        /// Whether batches come in the order of the sources.
        preserve_order: bool,
        /// Only these columns, by index, and behind them each record's place: the number of its source and its offset
        /// there (of a columnar source: its row). Nothing is stored yet: somebody looks for records to refuse.
        #[serde(default)]
        examined: Option<Vec<usize>>,
        /// Behind the place, also the number of the slice, that of the record in its piece (as in the ledger), and the
        /// record as it stands in the source: of what cannot be read again.
        #[serde(default)]
        with_records: bool,
        /// Which batches are whole row groups of the engine.
        #[serde(default)]
        row_groups: Option<WholeRowGroups>,
        /// Whether the batches just end where the job has failed: an engine that does not survive to be told so.
        #[serde(default)]
        ends_quietly: bool,
    },
    /// COPY into a PostgreSQL server.
    Postgres(Box<PostgresTarget>),
}

/// Batches that an engine stores as row groups: the first ones of a load, or all.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct WholeRowGroups {
    /// The rows of one; the last batch of all may have fewer.
    pub rows: usize,
    /// How many; None: all, of any number of rows.
    pub count: Option<usize>,
    /// Where one would take more, batches end there; where only some were to be whole, they stay as they come.
    pub most_bytes: usize,
}

/// How to reach a PostgreSQL server: libpq's parameters as libpq itself resolved them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Connection {
    /// Host name, or the directory of a Unix socket.
    pub host: String,
    /// The address to use in place of looking up `host`.
    pub hostaddr: Option<String>,
    /// TCP port, or the number in the socket's name.
    pub port: u16,
    /// Role.
    pub user: String,
    /// Password, if any.
    pub password: Option<String>,
    /// Database.
    pub dbname: String,
    /// `disable`, `prefer`, `require`, `verify-ca`, `verify-full`.
    pub sslmode: String,
    /// PEM file of trusted roots, or `system`.
    pub sslrootcert: Option<String>,
    /// PEM file of the client's certificate.
    pub sslcert: Option<String>,
    /// PEM file of the client's key.
    pub sslkey: Option<String>,
    /// `disable`, `prefer`, `require`.
    pub channel_binding: Option<String>,
    /// The `options` of the connection.
    pub options: Option<String>,
    /// Shown in `pg_stat_activity`; streams add their number.
    pub application_name: String,
    /// Seconds to wait for a connection.
    pub connect_timeout_seconds: u64,
    /// Seconds of silence after which the kernel gives a peer up.
    pub tcp_user_timeout_seconds: u64,
}

/// COPY into a PostgreSQL server.
#[derive(Debug, Clone, Deserialize)]
pub struct PostgresTarget {
    /// How to reach it.
    pub connection: Connection,
    /// Statements for every new session.
    pub session: Vec<String>,
    /// How rows become visible.
    pub strategy: Strategy,
    /// The table, quoted and qualified.
    pub table: String,
    /// Its columns, quoted, in the order of the fields.
    pub column_list: String,
    /// The partitions of the table that rows go into directly; what cannot be routed goes into the table itself.
    #[serde(default)]
    pub routing: Option<Routing>,
    /// Where a missing partition can be made, also for a key that the server finds.
    #[serde(default)]
    pub growing: Option<Growing>,
    /// The types of the table's columns, where others may change them while rows are stored.
    #[serde(default)]
    pub known_types: Option<KnownTypes>,
    /// A setting that gets the place of the slice in the order of the sources in each slice's transaction, where the table wants to know it.
    #[serde(default)]
    pub slice_setting: Option<String>,
    /// Keys that the table gets when all rows are stored, where records that repeat one are rejects.
    #[serde(default)]
    pub unique: Option<UniqueKeys>,
    /// Whether values go as COPY binary or as COPY text.
    pub write_path: WritePath,
    /// Whether the load can begin anew as COPY text where only the server can read a value of a batch.
    #[serde(default)]
    pub server_may_read: bool,
    /// The server's major version.
    pub server_version: u16,
    /// The job in the ledger, if one is kept.
    pub ledger: Option<LedgerKey>,
    /// Seconds for which a lost server is waited for.
    pub retry_seconds: u64,
    /// Seconds without any progress after which a peer is given up.
    pub stall_seconds: u64,
}

/// Partitions that are made as keys need them.
#[derive(Debug, Clone, Deserialize)]
pub struct Growing {
    /// The key of the table, not quoted.
    pub column: String,
    /// Keys for which none could be made.
    pub hopeless: BTreeSet<String>,
}

/// How rows find their partitions without the server.
#[derive(Debug, Clone, Deserialize)]
pub struct Routing {
    /// The partitions by their number, quoted and qualified.
    pub tables: Vec<String>,
    /// What each of them holds.
    pub route: RoutePlan,
    /// Whether a missing partition can be made: keys without one are then told together, and are no bad records.
    pub grows: bool,
    /// Keys, as the sources have them, for which none could be made: records with them are bad records all the same.
    #[serde(default)]
    pub hopeless: BTreeSet<String>,
    /// Rows that a stream keeps back before it stores them, in bytes.
    pub buffer_bytes: usize,
}

/// How values enter the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WritePath {
    /// COPY text.
    Text,
    /// COPY binary.
    Binary,
}

/// How rows become visible.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Strategy {
    /// Every slice is a transaction of its own, in as many sessions as there are streams.
    Slices {
        /// Whether one stream stores the slices in the order of the sources.
        #[serde(default)]
        keep_order: bool,
    },
    /// All slices are one transaction in one session; streams only parse.
    Single {
        /// Statements in the transaction before the first row.
        before: Vec<String>,
        /// Whether rows must arrive in the order of the sources.
        #[serde(default)]
        keep_order: bool,
        /// A query for the rows of this transaction, whose digest must be that of what was read.
        verify_query: Option<String>,
        /// Statements in the transaction after the last row.
        after: Vec<AfterStatement>,
    },
    /// Nothing is stored: the records of staged rows are found again, and are rejects.
    Refused {
        /// The slices that such rows came from.
        slices: Vec<RefusedSlice>,
    },
    /// Nothing is stored: a record that has one of these keys is found, and is the load's error.
    Sought(Sought),
    /// Nothing is stored: the records that repeat a key are found, and are rejects.
    Repeated(Repeated),
    /// All slices are one transaction in one session, which appends ready-made pages; streams build them.
    Direct {
        /// How pages are built.
        pages: DirectPlan,
        /// Statements in the transaction after the last page.
        after: Vec<AfterStatement>,
    },
}

/// A statement at the end of a transaction that is the whole job. `:slices`, `:rows` and `:digest` in it are replaced
/// by figures.
#[derive(Debug, Clone, Deserialize)]
pub struct AfterStatement {
    /// The statement.
    pub sql: String,
    /// It must change at least one row, or ownership was lost.
    pub proves_ownership: bool,
}

/// The job in the ledger.
#[derive(Debug, Clone, Deserialize)]
pub struct LedgerKey {
    /// The job's UUID.
    pub job_id: String,
    /// The owner's epoch.
    pub epoch: i64,
    /// The largest code point that its texts can hold, as the database's encoding is.
    pub highest_character: u32,
}

/// What a job did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LoadOutcome {
    /// Rows handed over: records read without the rejects.
    pub rows: u64,
    /// Records that could not be stored.
    pub rejects: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Digest of what was read, 32 hexadecimal digits, where it was asked for.
    pub digest: Option<String>,
    /// Digest of what the target holds, where the load itself verified it.
    pub target_digest: Option<String>,
    /// Rows the target holds, where the load itself verified it.
    pub target_rows: Option<u64>,
    /// Slices that had to be done again.
    pub retries: u64,
    /// Windows in which the server itself had to read a value.
    pub fallback_windows: u64,
    /// The first field that made it necessary.
    pub fallback_example: Option<String>,
    /// Rows and bytes by source.
    pub sources: Vec<SourceOutcome>,
    /// Number, rows and rejects of every slice.
    pub slices: Vec<(u32, u64, u64)>,
    /// The slices among them that were cut while their source was read.
    pub cut: Vec<Slice>,
    /// The slices among them that `commit_records` has ended early, where nobody has gone on with their rest.
    pub parts: Vec<Part>,
    /// How rows came into their partitions.
    pub routes: Routes,
    /// Ready-made pages that went over the network, and those among them that went packed.
    pub sent_pages: (u64, u64),
}

/// A slice that was stored up to a record only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What was stored, under the number of the whole.
    pub done: Slice,
    /// What was not, under a number of its own.
    pub rest: Slice,
}

/// How many rows came into their partitions in which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Routes {
    /// In windows that belong to one partition as a whole.
    pub straight_rows: u64,
    /// Record by record.
    pub routed_rows: u64,
    /// By the server.
    pub server_rows: u64,
}

/// What was read of one source.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SourceOutcome {
    /// Records read.
    pub rows: u64,
    /// Bytes of text read.
    pub bytes: u64,
    /// Bytes of the file read, where they are not the text.
    pub file_bytes: u64,
}
