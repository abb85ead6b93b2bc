//! Standard input, read from its file descriptor. What was looked at beforehand is kept, and read again first.

use crate::job::lock;
use std::fs::File;
use std::io::{self, Read};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// What [`peek`] has read. Standard input is the process's, and so is this.
static PEEKED: Mutex<Beginning> = Mutex::new(Beginning { of: None, bytes: Vec::new() });

/// The first bytes of what standard input was when they were read.
struct Beginning {
    of: Option<Identity>,
    bytes: Vec<u8>,
}

/// Which file, pipe or terminal standard input is: device and inode, and where a file was read up to. A process may make
/// another one of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    position: i64,
}

impl Identity {
    /// That of standard input now; `None` where there is none.
    fn now() -> Option<Self> {
        // SAFETY: all zeros are a valid `stat`, which the call fills.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a `stat`.
        if unsafe { libc::fstat(libc::STDIN_FILENO, &raw mut status) } != 0 {
            return None;
        }
        // SAFETY: no memory is passed. A pipe has no position: -1.
        let position = unsafe { libc::lseek(libc::STDIN_FILENO, 0, libc::SEEK_CUR) };
        Some(Self { device: status.st_dev, inode: status.st_ino, position })
    }
}

/// What was read of standard input as it is now: what belongs to another one is forgotten.
fn beginning() -> MutexGuard<'static, Beginning> {
    let mut beginning = lock(&PEEKED);
    if beginning.of != Identity::now() {
        *beginning = Beginning { of: None, bytes: Vec::new() };
    }
    beginning
}

/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// What a look at standard input came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Peeked {
    /// So many bytes are there, or all there are.
    Enough,
    /// They have not come yet.
    Waiting,
}

/// Sees to it that the first `wanted` bytes, or all there are, can be looked at; waits at most so long.
///
/// # Errors
/// Where reading fails.
pub fn peek(wanted: usize, limit: Duration) -> io::Result<Peeked> {
    let mut beginning = beginning();
    while beginning.bytes.len() < wanted {
        if !wait_readable(limit)? {
            return Ok(Peeked::Waiting);
        }
        let length = beginning.bytes.len();
        beginning.bytes.resize(length + READ_BYTES, 0);
        let read = read_descriptor(&mut beginning.bytes[length..]);
        beginning.bytes.truncate(length + *read.as_ref().unwrap_or(&0));
        beginning.of = Identity::now();
        if read? == 0 {
            break;
        }
    }
    Ok(Peeked::Enough)
}

/// The first bytes, as far as [`peek`] has read them.
#[must_use]
pub fn peeked() -> Vec<u8> {
    beginning().bytes.clone()
}

/// Reads standard input from its beginning, once.
#[derive(Debug)]
pub(super) struct Stdin {
    peeked: io::Cursor<Vec<u8>>,
}

impl Stdin {
    /// Takes what was looked at.
    pub(super) fn take() -> Self {
        Self { peeked: io::Cursor::new(std::mem::take(&mut beginning().bytes)) }
    }

    /// Reads on; `None` where nothing has come in that time.
    pub(super) fn read(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let read = self.peeked.read(buffer)?;
        if read > 0 {
            return Ok(Some(read));
        }
        if wait_readable(limit)? { read_descriptor(buffer).map(Some) } else { Ok(None) }
    }
}

fn read_descriptor(buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: descriptor 0 is the process's; it is not closed here, because the file is never dropped.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDIN_FILENO) });
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Whether there is something to read, the end among it.
fn wait_readable(limit: Duration) -> io::Result<bool> {
    let mut descriptor = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    let ready = unsafe { libc::poll(&raw mut descriptor, 1, i32::try_from(limit.as_millis()).unwrap_or(i32::MAX)) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
    }
    Ok(ready > 0)
}
