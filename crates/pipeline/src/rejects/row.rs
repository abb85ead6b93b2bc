//! A row of a spool: one of the ledger's table `tipple.reject`, as COPY binary has it, so that it can be handed to a
//! server as it is.
//!
//! It begins with all that is needed to put rows in order, in bytes that are always as many; texts and the record follow,
//! each behind its length, and are passed over unread.

use crate::postgres::copy::Place;
use serde::{Deserialize, Deserializer, de};
use std::io::{self, BufRead, Read};
use tipple_codec::encode::copy_binary::{HEADER, TRAILER};

/// The columns of a row.
pub const COLUMNS: &str = "job_id, n, source, byte_offset, record_index, column_name, reason, sqlstate, record";

/// What stands before the rows, and behind them, where they are sent to a server.
pub const AROUND: (&[u8], &[u8]) = (HEADER, TRAILER);

/// The fields before the first text: lengths and bytes of job, slice, source, offset and number.
const HEAD_LENGTHS: [usize; 5] = [16, 4, 4, 8, 8];
/// Of how many bytes the head is: the number of fields, then these.
pub(super) const HEAD_BYTES: usize = 2 + 5 * 4 + 16 + 4 + 4 + 8 + 8;
const FIELDS: u16 = 9;
/// Column, reason, SQLSTATE and record.
const TEXTS: usize = 4;

/// A field of no more bytes is given its memory at once.
const SHORT_FIELD: u64 = 4096;

/// The job's UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobId(pub [u8; 16]);

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom(format!("{text} is no UUID")))
    }
}

impl JobId {
    /// Reads it as servers write it: hexadecimal digits, in groups or not.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.replace('-', "");
        let is_whole = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_whole)?;
        Some(Self(number.to_be_bytes()))
    }
}

/// What a row begins with: where its record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The slice that the record belongs to.
    pub slice: u32,
    /// The index of its source.
    pub source: usize,
    /// Where it begins there.
    pub offset: u64,
    /// Its number in the piece, from 0.
    pub index: u64,
}

/// What stands behind the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The column to blame, where there is one.
    pub column: Option<String>,
    /// Why it was refused.
    pub reason: String,
    /// Empty where no server would refuse it.
    pub sqlstate: String,
    /// The record itself.
    pub record: Vec<u8>,
}

/// Adds the row of a record, which begins at `place` and has the number `index` in its piece of `slice`.
///
/// # Errors
/// A text is too long for a field.
pub fn write(
    row: &mut Vec<u8>,
    (job, slice, place, index): (JobId, u32, Place, u64),
    (column, reason, sqlstate): (Option<&str>, &str, &str),
    record: &[u8],
) -> io::Result<()> {
    row.reserve(HEAD_BYTES + 4 * TEXTS + column.map_or(0, str::len) + reason.len() + sqlstate.len() + record.len());
    row.extend(FIELDS.to_be_bytes());
    let source = place.source as u32;
    let head: [&[u8]; 5] =
        [&job.0, &slice.to_be_bytes(), &source.to_be_bytes(), &place.offset.to_be_bytes(), &index.to_be_bytes()];
    let texts = [column.map(str::as_bytes), Some(reason.as_bytes()), Some(sqlstate.as_bytes()), Some(record)];
    for field in head.into_iter().map(Some).chain(texts) {
        let length = field.map_or(Ok(-1), |field| i32::try_from(field.len()));
        let length = length.map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a record of 2 GB or more"))?;
        row.extend(length.to_be_bytes());
        row.extend_from_slice(field.unwrap_or_default());
    }
    Ok(())
}

/// Reads what the next row begins with; `None` where there is none.
///
/// # Errors
/// The disk's; bytes that are no row.
pub fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut bytes = [0; HEAD_BYTES];
    read_whole(reader, &mut bytes)?;
    let (fields, mut rest) = bytes.split_at(2);
    if fields != FIELDS.to_be_bytes() {
        return Err(damaged());
    }
    let mut numbers = [0; 5];
    for (length, number) in HEAD_LENGTHS.into_iter().zip(&mut numbers) {
        let (said, field) = rest.split_at(4);
        let (field, behind) = field.split_at(length);
        if said != (length as u32).to_be_bytes() {
            return Err(damaged());
        }
        // Of the job too, of which nobody asks.
        *number = field.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        rest = behind;
    }
    let [_, slice, source, offset, index] = numbers;
    Ok(Some(Head { slice: slice as u32, source: source as usize, offset, index }))
}

/// Reads what stands behind the head.
///
/// # Errors
/// As [`read_head`].
pub fn read_body(reader: &mut impl Read) -> io::Result<Body> {
    let column = read_field(reader)?.map(text).transpose()?;
    let mut next = || read_field(reader)?.ok_or_else(damaged);
    Ok(Body { column, reason: text(next()?)?, sqlstate: text(next()?)?, record: next()? })
}

/// Passes over what stands behind the head, by `skip`, and says how many bytes that were.
///
/// # Errors
/// As [`read_head`], and `skip`'s.
pub fn pass_body<R: Read>(reader: &mut R, mut skip: impl FnMut(&mut R, u64) -> io::Result<()>) -> io::Result<u64> {
    let mut bytes = 0;
    for _ in 0..TEXTS {
        let length = read_length(reader)?.unwrap_or(0);
        skip(reader, length)?;
        bytes += 4 + length;
    }
    Ok(bytes)
}

impl Body {
    /// Bytes of it in a row.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let column = self.column.as_ref().map_or(0, String::len);
        (4 * TEXTS + column + self.reason.len() + self.sqlstate.len() + self.record.len()) as u64
    }
}

fn read_field(reader: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let Some(length) = read_length(reader)? else { return Ok(None) };
    if length <= SHORT_FIELD {
        let mut field = vec![0; length as usize];
        read_whole(reader, &mut field)?;
        return Ok(Some(field));
    }
    let mut field = Vec::new();
    // A length that is wrong must not take memory for what is not there.
    if reader.by_ref().take(length).read_to_end(&mut field)? as u64 != length {
        return Err(damaged());
    }
    Ok(Some(field))
}

fn read_length(reader: &mut impl Read) -> io::Result<Option<u64>> {
    let mut bytes = [0; 4];
    read_whole(reader, &mut bytes)?;
    match i32::from_be_bytes(bytes) {
        -1 => Ok(None),
        length => u64::try_from(length).map(Some).map_err(|_| damaged()),
    }
}

/// Fills the buffer; that a file ends before it is full is damage like any other.
fn read_whole(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<()> {
    reader.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(),
        _ => error,
    })
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| damaged())
}

pub(super) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a file of rejects is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{BufReader, Seek};

    const JOB: JobId = JobId([7; 16]);

    fn place(source: usize, offset: u64) -> Place {
        Place::uncounted(source, offset)
    }

    proptest! {
        /// Whatever a text or a record holds, rows come back one by one as they were written, from buffers of any size,
        /// and passing over one comes to the same place as reading it.
        #[test]
        fn rows_come_back(
            rejects in prop::collection::vec(
                (any::<u32>(), any::<u32>(), any::<u64>(), prop::option::of("[a-c\"\n,é\\\\]{0,6}"),
                 "[a-c\"\n\r,é]{0,9}", "[0-9]{0,5}", prop::collection::vec(any::<u8>(), 0..40)),
                0..6,
            ),
            buffer in 1_usize..70,
        ) {
            let mut spool = Vec::new();
            for (slice, source, offset, column, reason, sqlstate, record) in &rejects {
                let told = (column.as_deref(), reason.as_str(), sqlstate.as_str());
                write(&mut spool, (JOB, *slice, place(*source as usize, *offset), 7), told, record).unwrap();
            }
            let mut reader = BufReader::with_capacity(buffer, io::Cursor::new(&spool));
            let mut passing = BufReader::with_capacity(buffer, io::Cursor::new(&spool));
            for (slice, source, offset, column, reason, sqlstate, record) in rejects {
                let head = Head { slice, source: source as usize, offset, index: 7 };
                prop_assert_eq!(read_head(&mut reader).unwrap(), Some(head));
                prop_assert_eq!(read_head(&mut passing).unwrap(), Some(head));
                let body = read_body(&mut reader).unwrap();
                let passed = pass_body(&mut passing, |it, bytes| it.seek_relative(bytes.cast_signed())).unwrap();
                prop_assert_eq!(passed, body.bytes());
                prop_assert_eq!(reader.stream_position().unwrap(), passing.stream_position().unwrap());
                prop_assert_eq!(body, Body { column, reason, sqlstate, record });
            }
            prop_assert_eq!(read_head(&mut reader).unwrap(), None);
            prop_assert_eq!(read_head(&mut passing).unwrap(), None);
        }

        /// A file that was cut off, or has other bytes in it, is told; nothing is taken from what is not there.
        #[test]
        fn damage_is_told(cut in 1_usize..100, at in 0_usize..100, bytes in any::<[u8; 4]>()) {
            let mut whole = Vec::new();
            write(&mut whole, (JOB, 1, place(0, 2), 3), (Some("c"), "no\nnumber", "22P02"), b"x").unwrap();
            let read = |row: &[u8]| {
                let mut reader = row;
                read_head(&mut reader).and_then(|_| read_body(&mut reader)).map(|_| reader.len())
            };
            prop_assert_eq!(read(&whole).unwrap(), 0);
            let cut = cut.min(whole.len() - 1);
            prop_assert_eq!(read(&whole[..cut]).unwrap_err().kind(), io::ErrorKind::InvalidData);
            let mut changed = whole.clone();
            let at = at.min(whole.len() - 4);
            changed[at..at + 4].copy_from_slice(&bytes);
            if let Err(error) = read(&changed) {
                prop_assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            }
        }
    }

    #[test]
    fn a_job_is_a_uuid() {
        let id = "00112233-4455-6677-8899-aabbccddeeff";
        let bytes = [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
        assert_eq!(JobId::parse(id), Some(JobId(bytes)));
        for text in ["", "job", &id[1..], &format!("{id}0"), &id.replace('f', "g")] {
            assert_eq!(JobId::parse(text), None, "{text}");
        }
    }

    /// The head's length is what it is made of.
    #[test]
    fn a_head_is_as_long_as_it_says() {
        assert_eq!(HEAD_BYTES, 2 + HEAD_LENGTHS.iter().map(|length| 4 + length).sum::<usize>());
        let mut file = io::Cursor::new(Vec::new());
        write(file.get_mut(), (JOB, 1, place(0, 2), 3), (None, "", ""), b"").unwrap();
        read_head(&mut file).unwrap();
        assert_eq!(file.stream_position().unwrap(), HEAD_BYTES as u64);
    }
}
