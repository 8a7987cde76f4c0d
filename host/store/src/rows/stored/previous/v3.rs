//! Rows of format 3: payments without a rate, attempts without particulars.

use kassette_domain::id::{PaymentId, WorkId};
use kassette_domain::lifecycle::Transition;
use kassette_domain::provider::{RefundState, VendorSettlement};
use kassette_domain::work::{WorkItem, WorkKind};
use kassette_engine::Span;

use super::v4::{self, V4AttemptRow, V4Particulars, V4Refund, V4Report, V4Returns};
use super::*;
use crate::rows::schema::Line;

/// Questions about an attempt after which format 3 counted none.
const ALL_QUERIES: u8 = 7;

#[derive(Deserialize)]
struct V3PaymentRow {
    merchant: MerchantId,
    origin: Origin,
    environment: Environment,
    order_id: OrderId,
    due: Money,
    usd: Minor,
    mode: CheckoutMode,
    requested_method: Option<MethodId>,
    method: Option<MethodId>,
    email_mark: Option<[u8; EMAIL_MARK]>,
    return_url: Option<ReturnUrl>,
    status: Status,
    settlement: Settlement,
    review: Option<ReviewCause>,
    risk_review: bool,
    declines: u8,
    fee: Option<Minor>,
    created_at: Time,
    expires_at: Time,
    claimed_until: Option<Time>,
    sealed: Vec<u8>,
    counters: PaymentCounters,
}

/// A payment's row. The rate is the one that its two amounts imply; its timeline says when it was
/// completed.
pub(crate) fn payment(
    memtable: &Memtable,
    _: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<Rows, Fault> {
    let old: V3PaymentRow = records::decode(key, row)?;
    let rate = Rate::implied(old.due.amount, old.usd)
        .ok_or_else(|| records::damaged(key, "its amounts imply no rate"))?;
    let completed_at = match (old.status, schema::payment_id(key)) {
        (Status::Completed, Some(id)) => completed_at(memtable, id)?,
        _ => None,
    };
    let new = Written {
        merchant: old.merchant,
        origin: Cow::Owned(old.origin),
        environment: old.environment,
        order_id: Cow::Owned(old.order_id),
        due: old.due,
        usd: old.usd,
        rate,
        mode: old.mode,
        requested_method: old.requested_method,
        method: old.method,
        email_mark: old.email_mark,
        return_url: old.return_url.map(Cow::Owned),
        status: old.status,
        settlement: old.settlement,
        review: old.review,
        risk_review: old.risk_review,
        decision: None,
        vouched: false,
        declines: old.declines,
        fee: old.fee,
        created_at: old.created_at,
        completed_at,
        expires_at: old.expires_at,
        claimed_until: old.claimed_until,
        sealed: old.sealed.into(),
        counters: old.counters,
    };
    one(key, &new)
}

fn completed_at(memtable: &Memtable, id: PaymentId) -> Result<Option<Time>, Fault> {
    let lines = Span::prefix(&schema::lines(id, Line::Transition));
    let mut completed_at = None;
    for (key, row) in memtable.scan(&lines, MAX_TRANSITIONS.into())? {
        let line: Transition = records::decode(&key, &row)?;
        if line.applied && line.from != Status::Completed && line.to == Status::Completed {
            completed_at = Some(line.at);
        }
    }
    Ok(completed_at)
}

#[derive(Deserialize)]
struct V3AttemptRow {
    id: AttemptId,
    account: AccountId,
    slot: Slot,
    digest: Digest,
    method: MethodId,
    due: Money,
    state: AttemptState,
    until: Option<Time>,
    references: Vec<String>,
    uncertain: bool,
    vendor: Option<VendorFacts>,
    busy_until: Option<Time>,
    next_query: Option<Time>,
    queries: u8,
    watched_from: Time,
    hold_until: Option<Time>,
    retries: u8,
    last_sent: Time,
    closing: bool,
    /// That it was captured for an operator's approval. The approval is not kept: the payment is in
    /// review, and an operator approves it again, now that its money is taken.
    _approved: bool,
    given_back: Minor,
    heard: Vec<(Via, VendorStatus)>,
    opened_at: Time,
    expires_at: Time,
    ended_at: Option<Time>,
    detail: String,
    sealed: Vec<u8>,
}

/// An attempt's row.
pub(crate) fn attempt(
    _: &Memtable,
    sealer: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<Rows, Fault> {
    let old: V3AttemptRow = records::decode(key, row)?;
    let refund = V4Refund {
        id: None,
        amount: old.given_back,
        state: RefundState::Succeeded,
        at: old.vendor.as_ref().map_or(old.opened_at, |facts| facts.at),
    };
    let is_given_back = old.given_back > Minor(0);
    let asked_all = old.queries >= ALL_QUERIES;
    let new = V4AttemptRow {
        id: old.id,
        account: old.account,
        slot: old.slot,
        digest: old.digest,
        method: old.method,
        due: old.due,
        state: old.state,
        until: old.until,
        references: old.references,
        uncertain: old.uncertain,
        vendor: old.vendor,
        busy_until: old.busy_until,
        next_query: old.next_query,
        queries: if asked_all {
            Attempt::ALL_ASKED
        } else {
            old.queries
        },
        silences: 0,
        silent_since: None,
        notices: 0,
        notices_answered: 0,
        watched_from: old.watched_from,
        hold_until: old.hold_until,
        retries: old.retries,
        last_sent: old.last_sent,
        closing: old.closing,
        returns: V4Returns {
            refunds: is_given_back.then_some(refund).into_iter().collect(),
            disputes: Vec::new(),
            told: old.given_back,
        },
        particulars: Particulars::default(),
        heard: old.heard,
        opened_at: old.opened_at,
        expires_at: old.expires_at,
        ended_at: old.ended_at,
        detail: old.detail,
        sealed: old.sealed,
    };
    v4::attempt_now(sealer, key, new)
}

#[derive(Deserialize)]
struct V3Report {
    reference: String,
    status: VendorStatus,
    settlement: VendorSettlement,
    received: Minor,
    currency: String,
    returned: Minor,
    detail: String,
}

/// A pending callback's row.
pub(crate) fn pending_callback(
    _: &Memtable,
    _: &Sealer,
    key: &[u8],
    row: &[u8],
) -> Result<Rows, Fault> {
    let (old, until): (Option<V3Report>, Time) = records::decode(key, row)?;
    let report = old.map(|old| V4Report {
        reference: old.reference,
        status: old.status,
        settlement: old.settlement,
        received: old.received,
        currency: old.currency,
        returned: old.returned,
        detail: old.detail,
        particulars: V4Particulars::default(),
    });
    v4::pending_callback_now(key, report, until)
}

#[derive(Deserialize)]
struct V3WorkItem {
    id: WorkId,
    kind: WorkKind,
    payment: PaymentId,
    attempt: AttemptId,
    account: AccountId,
    amount: Minor,
    currency: String,
    detail: String,
    opened_at: Time,
    done_at: Option<Time>,
}

/// A line of the work list.
pub(crate) fn work(_: &Memtable, _: &Sealer, key: &[u8], row: &[u8]) -> Result<Rows, Fault> {
    let old: V3WorkItem = records::decode(key, row)?;
    let new = WorkItem {
        id: old.id,
        kind: old.kind,
        payment: Some(old.payment),
        attempt: old.attempt,
        account: old.account,
        amount: old.amount,
        currency: old.currency,
        detail: old.detail,
        opened_at: old.opened_at,
        done_at: old.done_at,
    };
    one(key, &new)
}
