//! Tests of `numeric.rs` against golden bytes and an obvious version that works on strings and 128-bit integers.

use super::*;
use proptest::prelude::*;

const OLD: ServerVersion = ServerVersion(15);
const NEW: ServerVersion = ServerVersion::NEWEST;

fn size(precision: u16, scale: i16) -> Option<Typmod> {
    Some(Typmod { precision, scale })
}

/// The binary form as hexadecimal words: count, weight, sign, scale, digits.
fn words(form: &[u8]) -> String {
    let words = form.chunks(2).map(|word| format!("{:x}", u16::from_be_bytes([word[0], word[1]])));
    words.collect::<Vec<_>>().join(" ")
}

fn encode_for(server: ServerVersion, text: &str, typmod: Option<Typmod>) -> Result<String, Refusal> {
    let mut out = b"before".to_vec();
    let result = encode_binary(text.as_bytes(), typmod, server, &mut out);
    assert_eq!(&out[..6], b"before");
    assert!(result.is_ok() || out.len() == 6, "a refusal leaves nothing behind: {text:?}");
    result.map(|()| words(&out[6..]))
}

fn encode(text: &str, typmod: Option<Typmod>) -> Result<String, Refusal> {
    encode_for(NEW, text, typmod)
}

fn encode_scaled(value: i128, scale: u8) -> String {
    let mut out = Vec::new();
    encode_binary_from_scaled(value, scale, &mut out);
    words(&out)
}

/// The obvious version: `value / 10^scale` spelled out, filled up with zeros on both sides of the point, and cut
/// into groups of four.
fn words_slowly(value: i128, scale: usize) -> String {
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let mut text = whole.to_string();
    while !text.len().is_multiple_of(4) {
        text.insert(0, '0');
    }
    let mut weight = text.len() as i64 / 4 - 1;
    text += fraction;
    while !text.len().is_multiple_of(4) {
        text.push('0');
    }
    let groups: Vec<u16> =
        text.as_bytes().chunks(4).map(|g| std::str::from_utf8(g).unwrap().parse().unwrap()).collect();
    let mut groups = &groups[..];
    while let [0, rest @ ..] = groups {
        groups = rest;
        weight -= 1;
    }
    while let [rest @ .., 0] = groups {
        groups = rest;
    }
    let (weight, sign) = if groups.is_empty() { (0, 0) } else { (weight, if value < 0 { 0x4000 } else { 0 }) };
    let mut all = vec![groups.len() as u16, weight as i16 as u16, sign, scale as u16];
    all.extend(groups);
    words(&all.into_iter().flat_map(u16::to_be_bytes).collect::<Vec<_>>())
}

/// `value / 10^from`, rounded half away from zero to `value / 10^to`; `to` may be negative.
fn rescale_slowly(value: i128, from: i32, to: i32) -> i128 {
    if to >= from {
        return value * 10_i128.pow((to - from) as u32);
    }
    let unit = 10_i128.pow((from - to) as u32);
    (value.abs() + unit / 2) / unit * value.signum()
}

#[test]
fn golden_bytes() {
    // SELECT encode(numeric_send('17.00'::numeric(15,2)), 'hex'), and so on.
    for (text, typmod, expected) in [
        ("17.00", size(15, 2), "1 0 0 2 11"),
        ("0.04", size(15, 2), "1 ffff 0 2 190"),
        ("33203.72", size(15, 2), "3 1 0 2 3 c83 1c20"),
        ("-33203.72", size(15, 2), "3 1 4000 2 3 c83 1c20"),
        ("0.00", size(15, 2), "0 0 0 2"),
        ("-0", size(15, 2), "0 0 0 2"),
        ("0", None, "0 0 0 0"),
        ("0.000", None, "0 0 0 3"),
        ("10000", None, "1 1 0 0 1"),
        ("1e10", None, "1 2 0 0 64"),
        ("1.5e-3", None, "1 ffff 0 4 f"),
        ("100e-2", None, "1 0 0 2 1"),
        (" 5. ", None, "1 0 0 0 5"),
        ("+.5", None, "1 ffff 0 1 1388"),
        ("9999.995", size(7, 2), "1 1 0 2 1"),
        ("0.005", size(3, 2), "1 ffff 0 2 64"),
        ("-0.004", size(3, 2), "0 0 0 2"),
        ("12345", size(3, -2), "2 1 0 0 1 8fc"),
        ("50", size(1, -2), "1 0 0 0 64"),
        ("49", size(1, -2), "0 0 0 0"),
        ("0.00123", size(3, 5), "2 ffff 0 5 c bb8"),
        ("NaN", size(15, 2), "0 0 c000 0"),
        (" infinity ", None, "0 0 d000 20"),
        ("-INF", None, "0 0 f000 20"),
        ("+inf", None, "0 0 d000 20"),
    ] {
        assert_eq!(encode(text, typmod).as_deref(), Ok(expected), "{text:?} {typmod:?}");
    }
}

#[test]
fn refusals() {
    for (text, typmod) in [
        ("9999.995", size(6, 2)),
        ("99999999999999.995", size(15, 2)),
        ("10000000000000", size(15, 2)),
        ("-10000000000000.00", size(15, 2)),
        ("0.01", size(3, 5)),
        ("0.009995", size(3, 5)),
        ("99950", size(2, -2)),
        ("inf", size(15, 2)),
        ("1e131072", None),
        ("1e2147483648", None),
        ("1e9999999999999999999", size(15, 2)),
        ("1e-16384", None),
        ("1e9999999999x", None),
    ] {
        assert_eq!(encode(text, typmod), Err(Refusal::OutOfRange), "{text:?}");
    }
    for text in ["", " ", ".", "-", "--1", "+-1", "1e", "1e+", "1.2.3", "1 2", "x", "-nan", "infinit", "nanx", "1,5"] {
        assert_eq!(encode(text, None), Err(Refusal::InvalidSyntax), "{text:?}");
        assert_eq!(parse_scaled_i64(text.as_bytes(), 15, 2), Err(Refusal::InvalidSyntax), "{text:?}");
    }
    for text in ["0x1f", "1_000", "1e1_0", "1.5_5"] {
        assert_eq!(encode(text, None), Err(Refusal::Unsure), "{text:?}");
        assert_eq!(encode_for(OLD, text, None), Err(Refusal::InvalidSyntax), "{text:?}");
        assert_eq!(parse_scaled_i128(text.as_bytes(), 38, 2), Err(Refusal::Unsure), "{text:?}");
    }
    assert_eq!(encode("1e 5", None), Err(Refusal::InvalidSyntax));
    assert_eq!(encode_for(OLD, "1e 5", None), Err(Refusal::Unsure));
    for text in ["NaN", "inf", "-Infinity"] {
        assert_eq!(parse_scaled_i64(text.as_bytes(), 15, 2), Err(Refusal::OutOfRange), "{text:?}");
    }
}

#[test]
fn limits_of_the_type() {
    let largest = "9".repeat(131_072);
    assert!(encode(&largest, None).is_ok_and(|words| words.starts_with("8000 7fff 0 0 270f")));
    assert_eq!(encode(&format!("1{largest}"), None), Err(Refusal::OutOfRange));
    assert!(encode(&format!("000{largest}"), None).is_ok());
    assert_eq!(encode("1e-16383", None).as_deref(), Ok("1 f000 0 3fff a"));
    assert_eq!(encode("0e-16384", None), Err(Refusal::OutOfRange));
    assert_eq!(encode("0e1000000", None).as_deref(), Ok("0 0 0 0"));
    assert_eq!(encode("1e-1000000", size(15, 2)).as_deref(), Ok("0 0 0 2"));
    assert_eq!(encode(&largest, size(1000, 0)), Err(Refusal::OutOfRange));
    assert!(encode(&"9".repeat(1000), size(1000, 0)).is_ok());
}

#[test]
fn scaled_boundaries() {
    assert_eq!(parse_scaled_i64(b"33203.72", 15, 2), Ok(3_320_372));
    assert_eq!(parse_scaled_i64(b"-0.04", 15, 2), Ok(-4));
    assert_eq!(parse_scaled_i64(b"0.005", 15, 2), Ok(1));
    assert_eq!(parse_scaled_i64(b"-0.005", 15, 2), Ok(-1));
    assert_eq!(parse_scaled_i64(b"0.00499999999999999999999", 15, 2), Ok(0));
    assert_eq!(parse_scaled_i64(b"999999999999999999", 18, 0), Ok(999_999_999_999_999_999));
    assert_eq!(parse_scaled_i64(b"1000000000000000000", 18, 0), Err(Refusal::OutOfRange));
    assert_eq!(parse_scaled_i64(b"999999999999999999.5", 18, 0), Err(Refusal::OutOfRange));
    assert_eq!(parse_scaled_i64(b"1", 18, 18), Err(Refusal::OutOfRange));
    assert_eq!(parse_scaled_i64(b"0", 1, 18), Ok(0));
    assert_eq!(parse_scaled_i64(b"1e3", 5, 1), Ok(10_000));
    assert_eq!(parse_scaled_i128("9".repeat(38).as_bytes(), 38, 0), Ok(10_i128.pow(38) - 1));
    assert_eq!(parse_scaled_i128("9".repeat(39).as_bytes(), 38, 0), Err(Refusal::OutOfRange));
    assert_eq!(parse_scaled_i128(b"1", 38, 38), Err(Refusal::OutOfRange));
    assert_eq!(parse_scaled_i128(b"-.5", 38, 38), Ok(-5 * 10_i128.pow(37)));
}

#[test]
fn typmods_of_the_catalogue() {
    assert_eq!(Typmod::from_atttypmod(-1), None);
    assert_eq!(Typmod::from_atttypmod((15 << 16 | 2) + 4), size(15, 2));
    assert_eq!(Typmod::from_atttypmod((3 << 16 | (-2 & 0x7FF)) + 4), size(3, -2));
    assert_eq!(Typmod::from_atttypmod((1000 << 16 | (-1000 & 0x7FF)) + 4), size(1000, -1000));
    assert_eq!(Typmod::from_atttypmod((1000 << 16 | 1000) + 4), size(1000, 1000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_follows_a_number_in_a_window_is_no_part_of_it(
        text in "-?[0-9]{0,9}[.]?[0-9]{0,5}|[-0-9.e ]{0,12}",
        behind in "[-0-9.|e]{0,20}",
        precision in 1_u8..=18,
        scale in 0_u8..=5,
    ) {
        let scale = scale.min(precision);
        let window = format!("{text}{behind}");
        // SAFETY: all of the window can be read.
        let within = unsafe { Span::within(&window.as_bytes()[..text.len()], window.len()) };
        let alone = Span::from(text.as_bytes());
        prop_assert_eq!(parse_scaled_i64(within, precision, scale), parse_scaled_i64(alone, precision, scale));
        // The reader of the whole grammar knows no window.
        if let Ok(value) = parse_scaled_i64(alone, precision, scale) {
            prop_assert_eq!(Ok(i128::from(value)), parse_scaled_slowly(text.as_bytes(), precision, scale));
        }
        let typmod = size(u16::from(precision), i16::from(scale));
        let binary = |span: Span<'_>| {
            let mut out = Vec::new();
            encode_binary(span, typmod, NEW, &mut out).map(|()| out)
        };
        prop_assert_eq!(binary(within), binary(alone));
    }

    #[test]
    fn as_integer_arithmetic_says(
        // The reference shifts by up to twenty places more, which an i128 has to hold.
        digits in 0_u32..=18, seed: u128, negative: bool, fraction in 0_usize..=12, exponent in prop::option::of(-6_i32..=6),
        precision in 1_u16..=30, scale in -4_i16..=14,
    ) {
        let mantissa = (seed % 10_u128.pow(digits)) as i128;
        let mantissa = if negative { -mantissa } else { mantissa };
        let spelled = format!("{:0>width$}", mantissa.unsigned_abs(), width = fraction + 1);
        let (whole, decimals) = spelled.split_at(spelled.len() - fraction);
        let mut text = format!("{}{whole}", if negative { "-" } else { "" });
        if fraction > 0 {
            text += &format!(".{decimals}");
        }
        if let Some(exponent) = exponent {
            text += &format!("e{exponent}");
        }
        let places = fraction as i32 - exponent.unwrap_or(0);

        let plain = rescale_slowly(mantissa, places, places.max(0));
        prop_assert_eq!(encode(&text, None), Ok(words_slowly(plain, places.max(0) as usize)), "{}", text);

        let rounded = rescale_slowly(mantissa, places, i32::from(scale));
        let fits = rounded.unsigned_abs() < 10_u128.pow(u32::from(precision));
        let shown = rescale_slowly(rounded, i32::from(scale), i32::from(scale.max(0)));
        let expected = if fits { Ok(words_slowly(shown, scale.max(0) as usize)) } else { Err(Refusal::OutOfRange) };
        prop_assert_eq!(encode(&text, size(precision, scale)), expected, "{} {} {}", text, precision, scale);

        if scale >= 0 {
            let expected = if fits { Ok(rounded) } else { Err(Refusal::OutOfRange) };
            prop_assert_eq!(parse_scaled_i128(text.as_bytes(), precision as u8, scale as u8), expected, "{}", text);
            if precision <= 18 {
                let narrow = parse_scaled_i64(text.as_bytes(), precision as u8, scale as u8).map(i128::from);
                prop_assert_eq!(narrow, expected, "{}", text);
            }
        }
    }

    #[test]
    fn scaled_integers_have_the_form_of_their_text(value: i128, cut in 0_u32..38, scale in 0_u8..=38) {
        let value = value % 10_i128.pow(38) / 10_i128.pow(cut);
        prop_assert_eq!(encode_scaled(value, scale), words_slowly(value, usize::from(scale)));
        prop_assert_eq!(encode_scaled(0, scale), words_slowly(0, usize::from(scale)));
    }

    #[test]
    fn nothing_panics(text in "[-+ ]{0,2}[0-9._]{0,24}([eE][-+ ]?[0-9]{0,11})?[ x]?", p in 1_u8..=38, s in 0_u8..=38) {
        for server in [OLD, NEW] {
            let _ = encode_for(server, &text, None);
            let _ = encode_for(server, &text, size(u16::from(p), i16::from(s)));
        }
        let _ = parse_scaled_i128(text.as_bytes(), p, s);
        let _ = parse_scaled_i64(text.as_bytes(), p.min(18), s);
    }
}
