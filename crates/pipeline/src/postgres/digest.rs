//! The digest of rows that a server holds: it sends them as COPY binary, and because the encoder wrote the very same
//! bytes, the sums of the records' hashes can be compared.

use super::session::{Session, from_server};
use crate::error::{Error, Result};
use futures_util::StreamExt;
use tipple_codec::digest::{RowDigest, of_copy_binary_record};
use tipple_codec::encode::copy_binary;

/// Reads the rows of `query` and sums their hashes.
///
/// # Errors
/// What the server or the connection says.
pub fn of_query(session: &Session, query: &str) -> Result<RowDigest> {
    let statement = format!("COPY ({query}) TO STDOUT (FORMAT binary)");
    let doing = "reading rows back";
    let mut stream = session.wait(doing, async {
        session.client().copy_out(&statement).await.map(Box::pin).map_err(|error| from_server(&error, doing))
    })?;
    let mut digest = RowDigest::default();
    let (mut first, mut ended) = (true, false);
    // A stream that has ended must not be polled again.
    while !ended {
        // Several messages per wait: entering the runtime costs more than hashing a row.
        let batch = session.wait(doing, async {
            let mut batch = Vec::with_capacity(1024);
            while batch.len() < 1024 {
                match stream.next().await {
                    Some(Ok(message)) => batch.push(message),
                    Some(Err(error)) => return Err(from_server(&error, doing)),
                    None => {
                        ended = true;
                        break;
                    }
                }
            }
            Ok(batch)
        })?;
        for message in &batch {
            let mut record: &[u8] = message;
            if first {
                record = record.strip_prefix(copy_binary::HEADER.as_slice()).ok_or_else(|| Error::Internal {
                    message: "the server's binary COPY begins with an unknown header".into(),
                })?;
                first = false;
            }
            if !record.is_empty() && record != copy_binary::TRAILER {
                digest.rows += 1;
                digest.sum = digest.sum.wrapping_add(of_copy_binary_record(record));
            }
        }
    }
    Ok(digest)
}
