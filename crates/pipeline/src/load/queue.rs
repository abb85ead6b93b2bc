//! The slices still to be loaded, largest first, so that no stream is left with a large one at the end.

use crate::job::lock;
use crate::plan::Slice;
use std::collections::VecDeque;
use std::sync::Mutex;

/// A queue that all streams take from.
#[derive(Debug)]
pub(super) struct SliceQueue<'p>(Mutex<VecDeque<&'p Slice>>);

impl<'p> SliceQueue<'p> {
    /// All slices, largest first, or in their own order.
    pub(super) fn new(slices: &'p [Slice], keep_order: bool) -> Self {
        let mut queue: Vec<&Slice> = slices.iter().collect();
        if !keep_order {
            queue.sort_by_key(|slice| std::cmp::Reverse(slice.bytes()));
        }
        Self(Mutex::new(queue.into()))
    }

    /// The next slice, or `None` when all are taken.
    pub(super) fn take(&self) -> Option<&'p Slice> {
        lock(&self.0).pop_front()
    }
}
