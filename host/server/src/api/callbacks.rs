//! Callbacks of providers, passed to the gateway byte for byte.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use kassette_domain::id::AccountId;
use kassette_domain::policy::RateLimit;
use kassette_domain::provider::{CallbackRequest, Verb};
use kassette_gateway::callback::CallbackAnswer;

use super::state::ApiState;
use crate::web::body;
use crate::web::budget::Reservation;
use crate::web::error::ApiError;

/// Maximum size of a callback's body (decisions, "Provider callbacks").
const BODY_LIMIT: usize = 256 << 10;

/// Rate limit of verified callbacks per account (decisions, "Provider callbacks"): providers send from many
/// addresses.
pub(crate) const RATE: RateLimit = RateLimit {
    per_second: 500,
    burst: 500,
};

const PREFIX: &str = "/callbacks/";
const ALLOWED: &str = "GET,POST,PUT,PATCH,DELETE";

/// The routes for all accounts and subpaths.
pub(super) fn routes() -> Router<ApiState> {
    let verbs = MethodFilter::GET
        .or(MethodFilter::POST)
        .or(MethodFilter::PUT)
        .or(MethodFilter::PATCH)
        .or(MethodFilter::DELETE);
    Router::new()
        .route("/callbacks/{provider_id}", on(verbs, receive))
        .route("/callbacks/{provider_id}/", on(verbs, receive))
        .route("/callbacks/{provider_id}/{*rest}", on(verbs, receive))
}

async fn receive(State(state): State<ApiState>, request: Request) -> Result<Response, ApiError> {
    const UNKNOWN: ApiError = ApiError::NotFound("there is nothing at this path");
    let (parts, body) = request.into_parts();
    // HEAD arrives here as a GET without a response body; no provider sends it as a callback.
    let Some(verb) = verb(&parts.method) else {
        state.count_address(&parts)?;
        let allowed = [(ALLOW, HeaderValue::from_static(ALLOWED))];
        return Ok((allowed, ApiError::MethodNotAllowed).into_response());
    };
    // Buckets exist only for existing accounts, so that no caller can fill them with names.
    let exists = |account: &AccountId| state.gateway().settings().accounts.contains_key(account);
    let named = split(parts.uri.path());
    let is_named = named.is_some();
    let Some((account, path)) = named.filter(|(account, _)| exists(account)) else {
        state.count_address(&parts)?;
        return Err(match is_named && state.gateway().others_differ().await? {
            // The provider should retry.
            true => ApiError::Unavailable("another node may have the account".to_owned()),
            false => UNKNOWN,
        });
    };
    let (from, limits) = (state.client(&parts), state.limits());
    let unproven = (!limits.proven.contains(&account, from, state.now())).then_some(from);
    let in_hand = match unproven {
        None => {
            Reservation::mark_authenticated(&parts.extensions);
            None
        }
        Some(_) => {
            let taken = limits.unproved(&account, from, state.now());
            let room = taken
                .map_err(ApiError::TooMany)
                .and_then(|()| state.unproved_callback().ok_or(ApiError::Busy));
            if room.is_err() {
                state.gateway().count_limited_callback(&account);
            }
            Some(room?)
        }
    };
    let body = body::read(&parts.headers, body, BODY_LIMIT).await?;
    let incoming = CallbackRequest {
        verb,
        path: path.to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: texts(&parts.headers),
        body: body.into(),
    };
    // If a provider disconnects, its callback must still be processed completely.
    let answer = tokio::spawn(async move {
        let _in_hand = in_hand;
        let (gateway, limits) = (state.gateway(), state.limits());
        let judged = gateway.judge_callback(&account, &incoming, unproven).await;
        if judged.proved() {
            let environment = gateway.environment_of(&account);
            limits
                .proven
                .insert(&account, environment, from, state.now());
            let taken = state.take(RATE, |here| {
                limits.accounts.take(&account, here, state.now())
            });
            if taken.is_err() {
                gateway.count_limited_callback(&account);
            }
            taken?;
        } else if unproven.is_none() && judged.unproved() {
            limits.disproved(&account, from, state.now());
        }
        Ok(gateway.handle_callback(&account, judged, from).await)
    });
    answer.await.map_err(ApiError::internal)?.map(shown)
}

fn verb(method: &Method) -> Option<Verb> {
    match method.as_str() {
        "GET" => Some(Verb::Get),
        "POST" => Some(Verb::Post),
        "PUT" => Some(Verb::Put),
        "PATCH" => Some(Verb::Patch),
        "DELETE" => Some(Verb::Delete),
        _ => None,
    }
}

/// The account, and the rest of the path without decoding.
fn split(path: &str) -> Option<(AccountId, &str)> {
    let rest = path.strip_prefix(PREFIX)?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (account, path) = rest.split_at(end);
    Some((AccountId::parse(account).ok()?, path))
}

/// Headers with lower-case names (as parsed), in order of arrival. A value that is not UTF-8 is decoded as ISO
/// 8859-1, which HTTP once specified and which loses nothing.
fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value
            .as_bytes()
            .iter()
            .map(|byte| char::from(*byte))
            .collect(),
    };
    headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect()
}

fn shown(answer: CallbackAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = status;
    if let Ok(media_type) = HeaderValue::try_from(answer.media_type)
        && !media_type.is_empty()
    {
        response.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_account_stays_as_it_was_sent() {
        let account = |text: &str| AccountId::parse(text).unwrap();
        for (path, expected) in [
            ("/callbacks/paypal-live", Some((account("paypal-live"), ""))),
            ("/callbacks/a/", Some((account("a"), "/"))),
            ("/callbacks/a/b%2Fc/d", Some((account("a"), "/b%2Fc/d"))),
            ("/callbacks/A", None),
            ("/callbacks/%61", None),
            ("/callbacks/", None),
        ] {
            assert_eq!(split(path), expected, "{path}");
        }
    }

    #[test]
    fn headers_keep_their_bytes() {
        let mut headers = HeaderMap::new();
        headers.append("X-Sig", HeaderValue::from_bytes(b"caf\xc3\xa9").unwrap());
        headers.append("x-sig", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        let expected = [("x-sig", "café"), ("x-sig", "café")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(texts(&headers), expected);
    }

    #[test]
    fn an_answer_without_sense_is_a_failure_of_ours() {
        let answer = |status, media_type: &str| {
            shown(CallbackAnswer {
                status,
                media_type: media_type.to_owned(),
                body: "[accepted]".to_owned(),
            })
        };
        assert_eq!(
            answer(200, "text/plain").headers()[CONTENT_TYPE],
            "text/plain"
        );
        assert!(answer(200, "").headers().is_empty());
        assert!(answer(200, "a\nb").headers().is_empty());
        assert_eq!(answer(1, "").status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
