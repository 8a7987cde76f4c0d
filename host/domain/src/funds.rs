//! The money of one attempt: its captures, refunds and disputes, each once, and the balance of their movements.
//!
//! The first report of a capture, refund or dispute (answer, notification, query) records the movement; a repeated
//! report records nothing. Recorded amounts never change: money that comes back is a separate movement.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{AttemptId, RefundId};
use crate::money::Minor;
use crate::movement::{Balance, Booked, Bucket, Effect, MovementKind, Position};
use crate::provider::{
    Dispute, DisputeKind, DisputeState, Given, Particulars, ProviderCapture, ProviderRefund,
    RefundState,
};
use crate::refund::Refund;
use crate::secret::Secret;
use crate::time::Time;

/// A lower sum is accepted if a query at least this much later confirms it.
pub(crate) const CONFIRM_LOWER_SUM: Duration = Duration::from_secs(60);

/// A capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// The provider's id for it. `None` if it is only known as part of a sum.
    pub reference: Option<String>,
    /// Minor units of the currency received.
    pub amount: Minor,
    /// Part of `amount` that exceeds the due amount.
    pub excess: Minor,
    /// Whether the provider reversed it.
    pub reversed: bool,
    /// Time of the capture, by the provider's clock.
    pub at: Option<Time>,
    booked: Booked,
}

/// A dispute or inquiry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disputed {
    /// The provider's report of it.
    pub dispute: Dispute,
    /// Time at which it entered its state, as far as the gateway learned.
    pub at: Time,
    /// Whether it ended because the payment was refunded in full.
    pub ended_by_refund: bool,
    /// Last event to the merchant: the kind, and the outcome once it ended. `None` before the first.
    pub reported: Option<(DisputeKind, Option<DisputeState>)>,
    booked: Booked,
}

impl Disputed {
    /// Whether it is undecided.
    pub fn is_open(&self) -> bool {
        self.dispute.state == DisputeState::Open
    }

    /// The part of the disputed amount that the provider may still withdraw.
    fn at_risk(&self) -> Minor {
        if self.is_open() && self.dispute.kind == DisputeKind::Dispute {
            self.dispute.amount.less(self.dispute.withdrawn)
        } else {
            Minor::ZERO
        }
    }
}

/// A movement of an attempt's money, to be recorded in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: MovementKind,
    /// Its object, unique at the account.
    pub object: String,
    /// Number of earlier movements of this kind for the object.
    pub number: u16,
    pub amount: Minor,
    pub bucket: Option<Bucket>,
    pub from_bucket: Option<Bucket>,
    /// Code of the currency, if it is not the one received.
    pub currency: Option<String>,
    pub references: Vec<String>,
    /// Time by the provider's clock.
    pub occurred_at: Option<Time>,
}

/// Captures, refunds and disputes of one attempt, and the balance of their movements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Funds {
    /// Bucket of this attempt's captures: own, surplus or late.
    pub bucket: Bucket,
    /// In the order of their reports.
    pub captures: Vec<Capture>,
    /// In the order of their orders or reports.
    pub refunds: Vec<Refund>,
    /// In the order of their reports.
    pub disputes: Vec<Disputed>,
    /// Sums of all movements of this attempt, by bucket.
    pub balance: Balance,
    /// The booked provider fee, with its currency's code.
    fee: Option<(Minor, String)>,
    fee_booked: Booked,
    /// Number of movements between buckets.
    reassigned: u16,
    /// Part of [`Funds::reversed`] that the merchant's events reported.
    pub reversed_reported: Minor,
    /// Number of refunds known only from a sum.
    of_sum: u32,
    /// Time of the first report of a lower sum that a later query has to confirm.
    lower_since: Option<Time>,
}

/// A report's data about captures, refunds and disputes.
#[derive(Clone, Copy, Debug)]
pub struct ReportedFunds<'a> {
    /// Gross sum received. `None` if the report contains no captured money in the currency received.
    pub received: Option<Minor>,
    /// Limit of the payment's own money in captures. `None`: no limit, because the currency is another one.
    pub due: Option<Minor>,
    pub captures: &'a [ProviderCapture],
    /// Ids in the provider's statements for a capture that is only reported as a sum.
    pub references: &'a [String],
    pub captured_at: Option<Time>,
    /// The provider's sum of returned money. `None` if the report does not contain one.
    pub returned: Option<Minor>,
    /// Whether a query returned the report, so that a lower sum is not an old one. False for callbacks.
    pub fresh: bool,
    pub refunds: &'a [ProviderRefund],
    pub disputes: &'a [Dispute],
    pub fee: Option<&'a (Minor, String)>,
}

/// Changes by a report or an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Movements, in order.
    pub entries: Vec<Entry>,
    /// Whether a dispute or inquiry was opened.
    pub disputed: bool,
    /// Refunds that had been recorded as never made, and now are reported as made.
    pub revived: Vec<RefundId>,
    /// Whether a lower sum waits for a second query to confirm it.
    pub lower: bool,
    /// Whether a refund that was ordered here ended without having been made.
    pub ended: bool,
}

impl Difference {
    /// Whether the entries contain a movement of this kind.
    pub fn has(&self, kind: MovementKind) -> bool {
        self.entries.iter().any(|entry| entry.kind == kind)
    }
}

impl Funds {
    /// Maximum number of captures, and of disputes, of one attempt.
    pub const MOST: usize = 64;
    /// Maximum number of refunds of one attempt, in any state.
    pub const MOST_REFUNDS: usize = 256;

    /// Whether a refund that was ordered here is pending.
    pub fn is_order_pending(&self) -> bool {
        self.refunds.iter().any(Refund::is_order_pending)
    }

    /// The refund with an id, which may be the one under which it was reported earlier.
    pub fn refund(&self, id: RefundId) -> Option<&Refund> {
        self.refunds.get(self.refund_index(id)?)
    }

    pub(crate) fn refund_mut(&mut self, id: RefundId) -> Option<&mut Refund> {
        let i = self.refund_index(id)?;
        self.refunds.get_mut(i)
    }

    fn refund_index(&self, id: RefundId) -> Option<usize> {
        let has = |refund: &Refund| refund.id == id || refund.earlier_id == Some(id);
        self.refunds.iter().position(has)
    }

    /// Whether money was captured, reversed or not.
    pub fn is_taken(&self) -> bool {
        !self.captures.is_empty()
    }

    /// Captured money that is currently reversed.
    pub fn reversed(&self) -> Minor {
        let reversed = self.captures.iter().filter(|capture| capture.reversed);
        sum(reversed.map(|capture| capture.amount))
    }

    /// State of the money of one bucket.
    pub fn position(&self, bucket: Bucket) -> Position {
        let sums = self.balance.bucket(bucket);
        let pending = self.refunds.iter().filter(|refund| refund.bucket == bucket);
        let mut position = Position {
            received: sums.received,
            returned: sums.returned,
            committed: sum(pending.map(Refund::committed)),
            ..Position::default()
        };
        if bucket == self.bucket {
            for disputed in &self.disputes {
                let at_risk = disputed.at_risk();
                position.at_risk.add(at_risk);
                if !disputed.dispute.ends_by_refund {
                    position.at_risk_despite_refund.add(at_risk);
                }
            }
        }
        position
    }

    /// State of the money of all buckets.
    pub fn total(&self) -> Position {
        Bucket::ALL
            .into_iter()
            .map(|bucket| self.position(bucket))
            .fold(Position::default(), std::ops::Add::add)
    }

    /// Records a movement in the balance and in `entries`, unless its amount is zero.
    fn record(&mut self, entries: &mut Vec<Entry>, entry: Entry) {
        if entry.amount == Minor::ZERO {
            return;
        }
        let effect = entry.kind.effect().unwrap_or(Effect::None);
        self.balance.apply(
            entry.kind,
            effect,
            entry.bucket,
            entry.from_bucket,
            entry.amount,
        );
        entries.push(entry);
    }

    /// Merges a report about an attempt.
    pub fn merge(&mut self, told: ReportedFunds<'_>, attempt: AttemptId, now: Time) -> Difference {
        let mut difference = Difference::default();
        self.merge_captures(&told, attempt, &mut difference.entries);
        // A notification about a refund can arrive before the one about its capture.
        for i in 0..self.refunds.len() {
            let bucket = self.bucket;
            let refund = &mut self.refunds[i];
            if refund.reported_out > refund.out {
                let out = refund.reported_out;
                if refund.ordered.is_none() && refund.booked == Booked::default() {
                    // It returns the money that is known now.
                    refund.bucket = bucket;
                }
                self.set_paid_out(i, out, attempt, &mut difference.entries);
            }
        }
        for dispute in told.disputes {
            self.merge_dispute(dispute, now, &mut difference);
        }
        for refund in told.refunds {
            self.merge_refund(refund, attempt, now, &mut difference);
        }
        if let Some(sum) = told.returned {
            self.merge_sum(sum, told.fresh, attempt, now, &mut difference);
        }
        if let Some(fee) = told.fee {
            self.merge_fee(fee, attempt, &mut difference.entries);
        }
        self.end_disputes_by_refund(now, &mut difference.entries);
        difference
    }

    /// Removes unknown captures, refunds and disputes from a report: they are in another currency than the money
    /// received, so their amounts have no meaning here. Returns whether any were removed.
    pub(crate) fn leave_known(&self, told: &mut Particulars) -> bool {
        let count =
            |told: &Particulars| told.captures.len() + told.refunds.len() + told.disputes.len();
        let before = count(told);
        told.captures.retain(|told| {
            let mut known = self.captures.iter();
            known.any(|known| known.reference.as_ref() == Some(&told.id))
        });
        told.refunds.retain(|told| {
            let is_ours = told.order.is_some_and(|id| self.refund(id).is_some());
            let mut known = self.refunds.iter();
            is_ours || known.any(|known| known.reference.as_ref() == Some(&told.id))
        });
        told.disputes.retain(|told| {
            let mut known = self.disputes.iter();
            known.any(|known| known.dispute.id == told.id)
        });
        count(told) < before
    }

    /// Drops the unbooked part of reported refunds: it was in another currency than the capture.
    pub(crate) fn drop_unbooked_refunds(&mut self) {
        for refund in &mut self.refunds {
            refund.reported_out = refund.out;
        }
    }

    // ---- captures --------------------------------------------------------------------------------

    fn merge_captures(
        &mut self,
        told: &ReportedFunds<'_>,
        attempt: AttemptId,
        entries: &mut Vec<Entry>,
    ) {
        for capture in told.captures {
            if capture.amount == Minor::ZERO {
                continue;
            }
            let by_id = |known: &Capture| known.reference.as_deref() == Some(capture.id.as_str());
            let by_sum =
                |known: &Capture| known.reference.is_none() && known.amount == capture.amount;
            let known = self.captures.iter().position(by_id);
            let known = known.or_else(|| self.captures.iter().position(by_sum));
            let known = known.or_else(|| self.reversed_under_another_id(capture, told.captures));
            let i = match known {
                Some(i) => {
                    self.captures[i]
                        .reference
                        .get_or_insert_with(|| capture.id.clone());
                    i
                }
                None if self.captures.len() >= Self::MOST => continue,
                None => {
                    let id = Some(capture.id.clone());
                    self.add_capture(id, capture.amount, capture.at, told, attempt, entries)
                }
            };
            if self.captures[i].reversed != capture.reversed {
                self.captures[i].reversed = capture.reversed;
                self.book_capture(i, told, attempt, entries);
            }
        }
        let gross = sum(self.captures.iter().map(|capture| capture.amount));
        let more = told.received.unwrap_or_default().less(gross);
        if told.captures.is_empty() && more > Minor::ZERO && self.captures.len() < Self::MOST {
            self.add_capture(None, more, told.captured_at, told, attempt, entries);
        }
    }

    /// The capture of a reversal that has a separate id (Adyen's notification may have one): the newest unreversed
    /// capture of exactly its amount that the report does not list. The id is stored, so that the same report
    /// changes nothing when it is repeated.
    fn reversed_under_another_id(
        &mut self,
        told: &ProviderCapture,
        all: &[ProviderCapture],
    ) -> Option<usize> {
        let is_listed = |id: &str| all.iter().any(|listed| listed.id == id);
        let stands = |known: &Capture| {
            !known.reversed
                && known.amount == told.amount
                && !known.reference.as_deref().is_some_and(is_listed)
        };
        if !told.reversed || self.captures.len() >= Self::MOST {
            return None;
        }
        let i = self.captures.iter().rposition(stands)?;
        self.captures.push(Capture {
            reference: Some(told.id.clone()),
            amount: Minor::ZERO,
            excess: Minor::ZERO,
            reversed: true,
            at: None,
            booked: Booked::default(),
        });
        Some(i)
    }

    /// Adds a capture and books it; returns its index.
    fn add_capture(
        &mut self,
        reference: Option<String>,
        amount: Minor,
        at: Option<Time>,
        told: &ReportedFunds<'_>,
        attempt: AttemptId,
        entries: &mut Vec<Entry>,
    ) -> usize {
        let due = told.due.filter(|_| self.bucket == Bucket::Own);
        let standing = self.captures.iter().filter(|capture| !capture.reversed);
        let own = sum(standing.map(|capture| capture.amount.less(capture.excess)));
        self.captures.push(Capture {
            reference,
            amount,
            excess: due.map_or(Minor::ZERO, |due| amount.less(due.less(own))),
            reversed: false,
            at,
            booked: Booked::default(),
        });
        let i = self.captures.len() - 1;
        self.book_capture(i, told, attempt, entries);
        i
    }

    /// Books a capture or its reversal: one movement for each bucket that it affects.
    fn book_capture(
        &mut self,
        i: usize,
        told: &ReportedFunds<'_>,
        attempt: AttemptId,
        entries: &mut Vec<Entry>,
    ) {
        let base = self.bucket;
        let capture = &mut self.captures[i];
        let kind = if capture.reversed {
            MovementKind::CaptureReversed
        } else {
            MovementKind::Captured
        };
        let object = match &capture.reference {
            Some(id) => format!("capture {id}"),
            None => format!("capture {attempt} {i}"),
        };
        let references = match &capture.reference {
            Some(id) => vec![id.clone()],
            None => told.references.to_vec(),
        };
        let again = capture.booked != Booked::default();
        let own = capture.amount.less(capture.excess);
        let parts = [(base, own), (Bucket::Excess, capture.excess)];
        let booked = parts
            .into_iter()
            .filter(|(_, amount)| *amount > Minor::ZERO)
            .map(|(bucket, amount)| Entry {
                kind,
                object: object.clone(),
                number: capture.booked.next(kind),
                amount,
                bucket: Some(bucket),
                from_bucket: None,
                currency: None,
                references: references.clone(),
                // No provider reports the time at which it reversed a capture or made it again.
                occurred_at: capture.at.filter(|_| !again),
            })
            .collect::<Vec<_>>();
        for entry in booked {
            self.record(entries, entry);
        }
    }

    /// Moves the rest of the attempt's money, apart from refunds in progress, into another bucket. If it becomes
    /// the payment's own, the part above `due` becomes excess.
    pub(crate) fn reassign(
        &mut self,
        to: Bucket,
        due: Option<Minor>,
        attempt: AttemptId,
    ) -> Vec<Entry> {
        let from = self.bucket;
        if from == to {
            return Vec::new();
        }
        self.bucket = to;
        let position = self.position(from);
        let amount = position.for_completion();
        let own = due
            .filter(|_| to == Bucket::Own)
            .map_or(amount, |due| amount.min(due));
        let mut entries = Vec::new();
        for (bucket, amount) in [(to, own), (Bucket::Excess, amount.less(own))] {
            self.hand_over(from, bucket, amount, attempt, &mut entries);
        }
        entries
    }

    /// Fills the payment's own money up to `due` from the excess.
    pub(crate) fn top_up(&mut self, due: Minor, attempt: AttemptId) -> Vec<Entry> {
        let mut entries = Vec::new();
        let missing = due.less(self.position(Bucket::Own).for_completion());
        let amount = missing.min(self.position(Bucket::Excess).for_completion());
        self.hand_over(Bucket::Excess, Bucket::Own, amount, attempt, &mut entries);
        entries
    }

    fn hand_over(
        &mut self,
        from: Bucket,
        to: Bucket,
        amount: Minor,
        attempt: AttemptId,
        entries: &mut Vec<Entry>,
    ) {
        if amount == Minor::ZERO || from == to {
            return;
        }
        let number = self.reassigned;
        self.reassigned = number.saturating_add(1);
        let entry = Entry {
            kind: MovementKind::Reassigned,
            object: format!("attempt {attempt}"),
            number,
            amount,
            bucket: Some(to),
            from_bucket: Some(from),
            currency: None,
            references: Vec::new(),
            occurred_at: None,
        };
        self.record(entries, entry);
    }

    // ---- fees ------------------------------------------------------------------------------------

    fn merge_fee(&mut self, told: &(Minor, String), attempt: AttemptId, entries: &mut Vec<Entry>) {
        let (amount, currency) = told;
        let known = match &self.fee {
            Some((known, code)) if code == currency => *known,
            // A fee is booked in one currency only.
            Some(_) => return,
            None => Minor::ZERO,
        };
        let (kind, change) = if *amount >= known {
            (MovementKind::ProviderFee, amount.less(known))
        } else {
            (MovementKind::ProviderFeeReversed, known.less(*amount))
        };
        if change == Minor::ZERO || !self.is_taken() {
            return;
        }
        self.fee = Some(told.clone());
        let entry = Entry {
            kind,
            object: format!("fee {attempt}"),
            number: self.fee_booked.next(kind),
            amount: change,
            bucket: None,
            from_bucket: None,
            currency: Some(currency.clone()),
            references: Vec::new(),
            occurred_at: None,
        };
        self.record(entries, entry);
    }

    // ---- refunds ---------------------------------------------------------------------------------

    /// Merges the provider's answer about a refund that was ordered here. `None` if there is no such order, or if
    /// the answer contains another refund's id.
    pub(crate) fn answer(
        &mut self,
        id: RefundId,
        given: &Given,
        attempt: AttemptId,
        now: Time,
    ) -> Option<Difference> {
        let i = self.refund_index(id)?;
        let id = self.refunds[i].id;
        let is_others = |other: &Refund| {
            other.id != id
                && other.ordered.is_some()
                && other.reference.as_ref() == Some(&given.reference)
        };
        if self.refunds[i].ordered.is_none() || self.refunds.iter().any(is_others) {
            return None;
        }
        let mut difference = Difference::default();
        let told = Told {
            reference: &given.reference,
            state: given.state,
            paid_out: given.paid_out,
            at: None,
        };
        self.advance(i, told, attempt, now, &mut difference);
        if let Some(refund) = self.refund_mut(id) {
            refund.detail.clone_from(&given.detail);
            if let Some(url) = &given.claim_url {
                refund.claim_url = Some(Secret::new(url.as_str()));
            }
        }
        self.end_disputes_by_refund(now, &mut difference.entries);
        Some(difference)
    }

    /// Merges a refund that the provider reports by its id.
    fn merge_refund(
        &mut self,
        told: &ProviderRefund,
        attempt: AttemptId,
        now: Time,
        difference: &mut Difference,
    ) {
        let ordered = |refund: &Refund| refund.ordered.is_some() && refund.is_told_by(told);
        let known = self
            .refunds
            .iter()
            .position(ordered)
            .or_else(|| self.refunds.iter().position(|it| it.is_told_by(told)));
        let of_sum = |refund: &Refund| {
            told.state == RefundState::Succeeded
                && refund.is_of_sum()
                && refund.amount == told.amount
        };
        let known = known.or_else(|| self.refunds.iter().position(of_sum));
        let i = match known {
            Some(i) => i,
            None if self.refunds.len() >= Self::MOST_REFUNDS || told.amount == Minor::ZERO => {
                return;
            }
            None => {
                let derived = || RefundId::derived(attempt, told.id.as_bytes());
                let id = told.order.unwrap_or_else(derived);
                let bucket = self.bucket_without_order(told.amount);
                let mut refund = Refund::elsewhere(id, told.amount, bucket, now);
                refund.is_withdrawal = self.is_listed_withdrawal(told);
                self.refunds.push(refund);
                self.supersede_sum(told, attempt, &mut difference.entries);
                self.refunds.len() - 1
            }
        };
        let told = Told {
            reference: &told.id,
            state: told.state,
            paid_out: told.paid_out,
            at: told.at,
        };
        self.advance(i, told, attempt, now, difference);
    }

    /// Bucket of a refund that was not ordered here: a bucket other than the payment's own that holds exactly its
    /// amount, else the base bucket if it holds money, else the first that does, else the base bucket.
    fn bucket_without_order(&self, amount: Minor) -> Bucket {
        let left = |bucket| self.position(bucket).for_completion();
        let others = [Bucket::Excess, Bucket::Surplus, Bucket::Late];
        let exact = others.into_iter().find(|bucket| left(*bucket) == amount);
        exact
            .or_else(|| (left(self.bucket) > Minor::ZERO).then_some(self.bucket))
            .or_else(|| {
                Bucket::ALL
                    .into_iter()
                    .find(|bucket| left(*bucket) > Minor::ZERO)
            })
            .unwrap_or(self.bucket)
    }

    /// Applies the provider's report about a refund. States never go back (pending, succeeded, failed), except for
    /// a refund recorded as never made that the provider made after all.
    fn advance(
        &mut self,
        i: usize,
        told: Told<'_>,
        attempt: AttemptId,
        now: Time,
        difference: &mut Difference,
    ) {
        let never_was = self.refunds[i].never_was();
        let i = self.name_refund(i, told.reference);
        let refund = &mut self.refunds[i];
        let older =
            matches!((told.at, refund.occurred_at), (Some(told), Some(known)) if told < known);
        let revived = never_was && told.state != RefundState::Failed;
        if older || (!revived && rank(told.state) < rank(refund.state)) {
            return;
        }
        if revived {
            difference.revived.push(refund.id);
            refund.failed_reported = false;
        }
        if rank(told.state) != rank(refund.state) {
            (refund.state, refund.at) = (told.state, now);
        }
        // A report of money that came back can still contain the time at which it was paid out.
        let back_at = told
            .at
            .filter(|at| refund.occurred_at.is_some_and(|known| *at > known));
        refund.occurred_at = told.at.or(refund.occurred_at);
        if let Some(ordered) = &mut refund.ordered {
            ordered.uncertain = false;
            ordered.settled = None;
            if refund.state != RefundState::Pending {
                ordered.next_at = None;
            } else if ordered.next_at.is_none() || revived {
                ordered.next_at = Some(now);
            }
        }
        let out = match told.state {
            RefundState::Succeeded => told.paid_out.unwrap_or(refund.amount),
            RefundState::Pending | RefundState::Failed => told.paid_out.unwrap_or_default(),
        };
        let earlier = difference.entries.len();
        self.set_paid_out(i, out, attempt, &mut difference.entries);
        for entry in &mut difference.entries[earlier..] {
            if entry.kind == MovementKind::RefundReversed {
                entry.occurred_at = back_at;
            }
        }
        let refund = &mut self.refunds[i];
        // A refund that came back in full has failed.
        if refund.state == RefundState::Succeeded
            && refund.out == Minor::ZERO
            && refund.reversed > Minor::ZERO
            && !refund.is_withdrawal
        {
            (refund.state, refund.at) = (RefundState::Failed, now);
        }
    }

    /// Sets a refund's provider id. A refund that a notification reported under this id, before the order's answer
    /// named it, is merged into the ordered refund. Returns the refund's index.
    fn name_refund(&mut self, mut i: usize, reference: &str) -> usize {
        let is_new = self.refunds[i].reference.is_none();
        self.refunds[i]
            .reference
            .get_or_insert_with(|| reference.to_owned());
        let twin = self.refunds.iter().position(|other| {
            other.ordered.is_none() && other.reference.as_deref() == Some(reference)
        });
        if let Some(twin) = twin.filter(|_| is_new && self.refunds[i].ordered.is_some()) {
            let earlier = self.refunds.remove(twin);
            i -= usize::from(twin < i);
            let refund = &mut self.refunds[i];
            // The merchant may know it by that id.
            refund.earlier_id = Some(earlier.id);
            (refund.state, refund.at) = (earlier.state, earlier.at);
            (refund.out, refund.reversed) = (earlier.out, earlier.reversed);
            refund.reported_out = earlier.reported_out;
            (refund.succeeded_reported, refund.reversed_reported) =
                (earlier.succeeded_reported, earlier.reversed_reported);
            refund.booked = earlier.booked;
            refund.object = earlier.object;
            refund.bucket = earlier.bucket;
        }
        i
    }

    /// Records the amount of a refund that is currently paid out, at most the amount received. Other refunds do
    /// not lower this limit: a report can name a new refund before it reverses an older one.
    fn set_paid_out(&mut self, i: usize, out: Minor, attempt: AttemptId, entries: &mut Vec<Entry>) {
        let received = self.balance.total().received;
        let refund = &mut self.refunds[i];
        if refund.is_withdrawal {
            return;
        }
        refund.reported_out = out;
        let out = out.min(refund.amount).min(received.max(refund.out));
        let (kind, change) = if out > refund.out {
            (MovementKind::Refunded, out.less(refund.out))
        } else {
            (MovementKind::RefundReversed, refund.out.less(out))
        };
        if change == Minor::ZERO {
            return;
        }
        refund.out = out;
        if kind == MovementKind::RefundReversed {
            refund.reversed.add(change);
        }
        let object = refund
            .object
            .get_or_insert_with(|| format!("refund {}", refund.id))
            .clone();
        let entry = Entry {
            kind,
            object,
            number: refund.booked.next(kind),
            amount: change,
            bucket: Some(refund.bucket),
            from_bucket: None,
            currency: None,
            references: refund.reference.iter().cloned().collect(),
            occurred_at: refund.occurred_at,
        };
        let (from, base) = (refund.bucket, self.bucket);
        self.record(entries, entry);
        // Money that comes back follows the attempt's money if that has been moved to another bucket since.
        if kind == MovementKind::RefundReversed && from != Bucket::Excess {
            self.hand_over(from, base, change, attempt, entries);
        }
    }

    /// Ends a refund that was never made, or that an operator settles.
    pub(crate) fn end_refund(
        &mut self,
        id: RefundId,
        state: RefundState,
        out: Minor,
        attempt: AttemptId,
        now: Time,
    ) -> Difference {
        let mut difference = Difference::default();
        let Some(i) = self.refund_index(id) else {
            return difference;
        };
        let (bucket, base) = (self.refunds[i].bucket, self.bucket);
        let committed = self.refunds[i].committed();
        let refund = &mut self.refunds[i];
        (refund.state, refund.at) = (state, now);
        if let Some(ordered) = &mut refund.ordered {
            ordered.next_at = None;
            ordered.uncertain = false;
        }
        self.set_paid_out(i, out, attempt, &mut difference.entries);
        let refund = &mut self.refunds[i];
        if state == RefundState::Succeeded {
            // The rest came back before it was ever reported.
            refund.reversed = refund.amount.less(refund.out);
        }
        let freed = committed.less(out);
        if bucket != Bucket::Excess {
            self.hand_over(bucket, base, freed, attempt, &mut difference.entries);
        }
        self.end_disputes_by_refund(now, &mut difference.entries);
        difference
    }

    /// Merges the provider's own sum. Refunds known by id or ordered here explain it first; more than that is a
    /// refund made elsewhere. A lower sum reverses only refunds known from a sum, if two queries in a row report
    /// it.
    fn merge_sum(
        &mut self,
        told: Minor,
        fresh: bool,
        attempt: AttemptId,
        now: Time,
        difference: &mut Difference,
    ) {
        let counted = |refund: &&Refund| {
            // An older sum can include refunds that have failed since.
            refund.state != RefundState::Failed || !fresh
        };
        let refunds = sum(self
            .refunds
            .iter()
            .filter(counted)
            .map(|refund| refund.amount));
        let withdrawn = sum(self
            .disputes
            .iter()
            .map(|disputed| disputed.dispute.withdrawn));
        // It can also include withdrawals that have been reinstated since.
        let reinstated = |disputed: &&Disputed| {
            let was_withdrawn = disputed.booked.has(MovementKind::FundsWithdrawn);
            was_withdrawn && disputed.dispute.withdrawn == Minor::ZERO && !fresh
        };
        let earlier = self.disputes.iter().filter(reinstated);
        let earlier = sum(earlier.map(|disputed| disputed.dispute.amount));
        let more = told.less(refunds.plus(withdrawn).plus(earlier));
        if more > Minor::ZERO && self.refunds.len() < Self::MOST_REFUNDS {
            let number = self.of_sum;
            self.of_sum = number.wrapping_add(1);
            let id = RefundId::derived(attempt, &number.to_be_bytes());
            let mut refund = Refund::elsewhere(id, more, self.bucket_without_order(more), now);
            refund.state = RefundState::Succeeded;
            self.refunds.push(refund);
            let i = self.refunds.len() - 1;
            self.set_paid_out(i, more, attempt, &mut difference.entries);
        }
        if !fresh {
            return;
        }
        let out = sum(self.refunds.iter().map(|refund| refund.out));
        let gone = out.plus(withdrawn).less(told);
        let of_sum = sum(self
            .refunds
            .iter()
            .filter(|refund| refund.is_of_sum())
            .map(|refund| refund.out));
        let lower = gone.min(of_sum);
        if lower == Minor::ZERO {
            self.lower_since = None;
            return;
        }
        let since = *self.lower_since.get_or_insert(now);
        if now.since(since) < CONFIRM_LOWER_SUM {
            difference.lower = true;
            return;
        }
        self.lower_since = None;
        self.reverse_of_sum(lower, attempt, now, &mut difference.entries);
    }

    /// Reverses an amount of refunds known only from a sum: the refund of exactly that amount, else the newest.
    fn reverse_of_sum(
        &mut self,
        mut amount: Minor,
        attempt: AttemptId,
        now: Time,
        entries: &mut Vec<Entry>,
    ) {
        while amount > Minor::ZERO {
            let has = |refund: &Refund| refund.is_of_sum() && refund.out > Minor::ZERO;
            let exact = |refund: &Refund| has(refund) && refund.out == amount;
            let i = self
                .refunds
                .iter()
                .rposition(exact)
                .or_else(|| self.refunds.iter().rposition(has));
            let Some(i) = i else { return };
            let less = self.refunds[i].out.min(amount);
            let out = self.refunds[i].out.less(less);
            self.set_paid_out(i, out, attempt, entries);
            let refund = &mut self.refunds[i];
            if refund.out == Minor::ZERO {
                (refund.state, refund.at) = (RefundState::Failed, now);
            }
            amount = amount.less(less);
        }
    }

    /// Reverses refunds known only from a sum, up to the amount of a new refund with an id, which was part of that
    /// sum. The merchant gets no second event.
    fn supersede_sum(
        &mut self,
        told: &ProviderRefund,
        attempt: AttemptId,
        entries: &mut Vec<Entry>,
    ) {
        if told.state != RefundState::Succeeded {
            return;
        }
        let mut amount = told.paid_out.unwrap_or(told.amount);
        let mut reported = false;
        for i in (0..self.refunds.len().saturating_sub(1)).rev() {
            let refund = &self.refunds[i];
            if !refund.is_of_sum() || refund.out == Minor::ZERO || amount == Minor::ZERO {
                continue;
            }
            reported |= refund.succeeded_reported;
            let less = refund.out.min(amount);
            let out = refund.out.less(less);
            amount = amount.less(less);
            self.set_paid_out(i, out, attempt, entries);
            let refund = &mut self.refunds[i];
            refund.reversed_reported = refund.reversed;
            if refund.out == Minor::ZERO {
                refund.state = RefundState::Failed;
                refund.failed_reported = true;
            }
        }
        if let Some(new) = self.refunds.last_mut().filter(|_| reported) {
            new.succeeded_reported = true;
        }
    }

    // ---- disputes --------------------------------------------------------------------------------

    fn merge_dispute(&mut self, told: &Dispute, now: Time, difference: &mut Difference) {
        let known = self
            .disputes
            .iter()
            .position(|known| known.dispute.id == told.id);
        let i = match known {
            None if self.disputes.len() >= Self::MOST => return,
            None => {
                difference.disputed = true;
                self.disputes.push(Disputed {
                    dispute: Dispute {
                        withdrawn: Minor::ZERO,
                        ..told.clone()
                    },
                    at: now,
                    ended_by_refund: false,
                    reported: None,
                    booked: Booked::default(),
                });
                self.disputes.len() - 1
            }
            Some(i) => {
                let known = &self.disputes[i].dispute;
                let escalates =
                    known.kind == DisputeKind::Inquiry && told.kind == DisputeKind::Dispute;
                let goes_back = (known.state != DisputeState::Open
                    && told.state == DisputeState::Open
                    && !escalates)
                    || (known.kind == DisputeKind::Dispute && told.kind == DisputeKind::Inquiry);
                if goes_back {
                    return;
                }
                i
            }
        };
        let is_new = known.is_none();
        let disputed = &mut self.disputes[i];
        let earlier = disputed.dispute.clone();
        if earlier.state != told.state || earlier.kind != told.kind {
            disputed.at = now;
            difference.disputed |= told.state == DisputeState::Open;
        }
        if told.state == DisputeState::Lost {
            disputed.ended_by_refund = false;
        }
        disputed.dispute = Dispute {
            withdrawn: earlier.withdrawn,
            reason: told.reason.clone().or(earlier.reason),
            respond_by: told.respond_by.or(earlier.respond_by),
            at: told.at.or(earlier.at),
            ..told.clone()
        };
        let becomes_dispute =
            told.kind == DisputeKind::Dispute && (is_new || earlier.kind == DisputeKind::Inquiry);
        if becomes_dispute {
            let amount = told.amount;
            self.book_dispute(
                i,
                MovementKind::DisputeOpened,
                amount,
                &mut difference.entries,
            );
        }
        self.set_withdrawn(i, told.withdrawn, now, &mut difference.entries);
        let ended = told.state != DisputeState::Open
            && (is_new || earlier.state == DisputeState::Open || becomes_dispute);
        if ended && told.kind == DisputeKind::Dispute {
            let amount = told.amount;
            self.book_dispute(
                i,
                MovementKind::DisputeClosed,
                amount,
                &mut difference.entries,
            );
        }
    }

    /// Records the amount of a dispute that the provider currently withholds. If the provider also lists the
    /// withdrawal as a refund, and that was booked, the refund is reversed in the same step.
    fn set_withdrawn(&mut self, i: usize, withdrawn: Minor, now: Time, entries: &mut Vec<Entry>) {
        let known = self.disputes[i].dispute.withdrawn;
        let (kind, change) = if withdrawn > known {
            (MovementKind::FundsWithdrawn, withdrawn.less(known))
        } else {
            (MovementKind::FundsReinstated, known.less(withdrawn))
        };
        if change == Minor::ZERO {
            return;
        }
        if kind == MovementKind::FundsWithdrawn && self.disputes[i].dispute.listed_as_refund {
            self.unbook_listed_withdrawal(i, now, entries);
        }
        self.disputes[i].dispute.withdrawn = withdrawn;
        self.book_dispute(i, kind, change, entries);
    }

    fn unbook_listed_withdrawal(&mut self, i: usize, now: Time, entries: &mut Vec<Entry>) {
        let dispute = &self.disputes[i].dispute;
        let (amount, since) = (dispute.amount, dispute.at);
        let is_it = |refund: &Refund| {
            refund.ordered.is_none()
                && !refund.is_withdrawal
                && refund.out > Minor::ZERO
                && refund.amount <= amount
                && !matches!((refund.occurred_at, since), (Some(at), Some(since)) if at < since)
        };
        let Some(r) = self.refunds.iter().rposition(is_it) else {
            return;
        };
        let refund = &mut self.refunds[r];
        let out = std::mem::take(&mut refund.out);
        refund.reversed.add(out);
        refund.reversed_reported = refund.reversed;
        refund.is_withdrawal = true;
        (refund.state, refund.at) = (RefundState::Failed, now);
        refund.failed_reported = true;
        let object = refund
            .object
            .get_or_insert_with(|| format!("refund {}", refund.id))
            .clone();
        let entry = Entry {
            kind: MovementKind::RefundReversed,
            object,
            number: refund.booked.next(MovementKind::RefundReversed),
            amount: out,
            bucket: Some(refund.bucket),
            from_bucket: None,
            currency: None,
            references: refund.reference.iter().cloned().collect(),
            occurred_at: refund.occurred_at,
        };
        self.record(entries, entry);
    }

    /// Whether a refund that the provider lists is the withdrawal of a known dispute.
    fn is_listed_withdrawal(&self, told: &ProviderRefund) -> bool {
        let taken = self.refunds.iter().filter(|refund| refund.is_withdrawal);
        let taken = sum(taken.map(|refund| refund.amount));
        let withdrawn = self.disputes.iter().filter(|disputed| {
            let dispute = &disputed.dispute;
            let before = matches!((told.at, dispute.at), (Some(at), Some(since)) if at < since);
            dispute.listed_as_refund && dispute.withdrawn > Minor::ZERO && !before
        });
        let withdrawn = sum(withdrawn.map(|disputed| disputed.dispute.withdrawn));
        told.order.is_none() && told.amount <= withdrawn.less(taken)
    }

    fn book_dispute(
        &mut self,
        i: usize,
        kind: MovementKind,
        amount: Minor,
        entries: &mut Vec<Entry>,
    ) {
        let bucket = self.bucket;
        let disputed = &mut self.disputes[i];
        let entry = Entry {
            kind,
            object: format!("dispute {}", disputed.dispute.id),
            number: disputed.booked.next(kind),
            amount,
            bucket: Some(bucket),
            from_bucket: None,
            currency: None,
            references: vec![disputed.dispute.id.clone()],
            occurred_at: disputed
                .dispute
                .at
                .filter(|_| kind == MovementKind::DisputeOpened),
        };
        self.record(entries, entry);
    }

    /// Ends open disputes that a refund ends, once everything received has been returned.
    fn end_disputes_by_refund(&mut self, now: Time, entries: &mut Vec<Entry>) {
        let refunded = self.refunds.iter().any(|refund| refund.out > Minor::ZERO);
        if !refunded || self.balance.total().net() > 0 {
            return;
        }
        for i in 0..self.disputes.len() {
            let disputed = &mut self.disputes[i];
            if !disputed.is_open() || !disputed.dispute.ends_by_refund {
                continue;
            }
            disputed.dispute.state = DisputeState::Won;
            disputed.ended_by_refund = true;
            disputed.at = now;
            if disputed.dispute.kind == DisputeKind::Dispute {
                let amount = disputed.dispute.amount;
                self.book_dispute(i, MovementKind::DisputeClosed, amount, entries);
            }
        }
    }
}

/// The provider's report about one refund.
#[derive(Clone, Copy)]
struct Told<'a> {
    reference: &'a str,
    state: RefundState,
    paid_out: Option<Minor>,
    at: Option<Time>,
}

fn sum(amounts: impl Iterator<Item = Minor>) -> Minor {
    amounts.fold(Minor::ZERO, Minor::plus)
}

const fn rank(state: RefundState) -> u8 {
    match state {
        RefundState::Pending => 0,
        RefundState::Succeeded => 1,
        RefundState::Failed => 2,
    }
}
