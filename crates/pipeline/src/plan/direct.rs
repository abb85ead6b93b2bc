//! Loading by ready-made heap pages.

use serde::Deserialize;

/// How pages are built, and how they get to the server.
#[derive(Debug, Clone, Deserialize)]
pub struct DirectPlan {
    /// Per attribute of the table: the column that it comes from; `None` for NULL.
    pub fields: Vec<Option<usize>>,
    /// The table's fillfactor, in percent.
    pub fillfactor: u8,
    /// Pages that a stream builds before it hands them over.
    pub slot_pages: usize,
    /// The server appends what lies ready of so many times as much at once, or is sent it without waiting for answers.
    pub run_slots: usize,
    /// Whether the server may be on this machine, so that both can share memory.
    pub share_memory: bool,
    /// Whether the server can unpack pages that are packed.
    pub packs: bool,
}
