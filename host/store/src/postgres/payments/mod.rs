//! `Payments` on PostgreSQL.

pub(crate) mod callbacks;
pub(crate) mod create;
mod events;
mod refunds;
pub(crate) mod search;
mod step;
pub(crate) mod stored;
mod timers;
mod work;

use std::collections::HashMap;
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
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use crate::postgres::columns::payment_id;
use crate::postgres::payments::create::{Create, replay};
use crate::postgres::payments::refunds::OrderRefund;
use crate::postgres::payments::step::DoStep;
use crate::postgres::payments::stored::{COLUMNS, DECISION, EVENT, FROM, NOTES, TRANSITION};
use crate::postgres::payments::work::{WorkDone, Works};
use crate::postgres::{PostgresStore, uuid};
use crate::rows::notes;
use crate::rows::records;
use crate::rows::schema::{self, Key, Line};
use crate::rows::seal::Sealer;
use crate::rows::stored::EventRow;
use crate::{
    About, Created, EventsAsked, Fault, FoundId, History, IdPrefix, KeptCallback, Listed, Paging,
    PaymentFilter, Payments, RefundOrdered, Stepped, StoreFuture,
};

impl Payments for PostgresStore {
    fn replay(&self, request: Request) -> StoreFuture<'_, Option<Created>> {
        Box::pin(async move {
            let found = replay(&self.requests, &self.secrets, &request).await?;
            Ok(found.map(|(_, created)| created))
        })
    }

    fn create(
        &self,
        new: NewPayment,
        authority: Option<TokenHash>,
        now: Time,
    ) -> StoreFuture<'_, Created> {
        self.run_to_end(async move |store| {
            let create = Create::prepare(&store.secrets, new, authority, now)?;
            store.creating.commit(create).await
        })
    }

    fn step(
        &self,
        about: About,
        step: Step,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, Stepped> {
        let asked = DoStep {
            about,
            step,
            audited,
            now,
        };
        self.run_to_end(async move |store| store.do_step(asked).await)
    }

    fn refund(
        &self,
        payment: PaymentId,
        new: NewRefund,
        authority: Option<TokenHash>,
        audited: Option<Audited>,
        now: Time,
    ) -> StoreFuture<'_, RefundOrdered> {
        let asked = OrderRefund {
            payment,
            new,
            authority,
            audited,
            now,
        };
        self.run_to_end(async move |store| store.order_refund(asked).await)
    }

    fn set_schedule(&self, schedule: QuerySchedule) {
        self.schedule.store(Arc::new(schedule));
    }

    fn unknown_money(&self, found: NewWork, movement: Movement, now: Time) -> StoreFuture<'_, ()> {
        self.run_to_end(async move |store| store.note_unknown_money(found, movement, now).await)
    }

    fn open_work(
        &self,
        found: NewWork,
        environment: Environment,
        now: Time,
    ) -> StoreFuture<'_, ()> {
        self.run_to_end(async move |store| {
            let works = Works {
                payment: None,
                environment,
                closed: &[],
                new: std::slice::from_ref(&found),
            };
            store.change_work(works, None, now).await
        })
    }

    fn close_work(&self, key: WorkKey, now: Time) -> StoreFuture<'_, ()> {
        self.run_to_end(async move |store| {
            let works = Works {
                payment: None,
                // Unused, because no item is opened.
                environment: Environment::Test,
                closed: std::slice::from_ref(&key),
                new: &[],
            };
            store.change_work(works, None, now).await
        })
    }

    fn keep_callback(
        &self,
        account: AccountId,
        reference: String,
        report: Option<Report>,
        now: Time,
    ) -> StoreFuture<'_, KeptCallback> {
        self.run_to_end(async move |store| {
            store.callback_kept(account, reference, report, now).await
        })
    }

    fn claim_due(
        &self,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> StoreFuture<'_, Vec<PaymentId>> {
        self.run_to_end(async move |store| store.claim_timers(now, lease, at_most).await)
    }

    fn next_due(&self) -> StoreFuture<'_, Option<Time>> {
        Box::pin(self.next_timer())
    }

    fn payment(&self, id: PaymentId) -> StoreFuture<'_, Option<Arc<Payment>>> {
        Box::pin(async move {
            let sql = format!("SELECT {COLUMNS} FROM {FROM} WHERE p.id = $1");
            let found = self
                .requests
                .read_one(&sql, &[&uuid(id.as_bytes())])
                .await?;
            let payment = found.map(|row| stored::payment(&self.secrets.sealer, &row));
            Ok(payment.transpose()?.map(Arc::new))
        })
    }

    fn aggregate(&self, about: About) -> StoreFuture<'_, Option<PaymentAggregate>> {
        Box::pin(async move {
            let loaded = stored::load(&self.requests, &self.secrets.sealer, &about).await?;
            Ok(loaded.map(|loaded| loaded.aggregate))
        })
    }

    fn by_checkout(&self, token: TokenHash) -> StoreFuture<'_, Option<PaymentAggregate>> {
        Box::pin(async move {
            let of = "p.token_hash = $1";
            let loaded =
                stored::load_where(&self.requests, &self.secrets.sealer, of, &[&&token.0[..]])
                    .await?;
            Ok(loaded.map(|loaded| loaded.aggregate))
        })
    }

    fn by_return(
        &self,
        token: TokenHash,
    ) -> StoreFuture<'_, Option<(AttemptId, PaymentAggregate)>> {
        Box::pin(async move {
            let of = "p.id = (SELECT payment FROM attempt WHERE return_hash = $1)";
            let loaded =
                stored::load_where(&self.requests, &self.secrets.sealer, of, &[&&token.0[..]])
                    .await?;
            Ok(loaded.and_then(|loaded| {
                let aggregate = loaded.aggregate;
                let is_its = |token_of: &str| TokenHash::hash(token_of) == token;
                let attempt = aggregate
                    .attempts
                    .iter()
                    .find(|each| is_its(each.return_token.expose()))?;
                Some((attempt.id, aggregate))
            }))
        })
    }

    fn history(&self, id: PaymentId) -> StoreFuture<'_, Option<History>> {
        Box::pin(async move {
            let Some(loaded) =
                stored::load(&self.requests, &self.secrets.sealer, &About::Payment(id)).await?
            else {
                return Ok(None);
            };
            // A concurrent step appends lines after those that the payment's row counts.
            let sql = "SELECT kind, ordinal, body FROM timeline WHERE payment = $1 ORDER BY kind, ordinal";
            let rows = self.requests.read(sql, &[&uuid(id.as_bytes())]).await?;
            let counters = &loaded.counters;
            let decision = |ordinal| schema::line(id, Line::Decision, ordinal);
            let transition = |ordinal| schema::line(id, Line::Transition, ordinal);
            let event = |ordinal| schema::event(id, ordinal);
            let events: Vec<EventRow> =
                lines(&self.secrets.sealer, &rows, EVENT, counters.events, event)?;
            let events: Vec<Event> = events.into_iter().map(|row| row.event(id)).collect();
            let notes = rows.iter().find(|row| row.get::<_, i16>(0) == NOTES);
            let key = schema::notes(id);
            let notes = notes.map(|row| notes::decode(&self.secrets.sealer, &key, row.get(2)));
            Ok(Some(History {
                decisions: lines(
                    &self.secrets.sealer,
                    &rows,
                    DECISION,
                    counters.decisions,
                    decision,
                )?,
                transitions: lines(
                    &self.secrets.sealer,
                    &rows,
                    TRANSITION,
                    counters.transitions,
                    transition,
                )?,
                events,
                notes: notes.transpose()?.unwrap_or_default(),
                aggregate: loaded.aggregate,
            }))
        })
    }

    fn notes(&self, payments: Vec<PaymentId>) -> StoreFuture<'_, HashMap<PaymentId, Notes>> {
        Box::pin(async move {
            let ids: Vec<_> = payments.iter().map(|id| uuid(id.as_bytes())).collect();
            let sql = "/* notes */ SELECT payment, body FROM timeline WHERE payment = ANY($1) AND kind = $2";
            let rows = self.requests.read(sql, &[&ids, &NOTES]).await?;
            let read = rows.iter().map(|row| {
                let id = payment_id(row, 0);
                let read = notes::decode(&self.secrets.sealer, &schema::notes(id), row.get(1))?;
                Ok((id, read))
            });
            read.collect()
        })
    }

    fn payments(&self, filter: PaymentFilter, paging: Paging) -> StoreFuture<'_, Listed<Payment>> {
        Box::pin(self.search(filter, paging))
    }

    fn events(
        &self,
        asked: EventsAsked,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<(Event, Payment)>> {
        Box::pin(self.events_listed(asked, paging))
    }

    fn find_ids(&self, prefix: IdPrefix) -> StoreFuture<'_, Vec<FoundId>> {
        Box::pin(self.ids(prefix))
    }

    fn accounts_in_use(&self) -> StoreFuture<'_, Vec<AccountId>> {
        Box::pin(self.accounts())
    }

    fn work(&self, open: bool, paging: Paging) -> StoreFuture<'_, Listed<WorkItem>> {
        Box::pin(self.work_listed(open, paging))
    }

    fn work_item(&self, id: WorkId) -> StoreFuture<'_, Option<WorkItem>> {
        Box::pin(self.work_read(id))
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

/// Lines of a kind with ordinals below `end`, from rows of `kind, ordinal, body`.
fn lines<T: DeserializeOwned>(
    sealer: &Sealer,
    rows: &[Row],
    kind: i16,
    end: u16,
    key: impl Fn(u16) -> Key,
) -> Result<Vec<T>, Fault> {
    let of_kind = rows.iter().filter(|row| row.get::<_, i16>(0) == kind);
    let numbered = of_kind.filter_map(|row| Some((u16::try_from(row.get::<_, i32>(1)).ok()?, row)));
    let before = numbered.filter(|(ordinal, _)| *ordinal < end);
    before
        .map(|(ordinal, row)| records::decode(sealer, &key(ordinal), row.get(2)))
        .collect()
}
