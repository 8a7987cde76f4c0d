//! Rules for every response.

use memchr::memmem;
use rust_decimal::Decimal;
use serde_json::Value;

use crate::talk::{self, Answer, Request};
use crate::world::{Counted, OTHERS, World};

/// Prefixes of paths with pages or responses for vendors instead of JSON.
const NO_API: [&str; 6] = [
    "/checkout/",
    "/return/",
    "/invitation/",
    "/assets/",
    "/callbacks/",
    "/openapi.json",
];

/// Checks a response against the rules.
pub(crate) fn judge(
    world: &World,
    input: &[u8],
    asked: &Request,
    answer: &Answer,
    before: &Counted,
    after: &Counted,
) {
    let told = || {
        let headers = &answer.headers;
        let (method, target) = (&asked.method, &asked.target);
        format!(
            "{method} {target}: {} {headers:?} {}",
            answer.status,
            answer.text()
        )
    };
    talk::show(told);
    let api = !NO_API.iter().any(|start| asked.target.starts_with(start));
    if answer.status >= 500 {
        let later = answer.status == 503 && !answer.header("retry-after").is_empty();
        let repeats = answer.status == 503 && asked.target.starts_with("/callbacks/");
        assert!(later || repeats, "a failure of ours: {}", told());
    }
    assert!(
        !answer.header("x-request-id").is_empty(),
        "no request id: {}",
        told()
    );
    assert_eq!(
        answer.header("x-content-type-options"),
        "nosniff",
        "{}",
        told()
    );
    let head = asked.method == http::Method::HEAD;
    let is_json = answer
        .header("content-type")
        .starts_with("application/json");
    if answer.status >= 400 && api && !head {
        let error = answer.json().unwrap_or_default();
        let known = |name: &String| ["error", "code", "field", "status"].contains(&name.as_str());
        let only = error
            .as_object()
            .is_some_and(|error| error.keys().all(known));
        let text = error["error"].as_str().unwrap_or_default();
        let shaped =
            is_json && only && error["code"].is_string() && !text.is_empty() && text.len() < 2000;
        assert!(shaped, "no error body: {}", told());
    } else if is_json && !head {
        assert!(answer.json().is_some(), "no JSON: {}", told());
    }
    for secret in &world.secrets {
        let held = |bytes: &[u8]| memmem::find(bytes, secret.as_bytes()).is_some();
        let in_head = answer.headers.values().any(|value| held(value.as_bytes()));
        assert!(
            !held(&answer.body) && !in_head,
            "{secret} was told: {}",
            told()
        );
    }
    if (400..500).contains(&answer.status) {
        assert_eq!(before, after, "a refusal left something: {}", told());
    }
    let all_seeing = asked.target.starts_with("/admin/") || asked.credential == Some("otherkey");
    if !all_seeing && memmem::find(input, OTHERS.as_bytes()).is_none() {
        let found = memmem::find(&answer.body, OTHERS.as_bytes());
        assert!(found.is_none(), "it is another merchant's: {}", told());
    }
    if answer.status < 300 && asked.method == http::Method::POST {
        money(asked, answer, &told);
    }
}

/// Checks that a created payment has the requested amount, currency, order id and environment.
fn money(asked: &Request, answer: &Answer, told: &dyn Fn() -> String) {
    let path = asked.target.split('?').next().unwrap_or_default();
    if !["/api/v1/payments", "/api/v1/reseller/payments"].contains(&path) {
        return;
    }
    let request: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let made = answer.json().unwrap_or_default();
    let amount = |value: &Value| {
        value["amount"]
            .as_str()
            .and_then(|text| text.parse::<Decimal>().ok())
    };
    let same = amount(&request).is_some() && amount(&request) == amount(&made);
    assert!(same, "another amount: {}", told());
    let currency = request["currency"].as_str().unwrap_or("USD");
    assert_eq!(made["currency"], currency, "{}", told());
    assert_eq!(made["order_id"], request["order_id"], "{}", told());
    let live = asked.credential.is_some_and(|key| key.ends_with("live"));
    assert_eq!(made["test_mode"], !live, "{}", told());
}
