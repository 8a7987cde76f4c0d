//! Payments and attempts as rows: what is secret or personal is sealed, the rest stands plain, so that
//! lists can be filtered without opening anything.

use ::sled::IVec;
use kassette_domain::attempt::Attempt;
use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::order::Email;
use kassette_domain::payment::Payment;
use kassette_domain::provider::{Action, Payer};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

use super::keys::{self, Key};
use super::records;
use super::rows::Source;
use super::seal::{Sealer, Unopened};
use crate::Fault;

/// What the store itself has to know of a payment, beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Books {
    /// How many attempts it has.
    pub(super) attempts: u8,
    /// Where its row in `due/` stands.
    pub(super) due: Option<Time>,
    /// Lines of the timeline so far.
    pub(super) decisions: u16,
    /// The same for transitions.
    pub(super) transitions: u16,
    /// The same for events.
    pub(super) events: u16,
}

/// A payment's row.
#[derive(Serialize, Deserialize)]
pub(super) struct PaymentRow {
    /// Without e-mail and token.
    plain: Payment,
    sealed: Vec<u8>,
    pub(super) books: Books,
}

#[derive(Serialize, Deserialize)]
struct PaymentSecrets {
    email: Option<Email>,
    token: Secret,
}

impl PaymentRow {
    /// Encodes a payment's row.
    pub(super) fn encode(
        sealer: &Sealer,
        payment: &Payment,
        books: Books,
    ) -> Result<(Key, IVec), Fault> {
        let key = keys::payment(payment.id);
        let mut plain = payment.clone();
        let secrets = PaymentSecrets {
            email: plain.email.take(),
            token: std::mem::replace(&mut plain.token, Secret::new("")),
        };
        let row = Self {
            plain,
            sealed: sealer.seal(&key, &secrets)?,
            books,
        };
        let row = records::encode(&key, &row)?;
        Ok((key, row))
    }

    /// The payment without e-mail and token, for filters.
    pub(super) const fn plain(&self) -> &Payment {
        &self.plain
    }

    /// Opens the row.
    pub(super) fn open(self, sealer: &Sealer) -> Result<(Payment, Books), Fault> {
        let key = keys::payment(self.plain.id);
        let secrets: PaymentSecrets = sealer
            .open(&key, &self.sealed)
            .map_err(|unopened| closed(&key, unopened))?;
        let mut payment = self.plain;
        payment.email = secrets.email;
        payment.token = secrets.token;
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
    let row: AttemptRow = source.expect(&key)?;
    let secrets: AttemptSecrets = sealer
        .open(&key, &row.sealed)
        .map_err(|unopened| closed(&key, unopened))?;
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
