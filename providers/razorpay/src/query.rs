//! Asking where a link stands, after doing what the host wishes.
use kassette_plugin::encode;
use kassette_plugin::json::object;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Attempt, QueryFailure, Report, Wish};
use kassette_plugin::settings;

use crate::api;
use crate::report::{self, has_failed, is_authorized};
use crate::start::LINKS;
use crate::wire::{self, Dispute, Link, Payment, Phase, Stage};

/// Setting: whether a link stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// Tries of one link that are read, the newest of them: the host allows 16 requests a call.
const MOST_TRIES: usize = 8;

/// What is done to a link before it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Capture,
    Cancel,
}

/// Finds the link, fulfils the wish, and tells.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    wish: Wish,
) -> Result<Report, QueryFailure> {
    let keep = settings::flag(&account.settings, KEEP_OPEN, false)
        .map_err(|refusal| QueryFailure::Unavailable(refusal.detail))?;
    let kept_open = keep && wish != Wish::Close;
    let mut link = match reference.filter(|reference| is_id(reference)) {
        Some(reference) => read(account, attempt, reference)?,
        None => find(account, attempt)?.ok_or(QueryFailure::Absent)?,
    };
    let mut payments = payments(account, &link)?;
    match needed(&link, &payments, wish, kept_open) {
        Some(Act::Cancel) => {
            link = cancel(account, attempt, &link)?;
            // What was paid just before the link was cancelled.
            payments = self::payments(account, &link)?;
        }
        Some(Act::Capture) => capture(account, attempt, &mut payments)?,
        None => {}
    }
    let disputes = disputes(account, &payments)?;
    report::report(&link, &payments, &disputes, kept_open)
        .ok_or_else(|| unavailable("declined but not yet cancelled, or paid without a payment"))
}

/// What the wish asks of a link that stands so. A payer whose try failed could still try again, so that
/// link is cancelled whatever the wish: then `declined` is certain. An authorisation cannot be given
/// back by a request; it runs out by itself.
fn needed(link: &Link, payments: &[Payment], wish: Wish, kept_open: bool) -> Option<Act> {
    if payments.iter().any(|payment| payment.captured) {
        return None;
    }
    if is_authorized(payments) {
        return (wish == Wish::Finish).then_some(Act::Capture);
    }
    let declined = has_failed(link) && !kept_open;
    (link.stage == Stage::Created && (declined || wish == Wish::Close)).then_some(Act::Cancel)
}

fn cancel(account: &Account, attempt: &Attempt, link: &Link) -> Result<Link, QueryFailure> {
    let answer = api::post(account, &format!("{LINKS}/{}/cancel", link.id), &object([]))?;
    match answer.status {
        200 => ours(attempt, wire::link(&answer.body)),
        // It has moved on meanwhile: what it is now is the answer.
        400 => read(account, attempt, &link.id),
        _ => Err(refused(&answer)),
    }
}

/// Captures what the payer approved: the whole of it, where it is what is due.
fn capture(
    account: &Account,
    attempt: &Attempt,
    payments: &mut [Payment],
) -> Result<(), QueryFailure> {
    let authorized = payments
        .iter_mut()
        .find(|payment| payment.phase == Phase::Authorized);
    let Some(payment) = authorized else {
        return Ok(());
    };
    if payment.money != attempt.due {
        return Err(unavailable("what was authorised is not what is due"));
    }
    let body = object([
        ("amount", payment.money.amount.into()),
        ("currency", payment.money.currency.as_str().into()),
    ]);
    let path = format!("/v1/payments/{}/capture", payment.id);
    let answer = api::post(account, &path, &body)?;
    *payment = match answer.status {
        200 => wire::payment(&answer.body).ok_or_else(unreadable)?,
        // Captured already, or given back: what it is now is the answer.
        400 => read_payment(account, &payment.id)?,
        _ => return Err(refused(&answer)),
    };
    Ok(())
}

/// Reads a link by its id.
fn read(account: &Account, attempt: &Attempt, id: &str) -> Result<Link, QueryFailure> {
    let answer = api::get(account, &format!("{LINKS}/{id}"))?;
    match answer.status {
        200 => ours(attempt, wire::link(&answer.body)),
        // Razorpay forgets no link, and says 400 of an id that it does not know: the key is of another
        // account, which proves nothing.
        _ => Err(refused(&answer)),
    }
}

/// Looks the attempt up by its id.
pub(crate) fn find(account: &Account, attempt: &Attempt) -> Result<Option<Link>, QueryFailure> {
    let query = encode::form(&[("reference_id", &attempt.id)]);
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

/// The link that a payment was made through; none where there is none.
pub(crate) fn link_of(account: &Account, payment: &str) -> Result<Option<Link>, QueryFailure> {
    let query = encode::form(&[("payment_id", payment)]);
    let answer = api::get(account, &format!("{LINKS}?{query}"))?;
    if answer.status != 200 {
        return Err(refused(&answer));
    }
    let links = wire::links(&answer.body).ok_or_else(unreadable)?;
    Ok(links.into_iter().next())
}

/// The tries that did not fail, each read whole: a link tells their state, but not what was refunded.
fn payments(account: &Account, link: &Link) -> Result<Vec<Payment>, QueryFailure> {
    let tries = link.tries.iter().rev();
    let alive = tries.filter(|(_, phase)| *phase != Phase::Failed);
    alive
        .take(MOST_TRIES)
        .map(|(id, _)| read_payment(account, id))
        .collect()
}

fn read_payment(account: &Account, id: &str) -> Result<Payment, QueryFailure> {
    if !is_id(id) {
        return Err(unreadable());
    }
    let answer = api::get(account, &format!("/v1/payments/{id}"))?;
    match answer.status {
        200 => wire::payment(&answer.body)
            .filter(|payment| payment.id == id)
            .ok_or_else(unreadable),
        _ => Err(refused(&answer)),
    }
}

/// What was disputed of a captured payment. A payment does not say it, and disputes are not searched by
/// payment: the newest hundred since it was made are read.
fn disputes(account: &Account, payments: &[Payment]) -> Result<Vec<Dispute>, QueryFailure> {
    let taken = payments.iter().filter(|payment| payment.captured);
    let Some(since) = taken.map(|payment| payment.created_at).min() else {
        return Ok(Vec::new());
    };
    let query = encode::form(&[("from", since.to_string().as_str()), ("count", "100")]);
    let answer = api::get(account, &format!("/v1/disputes?{query}"))?;
    if answer.status != 200 {
        return Err(refused(&answer));
    }
    wire::disputes(&answer.body, payments).ok_or_else(unreadable)
}

fn ours(attempt: &Attempt, link: Option<Link>) -> Result<Link, QueryFailure> {
    match link {
        Some(link) if link.attempt == attempt.id => Ok(link),
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

fn refused(answer: &Answer) -> QueryFailure {
    QueryFailure::Unavailable(wire::problem(answer).to_string())
}

fn unreadable() -> QueryFailure {
    unavailable("the answer cannot be read")
}

fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{paid, read, told};

    const WISHES: [Wish; 3] = [Wish::Finish, Wish::Look, Wish::Close];

    fn act(status: &str, tried: Option<&str>, payments: &[Payment], wish: Wish) -> Option<Act> {
        needed(&read(&told(status, tried)).unwrap(), payments, wish, false)
    }

    #[test]
    fn only_finish_captures_and_only_what_the_payer_approved() {
        let authorized = [paid("authorized", false, 0)];
        let act = |wish| act("created", Some("authorized"), &authorized, wish);
        assert_eq!(act(Wish::Finish), Some(Act::Capture));
        assert_eq!(act(Wish::Look), None);
        assert_eq!(act(Wish::Close), None);
    }

    #[test]
    fn look_leaves_open_what_could_still_be_paid_and_close_does_not() {
        assert_eq!(act("created", None, &[], Wish::Look), None);
        assert_eq!(act("created", None, &[], Wish::Finish), None);
        assert_eq!(act("created", None, &[], Wish::Close), Some(Act::Cancel));
    }

    #[test]
    fn a_decline_is_made_certain_unless_it_may_be_tried_again() {
        for wish in WISHES {
            let act = act("created", Some("failed"), &[], wish);
            assert_eq!(act, Some(Act::Cancel));
        }
        let link = read(&told("created", Some("failed"))).unwrap();
        assert_eq!(needed(&link, &[], Wish::Look, true), None);
    }

    #[test]
    fn what_is_paid_or_over_is_left_alone() {
        for wish in WISHES {
            let captured = [paid("captured", true, 0)];
            assert_eq!(act("paid", Some("captured"), &captured, wish), None);
            assert_eq!(act("cancelled", Some("failed"), &[], wish), None);
            assert_eq!(act("expired", None, &[], wish), None);
        }
    }
}
