//! Where things are on a heap page and in a tuple: the constants of PostgreSQL's `storage/bufpage.h`,
//! `storage/itemid.h`, `access/htup_details.h` and `varatt.h`, for servers of 64 bits with the lowest byte first.

use crate::column::ColumnType;

/// `SizeOfPageHeaderData`.
pub(super) const PAGE_HEADER_BYTES: usize = 24;
/// `sizeof(ItemIdData)`.
pub(super) const LINE_POINTER_BYTES: usize = 4;
/// `SizeofHeapTupleHeader`: without the bitmap of NULLs.
pub(super) const TUPLE_HEADER_BYTES: usize = 23;

/// The page layout version of PostgreSQL 8.3 and later.
pub(super) const LAYOUT_VERSION: u16 = 4;
/// `PD_ALL_VISIBLE`: every row is visible to everybody, as after COPY FREEZE.
pub(super) const ALL_VISIBLE: u16 = 0x0004;

/// `LP_NORMAL`.
pub(super) const NORMAL: u32 = 1;

/// `HEAP_HASNULL`.
pub(super) const HAS_NULL: u16 = 0x0001;
/// `HEAP_HASVARWIDTH`.
pub(super) const HAS_VAR_WIDTH: u16 = 0x0002;
/// `HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID`.
pub(super) const FROZEN: u16 = 0x0B00;

/// Offsets in a tuple's header.
pub(super) const INFOMASK2_AT: usize = 18;
/// Behind `t_infomask2`.
pub(super) const INFOMASK_AT: usize = 20;
/// Behind `t_infomask`.
pub(super) const HOFF_AT: usize = 22;

/// `VARATT_SHORT_MAX` without its header: the longest value behind a header of one byte.
pub(super) const LONGEST_SHORT: usize = 126;
/// `VARHDRSZ`.
pub(super) const LONG_HEADER_BYTES: usize = 4;

/// `MAXALIGN`.
pub(super) const fn max_align(bytes: usize) -> usize {
    (bytes + 7) & !7
}

/// What a relation's pages have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    /// `BLCKSZ`.
    pub block_size: usize,
    /// `fillfactor` in percent.
    pub fillfactor: u8,
}

impl PageLayout {
    /// Bytes that every page keeps free.
    pub(super) const fn reserve(self) -> usize {
        self.block_size * (100 - self.fillfactor as usize) / 100
    }

    /// `MaxHeapTuplesPerPage`.
    pub(super) const fn most_tuples(self) -> usize {
        (self.block_size - PAGE_HEADER_BYTES) / (max_align(TUPLE_HEADER_BYTES) + LINE_POINTER_BYTES)
    }

    /// `MaxHeapTupleSize`.
    pub(super) const fn largest_tuple(self) -> usize {
        self.block_size - max_align(PAGE_HEADER_BYTES + LINE_POINTER_BYTES)
    }

    /// `TOAST_TUPLE_THRESHOLD`: of a longer tuple the server would compress values or store them elsewhere.
    pub(super) const fn toast_threshold(self) -> usize {
        ((self.block_size - max_align(PAGE_HEADER_BYTES + 4 * LINE_POINTER_BYTES)) / 4) & !7
    }
}

/// How values of a type are stored: `typlen` (`None`: it varies) and `typalign`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Storage {
    pub(super) width: Option<usize>,
    pub(super) align: usize,
}

impl Storage {
    /// `None` for types whose values cannot be put on pages: the server itself has to check or to make them.
    pub(super) const fn of(kind: &ColumnType) -> Option<Self> {
        let (width, align) = match kind {
            ColumnType::Bool => (1, 1),
            ColumnType::Int2 => (2, 2),
            ColumnType::Int4 | ColumnType::Float4 | ColumnType::Date => (4, 4),
            ColumnType::Int8
            | ColumnType::Float8
            | ColumnType::Timestamp { .. }
            | ColumnType::TimestampTz { .. }
            | ColumnType::Time { .. } => (8, 8),
            ColumnType::TimeTz { .. } => (12, 8),
            ColumnType::Interval { .. } => (16, 8),
            ColumnType::Uuid => (16, 1),
            ColumnType::Numeric { .. }
            | ColumnType::Decimal
            | ColumnType::Text
            | ColumnType::Varchar { .. }
            | ColumnType::Char { .. }
            | ColumnType::Bytea => return Some(Self { width: None, align: 4 }),
            ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Inet
            | ColumnType::Cidr
            | ColumnType::Enum { .. }
            | ColumnType::Integer { .. }
            | ColumnType::Array(_)
            | ColumnType::Opaque => return None,
        };
        Some(Self { width: Some(width), align })
    }
}
