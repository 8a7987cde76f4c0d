//! A response while it is being received.

use bytes::BytesMut;
use http::response::Parts;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::exchange::{Answer, NoAnswer, Response, SendError};

/// The part of a response that has been received. It is stored outside of the exchange, so that it is available if
/// the deadline cancels the exchange.
#[derive(Debug, Default)]
pub(crate) struct PartialResponse {
    /// Whether the request may have been sent.
    pub(crate) left: bool,
    /// Head of the response. `None` until it arrives.
    pub(crate) head: Option<Parts>,
    body: BytesMut,
    /// Whether the body is longer than the limit.
    pub(crate) truncated: bool,
}

impl PartialResponse {
    /// Reads at most `limit` bytes of the body.
    pub(crate) async fn read(&mut self, mut body: Incoming, limit: usize) -> Result<(), NoAnswer> {
        let h2 = self.head.as_ref();
        let h2 = h2.is_some_and(|head| head.version == http::Version::HTTP_2);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| NoAnswer::Broken)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let room = limit - self.body.len();
            self.body
                .extend_from_slice(data.get(..room).unwrap_or(&data));
            let rest = body.size_hint();
            if data.len() > room || (data.len() == room && rest.lower() > 0) {
                self.truncated = true;
                return Ok(());
            }
            // All announced bytes have been read, up to exactly the limit. Do not wait for the end of the stream,
            // which the peer may never send.
            if data.len() == room && rest.exact() == Some(0) {
                return Ok(());
            }
        }
        // hyper treats a stream that was reset without an error code as ended. It is not: any part of the body may
        // be missing.
        if h2 && !body.is_end_stream() {
            return Err(NoAnswer::Broken);
        }
        Ok(())
    }

    /// Returns the response, and `end` as the reason if it is incomplete. Fails if no head was received.
    pub(crate) fn answer(self, end: Result<(), NoAnswer>) -> Result<Answer, SendError> {
        let unfinished = end.err();
        let Some(head) = self.head else {
            return Err(SendError::NoAnswer(unfinished.unwrap_or(NoAnswer::Broken)));
        };
        let response = Response {
            status: head.status,
            headers: head.headers,
            body: self.body.freeze(),
            truncated: self.truncated,
        };
        Ok(Answer {
            response,
            unfinished,
        })
    }
}
