//! `tipple generate tpch`: the TPC-H tables as files, byte for byte as dbgen writes them, on all cores.
//!
//! Why it exists: a loader needs something real to load, whose right answer is known. The rows come from the
//! `tpchgen` crates; this module adds what they leave open: exact parts (`dbgen -C n -S i`), fast text, order,
//! bounded memory, progress, and files that appear whole or not at all.
//!
//! ```text
//! Plan ──► FilePlan (one per file) ──► Chunk (a range of keys) ──► text or row group ──► file, in order
//! plan.rs                                                          rows.rs, parquet.rs   run.rs, output.rs
//! ```
//!
//! A [`Job`] runs on threads of its own: one that supervises and publishes, and `jobs` that generate and write.

mod error;
mod output;
mod parquet;
mod plan;
mod progress;
mod rows;
mod run;
mod table;
#[cfg(test)]
mod tests;

pub use error::{ErrorKind, GenerateError};
pub use plan::{Compression, Format, Plan};
pub use progress::{FileReport, Progress, Report};
pub use run::Job;
pub use table::Table;
