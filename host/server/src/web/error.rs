//! The only place that maps failures to HTTP.
//!
//! Errors of the domain and the gateway do not know HTTP. An exhaustive match maps each of them here, so that a
//! new error does not compile without a decision about its [`Code`], which determines the status. The body is
//! always `{"error": "...", "code": "..."}`, with `field` if a field is at fault. Internal causes are only logged.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue};
use kassette_domain::candidate::BadCanary;
use kassette_domain::lifecycle::Refusal;
use kassette_domain::payment::Status;
use kassette_domain::policy::RateLimit;
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_gateway::auth::AuthError;
use kassette_gateway::connect::{ConnectCodeError, ConnectError};
use kassette_gateway::create::CreateError;
use kassette_gateway::ledger::CorrectionError;
use kassette_gateway::nonces::NonceError;
use kassette_gateway::operator_acts::DecideError;
use kassette_gateway::refunds::RefundError;
use kassette_gateway::replay::ReplayError;
use kassette_gateway::reseller::{ConsentError, InviteError, ResellerError};
use kassette_gateway::shared_modules::ShareError;
use kassette_gateway::start::{NotAvailable, NotStartable, StartError};
use kassette_gateway::trials::{CanaryError, TrialError};
use kassette_gateway::webhooks::{DeliveryError, EndpointError};
use kassette_runtime::{LoadError, RollbackError};
use kassette_store::Fault;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::BodyError;
use super::code::Code;
use super::json::{Invalid, NotJson};
use super::marks::{InternalCause, PauseReading};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// `Retry-After` for a cancellation if it is uncertain whether the attempt was closed.
const NOT_CLOSED: Duration = Duration::from_secs(2);
/// `Retry-After` if too many requests are in flight. Waiting requests take much less time than this.
const BUSY: Duration = Duration::from_secs(1);
/// `Retry-After` if the disk fails or is full. The store tries to write at this interval.
const DISK: Duration = Duration::from_secs(2);

/// The quota of requests is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted {
    /// Time until the next request is allowed.
    pub(crate) retry_after: Duration,
    /// The limit that was exceeded.
    pub(crate) limit: RateLimit,
}

/// Response to a rejected request.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ErrorBody {
    /// Why the request was rejected. Do not depend on the text.
    #[schema(min_length = 1, example = "amount: must be greater than zero")]
    error: Cow<'static, str>,
    #[schema(inline)]
    code: Code,
    /// The field, parameter or header that is at fault. Absent if the error does not concern one.
    #[schema(value_type = String, required = false, example = "amount")]
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<Cow<'static, str>>,
    /// Status of the payment. Only in a 409 to a start, a cancel or a refund.
    #[schema(value_type = String, required = false, example = "completed")]
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// Ids of the pending refunds or open disputes that prevent an operator's approval.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    despite_needed: Vec<String>,
}

/// Description of a rejection.
#[derive(Debug)]
pub(crate) struct Reason {
    code: Code,
    field: Option<Cow<'static, str>>,
    message: Cow<'static, str>,
    /// Status of the payment, for a conflict.
    status: Option<Status>,
}

impl Reason {
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            field: None,
            message: message.into(),
            status: None,
        }
    }

    /// Adds the field that is at fault.
    pub(crate) fn at(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: Some(field.into()),
            ..self
        }
    }
}

/// Reason why a request fails.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// 400: not JSON, wrong Content-Type, or an incomplete body.
    Malformed(Cow<'static, str>),
    /// 401.
    Unauthorized,
    /// 401: no valid key. The message names the kind that the path takes.
    KeyNeeded(&'static str),
    /// 401: the key is good, the signature or what belongs to it is not.
    BadSignature(&'static str),
    /// 401: a one-time code in the body is invalid. With the time to wait before a retry, if a retry may succeed.
    CodeRefused(Reason, Option<Duration>),
    /// 403.
    Forbidden(Reason),
    /// 404.
    NotFound(&'static str),
    /// 421: the listener only responds under its own host names.
    UnknownHost,
    /// 405. The router adds `Allow`.
    MethodNotAllowed,
    /// 408: the body arrived too slowly.
    Late,
    /// 409: the conflict. With the time to wait before a retry, if a retry may succeed.
    Conflict(Reason, Option<Duration>),
    /// 409: ids of the refunds and disputes that prevent an approval.
    DespiteNeeded(Vec<String>, Reason),
    /// 413.
    TooLarge(BodyError),
    /// 422.
    Invalid(Reason),
    /// Status 429. Reading from the connection pauses: in a measurement, 64 connections that repeated their request
    /// immediately halved the throughput of other clients.
    TooMany(Exhausted),
    /// 500. The text is only logged.
    Internal(String),
    /// 500: a row that the request depends on is damaged or not authentic. Nothing was changed. The text is only
    /// logged.
    Unreadable(String),
    /// 503: too many requests are in flight. Nothing was changed.
    Busy,
    /// 503: the store does not accept requests at the moment. Nothing was changed. The text is only logged.
    Unavailable(String),
    /// 503: the store failed while writing, so the change may have been made. The text is only logged.
    InDoubt(String),
}

impl ApiError {
    /// 403: the credential does not have the required scope.
    pub(crate) fn missing_scope(scope: &str) -> Self {
        let message = format!("the key does not carry the scope {scope}");
        Self::forbidden(Code::MissingScope, message)
    }

    /// Maps the rejection of a nonce. `limit` is the rate limit of the key.
    pub(crate) fn of_nonce(error: NonceError, limit: RateLimit) -> Self {
        match error {
            NonceError::Used => Self::conflict_of(Code::NonceUsed, error.to_string()),
            NonceError::TooMany { retry_after } => Self::TooMany(Exhausted { retry_after, limit }),
            NonceError::Store(fault) => fault.into(),
        }
    }

    /// 500, with a cause that is only logged.
    pub(crate) fn internal(cause: impl fmt::Display) -> Self {
        Self::Internal(cause.to_string())
    }

    /// 403 with a specific code.
    pub(crate) fn forbidden(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self::Forbidden(Reason::new(code, message))
    }

    /// 409: the stored state does not allow the request.
    pub(crate) fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::conflict_of(Code::Conflict, message)
    }

    /// 409 with a specific code.
    pub(crate) fn conflict_of(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self::Conflict(Reason::new(code, message), None)
    }

    /// Adds the payment's status to a conflict. Other errors are unchanged.
    pub(crate) fn with_status(self, status: Status) -> Self {
        match self {
            Self::Conflict(reason, retry_after) => {
                let status = Some(status);
                Self::Conflict(Reason { status, ..reason }, retry_after)
            }
            other => other,
        }
    }

    /// Converts the reason why nothing was refunded. Without `amount_sent`, the error names no field.
    pub(crate) fn of_refund(error: RefundError, amount_sent: bool) -> Self {
        match error {
            RefundError::Amount(refusal) if !amount_sent => {
                Self::Invalid(Reason::new(code_of_amount(&refusal), refusal.to_string()))
            }
            error => error.into(),
        }
    }

    /// 422: what is wrong with a field, parameter or header.
    pub(crate) fn invalid(field: impl Into<Cow<'static, str>>, why: impl fmt::Display) -> Self {
        let field = field.into();
        Self::invalid_of(Code::InvalidField, format!("{field}: {why}"), field)
    }

    /// 422: a cursor that the list did not issue.
    pub(crate) fn bad_cursor() -> Self {
        Self::invalid("cursor", "is none that this list gave out")
    }

    /// 422 with a specific code.
    pub(crate) fn invalid_of(
        code: Code,
        message: impl Into<Cow<'static, str>>,
        field: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Invalid(Reason::new(code, message).at(field))
    }

    fn reason(self) -> Reason {
        let (code, message) = match self {
            Self::CodeRefused(reason, _)
            | Self::Forbidden(reason)
            | Self::Conflict(reason, _)
            | Self::DespiteNeeded(_, reason)
            | Self::Invalid(reason) => return reason,
            Self::Malformed(message) => (Code::MalformedRequest, message),
            Self::Unauthorized => (
                Code::Unauthorized,
                "the credential is missing, invalid, revoked or expired".into(),
            ),
            Self::KeyNeeded(message) => (Code::Unauthorized, message.into()),
            Self::BadSignature(message) => (Code::BadSignature, message.into()),
            Self::NotFound(message) => (Code::NotFound, message.into()),
            Self::UnknownHost => (
                Code::UnknownHost,
                "this listener does not answer under that host name".into(),
            ),
            Self::MethodNotAllowed => (
                Code::MethodNotAllowed,
                "this path does not answer the method".into(),
            ),
            Self::Late => (
                Code::RequestTimeout,
                "the body did not arrive in time".into(),
            ),
            Self::TooLarge(error) => (Code::BodyTooLarge, error.to_string().into()),
            Self::TooMany(_) => (
                Code::RateLimited,
                "too many requests; try again later".into(),
            ),
            Self::Internal(_) => (
                Code::InternalError,
                "an unexpected error happened; repeating the request is safe".into(),
            ),
            Self::Unreadable(_) => (
                Code::Unreadable,
                "what this is about cannot be read as it was written; nothing was done, and the operator of the \
                 gateway has to look"
                    .into(),
            ),
            Self::Busy => (
                Code::Busy,
                "the service is busy; try again after the time in Retry-After".into(),
            ),
            Self::Unavailable(_) => (
                Code::Unavailable,
                "the service takes nothing at the moment; nothing was done, try again after the \
                 time in Retry-After"
                    .into(),
            ),
            Self::InDoubt(_) => (
                Code::InDoubt,
                "the service failed meanwhile, so this may have been done or not; look after the time in \
                 Retry-After, or repeat the request with the same idempotency key"
                    .into(),
            ),
        };
        Reason::new(code, message)
    }
}

/// Rounds up to whole seconds, at least one, because `Retry-After` has no fractions.
fn seconds(duration: Duration) -> u64 {
    let up = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(up).max(1)
}

fn bearer() -> (HeaderName, HeaderValue) {
    (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

/// Headers that an error requires.
fn headers(error: &ApiError) -> Vec<(HeaderName, HeaderValue)> {
    match error {
        ApiError::Unauthorized | ApiError::KeyNeeded(_) | ApiError::BadSignature(_) => {
            vec![bearer()]
        }
        ApiError::CodeRefused(_, retry_after) => {
            let after = retry_after.map(|after| (RETRY_AFTER, seconds(after).into()));
            after.into_iter().chain([bearer()]).collect()
        }
        ApiError::Conflict(_, Some(after)) => vec![(RETRY_AFTER, seconds(*after).into())],
        ApiError::TooMany(exhausted) => rate_headers(exhausted),
        ApiError::Busy => vec![(RETRY_AFTER, seconds(BUSY).into())],
        ApiError::Unavailable(_) | ApiError::InDoubt(_) => {
            vec![(RETRY_AFTER, seconds(DISK).into())]
        }
        _ => Vec::new(),
    }
}

/// `Retry-After`, and the quota as in draft-ietf-httpapi-ratelimit-headers-10: `q` requests per window of `w`
/// seconds, of which `r` remain for `t` seconds.
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
            Self::Internal(cause)
            | Self::Unreadable(cause)
            | Self::Unavailable(cause)
            | Self::InDoubt(cause) => Some(InternalCause(cause.clone())),
            _ => None,
        };
        let put_off = matches!(self, Self::TooMany(_));
        let (despite_needed, this) = match self {
            Self::DespiteNeeded(ids, reason) => (ids, Self::Conflict(reason, None)),
            other => (Vec::new(), other),
        };
        let Reason {
            code,
            field,
            message: error,
            status,
        } = this.reason();
        let body = ErrorBody {
            error,
            code,
            field,
            status: status.map(Status::as_str),
            despite_needed,
        };
        let mut response = (code.status(), Json(body)).into_response();
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
        Self::Invalid(Reason {
            field: error.field.map(Cow::Owned),
            ..Reason::new(error.code, error.message)
        })
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
            Fault::Corrupt(_) => Self::Unreadable(fault.to_string()),
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
            CreateError::Differs { field } => {
                let reason = Reason::new(Code::IdempotencyConflict, error.to_string());
                Self::Conflict(reason.at(field), None)
            }
            CreateError::ClientRefDiffers { field } => {
                let reason = Reason::new(Code::ClientRefConflict, error.to_string());
                Self::Conflict(reason.at(field), None)
            }
            CreateError::Barred(barred) => barred.into(),
            CreateError::NoRate(_) => {
                Self::invalid_of(Code::NoExchangeRate, error.to_string(), "currency")
            }
            CreateError::TooSmall => {
                Self::invalid_of(Code::AmountTooSmall, error.to_string(), "amount")
            }
            CreateError::OverLimit => {
                Self::invalid_of(Code::AmountOverLimit, error.to_string(), "amount")
            }
            CreateError::UnverifiedReturnUrl => {
                Self::invalid_of(Code::ReturnUrlNotVerified, error.to_string(), "return_url")
            }
            CreateError::LivesTooLong { .. } => {
                Self::invalid_of(Code::InvalidField, error.to_string(), "expires_in")
            }
            CreateError::UnknownMethod => {
                Self::invalid_of(Code::UnknownMethod, error.to_string(), "payment_method")
            }
            CreateError::NotEligible(_) => Self::invalid_of(
                Code::MethodNotAvailable,
                error.to_string(),
                "payment_method",
            ),
            CreateError::Store(fault) => fault.into(),
            CreateError::Random => Self::internal(error),
        }
    }
}

impl From<StartError> for ApiError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::NotFound => Self::NotFound("payment not found"),
            StartError::Conflict(conflict) => conflict.into(),
            StartError::OtherMethod => {
                let reason = Reason::new(Code::OtherMethod, error.to_string());
                Self::Conflict(reason.at("payment_method"), None)
            }
            StartError::StillOpen(_) => Self::conflict_of(Code::AttemptOpen, error.to_string()),
            StartError::Unsettled { retry_after } => {
                let reason = Reason::new(Code::OutcomeUnknown, error.to_string());
                Self::Conflict(reason, Some(retry_after))
            }
            StartError::NotLiveApproved => {
                Self::forbidden(Code::LiveNotApproved, error.to_string())
            }
            StartError::Barred(barred) => barred.into(),
            StartError::ProviderChoice => {
                let reason = Reason::new(Code::ProviderChoiceNotAllowed, error.to_string());
                Self::Forbidden(reason.at("provider_id"))
            }
            StartError::NotAvailable(what) => what.into(),
            StartError::Declined => Self::Invalid(Reason::new(Code::Declined, error.to_string())),
            // Only checkout pages show notes and can ask the payer again.
            StartError::AskAgain(_) | StartError::Random => Self::internal(error),
            StartError::Store(fault) => fault.into(),
        }
    }
}

impl From<RefundError> for ApiError {
    fn from(error: RefundError) -> Self {
        let message = error.to_string();
        match error {
            RefundError::KeyRefused => Self::Unauthorized,
            RefundError::NotFound => Self::NotFound("payment not found"),
            RefundError::Barred(barred) => barred.into(),
            RefundError::Differs { field } => {
                let reason = Reason::new(Code::IdempotencyConflict, message);
                Self::Conflict(reason.at(field), None)
            }
            RefundError::Conflict(Refusal::WrongStatus(_)) => {
                Self::conflict_of(Code::PaymentNotCompleted, message)
            }
            RefundError::Conflict(
                Refusal::SettledTooEarly | Refusal::RefundEnded(_) | Refusal::Busy(_),
            ) => Self::conflict(message),
            RefundError::Conflict(_) => Self::conflict_of(Code::NotRefundable, message),
            RefundError::Amount(refusal) => {
                Self::invalid_of(code_of_amount(&refusal), message, "amount")
            }
            RefundError::WorkDone
            | RefundError::NotRefundable
            | RefundError::NotOrdered
            | RefundError::Claimable => Self::conflict(message),
            RefundError::Unavailable => Self::Unavailable(message),
            RefundError::Store(fault) => fault.into(),
            RefundError::Random => Self::internal(message),
        }
    }
}

/// The code of a refund whose amount cannot be refunded.
const fn code_of_amount(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::WholeOnly { .. } => Code::WholeRefundOnly,
        Refusal::WholeUnitsOnly { .. } => Code::InvalidField,
        _ => Code::MoreThanLeft,
    }
}

impl From<NotStartable> for ApiError {
    fn from(error: NotStartable) -> Self {
        let code = match error {
            NotStartable::Hosted => Code::HostedPayment,
            NotStartable::Direct => Code::DirectPayment,
            NotStartable::Status => Code::PaymentNotStartable,
            NotStartable::Expired => Code::PaymentExpired,
            NotStartable::NoAttemptLeft => Code::NoAttemptLeft,
            NotStartable::AttemptOver => Code::AttemptOver,
            NotStartable::NoAttemptOpen => Code::NoAttemptOpen,
        };
        Self::conflict_of(code, error.to_string())
    }
}

impl From<NotAvailable> for ApiError {
    fn from(error: NotAvailable) -> Self {
        let (code, field) = match error {
            NotAvailable::UnknownMethod => (Code::UnknownMethod, "payment_method"),
            NotAvailable::Method => (Code::MethodNotAvailable, "payment_method"),
            NotAvailable::Account => (Code::ProviderNotAvailable, "provider_id"),
            NotAvailable::OverLimit => (Code::AmountOverLimit, "amount"),
            NotAvailable::NoProvider => {
                let reason = Reason::new(Code::NoProviderAvailable, error.to_string());
                return Self::Invalid(reason);
            }
        };
        Self::invalid_of(code, error.to_string(), field)
    }
}

impl From<ResellerNotAllowed> for ApiError {
    fn from(barred: ResellerNotAllowed) -> Self {
        let code = match barred {
            ResellerNotAllowed::NotAuthorized => Code::MerchantNotAuthorized,
            ResellerNotAllowed::NotRolledOut => Code::NotRolledOut,
            ResellerNotAllowed::NotLiveApproved => Code::LiveNotApproved,
            ResellerNotAllowed::RefundsNotAllowed => Code::ResellerRefundNotAllowed,
        };
        Self::forbidden(code, barred.to_string())
    }
}

impl From<InviteError> for ApiError {
    fn from(error: InviteError) -> Self {
        match error {
            InviteError::KeyRefused => Self::Unauthorized,
            InviteError::Differs { field } => {
                let reason = Reason::new(Code::ClientRefConflict, error.to_string());
                Self::Conflict(reason.at(field), None)
            }
            InviteError::TooMany => {
                Self::Invalid(Reason::new(Code::TooManyInvitations, error.to_string()))
            }
            InviteError::Store(fault) => fault.into(),
            InviteError::Random => Self::internal(error),
        }
    }
}

impl From<ResellerError> for ApiError {
    fn from(error: ResellerError) -> Self {
        match error {
            ResellerError::NotFound => Self::NotFound("payment not found"),
            ResellerError::Barred(barred) => barred.into(),
            ResellerError::BadCursor => {
                Self::invalid_of(Code::InvalidField, error.to_string(), "cursor")
            }
            ResellerError::Store(fault) => fault.into(),
        }
    }
}

impl From<ConnectError> for ApiError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::CodeRefused => Self::CodeRefused(
                Reason::new(Code::OneTimeCodeRefused, error.to_string()),
                None,
            ),
            ConnectError::UnderWay { retry_after } => {
                let reason = Reason::new(Code::OneTimeCodeInUse, error.to_string());
                Self::CodeRefused(reason, Some(retry_after))
            }
            ConnectError::OtherSite => {
                Self::Forbidden(Reason::new(Code::WrongSite, error.to_string()).at("site_url"))
            }
            ConnectError::WrongProof => {
                Self::Forbidden(Reason::new(Code::WrongProof, error.to_string()).at("proof"))
            }
            ConnectError::NotLiveApproved => {
                Self::forbidden(Code::LiveNotApproved, error.to_string())
            }
            ConnectError::NoControl(_) => Self::forbidden(Code::SiteNotProved, error.to_string()),
            ConnectError::AskedTooOften => {
                Self::forbidden(Code::SiteAskedTooOften, error.to_string())
            }
            ConnectError::EndpointTaken(_) => {
                Self::conflict_of(Code::WebhookEndpointExists, error.to_string())
            }
            ConnectError::TooManyEndpoints => {
                Self::conflict_of(Code::TooManyEndpoints, error.to_string())
            }
            ConnectError::TooManyDomains => {
                Self::conflict_of(Code::TooManyDomains, error.to_string())
            }
            ConnectError::Random(error) => Self::internal(error),
            ConnectError::Store(fault) => fault.into(),
        }
    }
}

impl From<ConnectCodeError> for ApiError {
    fn from(error: ConnectCodeError) -> Self {
        match error {
            ConnectCodeError::NoSuchMerchant => Self::NotFound("merchant not found"),
            ConnectCodeError::NotLiveApproved => Self::conflict(error.to_string()),
            ConnectCodeError::Random(error) => Self::internal(error),
            ConnectCodeError::Store(fault) => fault.into(),
        }
    }
}

impl From<ConsentError> for ApiError {
    fn from(error: ConsentError) -> Self {
        match error {
            ConsentError::NoSuchMerchant => Self::NotFound("merchant not found"),
            ConsentError::Random(error) => Self::internal(error),
            ConsentError::Store(fault) => fault.into(),
        }
    }
}

impl From<DecideError> for ApiError {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::NotFound => Self::NotFound("payment not found"),
            DecideError::Conflict(message) => Self::conflict(message),
            DecideError::NotCancellable(message) => {
                Self::conflict_of(Code::PaymentNotCancellable, message)
            }
            DecideError::NotClosed => {
                let reason = Reason::new(Code::AttemptNotClosable, error.to_string());
                Self::Conflict(reason, Some(NOT_CLOSED))
            }
            DecideError::DespiteNeeded(ids) => {
                let message = DecideError::DespiteNeeded(Vec::new()).to_string();
                Self::DespiteNeeded(ids, Reason::new(Code::Conflict, message))
            }
            DecideError::AcceptsTooMuch => {
                Self::invalid_of(Code::InvalidField, error.to_string(), "accept")
            }
            DecideError::NoRate(_) => {
                Self::invalid_of(Code::NoExchangeRate, error.to_string(), "accept")
            }
            DecideError::Store(fault) => fault.into(),
        }
    }
}

impl From<CorrectionError> for ApiError {
    fn from(error: CorrectionError) -> Self {
        let message = error.to_string();
        let field = match error {
            CorrectionError::NoAccount => "provider_id",
            CorrectionError::NoPayment => "payment_id",
            CorrectionError::OtherCurrency => "currency",
            CorrectionError::Differs(field) => {
                let reason = Reason::new(Code::IdempotencyConflict, message);
                return Self::Conflict(reason.at(field), None);
            }
            CorrectionError::Refused(_) => return Self::conflict(message),
            CorrectionError::Store(fault) => return fault.into(),
        };
        Self::invalid_of(Code::InvalidField, message, field)
    }
}

impl From<EndpointError> for ApiError {
    fn from(error: EndpointError) -> Self {
        let message = error.to_string();
        match error {
            EndpointError::NoSuchOwner => Self::NotFound("merchant or reseller not found"),
            EndpointError::NotFound => Self::NotFound("webhook endpoint not found"),
            EndpointError::Destination(why) => Self::invalid("url", why),
            EndpointError::Overlap => {
                Self::invalid_of(Code::InvalidField, message, "overlap_hours")
            }
            EndpointError::Taken(_) => Self::conflict_of(Code::WebhookEndpointExists, message),
            EndpointError::TooMany | EndpointError::Stale | EndpointError::Disabled => {
                Self::conflict(message)
            }
            EndpointError::Random(error) => Self::internal(error),
            EndpointError::Store(fault) => fault.into(),
        }
    }
}

impl From<DeliveryError> for ApiError {
    fn from(error: DeliveryError) -> Self {
        match error {
            DeliveryError::NotFound => Self::NotFound("delivery not found"),
            DeliveryError::EndpointDeleted => Self::conflict(error.to_string()),
            DeliveryError::Store(fault) => fault.into(),
        }
    }
}

impl From<LoadError> for ApiError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::NoCompiler(_) => Self::internal(error),
            // All other errors are the module's fault.
            error => Self::Invalid(Reason::new(Code::ModuleRefused, error.to_string())),
        }
    }
}

impl From<RollbackError> for ApiError {
    fn from(error: RollbackError) -> Self {
        match error {
            RollbackError::Nothing | RollbackError::Lost(_) => Self::conflict(error.to_string()),
            RollbackError::Refused(error) => error.into(),
        }
    }
}

impl From<ShareError> for ApiError {
    fn from(error: ShareError) -> Self {
        match error {
            ShareError::Refused { .. } => {
                Self::Invalid(Reason::new(Code::ModuleRefused, error.to_string()))
            }
            ShareError::Late(_) | ShareError::Busy => Self::conflict(error.to_string()),
            ShareError::Store(fault) => fault.into(),
        }
    }
}

impl From<TrialError> for ApiError {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Nothing | TrialError::NotKept(_) => Self::conflict(error.to_string()),
            TrialError::Shared(error) => error.into(),
            TrialError::Store(fault) => fault.into(),
        }
    }
}

impl From<CanaryError> for ApiError {
    fn from(error: CanaryError) -> Self {
        match error {
            CanaryError::Bad(BadCanary::Every) => Self::invalid("every_seconds", error),
            CanaryError::Bad(BadCanary::Steps) => Self::invalid("steps", error),
            CanaryError::Other(_) | CanaryError::Nothing => Self::conflict(error.to_string()),
            CanaryError::Random => Self::internal(error),
        }
    }
}

impl From<ReplayError> for ApiError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::NotAMethod | ReplayError::NothingActive(_) => {
                Self::conflict(error.to_string())
            }
            ReplayError::Refused(error) => error.into(),
            ReplayError::Settings(_) => {
                Self::Invalid(Reason::new(Code::InvalidField, error.to_string()).at("settings"))
            }
            ReplayError::Broken(_) => Self::internal(error),
            ReplayError::Store(fault) => fault.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn a_connection_that_asks_too_often_is_read_again_after_a_pause() {
        let exhausted = Exhausted {
            retry_after: Duration::from_secs(1),
            limit: RateLimit::default(),
        };
        let response = ApiError::TooMany(exhausted).into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(response.extensions().get::<PauseReading>().is_some());
    }

    use super::*;
    use http::StatusCode;
    use kassette_domain::money::Currency;

    async fn shown(error: impl Into<ApiError>) -> (u16, http::HeaderMap, String) {
        let response = error.into().into_response();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 4096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let object = body.as_object().unwrap();
        assert!(object["code"].is_string(), "{body}");
        let more = object
            .keys()
            .find(|key| !["error", "code", "field"].contains(&key.as_str()));
        assert_eq!(more, None, "nothing but the error");
        let text = object["error"].as_str().unwrap().to_owned();
        (parts.status.as_u16(), parts.headers, text)
    }

    #[tokio::test]
    async fn failures_of_a_create_have_their_statuses() {
        for (error, status) in [
            (CreateError::KeyRefused, 401),
            (CreateError::Differs { field: "amount" }, 409),
            (CreateError::ClientRefDiffers { field: "amount" }, 409),
            (CreateError::Barred(ResellerNotAllowed::NotAuthorized), 403),
            (CreateError::NoRate(Currency::EUR), 422),
            (CreateError::TooSmall, 422),
            (CreateError::OverLimit, 422),
            (CreateError::UnverifiedReturnUrl, 422),
            (CreateError::LivesTooLong { most: 86_400 }, 422),
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
            (NotStartable::Hosted.into(), 409),
            (StartError::OtherMethod, 409),
            (StartError::NotLiveApproved, 403),
            (StartError::ProviderChoice, 403),
            (NotAvailable::NoProvider.into(), 422),
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

    /// Code and field of an error.
    async fn code(error: impl Into<ApiError>) -> (String, Option<String>) {
        let body = error.into().into_response().into_body();
        let body = axum::body::to_bytes(body, 4096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        (text("code").unwrap(), text("field"))
    }

    #[tokio::test]
    async fn what_a_start_refuses_is_told_apart_by_codes() {
        let refusals: [StartError; 14] = [
            NotStartable::Hosted.into(),
            NotStartable::Direct.into(),
            NotStartable::Status.into(),
            NotStartable::Expired.into(),
            NotStartable::NoAttemptLeft.into(),
            NotStartable::AttemptOver.into(),
            NotStartable::NoAttemptOpen.into(),
            StartError::OtherMethod,
            StartError::Unsettled {
                retry_after: Duration::from_secs(2),
            },
            NotAvailable::UnknownMethod.into(),
            NotAvailable::Method.into(),
            NotAvailable::Account.into(),
            NotAvailable::NoProvider.into(),
            StartError::Declined,
        ];
        let mut codes = Vec::new();
        for refusal in refusals {
            let (code, _) = code(refusal).await;
            assert!(!codes.contains(&code), "{code}");
            codes.push(code);
        }
    }

    #[tokio::test]
    async fn the_field_at_fault_is_named() {
        for (error, told, field) in [
            (
                CreateError::NoRate(Currency::EUR),
                "no_exchange_rate",
                Some("currency"),
            ),
            (
                CreateError::Differs { field: "amount" },
                "idempotency_conflict",
                Some("amount"),
            ),
            (
                CreateError::UnverifiedReturnUrl,
                "return_url_not_verified",
                Some("return_url"),
            ),
            (CreateError::KeyRefused, "unauthorized", None),
        ] {
            let expected = (told.to_owned(), field.map(str::to_owned));
            assert_eq!(code(error).await, expected);
        }
        let invalid = Invalid::new("order_id", "is required");
        let expected = ("invalid_field".to_owned(), Some("order_id".to_owned()));
        assert_eq!(code(invalid).await, expected);
    }

    #[tokio::test]
    async fn failures_of_a_reseller_have_their_statuses() {
        for (error, status) in [
            (ResellerError::NotFound, 404),
            (
                ResellerError::Barred(ResellerNotAllowed::NotAuthorized),
                403,
            ),
            (ResellerError::Barred(ResellerNotAllowed::NotRolledOut), 403),
            (
                ResellerError::Barred(ResellerNotAllowed::NotLiveApproved),
                403,
            ),
            (
                ResellerError::Barred(ResellerNotAllowed::RefundsNotAllowed),
                403,
            ),
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
