//! The client: checks the destination, connects or reuses a connection, sends once, and reads within limits.

use std::fmt;
use std::sync::Arc;

use http::Method;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use url::Url;

use crate::connect::{Connection, Sender, connect};
use crate::destination::{Guard, Refused};
use crate::exchange::{Answer, NoAnswer, NotSent, Request, Response, SendError};
use crate::heard::PartialResponse;
use crate::hosts::HostPattern;
use crate::message::message;
use crate::network::{Network, System};
use crate::pool::{Origin, Pool};
use crate::proxy::Proxy;
use crate::tls::Trust;
use crate::unprocessed::unprocessed;

/// Headers that control the connection. Only the client sets them.
const OURS: [HeaderName; 8] = [
    HOST,
    CONTENT_LENGTH,
    CONNECTION,
    TRANSFER_ENCODING,
    TE,
    TRAILER,
    UPGRADE,
    EXPECT,
];

/// The guarded client. Clones are cheap and share the guard and the connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    guard: Guard,
    /// Hosts that may have inner names and private addresses.
    inner_hosts: Vec<HostPattern>,
    network: Arc<dyn Network>,
    proxy: Option<Proxy>,
    trust: Trust,
    tls: Option<TlsConnector>,
    pool: Arc<Pool>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("guard", &self.inner.guard)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client that uses the system's network and trusts the public authorities.
    pub fn new(guard: Guard) -> Self {
        Self::over(guard, Arc::new(System::default()), Trust::Public)
    }

    /// A client that uses the given network and authorities.
    pub fn over(guard: Guard, network: Arc<dyn Network>, trust: Trust) -> Self {
        Self {
            inner: Arc::new(Inner {
                guard,
                inner_hosts: Vec::new(),
                network,
                proxy: None,
                tls: crate::tls::connector(&trust, &[]),
                trust,
                pool: Arc::default(),
            }),
        }
    }

    /// A client for the same network that may also reach `inner_hosts`, with inner names and private addresses,
    /// and also trusts `authorities`. Does not share connections with `self`.
    pub fn reaching(
        &self,
        inner_hosts: Vec<HostPattern>,
        authorities: &[CertificateDer<'static>],
    ) -> Self {
        let trust = self.inner.trust.clone();
        Self {
            inner: Arc::new(Inner {
                guard: self.inner.guard,
                inner_hosts,
                network: Arc::clone(&self.inner.network),
                proxy: self.inner.proxy.clone(),
                tls: crate::tls::connector(&trust, authorities),
                trust,
                pool: Arc::default(),
            }),
        }
    }

    /// The same client with connections through this proxy, or direct ones for `None`. Does not share connections
    /// with `self`.
    #[must_use]
    pub fn through(&self, proxy: Option<Proxy>) -> Self {
        let inner = &self.inner;
        Self {
            inner: Arc::new(Inner {
                guard: inner.guard,
                inner_hosts: inner.inner_hosts.clone(),
                network: Arc::clone(&inner.network),
                proxy,
                trust: inner.trust.clone(),
                tls: inner.tls.clone(),
                pool: Arc::default(),
            }),
        }
    }

    /// The guard that checks destinations.
    pub fn guard(&self) -> Guard {
        self.inner.guard
    }

    /// Checks whether a URL may be a destination, before any name is resolved.
    ///
    /// # Errors The first rule that the URL violates.
    pub fn judge_url(&self, url: &Url) -> Result<(), Refused> {
        let inner = &self.inner;
        inner.guard.judge_url_beside(url, &inner.inner_hosts)
    }

    /// Sends one request and reads the complete response. Needs a Tokio runtime with time and I/O.
    ///
    /// If a kept connection breaks, a GET or HEAD is sent again on a new one. Other methods are sent only once,
    /// unless the peer reports that it did not process the request.
    ///
    /// # Errors [`SendError::NotSent`] if the request certainly had no effect, otherwise [`SendError::NoAnswer`],
    /// also for an incomplete response.
    pub async fn send(&self, request: Request<'_>) -> Result<Response, SendError> {
        let answer = self.send_for_head(request).await?;
        match answer.unfinished {
            None => Ok(answer.response),
            Some(why) => Err(SendError::NoAnswer(why)),
        }
    }

    /// Like [`Self::send`], but also returns a response with an incomplete body, for callers that only need the
    /// head. [`Answer::unfinished`] is the reason.
    ///
    /// # Errors Like [`Self::send`], but [`SendError::NoAnswer`] means that no head arrived.
    pub async fn send_for_head(&self, request: Request<'_>) -> Result<Answer, SendError> {
        self.judge(&request).map_err(SendError::NotSent)?;
        let mut heard = PartialResponse::default();
        let ends = Instant::now() + request.deadline;
        let exchange = self.exchange(&request, ends, &mut heard);
        let outcome = tokio::time::timeout_at(ends, exchange).await;
        match outcome {
            Ok(Ok(())) => heard.answer(Ok(())),
            Ok(Err(SendError::NoAnswer(why))) => heard.answer(Err(why)),
            Ok(Err(not_sent)) => Err(not_sent),
            Err(_) if heard.left => heard.answer(Err(NoAnswer::Deadline)),
            Err(_) => Err(SendError::NotSent(NotSent::Deadline)),
        }
    }

    fn judge(&self, request: &Request<'_>) -> Result<(), NotSent> {
        self.judge_url(&request.url)?;
        if request
            .hosts
            .is_some_and(|hosts| !hosts.iter().any(|host| host.matches(&request.url)))
        {
            return Err(NotSent::NotAllowed);
        }
        if OURS.iter().any(|name| request.headers.contains_key(name)) {
            return Err(NotSent::Malformed("a header that only the host sets"));
        }
        Ok(())
    }

    /// Sends the request on a kept connection, or on a new one.
    async fn exchange(
        &self,
        request: &Request<'_>,
        ends: Instant,
        heard: &mut PartialResponse,
    ) -> Result<(), SendError> {
        let safe = matches!(request.method, Method::GET | Method::HEAD);
        let origin = Origin::from_url(&request.url);
        if let Some(kept) = self.inner.pool.take(&origin, !safe) {
            match self.once(kept, &origin, request, ends, heard).await {
                Err(SendError::NotSent(NotSent::Unusable)) => {}
                Err(SendError::NoAnswer(NoAnswer::Broken)) if safe => {}
                outcome => return outcome,
            }
            *heard = PartialResponse::default();
        }
        let inner = &self.inner;
        let is_inner = inner
            .inner_hosts
            .iter()
            .any(|host| host.matches(&request.url));
        let network = &*inner.network;
        let (tls, proxy) = (inner.tls.as_ref(), inner.proxy.as_ref());
        // Boxed, because the future is large and rarely needed, and would otherwise be moved with every request.
        let made = Box::pin(connect(&request.url, network, tls, is_inner, proxy))
            .await
            .map_err(SendError::NotSent)?;
        self.once(made, &origin, request, ends, heard).await
    }

    /// Sends the request on a connection, reads the response and keeps the connection.
    async fn once(
        &self,
        mut connection: Connection,
        origin: &Origin,
        request: &Request<'_>,
        ends: Instant,
        heard: &mut PartialResponse,
    ) -> Result<(), SendError> {
        let sender = &mut connection.sender;
        let message = message(request, sender).map_err(SendError::NotSent)?;
        let unusable = SendError::NotSent(NotSent::Unusable);
        match sender {
            Sender::H1(sender) => sender.ready().await,
            Sender::H2(sender) => sender.ready().await,
        }
        .map_err(|_| unusable.clone())?;
        // If the process was suspended, the time-out has not fired yet although the deadline has passed.
        if Instant::now() >= ends {
            return Err(SendError::NotSent(NotSent::Deadline));
        }
        heard.left = true;
        let body = message.body().taken();
        let outcome = match sender {
            Sender::H1(sender) => sender.try_send_request(message).await,
            Sender::H2(sender) => sender.try_send_request(message).await,
        };
        let answer = outcome.map_err(|mut error| {
            // hyper returns the message only if it wrote no part of it.
            if error.take_message().is_some() || unprocessed(error.error(), &body) {
                unusable
            } else {
                SendError::NoAnswer(NoAnswer::Broken)
            }
        })?;
        let (head, body) = answer.into_parts();
        heard.head = Some(head);
        let read = heard.read(body, request.max_response);
        read.await.map_err(SendError::NoAnswer)?;
        if !heard.truncated {
            self.keep(origin.clone(), connection);
        }
        Ok(())
    }

    /// Returns a connection to the pool when it is ready for the next request. If the peer closes it, it is
    /// dropped.
    fn keep(&self, origin: Origin, mut connection: Connection) {
        let pool = Arc::clone(&self.inner.pool);
        if matches!(connection.sender, Sender::H2(_)) {
            pool.put(origin, connection);
            return;
        }
        tokio::spawn(async move {
            if let Sender::H1(sender) = &mut connection.sender
                && sender.ready().await.is_ok()
            {
                pool.put(origin, connection);
            }
        });
    }
}
