//! Opening modules as a server does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kassette_domain::time::Time;
use kassette_http::{NotSent, Request, SendError};
use kassette_runtime::{
    Compiler, LoadError, MethodModule, Opened, OpenedModule, Outgoing, ProviderModule,
    RuntimeConfig, RuntimeError, Sending, Workbench,
};

/// When modules are called, unless a question says otherwise: 2027-01-15T08:00:00Z.
pub(crate) const NOW: Time = Time::from_secs(1_800_000_000);

/// Opens modules under production limits.
#[derive(Debug)]
pub struct Harness(Workbench);

/// Why there is nothing to call.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    /// A server would refuse it.
    #[error(transparent)]
    Refused(#[from] LoadError),
    /// It belongs to the other world.
    #[error("the module is for the slot {0}, which is of the other world")]
    OtherWorld(String),
}

/// A network on which nothing is sent: what a module finds when its vendor is out of reach.
#[derive(Clone, Copy, Debug)]
pub struct NoNetwork;

impl Outgoing for NoNetwork {
    fn send<'a>(&'a self, _: Request<'a>) -> Sending<'a> {
        Box::pin(async { Err(SendError::NotSent(NotSent::NotAllowed)) })
    }
}

impl Harness {
    /// For methods, and for providers whose vendor is out of reach.
    ///
    /// # Errors
    /// Where the engine cannot be set up.
    pub fn new() -> Result<Self, RuntimeError> {
        Self::with_network(NoNetwork)
    }

    /// With a vendor: whatever answers a provider's requests, such as a closure of the test behind
    /// [`Outgoing`]. Hosts and secrets are checked before a request gets there, as in a server.
    ///
    /// # Errors
    /// As [`Harness::new`].
    pub fn with_network(network: impl Outgoing) -> Result<Self, RuntimeError> {
        Self::with(Compiler::InProcess, network)
    }

    /// With a compiler in a process of its own, for modules of strangers.
    ///
    /// # Errors
    /// As [`Harness::new`].
    pub fn with(compiler: Compiler, network: impl Outgoing) -> Result<Self, RuntimeError> {
        let mut config = RuntimeConfig::new(PathBuf::new(), Arc::new(|| NOW));
        config.compiler = compiler;
        Workbench::new(config, network).map(Self)
    }

    /// Checks, compiles and describes a module of either world.
    ///
    /// # Errors
    /// Why a server would refuse it.
    pub fn open(&self, bytes: &[u8]) -> Result<Opened, LoadError> {
        self.0.open(bytes)
    }

    /// The payment method in a file, ready to be asked.
    ///
    /// # Errors
    /// Where the file cannot be read, or a server would refuse it as a method.
    pub fn method(&self, path: impl AsRef<Path>) -> Result<Arc<MethodModule>, OpenError> {
        let opened = self.read(path.as_ref())?;
        match opened.module {
            OpenedModule::Method(module) => Ok(module),
            OpenedModule::Provider(_) => Err(OpenError::OtherWorld(opened.slot.to_string())),
        }
    }

    /// The provider in a file, ready to be called.
    ///
    /// # Errors
    /// Where the file cannot be read, or a server would refuse it as a provider.
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
