//! Querying a session, after capturing, cancelling or expiring it as the host requests.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Attempt, Dispute, QueryFailure, QueryPurpose, Report};
use kassette_plugin::settings;

use crate::api;
use crate::charge;
use crate::report;
use crate::start::{self, LEFT, LONGER_MS, SESSIONS, Uncreated};
use crate::wire::{self, Payment, Phase, Session, Stage};

/// Setting: whether a session stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// Expands a session's payment with its review and its charge, and the charge with its refunds and balance
/// transaction.
const EXPAND: [(&str, &str); 3] = [
    (
        "expand[0]",
        "payment_intent.latest_charge.balance_transaction",
    ),
    ("expand[1]", "payment_intent.latest_charge.refunds"),
    ("expand[2]", "payment_intent.review"),
];

/// The same for an answer that contains the payment itself.
const EXPAND_PAYMENT: [(&str, &str); 3] = [
    ("expand[0]", "latest_charge.balance_transaction"),
    ("expand[1]", "latest_charge.refunds"),
    ("expand[2]", "review"),
];

/// Maximum number of pages with 100 sessions in a search, so that a call stays within the host's 16 requests.
const MOST_PAGES: usize = 10;

/// Maximum lifetime of a session, and minimum lifetime of an idempotency key.
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// A change of a session before the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Captures an authorization.
    Capture,
    /// Cancels an authorization.
    Void,
    /// Expires the session and its page.
    Expire,
}

/// Finds the session, changes it if the purpose requires this, and reports its status.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    return_query: Option<&str>,
) -> Result<Report, QueryFailure> {
    let keep = settings::flag(&account.settings, KEEP_OPEN, true)
        .map_err(|refusal| QueryFailure::Unavailable(refusal.detail))?;
    // A payer on Stripe's page may try again. A payer who left it chose not to.
    let kept_open = keep && !has_left(return_query) && purpose != QueryPurpose::Cancel;
    let mut session = match reference.filter(|reference| is_id(reference)) {
        Some(reference) => read(account, attempt, reference)?,
        None => locate(account, attempt, purpose)?,
    };
    let mut refusal = None;
    if let Some(act) = needed(&session, purpose, kept_open) {
        (session, refusal) = perform(account, attempt, session, act)?;
    }
    let mut disputes = Vec::new();
    if let Some(payment) = &mut session.payment {
        all_refunds(account, payment)?;
        if may_be_disputed(payment) {
            disputes = self::disputes(account, payment)?;
        }
        if payment.received.amount > 0 && attempt.method == "credit_card" {
            payment.fraud_warning = fraud_warning(account, payment);
        }
    }
    let mut report = report::report(&session, &disputes, kept_open, account.now)
        .ok_or_else(|| unavailable("declined but not yet closed, or of an unknown status"))?;
    // The reason why the payment is still only authorized.
    if let Some(refusal) = refusal.filter(|_| is_authorised(&session)) {
        report.detail = format!("not captured: {refusal}");
        report.particulars.reason = Some(refusal);
    }
    Ok(report)
}

/// Whether the payer returned by the cancel address. The host stores this with the attempt, so it also applies to
/// a payer who continued on Stripe's page afterwards: the next refusal closes the session. This costs a new start,
/// but never causes a second payment.
fn has_left(return_query: Option<&str>) -> bool {
    return_query.is_some_and(|query| query.split('&').any(|pair| pair == LEFT))
}

fn is_authorised(session: &Session) -> bool {
    let payment = session.payment.as_ref();
    payment.is_some_and(|payment| payment.phase == Phase::RequiresCapture)
}

/// Whether the charge is disputed, or cannot be read although money was received.
fn may_be_disputed(payment: &Payment) -> bool {
    let taken = payment.received.amount > 0;
    let charge = payment.charge.as_ref();
    charge.map_or(taken, |charge| charge.disputed)
}

/// Change that the purpose requires in this state, or `None`. After a decline the payer could come back and pay,
/// so unless `kept_open`, the session is closed for every purpose, which makes `declined` final.
fn needed(session: &Session, purpose: QueryPurpose, kept_open: bool) -> Option<Act> {
    let payment = session.payment.as_ref();
    let phase = payment.map(|payment| payment.phase);
    let declined = phase == Some(Phase::RequiresPaymentMethod)
        && payment.is_some_and(|payment| payment.failed.is_some());
    match (phase, session.stage, purpose) {
        // Only if the authorized amount equals the amount due.
        (Some(Phase::RequiresCapture), _, QueryPurpose::Capture) => {
            let whole = payment.is_some_and(|payment| payment.capturable == session.due.amount);
            whole.then_some(Act::Capture)
        }
        (Some(Phase::RequiresCapture), _, QueryPurpose::Cancel) => Some(Act::Void),
        (Some(Phase::Succeeded | Phase::Processing), ..) => None,
        (_, Stage::Open, QueryPurpose::Cancel) => Some(Act::Expire),
        (_, Stage::Open, _) if declined && !kept_open => Some(Act::Expire),
        _ => None,
    }
}

/// Executes a change. Returns the session after it, and Stripe's error code if Stripe refused it.
fn perform(
    account: &Account,
    attempt: &Attempt,
    session: Session,
    act: Act,
) -> Result<(Session, Option<String>), QueryFailure> {
    let answer = match (act, &session.payment) {
        (Act::Expire, _) => {
            let path = format!("{SESSIONS}/{}/expire", session.id);
            let key = format!("{}-expire", attempt.id);
            api::change(account, &path, &key, &EXPAND)?
        }
        (Act::Capture, Some(payment)) => {
            if session.due != attempt.due {
                return Err(unavailable("what was authorised is not what is due"));
            }
            let amount = payment.capturable.to_string();
            change_payment(
                account,
                attempt,
                payment,
                "capture",
                &[("amount_to_capture", &amount)],
            )?
        }
        (Act::Void, Some(payment)) => {
            let reason = [("cancellation_reason", "abandoned")];
            change_payment(account, attempt, payment, "cancel", &reason)?
        }
        (Act::Capture | Act::Void, None) => return Ok((session, None)),
    };
    match (answer.status, act) {
        (200, Act::Expire) => {
            let session = ours(account, attempt, wire::session(&answer.body))?;
            Ok((session, None))
        }
        (200, _) => {
            let payment = wire::payment(&answer.body).ok_or_else(unreadable)?;
            let session = Session {
                payment: Some(payment),
                ..session
            };
            Ok((session, None))
        }
        // The payment has changed in the meantime, or the change is impossible: read the current state.
        (400 | 402 | 409, _) => {
            let problem = wire::problem(&answer);
            let code = [problem.code, problem.kind]
                .into_iter()
                .find(|word| !word.is_empty());
            Ok((read(account, attempt, &session.id)?, code))
        }
        _ => Err(refused(&answer)),
    }
}

fn change_payment(
    account: &Account,
    attempt: &Attempt,
    payment: &Payment,
    operation: &str,
    fields: &[(&str, &str)],
) -> Result<Answer, QueryFailure> {
    let path = format!("/v1/payment_intents/{}/{operation}", payment.id);
    let key = format!("{}-{operation}", attempt.id);
    let fields = [fields, &EXPAND_PAYMENT].concat();
    Ok(api::change(account, &path, &key, &fields)?)
}

/// Reads a session by its id.
pub(crate) fn read(
    account: &Account,
    attempt: &Attempt,
    id: &str,
) -> Result<Session, QueryFailure> {
    let path = format!("{SESSIONS}/{id}?{}", encode::form(&EXPAND));
    let answer = api::get(account, &path)?;
    match answer.status {
        200 => ours(account, attempt, wire::session(&answer.body)),
        // Unknown to the key's account. Stripe never deletes sessions.
        404 if wire::problem(&answer).code == "resource_missing" => Err(QueryFailure::Absent),
        _ => Err(refused(&answer)),
    }
}

/// Finds a session whose id is unknown. Repeating the creation under its key is reliable and cheap, but creates a
/// session if none exists, so `Sync` only uses it when `LONGER_MS` have passed after the attempt's expiry: then
/// Stripe refuses the `expires_at`, and no session can be created.
fn locate(
    account: &Account,
    attempt: &Attempt,
    purpose: QueryPurpose,
) -> Result<Session, QueryFailure> {
    let could_create = account.now < attempt.expires.saturating_add(LONGER_MS);
    if purpose != QueryPurpose::Sync || !could_create {
        match start::create(account, attempt) {
            Ok(created) if created.replayed => return read(account, attempt, &created.session.id),
            Ok(created) => return ours(account, attempt, Some(created.session)),
            // Stripe stores a key for at least a day, and a session ends at most a day after its creation. So
            // until the attempt's expiry, no session under the key means that no session exists.
            Err(Uncreated::Nothing(problem))
                if problem.status == 400 && account.now <= attempt.expires =>
            {
                return Err(QueryFailure::Absent);
            }
            Err(Uncreated::Nothing(problem)) if problem.status != 400 => {
                return Err(QueryFailure::Unavailable(problem.to_string()));
            }
            Err(Uncreated::NotSent(why)) => return Err(QueryFailure::Unavailable(why)),
            // Stripe stores a 500 permanently under its key, so search the list.
            Err(Uncreated::Nothing(_) | Uncreated::Differs | Uncreated::Unknown(_)) => {}
        }
    }
    list(account, attempt)?.ok_or(QueryFailure::Absent)
}

/// Searches the sessions that can belong to this attempt, newest first; Stripe cannot search by merchant
/// reference. `None` if all were read without finding it.
pub(crate) fn list(account: &Account, attempt: &Attempt) -> Result<Option<Session>, QueryFailure> {
    let ends = attempt.expires / 1_000;
    let (from, to) = (
        ends.saturating_sub(DAY_SECONDS).to_string(),
        ends.to_string(),
    );
    let mut after = String::new();
    for _ in 0..MOST_PAGES {
        let mut query = vec![
            ("limit", "100"),
            ("created[gte]", from.as_str()),
            ("created[lte]", to.as_str()),
        ];
        if !after.is_empty() {
            query.push(("starting_after", after.as_str()));
        }
        let path = format!("{SESSIONS}?{}", encode::form(&query));
        let answer = api::get(account, &path)?;
        if answer.status != 200 {
            return Err(refused(&answer));
        }
        let (page, more) = wire::listed(&answer.body).ok_or_else(unreadable)?;
        let found = page.iter().find(|(_, of)| of.as_ref() == Some(&attempt.id));
        if let Some((id, _)) = found {
            return read(account, attempt, id).map(Some);
        }
        match page.last() {
            Some((last, _)) if more => after.clone_from(last),
            _ => return Ok(None),
        }
    }
    Err(unavailable("too many sessions to look through"))
}

/// Reads all refunds if the charge, which lists ten, does not contain all.
fn all_refunds(account: &Account, payment: &mut Payment) -> Result<(), QueryFailure> {
    let unread = payment
        .charge
        .as_ref()
        .is_some_and(|charge| charge.more_refunds);
    if !unread {
        return Ok(());
    }
    let query = [("payment_intent", payment.id.as_str()), ("limit", "100")];
    let answer = api::get(account, &format!("/v1/refunds?{}", encode::form(&query)))?;
    let mut unreadable = Vec::new();
    let list = part(&answer, "refunds", &mut unreadable)?;
    if let (Some(list), Some(charge)) = (list, &mut payment.charge) {
        // This list includes the charge's refunds.
        payment.unreadable.clear();
        (charge.refunds, charge.all_refunds) = charge::refunds(&list, &mut unreadable);
    }
    payment.unreadable.append(&mut unreadable);
    Ok(())
}

fn disputes(account: &Account, payment: &mut Payment) -> Result<Vec<Dispute>, QueryFailure> {
    let query = [("payment_intent", payment.id.as_str()), ("limit", "100")];
    let answer = api::get(account, &format!("/v1/disputes?{}", encode::form(&query)))?;
    let unreadable = &mut payment.unreadable;
    let Some(list) = part(&answer, "disputes", unreadable)? else {
        return Ok(Vec::new());
    };
    Ok(charge::disputes(&list, &payment.received, unreadable))
}

/// The card network's early fraud warning, such as `made_with_stolen_card`. It does not affect the payment's
/// status, so every failure, such as a key without access, results in `None`.
fn fraud_warning(account: &Account, payment: &Payment) -> Option<String> {
    let query = [("payment_intent", payment.id.as_str()), ("limit", "1")];
    let path = format!("/v1/radar/early_fraud_warnings?{}", encode::form(&query));
    let answer = api::get(account, &path).ok()?;
    let list = answer.json().filter(|_| answer.is_success())?;
    let (warnings, _) = wire::list_of(&list)?;
    let kind = wire::code(warnings.first()?, "fraud_type");
    Some(kind.unwrap_or_else(|| "early_fraud_warning".into()))
}

/// An optional part of the report. `None`, with a sentence in `unreadable`, if Stripe refuses it or it is
/// malformed; an error if it is temporarily unavailable.
fn part(
    answer: &Answer,
    part: &str,
    unreadable: &mut Vec<String>,
) -> Result<Option<Json>, QueryFailure> {
    let why = match answer.status {
        200 => match answer.json().filter(|list| wire::list_of(list).is_some()) {
            Some(list) => return Ok(Some(list)),
            None => "cannot be read".to_owned(),
        },
        400 | 403 | 404 => wire::problem(answer).to_string(),
        _ => return Err(refused(answer)),
    };
    unreadable.push(format!("{part}: {why}"));
    Ok(None)
}

fn ours(
    account: &Account,
    attempt: &Attempt,
    session: Option<Session>,
) -> Result<Session, QueryFailure> {
    let session = session.ok_or_else(unreadable)?;
    // The answer about a session may omit the attempt's id.
    let named_other = session.attempt.as_ref().is_some_and(|of| *of != attempt.id);
    if !named_other && !session.is_of_other_environment(account.environment) {
        return Ok(session);
    }
    Err(unavailable(&format!(
        "{} belongs to another attempt or environment",
        session.id
    )))
}

/// Whether a reference has the form of Stripe's ids, which need no escaping in a path.
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
    use crate::wire::tests::{authorised, paid, paying, read, told};
    use serde_json::{Value, json};

    const PURPOSES: [QueryPurpose; 3] = [
        QueryPurpose::Capture,
        QueryPurpose::Sync,
        QueryPurpose::Cancel,
    ];

    fn act(told: &Value, purpose: QueryPurpose) -> Option<Act> {
        needed(&read(told).unwrap(), purpose, false)
    }

    fn declined() -> Value {
        let mut told = paying("open", "requires_payment_method");
        told["payment_intent"]["last_payment_error"] = json!({ "code": "card_declined" });
        told
    }

    #[test]
    fn only_capture_captures_and_only_what_the_payer_approved() {
        let authorised = authorised();
        assert_eq!(act(&authorised, QueryPurpose::Capture), Some(Act::Capture));
        assert_eq!(act(&authorised, QueryPurpose::Sync), None);
        assert_eq!(act(&authorised, QueryPurpose::Cancel), Some(Act::Void));
        let mut less = authorised;
        less["payment_intent"]["amount_capturable"] = json!(4989);
        assert_eq!(act(&less, QueryPurpose::Capture), None);
        for other in [told("open"), paid(), paying("complete", "processing")] {
            assert_eq!(act(&other, QueryPurpose::Capture), None, "{other}");
        }
    }

    #[test]
    fn sync_leaves_open_what_an_undeclined_payer_could_still_pay() {
        for told in [told("open"), paying("open", "requires_action")] {
            assert_eq!(act(&told, QueryPurpose::Sync), None);
            assert_eq!(act(&told, QueryPurpose::Cancel), Some(Act::Expire));
        }
    }

    #[test]
    fn a_decline_is_made_certain_unless_it_may_be_tried_again() {
        for purpose in PURPOSES {
            assert_eq!(act(&declined(), purpose), Some(Act::Expire));
        }
        let session = read(&declined()).unwrap();
        assert_eq!(needed(&session, QueryPurpose::Sync, true), None);
    }

    #[test]
    fn cancel_leaves_alone_what_is_paid_or_over() {
        for told in [
            paid(),
            told("expired"),
            paying("complete", "canceled"),
            paying("complete", "requires_payment_method"),
            paying("complete", "processing"),
        ] {
            assert_eq!(act(&told, QueryPurpose::Cancel), None, "{told}");
        }
    }

    #[test]
    fn only_the_address_for_those_who_give_up_says_that_the_payer_left() {
        assert!(has_left(Some("cancel=1&left=stripe")));
        for other in [None, Some(""), Some("cancel=1"), Some("x=left=stripe")] {
            assert!(!has_left(other), "{other:?}");
        }
    }

    #[test]
    fn a_reference_that_could_change_the_path_is_not_used() {
        assert!(is_id("cs_test_a1B2"));
        for odd in ["", "a/b", "a?b", "..", "a%2fb"] {
            assert!(!is_id(odd), "{odd}");
        }
    }
}
