//! Encoders: the records of a window in the form that a target takes fastest.
//!
//! [`copy_binary`] and [`heap`] pages for PostgreSQL, [`copy_text`] for values that only PostgreSQL itself can read,
//! [`arrow`] for engines that take Arrow batches.

pub mod arrow;
mod arrow_column;
mod arrow_regular;
pub mod batch;
pub mod copy_binary;
mod copy_binary_rare;
pub mod copy_text;
pub mod heap;
mod hot;
mod strip;
mod text_check;
mod unchecked;

use crate::problem::Problem;

/// What became of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// Records encoded, from the first one on.
    pub rows: usize,
    /// The record after them, where it is what stopped the encoder.
    pub problem: Option<Problem>,
}
