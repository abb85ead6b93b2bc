//! Rows into partitions without the server's help: each record's partition is found in the core, and a COPY per
//! partition stores them.
//!
//! A session has one COPY open at a time. A window that belongs to one partition as a whole goes straight into its
//! COPY, as all windows of a file do that holds one partition only. Records of a mixed window are kept back, by
//! partition, until there are enough of them or the slice ends. So which way is taken follows from the data.

use super::Context;
use super::explain::remedy;
use super::kept::{Blocks, Kept};
use super::parse::ParsedWindow;
use super::rejects::RejectLog;
use crate::error::{Error, Result};
use crate::plan::{PostgresTarget, Routes, Routing, WritePath};
use crate::postgres::copy::{Chunk, CopyFailure, CopyWriter, Place};
use crate::postgres::session::Session;
use crate::source::locate::Complaint;
use std::collections::BTreeSet;
use tipple_codec::encode::copy_binary;
use tipple_codec::route::{RoutePlan, Router};

/// What is kept back of one partition before the COPY that is open makes room for it: long enough for COPY's own cost
/// not to count.
const SWITCH_BYTES: usize = 2 * 1024 * 1024;
/// The most keys without a partition that are told at once.
const MAX_KEYS: usize = 1000;

/// Finds the partition of each record of a window.
pub(super) struct Divider {
    router: Router,
    /// The columns of the key.
    key: Vec<usize>,
    grows: bool,
    hopeless: BTreeSet<String>,
    /// Partition of each record that was kept, and where it ends in the chunk.
    parts: Vec<(usize, usize)>,
    end: usize,
    /// Records that no partition takes.
    homeless: Vec<usize>,
}

impl Divider {
    /// For whole records as COPY binary.
    pub(super) fn new(context: &Context<'_>, routing: &Routing) -> Result<Self> {
        Self::with_route(context, routing, &routing.route)
    }

    /// For records as COPY binary that consist of the key's columns, in their order.
    pub(super) fn of_keys(context: &Context<'_>, routing: &Routing) -> Result<Self> {
        let mut route = routing.route.clone();
        for (place, key) in route.key.iter_mut().enumerate() {
            key.column = place;
        }
        Self::with_route(context, routing, &route)
    }

    fn with_route(context: &Context<'_>, routing: &Routing, route: &RoutePlan) -> Result<Self> {
        let router = Router::new(route)
            .map_err(|_| Error::Internal { message: "the bounds of the partitions cannot be routed by".into() })?;
        let key: Vec<usize> = routing.route.key.iter().map(|key| key.column).collect();
        let columns = context.plan.columns.len();
        if key.is_empty() || key.iter().any(|&column| column >= columns) {
            return Err(Error::Internal { message: "the key is none of the columns".into() });
        }
        Ok(Self {
            router,
            key,
            grows: routing.grows,
            hopeless: routing.hopeless.clone(),
            parts: Vec::new(),
            end: 0,
            homeless: Vec::new(),
        })
    }

    /// A chunk begins.
    pub(super) fn begin(&mut self) {
        self.parts.clear();
        self.homeless.clear();
        self.end = 0;
    }

    /// The partition of this record; who has none is homeless.
    #[inline]
    pub(super) fn find(&mut self, row: usize, record: &[u8]) -> Option<usize> {
        let partition = self.router.partition_of(record);
        if partition.is_none() {
            self.homeless.push(row);
        }
        partition
    }

    /// Whether there is a partition for this record, which is then a part of the chunk.
    #[inline]
    pub(super) fn keep(&mut self, row: usize, record: &[u8]) -> bool {
        let Some(partition) = self.find(row, record) else { return false };
        self.end += record.len();
        self.parts.push((partition, self.end));
        true
    }

    /// Whether partitions are made for the keys that need them.
    pub(super) fn grows(&self) -> bool {
        self.grows
    }

    /// The records that no partition takes; there are none afterwards.
    pub(super) fn take_homeless(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.homeless)
    }

    /// Only these are the records that no partition takes.
    pub(super) fn put_homeless(&mut self, rows: Vec<usize>) {
        self.homeless = rows;
    }

    /// Finds the partitions of the rows of a binary chunk that comes from a columnar source; the first row that no
    /// partition takes is the error.
    pub(super) fn divide(&mut self, context: &Context<'_>, chunk: &Chunk) -> Result<()> {
        self.begin();
        let mut start = 0;
        for (row, end) in copy_binary::row_ends(&chunk.bytes).into_iter().enumerate() {
            self.keep(row, &chunk.bytes[start..end]);
            start = end;
        }
        let Some(&row) = self.homeless.first() else { return Ok(()) };
        let (name, _) = self.described(context, |_| String::new());
        let complaint = self.homeless_complaint(context, &format!("its {name}"), String::new());
        let place = Place { offset: chunk.place.offset + row as u64, ..chunk.place };
        Err(context.explain_complaint(place, complaint))
    }

    fn homeless_complaint(&self, context: &Context<'_>, key: &str, text: String) -> Complaint {
        let sqlstate = "23514".to_owned();
        let reason = format!("no partition of the table takes {key}");
        let remedy = remedy(&sqlstate, &reason);
        Complaint { column: Some(context.plan.columns[self.key[0]].name.clone()), text, reason, sqlstate, remedy }
    }

    /// The key's columns and their texts, as a message has them.
    fn described(&self, context: &Context<'_>, text: impl Fn(usize) -> String) -> (String, String) {
        let names = self.key.iter().map(|&column| context.plan.columns[column].name.clone());
        let texts = self.key.iter().map(|&column| text(column));
        (listed(names.collect()), listed(texts.collect()))
    }

    /// The records that no partition takes are rejects, and join those that were `skipped` already; without `rejects`
    /// the first one is the error.
    pub(super) fn reject_homeless(
        &mut self,
        context: &Context<'_>,
        parsed: &ParsedWindow<'_>,
        rejects: &mut Option<RejectLog<'_, '_>>,
        skipped: &mut Vec<usize>,
    ) -> Result<()> {
        if self.homeless.is_empty() {
            return Ok(());
        }
        let record = |row: usize| &parsed.window[parsed.records.start(row)..parsed.records.start(row + 1)];
        if self.grows {
            // For NULL no partition can be made: these are bad records, when there is nothing left to be made.
            let text = |row: &usize| context.field_value(record(*row), self.key[0]);
            let keys = self.homeless.iter().filter_map(text).filter(|key| !self.hopeless.contains(key));
            let keys: BTreeSet<String> = keys.take(MAX_KEYS).collect();
            if !keys.is_empty() {
                return Err(Error::NoPartition { keys: keys.into_iter().collect() });
            }
        }
        for &row in &self.homeless {
            let (name, text) = self.described(context, |column| context.field_text(record(row), column));
            let complaint = self.homeless_complaint(context, &format!("{name} = {text}"), text);
            let index = parsed.first_record + row as u64;
            let place = parsed.place.behind(parsed.records.start(row), index);
            match rejects {
                None => return Err(context.explain_complaint(place, complaint)),
                Some(log) => log.push(place, index, record(row), complaint)?,
            }
        }
        skipped.extend_from_slice(&self.homeless);
        skipped.sort_unstable();
        Ok(())
    }
}

/// One as it is, several in parentheses.
fn listed(mut parts: Vec<String>) -> String {
    if parts.len() == 1 { parts.remove(0) } else { format!("({})", parts.join(", ")) }
}

/// Rows that are kept back, in bytes.
fn limit(routing: &Routing) -> usize {
    routing.buffer_bytes.max(SWITCH_BYTES)
}

/// The memory for the rows that a stream keeps back.
pub(super) fn blocks_for(routing: &Routing) -> Blocks {
    Blocks::new(limit(routing), routing.tables.len())
}

/// Stores the rows of one slice in their partitions.
pub(super) struct PartitionWriter<'s> {
    /// By partition; behind them the table that they are partitions of.
    writers: Vec<CopyWriter<'s>>,
    /// The one whose COPY is open.
    open: Option<usize>,
    kept: Vec<Kept>,
    kept_bytes: usize,
    limit_bytes: usize,
    blocks: Blocks,
    routes: Routes,
}

/// The place of a row that was kept back is not known any more: who needs it loads the slice again, unrouted.
const NOWHERE: Place = Place::uncounted(usize::MAX, 0);

fn forget_nowhere(failure: CopyFailure) -> CopyFailure {
    let record = failure.record.filter(|(place, _)| place.source != NOWHERE.source);
    CopyFailure { record, ..failure }
}

impl<'s> PartitionWriter<'s> {
    /// `blocks` are the stream's, as [`blocks_for`] makes them.
    pub(super) fn new(session: &'s Session, target: &'s PostgresTarget, routing: &'s Routing, blocks: Blocks) -> Self {
        let tables = routing.tables.iter().chain([&target.table]);
        let writers: Vec<_> = tables.map(|table| CopyWriter::new(session, table, &target.column_list)).collect();
        let kept = routing.tables.iter().map(|_| Kept::default()).collect();
        Self {
            writers,
            open: None,
            kept,
            kept_bytes: 0,
            limit_bytes: limit(routing),
            blocks,
            routes: Routes::default(),
        }
    }

    /// Takes the rows of a chunk; where they are binary, `divider` knows their partitions.
    pub(super) fn take(&mut self, chunk: Chunk, divider: &Divider) -> std::result::Result<(), CopyFailure> {
        if chunk.format == WritePath::Text {
            self.routes.server_rows += chunk.rows;
            return self.send(self.kept.len(), chunk);
        }
        let Some(&(first, _)) = divider.parts.first() else { return Ok(()) };
        let alone = divider.parts.iter().all(|&(partition, _)| partition == first);
        if alone && self.kept[first].is_empty() && self.open.is_none_or(|open| open == first) {
            self.routes.straight_rows += chunk.rows;
            return self.send(first, chunk);
        }
        if alone {
            self.routes.straight_rows += chunk.rows;
        } else {
            self.routes.routed_rows += chunk.rows;
        }
        self.keep(&chunk.bytes, &divider.parts);
        if alone && (self.open == Some(first) || self.kept[first].bytes() >= SWITCH_BYTES) {
            self.store(first)?;
        }
        if self.kept_bytes > self.limit_bytes {
            self.make_room()?;
        }
        Ok(())
    }

    /// Keeps the rows of a chunk back, each for its partition.
    fn keep(&mut self, bytes: &[u8], parts: &[(usize, usize)]) {
        let mut start = 0;
        for &(partition, end) in parts {
            self.kept[partition].push(&bytes[start..end], &self.blocks);
            start = end;
        }
        self.kept_bytes += bytes.len();
    }

    /// Stores the largest of what is kept back, until there is some room: a COPY is worth the more the longer it is.
    fn make_room(&mut self) -> std::result::Result<(), CopyFailure> {
        let mut order: Vec<usize> =
            (0..self.kept.len()).filter(|&partition| !self.kept[partition].is_empty()).collect();
        order.sort_unstable_by_key(|&partition| std::cmp::Reverse(self.kept[partition].bytes()));
        for partition in order {
            if self.kept_bytes <= self.limit_bytes - self.limit_bytes / 16 {
                break;
            }
            self.store(partition)?;
        }
        Ok(())
    }

    /// Stores what is kept back of one partition.
    fn store(&mut self, partition: usize) -> std::result::Result<(), CopyFailure> {
        self.kept_bytes -= self.kept[partition].bytes();
        for (bytes, rows) in self.kept[partition].drain(&self.blocks) {
            self.send(partition, Chunk { format: WritePath::Binary, bytes, rows, place: NOWHERE, origin: None })?;
        }
        Ok(())
    }

    fn send(&mut self, table: usize, chunk: Chunk) -> std::result::Result<(), CopyFailure> {
        if let Some(open) = self.open.filter(|&open| open != table) {
            self.writers[open].finish().map_err(forget_nowhere)?;
        }
        self.open = Some(table);
        self.writers[table].send(chunk).map_err(forget_nowhere)
    }

    /// Stores all that is left, and ends the last COPY.
    pub(super) fn finish(&mut self) -> std::result::Result<Routes, CopyFailure> {
        // The partition whose COPY is open comes first.
        if let Some(open) = self.open.filter(|&open| self.kept.get(open).is_some_and(|kept| !kept.is_empty())) {
            self.store(open)?;
        }
        for partition in 0..self.kept.len() {
            if !self.kept[partition].is_empty() {
                self.store(partition)?;
            }
        }
        if let Some(open) = self.open.take() {
            self.writers[open].finish().map_err(forget_nowhere)?;
        }
        Ok(self.routes)
    }
}
