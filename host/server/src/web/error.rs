//! The one place that turns failures into HTTP.
//!
//! Domain and gateway errors know no HTTP; each is mapped here by an exhaustive match, so that a new
//! one does not compile until its author has decided its status. The body is always
//! `{"error": "..."}`. What went wrong inside is told to the log, never to the caller.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use kassette_domain::policy::RateLimit;
use kassette_gateway::auth::AuthError;
use kassette_gateway::connect::ConnectError;
use kassette_gateway::create::CreateError;
use kassette_gateway::nonces::NonceError;
use kassette_gateway::reseller::{InviteError, ResellerError};
use kassette_gateway::start::StartError;
use kassette_store::Fault;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::BodyError;
use super::json::{Invalid, NotJson};
use super::marks::{InternalCause, PauseReading};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// When to come again where too much is in hand: what waits is done long before that.
const BUSY: Duration = Duration::from_secs(1);
/// When to come again where the disk fails or is full: so often the store tries it.
const DISK: Duration = Duration::from_secs(2);

/// No request is allowed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted {
    /// From when on the next one is.
    pub(crate) retry_after: Duration,
    /// What was exceeded.
    pub(crate) limit: RateLimit,
}

/// A rejection.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ErrorBody {
    /// Why the request was rejected. Do not depend on the text.
    #[schema(min_length = 1, example = "amount: must be greater than zero")]
    error: Cow<'static, str>,
}

/// Why a request has no other answer.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// 400: not JSON, wrong Content-Type, broken body.
    Malformed(Cow<'static, str>),
    /// 401.
    Unauthorized,
    /// 401: the key is good, the signature or what belongs to it is not.
    BadSignature(&'static str),
    /// 401: a one-time code in the body opens nothing.
    CodeRefused {
        /// Why.
        message: Cow<'static, str>,
        /// When to call again, where that may help.
        retry_after: Option<Duration>,
    },
    /// 403.
    Forbidden(Cow<'static, str>),
    /// 404.
    NotFound(&'static str),
    /// 405; the router adds `Allow`.
    MethodNotAllowed,
    /// 408: the body took too long.
    Late,
    /// 409.
    Conflict {
        /// What stands in the way.
        message: Cow<'static, str>,
        /// When to call again, where that may help.
        retry_after: Option<Duration>,
    },
    /// 413.
    TooLarge(BodyError),
    /// 422.
    Invalid(Cow<'static, str>),
    /// 429: of a key or an account.
    TooMany(Exhausted),
    /// 429: of an address that has shown no credential. Its connection is put off.
    TooManyOfAddress(Exhausted),
    /// 500; the text is for the log alone.
    Internal(String),
    /// 503: more is in hand than can be carried. Nothing was done.
    Busy,
    /// 503: the store takes nothing at the moment. Nothing was done. The text is for the log alone.
    Unavailable(String),
    /// 503: the store failed while it wrote, so it may have been done. The text is for the log alone.
    InDoubt(String),
}

impl ApiError {
    /// The credential does not carry what the call needs.
    pub(crate) fn missing_scope(scope: &str) -> Self {
        Self::Forbidden(format!("the key does not carry the scope {scope}").into())
    }

    /// A nonce that is not the request's; `limit` is that of the key.
    pub(crate) fn of_nonce(error: NonceError, limit: RateLimit) -> Self {
        match error {
            NonceError::Used => Self::conflict(error.to_string()),
            NonceError::TooMany { retry_after } => Self::TooMany(Exhausted { retry_after, limit }),
            NonceError::Store(fault) => fault.into(),
        }
    }

    /// A failure of ours.
    pub(crate) fn internal(cause: impl fmt::Display) -> Self {
        Self::Internal(cause.to_string())
    }

    fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Conflict {
            message: message.into(),
            retry_after: None,
        }
    }

    fn invalid(error: &impl fmt::Display) -> Self {
        Self::Invalid(error.to_string().into())
    }

    fn split(self) -> (StatusCode, Cow<'static, str>) {
        match self {
            Self::Malformed(message) => (StatusCode::BAD_REQUEST, message),
            Self::Unauthorized => (
                StatusCode::UNAUTHORIZED,
                "the credential is missing, invalid, revoked or expired".into(),
            ),
            Self::BadSignature(message) => (StatusCode::UNAUTHORIZED, message.into()),
            Self::CodeRefused { message, .. } => (StatusCode::UNAUTHORIZED, message),
            Self::Forbidden(message) => (StatusCode::FORBIDDEN, message),
            Self::NotFound(message) => (StatusCode::NOT_FOUND, message.into()),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "this path does not answer the method".into(),
            ),
            Self::Late => (
                StatusCode::REQUEST_TIMEOUT,
                "the body did not arrive in time".into(),
            ),
            Self::Conflict { message, .. } => (StatusCode::CONFLICT, message),
            Self::TooLarge(error) => (StatusCode::PAYLOAD_TOO_LARGE, error.to_string().into()),
            Self::Invalid(message) => (StatusCode::UNPROCESSABLE_ENTITY, message),
            Self::TooMany(_) | Self::TooManyOfAddress(_) => (
                StatusCode::TOO_MANY_REQUESTS,
                "too many requests; try again later".into(),
            ),
            Self::Internal(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "an unexpected error happened; repeating the request is safe".into(),
            ),
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the service is busy; try again after the time in Retry-After".into(),
            ),
            Self::Unavailable(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the service takes nothing at the moment; nothing was done, try again after the \
                 time in Retry-After"
                    .into(),
            ),
            Self::InDoubt(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the service failed meanwhile, so this may have been done or not; look after the time in \
                 Retry-After, or repeat the request with the same idempotency key"
                    .into(),
            ),
        }
    }
}

/// Whole seconds, at least one: `Retry-After` knows no fractions.
fn seconds(duration: Duration) -> u64 {
    let up = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(up).max(1)
}

fn bearer() -> (HeaderName, HeaderValue) {
    (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

/// The headers that the form of an error demands.
fn headers(error: &ApiError) -> Vec<(HeaderName, HeaderValue)> {
    match error {
        ApiError::Unauthorized | ApiError::BadSignature(_) => vec![bearer()],
        ApiError::CodeRefused { retry_after, .. } => {
            let after = retry_after.map(|after| (RETRY_AFTER, seconds(after).into()));
            after.into_iter().chain([bearer()]).collect()
        }
        ApiError::Conflict {
            retry_after: Some(after),
            ..
        } => vec![(RETRY_AFTER, seconds(*after).into())],
        ApiError::TooMany(exhausted) | ApiError::TooManyOfAddress(exhausted) => {
            rate_headers(exhausted)
        }
        ApiError::Busy => vec![(RETRY_AFTER, seconds(BUSY).into())],
        ApiError::Unavailable(_) | ApiError::InDoubt(_) => {
            vec![(RETRY_AFTER, seconds(DISK).into())]
        }
        _ => Vec::new(),
    }
}

/// `Retry-After`, and the quota by draft-ietf-httpapi-ratelimit-headers-10: `q` requests in each
/// window of `w` seconds, of which `r` remain for `t` seconds.
fn rate_headers(exhausted: &Exhausted) -> Vec<(HeaderName, HeaderValue)> {
    let after = seconds(exhausted.retry_after);
    let quota = exhausted.limit.burst.max(1);
    let window = quota.div_ceil(exhausted.limit.per_second.max(1));
    let shown = |text: String| HeaderValue::try_from(text).ok();
    let policy = shown(format!("\"requests\";q={quota};w={window}"));
    let state = shown(format!("\"requests\";r=0;t={after}"));
    let mut headers = vec![(RETRY_AFTER, after.into())];
    headers.extend(policy.map(|value| (RATE_LIMIT_POLICY, value)));
    headers.extend(state.map(|value| (RATE_LIMIT, value)));
    headers
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let headers = headers(&self);
        let cause = match &self {
            Self::Internal(cause) | Self::Unavailable(cause) | Self::InDoubt(cause) => {
                Some(InternalCause(cause.clone()))
            }
            _ => None,
        };
        let put_off = matches!(self, Self::TooManyOfAddress(_));
        let (status, error) = self.split();
        let mut response = (status, Json(ErrorBody { error })).into_response();
        response.headers_mut().extend(headers);
        if let Some(cause) = cause {
            response.extensions_mut().insert(cause);
        }
        if put_off {
            response.extensions_mut().insert(PauseReading);
        }
        response
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge { .. } => Self::TooLarge(error),
            BodyError::Late => Self::Late,
            BodyError::Overloaded => Self::Busy,
            BodyError::Broken => Self::Malformed(error.to_string().into()),
        }
    }
}

impl From<NotJson> for ApiError {
    fn from(error: NotJson) -> Self {
        Self::Malformed(error.to_string().into())
    }
}

impl From<Invalid> for ApiError {
    fn from(error: Invalid) -> Self {
        Self::Invalid(error.0.into())
    }
}

impl From<Exhausted> for ApiError {
    fn from(exhausted: Exhausted) -> Self {
        Self::TooMany(exhausted)
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Busy => Self::Busy,
            Fault::Unavailable(_) => Self::Unavailable(fault.to_string()),
            Fault::Stopping => Self::InDoubt(fault.to_string()),
            Fault::Corrupt(_) => Self::internal(fault),
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Refused => Self::Unauthorized,
            AuthError::Store(fault) => fault.into(),
        }
    }
}

impl From<CreateError> for ApiError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::KeyRefused => Self::Unauthorized,
            CreateError::Differs { .. } | CreateError::ClientRefDiffers { .. } => {
                Self::conflict(error.to_string())
            }
            CreateError::Barred(barred) => Self::Forbidden(barred.to_string().into()),
            CreateError::NoRate(_)
            | CreateError::TooSmall
            | CreateError::OverLimit
            | CreateError::UnverifiedReturnUrl
            | CreateError::UnknownMethod
            | CreateError::NotEligible(_) => Self::invalid(&error),
            CreateError::Store(fault) => fault.into(),
            CreateError::Random => Self::internal(error),
        }
    }
}

impl From<StartError> for ApiError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::NotFound => Self::NotFound("payment not found"),
            StartError::Conflict(message) => Self::conflict(message),
            StartError::OtherMethod | StartError::StillOpen(_) => Self::conflict(error.to_string()),
            StartError::Unsettled { retry_after } => Self::Conflict {
                message: error.to_string().into(),
                retry_after: Some(retry_after),
            },
            StartError::Forbidden(message) => Self::Forbidden(message.into()),
            StartError::Barred(barred) => Self::Forbidden(barred.to_string().into()),
            StartError::ProviderChoice => Self::Forbidden(error.to_string().into()),
            StartError::NotAvailable(_) | StartError::Declined => Self::invalid(&error),
            // Only a page shows notes and is asked to show another.
            StartError::AskAgain(_) | StartError::Random => Self::internal(error),
            StartError::Store(fault) => fault.into(),
        }
    }
}

impl From<InviteError> for ApiError {
    fn from(error: InviteError) -> Self {
        match error {
            InviteError::KeyRefused => Self::Unauthorized,
            InviteError::Differs { .. } => Self::conflict(error.to_string()),
            InviteError::TooMany => Self::invalid(&error),
            InviteError::Store(fault) => fault.into(),
            InviteError::Random => Self::internal(error),
        }
    }
}

impl From<ResellerError> for ApiError {
    fn from(error: ResellerError) -> Self {
        match error {
            ResellerError::NotFound => Self::NotFound("payment not found"),
            ResellerError::Barred(barred) => Self::Forbidden(barred.to_string().into()),
            ResellerError::BadCursor => Self::invalid(&error),
            ResellerError::Store(fault) => fault.into(),
        }
    }
}

impl From<ConnectError> for ApiError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::CodeRefused => Self::CodeRefused {
                message: error.to_string().into(),
                retry_after: None,
            },
            ConnectError::UnderWay { retry_after } => Self::CodeRefused {
                message: error.to_string().into(),
                retry_after: Some(retry_after),
            },
            ConnectError::OtherSite
            | ConnectError::WrongProof
            | ConnectError::NotLiveApproved
            | ConnectError::NoControl(_)
            | ConnectError::AskedTooOften => Self::Forbidden(error.to_string().into()),
            ConnectError::TooManyEndpoints | ConnectError::TooManyDomains => {
                Self::conflict(error.to_string())
            }
            ConnectError::Random(error) => Self::internal(error),
            ConnectError::Store(fault) => fault.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn a_stranger_who_asks_too_often_is_read_again_after_a_pause_and_a_key_holder_is_not() {
        let exhausted = Exhausted {
            retry_after: Duration::from_secs(1),
            limit: RateLimit::default(),
        };
        let put_off = |error: ApiError| {
            let response = error.into_response();
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
            response.extensions().get::<PauseReading>().is_some()
        };
        assert!(put_off(ApiError::TooManyOfAddress(exhausted)));
        assert!(!put_off(ApiError::TooMany(exhausted)));
    }

    use super::*;
    use kassette_domain::money::Currency;
    use kassette_domain::reseller::Barred;

    async fn shown(error: impl Into<ApiError>) -> (u16, http::HeaderMap, String) {
        let response = error.into().into_response();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 4096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let object = body.as_object().unwrap();
        assert_eq!(object.len(), 1, "nothing but the error");
        let text = object["error"].as_str().unwrap().to_owned();
        (parts.status.as_u16(), parts.headers, text)
    }

    #[tokio::test]
    async fn failures_of_a_create_have_their_statuses() {
        for (error, status) in [
            (CreateError::KeyRefused, 401),
            (CreateError::Differs { field: "amount" }, 409),
            (CreateError::ClientRefDiffers { field: "amount" }, 409),
            (CreateError::Barred(Barred::NotAuthorized), 403),
            (CreateError::NoRate(Currency::EUR), 422),
            (CreateError::TooSmall, 422),
            (CreateError::OverLimit, 422),
            (CreateError::UnverifiedReturnUrl, 422),
            (CreateError::UnknownMethod, 422),
            (CreateError::NotEligible("no provider"), 422),
            (CreateError::Store(Fault::Busy), 503),
            (CreateError::Store(Fault::Unavailable("full".into())), 503),
            (CreateError::Store(Fault::Stopping), 503),
            (CreateError::Random, 500),
        ] {
            let name = format!("{error:?}");
            assert_eq!(shown(error).await.0, status, "{name}");
        }
    }

    #[tokio::test]
    async fn failures_of_a_start_have_their_statuses() {
        let account = kassette_domain::id::AccountId::parse("a").unwrap();
        for (error, status) in [
            (StartError::NotFound, 404),
            (StartError::Conflict("hosted"), 409),
            (StartError::OtherMethod, 409),
            (StartError::Forbidden("live"), 403),
            (StartError::ProviderChoice, 403),
            (StartError::NotAvailable("nobody"), 422),
            (StartError::Declined, 422),
            (StartError::AskAgain(account), 500),
            (StartError::Store(Fault::Stopping), 503),
            (StartError::Random, 500),
        ] {
            let name = format!("{error:?}");
            assert_eq!(shown(error).await.0, status, "{name}");
        }
        let retry_after = Duration::from_secs(2);
        let (status, headers, _) = shown(StartError::Unsettled { retry_after }).await;
        assert_eq!(
            (status, &headers[RETRY_AFTER]),
            (409, &"2".parse().unwrap())
        );
    }

    #[tokio::test]
    async fn failures_of_a_reseller_have_their_statuses() {
        for (error, status) in [
            (ResellerError::NotFound, 404),
            (ResellerError::Barred(Barred::NotAuthorized), 403),
            (ResellerError::Barred(Barred::NotRolledOut), 403),
            (ResellerError::Barred(Barred::NotLiveApproved), 403),
            (ResellerError::BadCursor, 422),
            (ResellerError::Store(Fault::Busy), 503),
        ] {
            let name = format!("{error:?}");
            assert_eq!(shown(error).await.0, status, "{name}");
        }
        for (error, status) in [
            (InviteError::KeyRefused, 401),
            (InviteError::Differs { field: "email" }, 409),
            (InviteError::TooMany, 422),
        ] {
            let name = format!("{error:?}");
            assert_eq!(shown(error).await.0, status, "{name}");
        }
    }

    #[tokio::test]
    async fn a_nonce_that_is_not_the_requests_is_a_conflict_and_a_flood_of_them_is_slowed_down() {
        let limit = RateLimit {
            per_second: 50,
            burst: 100,
        };
        let of = |error| shown(ApiError::of_nonce(error, limit));
        assert_eq!(of(NonceError::Used).await.0, 409);
        let retry_after = Duration::from_secs(77);
        let (status, headers, _) = of(NonceError::TooMany { retry_after }).await;
        assert_eq!(
            (status, headers[RETRY_AFTER].to_str().unwrap()),
            (429, "77")
        );
        assert_eq!(of(NonceError::Store(Fault::Busy)).await.0, 503);
        let (status, headers, text) = shown(ApiError::BadSignature("sign it")).await;
        assert_eq!((status, text.as_str()), (401, "sign it"));
        assert_eq!(headers[WWW_AUTHENTICATE], "Bearer");
    }

    #[tokio::test]
    async fn a_500_tells_the_log_and_not_the_caller() {
        let fault = Fault::Corrupt("payments/7 secret".into());
        let response = ApiError::from(fault.clone()).into_response();
        let cause = response.extensions().get::<InternalCause>().unwrap();
        assert!(cause.0.contains("payments/7"));
        let (status, _, text) = shown(fault).await;
        assert!(status == 500 && !text.contains("secret") && !text.contains("payments"));
    }

    #[tokio::test]
    async fn a_store_that_fails_says_when_to_try_again_where_that_helps() {
        let unavailable = Fault::Unavailable("the disk is full".into());
        for (fault, expected, after) in [
            (unavailable, 503, Some("2")),
            (Fault::Busy, 503, Some("1")),
            (Fault::Corrupt("a secret row".into()), 500, None),
            (Fault::Stopping, 503, Some("2")),
        ] {
            let (status, headers, text) = shown(fault).await;
            assert_eq!(status, expected);
            let told = headers.get(RETRY_AFTER).map(|told| told.to_str().unwrap());
            assert_eq!(told, after);
            assert!(!text.contains("disk") && !text.contains("secret"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_401_names_its_scheme() {
        let (status, headers, _) = shown(AuthError::Refused).await;
        assert_eq!(
            (status, &headers[WWW_AUTHENTICATE]),
            (401, &"Bearer".parse().unwrap())
        );
    }

    #[tokio::test]
    async fn a_busy_service_says_when_to_come_again() {
        let (status, headers, _) = shown(Fault::Busy).await;
        assert_eq!(
            (status, &headers[RETRY_AFTER]),
            (503, &"1".parse().unwrap())
        );
    }

    #[tokio::test]
    async fn a_429_says_when_and_how_much() {
        let limit = RateLimit {
            per_second: 50,
            burst: 120,
        };
        let retry_after = Duration::from_millis(1200);
        let (status, headers, _) = shown(Exhausted { retry_after, limit }).await;
        assert_eq!(status, 429);
        assert_eq!(headers[RETRY_AFTER], "2");
        assert_eq!(headers[RATE_LIMIT_POLICY], "\"requests\";q=120;w=3");
        assert_eq!(headers[RATE_LIMIT], "\"requests\";r=0;t=2");
    }
}
