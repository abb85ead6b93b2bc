//! PostgreSQL's hash functions as hash partitioning calls them (src/common/hashfn.c, hashfunc.c, partbounds.c): Bob
//! Jenkins' lookup3 with a seed of 64 bits.

/// HASH_PARTITION_SEED (partbounds.h).
const SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// hash_combine64 (hashfn.h).
pub(super) fn combine(hash: u64, other: u64) -> u64 {
    let mixed = other.wrapping_add(0x49a0_f4dd_15e5_a8e3).wrapping_add(hash << 54).wrapping_add(hash >> 7);
    hash ^ mixed
}

/// hashint8extended: equal to that of the same number as int4.
pub(super) fn of_int8(value: i64) -> u64 {
    let low = value as u32;
    let high = (value >> 32) as u32;
    of_word(low ^ if value >= 0 { high } else { !high })
}

/// hashint4extended, and hashint2extended.
pub(super) fn of_int4(value: i32) -> u64 {
    of_word(value as u32)
}

/// hash_bytes_uint32_extended
fn of_word(word: u32) -> u64 {
    let (mut a, mut b, mut c) = begin(4);
    a = a.wrapping_add(word);
    finish(&mut a, &mut b, &mut c);
    (u64::from(b) << 32) | u64::from(c)
}

/// hash_bytes_extended, as a little-endian machine computes it.
pub(super) fn of_bytes(bytes: &[u8]) -> u64 {
    let (mut a, mut b, mut c) = begin(bytes.len());
    let mut rest = bytes;
    while let Some((part, behind)) = rest.split_first_chunk::<12>() {
        a = a.wrapping_add(word(&part[..4]));
        b = b.wrapping_add(word(&part[4..8]));
        c = c.wrapping_add(word(&part[8..]));
        mix(&mut a, &mut b, &mut c);
        rest = behind;
    }
    a = a.wrapping_add(word(&rest[..rest.len().min(4)]));
    b = b.wrapping_add(word(&rest[rest.len().min(4)..rest.len().min(8)]));
    // The lowest byte of c is that of the length.
    c = c.wrapping_add(word(&rest[rest.len().min(8)..]) << 8);
    finish(&mut a, &mut b, &mut c);
    (u64::from(b) << 32) | u64::from(c)
}

fn begin(length: usize) -> (u32, u32, u32) {
    let start = 0x9e37_79b9_u32.wrapping_add(length as u32).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (start, start, start);
    a = a.wrapping_add((SEED >> 32) as u32);
    b = b.wrapping_add(SEED as u32);
    mix(&mut a, &mut b, &mut c);
    (a, b, c)
}

/// Up to four bytes, the first one lowest.
fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, &byte| (word << 8) | u32::from(byte))
}

fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    let step = |x: &mut u32, y: &u32, z: &mut u32, bits: u32| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(bits);
        *z = z.wrapping_add(*y);
    };
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn finish(a: &mut u32, b: &mut u32, c: &mut u32) {
    let step = |x: &mut u32, y: &u32, bits: u32| *x = (*x ^ *y).wrapping_sub(y.rotate_left(bits));
    step(c, b, 14);
    step(a, c, 11);
    step(b, a, 25);
    step(c, b, 16);
    step(a, c, 4);
    step(b, a, 14);
    step(c, b, 24);
}
