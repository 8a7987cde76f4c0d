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

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::event::Event;
use kassette_domain::id::{AccountId, AttemptId, PaymentId, WorkId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{NewRefund, NewWork, PaymentAggregate, QuerySchedule, Step};
use kassette_domain::payment::{NewPayment, Payment, Request};
use kassette_domain::provider::Report;
use kassette_domain::time::Time;
use kassette_domain::work::WorkItem;
use kassette_engine::Span;
use serde::de::DeserializeOwned;

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
use crate::sled::payments::works::{UnknownMoney, WorkDone};
use crate::sled::store::SledStore;
use crate::{
    About, Created, EventsAsked, Fault, History, KeptCallback, Listed, MAX_DUE, Paging,
    PaymentFilter, Payments, RefundOrdered, Stepped, StoreFuture,
};

impl Payments for SledStore {
    fn replay(&self, request: Request) -> StoreFuture<'_, Option<Created>> {
        let secrets = Arc::clone(&self.secrets);
        // Most requests are new: the index in memory has nothing of them.
        self.read_payments(move |payments| {
            let reference = secrets.marker.reference(request.merchant, &request.origin);
            let found = payments.found(LookupKey::Reference, reference)?;
            let load = |id| Ok(payments.expect(id)?.payment);
            replay(found, &request, load, || secrets.email_mark(&request))
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

    fn unknown_money(&self, found: NewWork, now: Time) -> StoreFuture<'_, ()> {
        self.operate(UnknownMoney { found, now })
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
                // Where the store cannot be read, the operation says why.
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
                    // The others are claimed all the same.
                    Err(_) if before > 0 => None,
                    Err(fault) => return Err(fault),
                };
                match rest {
                    // Of those that were made long ago most are over: a caller that has some need not wait.
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
                if TokenHash::of(cached.payment.token.expose()) == token {
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
                let is_its = TokenHash::of(attempt.return_token.expose()) == token;
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
            // A step that is written meanwhile adds lines behind those that the payment's row counts.
            let decisions = schema::lines(id, Line::Decision);
            let transitions = schema::lines(id, Line::Transition);
            let events: Vec<EventRow> = self.first(&schema::events(id), counters.events).await?;
            Ok(Some(History {
                decisions: self.first(&decisions, counters.decisions).await?,
                transitions: self.first(&transitions, counters.transitions).await?,
                events: events.into_iter().map(|row| row.event(id)).collect(),
                aggregate,
            }))
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
                let listed: ListedEvent = records::decode(key, row)?;
                if asked.kind.is_some_and(|kind| kind != listed.kind) {
                    return Ok(None);
                }
                let event: EventRow =
                    view.expect(&schema::event(listed.payment, listed.ordinal))?;
                let payment = PaymentRow::expect(view, listed.payment)?
                    .open(&secrets.sealer)?
                    .0;
                Ok(Some((event.event(listed.payment), payment)))
            },
        )
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
                    records::decode(key, row).map(Some)
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
    /// Values under a prefix that are numbered, in order, as far as there are any before a number.
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
            .map(|(key, row)| records::decode(key, row))
            .collect()
    }
}
