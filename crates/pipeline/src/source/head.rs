//! The beginning of a source that is read as a stream: what ends its records, and what its header says.

use super::stdin::{self, Peeked};
use super::text::{TextReader, Unreadable};
use crate::error::{Error, Result};
use crate::plan::{Source, StreamForm};
use std::time::Duration;
use tipple_codec::dialect::{Dialect, Family, LineEnd};

/// How much is looked at first.
const SAMPLE_BYTES: usize = 64 * 1024;
/// How long a single wait for standard input lasts.
const STDIN_WAIT: Duration = Duration::from_millis(200);

/// Text from the beginning of a source, at least so many bytes if it has them; and whether that is all of it.
///
/// What cannot be read ends the text: whoever reads the source whole will say so.
fn sample(planned: &Source, dialect: &Dialect, wanted: usize) -> Result<(Vec<u8>, bool)> {
    let mut reader = if planned.is_stdin() {
        loop {
            match stdin::peek(wanted, STDIN_WAIT) {
                Ok(Peeked::Enough) => break,
                Ok(Peeked::Waiting) => {}
                Err(error) => return Err(Error::file(&planned.path, "read it", &error)),
            }
        }
        TextReader::of_head(planned, dialect, stdin::peeked())?
    } else {
        TextReader::open(planned, dialect, 0, None)?
    };
    let mut text = Vec::new();
    while text.len() < wanted {
        match reader.read(&mut text) {
            Ok(true) => {}
            Ok(false) | Err(Unreadable::Undecodable { .. }) => return Ok((text, true)),
            Err(Unreadable::Source(_)) if planned.is_stdin() => {
                return Ok((text, stdin::peeked().len() < wanted));
            }
            Err(Unreadable::Source(error)) => return Err(error),
        }
    }
    Ok((text, false))
}

/// What ends the records of a source, if it has a record end.
pub(super) fn line_end(planned: &Source, dialect: &Dialect, max_record_bytes: usize) -> Result<Option<LineEnd>> {
    let form = planned.form.clone().unwrap_or_default();
    let (skip, comment) = (form.skip_lines, form.comment);
    let whole = Source { form: Some(StreamForm { skip_lines: 0, comment: None, ..form }), ..planned.clone() };
    let mut wanted = SAMPLE_BYTES;
    loop {
        let (mut text, ended) = sample(&whole, dialect, wanted)?;
        // What follows this carriage return decides which record end it belongs to.
        if !ended && text.last() == Some(&b'\r') {
            text.pop();
        }
        // A line that is left out ends like all others, and quotes in it mean nothing.
        let plain = skip > 0 || comment.is_some_and(|comment| text.first() == Some(&comment));
        let family = if plain { Family::Plain } else { dialect.family };
        let found = LineEnd::detect(&text, &Dialect { family, ..dialect.clone() });
        if found.is_some() || ended || wanted >= max_record_bytes {
            return Ok(found);
        }
        wanted *= 4;
    }
}

/// Text from the beginning of a source, without what is to be left out, for its header.
///
/// # Errors
/// Where the source cannot be read.
pub fn head(planned: &Source, dialect: &Dialect, wanted: usize) -> Result<Vec<u8>> {
    let line_end = line_end(planned, dialect, wanted)?.unwrap_or(dialect.line_end);
    Ok(sample(planned, &Dialect { line_end, ..dialect.clone() }, wanted)?.0)
}
