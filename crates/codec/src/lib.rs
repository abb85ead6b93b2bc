//! Pure codec of Tipple: bytes in, bytes out. No I/O, no threads, no clock.
//!
//! A window of delimited text goes through [`scan`] (where are the fields), [`decode`] (what is their text),
//! [`value`] (what does the text mean) and one of [`encode`] (what does the target take).

pub mod column;
pub mod decode;
pub mod dialect;
pub mod digest;
pub mod encode;
pub mod notation;
pub mod problem;
pub mod route;
pub mod scan;
pub mod sniff;
pub mod split;
pub mod unique;
pub mod value;
