//! The threads of a job, and how their chunks get into the files in order.
//!
//! Every worker does the same: take a permit (a recycled buffer), take the next chunk of all files, generate it,
//! hand it in. Whoever hands in the chunk that is due writes it and all that follow and are ready. Text has its
//! offset as soon as the chunks before it have their lengths, so several threads write at once; row groups are
//! appended one by one.
//!
//! Advice for hackers: the permit is taken *before* the chunk. So whoever has the chunk that is due also has a
//! buffer and goes on, and the job cannot come to rest with all permits waiting behind a chunk nobody generates.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::error::GenerateError;
use super::output::{Staging, refuse_existing};
use super::parquet::{self, RowGroup};
use super::plan::{Chunk, FilePlan, Format, Plan};
use super::progress::{Counters, FileReport, Progress, Report};
use super::rows::{Csv, Dialect, Tbl, append_chunk};
use super::table::dbgen_scale;

/// A running or finished generation. Dropping it cancels it and waits for its threads.
#[derive(Debug)]
pub struct Job {
    shared: Arc<Shared>,
    supervisor: Option<thread::JoinHandle<()>>,
}

/// What the caller's thread and the job's threads share.
#[derive(Debug)]
struct Shared {
    counters: Counters,
    cancelled: AtomicBool,
    publishing: AtomicBool,
    outcome: Mutex<Option<Result<Report, GenerateError>>>,
    finished: Condvar,
}

impl Job {
    /// Checks the plan and the output directory, and starts the job.
    ///
    /// # Errors
    /// Of kind `Usage` when the plan makes no sense or a file exists that it may not replace; of kind `Failed`
    /// when the output directory cannot be written. Then nothing was started and nothing was written.
    pub fn start(plan: Plan) -> Result<Self, GenerateError> {
        let files = plan.files()?;
        if !plan.force {
            refuse_existing(&plan.out, &files, plan.part)?;
        }
        let staging = Staging::create(&plan.out)?;
        let work_total = files.iter().map(|file| file.units() * file.table.unit_bytes()).sum::<i64>();
        let shared = Arc::new(Shared {
            counters: Counters::new(work_total.unsigned_abs(), files.len() as u64, plan.jobs),
            cancelled: AtomicBool::new(false),
            publishing: AtomicBool::new(false),
            outcome: Mutex::new(None),
            finished: Condvar::new(),
        });
        let supervisor = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("tipple-generate".into())
                .spawn(move || {
                    let outcome = catch_unwind(AssertUnwindSafe(|| run(&plan, &files, staging, &shared)))
                        .unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
                    *lock(&shared.outcome) = Some(outcome);
                    shared.finished.notify_all();
                })
                .map_err(|error| GenerateError::failed(format!("cannot start a thread: {error}")))?
        };
        Ok(Self { shared, supervisor: Some(supervisor) })
    }

    /// Where the job stands.
    pub fn progress(&self) -> Progress {
        let state = match &*lock(&self.shared.outcome) {
            None if self.shared.publishing.load(Ordering::Relaxed) => "publishing",
            None => "running",
            Some(Ok(_)) => "done",
            Some(Err(error)) if error.kind == super::ErrorKind::Interrupted => "interrupted",
            Some(Err(_)) => "failed",
        };
        self.shared.counters.snapshot(state)
    }

    /// Waits until the job has ended or `timeout` has passed, and says whether it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        let outcome = lock(&self.shared.outcome);
        let (outcome, _) = self
            .shared
            .finished
            .wait_timeout_while(outcome, timeout, |outcome| outcome.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        outcome.is_some()
    }

    /// Asks the job to stop. It ends soon (a chunk takes milliseconds; the first one waits for the text pool,
    /// about a second) and leaves no file. A job that is already publishing is finished.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// The result, or none while the job runs.
    pub fn outcome(&self) -> Option<Result<Report, GenerateError>> {
        lock(&self.shared.outcome).clone()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.cancel();
        if let Some(supervisor) = self.supervisor.take() {
            // Its panics are caught inside and are the outcome.
            let _ = supervisor.join();
        }
    }
}

/// A file that is being written.
struct OpenFile<'plan> {
    plan: &'plan FilePlan,
    /// Position among the job's files.
    position: usize,
    rows: AtomicU64,
    bytes: AtomicU64,
    chunks_left: AtomicU64,
    sink: Sink,
}

enum Sink {
    Text { file: File, header: &'static str },
    Parquet { encoder: Box<parquet::Encoder>, writer: Box<Mutex<Option<parquet::Writer>>> },
}

/// A generated chunk.
enum Content {
    Text { text: Vec<u8>, rows: u64 },
    RowGroup(RowGroup),
}

/// Where the next chunk comes from.
struct Cursor<'plan> {
    sequence: u64,
    position: usize,
    chunk: i64,
    open: Option<Arc<OpenFile<'plan>>>,
}

/// Chunks that were generated before it was their turn, and whose turn it is.
struct Order<'plan> {
    due: u64,
    ready: BTreeMap<u64, Finished<'plan>>,
}

struct Finished<'plan> {
    file: Arc<OpenFile<'plan>>,
    units: i64,
    content: Content,
}

/// One run: what its workers share.
struct Run<'run> {
    plan: &'run Plan,
    files: &'run [FilePlan],
    scale: f64,
    staging: &'run Staging,
    shared: &'run Shared,
    cursor: Mutex<Cursor<'run>>,
    order: Mutex<Order<'run>>,
    permits: Mutex<Vec<Vec<u8>>>,
    permit_returned: Condvar,
    /// Set by the first failure; the others stop at the next chance.
    stopped: AtomicBool,
    failure: Mutex<Option<GenerateError>>,
    /// Rows and bytes of each file that is complete.
    sizes: Mutex<Vec<(u64, u64)>>,
}

fn run(plan: &Plan, files: &[FilePlan], staging: Staging, shared: &Shared) -> Result<Report, GenerateError> {
    // Text chunks are small, and a worker that runs ahead should not have to wait; row groups are not small.
    let permits = match plan.format {
        Format::Tbl | Format::Csv => 2 * plan.jobs + 1,
        Format::Parquet => plan.jobs + 1,
    };
    let run = Run {
        plan,
        files,
        scale: dbgen_scale(plan.scale),
        staging: &staging,
        shared,
        cursor: Mutex::new(Cursor { sequence: 0, position: 0, chunk: 0, open: None }),
        order: Mutex::new(Order { due: 0, ready: BTreeMap::new() }),
        permits: Mutex::new(vec![Vec::new(); permits]),
        permit_returned: Condvar::new(),
        stopped: AtomicBool::new(false),
        failure: Mutex::new(None),
        sizes: Mutex::new(vec![(0, 0); files.len()]),
    };
    thread::scope(|scope| {
        for number in 0..plan.jobs {
            let worker = || {
                let result = catch_unwind(AssertUnwindSafe(|| run.work()));
                if let Err(error) = result.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))) {
                    run.fail(error);
                }
            };
            let spawned = thread::Builder::new().name(format!("tipple-generate-{number}")).spawn_scoped(scope, worker);
            if let Err(error) = spawned {
                run.fail(GenerateError::failed(format!("cannot start {} threads: {error}", plan.jobs)));
                break;
            }
        }
    });
    if let Some(error) = lock(&run.failure).take() {
        return Err(error);
    }
    if shared.cancelled.load(Ordering::Relaxed) {
        return Err(GenerateError::interrupted());
    }
    shared.publishing.store(true, Ordering::Relaxed);
    let kept = staging.publish(files, plan.part, plan.force)?;
    if plan.fsync {
        staging.sync_directory()?;
    }
    let sizes = lock(&run.sizes).clone();
    let reports = files.iter().zip(sizes).zip(kept).map(|((file, (rows, bytes)), kept)| FileReport {
        table: file.table,
        part: file.part,
        path: staging.final_path(&file.name).display().to_string(),
        rows,
        bytes,
        kept,
    });
    let files: Vec<FileReport> = reports.collect();
    Ok(Report {
        rows: files.iter().map(|file| file.rows).sum(),
        bytes: files.iter().map(|file| file.bytes).sum(),
        files,
        seconds: shared.counters.started.elapsed().as_secs_f64(),
        jobs: plan.jobs,
    })
}

impl<'run> Run<'run> {
    fn work(&self) -> Result<(), GenerateError> {
        while let Some(mut buffer) = self.take_permit() {
            let Some((sequence, file, chunk)) = self.next_chunk()? else {
                self.return_permit(buffer);
                break;
            };
            let content = match &file.sink {
                Sink::Text { header, .. } => {
                    let rows = self.append_text(&file, header, &chunk, &mut buffer);
                    Content::Text { text: buffer, rows }
                }
                Sink::Parquet { encoder, .. } => match encoder.encode(&chunk, || self.is_stopped()) {
                    Ok(row_group) => Content::RowGroup(row_group),
                    Err(_) if self.is_stopped() => return Ok(()),
                    Err(error) => return Err(self.io_error("encode", &file, &error)),
                },
            };
            self.hand_in(sequence, Finished { file, units: chunk.units, content })?;
        }
        Ok(())
    }

    /// A cleared buffer, or none when the run is to stop.
    fn take_permit(&self) -> Option<Vec<u8>> {
        /// How often a waiting worker looks whether the job was cancelled.
        const LOOK: Duration = Duration::from_millis(100);
        let mut permits = lock(&self.permits);
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(buffer) = permits.pop() {
                return Some(buffer);
            }
            permits = self.permit_returned.wait_timeout(permits, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn return_permit(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        lock(&self.permits).push(buffer);
        self.permit_returned.notify_one();
    }

    /// The next chunk of the next file with its place in the order of all, or none when there are no more.
    fn next_chunk(&self) -> Result<Option<(u64, Arc<OpenFile<'run>>, Chunk)>, GenerateError> {
        let mut cursor = lock(&self.cursor);
        let Some(plan) = self.files.get(cursor.position) else {
            return Ok(None);
        };
        let file = match cursor.open.take() {
            Some(file) => file,
            None => Arc::new(self.open(plan, cursor.position)?),
        };
        let chunk = plan.chunk(cursor.chunk);
        let sequence = cursor.sequence;
        cursor.sequence += 1;
        cursor.chunk += 1;
        if cursor.chunk == plan.chunk_count() {
            cursor.position += 1;
            cursor.chunk = 0;
        } else {
            cursor.open = Some(Arc::clone(&file));
        }
        Ok(Some((sequence, file, chunk)))
    }

    fn open(&self, plan: &'run FilePlan, position: usize) -> Result<OpenFile<'run>, GenerateError> {
        let file = self.staging.create_file(&plan.name)?;
        let sink = match self.plan.format {
            Format::Tbl => Sink::Text { file, header: "" },
            Format::Csv => Sink::Text { file, header: plan.table.csv_header() },
            Format::Parquet => {
                let (encoder, writer) = parquet::begin(plan.table, self.scale, self.plan.compression, file)
                    .map_err(|error| GenerateError::io("write", &self.staging.final_path(&plan.name), &error))?;
                Sink::Parquet { encoder: Box::new(encoder), writer: Box::new(Mutex::new(Some(writer))) }
            }
        };
        Ok(OpenFile {
            plan,
            position,
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            chunks_left: AtomicU64::new(plan.chunk_count().unsigned_abs()),
            sink,
        })
    }

    fn append_text(&self, file: &OpenFile<'_>, header: &str, chunk: &Chunk, out: &mut Vec<u8>) -> u64 {
        fn append<D: Dialect>(
            run: &Run<'_>,
            file: &OpenFile<'_>,
            header: &str,
            chunk: &Chunk,
            out: &mut Vec<u8>,
        ) -> u64 {
            if chunk.index == 0 && !header.is_empty() {
                out.extend_from_slice(header.as_bytes());
                out.push(D::DELIMITER);
                D::end_record(out);
            }
            append_chunk::<D>(file.plan.table, run.scale, chunk, out)
        }
        match self.plan.format {
            Format::Csv => append::<Csv>(self, file, header, chunk, out),
            _ => append::<Tbl>(self, file, header, chunk, out),
        }
    }

    /// Writes the chunk if it is due, and what is due after it; else leaves it to whoever hands in the due one.
    fn hand_in(&self, sequence: u64, finished: Finished<'run>) -> Result<(), GenerateError> {
        lock(&self.order).ready.insert(sequence, finished);
        loop {
            let mut order = lock(&self.order);
            let due = order.due;
            let Some(Finished { file, units, content }) = order.ready.remove(&due) else {
                return Ok(());
            };
            order.due += 1;
            let (rows, bytes) = match content {
                Content::Text { text, rows } => {
                    let bytes = text.len() as u64;
                    let offset = file.bytes.fetch_add(bytes, Ordering::Relaxed);
                    drop(order);
                    self.write_text(&file, &text, offset)?;
                    self.return_permit(text);
                    (rows, bytes)
                }
                Content::RowGroup(row_group) => {
                    let rows = row_group.rows;
                    // The order stays locked: row groups must be appended in the order in which they are taken.
                    let bytes = self.append_row_group(&file, row_group)?;
                    file.bytes.fetch_add(bytes, Ordering::Relaxed);
                    drop(order);
                    self.return_permit(Vec::new());
                    (rows, bytes)
                }
            };
            file.rows.fetch_add(rows, Ordering::Relaxed);
            let counters = &self.shared.counters;
            counters.rows.fetch_add(rows, Ordering::Relaxed);
            counters.bytes.fetch_add(bytes, Ordering::Relaxed);
            counters.work_done.fetch_add((units * file.plan.table.unit_bytes()).unsigned_abs(), Ordering::Relaxed);
            if file.chunks_left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.finish(&file)?;
            }
        }
    }

    fn write_text(&self, file: &OpenFile<'_>, text: &[u8], offset: u64) -> Result<(), GenerateError> {
        match &file.sink {
            Sink::Text { file: target, .. } => {
                target.write_all_at(text, offset).map_err(|error| self.io_error("write", file, &error))
            }
            Sink::Parquet { .. } => unreachable!("a parquet file gets row groups"),
        }
    }

    fn append_row_group(&self, file: &OpenFile<'_>, row_group: RowGroup) -> Result<u64, GenerateError> {
        match &file.sink {
            Sink::Parquet { writer, .. } => match lock(writer).as_mut() {
                Some(writer) => writer.append(row_group).map_err(|error| self.io_error("write", file, &error)),
                None => unreachable!("a file is finished after its last row group"),
            },
            Sink::Text { .. } => unreachable!("a text file gets text"),
        }
    }

    /// Footer, flush and, where asked for, fsync of a file whose chunks are all written.
    fn finish(&self, file: &OpenFile<'_>) -> Result<(), GenerateError> {
        let failed = |error: io::Error| self.io_error("finish", file, &error);
        let sync = |file: &File| {
            if self.plan.fsync { file.sync_all() } else { Ok(()) }
        };
        let bytes = match &file.sink {
            Sink::Text { file: target, .. } => {
                sync(target).map_err(failed)?;
                file.bytes.load(Ordering::Relaxed)
            }
            Sink::Parquet { writer, .. } => {
                let writer = lock(writer).take().expect("a file is finished once");
                let target = writer.finish().map_err(failed)?;
                sync(&target).map_err(failed)?;
                let bytes = target.metadata().map_err(failed)?.len();
                let footer = bytes - file.bytes.load(Ordering::Relaxed);
                self.shared.counters.bytes.fetch_add(footer, Ordering::Relaxed);
                bytes
            }
        };
        lock(&self.sizes)[file.position] = (file.rows.load(Ordering::Relaxed), bytes);
        self.shared.counters.files_done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.shared.cancelled.load(Ordering::Relaxed)
    }

    /// Stops the run. The first cause is what is reported.
    fn fail(&self, error: GenerateError) {
        lock(&self.failure).get_or_insert(error);
        self.stopped.store(true, Ordering::Relaxed);
        self.permit_returned.notify_all();
    }

    fn io_error(&self, action: &str, file: &OpenFile<'_>, error: &io::Error) -> GenerateError {
        GenerateError::io(action, &self.staging.final_path(&file.plan.name), error)
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> GenerateError {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    let mut error = GenerateError::failed(format!("internal error while generating: {text}"));
    error.hint = Some("This is a defect of Tipple; please report it with the command that led to it.".into());
    error
}

/// Locks; a panic elsewhere is reported by its own thread and leaves nothing half done behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
