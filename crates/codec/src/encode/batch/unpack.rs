//! Dictionaries and runs as what they hold.

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, PrimitiveArray,
    StructArray, downcast_dictionary_array,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use std::ops::Range;
use std::sync::Arc;

/// `array` as `plain`, which has no dictionaries, runs or views where its own type has some.
///
/// # Errors
/// A key that its dictionary does not have.
pub(super) fn unpack(array: &ArrayRef, plain: &DataType) -> Result<ArrayRef, ArrowError> {
    arrow_cast::cast(&without_hidden_keys(array, None)?, plain)
}

/// Under a NULL of a struct or a list anything may stand, also a key that the dictionary does not have (Arrow writes 0,
/// and the dictionary may be empty): it becomes NULL itself. `hidden` are the NULLs above `array`.
fn without_hidden_keys(array: &ArrayRef, hidden: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
    if !holds_keys(array.data_type()) {
        return Ok(array.clone());
    }
    let nulls = NullBuffer::union(hidden, array.nulls()).filter(|nulls| nulls.null_count() > 0);
    let items_of = |values: &ArrayRef, items: &dyn Fn(usize) -> Range<usize>| {
        let hidden = nulls.as_ref().map(|nulls| hidden_items(nulls, values.len(), items));
        without_hidden_keys(values, hidden.as_ref())
    };
    Ok(match array.data_type() {
        DataType::Dictionary(..) => downcast_dictionary_array! {
            array => Arc::new(checked(array, nulls)?),
            _ => array.clone(),
        },
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter();
            let columns: Vec<_> =
                columns.map(|column| without_hidden_keys(column, nulls.as_ref())).collect::<Result<_, _>>()?;
            let fields = fields.iter().zip(&columns).map(|(field, column)| nullable(field, column)).collect();
            Arc::new(StructArray::try_new(fields, columns, array.nulls().cloned())?)
        }
        DataType::List(item) => Arc::new(list(array.as_list::<i32>(), item, items_of)?),
        DataType::LargeList(item) => Arc::new(list(array.as_list::<i64>(), item, items_of)?),
        DataType::FixedSizeList(item, length) => {
            let width = usize::try_from(*length).unwrap_or_default();
            let values = items_of(array.as_fixed_size_list().values(), &|row| row * width..(row + 1) * width)?;
            Arc::new(FixedSizeListArray::try_new(nullable(item, &values), *length, values, array.nulls().cloned())?)
        }
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let offsets = map.offsets();
            let found: ArrayRef = Arc::new(map.entries().clone());
            let found = items_of(&found, &|row| offsets[row] as usize..offsets[row + 1] as usize)?;
            let found = found.as_struct().clone();
            let entries = Arc::new(entries.as_ref().clone().with_data_type(found.data_type().clone()));
            Arc::new(MapArray::try_new(entries, offsets.clone(), found, map.nulls().cloned(), *sorted)?)
        }
        _ => array.clone(),
    })
}

/// The same with other NULLs, if its dictionary has all other keys: whoever handed it over need not have looked.
fn checked<K: ArrowDictionaryKeyType>(
    array: &DictionaryArray<K>,
    nulls: Option<NullBuffer>,
) -> Result<DictionaryArray<K>, ArrowError> {
    let keys = PrimitiveArray::<K>::try_new(array.keys().values().clone(), nulls)?;
    DictionaryArray::try_new(keys, array.values().clone())
}

fn list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &FieldRef,
    items_of: impl Fn(&ArrayRef, &dyn Fn(usize) -> Range<usize>) -> Result<ArrayRef, ArrowError>,
) -> Result<GenericListArray<O>, ArrowError> {
    let offsets = list.offsets();
    let values = items_of(list.values(), &|row| offsets[row].as_usize()..offsets[row + 1].as_usize())?;
    GenericListArray::try_new(nullable(item, &values), offsets.clone(), values, list.nulls().cloned())
}

/// The field of values in which what is hidden is NULL from now on, at any depth.
fn nullable(field: &Field, values: &ArrayRef) -> FieldRef {
    Arc::new(field.clone().with_data_type(values.data_type().clone()).with_nullable(true))
}

fn hidden_items(nulls: &NullBuffer, count: usize, items: &dyn Fn(usize) -> Range<usize>) -> NullBuffer {
    let mut valid = BooleanBufferBuilder::new(count);
    valid.append_n(count, true);
    for row in (0..nulls.len()).filter(|&row| nulls.is_null(row)) {
        items(row).for_each(|item| valid.set_bit(item, false));
    }
    NullBuffer::new(valid.finish())
}

/// Whether the type is a dictionary, or nested and has one inside.
fn holds_keys(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => holds_keys(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_keys(field.data_type())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::batch::alike::plainly_nested;
    use crate::encode::batch::text_form::unpacked;
    use arrow_array::types::Int16Type;
    use arrow_array::{Int16Array, StringArray, make_array};
    use arrow_buffer::{OffsetBuffer, ScalarBuffer};

    /// Labels as somebody else may hand them over: keys that are not looked at, since they stand under a NULL.
    fn labels(keys: Vec<i16>, values: Vec<&str>) -> ArrayRef {
        let empty =
            DictionaryArray::<Int16Type>::new(Int16Array::from(Vec::<i16>::new()), Arc::new(StringArray::from(values)));
        let data = empty.to_data().into_builder().len(keys.len());
        let data = data.buffers(vec![ScalarBuffer::from(keys).into_inner()]);
        // SAFETY: as the Arrow C data interface has it; nothing here reads a key that is hidden.
        make_array(unsafe { data.build_unchecked() })
    }

    fn plain_text(array: &ArrayRef) -> ArrayRef {
        unpack(array, &unpacked(array.data_type())).expect("no broken key")
    }

    #[test]
    fn keys_under_a_null_of_a_struct_are_not_looked_at() {
        let labels = labels(vec![0, 7, 0], vec![]);
        let fields = vec![Field::new("x", labels.data_type().clone(), true)].into();
        let array: ArrayRef = Arc::new(StructArray::new(fields, vec![labels], Some(NullBuffer::new_null(3))));
        let plain = plain_text(&array);
        assert_eq!((plain.len(), plain.null_count()), (3, 3));
    }

    #[test]
    fn keys_under_a_null_of_a_list_are_not_looked_at() {
        let labels = labels(vec![0, 9, 9, 0], vec!["a"]);
        let item = Arc::new(Field::new("item", labels.data_type().clone(), true));
        let nulls = Some(NullBuffer::from(vec![true, false, true]));
        let lists = GenericListArray::<i32>::new(
            item.clone(),
            OffsetBuffer::new(vec![0, 1, 3, 4].into()),
            labels.clone(),
            nulls,
        );
        let plain = plain_text(&(Arc::new(lists) as ArrayRef));
        assert_eq!(plain.as_list::<i32>().value(2).as_string::<i32>().value(0), "a");
        assert!(plain.is_null(1));
        let nulls = Some(NullBuffer::from(vec![true, false, false, true]));
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(item, 1, labels, nulls));
        assert_eq!(plain_text(&fixed).null_count(), 2);
    }

    #[test]
    fn fields_without_nulls_may_be_hidden_at_any_depth() {
        let labels = labels(vec![0, 5], vec!["a"]);
        let inner = vec![Field::new("x", labels.data_type().clone(), false)].into();
        let inner: ArrayRef = Arc::new(StructArray::new(inner, vec![labels], None));
        let outer = vec![Field::new("n", inner.data_type().clone(), false)].into();
        let array: ArrayRef = Arc::new(StructArray::new(outer, vec![inner], Some(NullBuffer::from(vec![true, false]))));
        let plain = unpack(&array, &plainly_nested(&unpacked(array.data_type()))).expect("no broken key");
        assert_eq!(plain.as_struct().column(0).as_struct().column(0).as_string::<i32>().value(0), "a");
        let item = Arc::new(Field::new("e", array.data_type().clone(), true));
        let lists = GenericListArray::<i32>::new(item, OffsetBuffer::new(vec![0, 2].into()), array, None);
        let lists: ArrayRef = Arc::new(lists);
        let plain = unpack(&lists, &plainly_nested(&unpacked(lists.data_type()))).expect("no broken key");
        assert_eq!(plain.as_list::<i32>().value(0).null_count(), 1);
    }

    #[test]
    fn a_broken_key_is_an_error_where_it_counts() {
        let labels = labels(vec![0, 9], vec!["a"]);
        let fields = vec![Field::new("x", labels.data_type().clone(), true)].into();
        let nulls = Some(NullBuffer::from(vec![false, true]));
        let array: ArrayRef = Arc::new(StructArray::new(fields, vec![labels.clone()], nulls));
        for array in [array, labels] {
            assert!(unpack(&array, &unpacked(array.data_type())).is_err());
        }
    }
}
