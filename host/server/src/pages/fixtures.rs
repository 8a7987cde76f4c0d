//! Payments to show, for tests.

use std::sync::Arc;

use kassette_domain::attempt::{Attempt, Choice, VendorFacts};
use kassette_domain::delegation::DelegationStatus;
use kassette_domain::id::{
    AccountId, AttemptId, Digest, InvitationId, MerchantId, PaymentId, ResellerId, Slot,
};
use kassette_domain::invitation::{BusinessName, Invitation, InvitationRequest, NewInvitation};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{PaymentAggregate, QuerySchedule, Step};
use kassette_domain::merchant::Merchant;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::order::{ClientRef, Email, IdempotencyKey, OrderId};
use kassette_domain::payment::{CheckoutMode, NewPayment, Origin, Payment, Request, Status};
use kassette_domain::policy::Policy;
use kassette_domain::provider::{Payer, PayerAction, VendorSettlement, VendorStatus};
use kassette_domain::reseller::Reseller;
use kassette_domain::routing::{MethodDescription, PathData, Shape, Translation};
use kassette_domain::secret::Secret;
use kassette_domain::site::ReturnUrl;
use kassette_domain::time::Time;
use kassette_gateway::checkout::CheckoutView;
use kassette_gateway::methods::{Offer, OfferedProvider};
use kassette_gateway::reseller::InvitationView;
use kassette_store::InvitationStanding;

pub(crate) const NOW: Time = Time::from_secs(1_795_253_400);
pub(crate) const TOKEN: &str = "ttttttttttttttttttttttttttttttttttttttttttt0";
pub(crate) const RETURN_TOKEN: &str = "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr0";
pub(crate) const INVITATION_TOKEN: &str = "iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii0";
pub(crate) const EMAIL: &str = "ada@secret.example";
pub(crate) const BACK: &str = "https://shop.example/thanks?order=7";

/// 49.90 EUR for order `A-7` of `Demo shop`, hosted, worth 53.89 USD.
pub(crate) fn payment() -> Payment {
    let request = Request {
        merchant: MerchantId(1),
        origin: Origin::Merchant {
            idempotency_key: IdempotencyKey::parse("order-A-7").unwrap(),
        },
        environment: Environment::Test,
        order_id: OrderId::parse("A-7").unwrap(),
        due: due(),
        mode: CheckoutMode::Hosted,
        method: None,
        email: Some(Email::parse(EMAIL).unwrap()),
        return_url: Some(ReturnUrl::parse(BACK, false).unwrap()),
    };
    let new = NewPayment {
        id: PaymentId::from_bytes([0xab; 16]),
        request,
        usd: Minor(5389),
        rate: kassette_domain::money::Rate::ONE,
        rate_table: None,
        token: Secret::new(TOKEN),
        expires_at: Time::from_secs(NOW.as_secs() + 86_400),
        risk_review: false,
        decision: None,
    };
    Payment::new(new, None, NOW)
}

fn due() -> Money {
    Money {
        amount: Minor(4990),
        currency: Currency::EUR,
    }
}

pub(crate) fn redirect() -> PayerAction {
    PayerAction::Redirect("https://pay.vendor.example/s/1?a=b&c=d".into())
}

/// An attempt at iDEAL through `sandbox-test`, waiting for the payer to do `action`.
pub(crate) fn attempt(action: PayerAction) -> Attempt {
    let choice = Choice {
        attempt: AttemptId::from_bytes([0xcd; 16]),
        return_token: Secret::new(RETURN_TOKEN),
        account: AccountId::parse("sandbox-test").unwrap(),
        slot: Slot::of_provider("sandbox").unwrap(),
        digest: Digest([0; 32]),
        method: MethodId::Ideal,
        expires_at: Time::from_secs(NOW.as_secs() + 3600),
        busy_until: NOW,
        payer: Payer::default(),
        decision: None,
    };
    let mut aggregate = PaymentAggregate::new(payment());
    aggregate
        .step(Step::Open(Box::new(choice)), NOW, &QuerySchedule::default())
        .unwrap();
    let mut attempt = aggregate.attempts.remove(0);
    attempt.action = Some(action);
    attempt
}

/// A vendor's word: its status, and so many euro cents received.
pub(crate) fn facts(status: VendorStatus, received: Minor) -> VendorFacts {
    VendorFacts {
        status,
        settlement: VendorSettlement::Pending,
        received,
        currency: "EUR".into(),
        returned: Minor(0),
        detail: String::new(),
        at: NOW,
    }
}

/// A module with a German translation and a drawing of its own.
fn described(id: MethodId, label: &str) -> MethodDescription {
    MethodDescription {
        id,
        label: label.into(),
        version: "1.0.0".into(),
        currencies: vec![],
        translations: vec![Translation {
            language: "de-AT".into(),
            label: format!("{label}, übersetzt"),
            note: Some("Bestätigen Sie <dort>.".into()),
        }],
        icon: vec![
            Shape::Line(PathData::parse("M4 12h16".into()).unwrap()),
            Shape::Area(PathData::parse("M4 12h1z".into()).unwrap()),
        ],
        settings: vec![],
    }
}

pub(crate) fn offer(method: MethodId, label: &str, note: Option<&str>) -> Offer {
    Offer {
        method,
        description: Arc::new(described(method, label)),
        providers: vec![OfferedProvider {
            id: AccountId::parse("sandbox-test").unwrap(),
            name: "Sandbox".into(),
            verification_note: note.map(str::to_owned),
            verification_url: note.map(|_| "https://sandbox.example/verify".to_owned()),
        }],
    }
}

pub(crate) fn view(status: Status, attempts: Vec<Attempt>) -> CheckoutView {
    let mut payment = payment();
    payment.status = status;
    CheckoutView {
        merchant: Arc::new(Merchant {
            id: MerchantId(1),
            name: "Demo shop".into(),
            live_approved: true,
            rates: std::collections::BTreeMap::new(),
            policy: Policy::default(),
            brand: Default::default(),
            domains: vec![],
            created_at: NOW,
        }),
        aggregate: PaymentAggregate { payment, attempts },
        offers: vec![
            offer(MethodId::CreditCard, "Credit card", None),
            offer(
                MethodId::Ideal,
                "iDEAL | Wero",
                Some("Your bank asks you to confirm in its app."),
            ),
        ],
        can_choose: true,
        back_to_merchant: Some(BACK.into()),
    }
}

/// `Agency <b>` invites `Shop "Seven"`, and where that stands.
pub(crate) fn invited(status: DelegationStatus) -> InvitationView {
    let new = NewInvitation {
        id: InvitationId::from_bytes([0xef; 16]),
        request: InvitationRequest {
            reseller: ResellerId(1),
            client_ref: ClientRef::parse("secret-ref-1").unwrap(),
            email: Email::parse(EMAIL).unwrap(),
            business_name: BusinessName::parse("Shop \"Seven\"").unwrap(),
        },
        token: Secret::new(INVITATION_TOKEN),
    };
    InvitationView {
        reseller: Arc::new(Reseller {
            id: ResellerId(1),
            name: "Agency <b>".into(),
            live_rollout: false,
            created_at: NOW,
        }),
        standing: InvitationStanding {
            invitation: Invitation::new(new, NOW),
            status,
        },
    }
}
