//! Random operations on a store. The ranges are small, so that operations affect the same objects.

use kassette_domain::money::{Currency, Minor, Money};
use proptest::prelude::*;

/// Number of requests, and so of payments, in a sequence.
pub(crate) const REQUESTS: u8 = 8;
/// Fields in which a repeated request can differ; the last stands for none.
pub(crate) const FIELDS: u8 = 11;
/// Amount of all requests, except those that differ in it.
pub(crate) const DUE: Money = Money {
    amount: Minor(4990),
    currency: Currency::EUR,
};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Creates a payment, with this field changed.
    Create { request: u8, field: u8 },
    /// Reads whether the request was made before.
    Replay { request: u8, field: u8 },
    /// Performs a step of a payment's state machine.
    Step { payment: u8, about: Way, step: Move },
    /// Orders a refund.
    Refund { payment: u8, order: Ordering },
    /// Stores a callback about a provider reference. `Own` is the reference of the payment's next attempt.
    KeepCallback {
        payment: u8,
        reference: Ref,
        account: bool,
        report: Option<Said>,
    },
    /// Claims due payments.
    Claim { at_most: u8, lease: u16 },
    /// Records captured money of an unknown attempt.
    Unknown { attempt: u8, amount: u16 },
    /// Completes a work item.
    WorkDone { nth: u8 },
    /// Moves `closed_until`, as the worker does.
    Close,
    /// Moves the clock, also back, by milliseconds.
    Clock(i64),
    /// Closes the store and opens it again.
    Reopen,
    /// Reads and compares everything.
    Look,
}

/// A refund order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordering {
    pub(crate) attempt: u8,
    /// 0 for the remainder.
    pub(crate) amount: u8,
    pub(crate) operator: bool,
    /// Bucket of the money: 0 for own, then excess, surplus, late.
    pub(crate) bucket: u8,
    /// Refund terms of the account. 0: no refunds, 1: no partial refunds, 2: at most two per payment.
    pub(crate) terms: u8,
    pub(crate) key: Option<u8>,
    pub(crate) reason: bool,
}

/// The way in which a step refers to a payment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Id,
    Attempt,
    Reference,
}

/// A provider reference: the attempt's own, or one that other attempts use too.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ref {
    Own,
    Shared(u8),
    Empty,
}

/// A provider's report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) status: u8,
    pub(crate) settlement: u8,
    /// 0: nothing, 1: the amount due, 2: more, 3: less.
    pub(crate) received: u8,
    /// 0: nothing, otherwise a part.
    pub(crate) returned: u8,
    /// 0: the currency due, 1: another one, 2: none.
    pub(crate) currency: u8,
    /// Individually reported refunds: number and state.
    pub(crate) refunds: [Option<(u8, u8)>; 2],
    /// Individually reported disputes: number and state.
    pub(crate) disputes: [Option<(u8, u8)>; 2],
    /// An ordered refund: number, state, and whether the report contains the order.
    pub(crate) order: Option<(u8, u8, bool)>,
    /// Bits that select the reported particulars.
    pub(crate) tells: u8,
}

/// A query to the provider, which a report answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) purpose: u8,
    /// Whether a callback has arrived since the query.
    pub(crate) overtaken: bool,
    /// Whether another task has claimed the attempt since the query.
    pub(crate) late: bool,
}

/// An action of an operator, or an effect of time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing {
    Cancel,
    Expire,
    ToReview,
    Decide {
        approve: bool,
        /// 0: none, 1: confirmed, 2: pending.
        settlement: u8,
        vouch: bool,
        /// Accepts the received money, in spite of refunds and disputes.
        accept: bool,
    },
}

/// A step. Attempts are numbered from the newest; numbers beyond the oldest select no attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Open {
        account: bool,
        /// Lifetime of the attempt, in seconds.
        life: u16,
    },
    Started {
        attempt: u8,
        result: u8,
        reference: Ref,
        next: bool,
    },
    Answered {
        attempt: u8,
    },
    Claim {
        attempt: u8,
        purpose: u8,
    },
    News {
        attempt: u8,
        said: Said,
        reference: Ref,
        via: u8,
        question: Question,
    },
    Silence {
        attempt: u8,
        question: Question,
        absent: bool,
        scheduled: bool,
    },
    AskAt {
        attempt: u8,
        by: i64,
    },
    Returned {
        attempt: u8,
    },
    /// Number of the order, and whether it is claimed for the due purpose.
    ClaimRefund {
        nth: u8,
        right: bool,
    },
    RefundAnswered {
        nth: u8,
        answer: u8,
    },
    SettleRefund {
        nth: u8,
        made: bool,
    },
    Correct {
        attempt: u8,
        key: u8,
        out: bool,
    },
    Act(Doing),
    /// Whether the worker that holds the claim releases it.
    Release {
        right: bool,
    },
    Redact,
}

fn jump() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -60_000..300_000_i64,
        3 => -3_600_000..8_000_000_i64,
        1 => -86_400_000..200_000_000_i64,
    ]
}

fn attempt() -> impl Strategy<Value = u8> {
    prop_oneof![12 => Just(0_u8), 3 => Just(1_u8), 1 => 2..5_u8]
}

fn reference() -> impl Strategy<Value = Ref> {
    prop_oneof![
        40 => Just(Ref::Own),
        6 => (0..4_u8).prop_map(Ref::Shared),
        1 => Just(Ref::Empty),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    let status = prop_oneof![
        2 => Just(0_u8), 3 => Just(1_u8), 2 => Just(2_u8), 2 => Just(3_u8), 5 => Just(4_u8),
        3 => Just(5_u8), 1 => Just(6_u8), 1 => Just(7_u8), 1 => Just(8_u8), 2 => Just(9_u8),
    ];
    let received = prop_oneof![4 => Just(0_u8), 6 => Just(1_u8), 1 => Just(2_u8), 1 => Just(3_u8)];
    let returned = prop_oneof![8 => Just(0_u8), 1 => 1..3_u8];
    let currency = prop_oneof![12 => Just(0_u8), 1 => Just(1_u8), 1 => Just(2_u8)];
    let item = |often| {
        let one = move || proptest::option::weighted(often, (0..4_u8, 0..3_u8));
        (one(), one()).prop_map(|(first, second)| [first, second])
    };
    let tells = prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
    let what = (status, 0..3_u8, received, returned, currency);
    let order = proptest::option::weighted(0.1, (0..3_u8, 0..3_u8, prop::bool::weighted(0.7)));
    (what, item(0.08), item(0.04), order, tells).prop_map(
        |((status, settlement, received, returned, currency), refunds, disputes, order, tells)| {
            Said {
                status,
                settlement,
                received: if matches!(status, 4 | 9) {
                    received.max(1)
                } else {
                    received
                },
                returned,
                currency,
                refunds,
                disputes,
                order,
                tells,
            }
        },
    )
}

fn question() -> impl Strategy<Value = Question> {
    let seldom = || prop::bool::weighted(0.2);
    (0..3_u8, seldom(), seldom()).prop_map(|(purpose, overtaken, late)| Question {
        purpose,
        overtaken,
        late,
    })
}

fn doing() -> impl Strategy<Value = Doing> {
    let decide = |approve| {
        let settlement = prop_oneof![2 => Just(0_u8), 1 => 1..3_u8];
        (settlement, prop::bool::weighted(0.2), any::<bool>()).prop_map(
            move |(settlement, vouch, accept)| {
                let settlement = if approve { settlement } else { 0 };
                Doing::Decide {
                    approve,
                    settlement,
                    vouch,
                    accept: approve && accept,
                }
            },
        )
    };
    prop_oneof![
        1 => Just(Doing::Cancel),
        2 => Just(Doing::Expire),
        1 => Just(Doing::ToReview),
        4 => decide(true),
        3 => decide(false),
    ]
}

fn step() -> impl Strategy<Value = Move> {
    let life = prop_oneof![3 => Just(3600_u16), 1 => 1..7200_u16];
    prop_oneof![
        8 => (prop::bool::weighted(0.7), life)
            .prop_map(|(account, life)| Move::Open { account, life }),
        8 => (attempt(), 0..10_u8, reference(), any::<bool>()).prop_map(
            |(attempt, result, reference, next)| Move::Started { attempt, result, reference, next }
        ),
        1 => attempt().prop_map(|attempt| Move::Answered { attempt }),
        6 => (attempt(), 0..3_u8).prop_map(|(attempt, purpose)| Move::Claim { attempt, purpose }),
        14 => (attempt(), said(), reference(), 0..3_u8, question()).prop_map(
            |(attempt, said, reference, via, question)| {
                Move::News { attempt, said, reference, via, question }
            }
        ),
        6 => (attempt(), question(), prop::bool::weighted(0.3), any::<bool>()).prop_map(
            |(attempt, question, absent, scheduled)| {
                Move::Silence { attempt, question, absent, scheduled }
            }
        ),
        2 => (attempt(), jump()).prop_map(|(attempt, by)| Move::AskAt { attempt, by }),
        1 => attempt().prop_map(|attempt| Move::Returned { attempt }),
        4 => (0..3_u8, prop::bool::weighted(0.9))
            .prop_map(|(nth, right)| Move::ClaimRefund { nth, right }),
        6 => (0..3_u8, 0..10_u8).prop_map(|(nth, answer)| Move::RefundAnswered { nth, answer }),
        1 => (0..3_u8, any::<bool>()).prop_map(|(nth, made)| Move::SettleRefund { nth, made }),
        1 => (attempt(), 0..4_u8, any::<bool>())
            .prop_map(|(attempt, key, out)| Move::Correct { attempt, key, out }),
        7 => doing().prop_map(Move::Act),
        1 => prop::bool::weighted(0.7).prop_map(|right| Move::Release { right }),
        1 => Just(Move::Redact),
    ]
}

/// One operation, or a sequence such as an outage or a refund.
pub(crate) fn happening() -> impl Strategy<Value = Vec<Op>> {
    prop_oneof![97 => op().prop_map(|op| vec![op]), 1 => outage(), 2 => giving_back()]
}

/// A refund that is ordered, sent and answered.
fn giving_back() -> impl Strategy<Value = Vec<Op>> {
    (0..REQUESTS, ordering(), 0..10_u8).prop_map(|(payment, order, answer)| {
        let step = |step| Op::Step {
            payment,
            about: Way::Id,
            step,
        };
        vec![
            Op::Refund { payment, order },
            step(Move::ClaimRefund {
                nth: 0,
                right: true,
            }),
            step(Move::RefundAnswered { nth: 0, answer }),
        ]
    })
}

/// Consecutive queries without a response, hours apart.
fn outage() -> impl Strategy<Value = Vec<Op>> {
    let pauses = proptest::collection::vec(0..30_000_000_i64, 4..8);
    (0..REQUESTS, question(), any::<bool>(), pauses).prop_map(
        |(payment, question, scheduled, pauses)| {
            let silence = Move::Silence {
                attempt: 0,
                question,
                absent: false,
                scheduled,
            };
            let asked = |by| {
                let about = Way::Id;
                let step = silence;
                [
                    Op::Clock(by),
                    Op::Step {
                        payment,
                        about,
                        step,
                    },
                ]
            };
            pauses.into_iter().flat_map(asked).collect()
        },
    )
}

fn ordering() -> impl Strategy<Value = Ordering> {
    let bucket = prop_oneof![4 => Just(0_u8), 3 => 1..4_u8];
    let terms = prop_oneof![1 => 0..3_u8, 9 => Just(3_u8)];
    let key = proptest::option::weighted(0.5, 0..4_u8);
    (
        attempt(),
        0..5_u8,
        any::<bool>(),
        bucket,
        terms,
        key,
        any::<bool>(),
    )
        .prop_map(
            |(attempt, amount, operator, bucket, terms, key, reason)| Ordering {
                attempt,
                amount,
                operator,
                bucket: if operator { bucket } else { 0 },
                terms,
                key,
                reason,
            },
        )
}

fn op() -> impl Strategy<Value = Op> {
    let way = prop_oneof![6 => Just(Way::Id), 1 => Just(Way::Attempt), 1 => Just(Way::Reference)];
    let field = prop_oneof![3 => Just(FIELDS), 2 => 0..FIELDS];
    let request = || 0..REQUESTS;
    prop_oneof![
        10 => (request(), field.clone()).prop_map(|(request, field)| Op::Create { request, field }),
        1 => (request(), field).prop_map(|(request, field)| Op::Replay { request, field }),
        70 => (request(), way, step())
            .prop_map(|(payment, about, step)| Op::Step { payment, about, step }),
        10 => (request(), ordering()).prop_map(|(payment, order)| Op::Refund { payment, order }),
        4 => (request(), reference(), any::<bool>(), proptest::option::weighted(0.8, said()))
            .prop_map(|(payment, reference, account, report)| {
                Op::KeepCallback { payment, reference, account, report }
            }),
        3 => (1..6_u8, 1..600_u16).prop_map(|(at_most, lease)| Op::Claim { at_most, lease }),
        1 => any::<u8>().prop_map(|nth| Op::WorkDone { nth }),
        1 => (0..3_u8, 1..9999_u16).prop_map(|(attempt, amount)| Op::Unknown { attempt, amount }),
        1 => Just(Op::Close),
        8 => jump().prop_map(Op::Clock),
        1 => prop_oneof![9 => Just(Op::Look), 1 => Just(Op::Reopen)],
    ]
}
