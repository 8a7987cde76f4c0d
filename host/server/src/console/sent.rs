//! A form that passed the checks of its sender, and the calls that it makes.

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use kassette_domain::operator::{Operator, Role};
use serde_json::Value;

use super::Console;
use super::context::{Answer, Context, ShownOnce};
use super::form::{Form, REASON};
use super::reply::{ConsoleError, Refusal};
use super::session::Visit;

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

/// The result of a form.
pub(super) enum Outcome {
    Response(Response),
    /// The page at an address shows new secrets.
    Page {
        address: String,
        once: ShownOnce,
    },
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

pub(super) fn invalid(field: &str, message: &str) -> ConsoleError {
    ConsoleError::Refused(Refusal {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        message: message.to_owned(),
        field: Some(field.to_owned()),
        retry_after: None,
    })
}

impl Sent {
    /// The context of a page that answers this form, with the address of the page about the form's object.
    pub(super) async fn context(&self, page: &str) -> Result<Context, ConsoleError> {
        let visit = Visit {
            operator: self.visit.operator.clone(),
            session: self.visit.session.clone(),
            csrf: self.visit.csrf.clone(),
        };
        let page = page.parse().map_err(ConsoleError::internal)?;
        Context::new(&self.console, visit, &page).await
    }

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

    /// Uploads a module with this form's mode and reason.
    pub(super) async fn upload(&self, path: &str, file: Bytes) -> Result<Answer, ConsoleError> {
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
