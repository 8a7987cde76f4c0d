//! Invariants that hold for all events in any order, with clocks that jump back and forth.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A random event; attempts are counted from 1.
#[derive(Clone, Debug)]
enum Event {
    Open,
    Started(u8, u8, bool),
    Claim(u8, u8),
    Report(u8, u8, u8, u64, u64, bool, u8),
    Silence(u8, u8, bool, bool),
    AskAt(u8, i64),
    Act(u8),
    /// Attempt, whether by an operator, and amount (0: all that is refundable).
    Refund(u8, bool, u64),
    /// The refund to call about, and the provider's result.
    RefundCall(u8, u8),
    Clock(i64),
    /// The most urgent next action, with this answer from the provider or none.
    Work(Option<u8>),
}

fn event() -> impl Strategy<Value = Event> {
    let attempt = || 1..5_u8;
    let jump = || {
        prop_oneof![
            3 => -120_000..600_000_i64,
            1 => -86_400_000..200_000_000_i64
        ]
    };
    prop_oneof![
        4 => Just(Event::Open),
        4 => (attempt(), 0..5_u8, any::<bool>()).prop_map(|(a, b, c)| Event::Started(a, b, c)),
        3 => (attempt(), 0..3_u8).prop_map(|(a, b)| Event::Claim(a, b)),
        10 => (attempt(), 0..10_u8, 0..3_u8, 0..3_u64, 0..8_u64, any::<bool>(), 0..3_u8)
            .prop_map(|(a, b, c, d, e, f, g)| Event::Report(a, b, c, d, e, f, g)),
        3 => (attempt(), 0..3_u8, any::<bool>(), any::<bool>())
            .prop_map(|(a, b, c, d)| Event::Silence(a, b, c, d)),
        1 => (attempt(), jump()).prop_map(|(a, b)| Event::AskAt(a, b)),
        3 => (0..10_u8).prop_map(Event::Act),
        5 => (attempt(), any::<bool>(), 0..6_u64).prop_map(|(a, b, c)| Event::Refund(a, b, c)),
        4 => (any::<u8>(), 0..8_u8).prop_map(|(a, b)| Event::RefundCall(a, b)),
        3 => jump().prop_map(Event::Clock),
        4 => proptest::option::of(0..9_u8).prop_map(Event::Work),
    ]
}

fn status(number: u8) -> ProviderStatus {
    [
        ProviderStatus::Pending,
        ProviderStatus::Processing,
        ProviderStatus::VerificationPending,
        ProviderStatus::Review,
        ProviderStatus::Completed,
        ProviderStatus::Declined,
        ProviderStatus::Failed,
        ProviderStatus::Cancelled,
        ProviderStatus::Expired,
        ProviderStatus::Overpaid,
    ][usize::from(number)]
}

fn shifted(time: Time, by: i64) -> Time {
    let millis = Duration::from_millis(by.unsigned_abs());
    if by < 0 {
        time.before(millis)
    } else {
        time.after(millis)
    }
}

fn refund_answer(how: u8, id: RefundId) -> RefundAnswer {
    let given = |state| {
        RefundAnswer::Given(Given {
            reference: format!("re-{id}"),
            state,
            claim_url: None,
            detail: String::new(),
            paid_out: None,
        })
    };
    match how {
        0 | 1 => given(RefundState::Succeeded),
        2 => given(RefundState::Pending),
        3 => given(RefundState::Failed),
        4 => RefundAnswer::Refused("no".into()),
        5 => RefundAnswer::Unavailable("down".into()),
        6 => RefundAnswer::Absent,
        _ => RefundAnswer::Uncertain("time-out".into()),
    }
}

impl Shop {
    fn next_choice(&self) -> Box<Choice> {
        let number = u8::try_from(self.aggregate.attempts.len() + 1).unwrap();
        Box::new(choice(number, MethodId::Ideal, self.now))
    }

    fn step_of(&self, event: &Event) -> Option<Step> {
        let until = self.now.after(LEASE);
        Some(match *event {
            Event::Open => Step::Open(self.next_choice()),
            Event::Started(attempt, how, next) => Step::Started {
                held: None,
                attempt: id(attempt),
                result: match how {
                    0 | 1 => redirect(),
                    2 => StartResult::Declined("no".into()),
                    3 => StartResult::Unavailable("down".into()),
                    _ => StartResult::Uncertain("time-out".into()),
                },
                next: next.then(|| self.next_choice()),
            },
            Event::Claim(attempt, purpose) => Step::Claim {
                attempt: id(attempt),
                purpose: [
                    ClaimPurpose::Start,
                    ClaimPurpose::Capture,
                    ClaimPurpose::Cancel,
                ][usize::from(purpose)],
                until,
            },
            Event::Report(attempt, said, settlement, amount, back, euro, way) => Step::Report {
                attempt: id(attempt),
                asked: (way > 0).then(|| self.asked(attempt)),
                report: Report {
                    settlement: [
                        ProviderSettlement::Pending,
                        ProviderSettlement::Confirmed,
                        ProviderSettlement::Failed,
                    ][usize::from(settlement)],
                    received: match (status(said), amount) {
                        (ProviderStatus::Completed | ProviderStatus::Overpaid, 0 | 1) => DUE,
                        (_, 0 | 1) => Minor(0),
                        _ => Minor(DUE.0 + 5),
                    },
                    returned: Minor(back.saturating_sub(5)),
                    currency: if euro || back < 6 { "EUR" } else { "USD" }.into(),
                    ..report(status(said))
                },
                via: [Via::Callback, Via::Return, Via::Query][usize::from(way)],
            },
            Event::Silence(attempt, purpose, absent, scheduled) => Step::QueryFailed {
                attempt: id(attempt),
                asked: Query {
                    purpose: [
                        QueryPurpose::Capture,
                        QueryPurpose::Sync,
                        QueryPurpose::Cancel,
                    ][usize::from(purpose)],
                    ..self.asked(attempt)
                },
                absent,
                scheduled,
            },
            Event::AskAt(attempt, by) => Step::AskAt {
                attempt: id(attempt),
                at: shifted(self.now, by),
            },
            Event::Act(0) => Step::Act(Act::Cancel),
            Event::Act(1) => Step::Act(Act::Expire),
            Event::Act(2) => Step::Act(Act::ToReview),
            Event::Act(how) => Step::Act(Act::Review(Box::new(NewDecision {
                resolution: if how == 3 || how == 4 {
                    Resolution::Decline
                } else {
                    Resolution::Approve
                },
                settlement: [None, Some(Settlement::Confirmed), Some(Settlement::Pending)]
                    [usize::from(how % 3)],
                vouch: how == 9,
                accept: None,
                despite: Vec::new(),
                operator: "ops".into(),
                actor: "ann".into(),
                reason: "seen".into(),
            }))),
            Event::Refund(attempt, operator, part) => {
                // Refunds can be merged, so their number is not a unique id.
                let refunds = self.aggregate.refunds();
                let orders = refunds.iter().filter(|(_, it)| it.ordered.is_some());
                let number = |id: RefundId| u128::from_be_bytes(*id.as_bytes());
                let last = orders.map(|(_, refund)| number(refund.id)).max();
                Step::Refund(Box::new(NewRefund {
                    id: RefundId::from_bytes((last.unwrap_or_default() + 1).to_be_bytes()),
                    attempt: id(attempt),
                    origin: if operator {
                        RefundOrigin::Operator
                    } else {
                        RefundOrigin::Merchant
                    },
                    key: None,
                    ..order(0, (part > 0).then_some(DUE.0 / 4 * part))
                }))
            }
            Event::RefundCall(nth, how) => {
                let refunds = self.aggregate.refunds();
                let (_, refund) = refunds.get(usize::from(nth) % refunds.len().max(1))?;
                let refund = refund.id;
                Step::RefundAnswered {
                    refund,
                    held: until,
                    answer: refund_answer(how, refund),
                }
            }
            Event::Clock(_) | Event::Work(_) => return None,
        })
    }

    /// Does a next action like a worker, and applies the provider's answer.
    fn work_on(&mut self, next_action: NextAction, answer: Option<ProviderStatus>) {
        let until = self.now.after(LEASE);
        let (attempt, purpose, claimed) = match next_action {
            NextAction::Expire => {
                self.checked(Step::Act(Act::Expire))
                    .expect("expiry was due");
                return;
            }
            NextAction::CarryOut => {
                self.checked(Step::Act(Act::CarryOut)).expect("it was due");
                return;
            }
            NextAction::Authorization(attempt) => {
                self.checked(Step::Act(Act::Authorization(attempt)))
                    .expect("it was due");
                return;
            }
            NextAction::Refund(refund) => {
                self.claim_refund(refund)
                    .expect("a refund that cannot be claimed");
                let how = answer.map_or(7, |said| said as u8 % 8);
                let answer = refund_answer(how, refund);
                let step = Step::RefundAnswered {
                    refund,
                    held: until,
                    answer,
                };
                self.checked(step).expect("an answer to our own call");
                return;
            }
            NextAction::Start(attempt) => {
                self.checked(Step::Claim {
                    attempt,
                    purpose: ClaimPurpose::Start,
                    until,
                })
                .expect("a start that cannot be claimed");
                let result = match answer {
                    None => StartResult::Uncertain("time-out".into()),
                    Some(ProviderStatus::Declined) => StartResult::Declined("no".into()),
                    Some(ProviderStatus::Failed) => StartResult::Unavailable("down".into()),
                    Some(_) => redirect(),
                };
                let step = Step::Started {
                    held: None,
                    attempt,
                    result,
                    next: None,
                };
                self.checked(step).expect("an answer to our own start");
                return;
            }
            NextAction::Query(attempt) => (attempt, QueryPurpose::Sync, None),
            NextAction::Capture(attempt) => {
                (attempt, QueryPurpose::Capture, Some(ClaimPurpose::Capture))
            }
            NextAction::Cancel(attempt) => {
                (attempt, QueryPurpose::Cancel, Some(ClaimPurpose::Cancel))
            }
        };
        if let Some(claimed) = claimed {
            let claim = Step::Claim {
                attempt,
                purpose: claimed,
                until,
            };
            self.checked(claim)
                .expect("a next action that cannot be claimed");
        }
        let known = self.aggregate.attempt(attempt).unwrap();
        let asked = Query {
            purpose,
            notices: known.queries.notices(),
            held: known.claim.busy_until(),
        };
        let step = match answer {
            Some(said) => Step::Report {
                attempt,
                report: report(said),
                via: Via::Query,
                asked: Some(asked),
            },
            None => Step::QueryFailed {
                attempt,
                asked,
                absent: false,
                scheduled: purpose == QueryPurpose::Sync,
            },
        };
        self.checked(step).expect("an answer to our own question");
    }

    /// Applies a step and checks every invariant.
    fn checked(&mut self, step: Step) -> Result<StepOutcome, Refusal> {
        let before = self.aggregate.payment.clone();
        let outcome = self.try_step(step)?;
        let payment = &self.aggregate.payment;
        let attempts = &self.aggregate.attempts;
        let open = attempts.iter().filter(|a| a.is_open()).count();
        assert!(open <= 1, "two attempts are open");
        match payment.status {
            Status::Created | Status::Expired | Status::Cancelled => assert_eq!(open, 0),
            Status::Pending | Status::Processing | Status::VerificationPending => {
                assert_eq!(open, 1, "{:?}", payment.status);
            }
            Status::Failed => assert_eq!(open, 0),
            Status::Review | Status::Completed => {}
        }
        assert!(attempts.len() <= PaymentAggregate::MAX_ATTEMPTS);
        let captured = attempts.iter().filter(|a| a.is_captured());
        assert!(captured.count() <= 1, "two captures count as the payment's");
        assert_eq!(payment.review.is_some(), payment.status == Status::Review);
        if before.status == Status::Completed {
            assert_eq!(payment.status, Status::Completed);
        }
        if before.settlement == Settlement::Confirmed {
            assert_eq!(payment.settlement, Settlement::Confirmed);
        }
        if payment.settlement == Settlement::Confirmed {
            assert_eq!(payment.status, Status::Completed);
        }
        assert_eq!(
            self.told(EventType::PaymentCompleted),
            usize::from(payment.settlement == Settlement::Confirmed)
        );
        self.check_change(&before);
        self.check_money();
        if payment_completed_by(&before, &self.aggregate.payment) {
            self.check_backing();
        }
        Ok(outcome)
    }

    /// The timeline is a legal path from the status before to the status after, each move with its event; entries
    /// that changed nothing are marked so.
    fn check_change(&self, before: &Payment) {
        let mut at = before.status;
        let mut expected = Vec::new();
        for line in &self.last.transitions {
            assert_eq!(line.from, at);
            if line.applied && line.from != line.to {
                assert!(super::super::moves::legal(line.from, line.to));
                at = line.to;
                expected.extend(EventType::of_transition(at));
            }
        }
        assert_eq!(at, self.aggregate.payment.status);
        let told = self.last.events.iter().map(|told| told.kind);
        let moves: Vec<_> = told
            .filter(|event| {
                !matches!(
                    event,
                    EventType::PaymentCompleted
                        | EventType::PaymentRefunded
                        | EventType::PaymentDisputed
                        | EventType::PaymentRefundFailed
                        | EventType::PaymentDisputeClosed
                        | EventType::PaymentCaptureReversed
                        | EventType::PaymentAttemptFailed
                )
            })
            .collect();
        assert_eq!(moves, expected);
        let failed = self.last.events.iter();
        for failed in failed.filter(|told| told.kind == EventType::PaymentAttemptFailed) {
            assert!(matches!(failed.subject, Some(EventSubject::Decline(_))));
            assert_eq!(before.status, Status::Pending);
            assert!(matches!(failed.status, Status::Created | Status::Pending));
            assert_eq!(self.aggregate.payment.status, failed.status);
        }
        assert!(
            self.last.transitions.len() <= 5,
            "more than a handful of lines"
        );
    }

    /// All captured money is known to an operator.
    fn check_money(&self) {
        let listed: BTreeSet<_> = self.work.iter().map(|(_, attempt, _)| *attempt).collect();
        for attempt in &self.aggregate.attempts {
            // Money that was refunded, or is being refunded, needs no operator.
            let taken = attempt.funds.total().for_completion() > Minor::ZERO;
            let own = attempt.is_captured();
            let seen = self.status() == Status::Review || listed.contains(&attempt.id);
            assert!(
                !taken || own || seen,
                "money that no person is told of: {attempt:?}"
            );
        }
    }

    /// A payment that was completed without an operator vouching for it holds at least the invoice's amount in its
    /// currency, or exactly the amount in the decision's record.
    fn check_backing(&self) {
        let payment = &self.aggregate.payment;
        if payment.vouched {
            return;
        }
        let own = self
            .aggregate
            .attempts
            .iter()
            .find(|attempt| attempt.is_captured())
            .expect("completed without a capture");
        let net = own.funds.position(Bucket::Own).for_completion();
        let currency = own.received_currency();
        let due = payment.due.currency.code();
        let paid = currency == due && net >= payment.due.amount;
        let accepted = payment.short == Some((net, currency.to_owned()));
        assert!(paid || accepted, "completed with {net} {currency}");
    }

    fn check_duty(&self) {
        let due = self.aggregate.due_at();
        let next_action = self.aggregate.next_action(self.now);
        assert_eq!(
            due.is_some_and(|due| due <= self.now),
            next_action.is_some()
        );
        if let Some(due) = due {
            assert!(self.aggregate.next_action(due).is_some());
        }
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Clock(by) => self.now = shifted(self.now, *by),
            Event::Work(answer) => {
                if let Some(next_action) = self.next_action() {
                    self.work_on(next_action, answer.map(status));
                }
            }
            _ => {
                let Some(step) = self.step_of(event) else {
                    return;
                };
                let again = step.clone();
                let answer = self.checked(step);
                // The next report replaces an operator's pending settlement.
                let decision = self.aggregate.payment.decision.as_deref();
                let put_off = decision.is_some_and(|it| it.settlement == Some(Settlement::Pending));
                let repeats = matches!(event, Event::Report(..)) && answer.is_ok() && !put_off;
                if repeats {
                    let events = self.events.len();
                    let _ = self.checked(again);
                    assert_eq!(self.events.len(), events, "repeated news was told again");
                }
            }
        }
        self.check_duty();
    }

    /// Does everything that is due at the current time; the provider always answers the same.
    fn settle_down(&mut self, answer: Option<ProviderStatus>) {
        /// Far more than any payment needs: a few next actions per attempt.
        const BOUND: usize = 200;
        for _ in 0..BOUND {
            match self.next_action() {
                Some(next_action) => self.work_on(next_action, answer),
                None => return,
            }
        }
        panic!("the next actions never end: {:?}", self.next_action());
    }

    /// Does everything that will ever be due, each at its time, until nothing is.
    fn live_on(&mut self) {
        /// For each of a handful of attempts, a day with pauses of at most ten minutes, then a month of daily
        /// queries.
        const BOUND: usize = 40_000;
        for _ in 0..BOUND {
            let Some(due) = self.aggregate.due_at() else {
                return;
            };
            self.now = self.now.max(due);
            let next_action = self.next_action().expect("due, and nothing to do");
            self.work_on(next_action, None);
        }
        panic!("the next actions never end: {:?}", self.next_action());
    }
}

fn payment_completed_by(before: &Payment, after: &Payment) -> bool {
    before.status != Status::Completed && after.status == Status::Completed
}

fn shop(risky: bool) -> Shop {
    if risky { Shop::risky() } else { Shop::new() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold_whatever_happens(
        risky in proptest::bool::weighted(0.2),
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let mut shop = shop(risky);
        for event in &events {
            shop.happen(event);
        }
        prop_assert!(shop.unapplied <= shop.aggregate.attempts.len() * 27 + shop.applied.len());
    }

    #[test]
    fn the_work_that_is_due_ends_while_the_clock_stands(
        events in proptest::collection::vec(event(), 1..40),
        answer in proptest::option::of(0..9_u8),
        later in 0..1_000_000_000_i64,
    ) {
        let mut shop = shop(false);
        for event in &events {
            shop.happen(event);
        }
        shop.now = shifted(shop.now, later);
        shop.settle_down(answer.map(status));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_silent_vendor_is_given_up_on_at_last(
        events in proptest::collection::vec(event(), 1..30),
    ) {
        let mut shop = shop(false);
        for event in &events {
            shop.happen(event);
        }
        shop.live_on();
        let waits = |refund: &Refund| refund.is_to_send();
        prop_assert!(!shop.aggregate.refunds().iter().any(|(_, refund)| waits(refund)));
        let waiting = [Status::Pending, Status::Processing, Status::VerificationPending];
        prop_assert!(!waiting.contains(&shop.status()), "{:?}", shop.status());
    }
}
