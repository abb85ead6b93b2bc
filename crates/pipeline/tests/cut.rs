//! Slices cover their sources exactly and begin where records begin, whatever the dialect and the sizes.

mod files;

use files::{Files, any_file, any_files, dialects, planned, read};
use proptest::prelude::*;
use tipple_codec::dialect::{Dialect, Family, LineEnd};
use tipple_pipeline::error::Error;
use tipple_pipeline::plan::{CutPlan, Piece, Slice};
use tipple_pipeline::source::cut::{Cut, cut};

/// Checks the slices of `plan` against the slow reader.
fn check(files: &Files, contents: &[Vec<u8>], plan: &CutPlan) -> Result<Vec<Slice>, TestCaseError> {
    let Cut { slices, line_end, .. } = cut(plan).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(line_end, plan.dialect.line_end);
    let mut pieces: Vec<&Piece> = Vec::new();
    for (index, slice) in slices.iter().enumerate() {
        prop_assert_eq!(slice.n as usize, index);
        prop_assert!(!slice.pieces.is_empty());
        prop_assert!(
            slice.pieces.len() == 1 || slice.bytes() <= plan.slice_bytes,
            "a group of {} bytes",
            slice.bytes()
        );
        pieces.extend(&slice.pieces);
    }
    prop_assert!(pieces.is_sorted_by_key(|piece| (piece.source, piece.offset)), "in the order of the sources");
    for (source, content) in contents.iter().enumerate() {
        let (records, data_end) = read(content, &plan.dialect, plan.header);
        let of_source: Vec<_> = pieces.iter().filter(|piece| piece.source == source).collect();
        let Some((first, _)) = records.first() else {
            prop_assert!(of_source.is_empty());
            continue;
        };
        let mut position = *first;
        for piece in of_source {
            prop_assert_eq!(piece.offset, position, "source {}", source);
            prop_assert!(piece.length > 0);
            prop_assert!(records.iter().any(|(start, _)| *start == position), "{} begins no record", position);
            position += piece.length;
        }
        prop_assert_eq!(position, data_end, "all of source {}", source);
    }
    prop_assert_eq!(files.sources.len(), contents.len());
    Ok(slices)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_slice_size((dialect, contents) in any_files(1, 12), header: bool, streams in 1_usize..4) {
        let files = Files::new(&contents);
        for slice_bytes in 1..=contents[0].len() as u64 + 1 {
            let plan = CutPlan { header, streams, ..files.cut_plan(&dialect, slice_bytes) };
            let slices = check(&files, &contents, &plan)?;
            let records = read(&contents[0], &dialect, header).0;
            if slice_bytes == 1 && dialect.family != Family::Text {
                prop_assert_eq!(slices.len(), records.len(), "every record a slice");
            }
            if slice_bytes >= contents[0].len() as u64 {
                prop_assert!(slices.len() <= 1);
            }
        }
    }

    #[test]
    fn many_files((dialect, contents) in any_files(8, 4), header: bool, slice_bytes in 1_u64..200) {
        let files = Files::new(&contents);
        check(&files, &contents, &CutPlan { header, ..files.cut_plan(&dialect, slice_bytes) })?;
    }
}

/// Behind a quote that is too many, where bad records are skipped: no cut is within a text of several lines.
#[test]
fn behind_a_stray_quote() {
    let mut content = b"1,\"abc,x\n".to_vec();
    let mut begins = vec![0];
    for n in 2..2_000 {
        begins.push(content.len() as u64);
        let line =
            if n % 7 == 0 { format!("{n},\"mail:\n-{n},y\nend\",x\n") } else { format!("{n},{},x\n", "t".repeat(40)) };
        content.extend_from_slice(line.as_bytes());
    }
    let files = Files::new(&[content]);
    for slice_bytes in (100..5_000).step_by(77) {
        let plan = CutPlan { skips: true, columns: 3, ..files.cut_plan(&Dialect::csv(), slice_bytes) };
        let Cut { slices, .. } = cut(&plan).expect("slices");
        assert!(slices.len() > 3);
        for slice in &slices[1..] {
            assert!(begins.contains(&slice.pieces[0].offset), "{slice_bytes}: {}", slice.pieces[0].offset);
        }
    }
}

/// No other quote follows it, so that nothing seems to end any more: that would be one slice.
#[test]
fn behind_the_only_quote() {
    let lines: Vec<String> =
        (0..2_000).map(|n| if n == 5 { "5,\"abc\n".into() } else { format!("{n},text\n") }).collect();
    let files = Files::new(&[lines.concat()]);
    for columns in [1, 2, 3] {
        for slice_bytes in (100..5_000).step_by(77) {
            let plan = CutPlan {
                skips: true,
                columns,
                max_record_bytes: 1000,
                ..files.cut_plan(&Dialect::csv(), slice_bytes)
            };
            let Cut { slices, .. } = cut(&plan).expect("slices");
            assert_eq!(slices.len() > 2, columns == 2, "{slice_bytes}: {}", slices.len());
            let mut begins = lines.iter().scan(0, |end, line| Some(std::mem::replace(end, *end + line.len() as u64)));
            assert!(slices.iter().all(|slice| begins.any(|begin| begin == slice.pieces[0].offset)), "{slice_bytes}");
        }
    }
}

#[test]
fn small_files_are_grouped() {
    let contents: Vec<Vec<u8>> = (0..2500).map(|n| format!("{n},x\n").into_bytes()).collect();
    let files = Files::new(&contents);
    let slices = check(&files, &contents, &files.cut_plan(&Dialect::csv(), 1 << 20)).expect("sound slices");
    let pieces: Vec<usize> = slices.iter().map(|slice| slice.pieces.len()).collect();
    assert_eq!(pieces, [1024, 1024, 452]);
}

#[test]
fn a_large_file_between_small_ones_keeps_its_place() {
    let contents = [b"1,a\n".to_vec(), b"2,b\n".repeat(40), b"3,c\n".to_vec()];
    let files = Files::new(&contents);
    let slices = check(&files, &contents, &files.cut_plan(&Dialect::csv(), 50)).expect("sound slices");
    assert_eq!(slices.iter().map(|slice| slice.pieces[0].source).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 2]);
}

#[test]
fn files_without_records_have_no_slices() {
    for (content, header) in
        [(&b""[..], false), (b"", true), (b"a,b\n", true), (b"a,b", true), (b"\xef\xbb\xbf", false)]
    {
        for dialect in dialects() {
            let files = Files::new(&[content]);
            let plan = CutPlan { header, ..files.cut_plan(&dialect, 10) };
            assert_eq!(cut(&plan).expect("readable").slices, [], "{content:?} as {dialect:?}");
        }
    }
    let files = Files::new(&[b"\\.\n"]);
    assert_eq!(cut(&files.cut_plan(&Dialect::text(), 10)).expect("readable").slices, []);
}

/// A header with quoted record ends, longer than the slices.
#[test]
fn a_header_is_one_record() {
    let content = b"\xef\xbb\xbf\"a\nb\",\"c\n\"\"d\"\n1,2\n3,4\n".to_vec();
    let files = Files::new(std::slice::from_ref(&content));
    for slice_bytes in 1..30 {
        let plan = CutPlan { header: true, ..files.cut_plan(&Dialect::csv(), slice_bytes) };
        let slices = check(&files, std::slice::from_ref(&content), &plan).expect("sound slices");
        assert_eq!(slices[0].pieces[0].offset, 17);
    }
    // Quotes mean nothing in tbl, in the header neither.
    let content = b"5\"|inch|\n1|2|\n3|4|\n".to_vec();
    let files = Files::new(std::slice::from_ref(&content));
    let plan = CutPlan { header: true, ..files.cut_plan(&Dialect::tbl(), 5) };
    let slices = check(&files, &[content], &plan).expect("sound slices");
    assert_eq!(slices[0].pieces[0].offset, 9);
}

#[test]
fn an_end_marker_ends_the_data_only_alone_on_the_last_line() {
    let end = |content: &[u8]| {
        let files = Files::new(&[content]);
        let slices = cut(&files.cut_plan(&Dialect::text(), 1 << 20)).expect("readable").slices;
        slices.last().map_or(0, |slice| slice.pieces[0].offset + slice.pieces[0].length)
    };
    assert_eq!(end(b"a\n\\.\n"), 2);
    assert_eq!(end(b"a\r\n\\.\r\n"), 3);
    assert_eq!(end(b"a\r\\.\r"), 2);
    assert_eq!(end(b"a\\\\\n\\.\n"), 4);
    // Everywhere else it is left to the scanner, which refuses it.
    for content in [&b"a\n\\."[..], b"a\n\\.\nb\n", b"a\\\n\\.\n", b"a\\.\n", b"a\r\n\\.\n", b"a\n\\.x\n"] {
        assert_eq!(end(content), content.len() as u64, "{content:?}");
    }
    let mut long = vec![b'\\'; 200_000];
    long.extend(b"\n\\.\n");
    assert_eq!(end(&long), 200_001);
}

#[test]
fn files_must_agree_on_their_record_ends() {
    let files = Files::new(&[&b"a,b\n"[..], b"no end", b"", b"c,d\r\n"]);
    let error = cut(&files.cut_plan(&Dialect::csv(), 10)).expect_err("LF and CR LF");
    let message = error.to_string();
    assert!(matches!(error, Error::Invalid { .. }), "{message}");
    assert!(message.contains("3.txt ends its records with CR LF") && message.contains("0.txt with LF"), "{message}");
    // One without any, and one with others inside quotes only, do agree.
    let files = Files::new(&[&b"a,b"[..], b"\"\r\n\",\"\r\"\n", b"c,d\n"]);
    assert_eq!(cut(&files.cut_plan(&Dialect::csv(), 10)).expect("LF").line_end, LineEnd::Lf);
}

/// The first record end lies across the border of what is looked at first.
#[test]
fn a_carriage_return_at_the_end_of_the_sample() {
    for (behind, expected) in [("\nb\r\n", LineEnd::Crlf), ("b\r", LineEnd::Cr), ("", LineEnd::Cr)] {
        for length in (1 << 20) - 2..=(1 << 20) + 1 {
            let content = format!("{}\r{behind}", "a".repeat(length));
            let files = Files::new(&[content]);
            let plan = CutPlan { max_record_bytes: 1 << 24, ..files.cut_plan(&Dialect::csv(), 1 << 30) };
            assert_eq!(cut(&plan).expect("readable").line_end, expected, "{length} bytes before");
        }
    }
}

#[test]
fn a_header_without_end_is_reported() {
    let files = Files::new(&[format!("\"{}", "a\n".repeat(2 << 20))]);
    let plan = CutPlan { header: true, ..files.cut_plan(&Dialect::csv(), 1 << 20) };
    let error = cut(&plan).expect_err("an unclosed quote");
    assert!(error.to_string().contains("header is longer"), "{error}");
}

#[test]
fn a_file_that_changes_is_noticed() {
    let mut files = Files::new(&[b"a,b\n".repeat(10)]);
    let path = files.sources[0].path.clone();
    let plan = |files: &Files| files.cut_plan(&Dialect::csv(), 10);
    let changed = |files: &Files| matches!(cut(&plan(files)), Err(Error::SourceChanged { .. }));
    std::fs::write(&path, b"a,b\n").expect("shrinking it");
    assert!(changed(&files), "shorter");
    files.sources[0] = planned(&path);
    assert!(!changed(&files), "planned anew");
    files.sources[0].mtime_ns -= 1;
    assert!(changed(&files), "written to");
    std::fs::remove_file(&path).expect("removing it");
    assert!(matches!(cut(&plan(&files)), Err(Error::File { .. })), "gone");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Records across the borders of the buffers that cutting reads with.
    #[test]
    fn files_larger_than_the_buffers(
        (dialect, content) in proptest::sample::select(dialects())
            .prop_flat_map(|dialect| (Just(dialect.clone()), any_file(&dialect, 30))),
        slice_bytes in 200_000_u64..700_000,
    ) {
        // Whole records again and again: without what may stand only at the ends.
        let body = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
        let (records, _) = read(body, &dialect, false);
        let mut block: Vec<u8> = Vec::new();
        for (_, record) in &records {
            block.extend(record);
            block.extend(dialect.line_end.bytes());
        }
        let contents = [block.repeat((5 << 19) / block.len())];
        let files = Files::new(&contents);
        check(&files, &contents, &files.cut_plan(&dialect, slice_bytes))?;
    }
}
