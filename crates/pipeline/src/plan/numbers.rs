//! How ledgers number and order slices: Python reads both there too.

/// From here on numbers are those of slices that `commit_records` has made of the rest of others.
pub const FIRST_PART_N: u32 = 1 << 30;

/// Room for an offset behind the source in the number that puts slices in the order of the sources: 16 TiB of text, and
/// half a million sources in 63 bits.
pub const OFFSET_BITS: u32 = 44;
