//! Creates payments in batches, exactly one per reference.
//!
//! Each statement inserts a batch in the order of references, so that two nodes cannot deadlock, and checks the
//! caller's API key. Payments that were not inserted are examined one by one: they exist already or are not
//! allowed. The gateway has checked the authenticated bodies; columns only detect later changes, and can only
//! refuse.

use std::collections::HashSet;
use std::sync::Arc;

use kassette_domain::id::PaymentId;
use kassette_domain::key::{KeyOwner, TokenHash};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::payment::{NewPayment, Origin, Payment, Request};
use kassette_domain::time::Time;

use crate::postgres::batches::Commit;
use crate::postgres::columns::payment_id;
use crate::postgres::database::{Database, Failure, Tries};
use crate::postgres::directory::keys;
use crate::postgres::payments::stored::{self, COLUMNS, DECISION, FROM, NOTES};
use crate::postgres::statement::column;
use crate::postgres::{millis, number, resellers, uuid};
use crate::rows::notes;
use crate::rows::records;
use crate::rows::schema::{self, Line};
use crate::rows::seal::{SearchMark, Secrets};
use crate::rows::stored::{PaymentCounters, PaymentRow};
use crate::{Created, Fault, SearchKey};

/// Maximum number of payments in one batch.
pub(crate) const AT_ONCE: usize = 64;

const INSERT: &str = "WITH v AS MATERIALIZED (SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bytea[],
        $5::bigint[], $6::smallint[], $7::bigint[], $8::bytea[], $9::bytea[], $10::smallint[], $11::bytea[], $12::bigint[],
        $13::bytea[], $14::bytea[], $16::bytea[], $17::bytea[], $18::bytea[])
        AS v (id, owner_kind, owner, reference, merchant, environment, created_at, order_id, token_hash, status, body, due,
            decision, authority, amount_mark, email_mark, notes)),
    made AS (INSERT INTO payment (id, owner_kind, owner, reference, merchant, environment, created_at, order_id,
            token_hash, status, body)
        SELECT id, owner_kind, owner, reference, merchant, environment, created_at, order_id, token_hash, status, body
        FROM v WHERE authority IS NULL OR (
            EXISTS (SELECT FROM api_key k WHERE k.hash = v.authority AND NOT k.revoked
                AND (k.expires_at IS NULL OR v.created_at < k.expires_at)
                AND k.owner_kind = v.owner_kind AND k.owner = v.owner AND k.environment = v.environment)
            AND (owner_kind = 0 OR
                EXISTS (SELECT FROM reseller r JOIN delegation g ON g.reseller = r.id AND g.merchant = v.merchant
                    WHERE r.id = v.owner AND g.authorized AND (v.environment = 0 OR r.live_rollout))
                AND (v.environment = 0 OR EXISTS (SELECT FROM merchant m WHERE m.id = v.merchant AND m.live_approved))))
        ORDER BY owner_kind, owner, reference
        ON CONFLICT ON CONSTRAINT payment_reference DO NOTHING RETURNING id, number),
    marks AS (INSERT INTO search_mark (mark, created_at, number, payment)
        SELECT v.amount_mark, v.created_at, made.number, v.id FROM made JOIN v USING (id)
        UNION ALL SELECT v.email_mark, v.created_at, made.number, v.id FROM made JOIN v USING (id)
        WHERE v.email_mark IS NOT NULL),
    timers AS (INSERT INTO due (payment, due_at) SELECT v.id, v.due FROM made JOIN v USING (id) WHERE v.due IS NOT NULL),
    lines AS (INSERT INTO timeline (payment, kind, ordinal, body)
        SELECT v.id, $15::smallint, 0, v.decision FROM made JOIN v USING (id) WHERE v.decision IS NOT NULL
        UNION ALL SELECT v.id, $19::smallint, 0, v.notes FROM made JOIN v USING (id) WHERE v.notes IS NOT NULL)
    SELECT id FROM made";

/// A creation with everything prepared in advance, because sealing takes longer than all other steps.
pub(crate) struct Create {
    request: Request,
    payment: Payment,
    authority: Option<TokenHash>,
    now: Time,
    reference: (i16, i64, Vec<u8>),
    due: Option<i64>,
    body: Vec<u8>,
    decision: Option<Vec<u8>>,
    notes: Option<Vec<u8>>,
    token: [u8; 32],
    amount_mark: Option<SearchMark>,
    email_mark: Option<SearchMark>,
}

impl Create {
    pub(crate) fn prepare(
        secrets: &Secrets,
        mut new: NewPayment,
        authority: Option<TokenHash>,
        now: Time,
    ) -> Result<Self, Fault> {
        let request = new.request.clone();
        let decision = new.decision.take();
        let email_mark = secrets.email_mark(&request);
        let notes = notes::encode(&secrets.sealer, new.id, &request.extras.notes)?;
        let mut payment = Payment::new(new, email_mark, now);
        payment.notes = secrets.notes_kept(&request.extras.notes);
        let aggregate = PaymentAggregate::new(payment);
        let due = aggregate.due_at().map(millis);
        let payment = aggregate.payment;
        let counters = PaymentCounters {
            decisions: u16::from(decision.is_some()),
            ..PaymentCounters::default()
        };
        let line = schema::line(payment.id, Line::Decision, 0);
        let decision = decision
            .map(|decision| records::encode(&secrets.sealer, &line, &decision))
            .transpose()?;
        Ok(Self {
            reference: stored::origin(request.merchant, &request.origin),
            due,
            body: PaymentRow::encode(&secrets.sealer, &payment, counters)?
                .1
                .to_vec(),
            decision: decision.map(|decision| decision.to_vec()),
            notes: notes.map(|(_, row)| row.to_vec()),
            token: TokenHash::hash(payment.token.expose()).0,
            amount_mark: secrets.marker.search(&SearchKey::Amount(payment.due)),
            email_mark: payment
                .email
                .clone()
                .and_then(|email| secrets.marker.search(&SearchKey::Email(email))),
            request,
            payment,
            authority,
            now,
        })
    }

    /// Reason why the calling key must not create the payment.
    async fn refused(&self, database: &Database) -> Result<Option<Created>, Fault> {
        let Some(hash) = self.authority else {
            return Ok(None);
        };
        let request = &self.request;
        let owner = match request.origin {
            Origin::Merchant { .. } => KeyOwner::Merchant(request.merchant),
            Origin::Reseller { reseller, .. } => KeyOwner::Reseller(reseller),
        };
        if !keys::may_use(database, hash, owner, request.environment, self.now).await? {
            return Ok(Some(Created::KeyRefused));
        }
        let Origin::Reseller { reseller, .. } = request.origin else {
            return Ok(None);
        };
        let bars =
            resellers::bars_creation(database, reseller, request.merchant, request.environment);
        Ok(bars.await?.map(Created::Barred))
    }
}

/// The outcome and payment id for a request that repeats an earlier one. `None` if the request is new.
pub(crate) async fn replay(
    database: &Database,
    secrets: &Secrets,
    request: &Request,
) -> Result<Option<(PaymentId, Created)>, Fault> {
    let (kind, owner, reference) = stored::origin(request.merchant, &request.origin);
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE p.owner_kind = $1 AND p.owner = $2 AND p.reference = $3"
    );
    let Some(row) = database
        .read_one(&sql, &[&kind, &owner, &reference])
        .await?
    else {
        return Ok(None);
    };
    let payment = stored::payment(&secrets.sealer, &row)?;
    let id = payment.id;
    Ok(Some(
        match payment.differs(
            request,
            secrets.email_mark(request),
            secrets.notes_kept(&request.extras.notes),
        ) {
            Some(field) => (id, Created::Differs { field }),
            None => (id, Created::Replay(payment)),
        },
    ))
}

/// Result of a batch's statement for a creation that is then processed individually.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Began {
    /// The statement succeeded, but did not insert it.
    Inserted,
    /// The statement's answer was lost, so it may have inserted it.
    Lost,
    /// The statement failed and inserted nothing.
    Anew,
}

/// Creates payments.
pub(crate) struct Creating {
    pub(crate) database: Database,
    pub(crate) secrets: Arc<Secrets>,
}

impl Commit for Creating {
    type Request = Create;
    type Answer = Created;

    async fn commit(&self, batch: Vec<Create>) -> Vec<Result<Created, Fault>> {
        let (made, began) = match self.insert(&batch).await {
            Ok(made) => (made, Began::Inserted),
            // If a lock could not be acquired in time, individual tries would wait as long.
            Err(failure @ (Failure::Unreachable(_) | Failure::Late)) => {
                let fault = failure.fault();
                return batch.iter().map(|_| Err(fault.clone())).collect();
            }
            // One payment that cannot be created must not block the others of the batch.
            Err(Failure::Lost) => (HashSet::new(), Began::Lost),
            Err(_) => (HashSet::new(), Began::Anew),
        };
        let mut answers = Vec::with_capacity(batch.len());
        let mut given_up = None;
        for create in batch {
            if made.contains(&create.payment.id) {
                answers.push(Ok(Created::New(create.payment)));
                continue;
            }
            let answer = match &given_up {
                None => self.one(create, began).await,
                Some(fault) => Err(Failure::Fault(Fault::clone(fault))),
            };
            answers.push(answer.map_err(|failure| match failure {
                // If the batch's answer was lost, the outcome of this payment is unknown too.
                Failure::Unreachable(_) | Failure::Late | Failure::Lost if began == Began::Lost => {
                    given_up.insert(Fault::Stopping).clone()
                }
                failure @ (Failure::Unreachable(_) | Failure::Late) => {
                    given_up.insert(failure.fault()).clone()
                }
                failure => failure.fault(),
            }));
        }
        answers
    }
}

impl Creating {
    /// Inserts the payments that are allowed and new; returns their ids.
    async fn insert(&self, batch: &[Create]) -> Result<HashSet<PaymentId>, Failure> {
        let rows = self
            .database
            .write(
                INSERT,
                &[
                    &column(batch, |each| uuid(each.payment.id.as_bytes())),
                    &column(batch, |each| each.reference.0),
                    &column(batch, |each| each.reference.1),
                    &column(batch, |each| &each.reference.2[..]),
                    &column(batch, |each| number(each.payment.merchant.0)),
                    &column(batch, |each| keys::environment(each.payment.environment)),
                    &column(batch, |each| millis(each.payment.created_at)),
                    &column(batch, |each| each.payment.order_id.as_str().as_bytes()),
                    &column(batch, |each| &each.token[..]),
                    &column(batch, |each| stored::status(each.payment.status)),
                    &column(batch, |each| &each.body[..]),
                    &column(batch, |each| each.due),
                    &column(batch, |each| each.decision.as_deref()),
                    &column(batch, |each| {
                        each.authority.as_ref().map(|hash| &hash.0[..])
                    }),
                    &DECISION,
                    &column(batch, |each| {
                        each.amount_mark.as_ref().map(|mark| &mark[..])
                    }),
                    &column(batch, |each| each.email_mark.as_ref().map(|mark| &mark[..])),
                    &column(batch, |each| each.notes.as_deref()),
                    &NOTES,
                ],
            )
            .await?;
        Ok(rows.iter().map(|row| payment_id(row, 0)).collect())
    }

    async fn replay(&self, create: &Create) -> Result<Option<(PaymentId, Created)>, Failure> {
        let found = replay(&self.database, &self.secrets, &create.request).await;
        found.map_err(of_read)
    }

    /// Creates one payment, or returns the reason why not.
    async fn one(&self, create: Create, began: Began) -> Result<Created, Failure> {
        let mut tries = Tries::new();
        tries.lost = began == Began::Lost;
        let mut tried = began == Began::Inserted;
        loop {
            if !tried {
                match self.insert(std::slice::from_ref(&create)).await {
                    Ok(made) if made.is_empty() => {}
                    Ok(_) => return Ok(Created::New(create.payment)),
                    Err(failure @ Failure::Lost) => {
                        tries.again(&failure).await.map_err(|_| failure)?;
                        continue;
                    }
                    // A payment of the same reference and token was created concurrently.
                    Err(Failure::Duplicate(rule)) => {
                        if self.replay(&create).await?.is_none() {
                            return Err(Failure::Duplicate(rule));
                        }
                    }
                    Err(failure) => return Err(failure),
                }
            }
            let made_before = self.replay(&create).await?;
            // Created by a try of this call whose answer was lost.
            if let Some((id, Created::Replay(payment))) = &made_before
                && tries.lost
                && *id == create.payment.id
            {
                self.database.confirm().await?;
                return Ok(Created::New(payment.clone()));
            }
            let refused = create.refused(&self.database).await.map_err(of_read)?;
            if let Some(refused) = refused {
                return Ok(refused);
            }
            match made_before {
                Some((_, made_before)) => return Ok(made_before),
                // The conflicting row no longer exists.
                None => tries.again(&Failure::Stale).await?,
            }
            tried = false;
        }
    }
}

/// Why reading failed: a damaged row, otherwise an unreachable database.
fn of_read(fault: Fault) -> Failure {
    match fault {
        Fault::Corrupt(_) => Failure::Fault(fault),
        fault => Failure::Unreachable(fault),
    }
}
