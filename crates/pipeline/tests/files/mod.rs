//! Temporary source files, random ones among them, and the slow, obvious reader of a whole file that cutting, reading
//! in windows and loading are compared with.

#![allow(dead_code, reason = "every test file takes what it needs")]

use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tempfile::TempDir;
use tipple_codec::dialect::{Dialect, Family, LineEnd};
use tipple_pipeline::plan::{CutPlan, Source};

/// Files of one test.
pub(crate) struct Files {
    pub(crate) folder: TempDir,
    pub(crate) sources: Vec<Source>,
}

impl Files {
    pub(crate) fn new<C: AsRef<[u8]>>(contents: &[C]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let sources = contents.iter().enumerate().map(|(index, content)| {
            let path = folder.path().join(format!("{index}.txt"));
            std::fs::write(&path, content).expect("writing a temporary file");
            planned(&path)
        });
        let sources = sources.collect();
        Self { folder, sources }
    }

    /// A plan to cut them.
    pub(crate) fn cut_plan(&self, dialect: &Dialect, slice_bytes: u64) -> CutPlan {
        CutPlan {
            groups: true,
            sources: self.sources.clone(),
            dialect: dialect.clone(),
            skips: false,
            columns: 2,
            header: false,
            slice_bytes,
            streams: 2,
            max_record_bytes: 1 << 20,
            columnar: None,
        }
    }
}

/// A file as it is now.
pub(crate) fn planned(path: &Path) -> Source {
    let metadata = std::fs::metadata(path).expect("the file's metadata");
    let mtime_ns = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
    Source { path: path.to_owned(), size: metadata.len(), mtime_ns, form: None, path_columns: Vec::new() }
}

/// A record of a file: where it begins, and its bytes without its record end.
pub(crate) type Record = (u64, Vec<u8>);

/// The records of a well-written file, byte by byte, and where its data end.
pub(crate) fn read(file: &[u8], dialect: &Dialect, header: bool) -> (Vec<Record>, u64) {
    let mut records = Vec::new();
    let mut start = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut position = start;
    let mut in_quote = false;
    while position < file.len() {
        let byte = file[position];
        let next = file.get(position + 1).copied();
        let end = dialect.line_end.bytes();
        let escapes_next = match dialect.family {
            Family::Text => byte == b'\\',
            Family::Csv if in_quote && byte == dialect.escape && dialect.escape != dialect.quote => {
                next.is_some_and(|next| next == dialect.quote || next == dialect.escape)
            }
            Family::Csv | Family::Plain | Family::Fixed => false,
        };
        if escapes_next {
            position += 2;
        } else if dialect.family == Family::Csv && byte == dialect.quote {
            in_quote = !in_quote;
            position += 1;
        } else if !in_quote && file[position..].starts_with(end) {
            records.push((start as u64, file[start..position].to_vec()));
            position += end.len();
            start = position;
        } else {
            position += 1;
        }
    }
    let mut data_end = file.len() as u64;
    if start < file.len() {
        records.push((start as u64, file[start..].to_vec()));
    } else if dialect.family == Family::Text && records.last().is_some_and(|(_, bytes)| bytes == b"\\.") {
        data_end = records.pop().map_or(data_end, |(start, _)| start);
    }
    if header && !records.is_empty() {
        records.remove(0);
    }
    (records, data_end)
}

/// Every kind of dialect with every record end.
pub(crate) fn dialects() -> Vec<Dialect> {
    let kinds = [Dialect::csv(), Dialect { escape: b'\\', ..Dialect::csv() }, Dialect::text(), Dialect::tbl()];
    let ends = [LineEnd::Lf, LineEnd::Crlf, LineEnd::Cr];
    kinds.iter().flat_map(|kind| ends.map(|line_end| Dialect { line_end, ..kind.clone() })).collect()
}

/// A dialect and well-written files of records of two fields, with all that may stand around records.
pub(crate) fn any_files(files: usize, rows: usize) -> impl Strategy<Value = (Dialect, Vec<Vec<u8>>)> {
    proptest::sample::select(dialects()).prop_flat_map(move |dialect| {
        let file = any_file(&dialect, rows);
        (Just(dialect), proptest::collection::vec(file, 1..=files))
    })
}

/// One such file. Its first record has a record end, so that it says which one it uses.
pub(crate) fn any_file(dialect: &Dialect, rows: usize) -> impl Strategy<Value = Vec<u8>> + use<> {
    let dialect = dialect.clone();
    let mut fields: Vec<Vec<u8>> = ["", "a", "é", "aaaaaaaaaaaaaaaaaaa"].map(Into::into).into();
    let special: &[&[u8]] = match dialect.family {
        Family::Csv if dialect.escape == b'\\' => {
            &[b"\"\\\"\"", b"\"\\\\\"", b"\"\n\"", b"\"\r\n\\\"\"", b"\"\r\"", b"\"\\\n\\\"\r\\\\\"", b"\\"]
        }
        Family::Csv => &[b"\"\"", b"\"\"\"\"", b"\"\n\"", b"\"\r\n\"\"\n\"", b"\"\r\"", b"a\",\"b", b"\\.", b"\\"],
        Family::Text => &[b"\\\\", b"\\\n", b"\\\r", b"\\\\\\\\", b"\\t", b"\\N", b"\\\t", b"\\\\."],
        Family::Plain | Family::Fixed => &[b"\"", b"\\", b"'"],
    };
    fields.extend(special.iter().map(|&field| field.to_vec()));
    let field = proptest::sample::select(fields);
    let rows = proptest::collection::vec((field.clone(), field), 1..=rows);
    (rows, any::<[bool; 3]>()).prop_map(move |(rows, [mark, no_last_end, end_marker])| {
        let mut file = if mark { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
        let count = rows.len();
        for (index, (first, second)) in rows.into_iter().enumerate() {
            // The first record shows the record end before any backslash can hide one.
            let (first, second) = if index == 0 { (b"x".to_vec(), b"y".to_vec()) } else { (first, second) };
            file.extend(first);
            file.push(dialect.delimiter);
            file.extend(second);
            if dialect.trailing_delimiter {
                file.push(dialect.delimiter);
            }
            if index == 0 || index + 1 < count || !no_last_end {
                file.extend(dialect.line_end.bytes());
            }
        }
        if end_marker && dialect.family == Family::Text && !(no_last_end && count > 1) {
            file.extend(b"\\.");
            file.extend(dialect.line_end.bytes());
        }
        file
    })
}
