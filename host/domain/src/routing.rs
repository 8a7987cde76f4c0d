//! Routing: the question to a method's module, its answer, and the rules that the host checks before it accepts
//! one.
//!
//! The types mirror the interface `routing` of the plugin contract in terms of the domain; the runtime converts to
//! and from the bindings of each released version.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, AttemptId, Digest, MerchantId, PaymentId};
use crate::key::Environment;
use crate::method::MethodId;
use crate::money::{Currency, Minor};
use crate::payment::Purpose;
use crate::setting::SettingSpec;
use crate::time::Time;

/// A method module's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodDescription {
    pub id: MethodId,
    /// Shown to the payer, plain text, at most 40 bytes.
    pub label: String,
    /// The module's own version, for people.
    pub version: String,
    /// Currencies of the payment scheme; empty means any.
    pub currencies: Vec<Currency>,
    /// Texts for payers, at most one per language.
    pub translations: Vec<Translation>,
    /// Icon on a square of 24 by 24; empty if the method does not have one.
    pub icon: Vec<Shape>,
    /// Known settings.
    pub settings: Vec<SettingSpec>,
}

impl MethodDescription {
    /// Translation for a page's language (BCP 47, such as `de`): that of the same tag, else of the same language
    /// in another region.
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

/// A method's texts for payers in one language; plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// BCP 47.
    pub language: String,
    /// The method's name, at most 40 bytes.
    pub label: String,
    /// A line below it, at most 160 bytes.
    pub note: Option<String>,
}

/// A shape of a method's icon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A stroked line.
    Line(PathData),
    /// A filled area.
    Area(PathData),
}

/// The data of an SVG path. It contains only commands, numbers and separators, so that a page can write it into an
/// attribute without escaping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathData(String);

impl PathData {
    /// Parses path data. `None` if it is empty, does not start with a move, or contains anything else.
    pub fn parse(text: String) -> Option<Self> {
        let is_path = |b: u8| b.is_ascii_digit() || b"MmLlHhVvCcSsQqTtAaZz .,+-e".contains(&b);
        (text.starts_with(['M', 'm']) && text.bytes().all(is_path)).then_some(Self(text))
    }

    /// The value of the attribute `d`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The question whether a payment may use a method, and through which account.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Context {
    /// `None` if the payer only browses the list.
    pub amount: Option<Minor>,
    /// The invoice currency.
    pub currency: Currency,
    /// `amount` in US cents at the merchant's rate.
    pub usd: Option<Minor>,
    pub environment: Environment,
    /// Whether the merchant provided the payer's e-mail address.
    pub email_known: bool,
    /// The payer's country, ISO 3166-1 alpha-2, if known.
    pub country: Option<String>,
    /// Time of the question, in whole seconds.
    pub now: Time,
    /// The operator's settings for this method.
    pub settings: Vec<(String, String)>,
    /// Possible accounts, at most [`MAX_CANDIDATES`].
    pub candidates: Vec<AccountCandidate>,
}

/// Maximum number of candidates in a question (the contract's limit).
pub const MAX_CANDIDATES: usize = 64;

/// A provider account that could take the payment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccountCandidate {
    /// The configured account.
    pub id: AccountId,
    /// Minimum amount for this method in the context's currency, inclusive.
    pub minimum: Option<Minor>,
    /// Maximum amount, inclusive.
    pub maximum: Option<Minor>,
    /// Its fee, in minor units of the context's currency, if known.
    pub fee: Option<Minor>,
    /// The operator's priority, higher first.
    pub priority: i32,
    /// Health that the host measured.
    pub health: Health,
}

/// Health that the host measured over the last minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Health {
    pub status: Availability,
    /// Successful starts, per thousand. `None` below 20 samples.
    pub success: Option<u16>,
    /// Median duration of a start, in milliseconds.
    pub latency: Option<u32>,
    /// Number of starts behind the figures.
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
    /// There are no recent measurements.
    Stale,
}

impl Availability {
    /// All conditions, from best to worst.
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

/// Ground for refusing a method or a candidate.
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

/// Refusal of the whole method or of one candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingRefusal {
    /// Category of the reason.
    pub ground: Ground,
    /// For the operator, at most 200 bytes.
    pub detail: String,
}

/// Verdict about one candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The candidate.
    pub id: AccountId,
    /// Eligible, with the reason for its rank, or why not.
    pub outcome: Result<String, RoutingRefusal>,
}

/// A module's answer: its verdicts, best first, or why the method cannot be used at all.
pub type RankAnswer = Result<Vec<Verdict>, RoutingRefusal>;

/// A routing decision with the module's question and answer, complete enough to repeat it. Writers use borrowed
/// types for both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingRecord<C = Context, A = RankAnswer> {
    pub at: Time,
    pub merchant: MerchantId,
    /// The method whose slot decided.
    pub method: MethodId,
    /// Version of its module.
    pub digest: Digest,
    pub purpose: Purpose,
    /// The payment. `None` for a refused creation or a listing.
    pub payment: Option<PaymentId>,
    /// The attempt that followed.
    pub attempt: Option<AttemptId>,
    /// The module's question.
    pub context: C,
    /// Its answer. `None` if it failed.
    pub answer: Option<A>,
    /// The account that was used.
    pub chosen: Option<AccountId>,
}

/// An answer that breaks a rule: the method is omitted, and its module is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Faulty {
    /// A verdict about an account that is not a candidate.
    #[error("a verdict names an unknown candidate")]
    Unknown,
    /// Two verdicts about one candidate.
    #[error("two verdicts name the candidate {0}")]
    Repeated(AccountId),
    /// A candidate without a verdict.
    #[error("no verdict on the candidate {0}")]
    Missing(AccountId),
    /// An eligible verdict about a stale or down account.
    #[error("the candidate {0} is {1:?} and was called eligible")]
    NotOperational(AccountId, Availability),
    /// An eligible verdict although the amount is outside the account's limits.
    #[error("the amount is outside the limits of {0}, which was called eligible")]
    OutOfLimits(AccountId),
}

impl AccountCandidate {
    /// Whether an amount is within the candidate's limits. Always true without an amount.
    pub fn takes(&self, amount: Option<Minor>) -> bool {
        amount.is_none_or(|amount| {
            self.minimum.is_none_or(|least| amount >= least)
                && self.maximum.is_none_or(|most| amount <= most)
        })
    }
}

/// Checks a module's verdicts against the host's own knowledge.
///
/// # Errors
/// The first broken rule; then the whole answer is rejected.
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

/// Checks the rules for an eligible candidate.
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
