//! Certificates that people make, and what becomes of them. `certificates/make.sh` has made them.

use super::certificate::Certificate;
use super::chain::Roots;
use super::name::{self, Found};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::time::Duration;

/// 2030-01-01, when all of them are valid.
const NOW: u64 = 1_893_456_000;

fn certificate(name: &str) -> CertificateDer<'static> {
    let path = format!("{}/src/postgres/tls/certificates/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    CertificateDer::from_pem_file(path).unwrap()
}

/// What is said of a server's certificate, which is the first one; the others are sent along.
fn verdict_on(sent: &[CertificateDer<'_>], roots: &[&str], seconds: u64) -> String {
    let roots = Roots::new(roots.iter().map(|name| certificate(name)).collect());
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    match roots.verify(&sent[0], &sent[1..], now, algorithms) {
        Ok(()) => "trusted".into(),
        Err(refusal) => refusal.to_string(),
    }
}

fn verdict(sent: &[&str], roots: &[&str]) -> String {
    let sent: Vec<_> = sent.iter().map(|name| certificate(name)).collect();
    verdict_on(&sent, roots, NOW)
}

#[test]
fn certificates_that_openssl_trusts() {
    for (sent, roots) in [
        // PostgreSQL's manual: of the first version, by an authority; and one that signs itself.
        (&["plain"][..], &["root"][..]),
        (&["own"], &["own"]),
        (&["of-old"], &["old"]),
        (&["old"], &["old"]),
        // Whatever else is trusted, and is sent along.
        // OpenSSL gives up after the first of two authorities of one name; whichever signed it is trusted.
        (&["plain"], &["old", "namesake", "root"]),
        (&["plain", "root", "own"], &["root"]),
        (&["authority"], &["root"]),
        (&["below-middle", "middle"], &["root"]),
        (&["below-middle"], &["middle", "root"]),
        (&["named"], &["root"]),
    ] {
        assert_eq!(verdict(sent, roots), "trusted", "{sent:?} {roots:?}");
    }
}

#[test]
fn certificates_that_openssl_refuses() {
    for (sent, roots, words) in [
        (&["plain"][..], &["old"][..], "leads to none of those"),
        (&["plain"], &[], "leads to none of those"),
        (&["own"], &["root"], "signs itself, and is not among those"),
        // Another authority of the same name.
        (&["plain"], &["namesake"], "has a signature that is not its issuer's"),
        (&["plain", "root"], &["namesake"], "has a signature that is not its issuer's"),
        // What was sent along is not trusted, nor is one that an authority has issued, unless it is one.
        (&["plain", "root"], &["old"], "signs itself, and is not among those"),
        (&["below-middle", "middle"], &["old"], "leads to none of those"),
        (&["below-middle"], &["root"], "leads to none of those"),
        (&["plain"], &["plain"], "leads to none of those"),
        (&["below-no-middle", "no-middle"], &["root"], "is not one of an authority"),
        (&["below-old-middle", "old-middle"], &["root"], "is not one of an authority"),
        (&["below-short-middle", "short-middle"], &["short"], "allows fewer authorities"),
        (&["client-only"], &["root"], "is not meant for servers"),
        (&["critical"], &["root"], "critical extension 1.2.3.4"),
        (&["outside"], &["narrow"], "allows some names only"),
    ] {
        let verdict = verdict(sent, roots);
        assert!(verdict.contains(words), "{sent:?} {roots:?} {verdict}");
    }
}

/// OpenSSL holds it against the constraints where no alternative name is there, webpki does not.
#[test]
fn a_common_name_that_an_authority_may_not_sign_for() {
    let roots = Roots::new(vec![certificate("narrow")]);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let refusal = roots.verify_here(&certificate("common"), &[], now, algorithms).unwrap_err();
    assert!(refusal.to_string().contains("allows some names only"), "{refusal}");
}

#[test]
fn certificates_at_other_times() {
    for name in ["plain", "named"] {
        let verdict = |seconds| verdict_on(&[certificate(name)], &["root"], seconds);
        assert!(verdict(NOW - 10 * 31_536_000).contains("is not valid yet"));
        assert!(verdict(NOW + 10 * 31_536_000).contains("has expired"));
    }
}

/// No byte of it can be another one, or be missing.
#[test]
fn changed_certificates() {
    let whole = certificate("plain");
    for place in 0..whole.len() {
        let mut bytes = whole.to_vec();
        bytes[place] ^= 1;
        assert_ne!(verdict_on(&[bytes.into()], &["root"], NOW), "trusted", "byte {place}");
        let cut = CertificateDer::from(whole[..place].to_vec());
        assert_ne!(verdict_on(&[cut], &["root"], NOW), "trusted", "{place} bytes");
    }
}

#[test]
fn names_of_certificates() {
    for (certificate_name, host, expected) in [
        ("plain", "localhost", Ok(Found::Common)),
        ("plain", "db.example.test", Err("localhost")),
        ("mail", "localhost", Ok(Found::Common)),
        ("named", "DB.example.test", Ok(Found::Alternative)),
        ("named", "10.0.0.1", Ok(Found::Alternative)),
        // Its common name does not count beside another name of the same kind.
        ("named", "localhost", Err("db.example.test 10.0.0.1")),
        ("named", "10.0.0.2", Err("db.example.test 10.0.0.1")),
    ] {
        let certificate = certificate(certificate_name);
        let found = name::find(&Certificate::read(&certificate).unwrap(), host).unwrap();
        assert_eq!(
            found.map_err(|names| names.join(" ")),
            expected.map_err(str::to_owned),
            "{certificate_name} {host}"
        );
    }
}
