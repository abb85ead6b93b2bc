//! Nested types of several files: which of them have the same values, however their writers have put it.
//!
//! pyarrow calls the items of a list `element`, polars calls them `item` and counts them by 64 bits, one says of its items
//! that none is NULL and the next does not: a column is the same for all that.

use super::nested;
use super::text_form::is_uuid;
use arrow_schema::{DataType, Field, FieldRef};
use std::collections::HashMap;
use std::sync::Arc;

/// What a field's metadata say of its values (Arrow's extension types); the rest are its writer's own notes.
const EXTENSION: &str = "ARROW:extension:";

/// `data_type` without what says nothing of its values: names of items and entries, notes, and that none of them is NULL.
pub(super) fn plainly_nested(data_type: &DataType) -> DataType {
    let item = |item: &FieldRef| Arc::new(plainly(item).with_name("item"));
    match data_type {
        DataType::List(found) => DataType::List(item(found)),
        DataType::LargeList(found) => DataType::LargeList(item(found)),
        DataType::FixedSizeList(found, length) => DataType::FixedSizeList(item(found), *length),
        DataType::Map(entries, sorted) => {
            // A key is never NULL.
            let named = |(field, name): (&FieldRef, &str)| match name {
                "key" => plainly(field).with_name(name).with_nullable(false),
                _ => plainly(field).with_name(name),
            };
            let DataType::Struct(fields) = entries.data_type() else { return data_type.clone() };
            let fields = fields.iter().zip(["key", "value"]).map(named).collect();
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), *sorted)
        }
        other => nested::with_fields(other, plainly),
    }
}

fn plainly(field: &Field) -> Field {
    let metadata = field.metadata().iter().filter(|(key, _)| key.starts_with(EXTENSION));
    let metadata = metadata.map(|(key, value)| (key.clone(), value.clone())).collect::<HashMap<_, _>>();
    Field::new(field.name(), plainly_nested(field.data_type()), true).with_metadata(metadata)
}

/// Whether there are UUIDs among the items or fields.
pub(super) fn has_uuids(data_type: &DataType) -> bool {
    let has = |field: &FieldRef| is_uuid(field) || has_uuids(field.data_type());
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has(item),
        DataType::Struct(fields) => fields.iter().any(has),
        _ => false,
    }
}

/// Whether every value of `from` is one of `to`, which are nested, and both [`plainly_nested`].
pub(super) fn holds(to: &DataType, from: &DataType) -> bool {
    to.is_nested() && from.is_nested() && is_wide_enough(to, from) && arrow_cast::can_cast_types(from, to)
}

fn is_wide_enough(to: &DataType, from: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, FixedSizeList, Int8, Int16, Int32, Int64, LargeBinary, LargeList, LargeUtf8, List, Map,
        Null, Struct, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let fields_of =
        |to: &Field, from: &Field| to.metadata() == from.metadata() && is_wide_enough(to.data_type(), from.data_type());
    match (to, from) {
        (_, Null) => true,
        (List(to) | LargeList(to), List(from) | LargeList(from) | FixedSizeList(from, _)) => fields_of(to, from),
        (FixedSizeList(to, length), FixedSizeList(from, other)) => length == other && fields_of(to, from),
        (Map(to, sorted), Map(from, other)) => sorted == other && fields_of(to, from),
        (Struct(to), Struct(from)) => {
            let is_named =
                |field: &FieldRef| from.iter().any(|other| other.name() == field.name() && fields_of(field, other));
            let mut names: Vec<_> = to.iter().map(|field| field.name()).collect();
            names.sort_unstable();
            names.dedup();
            // Two of one name could be told apart by nothing.
            names.len() == to.len() && to.len() == from.len() && to.iter().all(is_named)
        }
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView)
        | (Int64, Int32 | Int16 | Int8 | UInt32 | UInt16 | UInt8)
        | (Int32, Int16 | Int8 | UInt16 | UInt8)
        | (Int16, Int8 | UInt8)
        | (UInt64, UInt32 | UInt16 | UInt8)
        | (UInt32, UInt16 | UInt8)
        | (UInt16, UInt8) => true,
        // A float has another text as one of more digits.
        _ => to == from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(item: DataType, name: &str, nullable: bool) -> DataType {
        DataType::List(Arc::new(Field::new(name, item, nullable)))
    }

    fn of(fields: &[(&str, DataType)]) -> DataType {
        DataType::Struct(fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), false)).collect())
    }

    #[test]
    fn names_of_items_and_their_nulls_say_nothing() {
        let (one, other) = (list(DataType::Int32, "element", false), list(DataType::Int32, "item", true));
        assert_eq!(plainly_nested(&one), plainly_nested(&other));
        let within = |kind| of(&[("a", kind)]);
        assert_eq!(plainly_nested(&within(one)), plainly_nested(&within(other)));
    }

    #[test]
    fn a_type_holds_narrower_ones_and_not_the_other_way_round() {
        let [wide, narrow] = [DataType::Int64, DataType::Int32].map(|kind| plainly_nested(&list(kind, "item", true)));
        assert!(holds(&wide, &narrow) && !holds(&narrow, &wide));
        let [xy, yx, x] = [&["x", "y"][..], &["y", "x"], &["x"]]
            .map(|names| plainly_nested(&of(&names.iter().map(|&name| (name, DataType::Int64)).collect::<Vec<_>>())));
        assert!(holds(&xy, &yx) && holds(&yx, &xy) && !holds(&xy, &x) && !holds(&x, &xy));
    }
}
