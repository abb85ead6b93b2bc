//! Work on a thread of its own that somebody can wait for with a limit.

use crate::error::{Error, Result};
use crate::panics::{print_no_errors, want_of_threads};
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
        print_no_errors();
        let shared = Arc::new(Shared { outcome: Mutex::new(None), changed: Condvar::new() });
        let theirs = shared.clone();
        let run = move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
                let panicked = || Error::Internal { message: "a thread of the job panicked".into() };
                Err(want_of_threads(&*panic).map_or_else(panicked, no_thread))
            });
            *lock(&theirs.outcome) = Some(outcome);
            theirs.changed.notify_all();
        };
        if let Err(error) = std::thread::Builder::new().spawn(run) {
            *lock(&shared.outcome) = Some(Err(no_thread(&error)));
        }
        Self(shared)
    }

    /// Waits for the end, at most so long; `None` while the work goes on.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Result<T>> {
        let guard = lock(&self.0.outcome);
        let waited = self.0.changed.wait_timeout_while(guard, limit, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// Where the system gives no more threads; Python has the remedy.
fn no_thread(error: &(impl std::fmt::Display + ?Sized)) -> Error {
    Error::Invalid { message: format!("no thread could be started: {error}") }
}

/// A lock that a panic elsewhere does not take with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_errors_and_a_want_of_threads_is_told_apart() {
        let outcome = |message: &'static str| {
            let work = move || -> Result<()> { panic!("{message}: why") };
            Background::start(work).wait(Duration::from_secs(60))
        };
        let told = outcome("failed to spawn thread");
        assert!(matches!(told, Some(Err(Error::Invalid { message })) if message.starts_with("no thread could be")));
        assert!(matches!(outcome("another"), Some(Err(Error::Internal { .. }))));
    }
}
