//! What is to be generated: the caller's plan, checked and resolved into files, and files into chunks.
//!
//! Pure: nothing here looks at the disk. The sums are the heart of it: a part must hold the rows that
//! `dbgen -C n -S i` gives it, and a chunk must be one that tpchgen can start at without generating what precedes
//! it. dbgen and tpchgen both divide a table evenly and give the remainder to the last piece, but pieces of pieces
//! do not line up (a third of a seventh of 1,500 rows is 71, a 21st of it too, and three of those are not 214).
//! So the whole table is cut into blocks on tpchgen's own grid, and a chunk is the part's share of one block.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tpchgen::generators::OrderGenerator;

use super::error::GenerateError;
use super::table::{Table, dbgen_scale};

/// Text that one chunk aims at, in bytes: so much that starting the generators (some microseconds) and handing the
/// chunk in do not count, and so little that the buffers of a worker (two, and a bit) stay in the caches.
const CHUNK_TEXT_BYTES: i64 = 4 << 20;

/// Rows that one row group of a parquet file aims at; DuckDB's own row groups have as many.
const ROW_GROUP_ROWS: i64 = 122_880;

/// Most row groups in one parquet file: keeps its footer, which the writer holds in memory, at some tens of MB
/// (the format's own limit is 32,767). Beyond it row groups grow.
const ROW_GROUPS_PER_FILE: i64 = 4_096;

/// Largest scale. Above about 10,700 the part keys leave the 32-bit integers that the generator draws from.
const SCALE_LIMIT: f64 = 10_000.0;

/// Most threads and most parts that a plan may ask for; anything larger is a typing error.
const JOBS_LIMIT: usize = 1_024;
const PARTS_LIMIT: i64 = 100_000;

/// Form of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// dbgen's own: fields ended (not separated) by `|`, records by a line feed.
    Tbl,
    /// RFC 4180 with a header line: commas, quotes where needed, records ended by CR LF.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Format::Tbl => "tbl",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }
}

/// Compression of the pages of parquet files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Zstandard, level 1.
    #[default]
    Zstd,
    /// Snappy: larger files, quicker to write.
    Snappy,
    /// None.
    None,
}

/// What the caller wants. Its JSON form comes from Python.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Scale factor: 1 is about 1 GB of text. From 0.001 to 10,000.
    pub scale: f64,
    /// Tables to generate; each is generated once, in the order of [`Table::ALL`].
    pub tables: Vec<Table>,
    /// Into how many parts each table is divided (dbgen's `-C`).
    pub parts: i64,
    /// Which part to generate, from 1 (dbgen's `-S`); none: all of them.
    pub part: Option<i64>,
    /// Form of the files.
    pub format: Format,
    /// Compression of parquet files; the other forms have none.
    #[serde(default)]
    pub compression: Compression,
    /// Directory for the files; made when it is missing.
    pub out: PathBuf,
    /// Threads that generate and write.
    pub jobs: usize,
    /// Replace files that exist.
    pub force: bool,
    /// Have the files on disk (fsync) before they get their names.
    pub fsync: bool,
}

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePlan {
    pub(crate) table: Table,
    /// Number of the part, or none where the file holds the whole table.
    pub(crate) part: Option<i64>,
    /// Name in the output directory.
    pub(crate) name: String,
    /// Units of the table that the file holds: first and one past the last, from 0.
    first: i64,
    end: i64,
    grid: Grid,
}

/// How tpchgen is told to divide a whole table: `count` blocks of `units` each, the last one with the remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grid {
    count: i64,
    units: i64,
}

/// A share of a file that is generated in one go: the rows of one of tpchgen's blocks whose key lies in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Position in the file, from 0; in a parquet file also the row group.
    pub(crate) index: i64,
    /// tpchgen's part number (from 1) and number of parts.
    pub(crate) block: i32,
    pub(crate) block_count: i32,
    /// Least and greatest key (first column) that belongs to the chunk.
    pub(crate) first_key: i64,
    pub(crate) last_key: i64,
    /// Units in it, for the progress bar.
    pub(crate) units: i64,
}

impl Plan {
    /// The plan in its JSON form.
    ///
    /// # Errors
    /// Of kind `Usage` when it is not a plan.
    pub fn from_json(json: &str) -> Result<Self, GenerateError> {
        serde_json::from_str(json).map_err(|error| {
            GenerateError::usage(format!("not a plan for generate: {error}"), "See `tipple generate tpch --help`.")
        })
    }

    /// Checks the plan and resolves it into files. No two have the same name.
    pub(crate) fn files(&self) -> Result<Vec<FilePlan>, GenerateError> {
        self.check()?;
        let scale = dbgen_scale(self.scale);
        let mut files = Vec::new();
        for table in Table::ALL.into_iter().filter(|table| self.tables.contains(table)) {
            let units = table.units(scale);
            let parts = if table.has_parts() { self.parts } else { 1 };
            let wanted = if parts == 1 { 1..=1 } else { self.part.map_or(1..=parts, |part| part..=part) };
            for part in wanted {
                let numbered = (parts > 1).then_some(part);
                let first = units / parts * (part - 1);
                let end = if part == parts { units } else { first + units / parts };
                files.push(FilePlan {
                    table,
                    part: numbered,
                    name: self.file_name(table, numbered),
                    first,
                    end,
                    grid: Grid::new(units, self.chunk_units(table, end - first)),
                });
            }
        }
        Ok(files)
    }

    fn check(&self) -> Result<(), GenerateError> {
        let usage = |message: String, hint: &str| Err(GenerateError::usage(message, hint));
        if !(0.001..=SCALE_LIMIT).contains(&self.scale) {
            return usage(
                format!("--scale {} is not between 0.001 and {SCALE_LIMIT}", self.scale),
                "Scale 1 is about 1 GB of text; --scale 0.01 is enough for a try.",
            );
        }
        if self.tables.is_empty() {
            return usage("no table is named".into(), "Leave --table out to get all eight.");
        }
        if !(1..=PARTS_LIMIT).contains(&self.parts) {
            return usage(
                format!("--parts {} is not between 1 and {PARTS_LIMIT}", self.parts),
                "--parts says into how many files each table is divided.",
            );
        }
        if let Some(part) = self.part.filter(|part| !(1..=self.parts).contains(part)) {
            return usage(
                format!("--part {part} is not between 1 and --parts {}", self.parts),
                "Parts count from 1: --parts 48 --part 7 generates the seventh of 48.",
            );
        }
        if !(1..=JOBS_LIMIT).contains(&self.jobs) {
            return usage(
                format!("--jobs {} is not between 1 and {JOBS_LIMIT}", self.jobs),
                "Leave --jobs out to use every core that this process may use.",
            );
        }
        Ok(())
    }

    /// `lineitem.tbl`, and part 7 `lineitem.tbl.7` as dbgen names it; in the other forms `lineitem.7.csv`, so that
    /// a reader can tell them by their ending.
    fn file_name(&self, table: Table, part: Option<i64>) -> String {
        let (name, extension) = (table.name(), self.format.extension());
        match (part, self.format) {
            (None, _) => format!("{name}.{extension}"),
            (Some(part), Format::Tbl) => format!("{name}.{extension}.{part}"),
            (Some(part), _) => format!("{name}.{part}.{extension}"),
        }
    }

    /// Units that a chunk of a file with `file_units` aims at: no more than the file has, because what a block
    /// holds before the file's first row is generated in vain.
    fn chunk_units(&self, table: Table, file_units: i64) -> i64 {
        let aim = match self.format {
            Format::Tbl | Format::Csv => CHUNK_TEXT_BYTES / table.unit_bytes(),
            Format::Parquet => (ROW_GROUP_ROWS / table.rows_per_unit()).max(file_units / ROW_GROUPS_PER_FILE),
        };
        aim.min(file_units).max(1)
    }
}

impl Grid {
    /// A grid over `units` with blocks of at least `aim` (or one block). Among the block counts near
    /// `units / aim` it takes the one with the smallest remainder, so that the last block is not a giant.
    fn new(units: i64, aim: i64) -> Self {
        let most = (units / aim.max(1)).clamp(1, i64::from(i32::MAX));
        let least = (most - most / 8).max(most - 1_000);
        let count = (least..=most).rev().min_by_key(|count| units % count).unwrap_or(1);
        Self { count, units: units / count }
    }

    fn block_of(&self, unit: i64) -> i64 {
        if self.units == 0 { 0 } else { (unit / self.units).min(self.count - 1) }
    }
}

impl FilePlan {
    /// Units in the file; none is possible (more parts than rows).
    pub(crate) fn units(&self) -> i64 {
        self.end - self.first
    }

    /// Chunks in the file: at least one, which may be empty, so that every file is opened and finished.
    pub(crate) fn chunk_count(&self) -> i64 {
        if self.units() == 0 { 1 } else { self.grid.block_of(self.end - 1) - self.grid.block_of(self.first) + 1 }
    }

    /// The chunk at `index`, which is less than [`FilePlan::chunk_count`].
    pub(crate) fn chunk(&self, index: i64) -> Chunk {
        let block = self.grid.block_of(self.first) + index;
        let block_first = block * self.grid.units;
        let block_end = if block + 1 == self.grid.count { self.end } else { block_first + self.grid.units };
        let first = self.first.max(block_first);
        let end = self.end.min(block_end).max(first);
        Chunk {
            index,
            block: i32::try_from(block + 1).expect("a grid has at most i32::MAX blocks"),
            block_count: i32::try_from(self.grid.count).expect("a grid has at most i32::MAX blocks"),
            first_key: self.key(first),
            last_key: if end > first { self.key(end - 1) } else { self.key(first) - 1 },
            units: end - first,
        }
    }

    /// First column of the rows of a unit.
    fn key(&self, unit: i64) -> i64 {
        match self.table {
            Table::Region | Table::Nation => unit,
            Table::Orders | Table::Lineitem => OrderGenerator::make_order_key(unit + 1),
            _ => unit + 1,
        }
    }
}
