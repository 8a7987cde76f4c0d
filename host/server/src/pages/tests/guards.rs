//! Protection of payers on every page.

use std::time::Instant;

use super::*;
use crate::pages::{after_panic, assets, busy, say};
use crate::telemetry::Log;
use axum::middleware;
use axum::response::Response;
use axum::routing::get;

/// Maximum size of a page with everything that it loads.
const MOST_BYTES: usize = 60_000;

#[tokio::test]
async fn no_page_shows_what_is_the_payers_or_ours_alone() {
    for page in every_page().await {
        for private in [
            EMAIL,
            &"ab".repeat(16),
            &"cd".repeat(16),
            "53.89",
            "ref-1",
            &"ef".repeat(16),
        ] {
            page.omits(private);
        }
    }
}

#[tokio::test]
async fn every_page_carries_its_guards() {
    for page in every_page().await {
        assert_eq!(page.header("cache-control"), "no-store");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        assert_eq!(page.header("x-frame-options"), "DENY");
        assert!(page.header("permissions-policy").contains("payment=()"));
        assert!(page.headers.get("strict-transport-security").is_none());
        if page.status == StatusCode::SEE_OTHER {
            assert!(page.header("location").starts_with("/checkout/"));
            continue;
        }
        let policy = page.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(policy.contains("script-src 'self'; connect-src 'self';"));
        assert!(!policy.contains("unsafe"));
        assert_eq!(page.header("content-language"), "en");
        assert_eq!(page.header("vary"), "Accept-Language, Cookie");
        let assets =
            [&*assets::STYLE, &*assets::SCRIPT, &*assets::ICON].map(|asset| asset.body.len());
        let all = page.html.len() + assets.iter().sum::<usize>();
        assert!(all <= MOST_BYTES, "{all}");
        let script = format!(r#"<script src="{}" defer></script>"#, assets::SCRIPT.path);
        let html = page.html.replacen(&script, "", 1);
        for inline in ["<script", "<style", "style=", " onclick"] {
            assert!(!html.contains(inline), "{inline} is in {html}");
        }
    }
}

#[tokio::test]
async fn only_the_page_that_posts_a_providers_form_may_post_elsewhere() {
    let own = "form-action 'self';";
    let posting_page = shop(pending(posting())).checkout().await;
    assert!(
        posting_page
            .header("content-security-policy")
            .contains("form-action 'self' https: http://127.0.0.1:*")
    );
    posting_page.says(r#"action="https://pay.vendor.example/post""#);
    posting_page.says(r#"name="pa&#34;req" value="&#60;x&#62;""#);
    let served = shop_at(pending(posting()), declined, "https://pay.example");
    let policy = served.checkout().await;
    let policy = policy.header("content-security-policy");
    assert!(policy.contains("form-action 'self' https:;"), "{policy}");
    for action in [fixtures::redirect(), asking(), showing()] {
        let page = shop(pending(action)).checkout().await;
        assert!(page.header("content-security-policy").contains(own));
    }
}

#[tokio::test]
async fn over_https_browsers_are_told_to_stay_there() {
    let shop = shop_at(
        view(Status::Created, vec![]),
        declined,
        "https://pay.example",
    );
    let page = shop.checkout().await;
    assert_eq!(page.header("strict-transport-security"), "max-age=31536000");
}

#[tokio::test]
async fn foreign_forms_are_refused_unread() {
    let shop = shop(pending(asking()));
    for what in ["choose", "answer", "abandon"] {
        let path = format!("/checkout/{TOKEN}/{what}");
        let body = || Body::from("payment_method=ideal");
        let plain =
            Request::post(&path).header("content-type", "application/x-www-form-urlencoded");
        let bare = shop.send(plain.body(body()).unwrap()).await;
        assert_eq!(bare.status, StatusCode::FORBIDDEN);
        let foreign = Request::post(&path)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("sec-fetch-site", "cross-site")
            .header("origin", ORIGIN);
        let foreign = shop.send(foreign.body(body()).unwrap()).await;
        assert_eq!(foreign.status, StatusCode::FORBIDDEN);
        foreign.says(&format!(r#"href="/checkout/{TOKEN}""#));
    }
    assert!(shop.asked().is_empty());
}

#[tokio::test]
async fn a_form_without_the_browsers_word_is_taken_from_our_origin() {
    let shop = shop(view(Status::Created, vec![]));
    let request = Request::post(format!("/checkout/{TOKEN}/choose"))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("origin", ORIGIN);
    shop.send(request.body(Body::from("payment_method=ideal")).unwrap())
        .await;
    assert_eq!(shop.asked(), ["start ideal -"]);
}

#[tokio::test]
async fn forms_are_short_and_plain() {
    let shop = shop(view(Status::Created, vec![]));
    let long = format!("payment_method=ideal&x={}", "y".repeat(17 * 1024));
    let page = shop.post("choose", &long).await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);
    let many = "x=1&".repeat(100);
    let page = shop.post("choose", &many).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    let json = Request::post(format!("/checkout/{TOKEN}/choose"))
        .header("content-type", "application/json")
        .header("sec-fetch-site", "same-origin");
    let page = shop.send(json.body(Body::from("{}")).unwrap()).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(shop.asked().is_empty());
}

#[tokio::test]
async fn pages_that_a_failing_store_keeps_from_being_answered_fill_no_log() {
    let failing: Starting = |_| Err(StartError::Store(Fault::Unavailable("the disk".into())));
    let crowded: Starting = |_| Err(StartError::Store(Fault::Busy));
    // Up to two log lines for each of 20 requests per second.
    for (start, a_second, told) in [(failing, 40, true), (crowded, 0, false)] {
        let (log, _guard) = Log::begin();
        let begun = Instant::now();
        let shop = shop_at(view(Status::Created, vec![]), start, ORIGIN);
        for _ in 0..500 {
            let page = shop.post("choose", "payment_method=ideal").await;
            assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
            page.omits("the disk");
        }
        let log = log.text();
        // Includes the partial seconds at both ends.
        let most = a_second * (begun.elapsed().as_secs() + 2);
        assert!(log.lines().count() as u64 <= most, "{log}");
        assert_eq!(log.contains("the disk"), told, "{log}");
    }
}

#[tokio::test]
async fn words_without_a_page_are_in_the_payers_language() {
    for (answer, status, words) in [
        (
            busy as fn() -> Response,
            StatusCode::SERVICE_UNAVAILABLE,
            "Gerade bezahlen sehr viele Menschen. Warten Sie",
        ),
        (
            after_panic,
            StatusCode::INTERNAL_SERVER_ERROR,
            "Bei uns ist etwas schiefgegangen. Bitte warten Sie",
        ),
    ] {
        let router = Router::new()
            .route("/", get(move || async move { answer() }))
            .layer(middleware::from_fn(say));
        let request = Request::get("/").header("accept-language", "de-AT");
        let request = request.body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(
            response.headers()["content-type"],
            "text/plain; charset=utf-8"
        );
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.starts_with(words), "{text}");
    }
}
