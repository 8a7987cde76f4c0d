//! A reseller's payments: create, start, read, list.

use std::sync::Arc;

use kassette_domain::id::{AccountId, MerchantId, PaymentId};
use kassette_domain::method::MethodId;
use kassette_domain::payment::{Origin, Payment, Request};
use kassette_domain::provider::Payer;
use kassette_domain::secret::Secret;
use kassette_store::{History, Listed, Page, Paging};

use super::ResellerError;
use crate::Gateway;
use crate::auth::ResellerCaller;
use crate::create::{CreateError, CreateOutcome};
use crate::start::{Start, StartError, StartedPayment, Starter};

/// What a reseller starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResellerStart {
    /// Which payment.
    pub payment: PaymentId,
    /// By which method.
    pub method: MethodId,
    /// Through this account and no other, where the merchant's policy allows it.
    pub provider: Option<AccountId>,
}

impl Gateway {
    /// Creates a payment for a merchant that has authorized the reseller, or finds the one that the
    /// same request made before. `request.origin` names the caller, `request.environment` is its key's.
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

    /// Starts a direct payment that the reseller made. Carried to its end even where the caller goes
    /// away.
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
        // The caller is the reseller's server: its address and language are not the payer's.
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

    /// A payment that the reseller made, in its key's environment, for a merchant that still
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

    /// The same with everything that happened to it.
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

    /// The payments that the reseller made for a merchant in its key's environment, newest first.
    ///
    /// # Errors
    /// See [`ResellerError`].
    pub async fn reseller_payments(
        &self,
        caller: &ResellerCaller,
        merchant: MerchantId,
        paging: Paging,
    ) -> Result<Page<Payment>, ResellerError> {
        let (reseller, environment) = (&caller.reseller, caller.key.environment);
        self.may_work(reseller, merchant, environment).await??;
        let listed = self
            .store()
            .reseller_payments(reseller.id, merchant, environment, paging);
        match listed.await? {
            Listed::Page(page) => Ok(page),
            Listed::BadCursor => Err(ResellerError::BadCursor),
        }
    }

    /// A payment, where the caller made it in its environment.
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
