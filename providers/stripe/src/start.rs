//! Creating a session. The request of an attempt is the same each time it is made, so that Stripe
//! answers a repeat with the session that the first one made.
use kassette_plugin::provider::call::Broken;
use kassette_plugin::provider::{
    Account, Action, Attempt, Environment, Instructions, Open, StartFailure, Started,
};
use kassette_plugin::settings;

use crate::api;
use crate::query;
use crate::wire::{self, Payment, Phase, Problem, Session, Stage};

/// Setting: when the money is taken.
pub(crate) const CAPTURE: &str = "capture";

pub(crate) const SESSIONS: &str = "/v1/checkout/sessions";

/// What the address for payers who give up ends in.
pub(crate) const LEFT: &str = "left=stripe";

/// How much longer than the attempt a session lives where Stripe refuses the attempt's own end:
/// sessions live 30 minutes at least. Half a minute for clocks that differ, twice.
pub(crate) const LONGER_MS: u64 = 31 * 60 * 1_000;

/// A session that a creation led to.
pub(crate) struct Created {
    pub(crate) session: Session,
    /// Made by an earlier request, and told as it was then.
    pub(crate) replayed: bool,
}

/// What a creation proves.
pub(crate) enum Uncreated {
    /// Nothing was created, by this request or an earlier one under the same key.
    Nothing(Problem),
    /// An earlier request with other data was made under the key: its session is to be found.
    Differs,
    /// What it did is unknown.
    Unknown(String),
    /// The request never left. What earlier ones did is another matter.
    NotSent(String),
}

/// Creates the session, or finds the one that an earlier call made.
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

/// Asks for the session with the attempt's own end, and where Stripe finds that too near for one that
/// ends later. Each has a key of its own; as time passes the first can only become impossible.
pub(crate) fn create(account: &Account, attempt: &Attempt) -> Result<Created, Uncreated> {
    match create_until(account, attempt, &attempt.id, attempt.expires) {
        Err(Uncreated::Nothing(problem)) if problem.param == "expires_at" => {
            let key = format!("{}-longer", attempt.id);
            let until = attempt.expires.saturating_add(LONGER_MS);
            create_until(account, attempt, &key, until)
        }
        other => other,
    }
}

fn create_until(
    account: &Account,
    attempt: &Attempt,
    key: &str,
    until: u64,
) -> Result<Created, Uncreated> {
    let fields = fields(account, attempt, until).map_err(Uncreated::NotSent)?;
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let answer = match api::post(account, SESSIONS, key, &fields) {
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
        // 409: an earlier request under the key is still at work. 5xx: Stripe says itself that the
        // effect is not known.
        400..=408 | 410..=499 => Uncreated::Nothing(problem),
        _ => Uncreated::Unknown(problem.to_string()),
    })
}

/// The request's form. What may differ from one call to the next has no place here: not the payer's
/// address or language, which come from the browser of the moment.
fn fields(
    account: &Account,
    attempt: &Attempt,
    until: u64,
) -> Result<Vec<(&'static str, String)>, String> {
    let method = crate::payment_method_type(&attempt.method)
        .ok_or_else(|| format!("method {} is not served", attempt.method))?;
    let mut fields = vec![
        ("mode", "payment".to_owned()),
        ("client_reference_id", attempt.id.clone()),
        ("metadata[attempt]", attempt.id.clone()),
        ("payment_intent_data[metadata][attempt]", attempt.id.clone()),
        (
            "payment_intent_data[description]",
            plain(&attempt.merchant_order),
        ),
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
        (
            "line_items[0][price_data][product_data][description]",
            plain(&attempt.merchant),
        ),
        // The payer pays what is due, in the currency in which it is due.
        ("adaptive_pricing[enabled]", "false".to_owned()),
        ("success_url", attempt.return_url.clone()),
        ("cancel_url", with_query(&attempt.cancel_url)),
        ("expires_at", (until / 1_000).to_string()),
    ];
    if is_manual(account, &attempt.method)? {
        fields.push(("payment_intent_data[capture_method]", "manual".to_owned()));
    }
    if let Some(email) = &attempt.payer.email {
        fields.push(("customer_email", email.clone()));
    }
    Ok(fields)
}

/// Whether the money is only authorised.
fn is_manual(account: &Account, method: &str) -> Result<bool, String> {
    let choices = [("automatic", false), ("manual", true)];
    let manual = settings::choice(&account.settings, CAPTURE, &choices, false);
    // iDEAL moves the money at once, whatever the setting.
    Ok(manual.map_err(|refusal| refusal.detail)? && method != "ideal")
}

/// A payer who gives up comes back with a word of their own, which the host keeps.
fn with_query(url: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{LEFT}")
}

/// Text that Stripe shows or keeps: without control characters.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Goes on with a session, where it is ours and can still be paid or has been.
fn opened(account: &Account, attempt: &Attempt, session: Session) -> Result<Started, StartFailure> {
    let id = &session.id;
    if session.live != (account.environment == Environment::Live) {
        // No payer is ever sent there.
        return Err(StartFailure::Uncertain(format!(
            "{id}: the secret key is of the other environment"
        )));
    }
    if session.attempt.as_ref() != Some(&attempt.id) || session.due != attempt.due {
        return Err(StartFailure::Uncertain(format!(
            "{id} is about something else"
        )));
    }
    match (session.stage, session.url.as_deref()) {
        (Stage::Open, Some(url)) => Ok(Started::Open(Open {
            action: Action::Redirect(url.to_owned()),
            until: Some(session.expires_at.saturating_mul(1_000)),
            reference: session.id,
        })),
        (Stage::Open, None) => Err(StartFailure::Uncertain(format!("{id} has no page"))),
        (Stage::Complete, _) if !is_over(session.payment.as_ref()) => Ok(Started::Open(Open {
            // Paid meanwhile, so that Stripe has no page for it any more: news is on its way.
            action: Action::Show(Instructions::paid(attempt.payer.language.as_deref())),
            until: None,
            reference: session.id,
        })),
        _ => Err(StartFailure::Declined(format!("{id} is over"))),
    }
}

/// Whether a complete session's payment has come to nothing.
fn is_over(payment: Option<&Payment>) -> bool {
    payment.is_some_and(|payment| {
        matches!(
            payment.phase,
            Phase::Canceled | Phase::RequiresPaymentMethod
        )
    })
}

/// What a refusal means for this payment. In either case nothing was created.
fn refused(problem: &Problem) -> StartFailure {
    let about_the_payment = matches!(
        problem.code.as_str(),
        "amount_too_small" | "amount_too_large" | "email_invalid"
    );
    if about_the_payment || problem.status == 402 {
        return StartFailure::Declined(problem.to_string());
    }
    StartFailure::Unavailable(problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{paid, paying, read, told};
    use kassette_plugin::provider::{Money, Payer};

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
        let fields = fields(&account(&[]), &attempt(), attempt().expires).unwrap();
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
        let first = fields(&account(&[]), &attempt(), attempt().expires);
        let mut later = account(&[]);
        later.now += 60_000;
        let mut again = attempt();
        again.payer.ip = None;
        again.payer.language = Some("en".into());
        assert_eq!(first, fields(&later, &again, again.expires));
    }

    #[test]
    fn manual_capture_is_the_operators_choice_where_the_method_has_it() {
        let manual = account(&[("capture", "manual")]);
        assert_eq!(is_manual(&manual, "credit_card"), Ok(true));
        assert_eq!(is_manual(&manual, "ideal"), Ok(false));
        assert_eq!(is_manual(&account(&[]), "credit_card"), Ok(false));
        assert!(is_manual(&account(&[("capture", "later")]), "credit_card").is_err());
    }

    #[test]
    fn a_refusal_is_about_the_payment_only_where_it_says_so() {
        let refused = |status, code: &str| {
            refused(&Problem {
                status,
                kind: "invalid_request_error".into(),
                code: code.into(),
                param: String::new(),
            })
        };
        assert!(matches!(
            refused(400, "amount_too_small"),
            StartFailure::Declined(_)
        ));
        for (status, code) in [
            (400, "parameter_invalid"),
            (401, ""),
            (403, ""),
            (429, "rate_limit"),
        ] {
            assert!(
                matches!(refused(status, code), StartFailure::Unavailable(_)),
                "{status}"
            );
        }
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
