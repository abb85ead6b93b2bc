//! Values of keys that no record may have: rows have them already, beside which what was stored is to stand, or no row of
//! the table has them that the key refers to.
//!
//! Whoever starts the search has asked the target for them: COPY binary of the key's columns, without header and trailer.

use crate::error::{Error, Result};
use crate::plan::UniqueKey;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;
use tipple_codec::encode::copy_binary;
use tipple_codec::route::KeyColumn;
use tipple_codec::unique;

/// The hashes of those of one key; none where nobody has noted any.
pub(super) fn read(spool: &Path, number: usize, key: &UniqueKey) -> Result<HashSet<u128>> {
    let path = spool.join(format!("barred-{number}.keys"));
    let rows = match std::fs::read(&path) {
        Ok(rows) => rows,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(HashSet::new()),
        Err(error) => return Err(Error::file(&path, "read it", &error)),
    };
    // The columns stand there in the key's own order.
    let within = |(place, column): (usize, &KeyColumn)| KeyColumn { column: place, ..*column };
    let columns: Vec<KeyColumn> = key.columns.iter().enumerate().map(within).collect();
    let (mut begin, mut buffer) = (0, Vec::new());
    let hash = |end| unique::hash_key(&columns, &rows[std::mem::replace(&mut begin, end)..end], &mut buffer);
    Ok(copy_binary::row_ends(&rows).into_iter().filter_map(hash).collect())
}
