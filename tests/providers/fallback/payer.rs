//! A payment with its shop and its payer, who continue after lost responses.

use reqwest::Method;
use serde_json::{Value, json};

use crate::browser::Form;
use crate::fallback::lives::Lives;
use crate::fallback::plan::Plan;
use crate::harness::{Answer, merge, new_payment};
use crate::table::currency;
use crate::visit::{MOST_PAGES, Step, fields};

/// Number of tries before a payer gives up.
const TRIES: usize = 5;
/// Number of requests before a shop gives up. A kill costs one or two; if no account is available, nothing can be
/// sold.
const REPEATS: usize = 10;

/// A payment and its payer's state.
#[derive(Debug)]
pub(crate) struct Payer {
    pub(crate) plan: Plan,
    /// `Null` if no payment could be created.
    pub(crate) payment: Value,
    /// Whether the provider has acknowledged an approval.
    pub(crate) approved: bool,
    /// The form of the provider's page on which a button was pressed last.
    pub(crate) form: Option<Form>,
}

impl Payer {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            payment: Value::Null,
            approved: false,
            form: None,
        }
    }

    /// Performs the payer's plan as far as possible, then the operator's planned decision.
    pub(crate) async fn pay(self, lives: &Lives) -> Self {
        let paid = self.pay_only(lives).await;
        if let Some(decision) = paid.plan.decision.filter(|_| !paid.payment.is_null()) {
            paid.is_heard(lives).await;
            lives.decide(paid.id(), decision).await;
        }
        paid
    }

    async fn pay_only(mut self, lives: &Lives) -> Self {
        let tries = if self.create(lives).await { TRIES } else { 0 };
        let mut declined = false;
        for _ in 0..tries {
            let Some(form) = self.to_the_vendor(lives).await else {
                continue;
            };
            // A payer whose first try was declined uses another card.
            let outcome = match self.plan.outcome {
                "decline" if declined => "approve",
                "leave" => return self,
                planned => planned,
            };
            let pressed = press(lives, &form, &[("outcome", outcome)]).await;
            self.form = Some(form);
            let back = pressed.and_then(|answer| answer.header("location").map(str::to_owned));
            let Some(back) = back else {
                continue;
            };
            self.approved |= outcome == "approve";
            if self.plan.comes_back {
                let back = lives.to(Method::GET, &back).await;
                let _ = lives.send(back).await;
            }
            if outcome == "decline" {
                declined = true;
                self.is_heard(lives).await;
                continue;
            }
            return self;
        }
        self
    }

    /// Creates the payment by repeating the same request until it gets a response. False if no payment was
    /// created.
    async fn create(&mut self, lives: &Lives) -> bool {
        let method = &self.plan.route.method;
        let mut body = new_payment();
        let more = json!({
            "checkout_mode": "direct", "payment_method": method, "currency": currency(method),
        });
        merge(&mut body, more);
        // The fault `ask` makes providers ask for data that other payments already contain.
        if self.plan.fault != "ask" {
            merge(&mut body, json!({ "customer_email": "ann@example.com" }));
        }
        for _ in 0..REPEATS {
            let answer = lives.call(&self.plan.route.key, "/api/v1/payments", &body);
            match answer.await {
                Some(answer) if [200, 201].contains(&answer.status) => {
                    self.payment = answer.json();
                    return true;
                }
                Some(answer) => assert!(answer.status >= 422, "{body}: {answer:?}"),
                None => {}
            }
        }
        false
    }

    pub(crate) fn id(&self) -> &str {
        self.payment["payment_id"].as_str().unwrap()
    }

    /// Starts the payment and follows to the provider's buttons. `None` if that is not possible now.
    async fn to_the_vendor(&self, lives: &Lives) -> Option<Form> {
        let route = &self.plan.route;
        let body = json!({ "payment_id": self.id(), "payment_method": route.method });
        let path = "/api/v1/payments/start";
        let started = lives.call(&route.key, path, &body).await?;
        // No account is available, too many starts are in flight, the outcome is unknown, or the payment has
        // ended: the payer tries again later.
        assert!(
            [200, 409, 422, 503].contains(&started.status),
            "{started:?}"
        );
        if started.status != 200 {
            lives.nudge(1).await;
            return None;
        }
        let mut url = started.json()["redirect_url"].as_str()?.to_owned();
        let mut page = lives.send(lives.to(Method::GET, &url).await).await?;
        for _ in 0..MOST_PAGES {
            if page.status >= 400 {
                return None;
            }
            // A gateway page that shows the payment's status, without a button.
            if page.status == 200 && !page.text.contains("<form") && !page.text.contains("primary")
            {
                return None;
            }
            let next = match Step::parse(&page, &url) {
                Step::There(form) => return Some(form),
                Step::Open(to) => {
                    url = to;
                    lives.to(Method::GET, &url).await
                }
                Step::Answer(form, said) => {
                    let said = form.with(&fields(&said)).into_iter().collect::<Vec<_>>();
                    lives.to(Method::POST, &form.action).await.form(&said)
                }
                Step::Post(form) => {
                    url.clone_from(&form.action);
                    lives.to(Method::POST, &url).await.form(&form.hidden)
                }
            };
            page = lives.send(next).await?;
        }
        None
    }

    /// Waits briefly until the gateway knows of a decline. Some callbacks never arrive.
    async fn is_heard(&self, lives: &Lives) {
        for _ in 0..TRIES {
            let status = lives.status(&self.plan.route.key, self.id()).await;
            if status.is_some_and(|status| status != "pending") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

/// Presses a button of the provider's page. `None` if the outcome is unknown.
pub(crate) async fn press(lives: &Lives, form: &Form, fields: &[(&str, &str)]) -> Option<Answer> {
    let pressed = form.with(fields);
    let request = lives.to(Method::POST, &form.action).await.form(&pressed);
    lives.send(request).await
}
