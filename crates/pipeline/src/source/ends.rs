//! Where records end that begin with a quote which seems to open half of what follows.
//!
//! Where such a record begins every few bytes, each would have a whole window looked through for its end. What a block
//! of the source does to the state of quotes is the same for all of them, and asked once.

use std::collections::VecDeque;
use tipple_codec::dialect::Dialect;
use tipple_codec::split::{self, Part, State};

/// The unit of what is remembered.
const BLOCK_BYTES: usize = 4 * 1024;

/// What is known of a piece; it is asked for records in ascending order, mostly.
#[derive(Debug, Default)]
pub struct Ends {
    /// Number of the first block that is known, counted from the beginning of the source.
    first: u64,
    blocks: VecDeque<Part>,
}

impl Ends {
    /// The first byte behind the record that `window` begins with, if it ends there; `offset`: of the window in its
    /// source.
    pub fn find(&mut self, window: &[u8], offset: u64, dialect: &Dialect) -> Option<usize> {
        let block = BLOCK_BYTES as u64;
        let to_border = (offset.next_multiple_of(block) - offset) as usize;
        let (head, rest) = window.split_at(to_border.min(window.len()));
        if let Some(end) = split::first_record(head, State::Outside, dialect) {
            return Some(end);
        }
        let (_, mut state) = split::count_records(head, State::Outside, dialect);
        let number = (offset + head.len() as u64) / block;
        self.forget_before(number);
        let whole = rest.chunks_exact(BLOCK_BYTES);
        let mut at = rest.len() - whole.remainder().len();
        for (index, bytes) in whole.enumerate() {
            if index == self.blocks.len() {
                self.blocks.push_back(split::scan_part(bytes, dialect));
            }
            if let Some(end) = self.blocks[index].first_record(state) {
                return Some(head.len() + index * BLOCK_BYTES + end);
            }
            state = self.blocks[index].after(state);
        }
        at += split::first_record(&rest[at..], state, dialect)?;
        Some(head.len() + at)
    }

    fn forget_before(&mut self, number: u64) {
        if number < self.first {
            self.blocks.clear();
        }
        let known = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.blocks.drain(..known.min(self.blocks.len()));
        self.first = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dialect(escape: u8) -> Dialect {
        Dialect { escape, ..Dialect::csv() }
    }

    proptest! {
        #[test]
        fn an_end_is_where_a_walk_finds_it(
            pieces in proptest::collection::vec((0..6usize, 1..900usize), 0..60),
            begins in proptest::collection::vec(0.0..1.0f64, 1..20),
            lengths in proptest::collection::vec(0.0..1.0f64, 20),
            escape in prop_oneof![Just(b'"'), Just(b'\\')],
            before in 0..3 * BLOCK_BYTES as u64,
        ) {
            let mut text = Vec::new();
            for (kind, length) in pieces {
                match kind {
                    0 => text.push(b'"'),
                    1 => text.extend_from_slice(b"\\\""),
                    2 => text.push(b'\n'),
                    _ => text.resize(text.len() + length, b'x'),
                }
            }
            let dialect = dialect(escape);
            let mut ends = Ends::default();
            let mut begins: Vec<usize> = begins.iter().map(|share| (share * text.len() as f64) as usize).collect();
            // Going back is rare, and allowed.
            let back = begins.pop();
            begins.sort_unstable();
            for (begin, share) in begins.into_iter().chain(back).zip(lengths) {
                let length = ((text.len() - begin) as f64 * (0.5 + share)) as usize;
                let window = &text[begin..][..length.min(text.len() - begin)];
                let found = ends.find(window, before + begin as u64, &dialect);
                prop_assert_eq!(found, split::first_record(window, State::Outside, &dialect));
            }
        }
    }
}
