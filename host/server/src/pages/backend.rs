//! The operations of the gateway that the pages need, as a trait, so that tests need no gateway.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kassette_domain::brand::Logo;
use kassette_domain::id::{AccountId, MerchantId};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::method::MethodId;
use kassette_domain::routing::MethodDescription;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::checkout::{CheckoutView, ReturnView};
use kassette_gateway::reseller::InvitationView;
use kassette_gateway::start::{Start, StartError, StartedPayment};
use kassette_store::{Answered, Fault};

/// Future of a use case's result.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The payer's side of the gateway, and the invited merchant's; see [`Gateway`] for what each does.
pub(crate) trait Backend: Send + Sync + 'static {
    /// [`Gateway::checkout`]
    fn checkout<'a>(&'a self, token: &'a str)
    -> BoxFuture<'a, Result<Option<CheckoutView>, Fault>>;
    /// [`Gateway::logo`]
    fn logo(&self, merchant: MerchantId) -> BoxFuture<'_, Result<Option<Logo>, Fault>>;
    /// [`Gateway::start`]
    fn start(&self, start: Start) -> BoxFuture<'_, Result<StartedPayment, StartError>>;
    /// [`Gateway::answer`]
    fn answer<'a>(
        &'a self,
        token: &'a str,
        answers: Vec<(String, Secret)>,
    ) -> BoxFuture<'a, Result<StartedPayment, StartError>>;
    /// [`Gateway::abandon`]
    fn abandon<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<PaymentAggregate>, Fault>>;
    /// [`Gateway::returned`]
    fn returned<'a>(
        &'a self,
        token: &'a str,
        query: &'a str,
    ) -> BoxFuture<'a, Result<Option<ReturnView>, Fault>>;
    /// [`Gateway::invitation`]
    fn invitation<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<InvitationView>, Fault>>;
    /// [`Gateway::accept_invitation`]
    fn accept_invitation<'a>(
        &'a self,
        token: &'a str,
        code: Secret,
    ) -> BoxFuture<'a, Result<Answered, Fault>>;
    /// [`Gateway::decline_invitation`]
    fn decline_invitation<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Answered, Fault>>;
    /// A provider account's name for payers. `None` if there is no such account.
    fn provider_name(&self, account: &AccountId) -> Option<String>;
    /// [`Gateway::method`]
    fn method(&self, method: MethodId) -> Option<Arc<MethodDescription>>;
    /// The origin of the pages.
    fn public_url(&self) -> String;
    /// Whether payers may be sent to plain http on loopback (dev).
    fn plain_loopback(&self) -> bool;
    fn now(&self) -> Time;
}

impl Backend for Gateway {
    fn checkout<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckoutView>, Fault>> {
        Box::pin(Self::checkout(self, token))
    }

    fn logo(&self, merchant: MerchantId) -> BoxFuture<'_, Result<Option<Logo>, Fault>> {
        Box::pin(Self::logo(self, merchant))
    }

    fn start(&self, start: Start) -> BoxFuture<'_, Result<StartedPayment, StartError>> {
        Box::pin(Self::start(self, start))
    }

    fn answer<'a>(
        &'a self,
        token: &'a str,
        answers: Vec<(String, Secret)>,
    ) -> BoxFuture<'a, Result<StartedPayment, StartError>> {
        Box::pin(Self::answer(self, token, answers))
    }

    fn abandon<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<PaymentAggregate>, Fault>> {
        Box::pin(Self::abandon(self, token))
    }

    fn returned<'a>(
        &'a self,
        token: &'a str,
        query: &'a str,
    ) -> BoxFuture<'a, Result<Option<ReturnView>, Fault>> {
        Box::pin(Self::returned(self, token, query))
    }

    fn invitation<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<InvitationView>, Fault>> {
        Box::pin(Self::invitation(self, token))
    }

    fn accept_invitation<'a>(
        &'a self,
        token: &'a str,
        code: Secret,
    ) -> BoxFuture<'a, Result<Answered, Fault>> {
        Box::pin(Self::accept_invitation(self, token, code))
    }

    fn decline_invitation<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Answered, Fault>> {
        Box::pin(Self::decline_invitation(self, token))
    }

    fn provider_name(&self, account: &AccountId) -> Option<String> {
        let settings = self.settings();
        let account = settings.accounts.get(account)?;
        Some(account.name.clone())
    }

    fn method(&self, method: MethodId) -> Option<Arc<MethodDescription>> {
        Self::method(self, method)
    }

    fn public_url(&self) -> String {
        self.settings().public_url.clone()
    }

    fn plain_loopback(&self) -> bool {
        self.settings().plain_loopback
    }

    fn now(&self) -> Time {
        self.clock().now()
    }
}
