//! The work still to be done: slices of files, mostly largest first, so that no stream is left with a large one at the
//! end, and blocks of what is read as a stream, as they come.

use super::Context;
use super::feed::{Block, Blocks};
use crate::counters::StreamState;
use crate::error::Result;
use crate::job::lock;
use crate::plan::{OFFSET_BITS, Piece, Slice};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::Scope;

/// What a stream does at a time, and what is stored and retried as one.
#[derive(Debug)]
pub(super) enum Work<'p> {
    /// Byte ranges of files: a slice of the plan, or the rest of one.
    Slice(Cow<'p, Slice>),
    /// Text in memory.
    Block(Block),
}

impl Work<'_> {
    /// Its number in the job.
    pub(super) fn n(&self) -> u32 {
        match self {
            Self::Slice(slice) => slice.n,
            Self::Block(block) => block.n(),
        }
    }

    /// A number that puts all work in the order of the sources, in whichever order it is numbered and done.
    pub(super) fn order(&self) -> u64 {
        let first = match self {
            Self::Slice(slice) => slice.pieces.first().copied(),
            Self::Block(block) => block.pieces().first().map(|piece| piece.piece),
        };
        first.map_or(0, |piece| ((piece.source as u64) << OFFSET_BITS) + piece.offset)
    }

    /// What it holds.
    pub(super) fn pieces(&self) -> Vec<Piece> {
        match self {
            Self::Slice(slice) => slice.pieces.clone(),
            Self::Block(block) => block.pieces().iter().map(|piece| piece.piece).collect(),
        }
    }

    /// Bytes of the files that it takes.
    pub(super) fn file_bytes(&self) -> u64 {
        match self {
            Self::Slice(slice) => slice.bytes(),
            Self::Block(block) => block.file_bytes(),
        }
    }

    /// The text in memory, if there is one.
    pub(super) fn block(&self) -> Option<&Block> {
        match self {
            Self::Slice(_) => None,
            Self::Block(block) => Some(block),
        }
    }
}

/// Which slices come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The largest.
    Largest,
    /// Those of about the largest size; streams that take them by turns are in places far apart, and so most likely
    /// fill different tables.
    Apart,
    /// As the sources have them.
    Sources,
}

impl Order {
    /// The order in which rows are to be stored, if there is one; else what suits so many tables.
    pub(super) fn of_tables(keep_order: bool, tables: usize) -> Self {
        match (keep_order, tables) {
            (true, _) => Self::Sources,
            (false, 0 | 1) => Self::Largest,
            (false, _) => Self::Apart,
        }
    }
}

/// Where a slice begins, by which slices have the order of the sources.
fn place(slice: &Slice) -> Option<(usize, u64)> {
    slice.pieces.first().map(|piece| (piece.source, piece.offset))
}

/// Slices in the order [`Order::Apart`] for so many streams.
fn apart(mut slices: Vec<&Slice>, streams: usize) -> Vec<&Slice> {
    let largest = slices.iter().map(|slice| slice.bytes()).max().unwrap_or(0);
    // Of one class are those of more than half the largest one's size, then those of more than a quarter, and so on.
    let class = |slice: &Slice| (largest / slice.bytes().max(1)).max(1).ilog2();
    slices.sort_by_key(|slice| (class(slice), place(slice)));
    let mut ordered = Vec::with_capacity(slices.len());
    for alike in slices.chunk_by(|one, other| class(one) == class(other)) {
        let stride = alike.len().div_ceil(streams.max(1));
        for first in 0..stride {
            ordered.extend(alike.iter().skip(first).step_by(stride));
        }
    }
    ordered
}

/// A queue that all streams take from.
#[derive(Debug)]
pub(super) struct WorkQueue<'p> {
    slices: Mutex<VecDeque<&'p Slice>>,
    blocks: Arc<Blocks>,
    keep_order: bool,
    /// With `keep_order`: a block whose turn has not come.
    waiting: Mutex<Option<Block>>,
}

impl<'p> WorkQueue<'p> {
    /// All work, in this order.
    pub(super) fn new(context: &Context<'p>, order: Order) -> Self {
        let keep_order = order == Order::Sources;
        let mut queue: Vec<&Slice> = context.plan.slices.iter().collect();
        match order {
            // What a slice has left over is numbered behind all others.
            Order::Sources => queue.sort_by_key(|slice| place(slice)),
            Order::Largest => queue.sort_by_key(|slice| Reverse(slice.bytes())),
            Order::Apart => queue = apart(queue, context.plan.streams),
        }
        let blocks = Arc::new(Blocks::new(context.plan, keep_order));
        Self { slices: Mutex::new(queue.into()), blocks, keep_order, waiting: Mutex::new(None) }
    }

    /// Starts the threads that read what is read as streams.
    pub(super) fn start_feeders<'scope>(&self, scope: &'scope Scope<'scope, '_>, context: &'scope Context<'p>)
    where
        'p: 'scope,
    {
        self.blocks.start_feeders(scope, context);
    }

    /// Runs `stream` on a thread for each of the job's streams, beside the feeders; returns when all have ended. What
    /// fails is the job's failure.
    pub(super) fn share_out(&self, context: &Context<'p>, stream: impl Fn(usize) -> Result<()> + Sync) {
        std::thread::scope(|scope| {
            self.start_feeders(scope, context);
            for index in 0..context.plan.streams {
                let stream = &stream;
                scope.spawn(move || {
                    if let Err(error) = context.pin(index).and_then(|()| stream(index)) {
                        context.fail(error);
                    }
                    context.counters.streams[index].enter(StreamState::Done);
                });
            }
        });
    }

    /// What to do next, or `None` when all is taken.
    pub(super) fn take(&self, context: &Context<'_>) -> Result<Option<Work<'p>>> {
        if self.keep_order {
            return self.take_in_order(context);
        }
        // What is in memory comes first: its reader may be waiting for room.
        if let Some(block) = self.blocks.take_ready() {
            return Ok(Some(Work::Block(block)));
        }
        if let Some(slice) = lock(&self.slices).pop_front() {
            return Ok(Some(Work::Slice(Cow::Borrowed(slice))));
        }
        Ok(self.blocks.take(context)?.map(Work::Block))
    }

    fn take_in_order(&self, context: &Context<'_>) -> Result<Option<Work<'p>>> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_none() {
            *waiting = self.blocks.take(context)?;
        }
        let mut slices = lock(&self.slices);
        let of_block = waiting.as_ref().and_then(|block| block.pieces().first()).map(|piece| piece.piece.source);
        let of_slice = slices.front().and_then(|slice| slice.pieces.first()).map(|piece| piece.source);
        if of_block.is_some_and(|block| of_slice.is_none_or(|slice| block < slice)) {
            return Ok(waiting.take().map(Work::Block));
        }
        Ok(slices.pop_front().map(|slice| Work::Slice(Cow::Borrowed(slice))))
    }
}

#[cfg(test)]
mod tests {
    use super::apart;
    use crate::plan::{Piece, Slice};

    fn slice(n: u32, source: usize, offset: u64, length: u64) -> Slice {
        Slice { n, pieces: vec![Piece { source, offset, length }] }
    }

    fn numbers(slices: &[Slice], streams: usize) -> Vec<u32> {
        apart(slices.iter().collect(), streams).iter().map(|slice| slice.n).collect()
    }

    #[test]
    fn streams_are_far_apart_in_one_file() {
        let slices: Vec<Slice> = (0..7).map(|n| slice(n, 0, u64::from(n) * 100, 100 - u64::from(n % 3))).collect();
        assert_eq!(numbers(&slices, 2), [0, 4, 1, 5, 2, 6, 3]);
        assert_eq!(numbers(&slices, 3), [0, 3, 6, 1, 4, 2, 5]);
        assert_eq!(numbers(&slices, 1), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(&slices, 100), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn large_ones_come_first_and_none_is_lost() {
        let slices: Vec<Slice> =
            [(0, 10), (1, 400), (2, 0), (3, 300), (4, 90)].map(|(n, length)| slice(n, n as usize, 0, length)).into();
        assert_eq!(numbers(&slices, 2), [1, 3, 4, 0, 2]);
        assert!(numbers(&[], 2).is_empty());
        assert_eq!(numbers(&[slice(0, 0, 0, 0), slice(1, 1, 0, 0)], 2), [0, 1]);
    }
}
