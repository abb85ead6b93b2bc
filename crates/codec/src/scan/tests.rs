//! The scanner against the slow reader of `reference.rs`, at every offset that matters to blocks of 64 bytes.

use super::reference::{any_dialect, dialects, noise, read, records};
use super::*;
use crate::dialect::Family;
use proptest::prelude::*;

/// Compares everything that a scan gives with what the reference reads.
fn compare(window: &[u8], dialect: &Dialect, fields: usize) -> Result<(), TestCaseError> {
    let expected = read(window, dialect, fields);
    let mut scanner = Scanner::new(dialect.clone(), fields);
    let found = scanner.scan(window);
    prop_assert_eq!(found.rows(), expected.records.len(), "rows");
    prop_assert_eq!(found.consumed, expected.consumed, "consumed");
    prop_assert_eq!(found.irregular, expected.irregular, "irregular");
    for (row, record) in expected.records.iter().enumerate() {
        prop_assert_eq!(found.start(row), expected.starts[row]);
        for (column, (bytes, marked)) in record.iter().enumerate() {
            let field = found.field(row, column);
            prop_assert_eq!((field.bytes, field.marked), (&bytes[..], *marked), "row {} column {}", row, column);
            prop_assert!(found.any_marked || !field.marked);
        }
    }
    prop_assert_eq!(found.start(found.rows()), expected.consumed);
    prop_assert_eq!(found.bytes(), &window[..expected.consumed]);
    // The same records where any of their fields are left out.
    for kept in 1..(1_usize << fields) - 1 {
        let (taken, left_out): (Vec<_>, Vec<_>) = (0..fields).partition(|field| kept >> field & 1 == 1);
        let mut scanner = Scanner::new(Dialect { left_out, ..dialect.clone() }, taken.len());
        let found = scanner.scan(window);
        prop_assert_eq!((found.rows(), found.consumed), (expected.records.len(), expected.consumed));
        prop_assert_eq!(found.irregular, expected.irregular, "irregular, of {:?}", &taken);
        for (row, record) in expected.records.iter().enumerate() {
            for (column, &place) in taken.iter().enumerate() {
                let (bytes, marked) = &record[place];
                for field in [found.field(row, column), found.column::<false>(column).field(row)] {
                    prop_assert_eq!((field.bytes, field.marked), (&bytes[..], *marked), "row {} of {:?}", row, &taken);
                }
            }
        }
    }
    Ok(())
}

/// The same list and the same findings with and without special instructions.
fn compare_instructions(window: &[u8], dialect: &Dialect) -> Result<(), TestCaseError> {
    let mut chosen = vec![7; 3];
    let found = flatten::flatten(window, dialect, &mut chosen);
    let mut outcome = Ok(());
    flatten::flatten_by_each(window, dialect, |other, places| {
        outcome = std::mem::replace(&mut outcome, Ok(())).and_then(|()| {
            prop_assert_eq!(found, other);
            prop_assert_eq!(&chosen[..], places);
            Ok(())
        });
    });
    outcome
}

fn check(window: &[u8], dialect: &Dialect, fields: usize) {
    let outcome = compare(window, dialect, fields).and_then(|()| compare_instructions(window, dialect));
    if let Err(error) = outcome {
        panic!("{:?} with {fields} fields as {dialect:?}: {error}", String::from_utf8_lossy(window));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn noise_is_read_as_the_reference_reads_it(
        (dialect, window) in any_dialect().prop_flat_map(|dialect| (Just(dialect.clone()), noise(&dialect, 200))),
        fields in 1_usize..4,
    ) {
        compare(&window, &dialect, fields)?;
        compare_instructions(&window, &dialect)?;
    }

    #[test]
    fn records_are_read_as_the_reference_reads_them(
        (dialect, window, fields) in (any_dialect(), 1_usize..5).prop_flat_map(|(dialect, fields)| {
            (Just(dialect.clone()), records(&dialect, fields, 12), Just(fields))
        }),
        cut in 0_usize..300,
        spoilt in proptest::option::weighted(0.3, (0_usize..300, proptest::sample::select(&b"\r\n\"\\,|a\t."[..]))),
    ) {
        let mut window = window;
        if let Some((position, byte)) = spoilt && position < window.len() {
            window[position] = byte;
        }
        // Whole, and cut off anywhere.
        compare(&window, &dialect, fields)?;
        window.truncate(window.len().saturating_sub(cut));
        compare(&window, &dialect, fields)?;
        compare_instructions(&window, &dialect)?;
    }
}

/// Whatever stands at the border of two blocks: the byte before it is carried over.
#[test]
fn every_sequence_at_every_offset() {
    let mut sequences: Vec<Vec<u8>> = [
        "\"\",", "\"\"", "\"", "\"\n\"", "\"\r\n\"", "\"\"\"\"", "\r\n", "\n\r", "\r", "\n", "\r\r\n", "\\\n",
        "\\\r\n", "\\\r", "\\\\", "\\\\\n", "\\,", "\\|", "\\\"", "\"\\\"", "\"\\\\\"", "\"a\\", "\\.", "\n\\.\n", "é",
        "\\é", "𝄞", "\"é\"", "|\n", "|\r\n", "|", "||", ",", ",,", "\t", "\r\"\"", "\ra\"\"", "\r\\a", "\ra\\a",
    ]
    .map(Into::into)
    .into();
    sequences.push(vec![0xff, 0, b'\n']);
    for dialect in dialects() {
        let end = dialect.line_end.bytes();
        for sequence in &sequences {
            for offset in 0..=130 {
                // As one long field, and as the last of many records.
                let mut long = vec![b'a'; offset];
                long.extend(sequence);
                check(&long, &dialect, 1);
                long.extend(b"b");
                long.extend(end);
                check(&long, &dialect, 1);
                let mut short = vec![dialect.delimiter; usize::from(dialect.trailing_delimiter)];
                short.extend(end);
                let mut many = vec![b'a'; offset % short.len()];
                for _ in 0..offset / short.len() {
                    many.extend(&short);
                }
                many.extend(sequence);
                many.extend(end);
                check(&many, &dialect, 1);
                check(&many, &dialect, 2);
            }
        }
    }
}

/// A field in quotes over one, two and three block borders.
#[test]
fn quotes_around_every_length() {
    for dialect in dialects().into_iter().filter(|dialect| dialect.family == Family::Csv) {
        for length in 0..=200 {
            for filler in [dialect.delimiter, b'\n', b'\r', b'a'] {
                let mut window = vec![dialect.quote];
                window.resize(1 + length, filler);
                window.push(dialect.quote);
                if dialect.trailing_delimiter {
                    window.push(dialect.delimiter);
                }
                window.extend(dialect.line_end.bytes());
                window.extend_from_within(..);
                check(&window, &dialect, 1);
                let mut scanner = Scanner::new(dialect.clone(), 1);
                assert_eq!(scanner.scan(&window).rows(), 2);
            }
        }
    }
}

#[test]
fn no_bytes_are_no_records() {
    for dialect in dialects() {
        let mut scanner = Scanner::new(dialect, 3);
        let records = scanner.scan(b"");
        assert_eq!((records.rows(), records.consumed, records.irregular), (0, 0, None));
        assert_eq!(records.bytes(), b"");
    }
}

#[test]
fn one_empty_line_is_one_empty_field() {
    for dialect in dialects().into_iter().filter(|dialect| !dialect.trailing_delimiter) {
        let mut scanner = Scanner::new(dialect.clone(), 1);
        let records = scanner.scan(dialect.line_end.bytes());
        assert_eq!(records.rows(), 1);
        assert_eq!(records.field(0, 0).bytes, b"");
    }
}

#[test]
fn skipping_and_truncating_keep_the_other_records() {
    let mut scanner = Scanner::new(Dialect::csv(), 2);
    let mut records = scanner.scan(b"a,b\nc,d\ne,f\ng\n");
    let rest = records.skip(1);
    assert_eq!((rest.rows(), rest.field(0, 1).bytes, rest.start(0)), (2, &b"d"[..], 4));
    assert_eq!(rest.bytes(), b"c,d\ne,f\n");
    assert_eq!(
        rest.irregular,
        Some(IrregularRecord { start: 12, end: 14, what: Irregularity::MissingFields { found: 1 }, complete: true })
    );
    records.truncate(1);
    assert_eq!((records.rows(), records.consumed, records.irregular, records.bytes()), (1, 4, None, &b"a,b\n"[..]));
}

proptest! {
    /// Going on behind an irregular record finds what scanning the rest of the window anew finds.
    #[test]
    fn the_rest_behind_an_irregular_record_is_what_a_new_scan_finds(
        (dialect, window) in any_dialect().prop_flat_map(|dialect| (Just(dialect.clone()), noise(&dialect, 200))),
        fields in 1_usize..4,
    ) {
        let mut scanner = Scanner::new(dialect.clone(), fields);
        let mut other = Scanner::new(dialect, fields);
        let mut records = scanner.scan(&window);
        while let Some(rest) = records.rest() {
            let begin = records.irregular.expect("there is a rest behind it").end;
            let anew = other.scan(&window[begin..]);
            prop_assert_eq!(rest.rows(), anew.rows());
            prop_assert_eq!(rest.consumed, begin + anew.consumed);
            let moved = anew.irregular.map(|it| IrregularRecord { start: it.start + begin, end: it.end + begin, ..it });
            prop_assert_eq!(rest.irregular, moved);
            for row in 0..rest.rows() {
                prop_assert_eq!(rest.start(row), begin + anew.start(row));
                for field in 0..fields {
                    let (one, two) = (rest.field(row, field), anew.field(row, field));
                    prop_assert_eq!((one.bytes, one.marked), (two.bytes, two.marked));
                }
            }
            records = rest;
        }
    }
}

#[test]
fn an_end_marker_is_data_in_csv_and_no_data_in_text() {
    let mut scanner = Scanner::new(Dialect::csv(), 1);
    assert_eq!(scanner.scan(b"a\n\\.\nb\n").rows(), 3);
    let mut scanner = Scanner::new(Dialect::text(), 1);
    for (window, start, end) in [(&b"a\n\\.\nb\n"[..], 2, 5), (b"x\na\\.b\n", 2, 7), (b"\\.", 0, 1)] {
        let irregular = scanner.scan(window).irregular;
        let complete = window.ends_with(b"\n");
        let expected = IrregularRecord { start, end, what: Irregularity::EndMarker, complete };
        assert_eq!(irregular, Some(expected), "{window:?}");
    }
    assert_eq!(scanner.scan(b"\\\\.\n").rows(), 1);
}
