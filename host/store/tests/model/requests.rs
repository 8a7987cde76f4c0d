//! The reference's word on requests that were made before.

use kassette_domain::payment::{Origin, Request};

/// The space in which a reference is unique, and the reference.
pub(crate) fn origin(request: &Request) -> (String, String) {
    match &request.origin {
        Origin::Merchant { idempotency_key } => (
            format!("merchant {}", request.merchant),
            idempotency_key.as_str().to_owned(),
        ),
        Origin::Reseller {
            reseller,
            client_ref,
        } => (
            format!("reseller {reseller}"),
            client_ref.as_str().to_owned(),
        ),
    }
}

/// The first field, in the decisions' order, in which a repeated request differs.
pub(crate) fn difference(first: &Request, again: &Request) -> Option<&'static str> {
    let method = |request: &Request| request.method;
    let email = |request: &Request| {
        let email = request.email.as_ref();
        email.map(|email| email.expose().to_owned())
    };
    let url = |request: &Request| {
        let url = request.return_url.as_ref();
        url.map(|url| url.as_str().to_owned())
    };
    if first.merchant != again.merchant {
        Some("merchant_id")
    } else if first.environment != again.environment {
        Some("environment")
    } else if first.order_id.as_str() != again.order_id.as_str() {
        Some("order_id")
    } else if first.due.amount.0 != again.due.amount.0 {
        Some("amount")
    } else if first.due.currency.code() != again.due.currency.code() {
        Some("currency")
    } else if first.mode.as_str() != again.mode.as_str() {
        Some("checkout_mode")
    } else if method(first) != method(again) {
        Some("payment_method")
    } else if email(first) != email(again) {
        Some("customer_email")
    } else if url(first) != url(again) {
        Some("return_url")
    } else {
        None
    }
}
