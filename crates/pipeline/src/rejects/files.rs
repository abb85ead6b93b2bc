//! The files of rejects: raw records, to be mended and loaded again, and beside them the reasons as CSV.

use super::Reject;
use crate::source::locate::OVERLONG;
use memchr::{memchr_iter, memchr3_iter};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use tipple_codec::encode::batch::csv_text::put_field;

/// The columns of the reasons.
const HEADER: &[u8] = b"file,record_number,byte_offset,column,reason,sqlstate\n";
/// What ends the data of the text format, before each kind of record end.
const END_MARKERS: [&[u8]; 3] = [b"\\.\n", b"\\.\r\n", b"\\.\r"];
const NOT_NULL_VIOLATION: &str = "23502";
/// What the SQLSTATEs of constraints begin with: integrity constraint violation.
const CONSTRAINTS: &str = "23";
const CONDITION: &str = ": CHECK (";
/// So many causes are told apart by their constraints: a trigger's own words may differ with each record.
const MOST_RULES: usize = 100;
/// So many lines of one rejected record are told, for they may be as many records.
const MANY_LINES: usize = 20;
const MOST_REMARKS: usize = 3;
/// So much of so many records that end inside quotes is kept to find them again.
const MOST_OPEN_ENDED: usize = 1000;
const OPEN_ENDED_BYTES: usize = 4096;

/// How rejects are told.
#[derive(Debug, Default, Deserialize)]
pub struct Telling {
    /// Whether the sources are columnar: a record has a row there, and no place of its own.
    pub by_row: bool,
    /// The quote and what takes its meaning away, where records have any.
    pub quotes: Option<(char, char)>,
    /// By column: what to say of a NULL there, in place of a refusal that blames a constraint which is not there.
    pub null_reasons: HashMap<String, String>,
    /// Whether the records are left of a file whose place these files take: they are told by where they stand now.
    #[serde(default)]
    pub renumbered: bool,
    /// Whether the records are of the text format, where `\.` alone on the last line ends the data.
    #[serde(default)]
    pub has_end_marker: bool,
}

impl Telling {
    /// Why a record was refused.
    fn reason<'r>(&'r self, reject: &'r Reject) -> &'r str {
        let column = reject.column.as_deref().unwrap_or_default();
        let null_reason = self.null_reasons.get(column).filter(|_| reject.sqlstate == NOT_NULL_VIOLATION);
        null_reason.unwrap_or(&reject.reason)
    }
}

/// What a constraint says of each record that it refuses: that is before the values, which follow in parentheses. Empty
/// for what no constraint refuses.
fn rule<'r>(sqlstate: &str, reason: &'r str) -> &'r str {
    if !sqlstate.starts_with(CONSTRAINTS) {
        return "";
    }
    // DuckDB's CHECK constraints have no names of their own, but are told with their conditions.
    let values = if reason.contains(CONDITION) { None } else { reason.find(" (") };
    &reason[..values.unwrap_or(reason.len())]
}

/// A text as a field of CSV.
fn field(text: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    put_field(text, &mut field);
    field
}

/// A reject that may be many records, because a quote was not closed where it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The index of its source.
    pub source: usize,
    /// Its number there.
    pub record_number: u64,
    /// Its lines; `None` where it is longer than records may be.
    pub lines: Option<usize>,
}

/// Rejects of one column and one SQLSTATE; of those that a constraint refuses, one constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Empty where no column is to blame.
    pub column: String,
    /// Empty where no server would refuse them.
    pub sqlstate: String,
    /// How many.
    pub rejects: u64,
    /// Of the first of them: the index of its source,
    pub source: usize,
    /// its number there (the row, from 1, of a columnar one),
    pub record_number: u64,
    /// and why it was refused.
    pub reason: String,
}

/// What was seen while the files were written.
#[derive(Debug, Default)]
pub struct Told {
    /// Why records were rejected, what most were rejected for first.
    pub causes: Vec<Cause>,
    /// Rejects that may be many records, the first few.
    pub remarks: Vec<Remark>,
    /// How many more of those there are.
    pub unremarked: u64,
    /// What those begin with that end inside quotes, and would take the record behind them with them.
    pub open_ended: Vec<Vec<u8>>,
}

/// What stands in the file of records already.
#[derive(Debug, Default, Clone, Copy)]
struct Written {
    records: u64,
    bytes: u64,
}

/// Both files, while they are being written.
#[derive(Debug)]
pub struct RejectFiles {
    raw: BufWriter<File>,
    reasons: BufWriter<File>,
    /// The names of the sources, as fields of CSV.
    sources: Vec<Vec<u8>>,
    telling: Telling,
    told: Told,
    /// What was written.
    written: Written,
    /// Where a cause stands in `told`, by SQLSTATE, column and rule.
    known_causes: HashMap<String, HashMap<String, HashMap<String, usize>>>,
    row: Vec<u8>,
    /// The last record, if it could be taken for the end of data.
    marker: Vec<u8>,
}

impl RejectFiles {
    /// Creates both files, or empties them.
    ///
    /// # Errors
    /// The disk's.
    pub fn create(raw: &Path, reasons: &Path, sources: Vec<Vec<u8>>, telling: Telling) -> io::Result<Self> {
        let raw = BufWriter::new(File::create(raw)?);
        let mut reasons = BufWriter::new(File::create(reasons)?);
        reasons.write_all(HEADER)?;
        let sources = sources.iter().map(|name| field(name)).collect();
        let (told, known_causes) = (Told::default(), HashMap::new());
        let written = Written::default();
        Ok(Self { raw, reasons, sources, telling, told, written, known_causes, row: Vec::new(), marker: Vec::new() })
    }

    /// Writes rejects, in the order in which they are to stand.
    ///
    /// # Errors
    /// The disk's.
    pub fn write(&mut self, rejects: &[Reject]) -> io::Result<()> {
        for reject in rejects {
            self.raw.write_all(&reject.record)?;
            if self.telling.renumbered {
                let Written { records, bytes } = self.written;
                self.tell(&Reject { record_number: records + 1, offset: bytes, ..reject.clone() })?;
            } else {
                self.tell(reject)?;
            }
            self.marker.clear();
            if self.telling.has_end_marker && END_MARKERS.contains(&&reject.record[..]) {
                self.marker.extend_from_slice(&reject.record);
            }
            self.written.records += 1;
            self.written.bytes += reject.record.len() as u64;
        }
        Ok(())
    }

    fn tell(&mut self, reject: &Reject) -> io::Result<()> {
        self.write_reason(reject)?;
        self.count(reject);
        self.look_at(reject);
        Ok(())
    }

    /// Brings both files to the disk's care.
    ///
    /// # Errors
    /// The disk's.
    pub fn finish(mut self) -> io::Result<Told> {
        // Behind another one it is a record again, which a replay reads.
        self.raw.write_all(&self.marker)?;
        self.raw.flush()?;
        self.reasons.flush()?;
        // The sort is stable: of as many, those that came first.
        self.told.causes.sort_by_key(|cause| Reverse(cause.rejects));
        Ok(self.told)
    }

    fn write_reason(&mut self, reject: &Reject) -> io::Result<()> {
        let row = &mut self.row;
        row.clear();
        let source = self.sources.get(reject.source).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("a reject of source {}, which is none", reject.source))
        })?;
        row.extend_from_slice(source);
        // Writing to memory cannot fail.
        let _infallible = if self.telling.by_row {
            write!(row, ",{},,", reject.offset + 1)
        } else {
            write!(row, ",{},{},", reject.record_number, reject.offset)
        };
        for text in [reject.column.as_deref().unwrap_or_default(), self.telling.reason(reject)] {
            put_field(text.as_bytes(), row);
            row.push(b',');
        }
        put_field(reject.sqlstate.as_bytes(), row);
        row.push(b'\n');
        self.reasons.write_all(row)
    }

    fn count(&mut self, reject: &Reject) {
        let column = reject.column.as_deref().unwrap_or_default();
        let reason = self.telling.reason(reject);
        let columns = self.known_causes.get(&reject.sqlstate).and_then(|columns| columns.get(column));
        let known = |rule: &str| columns.and_then(|rules| rules.get(rule)).copied();
        let mut rule = rule(&reject.sqlstate, reason);
        let mut at = known(rule);
        if at.is_none() && self.told.causes.len() >= MOST_RULES {
            rule = "";
            at = known(rule);
        }
        if let Some(cause) = at.and_then(|at| self.told.causes.get_mut(at)) {
            cause.rejects += 1;
            return;
        }
        let columns = self.known_causes.entry(reject.sqlstate.clone()).or_default();
        columns.entry(column.to_owned()).or_default().insert(rule.to_owned(), self.told.causes.len());
        self.told.causes.push(Cause {
            column: column.to_owned(),
            sqlstate: reject.sqlstate.clone(),
            rejects: 1,
            source: reject.source,
            record_number: if self.telling.by_row { reject.offset + 1 } else { reject.record_number },
            reason: reason.to_owned(),
        });
    }

    fn look_at(&mut self, reject: &Reject) {
        if self.told.open_ended.len() < MOST_OPEN_ENDED && self.leaves_open(&reject.record) {
            let kept = reject.record.len().min(OPEN_ENDED_BYTES);
            self.told.open_ended.push(reject.record[..kept].to_vec());
        }
        if self.telling.by_row {
            return;
        }
        let too_long = reject.reason.starts_with(OVERLONG);
        let lines = match memchr_iter(b'\n', &reject.record).count() {
            0 => memchr_iter(b'\r', &reject.record).count(),
            lines => lines,
        };
        if !too_long && lines < MANY_LINES {
            return;
        }
        if self.told.remarks.len() == MOST_REMARKS {
            self.told.unremarked += 1;
        } else {
            let Reject { source, record_number, .. } = *reject;
            self.told.remarks.push(Remark { source, record_number, lines: (!too_long).then_some(lines) });
        }
    }

    /// Whether a quote is missing or too many in a record.
    fn leaves_open(&self, record: &[u8]) -> bool {
        let Some((quote, escape)) = self
            .telling
            .quotes
            .and_then(|(quote, escape)| Some((u8::try_from(quote).ok()?, u8::try_from(escape).ok()?)))
        else {
            return false;
        };
        if quote == escape {
            return memchr_iter(quote, record).count() % 2 == 1;
        }
        let (mut open, mut taken) = (false, None);
        for at in memchr3_iter(quote, escape, escape, record) {
            if taken == Some(at) {
                continue;
            }
            if record[at] == quote {
                open = !open;
            } else {
                // Of what stands behind an escape only the escape and the quote lose their meaning by it.
                taken = Some(at + 1);
            }
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::locate::overlong;

    fn written(telling: Telling, rejects: &[Reject]) -> (Vec<u8>, String, Told) {
        let directory = tempfile::tempdir().unwrap();
        let (raw, reasons) = (directory.path().join("raw"), directory.path().join("reasons"));
        let mut files = RejectFiles::create(&raw, &reasons, vec![b"a,b.csv".to_vec()], telling).unwrap();
        files.write(rejects).unwrap();
        let told = files.finish().unwrap();
        (std::fs::read(raw).unwrap(), std::fs::read_to_string(reasons).unwrap(), told)
    }

    fn reject(record: &[u8], column: Option<&str>, reason: &str, sqlstate: &str) -> Reject {
        let column = column.map(str::to_owned);
        let (reason, sqlstate) = (reason.to_owned(), sqlstate.to_owned());
        Reject { source: 0, record_number: 3, offset: 40, column, reason, sqlstate, record: record.to_vec() }
    }

    #[test]
    fn reasons_are_csv() {
        let rejects = [
            reject(b"1,x\n", Some("n"), "invalid: \"x\"", "22P02"),
            reject(b"2\r\n", None, "one\rfield", ""),
            reject(b",\n", Some("k"), "a constraint", "23502"),
        ];
        let null_reasons = HashMap::from([("k".into(), "no NULL".into()), ("n".into(), "none here".into())]);
        let (raw, reasons, told) = written(Telling { null_reasons, ..Telling::default() }, &rejects);
        assert_eq!(raw, b"1,x\n2\r\n,\n");
        let rows = "file,record_number,byte_offset,column,reason,sqlstate\n\
                    \"a,b.csv\",3,40,n,\"invalid: \"\"x\"\"\",22P02\n\"a,b.csv\",3,40,,\"one\rfield\",\n\
                    \"a,b.csv\",3,40,k,no NULL,23502\n";
        assert_eq!(reasons, rows);
        assert!(told.remarks.is_empty());
        let (_, reasons, told) = written(Telling { renumbered: true, ..Telling::default() }, &rejects);
        assert!(reasons.contains("\"a,b.csv\",1,0,n,") && reasons.contains("\"a,b.csv\",3,7,k,"), "{reasons}");
        assert_eq!(told.causes[0].record_number, 1);
        let (_, reasons, _) = written(Telling { by_row: true, ..Telling::default() }, &rejects[..1]);
        assert!(reasons.ends_with("\"a,b.csv\",41,,n,\"invalid: \"\"x\"\"\",22P02\n"), "{reasons}");
    }

    #[test]
    fn a_record_that_looks_like_the_end_of_data_is_not_the_last_line() {
        let raw_of = |has_end_marker: bool, records: &[&str]| {
            let rejects: Vec<_> = records.iter().map(|it| reject(it.as_bytes(), None, "an end", "")).collect();
            let (raw, ..) = written(Telling { has_end_marker, ..Telling::default() }, &rejects);
            String::from_utf8(raw).unwrap()
        };
        for end in ["\n", "\r\n", "\r"] {
            assert_eq!(raw_of(true, &[&format!("\\.{end}")]), format!("\\.{end}\\.{end}"));
        }
        // No end of data: another record stands behind it, it has a blank, or the format is another one.
        assert_eq!(raw_of(true, &["\\.\n", "x\n"]), "\\.\nx\n");
        assert_eq!(raw_of(true, &["\\. \n"]), "\\. \n");
        assert_eq!(raw_of(false, &["\\.\n"]), "\\.\n");
    }

    #[test]
    fn causes_are_counted_the_most_frequent_first() {
        let rejects = [
            reject(b"1\n", None, "one field", "22P04"),
            reject(b"2\n", Some("n"), "first", "22P02"),
            reject(b"3\n", Some("m"), "other column", "22P02"),
            reject(b"4\n", Some("n"), "other code", "22003"),
            reject(b"5\n", Some("n"), "second", "22P02"),
            reject(b",\n", Some("m"), "a constraint", "23502"),
        ];
        let null_reasons = HashMap::from([("m".into(), "no NULL".into())]);
        let (.., told) = written(Telling { null_reasons, by_row: true, ..Telling::default() }, &rejects);
        let causes: Vec<_> =
            told.causes.iter().map(|it| (&*it.column, &*it.sqlstate, it.rejects, &*it.reason)).collect();
        assert_eq!(
            causes,
            [
                ("n", "22P02", 2, "first"),
                ("", "22P04", 1, "one field"),
                ("m", "22P02", 1, "other column"),
                ("n", "22003", 1, "other code"),
                ("m", "23502", 1, "no NULL"),
            ]
        );
        assert_eq!(told.causes[0].record_number, 41);
    }

    #[test]
    fn constraints_are_told_apart() {
        let not_null = "null value in column \"n\" of relation \"t\" violates not-null constraint";
        let rejects = [
            reject(b"1\n", None, "\"t\" violates check constraint \"c\"", "23514"),
            reject(b"2\n", None, "no partition of relation \"t\" found for row (key (2))", "23514"),
            reject(b"3\n", None, "no partition of relation \"t\" found for row (key (3))", "23514"),
            reject(b"4\n", None, "\"t\" violates check constraint \"d\": CHECK ((a > 0))", "23514"),
            reject(b"5\n", None, "\"t\" violates check constraint \"d\": CHECK ((b > 0))", "23514"),
            reject(b"6\n", None, "\"t\" violates check constraint \"d\": CHECK ((a > 0))", "23514"),
            reject(b"7\n", Some("n"), not_null, "23502"),
            reject(b"8\n", None, "a value (1)", "22023"),
            reject(b"9\n", None, "another value", "22023"),
        ];
        let (.., told) = written(Telling::default(), &rejects);
        let causes: Vec<_> = told.causes.iter().map(|it| (it.rejects, &*it.reason)).collect();
        assert_eq!(
            causes,
            [
                (2, "no partition of relation \"t\" found for row (key (2))"),
                (2, "\"t\" violates check constraint \"d\": CHECK ((a > 0))"),
                (2, "a value (1)"),
                (1, "\"t\" violates check constraint \"c\""),
                (1, "\"t\" violates check constraint \"d\": CHECK ((b > 0))"),
                (1, not_null),
            ]
        );
    }

    #[test]
    fn words_that_differ_with_each_record_are_not_so_many_causes() {
        let words = |number: usize| reject(b"1\n", None, &format!("a trigger refuses {number}"), "23514");
        let (.., told) = written(Telling::default(), &(0..3 * MOST_RULES).map(words).collect::<Vec<_>>());
        assert_eq!(told.causes.len(), MOST_RULES + 1);
        assert_eq!(told.causes[0].rejects, 2 * MOST_RULES as u64);
    }

    #[test]
    fn records_that_may_be_many_are_told() {
        let long = [b"\"".as_slice(), &b"line\n".repeat(MANY_LINES)].concat();
        let returns = b"line\r".repeat(MANY_LINES);
        let short = b"line\n".repeat(MANY_LINES - 1);
        let rejects = [
            reject(&short, None, "", ""),
            reject(&long, None, "", ""),
            reject(&returns, None, "", ""),
            reject(b"x", None, &overlong(b"x", 5).reason, "54000"),
            // What a server says of a text that is too long for an index.
            reject(b"x", None, "index row size 9024 exceeds btree version 4 maximum 2704", "54000"),
        ];
        let (.., told) = written(Telling::default(), &rejects);
        let lines: Vec<_> = told.remarks.iter().map(|remark| remark.lines).collect();
        assert_eq!(lines, [Some(MANY_LINES), Some(MANY_LINES), None]);
        let (.., told) = written(Telling { by_row: true, ..Telling::default() }, &rejects);
        assert!(told.remarks.is_empty());
        let (.., told) = written(Telling::default(), &[rejects.as_slice(), &rejects].concat());
        assert_eq!((told.remarks.len(), told.unremarked), (MOST_REMARKS, 3));
    }

    #[test]
    fn records_that_end_inside_quotes_are_kept() {
        let open = |record: &str, quotes: Option<(char, char)>| {
            let (.., told) =
                written(Telling { quotes, ..Telling::default() }, &[reject(record.as_bytes(), None, "", "")]);
            !told.open_ended.is_empty()
        };
        for (record, is_open) in
            [("a,\"b", true), ("a,\"b\"", false), ("\"\"\"", true), ("\"\"", false), ("\\\"", true)]
        {
            assert_eq!(open(record, Some(('"', '"'))), is_open, "{record}");
            assert!(!open(record, None), "{record}");
        }
        for (record, is_open) in [
            ("\\\"", false),
            ("\\\\\"", true),
            ("\\\\\\\"", false),
            ("\"\\", true),
            ("\\x\"", true),
            ("\"a\\\"\"", false),
        ] {
            assert_eq!(open(record, Some(('"', '\\'))), is_open, "{record}");
        }
    }
}
