//! Connects through a proxy: opens a tunnel with CONNECT, in which the client speaks TLS with the target.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::{Host, Url};

use crate::dial::dial;
use crate::exchange::NotSent;
use crate::network::Network;

/// Time that the proxy has to connect to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the proxy's response to CONNECT, in bytes.
const MAX_ANSWER: usize = 16 * 1024;
/// Maximum number of addresses of the proxy that are tried.
const MAX_ADDRESSES: usize = 4;

/// The side that resolves the names of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// The gateway filters the addresses and asks the proxy for one of them.
    Gateway,
    /// The proxy receives the name. Nothing is resolved or filtered here.
    Proxy,
}

/// A proxy for all connections except those to loopback and to inner hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    host: Host<String>,
    port: u16,
    resolver: Resolver,
}

impl Proxy {
    /// Parses an address such as `http://proxy.internal:3128`.
    ///
    /// # Errors A description of the first fault.
    pub fn parse(text: &str, resolver: Resolver) -> Result<Self, &'static str> {
        let url = Url::parse(text).map_err(|_| "is no address")?;
        if url.scheme() != "http" {
            return Err("must use http: the channel to the target is encrypted in the tunnel");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not contain a user name or password");
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err("must have nothing after the port");
        }
        let host = url.host().ok_or("has no host")?;
        Ok(Self {
            host: host.to_owned(),
            port: url.port_or_known_default().ok_or("has no port")?,
            resolver,
        })
    }

    /// The same proxy with another resolver.
    #[must_use]
    pub fn resolving(self, resolver: Resolver) -> Self {
        Self { resolver, ..self }
    }

    pub(crate) const fn resolver(&self) -> Resolver {
        self.resolver
    }

    /// Opens a tunnel to the first target that the proxy can reach. A target is an address or a name, with its
    /// port.
    pub(crate) async fn tunnel(
        &self,
        network: &dyn Network,
        targets: &[String],
    ) -> Result<TcpStream, NotSent> {
        let mut last = NotSent::NoConnection(ErrorKind::AddrNotAvailable);
        for target in targets {
            let stream = self.dial(network).await?;
            match timeout(CONNECT_TIMEOUT, connect(stream, target)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(why)) => last = why,
                Err(_) => last = NotSent::NoConnection(ErrorKind::TimedOut),
            }
        }
        Err(last)
    }

    /// Connects to the proxy. Its addresses are not filtered, because the operator chose it.
    async fn dial(&self, network: &dyn Network) -> Result<TcpStream, NotSent> {
        let found = match &self.host {
            Host::Ipv4(address) => vec![(*address).into()],
            Host::Ipv6(address) => vec![(*address).into()],
            Host::Domain(name) => network.resolve(name).await.map_err(|_| NotSent::NoProxy)?,
        };
        let addresses: Vec<SocketAddr> = found
            .into_iter()
            .take(MAX_ADDRESSES)
            .map(|address| (address, self.port).into())
            .collect();
        dial(network, &addresses)
            .await
            .map_err(|_| NotSent::NoProxy)
    }
}

async fn connect(mut stream: TcpStream, target: &str) -> Result<TcpStream, NotSent> {
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let broken = |_| NotSent::NoProxy;
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    while !answer.ends_with(b"\r\n\r\n") {
        let read = stream.read(&mut part).await.map_err(broken)?;
        answer.extend_from_slice(part.get(..read).unwrap_or_default());
        // The target sends nothing before the client does, so nothing follows the head.
        if read == 0 || answer.len() > MAX_ANSWER {
            return Err(NotSent::NoProxy);
        }
    }
    match status(&answer) {
        Some(200..=299) => Ok(stream),
        Some(status) => Err(NotSent::ProxyRefused(status)),
        None => Err(NotSent::NoProxy),
    }
}

/// The status in the first line of a response. `None` if the line is not an HTTP/1.x status line.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    let mut words = str::from_utf8(line).ok()?.split(' ');
    words
        .next()
        .filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Mutex;

    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::connect::connect as connect_to;
    use crate::network::{Dialing, Resolving};

    /// A proxy that gives these responses, one per connection. The task returns the request lines received.
    async fn proxy(answers: &'static [&'static str]) -> (SocketAddr, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut heard = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.unwrap());
                }
                let request = String::from_utf8(request).unwrap();
                heard.push(request.lines().next().unwrap().to_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            heard
        });
        (address, task)
    }

    /// Resolves every name to these addresses, and can dial only the proxy.
    struct Names {
        addresses: Vec<IpAddr>,
        asked: Mutex<Vec<String>>,
    }

    impl Network for Names {
        fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
            self.asked.lock().unwrap().push(name.to_owned());
            let found = self.addresses.clone();
            Box::pin(async move {
                match found.is_empty() {
                    true => Err(ErrorKind::NotFound.into()),
                    false => Ok(found),
                }
            })
        }

        fn dial(&self, address: SocketAddr) -> Dialing<'_> {
            assert!(address.ip().is_loopback(), "{address} is not the proxy");
            Box::pin(TcpStream::connect(address))
        }
    }

    /// The error of a connection to `https://api.vendor.example:8443`, the lines that the proxy received, and the
    /// names that were resolved.
    async fn tried(
        resolver: Resolver,
        addresses: &[IpAddr],
        answers: &'static [&'static str],
    ) -> (NotSent, Vec<String>, Vec<String>) {
        let (address, heard) = proxy(answers).await;
        let proxy = Proxy::parse(&format!("http://{address}"), resolver).unwrap();
        let network = Names {
            addresses: addresses.to_vec(),
            asked: Mutex::default(),
        };
        let url = Url::parse("https://api.vendor.example:8443/x").unwrap();
        let tls = crate::tls::connector(&crate::Trust::Public, &[]);
        let outcome = connect_to(&url, &network, tls.as_ref(), false, Some(&proxy)).await;
        let failed = outcome.map(drop).expect_err("no target behind it");
        if answers.is_empty() {
            heard.abort();
        }
        let heard = heard.await.unwrap_or_default();
        (failed, heard, network.asked.into_inner().unwrap())
    }

    const PUBLIC: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(93, 184, 215, 14));
    const PRIVATE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[tokio::test]
    async fn the_proxy_is_asked_for_an_address_that_was_filtered_here() {
        let answers = &["HTTP/1.1 403 Forbidden\r\n\r\n"];
        let found = [PRIVATE, PUBLIC];
        let (failed, heard, asked) = tried(Resolver::Gateway, &found, answers).await;
        assert_eq!(failed, NotSent::ProxyRefused(403));
        assert_eq!(heard, ["CONNECT 93.184.215.14:8443 HTTP/1.1"]);
        assert_eq!(asked, ["api.vendor.example"]);
        let (failed, heard, _) = tried(Resolver::Gateway, &[PRIVATE], &[]).await;
        assert_eq!((failed, heard), (NotSent::NotPublic, vec![]));
    }

    #[tokio::test]
    async fn a_proxy_that_resolves_is_asked_for_the_name() {
        let answers = &["HTTP/1.0 502 Bad Gateway\r\nX: y\r\n\r\n"];
        let (failed, heard, asked) = tried(Resolver::Proxy, &[], answers).await;
        assert_eq!(failed, NotSent::ProxyRefused(502));
        assert_eq!(heard, ["CONNECT api.vendor.example:8443 HTTP/1.1"]);
        assert_eq!(asked, Vec::<String>::new(), "nothing is resolved here");
    }

    #[tokio::test]
    async fn the_next_address_is_asked_for_and_a_tunnel_that_stands_leads_to_the_target() {
        let answers = &[
            "HTTP/1.1 502 Bad Gateway\r\n\r\n",
            "HTTP/1.1 200 Connection established\r\n\r\n",
        ];
        let other = IpAddr::from([93, 184, 215, 15]);
        let (failed, heard, _) = tried(Resolver::Gateway, &[PUBLIC, other], answers).await;
        // The proxy of this test closes the tunnel during the TLS handshake.
        assert!(matches!(failed, NotSent::NoTls(_)), "{failed:?}");
        assert_eq!(
            heard,
            [
                "CONNECT 93.184.215.14:8443 HTTP/1.1",
                "CONNECT 93.184.215.15:8443 HTTP/1.1"
            ]
        );
    }

    #[tokio::test]
    async fn what_is_no_answer_of_a_proxy_opens_no_tunnel() {
        for answers in [&["SSH-2.0\r\n\r\n"], &["HTTP/1.1 200"], &["\r\n\r\n"]] {
            let (failed, ..) = tried(Resolver::Proxy, &[], answers).await;
            assert_eq!(failed, NotSent::NoProxy);
        }
    }

    #[test]
    fn a_proxys_address_is_a_host_and_a_port() {
        let parse = |text| Proxy::parse(text, Resolver::Gateway).is_ok();
        for text in [
            "http://proxy.internal:3128",
            "http://10.0.0.1:8080/",
            "http://[::1]:1",
        ] {
            assert!(parse(text), "{text}");
        }
        for text in [
            "https://proxy.internal:3128",
            "socks5://proxy.internal",
            "proxy.internal:3128",
            "http://user:pass@proxy.internal:3128",
            "http://proxy.internal:3128/path",
            "http://proxy.internal:3128?x",
        ] {
            assert!(!parse(text), "{text}");
        }
    }
}
