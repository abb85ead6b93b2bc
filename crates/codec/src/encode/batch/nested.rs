//! Arrays of any depth: looking for a value, and their types.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field};
use std::sync::Arc;

/// `data_type` with the types of its items or fields changed; any other is as it was.
pub(super) fn with_items(data_type: &DataType, change: impl Fn(&DataType) -> DataType) -> DataType {
    let field = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_data_type(change(field.data_type())));
    match data_type {
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(field(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        other => other.clone(),
    }
}

/// The first row of `array` in which `leaf`, asked for arrays that are neither lists nor structs, finds something.
pub(super) fn first_row(array: &dyn Array, leaf: &dyn Fn(&dyn Array) -> Option<usize>) -> Option<usize> {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (first, last) = (list.value_offsets()[0] as usize, list.value_offsets()[list.len()] as usize);
            let values = list.values().slice(first, last - first);
            first_with(array, &values, leaf, |row| list.value(row))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (first, last) = (list.value_offsets()[0] as usize, list.value_offsets()[list.len()] as usize);
            let values = list.values().slice(first, last - first);
            first_with(array, &values, leaf, |row| list.value(row))
        }
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            first_with(array, list.values(), leaf, |row| list.value(row))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (first, last) = (map.value_offsets()[0] as usize, map.value_offsets()[map.len()] as usize);
            let entries: ArrayRef = Arc::new(map.entries().slice(first, last - first));
            first_with(array, &entries, leaf, |row| Arc::new(map.value(row)) as ArrayRef)
        }
        DataType::Struct(_) => first_of_struct(array.as_struct(), leaf),
        _ => leaf(array),
    }
}

/// The first list with such an item. Most often there is none, and all items are looked at together.
fn first_with(
    array: &dyn Array,
    items: &ArrayRef,
    leaf: &dyn Fn(&dyn Array) -> Option<usize>,
    items_of: impl Fn(usize) -> ArrayRef,
) -> Option<usize> {
    first_row(items.as_ref(), leaf)?;
    (0..array.len()).find(|&row| array.is_valid(row) && first_row(items_of(row).as_ref(), leaf).is_some())
}

fn first_of_struct(array: &StructArray, leaf: &dyn Fn(&dyn Array) -> Option<usize>) -> Option<usize> {
    let found =
        |array: &StructArray| array.columns().iter().filter_map(|column| first_row(column.as_ref(), leaf)).min();
    let candidate = found(array)?;
    // What stands under a NULL is no value.
    (candidate..array.len()).find(|&row| array.is_valid(row) && found(&array.slice(row, 1)).is_some())
}
