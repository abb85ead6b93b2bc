//! The columns a record is stored in, as the codec needs to know them.

use crate::value::TypeFamily;
use serde::{Deserialize, Serialize};

/// The type of a target column. Names and modifiers are PostgreSQL's; other engines map their own types to these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// `timestamp with time zone`
    TimestampTz {
        /// Digits kept after the second's point, 0 to 6.
        precision: u8,
        /// Whether the session's time zone is UTC, so that a text without a zone has a certain meaning.
        utc: bool,
    },
    /// `time without time zone`
    Time {
        /// Digits kept after the second's point, 0 to 6.
        precision: u8,
    },
    /// `time with time zone`
    TimeTz {
        /// Digits kept after the second's point, 0 to 6.
        precision: u8,
    },
    /// `interval` with all its fields
    Interval {
        /// Digits kept after the second's point, 0 to 6.
        precision: u8,
    },
    /// `uuid`
    Uuid,
    /// `bytea`
    Bytea,
    /// `json`: kept as it is written.
    Json,
    /// `jsonb`: kept in a form of the server's own.
    Jsonb,
    /// `inet`
    Inet,
    /// `cidr`
    Cidr,
    /// An enumerated type.
    Enum {
        /// Its labels, sorted by their bytes.
        labels: Vec<String>,
    },
    /// An integer of a width that PostgreSQL does not have, written as its integers are.
    Integer {
        /// 8, 16, 32, 64 or 128.
        bits: u8,
        /// Whether it has negative values.
        signed: bool,
    },
    /// Arrays of any number of dimensions, in PostgreSQL's notation: `{1,NULL,3}`.
    Array(Box<ArrayType>),
    /// A type that only the target itself can read: the field's text is handed over as it is.
    Opaque,
}

/// What an array is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayType {
    /// The type of its elements, which is no array itself.
    pub element: ColumnType,
    /// The element type's OID, which the binary form carries; 0 for engines that have none.
    #[serde(default)]
    pub element_oid: u32,
    /// How many dimensions every value has, where the type says so (DuckDB's `INTEGER[][]` has 2).
    #[serde(default)]
    pub dimensions: Option<u8>,
}

impl ColumnType {
    /// Whether a target hands a value back in the form in which it was sent, so that digests of both agree. (DuckDB has
    /// no Arrow type for all integers of 128 bits: they go there as text and come back as decimals.)
    #[must_use]
    pub fn is_digestible(&self) -> bool {
        match self {
            Self::Opaque | Self::Jsonb | Self::Integer { bits: 128, .. } => false,
            Self::Array(array) => array.element.is_digestible(),
            _ => true,
        }
    }

    /// Which SQLSTATE codes the type's refusals carry.
    #[must_use]
    pub fn family(&self) -> TypeFamily {
        match self {
            Self::Date
            | Self::Timestamp { .. }
            | Self::TimestampTz { .. }
            | Self::Time { .. }
            | Self::TimeTz { .. }
            | Self::Interval { .. } => TypeFamily::DateTime,
            Self::Array(array) => array.element.family(),
            _ => TypeFamily::Plain,
        }
    }
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
