//! Recognizes requests that an HTTP/2 peer reports as not processed.

use std::error::Error;

use h2::Reason;

use crate::payload::HandedOver;

/// Whether the peer reported that it did not process a request, so that it is safe to send it again.
///
/// There are two such reports (RFC 9113, 8.7 and 6.8). Only reports from the peer count, not errors that the
/// library found.
///
/// - `RST_STREAM` with `REFUSED_STREAM`, for this request's stream.
/// - `GOAWAY` with the last stream that the peer processes. Requests on later streams end with this error. But the
///   error does not name a stream, and hyper also returns it if `GOAWAY` arrives just after the head of a request
///   was queued. That head may still be sent, on a stream that the peer processes; its body has not been taken
///   then. So only a request whose body was taken is certainly after the last stream. A request without a body
///   never counts.
///
/// A peer that goes away because of an error is not trusted on this, and may not want an immediate retry.
pub(crate) fn unprocessed(error: &hyper::Error, body: &HandedOver) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(inner) = inner.downcast_ref::<h2::Error>() {
            let refused = inner.is_reset() && inner.reason() == Some(Reason::REFUSED_STREAM);
            let gone = inner.is_go_away() && inner.reason() == Some(Reason::NO_ERROR);
            return inner.is_remote() && (refused || (gone && body.yet()));
        }
        cause = inner.source();
    }
    false
}
