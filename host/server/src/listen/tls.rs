//! Certificate and key of a listener, and their replacement while it serves.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, ServerConfig};

use super::ListenError;

/// TLS configuration for new connections. Clones share it.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ArcSwap<TlsAcceptor>>);

impl Tls {
    pub(crate) fn new(acceptor: TlsAcceptor) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(acceptor)))
    }

    /// Replaces the certificate for new connections. Existing connections keep theirs.
    pub(crate) fn exchange(&self, acceptor: TlsAcceptor) {
        self.0.store(Arc::new(acceptor));
    }

    /// The current configuration.
    pub(crate) fn acceptor(&self) -> Arc<TlsAcceptor> {
        self.0.load_full()
    }
}

/// Reads the certificates of a PEM file.
///
/// # Errors
/// A sentence with the reason if there is not at least one certificate.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())?;
    if read.is_empty() {
        return Err("holds no certificate".to_owned());
    }
    Ok(read)
}

/// Reads a certificate chain and a key (PEM) into an acceptor that offers HTTP/2 and HTTP/1.1.
///
/// # Errors
/// [`ListenError::Tls`] if a file cannot be read or the key does not belong to the certificate.
pub(crate) fn tls_acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, ListenError> {
    let refuse = |path: &Path, why: String| ListenError::Tls {
        path: path.display().to_string(),
        why,
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refuse(certificate, error.to_string()))?;
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| refuse(key, error.to_string()))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                let why = format!(
                    "{} is not the key of the first certificate in it; put the two that belong together",
                    key.display()
                );
                refuse(certificate, why)
            }
            error => refuse(certificate, error.to_string()),
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
