//! Opens modules like a server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kassette_domain::time::Time;
use kassette_http::{NotSent, Request, SendError};
use kassette_runtime::{
    Compiler, LoadError, MethodModule, Opened, OpenedModule, Outgoing, ProviderModule,
    RuntimeConfig, RuntimeError, Sending, Workbench,
};

/// Time of all calls unless a request sets another one: 2027-01-15T08:00:00Z.
pub(crate) const NOW: Time = Time::from_secs(1_800_000_000);

/// Opens modules with production limits.
#[derive(Debug)]
pub struct Harness(Workbench);

/// Reasons why a module cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    /// A server would reject it.
    #[error(transparent)]
    Refused(#[from] LoadError),
    /// It is a method where a provider was expected, or the reverse.
    #[error("the module is for the slot {0}, which is of the other world")]
    OtherWorld(String),
}

/// A network that rejects all requests, as if the vendor could not be reached.
#[derive(Clone, Copy, Debug)]
pub struct NoNetwork;

impl Outgoing for NoNetwork {
    fn send<'a>(&'a self, _: Request<'a>) -> Sending<'a> {
        Box::pin(async { Err(SendError::NotSent(NotSent::NotAllowed)) })
    }
}

impl Harness {
    /// A harness without a network, for methods, and for providers whose vendor cannot be reached.
    ///
    /// # Errors
    /// The engine cannot be set up.
    pub fn new() -> Result<Self, RuntimeError> {
        Self::with_network(NoNetwork)
    }

    /// A harness with a network. `network` answers the requests of providers, for example with a test's closure.
    /// Hosts and secrets are checked first, as in a server.
    ///
    /// # Errors
    /// As [`Harness::new`].
    pub fn with_network(network: impl Outgoing) -> Result<Self, RuntimeError> {
        Self::with(Compiler::InProcess, network)
    }

    /// A harness with the given compiler, such as one in a separate process for untrusted modules.
    ///
    /// # Errors
    /// As [`Harness::new`].
    pub fn with(compiler: Compiler, network: impl Outgoing) -> Result<Self, RuntimeError> {
        let mut config = RuntimeConfig::new(PathBuf::new(), Arc::new(|| NOW));
        config.compiler = compiler;
        Workbench::new(config, network).map(Self)
    }

    /// Validates, compiles and describes a method or provider.
    ///
    /// # Errors
    /// Why a server would reject it.
    pub fn open(&self, bytes: &[u8]) -> Result<Opened, LoadError> {
        self.0.open(bytes)
    }

    /// Opens the payment method in a file.
    ///
    /// # Errors
    /// The file cannot be read, or a server would not accept it as a method.
    pub fn method(&self, path: impl AsRef<Path>) -> Result<Arc<MethodModule>, OpenError> {
        let opened = self.read(path.as_ref())?;
        match opened.module {
            OpenedModule::Method(module) => Ok(module),
            OpenedModule::Provider(_) => Err(OpenError::OtherWorld(opened.slot.to_string())),
        }
    }

    /// Opens the provider in a file.
    ///
    /// # Errors
    /// The file cannot be read, or a server would not accept it as a provider.
    pub fn provider(&self, path: impl AsRef<Path>) -> Result<Arc<ProviderModule>, OpenError> {
        let opened = self.read(path.as_ref())?;
        match opened.module {
            OpenedModule::Provider(module) => Ok(module),
            OpenedModule::Method(_) => Err(OpenError::OtherWorld(opened.slot.to_string())),
        }
    }

    fn read(&self, path: &Path) -> Result<Opened, OpenError> {
        let bytes = std::fs::read(path).map_err(|source| OpenError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Ok(self.open(&bytes)?)
    }
}
