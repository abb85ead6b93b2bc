//! Pure codec of Tipple: bytes in, bytes out.
pub mod value;
