//! Hashes of keys on disk, and those that are there more than once.
//!
//! A file is a run of blocks; a block is sorted by the first byte of its hashes, and begins with where those of each byte
//! end. So all hashes with one first byte, a 256th of them, are read and sorted at a time, whatever wrote them. Behind the
//! hashes is of which group of records each of them is, and then where the groups are.

use super::groups::{GROUP_BYTES, Group};
use crate::error::{Error, Result};
use crate::job::lock;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Hashes that are gathered before a block is written: 8 MB.
const BLOCK_HASHES: usize = 1 << 20;
/// First bytes of a hash.
const PARTS: usize = 256;
/// Where the hashes of each first byte end, and how many groups there are.
const HEAD_BYTES: usize = PARTS * 4 + 4;
/// The group of a hash whose record is in none.
const NONE: u32 = u32::MAX;
const EXTENSION: &str = "hashes";

fn part_of(hash: u64) -> usize {
    (hash >> 56) as usize
}

/// The hashes of one key that one stream has seen.
#[derive(Debug)]
pub(super) struct HashFile {
    path: PathBuf,
    file: Option<File>,
    hashes: Vec<u64>,
    /// Of each hash the number of its group.
    numbers: Vec<u32>,
    groups: Vec<Group>,
    /// Hashes of slices that are done, and groups.
    kept: (usize, usize),
}

impl HashFile {
    pub(super) fn new(spool: &Path, key: usize, stream: usize) -> Self {
        let path = spool.join(format!("key-{key}-{stream}.{EXTENSION}"));
        let (hashes, numbers, groups) = (Vec::new(), Vec::new(), Vec::new());
        Self { path, file: None, hashes, numbers, groups, kept: (0, 0) }
    }

    /// Notes the hash of a record that is in no group.
    #[inline]
    pub(super) fn push(&mut self, hash: u128) {
        self.hashes.push(hash as u64);
        self.numbers.push(NONE);
    }

    /// Notes the hash of a record of this group; those of one group come one after the other.
    #[inline]
    pub(super) fn push_grouped(&mut self, hash: u128, group: &Group) {
        if self.groups.last() != Some(group) {
            self.groups.push(*group);
        }
        self.hashes.push(hash as u64);
        self.numbers.push(self.groups.len() as u32 - 1);
    }

    pub(super) fn take_back(&mut self) {
        let (hashes, groups) = self.kept;
        self.hashes.truncate(hashes);
        self.numbers.truncate(hashes);
        self.groups.truncate(groups);
    }

    pub(super) fn keep(&mut self) -> Result<()> {
        self.kept = (self.hashes.len(), self.groups.len());
        if self.kept.0 >= BLOCK_HASHES { self.write() } else { Ok(()) }
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        self.take_back();
        if self.kept.0 > 0 { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let block = block_of(&self.hashes, &self.numbers, &self.groups);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                // An earlier run of the same load may have noted others.
                let file = File::options().append(true).create(true).open(&self.path);
                self.file.insert(file.map_err(|error| Error::file(&self.path, "create it", &error))?)
            }
        };
        file.write_all(&block).map_err(|error| Error::file(&self.path, "write it", &error))?;
        self.kept = (0, 0);
        self.take_back();
        Ok(())
    }
}

fn block_of(hashes: &[u64], numbers: &[u32], groups: &[Group]) -> Vec<u8> {
    let mut ends = [0_u32; PARTS];
    for &hash in hashes {
        ends[part_of(hash)] += 1;
    }
    let mut begin = 0;
    for end in &mut ends {
        begin += std::mem::replace(end, begin);
    }
    let mut block = vec![0; HEAD_BYTES + (8 + 4) * hashes.len() + GROUP_BYTES * groups.len()];
    let (head, body) = block.split_at_mut(HEAD_BYTES);
    let (body, behind) = body.split_at_mut(8 * hashes.len());
    let (body_numbers, body_groups) = behind.split_at_mut(4 * hashes.len());
    for (&hash, number) in hashes.iter().zip(numbers) {
        // Each was the beginning, and becomes the end.
        let place = &mut ends[part_of(hash)];
        body[8 * *place as usize..][..8].copy_from_slice(&hash.to_le_bytes());
        body_numbers[4 * *place as usize..][..4].copy_from_slice(&number.to_le_bytes());
        *place += 1;
    }
    for (slot, end) in head.chunks_exact_mut(4).zip(ends.into_iter().chain([groups.len() as u32])) {
        slot.copy_from_slice(&end.to_le_bytes());
    }
    for (slot, group) in body_groups.chunks_exact_mut(GROUP_BYTES).zip(groups) {
        slot.copy_from_slice(&group.to_bytes());
    }
    block
}

/// Removes what was noted in `spool`.
pub(super) fn forget(spool: &Path) -> Result<()> {
    for path in paths(spool, "")? {
        std::fs::remove_file(&path).map_err(|error| Error::file(&path, "remove it", &error))?;
    }
    Ok(())
}

fn paths(spool: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::file(spool, "list it", &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(spool).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let named = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix));
        if named && path.extension().is_some_and(|extension| extension == EXTENSION) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Where the hashes of each first byte are in a block.
struct Block {
    offset: u64,
    ends: Vec<u32>,
    groups: usize,
}

impl Block {
    fn hashes(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }

    /// From its offset on.
    fn bytes(&self) -> usize {
        (8 + 4) * self.hashes() + GROUP_BYTES * self.groups
    }
}

struct Blocks {
    path: PathBuf,
    file: File,
    blocks: Vec<Block>,
}

impl Blocks {
    fn open(path: PathBuf) -> Result<Self> {
        let failed = |error| Error::file(&path, "read it", &error);
        let file = File::open(&path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let (mut offset, mut blocks) = (0, Vec::new());
        while offset < size {
            let mut head = [0; HEAD_BYTES];
            file.read_exact_at(&mut head, offset).map_err(failed)?;
            let mut ends: Vec<u32> = head.as_chunks::<4>().0.iter().map(|end| u32::from_le_bytes(*end)).collect();
            let groups = ends.pop().unwrap_or_default() as usize;
            let block = Block { offset: offset + HEAD_BYTES as u64, ends, groups };
            offset = block.offset + block.bytes() as u64;
            blocks.push(block);
        }
        Ok(Self { path, file, blocks })
    }

    /// Appends the hashes with this first byte.
    fn read(&self, part: usize, bytes: &mut Vec<u8>, hashes: &mut Vec<u64>) -> Result<()> {
        for Block { offset, ends, .. } in &self.blocks {
            let begin = if part == 0 { 0 } else { ends[part - 1] };
            bytes.resize(8 * (ends[part] - begin) as usize, 0);
            let read = self.file.read_exact_at(bytes, offset + 8 * u64::from(begin));
            read.map_err(|error| Error::file(&self.path, "read it", &error))?;
            hashes.extend(bytes.as_chunks::<8>().0.iter().map(|hash| u64::from_le_bytes(*hash)));
        }
        Ok(())
    }

    /// Appends the groups of records with these hashes.
    fn groups_with(&self, known: &KnownHashes, bytes: &mut Vec<u8>, found: &mut Vec<Group>) -> Result<()> {
        for block in &self.blocks {
            bytes.resize(block.bytes(), 0);
            let read = self.file.read_exact_at(bytes, block.offset);
            read.map_err(|error| Error::file(&self.path, "read it", &error))?;
            let (hashes, behind) = bytes.split_at(8 * block.hashes());
            let (numbers, groups) = behind.split_at(4 * block.hashes());
            let mut numbers: Vec<usize> = std::iter::zip(hashes.as_chunks::<8>().0, numbers.as_chunks::<4>().0)
                .filter(|(hash, number)| **number != NONE.to_le_bytes() && known.contains(u64::from_le_bytes(**hash)))
                .map(|(_, number)| u32::from_le_bytes(*number) as usize)
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            let groups = groups.as_chunks::<GROUP_BYTES>().0;
            found.extend(numbers.into_iter().map(|number| Group::from_bytes(&groups[number])));
        }
        Ok(())
    }
}

/// The groups of records with these hashes of a key, some more than once.
pub(super) fn groups_with(spool: &Path, key: usize, known: &KnownHashes) -> Result<Vec<Group>> {
    let (mut bytes, mut found) = (Vec::new(), Vec::new());
    for path in paths(spool, &format!("key-{key}-"))? {
        Blocks::open(path)?.groups_with(known, &mut bytes, &mut found)?;
    }
    Ok(found)
}

/// The hashes of a key that were noted more than once; no more than `most`, of each first byte.
pub(super) fn repeated(spool: &Path, key: usize, threads: usize) -> Result<Vec<u64>> {
    let files = paths(spool, &format!("key-{key}-"))?.into_iter().map(Blocks::open).collect::<Result<Vec<_>>>()?;
    let next = AtomicUsize::new(0);
    let parts: Mutex<Vec<Result<Vec<u64>>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let (mut bytes, mut hashes) = (Vec::new(), Vec::new());
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part >= PARTS {
                        break;
                    }
                    hashes.clear();
                    let read = files.iter().try_for_each(|file| file.read(part, &mut bytes, &mut hashes));
                    lock(&parts).push(read.map(|()| twice(&mut hashes)));
                }
            });
        }
    });
    let mut found = Vec::new();
    for part in std::mem::take(&mut *lock(&parts)) {
        found.extend(part?);
    }
    found.sort_unstable();
    Ok(found)
}

/// What is in `hashes` more than once.
fn twice(hashes: &mut [u64]) -> Vec<u64> {
    hashes.sort_unstable();
    let mut found: Vec<u64> = hashes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    found.dedup();
    found
}

/// Some hashes, asked for by each record: most are none of them.
pub(super) struct KnownHashes {
    sorted: Vec<u64>,
    /// A bit for what the low bits of a hash are.
    bits: Vec<u64>,
}

impl KnownHashes {
    /// `sorted` ascends.
    pub(super) fn new(sorted: Vec<u64>) -> Self {
        let mut bits = vec![0; (sorted.len() / 4).next_power_of_two().max(1)];
        let words = bits.len();
        for &hash in &sorted {
            bits[(hash >> 6) as usize & (words - 1)] |= 1 << (hash & 63);
        }
        Self { sorted, bits }
    }

    #[inline]
    pub(super) fn contains(&self, hash: u64) -> bool {
        let word = self.bits[(hash >> 6) as usize & (self.bits.len() - 1)];
        word & (1 << (hash & 63)) != 0 && self.sorted.binary_search(&hash).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tipple-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Few enough values that some repeat, all over the range.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (*state >> 51).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn what_is_there_twice_is_found_in_all_files_and_blocks() {
        let spool = directory("hashes");
        let mut state = 7;
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for stream in 0..3 {
            let mut file = HashFile::new(&spool, 0, stream);
            for _ in 0..5 {
                for _ in 0..200 {
                    let hash = random(&mut state);
                    *counts.entry(hash).or_default() += 1;
                    file.push(u128::from(hash) | 9 << 100);
                }
                file.keep().unwrap();
                file.write().unwrap();
            }
            file.finish().unwrap();
        }
        // Of another key.
        let mut other = HashFile::new(&spool, 1, 0);
        for hash in [5, 5, 6] {
            other.push(hash)
        }
        other.keep().unwrap();
        other.finish().unwrap();
        let twice: Vec<u64> = counts.iter().filter(|(_, count)| **count > 1).map(|(hash, _)| *hash).collect();
        assert!(twice.len() > 10 && twice.len() < counts.len());
        assert_eq!(repeated(&spool, 0, 2).unwrap(), twice);
        assert_eq!(repeated(&spool, 1, 1).unwrap(), [5]);
        // None of them is in a group.
        assert_eq!(groups_with(&spool, 0, &KnownHashes::new(twice)).unwrap(), []);
        forget(&spool).unwrap();
        assert_eq!(repeated(&spool, 0, 2).unwrap(), [0; 0]);
        std::fs::remove_dir(&spool).unwrap();
    }

    #[test]
    fn an_attempt_that_failed_is_taken_back() {
        let spool = directory("back");
        let mut file = HashFile::new(&spool, 0, 0);
        for hash in [1, 2] {
            file.push(hash)
        }
        file.keep().unwrap();
        for hash in [2, 3] {
            file.push(hash)
        }
        file.take_back();
        for hash in [3, 4] {
            file.push(hash)
        }
        file.keep().unwrap();
        file.push(1);
        file.finish().unwrap();
        assert_eq!(repeated(&spool, 0, 1).unwrap(), [0; 0]);
        forget(&spool).unwrap();
        std::fs::remove_dir(&spool).unwrap();
    }

    #[test]
    fn groups_are_found_by_the_hashes_of_their_records() {
        let spool = directory("groups");
        let mut state = 11;
        let mut of_hash: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for stream in 0..2 {
            let mut file = HashFile::new(&spool, 0, stream);
            for slice in 0..4 {
                for attempt in 0..2 {
                    for offset in 0..50 {
                        let offset = (stream as u64) << 32 | slice << 16 | offset;
                        let group = Group { source: stream, offset, length: 7, first_record: 9 };
                        for _ in 0..10 {
                            let hash = random(&mut state);
                            file.push_grouped(u128::from(hash), &group);
                            if attempt == 1 {
                                of_hash.entry(hash).or_default().push(offset);
                            }
                        }
                    }
                    if attempt == 0 {
                        file.take_back();
                    }
                }
                file.push(u128::from(random(&mut state)));
                file.keep().unwrap();
                if slice % 2 == 0 {
                    file.write().unwrap();
                }
            }
            file.finish().unwrap();
        }
        let sought: Vec<u64> = of_hash.keys().copied().step_by(40).collect();
        let mut expected: Vec<u64> = sought.iter().flat_map(|hash| of_hash[hash].clone()).collect();
        let mut found: Vec<u64> =
            groups_with(&spool, 0, &KnownHashes::new(sought)).unwrap().iter().map(|group| group.offset).collect();
        for offsets in [&mut expected, &mut found] {
            offsets.sort_unstable();
            offsets.dedup();
        }
        assert!(expected.len() > 10 && expected.len() < 300);
        assert_eq!(found, expected);
        forget(&spool).unwrap();
        std::fs::remove_dir(&spool).unwrap();
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let mut state = 3;
        let mut sorted: Vec<u64> = (0..500).map(|_| random(&mut state)).collect();
        sorted.sort_unstable();
        let set = KnownHashes::new(sorted.clone());
        assert!(sorted.iter().all(|&hash| set.contains(hash)));
        for _ in 0..5000 {
            let hash = random(&mut state);
            assert_eq!(set.contains(hash), sorted.binary_search(&hash).is_ok());
        }
        assert!(!KnownHashes::new(Vec::new()).contains(0));
    }
}
