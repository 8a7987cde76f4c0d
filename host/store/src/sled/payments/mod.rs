//! `Payments` on sled.

pub(crate) mod aggregates;
pub(crate) mod checks;
pub(crate) mod create;
pub(crate) mod pending_callbacks;
mod reader;
pub(crate) mod refunds;
pub(crate) mod search;
pub(crate) mod step;
pub(crate) mod timers;
pub(crate) mod works;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::Event;
use kassette_domain::extras::Notes;
use kassette_domain::id::{AccountId, AttemptId, PaymentId, WorkId};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::lifecycle::{NewRefund, NewWork, PaymentAggregate, QuerySchedule, Step};
use kassette_domain::movement::Movement;
use kassette_domain::payment::{NewPayment, Payment, Request};
use kassette_domain::provider::Report;
use kassette_domain::time::Time;
use kassette_domain::work::{WorkItem, WorkKey};
use kassette_engine::Span;
use serde::de::DeserializeOwned;

use crate::rows::notes;
use crate::rows::records;
use crate::rows::schema::{self, Line};
use crate::rows::seal::fingerprint;
use crate::rows::source::RowSource;
use crate::rows::stored::{AttemptKey, EventRow, ListedEvent, PaymentRow};
use crate::sled::lists::{Order, TIME_AND_ID};
use crate::sled::memory::payment_index::LookupKey;
use crate::sled::payments::aggregates::Loaded;
use crate::sled::payments::create::{Create, replay};
use crate::sled::payments::pending_callbacks::KeepCallback;
use crate::sled::payments::refunds::OrderRefund;
use crate::sled::payments::step::DoStep;
use crate::sled::payments::timers::{ClaimDue, NextDue, Settled};
use crate::sled::payments::works::{CloseWork, OpenWork, WorkDone};
use crate::sled::store::SledStore;
use crate::{
    About, Created, EventsAsked, Fault, FoundId, History, IdPrefix, KeptCallback, Listed, MAX_DUE,
    Paging, PaymentFilter, Payments, RefundOrdered, Stepped, StoreFuture,
};

impl Payments for SledStore {
    fn replay(&self, request: Request) -> StoreFuture<'_, Option<Created>> {
        let secrets = Arc::clone(&self.secrets);
        // For most requests, which are new, the index in memory has no match.
        self.read_payments(move |payments| {
            let reference = secrets.marker.reference(request.merchant, &request.origin);
            let found = payments.found(LookupKey::Reference, reference)?;
            let load = |id| Ok(payments.expect(id)?.payment);
            let notes = || secrets.notes_kept(&request.extras.notes);
            replay(
                found,
                &request,
                load,
                (|| secrets.email_mark(&request), notes),
            )
        })
    }

    fn create(
        &self,
        new: NewPayment,
        authority: Option<TokenHash>,
        now: Time,
    ) -> StoreFuture<'_, Created> {
        Box::pin(async move {
            let create = Create::prepare(&self.secrets, new, authority, now)?;
            self.operate(create).await
        })
    }

    fn step(
        &self,
        about: About,
        step: Step,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Stepped> {
        self.operate_ringing(DoStep {
            about,
            step,
            audited,
            now,
            schedule: self.schedule.load_full(),
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn refund(
        &self,
        payment: PaymentId,
        new: NewRefund,
        authority: Option<TokenHash>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, RefundOrdered> {
        self.operate(OrderRefund {
            payment,
            new,
            authority,
            audited,
            now,
            schedule: self.schedule.load_full(),
            secrets: Arc::clone(&self.secrets),
        })
    }

    fn set_schedule(&self, schedule: QuerySchedule) {
        self.schedule.store(Arc::new(schedule));
    }

    fn unknown_money(&self, found: NewWork, movement: Movement, now: Time) -> StoreFuture<'_, ()> {
        let environment = movement.environment;
        self.operate(OpenWork {
            found,
            environment,
            movement: Some(movement),
            now,
        })
    }

    fn open_work(
        &self,
        found: NewWork,
        environment: Environment,
        now: Time,
    ) -> StoreFuture<'_, ()> {
        self.operate(OpenWork {
            found,
            environment,
            movement: None,
            now,
        })
    }

    fn close_work(&self, key: WorkKey, now: Time) -> StoreFuture<'_, ()> {
        self.operate(CloseWork { key, now })
    }

    fn keep_callback(
        &self,
        account: AccountId,
        reference: String,
        report: Option<Report>,
        now: Time,
    ) -> StoreFuture<'_, KeptCallback> {
        self.operate(KeepCallback {
            account,
            reference,
            report,
            now,
        })
    }

    fn claim_due(
        &self,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> StoreFuture<'_, Vec<PaymentId>> {
        let at_most = at_most.min(MAX_DUE);
        Box::pin(async move {
            let (mut claimed, mut from) = (Vec::new(), Time::default());
            loop {
                let before = claimed.len();
                let mut settled = Settled::new(from, now);
                let settled = self.read_aside(move |view| settled.go_on(view)).await;
                // If the store cannot be read, the following operation reports the failure.
                let settled = settled.unwrap_or_default();
                let part = self.operate(ClaimDue {
                    now,
                    lease,
                    at_most,
                    from,
                    claimed: claimed.clone(),
                    settled,
                    secrets: Arc::clone(&self.secrets),
                });
                let rest = match part.await {
                    Ok(part) => {
                        claimed = part.claimed;
                        part.rest
                    }
                    // The payments claimed so far are returned.
                    Err(_) if before > 0 => None,
                    Err(fault) => return Err(fault),
                };
                match rest {
                    // Most payments created long ago have ended, so a caller that already has some need not
                    // wait.
                    Some(rest) if before == 0 || claimed.len() > before => from = rest,
                    _ => return Ok(claimed),
                }
            }
        })
    }

    fn next_due(&self) -> StoreFuture<'_, Option<Time>> {
        let mut next = NextDue::default();
        self.read_aside(move |view| next.go_on(view))
    }

    fn payment(&self, id: PaymentId) -> StoreFuture<'_, Option<Arc<Payment>>> {
        self.read_payments(move |payments| Ok(payments.load(id)?.map(|cached| cached.payment)))
    }

    fn aggregate(&self, about: About) -> StoreFuture<'_, Option<PaymentAggregate>> {
        self.read_payments(
            move |payments| match aggregates::resolve(payments.view, &about)? {
                Some(id) => Ok(payments.load(id)?.map(|cached| cached.aggregate())),
                None => Ok(None),
            },
        )
    }

    fn by_checkout(&self, token: TokenHash) -> StoreFuture<'_, Option<PaymentAggregate>> {
        self.read_payments(move |payments| {
            for id in payments.found(LookupKey::Token, fingerprint(token.0))? {
                let cached = payments.expect(id)?;
                if TokenHash::hash(cached.payment.token.expose()) == token {
                    return Ok(Some(cached.aggregate()));
                }
            }
            Ok(None)
        })
    }

    fn by_return(
        &self,
        token: TokenHash,
    ) -> StoreFuture<'_, Option<(AttemptId, PaymentAggregate)>> {
        self.read_payments(move |payments| {
            let attempt_key: Option<AttemptKey> = payments.view.load(&schema::returning(token))?;
            let Some(attempt_key) = attempt_key else {
                return Ok(None);
            };
            let cached = payments.load(attempt_key.payment)?;
            Ok(cached.and_then(|cached| {
                let aggregate = cached.aggregate();
                let attempt = aggregate.attempts.get(usize::from(attempt_key.ordinal))?;
                let is_its = TokenHash::hash(attempt.return_token.expose()) == token;
                is_its.then_some((attempt.id, aggregate))
            }))
        })
    }

    fn history(&self, id: PaymentId) -> StoreFuture<'_, Option<History>> {
        Box::pin(async move {
            let secrets = Arc::clone(&self.secrets);
            let loaded = self.read(move |view| aggregates::load(view, &secrets.sealer, id));
            let Some(Loaded {
                aggregate,
                counters,
            }) = loaded.await?
            else {
                return Ok(None);
            };
            // A step that is written in the meantime adds lines after those that the payment's row counts.
            let decisions = schema::lines(id, Line::Decision);
            let transitions = schema::lines(id, Line::Transition);
            let events: Vec<EventRow> = self.first(&schema::events(id), counters.events).await?;
            let notes = self.notes(vec![id]).await?.remove(&id);
            Ok(Some(History {
                decisions: self.first(&decisions, counters.decisions).await?,
                transitions: self.first(&transitions, counters.transitions).await?,
                events: events.into_iter().map(|row| row.event(id)).collect(),
                notes: notes.unwrap_or_default(),
                aggregate,
            }))
        })
    }

    fn notes(&self, payments: Vec<PaymentId>) -> StoreFuture<'_, HashMap<PaymentId, Notes>> {
        let secrets = Arc::clone(&self.secrets);
        let (mut payments, mut read) = (payments.into_iter(), HashMap::new());
        self.read_aside(move |view| {
            while !view.is_enough() {
                let Some(id) = payments.next() else {
                    return Ok(ControlFlow::Break(std::mem::take(&mut read)));
                };
                let key = schema::notes(id);
                if let Some(row) = view.get(&key)? {
                    read.insert(id, notes::decode(&secrets.sealer, &key, &row)?);
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn payments(&self, filter: PaymentFilter, paging: Paging) -> StoreFuture<'_, Listed<Payment>> {
        self.search(filter, paging)
    }

    fn events(
        &self,
        asked: EventsAsked,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<(Event, Payment)>> {
        let (merchant, environment) = (asked.merchant, asked.environment);
        if asked.payments.is_some() {
            return Box::pin(self.events_of_payments(asked, paging));
        }
        let prefix = schema::listed_events(merchant, environment);
        let mut span = Span::prefix(&prefix);
        if let Some(since) = asked.since {
            span = span.since(&schema::listed_events_since(merchant, environment, since));
        }
        let secrets = Arc::clone(&self.secrets);
        let of = (&prefix[..], TIME_AND_ID);
        self.list_in(
            span,
            of,
            Order::Backwards,
            &paging,
            move |view, key, row| {
                let listed: ListedEvent = records::decode(view.sealer(), key, row)?;
                if asked.kind.is_some_and(|kind| kind != listed.kind) {
                    return Ok(None);
                }
                let event: EventRow =
                    view.expect(&schema::event(listed.payment, listed.ordinal))?;
                if !asked.fits(event.kind, event.created_at) {
                    return Ok(None);
                }
                let payment = PaymentRow::expect(view, listed.payment)?
                    .open(&secrets.sealer)?
                    .0;
                Ok(Some((event.event(listed.payment), payment)))
            },
        )
    }

    fn find_ids(&self, prefix: IdPrefix) -> StoreFuture<'_, Vec<FoundId>> {
        self.ids(prefix)
    }

    fn accounts_in_use(&self) -> StoreFuture<'_, Vec<AccountId>> {
        self.accounts(schema::IN_USE)
    }

    fn work(&self, open: bool, paging: Paging) -> StoreFuture<'_, Listed<WorkItem>> {
        let prefix = if open {
            schema::OPEN_WORK
        } else {
            schema::ALL_WORK
        };
        let order = Order::Keys;
        self.list(
            prefix,
            TIME_AND_ID,
            order,
            &paging,
            move |view, key, row| {
                if open {
                    view.expect(&schema::work_of_open(key)).map(Some)
                } else {
                    records::decode(view.sealer(), key, row).map(Some)
                }
            },
        )
    }

    fn work_item(&self, id: WorkId) -> StoreFuture<'_, Option<WorkItem>> {
        self.read(move |view| works::item(view, id))
    }

    fn work_done(
        &self,
        id: WorkId,
        audited: Audited,
        now: Time,
    ) -> StoreFuture<'_, Option<WorkItem>> {
        self.operate(WorkDone { id, audited, now })
    }
}

impl SledStore {
    /// One page of the events of some payments, which may belong to different merchants.
    async fn events_of_payments(
        &self,
        asked: EventsAsked,
        paging: Paging,
    ) -> Result<Listed<(Event, Payment)>, Fault> {
        let prefix = schema::listed_events(asked.merchant, asked.environment);
        let secrets = Arc::clone(&self.secrets);
        let found = self.read_aside(move |view| {
            let mut found = HashMap::new();
            for id in asked.payments.iter().flatten() {
                let Some(loaded) = aggregates::load(view, &secrets.sealer, *id)? else {
                    continue;
                };
                let payment = loaded.aggregate.payment;
                if (payment.merchant, payment.environment) != (asked.merchant, asked.environment) {
                    continue;
                }
                for ordinal in 0..loaded.counters.events {
                    let row: EventRow = view.expect(&schema::event(*id, ordinal))?;
                    if asked.fits(row.kind, row.created_at) {
                        let event = row.event(*id);
                        let (merchant, environment) = (asked.merchant, asked.environment);
                        let key =
                            schema::listed_event(merchant, environment, event.created_at, event.id);
                        found.insert(key, (event, payment.clone()));
                    }
                }
            }
            Ok(ControlFlow::Break(found))
        });
        let mut found = found.await?;
        let keys = found.keys().cloned().collect();
        let list = (&prefix[..], TIME_AND_ID);
        self.page_of((keys, None), list, &paging, move |_, key| {
            Ok(found.remove(key))
        })
        .await
    }

    /// The numbered values under a prefix, in order, up to a number.
    async fn first<T: DeserializeOwned>(&self, prefix: &[u8], end: u16) -> Result<Vec<T>, Fault> {
        let end_key = [prefix, &end.to_be_bytes()].concat();
        let rows = self
            .rows_of(
                Span::prefix(prefix).before(&end_key),
                Order::Keys,
                end.into(),
            )
            .await?;
        rows.iter()
            .map(|(key, row)| records::decode(&self.secrets.sealer, key, row))
            .collect()
    }
}
