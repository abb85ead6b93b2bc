//! TLS as libpq's `sslmode` means it (PostgreSQL documentation, "SSL Support", table "SSL Mode Descriptions").

mod certificate;
mod chain;
mod client;
mod name;
mod refusal;
#[cfg(test)]
mod tests;
mod verifier;

pub(super) use refusal::reason;

use crate::error::{Error, Result};
use crate::plan::Connection;
use chain::Roots;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;
use verifier::Verifier;

/// The connector for a connection whose `sslmode` is not `disable`.
///
/// # Errors
/// Where a certificate or key file cannot be used, or `verify-…` is asked for without roots.
pub(super) fn connector(connection: &Connection) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (verifies_chain, verifies_name) = match connection.sslmode.as_str() {
        "verify-full" => (true, true),
        "verify-ca" => (true, false),
        // With a root certificate at hand libpq treats `require` as `verify-ca`.
        "require" => (connection.sslrootcert.is_some(), false),
        _ => (false, false),
    };
    let verifier = Verifier {
        roots: verifies_chain.then(|| roots(connection)).transpose()?,
        host: verifies_name.then(|| connection.host.clone()),
        algorithms: provider.signature_verification_algorithms,
    };
    let client = match (&connection.sslcert, &connection.sslkey) {
        (Some(certificate), Some(key)) => Some(client::resolver(certificate, key, &provider)?),
        _ => None,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(format!("TLS: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(MakeRustlsConnect::new(match client {
        Some(client) => builder.with_client_cert_resolver(client),
        None => builder.with_no_client_auth(),
    }))
}

fn roots(connection: &Connection) -> Result<Roots> {
    match connection.sslrootcert.as_deref() {
        // A root that cannot be read is one that cannot be trusted; the others still count.
        Some("system") => Ok(Roots::new(rustls_native_certs::load_native_certs().certs)),
        Some(path) => {
            let found = certificates(path)?;
            if found.is_empty() {
                return Err(invalid(format!("sslrootcert {path}: there is no certificate in it; name a PEM file")));
            }
            Ok(Roots::new(found))
        }
        None => Err(invalid(format!(
            "sslmode={} needs a root certificate: set sslrootcert to its file, or to system",
            connection.sslmode
        ))),
    }
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| invalid(format!("certificate file {path}: {error}")))
}

fn invalid(message: String) -> Error {
    Error::Invalid { message }
}
