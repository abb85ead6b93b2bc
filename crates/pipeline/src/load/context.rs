//! What the streams of one load share: the plan, the counters, the first failure, the totals.

use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::job::lock;
use crate::plan::{LoadOutcome, LoadPlan, Slice, SourceOutcome};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tipple_codec::digest::RowDigest;

/// Shared by all streams of a load.
#[derive(Debug)]
pub struct Context<'p> {
    /// What to do.
    pub plan: &'p LoadPlan,
    /// What has been done.
    pub counters: Arc<Counters>,
    failure: Mutex<Option<Error>>,
    sources: Vec<(AtomicU64, AtomicU64)>,
    digest: Mutex<RowDigest>,
    slices: Mutex<Vec<(u32, u64)>>,
    target_digest: Mutex<Option<RowDigest>>,
    fallback_windows: AtomicU64,
    fallback_example: Mutex<Option<String>>,
}

/// What one slice came to.
#[derive(Debug, Default, Clone)]
pub(super) struct SliceTotals {
    /// Rows, and their digest where it is kept.
    pub(super) digest: RowDigest,
    /// Per piece: the source, records and bytes.
    pub(super) pieces: Vec<(usize, u64, u64)>,
}

impl SliceTotals {
    pub(super) fn rows(&self) -> u64 {
        self.pieces.iter().map(|(_, rows, _)| rows).sum()
    }
}

impl<'p> Context<'p> {
    pub(super) fn new(plan: &'p LoadPlan, counters: Arc<Counters>) -> Self {
        Self {
            plan,
            counters,
            failure: Mutex::new(None),
            sources: plan.sources.iter().map(|_| Default::default()).collect(),
            digest: Mutex::default(),
            slices: Mutex::default(),
            target_digest: Mutex::default(),
            fallback_windows: AtomicU64::new(0),
            fallback_example: Mutex::default(),
        }
    }

    /// Reports a failure and stops all streams; the first cause is kept.
    pub(super) fn fail(&self, error: Error) {
        let mut failure = lock(&self.failure);
        match &*failure {
            None => *failure = Some(error),
            // A stream that was stopped says so; it is not the cause.
            Some(Error::Cancelled) if !matches!(error, Error::Cancelled) => *failure = Some(error),
            Some(_) => {}
        }
        self.counters.cancel();
    }

    /// The first failure, if there was one.
    pub(super) fn failure(&self) -> Option<Error> {
        lock(&self.failure).clone()
    }

    /// An error once the job was cancelled.
    pub(super) fn check_cancelled(&self) -> Result<()> {
        if self.counters.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Counts a slice that is safely done.
    pub(super) fn add(&self, slice: &Slice, totals: &SliceTotals) {
        lock(&self.slices).push((slice.n, totals.rows()));
        for &(source, rows, bytes) in &totals.pieces {
            self.sources[source].0.fetch_add(rows, Ordering::Relaxed);
            self.sources[source].1.fetch_add(bytes, Ordering::Relaxed);
        }
        let mut digest = lock(&self.digest);
        *digest = digest.plus(totals.digest);
        self.counters.slice_done();
    }

    /// The digest of all slices counted so far.
    pub(super) fn digest(&self) -> RowDigest {
        *lock(&self.digest)
    }

    /// Counts a window that only the server could read, with the field that made it so.
    pub(super) fn note_fallback(&self, example: impl FnOnce() -> String) {
        if self.fallback_windows.fetch_add(1, Ordering::Relaxed) == 0 {
            *lock(&self.fallback_example) = Some(example());
        }
    }

    /// How many windows only the server could read.
    pub(super) fn fallback_windows(&self) -> u64 {
        self.fallback_windows.load(Ordering::Relaxed)
    }

    /// Keeps what the target was found to hold.
    pub(super) fn set_target_digest(&self, digest: RowDigest) {
        *lock(&self.target_digest) = Some(digest);
    }

    pub(super) fn into_outcome(self) -> Result<LoadOutcome> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        self.check_cancelled()?;
        let sources: Vec<SourceOutcome> = self
            .sources
            .iter()
            .map(|(rows, bytes)| SourceOutcome {
                rows: rows.load(Ordering::Relaxed),
                bytes: bytes.load(Ordering::Relaxed),
            })
            .collect();
        let target = *lock(&self.target_digest);
        Ok(LoadOutcome {
            rows: sources.iter().map(|source| source.rows).sum(),
            bytes: sources.iter().map(|source| source.bytes).sum(),
            digest: self.plan.digest.then(|| format!("{:032x}", self.digest().sum)),
            target_digest: target.map(|digest| format!("{:032x}", digest.sum)),
            target_rows: target.map(|digest| digest.rows),
            retries: self.counters.retries(),
            fallback_windows: self.fallback_windows(),
            fallback_example: lock(&self.fallback_example).clone(),
            sources,
            slices: std::mem::take(&mut *lock(&self.slices)),
        })
    }
}
