//! A sample of the values of one column, from the beginning and the end of every slice: which partitions a source
//! needs is mostly known by it before the first row is loaded.

use super::SourceFile;
use super::window::{WindowReader, Windows};
use crate::error::Result;
use crate::plan::{Piece, Slice, Source};
use serde::Deserialize;
use std::collections::BTreeSet;
use tipple_codec::decode::Decoder;
use tipple_codec::dialect::Dialect;
use tipple_codec::scan::Scanner;
use tipple_codec::split::{self, State};

/// Records that are looked at in all places together, where there are few: all that a small source has.
const RECORDS: usize = 20_000;
/// Records that are looked at in each place, however many places there are.
const RECORDS_PER_PLACE: usize = 64;
/// Text that is read at the end of a slice.
const TAIL_BYTES: u64 = 64 * 1024;

/// What to sample.
#[derive(Debug, Deserialize)]
pub struct KeysPlan {
    /// The files.
    pub sources: Vec<Source>,
    /// How they are written.
    pub dialect: Dialect,
    /// How many columns a record has.
    pub columns: usize,
    /// The column to look at.
    pub column: usize,
    /// The slices.
    pub slices: Vec<Slice>,
    /// Text that is read at the beginning of a slice, in bytes.
    pub window_bytes: usize,
}

/// Texts of the column, each once. Records that are not regular are passed over: the load will name them.
///
/// # Errors
/// Where a source cannot be read or has changed.
pub fn sample(plan: &KeysPlan) -> Result<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut buffer = Vec::new();
    let pieces: usize = plan.slices.iter().map(|slice| slice.pieces.len()).sum();
    let records = RECORDS_PER_PLACE.max(RECORDS / (2 * pieces.max(1)));
    for piece in plan.slices.iter().flat_map(|slice| &slice.pieces) {
        let source = SourceFile::open(&plan.sources[piece.source])?;
        add(plan, &source, *piece, records, &mut buffer, &mut found)?;
        let tail = piece.length.min(TAIL_BYTES);
        if tail == piece.length {
            continue;
        }
        let offset = piece.offset + piece.length - tail;
        let mut bytes = vec![0; tail as usize];
        source.read_exact_at(&mut bytes, offset)?;
        // Whether the tail begins inside quotes nobody knows; a wrong guess adds a text that is no value.
        if let Some(behind) = split::scan_part(&bytes, &plan.dialect).first_record(State::Outside) {
            let part = Piece { offset: offset + behind as u64, length: tail - behind as u64, ..*piece };
            add(plan, &source, part, records, &mut buffer, &mut found)?;
        }
    }
    Ok(found.into_iter().collect())
}

/// Adds what so many records of the first window of `piece` hold.
fn add(
    plan: &KeysPlan,
    source: &SourceFile<'_>,
    piece: Piece,
    most: usize,
    buffer: &mut Vec<u8>,
    found: &mut BTreeSet<String>,
) -> Result<()> {
    let window_bytes = plan.window_bytes.min(TAIL_BYTES as usize);
    let mut reader = WindowReader::new(source, piece, buffer, window_bytes, usize::MAX, &plan.dialect);
    let Some(window) = reader.fill(usize::MAX)? else { return Ok(()) };
    let mut scanner = Scanner::new(plan.dialect.clone(), plan.columns);
    let mut decoder = Decoder::new(plan.dialect.clone());
    let records = scanner.scan(window.bytes);
    let rows = records.rows();
    let wanted = most.min(rows);
    for number in 0..wanted {
        // The first and the last one are among them: they are what is extreme where records are sorted.
        let row = if wanted > 1 { number * (rows - 1) / (wanted - 1) } else { 0 };
        if let Some(text) = decoder.decode(records.field(row, plan.column), plan.column) {
            found.insert(String::from_utf8_lossy(text).into_owned());
        }
    }
    Ok(())
}
