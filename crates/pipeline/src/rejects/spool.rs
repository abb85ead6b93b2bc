//! The rejects of a run in the order of the sources, from the files that its streams have spooled.
//!
//! A stream takes one slice after the other, so its file holds runs of lines in order; these are merged. In memory are
//! as many lines as there are runs.

use super::{Reject, line};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;

/// Of so many bytes are the records, at most, that are given at once, unless a single one is longer.
const MOST_BYTES: usize = 1 << 20;

/// Lines of all files, the next one of each run at hand.
#[derive(Debug)]
pub struct Spool {
    files: Vec<Lines>,
    runs: BinaryHeap<Reverse<Run>>,
    /// By slice, how many records of its source come before it.
    before: HashMap<u32, u64>,
}

impl Spool {
    /// The rejects in `files`; `before` says by slice how many records of its source come before it, 0 where it says
    /// nothing. With `expected`, the number of rejects of each slice that has any, `None` where there are others: the
    /// run has not seen all rejects of its job, or more than those.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn open(
        files: &[PathBuf],
        before: HashMap<u32, u64>,
        expected: Option<&HashMap<u32, u64>>,
    ) -> io::Result<Option<Self>> {
        let mut spool = Self { files: Vec::new(), runs: BinaryHeap::new(), before };
        let mut found = HashMap::new();
        for path in files {
            let mut lines = Lines { reader: BufReader::with_capacity(1 << 16, File::open(path)?), at: 0 };
            spool.divide(&mut lines, &mut found)?;
            spool.files.push(lines);
        }
        Ok(expected.is_none_or(|expected| *expected == found).then_some(spool))
    }

    /// Finds the runs of the file that comes next, and counts its rejects by slice.
    fn divide(&mut self, lines: &mut Lines, found: &mut HashMap<u32, u64>) -> io::Result<()> {
        let mut open: Option<Run> = None;
        let mut last = (0, 0);
        let mut line = Vec::new();
        loop {
            let begin = lines.at;
            if !lines.read(begin, &mut line)? {
                break;
            }
            let (slice, source, offset) = line::place_of(&line)?;
            *found.entry(slice).or_default() += 1;
            let place = (source, offset);
            match &mut open {
                Some(run) if last <= place => run.end = lines.at,
                _ => {
                    let next = Run { place, file: self.files.len(), next: lines.at, end: lines.at, line: line.clone() };
                    self.runs.extend(open.replace(next).map(Reverse));
                }
            }
            last = place;
        }
        self.runs.extend(open.map(Reverse));
        Ok(())
    }

    /// The next rejects, at most so many; none when all have been given.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn take(&mut self, most: usize) -> io::Result<Vec<Reject>> {
        let mut rejects = Vec::new();
        let mut bytes = 0;
        while rejects.len() < most
            && bytes < MOST_BYTES
            && let Some(Reverse(mut run)) = self.runs.pop()
        {
            let line = line::parse(&run.line)?;
            let before = self.before.get(&line.slice).copied().unwrap_or(0);
            bytes += line.record.len();
            rejects.push(Reject {
                source: line.source,
                record_number: before + line.index + 1,
                offset: line.offset,
                column: line.column,
                reason: line.reason,
                sqlstate: line.sqlstate,
                record: line.record,
            });
            if run.next < run.end {
                let lines = &mut self.files[run.file];
                lines.read(run.next, &mut run.line)?;
                run.next = lines.at;
                let (_, source, offset) = line::place_of(&run.line)?;
                run.place = (source, offset);
                self.runs.push(Reverse(run));
            }
        }
        Ok(rejects)
    }
}

/// Lines in order, of one file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    /// Source and offset of the record of `line`.
    place: (usize, u64),
    file: usize,
    /// Where the line behind `line` begins.
    next: u64,
    /// Where the run ends.
    end: u64,
    line: Vec<u8>,
}

#[derive(Debug)]
struct Lines {
    reader: BufReader<File>,
    at: u64,
}

impl Lines {
    fn read(&mut self, at: u64, line: &mut Vec<u8>) -> io::Result<bool> {
        // What is in the buffer already is not read once more.
        self.reader.seek_relative(at.cast_signed() - self.at.cast_signed())?;
        let read = line::read(&mut self.reader, line)?;
        self.at = at + line.len() as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::copy::Place;
    use proptest::prelude::*;

    fn spooled(directory: &tempfile::TempDir, files: &[Vec<(u32, usize, u64)>]) -> Vec<PathBuf> {
        let write = |(number, places): (usize, &Vec<(u32, usize, u64)>)| {
            let path = directory.path().join(format!("{number}.csv"));
            let lines = places.iter().flat_map(|&(slice, source, offset)| {
                let place = Place { source, offset, record: None };
                line::write(("job", slice, place, offset), (None, "two\nlines", ""), &offset.to_be_bytes())
            });
            std::fs::write(&path, lines.collect::<Vec<u8>>()).unwrap();
            path
        };
        files.iter().enumerate().map(write).collect()
    }

    proptest! {
        /// Against sorting all of them.
        #[test]
        fn rejects_come_in_the_order_of_the_sources(
            files in prop::collection::vec(prop::collection::vec((0..4_u32, 0..3_usize, 0..50_u64), 0..20), 0..4),
            most in 1..9_usize,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let paths = spooled(&directory, &files);
            let before = HashMap::from([(1, 100), (3, 5)]);
            let mut spool = Spool::open(&paths, before.clone(), None).unwrap().unwrap();
            let mut found = Vec::new();
            loop {
                let rejects = spool.take(most).unwrap();
                if rejects.is_empty() {
                    break;
                }
                prop_assert!(rejects.len() <= most);
                found.extend(rejects);
            }
            prop_assert!(found.is_sorted_by_key(|reject| (reject.source, reject.offset)));
            let mut numbers: Vec<_> = found.iter().map(|it| (it.source, it.offset, it.record_number)).collect();
            let number = |&(slice, source, offset): &(u32, usize, u64)| {
                (source, offset, before.get(&slice).unwrap_or(&0) + offset + 1)
            };
            let mut expected: Vec<_> = files.iter().flatten().map(number).collect();
            numbers.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(numbers, expected);
        }
    }

    #[test]
    fn rejects_that_the_run_has_not_seen_are_missed() {
        let directory = tempfile::tempdir().unwrap();
        let paths = spooled(&directory, &[vec![(1, 0, 5), (1, 0, 9)], vec![(2, 0, 20)]]);
        let opened = |expected: &[(u32, u64)]| {
            let expected = expected.iter().copied().collect();
            Spool::open(&paths, HashMap::new(), Some(&expected)).unwrap().is_some()
        };
        assert!(opened(&[(1, 2), (2, 1)]));
        assert!(!opened(&[(1, 2)]));
        assert!(!opened(&[(1, 1), (2, 2)]));
        assert!(!opened(&[(0, 1), (1, 2), (2, 1)]));
    }
}
