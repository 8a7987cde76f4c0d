//! Items of the operators' work list. They follow from the payment only, and so open, change and close with their
//! subjects.

use super::moves::StepLog;
use super::{NewWork, PaymentAggregate};
use crate::attempt::{Attempt, AttemptState, AuthorizationWatch, Doubt, Stage};
use crate::funds::Disputed;
use crate::money::Minor;
use crate::movement::Bucket;
use crate::payment::{DecisionState, Resolution, Settlement, Status};
use crate::provider::{DisputeKind, DisputeState, RefundState};
use crate::refund::Refund;
use crate::time::Time;
use crate::work::{WorkKey, WorkKind};

impl PaymentAggregate {
    /// Opens, changes and closes items whose subjects this step changed.
    pub(super) fn update_work(&self, before: &Self, log: &mut StepLog<'_>) {
        let (earlier, now) = (before.work_items(), self.work_items());
        for item in &now {
            if !earlier.contains(item) {
                log.change.work.push(item.clone());
            }
        }
        for item in earlier {
            if !now.iter().any(|each| each.key == item.key) {
                log.change.work_closed.push(item.key);
            }
        }
    }

    /// All facts about the payment that need an operator.
    pub fn work_items(&self) -> Vec<NewWork> {
        let mut items = Vec::new();
        for attempt in &self.attempts {
            self.money_items(attempt, &mut items);
            self.refund_items(attempt, &mut items);
            dispute_items(attempt, &mut items);
            self.warning_items(attempt, &mut items);
        }
        items.extend(self.unsettled_item());
        items
    }

    /// Money that is not the payment's own, and more money returned than received.
    fn money_items(&self, attempt: &Attempt, items: &mut Vec<NewWork>) {
        let kinds = [
            (
                Bucket::Excess,
                WorkKind::Excess,
                "more was received than was due",
            ),
            (
                Bucket::Surplus,
                WorkKind::Surplus,
                "money that is not the payment's",
            ),
            (
                Bucket::Late,
                WorkKind::Late,
                "money came after the payment was over",
            ),
        ];
        for (bucket, kind, detail) in kinds {
            let net = attempt.funds.balance.bucket(bucket).net();
            // Excess is owed once the payment has its due amount.
            let decided = bucket != Bucket::Excess || self.payment.status.is_final();
            if net > 0 && decided {
                items.push(item(
                    attempt,
                    kind,
                    "",
                    crate::movement::positive(net),
                    detail,
                ));
            }
        }
        let total = attempt.funds.balance.total().net();
        if total < 0 {
            let gone = crate::movement::positive(-total);
            let detail = "more money is gone than was received";
            items.push(item(attempt, WorkKind::Negative, "", gone, detail));
        }
    }

    /// Failed refunds without a replacement, and refunds whose outcome stayed unknown.
    fn refund_items(&self, attempt: &Attempt, items: &mut Vec<NewWork>) {
        for refund in &attempt.funds.refunds {
            let detail = match refund.state {
                RefundState::Failed
                    if refund.is_withdrawal
                        || refund.ordered.is_none()
                            && !refund.succeeded_reported
                            && refund.reversed == Minor::ZERO =>
                {
                    continue;
                }
                RefundState::Failed if self.is_made_up_for(attempt, refund) => continue,
                RefundState::Failed if refund.reversed > Minor::ZERO => {
                    "a refund failed after it had succeeded: its amount can be refunded again"
                }
                RefundState::Failed => "a refund failed",
                RefundState::Pending if is_unknown(refund) => {
                    "the outcome of a refund is not known"
                }
                RefundState::Pending | RefundState::Succeeded => continue,
            };
            let id = refund.id.to_string();
            items.push(item(attempt, WorkKind::Refund, &id, refund.amount, detail));
        }
    }

    /// Whether a later refund of at least the same amount has succeeded.
    fn is_made_up_for(&self, attempt: &Attempt, failed: &Refund) -> bool {
        attempt.funds.refunds.iter().any(|later| {
            later.state == RefundState::Succeeded
                && later.id != failed.id
                && later.created_at >= failed.created_at
                && later.bucket == failed.bucket
                && later.out >= failed.amount
        })
    }

    fn warning_items(&self, attempt: &Attempt, items: &mut Vec<NewWork>) {
        let funds = &attempt.funds;
        let particulars = &attempt.particulars;
        let net = funds.balance.total().net();
        if let Some(warning) = &particulars.fraud_warning
            && net > 0
            && funds.disputes.is_empty()
        {
            let amount = crate::movement::positive(net);
            let mut new = item(attempt, WorkKind::FraudWarning, "", amount, "");
            new.detail = format!("the provider warns of fraud: {warning}");
            items.push(new);
        }
        if !particulars.unreadable.is_empty() {
            let mut new = item(attempt, WorkKind::Unreadable, "", attempt.due.amount, "");
            new.detail = particulars.unreadable.join("; ");
            items.push(new);
        }
        let is_warned = attempt.authorization != AuthorizationWatch::None;
        let ends = attempt.authorization_end();
        if let Some(ends) = ends.filter(|_| is_warned && !self.payment.status.is_final()) {
            let detail = "the authorization ends soon and nothing was captured";
            let amount = attempt.due.amount;
            let mut new = item(attempt, WorkKind::Authorization, "", amount, detail);
            new.deadline = Some(ends);
            items.push(new);
        }
    }

    /// A completed payment that is not confirmed although the provider was asked for long, or one that ended
    /// although no provider confirmed that nothing was taken, or one in review whose approved capture was ordered
    /// and not confirmed.
    fn unsettled_item(&self) -> Option<NewWork> {
        let own = self.captured().map(|i| &self.attempts[i]);
        let reversed = own.map_or(Minor::ZERO, |own| own.funds.reversed());
        let completed = self.payment.status == Status::Completed;
        if let Some(own) = own.filter(|_| completed && reversed > Minor::ZERO) {
            let detail = "the provider took a capture back";
            return Some(item(own, WorkKind::Unsettled, "", reversed, detail));
        }
        if let Some(ordered) = self.unconfirmed_capture() {
            let detail = "a capture was ordered and the provider has not confirmed it";
            let amount = ordered.due.amount;
            return Some(item(ordered, WorkKind::Unsettled, "", amount, detail));
        }
        let detail = if self.payment.status == Status::Failed
            && self.payment.settlement == Settlement::Pending
            && self.payment.uncertain_end
        {
            "no provider has confirmed that no money was taken"
        } else if completed && self.payment.vouched {
            "completed or settled by an operator's word"
        } else if completed && self.payment.settlement == Settlement::Failed {
            "the provider says it will not settle"
        } else if completed && self.payment.settlement == Settlement::Pending {
            let own = own?;
            let Stage::Captured { doubt, .. } = own.stage else {
                return None;
            };
            match doubt? {
                Doubt::Denied => "the provider now says that nothing was taken",
                Doubt::Silence => "completed and not confirmed",
            }
        } else {
            return None;
        };
        let attempt = own.or_else(|| {
            let uncertain = self.attempts.iter().rev().find(|each| each.is_undecided());
            uncertain.or(self.attempts.last())
        })?;
        let amount = attempt.due.amount;
        Some(item(attempt, WorkKind::Unsettled, "", amount, detail))
    }

    /// The open attempt of a lapsed approval whose ordered capture was not confirmed.
    fn unconfirmed_capture(&self) -> Option<&Attempt> {
        let lapsed = self.payment.decision.as_deref().is_some_and(|decision| {
            decision.resolution == Resolution::Approve && decision.state == DecisionState::Lapsed
        });
        let asked = |attempt: &&Attempt| {
            let state = attempt.state();
            matches!(
                state,
                AttemptState::Capturing | AttemptState::VerificationPending
            )
        };
        let open = self.open_attempt().filter(asked);
        open.filter(|_| lapsed && self.payment.status == Status::Review)
    }
}

/// Whether a refund that was ordered here was queried to the end of the schedule without an outcome.
fn is_unknown(refund: &Refund) -> bool {
    let ordered = refund.ordered.as_deref();
    refund.state == RefundState::Pending && ordered.is_some_and(|ordered| ordered.next_at.is_none())
}

fn dispute_items(attempt: &Attempt, items: &mut Vec<NewWork>) {
    for disputed in &attempt.funds.disputes {
        if let Some(detail) = dispute_detail(disputed) {
            let dispute = &disputed.dispute;
            let mut new = item(
                attempt,
                WorkKind::Dispute,
                &dispute.id,
                dispute.amount,
                detail,
            );
            new.deadline = deadline(disputed);
            items.push(new);
        }
    }
}

const fn deadline(disputed: &Disputed) -> Option<Time> {
    match disputed.dispute.state {
        DisputeState::Open => disputed.dispute.respond_by,
        DisputeState::Won | DisputeState::Lost => None,
    }
}

/// Reason why a dispute is on the list. `None` once it is won or a refund ended it.
const fn dispute_detail(disputed: &Disputed) -> Option<&'static str> {
    match (disputed.dispute.state, disputed.dispute.kind) {
        (DisputeState::Open, DisputeKind::Inquiry) => {
            Some("the payer's bank asks about the payment")
        }
        (DisputeState::Open, DisputeKind::Dispute) => Some("the payer disputes the payment"),
        (DisputeState::Lost, _) => {
            Some("a dispute was lost: the provider has taken the money back")
        }
        (DisputeState::Won, _) => None,
    }
}

fn item(attempt: &Attempt, kind: WorkKind, subject: &str, amount: Minor, detail: &str) -> NewWork {
    NewWork {
        key: WorkKey {
            attempt: attempt.id,
            kind,
            subject: subject.to_owned(),
        },
        account: attempt.account.clone(),
        amount,
        currency: attempt.received_currency().to_owned(),
        received: attempt.funds.balance.total().received,
        detail: detail.to_owned(),
        deadline: None,
    }
}
