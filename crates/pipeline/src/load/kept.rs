//! Rows that wait for their partition's turn.
//!
//! They lie in blocks that a stream uses again and again. Memory taken anew for each COPY would have to be cleared by the
//! kernel each time, and a vector that grows has up to twice what it holds.

use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

const LARGEST_BLOCK: usize = 64 * 1024;
const SMALLEST_BLOCK: usize = 4 * 1024;

/// The blocks of a stream.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
    block_bytes: usize,
}

impl Blocks {
    /// For rows of so many `tables`, together `limit_bytes`: small enough for half-full blocks not to count.
    pub(super) fn new(limit_bytes: usize, tables: usize) -> Self {
        let block_bytes = (limit_bytes / (8 * tables.max(1))).clamp(SMALLEST_BLOCK, LARGEST_BLOCK);
        Self { free: Arc::default(), block_bytes }
    }

    /// An empty block with room for `bytes` at least.
    fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes > self.block_bytes {
            return Vec::with_capacity(bytes);
        }
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| Vec::with_capacity(self.block_bytes))
    }

    /// The block's bytes for whoever sends them; the block comes back when they are dropped.
    fn lend(&self, block: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent { block, home: self.clone() })
    }
}

/// A block on its way.
struct Lent {
    block: Vec<u8>,
    home: Blocks,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.block
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        // A record that needed more than a block has a block of its own.
        if block.capacity() == self.home.block_bytes {
            block.clear();
            self.home.free.lock().unwrap_or_else(PoisonError::into_inner).push(block);
        }
    }
}

/// Rows of one partition, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Whole rows, and how many.
    blocks: Vec<(Vec<u8>, u64)>,
    bytes: usize,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// What the rows take, without what is free in their blocks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps one row.
    #[inline]
    pub(super) fn push(&mut self, row: &[u8], blocks: &Blocks) {
        self.bytes += row.len();
        if let Some((block, rows)) = self.blocks.last_mut()
            && block.len() + row.len() <= block.capacity()
        {
            block.extend_from_slice(row);
            *rows += 1;
            return;
        }
        let mut block = blocks.take(row.len());
        block.extend_from_slice(row);
        self.blocks.push((block, 1));
    }

    /// All rows, block by block with their number; none are kept afterwards.
    pub(super) fn drain(&mut self, blocks: &Blocks) -> impl Iterator<Item = (Bytes, u64)> + use<> {
        self.bytes = 0;
        let blocks = blocks.clone();
        std::mem::take(&mut self.blocks).into_iter().map(move |(block, rows)| (blocks.lend(block), rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_whole_and_in_order_and_blocks_are_used_again() {
        let blocks = Blocks::new(1 << 20, 16);
        let mut kept = Kept::default();
        for round in 0..3_u8 {
            let rows: Vec<Vec<u8>> = (0..2_000).map(|row| vec![round ^ row as u8; row % 97]).collect();
            let large = vec![round; 100_000];
            for row in rows.iter().chain([&large]).chain(&rows) {
                kept.push(row, &blocks);
            }
            let expected: Vec<u8> = rows.iter().chain([&large]).chain(&rows).flatten().copied().collect();
            assert_eq!(kept.bytes(), expected.len());
            let mut found = Vec::new();
            let mut count = 0;
            for (bytes, rows) in kept.drain(&blocks) {
                assert!(rows > 0);
                count += rows;
                found.extend_from_slice(&bytes);
            }
            assert_eq!((found, count), (expected, 4_001));
            assert!(kept.is_empty() && kept.bytes() == 0);
        }
        // Each was dropped before the next one was lent, but those that were full at the same time are all there.
        let free = blocks.free.lock().unwrap().len();
        let needed = 2 * 2_000 * 48 / blocks.block_bytes + 4;
        assert!(free <= needed, "{free} blocks, but {needed} hold everything");
        assert!(blocks.free.lock().unwrap().iter().all(|block| block.capacity() == blocks.block_bytes));
    }
}
