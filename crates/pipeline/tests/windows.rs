//! Reading in windows of any size gives the records of the whole, and places in a file are told as they are counted.

mod files;

use files::{Files, Record, any_files, read};
use proptest::prelude::*;
use tipple_codec::dialect::{Dialect, LineEnd};
use tipple_codec::scan::Scanner;
use tipple_pipeline::error::{Error, Result};
use tipple_pipeline::plan::{CutPlan, Piece};
use tipple_pipeline::source::SourceFile;
use tipple_pipeline::source::cut::cut;
use tipple_pipeline::source::locate::{bad_record, record_after, record_number, too_long};
use tipple_pipeline::source::window::{WindowReader, Windows};

/// Reads pieces window by window as a stream does; also gives how many source bytes it was told of. No more than
/// `first_reach` bytes of a window are looked at, but where they have no whole record.
fn read_windows(
    files: &Files,
    pieces: &[Piece],
    dialect: &Dialect,
    fields: usize,
    window_bytes: usize,
    max_record_bytes: usize,
    first_reach: usize,
) -> Result<(Vec<Record>, u64)> {
    let (mut records, mut source_bytes) = (Vec::new(), 0);
    let mut buffer = b"left over from another piece".to_vec();
    for &piece in pieces {
        let source = SourceFile::open(&files.sources[piece.source])?;
        let mut scanner = Scanner::new(dialect.clone(), fields);
        let mut reader = WindowReader::new(&source, piece, &mut buffer, window_bytes, max_record_bytes, dialect);
        let (mut reach, mut enough) = (first_reach, first_reach);
        while let Some(window) = reader.fill(enough)? {
            if window.overlong {
                let complaint = too_long(window.bytes, max_record_bytes);
                return Err(bad_record(source.planned(), (window.offset, None), dialect, false, complaint));
            }
            let is_all = reach >= window.bytes.len();
            let found = scanner.scan(&window.bytes[..reach.min(window.bytes.len())]);
            assert_eq!(found.irregular, None, "in {:?}", window.bytes);
            assert!(!(window.last && is_all && found.rows() == 0), "no record ends in {:?}", window.bytes);
            for row in 0..found.rows() {
                let bytes = &window.bytes[found.start(row)..found.start(row + 1)];
                let bytes = bytes.strip_suffix(dialect.line_end.bytes()).expect("a record end");
                records.push((window.offset + found.start(row) as u64, bytes.to_vec()));
            }
            let consumed = found.consumed;
            source_bytes += consumed.min(window.source_bytes) as u64;
            reach = if consumed > 0 { first_reach } else { reach.saturating_mul(2) };
            if consumed == 0 && !is_all {
                enough = window.bytes.len();
                continue;
            }
            enough = reach;
            reader.consume(consumed);
        }
    }
    Ok((records, source_bytes))
}

fn all_of(file: &[u8]) -> Vec<Piece> {
    vec![Piece { source: 0, offset: 0, length: file.len() as u64 }]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_window_size((dialect, contents) in any_files(1, 10), header: bool, slice_bytes in 1_u64..200) {
        let files = Files::new(&contents);
        let plan = CutPlan { header, ..files.cut_plan(&dialect, slice_bytes) };
        let slices = cut(&plan).map_err(|error| TestCaseError::fail(error.to_string()))?.slices;
        let pieces: Vec<Piece> = slices.iter().flat_map(|slice| slice.pieces.clone()).collect();
        let (expected, _) = read(&contents[0], &dialect, header);
        let bytes: u64 = pieces.iter().map(|piece| piece.length).sum();
        for window_bytes in 1..=contents[0].len() + 2 {
            let (records, source_bytes) = read_windows(&files, &pieces, &dialect, 2, window_bytes, 1 << 20, usize::MAX)
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(&records, &expected, "windows of {} bytes", window_bytes);
            prop_assert_eq!(source_bytes, bytes);
            for reach in [1, 7, window_bytes] {
                let read = read_windows(&files, &pieces, &dialect, 2, window_bytes, 1 << 20, reach);
                let (records, source_bytes) = read.map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(&records, &expected, "windows of {} bytes, {} at a time", window_bytes, reach);
                prop_assert_eq!(source_bytes, bytes);
            }
        }
        // Every record is counted and found again.
        for (index, (offset, bytes)) in expected.iter().enumerate() {
            let number = record_number(&files.sources[0], *offset, &dialect, header).expect("readable");
            prop_assert_eq!(number, index as u64 + 1);
            let first = expected[0].0;
            let (start, found) = record_after(&files.sources[0], first, index as u64, &dialect).expect("readable");
            prop_assert_eq!(start, *offset);
            // Only the last record of a file may be without a record end.
            let ended = [&bytes[..], dialect.line_end.bytes()].concat();
            prop_assert!(found == ended || (index + 1 == expected.len() && found == *bytes), "{:?}", found);
        }
    }
}

/// The end of a file, window size by window size: what COPY makes of it.
#[test]
fn the_last_record_of_a_file() {
    let crlf = |dialect: Dialect| Dialect { line_end: LineEnd::Crlf, ..dialect };
    let csv = Dialect::csv;
    let text = Dialect::text;
    type Case<'c> = (&'c [u8], Dialect, &'c [&'c [u8]]);
    let cases: [Case<'_>; 16] = [
        (b"a", csv(), &[b"a"]),
        (b"a\nb", csv(), &[b"a", b"b"]),
        (b"\n", csv(), &[b""]),
        (b"\n\n", csv(), &[b"", b""]),
        (b"a\r\nb", crlf(csv()), &[b"a", b"b"]),
        (b"\r\n", crlf(csv()), &[b""]),
        (b"a\n\"b\n\"", csv(), &[b"a", b"\"b\n\""]),
        (b"a\\", csv(), &[b"a\\"]),
        (b"a\\", text(), &[b"a"]),
        (b"a\n\\", text(), &[b"a", b""]),
        (b"a\\\\", text(), &[b"a\\\\"]),
        (b"a\\\n", text(), &[b"a\\\n"]),
        (b"a\\\\\n", text(), &[b"a\\\\"]),
        (b"x\r\na\\", crlf(text()), &[b"x", b"a"]),
        (b"x\r\na\\\n", crlf(text()), &[b"x", b"a\\\n"]),
        (b"x\r\na\\\r", crlf(text()), &[b"x", b"a\\\r"]),
    ];
    for (file, dialect, expected) in cases {
        let files = Files::new(&[file]);
        for window_bytes in 1..=file.len() + 3 {
            let (records, source_bytes) =
                read_windows(&files, &all_of(file), &dialect, 1, window_bytes, 1 << 20, usize::MAX).expect("readable");
            let records: Vec<&[u8]> = records.iter().map(|(_, bytes)| &bytes[..]).collect();
            assert_eq!(records, expected, "{file:?} in windows of {window_bytes}");
            assert_eq!(source_bytes, file.len() as u64, "{file:?} in windows of {window_bytes}");
        }
    }
}

#[test]
fn records_longer_than_a_window() {
    let file = format!("a\n{}\nb\n\"{}\"\nc\n", "x".repeat(1000), "\n".repeat(3000)).into_bytes();
    let files = Files::new(std::slice::from_ref(&file));
    let (expected, _) = read(&file, &Dialect::csv(), false);
    for window_bytes in [1, 2, 63, 64, 65, 999, 1000, 1001, 1003, 3000, 5000] {
        // A limit that the longest record just keeps.
        for reach in [1, 100, 2000, usize::MAX] {
            let read = read_windows(&files, &all_of(&file), &Dialect::csv(), 1, window_bytes, 3003, reach);
            assert_eq!(read.expect("readable").0, expected, "windows of {window_bytes}, {reach} at a time");
        }
    }
    for (window_bytes, reach) in [(1, usize::MAX), (64, usize::MAX), (300, usize::MAX), (64, 1), (2000, 100)] {
        let error = read_windows(&files, &all_of(&file), &Dialect::csv(), 1, window_bytes, 1000, reach);
        let error = error.expect_err("too long");
        let Error::BadRecord(record) = error else { panic!("{error:?}") };
        let place = (record.record_number, record.byte_offset);
        assert!([(2, Some(2)), (4, Some(1005))].contains(&place), "{place:?}");
    }
}

#[test]
fn what_follows_a_record_that_is_too_long_is_found() {
    let long = format!("\"{}\"\n", "\n\"\"".repeat(500));
    for end in [&b"c\n"[..], b"c", b""] {
        let file = [b"a\n", long.as_bytes(), b"b\n", long.as_bytes(), end].concat();
        let files = Files::new(std::slice::from_ref(&file));
        let source = SourceFile::open(&files.sources[0]).expect("as planned");
        let dialect = Dialect::csv();
        for window_bytes in [1, 7, 64, 1000] {
            let mut buffer = Vec::new();
            let mut reader = WindowReader::new(&source, all_of(&file)[0], &mut buffer, window_bytes, 200, &dialect);
            let mut found = Vec::new();
            while let Some(window) = reader.fill(usize::MAX).expect("readable") {
                let begin = window.offset as usize;
                assert_eq!(&window.bytes[..window.source_bytes], &file[begin..begin + window.source_bytes]);
                if window.overlong {
                    found.push((window.offset, None));
                    let left_out = reader.leave_out(&mut || Ok(())).expect("readable").bytes;
                    assert_eq!(left_out, long.len() as u64);
                    continue;
                }
                let mut scanner = Scanner::new(dialect.clone(), 1);
                let records = scanner.scan(window.bytes);
                for row in 0..records.rows() {
                    found.push((window.offset + records.start(row) as u64, Some(records.field(row, 0).bytes.to_vec())));
                }
                let consumed = records.consumed;
                reader.consume(consumed);
            }
            let second = 4 + long.len() as u64;
            let mut expected =
                vec![(0, Some(b"a".to_vec())), (2, None), (second - 2, Some(b"b".to_vec())), (second, None)];
            if !end.is_empty() {
                expected.push((second + long.len() as u64, Some(b"c".to_vec())));
            }
            assert_eq!(found, expected, "windows of {window_bytes}");
        }
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read() {
    let file = b"aaaa\n".repeat(100);
    let files = Files::new(std::slice::from_ref(&file));
    let source = SourceFile::open(&files.sources[0]).expect("as planned");
    let (dialect, mut buffer) = (Dialect::csv(), Vec::new());
    let mut reader = WindowReader::new(&source, all_of(&file)[0], &mut buffer, 50, 1 << 20, &dialect);
    assert_eq!(reader.fill(usize::MAX).expect("readable").map(|window| window.bytes.len()), Some(50));
    reader.consume(50);
    std::fs::write(&files.sources[0].path, b"aaaa\n").expect("shrinking it");
    assert!(matches!(reader.fill(usize::MAX), Err(Error::SourceChanged { .. })));
    assert!(matches!(source.check_unchanged(), Err(Error::SourceChanged { .. })));
}

/// Records across the borders of the buffers that counting reads with.
#[test]
fn records_are_counted_in_large_files() {
    for length in (1 << 20) - 4..(1 << 20) + 4 {
        for (dialect, record) in [
            (Dialect::csv(), &b"\"\"\"\n\""[..]),
            (Dialect { escape: b'\\', ..Dialect::csv() }, b"\"\\\"\n\\\\\""),
            (Dialect::text(), b"a\\\nb\\\\"),
        ] {
            let first = vec![b'a'; length];
            let file = [&first, &b"\n"[..], record, b"\nlast\n"].concat();
            let files = Files::new(&[&file]);
            let offset = (file.len() - 5) as u64;
            assert_eq!(record_number(&files.sources[0], offset, &dialect, false).expect("readable"), 3);
            assert_eq!(record_number(&files.sources[0], offset, &dialect, true).expect("readable"), 2);
            let found = record_after(&files.sources[0], 0, 2, &dialect).expect("readable");
            assert_eq!(found, (offset, b"last\n".to_vec()));
        }
    }
}
