//! Unpacks compressed files, all members or frames one after the other, and says what is wrong with damaged ones.

use crate::plan::Compression;
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// How much of a compressed file is read at a time.
const READ_BYTES: usize = 256 * 1024;

/// The first byte of each member of a gzip file.
const GZIP_MAGIC: u8 = 0x1f;

/// The most memory that unpacking an .xz file may take; `xz -9` needs 65 MiB.
const XZ_MEMORY_BYTES: u64 = 128 * 1024 * 1024;

/// The text of `input`.
///
/// # Errors
/// Where a decoder cannot be made.
pub(super) fn unpack(input: impl Read + Send + 'static, compression: Compression) -> io::Result<Box<dyn Read + Send>> {
    let input = BufReader::with_capacity(READ_BYTES, input);
    Ok(match compression {
        Compression::Gzip => Box::new(GzipMembers { member: Some(GzDecoder::new(input)) }),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(input)?),
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        Compression::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
        }
    })
}

/// All members of a gzip file, and the zeros behind them that tapes and archives fill their blocks up with: as
/// `gzip --test` takes them.
struct GzipMembers<R> {
    /// `None` once what follows a member was found to be no other.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "something else follows the data");
        loop {
            let member = self.member.as_mut().ok_or_else(damaged)?;
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let input = member.get_mut();
            let mut padded = false;
            let another = loop {
                let bytes = input.fill_buf()?;
                let Some(first) = bytes.first() else { return Ok(0) };
                let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
                if zeros == 0 {
                    break !padded && *first == GZIP_MAGIC;
                }
                padded = true;
                input.consume(zeros);
            };
            self.member = self.member.take().filter(|_| another).map(|member| GzDecoder::new(member.into_inner()));
        }
    }
}

/// Whether it is no fault of the data: both have been asked to take no more than 128 MiB.
pub(super) fn lacks_memory(error: &io::Error) -> bool {
    let text = error.to_string();
    text.contains("memory limit") || text.contains("too much memory")
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).expect("a vector takes everything");
        encoder.finish().expect("a vector takes everything")
    }

    fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        unpack(io::Cursor::new(bytes), Compression::Gzip)?.read_to_end(&mut text).map(|_| text)
    }

    #[test]
    fn gzip_members_and_zeros_behind_them() {
        let members = [packed(b"one "), packed(b""), packed(b"two")].concat();
        for zeros in [0, 1, 511, READ_BYTES + 1] {
            let padded = [&members[..], &vec![0; zeros]].concat();
            assert_eq!(unpacked(padded.clone()).expect("zeros are nothing"), b"one two", "{zeros}");
            let error = unpacked([&padded[..], b"junk"].concat()).expect_err("junk is no member");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{zeros} zeros and something else");
            if zeros > 0 {
                assert!(unpacked([&padded[..], &members].concat()).is_err(), "a member behind {zeros} zeros");
            }
        }
        assert!(unpacked(members[..members.len() - 1].to_vec()).is_err(), "a member that is cut off");
    }
}
