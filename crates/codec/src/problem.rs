//! What is wrong with a record, and where in its window.

use crate::scan::{IrregularRecord, Irregularity, Records};
use crate::value::Refusal;

/// Why a record cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// Too few or too many fields, or a foreign record end.
    Structure(Irregularity),
    /// A field that is no value of its column's type.
    Value {
        /// The column's index.
        column: usize,
        /// Why.
        refusal: Refusal,
    },
}

/// The first record of a window that cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// Its index among the window's records.
    pub row: usize,
    /// Where it begins in the window, in bytes.
    pub start: usize,
    /// Where it ends, past its record end.
    pub end: usize,
    /// What is wrong.
    pub kind: ProblemKind,
}

impl Problem {
    /// The problem of field `column` of record `row`.
    #[must_use]
    pub fn value(records: &Records<'_>, row: usize, column: usize, refusal: Refusal) -> Self {
        let kind = ProblemKind::Value { column, refusal };
        Self { row, start: records.start(row), end: records.start(row + 1), kind }
    }

    /// The problem of the record after the regular ones, if there is one.
    #[must_use]
    pub fn structure(records: &Records<'_>) -> Option<Self> {
        let IrregularRecord { start, end, what, .. } = records.irregular?;
        Some(Self { row: records.rows(), start, end, kind: ProblemKind::Structure(what) })
    }

    /// Whether only the target can say if the record is good.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        matches!(self.kind, ProblemKind::Value { refusal: Refusal::Unsure, .. })
    }
}
