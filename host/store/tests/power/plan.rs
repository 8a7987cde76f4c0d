//! What the watched process does, and what has to be there when it was acknowledged: both follow from
//! a seed, so the judge knows every payment at every step without having seen the process.

use std::time::Duration;

use kassette_domain::attempt::Choice;
use kassette_domain::audit::Audited;
use kassette_domain::event::EventType;
use kassette_domain::id::{AccountId, AttemptId, Digest, MerchantId, OperatorId, PaymentId, Slot};
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::lifecycle::{
    PaymentAggregate, QuerySchedule, StartResult, Step, Transition, Via,
};
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::operator::{Operator, Role};
use kassette_domain::order::{IdempotencyKey, OrderId};
use kassette_domain::payment::{
    CheckoutMode, Decision, Judgement, NewPayment, Origin, Payment, Purpose, Request, Settlement,
    Status,
};
use kassette_domain::provider::{
    Action, Particulars, Payer, Report, VendorSettlement, VendorStatus,
};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;

use crate::random::Random;
use crate::{everything, pruning};

const NOW: Time = Time::from_secs(1_800_000_000);
/// Money of each payment, in cents; a refund returns one.
const DUE: u64 = 4990;

/// What one worker does with one thing, step after step.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// A payment: created, then these steps.
    Payment { number: usize, steps: Vec<Step> },
    /// An operator: made, then removed. Each writes a line of the audit log.
    Operator { number: usize },
    /// Every operation that there is.
    Everything,
    /// So many deliveries are removed.
    Pruning { deliveries: usize },
}

/// A payment after some step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) aggregate: PaymentAggregate,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) transitions: Vec<Transition>,
    pub(crate) events: Vec<(EventType, Status, Settlement)>,
}

/// Everything that is to be done.
pub(crate) struct Plan {
    pub(crate) scripts: Vec<Script>,
}

impl Plan {
    /// `count` things; one in eight is an operator.
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        let mut random = Random::new(seed);
        let scripts = (0..count)
            .map(|number| match random.below(8) {
                0 => Script::Operator { number },
                _ => Script::Payment {
                    number,
                    steps: steps(number, &mut random),
                },
            })
            .collect();
        Self { scripts }
    }

    pub(crate) fn everything() -> Self {
        let scripts = vec![Script::Everything];
        Self { scripts }
    }

    pub(crate) fn pruning(deliveries: usize) -> Self {
        let scripts = vec![Script::Pruning { deliveries }];
        Self { scripts }
    }

    /// In the words that the watched process is told it in.
    pub(crate) fn told(&self, seed: u64) -> String {
        match self.scripts[..] {
            [Script::Everything] => "everything 0".into(),
            [Script::Pruning { deliveries }] => format!("pruning {deliveries}"),
            _ => format!("{seed} {}", self.scripts.len()),
        }
    }

    pub(crate) fn read(kind: &str, number: usize) -> Self {
        match kind {
            "everything" => Self::everything(),
            "pruning" => Self::pruning(number),
            seed => Self::new(seed.parse().unwrap(), number),
        }
    }
}

impl Script {
    /// How many things there are to do.
    pub(crate) const fn length(&self) -> usize {
        match self {
            Self::Payment { steps, .. } => 1 + steps.len(),
            Self::Operator { .. } => 2,
            Self::Everything => everything::LENGTH,
            Self::Pruning { deliveries } => pruning::steps(*deliveries),
        }
    }

    /// A payment before its first step, after it, and so on; the first is that it is not there.
    pub(crate) fn expected(&self) -> Vec<Option<Expected>> {
        let Self::Payment { number, steps } = self else {
            return Vec::new();
        };
        let mut now = Expected {
            aggregate: PaymentAggregate::new(Payment::new(new_payment(*number), None, NOW)),
            decisions: Vec::new(),
            transitions: Vec::new(),
            events: Vec::new(),
        };
        let mut all = vec![None, Some(now.clone())];
        for (at, step) in steps.iter().enumerate() {
            let (_, change) = now
                .aggregate
                .step(step.clone(), at_step(at), &QuerySchedule::default())
                .unwrap();
            now.decisions.extend(change.decisions);
            now.transitions.extend(change.transitions);
            now.events.extend(change.events);
            all.push(Some(now.clone()));
        }
        all
    }
}

/// When a payment's step is done.
pub(crate) fn at_step(at: usize) -> Time {
    NOW.after(Duration::from_secs(u64::try_from(at).unwrap() + 1))
}

pub(crate) const fn beginning() -> Time {
    NOW
}

/// A payment's first step after it was made.
pub(crate) fn first_step(number: usize) -> Step {
    Step::Open(Box::new(choice(number)))
}

fn steps(number: usize, random: &mut Random) -> Vec<Step> {
    let reference = format!("vendor-{number}");
    let mut steps = vec![first_step(number)];
    steps.push(Step::Started {
        attempt: attempt(number),
        result: StartResult::Open {
            reference: Some(reference.clone()),
            action: form(number, random),
            until: None,
        },
        next: None,
    });
    let news = |status, settled, returned| Step::Report {
        attempt: attempt(number),
        report: Report {
            reference: reference.clone(),
            status,
            settlement: if settled {
                VendorSettlement::Confirmed
            } else {
                VendorSettlement::Pending
            },
            received: Minor(if settled { DUE } else { 0 }),
            currency: "EUR".into(),
            returned: Minor(returned),
            detail: format!("news number {returned} of {number}"),
            particulars: Particulars::default(),
        },
        via: Via::Callback,
        asked: None,
    };
    if random.one_in(2) {
        steps.push(news(VendorStatus::Processing, false, 0));
    }
    if !random.one_in(6) {
        steps.push(news(VendorStatus::Completed, true, 0));
        for refund in 0..random.below(24) {
            let returned = u64::try_from(refund).unwrap() + 1;
            steps.push(news(VendorStatus::Completed, true, returned));
        }
    }
    steps
}

/// Mostly a link; sometimes a form that fills a page, or is as long as a row may be.
fn form(number: usize, random: &mut Random) -> Action {
    let length = match random.below(12) {
        0 => 80_000,
        1..=3 => 12_000,
        _ => {
            return Action::Redirect(format!("https://pay.example/{number}"));
        }
    };
    let value = |at: usize| format!("{number:08}-{at:08}-").repeat(64);
    let fields = (0..length / 1152).map(|at| (format!("field-{at}"), value(at)));
    Action::Post {
        url: format!("https://pay.example/{number}"),
        fields: fields.collect(),
    }
}

fn id_of(what: &str, number: usize) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&Digest::of(format!("{what} {number}").as_bytes()).0[..16]);
    id
}

pub(crate) fn payment(number: usize) -> PaymentId {
    PaymentId::from_bytes(id_of("payment", number))
}

fn attempt(number: usize) -> AttemptId {
    AttemptId::from_bytes(id_of("attempt", number))
}

pub(crate) fn request(number: usize) -> Request {
    Request {
        merchant: MerchantId(1),
        origin: Origin::Merchant {
            idempotency_key: IdempotencyKey::parse(&format!("request-{number}")).unwrap(),
        },
        environment: Environment::Test,
        order_id: OrderId::parse(&format!("order {number}")).unwrap(),
        due: Money {
            amount: Minor(DUE),
            currency: Currency::EUR,
        },
        mode: CheckoutMode::Hosted,
        method: None,
        email: None,
        return_url: None,
    }
}

pub(crate) fn token(number: usize) -> String {
    format!("checkout-token-{number}")
}

pub(crate) fn new_payment(number: usize) -> NewPayment {
    NewPayment {
        id: payment(number),
        request: request(number),
        usd: Minor(5389),
        rate: kassette_domain::money::Rate::ONE,
        rate_table: None,
        token: Secret::new(token(number)),
        expires_at: NOW.after(Duration::from_secs(24 * 3600)),
        risk_review: false,
        decision: None,
    }
}

fn choice(number: usize) -> Choice {
    let account = AccountId::parse("sandbox-test").unwrap();
    Choice {
        attempt: attempt(number),
        return_token: Secret::new(format!("return-token-{number}")),
        account: account.clone(),
        slot: Slot::parse("provider.sandbox").unwrap(),
        digest: Digest::of(b"module"),
        method: MethodId::Ideal,
        expires_at: NOW.after(Duration::from_secs(3600)),
        busy_until: NOW.after(Duration::from_secs(30)),
        payer: Payer::default(),
        decision: Some(Decision {
            at: NOW,
            slot: Slot::parse("method.ideal").unwrap(),
            digest: Digest::of(b"method"),
            purpose: Purpose::Start,
            chosen: Some(account.clone()),
            explanation: "it is cheapest".into(),
            verdicts: vec![Judgement {
                account,
                eligible: true,
                reason: "cheapest".into(),
            }],
        }),
    }
}

pub(crate) fn operator(number: usize) -> Operator {
    Operator {
        id: OperatorId::from_bytes(id_of("operator", number)),
        name: format!("operator {number}"),
        role: Role::Operator,
        hash: TokenHash::of(&format!("operator-token-{number}")),
        created_at: NOW,
        expires_at: None,
    }
}

pub(crate) fn audited(action: &str, number: usize) -> Audited {
    Audited {
        operator: "root".into(),
        operator_id: None,
        actor: "ann".into(),
        reason: Some("because".into()),
        action: action.into(),
        object: format!("operator/{number}"),
        before: None,
        after: Some("{}".into()),
    }
}
