//! Questions to payment methods.

use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::routing::{AccountCandidate, Availability, Context, Health};

use crate::harness::NOW;

/// A question about an amount in the wire form, none where the payer only browses, for candidates
/// with these ids. What a merchant need not tell is absent; `usd` equals the amount, as at a rate
/// of 1. Change the fields for anything else.
///
/// # Panics
/// Where a text is no currency, amount or account's id.
#[must_use]
#[expect(
    clippy::panic,
    reason = "for tests, which write these texts down themselves"
)]
pub fn question(currency: &str, amount: Option<&str>, candidates: &[&str]) -> Context {
    let amount = amount.map(|text| {
        Minor::parse_positive(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
    });
    Context {
        amount,
        currency: Currency::parse(currency)
            .unwrap_or_else(|| panic!("{currency:?} is no currency of this interface")),
        usd: amount,
        environment: Environment::Test,
        email_known: false,
        country: None,
        now: NOW,
        settings: Vec::new(),
        candidates: candidates.iter().map(|id| candidate(id)).collect(),
    }
}

/// A candidate as usual: operational, without limits, purposes or measurements.
///
/// # Panics
/// Where the text is no account's id.
#[must_use]
#[expect(
    clippy::panic,
    reason = "for tests, which write these texts down themselves"
)]
pub fn candidate(id: &str) -> AccountCandidate {
    AccountCandidate {
        id: AccountId::parse(id).unwrap_or_else(|_| panic!("{id:?} is no account's id")),
        minimum: None,
        maximum: None,
        fee: None,
        priority: 0,
        health: Health {
            status: Availability::Operational,
            success: None,
            latency: None,
            samples: 0,
        },
    }
}
