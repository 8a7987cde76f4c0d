//! The SPEC's table "Pages", over plain HTTP: requirements on every page.

use serde_json::{Value, json};

use crate::browser::Form;
use crate::harness::{Answer, Server, shared};

pub(crate) fn url(payment: &Value) -> &str {
    payment["checkout_url"].as_str().unwrap()
}

/// An image of one pixel, in base64.
pub(crate) const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGMQcrUCAAD+AJJdTHTHAAAAAElFTkSuQmCC";

/// Asserts the requirements on every page.
#[track_caller]
pub(crate) fn assert_page(answer: &Answer) {
    let csp = answer.header("content-security-policy").unwrap();
    let parts: Vec<&str> = csp.split(';').map(str::trim).collect();
    for part in [
        "default-src 'none'",
        "style-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(parts.contains(&part), "{part} in {csp}");
    }
    assert!(
        !csp.contains("unsafe") && csp.contains("script-src 'self'; connect-src 'self';"),
        "{csp}"
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    assert!(answer.header("x-request-id").is_some());
    assert!(
        !answer
            .text
            .replace("<script src=\"/assets/", "")
            .contains("<script")
            && !answer.text.contains("onclick")
            && !answer.text.contains("style=\"")
    );
}

#[tokio::test]
async fn a_merchants_brand_is_on_its_pages_as_soon_as_an_operator_has_set_it() {
    let server = shared().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let payment = server.create(&key, json!({})).await;
    let before = server.open(url(&payment)).await.expect(200);
    assert!(!before.text.contains("via \u{2068}") && !before.text.contains("<img"));
    let brand = json!({ "brand": {
        "colour": "#ffcc00", "logo": PICTURE, "show_provider": true, "support": "help@shop.example",
    } });
    let path = format!("/merchants/{merchant}");
    let set = server.admin("PATCH", &path, Some(&brand)).await.expect(200);
    let digest = set.json()["brand"]["logo"].as_str().unwrap().to_owned();
    let page = server.open(url(&payment)).await.expect(200);
    assert_page(&page);
    assert!(page.text.contains("via \u{2068}"), "{}", page.text);
    let support = "<a href=\"mailto:help@shop.example\" rel=\"noreferrer\">help@shop.example</a>";
    assert!(page.text.contains(support), "{}", page.text);
    let path = format!("/logos/{merchant}/{digest}.png");
    let logo = format!("{}{path}", server.base());
    assert!(
        page.text.contains(&format!("src=\"{path}\"")),
        "{}",
        page.text
    );
    let shown = server.open(&logo).await.expect(200);
    assert_eq!(shown.header("content-type"), Some("image/png"));
    let sheet = format!("{}/assets/colour-ffcc00.css", server.base());
    let sheet = server.open(&sheet).await.expect(200);
    assert!(
        sheet.text.contains("--on-panel: #000000;"),
        "{}",
        sheet.text
    );
    let changes = format!("/audit?object=merchant/{merchant}");
    let audit = server.admin("GET", &changes, None).await;
    let entries = audit.expect(200).json()["entries"].clone();
    assert!(
        entries[0]["after"].to_string().contains(&digest),
        "{entries}"
    );
    assert!(!entries.to_string().contains(PICTURE));
}

#[tokio::test]
async fn the_page_shows_what_is_paid_and_every_way_to_pay_it() {
    let server = shared().await;
    let payment = server
        .create(server.test_key(), json!({ "order_id": "Nº 7 <b>&\"" }))
        .await;
    let token = url(&payment).rsplit('/').next().unwrap();
    assert!(
        token.len() == 43
            && token
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    );
    let page = server.open(url(&payment)).await.expect(200);
    assert_page(&page);
    assert!(page.text.contains("€49.90") && page.text.contains("Demo shop"));
    assert!(!page.text.contains("<b>&"), "text is escaped");
    assert!(
        page.text.contains("Nº 7 &#60;b&#62;&#38;&#34;")
            || page.text.contains("Nº 7 &lt;b&gt;&amp;&quot;")
    );
    let listed = server
        .get(
            server.test_key(),
            "/api/v1/methods?currency=EUR&amount=49.90",
        )
        .await
        .expect(200)
        .json();
    let mut from = 0;
    for method in listed["methods"].as_array().unwrap() {
        let button = format!(
            "name=\"payment_method\" value=\"{}\"",
            method["id"].as_str().unwrap()
        );
        let at = page.text[from..]
            .find(&button)
            .unwrap_or_else(|| panic!("{button} in the listing's order"));
        from += at;
    }
    assert!(
        !page.text.contains("id=\"note-"),
        "simulators have no note, which would be in English on every page"
    );
}

#[tokio::test]
async fn no_page_shows_what_payers_and_bystanders_must_not_see() {
    let server = shared().await;
    let email = json!({ "customer_email": "secret.person@example.com", "amount": "77.00" });
    let payment = server.create(server.test_key(), email).await;
    let seen = async |address: &str| {
        let page = server.open(address).await.expect(200).text;
        for secret in [
            "secret.person",
            payment["payment_id"].as_str().unwrap(),
            "83.16",
        ] {
            assert!(!page.contains(secret), "{secret} on {address}");
        }
    };
    assert_eq!(payment["usd_amount"], "83.16");
    seen(url(&payment)).await;
    let provider = server.chosen(&payment, "ideal").await;
    seen(url(&payment)).await;
    seen(&format!("{}/go", url(&payment))).await;
    let back = server.pay(&provider, "approve").await.expect(303);
    server.until(server.test_key(), &payment, "completed").await;
    seen(back.header("location").unwrap()).await;
    seen(url(&payment)).await;
}

#[tokio::test]
async fn test_payments_carry_a_banner_and_live_ones_do_not() {
    let server = shared().await;
    let test = server.create(server.test_key(), json!({})).await;
    let live = server.create(server.live_key(), json!({})).await;
    assert!(
        server
            .open(url(&test))
            .await
            .text
            .contains("<strong>TEST</strong>")
    );
    assert!(
        !server
            .open(url(&live))
            .await
            .text
            .contains("<strong>TEST</strong>")
    );
}

#[tokio::test]
async fn an_unknown_token_has_a_page_of_its_own() {
    let server = shared().await;
    for path in ["checkout", "return"] {
        for token in [
            "x".repeat(43),
            "x".repeat(200),
            "a%00b".into(),
            "%2f".into(),
        ] {
            let page = server
                .open(&format!("{}/{path}/{token}", server.base()))
                .await
                .expect(404);
            assert_page(&page);
            assert!(page.text.contains("We do not know this payment link"));
        }
    }
    let form = Form {
        action: format!("{}/checkout/{}/choose", server.base(), "x".repeat(43)),
        hidden: vec![],
    };
    assert_page(
        &server
            .submit(&form, &[("payment_method", "ideal")])
            .await
            .expect(404),
    );
    server
        .open(&format!("{}/checkout/{}/go", server.base(), "x".repeat(43)))
        .await
        .expect(404);
}

#[tokio::test]
async fn opening_pages_changes_nothing() {
    let server = shared().await;
    let payment = server.create(server.test_key(), json!({})).await;
    // Its events are delivered meanwhile.
    let inside = async || {
        let mut inside = server.inside(&payment).await;
        inside["deliveries"].take();
        inside
    };
    let before = inside().await;
    for path in ["", "?language=pl", "/go", "/choose", "/answer", "/abandon"] {
        let answer = server.open(&format!("{}{path}", url(&payment))).await;
        assert!(
            [200, 303].contains(&answer.status),
            "{path}: {}",
            answer.status
        );
    }
    assert_eq!(inside().await, before);
    server.chosen(&payment, "ideal").await;
    let before = inside().await;
    for path in ["", "?hold", "/go", "/choose", "/answer", "/abandon"] {
        server.open(&format!("{}{path}", url(&payment))).await;
    }
    assert_eq!(inside().await, before);
}

#[tokio::test]
async fn the_choice_leads_to_a_page_of_ours_that_leads_on() {
    let server = shared().await;
    let payment = server
        .create(server.test_key(), json!({ "payment_method": "paypal" }))
        .await;
    let answer = server.choose(&payment, "ideal").await.expect(303);
    let to = answer.header("location").unwrap();
    assert!(
        to.starts_with("/checkout/") && to.ends_with("/go"),
        "our own origin: {to}"
    );
    assert_eq!(
        server.payment(server.test_key(), &payment).await["payment_method"],
        "ideal"
    );
    let go = server
        .open(&format!("{}{to}", server.base()))
        .await
        .expect(200);
    assert_eq!(go.header("referrer-policy"), Some("no-referrer"));
    let link = crate::browser::primary_link(&go.text).unwrap();
    assert!(
        go.text.contains(&format!(
            "<meta http-equiv=\"refresh\" content=\"0; url={link}\">"
        )),
        "{}",
        go.text
    );
    assert!(link.contains("/sandbox-test/pay/"));
    // A payer who opens the payment's page again can continue or choose another method.
    let page = server.open(url(&payment)).await.expect(200);
    assert!(page.text.contains("/go\"") && page.text.contains("/abandon\""));
}

#[tokio::test]
async fn a_direct_payments_page_shows_its_state_and_never_a_choice() {
    let server = shared().await;
    let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let payment = server.create(server.test_key(), fields).await;
    let page = server.open(url(&payment)).await.expect(200);
    assert_page(&page);
    assert!(!page.text.contains("payment_method"));
    let form = Form {
        action: format!("{}/choose", url(&payment)),
        hidden: vec![],
    };
    server
        .submit(&form, &[("payment_method", "ideal")])
        .await
        .expect(409);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "created"
    );
    let started = server
        .start(server.test_key(), &payment, "ideal")
        .await
        .expect(200)
        .json();
    let page = server.open(url(&payment)).await.expect(200);
    assert!(!page.text.contains("payment_method") && !page.text.contains("/abandon"));
    let go = server
        .open(&format!("{}/go", url(&payment)))
        .await
        .expect(200);
    assert_eq!(
        crate::browser::primary_link(&go.text).as_deref(),
        started["redirect_url"].as_str()
    );
}

#[tokio::test]
async fn pages_speak_the_browsers_language() {
    let server = shared().await;
    let payment = server.create(server.test_key(), json!({})).await;
    let mut hints = std::collections::BTreeSet::new();
    for (accepted, language, card, amount) in [
        ("de-AT, en;q=0.5", "de", "Karte", "€\u{a0}49,90"),
        ("fr", "fr", "Carte", "49,90\u{a0}€"),
        ("es-ES,es;q=0.9", "es", "Tarjeta", "49,90\u{a0}€"),
        ("nl", "nl", "Kaart", "€\u{a0}49,90"),
        ("pt-BR", "pt", "Cartão", "€\u{a0}49,90"),
        ("en-GB", "en", "Card", "€49.90"),
        ("pl", "pl", "Karta", "49,90\u{a0}€"),
        ("sv", "sv", "Kort", "49,90\u{a0}€"),
        ("da", "da", "Kort", "49,90\u{a0}€"),
        ("nn, no;q=0.9", "nb", "Kort", "49,90\u{a0}€"),
        ("cs-CZ", "cs", "Karta", "49,90\u{a0}€"),
        ("hu", "hu", "Bankkártya", "49,90\u{a0}€"),
        ("ro", "ro", "Card", "49,90\u{a0}€"),
    ] {
        let page = server
            .open_with(url(&payment), "accept-language", accepted)
            .await
            .expect(200);
        assert!(
            page.text.contains(&format!("<html lang=\"{language}\">")),
            "{accepted}"
        );
        assert_eq!(page.header("content-language"), Some(language));
        let amount = format!("<p class=\"amount\">{amount}</p>");
        assert!(page.text.contains(&amount), "{amount}:\n{}", page.text);
        let label = format!("<bdi class=\"name\">{card}</bdi>");
        assert!(page.text.contains(&label), "{label}:\n{}", page.text);
        let hint = page.text.split("<p class=\"hint\">").nth(1).unwrap();
        hints.insert(hint.split("</p>").next().unwrap().to_owned());
    }
    assert_eq!(hints.len(), 13, "{hints:?}");
    for unknown in ["ja", "", "*", "xx;;q=", "de;q=0"] {
        let page = server
            .open_with(url(&payment), "accept-language", unknown)
            .await
            .expect(200);
        assert!(page.text.contains("<html lang=\"en\">"), "{unknown}");
    }
}

#[tokio::test]
async fn a_live_page_without_approval_offers_nothing() {
    let server = Server::fresh().await;
    let (id, _, live) = server.merchant(json!({})).await;
    let payment = server.create(&live, json!({})).await;
    let page = server.open(url(&payment)).await.expect(200);
    let form = Form::first(&page.text, url(&payment));
    server
        .change_merchant(id, json!({ "live_approved": false }))
        .await;
    let page = server.open(url(&payment)).await.expect(200);
    assert!(!page.text.contains("payment_method"));
    server
        .submit(&form, &[("payment_method", "ideal")])
        .await
        .expect(403);
    assert_eq!(server.payment(&live, &payment).await["status"], "created");
}
