//! The sums of the plan, the text against tpchgen's own printing, and jobs against each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use super::plan::Chunk;
use super::rows::{Tbl, append_chunk};
use super::table::dbgen_scale;
use super::{Compression, ErrorKind, Format, GenerateError, Job, Plan, Report, Table};

const PATIENCE: Duration = Duration::from_secs(120);

fn plan(out: &Path) -> Plan {
    Plan {
        scale: 0.01,
        tables: Table::ALL.to_vec(),
        parts: 1,
        part: None,
        format: Format::Tbl,
        compression: Compression::Zstd,
        out: out.to_path_buf(),
        jobs: 3,
        force: false,
        fsync: false,
    }
}

fn generate(plan: Plan) -> Result<Report, GenerateError> {
    let job = Job::start(plan)?;
    assert!(job.wait(PATIENCE), "the job hangs");
    job.outcome().expect("a job that has ended has an outcome")
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("the directory exists")
        .map(|entry| entry.expect("it can be read").file_name().into_string().expect("names are ASCII"))
        .collect();
    names.sort();
    names
}

/// The slow obvious version: every row of the table printed by tpchgen itself.
fn printed_by_tpchgen(table: Table, scale: f64) -> String {
    let mut text = String::new();
    macro_rules! print {
        ($generator:ident) => {
            for row in $generator::new(scale, 1, 1).iter() {
                writeln!(text, "{row}").expect("writing to memory does not fail");
            }
        };
    }
    match table {
        Table::Region => print!(RegionGenerator),
        Table::Nation => print!(NationGenerator),
        Table::Supplier => print!(SupplierGenerator),
        Table::Customer => print!(CustomerGenerator),
        Table::Part => print!(PartGenerator),
        Table::Partsupp => print!(PartSuppGenerator),
        Table::Orders => print!(OrderGenerator),
        Table::Lineitem => print!(LineItemGenerator),
    }
    text
}

#[test]
fn the_text_is_what_tpchgen_prints() {
    let whole = Chunk { index: 0, block: 1, block_count: 1, first_key: 0, last_key: i64::MAX, units: 0 };
    for table in Table::ALL {
        let mut text = Vec::new();
        let rows = append_chunk::<Tbl>(table, 0.01, &whole, &mut text);
        let expected = printed_by_tpchgen(table, 0.01);
        assert_eq!(rows, expected.lines().count() as u64);
        assert!(text == expected.as_bytes(), "{} differs", table.name());
    }
}

#[test]
fn rows_are_counted_in_thousandths_as_dbgen_counts_them() {
    for thousandths in 1..=5_000_i64 {
        let scale = format!("{}.{:03}", thousandths / 1000, thousandths % 1000).parse().expect("a number");
        for table in Table::ALL.into_iter().filter(|table| table.has_parts()) {
            assert_eq!(table.units(dbgen_scale(scale)), table.base_units() * thousandths / 1000, "{table:?} {scale}");
        }
    }
    for scale in [1_u32, 10, 100, 300, 1_000, 3_000, 10_000] {
        assert_eq!(Table::Orders.units(dbgen_scale(f64::from(scale))), 1_500_000 * i64::from(scale));
    }
}

#[test]
fn parts_and_chunks_cover_every_unit_once() {
    let directory = Path::new("unused");
    for (scale, parts) in
        [(0.001, 1), (0.001, 7), (0.013, 48), (1.0, 1), (1.0, 3), (10.0, 7), (1000.0, 48), (0.001, 2000)]
    {
        for format in [Format::Tbl, Format::Parquet] {
            let plan = Plan { scale, parts, format, ..plan(directory) };
            let mut ends: BTreeMap<Table, i64> = BTreeMap::new();
            for file in plan.files().expect("the plan is good") {
                let units = file.table.units(dbgen_scale(scale));
                if file.part.is_some_and(|part| part < parts) {
                    assert_eq!(file.units(), units / parts, "dbgen divides evenly, the last part has the rest");
                }
                let mut covered = 0;
                let last_key = ends.entry(file.table).or_insert(i64::MIN);
                for index in 0..file.chunk_count() {
                    let chunk = file.chunk(index);
                    covered += chunk.units;
                    if chunk.units > 0 {
                        assert!(chunk.first_key > *last_key && chunk.last_key >= chunk.first_key);
                        *last_key = chunk.last_key;
                    }
                }
                assert_eq!(covered, file.units(), "{} at {scale} in {parts}", file.name);
                if format == Format::Parquet {
                    assert!(file.chunk_count() <= 5_000, "{} row groups", file.chunk_count());
                }
            }
            for (table, key) in ends {
                let units = table.units(dbgen_scale(scale));
                let expected = match table {
                    Table::Region | Table::Nation => units - 1,
                    Table::Orders | Table::Lineitem => OrderGenerator::make_order_key(units),
                    _ => units,
                };
                assert_eq!(key, expected, "{table:?} ends early at {scale} in {parts}");
            }
        }
    }
}

#[test]
fn no_chunk_is_much_larger_than_the_others() {
    for scale in [1.0, 9.973, 1000.0, 9999.0] {
        for file in (Plan { scale, ..plan(Path::new("unused")) }).files().expect("the plan is good") {
            let typical = file.chunk(0).units;
            let last = file.chunk(file.chunk_count() - 1).units;
            assert!(last <= 3 * typical, "{} at {scale}: {last} against {typical}", file.name);
        }
    }
}

#[test]
fn joined_parts_are_the_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    for parts in [1, 2, 3, 7] {
        let out = directory.path().join(parts.to_string());
        generate(Plan { parts, ..plan(&out) }).expect("it is generated");
        for table in Table::ALL {
            let mut joined = Vec::new();
            if parts == 1 || !table.has_parts() {
                joined = fs::read(out.join(format!("{}.tbl", table.name()))).expect("the file is there");
            } else {
                for part in 1..=parts {
                    joined
                        .extend(fs::read(out.join(format!("{}.tbl.{part}", table.name()))).expect("the part is there"));
                }
            }
            assert!(joined == printed_by_tpchgen(table, 0.01).as_bytes(), "{} in {parts} parts", table.name());
        }
    }
}

#[test]
fn one_part_is_generated_beside_another() {
    let directory = tempfile::tempdir().expect("a directory");
    for part in [2, 1] {
        let report = generate(Plan { parts: 2, part: Some(part), ..plan(directory.path()) }).expect("it is generated");
        let kept: Vec<Table> = report.files.iter().filter(|file| file.kept).map(|file| file.table).collect();
        assert_eq!(kept, if part == 2 { vec![] } else { vec![Table::Region, Table::Nation] });
    }
    assert_eq!(names(directory.path()).len(), 2 + 2 * 6);
    // A region that is not TPC-H's is somebody's own.
    fs::write(directory.path().join("region.tbl"), "0|MINE|mine|\n").expect("it can be written");
    for table in ["orders.tbl.1", "lineitem.tbl.1"] {
        fs::remove_file(directory.path().join(table)).expect("it is there");
    }
    let tables = vec![Table::Region, Table::Orders, Table::Lineitem];
    let error = generate(Plan { parts: 2, part: Some(1), tables, ..plan(directory.path()) }).expect_err("it differs");
    assert!(error.message.contains("region.tbl exists already"), "{error}");
    assert!(!directory.path().join("orders.tbl.1").exists(), "nothing is published");
}

#[test]
fn an_existing_file_is_only_replaced_by_force() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("nation.tbl");
    fs::write(&path, "mine").expect("it can be written");
    let tables = vec![Table::Supplier, Table::Nation];
    let error = generate(Plan { tables: tables.clone(), ..plan(directory.path()) }).expect_err("it exists");
    assert_eq!(error.kind, ErrorKind::Usage);
    assert_eq!(fs::read(&path).expect("it is there"), b"mine");
    assert_eq!(names(directory.path()), ["nation.tbl"]);
    generate(Plan { tables, force: true, ..plan(directory.path()) }).expect("it is replaced");
    assert_eq!(names(directory.path()), ["nation.tbl", "supplier.tbl"]);
    assert_eq!(fs::read_to_string(&path).expect("it is there"), printed_by_tpchgen(Table::Nation, 1.0));
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let tables = vec![Table::Supplier, Table::Lineitem];
    let job = Job::start(Plan { scale: 0.2, tables, ..plan(directory.path()) }).expect("it starts");
    fs::write(directory.path().join("lineitem.tbl"), "mine").expect("it can be written");
    assert!(job.wait(PATIENCE));
    let error = job.outcome().expect("it has ended").expect_err("it exists");
    assert!(error.message.contains("lineitem.tbl exists already"), "{error}");
    assert_eq!(names(directory.path()), ["lineitem.tbl"]);
}

#[test]
fn a_cancelled_job_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let job = Job::start(Plan { scale: 50.0, ..plan(directory.path()) }).expect("it starts");
    while job.progress().rows == 0 {
        assert!(!job.wait(Duration::from_millis(10)), "{:?}", job.outcome());
    }
    job.cancel();
    assert!(job.wait(PATIENCE));
    let error = job.outcome().expect("it has ended").expect_err("it was cancelled");
    assert_eq!(error.kind, ErrorKind::Interrupted);
    assert!(names(directory.path()).is_empty());
}

#[test]
fn what_a_killed_job_left_is_swept_and_what_a_running_one_writes_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let left = directory.path().join(".tipple-partial-1-0");
    fs::create_dir(&left).expect("it can be made");
    fs::write(left.join("lineitem.tbl"), "half").expect("it can be written");
    let tables = |tables: &[Table]| tables.to_vec();
    let running =
        Job::start(Plan { scale: 50.0, tables: tables(&[Table::Lineitem]), ..plan(directory.path()) }).expect("starts");
    generate(Plan { tables: tables(&[Table::Region]), ..plan(directory.path()) }).expect("it is generated");
    assert!(!left.exists());
    assert_eq!(names(directory.path()).len(), 2, "region.tbl and the running job's directory");
    drop(running);
    assert_eq!(names(directory.path()), ["region.tbl"]);
}

#[test]
fn a_bad_plan_starts_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("out");
    let good = plan(&out);
    let bad = [
        Plan { scale: 0.0, ..good.clone() },
        Plan { scale: -1.0, ..good.clone() },
        Plan { scale: f64::NAN, ..good.clone() },
        Plan { scale: f64::INFINITY, ..good.clone() },
        Plan { scale: 1e9, ..good.clone() },
        Plan { tables: vec![], ..good.clone() },
        Plan { parts: 0, ..good.clone() },
        Plan { part: Some(0), ..good.clone() },
        Plan { part: Some(2), ..good.clone() },
        Plan { jobs: 0, ..good.clone() },
        Plan { jobs: 1_000_000, ..good.clone() },
    ];
    for plan in bad {
        assert_eq!(Job::start(plan.clone()).expect_err("it is bad").kind, ErrorKind::Usage, "{plan:?}");
    }
    assert!(!out.exists());
    assert_eq!(Plan::from_json("{}").expect_err("it is no plan").kind, ErrorKind::Usage);
}
