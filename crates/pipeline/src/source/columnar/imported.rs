//! A stream of another library of this process, through the Arrow C stream interface.
//!
//! `arrow`'s own reader refuses a column of type null that comes with a buffer. The specification gives it none, but
//! some producers (polars) export a validity bitmap with each array: it says what the type says already, and is left
//! out.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use std::ffi::{CStr, c_int, c_void};
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
            without_buffers_of_nulls(&raw mut array, &rows);
            from_ffi_and_data_type(array, rows)
        };
        Some(data.and_then(|data| {
            let options = RecordBatchOptions::new().with_row_count(Some(data.len()));
            let (_, columns, _) = StructArray::from(data).into_parts();
            RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
        }))
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
unsafe fn without_buffers_of_nulls(array: *mut FFI_ArrowArray, data_type: &DataType) {
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
            return;
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
        _ => return,
    };
    for (&child, field) in children.iter().zip(fields) {
        // SAFETY: children are arrays of the types of the fields, in their order.
        unsafe { without_buffers_of_nulls(child, field) };
    }
}
