//! Questions to method modules.
use crate::amount;
use crate::method::{Availability, Candidate, Context, Environment, Health, Verdict};

/// A question about an amount in the wire form, or `None` for a payer who only browses. Optional facts about the
/// payment are absent, and the only candidate is `a`. `usd` equals the amount, as at a rate of 1.
///
/// # Panics Panics if `amount` is not in the wire form.
#[must_use]
pub fn context(currency: &str, amount: Option<&str>) -> Context {
    let amount = amount.map(|text| {
        let parsed = amount::parse(text);
        assert!(parsed.is_some(), "{text:?} is no amount");
        parsed.unwrap_or_default()
    });
    Context {
        amount,
        currency: currency.into(),
        usd: amount,
        environment: Environment::Test,
        email_known: false,
        country: None,
        now: 1_800_000_000_000,
        settings: Vec::new(),
        candidates: vec![candidate("a")],
    }
}

/// An operational candidate without limits, fee or measurements.
#[must_use]
pub fn candidate(id: &str) -> Candidate {
    Candidate {
        id: id.into(),
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

/// The same question with one more setting.
#[must_use]
pub fn set(mut context: Context, name: &str, value: &str) -> Context {
    context.settings.push((name.into(), value.into()));
    context
}

/// The ids of the eligible candidates, best first.
#[must_use]
pub fn eligible(verdicts: &[Verdict]) -> Vec<&str> {
    verdicts
        .iter()
        .filter(|verdict| verdict.outcome.is_ok())
        .map(|verdict| verdict.id.as_str())
        .collect()
}
