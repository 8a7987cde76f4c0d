//! Storage of Kassette: traits of whole atomic operations in terms of the domain, implemented with sled and
//! PostgreSQL.
//!
//! Each call is one atomic operation: when it returns, its whole effect (record, indexes, idempotency, outbox
//! rows, timeline, audit) is on disk, or none of it is. A read shows only data that would survive a crash. A
//! call that reads much does so in parts, between which other calls run. The rules are in the domain: a store
//! loads, calls the pure function, and saves. All implementations run the same [`suite`].
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bell;
mod cluster;
mod connects;
pub mod copy;
mod deliveries;
mod mark;
mod modules;
mod movements;
mod newest;
mod nonces;
mod payment_steps;
pub mod postgres;
pub mod report;
mod resellers;
mod retention;
mod routing_log;
mod rows;
pub mod sled;
pub mod suite;
mod trials;

pub use crate::cluster::{Cluster, ModulesInfo, NodeInfo, NodeShare, NodeStatus, Task};
pub use crate::connects::{CodeIssued, CodeUsed, ConnectExchange, Connects, Exchanged};
pub use crate::deliveries::{
    Backlog, ClaimedDeliveries, Deliveries, DeliveryFilter, DueDelivery, EndpointCreated,
    EndpointDeleted, EndpointReplaced, EndpointRotated, MISSED_MOST, MadeDue, Oldest, Pruned,
    Recovered, Redelivered, Swept, SwitchOff, TRIED_MOST, TriedOutcome,
};
pub use crate::modules::{
    KEPT_VERSIONS, Proposal, SharedModules, SlotChange, SlotContent, SlotStage, TRIAL_CAUSE,
};
pub use crate::movements::{
    Booking, CLOSES_AFTER, ClockJump, LedgerState, MAX_CLOCK_STEP, MovementFilter, Movements,
};
pub use crate::nonces::{Nonces, Reservation, Reserved};
pub use crate::postgres::PostgresStore;
pub use crate::resellers::{Answered, InvitationStanding, Invited, Resellers};
pub use crate::routing_log::{
    ROUTING_BATCH, ROUTING_PAGE, RoutingBatch, RoutingCursor, RoutingEntry, RoutingLog, RoutingPage,
};
pub use crate::rows::seal::{MasterKey, NotAMasterKey};
pub use crate::sled::SledStore;
pub use crate::trials::{Trial, Trials};
pub use kassette_engine::Fault;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::Attempt;
use kassette_domain::audit::{AuditEntry, Audited, Chain};
use kassette_domain::event::{Event, EventType};
use kassette_domain::extras::Notes;
use kassette_domain::id::{
    AccountId, AttemptId, DeliveryId, EventId, KeyId, MerchantId, OperatorId, PaymentId, RefundId,
    WorkId,
};
use kassette_domain::key::{ApiKey, Environment, KeyOwner, TokenHash};
use kassette_domain::lifecycle::{
    Change, NewRefund, NewWork, PaymentAggregate, QuerySchedule, Refusal, Step, StepOutcome,
    Transition,
};
use kassette_domain::merchant::Merchant;
use kassette_domain::money::Money;
use kassette_domain::movement::Movement;
use kassette_domain::operator::Operator;
use kassette_domain::order::Email;
use kassette_domain::payment::{NewPayment, Origin, Payment, Request, RoutingDecision, Status};
use kassette_domain::provider::Report;
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::time::Time;
use kassette_domain::webhook::DeliveryStatus;
use kassette_domain::work::{WorkItem, WorkKey};

/// A running operation.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// Result of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    New(Payment),
    /// A repeated request. Contains the payment in its current state.
    Replay(Payment),
    /// The reference was used with other data.
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    /// The key of the request is revoked or expired.
    KeyRefused,
    /// The reseller of the request may not act for the merchant, or no longer.
    Barred(ResellerNotAllowed),
}

/// Refers to a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The payment with this id.
    Payment(PaymentId),
    /// The payment of an attempt.
    Attempt(AttemptId),
    /// The payment of the attempt that the provider knows by this reference at this account.
    Reference {
        /// The account.
        account: AccountId,
        /// The provider's id.
        reference: String,
    },
    /// The payment of a refund.
    Refund(RefundId),
}

/// Result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// The step was executed, possibly without a change.
    Done {
        /// The payment after the step.
        aggregate: PaymentAggregate,
        /// Outcome according to the state machine.
        outcome: StepOutcome,
        change: Box<Change>,
    },
    /// The state machine refused the step. The payment is unchanged.
    Refused {
        aggregate: PaymentAggregate,
        /// Reason of the refusal.
        refusal: Refusal,
    },
    /// The provider's reference belongs to another attempt at the account. Nothing was changed.
    ReferenceTaken(PaymentAggregate),
    /// The payment does not exist.
    Unknown,
}

/// Result of a refund order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundOrdered {
    /// The refund was ordered.
    New {
        /// The payment after the order.
        aggregate: PaymentAggregate,
        change: Box<Change>,
    },
    /// The same refund was ordered before.
    Replay {
        /// The payment in its current state.
        aggregate: PaymentAggregate,
        /// The earlier refund.
        refund: RefundId,
    },
    /// The idempotency key was used with other data.
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    /// The key of the request is revoked or expired.
    KeyRefused,
    /// The reseller may not refund now.
    Barred(ResellerNotAllowed),
    /// The work item that the refund was to settle is no longer open.
    LineClosed,
    /// The state machine refused the refund.
    Refused(Refusal),
    /// The payment does not exist.
    Unknown,
}

/// Result of storing a callback whose reference no attempt had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptCallback {
    /// Stored. A start that records the reference applies it.
    Kept,
    /// The reference is known now: apply the callback.
    Known(AttemptId),
    /// The account has too many stored callbacks. The provider should send it again.
    Full,
}

/// The timeline of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The payment with its attempts, read at the same time.
    pub aggregate: PaymentAggregate,
    /// Routing decisions, oldest first.
    pub decisions: Vec<RoutingDecision>,
    /// Transitions, oldest first.
    pub transitions: Vec<Transition>,
    /// Events, oldest first.
    pub events: Vec<Event>,
    /// The merchant's notes. Empty if they were erased.
    pub notes: Notes,
}

/// A page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// At most as many as requested.
    pub items: Vec<T>,
    /// Cursor of the next page. `None` at the end. Opaque; stays valid while new items are added.
    pub next: Option<String>,
}

/// Selects a page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// Maximum number of items, 1 to 100.
    pub limit: usize,
    /// Cursor from the previous page. Anything else results in [`Listed::BadCursor`].
    pub cursor: Option<String>,
}

/// A page, or an invalid cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed<T> {
    Page(Page<T>),
    /// This list did not issue the cursor.
    BadCursor,
}

/// A search key with a separate index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchKey {
    /// The payer's mailbox, regardless of case and of the part after `+`.
    Email(Email),
    /// The invoice amount.
    Amount(Money),
    /// The last four digits of the payer's card or account, if the provider reported them.
    LastFour(String),
    /// The provider's id of a dispute.
    Dispute(String),
    /// The reference that a reseller gave the payment.
    ClientRef(String),
}

impl FoundId {
    /// The object's payment. Zeros for a delivery of `webhook.test`.
    pub const fn payment(&self) -> PaymentId {
        match self {
            Self::Payment(payment)
            | Self::Attempt(_, payment)
            | Self::Refund(_, payment)
            | Self::Event(_, payment, _)
            | Self::Delivery(_, payment, ..) => *payment,
        }
    }
}

impl SearchKey {
    /// Whether the payment matches the key. True for keys of attempts.
    pub(crate) fn fits(&self, payment: &Payment) -> bool {
        match self {
            Self::Email(asked) => {
                let email = payment.email.as_ref();
                email.is_some_and(|email| email.mailbox() == asked.mailbox())
            }
            Self::Amount(due) => payment.due == *due,
            Self::ClientRef(text) => {
                matches!(&payment.origin, Origin::Reseller { client_ref, .. } if client_ref.as_str() == text)
            }
            Self::LastFour(_) | Self::Dispute(_) => true,
        }
    }

    /// Whether an attempt matches the key. True for keys of payments.
    pub(crate) fn fits_attempt(&self, attempt: &Attempt) -> bool {
        match self {
            Self::LastFour(digits) => attempt.particulars.last_four() == Some(digits),
            Self::Dispute(id) => {
                let mut disputes = attempt.funds.disputes.iter();
                disputes.any(|each| each.dispute.id == *id)
            }
            Self::Email(_) | Self::Amount(_) | Self::ClientRef(_) => true,
        }
    }

    /// Whether the key is about attempts.
    pub(crate) const fn is_of_attempt(&self) -> bool {
        matches!(self, Self::LastFour(_) | Self::Dispute(_))
    }
}

/// Range of the ids that begin with some hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdPrefix {
    pub(crate) first: [u8; 16],
    pub(crate) last: [u8; 16],
}

impl IdPrefix {
    /// Minimum number of digits. Fewer would match too many ids.
    pub const MIN: usize = 6;

    /// Parses 6-32 lower-case hexadecimal digits. `None` for other texts.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if !(Self::MIN..=32).contains(&text.len()) || !text.bytes().all(is_digit) {
            return None;
        }
        let end = |fill: char| {
            let mut whole = text.to_owned();
            whole.extend(std::iter::repeat_n(fill, 32 - text.len()));
            PaymentId::parse(&whole).ok().map(|id| *id.as_bytes())
        };
        Some(Self {
            first: end('0')?,
            last: end('f')?,
        })
    }
}

/// An object whose id has the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundId {
    Payment(PaymentId),
    Attempt(AttemptId, PaymentId),
    Refund(RefundId, PaymentId),
    Event(EventId, PaymentId, EventType),
    /// Its payment is zeros for `webhook.test`.
    Delivery(DeliveryId, PaymentId, EventType, DeliveryStatus),
}

/// Maximum number of ids of one kind that a prefix finds.
pub const MAX_FOUND: usize = 50;

/// Filter for payments. All given conditions must match. Conditions on attempts must match one of the payment's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    pub merchant: Option<MerchantId>,
    pub status: Option<Status>,
    pub order_id: Option<String>,
    pub environment: Option<Environment>,
    /// Has an attempt at this account.
    pub account: Option<AccountId>,
    pub attempt: Option<AttemptId>,
    /// Has an attempt that the provider knows by this reference, at any account.
    pub reference: Option<String>,
    /// Matches this key. Cannot be combined with an attempt, a reference or an order.
    pub search: Option<SearchKey>,
    /// Created at this time or later.
    pub since: Option<Time>,
    /// Created before this time.
    pub until: Option<Time>,
}

/// Filter for events. All given conditions must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsAsked {
    /// About payments of this merchant.
    pub merchant: MerchantId,
    pub environment: Environment,
    pub kind: Option<EventType>,
    /// Created at this time or later.
    pub since: Option<Time>,
    /// Created before this time.
    pub until: Option<Time>,
    /// About one of these payments. Payments of another merchant or environment count as unknown.
    pub payments: Option<Vec<PaymentId>>,
}

impl EventsAsked {
    /// Whether an event of this type and time matches.
    pub(crate) fn fits(&self, kind: EventType, created_at: Time) -> bool {
        self.kind.is_none_or(|asked| asked == kind)
            && self.since.is_none_or(|since| since <= created_at)
            && self.until.is_none_or(|until| created_at < until)
    }
}

/// Maximum number of payments of one claim.
pub(crate) const MAX_DUE: usize = 256;

/// Payments, their attempts and all data that is written with them.
pub trait Payments: Send + Sync {
    /// Finds the payment of an earlier request: `Replay` or `Differs`. `None` if the request is new.
    fn replay(&self, request: Request) -> StoreFuture<'_, Option<Created>>;

    /// Creates a payment, exactly one per reference at any concurrency. `authority` is the key of the
    /// request. The transaction checks it again, and the permissions of a reseller too.
    fn create(
        &self,
        new: NewPayment,
        authority: Option<TokenHash>,
        now: Time,
    ) -> StoreFuture<'_, Created>;

    /// Executes a step of the state machine and writes all its consequences. A step that would open an
    /// attempt of a reseller's payment is refused if the reseller may no longer act for the merchant; a
    /// fallback is left out. If a step makes a reference known, callbacks pending for it are applied in the
    /// same transaction (a report as `Report` by callback, a notice without one as `AskAt` now). An `audited`
    /// line is written only if the step was executed.
    fn step(
        &self,
        about: About,
        step: Step,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Stepped>;

    /// Orders a refund with [`Step::Refund`], exactly one per idempotency key of the merchant in the
    /// environment at any concurrency. `authority` is the key of the request. The transaction checks it
    /// again, and that a work item to be settled is open. An `audited` line is written only if the refund is
    /// new.
    fn refund(
        &self,
        payment: PaymentId,
        new: NewRefund,
        authority: Option<TokenHash>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, RefundOrdered>;

    /// Sets the query schedule for all later steps.
    fn set_schedule(&self, schedule: QuerySchedule);

    /// Adds captured money of an attempt that the store does not contain to the work list, and books it. An
    /// open item with the same key gets the new figures.
    fn unknown_money(&self, found: NewWork, movement: Movement, now: Time) -> StoreFuture<'_, ()>;

    /// Adds an item about an account to the work list. An open item with the same key gets the new figures.
    fn open_work(&self, found: NewWork, environment: Environment, now: Time)
    -> StoreFuture<'_, ()>;

    /// Closes the item with a key, if one is open.
    fn close_work(&self, key: WorkKey, now: Time) -> StoreFuture<'_, ()>;

    /// Stores a callback about an unknown reference for an hour.
    fn keep_callback(
        &self,
        account: AccountId,
        reference: String,
        report: Option<Report>,
        now: Time,
    ) -> StoreFuture<'_, KeptCallback>;

    /// Claims due payments in order of time: no other caller gets them before `lease` has passed or
    /// [`Step::Release`]. Empty only if there is nothing to claim. Each payment is claimed atomically, but
    /// not all together: other operations may run in between.
    fn claim_due(
        &self,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> StoreFuture<'_, Vec<PaymentId>>;

    /// Time at which the next payment is due. `None` if no payment will be.
    fn next_due(&self) -> StoreFuture<'_, Option<Time>>;

    /// Returns a payment by its id, shared with the store's cache.
    fn payment(&self, id: PaymentId) -> StoreFuture<'_, Option<Arc<Payment>>>;

    /// Returns a payment with its attempts.
    fn aggregate(&self, about: About) -> StoreFuture<'_, Option<PaymentAggregate>>;

    /// Returns the payment of a checkout token.
    fn by_checkout(&self, token: TokenHash) -> StoreFuture<'_, Option<PaymentAggregate>>;

    /// Returns the attempt of a return token, with its payment.
    fn by_return(&self, token: TokenHash)
    -> StoreFuture<'_, Option<(AttemptId, PaymentAggregate)>>;

    /// Returns a payment with its attempts and its timeline, all from the same time.
    fn history(&self, id: PaymentId) -> StoreFuture<'_, Option<History>>;

    /// The notes of at most a page of payments. Payments without notes are left out.
    fn notes(&self, payments: Vec<PaymentId>) -> StoreFuture<'_, HashMap<PaymentId, Notes>>;

    /// Lists payments, newest first. A page may end before it is full, with a cursor: however little a
    /// filter matches, one call looks at a bounded number of payments.
    fn payments(&self, filter: PaymentFilter, paging: Paging) -> StoreFuture<'_, Listed<Payment>>;

    /// Lists events about payments, newest first, each with its payment in its current state. Includes events
    /// that no endpoint wanted. One call reads a limited number of events, so that a page may end early with
    /// a cursor.
    fn events(
        &self,
        asked: EventsAsked,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<(Event, Payment)>>;

    /// Payments, attempts, refunds, events and deliveries whose ids have a prefix. Returns at most [`MAX_FOUND`]
    /// of each kind, those with the highest ids, which are the newest payments and deliveries.
    fn find_ids(&self, prefix: IdPrefix) -> StoreFuture<'_, Vec<FoundId>>;

    /// Accounts with attempts on which money can still move, or that are unsettled: they cannot be
    /// taken out of the configuration.
    fn accounts_in_use(&self) -> StoreFuture<'_, Vec<AccountId>>;

    /// Lists the work list, newest first. `open` leaves out items that are done.
    fn work(&self, open: bool, paging: Paging) -> StoreFuture<'_, Listed<WorkItem>>;

    /// Returns a work item by its id.
    fn work_item(&self, id: WorkId) -> StoreFuture<'_, Option<WorkItem>>;

    /// Marks a work item as done. `None` if it does not exist.
    fn work_done(
        &self,
        id: WorkId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<WorkItem>>;
}

/// Result of a change to a record that was read before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced<T> {
    Done(T),
    /// The record has changed since: read it again.
    Stale,
    /// The record does not exist.
    Unknown,
}

/// Result of issuing a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyIssued {
    Done(ApiKey),
    /// A live key for a merchant that is not approved for live. A reseller's key does not require the
    /// rollout.
    NotLiveApproved,
    /// The owner, or the key to rotate, does not exist or is no longer usable.
    Unknown,
}

/// Data of a new merchant. The store assigns its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMerchant {
    /// The number in it is ignored.
    pub merchant: Merchant,
}

/// Maximum number of key uses recorded together. Callers report further ones again later.
pub(crate) const MAX_SEEN: usize = 4096;
/// Maximum number of operators, because a new one's name is compared with all others.
pub(crate) const MAX_OPERATORS: usize = 200;

/// Merchants, keys, operators and the audit log.
pub trait Directory: Send + Sync {
    /// A number that changes before a change to a key, a merchant, a reseller, a delegation, a webhook
    /// endpoint with its secrets or an account switch is answered, on all nodes. Data that is read after this
    /// number is valid while the number stays the same. `None` if the store cannot guarantee that; then
    /// callers must not cache. Very cheap.
    fn directory_version(&self) -> Option<u64>;

    /// Creates a merchant. The store assigns its number, and sets the audit line's object to
    /// `merchant/<number>`.
    fn create_merchant(
        &self,
        new: NewMerchant,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Merchant>;
    /// Returns a merchant by its number.
    fn merchant(&self, id: MerchantId) -> StoreFuture<'_, Option<Merchant>>;
    /// Lists merchants, newest first.
    fn merchants(&self, paging: Paging) -> StoreFuture<'_, Listed<Merchant>>;
    /// Replaces a merchant that still equals `before`.
    fn replace_merchant(
        &self,
        before: Merchant,
        after: Merchant,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Replaced<Merchant>>;

    /// Writes a new key. A live key requires an approved merchant.
    fn issue_key(&self, key: ApiKey, audited: Audited, now: Time) -> StoreFuture<'_, KeyIssued>;
    /// Issues `new` to replace the key `old`, which ends at `old_ends`.
    fn rotate_key(
        &self,
        old: KeyId,
        new: ApiKey,
        old_ends: Time,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, KeyIssued>;
    /// Revokes a key immediately. `None` if it does not exist.
    fn revoke_key(&self, id: KeyId, audited: Audited, now: Time)
    -> StoreFuture<'_, Option<ApiKey>>;
    /// Returns a key by the hash of the presented token.
    fn key(&self, hash: TokenHash) -> StoreFuture<'_, Option<ApiKey>>;
    /// Returns a key by its id.
    fn key_by_id(&self, id: KeyId) -> StoreFuture<'_, Option<ApiKey>>;
    /// Lists an owner's keys, newest first, including revoked ones.
    fn keys(&self, owner: KeyOwner, paging: Paging) -> StoreFuture<'_, Listed<ApiKey>>;
    /// Records when keys were last used. May return before that is durable.
    fn keys_seen(&self, seen: Vec<(TokenHash, Time)>) -> StoreFuture<'_, ()>;

    /// Writes an operator. `None` if another existing operator has the name.
    fn create_operator(
        &self,
        operator: Operator,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Operator>>;
    /// Returns an operator by the hash of the token.
    fn operator(&self, hash: TokenHash) -> StoreFuture<'_, Option<Operator>>;
    /// Lists operators, newest first.
    fn operators(&self, paging: Paging) -> StoreFuture<'_, Listed<Operator>>;
    /// Removes an operator. `None` if it does not exist.
    fn remove_operator(
        &self,
        id: OperatorId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Operator>>;

    /// Enables or disables a provider account for new attempts. Persists across changes of the configuration.
    fn switch_account(
        &self,
        account: AccountId,
        enabled: bool,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, ()>;
    /// Accounts that were ever switched, with their current switch.
    fn account_switches(&self) -> StoreFuture<'_, Vec<(AccountId, bool)>>;

    /// Writes an audit line about a change outside of the store (modules, configuration).
    fn audit(&self, audited: Audited, now: Time) -> StoreFuture<'_, AuditEntry>;
    /// Lists the audit log, newest first.
    fn audit_log(&self, paging: Paging) -> StoreFuture<'_, Listed<AuditEntry>>;
}

/// Figures of a store, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vitals {
    /// Bytes that it uses on its disk.
    pub used: u64,
    /// Bytes that it may still write. `None` if the disk belongs to a database server.
    pub free: Option<u64>,
    /// Bytes that must stay free: with less, it accepts no writes.
    pub reserved: u64,
    /// Creation time of the newest payment, if the store can be read. A clock that shows an earlier time is
    /// behind.
    pub newest: Option<Time>,
    /// Start time of the last complete backup of the running store. Zero if there was none since the store
    /// was opened. `None` if the database server makes backups.
    pub backed_up: Option<Time>,
}

/// Health of the store.
pub trait StoreHealth: Send + Sync {
    /// Writes and syncs a row: proof that an operation would be durable.
    fn probe(&self) -> StoreFuture<'_, ()>;
    /// Returns the figures. Writes nothing, and reads no rows.
    fn vitals(&self) -> StoreFuture<'_, Vitals>;
    /// Accepts no more operations, waits for running ones, and closes the files.
    fn shut_down(&self) -> StoreFuture<'_, ()>;
    /// Resolves with the reason when the store has ended on its own: because the state of the disk is
    /// unknown, or because another node has taken over its database. Never resolves after a shutdown.
    fn failed(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>>;
}

/// A backup, piece by piece in order. Dropping it cancels the backup.
pub type Pieces = tokio::sync::mpsc::Receiver<Vec<u8>>;

/// Reason why a store makes no backup now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBackup {
    #[error("another backup is being made")]
    UnderWay,
    /// This store never makes backups.
    #[error(
        "a database is backed up by its own means: a base backup, and the log that it archives"
    )]
    Database,
}

/// How long data is stored that need not be stored permanently, counted from the payment's creation. `None`
/// means permanently. Payments, their idempotency data, their timelines and the audit log are always
/// permanent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Routing decisions with their verdicts, of ended payments.
    pub decisions: Option<Duration>,
    /// Addresses, answers and other data of payers, of ended payments.
    pub personal_data: Option<Duration>,
    /// The routing log, counted from when a batch was written.
    pub routing_log: Option<Duration>,
    /// Maximum stored size of the routing log, in bytes. The oldest decisions are deleted first.
    pub routing_log_bytes: Option<u64>,
}

/// Amounts of deleted data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Payments whose routing decisions were deleted.
    pub decisions: u64,
    /// Payments whose personal data was deleted.
    pub redacted: u64,
    /// Decisions deleted from the routing log.
    pub routing_records: u64,
    /// Time at which more data expires. Not after the current time if there is more already.
    pub next: Option<Time>,
}

impl Forgotten {
    /// Records that more data expires at a time.
    pub(crate) fn next_at(&mut self, at: Time) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// Maintenance of a store while it serves.
pub trait Upkeep: Send + Sync {
    /// Starts a backup: the store at one time between now and the last piece. The file itself shows whether
    /// it is complete.
    fn backup(&self, now: Time) -> StoreFuture<'_, Result<Pieces, NoBackup>>;
    /// Deletes some expired data: a small group at a time, so that payments are not delayed.
    fn forget(&self, retention: Retention, now: Time) -> StoreFuture<'_, Forgotten>;
    /// Verifies the audit log up to its current last line.
    fn verify_audit(&self) -> StoreFuture<'_, Chain>;
}

/// All storage of a gateway.
pub trait Store:
    Payments
    + Resellers
    + Deliveries
    + Directory
    + Connects
    + Nonces
    + StoreHealth
    + Upkeep
    + Cluster
    + SharedModules
    + RoutingLog
    + Trials
    + Movements
    + 'static
{
}

impl<T> Store for T where
    T: Payments
        + Resellers
        + Deliveries
        + Directory
        + Connects
        + Nonces
        + StoreHealth
        + Upkeep
        + Cluster
        + SharedModules
        + RoutingLog
        + Trials
        + Movements
        + 'static
{
}
