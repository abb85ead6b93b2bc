//! The only crate of Tipple with threads, files and sockets.
pub mod generate;
pub mod counters;
pub mod error;
mod job;
pub mod load;
pub mod plan;
pub mod postgres;
pub mod source;
pub mod verify;
