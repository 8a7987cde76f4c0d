//! Compares two answers to the same question, and sums up the differences.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kassette_domain::conversation::{CallOutcome, Conversation, Deviation};
use kassette_domain::id::{AccountId, PaymentId};
use kassette_domain::money::Currency;
use kassette_domain::payment::Purpose;
use kassette_domain::provider::StartFailure;
use kassette_domain::routing::{Ground, RankAnswer, RoutingRecord};
use kassette_domain::time::Time;

use crate::routing::{eligible, ground};

/// Default for the maximum number of examples.
const EXAMPLES: usize = 20;

/// The differences between a candidate's decisions and the active version's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Number of decisions that were compared.
    pub decisions: u64,
    /// Number of decisions whose eligible accounts, their order, or the reason for having none differ.
    /// Includes failures.
    pub differing: u64,
    /// Payments that keep their account while the order of the others changes.
    pub reordered: u64,
    /// Money that would go to another account, by currency, old account and new account.
    pub moved: BTreeMap<(Currency, AccountId, AccountId), Sum>,
    /// Payments, and refused creations, that would have an account with the candidate.
    pub newly_possible: u64,
    /// Payments that would have no account with the candidate.
    pub newly_impossible: u64,
    /// Decisions for which the candidate failed. They always count as differing.
    pub faults: u64,
    /// Decisions for which the active version failed.
    pub active_faults: u64,
    /// Reasons why payments become possible or impossible and why the candidate failed, with the money.
    pub reasons: BTreeMap<(ReplayChange, &'static str, Option<Currency>), Sum>,
    pub examples: Examples,
    /// Time of the active version's calls, if it was called.
    pub active_cost: Cost,
    /// Time of the candidate's calls.
    pub candidate_cost: Cost,
}

/// The latest payments that change, up to a maximum number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examples {
    /// By the number of decisions that are later than the example's.
    pub latest: BTreeMap<u64, Example>,
    pub(crate) most: usize,
}

impl Default for Examples {
    fn default() -> Self {
        Self::up_to(EXAMPLES)
    }
}

impl Examples {
    pub(crate) const fn up_to(most: usize) -> Self {
        let latest = BTreeMap::new();
        Self { latest, most }
    }

    /// Adds an example, with the number of later decisions.
    fn insert(&mut self, number: u64, example: Example) {
        self.latest.insert(number, example);
        self.shorten();
    }

    fn shorten(&mut self) {
        while self.latest.len() > self.most {
            self.latest.pop_last();
        }
    }
}

/// Effect on a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplayChange {
    /// The payment goes to another account.
    Moved,
    /// The payment now has an account.
    NewlyPossible,
    /// The payment no longer has an account.
    NewlyImpossible,
    Fault,
    /// The requests to the provider, or the interpretation of its answers, differ.
    Otherwise,
}

impl ReplayChange {
    /// Name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Moved => "moved",
            Self::NewlyPossible => "newly_possible",
            Self::NewlyImpossible => "newly_impossible",
            Self::Fault => "fault",
            Self::Otherwise => "otherwise",
        }
    }
}

/// Number of payments and their total amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of payments. A refused creation counts as one.
    pub payments: u64,
    /// In minor units. Cannot overflow with the maximum number of amounts.
    pub amount: u128,
}

/// A payment that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// `None` for a refused creation.
    pub payment: Option<PaymentId>,
    pub at: Time,
    pub change: ReplayChange,
    /// In minor units.
    pub amount: u64,
    /// `None` for a call about no known payment.
    pub currency: Option<Currency>,
    /// Account with the active version.
    pub from: Option<AccountId>,
    /// Account with the candidate.
    pub to: Option<AccountId>,
    /// The reason. `None` for a payment that moves.
    pub reason: Option<&'static str>,
}

/// Number of calls and their duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub calls: u64,
    pub time: Duration,
}

impl Cost {
    /// Average duration of a call in tenths of a microsecond. `None` without calls.
    pub fn tenths_of_us(&self) -> Option<u64> {
        let tenths = self.time.as_nanos() / 100;
        let each = tenths.checked_div(u128::from(self.calls))?;
        u64::try_from(each).ok()
    }

    /// Performs a call and measures it.
    pub(super) fn take<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let answer = call();
        self.calls += 1;
        self.time += began.elapsed();
        answer
    }

    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.time += other.time;
    }
}

/// A recorded decision to compare.
pub(crate) struct RecordedDecision<'a> {
    /// Number of later decisions.
    pub(crate) number: u64,
    /// Whether this decision counts for its payment: it is not a listing, and no later decision of the
    /// payment was read.
    pub(crate) counts: bool,
    pub(crate) record: &'a RoutingRecord,
}

/// Answer of a version, or the label of its failure.
pub(crate) type Said<'a> = Result<&'a RankAnswer, &'static str>;

impl Diff {
    /// Creates an empty result with this maximum number of examples.
    pub(crate) fn showing(examples: usize) -> Self {
        Self {
            examples: Examples::up_to(examples),
            ..Self::default()
        }
    }

    /// Compares one decision.
    pub(crate) fn count(
        &mut self,
        recorded: &RecordedDecision<'_>,
        active: Said<'_>,
        candidate: Said<'_>,
    ) {
        self.decisions += 1;
        self.active_faults += u64::from(active.is_err());
        self.faults += u64::from(candidate.is_err());
        if is_same(active, candidate) {
            return;
        }
        self.differing += 1;
        if !recorded.counts {
            return;
        }
        let record = recorded.record;
        let passed = passed_over(record);
        let taken = |said: Said<'_>| {
            let accounts = said.ok().into_iter().flat_map(eligible);
            let mut left = accounts.filter(|account| !passed.contains(account));
            left.next().cloned()
        };
        let (from, to) = (taken(active), taken(candidate));
        let (change, reason) = match (&from, &to, candidate) {
            (_, _, Err(fault)) => (ReplayChange::Fault, Some(fault)),
            (Some(from), Some(to), _) if from == to => {
                self.reordered += 1;
                return;
            }
            (Some(_), Some(_), _) => (ReplayChange::Moved, None),
            (None, Some(_), _) => (ReplayChange::NewlyPossible, Some(reason(active))),
            (Some(_), None, _) => (ReplayChange::NewlyImpossible, Some(reason(candidate))),
            (None, None, _) => return,
        };
        let (amount, currency) = (
            record.context.amount.map_or(0, |amount| amount.0),
            record.context.currency,
        );
        match change {
            ReplayChange::NewlyPossible => self.newly_possible += 1,
            ReplayChange::NewlyImpossible => self.newly_impossible += 1,
            ReplayChange::Moved | ReplayChange::Fault | ReplayChange::Otherwise => {}
        }
        let sum = match (reason, &from, &to) {
            (Some(reason), ..) => {
                let key = (change, reason, Some(currency));
                Some(self.reasons.entry(key).or_default())
            }
            (None, Some(from), Some(to)) => {
                let key = (currency, from.clone(), to.clone());
                Some(self.moved.entry(key).or_default())
            }
            _ => None,
        };
        if let Some(sum) = sum {
            sum.add(Sum {
                payments: 1,
                amount: amount.into(),
            });
        }
        let example = Example {
            payment: record.payment,
            at: record.at,
            change,
            amount,
            currency: Some(currency),
            from,
            to,
            reason,
        };
        self.examples.insert(recorded.number, example);
    }

    /// Compares a recorded call of a provider module with the candidate's version of it. The errors are
    /// labels of failures.
    pub(crate) fn count_call(
        &mut self,
        number: u64,
        active: Result<&Conversation, &'static str>,
        candidate: Result<&Conversation, &'static str>,
    ) {
        self.decisions += 1;
        let has_failed = |said: Result<&Conversation, _>| {
            said.is_err() || said.is_ok_and(|it| matches!(it.outcome, CallOutcome::Failed(_)))
        };
        self.active_faults += u64::from(has_failed(active));
        self.faults += u64::from(candidate.is_err());
        let (change, reason) = match (active, candidate) {
            (_, Err(fault)) => (ReplayChange::Fault, fault),
            (Ok(active), Ok(candidate)) => match active.deviation(candidate) {
                None => return,
                Some(deviation) => changed(active, candidate, deviation),
            },
            (Err(_), Ok(_)) => (ReplayChange::Otherwise, Deviation::Failure.as_str()),
        };
        self.differing += 1;
        match change {
            ReplayChange::NewlyPossible => self.newly_possible += 1,
            ReplayChange::NewlyImpossible => self.newly_impossible += 1,
            ReplayChange::Moved | ReplayChange::Fault | ReplayChange::Otherwise => {}
        }
        let Some(of) = active.ok().or(candidate.ok()) else {
            return;
        };
        let due = of.call.due();
        let (amount, currency) = (
            due.map_or(0, |due| due.amount.0),
            due.map(|due| due.currency),
        );
        let sum = self.reasons.entry((change, reason, currency)).or_default();
        sum.add(Sum {
            payments: 1,
            amount: amount.into(),
        });
        let account = || Some(of.account.id.clone());
        let example = Example {
            payment: of.payment,
            at: of.at(),
            change,
            amount,
            currency,
            from: (change != ReplayChange::NewlyPossible)
                .then(account)
                .flatten(),
            to: (change != ReplayChange::NewlyImpossible)
                .then(account)
                .flatten(),
            reason: Some(reason),
        };
        self.examples.insert(number, example);
    }

    /// Adds the result of another part of the log.
    pub(crate) fn add(&mut self, other: Self) {
        self.decisions += other.decisions;
        self.differing += other.differing;
        self.reordered += other.reordered;
        self.newly_possible += other.newly_possible;
        self.newly_impossible += other.newly_impossible;
        self.faults += other.faults;
        self.active_faults += other.active_faults;
        for (key, sum) in other.moved {
            self.moved.entry(key).or_default().add(sum);
        }
        for (key, sum) in other.reasons {
            self.reasons.entry(key).or_default().add(sum);
        }
        self.active_cost.add(other.active_cost);
        self.candidate_cost.add(other.candidate_cost);
        self.examples.latest.extend(other.examples.latest);
        self.examples.shorten();
    }
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.payments += other.payments;
        self.amount += other.amount;
    }
}

/// Whether two versions give the same answer: the same accounts in the same order or, without accounts, the
/// same reason. A failure never equals anything.
pub(crate) fn is_same(active: Said<'_>, candidate: Said<'_>) -> bool {
    let (Ok(active), Ok(candidate)) = (active, candidate) else {
        return false;
    };
    let is_none = |answer: &RankAnswer| eligible(answer).next().is_none();
    match (is_none(active), is_none(candidate)) {
        (true, true) => ground(active) == ground(candidate),
        _ => eligible(active).eq(eligible(candidate)),
    }
}

/// Effect on a payment whose provider calls differ, and the reason.
fn changed(
    active: &Conversation,
    candidate: &Conversation,
    deviation: Deviation,
) -> (ReplayChange, &'static str) {
    let why = |outcome: &CallOutcome| match outcome {
        CallOutcome::Start(Err(StartFailure::Declined(_))) => "declined",
        CallOutcome::Start(Err(StartFailure::Unavailable(_))) => "unavailable",
        CallOutcome::Start(Err(StartFailure::NotActivated(_))) => "not activated",
        CallOutcome::Start(Err(StartFailure::PageRefused { .. })) => "page refused",
        CallOutcome::Start(Err(StartFailure::Uncertain(_))) => "uncertain",
        _ => deviation.as_str(),
    };
    match (&active.outcome, &candidate.outcome) {
        (before, after) if before.is_open() == after.is_open() => {
            (ReplayChange::Otherwise, deviation.as_str())
        }
        (_, after) if after.is_open() => (ReplayChange::NewlyPossible, why(&active.outcome)),
        (_, after) => (ReplayChange::NewlyImpossible, why(after)),
    }
}

/// Accounts that ranked before the chosen one: they had failed or were switched off in the meantime.
fn passed_over(record: &RoutingRecord) -> Vec<&AccountId> {
    let (Some(answer), Some(chosen)) = (&record.answer, &record.chosen) else {
        return Vec::new();
    };
    let accounts: Vec<_> = eligible(answer).collect();
    let place = accounts.iter().position(|account| *account == chosen);
    accounts.into_iter().take(place.unwrap_or(0)).collect()
}

/// Reason why there is no account.
fn reason(said: Said<'_>) -> &'static str {
    match said.map(ground) {
        Err(fault) => fault,
        Ok(Ground::Currency) => "currency",
        Ok(Ground::Amount) => "amount",
        Ok(Ground::Country) => "country",
        Ok(Ground::Payer) => "payer",
        Ok(Ground::Health) => "health",
        Ok(Ground::Policy) => "policy",
        Ok(Ground::Other) => "other",
    }
}

/// Whether a decision directs money to an account. Listings do not.
pub(crate) fn is_of_money(record: &RoutingRecord) -> bool {
    record.purpose != Purpose::Listing
}
