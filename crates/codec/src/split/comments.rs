//! Takes whole lines that begin with a comment character out of a text that arrives in parts.
//!
//! A comment begins where a record would: not inside quotes, and not after an escaped record end. What stands in it
//! (quotes, escapes) means nothing.

use super::{State, first_record};
use crate::dialect::Dialect;

/// Where the last part has left the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between two records.
    Start,
    /// In a record.
    Record(State),
    /// In a comment.
    Comment,
}

/// Filters one text.
#[derive(Debug)]
pub struct CommentFilter {
    comment: u8,
    place: Place,
}

impl CommentFilter {
    /// A filter of lines that begin with `comment`.
    #[must_use]
    pub fn new(comment: u8) -> Self {
        Self { comment, place: Place::Start }
    }

    /// Removes comments from the bytes of `text` from `begin` on, which follow those of the last call.
    pub fn filter(&mut self, text: &mut Vec<u8>, begin: usize, dialect: &Dialect) {
        let mut read = begin;
        let mut kept = begin;
        while read < text.len() {
            let rest = &text[read..];
            let state = match self.place {
                Place::Comment => {
                    let end = memchr::memchr(dialect.line_end.last_byte(), rest);
                    read += end.map_or(rest.len(), |end| end + 1);
                    if end.is_some() {
                        self.place = Place::Start;
                    }
                    continue;
                }
                Place::Start if rest[0] == self.comment => {
                    self.place = Place::Comment;
                    continue;
                }
                Place::Start => State::Outside,
                Place::Record(state) => state,
            };
            let length = if let Some(end) = first_record(rest, state, dialect) {
                self.place = Place::Start;
                end
            } else {
                self.place = Place::Record(super::count_records(rest, state, dialect).1);
                rest.len()
            };
            if kept != read {
                text.copy_within(read..read + length, kept);
            }
            read += length;
            kept += length;
        }
        text.truncate(kept);
    }
}
