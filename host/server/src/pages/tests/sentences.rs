//! Every sentence that pages say about money, and a walk through the state machine that holds each page to what is on
//! record.

use std::collections::BTreeSet;

use kassette_domain::attempt::{Attempt, Choice};
use kassette_domain::id::{AttemptId, Digest, Slot};
use kassette_domain::lifecycle::{
    Act, ClaimPurpose, NewDecision, Query, QuerySchedule, StartResult, Step, Via,
};
use kassette_domain::money::Minor;
use kassette_domain::payment::{Resolution, Settlement};
use kassette_domain::provider::{
    Particulars, Payer, QueryPurpose, Report, VendorSettlement, VendorStatus,
};
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
    /// It is true whatever is on record.
    Always,
}

const OVER: &[Status] = &[Status::Failed, Status::Cancelled, Status::Expired];
/// Over, or to be tried again after an attempt.
const ENDED: &[Status] = &[
    Status::Failed,
    Status::Cancelled,
    Status::Expired,
    Status::Created,
];
const COMPLETED: &[Status] = &[Status::Completed];
const REVIEW: &[Status] = &[Status::Review];
const CREATED: &[Status] = &[Status::Created];

/// Words that stand in one sentence alone, the statuses that it is shown in, and what it says.
static TABLE: [(&str, &[Status], Claim); 23] = [
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
        "No money was taken. To try again",
        &[Status::Failed],
        Claim::NoneTaken,
    ),
    (
        "No money was taken. If you still want",
        &[Status::Cancelled],
        Claim::NoneTaken,
    ),
    (
        "It was not paid in time, and no money was taken.",
        &[Status::Expired],
        Claim::NoneTaken,
    ),
    ("But money was received for it. Please", ENDED, Claim::Taken),
    (
        "But money was received for it, and a part was given back.",
        ENDED,
        Claim::PartBack,
    ),
    (
        "The money that was received for it was given back.",
        ENDED,
        Claim::AllBack,
    ),
    (
        "Whether money was taken is not certain.",
        ENDED,
        Claim::Unclear,
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
        &[Status::VerificationPending],
        Claim::Arrived,
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
];

/// Messages with such words that say nothing of what became of this payment's money.
const OTHERS: [&str; 7] = [
    "test-banner-text",
    "lapsed-text",
    "show-paid",
    "completed-test",
    "expired-late",
    "ended-title",
    "invitation-yours",
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
        "arrived",
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
    aggregate: PaymentAggregate,
    work: BTreeSet<(AttemptId, &'static str)>,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let mut payment = fixtures::payment();
        payment.mode = draw.one([CheckoutMode::Hosted, CheckoutMode::Direct]);
        payment.risk_review = draw.below(6) == 0;
        Self {
            draw,
            now: NOW,
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
            return_token: Secret::new(RETURN_TOKEN),
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
            _ => StartResult::Open {
                reference: Some(format!("ref-{attempt}")),
                action: fixtures::redirect(),
                until: None,
            },
        };
        Step::Started {
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
            particulars: Particulars::default(),
        };
        Step::Report {
            attempt,
            report,
            via,
            asked,
        }
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
        Step::Act(match self.draw.below(8) {
            0 => Act::Cancel,
            1 => Act::ToReview,
            2 | 3 => Act::Expire,
            _ => decide(&mut self.draw),
        })
    }

    /// Something that may happen next; the machine says whether it can.
    fn next(&mut self) -> Step {
        match self.draw.below(20) {
            0..4 => self.open(),
            4..7 => self.started(),
            7..9 => {
                let purpose = self.draw.one([
                    ClaimPurpose::Start,
                    ClaimPurpose::Capture,
                    ClaimPurpose::Close,
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
            _ => self.act(),
        }
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

/// What a page of a payment says about money, by the rows of the table; each is true.
async fn said(walk: &Walk, context: &str) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut shown = view(Status::Created, vec![]);
    shown.aggregate = walk.aggregate.clone();
    let shop = shop(shown);
    let tried = !walk.aggregate.attempts.is_empty();
    let mut pages = vec![shop.checkout().await];
    if tried {
        pages.push(shop.returned().await);
        pages.push(shop.get(&format!("/checkout/{TOKEN}/go")).await);
    }
    let status = walk.aggregate.payment.status;
    for page in pages {
        for (nth, (words, statuses, claim)) in TABLE.iter().enumerate() {
            if !page.html.contains(words) {
                continue;
            }
            let told = || format!("{words:?} of {:?}, {context}", walk.aggregate);
            assert!(statuses.contains(&status), "in {status:?}: {}", told());
            assert!(claim.holds(&walk.aggregate, &walk.work), "{}", told());
            seen.insert(nth);
        }
    }
    // A payment that is over is told with what became of its money.
    let over = OVER.contains(&status) || status == Status::Completed;
    assert!(!over || !seen.is_empty(), "{:?}, {context}", walk.aggregate);
    seen
}

/// How many payments are walked, and how far.
const WALKS: u64 = 1500;
const STEPS: u32 = 40;

#[tokio::test]
async fn whatever_happens_no_page_says_more_about_money_than_is_on_record() {
    let mut seen = BTreeSet::new();
    for seed in 0..WALKS {
        let mut walk = Walk::new(seed);
        for step in 0..STEPS {
            if walk.go() {
                seen.extend(said(&walk, &format!("seed {seed}, step {step}")).await);
            }
        }
    }
    let unseen = TABLE
        .iter()
        .enumerate()
        .filter(|(nth, _)| !seen.contains(nth));
    let unseen: Vec<_> = unseen.map(|(_, row)| row.0).collect();
    // Of a payment that is over nothing may still move: the sentence is there should that change.
    assert_eq!(unseen, ["Whether money was taken is not certain."]);
}
