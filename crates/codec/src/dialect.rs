//! How delimited text is written: the bytes that end fields and records, quote, escape and mean NULL.
//!
//! The names and rules are those of PostgreSQL's COPY (`sql-copy`, "File Formats").

use crate::notation::Notation;
use serde::{Deserialize, Serialize};

/// What a quote, an escape and a newline do inside a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// RFC 4180 as COPY reads it: a quote anywhere in a field opens or closes quoting.
    Csv,
    /// COPY's text format: a backslash takes the special meaning from the next byte, or gives it one.
    Text,
    /// No quoting and no escaping at all (dbgen's `tbl`).
    Plain,
    /// Fields of fixed widths, spaces at their ends cut off.
    Fixed,
}

/// What ends a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineEnd {
    /// `\n`
    Lf,
    /// `\r\n`
    Crlf,
    /// `\r`
    Cr,
}

impl LineEnd {
    /// The byte that is the last one of a record.
    #[must_use]
    pub fn last_byte(self) -> u8 {
        match self {
            Self::Lf | Self::Crlf => b'\n',
            Self::Cr => b'\r',
        }
    }

    /// All bytes of the record end.
    #[must_use]
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::Crlf => b"\r\n",
            Self::Cr => b"\r",
        }
    }

    /// The record end that the first bytes of a file use, as COPY decides it: by the first one met outside quotes.
    /// `None` where the sample holds none.
    #[must_use]
    pub fn detect(sample: &[u8], dialect: &Dialect) -> Option<Self> {
        let mut in_quote = false;
        let mut position = 0;
        while position < sample.len() {
            let byte = sample[position];
            match dialect.family {
                Family::Csv => {
                    if in_quote && dialect.is_escape_pair(sample, position) {
                        position += 2;
                        continue;
                    }
                    if byte == dialect.quote {
                        in_quote = !in_quote;
                    }
                }
                Family::Text if byte == b'\\' => {
                    position += 2;
                    continue;
                }
                Family::Text | Family::Plain | Family::Fixed => {}
            }
            if !in_quote {
                if byte == b'\n' {
                    return Some(Self::Lf);
                }
                if byte == b'\r' {
                    return Some(if sample.get(position + 1) == Some(&b'\n') { Self::Crlf } else { Self::Cr });
                }
            }
            position += 1;
        }
        None
    }
}

/// How the records of a source are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialect {
    /// What quotes, escapes and newlines mean.
    pub family: Family,
    /// The byte between two fields.
    pub delimiter: u8,
    /// The quote; used by [`Family::Csv`] only.
    pub quote: u8,
    /// The byte that makes a quote inside quotes literal; usually the quote itself.
    pub escape: u8,
    /// The unquoted text that means NULL.
    pub null_text: String,
    /// A delimiter also follows the last field (dbgen's `tbl`).
    pub trailing_delimiter: bool,
    /// What ends a record.
    pub line_end: LineEnd,
    /// By column: how NULL is told in other ways; empty where no column has one.
    #[serde(default)]
    pub null_rules: Vec<NullRule>,
    /// By column: how its values are written; empty where all are [`Notation::Plain`].
    #[serde(default)]
    pub notations: Vec<Notation>,
    /// The fields' widths in characters; for [`Family::Fixed`] only, one per field.
    #[serde(default)]
    pub widths: Vec<u32>,
    /// The fields that no column takes, by index, in ascending order.
    #[serde(default)]
    pub left_out: Vec<usize>,
}

/// How a column of CSV tells NULL, apart from the unquoted NULL text (COPY's FORCE_NULL and FORCE_NOT_NULL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NullRule {
    /// The NULL text means NULL in quotes too.
    pub quoted_is_null: bool,
    /// The NULL text without quotes is a value.
    pub unquoted_is_value: bool,
}

impl Dialect {
    /// Comma, doubled quotes, empty text is NULL: COPY's CSV.
    #[must_use]
    pub fn csv() -> Self {
        Self {
            family: Family::Csv,
            delimiter: b',',
            quote: b'"',
            escape: b'"',
            null_text: String::new(),
            trailing_delimiter: false,
            line_end: LineEnd::Lf,
            null_rules: Vec::new(),
            notations: Vec::new(),
            widths: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Tabs and backslashes, `\N` is NULL: COPY's text format.
    #[must_use]
    pub fn text() -> Self {
        Self { family: Family::Text, delimiter: b'\t', null_text: "\\N".into(), ..Self::csv() }
    }

    /// Bars, one after the last field too: what dbgen writes.
    #[must_use]
    pub fn tbl() -> Self {
        Self { family: Family::Plain, delimiter: b'|', trailing_delimiter: true, ..Self::csv() }
    }

    /// Fields of these widths, in characters.
    #[must_use]
    pub fn fixed(widths: Vec<u32>) -> Self {
        Self { family: Family::Fixed, widths, ..Self::csv() }
    }

    /// Whether the escape at `position` and the byte after it stand for one literal byte inside quotes, in a
    /// dialect whose escape is not the quote. (Where it is the quote, a doubled quote closes and opens again,
    /// which comes to the same for finding record ends.)
    #[inline]
    pub(crate) fn is_escape_pair(&self, text: &[u8], position: usize) -> bool {
        self.escape != self.quote
            && text[position] == self.escape
            && text.get(position + 1).is_some_and(|&next| next == self.quote || next == self.escape)
    }

    /// How many fields a record has whose values go into `columns` columns.
    #[must_use]
    pub fn fields(&self, columns: usize) -> usize {
        columns + self.left_out.len()
    }

    /// The field whose values a column takes, by index.
    #[must_use]
    pub fn field_of(&self, column: usize) -> usize {
        self.left_out.iter().fold(column, |field, &left_out| field + usize::from(left_out <= field))
    }

    /// Structural bytes per record of `fields` fields.
    #[must_use]
    pub(crate) fn stride(&self, fields: usize) -> usize {
        fields + usize::from(self.trailing_delimiter)
    }
}
