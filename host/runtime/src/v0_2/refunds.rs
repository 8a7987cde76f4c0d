//! The interface `refunds`, to and from the domain.

use kassette_domain::method::MethodId;
use kassette_domain::provider::{
    Given, PaidFacts, QueryFailure, RefundFailure, RefundOrder, RefundTerms,
};

use super::bindings::provider::exports::kassette::plugin::payments as wit_payments;
use super::bindings::provider::exports::kassette::plugin::refunds as wit;
use super::bounds::{DETAIL, at_most, bad_reply};
use super::provider::{query_failure, reference, refund_state};
use super::settings::LISTED;
use crate::error::CallError;
use crate::links::AllowedPages;
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

/// `currency` is that in which the money was received.
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

/// The answer of `terms`; methods that this host does not know are left out.
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
        });
    }
    Ok(known)
}

fn given(given: wit::Given, pages: AllowedPages<'_>) -> Result<Given, CallError> {
    let claim_url = given.claim_url.map(|url| pages.check_page(&url));
    Ok(Given {
        reference: reference(given.reference)?,
        state: refund_state(given.state),
        claim_url: claim_url.transpose()?,
        // Cut and not refused: the money is gone, whatever the words for it are.
        detail: text::cut(&given.detail, DETAIL),
    })
}

/// The answer of `refund`.
pub(crate) fn refunded(
    answer: Result<wit::Given, wit::RefundFailure>,
    pages: AllowedPages<'_>,
) -> Result<Result<Given, RefundFailure>, CallError> {
    Ok(match answer {
        Ok(given) => Ok(self::given(given, pages)?),
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

/// The answer of `query`.
pub(crate) fn queried(
    answer: Result<wit::Given, wit_payments::QueryFailure>,
    pages: AllowedPages<'_>,
) -> Result<Result<Given, QueryFailure>, CallError> {
    Ok(match answer {
        Ok(given) => Ok(self::given(given, pages)?),
        Err(failure) => Err(query_failure(failure)),
    })
}
