//! The pass over the bytes: 64 of them become bit masks, the masks become positions.
//!
//! A block without quotes or escapes outside quotes (nearly every block) only has its bits written out. Where quotes
//! are escaped by doubling them, what lies between quotes is what has an odd number of them before it, which is a few
//! operations for the whole block too. Any other block goes bit by bit through a small state machine that knows quotes,
//! escapes and which record ends are misplaced.

#[cfg(test)]
use super::block::each_block;
use super::block::{Block, ROOM_FOR_PLACES, by_best_block};
use super::{Irregularity, MARKED};
use crate::dialect::{Dialect, Family, LineEnd};

/// What the pass found besides the positions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Record ends in the list.
    pub(super) record_ends: usize,
    /// Whether any field holds a quote or an escape.
    pub(super) any_marked: bool,
    /// All bytes of the window are known to be ASCII.
    pub(super) is_ascii: bool,
    /// None of them is NUL, as is known.
    pub(super) is_free_of_nul: bool,
    /// The first byte that makes its record irregular whatever the fields, and why.
    pub(super) fault: Option<(usize, Irregularity)>,
}

impl Found {
    #[inline(always)]
    fn note_fault(&mut self, position: usize, what: Irregularity) {
        self.fault.get_or_insert((position, what));
    }
}

/// What one block hands to the next.
#[derive(Default)]
struct Carry {
    in_quote: bool,
    marked: bool,
    /// The position of a byte that an escape made literal.
    literal: Option<usize>,
    /// The last byte before this block was a carriage return outside quotes, behind no escape.
    carriage_return: bool,
    found: Found,
}

/// Writes the position after every structural byte of `window` into `next`, behind a sentinel 0.
pub(super) fn flatten(window: &[u8], dialect: &Dialect, next: &mut Vec<u32>) -> Found {
    next.clear();
    next.push(0);
    by_best_block!(flatten_with(window: &[u8], dialect: &Dialect, next: &mut Vec<u32>) -> Found)
}

/// The same with each of the processor's instructions, for comparison in tests.
#[cfg(test)]
pub(super) fn flatten_by_each(window: &[u8], dialect: &Dialect, mut check: impl FnMut(Found, &[u32])) {
    each_block!(B => {
        let mut next = vec![0];
        // SAFETY: the processor has the features.
        let found = unsafe { flatten_with::<B>(window, dialect, &mut next) };
        check(found, &next);
    });
}

/// # Safety
/// The CPU has the features that `B` needs.
#[inline(always)]
unsafe fn flatten_with<B: Block>(window: &[u8], dialect: &Dialect, next: &mut Vec<u32>) -> Found {
    let mut carry = Carry::default();
    let whole = window.len() / 64 * 64;
    let mut base = 0;
    // SAFETY: the CPU has the features.
    let mut seen = unsafe { B::unseen() };
    while base < whole {
        // SAFETY: 64 bytes from `base` lie inside the window, and the CPU has the features.
        unsafe {
            let block = B::load(window.as_ptr().add(base));
            block.see(&mut seen);
            flatten_block(window, base, 64, &block, dialect, &mut carry, next);
        }
        base += 64;
    }
    // SAFETY: the CPU has the features.
    let (is_ascii, has_nul) = unsafe { (B::is_ascii(seen), B::has_nul(seen)) };
    carry.found.is_ascii = is_ascii && window[base..].is_ascii();
    carry.found.is_free_of_nul = !has_nul && !window[base..].contains(&0);
    if base < window.len() {
        let mut tail = [0_u8; 64];
        let length = window.len() - base;
        tail[..length].copy_from_slice(&window[base..]);
        // SAFETY: `tail` has 64 bytes; the zeros behind the window are masked off by `length`.
        unsafe { flatten_block(window, base, length, &B::load(tail.as_ptr()), dialect, &mut carry, next) };
    }
    // A carriage return as the very last byte may be the first half of a record end: not misplaced yet.
    carry.found
}

/// # Safety
/// The CPU has the features that `B` needs.
#[inline(always)]
unsafe fn flatten_block<B: Block>(
    window: &[u8],
    base: usize,
    length: usize,
    block: &B,
    dialect: &Dialect,
    carry: &mut Carry,
    next: &mut Vec<u32>,
) {
    let inside = u64::MAX >> (64 - length);
    // SAFETY: by the caller's promise.
    let (bits, quotes, escapes) = unsafe {
        let (quotes, escapes) = match dialect.family {
            Family::Csv if dialect.escape != dialect.quote => {
                (block.equals(dialect.quote), block.equals(dialect.escape))
            }
            Family::Csv => (block.equals(dialect.quote), 0),
            Family::Text => (0, block.equals(b'\\')),
            Family::Plain | Family::Fixed => (0, 0),
        };
        let bits = Bits {
            delimiters: block.equals(dialect.delimiter) & inside,
            newlines: block.equals(b'\n') & inside,
            returns: block.equals(b'\r') & inside,
        };
        (bits, quotes & inside, escapes & inside)
    };
    if escapes != 0 || carry.literal.is_some() {
        let special = quotes | escapes;
        step_by_step(window, base, bits.delimiters | bits.newlines | bits.returns | special, dialect, carry, next);
    } else if quotes == 0 && !carry.in_quote && !carry.marked {
        let listed = bits.structural(window, base, length, dialect, carry);
        // SAFETY: by the caller's promise.
        unsafe { write_bits::<B>(listed, 0, base as u32 + 1, next) };
    } else {
        // SAFETY: by the caller's promise.
        let odd = unsafe { B::prefix_xor(quotes) };
        let quoted = odd ^ if carry.in_quote { u64::MAX } else { 0 };
        carry.in_quote = quoted >> 63 == 1;
        let outside = Bits {
            delimiters: bits.delimiters & !quoted,
            newlines: bits.newlines & !quoted,
            returns: bits.returns & !quoted,
        };
        let listed = outside.structural(window, base, length, dialect, carry);
        let marked = marked_among(listed, quotes, carry);
        // Long texts have blocks without a single one.
        if listed != 0 {
            // SAFETY: by the caller's promise.
            unsafe { write_bits::<B>(listed, marked, base as u32 + 1, next) };
        }
    }
}

/// The bytes of a block that may be structural.
struct Bits {
    delimiters: u64,
    newlines: u64,
    returns: u64,
}

impl Bits {
    /// Those that are, of bytes outside quotes and behind no escape; notes a misplaced record end.
    #[inline(always)]
    fn structural(self, window: &[u8], base: usize, length: usize, dialect: &Dialect, carry: &mut Carry) -> u64 {
        let Self { delimiters, newlines, returns } = self;
        let inside = u64::MAX >> (64 - length);
        let (ends, misplaced) = match dialect.line_end {
            LineEnd::Lf => (newlines, returns),
            LineEnd::Cr => (returns, newlines),
            LineEnd::Crlf => {
                let after_return = (returns << 1) | u64::from(carry.carriage_return);
                (newlines, (newlines ^ after_return) & inside)
            }
        };
        carry.carriage_return = returns >> (length - 1) & 1 == 1;
        if misplaced != 0 {
            // With CR LF the byte behind a lone carriage return is what was found.
            let position = base + misplaced.trailing_zeros() as usize;
            let behind = dialect.line_end == LineEnd::Crlf && window[position] != b'\n';
            carry.found.note_fault(position - usize::from(behind), Irregularity::MixedLineEnds);
        }
        // The next block looks back only where it does not go bit by bit.
        if dialect.line_end == LineEnd::Crlf
            && carry.carriage_return
            && window.get(base + length).is_some_and(|&following| following != b'\n')
        {
            carry.found.note_fault(base + length - 1, Irregularity::MixedLineEnds);
        }
        carry.found.record_ends += ends.count_ones() as usize;
        delimiters | ends
    }
}

/// Those of the structural bytes `listed` before which there is a quote, and none of `listed` between the two.
#[inline(always)]
fn marked_among(listed: u64, quotes: u64, carry: &mut Carry) -> u64 {
    // Bytes that are not listed are runs of ones. A quote that is added to a run carries over into the byte behind it,
    // which is the listed one that ends the field, and no further: that bit is zero.
    let (sum, over) = (!listed).overflowing_add(quotes);
    let (sum, over_again) = sum.overflowing_add(u64::from(carry.marked));
    carry.marked = over | over_again;
    carry.found.any_marked |= quotes != 0;
    sum & listed
}

/// Appends `first + i` for every bit i of `bits`, with [`MARKED`] in those that are also in `marked`.
///
/// # Safety
/// The CPU has the features that `B` needs.
#[inline(always)]
unsafe fn write_bits<B: Block>(bits: u64, marked: u64, first: u32, next: &mut Vec<u32>) {
    // What is written behind the places is overwritten by the next block.
    next.reserve(ROOM_FOR_PLACES);
    let length = next.len();
    // SAFETY: the places were reserved, and as many as there are bits are initialised.
    unsafe {
        B::write_places(bits, (marked, MARKED), first, next.as_mut_ptr().add(length));
        next.set_len(length + bits.count_ones() as usize);
    }
}

/// The careful way through one block: quotes, escapes, literal bytes, misplaced record ends.
#[inline(never)]
fn step_by_step(window: &[u8], base: usize, mut bits: u64, dialect: &Dialect, carry: &mut Carry, next: &mut Vec<u32>) {
    let end_byte = dialect.line_end.last_byte();
    carry.carriage_return = false;
    while bits != 0 {
        let position = base + bits.trailing_zeros() as usize;
        bits &= bits - 1;
        let byte = window[position];
        if carry.literal.take_if(|literal| *literal <= position).is_some_and(|literal| literal == position) {
            // The escape took the carriage return out of this record end, which leaves a lone newline.
            if dialect.line_end == LineEnd::Crlf && byte == b'\r' && window.get(position + 1) == Some(&b'\n') {
                carry.found.note_fault(position + 1, Irregularity::MixedLineEnds);
            }
            continue;
        }
        match dialect.family {
            Family::Csv => {
                if carry.in_quote && dialect.is_escape_pair(window, position) {
                    carry.literal = Some(position + 1);
                    continue;
                }
                if byte == dialect.quote {
                    carry.in_quote = !carry.in_quote;
                    carry.marked = true;
                    carry.found.any_marked = true;
                    continue;
                }
                if carry.in_quote {
                    continue;
                }
            }
            Family::Text if byte == b'\\' => {
                if window.get(position + 1) == Some(&b'.') {
                    carry.found.note_fault(position, Irregularity::EndMarker);
                }
                carry.literal = Some(position + 1);
                carry.marked = true;
                carry.found.any_marked = true;
                continue;
            }
            Family::Text | Family::Plain | Family::Fixed => {}
        }
        let delimiter = byte == dialect.delimiter;
        if delimiter || byte == end_byte {
            if !delimiter {
                carry.found.record_ends += 1;
                if dialect.line_end == LineEnd::Crlf && (position == 0 || window[position - 1] != b'\r') {
                    carry.found.note_fault(position, Irregularity::MixedLineEnds);
                }
            }
            next.push((position as u32 + 1) | if carry.marked { MARKED } else { 0 });
            carry.marked = false;
        } else if byte == b'\n' || byte == b'\r' {
            let first_half = dialect.line_end == LineEnd::Crlf
                && byte == b'\r'
                && window.get(position + 1).is_none_or(|&following| following == b'\n');
            carry.carriage_return = byte == b'\r' && position == base + 63;
            if !first_half {
                carry.found.note_fault(position, Irregularity::MixedLineEnds);
            }
        }
    }
    if carry.literal.is_some_and(|literal| literal < base + 64) {
        carry.literal = None;
    }
}
