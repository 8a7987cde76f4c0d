//! What another answer to the same question changes, and sums of that.

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

/// Payments that are shown one by one where a caller does not say how many.
const EXAMPLES: usize = 20;

/// What a candidate would have decided otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Decisions that were compared.
    pub decisions: u64,
    /// Those whose eligible accounts, their order, or the reason for none differ; faults among them.
    pub differing: u64,
    /// Payments whose account stays, and the order behind it does not.
    pub reordered: u64,
    /// Money that goes elsewhere: by currency, from which account, to which.
    pub moved: BTreeMap<(Currency, AccountId, AccountId), Sum>,
    /// Payments, and creations that were refused, that would have had an account.
    pub newly_possible: u64,
    /// Payments that would have had none.
    pub newly_impossible: u64,
    /// Decisions over which the candidate failed; no such one counts as equal.
    pub faults: u64,
    /// Decisions over which the active version failed.
    pub active_faults: u64,
    /// Why payments become possible or impossible, and how the candidate failed, with the money.
    pub reasons: BTreeMap<(ReplayChange, &'static str, Option<Currency>), Sum>,
    /// The latest payments that change.
    pub examples: Examples,
    /// What the active version's calls took, as far as it was asked.
    pub active_cost: Cost,
    /// What the candidate's calls took.
    pub candidate_cost: Cost,
}

/// The latest payments that change, at most so many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examples {
    /// By how many decisions are later than theirs.
    pub latest: BTreeMap<u64, Example>,
    pub(crate) most: usize,
}

impl Default for Examples {
    fn default() -> Self {
        Self::of(EXAMPLES)
    }
}

impl Examples {
    /// None yet.
    pub(crate) const fn of(most: usize) -> Self {
        let latest = BTreeMap::new();
        Self { latest, most }
    }

    /// Adds one with the number of decisions that are later.
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

/// What becomes of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplayChange {
    /// It goes to another account.
    Moved,
    /// It has an account.
    NewlyPossible,
    /// It has none any more.
    NewlyImpossible,
    /// The candidate failed.
    Fault,
    /// A vendor is asked, or what it says is understood, otherwise.
    Otherwise,
}

impl ReplayChange {
    /// Its name in the API.
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

/// Payments with their money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many; a creation that was refused counts as one.
    pub payments: u64,
    /// Minor units. A sum of as many amounts as there can be fits.
    pub amount: u128,
}

/// A payment that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Which; none for a creation that was refused.
    pub payment: Option<PaymentId>,
    /// When it was decided.
    pub at: Time,
    pub change: ReplayChange,
    /// Minor units.
    pub amount: u64,
    /// Of what; none for a call that is about no payment that is known.
    pub currency: Option<Currency>,
    /// Where it went.
    pub from: Option<AccountId>,
    /// Where it would have gone.
    pub to: Option<AccountId>,
    /// Why, but for one that moves.
    pub reason: Option<&'static str>,
}

/// Time of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub calls: u64,
    /// What they took together.
    pub time: Duration,
}

impl Cost {
    /// Microseconds of a call, with a tenth; none where there was none.
    pub fn tenths_of_us(&self) -> Option<u64> {
        let tenths = self.time.as_nanos() / 100;
        let each = tenths.checked_div(u128::from(self.calls))?;
        u64::try_from(each).ok()
    }

    /// Makes a call.
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

/// A decision of the log that is compared.
pub(crate) struct RecordedDecision<'a> {
    /// How many are later.
    pub(crate) number: u64,
    /// Whether it is the decision that counts for its payment: it is no listing, and no later decision of the
    /// payment was seen.
    pub(crate) counts: bool,
    pub(crate) record: &'a RoutingRecord,
}

/// What a version says; the word for its failure where it fails.
pub(crate) type Said<'a> = Result<&'a RankAnswer, &'static str>;

impl Diff {
    /// Nothing compared yet; at most so many payments are to be shown one by one.
    pub(crate) fn showing(examples: usize) -> Self {
        Self {
            examples: Examples::of(examples),
            ..Self::default()
        }
    }

    /// Counts a decision.
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

    /// Counts a recorded call of a provider's module, and how a candidate makes it; the word where one failed.
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

    /// Adds what another part of the log came to.
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

/// Whether two versions say the same: the same accounts in the same order or, without any, the same reason.
/// A failure is the same as nothing.
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

/// What becomes of a payment whose vendor is spoken to otherwise, and why.
fn changed(
    active: &Conversation,
    candidate: &Conversation,
    deviation: Deviation,
) -> (ReplayChange, &'static str) {
    let why = |outcome: &CallOutcome| match outcome {
        CallOutcome::Start(Err(StartFailure::Declined(_))) => "declined",
        CallOutcome::Start(Err(StartFailure::Unavailable(_))) => "unavailable",
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

/// Accounts that stood before the one that was taken: they had failed, or were switched off meanwhile.
fn passed_over(record: &RoutingRecord) -> Vec<&AccountId> {
    let (Some(answer), Some(chosen)) = (&record.answer, &record.chosen) else {
        return Vec::new();
    };
    let accounts: Vec<_> = eligible(answer).collect();
    let place = accounts.iter().position(|account| *account == chosen);
    accounts.into_iter().take(place.unwrap_or(0)).collect()
}

/// Why there is no account.
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

/// Whether a decision is about money that goes somewhere: listings are not.
pub(crate) fn is_of_money(record: &RoutingRecord) -> bool {
    record.purpose != Purpose::Listing
}
