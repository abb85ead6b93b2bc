//! Cuts sources into slices of whole records; groups small sources.
//!
//! A source without quotes is cut by looking for a record end after each wished-for place. One with quotes is
//! scanned whole, its parts in parallel, because whether a newline ends a record depends on all quotes before it.

use super::resync::{LOOK_BYTES, is_inside_out, look_like_records};
use super::window::ends_with_escape;
use super::{SourceFile, head, locate};
use crate::error::{Error, Result};
use crate::plan::{CutPlan, Piece, Slice, Source};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tipple_codec::dialect::{Dialect, Family, LineEnd};
use tipple_codec::split::{self, State};

/// How much of a file is read at a time while looking for record ends.
const SCAN_BYTES: usize = 1 << 20;
/// How much of a file decides which record end it uses.
const SAMPLE_BYTES: usize = 1 << 20;
/// How much of a file is looked at to tell whether its last line is an end-of-data marker.
const TAIL_BYTES: u64 = 64 * 1024;
/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8; 3] = b"\xef\xbb\xbf";
/// The most sources that one slice groups, so that resuming stays cheap.
const MAX_PIECES: usize = 1024;

/// Bytes of small files that are read by one feeder as one feed.
const FEED_BYTES: u64 = 4 << 20;

/// The slices of a job and what was learnt on the way.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Cut {
    /// The slices, numbered from 0 in the order of the sources.
    pub slices: Vec<Slice>,
    /// Sources that are cut while they are read: indexes, those together that share slices.
    pub feeds: Vec<Vec<usize>>,
    /// What ends a record in these sources.
    pub line_end: LineEnd,
}

/// Cuts the sources of `plan`.
///
/// # Errors
/// Where a source cannot be read, changed, or uses another record end than the others.
pub fn cut(plan: &CutPlan) -> Result<Cut> {
    if let Some(format) = plan.columnar {
        let slices = super::columnar::cut::cut(plan, format)?;
        return Ok(Cut { slices, feeds: Vec::new(), line_end: LineEnd::Lf });
    }
    let line_end = common_line_end(plan)?;
    let dialect = Dialect { line_end, ..plan.dialect.clone() };
    let mut slices: Vec<Slice> = Vec::new();
    let mut group: Vec<Piece> = Vec::new();
    let mut grouped_bytes = 0;
    let most_pieces = if plan.groups { MAX_PIECES } else { 1 };
    for (index, planned) in plan.sources.iter().enumerate() {
        if planned.form.is_some() && !group.is_empty() {
            push_slice(&mut slices, std::mem::take(&mut group));
            grouped_bytes = 0;
        }
        if planned.size == 0 || planned.form.is_some() {
            continue;
        }
        let source = SourceFile::open(planned)?;
        let begin = if plan.header {
            end_of_header(&source, &dialect, plan.max_record_bytes)?
        } else {
            begin_of_data(&source)?
        };
        let end = end_of_data(&source, begin, &dialect)?;
        if begin >= end {
            continue;
        }
        let rest = end - begin;
        if rest <= plan.slice_bytes {
            if !group.is_empty() && (grouped_bytes + rest > plan.slice_bytes || group.len() == most_pieces) {
                push_slice(&mut slices, std::mem::take(&mut group));
                grouped_bytes = 0;
            }
            group.push(Piece { source: index, offset: begin, length: rest });
            grouped_bytes += rest;
            continue;
        }
        // The small sources before this one come before it.
        if !group.is_empty() {
            push_slice(&mut slices, std::mem::take(&mut group));
            grouped_bytes = 0;
        }
        let cuts = if split::needs_scan(&dialect) {
            cuts_by_scan(&source, begin..end, &dialect, plan)?
        } else {
            cuts_by_search(&source, begin..end, &dialect, plan)?
        };
        for pair in cuts.windows(2) {
            push_slice(&mut slices, vec![Piece { source: index, offset: pair[0], length: pair[1] - pair[0] }]);
        }
    }
    if !group.is_empty() {
        push_slice(&mut slices, group);
    }
    Ok(Cut { slices, feeds: feeds(&plan.sources), line_end })
}

/// Sources that are read as streams; small ones that follow one another are one feed. It depends on nothing but the
/// sources, so that an interrupted job finds the same ones again.
fn feeds(sources: &[Source]) -> Vec<Vec<usize>> {
    let mut feeds: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    let mut before: Option<usize> = None;
    for (index, source) in sources.iter().enumerate().filter(|(_, source)| source.form.is_some()) {
        let follows = before.is_some_and(|before| before + 1 == index);
        before = Some(index);
        match feeds.last_mut() {
            Some(feed) if follows && bytes + source.size <= FEED_BYTES && feed.len() < MAX_PIECES => {
                feed.push(index);
                bytes += source.size;
            }
            _ => {
                feeds.push(vec![index]);
                bytes = if source.is_stdin() { FEED_BYTES } else { source.size };
            }
        }
    }
    feeds
}

fn push_slice(slices: &mut Vec<Slice>, pieces: Vec<Piece>) {
    slices.push(Slice { n: slices.len() as u32, pieces });
}

/// The record end of the first source that shows one; another source may not contradict it. Where none does, a quote in a
/// first record may be one too many: then lines end as the first one does, quotes or not.
fn common_line_end(plan: &CutPlan) -> Result<LineEnd> {
    let mut found: Option<(LineEnd, &Source)> = None;
    let mut of_lines = None;
    let unquoted = Dialect { family: Family::Plain, ..plan.dialect.clone() };
    let mut sample = Vec::new();
    for planned in &plan.sources {
        if planned.form.is_some() {
            let line_end = head::line_end(planned, &plan.dialect, plan.max_record_bytes)?;
            if line_end.is_none() && of_lines.is_none() {
                of_lines = head::line_end(planned, &unquoted, plan.max_record_bytes)?;
            }
            contradict(line_end, planned, &mut found)?;
            continue;
        }
        if planned.size == 0 {
            continue;
        }
        let source = SourceFile::open(planned)?;
        let mut wanted = SAMPLE_BYTES as u64;
        let line_end = loop {
            sample.resize(planned.size.min(wanted) as usize, 0);
            source.read_exact_at(&mut sample, 0)?;
            // What follows this carriage return decides which record end it belongs to.
            if wanted < planned.size && sample.last() == Some(&b'\r') {
                sample.pop();
            }
            let detected = LineEnd::detect(&sample, &plan.dialect);
            if detected.is_some() || wanted >= planned.size || wanted >= plan.max_record_bytes as u64 {
                break detected;
            }
            wanted *= 4;
        };
        of_lines = of_lines.or_else(|| LineEnd::detect(&sample, &unquoted));
        contradict(line_end, planned, &mut found)?;
    }
    Ok(found.map(|(line_end, _)| line_end).or(of_lines).unwrap_or(LineEnd::Lf))
}

/// Keeps the first record end that was found, and refuses another.
fn contradict<'p>(
    line_end: Option<LineEnd>,
    planned: &'p Source,
    found: &mut Option<(LineEnd, &'p Source)>,
) -> Result<()> {
    let Some(line_end) = line_end else { return Ok(()) };
    match *found {
        Some((first, example)) if line_end != first => Err(Error::Invalid {
            message: format!(
                "{} ends its records with {}, but {} with {}; convert them to one, or load them by separate commands",
                planned.path.display(),
                spell(line_end),
                example.path.display(),
                spell(first)
            ),
        }),
        Some(_) => Ok(()),
        None => {
            *found = Some((line_end, planned));
            Ok(())
        }
    }
}

fn spell(line_end: LineEnd) -> &'static str {
    match line_end {
        LineEnd::Lf => "LF",
        LineEnd::Crlf => "CR LF",
        LineEnd::Cr => "CR",
    }
}

/// Where the first record begins: behind the byte order mark that some programs write before UTF-8.
fn begin_of_data(source: &SourceFile<'_>) -> Result<u64> {
    let mut first = [0; BYTE_ORDER_MARK.len()];
    if source.planned().size < first.len() as u64 {
        return Ok(0);
    }
    source.read_exact_at(&mut first, 0)?;
    Ok(if first == *BYTE_ORDER_MARK { first.len() as u64 } else { 0 })
}

/// Where the last record ends: before `\.` alone on the last line, the text format's end of data.
fn end_of_data(source: &SourceFile<'_>, begin: u64, dialect: &Dialect) -> Result<u64> {
    let size = source.planned().size;
    if dialect.family != Family::Text || begin >= size {
        return Ok(size);
    }
    // The lines before matter as far as backslashes reach back from their record end.
    let mut tail = vec![0; (size - begin).min(TAIL_BYTES) as usize];
    let offset = size - tail.len() as u64;
    source.read_exact_at(&mut tail, offset)?;
    Ok(size - end_marker_bytes(&tail, dialect) as u64)
}

/// The bytes of the end-of-data marker that `tail`, which begins with a line and ends with the file, has at its end.
pub(super) fn end_marker_bytes(tail: &[u8], dialect: &Dialect) -> usize {
    let line_end = dialect.line_end.bytes();
    let Some(before) = tail.strip_suffix(line_end).and_then(|tail| tail.strip_suffix(b"\\.")) else { return 0 };
    let alone = before.is_empty() || before.strip_suffix(line_end).is_some_and(|line| !ends_with_escape(line));
    if alone { tail.len() - before.len() } else { 0 }
}

/// Where the first record after the header begins.
fn end_of_header(source: &SourceFile<'_>, dialect: &Dialect, max_record_bytes: usize) -> Result<u64> {
    let size = source.planned().size;
    let mut wanted = SCAN_BYTES as u64;
    loop {
        let mut bytes = vec![0; size.min(wanted) as usize];
        source.read_exact_at(&mut bytes, 0)?;
        if let Some(start) = split::scan_part(&bytes, dialect).first_record(State::Outside) {
            return Ok(start as u64);
        }
        if wanted >= size {
            return Ok(size);
        }
        if wanted >= max_record_bytes as u64 {
            return Err(locate::header_too_long(source.planned(), max_record_bytes));
        }
        wanted *= 4;
    }
}

/// Wished-for cuts: every `slice_bytes`, the first and the last byte of `data` included.
fn wishes(data: &Range<u64>, slice_bytes: u64) -> Vec<u64> {
    let bytes = data.end - data.start;
    let slices = bytes.div_ceil(slice_bytes);
    (0..=slices).map(|n| data.start + (u128::from(bytes) * u128::from(n) / u128::from(slices)) as u64).collect()
}

fn cuts_by_search(source: &SourceFile<'_>, data: Range<u64>, dialect: &Dialect, plan: &CutPlan) -> Result<Vec<u64>> {
    let wishes = wishes(&data, plan.slice_bytes);
    let mut cuts = vec![data.start];
    let mut buffer = vec![0; 64 * 1024];
    for &wish in &wishes[1..wishes.len() - 1] {
        // One byte before the wish decides what the byte at the wish means.
        let mut position = wish.max(cuts[cuts.len() - 1] + 1);
        let mut before = [0];
        source.read_exact_at(&mut before, position - 1)?;
        let cut = loop {
            let length = (data.end - position).min(buffer.len() as u64) as usize;
            source.read_exact_at(&mut buffer[..length], position)?;
            if let Some(start) = split::next_record(&buffer[..length], before[0], dialect) {
                break position + start as u64;
            }
            position += length as u64;
            if position >= data.end {
                break data.end;
            }
            before[0] = buffer[length - 1];
        };
        if cut < data.end && cut > cuts[cuts.len() - 1] {
            cuts.push(cut);
        }
    }
    cuts.push(data.end);
    Ok(cuts)
}

/// What was found out about one part of a source.
struct ScannedPart {
    after: [State; 3],
    first_record: [Option<u64>; 3],
}

fn cuts_by_scan(source: &SourceFile<'_>, data: Range<u64>, dialect: &Dialect, plan: &CutPlan) -> Result<Vec<u64>> {
    debug_assert_eq!(dialect.family, Family::Csv);
    let wishes = wishes(&data, plan.slice_bytes);
    let parts = wishes.len() - 1;
    let results: Vec<Mutex<Option<Result<ScannedPart>>>> = (0..parts).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..plan.streams.clamp(1, parts) {
            scope.spawn(|| {
                let mut buffer = vec![0; SCAN_BYTES];
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part >= parts {
                        break;
                    }
                    let scanned = scan_part(source, wishes[part], wishes[part + 1], dialect, &mut buffer);
                    *results[part].lock().expect("no thread panics while it holds this") = Some(scanned);
                }
            });
        }
    });
    let mut cuts = vec![data.start];
    let mut state = State::Outside;
    let quotes = Quotes { source, end: data.end, dialect, columns: plan.columns };
    // Where the record that is open at most begins.
    let mut open = data.start;
    for (part, result) in results.into_iter().enumerate() {
        let scanned = result
            .into_inner()
            .expect("no thread panics while it holds this")
            .unwrap_or_else(|| Err(Error::Internal { message: format!("part {part} was not scanned") }))?;
        // The first part begins with a record; the record that begins in a later one is its cut.
        if part > 0 {
            let is_too_long = wishes[part + 1] - open > plan.max_record_bytes as u64;
            // Only where bad records are skipped: else the first such quote ends the load.
            if plan.skips
                && (quotes.are_inside_out(&scanned, state)?
                    || (is_too_long && quotes.is_one_unclosed(&scanned, state)?))
            {
                state = inside_out(state);
            }
            cuts.extend(quotes.cut(&scanned, state));
        }
        if scanned.first_record[state as usize].is_some() {
            open = wishes[part + 1];
        }
        state = scanned.after[state as usize];
    }
    cuts.push(data.end);
    Ok(cuts)
}

/// Behind a quote that is too many or missing.
fn inside_out(state: State) -> State {
    if state == State::Outside { State::Inside } else { State::Outside }
}

/// What the quotes of a source are judged by where one may be too many.
struct Quotes<'s, 'p> {
    source: &'s SourceFile<'p>,
    /// Where its data end.
    end: u64,
    dialect: &'s Dialect,
    columns: usize,
}

impl Quotes<'_, '_> {
    /// Where a part is cut that begins in this state, if it is.
    fn cut(&self, part: &ScannedPart, state: State) -> Option<u64> {
        part.first_record[state as usize].filter(|&cut| cut < self.end)
    }

    fn behind(&self, cut: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (self.end - cut).min(LOOK_BYTES as u64) as usize];
        self.source.read_exact_at(&mut bytes, cut)?;
        Ok(bytes)
    }

    /// Whether what stands behind a part's cut says that there is no record, and that there is one behind the other cut.
    fn are_inside_out(&self, part: &ScannedPart, state: State) -> Result<bool> {
        let cuts = (self.cut(part, state), self.cut(part, inside_out(state)));
        let (Some(cut), Some(other)) = cuts else { return Ok(false) };
        Ok(is_inside_out(self.dialect, self.columns, &self.behind(cut)?, &self.behind(other)?))
    }

    /// Whether no record ends in a part unless it begins outside quotes, and there look to be records then.
    fn is_one_unclosed(&self, part: &ScannedPart, state: State) -> Result<bool> {
        let cut = self.cut(part, State::Outside).filter(|_| part.first_record[state as usize].is_none());
        let Some(cut) = cut else { return Ok(false) };
        let behind = self.behind(cut)?;
        Ok(look_like_records(self.dialect, self.columns, &behind, cut + behind.len() as u64 == self.end))
    }
}

fn scan_part(source: &SourceFile<'_>, from: u64, to: u64, dialect: &Dialect, buffer: &mut [u8]) -> Result<ScannedPart> {
    let mut part = ScannedPart { after: [State::Outside, State::Inside, State::Escaped], first_record: [None; 3] };
    let mut position = from;
    while position < to {
        let length = (to - position).min(buffer.len() as u64) as usize;
        let bytes = &mut buffer[..length];
        source.read_exact_at(bytes, position)?;
        let scanned = split::scan_part(bytes, dialect);
        for index in 0..3 {
            let state = part.after[index];
            if part.first_record[index].is_none() {
                part.first_record[index] = scanned.first_record(state).map(|start| position + start as u64);
            }
            part.after[index] = scanned.after(state);
        }
        position += length as u64;
    }
    Ok(part)
}
