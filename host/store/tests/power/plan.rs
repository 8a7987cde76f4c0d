//! What the watched process does, and what has to be there when it was acknowledged: both follow from
//! a seed, so the judge knows every payment at every step without having seen the process.

use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::{
    NewEvent, PaymentAggregate, QuerySchedule, StartResult, Step, Transition,
};
use kassette_domain::money::Minor;
use kassette_domain::payment::{NewPayment, Payment, Request, RoutingDecision};
use kassette_domain::provider::{PayerAction, Report, VendorStatus};
use kassette_domain::time::Time;
use kassette_store::suite::fixtures::{self, *};

use crate::random::Random;
use crate::{everything, pruning};

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
    pub(crate) decisions: Vec<RoutingDecision>,
    pub(crate) transitions: Vec<Transition>,
    pub(crate) events: Vec<NewEvent>,
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
    later(u64::try_from(at).unwrap() + 1)
}

/// A payment's first step after it was made.
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
        steps.push(told(VendorStatus::Processing, 0));
    }
    if !random.one_in(6) {
        steps.push(told(VendorStatus::Completed, 0));
        for refund in 0..random.below(24) {
            let returned = u64::try_from(refund).unwrap() + 1;
            steps.push(told(VendorStatus::Completed, returned));
        }
    }
    steps
}

/// Mostly a link; sometimes a form that fills a page, or is as long as a row may be.
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

/// Without an address, of which the store keeps a mark under a key of its own.
pub(crate) fn request(number: usize) -> Request {
    Request {
        email: None,
        ..fixtures::request(&number.to_string())
    }
}

pub(crate) fn new_payment(number: usize) -> NewPayment {
    of_request(&number.to_string(), request(number))
}
