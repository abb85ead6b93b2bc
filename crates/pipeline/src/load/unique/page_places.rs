//! Where on the target's pages records are, where pages are built here: the few that have to leave are then found without
//! looking through all that is staged.
//!
//! A stream knows which records it has put into which slot, one after the other ([`Run`]); how many are on each page is
//! read from the pages. Where the slot's pages come in the target, the session knows that has them appended ([`PageLog`]).
//! What comes of it is a hint: a row is looked for at its place and told by its keys, and who does not find it there looks
//! everywhere.

use super::super::parse::ParsedWindow;
use super::suspects::Suspect;
use crate::error::{Error, Result};
use crate::plan::PostgresTarget;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use tipple_codec::encode::heap::read::line_pointers;

const NAME: &str = "pages.places";
const WORD_BYTES: usize = 8;
/// Of a slot: its first page, its pages, its runs.
const HEAD_WORDS: usize = 3;
const RUN_WORDS: usize = 5;

/// Records of a source that follow one another there and on pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    source: u64,
    /// Where the first one begins in the source, and where the last one ends.
    offset: u64,
    end: u64,
    /// The number of the first one in its piece.
    first_record: u64,
    /// How many rows are in the slot before it.
    row: u64,
}

impl Run {
    fn words(self) -> [u64; RUN_WORDS] {
        [self.source, self.offset, self.end, self.first_record, self.row]
    }

    fn of([source, offset, end, first_record, row]: [u64; RUN_WORDS]) -> Self {
        Self { source, offset, end, first_record, row }
    }
}

/// The records of one slot.
#[derive(Debug, Default)]
pub(in super::super) struct SlotRecords {
    runs: Vec<Run>,
    /// Rows of each page.
    page_rows: Vec<u64>,
}

impl SlotRecords {
    /// These records of a window, without those that were `skipped` among them, have gone into the slot, which had so
    /// many rows before.
    pub(in super::super) fn add(
        &mut self,
        parsed: &ParsedWindow<'_>,
        records: Range<usize>,
        skipped: &[usize],
        mut row: u64,
    ) {
        let place_of = |record: usize| parsed.place.offset + parsed.records.start(record) as u64;
        let mut begin = records.start;
        for &end in skipped.iter().chain([&records.end]) {
            if begin < end {
                self.runs.push(Run {
                    source: parsed.place.source as u64,
                    offset: place_of(begin),
                    end: place_of(end),
                    first_record: parsed.first_record + begin as u64,
                    row,
                });
                row += (end - begin) as u64;
            }
            begin = end + 1;
        }
    }

    /// The slot is full, and has these pages.
    pub(in super::super) fn close(&mut self, pages: &[u8], block_size: usize) {
        self.page_rows = pages.chunks_exact(block_size).map(|page| line_pointers(page) as u64).collect();
    }

    fn words(&self, first_page: u64) -> impl Iterator<Item = u64> {
        [first_page, self.page_rows.len() as u64, self.runs.len() as u64]
            .into_iter()
            .chain(self.page_rows.iter().copied())
            .chain(self.runs.iter().flat_map(|run| run.words()))
    }
}

/// The file that says it of the one table of a job.
pub(in super::super) struct PageLog {
    path: PathBuf,
    /// `None` where nobody knows any more where pages come.
    file: Option<BufWriter<File>>,
    /// Pages so far.
    pages: u64,
}

impl PageLog {
    /// Of the table that begins to be filled; `None` where no keys are judged by afterwards, or several tables are filled.
    pub(in super::super) fn create(target: &PostgresTarget) -> Result<Option<Self>> {
        let Some(keys) = target.unique.as_ref().filter(|_| target.routing.is_none()) else { return Ok(None) };
        let path = keys.spool.join(NAME);
        let file = File::create(&path).map_err(|error| Error::file(&path, "create it", &error))?;
        Ok(Some(Self { path, file: Some(BufWriter::new(file)), pages: 0 }))
    }

    /// Pages were appended, and hold these records.
    pub(in super::super) fn appended(&mut self, pages: usize, records: Option<&SlotRecords>) -> Result<()> {
        if let (Some(file), Some(records)) = (&mut self.file, records) {
            let mut words = records.words(self.pages);
            let written = words.try_for_each(|word| file.write_all(&word.to_le_bytes()));
            written.map_err(|error| Error::file(&self.path, "write it", &error))?;
        }
        self.pages += pages as u64;
        Ok(())
    }

    /// Somebody else adds pages to the table: where those come that follow, nobody knows.
    pub(in super::super) fn lose_track(&mut self) -> Result<()> {
        self.finish()
    }

    /// Nothing comes any more.
    pub(in super::super) fn finish(&mut self) -> Result<()> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        file.flush().map_err(|error| Error::file(&self.path, "write it", &error))
    }
}

/// A row's address: page, and line pointer on it (`ctid`).
pub(super) type Address = (u64, u64);

/// Where these records are, as far as that is known. `suspects` are in the order of the sources.
///
/// # Errors
/// The disk's.
pub(super) fn addresses(spool: &Path, suspects: &[&Suspect]) -> Result<Vec<Address>> {
    let path = spool.join(NAME);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file(&path, "read it", &error)),
    };
    found(&mut BufReader::with_capacity(1 << 18, file), suspects).map_err(|error| Error::file(&path, "read it", &error))
}

fn found(file: &mut impl Read, suspects: &[&Suspect]) -> io::Result<Vec<Address>> {
    let place_of = |suspect: &Suspect| (suspect.place.source as u64, suspect.place.offset);
    let (mut found, mut words) = (Vec::new(), Vec::new());
    loop {
        words.clear();
        read_words(file, HEAD_WORDS, &mut words)?;
        let &[first_page, pages, runs] = &words[..] else { return Ok(found) };
        let (pages, runs) = (pages as usize, runs as usize);
        words.clear();
        read_words(file, pages + RUN_WORDS * runs, &mut words)?;
        if words.len() < pages + RUN_WORDS * runs {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (page_rows, runs) = words.split_at(pages);
        for run in runs.as_chunks::<RUN_WORDS>().0.iter().copied().map(Run::of) {
            let begin = suspects.partition_point(|suspect| place_of(suspect) < (run.source, run.offset));
            let is_in_run = |suspect: &&&Suspect| place_of(suspect) < (run.source, run.end);
            for suspect in suspects[begin..].iter().take_while(is_in_run) {
                let row = suspect.index.checked_sub(run.first_record).map(|behind| run.row + behind);
                let address = row.and_then(|row| address(page_rows, row));
                found.extend(address.map(|(page, item)| (first_page + page, item)));
            }
        }
    }
}

/// Page and line pointer, from 1, of a row of a slot.
fn address(page_rows: &[u64], row: u64) -> Option<Address> {
    let mut before = 0;
    for (page, rows) in (0..).zip(page_rows) {
        if row < before + rows {
            return Some((page, row - before + 1));
        }
        before += rows;
    }
    None
}

/// Reads so many words, or as many as there are.
fn read_words(file: &mut impl Read, count: usize, words: &mut Vec<u64>) -> io::Result<()> {
    let mut bytes = Vec::new();
    file.by_ref().take((WORD_BYTES * count) as u64).read_to_end(&mut bytes)?;
    words.extend(bytes.as_chunks::<WORD_BYTES>().0.iter().map(|word| u64::from_le_bytes(*word)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::copy::Place;
    use proptest::prelude::*;

    const RECORD_BYTES: u64 = 10;

    fn suspect(source: usize, offset: u64, index: u64) -> Suspect {
        Suspect { index, ..Suspect::claiming(Place::uncounted(source, offset), &[]) }
    }

    proptest! {
        /// Slots hold runs of records in any order of the sources, on pages of any number of rows; records that were
        /// skipped, or went another way, are between them.
        #[test]
        fn records_are_where_they_were_put(
            slots in prop::collection::vec(
                (prop::collection::vec((1_u64..6, 0_u64..3), 1..6), prop::collection::vec(1_u64..4, 12), 0_usize..3),
                1..5,
            ),
        ) {
            let (mut bytes, mut expected, mut suspects) = (Vec::new(), Vec::new(), Vec::new());
            let (mut first_page, mut next) = (0, [0_u64; 3]);
            for (runs, page_rows, source) in slots.into_iter().rev() {
                let mut records = SlotRecords { runs: Vec::new(), page_rows };
                let mut row = 0;
                for (count, left_out) in runs {
                    let first_record = next[source];
                    let (offset, end) = (RECORD_BYTES * first_record, RECORD_BYTES * (first_record + count));
                    records.runs.push(Run { source: source as u64, offset, end, first_record, row });
                    for index in first_record..first_record + count {
                        suspects.push(suspect(source, RECORD_BYTES * index, index));
                        let rows: Vec<Address> = (first_page..).zip(&records.page_rows)
                            .flat_map(|(page, &rows)| (1..=rows).map(move |item| (page, item))).collect();
                        expected.extend(rows.get((row + index - first_record) as usize));
                    }
                    row += count;
                    for index in first_record + count..first_record + count + left_out {
                        suspects.push(suspect(source, RECORD_BYTES * index, index));
                    }
                    next[source] += count + left_out;
                }
                bytes.extend(records.words(first_page).flat_map(u64::to_le_bytes));
                first_page += records.page_rows.len() as u64;
            }
            suspects.sort_unstable_by_key(|suspect| (suspect.place.source, suspect.place.offset));
            let mut there = found(&mut &bytes[..], &suspects.iter().collect::<Vec<_>>()).unwrap();
            there.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(there, expected);
            let cut = bytes.len() - 1;
            prop_assert!(found(&mut &bytes[..cut], &[]).is_err());
        }
    }

    #[test]
    fn nothing_is_known_where_nobody_has_noted_it() {
        let spool = tempfile::tempdir().unwrap();
        assert_eq!(addresses(spool.path(), &[&suspect(0, 0, 0)]).unwrap(), []);
    }
}
