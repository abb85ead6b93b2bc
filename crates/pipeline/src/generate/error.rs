//! What can go wrong while generating, said so that the reader knows which file, why, and what to do.

use std::io;
use std::path::Path;

use serde::Serialize;

/// What the caller has to make of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The plan makes no sense, or would overwrite something. Nothing was started.
    Usage,
    /// It was started and failed. Nothing of it is left.
    Failed,
    /// The caller cancelled it. Nothing of it is left.
    Interrupted,
}

/// A failed generation. Serialised, it is the JSON object that Python gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct GenerateError {
    /// What the caller has to make of it.
    pub kind: ErrorKind,
    /// What happened, one sentence without a full stop.
    pub message: String,
    /// What to do next, where there is something sensible to say.
    pub hint: Option<String>,
    /// The file or directory that it is about.
    pub file: Option<String>,
}

impl GenerateError {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, message: message.into(), hint: Some(hint.into()), file: None }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failed, message: message.into(), hint: None, file: None }
    }

    pub(crate) fn interrupted() -> Self {
        Self {
            kind: ErrorKind::Interrupted,
            message: "generation was interrupted; no file was written".into(),
            hint: Some("Run the same command again to start over.".into()),
            file: None,
        }
    }

    /// An error of the operating system: `action` is what was tried ("write", "create"), `path` the file that the
    /// user asked for (not the temporary name it has meanwhile).
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        let within = path.parent().unwrap_or(path);
        let directory = if within.as_os_str().is_empty() { Path::new(".") } else { within }.display();
        let hint = match error.raw_os_error() {
            Some(libc::ENOSPC) => Some(format!(
                "The disk that holds {directory} is full. Free some space, choose another --out, a smaller --scale, \
                 fewer tables (--table), or one part at a time (--parts N --part I)."
            )),
            Some(libc::EDQUOT) => Some(format!(
                "Your disk quota on the file system of {directory} is used up. Free some space or choose another --out."
            )),
            Some(libc::EFBIG) => Some(
                "The file would exceed the largest size that the file system or `ulimit -f` allows. \
                 Split it with --parts N."
                    .to_string(),
            ),
            Some(libc::EACCES | libc::EPERM) => Some(format!(
                "You may not write to {directory}. Choose another --out, or have its permissions changed."
            )),
            Some(libc::EROFS) => Some(format!("The file system of {directory} is read-only. Choose another --out.")),
            Some(libc::ENOTDIR | libc::EEXIST) => {
                Some("--out must name a directory; a file stands in its place.".to_string())
            }
            Some(libc::EMFILE | libc::ENFILE) => Some("Too many files are open; raise `ulimit -n`.".to_string()),
            _ => None,
        };
        Self {
            kind: ErrorKind::Failed,
            message: format!("cannot {action} {}: {error}", path.display()),
            hint,
            file: Some(path.display().to_string()),
        }
    }
}
