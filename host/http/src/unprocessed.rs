//! What an HTTP/2 peer says that it left undone.

use std::error::Error;

use h2::Reason;

use crate::payload::HandedOver;

/// Whether the peer said that it did not process a request, so that sending it again repeats nothing.
///
/// A peer says so in two ways (RFC 9113, 8.7 and 6.8), and both are its own words, never a finding of
/// our library's:
///
/// - It resets the stream as refused. The reset names the stream.
/// - It goes away and names the last stream that it looks after: those behind it end with its
///   `GOAWAY`. Such an error names no stream, though, and hyper reports the same one where the
///   connection was seen to go away just after the request's head was queued; that head may still
///   leave, for a stream that the peer looks after. Then the body was not taken yet. So only a request
///   whose body was taken is surely behind the last, and one without a body never is.
///
/// A peer that goes away because of a fault is not believed about what it has done, and may not want to
/// be asked again at once.
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
