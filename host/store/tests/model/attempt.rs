//! The reference of one attempt: what it knows, and what a vendor's words mean for it.

use std::collections::BTreeSet;

use kassette_domain::attempt::{AttemptState, Choice};
use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::lifecycle::{Query, Via};
use kassette_domain::money::Money;
use kassette_domain::payment::Settlement;
use kassette_domain::provider::{QueryPurpose, VendorSettlement, VendorStatus};
use kassette_domain::time::Time;

use crate::law::leaves_open;
use crate::payment::Payment;
use crate::questions::Questions;
use crate::returns::{Details, Returns};

/// What a vendor last said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) status: VendorStatus,
    pub(crate) settlement: VendorSettlement,
    pub(crate) received: u64,
    pub(crate) currency: String,
}

impl Facts {
    /// Whether what was received is taken, and not only approved.
    pub(crate) fn is_taken(&self) -> bool {
        !matches!(
            self.status,
            VendorStatus::Pending | VendorStatus::Processing | VendorStatus::VerificationPending
        )
    }
}

/// What an attempt shows its payer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    Way,
    Questions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) account: AccountId,
    pub(crate) due: Money,
    pub(crate) state: AttemptState,
    pub(crate) facts: Option<Facts>,
    pub(crate) returns: Returns,
    pub(crate) details: Details,
    /// Other references, by which statements name it.
    pub(crate) names: Vec<String>,
    pub(crate) uncertain: bool,
    pub(crate) shown: Shown,
    pub(crate) busy: Option<Time>,
    pub(crate) closing: bool,
    pub(crate) sent: Time,
    pub(crate) expires: Time,
    pub(crate) references: Vec<String>,
    pub(crate) heard: BTreeSet<(u8, u8)>,
    /// Questions in a row without an answer since its life ended, since when, and whether a person was
    /// told of them.
    pub(crate) silences: usize,
    pub(crate) silent_since: Option<Time>,
    pub(crate) reported: bool,
    /// Notices that prove nothing by themselves, and whether one of them waits for an answer.
    pub(crate) notices: u32,
    pub(crate) noticed: bool,
    /// Whether the last question of the schedule was asked.
    pub(crate) exhausted: bool,
    /// What the product last said of its questions.
    pub(crate) questions: Questions,
}

impl Attempt {
    pub(crate) fn new(choice: &Choice, payment: &Payment) -> Self {
        Self {
            id: choice.attempt,
            account: choice.account.clone(),
            due: payment.due,
            state: AttemptState::Open,
            facts: None,
            returns: Returns::default(),
            details: Details::new(),
            names: Vec::new(),
            uncertain: false,
            shown: Shown::Nothing,
            busy: Some(choice.busy_until),
            closing: false,
            sent: choice.busy_until,
            expires: choice.expires_at.min(payment.expires),
            references: Vec::new(),
            heard: BTreeSet::new(),
            silences: 0,
            silent_since: None,
            reported: false,
            notices: 0,
            noticed: false,
            exhausted: false,
            questions: Questions::default(),
        }
    }

    pub(crate) fn said(&self) -> Option<VendorStatus> {
        self.facts.as_ref().map(|facts| facts.status)
    }

    /// The vendor's last word is an authorisation that is not captured, or one that it holds until a
    /// person has looked.
    pub(crate) fn is_authorised(&self) -> bool {
        let told = |what| self.details.contains_key(what);
        let authorised = match self.said() {
            Some(VendorStatus::Processing) => true,
            Some(VendorStatus::Review) => {
                told("authorised") && !told("captured") && self.net().is_none()
            }
            _ => false,
        };
        authorised && !matches!(self.state, AttemptState::Captured | AttemptState::Surplus)
    }

    /// The vendor's last word leaves open what becomes of it.
    pub(crate) fn is_undecided(&self) -> bool {
        self.said().is_some_and(leaves_open)
    }

    /// The vendor holds money for us, as far as it told.
    pub(crate) fn holds_money(&self) -> bool {
        self.facts
            .as_ref()
            .is_some_and(|facts| facts.received > self.returns.total())
    }

    /// The schedule of questions begins anew.
    pub(crate) fn watch(&mut self) {
        self.exhausted = false;
        self.hears_something();
    }

    /// Silences are in a row no more.
    pub(crate) fn hears_something(&mut self) {
        self.silences = 0;
        self.silent_since = None;
        self.reported = false;
    }

    /// What was received is not what was due; where it `may_exceed` that, more is no harm.
    pub(crate) fn differs(&self, may_exceed: bool) -> bool {
        self.facts.as_ref().is_some_and(|facts| {
            let due = self.due.amount.0;
            let enough = facts.received == due || (may_exceed && facts.received > due);
            !enough || facts.currency != self.due.currency.code()
        })
    }

    /// How much more than due came, of the currency that was due.
    pub(crate) fn excess(&self) -> u64 {
        self.facts.as_ref().map_or(0, |facts| {
            if facts.currency == self.due.currency.code() {
                facts.received.saturating_sub(self.due.amount.0)
            } else {
                0
            }
        })
    }

    /// What the vendor's facts prove about the money.
    pub(crate) fn proves(&self) -> Settlement {
        match self.facts.as_ref().map(|facts| facts.settlement) {
            Some(VendorSettlement::Confirmed) => Settlement::Confirmed,
            Some(VendorSettlement::Failed) => Settlement::Failed,
            _ => Settlement::Pending,
        }
    }

    /// Ends it here.
    pub(crate) fn shut(&mut self, state: AttemptState) {
        self.state = state;
        self.busy = None;
        self.closing = false;
    }

    /// How it ends where a close was under way.
    pub(crate) fn closed(&self, now: Time) -> Option<AttemptState> {
        self.closing.then_some(if now < self.expires {
            AttemptState::Closed
        } else {
            AttemptState::Expired
        })
    }

    /// When something happened, unless the vendor told it better.
    pub(crate) fn notes(&mut self, what: &'static str, now: Time) {
        let now = format!("{now:?}");
        self.details.entry(what).or_insert(now);
    }

    pub(crate) fn hears(&mut self, via: Via, said: VendorStatus) -> bool {
        self.heard.insert((via as u8, said as u8))
    }

    pub(crate) fn has_heard(&self, via: Via, said: VendorStatus) -> bool {
        self.heard.contains(&(via as u8, said as u8))
    }

    /// The worker that held it for a question is done; one that was late holds it no more.
    pub(crate) fn let_go(&mut self, asked: Query) {
        let held = match asked.purpose {
            QueryPurpose::Capture => self.state == AttemptState::Capturing,
            QueryPurpose::Cancel => self.closing,
            QueryPurpose::Sync => false,
        };
        if held && asked.held == self.busy {
            self.busy = None;
        }
    }
}
