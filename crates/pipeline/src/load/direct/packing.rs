//! Whether pages are packed on their way to a server on another machine: found out by trying both.
//!
//! Packing halves what a network has to carry, and costs the streams and the server time: where the network carries more
//! than they make, it is a loss. So some pages go as they are, then some packed, and from then on all go the way on which
//! more of them went in a second. After a while the other way is tried again, for others use the network and the processors
//! too.

use crate::postgres::direct::Pages;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A way is tried with so many bytes of pages ...
const TRIED_BYTES: usize = 32 << 20;
/// ... and then that which has won is kept for so many.
const KEPT_BYTES: usize = 1 << 30;
/// So much quicker must packed pages go: two tries differ by a little anyway, and others may have a use for the processors.
const WORTH: f64 = 1.1;

/// What streams are told: whether to pack what they hand over.
#[derive(Debug, Clone, Default)]
pub(super) struct Packing(Arc<AtomicBool>);

impl Packing {
    /// The first pages of a run's memory, packed if that is wanted now.
    pub(super) fn pack(&self, pages: &[u8]) -> Option<Vec<u8>> {
        self.is_wanted().then(|| lz4_flex::block::compress(pages))
    }

    fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a session has found out.
#[derive(Debug)]
pub(super) struct Trials {
    packing: Packing,
    block_size: usize,
    /// Since when pages have been counted; `None` where none have come the way that is looked at.
    since: Option<Instant>,
    bytes: usize,
    /// So many make a rate.
    enough_bytes: usize,
    /// The rate of the other way, if that was tried last.
    other: Option<f64>,
}

impl Trials {
    /// Tells streams by `packing`.
    pub(super) fn new(packing: Packing, block_size: usize) -> Self {
        Self { packing, block_size, since: None, bytes: 0, enough_bytes: TRIED_BYTES, other: None }
    }

    /// The server has appended these, and says so `now`.
    pub(super) fn appended(&mut self, run: &[Pages], now: Instant) {
        let is_wanted = self.packing.is_wanted();
        let is_pure = run.iter().all(|pages| pages.packed.is_some() == is_wanted);
        let Some(since) = self.since.filter(|_| is_pure) else {
            // What streams had handed over before they were told.
            (self.since, self.bytes) = (is_pure.then_some(now), 0);
            return;
        };
        self.bytes += run.iter().map(|pages| pages.count * self.block_size).sum::<usize>();
        if self.bytes >= self.enough_bytes {
            self.judge(self.bytes as f64 / (now - since).as_secs_f64());
        }
    }

    /// The way that is looked at carries so many bytes a second.
    fn judge(&mut self, rate: f64) {
        let is_packed = self.packing.is_wanted();
        let (next, enough_bytes, other) = match self.other {
            None => (!is_packed, TRIED_BYTES, Some(rate)),
            Some(other) => {
                let (packed, plain) = if is_packed { (rate, other) } else { (other, rate) };
                (packed > plain * WORTH, KEPT_BYTES, None)
            }
        };
        self.packing.0.store(next, Ordering::Relaxed);
        (self.since, self.bytes, self.enough_bytes, self.other) = (None, 0, enough_bytes, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::direct::Slot;
    use std::time::Duration;

    const PAGE: usize = 8192;
    const RUN_PAGES: usize = 128;

    /// Runs that go at so many bytes a second, plain and packed; gives the ways in which they went.
    fn ways(runs: usize, plain: f64, packed: f64) -> Vec<bool> {
        let packing = Packing::default();
        let mut trials = Trials::new(packing.clone(), PAGE);
        let mut now = Instant::now();
        // What was handed over before streams were told comes later than that.
        let mut under_way = vec![false, false];
        let mut gone = Vec::new();
        for _ in 0..runs {
            under_way.push(packing.is_wanted());
            let way = under_way.remove(0);
            let rate = if way { packed } else { plain };
            now += Duration::from_secs_f64((RUN_PAGES * PAGE) as f64 / rate);
            let packed = way.then(Vec::new);
            trials.appended(&[Pages { slot: Slot::Own(Vec::new()), count: RUN_PAGES, packed }], now);
            gone.push(way);
        }
        gone
    }

    fn share_packed(ways: &[bool]) -> f64 {
        ways.iter().filter(|&&way| way).count() as f64 / ways.len() as f64
    }

    #[test]
    fn the_quicker_way_is_taken_after_both_were_tried() {
        let slow = ways(6000, 100e6, 200e6);
        assert!(slow[..30].iter().all(|&way| !way));
        assert!(share_packed(&slow[40..]) > 0.95, "{}", share_packed(&slow));
        for packed in [600e6, 950e6] {
            let fast = ways(6000, 900e6, packed);
            assert!(fast[..100].contains(&true));
            assert!(share_packed(&fast) < 0.05, "{}", share_packed(&fast));
        }
    }

    #[test]
    fn the_other_way_is_tried_again_and_again() {
        let again = ways(9000, 100e6, 200e6);
        let changes = again.windows(2).filter(|pair| pair[0] != pair[1]).count();
        // To packed; back and forth about every gigabyte.
        assert!((13..=19).contains(&changes), "{changes}");
    }
}
