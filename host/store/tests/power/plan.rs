//! Actions of the recorded process and their expected results. Both depend only on a seed, so the judge knows
//! every payment after every step.

use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::{
    NewEvent, PaymentAggregate, QuerySchedule, StartResult, Step, Transition,
};
use kassette_domain::money::Minor;
use kassette_domain::payment::{NewPayment, Payment, Request, RoutingDecision};
use kassette_domain::provider::{PayerAction, ProviderStatus, Report};
use kassette_domain::time::Time;
use kassette_store::suite::fixtures::{self, *};

use crate::random::Random;
use crate::{everything, pruning};

/// Steps of a worker with one object.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// A payment: create, then these steps.
    Payment { number: usize, steps: Vec<Step> },
    /// An operator: create, then remove. Each step writes an audit log entry.
    Operator { number: usize },
    /// Every operation of a store.
    Everything,
    /// Deletes this many deliveries.
    Pruning { deliveries: usize },
}

/// State of a payment after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) aggregate: PaymentAggregate,
    pub(crate) decisions: Vec<RoutingDecision>,
    pub(crate) transitions: Vec<Transition>,
    pub(crate) events: Vec<NewEvent>,
}

pub(crate) struct Plan {
    pub(crate) scripts: Vec<Script>,
}

impl Plan {
    /// A plan with `count` objects, one in eight of them an operator.
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

    /// Kind and number of the plan, in the format that `read` parses.
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
    /// Number of steps.
    pub(crate) const fn length(&self) -> usize {
        match self {
            Self::Payment { steps, .. } => 1 + steps.len(),
            Self::Operator { .. } => 2,
            Self::Everything => everything::LENGTH,
            Self::Pruning { deliveries } => pruning::steps(*deliveries),
        }
    }

    /// States of a payment before its first step, after it, and so on. The first is `None`, because the payment
    /// does not exist. Empty for other scripts.
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

/// Time of a payment's step.
pub(crate) fn at_step(at: usize) -> Time {
    later(u64::try_from(at).unwrap() + 1)
}

/// A payment's first step after its creation.
pub(crate) fn first_step(number: usize) -> Step {
    open(&attempt(number), "sandbox-test")
}

fn steps(number: usize, random: &mut Random) -> Vec<Step> {
    let reference = format!("vendor-{number}");
    let mut steps = vec![first_step(number)];
    steps.push(Step::Started {
        held: None,
        attempt: attempt_id(&attempt(number)),
        result: StartResult::Open {
            reference: Some(reference.clone()),
            action: form(number, random),
            until: None,
        },
        next: None,
    });
    let told = |status, returned| {
        let report = Report {
            returned: Minor(returned),
            detail: format!("news number {returned} of {number}"),
            ..report(&reference, status)
        };
        news(&attempt(number), report)
    };
    if random.one_in(2) {
        steps.push(told(ProviderStatus::Processing, 0));
    }
    if !random.one_in(6) {
        steps.push(told(ProviderStatus::Completed, 0));
        for refund in 0..random.below(24) {
            let returned = u64::try_from(refund).unwrap() + 1;
            steps.push(told(ProviderStatus::Completed, returned));
        }
    }
    steps
}

/// Usually a redirect; sometimes a form that fills a page, or that has the maximum size of a row.
fn form(number: usize, random: &mut Random) -> PayerAction {
    let length = match random.below(12) {
        0 => 80_000,
        1..=3 => 12_000,
        _ => {
            return PayerAction::Redirect(format!("https://pay.example/{number}"));
        }
    };
    let value = |at: usize| format!("{number:08}-{at:08}-").repeat(64);
    let fields = (0..length / 1152).map(|at| (format!("field-{at}"), value(at)));
    PayerAction::Post {
        url: format!("https://pay.example/{number}"),
        fields: fields.collect(),
    }
}

pub(crate) fn payment(number: usize) -> PaymentId {
    PaymentId::from_bytes(id_of(&number.to_string()))
}

fn attempt(number: usize) -> String {
    format!("attempt of {number}")
}

/// A request without an email address, whose mark would depend on a key of the store.
pub(crate) fn request(number: usize) -> Request {
    Request {
        email: None,
        ..fixtures::request(&number.to_string())
    }
}

pub(crate) fn new_payment(number: usize) -> NewPayment {
    of_request(&number.to_string(), request(number))
}
