//! Groups of neighbouring records: what is read again for one of them is little.

use super::super::parse::ParsedWindow;
use crate::plan::Piece;

/// Records of a group: 16 KB of lineitem. A thousand keys that are repeated once are then in 2,000 groups, 4 % of scale 1.
const GROUP_RECORDS: usize = 128;
pub(super) const GROUP_BYTES: usize = 4 * 8;

/// Regular records, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) source: usize,
    /// Where the first one begins in the source.
    pub(super) offset: u64,
    /// Of all of them, in bytes. The last record of a source may have been given its end.
    pub(super) length: u64,
    /// The number of the first one in its piece.
    pub(super) first_record: u64,
}

impl Group {
    pub(super) fn to_bytes(self) -> [u8; GROUP_BYTES] {
        let mut bytes = [0; GROUP_BYTES];
        let numbers = [self.source as u64, self.offset, self.length, self.first_record];
        for (slot, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *slot = number.to_le_bytes();
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; GROUP_BYTES]) -> Self {
        let numbers = bytes.as_chunks::<8>().0;
        let number = |place: usize| u64::from_le_bytes(numbers[place]);
        Self { source: number(0) as usize, offset: number(1), length: number(2), first_record: number(3) }
    }
}

/// The groups of a window's regular records; none where records cannot be read again by themselves, as those of
/// compressed files.
pub(super) struct Grouping<'w> {
    parsed: Option<&'w ParsedWindow<'w>>,
    group: Option<Group>,
    /// Where the next one begins.
    end: usize,
}

impl<'w> Grouping<'w> {
    pub(super) fn new(parsed: &'w ParsedWindow<'w>) -> Self {
        // Records were counted beforehand where text comes as a stream.
        Self { parsed: Some(parsed).filter(|parsed| parsed.place.record.is_none()), group: None, end: 0 }
    }

    /// The group of a row; rows ascend.
    #[inline]
    pub(super) fn of(&mut self, row: usize) -> Option<&Group> {
        if row >= self.end {
            let parsed = self.parsed?;
            let begin = row - row % GROUP_RECORDS;
            self.end = (begin + GROUP_RECORDS).min(parsed.records.rows());
            let (start, end) = (parsed.records.start(begin), parsed.records.start(self.end));
            self.group = Some(Group {
                source: parsed.place.source,
                offset: parsed.place.offset + start as u64,
                length: (end - start) as u64,
                first_record: parsed.first_record + begin as u64,
            });
        }
        self.group.as_ref()
    }
}

/// What is to be read of a piece for the groups in it, and the number in the piece of the first record that is; `groups`
/// are sorted.
pub(super) fn parts(piece: Piece, groups: &[Group]) -> Vec<(Piece, u64)> {
    let end = piece.offset + piece.length;
    let begin = groups.partition_point(|group| (group.source, group.offset) < (piece.source, piece.offset));
    let mut parts: Vec<(Piece, u64)> = Vec::new();
    for group in groups[begin..].iter().take_while(|group| group.source == piece.source && group.offset < end) {
        let until = end.min(group.offset + group.length);
        match parts.last_mut() {
            Some((last, _)) if group.offset < last.offset + last.length => {}
            Some((last, _)) if group.offset == last.offset + last.length => last.length = until - last.offset,
            _ => {
                let part = Piece { offset: group.offset, length: until - group.offset, ..piece };
                parts.push((part, group.first_record));
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_comes_back_from_its_bytes() {
        let group = Group { source: 3, offset: 1 << 40, length: 5, first_record: 1 << 33 };
        assert_eq!(Group::from_bytes(&group.to_bytes()), group);
    }

    #[test]
    fn parts_are_of_their_piece_and_neighbours_are_one() {
        let group = |source, offset, length, first_record| Group { source, offset, length, first_record };
        let mut groups = [
            group(0, 90, 10, 9),
            group(1, 100, 10, 0),
            group(1, 110, 5, 1),
            group(1, 130, 10, 4),
            group(1, 130, 10, 4),
            // With an end that the source has not.
            group(1, 190, 11, 8),
            group(1, 200, 10, 0),
            group(2, 100, 10, 0),
        ];
        groups.sort_unstable();
        let piece = Piece { source: 1, offset: 100, length: 100 };
        let found: Vec<_> = parts(piece, &groups)
            .into_iter()
            .map(|(part, first)| (part.source, part.offset, part.length, first))
            .collect();
        assert_eq!(found, [(1, 100, 15, 0), (1, 130, 10, 4), (1, 190, 10, 8)]);
        assert_eq!(parts(Piece { source: 1, offset: 210, length: 9 }, &groups), []);
    }
}
