//! The rejects of a run in the order of the sources, from the files that its streams have spooled.
//!
//! A stream takes one slice after the other, so its file holds runs of rows in order; these are merged. In memory are
//! as many places as there are runs.

use super::Reject;
use super::row::{self, Body, Head};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// Of so many bytes are the records, at most, that are given at once, unless a single one is longer.
const MOST_BYTES: usize = 1 << 20;

/// Rows of all files, the next one of each run known.
#[derive(Debug)]
pub struct Spool {
    files: Vec<Rows>,
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
            let mut rows = Rows::open(path)?;
            spool.divide(&mut rows, &mut found)?;
            spool.files.push(rows);
        }
        Ok(expected.is_none_or(|expected| *expected == found).then_some(spool))
    }

    /// Finds the runs of the file that comes next, and counts its rejects by slice.
    fn divide(&mut self, rows: &mut Rows, found: &mut HashMap<u32, u64>) -> io::Result<()> {
        let mut open: Option<Run> = None;
        let mut last = (0, 0);
        loop {
            let begin = rows.at;
            let Some(Head { slice, source, offset, .. }) = rows.pass()? else { break };
            *found.entry(slice).or_default() += 1;
            let place = (source, offset);
            match &mut open {
                Some(run) if last <= place => run.end = rows.at,
                _ => {
                    let next = Run { place, file: self.files.len(), next: begin, end: rows.at };
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
            let rows = &mut self.files[run.file];
            rows.go(run.next)?;
            // Most often the run goes on with what comes next.
            loop {
                let (head, body) = rows.read()?;
                let before = self.before.get(&head.slice).copied().unwrap_or(0);
                bytes += body.record.len();
                rejects.push(Reject {
                    source: head.source,
                    record_number: before + head.index + 1,
                    offset: head.offset,
                    column: body.column,
                    reason: body.reason,
                    sqlstate: body.sqlstate,
                    record: body.record,
                });
                if rows.at == run.end {
                    break;
                }
                run.next = rows.at;
                run.place = rows.place()?;
                let is_next = self.runs.peek().is_none_or(|Reverse(other)| run <= *other);
                if !is_next || rejects.len() == most || bytes >= MOST_BYTES {
                    self.runs.push(Reverse(run));
                    break;
                }
            }
        }
        Ok(rejects)
    }
}

/// Rows in order, of one file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    /// Source and offset of the record of the row at `next`.
    place: (usize, u64),
    file: usize,
    /// Where the row begins that comes next.
    next: u64,
    /// Where the run ends.
    end: u64,
}

/// The rows of one file.
#[derive(Debug)]
pub struct Rows {
    reader: BufReader<File>,
    /// Where the next row begins.
    at: u64,
    /// What that begins with, where it was looked at.
    head: Option<Head>,
    bytes: u64,
}

impl Rows {
    /// From the first one on.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { reader: BufReader::with_capacity(1 << 16, file), at: 0, head: None, bytes })
    }

    /// Goes to the row that begins at `at`.
    fn go(&mut self, at: u64) -> io::Result<()> {
        let looked_at = if self.head.take().is_some() { row::HEAD_BYTES as u64 } else { 0 };
        // What is in the buffer already is not read once more.
        self.reader.seek_relative(at.cast_signed() - (self.at + looked_at).cast_signed())?;
        self.at = at;
        Ok(())
    }

    /// Passes over the next row and gives what it begins with; `None` where there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn pass(&mut self) -> io::Result<Option<Head>> {
        let Some(head) = self.next_head()? else { return Ok(None) };
        let skip = |reader: &mut BufReader<File>, bytes: u64| reader.seek_relative(bytes.cast_signed());
        self.at += row::HEAD_BYTES as u64 + row::pass_body(&mut self.reader, skip)?;
        // Nothing keeps one from going where there is nothing.
        if self.at > self.bytes { Err(row::damaged()) } else { Ok(Some(head)) }
    }

    /// The next row; `None` where there is none.
    ///
    /// # Errors
    /// As [`Rows::pass`].
    pub fn read_next(&mut self) -> io::Result<Option<(Head, Body)>> {
        let Some(head) = self.next_head()? else { return Ok(None) };
        let body = row::read_body(&mut self.reader)?;
        self.at += row::HEAD_BYTES as u64 + body.bytes();
        Ok(Some((head, body)))
    }

    fn next_head(&mut self) -> io::Result<Option<Head>> {
        self.head.take().map_or_else(|| row::read_head(&mut self.reader), |head| Ok(Some(head)))
    }

    /// The next row, which there is.
    fn read(&mut self) -> io::Result<(Head, Body)> {
        self.read_next()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Source and offset of the next row's record, which there is.
    fn place(&mut self) -> io::Result<(usize, u64)> {
        let head = self.next_head()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.head = Some(head);
        Ok((head.source, head.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::copy::Place;
    use crate::rejects::row::JobId;
    use proptest::prelude::*;

    fn spooled(directory: &tempfile::TempDir, files: &[Vec<(u32, usize, u64)>]) -> Vec<PathBuf> {
        let write = |(number, places): (usize, &Vec<(u32, usize, u64)>)| {
            let path = directory.path().join(format!("{number}.rows"));
            let mut rows = Vec::new();
            for &(slice, source, offset) in places {
                let place = Place::uncounted(source, offset);
                let told = (None, "two\nlines", "");
                row::write(&mut rows, (JobId([0; 16]), slice, place, offset), told, &offset.to_be_bytes()).unwrap();
            }
            std::fs::write(&path, rows).unwrap();
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
