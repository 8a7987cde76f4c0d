//! Querying a link, after capturing or cancelling as the host requests.
use kassette_plugin::encode;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Attempt, Dispute, QueryFailure, QueryPurpose, Report};
use kassette_plugin::settings;

use crate::api;
use crate::report::{self, Findings, is_authorized};
use crate::start::LINKS;
use crate::tries::{is_alive, was_given_back};
use crate::wire::{self, Link, Partly, Payment, Phase, Refunds, Stage};

pub(crate) const PAYMENTS: &str = "/v1/payments";
const ORDERS: &str = "/v1/orders";

/// Setting: whether a link stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// Limits that keep a call within the host's 16 requests: payments of a link without an order, captured payments
/// whose refunds are read, and pages of disputes.
const MOST_PAYMENTS: usize = 3;
pub(crate) const MOST_REFUNDED: usize = 2;
const MOST_PAGES: usize = 5;

/// Number of items per page.
pub(crate) const PAGE: usize = 100;

/// A change of a link before the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Cancel,
}

/// Finds the link, captures or cancels if the purpose requires this, and reports its status.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    // Not needed, because a link can always be found by the attempt's id.
    _: Option<&str>,
) -> Result<Report, QueryFailure> {
    let keep = settings::flag(&account.settings, KEEP_OPEN, true)
        .map_err(|refusal| QueryFailure::Unavailable(refusal.detail))?;
    let mut link = match reference.filter(|reference| is_id(reference)) {
        Some(reference) => read(account, &attempt.id, reference)?,
        None => find(account, &attempt.id)?.ok_or(QueryFailure::Absent)?,
    };
    let (mut tries, mut unreadable) = tries(account, &link)?;
    let mut refusal = None;
    match needed(&link, &tries, purpose, keep, account.now) {
        Some(Act::Cancel) => {
            link = cancel(account, attempt, &link)?;
            // There may be new tries from just before the cancellation.
            (tries, unreadable) = self::tries(account, &link)?;
        }
        Some(Act::Capture) => refusal = capture(account, attempt, &link, &mut tries)?,
        None => {}
    }
    let refunds = refunds(account, &tries, &mut unreadable)?;
    let disputes = disputes(account, &tries, &mut unreadable)?;
    let known = Findings {
        link: &link,
        tries: &tries,
        refunds: &refunds,
        disputes: &disputes,
        unreadable: &unreadable,
        now: account.now,
    };
    let mut report = report::report(&known).ok_or_else(|| {
        unavailable("the link's status is unknown, or it is paid and shows no payment")
    })?;
    // The reason why the payment is still only authorized.
    if let Some(refusal) = refusal.filter(|_| is_authorized(&tries)) {
        report.detail = format!("not captured: {refusal}");
        report.particulars.reason = Some(refusal);
    }
    Ok(report)
}

/// Change that the purpose requires in this state, or `None`. A link is cancelled only if that makes `declined`
/// final. While a try may still be authorized, the link stays open, so that the payer can at least continue there.
/// No request can cancel an authorization; it expires automatically, and so does the link.
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
        // The link has changed in the meantime: read its current state.
        400 => read(account, &attempt.id, &link.id),
        _ => Err(refused(&answer)),
    }
}

/// Captures the full authorized amount if it equals the amount due. Returns Razorpay's reason if Razorpay refused.
fn capture(
    account: &Account,
    attempt: &Attempt,
    link: &Link,
    tries: &mut [Payment],
) -> Result<Option<String>, QueryFailure> {
    let authorized = tries
        .iter_mut()
        .find(|each| each.phase == Phase::Authorized);
    let Some(payment) = authorized else {
        return Ok(None);
    };
    if report::own_money(link, payment) != attempt.due {
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
        // Captured already, refunded, or refused: read its current state.
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
        // Unknown to the key's account. Razorpay never deletes links.
        _ if wire::problem(&answer).is_unknown_id() => Err(QueryFailure::Absent),
        _ => Err(refused(&answer)),
    }
}

/// Searches for the link by the attempt's id. `None` if there is none.
pub(crate) fn find(account: &Account, attempt: &str) -> Result<Option<Link>, QueryFailure> {
    let query = encode::form(&[("reference_id", attempt)]);
    let answer = api::get(account, &format!("{LINKS}?{query}"))?;
    if answer.status != 200 {
        return Err(refused(&answer));
    }
    wire::link_in(&answer.body, attempt).map_err(|()| unreadable())
}

/// The attempt of an order. `None` if the account does not have this order, or it belongs to other software.
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

/// All tries to pay a link, newest first. A link lists only captured payments; its order, which exists once a
/// payer has opened the link, lists all of them.
pub(crate) fn tries(account: &Account, link: &Link) -> Result<Partly<Payment>, QueryFailure> {
    let (mut tries, unreadable) = match &link.order {
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
            (read.collect::<Result<_, _>>()?, Vec::new())
        }
    };
    // A payment that cannot be parsed may have been captured.
    let taken = tries.iter().any(|each: &Payment| each.captured);
    if let Some(why) = unreadable.first().filter(|_| !taken) {
        return Err(unavailable(why));
    }
    tries.sort_by_key(|each| std::cmp::Reverse(each.created_at));
    Ok((tries, unreadable))
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

/// The refunds of captured payments, including those whose `amount_refunded` is 0: a refund that failed after
/// being processed leaves that value.
fn refunds(
    account: &Account,
    tries: &[Payment],
    unreadable: &mut Vec<String>,
) -> Result<Vec<(String, Refunds)>, QueryFailure> {
    let taken = tries.iter().filter(|each| each.captured);
    let mut all = Vec::new();
    for payment in taken.take(MOST_REFUNDED) {
        let answer = ask_refunds(account, &payment.id)?;
        let read = |body: &[u8]| wire::refunds(body, PAGE);
        if let Some(refunds) = read_part(&answer, "refunds", unreadable, read)? {
            unreadable.extend_from_slice(&refunds.unreadable);
            all.push((payment.id.clone(), refunds));
        }
    }
    Ok(all)
}

/// The newest refunds of a payment, at most one page.
pub(crate) fn refunds_of(account: &Account, payment: &str) -> Result<Refunds, QueryFailure> {
    let answer = ask_refunds(account, payment)?;
    match answer.status {
        200 => wire::refunds(&answer.body, PAGE).ok_or_else(unreadable),
        _ => Err(refused(&answer)),
    }
}

fn ask_refunds(account: &Account, payment: &str) -> Result<Answer, QueryFailure> {
    let path = format!("{PAYMENTS}/{payment}/refunds?count={PAGE}");
    Ok(api::get(account, &path)?)
}

/// Parses an optional part of the report. `None`, with a sentence in `unreadable`, if Razorpay refuses it or it is
/// malformed; an error if it is temporarily unavailable.
fn read_part<T>(
    answer: &Answer,
    part: &str,
    unreadable: &mut Vec<String>,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<Option<T>, QueryFailure> {
    let why = match answer.status {
        200 => match read(&answer.body) {
            Some(part) => return Ok(Some(part)),
            None => "cannot be read".to_owned(),
        },
        400 | 403 | 404 => wire::problem(answer).to_string(),
        _ => return Err(refused(answer)),
    };
    unreadable.push(format!("{part}: {why}"));
    Ok(None)
}

/// Disputes about captured payments. A payment does not contain them, and they cannot be searched by payment, so
/// the newest disputes since the payment are read page by page.
fn disputes(
    account: &Account,
    tries: &[Payment],
    unreadable: &mut Vec<String>,
) -> Result<Vec<Dispute>, QueryFailure> {
    let taken = tries.iter().filter(|each| each.captured);
    let Some(since) = taken.map(|each| each.created_at.unwrap_or(0)).min() else {
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
        let read = read_part(&answer, "disputes", unreadable, |body| {
            wire::disputes(body, tries)
        })?;
        let Some(((found, unread), read)) = read else {
            break;
        };
        disputes.extend(found);
        unreadable.extend(unread);
        if read < PAGE {
            break;
        }
    }
    Ok(disputes)
}

/// Checks that an answer is about the attempt's link. It may omit the attempt's id.
fn ours(attempt: &str, link: Option<Link>) -> Result<Link, QueryFailure> {
    match link {
        Some(link) if link.attempt.is_empty() || link.attempt == attempt => Ok(link),
        Some(link) => Err(unavailable(&format!(
            "{} belongs to another attempt",
            link.id
        ))),
        None => Err(unreadable()),
    }
}

/// Whether a reference has the form of Razorpay's ids, which need no escaping in a path.
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
    /// A minute after the start of the tries.
    const SOON: u64 = (BEGAN + 60) * 1_000;
    /// A time when all tries are final.
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
