//! The files of rejects for Python.

use crate::load::parse;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyCapsule;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use tipple_pipeline::postgres::copy::Place;
use tipple_pipeline::rejects::Reject;
use tipple_pipeline::rejects::batches::Batches;
use tipple_pipeline::rejects::files;
use tipple_pipeline::rejects::row::{self, JobId};
use tipple_pipeline::rejects::spool::Spool;

/// So many rejects are written before anybody is asked whether to go on.
const AT_ONCE: usize = 4096;

/// A row of the ledger's table: slice, source, offset, number in the piece, column, reason, SQLSTATE, record.
type SpooledRow = (u32, usize, u64, u64, Option<String>, String, String, PyBackedBytes);

/// A row as the ledgers give it.
type LedgerRow = (usize, u64, u64, Option<String>, String, String, PyBackedBytes);

/// Source, record number and lines of rejects that may be many records, and how many more there are; what those begin with that
/// end inside quotes; the causes.
type Told = (Vec<(usize, u64, Option<usize>)>, u64, Vec<Vec<u8>>, Vec<Cause>);

/// Column, SQLSTATE and rejects; source, record number and reason of the first.
type Cause = (String, String, u64, usize, u64, String);

/// The raw records of a load's rejects and their reasons, while they are being written.
#[pyclass(module = "tipple._core")]
struct RejectFiles {
    files: Option<files::RejectFiles>,
    rephrase: Option<(String, Py<PyAny>)>,
}

#[pymethods]
impl RejectFiles {
    /// Creates both files.
    #[new]
    fn new(raw: PathBuf, reasons: PathBuf, sources: Vec<PyBackedBytes>, telling_json: &str) -> PyResult<Self> {
        let sources = sources.iter().map(|name| name.to_vec()).collect();
        let created = files::RejectFiles::create(&raw, &reasons, sources, parse(telling_json)?);
        Ok(Self { files: Some(created.map_err(|error| exception(&error))?), rephrase: None })
    }

    /// From now on reasons that contain a text are what a function makes of them.
    fn rephrase(&mut self, containing: String, function: Py<PyAny>) {
        self.rephrase = Some((containing, function));
    }

    /// Writes rows of a ledger.
    fn add(&mut self, py: Python<'_>, rows: Vec<LedgerRow>) -> PyResult<()> {
        let rejects = rows.into_iter().map(|(source, record_number, offset, column, reason, sqlstate, record)| {
            let record = record.to_vec();
            Reject { source, record_number, offset, column, reason, sqlstate, record }
        });
        let rejects = rejects.collect();
        self.write(py, rejects)
    }

    /// Writes what the files of a spool hold, unless they are not all that is expected.
    #[pyo3(signature = (files, before, expected = None))]
    fn add_spooled(
        &mut self,
        py: Python<'_>,
        files: Vec<PathBuf>,
        before: HashMap<u32, u64>,
        expected: Option<HashMap<u32, u64>>,
    ) -> PyResult<bool> {
        let opened = py.detach(|| Spool::open(&files, before, expected.as_ref()));
        let Some(mut spool) = opened.map_err(|error| exception(&error))? else { return Ok(false) };
        loop {
            let rejects = py.detach(|| spool.take(AT_ONCE)).map_err(|error| exception(&error))?;
            if rejects.is_empty() {
                return Ok(true);
            }
            self.write(py, rejects)?;
            py.check_signals()?;
        }
    }

    /// Completes both files: which rejects may be many records, how those begin that end inside quotes, and the causes.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Told> {
        let files = self.files.take().ok_or_else(finished)?;
        let told = py.detach(|| files.finish()).map_err(|error| exception(&error))?;
        let remarks = told.remarks.iter().map(|remark| (remark.source, remark.record_number, remark.lines));
        let causes = told.causes.into_iter().map(|cause| {
            let files::Cause { column, sqlstate, rejects, source, record_number, reason } = cause;
            (column, sqlstate, rejects, source, record_number, reason)
        });
        Ok((remarks.collect(), told.unremarked, told.open_ended, causes.collect()))
    }
}

impl RejectFiles {
    fn write(&mut self, py: Python<'_>, mut rejects: Vec<Reject>) -> PyResult<()> {
        if let Some((containing, function)) = &self.rephrase {
            for reject in rejects.iter_mut().filter(|reject| reject.reason.contains(containing)) {
                reject.reason = function.call1(py, (&reject.reason,))?.extract(py)?;
            }
        }
        let files = self.files.as_mut().ok_or_else(finished)?;
        py.detach(|| files.write(&rejects)).map_err(|error| exception(&error))
    }
}

/// The rejects in files of a spool, in the order that they were written.
#[pyclass(module = "tipple._core")]
struct SpooledRejects {
    paths: Vec<PathBuf>,
    places: Batches,
}

#[pymethods]
impl SpooledRejects {
    /// Opens nothing yet.
    #[new]
    fn new(paths: Vec<PathBuf>) -> Self {
        Self { places: Batches::new(paths.clone()), paths }
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// Slice, source and byte offset of the next one.
    fn __next__(&mut self) -> PyResult<Option<(u32, usize, u64)>> {
        let head = self.places.next_place().map_err(|error| exception(&error))?;
        Ok(head.map(|head| (head.slice, head.source, head.offset)))
    }

    /// All of them as batches (Arrow PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore the request.
        let _ignored = requested_schema;
        PyCapsule::new_with_value(py, Batches::new(self.paths.clone()).stream(), c"arrow_array_stream")
    }
}

/// Writes a file of a spool.
#[pyfunction]
fn spool_rejects(path: PathBuf, job_id: &str, rows: Vec<SpooledRow>) -> PyResult<()> {
    let job = JobId::parse(job_id).ok_or_else(|| PyValueError::new_err("the job's id is no UUID"))?;
    let mut written = Vec::new();
    for (slice, source, offset, index, column, reason, sqlstate, record) in rows {
        let place = Place::uncounted(source, offset);
        row::write(&mut written, (job, slice, place, index), (column.as_deref(), &reason, &sqlstate), &record)
            .map_err(|error| exception(&error))?;
    }
    std::fs::write(&path, written).map_err(|error| exception(&error))
}

/// What COPY binary begins and ends with, around the files of a spool.
#[pyfunction]
fn around_spooled() -> (&'static [u8], &'static [u8]) {
    row::AROUND
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("these files are complete already")
}

/// An OSError with number and words.
fn exception(error: &io::Error) -> PyErr {
    let text = error.to_string();
    // Rust puts the number behind the words.
    let words = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((error.raw_os_error(), words))
}

/// Adds what this file defines to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RejectFiles>()?;
    module.add_class::<SpooledRejects>()?;
    module.add_function(wrap_pyfunction!(spool_rejects, module)?)?;
    module.add_function(wrap_pyfunction!(around_spooled, module)?)
}
