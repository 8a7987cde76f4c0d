//! The faults that spoil a call or its answer, laid around any vendor's API.
use std::{convert::Infallible, future::pending, io, sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use tokio::time;

use crate::{account::Account, fault::Fault, vendor::Call};

/// How long a call hangs under the time-out faults: longer than any caller waits, yet an end.
const HANG: Duration = Duration::from_secs(60);

/// Larger answers than this no vendor's module here makes.
const MOST_ANSWER: usize = 1 << 20;

/// Faults that spoil one call about a payment.
const CALL_FAULTS: [Fault; 6] = [
    Fault::TimeoutBeforeEffect,
    Fault::TimeoutAfterEffect,
    Fault::Status429,
    Fault::Status500,
    Fault::Malformed,
    Fault::Truncated,
];

/// Lets a call through, or does what was ordered.
pub(crate) async fn layer(
    State(account): State<Arc<Account>>,
    request: Request,
    next: Next,
) -> Response {
    if account.faults.has(Fault::Down) {
        return account.vendor.failure(StatusCode::SERVICE_UNAVAILABLE);
    }
    if account.vendor.call(request.method(), request.uri().path()) == Call::Other {
        return next.run(request).await;
    }
    match account.faults.take_first(&CALL_FAULTS) {
        Some(Fault::TimeoutBeforeEffect) => hang().await,
        Some(Fault::TimeoutAfterEffect) => {
            // In a task of its own: the effect must not depend on how long the caller listens.
            let _ = tokio::spawn(async move { next.run(request).await }).await;
            hang().await
        }
        Some(Fault::Status429) => {
            let mut answer = account.vendor.failure(StatusCode::TOO_MANY_REQUESTS);
            answer
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            answer
        }
        Some(Fault::Status500) => account.vendor.failure(StatusCode::INTERNAL_SERVER_ERROR),
        Some(Fault::Malformed) => malformed(next.run(request).await).await,
        Some(Fault::Truncated) => truncated(next.run(request).await).await,
        _ => next.run(request).await,
    }
}

/// No answer while the caller waits for one.
async fn hang() -> Response {
    let silence = time::timeout(HANG, pending::<Infallible>()).await;
    match silence {
        Ok(never) => match never {},
        Err(_) => truncated(Response::new(Body::from("{}"))).await,
    }
}

/// The same answer with a body that is no JSON.
async fn malformed(answer: Response) -> Response {
    let (mut parts, body) = answer.into_parts();
    let body = to_bytes(body, MOST_ANSWER).await.unwrap_or_default();
    let half = body.get(..body.len() / 2).unwrap_or_default();
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from([half, b"<html>"].concat()))
}

/// The same answer, broken off in the middle of its body.
async fn truncated(answer: Response) -> Response {
    let (mut parts, body) = answer.into_parts();
    let body = to_bytes(body, MOST_ANSWER).await.unwrap_or_default();
    parts
        .headers
        .insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    let half = body.slice(..body.len() / 2);
    let broken = [
        Ok::<Bytes, io::Error>(half),
        Err(io::ErrorKind::ConnectionReset.into()),
    ];
    Response::from_parts(parts, Body::from_stream(stream::iter(broken)))
}
