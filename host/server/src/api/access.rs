//! Permissions: all checks before a body is parsed.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use kassette_domain::key::Scope;
use kassette_domain::policy::RateLimit;
use kassette_gateway::auth::{AuthError, MerchantCaller, live_allowed};

use super::state::ApiState;
use super::{BODY_LIMIT, query};
use crate::web::body;
use crate::web::budget::Reservation;
use crate::web::code::Code;
use crate::web::error::ApiError;
use crate::web::json::{self, Fields};
use crate::web::marks::Credential;

/// Error message about the key on merchants' paths.
const MERCHANT_KEY: &str = "this path takes a merchant's key (kp_test_ or kp_live_) as Authorization: Bearer; the one sent is missing, invalid, revoked, expired or of another kind";

/// A request that has arrived whole and within its cap.
#[derive(Debug)]
pub(super) struct Arrived {
    /// The request's head.
    pub(super) parts: Parts,
    /// The exact bytes of the body.
    body: Bytes,
}

impl Arrived {
    /// Receives a request completely.
    pub(super) async fn read(request: Request) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let body = body::read(&parts.headers, body, BODY_LIMIT).await?;
        Ok(Self { parts, body })
    }

    /// Reads an authenticated request and returns it with its caller. `needed` is the error message for a refused key.
    pub(super) async fn admit<C>(
        authenticated: Result<C, AuthError>,
        request: Request,
        state: &ApiState,
        needed: &'static str,
    ) -> Result<(C, Self), ApiError>
    where
        for<'c> &'c C: Into<Credential>,
    {
        match authenticated {
            Ok(caller) => {
                Reservation::mark_authenticated(request.extensions());
                Reservation::note_credential(request.extensions(), (&caller).into());
                Ok((caller, Self::read(request).await?))
            }
            Err(AuthError::Refused) => {
                // Slows down guessing, without affecting requests with usable keys.
                Self::read_without_key(request, state).await?;
                Err(ApiError::KeyNeeded(needed))
            }
            Err(failed) => {
                Self::read(request).await?;
                Err(failed.into())
            }
        }
    }

    /// Counts a request without a usable key against its address, and receives it if there was a token. A
    /// sender without tokens thus does not make the server read its body.
    pub(super) async fn read_without_key(
        request: Request,
        state: &ApiState,
    ) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        if let Err(exhausted) = state.count_address(&parts) {
            body::check_declared(&body, BODY_LIMIT)?;
            return Err(exhausted);
        }
        Self::read(Request::from_parts(parts, body)).await
    }

    /// The exact bytes of the body.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The request with its body, for a handler that parses it.
    pub(super) fn into_request(self) -> Request {
        Request::from_parts(self.parts, self.body.into())
    }

    /// Refuses every query parameter.
    pub(super) fn no_query(&self) -> Result<(), ApiError> {
        query::read(self.parts.uri.query(), []).map(|[]| ())
    }

    /// The fields of an optional body.
    pub(super) fn optional_fields(&self) -> Result<Fields, ApiError> {
        if self.body.is_empty() {
            return Ok(Fields::default());
        }
        self.fields()
    }

    /// Refuses any fields in the body.
    pub(super) fn no_fields(&self) -> Result<(), ApiError> {
        Ok(self.optional_fields()?.finish()?)
    }

    /// The fields of the body, which must be a JSON object.
    pub(super) fn fields(&self) -> Result<Fields, ApiError> {
        check_media_type(&self.parts.headers)?;
        Ok(Fields::read(json::parse(&self.body)?)?)
    }
}

/// 400 unless the body is `application/json` in UTF-8 without an encoding.
fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let refuse = |message: &'static str| Err(ApiError::Malformed(message.into()));
    if headers.contains_key(CONTENT_ENCODING) {
        return refuse("Content-Encoding is not supported; send the body as it is");
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let declared = match (types.next(), types.next()) {
        (Some(one), None) => one.to_str().unwrap_or_default(),
        _ => "",
    };
    if is_json(declared) {
        Ok(())
    } else {
        refuse("Content-Type must be application/json")
    }
}

/// Whether a media type is JSON in UTF-8.
fn is_json(declared: &str) -> bool {
    let mut parts = declared
        .split(';')
        .map(|part| part.trim_matches([' ', '\t']));
    let essence = parts.next().unwrap_or_default();
    let is_utf8 = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) => {
            name.eq_ignore_ascii_case("charset")
                && value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        None => parameter.is_empty(),
    };
    essence.eq_ignore_ascii_case("application/json") && parts.all(is_utf8)
}

/// The credential of a request: exactly one `Authorization: Bearer …`. Otherwise `None`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// A request by a merchant's key with the scope `payments:create`. In live, the merchant must be approved.
#[derive(Debug)]
pub(super) struct MerchantCreate {
    pub(super) caller: MerchantCaller,
    pub(super) arrived: Arrived,
}

impl FromRequest<ApiState> for MerchantCreate {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let (caller, arrived) = merchant(request, state, Scope::PaymentsCreate, 1).await?;
        if !live_allowed(&caller) {
            let message = "live payments are not approved for this merchant";
            return Err(ApiError::forbidden(Code::LiveNotApproved, message));
        }
        Ok(Self { caller, arrived })
    }
}

/// A request by a merchant's key with the scope `payments:read`, which counts as `COST` requests.
#[derive(Debug)]
pub(super) struct MerchantRead<const COST: u32 = 1> {
    pub(super) caller: MerchantCaller,
    pub(super) arrived: Arrived,
}

impl<const COST: u32> FromRequest<ApiState> for MerchantRead<COST> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let (caller, arrived) = merchant(request, state, Scope::PaymentsRead, COST).await?;
        Ok(Self { caller, arrived })
    }
}

/// A request by a merchant's key with the scope `payments:refund`, regardless of live approval.
#[derive(Debug)]
pub(super) struct MerchantRefund {
    pub(super) caller: MerchantCaller,
    pub(super) arrived: Arrived,
}

impl FromRequest<ApiState> for MerchantRefund {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let (caller, arrived) = merchant(request, state, Scope::PaymentsRefund, 1).await?;
        Ok(Self { caller, arrived })
    }
}

/// A request by a merchant's key with the scope `payments:create` that moves no money, so it needs no live approval.
#[derive(Debug)]
pub(super) struct MerchantCancel {
    pub(super) caller: MerchantCaller,
    pub(super) arrived: Arrived,
}

impl FromRequest<ApiState> for MerchantCancel {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let (caller, arrived) = merchant(request, state, Scope::PaymentsCreate, 1).await?;
        Ok(Self { caller, arrived })
    }
}

/// A request without a key, counted against its address.
#[derive(Debug)]
pub(super) struct Anonymous(pub(super) Arrived);

impl FromRequest<ApiState> for Anonymous {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let arrived = Arrived::read_without_key(request, state).await?;
        Ok(Self(arrived))
    }
}

/// Rate limit of a merchant's key.
pub(super) fn rate_limit(caller: &MerchantCaller, state: &ApiState) -> RateLimit {
    let own = caller.merchant.policy.rate_limit;
    own.unwrap_or_else(|| state.gateway().settings().rate_limit)
}

/// Checks size, credential, rate and scope, in this order.
pub(super) async fn merchant(
    request: Request,
    state: &ApiState,
    scope: Scope,
    cost: u32,
) -> Result<(MerchantCaller, Arrived), ApiError> {
    let authenticated = match bearer(request.headers()) {
        Some(token) => state.gateway().merchant_caller(token).await,
        None => Err(AuthError::Refused),
    };
    let (caller, arrived) = Arrived::admit(authenticated, request, state, MERCHANT_KEY).await?;
    let limit = rate_limit(&caller, state);
    let keys = &state.limits().keys;
    state.take(limit, |here| {
        keys.take_many(&caller.key.id, cost, here, state.now())
    })?;
    if !caller.key.allows(scope) {
        return Err(ApiError::missing_scope(scope.as_str()));
    }
    Ok((caller, arrived))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                &name,
                http::HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        headers
    }

    #[test]
    fn a_credential_is_one_bearer_token() {
        let read = |values: &[&str]| bearer(&headers(AUTHORIZATION, values)).map(str::to_owned);
        assert_eq!(read(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(read(&["bearer  abc "]).as_deref(), Some("abc"));
        for wrong in [
            &[][..],
            &["Bearer"],
            &["Bearer "],
            &["Basic abc"],
            &["abc"],
            &["Bearer é"],
            &["Bearer abc", "Bearer abc"],
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_plain_json_in_utf8_is_taken() {
        for fine in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
            "application/json ; ",
        ] {
            assert!(is_json(fine), "{fine}");
        }
        for wrong in [
            "",
            "text/plain",
            "application/jsonp",
            "application/merge-patch+json",
            "application/json; charset=latin1",
            "application/json; x=y",
            "application/x-www-form-urlencoded",
        ] {
            assert!(!is_json(wrong), "{wrong}");
        }
        let twice = headers(CONTENT_TYPE, &["application/json", "application/json"]);
        assert!(check_media_type(&twice).is_err());
        let mut encoded = headers(CONTENT_TYPE, &["application/json"]);
        encoded.insert(CONTENT_ENCODING, http::HeaderValue::from_static("identity"));
        assert!(check_media_type(&encoded).is_err());
    }
}
