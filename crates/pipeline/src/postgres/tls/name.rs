//! Whether a certificate is the named server's, by libpq's rules (`pq_verify_peer_name_matches_certificate` in
//! PostgreSQL's src/interfaces/libpq/fe-secure-common.c and `pgtls_verify_peer_name_matches_certificate_guts` in
//! fe-secure-openssl.c; documentation, "Client Verification of Server Certificates").
//!
//! They differ from webpki's: the common name counts where no alternative name is of the kind that was asked for.

use super::certificate::{Certificate, Parts};
use std::net::IpAddr;
use x509_cert::der::asn1::{AnyRef, ObjectIdentifier};
use x509_cert::der::{Decode, Result, Tag, TagNumber, Tagged};

/// RFC 5280, section 4.2.1.6.
pub(super) const SUBJECT_ALTERNATIVE_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
/// RFC 5280, appendix A.1: id-at-commonName.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Where a name was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Among the alternative names.
    Alternative,
    /// In the subject.
    Common,
}

/// Looks for `host` among the names of a certificate; gives those that it has where it is not among them.
///
/// # Errors
/// The names cannot be read.
pub(super) fn find(certificate: &Certificate<'_>, host: &str) -> Result<std::result::Result<Found, Vec<String>>> {
    let address: Option<IpAddr> = host.parse().ok();
    let mut shown = Vec::new();
    let mut has_such_names = false;
    for name in alternative_names(certificate)? {
        let (is_it, text) = match name {
            AlternativeName::Host(name) => {
                has_such_names |= address.is_none();
                (is_host(name, host), String::from_utf8_lossy(name).into_owned())
            }
            AlternativeName::Address(name) => {
                has_such_names |= address.is_some();
                (address == Some(name), name.to_string())
            }
        };
        if is_it {
            return Ok(Ok(Found::Alternative));
        }
        shown.push(text);
    }
    if !has_such_names && let Some(name) = common_name(certificate)? {
        if is_host(name, host) {
            return Ok(Ok(Found::Common));
        }
        shown.push(String::from_utf8_lossy(name).into_owned());
    }
    Ok(Err(shown))
}

enum AlternativeName<'a> {
    Host(&'a [u8]),
    Address(IpAddr),
}

fn alternative_names<'a>(certificate: &Certificate<'a>) -> Result<Vec<AlternativeName<'a>>> {
    let extensions = certificate.extensions()?;
    let Some(extension) = extensions.iter().find(|extension| extension.id == SUBJECT_ALTERNATIVE_NAME) else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    let mut list = Parts::of(extension.value, Tag::Sequence)?;
    while let Some(name) = list.next_or_end()? {
        let name = AnyRef::from_der(name)?;
        match name.tag() {
            Tag::ContextSpecific { constructed: false, number: TagNumber::N2 } => {
                names.push(AlternativeName::Host(name.value()));
            }
            Tag::ContextSpecific { constructed: false, number: TagNumber::N7 } => {
                let address = match *name.value() {
                    [a, b, c, d] => IpAddr::from([a, b, c, d]),
                    ref bytes => IpAddr::from(<[u8; 16]>::try_from(bytes).map_err(|_| Tag::OctetString.value_error())?),
                };
                names.push(AlternativeName::Address(address));
            }
            _ => {}
        }
    }
    Ok(names)
}

/// The first common name of the subject: libpq looks at no other.
fn common_name<'a>(certificate: &Certificate<'a>) -> Result<Option<&'a [u8]>> {
    let mut sets = Parts::of(certificate.subject, Tag::Sequence)?;
    while let Some(set) = sets.next_or_end()? {
        let mut attributes = Parts::of(set, Tag::Set)?;
        while let Some(attribute) = attributes.next_or_end()? {
            let mut parts = Parts::of(attribute, Tag::Sequence)?;
            if ObjectIdentifier::from_der(parts.next()?)? == COMMON_NAME {
                return Ok(Some(AnyRef::from_der(parts.next()?)?.value()));
            }
        }
    }
    Ok(None)
}

/// Whether a name, or a name whose first label is `*`, is this host's. A zero byte fits no host.
fn is_host(name: &[u8], host: &str) -> bool {
    let host = host.as_bytes();
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(domain) = name.strip_prefix(b"*").filter(|domain| domain.len() > 1 && domain[0] == b'.') else {
        return false;
    };
    // The star is for one character at least, and for no dot.
    host.len() > domain.len()
        && host[host.len() - domain.len()..].eq_ignore_ascii_case(domain)
        && !host[..host.len() - domain.len()].contains(&b'.')
}

#[cfg(test)]
mod tests {
    use super::is_host;

    #[test]
    fn names_and_their_hosts() {
        for (name, host, expected) in [
            ("localhost", "LocalHost", true),
            ("db.example.test", "db.example.tes", false),
            ("*.example.test", "db.example.test", true),
            ("*.EXAMPLE.test", "DB.example.TEST", true),
            ("*.example.test", "a.b.example.test", false),
            ("*.example.test", ".example.test", false),
            ("*.example.test", "example.test", false),
            ("d*.example.test", "db.example.test", false),
            ("*", "db", false),
            ("*.", "db.", false),
            ("localhost\0.example.test", "localhost", false),
            ("", "", true),
        ] {
            assert_eq!(is_host(name.as_bytes(), host), expected, "{name:?} {host:?}");
        }
    }
}
