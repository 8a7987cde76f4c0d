//! Tests of the pages with a backend instead of a gateway.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderMap, Request, StatusCode};
use kassette_domain::attempt::AttemptState;
use kassette_domain::brand::Logo;
use kassette_domain::delegation::{Delegation, DelegationStatus};
use kassette_domain::id::{AccountId, MerchantId, ResellerId};
use kassette_domain::invitation::NotAnswered;
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::method::MethodId;
use kassette_domain::order::OrderId;
use kassette_domain::payment::{CheckoutMode, Status};
use kassette_domain::provider::{Instructions, PayerAction, Question, QuestionKind};
use kassette_domain::routing::MethodDescription;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_gateway::checkout::{CheckoutView, ReturnView};
use kassette_gateway::reseller::InvitationView;
use kassette_gateway::start::{Start, StartError, StartedPayment};
use kassette_store::{Answered, Fault};
use tower::ServiceExt as _;

use super::backend::{Backend, BoxFuture};
use super::fixtures::{
    self, BACK, EMAIL, INVITATION_TOKEN, NOW, RETURN_TOKEN, TOKEN, attempt, offer, view,
};
use super::{PagesState, router};
use crate::proxies::Proxies;

mod guards;
mod invitations;
mod sentences;
mod showing;

/// The valid consent code.
const CODE: &str = "km_right";
const ORIGIN: &str = "http://127.0.0.1:8080";

/// The outcome of a start.
type Starting = fn(&CheckoutView) -> Result<StartedPayment, StartError>;

/// A backend with one payment, the outcome of a start, and a log of calls.
struct OnePayment {
    view: CheckoutView,
    start: Starting,
    /// Duration of a start, an answer or a closing.
    takes: Duration,
    public_url: &'static str,
    now: Mutex<Time>,
    /// Status of the invitation.
    standing: Mutex<DelegationStatus>,
    asked: Mutex<Vec<String>>,
}

impl OnePayment {
    fn note(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }

    fn started(&self) -> Result<StartedPayment, StartError> {
        (self.start)(&self.view)
    }

    /// Outcome of an answer that leads to the status `next`, which is `None` for a wrong code.
    fn answered(&self, token: &str, next: Option<DelegationStatus>) -> Answered {
        let mut standing = self.standing.lock().unwrap();
        if token != INVITATION_TOKEN {
            return Answered::Unknown;
        }
        if *standing != DelegationStatus::Invited {
            return Answered::Not(NotAnswered::Over);
        }
        let Some(next) = next else {
            return Answered::Not(NotAnswered::WrongCode);
        };
        *standing = next;
        let granted = Delegation::authorized(ResellerId(1), MerchantId(1), None, NOW);
        match next {
            DelegationStatus::Authorized => Answered::Accepted(granted),
            _ => Answered::Declined,
        }
    }
}

impl Backend for OnePayment {
    fn logo(&self, merchant: MerchantId) -> BoxFuture<'_, Result<Option<Logo>, Fault>> {
        let known = merchant == self.view.merchant.id;
        let logo = self.view.merchant.brand.logo.clone();
        Box::pin(async move { Ok(logo.filter(|_| known)) })
    }

    fn checkout<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckoutView>, Fault>> {
        Box::pin(async move { Ok((token == TOKEN).then(|| self.view.clone())) })
    }

    fn start(&self, start: Start) -> BoxFuture<'_, Result<StartedPayment, StartError>> {
        let seen = start.seen.as_ref().map_or("-", AccountId::as_str);
        let from = start
            .payer
            .ip
            .map_or(String::new(), |ip| format!(" from {ip}"));
        self.note(format!("start {} {seen}{from}", start.method));
        Box::pin(async move {
            tokio::time::sleep(self.takes).await;
            self.started()
        })
    }

    fn answer<'a>(
        &'a self,
        _token: &'a str,
        answers: Vec<(String, Secret)>,
    ) -> BoxFuture<'a, Result<StartedPayment, StartError>> {
        let answers: Vec<String> = answers
            .iter()
            .map(|(name, value)| format!("{name}={}", value.expose()))
            .collect();
        self.note(format!("answer {}", answers.join(",")));
        Box::pin(async move {
            tokio::time::sleep(self.takes).await;
            self.started()
        })
    }

    fn abandon<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<PaymentAggregate>, Fault>> {
        self.note("abandon".into());
        let aggregate = (token == TOKEN).then(|| self.view.aggregate.clone());
        Box::pin(async move {
            tokio::time::sleep(self.takes).await;
            Ok(aggregate)
        })
    }

    fn returned<'a>(
        &'a self,
        token: &'a str,
        query: &'a str,
    ) -> BoxFuture<'a, Result<Option<ReturnView>, Fault>> {
        self.note(format!("returned {query}"));
        let mut attempts = self.view.aggregate.attempts.iter().rev();
        let attempt = attempts.find(|attempt| attempt.return_token.expose() == token);
        let attempt = attempt.cloned();
        let checkout = self.view.clone();
        Box::pin(async move { Ok(attempt.map(|attempt| ReturnView { attempt, checkout })) })
    }

    fn invitation<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<InvitationView>, Fault>> {
        let standing = *self.standing.lock().unwrap();
        let known = token == INVITATION_TOKEN;
        Box::pin(async move { Ok(known.then(|| fixtures::invited(standing))) })
    }

    fn accept_invitation<'a>(
        &'a self,
        token: &'a str,
        code: Secret,
    ) -> BoxFuture<'a, Result<Answered, Fault>> {
        self.note(format!("accept {}", code.expose()));
        let right = (code.expose() == CODE).then_some(DelegationStatus::Authorized);
        Box::pin(async move { Ok(self.answered(token, right)) })
    }

    fn decline_invitation<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Answered, Fault>> {
        self.note("decline".into());
        Box::pin(async move { Ok(self.answered(token, Some(DelegationStatus::Declined))) })
    }

    fn method(&self, method: MethodId) -> Option<Arc<MethodDescription>> {
        let described = offer(method, "iDEAL", None).description;
        method.is_specified().then_some(described)
    }

    fn provider_name(&self, _account: &AccountId) -> Option<String> {
        Some("Sandbox".into())
    }

    fn public_url(&self) -> String {
        self.public_url.into()
    }

    fn plain_loopback(&self) -> bool {
        self.public_url.starts_with("http://")
    }

    fn now(&self) -> Time {
        *self.now.lock().unwrap()
    }
}

/// A received page.
struct Seen {
    status: StatusCode,
    headers: HeaderMap,
    html: String,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    #[track_caller]
    fn says(&self, text: &str) {
        assert!(self.html.contains(text), "{text} is not in {}", self.html);
    }

    #[track_caller]
    fn omits(&self, text: &str) {
        assert!(!self.html.contains(text), "{text} is in {}", self.html);
    }
}

struct Shop {
    backend: Arc<OnePayment>,
    router: Router,
}

fn declined(_: &CheckoutView) -> Result<StartedPayment, StartError> {
    Err(StartError::Declined)
}

fn shop(view: CheckoutView) -> Shop {
    shop_at(view, declined, ORIGIN)
}

fn shop_at(view: CheckoutView, start: Starting, public_url: &'static str) -> Shop {
    shop_that_takes(Duration::ZERO, view, start, public_url)
}

fn shop_that_takes(
    takes: Duration,
    view: CheckoutView,
    start: Starting,
    public_url: &'static str,
) -> Shop {
    let backend = Arc::new(OnePayment {
        view,
        start,
        takes,
        public_url,
        now: Mutex::new(NOW),
        standing: Mutex::new(DelegationStatus::Invited),
        asked: Mutex::default(),
    });
    let state = PagesState {
        backend: Arc::clone(&backend) as Arc<dyn Backend>,
        trusted_proxies: Proxies::default(),
        limiter: None,
    };
    Shop {
        backend,
        router: router(state),
    }
}

impl Shop {
    async fn send(&self, request: Request<Body>) -> Seen {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        Seen {
            status: parts.status,
            headers: parts.headers,
            html: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Seen {
        self.send(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    async fn get_in(&self, language: &str, path: &str) -> Seen {
        let request = Request::get(path).header("accept-language", language);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    async fn checkout(&self) -> Seen {
        self.get(&format!("/checkout/{TOKEN}")).await
    }

    async fn returned(&self) -> Seen {
        self.get(&format!("/return/{RETURN_TOKEN}")).await
    }

    async fn invitation(&self) -> Seen {
        self.get(&format!("/invitation/{INVITATION_TOKEN}")).await
    }

    async fn decide(&self, body: &str) -> Seen {
        self.form(&format!("/invitation/{INVITATION_TOKEN}"), body)
            .await
    }

    async fn post(&self, what: &str, body: &str) -> Seen {
        self.form(&format!("/checkout/{TOKEN}/{what}"), body).await
    }

    async fn form(&self, path: &str, body: &str) -> Seen {
        let request = Request::post(path)
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(body.to_owned()))
            .unwrap();
        self.send(request).await
    }

    fn asked(&self) -> Vec<String> {
        self.backend.asked.lock().unwrap().clone()
    }
}

fn asking() -> PayerAction {
    let question = |name: &str, kind, required| Question {
        name: name.into(),
        label: format!("Your <{name}>"),
        kind,
        required,
        choices: vec![],
    };
    PayerAction::Ask(vec![
        question("email", QuestionKind::Email, true),
        question("phone", QuestionKind::Phone, false),
    ])
}

fn showing() -> PayerAction {
    PayerAction::Show(Instructions {
        text: "Send the amount.".into(),
        details: vec![("Address".into(), "bc1q".into())],
        qr: Some("bitcoin:bc1q".into()),
        link: Some("bitcoin:bc1q".into()),
    })
}

fn posting() -> PayerAction {
    PayerAction::Post {
        url: "https://pay.vendor.example/post".into(),
        fields: vec![("pa\"req".into(), "<x>".into())],
    }
}

fn pending(action: PayerAction) -> CheckoutView {
    view(Status::Pending, vec![attempt(action)])
}

fn ended(state: AttemptState) -> CheckoutView {
    let mut attempt = attempt(fixtures::redirect());
    fixtures::put(&mut attempt, state);
    view(Status::Created, vec![attempt])
}

/// Every page of a payment that contains as much personal data as possible.
async fn every_page() -> Vec<Seen> {
    let mut seen = vec![];
    for action in [fixtures::redirect(), asking(), showing(), posting()] {
        let shop = shop(pending(action));
        seen.push(shop.checkout().await);
        seen.push(shop.returned().await);
        seen.push(shop.get(&format!("/checkout/{TOKEN}/go")).await);
        seen.push(shop.post("choose", "payment_method=ideal").await);
        seen.push(shop.post("answer", "email=x").await);
    }
    for status in Status::ALL {
        let shop = shop(view(status, vec![attempt(fixtures::redirect())]));
        seen.push(shop.checkout().await);
        seen.push(shop.returned().await);
    }
    let any = shop(view(Status::Created, vec![]));
    seen.push(any.get("/checkout/x").await);
    seen.push(any.get("/invitation/x").await);
    seen.push(any.decide("decision=accept&consent_code=km_wrong").await);
    for standing in DelegationStatus::ALL {
        *any.backend.standing.lock().unwrap() = standing;
        seen.push(any.invitation().await);
    }
    seen
}
