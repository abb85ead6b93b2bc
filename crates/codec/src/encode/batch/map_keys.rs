//! Maps that Arrow can write down and DuckDB takes none of: with a key twice, or with NULL for a key. It ends the whole
//! statement over one, and names no record.

use super::nested;
use arrow_array::cast::AsArray;
use arrow_array::{Array, MapArray};
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SortOptions};

/// The first row with such a map, at any depth.
pub(super) fn first_ambiguous(array: &dyn Array) -> Option<usize> {
    match array.data_type() {
        DataType::Map(..) => {
            let own = first_of_map(array.as_map());
            let within = nested::first_of_items(array, &first_ambiguous);
            own.into_iter().chain(within).min()
        }
        DataType::Struct(_) => nested::first_of_struct(array.as_struct(), &|array| {
            array.columns().iter().filter_map(|column| first_ambiguous(column.as_ref())).min()
        }),
        _ => nested::first_of_items(array, &first_ambiguous),
    }
}

fn first_of_map(map: &MapArray) -> Option<usize> {
    let keys = map.keys();
    let compare = make_comparator(keys.as_ref(), keys.as_ref(), SortOptions::default()).ok()?;
    let mut sorted = Vec::new();
    (0..map.len()).find(|&row| {
        let entries = map.value_offsets()[row] as usize..map.value_offsets()[row + 1] as usize;
        if map.is_null(row) || entries.is_empty() {
            return false;
        }
        sorted.clear();
        sorted.extend(entries);
        sorted.sort_unstable_by(|&one, &other| compare(one, other));
        sorted.windows(2).any(|pair| compare(pair[0], pair[1]).is_eq()) || sorted.iter().any(|&key| keys.is_null(key))
    })
}
