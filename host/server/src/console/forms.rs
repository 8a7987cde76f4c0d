//! Forms. Each becomes the call of the admin API that its address names, made as the signed-in operator.
//!
//! The order of refusals: no session (303), foreign origin or wrong CSRF token (403), role (403), then whatever
//! the call refuses. A refused form is shown again by the page that contains it.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{HOST, REFERER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use kassette_domain::operator::Role;
use serde_json::Value;
use tower::ServiceExt as _;

use super::context::{RefusedForm, ShownOnce};
use super::form::{CSRF, Form, REASON};
use super::reply::{ConsoleError, Refusal, see_other};
use super::sent::{Outcome, Sent, check_role, invalid};
use super::{Console, confirm, session, several};
use crate::admin::{AdminCall, audit_text};

/// Addresses of forms that are not calls of the admin API.
const OWN: [&str; 2] = ["/console/sign-in", "/console/sign-out"];
/// Names of secrets in the answers that contain a new one.
const SECRETS: [&str; 4] = ["key", "token", "secret", "code"];

/// State of [`handle`].
#[derive(Clone)]
pub(super) struct Forms {
    pub(super) console: Console,
    /// The pages, without this layer.
    pub(super) pages: Router,
}

/// Handles the forms of the console; other requests continue to its pages.
pub(super) async fn handle(
    State(Forms { console, pages }): State<Forms>,
    request: Request,
    next: Next,
) -> Result<Response, ConsoleError> {
    if request.method() != Method::POST || OWN.contains(&request.uri().path()) {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let visit = session::of_request(&parts, &console).await?;
    session::check_origin(&parts, &console)?;
    let form = Form::read(&parts, body).await?;
    visit.check_csrf(form.get(CSRF))?;
    let action = parts.uri.path().to_owned();
    let path = action.strip_prefix("/console").unwrap_or_default();
    let call = (path != several::PATH)
        .then(|| call(path).ok_or_else(ConsoleError::not_found))
        .transpose()?;
    let least = call.as_ref().map_or(Role::Operator, |(call, _)| call.role);
    check_role(&visit.operator, least)?;
    let environment = environment(&parts.uri)?;
    let given = form.get(REASON).unwrap_or_default().trim();
    let reason = match (given, usual_reason(path)) {
        ("", Some(usual)) => usual.to_owned(),
        (given, _) => given.to_owned(),
    };
    let sent = Sent {
        reason,
        console,
        visit,
        action: action.clone(),
        environment,
        form,
    };
    let outcome = match (&call, audit_text(&sent.reason)) {
        (_, Err(_)) if sent.reason.is_empty() => Err(invalid(REASON, "reason: is required")),
        (_, Err(why)) => Err(invalid(REASON, &format!("reason: {why}"))),
        (None, Ok(_)) => several::act(&sent).await,
        (Some((call, path)), Ok(_)) => act(&sent, call, path).await,
    };
    match outcome {
        Ok(Outcome::Response(response)) => Ok(response),
        Ok(Outcome::Page { address, once }) => {
            let mut page = Request::new(Body::empty());
            page.extensions_mut().insert(once);
            Ok(show(&parts, pages, page, &address).await)
        }
        Err(ConsoleError::Refused(refusal)) if is_shown_in_the_form(&refusal) => {
            let address = match page_of_form(&parts, &sent) {
                Some(address) => address,
                None => object_of(&sent, path, &Value::Null).await,
            };
            let refused = RefusedForm {
                action,
                fields: sent.form.own_fields().cloned().collect(),
                message: refusal.message.clone(),
                field: refusal.field.clone(),
            };
            let mut page = Request::new(Body::empty());
            page.extensions_mut().insert(refused);
            let mut response = show(&parts, pages, page, &address).await;
            if response.status() != StatusCode::OK {
                return Err(ConsoleError::Refused(refusal));
            }
            *response.status_mut() = refusal.status;
            Ok(response)
        }
        Err(error) => Err(error),
    }
}

/// Whether the page with the form explains a refusal better than a page of its own.
fn is_shown_in_the_form(refusal: &Refusal) -> bool {
    matches!(
        refusal.status,
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::CONFLICT | StatusCode::BAD_REQUEST
    )
}

/// Shows a page of the console as the answer to a form.
async fn show(parts: &Parts, pages: Router, mut page: Request, address: &str) -> Response {
    let Ok(uri) = address.parse::<Uri>() else {
        return ConsoleError::internal("the address of a page").into_response();
    };
    *page.uri_mut() = uri;
    *page.headers_mut() = parts.headers.clone();
    pages.oneshot(page).await.into_response()
}

/// The call of an address, and its path.
fn call(path: &str) -> Option<(&'static AdminCall, &str)> {
    let (call, path) = match path.rsplit_once('/') {
        Some((path, "change")) => (AdminCall::find(path, &[Method::PATCH, Method::PUT]), path),
        Some((path, "delete")) => (AdminCall::find(path, &[Method::DELETE]), path),
        _ => (AdminCall::find(path, &[Method::POST]), path),
    };
    call.map(|call| (call, path))
}

fn environment(uri: &Uri) -> Result<&'static str, ConsoleError> {
    let query = uri.query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let named = pairs.find(|(name, _)| name == "environment");
    match named.as_ref().map(|(_, value)| &**value) {
        None | Some("live") => Ok("live"),
        Some("test") => Ok("test"),
        Some(_) => Err(ConsoleError::invalid("environment: must be live or test")),
    }
}

/// Reason for changes that repeat what happens anyway.
fn usual_reason(path: &str) -> Option<&'static str> {
    let act = path.rsplit('/').next();
    match act {
        Some("query") => Some("Queried in the console"),
        Some("redeliver") => Some("Redelivered in the console"),
        _ => None,
    }
}

async fn act(sent: &Sent, call: &'static AdminCall, path: &str) -> Result<Outcome, ConsoleError> {
    let body = call.body(&sent.form.grouped());
    if let Some(question) = confirm::question(sent, call, path, &body).await? {
        if let Some(asked) = confirm::ask_unless_answered(sent, question, &body).await? {
            return Ok(Outcome::Response(asked));
        }
    }
    let answer = match (&sent.form.file, call.has_file) {
        (Some(file), true) => sent.upload(path, file.clone()).await?,
        _ => sent.call(call.method.clone(), path, body).await?,
    };
    let address = object_of(sent, path, &answer.body).await;
    let secrets: Vec<_> = SECRETS
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), answer.body[name].as_str()?.to_owned())))
        .collect();
    let is_new = answer.status == StatusCode::CREATED || answer.body.get("secret").is_some();
    if is_new && !secrets.is_empty() {
        let once = ShownOnce { values: secrets };
        return Ok(Outcome::Page { address, once });
    }
    Ok(Outcome::Response(see_other(&address)))
}

/// The page from which a form was sent, if the browser says so.
fn page_of_form(parts: &Parts, sent: &Sent) -> Option<String> {
    let referer = single(&parts.headers, &REFERER)?.parse::<Uri>().ok()?;
    let host = single(&parts.headers, &HOST).or_else(|| Some(parts.uri.authority()?.as_str()))?;
    let is_own = referer.authority()?.as_str() == host;
    let page = referer.path_and_query().filter(|_| is_own)?;
    let is_page = page.path().starts_with("/console/") && page.path() != sent.action;
    (is_page && !OWN.contains(&page.path())).then(|| page.to_string())
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Address of the page about the object of a call.
async fn object_of(sent: &Sent, path: &str, answer: &Value) -> String {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let page = match parts[..] {
        ["payments", "redact"] => "payments".to_owned(),
        ["payments", id, ..] => format!("payments/{id}"),
        ["refunds", id, ..] => match payment_of_refund(sent, id, answer).await {
            Some(payment) => format!("payments/{payment}"),
            None => "payments".to_owned(),
        },
        ["deliveries", id, ..] => match payment_of_delivery(sent, id).await {
            Some(payment) => format!("payments/{payment}"),
            None => "deliveries".to_owned(),
        },
        ["corrections" | "finance", ..] => "daybook".to_owned(),
        ["merchants"] => match answer["merchant_id"].as_u64() {
            Some(id) => format!("merchants/{id}"),
            None => "merchants".to_owned(),
        },
        ["merchants", id, ..] => format!("merchants/{id}"),
        ["keys", id, ..] => owner_of_key(sent, id).await,
        ["webhook-endpoints", id, ..] => owner_of_endpoint(sent, id).await,
        ["plugins", slot, ..] => format!("modules/{slot}"),
        [
            list @ ("work" | "resellers" | "providers" | "operators"),
            ..,
        ] => list.to_owned(),
        _ => "status".to_owned(),
    };
    format!("/console/{page}?environment={}", sent.environment)
}

async fn payment_of_refund(sent: &Sent, id: &str, answer: &Value) -> Option<String> {
    if let Some(payment) = answer["payment_id"].as_str() {
        return Some(payment.to_owned());
    }
    let found = sent.read(&format!("/find?q={id}")).await.ok()?;
    Some(found["found"][0]["payment_id"].as_str()?.to_owned())
}

async fn payment_of_delivery(sent: &Sent, id: &str) -> Option<String> {
    let delivery = sent.read(&format!("/deliveries/{id}")).await.ok()?;
    Some(delivery["payment_id"].as_str()?.to_owned())
}

async fn owner_of_key(sent: &Sent, id: &str) -> String {
    use kassette_domain::key::KeyOwner;

    let id = kassette_domain::id::KeyId::parse(id);
    let key = match id {
        Ok(id) => sent.console.gateway().store().key_by_id(id).await,
        Err(_) => Ok(None),
    };
    match key.ok().flatten().map(|key| key.owner) {
        Some(KeyOwner::Merchant(id)) => format!("merchants/{id}"),
        Some(KeyOwner::Reseller(_)) => "resellers".to_owned(),
        None => "merchants".to_owned(),
    }
}

async fn owner_of_endpoint(sent: &Sent, id: &str) -> String {
    let endpoint = sent.read(&format!("/webhook-endpoints/{id}")).await;
    let endpoint = endpoint.unwrap_or_default();
    match (
        endpoint["merchant_id"].as_u64(),
        endpoint["reseller_id"].as_u64(),
    ) {
        (Some(id), _) => format!("merchants/{id}"),
        (None, Some(_)) => "resellers".to_owned(),
        (None, None) => "deliveries".to_owned(),
    }
}
