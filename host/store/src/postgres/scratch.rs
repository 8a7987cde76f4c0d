//! Databases for tests, each empty and its test's own, on one private server for the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::OnceCell;

use crate::postgres::private::{PrivateError, PrivateOptions, PrivateServer};
use crate::postgres::{OpenOptions, migrate};
use crate::rows::seal::MasterKey;

/// Set where a test that finds no PostgreSQL is to fail instead of saying that it was not run.
pub const REQUIRE: &str = "KASSETTE_REQUIRE_POSTGRES";
/// What the others are copied from.
const TEMPLATE: &str = "kassette_template";

static SERVER: OnceLock<Result<PrivateServer, PrivateError>> = OnceLock::new();
static TEMPLATE_MADE: OnceCell<Result<(), String>> = OnceCell::const_new();
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A database of a test, sealed with the key of 32 sevens. It is dropped with this.
#[derive(Debug)]
pub struct Scratch {
    name: String,
}

impl Scratch {
    /// Whether tests can have databases here; says so where they cannot.
    ///
    /// # Errors
    /// Why there is no server although one is required, or is installed.
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

    /// A new database with the tables of a store.
    ///
    /// # Errors
    /// What the server said.
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

    /// How a store on it is opened.
    pub fn options(&self) -> OpenOptions {
        options(&self.name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // A runtime of its own: this may be the end of the test's.
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
            // A standby that never comes, for which no commit waits unless its session asks for that.
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
    }
}

async fn make_template(server: &PrivateServer) -> Result<(), String> {
    server
        .administrate(&format!("CREATE DATABASE {TEMPLATE}"))
        .await?;
    migrate(&options(TEMPLATE))
        .await
        .map_err(|error| error.to_string())
}
