//! Search for payments.
//!
//! A search by attempt or reference uses rows about attempts. All others walk along a list in memory, from
//! the start to the end of the period, and read a limited number of rows, after which the page ends with a
//! cursor.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use kassette_domain::id::{
    AccountId, AttemptId, DeliveryId, EventId, MerchantId, PaymentId, RefundId, ResellerId,
};
use kassette_domain::order::ClientRef;
use kassette_domain::payment::{Origin, Payment};
use kassette_engine::{IVec, Span};

use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::{SearchMark, Secrets};
use crate::rows::source::RowSource;
use crate::rows::stored::{AttemptKey, AttemptLookup, ListedEvent, PaymentRow, load_attempt};
use crate::sled::lists::{Examined, Order, TIME_AND_ID};
use crate::sled::memory::View;
use crate::sled::memory::payment_index::period::Period;
use crate::sled::memory::payment_index::{List, LookupKey};
use crate::sled::memory::payment_index_rows::Ids;
use crate::sled::store::SledStore;
use crate::sled::webhooks::outbox::DeliveryRow;
use crate::{
    Fault, FoundId, IdPrefix, Listed, MAX_FOUND, Paging, PaymentFilter, SearchKey, StoreFuture,
};

/// Maximum number of accounts returned. A configuration has a few dozen.
const MAX_ACCOUNTS: usize = 10_000;
/// Maximum number of attempts with the same reference that one call reads. More than a few have the same only
/// if a provider reuses references.
pub(crate) const MAX_REFERRED: usize = 500;

impl SledStore {
    /// One page of the payments that match a filter.
    pub(crate) fn search(
        &self,
        filter: PaymentFilter,
        paging: Paging,
    ) -> StoreFuture<'_, Listed<Payment>> {
        if let Some(attempt) = filter.attempt {
            return Box::pin(self.by_attempt(attempt, filter, paging));
        }
        if let Some(reference) = filter.reference.clone() {
            return Box::pin(self.by_reference(reference, filter, paging));
        }
        let marker = &self.secrets.marker;
        let list = match (&filter.order_id, &filter.search, filter.merchant) {
            (Some(order), ..) => List::With(LookupKey::Order, marker.order(order)),
            (None, Some(SearchKey::Amount(due)), _) => {
                List::With(LookupKey::Amount, marker.amount(*due))
            }
            (None, Some(SearchKey::ClientRef(client_ref)), _) => {
                return Box::pin(self.by_client_ref(client_ref.clone(), filter, paging));
            }
            (None, Some(key), _) => {
                let mark = marker.search(key);
                return Box::pin(self.by_mark(mark.unwrap_or_default(), filter, paging));
            }
            (None, None, Some(merchant)) => List::Of(merchant),
            (None, None, None) => List::All,
        };
        let (period, secrets) = (period(&filter), Arc::clone(&self.secrets));
        self.page_of_payments(list, period, &paging, move |view, id| {
            look(view, &secrets, &filter, id)
        })
    }

    /// Payments with a search mark.
    async fn by_mark(
        &self,
        mark: SearchMark,
        filter: PaymentFilter,
        paging: Paging,
    ) -> Result<Listed<Payment>, Fault> {
        let prefix = schema::all_marked(mark);
        let mut span = Span::prefix(&prefix);
        if let Some(since) = filter.since {
            span = span.since(&schema::marked_since(mark, since));
        }
        if let Some(until) = filter.until {
            span = span.before(&schema::marked_since(mark, until));
        }
        let secrets = Arc::clone(&self.secrets);
        let list = (prefix.as_slice(), TIME_AND_ID);
        let page = self.list_in(
            span,
            list,
            Order::Backwards,
            &paging,
            move |view, key, _| {
                let id = schema::trailing_id(key).map(PaymentId::from_bytes);
                let id = id.ok_or_else(|| records::damaged(key, "it names no payment"))?;
                Ok(look(view, &secrets, &filter, id)?.item)
            },
        );
        page.await
    }

    /// Payments of all resellers with a `client_ref`: at most one per reseller.
    async fn by_client_ref(
        &self,
        client_ref: String,
        filter: PaymentFilter,
        paging: Paging,
    ) -> Result<Listed<Payment>, Fault> {
        let prefix = schema::PAYMENTS;
        let Ok(client_ref) = ClientRef::parse(&client_ref) else {
            return self
                .page_of((Vec::new(), None), (prefix, 16), &paging, no_payment)
                .await;
        };
        let secrets = Arc::clone(&self.secrets);
        let keys = self.read(move |view| {
            let resellers: u64 = view.load(schema::resellers::COUNT)?.unwrap_or_default();
            let (mut ids, mut keys) = (Ids::default(), Vec::new());
            for reseller in (1..=resellers).map(ResellerId) {
                let client_ref = client_ref.clone();
                let origin = Origin::Reseller {
                    reseller,
                    client_ref,
                };
                let mark = secrets.marker.reference(MerchantId(0), &origin);
                let index = view.shown().read();
                let positions: Vec<_> = index.found(LookupKey::Reference, mark).collect();
                drop(index);
                for position in positions {
                    keys.push(schema::payment(ids.at(view, position)?));
                }
            }
            Ok(keys)
        });
        let keys = keys.await?;
        let secrets = Arc::clone(&self.secrets);
        let page = self.page_of((keys, None), (prefix, 16), &paging, move |view, key| {
            let id = schema::payment_id(key);
            let id = id.ok_or_else(|| records::damaged(key, "it names no payment"))?;
            Ok(look(view, &secrets, &filter, id)?.item)
        });
        page.await
    }

    /// Objects whose ids have a prefix.
    pub(crate) fn ids(&self, prefix: IdPrefix) -> StoreFuture<'_, Vec<FoundId>> {
        self.read(move |view| {
            let mut found = Vec::new();
            for table in [
                schema::PAYMENTS,
                schema::ATTEMPT_IDS,
                schema::REFUND_IDS,
                schema::EVENT_IDS,
                schema::webhooks::DELIVERIES,
            ] {
                let end = |id: &[u8]| [table, id].concat();
                let first = end(&prefix.first);
                let span = Span::prefix(table).since(&first);
                // The end is excluded, so it must be after the last id.
                let span = span.before(&[&end(&prefix.last)[..], &[0]].concat());
                for (key, row) in view.scan_in(&span, Order::Backwards, MAX_FOUND)? {
                    found.extend(records::readable(found_id(view, &key, &row))?.flatten());
                }
            }
            Ok(found)
        })
    }

    /// At most one.
    async fn by_attempt(
        &self,
        attempt: AttemptId,
        filter: PaymentFilter,
        paging: Paging,
    ) -> Result<Listed<Payment>, Fault> {
        let key = schema::attempt_index(attempt);
        let (prefix, secrets) = (key.clone(), Arc::clone(&self.secrets));
        let attempt_key: Option<AttemptKey> = self.read(move |view| view.load(&key)).await?;
        let found = attempt_key.iter().map(|_| prefix.clone()).collect();
        let page = self.page_of((found, None), (&prefix, 0), &paging, move |view, _| {
            let Some(attempt_key) = attempt_key else {
                return Ok(None);
            };
            Ok(look(view, &secrets, &filter, attempt_key.payment)?.item)
        });
        page.await
    }

    /// Payments with an attempt that a provider knows by a reference. Each of the provider's own ids has at
    /// most one attempt per account, but any number of attempts may have the same additional reference.
    async fn by_reference(
        &self,
        reference: String,
        filter: PaymentFilter,
        paging: Paging,
    ) -> Result<Listed<Payment>, Fault> {
        let prefix = schema::all_referred(&reference);
        let mut span = Span::prefix(&prefix);
        if let Some(cursor) = &paging.cursor {
            let Some(last) = self.read_cursor(cursor, &prefix, TIME_AND_ID) else {
                return Ok(Listed::BadCursor);
            };
            span = span.before(&last);
        }
        let rows = self.rows_of(span, Order::Backwards, MAX_REFERRED).await?;
        let are_all = rows.len() < MAX_REFERRED;
        let without_ordinal = |(mut key, _): (Key, _)| {
            key.pop();
            key
        };
        let mut found: BTreeSet<Key> = rows.into_iter().map(without_ordinal).collect();
        let oldest = found.first().filter(|_| !are_all).cloned();
        let mut accounts = self.accounts(schema::REFERENCES).await?.into_iter();
        let mut known = Vec::new();
        let of_accounts = self.read_aside(move |view| {
            for account in accounts.by_ref() {
                let key = schema::reference(&account, &reference);
                if let Some(AttemptKey { payment, .. }) = view.load(&key)? {
                    let made = PaymentRow::expect(view, payment)?.plain().created_at;
                    known.push(schema::referred(&reference, made, payment));
                }
                if view.is_enough() {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            Ok(ControlFlow::Break(std::mem::take(&mut known)))
        });
        found.extend(of_accounts.await?);
        if let Some(oldest) = &oldest {
            // The other payments come after rows that were not read yet.
            found = found.split_off(oldest);
        }
        let found = (found.into_iter().collect(), oldest);
        let secrets = Arc::clone(&self.secrets);
        let page = self.page_of(found, (&prefix, TIME_AND_ID), &paging, move |view, key| {
            let id = schema::trailing_id(key).map(PaymentId::from_bytes);
            let id = id.ok_or_else(|| records::damaged(key, "it names no payment"))?;
            Ok(look(view, &secrets, &filter, id)?.item)
        });
        page.await
    }

    /// Accounts in the keys of the rows under a prefix, which continue with the account.
    pub(crate) fn accounts(&self, prefix: &'static [u8]) -> StoreFuture<'_, Vec<AccountId>> {
        let mut span = Span::prefix(prefix);
        let mut accounts = Vec::new();
        self.read_aside(move |view| {
            while accounts.len() < MAX_ACCOUNTS {
                if view.is_enough() {
                    return Ok(ControlFlow::Continue(()));
                }
                let found = view.scan(&span, 1)?;
                let Some((key, _)) = found.first() else {
                    break;
                };
                let account = account_in(key)?;
                // The rows of the next account come after all rows of this one.
                let end: Key = [prefix, account.as_str().as_bytes(), &[1]].concat();
                span = Span::prefix(prefix).after(&end);
                accounts.push(account);
            }
            Ok(ControlFlow::Break(std::mem::take(&mut accounts)))
        })
    }
}

fn no_payment(_: &View<'_>, _: &[u8]) -> Result<Option<Payment>, Fault> {
    Ok(None)
}

/// The object that an index row is about.
fn found_id(view: &View<'_>, key: &[u8], row: &IVec) -> Result<Option<FoundId>, Fault> {
    let Some(id) = schema::trailing_id(key) else {
        return Ok(None);
    };
    let sealer = view.sealer();
    let of_attempt = || records::decode::<AttemptKey>(sealer, key, row).map(|of| of.payment);
    Ok(Some(match key.get(..4).unwrap_or_default() {
        schema::PAYMENTS => FoundId::Payment(PaymentId::from_bytes(id)),
        schema::ATTEMPT_IDS => FoundId::Attempt(AttemptId::from_bytes(id), of_attempt()?),
        schema::REFUND_IDS => FoundId::Refund(RefundId::from_bytes(id), of_attempt()?),
        schema::EVENT_IDS => {
            let of: ListedEvent = records::decode(sealer, key, row)?;
            FoundId::Event(EventId::from_bytes(id), of.payment, of.kind)
        }
        _ => {
            let of: DeliveryRow = records::decode(sealer, key, row)?;
            FoundId::Delivery(DeliveryId::from_bytes(id), of.payment, of.kind, of.status)
        }
    }))
}

/// Whether a payment is as the filter says.
fn look(
    view: &View<'_>,
    secrets: &Secrets,
    filter: &PaymentFilter,
    id: PaymentId,
) -> Result<Examined<Payment>, Fault> {
    let row = PaymentRow::expect(view, id)?;
    let mut rows = 1;
    let mut fits = is_as(filter, row.plain());
    if fits && asks_of_an_attempt(filter) {
        fits = false;
        for ordinal in 0..row.counters.attempts {
            rows += 1;
            let known = AttemptKey {
                payment: id,
                ordinal,
            }
            .lookup(view)?;
            if has(filter, &known) {
                fits = true;
                break;
            }
        }
    }
    if fits && let Some(key) = filter.search.as_ref().filter(|key| key.is_of_attempt()) {
        fits = false;
        for ordinal in 0..row.counters.attempts {
            rows += 1;
            let attempt = load_attempt(view, &secrets.sealer, id, ordinal)?;
            if key.fits_attempt(&attempt) {
                fits = true;
                break;
            }
        }
    }
    let item = fits.then(|| row.open(&secrets.sealer)).transpose()?;
    let item = item.map(|(payment, _)| payment);
    let is_it = |payment: &Payment| filter.search.as_ref().is_none_or(|key| key.fits(payment));
    let item = item.filter(is_it);
    Ok(Examined { item, rows })
}

const fn period(filter: &PaymentFilter) -> Period {
    Period {
        since: filter.since,
        until: filter.until,
    }
}

/// The part of a filter that concerns the payment itself.
fn is_as(filter: &PaymentFilter, payment: &Payment) -> bool {
    filter.merchant.is_none_or(|id| id == payment.merchant)
        && filter.status.is_none_or(|status| status == payment.status)
        && filter
            .environment
            .is_none_or(|environment| environment == payment.environment)
        && filter
            .order_id
            .as_ref()
            .is_none_or(|order| order == payment.order_id.as_str())
        && period(filter).holds(payment.created_at)
}

const fn asks_of_an_attempt(filter: &PaymentFilter) -> bool {
    filter.account.is_some() || filter.attempt.is_some() || filter.reference.is_some()
}

/// The part of a filter that concerns an attempt. One attempt must match all of it.
fn has(filter: &PaymentFilter, attempt: &AttemptLookup) -> bool {
    let account = filter.account.as_ref();
    let reference = filter.reference.as_ref();
    account.is_none_or(|account| *account == attempt.account)
        && filter.attempt.is_none_or(|id| id == attempt.id)
        && reference.is_none_or(|reference| attempt.references.contains(reference))
}

fn account_in(key: &[u8]) -> Result<AccountId, Fault> {
    schema::account_in(key)
        .and_then(|account| std::str::from_utf8(account).ok())
        .and_then(|account| AccountId::parse(account).ok())
        .ok_or_else(|| records::damaged(key, "it names no account"))
}
