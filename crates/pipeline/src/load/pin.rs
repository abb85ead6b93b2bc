//! The threads of streams on processors of their own, where the user says which.

use super::Context;
use crate::error::{Error, Result};

impl Context<'_> {
    /// Pins this thread, which is that of stream `index`, to the processor whose turn it is.
    ///
    /// # Errors
    /// Where the kernel refuses it: the processor is gone, or this process may not use it any more.
    pub(super) fn pin(&self, index: usize) -> Result<()> {
        let cpus = &self.plan.cpus;
        let Some(&cpu) = cpus.get(index % cpus.len().max(1)) else { return Ok(()) };
        let refused = |reason: String| Error::Invalid {
            message: format!("stream {} cannot be pinned to CPU {cpu}: {reason}; leave out --pin-cpus", index + 1),
        };
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(refused("there are not so many".into()));
        }
        // SAFETY: a set of processors is plain bits, for which zero is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `cpu` lies within the set, as was checked.
        unsafe { libc::CPU_SET(cpu, &mut set) };
        // SAFETY: the set is valid for its size, and 0 means this thread.
        let failed = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
        if failed == 0 { Ok(()) } else { Err(refused(std::io::Error::last_os_error().to_string())) }
    }
}
