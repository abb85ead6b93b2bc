//! Records that repeat a key, where the target gets its keys when all rows are stored.
//!
//! An index that is built over rows tells the first key that is there twice, and ends with it; rows that go into an index
//! one by one take many times as long. So streams note the hash of each key as they store records ([`KeyLog`]), 8 bytes
//! of it in a file ([`hashes`]). Hashes that are there twice are few, or none: only where there are some are sources
//! read once more, for the records that have them ([`repeated`]), and of plain text only their neighbourhood ([`groups`]).
//! Foreign keys are judged with them: their values that are missing come from the target, and the records from the sources,
//! which then are read as a whole.

mod barred;
mod groups;
mod hashes;
pub(super) mod page_places;
pub(super) mod repeated;
mod suspects;

use super::Context;
use super::parse::ParsedWindow;
use crate::error::{Error, Result};
use crate::plan::{PostgresTarget, UniqueKey, WritePath};
use crate::postgres::copy::Chunk;
use groups::Grouping;
use hashes::HashFile;
use tipple_codec::encode::copy_binary::{self, CopyBinaryEncoder};
use tipple_codec::route::KeyColumn;
use tipple_codec::scan::Records;
use tipple_codec::unique;
use tipple_codec::value::ServerVersion;

/// Reads the keys of records.
struct KeyReader {
    /// For the columns of the keys alone.
    encoder: CopyBinaryEncoder,
    encoded: Vec<u8>,
    /// Of the records that the encoder writes.
    of_text: Vec<Vec<KeyColumn>>,
    /// Of whole records.
    of_chunks: Vec<Vec<KeyColumn>>,
    buffer: Vec<u8>,
}

impl KeyReader {
    fn new(context: &Context<'_>, target: &PostgresTarget, keys: &[UniqueKey]) -> Result<Self> {
        let of_chunks: Vec<Vec<KeyColumn>> = keys.iter().map(|key| key.columns.clone()).collect();
        let mut places: Vec<usize> = of_chunks.iter().flatten().map(|column| column.column).collect();
        places.sort_unstable();
        places.dedup();
        let load = context.plan;
        if places.iter().any(|&place| place >= load.columns.len()) {
            return Err(Error::Internal { message: "a key is none of the columns".into() });
        }
        let within =
            |column: &KeyColumn| KeyColumn { column: places.partition_point(|&it| it < column.column), ..*column };
        let of_text = of_chunks.iter().map(|key| key.iter().map(within).collect()).collect();
        let server = ServerVersion(target.server_version);
        let encoder = CopyBinaryEncoder::of_fields(&load.columns, &places, load.dialect.clone(), server, false);
        Ok(Self { encoder, encoded: Vec::new(), of_text, of_chunks, buffer: Vec::new() })
    }

    /// Hands the row, the number and the hash of each key of regular records to `see`. A record whose key cannot be stored
    /// is going to be a reject, and has none.
    ///
    /// # Errors
    /// Where only the server can read a key.
    fn read(&mut self, records: &Records<'_>, mut see: impl FnMut(usize, usize, u128)) -> Result<()> {
        let Self { encoder, encoded, of_text, buffer, .. } = self;
        encoded.clear();
        let mut unsure = false;
        encoder.encode_those(
            records,
            encoded,
            |problem| {
                unsure |= problem.is_unsure();
                true
            },
            |row, record| {
                for (number, key) in of_text.iter().enumerate() {
                    if let Some(hash) = unique::hash_key(key, record, buffer) {
                        see(row, number, hash);
                    }
                }
                false
            },
        );
        if unsure { Err(unreadable()) } else { Ok(()) }
    }

    /// The same for the rows of a chunk.
    fn read_chunk(&mut self, chunk: &Chunk, mut see: impl FnMut(usize, usize, u128)) -> Result<()> {
        if chunk.format != WritePath::Binary {
            return Err(unreadable());
        }
        let mut begin = 0;
        for (row, end) in copy_binary::row_ends(&chunk.bytes).into_iter().enumerate() {
            let record = &chunk.bytes[std::mem::replace(&mut begin, end)..end];
            for (number, key) in self.of_chunks.iter().enumerate() {
                if let Some(hash) = unique::hash_key(key, record, &mut self.buffer) {
                    see(row, number, hash);
                }
            }
        }
        Ok(())
    }
}

fn unreadable() -> Error {
    Error::UnreadableKeys { reason: "only the server can read the keys of some records".into() }
}

/// The keys that one stream has seen.
pub(super) struct KeyLog {
    reader: KeyReader,
    /// By key.
    files: Vec<HashFile>,
}

impl KeyLog {
    /// The log of the stream `index`; `None` where keys are there from the first row on, or none are judged by. What
    /// foreign keys lack is found without the records.
    pub(super) fn open(context: &Context<'_>, target: &PostgresTarget, index: usize) -> Result<Option<Self>> {
        let Some(keys) = &target.unique else { return Ok(None) };
        let unique = keys.unique();
        if unique.is_empty() {
            return Ok(None);
        }
        let files = (0..unique.len()).map(|key| HashFile::new(&keys.spool, key, index)).collect();
        Ok(Some(Self { reader: KeyReader::new(context, target, unique)?, files }))
    }

    /// A slice begins; what an attempt before had noted is taken back.
    pub(super) fn begin(&mut self) {
        self.files.iter_mut().for_each(HashFile::take_back);
    }

    /// Notes the keys of a window's regular records.
    pub(super) fn note(&mut self, parsed: &ParsedWindow<'_>) -> Result<()> {
        let Self { reader, files } = self;
        let mut grouping = Grouping::new(parsed);
        reader.read(parsed.records, |row, key, hash| match grouping.of(row) {
            Some(group) => files[key].push_grouped(hash, group),
            None => files[key].push(hash),
        })
    }

    /// Notes the keys of a chunk's rows.
    pub(super) fn note_chunk(&mut self, chunk: &Chunk) -> Result<()> {
        let Self { reader, files } = self;
        reader.read_chunk(chunk, |_, key, hash| files[key].push(hash))
    }

    /// The slice is safely done.
    pub(super) fn keep(&mut self) -> Result<()> {
        self.files.iter_mut().try_for_each(HashFile::keep)
    }

    /// Nothing comes any more.
    pub(super) fn finish(mut self) -> Result<()> {
        self.files.iter_mut().try_for_each(HashFile::finish)
    }
}
