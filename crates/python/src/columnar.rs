//! Columnar sources for Python: what is in a file or a stream, before a load is planned.

use crate::leaving::{Leaving, Loading};
use crate::load::{exception, json, parse};
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Mutex, PoisonError};
use tipple_pipeline::load::columnar::Stream;
use tipple_pipeline::plan::CutPlan;
use tipple_pipeline::source::columnar::imported::ImportedStream;
use tipple_pipeline::source::columnar::keys::{self, ColumnKeysPlan};
use tipple_pipeline::source::columnar::schema::{describe, describe_file};

/// The fields of every source of a cut plan, as JSON.
#[pyfunction]
fn describe_columnar(py: Python<'_>, plan_json: &str) -> PyResult<String> {
    let plan: CutPlan = parse(plan_json)?;
    let format = plan.columnar.ok_or_else(|| PyValueError::new_err("plan: the sources are not columnar"))?;
    let described = py.detach(|| plan.sources.iter().map(|source| describe_file(source, format)).collect());
    let described: Result<Vec<_>, _> = described;
    json(&described.map_err(|error| exception(&error))?)
}

/// Texts of one column of columnar sources, so many that no partition is missed; JSON in, JSON out. Ctrl-C ends it.
#[pyfunction]
#[pyo3(signature = (plan_json, stream = None))]
fn column_keys(py: Python<'_>, plan_json: &str, stream: Option<&ArrowStream>) -> PyResult<String> {
    let plan: ColumnKeysPlan = parse(plan_json)?;
    let stream = stream.map(ArrowStream::take).transpose()?;
    let mut interrupt = None;
    let found = py.detach(|| {
        keys::distinct(&plan, stream, || {
            interrupt = Python::attach(|py| py.check_signals()).err();
            interrupt.is_some()
        })
    });
    interrupt.map_or(Ok(()), Err)?;
    json(&found.map_err(|error| exception(&error))?)
}

/// A stream of Arrow batches that some library of this process makes (Arrow PyCapsule interface).
#[pyclass(frozen, module = "tipple._core")]
pub(crate) struct ArrowStream {
    /// `None` once a load has taken it.
    reader: Mutex<Option<ImportedStream>>,
    /// From then on until the load has ended.
    loading: Mutex<Option<Loading>>,
}

#[pymethods]
impl ArrowStream {
    /// The stream of an object with `__arrow_c_stream__`.
    #[new]
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { reader: Mutex::new(Some(reader_of(object)?)), loading: Mutex::default() })
    }

    /// Its fields, as JSON.
    fn fields(&self) -> PyResult<String> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = reader.as_ref().ok_or_else(taken)?;
        json(&describe(&reader.schema()))
    }

    /// The load has ended, with all that it cleans up: the interpreter need not wait for it when it ends. A stream that
    /// no load has taken is released, so that whoever gives it can give another one.
    fn close(&self) {
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.loading.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl ArrowStream {
    pub(crate) fn take(&self) -> PyResult<Stream> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reader = reader.ok_or_else(taken)?;
        *self.loading.lock().unwrap_or_else(PoisonError::into_inner) = Some(Loading::begin());
        Ok(Box::new(Leaving::new(Box::new(reader))))
    }
}

fn taken() -> PyErr {
    PyValueError::new_err("the stream was read already")
}

/// A reader of the stream that an object with `__arrow_c_stream__` gives.
pub(crate) fn reader_of(object: &Bound<'_, PyAny>) -> PyResult<ImportedStream> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a stream that nobody else reads; it is moved out and an empty one left
    // behind, as the Arrow PyCapsule interface wants it.
    let reader = unsafe { ImportedStream::from_raw(pointer.as_ptr()) };
    reader.map_err(|error| PyException::new_err(error.to_string()))
}

/// Adds what this file defines to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ArrowStream>()?;
    module.add_function(pyo3::wrap_pyfunction!(column_keys, module)?)?;
    module.add_function(pyo3::wrap_pyfunction!(describe_columnar, module)?)
}
