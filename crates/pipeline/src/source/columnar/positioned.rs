//! A file for readers that keep their own place in it.

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// How much is read at a time where a reader does not say how much it wants.
const BUFFER_BYTES: usize = 128 * 1024;

/// A file of known size.
#[derive(Debug, Clone)]
pub(super) struct Positioned {
    file: Arc<File>,
    size: u64,
    position: u64,
}

impl Positioned {
    pub(super) fn new(file: File, size: u64) -> Self {
        Self { file: Arc::new(file), size, position: 0 }
    }
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Length for Positioned {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Positioned {
    type T = BufReader<Self>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(BUFFER_BYTES, Self { position: start, ..self.clone() }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // Before the memory is asked for: a damaged file can name any length.
        if start.checked_add(length as u64).is_none_or(|end| end > self.size) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} lie beyond the end of the file")));
        }
        let mut buffer = vec![0; length];
        self.file.read_exact_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}
