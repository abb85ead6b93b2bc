//! Files that appear whole, all of a job's at once, or not at all.
//!
//! A job writes into a directory of its own inside the output directory, `.tipple-partial-PID-N`, and at the end
//! moves the files out of it under their final names. It holds a lock (flock) on that directory as long as it
//! lives, so the next job can tell what a killed one left behind from what a running one is writing, and sweeps it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::GenerateError;
use super::plan::FilePlan;

const STAGING_PREFIX: &str = ".tipple-partial-";

/// Names to try for the staging directory before giving up; a second one is only needed when another process of
/// the same number (in another container, say) has it.
const STAGING_ATTEMPTS: u32 = 100;

/// The staging directory of a job. Dropping it removes it with everything in it.
#[derive(Debug)]
pub(super) struct Staging {
    out: PathBuf,
    directory: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl Staging {
    /// Makes the output directory if need be, sweeps what killed jobs left in it, and makes the staging directory.
    pub(super) fn create(out: &Path) -> Result<Self, GenerateError> {
        fs::create_dir_all(out).map_err(|error| GenerateError::io("create the directory", out, &error))?;
        sweep(out);
        for attempt in 0..STAGING_ATTEMPTS {
            let directory = out.join(format!("{STAGING_PREFIX}{}-{attempt}", std::process::id()));
            match fs::create_dir(&directory) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => {
                    // Name a file in `out`, so that the hint speaks of `out`.
                    return Err(GenerateError::io("write to the directory", &out.join("."), &error));
                }
            }
            // Between the two calls another job's sweep may take the directory for an abandoned one.
            if let Ok(lock) = File::open(&directory)
                && lock_exclusively(&lock) != Lock::HeldByAnother
                && is_same_directory(&lock, &directory)
            {
                return Ok(Self { out: out.to_path_buf(), directory, _lock: lock });
            }
        }
        Err(GenerateError::failed(format!("cannot make a staging directory in {}", out.display())))
    }

    /// Final path of a file.
    pub(super) fn final_path(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Creates a file to be published later.
    pub(super) fn create_file(&self, name: &str) -> Result<File, GenerateError> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.directory.join(name))
            .map_err(|error| GenerateError::io("create", &self.final_path(name), &error))
    }

    /// Gives all files their final names, and says of each whether it was kept ([`may_be_kept`]). Without `force`
    /// nothing that exists is replaced, even if it came into being since the job began: then no file is published.
    pub(super) fn publish(
        &self,
        files: &[FilePlan],
        part: Option<i64>,
        force: bool,
    ) -> Result<Vec<bool>, GenerateError> {
        let mut kept = Vec::with_capacity(files.len());
        let mut published: Vec<PathBuf> = Vec::new();
        for file in files {
            let staged = self.directory.join(&file.name);
            let path = self.final_path(&file.name);
            let moved = if force { fs::rename(&staged, &path) } else { rename_without_replacing(&staged, &path) };
            match moved {
                Ok(()) => {
                    published.push(path);
                    kept.push(false);
                }
                Err(error)
                    if error.kind() == ErrorKind::AlreadyExists
                        && may_be_kept(file, part)
                        && same_content(&staged, &path).unwrap_or(false) =>
                {
                    kept.push(true);
                }
                Err(error) => {
                    if !force {
                        // None of these existed before, so removing them is undoing. With --force what they
                        // replaced is gone, and whole new files are better than none.
                        for path in &published {
                            let _ = fs::remove_file(path);
                        }
                    }
                    return Err(if error.kind() == ErrorKind::AlreadyExists {
                        exists(&[path])
                    } else {
                        GenerateError::io("rename the finished file to", &path, &error)
                    });
                }
            }
        }
        Ok(kept)
    }

    /// Has the directory entries on disk.
    pub(super) fn sync_directory(&self) -> Result<(), GenerateError> {
        File::open(&self.out)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| GenerateError::io("flush to disk", &self.out, &error))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next job; there is nobody left to tell.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Fails when one of the files exists, naming all that do.
pub(super) fn refuse_existing(out: &Path, files: &[FilePlan], part: Option<i64>) -> Result<(), GenerateError> {
    let existing: Vec<PathBuf> = files
        .iter()
        .filter(|file| !may_be_kept(file, part))
        .map(|file| out.join(&file.name))
        .filter(|path| path.symlink_metadata().is_ok())
        .collect();
    if existing.is_empty() { Ok(()) } else { Err(exists(&existing)) }
}

/// Whether a file that exists is no obstacle if its content is the same: region and nation, which every part brings
/// along whole. Else `--part 2` could not be put beside `--part 1`.
fn may_be_kept(file: &FilePlan, part: Option<i64>) -> bool {
    part.is_some() && !file.table.has_parts()
}

fn exists(paths: &[PathBuf]) -> GenerateError {
    const NAMED: usize = 3;
    let mut names = paths.iter().take(NAMED).map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    if paths.len() > NAMED {
        names.push_str(&format!(" and {} more", paths.len() - NAMED));
    }
    let verb = if paths.len() == 1 { "exists" } else { "exist" };
    let mut error = GenerateError::usage(
        format!("{names} {verb} already; nothing was written"),
        "Add --force to replace, or choose another --out.",
    );
    error.file = paths.first().map(|path| path.display().to_string());
    error
}

fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    // Only ever called for region and nation: a few kilobytes.
    Ok(fs::metadata(one)?.len() == fs::metadata(other)?.len() && fs::read(one)? == fs::read(other)?)
}

/// Removes the staging directories of jobs that are no longer alive. Best effort: what it may not remove stays.
fn sweep(out: &Path) {
    let Ok(entries) = fs::read_dir(out) else {
        return;
    };
    for entry in entries.flatten() {
        let is_staging = entry.file_name().as_bytes().starts_with(STAGING_PREFIX.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_staging
            && let Ok(directory) = File::open(entry.path())
            && lock_exclusively(&directory) == Lock::Taken
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Lock {
    Taken,
    HeldByAnother,
    /// The file system has no such locks; then nobody sweeps.
    Unsupported,
}

fn lock_exclusively(file: &File) -> Lock {
    // SAFETY: flock takes a descriptor, which `file` keeps open during the call, and no pointers.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Lock::Taken;
    }
    match io::Error::last_os_error().kind() {
        ErrorKind::WouldBlock => Lock::HeldByAnother,
        _ => Lock::Unsupported,
    }
}

fn is_same_directory(open: &File, path: &Path) -> bool {
    match (open.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.dev() == named.dev() && open.ino() == named.ino(),
        _ => false,
    }
}

/// Renames, or fails with `AlreadyExists`; atomically where the kernel and the file system can.
fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let c_path = |path: &Path| std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
        let (from, to) = (c_path(from)?, c_path(to)?);
        // SAFETY: both pointers are to NUL-terminated strings that outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_renameat2,
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                libc::RENAME_NOREPLACE,
            )
        };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) {
            return Err(error);
        }
    }
    if to.symlink_metadata().is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}
