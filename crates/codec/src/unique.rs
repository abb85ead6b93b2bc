//! Which records have the same key, judged by the bytes that PostgreSQL is going to store.
//!
//! As in [`crate::route`], a record is looked at as COPY binary: two spellings of one number are one key. Values that
//! the server takes for equal have one canonical form, and a key is known by the hash of it.

use crate::route::{KeyColumn, field};
use xxhash_rust::xxh3::xxh3_128;

/// The hash of a record's key: equal for keys that the server takes for equal, and for others with a chance of 2^-128.
/// `None` where a column is NULL: such a key repeats no other one. `buffer` is for the key's canonical form.
#[must_use]
pub fn hash_key(key: &[KeyColumn], record: &[u8], buffer: &mut Vec<u8>) -> Option<u128> {
    buffer.clear();
    for column in key {
        column.kind.write_canonical(field(record, column.column)?, buffer);
    }
    Some(xxh3_128(buffer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::KeyKind;
    use crate::route::tests::record;

    fn hash_of(kinds: &[KeyKind], fields: &[Option<&[u8]>]) -> Option<u128> {
        let key: Vec<KeyColumn> = kinds.iter().enumerate().map(|(column, &kind)| KeyColumn { column, kind }).collect();
        let fields: Vec<Option<Vec<u8>>> = fields.iter().map(|field| field.map(<[u8]>::to_vec)).collect();
        hash_key(&key, &record(&fields), &mut vec![1, 2, 3])
    }

    #[test]
    fn what_the_server_takes_for_equal_is_one_key() {
        let float = |value: f64| value.to_be_bytes();
        let nan = f64::from_bits(f64::NAN.to_bits() | 1 << 63 | 5);
        for (kind, one, other) in [
            (KeyKind::Float, float(0.0).to_vec(), float(-0.0).to_vec()),
            (KeyKind::Float, float(f64::NAN).to_vec(), float(nan).to_vec()),
            (KeyKind::Padded, b"ab".to_vec(), b"ab  ".to_vec()),
            (KeyKind::Padded, b"".to_vec(), b"   ".to_vec()),
        ] {
            assert_eq!(hash_of(&[kind], &[Some(&one)]), hash_of(&[kind], &[Some(&other)]), "{one:?} {other:?}");
        }
        assert_ne!(hash_of(&[KeyKind::Bytes], &[Some(b"ab")]), hash_of(&[KeyKind::Bytes], &[Some(b"ab ")]));
        assert_ne!(hash_of(&[KeyKind::Integer], &[Some(&[0, 1])]), hash_of(&[KeyKind::Integer], &[Some(&[0, 2])]));
    }

    #[test]
    fn numbers_of_any_scale_are_one_key() {
        let numeric = |text: &str| {
            let mut out = Vec::new();
            let newest = crate::value::ServerVersion::NEWEST;
            crate::value::numeric::encode_binary(text.as_bytes(), None, newest, &mut out).unwrap();
            hash_of(&[KeyKind::Numeric], &[Some(&out)])
        };
        let equal = [vec!["1.5", "1.50", "0001.5000000"], vec!["0", "-0", "0.000"], vec!["100", "1e2", "100.0"]];
        let others = ["NaN", "Infinity", "-Infinity", "-1.5", "15", "0.15", "10000", "0.0001", "-100"];
        let sets: Vec<_> = equal.into_iter().chain(others.into_iter().map(|other| vec![other])).collect();
        for (n, one) in sets.iter().enumerate() {
            for (m, other) in sets.iter().enumerate() {
                for (one, other) in one.iter().flat_map(|one| other.iter().map(move |other| (one, other))) {
                    assert_eq!(numeric(one) == numeric(other), n == m, "{one} {other}");
                }
            }
        }
    }

    #[test]
    fn columns_do_not_run_into_each_other_and_null_is_no_key() {
        let two = [KeyKind::Bytes, KeyKind::Bytes];
        assert_ne!(hash_of(&two, &[Some(b"ab"), Some(b"c")]), hash_of(&two, &[Some(b"a"), Some(b"bc")]));
        assert_ne!(hash_of(&two, &[Some(b""), Some(b"a")]), hash_of(&two, &[Some(b"a"), Some(b"")]));
        assert_eq!(hash_of(&two, &[Some(b"a"), None]), None);
        assert!(hash_of(&two, &[Some(b""), Some(b"")]).is_some());
    }
}
