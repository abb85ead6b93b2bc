//! A few dozen records at a time, made column by column into rows.
//!
//! Records that are made one after the other cost as much for finding out what to do with the next field as for doing it.
//! Here a column's fields are gone through in a loop that knows the column's type, as in an Arrow encoder; but each value
//! is written behind the one before it of the same record, so that what comes out are rows. Where records are short, those
//! of a strip, the scanner's entries for them and their rows lie in a core's first-level cache together.
//!
//! Advice for whoever works here: what a regular field needs stands in the loop itself, and everything else behind one call.
//! What that call may need must not be kept at hand by the loop: it would take the registers that the loop needs.

use crate::value::Refusal;
use std::convert::Infallible;

/// The most records of a strip: as many as a word has bits.
pub(super) const MOST_ROWS: usize = 64;

/// How many a strip has after one that was not used up. Whoever stops at a record, because only the server can read it or
/// no page holds it, begins anew behind it: what was made of the records that follow was made for nothing.
const FEW_ROWS: usize = 4;

/// Bytes of a strip's memory, but that one record has what it needs.
const MOST_BYTES: usize = 256 << 10;

/// Bytes behind each row, so that rows of many sizes do not lie a power of two apart, where they would share a part of the
/// cache.
const GAP_BYTES: usize = 64;

/// The values of a column. A trait and not two functions that are handed over, so that the first can be made a part of the
/// loop whatever its size: on its own it would be without the loop's target features.
pub(super) trait StripValues {
    /// Writes the value of a record at `to` and says where it ends; `None` where it is no regular one.
    ///
    /// # Safety
    /// There is room for the value.
    unsafe fn put(&mut self, entry: usize, to: *mut u8) -> Option<*mut u8>;

    /// What writes four values at once.
    type ByFour: FourValues;

    /// It, where that can be tried: a copy of its own, so that the loop can keep what is in it in registers.
    fn by_four(&self) -> Option<Self::ByFour>;

    /// The same for any value; `None` where it is NULL.
    ///
    /// # Errors
    /// Why the record is refused; what was written then means nothing.
    ///
    /// # Safety
    /// There is room for the value.
    unsafe fn put_any(&mut self, entry: usize, to: *mut u8) -> Result<Option<*mut u8>, Refusal>;
}

/// The regular values of a column, four at once.
pub(super) trait FourValues: Copy {
    /// Writes the values of four records at `to` and says where they end; `None`, and nothing is written, where one of them
    /// is no regular one.
    ///
    /// # Safety
    /// There is room for each.
    unsafe fn put(self, entries: [usize; 4], to: [*mut u8; 4]) -> Option<[*mut u8; 4]>;
}

impl FourValues for Infallible {
    unsafe fn put(self, _entries: [usize; 4], _to: [*mut u8; 4]) -> Option<[*mut u8; 4]> {
        match self {}
    }
}

/// Some records, and what is made of them.
#[derive(Debug, Default)]
pub(super) struct Strip {
    /// The rows' places, each aligned to a word.
    memory: Vec<u64>,
    rows: Vec<Row>,
    /// How many there may be.
    most_rows: usize,
    /// By record, then by column: a bit for each value that is there. Of a record without NULLs it says nothing.
    present: Vec<u8>,
    /// Bytes of `present` for a record.
    bitmap_bytes: usize,
    /// A bit for each record with a NULL.
    has_null: u64,
    /// A bit for each record that was refused.
    refused: u64,
    /// Why, and which column's value it was: the first of each refused record, in the order of columns.
    refusals: Vec<(usize, usize, Refusal)>,
}

/// A record in the making.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// What its maker knows it by: its place in a list, or its number.
    entry: usize,
    /// Where its row begins and ends, in the strip's memory.
    begin: *mut u8,
    end: *mut u8,
}

// SAFETY: rows point into the memory of their own strip.
unsafe impl Send for Strip {}

impl Strip {
    /// Makes room for rows of so many columns.
    pub(super) fn new(columns: usize) -> Self {
        let bitmap_bytes = columns.div_ceil(8);
        Self { bitmap_bytes, present: vec![0; bitmap_bytes * MOST_ROWS], most_rows: MOST_ROWS, ..Self::default() }
    }

    /// Begins with some of the records, but one at least if there is one, and returns how many. Of each record there is what
    /// to know it by, and how many bytes its row takes at most with all that may be written past its end.
    #[inline(always)]
    pub(super) fn begin(&mut self, records: impl Iterator<Item = (usize, usize)>) -> usize {
        (self.has_null, self.refused) = (0, 0);
        self.rows.clear();
        self.refusals.clear();
        let mut begin = 0;
        for (entry, room) in records.take(self.most_rows) {
            let end = begin + room.next_multiple_of(8) + GAP_BYTES;
            if end > MOST_BYTES && !self.rows.is_empty() {
                break;
            }
            // The memory's own address is added below, when it is known.
            let offset = std::ptr::without_provenance_mut(begin);
            self.rows.push(Row { entry, begin: offset, end: offset });
            begin = end;
        }
        self.memory.clear();
        self.memory.reserve(begin / 8);
        let base = self.memory.as_mut_ptr().cast::<u8>();
        for row in &mut self.rows {
            row.begin = base.wrapping_add(row.begin.addr());
            row.end = row.begin;
        }
        self.rows.len()
    }

    /// All rows were used, so the next strip may have more.
    #[inline(always)]
    pub(super) fn use_up(&mut self) {
        self.most_rows = (2 * self.most_rows).min(MOST_ROWS);
    }

    /// The rows behind one of them are going to be made once more.
    pub(super) fn break_off(&mut self) {
        self.most_rows = FEW_ROWS;
    }

    /// Gives each row its value of a column.
    ///
    /// # Safety
    /// For all columns together, `values` need no more than a row's room.
    #[inline(always)]
    pub(super) unsafe fn each(&mut self, column: usize, mut values: impl StripValues) {
        let (rows, count) = (self.rows.as_mut_ptr(), self.rows.len());
        let by_four = values.by_four();
        let mut place = 0;
        while place < count {
            let mut end = count;
            if let Some(by_four) = by_four {
                if place + 4 <= count {
                    // SAFETY: there are four such rows; each ends within its place, by the caller's promise.
                    unsafe {
                        let four = &mut *rows.add(place).cast::<[Row; 4]>();
                        if let Some(ends) = by_four.put(four.map(|row| row.entry), four.map(|row| row.end)) {
                            four.iter_mut().zip(ends).for_each(|(row, end)| row.end = end);
                            place += 4;
                            continue;
                        }
                    }
                }
                end = count.min(place + 4);
            }
            while place < end {
                // SAFETY: there is such a row; it ends within its place, by the caller's promise.
                unsafe {
                    let row = rows.add(place);
                    match values.put((*row).entry, (*row).end) {
                        Some(end) => (*row).end = end,
                        None => self.put_any(column, place, &mut values),
                    }
                }
                place += 1;
            }
        }
    }

    /// Gives a row its value of a column, whatever it is.
    ///
    /// # Safety
    /// As for [`Strip::each`].
    #[inline(never)]
    unsafe fn put_any(&mut self, column: usize, place: usize, values: &mut impl StripValues) {
        let row = &mut self.rows[place];
        // SAFETY: by the caller's promise.
        match unsafe { values.put_any(row.entry, row.end) } {
            Ok(Some(end)) => row.end = end,
            Ok(None) => self.put_null(column, place),
            Err(refusal) if self.refused >> place & 1 == 0 => {
                self.refused |= 1 << place;
                self.refusals.push((place, column, refusal));
            }
            Err(_) => {}
        }
    }

    /// A row has no value of a column.
    fn put_null(&mut self, column: usize, place: usize) {
        let bitmap = &mut self.present[place * self.bitmap_bytes..][..self.bitmap_bytes];
        if self.has_null >> place & 1 == 0 {
            // It is valid only once there is a NULL.
            self.has_null |= 1 << place;
            bitmap.fill(0xFF);
        }
        bitmap[column / 8] &= !(1 << (column % 8));
    }

    /// No row has a value of a column.
    pub(super) fn all_null(&mut self, column: usize) {
        for place in 0..self.rows.len() {
            self.put_null(column, place);
        }
    }

    /// The column that a record was refused for, and why.
    pub(super) fn refusal(&self, place: usize) -> Option<(usize, Refusal)> {
        let found = self.refusals.iter().find(|&&(refused, _, _)| refused == place);
        found.map(|&(_, column, refusal)| (column, refusal))
    }

    /// The rows, for a loop over them that keeps in registers what it needs of all.
    #[inline(always)]
    pub(super) fn rows(&self) -> Rows<'_> {
        let Self { rows, present, bitmap_bytes, has_null, refused, .. } = self;
        Rows { rows, present, bitmap_bytes: *bitmap_bytes, has_null: *has_null, refused: *refused }
    }
}

/// The rows of a strip.
#[derive(Clone, Copy)]
pub(super) struct Rows<'s> {
    rows: &'s [Row],
    present: &'s [u8],
    bitmap_bytes: usize,
    has_null: u64,
    refused: u64,
}

impl<'s> Rows<'s> {
    /// Whether a record was refused.
    #[inline(always)]
    pub(super) fn is_refused(self, place: usize) -> bool {
        self.refused >> place & 1 == 1
    }

    /// Where a row is, and its length in bytes.
    #[inline(always)]
    pub(super) fn row(self, place: usize) -> (*const u8, usize) {
        let Row { begin, end, .. } = self.rows[place];
        (begin.cast_const(), end.addr() - begin.addr())
    }

    /// The bitmap of a record with NULLs.
    #[inline(always)]
    pub(super) fn present(self, place: usize) -> Option<&'s [u8]> {
        (self.has_null >> place & 1 == 1).then(|| &self.present[place * self.bitmap_bytes..][..self.bitmap_bytes])
    }
}
