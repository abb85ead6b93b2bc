//! COPY … FROM STDIN with encoded chunks, in binary or text form as each chunk needs, and with a log that leads from
//! the line number in a server's message back to the file.

use super::copy_context;
use super::session::{Session, from_server};
use crate::error::{Error, Result};
use crate::plan::WritePath;
use arrow_array::RecordBatch;
use bytes::Bytes;
use futures_util::SinkExt;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use tipple_codec::encode::batch::csv_text::CsvRows;
use tipple_codec::encode::copy_binary;
use tokio_postgres::CopyInSink;

/// Chunks after which a COPY is ended and a new one begun, so that its log stays small and an error that the server
/// has already reported is noticed.
const MAX_CHUNKS_PER_COPY: usize = 4096;

/// Of so many bytes the origin is kept behind a chunk that was sent: more than the buffers of two kernels and of the
/// connection hold, so that the server has judged what is older.
const UNJUDGED_BYTES: usize = 16 << 20;

/// Encoded records that came from one window.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Their form.
    pub format: WritePath,
    /// The records, without header or trailer.
    pub bytes: Bytes,
    /// How many.
    pub rows: u64,
    /// Where they come from.
    pub place: Place,
    /// The records as the source has them, where single ones may have to be rejected, or told and cannot be read again.
    pub origin: Option<Arc<Origin>>,
}

/// The records of a chunk as the source has them.
#[derive(Debug)]
pub struct Origin {
    /// The slice that they belong to.
    pub slice: u32,
    /// Where what holds them begins.
    pub place: Place,
    /// The records, one per row of the chunk.
    pub rows: OriginRows,
}

/// What holds the records of a chunk.
#[derive(Debug)]
pub enum OriginRows {
    /// Text of a file.
    Text {
        /// All of it.
        text: Vec<u8>,
        /// Each record's number in the piece, from 0, and where it begins and ends in `text`.
        records: Vec<(u64, u32, u32)>,
    },
    /// A batch of a columnar source, written as text only where it has to be.
    Batch {
        /// What writes it.
        csv: Arc<CsvRows>,
        /// The batch as the source has it.
        batch: RecordBatch,
        /// Each record's row in it.
        rows: Vec<usize>,
    },
}

impl Origin {
    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.rows {
            OriginRows::Text { records, .. } => records.len(),
            OriginRows::Batch { rows, .. } => rows.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A record: its place, its number, and its text.
    #[must_use]
    pub fn record(&self, index: usize) -> (Place, u64, Cow<'_, [u8]>) {
        match &self.rows {
            OriginRows::Text { text, records } => {
                let (number, start, end) = records[index];
                let (start, end) = (start as usize, end as usize);
                (self.place.behind(start, number), number, Cow::Borrowed(&text[start..end]))
            }
            OriginRows::Batch { csv, batch, rows } => {
                let mut text = Vec::new();
                csv.write(batch, rows[index], &mut text);
                let number = self.place.offset + rows[index] as u64;
                (Place { offset: number, ..self.place }, number, Cow::Owned(text))
            }
        }
    }

    /// The text of one value of a record of a batch, where the server refuses that; of text the plan knows the dialect.
    #[must_use]
    pub fn value(&self, index: usize, column: usize) -> Option<Vec<u8>> {
        match &self.rows {
            OriginRows::Text { .. } => None,
            OriginRows::Batch { csv, batch, rows } => csv.value(batch, rows[index], column),
        }
    }
}

/// Where a run of records begins.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The index of the source.
    pub source: usize,
    /// The byte offset in its text.
    pub offset: u64,
    /// The number of the first record, from 1, where it was counted.
    pub record: Option<u64>,
    /// The records of the source that come before those that are numbered here.
    pub records_before: u64,
}

impl Place {
    /// A place of which nobody has counted the records before it.
    #[must_use]
    pub const fn uncounted(source: usize, offset: u64) -> Self {
        Self { source, offset, record: None, records_before: 0 }
    }

    /// So many bytes further on, where the record begins that has this number, from 0, where it is numbered.
    #[must_use]
    pub fn behind(self, bytes: usize, index: u64) -> Self {
        Self {
            offset: self.offset + bytes as u64,
            record: self.record.map(|_| self.records_before + index + 1),
            ..self
        }
    }
}

/// COPY statements into one table, one after the other within a transaction.
pub struct CopyWriter<'s> {
    session: &'s Session,
    table: &'s str,
    column_list: &'s str,
    open: Option<OpenCopy>,
}

struct OpenCopy {
    format: WritePath,
    sink: Pin<Box<CopyInSink<Bytes>>>,
    /// Per chunk: the number of records before it in this COPY, and where it comes from.
    log: Vec<(u64, Place)>,
    rows: u64,
    /// The last chunks that came with their origin: their places in the log, their bytes, and the sum of these.
    origins: VecDeque<(usize, usize, Arc<Origin>)>,
    origins_bytes: usize,
}

/// A server error, with the record it speaks of where that is known.
#[derive(Debug)]
pub struct CopyFailure {
    /// What the server said.
    pub error: Box<Error>,
    /// The chunk and the index of the record in it.
    pub record: Option<(Place, u64)>,
    /// The column that the server named.
    pub column: Option<String>,
    /// What the record stands in, where that was kept, and which of its records it is.
    pub origin: Option<(Arc<Origin>, usize)>,
}

impl From<Error> for CopyFailure {
    fn from(error: Error) -> Self {
        Self { error: Box::new(error), record: None, column: None, origin: None }
    }
}

impl<'s> CopyWriter<'s> {
    /// A writer into `table (column_list)`, both quoted.
    #[must_use]
    pub fn new(session: &'s Session, table: &'s str, column_list: &'s str) -> Self {
        Self { session, table, column_list, open: None }
    }

    /// Whether no COPY is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.open.is_none()
    }

    /// Sends a chunk; begins a new COPY where the form changes.
    ///
    /// # Errors
    /// What the server said, with the record where it can be told.
    pub fn send(&mut self, chunk: Chunk) -> std::result::Result<(), CopyFailure> {
        if chunk.rows == 0 {
            return Ok(());
        }
        let full = |open: &OpenCopy| open.format != chunk.format || open.log.len() >= MAX_CHUNKS_PER_COPY;
        if self.open.as_ref().is_some_and(full) {
            self.finish()?;
        }
        if self.open.is_none() {
            self.open = Some(self.begin(chunk.format)?);
        }
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        open.note(&chunk);
        let bytes = chunk.bytes;
        let sent = self.session.wait("sending rows", async {
            // Feeding before flushing lets the connection take several chunks at once; back-pressure comes from it.
            open.sink.feed(bytes).await.map_err(|error| from_server(&error, "sending rows"))
        });
        match sent {
            Ok(()) => Ok(()),
            Err(Error::Cancelled) => Err(Error::Cancelled.into()),
            // The server's reason for hanging up is read by finishing.
            Err(error) => Err(self.finish().err().unwrap_or_else(|| error.into())),
        }
    }

    /// Ends the COPY that is open, if any, and waits for the server's verdict on its rows.
    ///
    /// # Errors
    /// What the server said, with the record where it can be told.
    pub fn finish(&mut self) -> std::result::Result<(), CopyFailure> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let result = self.session.wait("sending rows", async {
            if open.format == WritePath::Binary {
                let trailer = Bytes::from_static(copy_binary::TRAILER);
                // Where the server has hung up, its reason comes from finish below.
                let _reason_follows = open.sink.send(trailer).await;
            }
            open.sink.as_mut().finish().await.map_err(|error| from_server(&error, "storing rows"))
        });
        match result {
            Ok(stored) if stored == open.rows => Ok(()),
            Ok(stored) => Err(Error::Invalid {
                message: format!(
                    "{} was sent {} rows and has stored {stored}: a trigger keeps rows out; for the load: \
                     ALTER TABLE {} DISABLE TRIGGER USER",
                    self.table, open.rows, self.table
                ),
            }
            .into()),
            Err(error) => Err(open.explain(error, (self.table, self.column_list))),
        }
    }

    fn begin(&mut self, format: WritePath) -> Result<OpenCopy> {
        let name = match format {
            WritePath::Text => "text",
            WritePath::Binary => "binary",
        };
        let text = format!("COPY {} ({}) FROM STDIN (FORMAT {name})", self.table, self.column_list);
        let session = self.session;
        let statement = session.prepare(&text, "starting COPY")?;
        let sink = session.wait("starting COPY", async {
            let failed = |error: tokio_postgres::Error| from_server(&error, "starting COPY");
            let mut sink = Box::pin(session.client().copy_in::<_, Bytes>(&statement).await.map_err(failed)?);
            if format == WritePath::Binary {
                sink.feed(Bytes::from_static(copy_binary::HEADER)).await.map_err(failed)?;
            }
            Ok(sink)
        })?;
        Ok(OpenCopy { format, sink, log: Vec::new(), rows: 0, origins: VecDeque::new(), origins_bytes: 0 })
    }
}

/// Runs a COPY … FROM STDIN whose data `read` hands over piece by piece.
///
/// # Errors
/// What the server says, or `read`.
pub fn copy_in(
    session: &Session,
    statement: &str,
    doing: &str,
    read: impl FnOnce(&mut dyn FnMut(Vec<u8>) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let failed = |error: tokio_postgres::Error| from_server(&error, doing);
    let mut sink = session
        .wait(doing, async { Ok(Box::pin(session.client().copy_in::<_, Bytes>(statement).await.map_err(failed)?)) })?;
    read(&mut |piece| session.wait(doing, async { sink.send(Bytes::from(piece)).await.map_err(failed) }))?;
    session.wait(doing, async { sink.as_mut().finish().await.map_err(failed) })?;
    Ok(())
}

impl OpenCopy {
    /// Notes where a chunk that is sent now comes from.
    fn note(&mut self, chunk: &Chunk) {
        if let Some(origin) = &chunk.origin {
            self.origins.push_back((self.log.len(), chunk.bytes.len(), origin.clone()));
            self.origins_bytes += chunk.bytes.len();
        }
        while self.origins.len() > 1 && self.origins_bytes > UNJUDGED_BYTES {
            self.origins_bytes -= self.origins.pop_front().map_or(0, |(_, bytes, _)| bytes);
        }
        self.log.push((self.rows, chunk.place));
        self.rows += chunk.rows;
    }

    /// Finds the record that the server's context (`COPY t, line 7, column c: …`) speaks of.
    fn explain(&self, error: Error, (table, column_list): (&str, &str)) -> CopyFailure {
        let Error::Server(server) = &error else { return error.into() };
        let Some(context) = &server.context else { return error.into() };
        let (line, column) = copy_context::place(context, table, column_list);
        let found = line.and_then(|line| {
            let index = line.checked_sub(1)?;
            let chunk = self.log.partition_point(|(before, _)| *before <= index).checked_sub(1)?;
            Some((chunk, index - self.log[chunk].0))
        });
        let record = found.map(|(chunk, index)| (self.log[chunk].1, index));
        let origin = found.and_then(|(chunk, index)| {
            let (.., origin) = self.origins.iter().find(|(place, ..)| *place == chunk)?;
            Some((origin.clone(), index as usize))
        });
        CopyFailure { record, column, origin, error: Box::new(error) }
    }
}
