//! The Python module `tipple._core`: one file per verb, and no logic.

mod columnar;
mod generate;
mod leaving;
mod load;
mod processor;
mod rejects;
mod sniff;

use pyo3::prelude::*;

/// The core of Tipple. Plans go down as JSON, reports and progress come up as JSON.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    columnar::register(module)?;
    generate::register(module)?;
    leaving::register(module)?;
    load::register(module)?;
    processor::register(module)?;
    rejects::register(module)?;
    sniff::register(module)
}
