//! Parquet: row groups, read in batches of some thousand rows, only the columns that are wanted.

use super::intervals::{holds_intervals, joined};
use super::positioned::Positioned;
use super::schema::{EXTENSION_NAME, JSON, UUID, VARIANT};
use super::{Batches, Unit, damaged};
use crate::error::Result;
use crate::source::SourceFile;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{LogicalType, Type as PhysicalType};
use parquet::schema::types::Type;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// The key under which writers keep the Arrow schema of what they wrote.
const ARROW_SCHEMA: &str = "ARROW:schema";

/// What Arrow makes of batches.
type Joined<T> = std::result::Result<T, ArrowError>;

/// The size of a batch to aim at, before compression.
const BATCH_BYTES: u64 = 4 << 20;
/// Rows of a batch: few enough to stay in a cache, enough for its fixed costs.
const BATCH_ROWS: Range<u64> = 64..16 * 1024;

/// What a file says of itself.
#[derive(Debug)]
pub(super) struct ParquetFooter {
    metadata: ArrowReaderMetadata,
    /// Where there are intervals: the same with the months of each in place of its days and milliseconds.
    months: Option<ArrowReaderMetadata>,
    schema: SchemaRef,
}

impl ParquetFooter {
    pub(super) fn read(source: &SourceFile<'_>) -> Result<Self> {
        let file = Positioned::new(source.duplicate()?, source.planned().size);
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
        let mut metadata = metadata.map_err(|error| damaged(source, error))?;
        let claimed = metadata.metadata().file_metadata().num_rows();
        if claimed > 0 && metadata.metadata().row_groups().iter().all(|group| group.num_rows() <= 0) {
            // What claims to have no rows is not read, which would find that untrue.
            return Err(damaged(source, format!("its footer claims {claimed} rows, and its row groups have none")));
        }
        if let Some(schema) = without_odd_dictionaries(metadata.schema()) {
            metadata = with_schema(&metadata, schema).map_err(|error| damaged(source, error))?;
        }
        if let Some(schema) = wide_int96(&metadata) {
            // Where a struct has other nanoseconds beside INT96, its schema does not fit and the reader keeps its own.
            metadata = with_schema(&metadata, schema).unwrap_or(metadata);
        }
        if let Some(schema) = with_uuids_within(&metadata) {
            metadata = with_schema(&metadata, schema).unwrap_or(metadata);
        }
        let schema = with_logical_types(&metadata);
        let has_intervals = schema.fields().iter().any(|field| holds_intervals(field.data_type()));
        if !has_intervals || says_itself(&metadata) {
            return Ok(Self { metadata, months: None, schema });
        }
        let months = with_schema(&metadata, with_intervals(metadata.schema(), IntervalUnit::YearMonth));
        let months = months.map_err(|error| damaged(source, error))?;
        Ok(Self { metadata, months: Some(months), schema: with_intervals(&schema, IntervalUnit::MonthDayNano) })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub(super) fn units(&self) -> Vec<Unit> {
        let unit = |group: &parquet::file::metadata::RowGroupMetaData| Unit {
            offset: group.columns().iter().map(|column| column.byte_range().0).min().unwrap_or(0),
            bytes: group.compressed_size().max(0).cast_unsigned(),
            rows: group.num_rows().max(0).cast_unsigned(),
        };
        self.metadata.metadata().row_groups().iter().map(unit).collect()
    }

    /// The batches of some row groups; of the columns only those in `projection`, and in its order.
    pub(super) fn batches<'f>(
        &self,
        source: &'f SourceFile<'_>,
        groups: Range<usize>,
        projection: &[usize],
    ) -> Result<Batches<'f>> {
        let batches = self.read_columns(&self.metadata, source, groups.clone(), projection)?;
        let is_interval = |&root: &usize| holds_intervals(self.schema.field(root).data_type());
        let roots: Vec<usize> = projection.iter().copied().filter(is_interval).collect();
        let Some(months) = self.months.as_ref().filter(|_| !roots.is_empty()) else {
            return Ok(batches);
        };
        let schema = Arc::new(self.schema.project(projection).map_err(|error| damaged(source, error))?);
        let months = self.read_columns(months, source, groups, &roots)?;
        // Both readers cut their batches at the same rows.
        Ok(Box::new(batches.zip(months).map(move |(batch, months)| {
            with_months(&batch?, &months?, &schema).map_err(|error| damaged(source, error))
        })))
    }

    /// The batches of some row groups as `metadata`, one of this footer's, has them.
    fn read_columns<'f>(
        &self,
        metadata: &ArrowReaderMetadata,
        source: &'f SourceFile<'_>,
        groups: Range<usize>,
        projection: &[usize],
    ) -> Result<Batches<'f>> {
        let file = Positioned::new(source.duplicate()?, source.planned().size);
        let mask = ProjectionMask::roots(metadata.parquet_schema(), projection.iter().copied());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
            .with_batch_size(self.batch_rows(groups.clone()))
            .with_row_groups(groups.collect())
            .with_projection(mask)
            .build()
            .map_err(|error| damaged(source, error))?;
        // The reader gives the columns in the order of the file.
        let mut sorted = projection.to_vec();
        sorted.sort_unstable();
        let order: Vec<usize> = projection.iter().map(|index| sorted.partition_point(|other| other < index)).collect();
        let ordered = move |batch: Joined<RecordBatch>| {
            batch.and_then(|batch| batch.project(&order)).map_err(|error| damaged(source, error))
        };
        Ok(Box::new(reader.map(ordered)))
    }

    /// How many rows of some row groups make a batch.
    fn batch_rows(&self, groups: Range<usize>) -> usize {
        let chosen = &self.metadata.metadata().row_groups()[groups];
        let rows: u64 = chosen.iter().map(|group| group.num_rows().max(0).cast_unsigned()).sum();
        let bytes: u64 = chosen.iter().map(|group| group.total_byte_size().max(0).cast_unsigned()).sum();
        (BATCH_BYTES * rows / bytes.max(1)).clamp(BATCH_ROWS.start, BATCH_ROWS.end) as usize
    }
}

/// The same file, whose columns are read as `schema` has them.
fn with_schema(metadata: &ArrowReaderMetadata, schema: SchemaRef) -> parquet::errors::Result<ArrowReaderMetadata> {
    ArrowReaderMetadata::try_new(metadata.metadata().clone(), ArrowReaderOptions::new().with_schema(schema))
}

/// The file's schema, in which columns bear the name of what the reader does not see in their type: a VARIANT, which it
/// takes for a struct, UUIDs and JSON.
fn with_logical_types(metadata: &ArrowReaderMetadata) -> SchemaRef {
    let parquet = metadata.parquet_schema().root_schema().get_fields();
    let schema = metadata.schema();
    let fields = schema.fields().iter().zip(parquet).map(|(field, parquet)| {
        let name = if holds_variant(parquet) { Some(VARIANT) } else { logical_name(field, parquet) };
        let Some(name) = name else {
            return field.clone();
        };
        let mut known = field.metadata().clone();
        known.insert(EXTENSION_NAME, name);
        Arc::new(field.as_ref().clone().with_metadata(known))
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The extension type of a column of UUIDs or JSON, where the writer has not named one itself.
fn logical_name(field: &Field, kind: &Type) -> Option<&'static str> {
    if field.metadata().contains_key(EXTENSION_NAME) {
        return None;
    }
    match (kind.get_basic_info().logical_type_ref()?, field.data_type()) {
        (LogicalType::Uuid, DataType::FixedSizeBinary(16)) => Some(UUID),
        (LogicalType::Json, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Some(JSON),
        _ => None,
    }
}

/// The file's schema, in which UUIDs in lists, structs and maps are called so; `None` where there are none that need it.
fn with_uuids_within(metadata: &ArrowReaderMetadata) -> Option<SchemaRef> {
    let parquet = metadata.parquet_schema();
    let is_uuid: Vec<bool> = parquet
        .columns()
        .iter()
        .map(|leaf| matches!(leaf.self_type().get_basic_info().logical_type_ref(), Some(LogicalType::Uuid)))
        .collect();
    if !is_uuid.contains(&true) {
        return None;
    }
    let schema = metadata.schema();
    let mut leaves = is_uuid.into_iter();
    let fields = schema.fields().iter().map(|field| {
        let marked = with_uuids(field, &mut leaves);
        // Columns themselves get their names below.
        if field.data_type().is_nested() { Arc::new(marked) } else { field.clone() }
    });
    let fields: Vec<_> = fields.collect();
    let is_whole = leaves.next().is_none();
    let marked = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    (is_whole && marked != *schema).then_some(marked)
}

/// A field whose next `leaves` say whether they are UUIDs.
fn with_uuids(field: &Field, leaves: &mut impl Iterator<Item = bool>) -> Field {
    let mut within = |item: &FieldRef| Arc::new(with_uuids(item, leaves));
    let changed = match field.data_type() {
        DataType::List(item) => DataType::List(within(item)),
        DataType::LargeList(item) => DataType::LargeList(within(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(within(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(within(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(within).collect()),
        leaf => {
            let is_unnamed = *leaf == DataType::FixedSizeBinary(16) && !field.metadata().contains_key(EXTENSION_NAME);
            if !leaves.next().unwrap_or(false) || !is_unnamed {
                return field.clone();
            }
            let mut known = field.metadata().clone();
            known.insert(EXTENSION_NAME, UUID);
            return field.clone().with_metadata(known);
        }
    };
    field.clone().with_data_type(changed)
}

fn holds_variant(kind: &Type) -> bool {
    matches!(kind.get_basic_info().logical_type_ref(), Some(LogicalType::Variant(_)))
        || (kind.is_group() && kind.get_fields().iter().any(|field| holds_variant(field)))
}

/// Whether the writer says what it meant.
fn says_itself(metadata: &ArrowReaderMetadata) -> bool {
    let stated = metadata.metadata().file_metadata().key_value_metadata();
    stated.is_some_and(|all| all.iter().any(|one| one.key == ARROW_SCHEMA))
}

/// A batch of type `schema`; `months` has those of its columns with intervals in them, in their order.
fn with_months(batch: &RecordBatch, months: &RecordBatch, schema: &SchemaRef) -> Joined<RecordBatch> {
    let mut months = months.columns().iter();
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let found = if holds_intervals(field.data_type()) { months.next() } else { None };
        found.map_or_else(|| Ok(column.clone()), |months| joined(column, months, field.data_type()))
    });
    RecordBatch::try_new(schema.clone(), columns.collect::<Joined<_>>()?)
}

/// A schema whose intervals are counted in `unit`.
fn with_intervals(schema: &Schema, unit: IntervalUnit) -> SchemaRef {
    let counted = |kind: &DataType| matches!(kind, DataType::Interval(_)).then_some(DataType::Interval(unit));
    let fields = schema.fields().iter().map(|field| Arc::new(changed(field, &counted)));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The file's schema with all INT96 in microseconds; `None` where there is none, or the writer says what it meant.
///
/// INT96 holds any day of 5.8 million years and nanoseconds of the day. As nanoseconds of one number, which is what
/// readers make of it by default, the year 9999 that Spark's users write for "never" would silently become another one.
fn wide_int96(metadata: &ArrowReaderMetadata) -> Option<SchemaRef> {
    let parquet = metadata.parquet_schema();
    let is_int96 = |leaf: usize| parquet.column(leaf).physical_type() == PhysicalType::INT96;
    let roots: HashSet<usize> = (0..parquet.num_columns())
        .filter(|&leaf| is_int96(leaf))
        .map(|leaf| parquet.get_column_root_idx(leaf))
        .collect();
    if says_itself(metadata) || roots.is_empty() {
        return None;
    }
    let schema = metadata.schema();
    let fields = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(root, field)| if roots.contains(&root) { Arc::new(in_microseconds(field)) } else { field.clone() });
    Some(Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())))
}

/// The schema without those dictionaries that the reader cannot read, where there are any. Parquet has none: the writer
/// notes that its column in memory was one, and values of the plain type mean the same. Keys that were wide enough for
/// each piece that was written may be too narrow for those of a batch of several.
fn without_odd_dictionaries(schema: &Schema) -> Option<SchemaRef> {
    let plain = |kind: &DataType| match kind {
        DataType::Dictionary(_, values)
            if matches!(**values, DataType::Boolean | DataType::Float16) || values.is_decimal() =>
        {
            Some(values.as_ref().clone())
        }
        DataType::Dictionary(keys, values)
            if matches!(**keys, DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::UInt16) =>
        {
            Some(DataType::Dictionary(Box::new(DataType::Int32), values.clone()))
        }
        _ => None,
    };
    let fields: Vec<_> = schema.fields().iter().map(|field| Arc::new(changed(field, &plain))).collect();
    let same = fields.iter().zip(schema.fields()).all(|(new, old)| new == old);
    (!same).then(|| Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

fn in_microseconds(field: &Field) -> Field {
    changed(field, &|kind| match kind {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        _ => None,
    })
}

/// A field with other types for those values, and values in its values, for which `of` has one.
fn changed(field: &Field, of: &dyn Fn(&DataType) -> Option<DataType>) -> Field {
    let inner = |field: &Arc<Field>| Arc::new(changed(field, of));
    let kind = match field.data_type() {
        DataType::List(element) => DataType::List(inner(element)),
        DataType::LargeList(element) => DataType::LargeList(inner(element)),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(inner(element), *length),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => of(other).unwrap_or_else(|| other.clone()),
    };
    field.clone().with_data_type(kind)
}
