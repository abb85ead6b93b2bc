//! The parts of an X.509 certificate (RFC 5280, section 4.1), as far as somebody asks for them.
//!
//! Nothing is read before it is needed: where nothing is to be verified, a certificate is no more than the place where
//! the server's key stands, and what libpq does not look at then must not end the connection.

use rustls::pki_types::AlgorithmIdentifier;
use std::time::Duration;
use x509_cert::der::asn1::{AnyRef, BitStringRef, GeneralizedTime, ObjectIdentifier, OctetStringRef, UtcTime};
use x509_cert::der::{Decode, Reader, Result, SliceReader, Tag, TagNumber, Tagged};

/// A certificate in its parts. What is called encoded is so with tag and length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Certificate<'a> {
    /// All of it, encoded.
    pub(super) encoded: &'a [u8],
    /// What is signed, encoded.
    pub(super) signed: &'a [u8],
    /// The algorithm of the signature, as the one who signed says it within what is signed, and outside of it.
    pub(super) algorithms: [&'a [u8]; 2],
    /// The signature.
    pub(super) signature: &'a [u8],
    /// Who signed, encoded.
    pub(super) issuer: &'a [u8],
    /// Whose it is, encoded.
    pub(super) subject: &'a [u8],
    /// The key whose owner is told.
    pub(super) key: PublicKey<'a>,
    /// 0 for the first version, which has no extensions, 2 for the third.
    version: u8,
    validity: &'a [u8],
    extensions: Option<&'a [u8]>,
}

/// A SubjectPublicKeyInfo.
#[derive(Debug, Clone, Copy)]
pub(super) struct PublicKey<'a> {
    /// All of it, encoded.
    pub(super) encoded: &'a [u8],
    /// Kind and parameters.
    pub(super) algorithm: &'a [u8],
    /// The key itself.
    pub(super) bits: &'a [u8],
}

/// One of the extensions of a certificate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extension<'a> {
    /// Which one.
    pub(super) id: ObjectIdentifier,
    /// Whether who does not know it must refuse the certificate.
    pub(super) is_critical: bool,
    /// What it says, encoded.
    pub(super) value: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Finds the parts.
    ///
    /// # Errors
    /// It is no certificate.
    pub(super) fn read(encoded: &'a [u8]) -> Result<Self> {
        let mut whole = Parts::of(encoded, Tag::Sequence)?;
        let signed = whole.next()?;
        let outer = contents(whole.next()?, Tag::Sequence)?;
        let signature = bits(whole.next()?)?;
        let mut parts = Parts::of(signed, Tag::Sequence)?;
        let version = match parts.next_if(context(TagNumber::N0))? {
            Some(version) => u8::from_der(AnyRef::from_der(version)?.value())?,
            None => 0,
        };
        let _serial_number = parts.next()?;
        let inner = contents(parts.next()?, Tag::Sequence)?;
        let issuer = parts.next()?;
        let validity = parts.next()?;
        let subject = parts.next()?;
        let key = PublicKey::read(parts.next()?)?;
        let mut extensions = None;
        while let Some(part) = parts.next_or_end()? {
            if AnyRef::from_der(part)?.tag() == context(TagNumber::N3) {
                extensions = Some(part);
            }
        }
        let algorithms = [inner, outer];
        Ok(Self { encoded, signed, algorithms, signature, issuer, subject, key, version, validity, extensions })
    }

    /// Whether it is of the third version, which alone has extensions.
    pub(super) fn is_v3(&self) -> bool {
        self.version == 2
    }

    /// Whether it tells of itself: of a root this has to be so.
    pub(super) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    /// The first and the last moment of its validity, since 1970.
    ///
    /// # Errors
    /// They are not moments.
    pub(super) fn validity(&self) -> Result<[Duration; 2]> {
        let mut parts = Parts::of(self.validity, Tag::Sequence)?;
        Ok([moment(parts.next()?)?, moment(parts.next()?)?])
    }

    /// Its extensions.
    ///
    /// # Errors
    /// They are not ones, or there is one twice.
    pub(super) fn extensions(&self) -> Result<Vec<Extension<'a>>> {
        let Some(encoded) = self.extensions else { return Ok(Vec::new()) };
        let mut list = Parts::of(AnyRef::from_der(encoded)?.value(), Tag::Sequence)?;
        let mut found: Vec<Extension<'a>> = Vec::new();
        while let Some(extension) = list.next_or_end()? {
            let mut parts = Parts::of(extension, Tag::Sequence)?;
            let id = ObjectIdentifier::from_der(parts.next()?)?;
            let is_critical = parts.next_if(Tag::Boolean)?.map(bool::from_der).transpose()?.unwrap_or(false);
            let value = OctetStringRef::from_der(parts.next()?)?.as_bytes();
            if found.iter().any(|other| other.id == id) {
                return Err(Tag::Sequence.value_error());
            }
            found.push(Extension { id, is_critical, value });
        }
        Ok(found)
    }
}

impl<'a> PublicKey<'a> {
    fn read(encoded: &'a [u8]) -> Result<Self> {
        let mut parts = Parts::of(encoded, Tag::Sequence)?;
        Ok(Self { encoded, algorithm: contents(parts.next()?, Tag::Sequence)?, bits: bits(parts.next()?)? })
    }

    /// Whether it is one for this algorithm.
    pub(super) fn is_for(&self, algorithm: AlgorithmIdentifier) -> bool {
        self.algorithm == algorithm.as_ref()
    }

    /// Its kind in words: those of the kinds that rustls and ring do not know.
    pub(super) fn kind(&self) -> String {
        let ids = || -> Result<(ObjectIdentifier, Option<ObjectIdentifier>)> {
            let mut parts = Parts(SliceReader::new(self.algorithm)?);
            let kind = ObjectIdentifier::from_der(parts.next()?)?;
            Ok((kind, parts.next_if(Tag::ObjectIdentifier)?.map(ObjectIdentifier::from_der).transpose()?))
        };
        let Ok((kind, parameter)) = ids() else { return "unknown".into() };
        match (kind.to_string().as_str(), parameter.map(|id| id.to_string()).as_deref()) {
            // RFC 5480, section 2.1.1.1.
            ("1.2.840.10045.2.1", Some("1.3.132.0.35")) => "EC P-521".into(),
            ("1.2.840.10045.2.1", Some(curve)) => format!("EC with the curve {curve}"),
            // RFC 8017, appendix C.
            ("1.2.840.113549.1.1.1", _) => "RSA".into(),
            ("1.2.840.113549.1.1.10", _) => "RSA-PSS".into(),
            // RFC 8410, section 3.
            ("1.3.101.113", _) => "Ed448".into(),
            (other, _) => other.into(),
        }
    }
}

/// The members of a SEQUENCE, one after the other.
#[derive(Debug)]
pub(super) struct Parts<'a>(SliceReader<'a>);

impl<'a> Parts<'a> {
    /// The members of what is encoded with this tag.
    ///
    /// # Errors
    /// It is something else.
    pub(super) fn of(encoded: &'a [u8], tag: Tag) -> Result<Self> {
        Ok(Self(SliceReader::new(contents(encoded, tag)?)?))
    }

    /// The next member, encoded.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn next(&mut self) -> Result<&'a [u8]> {
        self.0.tlv_bytes()
    }

    /// The next member, if there is one.
    ///
    /// # Errors
    /// It is not whole.
    pub(super) fn next_or_end(&mut self) -> Result<Option<&'a [u8]>> {
        if self.0.is_finished() { Ok(None) } else { self.next().map(Some) }
    }

    /// The next member, if it has this tag.
    ///
    /// # Errors
    /// It is not whole.
    pub(super) fn next_if(&mut self, tag: Tag) -> Result<Option<&'a [u8]>> {
        if self.0.is_finished() || self.0.peek_tag()? != tag { Ok(None) } else { self.next().map(Some) }
    }
}

fn contents(encoded: &[u8], tag: Tag) -> Result<&[u8]> {
    let any = AnyRef::from_der(encoded)?;
    any.tag().assert_eq(tag)?;
    Ok(any.value())
}

fn bits(encoded: &[u8]) -> Result<&[u8]> {
    BitStringRef::from_der(encoded)?.as_bytes().ok_or_else(|| Tag::BitString.value_error())
}

fn context(number: TagNumber) -> Tag {
    Tag::ContextSpecific { constructed: true, number }
}

fn moment(encoded: &[u8]) -> Result<Duration> {
    match UtcTime::from_der(encoded) {
        Ok(time) => Ok(time.to_unix_duration()),
        Err(_) => GeneralizedTime::from_der(encoded).map(|time| time.to_unix_duration()),
    }
}
