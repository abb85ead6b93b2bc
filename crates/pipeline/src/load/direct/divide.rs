//! Which of several relations each record of a window belongs to, before it is put on a page.
//!
//! The key alone is read as COPY binary, the form that the router compares; the record itself is then read once more,
//! into its place on a page. A window of one partition goes there as it is. Of a mixed one, the records of each partition
//! are taken together, so that few pages are in work at a time.

use super::super::Context;
use super::super::chunks::Skip;
use super::super::parse::ParsedWindow;
use super::super::rejects::RejectLog;
use super::super::router::Divider;
use crate::error::{Error, Result};
use crate::plan::Routing;
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::encode::heap::{HeapPageEncoder, PageBuffer, Stop};
use tipple_codec::scan::Records;
use tipple_codec::value::ServerVersion;

/// A record whose key cannot be read: it is going to be found out wherever it is tried.
const UNREADABLE: u32 = u32::MAX;
/// A record that no partition takes.
const HOMELESS: u32 = u32::MAX - 1;

/// Divides windows.
pub(super) struct PageDivider {
    keys: CopyBinaryEncoder,
    key: Vec<u8>,
    divider: Divider,
    /// The relation of each record.
    relations: Vec<u32>,
    /// Records by relation, and in their order within one.
    sorted: Vec<u32>,
    /// How many records of each relation there are, and then where they end in `sorted`.
    ends: Vec<usize>,
}

/// Where the records of a window belong.
pub(super) enum Parts<'d> {
    /// All to one relation.
    One(usize),
    /// To each of these relations those rows.
    Many(Vec<(usize, &'d [u32])>),
}

impl PageDivider {
    pub(super) fn new(context: &Context<'_>, routing: &Routing, server: ServerVersion) -> Result<Self> {
        let places: Vec<usize> = routing.route.key.iter().map(|key| key.column).collect();
        let divider = Divider::of_keys(context, routing)?;
        let load = context.plan;
        let keys = CopyBinaryEncoder::of_fields(&load.columns, &places, load.dialect.clone(), server, false);
        let ends = vec![0; routing.tables.len()];
        Ok(Self { keys, key: Vec::new(), divider, relations: Vec::new(), sorted: Vec::new(), ends })
    }

    /// Finds the relation of each record but those that no partition takes.
    pub(super) fn divide(&mut self, records: &Records<'_>) -> Parts<'_> {
        let Self { keys, key, divider, relations, .. } = self;
        divider.begin();
        relations.clear();
        relations.resize(records.rows(), UNREADABLE);
        key.clear();
        keys.encode_those(
            records,
            key,
            |_| true,
            |row, record| {
                relations[row] = divider.find(row, record).map_or(HOMELESS, |relation| relation as u32);
                false
            },
        );
        let first = relations.iter().copied().find(|&relation| relation != UNREADABLE).unwrap_or(0);
        if first != HOMELESS && relations.iter().all(|&relation| relation == first || relation == UNREADABLE) {
            return Parts::One(first as usize);
        }
        self.sort();
        let mut begin = 0;
        let part = |(relation, &end): (usize, &usize)| {
            let rows = &self.sorted[begin..end];
            begin = end;
            (!rows.is_empty()).then_some((relation, rows))
        };
        Parts::Many(self.ends.iter().enumerate().filter_map(part).collect())
    }

    /// Sorts the records by relation.
    fn sort(&mut self) {
        let Self { relations, sorted, ends, .. } = self;
        ends.fill(0);
        for relation in relations.iter_mut().filter(|relation| **relation != HOMELESS) {
            if *relation == UNREADABLE {
                *relation = 0;
            }
            ends[*relation as usize] += 1;
        }
        let mut begin = 0;
        for end in ends.iter_mut() {
            begin += std::mem::replace(end, begin);
        }
        sorted.resize(begin, 0);
        for (row, &relation) in relations.iter().enumerate().filter(|(_, relation)| **relation != HOMELESS) {
            // Each was the beginning, and becomes the end.
            let place = &mut ends[relation as usize];
            sorted[*place] = row as u32;
            *place += 1;
        }
    }

    /// What no partition takes, of the records before row `before`, is refused, and so is what is wrong with it else;
    /// returns those rows, in their order.
    pub(super) fn refuse_homeless(
        &mut self,
        context: &Context<'_>,
        parsed: &ParsedWindow<'_>,
        before: usize,
        heap: &mut HeapPageEncoder,
        rejects: &mut Option<RejectLog<'_, '_>>,
    ) -> Result<Vec<usize>> {
        let homeless = self.divider.take_homeless();
        if homeless.is_empty() {
            return Ok(homeless);
        }
        if self.divider.grows() {
            return Err(Error::Unsuited { reason: "records need partitions that no sample had shown".into() });
        }
        // A record is what is wrong with its values first, as on any other way; what is made of them is forgotten.
        let mut pages = PageBuffer::new(vec![0; heap.layout().block_size], heap.layout());
        let mut left = Vec::new();
        for &row in homeless.iter().filter(|&&row| row < before) {
            let mut skip = Skip::new(parsed, rejects);
            pages.reset();
            let rows = (0..1, |_| row);
            let encoded = heap.encode_rows(parsed.records, rows, &mut pages, |problem| skip.take(problem));
            if !skip.finish()?.is_empty() {
                continue;
            }
            match encoded.and_then(|encoded| encoded.stop) {
                Some(Stop::Problem(problem)) if !problem.is_unsure() => {
                    return Err(context.explain_problem(parsed, &problem));
                }
                _ => left.push(row),
            }
        }
        self.divider.put_homeless(left);
        self.divider.reject_homeless(context, parsed, rejects, &mut Vec::new())?;
        Ok(homeless)
    }
}
