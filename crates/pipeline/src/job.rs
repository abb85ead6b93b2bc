//! Work on a thread of its own that somebody can wait for with a limit.

use crate::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The outcome of work that runs on another thread.
#[derive(Debug)]
pub(crate) struct Background<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    outcome: Mutex<Option<Result<T>>>,
    changed: Condvar,
}

impl<T: Clone + Send + 'static> Background<T> {
    /// Starts `work`; a panic in it becomes an error.
    pub(crate) fn start(work: impl FnOnce() -> Result<T> + Send + 'static) -> Self {
        let shared = Arc::new(Shared { outcome: Mutex::new(None), changed: Condvar::new() });
        let theirs = shared.clone();
        std::thread::spawn(move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
                .unwrap_or_else(|_| Err(Error::Internal { message: "a thread of the job panicked".into() }));
            *lock(&theirs.outcome) = Some(outcome);
            theirs.changed.notify_all();
        });
        Self(shared)
    }

    /// Waits for the end, at most so long; `None` while the work goes on.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Result<T>> {
        let guard = lock(&self.0.outcome);
        let waited = self.0.changed.wait_timeout_while(guard, limit, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// A lock that a panic elsewhere does not take with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
