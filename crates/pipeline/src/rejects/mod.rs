//! Rejects on their way out: the rows that loads spool, and the files that their user gets.

pub mod batches;
pub mod files;
pub mod row;
pub mod spool;

/// A record that could not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// The index of its source.
    pub source: usize,
    /// Its number in the source, from 1, the header not counted.
    pub record_number: u64,
    /// Where it begins in the text of its source; the row, from 0, of a columnar one.
    pub offset: u64,
    /// The column to blame, where there is one.
    pub column: Option<String>,
    /// Why it was refused.
    pub reason: String,
    /// Empty where no server would refuse it.
    pub sqlstate: String,
    /// The record as the source has it, its end included; of a columnar source as CSV.
    pub record: Vec<u8>,
}
