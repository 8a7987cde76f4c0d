//! The process as a service: signals, replaced files, notifications to systemd, and inherited sockets.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixDatagram};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::disk::unready;
use crate::harness::{Server, TEST_TIMEOUT, fresh_folder, new_payment};
use crate::serving::{kassette, operator, prepare};

const PAYMENTS: &str = "/api/v1/payments";
/// Log message after each reading of a changed configuration.
const READ_AGAIN: &str = "the configuration was read again";

pub(crate) fn signal(process: u32, name: &str) {
    let told = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status();
    assert!(told.unwrap().success());
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Replaces a file atomically.
fn replace(path: &Path, text: &str) {
    let aside = path.with_extension("aside");
    std::fs::write(&aside, text).unwrap();
    std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(aside, path).unwrap();
}

/// Waits until `ask` returns true. Panics after `TEST_TIMEOUT`.
async fn until(what: &str, log: impl Fn() -> String, mut ask: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !ask().await {
        let log = log();
        assert!(
            began.elapsed() < TEST_TIMEOUT,
            "waited in vain for {what}\n{log}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) struct Service {
    child: Child,
    folder: PathBuf,
    ready: Value,
}

impl Service {
    /// Command for `kassette serve` on a prepared folder, with a ready file.
    pub(crate) fn command(folder: &Path) -> Command {
        let mut serve = kassette(folder, "serve");
        serve.arg("--ready-file").arg(folder.join("ready.json"));
        serve.stdin(Stdio::null()).stdout(Stdio::null());
        serve
    }

    pub(crate) async fn start(folder: &Path, mut command: Command) -> Self {
        let file = folder.join("ready.json");
        let _ = std::fs::remove_file(&file);
        let log = std::fs::File::create(folder.join("log.txt")).unwrap();
        let mut service = Self {
            child: command.stderr(log).spawn().unwrap(),
            folder: folder.to_owned(),
            ready: Value::Null,
        };
        service.until("its start", async || file.exists()).await;
        service.ready = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        service
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log.txt")).unwrap_or_default()
    }

    pub(crate) async fn until(&self, what: &str, ask: impl AsyncFnMut() -> bool) {
        until(what, || self.log(), ask).await;
    }

    /// Waits until the log contains a text at least this many times.
    pub(crate) async fn says(&self, text: &str, times: usize) {
        self.until(text, async || self.log().matches(text).count() >= times)
            .await;
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.ready["listen"].as_str().unwrap().parse().unwrap()
    }

    pub(crate) fn admin_url(&self) -> String {
        self.ready["admin_url"].as_str().unwrap().to_owned()
    }

    /// Sends SIGTERM and waits for a regular exit.
    pub(crate) async fn stop(mut self) {
        signal(self.child.id(), "TERM");
        let mut status = None;
        let log = || std::fs::read_to_string(self.folder.join("log.txt")).unwrap_or_default();
        until("its end", log, async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        assert!(status.unwrap().success(), "{}", self.log());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    fn draw() -> Self {
        let made = rcgen::generate_simple_self_signed(["pay.example".to_owned()]).unwrap();
        Self {
            certificate: made.cert.der().clone(),
            key: made.signing_key.serialize_der(),
        }
    }

    /// Opens a new connection. Fails if the server presents another certificate.
    async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("pay.example").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await
    }

    /// Whether the server presents this certificate to a new connection.
    async fn greets(&self, address: SocketAddr) -> bool {
        self.connect(address).await.is_ok()
    }
}

/// A folder for `serve` whose certificate is a symbolic link to a file outside of the configuration, like those of
/// ACME clients.
struct WithTls {
    folder: TempDir,
    /// Number of key pairs created so far.
    pairs: usize,
}

impl WithTls {
    fn new(identity: &Identity) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tls")).unwrap();
        let files = "tls_cert = \"../tls/cert.pem\"\ntls_key = \"../tls/key.pem\"";
        prepare(folder.path(), files);
        let mut new = Self { folder, pairs: 0 };
        new.put(&identity.certificate, &identity.key);
        new
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a new key pair next to the previous one and redirects the links to it.
    fn put(&mut self, certificate: &[u8], key: &[u8]) {
        self.pairs += 1;
        let tls = self.path().join("tls");
        let pair = tls.join(self.pairs.to_string());
        std::fs::create_dir(&pair).unwrap();
        for (name, kind, der) in [
            ("cert.pem", "CERTIFICATE", certificate),
            ("key.pem", "PRIVATE KEY", key),
        ] {
            let text = STANDARD.encode(der);
            let pem = format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n");
            replace(&pair.join(name), &pem);
            let aside = tls.join("aside");
            symlink(pair.join(name), &aside).unwrap();
            std::fs::rename(aside, tls.join(name)).unwrap();
        }
    }
}

#[tokio::test]
async fn a_replaced_certificate_is_taken_over_by_itself_and_a_broken_pair_is_not() {
    let [first, second, third, fourth] = [(); 4].map(|()| Identity::draw());
    let mut world = WithTls::new(&first);
    let service = Service::start(world.path(), Service::command(world.path())).await;
    let address = service.address();
    assert!(first.greets(address).await);
    world.put(&second.certificate, &second.key);
    service
        .until("the second certificate", async || {
            second.greets(address).await
        })
        .await;
    assert!(!first.greets(address).await);
    world.put(&third.certificate, &first.key);
    service.says("was not taken over", 1).await;
    assert!(second.greets(address).await, "the one before goes on");
    let status = async || {
        let folder = world.path().join("data");
        let ran = Command::new(env!("CARGO_BIN_EXE_kassette"))
            .args(["status", "--json", "--data-dir", folder.to_str().unwrap()])
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
        let parts = report["parts"].as_array().cloned().unwrap_or_default();
        let part = parts
            .into_iter()
            .find(|part| part["name"] == "certificates");
        (ran.status.code(), part.unwrap_or_default())
    };
    service
        .until("a report of the refused certificate", async || {
            let (code, part) = status().await;
            let detail = part["detail"].as_str().unwrap_or_default().to_owned();
            code.is_some_and(|code| code > 0)
                && detail.contains("a replaced certificate is refused")
        })
        .await;
    world.put(&fourth.certificate, &fourth.key);
    service
        .until("the fourth certificate", async || {
            fourth.greets(address).await
        })
        .await;
    let told = service.log().matches("was not taken over").count();
    assert_eq!(told, 1, "{}", service.log());
    service.stop().await;
}

#[tokio::test]
async fn metrics_of_a_listener_that_is_not_loopback_need_a_token_and_a_name_of_ours() {
    let identity = Identity::draw();
    let world = WithTls::new(&identity);
    let file = world.path().join("config/kassette.toml");
    let open = "admin_listen = \"0.0.0.0:0\"\nadmin_hosts = [\"ops.example\"]\n\
                admin_tls_cert = \"../tls/cert.pem\"\nadmin_tls_key = \"../tls/key.pem\"";
    let main = std::fs::read_to_string(&file).unwrap();
    let main = main.replace("admin_listen = \"127.0.0.1:0\"", open);
    replace(&file, &main);
    let mut viewer = kassette(
        world.path(),
        "operator create --json --name watch --role viewer",
    );
    let viewer = viewer.stderr(Stdio::inherit()).output().unwrap();
    let viewer: Value = serde_json::from_slice(&viewer.stdout).unwrap();
    let token = viewer["token"].as_str().unwrap();
    let service = Service::start(world.path(), Service::command(world.path())).await;
    let admin = service.ready["admin_url"].as_str().unwrap();
    let admin = admin.strip_prefix("https://").unwrap();
    let address: SocketAddr = admin.split('/').next().unwrap().parse().unwrap();
    let ask = async |host: &str, more: &str| {
        let mut stream = identity.connect(address).await.unwrap();
        let head =
            format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let bearer = format!("authorization: Bearer {token}\r\n");
    for (host, more, status) in [
        ("ops.example", "", "401"),
        ("ops.example", "authorization: Bearer ko_guess\r\n", "401"),
        ("evil.example", &bearer, "421"),
        ("ops.example", &bearer, "200"),
    ] {
        let answer = ask(host, more).await;
        assert_eq!(
            answer.split(' ').nth(1),
            Some(status),
            "{host} {more}: {answer}"
        );
        let shows = answer.contains("kassette_ready ");
        assert_eq!(shows, status == "200", "{host} {more}");
    }
    service.stop().await;
}

/// File of an account whose module does not exist.
fn account(name: &str) -> String {
    format!(
        "module = \"absent\"\nname = \"{name}\"\nenvironment = \"test\"\nmerchants = \"all\"\n\
         hosts = [\"api.example.com\"]\nredirect_hosts = [\"pay.example.com\"]\n\
         [methods.ideal]\n"
    )
}

#[tokio::test]
async fn sighup_reads_configuration_and_certificates_again_and_says_what_it_left() {
    let [first, second] = [(); 2].map(|()| Identity::draw());
    let mut world = WithTls::new(&first);
    // The gateway gets no notification about changes behind this link, because it does not watch the target's
    // folder.
    let file = world.path().join("account.toml");
    replace(&file, &account("Before"));
    let providers = world.path().join("config/providers");
    std::fs::create_dir(&providers).unwrap();
    std::fs::set_permissions(&providers, std::fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&file, providers.join("absent-test.toml")).unwrap();
    let token = operator(world.path());
    let service = Service::start(world.path(), Service::command(world.path())).await;
    let (address, http) = (service.address(), client());
    let url = format!("{}/providers", service.ready["admin_url"].as_str().unwrap());
    let named = async |name: &str| {
        let listed = http.get(&url).bearer_auth(&token).send().await.unwrap();
        listed.text().await.unwrap().contains(name)
    };
    service.says(READ_AGAIN, 1).await;
    assert!(named("Before").await);

    replace(&file, &account("After"));
    world.put(&second.certificate, &second.key);
    signal(service.child.id(), "HUP");
    let taken = "SIGHUP: taken over: the configuration, the certificate of the public listener";
    service.says(taken, 1).await;
    assert!(named("After").await && !named("Before").await);
    assert!(second.greets(address).await);

    replace(&file, "module = 7\n");
    world.put(&first.certificate, &second.key);
    signal(service.child.id(), "HUP");
    service.says("SIGHUP: not taken over", 1).await;
    let log = service.log();
    let line = log.lines().find(|line| line.contains("SIGHUP: not"));
    let line = line.unwrap();
    assert!(line.contains("absent-test.toml") && line.contains("cert.pem"));
    assert_eq!(log.matches("SIGHUP: taken over").count(), 1, "{log}");
    assert!(named("After").await && second.greets(address).await);
    service.stop().await;
}

#[tokio::test]
async fn settings_that_need_a_restart_are_named_once_and_the_others_are_live() {
    const NAMED: &str = "limits.connections, store.cache_mib: take effect with a restart";
    let server = Server::configured("").await;
    let says = async |text: &str, times: usize| {
        let said = async || server.log().matches(text).count() >= times;
        until(text, || server.log(), said).await;
    };
    says(READ_AGAIN, 1).await;
    let file = server.folder().join("config/kassette.toml");
    let main = "drain_seconds = 1\nlimits.connections = 100\nstore.cache_mib = 9\n";
    replace(&file, main);
    says(NAMED, 1).await;
    let read = server.log().matches(READ_AGAIN).count();
    replace(&file, &format!("{main}retention.delivery_days = 30\n"));
    says(READ_AGAIN, read + 1).await;
    assert_eq!(server.log().matches("with a restart").count(), 1);
    server.stop().await;
    says("the drain is over", 1).await;
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_serves_on_until_it_is_told_again() {
    let server = Server::configured("drain_seconds = 300").await;
    signal(server.pid(), "TERM");
    let why = unready(&server).await;
    assert!(why.contains("the server is stopping"), "{why}");
    let request = new_payment();
    let created = server.post(server.test_key(), PAYMENTS, &request).await;
    created.expect(201);
    server.admin("GET", "/work", None).await.expect(200);
    server.stop().await;
    let log = server.log();
    for step in [
        "told to stop: /readyz answers 503, requests are served for 300 s more",
        "told to stop again",
        "stopping: finishing what is in hand",
        "stopped",
    ] {
        assert!(log.contains(step), "{step}\n{log}");
    }
}

#[tokio::test]
async fn a_drain_ends_by_itself() {
    let server = Server::configured("drain_seconds = 1").await;
    server.stop().await;
    assert!(server.log().contains("the drain is over"));
}

#[tokio::test]
async fn systemd_hears_of_start_reload_stop_and_that_all_is_well() {
    let folder = fresh_folder();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    // Reads all the time, because the socket's buffer holds few messages.
    let listening = tokio::spawn(async move {
        let mut message = [0; 1024];
        while let Ok(length) = socket.recv(&mut message).await {
            let text = String::from_utf8_lossy(&message[..length]).into_owned();
            heard.lock().push(text);
        }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_kassette"));
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .env_remove("WATCHDOG_PID");
    let server = Server::through(command, folder).await;
    // The first message after position `from` that contains a line. Returns the position after it, and the
    // message.
    let hears = async |line: &str, from: usize| {
        server
            .wait_for(line, async || {
                let told = told.lock();
                let mut later = told.iter().enumerate().skip(from);
                let found = later.find(|(_, message)| message.lines().any(|each| each == line));
                found.map(|(at, message)| (at + 1, message.clone()))
            })
            .await
    };
    let (ready, _) = hears("READY=1", 0).await;
    let (once, _) = hears("WATCHDOG=1", 0).await;
    hears("WATCHDOG=1", once).await;
    signal(server.pid(), "HUP");
    let (reloading, message) = hears("RELOADING=1", ready).await;
    let time = message
        .lines()
        .find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(time.unwrap().parse::<u64>().unwrap() > 0);
    let (again, _) = hears("READY=1", reloading).await;
    hears("WATCHDOG=1", again).await;
    assert!(server.log().contains("SIGHUP: taken over"));
    server.stop().await;
    hears("STOPPING=1", again).await;
    listening.abort();
}

/// Runs a command with at most two inherited sockets, as systemd passes them.
fn handing_over(command: &Command, sockets: Vec<OwnedFd>, names: Option<&str>) -> Command {
    const SCRIPT: &str =
        "exec 3<&0 4<&1 </dev/null >/dev/null; export LISTEN_PID=$$; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(SCRIPT);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("LISTEN_FDS", sockets.len().to_string());
    if let Some(names) = names {
        shell.env("LISTEN_FDNAMES", names);
    }
    let mut sockets = sockets.into_iter().map(Stdio::from);
    shell.stdin(sockets.next().unwrap_or(Stdio::null()));
    shell.stdout(sockets.next().unwrap_or(Stdio::null()));
    shell
}

#[tokio::test]
async fn sockets_that_are_handed_over_keep_connections_through_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), "");
    let [public, admin] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let address = public.local_addr().unwrap();
    let descriptor = |socket: &TcpListener| OwnedFd::from(socket.try_clone().unwrap());
    let serve = Service::command(folder.path());

    let sockets = vec![descriptor(&admin), descriptor(&public)];
    let named = handing_over(&serve, sockets, Some("admin:public"));
    let service = Service::start(folder.path(), named).await;
    assert_eq!(service.address(), address);
    let document = client().get(format!("http://{address}/openapi.json"));
    assert_eq!(document.send().await.unwrap().status(), 200);
    service.stop().await;

    let mut between = TcpStream::connect(address).await.unwrap();
    let request = "GET /openapi.json HTTP/1.1\r\nhost: pay.example\r\nconnection: close\r\n\r\n";
    between.write_all(request.as_bytes()).await.unwrap();

    let sockets = vec![descriptor(&public), descriptor(&admin)];
    let unnamed = handing_over(&serve, sockets, None);
    let service = Service::start(folder.path(), unnamed).await;
    let mut answer = Vec::new();
    let read = between.read_to_end(&mut answer);
    tokio::time::timeout(TEST_TIMEOUT, read)
        .await
        .unwrap()
        .unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    let readyz = client().get(format!("http://{}/readyz", admin.local_addr().unwrap()));
    assert_eq!(readyz.send().await.unwrap().status(), 200);
    service.stop().await;
}

#[test]
fn sockets_that_do_not_fit_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), "");
    let silent = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
    silent.bind(&loopback.into()).unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    for (socket, name, said) in [
        (OwnedFd::from(silent), "public", "does not listen"),
        (datagrams.into(), "admin", "ListenStream="),
        (listening.into(), "public:admin", "LISTEN_FDNAMES"),
    ] {
        let serve = Service::command(folder.path());
        let output = handing_over(&serve, vec![socket], Some(name)).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(said), "{told}");
    }
}
