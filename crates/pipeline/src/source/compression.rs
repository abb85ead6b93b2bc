//! Unpacks compressed files, all members or frames one after the other, and says what is wrong with damaged ones.

use crate::plan::Compression;
use std::io::{self, BufReader, Read};

/// How much of a compressed file is read at a time.
const READ_BYTES: usize = 256 * 1024;

/// The most memory that unpacking an .xz file may take; `xz -9` needs 65 MiB.
const XZ_MEMORY_BYTES: u64 = 128 * 1024 * 1024;

/// The text of `input`.
///
/// # Errors
/// Where a decoder cannot be made.
pub(super) fn unpack(input: impl Read + Send + 'static, compression: Compression) -> io::Result<Box<dyn Read + Send>> {
    let input = BufReader::with_capacity(READ_BYTES, input);
    Ok(match compression {
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(input)?),
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        Compression::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
        }
    })
}

/// Its name, for messages.
pub(super) fn name(compression: Compression) -> &'static str {
    match compression {
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
        Compression::Bzip2 => "bzip2",
        Compression::Xz => "xz",
    }
}
