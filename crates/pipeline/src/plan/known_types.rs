//! The types that values are encoded for, and what tells that a column has another one by now.

use serde::Deserialize;

/// For a table whose columns others may change between two transactions: bytes of the old type may be a value of the
/// new one, and another value.
#[derive(Debug, Clone, Deserialize)]
pub struct KnownTypes {
    /// A statement after which nobody changes them any more in a transaction; `None` where there is none, or where the
    /// transaction has run it.
    pub lock: Option<String>,
    /// A query for the names of columns that have other types than values are encoded for.
    pub changed: String,
}
