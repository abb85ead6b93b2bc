//! Unpacks compressed files, all members or frames one after the other, and says what is wrong with damaged ones.

use crate::plan::Compression;
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// How much of a compressed file is read at a time.
const READ_BYTES: usize = 256 * 1024;

/// How packed data begin.
const MAGICS: [(Compression, &[u8]); 4] = [
    (Compression::Gzip, b"\x1f\x8b\x08"),
    (Compression::Zstd, b"\x28\xb5\x2f\xfd"),
    (Compression::Bzip2, b"BZh"),
    (Compression::Xz, b"\xfd7zXZ\0"),
];
/// Behind the size of bzip2's blocks, a digit; `BZh` alone could be a text.
const BZIP2_BLOCK: &[u8] = b"1AY&SY";
/// So many bytes show what packed data are.
pub(super) const MAGIC_BYTES: usize = 10;

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

/// What data with this beginning are packed by.
pub(super) fn detect(head: &[u8]) -> Option<Compression> {
    let (found, magic) = MAGICS.into_iter().find(|(_, magic)| head.starts_with(magic))?;
    let is_block = || head.get(magic.len() + 1..).is_some_and(|rest| rest.starts_with(BZIP2_BLOCK));
    (found != Compression::Bzip2 || is_block()).then_some(found)
}

/// Whether the name of the original file in a gzip header is longer than flate2 reads, which no writer makes.
pub(super) fn has_long_name(error: &io::Error) -> bool {
    error.to_string().contains("header field too long")
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
    fn packed_data_are_known_by_their_beginning() {
        assert_eq!(detect(&packed(b"x")), Some(Compression::Gzip));
        assert_eq!(detect(b"BZh91AY&SYabc"), Some(Compression::Bzip2));
        for text in [&b"BZh9,a\n"[..], b"BZh", b"a,b\n", b""] {
            assert_eq!(detect(text), None);
        }
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
