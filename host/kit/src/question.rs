//! Requests to payment methods.

use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::routing::{AccountCandidate, Availability, Context, Health};

use crate::harness::NOW;

/// A request with a currency, an amount in the wire format (`None` if the payer only browses) and candidates with
/// these ids. Optional data of the payer is absent, and `usd` equals the amount. Change the fields for other
/// cases.
///
/// # Panics
/// An argument is not a valid currency, amount or account id.
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

/// An operational candidate without limits, fee or measurements.
///
/// # Panics
/// `id` is not a valid account id.
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
