//! How columnar sources are read.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Field};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tipple_codec::encode::batch::casting::Casting;
use tipple_codec::encode::batch::text_form::Spelling;
use tipple_codec::encode::batch::zoneless;

/// How columnar sources are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnarFormat {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, as a file or as a stream.
    Arrow,
    /// An Arrow C stream of this process.
    Memory,
}

/// How columnar sources are read.
#[derive(Debug, Clone, Deserialize)]
pub struct ColumnarPlan {
    /// How they are written.
    pub format: ColumnarFormat,
    /// Per column of the plan: the field that it comes from.
    pub fields: Vec<FieldPlan>,
}

impl ColumnarPlan {
    /// How the values of each column are spelled.
    #[must_use]
    pub fn spellings(&self) -> Vec<Spelling> {
        self.fields.iter().map(|field| field.spelling).collect()
    }
}

/// The field of a columnar source that a column comes from.
#[derive(Debug, Clone, Deserialize)]
pub struct FieldPlan {
    /// Its name.
    pub name: String,
    /// How its values are spelled where they go as text, and whether the target keeps nanoseconds.
    #[serde(flatten)]
    pub spelling: Spelling,
    /// What the target makes of values that it converts by itself.
    #[serde(flatten)]
    pub casting: Casting,
}

impl FieldPlan {
    /// A field of a source as it is handed on.
    #[must_use]
    pub fn field(&self, own: &Arc<Field>) -> Arc<Field> {
        if self.casting.without_zone { Arc::new(zoneless::field(own)) } else { own.clone() }
    }

    /// A batch with these fields as it is handed on.
    ///
    /// # Errors
    /// An array that is no valid one of its type.
    pub fn batch(fields: &[Self], own: RecordBatch) -> std::result::Result<RecordBatch, ArrowError> {
        zoneless::batch(own, fields.iter().map(|field| field.casting.without_zone))
    }
}
