//! Answers what the codec makes of single fields, for `tests/test_values_differential.py`.
//!
//! Each line of standard input is `type<TAB>version<TAB>hex(text)`: the column's type as a plan has it (the JSON form of
//! `ColumnType`), or `scaled18:precision,scale` (also `scaled38`) for a numeric read into an integer, or `check` for
//! JSON as it is checked for other engines; a `DateOrder` and a `|` before a type say how its dates are written; then the
//! server's major version and the field's bytes. Each line of standard output is the answer: the field's COPY binary
//! payload in hexadecimal, `!` with the SQLSTATE of a refusal, or `?` where only the server can say. Where the type has
//! pages, the field is put on one too, which must come to the same: there processors with wide registers read common
//! spellings in another way.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufWriter, Write};

use tipple_codec::column::{Column, ColumnType};
use tipple_codec::dialect::Dialect;
use tipple_codec::encode::copy_binary::CopyBinaryEncoder;
use tipple_codec::encode::heap::{HeapPageEncoder, PageBuffer, PageLayout, Stop, read};
use tipple_codec::notation::Notation;
use tipple_codec::problem::{Problem, ProblemKind};
use tipple_codec::scan::Scanner;
use tipple_codec::value::{Refusal, ServerVersion, TypeFamily, json, numeric};

/// Bytes of other records behind one on a page.
const BEHIND: usize = 64;

fn main() -> io::Result<()> {
    let mut answers = BufWriter::new(io::stdout().lock());
    let mut payload = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("not a question: {line}"));
        let [kind, version, field] =
            <[&str; 3]>::try_from(line.split('\t').collect::<Vec<_>>()).map_err(|_| invalid())?;
        let server = ServerVersion(version.parse().map_err(|_| invalid())?);
        let field = from_hex(field).ok_or_else(invalid)?;
        payload.clear();
        let (answer, family) = answer(kind, server, &field, &mut payload).ok_or_else(invalid)?;
        match answer {
            Ok(()) => writeln!(answers, "{}", to_hex(&payload))?,
            Err(refusal) => match refusal.sqlstate(family) {
                Some(sqlstate) => writeln!(answers, "!{sqlstate}")?,
                None => writeln!(answers, "?")?,
            },
        }
    }
    answers.flush()
}

/// Puts the field's payload into `out`; `None` for a question that this program does not understand.
fn answer(
    kind: &str,
    server: ServerVersion,
    field: &[u8],
    out: &mut Vec<u8>,
) -> Option<(Result<(), Refusal>, TypeFamily)> {
    if kind == "check" {
        return Some((json::check(field).map(|()| out.extend(field)), TypeFamily::Plain));
    }
    if let Some((name, typmod)) = kind.split_once(':').filter(|(name, _)| name.starts_with("scaled")) {
        let (precision, scale) = typmod.split_once(',')?;
        let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
        let value = match name {
            "scaled18" => numeric::parse_scaled_i64(field, precision, scale).map(i128::from),
            _ => numeric::parse_scaled_i128(field, precision, scale),
        };
        let answer = value.map(|value| numeric::encode_binary_from_scaled(value, scale, out));
        return Some((answer, TypeFamily::Plain));
    }
    let (notation, kind) = match kind.split_once('|') {
        Some((order, kind)) => (Notation::Date(serde_json::from_str(&format!("\"{order}\"")).ok()?), kind),
        None => (Notation::Plain, kind),
    };
    let dialect = Dialect { notations: vec![notation], ..Dialect::csv() };
    let kind: ColumnType = serde_json::from_str(kind).ok()?;
    let family = kind.family();
    Some((encode(kind, &dialect, server, field, out), family))
}

/// The field as the only one of a record, in quotes so that nothing in it means anything.
fn encode(
    kind: ColumnType,
    dialect: &Dialect,
    server: ServerVersion,
    field: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let mut quoted = vec![b'"'];
    for &byte in field {
        quoted.extend(std::iter::repeat_n(byte, 1 + usize::from(byte == b'"')));
    }
    quoted.extend(b"\"\n");
    let columns = [Column { name: "v".into(), kind, not_null: false }];
    let mut scanner = Scanner::new(dialect.clone(), 1);
    let mut encoder = CopyBinaryEncoder::new(&columns, dialect.clone(), server, false);
    let encoded = encoder.encode(&scanner.scan(&quoted), out);
    let answer = encoded.problem.map_or(Ok(()), |problem| Err(refusal_of(&problem)));
    let mut spellings = vec![quoted];
    // Without quotes it is read where it stands, unless it is the NULL text.
    if !field.is_empty() && !field.iter().any(|byte| b"\",\n\r".contains(byte)) {
        spellings.push([field, b"\n"].concat());
    }
    for spelling in &spellings {
        let Some(on_page) = put_on_page(&columns, dialect, server, spelling) else { continue };
        let expected = answer.map(|()| out.clone());
        assert_eq!(on_page, expected, "{:?} on a page of {columns:?}", String::from_utf8_lossy(spelling));
    }
    if answer.is_ok() {
        // The number of fields, and the length of this one.
        out.drain(..6);
    }
    answer
}

/// What the first of several such records is on a page, as COPY binary; `None` where it has no place on pages.
fn put_on_page(
    columns: &[Column],
    dialect: &Dialect,
    server: ServerVersion,
    record: &[u8],
) -> Option<Result<Vec<u8>, Refusal>> {
    let layout = PageLayout { block_size: 8192, fillfactor: 100 };
    let mut encoder = HeapPageEncoder::new(columns, &[Some(0)], dialect.clone(), server, layout).ok()?;
    // Records behind it, so that it may be read by more bytes than it has.
    let window = record.repeat(BEHIND.div_ceil(record.len()) + 1);
    let mut scanner = Scanner::new(dialect.clone(), 1);
    let mut memory = vec![0; 2 * layout.block_size];
    let mut pages = PageBuffer::new(&mut memory[..], layout);
    let encoded = encoder.encode_unless(&scanner.scan(&window), 0, &mut pages, |_| false);
    match encoded.stop {
        Some(Stop::TooLarge) => return None,
        Some(Stop::Problem(problem)) if encoded.row == 0 => return Some(Err(refusal_of(&problem))),
        _ => {}
    }
    pages.finish();
    let tuple = *read::tuples(&memory[..layout.block_size]).expect("a readable page").first()?;
    let mut row = Vec::new();
    read::append_copy_binary(tuple, columns, &mut row).expect("a readable tuple");
    Some(Ok(row))
}

fn refusal_of(problem: &Problem) -> Refusal {
    match problem.kind {
        ProblemKind::Value { refusal, .. } => refusal,
        ProblemKind::Structure(what) => panic!("a field is a record: {what:?}"),
    }
}

/// The bytes that pairs of hexadecimal digits spell.
fn from_hex(hex: &str) -> Option<Vec<u8>> {
    if !hex.is_ascii() || !hex.len().is_multiple_of(2) {
        return None;
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}

/// Two hexadecimal digits per byte.
fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a String cannot fail");
        hex
    })
}
