//! What goes out and what comes back.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::destination::Refused;
use crate::hosts::HostList;

#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Any but GET and HEAD counts as changing something and is never sent twice, unless the peer said
    /// that it did not process it.
    pub method: Method,
    /// Absolute, with its query.
    pub url: Url,
    /// The caller's headers. Host, Content-Length and those that steer a connection are the
    /// client's own: a request that carries one is refused. So is User-Agent unless it is set here.
    pub headers: HeaderMap,
    /// Sent as it is.
    pub body: Bytes,
    /// For everything together: name, connection, handshake, request and answer. Nothing leaves once it has passed,
    /// however long the process stood still meanwhile.
    pub deadline: Duration,
    /// Most bytes of the answer's body that are read; the rest is dropped with its connection.
    pub max_response: usize,
    /// Where it may go; none means any public host.
    pub hosts: Option<&'a HostList>,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Response {
    /// HTTP status; redirects are answers like any other.
    pub status: StatusCode,
    /// As received.
    pub headers: HeaderMap,
    /// As received, not decoded.
    pub body: Bytes,
    /// Whether the body was longer than `max_response`.
    pub truncated: bool,
}

/// An answer that may have been cut off.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status and headers as received. Where the answer is unfinished the body is what was read of it.
    pub response: Response,
    /// Why the body did not come to its end; none where it did, or was truncated.
    pub unfinished: Option<NoAnswer>,
}

/// No answer. The kind decides whether anything can have happened at the other side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The request never left this host, or its peer said that it did not process it.
    #[error("not sent: {0}")]
    NotSent(NotSent),
    /// It left, or may have, and no whole answer came.
    #[error("no answer: {0}")]
    NoAnswer(NoAnswer),
}

/// Why nothing can have come of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The destination breaks a rule.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The host is not on the list.
    #[error("the host is not one of those allowed")]
    NotAllowed,
    /// A header that is the client's own, or a target that HTTP cannot carry.
    #[error("the request is malformed: {0}")]
    Malformed(&'static str),
    /// The name does not resolve.
    #[error("the name does not resolve")]
    NoSuchName,
    /// The name leads to no public address.
    #[error("the name leads to no public address")]
    NotPublic,
    /// No address accepted the connection.
    #[error("no connection ({0})")]
    NoConnection(std::io::ErrorKind),
    /// No trusted encrypted channel.
    #[error("no secure connection: {0}")]
    NoTls(NoTls),
    /// The connection broke before the request was handed to it, or the peer said that it did not
    /// process the request.
    #[error("the connection was not usable")]
    Unusable,
    /// Time ran out before a connection stood.
    #[error("no connection within the deadline")]
    Deadline,
}

/// Why there is no trusted encrypted channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTls {
    /// The certificate's time is over.
    #[error("the certificate has expired")]
    Expired,
    /// The certificate's time has not come.
    #[error("the certificate is not valid yet")]
    NotYetValid,
    /// The certificate belongs to another host.
    #[error("the certificate is for another host name")]
    WrongName,
    /// No trusted authority has signed it, or the chain is not whole.
    #[error("the certificate is from an unknown authority, or its chain is incomplete")]
    UnknownAuthority,
    /// The certificate is wrong in another way.
    #[error("the certificate is not acceptable")]
    Certificate,
    /// The other side speaks no TLS, none that is safe, or broke off.
    #[error("the TLS handshake failed")]
    Handshake,
}

/// Why no whole answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("no whole answer within the deadline")]
    Deadline,
    /// The connection broke, or the answer is no HTTP, or its headers are too large.
    #[error("the connection broke or the answer was malformed")]
    Broken,
}
