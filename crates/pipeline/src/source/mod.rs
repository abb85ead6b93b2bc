//! Source files: opening them as they were planned, reading them in windows, cutting them into slices, and finding
//! out where in them a bad record stands.

pub mod block_text;
pub mod block_windows;
pub mod blocks;
pub mod columnar;
mod compression;
pub mod cut;
pub mod encoding;
pub mod ends;
pub mod head;
pub mod keys;
pub mod locate;
pub mod resync;
pub mod stdin;
pub mod text;
pub mod window;

use crate::error::{Error, Result};
use crate::plan::Source;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

/// A file opened for reading, known to be the one that was planned.
#[derive(Debug)]
pub struct SourceFile<'p> {
    file: File,
    planned: &'p Source,
}

impl<'p> SourceFile<'p> {
    /// Opens the file and checks that size and time of change are those of the plan.
    ///
    /// # Errors
    /// Where it cannot be opened or has changed.
    pub fn open(planned: &'p Source) -> Result<Self> {
        let file = File::open(&planned.path).map_err(|error| Error::file(&planned.path, "open it", &error))?;
        let opened = Self { file, planned };
        opened.check_unchanged()?;
        Ok(opened)
    }

    /// Checks that size and time of change are still those of the plan.
    ///
    /// # Errors
    /// Where they are not.
    pub fn check_unchanged(&self) -> Result<()> {
        let metadata = self.file.metadata().map_err(|error| Error::file(&self.planned.path, "examine it", &error))?;
        // Clocks that are wrong write times beyond those that 64 bits count: Python cuts them off alike.
        let mtime_ns = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        if metadata.len() != self.planned.size {
            return Err(self.changed(format!(
                "it had {} bytes when the job was planned and has {} now",
                self.planned.size,
                metadata.len()
            )));
        }
        if mtime_ns != self.planned.mtime_ns {
            return Err(self.changed("it was written to after the job was planned".into()));
        }
        Ok(())
    }

    /// Reads into `buffer` from `offset`, all of it.
    ///
    /// # Errors
    /// Where reading fails, or the file has become shorter.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        match self.file.read_exact_at(buffer, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.changed(format!("it ends before byte {}", offset + buffer.len() as u64)))
            }
            Err(error) => Err(Error::file(&self.planned.path, "read it", &error)),
        }
    }

    /// The file itself, to be read from its beginning.
    #[must_use]
    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// The same open file, for readers that must own what they read.
    ///
    /// # Errors
    /// Where the process has no file descriptor left.
    pub(crate) fn duplicate(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| Error::file(&self.planned.path, "open it", &error))
    }

    /// What the plan says of the file.
    #[must_use]
    pub fn planned(&self) -> &'p Source {
        self.planned
    }

    fn changed(&self, message: String) -> Error {
        Error::SourceChanged { file: self.planned.path.display().to_string(), message }
    }
}
