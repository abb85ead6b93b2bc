//! Encodings by the names that PostgreSQL and the WHATWG have for them, and decoding to UTF-8 without replacement.
//!
//! What a byte means is what PostgreSQL's conversions make of it. encoding_rs differs in single-byte encodings: its
//! Latin-1 is Windows-1252, and it takes undefined bytes for control characters. So those go through a table.

use encoding_rs::{DecoderResult, Encoding};

/// Decodes one source.
pub(super) enum Transcoder {
    /// Every byte is a character.
    Table(Box<Table>),
    /// By encoding_rs.
    Library(Box<encoding_rs::Decoder>),
}

/// The UTF-8 form of every byte.
pub(super) struct Table {
    /// Bytes and how many of them; none where the byte has no meaning.
    utf8: [([u8; 3], u8); 256],
}

/// What stands in the text where the encoding has no character: a byte that UTF-8 has nowhere, so that the record which
/// holds it is refused as any other that is no text.
pub const NO_CHARACTER: u8 = 0xff;

/// What UTF-16 may begin with, the low byte first and the high one.
pub(super) const UTF16_MARKS: [[u8; 2]; 2] = [*b"\xff\xfe", *b"\xfe\xff"];

/// A byte that the encoding has no character for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Undecodable {
    /// Where it stands, counted from the first byte of this input; less than 0 where it began in an earlier one.
    pub(super) offset: isize,
}

/// What an encoding's name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// UTF-8: nothing to decode.
    Utf8,
    /// UTF-16 with a byte order mark, else little-endian.
    Utf16,
    /// ISO 8859-1: every byte is the character of its number.
    Latin1,
    /// One that encoding_rs decodes; with `controls` bytes 0x80 to 0x9f are control characters, as in ISO 8859.
    Library {
        /// The encoding.
        encoding: &'static Encoding,
        /// Whether 0x80 to 0x9f are control characters.
        controls: bool,
    },
}

/// PostgreSQL's names (`src/common/encnames.c`), without case and punctuation, and the WHATWG's labels of the same.
/// Not here: EUC_TW, EUC_JIS_2004, JOHAB, MULE_INTERNAL, SHIFT_JIS_2004, which encoding_rs does not know.
const POSTGRESQL_NAMES: &[(&str, &str)] = &[
    ("latin2", "iso-8859-2"),
    ("latin3", "iso-8859-3"),
    ("latin4", "iso-8859-4"),
    ("latin5", "iso-8859-9"),
    ("iso88599", "iso-8859-9"),
    ("latin6", "iso-8859-10"),
    ("latin7", "iso-8859-13"),
    ("latin8", "iso-8859-14"),
    ("latin9", "iso-8859-15"),
    ("latin10", "iso-8859-16"),
    ("iso885916", "iso-8859-16"),
    ("iso88595", "iso-8859-5"),
    ("iso88596", "iso-8859-6"),
    ("iso88597", "iso-8859-7"),
    ("iso88598", "iso-8859-8"),
    ("win1250", "windows-1250"),
    ("win1251", "windows-1251"),
    ("win", "windows-1251"),
    ("win1252", "windows-1252"),
    ("win1253", "windows-1253"),
    ("win1254", "windows-1254"),
    ("win1255", "windows-1255"),
    ("win1256", "windows-1256"),
    ("win1257", "windows-1257"),
    ("win1258", "windows-1258"),
    ("abc", "windows-1258"),
    ("tcvn", "windows-1258"),
    ("tcvn5712", "windows-1258"),
    ("vscii", "windows-1258"),
    ("win866", "ibm866"),
    ("alt", "ibm866"),
    ("win874", "windows-874"),
    ("koi8", "koi8-r"),
    ("koi8r", "koi8-r"),
    ("koi8u", "koi8-u"),
    ("eucjp", "euc-jp"),
    ("euccn", "gbk"),
    ("euckr", "euc-kr"),
    ("uhc", "euc-kr"),
    ("windows949", "euc-kr"),
    ("sjis", "shift_jis"),
    ("shiftjis", "shift_jis"),
    ("mskanji", "shift_jis"),
    ("win932", "shift_jis"),
    ("windows932", "shift_jis"),
    ("big5", "big5"),
    ("win950", "big5"),
    ("windows950", "big5"),
    ("gbk", "gbk"),
    ("win936", "gbk"),
    ("windows936", "gbk"),
    ("gb18030", "gb18030"),
    // Python's names, and those that other tools write without a hyphen.
    ("utf16le", "utf-16le"),
    ("utf16be", "utf-16be"),
];

/// The encoding of this name, if there is one.
#[must_use]
pub fn find(name: &str) -> Option<Named> {
    let folded: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    match folded.as_str() {
        // SQL_ASCII says nothing of the bytes; what is stored has to be UTF-8 all the same.
        "utf8" | "unicode" | "sqlascii" | "ascii" | "usascii" => return Some(Named::Utf8),
        "utf16" => return Some(Named::Utf16),
        "latin1" | "iso88591" => return Some(Named::Latin1),
        _ => {}
    }
    let label = POSTGRESQL_NAMES.iter().find(|(known, _)| *known == folded).map_or(name, |(_, label)| label);
    // The WHATWG reads ISO 8859-9 as Windows-1254; the two differ in the control characters only.
    let controls = label.starts_with("iso-8859-");
    let encoding = Encoding::for_label_no_replacement(label.as_bytes())?;
    if encoding == encoding_rs::UTF_8 {
        return Some(Named::Utf8);
    }
    Some(Named::Library { encoding, controls })
}

impl Transcoder {
    /// What decodes `named`; `None` for UTF-8. `big_endian` is for UTF-16 only.
    pub(super) fn new(named: Named, big_endian: bool) -> Option<Self> {
        match named {
            Named::Utf8 => None,
            Named::Utf16 => {
                let encoding = if big_endian { encoding_rs::UTF_16BE } else { encoding_rs::UTF_16LE };
                Some(Self::Library(Box::new(encoding.new_decoder_without_bom_handling())))
            }
            Named::Latin1 => Some(Self::Table(Box::new(Table::new(|byte| Some(char::from(byte)))))),
            Named::Library { encoding, controls } if encoding.is_single_byte() => {
                Some(Self::Table(Box::new(Table::new(|byte| character(encoding, controls, byte)))))
            }
            Named::Library { encoding, .. } => {
                Some(Self::Library(Box::new(encoding.new_decoder_without_bom_handling())))
            }
        }
    }

    /// Appends the text of `input`, which follows that of the last call; `last` where nothing follows. With `marks`,
    /// [`NO_CHARACTER`] stands for what has no character.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        last: bool,
        marks: bool,
        text: &mut Vec<u8>,
    ) -> Result<(), Undecodable> {
        match self {
            Self::Table(table) => table.decode(input, marks, text),
            Self::Library(decoder) => decode_by_library(decoder, input, last, marks, text),
        }
    }
}

fn decode_by_library(
    decoder: &mut encoding_rs::Decoder,
    input: &[u8],
    last: bool,
    marks: bool,
    text: &mut Vec<u8>,
) -> Result<(), Undecodable> {
    let mut position = 0;
    loop {
        let rest = &input[position..];
        let begin = text.len();
        let room = decoder.max_utf8_buffer_length_without_replacement(rest.len()).unwrap_or(4 * rest.len() + 16);
        text.resize(begin + room, 0);
        let (result, read, written) = decoder.decode_to_utf8_without_replacement(rest, &mut text[begin..], last);
        text.truncate(begin + written);
        position += read;
        match result {
            DecoderResult::InputEmpty => return Ok(()),
            DecoderResult::Malformed(..) if marks => text.push(NO_CHARACTER),
            DecoderResult::OutputFull => return Err(Undecodable { offset: position.cast_signed() }),
            DecoderResult::Malformed(length, after) => {
                let offset = position.cast_signed() - isize::from(length) - isize::from(after);
                return Err(Undecodable { offset });
            }
        }
    }
}

impl Table {
    fn new(character: impl Fn(u8) -> Option<char>) -> Self {
        let mut utf8 = [([0; 3], 0); 256];
        for byte in 0..=255 {
            if let Some(character) = character(byte) {
                let mut form = [0; 4];
                let length = character.encode_utf8(&mut form).len();
                // No single-byte encoding has a character outside the basic plane.
                utf8[usize::from(byte)] = ([form[0], form[1], form[2]], length as u8);
            }
        }
        Self { utf8 }
    }

    fn decode(&self, input: &[u8], marks: bool, text: &mut Vec<u8>) -> Result<(), Undecodable> {
        text.reserve(input.len() + input.len() / 8);
        let mut position = 0;
        while position < input.len() {
            let ascii = Encoding::ascii_valid_up_to(&input[position..]);
            text.extend_from_slice(&input[position..position + ascii]);
            position += ascii;
            while let Some(&byte) = input.get(position).filter(|byte| !byte.is_ascii()) {
                let (form, length) = self.utf8[usize::from(byte)];
                match length {
                    0 if marks => text.push(NO_CHARACTER),
                    0 => return Err(Undecodable { offset: position.cast_signed() }),
                    _ => text.extend_from_slice(&form[..usize::from(length)]),
                }
                position += 1;
            }
        }
        Ok(())
    }
}

/// The character of one byte, if it has one.
fn character(encoding: &'static Encoding, controls: bool, byte: u8) -> Option<char> {
    let is_control = (0x80..=0x9f).contains(&byte);
    if is_control && controls {
        return Some(char::from(byte));
    }
    // Where the WHATWG and PostgreSQL (koi8u_to_utf8.map, win1255_to_utf8.map) disagree.
    match byte {
        0xae if encoding == encoding_rs::KOI8_U => return Some('╝'),
        0xbe if encoding == encoding_rs::KOI8_U => return Some('╬'),
        0xca if encoding == encoding_rs::WINDOWS_1255 => return None,
        _ => {}
    }
    let text = encoding.decode_without_bom_handling_and_without_replacement(std::slice::from_ref(&byte))?;
    let character = text.chars().next()?;
    // A control character in the code pages of Windows is only the WHATWG's way to say "undefined".
    (!(is_control && character == char::from(byte))).then_some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(name: &str, input: &[u8]) -> Result<String, isize> {
        let mut transcoder = Transcoder::new(find(name).expect("a known name"), false).expect("not UTF-8");
        let mut text = Vec::new();
        match transcoder.decode(input, true, false, &mut text) {
            Ok(()) => Ok(String::from_utf8(text).expect("UTF-8")),
            Err(error) => Err(error.offset),
        }
    }

    #[test]
    fn names() {
        for name in ["UTF8", "utf-8", "Unicode", "SQL_ASCII"] {
            assert_eq!(find(name), Some(Named::Utf8));
        }
        for name in ["LATIN1", "latin-1", "ISO_8859_1", "iso-8859-1"] {
            assert_eq!(find(name), Some(Named::Latin1));
        }
        assert!(find("WIN1252").is_some() && find("cp1252").is_some() && find("Shift_JIS").is_some());
        assert!(find("utf-32").is_none() && find("").is_none() && find("latin11").is_none());
        for (name, label) in POSTGRESQL_NAMES {
            assert!(find(name).is_some(), "{name}: {label}");
        }
    }

    #[test]
    fn bytes() {
        assert_eq!(decode("latin1", b"a\xe9\x80\xff").as_deref(), Ok("aé\u{80}ÿ"));
        assert_eq!(decode("win1252", b"\x80uro").as_deref(), Ok("€uro"));
        assert_eq!(decode("win1252", b"ab\x81"), Err(2));
        assert_eq!(decode("latin9", b"\xa4\x80").as_deref(), Ok("€\u{80}"));
        assert_eq!(decode("sjis", b"\x93\xfa\x96{").as_deref(), Ok("日本"));
        assert_eq!(decode("utf-16", b"a\0\x3d\xd8\x82\xde").as_deref(), Ok("a🚂"));
        assert_eq!(decode("utf-16", b"a\0\x3d\xd8x\0"), Err(2));
        assert_eq!(decode("euc-jp", b"abc\xff"), Err(3));
    }

    #[test]
    fn what_has_no_character_is_marked() {
        for (name, input, text) in [
            ("win1252", &b"a\x81\x81\xe9"[..], &b"a\xff\xff\xc3\xa9"[..]),
            ("sjis", b"\x93\xfa\xff,\x96{\x96", b"\xe6\x97\xa5\xff,\xe6\x9c\xac\xff"),
            ("utf-16", b"a\0\x3d\xd8x\0\0\xdcb\0", b"a\xffx\xffb"),
        ] {
            for cut in 0..=input.len() {
                let mut transcoder = Transcoder::new(find(name).expect("known"), false).expect("not UTF-8");
                let mut decoded = Vec::new();
                assert_eq!(transcoder.decode(&input[..cut], false, true, &mut decoded), Ok(()));
                assert_eq!(transcoder.decode(&input[cut..], true, true, &mut decoded), Ok(()));
                assert_eq!(decoded, text, "{name}, cut at {cut}");
            }
        }
    }

    #[test]
    fn cut_anywhere() {
        let input = b"\x93\xfa\x96{a\x93\xfa";
        for cut in 0..=input.len() {
            let mut transcoder = Transcoder::new(find("sjis").expect("known"), false).expect("not UTF-8");
            let mut text = Vec::new();
            assert_eq!(transcoder.decode(&input[..cut], false, false, &mut text), Ok(()));
            assert_eq!(transcoder.decode(&input[cut..], true, false, &mut text), Ok(()));
            assert_eq!(text, "日本a日".as_bytes());
        }
    }
}
