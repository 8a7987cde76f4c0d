//! Forms. Each becomes the call of the admin API that its address names, made as the signed-in operator.
//!
//! The order of refusals: no session (303), foreign origin or wrong CSRF token (403), role (403), then whatever
//! the call refuses. A refused form is shown again by the page that contains it.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_TYPE, HOST, REFERER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use kassette_domain::operator::{Operator, Role};
use kassette_runtime::MAX_MODULE_BYTES;
use serde_json::Value;

use super::context::{Answer, RefusedForm, ShownOnce};
use super::reply::{ConsoleError, Refusal, see_other};
use super::session::{self, Visit};
use super::{Console, confirm, multipart, several};
use crate::admin::{AdminCall, audit_text};

/// Maximum size of a form without a file, in bytes. The largest text is a merchant's logo.
const MAX_FORM: usize = 1 << 20;
/// Maximum size of a form with a file.
const MAX_UPLOAD: usize = MAX_MODULE_BYTES + MAX_FORM;
/// Maximum number of fields.
const MAX_FIELDS: usize = 1000;
/// Addresses of forms that are not calls of the admin API.
const OWN: [&str; 2] = ["/console/sign-in", "/console/sign-out"];
/// Fields of the console itself.
const CSRF: &str = "csrf";
pub(super) const CONFIRMED: &str = "confirmed";
const REASON: &str = "reason";
/// Names of secrets in the answers that contain a new one.
const SECRETS: [&str; 4] = ["key", "token", "secret", "code"];

/// The fields of a form.
pub(super) struct Form {
    fields: Vec<(String, String)>,
    file: Option<Bytes>,
}

impl Form {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// 400, 408, 413 or 503 if it cannot be read.
    pub(super) async fn read(parts: &Parts, body: Body) -> Result<Self, ConsoleError> {
        let media_type = parts.headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok());
        let boundary = media_type.and_then(multipart::boundary);
        let most = match boundary {
            Some(_) => MAX_UPLOAD,
            None => MAX_FORM,
        };
        let bytes = crate::web::body::read(&parts.headers, body, most).await;
        let bytes = bytes.map_err(ConsoleError::of_body)?;
        let form = match boundary {
            Some(boundary) => multipart::read(&bytes, &boundary),
            None => Some((
                form_urlencoded::parse(&bytes)
                    .into_owned()
                    .take(MAX_FIELDS + 1)
                    .collect(),
                None,
            )),
        };
        match form {
            Some((fields, file)) if fields.len() <= MAX_FIELDS => Ok(Self { fields, file }),
            _ => {
                let why = format!("This is not a form with at most {MAX_FIELDS} fields.");
                Err(ConsoleError::of(StatusCode::BAD_REQUEST, why))
            }
        }
    }

    /// The first value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// All values of a field.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter(|(known, _)| known == name);
        fields.map(|(_, value)| &**value).collect()
    }

    /// The fields, without those of the console itself.
    pub(super) fn own_fields(&self) -> impl Iterator<Item = &(String, String)> {
        let fields = self.fields.iter();
        fields.filter(|(name, _)| ![CSRF, CONFIRMED].contains(&&**name))
    }

    /// The fields by name, in the order in which they first occur, without the reason.
    fn grouped(&self) -> Vec<(String, Vec<String>)> {
        let mut grouped: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in self.own_fields().filter(|(name, _)| name != REASON) {
            match grouped.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) => values.push(value.clone()),
                None => grouped.push((name.clone(), vec![value.clone()])),
            }
        }
        grouped
    }
}

/// A form that passed the checks of its sender.
pub(super) struct Sent {
    pub(super) console: Console,
    pub(super) visit: Visit,
    pub(super) form: Form,
    /// Path of the form's address.
    pub(super) action: String,
    /// `live` or `test`, from the address.
    pub(super) environment: &'static str,
    pub(super) reason: String,
}

/// Handles the forms of the console; other requests continue to its pages.
pub(super) async fn handle(
    State(console): State<Console>,
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
        ("", Some(usual)) => usual,
        (given, _) => given,
    };
    let reason = reason.to_owned();
    let sent = Sent {
        reason: reason.clone(),
        console,
        visit,
        action: action.clone(),
        environment,
        form,
    };
    let outcome = match (&call, audit_text(&reason)) {
        (_, Err(_)) if reason.is_empty() => Err(invalid(REASON, "reason: is required")),
        (_, Err(why)) => Err(invalid(REASON, &format!("reason: {why}"))),
        (None, Ok(_)) => several::act(&sent).await,
        (Some((call, path)), Ok(_)) => act(&sent, call, path).await,
    };
    match outcome {
        Ok(Outcome::Response(response)) => Ok(response),
        Ok(Outcome::Page { address, once }) => {
            let mut page = Request::new(Body::empty());
            page.extensions_mut().insert(once);
            Ok(show(&parts, next, page, &address).await)
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
            let mut response = show(&parts, next, page, &address).await;
            if response.status() != StatusCode::OK {
                return Err(ConsoleError::Refused(refusal));
            }
            *response.status_mut() = refusal.status;
            Ok(response)
        }
        Err(error) => Err(error),
    }
}

/// The result of a form.
pub(super) enum Outcome {
    Response(Response),
    /// The page at an address shows new secrets.
    Page {
        address: String,
        once: ShownOnce,
    },
}

/// Whether the page with the form explains a refusal better than a page of its own.
fn is_shown_in_the_form(refusal: &Refusal) -> bool {
    matches!(
        refusal.status,
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::CONFLICT | StatusCode::BAD_REQUEST
    )
}

/// Shows a page of the console as the answer to a form.
async fn show(parts: &Parts, next: Next, mut page: Request, address: &str) -> Response {
    let Ok(uri) = address.parse::<Uri>() else {
        return ConsoleError::internal("the address of a page").into_response();
    };
    *page.uri_mut() = uri;
    *page.headers_mut() = parts.headers.clone();
    next.run(page).await
}

/// The call of an address, and its path.
fn call(path: &str) -> Option<(&'static AdminCall, &str)> {
    let (path, methods): (&str, &[Method]) = match path.rsplit_once('/') {
        Some((path, "change")) => (path, &[Method::PATCH, Method::PUT]),
        Some((path, "delete")) => (path, &[Method::DELETE]),
        _ => (path, &[Method::POST]),
    };
    AdminCall::find(path, methods).map(|call| (call, path))
}

/// # Errors
/// 403 if the operator has a lesser role.
pub(super) fn check_role(operator: &Operator, least: Role) -> Result<(), ConsoleError> {
    match operator.role >= least {
        true => Ok(()),
        false => {
            let why = format!("This needs the role {}.", least.as_str());
            Err(ConsoleError::forbidden(&why))
        }
    }
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

pub(super) fn invalid(field: &str, message: &str) -> ConsoleError {
    ConsoleError::Refused(Refusal {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        message: message.to_owned(),
        code: "invalid_field".into(),
        field: Some(field.to_owned()),
        retry_after: None,
    })
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

impl Sent {
    /// Makes a call with this form's reason.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<Answer, ConsoleError> {
        let request = self.request(method, path)?;
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()));
        let request = request.map_err(ConsoleError::internal)?;
        self.console.call(&self.visit.operator, request).await
    }

    /// Reads like [`super::context::Context::read`].
    pub(super) async fn read(&self, path_and_query: &str) -> Result<Value, ConsoleError> {
        let request = Request::builder().uri(path_and_query).body(Body::empty());
        let request = request.map_err(ConsoleError::internal)?;
        let answer = self.console.call(&self.visit.operator, request).await?;
        Ok(answer.body)
    }

    async fn upload(&self, path: &str, file: Bytes) -> Result<Answer, ConsoleError> {
        let mode = self.form.get("mode").filter(|mode| !mode.is_empty());
        let query = mode.map_or_else(String::new, |mode| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("mode", mode);
            format!("?{}", query.finish())
        });
        let request = self.request(Method::POST, &format!("{path}{query}"))?;
        let request = request
            .header(CONTENT_TYPE, "application/wasm")
            .body(Body::from(file));
        let request = request.map_err(ConsoleError::internal)?;
        self.console.call(&self.visit.operator, request).await
    }

    /// A request with the person and the reason for the audit log.
    fn request(&self, method: Method, path: &str) -> Result<http::request::Builder, ConsoleError> {
        let header = |text: &str| HeaderValue::from_bytes(text.as_bytes());
        let actor = header(&self.visit.operator.name).map_err(ConsoleError::internal)?;
        let reason =
            header(&self.reason).map_err(|_| invalid(REASON, "reason: must be one line"))?;
        let request = Request::builder().method(method).uri(path);
        let (of_actor, of_reason) = (
            HeaderName::from_static("x-audit-actor"),
            HeaderName::from_static("x-audit-reason"),
        );
        Ok(request.header(of_actor, actor).header(of_reason, reason))
    }
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
