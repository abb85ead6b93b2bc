//! Moments as their clock in UTC, for engines that would take the clock of the machine's own zone.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use std::sync::Arc;

/// `field` with moments without a zone, at every depth.
#[must_use]
pub fn field(field: &Field) -> Field {
    field.clone().with_data_type(data_type(field.data_type()))
}

fn data_type(of: &DataType) -> DataType {
    let item = |item: &Arc<Field>| Arc::new(field(item));
    match of {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
        DataType::Dictionary(key, value) => DataType::Dictionary(key.clone(), Box::new(data_type(value))),
        DataType::RunEndEncoded(ends, values) => DataType::RunEndEncoded(ends.clone(), item(values)),
        DataType::ListView(items) => DataType::ListView(item(items)),
        DataType::LargeListView(items) => DataType::LargeListView(item(items)),
        other => super::nested::with_items(other, data_type),
    }
}

/// `batch` with moments without a zone in those columns that `which` says so of; none is counted otherwise.
///
/// # Errors
/// Arrays that are no valid ones of their type.
pub fn batch(batch: RecordBatch, which: impl Iterator<Item = bool> + Clone) -> Result<RecordBatch, ArrowError> {
    if !which.clone().any(|is_one| is_one) {
        return Ok(batch);
    }
    let schema = batch.schema();
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns = Vec::with_capacity(batch.num_columns());
    for ((own, column), is_one) in schema.fields().iter().zip(batch.columns()).zip(which) {
        fields.push(if is_one { Arc::new(field(own)) } else { own.clone() });
        columns.push(if is_one { array(column)? } else { column.clone() });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

fn array(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(make_array(retyped(column.to_data(), &data_type(column.data_type()))?))
}

/// The same values as those of a type that differs in zones alone.
fn retyped(data: ArrayData, to: &DataType) -> Result<ArrayData, ArrowError> {
    if data.data_type() == to {
        return Ok(data);
    }
    let types: Vec<&DataType> = match to {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Dictionary(_, values) => vec![values],
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        _ => Vec::new(),
    };
    let children = data.child_data().iter().cloned().zip(types).map(|(child, to)| retyped(child, to));
    let children = children.collect::<Result<_, _>>()?;
    data.into_builder().data_type(to.clone()).child_data(children).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, TimestampMicrosecondType};
    use arrow_array::{Array, DictionaryArray, Int32Array, ListArray, StructArray, TimestampMicrosecondArray};
    use arrow_buffer::OffsetBuffer;

    #[test]
    fn moments_keep_their_count_at_every_depth() {
        let moments: ArrayRef = Arc::new(
            TimestampMicrosecondArray::from(vec![Some(7), None, Some(-1), Some(9)]).with_timezone("Europe/Berlin"),
        );
        let item = Arc::new(Field::new("item", moments.data_type().clone(), true));
        let offsets = OffsetBuffer::new(vec![0, 1, 1, 3, 4].into());
        let list: ArrayRef = Arc::new(ListArray::new(item, offsets, moments.clone(), None));
        let keys = Int32Array::from(vec![3, 0, 1, 2]);
        let packed: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, moments.clone()));
        let of = |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
        let inner: ArrayRef =
            Arc::new(StructArray::from(vec![(of("l", &list), list.clone()), (of("p", &packed), packed.clone())]));
        let columns = [("m", &moments), ("s", &inner), ("same", &moments)];
        let schema = Schema::new(columns.map(|(name, array)| of(name, array)).to_vec());
        let whole = RecordBatch::try_new(Arc::new(schema), columns.map(|it| it.1.clone()).to_vec()).unwrap();
        // Of a part of a batch, too.
        let taken = batch(whole.slice(1, 3), [true, true, false].into_iter()).unwrap();
        assert!(!format!("{:?}", taken.schema().field(0)).contains("Berlin"));
        assert!(!format!("{:?}", taken.schema().field(1)).contains("Berlin"));
        assert!(format!("{:?}", taken.schema().field(2)).contains("Berlin"));
        assert_eq!(*taken.schema().field(1), field(whole.schema().field(1)));
        let counts = |array: &ArrayRef| array.as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>();
        assert_eq!(counts(taken.column(0)), [None, Some(-1), Some(9)]);
        let lists = taken.column(1).as_struct().column(0).as_list::<i32>();
        assert_eq!([0, 1, 2].map(|row| counts(&lists.value(row))), [vec![], vec![None, Some(-1)], vec![Some(9)]]);
        let packed = taken.column(1).as_struct().column(1).as_dictionary::<Int32Type>();
        assert_eq!(packed.keys().values().as_ref(), [0, 1, 2]);
        assert_eq!(counts(packed.values()), [Some(7), None, Some(-1), Some(9)]);
    }
}
