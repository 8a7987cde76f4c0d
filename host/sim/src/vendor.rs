//! The differences between providers: their protocols. Everything else is shared.
use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    response::Response,
};

use crate::{
    account::Account,
    afterwards::{Later, Part},
    capture::Captures,
    config::{Profile, SimAccount},
    fault::Fault,
    money::Amount,
    session::{Conflict, Happened, Outcome, Session},
};

/// Kind of a call, which determines the effect of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// About a payment: uses up faults.
    Payment,
    /// About credentials or health: fails only while the provider is down, so that a health check does not use up
    /// a fault that was ordered for a payment.
    Other,
}

/// An event for a callback.
pub(crate) struct Event<'a> {
    pub(crate) id: &'a str,
    pub(crate) happened: Happened,
    /// Time in milliseconds of the injected clock.
    pub(crate) at: u64,
    pub(crate) session: &'a Session,
}

/// A callback before it is signed.
pub(crate) struct Message {
    /// The exact bytes.
    pub(crate) body: String,
    pub(crate) media_type: &'static str,
}

impl Message {
    pub(crate) fn json(body: &serde_json::Value) -> Self {
        Self {
            body: body.to_string(),
            media_type: "application/json",
        }
    }
}

/// A simulated provider's protocol.
pub(crate) trait Vendor: Send + Sync {
    /// The provider's API for one account.
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router;

    /// Configuration of the gateway's account at this provider. `api` is the address of the API, as
    /// `http://127.0.0.1:9001`.
    fn profile(&self, account: &SimAccount, api: &str) -> Profile;

    /// Kind of this call.
    fn call(&self, method: &Method, path: &str) -> Call;

    /// The provider's answer for its own failure: 429, 500 or 503.
    fn failure(&self, status: StatusCode) -> Response;

    /// Applies the payer's choice. By default an approval captures immediately, or only authorizes if
    /// `needs-capture` was ordered.
    ///
    /// # Errors
    /// [`Conflict`] if the payment's state does not allow it.
    fn choose(
        &self,
        account: &Account,
        session: &mut Session,
        outcome: Outcome,
        now: u64,
    ) -> Result<Option<Happened>, Conflict> {
        usually(account, session, outcome, now)
    }

    /// Time of the confirmation of a merchant's capture, and way of a refusal.
    fn captures(&self) -> Captures {
        Captures::AT_ONCE
    }

    /// The event of a capture that the merchant has requested. Marks the payment if the provider holds it.
    fn captured(&self, session: &mut Session) -> Happened {
        let _ = session;
        Happened::Captured
    }

    /// Time between the answer and the execution of a merchant's refund, in milliseconds. 0 if the answer contains
    /// the executed refund, [`ON_CLAIM`](crate::refund::ON_CLAIM) if the payer has to claim it.
    fn refunds_after_ms(&self, session: &Session) -> u64 {
        let _ = session;
        0
    }

    /// Whether this provider accepts every refund of a known payment, and refuses impossible ones later.
    fn refuses_refunds_later(&self) -> bool {
        false
    }

    /// Whether this provider supports an event. Not every provider has inquiries or reverses captures.
    fn knows(&self, later: Later) -> bool {
        !matches!(later, Later::Inquiry | Later::CaptureFails)
    }

    /// The payer cancels on the provider's page. By default nothing changes: the payer is redirected and could
    /// still pay.
    ///
    /// # Errors
    /// [`Conflict`] if the payment can no longer be paid.
    fn give_up(&self, session: &mut Session, now: u64) -> Result<Option<Happened>, Conflict> {
        if session.is_payable(now) {
            Ok(None)
        } else {
            Err(Conflict)
        }
    }

    /// The fee for a received amount that the provider reports.
    fn fee(&self, session: &Session, received: Amount) -> Amount {
        let _ = (session, received);
        Amount(0)
    }

    /// Whether amounts have further scripts than pressing buttons.
    fn has_test_amounts(&self) -> bool {
        false
    }

    /// Whether the provider withdraws the money when a dispute is opened, not when it is lost.
    fn withdraws_at_once(&self) -> bool {
        false
    }

    /// A refund's or dispute's id in the provider's format, from 32 hexadecimal digits.
    fn part_id(&self, part: Part, hex: &str) -> String {
        match part {
            Part::Refund => format!("re_{hex}"),
            Part::Dispute => format!("dp_{hex}"),
        }
    }

    /// The callback about an event. `None` if the provider sends none.
    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message>;

    /// The query of a payment's own callback address. `None` if the provider has one address for all payments.
    fn callback_query(&self, _: &Session) -> Option<String> {
        None
    }

    /// The headers of a callback's delivery except for the content type, including the signature. `secret` is the
    /// account's callback secret, or another one for a forgery.
    fn sign(
        &self,
        account: &Account,
        secret: &str,
        body: &str,
        now_ms: u64,
    ) -> Vec<(&'static str, String)>;

    /// The body of a callback as it is sent, for a provider with signatures inside the body.
    fn sealed(&self, secret: &str, body: &str) -> String {
        let _ = secret;
        body.to_owned()
    }

    /// The query that is added to the payer's return address.
    fn returns(&self, session: &Session, outcome: Outcome) -> Vec<(&'static str, String)> {
        let _ = outcome;
        vec![("session", session.reference.clone())]
    }
}

/// The default for [`Vendor::choose`].
///
/// # Errors
/// [`Conflict`] if the payment's state does not allow it.
pub(crate) fn usually(
    account: &Account,
    session: &mut Session,
    outcome: Outcome,
    now: u64,
) -> Result<Option<Happened>, Conflict> {
    match outcome {
        Outcome::Approve if session.held => session.release(now).map(Some),
        Outcome::Approve | Outcome::Review if !session.is_payable(now) => Err(Conflict),
        Outcome::Approve => {
            let by_merchant = account.faults.take(Fault::NeedsCapture);
            account.approve(session, now, by_merchant).map(Some)
        }
        Outcome::Decline => session.decline(now).map(Some),
        Outcome::Review => session.hold(now, account.taken(session)).map(Some),
        Outcome::Pending if session.is_payable(now) => Ok(None),
        Outcome::Pending => Err(Conflict),
    }
}

/// The module whose provider exists only here.
pub(crate) const SANDBOX: &str = "sandbox";

/// The modules with simulated providers, the sandbox first.
pub(crate) const MODULES: &[&str] = &[
    "sandbox", "adyen", "btcpay", "mollie", "paypal", "paysafe", "razorpay", "revolut", "stripe",
];

/// The provider with that module name.
pub(crate) fn by_module(module: &str) -> Option<Arc<dyn Vendor>> {
    Some(match module {
        "sandbox" => Arc::new(crate::sandbox::Sandbox::default()) as Arc<dyn Vendor>,
        "adyen" => Arc::new(crate::adyen::Adyen),
        "btcpay" => Arc::new(crate::btcpay::BtcPay),
        "mollie" => Arc::new(crate::mollie::Mollie),
        "paypal" => Arc::new(crate::paypal::PayPal::default()),
        "paysafe" => Arc::new(crate::paysafe::Paysafe),
        "razorpay" => Arc::new(crate::razorpay::Razorpay),
        "revolut" => Arc::new(crate::revolut::Revolut),
        "stripe" => Arc::new(crate::stripe::Stripe),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::Desk;

    #[test]
    fn every_module_that_is_named_has_a_vendor() {
        for module in MODULES.iter().copied() {
            assert!(by_module(module).is_some(), "{module}");
        }
        assert!(by_module("nobody").is_none());
    }

    /// The ids of refunds and disputes in the callbacks about them.
    #[tokio::test]
    async fn refunds_and_disputes_are_told_under_ids_of_their_own() {
        use crate::{afterwards::Later, refund::Refund};
        for module in MODULES.iter().copied() {
            let desk = Desk::at(module);
            let reference = desk.payment().await.reference;
            let approve = |session: &mut Session, account: &Account, now| {
                Ok(account.approve(session, now, false).map(Some)?)
            };
            desk.act(approve).await.unwrap();
            let later = async |later, amount| {
                let (reference, amount) = (reference.clone(), amount);
                let changed = desk.account.later(reference, later, amount, None);
                (changed.await.is_ok(), desk.callbacks().pop())
            };
            for amount in [1_000, 1_000, 500] {
                assert!(
                    later(Later::Refund, Some(Amount(amount))).await.0,
                    "{module}"
                );
            }
            assert!(later(Later::RefundFails, None).await.0, "{module}");
            let (disputed, told) = later(Later::Dispute, None).await;
            let (again, retold) = later(Later::Dispute, None).await;
            assert_eq!((disputed, again), (module != "btcpay", module != "btcpay"));
            let session = desk.session();
            let mut ids: Vec<&str> = session.part_ids().collect();
            let all = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), all, "{module}: every id is one of its own");
            let bodies = desk.callbacks().concat();
            // Mollie's and BTCPay's callbacks contain no such ids, Paysafe's no disputes; Stripe's callback about
            // a refund contains the whole charge.
            if !["mollie", "btcpay"].contains(&module) {
                let told = |refund: &&Refund| module != "stripe" || refund.has_failed();
                // PayPal sends no webhook about a failed refund, but sent one about its execution.
                for refund in session.refunds.iter().filter(told) {
                    assert!(bodies.contains(&refund.id), "{module}: {}", refund.id);
                }
            }
            if let Some(dispute) = session.newest_dispute()
                && !["mollie", "paysafe"].contains(&module)
            {
                assert!(
                    told.is_some_and(|told| told.contains(&dispute.id)),
                    "{module}"
                );
                assert!(
                    retold.is_some_and(|told| told.contains(&dispute.id)),
                    "{module}"
                );
            }
            assert_eq!(session.returned, Amount(2_000), "{module}");
            assert!(
                later(Later::DisputeLost, None).await.0 == disputed,
                "{module}"
            );
        }
    }
}
