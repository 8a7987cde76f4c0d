//! Payments by what an operator knows of them.
//!
//! One that names an attempt or a reference is found by rows about attempts. All others go along a list
//! in memory, from where the period begins to where it ends, and read what they pass: a bounded number
//! of rows, after which the page ends with a cursor.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use kassette_domain::id::{AccountId, AttemptId, PaymentId};
use kassette_domain::payment::Payment;
use kassette_engine::Span;

use crate::rows::records;
use crate::rows::schema::{self, Key};
use crate::rows::seal::Secrets;
use crate::rows::source::RowSource;
use crate::rows::stored::{AttemptKey, AttemptLookup, PaymentRow};
use crate::sled::lists::{self, Examined, Order, TIME_AND_ID};
use crate::sled::memory::View;
use crate::sled::memory::payment_index::List;
use crate::sled::memory::payment_index::period::Period;
use crate::sled::store::SledStore;
use crate::{Fault, Listed, Paging, PaymentFilter, StoreFuture};

/// Most accounts that are told of: a configuration has a few dozen.
const MAX_ACCOUNTS: usize = 10_000;
/// Attempts that one call looks at among those that share a reference: more than a few do only where a
/// vendor calls everything the same.
pub(crate) const MAX_REFERRED: usize = 500;

impl SledStore {
    /// One page of the payments that a filter finds.
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
        let list = match (&filter.order_id, filter.merchant) {
            (Some(order), _) => List::With(self.secrets.marker.order(order)),
            (None, Some(merchant)) => List::Of(merchant),
            (None, None) => List::All,
        };
        let (period, secrets) = (period(&filter), Arc::clone(&self.secrets));
        self.page_of_payments(list, period, &paging, move |view, id| {
            look(view, &secrets, &filter, id)
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

    /// Those with an attempt that a vendor knows by a reference: of its own ids there is one in each
    /// account at most, of those that only help to find it there can be any number.
    async fn by_reference(
        &self,
        reference: String,
        filter: PaymentFilter,
        paging: Paging,
    ) -> Result<Listed<Payment>, Fault> {
        let prefix = schema::all_referred(&reference);
        let mut span = Span::prefix(&prefix);
        if let Some(cursor) = &paging.cursor {
            let Some(last) = lists::read_cursor(cursor, &prefix, TIME_AND_ID) else {
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
            // The others come after rows that were not read yet.
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

    /// The accounts that rows under a prefix are of, where keys go on with the account.
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
                // The next account's rows come after all of this one's.
                let end: Key = [prefix, account.as_str().as_bytes(), &[1]].concat();
                span = Span::prefix(prefix).after(&end);
                accounts.push(account);
            }
            Ok(ControlFlow::Break(std::mem::take(&mut accounts)))
        })
    }
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
    let item = fits.then(|| row.open(&secrets.sealer)).transpose()?;
    let item = item.map(|(payment, _)| payment);
    Ok(Examined { item, rows })
}

const fn period(filter: &PaymentFilter) -> Period {
    Period {
        since: filter.since,
        until: filter.until,
    }
}

/// What a filter says of the payment itself.
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

/// What it says of an attempt: all of the same one.
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
