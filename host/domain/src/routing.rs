//! Routing: the question put to a method's module, its answer, and the hard rules that the host
//! checks itself before it believes a word.
//!
//! The types mirror the interface `routing` of the plugin contract in terms of the domain; the
//! runtime converts to and from the bindings of each released version.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, AttemptId, Digest, MerchantId, PaymentId};
use crate::key::Environment;
use crate::method::MethodId;
use crate::money::{Currency, Minor};
use crate::payment::Purpose;
use crate::setting::SettingSpec;
use crate::time::Time;

/// What a method's module says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodDescription {
    pub id: MethodId,
    /// Shown to the payer, plain text, at most 40 bytes.
    pub label: String,
    /// The module's own version, for people.
    pub version: String,
    /// Currencies the scheme can be paid in; empty means any.
    pub currencies: Vec<Currency>,
    /// What payers read of it, at most one for a language.
    pub translations: Vec<Translation>,
    /// A drawing on a square of 24 by 24; empty where it has none of its own.
    pub icon: Vec<Shape>,
    /// Settings it knows.
    pub settings: Vec<SettingSpec>,
}

impl MethodDescription {
    /// What the payer reads on a page in this language (BCP 47, such as `de`): the translation of the very
    /// tag, else of the same language in another region.
    pub fn translation(&self, language: &str) -> Option<&Translation> {
        let primary = |tag: &str| tag.split('-').next().map(str::to_ascii_lowercase);
        let same = |known: &&Translation| known.language.eq_ignore_ascii_case(language);
        let alike = |known: &&Translation| primary(&known.language) == primary(language);
        let known = &self.translations;
        known.iter().find(same).or_else(|| known.iter().find(alike))
    }

    /// The method's name on a page in this language.
    pub fn label_in(&self, language: &str) -> &str {
        self.translation(language)
            .map_or(&self.label, |translation| &translation.label)
    }
}

/// What the payer reads of a method in one language; plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// BCP 47.
    pub language: String,
    /// The method's name, at most 40 bytes.
    pub label: String,
    /// A line below it, at most 160 bytes.
    pub note: Option<String>,
}

/// One shape of a method's drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Drawn as a line.
    Line(PathData),
    /// Filled.
    Area(PathData),
}

/// The data of an SVG path. It holds commands, numbers and what stands between them, so that a page can
/// write it into an attribute as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathData(String);

impl PathData {
    /// None where it is empty, does not begin with a move, or holds anything else.
    pub fn parse(text: String) -> Option<Self> {
        let is_path = |b: u8| b.is_ascii_digit() || b"MmLlHhVvCcSsQqTtAaZz .,+-e".contains(&b);
        (text.starts_with(['M', 'm']) && text.bytes().all(is_path)).then_some(Self(text))
    }

    /// As the attribute `d` has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The question: may this payment use this method, and through whom?
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Context {
    /// Absent where the payer only browses the list.
    pub amount: Option<Minor>,
    /// The invoice currency.
    pub currency: Currency,
    /// `amount` in US cents at the merchant's rate.
    pub usd: Option<Minor>,
    pub environment: Environment,
    /// Whether the merchant told the payer's e-mail address.
    pub email_known: bool,
    /// The payer's country, ISO 3166-1 alpha-2, where known.
    pub country: Option<String>,
    /// The time of the question, to the second.
    pub now: Time,
    /// The operator's settings for this method.
    pub settings: Vec<(String, String)>,
    /// Accounts that could take it, at most [`MAX_CANDIDATES`].
    pub candidates: Vec<AccountCandidate>,
}

/// Most candidates in one question (the contract's limit).
pub const MAX_CANDIDATES: usize = 64;

/// A provider account that could take the payment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccountCandidate {
    /// The configured account.
    pub id: AccountId,
    /// Smallest amount it takes for this method in the context's currency, inclusive.
    pub minimum: Option<Minor>,
    /// Largest amount, inclusive.
    pub maximum: Option<Minor>,
    /// What it would charge, minor units of the context's currency, where known.
    pub fee: Option<Minor>,
    /// The operator's priority, higher first.
    pub priority: i32,
    /// What the host measured.
    pub health: Health,
}

/// What the host measured over the last minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Health {
    pub status: Availability,
    /// Starts that worked, per thousand; absent under 20 samples.
    pub success: Option<u16>,
    /// Median time of a start in milliseconds.
    pub latency: Option<u32>,
    /// How many starts the figures rest on.
    pub samples: u32,
}

/// An account's condition, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Availability {
    Operational,
    /// Works, but worse than usual.
    Degraded,
    /// Starts fail.
    Down,
    /// Nothing recent is known.
    Stale,
}

impl Availability {
    /// All of them, from best to worst.
    pub const ALL: [Self; 4] = [Self::Operational, Self::Degraded, Self::Down, Self::Stale];

    /// The name in the admin API, in metrics and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operational => "operational",
            Self::Degraded => "degraded",
            Self::Down => "down",
            Self::Stale => "stale",
        }
    }
}

/// What stands in the way of a method or a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ground {
    Currency,
    Amount,
    Country,
    Payer,
    Health,
    Policy,
    Other,
}

/// A no, for the whole method or for one candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingRefusal {
    /// Why, in one word.
    pub ground: Ground,
    /// For the operator, at most 200 bytes.
    pub detail: String,
}

/// The judgement on one candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The candidate.
    pub id: AccountId,
    /// Eligible with the reason for its place, or why not.
    pub outcome: Result<String, RoutingRefusal>,
}

/// What a method says to a question: its verdicts, best first, or why it cannot be used at all.
pub type RankAnswer = Result<Vec<Verdict>, RoutingRefusal>;

/// A routing decision with all that the method's module saw and said: enough to make it again. What is written borrows
/// both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingRecord<C = Context, A = RankAnswer> {
    pub at: Time,
    pub merchant: MerchantId,
    /// The method, whose slot decided.
    pub method: MethodId,
    /// The version of its module.
    pub digest: Digest,
    pub purpose: Purpose,
    /// The payment, where there is one: a refused create and a listing have none.
    pub payment: Option<PaymentId>,
    /// The attempt that followed from it.
    pub attempt: Option<AttemptId>,
    /// What the module saw.
    pub context: C,
    /// What it said; none where it failed.
    pub answer: Option<A>,
    /// The account that was taken of it.
    pub chosen: Option<AccountId>,
}

/// An answer that breaks a hard rule: the method is omitted, the module is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Faulty {
    /// A verdict on an account that is no candidate.
    #[error("a verdict names an unknown candidate")]
    Unknown,
    /// Two verdicts on one candidate.
    #[error("two verdicts name the candidate {0}")]
    Repeated(AccountId),
    /// A candidate without a verdict.
    #[error("no verdict on the candidate {0}")]
    Missing(AccountId),
    /// Called eligible though stale or down.
    #[error("the candidate {0} is {1:?} and was called eligible")]
    NotOperational(AccountId, Availability),
    /// Called eligible though the amount is outside its limits.
    #[error("the amount is outside the limits of {0}, which was called eligible")]
    OutOfLimits(AccountId),
}

impl AccountCandidate {
    /// Whether an amount lies within the candidate's limits; no amount, no limit.
    pub fn takes(&self, amount: Option<Minor>) -> bool {
        amount.is_none_or(|amount| {
            self.minimum.is_none_or(|least| amount >= least)
                && self.maximum.is_none_or(|most| amount <= most)
        })
    }
}

/// Checks a module's verdicts against what the host knows itself.
///
/// # Errors
/// The first rule that the answer breaks; then nothing of the answer is believed.
pub fn check_verdicts(context: &Context, verdicts: &[Verdict]) -> Result<(), Faulty> {
    let mut seen = Vec::with_capacity(verdicts.len());
    for verdict in verdicts {
        let candidate = context
            .candidates
            .iter()
            .find(|candidate| candidate.id == verdict.id)
            .ok_or(Faulty::Unknown)?;
        if seen.contains(&&verdict.id) {
            return Err(Faulty::Repeated(verdict.id.clone()));
        }
        seen.push(&verdict.id);
        if verdict.outcome.is_ok() {
            check_eligible(context, candidate)?;
        }
    }
    match context
        .candidates
        .iter()
        .find(|candidate| !seen.contains(&&candidate.id))
    {
        Some(candidate) => Err(Faulty::Missing(candidate.id.clone())),
        None => Ok(()),
    }
}

/// The rules for a candidate that was called eligible.
fn check_eligible(context: &Context, candidate: &AccountCandidate) -> Result<(), Faulty> {
    if matches!(
        candidate.health.status,
        Availability::Down | Availability::Stale
    ) {
        return Err(Faulty::NotOperational(
            candidate.id.clone(),
            candidate.health.status,
        ));
    }
    if !candidate.takes(context.amount) {
        return Err(Faulty::OutOfLimits(candidate.id.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: &str, status: Availability) -> AccountCandidate {
        AccountCandidate {
            id: AccountId::parse(id).unwrap(),
            minimum: Some(Minor(50)),
            maximum: Some(Minor(1000)),
            fee: None,
            priority: 0,
            health: Health {
                status,
                success: None,
                latency: None,
                samples: 0,
            },
        }
    }

    fn context(amount: u64) -> Context {
        Context {
            amount: Some(Minor(amount)),
            currency: Currency::EUR,
            usd: None,
            environment: Environment::Test,
            email_known: false,
            country: None,
            now: Time::default(),
            settings: vec![],
            candidates: vec![
                candidate("a", Availability::Operational),
                candidate("b", Availability::Stale),
            ],
        }
    }

    fn says(id: &str, eligible: bool) -> Verdict {
        let refusal = RoutingRefusal {
            ground: Ground::Other,
            detail: String::new(),
        };
        let id = AccountId::parse(id).unwrap();
        Verdict {
            id,
            outcome: if eligible {
                Ok("best".into())
            } else {
                Err(refusal)
            },
        }
    }

    #[test]
    fn an_honest_answer_is_believed() {
        assert_eq!(
            check_verdicts(&context(100), &[says("a", true), says("b", false)]),
            Ok(())
        );
    }

    #[test]
    fn unknown_repeated_and_missing_candidates_are_faults() {
        let id = |id| AccountId::parse(id).unwrap();
        assert_eq!(
            check_verdicts(&context(100), &[says("x", true)]),
            Err(Faulty::Unknown)
        );
        assert_eq!(
            check_verdicts(&context(100), &[says("a", true), says("a", false)]),
            Err(Faulty::Repeated(id("a")))
        );
        assert_eq!(
            check_verdicts(&context(100), &[says("a", true)]),
            Err(Faulty::Missing(id("b")))
        );
    }

    #[test]
    fn a_stale_or_limited_candidate_called_eligible_is_a_fault() {
        assert!(matches!(
            check_verdicts(&context(100), &[says("a", true), says("b", true)]),
            Err(Faulty::NotOperational(..))
        ));
        assert!(matches!(
            check_verdicts(&context(49), &[says("a", true), says("b", false)]),
            Err(Faulty::OutOfLimits(_))
        ));
        assert!(matches!(
            check_verdicts(&context(1001), &[says("a", true), says("b", false)]),
            Err(Faulty::OutOfLimits(_))
        ));
    }
}
