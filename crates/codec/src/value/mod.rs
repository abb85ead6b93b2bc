//! What a field's text means: one file per type, each equal to PostgreSQL's own input function.
//!
//! Every parser takes the field's text after unquoting and has three outcomes: the value, a refusal that the
//! server would give too, or [`Refusal::Unsure`] where the text lies outside the grammar that the codec knows
//! for certain. An unsure field is never guessed at: the caller hands it to the server's own text input.

/// Why a field's text was not turned into a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No value of the type is written like this (SQLSTATE 22P02, dates 22007).
    InvalidSyntax,
    /// Well written, but outside the type's range (SQLSTATE 22003, dates 22008).
    OutOfRange,
    /// More than the `limit` characters that `varchar(limit)` or `char(limit)` holds (SQLSTATE 22001).
    TooLong {
        /// The declared length, in characters.
        limit: u32,
    },
    /// NULL in a column declared NOT NULL (SQLSTATE 23502).
    NullNotAllowed,
    /// Bytes that are not text in the source's encoding (SQLSTATE 22021).
    InvalidEncoding,
    /// Outside the grammar that the codec knows for certain: only the server can say.
    Unsure,
}

/// The major version whose input grammar rules, for the few texts that PostgreSQL versions read differently
/// (16 added `0x1f`, `0o17`, `0b1` and `1_000` to integers and numerics).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion(pub u16);

impl ServerVersion {
    /// The newest grammar; what engines other than PostgreSQL follow.
    pub const NEWEST: Self = Self(18);
}
