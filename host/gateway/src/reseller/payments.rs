//! A reseller's payments: create, start, read, list.

use std::sync::Arc;

use kassette_domain::id::{AccountId, MerchantId, PaymentId};
use kassette_domain::method::MethodId;
use kassette_domain::payment::{Origin, Payment, Request};
use kassette_domain::provider::Payer;
use kassette_domain::secret::Secret;
use kassette_store::{History, Listed, Page, Paging, PaymentFilter};

use super::ResellerError;
use crate::Gateway;
use crate::auth::ResellerCaller;
use crate::create::{CreateError, CreateOutcome};
use crate::start::{Start, StartError, StartedPayment, Starter};

/// A start request of a reseller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResellerStart {
    pub payment: PaymentId,
    pub method: MethodId,
    /// Use only this account, if the merchant's policy allows it.
    pub provider: Option<AccountId>,
}

/// Number of payments read per step of a filtered list: the store's largest page.
const READ: usize = 100;
/// Maximum number of steps for one page of a filtered list.
const READS: usize = 10;

impl Gateway {
    /// Creates a payment for a merchant that has authorized the reseller, or returns the payment that the
    /// same request created earlier. `request.origin` names the caller, and `request.environment` is that of
    /// its key.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub async fn reseller_create(
        &self,
        caller: &ResellerCaller,
        request: Request,
    ) -> Result<CreateOutcome, CreateError> {
        let (merchant, environment) = (request.merchant, request.environment);
        let may = self.may_process(&caller.reseller, merchant, environment);
        may.await??;
        match self.create(request, Some(caller.key.hash)).await {
            Err(CreateError::Differs { field }) => Err(CreateError::ClientRefDiffers { field }),
            created => created,
        }
    }

    /// Starts a direct payment that the reseller created. Continues if the caller goes away.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn reseller_start(
        &self,
        caller: &ResellerCaller,
        start: ResellerStart,
    ) -> Result<StartedPayment, StartError> {
        let payment = self.made_by(caller, start.payment).await?;
        self.check_method(start.method, payment.as_deref())?;
        let payment = payment.ok_or(StartError::NotFound)?;
        let (merchant, environment) = (payment.merchant, payment.environment);
        let may = self.may_process(&caller.reseller, merchant, environment);
        may.await??;
        let email = payment.email.as_ref();
        // The caller is the reseller's server, so its address and language are not the payer's.
        let payer = Payer {
            email: email.map(|email| Secret::new(email.expose())),
            ip: None,
            language: None,
            country: None,
        };
        self.start(Start {
            payment: start.payment,
            method: start.method,
            provider: start.provider,
            starter: Starter::Api,
            seen: None,
            payer,
        })
        .await
    }

    /// Returns a payment that the reseller created, in its key's environment, for a merchant that still
    /// authorizes it.
    ///
    /// # Errors
    /// See [`ResellerError`].
    pub async fn reseller_payment(
        &self,
        caller: &ResellerCaller,
        id: PaymentId,
    ) -> Result<Arc<Payment>, ResellerError> {
        let payment = self.made_by(caller, id).await?;
        let payment = payment.ok_or(ResellerError::NotFound)?;
        let (merchant, environment) = (payment.merchant, payment.environment);
        let may = self.may_work(&caller.reseller, merchant, environment);
        may.await??;
        Ok(payment)
    }

    /// Returns the same payment with its full history.
    ///
    /// # Errors
    /// See [`ResellerError`].
    pub async fn reseller_history(
        &self,
        caller: &ResellerCaller,
        id: PaymentId,
    ) -> Result<History, ResellerError> {
        self.reseller_payment(caller, id).await?;
        let history = self.store().history(id).await?;
        history.ok_or(ResellerError::NotFound)
    }

    /// Lists the payments that the reseller created for a merchant in its key's environment, newest first.
    /// The filter applies to order, status and time. A filtered page may contain fewer payments than
    /// requested, and still have a cursor.
    ///
    /// # Errors
    /// See [`ResellerError`].
    pub async fn reseller_payments(
        &self,
        caller: &ResellerCaller,
        merchant: MerchantId,
        filter: &PaymentFilter,
        paging: Paging,
    ) -> Result<Page<Payment>, ResellerError> {
        let (reseller, environment) = (&caller.reseller, caller.key.environment);
        self.may_work(reseller, merchant, environment).await??;
        if *filter == PaymentFilter::default() {
            return self.resold(caller, merchant, paging).await;
        }
        let (mut found, mut next) = (Vec::new(), paging.cursor);
        for _ in 0..READS {
            let room = paging.limit.saturating_sub(found.len());
            let page = self.resold_for(caller, merchant, filter, (room, next));
            let page = page.await?;
            // All following payments were created before the period.
            let is_past =
                |last: &Payment| filter.since.is_some_and(|since| last.created_at < since);
            let is_over = page.items.last().is_some_and(is_past);
            next = page.next.filter(|_| !is_over);
            let fitting = page.items.into_iter().filter(|each| fits(filter, each));
            found.extend(fitting);
            if next.is_none() || found.len() >= paging.limit {
                break;
            }
        }
        Ok(Page { items: found, next })
    }

    /// Reads the next of these payments after a cursor, so that at most `room` of them match the filter. The
    /// cursor points behind the last payment read, so a page must not read payments that it cannot return.
    async fn resold_for(
        &self,
        caller: &ResellerCaller,
        merchant: MerchantId,
        filter: &PaymentFilter,
        (room, cursor): (usize, Option<String>),
    ) -> Result<Page<Payment>, ResellerError> {
        let mut limit = READ;
        loop {
            let paging = Paging {
                limit,
                cursor: cursor.clone(),
            };
            let page = self.resold(caller, merchant, paging).await?;
            let items = page.items.iter().enumerate();
            let mut fitting = items.filter(|(_, each)| fits(filter, each));
            match fitting.nth(room) {
                // Smaller each time, even if payments were created in the meantime.
                Some((first_without_room, _)) if first_without_room > 0 => {
                    limit = first_without_room;
                }
                _ => return Ok(page),
            }
        }
    }

    /// One page of all payments that the reseller created for a merchant.
    async fn resold(
        &self,
        caller: &ResellerCaller,
        merchant: MerchantId,
        paging: Paging,
    ) -> Result<Page<Payment>, ResellerError> {
        let (reseller, environment) = (caller.reseller.id, caller.key.environment);
        let store = self.store();
        let listed = store.reseller_payments(reseller, merchant, environment, paging);
        match listed.await? {
            Listed::Page(page) => Ok(page),
            Listed::BadCursor => Err(ResellerError::BadCursor),
        }
    }

    /// Returns a payment if the caller created it in its environment.
    async fn made_by(
        &self,
        caller: &ResellerCaller,
        id: PaymentId,
    ) -> Result<Option<Arc<Payment>>, kassette_store::Fault> {
        let payment = self.store().payment(id).await?;
        let own = |payment: &Arc<Payment>| match payment.origin {
            Origin::Reseller { reseller, .. } => {
                reseller == caller.reseller.id && payment.environment == caller.key.environment
            }
            Origin::Merchant { .. } => false,
        };
        Ok(payment.filter(own))
    }
}

/// Whether a payment matches the filter's order, status and time. Resellers cannot filter by attempts.
fn fits(filter: &PaymentFilter, payment: &Payment) -> bool {
    let order = filter.order_id.as_deref();
    order.is_none_or(|order| order == payment.order_id.as_str())
        && filter.status.is_none_or(|status| status == payment.status)
        && filter.since.is_none_or(|since| payment.created_at >= since)
        && filter.until.is_none_or(|until| payment.created_at < until)
}
