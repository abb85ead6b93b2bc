//! `GenerateJob`: the verb `generate` for Python.
//!
//! JSON in, JSON out; a failure is a [`GenerateFailed`] whose only argument is the error's JSON form.

use std::time::Duration;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde::Serialize;
use tipple_pipeline::generate::{GenerateError, Job, Plan};

create_exception!(
    _core,
    GenerateFailed,
    PyException,
    "A failed generation. Its only argument is a JSON object: kind (usage, failed or interrupted), message, hint, file."
);

/// A generation that runs on threads of its own.
#[pyclass(frozen, module = "tipple._core")]
struct GenerateJob {
    job: Job,
}

#[pymethods]
impl GenerateJob {
    /// Starts a job from the JSON form of a plan.
    #[staticmethod]
    fn start(py: Python<'_>, plan_json: &str) -> PyResult<Self> {
        let started = py.detach(|| Plan::from_json(plan_json).and_then(Job::start));
        started.map(|job| Self { job }).map_err(|error| exception(&error))
    }

    /// A snapshot of where the job stands, as JSON.
    fn progress(&self) -> PyResult<String> {
        json(&self.job.progress())
    }

    /// Waits until the job has ended or the time has passed, and says whether it has ended.
    fn wait(&self, py: Python<'_>, timeout_seconds: f64) -> PyResult<bool> {
        let timeout = Duration::try_from_secs_f64(timeout_seconds)
            .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
        Ok(py.detach(|| self.job.wait(timeout)))
    }

    /// Asks the job to stop; it ends soon and leaves no file.
    fn cancel(&self) {
        self.job.cancel();
    }

    /// The report as JSON, or None while the job runs.
    fn result(&self) -> PyResult<Option<String>> {
        match self.job.outcome() {
            None => Ok(None),
            Some(Ok(report)) => json(&report).map(Some),
            Some(Err(error)) => Err(exception(&error)),
        }
    }
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyException::new_err(error.to_string()))
}

fn exception(error: &GenerateError) -> PyErr {
    match json(error) {
        Ok(json) => GenerateFailed::new_err(json),
        Err(error) => error,
    }
}

/// Adds what this file defines to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("GenerateFailed", module.py().get_type::<GenerateFailed>())?;
    module.add_class::<GenerateJob>()
}
