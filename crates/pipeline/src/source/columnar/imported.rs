//! A stream of another library of this process, through the Arrow C stream interface.
//!
//! `arrow`'s own reader refuses a column of type null that comes with a buffer. The specification gives it none, but
//! some producers (polars) export a validity bitmap with each array: it says what the type says already, and is left
//! out.
//!
//! It believes what it is given: offsets that fall, keys that no dictionary has and texts that are no UTF-8 would be read
//! as they are, from memory that is not theirs. Here the values of all columns are looked at, and within nested ones the
//! offsets of what their rows have: a slice of few rows has all the values of all of them below it.
//!
//! It also takes the rows of a struct for those of a table and forgets that some of them may be NULL themselves, as they
//! are where a column of structs is given for a table: all their columns are NULL then.

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, OffsetSizeTrait, RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray, make_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// Reads a stream.
#[derive(Debug)]
pub struct ImportedStream {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
}

impl ImportedStream {
    /// Takes a stream over; a released one is left behind.
    ///
    /// # Safety
    /// `stream` points to a stream as the C stream interface has it, which nobody else uses.
    ///
    /// # Errors
    /// Where it was released already, or has no rows.
    pub unsafe fn from_raw(stream: *mut FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        // SAFETY: by the caller's promise.
        let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
        let (Some(get_schema), Some(_)) = (stream.get_schema(), stream.release()) else {
            return Err(ArrowError::CDataInterface("the stream was read already".into()));
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream is not released, and its own function is called with it.
        let status = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        check(&mut stream, status)?;
        // SAFETY: the format is the first field by the specification.
        if unsafe { (&raw const schema).cast::<*const c_char>().read() }.is_null() {
            return Err(ArrowError::CDataInterface("the stream says nothing of its schema".into()));
        }
        let schema = Arc::new(Schema::try_from(&schema)?);
        Ok(Self { stream, schema })
    }
}

/// What the stream says of a status.
fn check(stream: &mut FFI_ArrowArrayStream, status: c_int) -> Result<(), ArrowError> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the stream's own function is called with it; what it gives is a text or nothing, until the next call.
    let text = stream.get_last_error().map(|get| unsafe { get(&raw mut *stream) }).filter(|text| !text.is_null());
    // SAFETY: as before.
    let text = text.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    Err(ArrowError::CDataInterface(text.unwrap_or_else(|| format!("status {status}"))))
}

impl Iterator for ImportedStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let get_next = self.stream.get_next()?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream is not released, and its own function is called with it.
        let status = unsafe { get_next(&raw mut self.stream, &raw mut array) };
        if let Err(error) = check(&mut self.stream, status) {
            return Some(Err(error));
        }
        if array.is_released() {
            return None;
        }
        let rows = DataType::Struct(self.schema.fields().clone());
        // SAFETY: the stream promises arrays of its schema.
        let data = unsafe {
            without_buffers_of_nulls(&raw mut array, &rows).and_then(|()| from_ffi_and_data_type(array, rows))
        };
        Some(data.and_then(|data| {
            // Whoever makes arrays of it takes for granted that what is within is long enough.
            data.validate()?;
            let options = RecordBatchOptions::new().with_row_count(Some(data.len()));
            let (_, columns, nulls) = StructArray::from(data).into_parts();
            check_values(&columns, &self.schema)?;
            let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
                return RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
            };
            let columns = columns.iter().map(|column| with_nulls(column, &nulls)).collect::<Result<_, _>>()?;
            // A field that is never NULL within a row is so where there is none.
            let fields = self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
            let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), self.schema.metadata().clone());
            RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
        }))
    }
}

/// Whether the values of all columns are what their types say.
fn check_values(columns: &[ArrayRef], schema: &Schema) -> Result<(), ArrowError> {
    for (column, field) in columns.iter().zip(schema.fields()) {
        let checked = column.to_data().validate_data().and_then(|()| within(column).iter().try_for_each(check_nested));
        checked.map_err(|error| ArrowError::CDataInterface(format!("the column {}: {error}", field.name())))?;
    }
    Ok(())
}

/// Looks at the offsets of what is within another value, and at what is within that only then. Its keys and texts are
/// looked at by who reads them: under a NULL there may be any.
fn check_nested(array: &ArrayRef) -> Result<(), ArrowError> {
    array.to_data().validate()?;
    let ascends = match array.data_type() {
        DataType::Utf8 => ascend(array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => ascend(array.as_string::<i64>().offsets()),
        DataType::Binary => ascend(array.as_binary::<i32>().offsets()),
        DataType::LargeBinary => ascend(array.as_binary::<i64>().offsets()),
        DataType::List(_) => ascend(array.as_list::<i32>().offsets()),
        DataType::LargeList(_) => ascend(array.as_list::<i64>().offsets()),
        DataType::Map(..) => ascend(array.as_map().offsets()),
        _ => true,
    };
    if !ascends {
        return Err(ArrowError::CDataInterface("offsets within it do not ascend".into()));
    }
    within(array).iter().try_for_each(check_nested)
}

fn ascend<T: OffsetSizeTrait>(offsets: &[T]) -> bool {
    offsets.windows(2).all(|pair| pair[0] <= pair[1])
}

/// The values that the rows of a nested array have; a dictionary's own, which many batches share, are not among them.
fn within(array: &ArrayRef) -> Vec<ArrayRef> {
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().to_vec(),
        DataType::List(_) => vec![referenced(array.as_list::<i32>().offsets(), array.as_list::<i32>().values())],
        DataType::LargeList(_) => vec![referenced(array.as_list::<i64>().offsets(), array.as_list::<i64>().values())],
        DataType::Map(..) => {
            let entries: ArrayRef = Arc::new(array.as_map().entries().clone());
            vec![referenced(array.as_map().offsets(), &entries)]
        }
        DataType::FixedSizeList(..) => vec![array.as_fixed_size_list().values().clone()],
        _ => Vec::new(),
    }
}

/// The values from the first offset to the last.
fn referenced<T: OffsetSizeTrait>(offsets: &OffsetBuffer<T>, values: &ArrayRef) -> ArrayRef {
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    values.slice(first, last - first)
}

/// The column with NULL where a row is NULL itself.
fn with_nulls(column: &ArrayRef, rows: &NullBuffer) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Null => Ok(column.clone()),
        DataType::Union(..) | DataType::RunEndEncoded(..) => Err(ArrowError::CDataInterface(format!(
            "some rows are NULL as a whole, which a column of the type {} cannot be",
            column.data_type()
        ))),
        _ => {
            let nulls = NullBuffer::union(column.nulls(), Some(rows));
            Ok(make_array(column.to_data().into_builder().nulls(nulls).build()?))
        }
    }
}

impl RecordBatchReader for ImportedStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The beginning of [`FFI_ArrowArray`], whose fields are not public (Arrow specification, "The Arrow C data interface").
#[repr(C)]
struct ArrayHead {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut FFI_ArrowArray,
    dictionary: *mut FFI_ArrowArray,
}

/// Says of arrays of type null, at every depth, that they have no buffers. Whoever made them releases them by what is in
/// their private data.
///
/// # Safety
/// `array` is one of this type, and not released.
///
/// # Errors
/// Where it has not the columns that its type has.
unsafe fn without_buffers_of_nulls(array: *mut FFI_ArrowArray, data_type: &DataType) -> Result<(), ArrowError> {
    // SAFETY: the struct has this layout by the specification, and as many children as it says.
    let (head, children) = unsafe {
        let head = &mut *array.cast::<ArrayHead>();
        let count = usize::try_from(head.n_children).unwrap_or_default();
        let children = if count == 0 { &[][..] } else { std::slice::from_raw_parts(head.children, count) };
        (head, children)
    };
    let fields: Vec<&DataType> = match data_type {
        DataType::Null => {
            head.n_buffers = 0;
            return Ok(());
        }
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Dictionary(_, values) if !head.dictionary.is_null() => {
            // SAFETY: the dictionary is an array of its values' type.
            return unsafe { without_buffers_of_nulls(head.dictionary, values) };
        }
        _ => return Ok(()),
    };
    if children.len() != fields.len() || children.iter().any(|child| child.is_null()) {
        let message = format!("a batch has {} columns where its schema has {}", children.len(), fields.len());
        return Err(ArrowError::CDataInterface(message));
    }
    for (&child, field) in children.iter().zip(fields) {
        // SAFETY: children are arrays of the types of the fields, in their order.
        unsafe { without_buffers_of_nulls(child, field)? };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int32Array, ListArray, StringArray};
    use arrow_buffer::{Buffer, ScalarBuffer};
    use arrow_schema::Field;

    /// A reader that says another schema than its batches have.
    struct Other(SchemaRef, Option<RecordBatch>);

    impl Iterator for Other {
        type Item = Result<RecordBatch, ArrowError>;

        fn next(&mut self) -> Option<Self::Item> {
            self.1.take().map(Ok)
        }
    }

    impl RecordBatchReader for Other {
        fn schema(&self) -> SchemaRef {
            self.0.clone()
        }
    }

    fn numbers(names: &[&str]) -> SchemaRef {
        Arc::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int32, true)).collect::<Vec<_>>()))
    }

    #[test]
    fn a_batch_has_the_columns_of_its_schema() {
        for (said, given) in [(["a", "b"].as_slice(), ["a"].as_slice()), (&["a"], &["a", "b"]), (&[], &["a"])] {
            let columns = given.iter().map(|_| Arc::new(Int32Array::from(vec![1])) as ArrayRef).collect();
            let batch = RecordBatch::try_new(numbers(given), columns).unwrap();
            let mut stream = FFI_ArrowArrayStream::new(Box::new(Other(numbers(said), Some(batch))));
            // SAFETY: it is a stream that nobody else uses.
            let mut read = unsafe { ImportedStream::from_raw(&raw mut stream) }.unwrap();
            let error = read.next().unwrap().unwrap_err().to_string();
            let expected = format!("a batch has {} columns where its schema has {}", given.len(), said.len());
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn a_batch_has_values_of_its_types() {
        let texts = |offsets: [i32; 3], bytes: &[u8]| -> ArrayRef {
            // SAFETY: nothing reads them before they are looked at.
            let array = unsafe {
                let offsets = OffsetBuffer::new_unchecked(ScalarBuffer::from(offsets.to_vec()));
                StringArray::new_unchecked(offsets, Buffer::from(bytes), None)
            };
            Arc::new(array)
        };
        let schema = Schema::new(vec![Field::new("a", DataType::Utf8, true)]);
        assert!(check_values(&[texts([0, 1, 2], b"ab")], &schema).is_ok());
        for wrong in [texts([0, 2, 1], b"ab"), texts([0, 1, 2], b"a\xff")] {
            let error = check_values(&[wrong], &schema).unwrap_err().to_string();
            assert!(error.contains("the column a: "), "{error}");
        }
    }

    #[test]
    fn nested_values_that_rows_have_are_looked_at() {
        // SAFETY: nothing reads it before it is looked at.
        let texts = unsafe {
            let offsets = OffsetBuffer::new_unchecked(ScalarBuffer::from(vec![0, 2, 1]));
            StringArray::new_unchecked(offsets, Buffer::from(b"abc"), None)
        };
        let item = Arc::new(Field::new("item", DataType::Utf8, true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 1, 2]));
        let lists: ArrayRef = Arc::new(ListArray::new(item.clone(), offsets, Arc::new(texts), None));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(
            Arc::new(Field::new("l", lists.data_type().clone(), true)),
            lists.clone(),
        )]));
        for nested in [lists, structs] {
            let schema = Schema::new(vec![Field::new("n", nested.data_type().clone(), true)]);
            assert!(check_values(&[nested.slice(0, 1)], &schema).is_ok());
            for wrong in [nested.slice(1, 1), nested] {
                let error = check_values(&[wrong], &schema).unwrap_err().to_string();
                assert!(error.contains("the column n: "), "{error}");
            }
        }
    }

    #[test]
    fn rows_that_are_null_have_no_values() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
        let rows = NullBuffer::from(vec![true, false, true]);
        let masked = with_nulls(&column, &rows).unwrap();
        assert_eq!(masked.as_ref(), &Int32Array::from(vec![Some(1), None, None]) as &dyn Array);
    }
}
