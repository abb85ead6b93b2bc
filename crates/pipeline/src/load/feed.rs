//! Feeders: threads that read what can only be read from beginning to end, and cut it into blocks for the streams.
//!
//! Memory stays bounded because all text in blocks, queued or being stored, counts against one budget.

use super::Context;
use crate::error::{Error, Result};
use crate::job::lock;
use crate::plan::{FIRST_PART_N, LoadPlan};
use crate::source::block_text::{BlockPiece, BlockText};
use crate::source::blocks::{BlockCutter, Cutting};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

/// How often a wait looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

/// Blocks per stream that may be in memory, besides those that are being read.
const BLOCKS_PER_STREAM: usize = 2;

/// Whole records in memory, one unit of work; it stays until it is stored.
#[derive(Debug)]
pub(super) struct Block {
    n: u32,
    block: BlockText,
    home: Arc<Blocks>,
}

impl Block {
    pub(super) fn n(&self) -> u32 {
        self.n
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.block.text
    }

    pub(super) fn whole(&self) -> &BlockText {
        &self.block
    }

    pub(super) fn pieces(&self) -> &[BlockPiece] {
        &self.block.pieces
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.block.file_bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.block.text));
    }
}

/// The blocks of a load.
#[derive(Debug)]
pub(super) struct Blocks {
    shared: Mutex<Shared>,
    changed: Condvar,
    /// Feeds not begun yet.
    feeds: Mutex<VecDeque<usize>>,
    next_n: AtomicU32,
    budget_bytes: usize,
    block_bytes: usize,
    feeders: usize,
}

#[derive(Debug, Default)]
struct Shared {
    ready: VecDeque<Block>,
    /// Text of all blocks that were handed over and not dropped yet.
    held_bytes: usize,
    /// Feeders that may hand over more.
    feeders: usize,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
}

impl Blocks {
    pub(super) fn new(plan: &LoadPlan, keep_order: bool) -> Self {
        let feeding = &plan.feeding;
        let mut feeds: Vec<usize> = (0..feeding.feeds.len()).collect();
        let size = |feed: usize| feeding.feeds[feed].iter().map(|&source| plan.sources[source].size).sum::<u64>();
        if !keep_order {
            feeds.sort_by_key(|&feed| std::cmp::Reverse(size(feed)));
        }
        let feeders = if keep_order { 1 } else { plan.streams.max(1) }.min(feeds.len());
        Self {
            shared: Mutex::new(Shared { feeders, ..Shared::default() }),
            changed: Condvar::new(),
            feeds: Mutex::new(feeds.into()),
            next_n: AtomicU32::new(feeding.first_n),
            budget_bytes: BLOCKS_PER_STREAM * plan.streams.max(1) * feeding.block_bytes,
            block_bytes: feeding.block_bytes,
            feeders,
        }
    }

    /// Starts the feeders.
    pub(super) fn start_feeders<'scope, 'p: 'scope>(
        self: &Arc<Self>,
        scope: &'scope Scope<'scope, '_>,
        context: &'scope Context<'p>,
    ) {
        for _ in 0..self.feeders {
            let blocks = self.clone();
            scope.spawn(move || {
                let _ended = Ended(&blocks);
                if let Err(error) = blocks.feed_all(context) {
                    context.fail(error);
                }
            });
        }
    }

    /// A block that is there.
    pub(super) fn take_ready(&self) -> Option<Block> {
        lock(&self.shared).ready.pop_front()
    }

    /// The next block; waits for it. `None` when no more will come.
    pub(super) fn take(&self, context: &Context<'_>) -> Result<Option<Block>> {
        let mut shared = lock(&self.shared);
        loop {
            if let Some(block) = shared.ready.pop_front() {
                return Ok(Some(block));
            }
            if shared.feeders == 0 {
                return Ok(None);
            }
            context.check_cancelled()?;
            shared = self.changed.wait_timeout(shared, CANCEL_CHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn feed_all(self: &Arc<Self>, context: &Context<'_>) -> Result<()> {
        let done: HashSet<(usize, u64)> = context.plan.feeding.done.iter().copied().collect();
        loop {
            // In two steps: the lock must not be held while a feed is read.
            let next = lock(&self.feeds).pop_front();
            let Some(feed) = next else { return Ok(()) };
            self.feed(context, &context.plan.feeding.feeds[feed], &done)?;
        }
    }

    fn feed(self: &Arc<Self>, context: &Context<'_>, feed: &[usize], done: &HashSet<(usize, u64)>) -> Result<()> {
        let mut cutter = BlockCutter::new(cutting(context.plan), feed, Some(context.counters.clone()));
        loop {
            context.check_cancelled()?;
            let spare = lock(&self.shared).spare.pop().unwrap_or_default();
            let Some(block) = cutter.next(spare)? else { return Ok(()) };
            context.note_file_bytes(feed[0], block.file_bytes);
            let Some(first) = block.pieces.first() else { continue };
            if done.contains(&(first.piece.source, first.piece.offset)) {
                context.counters.skip(block.file_bytes);
                continue;
            }
            self.put(context, block)?;
        }
    }

    /// Hands a block over; waits for room.
    fn put(self: &Arc<Self>, context: &Context<'_>, block: BlockText) -> Result<()> {
        let n = self.next_n.fetch_add(1, Ordering::Relaxed);
        if n >= FIRST_PART_N {
            return Err(Error::Invalid { message: "the sources have too many slices".into() });
        }
        let bytes = block.text.len();
        let mut shared = lock(&self.shared);
        while shared.held_bytes > 0 && shared.held_bytes + bytes > self.budget_bytes {
            if context.counters.is_cancelled() {
                return Err(Error::Cancelled);
            }
            shared = self.changed.wait_timeout(shared, CANCEL_CHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
        shared.held_bytes += bytes;
        shared.ready.push_back(Block { n, block, home: self.clone() });
        drop(shared);
        context.counters.slice_found();
        self.changed.notify_all();
        Ok(())
    }

    fn give_back(&self, text: Vec<u8>) {
        let mut shared = lock(&self.shared);
        shared.held_bytes -= text.len();
        // A buffer that a long record has made large is not worth keeping.
        if text.capacity() <= 2 * self.block_bytes && shared.spare.len() <= self.feeders {
            shared.spare.push(text);
        }
        drop(shared);
        self.changed.notify_all();
    }
}

/// How the sources of `plan` are cut.
pub(super) fn cutting(plan: &LoadPlan) -> Cutting<'_> {
    Cutting {
        sources: &plan.sources,
        dialect: &plan.dialect,
        columns: plan.columns.len(),
        header: plan.header,
        block_bytes: plan.feeding.block_bytes,
        block_records: plan.feeding.block_records,
        chunk_bytes: plan.feeding.chunk_bytes,
        max_record_bytes: plan.max_record_bytes,
        skips: plan.rejects.is_some(),
        resyncs: plan.feeding.resyncs,
    }
}

/// Says that a feeder has ended, in whatever way.
struct Ended<'b>(&'b Blocks);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(&self.0.shared).feeders -= 1;
        self.0.changed.notify_all();
    }
}
