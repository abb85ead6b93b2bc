//! Which partition a record belongs to, judged by the bytes that PostgreSQL is going to store.
//!
//! A record is looked at after it was encoded as COPY binary: its key is then a value and no longer a text, without
//! quotes, escapes and spellings, and bounds that the server has sent in its own binary form (`typsend`) compare with
//! it directly. So routing needs no parser, and cannot disagree with the row that is stored.
//!
//! Only types are routed whose order here is certainly the server's ([`KeyKind`]); who makes the plan leaves others
//! (a text in the order of a language, an interval) to the server.

mod hash;
mod key;

pub use key::KeyKind;

use serde::Deserialize;
use std::cmp::Ordering;

/// The partitions of a table, and the key that divides it.
#[derive(Debug, Clone, Deserialize)]
pub struct RoutePlan {
    /// The key: indexes of columns of a record, and how their values compare.
    pub key: Vec<KeyColumn>,
    /// What the partitions hold.
    pub bounds: Bounds,
}

/// A column of the key.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct KeyColumn {
    /// Its index in the record.
    pub column: usize,
    /// How its values compare.
    pub kind: KeyKind,
}

/// What each partition holds; partitions are numbered from 0.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Bounds {
    /// Ranges of keys: lower bound inclusive, upper bound exclusive, and the partition's number.
    Range {
        /// In any order; they do not overlap.
        ranges: Vec<(Vec<Bound>, Vec<Bound>, usize)>,
        /// The partition for all other keys.
        default: Option<usize>,
    },
    /// Lists of keys of one column; `None` is NULL.
    List {
        /// Each value in hexadecimal digits, and the partition's number.
        values: Vec<(Option<Hex>, usize)>,
        /// The partition for all other keys.
        default: Option<usize>,
    },
    /// Remainders of a hash.
    Hash {
        /// Modulus, remainder and the partition's number.
        remainders: Vec<(u64, u64, usize)>,
    },
}

/// One column of a bound.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// `MINVALUE`
    Min,
    /// A value.
    Value(Hex),
    /// `MAXVALUE`
    Max,
}

/// Bytes as the type's `send` function gives them, written in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Hex(pub Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digit = |byte: u8| (byte as char).to_digit(16).ok_or_else(|| format!("{text} is not hexadecimal"));
        let pairs = text.as_bytes().chunks(2);
        let bytes: Result<Vec<u8>, String> = pairs
            .map(|pair| match *pair {
                [high, low] => Ok((digit(high)? * 16 + digit(low)?) as u8),
                _ => Err(format!("{text} has an odd number of digits")),
            })
            .collect();
        bytes.map(Self)
    }
}

/// Finds the partition of encoded records.
#[derive(Debug)]
pub struct Router {
    key: Vec<KeyColumn>,
    search: Search,
    default: Option<usize>,
    /// The range that the last record was found in: the next one often is in it too.
    last: usize,
}

#[derive(Debug)]
enum Search {
    /// Ranges of one column of integers, the most frequent case: sorted, the upper bound `None` for MAXVALUE.
    Integers { lows: Vec<i64>, highs: Vec<Option<i64>>, partitions: Vec<usize> },
    /// Ranges in general, sorted by their lower bounds.
    Ranges(Vec<(Vec<Bound>, Vec<Bound>, usize)>),
    /// Sorted values.
    List { values: Vec<(Vec<u8>, usize)>, null: Option<usize> },
    /// By remainder of the greatest modulus.
    Hash(Vec<Option<usize>>),
}

/// Why a router cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnroutableBounds;

impl Router {
    /// A router for `plan`.
    ///
    /// # Errors
    /// Where bounds are not values of the key's types.
    pub fn new(plan: &RoutePlan) -> Result<Self, UnroutableBounds> {
        let key = plan.key.clone();
        let (search, default) = match &plan.bounds {
            Bounds::Range { ranges, default } => (search_ranges(&key, ranges)?, *default),
            Bounds::List { values, default } => {
                let [KeyColumn { kind, .. }] = key[..] else { return Err(UnroutableBounds) };
                let null = values.iter().find(|(value, _)| value.is_none()).map(|(_, partition)| *partition);
                let value = |(value, partition): &(Option<Hex>, usize)| Some((value.clone()?.0, *partition));
                let mut known: Vec<(Vec<u8>, usize)> = values.iter().filter_map(value).collect();
                if !known.iter().all(|(value, _)| kind.is_valid(value)) {
                    return Err(UnroutableBounds);
                }
                known.sort_by(|(one, _), (other, _)| kind.compare(one, other));
                (Search::List { values: known, null }, *default)
            }
            Bounds::Hash { remainders } => {
                if !key.iter().all(|column| column.kind.hashes()) {
                    return Err(UnroutableBounds);
                }
                let greatest = remainders.iter().map(|(modulus, _, _)| *modulus).max().unwrap_or(1);
                let mut partitions = vec![None; usize::try_from(greatest).map_err(|_| UnroutableBounds)?];
                for &(modulus, remainder, partition) in remainders {
                    // Each modulus is a factor of the greatest one: PostgreSQL sees to it.
                    for slot in (remainder..greatest).step_by(modulus.max(1) as usize) {
                        partitions[slot as usize] = Some(partition);
                    }
                }
                (Search::Hash(partitions), None)
            }
        };
        Ok(Self { key, search, default, last: 0 })
    }

    /// The partition of a record as [`crate::encode::copy_binary`] writes it, or `None` where no partition takes it.
    pub fn partition_of(&mut self, record: &[u8]) -> Option<usize> {
        match &self.search {
            Search::Integers { lows, highs, partitions } => {
                let Some(value) = field(record, self.key[0].column) else { return self.default };
                let value = key::integer(value);
                let holds = |range: usize| lows[range] <= value && highs[range].is_none_or(|high| value < high);
                if self.last < lows.len() && holds(self.last) {
                    return Some(partitions[self.last]);
                }
                match lows.partition_point(|&low| low <= value).checked_sub(1).filter(|&range| holds(range)) {
                    Some(range) => {
                        self.last = range;
                        Some(partitions[range])
                    }
                    None => self.default,
                }
            }
            Search::Ranges(ranges) => {
                let mut values: [&[u8]; MAX_KEY_COLUMNS] = [&[]; MAX_KEY_COLUMNS];
                for (slot, column) in values.iter_mut().zip(&self.key) {
                    // Ranges hold no NULL.
                    let Some(value) = field(record, column.column) else { return self.default };
                    *slot = value;
                }
                let values = &values[..self.key.len()];
                let holds = |range: usize| {
                    let (low, high, _) = &ranges[range];
                    compare(&self.key, low, values) != Ordering::Greater
                        && compare(&self.key, high, values) == Ordering::Greater
                };
                if self.last < ranges.len() && holds(self.last) {
                    return Some(ranges[self.last].2);
                }
                let behind = ranges.partition_point(|(low, _, _)| compare(&self.key, low, values) != Ordering::Greater);
                match behind.checked_sub(1).filter(|&range| holds(range)) {
                    Some(range) => {
                        self.last = range;
                        Some(ranges[range].2)
                    }
                    None => self.default,
                }
            }
            Search::List { values, null } => {
                let KeyColumn { column, kind } = self.key[0];
                let Some(value) = field(record, column) else { return null.or(self.default) };
                let found = values.binary_search_by(|(known, _)| kind.compare(known, value)).ok();
                found.map(|place| values[place].1).or(self.default)
            }
            Search::Hash(partitions) => {
                let mut hash = 0;
                for column in &self.key {
                    // NULL leaves the hash as it is (compute_partition_hash_value in partbounds.c).
                    if let Some(value) = field(record, column.column) {
                        hash = hash::combine(hash, column.kind.hash(value)?);
                    }
                }
                partitions[(hash % partitions.len() as u64) as usize]
            }
        }
    }
}

/// PostgreSQL's PARTITION_MAX_KEYS (pg_config_manual.h).
pub const MAX_KEY_COLUMNS: usize = 32;

fn search_ranges(key: &[KeyColumn], ranges: &[(Vec<Bound>, Vec<Bound>, usize)]) -> Result<Search, UnroutableBounds> {
    if key.is_empty() || key.len() > MAX_KEY_COLUMNS {
        return Err(UnroutableBounds);
    }
    for bound in ranges.iter().flat_map(|(low, high, _)| [low, high]) {
        let fits = |(bound, column): (&Bound, &KeyColumn)| match bound {
            Bound::Value(Hex(bytes)) => column.kind.is_valid(bytes),
            Bound::Min | Bound::Max => true,
        };
        if bound.len() != key.len() || !bound.iter().zip(key).all(fits) {
            return Err(UnroutableBounds);
        }
    }
    let mut sorted = ranges.to_vec();
    sorted.sort_by(|(one, _, _), (other, _, _)| compare_bounds(key, one, other));
    if let [KeyColumn { kind: KeyKind::Integer, .. }] = key {
        let low = |bound: &[Bound]| match &bound[0] {
            Bound::Value(Hex(bytes)) => key::integer(bytes),
            Bound::Min => i64::MIN,
            // FROM (MAXVALUE) is no bound that PostgreSQL takes.
            Bound::Max => i64::MAX,
        };
        let high = |bound: &[Bound]| match &bound[0] {
            Bound::Value(Hex(bytes)) => Some(key::integer(bytes)),
            Bound::Min => Some(i64::MIN),
            Bound::Max => None,
        };
        return Ok(Search::Integers {
            lows: sorted.iter().map(|(bound, _, _)| low(bound)).collect(),
            highs: sorted.iter().map(|(_, bound, _)| high(bound)).collect(),
            partitions: sorted.iter().map(|(_, _, partition)| *partition).collect(),
        });
    }
    Ok(Search::Ranges(sorted))
}

/// How a bound stands to a key. Behind MINVALUE or MAXVALUE nothing counts any more (partition_rbound_datum_cmp).
fn compare(key: &[KeyColumn], bound: &[Bound], values: &[&[u8]]) -> Ordering {
    for ((column, bound), value) in key.iter().zip(bound).zip(values) {
        let ordering = match bound {
            Bound::Min => Ordering::Less,
            Bound::Max => Ordering::Greater,
            Bound::Value(Hex(bytes)) => column.kind.compare(bytes, value),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

fn compare_bounds(key: &[KeyColumn], one: &[Bound], other: &[Bound]) -> Ordering {
    for ((column, one), other) in key.iter().zip(one).zip(other) {
        let ordering = match (one, other) {
            (Bound::Value(Hex(one)), Bound::Value(Hex(other))) => column.kind.compare(one, other),
            (Bound::Min, Bound::Min) | (Bound::Max, Bound::Max) => return Ordering::Equal,
            (Bound::Min, _) | (_, Bound::Max) => Ordering::Less,
            (Bound::Max, _) | (_, Bound::Min) => Ordering::Greater,
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

/// The bytes of a field of a record in COPY binary; `None` for NULL.
#[inline]
pub(crate) fn field(record: &[u8], column: usize) -> Option<&[u8]> {
    let mut place = 2;
    for _ in 0..column {
        place += 4 + length(record, place).max(0) as usize;
    }
    let length = usize::try_from(length(record, place)).ok()?;
    Some(&record[place + 4..place + 4 + length])
}

#[inline]
fn length(record: &[u8], place: usize) -> i32 {
    i32::from_be_bytes([record[place], record[place + 1], record[place + 2], record[place + 3]])
}

#[cfg(test)]
pub(crate) mod tests;
