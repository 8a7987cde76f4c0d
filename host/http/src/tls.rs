//! TLS with rustls and ring, independent of the environment.

use std::io;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

use crate::exchange::NoTls;

/// ALPN name of HTTP/2.
pub(crate) const H2: &[u8] = b"h2";

/// Certificate authorities that are trusted.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Mozilla's list of public authorities.
    #[default]
    Public,
    /// Only these authorities.
    Only(Vec<CertificateDer<'static>>),
}

/// A connector that offers HTTP/2 and HTTP/1.1. It also trusts the authorities in `beside`.
///
/// `None` if a certificate cannot be parsed or the crypto library does not support the default TLS versions.
/// Nothing can be sent over https then.
pub(crate) fn connector(trust: &Trust, beside: &[CertificateDer<'static>]) -> Option<TlsConnector> {
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::Public => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Trust::Only(authorities) => {
            for authority in authorities {
                roots.add(authority.clone()).ok()?;
            }
        }
    }
    for authority in beside {
        roots.add(authority.clone()).ok()?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .ok()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    Some(TlsConnector::from(Arc::new(config)))
}

/// Maps the error of a handshake to its reason.
pub(crate) fn trouble(error: &io::Error) -> NoTls {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(Error::InvalidCertificate(why)) = inner else {
        return NoTls::Handshake;
    };
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => NoTls::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            NoTls::NotYetValid
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            NoTls::WrongName
        }
        CertificateError::UnknownIssuer => NoTls::UnknownAuthority,
        _ => NoTls::Certificate,
    }
}
