//! The way out, as a trait: the guarded client in production, a script in tests.

use std::pin::Pin;

use kassette_http::{Client, Request, Response, SendError};

/// What [`Outgoing::send`] gives.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response, SendError>> + Send + 'a>>;

/// Sends requests of modules. An implementation must guard: judge, resolve, filter, connect.
pub trait Outgoing: Send + Sync + 'static {
    /// Sends one request, at most once where it may change something.
    fn send<'a>(&'a self, request: Request<'a>) -> Sending<'a>;
}

impl Outgoing for Client {
    fn send<'a>(&'a self, request: Request<'a>) -> Sending<'a> {
        Box::pin(Self::send(self, request))
    }
}
