//! The verb `load` for Python: cutting sources, running a load, digesting what a target holds.
//!
//! JSON in, JSON out; a failure is a [`CoreError`] whose only argument is the error's JSON form.

use crate::columnar::{self, ArrowStream};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;
use tipple_codec::dialect::Dialect;
use tipple_codec::digest::{RowDigest, of_batch};
use tipple_pipeline::error::Error;
use tipple_pipeline::load::LoadJob as Job;
use tipple_pipeline::plan::{CutPlan, FIRST_PART_N, LoadPlan, OFFSET_BITS, STDIN, Source};
use tipple_pipeline::source::stdin::{self, Peeked};
use tipple_pipeline::source::{cut, encoding, head, keys};
use tipple_pipeline::verify::{VerifyJob as Verification, VerifyPlan};

create_exception!(
    _core,
    CoreError,
    PyException,
    "A failed job. Its only argument is a JSON object whose `kind` says what else it holds."
);

/// Cuts the sources of a plan into slices of whole records; JSON in, JSON out.
#[pyfunction]
fn cut_sources(py: Python<'_>, plan_json: &str) -> PyResult<String> {
    let plan: CutPlan = parse(plan_json)?;
    json(&py.detach(|| cut::cut(&plan)).map_err(|error| exception(&error))?)
}

/// A sample of the texts of one column of the sources; JSON in, JSON out.
#[pyfunction]
fn sample_keys(py: Python<'_>, plan_json: &str) -> PyResult<String> {
    let plan: keys::KeysPlan = parse(plan_json)?;
    json(&py.detach(|| keys::sample(&plan)).map_err(|error| exception(&error))?)
}

/// The first bytes of standard input, at least so many if it has them; they will be read again. Ctrl-C ends the wait.
#[pyfunction]
fn peek_stdin<'py>(py: Python<'py>, wanted_bytes: usize) -> PyResult<Bound<'py, PyBytes>> {
    loop {
        let peeked = py.detach(|| stdin::peek(wanted_bytes, Duration::from_millis(200)));
        if peeked.map_err(|error| exception(&Error::file(Path::new(STDIN), "read it", &error)))? == Peeked::Enough {
            return Ok(PyBytes::new(py, &stdin::peeked()));
        }
        py.check_signals()?;
    }
}

/// Text from the beginning of a source that is read as a stream, at least so many bytes if it has them.
#[pyfunction]
fn read_head<'py>(
    py: Python<'py>,
    source_json: &str,
    dialect_json: &str,
    wanted_bytes: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let source: Source = parse(source_json)?;
    let dialect: Dialect = parse(dialect_json)?;
    let head = py.detach(|| head::head(&source, &dialect, wanted_bytes)).map_err(|error| exception(&error))?;
    Ok(PyBytes::new(py, &head))
}

/// Whether there is an encoding of this name, and whether it is UTF-8; None or a boolean.
#[pyfunction]
fn is_utf8_name(name: &str) -> Option<bool> {
    encoding::find(name).map(|named| named == encoding::Named::Utf8)
}

/// A load that runs on threads of its own.
#[pyclass(frozen, module = "tipple._core")]
struct LoadJob {
    job: Job,
}

#[pymethods]
impl LoadJob {
    /// Starts the job that a plan in JSON describes, over a stream where the plan's sources are one.
    #[staticmethod]
    #[pyo3(signature = (plan_json, stream = None))]
    fn start(py: Python<'_>, plan_json: &str, stream: Option<&ArrowStream>) -> PyResult<Self> {
        let plan: LoadPlan = parse(plan_json)?;
        if plan.columnar.is_none() {
            return Ok(Self { job: Job::start(plan) });
        }
        let stream = stream.map(ArrowStream::take).transpose()?;
        let job = py.detach(|| Job::start_columnar(plan, stream)).map_err(|error| exception(&error))?;
        Ok(Self { job })
    }

    /// A snapshot of where the job stands, as JSON.
    fn progress(&self) -> PyResult<String> {
        json(&self.job.snapshot())
    }

    /// Waits until the job has ended or the time has passed, and says whether it has ended.
    fn wait(&self, py: Python<'_>, timeout_seconds: f64) -> PyResult<bool> {
        let limit = seconds(timeout_seconds)?;
        Ok(py.detach(|| self.job.wait(limit)).is_some())
    }

    /// Asks the job to stop; it ends within a second.
    fn cancel(&self) {
        self.job.cancel();
    }

    /// The outcome as JSON, or None while the job runs.
    fn result(&self) -> PyResult<Option<String>> {
        outcome(self.job.wait(Duration::ZERO))
    }

    /// The batches of a load into an embedded engine (Arrow PyCapsule interface). Streams share the batches among
    /// them; one that only asks for the schema takes none.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore the request.
        let _ignored = requested_schema;
        let batches = self.job.batches().ok_or_else(|| PyRuntimeError::new_err("this load makes no batches"))?;
        PyCapsule::new_with_value(py, batches.stream(), c"arrow_array_stream")
    }
}

/// A comparison of what a server holds, on threads of its own.
#[pyclass(frozen, module = "tipple._core")]
struct VerifyJob {
    job: Verification,
}

#[pymethods]
impl VerifyJob {
    /// Starts reading back the rows that a plan in JSON describes.
    #[staticmethod]
    fn start(plan_json: &str) -> PyResult<Self> {
        let plan: VerifyPlan = parse(plan_json)?;
        Ok(Self { job: Verification::start(plan) })
    }

    /// Waits until the job has ended or the time has passed, and says whether it has ended.
    fn wait(&self, py: Python<'_>, timeout_seconds: f64) -> PyResult<bool> {
        let limit = seconds(timeout_seconds)?;
        Ok(py.detach(|| self.job.wait(limit)).is_some())
    }

    /// Asks the job to stop; it ends within a second.
    fn cancel(&self) {
        self.job.cancel();
    }

    /// Rows and digest as JSON, or None while the job runs.
    fn result(&self) -> PyResult<Option<String>> {
        outcome(self.job.wait(Duration::ZERO))
    }
}

/// Rows and digest, as JSON, of all batches of an object with `__arrow_c_stream__`, over the columns whose entry in
/// `digested` is true.
#[pyfunction]
fn digest_arrow_stream(py: Python<'_>, stream: &Bound<'_, PyAny>, digested: Vec<bool>) -> PyResult<String> {
    let mut reader = columnar::reader_of(stream)?;
    let digest = py.detach(move || {
        reader.try_fold(RowDigest::default(), |digest, batch| {
            let batch = batch.map_err(|error| error.to_string())?;
            let of_batch = of_batch(&batch, &digested).map_err(|error| format!("no digest of {}", error.0))?;
            Ok::<_, String>(digest.plus(of_batch))
        })
    });
    let digest = digest.map_err(PyException::new_err)?;
    Ok(serde_json::json!({ "rows": digest.rows, "digest": format!("{:032x}", digest.sum) }).to_string())
}

fn outcome<T: Serialize>(outcome: Option<Result<T, Error>>) -> PyResult<Option<String>> {
    match outcome {
        None => Ok(None),
        Some(Ok(outcome)) => json(&outcome).map(Some),
        Some(Err(error)) => Err(exception(&error)),
    }
}

fn seconds(timeout_seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(timeout_seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}

pub(crate) fn parse<T: DeserializeOwned>(plan_json: &str) -> PyResult<T> {
    serde_json::from_str(plan_json).map_err(|error| PyValueError::new_err(format!("plan: {error}")))
}

pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyException::new_err(error.to_string()))
}

pub(crate) fn exception(error: &Error) -> PyErr {
    match json(error) {
        Ok(json) => CoreError::new_err(json),
        Err(error) => error,
    }
}

/// Adds what this file defines to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CoreError", module.py().get_type::<CoreError>())?;
    module.add("FIRST_PART_N", FIRST_PART_N)?;
    module.add("OFFSET_BITS", OFFSET_BITS)?;
    module.add_class::<LoadJob>()?;
    module.add_class::<VerifyJob>()?;
    module.add_function(pyo3::wrap_pyfunction!(cut_sources, module)?)?;
    module.add_function(pyo3::wrap_pyfunction!(sample_keys, module)?)?;
    module.add_function(pyo3::wrap_pyfunction!(peek_stdin, module)?)?;
    module.add_function(pyo3::wrap_pyfunction!(read_head, module)?)?;
    module.add_function(pyo3::wrap_pyfunction!(is_utf8_name, module)?)?;
    module.add_function(pyo3::wrap_pyfunction!(digest_arrow_stream, module)?)
}
