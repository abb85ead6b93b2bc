//! Columnar source files: what is in them, how they are cut, and their batches.
//!
//! A slice is a range of bytes here too: it holds the row groups or record batches that begin in it. What it costs to
//! read one is in the file's footer, which a stream keeps for as long as its slices come from the same file.

pub mod cut;
pub mod imported;
mod in_path;
mod intervals;
mod ipc;
pub mod keys;
mod parquet;
mod positioned;
pub mod schema;

use self::in_path::{Arrangement, with_path_columns};
use super::SourceFile;
use crate::error::{Error, Result};
use crate::panics::quietly;
use crate::plan::{ColumnarFormat, FieldPlan, Piece, Source};
use arrow_array::RecordBatch;
use arrow_schema::{Field, SchemaRef};
use std::sync::Arc;

/// Something in a source that is read as a whole: a row group or a record batch.
#[derive(Debug, Clone, Copy)]
struct Unit {
    /// Where it begins in the file.
    offset: u64,
    /// How many bytes it has.
    bytes: u64,
    /// How many rows.
    rows: u64,
}

/// An open columnar file.
#[derive(Debug)]
pub struct ColumnarFile<'p> {
    source: SourceFile<'p>,
    footer: Footer,
    /// What is read as a whole, in the order of the file.
    units: Vec<Unit>,
}

#[derive(Debug)]
enum Footer {
    Parquet(parquet::ParquetFooter),
    Ipc(ipc::IpcFooter),
}

/// Batches of a piece, in the order of the plan's columns.
pub type Batches<'f> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'f>;

impl<'p> ColumnarFile<'p> {
    /// Opens a file and reads what it says of itself.
    ///
    /// # Errors
    /// Where it cannot be read, has changed, or is not in this format.
    pub fn open(planned: &'p Source, format: ColumnarFormat) -> Result<Self> {
        let source = SourceFile::open(planned)?;
        let (footer, units) = guarded(&source, || match format {
            ColumnarFormat::Parquet => {
                let footer = parquet::ParquetFooter::read(&source)?;
                let units = footer.units();
                Ok((Footer::Parquet(footer), units))
            }
            ColumnarFormat::Arrow => {
                let footer = ipc::IpcFooter::read(&source)?;
                let units = footer.units();
                Ok((Footer::Ipc(footer), units))
            }
            ColumnarFormat::Memory => {
                Err(Error::Internal { message: "a stream in memory cannot be opened as a file".into() })
            }
        })?;
        Ok(Self { source, footer, units })
    }

    /// The fields of its records.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let own = match &self.footer {
            Footer::Parquet(footer) => footer.schema(),
            Footer::Ipc(footer) => footer.schema(),
        };
        with_path_columns(&own, &self.source.planned().path_columns)
    }

    /// Checks that the file is still what it was when the job was planned.
    ///
    /// # Errors
    /// Where it is not.
    pub fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }

    /// Whether it can be read from the middle.
    fn can_be_cut(&self) -> bool {
        let in_order = self.units.windows(2).all(|pair| pair[0].offset < pair[1].offset);
        in_order && !matches!(&self.footer, Footer::Ipc(footer) if footer.must_be_read_in_order())
    }

    /// The indices of the fields that a plan wants, in its order.
    fn projection(&self, fields: &[FieldPlan]) -> Result<Vec<usize>> {
        let schema = self.schema();
        let find = |field: &FieldPlan| {
            schema.index_of(&field.name).map_err(|_| Error::Invalid {
                message: format!(
                    "{} has no column {}; it has {}",
                    self.source.planned().path.display(),
                    field.name,
                    names(schema.fields())
                ),
            })
        };
        fields.iter().map(find).collect()
    }

    /// The fields that a plan wants, in its order.
    ///
    /// # Errors
    /// Where the file does not have one.
    pub fn fields(&self, fields: &[FieldPlan]) -> Result<Vec<Arc<Field>>> {
        let schema = self.schema();
        let own = self.projection(fields)?.into_iter().map(|index| &schema.fields()[index]);
        Ok(own.zip(fields).map(|(field, plan)| plan.field(field)).collect())
    }

    /// Which units a piece holds: from the first to before the second.
    fn units_of(&self, piece: Piece) -> (usize, usize) {
        let units = &self.units;
        if !self.can_be_cut() {
            return (0, units.len());
        }
        let end = piece.offset + piece.length;
        let first = units.partition_point(|unit| unit.offset < piece.offset);
        (first, units.partition_point(|unit| unit.offset < end).max(first))
    }

    /// The number of the piece's first row in the file, from 0, and how many rows it has.
    #[must_use]
    pub fn rows_of(&self, piece: Piece) -> (u64, u64) {
        let (first, end) = self.units_of(piece);
        let units = &self.units;
        let rows = |units: &[Unit]| units.iter().map(|unit| unit.rows).sum();
        (rows(&units[..first]), rows(&units[first..end]))
    }

    /// A batch with the row of this number, from 0, of the source `source`, and which of its rows that is.
    ///
    /// # Errors
    /// As [`ColumnarFile::batches`].
    pub fn row(&self, source: usize, number: u64, fields: &[FieldPlan]) -> Result<Option<(RecordBatch, usize)>> {
        let mut before = 0;
        let unit = self.units.iter().find(|unit| {
            before += unit.rows;
            number < before
        });
        let Some(&Unit { offset, .. }) = unit else { return Ok(None) };
        let piece = Piece { source, offset, length: 1 };
        let (mut first, _) = self.rows_of(piece);
        for batch in self.batches(piece, fields)? {
            let batch = batch?;
            let rows = batch.num_rows() as u64;
            if number < first + rows {
                return Ok(Some((batch, (number - first) as usize)));
            }
            first += rows;
        }
        Ok(None)
    }

    /// The batches of a piece, of those `fields` only.
    ///
    /// # Errors
    /// Where the file does not have a field, or cannot be read.
    pub fn batches<'f>(&'f self, piece: Piece, fields: &'f [FieldPlan]) -> Result<Batches<'f>> {
        let wanted = self.projection(fields)?;
        let arrangement = Arrangement::new(&wanted, &self.schema(), &self.source.planned().path_columns);
        let projection = arrangement.as_ref().map_or(wanted, |arrangement| arrangement.own.clone());
        let (first, end) = self.units_of(piece);
        let mut batches: Batches<'_> = guarded(&self.source, || {
            Ok(match &self.footer {
                Footer::Parquet(footer) => footer.batches(&self.source, first..end, &projection)?,
                Footer::Ipc(footer) => Box::new(footer.batches(&self.source, first..end, &projection)?),
            })
        })?;
        let mut failed = false;
        Ok(Box::new(std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let next = guarded(&self.source, || batches.next().transpose()).transpose();
            failed = matches!(next, Some(Err(_)));
            next.map(|own| {
                let own = match &arrangement {
                    Some(arrangement) => arrangement.batch(&own?),
                    None => own?,
                };
                FieldPlan::batch(fields, own).map_err(|error| damaged(&self.source, error))
            })
        })))
    }
}

/// Names for a message.
fn names(fields: &arrow_schema::Fields) -> String {
    fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
}

/// Runs what reads a file by a library: a panic over a damaged file is an error of the file, and a file that changed
/// under the reader is told from one that is damaged.
fn guarded<T>(source: &SourceFile<'_>, read: impl FnOnce() -> Result<T>) -> Result<T> {
    let outcome = quietly(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)))
        .unwrap_or_else(|_| Err(damaged(source, "its contents contradict each other")));
    if outcome.is_err() {
        source.check_unchanged()?;
    }
    outcome
}

/// A file that is not what its format demands.
fn damaged(source: &SourceFile<'_>, message: impl std::fmt::Display) -> Error {
    let message = message.to_string();
    if let Some(error) = of_the_system(&message) {
        return Error::file(&source.planned().path, "read it", &error);
    }
    // The libraries have one kind of error for both.
    let unread = message.contains("supported") || message.contains("NYI");
    let remedy = if unread {
        "it has a type that is not read: cast that column to another one (a decimal, a text) where the file is made"
    } else {
        "the file is damaged or incomplete, or not of this format: write or copy it again"
    };
    Error::File {
        file: source.planned().path.display().to_string(),
        message: format!("cannot be read: {message}"),
        remedy: remedy.into(),
    }
}

/// The system's error that a library's message ends with, as [`std::io::Error`] writes it: nothing is wrong with the file.
fn of_the_system(message: &str) -> Option<std::io::Error> {
    let (_, code) = message.strip_suffix(')')?.rsplit_once("(os error ")?;
    code.parse().ok().map(std::io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::of_the_system;

    #[test]
    fn what_the_system_says_is_found_in_what_libraries_make_of_it() {
        let told = format!("External: {}", std::io::Error::from_raw_os_error(libc::EIO));
        assert_eq!(of_the_system(&told).and_then(|error| error.raw_os_error()), Some(libc::EIO));
        for other in ["Invalid page header", "EOF: (os error five)", "(os error 5) said the file"] {
            assert!(of_the_system(other).is_none(), "{other}");
        }
    }
}
