//! The work still to be done: slices of files, largest first, so that no stream is left with a large one at the end,
//! and blocks of what is read as a stream, as they come.

use super::Context;
use super::feed::{Block, Blocks};
use crate::counters::StreamState;
use crate::error::Result;
use crate::job::lock;
use crate::plan::{Piece, Slice};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::Scope;

/// Room for an offset in [`Work::order`]: 16 TiB of text, and half a million sources in 63 bits.
const OFFSET_BITS: u32 = 44;

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
    /// All work, largest first, or in the order of the sources for one stream.
    pub(super) fn new(context: &Context<'p>, keep_order: bool) -> Self {
        let mut queue: Vec<&Slice> = context.plan.slices.iter().collect();
        if keep_order {
            // What a slice has left over is numbered behind all others.
            queue.sort_by_key(|slice| slice.pieces.first().map(|piece| (piece.source, piece.offset)));
        } else {
            queue.sort_by_key(|slice| std::cmp::Reverse(slice.bytes()));
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
