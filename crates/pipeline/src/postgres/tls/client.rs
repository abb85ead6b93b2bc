//! The client's own certificate and key (libpq's `sslcert` and `sslkey`).

use super::{certificates, invalid};
use crate::error::Result;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::sync::Arc;

/// Hands the certificate to a server that asks for one. It is the server who judges it: here it is not read, so that
/// one of X.509's first version, as `openssl x509 -req` makes it, will do.
///
/// # Errors
/// A file cannot be used.
pub(super) fn resolver(certificate: &str, key: &str, provider: &CryptoProvider) -> Result<Arc<dyn ResolvesClientCert>> {
    let chain = certificates(certificate)?;
    if chain.is_empty() {
        return Err(invalid(format!("sslcert {certificate}: there is no certificate in it; name a PEM file")));
    }
    let key = provider.key_provider.load_private_key(private_key(key)?).map_err(|error| {
        invalid(format!(
            "sslkey {key}: {error}; data streams know keys of the kinds RSA (2048 bits or more), EC P-256, EC P-384 and \
             Ed25519: make one of these, and a certificate for it"
        ))
    })?;
    Ok(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))))
}

/// A key in PEM or, as libpq tries next, in DER.
fn private_key(path: &str) -> Result<PrivateKeyDer<'static>> {
    let bytes = std::fs::read(path).map_err(|error| invalid(format!("sslkey {path}: {error}")))?;
    // The two ways of saying it: RFC 7468, section 11, and RFC 1421, section 4.6.1.1.
    let is_encrypted = [&b"BEGIN ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"]
        .into_iter()
        .any(|sign| memchr::memmem::find(&bytes, sign).is_some());
    if is_encrypted {
        return Err(invalid(format!(
            "sslkey {path}: it is encrypted, and data streams cannot read such a key; write one that is not, for you \
             alone to read (umask 077; openssl pkey -in {path} -out client.key), and name that in sslkey"
        )));
    }
    if let Ok(key) = PrivateKeyDer::from_pem_slice(&bytes) {
        return Ok(key);
    }
    PrivateKeyDer::try_from(bytes).map_err(|_| {
        invalid(format!(
            "sslkey {path}: there is no key in it that data streams can read; write it anew (umask 077; openssl pkey -in \
             {path} -out client.key), and name that in sslkey"
        ))
    })
}
