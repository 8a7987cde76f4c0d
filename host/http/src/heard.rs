//! What comes back, as far as it came.

use bytes::BytesMut;
use http::response::Parts;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::exchange::{Answer, NoAnswer, Response, SendError};

/// What has come of a request so far. It lives outside the exchange, so that it is not lost with one
/// that the deadline cuts off.
#[derive(Debug, Default)]
pub(crate) struct PartialResponse {
    /// The request may have left this host.
    pub(crate) left: bool,
    /// Of the answer.
    pub(crate) head: Option<Parts>,
    /// As much of the answer's body as was read.
    body: BytesMut,
    /// There was more of the body than may be read.
    pub(crate) truncated: bool,
}

impl PartialResponse {
    /// Reads at most `limit` bytes of an answer's body.
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
            // All was read that is announced and that may be: whether its end is marked as well, or
            // the peer falls silent instead, plays no part.
            if data.len() == room && rest.exact() == Some(0) {
                return Ok(());
            }
        }
        // hyper takes a stream that was closed without a fault for one that was ended. It is not: what
        // is missing may be anything.
        if h2 && !body.is_end_stream() {
            return Err(NoAnswer::Broken);
        }
        Ok(())
    }

    /// The answer, and whether it ended. Without a head there is none.
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
