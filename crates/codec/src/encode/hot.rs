//! The types that encoders meet field by field, told apart by one byte.
//!
//! To find out which [`ColumnType`] it has takes a dozen instructions, because some of them own memory and the compiler
//! packs what tells them apart into its pointers. That is more than many a field costs otherwise.

use crate::column::ColumnType;
use crate::value::numeric::Typmod;

/// A type that the encoders' loops know by themselves, or that there is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HotType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric(Typmod),
    Text,
    Varchar(u32),
    Char(u32),
    Date,
    Timestamp(u8),
    /// Its precision, and whether the session's time zone is UTC.
    TimestampTz(u8, bool),
    Uuid,
    /// Any other: its [`ColumnType`] tells.
    Rare,
}

impl HotType {
    #[inline(always)]
    pub(super) fn of(kind: &ColumnType) -> Self {
        match *kind {
            ColumnType::Bool => Self::Bool,
            ColumnType::Int2 => Self::Int2,
            ColumnType::Int4 => Self::Int4,
            ColumnType::Int8 => Self::Int8,
            ColumnType::Float4 => Self::Float4,
            ColumnType::Float8 => Self::Float8,
            ColumnType::Numeric { precision, scale } => Self::Numeric(Typmod { precision, scale }),
            ColumnType::Text => Self::Text,
            ColumnType::Varchar { limit } => Self::Varchar(limit),
            ColumnType::Char { limit } => Self::Char(limit),
            ColumnType::Date => Self::Date,
            ColumnType::Timestamp { precision } => Self::Timestamp(precision),
            ColumnType::TimestampTz { precision, utc } => Self::TimestampTz(precision, utc),
            ColumnType::Uuid => Self::Uuid,
            _ => Self::Rare,
        }
    }
}
