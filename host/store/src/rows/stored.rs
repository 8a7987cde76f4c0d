//! Rows of payments and attempts. Secret and personal data is sealed; the rest is plain, so that lists can be
//! filtered without opening anything.

use std::borrow::Cow;

use kassette_domain::attempt::{Attempt, AuthorizationWatch, Claim, ProviderFacts, Queries, Stage};
use kassette_domain::event::{Event, EventSubject, EventType};
use kassette_domain::extras::{Locale, NotesKept};
use kassette_domain::funds::Funds;
use kassette_domain::id::{AccountId, AttemptId, Digest, EventId, MerchantId, PaymentId, Slot};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::Via;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Minor, Money, Rate};
use kassette_domain::movement::Booked;
use kassette_domain::order::{Email, OrderId};
use kassette_domain::payment::{
    CheckoutMode, Origin, Payment, ReviewCause, ReviewDecision, Settlement, Status,
};
use kassette_domain::provider::{Particulars, Payer, ProviderStatus};
use kassette_domain::rates::TableRef;
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

/// Maximum number of lines in a timeline. A provider that repeats reports endlessly fills a quarter of it; a
/// real payment needs a few dozen.
pub(crate) const MAX_TRANSITIONS: u16 = 1000;

/// Data about a payment that only the store needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PaymentCounters {
    /// Number of attempts.
    pub(crate) attempts: u8,
    /// The payment's row in `due/`.
    pub(crate) timer: Option<Timer>,
    /// Number of routing decisions in the timeline.
    pub(crate) decisions: u16,
    /// Number of transitions in the timeline.
    pub(crate) transitions: u16,
    /// Number of events.
    pub(crate) events: u16,
}

/// Due time of a payment, and its timer row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Timer {
    /// The payment's own row.
    Own(Time),
    /// The row of payments created together, which is at this time or earlier.
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

/// A payment's row, without the data in its key and without sealed data. It is followed by the exchange rate
/// table from which the rate was computed, if there was one.
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
    locale: Option<Cow<'a, Locale>>,
    is_lifetime_asked: bool,
    notes: Option<NotesKept>,
    status: Status,
    settlement: Settlement,
    settlement_held: bool,
    review: Option<ReviewCause>,
    risk_review: bool,
    decision: Option<Cow<'a, ReviewDecision>>,
    vouched: bool,
    declines: u8,
    fee: Option<Minor>,
    fee_credited: Minor,
    fee_refundable: bool,
    fee_booked: Cow<'a, Booked>,
    short: Option<Cow<'a, (Minor, String)>>,
    refunded: Minor,
    uncertain_end: bool,
    last_booked: Time,
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
            locale: payment.locale.as_ref().map(Cow::Borrowed),
            is_lifetime_asked: payment.is_lifetime_asked,
            notes: payment.notes,
            status: payment.status,
            settlement: payment.settlement,
            settlement_held: payment.settlement_held,
            review: payment.review,
            risk_review: payment.risk_review,
            decision: payment.decision.as_deref().map(Cow::Borrowed),
            vouched: payment.vouched,
            declines: payment.declines,
            fee: payment.fee,
            fee_credited: payment.fee_credited,
            fee_refundable: payment.fee_refundable,
            fee_booked: Cow::Borrowed(&payment.fee_booked),
            short: payment.short.as_ref().map(Cow::Borrowed),
            refunded: payment.refunded,
            uncertain_end: payment.uncertain_end,
            last_booked: payment.last_booked,
            created_at: payment.created_at,
            completed_at: payment.completed_at,
            expires_at: payment.expires_at,
            claimed_until: payment.claimed_until,
            sealed: sealer.seal(&key, &secrets)?.into(),
            counters,
        };
        let row = match payment.rate_table {
            Some(table) => records::encode(sealer, &key, &(row, table))?,
            None => records::encode(sealer, &key, &row)?,
        };
        Ok((key, row))
    }

    /// Decodes a payment's row.
    pub(crate) fn decode(
        sealer: &Sealer,
        id: PaymentId,
        key: &[u8],
        row: &[u8],
    ) -> Result<Self, Fault> {
        let (row, rate_table): (Written<'_>, Option<TableRef>) =
            records::decode_with_more(sealer, key, row)?;
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
                locale: row.locale.map(Cow::into_owned),
                is_lifetime_asked: row.is_lifetime_asked,
                notes: row.notes,
                token: Secret::new(""),
                status: row.status,
                settlement: row.settlement,
                settlement_held: row.settlement_held,
                review: row.review,
                risk_review: row.risk_review,
                decision: row.decision.map(|decision| Box::new(decision.into_owned())),
                vouched: row.vouched,
                declines: row.declines,
                fee: row.fee,
                fee_credited: row.fee_credited,
                fee_refundable: row.fee_refundable,
                fee_booked: row.fee_booked.into_owned(),
                short: row.short.map(Cow::into_owned),
                refunded: row.refunded,
                uncertain_end: row.uncertain_end,
                last_booked: row.last_booked,
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
        row.map(|row| Self::decode(source.sealer(), id, &key, &row))
            .transpose()
    }

    /// Loads the row of a payment that must exist.
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

/// An attempt's row, without the data in its key and without sealed data.
#[derive(Serialize, Deserialize)]
struct AttemptRow<'a> {
    id: AttemptId,
    account: Cow<'a, AccountId>,
    slot: Cow<'a, Slot>,
    digest: Digest,
    method: MethodId,
    due: Money,
    queries: Cow<'a, Queries>,
    claim: Cow<'a, Claim>,
    references: Cow<'a, [String]>,
    vendor: Option<Cow<'a, ProviderFacts>>,
    particulars: Cow<'a, Particulars>,
    authorization: AuthorizationWatch,
    heard: Cow<'a, [(Via, ProviderStatus)]>,
    opened_at: Time,
    expires_at: Time,
    detail: Cow<'a, str>,
    sealed: Cow<'a, [u8]>,
}

#[derive(Serialize, Deserialize)]
struct AttemptSecrets<'a> {
    return_token: Cow<'a, Secret>,
    answers: Cow<'a, [(String, Secret)]>,
    payer: Cow<'a, Payer>,
    returned: Option<Cow<'a, Secret>>,
    /// Contains links and forms that let their holder pay, or identify the payer.
    stage: Cow<'a, Stage>,
    /// Contains reasons of refunds, and addresses at which their money can be claimed.
    funds: Cow<'a, Funds>,
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
        stage: Cow::Borrowed(&attempt.stage),
        funds: Cow::Borrowed(&attempt.funds),
    };
    let row = AttemptRow {
        id: attempt.id,
        account: Cow::Borrowed(&attempt.account),
        slot: Cow::Borrowed(&attempt.slot),
        digest: attempt.digest,
        method: attempt.method,
        due: attempt.due,
        queries: Cow::Borrowed(&attempt.queries),
        claim: Cow::Borrowed(&attempt.claim),
        references: Cow::Borrowed(&attempt.references),
        vendor: attempt.vendor.as_ref().map(Cow::Borrowed),
        particulars: Cow::Borrowed(&attempt.particulars),
        authorization: attempt.authorization,
        heard: Cow::Borrowed(&attempt.heard),
        opened_at: attempt.opened_at,
        expires_at: attempt.expires_at,
        detail: Cow::Borrowed(&attempt.detail),
        sealed: sealer.seal(&key, &secrets)?.into(),
    };
    let row = records::encode(sealer, &key, &row)?;
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
    let row: AttemptRow<'_> = records::decode(sealer, key, row)?;
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
        stage: secrets.stage.into_owned(),
        queries: row.queries.into_owned(),
        claim: row.claim.into_owned(),
        references: row.references.into_owned(),
        return_token: secrets.return_token.into_owned(),
        answers: secrets.answers.into_owned(),
        payer: secrets.payer.into_owned(),
        returned: secrets.returned.map(Cow::into_owned),
        vendor: row.vendor.map(Cow::into_owned),
        funds: secrets.funds.into_owned(),
        particulars: row.particulars.into_owned(),
        authorization: row.authorization,
        heard: row.heard.into_owned(),
        opened_at: row.opened_at,
        expires_at: row.expires_at,
        detail: row.detail.into_owned(),
    })
}

/// Error for a sealed part that cannot be opened.
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

/// The data by which an attempt is found.
pub(crate) struct AttemptLookup {
    pub(crate) id: AttemptId,
    pub(crate) account: AccountId,
    /// The provider's ids, and its additional references.
    pub(crate) references: Vec<String>,
}

impl AttemptKey {
    /// Reads the data by which the attempt is found.
    pub(crate) fn lookup(self, source: &impl RowSource) -> Result<AttemptLookup, Fault> {
        let key = schema::attempt(self.payment, self.ordinal);
        let row = attempt_row(source, &key)?;
        let row: AttemptRow<'_> = records::decode(source.sealer(), &key, &row)?;
        let mut references = row.references.into_owned();
        references.extend(row.particulars.into_owned().references);
        Ok(AttemptLookup {
            id: row.id,
            account: row.account.into_owned(),
            references,
        })
    }
}

/// An event's row, without the data in its key.
#[derive(Serialize, Deserialize)]
pub(crate) struct EventRow {
    pub(crate) id: EventId,
    pub(crate) kind: EventType,
    pub(crate) created_at: Time,
    status: Status,
    settlement: Settlement,
    subject: Option<Box<EventSubject>>,
    short: Option<(Minor, String)>,
}

/// The row of an event in its merchant's list.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ListedEvent {
    pub(crate) payment: PaymentId,
    pub(crate) ordinal: u16,
    pub(crate) kind: EventType,
}

impl EventRow {
    pub(crate) fn new(event: &Event) -> Self {
        Self {
            id: event.id,
            kind: event.kind,
            created_at: event.created_at,
            status: event.status,
            settlement: event.settlement,
            subject: event.subject.clone(),
            short: event.short.clone(),
        }
    }

    /// Key and row of the event in the list of a merchant and environment.
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
    pub(crate) fn event(self, payment: PaymentId) -> Event {
        Event {
            id: self.id,
            kind: self.kind,
            created_at: self.created_at,
            payment,
            status: self.status,
            settlement: self.settlement,
            subject: self.subject,
            short: self.short,
        }
    }
}

/// Progress of a rule of retention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reached {
    /// Position of the next payment.
    pub(crate) next: Position,
    /// Latest creation time of the payments before it.
    pub(crate) made_before: Time,
}

/// Progress of the rules, in the order of `retention::Rule::ALL`.
pub(crate) type AllReached = [Reached; 2];
