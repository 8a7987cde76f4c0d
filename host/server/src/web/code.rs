//! Error codes for programs.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::StatusCode;
use serde::Serialize;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The only list of error codes, each with its status, its meaning for the API documents, and the action for a
/// caller.
macro_rules! codes {
    ($($code:ident $status:literal $meaning:literal $action:literal;)+) => {
        /// Kind of an error. Stable, unlike the text of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum Code {
            $(#[doc = $meaning] $code,)+
        }

        impl Code {
            const ALL: &[(Self, u16, &str, &str)] =
                &[$((Self::$code, $status, $meaning, $action),)+];

            /// HTTP status of the error.
            pub(crate) fn status(self) -> StatusCode {
                let status = match self { $(Self::$code => $status,)+ };
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    };
}

codes! {
    MalformedRequest 400 "The body is not JSON, its Content-Type is another, or the request breaks HTTP."
        "Fix your code.";
    Unauthorized 401 "The credential is missing, invalid, revoked or expired."
        "Check the key. Merchant keys (`kp_`) belong to merchant calls, reseller keys (`kr_`) to reseller calls.";
    BadSignature 401 "The key is good; the signature, its time or its nonce is not."
        "Check the signed text, your clock and the nonce's form.";
    OneTimeCodeRefused 401 "A one-time code is unknown, used or expired."
        "Ask the operator for a new code.";
    OneTimeCodeInUse 401 "Another request is using this one-time code."
        "Wait for `Retry-After`. If the other request failed, use the same code.";
    MissingScope 403 "The key does not carry the scope."
        "Ask the operator for a key with this scope.";
    RoleTooLow 403 "The operator's role does not allow it."
        "Only operators' calls answer this: ask an operator with a higher role.";
    LiveNotApproved 403 "The merchant is not approved for live payments."
        "Ask the operator.";
    NotRolledOut 403 "Live processing is off for the reseller."
        "Ask the operator.";
    MerchantNotAuthorized 403 "The merchant has not authorized the reseller."
        "Ask the merchant to authorize you.";
    ResellerRefundNotAllowed 403 "The merchant's delegation does not let the reseller refund."
        "Ask the merchant, or the operator, to allow it.";
    ProviderChoiceNotAllowed 403 "The merchant's routing policy does not let a start name its provider."
        "Leave `provider_id` out.";
    WrongSite 403 "The connect code was issued for another site."
        "Use the address for which the code was made.";
    WrongProof 403 "The proof was not made with the connect code."
        "Check how the proof is made.";
    SiteNotProved 403 "The site does not prove that it is the shop's."
        "Look for a cache, a redirect or a login before the path.";
    SiteAskedTooOften 403 "The site's proof was requested too often."
        "Ask for a new code.";
    NotFound 404 "The object does not exist, or belongs to another caller."
        "Check the id, and whether the key's environment is the right one.";
    MethodNotAllowed 405 "The path does not answer the HTTP method."
        "Check the HTTP method.";
    RequestTimeout 408 "The body did not arrive in time."
        "Send it again.";
    Conflict 409 "The current state of the object does not allow it."
        "Read the object, then decide.";
    IdempotencyConflict 409 "The idempotency key was used with other data; `field` is what differs."
        "Look for a mistake. Is it another order? Then use another key.";
    ClientRefConflict 409 "The client_ref was used with other data; `field` is what differs."
        "Look for a mistake. Is it another order? Then use another `client_ref`.";
    NonceUsed 409 "The nonce was used before."
        "Sign again with a new nonce.";
    HostedPayment 409 "The payer starts this payment on its checkout page."
        "Send the browser to `checkout_url`.";
    DirectPayment 409 "The merchant chose this payment's method."
        "Call start.";
    ResellersPayment 409 "The reseller that created the payment starts it."
        "Leave it to the reseller.";
    PaymentNotStartable 409 "The payment is neither created nor pending."
        "Read it. If it is not paid, create a new payment.";
    PaymentExpired 409 "The payment has expired."
        "Create a new payment.";
    OtherMethod 409 "The method is not the one fixed at creation."
        "Use the method fixed at creation, or create a new payment.";
    OutcomeUnknown 409 "The outcome of a start is not known yet: call again after `Retry-After`."
        "The same request after `Retry-After`.";
    AttemptOpen 409 "Another attempt is open."
        "Try again later.";
    AttemptOver 409 "The attempt ended in the meantime."
        "Read the payment.";
    NoAttemptLeft 409 "The payment has had as many attempts as it can."
        "Create a new payment.";
    NoAttemptOpen 409 "No attempt waits for an answer."
        "Read the payment.";
    PaymentNotCompleted 409 "Only the money of a completed payment can be refunded."
        "Wait until it is completed.";
    PaymentNotCancellable 409 "The payment is neither created nor pending."
        "Read the payment: `status` says how it ended.";
    AttemptNotClosable 409 "An open attempt could not be closed for certain: call again after `Retry-After`."
        "The same request after `Retry-After`.";
    NotRefundable 409 "The provider does not refund this payment, or no longer refunds it."
        "Give the money back in another way.";
    WebhookEndpointExists 409 "Another webhook endpoint of the merchant's environment has the URL; the text names it."
        "Use that endpoint, or delete it.";
    TooManyEndpoints 409 "The merchant has as many webhook endpoints as it can."
        "Delete one.";
    TooManyDomains 409 "The merchant has as many verified domains as it can."
        "Ask the operator to delete one.";
    BodyTooLarge 413 "The body is larger than the interface takes."
        "Send at most 16 KiB.";
    UnknownHost 421 "The listener does not answer under this host name."
        "Use the address that the operator gave you.";
    InvalidField 422 "A field, parameter or header has an invalid value; `field` names it."
        "Correct the field that `field` names.";
    UnknownField 422 "A field or parameter is not known; `field` names it."
        "Leave it out, or fix its name.";
    NoExchangeRate 422 "The currency has no usable exchange rate."
        "Use another currency, or ask the operator.";
    AmountTooSmall 422 "The amount is worth less than 0.01 USD."
        "Use a larger amount.";
    AmountOverLimit 422 "The amount is over the merchant's limit for one payment."
        "Use a smaller amount, or ask the operator.";
    MoreThanLeft 422 "More than can still be refunded."
        "Read the refunds; ask for less.";
    WholeRefundOnly 422 "The provider refunds only the whole amount at once."
        "Leave `amount` out.";
    ReturnUrlNotVerified 422 "The return URL is not below a verified domain of the merchant."
        "Use a verified domain, or have the operator verify this one.";
    UnknownMethod 422 "The payment method does not exist."
        "Use an id from the methods list.";
    MethodNotAvailable 422 "The payment method cannot take this payment now."
        "Offer another method.";
    ProviderNotAvailable 422 "The provider is unknown or cannot take this payment."
        "Leave `provider_id` out, or name another.";
    NoProviderAvailable 422 "No provider could be reached; the payment can be started again."
        "Try again later, or offer another method.";
    Declined 422 "The provider or the payer's bank declined; the payment can be started again."
        "Offer another method.";
    ModuleRefused 422 "The module is not taken; the text says why."
        "Only operators' calls answer this: correct the module.";
    TooManyInvitations 422 "As many invitations are open as can be."
        "Wait until some are answered.";
    RateLimited 429 "Too many requests: call again after `Retry-After`."
        "The same request after `Retry-After`.";
    InternalError 500 "The service failed."
        "The same request again; it may have been done.";
    Unreadable 500 "The object cannot be read as it was written; nothing was done."
        "Write to the operator, with the `X-Request-Id`.";
    Busy 503 "Too many requests are in flight; nothing was done."
        "The same request after `Retry-After`.";
    Unavailable 503 "The service takes nothing at the moment; nothing was done."
        "The same request after `Retry-After`.";
    InDoubt 503 "The service failed during the request; it is not known whether it had an effect."
        "The same request again; it may have been done.";
}

impl Code {
    /// All codes with status, meaning and the action for a caller, in the order of statuses.
    pub(crate) fn list() -> impl Iterator<Item = (String, u16, &'static str, &'static str)> {
        let all = Self::ALL.iter();
        all.map(|(code, status, meaning, action)| (code.name(), *status, *meaning, *action))
    }

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
            "Code of the error. The text of `error` may change, the code does not. Later versions may have more codes.\n\n| code | status | meaning |\n|---|---|---|"
                .to_owned();
        for (code, status, meaning, _) in Self::ALL {
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
        assert!(Code::ALL.is_sorted_by_key(|(_, status, ..)| *status));
        assert_eq!(Code::MissingScope.name(), "missing_scope");
    }
}
