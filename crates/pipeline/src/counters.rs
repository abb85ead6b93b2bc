//! What a running job has done so far: counters that streams raise and Python reads as a snapshot.

use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// What a stream is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum StreamState {
    /// No slice yet.
    Idle,
    /// Reading the file.
    Read,
    /// Turning text into the target's form.
    Encode,
    /// Handing rows to the target.
    Send,
    /// Waiting for the target's answer.
    Wait,
    /// Waiting before it tries a slice again.
    Retry,
    /// No work left.
    Done,
}

const STATES: [StreamState; 7] = [
    StreamState::Idle,
    StreamState::Read,
    StreamState::Encode,
    StreamState::Send,
    StreamState::Wait,
    StreamState::Retry,
    StreamState::Done,
];

/// The counters of one stream.
#[derive(Debug)]
pub struct StreamCounters {
    state: AtomicU8,
    slice: AtomicI64,
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl StreamCounters {
    /// Says what the stream is doing now.
    pub fn enter(&self, state: StreamState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Says which slice it has.
    pub fn take(&self, slice: u32) {
        self.slice.store(i64::from(slice), Ordering::Relaxed);
    }

    /// Adds what it has just done.
    pub fn add(&self, bytes: u64, rows: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Bytes and rows so far, for [`StreamCounters::take_back_to`].
    #[must_use]
    pub fn mark(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.rows.load(Ordering::Relaxed))
    }

    /// Takes back what a failed attempt has added since the mark.
    pub fn take_back_to(&self, (bytes, rows): (u64, u64)) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.rows.store(rows, Ordering::Relaxed);
    }
}

/// The counters of a job.
#[derive(Debug)]
pub struct Counters {
    started: Instant,
    bytes_total: u64,
    slices_total: AtomicU64,
    /// Bytes that an earlier run has stored.
    skipped: AtomicU64,
    slices_done: AtomicU64,
    retries: AtomicU64,
    /// One per stream.
    pub streams: Vec<StreamCounters>,
    cancelled: AtomicBool,
}

/// A moment in the life of a job.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshot {
    bytes_total: u64,
    bytes_done: u64,
    rows: u64,
    slices_total: u64,
    slices_done: u64,
    retries: u64,
    streams: Vec<StreamSnapshot>,
    elapsed_seconds: f64,
}

#[derive(Debug, Clone, Serialize)]
struct StreamSnapshot {
    n: usize,
    state: StreamState,
    slice: Option<u32>,
    bytes: u64,
    rows: u64,
}

impl Counters {
    /// Counters for `streams` streams over so many bytes and slices.
    #[must_use]
    pub fn new(streams: usize, bytes_total: u64, slices_total: u64) -> Self {
        let stream = |_| StreamCounters {
            state: AtomicU8::new(StreamState::Idle as u8),
            slice: AtomicI64::new(-1),
            bytes: AtomicU64::new(0),
            rows: AtomicU64::new(0),
        };
        Self {
            started: Instant::now(),
            bytes_total,
            slices_total: AtomicU64::new(slices_total),
            skipped: AtomicU64::new(0),
            slices_done: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            streams: (0..streams).map(stream).collect(),
            cancelled: AtomicBool::new(false),
        }
    }

    /// One more slice was cut.
    pub fn slice_found(&self) {
        self.slices_total.fetch_add(1, Ordering::Relaxed);
    }

    /// So many bytes had been stored by an earlier run.
    pub fn skip(&self, bytes: u64) {
        self.skipped.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A slice is done.
    pub fn slice_done(&self) {
        self.slices_done.fetch_add(1, Ordering::Relaxed);
    }

    /// A slice has to be done again.
    pub fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// How many slices had to be done again.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Asks all streams to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the streams were asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// How many rows there will be, by those so far; None where nobody knows yet, or how long the source is.
    #[must_use]
    pub fn expected_rows(&self) -> Option<u64> {
        let sum = |part: fn(&(u64, u64)) -> u64| self.streams.iter().map(|stream| part(&stream.mark())).sum::<u64>();
        let (bytes, rows) = (sum(|mark| mark.0), sum(|mark| mark.1));
        let left =
            self.bytes_total.checked_sub(self.skipped.load(Ordering::Relaxed)).filter(|_| self.bytes_total > 0)?;
        (bytes > 0).then(|| (u128::from(rows) * u128::from(left) / u128::from(bytes)) as u64)
    }

    /// What has been done so far.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let streams: Vec<StreamSnapshot> = self
            .streams
            .iter()
            .enumerate()
            .map(|(n, stream)| StreamSnapshot {
                n: n + 1,
                state: STATES[usize::from(stream.state.load(Ordering::Relaxed))],
                slice: u32::try_from(stream.slice.load(Ordering::Relaxed)).ok(),
                bytes: stream.bytes.load(Ordering::Relaxed),
                rows: stream.rows.load(Ordering::Relaxed),
            })
            .collect();
        Snapshot {
            bytes_total: self.bytes_total,
            bytes_done: self.skipped.load(Ordering::Relaxed) + streams.iter().map(|stream| stream.bytes).sum::<u64>(),
            rows: streams.iter().map(|stream| stream.rows).sum(),
            slices_total: self.slices_total.load(Ordering::Relaxed),
            slices_done: self.slices_done.load(Ordering::Relaxed),
            retries: self.retries(),
            streams,
            elapsed_seconds: self.started.elapsed().as_secs_f64(),
        }
    }
}
