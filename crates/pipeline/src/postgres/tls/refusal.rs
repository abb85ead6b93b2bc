//! Why a handshake comes to nothing, for people: what is wrong, and what to do.
//!
//! A certificate that is refused once is refused always. So this is an error of how the connection is described, and not
//! a lost connection, after which one would connect again.

use crate::error::Error;
use rustls::{AlertDescription, CertificateError, OtherError};
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What is wrong with a certificate.
#[derive(Debug)]
pub(super) struct Refusal {
    whose: &'static str,
    what: String,
    remedy: &'static str,
}

impl Refusal {
    /// `what` goes on after "the server's certificate".
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self {
            whose: SERVERS,
            what: what.into(),
            remedy: "name in sslrootcert the file of the authority that the server's certificate was signed by, or that \
                     certificate itself where it signs itself",
        }
    }

    /// With what to do.
    pub(super) fn with_remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }

    /// As it is said of the certificate that stands so many above the server's.
    pub(super) fn of(self, above: usize) -> Self {
        if above == 0 || self.whose != SERVERS { self } else { Self { whose: AUTHORITYS, ..self } }
    }
}

const SERVERS: &str = "the server's certificate";
const AUTHORITYS: &str = "a certificate that the server's was signed by";

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}; {}", self.whose, self.what, self.remedy)
    }
}

impl StdError for Refusal {}

impl From<Refusal> for rustls::Error {
    fn from(refusal: Refusal) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refusal))))
    }
}

/// Of a certificate whose parts cannot be found.
pub(super) fn unreadable(error: x509_cert::der::Error) -> Refusal {
    Refusal::new(format!("cannot be read ({error})")).with_remedy("make another one, with OpenSSL for example")
}

/// The error to report, if a handshake failed for a reason that stays.
pub(in crate::postgres) fn reason(error: &(dyn StdError + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        // An io::Error gives as its source that of the error inside it, which would be passed over.
        let inside = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let of_rustls = inner.downcast_ref().or_else(|| inside.and_then(|inside| inside.downcast_ref()));
        if let Some(error) = of_rustls {
            return said(error).map(|message| Error::Invalid { message: format!("TLS with the server: {message}") });
        }
        cause = inner.source();
    }
    None
}

fn said(error: &rustls::Error) -> Option<String> {
    use AlertDescription as Alert;
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => Some(other.to_string()),
        rustls::Error::InvalidCertificate(error) => Some(format!("{SERVERS} is refused: {error}")),
        rustls::Error::AlertReceived(
            Alert::HandshakeFailure | Alert::InsufficientSecurity | Alert::ProtocolVersion,
        )
        | rustls::Error::PeerIncompatible(_) => Some(format!(
            "it and the data streams have no version of TLS, no cipher or no kind of key in common ({error}); allow TLS \
             1.2 or 1.3 with ECDHE and AES-GCM or ChaCha20 there, and {KEYS}"
        )),
        rustls::Error::AlertReceived(
            Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => Some(format!(
            "it refuses the client's certificate ({error}); check sslcert and sslkey, and that the server's ssl_ca_file \
             has the authority that signed it"
        )),
        _ => None,
    }
}

/// What to do about a key of the server that data streams do not know.
pub(super) const KEYS: &str =
    "give the server a key of the kind RSA (2048 bits or more), EC P-256, EC P-384 or Ed25519";
