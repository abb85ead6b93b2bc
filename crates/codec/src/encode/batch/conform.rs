//! Batches of a source as batches of the target's columns, every value checked.
//!
//! What a column takes is decided once per file, by its type there and the target's ([`Step`]); a column that is
//! already what the target takes is handed on without being copied.

use super::casting::{Casting, Part, with_doubles};
use super::csv_text::{self, CsvRows};
use super::text_form::{self, EXTENSION_NAME, Form, Spelling, UUID, is_uuid, unpacked};
use super::{
    BatchProblem, Unfit, UnreadableType, alike, direct, limits, map_keys, nanoseconds, nested, strings, unpack,
};
use crate::column::{Column, ColumnType};
use crate::dialect::Dialect;
use crate::encode::arrow::{self, ArrowEncoder};
use crate::encode::copy_text::escape;
use crate::problem::ProblemKind;
use crate::scan::Scanner;
use crate::value::{self, Refusal};
use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, new_null_array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

const UUIDS_AND_BYTES: &str = "its values are UUIDs in one file, and bytes in another";

/// Who takes the batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// [`super::copy_binary`]: numbers may come as text, which has a NaN.
    CopyBinary,
    /// [`super::copy_text`]: what has no direct conversion keeps its type, for the server to read from its text.
    CopyText,
    /// An engine that takes Arrow, and casts by itself what the codec does not know.
    Arrow,
}

/// The schema in which all batches of a job are handed over, decided by the first source's. `spellings` are those of the
/// columns, as far as they are not the usual ones.
///
/// # Errors
/// The first column whose type cannot be read.
pub fn output_schema(
    source: &[Arc<Field>],
    columns: &[Column],
    spellings: &[Spelling],
    taker: Taker,
) -> Result<SchemaRef, UnreadableType> {
    let fields = source.iter().zip(columns).enumerate().map(|(index, (field, column))| {
        let from = plain_type(field, &column.kind);
        // What an engine casts by itself needs no text.
        let castable = taker == Taker::Arrow && column.kind == ColumnType::Opaque;
        if !castable && !text_form::is_writable(&from) {
            return Err(unreadable(index, &from));
        }
        let own = output_type(&from, &column.kind, taker);
        let keeps_nanoseconds = spellings.get(index).is_some_and(|spelling| spelling.nanoseconds);
        let output = if castable { nanoseconds::counted(&own, keeps_nanoseconds) } else { own };
        let output = Field::new(&column.name, output, !column.not_null);
        // Who casts by himself would take bare bytes for bytes.
        Ok(if column.kind == ColumnType::Opaque && is_uuid(field) { called_uuids(output) } else { output })
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>, _>>()?)))
}

/// The type of a field without dictionaries and the like, and what says nothing of its values. Where an engine casts them,
/// writers also agree on what they say of UUIDs in it.
fn plain_type(field: &Field, kind: &ColumnType) -> DataType {
    let plain = unpacked(field.data_type());
    alike::plainly_nested(&if *kind == ColumnType::Opaque { with_uuids_named(&plain) } else { plain })
}

fn with_uuids_named(data_type: &DataType) -> DataType {
    nested::with_fields(data_type, |field| {
        let field = field.clone().with_data_type(with_uuids_named(field.data_type()));
        if is_uuid(&field) { called_uuids(field) } else { field }
    })
}

/// A field whose bytes are called UUIDs, and nothing else is said of.
fn called_uuids(field: Field) -> Field {
    field.with_metadata(HashMap::from([(EXTENSION_NAME.to_owned(), UUID.to_owned())]))
}

fn unreadable(column: usize, data_type: &DataType) -> UnreadableType {
    UnreadableType { column, reason: format!("values of the type {data_type} cannot be read") }
}

fn output_type(from: &DataType, kind: &ColumnType, taker: Taker) -> DataType {
    let own = arrow::data_type(kind);
    if taker == Taker::CopyText {
        // No server has these types: one is named where the server would read other numbers than are written.
        let is_read = matches!(kind, ColumnType::Integer { .. }) || is_read_as_text(kind) && strings::is_string(from);
        let keeps = !is_read && (*kind == ColumnType::Opaque || (*from != own && direct::find(from, &own).is_none()));
        return if keeps && *from != DataType::Null { from.clone() } else { own };
    }
    let is_number = from.is_integer()
        || matches!(from, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..));
    match kind {
        ColumnType::Opaque if taker == Taker::Arrow && *from != DataType::Null => from.clone(),
        ColumnType::Text | ColumnType::Varchar { .. } | ColumnType::Char { .. } if strings::is_string(from) => {
            from.clone()
        }
        ColumnType::Decimal if taker == Taker::CopyBinary && is_number => match from {
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
                if *scale >= 0 { DataType::Decimal128(38, *scale) } else { own }
            }
            _ => DataType::Decimal128(38, 0),
        },
        ColumnType::Numeric { .. } if taker == Taker::CopyBinary && !is_number => DataType::Utf8,
        _ => own,
    }
}

/// Whether a text of any kind is handed over as it is.
fn is_any_text(kind: &ColumnType) -> bool {
    matches!(
        kind,
        ColumnType::Text
            | ColumnType::Varchar { .. }
            | ColumnType::Char { .. }
            | ColumnType::Numeric { .. }
            | ColumnType::Decimal
            | ColumnType::Opaque
    )
}

/// Labels, UUIDs and the like are handed over as text, once they have been found to be such.
fn is_read_as_text(kind: &ColumnType) -> bool {
    strings::is_string(&arrow::data_type(kind)) && !is_any_text(kind)
}

/// What has to be done to a column.
enum Step {
    /// Nothing.
    Same,
    /// All its values are NULL.
    Nulls,
    /// Text is text, if it is: checked and fitted.
    Strings,
    /// Another Arrow type.
    Direct(direct::Convert),
    /// The same with microseconds, if nothing is lost.
    Microseconds,
    /// Its text is what the target takes.
    ToText,
    /// Its text is read as a field of a file would be.
    Reread(Box<FieldReader>),
}

struct Way {
    /// The type without dictionaries, where it has some.
    unpack: Option<DataType>,
    /// The type whose text is the value that is stored, where that is another one.
    told_as: Option<DataType>,
    spelling: Spelling,
    step: Step,
    /// What is stored of moments, where that is not all.
    part: Option<Part>,
    /// Whether some values of its type are none for any target.
    is_limited: bool,
    /// Whether the keys of its maps must differ.
    unique_keys: bool,
    /// Whether there are texts within lists and structs that nobody else has looked at.
    has_unread_texts: bool,
}

/// Conforms the batches of one source file to the job's schema.
pub struct Conformer {
    columns: Vec<Column>,
    ways: Vec<Way>,
    schema: SchemaRef,
}

impl std::fmt::Debug for Conformer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Conformer").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Conformer {
    /// From the fields of a source, one per target column, to `schema`, which [`output_schema`] has made.
    ///
    /// # Errors
    /// The first column that cannot be converted.
    pub fn new(
        source: &[Arc<Field>],
        columns: &[Column],
        spellings: &[Spelling],
        schema: SchemaRef,
    ) -> Result<Self, UnreadableType> {
        let ways = source.iter().zip(columns).enumerate().map(|(index, (field, column))| {
            let to = schema.field(index).data_type();
            let own = plain_type(field, &column.kind);
            let from = if alike::holds(to, &own) { to.clone() } else { own };
            let says_what_bytes_are = column.kind == ColumnType::Opaque && from != DataType::Null;
            if says_what_bytes_are && is_uuid(field) != is_uuid(schema.field(index)) {
                return Err(UnreadableType { column: index, reason: UUIDS_AND_BYTES.into() });
            }
            let is_double = column.kind == ColumnType::Float8;
            let unpack = (from != *field.data_type()).then(|| from.clone());
            let step = choose(index, &from, to, column)?;
            Ok(Way {
                has_unread_texts: matches!(step, Step::Same | Step::Microseconds) && strings::are_within(to),
                step,
                part: None,
                told_as: if is_double { Some(with_doubles(&from)) } else { unpack.clone() },
                is_limited: limits::concern(to),
                unique_keys: false,
                spelling: spelling(field, &column.kind, spellings.get(index)),
                unpack,
            })
        });
        Ok(Self { ways: ways.collect::<Result<_, _>>()?, columns: columns.to_vec(), schema })
    }

    /// The same for a target that makes this of the columns which it converts by itself.
    #[must_use]
    pub fn for_castings<'c>(mut self, source: &[Arc<Field>], castings: impl IntoIterator<Item = &'c Casting>) -> Self {
        for ((way, column), (field, casting)) in
            self.ways.iter_mut().zip(&self.columns).zip(source.iter().zip(castings))
        {
            if column.kind == ColumnType::Opaque {
                way.part = casting.part.clone();
                way.unique_keys = casting.unique_keys;
                if casting.doubles {
                    way.told_as = Some(with_doubles(&unpacked(field.data_type())));
                }
            }
        }
        self
    }

    /// The columns of `batch`, which are in the order of the target's, as the target takes them.
    ///
    /// # Errors
    /// The value in the first row that has one that cannot be stored.
    pub fn conform(&mut self, batch: &RecordBatch) -> Result<RecordBatch, BatchProblem> {
        let mut arrays = Vec::with_capacity(self.ways.len());
        let mut first: Option<BatchProblem> = None;
        for (index, (array, way)) in batch.columns().iter().zip(&mut self.ways).enumerate() {
            let to = self.schema.field(index).data_type();
            match way.convert(array, to, &self.columns[index]).and_then(|array| way.within_limits(array)) {
                Ok(array) => arrays.push(array),
                Err((row, unfit)) if first.as_ref().is_none_or(|problem| row < problem.row) => {
                    first = Some(BatchProblem { row, column: index, unfit });
                }
                Err(_) => {}
            }
        }
        if let Some(problem) = first {
            return Err(problem);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .expect("columns were converted to the types of the schema, and have no forbidden NULL"))
    }

    /// The rows of `batch` that can be stored, as the target takes them; `refuse` gets the others. Gives the rows that
    /// are kept, where they are not all.
    ///
    /// Only the first bad row of a run of rows is known, and a run is converted as a whole. So runs become shorter with
    /// every bad row and longer with every good run: few bad rows cost little, and many no more than one conversion of
    /// a short run each.
    ///
    /// # Errors
    /// What `refuse` says.
    pub fn conform_skipping<E>(
        &mut self,
        batch: &RecordBatch,
        mut refuse: impl FnMut(&BatchProblem) -> Result<(), E>,
    ) -> Result<(RecordBatch, Option<Vec<usize>>), E> {
        let rows = batch.num_rows();
        let (mut parts, mut kept, mut first, mut run) = (Vec::new(), Vec::new(), 0, rows.max(1));
        while first < rows {
            let length = run.min(rows - first);
            match self.conform(&batch.slice(first, length)) {
                Ok(part) if length == rows => return Ok((part, None)),
                Ok(part) => {
                    parts.push(part);
                    kept.extend(first..first + length);
                    first += length;
                    run *= 2;
                }
                Err(problem) if problem.row > 0 => run = problem.row,
                Err(problem) => {
                    refuse(&BatchProblem { row: first, ..problem })?;
                    first += 1;
                    run = (run / 4).max(1);
                }
            }
        }
        let whole = arrow_select::concat::concat_batches(&self.schema, &parts)
            .expect("all parts have the schema, and together no more than the batch");
        Ok((whole, Some(kept)))
    }

    /// The text of a value, for a message.
    #[must_use]
    pub fn value_text(&self, batch: &RecordBatch, row: usize, column: usize) -> Vec<u8> {
        let way = &self.ways[column];
        let text = csv_text::text_of(batch.column(column), row, way.unpack.as_ref(), way.spelling);
        text.unwrap_or_else(|| b"NULL".to_vec())
    }

    /// What writes rows of the source's batches as text.
    #[must_use]
    pub fn csv_rows(&self) -> CsvRows {
        CsvRows { columns: self.ways.iter().map(|way| (way.told_as.clone(), way.spelling)).collect() }
    }
}

/// `batch` without some rows.
#[must_use]
pub fn without_rows(batch: &RecordBatch, left_out: &[usize]) -> RecordBatch {
    let mut keep = vec![true; batch.num_rows()];
    for &row in left_out {
        keep[row] = false;
    }
    arrow_select::filter::filter_record_batch(batch, &BooleanArray::from(keep)).expect("an entry for every row")
}

/// How a field's values are spelled: an extension type says what its bytes are.
pub(super) fn spelling(field: &Field, kind: &ColumnType, wanted: Option<&Spelling>) -> Spelling {
    let Spelling { form, items, nanoseconds, .. } = wanted.copied().unwrap_or_default();
    let form = if is_uuid(field) && form == Form::Plain { Form::Uuid } else { form };
    let is_text = matches!(kind, ColumnType::Text | ColumnType::Varchar { .. } | ColumnType::Char { .. });
    Spelling { form, items, nanoseconds: nanoseconds || is_text, exact: counts_in_tens(kind) }
}

/// Whether the column, or each of its items, is a number that is no float.
fn counts_in_tens(kind: &ColumnType) -> bool {
    match kind {
        ColumnType::Array(array) => counts_in_tens(&array.element),
        ColumnType::Int2
        | ColumnType::Int4
        | ColumnType::Int8
        | ColumnType::Integer { .. }
        | ColumnType::Numeric { .. }
        | ColumnType::Decimal => true,
        _ => false,
    }
}

fn choose(index: usize, from: &DataType, to: &DataType, column: &Column) -> Result<Step, UnreadableType> {
    if *from == DataType::Null {
        return Ok(Step::Nulls);
    }
    let reread_type = arrow::data_type(&column.kind);
    let is_read = strings::is_string(to) && is_read_as_text(&column.kind);
    if strings::is_string(from) && strings::is_string(to) && is_any_text(&column.kind) {
        return Ok(Step::Strings);
    }
    // A decimal's digits are counted, whatever its type promises.
    let is_decimal = matches!(to, DataType::Decimal64(..) | DataType::Decimal128(..));
    // What an engine casts by itself keeps its type, but for the unit.
    let is_counted = || [true, false].iter().any(|&kept| nanoseconds::counted(from, kept) == *to);
    if column.kind == ColumnType::Opaque && nanoseconds::may_be_lost(from) && is_counted() {
        return Ok(Step::Microseconds);
    }
    if from == to && !is_decimal && !is_read {
        return Ok(Step::Same);
    }
    // Who casts by himself must be given the value that the file has.
    let is_direct = column.kind != ColumnType::Opaque || direct::keeps(from, to);
    if let Some(convert) = direct::find(from, to).filter(|_| is_direct) {
        return Ok(Step::Direct(convert));
    }
    if from == to && !is_read {
        return Ok(Step::Same);
    }
    if *to != reread_type && !strings::is_string(to) {
        let reason = if alike::has_uuids(from) == alike::has_uuids(to) {
            let order = if alike::holds(from, to) { "load this file before that one" } else { "load them one by one" };
            format!("it has the type {from} in this file, but {to} in the first: {order}")
        } else {
            UUIDS_AND_BYTES.into()
        };
        return Err(UnreadableType { column: index, reason });
    }
    if !text_form::is_writable(from) {
        return Err(unreadable(index, from));
    }
    Ok(if strings::is_string(to) && !is_read { Step::ToText } else { Step::Reread(Box::new(FieldReader::new(column))) })
}

impl Way {
    fn unpack(&self, array: &ArrayRef) -> Result<ArrayRef, (usize, Unfit)> {
        match &self.unpack {
            // The values stay what they are; only a key that its dictionary does not have is none.
            Some(plain) => unpack::unpack(array, plain).map_err(|_| (0, Refusal::InvalidSyntax.into())),
            None => Ok(array.clone()),
        }
    }

    /// A converted column, unless a value of it is none for the target.
    fn within_limits(&self, array: ArrayRef) -> Result<ArrayRef, (usize, Unfit)> {
        let outside = self.is_limited.then(|| limits::first_outside(array.as_ref())).flatten();
        let ambiguous = self.unique_keys.then(|| map_keys::first_ambiguous(array.as_ref())).flatten();
        let garbled = self.has_unread_texts.then(|| strings::first_garbled(array.as_ref())).flatten();
        let found = [
            outside.map(|row| (row, Refusal::OutOfRange)),
            ambiguous.map(|row| (row, Refusal::MapKeys)),
            garbled.map(|row| (row, Refusal::InvalidEncoding)),
        ];
        match found.into_iter().flatten().min_by_key(|(row, _)| *row) {
            Some((row, refusal)) => Err((row, refusal.into())),
            None => Ok(array),
        }
    }

    fn convert(&mut self, array: &ArrayRef, to: &DataType, column: &Column) -> Result<ArrayRef, (usize, Unfit)> {
        let array = self.unpack(array)?;
        let lost = self.part.as_ref().and_then(|part| part.first_lost(array.as_ref()));
        let nulls_only = matches!(self.step, Step::Nulls);
        let first_null = if nulls_only {
            (!array.is_empty()).then_some(0)
        } else if array.null_count() > 0 {
            array.nulls().and_then(|nulls| (0..array.len()).find(|&row| nulls.is_null(row)))
        } else {
            None
        };
        let converted = match &mut self.step {
            Step::Nulls => Ok(new_null_array(to, array.len())),
            Step::Same => Ok(array),
            Step::Strings => text(array, to, &column.kind),
            Step::Direct(convert) => convert(array.as_ref(), to),
            Step::Microseconds => nanoseconds::convert(&array, to),
            Step::ToText => to_text(array.as_ref(), self.spelling).and_then(|texts| text(texts, to, &column.kind)),
            Step::Reread(reader) => reader.read(array.as_ref(), self.spelling),
        };
        let converted = converted.and_then(|array| rounded(array, &column.kind));
        let converted = match (converted, lost) {
            (Err((row, unfit)), Some((first, _))) if row < first => Err((row, unfit)),
            (_, Some((row, loss))) => Err((row, loss.into())),
            (converted, None) => converted,
        };
        match first_null.filter(|_| column.not_null) {
            Some(null) => match converted {
                Err((row, unfit)) if row < null => Err((row, unfit)),
                _ => Err((null, Refusal::NullNotAllowed.into())),
            },
            None => converted,
        }
    }
}

/// Moments with the digits of a second that the column keeps, rounded as those of a text are.
fn rounded(array: ArrayRef, kind: &ColumnType) -> Result<ArrayRef, (usize, Unfit)> {
    let (ColumnType::Timestamp { precision } | ColumnType::TimestampTz { precision, .. }) = kind else {
        return Ok(array);
    };
    let Some(moments) = array.as_primitive_opt::<TimestampMicrosecondType>().filter(|_| *precision < 6) else {
        return Ok(array);
    };
    let rounded = direct::map_array::<TimestampMicrosecondType, TimestampMicrosecondType>(moments, |micros| {
        // The ends of the range are infinities.
        if micros.checked_abs().is_none_or(|size| size == i64::MAX) {
            return Ok(micros);
        }
        let since_2000 = micros.checked_sub(value::UNIX_EPOCH_MICROS);
        let rounded = since_2000.and_then(|micros| value::timestamp::round(micros, *precision).ok());
        let since_1970 = rounded.and_then(|micros| micros.checked_add(value::UNIX_EPOCH_MICROS));
        since_1970.ok_or_else(|| Refusal::OutOfRange.into())
    })?;
    Ok(Arc::new(rounded.with_timezone_opt(moments.timezone())))
}

/// Checks text and fits it to its column.
fn text(array: ArrayRef, to: &DataType, kind: &ColumnType) -> Result<ArrayRef, (usize, Unfit)> {
    if let Some(row) = strings::check(array.as_ref()) {
        return Err((row, Refusal::InvalidEncoding.into()));
    }
    let fitted = strings::fit(&array, kind).map_err(|(row, refusal)| (row, Unfit::from(refusal)))?;
    if fitted.data_type() == to {
        return Ok(fitted);
    }
    // One kind of string to another; only more than 2 GB in one batch do not fit.
    arrow_cast::cast(&fitted, to).map_err(|_| (0, Refusal::OutOfRange.into()))
}

/// The texts of all values, not yet checked to be text: bytes may be among them.
fn to_text(array: &dyn Array, spelling: Spelling) -> Result<ArrayRef, (usize, Unfit)> {
    let mut builder = BinaryBuilder::with_capacity(array.len(), array.len() * 16);
    let mut text = Vec::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
            continue;
        }
        text.clear();
        text_form::write(array, row, spelling, &mut text).map_err(|loss| (row, loss.into()))?;
        if !strings::is_text(&text) {
            return Err((row, Refusal::InvalidEncoding.into()));
        }
        builder.append_value(&text);
    }
    let bytes: BinaryArray = builder.finish();
    let (offsets, values, nulls) = bytes.into_parts();
    let texts = StringArray::try_new(offsets, values, nulls).map_err(|_| (0, Refusal::InvalidEncoding.into()))?;
    Ok(Arc::new(texts))
}

/// Reads values by their text, as a file of one column: so that they mean what they mean in a file.
struct FieldReader {
    scanner: Scanner,
    encoder: ArrowEncoder,
    window: Vec<u8>,
}

impl FieldReader {
    fn new(column: &Column) -> Self {
        // Whether NULL is allowed is known before; the reader is only asked about values.
        let column = Column { not_null: false, ..column.clone() };
        let dialect = Dialect::text();
        Self {
            scanner: Scanner::new(dialect.clone(), 1),
            encoder: ArrowEncoder::new(vec![column], dialect),
            window: Vec::new(),
        }
    }

    fn read(&mut self, array: &dyn Array, spelling: Spelling) -> Result<ArrayRef, (usize, Unfit)> {
        self.window.clear();
        let mut text = Vec::new();
        let mut lossy = None;
        for row in 0..array.len() {
            text.clear();
            if array.is_null(row) {
                self.window.extend_from_slice(b"\\N\n");
                continue;
            }
            if let Err(loss) = text_form::write(array, row, spelling, &mut text) {
                lossy = Some((row, loss.into()));
                break;
            }
            escape(&text, &mut self.window);
            self.window.push(b'\n');
        }
        let records = self.scanner.scan(&self.window);
        let (batch, encoded) = self.encoder.encode(&records);
        if let Some(problem) = encoded.problem {
            let refusal = match problem.kind {
                ProblemKind::Value { refusal, .. } => refusal,
                ProblemKind::Structure(_) => Refusal::InvalidSyntax,
            };
            return Err((problem.row, refusal.into()));
        }
        match lossy {
            Some(lossy) => Err(lossy),
            None => Ok(batch.column(0).clone()),
        }
    }
}
