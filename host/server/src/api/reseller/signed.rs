//! Permission to call a reseller's endpoint: key, scope, rollout, and in live a signature that can be used
//! once.

use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use http::request::Parts;
use http::{HeaderMap, Version};
use kassette_domain::key::{Environment, Scope};
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::signing::{Nonce, SignedRequest, Stamp};
use kassette_gateway::auth::{ResellerCaller, rolled_out};

use crate::api::access::{Arrived, bearer};
use crate::api::state::ApiState;
use crate::web::error::ApiError;

/// Error message about the key on resellers' paths.
const RESELLER_KEY: &str = "this path takes a reseller's key (kr_test_ or kr_live_) as Authorization: Bearer; the one sent is missing, invalid, revoked, expired or of another kind";

const TIMESTAMP: &str = "x-service-timestamp";
const NONCE: &str = "x-service-nonce";
const SIGNATURE: &str = "x-service-signature";

/// A scope as a type, so that a handler's signature specifies the scope it needs.
pub(in crate::api) trait Permission: Send + Sync + 'static {
    const SCOPE: Scope;

    /// Tokens that a request with this query takes from its key's bucket.
    fn cost(_query: Option<&str>) -> u32 {
        1
    }
}

/// Permission to invite merchants.
#[derive(Debug)]
pub(super) struct Invite;

impl Permission for Invite {
    const SCOPE: Scope = Scope::ResellerInvite;
}

/// Permission to create and start delegated payments.
#[derive(Debug)]
pub(super) struct Create;

impl Permission for Create {
    const SCOPE: Scope = Scope::ResellerPaymentsCreate;
}

/// Permission to read delegated payments and merchants.
#[derive(Debug)]
pub(super) struct Read;

impl Permission for Read {
    const SCOPE: Scope = Scope::ResellerPaymentsRead;
}

/// Permission to refund delegated payments.
#[derive(Debug)]
pub(super) struct Refund;

impl Permission for Refund {
    const SCOPE: Scope = Scope::ResellerRefund;
}

/// A request by a reseller's key with the scope. In live, the reseller is rolled out, and the request has a
/// valid signature and an unused nonce.
#[derive(Debug)]
pub(in crate::api) struct SignedReseller<P> {
    pub(in crate::api) caller: ResellerCaller,
    pub(in crate::api) arrived: Arrived,
    permission: PhantomData<P>,
}

impl<P: Permission> FromRequest<ApiState> for SignedReseller<P> {
    type Rejection = ApiError;

    /// Checks size, credential, rate, scope, rollout, signature and nonce, in this order. A nonce is reserved
    /// only for a request that proves possession of the key, so that no other sender can use up a reseller's
    /// nonces.
    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let gateway = state.gateway();
        let token = bearer(request.headers()).unwrap_or_default();
        let authenticated = gateway.reseller_caller(token).await;
        let (caller, arrived) = Arrived::admit(authenticated, request, state, RESELLER_KEY).await?;
        let presented = bearer(&arrived.parts.headers).unwrap_or_default();
        let limit = gateway.settings().rate_limit;
        let keys = &state.limits().keys;
        let cost = P::cost(arrived.parts.uri.query());
        state.take(limit, |here| {
            keys.take_many(&caller.key.id, cost, here, state.now())
        })?;
        if !caller.key.allows(P::SCOPE) {
            return Err(ApiError::missing_scope(P::SCOPE.as_str()));
        }
        if !rolled_out(&caller) {
            return Err(ResellerNotAllowed::NotRolledOut.into());
        }
        if caller.key.environment == Environment::Live {
            let signed = Signed::read(&arrived.parts)?;
            if !signed.stamp.is_fresh(state.now()) {
                return Err(ApiError::BadSignature(
                    "X-Service-Timestamp must be within 5 minutes of the server's time",
                ));
            }
            if !signed.is_by(presented, &arrived) {
                return Err(ApiError::BadSignature(
                    "X-Service-Signature is not that of this request: sign method, path with query, timestamp, nonce and the SHA-256 of the body exactly as they are sent",
                ));
            }
            let (nonce, stamp) = (signed.nonce, signed.stamp);
            gateway
                .take_nonce(caller.reseller.id, nonce, stamp)
                .await
                .map_err(|error| ApiError::of_nonce(error, limit))?;
        }
        Ok(Self {
            caller,
            arrived,
            permission: PhantomData,
        })
    }
}

/// The signature headers of a request.
struct Signed<'r> {
    target: &'r str,
    timestamp: &'r str,
    stamp: Stamp,
    nonce: Nonce,
    signature: &'r [u8],
}

impl<'r> Signed<'r> {
    /// # Errors
    /// 401 if a header is missing, repeated or malformed, or if the target is not in origin form.
    fn read(parts: &'r Parts) -> Result<Self, ApiError> {
        let refuse = ApiError::BadSignature;
        let target = target(parts).ok_or(refuse(
            "send the request's target as a path, as in GET /api/v1/reseller/merchants",
        ))?;
        let timestamp = one(&parts.headers, TIMESTAMP)
            .and_then(|value| std::str::from_utf8(value).ok())
            .unwrap_or_default();
        let stamp = Stamp::parse(timestamp).ok_or(refuse(
            "a live request needs one X-Service-Timestamp, in Unix seconds",
        ))?;
        let nonce = one(&parts.headers, NONCE)
            .and_then(|value| std::str::from_utf8(value).ok())
            .and_then(Nonce::parse)
            .ok_or(refuse(
                "a live request needs one X-Service-Nonce, 16-80 letters, digits or . _ : -",
            ))?;
        let signature = one(&parts.headers, SIGNATURE).ok_or(refuse(
            "a live request needs one X-Service-Signature, 64 lower-case hex characters",
        ))?;
        Ok(Self {
            target,
            timestamp,
            stamp,
            nonce,
            signature,
        })
    }

    /// Whether the holder of a key has signed the request.
    fn is_by(&self, key: &str, arrived: &Arrived) -> bool {
        let request = SignedRequest {
            method: arrived.parts.method.as_str(),
            target: self.target,
            timestamp: self.timestamp,
            nonce: self.nonce.as_str(),
            body: arrived.body(),
        };
        request.is_signed(key, self.signature)
    }
}

/// Path and query, unchanged. Other HTTP/1 forms of a target have the same meaning, but no client signs them;
/// in HTTP/2 it is `:path`.
fn target(parts: &Parts) -> Option<&str> {
    let is_absolute = parts.version < Version::HTTP_2 && parts.uri.authority().is_some();
    let target = parts.uri.path_and_query()?.as_str();
    (!is_absolute && target.starts_with('/')).then_some(target)
}

/// The value of a header. `None` unless it occurs exactly once.
fn one<'r>(headers: &'r HeaderMap, name: &str) -> Option<&'r [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(version: Version, target: &str) -> Parts {
        let request = http::Request::builder().version(version).uri(target);
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_target_is_taken_as_it_stood_and_only_in_origin_form() {
        for as_it_stood in [
            "/api/v1/reseller/payments?merchant_id=1&limit=%31",
            "/api/v1/reseller/merchants?",
            "//a/../b;c?d=%2F%2f",
        ] {
            let parts = parts(Version::HTTP_11, as_it_stood);
            assert_eq!(target(&parts), Some(as_it_stood));
        }
        let absolute = "http://pay.example/api/v1/reseller/merchants";
        assert_eq!(target(&parts(Version::HTTP_11, absolute)), None);
        assert_eq!(target(&parts(Version::HTTP_10, absolute)), None);
        // HTTP/2 sends scheme and authority separately from the path.
        let parts = parts(Version::HTTP_2, absolute);
        assert_eq!(target(&parts), Some("/api/v1/reseller/merchants"));
    }

    #[test]
    fn a_header_that_is_missing_or_repeated_is_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(one(&headers, NONCE), None);
        headers.append(NONCE, "a".parse().unwrap());
        assert_eq!(one(&headers, NONCE), Some(&b"a"[..]));
        headers.append(NONCE, "a".parse().unwrap());
        assert_eq!(one(&headers, NONCE), None);
    }

    #[test]
    fn each_header_that_is_wrong_is_named() {
        let right = [
            (TIMESTAMP, "1795251600"),
            (NONCE, "0123456789abcdef"),
            (SIGNATURE, "00"),
        ];
        let read = |headers: &[(&str, &str)]| {
            let mut parts = parts(Version::HTTP_11, "/");
            for (name, value) in headers {
                let name: http::HeaderName = name.parse().unwrap();
                let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
                parts.headers.append(name, value);
            }
            match Signed::read(&parts) {
                Ok(_) => None,
                Err(ApiError::BadSignature(message)) => Some(message.to_lowercase()),
                Err(other) => panic!("{other:?}"),
            }
        };
        assert_eq!(read(&right), None);
        for (at, (name, _)) in right.into_iter().enumerate() {
            let mut missing = right.to_vec();
            missing.remove(at);
            let mut repeated = right.to_vec();
            repeated.push(right[at]);
            for headers in [missing, repeated] {
                assert!(
                    read(&headers).is_some_and(|told| told.contains(name)),
                    "{name}"
                );
            }
        }
        for (at, wrong) in [
            (0, "1795251600.5"),
            (0, "é"),
            (1, "short"),
            (1, "0123456789abcde é"),
        ] {
            let mut headers = right;
            headers[at].1 = wrong;
            let told = read(&headers);
            assert!(
                told.is_some_and(|told| told.contains(headers[at].0)),
                "{wrong}"
            );
        }
    }
}
