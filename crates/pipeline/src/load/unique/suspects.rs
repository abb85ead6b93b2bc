//! Records that may violate a key: what must be known of all of them is kept in memory, the records in a file.

use crate::error::{Error, Result};
use crate::plan::WritePath;
use crate::postgres::copy::Place;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A record that has a key which may be there twice, or is barred.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) place: Place,
    /// The record's number in its piece.
    pub(super) index: u64,
    pub(super) slice: u32,
    /// By key: its hash; `None` where a column is NULL.
    pub(super) claims: Box<[Option<u128>]>,
    /// Of its row, where one is kept.
    pub(super) digest: u128,
    pub(super) kept: Kept,
}

#[cfg(test)]
impl Suspect {
    /// One of which nothing is kept.
    pub(super) fn claiming(place: Place, claims: &[Option<u128>]) -> Self {
        let kept = Kept { file: 0, offset: 0, record_bytes: 0, row_bytes: 0, format: WritePath::Binary };
        Self { place, index: 0, slice: 0, claims: claims.into(), digest: 0, kept }
    }
}

/// Where a record and its row are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    file: usize,
    offset: u64,
    record_bytes: usize,
    row_bytes: usize,
    /// How the row is written.
    pub(super) format: WritePath,
}

/// A file of records and their rows.
pub(super) struct KeptFile {
    number: usize,
    path: PathBuf,
    file: BufWriter<File>,
    written: u64,
}

impl KeptFile {
    pub(super) fn create(spool: &Path, number: usize) -> Result<Self> {
        let path = path_of(spool, number);
        let file = File::create(&path).map_err(|error| Error::file(&path, "create it", &error))?;
        Ok(Self { number, path, file: BufWriter::new(file), written: 0 })
    }

    pub(super) fn push(&mut self, record: &[u8], format: WritePath, row: &[u8]) -> Result<Kept> {
        let written = self.file.write_all(record).and_then(|()| self.file.write_all(row));
        written.map_err(|error| Error::file(&self.path, "write it", &error))?;
        let (offset, record_bytes, row_bytes) = (self.written, record.len(), row.len());
        self.written += (record_bytes + row_bytes) as u64;
        Ok(Kept { file: self.number, offset, record_bytes, row_bytes, format })
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.file.flush().map_err(|error| Error::file(&self.path, "write it", &error))
    }
}

fn path_of(spool: &Path, number: usize) -> PathBuf {
    spool.join(format!("suspects-{number}.records"))
}

/// All files of records, to be read.
pub(super) struct KeptFiles(Vec<(PathBuf, File)>);

impl KeptFiles {
    pub(super) fn open(spool: &Path, count: usize) -> Result<Self> {
        let open = |number| {
            let path = path_of(spool, number);
            let file = File::open(&path).map_err(|error| Error::file(&path, "read it", &error))?;
            Ok((path, file))
        };
        (0..count).map(open).collect::<Result<Vec<_>>>().map(Self)
    }

    /// A record and its row.
    pub(super) fn read(&self, kept: Kept) -> Result<(Vec<u8>, Vec<u8>)> {
        let (path, file) = &self.0[kept.file];
        let mut record = vec![0; kept.record_bytes + kept.row_bytes];
        file.read_exact_at(&mut record, kept.offset).map_err(|error| Error::file(path, "read it", &error))?;
        let row = record.split_off(kept.record_bytes);
        Ok((record, row))
    }
}

/// What becomes of suspects, in the order of the sources.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Those that are refused, and by which key.
    pub(super) refused: Vec<(usize, usize)>,
    /// Those that are stored, and share a key with one that is refused.
    pub(super) stored: Vec<usize>,
}

/// Judges the suspects, which are sorted, one after the other: as the target would if it had its keys from the first row on.
/// By key, no record may have what is `barred`. The first `unique` keys are those that no two records share.
pub(super) fn judge(suspects: &[Suspect], barred: &[HashSet<u128>], unique: usize) -> Judgement {
    let numbered = barred.iter().enumerate();
    let mut taken: HashSet<(usize, u128)> =
        numbered.flat_map(|(key, hashes)| hashes.iter().map(move |&hash| (key, hash))).collect();
    let mut contested: HashSet<(usize, u128)> = HashSet::new();
    let mut judgement = Judgement::default();
    let mut stored = Vec::new();
    for (number, suspect) in suspects.iter().enumerate() {
        let claims = || suspect.claims.iter().enumerate().filter_map(|(key, claim)| Some((key, (*claim)?)));
        let shared_by_none = || claims().filter(|&(key, _)| key < unique);
        if let Some((key, _)) = claims().find(|claim| taken.contains(claim)) {
            judgement.refused.push((number, key));
            contested.extend(shared_by_none());
        } else {
            taken.extend(shared_by_none());
            stored.push(number);
        }
    }
    let shares = |&number: &usize| {
        let claims = suspects[number].claims.iter().enumerate();
        claims.filter_map(|(key, claim)| Some((key, (*claim)?))).any(|claim| contested.contains(&claim))
    };
    judgement.stored = stored.into_iter().filter(shares).collect();
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(claims: &[&[Option<u128>]]) -> Judgement {
        judged_beside(&[], claims)
    }

    fn judged_beside(taken: &[HashSet<u128>], claims: &[&[Option<u128>]]) -> Judgement {
        let suspects: Vec<_> = claims.iter().map(|claims| Suspect::claiming(Place::uncounted(0, 0), claims)).collect();
        judge(&suspects, taken, 2)
    }

    fn judgement(refused: &[(usize, usize)], stored: &[usize]) -> Judgement {
        Judgement { refused: refused.to_vec(), stored: stored.to_vec() }
    }

    #[test]
    fn the_first_record_of_a_key_is_stored() {
        let (a, b) = (Some(1), Some(2));
        assert_eq!(judged(&[&[a], &[b], &[a], &[a]]), judgement(&[(2, 0), (3, 0)], &[0]));
        assert_eq!(judged(&[&[None], &[None], &[a]]), judgement(&[], &[]));
    }

    #[test]
    fn rows_that_are_there_come_first() {
        let taken = [HashSet::from([1]), HashSet::from([7])];
        let claims: [&[Option<u128>]; 4] =
            [&[Some(1), Some(8)], &[Some(2), Some(7)], &[Some(2), Some(8)], &[Some(7), Some(1)]];
        assert_eq!(judged_beside(&taken, &claims), judgement(&[(0, 0), (1, 1)], &[2]));
    }

    #[test]
    fn foreign_keys_are_shared_and_what_they_refuse_takes_no_key() {
        // The third key is a foreign one, and the table that it refers to has no row 9.
        let barred = [HashSet::new(), HashSet::new(), HashSet::from([9])];
        let claims: [&[Option<u128>]; 5] = [
            &[Some(1), None, Some(9)],
            &[Some(1), None, Some(5)],
            &[Some(2), None, Some(5)],
            // A unique key speaks first.
            &[Some(1), None, Some(9)],
            &[Some(3), None, Some(9)],
        ];
        assert_eq!(judged_beside(&barred, &claims), judgement(&[(0, 2), (3, 0), (4, 2)], &[1]));
    }

    #[test]
    fn what_is_refused_takes_no_other_key() {
        // The second has the first key of the first one, and the second key of the third one.
        let claims: [&[Option<u128>]; 3] = [&[Some(1), Some(7)], &[Some(1), Some(8)], &[Some(2), Some(8)]];
        assert_eq!(judged(&claims), judgement(&[(1, 0)], &[0, 2]));
        // Keys of one number do not stand in each other's way.
        assert_eq!(judged(&[&[Some(1), Some(2)], &[Some(2), Some(1)]]), judgement(&[], &[]));
        assert_eq!(judged(&[&[None, Some(2)], &[Some(3), Some(2)], &[Some(3), None]]), judgement(&[(1, 1)], &[0, 2]));
    }
}
