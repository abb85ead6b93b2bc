//! Loads into Arrow from end to end: what comes out of the streams, what is reported, and that nothing waits for ever.

mod files;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatchReader};
use files::{Files, any_files, read};
use proptest::prelude::*;
use std::time::{Duration, Instant};
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::decode::Decoder;
use tipple_codec::dialect::Dialect;
use tipple_codec::scan::Scanner;
use tipple_pipeline::error::{BadRecord, Error, Result};
use tipple_pipeline::load::LoadJob;
use tipple_pipeline::plan::{CutPlan, Feeding, LoadOutcome, LoadPlan, Target, WholeRowGroups};
use tipple_pipeline::source::cut::cut;

const LONG: Duration = Duration::from_secs(30);

type Row = Vec<Option<String>>;

fn texts(count: usize) -> Vec<Column> {
    let column = |n| Column { name: format!("c{n}"), kind: ColumnType::Text, not_null: false };
    (0..count).map(column).collect()
}

fn plan(files: &Files, cut_plan: CutPlan, columns: Vec<Column>, window_bytes: usize) -> Result<LoadPlan> {
    let slices = cut(&cut_plan)?;
    Ok(LoadPlan {
        sources: files.sources.clone(),
        dialect: Dialect { line_end: slices.line_end, ..cut_plan.dialect },
        header: cut_plan.header,
        columns,
        guessed: Vec::new(),
        slices: slices.slices,
        feeding: Feeding { feeds: slices.feeds, block_bytes: 1 << 20, ..Feeding::default() },
        streams: cut_plan.streams,
        cpus: Vec::new(),
        commit_records: None,
        first_part_n: 0,
        window_bytes,
        max_record_bytes: cut_plan.max_record_bytes,
        digest: true,
        rejects: None,
        violations: Default::default(),
        columnar: None,
        target: Target::Arrow {
            preserve_order: cut_plan.streams == 1,
            examined: None,
            with_records: false,
            row_groups: None,
            ends_quietly: false,
        },
    })
}

/// Pulls everything through `readers` C streams at a time, as an engine does.
fn pull(job: &LoadJob, readers: usize) -> std::result::Result<Vec<Row>, String> {
    let pull_one = || -> std::result::Result<Vec<Row>, String> {
        let stream = job.batches().expect("an Arrow load").stream();
        let reader = RecordBatchStreamReader::try_new(stream).map_err(|error| error.to_string())?;
        let mut rows = Vec::new();
        for batch in reader {
            let batch = batch.map_err(|error| error.to_string())?;
            for row in 0..batch.num_rows() {
                let text = |array: &dyn Array| match array.as_primitive_opt::<Int64Type>() {
                    Some(numbers) => numbers.value(row).to_string(),
                    None => array.as_string::<i32>().value(row).to_owned(),
                };
                let fields = batch.columns().iter();
                rows.push(fields.map(|array| array.is_valid(row).then(|| text(array.as_ref()))).collect());
            }
        }
        Ok(rows)
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..readers).map(|_| scope.spawn(pull_one)).collect();
        let mut rows = Vec::new();
        for reader in readers {
            rows.extend(reader.join().expect("no panic")?);
        }
        Ok(rows)
    })
}

/// Loads and pulls, with the outcome.
fn load(plan: LoadPlan, readers: usize) -> Result<(Vec<Row>, LoadOutcome)> {
    let job = LoadJob::start(plan);
    let pulled = pull(&job, readers);
    let outcome = job.wait(LONG).expect("the job ends");
    match (pulled, outcome) {
        (Ok(rows), Ok(outcome)) => Ok((rows, outcome)),
        (Err(_), Err(error)) => Err(error),
        (pulled, outcome) => panic!("the engine got {pulled:?}, the job says {outcome:?}"),
    }
}

/// Loads one file into text columns.
fn load_text(file: &[u8], dialect: &Dialect, columns: usize) -> Result<Vec<Row>> {
    let files = Files::new(&[file]);
    let cut_plan = files.cut_plan(dialect, 1 << 20);
    Ok(load(plan(&files, cut_plan, texts(columns), 1 << 16)?, 1)?.0)
}

fn bad_record<T: std::fmt::Debug>(result: Result<T>) -> BadRecord {
    match result {
        Err(Error::BadRecord(record)) => *record,
        other => panic!("{other:?}"),
    }
}

/// The rows of well-written files, one record at a time.
fn reference(contents: &[Vec<u8>], dialect: &Dialect, header: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for content in contents {
        for (_, mut record) in read(content, dialect, header).0 {
            record.extend(dialect.line_end.bytes());
            let mut scanner = Scanner::new(dialect.clone(), 2);
            let records = scanner.scan(&record);
            let mut decoder = Decoder::new(dialect.clone());
            let mut text = |column| {
                let text = decoder.decode(records.field(0, column), column)?;
                Some(String::from_utf8(text.to_vec()).expect("UTF-8"))
            };
            rows.push(vec![text(0), text(1)]);
        }
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_row_once(
        (dialect, contents) in any_files(4, 20),
        header: bool,
        streams in 1_usize..5,
        readers in 1_usize..3,
        slice_bytes in 1_u64..300,
        window_bytes in 1_usize..300,
    ) {
        let files = Files::new(&contents);
        let cut_plan = CutPlan { header, streams, ..files.cut_plan(&dialect, slice_bytes) };
        let plan = plan(&files, cut_plan, texts(2), window_bytes).expect("readable");
        let bytes: u64 = plan.slices.iter().map(|slice| slice.bytes()).sum();
        let readers = if streams == 1 { 1 } else { readers };
        let job = LoadJob::start(plan);
        let mut rows = pull(&job, readers).map_err(TestCaseError::fail)?;
        let outcome = job.wait(LONG).expect("the job ends").map_err(|error| TestCaseError::fail(error.to_string()))?;
        let mut expected = reference(&contents, &dialect, header);
        prop_assert_eq!(outcome.rows, expected.len() as u64);
        prop_assert_eq!(outcome.bytes, bytes);
        for (content, source) in contents.iter().zip(&outcome.sources) {
            prop_assert_eq!(source.rows, read(content, &dialect, header).0.len() as u64);
        }
        let snapshot = serde_json::to_value(job.snapshot()).expect("JSON");
        prop_assert_eq!(snapshot["bytes_done"].as_u64(), Some(bytes));
        prop_assert_eq!(snapshot["rows"].as_u64(), Some(outcome.rows));
        if streams > 1 {
            rows.sort();
            expected.sort();
        }
        prop_assert_eq!(rows, expected);
    }
}

#[test]
fn the_digest_does_not_depend_on_how_the_work_is_divided() {
    let content: Vec<u8> = (0..500).flat_map(|n| format!("{n},text {n}\n").into_bytes()).collect();
    let files = Files::new(&[&content]);
    let digest = |streams, slice_bytes, window_bytes| {
        let cut_plan = CutPlan { streams, ..files.cut_plan(&Dialect::csv(), slice_bytes) };
        let (rows, outcome) =
            load(plan(&files, cut_plan, texts(2), window_bytes).expect("readable"), 1).expect("loads");
        assert_eq!((rows.len(), outcome.rows), (500, 500));
        outcome.digest
    };
    let whole = digest(1, 1 << 20, 1 << 20);
    assert!(whole.is_some());
    assert_eq!(digest(4, 100, 64), whole);
    assert_eq!(digest(2, 3000, 1), whole);
}

#[test]
fn what_copy_makes_of_strange_files() {
    let text = |text: &str| Some(text.to_owned());
    let csv = Dialect::csv();
    let copy_text = Dialect::text();
    let same = |file: &[u8], dialect: &Dialect, expected: &[Option<String>]| {
        let rows = load_text(file, dialect, 1).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        assert_eq!(rows.concat(), expected, "{file:?}");
    };
    same(b"\n", &csv, &[None]);
    same(b"\r\n", &csv, &[None]);
    same(b"\n", &copy_text, &[text("")]);
    same(b"\r", &copy_text, &[text("")]);
    same(b"\xef\xbb\xbfa\n", &csv, &[text("a")]);
    same(b"\xef\xbb\xbf\"a\n\"\r\n", &csv, &[text("a\n")]);
    same(b"\xef\xbb\xbf", &csv, &[]);
    same(b"a\n\xef\xbb\xbfb\n", &csv, &[text("a"), text("\u{feff}b")]);
    same(b"a\n\\.\nb\n", &csv, &[text("a"), text("\\."), text("b")]);
    same(b"a\n\\.\n", &copy_text, &[text("a")]);
    same(b"\\.\n", &copy_text, &[]);
    same(b"a\r\n\\.\r\n", &copy_text, &[text("a")]);
    same(b"\\\\.\n", &copy_text, &[text("\\.")]);
    same(b"a\\", &copy_text, &[text("a")]);
    same(b"a\\\n", &copy_text, &[text("a\n")]);
    same(b"a\n\\N\\", &copy_text, &[text("a"), None]);
    same(b"a\\\nb\n", &copy_text, &[text("a\nb")]);
    same(b"a\\xg\n", &copy_text, &[text("axg")]);
    same(b"a\\xc3\\xa9\n", &copy_text, &[text("aé")]);
    let refused = |file: &[u8], dialect: &Dialect, record: u64, reason: &str| {
        let bad = bad_record(load_text(file, dialect, 1));
        assert_eq!(bad.record_number, record, "{file:?}: {bad:?}");
        assert!(bad.reason.contains(reason), "{file:?}: {bad:?}");
    };
    refused(b"a\n\\.", &copy_text, 2, "end-of-data marker");
    refused(b"a\n\\.\nb\n", &copy_text, 2, "end-of-data marker");
    refused(b"a\\.b\n", &copy_text, 1, "end-of-data marker");
    refused(b"a\\\n\\.\n", &copy_text, 1, "end-of-data marker");
    refused(b"a\r\n\\.\n", &copy_text, 2, "end-of-data marker");
    refused(b"x\r\na\\\r\nb\r\n", &copy_text, 2, "record end of another kind");
    refused(b"a\\\r\nb\r\n", &copy_text, 2, "record end of another kind");
    refused(b"x\r\na\r", &csv, 2, "record end of another kind");
    refused(b"a\nb\rc\n", &csv, 2, "record end of another kind");
    refused(b"a\\xffb\n", &copy_text, 1, "UTF-8");
    refused(b"a\\0b\n", &copy_text, 1, "NUL");
    let escaped = Dialect { escape: b'\\', ..Dialect::csv() };
    for (file, dialect) in
        [(&b"x\n\"a"[..], &csv), (b"x\n\"a\n", &csv), (b"x\n\"a\\", &escaped), (b"x\n\"a\\\"", &escaped)]
    {
        refused(file, dialect, 2, "unterminated quoted field");
    }
    let bad = bad_record(load_text(b"\n", &csv, 2));
    assert_eq!((bad.record_number, bad.column.as_deref()), (1, Some("c1")), "{bad:?}");
}

#[test]
fn an_error_names_file_record_offset_column_and_text() {
    let mut columns = texts(2);
    columns[0].kind = ColumnType::Int8;
    let mut second: Vec<u8> = b"\xef\xbb\xbfnumber,\"te\nxt\"\n".to_vec();
    for n in 0..300 {
        second.extend(format!("{n},\"line\n{n}\"\n").bytes());
    }
    let offset = second.len() as u64;
    second.extend(b"12x,\"bad\n\"\n301,good\n");
    let first = b"number,text\n1,a\n".to_vec();
    let files = Files::new(&[first, second]);
    for streams in 1..=4 {
        for (slice_bytes, window_bytes) in [(1 << 20, 1 << 16), (100, 64), (1000, 1)] {
            let cut_plan = CutPlan { header: true, streams, ..files.cut_plan(&Dialect::csv(), slice_bytes) };
            let plan = plan(&files, cut_plan, columns.clone(), window_bytes).expect("readable");
            let bad = bad_record(load(plan, 1));
            assert_eq!(bad.file, files.sources[1].path.display().to_string());
            assert_eq!((bad.record_number, bad.byte_offset), (301, Some(offset)), "{bad:?}");
            assert_eq!((bad.column.as_deref(), bad.text.as_deref()), (Some("c0"), Some("12x")), "{bad:?}");
            assert_eq!(bad.sqlstate.as_deref(), Some("22P02"));
        }
    }
}

#[test]
fn whole_row_groups_are_shared_by_all_readers() {
    let rows = 10_000;
    let files = Files::new(&[(0..rows).flat_map(|n| format!("{n},x\n").into_bytes()).collect::<Vec<_>>()]);
    for readers in 1..=3 {
        for count in [Some(1), Some(3), None] {
            let mut load = large_plan(&files, 2);
            let whole = WholeRowGroups { rows: 999, count, most_bytes: usize::MAX };
            load.target = Target::Arrow {
                preserve_order: false,
                examined: None,
                with_records: false,
                row_groups: Some(whole),
                ends_quietly: false,
            };
            let job = LoadJob::start(load);
            let mut numbers: Vec<usize> = pull(&job, readers)
                .expect("no error")
                .into_iter()
                .map(|row| row[0].as_deref().expect("a number").parse().expect("a number"))
                .collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..rows), "{readers} readers, {count:?} row groups");
            assert!(job.wait(LONG).expect("the job ends").is_ok());
        }
    }
}

/// Enough rows that the channel is full long before the end.
fn large_plan(files: &Files, streams: usize) -> LoadPlan {
    let cut_plan = CutPlan { streams, ..files.cut_plan(&Dialect::csv(), 1000) };
    plan(files, cut_plan, texts(2), 100).expect("readable")
}

fn large_files() -> Files {
    Files::new(&[b"a,b\n".repeat(200_000)])
}

#[test]
fn cancelling_does_not_wait_for_the_engine() {
    let files = large_files();
    for streams in 1..=4 {
        let job = LoadJob::start(large_plan(&files, streams));
        // An engine that has asked for a stream, and takes nothing from it.
        let idle = job.batches().expect("an Arrow load").stream();
        assert!(job.wait(Duration::from_millis(100)).is_none(), "the streams wait for the engine");
        job.cancel();
        let begin = Instant::now();
        let outcome = job.wait(LONG).expect("the job ends");
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
        assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
        // Whoever pulls now is told, instead of taking what is left for everything.
        let mut reader = RecordBatchStreamReader::try_new(idle).expect("a stream");
        assert!(reader.next().expect("an answer").is_err());
        assert!(reader.next().is_none());
    }
}

#[test]
fn a_failure_does_not_wait_for_the_engine() {
    let files = Files::new(&[[b"a,b\n".repeat(200), b"only one field\n".to_vec(), b"a,b\n".repeat(200_000)].concat()]);
    let mut load = large_plan(&files, 2);
    // The bad slice first, as one window: the other stream fills the channel meanwhile.
    load.window_bytes = 1 << 16;
    load.target = Target::Arrow {
        preserve_order: true,
        examined: None,
        with_records: false,
        row_groups: None,
        ends_quietly: false,
    };
    let job = LoadJob::start(load);
    let begin = Instant::now();
    let bad = bad_record(job.wait(LONG).expect("the job ends"));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!((bad.record_number, bad.byte_offset), (201, Some(800)));
    assert!(pull(&job, 1).expect_err("the engine is told").contains("record 201"));
}

#[test]
fn dropping_the_job_ends_its_streams() {
    let files = large_files();
    for streams in 1..=4 {
        let job = LoadJob::start(large_plan(&files, streams));
        let idle = job.batches().expect("an Arrow load").stream();
        let mut reader = RecordBatchStreamReader::try_new(idle).expect("a stream");
        assert!(reader.next().expect("a batch").is_ok());
        drop(job);
        // The last sender goes with the last stream: then the reader is told, and never before.
        let begin = Instant::now();
        assert!(reader.any(|batch| batch.is_err()));
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }
}

#[test]
fn an_engine_that_goes_away_does_not_keep_the_job() {
    let files = large_files();
    let job = LoadJob::start(large_plan(&files, 2));
    let stream = job.batches().expect("an Arrow load").stream();
    let mut reader = RecordBatchStreamReader::try_new(stream).expect("a stream");
    assert!(reader.next().expect("a batch").is_ok());
    drop(reader);
    job.cancel();
    assert!(matches!(job.wait(Duration::from_secs(1)), Some(Err(Error::Cancelled))));
}

#[test]
fn asking_for_the_schema_takes_no_rows() {
    let files = Files::new(&[b"1,a\n"]);
    let cut_plan = files.cut_plan(&Dialect::csv(), 1 << 20);
    let mut columns = texts(2);
    columns[0] = Column { name: "n".into(), kind: ColumnType::Int8, not_null: true };
    let job = LoadJob::start(plan(&files, cut_plan, columns, 1 << 16).expect("readable"));
    let stream = job.batches().expect("an Arrow load").stream();
    let schema = RecordBatchStreamReader::try_new(stream).expect("a stream").schema();
    assert_eq!((schema.field(0).name().as_str(), schema.field(0).is_nullable()), ("n", false));
    assert_eq!(pull(&job, 1), Ok(vec![vec![Some("1".into()), Some("a".into())]]));
}

#[test]
fn a_file_that_changes_before_or_while_it_is_loaded() {
    let files = large_files();
    let load = large_plan(&files, 2);
    std::fs::write(&files.sources[0].path, b"a,b\n").expect("shrinking it");
    let job = LoadJob::start(load);
    assert!(pull(&job, 1).is_err());
    assert!(matches!(job.wait(LONG), Some(Err(Error::SourceChanged { .. }))));

    let files = large_files();
    let job = LoadJob::start(large_plan(&files, 2));
    assert!(job.wait(Duration::from_millis(100)).is_none(), "the streams wait for the engine");
    let content = b"a,b\n".repeat(20_000);
    std::fs::write(&files.sources[0].path, &content[..40_000]).expect("shrinking it");
    assert!(pull(&job, 1).is_err());
    assert!(matches!(job.wait(LONG), Some(Err(Error::SourceChanged { .. }))));
}
