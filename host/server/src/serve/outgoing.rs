//! The modules' requests to vendors.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kassette_http::{Client, NotSent, Request, SendError};
use kassette_runtime::{Outgoing, Sending};
use kassette_sim::Sim;

/// Sends modules' requests through the guarded client. A simulator whose port is closed cannot count the
/// calls that it refuses, so it is told of them.
pub(super) struct ModuleClient {
    /// The guarded client.
    pub(super) client: Client,
    /// The simulators, where there are any.
    pub(super) sim: Option<Arc<Sim>>,
}

impl Outgoing for ModuleClient {
    fn send<'a>(&'a self, request: Request<'a>) -> Sending<'a> {
        Box::pin(async move {
            let host = request
                .url
                .host_str()
                .and_then(|host| host.parse::<IpAddr>().ok());
            let address = host
                .zip(request.url.port_or_known_default())
                .map(SocketAddr::from);
            let sent = self.client.send(request).await;
            if let (Some(sim), Some(address), Err(SendError::NotSent(NotSent::NoConnection(_)))) =
                (&self.sim, address, &sent)
            {
                sim.connection_refused(address);
            }
            sent
        })
    }
}
