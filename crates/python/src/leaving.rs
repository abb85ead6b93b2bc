//! The end of the interpreter while a daemon thread still loads rows that Python makes.
//!
//! A thread that asks for the interpreter when it is being taken apart is ended by it, by an exception that no library in
//! between lets through: the process aborts. So before that, such loads are stopped and waited for, and what they clean
//! up; not a generator that takes longer than [`LIMIT`] for a batch.

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tipple_pipeline::load::columnar::Stream;

/// How long the interpreter waits for loads to end.
const LIMIT: Duration = Duration::from_secs(3);
const CHECK: Duration = Duration::from_millis(2);

/// Whether Python is not asked for batches any more.
static IS_LEAVING: AtomicBool = AtomicBool::new(false);
/// Whether nothing of Python's may be touched any more.
static IS_GONE: AtomicBool = AtomicBool::new(false);
/// Loads over streams, and streams. No lock: a process may be forked at any moment.
static LOADS: AtomicUsize = AtomicUsize::new(0);
/// The process whose loads these are.
static PROCESS: AtomicUsize = AtomicUsize::new(0);

/// Counts a load, or its stream, for as long as it is kept.
#[derive(Debug)]
pub(crate) struct Loading;

impl Loading {
    pub(crate) fn begin() -> Self {
        let process = std::process::id() as usize;
        if PROCESS.swap(process, Ordering::SeqCst) != process {
            LOADS.store(0, Ordering::SeqCst);
        }
        LOADS.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        LOADS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A stream that ends when the interpreter does.
pub(crate) struct Leaving {
    stream: ManuallyDrop<Stream>,
    _counted: Loading,
}

impl Leaving {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream: ManuallyDrop::new(stream), _counted: Loading::begin() }
    }
}

impl Iterator for Leaving {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if IS_LEAVING.load(Ordering::SeqCst) {
            return Some(Err(ArrowError::CDataInterface("the interpreter is about to end".into())));
        }
        self.stream.next()
    }
}

impl RecordBatchReader for Leaving {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // Giving it back takes the interpreter, and the memory goes with the process.
        if !IS_GONE.load(Ordering::SeqCst) {
            // SAFETY: this is its only owner, and nothing uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.stream) }
        }
    }
}

/// Stops loads over streams and waits for them, while their threads can still have the interpreter.
#[pyfunction]
fn leave(py: Python<'_>) {
    if PROCESS.load(Ordering::SeqCst) != std::process::id() as usize {
        return;
    }
    IS_LEAVING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let begin = Instant::now();
        while LOADS.load(Ordering::SeqCst) > 0 && begin.elapsed() < LIMIT {
            std::thread::sleep(CHECK);
        }
    });
    IS_GONE.store(true, Ordering::SeqCst);
}

/// Has the interpreter call [`leave`] before it ends.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let leave = pyo3::wrap_pyfunction!(leave, module)?;
    module.py().import("atexit")?.call_method1("register", (leave,))?;
    Ok(())
}
