//! What a source that is read as a stream is cut into.

use crate::plan::Piece;
use std::ops::Range;

/// Whole records of one source in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPiece {
    /// Where they stand in their source's text.
    pub piece: Piece,
    /// The number of the first one, from 1, the header not counted.
    pub first_record: u64,
    /// Where they begin in the block.
    pub begin: usize,
    /// Where they end in the block; the last record of a source may have been given its record end.
    pub end: usize,
    /// Where in the block a last record begins that is longer than the limit: the block has its beginning only.
    pub overlong: Option<usize>,
}

/// Whole records of one or several sources.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BlockText {
    /// Their text.
    pub text: Vec<u8>,
    /// Where it comes from.
    pub pieces: Vec<BlockPiece>,
    /// Where in it lines begin and end that are no records, since a quote is missing or too many in them.
    pub unclosed: Vec<Range<usize>>,
    /// Whether it was judged which lines those are; else they are to be found.
    pub is_judged: bool,
    /// Bytes of the files that were read for it.
    pub file_bytes: u64,
}
