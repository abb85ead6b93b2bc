//! Whether a certificate leads to one that is trusted, as OpenSSL sees it (openssl-verification-options(1)).
//!
//! webpki is asked first. It knows only what public authorities issue; those that people make with `openssl` after
//! PostgreSQL's manual ("Creating Certificates") are often of X.509's first version, or sign themselves. What webpki
//! refuses is therefore looked at here once more, and with everything that OpenSSL would look at.

use super::certificate::{Certificate, PublicKey};
use super::name::SUBJECT_ALTERNATIVE_NAME;
use super::refusal::{Refusal, unreadable};
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use std::cell::Cell;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{self, Decode};
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage};

/// How many certificates may stand between the server's and a root, and how many signatures are tried in all: who
/// answers in the server's place must not keep us busy.
const LONGEST_CHAIN: usize = 10;
const MOST_SIGNATURES: usize = 64;

/// RFC 5280, section 4.2.1, and the server's usage in section 4.2.1.12.
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const SERVER_AUTHENTICATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const NAME_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.30");
/// Known to OpenSSL, which does not act upon them unless it is told to: policies, and where lists of revoked ones are.
const IGNORED: [ObjectIdentifier; 2] =
    [ObjectIdentifier::new_unwrap("2.5.29.32"), ObjectIdentifier::new_unwrap("2.5.29.31")];

/// The certificates that are trusted.
#[derive(Debug)]
pub(super) struct Roots {
    /// Those that webpki can read.
    known: RootCertStore,
    all: Vec<CertificateDer<'static>>,
}

/// What the search for a root needs.
struct Search<'a> {
    roots: Vec<Certificate<'a>>,
    /// Those that the server sent along.
    others: Vec<Certificate<'a>>,
    now: UnixTime,
    algorithms: WebPkiSupportedAlgorithms,
    signatures: Cell<usize>,
}

impl Roots {
    pub(super) fn new(all: Vec<CertificateDer<'static>>) -> Self {
        let mut known = RootCertStore::empty();
        // One that webpki cannot read is in `all` still; the others count.
        let _counts = known.add_parsable_certificates(all.iter().cloned());
        Self { known, all }
    }

    /// Whether a certificate leads to one of these, by way of `others` where need be.
    ///
    /// # Errors
    /// It does not, and why.
    pub(super) fn verify(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Result<(), Refusal> {
        let by_webpki = ParsedCertificate::try_from(server).and_then(|parsed| {
            verify_server_cert_signed_by_trust_anchor(&parsed, &self.known, others, now, algorithms.all)
        });
        if by_webpki.is_ok() { Ok(()) } else { self.verify_here(server, others, now, algorithms) }
    }

    /// The same without webpki, which overlooks a common name where an authority may sign for some names only.
    ///
    /// # Errors
    /// It does not, and why.
    pub(super) fn verify_here(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Result<(), Refusal> {
        // One that cannot be read can sign nothing.
        let search = Search {
            roots: self.all.iter().filter_map(|root| Certificate::read(root).ok()).collect(),
            others: others.iter().filter_map(|other| Certificate::read(other).ok()).collect(),
            now,
            algorithms,
            signatures: Cell::new(0),
        };
        search.climb(&Certificate::read(server).map_err(unreadable)?, 0, 0)
    }
}

impl<'a> Search<'a> {
    /// Looks at a certificate, then for who issued it, and so on up to a root.
    ///
    /// `below` counts the certificates between this one and the server's with it, `authorities` those of them that are
    /// authorities of another name than the one above them, which a limit of a path's length is for.
    fn climb(&self, certificate: &Certificate<'a>, below: usize, authorities: usize) -> Result<(), Refusal> {
        let is_root = certificate.is_self_issued() && self.roots.iter().any(|root| root.encoded == certificate.encoded);
        self.check(certificate, is_root, (below > 0).then_some(authorities)).map_err(|refusal| refusal.of(below))?;
        if is_root {
            return Ok(());
        }
        let mut refusal = if certificate.is_self_issued() {
            Refusal::new("signs itself, and is not among those of sslrootcert")
        } else {
            Refusal::new("leads to none of those in sslrootcert")
        };
        if below >= LONGEST_CHAIN {
            return Err(refusal.of(below));
        }
        let authorities = authorities + usize::from(below > 0 && !certificate.is_self_issued());
        for issuer in self.roots.iter().chain(&self.others) {
            if issuer.subject != certificate.issuer || issuer.encoded == certificate.encoded {
                continue;
            }
            match self.signed_by(certificate, &issuer.key) {
                Err(reason) => refusal = reason.of(below),
                Ok(()) => match self.climb(issuer, below + 1, authorities) {
                    Ok(()) => return Ok(()),
                    Err(reason) => refusal = reason,
                },
            }
        }
        Err(refusal.of(below))
    }

    /// Verifies the signature of a certificate by the key of the one that is said to have issued it.
    fn signed_by(&self, certificate: &Certificate<'_>, key: &PublicKey<'_>) -> Result<(), Refusal> {
        let tried = self.signatures.get() + 1;
        self.signatures.set(tried);
        let [inner, outer] = certificate.algorithms;
        if tried > MOST_SIGNATURES || inner != outer {
            return Err(Refusal::new("has a signature that is not its issuer's"));
        }
        let mut fitting = self
            .algorithms
            .all
            .iter()
            .filter(|algorithm| {
                key.is_for(algorithm.public_key_alg_id()) && algorithm.signature_alg_id().as_ref() == outer
            })
            .peekable();
        if fitting.peek().is_none() {
            return Err(Refusal::new(format!(
                "is signed in a way that data streams do not know (by a key of the kind {})",
                key.kind()
            ))
            .with_remedy("have it signed with SHA-256 or SHA-384 by a key of the kind RSA, EC P-256 or EC P-384"));
        }
        if fitting
            .any(|algorithm| algorithm.verify_signature(key.bits, certificate.signed, certificate.signature).is_ok())
        {
            return Ok(());
        }
        Err(Refusal::new("has a signature that is not its issuer's"))
    }

    /// What one certificate says of itself: whether it is valid now, and for what it is used here. Of an authority's,
    /// `authorities` are those below it.
    fn check(&self, certificate: &Certificate<'_>, is_root: bool, authorities: Option<usize>) -> Result<(), Refusal> {
        let [begin, end] = certificate.validity().map_err(unreadable)?;
        if self.now.as_secs() < begin.as_secs() {
            return Err(Refusal::new("is not valid yet").with_remedy("check this machine's clock, and its dates"));
        }
        if self.now.as_secs() > end.as_secs() {
            return Err(Refusal::new("has expired").with_remedy("renew it, or check this machine's clock"));
        }
        let said = Said::by(certificate)?;
        if !said.fits_server {
            return Err(Refusal::new("is not meant for servers").with_remedy(
                "make one whose extendedKeyUsage has serverAuth, and whose keyUsage, if any, has digitalSignature",
            ));
        }
        let Some(authorities) = authorities else { return Ok(()) };
        // A root of the first version cannot say it. Whoever named it says so, and OpenSSL takes it.
        let is_old_root = is_root && !certificate.is_v3();
        if !said.is_authority && !is_old_root {
            return Err(
                Refusal::new("is not one of an authority").with_remedy("make one with basicConstraints=CA:TRUE")
            );
        }
        if said.longest_path.is_some_and(|longest| authorities > usize::from(longest)) {
            return Err(Refusal::new("allows fewer authorities below it (pathlen)"));
        }
        Ok(())
    }
}

/// What the extensions of a certificate say.
#[derive(Debug)]
struct Said {
    is_authority: bool,
    longest_path: Option<u8>,
    /// Whether it, or what it signs, may be used by a server.
    fits_server: bool,
}

impl Said {
    fn by(certificate: &Certificate<'_>) -> Result<Self, Refusal> {
        let extensions = certificate.extensions().map_err(unreadable)?;
        if !extensions.is_empty() && !certificate.is_v3() {
            return Err(Refusal::new("has extensions, which its version does not"));
        }
        let mut basic: Option<BasicConstraints> = None;
        let mut usage: Option<KeyUsage> = None;
        let mut extended: Option<ExtendedKeyUsage> = None;
        for extension in &extensions {
            let read: der::Result<()> = match extension.id {
                BASIC_CONSTRAINTS => BasicConstraints::from_der(extension.value).map(|value| basic = Some(value)),
                KEY_USAGE => KeyUsage::from_der(extension.value).map(|value| usage = Some(value)),
                EXTENDED_KEY_USAGE => ExtendedKeyUsage::from_der(extension.value).map(|value| extended = Some(value)),
                SUBJECT_ALTERNATIVE_NAME => Ok(()),
                // webpki judges by them, and has refused the chain, or has not seen the name.
                NAME_CONSTRAINTS => {
                    return Err(Refusal::new(
                        "allows some names only, and that of the server is not known to be one of them",
                    )
                    .with_remedy("give the server's certificate a subjectAltName that it allows"));
                }
                id if IGNORED.contains(&id) || !extension.is_critical => Ok(()),
                id => return Err(Refusal::new(format!("has the critical extension {id}, which nobody here knows"))),
            };
            read.map_err(unreadable)?;
        }
        // As check_ca() in OpenSSL's crypto/x509/v3_purp.c: without basic constraints, the right to sign is enough.
        let may_sign = usage.is_none_or(|usage| usage.key_cert_sign());
        let is_authority = may_sign && basic.as_ref().map_or(usage.is_some(), |basic| basic.ca);
        // check_purpose_ssl_server() there: the usages of a key that does TLS, but for authorities.
        let fits_tls = usage.is_none_or(|usage| {
            usage.digital_signature() || usage.key_encipherment() || usage.key_agreement() || is_authority
        });
        let fits_server = extended.is_none_or(|extended| extended.0.contains(&SERVER_AUTHENTICATION));
        Ok(Self {
            is_authority,
            longest_path: basic.and_then(|basic| basic.path_len_constraint),
            fits_server: fits_server && fits_tls,
        })
    }
}
