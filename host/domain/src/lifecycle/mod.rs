//! The state machine: a payment with its attempts, and every step that can change them.
//!
//! The store loads a [`PaymentAggregate`], calls [`PaymentAggregate::step`] and writes the [`Change`], all in one
//! transaction. Callbacks, browser returns, queries and operators all use these steps, so that none can complete a
//! payment a second time or out of order. Nothing here waits, draws randomness or reads a clock.
//!
//! | file | holds |
//! |---|---|
//! | `attempt_moves` | transitions of an attempt |
//! | `attempt_fate` | outcomes of attempts, for comparing module versions |
//! | `open` | opening attempts, results of starts |
//! | `claim` | claiming attempts |
//! | `report` | reports of providers |
//! | `late` | reports of captured money, and of attempts that are no longer the payment's own |
//! | `query_failed` | unanswered queries |
//! | `refund` | refunds: ordered, sent, queried |
//! | `act` | acts of operators, and expiry |
//! | `review` | an operator's decision about a review, until it is carried out |
//! | `books` | movements of the ledger, and events about money |
//! | `work_items` | items of the operators' work list |
//! | `schedule` | the schedule of queries |
//! | `moves` | the legal transitions and their consequences |
//! | `next_action` | the next due action and its time |

mod act;
mod attempt_fate;
mod attempt_moves;
mod books;
mod claim;
mod late;
mod moves;
mod next_action;
mod open;
mod query_failed;
mod refund;
mod report;
mod review;
mod schedule;
#[cfg(test)]
mod tests;
mod work_items;

pub use crate::attempt::Via;
pub use act::{Act, ApiCaller};
pub use books::NewCorrection;
pub use next_action::NextAction;
pub use refund::{NewRefund, RefundAnswer};
pub use review::NewDecision;
pub use schedule::QuerySchedule;

use serde::{Deserialize, Serialize};

pub use attempt_fate::AttemptFate;
use moves::StepLog;

use crate::attempt::{Attempt, AttemptState, Choice};
use crate::event::{EventSubject, EventType};
use crate::id::{AccountId, AttemptId, RefundId};
use crate::money::Minor;
use crate::movement::{Movement, Source};
use crate::payment::{Payment, RoutingDecision, Settlement, Status};
use crate::provider::{PayerAction, QueryPurpose, RefundState, Report};
use crate::reseller::ResellerNotAllowed;
use crate::secret::Secret;
use crate::time::Time;
use crate::work::WorkKey;

/// A payment with its attempts, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentAggregate {
    pub payment: Payment,
    /// At most [`PaymentAggregate::MAX_ATTEMPTS`].
    pub attempts: Vec<Attempt>,
}

/// Everything that can happen to a payment.
#[expect(
    clippy::large_enum_variant,
    reason = "most steps are reports, which would only be boxed to be unboxed"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Opens an attempt; a created payment becomes pending.
    Open(Box<Choice>),
    /// Result of a start. `next` is opened in the same step if this start ended unavailable.
    Started {
        attempt: AttemptId,
        /// End of the claim for the start; a late result leaves another task's claim in place. `None` if
        /// unclaimed.
        held: Option<Time>,
        /// Result, after the host's checks.
        result: StartResult,
        /// The next account in rank, tried only if nothing can have been created at this one.
        next: Option<Box<Choice>>,
    },
    /// The payer answered the module's questions; the start that follows contains the answers.
    Answered {
        attempt: AttemptId,
        /// Answers by name.
        answers: Vec<(String, Secret)>,
        /// End of the claim for the start that follows.
        busy_until: Time,
    },
    /// Claims an attempt before a call to the provider: a compare-and-set.
    Claim {
        attempt: AttemptId,
        purpose: ClaimPurpose,
        until: Time,
    },
    /// A provider's report.
    Report {
        attempt: AttemptId,
        report: Report,
        /// How it was obtained, for the timeline.
        via: Via,
        /// The query that it answers. `None` for a callback.
        asked: Option<Query>,
    },
    /// A query to the provider failed.
    QueryFailed {
        attempt: AttemptId,
        asked: Query,
        /// Whether the provider answered that it knows no such payment.
        absent: bool,
        /// Whether it was a scheduled query, which is counted.
        scheduled: bool,
    },
    /// Plans a query at `at`, after a notification that proves nothing, or because a report may be missing.
    AskAt { attempt: AttemptId, at: Time },
    /// The payer's browser returned.
    Returned {
        attempt: AttemptId,
        /// Its raw query.
        query: Secret,
    },
    /// Orders a refund; the provider is called afterwards.
    Refund(Box<NewRefund>),
    /// Claims a refund before a call to the provider: a compare-and-set.
    ClaimRefund {
        refund: RefundId,
        /// Whether the call sends the refund; otherwise it queries it. Must equal
        /// [`crate::refund::Refund::is_to_send`].
        send: bool,
        until: Time,
    },
    /// Result of a call about a refund.
    RefundAnswered {
        refund: RefundId,
        /// End of the claim for the call. After that claim, a result proves only that the provider has the refund.
        held: Time,
        /// Result, after the host's checks.
        answer: RefundAnswer,
    },
    /// An operator settles a refund whose outcome stayed unknown.
    SettleRefund {
        refund: RefundId,
        /// Part that was made. `None`: all of it. Zero: it was not made.
        made: Option<Minor>,
    },
    /// An operator's correction of facts that no provider reports.
    Correct(Box<NewCorrection>),
    /// An operator's decision, or the passing of time.
    Act(Act),
    /// Ends a worker's claim on the payment, which lasted until `claimed_until`. If another worker has claimed the
    /// payment since, that claim stays.
    Release { claimed_until: Time },
    /// Erases personal data: e-mail address, payer, answers, returned query. Marks and money stay.
    Redact,
}

impl Step {
    /// Whether it can open an attempt.
    pub const fn opens_attempt(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Started { next: Some(_), .. })
    }

    /// Keeps the step from opening an attempt of a reseller's payment: the result of a start is recorded without
    /// the next account.
    ///
    /// # Errors
    /// [`Refusal::Barred`] if the step does nothing else.
    pub fn bar(&mut self, barred: ResellerNotAllowed) -> Result<(), Refusal> {
        match self {
            Self::Started { next, .. } => *next = None,
            _ => return Err(Refusal::Barred(barred)),
        }
        Ok(())
    }
}

/// A query to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub purpose: QueryPurpose,
    /// [`Queries::notices`](crate::attempt::Queries::notices) at the time of the query: it does not answer later
    /// ones.
    pub notices: u32,
    /// [`Claim::busy_until`](crate::attempt::Claim::busy_until) of the claim for the query; a later claim of
    /// another task stays.
    pub held: Option<Time>,
}

/// Purpose of a claim on an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimPurpose {
    /// Repeat a start whose outcome was lost.
    Start,
    /// Capture the payer's authorization (purpose `capture`); in review, if an operator's approval waits for it.
    Capture,
    /// Make sure that it can no longer be paid (purpose `cancel`).
    Cancel,
}

/// Result of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartResult {
    /// The provider has the payment, or the module asks questions ([`PayerAction::Ask`], then without a
    /// reference).
    Open {
        /// The provider's id.
        reference: Option<String>,
        /// The payer's next action.
        action: PayerAction,
        /// Time until which it can be used.
        until: Option<Time>,
    },
    /// The provider declined.
    Declined(String),
    /// The account cannot be used now.
    Unavailable(String),
    /// The payment may exist.
    Uncertain(String),
}

/// Refusal of a step; it changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the payment has no such attempt")]
    NoSuchAttempt,
    /// The payment's status does not allow a start, or the payment has expired.
    #[error("the payment is {}", .0.as_str())]
    NotPayable(Status),
    /// An attempt is already open.
    #[error("another attempt is open")]
    AttemptOpen(AttemptId),
    /// Another task has claimed the attempt.
    #[error("the attempt is in hand until {0}")]
    Busy(Time),
    /// The attempt's state does not allow the step.
    #[error("the attempt is {}", .0.as_str())]
    WrongState(AttemptState),
    /// The payment has the maximum number of attempts.
    #[error("all {} attempts are used up", PaymentAggregate::MAX_ATTEMPTS)]
    TooManyAttempts,
    /// The reseller may no longer work for the merchant: open attempts continue, no new one starts.
    #[error(transparent)]
    Barred(#[from] ResellerNotAllowed),
    /// An impossible report, such as a capture without an amount or currency, or an empty reference.
    #[error("the provider's report is not usable: {0}")]
    BadReport(&'static str),
    /// The act does not fit the payment's status.
    #[error("the payment is {}", .0.as_str())]
    WrongStatus(Status),
    /// This attempt must first be closed at the provider.
    #[error("an attempt has to be closed first")]
    ProviderFirst(AttemptId),
    /// Another decision about the review waits for the provider.
    #[error(
        "another decision waits for the provider; an approval by an admin with \"vouch\" replaces it"
    )]
    DecisionWaits,
    /// No money is captured or authorized with which an approval could complete.
    #[error(
        "the provider holds no captured money and no authorisation of it; to complete it all the same \
         an admin approves with \"vouch\""
    )]
    NeedsVouch,
    /// The account, or its module, cannot refund payments by the method.
    #[error("the provider account cannot give this payment's money back")]
    CannotRefund,
    /// The provider accepts no refund this long after the capture.
    #[error("the provider takes refunds only within {days} days after the capture")]
    RefundTooLate { days: u32 },
    /// The provider, or the host, accepts no more refunds of one payment.
    #[error("the payment has as many refunds as the provider takes of one")]
    TooManyRefunds,
    /// Pending refunds or open disputes about the money prevent an approval.
    #[error(
        "a refund is pending or a dispute is open; list their ids in \"despite\" to approve all the same"
    )]
    NeedsDespite(Vec<String>),
    /// The available money is neither the invoice amount nor the amount that the operator accepts.
    #[error(
        "the payment has {amount} {currency}; name exactly that in \"accept\" to complete it with less"
    )]
    NotEnough { amount: Minor, currency: String },
    /// The amount to accept is at least the invoice's.
    #[error("is for amounts below the invoice's, or in another currency")]
    AcceptsTooMuch,
    #[error("the authorization has ended at the provider")]
    AuthorizationEnded,
    /// A refund's outcome can be settled from one day after its order.
    #[error("a refund can be settled 24 hours after its order at the earliest")]
    SettledTooEarly,
    /// The refund already has another outcome.
    #[error("the refund has {} already", .0.as_str())]
    RefundEnded(RefundState),
    /// The money received is not in the invoice's currency: an operator decides.
    #[error("what was received is not of the payment's currency: an operator has to give it back")]
    OtherCurrency,
    /// The amount exceeds the refundable amount.
    #[error("only {left} can still be given back")]
    MoreThanLeft {
        /// Refundable amount, in minor units.
        left: Minor,
    },
    /// The provider refunds the whole amount or nothing.
    #[error("the provider gives back only all that was received, {received}, at once")]
    WholeOnly {
        /// Amount received, in minor units.
        received: Minor,
    },
    /// The provider refunds whole units of the currency only.
    #[error("the provider gives {currency} back in whole units only")]
    WholeUnitsOnly {
        /// Code of the currency received.
        currency: String,
    },
    /// No refund of this payment has the id, or it was not ordered here.
    #[error("the payment has no such refund")]
    NoSuchRefund,
    /// The refund has ended, or it must be sent instead of queried, or the reverse.
    #[error("the refund is not to be called about so")]
    WrongRefund,
}

/// An entry of a payment's timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    pub at: Time,
    pub from: Status,
    /// New status; the same as `from` for a report that did not change it.
    pub to: Status,
    /// Settlement after the step.
    pub settlement: Settlement,
    /// Cause, such as `callback: captured at sandbox-test`.
    pub cause: String,
    /// False if the transition was not allowed, and so changed nothing.
    pub applied: bool,
}

/// An event for the merchant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    pub kind: EventType,
    /// The payment's status at that time.
    pub status: Status,
    /// Its settlement at that time.
    pub settlement: Settlement,
    /// Subject in addition to the payment.
    pub subject: Option<EventSubject>,
}

/// An item for the work list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWork {
    pub key: WorkKey,
    pub account: AccountId,
    /// Amount owed or disputed, in minor units.
    pub amount: Minor,
    pub currency: String,
    /// Amount that the attempt received, in minor units.
    pub received: Minor,
    /// A sentence for the operator.
    pub detail: String,
    pub deadline: Option<Time>,
}

/// Result of a step, for the store to write in addition to the aggregate. Empty if nothing changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Timeline entries, in order, at most a handful.
    pub transitions: Vec<Transition>,
    /// Events, each with the payment's state at the time it was added.
    pub events: Vec<NewEvent>,
    /// Movements of money, in order, with new ids.
    pub movements: Vec<Movement>,
    /// Items for the work list. An open item with the same key is replaced.
    pub work: Vec<NewWork>,
    /// Items that are settled.
    pub work_closed: Vec<WorkKey>,
    /// Routing decisions to store.
    pub decisions: Vec<RoutingDecision>,
    /// New references, to be indexed by (account, reference).
    pub references: Vec<(AttemptId, String)>,
    /// References by which the provider's statements name an attempt, to be found without the account.
    pub search_references: Vec<(AttemptId, String)>,
    /// Attempts whose start was answered, or that ended.
    pub resolved: Vec<(AttemptId, AttemptFate)>,
    /// Whether the payment or an attempt differs from the loaded state.
    pub dirty: bool,
}

impl Change {
    /// Adds the changes of a later step of the same transaction.
    pub fn append(&mut self, later: Self) {
        let Self {
            transitions,
            events,
            movements,
            work,
            work_closed,
            decisions,
            references,
            search_references,
            resolved,
            dirty,
        } = later;
        self.transitions.extend(transitions);
        self.events.extend(events);
        self.movements.extend(movements);
        // An item that the later step closes is not opened, and one that it opens is not closed.
        self.work.retain(|item| !work_closed.contains(&item.key));
        self.work_closed
            .retain(|key| !work.iter().any(|item| item.key == *key));
        self.work
            .retain(|item| !work.iter().any(|newer| newer.key == item.key));
        self.work.extend(work);
        self.work_closed.extend(work_closed);
        self.decisions.extend(decisions);
        self.references.extend(references);
        self.search_references.extend(search_references);
        self.resolved.extend(resolved);
        self.dirty |= dirty;
    }
}

/// How the gateway learned of a step's movements.
const fn source(step: &Step) -> Source {
    match step {
        Step::Report { via, .. } => match via {
            Via::Callback => Source::Notification,
            Via::Return | Via::Query => Source::Query,
        },
        Step::Started { .. } | Step::RefundAnswered { .. } => Source::Answer,
        Step::Refund(_) | Step::SettleRefund { .. } | Step::Correct(_) | Step::Act(_) => {
            Source::Operator
        }
        _ => Source::Query,
    }
}

/// Outcome of an allowed step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The step was applied; see the aggregate.
    Done,
    /// This attempt was opened, by `Open` or as `next`.
    Opened(AttemptId),
    /// The step changed nothing, except for a possible timeline entry.
    Nothing,
}

impl PaymentAggregate {
    /// Maximum number of attempts of a payment, of any kind (decisions, "created ↔ pending").
    pub const MAX_ATTEMPTS: usize = 20;
    /// Maximum number of refunds of an attempt that have not failed; more than any merchant needs.
    pub const MAX_REFUNDS: usize = 64;
    /// Number of declines that fail a payment.
    pub const MAX_DECLINES: u8 = 5;
    /// Maximum number of references of an attempt: a provider may rename it a few times.
    pub const MAX_REFERENCES: usize = 8;

    /// Maximum number of answers of an attempt's payer; modules ask far fewer questions.
    pub const MAX_ANSWERS: usize = 32;

    /// A payment without attempts.
    pub const fn new(payment: Payment) -> Self {
        Self {
            payment,
            attempts: Vec::new(),
        }
    }

    /// Applies a step.
    ///
    /// # Errors
    /// A [`Refusal`]; the aggregate is unchanged. (A report out of order is not an error: it returns
    /// [`StepOutcome::Nothing`] with a timeline entry.)
    pub fn step(
        &mut self,
        step: Step,
        now: Time,
        schedule: &QuerySchedule,
    ) -> Result<(StepOutcome, Change), Refusal> {
        let mut change = Change::default();
        let before = self.clone();
        let mut log = StepLog {
            now,
            source: source(&step),
            cause: String::new(),
            schedule,
            change: &mut change,
        };
        let done = match step {
            Step::Open(choice) => self.open(*choice, &mut log),
            Step::Started {
                attempt,
                held,
                result,
                next,
            } => self.started((attempt, held), result, next.map(|next| *next), &mut log),
            Step::Answered {
                attempt,
                answers,
                busy_until,
            } => self.answered(attempt, answers, busy_until, &log),
            Step::Claim {
                attempt,
                purpose,
                until,
            } => self.claim(attempt, purpose, until, now),
            Step::Report {
                attempt,
                report,
                via,
                asked,
            } => self.apply_report(attempt, report, via, asked, &mut log),
            Step::QueryFailed {
                attempt,
                asked,
                absent,
                scheduled,
            } => self.query_failed(attempt, asked, absent, scheduled, &mut log),
            Step::AskAt { attempt, at } => self.ask_at(attempt, at),
            Step::Returned { attempt, query } => self.returned(attempt, query),
            Step::Refund(new) => self.order_refund(*new, &mut log),
            Step::ClaimRefund {
                refund,
                send,
                until,
            } => self.claim_refund(refund, send, until, now),
            Step::RefundAnswered {
                refund,
                held,
                answer,
            } => self.refund_answered(refund, held, answer, &mut log),
            Step::SettleRefund { refund, made } => self.settle_refund(refund, made, &mut log),
            Step::Correct(new) => self.correct(*new, &mut log),
            Step::Act(act) => self.act(act, &mut log),
            Step::Release { claimed_until } => Ok(self.release(claimed_until)),
            Step::Redact => Ok(self.redact()),
        };
        if done.is_ok() {
            // Any step may fulfill the conditions of a waiting decision, which is then carried out.
            self.pursue(&mut log);
            self.confirm_when_possible(&mut log);
            self.report_money(&mut log);
            self.credit_platform_fee(&mut log);
            self.update_work(&before, &mut log);
            self.payment.refunded = self.refunded_amount();
        }
        match done {
            Ok(outcome) => {
                change.dirty = *self != before;
                let resolved = self.attempts.iter().flat_map(|now| {
                    let resolved = attempt_fate::resolved(before.attempt(now.id), now);
                    resolved.map(|resolution| (now.id, resolution))
                });
                change.resolved = resolved.collect();
                Ok((outcome, change))
            }
            Err(refusal) => {
                *self = before;
                Err(refusal)
            }
        }
    }

    /// The attempt with an id.
    pub fn attempt(&self, id: AttemptId) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.id == id)
    }

    /// The only attempt on which money can still move as the payment's own.
    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.is_open())
    }
}
