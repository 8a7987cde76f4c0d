//! The encrypted channel: rustls with ring and Mozilla's roots, nothing from the environment.

use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How HTTP/2 is called in the handshake.
pub(crate) const H2: &[u8] = b"h2";

/// A connector that offers HTTP/2 and HTTP/1.1 and trusts the public certificate authorities.
///
/// None where the crypto library refuses its own defaults; then nothing can be sent over https.
pub(crate) fn connector() -> Option<TlsConnector> {
    let roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .ok()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    Some(TlsConnector::from(Arc::new(config)))
}
