//! What is looked for in sources that were read already.

use serde::Deserialize;

/// A slice whose rows are staged, and which of them the table has refused.
#[derive(Debug, Clone, Deserialize)]
pub struct RefusedSlice {
    /// Its number in the ledger.
    pub n: u32,
    /// The source of its first piece.
    pub source: usize,
    /// Where in it that piece begins.
    pub offset: u64,
    /// How many of its rows are staged.
    pub rows: u64,
    /// Source and offset of its rejects: records that are none of these rows.
    pub rejected: Vec<(usize, u64)>,
    /// The rows that were refused, in rising order.
    pub refused: Vec<RefusedRow>,
}

/// A staged row that the table has refused.
#[derive(Debug, Clone, Deserialize)]
pub struct RefusedRow {
    /// Its number among the staged rows of the slice, from 0.
    pub index: u64,
    /// What the table has to say of it.
    pub reason: String,
    /// The code for that.
    pub sqlstate: String,
}

/// Keys whose record is wanted.
#[derive(Debug, Clone, Deserialize)]
pub struct Sought {
    /// Whether the second record with such a key is to blame, if there is one.
    pub repeated: bool,
    /// What is to be said of it.
    pub reason: String,
    /// The code for that.
    pub sqlstate: String,
    /// The columns of a key.
    pub columns: Vec<SoughtColumn>,
    /// The values of each key, as COPY binary has them.
    pub values: Vec<Vec<Vec<u8>>>,
}

/// A column of such a key.
#[derive(Debug, Clone, Deserialize)]
pub struct SoughtColumn {
    /// Its index among those of the plan.
    pub index: usize,
    /// Whether the server fills its values up with spaces.
    pub padded: bool,
}
