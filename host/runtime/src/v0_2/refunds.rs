//! Converts the interface `refunds` to and from the domain.

use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::provider::{
    Given, PaidFacts, QueryFailure, RefundFailure, RefundOrder, RefundTerms,
};

use super::bindings::provider::exports::kassette::plugin::payments as wit_payments;
use super::bindings::provider::exports::kassette::plugin::refunds as wit;
use super::bounds::{DETAIL, at_most, bad_reply};
use super::provider::{paid_out, query_failure, reference, refund_state};
use super::settings::LISTED;
use crate::error::CallError;
use crate::links::{AllowedPages, PageRefused};
use crate::text;

pub(crate) fn paid(facts: &PaidFacts) -> wit::Paid {
    wit::Paid {
        attempt: facts.attempt.to_string(),
        method: facts.method.as_str().to_owned(),
        reference: facts.reference.clone(),
        references: facts.references.clone(),
        received: wit::Money {
            amount: facts.received.0,
            currency: facts.currency.clone(),
        },
        captured_at: facts.captured_at.map(|at| at.as_millis()),
        merchant_order: facts.merchant_order.clone(),
        merchant: facts.merchant.clone(),
    }
}

/// `currency` is the currency of the money received.
pub(crate) fn order(order: &RefundOrder, currency: &str) -> wit::Order {
    wit::Order {
        id: order.id.to_string(),
        amount: wit::Money {
            amount: order.amount.0,
            currency: currency.to_owned(),
        },
        reason: order.reason.clone(),
        asked_at: order.asked_at.as_millis(),
        reference: order.reference.clone(),
    }
}

/// Converts the answer of `terms`, without methods that this host does not know.
pub(crate) fn terms(answer: Vec<wit::Refundable>) -> Result<Vec<RefundTerms>, CallError> {
    let mut known: Vec<RefundTerms> = Vec::new();
    for told in at_most(answer, LISTED, "too many refundable methods")? {
        let Some(method) = MethodId::parse(&told.method) else {
            continue;
        };
        if known.iter().any(|known| known.method == method) {
            return bad_reply("a refundable method is named twice");
        }
        known.push(RefundTerms {
            method,
            parts: told.parts,
            at_most: told.at_most,
            days: told.days,
            whole_units: at_most(told.whole_units, LISTED, "too many currencies")?,
        });
    }
    Ok(known)
}

fn given(given: wit::Given, ordered: Minor, pages: AllowedPages<'_>) -> Result<Given, CallError> {
    // The refund has been made: a claim URL that is not allowed must not reject the answer.
    let (claim_url, detail) = match given.claim_url.map(|url| pages.check_page(&url)) {
        None => (None, given.detail),
        Some(Ok(url)) => (Some(url), given.detail),
        Some(Err(PageRefused(page))) => (
            None,
            format!(
                "the claim address is not shown because it leads to {page}; {}",
                given.detail
            ),
        ),
    };
    Ok(Given {
        paid_out: paid_out(given.paid_out, ordered),
        reference: reference(given.reference)?,
        state: refund_state(given.state),
        claim_url,
        detail: text::cut(&detail, DETAIL),
    })
}

/// Converts the answer of `refund`. `ordered` is the amount of the refund.
pub(crate) fn refunded(
    answer: Result<wit::Given, wit::RefundFailure>,
    ordered: Minor,
    pages: AllowedPages<'_>,
) -> Result<Result<Given, RefundFailure>, CallError> {
    Ok(match answer {
        Ok(given) => Ok(self::given(given, ordered, pages)?),
        Err(wit::RefundFailure::Unavailable(why)) => {
            Err(RefundFailure::Unavailable(text::cut(&why, DETAIL)))
        }
        Err(wit::RefundFailure::Refused(why)) => {
            Err(RefundFailure::Refused(text::cut(&why, DETAIL)))
        }
        Err(wit::RefundFailure::Uncertain(why)) => {
            Err(RefundFailure::Uncertain(text::cut(&why, DETAIL)))
        }
    })
}

/// Converts the answer of `query` or `cancel`. `ordered` is the amount of the refund.
pub(crate) fn queried(
    answer: Result<wit::Given, wit_payments::QueryFailure>,
    ordered: Minor,
    pages: AllowedPages<'_>,
) -> Result<Result<Given, QueryFailure>, CallError> {
    Ok(match answer {
        Ok(given) => Ok(self::given(given, ordered, pages)?),
        Err(failure) => Err(query_failure(failure)),
    })
}
