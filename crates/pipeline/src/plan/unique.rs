//! Keys of the target that are built when all rows are stored: which records violate one is found beforehand.

use super::Constraint;
use serde::Deserialize;
use std::path::PathBuf;
use tipple_codec::route::KeyColumn;

/// The keys, and where streams keep what they have seen of them.
#[derive(Debug, Clone, Deserialize)]
pub struct UniqueKeys {
    /// In the order in which the target judges by them: foreign ones come last.
    pub keys: Vec<UniqueKey>,
    /// An existing directory of this load alone.
    pub spool: PathBuf,
}

impl UniqueKeys {
    /// Those of which two records must not have the same value.
    pub fn unique(&self) -> &[UniqueKey] {
        &self.keys[..self.keys.partition_point(|key| !key.is_foreign)]
    }
}

/// One of them.
#[derive(Debug, Clone, Deserialize)]
pub struct UniqueKey {
    /// Its columns, and how their values compare.
    pub columns: Vec<KeyColumn>,
    /// What is to be said of a record that violates it.
    pub constraint: Constraint,
    /// Whether it refers to rows of another table: records may repeat it.
    pub is_foreign: bool,
}

/// What there is to know of the slices that are stored.
#[derive(Debug, Clone, Deserialize)]
pub struct Repeated {
    /// Whether what streams have kept of the keys is not all, or told twice: the sources are then read for the keys alone.
    pub afresh: bool,
    /// Of each slice the source and offset where it begins, and its number in the ledger.
    pub slices: Vec<(usize, u64, u32)>,
    /// Source and offset of the rejects so far.
    pub rejected: Vec<(usize, u64)>,
}
