//! What transactions that store rows have in common: what they require, bookkeeping and COMMIT.

use super::Context;
use super::rejects::RejectLog;
use crate::error::{Error, Result};
use crate::plan::{AfterStatement, PostgresTarget};
use crate::postgres::session::Session;

/// Sees to it that values mean in this transaction what they are encoded for.
///
/// # Errors
/// [`Error::ColumnsChanged`] where they would not.
pub(super) fn require_known_types(target: &PostgresTarget, session: &Session) -> Result<()> {
    let Some(known) = &target.known_types else { return Ok(()) };
    if let Some(lock) = &known.lock {
        session.run(lock, "locking the table")?;
    }
    let changed = session.query(&known.changed, "looking at the table's columns")?;
    if changed.is_empty() {
        return Ok(());
    }
    Err(Error::ColumnsChanged { columns: changed.iter().map(|row| row.get(0)).collect() })
}

/// Writes into the ledger what was cut while it was read, and what was rejected.
pub(super) fn write_cut_and_rejects(
    context: &Context<'_>,
    target: &PostgresTarget,
    session: &Session,
    logs: &mut [RejectLog<'_, '_>],
) -> Result<()> {
    let Some(key) = &target.ledger else { return Ok(()) };
    if let Some(statement) = context.insert_cut(&key.job_id) {
        session.run(&statement, "writing the ledger")?;
    }
    for log in logs.iter_mut().filter(|log| log.count() > 0) {
        log.copy_to_ledger(session)?;
    }
    Ok(())
}

/// Runs those of the statements after the last row that prove that the job is still this run's.
///
/// # Errors
/// [`Error::LostOwnership`] where it is not.
pub(super) fn prove_ownership(session: &Session, after: &[AfterStatement]) -> Result<()> {
    for statement in after.iter().filter(|statement| statement.proves_ownership) {
        if session.query(&statement.sql, "reading the ledger")?.is_empty() {
            return Err(Error::LostOwnership);
        }
    }
    Ok(())
}

/// Runs the statements after the last row and commits.
///
/// # Errors
/// [`Error::CommitInDoubt`] where the connection was lost while the server may have committed.
pub(super) fn write_and_commit(context: &Context<'_>, session: &Session, after: &[AfterStatement]) -> Result<()> {
    let digest = context.digest();
    let rows = digest.rows - context.late_rejects();
    context.check_share(rows)?;
    let slices = context.slices_as_values();
    for statement in after {
        // Sources without any record have no slices.
        if slices.is_empty() && statement.sql.contains(":slices") {
            continue;
        }
        let sql = statement
            .sql
            .replace(":slices", &slices)
            .replace(":rows", &rows.to_string())
            .replace(":digest", &format!("'{:032x}'", digest.sum));
        if session.query(&sql, "writing the ledger")?.is_empty() && statement.proves_ownership {
            return Err(Error::LostOwnership);
        }
    }
    session.run("COMMIT", "committing").map_err(|error| match error {
        Error::Connection { message, .. } => Error::CommitInDoubt { message },
        other => other,
    })
}
