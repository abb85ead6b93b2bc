//! The Python module `tipple._core`.
use pyo3::prelude::*;

#[pymodule]
fn _core(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
