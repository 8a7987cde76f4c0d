//! Builds the arguments of store operations from random numbers.

use std::time::Duration;

use kassette_domain::attempt::Choice;
use kassette_domain::audit::Audited;
use kassette_domain::extras::Metadata;
use kassette_domain::id::{
    AccountId, AttemptId, Digest, MerchantId, MovementId, PaymentId, RefundId, ResellerId, Slot,
};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{
    Act, ClaimPurpose, NewCorrection, NewDecision, NewRefund, NewWork, PaymentAggregate, Query,
    RefundAnswer, StartResult, Step, Via,
};
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::movement::{Bucket, Effect, Movement, MovementKind, Source};
use kassette_domain::order::{ClientRef, Email, IdempotencyKey, OrderId};
use kassette_domain::payment::{
    Accepted, CheckoutMode, NewPayment, Origin, Request, Resolution, Settlement,
};
use kassette_domain::provider::{Given, Payer, PayerAction, QueryPurpose, RefundTerms};
use kassette_domain::refund::RefundOrigin;
use kassette_domain::secret::Secret;
use kassette_domain::site::ReturnUrl;
use kassette_domain::time::Time;
use kassette_domain::work::{WorkKey, WorkKind};
use kassette_store::About;
use kassette_store::suite::fixtures;

use crate::op::{DUE, Doing, Move, Ordering, Question, Ref, Way};
use crate::said::{REFUND_STATES, refund_reference, report};

/// Lease of an attempt claim for a start or a query.
const LEASE: Duration = Duration::from_secs(30);
/// Lifetime of a payment.
const OFFER: Duration = Duration::from_secs(24 * 3600);

/// 16 bytes derived from a name.
fn bytes_of(name: &str) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&Digest::hash(name.as_bytes()).0[..16]);
    id
}

pub(crate) fn payment_id(name: &str) -> PaymentId {
    PaymentId::from_bytes(bytes_of(name))
}

pub(crate) fn account(first: bool) -> AccountId {
    AccountId::parse(if first { "sandbox-test" } else { "other-test" }).unwrap()
}

/// A request, with one field changed if `field` is below [`FIELDS`].
pub(crate) fn request(number: u8, field: u8) -> Request {
    let resellers = number >= 6;
    let origin = if resellers {
        Origin::Reseller {
            reseller: ResellerId(1),
            client_ref: ClientRef::parse(&format!("client-{number}")).unwrap(),
        }
    } else {
        Origin::Merchant {
            idempotency_key: IdempotencyKey::parse(&format!("request-{number}")).unwrap(),
        }
    };
    let direct = number % 2 == 1;
    let mut request = Request {
        merchant: MerchantId(1),
        origin,
        environment: if number % 4 == 3 {
            Environment::Live
        } else {
            Environment::Test
        },
        order_id: OrderId::parse(&format!("order {number}")).unwrap(),
        due: DUE,
        mode: if direct {
            CheckoutMode::Direct
        } else {
            CheckoutMode::Hosted
        },
        method: direct.then_some(MethodId::Ideal),
        email: (!number.is_multiple_of(3)).then(|| Email::parse("payer@example.org").unwrap()),
        return_url: None,
        extras: kassette_domain::extras::Extras::default(),
    };
    if number.is_multiple_of(4) {
        request.extras.notes = fixtures::notes();
    }
    match field {
        0 => {
            request.environment = match request.environment {
                Environment::Test => Environment::Live,
                Environment::Live => Environment::Test,
            }
        }
        1 => request.order_id = OrderId::parse("another order").unwrap(),
        2 => request.due.amount = Minor(DUE.amount.0 + 1),
        3 => request.due.currency = Currency::USD,
        4 => {
            request.mode = if direct {
                CheckoutMode::Hosted
            } else {
                CheckoutMode::Direct
            }
        }
        5 => request.method = Some(MethodId::Paypal),
        6 => request.email = Some(Email::parse("other@example.org").unwrap()),
        7 => {
            request.return_url = Some(ReturnUrl::parse("https://shop.example/done", false).unwrap())
        }
        9 => request.extras.notes.description = None,
        10 => request.extras.notes.metadata = Metadata::default(),
        // A merchant's references are a space of its own, so only a reseller can differ in it.
        8 if resellers => request.merchant = MerchantId(2),
        _ => {}
    }
    request
}

/// A request with a new ID and token.
pub(crate) fn new_payment(number: u8, field: u8, count: usize, now: Time) -> NewPayment {
    NewPayment {
        id: payment_id(&format!("payment {count}")),
        request: request(number, field),
        usd: Minor(5389),
        rate: kassette_domain::money::Rate::ONE,
        rate_table: None,
        token: Secret::new(format!("token {count}")),
        expires_at: now.after(OFFER),
        risk_review: number % 4 == 1,
        fee_refundable: number % 4 == 3,
        decision: None,
    }
}

/// ID of a payment's `nth` attempt, counted from the first.
pub(crate) fn attempt_id(payment: PaymentId, nth: usize) -> AttemptId {
    AttemptId::from_bytes(bytes_of(&format!("{payment} attempt {nth}")))
}

pub(crate) fn return_token(attempt: AttemptId) -> String {
    format!("return of {attempt}")
}

pub(crate) fn reference(of: Ref, attempt: AttemptId) -> String {
    match of {
        Ref::Own => format!("own {attempt}"),
        Ref::Shared(number) => format!("shared {number}"),
        Ref::Empty => String::new(),
    }
}

fn choice(id: AttemptId, first: bool, life: u16, now: Time) -> Box<Choice> {
    Box::new(Choice {
        attempt: id,
        return_token: Secret::new(return_token(id)),
        account: account(first),
        slot: Slot::parse("provider.sandbox").unwrap(),
        digest: Digest::hash(b"module"),
        method: MethodId::Ideal,
        expires_at: now.after(Duration::from_secs(life.into())),
        busy_until: now.after(LEASE),
        payer: Payer::default(),
        decision: None,
    })
}

/// Converts a random step into the store's arguments for the payment in its current state.
pub(crate) fn step(
    id: PaymentId,
    known: Option<&PaymentAggregate>,
    way: Way,
    drawn: Move,
    (now, number): (Time, usize),
) -> (About, Step) {
    let count = known.map_or(0, |known| known.attempts.len());
    let due = known.map_or(DUE, |known| known.payment.due);
    let until = now.after(LEASE);
    let next = attempt_id(id, count);
    // Numbers beyond the oldest attempt select none.
    let nth = |back: u8| {
        let back = usize::from(back) + 1;
        attempt_id(id, count.checked_sub(back).unwrap_or(usize::MAX))
    };
    let asked = |question: Question, attempt: AttemptId| {
        let at = known.and_then(|known| known.attempt(attempt));
        let notices = at.map_or(0, |attempt| attempt.queries.notices());
        Query {
            purpose: [
                QueryPurpose::Capture,
                QueryPurpose::Sync,
                QueryPurpose::Cancel,
            ][usize::from(question.purpose)],
            notices: notices.saturating_sub(question.overtaken.into()),
            held: at
                .and_then(|attempt| attempt.claim.busy_until())
                .map(|until| match question.late {
                    true => until.before(Duration::from_millis(1)),
                    false => until,
                }),
        }
    };
    // Newest first.
    let orders: Vec<RefundId> = known
        .into_iter()
        .flat_map(|known| known.attempts.iter().rev())
        .flat_map(|attempt| attempt.funds.refunds.iter().rev())
        .filter(|refund| refund.ordered.is_some())
        .map(|refund| refund.id)
        .collect();
    let nth_order = |nth: u8| {
        let nowhere = RefundId::from_bytes(bytes_of("no refund"));
        orders.get(usize::from(nth)).copied().unwrap_or(nowhere)
    };
    if let (Way::Reference, Move::ClaimRefund { nth, .. } | Move::RefundAnswered { nth, .. }) =
        (way, drawn)
    {
        let about = About::Refund(nth_order(nth));
        return (about, step(id, known, Way::Id, drawn, (now, number)).1);
    }
    let (attempt, step) = match drawn {
        Move::Open { account, life } => (nth(0), Step::Open(choice(next, account, life, now))),
        Move::Started {
            attempt,
            result,
            reference: of,
            next: falls_back,
        } => {
            let id = nth(attempt);
            let result = match result {
                0..=5 => StartResult::Open {
                    reference: Some(reference(of, id)),
                    action: PayerAction::Redirect("https://pay.example/1".into()),
                    until: None,
                },
                6 => StartResult::Open {
                    reference: None,
                    action: PayerAction::Ask(Vec::new()),
                    until: None,
                },
                7 => StartResult::Declined("no".into()),
                8 => StartResult::Unavailable("down".into()),
                _ => StartResult::Uncertain("time-out".into()),
            };
            let step = Step::Started {
                held: None,
                attempt: id,
                result,
                next: falls_back.then(|| choice(next, true, 3600, now)),
            };
            (id, step)
        }
        Move::Answered { attempt } => {
            let step = Step::Answered {
                attempt: nth(attempt),
                answers: vec![("name".into(), Secret::new("Ann"))],
                busy_until: until,
            };
            (nth(attempt), step)
        }
        Move::Claim { attempt, purpose } => {
            let step = Step::Claim {
                attempt: nth(attempt),
                purpose: [
                    ClaimPurpose::Start,
                    ClaimPurpose::Capture,
                    ClaimPurpose::Cancel,
                ][usize::from(purpose)],
                until,
            };
            (nth(attempt), step)
        }
        Move::News {
            attempt,
            said,
            reference: of,
            via,
            question,
        } => {
            let via = [Via::Callback, Via::Return, Via::Query][usize::from(via)];
            let step = Step::Report {
                attempt: nth(attempt),
                report: report(said, due, reference(of, nth(attempt)), &orders),
                via,
                asked: (via != Via::Callback).then(|| asked(question, nth(attempt))),
            };
            (nth(attempt), step)
        }
        Move::Silence {
            attempt,
            question,
            absent,
            scheduled,
        } => {
            let step = Step::QueryFailed {
                attempt: nth(attempt),
                asked: asked(question, nth(attempt)),
                absent,
                scheduled,
            };
            (nth(attempt), step)
        }
        Move::AskAt { attempt, by } => {
            let step = Step::AskAt {
                attempt: nth(attempt),
                at: shifted(now, by),
            };
            (nth(attempt), step)
        }
        Move::Returned { attempt } => {
            let step = Step::Returned {
                attempt: nth(attempt),
                query: Secret::new("back=1"),
            };
            (nth(attempt), step)
        }
        Move::ClaimRefund { nth: order, right } => {
            let refund = nth_order(order);
            let order = known.and_then(|known| known.refund(refund));
            let is_to_send = order.is_some_and(|(_, order)| order.is_to_send());
            let step = Step::ClaimRefund {
                refund,
                send: is_to_send == right,
                until,
            };
            (nth(0), step)
        }
        Move::RefundAnswered { nth: order, answer } => {
            let refund = nth_order(order);
            let order = known.and_then(|known| known.refund(refund));
            let held = order.and_then(|(_, order)| order.ordered.as_ref()?.busy_until);
            let step = Step::RefundAnswered {
                refund,
                // Sometimes a call that does not hold the claim any longer.
                held: held.filter(|_| answer % 5 != 4).unwrap_or(now),
                answer: refund_answer(answer, refund),
            };
            (nth(0), step)
        }
        Move::SettleRefund { nth: order, made } => {
            let refund = nth_order(order);
            let made = if made { None } else { Some(Minor(0)) };
            (nth(0), Step::SettleRefund { refund, made })
        }
        Move::Correct { attempt, key, out } => {
            let attempt = nth(attempt);
            let known = known.and_then(|known| known.attempt(attempt));
            let new = NewCorrection {
                attempt,
                effect: if out { Effect::Out } else { Effect::In },
                bucket: Bucket::ALL[usize::from(key)],
                amount: Minor(300),
                currency: known
                    .map_or("EUR", |known| known.received_currency())
                    .into(),
                occurred_at: now,
                provider_references: vec!["statement 1".into()],
                key: IdempotencyKey::parse(&format!("correction-{key}")).unwrap(),
            };
            (attempt, Step::Correct(Box::new(new)))
        }
        Move::Act(doing) => (nth(0), Step::Act(act(doing, known))),
        Move::Release { right } => {
            let held = known
                .and_then(|known| known.payment.claimed_until)
                .filter(|_| right);
            let claimed_until = held.unwrap_or(now);
            (nth(0), Step::Release { claimed_until })
        }
        Move::Redact => (nth(0), Step::Redact),
    };
    let about = match way {
        Way::Id => About::Payment(id),
        Way::Attempt => About::Attempt(attempt),
        Way::Reference => {
            let of = known.and_then(|known| known.attempt(attempt));
            let at = of.map(|attempt| attempt.account.clone());
            About::Reference {
                account: at.unwrap_or_else(|| account(true)),
                reference: reference(Ref::Own, attempt),
            }
        }
    };
    (about, step)
}

fn refund_answer(number: u8, refund: RefundId) -> RefundAnswer {
    match number {
        0..=4 => RefundAnswer::Given(Given {
            // Sometimes the reference of another refund.
            reference: match number {
                4 => "refund 1".into(),
                _ => refund_reference(refund),
            },
            state: REFUND_STATES[usize::from(number % 3)],
            claim_url: None,
            detail: String::new(),
            paid_out: None,
        }),
        5 => RefundAnswer::Refused("no".into()),
        6 => RefundAnswer::Unavailable("down".into()),
        7 | 8 => RefundAnswer::Absent,
        _ => RefundAnswer::Uncertain("time-out".into()),
    }
}

/// Converts a random refund order for the payment in its current state.
pub(crate) fn order(
    id: PaymentId,
    known: Option<&PaymentAggregate>,
    drawn: Ordering,
    count: usize,
) -> NewRefund {
    let attempts = known.map_or(0, |payment| payment.attempts.len());
    let back = usize::from(drawn.attempt) + 1;
    let nth = attempt_id(id, attempts.checked_sub(back).unwrap_or(usize::MAX));
    let due = known.map_or(DUE, |known| known.payment.due).amount.0;
    let bucket = Bucket::ALL[usize::from(drawn.bucket)];
    // Few attempts have money in a bucket, so such an attempt is preferred.
    let has = |attempt: &&kassette_domain::attempt::Attempt| attempt.refundable(bucket) > Minor(0);
    let rich = known.and_then(|known| known.attempts.iter().find(has));
    let attempt = rich
        .filter(|_| bucket != Bucket::Own)
        .map_or(nth, |rich| rich.id);
    NewRefund {
        id: RefundId::from_bytes(bytes_of(&format!("refund {count}"))),
        attempt,
        origin: if drawn.operator {
            RefundOrigin::Operator
        } else {
            RefundOrigin::Merchant
        },
        key: drawn
            .key
            .map(|key| IdempotencyKey::parse(&format!("refund-{key}")).unwrap()),
        amount: match drawn.amount {
            0 => None,
            amount => Some(Minor([1000, 2500, due, due + 500][usize::from(amount) - 1])),
        },
        reason: drawn.reason.then(|| "it broke".into()),
        bucket,
        terms: (drawn.terms > 0).then_some(RefundTerms {
            method: MethodId::Ideal,
            parts: drawn.terms != 1,
            at_most: (drawn.terms == 2).then_some(2),
            days: None,
            whole_units: Vec::new(),
        }),
    }
}

fn act(doing: Doing, known: Option<&PaymentAggregate>) -> Act {
    match doing {
        Doing::Cancel => Act::Cancel,
        Doing::Expire => Act::Expire,
        Doing::ToReview => Act::ToReview,
        Doing::Decide {
            approve,
            settlement,
            vouch,
            accept,
        } => Act::Review(Box::new(NewDecision {
            resolution: if approve {
                Resolution::Approve
            } else {
                Resolution::Decline
            },
            settlement: [None, Some(Settlement::Confirmed), Some(Settlement::Pending)]
                [usize::from(settlement)],
            vouch,
            accept: known.filter(|_| accept).and_then(accepted),
            despite: known.filter(|_| accept).map_or_else(Vec::new, despite),
            operator: "root".into(),
            actor: "ann".into(),
            reason: "because".into(),
        })),
    }
}

/// The received amount of the first attempt with money.
fn accepted(known: &PaymentAggregate) -> Option<Accepted> {
    let rich = |attempt: &&kassette_domain::attempt::Attempt| attempt.left() > Minor(0);
    let attempt = known.attempts.iter().find(rich)?;
    Some(Accepted {
        amount: attempt.left(),
        currency: attempt.received_currency().to_owned(),
        usd: Some(Minor(100)),
    })
}

/// IDs of all refunds and disputes that can prevent an approval.
fn despite(known: &PaymentAggregate) -> Vec<String> {
    let funds = known.attempts.iter().map(|attempt| &attempt.funds);
    funds
        .flat_map(|funds| {
            let refunds = funds.refunds.iter().map(|refund| refund.id.to_string());
            let disputes = funds.disputes.iter();
            refunds.chain(disputes.map(|disputed| disputed.dispute.id.clone()))
        })
        .collect()
}

/// Captured money of an attempt that belongs to no payment.
pub(crate) fn unknown(attempt: u8, amount: u16, now: Time) -> (NewWork, Movement) {
    let id = AttemptId::from_bytes(bytes_of(&format!("unknown {attempt}")));
    let found = NewWork {
        key: WorkKey {
            attempt: id,
            kind: WorkKind::Unknown,
            subject: String::new(),
        },
        account: account(true),
        amount: Minor(amount.into()),
        currency: "EUR".into(),
        received: Minor(amount.into()),
        detail: String::new(),
        deadline: None,
    };
    let object = format!("unknown {attempt} {amount}");
    let movement = Movement {
        id: MovementId::derived(&account(true), &object, MovementKind::Captured, 0),
        account: account(true),
        environment: Environment::Test,
        merchant: None,
        payment: None,
        attempt: Some(id),
        kind: MovementKind::Captured,
        effect: Effect::In,
        bucket: Some(Bucket::Own),
        from_bucket: None,
        amount: Minor(amount.into()),
        currency: "EUR".into(),
        provider_references: vec![object],
        occurred_at: now,
        booked_at: now,
        source: Source::Notification,
    };
    (found, movement)
}

/// A time shifted by milliseconds, which may be negative.
pub(crate) fn shifted(time: Time, by: i64) -> Time {
    let millis = Duration::from_millis(by.unsigned_abs());
    if by < 0 {
        time.before(millis)
    } else {
        time.after(millis)
    }
}

pub(crate) fn audited(action: &str) -> Audited {
    Audited {
        operator: "root".into(),
        operator_id: None,
        actor: "ann".into(),
        reason: Some("because".into()),
        action: action.into(),
        object: "something/1".into(),
        before: None,
        after: None,
    }
}
