//! Routing against a slow reference that tries every partition, and against values whose order is known.

use super::*;
use proptest::prelude::*;

/// A record as COPY binary.
pub(crate) fn record(fields: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut record = (fields.len() as u16).to_be_bytes().to_vec();
    for field in fields {
        match field {
            None => record.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(bytes) => {
                record.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
                record.extend_from_slice(bytes);
            }
        }
    }
    record
}

fn int8(value: i64) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn bound(value: i64) -> Bound {
    Bound::Value(Hex(int8(value)))
}

fn key(kinds: &[KeyKind]) -> Vec<KeyColumn> {
    kinds.iter().enumerate().map(|(index, &kind)| KeyColumn { column: 2 * index + 1, kind }).collect()
}

/// A record with these keys in the odd columns.
fn keyed(keys: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut fields = Vec::new();
    for key in keys {
        fields.push(Some(b"filler".to_vec()));
        fields.push(key.clone());
    }
    record(&fields)
}

fn ranges(kinds: &[KeyKind], ranges: Vec<(Vec<Bound>, Vec<Bound>, usize)>, default: Option<usize>) -> Router {
    Router::new(&RoutePlan { key: key(kinds), bounds: Bounds::Range { ranges, default } }).unwrap()
}

#[test]
fn lower_bounds_are_in_and_upper_bounds_out() {
    let list = vec![
        (vec![bound(10)], vec![bound(20)], 1),
        (vec![Bound::Min], vec![bound(0)], 0),
        (vec![bound(100)], vec![Bound::Max], 2),
    ];
    let mut router = ranges(&[KeyKind::Integer], list, None);
    for (value, partition) in [
        (i64::MIN, Some(0)),
        (-1, Some(0)),
        (0, None),
        (9, None),
        (10, Some(1)),
        (19, Some(1)),
        (20, None),
        (99, None),
        (100, Some(2)),
        (i64::MAX, Some(2)),
    ] {
        assert_eq!(router.partition_of(&keyed(&[Some(int8(value))])), partition, "{value}");
    }
    assert_eq!(router.partition_of(&keyed(&[None])), None);
}

#[test]
fn what_fits_nowhere_and_null_go_to_the_default() {
    let mut router = ranges(&[KeyKind::Integer], vec![(vec![bound(0)], vec![bound(5)], 3)], Some(7));
    assert_eq!(router.partition_of(&keyed(&[Some(int8(4))])), Some(3));
    assert_eq!(router.partition_of(&keyed(&[Some(int8(5))])), Some(7));
    assert_eq!(router.partition_of(&keyed(&[None])), Some(7));
}

#[test]
fn integers_of_every_width_compare_with_each_other() {
    let mut router = ranges(
        &[KeyKind::Integer],
        vec![(vec![Bound::Value(Hex(vec![0xff, 0xff]))], vec![Bound::Value(Hex(vec![0, 5]))], 0)],
        None,
    );
    for (bytes, inside) in
        [(vec![0xff, 0xfe], false), (vec![0xff; 4], true), (vec![0, 0, 0, 4], true), (vec![0, 0, 0, 5], false)]
    {
        assert_eq!(router.partition_of(&keyed(&[Some(bytes.clone())])).is_some(), inside, "{bytes:?}");
    }
}

#[test]
fn lists_know_null() {
    let text = |text: &str| Some(Hex(text.as_bytes().to_vec()));
    let values = vec![(text("b"), 0), (text("a"), 1), (None, 2), (text("c "), 1)];
    for (kind, padded) in [(KeyKind::Bytes, None), (KeyKind::Padded, Some(1))] {
        let bounds = Bounds::List { values: values.clone(), default: None };
        let mut router = Router::new(&RoutePlan { key: key(&[kind]), bounds }).unwrap();
        for (value, partition) in [("a", Some(1)), ("b", Some(0)), ("c", padded), ("", None), ("ab", None)] {
            let found = router.partition_of(&keyed(&[Some(value.as_bytes().to_vec())]));
            assert_eq!(found, partition, "{value} {kind:?}");
        }
        assert_eq!(router.partition_of(&keyed(&[None])), Some(2));
    }
}

#[test]
fn floats_are_ordered_as_the_server_orders_them() {
    let sorted = [f64::NEG_INFINITY, -1.5, -0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
    for (i, one) in sorted.iter().enumerate() {
        for (j, other) in sorted.iter().enumerate() {
            let found = KeyKind::Float.compare(&one.to_be_bytes(), &other.to_be_bytes());
            assert_eq!(found, i.cmp(&j), "{one} {other}");
        }
    }
    assert_eq!(KeyKind::Float.compare(&(-0.0_f64).to_be_bytes(), &0.0_f64.to_be_bytes()), Ordering::Equal);
    assert_eq!(KeyKind::Float.compare(&2.5_f32.to_be_bytes(), &2.5_f64.to_be_bytes()), Ordering::Equal);
}

/// As the encoder writes it.
fn numeric(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    crate::value::numeric::encode_binary(text.as_bytes(), None, crate::value::ServerVersion::NEWEST, &mut out).unwrap();
    out
}

#[test]
fn numerics_are_ordered_by_value() {
    let sorted = [
        "-Infinity",
        "-12345678901234567890",
        "-10000",
        "-9999.5",
        "-1",
        "-0.0001",
        "0",
        "0.00000001",
        "0.1",
        "1",
        "1.5",
        "9999",
        "9999.9999",
        "10000",
        "10000.0001",
        "123456789",
        "1e30",
        "Infinity",
        "NaN",
    ];
    for (i, one) in sorted.iter().enumerate() {
        for (j, other) in sorted.iter().enumerate() {
            assert_eq!(KeyKind::Numeric.compare(&numeric(one), &numeric(other)), i.cmp(&j), "{one} {other}");
        }
    }
    for (one, other) in [("1.50", "1.5"), ("-0", "0"), ("0.000", "0"), ("100", "1e2")] {
        assert_eq!(KeyKind::Numeric.compare(&numeric(one), &numeric(other)), Ordering::Equal, "{one} {other}");
    }
}

#[test]
fn hashes_are_the_servers() {
    // SELECT hashint8extended(x, seed), hashtextextended(y, seed) with HASH_PARTITION_SEED, PostgreSQL 18.
    for (value, hash) in HASHED_INTEGERS {
        assert_eq!(hash::of_int8(value) as i64, hash, "{value}");
    }
    for (text, hash) in HASHED_TEXTS {
        assert_eq!(hash::of_bytes(text.as_bytes()) as i64, hash, "{text}");
    }
    assert_eq!(hash::of_int4(-7), hash::of_int8(-7));
}

#[test]
fn bounds_that_are_no_values_are_refused() {
    let plan = |kind, low: Vec<Bound>| RoutePlan {
        key: key(&[kind]),
        bounds: Bounds::Range { ranges: vec![(low, vec![Bound::Max], 0)], default: None },
    };
    assert!(Router::new(&plan(KeyKind::Integer, vec![Bound::Value(Hex(vec![1, 2, 3]))])).is_err());
    assert!(Router::new(&plan(KeyKind::Numeric, vec![Bound::Value(Hex(vec![0, 1]))])).is_err());
    assert!(Router::new(&plan(KeyKind::Integer, vec![])).is_err());
    assert!(Hex::try_from("0g".to_owned()).is_err() && Hex::try_from("0".to_owned()).is_err());
}

/// The partition whose range holds the key, by trying them all.
fn slow(key: &[KeyColumn], ranges: &[(Vec<Bound>, Vec<Bound>, usize)], values: &[Vec<u8>]) -> Option<usize> {
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let holds = |(low, high, _): &&(Vec<Bound>, Vec<Bound>, usize)| {
        compare(key, low, &values) != Ordering::Greater && compare(key, high, &values) == Ordering::Greater
    };
    ranges.iter().find(holds).map(|(_, _, partition)| *partition)
}

proptest! {
    #[test]
    fn one_column_as_the_slow_reference(mut cuts in prop::collection::vec(-40_i64..40, 1..12), values in prop::collection::vec(-45_i64..45, 1..60), gap in 0_usize..12) {
        cuts.sort_unstable();
        cuts.dedup();
        let mut edges = vec![Bound::Min];
        edges.extend(cuts.iter().map(|&cut| bound(cut)));
        edges.push(Bound::Max);
        let mut list: Vec<_> = edges.windows(2).enumerate().map(|(n, pair)| (vec![pair[0].clone()], vec![pair[1].clone()], n)).collect();
        if gap < list.len() {
            list.remove(gap);
        }
        list.reverse();
        let columns = key(&[KeyKind::Integer]);
        let mut router = ranges(&[KeyKind::Integer], list.clone(), None);
        for value in values {
            let found = router.partition_of(&keyed(&[Some(int8(value))]));
            prop_assert_eq!(found, slow(&columns, &list, &[int8(value)]), "{}", value);
        }
    }

    #[test]
    fn two_columns_as_the_slow_reference(mut cuts in prop::collection::vec((0_i64..6, prop::option::of(0_i64..6)), 1..10), values in prop::collection::vec((-1_i64..7, -1_i64..7), 1..60)) {
        cuts.sort_unstable();
        cuts.dedup();
        let edge = |&(one, other): &(i64, Option<i64>)| vec![bound(one), other.map_or(Bound::Min, bound)];
        let list: Vec<_> = cuts.windows(2).enumerate().map(|(n, pair)| (edge(&pair[0]), edge(&pair[1]), n)).collect();
        let kinds = [KeyKind::Integer, KeyKind::Integer];
        let mut router = ranges(&kinds, list.clone(), Some(99));
        for (one, other) in values {
            let found = router.partition_of(&keyed(&[Some(int8(one)), Some(int8(other))]));
            let expected = slow(&key(&kinds), &list, &[int8(one), int8(other)]).or(Some(99));
            prop_assert_eq!(found, expected);
        }
    }
}

const HASHED_INTEGERS: [(i64, i64); 11] = [
    (0, -4403592609991167795),
    (1, 5968994663651403477),
    (-1, -5017072347659237694),
    (-7, -7298374200968567817),
    (42, 7363975540656877951),
    (250000000, -873927389510915490),
    (2147483648, 4938542303000433043),
    (-2147483649, -6050265599104649060),
    (4611686018427387904, -6932884327702804293),
    (i64::MIN, -6050265599104649060),
    (9223372036854775807, 4938542303000433043),
];
const HASHED_TEXTS: [(&str, i64); 11] = [
    ("", -5700645584453517373),
    ("a", -6705225459120232837),
    ("abc", 3628778498291917250),
    ("abcd", 4029384952263848046),
    ("abcdefgh", -7754745184861941070),
    ("abcdefghi", -7860738947571725408),
    ("abcdefghijk", -2046435308545367432),
    ("abcdefghijkl", -7876791541613377658),
    ("abcdefghijklm", -6785754114725280077),
    ("twenty-four characters! and more", -5841401371564637530),
    ("é", 4377877661621198540),
];
