//! A line of a spool: a row of the ledger's table `tipple.reject` as CSV, so that it can be handed to the target as it
//! is. Texts may be in quotes (an empty one without them is an absent one), the record is in hexadecimal as bytea has it.
//! Engines write such lines too.

use crate::postgres::copy::Place;
use memchr::{memchr, memchr_iter, memchr2};
use std::io::{self, BufRead, Write};

/// The columns of a line.
pub const COLUMNS: &str = "job_id, n, source, byte_offset, record_index, column_name, reason, sqlstate, record";

const HEX: &[u8; 16] = b"0123456789abcdef";

/// What a line says of a reject. The job is in it for the ledger's sake alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The slice that the record belongs to.
    pub slice: u32,
    /// The index of its source.
    pub source: usize,
    /// Where it begins there.
    pub offset: u64,
    /// Its number in the piece, from 0.
    pub index: u64,
    /// The column to blame, where there is one.
    pub column: Option<String>,
    /// Why it was refused.
    pub reason: String,
    /// Empty where no server would refuse it.
    pub sqlstate: String,
    /// The record itself.
    pub record: Vec<u8>,
}

/// The line of a record, which begins at `place` and has the number `index` in its piece of `slice`.
pub fn write(
    (job_id, slice, place, index): (&str, u32, Place, u64),
    (column, reason, sqlstate): (Option<&str>, &str, &str),
    record: &[u8],
) -> Vec<u8> {
    let mut line = Vec::with_capacity(160 + 2 * record.len());
    let Place { source, offset, .. } = place;
    // Writing to memory cannot fail.
    let _infallible = write!(line, "{job_id},{slice},{source},{offset},{index},");
    if let Some(column) = column {
        quote(column.as_bytes(), &mut line);
    }
    line.push(b',');
    quote(reason.as_bytes(), &mut line);
    line.push(b',');
    quote(sqlstate.as_bytes(), &mut line);
    line.extend_from_slice(b",\\x");
    for byte in record {
        line.push(HEX[usize::from(byte >> 4)]);
        line.push(HEX[usize::from(byte & 15)]);
    }
    line.push(b'\n');
    line
}

/// A text in quotes.
pub(super) fn quote(text: &[u8], line: &mut Vec<u8>) {
    line.push(b'"');
    for &byte in text {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}

/// Reads the next line into `line`, its end included; false where there is none.
///
/// # Errors
/// The disk's; a line that has no end.
pub fn read(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut open = false;
    loop {
        let from = line.len();
        if reader.read_until(b'\n', line)? == 0 {
            return if line.is_empty() { Ok(false) } else { Err(damaged()) };
        }
        // A reason may have several lines.
        open ^= memchr_iter(b'"', &line[from..]).count() % 2 == 1;
        if !open && line.ends_with(b"\n") {
            return Ok(true);
        }
    }
}

/// Slice, source and offset of a line: what is needed to put lines in order.
///
/// # Errors
/// It is no such line.
pub fn place_of(line: &[u8]) -> io::Result<(u32, usize, u64)> {
    let mut fields = Fields(line);
    fields.bare()?;
    Ok((fields.number()?, fields.number()?, fields.number()?))
}

/// All that a line says.
///
/// # Errors
/// It is no such line.
pub fn parse(line: &[u8]) -> io::Result<Line> {
    let mut fields = Fields(line.strip_suffix(b"\n").unwrap_or(line));
    fields.bare()?;
    let (slice, source, offset, index) = (fields.number()?, fields.number()?, fields.number()?, fields.number()?);
    let column = Some(fields.text()?).filter(|name| !name.is_empty());
    let (reason, sqlstate) = (fields.text()?, fields.text()?);
    Ok(Line { slice, source, offset, index, column, reason, sqlstate, record: unhex(fields.0)? })
}

/// What is left of a line.
struct Fields<'l>(&'l [u8]);

impl<'l> Fields<'l> {
    fn bare(&mut self) -> io::Result<&'l [u8]> {
        let end = memchr(b',', self.0).ok_or_else(damaged)?;
        let field = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Ok(field)
    }

    fn number<N: std::str::FromStr>(&mut self) -> io::Result<N> {
        let digits = std::str::from_utf8(self.bare()?).map_err(|_| damaged())?;
        digits.parse().map_err(|_| damaged())
    }

    fn text(&mut self) -> io::Result<String> {
        let Some(mut left) = self.0.strip_prefix(b"\"") else {
            return String::from_utf8(self.bare()?.to_vec()).map_err(|_| damaged());
        };
        let mut text = Vec::new();
        loop {
            let end = memchr(b'"', left).ok_or_else(damaged)?;
            text.extend_from_slice(&left[..end]);
            match left.get(end + 1) {
                Some(b'"') => text.push(b'"'),
                Some(b',') => {
                    self.0 = &left[end + 2..];
                    return String::from_utf8(text).map_err(|_| damaged());
                }
                _ => return Err(damaged()),
            }
            left = &left[end + 2..];
        }
    }
}

fn unhex(field: &[u8]) -> io::Result<Vec<u8>> {
    let (pairs, rest) = field.strip_prefix(b"\\x").ok_or_else(damaged)?.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(damaged());
    }
    let digit = |byte: u8| (byte as char).to_digit(16).map(|value| value as u8).ok_or_else(damaged);
    pairs.iter().map(|&[high, low]| Ok(digit(high)? << 4 | digit(low)?)).collect()
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a file of rejects is damaged")
}

/// Whether a text needs quotes in a CSV file.
pub(super) fn needs_quotes(text: &[u8]) -> bool {
    memchr2(b',', b'"', text).is_some() || memchr2(b'\n', b'\r', text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;

    fn place(source: usize, offset: u64) -> Place {
        Place { source, offset, record: None }
    }

    proptest! {
        /// Whatever a text or a record holds, lines come back one by one as they were written, from buffers of any size.
        #[test]
        fn lines_come_back(
            rejects in prop::collection::vec(
                (any::<u32>(), any::<u32>(), any::<u64>(), "[a-c\"\n,é\\\\]{0,6}", "[a-c\"\n\r,é]{0,9}", "[0-9]{0,5}",
                 prop::collection::vec(any::<u8>(), 0..40)),
                0..6,
            ),
            buffer in 1_usize..70,
        ) {
            let mut spool = Vec::new();
            for (slice, source, offset, column, reason, sqlstate, record) in &rejects {
                let told = (Some(column.as_str()).filter(|name| !name.is_empty()), reason.as_str(), sqlstate.as_str());
                spool.extend(write(("job", *slice, place(*source as usize, *offset), 7), told, record));
            }
            let mut reader = BufReader::with_capacity(buffer, spool.as_slice());
            let mut line = Vec::new();
            for (slice, source, offset, column, reason, sqlstate, record) in rejects {
                prop_assert!(read(&mut reader, &mut line).unwrap());
                prop_assert_eq!(place_of(&line).unwrap(), (slice, source as usize, offset));
                let column = Some(column).filter(|name| !name.is_empty());
                let whole = Line { slice, source: source as usize, offset, index: 7, column, reason, sqlstate, record };
                prop_assert_eq!(parse(&line).unwrap(), whole);
            }
            prop_assert!(!read(&mut reader, &mut line).unwrap());
        }
    }

    #[test]
    fn texts_may_stand_without_quotes() {
        let line = parse(b"job,1,0,2,3,,Constraint Error,23505,\\x0Aff\n").unwrap();
        assert_eq!((line.column, line.reason.as_str(), line.sqlstate.as_str()), (None, "Constraint Error", "23505"));
        assert_eq!(line.record, [10, 255]);
    }

    #[test]
    fn a_line_that_was_cut_off_is_damaged() {
        let whole = write(("job", 1, place(0, 2), 3), (Some("c"), "no\nnumber", "22P02"), b"x");
        for end in 1..whole.len() {
            let read = read(&mut &whole[..end], &mut Vec::new());
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::InvalidData, "{end} bytes");
        }
        for line in
            [&b"job,1,0,2,3,\"c\",\"r\",\"s\",\\x1\n"[..], b"job,1,0,2,3,\"c\",\"r\",\"s\",00\n", b"job,-1,0,2\n"]
        {
            parse(line).unwrap_err();
        }
    }
}
