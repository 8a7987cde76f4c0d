//! From drawn numbers to the words that a store is spoken to with.

use std::time::Duration;

use kassette_domain::attempt::Choice;
use kassette_domain::audit::Audited;
use kassette_domain::id::{
    AccountId, AttemptId, Digest, KeyId, MerchantId, PaymentId, RefundId, ResellerId, Slot,
};
use kassette_domain::key::{ApiKey, Environment, KeyOwner, Scope, TokenHash};
use kassette_domain::lifecycle::{
    Act, ClaimPurpose, NewDecision, NewRefund, NewWork, Query, RefundAnswer, StartResult, Step, Via,
};
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::order::{ClientRef, Email, IdempotencyKey, OrderId};
use kassette_domain::payment::{CheckoutMode, NewPayment, Origin, Request, Resolution, Settlement};
use kassette_domain::provider::{Given, Payer, PayerAction, QueryPurpose, RefundTerms};
use kassette_domain::refund::RefundOrigin;
use kassette_domain::secret::Secret;
use kassette_domain::site::ReturnUrl;
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;
use kassette_store::About;

use crate::op::{DUE, Doing, Move, Ordering, Question, Ref, Way};
use crate::payment::Payment;
use crate::said::{REFUND_STATES, refund_reference, report};

/// How long a start or a question holds an attempt.
const LEASE: Duration = Duration::from_secs(30);
/// How long a payment lives.
const OFFER: Duration = Duration::from_secs(24 * 3600);

/// Sixteen bytes that belong to a name.
fn bytes_of(name: &str) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&Digest::of(name.as_bytes()).0[..16]);
    id
}

pub(crate) fn payment_id(name: &str) -> PaymentId {
    PaymentId::from_bytes(bytes_of(name))
}

pub(crate) fn account(first: bool) -> AccountId {
    AccountId::parse(if first { "sandbox-test" } else { "other-test" }).unwrap()
}

/// A request, with one field changed where the number names one.
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
    };
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
        // A merchant's references are a space of its own, so only a reseller can differ in it.
        8 if resellers => request.merchant = MerchantId(2),
        _ => {}
    }
    request
}

/// A request ready to be written, with an id and token of its own.
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
        decision: None,
    }
}

/// The attempt that a payment's `nth` is, from the first.
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
        digest: Digest::of(b"module"),
        method: MethodId::Ideal,
        expires_at: now.after(Duration::from_secs(life.into())),
        busy_until: now.after(LEASE),
        payer: Payer::default(),
        decision: None,
    })
}

/// A step of a payment, as it is known or is not: how it is named, and what is to be done.
pub(crate) fn step(
    id: PaymentId,
    known: Option<&Payment>,
    way: Way,
    drawn: Move,
    now: Time,
) -> (About, Step) {
    let count = known.map_or(0, |payment| payment.attempts.len());
    let due = known.map_or(DUE, |payment| payment.due);
    let until = now.after(LEASE);
    let next = attempt_id(id, count);
    // Beyond the oldest there is none.
    let nth = |back: u8| {
        let back = usize::from(back) + 1;
        attempt_id(id, count.checked_sub(back).unwrap_or(usize::MAX))
    };
    let shifted = |by: i64| {
        let by_millis = Duration::from_millis(by.unsigned_abs());
        if by < 0 {
            now.before(by_millis)
        } else {
            now.after(by_millis)
        }
    };
    let asked = |question: Question, attempt: AttemptId| {
        let at = known.and_then(|known| known.find(attempt).ok());
        let at = at.and_then(|at| known.map(|known| &known.attempts[at]));
        let notices = at.map_or(0, |attempt| attempt.notices);
        Query {
            purpose: [
                QueryPurpose::Capture,
                QueryPurpose::Sync,
                QueryPurpose::Cancel,
            ][usize::from(question.purpose)],
            notices: notices.saturating_sub(question.overtaken.into()),
            held: at
                .and_then(|attempt| attempt.busy)
                .map(|until| match question.late {
                    true => until.before(Duration::from_millis(1)),
                    false => until,
                }),
        }
    };
    // The newest first.
    let orders: Vec<RefundId> = known
        .into_iter()
        .flat_map(|known| known.attempts.iter().rev())
        .flat_map(|attempt| attempt.returns.orders.iter().rev())
        .map(|order| order.id)
        .collect();
    let nth_order = |nth: u8| {
        let nowhere = RefundId::from_bytes(bytes_of("no refund"));
        orders.get(usize::from(nth)).copied().unwrap_or(nowhere)
    };
    if let (Way::Reference, Move::ClaimRefund { nth, .. } | Move::RefundAnswered { nth, .. }) =
        (way, drawn)
    {
        let about = About::Refund(nth_order(nth));
        return (about, step(id, known, Way::Id, drawn, now).1);
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
                at: shifted(by),
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
            let attempts = known.into_iter().flat_map(|known| &known.attempts);
            let mut all = attempts.flat_map(|attempt| &attempt.returns.orders);
            let is_to_send = all.any(|order| order.id == refund && order.is_to_send());
            let step = Step::ClaimRefund {
                refund,
                send: is_to_send == right,
                until,
            };
            (nth(0), step)
        }
        Move::RefundAnswered { nth: order, answer } => {
            let refund = nth_order(order);
            let attempts = known.into_iter().flat_map(|known| &known.attempts);
            let mut all = attempts.flat_map(|attempt| &attempt.returns.orders);
            let held = all
                .find(|order| order.id == refund)
                .and_then(|order| order.busy);
            let step = Step::RefundAnswered {
                refund,
                // Now and then a call's that holds it no more.
                held: held.filter(|_| answer % 5 != 4).unwrap_or(now),
                answer: refund_answer(answer, refund),
            };
            (nth(0), step)
        }
        Move::Act(doing) => (nth(0), Step::Act(act(doing))),
        Move::Release { right } => {
            let held = known.and_then(|known| known.lease).filter(|_| right);
            let claimed_until = held.unwrap_or(now);
            (nth(0), Step::Release { claimed_until })
        }
        Move::Redact => (nth(0), Step::Redact),
    };
    let about = match way {
        Way::Id => About::Payment(id),
        Way::Attempt => About::Attempt(attempt),
        Way::Reference => {
            let of = known.and_then(|payment| payment.find(attempt).ok());
            let at = of.and_then(|at| known.map(|payment| payment.attempts[at].account.clone()));
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
            // Now and then another's.
            reference: match number {
                4 => "refund 1".into(),
                _ => refund_reference(refund),
            },
            state: REFUND_STATES[usize::from(number % 3)],
            claim_url: None,
            detail: String::new(),
        }),
        5 => RefundAnswer::Refused("no".into()),
        6 => RefundAnswer::Unavailable("down".into()),
        7 | 8 => RefundAnswer::Absent,
        _ => RefundAnswer::Uncertain("time-out".into()),
    }
}

/// An order of a payment, as it is known or is not. `open` is a line of the work list about it.
pub(crate) fn order(
    id: PaymentId,
    known: Option<&Payment>,
    drawn: Ordering,
    count: usize,
    open: Option<(AttemptId, WorkKind, u64)>,
) -> NewRefund {
    let attempts = known.map_or(0, |payment| payment.attempts.len());
    let back = usize::from(drawn.attempt) + 1;
    let nth = attempt_id(id, attempts.checked_sub(back).unwrap_or(usize::MAX));
    let due = known.map_or(DUE, |payment| payment.due).amount.0;
    let kinds = [WorkKind::Surplus, WorkKind::Late, WorkKind::Excess];
    let (attempt, line) = match (drawn.line, open) {
        (0, _) | (1, None) => (nth, None),
        (1, Some((attempt, kind, amount))) => (attempt, Some((kind, Minor(amount)))),
        (of_kind, _) => (nth, Some((kinds[usize::from(of_kind) - 2], Minor(500)))),
    };
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
        line,
        terms: (drawn.terms > 0).then_some(RefundTerms {
            method: MethodId::Ideal,
            parts: drawn.terms != 1,
            at_most: (drawn.terms == 2).then_some(2),
            days: None,
        }),
    }
}

fn act(doing: Doing) -> Act {
    match doing {
        Doing::Cancel => Act::Cancel,
        Doing::Expire => Act::Expire,
        Doing::ToReview => Act::ToReview,
        Doing::Decide {
            approve,
            settlement,
            vouch,
        } => Act::Review(Box::new(NewDecision {
            resolution: if approve {
                Resolution::Approve
            } else {
                Resolution::Decline
            },
            settlement: [None, Some(Settlement::Confirmed), Some(Settlement::Pending)]
                [usize::from(settlement)],
            vouch,
            operator: "root".into(),
            actor: "ann".into(),
            reason: "because".into(),
        })),
    }
}

/// Captured money of an attempt that no payment has.
pub(crate) fn unknown(attempt: u8, amount: u16) -> NewWork {
    NewWork {
        kind: WorkKind::Unknown,
        attempt: AttemptId::from_bytes(bytes_of(&format!("unknown {attempt}"))),
        account: account(true),
        amount: Minor(amount.into()),
        currency: "EUR".into(),
        detail: String::new(),
    }
}

/// A key of merchant 1 or 2; odd ones are live.
pub(crate) fn key(number: u8, generation: usize, now: Time) -> ApiKey {
    let shown = format!("key {number} {generation}");
    ApiKey {
        id: KeyId::from_bytes(bytes_of(&shown)),
        hash: TokenHash::of(&shown),
        owner: KeyOwner::Merchant(MerchantId(if number == 3 { 2 } else { 1 })),
        environment: if number % 2 == 1 {
            Environment::Live
        } else {
            Environment::Test
        },
        scopes: Scope::MERCHANT.to_vec(),
        hint: "abcd".into(),
        created_at: now,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
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
