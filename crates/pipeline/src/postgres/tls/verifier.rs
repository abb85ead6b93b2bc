//! What is verified of a server: its signature always, its certificate and its name as `sslmode` says.

use super::certificate::{Certificate, PublicKey};
use super::chain::Roots;
use super::name::{self, Found};
use super::refusal::{KEYS, Refusal, unreadable};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, PeerMisbehaved, SignatureScheme};

/// Signatures that are offered to the server though nobody here can verify them: one with such a key (P-521, Ed448,
/// RSA-PSS; RFC 8446, section 4.2.3) would end the handshake without a word otherwise, and so it can be said why.
const UNKNOWN: [SignatureScheme; 5] = [
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED448,
    SignatureScheme::Unknown(0x0809),
    SignatureScheme::Unknown(0x080a),
    SignatureScheme::Unknown(0x080b),
];

/// Verifies what it is made for.
#[derive(Debug)]
pub(super) struct Verifier {
    /// With none, any certificate will do.
    pub(super) roots: Option<Roots>,
    /// With none, any name will do.
    pub(super) host: Option<String>,
    /// Those of the provider.
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            roots.verify(end_entity, intermediates, now, self.algorithms)?;
        }
        if let Some(host) = &self.host {
            let certificate = Certificate::read(end_entity).map_err(unreadable)?;
            let found = name::find(&certificate, host).map_err(unreadable)?.map_err(|names| {
                Refusal::new(format!("is for {}, and not for {host}", listed(&names)))
                    .with_remedy("name the server as its certificate does, or make one with the subjectAltName")
            })?;
            // As OpenSSL, which takes a name without a dot for no host's in this.
            if let (Found::Common, Some(roots), true) = (found, &self.roots, host.contains('.')) {
                roots.verify_here(end_entity, intermediates, now, self.algorithms)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = Certificate::read(certificate).map_err(unreadable)?.key;
        refuse_unknown(&key, signature.scheme)?;
        let Some((_, algorithms)) = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signature.scheme)
        else {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        };
        // TLS 1.2 leaves the curve open: the key's own is it.
        let is_valid = algorithms.iter().any(|algorithm| {
            key.is_for(algorithm.public_key_alg_id())
                && algorithm.verify_signature(key.bits, message, signature.signature()).is_ok()
        });
        if is_valid { Ok(HandshakeSignatureValid::assertion()) } else { Err(CertificateError::BadSignature.into()) }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = Certificate::read(certificate).map_err(unreadable)?.key;
        refuse_unknown(&key, signature.scheme)?;
        let key = SubjectPublicKeyInfoDer::from(key.encoded);
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = self.algorithms.supported_schemes();
        schemes.extend(UNKNOWN);
        schemes
    }
}

fn refuse_unknown(key: &PublicKey<'_>, scheme: SignatureScheme) -> Result<(), Refusal> {
    if !UNKNOWN.contains(&scheme) {
        return Ok(());
    }
    Err(Refusal::new(format!("has a key of the kind {}, which data streams do not know", key.kind())).with_remedy(KEYS))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "no host".into() } else { names.join(", ") }
}
