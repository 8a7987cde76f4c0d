//! Asking where a link stands, after doing what the host asks for.
use kassette_plugin::encode;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Attempt, QueryFailure, QueryPurpose, Refund, Report};
use kassette_plugin::settings;

use crate::api;
use crate::report::{self, Findings, is_authorized};
use crate::start::LINKS;
use crate::tries::{is_alive, was_given_back};
use crate::wire::{self, Link, Objection, Payment, Phase, Stage};

pub(crate) const PAYMENTS: &str = "/v1/payments";
const ORDERS: &str = "/v1/orders";

/// Setting: whether a link stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// The host allows 16 requests a call. Of a link that shows payments without an order so many are read,
/// of captured payments the refunds of so many, and so many pages of disputes.
const MOST_PAYMENTS: usize = 3;
pub(crate) const MOST_REFUNDED: usize = 2;
const MOST_PAGES: usize = 5;

/// Items of a page.
pub(crate) const PAGE: usize = 100;

/// What is done to a link before it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Cancel,
}

/// Finds the link, fulfils the purpose, and tells.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // A link is always found by the attempt's id, so the payer's word is not needed.
    _: Option<&str>,
) -> Result<Report, QueryFailure> {
    let keep = settings::flag(&account.settings, KEEP_OPEN, true)
        .map_err(|refusal| QueryFailure::Unavailable(refusal.detail))?;
    let mut link = match reference.filter(|reference| is_id(reference)) {
        Some(reference) => read(account, &attempt.id, reference)?,
        None => find(account, &attempt.id)?.ok_or(QueryFailure::Absent)?,
    };
    let mut tries = tries(account, &link)?;
    let mut refusal = None;
    match needed(&link, &tries, purpose, keep, account.now) {
        Some(Act::Cancel) => {
            link = cancel(account, attempt, &link)?;
            // What was tried just before the link was cancelled.
            tries = self::tries(account, &link)?;
        }
        Some(Act::Capture) => refusal = capture(account, attempt, &mut tries)?,
        None => {}
    }
    let refunds = refunds(account, &tries)?;
    let disputes = disputes(account, &tries)?;
    let known = Findings {
        link: &link,
        tries: &tries,
        refunds: &refunds,
        disputes: &disputes,
        now: account.now,
    };
    let mut report = report::report(&known).ok_or_else(|| unavailable("paid without a payment"))?;
    // Why an authorisation that could not be captured is one still.
    if let Some(refusal) = refusal.filter(|_| is_authorized(&tries)) {
        report.detail = format!("not captured: {refusal}");
        report.particulars.reason = Some(refusal);
    }
    Ok(report)
}

/// What the purpose asks of a link that stands so. It is cancelled only where that makes `declined` certain:
/// as long as a try may still be authorised, a payer who finds the link open can at least go on there. An
/// authorisation cannot be given back by a request; it runs out by itself, and the link with it.
fn needed(
    link: &Link,
    tries: &[Payment],
    purpose: QueryPurpose,
    keep: bool,
    now: u64,
) -> Option<Act> {
    if tries.iter().any(|each| each.captured) {
        return None;
    }
    if is_authorized(tries) {
        return (purpose == QueryPurpose::Capture).then_some(Act::Capture);
    }
    let certain = !tries.iter().any(|each| is_alive(each, now));
    let unwanted = purpose == QueryPurpose::Cancel
        || tries.iter().any(was_given_back)
        || (!keep && !tries.is_empty());
    (link.stage == Stage::Created && certain && unwanted).then_some(Act::Cancel)
}

fn cancel(account: &Account, attempt: &Attempt, link: &Link) -> Result<Link, QueryFailure> {
    let answer = api::post(account, &format!("{LINKS}/{}/cancel", link.id), &object([]))?;
    match answer.status {
        200 => ours(&attempt.id, wire::link(&answer.body)),
        // It has moved on meanwhile: what it is now is the answer.
        400 => read(account, &attempt.id, &link.id),
        _ => Err(refused(&answer)),
    }
}

/// Captures what the payer approved: the whole of it, where it is what is due. Razorpay's reason where it
/// refused.
fn capture(
    account: &Account,
    attempt: &Attempt,
    tries: &mut [Payment],
) -> Result<Option<String>, QueryFailure> {
    let authorized = tries
        .iter_mut()
        .find(|each| each.phase == Phase::Authorized);
    let Some(payment) = authorized else {
        return Ok(None);
    };
    if payment.money != attempt.due {
        return Err(unavailable("what was authorised is not what is due"));
    }
    let body = object([
        ("amount", payment.money.amount.into()),
        ("currency", payment.money.currency.as_str().into()),
    ]);
    let path = format!("{PAYMENTS}/{}/capture", payment.id);
    let answer = api::post(account, &path, &body)?;
    match answer.status {
        200 => {
            *payment = wire::payment(&answer.body).ok_or_else(unreadable)?;
            Ok(None)
        }
        // Captured already, given back, or refused: what it is now is the answer.
        400 => {
            *payment = read_payment(account, &payment.id)?;
            let problem = wire::problem(&answer);
            let words = [problem.reason, problem.code];
            Ok(words.into_iter().find(|word| !word.is_empty()))
        }
        _ => Err(refused(&answer)),
    }
}

pub(crate) fn read(account: &Account, attempt: &str, id: &str) -> Result<Link, QueryFailure> {
    let answer = api::get(account, &format!("{LINKS}/{id}"))?;
    match answer.status {
        200 => ours(attempt, wire::link(&answer.body)),
        // Not known to the key's account. Razorpay itself forgets no link.
        _ if wire::problem(&answer).is_unknown_id() => Err(QueryFailure::Absent),
        _ => Err(refused(&answer)),
    }
}

/// Looks the attempt up by its id.
pub(crate) fn find(account: &Account, attempt: &str) -> Result<Option<Link>, QueryFailure> {
    let query = encode::form(&[("reference_id", attempt)]);
    let answer = api::get(account, &format!("{LINKS}?{query}"))?;
    if answer.status != 200 {
        return Err(refused(&answer));
    }
    let links = wire::links(&answer.body).ok_or_else(unreadable)?;
    match links.into_iter().next() {
        Some(link) => ours(attempt, Some(link)).map(Some),
        None => Ok(None),
    }
}

/// The attempt of which an order collects the tries; none where the account has no such order, or it is
/// none of ours.
pub(crate) fn attempt_of(account: &Account, order: &str) -> Result<Option<String>, QueryFailure> {
    let answer = api::get(account, &format!("{ORDERS}/{order}"))?;
    match answer.status {
        200 => {
            let order: Json = answer.json().ok_or_else(unreadable)?;
            Ok(wire::attempt_of(&order))
        }
        _ if wire::problem(&answer).is_unknown_id() => Ok(None),
        _ => Err(refused(&answer)),
    }
}

/// Every try to pay a link, the newest first. The link itself shows captured payments alone; its order,
/// which is there as soon as a payer has opened the link, knows all of them.
pub(crate) fn tries(account: &Account, link: &Link) -> Result<Vec<Payment>, QueryFailure> {
    let mut tries = match &link.order {
        Some(order) if is_id(order) => {
            let answer = api::get(account, &format!("{ORDERS}/{order}/payments"))?;
            if answer.status != 200 {
                return Err(refused(&answer));
            }
            wire::payments(&answer.body).ok_or_else(unreadable)?
        }
        Some(_) => return Err(unreadable()),
        None => {
            let shown = link.paid.iter().take(MOST_PAYMENTS);
            let read = shown.map(|id| read_payment(account, id));
            read.collect::<Result<_, _>>()?
        }
    };
    tries.sort_by_key(|each| std::cmp::Reverse(each.created_at));
    Ok(tries)
}

fn read_payment(account: &Account, id: &str) -> Result<Payment, QueryFailure> {
    if !is_id(id) {
        return Err(unreadable());
    }
    let answer = api::get(account, &format!("{PAYMENTS}/{id}"))?;
    match answer.status {
        200 => wire::payment(&answer.body)
            .filter(|payment| payment.id == id)
            .ok_or_else(unreadable),
        _ => Err(refused(&answer)),
    }
}

/// The refunds of captured payments of which something was refunded. One that has more of them than are
/// read at once is left out: then Razorpay's own sum counts.
fn refunds(
    account: &Account,
    tries: &[Payment],
) -> Result<Vec<(String, Vec<Refund>)>, QueryFailure> {
    let refunded = tries
        .iter()
        .filter(|each| each.captured && each.refunded > 0);
    let mut all = Vec::new();
    for payment in refunded.take(MOST_REFUNDED) {
        let refunds = refunds_of(account, &payment.id)?;
        if refunds.len() < PAGE {
            all.push((payment.id.clone(), refunds));
        }
    }
    Ok(all)
}

/// The newest refunds of a payment, a page of them.
pub(crate) fn refunds_of(account: &Account, payment: &str) -> Result<Vec<Refund>, QueryFailure> {
    let path = format!("{PAYMENTS}/{payment}/refunds?count={PAGE}");
    let answer = api::get(account, &path)?;
    match answer.status {
        200 => wire::refunds(&answer.body).ok_or_else(unreadable),
        _ => Err(refused(&answer)),
    }
}

/// What was disputed of captured payments. A payment does not say it, and disputes are not searched by
/// payment: the newest of those since it was made are read, page by page.
fn disputes(account: &Account, tries: &[Payment]) -> Result<Vec<Objection>, QueryFailure> {
    let taken = tries.iter().filter(|each| each.captured);
    let Some(since) = taken.map(|each| each.created_at).min() else {
        return Ok(Vec::new());
    };
    let (since, count) = (since.to_string(), PAGE.to_string());
    let mut disputes = Vec::new();
    for page in 0..MOST_PAGES {
        let skip = (page * PAGE).to_string();
        let mut query = vec![("from", since.as_str()), ("count", count.as_str())];
        if page > 0 {
            query.push(("skip", skip.as_str()));
        }
        let answer = api::get(account, &format!("/v1/disputes?{}", encode::form(&query)))?;
        if answer.status != 200 {
            return Err(refused(&answer));
        }
        let (found, read) = wire::disputes(&answer.body, tries).ok_or_else(unreadable)?;
        disputes.extend(found);
        if read < PAGE {
            break;
        }
    }
    Ok(disputes)
}

fn ours(attempt: &str, link: Option<Link>) -> Result<Link, QueryFailure> {
    match link {
        Some(link) if link.attempt == attempt => Ok(link),
        Some(link) => Err(unavailable(&format!(
            "{} belongs to another attempt",
            link.id
        ))),
        None => Err(unreadable()),
    }
}

/// The vendor's ids need no escaping in a path; anything else is not one.
pub(crate) fn is_id(reference: &str) -> bool {
    !reference.is_empty()
        && reference
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

pub(crate) fn refused(answer: &Answer) -> QueryFailure {
    QueryFailure::Unavailable(wire::problem(answer).to_string())
}

pub(crate) fn unreadable() -> QueryFailure {
    unavailable("the answer cannot be read")
}

pub(crate) fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{BEGAN, failed, paid, read, told};

    const PURPOSES: [QueryPurpose; 3] = [
        QueryPurpose::Capture,
        QueryPurpose::Sync,
        QueryPurpose::Cancel,
    ];
    /// A minute after the tries began.
    const SOON: u64 = (BEGAN + 60) * 1_000;
    /// When no try can bring money any more.
    const LATER: u64 = (BEGAN + 6 * 24 * 3_600) * 1_000;

    fn act(status: &str, tries: &[Payment], purpose: QueryPurpose, now: u64) -> Option<Act> {
        needed(&read(&told(status)).unwrap(), tries, purpose, true, now)
    }

    #[test]
    fn only_capture_captures_and_only_what_the_payer_approved() {
        let authorized = [failed("incorrect_pin"), paid("authorized", false, 0)];
        let act = |purpose| act("created", &authorized, purpose, SOON);
        assert_eq!(act(QueryPurpose::Capture), Some(Act::Capture));
        assert_eq!(act(QueryPurpose::Sync), None);
        assert_eq!(act(QueryPurpose::Cancel), None);
    }

    #[test]
    fn sync_leaves_open_what_could_still_be_paid_and_cancel_does_not() {
        assert_eq!(act("created", &[], QueryPurpose::Sync, SOON), None);
        assert_eq!(act("created", &[], QueryPurpose::Capture, SOON), None);
        let cancelled = act("created", &[], QueryPurpose::Cancel, SOON);
        assert_eq!(cancelled, Some(Act::Cancel));
    }

    #[test]
    fn a_link_is_left_open_while_cancelling_it_would_prove_nothing() {
        for tried in [failed("payment_timed_out"), paid("created", false, 0)] {
            let tried = [tried];
            for purpose in PURPOSES {
                assert_eq!(act("created", &tried, purpose, SOON), None, "{tried:?}");
            }
            assert_eq!(
                act("created", &tried, QueryPurpose::Cancel, LATER),
                Some(Act::Cancel)
            );
            assert_eq!(act("created", &tried, QueryPurpose::Sync, LATER), None);
        }
    }

    #[test]
    fn a_decline_closes_the_link_where_the_operator_wants_that_and_it_is_certain() {
        let link = read(&told("created")).unwrap();
        let declined = [failed("insufficient_funds")];
        let act = |now| needed(&link, &declined, QueryPurpose::Sync, false, now);
        assert_eq!(act(SOON), None);
        assert_eq!(act(LATER), Some(Act::Cancel));
    }

    #[test]
    fn an_authorisation_that_razorpay_gave_back_ends_the_link() {
        let given_back = [paid("refunded", false, 4990)];
        for purpose in PURPOSES {
            let act = act("created", &given_back, purpose, LATER);
            assert_eq!(act, Some(Act::Cancel));
        }
    }

    #[test]
    fn what_is_paid_or_over_is_left_alone() {
        for purpose in PURPOSES {
            let captured = [paid("captured", true, 0)];
            assert_eq!(act("paid", &captured, purpose, LATER), None);
            let declined = [failed("insufficient_funds")];
            assert_eq!(act("cancelled", &declined, purpose, LATER), None);
            assert_eq!(act("expired", &[], purpose, LATER), None);
        }
    }
}
