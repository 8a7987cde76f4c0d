//! The state machine: a payment with its attempts, and every step that can change them.
//!
//! The store loads a [`PaymentAggregate`], calls [`PaymentAggregate::step`], and writes what the [`Change`] says, all in
//! one transaction. Callback, browser return, poll and operator all end here, so none of them can
//! complete a payment twice or out of order. Nothing here waits, draws randomness or reads a clock.
//!
//! | file | holds |
//! |---|---|
//! | `open` | opening attempts and what became of a start |
//! | `claim` | taking an attempt in hand |
//! | `report` | what a vendor reports |
//! | `late` | reports of money, and of attempts that are no longer the payment's own |
//! | `query_failed` | questions without an answer, and the schedule of questions |
//! | `refund` | money that is given back: ordered, sent, asked about |
//! | `act` | what an operator does, and expiry |
//! | `review` | an operator's decision about a review, until it is carried out |
//! | `schedule` | when vendors are asked |
//! | `moves` | the legal transitions, and what goes with each |
//! | `next_action` | what is to be done next, and when |

mod act;
mod attempt_fate;
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

pub use crate::attempt::Via;
pub use act::Act;
pub use next_action::NextAction;
pub use refund::{NewRefund, RefundAnswer};
pub use review::NewDecision;
pub use schedule::QuerySchedule;

use serde::{Deserialize, Serialize};

pub use attempt_fate::AttemptFate;
use moves::StepLog;

use crate::attempt::{Attempt, AttemptState, Choice};
use crate::decline::DeclineCode;
use crate::event::{EventType, GivenBack};
use crate::id::{AccountId, AttemptId, RefundId};
use crate::money::Minor;
use crate::payment::{Payment, RoutingDecision, Settlement, Status};
use crate::provider::{PayerAction, QueryPurpose, Report};
use crate::reseller::ResellerNotAllowed;
use crate::secret::Secret;
use crate::time::Time;
use crate::work::WorkKind;

/// A payment with its attempts, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentAggregate {
    pub payment: Payment,
    /// At most [`PaymentAggregate::MAX_ATTEMPTS`].
    pub attempts: Vec<Attempt>,
}

/// Everything that can happen to a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open an attempt: created → pending.
    Open(Box<Choice>),
    /// What became of a start. `next` opens in the same step where this one ended unavailable.
    Started {
        attempt: AttemptId,
        /// Until when the caller held it, where it did: a late one leaves the hold of the task that took over.
        held: Option<Time>,
        /// What the module said, as far as the host believes it.
        result: StartResult,
        /// The next in rank, tried only where nothing can have been created here.
        next: Option<Box<Choice>>,
    },
    /// The payer answered the module's questions; the start that follows carries the answers.
    Answered {
        attempt: AttemptId,
        /// Answers by name.
        answers: Vec<(String, Secret)>,
        /// Until when the start that follows holds the attempt.
        busy_until: Time,
    },
    /// Take an attempt in hand before talking to the vendor: a compare-and-set.
    Claim {
        attempt: AttemptId,
        purpose: ClaimPurpose,
        until: Time,
    },
    /// A vendor's report, whichever way it came.
    Report {
        attempt: AttemptId,
        report: Report,
        /// How it came, for the timeline.
        via: Via,
        /// The question that it answers; none for a callback's.
        asked: Option<Query>,
    },
    /// A question to the vendor had no answer.
    QueryFailed {
        attempt: AttemptId,
        asked: Query,
        /// Whether the vendor said that it knows no such payment.
        absent: bool,
        /// Whether this was a question of the schedule, which counts.
        scheduled: bool,
    },
    /// A notice that proves nothing by itself arrived, or a report may be missing: ask at `at`.
    AskAt { attempt: AttemptId, at: Time },
    /// The payer's browser came back.
    Returned {
        attempt: AttemptId,
        /// Its raw query.
        query: Secret,
    },
    /// Order money to be given back; the vendor is called afterwards.
    Refund(Box<NewRefund>),
    /// Take a refund in hand before talking to the vendor: a compare-and-set.
    ClaimRefund {
        refund: RefundId,
        /// Whether it is sent; else it is asked about. As [`crate::refund::Refund::is_to_send`] says.
        send: bool,
        until: Time,
    },
    /// What became of a call about a refund.
    RefundAnswered {
        refund: RefundId,
        /// Until when the call held it: the answer of a call that holds it no more proves only that the
        /// vendor has the refund.
        held: Time,
        /// What the module said, as far as the host believes it.
        answer: RefundAnswer,
    },
    /// An operator's decision, or time that has passed.
    Act(Act),
    /// A worker is done with the payment, which it had claimed until then. If the worker was late, another one may have
    /// claimed the payment by now: that claim stays.
    Release { claimed_until: Time },
    /// Erase personal data: e-mail, payer, answers, returned query. Marks and money stay.
    Redact,
}

/// A query of a vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub purpose: QueryPurpose,
    /// [`Attempt::notices`] when it was asked: those that came later it does not answer.
    pub notices: u32,
    /// [`Attempt::busy_until`] of the claim that it was asked under: a claim that another task has taken since stays.
    pub held: Option<Time>,
}

/// What an attempt is claimed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimPurpose {
    /// Repeat the start of an attempt whose start was lost.
    Start,
    /// Capture what the payer approved (purpose `capture`); in review where an operator's approval waits
    /// for it.
    Capture,
    /// Make sure it cannot be paid any more (purpose `cancel`).
    Cancel,
}

/// What became of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartResult {
    /// The vendor has the payment, or questions were asked ([`PayerAction::Ask`], no reference then).
    Open {
        /// The vendor's id.
        reference: Option<String>,
        /// What the payer does next.
        action: PayerAction,
        /// Until when that can be used.
        until: Option<Time>,
    },
    /// The vendor will not take it.
    Declined(String),
    /// The account cannot be used now.
    Unavailable(String),
    /// It may exist.
    Uncertain(String),
}

/// A step that was not allowed; nothing changed but, where said, the timeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No attempt of this payment has the id.
    #[error("the payment has no such attempt")]
    NoSuchAttempt,
    /// The payment is neither created nor pending, or its time has passed.
    #[error("the payment is {}", .0.as_str())]
    NotPayable(Status),
    /// An attempt is open already.
    #[error("another attempt is open")]
    AttemptOpen(AttemptId),
    /// Another task has the attempt in hand.
    #[error("the attempt is in hand until {0}")]
    Busy(Time),
    /// The attempt's state does not allow the step.
    #[error("the attempt is {}", .0.as_str())]
    WrongState(AttemptState),
    /// All attempts are used up.
    #[error("all {} attempts are used up", PaymentAggregate::MAX_ATTEMPTS)]
    TooManyAttempts,
    /// A reseller's payment, and the reseller may not work for the merchant any more: open attempts
    /// run on, none starts.
    #[error(transparent)]
    Barred(#[from] ResellerNotAllowed),
    /// A report that cannot be: a capture without amount or currency, an empty reference.
    #[error("the provider's report is not usable: {0}")]
    BadReport(&'static str),
    /// The act does not fit the payment's status.
    #[error("the payment is {}", .0.as_str())]
    WrongStatus(Status),
    /// The act needs the vendor's word first: close this attempt, then act again.
    #[error("an attempt has to be closed first")]
    VendorFirst(AttemptId),
    /// Another decision about the review waits for the vendor.
    #[error(
        "another decision waits for the provider; an approval by an admin with \"vouch\" replaces it"
    )]
    DecisionWaits,
    /// Nothing is captured or authorised that an approval could complete with.
    #[error(
        "the provider holds no captured money and no authorisation of it; to complete it all the same \
         an admin approves with \"vouch\""
    )]
    NeedsVouch,
    /// The account, or its module, gives back no money of payments by the method.
    #[error("the provider account cannot give this payment's money back")]
    CannotRefund,
    /// The vendor takes no refund so long after the capture.
    #[error("the provider takes refunds only within {days} days after the capture")]
    RefundTooLate { days: u32 },
    /// The vendor, or the host, takes no more refunds of one payment.
    #[error("the payment has as many refunds as the provider takes of one")]
    TooManyRefunds,
    /// What was received is of another currency than the invoice: an operator decides.
    #[error("what was received is not of the payment's currency: an operator has to give it back")]
    OtherCurrency,
    /// More than can be given back.
    #[error("only {left} can still be given back")]
    MoreThanLeft {
        /// How much can, minor units.
        left: Minor,
    },
    /// The vendor gives back the whole or nothing.
    #[error("the provider gives back only all that was received, {received}, at once")]
    WholeOnly {
        /// What was received, minor units.
        received: Minor,
    },
    /// No refund of this payment has the id, or it was not ordered here.
    #[error("the payment has no such refund")]
    NoSuchRefund,
    /// The refund has ended, or it is to be sent where it was to be asked about, or the reverse.
    #[error("the refund is not to be called about so")]
    WrongRefund,
}

/// A line of a payment's timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    pub at: Time,
    pub from: Status,
    /// To where; the same as `from` for a report that changed no status.
    pub to: Status,
    /// The settlement after it.
    pub settlement: Settlement,
    /// Why: `callback: captured at sandbox-test`.
    pub cause: String,
    /// False for what was not allowed, and so changed nothing.
    pub applied: bool,
}

/// An event to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEvent {
    pub kind: EventType,
    /// The payment's status then.
    pub status: Status,
    /// Its settlement then.
    pub settlement: Settlement,
    /// The refund that succeeded.
    pub refund: Option<GivenBack>,
    /// Why the attempt failed.
    pub decline: Option<DeclineCode>,
}

/// A line to be put on the work list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWork {
    pub kind: WorkKind,
    pub attempt: AttemptId,
    pub account: AccountId,
    pub amount: Minor,
    pub currency: String,
    /// A sentence for the operator.
    pub detail: String,
}

/// What a step did, for the store to write beside the aggregate itself. Everything is empty where
/// nothing changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Lines of the timeline, in order, at most a handful.
    pub transitions: Vec<Transition>,
    /// Events to tell, each of the payment as it stood when it was pushed.
    pub events: Vec<NewEvent>,
    /// Lines for the work list. An open line of the same kind and attempt is replaced, not doubled.
    pub work: Vec<NewWork>,
    /// Attempts whose open work the step itself settled (approved late money); before `work`.
    pub work_done: Vec<AttemptId>,
    /// Lines that were settled by giving money back, one of each kind and attempt; before `work`.
    pub work_closed: Vec<(AttemptId, WorkKind)>,
    /// Routing decisions to keep.
    pub decisions: Vec<RoutingDecision>,
    /// References that became known, to be indexed by (account, reference).
    pub references: Vec<(AttemptId, String)>,
    /// References by which statements of the vendor name an attempt, to be found by alone.
    pub search_references: Vec<(AttemptId, String)>,
    /// Attempts whose start was answered, or that ended.
    pub resolved: Vec<(AttemptId, AttemptFate)>,
    /// Whether the payment or any attempt differs from what was loaded.
    pub dirty: bool,
}

/// What a step was for, answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Done; see the aggregate.
    Done,
    /// This attempt was opened, by `Open` or as `next`.
    Opened(AttemptId),
    /// The report or act was allowed to change nothing; a line of the timeline may say so.
    Nothing,
}

impl PaymentAggregate {
    /// Attempts of any kind that one payment can have (decisions, "created ↔ pending").
    pub const MAX_ATTEMPTS: usize = 20;
    /// Declines that make a payment `failed`.
    pub const MAX_DECLINES: u8 = 5;
    /// References kept of one attempt: the vendor may rename it now and then, not for ever.
    pub const MAX_REFERENCES: usize = 8;

    /// Answers of the payer kept of one attempt; modules ask far fewer questions.
    pub const MAX_ANSWERS: usize = 32;

    /// A payment without attempts.
    pub const fn new(payment: Payment) -> Self {
        Self {
            payment,
            attempts: Vec::new(),
        }
    }

    /// Does a step, or says why not.
    ///
    /// # Errors
    /// A [`Refusal`]; the aggregate is as it was. (What a vendor reported out of order is no error:
    /// it answers [`StepOutcome::Nothing`] with a line for the timeline.)
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
            Step::Act(act) => self.act(act, &mut log),
            Step::Release { claimed_until } => Ok(self.release(claimed_until)),
            Step::Redact => Ok(self.redact()),
        };
        if done.is_ok() {
            // Whatever brought what a decision waited for carries it out.
            self.pursue(&mut log);
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

    pub fn attempt(&self, id: AttemptId) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.id == id)
    }

    /// The one attempt on which money can still move as the payment's own.
    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.state.is_open())
    }
}
