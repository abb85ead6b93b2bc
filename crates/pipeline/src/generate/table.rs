//! The eight tables: names, cardinalities and average sizes (TPC-H specification 3.0.1, clause 4.2.5.1).

use serde::{Deserialize, Serialize};
use tpchgen::csv::{CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv};

/// A table of TPC-H, in the order in which foreign keys allow loading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// 5 rows at every scale.
    Region,
    /// 25 rows at every scale.
    Nation,
    /// 10,000 rows times the scale.
    Supplier,
    /// 150,000 rows times the scale.
    Customer,
    /// 200,000 rows times the scale.
    Part,
    /// Four rows for each part.
    Partsupp,
    /// 1,500,000 rows times the scale.
    Orders,
    /// One to seven rows for each order, about 6,000,000 times the scale.
    Lineitem,
}

impl Table {
    /// All tables, in the order of declaration.
    pub const ALL: [Table; 8] = [
        Table::Region,
        Table::Nation,
        Table::Supplier,
        Table::Customer,
        Table::Part,
        Table::Partsupp,
        Table::Orders,
        Table::Lineitem,
    ];

    /// Name of the table, which is the stem of its files' names.
    pub fn name(self) -> &'static str {
        match self {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Supplier => "supplier",
            Table::Customer => "customer",
            Table::Part => "part",
            Table::Partsupp => "partsupp",
            Table::Orders => "orders",
            Table::Lineitem => "lineitem",
        }
    }

    /// Whether parts exist. `dbgen -C n -S i` writes the whole of region and nation whatever n and i are, under
    /// the name without a part number.
    pub fn has_parts(self) -> bool {
        !matches!(self, Table::Region | Table::Nation)
    }

    /// Units at scale 1. A unit is what dbgen counts and divides into parts: a row, but for lineitem an order and
    /// for partsupp a part.
    pub(crate) fn base_units(self) -> i64 {
        match self {
            Table::Region => 5,
            Table::Nation => 25,
            Table::Supplier => 10_000,
            Table::Customer => 150_000,
            Table::Part | Table::Partsupp => 200_000,
            Table::Orders | Table::Lineitem => 1_500_000,
        }
    }

    /// Rows in a unit; for lineitem the mean.
    pub(crate) fn rows_per_unit(self) -> i64 {
        match self {
            Table::Partsupp | Table::Lineitem => 4,
            _ => 1,
        }
    }

    /// Mean bytes of `tbl` text in a unit, measured at scale 1 and rounded up; sizes the chunks and the progress bar.
    pub(crate) fn unit_bytes(self) -> i64 {
        match self {
            Table::Region => 80,
            Table::Nation => 90,
            Table::Supplier => 141,
            Table::Customer => 163,
            Table::Part => 121,
            Table::Partsupp => 595,
            Table::Orders => 115,
            Table::Lineitem => 507,
        }
    }

    /// Units of the whole table at `scale`, which is a [`dbgen_scale`].
    pub(crate) fn units(self, scale: f64) -> i64 {
        if self.has_parts() { (self.base_units() as f64 * scale) as i64 } else { self.base_units() }
    }

    /// Column names separated by commas: the header line of the csv form.
    pub(crate) fn csv_header(self) -> &'static str {
        match self {
            Table::Region => RegionCsv::header(),
            Table::Nation => NationCsv::header(),
            Table::Supplier => SupplierCsv::header(),
            Table::Customer => CustomerCsv::header(),
            Table::Part => PartCsv::header(),
            Table::Partsupp => PartSuppCsv::header(),
            Table::Orders => OrderCsv::header(),
            Table::Lineitem => LineItemCsv::header(),
        }
    }
}

/// The number to give to tpchgen as the scale, so that it counts the rows that dbgen counts.
///
/// dbgen reckons in thousandths as integers: 0.009 is 9 × 200,000 / 1000 = 1,800 parts. tpchgen truncates the
/// product of floating-point numbers, and 200,000 × 0.009 is 1799.9999999999998, so it makes one row too few (at
/// about every tenth multiple of 0.001 below 1). A scale larger by a few units in the last place puts every
/// product that should be a whole number at or just above it.
pub(crate) fn dbgen_scale(scale: f64) -> f64 {
    scale.next_up().next_up()
}
