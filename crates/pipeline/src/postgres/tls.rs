//! TLS as libpq's `sslmode` means it (PostgreSQL documentation, "SSL Support", table "SSL Mode Descriptions").

use crate::error::{Error, Result};
use crate::plan::Connection;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The connector for a connection whose `sslmode` is not `disable`.
///
/// # Errors
/// Where a certificate or key file cannot be used, or `verify-…` is asked for without roots.
pub(super) fn connector(connection: &Connection) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let check = match connection.sslmode.as_str() {
        "verify-full" => Check::ChainAndName,
        "verify-ca" => Check::Chain,
        // With a root certificate at hand libpq treats `require` as `verify-ca`.
        "require" if connection.sslrootcert.is_some() => Check::Chain,
        _ => Check::Nothing,
    };
    let verifier: Arc<dyn ServerCertVerifier> = match check {
        Check::Nothing => Arc::new(Lenient { chain: None, provider: provider.clone() }),
        Check::Chain => {
            Arc::new(Lenient { chain: Some(chain_verifier(connection, &provider)?), provider: provider.clone() })
        }
        Check::ChainAndName => chain_verifier(connection, &provider)?,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(format!("TLS: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&connection.sslcert, &connection.sslkey) {
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| invalid(format!("sslkey {key}: {error} (an encrypted key is not supported)")))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| invalid(format!("sslcert: {error}")))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

enum Check {
    Nothing,
    Chain,
    ChainAndName,
}

fn chain_verifier(connection: &Connection, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    match connection.sslrootcert.as_deref() {
        Some("system") => {
            for certificate in rustls_native_certs::load_native_certs().certs {
                // A root that rustls cannot read is one that cannot be trusted; the others still count.
                let _unreadable = roots.add(certificate);
            }
        }
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| invalid(format!("sslrootcert {path}: {error}")))?;
            }
        }
        None => {
            return Err(invalid(format!(
                "sslmode={} needs a root certificate: set sslrootcert to its file, or to system",
                connection.sslmode
            )));
        }
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| invalid(format!("sslrootcert: {error}")))
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| invalid(format!("certificate file {path}: {error}")))
}

fn invalid(message: String) -> Error {
    Error::Invalid { message }
}

/// Accepts any name, and with no `chain` any certificate; the handshake's signatures are checked all the same.
#[derive(Debug)]
struct Lenient {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain is verified before the name: a wrong name is all that `verify-ca` forgives.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
