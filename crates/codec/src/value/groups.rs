//! A `numeric` of at most four base-10,000 digits in a register, and the two forms in which a server takes it.
//!
//! Whoever reads a number leaves its digits where they fall, with zeros at either end. Both forms are without those,
//! and what has to be said of the digits that stay (how many, where the point is) depends only on which of the four are
//! zero: sixteen cases, so that nothing is counted and nothing branches.

/// A number of at most four base-10,000 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The digits, sixteen bits each and below 10,000, the first in the lowest bits.
    lanes: u64,
    /// A bit for each digit that is not zero, the first lowest.
    present: usize,
    /// How many of the four stand behind the point: 0 to 4.
    fraction_groups: usize,
    /// Whether it is below zero; of a zero it means nothing.
    negative: bool,
    /// How many decimal places the server shows.
    display_scale: u16,
}

/// A number as it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    /// The varlena header and the numeric's: three bytes, and one that means nothing.
    pub(crate) head: u32,
    /// The digits, from the fourth byte on.
    pub(crate) digits: u64,
    /// Bytes of all of it, 3 to 11.
    pub(crate) length: usize,
}

/// `NUMERIC_NEG`: the sign word of a negative number.
pub(super) const NEGATIVE: u16 = 0x4000;

/// `NUMERIC_SHORT_DSCALE_MAX`
pub(crate) const LARGEST_SHORT_SCALE: u16 = 0x3F;

/// What is to be said of digits of which some are not zero.
#[derive(Clone, Copy)]
struct Shape {
    /// From the first that is not zero to the last.
    count: u16,
    /// The power of 10,000 that the first one counts.
    weight: i16,
    /// By how many bits the lanes move to lose the zeros before it.
    shift: u8,
}

/// By how many of the four digits stand behind the point, and then by which are not zero: a bit each, the first lowest.
const fn shapes() -> [[Shape; 16]; 5] {
    let mut shapes = [[Shape { count: 0, weight: 0, shift: 0 }; 16]; 5];
    let mut fraction_groups = 0;
    while fraction_groups <= 4 {
        let mut present = 1_u16;
        while present < 16 {
            let (leading, end) = (present.trailing_zeros(), 16 - present.leading_zeros());
            shapes[fraction_groups][present as usize] = Shape {
                count: (end - leading) as u16,
                weight: 3 - leading as i16 - fraction_groups as i16,
                shift: 16 * leading as u8,
            };
            present += 1;
        }
        fraction_groups += 1;
    }
    shapes
}

/// The beginning of the stored form by the same indexes, those of negative numbers behind the others, without the scale: the
/// varlena header, the numeric's word, and in the highest byte the shift.
const STORED: &[[u32; 32]; 5] = &{
    let shapes = shapes();
    let mut words = [[0; 32]; 5];
    let mut fraction_groups = 0;
    while fraction_groups <= 4 {
        let mut index = 0;
        while index < 32 {
            let (negative, present) = (index >= 16, index % 16);
            let Shape { count, weight, shift } = shapes[fraction_groups][present];
            let varlena = ((3 + 2 * count) << 1 | 1) as u32;
            // There is no negative zero.
            let header = short_header(negative && present != 0, 0, weight) as u32;
            words[fraction_groups][index] = varlena | header << 8 | (shift as u32) << 24;
            index += 1;
        }
        fraction_groups += 1;
    }
    words
};

/// The header of the sent form by the same indexes, without sign and scale, and the shift.
const SENT: &[[(u64, u8); 16]; 5] = &{
    let shapes = shapes();
    let mut headers = [[(0, 0); 16]; 5];
    let mut fraction_groups = 0;
    while fraction_groups <= 4 {
        let mut present = 0;
        while present < 16 {
            let Shape { count, weight, shift } = shapes[fraction_groups][present];
            headers[fraction_groups][present] = ((count as u64) << 48 | (weight as u16 as u64) << 32, shift);
            present += 1;
        }
        fraction_groups += 1;
    }
    headers
};

/// [`Groups::stored`]'s words for numbers of which so many digits stand behind the point: by which are not zero, a bit each
/// and the first lowest; those of negative numbers are the second half.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn stored_words(fraction_groups: usize) -> &'static [u32; 32] {
    &STORED[fraction_groups]
}

impl Groups {
    /// A number with these digits, of which `fraction_groups` stand behind the point.
    #[inline(always)]
    pub(super) const fn new(lanes: u64, fraction_groups: usize, negative: bool, display_scale: u16) -> Self {
        // No lane has its highest bit, and adding this gives it to those that are not zero.
        let marks = (lanes + 0x7FFF_7FFF_7FFF_7FFF) & 0x8000_8000_8000_8000;
        // The four bits, sixteen apart, come to lie side by side at the top.
        let present = ((marks >> 15).wrapping_mul(1 << 60 | 1 << 45 | 1 << 30 | 1 << 15) >> 60) as usize;
        Self::with_present((lanes, present), fraction_groups, negative, display_scale)
    }

    /// The same where somebody has a bit for each digit that is not zero, the first lowest.
    #[inline(always)]
    pub(super) const fn with_present(
        (lanes, present): (u64, usize),
        fraction_groups: usize,
        negative: bool,
        display_scale: u16,
    ) -> Self {
        debug_assert!(fraction_groups <= 4 && present < 16, "there are four digits");
        Self { lanes, present, fraction_groups, negative, display_scale }
    }

    /// The number `aligned / 10000^fraction_groups`; `aligned` is below 10^16.
    #[inline]
    pub(super) const fn of_aligned(aligned: u64, fraction_groups: usize, negative: bool, display_scale: u16) -> Self {
        let (upper, lower) = ((aligned / 100_000_000) as u32, (aligned % 100_000_000) as u32);
        let lanes = (upper / 10_000) as u64
            | ((upper % 10_000) as u64) << 16
            | ((lower / 10_000) as u64) << 32
            | ((lower % 10_000) as u64) << 48;
        Self::new(lanes, fraction_groups, negative, display_scale)
    }

    /// How many decimal places the server shows.
    #[inline]
    pub(crate) const fn display_scale(self) -> u16 {
        self.display_scale
    }

    /// The stored form behind a varlena header of one byte (utils/adt/numeric.c, "make_result", `NUMERIC_SHORT`); the scale
    /// is at most [`LARGEST_SHORT_SCALE`].
    #[inline(always)]
    pub(crate) fn stored(self) -> Stored {
        debug_assert!(self.display_scale <= LARGEST_SHORT_SCALE, "the short form has no room for the scale");
        let word = STORED[self.fraction_groups][usize::from(self.negative) << 4 | self.present];
        Stored {
            head: word | u32::from(self.display_scale) << 15,
            digits: self.lanes >> (word >> 24),
            length: (word as usize & 0xFF) >> 1,
        }
    }

    /// The form of `numeric_send` and how many of these bytes it has: four words, which are how many digits follow, the
    /// weight, the sign and the scale; then the digits.
    #[inline(always)]
    pub(crate) fn sent(self) -> ([u8; 16], usize) {
        let (header, shift) = SENT[self.fraction_groups][self.present];
        let sign = if self.negative & (self.present != 0) { NEGATIVE } else { 0 };
        let digits = self.lanes >> shift;
        // Each with its higher byte first.
        let digits = (digits & 0x00FF_00FF_00FF_00FF) << 8 | (digits >> 8) & 0x00FF_00FF_00FF_00FF;
        let header = header | u64::from(sign) << 16 | u64::from(self.display_scale);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&header.to_be_bytes());
        bytes[8..].copy_from_slice(&digits.to_le_bytes());
        (bytes, 8 + 2 * (header >> 48) as usize)
    }
}

/// `NUMERIC_SHORT` with its parts.
#[inline(always)]
pub(crate) const fn short_header(negative: bool, display_scale: u16, weight: i16) -> u16 {
    0x8000 | (negative as u16) << 13 | display_scale << 7 | (weight as u16) & 0x7F
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious version of [`Groups::sent`].
    fn sent_slowly(digits: [u16; 4], fraction_groups: usize, negative: bool, display_scale: u16) -> Vec<u8> {
        let leading = digits.iter().take_while(|&&digit| digit == 0).count();
        let trailing = digits.iter().rev().take_while(|&&digit| digit == 0).count();
        let kept = if leading == 4 { &[][..] } else { &digits[leading..4 - trailing] };
        let weight = if kept.is_empty() { 0 } else { 3 - leading as i16 - fraction_groups as i16 };
        let sign = if negative && !kept.is_empty() { NEGATIVE } else { 0 };
        let words = [kept.len() as u16, weight as u16, sign, display_scale];
        words.iter().chain(kept).flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn every_pattern_of_zeros() {
        for values in [[1, 1, 1, 1], [9999; 4], [1, 20, 300, 4000], [0x100, 0xFF, 0x1FF, 0x2700 - 1]] {
            for pattern in 0..16 {
                let digits: [u16; 4] =
                    std::array::from_fn(|place| if pattern >> place & 1 == 1 { values[place] } else { 0 });
                let lanes = digits.iter().rev().fold(0, |lanes, &digit| lanes << 16 | u64::from(digit));
                for fraction_groups in 0..=4 {
                    for (negative, scale) in [(false, 0), (true, 2), (true, LARGEST_SHORT_SCALE)] {
                        let groups = Groups::new(lanes, fraction_groups, negative, scale);
                        let expected = sent_slowly(digits, fraction_groups, negative, scale);
                        let (bytes, length) = groups.sent();
                        assert_eq!(bytes[..length], expected[..], "{digits:?} {fraction_groups}");

                        let Stored { head, digits: lanes, length } = groups.stored();
                        let mut bytes = [0; 11];
                        bytes[..4].copy_from_slice(&head.to_le_bytes());
                        bytes[3..].copy_from_slice(&lanes.to_le_bytes());
                        let word = |place: usize| u16::from_be_bytes([expected[2 * place], expected[2 * place + 1]]);
                        let mut stored = vec![((2 * word(0) + 3) << 1 | 1) as u8];
                        stored.extend(short_header(word(2) != 0, word(3), word(1) as i16).to_le_bytes());
                        stored.extend((4..expected.len() / 2).flat_map(|place| word(place).to_le_bytes()));
                        assert_eq!(bytes[..length], stored[..], "{digits:?} {fraction_groups}");
                    }
                }
            }
        }
    }

    #[test]
    fn aligned_numbers() {
        let groups = Groups::of_aligned(1_0002_0003_0004, 1, false, 4);
        assert_eq!(groups, Groups::new(4 << 48 | 3 << 32 | 2 << 16 | 1, 1, false, 4));
        assert_eq!(Groups::of_aligned(9_999_999_999_999_999, 4, true, 16).lanes, 9999 * 0x0001_0001_0001_0001);
    }
}
