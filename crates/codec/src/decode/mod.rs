//! The value text of a field: quotes and escapes removed, NULL told apart from an empty text.

mod doubled;

use crate::dialect::{Dialect, Family};
use crate::notation::Notation;
use crate::scan::RawField;
use crate::value::Span;
use doubled::undouble;

/// Decodes fields, with one scratch buffer for those that need a copy.
#[derive(Debug)]
pub struct Decoder {
    dialect: Dialect,
    quote_hint: QuoteHint,
    scratch: Vec<u8>,
    rewritten: Vec<u8>,
}

/// Length and first byte of the NULL text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NullHint {
    length: usize,
    first: Option<u8>,
}

/// The quote, where a text between two of them stands for itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuoteHint {
    quote: Option<u8>,
}

impl QuoteHint {
    /// The text of a marked field that is short and has its only quotes around it; of others it says nothing.
    #[inline(always)]
    pub(crate) fn text(self, field: RawField<'_>) -> Option<Span<'_>> {
        let quote = self.quote?;
        let [first, text @ .., last] = field.bytes else { return None };
        let is_short = text.len() <= SHORT_BYTES && field.readable > text.len() + WORD_BYTES;
        if *first != quote || *last != quote || !is_short {
            return None;
        }
        // SAFETY: from the text's own first byte on the window has one byte less than from the quote, and so a word more than
        // it.
        unsafe { (!short_holds(text, quote)).then(|| Span::within(text, field.readable - 1)) }
    }
}

impl NullHint {
    /// Whether nothing that readers read by four may be NULL ([`Reader::READS_FOUR`](crate::value::reader::Reader)): that
    /// begins with a digit or a minus sign.
    #[inline(always)]
    pub(crate) fn is_no_number(self) -> bool {
        !self.first.is_some_and(|first| first.is_ascii_digit() || first == b'-')
    }

    /// Whether a field may be NULL; if not, it has a value.
    #[inline(always)]
    pub(crate) fn matches(self, bytes: &[u8]) -> bool {
        bytes.len() == self.length && (self.length == 0 || bytes.first().copied() == self.first)
    }
}

impl Decoder {
    /// A decoder for the fields of `dialect`.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        let Dialect { family, quote, escape, ref null_rules, .. } = dialect;
        let forces_null = null_rules.iter().any(|rule| rule.quoted_is_null);
        let quote = (family == Family::Csv && quote == escape && !forces_null).then_some(quote);
        Self { dialect, quote_hint: QuoteHint { quote }, scratch: Vec::new(), rewritten: Vec::new() }
    }

    /// What tells quickly that a field which is not marked is not NULL.
    pub(crate) fn null_hint(&self) -> NullHint {
        let null = self.dialect.null_text.as_bytes();
        NullHint { length: null.len(), first: null.first().copied() }
    }

    /// What tells quickly that a marked field has a value, and which.
    pub(crate) fn quote_hint(&self) -> QuoteHint {
        self.quote_hint
    }

    /// The text of a field of this column in the grammar of the column's type, or `None` for NULL.
    #[inline(always)]
    pub fn decode<'a>(&'a mut self, field: RawField<'a>, column: usize) -> Option<&'a [u8]> {
        match self.notation(column) {
            Notation::Plain => self.decode_plain(field, column),
            notation => self.decode_noted(field, column, notation),
        }
    }

    /// How the values of a column are written.
    #[inline(always)]
    pub(crate) fn notation(&self, column: usize) -> Notation {
        self.dialect.notations.get(column).copied().unwrap_or_default()
    }

    #[inline(never)]
    fn decode_noted<'a>(&'a mut self, field: RawField<'a>, column: usize, notation: Notation) -> Option<&'a [u8]> {
        let mut rewritten = std::mem::take(&mut self.rewritten);
        rewritten.clear();
        let is_other = self.decode_plain(field, column).is_some_and(|text| notation.rewrite(text, &mut rewritten));
        self.rewritten = rewritten;
        if is_other { Some(&self.rewritten) } else { self.decode_plain(field, column) }
    }

    /// The text of a field as it is written, or `None` for NULL.
    #[inline(always)]
    pub(crate) fn decode_plain<'a>(&'a mut self, field: RawField<'a>, column: usize) -> Option<&'a [u8]> {
        if !field.marked {
            let null = self.dialect.null_text.as_bytes();
            // Most often it is empty, and then its length says all.
            if field.bytes.len() == null.len() && (null.is_empty() || field.bytes == null) {
                return if self.dialect.null_rules.is_empty() { None } else { self.unquoted_null(field.bytes, column) };
            }
            return Some(field.bytes);
        }
        if let Some(span) = self.quote_hint.text(field) {
            return Some(span.text());
        }
        self.decode_marked(field, column)
    }

    #[inline(never)]
    fn unquoted_null<'a>(&self, bytes: &'a [u8], column: usize) -> Option<&'a [u8]> {
        self.dialect.null_rules.get(column).is_some_and(|rule| rule.unquoted_is_value).then_some(bytes)
    }

    /// Whether `text`, which was quoted, is NULL nevertheless.
    #[inline(always)]
    fn forces_null(&self, column: usize, text: &[u8]) -> bool {
        let forced = self.dialect.null_rules.get(column).is_some_and(|rule| rule.quoted_is_null);
        forced && text == self.dialect.null_text.as_bytes()
    }

    #[inline(never)]
    fn decode_marked<'a>(&'a mut self, field: RawField<'a>, column: usize) -> Option<&'a [u8]> {
        let bytes = field.bytes;
        if self.dialect.family == Family::Csv
            && let Some(text) = between_quotes(bytes, self.dialect.quote, self.dialect.escape)
        {
            return if self.forces_null(column, text) { None } else { Some(text) };
        }
        self.scratch.clear();
        match self.dialect.family {
            // COPY compares the NULL text before it removes backslashes, and never with a quoted field.
            Family::Text if bytes == self.dialect.null_text.as_bytes() => return None,
            Family::Text => unescape_text(bytes, &mut self.scratch),
            Family::Csv => {
                let Dialect { quote, escape, .. } = self.dialect;
                if quote != escape || !undouble(field, quote, &mut self.scratch) {
                    self.scratch.clear();
                    unquote_csv(bytes, quote, escape, &mut self.scratch);
                }
                if self.forces_null(column, &self.scratch) {
                    return None;
                }
            }
            Family::Fixed => {
                let spaces = bytes.iter().rev().take_while(|&&byte| byte == b' ').count();
                let text = &bytes[..bytes.len() - spaces];
                return (text != self.dialect.null_text.as_bytes()).then_some(text);
            }
            Family::Plain => self.scratch.extend_from_slice(bytes),
        }
        Some(&self.scratch)
    }
}

/// What a field holds that begins and ends with its only quotes and has no escapes, as nearly every quoted field does.
#[inline(always)]
fn between_quotes(bytes: &[u8], quote: u8, escape: u8) -> Option<&[u8]> {
    let [first, text @ .., last] = bytes else { return None };
    let plain = *first == quote && *last == quote && quote_or_escape(quote, escape, text).is_none();
    plain.then_some(text)
}

/// Texts up to so many bytes are looked through here: to call what is made for long ones takes longer.
const SHORT_BYTES: usize = 64;
const WORD_BYTES: usize = 8;

/// Whether a text holds a byte.
///
/// # Safety
/// A word's bytes can be read behind it.
#[inline(always)]
unsafe fn short_holds(text: &[u8], byte: u8) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Bytes that are the one looked for become zero; of a word with a zero byte the lowest one's high bit is borrowed.
    let word = |at: usize| {
        // SAFETY: it begins inside the text, and by the caller's promise a word behind that is there too.
        let word = u64::from_le_bytes(unsafe { text.as_ptr().add(at).cast::<[u8; WORD_BYTES]>().read() });
        word ^ (ONES * u64::from(byte))
    };
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7) != 0;
    let mut at = 0;
    while at + WORD_BYTES <= text.len() {
        if has_zero(word(at)) {
            return true;
        }
        at += WORD_BYTES;
    }
    // What stands behind the text is made unlike it.
    at < text.len() && has_zero(word(at) | u64::MAX << (8 * (text.len() - at)))
}

#[inline(always)]
fn quote_or_escape(quote: u8, escape: u8, text: &[u8]) -> Option<usize> {
    if quote == escape { memchr::memchr(quote, text) } else { memchr::memchr2(quote, escape, text) }
}

/// Removes CSV quoting as COPY does: quotes may open and close anywhere in the field.
fn unquote_csv(bytes: &[u8], quote: u8, escape: u8, text: &mut Vec<u8>) {
    let mut rest = bytes;
    let mut in_quote = false;
    loop {
        let found = if in_quote { quote_or_escape(quote, escape, rest) } else { memchr::memchr(quote, rest) };
        let Some(position) = found else { break };
        text.extend_from_slice(&rest[..position]);
        let byte = rest[position];
        rest = &rest[position + 1..];
        match rest.first() {
            Some(&next) if in_quote && byte == escape && (next == quote || next == escape) => {
                text.push(next);
                rest = &rest[1..];
            }
            _ if byte == quote => in_quote = !in_quote,
            // An escape before anything else stands for itself.
            _ => text.push(byte),
        }
    }
    text.extend_from_slice(rest);
}

/// Resolves the backslash sequences of COPY's text format.
fn unescape_text(bytes: &[u8], text: &mut Vec<u8>) {
    let mut index = 0;
    while index < bytes.len() {
        let byte = bytes[index];
        index += 1;
        if byte != b'\\' || index == bytes.len() {
            text.push(byte);
            continue;
        }
        let escaped = bytes[index];
        index += 1;
        let value = match escaped {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let mut value = u32::from(escaped - b'0');
                let mut digits = 1;
                while digits < 3
                    && let Some(&digit @ b'0'..=b'7') = bytes.get(index)
                {
                    value = value * 8 + u32::from(digit - b'0');
                    index += 1;
                    digits += 1;
                }
                (value & 0xff) as u8
            }
            b'x' if bytes.get(index).is_some_and(u8::is_ascii_hexdigit) => {
                let mut value = 0;
                let mut digits = 0;
                while digits < 2
                    && let Some(digit) = bytes.get(index).and_then(|&digit| (digit as char).to_digit(16))
                {
                    value = value * 16 + digit;
                    index += 1;
                    digits += 1;
                }
                value as u8
            }
            other => other,
        };
        text.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::NullRule;
    use proptest::prelude::*;

    fn decode(dialect: Dialect, bytes: &[u8], marked: bool) -> Option<Vec<u8>> {
        Decoder::new(dialect).decode(RawField::new(bytes, marked), 0).map(<[u8]>::to_vec)
    }

    #[test]
    fn csv_quotes_open_and_close_anywhere() {
        for (field, expected) in [
            (&b"\"a\"\"b\""[..], &b"a\"b"[..]),
            (b"a\"b,c\"d", b"ab,cd"),
            (b"\"\"", b""),
            (b"\"\"\"\"", b"\""),
            (b"\"x\ny\"", b"x\ny"),
        ] {
            assert_eq!(decode(Dialect::csv(), field, true).as_deref(), Some(expected));
        }
    }

    #[test]
    fn csv_with_a_backslash_escape() {
        let dialect = Dialect { escape: b'\\', ..Dialect::csv() };
        assert_eq!(decode(dialect.clone(), br#""a\"b\\c\d""#, true).as_deref(), Some(&br#"a"b\c\d"#[..]));
        assert_eq!(decode(dialect, br"a\b", false).as_deref(), Some(&br"a\b"[..]));
    }

    #[test]
    fn null_is_the_unquoted_null_text_only() {
        assert_eq!(decode(Dialect::csv(), b"", false), None);
        assert_eq!(decode(Dialect::csv(), b"\"\"", true), Some(vec![]));
        assert_eq!(decode(Dialect::text(), b"\\N", true), None);
        assert_eq!(decode(Dialect::text(), b"\\\\N", true), Some(b"\\N".to_vec()));
        assert_eq!(decode(Dialect::text(), b"", false), Some(vec![]));
    }

    #[test]
    fn null_rules_turn_quoted_and_unquoted_around() {
        for (quoted_is_null, unquoted_is_value) in [(false, false), (true, false), (false, true), (true, true)] {
            let rule = NullRule { quoted_is_null, unquoted_is_value };
            let dialect = Dialect { null_text: "NA".into(), null_rules: vec![rule], ..Dialect::csv() };
            let value = Some(b"NA".to_vec());
            assert_eq!(decode(dialect.clone(), b"NA", false), value.clone().filter(|_| unquoted_is_value));
            assert_eq!(decode(dialect.clone(), b"\"NA\"", true), value.filter(|_| !quoted_is_null));
            assert_eq!(decode(dialect, b"\"N\"", true), Some(b"N".to_vec()));
        }
    }

    #[test]
    fn text_backslash_sequences() {
        assert_eq!(
            decode(Dialect::text(), br"\b\f\n\r\t\v\101\1\x41\x4g\xz\q\\", true),
            Some(b"\x08\x0c\n\r\t\x0bA\x01A\x04gxzq\\".to_vec())
        );
        assert_eq!(decode(Dialect::text(), b"a\\\tb", true), Some(b"a\tb".to_vec()));
    }

    /// [`unquote_csv`] byte by byte.
    fn unquote_slowly(bytes: &[u8], quote: u8, escape: u8) -> Vec<u8> {
        let (mut text, mut in_quote, mut index) = (Vec::new(), false, 0);
        while let Some(&byte) = bytes.get(index) {
            let next = bytes.get(index + 1).copied().filter(|&next| next == quote || next == escape);
            index += 1;
            match next {
                Some(next) if in_quote && byte == escape => {
                    text.push(next);
                    index += 1;
                }
                _ if byte == quote => in_quote = !in_quote,
                _ => text.push(byte),
            }
        }
        text
    }

    /// Whatever stands behind it, and in each of its bytes.
    #[test]
    fn a_short_text_holds_a_byte_or_not() {
        for length in 0..=SHORT_BYTES {
            for around in [b'"', b'!', b'#', 0, 255] {
                let mut window = vec![around; length + WORD_BYTES];
                window[..length].fill(b'!');
                // SAFETY: a word stands behind the text.
                let holds = |window: &[u8], byte| unsafe { short_holds(&window[..length], byte) };
                assert!(!holds(&window, b'"'), "{length} bytes before {around}");
                for at in 0..length {
                    for other in [b'#', b'"' ^ 0x80, b'"' - 1, b'"' + 1, 0, 255] {
                        window[at] = other;
                        assert!(!holds(&window, b'"'), "{other} at {at} of {length} bytes before {around}");
                    }
                    window[at] = b'"';
                    assert!(holds(&window, b'"'), "{at} of {length} bytes before {around}");
                    window[at] = b'!';
                }
            }
        }
    }

    /// A text between quotes may be read on into the window; a copy may not.
    #[test]
    fn the_span_of_a_decoded_text_is_the_windows_or_its_own() {
        let window = b"\"ab\"|\"a\"\"b\"|1.2.2024|\"1.2.2024\"|x,more than a word behind";
        let date = &b"2024-02-01"[..];
        for (range, text, own) in
            [(0..4, &b"ab"[..], false), (5..11, b"a\"b", true), (12..20, date, true), (21..31, date, true)]
        {
            let marked = window[range.start] == b'"';
            let field = RawField { bytes: &window[range.clone()], marked, readable: window.len() - range.start };
            let notations = vec![Notation::Date(crate::notation::DateOrder::Dmy)];
            let mut decoder = Decoder::new(Dialect { notations, ..Dialect::csv() });
            let decoded = decoder.decode(field, 0).unwrap();
            assert_eq!(decoded, text);
            let span = field.span(decoded);
            assert_eq!(span.text(), text);
            assert_eq!(span.readable(), if own { text.len() } else { window.len() - range.start - 1 });
        }
    }

    /// Quotes in any place of texts around the lengths of blocks, in a window that ends anywhere behind the field.
    #[test]
    fn doubled_quotes_at_every_place() {
        let behind = ",\"\"\"".repeat(40);
        let mut decoder = Decoder::new(Dialect::csv());
        for length in (0..70).chain(120..135) {
            for place in 0..=length {
                for quotes in ["", "\"", "\"\"", "\"\"\"\"", "\"x\"", "\"\"x\"\"", "\"\"\""] {
                    let window = format!("\"{}{quotes}{}\"{behind}", "a".repeat(place), "b".repeat(length - place));
                    let field = window.len() - behind.len();
                    let expected = unquote_slowly(&window.as_bytes()[..field], b'"', b'"');
                    for readable in [field, field + 1, field + 127, field + 128, window.len()] {
                        let field = RawField { bytes: &window.as_bytes()[..field], marked: true, readable };
                        assert_eq!(decoder.decode(field, 0), Some(&expected[..]), "{window}");
                    }
                }
            }
        }
    }

    /// What each of the processor's instructions makes of `inner` between quotes; `None` where it knows nothing of it.
    fn undouble_by_each(inner: &str, mut check: impl FnMut(Option<&[u8]>)) {
        let window = format!("\"{inner}\"{}", "\" ".repeat(100));
        let bytes = &window.as_bytes()[..inner.len() + 2];
        doubled::by_each(RawField { bytes, marked: true, readable: window.len() }, b'"', &mut check);
    }

    #[test]
    fn all_instructions_undouble_alike() {
        for pieces in 0..200_u8 {
            let piece = |number: u8| match number.wrapping_mul(number).wrapping_add(pieces) % 5 {
                0 => "\"\"".to_owned(),
                letters => (0..letters).map(|letter| char::from(b'a' + (number + letter) % 26)).collect(),
            };
            let inner: String = (0..pieces).map(piece).collect();
            let expected = unquote_slowly(format!("\"{inner}\"").as_bytes(), b'"', b'"');
            undouble_by_each(&inner, |text| assert_eq!(text, Some(&expected[..]), "{inner}"));
        }
    }

    #[test]
    fn no_instructions_take_a_lone_quote() {
        for (length, quotes) in
            [0, 1, 62, 63, 64, 65, 127, 128, 129].into_iter().flat_map(|length| [(length, 1), (length, 3)])
        {
            for behind in [0, 1, 63, 64, 70] {
                let inner = format!("{}{}{}", "a".repeat(length), "\"".repeat(quotes), "b".repeat(behind));
                undouble_by_each(&inner, |text| assert_eq!(text, None, "{inner}"));
            }
        }
    }

    proptest! {
        #[test]
        fn csv_fields_as_the_slow_reader_sees_them(field in "[ab\"\\\\']{0,20}", other_escape: bool) {
            let dialect = Dialect { escape: if other_escape { b'\\' } else { b'"' }, ..Dialect::csv() };
            for field in [field.clone(), format!("\"{field}\"")] {
                let expected = unquote_slowly(field.as_bytes(), dialect.quote, dialect.escape);
                prop_assert_eq!(decode(dialect.clone(), field.as_bytes(), true), Some(expected));
            }
        }
    }
}
