//! Records that have one of some keys, found in the sources again: a server that builds an index, or checks a foreign
//! key, over rows that it has already tells the key, and not where it came from. Nothing is stored. Of text the columns of
//! the key alone are read: what is in the others, and only the server could read, is in nobody's way.

use super::Context;
use super::batch_chunks::ChunkFeed;
use super::explain::remedy;
use super::parse::{ParsedWindow, Parser};
use super::queue::{Order, WorkQueue};
use crate::error::{BadRecord, Error, Result};
use crate::job::lock;
use crate::plan::{PostgresTarget, Sought, SoughtColumn, WritePath};
use crate::postgres::copy::{Chunk, Place};
use crate::source::locate::{self, Complaint};
use std::sync::{Mutex, PoisonError};
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::value::ServerVersion;

/// So many are kept of each slice: no more than the first two of all are told, and a key may be that of millions.
const MOST_OF_SLICE: usize = 2;

/// A record with one of the keys.
struct Found {
    place: Place,
    record: Vec<u8>,
}

/// # Errors
/// The record that is to blame, if it is found.
pub(super) fn run(context: &Context<'_>, target: &PostgresTarget, sought: &Sought) -> Result<()> {
    let queue = WorkQueue::new(context, Order::Largest);
    let found = Mutex::new(Vec::new());
    queue.share_out(context, |index| stream(context, target, &queue, sought, index, &found));
    if let Some(error) = context.failure() {
        return Err(error);
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|one| (one.place.source, one.place.offset));
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(first), Some(second)) if sought.repeated => Err(blame(context, sought, &second, Some(&first))),
        (Some(first), _) => Err(blame(context, sought, &first, None)),
        (None, _) => Ok(()),
    }
}

fn stream(
    context: &Context<'_>,
    target: &PostgresTarget,
    queue: &WorkQueue<'_>,
    sought: &Sought,
    index: usize,
    found: &Mutex<Vec<Found>>,
) -> Result<()> {
    let mut parser = Parser::new(context);
    let mut keys = KeyFinder::new(context, target, sought);
    let mut columnar = context.columnar.as_ref().map(|job| ChunkFeed::new(job, target));
    let counters = &context.counters.streams[index];
    while let Some(work) = queue.take(context)? {
        counters.take(work.n());
        let mut of_slice = Vec::new();
        if let Some(feed) = &mut columnar {
            feed.read(context, counters, &work, true, &mut None, |chunk, _| {
                find_in_chunk(&chunk, sought, &mut of_slice);
                context.check_cancelled()
            })?;
        } else {
            parser.parse(context, counters, &work, &mut None, |parsed, _| {
                keys.find(parsed, &mut of_slice);
                context.check_cancelled()
            })?;
        }
        lock(found).append(&mut of_slice);
        context.counters.slice_done();
    }
    Ok(())
}

/// What only the server can read is not looked at.
fn find_in_chunk(chunk: &Chunk, sought: &Sought, found: &mut Vec<Found>) {
    let Some(origin) = chunk.origin.as_ref().filter(|_| chunk.format == WritePath::Binary) else { return };
    let room = MOST_OF_SLICE - found.len();
    found.extend(rows_with(&chunk.bytes, sought).take(room).map(|row| {
        let (place, _, record) = origin.record(row);
        Found { place, record: record.into_owned() }
    }));
}

/// Finds keys in windows of text.
struct KeyFinder {
    /// Of the columns of the keys alone, in the order of `sought`.
    encoder: CopyBinaryEncoder,
    encoded: Vec<u8>,
    /// With the columns as the encoder writes them.
    sought: Sought,
}

impl KeyFinder {
    fn new(context: &Context<'_>, target: &PostgresTarget, sought: &Sought) -> Self {
        let (columns, server) = (&context.plan.columns, ServerVersion(target.server_version));
        let places: Vec<usize> = sought.columns.iter().map(|column| column.index).collect();
        let encoder = CopyBinaryEncoder::of_fields(columns, &places, context.plan.dialect.clone(), server, false);
        let mut sought = sought.clone();
        sought.columns.iter_mut().enumerate().for_each(|(place, column)| column.index = place);
        Self { encoder, encoded: Vec::new(), sought }
    }

    /// Adds the records of a window that have one of the keys, to [`MOST_OF_SLICE`]. A key that cannot be stored, or that
    /// only the server can read, is none of them.
    fn find(&mut self, parsed: &ParsedWindow<'_>, found: &mut Vec<Found>) {
        let Self { encoder, encoded, sought } = self;
        let records = parsed.records;
        encoded.clear();
        encoder.encode_those(
            records,
            encoded,
            |_| true,
            |row, key| {
                if found.len() < MOST_OF_SLICE && rows_with(key, sought).next().is_some() {
                    let (start, end) = (records.start(row), records.start(row + 1));
                    let place = parsed.place.behind(start, parsed.first_record + row as u64);
                    found.push(Found { place, record: parsed.window[start..end].to_vec() });
                }
                false
            },
        );
    }
}

/// The error that names a record, and the one before it that has the same key.
fn blame(context: &Context<'_>, sought: &Sought, found: &Found, before: Option<&Found>) -> Error {
    let error = |found: &Found| {
        let Sought { reason, sqlstate, .. } = sought;
        let (text, remedy) = (locate::shown(&found.record), remedy(sqlstate, reason));
        let complaint = Complaint { column: None, text, reason: reason.clone(), sqlstate: sqlstate.clone(), remedy };
        context.explain_complaint(found.place, complaint)
    };
    match (error(found), before.map(error)) {
        (Error::BadRecord(record), Some(Error::BadRecord(before))) => {
            let file = if before.file == record.file { String::new() } else { format!(" of {}", before.file) };
            let reason = format!("{}; record {}{file} has the same key", record.reason, before.record_number);
            Error::BadRecord(Box::new(BadRecord { reason, ..*record }))
        }
        (error, _) => error,
    }
}

/// The rows of COPY binary records that have one of the keys.
fn rows_with<'b>(records: &'b [u8], sought: &'b Sought) -> impl Iterator<Item = usize> + 'b {
    let mut rest = records;
    let mut fields: Vec<&[u8]> = Vec::new();
    let mut row = 0;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            rest = read_record(rest, &mut fields)?;
            row += 1;
            let of_key = |(column, value): (&SoughtColumn, &Vec<u8>)| {
                let field = fields.get(column.index).copied().unwrap_or_default();
                field == value || (column.padded && without_padding(field) == without_padding(value))
            };
            if sought.values.iter().any(|values| sought.columns.iter().zip(values).all(of_key)) {
                return Some(row - 1);
            }
        }
        None
    })
}

/// The fields of the first record (PostgreSQL's COPY, "Binary Format": a count, then length and bytes of each; a NULL
/// has length -1 and counts as empty here), and what is behind it; `None` where it is cut off.
fn read_record<'b>(records: &'b [u8], fields: &mut Vec<&'b [u8]>) -> Option<&'b [u8]> {
    fields.clear();
    let (count, mut rest) = records.split_first_chunk()?;
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, behind) = rest.split_first_chunk()?;
        let length = i32::from_be_bytes(*length).max(0) as usize;
        let (field, behind) = behind.split_at_checked(length)?;
        fields.push(field);
        rest = behind;
    }
    Some(rest)
}

/// `char(n)` is sent as the file has it, and comes back filled up with spaces.
fn without_padding(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &value[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = (fields.len() as u16).to_be_bytes().to_vec();
        for field in fields {
            bytes.extend_from_slice(&field.map_or(-1, |field| field.len() as i32).to_be_bytes());
            bytes.extend_from_slice(field.unwrap_or_default());
        }
        bytes
    }

    fn keys(columns: &[(usize, bool)], values: &[&[&[u8]]]) -> Sought {
        Sought {
            repeated: false,
            reason: String::new(),
            sqlstate: String::new(),
            columns: columns.iter().map(|&(index, padded)| SoughtColumn { index, padded }).collect(),
            values: values.iter().map(|values| values.iter().map(|value| value.to_vec()).collect()).collect(),
        }
    }

    fn found(records: &[Vec<u8>], keys: &Sought) -> Vec<usize> {
        rows_with(&records.concat(), keys).collect()
    }

    #[test]
    fn rows_are_found_by_all_columns_of_a_key() {
        let records = [
            record(&[Some(b"a"), None, Some(b"x")]),
            record(&[Some(b"a"), Some(b"1"), Some(b"y")]),
            record(&[Some(b"b"), Some(b"1"), Some(b"x")]),
            record(&[Some(b"a"), Some(b"1"), Some(b"x")]),
        ];
        assert_eq!(found(&records, &keys(&[(0, false), (2, false)], &[&[b"a", b"x"]])), [0, 3]);
        assert_eq!(found(&records, &keys(&[(2, false), (0, false)], &[&[b"y", b"a"], &[b"x", b"b"]])), [1, 2]);
        assert_eq!(found(&records, &keys(&[(1, false)], &[&[b"2"]])), [0; 0]);
    }

    #[test]
    fn padding_counts_where_it_is_text() {
        let records = [record(&[Some(b"ab")]), record(&[Some(b"ab  ")]), record(&[Some(b"abc")])];
        assert_eq!(found(&records, &keys(&[(0, true)], &[&[b"ab   "]])), [0, 1]);
        assert_eq!(found(&records, &keys(&[(0, false)], &[&[b"ab  "]])), [1]);
    }

    #[test]
    fn what_is_cut_off_is_no_record() {
        let records = [record(&[Some(b"a"), Some(b"b")]), record(&[Some(b"a"), Some(b"b")])].concat();
        for length in 0..records.len() {
            let wanted = keys(&[(1, false)], &[&[b"b"]]);
            assert_eq!(rows_with(&records[..length], &wanted).count(), length / (records.len() / 2));
        }
    }
}
