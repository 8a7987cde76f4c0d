//! TLS in front of a server that has none, under a certificate of an authority of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// An authority, and a certificate that it has signed.
pub(crate) struct TlsServer {
    pub(crate) authority: CertificateDer<'static>,
    acceptor: TlsAcceptor,
}

impl TlsServer {
    /// For hosts by these names or addresses.
    pub(crate) fn new(names: &[&str]) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(4000, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let secret = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret.into())
            .unwrap();
        Self {
            authority: authority.der().clone(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }

    /// Writes the authority's certificate as PEM.
    pub(crate) fn write_authority(&self, file: &Path) {
        let text = STANDARD.encode(&self.authority);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        std::fs::write(file, pem).unwrap();
    }

    /// Passes what comes to an address on to a server, for as long as the runtime lives; where it listens.
    pub(crate) async fn serve(&self, listen: &str, to: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind(listen).await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = self.acceptor.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    // A client that does not trust the authority ends the handshake.
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut plain = TcpStream::connect(to).await.unwrap();
                    let _ = plain.set_nodelay(true);
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut plain).await;
                });
            }
        });
        address
    }
}
