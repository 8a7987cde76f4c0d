//! Error codes for programs.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::StatusCode;
use serde::Serialize;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The only list of error codes, each with its status and its meaning for the API documents.
macro_rules! codes {
    ($($code:ident $status:literal $meaning:literal;)+) => {
        /// Kind of an error. Stable, unlike the text of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum Code {
            $(#[doc = $meaning] $code,)+
        }

        impl Code {
            const ALL: &[(Self, u16, &str)] = &[$((Self::$code, $status, $meaning),)+];

            /// HTTP status of the error.
            pub(crate) fn status(self) -> StatusCode {
                let status = match self { $(Self::$code => $status,)+ };
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    };
}

codes! {
    MalformedRequest 400 "The body is not JSON, its Content-Type is another, or the request breaks HTTP.";
    Unauthorized 401 "The credential is missing, invalid, revoked or expired.";
    BadSignature 401 "The key is good; the signature, its time or its nonce is not.";
    OneTimeCodeRefused 401 "A one-time code opens nothing, or nothing any more.";
    OneTimeCodeInUse 401 "Another request is using this one-time code.";
    MissingScope 403 "The key does not carry the scope.";
    RoleTooLow 403 "The operator's role does not allow it.";
    LiveNotApproved 403 "The merchant is not approved for live payments.";
    NotRolledOut 403 "Live processing is off for the reseller.";
    MerchantNotAuthorized 403 "The merchant has not authorized the reseller.";
    ResellerRefundNotAllowed 403 "The merchant's delegation does not let the reseller refund.";
    ProviderChoiceNotAllowed 403 "The merchant's routing policy does not let a start name its provider.";
    WrongSite 403 "The connect code was issued for another site.";
    WrongProof 403 "The proof was not made with the connect code.";
    SiteNotProved 403 "The site does not prove that it is the shop's.";
    SiteAskedTooOften 403 "The site was asked for its proof too often.";
    NotFound 404 "There is no such thing, or it is not the caller's.";
    MethodNotAllowed 405 "The path does not answer the HTTP method.";
    RequestTimeout 408 "The body did not arrive in time.";
    Conflict 409 "What is on record does not allow it.";
    IdempotencyConflict 409 "The idempotency key was used with other data; `field` is what differs.";
    ClientRefConflict 409 "The client_ref was used with other data; `field` is what differs.";
    NonceUsed 409 "The nonce was used before.";
    HostedPayment 409 "The payer starts this payment on its checkout page.";
    DirectPayment 409 "The merchant chose this payment's method.";
    ResellersPayment 409 "The reseller that created the payment starts it.";
    PaymentNotStartable 409 "The payment is neither created nor pending.";
    PaymentExpired 409 "The payment has expired.";
    OtherMethod 409 "The method is not the one fixed at creation.";
    OutcomeUnknown 409 "The outcome of a start is not known yet: call again after `Retry-After`.";
    AttemptOpen 409 "Another attempt is open.";
    AttemptOver 409 "The attempt ended meanwhile.";
    NoAttemptLeft 409 "The payment has had as many attempts as it can.";
    NoAttemptOpen 409 "No attempt waits for an answer.";
    PaymentNotCompleted 409 "Only the money of a completed payment is given back.";
    PaymentNotCancellable 409 "The payment is neither created nor pending.";
    AttemptNotClosable 409 "An open attempt could not be closed for certain: call again after `Retry-After`.";
    NotRefundable 409 "The provider does not give this payment's money back, or not any more.";
    WebhookEndpointExists 409 "Another webhook endpoint of the merchant's environment has the URL; the text names it.";
    TooManyEndpoints 409 "The merchant has as many webhook endpoints as it can.";
    TooManyDomains 409 "The merchant has as many verified domains as it can.";
    BodyTooLarge 413 "The body is larger than the interface takes.";
    UnknownHost 421 "The listener does not answer under this host name.";
    InvalidField 422 "A field, parameter or header has no value that can be taken; `field` names it.";
    UnknownField 422 "A field or parameter is not known; `field` names it.";
    NoExchangeRate 422 "There is no usable exchange rate for the currency.";
    AmountTooSmall 422 "The amount is worth less than 0.01 USD.";
    AmountOverLimit 422 "The amount is over the merchant's limit for one payment.";
    MoreThanLeft 422 "More than can still be given back.";
    WholeRefundOnly 422 "The provider gives back all that was received at once, or nothing.";
    ReturnUrlNotVerified 422 "The return URL is not below a verified domain of the merchant.";
    UnknownMethod 422 "There is no such payment method.";
    MethodNotAvailable 422 "The payment method cannot take this payment now.";
    ProviderNotAvailable 422 "The provider is unknown or cannot take this payment.";
    NoProviderAvailable 422 "No provider could be reached; the payment can be started again.";
    Declined 422 "The provider or the payer's bank declined; the payment can be started again.";
    ModuleRefused 422 "The module is not taken; the text says why.";
    TooManyInvitations 422 "As many invitations are open as can be.";
    RateLimited 429 "Too many requests: call again after `Retry-After`.";
    InternalError 500 "The service failed.";
    Unreadable 500 "What the request is about cannot be read as it was written; nothing was done.";
    Busy 503 "More is in hand than can be carried; nothing was done.";
    Unavailable 503 "The service takes nothing at the moment; nothing was done.";
    InDoubt 503 "The service failed meanwhile; it may have been done or not.";
}

impl Code {
    /// The code as in a response body.
    fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        let name = name.as_ref().and_then(serde_json::Value::as_str);
        name.unwrap_or_default().to_owned()
    }
}

/// A string without `enum`, so that a generated client does not fail on a code of a later version.
impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let mut about =
            "Which error it is. The text of `error` may change, this word stays. Later \
            versions may have more.\n\n| code | status | meaning |\n|---|---|---|"
                .to_owned();
        for (code, status, meaning) in Self::ALL {
            // Writing to a string cannot fail.
            let _ = write!(about, "\n| `{}` | {status} | {meaning} |", code.name());
        }
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(about))
            .pattern(Some("^[a-z]+(_[a-z]+)*$"))
            .examples(["invalid_field"])
            .build();
        RefOr::T(Schema::Object(schema))
    }
}

impl ToSchema for Code {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("ErrorCode")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_one_word_of_its_own_in_the_order_of_statuses() {
        let names: Vec<String> = Code::ALL.iter().map(|(code, ..)| code.name()).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!name.is_empty() && !names[..index].contains(name), "{name}");
        }
        assert!(Code::ALL.is_sorted_by_key(|(_, status, _)| *status));
        assert_eq!(Code::MissingScope.name(), "missing_scope");
    }
}
