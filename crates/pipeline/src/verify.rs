//! Reads back what a server holds and digests it, several queries at a time.

use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::job::{Background, lock};
use crate::plan::Connection;
use crate::postgres::digest;
use crate::postgres::session::{Session, Waits};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tipple_codec::digest::RowDigest;

/// What to read back.
#[derive(Debug, Clone, Deserialize)]
pub struct VerifyPlan {
    /// How to reach the server.
    pub connection: Connection,
    /// Statements for every new session.
    pub session: Vec<String>,
    /// Queries whose rows together are those to digest.
    pub queries: Vec<String>,
    /// Sessions at a time.
    pub streams: usize,
    /// Seconds without an answer after which the server is given up.
    pub stall_seconds: u64,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Held {
    /// Rows.
    pub rows: u64,
    /// Their digest, 32 hexadecimal digits.
    pub digest: String,
}

/// A comparison that runs on threads of its own.
#[derive(Debug)]
pub struct VerifyJob {
    counters: Arc<Counters>,
    work: Background<Held>,
}

impl VerifyJob {
    /// Starts reading.
    #[must_use]
    pub fn start(plan: VerifyPlan) -> Self {
        let counters = Arc::new(Counters::new(plan.streams, 0, 0));
        let shared = counters.clone();
        Self { counters, work: Background::start(move || run(&plan, &shared)) }
    }

    /// Asks the job to stop.
    pub fn cancel(&self) {
        self.counters.cancel();
    }

    /// Waits for the end, at most so long; `None` while the job still runs.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> Option<Result<Held>> {
        self.work.wait(limit)
    }
}

impl Drop for VerifyJob {
    fn drop(&mut self) {
        self.counters.cancel();
    }
}

fn run(plan: &VerifyPlan, counters: &Arc<Counters>) -> Result<Held> {
    let queue: Mutex<VecDeque<&String>> = Mutex::new(plan.queries.iter().collect());
    let total = Mutex::new(Ok(RowDigest::default()));
    let unconnected = Mutex::new(None);
    std::thread::scope(|scope| {
        for index in 0..plan.streams.clamp(1, plan.queries.len().max(1)) {
            let (queue, total, unconnected) = (&queue, &total, &unconnected);
            scope.spawn(move || {
                let found = read(plan, counters, queue, index, unconnected);
                let mut total = lock(total);
                match (&*total, found) {
                    (Ok(sum), Ok(found)) => *total = Ok(sum.plus(found)),
                    (Ok(_), Err(error)) => {
                        *total = Err(error);
                        counters.cancel();
                    }
                    (Err(_), _) => {}
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)?;
    // What one session could not begin, another one has done, unless there was none.
    if let Some(error) = lock(&unconnected).take().filter(|_| !lock(&queue).is_empty()) {
        return Err(error);
    }
    Ok(Held { rows: total.rows, digest: format!("{:032x}", total.sum) })
}

fn read(
    plan: &VerifyPlan,
    counters: &Arc<Counters>,
    queue: &Mutex<VecDeque<&String>>,
    index: usize,
    unconnected: &Mutex<Option<Error>>,
) -> Result<RowDigest> {
    let waits = Waits { stall: Duration::from_secs(plan.stall_seconds), counters: counters.clone() };
    let suffix = format!(" verify {}", index + 1);
    let session = match Session::connect(&plan.connection, &suffix, &plan.session, waits) {
        Ok(session) => session,
        // A server that has no room for so many sessions is read by those that it has.
        Err(error @ Error::Connection { .. }) => {
            lock(unconnected).get_or_insert(error);
            return Ok(RowDigest::default());
        }
        Err(error) => return Err(error),
    };
    let mut sum = RowDigest::default();
    loop {
        let Some(query) = lock(queue).pop_front() else { return Ok(sum) };
        sum = sum.plus(digest::of_query(&session, query)?);
    }
}
