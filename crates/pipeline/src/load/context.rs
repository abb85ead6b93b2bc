//! What the streams of one load share: the plan, the counters, the first failure, the totals.

use super::columnar::ColumnarJob;
use super::queue::Work;
use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::job::lock;
use crate::plan::{LoadOutcome, LoadPlan, Part, Piece, Routes, Slice, SourceOutcome};
use crate::postgres::direct::Pages;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tipple_codec::digest::RowDigest;

/// Shared by all streams of a load.
#[derive(Debug)]
pub struct Context<'p> {
    /// What to do.
    pub plan: &'p LoadPlan,
    /// What has been done.
    pub counters: Arc<Counters>,
    /// What columnar sources need, where they are.
    pub(super) columnar: Option<ColumnarJob>,
    failure: Mutex<Option<Error>>,
    sources: Vec<[AtomicU64; 3]>,
    digest: Mutex<RowDigest>,
    slices: Mutex<Vec<SliceDone>>,
    cut: Mutex<Vec<Slice>>,
    parts: Mutex<Vec<Part>>,
    next_part_n: AtomicU32,
    rejects: AtomicU64,
    late_rejects: Mutex<Vec<(u32, usize)>>,
    guarded: AtomicBool,
    target_digest: Mutex<Option<RowDigest>>,
    /// Whether nobody knows the digest of some rows.
    undigested: AtomicBool,
    routes: Mutex<Routes>,
    sent_pages: Mutex<(u64, u64)>,
    fallback_windows: AtomicU64,
    fallback_example: Mutex<Option<String>>,
}

/// What is kept of a slice that is safely done.
#[derive(Debug, Clone, Copy)]
struct SliceDone {
    n: u32,
    rows: u64,
    rejects: u64,
    digest: u128,
}

/// What one slice came to.
#[derive(Debug, Default, Clone)]
pub(super) struct SliceTotals {
    /// Rows, and their digest where it is kept.
    pub(super) digest: RowDigest,
    /// Per piece: the source, rows and bytes.
    pub(super) pieces: Vec<(usize, u64, u64)>,
    /// Records that could not be stored.
    pub(super) rejects: u64,
    /// What the limit of a transaction has left of it.
    pub(super) rest: Vec<Piece>,
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
            columnar: None,
            failure: Mutex::new(None),
            sources: plan.sources.iter().map(|_| Default::default()).collect(),
            digest: Mutex::default(),
            slices: Mutex::default(),
            rejects: AtomicU64::new(0),
            late_rejects: Mutex::default(),
            guarded: AtomicBool::new(false),
            cut: Mutex::default(),
            parts: Mutex::default(),
            next_part_n: AtomicU32::new(plan.first_part_n),
            target_digest: Mutex::default(),
            undigested: AtomicBool::new(false),
            routes: Mutex::default(),
            sent_pages: Mutex::default(),
            fallback_windows: AtomicU64::new(0),
            fallback_example: Mutex::default(),
        }
    }

    /// Reports a failure and stops all streams; the first cause is kept, and of two records of a file the one that stands
    /// before the other.
    pub(super) fn fail(&self, error: Error) {
        let mut failure = lock(&self.failure);
        match &*failure {
            None => *failure = Some(error),
            // A stream that was stopped says so; it is not the cause.
            Some(Error::Cancelled) if !matches!(error, Error::Cancelled) => *failure = Some(error),
            Some(kept) if error.stands_before(kept) => *failure = Some(error),
            Some(_) => {}
        }
        self.counters.cancel();
    }

    /// What a stream's thread has given; one that panicked has failed, with all that it had taken over.
    pub(super) fn joined<T>(&self, thread: std::thread::ScopedJoinHandle<'_, T>) -> Option<T> {
        let given = thread.join();
        if given.is_err() {
            self.fail(Error::Internal { message: "a thread of the job panicked".into() });
        }
        given.ok()
    }

    /// The failure that is kept, if there was one.
    pub(super) fn failure(&self) -> Option<Error> {
        lock(&self.failure).clone()
    }

    /// Whether a record is to blame for it.
    pub(super) fn has_failed_by_a_record(&self) -> bool {
        matches!(*lock(&self.failure), Some(Error::BadRecord(_)))
    }

    /// An error once the job was cancelled.
    pub(super) fn check_cancelled(&self) -> Result<()> {
        if self.counters.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Counts what was read of a file that is not text by itself.
    pub(super) fn note_file_bytes(&self, source: usize, bytes: u64) {
        self.sources[source][2].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a slice that is safely done.
    pub(super) fn add(&self, work: &Work<'_>, totals: &SliceTotals) {
        let (n, rows, rejects, digest) = (work.n(), totals.rows(), totals.rejects, totals.digest.sum);
        lock(&self.slices).push(SliceDone { n, rows, rejects, digest });
        if work.block().is_some() {
            lock(&self.cut).push(Slice { n: work.n(), pieces: work.pieces() });
        }
        for &(source, rows, bytes) in &totals.pieces {
            self.sources[source][0].fetch_add(rows, Ordering::Relaxed);
            self.sources[source][1].fetch_add(bytes, Ordering::Relaxed);
        }
        let mut digest = lock(&self.digest);
        *digest = digest.plus(totals.digest);
        self.counters.slice_done();
    }

    /// A number for the rest of a slice.
    pub(super) fn new_part_n(&self) -> u32 {
        self.next_part_n.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes what is left of a slice, for the caller to go on with.
    pub(super) fn leave(&self, work: &Work<'_>, totals: &SliceTotals) {
        if totals.rest.is_empty() {
            return;
        }
        let done = Slice { n: work.n(), pieces: done_pieces(&work.pieces(), &totals.rest) };
        let rest = Slice { n: self.new_part_n(), pieces: totals.rest.clone() };
        lock(&self.parts).push(Part { done, rest });
    }

    /// A statement that writes the slices that were cut while their source was read into the ledger, as planned.
    pub(super) fn insert_cut(&self, job_id: &str) -> Option<String> {
        let row = |slice: &Slice| {
            let first = slice.pieces.first()?;
            let pieces = serde_json::to_string(&slice.pieces).ok()?;
            Some(format!(
                "('{job_id}', {}, {}, {}, {}, '{pieces}')",
                slice.n,
                first.source,
                first.offset,
                slice.bytes()
            ))
        };
        let rows: Vec<String> = lock(&self.cut).iter().filter_map(row).collect();
        let columns = "job_id, n, source, byte_offset, byte_length, pieces";
        (!rows.is_empty()).then(|| format!("INSERT INTO tipple.slice ({columns}) VALUES {}", rows.join(", ")))
    }

    /// Counts rejects and gives their number in the whole job so far.
    pub(super) fn add_rejects(&self, count: u64) -> u64 {
        self.rejects.fetch_add(count, Ordering::Relaxed) + count + self.plan.rejects.as_ref().map_or(0, |it| it.before)
    }

    /// Takes back the rejects of an attempt that failed.
    pub(super) fn take_back_rejects(&self, count: u64) {
        self.rejects.fetch_sub(count, Ordering::Relaxed);
    }

    /// A record of this slice and source was counted as a row, but the server has refused it.
    pub(super) fn reject_late(&self, slice: u32, source: usize) {
        lock(&self.late_rejects).push((slice, source));
    }

    /// How many records the server has refused after they were counted as rows.
    pub(super) fn late_rejects(&self) -> u64 {
        lock(&self.late_rejects).len() as u64
    }

    /// Refuses a larger share of rejects than is allowed, where so many rows were stored.
    pub(super) fn check_share(&self, rows: u64) -> Result<()> {
        let rejects = self.rejects.load(Ordering::Relaxed);
        let records = rows + rejects;
        match self.plan.rejects.as_ref().and_then(|plan| plan.max_percent) {
            // A share that is just the limit passes, whatever becomes of 0.57 as a binary fraction.
            Some(percent) if rejects as f64 * 100.0 > percent * records as f64 * (1.0 + 1e-12) => {
                Err(Error::TooLargeShare { rejects, records, percent })
            }
            _ => Ok(()),
        }
    }

    /// Every slice, with what was refused later on counted as rejects.
    fn slices_done(&self) -> Vec<SliceDone> {
        let mut slices = lock(&self.slices).clone();
        for &(n, _) in lock(&self.late_rejects).iter() {
            for slice in slices.iter_mut().filter(|slice| slice.n == n) {
                slice.rows -= 1;
                slice.rejects += 1;
            }
        }
        slices
    }

    /// Number, rows, rejects and digest of every slice as the rows of an SQL `VALUES` list.
    pub(super) fn slices_as_values(&self) -> String {
        // Of rows that the server itself read nobody here knows the digest, nor of what is left after it refused some.
        let read_here = self.fallback_windows() == 0 && !self.undigested.load(Ordering::Relaxed);
        let known = self.plan.digest && read_here && self.late_rejects() == 0;
        let row = |SliceDone { n, rows, rejects, digest }: SliceDone| {
            let digest = if known { format!("'{digest:032x}'") } else { "NULL".into() };
            format!("({n}, {rows}::bigint, {rejects}::bigint, {digest}::text)")
        };
        self.slices_done().into_iter().map(row).collect::<Vec<_>>().join(", ")
    }

    /// Whether the server has refused a record: from now on rows go in batches that can be taken back, and the server
    /// routes them.
    pub(super) fn is_guarded(&self) -> bool {
        self.guarded.load(Ordering::Relaxed)
    }

    /// The server has refused a record.
    pub(super) fn guard(&self) {
        self.guarded.store(true, Ordering::Relaxed);
    }

    /// Counts the rows of a slice by the way in which they came into their partitions.
    pub(super) fn add_routes(&self, routes: Routes) {
        let mut sum = lock(&self.routes);
        sum.straight_rows += routes.straight_rows;
        sum.routed_rows += routes.routed_rows;
        sum.server_rows += routes.server_rows;
    }

    /// Counts pages that went over the network, where they could have gone packed, and those that did.
    pub(super) fn add_sent_pages(&self, run: &[Pages]) {
        let mut sum = lock(&self.sent_pages);
        for pages in run {
            sum.0 += pages.count as u64;
            sum.1 += if pages.packed.is_some() { pages.count as u64 } else { 0 };
        }
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

    /// Adds the digest of a row that no slice counts.
    pub(super) fn add_digest(&self, sum: u128) {
        let mut digest = lock(&self.digest);
        *digest = digest.plus(RowDigest { rows: 0, sum });
    }

    /// Takes note that some rows have no digest: the server has read them, or refused others beside them.
    pub(super) fn forget_digest(&self) {
        self.undigested.store(true, Ordering::Relaxed);
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
        let slices = self.slices_done().iter().map(|slice| (slice.n, slice.rows, slice.rejects)).collect();
        for &(_, source) in lock(&self.late_rejects).iter() {
            self.sources[source][0].fetch_sub(1, Ordering::Relaxed);
        }
        let sources: Vec<SourceOutcome> = self
            .sources
            .iter()
            .map(|[rows, bytes, file_bytes]| SourceOutcome {
                rows: rows.load(Ordering::Relaxed),
                bytes: bytes.load(Ordering::Relaxed),
                file_bytes: file_bytes.load(Ordering::Relaxed),
            })
            .collect();
        let target = *lock(&self.target_digest);
        Ok(LoadOutcome {
            rows: sources.iter().map(|source| source.rows).sum(),
            rejects: self.rejects.load(Ordering::Relaxed),
            bytes: sources.iter().map(|source| source.bytes).sum(),
            digest: (self.plan.digest && !self.undigested.load(Ordering::Relaxed))
                .then(|| format!("{:032x}", self.digest().sum)),
            target_digest: target.map(|digest| format!("{:032x}", digest.sum)),
            target_rows: target.map(|digest| digest.rows),
            retries: self.counters.retries(),
            fallback_windows: self.fallback_windows(),
            fallback_example: lock(&self.fallback_example).clone(),
            sources,
            slices,
            cut: std::mem::take(&mut *lock(&self.cut)),
            parts: std::mem::take(&mut *lock(&self.parts)),
            routes: *lock(&self.routes),
            sent_pages: *lock(&self.sent_pages),
        })
    }
}

/// The beginning of `whole` that `rest` is the end of.
pub(super) fn done_pieces(whole: &[Piece], rest: &[Piece]) -> Vec<Piece> {
    let Some(first) = rest.first() else { return whole.to_vec() };
    let mut done = whole[..=whole.len() - rest.len()].to_vec();
    if let Some(last) = done.last_mut() {
        last.length = first.offset - last.offset;
    }
    done.retain(|piece| piece.length > 0);
    done
}

/// What `done`, its beginning, has left of `whole`.
pub(super) fn rest_pieces(whole: &[Piece], done: &[Piece]) -> Vec<Piece> {
    let done_bytes: u64 = done.iter().map(|piece| piece.length).sum();
    let mut skip = done_bytes;
    let mut rest = Vec::new();
    for piece in whole {
        let skipped = skip.min(piece.length);
        skip -= skipped;
        if skipped < piece.length {
            rest.push(Piece { offset: piece.offset + skipped, length: piece.length - skipped, ..*piece });
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_its_beginning_and_its_rest() {
        let piece = |source, offset, length| Piece { source, offset, length };
        let whole = [piece(0, 5, 10), piece(1, 0, 7), piece(2, 3, 4)];
        for (done, rest) in [
            (vec![piece(0, 5, 4)], vec![piece(0, 9, 6), whole[1], whole[2]]),
            (vec![whole[0]], vec![whole[1], whole[2]]),
            (vec![whole[0], piece(1, 0, 6)], vec![piece(1, 6, 1), whole[2]]),
            (whole.to_vec(), vec![]),
        ] {
            assert_eq!(done_pieces(&whole, &rest), done);
            assert_eq!(rest_pieces(&whole, &done), rest);
        }
    }
}
