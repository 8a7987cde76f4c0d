//! What a reseller does for merchants, and how merchants let it.
//!
//! A payment that a reseller makes belongs to the merchant: its keys read it, its webhooks tell it,
//! its policy routes it. The reseller alone starts it, and its own webhooks tell it too. Whether it may at all is asked at every call, of
//! what is known as long as the store says that it has not changed, and by the store once more when it
//! writes: a revocation holds at once.

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
use kassette_domain::reseller::{Reseller, ResellerNotAllowed, may_work};
use kassette_store::{Fault, Listed, Page, Paging};

use crate::Gateway;
use crate::auth::ResellerCaller;

/// Merchants that are read at once.
const PART: usize = 100;

/// Why a reseller is shown nothing. The edge maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum ResellerError {
    /// Not this reseller's, or of the other environment.
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
            // Others have their turn between the parts of a large page.
            tokio::task::yield_now().await;
        }
    }

    /// Whether a reseller may work for a merchant now.
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

    /// The same, where the merchant has to be approved for live too.
    async fn may_process(
        &self,
        reseller: &Reseller,
        merchant: MerchantId,
        environment: Environment,
    ) -> Result<Result<(), ResellerNotAllowed>, Fault> {
        let may = self.may_work(reseller, merchant, environment).await?;
        if may.is_err() || environment == Environment::Test {
            return Ok(may);
        }
        let merchant = self.cached_merchant(merchant).await?;
        let approved = merchant.is_some_and(|merchant| merchant.live_approved);
        Ok(if approved {
            Ok(())
        } else {
            Err(ResellerNotAllowed::NotLiveApproved)
        })
    }

    /// Why the reseller that made a payment may neither open an attempt of it nor hear of it now; none of a
    /// merchant's own.
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
