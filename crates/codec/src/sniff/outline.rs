//! The records of a chunk, each with its fields, as one pass over its bytes finds them.

use super::Chunk;
use super::records::{End, Quotes, Reader, Span};

/// What a chunk's bytes are made of.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// The fields of all records, one after the other.
    fields: Vec<Span>,
    /// Of every record: how many of them stand before its end.
    ends: Vec<usize>,
    /// The quotes in them, and in what is cut off behind them.
    pub(super) quotes: Quotes,
    /// Whether the source ends inside quotes here.
    pub(super) unterminated: bool,
}

impl Outline {
    /// Reads the whole records of a chunk from `start` on.
    pub(super) fn read(chunk: &Chunk<'_>, start: usize, reader: &Reader<'_>) -> Self {
        let mut outline = Self::default();
        let mut position = start;
        while position < chunk.bytes.len() {
            let before = outline.quotes;
            let whole = outline.fields.len();
            match reader.read(chunk.bytes, position, false, &mut outline.fields, &mut outline.quotes) {
                End::Record(next) => {
                    outline.ends.push(outline.fields.len());
                    position = next;
                }
                End::Text(inside) => {
                    if chunk.ends && !inside {
                        outline.ends.push(outline.fields.len());
                        break;
                    }
                    outline.fields.truncate(whole);
                    outline.unterminated = chunk.ends;
                    if !chunk.ends {
                        // A record that is cut off says little; but a quote in the middle of a field that opens all that
                        // is left of the chunk is none that such quotes surround.
                        let stray = if inside { outline.quotes.stray } else { before.stray };
                        outline.quotes = Quotes { stray, ..before };
                    }
                    break;
                }
            }
        }
        outline
    }

    /// The fields of every record.
    pub(super) fn records(&self) -> impl Iterator<Item = &[Span]> {
        let mut first = 0;
        self.ends.iter().map(move |&end| &self.fields[std::mem::replace(&mut first, end)..end])
    }
}
