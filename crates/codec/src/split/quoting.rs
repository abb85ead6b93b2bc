//! Whether text begins inside quotes, as far as the text itself tells.
//!
//! How many quotes stand before a place says that for certain, unless one of them is too many or missing: then all
//! behind it is inside out. Quotes tell by what is beside them: one that opens stands at the beginning of a field, and
//! one that closes at its end.

use super::State;
use crate::dialect::Dialect;

/// So many more quotes must stand where they should if the text begins inside quotes than if it does not: in the middle
/// of a field they are odd, and may be meant.
const MARGIN: usize = 3;

/// Whether `bytes`, which follow a record end, surely begin inside quotes, and not with a record.
///
/// Text that is quoted as it should be and begins with a record never does.
#[must_use]
pub fn begins_inside(bytes: &[u8], dialect: &Dialect) -> bool {
    let (outside, _) = well_placed(bytes, State::Outside, dialect);
    let (inside, are_all) = well_placed(bytes, State::Inside, dialect);
    inside >= MARGIN + 2 * outside || (are_all && inside > 0 && outside == 0)
}

/// The number of quotes before the first one that does not stand where it should, if the text begins in this state, and
/// whether there is no such one.
fn well_placed(bytes: &[u8], state: State, dialect: &Dialect) -> (usize, bool) {
    let Dialect { quote, escape, delimiter, .. } = *dialect;
    let mut inside = state != State::Outside;
    let (mut at, mut count) = (0, 0);
    while let Some(length) = memchr::memchr2(quote, if inside { escape } else { quote }, &bytes[at..]) {
        let place = at + length;
        let next = bytes.get(place + 1).copied();
        if inside && bytes[place] == escape && next.is_some_and(|next| next == quote || next == escape) {
            at = place + 2;
            continue;
        }
        at = place + 1;
        if bytes[place] != quote {
            continue;
        }
        let beside = if inside { next } else { place.checked_sub(1).map(|before| bytes[before]) };
        if beside.is_some_and(|byte| byte != delimiter && byte != b'\n' && byte != b'\r') {
            return (count, false);
        }
        inside = !inside;
        count += 1;
    }
    (count, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_quoted_as_it_should_be_begins_with_a_record() {
        let doubled = Dialect::csv();
        let escaped = Dialect { escape: b'\\', ..doubled.clone() };
        for text in [
            "",
            "a,b\n",
            "\"a\nb\",c\nd,\"e\"\"\n\",f\n",
            "\"\",\"\"\n",
            "a,\",\n\",\"\n\"\n\"x\",y\n",
            "a,\"\"\"\n\"\"\"\n",
            "a\"b,c\n\"d\",e\n",
            "\"a\" \"b\",c\n",
        ] {
            assert!(!begins_inside(text.as_bytes(), &doubled), "{text:?}");
        }
        for text in ["\"a\\\"\n\",b\n", "\"\\\\\",b\n\"c\n\",d\n", "a\\,b\n"] {
            assert!(!begins_inside(text.as_bytes(), &escaped), "{text:?}");
        }
    }

    #[test]
    fn lines_of_a_quoted_text_do_not() {
        let doubled = Dialect::csv();
        let escaped = Dialect { escape: b'\\', ..doubled.clone() };
        for text in [
            "7,forwarded,7,y\nend\",3,x\n8,t,1,x\n9,\"a\nb\",2,x\n",
            "\",1\n2,\"b\",3\n4,\"c\",5\n",
            "end\"\r\n\"a\",b\r\n",
        ] {
            assert!(begins_inside(text.as_bytes(), &doubled), "{text:?}");
            assert!(begins_inside(text.as_bytes(), &escaped), "{text:?}");
        }
        assert!(begins_inside(b"a \"\"b\"\" c\",1\n", &doubled));
        assert!(begins_inside(b"a \\\"b\\\" c\",1\n", &escaped));
    }

    /// Wherever a well quoted text is cut at a record, and however much of it is looked at.
    #[test]
    fn never_at_a_record_of_a_well_quoted_text() {
        let dialect = Dialect::csv();
        let text = "1,\"a\nb\",\"\"\n2,\"say \"\"hi\"\", so\",\"\n\"\n3,,\"\"\"\"\n4,x,\",\"\n".repeat(3);
        let mut begin = 0;
        while let Some(length) = super::super::first_record(&text.as_bytes()[begin..], State::Outside, &dialect) {
            for end in begin..=text.len() {
                assert!(!begins_inside(&text.as_bytes()[begin..end], &dialect), "{begin} {end}");
            }
            begin += length;
        }
    }
}
