//! Reads request bodies up to a cap. The listener limits the time; its timeout arrives here as an error of the
//! body.

use std::io;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body as _;
use http_body_util::BodyExt as _;

use super::budget::Overloaded;

/// Bytes beyond the cap that are read and discarded before the 413 response. Closing a connection with unread
/// bytes resets it, and the caller might not receive the response.
const DISCARD: usize = 256 << 10;

/// Maximum time for discarding.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// Reason why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// The body is longer than the cap: 413.
    #[error("the body is larger than {cap} bytes")]
    TooLarge {
        /// Maximum size, in bytes.
        cap: usize,
    },
    /// The body arrived too slowly: 408.
    #[error("the body did not arrive in time")]
    Late,
    /// The sender's byte budget is exhausted: 503.
    #[error("too much is being sent at once")]
    Overloaded,
    /// The sender aborted the body or violated the framing: 400.
    #[error("the body did not arrive whole")]
    Broken,
}

/// Reads a body of at most `cap` bytes, without interpreting it.
///
/// # Errors
/// See [`BodyError`]. A body whose declared length exceeds the cap is rejected before it is read.
pub(crate) async fn read(
    headers: &HeaderMap,
    mut body: Body,
    cap: usize,
) -> Result<Bytes, BodyError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let declared = declared(&body);
    let outcome = match check_declared(&body, cap) {
        Ok(()) => collect(&mut body, cap).await,
        Err(too_large) => Err(too_large),
    };
    // A client that waits for "100 Continue" has not sent the body and need not send it.
    let waits = headers.contains_key(EXPECT);
    if matches!(outcome, Err(BodyError::TooLarge { .. })) && !waits && declared <= cap + DISCARD {
        let _ = tokio::time::timeout(DISCARD_TIME, collect_nothing(&mut body)).await;
    }
    outcome
}

fn declared(body: &Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}

/// Rejects a body whose declared length exceeds the cap, without reading it.
///
/// # Errors
/// [`BodyError::TooLarge`].
pub(crate) fn check_declared(body: &Body, cap: usize) -> Result<(), BodyError> {
    match declared(body) > cap {
        true => Err(BodyError::TooLarge { cap }),
        false => Ok(()),
    }
}

async fn collect(body: &mut Body, cap: usize) -> Result<Bytes, BodyError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers are ignored.
        let Ok(data) = frame.map_err(|error| why(&error))?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > cap {
            return Err(BodyError::TooLarge { cap });
        }
        if whole.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// Classifies an error of the body.
fn why(error: &axum::Error) -> BodyError {
    let mut error: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = error {
        if cause.is::<Overloaded>() {
            return BodyError::Overloaded;
        }
        let cause_io = cause.downcast_ref::<io::Error>();
        if cause_io.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut) {
            return BodyError::Late;
        }
        error = cause.source();
    }
    BodyError::Broken
}

async fn collect_nothing(body: &mut Body) {
    let mut seen = 0;
    while let Some(Ok(frame)) = body.frame().await {
        seen += frame.data_ref().map_or(0, Bytes::len);
        if seen > DISCARD {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::convert::Infallible;

    fn streamed(chunks: Vec<&'static [u8]>) -> Body {
        Body::from_stream(stream::iter(chunks.into_iter().map(Ok::<_, Infallible>)))
    }

    async fn read_plain(body: Body, cap: usize) -> Result<Bytes, BodyError> {
        read(&HeaderMap::new(), body, cap).await
    }

    #[tokio::test]
    async fn a_body_up_to_the_cap_is_read_whole() {
        assert_eq!(read_plain(Body::empty(), 4).await.unwrap(), "");
        assert_eq!(read_plain(Body::from("abcd"), 4).await.unwrap(), "abcd");
        let pieces = streamed(vec![b"ab", b"", b"cd"]);
        assert_eq!(read_plain(pieces, 4).await.unwrap(), "abcd");
    }

    #[tokio::test]
    async fn a_body_over_the_cap_is_refused_declared_or_not() {
        let too_large = Err(BodyError::TooLarge { cap: 4 });
        assert_eq!(read_plain(Body::from("abcde"), 4).await, too_large);
        let pieces = streamed(vec![b"ab", b"cd", b"e"]);
        assert_eq!(read_plain(pieces, 4).await, too_large);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_told_from_one_that_is_too_slow() {
        for (kind, told) in [
            (io::ErrorKind::TimedOut, BodyError::Late),
            (io::ErrorKind::ConnectionReset, BodyError::Broken),
        ] {
            let chunks = [Ok(Bytes::from("a")), Err(io::Error::from(kind))];
            let body = Body::from_stream(stream::iter(chunks));
            assert_eq!(read_plain(body, 4).await, Err(told));
        }
    }
}
