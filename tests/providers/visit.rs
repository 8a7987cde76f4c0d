//! A payer's steps from the start to the provider's page, over any gateway pages in between, and the outcome by
//! the provider's books and the gateway.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::{Form, attribute, primary_link};
use crate::harness::{Answer, Server, merge, new_payment};
use crate::table::{Has, currency, is_over_with_one_try, lacks};
use crate::world::Desk;

/// Maximum number of gateway pages before the provider's: questions, instructions, a link, a form.
pub(crate) const MOST_PAGES: usize = 6;
/// Maximum time from an approval to a paid order.
const PAID_WITHIN: Duration = Duration::from_secs(30);

/// A payer on the provider's page.
pub(crate) struct Visit {
    pub(crate) desk: Desk,
    pub(crate) payment: Value,
    /// Address to which the start sends the payer.
    pub(crate) begins: String,
    /// Address of the provider's page.
    pub(crate) page: String,
    /// The page's form, without an outcome.
    pub(crate) form: Form,
}

impl Desk {
    /// Creates a direct payment of a method without starting it.
    pub(crate) async fn direct(&self, method: &str) -> Value {
        let fields = json!({
            "checkout_mode": "direct", "payment_method": method, "currency": currency(method),
        });
        self.create(fields).await
    }

    /// Creates a payment of this module's shop.
    pub(crate) async fn create(&self, more: Value) -> Value {
        let mut body = new_payment();
        merge(&mut body, json!({ "customer_email": "ann@example.com" }));
        merge(&mut body, more);
        let answer = self.server().post(self.key(), "/api/v1/payments", &body);
        answer.await.expect(201).json()
    }

    /// Starts a payment at this account. Returns the address to which the payer is sent.
    pub(crate) async fn start(&self, payment: &Value) -> String {
        let body = json!({
            "payment_id": payment["payment_id"], "payment_method": payment["payment_method"],
            "provider_id": self.account(),
        });
        let path = "/api/v1/payments/start";
        let answer = self
            .server()
            .post(self.key(), path, &body)
            .await
            .expect(200);
        answer.json()["redirect_url"].as_str().unwrap().to_owned()
    }

    /// Creates a payment and follows its payer to the provider's page.
    pub(crate) async fn visit(&self, method: &str) -> Visit {
        let payment = self.direct(method).await;
        self.visit_of(payment).await
    }

    /// Starts an existing payment and follows its payer to the provider's page.
    pub(crate) async fn visit_of(&self, payment: Value) -> Visit {
        let url = self.start(&payment).await;
        let (page, form) = self.server().to_the_vendor(&url).await;
        Visit {
            desk: *self,
            payment,
            begins: url,
            page,
            form,
        }
    }

    /// Creates and approves a payment, and waits until it is a paid order.
    pub(crate) async fn paid(&self, method: &str) -> Visit {
        let visit = self.visit(method).await;
        visit.press("approve").await.expect(303);
        visit.is_paid().await;
        visit
    }
}

/// The next step of a payer's browser towards the provider's buttons.
pub(crate) enum Step {
    /// The page with the buttons.
    There(Form),
    Open(String),
    /// A form of the gateway, with the payer's answers.
    Answer(Form, Vec<(String, String)>),
    /// A form that posts to another origin.
    Post(Form),
}

impl Step {
    /// The step that a page at this address requires.
    pub(crate) fn parse(page: &Answer, url: &str) -> Self {
        let text = &page.text;
        if let Some(to) = page.header("location") {
            Self::Open(url::Url::parse(url).unwrap().join(to).unwrap().into())
        } else if text.contains("name=\"outcome\"") {
            Self::There(Form::first(text, url))
        } else if let Some(form) = text.split("<form class=\"questions\"").nth(1) {
            let form = form.split("</form>").next().unwrap();
            Self::Answer(Form::first(text, url), answers(form))
        } else if let Some(link) = primary_link(text) {
            Self::Open(link)
        } else {
            Self::Post(Form::first(text, url))
        }
    }
}

/// Answers to all questions of a form.
fn answers(form: &str) -> Vec<(String, String)> {
    let inputs = form.split("<input").skip(1).filter_map(|tag| {
        let name = attribute(tag, "name")?;
        let said = match attribute(tag, "type")?.as_str() {
            "email" => "ann@example.com",
            "tel" => "+14165550123",
            _ if name.contains("family") => "Bee",
            _ if name.contains("postal") => "1012 JS",
            _ => "Ann",
        };
        Some((name, said.to_owned()))
    });
    let choices = form.split("<select").skip(1).filter_map(|tag| {
        let mut options = tag.split("<option").skip(1);
        let first = options
            .find_map(|option| attribute(option, "value").filter(|value| !value.is_empty()))?;
        Some((attribute(tag, "name")?, first))
    });
    inputs.chain(choices).collect()
}

/// Borrows names and values.
pub(crate) fn fields(said: &[(String, String)]) -> Vec<(&str, &str)> {
    said.iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

impl Server {
    /// Follows the gateway's pages to the provider's page with the buttons.
    pub(crate) async fn to_the_vendor(&self, url: &str) -> (String, Form) {
        let mut url = url.to_owned();
        let mut page = self.open(&url).await;
        for _ in 0..MOST_PAGES {
            page = match Step::parse(&page, &url) {
                Step::There(form) => return (url, form),
                Step::Open(to) => {
                    url = to;
                    self.open(&url).await
                }
                Step::Answer(form, said) => self.submit(&form, &fields(&said)).await,
                Step::Post(form) => {
                    let sent = self.http.post(&form.action).form(&form.hidden);
                    url = form.action;
                    self.send(sent).await
                }
            };
        }
        panic!("no vendor's page behind {url}: {page:?}");
    }
}

impl Visit {
    pub(crate) fn server(&self) -> &Server {
        self.desk.server()
    }

    /// Presses a button of the provider's page. The response redirects the browser.
    pub(crate) async fn press(&self, outcome: &str) -> Answer {
        self.server().press(&self.form, outcome).await
    }

    /// Tries to approve an attempt that the provider does not accept any longer: no money moves, and no event
    /// reports any.
    pub(crate) async fn approve_in_vain(&self) {
        let (before, status) = (self.entries().await, self.now().await["status"].clone());
        let pressed = self.press("approve").await;
        if lacks(&self.desk.module.name, Has::ShutPage).is_none() {
            pressed.expect(409);
            assert_eq!(self.entries().await, before, "the books are as they were");
            assert_eq!(self.now().await["status"], status);
        } else {
            // If the provider reports a late approval, the payment is reviewed.
            let now = self.now().await["status"].clone();
            assert!(now == status || now == "review", "{status} and then {now}");
        }
        self.is_unpaid().await;
    }

    /// Whether the gateway learns of an approval on a cancelled attempt's page of this method.
    pub(crate) fn hears_late_approvals(&self, method: &str) -> bool {
        let name = &self.desk.module.name;
        lacks(name, Has::ShutPage).is_some()
            && lacks(name, Has::LateApprovals).is_none()
            && !is_over_with_one_try(name, method)
    }

    /// Follows the provider's redirect back to the gateway.
    pub(crate) async fn come_back(&self, answer: &Answer) {
        let mut back = answer.header("location").expect("a way back").to_owned();
        if lacks(&self.desk.module.name, Has::WayBack).is_some() {
            // Without a redirect, the payer uses the link on the gateway's page, which may not know of the payment
            // yet.
            let shown = self.server().open(&self.begins).await.text;
            let link = shown.split("<p class=\"updates\"><a").nth(1);
            let link = link.and_then(|link| attribute(link, "href"));
            let begins = url::Url::parse(&self.begins).unwrap();
            back = begins.join(&link.unwrap_or_default()).unwrap().into();
        }
        let page = self.server().open(&back).await;
        assert!([200, 303].contains(&page.status), "{page:?}");
    }

    /// Declines the payer's try and, if the page stays open, leaves it. Returns whether that ends the attempt.
    pub(crate) async fn decline(&self) -> bool {
        let back = self.press("decline").await.expect(303);
        let name = &self.desk.module.name;
        if lacks(name, Has::OneTry).is_none() {
            return true;
        }
        self.come_back(&back).await;
        lacks(name, Has::Leaving).is_none()
    }

    /// The payment in the merchant API.
    pub(crate) async fn now(&self) -> Value {
        self.server().payment(self.desk.key(), &self.payment).await
    }

    pub(crate) async fn until(&self, status: &str) -> Value {
        self.server()
            .until(self.desk.key(), &self.payment, status)
            .await
    }

    pub(crate) async fn inside(&self) -> Value {
        self.server().inside(&self.payment).await
    }

    pub(crate) async fn events(&self) -> Vec<String> {
        self.server().events(&self.payment).await
    }

    pub(crate) async fn work(&self) -> Vec<Value> {
        self.server().work(&self.payment).await
    }

    /// States of the payment's attempts, oldest first.
    pub(crate) async fn attempts(&self) -> Vec<String> {
        let attempts = self.server().attempts(&self.payment).await;
        let state = |attempt: &Value| attempt["state"].as_str().unwrap().to_owned();
        attempts.iter().map(state).collect()
    }

    /// Entries of the payment's attempts in this provider's books, in the attempts' order.
    pub(crate) async fn entries(&self) -> Vec<Value> {
        let attempts = self.server().attempts(&self.payment).await;
        let books = self.server().books(self.desk.account()).await;
        let of = |attempt: &Value| {
            let own = |entry: &&Value| entry["attempt_id"] == attempt["attempt_id"];
            books.iter().find(own).cloned()
        };
        attempts.iter().filter_map(of).collect()
    }

    /// The attempt's ID and its reference at the provider.
    pub(crate) async fn names(&self) -> [String; 2] {
        let entry = self.entries().await.pop().unwrap();
        ["attempt_id", "reference"].map(|name| entry[name].as_str().unwrap().to_owned())
    }

    /// Texts that identify callbacks about this payment.
    pub(crate) async fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for attempt in self.server().attempts(&self.payment).await {
            words.extend(attempt["attempt_id"].as_str().map(str::to_owned));
            words.extend(attempt["reference"].as_str().map(str::to_owned));
        }
        for entry in self.entries().await {
            words.extend(entry["reference"].as_str().map(str::to_owned));
        }
        words
    }

    /// Number of captures in the books.
    pub(crate) async fn taken(&self) -> u64 {
        let entries = self.entries().await;
        let times = |entry: &Value| entry["captured_times"].as_u64().unwrap();
        entries.iter().map(times).sum()
    }

    /// Waits until the payment is paid once and confirmed, and the merchant received the event once.
    pub(crate) async fn is_paid(&self) {
        let began = Instant::now();
        let mut now = self.now().await;
        while (&now["status"], &now["settlement_status"])
            != (&json!("completed"), &json!("confirmed"))
        {
            assert!(
                began.elapsed() < PAID_WITHIN,
                "not paid: {:#}\nbooks {:#?}",
                self.inside().await,
                self.entries().await
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
            now = self.now().await;
        }
        assert_eq!(now["test_mode"], true);
        self.was_told_once().await;
        let entries = self.entries().await;
        let paid: Vec<&Value> = entries
            .iter()
            .filter(|entry| entry["captured_times"] != 0)
            .collect();
        assert_eq!(paid.len(), 1, "taken once: {entries:?}");
        assert_eq!(paid[0]["captured_times"], 1, "{entries:?}");
        assert_eq!(paid[0]["state"], "captured", "{entries:?}");
        assert_eq!(paid[0]["amount"], self.payment["amount"]);
        assert_eq!(paid[0]["currency"], self.payment["currency"]);
        let captured = self.attempts().await;
        let captured = captured.iter().filter(|state| *state == "captured").count();
        assert_eq!(captured, 1, "one attempt has the payment's money");
    }

    /// Asserts that the merchant received exactly one signed `payment.completed`, with the payment's data.
    async fn was_told_once(&self) {
        let world = self.desk.world;
        let completed = || {
            let mut told = world.told(&self.payment);
            told.retain(|got| got.kind() == "payment.completed");
            told
        };
        let ask = async || (!completed().is_empty()).then_some(());
        self.server().wait_for("payment.completed", ask).await;
        let events = self.events().await;
        let in_outbox = events.iter().filter(|event| *event == "payment.completed");
        assert_eq!(in_outbox.count(), 1, "{events:?}");
        let told = completed();
        assert_eq!(told.len(), 1, "told once");
        assert!(told[0].is_signed_by(self.desk.secret()), "{}", told[0].head);
        let data = &told[0].event()["data"];
        for field in ["payment_id", "order_id", "amount", "currency", "usd_amount"] {
            assert_eq!(data[field], self.payment[field], "{field}");
        }
        assert_eq!(data["status"], "completed");
        assert_eq!(data["settlement_status"], "confirmed");
        assert_eq!(data["test_mode"], true);
    }

    /// Declines the payment's review as an operator.
    pub(crate) async fn decline_review(&self) {
        let server = self.server();
        let said = server.decide(&self.payment, "decline", json!({})).await;
        assert!([200, 202].contains(&said.status), "{said:?}");
    }

    /// Approves the payment's review as an operator, in spite of any disputes. If the provider holds no money that
    /// it could capture, an admin vouches for it.
    pub(crate) async fn approve_review(&self) {
        let server = self.server();
        let mut said = server.decide(&self.payment, "approve", json!({})).await;
        if said.status == 409 {
            let despite = said.json()["despite_needed"].clone();
            let change = if despite.is_array() {
                json!({ "despite": despite })
            } else {
                json!({ "vouch": true })
            };
            said = server.decide(&self.payment, "approve", change).await;
        }
        assert!([200, 202].contains(&said.status), "{said:?}");
    }

    /// Asserts that nothing was captured and that no event or status reports a payment.
    pub(crate) async fn is_unpaid(&self) {
        assert_eq!(self.taken().await, 0, "{:?}", self.entries().await);
        let events = self.events().await;
        assert!(
            !events.contains(&"payment.completed".to_owned()),
            "{events:?}"
        );
        assert_ne!(self.now().await["status"], "completed");
    }
}
