//! Answers what the codec makes of single fields, for `tests/test_values_differential.py`.
//!
//! Each line of standard input is `type<TAB>typmod<TAB>version<TAB>hex(text)`: the type's name in PostgreSQL (or
//! `scaled18`, `scaled38` for a numeric read into an integer), its typmod as one writes it in brackets (or
//! nothing), the server's major version and the field's bytes. Each line of standard output is the answer: the
//! field's COPY binary payload in hexadecimal, `!` with the SQLSTATE of a refusal, or `?` where only the server
//! can say.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufWriter, Write};

use tipple_codec::value::numeric::{self, Typmod};
use tipple_codec::value::{Refusal, ServerVersion, TypeFamily, boolean, date, float, integer, text, timestamp};

fn main() -> io::Result<()> {
    let mut answers = BufWriter::new(io::stdout().lock());
    let mut payload = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("not a question: {line}"));
        let [type_name, typmod, version, field] =
            <[&str; 4]>::try_from(line.split('\t').collect::<Vec<_>>()).map_err(|_| invalid())?;
        let server = ServerVersion(version.parse().map_err(|_| invalid())?);
        let field = from_hex(field).ok_or_else(invalid)?;
        let typmod = typmod
            .split(',')
            .filter(|part| !part.is_empty())
            .map(str::parse)
            .collect::<Result<Vec<i32>, _>>()
            .map_err(|_| invalid())?;
        payload.clear();
        let answer = answer(type_name, &typmod, server, &field, &mut payload).ok_or_else(invalid)?;
        let family = match type_name {
            "date" | "timestamp" => TypeFamily::DateTime,
            _ => TypeFamily::Plain,
        };
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

/// Puts the field's payload into `out`; `None` for a type or typmod that this program does not know.
fn answer(
    type_name: &str,
    typmod: &[i32],
    server: ServerVersion,
    field: &[u8],
    out: &mut Vec<u8>,
) -> Option<Result<(), Refusal>> {
    Some(match (type_name, typmod) {
        ("bool", []) => boolean::parse(field).map(|value| out.push(u8::from(value))),
        ("int2", []) => integer::parse_int2(field, server).map(|value| out.extend(value.to_be_bytes())),
        ("int4", []) => integer::parse_int4(field, server).map(|value| out.extend(value.to_be_bytes())),
        ("int8", []) => integer::parse_int8(field, server).map(|value| out.extend(value.to_be_bytes())),
        ("float4", []) => float::parse_float4(field).map(|value| out.extend(value.to_be_bytes())),
        ("float8", []) => float::parse_float8(field).map(|value| out.extend(value.to_be_bytes())),
        ("numeric", []) => numeric::encode_binary(field, None, server, out),
        ("numeric", &[precision, scale]) => {
            let typmod = Typmod { precision: precision.try_into().ok()?, scale: scale.try_into().ok()? };
            numeric::encode_binary(field, Some(typmod), server, out)
        }
        (name @ ("scaled18" | "scaled38"), &[precision, scale]) => {
            let (precision, scale) = (precision.try_into().ok()?, scale.try_into().ok()?);
            let value = match name {
                "scaled18" => numeric::parse_scaled_i64(field, precision, scale).map(i128::from),
                _ => numeric::parse_scaled_i128(field, precision, scale),
            };
            value.map(|value| numeric::encode_binary_from_scaled(value, scale, out))
        }
        ("text", []) => {
            out.extend(field);
            Ok(())
        }
        ("varchar", &[limit]) => text::fit_varchar(field, limit.try_into().ok()?).map(|text| out.extend(text)),
        ("bpchar", &[limit]) => text::fit_char(field, limit.try_into().ok()?).map(|(text, pad_spaces)| {
            out.extend(text);
            out.resize(out.len() + pad_spaces, b' ');
        }),
        ("date", []) => date::parse(field).map(|days| out.extend(days.to_be_bytes())),
        ("timestamp", []) => timestamp::parse(field).map(|micros| out.extend(micros.to_be_bytes())),
        ("timestamp", &[precision]) => timestamp::parse_with_precision(field, precision.try_into().ok()?)
            .map(|micros| out.extend(micros.to_be_bytes())),
        _ => return None,
    })
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
