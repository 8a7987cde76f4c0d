//! Expiry of the listeners' certificates.

use std::path::Path;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// Name of the gauge.
pub(super) const NAME: &str = "kassette_tls_certificate_not_after_timestamp_seconds";

/// Records that a listener now uses the chain of this PEM file. The first certificate is the listener's own.
pub(crate) fn shows(listener: &'static str, chain: &Path) {
    // A file without a certificate is rejected by the code that loads it for TLS.
    let first = CertificateDer::from_pem_file(chain).ok();
    if let Some(end) = first.as_ref().and_then(end) {
        metrics::gauge!(NAME, "listener" => listener).set(end);
    }
}

/// Time at which a certificate expires, in seconds since 1970. `None` if it cannot be parsed.
fn end(certificate: &CertificateDer<'_>) -> Option<f64> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    Some(validity.not_after.to_unix_duration().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::for_tests;
    use std::path::PathBuf;

    use base64::Engine as _;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    /// Writes a file with a chain of certificates that expire on January 2 of these years.
    fn chain(folder: &Path, years: &[i32]) -> PathBuf {
        let key = KeyPair::generate().unwrap();
        let certificate = |year: &i32| {
            let mut params = CertificateParams::new(vec!["pay.example".into()]).unwrap();
            params.not_after = date_time_ymd(*year, 1, 2);
            let made = params.self_signed(&key).unwrap();
            let text = base64::engine::general_purpose::STANDARD.encode(made.der());
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        };
        let file = folder.join("chain.pem");
        std::fs::write(&file, years.iter().map(certificate).collect::<String>()).unwrap();
        file
    }

    #[test]
    fn the_end_of_the_certificate_in_use_is_shown_for_each_listener() {
        let (recorder, measured) = for_tests();
        let folder = tempfile::tempdir().unwrap();
        metrics::with_local_recorder(&recorder, || {
            shows("public", &chain(folder.path(), &[2027, 2026]));
            shows("admin", &chain(folder.path(), &[2027]));
            // A replacement. Times after 2049 have a different encoding.
            shows("admin", &chain(folder.path(), &[2051]));
            shows("admin", &chain(folder.path(), &[]));
            shows("admin", &folder.path().join("missing.pem"));
        });
        let text = measured.render();
        for (listener, end) in [("public", 1_798_848_000_u64), ("admin", 2_556_230_400)] {
            let line = format!("{NAME}{{listener=\"{listener}\"}} {end}\n");
            assert!(text.contains(&line), "{line}\nin\n{text}");
        }
    }
}
