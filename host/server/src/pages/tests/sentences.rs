//! All sentences about money on the pages, and random walks through the state machine that compare each page
//! with the recorded data.

use std::collections::{BTreeMap, BTreeSet};

use kassette_domain::attempt::{Attempt, Choice};
use kassette_domain::id::{AttemptId, Digest, RefundId, Slot};
use kassette_domain::lifecycle::{
    Act, ClaimPurpose, NewDecision, NewRefund, Query, QuerySchedule, RefundAnswer, StartResult,
    Step, Via,
};
use kassette_domain::money::Minor;
use kassette_domain::movement::Bucket;
use kassette_domain::payment::{Resolution, Settlement};
use kassette_domain::provider::{
    Dispute, DisputeKind, DisputeState, Given, Particulars, Payer, ProviderRefund,
    ProviderSettlement, ProviderStatus, QueryPurpose, RefundState, RefundTerms, Report,
};
use kassette_domain::refund::{Refund, RefundOrigin};
use kassette_domain::work::WorkKind;

use super::*;

/// The statement of a sentence.
#[derive(Clone, Copy, Debug)]
enum Claim {
    /// No money was captured by any attempt, and none can be.
    NoneTaken,
    /// Money was captured and not fully returned.
    Taken,
    /// Money was captured, and a part of it was returned.
    PartBack,
    /// All captured money was returned.
    AllBack,
    /// Money may have been captured.
    Unclear,
    /// The payment's own attempt has money.
    Own,
    /// A part of the payment's own money was returned.
    OwnPartBack,
    /// All of the payment's own money was returned.
    OwnAllBack,
    /// The provider confirms no money of the payment.
    Accepted,
    /// Another attempt's money was captured.
    Second,
    /// Another attempt's money was captured, and a part of it was returned.
    SecondPartBack,
    /// Another attempt's money was captured and returned.
    SecondAllBack,
    /// Some money has arrived.
    Arrived,
    /// A dispute about the payment's own money is open.
    Disputed,
    /// The payment belongs to the test environment.
    Test,
    /// True in every case.
    Always,
}

/// A payment's state for its payer: its status, or an expiry that no worker has recorded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Is(Status),
    /// Created, but expired.
    Late,
    /// Pending, but the time for the open attempt's action has passed.
    Lapsed,
}

use Standing::{Is, Lapsed, Late};

impl Standing {
    fn of_payment(aggregate: &PaymentAggregate, now: Time) -> Self {
        let over = |open: &Attempt| now >= open.usable_until();
        match aggregate.payment.status {
            Status::Created if now >= aggregate.payment.expires_at => Late,
            Status::Pending if aggregate.open_attempt().is_some_and(over) => Lapsed,
            status => Is(status),
        }
    }

    /// Whether the payer need not do anything else.
    const fn is_over(self) -> bool {
        matches!(
            self,
            Late | Is(Status::Failed | Status::Cancelled | Status::Expired | Status::Completed)
        )
    }
}

const EVERYWHERE: &[Standing] = &[
    Is(Status::Created),
    Late,
    Is(Status::Pending),
    Lapsed,
    Is(Status::Processing),
    Is(Status::VerificationPending),
    Is(Status::Review),
    Is(Status::Completed),
    Is(Status::Failed),
    Is(Status::Cancelled),
    Is(Status::Expired),
];
/// Ended without completion, or between two attempts.
const NOT_PAID: &[Standing] = &[
    Is(Status::Created),
    Late,
    Is(Status::Failed),
    Is(Status::Cancelled),
    Is(Status::Expired),
];
const FAILED: &[Standing] = &[Is(Status::Failed)];
const EXPIRED: &[Standing] = &[Is(Status::Expired), Late];
const COMPLETED: &[Standing] = &[Is(Status::Completed)];
const REVIEW: &[Standing] = &[Is(Status::Review)];
const CREATED: &[Standing] = &[Is(Status::Created)];
const PENDING: &[Standing] = &[Is(Status::Pending), Lapsed];
const VERIFICATION: &[Standing] = &[Is(Status::VerificationPending)];

/// Texts that occur in one sentence only, the states of payments whose pages contain it, and its statement.
static TABLE: &[(&str, &[Standing], Claim)] = &[
    (
        "This is a test payment. No real money moves.",
        EVERYWHERE,
        Claim::Test,
    ),
    (
        "Nothing is charged when you choose.",
        CREATED,
        Claim::Always,
    ),
    (
        "No money was taken for this try.",
        CREATED,
        Claim::NoneTaken,
    ),
    (
        "Your payment was not started there, and no money was taken.",
        CREATED,
        Claim::NoneTaken,
    ),
    ("You have not paid yet", CREATED, Claim::NoneTaken),
    (
        "has ended, and no money was taken.",
        CREATED,
        Claim::NoneTaken,
    ),
    (
        "first, so that you never pay twice.",
        PENDING,
        Claim::Unclear,
    ),
    (
        "before anything else happens, so that you never pay twice.",
        PENDING,
        Claim::Unclear,
    ),
    (
        "So that you never pay twice, please continue it",
        PENDING,
        Claim::Unclear,
    ),
    ("If you have paid already", &[Lapsed], Claim::Unclear),
    ("No money was taken. To try again", FAILED, Claim::NoneTaken),
    (
        "No money was taken. If you still want",
        &[Is(Status::Cancelled)],
        Claim::NoneTaken,
    ),
    (
        "It was not paid in time, and no money was taken.",
        EXPIRED,
        Claim::NoneTaken,
    ),
    ("If you paid just before", EXPIRED, Claim::NoneTaken),
    // Money received after cancellation or expiry moves the payment to review.
    (
        "But money was received for it. Please",
        FAILED,
        Claim::Taken,
    ),
    (
        "But money was received for it, and a part was given back.",
        FAILED,
        Claim::PartBack,
    ),
    (
        "The money that was received for it was given back.",
        NOT_PAID,
        Claim::AllBack,
    ),
    // The attempt was declined, but the provider never confirmed that it captured nothing.
    (
        "Whether money was taken is not certain.",
        FAILED,
        Claim::Unclear,
    ),
    (
        "Somebody takes a look before it goes through. Please do not pay again.",
        REVIEW,
        Claim::Always,
    ),
    (
        "A part of the money that was received has been given back.",
        REVIEW,
        Claim::PartBack,
    ),
    (
        "The money that was received has been given back.",
        REVIEW,
        Claim::AllBack,
    ),
    (
        "Your payment has arrived and is being confirmed.",
        VERIFICATION,
        Claim::Arrived,
    ),
    (
        "to confirm your payment. Please do not pay again.",
        VERIFICATION,
        Claim::Unclear,
    ),
    ("Thank you. You have paid", COMPLETED, Claim::Own),
    ("You paid", COMPLETED, Claim::Own),
    ("of it was refunded.", COMPLETED, Claim::OwnPartBack),
    ("Your money was given back", COMPLETED, Claim::OwnAllBack),
    ("You had paid", COMPLETED, Claim::OwnAllBack),
    (
        "has accepted this payment as paid.",
        COMPLETED,
        Claim::Accepted,
    ),
    (DISPUTED, COMPLETED, Claim::Disputed),
    (
        "Another payment was received for this order as well. Please ask",
        COMPLETED,
        Claim::Second,
    ),
    (
        "Another payment was received for this order as well, and a part of it",
        COMPLETED,
        Claim::SecondPartBack,
    ),
    (
        "Another payment was received for this order as well, and it was given back.",
        COMPLETED,
        Claim::SecondAllBack,
    ),
    (
        "This was a test. Nobody was charged.",
        COMPLETED,
        Claim::Test,
    ),
];

const DISPUTED: &str = "This payment is disputed";

/// Messages with such texts that state nothing about this payment's money: buttons, invitations, reasons for
/// declines, and labels of the receipt, which is shown only for paid money.
const OTHERS: [&str; 7] = [
    "show-paid",
    "invitation-yours",
    "declined-funds",
    "receipt-payee",
    "receipt-paid",
    "receipt-refunded",
    "receipt-rest",
];

#[test]
fn every_sentence_about_money_stands_in_the_table() {
    let catalogue = include_str!("../../../locales/en.ftl");
    let words = [
        "money",
        "charged",
        "paid",
        "received",
        "given back",
        "refunded",
        "arrived",
        "disputed",
        "pay again",
        "pay twice",
    ];
    let mut seen = BTreeSet::new();
    for line in catalogue.lines() {
        let Some((key, text)) = line.split_once(" = ") else {
            continue;
        };
        let lower = text.to_lowercase();
        if !words.iter().any(|word| lower.contains(word)) || OTHERS.contains(&key) {
            continue;
        }
        let rows: Vec<_> = TABLE.iter().filter(|row| text.contains(row.0)).collect();
        assert_eq!(rows.len(), 1, "{key} is not in the table, or twice: {text}");
        seen.insert(rows[0].0);
    }
    assert_eq!(
        seen.len(),
        TABLE.len(),
        "a row of the table is no message's"
    );
}

/// Recorded money of one attempt.
struct Money {
    received: u64,
    back: u64,
    /// Whether money was captured, even if returned later.
    taken: bool,
    /// Whether money may still be captured.
    may_move: bool,
}

impl Money {
    fn new(attempt: &Attempt) -> Self {
        let facts = attempt.vendor.as_ref();
        let reported = facts.map_or(0, |facts| facts.received.0);
        let booked = attempt.funds.balance.total().received.0;
        let received = reported.max(booked);
        let waits = facts.is_some_and(|facts| {
            matches!(
                facts.status,
                ProviderStatus::Pending
                    | ProviderStatus::Processing
                    | ProviderStatus::VerificationPending
            )
        });
        // Returned money must have been captured.
        let back = attempt.funds.balance.total().returned.0;
        let counted = attempt.state() == AttemptState::Surplus || back > 0 || booked > 0;
        let unproved =
            facts.is_some_and(|facts| facts.status == ProviderStatus::VerificationPending);
        Self {
            received,
            back,
            taken: counted || (received > 0 && !waits),
            may_move: attempt.is_open() || (unproved && received > 0),
        }
    }

    const fn is_back(&self) -> bool {
        self.taken && self.back > 0 && self.back >= self.received
    }

    const fn is_partly_back(&self) -> bool {
        self.taken && self.back > 0 && self.back < self.received
    }
}

impl Claim {
    /// Whether the claim is true for a payment with the kinds of its open work items.
    fn holds(
        self,
        aggregate: &PaymentAggregate,
        work: &BTreeSet<(AttemptId, &'static str)>,
    ) -> bool {
        let own = |attempt: &&Attempt| attempt.is_captured();
        let is_disputed = |attempt: &Attempt| {
            let mut disputes = attempt.funds.disputes.iter();
            disputes.any(|disputed| disputed.dispute.state == DisputeState::Open)
        };
        let completed = aggregate.payment.status == Status::Completed;
        let is_own = aggregate.attempts.iter().find(own).map(|own| own.id);
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for attempt in &aggregate.attempts {
            if Some(attempt.id) == is_own && completed {
                mine.push(Money::new(attempt));
            } else {
                others.push(Money::new(attempt));
            }
        }
        let all = || mine.iter().chain(&others);
        let uncertain = aggregate.payment.uncertain_end;
        let back = |money: &Money| money.is_back();
        let listed = work
            .iter()
            .any(|(_, kind)| *kind == WorkKind::Surplus.as_str());
        match self {
            Self::NoneTaken => {
                !listed && !uncertain && all().all(|money| !money.taken && !money.may_move)
            }
            Self::Taken => all().any(|money| money.taken && !money.is_back()),
            Self::PartBack => all().any(Money::is_partly_back),
            Self::AllBack => all().any(back) && all().filter(|money| money.taken).all(back),
            Self::Unclear => uncertain || all().any(|money| money.may_move),
            Self::Own => mine.iter().any(|money| money.taken && !money.is_back()),
            Self::OwnPartBack => mine.iter().any(Money::is_partly_back),
            Self::OwnAllBack => mine.iter().any(back),
            Self::Accepted => mine.iter().all(|money| !money.taken),
            Self::Second => others.iter().any(|money| money.taken && money.back == 0),
            Self::SecondPartBack => others.iter().any(Money::is_partly_back),
            Self::SecondAllBack => others.iter().any(back),
            Self::Arrived => all().any(|money| money.received > 0 || money.taken),
            Self::Disputed => completed && aggregate.attempts.iter().filter(own).any(is_disputed),
            Self::Test => aggregate.payment.environment == Environment::Test,
            Self::Always => true,
        }
    }
}

/// Pseudo-random numbers, determined by the seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }

    fn one<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        let nth = self.below(u64::try_from(N).unwrap());
        of[usize::try_from(nth).unwrap()]
    }
}

/// A payment with its open work items.
struct Walk {
    draw: Draw,
    now: Time,
    /// Whether a method is available.
    is_offered: bool,
    /// Number of ordered refunds.
    orders: u8,
    aggregate: PaymentAggregate,
    work: BTreeSet<(AttemptId, &'static str)>,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let mut payment = fixtures::payment();
        payment.mode = draw.one([CheckoutMode::Hosted, CheckoutMode::Direct]);
        payment.risk_review = draw.below(6) == 0;
        payment.environment = draw.one([Environment::Test, Environment::Test, Environment::Live]);
        Self {
            is_offered: draw.below(6) > 0,
            draw,
            now: NOW,
            orders: 0,
            aggregate: PaymentAggregate::new(payment),
            work: BTreeSet::new(),
        }
    }

    fn attempt(&mut self) -> AttemptId {
        let count = u64::try_from(self.aggregate.attempts.len()).unwrap();
        // Most events concern the newest attempt.
        let back = if self.draw.below(3) == 0 {
            self.draw.below(count.max(1))
        } else {
            0
        };
        let nth = usize::try_from(count.saturating_sub(1 + back)).unwrap();
        let known = self.aggregate.attempts.get(nth);
        known.map_or(AttemptId::from_bytes([0; 16]), |attempt| attempt.id)
    }

    fn until(&self) -> Time {
        self.now.after(Duration::from_secs(19))
    }

    fn asked(&self, attempt: AttemptId, purpose: QueryPurpose) -> Query {
        let known = self.aggregate.attempt(attempt);
        Query {
            purpose,
            notices: known.map_or(0, |known| known.queries.notices()),
            held: known.and_then(|known| known.claim.busy_until()),
        }
    }

    fn purpose(&mut self) -> QueryPurpose {
        self.draw.one([
            QueryPurpose::Sync,
            QueryPurpose::Capture,
            QueryPurpose::Cancel,
        ])
    }

    fn open(&mut self) -> Step {
        let number = u8::try_from(self.aggregate.attempts.len() + 1).unwrap();
        Step::Open(Box::new(Choice {
            attempt: AttemptId::from_bytes([number; 16]),
            return_token: Secret::new(format!("{RETURN_TOKEN}{number}")),
            account: AccountId::parse("sandbox-test").unwrap(),
            slot: Slot::of_provider("sandbox").unwrap(),
            digest: Digest([0; 32]),
            method: MethodId::Ideal,
            expires_at: self.now.after(Duration::from_secs(3600)),
            busy_until: self.until(),
            payer: Payer::default(),
            decision: None,
        }))
    }

    fn started(&mut self) -> Step {
        let attempt = self.attempt();
        let result = match self.draw.below(6) {
            0 => StartResult::Declined("no".into()),
            1 => StartResult::Unavailable("down".into()),
            2 => StartResult::Uncertain("time-out".into()),
            _ => {
                let action = match self.draw.below(6) {
                    0 => asking(),
                    1 => showing(),
                    2 => posting(),
                    _ => fixtures::redirect(),
                };
                let asks = matches!(action, PayerAction::Ask(_));
                let soon = self.now.after(Duration::from_secs(20 * 60));
                StartResult::Open {
                    reference: (!asks).then(|| format!("ref-{attempt}")),
                    action,
                    until: self.draw.one([None, Some(soon)]),
                }
            }
        };
        Step::Started {
            held: None,
            attempt,
            result,
            next: None,
        }
    }

    fn report(&mut self) -> Step {
        use ProviderStatus as V;
        let attempt = self.attempt();
        let status = self.draw.one([
            V::Completed,
            V::Completed,
            V::Completed,
            V::Overpaid,
            V::Pending,
            V::Processing,
            V::VerificationPending,
            V::VerificationPending,
            V::Review,
            V::Declined,
            V::Failed,
            V::Cancelled,
            V::Expired,
        ]);
        let received = match status {
            V::Completed | V::Overpaid => self.draw.one([4990, 4990, 4990, 4000, 6000]),
            V::VerificationPending | V::Review => self.draw.one([0, 4990]),
            V::Processing => 4990,
            _ => self.draw.one([0, 0, 0, 0, 4990]),
        };
        let returned = match self.draw.below(8) {
            0 => 100.min(received),
            1 => received,
            _ => 0,
        };
        let via = self.draw.one([Via::Callback, Via::Return, Via::Query]);
        let purpose = self.purpose();
        let asked = (via != Via::Callback).then(|| self.asked(attempt, purpose));
        let settlement = self.draw.one([
            ProviderSettlement::Confirmed,
            ProviderSettlement::Confirmed,
            ProviderSettlement::Pending,
            ProviderSettlement::Failed,
        ]);
        let report = Report {
            reference: format!("ref-{attempt}"),
            status,
            settlement,
            received: Minor(received),
            currency: "EUR".into(),
            returned: Minor(returned),
            detail: String::new(),
            particulars: Particulars {
                refunds: self.told_refunds(received),
                disputes: self.told_disputes(received),
                ..Particulars::default()
            },
        };
        Step::Report {
            attempt,
            report,
            via,
            asked,
        }
    }

    /// Refunds that a provider reports individually.
    fn told_refunds(&mut self, received: u64) -> Vec<ProviderRefund> {
        if self.draw.below(8) > 0 {
            return vec![];
        }
        vec![ProviderRefund {
            id: self.draw.one(["re-1", "re-2"]).into(),
            order: None,
            amount: Minor(self.draw.one([received.max(100), 100])),
            state: self.draw.one([
                RefundState::Pending,
                RefundState::Succeeded,
                RefundState::Failed,
            ]),
            paid_out: None,
            at: None,
        }]
    }

    fn told_disputes(&mut self, received: u64) -> Vec<Dispute> {
        if self.draw.below(6) > 0 {
            return vec![];
        }
        vec![Dispute {
            id: self.draw.one(["dp-1", "dp-2"]).into(),
            amount: Minor(self.draw.one([received.max(100), 100])),
            state: self.draw.one(DisputeState::ALL),
            reason: None,
            respond_by: None,
            kind: DisputeKind::Dispute,
            withdrawn: Minor(0),
            ends_by_refund: false,
            listed_as_refund: false,
            at: None,
        }]
    }

    /// An order to refund the remaining money or a part of it.
    fn refund(&mut self) -> Step {
        self.orders += 1;
        let origin = self
            .draw
            .one([RefundOrigin::Merchant, RefundOrigin::Operator]);
        Step::Refund(Box::new(NewRefund {
            id: RefundId::from_bytes([self.orders; 16]),
            attempt: self.attempt(),
            origin,
            key: None,
            amount: self.draw.one([None, Some(Minor(100))]),
            reason: None,
            bucket: Bucket::Own,
            terms: Some(RefundTerms {
                method: MethodId::Ideal,
                parts: true,
                at_most: None,
                days: None,
                whole_units: Vec::new(),
            }),
        }))
    }

    /// A call of the provider about an order, or its answer. `None` if no refund was ordered.
    fn refund_call(&mut self) -> Option<Step> {
        let refunds = self.aggregate.refunds();
        let ordered: Vec<Refund> = refunds
            .into_iter()
            .filter(|(_, refund)| refund.ordered.is_some())
            .map(|(_, refund)| refund.clone())
            .collect();
        let nth = self
            .draw
            .below(u64::try_from(ordered.len()).unwrap().max(1));
        let refund = ordered.get(usize::try_from(nth).unwrap())?;
        if self.draw.below(3) == 0 {
            return Some(Step::ClaimRefund {
                refund: refund.id,
                send: refund.is_to_send(),
                until: self.until(),
            });
        }
        let given = |state| {
            RefundAnswer::Given(Given {
                reference: format!("own-{}", refund.id),
                state,
                claim_url: None,
                detail: String::new(),
                paid_out: None,
            })
        };
        let busy = refund.ordered.as_ref().and_then(|order| order.busy_until);
        Some(Step::RefundAnswered {
            refund: refund.id,
            held: busy.unwrap_or(self.now),
            answer: match self.draw.below(9) {
                0 => given(RefundState::Pending),
                1 | 2 => given(RefundState::Failed),
                3 => RefundAnswer::Refused("no".into()),
                4 => RefundAnswer::Unavailable("down".into()),
                5 => RefundAnswer::Absent,
                _ => given(RefundState::Succeeded),
            },
        })
    }

    fn act(&mut self) -> Step {
        let decide = |draw: &mut Draw| {
            let resolution = draw.one([Resolution::Approve, Resolution::Decline]);
            let approves = resolution == Resolution::Approve;
            Act::Review(Box::new(NewDecision {
                resolution,
                settlement: draw
                    .one([None, Some(Settlement::Confirmed)])
                    .filter(|_| approves),
                vouch: approves && draw.below(3) == 0,
                accept: None,
                despite: vec![],
                operator: "ops".into(),
                actor: "ann".into(),
                reason: "seen".into(),
            }))
        };
        Step::Act(match self.draw.below(9) {
            0 | 1 => Act::Cancel,
            2 => Act::ToReview,
            3 | 4 => Act::Expire,
            _ => decide(&mut self.draw),
        })
    }

    /// A random next event; the state machine decides whether it is legal.
    fn next(&mut self) -> Step {
        match self.draw.below(25) {
            0..4 => self.open(),
            4..7 => self.started(),
            7..9 => {
                let purpose = self.draw.one([
                    ClaimPurpose::Start,
                    ClaimPurpose::Capture,
                    ClaimPurpose::Cancel,
                ]);
                Step::Claim {
                    attempt: self.attempt(),
                    purpose,
                    until: self.until(),
                }
            }
            9..15 => self.report(),
            15..17 => {
                let (attempt, purpose) = (self.attempt(), self.purpose());
                Step::QueryFailed {
                    attempt,
                    asked: self.asked(attempt, purpose),
                    absent: self.draw.below(2) == 0,
                    scheduled: purpose == QueryPurpose::Sync,
                }
            }
            17..20 => self.act(),
            20..22 => self.refund(),
            _ => match self.refund_call() {
                Some(call) => call,
                None => self.refund(),
            },
        }
    }

    /// A time at which the page may be viewed without any event: after an attempt's expiry, after the
    /// payment's, or much later.
    fn later(&mut self) -> Time {
        let hours = |hours: u64| self.now.after(Duration::from_secs(3600 * hours));
        let expires_at = self.aggregate.payment.expires_at.max(self.now);
        self.draw.one([hours(2), expires_at, hours(24 * 365)])
    }

    /// The gateway's data for the page at a time.
    fn view(&self, now: Time) -> CheckoutView {
        let payment = &self.aggregate.payment;
        let mut shown = view(payment.status, vec![]);
        let payable = matches!(payment.status, Status::Created | Status::Pending);
        let in_time = payable && now < payment.expires_at;
        shown.can_choose = payment.mode == CheckoutMode::Hosted && in_time;
        if !(shown.can_choose && self.is_offered) {
            shown.offers.clear();
        }
        shown.aggregate = self.aggregate.clone();
        shown
    }

    /// Applies an event; returns whether anything changed.
    fn go(&mut self) -> bool {
        let minutes = self.draw.one([0, 0, 0, 1, 3, 70, 1500]);
        self.now = self.now.after(Duration::from_secs(60 * minutes));
        let step = self.next();
        // Few queries, so that the provider is soon queried for the last time.
        let schedule = QuerySchedule {
            first: vec![],
            days: 1,
            ..QuerySchedule::default()
        };
        let Ok((_, change)) = self.aggregate.step(step, self.now, &schedule) else {
            return false;
        };
        let items = self.aggregate.work_items();
        let keys = items
            .iter()
            .map(|item| (item.key.attempt, item.key.kind.as_str()));
        self.work = keys.collect();
        change.dirty
    }
}

/// Sentences found on pages, and errors.
#[derive(Default)]
struct Sentences {
    /// Row of the table and state of the payment.
    seen: BTreeSet<(usize, Standing)>,
    /// Wrong text and state, with the first payment that had it.
    wrong: BTreeMap<(&'static str, Standing), String>,
}

impl Sentences {
    /// Checks the sentences on a payment's pages at a time.
    async fn look(&mut self, walk: &Walk, now: Time, context: &str) {
        let aggregate = &walk.aggregate;
        let standing = Standing::of_payment(aggregate, now);
        let shop = shop(walk.view(now));
        *shop.backend.now.lock().unwrap() = now;
        let mut pages = vec![shop.checkout().await];
        for attempt in &aggregate.attempts {
            let token = attempt.return_token.expose();
            pages.push(shop.get(&format!("/return/{token}")).await);
        }
        let mut others = vec![];
        if !aggregate.attempts.is_empty() {
            for more in ["/go", "?leave"] {
                others.push(shop.get(&format!("/checkout/{TOKEN}{more}")).await);
            }
        }
        let mut wrong = |what| {
            let first = self.wrong.entry((what, standing));
            first.or_insert_with(|| format!("{context}: {aggregate:?}"));
        };
        for (nth, (words, _, claim)) in TABLE.iter().enumerate() {
            let mut all = pages.iter().chain(&others);
            if all.any(|page| page.html.contains(words)) {
                self.seen.insert((nth, standing));
                if !claim.holds(aggregate, &walk.work) {
                    wrong(words);
                }
            }
        }
        let disputed = Claim::Disputed.holds(aggregate, &walk.work);
        for page in &pages {
            // Every page of an ended payment must contain a sentence about its money.
            let tells = |row: &(&str, _, Claim)| {
                !matches!(row.2, Claim::Test | Claim::Disputed) && page.html.contains(row.0)
            };
            if page.status != StatusCode::OK {
                wrong("no page");
            } else if standing.is_over() && !TABLE.iter().any(tells) {
                wrong("nothing is said");
            } else if disputed && !page.html.contains(DISPUTED) {
                wrong("a dispute is not told");
            }
        }
    }
}

/// Number of walks, and steps per walk.
const WALKS: u64 = 4000;
const STEPS: u32 = 40;

#[tokio::test]
async fn whatever_happens_pages_say_of_money_what_is_on_record_and_where_the_table_has_it() {
    let mut told = Sentences::default();
    for seed in 0..WALKS {
        let mut walk = Walk::new(seed);
        for step in 0..STEPS {
            if !walk.go() {
                continue;
            }
            for now in [walk.now, walk.later()] {
                let context = format!("seed {seed}, step {step}, at {now}");
                told.look(&walk, now, &context).await;
            }
        }
    }
    let rows = TABLE.iter().enumerate();
    let named = rows.flat_map(|(nth, row)| row.1.iter().map(move |standing| (nth, *standing)));
    let named: BTreeSet<_> = named.collect();
    let words = |places: Vec<&(usize, Standing)>| -> Vec<_> {
        let words = places.into_iter().map(|(nth, at)| (TABLE[*nth].0, *at));
        words.collect()
    };
    let more = words(told.seen.difference(&named).collect());
    let fewer = words(named.difference(&told.seen).collect());
    assert!(
        told.wrong.is_empty() && more.is_empty() && fewer.is_empty(),
        "false: {:#?}\nsaid where the table has it not: {more:#?}\nnever said there: {fewer:#?}",
        told.wrong
    );
}
