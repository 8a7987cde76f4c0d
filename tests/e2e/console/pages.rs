//! The console's pages: figures as in the ledger, escaping, roles, environments.

use serde_json::{Value, json};

use super::*;

/// Addresses of pages that exist in every gateway.
const PAGES: [&str; 14] = [
    "/console/",
    "/console/payments",
    "/console/payments?q=nothing-like-this",
    "/console/work",
    "/console/daybook",
    "/console/modules",
    "/console/modules/method.ideal",
    "/console/providers",
    "/console/merchants",
    "/console/merchants/1",
    "/console/deliveries?status=failed",
    "/console/resellers?reseller_id=1",
    "/console/audit?verify=true",
    "/console/status",
];

fn in_environment(path: &str, environment: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}environment={environment}")
}

async fn admin_visitor(server: &Server) -> Visitor<'_> {
    Visitor::new(server, server.operator_token()).await
}

/// A page as people read it: without markup, entities or line breaks.
fn text_of(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
        text.push(' ');
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// An amount of the API as pages show it.
fn shown(amount: &Value) -> String {
    amount.as_str().unwrap().replace('-', "\u{2212}")
}

async fn page_of(visitor: &Visitor<'_>, payment: &Value, environment: &str) -> String {
    let id = payment["payment_id"].as_str().unwrap();
    let path = format!("/console/payments/{id}");
    let page = visitor.get(&in_environment(&path, environment)).await;
    page.expect(200).text
}

#[tokio::test]
async fn every_page_is_small_and_runs_nothing_of_its_own() {
    // Alone, because the data of other tests contains markup and makes pages longer.
    let server = Server::fresh().await;
    let visitor = admin_visitor(&server).await;
    for page in PAGES {
        for environment in ["live", "test"] {
            let path = in_environment(page, environment);
            let answer = visitor.get(&path).await.expect(200);
            let html = &answer.text;
            let policy = answer.header("content-security-policy").unwrap();
            assert!(policy.starts_with("default-src 'none'"), "{policy}");
            assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
            for never in ["style=", "<style", "onclick", "javascript:", "data:"] {
                assert!(!html.contains(never), "{path} contains {never}");
            }
            assert_eq!(html.matches("<script").count(), 1, "{path}");
            let tint = format!("data-environment=\"{environment}\"");
            assert!(html.contains(&tint), "{path}");
            let sheet = html.split("rel=\"stylesheet\" href=\"").nth(1).unwrap();
            let sheet = sheet.split('"').next().unwrap();
            let sheet = visitor.get(sheet).await.expect(200).text;
            let size = html.len() + sheet.len();
            assert!(size <= 64_000, "{path} has {size} bytes");
            // A form that changes something has the token.
            for form in html.split("method=\"post\"").skip(1) {
                let form = form.split("</form>").next().unwrap();
                assert!(form.contains("name=\"csrf\""), "{path}: {form}");
            }
        }
    }
}

#[tokio::test]
async fn a_viewer_sees_the_pages_without_forms_that_change_anything() {
    let server = shared().await;
    let (viewer, _) = visitor_as(server, "viewer").await;
    let admin = admin_visitor(server).await;
    let payment = completed(server).await;
    let id = payment["payment_id"].as_str().unwrap();
    let own = format!("/console/payments/{id}");
    for page in PAGES.iter().copied().chain([&*own]) {
        let path = in_environment(page, "test");
        let html = viewer.get(&path).await.expect(200).text;
        let forms = html.split("method=\"post\" action=\"").skip(1);
        let actions: Vec<&str> = forms.filter_map(|form| form.split('"').next()).collect();
        let signs_out = |action: &&str| action.starts_with("/console/sign-out");
        assert!(actions.iter().all(signs_out), "{path}: {actions:?}");
    }
    let html = admin
        .get(&in_environment(&own, "test"))
        .await
        .expect(200)
        .text;
    assert!(html.contains(&format!("/console/payments/{id}/refunds?environment=test")));
}

#[tokio::test]
async fn the_day_book_and_the_overview_show_the_sums_of_the_ledger() {
    let server = Server::fresh().await;
    let visitor = admin_visitor(&server).await;
    let payment = completed(&server).await;
    completed(&server).await;
    let id = payment["payment_id"].as_str().unwrap();
    let refund = json!({ "amount": "12.40", "actor": "Tests", "reason": "a test" });
    let path = format!("/payments/{id}/refunds");
    server.admin("POST", &path, Some(&refund)).await.expect(201);
    let day = payment["created_at"].as_str();
    let now = server
        .admin("GET", "/dev/clock", None)
        .await
        .expect(200)
        .json();
    let day = day.or(now["now"].as_str()).unwrap()[..10].to_owned();
    let days = format!("/finance/days?from={day}&to={day}&environment=test");
    let booked = async || {
        let days = server.admin("GET", &days, None).await.expect(200).json();
        let rows = days["days"].as_array().unwrap().clone();
        let refunded = rows.iter().any(|row| row["sums"]["refunded"] == "12.40");
        refunded.then_some(rows)
    };
    let rows = server.wait_for("the refund in the ledger", booked).await;
    let page = format!("/console/daybook?from={day}&to={day}&zone=UTC&environment=test");
    let book = text_of(&visitor.get(&page).await.expect(200).text);
    let csv = page.replace("/console/daybook", "/console/daybook.csv");
    let csv = visitor.get(&csv).await.expect(200).text;
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert_eq!(csv.lines().count(), rows.len() + 1);
    for row in &rows {
        let amounts = [&row["opening"], &row["closing"], &row["sums"]["captured"]];
        for amount in amounts.into_iter().filter(|amount| !amount.is_null()) {
            assert!(book.contains(&shown(amount)), "{amount}: {book}");
        }
        let line = csv.lines().skip(1).find(|line| {
            let account = row["provider_id"].as_str().unwrap();
            line.contains(account) && line.contains(row["currency"].as_str().unwrap())
        });
        let fields: Vec<&str> = line.unwrap().split(',').collect();
        let column = |name: &str| {
            let index = head.iter().position(|column| *column == name).unwrap();
            fields[index]
        };
        assert_eq!(column("closing"), row["closing"].as_str().unwrap());
        assert_eq!(column("opening"), row["opening"].as_str().unwrap());
        for (kind, sum) in row["sums"].as_object().unwrap() {
            assert_eq!(column(kind), sum.as_str().unwrap(), "{kind}");
        }
    }
    let overview = visitor
        .get("/console/?environment=test")
        .await
        .expect(200)
        .text;
    let overview = text_of(&overview);
    // Two payments of 49.90, of which 12.40 were refunded.
    assert!(
        overview.contains("EUR 99.80 \u{2212}12.40 0.00 87.40"),
        "{overview}"
    );
}

#[tokio::test]
async fn the_overviews_figures_are_those_of_the_stored_payments_and_survive_a_restart() {
    let server = Server::fresh().await;
    for _ in 0..3 {
        completed(&server).await;
    }
    server.started(server.test_key(), "ideal", json!({})).await;
    let check = async |server: &Server| {
        let stats = "/stats?span=hour&environment=test";
        let found = async || {
            let stats = server.admin("GET", stats, None).await.expect(200).json();
            (stats["total"]["paid"] == 3).then_some(stats)
        };
        let stats = server.wait_for("the figures", found).await;
        let payments = server
            .admin("GET", "/payments?environment=test", None)
            .await;
        let payments = payments.expect(200).json()["payments"]
            .as_array()
            .unwrap()
            .clone();
        assert_eq!(stats["total"]["created"], payments.len());
        let sum = |name: &str| -> i64 {
            let points = stats["points"].as_array().unwrap().iter();
            points.map(|point| point[name].as_i64().unwrap()).sum()
        };
        assert_eq!((sum("created"), sum("paid")), (4, 3));
        let method = &stats["methods"][0];
        assert_eq!(
            (&method["method_id"], &method["started"], &method["paid"]),
            (&json!("ideal"), &json!(4), &json!(3))
        );
        assert_eq!(stats["accounts"][0]["started"], 4);
        assert!(stats["total"]["start_p50_ms"].is_u64(), "{stats}");
        let other = server.admin("GET", "/stats?environment=live", None).await;
        assert_eq!(other.expect(200).json()["total"]["created"], 0);
    };
    check(&server).await;
    let folder = server.stop().await;
    let server = Server::in_folder(folder).await;
    check(&server).await;
    let refused = server.admin("GET", "/stats?span=year", None).await;
    refused.expect(422);
}

#[tokio::test]
async fn the_payers_address_is_masked_and_gone_when_it_was_erased() {
    let server = shared().await;
    let visitor = admin_visitor(server).await;
    let more = json!({ "customer_email": "buyer-20418@post.example" });
    let (payment, _) = server.started(server.test_key(), "ideal", more).await;
    let html = page_of(&visitor, &payment, "test").await;
    assert!(html.contains("b…@post.example"), "{html}");
    assert!(!html.contains("buyer-20418"));
    let id = payment["payment_id"].as_str().unwrap();
    let body = json!({ "actor": "Tests", "reason": "a test" });
    let path = format!("/payments/{id}/cancel");
    server.admin("POST", &path, Some(&body)).await.expect(200);
    let path = format!("/payments/{id}/redact");
    server.admin("POST", &path, Some(&body)).await.expect(200);
    let html = page_of(&visitor, &payment, "test").await;
    assert!(text_of(&html).contains("Payer erased"), "{html}");
    assert!(!html.contains("post.example"));
}

#[tokio::test]
async fn texts_from_outside_are_shown_and_never_run() {
    let server = shared().await;
    let visitor = admin_visitor(server).await;
    let attack = format!("<img src=x onerror=\"alert(1)\">{}", unique());
    let payment = json!({ "order_id": attack });
    let (payment, _) = server.started(server.test_key(), "ideal", payment).await;
    let name = format!("<script>alert('{}')</script>", unique());
    let merchant = json!({ "name": name });
    let made = server.admin("POST", "/merchants", Some(&merchant)).await;
    let number = made.expect(201).json()["merchant_id"].to_string();
    let found = format!(
        "/console/payments?q={}&environment=live",
        attack.replace('&', "%26")
    );
    let pages = [
        page_of(&visitor, &payment, "test").await,
        visitor.get("/console/payments?environment=test").await.text,
        visitor.get(&found).await.text,
        visitor.get("/console/merchants").await.text,
        visitor
            .get(&format!("/console/merchants/{number}"))
            .await
            .text,
        visitor.get("/console/audit").await.text,
    ];
    for html in &pages {
        assert!(
            !html.contains("<img") && !html.contains("<script>"),
            "{html}"
        );
    }
    assert!(
        pages[0].contains("&lt;img") || pages[0].contains("&#60;img"),
        "{}",
        pages[0]
    );
    // Characters that change the direction of text can come in a query.
    let page = visitor
        .get("/console/payments?q=a%E2%80%AEb%1B")
        .await
        .expect(200);
    assert!(!page.text.contains('\u{202e}') && !page.text.contains('\u{1b}'));
}

#[tokio::test]
async fn an_address_of_an_object_has_the_objects_environment() {
    let server = shared().await;
    let visitor = admin_visitor(server).await;
    let payment = completed(server).await;
    let id = payment["payment_id"].as_str().unwrap();
    let path = format!("/console/payments/{id}");
    for wrong in ["", "?environment=live"] {
        let answer = visitor.get(&format!("{path}{wrong}")).await.expect(303);
        let to = answer.header(LOCATION.as_str());
        assert_eq!(to, Some(&*format!("{path}?environment=test")));
    }
    visitor
        .get(&format!("{path}?environment=both"))
        .await
        .expect(422);
    for unknown in [
        "/console/payments/0123456789abcdef0123456789abcdef",
        "/console/payments/x",
        "/console/merchants/99999",
        "/console/modules/method.nothing",
        "/console/resellers?reseller_id=9999",
        "/console/nothing",
    ] {
        visitor.get(unknown).await.expect(404);
    }
}

#[tokio::test]
async fn a_single_exact_hit_leads_to_its_payment() {
    let server = shared().await;
    let visitor = admin_visitor(server).await;
    let order = format!("KR-{}", unique());
    let more = json!({ "order_id": order });
    let (payment, _) = server.started(server.test_key(), "ideal", more).await;
    let id = payment["payment_id"].as_str().unwrap();
    let expected = format!("/console/payments/{id}?environment=test");
    let attempt = server
        .admin("GET", &format!("/payments/{id}"), None)
        .await
        .json();
    let attempt = attempt["attempts"][0]["attempt_id"]
        .as_str()
        .unwrap()
        .to_owned();
    for text in [&order, id, &attempt] {
        let answer = visitor.get(&format!("/console/payments?q={text}")).await;
        let answer = answer.expect(303);
        assert_eq!(answer.header(LOCATION.as_str()), Some(&*expected), "{text}");
    }
    let begin = visitor
        .get(&format!("/console/payments?q={}", &id[..12]))
        .await;
    assert!(
        begin.expect(200).text.contains(&order),
        "by the beginning of its id"
    );
    let live = visitor
        .get(&format!("/console/payments?q={order}&environment=live"))
        .await;
    assert!(live.expect(200).text.contains("Nothing found"));
}

#[tokio::test]
async fn a_payments_page_has_its_money_zeros_too_and_the_words_of_the_api() {
    let server = shared().await;
    let visitor = admin_visitor(server).await;
    let (fresh, _) = server.started(server.test_key(), "ideal", json!({})).await;
    let text = text_of(&page_of(&visitor, &fresh, "test").await);
    for part in [
        "Due 49.90 EUR",
        "Received 0.00 EUR",
        "Returned 0.00 EUR",
        "At risk 0.00 EUR",
        "Net 0.00 EUR",
        "Pending",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let paid = completed(server).await;
    let id = paid["payment_id"].as_str().unwrap();
    let whole = server
        .admin("GET", &format!("/payments/{id}"), None)
        .await
        .json();
    let text = text_of(&page_of(&visitor, &paid, "test").await);
    assert!(
        text.contains("Received 49.90 EUR") && text.contains("Net 49.90 EUR"),
        "{text}"
    );
    assert!(text.contains("Completed, confirmed"), "{text}");
    let decision = &whole["decisions"][0];
    assert!(text.contains(decision["slot"].as_str().unwrap()), "{text}");
    for event in whole["events"].as_array().unwrap() {
        assert!(text.contains(event["type"].as_str().unwrap()), "{event}");
    }
}
