//! Storage of Kassette: traits of whole atomic operations in the domain's terms, and sled or PostgreSQL behind them.
//!
//! Each call is one atomic operation: when it answers, its whole effect (record, indexes,
//! idempotency, outbox rows, timeline, audit) is on disk, or none of it is. A read shows only what
//! would survive a crash. What looks at much does it in parts, between which others have their turn. Rules stay in the domain: a store loads, calls the pure function, saves.
//! An implementation proves itself with [`suite`], the same for every store.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bell;
mod cluster;
mod connects;
pub mod copy;
mod deliveries;
mod mark;
mod modules;
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
    EndpointDeleted, EndpointReplaced, EndpointRotated, MadeDue, Oldest, Pruned, Recovered,
    Redelivered, Swept, SwitchOff, TRIED_MOST, TriedOutcome,
};
pub use crate::modules::{
    KEPT_VERSIONS, Proposal, SharedModules, SlotChange, SlotContent, SlotStage, TRIAL_CAUSE,
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

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::{AuditEntry, Audited, Chain};
use kassette_domain::event::{Event, EventType};
use kassette_domain::id::{
    AccountId, AttemptId, KeyId, MerchantId, OperatorId, PaymentId, RefundId, WorkId,
};
use kassette_domain::key::{ApiKey, Environment, KeyOwner, TokenHash};
use kassette_domain::lifecycle::{
    Change, NewRefund, NewWork, PaymentAggregate, QuerySchedule, Refusal, Step, StepOutcome,
    Transition,
};
use kassette_domain::merchant::Merchant;
use kassette_domain::operator::Operator;
use kassette_domain::payment::{NewPayment, Payment, Request, RoutingDecision, Status};
use kassette_domain::provider::Report;
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::time::Time;
use kassette_domain::work::WorkItem;

/// An operation under way.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// What became of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    New(Payment),
    /// The same request was made before: the payment as it stands now.
    Replay(Payment),
    /// The reference was used with other data.
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    /// The key that asked is revoked or expired by now.
    KeyRefused,
    /// The reseller that asked may not work for the merchant, or not any more.
    Barred(ResellerNotAllowed),
}

/// Which payment a step is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// By its id.
    Payment(PaymentId),
    /// The payment of an attempt.
    Attempt(AttemptId),
    /// The payment of the attempt that the vendor knows by this id in this account.
    Reference {
        /// The account that the report came through.
        account: AccountId,
        /// The vendor's id.
        reference: String,
    },
    /// The payment of a refund.
    Refund(RefundId),
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// It was done, or said to change nothing.
    Done {
        /// The payment as it is now.
        aggregate: PaymentAggregate,
        /// The machine's word.
        outcome: StepOutcome,
        change: Box<Change>,
    },
    /// The machine refused; the payment as it is.
    Refused {
        aggregate: PaymentAggregate,
        /// Why.
        refusal: Refusal,
    },
    /// The vendor's reference belongs to another attempt of the account; nothing was changed.
    ReferenceTaken(PaymentAggregate),
    /// There is no such payment.
    Unknown,
}

/// What became of an order to give money back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundOrdered {
    /// It was written.
    New {
        /// The payment as it is now.
        aggregate: PaymentAggregate,
        change: Box<Change>,
    },
    /// The same was ordered before.
    Replay {
        /// The payment as it stands now.
        aggregate: PaymentAggregate,
        /// Which of its refunds it was.
        refund: RefundId,
    },
    /// The idempotency key was used with other data.
    Differs {
        /// The first field that differs.
        field: &'static str,
    },
    /// The key that asked is revoked or expired by now.
    KeyRefused,
    /// The line of the work list that it was to settle is no longer open.
    LineClosed,
    /// The machine refused.
    Refused(Refusal),
    /// There is no such payment.
    Unknown,
}

/// What became of a callback about a reference that no attempt had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptCallback {
    /// Kept; a start that records the reference reads it again.
    Kept,
    /// The reference is known by now: apply it.
    Known(AttemptId),
    /// There are too many of this account; let the vendor repeat it.
    Full,
}

/// The timeline of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The payment with its attempts, of the same moment.
    pub aggregate: PaymentAggregate,
    /// Routing decisions, oldest first.
    pub decisions: Vec<RoutingDecision>,
    /// Transitions, oldest first.
    pub transitions: Vec<Transition>,
    /// Events, oldest first.
    pub events: Vec<Event>,
}

/// A page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// At most as many as asked for.
    pub items: Vec<T>,
    /// Where the next page begins; none at the end. Opaque, stable while new items arrive.
    pub next: Option<String>,
}

/// Which page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// Most items, 1-100.
    pub limit: usize,
    /// What the page before said; anything else is an empty answer of [`Listed::BadCursor`].
    pub cursor: Option<String>,
}

/// A page, unless the cursor was none of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed<T> {
    /// The page.
    Page(Page<T>),
    /// The cursor is not one that this list gave out.
    BadCursor,
}

/// Which payments to list; all that are set must hold, and what is said of an attempt, of one of its
/// attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    pub merchant: Option<MerchantId>,
    pub status: Option<Status>,
    pub order_id: Option<String>,
    pub environment: Option<Environment>,
    /// With an attempt at this account.
    pub account: Option<AccountId>,
    pub attempt: Option<AttemptId>,
    /// With an attempt that the vendor knows by this, in whichever account.
    pub reference: Option<String>,
    /// Made then or later.
    pub since: Option<Time>,
    /// Made before.
    pub until: Option<Time>,
}

/// Which events to list; all that are set must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsAsked {
    /// About payments of this merchant.
    pub merchant: MerchantId,
    pub environment: Environment,
    pub kind: Option<EventType>,
    /// Made then or later.
    pub since: Option<Time>,
}

/// How long a callback waits for its reference (decisions, "Provider callbacks").
pub(crate) const CALLBACK_KEPT_FOR: Duration = Duration::from_secs(3600);
/// Most callbacks of one account that wait: at one a second of strangers' payments, three hours' worth.
pub(crate) const MAX_CALLBACKS_PER_ACCOUNT: u32 = 10_000;
/// Most for one reference: a vendor's events about one payment before its start is answered.
pub(crate) const MAX_CALLBACKS_PER_REFERENCE: usize = 32;
/// Most payments that one claim takes.
pub(crate) const MAX_DUE: usize = 256;

/// Payments, their attempts and everything that is written with them.
pub trait Payments: Send + Sync {
    /// Whether the request was made before: `Replay` or `Differs`, none where it is new.
    fn replay(&self, request: Request) -> StoreFuture<'_, Option<Created>>;

    /// Creates a payment, exactly one for each reference at any concurrency. `authority` is the key
    /// that asked; it is checked again in the transaction, and so is what a reseller needs beside it.
    fn create(
        &self,
        new: NewPayment,
        authority: Option<TokenHash>,
        now: Time,
    ) -> StoreFuture<'_, Created>;

    /// Does a step of the machine and writes everything that follows from it. A step that would open
    /// an attempt of a reseller's payment is refused where the reseller may not work for the merchant
    /// any more; a fallback is left out. Where a step makes a
    /// reference known, callbacks pending for it are applied in the same transaction (a report as
    /// `Report` by callback; a bare notice as `AskAt` now). An `audited` line is written only where
    /// the step was done.
    fn step(
        &self,
        about: About,
        step: Step,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Stepped>;

    /// Orders money to be given back, as [`Step::Refund`], exactly once for each idempotency key of the
    /// merchant in the environment at any concurrency. `authority` is the key that asked; it is checked
    /// again in the transaction, and so is that a line which it is to settle is open. An `audited` line is
    /// written only where it is new.
    fn refund(
        &self,
        payment: PaymentId,
        new: NewRefund,
        authority: Option<TokenHash>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, RefundOrdered>;

    /// From now on steps follow this schedule of questions.
    fn set_schedule(&self, schedule: QuerySchedule);

    /// Puts captured money of an attempt that the store does not know on the work list; a line about
    /// it that is open takes the new figures.
    fn unknown_money(&self, found: NewWork, now: Time) -> StoreFuture<'_, ()>;

    /// Keeps a callback about an unknown reference for an hour.
    fn keep_callback(
        &self,
        account: AccountId,
        reference: String,
        report: Option<Report>,
        now: Time,
    ) -> StoreFuture<'_, KeptCallback>;

    /// Takes payments with something due, in order of time: no other caller gets them before `lease`
    /// has passed or [`Step::Release`]. None only where nothing is left to take. Each payment is taken
    /// whole, but not all of them at once: others have their turn in between.
    fn claim_due(
        &self,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> StoreFuture<'_, Vec<PaymentId>>;

    /// When the next payment is due; none where none ever is.
    fn next_due(&self) -> StoreFuture<'_, Option<Time>>;

    /// A payment by its id; shared with what a store remembers.
    fn payment(&self, id: PaymentId) -> StoreFuture<'_, Option<Arc<Payment>>>;

    /// A payment with its attempts.
    fn aggregate(&self, about: About) -> StoreFuture<'_, Option<PaymentAggregate>>;

    /// The payment that a checkout token opens.
    fn by_checkout(&self, token: TokenHash) -> StoreFuture<'_, Option<PaymentAggregate>>;

    /// The attempt that a return token opens, with its payment.
    fn by_return(&self, token: TokenHash)
    -> StoreFuture<'_, Option<(AttemptId, PaymentAggregate)>>;

    /// A payment with its attempts and its timeline, all as of one moment.
    fn history(&self, id: PaymentId) -> StoreFuture<'_, Option<History>>;

    /// Lists payments, newest first. A page may end before it is full, with a cursor: however little a
    /// filter matches, one call looks at a bounded number of payments.
    fn payments(&self, filter: PaymentFilter, paging: Paging) -> StoreFuture<'_, Listed<Payment>>;

    /// Lists events about payments, newest first, each with its payment as that stands now: those that no
    /// endpoint wanted too. A page may end before it is full, with a cursor: however little `asked` matches,
    /// one call looks at a bounded number of events.
    fn events(
        &self,
        asked: EventsAsked,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<(Event, Payment)>>;

    /// Accounts with attempts on which money can still move, or that are unsettled: they cannot be
    /// taken out of the configuration.
    fn accounts_in_use(&self) -> StoreFuture<'_, Vec<AccountId>>;

    /// Lists the work list, newest first; `open` leaves out what is done.
    fn work(&self, open: bool, paging: Paging) -> StoreFuture<'_, Listed<WorkItem>>;

    /// A line of the work list by its id.
    fn work_item(&self, id: WorkId) -> StoreFuture<'_, Option<WorkItem>>;

    /// Marks a line of the work list done; none where there is no such line.
    fn work_done(
        &self,
        id: WorkId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<WorkItem>>;
}

/// What became of a change to a record that was read before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced<T> {
    Done(T),
    /// It was changed meanwhile: read it again.
    Stale,
    /// There is no such record.
    Unknown,
}

/// What became of issuing a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyIssued {
    Done(ApiKey),
    /// A live key for a merchant that is not approved for live. A reseller's needs no rollout yet.
    NotLiveApproved,
    /// The owner, or the key to rotate, does not exist or is no longer usable.
    Unknown,
}

/// What a merchant is made with; the store counts its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMerchant {
    /// Everything but the number, which is ignored.
    pub merchant: Merchant,
}

/// Most sightings of keys that are noted at once; the rest of a longer list is left out and comes again.
pub(crate) const MAX_SEEN: usize = 4096;
/// Most operators: a new one's name is compared with all others'.
pub(crate) const MAX_OPERATORS: usize = 200;

/// Merchants, keys, operators and the audit log.
pub trait Directory: Send + Sync {
    /// A number that has changed before any change to a key, a merchant, a reseller, a delegation, a webhook
    /// endpoint with its secrets or an account switch is answered, at whichever node: whatever was read of them
    /// after asking for it holds as long as it stays. None where the store cannot tell; then nothing may be
    /// remembered. Costs next to nothing.
    fn directory_version(&self) -> Option<u64>;

    /// Makes a merchant. Its number is only known here, so the audit line's object is set to
    /// `merchant/<number>`.
    fn create_merchant(
        &self,
        new: NewMerchant,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Merchant>;
    /// A merchant by its number.
    fn merchant(&self, id: MerchantId) -> StoreFuture<'_, Option<Merchant>>;
    /// Lists merchants, newest first.
    fn merchants(&self, paging: Paging) -> StoreFuture<'_, Listed<Merchant>>;
    /// Replaces a merchant where it is still as `before`.
    fn replace_merchant(
        &self,
        before: Merchant,
        after: Merchant,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Replaced<Merchant>>;

    /// Writes a new key. A live key needs an approved merchant.
    fn issue_key(&self, key: ApiKey, audited: Audited, now: Time) -> StoreFuture<'_, KeyIssued>;
    /// Issues `new` in place of the key `old`, which ends at `old_ends`.
    fn rotate_key(
        &self,
        old: KeyId,
        new: ApiKey,
        old_ends: Time,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, KeyIssued>;
    /// Revokes a key at once; none where there is no such key.
    fn revoke_key(&self, id: KeyId, audited: Audited, now: Time)
    -> StoreFuture<'_, Option<ApiKey>>;
    /// A key by the hash of what was presented.
    fn key(&self, hash: TokenHash) -> StoreFuture<'_, Option<ApiKey>>;
    /// A key by its handle.
    fn key_by_id(&self, id: KeyId) -> StoreFuture<'_, Option<ApiKey>>;
    /// Lists an owner's keys, newest first, revoked ones too.
    fn keys(&self, owner: KeyOwner, paging: Paging) -> StoreFuture<'_, Listed<ApiKey>>;
    /// Notes when keys were last used; need not be durable before it answers.
    fn keys_seen(&self, seen: Vec<(TokenHash, Time)>) -> StoreFuture<'_, ()>;

    /// Writes an operator; none where another one that was not removed has the name.
    fn create_operator(
        &self,
        operator: Operator,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Operator>>;
    /// An operator by the hash of the token.
    fn operator(&self, hash: TokenHash) -> StoreFuture<'_, Option<Operator>>;
    /// Lists operators, newest first.
    fn operators(&self, paging: Paging) -> StoreFuture<'_, Listed<Operator>>;
    /// Removes an operator; none where there is no such operator.
    fn remove_operator(
        &self,
        id: OperatorId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<Operator>>;

    /// Switches a provider account on or off for new attempts; outlives the configuration.
    fn switch_account(
        &self,
        account: AccountId,
        enabled: bool,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, ()>;
    /// Accounts that were ever switched, with their last position.
    fn account_switches(&self) -> StoreFuture<'_, Vec<(AccountId, bool)>>;

    /// Writes a line of the audit log for a change outside of the store (modules, configuration).
    fn audit(&self, audited: Audited, now: Time) -> StoreFuture<'_, AuditEntry>;
    /// Lists the audit log, newest first.
    fn audit_log(&self, paging: Paging) -> StoreFuture<'_, Listed<AuditEntry>>;
}

/// What a store tells of itself, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vitals {
    /// Bytes that it takes on its disk.
    pub used: u64,
    /// Bytes that it may still write there; none where the disk is a database's.
    pub free: Option<u64>,
    /// Bytes that have to stay free: with less it takes nothing new.
    pub reserved: u64,
    /// When the newest payment was made, where the store can be read: a clock that shows an earlier time is
    /// behind.
    pub newest: Option<Time>,
    /// The moment that the last backup of the running store began at which was taken whole, zero where there was
    /// none since the store was opened; none where backups are a database's own.
    pub backed_up: Option<Time>,
}

/// Whether the store can take operations.
pub trait StoreHealth: Send + Sync {
    /// Writes and syncs a row: proof that an operation would be durable.
    fn probe(&self) -> StoreFuture<'_, ()>;
    /// What it tells of itself. Writes nothing, and reads no rows.
    fn vitals(&self) -> StoreFuture<'_, Vitals>;
    /// Takes no more operations, waits for those under way, closes the files.
    fn shut_down(&self) -> StoreFuture<'_, ()>;
    /// Resolves with the reason when the store has ended by itself: because it cannot say what is on disk, or
    /// because another node has taken its database over. Never where it is shut down.
    fn failed(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>>;
}

/// A backup, piece by piece in order; dropping it gives the backup up.
pub type Pieces = tokio::sync::mpsc::Receiver<Vec<u8>>;

/// Why a store makes no backup now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBackup {
    #[error("another backup is being made")]
    UnderWay,
    /// It never does.
    #[error(
        "a database is backed up by its own means: a base backup, and the log that it archives"
    )]
    Database,
}

/// How long things are kept that need not be kept for ever, counted from a payment's creation; none
/// for ever. Payments themselves, what makes their requests idempotent, their timelines and the audit
/// log always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Routing decisions with their verdicts, of payments that are over.
    pub decisions: Option<Duration>,
    /// Addresses, answers and what is known of payers, of payments that are over.
    pub personal_data: Option<Duration>,
    /// The routing log, counted from when a batch of it was written.
    pub routing_log: Option<Duration>,
    /// Most bytes of the routing log, as it is stored; the oldest decisions go first.
    pub routing_log_bytes: Option<u64>,
}

/// What was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Payments whose routing decisions were.
    pub decisions: u64,
    /// Payments whose personal data was.
    pub redacted: u64,
    /// Decisions of the routing log.
    pub routing_records: u64,
    /// When there is more to forget; now or before where there is already.
    pub next: Option<Time>,
}

impl Forgotten {
    /// There is more to forget at a time.
    pub(crate) fn next_at(&mut self, at: Time) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// What keeps a store in order while it serves.
pub trait Upkeep: Send + Sync {
    /// Begins a backup: the store as it is at one moment between now and the last piece. The file
    /// itself says whether it is whole.
    fn backup(&self, now: Time) -> StoreFuture<'_, Result<Pieces, NoBackup>>;
    /// Forgets some of what is no longer to be kept: a small group at a time, so that payments wait
    /// for none.
    fn forget(&self, retention: Retention, now: Time) -> StoreFuture<'_, Forgotten>;
    /// Goes along the audit log up to the line that is the last one now.
    fn verify_audit(&self) -> StoreFuture<'_, Chain>;
}

/// Everything that a gateway keeps.
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
        + 'static
{
}
