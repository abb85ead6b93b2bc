//! Records that are known to violate constraints of the target (see [`crate::plan::Violations`]), and the batches from
//! which they are found out.

use super::Context;
use super::explain::remedy;
use crate::plan::{Constraint, Target, Violations};
use crate::source::locate::Complaint;
use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use tipple_codec::scan::Records;

/// The columns behind those of the target: the index of the source, and where in it the record begins.
const PLACE_COLUMNS: [(&str, DataType); 2] = [("tipple_source", DataType::Int32), ("tipple_offset", DataType::Int64)];
/// Those behind the place, where records are wanted: the slice, the record's number in its piece, and its text.
const RECORD_COLUMNS: [(&str, DataType); 3] =
    [("tipple_slice", DataType::Int32), ("tipple_index", DataType::Int64), ("tipple_record", DataType::Binary)];

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
        let Constraint { reason, columns, about_key, about_value, sqlstate } = constraint;
        if let Some(&index) = columns.first().filter(|_| *about_value) {
            let (column, text) = (Some(self.plan.columns[index].name.clone()), text_of(index));
            let remedy = remedy(sqlstate, reason);
            let reason = format!("{reason}: \"{text}\"");
            return Complaint { column, text, reason, sqlstate: sqlstate.clone(), remedy };
        }
        let reason = about_key.as_ref().map_or_else(
            || reason.clone(),
            |about| {
                let names: Vec<&str> = columns.iter().map(|&index| self.plan.columns[index].name.as_str()).collect();
                let values: Vec<String> = columns.iter().map(|&index| text_of(index)).collect();
                format!("{reason} (Key ({})=({}) {about})", names.join(", "), values.join(", "))
            },
        );
        let remedy = remedy(sqlstate, &reason);
        Complaint { column: None, text: record, reason, sqlstate: sqlstate.clone(), remedy }
    }
}

/// What is wanted of a batch in which somebody looks for violations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'p> {
    columns: &'p [usize],
    with_records: bool,
}

/// A record of such a batch.
pub(super) struct Examined<'r> {
    /// Where it begins in its source.
    pub(super) offset: u64,
    /// Its number in the piece.
    pub(super) index: u64,
    /// Its text.
    pub(super) record: Cow<'r, [u8]>,
}

impl<'p> Wanted<'p> {
    /// What `target` wants; `None` where rows are to be stored.
    pub(super) fn of(target: &'p Target) -> Option<Self> {
        match target {
            Target::Arrow { examined: Some(columns), with_records, .. } => {
                Some(Self { columns, with_records: *with_records })
            }
            _ => None,
        }
    }

    /// Whether the records themselves are wanted.
    pub(super) fn with_records(&self) -> bool {
        self.with_records
    }

    /// The schema of [`Wanted::batch`], where stored rows have `schema`.
    pub(super) fn schema(&self, schema: &Schema) -> SchemaRef {
        let own = self.columns.iter().map(|&index| schema.fields()[index].clone());
        let others = PLACE_COLUMNS.iter().chain(RECORD_COLUMNS.iter().filter(|_| self.with_records));
        let others = others.map(|(name, kind)| Arc::new(Field::new(*name, kind.clone(), false)));
        Arc::new(Schema::new(own.chain(others).collect::<Vec<_>>()))
    }

    /// The wanted columns of `batch`, and what is wanted of its records, which come from `source` and `slice`.
    pub(super) fn batch<'r>(
        &self,
        batch: &RecordBatch,
        (source, slice): (usize, u32),
        records: impl Iterator<Item = Examined<'r>>,
    ) -> RecordBatch {
        let rows = batch.num_rows();
        let (mut offsets, mut indexes) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut texts = BinaryBuilder::new();
        for Examined { offset, index, record } in records {
            offsets.push(offset.cast_signed());
            if self.with_records {
                indexes.push(index.cast_signed());
                texts.append_value(record);
            }
        }
        let mut arrays: Vec<ArrayRef> = self.columns.iter().map(|&index| batch.column(index).clone()).collect();
        arrays.push(Arc::new(Int32Array::from_value(source as i32, rows)));
        arrays.push(Arc::new(Int64Array::from(offsets)));
        if self.with_records {
            arrays.push(Arc::new(Int32Array::from_value(slice.cast_signed(), rows)));
            arrays.push(Arc::new(Int64Array::from(indexes)));
            arrays.push(Arc::new(texts.finish()));
        }
        RecordBatch::try_new(self.schema(&batch.schema()), arrays).expect("a place for every record of the batch")
    }
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
