//! What makes one vendor differ from another: its protocol. Everything else is shared.
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
    session::{Conflict, Happened, Outcome, Session},
};

/// How a call is treated while its account misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// About a payment: uses up faults.
    Payment,
    /// About credentials or health: fails only while the vendor is down, so that a fault ordered
    /// for a payment is not spent on a probe.
    Other,
}

/// A piece of news in the vendor's words.
pub(crate) struct Event<'a> {
    pub(crate) id: &'a str,
    pub(crate) happened: Happened,
    /// When, in milliseconds of the injected clock.
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

/// A simulated vendor's protocol.
pub(crate) trait Vendor: Send + Sync {
    /// The vendor's API for one account.
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router;

    /// What the gateway's account at this vendor is made of. `api` is where the API is served, as
    /// `http://127.0.0.1:9001`.
    fn profile(&self, account: &SimAccount, api: &str) -> Profile;

    /// What kind of call this is.
    fn call(&self, method: &Method, path: &str) -> Call;

    /// How the vendor words a failure of its own: 429, 500 or 503.
    fn failure(&self, status: StatusCode) -> Response;

    /// What the payer's choice does. By default an approval captures at once, and only authorises
    /// where `needs-capture` was ordered.
    ///
    /// # Errors
    /// [`Conflict`] where the payment is not in a state that allows it.
    fn choose(
        &self,
        account: &Account,
        session: &mut Session,
        outcome: Outcome,
        now: u64,
    ) -> Result<Option<Happened>, Conflict> {
        usually(account, session, outcome, now)
    }

    /// When this vendor confirms a merchant's capture, and how it refuses one.
    fn captures(&self) -> Captures {
        Captures::AT_ONCE
    }

    /// What news a capture is that the merchant has asked for; marks the payment where the vendor
    /// holds it.
    fn captured(&self, session: &mut Session) -> Happened {
        let _ = session;
        Happened::Captured
    }

    /// How long after its answer this vendor makes a refund that the merchant asks for, in milliseconds;
    /// 0 where the answer tells that it is made, [`ON_CLAIM`](crate::refund::ON_CLAIM) where the payer has to
    /// claim it.
    fn refunds_after_ms(&self, session: &Session) -> u64 {
        let _ = session;
        0
    }

    /// Whether this vendor takes in every refund of a payment that it knows, and tells later that it
    /// cannot be made.
    fn refuses_refunds_later(&self) -> bool {
        false
    }

    /// Whether this can happen to a payment at this vendor.
    fn knows(&self, later: Later) -> bool {
        let _ = later;
        true
    }

    /// A refund's or dispute's id in the vendor's form, out of 32 hexadecimal characters.
    fn part_id(&self, part: Part, hex: &str) -> String {
        match part {
            Part::Refund => format!("re_{hex}"),
            Part::Dispute => format!("dp_{hex}"),
        }
    }

    /// The callback about an event; none where the vendor sends none.
    fn event(&self, account: &Account, event: Event<'_>) -> Option<Message>;

    /// The query that the merchant gave with a payment's own callback address; none where the vendor
    /// has one address for all.
    fn callback_query(&self, _: &Session) -> Option<String> {
        None
    }

    /// The headers that a callback's delivery carries beside its content type, its signature among
    /// them. `secret` is the account's callback secret, or another where a forgery is ordered.
    fn sign(
        &self,
        account: &Account,
        secret: &str,
        body: &str,
        now_ms: u64,
    ) -> Vec<(&'static str, String)>;

    /// The body of a callback as it is sent, for a vendor that signs inside it.
    fn sealed(&self, secret: &str, body: &str) -> String {
        let _ = secret;
        body.to_owned()
    }

    /// What is appended to the address that the payer returns to.
    fn returns(&self, session: &Session, outcome: Outcome) -> Vec<(&'static str, String)> {
        let _ = outcome;
        vec![("session", session.reference.clone())]
    }
}

/// What a choice does where the vendor has no ways of its own.
///
/// # Errors
/// [`Conflict`] where the payment is not in a state that allows it.
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

/// The module whose vendor exists nowhere but here.
pub(crate) const SANDBOX: &str = "sandbox";

/// The modules whose vendors are simulated, the sandbox first.
pub(crate) const MODULES: &[&str] = &[
    "sandbox", "adyen", "btcpay", "mollie", "paypal", "paysafe", "razorpay", "revolut", "stripe",
];

/// The vendor of that module name.
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
    use crate::{account::tests::Desk, money::Amount};

    #[test]
    fn every_module_that_is_named_has_a_vendor() {
        for module in MODULES.iter().copied() {
            assert!(by_module(module).is_some(), "{module}");
        }
        assert!(by_module("nobody").is_none());
    }

    /// The ids of parts in the news that a vendor sends about them.
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
            // Mollie and BTCPay tell no parts at all, Paysafe no disputes; of what is refunded Stripe
            // tells the whole charge.
            if !["mollie", "btcpay"].contains(&module) {
                let told = |refund: &&Refund| module != "stripe" || refund.has_failed();
                // PayPal tells nothing of one that failed, but told of it when it was made.
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
