//! The faults that affect a call or its answer, as a layer around any provider's API.
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

use crate::{account::Account, fault::Fault, noise, vendor::Call};

/// Time for which a call hangs under the time-out faults: longer than any caller waits, but limited.
const HANG: Duration = Duration::from_secs(60);

/// Maximum size of an answer, in bytes; no provider module here sends larger ones.
const MOST_ANSWER: usize = 1 << 20;

/// Faults that affect one call about a payment.
const CALL_FAULTS: [Fault; 6] = [
    Fault::TimeoutBeforeEffect,
    Fault::TimeoutAfterEffect,
    Fault::Status429,
    Fault::Status500,
    Fault::Malformed,
    Fault::Truncated,
];

/// Passes a call on, or executes the ordered fault.
pub(crate) async fn layer(
    State(account): State<Arc<Account>>,
    request: Request,
    next: Next,
) -> Response {
    let is_odd = account.faults.has(Fault::OddAnswers);
    let answer = misbehave(account, request, next).await;
    if is_odd {
        noise::odd_parts(answer).await
    } else {
        answer
    }
}

async fn misbehave(account: Arc<Account>, request: Request, next: Next) -> Response {
    if account.faults.has(Fault::Down) {
        return account.vendor.failure(StatusCode::SERVICE_UNAVAILABLE);
    }
    if account.vendor.call(request.method(), request.uri().path()) == Call::Other {
        return next.run(request).await;
    }
    match account.faults.take_first(&CALL_FAULTS) {
        Some(Fault::TimeoutBeforeEffect) => hang().await,
        Some(Fault::TimeoutAfterEffect) => {
            // In a separate task, because the effect must not depend on how long the caller waits.
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

/// Sends no answer while the caller waits.
async fn hang() -> Response {
    let silence = time::timeout(HANG, pending::<Infallible>()).await;
    match silence {
        Ok(never) => match never {},
        Err(_) => truncated(Response::new(Body::from("{}"))).await,
    }
}

/// The same answer with a body that is not JSON.
async fn malformed(answer: Response) -> Response {
    let (mut parts, body) = answer.into_parts();
    let body = to_bytes(body, MOST_ANSWER).await.unwrap_or_default();
    let half = body.get(..body.len() / 2).unwrap_or_default();
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from([half, b"<html>"].concat()))
}

/// The same answer, cut in the middle of its body.
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
