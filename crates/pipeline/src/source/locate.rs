//! Where in its file a bad record stands: its number is only counted when somebody has to be told.

use super::SourceFile;
use super::encoding::{NO_CHARACTER, UTF16_MARKS};
use crate::error::{BadRecord, Error, Result};
use crate::plan::Source;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::dialect::{Dialect, Family};
use tipple_codec::scan::Irregularity;
use tipple_codec::split::{self, State};
use tipple_codec::value::Refusal;

/// The longest piece of offending text that a message shows, in characters.
const SHOWN_CHARACTERS: usize = 120;

/// What is kept of a record that is longer than the limit.
pub const KEPT_BYTES: usize = 64 * 1024;

/// The number, from 1, of the record that begins at `offset`; a header is not counted.
///
/// # Errors
/// Where the file cannot be read.
pub fn record_number(planned: &Source, offset: u64, dialect: &Dialect, header: bool) -> Result<u64> {
    let source = SourceFile::open(planned)?;
    let mut buffer = vec![0; 1 << 20];
    let mut state = State::Outside;
    let mut records = 0;
    let mut position = 0;
    while position < offset {
        let length = (offset - position).min(buffer.len() as u64) as usize;
        source.read_exact_at(&mut buffer[..length], position)?;
        let (counted, after) = split::count_records(&buffer[..length], state, dialect);
        records += counted;
        state = after;
        position += length as u64;
    }
    Ok(records + 1 - u64::from(header))
}

/// The number, from 1, of the line that begins at `offset`, as editors count them: newlines in quotes count too. Of text
/// that was unpacked or decoded nobody has it.
#[must_use]
pub fn line_number(planned: &Source, offset: u64, dialect: &Dialect) -> Option<u64> {
    if planned.form.is_some() {
        return None;
    }
    let source = SourceFile::open(planned).ok()?;
    let end = *dialect.line_end.bytes().last()?;
    let mut buffer = vec![0; 1 << 20];
    let (mut position, mut lines) = (0, 1);
    while position < offset {
        let length = (offset - position).min(buffer.len() as u64) as usize;
        source.read_exact_at(&mut buffer[..length], position).ok()?;
        lines += memchr::memchr_iter(end, &buffer[..length]).count() as u64;
        position += length as u64;
    }
    Some(lines)
}

/// Where the record that is `index` records after the one at `offset` begins and ends, and its bytes.
///
/// # Errors
/// Where the file cannot be read.
pub fn record_after(planned: &Source, offset: u64, index: u64, dialect: &Dialect) -> Result<(u64, Vec<u8>)> {
    let source = SourceFile::open(planned)?;
    let mut start = offset;
    let mut left = index;
    loop {
        let mut length = 64 * 1024_u64;
        let bytes = loop {
            let mut bytes = vec![0; (planned.size - start).min(length) as usize];
            source.read_exact_at(&mut bytes, start)?;
            match split::scan_part(&bytes, dialect).first_record(State::Outside) {
                Some(end) => {
                    bytes.truncate(end);
                    break bytes;
                }
                None if start + length >= planned.size => break bytes,
                None => length *= 4,
            }
        };
        if left == 0 || bytes.is_empty() {
            return Ok((start, bytes));
        }
        start += bytes.len() as u64;
        left -= 1;
    }
}

/// The same in `text`, which begins at `offset`.
#[must_use]
pub fn record_in(text: &[u8], offset: u64, index: u64, dialect: &Dialect) -> (u64, Vec<u8>) {
    let mut start = 0;
    let mut left = index;
    loop {
        let rest = &text[start..];
        let length = split::first_record(rest, State::Outside, dialect).unwrap_or(rest.len());
        if left == 0 || length == 0 {
            return (offset + start as u64, rest[..length].to_vec());
        }
        start += length;
        left -= 1;
    }
}

/// Text for a message: shortened, and with control characters, which would spoil a terminal, spelled as in C.
#[must_use]
pub fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let trimmed = text.trim_end_matches(['\r', '\n']);
    let mut shown = String::new();
    for character in trimmed.chars().take(SHOWN_CHARACTERS) {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            character if character.is_control() && character != '\t' => {
                // Writing to memory cannot fail.
                let _infallible = write!(shown, "\\x{:02x}", u32::from(character));
            }
            character => shown.push(character),
        }
    }
    if trimmed.chars().count() > SHOWN_CHARACTERS {
        shown.push('…');
    }
    shown
}

/// The type's name as PostgreSQL's messages spell it.
#[must_use]
pub fn type_name(kind: &ColumnType) -> String {
    match kind {
        ColumnType::Bool => "boolean".into(),
        ColumnType::Int2 => "smallint".into(),
        ColumnType::Int4 => "integer".into(),
        ColumnType::Int8 => "bigint".into(),
        ColumnType::Float4 => "real".into(),
        ColumnType::Float8 => "double precision".into(),
        ColumnType::Numeric { precision, scale } => format!("numeric({precision},{scale})"),
        ColumnType::Decimal => "numeric".into(),
        ColumnType::Text => "text".into(),
        ColumnType::Varchar { limit } => format!("character varying({limit})"),
        ColumnType::Char { limit } => format!("character({limit})"),
        ColumnType::Date => "date".into(),
        ColumnType::Timestamp { .. } => "timestamp".into(),
        ColumnType::TimestampTz { .. } => "timestamp with time zone".into(),
        ColumnType::Time { .. } => "time".into(),
        ColumnType::TimeTz { .. } => "time with time zone".into(),
        ColumnType::Interval { .. } => "interval".into(),
        ColumnType::Uuid => "uuid".into(),
        ColumnType::Bytea => "bytea".into(),
        ColumnType::Json => "json".into(),
        ColumnType::Jsonb => "jsonb".into(),
        ColumnType::Inet => "inet".into(),
        ColumnType::Cidr => "cidr".into(),
        ColumnType::Enum { labels } => match labels.as_slice() {
            [first, second, third, _, ..] => format!("enum ({first}, {second}, {third}, …)"),
            few => format!("enum ({})", few.join(", ")),
        },
        ColumnType::Integer { bits, signed } => {
            format!("{} integer of {bits} bits", if *signed { "signed" } else { "unsigned" })
        }
        ColumnType::Array(array) => type_name(&array.element) + &"[]".repeat(array.dimensions.unwrap_or(1).into()),
        ColumnType::Opaque => "the column's type".into(),
    }
}

/// Why a record's structure is wrong, and what to do.
#[must_use]
pub fn describe_structure(
    what: Irregularity,
    columns: &[Column],
    dialect: &Dialect,
) -> (String, Option<String>, String) {
    let expected = dialect.fields(columns.len());
    let counted = if dialect.left_out.is_empty() { "columns" } else { "expected" };
    match what {
        Irregularity::MissingFields { found } => {
            let mut in_order = columns.iter().enumerate();
            let column = in_order.find(|&(index, _)| dialect.field_of(index) == found).map(|(_, it)| it.name.clone());
            let missing = match &column {
                Some(name) => format!("missing data for column \"{name}\": {found} fields, {expected} {counted}"),
                None if found < expected => format!("missing data for a field: {found} fields, {expected} {counted}"),
                None => "the delimiter after the last field is missing".into(),
            };
            (missing, column, "check --delimiter and --columns, or mend the record".into())
        }
        Irregularity::ExtraFields { found } => (
            format!("extra data after the last column: {found} fields, {expected} {counted}"),
            None,
            "check --delimiter and --columns (- leaves a field out), or quote a delimiter that belongs to a value"
                .into(),
        ),
        Irregularity::MixedLineEnds => (
            "a record end of another kind than the file's first one stands outside quotes".into(),
            None,
            "convert the file to one kind of record end (sed 's/\\r$//' makes LF of CRLF), or quote the value that holds it"
                .into(),
        ),
        Irregularity::EndMarker => (
            "the end-of-data marker \\. stands elsewhere than alone on the file's last line, or without a line end".into(),
            None,
            "remove it and what follows it, or write a backslash that is data as \\\\".into(),
        ),
    }
}

/// Why a value is refused, and what to do.
#[must_use]
pub fn describe_refusal(refusal: Refusal, column: &Column, text: &str) -> (String, &'static str, String) {
    let type_name = type_name(&column.kind);
    let family = column.kind.family();
    let sqlstate = refusal.sqlstate(family).or(Refusal::InvalidSyntax.sqlstate(family)).unwrap_or("22000");
    match refusal {
        Refusal::InvalidSyntax if text.is_empty() => (
            format!("invalid input syntax for type {type_name}: \"\""),
            sqlstate,
            format!(
                "say which text means NULL: --null, or where it is an empty text in quotes --force-null {}; or load the \
                 column as text",
                column.name
            ),
        ),
        Refusal::InvalidSyntax => (
            format!("invalid input syntax for type {type_name}: \"{text}\""),
            sqlstate,
            "mend the value, or load the column as text".into(),
        ),
        Refusal::OutOfRange if matches!(column.kind, ColumnType::Numeric { .. } | ColumnType::Decimal) => (
            format!("numeric field overflow: \"{text}\" does not fit {type_name}"),
            sqlstate,
            "mend the value, or give the column more digits".into(),
        ),
        Refusal::OutOfRange => (
            match column.kind {
                ColumnType::Opaque => format!("value \"{text}\" is out of range for {type_name}"),
                _ => format!("value \"{text}\" is out of range for type {type_name}"),
            },
            sqlstate,
            "mend the value, or give the column a wider type".into(),
        ),
        Refusal::TooLong { limit } => (
            format!("value too long for type {type_name}: more than {limit} characters"),
            sqlstate,
            "shorten the value, or widen the column".into(),
        ),
        Refusal::NullNotAllowed => (
            format!("null value in column \"{}\" violates not-null constraint", column.name),
            sqlstate,
            "give a value, drop the constraint, or check --null (it says which text means NULL)".into(),
        ),
        Refusal::MapKeys => {
            (refusal.reason().into(), sqlstate, "mend the map, or load it into a column of type text".into())
        }
        Refusal::InvalidEncoding => (
            "not valid UTF-8 text, or a NUL byte".into(),
            sqlstate,
            "convert the file to UTF-8 (iconv), or check --encoding".into(),
        ),
        Refusal::Unsure => (
            format!("\"{text}\" is not in a form of {type_name} that is certain without a PostgreSQL server"),
            sqlstate,
            remedy_of_unsure(&column.kind, text).into(),
        ),
    }
}

/// Why a record is no text where its source is in another encoding: what has no character there was marked.
#[must_use]
pub fn undecodable_reason(planned: &Source, record: &[u8]) -> Option<String> {
    let encoding = planned.form.as_ref()?.encoding.as_ref()?;
    memchr::memchr(NO_CHARACTER, record)?;
    Some(format!("a byte that is no character of {encoding}; in the file of rejects FF stands for it"))
}

/// What the byte offset counts, where that is not the file's bytes.
pub(super) fn offset_note(planned: &Source) -> &'static str {
    match &planned.form {
        Some(form) if form.skip_lines > 0 || form.comment.is_some() => {
            " (the offset counts text after unpacking, decoding and leaving lines out)"
        }
        Some(form) if form.compression.is_some() || form.encoding.is_some() || says_utf16(planned) => {
            " (the offset counts text after unpacking and decoding)"
        }
        _ => "",
    }
}

/// Whether a file says by its first bytes that it is UTF-16, which nobody had to name then.
fn says_utf16(planned: &Source) -> bool {
    let mut first = [0; 2];
    let read = File::open(&planned.path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && UTF16_MARKS.contains(&first)
}

/// How to write a value so that its meaning is certain.
fn remedy_of_unsure(kind: &ColumnType, text: &str) -> &'static str {
    // With a month's name, or as a number of seconds, no order helps.
    let has_order = text.split(['.', '/', '-', ' ']).take(3).filter(|part| part.parse::<u16>().is_ok()).count() == 3;
    match kind {
        ColumnType::Array(_) => "write the array as {1,2,NULL}, texts in double quotes",
        ColumnType::Bytea => "write the bytes as \\x and hexadecimal digits",
        ColumnType::Interval { .. } => "write the interval as 1 year 2 mons 3 days 04:05:06, or as P1Y2M3DT4H5M6S",
        ColumnType::Date | ColumnType::Timestamp { .. } if has_order => {
            "write the value in its ISO form, or say in which order day and month stand: --date-style DMY or MDY"
        }
        ColumnType::TimestampTz { .. } if !has_order => "write the value in its ISO form, with its distance from UTC",
        ColumnType::TimestampTz { .. } => {
            "write the value in its ISO form, with its distance from UTC (--date-style says in which order day and month \
             stand)"
        }
        _ => "write the value in its ISO form",
    }
}

/// What there is to say of a bad record, but for where it stands.
#[derive(Debug)]
pub struct Complaint {
    /// The column, where one is to blame.
    pub column: Option<String>,
    /// The offending text, shortened.
    pub text: String,
    /// Why it cannot be stored.
    pub reason: String,
    /// The server's code for that reason.
    pub sqlstate: String,
    /// What to do next.
    pub remedy: String,
}

/// With this begins what is said of a record that is longer than the limit.
pub const OVERLONG: &str = "the record is longer than";

/// What is wrong with a record that is longer than the limit.
#[must_use]
pub fn overlong(record: &[u8], limit_bytes: usize) -> Complaint {
    Complaint {
        column: None,
        text: shown(record),
        reason: format!(
            "{OVERLONG} {limit_bytes} bytes; an unclosed quote? The file of rejects has the first \
             {} bytes of it, and delimiters behind them so that it cannot be loaded by mistake",
            limit_bytes.min(KEPT_BYTES)
        ),
        sqlstate: "54000".into(),
        remedy: "close the quote, or raise --max-record-size".into(),
    }
}

/// A record that is longer than the limit, where the first bad record ends the job.
#[must_use]
pub fn too_long(record: &[u8], limit_bytes: usize) -> Complaint {
    Complaint {
        reason: format!("{OVERLONG} {limit_bytes} bytes; an unclosed quote?"),
        remedy: "close the quote in this record, or raise --max-record-size, and --memory-limit where one is given"
            .into(),
        ..overlong(record, limit_bytes)
    }
}

/// A header that is longer than a record may be.
pub(super) fn header_too_long(planned: &Source, limit_bytes: usize) -> Error {
    let path = planned.path.display();
    Error::Invalid { message: format!("{path}: the header is longer than {limit_bytes} bytes; an unclosed quote?") }
}

/// What is kept of a record that is longer than the limit. It has more fields than any table has columns, so that
/// nobody loads the beginning in place of the whole.
#[must_use]
pub fn beginning(record: &[u8], limit_bytes: usize, dialect: &Dialect, columns: usize) -> Vec<u8> {
    let mut kept = record[..record.len().min(limit_bytes).min(KEPT_BYTES)].to_vec();
    while split::count_records(&kept, State::Outside, dialect).1 == State::Escaped || ends_with_escape(&kept, dialect) {
        kept.pop();
    }
    if split::count_records(&kept, State::Outside, dialect).1 == State::Inside {
        kept.push(dialect.quote);
    }
    kept.resize(kept.len() + columns + 1, dialect.delimiter);
    kept.extend_from_slice(dialect.line_end.bytes());
    kept
}

fn ends_with_escape(text: &[u8], dialect: &Dialect) -> bool {
    dialect.family == Family::Text && text.last() == Some(&b'\\')
}

/// The record at an offset as an error; its number, where it is not given, is counted. Where it cannot be counted any more, that failure is the error.
#[must_use]
pub fn bad_record(
    planned: &Source,
    (offset, number): (u64, Option<u64>),
    dialect: &Dialect,
    header: bool,
    complaint: Complaint,
) -> Error {
    let Complaint { column, text, reason, sqlstate, remedy } = complaint;
    match number.map_or_else(|| record_number(planned, offset, dialect, header), Ok) {
        Ok(record_number) => Error::BadRecord(Box::new(BadRecord {
            file: planned.path.display().to_string(),
            record_number,
            byte_offset: Some(offset),
            column,
            text: Some(text),
            reason: reason + offset_note(planned),
            sqlstate: Some(sqlstate),
            remedy,
        })),
        Err(error) => error,
    }
}
