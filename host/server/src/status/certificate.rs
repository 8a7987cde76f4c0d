//! Expiry and validity of a certificate chain in a file.

use std::path::Path;
use std::time::Duration;

use kassette_domain::time::Time;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use x509_cert::der::{Decode as _, Encode as _};

/// Maximum number of certificates read from a file; a chain has two or three.
const MOST: usize = 16;
/// Remaining validity below which a certificate should have been renewed: ACME clients renew 30 days before the
/// end.
pub(crate) const RENEW_BEFORE: Duration = Duration::from_secs(21 * 24 * 3600);

/// A certificate chain, starting with the listener's own certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) not_before: Time,
    /// The earliest end of validity in the chain.
    pub(crate) not_after: Time,
    /// False if a certificate did not issue the one before it: clients that do not know the missing issuer
    /// refuse the chain.
    pub(crate) is_in_order: bool,
}

impl Certificate {
    /// Reads a PEM file.
    ///
    /// # Errors
    /// A sentence about what is wrong with the file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let chain = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
        let mut read: Option<Self> = None;
        let mut issuer: Option<Vec<u8>> = None;
        for der in chain.take(MOST) {
            let der = der.map_err(|error| wrong(&error))?;
            let certificate =
                x509_cert::Certificate::from_der(&der).map_err(|error| wrong(&error))?;
            let tbs = certificate.tbs_certificate();
            let seconds =
                |time: x509_cert::time::Time| Time::from_secs(time.to_unix_duration().as_secs());
            let validity = tbs.validity();
            let (begin, end) = (seconds(validity.not_before), seconds(validity.not_after));
            let name = |name: &x509_cert::name::Name| name.to_der().map_err(|error| wrong(&error));
            let subject = name(tbs.subject())?;
            let follows = issuer.is_none_or(|issuer| issuer == subject);
            issuer = Some(name(tbs.issuer())?);
            let so_far = read.unwrap_or(Self {
                not_before: begin,
                not_after: end,
                is_in_order: true,
            });
            read = Some(Self {
                not_before: so_far.not_before.max(begin),
                not_after: so_far.not_after.min(end),
                is_in_order: so_far.is_in_order && follows,
            });
        }
        read.ok_or_else(|| wrong(&"has no certificate"))
    }

    /// Whole days until the chain expires; 0 once it has.
    pub(crate) fn days_left(&self, now: Time) -> u64 {
        self.not_after.since(now).as_secs() / (24 * 3600)
    }

    /// Reason why clients refuse the chain now. `None` if they accept it.
    pub(crate) fn refusal(&self, now: Time) -> Option<String> {
        if now >= self.not_after {
            return Some(format!(
                "it expired at {}: renew it",
                self.not_after.rfc3339()
            ));
        }
        if now < self.not_before {
            let begin = self.not_before.rfc3339();
            return Some(format!("it is not valid before {begin}: check the clock"));
        }
        let why = "its chain is out of order: each certificate must be followed by the one that issued it";
        (!self.is_in_order).then(|| why.to_owned())
    }

    /// Whether it should have been renewed by now.
    pub(crate) fn ends_soon(&self, now: Time) -> bool {
        self.not_after.since(now) < RENEW_BEFORE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd,
    };

    fn pem(der: &[u8]) -> String {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    fn params(name: &str, end: i32) -> CertificateParams {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(end, 1, 1);
        params
    }

    #[test]
    fn a_chain_ends_with_its_first_certificate_that_ends_and_must_be_in_order() {
        let mut authority = params("authority", 2027);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let own = params("pay.example", 2029);
        let own = own
            .signed_by(&KeyPair::generate().unwrap(), &authority)
            .unwrap();
        let other = params("other.example", 2029);
        let other = other.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chain.pem");
        let read = |chain: &[&[u8]]| {
            let text: String = chain.iter().map(|der| pem(der)).collect();
            std::fs::write(&file, text).unwrap();
            Certificate::read(&file)
        };
        let day = |text: &str| Time::parse_rfc3339(text).unwrap();
        let whole = read(&[own.der(), authority.der()]).unwrap();
        assert_eq!(whole.not_after, day("2027-01-01T00:00:00Z"));
        let now = day("2026-06-01T00:00:00Z");
        assert_eq!((whole.refusal(now), whole.ends_soon(now)), (None, false));
        assert_eq!(whole.days_left(day("2026-12-22T12:00:00Z")), 9);
        assert!(whole.ends_soon(day("2026-12-22T12:00:00Z")));
        let refusal = |certificate: &Certificate, at: &str| certificate.refusal(day(at)).unwrap();
        assert!(refusal(&whole, "2027-01-01T00:00:00Z").contains("expired at 2027-01-01"));
        assert!(refusal(&whole, "2025-12-31T00:00:00Z").contains("not valid before"));
        let mixed = read(&[own.der(), other.der()]).unwrap();
        assert!(refusal(&mixed, "2026-06-01T00:00:00Z").contains("out of order"));
        assert!(read(&[]).unwrap_err().contains("has no certificate"));
    }
}
