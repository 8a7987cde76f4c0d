//! Requests that a reseller makes for merchants, and the merchants' consent.
//!
//! A payment that a reseller creates belongs to the merchant: the merchant's keys can read it, its webhooks
//! receive its events, and its policy routes it. Only the reseller starts it, and the reseller's webhooks
//! receive its events too. Every call checks the reseller's permission, with cached rows that are valid while
//! the directory version is unchanged. The store checks it again when it writes, so that a revocation takes
//! effect immediately.

mod consent;
mod invite;
mod payments;

pub use self::consent::{ConsentError, IssuedConsentCode};
pub use self::invite::{InvitationView, InviteError, InviteOutcome};
pub use self::payments::ResellerStart;

use kassette_domain::delegation::DelegatedMerchant;
use kassette_domain::id::MerchantId;
use kassette_domain::key::Environment;
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::reseller::{Reseller, ResellerNotAllowed, may_process, may_refund, may_work};
use kassette_store::{Fault, Listed, Page, Paging};

use crate::Gateway;
use crate::auth::ResellerCaller;

/// Number of merchants read per part.
const PART: usize = 100;

/// Reason why a reseller gets no data. `server` maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum ResellerError {
    /// The payment belongs to another reseller or environment.
    #[error("payment not found")]
    NotFound,
    #[error(transparent)]
    Barred(#[from] ResellerNotAllowed),
    #[error("cursor: is not one that this list gave out")]
    BadCursor,
    #[error(transparent)]
    Store(#[from] Fault),
}

impl Gateway {
    /// Merchants that a reseller has invited or that have authorized it, newest first.
    ///
    /// # Errors
    /// [`ResellerError::BadCursor`], and the store's.
    pub async fn reseller_merchants(
        &self,
        caller: &ResellerCaller,
        paging: Paging,
    ) -> Result<Page<DelegatedMerchant>, ResellerError> {
        let (store, now) = (self.store(), self.now());
        let mut whole = Page {
            items: Vec::new(),
            next: paging.cursor,
        };
        loop {
            let part = Paging {
                limit: (paging.limit - whole.items.len()).min(PART),
                cursor: whole.next,
            };
            let listed = store.delegated_merchants(caller.reseller.id, part, now);
            let Listed::Page(part) = listed.await? else {
                return Err(ResellerError::BadCursor);
            };
            whole.items.extend(part.items);
            whole.next = part.next;
            if whole.next.is_none() || whole.items.len() >= paging.limit {
                return Ok(whole);
            }
            // Lets other tasks run between the parts of a large page.
            tokio::task::yield_now().await;
        }
    }

    /// Whether a reseller may act for a merchant now.
    async fn may_work(
        &self,
        reseller: &Reseller,
        merchant: MerchantId,
        environment: Environment,
    ) -> Result<Result<(), ResellerNotAllowed>, Fault> {
        let directory = &self.inner.directory;
        let delegation = directory.delegation(self.store().as_ref(), reseller.id, merchant);
        let delegation = delegation.await?;
        Ok(may_work(reseller, delegation.as_deref(), environment))
    }

    /// Whether a reseller may now refund a payment that it created. Does not check the key's scope.
    ///
    /// # Errors
    /// The store's.
    pub async fn may_reseller_refund(
        &self,
        caller: &ResellerCaller,
        payment: &Payment,
    ) -> Result<Result<(), ResellerNotAllowed>, Fault> {
        let (store, reseller) = (self.store().as_ref(), &caller.reseller);
        let directory = &self.inner.directory;
        let delegation = directory.delegation(store, reseller.id, payment.merchant);
        let delegation = delegation.await?;
        Ok(may_refund(
            reseller,
            delegation.as_deref(),
            payment.environment,
        ))
    }

    /// Like [`Self::may_work`], but the merchant must also be approved for live.
    async fn may_process(
        &self,
        reseller: &Reseller,
        merchant: MerchantId,
        environment: Environment,
    ) -> Result<Result<(), ResellerNotAllowed>, Fault> {
        let directory = &self.inner.directory;
        let delegation = directory.delegation(self.store().as_ref(), reseller.id, merchant);
        let delegation = delegation.await?;
        let merchant = self.cached_merchant(merchant).await?;
        let approved = merchant.is_some_and(|merchant| merchant.live_approved);
        Ok(may_process(
            reseller,
            delegation.as_deref(),
            approved,
            environment,
        ))
    }

    /// Returns why the reseller of a payment may now neither open attempts of it nor receive its events.
    /// `None` if it may, and for a merchant's own payment.
    pub(crate) async fn bars_reseller(
        &self,
        payment: &Payment,
    ) -> Result<Option<ResellerNotAllowed>, Fault> {
        let Origin::Reseller { reseller, .. } = payment.origin else {
            return Ok(None);
        };
        let directory = &self.inner.directory;
        let Some(reseller) = directory.reseller(self.store().as_ref(), reseller).await? else {
            return Ok(Some(ResellerNotAllowed::NotAuthorized));
        };
        let may = self.may_work(&reseller, payment.merchant, payment.environment);
        Ok(may.await?.err())
    }
}
