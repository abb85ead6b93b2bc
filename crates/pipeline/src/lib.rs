//! The only crate of Tipple with threads, files and sockets.
pub mod counters;
pub mod error;
pub mod generate;
mod job;
pub mod load;
mod panics;
pub mod plan;
pub mod postgres;
pub mod rejects;
pub mod source;
pub mod verify;
