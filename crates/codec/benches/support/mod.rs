//! What the benchmarks of encoders share: text is handed over window by window, as a stream does.

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;
use tipple_codec::column::{Column, ColumnType};
use tipple_codec::dialect::Dialect;
use tipple_codec::encode::heap::{HeapPageEncoder, PageBuffer, PageLayout, Stop};
use tipple_codec::scan::{Records, Scanner};
use tipple_codec::value::ServerVersion;

pub(crate) const WINDOW_BYTES: usize = 256 * 1024;
/// Memory for pages, as much as a stream of a load hands over at a time.
const SLOT_BYTES: usize = 1 << 20;

pub(crate) fn column(name: impl Into<String>, kind: ColumnType, not_null: bool) -> Column {
    Column { name: name.into(), kind, not_null }
}

pub(crate) fn each_window(text: &[u8], scanner: &mut Scanner, mut store: impl FnMut(&Records<'_>)) {
    let mut begin = 0;
    while begin < text.len() {
        let window = &text[begin..text.len().min(begin + WINDOW_BYTES)];
        let records = scanner.scan(window);
        store(&records);
        begin += records.consumed;
    }
}

/// Text to pages.
pub(crate) fn heap_pages(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    text: &[u8],
    columns: &[Column],
    dialect: Dialect,
) {
    let layout = PageLayout { block_size: 8192, fillfactor: 100 };
    let fields: Vec<Option<usize>> = (0..columns.len()).map(Some).collect();
    let mut scanner = Scanner::new(dialect.clone(), columns.len());
    let mut encoder =
        HeapPageEncoder::new(columns, &fields, dialect, ServerVersion(18), layout).expect("types with pages");
    let mut memory = vec![0; SLOT_BYTES];
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let mut pages = PageBuffer::new(&mut memory[..], layout);
            each_window(text, &mut scanner, |records| {
                let mut row = 0;
                while row < records.rows() {
                    let encoded = encoder.encode_unless(records, row, &mut pages, |_| false);
                    assert!(matches!(encoded.stop, None | Some(Stop::Full)), "{encoded:?}");
                    row = encoded.row;
                    if encoded.stop.is_some() {
                        pages.reset();
                    }
                }
            });
        });
    });
}
