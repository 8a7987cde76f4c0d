//! The second question before a dangerous change: what it changes, in figures.
//!
//! The answer (`confirmed`) is random. Its hash together with the change and the figures is in the session, so
//! that it is valid once, for this session, this change and these figures.

use askama::Template;
use axum::response::{IntoResponse as _, Response};
use http::Method;
use kassette_domain::key::{TokenHash, base62};
use kassette_domain::operator::OperatorChange;
use kassette_domain::operator::Role;
use kassette_gateway::console::SignInError;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::context::Context;
use super::form::CONFIRMED;
use super::reply::{ConsoleError, Html};
use super::sent::{Sent, check_role};
use crate::admin::AdminCall;

/// Random characters of an answer.
const RANDOM: usize = 32;

/// A second question.
#[derive(Debug, Default)]
pub(super) struct Question {
    /// The question as a sentence.
    pub(super) title: String,
    /// What will change, in sentences.
    pub(super) claims: Vec<String>,
    /// What, now, then.
    pub(super) rows: Vec<[String; 3]>,
    /// Text of the button.
    pub(super) button: String,
    /// Text of the link that leads back without the change.
    pub(super) keep: String,
    /// Address of that link.
    pub(super) back: String,
}

#[derive(Template)]
#[template(path = "console/confirm.html")]
struct ConfirmPage {
    context: Context,
    question: Question,
    action: String,
    fields: Vec<(String, String)>,
    confirmed: String,
    reason: String,
}

/// Asks a question, unless the form answers it: then `None`.
///
/// # Errors
/// If the store fails.
pub(super) async fn ask_unless_answered(
    sent: &Sent,
    question: Question,
    body: &Value,
) -> Result<Option<Response>, ConsoleError> {
    let gateway = sent.console.gateway();
    let (operator, session) = (sent.visit.operator.id, sent.visit.session.hash);
    let change = async |change| match gateway.change_operator(operator, change).await {
        Ok(()) => Ok(true),
        Err(SignInError::Refused) => Ok(false),
        Err(SignInError::Store(fault)) => Err(ConsoleError::of_fault(fault)),
        Err(error) => Err(ConsoleError::internal(error)),
    };
    let hash = |answer: &str| hash(answer, &sent.action, body, &question);
    if let Some(answer) = sent.form.get(CONFIRMED) {
        let question = hash(answer);
        if change(OperatorChange::Answer { session, question }).await? {
            return Ok(None);
        }
    }
    let answer = base62(RANDOM, getrandom::fill).map_err(ConsoleError::internal)?;
    let asked = OperatorChange::Ask {
        session,
        question: hash(&answer),
    };
    if !change(asked).await? {
        // It has ended in the meantime.
        return Err(ConsoleError::SeeOther("/console/sign-in".into()));
    }
    let page = ConfirmPage {
        context: sent.context(&question.back).await?,
        action: format!("{}?environment={}", sent.action, sent.environment),
        fields: sent
            .form
            .own_fields()
            .filter(|(name, _)| name != "reason")
            .cloned()
            .collect(),
        confirmed: answer,
        reason: sent.reason.clone(),
        question,
    };
    Ok(Some(Html(page).into_response()))
}

/// Hash of an answer with the change and the figures.
fn hash(answer: &str, action: &str, body: &Value, question: &Question) -> TokenHash {
    let figures = json!([action, body, question.title, question.claims, question.rows]);
    let mut hash = Sha256::new();
    hash.update(answer.as_bytes());
    hash.update([0]);
    hash.update(figures.to_string());
    TokenHash(hash.finalize().into())
}

/// The second question about a call. `None` if it has none.
///
/// # Errors
/// 403 if the change needs another role, and the refusals of the calls that read the figures.
pub(super) async fn question(
    sent: &Sent,
    call: &AdminCall,
    path: &str,
    body: &Value,
) -> Result<Option<Question>, ConsoleError> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let question = match (call.method.clone(), &parts[..]) {
        (Method::PATCH, ["merchants", id]) => merchant(sent, id, body).await?,
        (Method::POST, ["merchants"]) if body["live_approved"] == json!(true) => {
            check_role(&sent.visit.operator, Role::Admin)?;
            Some(Question {
                title: "Create a merchant that is approved for live payments?".into(),
                claims: vec!["Payers can pay real money to this merchant at once.".into()],
                rows: vec![row("Live payments", "none", "approved")],
                button: "Create and approve".into(),
                keep: "Create nothing".into(),
                back: address("merchants", sent),
            })
        }
        (Method::PUT, ["resellers", id, "live-rollout"]) => Some(rollout(sent, id, body).await?),
        (Method::POST, ["plugins", slot, "promote"]) => Some(promote(sent, slot).await?),
        (Method::POST, ["payments", "redact"]) => Some(redact_address(sent, body).await?),
        (Method::POST, ["payments", id, "redact"]) => Some(redact(sent, id).await?),
        (Method::POST, ["payments", id, "review"]) if body["vouch"] == json!(true) => {
            check_role(&sent.visit.operator, Role::Admin)?;
            Some(vouch(sent, id).await?)
        }
        (Method::PATCH, ["providers", id]) => account(sent, id, body).await?,
        (Method::POST, ["rates", "accept"]) => Some(rate(sent, body).await?),
        (Method::POST, ["corrections"]) => Some(correction(sent, body)),
        _ => None,
    };
    Ok(question)
}

fn row(what: &str, now: impl ToString, then: impl ToString) -> [String; 3] {
    [what.to_owned(), now.to_string(), then.to_string()]
}

fn address(page: &str, sent: &Sent) -> String {
    format!("/console/{page}?environment={}", sent.environment)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("none")
}

/// Number of entries in a list of the admin API: `100+` if there are more than one page.
async fn count(sent: &Sent, path: &str, plural: &str) -> Result<String, ConsoleError> {
    let listed = sent.read(&format!("{path}?limit=100")).await?;
    let count = listed[plural].as_array().map_or(0, Vec::len);
    Ok(match listed["next_cursor"].is_null() {
        true => count.to_string(),
        false => format!("{count}+"),
    })
}

async fn merchant(sent: &Sent, id: &str, body: &Value) -> Result<Option<Question>, ConsoleError> {
    let (approval, force) = (body.get("live_approved"), body["force"] == json!(true));
    if approval.is_none() && !force {
        return Ok(None);
    }
    if approval.is_some() {
        check_role(&sent.visit.operator, Role::Admin)?;
    }
    let merchant = sent.read(&format!("/merchants/{id}")).await?;
    let name = text(&merchant["name"]);
    let back = address(&format!("merchants/{id}"), sent);
    let mut rows = Vec::new();
    if let Some(then) = approval {
        let word = |approved: &Value| match approved {
            Value::Bool(true) => "approved",
            _ => "not approved",
        };
        rows.push(row(
            "Live payments",
            word(&merchant["live_approved"]),
            word(then),
        ));
        let keys = count(sent, &format!("/merchants/{id}/keys"), "keys").await?;
        rows.push(row("Keys that this is about", &keys, &keys));
        let domains = merchant["domains"].as_array().map_or(0, Vec::len);
        rows.push(row("Verified domains", domains, domains));
    }
    if force {
        for (currency, rate) in body["fx_rates"].as_object().into_iter().flatten() {
            let now = text(&merchant["fx_rates"][currency]);
            rows.push(row(&format!("USD for 1 {currency}"), now, text(rate)));
        }
    }
    let (title, claim, button) = match approval {
        Some(Value::Bool(false)) => (
            format!("Withdraw live approval from {name}?"),
            "New live payments are refused at once. Payments in progress end where they are.",
            "Withdraw live approval",
        ),
        Some(_) => (
            format!("Approve {name} for live payments?"),
            "Payers can pay real money to this merchant at once.",
            "Approve for live payments",
        ),
        None => (
            format!("Use rates of {name} that differ by more than 20 %?"),
            "Amounts in USD of new payments use these rates at once.",
            "Use these rates",
        ),
    };
    Ok(Some(Question {
        title,
        claims: vec![claim.to_owned()],
        rows,
        button: button.to_owned(),
        keep: "Change nothing".into(),
        back,
    }))
}

async fn rollout(sent: &Sent, id: &str, body: &Value) -> Result<Question, ConsoleError> {
    let reseller = sent.read(&format!("/resellers/{id}")).await?;
    let path = format!("/resellers/{id}/delegations");
    let merchants = count(sent, &path, "delegations").await?;
    let word = |on: &Value| match on {
        Value::Bool(true) => "on",
        _ => "off",
    };
    let then = word(&body["enabled"]);
    Ok(Question {
        title: format!("Switch live rollout of {} {then}?", text(&reseller["name"])),
        claims: vec![format!(
            "The reseller {} create live payments for its {merchants} merchants.",
            if then == "on" { "may" } else { "may no longer" },
        )],
        rows: vec![
            row("Live rollout", word(&reseller["live_rollout"]), then),
            row("Merchants with a delegation", &merchants, &merchants),
        ],
        button: format!("Switch live rollout {then}"),
        keep: "Change nothing".into(),
        back: address("resellers", sent),
    })
}

async fn promote(sent: &Sent, slot: &str) -> Result<Question, ConsoleError> {
    let diff = sent.read(&format!("/plugins/{slot}/diff")).await;
    let diff = match diff {
        // Nothing to promote: the call itself says so.
        Err(ConsoleError::Refused(_)) => Value::Null,
        diff => diff?,
    };
    let plugins = sent.read("/plugins?limit=100").await?;
    let plugins = plugins["plugins"].as_array().cloned().unwrap_or_default();
    let plugin = plugins.iter().find(|plugin| plugin["slot"] == slot);
    let plugin = plugin.cloned().unwrap_or_default();
    let [active, candidate] = ["active", "candidate"].map(|side| text(&plugin[side]["digest"]));
    let short = |digest: &str| digest.get(..8).unwrap_or(digest).to_owned();
    let moved = diff["moved"].as_array().cloned().unwrap_or_default();
    let decisions = diff["decisions"].as_u64().unwrap_or_default();
    let claims = moved.iter().map(|moved| {
        format!(
            "Of the last {decisions} payments, {} with {} {} would have gone to {} instead of {}.",
            moved["payments"],
            text(&moved["amount"]),
            text(&moved["currency"]),
            text(&moved["to"]),
            text(&moved["from"]),
        )
    });
    let mut claims: Vec<String> = claims.collect();
    if claims.is_empty() {
        claims.push(format!(
            "Of the last {decisions} payments, none would have gone elsewhere."
        ));
    }
    let share = plugin["candidate"]["share"].as_u64().unwrap_or_default();
    Ok(Question {
        title: format!("Promote the candidate of {slot} for every payment?"),
        claims,
        rows: vec![
            row("Module", short(active), short(candidate)),
            row(
                "Share of payments that it decides",
                format!("{share} %"),
                "100 %",
            ),
            row("Decisions compared", decisions, decisions),
            row(
                "Different decisions",
                &diff["differing"],
                &diff["differing"],
            ),
        ],
        button: "Promote".into(),
        keep: "Keep the trial".into(),
        back: address(&format!("modules/{slot}"), sent),
    })
}

async fn redact_address(sent: &Sent, body: &Value) -> Result<Question, ConsoleError> {
    let preview = json!({ "email": body["email"], "preview": true });
    let found = sent
        .call(Method::POST, "/payments/redact", preview)
        .await?
        .body;
    let payments = found["payments"].as_array().map_or(0, Vec::len);
    let variants = found["variants"].as_array().map_or(0, Vec::len);
    Ok(Question {
        title: format!("Erase the personal data of {payments} payments?"),
        claims: vec![
            "E-mail address, metadata and description are erased. This cannot be taken back."
                .into(),
            format!("{variants} variants of the address are left as they are."),
        ],
        rows: vec![row(
            "Payments with personal data of this address",
            payments,
            0,
        )],
        button: format!("Erase data of {payments} payments"),
        keep: "Erase nothing".into(),
        back: address("payments", sent),
    })
}

async fn redact(sent: &Sent, id: &str) -> Result<Question, ConsoleError> {
    let history = sent.read(&format!("/payments/{id}")).await?;
    let payment = &history["payment"];
    Ok(Question {
        title: format!(
            "Erase the personal data of order {}?",
            text(&payment["order_id"])
        ),
        claims: vec![
            "E-mail address, metadata and description are erased. This cannot be taken back. \
             Money and timeline stay."
                .into(),
        ],
        rows: vec![
            row("Personal data", "kept", "erased"),
            row("Status", text(&payment["status"]), text(&payment["status"])),
        ],
        button: "Erase personal data".into(),
        keep: "Erase nothing".into(),
        back: address(&format!("payments/{id}"), sent),
    })
}

async fn vouch(sent: &Sent, id: &str) -> Result<Question, ConsoleError> {
    let history = sent.read(&format!("/payments/{id}")).await?;
    let payment = &history["payment"];
    let due = format!(
        "{} {}",
        text(&payment["amount"]),
        text(&payment["currency"])
    );
    let balances = history["balance"].as_array().cloned().unwrap_or_default();
    let mut rows: Vec<_> = balances
        .iter()
        .map(|balance| {
            let what = format!("Net, {} money", text(&balance["bucket"]));
            let net = format!("{} {}", text(&balance["net"]), text(&balance["currency"]));
            row(&what, &net, &net)
        })
        .collect();
    rows.push(row("Status", text(&payment["status"]), "completed"));
    Ok(Question {
        title: format!("Vouch for {due} of order {}?", text(&payment["order_id"])),
        claims: vec![
            "The payment completes without a report of the provider. This is shown permanently and \
             opens an item `unsettled`."
                .into(),
        ],
        rows,
        button: format!("Vouch for {due}"),
        keep: "Leave it in review".into(),
        back: address(&format!("payments/{id}"), sent),
    })
}

async fn account(sent: &Sent, id: &str, body: &Value) -> Result<Option<Question>, ConsoleError> {
    let accounts = sent.read("/providers?limit=100").await?;
    let accounts = accounts["providers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let account = accounts.iter().find(|account| account["id"] == id);
    let Some(account) = account.filter(|account| account["environment"] == "live") else {
        return Ok(None);
    };
    let word = |on: bool| if on { "on" } else { "off" };
    let now = account["enabled"] == json!(true);
    let then = match &body["enabled"] {
        Value::Bool(on) => *on,
        _ => account["file_enabled"] == json!(true),
    };
    let health = &account["health"];
    let methods = account["methods"].as_array().cloned().unwrap_or_default();
    let methods: Vec<&str> = methods.iter().filter_map(Value::as_str).collect();
    let claim = match then {
        true => format!("New attempts of {} may use {id}.", methods.join(", ")),
        false => format!(
            "{id} gets no new attempts of {}. Attempts in progress continue.",
            methods.join(", ")
        ),
    };
    let state = text(&health["state"]);
    Ok(Some(Question {
        title: format!("Switch {id} {}?", word(then)),
        claims: vec![claim],
        rows: vec![
            row("Account", word(now), word(then)),
            row("Health", state, state),
            row("Payment methods", methods.len(), methods.len()),
        ],
        button: format!("Switch {id} {}", word(then)),
        keep: format!("Leave it {}", word(now)),
        back: address("providers", sent),
    }))
}

async fn rate(sent: &Sent, body: &Value) -> Result<Question, ConsoleError> {
    let rates = sent.read("/rates").await?;
    let rates = rates["rates"].as_array().cloned().unwrap_or_default();
    let rate = rates
        .iter()
        .find(|rate| rate["source"] == body["source"] && rate["currency"] == body["currency"]);
    let rate = rate.cloned().unwrap_or_default();
    let currency = text(&body["currency"]).to_owned();
    Ok(Question {
        title: format!("Use the refused rate of {currency}?"),
        claims: vec!["It differs by more than 20 % from the rate before.".into()],
        rows: vec![row(
            &format!("Rate of {currency}, {}", text(&body["source"])),
            text(&rate["rate"]),
            text(&rate["refused"]["rate"]),
        )],
        button: "Use this rate".into(),
        keep: "Keep the rate before".into(),
        back: address("status", sent),
    })
}

fn correction(sent: &Sent, body: &Value) -> Question {
    let amount = format!("{} {}", text(&body["amount"]), text(&body["currency"]));
    let sign = match text(&body["effect"]) {
        "out" => "−",
        _ => "+",
    };
    let account = text(&body["provider_id"]);
    Question {
        title: format!("Book a correction of {sign}{amount} at {account}?"),
        claims: vec![
            "A movement is never changed or removed; only another correction undoes it.".into(),
        ],
        rows: vec![
            row("Movement", "none", format!("{sign}{amount}")),
            row(
                "Payment",
                text(&body["payment_id"]),
                text(&body["payment_id"]),
            ),
            row("Bucket", text(&body["bucket"]), text(&body["bucket"])),
        ],
        button: format!("Book {sign}{amount}"),
        keep: "Book nothing".into(),
        back: address("daybook", sent),
    }
}
