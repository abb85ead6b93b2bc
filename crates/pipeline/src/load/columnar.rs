//! Columnar sources on their way into any target: what [`super::parse`] is to text.
//!
//! A stream reads the batches of its slices itself. A stream of this process is read by one thread and shared by all:
//! each of its slices stands for what one stream happens to take, so it can be neither retried nor resumed.

use super::Context;
use super::context::SliceTotals;
use super::queue::Work;
use super::rejects::{self, RejectLog};
use super::violations::{Examined, Wanted, kept};
use crate::counters::{Counters, StreamCounters, StreamState};
use crate::error::{Error, Result, ServerError};
use crate::plan::{ColumnarFormat, ColumnarPlan, FieldPlan, LoadPlan, Source, Target, WritePath};
use crate::postgres::copy::{Chunk, CopyFailure, Origin, OriginRows, Place};
use crate::source::columnar::ColumnarFile;
use crate::source::locate::{self, Complaint};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field, SchemaRef};
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender};
use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::encode::batch::conform::{Conformer, Taker, output_schema, without_rows};
use tipple_codec::encode::batch::copy_text::BatchTextEncoder;
use tipple_codec::encode::batch::csv_text::CsvRows;
use tipple_codec::encode::batch::text_form::unpacked;
use tipple_codec::encode::batch::{BatchProblem, UnreadableType};

/// Batches of this process.
pub type Stream = Box<dyn RecordBatchReader + Send>;

/// The most rows that are converted at a time.
const BATCH_ROWS: usize = 16 * 1024;
/// How often a wait looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

/// A job over columnar sources that has not begun.
pub(super) struct Opening {
    job: ColumnarJob,
    stream: Option<Stream>,
}

/// What all streams of a job over columnar sources share.
#[derive(Debug)]
pub(super) struct ColumnarJob {
    plan: ColumnarPlan,
    /// The target's columns as values are read for them.
    pub(super) columns: Vec<Column>,
    /// In which batches are handed over.
    schema: SchemaRef,
    shared: Option<Shared>,
}

/// The batches of a stream in memory.
#[derive(Debug)]
struct Shared {
    schema: SchemaRef,
    batches: Receiver<(u64, RecordBatch)>,
    /// Set before the channel closes.
    ending: Arc<OnceLock<Result<()>>>,
}

impl Opening {
    pub(super) fn open(plan: &LoadPlan, stream: Option<Stream>) -> Result<Self> {
        let columnar = plan.columnar.clone();
        let columnar = columnar.ok_or_else(|| Error::Internal { message: "the sources are not columnar".into() })?;
        let source = plan.sources.first().ok_or_else(|| Error::Internal { message: "no source".into() })?;
        let fields = match &stream {
            Some(stream) => fields_of(&stream.schema(), &columnar)?,
            None => ColumnarFile::open(source, columnar.format)?.fields(&columnar.fields)?,
        };
        let taker = match &plan.target {
            Target::Arrow { .. } => Taker::Arrow,
            Target::Postgres(target) if target.write_path == WritePath::Text => Taker::CopyText,
            Target::Postgres(_) => Taker::CopyBinary,
        };
        let fields = if stream.is_some() { fields } else { with_types(fields, &plan.sources[1..], &columnar) };
        let columns = read_as(&fields, &plan.columns, &columnar.fields);
        let schema = output_schema(&fields, &columns, &columnar.spellings(), taker)
            .map_err(|unreadable| explain(plan, 0, &unreadable))?;
        Ok(Self { job: ColumnarJob { plan: columnar, columns, schema, shared: None }, stream })
    }

    /// The schema in which batches are handed over.
    pub(super) fn schema(&self) -> SchemaRef {
        self.job.schema.clone()
    }

    /// Begins to read a stream in memory.
    pub(super) fn begin(self, counters: &Arc<Counters>) -> ColumnarJob {
        let mut job = self.job;
        if let Some(stream) = self.stream {
            let (sender, batches) = crossbeam_channel::bounded(2 * counters.streams.len().max(1));
            let ending = Arc::new(OnceLock::new());
            job.shared = Some(Shared { schema: stream.schema(), batches, ending: ending.clone() });
            let counters = counters.clone();
            // Not waited for: nobody can stop a producer that does not answer, and it holds nothing of the job.
            std::thread::spawn(move || {
                let outcome = produce(stream, &counters, &sender);
                // Set once, here.
                let _already_set = ending.set(outcome);
            });
        }
        job
    }
}

/// `fields`, those that are NULL everywhere with the type that the first of `later` has which has one.
fn with_types(mut fields: Vec<Arc<Field>>, later: &[Source], columnar: &ColumnarPlan) -> Vec<Arc<Field>> {
    let is_null = |field: &Field| unpacked(field.data_type()) == DataType::Null;
    for source in later {
        if !fields.iter().any(|field| is_null(field)) {
            break;
        }
        // What is wrong with it is said when it is read.
        let found = ColumnarFile::open(source, columnar.format).and_then(|file| file.fields(&columnar.fields));
        for (field, typed) in fields.iter_mut().zip(found.into_iter().flatten()) {
            if is_null(field) {
                *field = typed;
            }
        }
    }
    fields
}

/// The columns, those that the target would cast by itself with the type to read them as: text may be anything, and
/// numbers may be too large for an integer, or none.
fn read_as(fields: &[Arc<Field>], columns: &[Column], plans: &[FieldPlan]) -> Vec<Column> {
    let kind = |(field, (column, plan)): (&Arc<Field>, (&Column, &FieldPlan))| {
        let from = unpacked(field.data_type());
        let kind = plan.casting.read_as.clone().filter(|kind| {
            let is_text = matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
            // Bytes as text have a form of their own in every engine.
            // What is NULL everywhere in the first file may be numbers in the next.
            let is_number = from.is_numeric() || from == DataType::Null;
            (is_text && *kind != ColumnType::Bytea) || (is_number && matches!(kind, ColumnType::Integer { .. }))
        });
        Column { kind: kind.unwrap_or_else(|| column.kind.clone()), ..column.clone() }
    };
    fields.iter().zip(columns.iter().zip(plans)).map(kind).collect()
}

/// The fields that a plan wants of a stream.
fn fields_of(schema: &SchemaRef, plan: &ColumnarPlan) -> Result<Vec<Arc<Field>>> {
    let own = indices_of(schema, plan)?.into_iter().map(|index| &schema.fields()[index]);
    Ok(own.zip(&plan.fields).map(|(field, plan)| plan.field(field)).collect())
}

fn indices_of(schema: &SchemaRef, plan: &ColumnarPlan) -> Result<Vec<usize>> {
    let find = |name: &str| {
        schema.index_of(name).map_err(|_| Error::Invalid { message: format!("the stream has no column {name}") })
    };
    plan.fields.iter().map(|field| find(&field.name)).collect()
}

/// Reads a stream to its end and shares its batches out, with the number of their first row.
fn produce(stream: Stream, counters: &Counters, sender: &Sender<(u64, RecordBatch)>) -> Result<()> {
    let mut first_row = 0;
    for batch in stream {
        let batch = batch.map_err(|error| Error::Invalid { message: format!("the stream failed: {error}") })?;
        for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
            let rows = BATCH_ROWS.min(batch.num_rows() - start);
            let mut part = (first_row, batch.slice(start, rows));
            first_row += rows as u64;
            loop {
                match sender.send_timeout(part, CANCEL_CHECK) {
                    Ok(()) => break,
                    Err(SendTimeoutError::Timeout(back)) if !counters.is_cancelled() => part = back,
                    Err(_) => return Err(Error::Cancelled),
                }
            }
        }
    }
    Ok(())
}

/// What turns a source file's batches into what the target takes.
pub(super) struct Shape {
    conformer: Conformer,
    pub(super) text: BatchTextEncoder,
    csv: Arc<CsvRows>,
}

/// Reads the batches of slices for one stream.
pub(super) struct BatchFeed<'j, 'p> {
    job: &'j ColumnarJob,
    /// The file of the last piece, which often is that of the next.
    file: Option<(usize, ColumnarFile<'p>)>,
    shape: Option<(usize, Shape)>,
}

/// One batch, and where it stands.
pub(super) struct Fed<'f> {
    pub(super) batch: &'f RecordBatch,
    pub(super) shape: &'f mut Shape,
    /// Its first row; rows are counted where text has bytes.
    place: Place,
    slice: u32,
}

/// Rows of a batch that can be stored.
pub(super) struct Stored {
    /// As the target takes them.
    pub(super) batch: RecordBatch,
    /// Which rows of the source's batch they are.
    pub(super) rows: Vec<usize>,
}

impl<'j, 'p> BatchFeed<'j, 'p> {
    pub(super) fn new(job: &'j ColumnarJob) -> Self {
        Self { job, file: None, shape: None }
    }

    /// Hands every batch of `slice` to `store`, which keeps what cannot be stored in `log`.
    pub(super) fn read<'lc, 'lp>(
        &mut self,
        context: &Context<'p>,
        stream: &StreamCounters,
        work: &Work<'_>,
        log: &mut Option<RejectLog<'lc, 'lp>>,
        mut store: impl FnMut(&mut Fed<'_>, &mut Option<RejectLog<'lc, 'lp>>) -> Result<()>,
    ) -> Result<SliceTotals> {
        let rejects_before = rejects::count(log);
        let mut totals = match &self.job.shared {
            Some(shared) => self.read_shared(context, stream, work, shared, log, &mut store)?,
            None => self.read_files(context, stream, work, log, &mut store)?,
        };
        totals.rejects = rejects::count(log) - rejects_before;
        totals.digest.rows = totals.rows();
        Ok(totals)
    }

    fn read_files<'lc, 'lp>(
        &mut self,
        context: &Context<'p>,
        stream: &StreamCounters,
        work: &Work<'_>,
        log: &mut Option<RejectLog<'lc, 'lp>>,
        store: &mut impl FnMut(&mut Fed<'_>, &mut Option<RejectLog<'lc, 'lp>>) -> Result<()>,
    ) -> Result<SliceTotals> {
        let mut totals = SliceTotals::default();
        for piece in work.pieces() {
            stream.enter(StreamState::Read);
            if self.file.as_ref().is_none_or(|(source, _)| *source != piece.source) {
                let planned = &context.plan.sources[piece.source];
                self.file = Some((piece.source, ColumnarFile::open(planned, self.job.plan.format)?));
                self.shape = None;
            }
            let Some((_, file)) = &self.file else { continue };
            file.check_unchanged()?;
            let fields = file.fields(&self.job.plan.fields)?;
            let shape = shape(&mut self.shape, context, self.job, piece.source, &fields)?;
            let (first_row, piece_rows) = file.rows_of(piece);
            let rejects_before = rejects::count(log);
            let mut rows = 0;
            let mut bytes = 0;
            for batch in file.batches(piece, &self.job.plan.fields)? {
                let batch = batch?;
                for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                    context.check_cancelled()?;
                    let part = batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start));
                    stream.enter(StreamState::Encode);
                    let place = Place::uncounted(piece.source, first_row + rows);
                    store(&mut Fed { batch: &part, shape, place, slice: work.n() }, log)?;
                    rows += part.num_rows() as u64;
                    // Bytes are the file's own, in proportion to the rows.
                    let done =
                        u128::from(piece.length) * u128::from(rows.min(piece_rows)) / u128::from(piece_rows.max(1));
                    stream.add(done as u64 - bytes, part.num_rows() as u64);
                    bytes = done as u64;
                }
                stream.enter(StreamState::Read);
            }
            if rows != piece_rows {
                return Err(Error::File {
                    file: context.plan.sources[piece.source].path.display().to_string(),
                    message: format!("cannot be read: {piece_rows} rows were promised, and {rows} are there"),
                    remedy: "the file is damaged: write or copy it again".into(),
                });
            }
            file.check_unchanged()?;
            let rejected = rejects::count(log) - rejects_before;
            totals.pieces.push((piece.source, rows - rejected, piece.length));
        }
        Ok(totals)
    }

    fn read_shared<'lc, 'lp>(
        &mut self,
        context: &Context<'p>,
        stream: &StreamCounters,
        work: &Work<'_>,
        shared: &Shared,
        log: &mut Option<RejectLog<'lc, 'lp>>,
        store: &mut impl FnMut(&mut Fed<'_>, &mut Option<RejectLog<'lc, 'lp>>) -> Result<()>,
    ) -> Result<SliceTotals> {
        let indices = indices_of(&shared.schema, &self.job.plan)?;
        let fields = fields_of(&shared.schema, &self.job.plan)?;
        let shape = shape(&mut self.shape, context, self.job, 0, &fields)?;
        let rejects_before = rejects::count(log);
        let mut rows = 0;
        loop {
            context.check_cancelled()?;
            stream.enter(StreamState::Read);
            let (first_row, batch) = match shared.batches.recv_timeout(CANCEL_CHECK) {
                Ok(batch) => batch,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let batch = batch
                .project(&indices)
                .and_then(|batch| FieldPlan::batch(&self.job.plan.fields, batch))
                .map_err(|error| Error::Invalid { message: format!("the stream failed: {error}") })?;
            stream.enter(StreamState::Encode);
            let place = Place::uncounted(0, first_row);
            store(&mut Fed { batch: &batch, shape, place, slice: work.n() }, log)?;
            stream.add(0, batch.num_rows() as u64);
            rows += batch.num_rows() as u64;
        }
        match shared.ending.get() {
            Some(Ok(())) => {
                let rejected = rejects::count(log) - rejects_before;
                Ok(SliceTotals { pieces: vec![(0, rows - rejected, 0)], ..SliceTotals::default() })
            }
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::Internal { message: "the stream ended without saying how".into() }),
        }
    }
}

/// The shape for a source, made anew where the source is another one.
fn shape<'s>(
    slot: &'s mut Option<(usize, Shape)>,
    context: &Context<'_>,
    job: &ColumnarJob,
    source: usize,
    fields: &[Arc<Field>],
) -> Result<&'s mut Shape> {
    if slot.as_ref().is_some_and(|(of, _)| *of != source) {
        *slot = None;
    }
    if slot.is_none() {
        let columns = &job.columns;
        let spellings = job.plan.spellings();
        let conformer = Conformer::new(fields, columns, &spellings, job.schema.clone())
            .map_err(|unreadable| explain(context.plan, source, &unreadable))?
            .for_castings(fields, job.plan.fields.iter().map(|field| &field.casting));
        let csv = Arc::new(conformer.csv_rows());
        *slot = Some((source, Shape { conformer, text: BatchTextEncoder::new(fields, columns, &spellings), csv }));
    }
    match slot {
        Some((_, shape)) => Ok(shape),
        None => Err(Error::Internal { message: "a shape was not made".into() }),
    }
}

impl Fed<'_> {
    /// What is wanted of rows that somebody looks for violations in.
    pub(super) fn examined(&self, wanted: &Wanted<'_>, stored: &Stored) -> RecordBatch {
        let rows = stored.rows.iter().map(|&row| {
            let number = self.place.offset + row as u64;
            let record = if wanted.with_records() { self.record(row) } else { Vec::new() };
            Examined { offset: number, index: number, record: Cow::Owned(record) }
        });
        wanted.batch(&stored.batch, (self.place.source, self.slice), rows)
    }

    /// The batch as the target takes it, without what goes to `log`.
    pub(super) fn conform(&mut self, context: &Context<'_>, log: &mut Option<RejectLog<'_, '_>>) -> Result<Stored> {
        let count = self.batch.num_rows();
        let (batch, rows) = if log.is_some() {
            let mut bad = Vec::new();
            let Ok((batch, kept)) = self.shape.conformer.conform_skipping(self.batch, |problem| {
                bad.push(problem.clone());
                Ok::<_, Infallible>(())
            });
            for problem in &bad {
                self.refuse(context, log, problem)?;
            }
            (batch, kept.unwrap_or_else(|| (0..count).collect()))
        } else {
            match self.shape.conformer.conform(self.batch) {
                Ok(batch) => (batch, (0..count).collect()),
                Err(problem) => return Err(self.explain(context, &problem)),
            }
        };
        self.refuse_violations(context, Stored { batch, rows }, log)
    }

    /// Rejects the rows that are known to violate constraints.
    fn refuse_violations(
        &self,
        context: &Context<'_>,
        stored: Stored,
        log: &mut Option<RejectLog<'_, '_>>,
    ) -> Result<Stored> {
        let Place { source, offset, .. } = self.place;
        let mut refused = Vec::new();
        for (at, constraint) in context.plan.violations.between(source, offset..offset + self.batch.num_rows() as u64) {
            let row = (at - offset) as usize;
            let text = |column| locate::shown(&self.shape.conformer.value_text(self.batch, row, column));
            let complaint = context.violation(constraint, locate::shown(&self.record(row)), text);
            self.reject(context, log, row, complaint)?;
            refused.extend(stored.rows.binary_search(&row));
        }
        if refused.is_empty() {
            return Ok(stored);
        }
        let batch = without_rows(&stored.batch, &refused);
        let rows = kept(stored.rows.len(), &refused).map(|index| stored.rows[index]).collect();
        Ok(Stored { batch, rows })
    }

    /// Rows of the batch as `bytes` has them, with their origin where `with_origin` says so.
    pub(super) fn chunk(&self, format: WritePath, bytes: Vec<u8>, rows: Vec<usize>, with_origin: bool) -> Chunk {
        // Without an origin they lie one behind the other.
        let place = self.place.behind(rows.first().copied().unwrap_or(0), 0);
        let count = rows.len() as u64;
        let origin = with_origin.then(|| {
            let rows = OriginRows::Batch { csv: self.shape.csv.clone(), batch: self.batch.clone(), rows };
            Arc::new(Origin { slice: self.slice, place: self.place, rows })
        });
        Chunk { format, bytes: bytes.into(), rows: count, place, origin }
    }

    /// Keeps the row of a problem in `log`; without one it is the error.
    pub(super) fn refuse(
        &self,
        context: &Context<'_>,
        log: &mut Option<RejectLog<'_, '_>>,
        problem: &BatchProblem,
    ) -> Result<()> {
        self.reject(context, log, problem.row, self.complaint(context, problem)?)
    }

    /// Keeps a row in `log`; without one it is the error.
    fn reject(
        &self,
        context: &Context<'_>,
        log: &mut Option<RejectLog<'_, '_>>,
        row: usize,
        complaint: Complaint,
    ) -> Result<()> {
        let index = self.place.offset + row as u64;
        let place = Place { offset: index, ..self.place };
        match log {
            None => Err(context.explain_complaint(place, complaint)),
            Some(log) => log.push(place, index, &self.record(row), complaint),
        }
    }

    /// A row as text.
    fn record(&self, row: usize) -> Vec<u8> {
        let mut text = Vec::new();
        self.shape.csv.write(self.batch, row, &mut text);
        text
    }

    /// What is wrong with a value, unless the server is to be asked.
    fn complaint(&self, context: &Context<'_>, problem: &BatchProblem) -> Result<Complaint> {
        let text = self.shape.conformer.value_text(self.batch, problem.row, problem.column);
        let is_number = unpacked(self.batch.column(problem.column).data_type()).is_numeric();
        let left = context.left_to_server(problem, &text, is_number);
        left.map_or_else(|| Ok(context.batch_complaint(problem, &text, is_number)), Err)
    }

    fn explain(&self, context: &Context<'_>, problem: &BatchProblem) -> Error {
        let place = Place { offset: self.place.offset + problem.row as u64, ..self.place };
        self.complaint(context, problem)
            .map_or_else(|left| left, |complaint| context.explain_complaint(place, complaint))
    }
}

fn explain(plan: &LoadPlan, source: usize, unreadable: &UnreadableType) -> Error {
    let column = &plan.columns[unreadable.column].name;
    let file = plan.sources[source].path.display();
    Error::Invalid { message: format!("{file}: column {column}: {}; leave it out with --columns", unreadable.reason) }
}

impl Context<'_> {
    /// Whether the source is a stream of this process.
    pub(super) fn is_in_memory(&self) -> bool {
        self.columnar.as_ref().is_some_and(|job| job.plan.format == ColumnarFormat::Memory)
    }

    /// Whether the sources can be read once more.
    pub(super) fn can_begin_anew(&self) -> bool {
        !self.is_in_memory() && !self.plan.sources.iter().any(Source::is_stdin)
    }

    /// What the server said of the row that stands so many rows behind a place of a columnar source.
    pub(super) fn explain_copy_of_row(
        &self,
        (place, index): (Place, u64),
        server: &ServerError,
        failure: &CopyFailure,
    ) -> Error {
        let place = Place { offset: place.offset + index, ..place };
        let column = failure.column.as_deref();
        let kept = failure.origin.clone().or_else(|| Some((Arc::new(self.row_again(place)?), 0)));
        let complaint = match kept {
            Some((origin, row)) => {
                let (_, _, record) = origin.record(row);
                self.server_complaint(&record, server, column, |column| origin.value(row, column))
            }
            // What is gone is gone; the number and the server's message remain.
            None => Complaint { text: String::new(), ..self.server_complaint(&[], server, column, |_| None) },
        };
        self.explain_complaint(place, complaint)
    }

    /// A row of a file, read once more.
    fn row_again(&self, place: Place) -> Option<Origin> {
        let job = self.columnar.as_ref().filter(|_| !self.is_in_memory())?;
        let file = ColumnarFile::open(&self.plan.sources[place.source], job.plan.format).ok()?;
        let (batch, row) = file.row(place.source, place.offset, &job.plan.fields).ok()??;
        let fields = file.fields(&job.plan.fields).ok()?;
        let csv = shape(&mut None, self, job, place.source, &fields).ok()?.csv.clone();
        let rows = OriginRows::Batch { csv, batch, rows: vec![row] };
        Some(Origin { slice: 0, place: Place { offset: place.offset - row as u64, ..place }, rows })
    }
}
