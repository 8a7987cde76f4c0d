//! Asking where a session stands, after doing what the host asks for.
use kassette_plugin::encode;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Attempt, Dispute, Environment, QueryFailure, QueryPurpose, Report,
};
use kassette_plugin::settings;

use crate::api;
use crate::charge::{self, Charge};
use crate::report;
use crate::start::{self, LEFT, LONGER_MS, SESSIONS, Uncreated};
use crate::wire::{self, Payment, Phase, Session, Stage};

/// Setting: whether a session stays open after a decline.
pub(crate) const KEEP_OPEN: &str = "keep-open-after-decline";

/// A session's payment comes along with its review and its charge, and that with its refunds and with
/// what it did to the merchant's balance.
const EXPAND: [(&str, &str); 3] = [
    (
        "expand[0]",
        "payment_intent.latest_charge.balance_transaction",
    ),
    ("expand[1]", "payment_intent.latest_charge.refunds"),
    ("expand[2]", "payment_intent.review"),
];

/// The same for an answer that is the payment itself.
const EXPAND_PAYMENT: [(&str, &str); 3] = [
    ("expand[0]", "latest_charge.balance_transaction"),
    ("expand[1]", "latest_charge.refunds"),
    ("expand[2]", "review"),
];

/// Pages of 100 sessions that a search reads. With what else a call asks for it stays within the
/// host's 16 requests.
const MOST_PAGES: usize = 10;

/// Sessions live, and keys are kept, for a day.
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// What is done to a session before it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Takes an authorisation.
    Capture,
    /// Gives it back.
    Void,
    /// Closes Stripe's page.
    Expire,
}

/// Finds the session, fulfils the purpose, and tells.
pub(crate) fn query(
    account: &Account,
    attempt: &Attempt,
    reference: Option<&str>,
    purpose: QueryPurpose,
    return_query: Option<&str>,
) -> Result<Report, QueryFailure> {
    let keep = settings::flag(&account.settings, KEEP_OPEN, true)
        .map_err(|refusal| QueryFailure::Unavailable(refusal.detail))?;
    // While the payer is at Stripe's page they may try again; who left it chose not to.
    let kept_open = keep && !has_left(return_query) && purpose != QueryPurpose::Cancel;
    let mut session = match reference.filter(|reference| is_id(reference)) {
        Some(reference) => read(account, attempt, reference)?,
        None => locate(account, attempt, purpose)?,
    };
    let mut refusal = None;
    if let Some(act) = needed(&session, purpose, kept_open) {
        (session, refusal) = perform(account, attempt, session, act)?;
    }
    if let Some(payment) = &mut session.payment {
        all_refunds(account, payment)?;
    }
    let disputes = match &session.payment {
        Some(payment) if is_disputed(payment) => disputes(account, payment)?,
        _ => Vec::new(),
    };
    let mut report = report::report(&session, &disputes, kept_open, account.now)
        .ok_or_else(|| unavailable("declined, but not yet closed"))?;
    // Why an authorisation that could not be captured is one still.
    if let Some(refusal) = refusal.filter(|_| is_authorised(&session)) {
        report.detail = format!("not captured: {refusal}");
        report.particulars.reason = Some(refusal);
    }
    Ok(report)
}

/// Whether the payer came back by the address for those who give up. The host keeps that with the
/// attempt, so that it holds for a payer too who went on at Stripe's page afterwards: the next refusal
/// closes the session, which costs a new start and can cost no payer a second payment.
fn has_left(return_query: Option<&str>) -> bool {
    return_query.is_some_and(|query| query.split('&').any(|pair| pair == LEFT))
}

fn is_authorised(session: &Session) -> bool {
    let payment = session.payment.as_ref();
    payment.is_some_and(|payment| payment.phase == Phase::RequiresCapture)
}

fn is_disputed(payment: &Payment) -> bool {
    let disputed = |charge: &Charge| charge.disputed;
    payment.charge.as_ref().is_some_and(disputed)
}

/// What the purpose asks of a session that stands so. A declined payer could still come back and pay, so
/// that session is closed whatever the purpose: then `declined` is certain.
fn needed(session: &Session, purpose: QueryPurpose, kept_open: bool) -> Option<Act> {
    let payment = session.payment.as_ref();
    let phase = payment.map(|payment| payment.phase);
    let declined = phase == Some(Phase::RequiresPaymentMethod)
        && payment.is_some_and(|payment| payment.failed.is_some());
    match (phase, session.stage, purpose) {
        // Never more or less than the payer was asked for.
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

/// The session as it stands then, with Stripe's code where it refused.
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
        // It has moved on meanwhile, or cannot be done: what it is now is the answer.
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
        // Not known to the key's account. Stripe itself forgets no session.
        404 if wire::problem(&answer).code == "resource_missing" => Err(QueryFailure::Absent),
        _ => Err(refused(&answer)),
    }
}

/// Finds a session whose id was never heard. Repeating the creation under its key is certain and
/// cheap, but makes one where there is none: not for a mere look. From the attempt's end on it cannot
/// make one any more, because Stripe refuses such an end.
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
            // Stripe keeps a key for a day at least, and lets no session end later than a day after
            // it was made. Until the attempt's end, then, no session under the key means none at all.
            Err(Uncreated::Nothing(problem))
                if problem.status == 400 && account.now <= attempt.expires =>
            {
                return Err(QueryFailure::Absent);
            }
            Err(Uncreated::Nothing(problem)) if problem.status != 400 => {
                return Err(QueryFailure::Unavailable(problem.to_string()));
            }
            Err(Uncreated::NotSent(why)) => return Err(QueryFailure::Unavailable(why)),
            // A 500 stays under its key for good: the list knows better.
            Err(Uncreated::Nothing(_) | Uncreated::Differs | Uncreated::Unknown(_)) => {}
        }
    }
    list(account, attempt)?.ok_or(QueryFailure::Absent)
}

/// Looks through the sessions that can be this attempt's, newest first: Stripe cannot search them by
/// the merchant's reference. None where all were read and it is not among them.
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

/// Reads the refunds that the charge, which tells ten of them, does not.
fn all_refunds(account: &Account, payment: &mut Payment) -> Result<(), QueryFailure> {
    let Some(charge) = payment.charge.as_mut().filter(|charge| !charge.all_refunds) else {
        return Ok(());
    };
    let query = [("payment_intent", payment.id.as_str()), ("limit", "100")];
    let answer = api::get(account, &format!("/v1/refunds?{}", encode::form(&query)))?;
    if answer.status != 200 {
        return Err(refused(&answer));
    }
    let list = answer.json();
    let refunds = list.as_ref().and_then(charge::refunds);
    (charge.refunds, charge.all_refunds) = refunds.ok_or_else(unreadable)?;
    Ok(())
}

fn disputes(account: &Account, payment: &Payment) -> Result<Vec<Dispute>, QueryFailure> {
    let query = [("payment_intent", payment.id.as_str()), ("limit", "100")];
    let answer = api::get(account, &format!("/v1/disputes?{}", encode::form(&query)))?;
    if answer.status != 200 {
        return Err(refused(&answer));
    }
    charge::disputes(&answer.body, &payment.received).ok_or_else(unreadable)
}

fn ours(
    account: &Account,
    attempt: &Attempt,
    session: Option<Session>,
) -> Result<Session, QueryFailure> {
    let session = session.ok_or_else(unreadable)?;
    let same_world = session.live == (account.environment == Environment::Live);
    if session.attempt.as_ref() == Some(&attempt.id) && same_world {
        return Ok(session);
    }
    Err(unavailable(&format!(
        "{} belongs to another attempt or environment",
        session.id
    )))
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
