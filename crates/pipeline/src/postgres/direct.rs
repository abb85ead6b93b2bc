//! The server extension `tipple_direct`: opening a relation, appending pages, finishing.
//!
//! Pages go through memory that client and server share where both are on one machine, else as a parameter over the
//! session. The server takes a copy before it looks at a page, so what this side does with the memory afterwards is
//! nobody's concern.

use super::session::{Session, from_server};
use crate::error::{Error, Result};
use futures_util::future::join_all;
use memmap2::MmapRaw;
use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

/// A relation that was opened.
#[derive(Debug)]
pub struct Opened<'s> {
    /// Appends to it.
    pub writer: DirectWriter<'s>,
    /// Memory for runs of pages.
    pub slots: Vec<Slot>,
    /// `BLCKSZ`.
    pub block_size: usize,
}

/// Appends pages to relations that this session has opened.
#[derive(Debug)]
pub struct DirectWriter<'s> {
    session: &'s Session,
    append: Statement,
    /// Where pages go over the session, and the server can unpack some.
    append_packed: Option<Statement>,
    block_size: usize,
}

/// What a stream hands over.
#[derive(Debug)]
pub struct Pages {
    /// Where they are,
    pub slot: Slot,
    /// at its begin, so many.
    pub count: usize,
    /// The same as a block of LZ4, which goes in their place.
    pub packed: Option<Vec<u8>>,
}

/// Memory for a run of pages.
#[derive(Debug)]
pub enum Slot {
    /// A part of the shared memory, of which there is one owner at a time.
    Shared {
        /// Which.
        number: usize,
        /// The whole.
        memory: Arc<MmapRaw>,
        /// The bytes of a part.
        bytes: usize,
    },
    /// Memory of this process.
    Own(Vec<u8>),
}

impl Deref for Slot {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: the range lies in the mapping, and this slot is the only one of its number; the server only
            // reads it.
            Self::Shared { number, memory, bytes } => unsafe {
                std::slice::from_raw_parts(memory.as_ptr().add(number * bytes), *bytes)
            },
            Self::Own(memory) => memory,
        }
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: as for `deref`.
            Self::Shared { number, memory, bytes } => unsafe {
                std::slice::from_raw_parts_mut(memory.as_mut_ptr().add(*number * *bytes), *bytes)
            },
            Self::Own(memory) => memory,
        }
    }
}

/// Opens `tables`, which the session's transaction has created or emptied, with memory for `slots` runs of
/// `slot_pages` pages. They are numbered from 0.
///
/// # Errors
/// What the server says.
pub fn open<'s>(
    session: &'s Session,
    tables: &[String],
    slots: usize,
    slot_pages: usize,
    (share, packs): (bool, bool),
) -> Result<Opened<'s>> {
    let shared_slots = if share { slots } else { 0 };
    let literal = |table: &String| format!("'{}'::regclass", table.replace('\'', "''"));
    let [first, others @ ..] = tables else { return Err(unexpected("no table to be opened")) };
    let statement = format!(
        "SELECT block_size, shared_memory FROM tipple_direct.open({}, {shared_slots}, {slot_pages})",
        literal(first)
    );
    let row = one_row(session.query(&statement, "opening the table for pages").map_err(or_unsuited)?)?;
    let block_size: i32 = row.get(0);
    let block_size = usize::try_from(block_size).map_err(|_| unexpected("a block size below zero"))?;
    let path: Option<String> = row.get(1);
    let slot_bytes = slot_pages * block_size;
    let shared = path.and_then(|path| map(&path, slots * slot_bytes));
    if share {
        session.run("SELECT tipple_direct.opened()", "opening the table for pages")?;
    }
    for table in others {
        let statement = format!("SELECT tipple_direct.also({})", literal(table));
        session.run(&statement, "opening a table for pages").map_err(or_unsuited)?;
    }
    let (statement, parameter) = match &shared {
        Some(_) => {
            let parameters = vec![Type::INT4, Type::INT4_ARRAY, Type::INT4_ARRAY];
            ("SELECT tipple_direct.append_slots($2, $3, $1)", parameters)
        }
        None => ("SELECT tipple_direct.append($2, $1)", vec![Type::INT4, Type::BYTEA]),
    };
    let append = prepared(session, statement, &parameter)?;
    let append_packed = (shared.is_none() && packs)
        .then(|| {
            let parameters = [Type::INT4, Type::BYTEA, Type::INT4];
            prepared(session, "SELECT tipple_direct.append_packed($2, $3, $1)", &parameters)
        })
        .transpose()?;
    let slots = (0..slots)
        .map(|number| match &shared {
            Some(memory) => Slot::Shared { number, memory: memory.clone(), bytes: slot_bytes },
            None => Slot::Own(vec![0; slot_bytes]),
        })
        .collect();
    Ok(Opened { writer: DirectWriter { session, append, append_packed, block_size }, slots, block_size })
}

fn prepared(session: &Session, statement: &str, parameters: &[Type]) -> Result<Statement> {
    let doing = "preparing to append pages";
    session.wait(doing, async {
        let prepared = session.client().prepare_typed(statement, parameters).await;
        prepared.map_err(|error| from_server(&error, doing))
    })
}

/// Where the extension makes shared memory: `/dev/shm/tipple_direct.…/SECRET`.
const SHARED_MEMORY: &str = "/dev/shm/tipple_direct.";

/// The shared memory at `path`; `None` where it is not on this machine, or not this user's to write.
///
/// What is mapped here is written to, and the path comes from a server: nothing but the extension's own kind of file
/// is opened, and no link is followed to another.
fn map(path: &str, bytes: usize) -> Option<Arc<MmapRaw>> {
    if !is_shared_memory(path) {
        return None;
    }
    let file = File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.len() != bytes as u64 {
        return None;
    }
    MmapRaw::map_raw(&file).ok().map(Arc::new)
}

/// Whether a path is one that the extension may have made.
fn is_shared_memory(path: &str) -> bool {
    let Some((directory, secret)) = path.strip_prefix(SHARED_MEMORY).and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    directory.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        && !secret.is_empty()
        && secret.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl DirectWriter<'_> {
    /// `BLCKSZ`.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Whether pages that go over the session can go packed.
    pub fn packs(&self) -> bool {
        self.append_packed.is_some()
    }

    /// Appends a run to the table of this number. Gives the rows on its pages. The slots can be filled anew afterwards.
    ///
    /// # Errors
    /// What the server says.
    pub fn append(&self, table: usize, run: &[Pages]) -> Result<u64> {
        let table = table as i32;
        let mut shared = (Vec::new(), Vec::new());
        for pages in run {
            if let Slot::Shared { number, .. } = pages.slot {
                shared.0.push(number as i32);
                shared.1.push(pages.count as i32);
            }
        }
        self.session.wait("appending pages", async {
            if !shared.0.is_empty() {
                return self.ask(&self.append, &[&table, &shared.0, &shared.1]).await;
            }
            // All is under way before the first answer: neither the network nor the server waits for the other.
            let answers = join_all(run.iter().map(|pages| self.send(table, pages))).await;
            // Of several errors the first one is the cause.
            answers.into_iter().sum()
        })
    }

    /// Has the server append what lies in memory of this process.
    async fn send(&self, table: i32, pages: &Pages) -> Result<u64> {
        if let (Some(packed), Some(statement)) = (&pages.packed, &self.append_packed) {
            return self.ask(statement, &[&table, packed, &(pages.count as i32)]).await;
        }
        self.ask(&self.append, &[&table, &&pages.slot[..pages.count * self.block_size]]).await
    }

    async fn ask(&self, statement: &Statement, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64> {
        let answer = self.session.client().query_one(statement, parameters).await;
        let rows: i64 = answer.map_err(|error| or_unsuited(from_server(&error, "appending pages")))?.get(0);
        u64::try_from(rows).map_err(|_| unexpected("rows below zero"))
    }

    /// Makes everything durable that COMMIT would not; gives the rows appended in all.
    ///
    /// # Errors
    /// What the server says.
    pub fn finish(self) -> Result<u64> {
        let row =
            one_row(self.session.query("SELECT rows FROM tipple_direct.finish()", "finishing the table's pages")?)?;
        let rows: i64 = row.get(0);
        u64::try_from(rows).map_err(|_| unexpected("rows below zero"))
    }
}

/// `check_violation`: the server has found it out, but COPY can name the record.
const CHECK_VIOLATION: &str = "23514";
/// `object_not_in_prerequisite_state`: the extension takes no such table.
const NOT_THIS_TABLE: &str = "55000";

/// What speaks against pages, but not against COPY, is no failure.
fn or_unsuited(error: Error) -> Error {
    match error {
        Error::Server(server) if [CHECK_VIOLATION, NOT_THIS_TABLE].contains(&server.sqlstate.as_str()) => {
            Error::Unsuited { reason: server.message }
        }
        error => error,
    }
}

fn one_row(rows: Vec<Row>) -> Result<Row> {
    rows.into_iter().next().ok_or_else(|| unexpected("no row"))
}

fn unexpected(what: &str) -> Error {
    Error::Internal { message: format!("tipple_direct gave {what}") }
}

#[cfg(test)]
mod tests {
    use super::{is_shared_memory, map};

    #[test]
    fn nothing_but_the_extensions_files_is_mapped() {
        assert!(is_shared_memory("/dev/shm/tipple_direct.4026531836.123.456.0123456789abcdef/00ff"));
        for path in [
            "/dev/shm/tipple_direct.1.2.3.ab/../../../etc/passwd",
            "/dev/shm/tipple_direct./../x/ab",
            "/dev/shm/tipple_direct.1/",
            "/dev/shm/other/00ff",
            "/home/me/tipple_direct.1/00ff",
            "tipple_direct.1/00ff",
        ] {
            assert!(!is_shared_memory(path), "{path}");
            assert!(map(path, 0).is_none(), "{path}");
        }
    }
}
