//! Work items about merchants' own exchange rates that were not renewed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use kassette_domain::id::{AttemptId, MerchantId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::NewWork;
use kassette_domain::merchant::{Merchant, SetRate};
use kassette_domain::money::{Currency, Minor};
use kassette_domain::work::{WorkKey, WorkKind};
use kassette_store::{Fault, Listed, Paging};
use parking_lot::Mutex;

use crate::Gateway;
use crate::workers::FAULT_PAUSE;

/// Interval between two checks of all merchants.
const CHECK_EVERY: Duration = Duration::from_secs(600);
/// Number of merchants or items that are read at once.
const BATCH: usize = 100;

/// Keys of items that were found open or opened by this node. An item among them that is no longer open was marked
/// done by an operator, and is not opened again. Bounded by the old rates of the merchants.
#[derive(Debug, Default)]
pub(crate) struct ListedRates(Mutex<HashSet<WorkKey>>);

/// Key of the item about a merchant's own rate. A renewed rate has another.
fn key(merchant: MerchantId, currency: Currency, set: &SetRate) -> WorkKey {
    let (currency, at) = (currency.code(), set.at.as_millis());
    WorkKey {
        attempt: AttemptId::of_name(&format!("rate_old\n{}\n{currency}\n{at}", merchant.0)),
        kind: WorkKind::RateOld,
        subject: currency.to_owned(),
    }
}

impl Gateway {
    /// Checks the rates at intervals.
    pub(crate) async fn keep_old_rates_listed(&self) {
        loop {
            let pause = match self.list_old_rates().await {
                Ok(()) => CHECK_EVERY,
                Err(fault) => {
                    tracing::warn!(error = %fault, "merchants' own exchange rates were not checked for their age");
                    FAULT_PAUSE
                }
            };
            self.clock().wait_until(self.now().after(pause)).await;
        }
    }

    /// Opens a work item for each merchant's own rate that [is old](SetRate::is_old), and closes the items of rates
    /// that were renewed or removed. An item that an operator marked done stays done until the server starts again.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_old_rates(&self) -> Result<(), Fault> {
        let open = self.open_rate_items().await?;
        let mut old = HashMap::new();
        let mut cursor = None;
        loop {
            let paging = Paging {
                limit: BATCH,
                cursor,
            };
            let Listed::Page(page) = self.store().merchants(paging).await? else {
                break;
            };
            for merchant in &page.items {
                self.old_rates_of(merchant, &mut old);
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let now = self.now();
        let mut listed = self.inner.listed_rates.0.lock().clone();
        listed.retain(|key| old.contains_key(key));
        listed.extend(open.iter().filter(|key| old.contains_key(*key)).cloned());
        for key in open.into_iter().filter(|key| !old.contains_key(key)) {
            self.store().close_work(key, now).await?;
        }
        for (key, (item, environment)) in old {
            if listed.insert(key) {
                self.store().open_work(item, environment, now).await?;
            }
        }
        *self.inner.listed_rates.0.lock() = listed;
        Ok(())
    }

    /// Closes the items of a merchant's rates that were renewed or removed.
    ///
    /// # Errors
    /// The store's. The next check closes the items.
    pub async fn close_renewed_rates(
        &self,
        before: &BTreeMap<Currency, SetRate>,
        after: &Merchant,
    ) -> Result<(), Fault> {
        for (currency, set) in before {
            if after.rates.get(currency).map(|set| set.at) != Some(set.at) {
                let key = key(after.id, *currency, set);
                self.store().close_work(key, self.now()).await?;
            }
        }
        Ok(())
    }

    fn old_rates_of(
        &self,
        merchant: &Merchant,
        old: &mut HashMap<WorkKey, (NewWork, Environment)>,
    ) {
        let now = self.now();
        let environment = match merchant.live_approved {
            true => Environment::Live,
            false => Environment::Test,
        };
        for (currency, set) in merchant.rates.iter().filter(|(_, set)| set.is_old(now)) {
            let key = key(merchant.id, *currency, set);
            let item = NewWork {
                key: key.clone(),
                account: None,
                merchant: Some(merchant.id),
                amount: Minor::ZERO,
                currency: currency.code().to_owned(),
                received: Minor::ZERO,
                detail: format!(
                    "merchant {}'s own rate of {currency}, {}, was set at {}: renew it or remove it",
                    merchant.id,
                    set.rate,
                    set.at.rfc3339()
                ),
                deadline: None,
            };
            old.insert(key, (item, environment));
        }
    }

    async fn open_rate_items(&self) -> Result<HashSet<WorkKey>, Fault> {
        let (mut open, mut cursor) = (HashSet::new(), None);
        loop {
            let paging = Paging {
                limit: BATCH,
                cursor,
            };
            let Listed::Page(page) = self.store().work(true, paging).await? else {
                return Ok(open);
            };
            let keys = page.items.into_iter().map(|item| item.key);
            open.extend(keys.filter(|key| key.kind == WorkKind::RateOld));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(open);
            }
        }
    }
}
