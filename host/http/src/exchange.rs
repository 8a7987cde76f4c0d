//! Requests, responses and their errors.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::destination::Refused;
use crate::hosts::HostList;

#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// All methods except GET and HEAD count as changing something. Such a request is sent only once, unless the
    /// peer reports that it did not process it.
    pub method: Method,
    /// Absolute URL, with query.
    pub url: Url,
    /// Headers of the caller. The client sets Host, Content-Length and the headers that control the connection,
    /// and refuses a request that contains one of them. It adds User-Agent if it is missing.
    pub headers: HeaderMap,
    /// Sent unchanged.
    pub body: Bytes,
    /// Time limit for the whole exchange: name, connection, handshake, request and response. Nothing is sent after
    /// it has passed, even if the process was suspended.
    pub deadline: Duration,
    /// Maximum number of bytes of the response body that are read. If the body is longer, the connection is
    /// closed.
    pub max_response: usize,
    /// Allowed hosts. `None` allows every host that the guard accepts.
    pub hosts: Option<&'a HostList>,
}

/// A response with any status.
#[derive(Clone, Debug)]
pub struct Response {
    /// HTTP status. Redirects are not followed.
    pub status: StatusCode,
    /// Headers as received.
    pub headers: HeaderMap,
    /// Body as received, not decoded.
    pub body: Bytes,
    /// Whether the body was longer than `max_response`.
    pub truncated: bool,
}

/// A response that may be incomplete.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status, headers and the part of the body that was received.
    pub response: Response,
    /// Reason why the body is incomplete. `None` if it is complete or was truncated.
    pub unfinished: Option<NoAnswer>,
}

/// An error of a request. The variant says whether the request can have had an effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The request was not sent, or the peer reported that it did not process it.
    #[error("not sent: {0}")]
    NotSent(NotSent),
    /// The request was sent, or may have been, and no complete response arrived.
    #[error("no answer: {0}")]
    NoAnswer(NoAnswer),
}

/// Reason why a request certainly had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The guard refuses the destination.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The host is not in the list of allowed hosts.
    #[error("the host is not one of those allowed")]
    NotAllowed,
    /// The request has a header that the client sets, or its target is not valid in HTTP.
    #[error("the request is malformed: {0}")]
    Malformed(&'static str),
    /// The name does not resolve.
    #[error("the name does not resolve")]
    NoSuchName,
    /// The guard allows no address of the name.
    #[error("the name leads to no public address")]
    NotPublic,
    /// No address accepted the connection.
    #[error("no connection ({0})")]
    NoConnection(std::io::ErrorKind),
    /// The proxy cannot be reached, or its response is not valid.
    #[error("the proxy cannot be reached or gave no answer")]
    NoProxy,
    /// The proxy refused the tunnel with this status.
    #[error("the proxy made no connection and answered {0}")]
    ProxyRefused(u16),
    /// TLS could not be established.
    #[error("no secure connection: {0}")]
    NoTls(NoTls),
    /// The connection broke before the request was handed to it, or the peer reported that it did not process the
    /// request.
    #[error("the connection was not usable")]
    Unusable,
    /// The deadline passed before the request was sent.
    #[error("no connection within the deadline")]
    Deadline,
}

/// Reason why TLS could not be established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTls {
    /// The certificate's time is over.
    #[error("the certificate has expired")]
    Expired,
    /// The certificate is valid only from a later time on.
    #[error("the certificate is not valid yet")]
    NotYetValid,
    /// The certificate belongs to another host.
    #[error("the certificate is for another host name")]
    WrongName,
    /// No trusted authority has signed the certificate, or the chain is incomplete.
    #[error("the certificate is from an unknown authority, or its chain is incomplete")]
    UnknownAuthority,
    /// The certificate is invalid for another reason.
    #[error("the certificate is not acceptable")]
    Certificate,
    /// The peer does not support TLS or a secure version of it, or closed the connection.
    #[error("the TLS handshake failed")]
    Handshake,
}

/// Reason why no complete response arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("no whole answer within the deadline")]
    Deadline,
    /// The connection broke, the response is not valid HTTP, or its headers are too large.
    #[error("the connection broke or the answer was malformed")]
    Broken,
}
