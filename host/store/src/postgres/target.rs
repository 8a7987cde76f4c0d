//! Location of the database, and connections to it.

use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Connect, Hook, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Url;

use crate::postgres::errors::{OpenError, said};

/// How long a request waits for a connection.
const WAIT: Duration = Duration::from_secs(2);
/// Maximum time to establish a connection.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// How long one of several addresses is tried before the next one, so that the second of two is reached within
/// the second that a heartbeat has.
const ADDRESS: Duration = Duration::from_millis(500);
/// How long to wait for a server that is unreachable over the network.
const GONE: Duration = Duration::from_secs(10);
/// Settings of every session. Statements end before their callers give up, and an idle transaction cannot hold
/// locks for long.
const SESSION: &str = "-c search_path=kassette -c statement_timeout=5s -c lock_timeout=2s \
    -c idle_in_transaction_session_timeout=1s -c client_encoding=UTF8";

/// A database's URL, parsed.
#[derive(Clone)]
pub(crate) struct Target {
    config: Config,
    /// `None` if the connection is not encrypted.
    tls: Option<MakeRustlsConnect>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

impl Target {
    /// Parses a URL.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        let wrong = |why: String| OpenError::Address(why);
        let mut url =
            Url::parse(text).map_err(|_| wrong("it has to be postgres://user@host/name".into()))?;
        let (mut mode, mut authorities, mut isolation) = (None, None, "read\\ committed");
        let mut others = Vec::new();
        for (name, value) in url.query_pairs() {
            match &*name {
                "isolation" if value == "serializable" => isolation = "serializable",
                "isolation" => return Err(wrong("isolation can be serializable alone".into())),
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => authorities = Some(PathBuf::from(value.into_owned())),
                _ => others.push((name.into_owned(), value.into_owned())),
            }
        }
        url.query_pairs_mut().clear().extend_pairs(&others);
        // The parser's errors name the option, never its value.
        let mut config: Config = url
            .as_str()
            .parse()
            .map_err(|error: Error| wrong(said(&error)))?;
        let local = is_local(&config);
        let ssl = match mode.as_deref() {
            Some("disable") => SslMode::Disable,
            None if local => SslMode::Disable,
            None | Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(other) => {
                return Err(wrong(format!(
                    "sslmode={other} is not known: verify-full or disable"
                )));
            }
        };
        let patience = match config.get_hosts() {
            [_] => CONNECT,
            _ => ADDRESS,
        };
        config
            .ssl_mode(ssl)
            .options(format!(
                "{SESSION} -c default_transaction_isolation={isolation}"
            ))
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(patience)
            .keepalives_idle(GONE)
            .tcp_user_timeout(GONE);
        if config.get_application_name().is_none() {
            config.application_name("kassette");
        }
        let tls = match ssl {
            SslMode::Disable => None,
            _ => Some(MakeRustlsConnect::new(client_tls(authorities)?)),
        };
        Ok(Self { config, tls })
    }

    #[cfg(test)]
    pub(crate) fn ssl_mode(&self) -> SslMode {
        self.config.get_ssl_mode()
    }

    /// The role in the URL.
    pub(crate) fn user(&self) -> Option<&str> {
        self.config.get_user()
    }

    /// Whether the database is on this machine, behind a Unix socket.
    pub(crate) fn is_local(&self) -> bool {
        is_local(&self.config)
    }

    /// Opens a connection outside of the pools.
    pub(crate) async fn connect(&self) -> Result<Client, OpenError> {
        let connected = Connect::connect(self, &self.config).await;
        let (client, _) = connected.map_err(|error| OpenError::Database(said(&error)))?;
        Ok(client)
    }

    /// The same with generic plans, for statements of batches: each is planned once per connection, regardless
    /// of its arguments. Planning would take longer than executing a small batch.
    pub(crate) fn with_generic_plans(&self) -> Self {
        let mut target = self.clone();
        let options = target.config.get_options().unwrap_or_default();
        let options = format!("{options} -c plan_cache_mode=force_generic_plan");
        target.config.options(options);
        target
    }

    /// A pool of `connections` connections; each passes `check` before it is used.
    pub(crate) fn pool(&self, connections: usize, check: Option<Hook>) -> Result<Pool, OpenError> {
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_connect(self.config.clone(), self.clone(), recycling);
        let mut pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(CONNECT));
        if let Some(check) = check {
            pool = pool.post_create(check);
        }
        pool.build()
            .map_err(|error| OpenError::Database(error.to_string()))
    }
}

impl Connect for Target {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let config = config.clone();
        async move {
            Ok(match &self.tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls.clone()).await?;
                    (client, tokio::spawn(drive(connection)))
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    (client, tokio::spawn(drive(connection)))
                }
            })
        }
        .boxed()
    }
}

/// The server's function that waits for its standby.
const WAITS_FOR_STANDBY: &str = "SyncRepWaitForLSN";

/// Drives a connection until it ends. If a commit stops waiting for its standby, the server reports success
/// after a warning: the connection is closed at the warning, so that callers treat the answer as lost.
async fn drive<S, T>(mut connection: Connection<S, T>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message
            && notice.routine() == Some(WAITS_FOR_STANDBY)
        {
            tracing::warn!("a commit no longer waits for the standby: a failover may lose it");
            return;
        }
    }
}

fn is_local(config: &Config) -> bool {
    config
        .get_hosts()
        .iter()
        .all(|host| matches!(host, Host::Unix(_)))
}

fn client_tls(authorities: Option<PathBuf>) -> Result<ClientConfig, OpenError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let wrong = |error: &dyn fmt::Display| {
                OpenError::Address(format!("sslrootcert {}: {error}", file.display()))
            };
            for each in CertificateDer::pem_file_iter(&file).map_err(|error| wrong(&error))? {
                let each = each.map_err(|error| wrong(&error))?;
                roots.add(each).map_err(|error| wrong(&error))?;
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(|error| OpenError::Address(format!("TLS: {error}")))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
