//! TLS connections to a database over the network.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use tempfile::TempDir;
use tokio_postgres::Client;

use crate::StoreHealth as _;
use crate::postgres::private::{PrivateError, PrivateOptions, PrivateServer};
use crate::postgres::scratch::Scratch;
use crate::postgres::target::Target;
use crate::postgres::{OpenOptions, PostgresStore, migrate};
use crate::rows::seal::MasterKey;

/// Number of attempts to find a free port.
const PORTS: usize = 10;
/// Password logins require TLS; the test changes the server's settings without TLS.
const ACCESS: &str = "hostssl all all all scram-sha-256\nhostnossl all all all trust\n";

/// A server that listens on a local address.
struct Server {
    _server: PrivateServer,
    folder: TempDir,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..PORTS {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let settings = ["listen_addresses=127.0.0.1".into(), format!("port={port}")];
            let started = PrivateServer::start(&PrivateOptions {
                folder: folder.path().join("server"),
                disposable: true,
                settings: settings.to_vec(),
            });
            match started {
                Ok(server) => {
                    return Self {
                        _server: server,
                        folder,
                        port,
                    };
                }
                Err(PrivateError::NotUp { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no server came up at {PORTS} ports");
    }

    fn url(&self, who: &str, host: &str, how: &str) -> String {
        format!("postgres://{who}@{host}:{}/postgres?{how}", self.port)
    }

    /// A session without TLS.
    async fn plain(&self) -> Client {
        let how = "sslmode=disable&application_name=operator";
        connect(&self.url("kassette", "127.0.0.1", how))
            .await
            .unwrap()
    }

    /// Enables TLS with a certificate.
    async fn encrypt(&self, made: &CertifiedKey<KeyPair>) {
        let data = self.folder.path().join("server/data");
        write(&data, "server.crt", &pem("CERTIFICATE", made.cert.der()));
        let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
        write(&data, "server.key", &key);
        write(&data, "pg_hba.conf", ACCESS);
        let operator = self.plain().await;
        for statement in [
            "ALTER USER kassette PASSWORD 'secret'",
            "ALTER SYSTEM SET ssl = on",
            "SELECT pg_reload_conf()",
        ] {
            operator.batch_execute(statement).await.unwrap();
        }
        // The server reloads its settings a moment later.
        let is_on = "SELECT setting = 'on' FROM pg_settings WHERE name = 'ssl'";
        while !operator
            .query_one(is_on, &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
        {}
    }
}

/// Writes a file that only the server may read.
fn write(data: &Path, name: &str, text: &str) {
    let file = data.join(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let owner = std::fs::metadata(data.join("PG_VERSION")).unwrap();
    chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
}

fn pem(what: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n")
}

async fn connect(url: &str) -> Result<Client, String> {
    let target = Target::parse(url).map_err(|error| error.to_string())?;
    target.connect().await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_server_on_the_network_is_believed_under_a_name_that_an_authority_vouches_for_alone() {
    if !Scratch::available().unwrap() {
        return;
    }
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let authority = server.folder.path().join("authority.pem");
    std::fs::write(&authority, pem("CERTIFICATE", made.cert.der())).unwrap();
    let trusting = format!("sslrootcert={}", authority.display());
    let url = server.url("kassette:secret", "localhost", &trusting);

    // A server without TLS receives no password.
    let refused = connect(&url).await.unwrap_err();
    assert!(refused.contains("does not support TLS"), "{refused}");

    server.encrypt(&made).await;
    let client = connect(&url).await.unwrap();
    let ssl = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert!(client.query_one(ssl, &[]).await.unwrap().get::<_, bool>(0));

    let by_address = server.url("kassette:secret", "127.0.0.1", &trusting);
    let refused = connect(&by_address).await.unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
    let refused = connect(&server.url("kassette:secret", "localhost", "")).await;
    assert!(refused.is_err_and(|why| why.contains("certificate")));
    let refused = connect(&server.url("kassette:other", "localhost", &trusting)).await;
    assert!(refused.is_err_and(|why| why.contains("password")));

    // All sessions of a store use TLS.
    let options = OpenOptions {
        url,
        master: MasterKey::from_bytes([7; 32]),
        volatile: true,
        node: "a".into(),
        alone: true,
        server_clock: false,
    };
    migrate(&options).await.unwrap();
    let store = PostgresStore::open(&options).await.unwrap();
    store.probe().await.unwrap();
    let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE NOT ssl AND application_name = 'kassette'";
    let operator = server.plain().await;
    let found: i64 = operator.query_one(plain, &[]).await.unwrap().get(0);
    assert_eq!(found, 0);
    store.shut_down().await.unwrap();
}
