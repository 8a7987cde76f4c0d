//! Sends requests of modules: a trait that is the guarded client in production and a script in tests.

use std::pin::Pin;

use kassette_http::{Client, Request, Response, SendError};

/// Result of [`Outgoing::send`].
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response, SendError>> + Send + 'a>>;

/// Sends requests of modules. An implementation must check the destination, resolve it, filter the addresses and
/// connect.
pub trait Outgoing: Send + Sync + 'static {
    /// Sends one request. If it may change something, sends it only once.
    fn send<'a>(&'a self, request: Request<'a>) -> Sending<'a>;
}

impl Outgoing for Client {
    fn send<'a>(&'a self, request: Request<'a>) -> Sending<'a> {
        Box::pin(Self::send(self, request))
    }
}
