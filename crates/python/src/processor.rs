//! What the processor has that libraries beside the core may need.

use pyo3::prelude::*;

/// Whether it has AVX2, or is none of those that may have it.
#[pyfunction]
fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// Adds what this file defines to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(pyo3::wrap_pyfunction!(has_avx2, module)?)
}
