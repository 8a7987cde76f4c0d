//! Payments for tests of the pages.

use std::sync::Arc;

use kassette_domain::attempt::{
    Attempt, AttemptState, Choice, End, Live, PayerStep, ProviderFacts, Stage,
};
use kassette_domain::delegation::DelegationStatus;
use kassette_domain::funds::ReportedFunds;
use kassette_domain::id::{
    AccountId, AttemptId, Digest, InvitationId, MerchantId, PaymentId, ResellerId, Slot,
};
use kassette_domain::invitation::{BusinessName, Invitation, InvitationRequest, NewInvitation};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{ClaimPurpose, PaymentAggregate, QuerySchedule, Step};
use kassette_domain::merchant::Merchant;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::order::{ClientRef, Email, IdempotencyKey, OrderId};
use kassette_domain::payment::{CheckoutMode, NewPayment, Origin, Payment, Request, Status};
use kassette_domain::policy::Policy;
use kassette_domain::provider::{Payer, PayerAction, ProviderSettlement, ProviderStatus};
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
        extras: kassette_domain::extras::Extras::default(),
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
        fee_refundable: false,
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

/// An iDEAL attempt with `sandbox-test` that waits for the payer to do `action`.
pub(crate) fn attempt(action: PayerAction) -> Attempt {
    let mut attempt = starting();
    let until = None;
    attempt.stage = live(
        Live::Open { uncertain: false },
        Some(PayerStep { action, until }),
    );
    attempt
}

const fn live(state: Live, step: Option<PayerStep>) -> Stage {
    let closing = false;
    Stage::Live {
        state,
        step,
        closing,
    }
}

/// Sets an attempt's state, entered just now.
pub(crate) fn put(attempt: &mut Attempt, state: AttemptState) {
    let (at, closing, step) = (NOW, false, attempt.stage.step().cloned());
    let ended = |how| Stage::Ended { how, at, closing };
    attempt.stage = match state {
        AttemptState::Open => live(Live::Open { uncertain: false }, step),
        AttemptState::Unknown => live(Live::Unknown, step),
        AttemptState::Capturing => live(Live::Capturing, step),
        AttemptState::Processing => live(Live::Processing, step),
        AttemptState::VerificationPending => live(Live::VerificationPending, step),
        AttemptState::Review => live(Live::Review, step),
        AttemptState::Captured => Stage::Captured {
            at,
            step,
            doubt: None,
        },
        AttemptState::Surplus => Stage::Surplus { at },
        AttemptState::Declined => ended(End::Declined),
        AttemptState::Cancelled => ended(End::Cancelled),
        AttemptState::Unavailable => ended(End::Unavailable),
        AttemptState::Closed => ended(End::Closed),
        AttemptState::Expired => ended(End::Expired),
        AttemptState::Failed => ended(End::Failed),
    };
}

/// Sets the time until which the payer can perform the next action.
pub(crate) fn set_until(attempt: &mut Attempt, until: Time) {
    if let Stage::Live {
        step: Some(step), ..
    } = &mut attempt.stage
    {
        step.until = Some(until);
    }
}

/// An attempt that the provider is closing, claimed until `until`.
pub(crate) fn closing(attempt: Attempt, until: Time) -> Attempt {
    let step = Step::Claim {
        attempt: attempt.id,
        purpose: ClaimPurpose::Cancel,
        until,
    };
    let mut aggregate = view(Status::Pending, vec![attempt]).aggregate;
    aggregate
        .step(step, NOW, &QuerySchedule::default())
        .unwrap();
    aggregate.attempts.remove(0)
}

/// An attempt whose start has no answer yet.
pub(crate) fn starting() -> Attempt {
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
    aggregate.attempts.remove(0)
}

/// A provider's report: status, and the amount received in euro cents.
pub(crate) fn facts(status: ProviderStatus, received: Minor) -> ProviderFacts {
    ProviderFacts {
        status,
        settlement: ProviderSettlement::Pending,
        received,
        currency: "EUR".into(),
        detail: String::new(),
        at: NOW,
    }
}

/// A report of an amount of captured money, or of none.
pub(crate) const fn captured(received: Option<Minor>) -> ReportedFunds<'static> {
    ReportedFunds {
        received,
        due: None,
        captures: &[],
        references: &[],
        captured_at: None,
        returned: None,
        fresh: true,
        refunds: &[],
        disputes: &[],
        fee: None,
    }
}

/// Merges the provider's received amount and then another report into an attempt.
pub(crate) fn merged(mut attempt: Attempt, told: ReportedFunds<'_>) -> Attempt {
    let received = attempt.vendor.as_ref().map(|facts| facts.received);
    attempt.funds.merge(captured(received), attempt.id, NOW);
    attempt.funds.merge(told, attempt.id, NOW);
    attempt
}

/// An attempt of which an amount was returned.
pub(crate) fn gone(attempt: Attempt, returned: Minor) -> Attempt {
    let told = ReportedFunds {
        returned: Some(returned),
        ..captured(None)
    };
    merged(attempt, told)
}

/// A module with a German translation and its own icon.
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
        description: None,
    }
}

/// An invitation from `Agency <b>` to `Shop "Seven"` with a status.
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
