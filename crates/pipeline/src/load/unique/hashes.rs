//! Hashes of keys on disk, and those that are there more than once.
//!
//! A file is a run of blocks; a block is sorted by the first byte of its hashes, and begins with where those of each byte
//! end. So all hashes with one first byte, a 256th of them, are read and sorted at a time, whatever wrote them.

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
const HEAD_BYTES: usize = PARTS * 4;
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
    /// Those of slices that are done.
    kept: usize,
}

impl HashFile {
    pub(super) fn new(spool: &Path, key: usize, stream: usize) -> Self {
        let path = spool.join(format!("key-{key}-{stream}.{EXTENSION}"));
        Self { path, file: None, hashes: Vec::new(), kept: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, hash: u128) {
        self.hashes.push(hash as u64);
    }

    pub(super) fn take_back(&mut self) {
        self.hashes.truncate(self.kept);
    }

    pub(super) fn keep(&mut self) -> Result<()> {
        self.kept = self.hashes.len();
        if self.kept >= BLOCK_HASHES { self.write() } else { Ok(()) }
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        self.take_back();
        if self.kept > 0 { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let block = block_of(&self.hashes);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                // An earlier run of the same load may have noted others.
                let file = File::options().append(true).create(true).open(&self.path);
                self.file.insert(file.map_err(|error| Error::file(&self.path, "create it", &error))?)
            }
        };
        file.write_all(&block).map_err(|error| Error::file(&self.path, "write it", &error))?;
        self.hashes.clear();
        self.kept = 0;
        Ok(())
    }
}

fn block_of(hashes: &[u64]) -> Vec<u8> {
    let mut ends = [0_u32; PARTS];
    for &hash in hashes {
        ends[part_of(hash)] += 1;
    }
    let mut begin = 0;
    for end in &mut ends {
        begin += std::mem::replace(end, begin);
    }
    let mut block = vec![0; HEAD_BYTES + 8 * hashes.len()];
    let (head, body) = block.split_at_mut(HEAD_BYTES);
    for &hash in hashes {
        // Each was the beginning, and becomes the end.
        let place = &mut ends[part_of(hash)];
        body[8 * *place as usize..][..8].copy_from_slice(&hash.to_le_bytes());
        *place += 1;
    }
    for (slot, end) in head.chunks_exact_mut(4).zip(ends) {
        slot.copy_from_slice(&end.to_le_bytes());
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
            let ends: Vec<u32> = head.as_chunks::<4>().0.iter().map(|end| u32::from_le_bytes(*end)).collect();
            let count = ends.last().copied().unwrap_or_default();
            blocks.push(Block { offset: offset + HEAD_BYTES as u64, ends });
            offset += HEAD_BYTES as u64 + 8 * u64::from(count);
        }
        Ok(Self { path, file, blocks })
    }

    /// Appends the hashes with this first byte.
    fn read(&self, part: usize, bytes: &mut Vec<u8>, hashes: &mut Vec<u64>) -> Result<()> {
        for Block { offset, ends } in &self.blocks {
            let begin = if part == 0 { 0 } else { ends[part - 1] };
            bytes.resize(8 * (ends[part] - begin) as usize, 0);
            let read = self.file.read_exact_at(bytes, offset + 8 * u64::from(begin));
            read.map_err(|error| Error::file(&self.path, "read it", &error))?;
            hashes.extend(bytes.as_chunks::<8>().0.iter().map(|hash| u64::from_le_bytes(*hash)));
        }
        Ok(())
    }
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
