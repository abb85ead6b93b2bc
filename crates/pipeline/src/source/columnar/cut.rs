//! Cuts columnar sources into slices: neighbouring row groups or record batches until a slice has its size; small
//! files together.

use super::{ColumnarFile, Unit};
use crate::error::Result;
use crate::plan::{ColumnarFormat, CutPlan, Piece, Slice};

/// The most sources that one slice groups, so that resuming stays cheap.
const MAX_PIECES: usize = 1024;

/// Cuts the sources of `plan`; a source without rows makes no slice.
///
/// # Errors
/// Where a source cannot be read, has changed, or is not in this format.
pub fn cut(plan: &CutPlan, format: ColumnarFormat) -> Result<Vec<Slice>> {
    let mut slices: Vec<Slice> = Vec::new();
    let mut group: Vec<Piece> = Vec::new();
    let mut grouped_bytes = 0;
    let mut end_slice = |group: &mut Vec<Piece>, grouped_bytes: &mut u64| {
        if !group.is_empty() {
            slices.push(Slice { n: slices.len() as u32, pieces: std::mem::take(group) });
        }
        *grouped_bytes = 0;
    };
    for (index, planned) in plan.sources.iter().enumerate() {
        let file = ColumnarFile::open(planned, format)?;
        let units = &file.units;
        for piece in pieces(index, planned.size, units, file.can_be_cut(), plan.slice_bytes) {
            if grouped_bytes + piece.length > plan.slice_bytes || group.len() == MAX_PIECES {
                end_slice(&mut group, &mut grouped_bytes);
            }
            grouped_bytes += piece.length;
            group.push(piece);
        }
    }
    end_slice(&mut group, &mut grouped_bytes);
    Ok(slices)
}

/// The pieces of one source.
fn pieces(source: usize, size: u64, units: &[Unit], can_be_cut: bool, slice_bytes: u64) -> Vec<Piece> {
    let rows: u64 = units.iter().map(|unit| unit.rows).sum();
    if rows == 0 {
        return Vec::new();
    }
    if !can_be_cut {
        return vec![Piece { source, offset: 0, length: size }];
    }
    let mut pieces: Vec<Piece> = Vec::new();
    let mut bytes = 0;
    for (index, &unit) in units.iter().enumerate() {
        // Whatever a file says of its lengths: no unit may seem to begin in the piece before its own.
        let room = units.get(index + 1).map_or(u64::MAX, |next| next.offset - unit.offset);
        let unit = Unit { bytes: unit.bytes.clamp(1, room), ..unit };
        match pieces.last_mut() {
            Some(piece) if bytes + unit.bytes <= slice_bytes => {
                piece.length = unit.offset + unit.bytes - piece.offset;
                bytes += unit.bytes;
            }
            _ => {
                pieces.push(Piece { source, offset: unit.offset, length: unit.bytes });
                bytes = unit.bytes;
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::{Unit, pieces};

    /// Every unit begins in exactly one piece, whatever the lengths say.
    #[test]
    fn every_unit_is_in_one_piece() {
        let units = [(4, 10), (14, 0), (20, 1000), (30, 5), (31, 90), (200, 1)].map(|(offset, bytes)| Unit {
            offset,
            bytes,
            rows: 1,
        });
        for slice_bytes in [1, 10, 11, 20, 50, 1000] {
            let pieces = pieces(0, 300, &units, true, slice_bytes);
            for unit in &units {
                let holding =
                    |piece: &&crate::plan::Piece| (piece.offset..piece.offset + piece.length).contains(&unit.offset);
                assert_eq!(pieces.iter().filter(holding).count(), 1, "{unit:?} by {slice_bytes}: {pieces:?}");
            }
        }
    }

    #[test]
    fn what_has_no_rows_makes_no_piece() {
        assert!(pieces(0, 300, &[], true, 10).is_empty());
        assert!(pieces(0, 300, &[Unit { offset: 4, bytes: 9, rows: 0 }], true, 10).is_empty());
    }
}
