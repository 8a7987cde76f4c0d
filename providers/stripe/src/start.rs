//! Creating a session. All requests of an attempt are identical, so that Stripe answers a repetition with the
//! first session.
use kassette_plugin::provider::call::Broken;
use kassette_plugin::provider::{
    Account, Action, Attempt, Instructions, Open, StartFailure, Started,
};
use kassette_plugin::settings;

use crate::api;
use crate::query;
use crate::wire::{self, Payment, Phase, Problem, Session, Stage};

/// Setting: time of the capture.
pub(crate) const CAPTURE: &str = "capture";

pub(crate) const SESSIONS: &str = "/v1/checkout/sessions";

/// Query parameter that marks the cancel address.
pub(crate) const LEFT: &str = "left=stripe";

/// Time by which a session outlives the attempt if Stripe refuses the attempt's own expiry, in milliseconds.
/// Sessions live at least 30 minutes; a minute is added for clock differences.
pub(crate) const LONGER_MS: u64 = 31 * 60 * 1_000;

/// Result of a successful creation.
pub(crate) struct Created {
    pub(crate) session: Session,
    /// Whether an earlier request created it; then it contains the state of that time.
    pub(crate) replayed: bool,
}

/// Result of a failed creation.
pub(crate) enum Uncreated {
    /// Nothing was created by this or an earlier request under the same key.
    Nothing(Problem),
    /// An earlier request under the key had other data; its session has to be searched for.
    Differs,
    /// The effect of the request is unknown.
    Unknown(String),
    /// The request was not sent. Earlier requests may have been.
    NotSent(String),
}

/// Creates the session, or finds the session that an earlier call created.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let unknown = |why: String| StartFailure::Uncertain(why);
    match create(account, attempt) {
        Ok(created) if created.replayed => {
            let now = query::read(account, attempt, &created.session.id);
            let now = now.map_err(|_| unknown(format!("{} cannot be read", created.session.id)))?;
            opened(account, attempt, now)
        }
        Ok(created) => opened(account, attempt, created.session),
        Err(Uncreated::Nothing(problem)) => Err(refused(&problem)),
        Err(Uncreated::Differs) => match query::list(account, attempt) {
            Ok(Some(session)) => opened(account, attempt, session),
            _ => Err(unknown("another request was made under this key".into())),
        },
        Err(Uncreated::Unknown(why)) => Err(unknown(why)),
        Err(Uncreated::NotSent(why)) => Err(StartFailure::Unavailable(why)),
    }
}

/// Creates the session with the attempt's own expiry and all fields. If Stripe refuses one of them, the request is
/// repeated: with a later expiry if the own one is too near, and without the e-mail address and the descriptions.
/// Each variant has its own key. Repeated calls take the same path, because the first expiry can only become
/// impossible later.
pub(crate) fn create(account: &Account, attempt: &Attempt) -> Result<Created, Uncreated> {
    let (mut longer, mut bare) = (false, false);
    loop {
        match create_once(account, attempt, longer, bare) {
            Err(Uncreated::Nothing(problem)) if !longer && problem.param == "expires_at" => {
                longer = true;
            }
            Err(Uncreated::Nothing(problem)) if !bare && problem.is_about_optional_field() => {
                bare = true;
            }
            other => return other,
        }
    }
}

fn create_once(
    account: &Account,
    attempt: &Attempt,
    longer: bool,
    bare: bool,
) -> Result<Created, Uncreated> {
    let longer_ms = if longer { LONGER_MS } else { 0 };
    let until = attempt.expires.saturating_add(longer_ms);
    let key = format!(
        "{}{}{}",
        attempt.id,
        if longer { "-longer" } else { "" },
        if bare { "-bare" } else { "" }
    );
    let fields = fields(account, attempt, until, bare).map_err(Uncreated::NotSent)?;
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let answer = match api::post(account, SESSIONS, &key, &fields) {
        Ok(answer) => answer,
        Err(Broken::NotSent(why)) => return Err(Uncreated::NotSent(why)),
        Err(Broken::NoAnswer(why)) => return Err(Uncreated::Unknown(why)),
    };
    if answer.is_success() {
        let session = wire::session(&answer.body)
            .ok_or_else(|| Uncreated::Unknown("the answer cannot be read".into()))?;
        return Ok(Created {
            session,
            replayed: api::is_replayed(&answer),
        });
    }
    let problem = wire::problem(&answer);
    Err(match problem.status {
        400 if problem.kind == "idempotency_error" => Uncreated::Differs,
        // 409: an earlier request under the key is in progress. 5xx: Stripe documents that the effect is unknown.
        400..=408 | 410..=499 => Uncreated::Nothing(problem),
        _ => Uncreated::Unknown(problem.to_string()),
    })
}

/// The request's form. It contains nothing that may change between calls, such as the payer's address or language,
/// which depend on the current browser.
fn fields(
    account: &Account,
    attempt: &Attempt,
    until: u64,
    bare: bool,
) -> Result<Vec<(&'static str, String)>, String> {
    let method = crate::payment_method_type(&attempt.method)
        .ok_or_else(|| format!("method {} is not served", attempt.method))?;
    let mut fields = vec![
        ("mode", "payment".to_owned()),
        ("client_reference_id", attempt.id.clone()),
        ("metadata[attempt]", attempt.id.clone()),
        ("payment_intent_data[metadata][attempt]", attempt.id.clone()),
        ("payment_method_types[0]", method.to_owned()),
        ("line_items[0][quantity]", "1".to_owned()),
        (
            "line_items[0][price_data][currency]",
            attempt.due.currency.to_ascii_lowercase(),
        ),
        (
            "line_items[0][price_data][unit_amount]",
            attempt.due.amount.to_string(),
        ),
        (
            "line_items[0][price_data][product_data][name]",
            plain(&attempt.merchant_order),
        ),
        // The payer pays the amount due in its own currency.
        ("adaptive_pricing[enabled]", "false".to_owned()),
        ("success_url", attempt.return_url.clone()),
        ("cancel_url", with_query(&attempt.cancel_url)),
        ("expires_at", (until / 1_000).to_string()),
    ];
    if is_manual(account, &attempt.method)? {
        fields.push(("payment_intent_data[capture_method]", "manual".to_owned()));
    }
    if bare {
        return Ok(fields);
    }
    fields.push((
        "payment_intent_data[description]",
        plain(&attempt.merchant_order),
    ));
    fields.push((
        "line_items[0][price_data][product_data][description]",
        plain(&attempt.merchant),
    ));
    if let Some(email) = &attempt.payer.email {
        fields.push(("customer_email", email.clone()));
    }
    Ok(fields)
}

/// Whether the payment is only authorized at first.
fn is_manual(account: &Account, method: &str) -> Result<bool, String> {
    let choices = [("automatic", false), ("manual", true)];
    let manual = settings::choice(&account.settings, CAPTURE, &choices, false);
    // iDEAL captures immediately, independent of the setting.
    Ok(manual.map_err(|refusal| refusal.detail)? && method != "ideal")
}

/// Adds the parameter by which the host can see that the payer cancelled.
fn with_query(url: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{LEFT}")
}

/// Text for Stripe without control characters.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Continues with a session if it belongs to this attempt and is paid or payable.
fn opened(account: &Account, attempt: &Attempt, session: Session) -> Result<Started, StartFailure> {
    let id = &session.id;
    if session.is_of_other_environment(account.environment) {
        // No payer is sent to it.
        return Err(StartFailure::Uncertain(format!(
            "{id}: the secret key is of the other environment"
        )));
    }
    // The answer may omit the attempt's id.
    let named_other = session.attempt.as_ref().is_some_and(|of| *of != attempt.id);
    if named_other || session.due != attempt.due {
        return Err(StartFailure::Uncertain(format!(
            "{id} is about something else"
        )));
    }
    match (session.stage, session.url.as_deref()) {
        (Stage::Open, Some(url)) => Ok(Started::Open(Open {
            action: Action::Redirect(url.to_owned()),
            until: session.expires_at.map(|at| at.saturating_mul(1_000)),
            reference: session.id,
        })),
        (Stage::Open, None) => Err(StartFailure::Uncertain(format!("{id} has no page"))),
        (Stage::Complete, _) if !is_over(session.payment.as_ref()) => Ok(Started::Open(Open {
            // Paid in the meantime, so Stripe has no page for it. An event will follow.
            action: Action::Show(Instructions::paid(attempt.payer.language.as_deref())),
            until: None,
            reference: session.id,
        })),
        (Stage::Unknown, _) => Err(StartFailure::Uncertain(format!(
            "{id} has an unknown status"
        ))),
        _ => Err(StartFailure::Declined(format!("{id} is over"))),
    }
}

/// Whether a complete session's payment has failed.
fn is_over(payment: Option<&Payment>) -> bool {
    payment.is_some_and(|payment| {
        matches!(
            payment.phase,
            Phase::Canceled | Phase::RequiresPaymentMethod
        )
    })
}

/// Maps a refusal, after which nothing was created. A limit of the account or a refused field does not concern the
/// payer, so another account may accept the payment.
fn refused(problem: &Problem) -> StartFailure {
    match problem.status {
        402 => StartFailure::Declined(problem.to_string()),
        400 if problem.is_about_method() => StartFailure::NotActivated(problem.to_string()),
        _ => StartFailure::Unavailable(problem.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{paid, paying, read, told};
    use kassette_plugin::provider::{Environment, Money, Payer};

    pub(crate) fn account(settings: &[(&str, &str)]) -> Account {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Account {
            id: "stripe-test".into(),
            environment: Environment::Test,
            now: 1_800_000_000_000,
            callback_url: String::new(),
            settings: settings.iter().map(pair).collect(),
        }
    }

    fn attempt() -> Attempt {
        Attempt {
            id: "attempt-1".into(),
            method: "credit_card".into(),
            due: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            merchant_order: "order\u{7} 7".into(),
            merchant: "Shop".into(),
            return_url: "https://x.example/r".into(),
            cancel_url: "https://x.example/r?a=1".into(),
            expires: 1_800_003_600_999,
            payer: Payer {
                email: Some("a@shop.example".into()),
                ip: Some("192.0.2.1".into()),
                language: Some("nl".into()),
                country: None,
            },
            answers: Vec::new(),
        }
    }

    fn field(fields: &[(&'static str, String)], name: &str) -> Option<String> {
        let found = fields.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    }

    #[test]
    fn the_attempt_is_reference_and_metadata_and_the_amount_is_in_minor_units() {
        let fields = fields(&account(&[]), &attempt(), attempt().expires, false).unwrap();
        for (name, value) in [
            ("client_reference_id", "attempt-1"),
            ("payment_intent_data[metadata][attempt]", "attempt-1"),
            ("payment_method_types[0]", "card"),
            ("line_items[0][price_data][currency]", "eur"),
            ("line_items[0][price_data][unit_amount]", "4990"),
            ("line_items[0][price_data][product_data][name]", "order 7"),
            ("cancel_url", "https://x.example/r?a=1&left=stripe"),
            ("expires_at", "1800003600"),
            ("customer_email", "a@shop.example"),
        ] {
            assert_eq!(field(&fields, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(field(&fields, "payment_intent_data[capture_method]"), None);
    }

    #[test]
    fn the_request_depends_on_nothing_that_changes_between_repeats() {
        let first = fields(&account(&[]), &attempt(), attempt().expires, false);
        let mut later = account(&[]);
        later.now += 60_000;
        let mut again = attempt();
        again.payer.ip = None;
        again.payer.language = Some("en".into());
        assert_eq!(first, fields(&later, &again, again.expires, false));
    }

    #[test]
    fn manual_capture_is_the_operators_choice_where_the_method_has_it() {
        let manual = account(&[("capture", "manual")]);
        assert_eq!(is_manual(&manual, "credit_card"), Ok(true));
        assert_eq!(is_manual(&manual, "ideal"), Ok(false));
        assert_eq!(is_manual(&account(&[]), "credit_card"), Ok(false));
        assert!(is_manual(&account(&[("capture", "later")]), "credit_card").is_err());
    }

    fn problem(status: u16, code: &str, param: &str) -> Problem {
        Problem {
            status,
            kind: "invalid_request_error".into(),
            code: code.into(),
            param: param.into(),
        }
    }

    #[test]
    fn a_limit_or_a_field_that_is_refused_is_no_decline() {
        for (status, code) in [
            (400, "amount_too_small"),
            (400, "amount_too_large"),
            (400, "email_invalid"),
            (400, "parameter_invalid"),
            (401, ""),
            (403, ""),
            (429, "rate_limit"),
        ] {
            let refused = refused(&problem(status, code, ""));
            assert!(matches!(refused, StartFailure::Unavailable(_)), "{code}");
        }
        for (code, param) in [
            ("payment_method_unactivated", ""),
            ("", "payment_method_types[0]"),
            ("", "line_items[0][price_data][currency]"),
        ] {
            let refused = refused(&problem(400, code, param));
            assert!(matches!(refused, StartFailure::NotActivated(_)), "{param}");
        }
        let declined = refused(&problem(402, "card_declined", ""));
        assert!(matches!(declined, StartFailure::Declined(_)));
    }

    #[test]
    fn fields_that_only_describe_are_left_out_of_a_bare_request() {
        for (code, param) in [
            ("email_invalid", "customer_email"),
            ("", "payment_intent_data[description]"),
        ] {
            assert!(problem(400, code, param).is_about_optional_field());
        }
        assert!(!problem(400, "amount_too_small", "line_items").is_about_optional_field());
        let bare = fields(&account(&[]), &attempt(), attempt().expires, true).unwrap();
        for name in [
            "customer_email",
            "payment_intent_data[description]",
            "line_items[0][price_data][product_data][description]",
        ] {
            assert_eq!(field(&bare, name), None, "{name}");
        }
    }

    #[test]
    fn an_answer_that_does_not_repeat_the_reference_is_about_the_attempt() {
        let mut told = told("open");
        for name in ["client_reference_id", "metadata", "livemode"] {
            told[name] = serde_json::Value::Null;
        }
        let opened = opened(&account(&[]), &attempt(), read(&told).unwrap());
        assert!(matches!(opened, Ok(Started::Open(_))));
    }

    #[test]
    fn a_session_that_is_over_cannot_be_started() {
        let opened = |told| opened(&account(&[]), &attempt(), read(&told).unwrap());
        for over in [
            told("expired"),
            paying("complete", "canceled"),
            paying("complete", "requires_payment_method"),
        ] {
            assert!(matches!(opened(over), Err(StartFailure::Declined(_))));
        }
        for going_on in [told("open"), paying("open", "requires_action"), paid()] {
            assert!(matches!(opened(going_on), Ok(Started::Open(_))));
        }
    }

    #[test]
    fn a_session_of_something_else_or_the_other_environment_is_never_shown() {
        let session = || read(&told("open")).unwrap();
        let mut other = attempt();
        other.due.amount += 1;
        let odd = opened(&account(&[]), &other, session());
        assert!(matches!(odd, Err(StartFailure::Uncertain(_))));
        let mut live = account(&[]);
        live.environment = Environment::Live;
        let odd = opened(&live, &attempt(), session());
        assert!(matches!(odd, Err(StartFailure::Uncertain(_))));
    }
}
