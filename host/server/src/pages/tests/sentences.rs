//! Every sentence that pages say about money, and a walk through the state machine that holds each page to what is on
//! record.

use std::collections::{BTreeMap, BTreeSet};

use kassette_domain::attempt::{Attempt, Choice};
use kassette_domain::id::{AttemptId, Digest, RefundId, Slot};
use kassette_domain::lifecycle::{
    Act, ClaimPurpose, NewDecision, NewRefund, Query, QuerySchedule, RefundAnswer, StartResult,
    Step, Via,
};
use kassette_domain::money::Minor;
use kassette_domain::payment::{Resolution, Settlement};
use kassette_domain::provider::{
    Dispute, DisputeState, Given, Particulars, Payer, QueryPurpose, RefundState, RefundTerms,
    Report, VendorRefund, VendorSettlement, VendorStatus,
};
use kassette_domain::refund::{Refund, RefundOrigin};
use kassette_domain::work::WorkKind;

use super::*;

/// What a sentence says.
#[derive(Clone, Copy, Debug)]
enum Claim {
    /// Of no attempt was money taken, and none can be.
    NoneTaken,
    /// Some was taken that was not given back whole.
    Taken,
    /// Some was taken, and of that a part was given back.
    PartBack,
    /// All that was taken was given back.
    AllBack,
    /// Some may have been taken.
    Unclear,
    /// The payment holds money of its own.
    Own,
    /// A part of its own was given back.
    OwnPartBack,
    /// All of its own was given back.
    OwnAllBack,
    /// The payment holds none that its provider confirms.
    Accepted,
    /// Another attempt's money was taken.
    Second,
    /// Another attempt's money was taken, and a part of it given back.
    SecondPartBack,
    /// Another attempt's money was taken and given back.
    SecondAllBack,
    /// Some arrived.
    Arrived,
    /// The payer disputes the payment's own money, and that is not decided.
    Disputed,
    /// It is a payment of the test environment.
    Test,
    /// It is true whatever is on record.
    Always,
}

/// Where a payment stands for its payer: its status, but for what time has done and no worker has written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Is(Status),
    /// Created, and its time is over.
    Late,
    /// Pending, and the time to do what its open attempt waits for is over.
    Lapsed,
}

use Standing::{Is, Lapsed, Late};

impl Standing {
    fn of(aggregate: &PaymentAggregate, now: Time) -> Self {
        let over =
            |open: &Attempt| now >= open.expires_at || open.until.is_some_and(|until| now >= until);
        match aggregate.payment.status {
            Status::Created if now >= aggregate.payment.expires_at => Late,
            Status::Pending if aggregate.open_attempt().is_some_and(over) => Lapsed,
            status => Is(status),
        }
    }

    /// Whether nothing more is expected of the payer.
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
/// Over without being completed, or between two attempts.
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

/// Words that stand in one sentence alone, where payments stand whose pages say it, and what it says.
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
        "did not take the payment, and no money was taken.",
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
        "The payment was declined, and no money was taken.",
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
    // Money that comes after a payment was called off or has expired brings it to review.
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
    // Of a payment that is over nothing may still move: the sentence is there should that change.
    (
        "Whether money was taken is not certain.",
        &[],
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
    (
        "A part of it was given back.",
        COMPLETED,
        Claim::OwnPartBack,
    ),
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

/// Messages with such words that say nothing of this payment's money: what a payer presses, and what an invited
/// merchant reads.
const OTHERS: [&str; 2] = ["show-paid", "invitation-yours"];

#[test]
fn every_sentence_about_money_stands_in_the_table() {
    let catalogue = include_str!("../../../locales/en.ftl");
    let words = [
        "money",
        "charged",
        "paid",
        "received",
        "given back",
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

/// Money of one attempt, as it is on record.
struct Money {
    received: u64,
    back: u64,
    /// It was taken, whatever became of it.
    taken: bool,
    /// It may still be.
    may_move: bool,
}

impl Money {
    fn of(attempt: &Attempt) -> Self {
        let facts = attempt.vendor.as_ref();
        let received = facts.map_or(0, |facts| facts.received.0);
        let waits = facts.is_some_and(|facts| {
            matches!(
                facts.status,
                VendorStatus::Pending
                    | VendorStatus::Processing
                    | VendorStatus::VerificationPending
            )
        });
        // What went back had come.
        let back = attempt.returns.total().0;
        let counted = attempt.state == AttemptState::Surplus || back > 0;
        let unproved = facts.is_some_and(|facts| facts.status == VendorStatus::VerificationPending);
        Self {
            received,
            back,
            taken: counted || (received > 0 && !waits),
            may_move: attempt.state.is_open() || (unproved && received > 0),
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
    /// Whether it is true of a payment with the kinds of its open work lines.
    fn holds(
        self,
        aggregate: &PaymentAggregate,
        work: &BTreeSet<(AttemptId, &'static str)>,
    ) -> bool {
        let own = |attempt: &&Attempt| attempt.state == AttemptState::Captured;
        let is_disputed = |attempt: &Attempt| {
            let mut disputes = attempt.returns.disputes.iter();
            disputes.any(|disputed| disputed.dispute.state == DisputeState::Open)
        };
        let completed = aggregate.payment.status == Status::Completed;
        let is_own = aggregate.attempts.iter().find(own).map(|own| own.id);
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for attempt in &aggregate.attempts {
            if Some(attempt.id) == is_own && completed {
                mine.push(Money::of(attempt));
            } else {
                others.push(Money::of(attempt));
            }
        }
        let all = || mine.iter().chain(&others);
        let back = |money: &Money| money.is_back();
        let listed = work
            .iter()
            .any(|(_, kind)| *kind == WorkKind::Surplus.as_str());
        match self {
            Self::NoneTaken => !listed && all().all(|money| !money.taken && !money.may_move),
            Self::Taken => all().any(|money| money.taken && !money.is_back()),
            Self::PartBack => all().any(Money::is_partly_back),
            Self::AllBack => all().any(back) && all().filter(|money| money.taken).all(back),
            Self::Unclear => all().any(|money| money.may_move),
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

/// Numbers that are the same for the same seed (SplitMix64).
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

/// A payment on its way, with the work lines that are open about it.
struct Walk {
    draw: Draw,
    now: Time,
    /// Whether a method is offered.
    is_offered: bool,
    /// Refunds that were ordered.
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
        // The newest is what most happens to.
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
            notices: known.map_or(0, |known| known.notices),
            held: known.and_then(|known| known.busy_until),
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
        use VendorStatus as V;
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
            VendorSettlement::Confirmed,
            VendorSettlement::Confirmed,
            VendorSettlement::Pending,
            VendorSettlement::Failed,
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

    /// Refunds that a vendor tells one by one.
    fn told_refunds(&mut self, received: u64) -> Vec<VendorRefund> {
        if self.draw.below(8) > 0 {
            return vec![];
        }
        vec![VendorRefund {
            id: self.draw.one(["re-1", "re-2"]).into(),
            order: None,
            amount: Minor(self.draw.one([received.max(100), 100])),
            state: self.draw.one([
                RefundState::Pending,
                RefundState::Succeeded,
                RefundState::Failed,
            ]),
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
        }]
    }

    /// An order to give back all that is left, or a part.
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
            line: None,
            terms: Some(RefundTerms {
                method: MethodId::Ideal,
                parts: true,
                at_most: None,
                days: None,
            }),
        }))
    }

    /// The vendor is called about an order, or answers; none where nothing was ordered.
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

    /// Something that may happen next; the machine says whether it can.
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

    /// When the page may still be looked at though nothing has happened: once an attempt's time is over, the
    /// payment's, or much later.
    fn later(&mut self) -> Time {
        let hours = |hours: u64| self.now.after(Duration::from_secs(3600 * hours));
        let expires_at = self.aggregate.payment.expires_at.max(self.now);
        self.draw.one([hours(2), expires_at, hours(24 * 365)])
    }

    /// What the gateway has a page show of it at a time.
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

    /// Takes a step; whether anything is different after it.
    fn go(&mut self) -> bool {
        let minutes = self.draw.one([0, 0, 0, 1, 3, 70, 1500]);
        self.now = self.now.after(Duration::from_secs(60 * minutes));
        let step = self.next();
        // So few questions that a vendor is soon asked for the last time.
        let schedule = QuerySchedule {
            first: vec![],
            days: 1,
            ..QuerySchedule::default()
        };
        let Ok((_, change)) = self.aggregate.step(step, self.now, &schedule) else {
            return false;
        };
        for done in &change.work_done {
            self.work.retain(|(attempt, _)| attempt != done);
        }
        for (attempt, kind) in &change.work_closed {
            self.work.remove(&(*attempt, kind.as_str()));
        }
        let listed = change.work.iter();
        self.work
            .extend(listed.map(|line| (line.attempt, line.kind.as_str())));
        change.dirty
    }
}

/// What pages say about money, and what of it is wrong.
#[derive(Default)]
struct Sentences {
    /// By the rows of the table.
    seen: BTreeSet<(usize, Standing)>,
    /// What is wrong where, with the first payment of which it was.
    wrong: BTreeMap<(&'static str, Standing), String>,
}

impl Sentences {
    /// Adds what the pages of a payment say at a time.
    async fn look(&mut self, walk: &Walk, now: Time, context: &str) {
        let aggregate = &walk.aggregate;
        let standing = Standing::of(aggregate, now);
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
            // A payment that is over is told with what became of its money.
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

/// How many payments are walked, and how far.
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
