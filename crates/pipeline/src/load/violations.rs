//! Records that are known to violate constraints of the target (see [`crate::plan::Violations`]), and the batches from
//! which they are found out.

use super::Context;
use super::explain::remedy;
use crate::plan::{Constraint, Violations};
use crate::source::locate::Complaint;
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::ops::Range;
use std::sync::Arc;
use tipple_codec::scan::Records;

/// The columns behind those of the target: the index of the source, and where in it the record begins.
const PLACE_COLUMNS: [(&str, DataType); 2] =
    [("tipple_source", DataType::Int32), ("tipple_offset", DataType::Int64)];

impl Violations {
    /// The violations in a range of a source: offset and constraint, ascending.
    pub(super) fn between(&self, source: usize, range: Range<u64>) -> impl Iterator<Item = (u64, &Constraint)> {
        self.sources.iter().filter(move |of| of.source == source).flat_map(move |of| {
            let first = of.offsets.partition_point(|&offset| offset < range.start);
            let end = of.offsets.partition_point(|&offset| offset < range.end);
            (first..end).filter_map(|index| {
                let constraint = self.constraints.get(*of.constraints.get(index)?)?;
                Some((of.offsets[index], constraint))
            })
        })
    }
}

impl Context<'_> {
    /// What is wrong with a record that violates `constraint`; `text_of` gives the text of its value in a column.
    pub(super) fn violation(
        &self,
        constraint: &Constraint,
        record: String,
        mut text_of: impl FnMut(usize) -> String,
    ) -> Complaint {
        let Constraint { reason, columns, about_key, sqlstate } = constraint;
        let reason = about_key.as_ref().map_or_else(
            || reason.clone(),
            |about| {
                let names: Vec<&str> = columns.iter().map(|&index| self.plan.columns[index].name.as_str()).collect();
                let values: Vec<String> = columns.iter().map(|&index| text_of(index)).collect();
                format!("{reason} (Key ({})=({}) {about})", names.join(", "), values.join(", "))
            },
        );
        Complaint { column: None, text: record, reason, sqlstate: sqlstate.clone(), remedy: remedy(sqlstate) }
    }
}

/// The schema of [`examined`].
pub(super) fn examined_schema(schema: &Schema, columns: &[usize]) -> SchemaRef {
    let own = columns.iter().map(|&index| schema.fields()[index].clone());
    let place = PLACE_COLUMNS.iter().map(|(name, kind)| Arc::new(Field::new(*name, kind.clone(), false)));
    Arc::new(Schema::new(own.chain(place).collect::<Vec<_>>()))
}

/// Some columns of a batch, and behind them the places of its records.
pub(super) fn examined(
    batch: &RecordBatch,
    columns: &[usize],
    source: usize,
    offsets: impl Iterator<Item = u64>,
) -> RecordBatch {
    let mut arrays: Vec<ArrayRef> = columns.iter().map(|&index| batch.column(index).clone()).collect();
    arrays.push(Arc::new(Int32Array::from_value(source as i32, batch.num_rows())));
    arrays.push(Arc::new(Int64Array::from_iter_values(offsets.map(u64::cast_signed))));
    RecordBatch::try_new(examined_schema(&batch.schema(), columns), arrays)
        .expect("every record of the batch has a place")
}

/// The numbers up to `rows` without `skipped`, which ascend.
pub(super) fn kept(rows: usize, skipped: &[usize]) -> impl Iterator<Item = usize> {
    let mut skipped = skipped.iter().copied().peekable();
    (0..rows).filter(move |&row| skipped.next_if_eq(&row).is_none())
}

/// The record that begins at `start` in its window.
pub(super) fn row_at(records: &Records<'_>, start: usize) -> usize {
    let (mut low, mut high) = (0, records.rows());
    while low < high {
        let middle = low.midpoint(high);
        if records.start(middle) < start {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
