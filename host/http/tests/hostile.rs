//! Sends requests to hostile destinations. A listener, the trap, must not receive a connection.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    reason = "a test that cannot go on fails"
)]

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use kassette_http::{
    Client, Guard, HeaderMap, Method, Network, NotSent, Refused, Request, Resolving, SendError,
    Trust, is_public,
};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const CORPUS: &str = include_str!("hostile.tsv");

/// One line of `hostile.tsv`.
struct Case {
    /// Line number, for messages.
    line: usize,
    rule: &'static str,
    url: String,
    /// Addresses that the host resolves to.
    leads_to: Vec<IpAddr>,
}

/// A listener on every address of this machine.
struct Trap {
    port: u16,
    own4: Ipv4Addr,
    own6: Ipv6Addr,
    /// Number of connections, and the address of the last client.
    last: watch::Receiver<(usize, SocketAddr)>,
}

impl Trap {
    async fn set() -> Self {
        // The IPv6 wildcard also accepts IPv4, unless the machine lacks one of them.
        let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap(),
        };
        let port = listener.local_addr().unwrap().port();
        let nobody = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let (seen, last) = watch::channel((0, nobody));
        tokio::spawn(async move {
            while let Ok((_, who)) = listener.accept().await {
                seen.send_modify(|(count, last)| (*count, *last) = (*count + 1, who));
            }
        });
        let own4 = match own_address("0.0.0.0:0", "192.0.2.1:9") {
            Some(IpAddr::V4(address)) => address,
            _ => Ipv4Addr::LOCALHOST,
        };
        let own6 = match own_address("[::]:0", "[2001:db8::1]:9") {
            Some(IpAddr::V6(address)) => address,
            _ => Ipv6Addr::LOCALHOST,
        };
        Self {
            port,
            own4,
            own6,
            last,
        }
    }

    /// Replaces placeholders with the values of this machine.
    fn fill(&self, text: &str) -> String {
        text.replace("{port}", &self.port.to_string())
            .replace("{own4}", &self.own4.to_string())
            .replace("{own6}", &self.own6.to_string())
    }

    fn cases(&self) -> Vec<Case> {
        let lines = CORPUS.lines().enumerate();
        lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(place, line)| {
                let columns: Vec<&str> = line.split('\t').collect();
                assert!((3..=4).contains(&columns.len()), "line {}", place + 1);
                assert!(!columns[2].is_empty(), "line {} says why", place + 1);
                let leads_to = columns.get(3).copied().unwrap_or_default();
                Case {
                    line: place + 1,
                    rule: columns[0],
                    url: self.fill(&unescaped(columns[1])),
                    leads_to: self
                        .fill(leads_to)
                        .split_whitespace()
                        .map(|address| address.parse().unwrap())
                        .collect(),
                }
            })
            .collect()
    }

    /// Asserts that the trap works and has received no connection.
    async fn assert_untouched(&self) {
        assert_eq!(self.caught().await, 0);
    }

    /// Number of connections received. They are accepted in order: when the connection of this method has been
    /// accepted, all earlier ones have been too.
    async fn caught(&self) -> usize {
        let own = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await;
        let own = own.expect("the trap listens").local_addr().unwrap();
        let mut last = self.last.clone();
        let seen = last.wait_for(|(_, last)| last.port() == own.port()).await;
        seen.unwrap().0 - 1
    }
}

/// The local address that this machine would use for a destination. Sends nothing. `None` for a public one.
fn own_address(from: &str, to: &str) -> Option<IpAddr> {
    let socket = UdpSocket::bind(from).ok()?;
    socket.connect(to).ok()?;
    let own = socket.local_addr().ok()?.ip();
    // A public address is not internal: a shop may run on this machine.
    Some(own).filter(|own| !is_public(*own))
}

/// Replaces the escapes `\u{…}` and `\\`.
fn unescaped(text: &str) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        whole.push_str(before);
        rest = if let Some(after) = after.strip_prefix('\\') {
            whole.push('\\');
            after
        } else {
            let (code, after) = after.strip_prefix("u{").unwrap().split_once('}').unwrap();
            whole.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
            after
        };
    }
    whole + rest
}

/// Resolves the names of the corpus to its addresses. Dialing opens real connections.
#[derive(Default)]
struct Names {
    known: HashMap<String, Vec<IpAddr>>,
    asked: Mutex<Vec<String>>,
}

impl Network for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        self.asked.lock().push(name.to_owned());
        Box::pin(async move {
            let found = self.known.get(name).cloned();
            found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
        })
    }
}

fn post(url: url::Url) -> Request<'static> {
    Request {
        method: Method::POST,
        url,
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
        deadline: Duration::from_secs(10),
        max_response: 1024,
        hosts: None,
    }
}

fn client(guard: Guard, cases: &[Case]) -> (Client, Arc<Names>) {
    let known = cases
        .iter()
        .filter(|case| !case.leads_to.is_empty())
        .map(|case| {
            let host = url::Url::parse(&case.url).unwrap();
            (host.host_str().unwrap().to_owned(), case.leads_to.clone())
        })
        .collect();
    let names = Arc::new(Names {
        known,
        asked: Mutex::default(),
    });
    let client = Client::over(guard, Arc::clone(&names) as _, Trust::Public);
    (client, names)
}

/// Name of the rule in the corpus.
fn named(refused: Refused) -> &'static str {
    match refused {
        Refused::NotAUrl => "not-a-url",
        Refused::Scheme => "scheme",
        Refused::NoHost => "no-host",
        Refused::Userinfo => "userinfo",
        Refused::Fragment => "fragment",
        Refused::IpAddress => "ip-address",
        Refused::InnerName => "inner-name",
        Refused::Port => "port",
        Refused::TooLong => "too-long",
    }
}

/// The rule that stops a request to this text. `None` if it was sent.
async fn stopped(client: &Client, text: &str) -> Option<&'static str> {
    let judged = client.guard().judge(text).map_err(named);
    // The client also stops callers that skip the strict check.
    let sent = match url::Url::parse(text) {
        Ok(url) => client.send(post(url)).await,
        Err(_) => return judged.err(),
    };
    match sent {
        Err(SendError::NotSent(NotSent::Refused(refused))) => {
            Some(judged.err().unwrap_or_else(|| named(refused)))
        }
        Err(SendError::NotSent(NotSent::NotPublic)) => Some(judged.err().unwrap_or("leads-inside")),
        // The strict check refuses the name, which also does not resolve.
        Err(SendError::NotSent(NotSent::NoSuchName)) => judged.err(),
        _ => None,
    }
}

#[tokio::test]
async fn hostile_destinations_see_no_connection_and_are_refused_for_the_right_reason() {
    let trap = Trap::set().await;
    let cases = trap.cases();
    assert!(cases.len() >= 300, "{}", cases.len());
    let (client, names) = client(Guard::default(), &cases);
    let mut wrong = Vec::new();
    for case in &cases {
        let why = stopped(&client, &case.url).await;
        if why != Some(case.rule) {
            wrong.push(format!("line {}: {} {why:?}", case.line, case.url));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    trap.assert_untouched().await;
    let inside = cases.iter().filter(|case| case.rule == "leads-inside");
    for case in inside {
        let host = url::Url::parse(&case.url).unwrap();
        let asked = names.asked.lock();
        let times = asked
            .iter()
            .filter(|name| **name == host.host_str().unwrap());
        assert_eq!(times.count(), 1, "one look-up: {}", case.url);
    }
}

#[tokio::test]
async fn the_development_setting_opens_loopback_and_nothing_else() {
    let trap = Trap::set().await;
    let guard = Guard {
        allow_loopback: true,
    };
    // Loopback is open then, and so is an address of this machine that is a loopback address.
    let cases = trap.cases();
    let (closed, open): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| {
        let url = url::Url::parse(&case.url);
        !url.is_ok_and(|url| match url.host() {
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        })
    });
    assert!(closed.len() > 250);
    let (client, _) = client(guard, &closed);
    for case in &closed {
        assert!(
            stopped(&client, &case.url).await.is_some(),
            "line {}: {}",
            case.line,
            case.url
        );
    }
    trap.assert_untouched().await;
    // A loopback request is sent, which proves that the trap is in its way.
    let plain = |case: &&Case| case.rule == "ip-address" && case.url.contains("//127.0.0.1:");
    let url = open.iter().find(plain).unwrap().url.parse().unwrap();
    client.send(post(url)).await.unwrap_err();
    // The connection that `assert_untouched` made, and the one of this request.
    assert_eq!(trap.caught().await, 2);
}

#[tokio::test]
async fn the_development_setting_opens_no_localhost_that_leads_elsewhere() {
    let guard = Guard {
        allow_loopback: true,
    };
    for elsewhere in [
        "10.0.0.1",
        "8.8.8.8",
        "169.254.169.254",
        "0.0.0.0",
        "fd00::1",
    ] {
        let (dialled, outcomes) = resolved(guard, "http://localhost/", &[&[elsewhere]]).await;
        assert_eq!(outcomes, [NOT_PUBLIC], "{elsewhere}");
        assert!(dialled.is_empty(), "{elsewhere}");
    }
    let (dialled, _) = resolved(guard, "http://localhost/", &[&["8.8.8.8", "127.0.0.1"]]).await;
    assert_eq!(dialled, ["127.0.0.1:80".parse().unwrap()]);
}

/// Resolves to the next entry of `answers` each time, and records the dialed addresses.
struct Rebinding {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    dialled: Mutex<Vec<SocketAddr>>,
    /// Server that every address is connected to.
    server: SocketAddr,
}

impl Network for Rebinding {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        let answer = self.answers.lock().remove(0);
        Box::pin(async move { Ok(answer) })
    }

    fn dial(&self, address: SocketAddr) -> kassette_http::Dialing<'_> {
        self.dialled.lock().push(address);
        Box::pin(TcpStream::connect(self.server))
    }
}

/// Sends one request per answer to a shop whose name resolves to that answer. Returns the dialed addresses and the
/// errors.
async fn rebound(answers: &[&[&str]]) -> (Vec<SocketAddr>, Vec<SendError>) {
    resolved(Guard::default(), "https://shop.example/webhook", answers).await
}

async fn resolved(
    guard: Guard,
    url: &str,
    answers: &[&[&str]],
) -> (Vec<SocketAddr>, Vec<SendError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    tokio::spawn(async move {
        // Closes each connection before the client can speak TLS.
        while listener.accept().await.is_ok() {}
    });
    let addresses = |list: &[&str]| list.iter().map(|one| one.parse().unwrap()).collect();
    let network = Arc::new(Rebinding {
        answers: Mutex::new(answers.iter().map(|list| addresses(list)).collect()),
        dialled: Mutex::default(),
        server,
    });
    let client = Client::over(guard, Arc::clone(&network) as _, Trust::Public);
    let mut outcomes = Vec::new();
    for _ in answers {
        let url = url.parse().unwrap();
        outcomes.push(client.send(post(url)).await.unwrap_err());
    }
    assert!(
        network.answers.lock().is_empty(),
        "one look-up a connection"
    );
    let dialled = network.dialled.lock().clone();
    (dialled, outcomes)
}

const NOT_PUBLIC: SendError = SendError::NotSent(NotSent::NotPublic);

fn at(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 443)
}

#[tokio::test]
async fn a_name_that_changes_between_two_connections_is_judged_at_each() {
    let (dialled, outcomes) =
        rebound(&[&["93.184.215.14"], &["127.0.0.1"], &["::1"], &["10.0.0.1"]]).await;
    assert_eq!(dialled, [at("93.184.215.14")]);
    assert!(outcomes[1..].iter().all(|outcome| *outcome == NOT_PUBLIC));
}

#[tokio::test]
async fn of_a_mixed_answer_the_public_addresses_alone_are_dialled() {
    let mixed = [
        "127.0.0.1",
        "::ffff:10.0.0.1",
        "93.184.215.14",
        "fd00::1",
        "169.254.169.254",
    ];
    let (dialled, _) = rebound(&[&mixed]).await;
    assert_eq!(dialled, [at("93.184.215.14")]);
}

#[tokio::test]
async fn a_public_address_among_many_others_is_not_lost_and_few_are_dialled() {
    struct Deaf(Mutex<Vec<SocketAddr>>);
    impl Network for Deaf {
        fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
            let inside = (0..50).map(|n| IpAddr::from([10, 0, 0, n]));
            let public = (0..50).map(|n| IpAddr::from([93, 184, 215, n]));
            let all = inside.chain(public).collect();
            Box::pin(async move { Ok(all) })
        }
        fn dial(&self, address: SocketAddr) -> kassette_http::Dialing<'_> {
            self.0.lock().push(address);
            Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
        }
    }
    let network = Arc::new(Deaf(Mutex::default()));
    let client = Client::over(Guard::default(), Arc::clone(&network) as _, Trust::Public);
    let url = "https://shop.example/".parse().unwrap();
    let error = client.send(post(url)).await.unwrap_err();
    assert_eq!(
        error,
        SendError::NotSent(NotSent::NoConnection(io::ErrorKind::ConnectionRefused))
    );
    let expected: Vec<_> = (0..4).map(|n| at(&format!("93.184.215.{n}"))).collect();
    assert_eq!(*network.0.lock(), expected);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_told() {
    let (client, _) = client(Guard::default(), &[]);
    let url = "https://nothing.example/".parse().unwrap();
    let error = client.send(post(url)).await.unwrap_err();
    assert_eq!(error, SendError::NotSent(NotSent::NoSuchName));
}
