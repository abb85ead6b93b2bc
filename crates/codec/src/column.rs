//! The columns a record is stored in, as the codec needs to know them.

use serde::{Deserialize, Serialize};

/// The type of a target column. Names and modifiers are PostgreSQL's; other engines map their own types to these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric(precision, scale)`
    Numeric {
        /// Decimal digits in all.
        precision: u16,
        /// Decimal digits after the point; PostgreSQL 15 and later allow -1000 to 1000.
        scale: i16,
    },
    /// `numeric` without precision: any size, every digit kept.
    Decimal,
    /// `text`, or `varchar` without a length.
    Text,
    /// `varchar(n)`
    Varchar {
        /// The most characters a value may have.
        limit: u32,
    },
    /// `char(n)`: padded with spaces to its length.
    Char {
        /// The characters of every value.
        limit: u32,
    },
    /// `date`
    Date,
    /// `timestamp without time zone`
    Timestamp {
        /// Digits kept after the second's point, 0 to 6.
        precision: u8,
    },
    /// A type that only the target itself can read: the field's text is handed over as it is.
    Opaque,
}

/// A target column, in the order of the source's fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The name as the target spells it, without quoting.
    pub name: String,
    /// What it stores.
    #[serde(rename = "type")]
    pub kind: ColumnType,
    /// Whether it refuses NULL.
    pub not_null: bool,
}
