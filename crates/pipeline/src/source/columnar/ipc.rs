//! Arrow IPC, files and streams ("Arrow Columnar Format", "Serialization and Interprocess Communication").
//!
//! Both hold the same messages; a file also has a footer that says where they are. A stream is walked through once to
//! find them. The lengths in either are checked before memory is asked for.

use super::{Unit, damaged};
use crate::error::Result;
use crate::source::SourceFile;
use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, CompressionType, Endianness, Message, MessageHeader, MetadataVersion};
use arrow_ipc::{root_as_footer, root_as_message};
use arrow_schema::SchemaRef;
use std::ops::Range;
use std::sync::Arc;

const MAGIC: &[u8; 6] = b"ARROW1";
/// What a message begins with since Arrow 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// What a byte of LZ4 stands for at most: it adds so much to the length of a match ("LZ4 Block Format Description").
const LZ4_MOST: i64 = 255;

#[derive(Debug, Clone, Copy)]
struct Part {
    block: Block,
    /// The rows of a record batch; `None` for a dictionary.
    rows: Option<u64>,
}

/// What a file or stream says of itself.
#[derive(Debug)]
pub(super) struct IpcFooter {
    schema: SchemaRef,
    version: MetadataVersion,
    /// Dictionaries and record batches; dictionaries of a file stand first.
    parts: Vec<Part>,
}

impl IpcFooter {
    pub(super) fn read(source: &SourceFile<'_>) -> Result<Self> {
        let size = source.planned().size;
        let mut magic = [0; MAGIC.len()];
        if size < 8 {
            return Err(damaged(source, "it is too short for Arrow IPC"));
        }
        source.read_exact_at(&mut magic, 0)?;
        if magic == *MAGIC { Self::of_file(source) } else { Self::of_stream(source) }
    }

    fn of_file(source: &SourceFile<'_>) -> Result<Self> {
        let size = source.planned().size;
        let mut tail = [0; 10];
        if size < 20 {
            return Err(damaged(source, "it ends before its footer"));
        }
        source.read_exact_at(&mut tail, size - 10)?;
        let length = read_footer_length(tail).map_err(|error| damaged(source, error))?;
        let Some(start) = (size - 10).checked_sub(length as u64) else {
            return Err(damaged(source, "its footer is longer than the file"));
        };
        let mut bytes = vec![0; length];
        source.read_exact_at(&mut bytes, start)?;
        let footer = root_as_footer(&bytes).map_err(|error| damaged(source, error))?;
        let schema = footer.schema().ok_or_else(|| damaged(source, "its footer has no schema"))?;
        let schema = read_schema(source, schema)?;
        let mut parts = Vec::new();
        for block in footer.dictionaries().iter().flatten() {
            check(source, *block)?;
            parts.push(Part { block: *block, rows: None });
        }
        for block in footer.recordBatches().iter().flatten() {
            check(source, *block)?;
            let mut metadata = vec![0; block.metaDataLength() as usize];
            source.read_exact_at(&mut metadata, block.offset().cast_unsigned())?;
            let message = parse(source, &metadata)?;
            let batch = message.header_as_record_batch();
            let batch = batch.ok_or_else(|| damaged(source, "its footer takes another message for a record batch"))?;
            parts.push(Part { block: *block, rows: Some(rows_of(source, batch)?) });
        }
        Ok(Self { schema, version: footer.version(), parts })
    }

    fn of_stream(source: &SourceFile<'_>) -> Result<Self> {
        let size = source.planned().size;
        let mut found: Option<Self> = None;
        let mut offset = 0;
        loop {
            let mut prefix = [0; 8];
            let readable = (size - offset).min(8) as usize;
            // A stream may end without its end marker.
            if readable == 0 {
                break;
            }
            source.read_exact_at(&mut prefix[..readable], offset)?;
            let continued = prefix[..4] == CONTINUATION;
            let (length, prefix_bytes) = if continued { (&prefix[4..], 8) } else { (&prefix[..4], 4) };
            if readable < prefix_bytes && prefix != [0; 8] {
                return Err(damaged(source, "it ends within a message"));
            }
            let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
            if length == 0 {
                require_nothing_behind(source, offset + readable.min(prefix_bytes) as u64)?;
                break;
            }
            let metadata_bytes = prefix_bytes as u64 + u64::from(length);
            if length > i32::MAX as u32 || offset + metadata_bytes > size {
                let message = if found.is_some() { "it ends within a message" } else { "it is not Arrow IPC" };
                return Err(damaged(source, message));
            }
            let mut metadata = vec![0; metadata_bytes as usize];
            source.read_exact_at(&mut metadata, offset)?;
            let message = parse(source, &metadata)?;
            let block = Block::new(offset.cast_signed(), metadata_bytes as i32, message.bodyLength());
            check(source, block)?;
            match (&mut found, message.header_type()) {
                (None, MessageHeader::Schema) => {
                    let schema = message.header_as_schema().ok_or_else(|| damaged(source, "it has no schema"))?;
                    let schema = read_schema(source, schema)?;
                    found = Some(Self { schema, version: message.version(), parts: Vec::new() });
                }
                (Some(found), MessageHeader::DictionaryBatch) => found.parts.push(Part { block, rows: None }),
                (Some(found), MessageHeader::RecordBatch) => {
                    let batch = message.header_as_record_batch();
                    let batch = batch.ok_or_else(|| damaged(source, "a message has no record batch"))?;
                    found.parts.push(Part { block, rows: Some(rows_of(source, batch)?) });
                }
                _ => return Err(damaged(source, "a message stands where it may not")),
            }
            offset += metadata_bytes + message.bodyLength().cast_unsigned();
        }
        found.ok_or_else(|| damaged(source, "it has no schema"))
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub(super) fn units(&self) -> Vec<Unit> {
        let unit = |part: &Part| {
            let bytes = i64::from(part.block.metaDataLength()) + part.block.bodyLength();
            let rows = part.rows?;
            Some(Unit { offset: part.block.offset().cast_unsigned(), bytes: bytes.cast_unsigned(), rows })
        };
        self.parts.iter().filter_map(unit).collect()
    }

    /// Whether dictionaries change on the way.
    pub(super) fn must_be_read_in_order(&self) -> bool {
        let first_batch = self.parts.iter().position(|part| part.rows.is_some()).unwrap_or(self.parts.len());
        self.parts[first_batch..].iter().any(|part| part.rows.is_none())
    }

    /// The record batches of a range; of the columns only those in `projection`, and in its order.
    pub(super) fn batches<'f>(
        &'f self,
        source: &'f SourceFile<'_>,
        range: Range<usize>,
        projection: &[usize],
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<'f>> {
        let mut sorted = projection.to_vec();
        sorted.sort_unstable();
        let order: Vec<usize> = projection.iter().map(|index| sorted.partition_point(|other| other < index)).collect();
        let mut decoder = FileDecoder::new(self.schema.clone(), self.version).with_projection(sorted);
        let mut batch_index = 0;
        let mut parts = self.parts.iter();
        let next = move || {
            loop {
                let part = parts.next()?;
                if part.rows.is_some() {
                    batch_index += 1;
                    if batch_index > range.end {
                        return None;
                    }
                    if batch_index <= range.start {
                        continue;
                    }
                }
                let mut read = || {
                    let bytes = read_block(source, part.block)?;
                    check_lengths(source, part.block, &bytes)?;
                    if part.rows.is_none() {
                        decoder.read_dictionary(&part.block, &bytes).map_err(|error| damaged(source, error))?;
                        return Ok(None);
                    }
                    let batch = decoder.read_record_batch(&part.block, &bytes);
                    let batch = batch.map_err(|error| damaged(source, error))?;
                    let batch = batch.ok_or_else(|| damaged(source, "a record batch is missing"))?;
                    batch.project(&order).map(Some).map_err(|error| damaged(source, error))
                };
                match read() {
                    Ok(None) => {}
                    Ok(Some(batch)) => return Some(Ok(batch)),
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        Ok(std::iter::from_fn(next))
    }
}

/// Behind the end of a stream there may be zeros, as somebody may have filled a page with, but no other stream.
fn require_nothing_behind(source: &SourceFile<'_>, mut offset: u64) -> Result<()> {
    let (size, begin) = (source.planned().size, offset);
    let mut bytes = [0; 4096];
    while offset < size {
        let length = (size - offset).min(bytes.len() as u64) as usize;
        source.read_exact_at(&mut bytes[..length], offset)?;
        if bytes[..length].iter().any(|&byte| byte != 0) {
            let message = format!("its stream ends at byte {begin}, and something else follows it");
            return Err(damaged(source, message));
        }
        offset += length as u64;
    }
    Ok(())
}

fn parse<'b>(source: &SourceFile<'_>, metadata: &'b [u8]) -> Result<Message<'b>> {
    let prefix_bytes = if metadata.starts_with(&CONTINUATION) { 8 } else { 4 };
    let metadata = metadata.get(prefix_bytes..).unwrap_or_default();
    root_as_message(metadata).map_err(|error| damaged(source, format!("a message is broken: {error}")))
}

fn read_schema(source: &SourceFile<'_>, schema: arrow_ipc::Schema<'_>) -> Result<SchemaRef> {
    if schema.endianness() != Endianness::Little {
        return Err(damaged(source, "it was written big-endian"));
    }
    try_fb_to_schema(schema).map(Arc::new).map_err(|error| damaged(source, error))
}

/// The rows of a record batch. One that claims to have none is never decoded, which would find that untrue.
fn rows_of(source: &SourceFile<'_>, batch: arrow_ipc::RecordBatch<'_>) -> Result<u64> {
    let of_first_column = batch.nodes().iter().flatten().next().map_or(0, |node| node.length());
    if batch.length() <= 0 && of_first_column != 0 {
        return Err(damaged(source, "a record batch has another number of rows than its columns have"));
    }
    Ok(batch.length().max(0).cast_unsigned())
}

/// Checks that packed buffers can have the lengths that they claim: memory for LZ4 is asked for beforehand.
fn check_lengths(source: &SourceFile<'_>, block: Block, bytes: &[u8]) -> Result<()> {
    let (metadata, body) = bytes.split_at_checked(block.metaDataLength() as usize).unwrap_or((bytes, &[]));
    let message = parse(source, metadata)?;
    let of_dictionary = || message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let Some(batch) = message.header_as_record_batch().or_else(of_dictionary) else { return Ok(()) };
    if batch.compression().is_none_or(|packed| packed.codec() != CompressionType::LZ4_FRAME) {
        return Ok(());
    }
    for buffer in batch.buffers().iter().flatten() {
        // What lies outside is found when it is decoded; an empty one has no length before it.
        let place = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let packed = place.and_then(|(begin, length)| body.get(begin..begin.checked_add(length)?));
        let prefix = packed.and_then(<[u8]>::first_chunk);
        let claimed = prefix.map_or(0, |prefix| i64::from_le_bytes(*prefix));
        if claimed > buffer.length().saturating_mul(LZ4_MOST) {
            return Err(damaged(source, format!("a packed buffer claims to be of {claimed} bytes")));
        }
    }
    Ok(())
}

/// Checks that a block lies within the file.
fn check(source: &SourceFile<'_>, block: Block) -> Result<()> {
    let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
    let end = parts.iter().try_fold(0_i64, |sum, &part| if part < 0 { None } else { sum.checked_add(part) });
    if end.is_none_or(|end| end.cast_unsigned() > source.planned().size) {
        return Err(damaged(source, "it ends within a message"));
    }
    Ok(())
}

fn read_block(source: &SourceFile<'_>, block: Block) -> Result<Buffer> {
    let length = i64::from(block.metaDataLength()) + block.bodyLength();
    let mut bytes = MutableBuffer::from_len_zeroed(length as usize);
    source.read_exact_at(&mut bytes, block.offset().cast_unsigned())?;
    Ok(bytes.into())
}
