//! Blocks hold the records of their sources, whole, once and numbered, wherever blocks and reads end.

mod files;

use files::{Files, any_files, read};
use proptest::prelude::*;
use std::io::Write;
use tipple_codec::dialect::{Dialect, LineEnd};
use tipple_pipeline::error::{Error, Result};
use tipple_pipeline::plan::{Compression, Source, StreamForm};
use tipple_pipeline::source::block_text::BlockText;
use tipple_pipeline::source::block_windows::BlockWindows;
use tipple_pipeline::source::blocks::{BlockCutter, Cutting};
use tipple_pipeline::source::window::Windows;

fn cutting<'p>(sources: &'p [Source], dialect: &'p Dialect, block_bytes: usize, chunk_bytes: usize) -> Cutting<'p> {
    let max_record_bytes = 1 << 20;
    Cutting {
        sources,
        dialect,
        columns: 2,
        header: false,
        block_bytes,
        block_records: 0,
        chunk_bytes,
        max_record_bytes,
        skips: false,
        resyncs: false,
    }
}

fn blocks(how: Cutting<'_>) -> Result<Vec<BlockText>> {
    let feed: Vec<usize> = (0..how.sources.len()).collect();
    let mut cutter = BlockCutter::new(how, &feed, None);
    let mut blocks = Vec::new();
    while let Some(block) = cutter.next(Vec::new())? {
        if !block.pieces.is_empty() {
            blocks.push(block);
        }
    }
    Ok(blocks)
}

/// Source, offset, number and bytes of every record, by the windows of the blocks.
fn records(blocks: &[BlockText], how: Cutting<'_>) -> Vec<(usize, u64, u64, Vec<u8>)> {
    let mut all = Vec::new();
    for block in blocks {
        for &piece in &block.pieces {
            let mut windows = BlockWindows::new(how.dialect, piece, block, 8, how.max_record_bytes);
            let mut number = piece.first_record;
            let mut reach = 3;
            while let Some(window) = windows.fill(reach).expect("a window") {
                let seen = &window.bytes[..window.bytes.len().min(reach)];
                let length = tipple_codec::split::first_record(seen, tipple_codec::split::State::Outside, how.dialect);
                assert!(length.is_some() || !window.last || reach < window.bytes.len(), "whole records");
                reach = if length.is_some() { 3 } else { 2 * reach };
                let length = length.unwrap_or(0);
                if length > 0 {
                    let end = how.dialect.line_end.bytes();
                    let bytes = window.bytes[..length].strip_suffix(end).expect("a record end").to_vec();
                    all.push((piece.piece.source, window.offset, number, bytes));
                    number += 1;
                }
                windows.consume(length);
            }
        }
    }
    all
}

fn expected(contents: &[Vec<u8>], dialect: &Dialect, header: bool) -> Vec<(usize, u64, u64, Vec<u8>)> {
    let mut all = Vec::new();
    for (source, content) in contents.iter().enumerate() {
        for (index, (offset, bytes)) in read(content, dialect, header).0.into_iter().enumerate() {
            all.push((source, offset, index as u64 + 1, bytes));
        }
    }
    all
}

/// Whether a block is a part of one source, or some sources from beginning to end.
fn holds_whole_sources_or_one(block: &BlockText, all: &[BlockText]) -> bool {
    let of = |source| all.iter().flat_map(|block| &block.pieces).filter(move |it| it.piece.source == source).count();
    block.pieces.len() == 1 || block.pieces.iter().all(|it| of(it.piece.source) == 1)
}

fn with_form(files: &mut Files, form: &StreamForm) {
    for source in &mut files.sources {
        source.form = Some(form.clone());
    }
}

fn pack(compression: Compression, content: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Gzip => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(content).expect("memory");
            writer.finish().expect("memory")
        }
        Compression::Zstd => {
            // As the command does; without the checksum a flipped bit may pass for other text.
            let mut writer = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("memory");
            writer.include_checksum(true).expect("a parameter");
            writer.write_all(content).expect("memory");
            writer.finish().expect("memory")
        }
        Compression::Bzip2 => {
            let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            writer.write_all(content).expect("memory");
            writer.finish().expect("memory")
        }
        Compression::Xz => {
            let mut writer = liblzma::write::XzEncoder::new(Vec::new(), 1);
            writer.write_all(content).expect("memory");
            writer.finish().expect("memory")
        }
    }
}

const COMPRESSIONS: [Compression; 4] = [Compression::Gzip, Compression::Zstd, Compression::Bzip2, Compression::Xz];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_block_size((dialect, contents) in any_files(3, 6), header: bool, resyncs: bool, chunk_bytes in 1_usize..40, block_records in 0_u64..4) {
        let mut files = Files::new(&contents);
        with_form(&mut files, &StreamForm::default());
        let total: usize = contents.iter().map(Vec::len).sum();
        // A quote within a field is a stray one.
        let resyncs = resyncs && !contents.iter().any(|content| content.windows(2).any(|pair| pair == b"a\""));
        let expected = expected(&contents, &dialect, header);
        for block_bytes in (1..=total + 1).step_by(1 + total / 40) {
            let how = Cutting { header, block_records, resyncs, ..cutting(&files.sources, &dialect, block_bytes, chunk_bytes) };
            let cut = blocks(how).map_err(|error| TestCaseError::fail(error.to_string()))?;
            // An unclosed escape at the very end is dropped, as COPY does.
            let mut found = records(&cut, how);
            let mut expected = expected.clone();
            for records in [&mut found, &mut expected] {
                for (_, _, _, bytes) in records.iter_mut() {
                    while bytes.last() == Some(&b'\\') { bytes.pop(); }
                }
            }
            prop_assert_eq!(&found, &expected, "block {}", block_bytes);
            let (last, others) = cut.split_last().map_or((None, &cut[..0]), |(last, others)| (Some(last), others));
            if resyncs {
                prop_assert!(cut.iter().all(|block| holds_whole_sources_or_one(block, &cut)));
            } else if block_records == 0 {
                prop_assert!(others.iter().all(|block| block.text.len() >= block_bytes));
            } else {
                let counts = cut.iter().map(|block| records(std::slice::from_ref(block), how).len() as u64);
                prop_assert!(counts.max().unwrap_or(0) <= block_records, "at most {} records", block_records);
            }
            prop_assert!(last.is_none_or(|block| !block.text.is_empty()));
            // The same blocks, however much is read at a time.
            let other = blocks(Cutting { chunk_bytes: 0, ..how }).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let places = |blocks: &[BlockText]| -> Vec<_> { blocks.iter().map(|block| block.pieces.clone()).collect() };
            prop_assert_eq!(places(&cut), places(&other));
        }
    }

    #[test]
    fn comments_are_no_records(
        lines in proptest::collection::vec(proptest::sample::select(vec!["a,b", "#", "# \"x", "\"\n#,\",c", "x,#"]), 1..12),
        chunk_bytes in 1_usize..20,
        block_bytes in 1_usize..30,
    ) {
        let content = lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes();
        let kept = lines.iter().filter(|line| !line.starts_with('#')).map(|line| line.as_bytes().to_vec());
        let mut files = Files::new(&[content]);
        with_form(&mut files, &StreamForm { comment: Some(b'#'), ..StreamForm::default() });
        let dialect = Dialect::csv();
        let how = cutting(&files.sources, &dialect, block_bytes, chunk_bytes);
        let cut = blocks(how).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let found: Vec<Vec<u8>> = records(&cut, how).into_iter().map(|(_, _, _, bytes)| bytes).collect();
        prop_assert_eq!(found, kept.collect::<Vec<_>>());
    }
}

fn lines(rows: usize) -> Vec<u8> {
    (0..rows).map(|row| format!("{row},\"some text, {row}\"\n")).collect::<String>().into_bytes()
}

#[test]
fn packed_members_one_after_the_other() {
    let content = lines(500);
    let dialect = Dialect::csv();
    for compression in COMPRESSIONS {
        let (first, second) = content.split_at(4321);
        let packed = [pack(compression, first), pack(compression, b""), pack(compression, second)].concat();
        let mut files = Files::new(&[packed]);
        with_form(&mut files, &StreamForm { compression: Some(compression), ..StreamForm::default() });
        for chunk_bytes in [1, 7, 0] {
            let how = cutting(&files.sources, &dialect, 1000, chunk_bytes);
            let cut = blocks(how).expect("sound data");
            assert_eq!(
                records(&cut, how),
                expected(std::slice::from_ref(&content), &dialect, false),
                "{compression:?}"
            );
            assert_eq!(cut.iter().map(|block| block.file_bytes).sum::<u64>(), files.sources[0].size);
        }
    }
}

#[test]
fn packed_data_cut_short_or_damaged_are_refused() {
    let content = lines(2000);
    for compression in COMPRESSIONS {
        let packed = pack(compression, &content);
        let cuts = (1..packed.len()).step_by(packed.len() / 60 + 1);
        for length in cuts {
            let mut damaged = packed.clone();
            damaged[length] ^= 0x10;
            for bytes in [packed[..length].to_vec(), damaged] {
                let mut files = Files::new(&[&bytes]);
                with_form(&mut files, &StreamForm { compression: Some(compression), ..StreamForm::default() });
                let dialect = Dialect::csv();
                match blocks(cutting(&files.sources, &dialect, 1000, 0)) {
                    Err(Error::File { message, .. }) => {
                        assert!(message.starts_with("cannot unpack it: the "), "{message}")
                    }
                    // Some bits (a time stamp, a name) mean nothing; then all the text is there.
                    Ok(found) => {
                        let text: Vec<u8> = found.iter().flat_map(|block| block.text.clone()).collect();
                        assert!(bytes.len() == packed.len() && text == content, "{compression:?} at {length}");
                    }
                    Err(error) => panic!("{compression:?} at {length}: {error}"),
                }
            }
        }
    }
}

#[test]
fn encodings_and_byte_order_marks() {
    let text = "ä,1\n\"ö\n\",€\n";
    let utf16 = |big: bool| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    };
    let cases: Vec<(Option<&str>, Vec<u8>, u64)> = vec![
        (None, utf16(false), 0),
        (None, utf16(true), 0),
        (Some("UTF16"), utf16(true), 0),
        (None, [b"\xef\xbb\xbf", text.as_bytes()].concat(), 3),
        (Some("utf8"), text.as_bytes().to_vec(), 0),
        (Some("WIN1252"), b"\xe4,1\n\"\xf6\n\",\x80\n".to_vec(), 0),
        (Some("LATIN9"), b"\xe4,1\n\"\xf6\n\",\xa4\n".to_vec(), 0),
    ];
    let dialect = Dialect::csv();
    for (name, bytes, offset) in cases {
        let mut files = Files::new(&[bytes]);
        with_form(&mut files, &StreamForm { encoding: name.map(Into::into), ..StreamForm::default() });
        for chunk_bytes in 1..20 {
            let cut = blocks(cutting(&files.sources, &dialect, 1 << 20, chunk_bytes)).expect("sound data");
            assert_eq!(String::from_utf8_lossy(&cut[0].text), text, "{name:?}");
            assert_eq!(cut[0].pieces[0].piece.offset, offset);
        }
    }
}

#[test]
fn an_undecodable_byte_has_a_place() {
    let content = b"h\na\xe4,1\n\"x\ny\",2\nb\x81\n".to_vec();
    let mut files = Files::new(&[content]);
    with_form(&mut files, &StreamForm { encoding: Some("WIN1252".into()), ..StreamForm::default() });
    let dialect = Dialect::csv();
    for chunk_bytes in 1..25 {
        for block_bytes in 1..25 {
            let how = Cutting { header: true, ..cutting(&files.sources, &dialect, block_bytes, chunk_bytes) };
            match blocks(how) {
                Err(Error::BadRecord(record)) => {
                    assert_eq!(
                        (record.record_number, record.byte_offset, record.text.as_deref()),
                        (3, Some(16), Some("b"))
                    );
                    assert!(record.reason.contains("offset 16 "), "{}", record.reason);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn an_endless_record_is_refused_before_it_fills_the_memory() {
    let content = [b"a,b\nc,\"".to_vec(), vec![b'x'; 300_000]].concat();
    let mut files = Files::new(&[content]);
    with_form(&mut files, &StreamForm::default());
    let dialect = Dialect { line_end: LineEnd::Lf, ..Dialect::csv() };
    let how = Cutting { max_record_bytes: 10_000, ..cutting(&files.sources, &dialect, 1000, 4096) };
    match blocks(how) {
        Err(Error::BadRecord(record)) => {
            assert_eq!((record.record_number, record.byte_offset), (2, Some(4)));
            assert!(record.reason.contains("longer than 10000 bytes"), "{}", record.reason);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_follows_a_record_that_is_too_long_is_found() {
    let long = format!("\"{}\"\n", "\n\"\"".repeat(5_000));
    for end in [&b"c\n"[..], b"c", b""] {
        let mut files = Files::new(&[[b"a\n", long.as_bytes(), b"b\n", long.as_bytes(), end].concat()]);
        with_form(&mut files, &StreamForm::default());
        let dialect = Dialect { line_end: LineEnd::Lf, ..Dialect::csv() };
        for (block_bytes, chunk_bytes) in [(1, 1000), (100, 7), (1000, 4096), (1000, 1 << 20), (1 << 20, 64)] {
            let how = Cutting {
                max_record_bytes: 300,
                skips: true,
                ..cutting(&files.sources, &dialect, block_bytes, chunk_bytes)
            };
            let blocks = blocks(how).expect("sound data");
            let mut found = Vec::new();
            for block in &blocks {
                assert!(block_bytes > 1000 || block.text.len() < 300 + block_bytes + 2 * chunk_bytes.max(300));
                for &piece in &block.pieces {
                    let mut windows = BlockWindows::new(&dialect, piece, block, 8, 300);
                    let mut number = piece.first_record;
                    let mut reach = 3;
                    while let Some(window) = windows.fill(reach).expect("a window") {
                        let length = tipple_codec::split::first_record(
                            &window.bytes[..window.bytes.len().min(reach)],
                            tipple_codec::split::State::Outside,
                            &dialect,
                        );
                        reach = if length.is_some() || window.overlong { 3 } else { 2 * reach };
                        if window.overlong {
                            found.push((window.offset, number, None));
                            number += 1;
                            windows.leave_out(&mut || Ok(())).expect("in memory");
                        } else if let Some(length) = length {
                            found.push((window.offset, number, Some(window.bytes[..length].to_vec())));
                            number += 1;
                            windows.consume(length);
                        } else {
                            windows.consume(0);
                        }
                    }
                }
            }
            let second = 4 + long.len() as u64;
            let mut expected = vec![
                (0, 1, Some(b"a\n".to_vec())),
                (2, 2, None),
                (second - 2, 3, Some(b"b\n".to_vec())),
                (second, 4, None),
            ];
            if !end.is_empty() {
                expected.push((second + long.len() as u64, 5, Some(b"c\n".to_vec())));
            }
            assert_eq!(found, expected, "blocks of {block_bytes}, reading {chunk_bytes}");
        }
    }
}

#[test]
fn lines_to_skip_come_before_the_header() {
    let mut files = Files::new(&[b"made by \"x\n\nh1,h2\n1,2\n"]);
    with_form(&mut files, &StreamForm { skip_lines: 2, ..StreamForm::default() });
    let dialect = Dialect::csv();
    for chunk_bytes in 1..20 {
        let how = Cutting { header: true, ..cutting(&files.sources, &dialect, 100, chunk_bytes) };
        let cut = blocks(how).expect("sound data");
        assert_eq!((cut.len(), &cut[0].text[..]), (1, &b"1,2\n"[..]));
    }
}

#[test]
fn a_file_of_nothing_but_a_header_fills_no_block() {
    let mut files = Files::new(&[b"a\n".to_vec(), b"a\n1\n2\n".to_vec()]);
    with_form(&mut files, &StreamForm::default());
    let dialect = Dialect::csv();
    let how = Cutting { header: true, block_records: 1, ..cutting(&files.sources, &dialect, 1000, 1) };
    let found = blocks(how).expect("blocks");
    assert_eq!(found.iter().map(|block| records(std::slice::from_ref(block), how).len()).collect::<Vec<_>>(), [1, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the quotes are like, each byte is in one block, and what is read at a time makes no difference.
    #[test]
    fn stray_quotes_lose_nothing(
        lines in proptest::collection::vec(proptest::sample::select(
            vec!["1,a", "2,\"b\"", "3,\"c\nd,e\"", "4,\"f", "5,g\"h", "6,\"\"\"\"", "7,\"i \"\"j\"\" k\"", "8,\"l\nm\nn,o\np,q\""]
        ), 1..60),
        cuts in 1_usize..4,
        block_bytes in 1_usize..200,
        block_records in 0_u64..4,
        chunk_bytes in 1_usize..100,
        max_record_bytes in 20_usize..100,
    ) {
        let contents: Vec<Vec<u8>> = lines
            .chunks(lines.len().div_ceil(cuts))
            .map(|lines| lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect())
            .collect();
        let mut files = Files::new(&contents);
        with_form(&mut files, &StreamForm::default());
        let dialect = Dialect::csv();
        let how = Cutting { block_records, max_record_bytes, skips: true, resyncs: true,
            ..cutting(&files.sources, &dialect, block_bytes, chunk_bytes) };
        let cut = blocks(how).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let mut next = vec![0; contents.len()];
        for block in &cut {
            prop_assert!(holds_whole_sources_or_one(block, &cut));
            for piece in &block.pieces {
                let (source, length) = (piece.piece.source, piece.piece.length as usize);
                prop_assert_eq!(piece.piece.offset, next[source] as u64);
                if piece.overlong.is_none() {
                    prop_assert_eq!(&block.text[piece.begin..piece.end], &contents[source][next[source]..][..length]);
                }
                next[source] += length;
            }
        }
        prop_assert_eq!(next, contents.iter().map(Vec::len).collect::<Vec<_>>());
        let other = blocks(Cutting { chunk_bytes: 0, ..how }).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let ranges = |blocks: &[BlockText]| -> Vec<_> {
            blocks.iter().map(|block| block.pieces.iter().map(|it| it.piece).collect::<Vec<_>>()).collect()
        };
        prop_assert_eq!(ranges(&cut), ranges(&other));
    }
}

/// Records that only the text around them tells from lines of a text: those are nowhere cut.
#[test]
fn blocks_behind_a_stray_quote_begin_with_records() {
    let line = |n: usize| match n {
        5 => "5,\"abc\n".to_owned(),
        _ if n.is_multiple_of(3) => format!("{n},\"mail:\n-{n},forwarded\nend\"\n"),
        _ => format!("{n},text\n"),
    };
    let lines: Vec<String> = (0..60_000).map(line).collect();
    let mut files = Files::new(&[lines.concat()]);
    with_form(&mut files, &StreamForm::default());
    let dialect = Dialect::csv();
    for (block_bytes, block_records) in [(100_000, 0), (1 << 20, 3000)] {
        let how =
            Cutting { block_records, skips: true, resyncs: true, ..cutting(&files.sources, &dialect, block_bytes, 0) };
        let cut = blocks(how).expect("sound data");
        assert!(cut.len() > 5, "{}", cut.len());
        let mut begins = lines.iter().scan(0, |end, line| Some(std::mem::replace(end, *end + line.len() as u64)));
        for block in cut {
            assert!(begins.any(|begin| begin == block.pieces[0].piece.offset), "{}", block.pieces[0].piece.offset);
        }
    }
}

/// Without another quote in the source nothing seems to end behind one; with the longest record so much is read on.
#[test]
fn one_stray_quote_is_the_end_of_its_line() {
    let line = |n: usize| if n == 5 { "5,\"abc\n".to_owned() } else { format!("{n},text\n") };
    let lines: Vec<String> = (0..5_000).map(line).collect();
    let mut files = Files::new(&[lines.concat()]);
    with_form(&mut files, &StreamForm::default());
    let dialect = Dialect::csv();
    for (block_bytes, block_records) in [(1_000, 0), (1 << 14, 100), (1, 0), (20_000, 0)] {
        let how = Cutting {
            block_records,
            max_record_bytes: 1000,
            skips: true,
            resyncs: true,
            ..cutting(&files.sources, &dialect, block_bytes, 64)
        };
        let cut = blocks(how).expect("sound data");
        assert!(cut.iter().all(|block| block.pieces[0].overlong.is_none()));
        assert!(cut.iter().all(|block| block.text.len() < block_bytes + 1000), "{block_bytes}");
        assert_eq!(cut.iter().flat_map(|block| block.text.clone()).collect::<Vec<_>>(), lines.concat().into_bytes());
        // All but the one behind it are what they would be without it.
        assert!(cut.iter().skip(1).all(|block| lines.iter().any(|line| block.text.starts_with(line.as_bytes()))));
    }
}

/// Blocks that are made of much that is read at once hold no more memory than their text.
#[test]
fn short_blocks_take_little_memory() {
    let mut files = Files::new(&[lines(20_000)]);
    with_form(&mut files, &StreamForm::default());
    let dialect = Dialect::csv();
    let how = Cutting { block_records: 20, ..cutting(&files.sources, &dialect, 1 << 20, 0) };
    let found = blocks(how).expect("sound data");
    assert_eq!(found.len(), 1000);
    assert!(found.iter().all(|block| block.text.capacity() < 1000), "{}", found[0].text.capacity());
}
