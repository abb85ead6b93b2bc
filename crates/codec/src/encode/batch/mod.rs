//! Arrow record batches as what a target takes: the way of columnar sources.
//!
//! A batch first takes the Arrow types that the target's columns are handed over in ([`conform`]), column by column
//! and only where its own types differ; engines that take Arrow get that. For PostgreSQL it is then written row by row
//! as COPY binary ([`copy_binary`]) or on heap pages ([`heap_pages`]), or, where only the server can read a type, as COPY
//! text ([`copy_text`]).
//!
//! A pair of types without a direct conversion goes by its text: the value is written as [`text_form`] has it and read
//! as a field of a delimited file would be. So every pair has one meaning, and a new column type needs nothing here to
//! be loadable.

mod alike;
pub mod casting;
pub mod conform;
pub mod copy_binary;
pub mod copy_text;
pub mod csv_text;
mod direct;
pub mod heap_pages;
mod limits;
mod map_keys;
mod nanoseconds;
mod nested;
mod strings;
pub mod text_form;
mod unpack;
mod values;
pub mod zoneless;

use crate::value::Refusal;

/// Why a value of a batch cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// As the target itself would refuse it.
    Refused(Refusal),
    /// The target would store it, but not all of it.
    Lossy(Loss),
}

/// What would be lost of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Nanoseconds, where the target counts microseconds.
    Nanoseconds,
    /// A time of day, where the target stores days.
    TimeOfDay,
    /// A day, where the target stores times of day.
    Day,
    /// The fraction of a number, where the target stores whole ones.
    Fraction,
    /// Which number it is, where the target stores whether it is zero.
    Number,
    /// A field that the target's type does not have.
    Field,
}

impl From<Refusal> for Unfit {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Loss> for Unfit {
    fn from(loss: Loss) -> Self {
        Self::Lossy(loss)
    }
}

/// The first value of a batch that cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchProblem {
    /// Its row in the batch.
    pub row: usize,
    /// The index of its column.
    pub column: usize,
    /// Why.
    pub unfit: Unfit,
}

/// A column that no value can be loaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableType {
    /// The index of the column.
    pub column: usize,
    /// Why not.
    pub reason: String,
}
