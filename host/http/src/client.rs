//! The client: judge, connect or reuse, send once, read within limits.

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
use crate::tls::Trust;
use crate::unprocessed::unprocessed;

/// Headers that steer the connection: only the client sets them.
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

/// The guarded client. Clones share guard and connections and cost nothing.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    guard: Guard,
    /// Hosts that may have inner names and private addresses.
    inner_hosts: Vec<HostPattern>,
    network: Arc<dyn Network>,
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
    /// A client behind a guard, on the system's network, that trusts the public authorities.
    pub fn new(guard: Guard) -> Self {
        Self::over(guard, Arc::new(System::default()), Trust::Public)
    }

    /// A client on another network, or with other authorities.
    pub fn over(guard: Guard, network: Arc<dyn Network>, trust: Trust) -> Self {
        Self {
            inner: Arc::new(Inner {
                guard,
                inner_hosts: Vec::new(),
                network,
                tls: crate::tls::connector(&trust, &[]),
                trust,
                pool: Arc::default(),
            }),
        }
    }

    /// A client on the same network that reaches these hosts too, under inner names and on private
    /// networks, and believes these authorities beside its own. It shares no connections.
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
                tls: crate::tls::connector(&trust, authorities),
                trust,
                pool: Arc::default(),
            }),
        }
    }

    /// The guard that destinations are judged by.
    pub fn guard(&self) -> Guard {
        self.inner.guard
    }

    /// Whether a URL may be a destination, before any name is resolved.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn judge_url(&self, url: &Url) -> Result<(), Refused> {
        let inner = &self.inner;
        inner.guard.judge_url_beside(url, &inner.inner_hosts)
    }

    /// Sends one request and reads the whole answer. Needs a Tokio runtime with time and I/O.
    ///
    /// A GET whose kept connection turns out to be closed is sent once more on a new one; anything
    /// that could change something goes out at most once, unless the peer said that it did not process
    /// it.
    ///
    /// # Errors
    /// [`SendError::NotSent`] where surely nothing came of it, else [`SendError::NoAnswer`]: also where
    /// the answer began and did not end.
    pub async fn send(&self, request: Request<'_>) -> Result<Response, SendError> {
        let answer = self.send_for_head(request).await?;
        match answer.unfinished {
            None => Ok(answer.response),
            Some(why) => Err(SendError::NoAnswer(why)),
        }
    }

    /// Sends one request as [`Self::send`] does, for a caller to whom the answer's head is enough: an
    /// answer whose body did not end in time, or broke, is one all the same and says so.
    ///
    /// # Errors
    /// As those of [`Self::send`], but that [`SendError::NoAnswer`] means that no head came.
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

    /// Takes a kept connection or makes one, and hands the request over.
    async fn exchange(
        &self,
        request: &Request<'_>,
        ends: Instant,
        heard: &mut PartialResponse,
    ) -> Result<(), SendError> {
        let safe = matches!(request.method, Method::GET | Method::HEAD);
        let origin = Origin::of(&request.url);
        if let Some(kept) = self.inner.pool.take(&origin, !safe) {
            match self.once(kept, &origin, request, ends, heard).await {
                Err(SendError::NotSent(NotSent::Unusable)) => {}
                Err(SendError::NoAnswer(NoAnswer::Broken)) if safe => {}
                outcome => return outcome,
            }
            *heard = PartialResponse::default();
        }
        let inner = &self.inner;
        // In a box: it is large, seldom needed, and would be moved about with every request.
        let is_inner = inner
            .inner_hosts
            .iter()
            .any(|host| host.matches(&request.url));
        let network = &*inner.network;
        let made = Box::pin(connect(&request.url, network, inner.tls.as_ref(), is_inner))
            .await
            .map_err(SendError::NotSent)?;
        self.once(made, &origin, request, ends, heard).await
    }

    /// Hands the request to one connection, reads the answer, keeps the connection.
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
        // Where the process stood still the time-out has not been looked at yet, and the right to send is over.
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
            // The message comes back only where not a byte of it was written.
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

    /// Puts a connection back once it is ready for the next request; the peer may close it instead.
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
