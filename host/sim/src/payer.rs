//! The page on which a person plays the payer. A plain form without scripts.
use std::{collections::HashMap, sync::Arc};

use askama::Template;
use axum::{
    Form, Router,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{AppendHeaders, Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use serde::Deserialize;
use url::Url;

use crate::{
    account::{Account, Unchanged},
    afterwards::Later,
    amounts::{self, Scripted},
    money::Amount,
    refund::Refund,
    session::{Outcome, Phase, Session},
};

/// All accounts by id.
pub(crate) type Accounts = Arc<HashMap<String, Arc<Account>>>;

/// Maximum size of the form in bytes; it contains a token and a choice.
const MOST_BODY: usize = 4 * 1024;

/// No `form-action`: Chromium applies it to the redirect after the form, which leads to the gateway, and this page
/// does not choose that address.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'";

const STYLE: &str = include_str!("../static/payer.css");

/// The payer pages of all accounts: `/{provider_id}/pay/{token}`.
pub(crate) fn routes(accounts: Accounts) -> Router {
    Router::new()
        .route("/{provider_id}/pay/{token}", get(show))
        .route("/{provider_id}/pay", post(submit))
        .route("/payer.css", get(style))
        .fallback(async |State(accounts): State<Accounts>| unknown(&accounts))
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .with_state(accounts)
}

#[derive(Template)]
#[template(path = "payer.html")]
struct Page<'a> {
    title: &'a str,
    lead: &'a str,
    style_path: String,
    payment: Option<Payment<'a>>,
}

struct Payment<'a> {
    amount: String,
    currency: &'a str,
    merchant: &'a str,
    order: &'a str,
    method: &'a str,
    account: &'a str,
    environment: &'a str,
    action: String,
    session: &'a str,
    choices: Vec<&'static Choice>,
    /// The amount that can be refunded, if partial refunds are possible.
    refundable: Option<String>,
    back: String,
}

struct Choice {
    value: &'static str,
    label: &'static str,
    about: &'static str,
}

const BEFORE: [Choice; 5] = [
    Choice {
        value: "approve",
        label: "Approve the payment",
        about: "The payment goes through.",
    },
    Choice {
        value: "decline",
        label: "Decline the payment",
        about: "As if the bank had said no. Another try is possible.",
    },
    Choice {
        value: "review",
        label: "Hold it for review",
        about: "Paid, but a person has to look at it first.",
    },
    Choice {
        value: "pending",
        label: "Leave it pending",
        about: "Back to the merchant without a decision and without any news.",
    },
    Choice {
        value: "cancel",
        label: "Give up",
        about: "The payer no longer wants to pay, and goes back to the merchant.",
    },
];

const REFUND: Choice = Choice {
    value: "refund",
    label: "Refund it",
    about: "The merchant gives the amount above back, or everything where none stands there.",
};

const REFUND_FAILS: Choice = Choice {
    value: "refund_fails",
    label: "Let the last refund fail",
    about: "The money of the newest refund comes back to the merchant.",
};

const CLAIM: Choice = Choice {
    value: "claim",
    label: "Claim the refund",
    about: "The payer claims the newest refund that waits for it, and gets the money.",
};

const REVIEWED: [Choice; 2] = [
    Choice {
        value: "approve",
        label: "Let it go",
        about: "The provider has looked and finds nothing wrong.",
    },
    REFUND,
];

const HELD: [Choice; 2] = [
    Choice {
        value: "approve",
        label: "Let it go",
        about: "The provider has looked and finds nothing wrong. The merchant takes the money next.",
    },
    Choice {
        value: "decline",
        label: "Refuse it",
        about: "The provider has looked and finds fraud. Nothing is taken.",
    },
];

const AFTERWARDS: [Choice; 4] = [
    REFUND,
    REFUND_FAILS,
    INQUIRY,
    Choice {
        value: "dispute",
        label: "Dispute it",
        about: "The payer wants the money back from the bank.",
    },
];

const INQUIRY: Choice = Choice {
    value: "inquiry",
    label: "Ask about it",
    about: "The payer's bank asks about the payment. No money moves.",
};

const DISPUTED: [Choice; 5] = [
    REFUND,
    REFUND_FAILS,
    Choice {
        value: "dispute",
        label: "Tell of the dispute again",
        about: "The same dispute, told twice.",
    },
    Choice {
        value: "dispute_won",
        label: "Decide it for the merchant",
        about: "The dispute ends, and the merchant keeps the money.",
    },
    Choice {
        value: "dispute_lost",
        label: "Decide it for the payer",
        about: "The dispute ends, and the payer gets the money.",
    },
];

const REFUNDED: [Choice; 1] = [REFUND_FAILS];

/// Fields of the form. A provider's own form may lead here without an outcome; then the page is shown.
#[derive(Deserialize)]
struct Submitted {
    session: String,
    outcome: Option<Pressed>,
    /// Amount of a partial refund, as `10.00`; empty for the rest.
    amount: Option<String>,
}

/// The pressed button.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Pressed {
    Paying(Outcome),
    GivingUp(GivingUp),
    Paid(Later),
}

/// The payer cancels.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GivingUp {
    Cancel,
}

async fn show(
    State(accounts): State<Accounts>,
    Path((provider_id, token)): Path<(String, String)>,
) -> Response {
    match find(&accounts, &provider_id, &token) {
        Some((account, session)) => open(account, session).await,
        None => unknown(&accounts),
    }
}

/// The page, or the result of the amount's script. After a declined attempt the script does not run again: a
/// person plays the next one.
async fn open(account: &Arc<Account>, session: Session) -> Response {
    let scripted = amounts::scripted(session.due.value, account.vendor.has_test_amounts());
    match scripted {
        Some(scripted) if session.phase(account.now()) == Phase::Open => {
            let reference = session.reference.clone();
            let changed = account.follow(reference, scripted).await;
            let leaves = match scripted {
                Scripted::Press(outcome) => Pressed::Paying(outcome),
                Scripted::Decline(_) | Scripted::Fail => Pressed::Paying(Outcome::Decline),
                Scripted::GiveUp => Pressed::GivingUp(GivingUp::Cancel),
                Scripted::Process | Scripted::Verify | Scripted::Dispute(_) => {
                    Pressed::Paying(Outcome::Approve)
                }
            };
            pressed(account, session, leaves, changed)
        }
        _ => page(StatusCode::OK, account, &session),
    }
}

async fn submit(
    State(accounts): State<Accounts>,
    Path(provider_id): Path<String>,
    Form(form): Form<Submitted>,
) -> Response {
    let Some((account, session)) = find(&accounts, &provider_id, &form.session) else {
        return unknown(&accounts);
    };
    let Some(outcome) = form.outcome else {
        return open(account, session).await;
    };
    let amount = match form.amount.as_deref() {
        None | Some("") => None,
        Some(text) => match Amount::parse(text) {
            Some(amount) => Some(amount),
            None => return page(StatusCode::UNPROCESSABLE_ENTITY, account, &session),
        },
    };
    press(account, session, outcome, amount).await
}

async fn press(
    account: &Arc<Account>,
    session: Session,
    outcome: Pressed,
    amount: Option<Amount>,
) -> Response {
    let reference = session.reference.clone();
    let changed = match outcome {
        Pressed::Paying(outcome) => account.choose(reference, outcome).await,
        Pressed::GivingUp(GivingUp::Cancel) => account.give_up(reference).await,
        Pressed::Paid(later) => account.later(reference, later, amount, None).await,
    };
    pressed(account, session, outcome, changed)
}

/// The answer to a button, or to an amount's script.
fn pressed(
    account: &Account,
    session: Session,
    outcome: Pressed,
    changed: Result<Session, Unchanged>,
) -> Response {
    match changed {
        Ok(session) => leave(account, &session, outcome),
        // A second click of the same button; the first one has taken effect.
        Err(Unchanged::Conflict) if is_done(session.phase(account.now()), outcome) => {
            leave(account, &session, outcome)
        }
        Err(Unchanged::Conflict | Unchanged::Refused) => {
            page(StatusCode::CONFLICT, account, &session)
        }
        Err(Unchanged::Unknown) => nothing_here(account.style_path()),
        Err(Unchanged::Books(error)) => {
            tracing::error!(%error, "the simulator's books cannot be written");
            message(
                account.style_path(),
                StatusCode::INTERNAL_SERVER_ERROR,
                "Something went wrong",
                "Nothing was changed. Try again.",
            )
        }
    }
}

fn find<'a>(
    accounts: &'a Accounts,
    provider_id: &str,
    token: &str,
) -> Option<(&'a Arc<Account>, Session)> {
    let account = accounts.get(provider_id)?;
    Some((account, account.by_token(token)?))
}

fn is_done(phase: Phase, pressed: Pressed) -> bool {
    matches!(
        (pressed, phase),
        (
            Pressed::Paying(Outcome::Approve),
            Phase::Authorised | Phase::Captured
        ) | (Pressed::Paying(Outcome::Decline), Phase::Declined)
            | (Pressed::Paying(Outcome::Review), Phase::InReview)
            | (Pressed::Paid(Later::Refund), Phase::Refunded)
    )
}

/// Redirects to the merchant, with the provider's query appended.
fn leave(account: &Account, session: &Session, pressed: Pressed) -> Response {
    match pressed {
        Pressed::Paying(outcome) => Redirect::to(&back(account, session, outcome)).into_response(),
        Pressed::GivingUp(GivingUp::Cancel) => {
            Redirect::to(&back(account, session, Outcome::Decline)).into_response()
        }
        Pressed::Paid(_) => page(StatusCode::OK, account, session),
    }
}

fn back(account: &Account, session: &Session, outcome: Outcome) -> String {
    let target = if outcome == Outcome::Decline {
        &session.cancel_url
    } else {
        &session.return_url
    };
    match Url::parse(target) {
        Ok(mut url) => {
            let appended = account.vendor.returns(session, outcome);
            if !appended.is_empty() {
                url.query_pairs_mut().extend_pairs(appended);
            }
            url.into()
        }
        // Validated when the payment was created; use it unchanged as the best alternative.
        Err(_) => target.clone(),
    }
}

fn page(status: StatusCode, account: &Account, session: &Session) -> Response {
    let now = account.now();
    let phase = session.phase(now);
    let (title, lead): (&str, &str) = match phase {
        Phase::Open => ("Pay now", "Choose how this payment goes on."),
        Phase::Declined if session.is_payable(now) => (
            "Payment declined",
            "The last try was declined. Choose how the next one goes.",
        ),
        Phase::Declined => (
            "Payment declined",
            "This payment was declined and has been closed.",
        ),
        Phase::Authorised if session.held => (
            "Payment in review",
            "Approved, and held until a person has looked at it. Nothing is taken yet.",
        ),
        Phase::Authorised => (
            "Payment approved",
            "Approved. The merchant takes the money next.",
        ),
        Phase::InReview => (
            "Payment in review",
            "Paid, and held until a person has looked at it.",
        ),
        Phase::Captured => (
            "Payment complete",
            "This payment is paid. You can play what happens afterwards.",
        ),
        Phase::Disputed => ("Payment disputed", "This payment was paid and is disputed."),
        Phase::Refunded => ("Payment refunded", "This payment was paid and given back."),
        Phase::Closed => (
            "Payment closed",
            "The merchant has called this payment off. It cannot be paid any more.",
        ),
        Phase::Expired => (
            "Payment expired",
            "The time for this payment is over. It cannot be paid any more.",
        ),
    };
    let choices: &'static [Choice] = match phase {
        _ if session.is_payable(now) => &BEFORE,
        Phase::Authorised if session.held => &HELD,
        Phase::InReview => &REVIEWED,
        Phase::Captured => &AFTERWARDS,
        Phase::Disputed => &DISPUTED,
        Phase::Refunded => &REFUNDED,
        _ => &[],
    };
    let claims = session.refunds.iter().any(Refund::waits_for_claim);
    let claim = Some(&CLAIM).filter(|_| claims);
    let asks = account.vendor.knows(Later::Inquiry);
    let known = choices
        .iter()
        .filter(|choice| asks || choice.value != INQUIRY.value);
    let choices: Vec<&Choice> = claim.into_iter().chain(known).collect();
    let refunds = choices.iter().any(|choice| choice.value == REFUND.value);
    let refundable = Some(session.left().to_string()).filter(|_| refunds);
    render(
        status,
        &Page {
            title,
            lead,
            style_path: account.style_path(),
            payment: Some(Payment {
                amount: session.due.value.to_string(),
                currency: &session.due.currency,
                merchant: &session.merchant,
                order: &session.order,
                method: &session.method,
                account: &account.settings.provider_id,
                environment: account.settings.environment.as_str(),
                action: account.pay_url(),
                session: &session.token,
                choices,
                refundable,
                back: back(account, session, Outcome::Pending),
            }),
        },
    )
}

fn unknown(accounts: &Accounts) -> Response {
    // No account is known, so use the stylesheet of any.
    let style_path = accounts.values().next().map(|account| account.style_path());
    nothing_here(style_path.unwrap_or_default())
}

fn nothing_here(style_path: String) -> Response {
    message(
        style_path,
        StatusCode::NOT_FOUND,
        "Nothing to pay here",
        "This link belongs to no payment.",
    )
}

fn message(style_path: String, status: StatusCode, title: &str, lead: &str) -> Response {
    render(
        status,
        &Page {
            title,
            lead,
            style_path,
            payment: None,
        },
    )
}

fn render(status: StatusCode, page: &Page<'_>) -> Response {
    match page.render() {
        Ok(html) => (status, headers("no-store"), Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "the payer page cannot be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn style() -> Response {
    let kind = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    (headers("public, max-age=300"), kind, STYLE).into_response()
}

fn headers(cache: &'static str) -> AppendHeaders<[(HeaderName, HeaderValue); 4]> {
    AppendHeaders([
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static(cache)),
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ])
}
