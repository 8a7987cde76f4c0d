//! Payments and attempts as rows: what is secret or personal is sealed, the rest stands plain, so that
//! lists can be filtered without opening anything.

pub(crate) mod previous;

use std::borrow::Cow;

use kassette_domain::attempt::{Attempt, AttemptState, VendorFacts};
use kassette_domain::decline::DeclineCode;
use kassette_domain::event::{Event, EventType, GivenBack};
use kassette_domain::id::{AccountId, AttemptId, Digest, EventId, MerchantId, PaymentId, Slot};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::Via;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Minor, Money, Rate};
use kassette_domain::order::{Email, OrderId};
use kassette_domain::payment::{
    CheckoutMode, Origin, Payment, ReviewCause, ReviewDecision, Settlement, Status,
};
use kassette_domain::provider::{Particulars, Payer, PayerAction, VendorStatus};
use kassette_domain::rates::TableRef;
use kassette_domain::returns::Returns;
use kassette_domain::secret::Secret;
use kassette_domain::site::ReturnUrl;
use kassette_domain::time::Time;
use kassette_engine::IVec;
use serde::{Deserialize, Serialize};

use crate::Fault;
use crate::rows::records;
use crate::rows::schema::{self, Key, Position};
use crate::rows::seal::{EMAIL_MARK, Sealer, Unopened};
use crate::rows::source::RowSource;

/// Most lines of a timeline. A vendor that repeats reports for ever fills it to the quarter; what
/// really happens to a payment takes a few dozen.
pub(crate) const MAX_TRANSITIONS: u16 = 1000;

/// What the store itself has to know of a payment, beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PaymentCounters {
    /// How many attempts it has.
    pub(crate) attempts: u8,
    /// Its row in `due/`.
    pub(crate) timer: Option<Timer>,
    /// Lines of the timeline so far.
    pub(crate) decisions: u16,
    /// The same for transitions.
    pub(crate) transitions: u16,
    /// The same for events.
    pub(crate) events: u16,
}

/// When something is due on a payment, and which row says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Timer {
    /// A row of its own.
    Own(Time),
    /// The row of those it was made together with, which stands at this time or before.
    Shared(Time),
}

impl Timer {
    pub(crate) const fn at(self) -> Time {
        match self {
            Self::Own(at) | Self::Shared(at) => at,
        }
    }
}

pub(crate) struct PaymentRow {
    /// Without e-mail and token.
    plain: Payment,
    sealed: Vec<u8>,
    pub(crate) counters: PaymentCounters,
}

/// A payment's row as it is written: what its key says is left out, and what is sealed. Behind it stands
/// the source's table that the rate was made from, where there was one.
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    merchant: MerchantId,
    origin: Cow<'a, Origin>,
    environment: Environment,
    order_id: Cow<'a, OrderId>,
    due: Money,
    usd: Minor,
    rate: Rate,
    mode: CheckoutMode,
    requested_method: Option<MethodId>,
    method: Option<MethodId>,
    email_mark: Option<[u8; EMAIL_MARK]>,
    return_url: Option<Cow<'a, ReturnUrl>>,
    status: Status,
    settlement: Settlement,
    review: Option<ReviewCause>,
    risk_review: bool,
    decision: Option<Cow<'a, ReviewDecision>>,
    vouched: bool,
    declines: u8,
    fee: Option<Minor>,
    created_at: Time,
    completed_at: Option<Time>,
    expires_at: Time,
    claimed_until: Option<Time>,
    sealed: Cow<'a, [u8]>,
    counters: PaymentCounters,
}

#[derive(Serialize, Deserialize)]
struct PaymentSecrets<'a> {
    email: Option<Cow<'a, Email>>,
    token: Cow<'a, Secret>,
}

impl PaymentRow {
    /// Encodes a payment's row.
    pub(crate) fn encode(
        sealer: &Sealer,
        payment: &Payment,
        counters: PaymentCounters,
    ) -> Result<(Key, IVec), Fault> {
        let key = schema::payment(payment.id);
        let secrets = PaymentSecrets {
            email: payment.email.as_ref().map(Cow::Borrowed),
            token: Cow::Borrowed(&payment.token),
        };
        let row = Written {
            merchant: payment.merchant,
            origin: Cow::Borrowed(&payment.origin),
            environment: payment.environment,
            order_id: Cow::Borrowed(&payment.order_id),
            due: payment.due,
            usd: payment.usd,
            rate: payment.rate,
            mode: payment.mode,
            requested_method: payment.requested_method,
            method: payment.method,
            email_mark: payment
                .email_mark
                .and_then(|mark| mark.first_chunk().copied()),
            return_url: payment.return_url.as_ref().map(Cow::Borrowed),
            status: payment.status,
            settlement: payment.settlement,
            review: payment.review,
            risk_review: payment.risk_review,
            decision: payment.decision.as_deref().map(Cow::Borrowed),
            vouched: payment.vouched,
            declines: payment.declines,
            fee: payment.fee,
            created_at: payment.created_at,
            completed_at: payment.completed_at,
            expires_at: payment.expires_at,
            claimed_until: payment.claimed_until,
            sealed: sealer.seal(&key, &secrets)?.into(),
            counters,
        };
        let row = match payment.rate_table {
            Some(table) => records::encode(&key, &(row, table))?,
            None => records::encode(&key, &row)?,
        };
        Ok((key, row))
    }

    /// Reads the row of a payment.
    pub(crate) fn decode(id: PaymentId, key: &[u8], row: &[u8]) -> Result<Self, Fault> {
        let (row, rate_table): (Written<'_>, Option<TableRef>) =
            records::decode_with_more(key, row)?;
        let mark = |short: [u8; EMAIL_MARK]| {
            let mut mark = [0; 32];
            mark[..EMAIL_MARK].copy_from_slice(&short);
            mark
        };
        Ok(Self {
            plain: Payment {
                id,
                merchant: row.merchant,
                origin: row.origin.into_owned(),
                environment: row.environment,
                order_id: row.order_id.into_owned(),
                due: row.due,
                usd: row.usd,
                rate: row.rate,
                rate_table,
                mode: row.mode,
                requested_method: row.requested_method,
                method: row.method,
                email: None,
                email_mark: row.email_mark.map(mark),
                return_url: row.return_url.map(Cow::into_owned),
                token: Secret::new(""),
                status: row.status,
                settlement: row.settlement,
                review: row.review,
                risk_review: row.risk_review,
                decision: row.decision.map(|decision| Box::new(decision.into_owned())),
                vouched: row.vouched,
                declines: row.declines,
                fee: row.fee,
                created_at: row.created_at,
                completed_at: row.completed_at,
                expires_at: row.expires_at,
                claimed_until: row.claimed_until,
            },
            sealed: row.sealed.into_owned(),
            counters: row.counters,
        })
    }

    /// Loads the row of a payment.
    pub(crate) fn load(source: &impl RowSource, id: PaymentId) -> Result<Option<Self>, Fault> {
        let key = schema::payment(id);
        let row = source.get(&key)?;
        row.map(|row| Self::decode(id, &key, &row)).transpose()
    }

    /// Loads the row of a payment that must be there.
    pub(crate) fn expect(source: &impl RowSource, id: PaymentId) -> Result<Self, Fault> {
        Self::load(source, id)?
            .ok_or_else(|| records::damaged(&schema::payment(id), "it is missing"))
    }

    /// The payment without e-mail and token, for filters.
    pub(crate) const fn plain(&self) -> &Payment {
        &self.plain
    }

    pub(crate) fn open(self, sealer: &Sealer) -> Result<(Payment, PaymentCounters), Fault> {
        let key = schema::payment(self.plain.id);
        let secrets: PaymentSecrets<'_> = sealer
            .open(&key, &self.sealed)
            .map_err(|unopened| closed(&key, unopened))?;
        let mut payment = self.plain;
        payment.email = secrets.email.map(Cow::into_owned);
        payment.token = secrets.token.into_owned();
        Ok((payment, self.counters))
    }
}

/// An attempt's row: what its key says is left out, and what is sealed.
#[derive(Serialize, Deserialize)]
struct AttemptRow<'a> {
    id: AttemptId,
    account: Cow<'a, AccountId>,
    slot: Cow<'a, Slot>,
    digest: Digest,
    method: MethodId,
    due: Money,
    state: AttemptState,
    until: Option<Time>,
    references: Cow<'a, [String]>,
    uncertain: bool,
    vendor: Option<Cow<'a, VendorFacts>>,
    busy_until: Option<Time>,
    next_query: Option<Time>,
    queries: u8,
    silences: u8,
    silent_since: Option<Time>,
    notices: u32,
    notices_answered: u32,
    watched_from: Time,
    hold_until: Option<Time>,
    retries: u8,
    last_sent: Time,
    closing: bool,
    particulars: Cow<'a, Particulars>,
    heard: Cow<'a, [(Via, VendorStatus)]>,
    opened_at: Time,
    expires_at: Time,
    ended_at: Option<Time>,
    detail: Cow<'a, str>,
    sealed: Cow<'a, [u8]>,
}

#[derive(Serialize, Deserialize)]
struct AttemptSecrets<'a> {
    return_token: Cow<'a, Secret>,
    answers: Cow<'a, [(String, Secret)]>,
    payer: Cow<'a, Payer>,
    returned: Option<Cow<'a, Secret>>,
    /// Links and forms that let their holder pay, or show who pays.
    action: Option<Cow<'a, PayerAction>>,
    /// Reasons of refunds, and addresses where their money is claimed.
    returns: Cow<'a, Returns>,
}

pub(crate) fn encode_attempt(
    sealer: &Sealer,
    attempt: &Attempt,
    ordinal: u8,
) -> Result<(Key, IVec), Fault> {
    let key = schema::attempt(attempt.payment, ordinal);
    let secrets = AttemptSecrets {
        return_token: Cow::Borrowed(&attempt.return_token),
        answers: Cow::Borrowed(&attempt.answers),
        payer: Cow::Borrowed(&attempt.payer),
        returned: attempt.returned.as_ref().map(Cow::Borrowed),
        action: attempt.action.as_ref().map(Cow::Borrowed),
        returns: Cow::Borrowed(&attempt.returns),
    };
    let row = AttemptRow {
        id: attempt.id,
        account: Cow::Borrowed(&attempt.account),
        slot: Cow::Borrowed(&attempt.slot),
        digest: attempt.digest,
        method: attempt.method,
        due: attempt.due,
        state: attempt.state,
        until: attempt.until,
        references: Cow::Borrowed(&attempt.references),
        uncertain: attempt.uncertain,
        vendor: attempt.vendor.as_ref().map(Cow::Borrowed),
        busy_until: attempt.busy_until,
        next_query: attempt.next_query,
        queries: attempt.queries,
        silences: attempt.silences,
        silent_since: attempt.silent_since,
        notices: attempt.notices,
        notices_answered: attempt.notices_answered,
        watched_from: attempt.watched_from,
        hold_until: attempt.hold_until,
        retries: attempt.retries,
        last_sent: attempt.last_sent,
        closing: attempt.closing,
        particulars: Cow::Borrowed(&attempt.particulars),
        heard: Cow::Borrowed(&attempt.heard),
        opened_at: attempt.opened_at,
        expires_at: attempt.expires_at,
        ended_at: attempt.ended_at,
        detail: Cow::Borrowed(&attempt.detail),
        sealed: sealer.seal(&key, &secrets)?.into(),
    };
    let row = records::encode(&key, &row)?;
    Ok((key, row))
}

/// The row of one attempt of a payment.
fn attempt_row(source: &impl RowSource, key: &[u8]) -> Result<IVec, Fault> {
    source
        .get(key)?
        .ok_or_else(|| records::damaged(key, "it is missing"))
}

/// Reads one attempt of a payment.
pub(crate) fn load_attempt(
    source: &impl RowSource,
    sealer: &Sealer,
    payment: PaymentId,
    ordinal: u8,
) -> Result<Attempt, Fault> {
    let key = schema::attempt(payment, ordinal);
    open_attempt(sealer, &key, &attempt_row(source, &key)?)
}

pub(crate) fn open_attempt(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<Attempt, Fault> {
    let payment = schema::payment_of_attempt(key)
        .ok_or_else(|| records::damaged(key, "it names no payment"))?;
    let row: AttemptRow<'_> = records::decode(key, row)?;
    let secrets: AttemptSecrets<'_> = sealer
        .open(key, &row.sealed)
        .map_err(|unopened| closed(key, unopened))?;
    Ok(Attempt {
        id: row.id,
        payment,
        account: row.account.into_owned(),
        slot: row.slot.into_owned(),
        digest: row.digest,
        method: row.method,
        due: row.due,
        state: row.state,
        action: secrets.action.map(Cow::into_owned),
        until: row.until,
        references: row.references.into_owned(),
        return_token: secrets.return_token.into_owned(),
        answers: secrets.answers.into_owned(),
        payer: secrets.payer.into_owned(),
        returned: secrets.returned.map(Cow::into_owned),
        uncertain: row.uncertain,
        vendor: row.vendor.map(Cow::into_owned),
        busy_until: row.busy_until,
        next_query: row.next_query,
        queries: row.queries,
        silences: row.silences,
        silent_since: row.silent_since,
        notices: row.notices,
        notices_answered: row.notices_answered,
        watched_from: row.watched_from,
        hold_until: row.hold_until,
        retries: row.retries,
        last_sent: row.last_sent,
        closing: row.closing,
        returns: secrets.returns.into_owned(),
        particulars: row.particulars.into_owned(),
        heard: row.heard.into_owned(),
        opened_at: row.opened_at,
        expires_at: row.expires_at,
        ended_at: row.ended_at,
        detail: row.detail.into_owned(),
    })
}

/// A sealed part that does not open.
pub(crate) fn closed(key: &[u8], unopened: Unopened) -> Fault {
    records::damaged(
        key,
        match unopened {
            Unopened::OtherKey => "it is sealed under another master key",
            Unopened::Damaged => "its sealed part does not open",
        },
    )
}

/// The key of an attempt's row.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptKey {
    pub(crate) payment: PaymentId,
    pub(crate) ordinal: u8,
}

/// By what an attempt is found.
pub(crate) struct AttemptLookup {
    pub(crate) id: AttemptId,
    pub(crate) account: AccountId,
    /// The vendor's ids for it, and what else its statements call it.
    pub(crate) references: Vec<String>,
}

impl AttemptKey {
    /// By what the attempt is found.
    pub(crate) fn lookup(self, source: &impl RowSource) -> Result<AttemptLookup, Fault> {
        let key = schema::attempt(self.payment, self.ordinal);
        let row = attempt_row(source, &key)?;
        let row: AttemptRow<'_> = records::decode(&key, &row)?;
        let mut references = row.references.into_owned();
        references.extend(row.particulars.into_owned().references);
        Ok(AttemptLookup {
            id: row.id,
            account: row.account.into_owned(),
            references,
        })
    }
}

/// An event's row: what its key says is left out.
#[derive(Serialize, Deserialize)]
pub(crate) struct EventRow {
    id: EventId,
    pub(crate) kind: EventType,
    pub(crate) created_at: Time,
    status: Status,
    settlement: Settlement,
    beside: Beside,
}

/// The row by which an event is listed among its merchant's.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ListedEvent {
    pub(crate) payment: PaymentId,
    pub(crate) ordinal: u16,
    pub(crate) kind: EventType,
}

/// What an event tells beside the payment. The first two are numbered as the optional refund was that stood here
/// alone once.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Beside {
    Nothing,
    Refund(GivenBack),
    Decline(DeclineCode),
}

impl EventRow {
    pub(crate) const fn of(event: &Event) -> Self {
        Self {
            id: event.id,
            kind: event.kind,
            created_at: event.created_at,
            status: event.status,
            settlement: event.settlement,
            beside: match (event.refund, event.decline) {
                (Some(refund), _) => Beside::Refund(refund),
                (None, Some(decline)) => Beside::Decline(decline),
                (None, None) => Beside::Nothing,
            },
        }
    }

    /// The row by which it is listed among the events of a merchant and environment.
    pub(crate) fn listed(
        &self,
        (merchant, environment): (MerchantId, Environment),
        payment: PaymentId,
        ordinal: u16,
    ) -> (Key, ListedEvent) {
        let listed = ListedEvent {
            payment,
            ordinal,
            kind: self.kind,
        };
        let key = schema::listed_event(merchant, environment, self.created_at, self.id);
        (key, listed)
    }

    /// The event of a payment.
    pub(crate) const fn event(self, payment: PaymentId) -> Event {
        let (refund, decline) = match self.beside {
            Beside::Nothing => (None, None),
            Beside::Refund(refund) => (Some(refund), None),
            Beside::Decline(decline) => (None, Some(decline)),
        };
        Event {
            id: self.id,
            kind: self.kind,
            created_at: self.created_at,
            payment,
            status: self.status,
            settlement: self.settlement,
            refund,
            decline,
        }
    }
}

/// How far a rule of retention is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reached {
    /// The position of the payment that is next.
    pub(crate) next: Position,
    /// The latest time at which one before it was made.
    pub(crate) made_before: Time,
}

/// How far the rules are, in the order of `retention::Rule::ALL`.
pub(crate) type AllReached = [Reached; 2];

#[derive(Serialize, Deserialize)]
pub(crate) struct PendingCallback {
    pub(crate) report: Option<kassette_domain::provider::Report>,
    pub(crate) until: Time,
}
