//! Finds the records that violate a key, when all rows are stored and the target has no keys yet.
//!
//! What is refused becomes a reject like any other. In the spool are then also the rows that have to leave the table
//! (`leaving.*`: the refused ones, and stored ones that share a key with them, so that rows can be told by their keys
//! alone) and those that have to come back (`staying.*`), as COPY takes them; and where those that leave are, as far as that
//! is known (`places.text`).

use super::super::Context;
use super::super::batch_chunks::ChunkFeed;
use super::super::chunks::Encoder;
use super::super::parse::{ParsedWindow, Parser};
use super::super::queue::{Order, Work, WorkQueue};
use super::super::rejects::RejectLog;
use super::groups::{self, Group};
use super::hashes::{self, KnownHashes};
use super::page_places;
use super::suspects::{self, Judgement, KeptFile, KeptFiles, Suspect};
use super::{KeyLog, KeyReader, barred};
use crate::error::{Error, Result};
use crate::job::lock;
use crate::plan::{PostgresTarget, Repeated, Slice, UniqueKeys, WritePath};
use crate::postgres::copy::Chunk;
use crate::source::locate;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tipple_codec::encode::copy_binary;

/// Hashes of one key that may be there twice; with more, what must be known of their records takes too much memory.
const MOST_REPEATED: usize = 4_000_000;
/// Records that may violate a key, for the same reason.
const MOST_SUSPECTS: usize = 2 * MOST_REPEATED;

/// # Errors
/// [`Error::UnreadableKeys`] where keys must judge while rows are stored.
pub(in super::super) fn run(context: &Context<'_>, target: &PostgresTarget, known: &Repeated) -> Result<()> {
    let Some(keys) = &target.unique else {
        return Err(Error::Internal { message: "keys are to judge, but there are none".into() });
    };
    if known.afresh {
        note_afresh(context, target, keys)?;
    }
    let threads = context.plan.streams;
    let numbered = || keys.keys.iter().enumerate();
    let barred: Vec<HashSet<u128>> =
        numbered().map(|(number, key)| barred::read(&keys.spool, number, key)).collect::<Result<_>>()?;
    let repeated: Vec<Vec<u64>> = std::iter::zip(0.., &barred)
        .map(|(key, barred)| {
            let mut found = hashes::repeated(&keys.spool, key, threads)?;
            found.extend(barred.iter().map(|&hash| hash as u64));
            found.sort_unstable();
            found.dedup();
            Ok(found)
        })
        .collect::<Result<_>>()?;
    if repeated.iter().all(Vec::is_empty) {
        return Ok(());
    }
    if repeated.iter().any(|hashes| hashes.len() > MOST_REPEATED) {
        return Err(Error::UnreadableKeys { reason: format!("more than {MOST_REPEATED} keys are violated") });
    }
    let repeated: Vec<KnownHashes> = repeated.into_iter().map(KnownHashes::new).collect();
    let mut groups = Vec::new();
    for (key, known) in repeated.iter().enumerate() {
        groups.append(&mut hashes::groups_with(&keys.spool, key, known)?);
    }
    groups.sort_unstable();
    let is_whole = barred[keys.unique().len()..].iter().any(|missing| !missing.is_empty());
    let search = Search {
        context,
        target,
        keys,
        repeated,
        barred,
        groups,
        is_whole,
        orphans: AtomicU64::new(0),
        most_orphans: most_orphans(context),
        slices: known.slices.iter().map(|&(source, offset, n)| ((source, offset), n)).collect(),
        rejected: known.rejected.iter().copied().collect(),
        suspects: Mutex::default(),
    };
    let queue = WorkQueue::new(context, Order::Largest);
    queue.share_out(context, |index| search.stream(&queue, index));
    if let Some(error) = context.failure() {
        return Err(error);
    }
    search.settle()
}

/// So many certain rejects are one too many.
fn most_orphans(context: &Context<'_>) -> u64 {
    let rejects = context.plan.rejects.as_ref();
    let room = rejects.and_then(|plan| Some(plan.max?.saturating_sub(plan.before)));
    room.map_or(u64::MAX, |room| room.saturating_add(1))
}

/// Reads the sources for their keys alone.
fn note_afresh(context: &Context<'_>, target: &PostgresTarget, keys: &UniqueKeys) -> Result<()> {
    hashes::forget(&keys.spool)?;
    if keys.unique().is_empty() {
        return Ok(());
    }
    let queue = WorkQueue::new(context, Order::Largest);
    queue.share_out(context, |index| {
        let Some(mut log) = KeyLog::open(context, target, index)? else { return Ok(()) };
        let mut reading = Reading::new(context, target, index);
        while let Some(work) = queue.take(context)? {
            reading.read(&work, |seen, _| match seen {
                Seen::Window(parsed) => log.note(parsed),
                Seen::Chunk(chunk) => log.note_chunk(chunk),
            })?;
            log.keep()?;
        }
        log.finish()
    });
    context.failure().map_or(Ok(()), Err)
}

/// What sources are read as.
enum Seen<'s> {
    Window(&'s ParsedWindow<'s>),
    Chunk(&'s Chunk),
}

/// One stream that reads the sources again and stores nothing.
struct Reading<'c, 'p> {
    context: &'c Context<'p>,
    index: usize,
    parser: Parser,
    columnar: Option<ChunkFeed<'c>>,
    /// What cannot be stored is a reject already.
    known: Option<RejectLog<'c, 'p>>,
}

impl<'c, 'p> Reading<'c, 'p> {
    fn new(context: &'c Context<'p>, target: &PostgresTarget, index: usize) -> Self {
        let columnar = context.columnar.as_ref().map(|job| ChunkFeed::new(job, target));
        let known = RejectLog::aside(context, &format!("known-{index}"));
        Self { context, index, parser: Parser::new(context), columnar, known }
    }

    fn read(
        &mut self,
        work: &Work<'_>,
        mut see: impl FnMut(Seen<'_>, &mut Option<RejectLog<'c, 'p>>) -> Result<()>,
    ) -> Result<()> {
        let (context, known) = (self.context, &mut self.known);
        let counters = &context.counters.streams[self.index];
        counters.take(work.n());
        if let Some(feed) = &mut self.columnar {
            feed.read(context, counters, work, true, known, |chunk, known| see(Seen::Chunk(&chunk), known))?;
        } else {
            self.parser.parse(context, counters, work, known, |parsed, known| see(Seen::Window(parsed), known))?;
        }
        Ok(())
    }
}

/// The search for the records of some hashes.
struct Search<'c, 'p> {
    context: &'c Context<'p>,
    target: &'c PostgresTarget,
    keys: &'c UniqueKeys,
    /// By key: hashes that are there twice, or that are barred.
    repeated: Vec<KnownHashes>,
    /// By key: what no record may have.
    barred: Vec<HashSet<u128>>,
    /// Where the records with these hashes are, of text that is read in slices; they ascend.
    groups: Vec<Group>,
    /// Whether records may be anywhere: of foreign keys nothing was noted.
    is_whole: bool,
    /// Records so far with a barred value of a foreign key, which all are refused: of more than these none is kept, since
    /// the load ends.
    orphans: AtomicU64,
    most_orphans: u64,
    slices: HashMap<(usize, u64), u32>,
    rejected: HashSet<(usize, u64)>,
    suspects: Mutex<Vec<Suspect>>,
}

impl Search<'_, '_> {
    fn stream(&self, queue: &WorkQueue<'_>, index: usize) -> Result<()> {
        let context = self.context;
        let mut reading = Reading::new(context, self.target, index);
        let read = if self.is_whole { &self.keys.keys } else { self.keys.unique() };
        let mut keys = KeyReader::new(context, self.target, read)?;
        let mut encoder = Encoder::new(context, self.target, true);
        let mut file = KeptFile::create(&self.keys.spool, index)?;
        let mut claims: Vec<(usize, usize, u128)> = Vec::new();
        while let Some(work) = queue.take(context)? {
            let first = work.pieces().first().map(|piece| (piece.source, piece.offset));
            // Slices without rows are not among them.
            let Some(&slice) = first.and_then(|first| self.slices.get(&first)) else { continue };
            let work_bytes = work.file_bytes();
            let parts = self.parts(work);
            // What is left out is done.
            let left_out_bytes = work_bytes - parts.iter().map(|(part, _)| part.file_bytes()).sum::<u64>();
            context.counters.streams[index].add(left_out_bytes, 0);
            for (part, first_record) in parts {
                reading.read(&part, |seen, known| {
                    claims.clear();
                    match seen {
                        Seen::Window(parsed) => {
                            let parsed = ParsedWindow { first_record: first_record + parsed.first_record, ..*parsed };
                            keys.read(parsed.records, |row, key, hash| claims.push((row, key, hash)))?;
                            self.each_suspect(&claims, |row, claims| {
                                let before = encoder.digest();
                                let chunks = encode_one(context, &mut encoder, &parsed, row, known)?;
                                let digest = encoder.digest().wrapping_sub(before);
                                // Chunks of this one row, or of none.
                                chunks.iter().filter(|chunk| chunk.rows > 0).try_for_each(|chunk| {
                                    self.keep((chunk, 0, &chunk.bytes), (slice, digest), claims, &mut file)
                                })
                            })?;
                        }
                        Seen::Chunk(chunk) => {
                            keys.read_chunk(chunk, |row, key, hash| claims.push((row, key, hash)))?;
                            let ends = copy_binary::row_ends(&chunk.bytes);
                            self.each_suspect(&claims, |row, claims| {
                                let begin = row.checked_sub(1).map_or(0, |before| ends[before]);
                                // What is summed up there is the digest of all rows.
                                self.keep((chunk, row, &chunk.bytes[begin..ends[row]]), (slice, 0), claims, &mut file)
                            })?;
                        }
                    }
                    context.check_cancelled()
                })?;
            }
            context.counters.slice_done();
        }
        file.finish()
    }

    /// What is to be read of some work, and the number in its piece of the first record that is.
    fn parts<'w>(&self, work: Work<'w>) -> Vec<(Work<'w>, u64)> {
        let Work::Slice(slice) = &work else { return vec![(work, 0)] };
        if self.is_whole || self.context.columnar.is_some() {
            return vec![(work, 0)];
        }
        let parts = slice.pieces.iter().flat_map(|&piece| groups::parts(piece, &self.groups));
        let work_of = |piece| Work::Slice(Cow::Owned(Slice { n: slice.n, pieces: vec![piece] }));
        parts.map(|(piece, first_record)| (work_of(piece), first_record)).collect()
    }

    /// Hands the rows of which a key may be there twice, or is barred, to `take`, with the hashes of all their keys;
    /// `claims` are those of a window, row after row.
    fn each_suspect(
        &self,
        claims: &[(usize, usize, u128)],
        mut take: impl FnMut(usize, &[Option<u128>]) -> Result<()>,
    ) -> Result<()> {
        let of_rows = claims.chunk_by(|one, other| one.0 == other.0);
        for of_row in
            of_rows.filter(|of_row| of_row.iter().any(|&(_, key, hash)| self.repeated[key].contains(hash as u64)))
        {
            let mut all = vec![None; self.repeated.len()];
            for &(_, key, hash) in of_row {
                all[key] = Some(hash);
            }
            take(of_row[0].0, &all)?;
        }
        Ok(())
    }

    /// Keeps a row of a chunk, which is written as `bytes`, as a suspect, unless it is a reject already.
    fn keep(
        &self,
        (chunk, row, bytes): (&Chunk, usize, &[u8]),
        (slice, digest): (u32, u128),
        claims: &[Option<u128>],
        file: &mut KeptFile,
    ) -> Result<()> {
        let Some(origin) = &chunk.origin else { return Ok(()) };
        let (place, index, record) = origin.record(row);
        if self.rejected.contains(&(place.source, place.offset)) {
            return Ok(());
        }
        let mut foreign = std::iter::zip(claims, &self.barred).skip(self.keys.unique().len());
        let is_orphan = foreign.any(|(claim, barred)| claim.is_some_and(|hash| barred.contains(&hash)));
        if is_orphan && self.orphans.fetch_add(1, Ordering::Relaxed) >= self.most_orphans {
            return Ok(());
        }
        let kept = file.push(&record, chunk.format, bytes)?;
        let mut suspects = lock(&self.suspects);
        if suspects.len() == MOST_SUSPECTS {
            return Err(Error::UnreadableKeys {
                reason: format!("more than {MOST_SUSPECTS} records may violate keys"),
            });
        }
        suspects.push(Suspect { place, index, slice, claims: claims.into(), digest, kept });
        Ok(())
    }

    /// Judges the suspects, and writes down what becomes of them.
    fn settle(self) -> Result<()> {
        let mut suspects = self.suspects.into_inner().unwrap_or_else(PoisonError::into_inner);
        suspects.sort_unstable_by_key(|suspect| (suspect.place.source, suspect.place.offset));
        let judgement = suspects::judge(&suspects, &self.barred, self.keys.unique().len());
        if judgement.refused.is_empty() {
            return Ok(());
        }
        let (context, spool) = (self.context, &self.keys.spool);
        let files = KeptFiles::open(spool, context.plan.streams)?;
        let mut leaving = RowFiles::new(spool.join("leaving"));
        let mut staying = RowFiles::new(spool.join("staying"));
        let mut log = RejectLog::open(context, "refused-keys")
            .ok_or_else(|| Error::Internal { message: "refused records, but nowhere to keep them".into() })?;
        for &(number, key) in &judgement.refused {
            let suspect = &suspects[number];
            let (record, row) = files.read(suspect.kept)?;
            leaving.push(suspect.kept.format, &row)?;
            context.add_digest(suspect.digest);
            log.enter(suspect.slice);
            let text_of = |column| context.field_text(&record, column);
            let complaint = context.violation(&self.keys.keys[key].constraint, locate::shown(&record), text_of);
            log.push(suspect.place, suspect.index, &record, complaint)?;
        }
        for &number in &judgement.stored {
            let (_, row) = files.read(suspects[number].kept)?;
            leaving.push(suspects[number].kept.format, &row)?;
            staying.push(suspects[number].kept.format, &row)?;
        }
        if context.columnar.is_some() {
            context.forget_digest();
        }
        leaving.finish()?;
        staying.finish()?;
        write_places(spool, &suspects, &judgement)?;
        log.keep()
    }
}

/// Writes down where the rows are that have to leave: addresses (`tid`), as COPY takes them.
fn write_places(spool: &Path, suspects: &[Suspect], judgement: &Judgement) -> Result<()> {
    let refused = judgement.refused.iter().map(|&(number, _)| number);
    let mut numbers: Vec<usize> = refused.chain(judgement.stored.iter().copied()).collect();
    numbers.sort_unstable();
    let leaving: Vec<&Suspect> = numbers.into_iter().map(|number| &suspects[number]).collect();
    let addresses = page_places::addresses(spool, &leaving)?;
    if addresses.is_empty() {
        return Ok(());
    }
    let lines: String = addresses.iter().map(|(page, item)| format!("({page},{item})\n")).collect();
    let path = spool.join("places.text");
    std::fs::write(&path, lines).map_err(|error| Error::file(&path, "write it", &error))
}

/// One record of a window as a chunk, or none where it is a reject.
fn encode_one(
    context: &Context<'_>,
    encoder: &mut Encoder,
    parsed: &ParsedWindow<'_>,
    row: usize,
    known: &mut Option<RejectLog<'_, '_>>,
) -> Result<Vec<Chunk>> {
    let mut record = parsed.records.skip(row);
    record.truncate(1);
    let one = ParsedWindow { records: &record, first_record: parsed.first_record + row as u64, ..*parsed };
    encoder.encode(context, &one, known)
}

/// Rows for COPY: a file of those that are binary, and one of those that are text.
struct RowFiles {
    path: PathBuf,
    files: [Option<BufWriter<File>>; 2],
}

impl RowFiles {
    fn new(path: PathBuf) -> Self {
        Self { path, files: [None, None] }
    }

    fn push(&mut self, format: WritePath, row: &[u8]) -> Result<()> {
        let (slot, extension, header) = match format {
            WritePath::Binary => (0, "binary", &copy_binary::HEADER[..]),
            WritePath::Text => (1, "text", &[][..]),
        };
        let path = self.path.with_extension(extension);
        let failed = |error| Error::file(&path, "write it", &error);
        let file = match &mut self.files[slot] {
            Some(file) => file,
            empty => {
                let file = empty.insert(BufWriter::new(File::create(&path).map_err(failed)?));
                file.write_all(header).map_err(failed)?;
                file
            }
        };
        file.write_all(row).map_err(failed)
    }

    fn finish(self) -> Result<()> {
        let Self { path, files: [binary, text] } = self;
        let failed = |error| Error::file(&path, "write it", &error);
        if let Some(mut file) = binary {
            file.write_all(copy_binary::TRAILER).and_then(|()| file.flush()).map_err(failed)?;
        }
        text.map_or(Ok(()), |mut file| file.flush().map_err(failed))
    }
}
