//! Cuts and counts against the slow reader of `scan/reference.rs`, for every way to divide a source into parts.

use super::*;
use crate::dialect::LineEnd;
use crate::scan::reference::{any_dialect, dialects, noise, records, starts};
use proptest::prelude::*;

/// Divides `bytes` at `cuts`, in any order and with doubles: empty parts are parts too.
fn divide<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// The places where a record begins for sure: in a source of mixed record ends the scanner refuses what lies between.
fn well_ended(text: &[u8], dialect: &Dialect) -> bool {
    let other = match dialect.line_end {
        LineEnd::Lf => return true,
        LineEnd::Crlf | LineEnd::Cr => dialect.line_end.bytes(),
    };
    starts(text, dialect).windows(2).all(|pair| text[pair[0]..pair[1]].ends_with(other))
}

fn check_parts(text: &[u8], dialect: &Dialect, cuts: &[usize]) -> Result<(), TestCaseError> {
    let starts = starts(text, dialect);
    let whole = scan_part(text, dialect);
    prop_assert_eq!(whole.first_record(State::Outside), starts.get(1).copied(), "first record of the whole");
    let mut state = State::Outside;
    let mut counted_state = State::Outside;
    let mut records = 0;
    let mut offset = 0;
    for part in divide(text, cuts) {
        let scanned = scan_part(part, dialect);
        let expected = starts.iter().find(|&&start| start > offset && start <= offset + part.len());
        let found = scanned.first_record(state).map(|start| start + offset);
        prop_assert_eq!(found, expected.copied(), "first record of {:?} at {} in {:?}", part, offset, state);
        state = scanned.after(state);
        let (counted, after) = count_records(part, counted_state, dialect);
        records += counted as usize;
        counted_state = after;
        offset += part.len();
    }
    prop_assert_eq!(state, whole.after(State::Outside), "state behind the whole");
    prop_assert_eq!(records, starts.len() - 1, "records counted in parts");
    prop_assert!(count::agree(text, dialect.quote, dialect.line_end.last_byte()), "by all instructions");
    prop_assert_eq!(count_records(text, State::Outside, dialect).0 as usize, starts.len() - 1, "records counted");
    Ok(())
}

fn check_next_record(text: &[u8], dialect: &Dialect) -> Result<(), TestCaseError> {
    let starts = starts(text, dialect);
    for from in 1..text.len() {
        let found = next_record(&text[from..], text[from - 1], dialect).map(|start| start + from);
        if let Some(found) = found {
            prop_assert!(
                starts.contains(&found),
                "a cut at {} of {:?}, but records begin at {:?}",
                found,
                text,
                starts
            );
        }
        // A cut that was passed over has a reason: an escape before the record end, or one that began before `from`.
        let first = starts.iter().copied().find(|&start| start > from);
        if dialect.family == Family::Plain {
            prop_assert_eq!(found, first);
        } else if let Some(first) = first.filter(|&first| found != Some(first)) {
            let end = first - dialect.line_end.bytes().len();
            prop_assert!(end < from || text[end - 1] == b'\\', "no cut at {} from {} of {:?}", first, from, text);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn parts_of_noise_chain(
        (dialect, text) in any_dialect().prop_flat_map(|dialect| (Just(dialect.clone()), noise(&dialect, 40))),
        cuts in proptest::collection::vec(0_usize..1000, 0..6),
    ) {
        if well_ended(&text, &dialect) {
            check_parts(&text, &dialect, &cuts)?;
        }
    }

    #[test]
    fn parts_of_records_chain(
        (dialect, text) in any_dialect()
            .prop_flat_map(|dialect| (Just(dialect.clone()), records(&dialect, 2, 12))),
        cuts in proptest::collection::vec(0_usize..1000, 0..6),
    ) {
        check_parts(&text, &dialect, &cuts)?;
        if !needs_scan(&dialect) {
            check_next_record(&text, &dialect)?;
        }
    }

    #[test]
    fn cuts_in_noise_are_record_starts(
        (dialect, text) in any_dialect().prop_flat_map(|dialect| (Just(dialect.clone()), noise(&dialect, 25))),
    ) {
        if !needs_scan(&dialect) && well_ended(&text, &dialect) {
            check_next_record(&text, &dialect)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// 64 bytes at a time against one interesting byte after the other.
    #[test]
    fn blocks_find_what_walking_finds(
        text in proptest::collection::vec(proptest::sample::select(b"aaaaaaaaaaaaaaaaaaaaaaaaa\"\"\n".to_vec()), 0..400),
    ) {
        let dialect = Dialect::csv();
        let part = scan_part(&text, &dialect);
        for state in [State::Outside, State::Inside] {
            prop_assert_eq!(part.first_record(state), first_record(&text, state, &dialect), "in {:?}", state);
            prop_assert_eq!(part.after(state), walk(&text, state, &dialect, |_| false).0, "after {:?}", state);
        }
    }
}

/// Every division into three parts of texts in which every border matters, an escape as the last byte of a part too.
#[test]
fn every_pair_of_cuts() {
    let texts: [&[u8]; 8] = [
        b"\"a\\\"b\"\n\"\\\\\"\nc\n",
        b"\"a\"\"b\n\"\"\"\n\"\"\nc\n",
        b"\"\\a\\\\\n\\\"\n\"\\\nd\n",
        b"a\\\nb\\\\\nc\\\\\\\nd\n",
        b"\\\n\\\\\n\n\\",
        b"\"\r\n\"\r\na\r\n\r\n",
        "é\"é\n\"\né\n".as_bytes(),
        b"'\"'\n\"'\n'\n",
    ];
    for dialect in dialects() {
        for text in texts {
            if !well_ended(text, &dialect) {
                continue;
            }
            for first in 0..=text.len() {
                for second in first..=text.len() {
                    if let Err(error) = check_parts(text, &dialect, &[first, second]) {
                        panic!("{text:?} cut at {first} and {second} as {dialect:?}: {error}");
                    }
                }
            }
        }
    }
}

/// The state behind each part, where the escape is the last byte of it.
#[test]
fn an_escape_reaches_into_the_next_part() {
    let csv = Dialect { escape: b'\\', ..Dialect::csv() };
    assert_eq!(scan_part(b"\"a\\", &csv).after(State::Outside), State::Escaped);
    assert_eq!(scan_part(b"\"a\\\\", &csv).after(State::Outside), State::Inside);
    assert_eq!(scan_part(b"a\\", &csv).after(State::Outside), State::Outside);
    assert_eq!(scan_part(b"\"\n", &csv).first_record(State::Escaped), None);
    assert_eq!(scan_part(b"x\"\n", &csv).first_record(State::Escaped), Some(3));
    let text = Dialect::text();
    assert_eq!(scan_part(b"a\\", &text).after(State::Outside), State::Escaped);
    assert_eq!(scan_part(b"\\", &text).after(State::Escaped), State::Outside);
    assert_eq!(scan_part(b"\n\n", &text).first_record(State::Escaped), Some(2));
    assert_eq!(scan_part(b"", &text).after(State::Escaped), State::Escaped);
}

#[test]
fn quotes_mean_nothing_without_quoting() {
    let tbl = Dialect::tbl();
    assert_eq!(scan_part(b"5\" disk|\n6\" disk|\n", &tbl).first_record(State::Outside), Some(9));
    assert_eq!(count_records(b"5\" disk|\n6|\n", State::Outside, &tbl), (2, State::Outside));
}
