//! Databases for tests, one empty database per test, on one private server per process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::OnceCell;

use crate::postgres::private::{PrivateError, PrivateOptions, PrivateServer};
use crate::postgres::{OpenOptions, grant, migrate};
use crate::rows::seal::MasterKey;

/// If set, a test without PostgreSQL fails instead of printing that it was not run.
pub const REQUIRE: &str = "KASSETTE_REQUIRE_POSTGRES";
/// Template of the other databases.
const TEMPLATE: &str = "kassette_template";

static SERVER: OnceLock<Result<PrivateServer, PrivateError>> = OnceLock::new();
static TEMPLATE_MADE: OnceCell<Result<(), String>> = OnceCell::const_new();
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The role that serves test databases.
const SERVING: &str = "kassette_serving";

/// A database for a test, sealed with a master key of 32 bytes 7. Dropping this value drops it.
#[derive(Debug)]
pub struct Scratch {
    name: String,
}

impl Scratch {
    /// Whether tests can use databases here; prints a note if not.
    ///
    /// # Errors
    /// Reason why there is no server although one is required or installed.
    pub fn available() -> Result<bool, String> {
        match server() {
            Ok(_) => Ok(true),
            Err(PrivateError::NotInstalled | PrivateError::NoUser)
                if std::env::var_os(REQUIRE).is_none() =>
            {
                tracing::warn!("NOT RUN: no PostgreSQL is installed");
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Creates a database with the tables of a store.
    ///
    /// # Errors
    /// The server's message.
    pub async fn new() -> Result<Self, String> {
        let server = server().map_err(ToString::to_string)?;
        TEMPLATE_MADE
            .get_or_init(|| make_template(server))
            .await
            .clone()?;
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        server
            .administrate(&format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
            .await?;
        Ok(Self { name })
    }

    /// Options to open the database as its owner.
    pub fn options(&self) -> OpenOptions {
        options(&self.name)
    }

    /// Options to open the database as a serving role that owns nothing.
    pub fn serving(&self) -> OpenOptions {
        let url = server().map(|server| server.url_of(SERVING, &self.name));
        OpenOptions {
            url: url.unwrap_or_default(),
            ..self.options()
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // A separate runtime: the test's may be shutting down.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let (Ok(runtime), Ok(server)) = (runtime, server()) {
                let _ = runtime.block_on(server.administrate(&drop));
            }
        });
        let _ = dropped.join();
    }
}

fn server() -> Result<&'static PrivateServer, &'static PrivateError> {
    let server = SERVER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("kassette-postgres-{}", std::process::id()));
        let settings = [
            "max_connections=200",
            "shared_buffers=64MB",
            // A standby that never connects. Commits only wait for it if their session requests it.
            "synchronous_standby_names=absent",
            "synchronous_commit=local",
        ]
        .map(str::to_owned)
        .to_vec();
        PrivateServer::start(&PrivateOptions {
            folder,
            disposable: true,
            settings,
        })
    });
    server.as_ref()
}

fn options(database: &str) -> OpenOptions {
    let url = server()
        .map(|server| server.url(database))
        .unwrap_or_default();
    OpenOptions {
        url,
        master: MasterKey::from_bytes([7; 32]),
        volatile: true,
        node: "a".into(),
        alone: true,
        server_clock: false,
    }
}

async fn make_template(server: &PrivateServer) -> Result<(), String> {
    server
        .administrate(&format!("CREATE DATABASE {TEMPLATE}"))
        .await?;
    let said = |error: crate::postgres::OpenError| error.to_string();
    migrate(&options(TEMPLATE)).await.map_err(said)?;
    server.make_role(SERVING).await?;
    let template = Scratch {
        name: TEMPLATE.into(),
    };
    let granted = grant(&template.options(), &template.serving().url).await;
    // The template belongs to no test, and is retained.
    std::mem::forget(template);
    granted.map_err(said)
}
