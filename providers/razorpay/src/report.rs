//! What a link and its payments say in the host's words.
use kassette_plugin::provider::{Money, Report, Settlement, Status};

use crate::wire::{Dispute, Link, Payment, Phase, Stage};

/// Where a payment stands. None where that cannot be told yet: a try failed and the link is still open
/// for another one, or a paid link shows no payment.
///
/// `payments` are the tries that did not fail; `kept_open` says that a link may stay open after a
/// decline, so that it still waits for the payer.
pub(crate) fn report(
    link: &Link,
    payments: &[Payment],
    disputes: &[Dispute],
    kept_open: bool,
) -> Option<Report> {
    let taken: Vec<&Payment> = payments.iter().filter(|payment| payment.captured).collect();
    let received = received(link, &taken);
    let returned = returned(&taken, disputes);
    let (status, settlement, detail) = if !taken.is_empty() {
        taken_as(received.amount, returned, disputes)
    } else if is_authorized(payments) {
        let detail = "authorized; given back by Razorpay if it is not captured";
        (Status::Processing, Settlement::Pending, detail)
    } else {
        match link.stage {
            Stage::Created if has_failed(link) && !kept_open => return None,
            Stage::Created => (Status::Pending, Settlement::Pending, "created"),
            Stage::Cancelled if has_failed(link) => {
                (Status::Declined, Settlement::Pending, "the payment failed")
            }
            Stage::Cancelled => (Status::Declined, Settlement::Pending, "cancelled"),
            Stage::Expired => (Status::Expired, Settlement::Pending, "expired"),
            Stage::Paid | Stage::PartiallyPaid => return None,
        }
    };
    Some(Report {
        reference: link.id.clone(),
        status,
        settlement,
        received,
        returned,
        detail: detail.to_owned(),
    })
}

/// Whether the payer has approved, and nothing was taken yet.
pub(crate) fn is_authorized(payments: &[Payment]) -> bool {
    payments
        .iter()
        .any(|payment| payment.phase == Phase::Authorized)
}

/// Whether the payer's last try failed.
pub(crate) fn has_failed(link: &Link) -> bool {
    let failed = |(_, phase): &(String, Phase)| *phase == Phase::Failed;
    !link.tries.is_empty() && link.tries.iter().all(failed)
}

fn taken_as(
    received: u64,
    returned: u64,
    disputes: &[Dispute],
) -> (Status, Settlement, &'static str) {
    if returned >= received {
        (Status::Completed, Settlement::Confirmed, "refunded")
    } else if disputes.contains(&Dispute::Open) {
        (Status::Review, Settlement::Pending, "disputed by the payer")
    } else if disputes.contains(&Dispute::Inquiry) {
        // The money is there; whether to deliver is what a person has to decide.
        (
            Status::Review,
            Settlement::Confirmed,
            "the bank asks about it",
        )
    } else {
        (Status::Completed, Settlement::Confirmed, "captured")
    }
}

/// What was captured: of one payment, but for one that was made twice.
fn received(link: &Link, taken: &[&Payment]) -> Money {
    let currency = taken
        .first()
        .map_or(&link.due.currency, |payment| &payment.money.currency);
    let same = |payment: &&&Payment| payment.money.currency == *currency;
    let amounts = taken.iter().filter(same);
    Money {
        amount: amounts.fold(0, |sum: u64, payment| {
            sum.saturating_add(payment.money.amount)
        }),
        currency: currency.clone(),
    }
}

/// Given back: refunds, and disputes that were lost.
fn returned(taken: &[&Payment], disputes: &[Dispute]) -> u64 {
    let refunds = taken.iter().map(|payment| payment.refunded);
    let lost = disputes.iter().map(|dispute| match dispute {
        Dispute::Lost(amount) => *amount,
        Dispute::Inquiry | Dispute::Open | Dispute::Over => 0,
    });
    refunds.chain(lost).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{paid, read, told};

    fn said(
        status: &str,
        tried: Option<&str>,
        payments: &[Payment],
        disputes: &[Dispute],
    ) -> Option<(Status, Settlement)> {
        let link = read(&told(status, tried)).unwrap();
        let report = report(&link, payments, disputes, false)?;
        Some((report.status, report.settlement))
    }

    #[test]
    fn each_state_has_its_report() {
        let captured = paid("captured", true, 0);
        for (link, tried, payments, status) in [
            ("created", None, vec![], Status::Pending),
            (
                "created",
                Some("created"),
                vec![paid("created", false, 0)],
                Status::Pending,
            ),
            (
                "created",
                Some("authorized"),
                vec![paid("authorized", false, 0)],
                Status::Processing,
            ),
            ("cancelled", None, vec![], Status::Declined),
            ("cancelled", Some("failed"), vec![], Status::Declined),
            ("expired", None, vec![], Status::Expired),
            // An authorisation that ran out: given back before anything was taken.
            (
                "expired",
                Some("refunded"),
                vec![paid("refunded", false, 4990)],
                Status::Expired,
            ),
        ] {
            assert_eq!(
                said(link, tried, &payments, &[]),
                Some((status, Settlement::Pending)),
                "{link}"
            );
        }
        assert_eq!(
            said("paid", Some("captured"), &[captured], &[]),
            Some((Status::Completed, Settlement::Confirmed))
        );
    }

    #[test]
    fn what_proves_nothing_is_not_told() {
        assert_eq!(said("created", Some("failed"), &[], &[]), None);
        assert_eq!(said("paid", None, &[], &[]), None);
        let link = read(&told("created", Some("failed"))).unwrap();
        let kept = report(&link, &[], &[], true).unwrap();
        assert_eq!(kept.status, Status::Pending);
    }

    #[test]
    fn refunds_and_disputes_are_told() {
        let paid_and = |refunded| paid("captured", true, refunded);
        let tell = |refunded, disputes: &[Dispute]| {
            let link = read(&told("paid", Some("captured"))).unwrap();
            report(&link, &[paid_and(refunded)], disputes, false).unwrap()
        };
        assert_eq!(tell(990, &[]).returned, 990);
        assert_eq!(tell(990, &[]).status, Status::Completed);
        assert_eq!(tell(0, &[Dispute::Lost(4990)]).returned, 4990);
        let disputed = tell(0, &[Dispute::Open]);
        assert_eq!(
            (disputed.status, disputed.settlement),
            (Status::Review, Settlement::Pending)
        );
        let asked = tell(0, &[Dispute::Inquiry]);
        assert_eq!(
            (asked.status, asked.settlement),
            (Status::Review, Settlement::Confirmed)
        );
        assert_eq!(tell(0, &[Dispute::Over]).status, Status::Completed);
    }

    #[test]
    fn a_payment_that_was_made_twice_is_told_with_its_sum() {
        let link = read(&told("paid", Some("captured"))).unwrap();
        let twice = [paid("captured", true, 0), paid("captured", true, 0)];
        assert_eq!(
            report(&link, &twice, &[], false).unwrap().received.amount,
            9980
        );
    }
}
