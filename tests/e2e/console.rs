//! The operators' console: sessions, forms, and attacks on them.

use reqwest::header::{COOKIE, HeaderMap, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use serde_json::{Value, json};

use crate::harness::{Answer, Server, fresh_folder, shared, unique};

mod pages;

/// A browser that is signed in.
pub(crate) struct Visitor<'a> {
    server: &'a Server,
    /// Name and value of the cookie.
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

/// The cookie that an answer sets, with and without its attributes.
fn cookie_of(answer: &Answer) -> (String, String) {
    let whole = answer.header(SET_COOKIE.as_str()).unwrap().to_owned();
    (whole.split(';').next().unwrap().to_owned(), whole)
}

fn csrf_in(page: &str) -> String {
    let after = page.split("name=\"csrf\" value=\"").nth(1).unwrap();
    after.split('"').next().unwrap().to_owned()
}

async fn sign_in(server: &Server, token: &str) -> Answer {
    let url = format!("{}/console/sign-in", server.admin_root());
    let request = server.http.post(url).form(&[("token", token)]);
    server
        .send(request.header(ORIGIN, server.admin_root()))
        .await
}

async fn open(server: &Server, cookie: &str, path: &str) -> Answer {
    let url = format!("{}{path}", server.admin_root());
    server
        .send(server.http.get(url).header(COOKIE, cookie))
        .await
}

/// Sends an operator of a role to the console.
async fn visitor_as<'a>(server: &'a Server, role: &str) -> (Visitor<'a>, Value) {
    let body = json!({ "name": format!("{role} {}", unique()), "role": role });
    let made = server.admin("POST", "/operators", Some(&body)).await;
    let made = made.expect(201).json();
    let visitor = Visitor::new(server, made["token"].as_str().unwrap()).await;
    (visitor, made)
}

impl<'a> Visitor<'a> {
    async fn new(server: &'a Server, token: &str) -> Self {
        let answer = sign_in(server, token).await.expect(303);
        let (cookie, _) = cookie_of(&answer);
        let page = open(server, &cookie, "/console/operators")
            .await
            .expect(200);
        let csrf = csrf_in(&page.text);
        Self {
            server,
            cookie,
            csrf,
        }
    }

    /// The visitor at another node, or after a restart.
    fn at<'b>(&self, server: &'b Server) -> Visitor<'b> {
        Visitor {
            server,
            cookie: self.cookie.clone(),
            csrf: self.csrf.clone(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        open(self.server, &self.cookie, path).await
    }

    /// Sends a form as the console's own page does.
    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut headers = HeaderMap::new();
        let origin = HeaderValue::from_str(self.server.admin_root()).unwrap();
        headers.insert(ORIGIN, origin);
        headers.insert("sec-fetch-site", HeaderValue::from_static("same-origin"));
        self.post_with(headers, path, fields).await
    }

    async fn post_with(&self, headers: HeaderMap, path: &str, fields: &[(&str, &str)]) -> Answer {
        let url = format!("{}{path}", self.server.admin_root());
        let mut all = fields.to_vec();
        if !fields.iter().any(|(name, _)| *name == "csrf") {
            all.push(("csrf", &self.csrf));
        }
        let request = self.server.http.post(url).form(&all);
        let request = request.headers(headers).header(COOKIE, &self.cookie);
        self.server.send(request).await
    }

    /// Answers the second question of a form.
    async fn confirm(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let asked = self.post(path, fields).await.expect(200);
        let answer = answer_in(&asked.text);
        let mut all = fields.to_vec();
        all.push(("confirmed", &answer));
        self.post(path, &all).await
    }

    async fn is_signed_in(&self) -> bool {
        let page = self.get("/console/operators").await;
        assert!([200, 303].contains(&page.status), "{}", page.text);
        page.status == 200
    }
}

/// The field `confirmed` of a second question.
fn answer_in(page: &str) -> String {
    let after = page.split("name=\"confirmed\" value=\"").nth(1).unwrap();
    after.split('"').next().unwrap().to_owned()
}

/// A disabled copy of a state that no request may change: the merchant's name.
async fn merchant_name(server: &Server) -> String {
    let merchant = server.admin("GET", "/merchants/1", None).await;
    merchant.expect(200).json()["name"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn completed(server: &Server) -> Value {
    let (payment, redirect_url) = server.started(server.test_key(), "ideal", json!({})).await;
    let (page, session) = redirect_url.rsplit_once('/').unwrap();
    let form = [("session", session), ("outcome", "approve")];
    server.send(server.http.post(page).form(&form)).await;
    server.until(server.test_key(), &payment, "completed").await;
    payment
}

#[tokio::test]
async fn without_a_session_every_page_leads_to_the_sign_in_page() {
    let server = shared().await;
    for path in [
        "/console/",
        "/console/work?kind=review",
        "/console/operators",
    ] {
        let url = format!("{}{path}", server.admin_root());
        let request = server.http.get(&url).bearer_auth(server.operator_token());
        let answer = server.send(request).await.expect(303);
        let to = answer.header(LOCATION.as_str()).unwrap();
        assert!(to.starts_with("/console/sign-in"), "{to}");
    }
    let next = open(server, "", "/console/work?kind=review")
        .await
        .expect(303);
    let to = next.header(LOCATION.as_str()).unwrap();
    assert_eq!(
        to,
        "/console/sign-in?next=%2Fconsole%2Fwork%3Fkind%3Dreview"
    );
    let page = open(server, "", to).await.expect(200);
    assert!(
        page.text.contains("value=\"/console/work?kind=review\""),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn a_sign_in_leads_only_to_an_address_of_the_console() {
    let server = shared().await;
    for (next, leads_to) in [
        (
            "/console/work?environment=test",
            "/console/work?environment=test",
        ),
        ("https://evil.example/", "/console/"),
        ("//evil.example/console/", "/console/"),
        ("/\\evil.example", "/console/"),
        ("/admin/v1/merchants", "/console/"),
    ] {
        let url = format!("{}/console/sign-in", server.admin_root());
        let form = [("token", server.operator_token()), ("next", next)];
        let answer = server
            .send(server.http.post(url).form(&form))
            .await
            .expect(303);
        assert_eq!(answer.header(LOCATION.as_str()), Some(leads_to), "{next}");
    }
}

#[tokio::test]
async fn the_cookie_is_new_for_each_sign_in_and_readable_by_no_script() {
    let server = shared().await;
    let first = sign_in(server, server.operator_token()).await.expect(303);
    let (pair, whole) = cookie_of(&first);
    assert!(
        whole.contains("; HttpOnly") && whole.contains("; SameSite=Strict"),
        "{whole}"
    );
    assert!(
        whole.contains("; Path=/;") && !whole.contains("Domain"),
        "{whole}"
    );
    // On loopback without TLS, browsers accept neither the prefix nor Secure.
    assert!(
        !whole.contains("__Host-") && !whole.contains("Secure"),
        "{whole}"
    );
    let (other, _) = cookie_of(&sign_in(server, server.operator_token()).await.expect(303));
    assert_ne!(pair, other);
    assert!(!whole.contains(server.operator_token()));
}

#[tokio::test]
async fn a_cookie_from_before_the_sign_in_is_never_the_session() {
    let server = shared().await;
    let (attacker, _) = visitor_as(server, "operator").await;
    let planted = format!("kassette_console={}", "a".repeat(75));
    for before in [&planted, &attacker.cookie] {
        let url = format!("{}/console/sign-in", server.admin_root());
        let form = [("token", server.operator_token())];
        let request = server.http.post(url).form(&form).header(COOKIE, before);
        let answer = server.send(request).await.expect(303);
        let (own, _) = cookie_of(&answer);
        assert_ne!(&own, before);
        // The session that the browser had before is over.
        assert_eq!(open(server, before, "/console/operators").await.status, 303);
        // With two cookies, of which another port may have set one, nobody is signed in.
        let both = format!("{before}; {own}");
        assert_eq!(open(server, &both, "/console/operators").await.status, 303);
    }
}

#[tokio::test]
async fn a_stolen_cookie_is_worthless_after_a_sign_out() {
    let server = shared().await;
    let (visitor, made) = visitor_as(server, "operator").await;
    let other = Visitor::new(server, made["token"].as_str().unwrap()).await;
    let answer = visitor.post("/console/sign-out", &[]).await.expect(303);
    assert!(cookie_of(&answer).1.contains("Max-Age=0"));
    assert!(!visitor.is_signed_in().await);
    assert!(other.is_signed_in().await, "another session continues");
    let third = Visitor::new(server, made["token"].as_str().unwrap()).await;
    let everywhere = "/console/sign-out?everywhere=true";
    other.post(everywhere, &[]).await.expect(303);
    assert!(!other.is_signed_in().await && !third.is_signed_in().await);
}

#[tokio::test]
async fn a_session_ends_with_its_operator_and_has_the_role_of_the_moment() {
    let server = shared().await;
    let (visitor, made) = visitor_as(server, "operator").await;
    let path = format!("/operators/{}", made["operator_id"].as_str().unwrap());
    let query = "/console/payments/0123456789abcdef0123456789abcdef/query";
    visitor.post(query, &[]).await.expect(404);
    let role = json!({ "role": "viewer", "actor": "Tests", "reason": "a test" });
    let changed = server.admin("PATCH", &path, Some(&role)).await.expect(200);
    assert_eq!(changed.json()["role"], "viewer");
    visitor.post(query, &[]).await.expect(403);
    assert!(visitor.is_signed_in().await);
    server.admin("DELETE", &path, None).await.expect(204);
    assert!(!visitor.is_signed_in().await);
    server.admin("PATCH", &path, Some(&role)).await.expect(404);
    let audit = format!(
        "/audit?object=operator/{}",
        made["operator_id"].as_str().unwrap()
    );
    let lines = server.admin("GET", &audit, None).await.expect(200).json();
    let change = &lines["entries"][1];
    assert_eq!(change["action"], "operator.change");
    assert_eq!(change["reason"], "a test");
}

#[tokio::test]
async fn a_session_ends_after_half_an_hour_without_a_request() {
    let server = Server::fresh().await;
    let visitor = Visitor::new(&server, server.operator_token()).await;
    server.advance(29 * 60).await;
    assert!(visitor.is_signed_in().await);
    server.advance(29 * 60).await;
    assert!(visitor.is_signed_in().await, "a request prolongs it");
    server.advance(31 * 60).await;
    assert!(!visitor.is_signed_in().await);
}

#[tokio::test]
async fn a_session_survives_a_restart_and_a_dev_link_opens_it_once() {
    let server = Server::fresh().await;
    let log = server.log();
    let link = log.split("/console/sign-in?link=").nth(1).unwrap();
    let link = link.split_whitespace().next().unwrap();
    assert!(!link.contains(server.operator_token()));
    let path = format!("/console/sign-in?link={link}");
    let (cookie, _) = cookie_of(&open(&server, "", &path).await.expect(303));
    open(&server, &cookie, "/console/operators")
        .await
        .expect(200);
    open(&server, "", &path).await.expect(401);
    let folder = server.stop().await;
    let server = Server::in_folder(folder).await;
    open(&server, &cookie, "/console/operators")
        .await
        .expect(200);
}

#[tokio::test]
async fn only_wrong_tokens_count_towards_the_limit_of_an_address() {
    let server = Server::fresh().await;
    for _ in 0..20 {
        sign_in(&server, server.operator_token()).await.expect(303);
    }
    let mut statuses = Vec::new();
    for _ in 0..15 {
        statuses.push(sign_in(&server, "ko_wrong").await.status);
    }
    assert_eq!((statuses[0], statuses[14]), (401, 429), "{statuses:?}");
    let limited = sign_in(&server, server.operator_token()).await.expect(429);
    assert!(
        limited
            .header("retry-after")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            > 0
    );
    // Only a trusted proxy can name another address.
    let url = format!("{}/console/sign-in", server.admin_root());
    let form = [("token", server.operator_token())];
    let request = server
        .http
        .post(url)
        .form(&form)
        .header("x-forwarded-for", "192.0.2.7");
    server.send(request).await.expect(429);
    server.advance(600).await;
    sign_in(&server, server.operator_token()).await.expect(303);
}

#[tokio::test]
async fn no_form_of_another_origin_or_port_changes_anything() {
    let server = shared().await;
    let visitor = Visitor::new(server, server.operator_token()).await;
    let before = merchant_name(server).await;
    let change = "/console/merchants/1/change?environment=live";
    let form = [("name", "Evil shop"), ("reason", "x")];
    let port = server.base();
    let https = server.admin_root().replace("http://", "https://");
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", port),
        ("origin", &https),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
    ] {
        let mut headers = HeaderMap::new();
        let name = name.parse::<reqwest::header::HeaderName>().unwrap();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        let refused = visitor.post_with(headers.clone(), change, &form).await;
        assert_eq!(refused.status, 403, "{value}");
        let out = visitor.post_with(headers, "/console/sign-out", &[]).await;
        assert_eq!(out.status, 403, "{value}");
    }
    let (stranger, _) = visitor_as(server, "admin").await;
    for csrf in ["", "x", &stranger.csrf] {
        let wrong = [("name", "Evil shop"), ("reason", "x"), ("csrf", csrf)];
        visitor.post(change, &wrong).await.expect(403);
    }
    assert_eq!(merchant_name(server).await, before);
    assert!(visitor.is_signed_in().await);
}

#[tokio::test]
async fn every_answer_forbids_frames_and_foreign_content() {
    let server = shared().await;
    let visitor = Visitor::new(server, server.operator_token()).await;
    for path in [
        "/console/",
        "/console/sign-in",
        "/console/nothing",
        "/console/operators",
    ] {
        let page = visitor.get(path).await;
        let policy = page.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(
            !policy.contains("unsafe") && !policy.contains("data:"),
            "{policy}"
        );
        assert_eq!(page.header("x-frame-options"), Some("DENY"));
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert!(
            !page.text.contains("style=") && !page.text.contains("<script>"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_role_is_checked_before_the_form_and_before_the_second_question() {
    let server = shared().await;
    let (viewer, _) = visitor_as(server, "viewer").await;
    let (operator, _) = visitor_as(server, "operator").await;
    let before = merchant_name(server).await;
    for (path, form) in [
        ("/console/merchants/1/change", &[][..]),
        (
            "/console/merchants/1/change",
            &[("name", "x"), ("reason", "x")],
        ),
        ("/console/payments/abc/refunds", &[("amount", "x")]),
        (
            "/console/providers/sandbox-live/change",
            &[("enabled", "false"), ("reason", "x")],
        ),
        ("/console/plugins/method.ideal/promote", &[("reason", "x")]),
        ("/console/work/several", &[("action", "done")]),
        ("/console/deliveries/abc/redeliver", &[]),
    ] {
        let refused = viewer.post(path, form).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.text);
    }
    for (path, form) in [
        (
            "/console/operators",
            &[("name", "x"), ("role", "admin"), ("reason", "x")][..],
        ),
        ("/console/operators/abc/change", &[("role", "admin")]),
        ("/console/operators/abc/delete", &[]),
        (
            "/console/merchants/1/change",
            &[("live_approved", "false"), ("reason", "x")],
        ),
        (
            "/console/resellers/1/live-rollout/change",
            &[("enabled", "false"), ("reason", "x")],
        ),
        ("/console/corrections", &[("amount", "x")]),
        (
            "/console/payments/abc/review",
            &[("decision", "approve"), ("vouch", "true"), ("reason", "x")],
        ),
    ] {
        let refused = operator.post(path, form).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.text);
    }
    // A wrong CSRF token comes before the role, the role before the shape.
    let foreign = viewer.post("/console/operators", &[("csrf", "x")]).await;
    assert!(foreign.expect(403).text.contains("session"));
    assert_eq!(merchant_name(server).await, before);
}

#[tokio::test]
async fn a_refused_form_keeps_what_was_typed() {
    let server = shared().await;
    let visitor = Visitor::new(server, server.operator_token()).await;
    let without_reason = [("role", "viewer"), ("name", "bob")];
    let refused = visitor.post("/console/operators", &without_reason).await;
    assert!(refused.expect(422).text.contains("reason"));
    let wrong = [
        ("role", "king"),
        ("name", "bob"),
        ("reason", "new colleague"),
    ];
    let refused = visitor.post("/console/operators", &wrong).await.expect(422);
    assert!(refused.text.contains("role: must be"), "{}", refused.text);
}

#[tokio::test]
async fn a_new_token_is_shown_once_and_the_person_is_audited() {
    let server = shared().await;
    let visitor = Visitor::new(server, server.operator_token()).await;
    let name = format!("bob {}", unique());
    let form = [
        ("name", &*name),
        ("role", "viewer"),
        ("expires_at", ""),
        ("reason", "night shift"),
    ];
    let page = visitor
        .post("/console/operators?environment=live", &form)
        .await
        .expect(200);
    let token = page.text.split("ko_").nth(1).unwrap();
    let token: String = token
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    sign_in(server, &format!("ko_{token}")).await.expect(303);
    assert!(
        !visitor
            .get("/console/operators")
            .await
            .text
            .contains(&token)
    );
    let lines = server
        .admin("GET", "/audit?action=operator.create", None)
        .await
        .json();
    let lines = lines["entries"].as_array().unwrap();
    let line = lines
        .iter()
        .find(|line| line["reason"] == "night shift")
        .unwrap();
    assert_eq!(
        (&line["operator"], &line["actor"]),
        (&json!("dev"), &json!("dev"))
    );
}

#[tokio::test]
async fn a_double_click_refunds_once() {
    let server = shared().await;
    let visitor = Visitor::new(server, server.operator_token()).await;
    let payment = completed(server).await;
    let id = payment["payment_id"].as_str().unwrap();
    let path = format!("/console/payments/{id}/refunds?environment=test");
    let key = format!("double-click-{}", unique());
    let form = [
        ("amount", "1.00"),
        ("idempotency_key", &*key),
        ("reason", "broken"),
    ];
    let (one, two) = tokio::join!(visitor.post(&path, &form), visitor.post(&path, &form));
    let page = format!("/console/payments/{id}?environment=test");
    for answer in [one, two] {
        let answer = answer.expect(303);
        assert_eq!(answer.header(LOCATION.as_str()), Some(&*page));
    }
    let refunds = server
        .admin("GET", &format!("/payments/{id}/refunds"), None)
        .await;
    let refunds = refunds.expect(200).json();
    assert_eq!(refunds["refunds"].as_array().unwrap().len(), 1, "{refunds}");
}

#[tokio::test]
async fn a_dangerous_change_is_asked_once_more_with_figures() {
    let server = Server::fresh().await;
    let visitor = Visitor::new(&server, server.operator_token()).await;
    let is_approved = async || {
        let merchant = server.admin("GET", "/merchants/1", None).await;
        merchant.expect(200).json()["live_approved"] == json!(true)
    };
    let path = "/console/merchants/1/change?environment=live";
    let form = [("live_approved", "false"), ("reason", "fraud")];
    let asked = visitor.post(path, &form).await.expect(200);
    assert!(
        asked.text.contains("Withdraw live approval"),
        "{}",
        asked.text
    );
    assert!(is_approved().await, "the first POST changes nothing");
    let answer = answer_in(&asked.text);
    let with = |answer: &str, form: &[(&'static str, &'static str)]| {
        let mut form: Vec<(&str, String)> =
            form.iter().map(|(n, v)| (*n, (*v).to_owned())).collect();
        form.push(("confirmed", answer.to_owned()));
        form
    };
    // Not for another session, another act or another change.
    let other = Visitor::new(&server, server.operator_token()).await;
    let send = async |visitor: &Visitor<'_>, path: &str, form: Vec<(&str, String)>| {
        let form: Vec<_> = form.iter().map(|(name, value)| (*name, &**value)).collect();
        visitor.post(path, &form).await
    };
    send(&other, path, with(&answer, &form)).await.expect(200);
    let another = [
        ("live_approved", "false"),
        ("name", "x"),
        ("reason", "fraud"),
    ];
    send(&visitor, path, with(&answer, &another))
        .await
        .expect(200);
    assert!(is_approved().await);
    // Not with other figures: one more key.
    let key = json!({ "environment": "live" });
    server
        .admin("POST", "/merchants/1/keys", Some(&key))
        .await
        .expect(201);
    let again = send(&visitor, path, with(&answer, &form)).await.expect(200);
    assert!(is_approved().await);
    // Not after ten minutes.
    let late = answer_in(&again.text);
    server.advance(600).await;
    let again = send(&visitor, path, with(&late, &form)).await.expect(200);
    assert!(is_approved().await);
    let answer = answer_in(&again.text);
    send(&visitor, path, with(&answer, &form)).await.expect(303);
    assert!(!is_approved().await);
    // And only once.
    send(&visitor, path, with(&answer, &form)).await.expect(200);
}

#[tokio::test]
async fn a_live_account_is_switched_after_a_second_question_and_a_test_account_at_once() {
    let server = Server::fresh().await;
    let visitor = Visitor::new(&server, server.operator_token()).await;
    let is_on = async |id: &str| {
        let accounts = server.admin("GET", "/providers", None).await.json();
        let accounts = accounts["providers"].as_array().unwrap().clone();
        accounts
            .iter()
            .any(|account| account["id"] == id && account["enabled"] == json!(true))
    };
    let form = [("enabled", "false"), ("reason", "maintenance")];
    let live = "/console/providers/sandbox-live/change";
    visitor.confirm(live, &form).await.expect(303);
    assert!(!is_on("sandbox-live").await);
    let test = "/console/providers/sandbox-test/change?environment=test";
    visitor.post(test, &form).await.expect(303);
    assert!(!is_on("sandbox-test").await);
}

#[tokio::test]
async fn several_items_are_decided_with_one_reason_and_the_rest_is_named() {
    let server = Server::configured("").await;
    let visitor = Visitor::new(&server, server.operator_token()).await;
    let payment = server.create(server.test_key(), json!({})).await;
    let id = payment["payment_id"].as_str().unwrap();
    let form = [("item", id), ("action", "approve"), ("reason", "checked")];
    let done = visitor
        .confirm("/console/work/several", &form)
        .await
        .expect(200);
    assert!(
        done.text.contains(id) && done.text.contains("not open"),
        "{}",
        done.text
    );
    for wrong in [
        &[("action", "approve"), ("reason", "x")][..],
        &[("item", id), ("action", "burn"), ("reason", "x")],
        &[("item", id), ("action", "done")],
    ] {
        let refused = visitor.post("/console/work/several", wrong).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
    }
}

#[tokio::test]
async fn addresses_that_are_no_calls_are_not_found() {
    let server = shared().await;
    let visitor = Visitor::new(server, server.operator_token()).await;
    for path in [
        "/console/nothing",
        "/console/payments/abc/delete",
        "/console/dev/clock",
        "/console/dev/faults",
        "/console/merchants/1/change/change",
    ] {
        visitor.post(path, &[("reason", "x")]).await.expect(404);
    }
}

#[tokio::test]
async fn a_module_is_uploaded_by_a_form() {
    let server = Server::fresh().await;
    let visitor = Visitor::new(&server, server.operator_token()).await;
    let module = std::fs::read(server.plugin_dir().join("method.ideal.wasm")).unwrap();
    let upload = async |bytes: Vec<u8>| {
        let mut body = Vec::new();
        for (name, value) in [
            ("csrf", &*visitor.csrf),
            ("reason", "cheaper"),
            ("mode", "shadow"),
        ] {
            let head = format!("--x1\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend_from_slice(format!("{head}{value}\r\n").as_bytes());
        }
        let file = "--x1\r\nContent-Disposition: form-data; name=\"file\"; filename=\"ideal.wasm\"\r\n\r\n";
        body.extend_from_slice(file.as_bytes());
        body.extend_from_slice(&bytes);
        body.extend_from_slice(b"\r\n--x1--\r\n");
        let url = format!(
            "{}/console/plugins/method.ideal?environment=live",
            server.admin_root()
        );
        let request = server
            .http
            .post(url)
            .body(body)
            .header(COOKIE, &visitor.cookie);
        let request = request.header("content-type", "multipart/form-data; boundary=x1");
        server.send(request).await
    };
    let answer = upload(module).await.expect(303);
    let page = "/console/modules/method.ideal?environment=live";
    assert_eq!(answer.header(LOCATION.as_str()), Some(page));
    let refused = upload(b"no module".to_vec()).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_session_is_valid_on_every_node_and_ends_on_every_node() {
    let server = Server::nodes(2, "").await;
    let [first, second] = ["n1", "n2"].map(|name| server.node(name));
    let here = Visitor::new(&first, first.operator_token()).await;
    let there = here.at(&second);
    assert!(there.is_signed_in().await);
    here.post("/console/sign-out", &[]).await.expect(303);
    assert!(!there.is_signed_in().await);
    let (removed, made) = visitor_as(&first, "admin").await;
    assert!(removed.at(&second).is_signed_in().await);
    let path = format!("/operators/{}", made["operator_id"].as_str().unwrap());
    first.admin("DELETE", &path, None).await.expect(204);
    assert!(!removed.at(&second).is_signed_in().await);
    // A second question that one node asked is answered at another.
    let here = Visitor::new(&first, first.operator_token()).await;
    let form = [("enabled", "false"), ("reason", "maintenance")];
    let path = "/console/providers/sandbox-live/change";
    let asked = here.post(path, &form).await.expect(200);
    let answer = answer_in(&asked.text);
    let form = [form[0], form[1], ("confirmed", &*answer)];
    here.at(&second).post(path, &form).await.expect(303);
}

#[tokio::test]
async fn a_browser_behind_https_gets_the_prefixed_cookie_only() {
    let folder = fresh_folder();
    let config = folder.path().join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("kassette.toml"),
        "admin_hosts = [\"ops.example\"]\n",
    )
    .unwrap();
    let server = Server::with_modules(folder).await;
    let url = format!("{}/console/sign-in", server.admin_root());
    let form = [("token", server.operator_token())];
    let request = server
        .http
        .post(url)
        .form(&form)
        .header("host", "ops.example");
    let request = request.header(ORIGIN, "https://ops.example");
    let (pair, whole) = cookie_of(&server.send(request).await.expect(303));
    assert!(
        pair.starts_with("__Host-") && whole.contains("; Secure"),
        "{whole}"
    );
    assert!(
        whole.contains("; Path=/;") && !whole.contains("Domain"),
        "{whole}"
    );
    let url = format!("{}/console/operators", server.admin_root());
    let get = |cookie: &str| {
        let request = server.http.get(&url).header("host", "ops.example");
        request.header(COOKIE, cookie)
    };
    server.send(get(&pair)).await.expect(200);
    let bare = pair.trim_start_matches("__Host-");
    server.send(get(bare)).await.expect(303);
}
