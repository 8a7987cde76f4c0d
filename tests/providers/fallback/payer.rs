//! One payment with its shop and its payer, who go on whatever is lost on the way.

use reqwest::Method;
use serde_json::{Value, json};

use crate::browser::Form;
use crate::fallback::lives::Lives;
use crate::fallback::plan::Plan;
use crate::harness::{merge, new_payment};
use crate::table::currency;
use crate::visit::{MOST_PAGES, Step, fields};

/// Tries before a payer gives up.
const TRIES: usize = 5;
/// Requests of a shop until it gives up: a kill costs one or two, and where no account is well nothing
/// can be sold.
const REPEATS: usize = 10;

/// A payment and what its payer has seen.
#[derive(Debug)]
pub(crate) struct Payer {
    pub(crate) plan: Plan,
    /// Null where none could be made.
    pub(crate) payment: Value,
    /// Whether the vendor has acknowledged an approval.
    pub(crate) approved: bool,
}

impl Payer {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            payment: Value::Null,
            approved: false,
        }
    }

    /// Does what is planned, as far as it can be done; then an operator decides, where that is planned.
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
            // A payer whose first try was declined takes another card.
            let outcome = match self.plan.outcome {
                "decline" if declined => "approve",
                "leave" => return self,
                planned => planned,
            };
            let pressed = press(lives, &form, outcome).await;
            let Some(back) = pressed else {
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

    /// Creates the payment: the same request until it is answered; whether there is one.
    async fn create(&mut self, lives: &Lives) -> bool {
        let method = &self.plan.route.method;
        let mut body = new_payment();
        let more = json!({
            "checkout_mode": "direct", "payment_method": method, "currency": currency(method),
        });
        merge(&mut body, more);
        // Some vendors ask for what others have been told already.
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

    fn id(&self) -> &str {
        self.payment["payment_id"].as_str().unwrap()
    }

    /// Starts the payment and follows to the vendor's buttons; none where that leads nowhere now.
    async fn to_the_vendor(&self, lives: &Lives) -> Option<Form> {
        let route = &self.plan.route;
        let body = json!({ "payment_id": self.id(), "payment_method": route.method });
        let path = "/api/v1/payments/start";
        let started = lives.call(&route.key, path, &body).await?;
        // No account is available or too many starts are under way, the result is unknown, or it is over: the payer
        // tries again later.
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
            // A page of ours that says how the payment stands: there is nothing to press.
            if page.status == 200 && !page.text.contains("<form") && !page.text.contains("primary")
            {
                return None;
            }
            let next = match Step::of(&page, &url) {
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

    /// Waits until the gateway has heard of a decline, where it will: some news never comes.
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

/// Presses a button at the vendor's; where the browser goes then. None where it is unknown whether
/// it was heard, or where it was refused.
async fn press(lives: &Lives, form: &Form, outcome: &str) -> Option<String> {
    let pressed = form.with(&[("outcome", outcome)]);
    let request = lives.to(Method::POST, &form.action).await.form(&pressed);
    let answer = lives.send(request).await?;
    answer.header("location").map(str::to_owned)
}
