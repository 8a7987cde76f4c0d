//! What every page gets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{Request, Uri};
use kassette_domain::key::Environment;
use kassette_domain::operator::{Operator, Role};
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use serde_json::Value;
use tower::ServiceExt as _;

use super::reply::ConsoleError;
use super::session::{self, Visit};
use super::{Console, STYLE};
use crate::admin::SignedIn;
use crate::status::{Report, State};

/// Maximum size of an answer of the admin API, in bytes. Lists have at most 100 entries.
const MAX_ANSWER: usize = 64 << 20;

/// Data for a page: who reads it, for which environment, and the outcome of a form that it answers.
///
/// Templates extend `console/base.html` and have a field `context`.
pub(crate) struct Context {
    pub(super) console: Console,
    /// The signed-in operator.
    pub(crate) operator: Operator,
    /// Time of the sign-in.
    pub(crate) signed_in_at: Time,
    /// Value of the field `csrf` of every form.
    pub(crate) csrf: String,
    /// Environment of the page: the parameter, else live.
    pub(crate) environment: Environment,
    /// The parameter `environment`, if it is there.
    pub(crate) named_environment: Option<Environment>,
    /// Path without the query.
    pub(crate) path: String,
    /// Query parameters, `environment` included.
    pub(crate) parameters: Vec<(String, String)>,
    /// The report of `kassette status`, for the line on every page.
    pub(crate) status: Arc<Report>,
    /// The form that this page shows again, because it was refused.
    pub(crate) refused: Option<RefusedForm>,
    /// A new secret, which is shown once.
    pub(crate) shown_once: Option<ShownOnce>,
}

/// A refused form: the page that contains it shows it again, with status 422 or that of the refusal.
#[derive(Clone, Debug)]
pub(crate) struct RefusedForm {
    /// Path of the form's address, such as `/console/payments/ID/refunds`.
    pub(crate) action: String,
    /// The fields as they were sent, without `csrf` and `confirmed`.
    pub(crate) fields: Vec<(String, String)>,
    /// The refusal as a sentence.
    pub(crate) message: String,
    /// Name of the field at fault.
    pub(crate) field: Option<String>,
}

impl RefusedForm {
    /// The sentence of a form's field. Empty for other forms and fields.
    pub(crate) fn error_at(&self, action: &str, field: &str) -> &str {
        match self.action == action && self.field.as_deref() == Some(field) {
            true => &self.message,
            false => "",
        }
    }

    /// What was typed into a form's field. Empty for other forms.
    pub(crate) fn typed(&self, action: &str, field: &str) -> &str {
        let mut fields = self.fields.iter().filter(|_| self.action == action);
        let found = fields.find(|(name, _)| name == field);
        found.map_or("", |(_, value)| value)
    }
}

/// New credentials in the answer to a form.
#[derive(Clone, Debug)]
pub(crate) struct ShownOnce {
    /// Names and values, such as `key` and `kp_live_…`.
    pub(crate) values: Vec<(String, String)>,
}

impl Context {
    /// The gateway, for what the admin API does not show.
    pub(crate) fn gateway(&self) -> &Gateway {
        self.console.gateway()
    }

    /// Whether the operator has at least this role: `context.may("operator")`.
    pub(crate) fn may(&self, role: &str) -> bool {
        match role {
            "viewer" => true,
            "operator" => self.operator.role >= Role::Operator,
            _ => self.operator.role >= Role::Admin,
        }
    }

    /// Name of the role.
    pub(crate) fn role(&self) -> &'static str {
        self.operator.role.as_str()
    }

    /// `live` or `test`.
    pub(crate) fn environment_name(&self) -> &'static str {
        match self.environment {
            Environment::Live => "live",
            Environment::Test => "test",
        }
    }

    /// Path of the stylesheet.
    pub(crate) fn style(&self) -> &'static str {
        &STYLE.path
    }

    /// The current time of the gateway.
    pub(crate) fn now(&self) -> Time {
        self.gateway().clock().now()
    }

    /// Number of parts that are well.
    pub(crate) fn well(&self) -> usize {
        let parts = self.status.parts.iter();
        parts.filter(|part| part.state == State::Ok).count()
    }

    /// The value of a query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// Requires that the address names the object's environment.
    ///
    /// # Errors
    /// A redirect to the same address with that environment.
    pub(crate) fn must_be_in(&self, environment: Environment) -> Result<(), ConsoleError> {
        if self.named_environment == Some(environment) {
            return Ok(());
        }
        Err(ConsoleError::SeeOther(self.address_in(environment)))
    }

    /// This address in another environment, for the switch at the top.
    pub(crate) fn address_in(&self, environment: Environment) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &self.parameters {
            if name != "environment" {
                query.append_pair(name, value);
            }
        }
        let name = match environment {
            Environment::Live => "live",
            Environment::Test => "test",
        };
        query.append_pair("environment", name);
        format!("{}?{}", self.path, query.finish())
    }

    /// [`Context::address_in`] for live, as templates call it.
    pub(crate) fn live_address(&self) -> String {
        self.address_in(Environment::Live)
    }

    /// [`Context::address_in`] for test, as templates call it.
    pub(crate) fn test_address(&self) -> String {
        self.address_in(Environment::Test)
    }

    /// Answers a GET call of the admin API as the signed-in operator: `context.read("/payments/ID")`.
    ///
    /// # Errors
    /// The refusal of the call, which the console shows as a page: 404 for an unknown object.
    pub(crate) async fn read(&self, path_and_query: &str) -> Result<Value, ConsoleError> {
        let request = Request::builder().uri(path_and_query).body(Body::empty());
        let request = request.map_err(ConsoleError::internal)?;
        let answer = self.console.call(&self.operator, request).await?;
        Ok(answer.body)
    }
}

/// An answer of the admin API to a call that it accepted.
pub(super) struct Answer {
    pub(super) status: http::StatusCode,
    /// `Null` if there is none, or if it is not JSON.
    pub(super) body: Value,
}

impl Console {
    /// Calls the admin API as an operator.
    pub(super) async fn call(
        &self,
        operator: &Operator,
        mut request: Request<Body>,
    ) -> Result<Answer, ConsoleError> {
        request.extensions_mut().insert(SignedIn(operator.clone()));
        let Ok(response) = self.inner.calls.clone().oneshot(request).await;
        let (head, body) = response.into_parts();
        let bytes = to_bytes(body, MAX_ANSWER).await;
        let bytes = bytes.map_err(ConsoleError::internal)?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if head.status.is_success() {
            let status = head.status;
            return Ok(Answer { status, body });
        }
        Err(ConsoleError::refused(head, &body))
    }
}

impl FromRequestParts<Console> for Context {
    type Rejection = ConsoleError;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &Console,
    ) -> Result<Self, ConsoleError> {
        let visit = session::of_request(parts, console).await?;
        let mut context = Self::new(console, visit, &parts.uri).await?;
        context.refused = parts.extensions.get().cloned();
        context.shown_once = parts.extensions.get().cloned();
        Ok(context)
    }
}

impl Context {
    /// The context of an address.
    pub(super) async fn new(
        console: &Console,
        visit: Visit,
        uri: &Uri,
    ) -> Result<Self, ConsoleError> {
        let query = uri.query().unwrap_or_default();
        let parameters: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let named = parameters.iter().filter(|(name, _)| name == "environment");
        let named: Vec<_> = named.map(|(_, value)| &**value).collect();
        let named_environment = match named[..] {
            [] => None,
            ["live"] => Some(Environment::Live),
            ["test"] => Some(Environment::Test),
            _ => return Err(ConsoleError::invalid("environment: must be live or test")),
        };
        Ok(Self {
            console: console.clone(),
            operator: visit.operator,
            signed_in_at: visit.session.created_at,
            csrf: visit.csrf,
            environment: named_environment.unwrap_or(Environment::Live),
            named_environment,
            path: uri.path().to_owned(),
            parameters,
            status: console.report().await,
            refused: None,
            shown_once: None,
        })
    }
}

/// Maximum age of the status on pages. A report reads up to a thousand rows.
const STATUS_AGE: Duration = Duration::from_secs(1);

impl Console {
    /// The report of the gateway's status. Pages at the same time share one.
    async fn report(&self) -> Arc<Report> {
        let mut kept = self.inner.report.lock().await;
        if let Some((at, report)) = &*kept
            && at.elapsed() < STATUS_AGE
        {
            return Arc::clone(report);
        }
        let report = Arc::new(self.inner.admin.reporter().report().await);
        *kept = Some((Instant::now(), Arc::clone(&report)));
        report
    }
}
