//! Finds the fields and records of a window of delimited text.
//!
//! One pass over the bytes, 64 at a time, writes the position after every structural byte (a delimiter or record
//! end outside quotes) into one flat list. A record of n fields is n consecutive entries, so field c of record r
//! needs no search: columns can be read one by one (Arrow) or records one by one (COPY binary) from the same list.
//!
//! Advice for whoever works here: entries carry [`MARKED`] where the field holds quotes or escapes; the sentinel
//! `next[0] == 0` makes the first field an ordinary one; and a window always begins at the start of a record.

pub(crate) mod block;
mod fixed;
mod flatten;

use crate::dialect::{Dialect, Family, LineEnd};
use crate::value::Span;
use crate::value::four::FourTexts;
use flatten::Found;

/// Set in an entry of the list where the field holds a quote or an escape and has to be decoded.
const MARKED: u32 = 1 << 31;

/// The largest window: positions share their 32 bits with [`MARKED`].
pub const MAX_WINDOW_BYTES: usize = (MARKED - 1) as usize;

/// What is wrong with the structure of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Irregularity {
    /// Fewer fields than are expected.
    MissingFields {
        /// Fields in the record.
        found: usize,
    },
    /// More fields than are expected.
    ExtraFields {
        /// Fields in the record.
        found: usize,
    },
    /// A record end of another kind than the source's own, outside quotes.
    MixedLineEnds,
    /// `\.`, the text format's end of data, where data is expected.
    EndMarker,
}

/// The first record of a window that has not the expected structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IrregularRecord {
    /// Where it begins in the window, in bytes.
    pub start: usize,
    /// Where it ends, past its record end; where `complete` is false, past the byte that is wrong.
    pub end: usize,
    /// What is wrong.
    pub what: Irregularity,
    /// Whether its record end lies in the window.
    pub complete: bool,
}

/// One field as it stands in the window.
#[derive(Debug, Clone, Copy)]
pub struct RawField<'w> {
    /// The bytes between the delimiters.
    pub bytes: &'w [u8],
    /// Whether quotes or escapes have to be decoded.
    pub marked: bool,
    /// Bytes from the field's start to the window's end: so many can be read, whatever the field's length.
    pub(crate) readable: usize,
}

impl<'w> RawField<'w> {
    /// A field that stands alone.
    #[must_use]
    pub fn new(bytes: &'w [u8], marked: bool) -> Self {
        Self { bytes, marked, readable: bytes.len() }
    }

    /// The field's text once it is decoded. What had to be copied for that lies in a buffer of its own, behind which nothing
    /// may be read; a text between quotes still stands in the window.
    #[inline(always)]
    pub(crate) fn span<'t>(&self, text: &'t [u8]) -> Span<'t>
    where
        'w: 't,
    {
        // What is rewritten, as dates and numbers in a notation of their own are, has a buffer of its own too.
        if self.marked || !std::ptr::eq(text, self.bytes) {
            let at = text.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr());
            if at >= self.bytes.len() {
                return Span::from(text);
            }
            // SAFETY: the text begins inside the field, so it is a piece of the window, which has so many bytes from there.
            return unsafe { Span::within(text, self.readable - at) };
        }
        // SAFETY: the text is the field itself, which lies in a window that has so many bytes from there on.
        unsafe { Span::within(text, self.readable) }
    }
}

/// What the records of a source have in common.
#[derive(Debug, Clone, Copy)]
struct Layout {
    fields: usize,
    stride: usize,
    line_end: LineEnd,
    trailing_delimiter: bool,
}

/// The records found in one window.
#[derive(Debug)]
pub struct Records<'w> {
    window: &'w [u8],
    next: &'w [u32],
    layout: Layout,
    /// The field of each column; empty where columns are the fields.
    places: &'w [usize],
    found: Found,
    stride: usize,
    last_field: usize,
    /// Bytes between two fields.
    separator: usize,
    /// Bytes of a record end, the separator's not counted.
    cut_at_end: usize,
    rows: usize,
    /// Bytes of the window that the `rows` records take.
    pub consumed: usize,
    /// The record after them, where it is complete but irregular.
    pub irregular: Option<IrregularRecord>,
    /// Whether any field of the window is marked.
    pub any_marked: bool,
}

impl<'w> Records<'w> {
    /// How many whole, regular records the window begins with.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The field of `column` in record `row`.
    ///
    /// # Panics
    /// Where `row` or `column` is out of bounds.
    #[inline]
    #[must_use]
    pub fn field(&self, row: usize, column: usize) -> RawField<'w> {
        let field = self.field_of(column);
        assert!(row < self.rows && field <= self.last_field, "field {field} of record {row}");
        // SAFETY: as just asserted.
        unsafe { self.record::<false>(row).field(field) }
    }

    /// Where the column's field stands among those of a record.
    #[inline]
    fn field_of(&self, column: usize) -> usize {
        if self.places.is_empty() { column } else { self.places[column] }
    }

    /// Record `row`, for a loop over its fields.
    ///
    /// # Panics
    /// Where there is no such record.
    #[inline(always)]
    pub(crate) fn record<const PLAIN: bool>(&self, row: usize) -> Record<'w, PLAIN> {
        assert!(row < self.rows, "record {row}");
        debug_assert!(!PLAIN || self.is_plain(), "records are not plain");
        Record {
            window: self.window,
            next: &self.next[row * self.stride..],
            last_field: self.last_field,
            separator: self.separator,
            cut_at_end: self.cut_at_end,
        }
    }

    /// Whether no field is marked, and one byte stands behind each. Then [`Records::record`] and [`Records::column`] may
    /// be asked for `PLAIN` ones: loops without what other fields need have a tenth fewer instructions.
    pub(crate) fn is_plain(&self) -> bool {
        !self.any_marked && self.separator == 1 && self.cut_at_end == 0
    }

    /// The field of a column in every record, for a loop over the records.
    ///
    /// # Panics
    /// Where there is no such field.
    pub(crate) fn column<const PLAIN: bool>(&self, column: usize) -> ColumnFields<'w, PLAIN> {
        assert!(self.rows == 0 || self.next.len() > self.rows * self.stride, "every record has its entries");
        ColumnFields { fields: self.field_column(column), stride: self.stride, rows: self.rows }
    }

    /// The field of a column in any record, by where its entries begin ([`Records::entry`]).
    ///
    /// # Panics
    /// Where there is no such field.
    #[inline(always)]
    pub(crate) fn field_column<const PLAIN: bool>(&self, column: usize) -> FieldColumn<'w, PLAIN> {
        debug_assert!(!PLAIN || self.is_plain(), "records are not plain");
        let field = self.field_of(column);
        assert!(field <= self.last_field, "field {field}");
        let cut = self.separator + if field == self.last_field { self.cut_at_end } else { 0 };
        // Without records there may be no entry for it.
        FieldColumn { window: self.window, next: self.next.get(field..).unwrap_or_default(), cut }
    }

    /// Where the entries of record `row` begin in the list.
    ///
    /// # Panics
    /// Where there is no such record.
    #[inline(always)]
    pub(crate) fn entry(&self, row: usize) -> usize {
        assert!(row < self.rows, "record {row}");
        row * self.stride
    }

    /// How many fields each record has.
    #[must_use]
    pub fn fields(&self) -> usize {
        self.last_field + 1
    }

    /// Where record `row` begins in the window, in bytes; `row == rows()` gives the end of the last one.
    #[inline]
    #[must_use]
    pub fn start(&self, row: usize) -> usize {
        (self.next[row * self.stride] & !MARKED) as usize
    }

    /// The bytes of all records.
    #[must_use]
    pub fn bytes(&self) -> &'w [u8] {
        &self.window[self.start(0)..self.start(self.rows)]
    }

    /// Whether all their bytes are known to be ASCII: those that follow them in the window are, too.
    pub(crate) fn is_ascii(&self) -> bool {
        self.found.is_ascii
    }

    /// Whether none of their bytes is NUL, as far as is known: none in the window is.
    pub(crate) fn is_free_of_nul(&self) -> bool {
        self.found.is_free_of_nul
    }

    /// Drops all records from `row` on.
    pub fn truncate(&mut self, row: usize) {
        self.consumed = self.start(row);
        self.rows = row;
        self.irregular = None;
    }

    /// The same records without the first `row` ones.
    #[must_use]
    pub fn skip(&self, row: usize) -> Self {
        Self {
            window: self.window,
            next: &self.next[row * self.stride..],
            rows: self.rows - row,
            irregular: self.irregular,
            found: Found { record_ends: self.found.record_ends - row, ..self.found },
            ..*self
        }
    }

    /// The records behind the irregular one; `None` where there is none, or where the window has to be scanned anew
    /// from its end on.
    #[must_use]
    pub fn rest(&self) -> Option<Self> {
        let irregular = self.irregular.filter(|irregular| irregular.complete)?;
        // Only the first fault of a window is known.
        if self.found.fault.is_some() {
            return None;
        }
        let first = self.rows * self.stride;
        let entries = self.next[first..].iter().position(|&entry| (entry & !MARKED) as usize == irregular.end)?;
        let record_ends = self.found.record_ends - self.rows - 1;
        let found = Found { record_ends, ..self.found };
        Some(Self::find(self.window, &self.next[first + entries..], self.layout, self.places, found))
    }

    /// The records whose structural bytes `next` lists, behind an entry for where the first one begins.
    fn find(window: &'w [u8], next: &'w [u32], layout: Layout, places: &'w [usize], found: Found) -> Self {
        let stride = layout.stride;
        let (rows, regular) = layout.count_regular(window, next, &found);
        let consumed = (next[rows * stride] & !MARKED) as usize;
        let irregular = if regular { None } else { layout.describe(window, next, consumed, rows * stride, &found) };
        Self {
            window,
            next,
            layout,
            places,
            found,
            stride,
            last_field: layout.fields - 1,
            separator: 1,
            cut_at_end: usize::from(layout.line_end == LineEnd::Crlf && !layout.trailing_delimiter),
            rows,
            consumed,
            irregular,
            any_marked: found.any_marked,
        }
    }
}

/// A whole, regular record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'w, const PLAIN: bool> {
    window: &'w [u8],
    /// The list from the record's beginning on.
    next: &'w [u32],
    last_field: usize,
    separator: usize,
    cut_at_end: usize,
}

impl<'w, const PLAIN: bool> Record<'w, PLAIN> {
    /// One of its fields.
    ///
    /// # Safety
    /// It has such a field.
    #[inline(always)]
    pub(crate) unsafe fn field(self, column: usize) -> RawField<'w> {
        debug_assert!(column <= self.last_field && column + 1 < self.next.len(), "field {column}");
        let cut = self.separator + if column == self.last_field { self.cut_at_end } else { 0 };
        // SAFETY: by the caller's promise; a regular record has an entry for the end of each field, behind the one for
        // where it begins.
        unsafe { field_behind::<PLAIN>(self.window, self.next, column, cut) }
    }
}

/// The fields of one column, by the records' entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldColumn<'w, const PLAIN: bool> {
    window: &'w [u8],
    /// The list from the column's entry of the first record on.
    next: &'w [u32],
    /// Bytes between the field's end and its entry.
    cut: usize,
}

impl<'w, const PLAIN: bool> FieldColumn<'w, PLAIN> {
    /// The field of the record whose entries begin at `entry`.
    ///
    /// # Safety
    /// [`Records::entry`] gave the entry.
    #[inline(always)]
    pub(crate) unsafe fn field(self, entry: usize) -> RawField<'w> {
        // SAFETY: by the caller's promise; a regular record has an entry for the end of each field, behind the one for
        // where it begins.
        unsafe { field_behind::<PLAIN>(self.window, self.next, entry, self.cut) }
    }

    /// The texts of four records' fields.
    ///
    /// # Safety
    /// As for [`FieldColumn::field`]; the records are plain.
    #[inline(always)]
    pub(crate) unsafe fn four(self, entries: [usize; 4]) -> FourTexts<'w> {
        debug_assert!(PLAIN, "records are not plain");
        // SAFETY: by the caller's promise there are these entries, which ascend, and none is past the window's end; plain
        // fields have one byte behind them.
        unsafe {
            // Volatile, since the compiler would make a gathering load of these eight, with which all of it is slower than
            // one text after the other.
            let entry = |index: usize| self.next.as_ptr().add(index).read_volatile();
            FourTexts::within(self.window, entries.map(|index| (entry(index), entry(index + 1))))
        }
    }
}

/// A field of all records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnFields<'w, const PLAIN: bool> {
    fields: FieldColumn<'w, PLAIN>,
    stride: usize,
    rows: usize,
}

impl<'w, const PLAIN: bool> ColumnFields<'w, PLAIN> {
    /// The field of record `row`.
    ///
    /// # Panics
    /// Where there is no such record.
    #[inline(always)]
    pub(crate) fn field(self, row: usize) -> RawField<'w> {
        assert!(row < self.rows, "record {row}");
        // SAFETY: there is such a record, as was just asserted, and its entries begin there.
        unsafe { self.fields.field(row * self.stride) }
    }
}

/// The field between the entry `index` of a list and the one behind it.
///
/// # Safety
/// There are these entries, and the field is one of a regular record; `cut` is what stands between its end and its entry.
/// If `PLAIN`, the records are.
#[inline(always)]
unsafe fn field_behind<'w, const PLAIN: bool>(
    window: &'w [u8],
    next: &[u32],
    index: usize,
    cut: usize,
) -> RawField<'w> {
    // SAFETY: by the caller's promise.
    let (before, entry) = unsafe { (*next.get_unchecked(index), *next.get_unchecked(index + 1)) };
    let (start, end, marked) = if PLAIN {
        (before as usize, entry as usize - 1, false)
    } else {
        ((before & !MARKED) as usize, (entry & !MARKED) as usize - cut, entry & MARKED != 0)
    };
    debug_assert!(start <= end && end <= window.len(), "a field from {start} to {end}");
    // SAFETY: entries ascend, each by what is cut at least, and none is past the window's end.
    let bytes = unsafe { window.get_unchecked(start..end) };
    RawField { bytes, marked, readable: window.len() - start }
}

/// Finds records; keeps its list between windows so that nothing is allocated per window.
#[derive(Debug)]
pub struct Scanner {
    dialect: Dialect,
    fields: usize,
    /// The field of each column, where some field has none.
    places: Vec<usize>,
    next: Vec<u32>,
}

impl Scanner {
    /// A scanner for records with a field for each of `columns` columns, at least one, and those that the dialect leaves
    /// out.
    ///
    /// # Panics
    /// Where `columns` is 0, a column has no field, the number of fields is not that of fixed widths, or the dialect's
    /// bytes are not ASCII: they could stand inside a character, and what is left of a window known to be valid UTF-8 would
    /// not be.
    #[must_use]
    pub fn new(dialect: Dialect, columns: usize) -> Self {
        assert!(columns > 0, "a record has at least one field");
        let fields = dialect.fields(columns);
        let places: Vec<_> = (0..columns).map(|column| dialect.field_of(column)).collect();
        assert!(places.last() < Some(&fields), "every column has a field");
        let places = if dialect.left_out.is_empty() { Vec::new() } else { places };
        assert!(dialect.family != Family::Fixed || dialect.widths.len() == fields, "every field has a width");
        assert!([dialect.delimiter, dialect.quote, dialect.escape].is_ascii(), "delimiter, quote and escape are ASCII");
        Self { dialect, fields, places, next: Vec::new() }
    }

    /// Finds the whole records that `window` begins with. The window begins at the start of a record; what follows
    /// the last record end is left for the next window.
    ///
    /// # Panics
    /// Where the window is larger than [`MAX_WINDOW_BYTES`].
    pub fn scan<'w>(&'w mut self, window: &'w [u8]) -> Records<'w> {
        assert!(window.len() <= MAX_WINDOW_BYTES, "a window of {} bytes", window.len());
        if self.dialect.family == Family::Fixed {
            return self.scan_fixed(window);
        }
        let found = flatten::flatten(window, &self.dialect, &mut self.next);
        let layout = Layout {
            fields: self.fields,
            stride: self.dialect.stride(self.fields),
            line_end: self.dialect.line_end,
            trailing_delimiter: self.dialect.trailing_delimiter,
        };
        Records::find(window, &self.next, layout, &self.places, found)
    }

    fn scan_fixed<'w>(&'w mut self, window: &'w [u8]) -> Records<'w> {
        let (rows, irregular) = fixed::flatten(window, &self.dialect, &mut self.next);
        let layout = Layout {
            fields: self.fields,
            stride: self.fields,
            line_end: self.dialect.line_end,
            trailing_delimiter: false,
        };
        Records {
            window,
            next: &self.next,
            layout,
            places: &self.places,
            found: Found {
                any_marked: true,
                record_ends: rows,
                fault: irregular.map(|it| (it.start, it.what)),
                ..Found::default()
            },
            stride: self.fields,
            last_field: self.fields - 1,
            separator: 0,
            cut_at_end: self.dialect.line_end.bytes().len(),
            rows,
            consumed: (self.next[rows * self.fields] & !MARKED) as usize,
            irregular,
            any_marked: true,
        }
    }
}

impl Layout {
    /// How many records from the first on are regular, and whether that is all complete ones.
    fn count_regular(self, window: &[u8], next: &[u32], found: &Found) -> (usize, bool) {
        let stride = self.stride;
        let entries = next.len() - 1;
        let end_byte = self.line_end.last_byte();
        let limit = found.fault.map_or(usize::MAX, |(position, _)| position);
        // A trailing delimiter must stand right before the record end.
        let tail = self.line_end.bytes().len() as u32;
        let mut rows = 0;
        while (rows + 1) * stride <= entries {
            let last = (next[(rows + 1) * stride] & !MARKED) as usize - 1;
            let trails =
                !self.trailing_delimiter || (next[(rows + 1) * stride - 1] & !MARKED) + tail == last as u32 + 1;
            if window[last] != end_byte || !trails || last >= limit {
                break;
            }
            rows += 1;
        }
        // Every stride-th entry is a record end; if there are no others among them, all records are regular.
        if found.fault.is_none() && found.record_ends == rows {
            return (rows, true);
        }
        let (start, end) = ((next[0] & !MARKED) as usize, (next[rows * stride] & !MARKED) as usize);
        // Of those behind the last candidate nothing is known; among their bytes there are no more, if none is a value's.
        if memchr::memchr_iter(end_byte, &window[start..end]).count() == rows {
            return (rows, false);
        }
        self.first_irregular(window, next, rows, limit)
    }

    /// The slow, obvious count: entry by entry.
    fn first_irregular(self, window: &[u8], next: &[u32], candidates: usize, limit: usize) -> (usize, bool) {
        let stride = self.stride;
        let end_byte = self.line_end.last_byte();
        for row in 0..candidates {
            for column in 0..stride - 1 {
                let position = (next[row * stride + column + 1] & !MARKED) as usize - 1;
                if window[position] == end_byte || position >= limit {
                    return (row, false);
                }
            }
        }
        (candidates, false)
    }

    /// Describes the record at `start`, whose entries begin after entry `first`; `None` while it is incomplete.
    fn describe(
        self,
        window: &[u8],
        next: &[u32],
        start: usize,
        first: usize,
        found: &Found,
    ) -> Option<IrregularRecord> {
        let end_byte = self.line_end.last_byte();
        let mut delimiters = 0;
        let mut last_delimiter_end = None;
        let mut end = None;
        for &entry in &next[first + 1..] {
            let position = (entry & !MARKED) as usize - 1;
            if window[position] == end_byte {
                end = Some(position + 1);
                break;
            }
            delimiters += 1;
            last_delimiter_end = Some(position + 1);
        }
        if let Some((position, what)) = found.fault.filter(|&(position, _)| end.is_none_or(|end| position < end)) {
            let complete = end.is_some();
            return Some(IrregularRecord { start, end: end.unwrap_or(position + 1), what, complete });
        }
        let end = end?;
        let trails = last_delimiter_end == Some(end - self.line_end.bytes().len());
        let fields = delimiters + usize::from(!(self.trailing_delimiter && trails));
        let what = if fields < self.fields {
            Irregularity::MissingFields { found: fields }
        } else if fields == self.fields && self.trailing_delimiter {
            // All fields are there, but the delimiter after the last one is not.
            Irregularity::MissingFields { found: fields }
        } else {
            Irregularity::ExtraFields { found: fields }
        };
        Some(IrregularRecord { start, end, what, complete: true })
    }
}

#[cfg(test)]
pub(crate) mod reference;
#[cfg(test)]
mod tests;
