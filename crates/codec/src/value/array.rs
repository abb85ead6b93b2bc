//! Arrays: how PostgreSQL's `array_in` finds the elements of `{a,"b c",NULL}` and `{{1,2},{3,4}}`.
//!
//! Read here is the notation that all versions read alike: braces, elements with or without quotes, `NULL`, white space
//! around any of them, all arrays of one level of one length. Bounds (`[0:1]={1,2}`), backslashes outside quotes and
//! everything malformed is [`Refusal::Unsure`]. What the elements mean is their own type's affair.

use super::{Refusal, is_space, trim};
use std::ops::Range;

/// The most dimensions that the server has (`MAXDIM`).
pub const MAX_DIMENSIONS: usize = 6;

/// Reads arrays, one after the other, without a new allocation for each.
#[derive(Debug, Clone, Default)]
pub struct ArrayReader {
    /// The elements' texts, one after the other.
    texts: Vec<u8>,
    /// Where each of them is; `None` for NULL.
    elements: Vec<Option<Range<usize>>>,
    lengths: [usize; MAX_DIMENSIONS],
    depth: usize,
}

impl ArrayReader {
    /// Finds the elements of `text`.
    ///
    /// # Errors
    /// [`Refusal::Unsure`] for everything that is not read here.
    pub fn read(&mut self, text: &[u8]) -> Result<(), Refusal> {
        self.texts.clear();
        self.elements.clear();
        self.depth = 0;
        let rest = trim(text);
        if rest.first() != Some(&b'{') {
            return Err(Refusal::Unsure);
        }
        if let [b'{', inner @ .., b'}'] = rest
            && trim(inner).is_empty()
        {
            return Ok(());
        }
        self.read_nested(rest)
    }

    fn read_nested(&mut self, text: &[u8]) -> Result<(), Refusal> {
        // Per level: how many items have been read, and how many each array of the level has (0: not known yet).
        let mut counts = [0; MAX_DIMENSIONS];
        self.lengths = [0; MAX_DIMENSIONS];
        let mut level = 0;
        let mut rest = text;
        loop {
            // An item begins: an array of the next level, or an element.
            rest = skip_space(rest);
            if let [b'{', after @ ..] = rest {
                if level == MAX_DIMENSIONS || (self.depth != 0 && level == self.depth) {
                    return Err(Refusal::Unsure);
                }
                counts[level] = 0;
                level += 1;
                rest = after;
                continue;
            }
            if level == 0 || (self.depth != 0 && level != self.depth) {
                return Err(Refusal::Unsure);
            }
            self.depth = level;
            rest = skip_space(self.read_element(rest)?);
            counts[level - 1] += 1;
            // After an item: the next one, or the ends of arrays.
            while let [b'}', after @ ..] = rest {
                let length = &mut self.lengths[level - 1];
                if *length == 0 {
                    *length = counts[level - 1];
                } else if *length != counts[level - 1] {
                    return Err(Refusal::Unsure);
                }
                level -= 1;
                rest = skip_space(after);
                if level == 0 {
                    return if rest.is_empty() { Ok(()) } else { Err(Refusal::Unsure) };
                }
                counts[level - 1] += 1;
            }
            let [b',', after @ ..] = rest else { return Err(Refusal::Unsure) };
            rest = after;
        }
    }

    /// Reads one element and returns what follows it.
    fn read_element<'t>(&mut self, text: &'t [u8]) -> Result<&'t [u8], Refusal> {
        let start = self.texts.len();
        if let [b'"', quoted @ ..] = text {
            let mut rest = quoted;
            loop {
                let plain = memchr::memchr2(b'"', b'\\', rest).ok_or(Refusal::Unsure)?;
                self.texts.extend_from_slice(&rest[..plain]);
                match &rest[plain..] {
                    [b'\\', escaped, after @ ..] => {
                        self.texts.push(*escaped);
                        rest = after;
                    }
                    [b'"', after @ ..] => {
                        self.elements.push(Some(start..self.texts.len()));
                        return Ok(after);
                    }
                    _ => return Err(Refusal::Unsure),
                }
            }
        }
        let end = text.iter().position(|byte| matches!(byte, b',' | b'}')).ok_or(Refusal::Unsure)?;
        let (element, rest) = text.split_at(end);
        let element = trim(element);
        if element.is_empty() || element.iter().any(|byte| matches!(byte, b'{' | b'"' | b'\\')) {
            return Err(Refusal::Unsure);
        }
        if element.eq_ignore_ascii_case(b"NULL") {
            self.elements.push(None);
        } else {
            self.texts.extend_from_slice(element);
            self.elements.push(Some(start..self.texts.len()));
        }
        Ok(rest)
    }

    /// How many elements each array of each level has, the outermost first; nothing for an empty array.
    #[must_use]
    pub fn lengths(&self) -> &[usize] {
        &self.lengths[..self.depth]
    }

    /// The elements' texts, `None` for NULL, the last dimension running fastest.
    pub fn elements(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.elements.iter().map(|element| element.clone().map(|place| &self.texts[place]))
    }
}

fn skip_space(mut text: &[u8]) -> &[u8] {
    while text.first().is_some_and(|&byte| is_space(byte)) {
        text = &text[1..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<(Vec<usize>, Vec<Option<String>>), Refusal> {
        let mut reader = ArrayReader::default();
        reader.read(text.as_bytes())?;
        let text_of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok((reader.lengths().to_vec(), reader.elements().map(|element| element.map(text_of)).collect()))
    }

    fn array(lengths: &[usize], elements: &[Option<&str>]) -> Result<(Vec<usize>, Vec<Option<String>>), Refusal> {
        Ok((lengths.to_vec(), elements.iter().map(|element| element.map(String::from)).collect()))
    }

    #[test]
    fn golden_values() {
        assert_eq!(read("{}"), array(&[], &[]));
        assert_eq!(read(" { } "), array(&[], &[]));
        assert_eq!(read("{1,NULL,3}"), array(&[3], &[Some("1"), None, Some("3")]));
        assert_eq!(read("{ a b , \"null\",nUlL , \"\" }"), array(&[4], &[Some("a b"), Some("null"), None, Some("")]));
        assert_eq!(read(r#"{"a\"b\\c,{}"}"#), array(&[1], &[Some("a\"b\\c,{}")]));
        assert_eq!(read("{{1,2},{3,4}}"), array(&[2, 2], &[Some("1"), Some("2"), Some("3"), Some("4")]));
        assert_eq!(read("{{{x}} , {{y}}}"), array(&[2, 1, 1], &[Some("x"), Some("y")]));
        assert_eq!(read("{{{{{{1}}}}}}"), array(&[1; 6], &[Some("1")]));
    }

    #[test]
    fn what_is_left_to_the_server() {
        for text in [
            "",
            "1",
            "{",
            "}",
            "{1",
            "1}",
            "{1,}",
            "{,1}",
            "{,}",
            "{1}x",
            "{1}}",
            "{{1},{2,3}}",
            "{{1},2}",
            "{1,{2}}",
            "{{},{}}",
            "{{}}",
            "[0:1]={1,2}",
            "{a\\,b}",
            "{\"a\"b}",
            "{a\"b\"}",
            "{\"a}",
            "{\"a\\",
            "{{{{{{{1}}}}}}}",
            "{\"a\" \"b\"}",
            "{{1}{2}}",
            "{1 {2}}",
        ] {
            assert_eq!(read(text), Err(Refusal::Unsure), "{text}");
        }
    }

    proptest! {
        #[test]
        fn quoted_elements_come_back(elements in prop::collection::vec("[ -~é]{0,6}", 1..6)) {
            let quoted: Vec<String> = elements
                .iter()
                .map(|element| format!("\"{}\"", element.replace('\\', "\\\\").replace('"', "\\\"")))
                .collect();
            let expected: Vec<Option<String>> = elements.iter().cloned().map(Some).collect();
            prop_assert_eq!(read(&format!("{{{}}}", quoted.join(","))), Ok((vec![elements.len()], expected)));
        }

        #[test]
        fn nothing_panics(text in "[{},\"\\\\ aN1]{0,16}") {
            let _ = read(&text);
        }
    }
}
