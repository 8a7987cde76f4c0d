//! A small HTTP client for single calls: unencrypted to loopback, TLS to all other hosts.
//!
//! The guarded client is for destinations chosen by others and refuses private addresses. The admin listener
//! often has a private address, which the operator chooses.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
pub(in crate::cli) use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kassette_domain::secret::Secret;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, crypto::ring};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::{Host, Url};

use super::call::{Call, Shape};

/// Maximum duration of a call: a cancellation may wait for a provider.
const DEADLINE: Duration = Duration::from_secs(60);
/// Maximum size of a response in bytes; a page of a hundred payments is much smaller.
const MOST: usize = 32 << 20;

/// A server's admin API.
#[derive(Debug)]
pub(super) struct Remote {
    base: Url,
    /// Name or address of the host.
    host: String,
    port: u16,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Remote {
    /// The API at a base URL.
    ///
    /// # Errors
    /// If the URL is invalid, or would send the token unencrypted over a network.
    pub(super) fn new(base: &str, ca_file: Option<&Path>) -> Result<Self, String> {
        let wrong =
            || format!("--admin-url {base:?} must be like https://ops.example:8081/admin/v1");
        let url = Url::parse(base).map_err(|_| wrong())?;
        let (loopback, host) = match url.host().ok_or_else(wrong)? {
            Host::Domain(name) => (name == "localhost", name.to_owned()),
            Host::Ipv4(ip) => (ip.is_loopback(), ip.to_string()),
            Host::Ipv6(ip) => (ip.is_loopback(), ip.to_string()),
        };
        let tls = match url.scheme() {
            "https" => {
                let name = ServerName::try_from(host.clone()).map_err(|_| wrong())?;
                Some((trust(ca_file)?, name))
            }
            "http" if loopback => None,
            "http" => {
                return Err(format!(
                    "{base}: plain http would show the token to the network; use https"
                ));
            }
            _ => return Err(wrong()),
        };
        let port = url.port_or_known_default().ok_or_else(wrong)?;
        Ok(Self {
            base: url,
            host,
            port,
            tls,
        })
    }

    /// Makes a call and returns the response's JSON, or null without content.
    ///
    /// # Errors
    /// The server's refusal, or why there is no response.
    pub(super) async fn send(
        &self,
        call: &Call,
        token: &Secret,
        attribution: (Option<&str>, Option<&str>),
    ) -> Result<Value, String> {
        let request = self.request(call, token, attribution)?;
        let exchanged = tokio::time::timeout(DEADLINE, self.exchange(request)).await;
        let (status, body) = exchanged.map_err(|_| self.silent())??;
        if !status.is_success() {
            return Err(refusal(status, &body));
        }
        if body.is_empty() {
            return Ok(Value::Null);
        }
        let not_ours = |_| format!("{} did not answer as an admin API does", self.base);
        serde_json::from_slice(&body).map_err(not_ours)
    }

    /// Makes a call with a streamed response: the deadline applies only until the response starts.
    ///
    /// # Errors
    /// As [`Remote::send`].
    pub(super) async fn stream(
        &self,
        call: &Call,
        token: &Secret,
        attribution: (Option<&str>, Option<&str>),
    ) -> Result<Incoming, String> {
        let request = self.request(call, token, attribution)?;
        let begun = tokio::time::timeout(DEADLINE, self.begin(request)).await;
        let response = begun.map_err(|_| self.silent())??;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = Limited::new(response.into_body(), MOST).collect().await;
        Err(refusal(
            status,
            &body.map_err(|error| self.broken(&error))?.to_bytes(),
        ))
    }

    fn silent(&self) -> String {
        let seconds = DEADLINE.as_secs();
        format!("{} gave no answer within {seconds} s", self.base)
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> String {
        format!("{}: {error}", self.base)
    }

    fn request(
        &self,
        call: &Call,
        token: &Secret,
        (actor, reason): (Option<&str>, Option<&str>),
    ) -> Result<Request<Full<Bytes>>, String> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| format!("{}: has no path", self.base))?
            .pop_if_empty()
            .extend(&call.path);
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| "the operator token has characters that no token has".to_owned())?;
        bearer.set_sensitive(true);
        let accepted = match call.shape {
            Shape::Diff => "application/x-ndjson",
            _ => "application/json",
        };
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(target)
            .header(HOST, authority)
            .header(ACCEPT, accepted)
            .header(AUTHORIZATION, bearer);
        for (name, text) in [("x-audit-actor", actor), ("x-audit-reason", reason)] {
            let Some(text) = text else { continue };
            let value = HeaderValue::from_bytes(text.as_bytes())
                .map_err(|_| "--actor and --reason must be one line each".to_owned())?;
            request = request.header(name, value);
        }
        let body = match (&call.body, &call.module) {
            (Some(body), _) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Bytes::from(body.to_string())
            }
            (None, Some(module)) => {
                request = request.header(CONTENT_TYPE, "application/wasm");
                Bytes::from(module.clone())
            }
            (None, None) => Bytes::new(),
        };
        request
            .body(Full::new(body))
            .map_err(|error| error.to_string())
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
        let response = self.begin(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST).collect().await;
        Ok((
            status,
            body.map_err(|error| self.broken(&error))?.to_bytes(),
        ))
    }

    /// Sends a request; the response's body is not read yet.
    async fn begin(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let unreachable = |error: std::io::Error| {
            format!(
                "cannot reach {}: {error}; is the server running?",
                self.base
            )
        };
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(unreachable)?;
        match &self.tls {
            None => self.over(stream, request).await,
            Some((config, name)) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector
                    .connect(name.clone(), stream)
                    .await
                    .map_err(|error| {
                        distrust(&self.base, &error).unwrap_or_else(|| unreachable(error))
                    })?;
                self.over(stream, request).await
            }
        }
    }

    async fn over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.broken(&error))?;
        tokio::spawn(connection);
        sender
            .send_request(request)
            .await
            .map_err(|error| self.broken(&error))
    }
}

/// What is wrong with a server's certificate, and what to do. `None` if the connection failed for another
/// reason.
fn distrust(base: &Url, error: &std::io::Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(why) = inner else {
        return None;
    };
    let why = why.to_string();
    let advice = if why.contains("UnknownIssuer") {
        "no known authority signed it: name the authority's certificate with --ca-file"
    } else if why.contains("CaUsedAsEndEntity") {
        "it is an authority's own, as `openssl req -x509` makes it: make one for the server, with \
         -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:ITS-NAME"
    } else {
        "renew it, or call the server by a name that stands in its subjectAltName"
    };
    Some(format!(
        "the certificate of {base} is not accepted ({why}): {advice}"
    ))
}

/// The public certificate authorities, and those of a file if given.
fn trust(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(path) = ca_file {
        let refuse = |why: String| format!("{}: {why}", path.display());
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| refuse(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| refuse(error.to_string()))?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The error in a response.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    let said = serde_json::from_slice::<Value>(body).ok();
    let said = said
        .as_ref()
        .and_then(|body| body.get("error"))
        .and_then(Value::as_str);
    let why = said.unwrap_or("the answer says no more");
    format!("{} ({})", crate::cli::output::plain(why), status.as_u16())
}
