//! `json`: what PostgreSQL's `json_in` accepts, for engines that would take any text for JSON or name no record.
//!
//! The grammar of RFC 8259; the text itself is the value. PostgreSQL checks it while it receives, so only other engines
//! need this.

use super::{Refusal, misspelled};

/// Deeper texts are not read here: the server's limit is the size of its stack.
const DEEPEST: usize = 512;

/// Checks that `text` is JSON.
///
/// # Errors
/// [`Refusal::InvalidSyntax`] where it is not; [`Refusal::Unsure`] where arrays and objects are nested very deep.
pub fn check(text: &[u8]) -> Result<(), Refusal> {
    let mut reader = Reader { text, place: 0 };
    match reader.document() {
        Ok(()) if reader.place == text.len() => Ok(()),
        Err(Fault::TooDeep) => Err(Refusal::Unsure),
        _ => Err(misspelled(text)),
    }
}

/// Checks that no half of a surrogate pair stands alone in `text`, which is JSON. PostgreSQL's `json` keeps such an
/// escape, other engines do not: it is no character.
///
/// # Errors
/// [`Refusal::InvalidSyntax`] where one does.
pub fn check_surrogates(text: &[u8]) -> Result<(), Refusal> {
    let mut rest = text;
    while let Some(place) = memchr::memchr(b'\\', rest) {
        rest = &rest[place..];
        let length = match escaped_unit(rest) {
            None => 2,
            Some(0xD800..=0xDBFF) if matches!(escaped_unit(&rest[6..]), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => return Err(Refusal::InvalidSyntax),
            Some(_) => 6,
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(())
}

/// The number of the escape `\uXXXX` that a text begins with.
fn escaped_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

enum Fault {
    Syntax,
    TooDeep,
}

struct Reader<'t> {
    text: &'t [u8],
    place: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.place).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.place += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.take(byte) { Ok(()) } else { Err(Fault::Syntax) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.place += 1;
        }
    }

    /// One value with white space around. Not recursive: a bit per level says whether it is an object.
    fn document(&mut self) -> Result<(), Fault> {
        let mut levels = [0_u64; DEEPEST / 64];
        let mut depth = 0_usize;
        let is_object =
            |levels: &[u64; DEEPEST / 64], depth: usize| levels[(depth - 1) / 64] >> ((depth - 1) % 64) & 1 == 1;
        'value: loop {
            self.space();
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    self.place += 1;
                    if depth == DEEPEST {
                        return Err(Fault::TooDeep);
                    }
                    let (word, bit) = (depth / 64, 1 << (depth % 64));
                    depth += 1;
                    self.space();
                    if open == b'{' {
                        levels[word] |= bit;
                        if !self.take(b'}') {
                            self.key()?;
                            continue 'value;
                        }
                    } else {
                        levels[word] &= !bit;
                        if !self.take(b']') {
                            continue 'value;
                        }
                    }
                    depth -= 1;
                }
                Some(b'"') => self.string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word(b"true")?,
                Some(b'f') => self.word(b"false")?,
                Some(b'n') => self.word(b"null")?,
                _ => return Err(Fault::Syntax),
            }
            // After a value: the next of its level, or the ends of levels.
            loop {
                self.space();
                if depth == 0 {
                    return Ok(());
                }
                let object = is_object(&levels, depth);
                if self.take(b',') {
                    if object {
                        self.space();
                        self.key()?;
                    }
                    continue 'value;
                }
                self.expect(if object { b'}' } else { b']' })?;
                depth -= 1;
            }
        }
    }

    fn key(&mut self) -> Result<(), Fault> {
        self.string()?;
        self.space();
        self.expect(b':')
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        let ends =
            |byte: Option<&u8>| !byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte > 127);
        if self.text[self.place..].starts_with(word) && ends(self.text.get(self.place + word.len())) {
            self.place += word.len();
            return Ok(());
        }
        Err(Fault::Syntax)
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.expect(b'"')?;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.place += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.place += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.place += 1,
                        Some(b'u') => {
                            let digits = self.text.get(self.place + 1..self.place + 5).ok_or(Fault::Syntax)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return Err(Fault::Syntax);
                            }
                            self.place += 5;
                        }
                        _ => return Err(Fault::Syntax),
                    }
                }
                Some(0..=0x1F) | None => return Err(Fault::Syntax),
                Some(_) => self.place += 1,
            }
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        match self.peek() {
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'_' || byte > 127 => Err(Fault::Syntax),
            _ => Ok(()),
        }
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let before = self.place;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.place += 1;
        }
        if self.place > before { Ok(()) } else { Err(Fault::Syntax) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted() {
        for text in [
            "1",
            " null ",
            "\"\"",
            "{}",
            "[ ]",
            "[1,2.5e-3,-0,\"\\u00e9\\n\",true,false]",
            "{\"a\":{\"b\":[[],{}]}, \"c\" : 1}",
            "\"\\ud800\"",
            "\"\\u0000\"",
            "-0.0E+5",
            "\"é\"",
        ] {
            assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
        }
        let deep = "[".repeat(DEEPEST) + &"]".repeat(DEEPEST);
        assert_eq!(check(deep.as_bytes()), Ok(()));
        assert_eq!(check(format!("[{deep}]").as_bytes()), Err(Refusal::Unsure));
    }

    #[test]
    fn halves_of_characters() {
        for text in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u00e9\n""#, "{}", r#""\uD83D\uDE00\u0041""#] {
            assert_eq!(check_surrogates(text.as_bytes()), Ok(()), "{text}");
        }
        for text in [r#""\ud800""#, r#""\udc00""#, r#""\ud83d\ud83d""#, r#"{"\uD800x":1}"#, r#""\\\ud800\n""#] {
            assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
            assert_eq!(check_surrogates(text.as_bytes()), Err(Refusal::InvalidSyntax), "{text}");
        }
    }

    #[test]
    fn refused() {
        for text in [
            "",
            " ",
            "{",
            "]",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "nul",
            "nullx",
            "True",
            "'a'",
            "\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\t\"",
            "1 2",
            "[1 2]",
            "{\"a\":1,}",
            "[}",
            "{]",
            "NaN",
            "1x",
            "\u{a0}1\u{3000}",
        ] {
            assert_eq!(check(text.as_bytes()), Err(Refusal::InvalidSyntax), "{text}");
        }
        assert_eq!(check(b"\"\0\""), Err(Refusal::InvalidEncoding));
    }
}
