//! Where records begin when a source is cut at arbitrary bytes.
//!
//! Without quotes a record begins after any record end. With quotes it depends on how many quotes stand before, so
//! every part is scanned for both possibilities at once (it began inside quotes, or outside), and the answers are
//! chained afterwards: parts can be scanned in parallel and the cuts are exact all the same.

mod comments;
mod count;
mod quoting;

pub use comments::CommentFilter;
pub use quoting::begins_inside;

use crate::dialect::{Dialect, Family};

/// Where the byte before a part has left the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Outside quotes.
    #[default]
    Outside,
    /// Inside quotes.
    Inside,
    /// Inside quotes, right after an escape that may make the next byte literal.
    Escaped,
}

const STATES: [State; 3] = [State::Outside, State::Inside, State::Escaped];

/// What one part does, for each state in which it may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    after: [State; 3],
    first_record: [Option<usize>; 3],
}

impl Part {
    /// The state behind the part.
    #[must_use]
    pub fn after(&self, before: State) -> State {
        self.after[before as usize]
    }

    /// The first byte in the part, or right behind it, at which a record begins, if a record ends in the part.
    #[must_use]
    pub fn first_record(&self, before: State) -> Option<usize> {
        self.first_record[before as usize]
    }
}

/// Whether cutting this source needs [`scan_part`] over all of it; otherwise [`next_record`] finds a cut locally.
#[must_use]
pub fn needs_scan(dialect: &Dialect) -> bool {
    dialect.family == Family::Csv
}

/// The first byte of `bytes`, or right behind them, at which a record begins for certain, given the byte before
/// them. For dialects without quotes.
#[must_use]
pub fn next_record(bytes: &[u8], before: u8, dialect: &Dialect) -> Option<usize> {
    let end = dialect.line_end.last_byte();
    memchr::memchr_iter(end, bytes).map(|position| position + 1).find(|&start| {
        // A backslash before the record end may have made it literal: such a place is no certain cut.
        dialect.family != Family::Text
            || bytes[..start]
                .strip_suffix(dialect.line_end.bytes())
                .is_some_and(|line| *line.last().unwrap_or(&before) != b'\\')
    })
}

/// Scans one part of a source with quotes, for all states it may begin in.
#[must_use]
pub fn scan_part(bytes: &[u8], dialect: &Dialect) -> Part {
    let mut part = Part { after: STATES, first_record: [None; 3] };
    if dialect.family == Family::Csv && dialect.escape == dialect.quote {
        // A doubled quote closes and opens again, so that only the number of quotes matters. Nothing is ever escaped.
        let (first, odd) = count::first_ends(bytes, dialect.quote, dialect.line_end.last_byte());
        let [outside, inside] = first.map(|end| end.map(|position| position + 1));
        part.first_record = [outside, inside, inside];
        let (from_outside, from_inside) =
            if odd { (State::Inside, State::Outside) } else { (State::Outside, State::Inside) };
        part.after = [from_outside, from_inside, from_inside];
    } else {
        for (index, &state) in STATES.iter().enumerate() {
            part.first_record[index] = first_record(bytes, state, dialect);
            part.after[index] = walk(bytes, state, dialect, |_| false).0;
        }
    }
    part
}

/// The first byte in `bytes`, or right behind them, at which a record begins, if a record ends in them.
#[must_use]
pub fn first_record(bytes: &[u8], state: State, dialect: &Dialect) -> Option<usize> {
    walk(bytes, state, dialect, |_| true).1.map(|position| position + 1)
}

/// Counts the records that end in `bytes`, and gives the state behind them.
#[must_use]
pub fn count_records(bytes: &[u8], state: State, dialect: &Dialect) -> (u64, State) {
    if matches!(dialect.family, Family::Plain | Family::Fixed) {
        return (memchr::memchr_iter(dialect.line_end.last_byte(), bytes).count() as u64, state);
    }
    if dialect.family == Family::Csv && dialect.escape == dialect.quote {
        // A doubled quote closes and opens again, so that only the number of quotes matters.
        let inside = state != State::Outside;
        let (records, inside) = count::count(bytes, inside, dialect.quote, dialect.line_end.last_byte());
        return (records, if inside { State::Inside } else { State::Outside });
    }
    let mut records = 0;
    let (state, _) = walk(bytes, state, dialect, |_| {
        records += 1;
        false
    });
    (records, state)
}

/// Walks from one interesting byte to the next; `stop` is asked at every record end.
fn walk(
    bytes: &[u8],
    mut state: State,
    dialect: &Dialect,
    mut stop: impl FnMut(usize) -> bool,
) -> (State, Option<usize>) {
    let end = dialect.line_end.last_byte();
    let (text, csv) = (dialect.family == Family::Text, dialect.family == Family::Csv);
    let (quote, escape) = match dialect.family {
        Family::Csv => (dialect.quote, dialect.escape),
        Family::Text => (b'\\', b'\\'),
        Family::Plain | Family::Fixed => (end, end),
    };
    let mut escaped_at = None;
    if state == State::Escaped
        && let Some(&first) = bytes.first()
    {
        // In CSV an escape makes only a quote or an escape literal; in the text format any byte.
        escaped_at = (text || first == quote || first == escape).then_some(0);
        state = if text { State::Outside } else { State::Inside };
    }
    for position in memchr::memchr3_iter(end, quote, escape, bytes) {
        if escaped_at.take_if(|at| *at <= position).is_some_and(|at| at == position) {
            continue;
        }
        let byte = bytes[position];
        if text && byte == b'\\' {
            escaped_at = Some(position + 1);
        } else if csv && state == State::Inside && byte == escape && escape != quote {
            match bytes.get(position + 1) {
                Some(&next) if next == quote || next == escape => escaped_at = Some(position + 1),
                Some(_) => {}
                None => return (State::Escaped, None),
            }
        } else if csv && byte == quote {
            state = if state == State::Inside { State::Outside } else { State::Inside };
        } else if byte == end && state == State::Outside && stop(position) {
            return (state, Some(position));
        }
    }
    if text && escaped_at == Some(bytes.len()) {
        return (State::Escaped, None);
    }
    (state, None)
}

#[cfg(test)]
mod tests;
