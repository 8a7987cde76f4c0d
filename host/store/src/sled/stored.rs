//! Payments and attempts as rows: what is secret or personal is sealed, the rest stands plain, so that
//! lists can be filtered without opening anything.

use std::borrow::Cow;

use ::sled::IVec;
use kassette_domain::attempt::Attempt;
use kassette_domain::id::{AttemptId, MerchantId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Minor, Money};
use kassette_domain::order::{Email, OrderId};
use kassette_domain::payment::{CheckoutMode, Origin, Payment, ReviewCause, Settlement, Status};
use kassette_domain::provider::{Action, Payer};
use kassette_domain::secret::Secret;
use kassette_domain::site::ReturnUrl;
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

use super::keys::{self, Key};
use super::records;
use super::rows::Source;
use super::seal::{EMAIL_MARK, Sealer, Unopened};
use crate::Fault;

/// What the store itself has to know of a payment, beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Books {
    /// How many attempts it has.
    pub(super) attempts: u8,
    /// Where in `due/` it stands.
    pub(super) due: Option<Due>,
    /// Lines of the timeline so far.
    pub(super) decisions: u16,
    /// The same for transitions.
    pub(super) transitions: u16,
    /// The same for events.
    pub(super) events: u16,
}

/// When something is due on a payment, and which row says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Due {
    /// A row of its own.
    Own(Time),
    /// The row of those it was made together with, which stands at this time or before.
    Together(Time),
}

impl Due {
    pub(super) const fn at(self) -> Time {
        match self {
            Self::Own(at) | Self::Together(at) => at,
        }
    }
}

/// A payment's row.
pub(super) struct PaymentRow {
    /// Without e-mail and token.
    plain: Payment,
    sealed: Vec<u8>,
    pub(super) books: Books,
}

/// A payment's row as it is written: what its key says is left out, and what is sealed.
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    merchant: MerchantId,
    origin: Cow<'a, Origin>,
    environment: Environment,
    order_id: Cow<'a, OrderId>,
    due: Money,
    usd: Minor,
    mode: CheckoutMode,
    requested_method: Option<MethodId>,
    method: Option<MethodId>,
    email_mark: Option<[u8; EMAIL_MARK]>,
    return_url: Option<Cow<'a, ReturnUrl>>,
    status: Status,
    settlement: Settlement,
    review: Option<ReviewCause>,
    risk_review: bool,
    declines: u8,
    fee: Option<Minor>,
    created_at: Time,
    expires_at: Time,
    claimed_until: Option<Time>,
    sealed: Cow<'a, [u8]>,
    books: Books,
}

#[derive(Serialize, Deserialize)]
struct PaymentSecrets<'a> {
    email: Option<Cow<'a, Email>>,
    token: Cow<'a, Secret>,
}

impl PaymentRow {
    /// Encodes a payment's row.
    pub(super) fn encode(
        sealer: &Sealer,
        payment: &Payment,
        books: Books,
    ) -> Result<(Key, IVec), Fault> {
        let key = keys::payment(payment.id);
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
            declines: payment.declines,
            fee: payment.fee,
            created_at: payment.created_at,
            expires_at: payment.expires_at,
            claimed_until: payment.claimed_until,
            sealed: sealer.seal(&key, &secrets)?.into(),
            books,
        };
        let row = records::encode(&key, &row)?;
        Ok((key, row))
    }

    /// Reads the row of a payment.
    pub(super) fn decode(id: PaymentId, key: &[u8], row: &[u8]) -> Result<Self, Fault> {
        let row: Written<'_> = records::decode(key, row)?;
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
                declines: row.declines,
                fee: row.fee,
                created_at: row.created_at,
                expires_at: row.expires_at,
                claimed_until: row.claimed_until,
            },
            sealed: row.sealed.into_owned(),
            books: row.books,
        })
    }

    /// Loads the row of a payment.
    pub(super) fn load(source: &impl Source, id: PaymentId) -> Result<Option<Self>, Fault> {
        let key = keys::payment(id);
        let row = source.get(&key)?;
        row.map(|row| Self::decode(id, &key, &row)).transpose()
    }

    /// Loads the row of a payment that must be there.
    pub(super) fn expect(source: &impl Source, id: PaymentId) -> Result<Self, Fault> {
        Self::load(source, id)?.ok_or_else(|| records::damaged(&keys::payment(id), "it is missing"))
    }

    /// The payment without e-mail and token, for filters.
    pub(super) const fn plain(&self) -> &Payment {
        &self.plain
    }

    /// Opens the row.
    pub(super) fn open(self, sealer: &Sealer) -> Result<(Payment, Books), Fault> {
        let key = keys::payment(self.plain.id);
        let secrets: PaymentSecrets<'_> = sealer
            .open(&key, &self.sealed)
            .map_err(|unopened| closed(&key, unopened))?;
        let mut payment = self.plain;
        payment.email = secrets.email.map(Cow::into_owned);
        payment.token = secrets.token.into_owned();
        Ok((payment, self.books))
    }
}

/// An attempt's row.
#[derive(Serialize, Deserialize)]
struct AttemptRow {
    /// Without what is in `AttemptSecrets`.
    plain: Attempt,
    sealed: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct AttemptSecrets {
    return_token: Secret,
    answers: Vec<(String, Secret)>,
    payer: Payer,
    returned: Option<Secret>,
    /// Links and forms that let anybody pay, or show who pays.
    action: Option<Action>,
}

/// Encodes an attempt's row.
pub(super) fn encode_attempt(
    sealer: &Sealer,
    attempt: &Attempt,
    ordinal: u8,
) -> Result<(Key, IVec), Fault> {
    let key = keys::attempt(attempt.payment, ordinal);
    let mut plain = attempt.clone();
    let secrets = AttemptSecrets {
        return_token: std::mem::replace(&mut plain.return_token, Secret::new("")),
        answers: std::mem::take(&mut plain.answers),
        payer: std::mem::take(&mut plain.payer),
        returned: plain.returned.take(),
        action: plain.action.take(),
    };
    let sealed = sealer.seal(&key, &secrets)?;
    let row = records::encode(&key, &AttemptRow { plain, sealed })?;
    Ok((key, row))
}

/// Reads one attempt of a payment.
pub(super) fn load_attempt(
    source: &impl Source,
    sealer: &Sealer,
    payment: PaymentId,
    ordinal: u8,
) -> Result<Attempt, Fault> {
    let key = keys::attempt(payment, ordinal);
    let row = source
        .get(&key)?
        .ok_or_else(|| records::damaged(&key, "it is missing"))?;
    open_attempt(sealer, &key, &row)
}

/// Opens an attempt's row.
pub(super) fn open_attempt(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<Attempt, Fault> {
    let row: AttemptRow = records::decode(key, row)?;
    let secrets: AttemptSecrets = sealer
        .open(key, &row.sealed)
        .map_err(|unopened| closed(key, unopened))?;
    let mut attempt = row.plain;
    attempt.return_token = secrets.return_token;
    attempt.answers = secrets.answers;
    attempt.payer = secrets.payer;
    attempt.returned = secrets.returned;
    attempt.action = secrets.action;
    Ok(attempt)
}

/// A sealed part that does not open.
pub(super) fn closed(key: &[u8], unopened: Unopened) -> Fault {
    records::damaged(
        key,
        match unopened {
            Unopened::OtherKey => "it is sealed under another master key",
            Unopened::Damaged => "its sealed part does not open",
        },
    )
}

/// Where an attempt stands.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct AttemptPlace {
    pub(super) attempt: AttemptId,
    pub(super) payment: PaymentId,
}

/// A parked notice.
#[derive(Serialize, Deserialize)]
pub(super) struct ParkedNotice {
    pub(super) report: Option<kassette_domain::provider::Report>,
    pub(super) until: Time,
}
