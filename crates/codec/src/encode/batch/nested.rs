//! Arrays of any depth: looking for a value, and their types.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field};
use std::sync::Arc;

/// `data_type` with the types of its items or fields changed; any other is as it was.
pub(super) fn with_items(data_type: &DataType, change: impl Fn(&DataType) -> DataType) -> DataType {
    with_fields(data_type, |field| field.clone().with_data_type(change(field.data_type())))
}

/// The same with its items or fields themselves changed.
pub(super) fn with_fields(data_type: &DataType, change: impl Fn(&Field) -> Field) -> DataType {
    let field = |field: &Arc<Field>| Arc::new(change(field));
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
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Map(..) => {
            first_of_items(array, &|items| first_row(items, leaf))
        }
        DataType::Struct(_) => first_of_struct(array.as_struct(), &|array| {
            array.columns().iter().filter_map(|column| first_row(column.as_ref(), leaf)).min()
        }),
        _ => leaf(array),
    }
}

/// The first list or map in whose items `find` finds something; no other array has any.
pub(super) fn first_of_items(array: &dyn Array, find: &dyn Fn(&dyn Array) -> Option<usize>) -> Option<usize> {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (first, last) = (list.value_offsets()[0] as usize, list.value_offsets()[list.len()] as usize);
            let values = list.values().slice(first, last - first);
            first_with(array, &values, find, |row| list.value(row))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (first, last) = (list.value_offsets()[0] as usize, list.value_offsets()[list.len()] as usize);
            let values = list.values().slice(first, last - first);
            first_with(array, &values, find, |row| list.value(row))
        }
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            first_with(array, list.values(), find, |row| list.value(row))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (first, last) = (map.value_offsets()[0] as usize, map.value_offsets()[map.len()] as usize);
            let entries: ArrayRef = Arc::new(map.entries().slice(first, last - first));
            first_with(array, &entries, find, |row| Arc::new(map.value(row)) as ArrayRef)
        }
        _ => None,
    }
}

/// The first list with such an item. Most often there is none, and all items are looked at together.
fn first_with(
    array: &dyn Array,
    items: &ArrayRef,
    find: &dyn Fn(&dyn Array) -> Option<usize>,
    items_of: impl Fn(usize) -> ArrayRef,
) -> Option<usize> {
    find(items.as_ref())?;
    (0..array.len()).find(|&row| array.is_valid(row) && find(items_of(row).as_ref()).is_some())
}

/// The first struct in which `find` finds something.
pub(super) fn first_of_struct(array: &StructArray, find: &dyn Fn(&StructArray) -> Option<usize>) -> Option<usize> {
    let candidate = find(array)?;
    // What stands under a NULL is no value.
    (candidate..array.len()).find(|&row| array.is_valid(row) && find(&array.slice(row, 1)).is_some())
}
