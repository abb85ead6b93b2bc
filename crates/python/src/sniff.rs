//! Profiles of samples for Python: a dialect and bytes in, JSON out.

use crate::load::{json, parse};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use tipple_codec::dialect::Dialect;
use tipple_codec::sniff::{Chunk, Place, profile};

/// What the chunks of a sample look like when they are read in a dialect; `places_json` says where each one lies.
#[pyfunction]
fn profile_sample(
    py: Python<'_>,
    dialect_json: &str,
    places_json: &str,
    chunks: Vec<PyBackedBytes>,
) -> PyResult<String> {
    let dialect: Dialect = parse(dialect_json)?;
    let places: Vec<Place> = parse(places_json)?;
    let profile = py.detach(|| {
        let chunks: Vec<Chunk<'_>> = places
            .iter()
            .zip(&chunks)
            .map(|(place, bytes)| Chunk { bytes, file: place.file, begins: place.begins, ends: place.ends })
            .collect();
        profile(&chunks, &dialect)
    });
    json(&profile)
}

/// Adds what this file defines to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(pyo3::wrap_pyfunction!(profile_sample, module)?)
}
