//! What readers make of the same records, as pages.

use super::*;
use crate::scan::Scanner;
use crate::value::Span;
use crate::value::four::{FourStored, FourTexts};
use crate::value::groups::{Groups, Stored};
use crate::value::numeric::NumericSize;
use proptest::prelude::*;
use std::cell::Cell;

const LAYOUT: PageLayout = PageLayout { block_size: 8192, fillfactor: 100 };

/// Reads four texts at once on any processor, one by one, and counts how often it has.
#[derive(Clone, Copy)]
struct InFours<'c>(&'c Cell<usize>);

impl InFours<'_> {
    fn four<T: Copy + Default>(self, texts: FourTexts<'_>, read: impl Fn(Span<'_>) -> Option<T>) -> Option<[T; 4]> {
        let mut values = [T::default(); 4];
        for (value, span) in values.iter_mut().zip(texts.spans()) {
            *value = read(span)?;
        }
        self.0.set(self.0.get() + 1);
        Some(values)
    }
}

impl Reader for InFours<'_> {
    const READS_FOUR: bool = true;

    fn run(self, body: impl Loop) {
        body.run();
    }

    fn integer(self, span: Span<'_>) -> Option<i64> {
        Words.integer(span)
    }

    fn long_integer(self, span: Span<'_>) -> Option<i64> {
        Words.long_integer(span)
    }

    fn groups(self, span: Span<'_>, size: NumericSize) -> Option<Groups> {
        Words.groups(span, size)
    }

    fn scaled(self, span: Span<'_>, precision: u8, scale: u8) -> Option<i64> {
        Words.scaled(span, precision, scale)
    }

    fn double(self, span: Span<'_>) -> Option<f64> {
        Words.double(span)
    }

    fn date(self, span: Span<'_>) -> Option<i32> {
        Words.date(span)
    }

    fn timestamp(self, span: Span<'_>) -> Option<i64> {
        Words.timestamp(span)
    }

    fn four_integers(self, texts: FourTexts<'_>) -> Option<[i64; 4]> {
        self.four(texts, |span| Words.integer(span))
    }

    fn four_groups(self, texts: FourTexts<'_>, size: NumericSize) -> Option<FourStored> {
        let stored = self.four(texts, |span| {
            let Stored { head, digits, length } = Words.groups(span, size)?.stored();
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&head.to_le_bytes());
            bytes[3..11].copy_from_slice(&digits.to_le_bytes());
            Some((bytes, length as u64))
        })?;
        Some(FourStored { bytes: stored.map(|(bytes, _)| bytes), lengths: stored.map(|(_, length)| length) })
    }
}

/// The pages of records as a reader makes them, and the places and columns of those that were skipped.
fn pages_by(reader: impl Reader, text: &str, columns: &[Column]) -> (Vec<u8>, Vec<usize>) {
    pages_in(&Dialect::csv(), reader, text, columns)
}

fn pages_in(dialect: &Dialect, reader: impl Reader, text: &str, columns: &[Column]) -> (Vec<u8>, Vec<usize>) {
    let fields: Vec<_> = (0..columns.len()).map(Some).collect();
    let mut encoder = HeapPageEncoder::new(columns, &fields, dialect.clone(), ServerVersion::NEWEST, LAYOUT)
        .expect("types with pages");
    let mut scanner = Scanner::new(dialect.clone(), columns.len());
    let records = scanner.scan(text.as_bytes());
    let (mut memory, mut skipped) = (vec![0; 16 * LAYOUT.block_size], Vec::new());
    let mut pages = PageBuffer::new(&mut memory[..], LAYOUT);
    let rows = (0..records.rows(), |row| row);
    let mut skip = |problem: &Problem| {
        skipped.push(problem.row);
        true
    };
    assert_eq!(encoder.encode_with(reader, &records, rows, &mut pages, &mut skip), None);
    let used = pages.finish().1;
    memory.truncate(used * LAYOUT.block_size);
    (memory, skipped)
}

/// The same by words, once all readers of this processor have made it too.
fn pages_by_all(dialect: &Dialect, text: &str, columns: &[Column]) -> (Vec<u8>, Vec<usize>) {
    let by_words = pages_in(dialect, Words, text, columns);
    assert_eq!(pages_in(dialect, InFours(&Cell::default()), text, columns), by_words);
    #[cfg(target_arch = "x86_64")]
    if let Some(wide) = Wide::found() {
        assert_eq!(pages_in(dialect, wide, text, columns), by_words);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(wider) = Wider::found() {
        assert_eq!(pages_in(dialect, wider, text, columns), by_words);
    }
    by_words
}

#[test]
fn what_is_regular_is_read_by_four() {
    let kinds = [ColumnType::Int4, ColumnType::Int8, ColumnType::Numeric { precision: 9, scale: 2 }];
    let columns = kinds.map(|kind| Column { name: "c".into(), kind, not_null: false });
    // Twice a strip's records and a tail that is no four; the third record is none for four.
    let line = |row: usize| match row {
        2 => "+1,,1.005\n".to_owned(),
        _ => format!("{row},-{row},{row}.25\n"),
    };
    let text: String = (0..131).map(line).collect();
    let count = Cell::default();
    assert_eq!(pages_by(InFours(&count), &text, &columns), pages_by(Words, &text, &columns));
    assert_eq!(count.get(), columns.len() * (2 * 16 - 1));
}

#[test]
fn integers_that_do_not_fit_are_refused_by_four_too() {
    let of = |kind| [Column { name: "c".into(), kind, not_null: false }];
    for (kind, least, greatest) in
        [(ColumnType::Int2, -32_768_i64, 32_767_i64), (ColumnType::Int4, -2_147_483_648, 2_147_483_647)]
    {
        let values = [least, greatest, least + 1, greatest - 1, least - 1, greatest, 0, -1, 0, greatest + 1, -1, least];
        let text: String = values.iter().map(|value| format!("{value}\n")).collect();
        let columns = of(kind);
        assert_eq!(pages_by_all(&Dialect::csv(), &text, &columns).1, [4, 9]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_readers_make_the_same_pages(
        rows in proptest::collection::vec(
            (
                "-?[0-9]{1,5}|-?[0-9]{0,11}",
                "[0-9]{1,7}[.][0-9]{2}|-?[0-9]{0,9}([.][0-9]{0,3})?",
                "(19|20)[0-9]{2}-0[1-9]-[0-2][1-9]|[12][0-9]{3}-[01][0-9]-[0-3][0-9]|",
                "[a-z]{0,12}",
            ),
            0..150,
        )
    ) {
        let kinds = [
            ColumnType::Int4,
            ColumnType::Int2,
            ColumnType::Int8,
            ColumnType::Numeric { precision: 9, scale: 2 },
            ColumnType::Numeric { precision: 12, scale: 0 },
            ColumnType::Date,
            ColumnType::Char { limit: 10 },
        ];
        let columns = kinds.map(|kind| Column { name: "c".into(), kind, not_null: false });
        let text: String = rows.iter().map(|(a, b, c, d)| format!("{a},{a},{a},{b},{a},{c},{d}\n")).collect();
        let (_, skipped) = pages_by_all(&Dialect::csv(), &text, &columns);
        prop_assert!(skipped.len() <= rows.len());
    }

    /// A number may be the text that means NULL.
    #[test]
    fn all_readers_know_null_by_its_text(rows in proptest::collection::vec(("-?[0-2]", "[0-2][.][0-2]{2}", "200[01]-01-01"), 0..80)) {
        let kinds = [ColumnType::Int4, ColumnType::Numeric { precision: 9, scale: 2 }, ColumnType::Date];
        let columns = kinds.map(|kind| Column { name: "c".into(), kind, not_null: false });
        let text: String = rows.iter().map(|(a, b, c)| format!("{a},{b},{c}\n")).collect();
        for null in ["", "0", "-1", "1.00", "2000-01-01", "none"] {
            let dialect = Dialect { null_text: null.into(), ..Dialect::csv() };
            let (_, skipped) = pages_by_all(&dialect, &text, &columns);
            prop_assert_eq!(skipped.len(), 0);
        }
    }

    /// The same for the types with longer texts. Most values are good ones: behind a bad one no more is read of a row.
    #[test]
    fn all_readers_make_the_same_pages_of_longer_texts(
        rows in proptest::collection::vec(
            (
                "-?([0-9]{1,19}|[0-9]{0,12}[.][0-9]{1,7}|[1-9][.][0-9]{15,17})|[-0-9.e]{0,3}",
                "-?[0-9]{15,19}",
                "(19|20|99)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-9]) ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,7})?",
                "(Z|[+-](0[0-9]|1[0-5])(:[0-5][0-9])?)?",
                "[0-9a-f]{8}(-[0-9A-F]{4}){3}-[0-9a-f]{12}|[0-9a-g]{4}",
            ),
            0..100,
        ),
        utc: bool,
        precision in 0_u8..7,
    ) {
        let kinds = [
            ColumnType::Float8,
            ColumnType::Float4,
            ColumnType::Int8,
            ColumnType::Timestamp { precision },
            ColumnType::TimestampTz { precision, utc },
            ColumnType::Uuid,
        ];
        let columns = kinds.map(|kind| Column { name: "c".into(), kind, not_null: false });
        let lines = rows.iter().map(|(float, integer, moment, zone, uuid)| {
            format!("{float},{float},{integer},{moment},{moment}{zone},{uuid}\n")
        });
        let text: String = lines.collect();
        let (_, skipped) = pages_by_all(&Dialect::csv(), &text, &columns);
        prop_assert!(skipped.len() <= rows.len());
    }

    /// Quotes around a field change nothing, however long it is and whatever stands behind it.
    #[test]
    fn quoted_fields_are_what_they_are_without_quotes(
        rows in proptest::collection::vec(
            ("-?[0-9]{1,11}", "-?[0-9]{1,9}([.][0-9]{1,3})?", "[12][0-9]{3}-0[1-9]-[0-2][0-9]", "[a-zé]{1,90}",
             proptest::collection::vec(any::<bool>(), 4), any::<bool>()),
            0..150,
        )
    ) {
        let kinds = [
            ColumnType::Int8,
            ColumnType::Numeric { precision: 9, scale: 2 },
            ColumnType::Date,
            ColumnType::Varchar { limit: 80 },
        ];
        let columns = kinds.map(|kind| Column { name: "c".into(), kind, not_null: false });
        let write = |quoted: bool| -> String {
            let line = |(a, b, c, d, quotes, inner): &(String, String, String, String, Vec<bool>, bool)| {
                // Without quotes around it, a quote opens a quoted piece of the field, here of nothing.
                let d = if *inner { format!("{d}{}", if quoted && quotes[3] { "" } else { "\"\"" }) } else { d.clone() };
                let fields = [a, b, c, &d];
                let fields = fields.iter().zip(quotes).map(|(field, &in_quotes)| {
                    if quoted && in_quotes { format!("\"{field}\"") } else { (*field).clone() }
                });
                fields.collect::<Vec<_>>().join(",") + "\n"
            };
            rows.iter().map(line).collect()
        };
        let plain = pages_by(Words, &write(false), &columns);
        prop_assert_eq!(&pages_by(Words, &write(true), &columns).0, &plain.0);
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = Wide::found() {
            let quoted = pages_by(wide, &write(true), &columns);
            prop_assert_eq!(&quoted.0, &plain.0);
            prop_assert_eq!(&quoted.1, &plain.1);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(wider) = Wider::found() {
            // Some windows have no quotes at all.
            prop_assert_eq!(&pages_by(wider, &write(true), &columns).0, &plain.0);
            prop_assert_eq!(&pages_by(wider, &write(false), &columns).0, &plain.0);
        }
    }
}
