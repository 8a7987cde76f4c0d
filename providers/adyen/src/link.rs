//! Querying a payment link. Methods that capture on approval are paid by a link.
//!
//! An expired link accepts no new payment, but a payment started earlier may still be with the payer's bank. So
//! the module waits for the link's own expiry, and reports the end only after the longest duration of such a
//! payment. It expires a link early in two cases: the link's only payment was refused, and Adyen reports none in
//! progress; or no payer ever received its address.
use kassette_plugin::json::object;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Attempt, Money, Particulars, QueryFailure, QueryPurpose, Report, Settlement, Status,
};

use crate::wire::{self, Link, LinkStatus};
use crate::{api, payment};

/// Maximum time that a started payment can be with the payer's bank, in milliseconds. iDEAL's longest transaction
/// takes an hour (the default is 20 or 30 minutes); UPI's is shorter.
const UNDER_WAY_MS: u64 = 60 * 60_000;
/// Time to wait for the AUTHORISATION of a completed link before the link's status counts as proof, in
/// milliseconds.
const NEWS_MS: u64 = 2 * 60_000;

/// Reports the status of a link.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    id: &str,
    purpose: QueryPurpose,
) -> Result<Report, QueryFailure> {
    let link = fetch(account, id)?;
    if is_of(&link, account, &attempt.id) {
        Ok(of_link(link, purpose, account.now))
    } else {
        Err(payment::unavailable("the link belongs to another attempt"))
    }
}

/// Expires a link that no payer received, or whose payment was refused, and reports it as declined with `detail`.
/// `None` if the link belongs to another attempt, or is paid or may still be paid: then the host queries.
pub(crate) fn end(
    account: &Account,
    attempt: &str,
    id: &str,
    detail: &str,
) -> Result<Option<Report>, QueryFailure> {
    let mut link = fetch(account, id)?;
    let ours = is_of(&link, account, attempt);
    if ours && link.status == LinkStatus::Active {
        link = expire(account, id)?;
    }
    let ended = ours && link.status == LinkStatus::Expired;
    Ok(ended.then(|| report(link, Status::Declined, 0, detail)))
}

fn is_of(link: &Link, account: &Account, attempt: &str) -> bool {
    // The answer about a link may omit the values that this module sent.
    let merchant_account = link.merchant_account.as_deref();
    link.attempt.as_deref().is_none_or(|of| of == attempt)
        && merchant_account.is_none_or(|of| of == api::merchant_account(account))
}

fn fetch(account: &Account, id: &str) -> Result<Link, QueryFailure> {
    let answer = api::get(account, &format!("/paymentLinks/{id}"))?;
    match answer.status {
        200 => read(&answer),
        404 => Err(QueryFailure::Absent),
        _ => Err(payment::refused(&answer)),
    }
}

/// Expires the link, so that it accepts no new payment. Returns the link afterwards.
fn expire(account: &Account, id: &str) -> Result<Link, QueryFailure> {
    let path = format!("/paymentLinks/{id}");
    let answer = api::patch(account, &path, &object([("status", "expired".into())]))?;
    match answer.status {
        200 => read(&answer),
        // The link has changed in the meantime: read its current state.
        422 => fetch(account, id),
        _ => Err(payment::refused(&answer)),
    }
}

fn read(answer: &Answer) -> Result<Link, QueryFailure> {
    wire::link(&answer.body).ok_or_else(|| payment::unavailable("the answer cannot be read"))
}

/// Report about a link, from its status and times.
fn of_link(link: Link, purpose: QueryPurpose, now: u64) -> Report {
    let over = |since: Option<u64>, for_ms: u64| {
        since.is_some_and(|since| now >= since.saturating_add(for_ms))
    };
    match link.status {
        LinkStatus::Active => report(link, Status::Pending, 0, "link active"),
        LinkStatus::Pending => report(link, Status::Pending, 0, "link paymentPending"),
        LinkStatus::Unknown => report(link, Status::Pending, 0, "link of an unknown status"),
        LinkStatus::Completed if over(link.updated_at.or(link.expires_at), NEWS_MS) => {
            let received = link.due.amount;
            let detail = "link completed, its AUTHORISATION has not come";
            Report {
                settlement: Settlement::Confirmed,
                ..report(link, Status::Completed, received, detail)
            }
        }
        LinkStatus::Completed => {
            let detail = "link completed, AUTHORISATION awaited";
            report(link, Status::Processing, 0, detail)
        }
        LinkStatus::Expired if over(expired_at(&link, now), UNDER_WAY_MS) => {
            let status = if purpose == QueryPurpose::Cancel {
                Status::Declined
            } else {
                Status::Expired
            };
            report(link, status, 0, "link expired")
        }
        LinkStatus::Expired => {
            let detail = "link expired, a payment begun before may come";
            report(link, Status::Pending, 0, detail)
        }
    }
}

/// Time since which an expired link accepts no payment, in milliseconds since 1970: the later of the status change
/// and, if it has passed, the link's own expiry. `None` if both are unknown.
fn expired_at(link: &Link, now: u64) -> Option<u64> {
    let own = link.expires_at.filter(|own| *own <= now);
    own.max(link.updated_at)
}

fn report(link: Link, status: Status, received: u64, detail: &str) -> Report {
    Report {
        reference: link.id,
        status,
        settlement: Settlement::Pending,
        received: Money {
            amount: received,
            currency: link.due.currency,
        },
        given_back: 0,
        detail: detail.into(),
        particulars: Particulars {
            provider_status: Some(link.status.as_str().to_owned()),
            ..Particulars::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::told;

    /// Expiry of the sample link.
    const END: u64 = 1_800_000_000_000;

    fn link(status: &str, updated: Option<&str>) -> Link {
        let mut told = told(status);
        if let Some(updated) = updated {
            told["updatedAt"] = updated.into();
        }
        wire::link(told.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_link_that_can_be_paid_or_may_have_been_is_never_over() {
        for status in ["active", "paymentPending"] {
            for purpose in [
                QueryPurpose::Capture,
                QueryPurpose::Sync,
                QueryPurpose::Cancel,
            ] {
                let report = of_link(link(status, None), purpose, END + UNDER_WAY_MS);
                assert_eq!(report.status, Status::Pending, "{status}");
            }
        }
        for purpose in [
            QueryPurpose::Capture,
            QueryPurpose::Sync,
            QueryPurpose::Cancel,
        ] {
            let report = of_link(link("expired", None), purpose, END + UNDER_WAY_MS - 1);
            assert_eq!(report.status, Status::Pending);
        }
    }

    #[test]
    fn a_link_is_over_once_no_payment_can_be_under_way() {
        let at = |now, updated| of_link(link("expired", updated), QueryPurpose::Sync, now).status;
        assert_eq!(at(END + UNDER_WAY_MS, None), Status::Expired);
        let closed = of_link(
            link("expired", None),
            QueryPurpose::Cancel,
            END + UNDER_WAY_MS,
        );
        assert_eq!(closed.status, Status::Declined);
        // Expired manually an hour early, at 07:00.
        let early = Some("2027-01-15T07:00:00Z");
        assert_eq!(at(END - 1, early), Status::Pending);
        // The link's own expiry has passed as well; the time of the status change may be later.
        assert_eq!(at(END, early), Status::Pending);
        let earlier = Some("2027-01-15T06:30:00Z");
        assert_eq!(at(END - 1, earlier), Status::Expired);
    }

    #[test]
    fn a_paid_links_own_word_is_taken_where_no_news_comes() {
        for (status, updated) in [("completed", None), ("paid", Some("2027-01-15T08:00:00Z"))] {
            let soon = of_link(link(status, updated), QueryPurpose::Sync, END + NEWS_MS - 1);
            assert_eq!((soon.status, soon.received.amount), (Status::Processing, 0));
            let late = of_link(link(status, updated), QueryPurpose::Sync, END + NEWS_MS);
            assert_eq!(
                (late.status, late.settlement, late.received.amount),
                (Status::Completed, Settlement::Confirmed, 4990)
            );
        }
    }
}
