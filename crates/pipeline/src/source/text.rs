//! Reads a source from beginning to end as text: file or standard input, unpacked, decoded, without byte order mark,
//! without the lines and comments that are to be left out.

use super::SourceFile;
use super::compression;
use super::encoding::{self, Named, Transcoder, UTF16_MARKS};
use super::stdin::Stdin;
use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::plan::{Source, StreamForm};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tipple_codec::dialect::Dialect;
use tipple_codec::split::CommentFilter;

/// Text that is read at a time, where the plan does not say otherwise.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
/// How often a wait for standard input looks whether the job was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(200);
/// U+FEFF in UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// What cannot be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The file, or what it is packed in.
    Source(Error),
    /// A byte that the encoding has no character for. The text before it was given.
    Undecodable {
        /// Where it stands in the unpacked file.
        offset: u64,
        /// The encoding's name.
        encoding: String,
    },
}

impl From<Error> for Unreadable {
    fn from(error: Error) -> Self {
        Self::Source(error)
    }
}

/// Reads one source.
pub(super) struct TextReader {
    planned: Source,
    form: StreamForm,
    input: Box<dyn Read + Send>,
    /// How the file itself could not be read, as opposed to what it is packed in.
    failure: Arc<OnceLock<Error>>,
    file_bytes: Arc<AtomicU64>,
    transcoder: Option<Transcoder>,
    /// Bytes not yet decoded.
    raw: Vec<u8>,
    /// Bytes that were unpacked and decoded.
    unpacked_bytes: u64,
    chunk_bytes: usize,
    begun: bool,
    /// The length of the byte order mark, where it was UTF-8's and offsets count the file's bytes.
    mark_bytes: u64,
    comments: Option<CommentFilter>,
    skip_lines: u64,
    dialect: Dialect,
    /// What has no character is marked in the text, instead of ending it.
    marks_undecodable: bool,
}

impl TextReader {
    /// The same, marking what its encoding has no character for ([`encoding::NO_CHARACTER`]) where `marks` says so.
    pub(super) fn marking(self, marks: bool) -> Self {
        Self { marks_undecodable: marks, ..self }
    }

    /// Opens the source, which is that of the plan.
    pub(super) fn open(
        planned: &Source,
        dialect: &Dialect,
        chunk_bytes: usize,
        counters: Option<&Arc<Counters>>,
    ) -> Result<Self> {
        let failure = Arc::new(OnceLock::new());
        let file_bytes = Arc::new(AtomicU64::new(0));
        let input = if planned.is_stdin() {
            Input::Stdin(Stdin::take(), counters.cloned())
        } else {
            Input::File(SourceFile::open(planned)?.into_file())
        };
        let raw = Raw { input, planned: planned.clone(), failure: failure.clone(), read: file_bytes.clone() };
        Self::of(raw, planned, dialect, chunk_bytes, failure, file_bytes)
    }

    /// Reads what is known of standard input so far; that it ends too early is no error of the source.
    pub(super) fn of_head(planned: &Source, dialect: &Dialect, head: Vec<u8>) -> Result<Self> {
        let failure = Arc::new(OnceLock::new());
        let read = Arc::new(AtomicU64::new(0));
        let input = Input::Head(io::Cursor::new(head));
        let raw = Raw { input, planned: planned.clone(), failure: failure.clone(), read: read.clone() };
        Self::of(raw, planned, dialect, CHUNK_BYTES, failure, read)
    }

    fn of(
        raw: Raw,
        planned: &Source,
        dialect: &Dialect,
        chunk_bytes: usize,
        failure: Arc<OnceLock<Error>>,
        file_bytes: Arc<AtomicU64>,
    ) -> Result<Self> {
        let form = planned.form.clone().unwrap_or_default();
        let input: Box<dyn Read + Send> = match form.compression {
            None => Box::new(raw),
            Some(compression) => compression::unpack(raw, compression)
                .map_err(|error| Error::file(&planned.path, "unpack it", &error))?,
        };
        Ok(Self {
            planned: planned.clone(),
            input,
            failure,
            file_bytes,
            transcoder: None,
            raw: Vec::new(),
            unpacked_bytes: 0,
            chunk_bytes: if chunk_bytes == 0 { CHUNK_BYTES } else { chunk_bytes },
            begun: false,
            mark_bytes: 0,
            comments: form.comment.map(CommentFilter::new),
            skip_lines: form.skip_lines,
            dialect: dialect.clone(),
            marks_undecodable: false,
            form,
        })
    }

    /// Bytes of the file read so far.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Ordering::Relaxed)
    }

    /// Appends what comes next to `text`; false at the end.
    pub(super) fn read(&mut self, text: &mut Vec<u8>) -> std::result::Result<bool, Unreadable> {
        let begin = text.len();
        let more = if self.begun { self.read_more(text)? } else { self.begin(text)? };
        if self.skip_lines > 0 {
            self.skip(text, begin);
        }
        if let Some(comments) = &mut self.comments {
            comments.filter(text, begin, &self.dialect);
        }
        Ok(more)
    }

    /// Reads the first bytes, which may tell the encoding.
    fn begin(&mut self, text: &mut Vec<u8>) -> std::result::Result<bool, Unreadable> {
        self.begun = true;
        let mut more = true;
        let wanted = if self.form.compression.is_some() { compression::MAGIC_BYTES } else { UTF8_MARK.len() };
        while more && self.raw.len() < wanted {
            more = self.fill_raw()?;
        }
        if self.form.compression.is_some() {
            self.refuse_packed_twice()?;
        }
        let named = match &self.form.encoding {
            None => None,
            Some(name) => Some(
                encoding::find(name)
                    .ok_or_else(|| Error::Invalid { message: format!("the encoding \"{name}\" is not known") })?,
            ),
        };
        let [little, big] = UTF16_MARKS.map(|mark| self.raw.starts_with(&mark));
        let (named, mark) = match named {
            None | Some(Named::Utf16) if little || big => (Named::Utf16, 2),
            None | Some(Named::Utf8) if self.raw.starts_with(UTF8_MARK) => (Named::Utf8, UTF8_MARK.len()),
            None => (Named::Utf8, 0),
            // The mark of the byte order that was named all the same.
            Some(named @ Named::Library { encoding, .. })
                if (little && encoding == encoding_rs::UTF_16LE) || (big && encoding == encoding_rs::UTF_16BE) =>
            {
                (named, 2)
            }
            Some(named) => (named, 0),
        };
        self.transcoder = Transcoder::new(named, big);
        self.raw.drain(..mark);
        // Where lines are left out, offsets count what is left, and the mark stood in none of it.
        let counts = self.transcoder.is_none() && self.skip_lines == 0 && self.comments.is_none();
        self.mark_bytes = if counts { mark as u64 } else { 0 };
        self.unpacked_bytes += mark as u64;
        self.decode(!more, text)?;
        Ok(more)
    }

    fn read_more(&mut self, text: &mut Vec<u8>) -> std::result::Result<bool, Unreadable> {
        if self.transcoder.is_none() {
            let begin = text.len();
            text.resize(begin + self.chunk_bytes, 0);
            let read = self.input.read(&mut text[begin..]);
            text.truncate(begin + *read.as_ref().unwrap_or(&0));
            let read = read.map_err(|error| self.unreadable(&error))?;
            self.unpacked_bytes += read as u64;
            return Ok(read > 0);
        }
        let more = self.fill_raw()?;
        self.decode(!more, text)?;
        Ok(more)
    }

    fn fill_raw(&mut self) -> Result<bool> {
        let begin = self.raw.len();
        self.raw.resize(begin + self.chunk_bytes, 0);
        let read = self.input.read(&mut self.raw[begin..]);
        self.raw.truncate(begin + *read.as_ref().unwrap_or(&0));
        read.map(|read| read > 0).map_err(|error| self.unreadable(&error))
    }

    fn decode(&mut self, last: bool, text: &mut Vec<u8>) -> std::result::Result<(), Unreadable> {
        let decoded = match &mut self.transcoder {
            None => {
                text.extend_from_slice(&self.raw);
                Ok(())
            }
            Some(transcoder) => transcoder.decode(&self.raw, last, self.marks_undecodable, text),
        };
        if let Err(error) = decoded {
            return Err(Unreadable::Undecodable {
                offset: self.unpacked_bytes.saturating_add_signed(error.offset as i64),
                encoding: self.form.encoding.clone().unwrap_or_else(|| "UTF-16".into()),
            });
        }
        self.unpacked_bytes += self.raw.len() as u64;
        self.raw.clear();
        Ok(())
    }

    /// What is packed twice unpacks to records of nonsense, or to none where a header is skipped.
    fn refuse_packed_twice(&self) -> Result<()> {
        match compression::detect(&self.raw) {
            None => Ok(()),
            Some(inner) => Err(Error::File {
                file: self.planned.path.display().to_string(),
                message: format!("is packed twice: it unpacks to {} data", compression::name(inner)),
                remedy: "unpack it once first".into(),
            }),
        }
    }

    /// Removes lines, or parts of them, from `begin` on.
    fn skip(&mut self, text: &mut Vec<u8>, begin: usize) {
        let end = self.dialect.line_end.last_byte();
        let mut keep = begin;
        while self.skip_lines > 0 {
            let Some(length) = memchr::memchr(end, &text[keep..]) else {
                keep = text.len();
                break;
            };
            keep += length + 1;
            self.skip_lines -= 1;
        }
        text.drain(begin..keep);
    }

    /// Where the text begins: behind the byte order mark of UTF-8. Known once something was read.
    pub(super) fn begin_offset(&self) -> u64 {
        self.mark_bytes
    }

    fn unreadable(&self, error: &io::Error) -> Error {
        if let Some(failure) = self.failure.get() {
            return failure.clone();
        }
        let Some(compression) = self.form.compression else {
            return Error::file(&self.planned.path, "read it", error);
        };
        let name = compression::name(compression);
        let short = error.kind() == io::ErrorKind::UnexpectedEof;
        if compression::lacks_memory(error) {
            let file = self.planned.path.display().to_string();
            return Error::File {
                message: format!("unpacking it needs more memory than the 128 MiB that Tipple takes for it ({error})"),
                remedy: format!(
                    "nothing was published; have {name} unpack it: {} {file} | tipple load - ...",
                    if compression == crate::plan::Compression::Zstd { "zstd --long=31 -dc" } else { "xz -dc" }
                ),
                file,
            };
        }
        if compression::has_long_name(error) {
            let file = self.planned.path.display().to_string();
            return Error::File {
                message: "cannot unpack it: its header has a file name or comment of more than 65,535 bytes".into(),
                remedy: format!("nothing was published; have gzip unpack it: gzip -dc {file} | tipple load - ..."),
                file,
            };
        }
        Error::File {
            file: self.planned.path.display().to_string(),
            message: format!(
                "cannot unpack it: the {name} data {} after {} bytes of text ({error})",
                if short { "end too early" } else { "are damaged" },
                self.unpacked_bytes
            ),
            remedy: format!("nothing was published; fetch or make the file again ({name} --test checks it)"),
        }
    }
}

/// The bytes as they are, counted.
struct Raw {
    input: Input,
    planned: Source,
    failure: Arc<OnceLock<Error>>,
    read: Arc<AtomicU64>,
}

enum Input {
    File(std::fs::File),
    Stdin(Stdin, Option<Arc<Counters>>),
    Head(io::Cursor<Vec<u8>>),
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.input {
            Input::File(file) => file.read(buffer),
            Input::Head(head) => head.read(buffer),
            Input::Stdin(stdin, counters) => loop {
                if counters.as_ref().is_some_and(|counters| counters.is_cancelled()) {
                    let _first = self.failure.set(Error::Cancelled);
                    return Err(io::Error::other("interrupted"));
                }
                match stdin.read(buffer, CANCEL_CHECK) {
                    Ok(None) => {}
                    Ok(Some(read)) => break Ok(read),
                    Err(error) => break Err(error),
                }
            },
        };
        match read {
            Ok(read) => {
                self.read.fetch_add(read as u64, Ordering::Relaxed);
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                // Only the first failure matters.
                let _first = self.failure.set(Error::file(&self.planned.path, "read it", &error));
                Err(error)
            }
        }
    }
}
