//! Forms sent to payer pages: accepted origins and contents.

use serde_json::json;

use crate::browser::Form;
use crate::harness::shared;
use crate::pages::{assert_page, url};

#[tokio::test]
async fn forms_are_taken_from_our_own_pages_alone() {
    let server = shared().await;
    let payment = server.create(server.test_key(), json!({})).await;
    let action = format!("{}/choose", url(&payment));
    let send = async |headers: &[(&str, &str)]| {
        let mut request = server
            .http
            .post(&action)
            .form(&[("payment_method", "ideal"), ("seen.ideal", "sandbox-test")]);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        server.send(request).await
    };
    let base = server.base();
    for headers in [
        &[][..],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none")],
        &[("sec-fetch-site", "cross-site"), ("origin", base)],
        &[("referer", url(&payment))],
    ] {
        let page = send(headers).await;
        assert_eq!(page.status, 403, "{headers:?}");
        assert_page(&page);
    }
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "created"
    );
    send(&[("sec-fetch-site", "same-origin")]).await.expect(303);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "pending"
    );
    let abandon = Form {
        action: format!("{}/abandon", url(&payment)),
        hidden: vec![],
    };
    server
        .send(
            server
                .http
                .post(&abandon.action)
                .header("origin", "https://evil.example"),
        )
        .await
        .expect(403);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "pending"
    );
    server.submit(&abandon, &[]).await.expect(303);
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "created"
    );
}

#[tokio::test]
async fn odd_forms_are_answered_calmly() {
    let server = shared().await;
    let payment = server.create(server.test_key(), json!({})).await;
    let form = Form {
        action: format!("{}/choose", url(&payment)),
        hidden: vec![],
    };
    for method in ["", "cash", "upi_imps", "venmo"] {
        let page = server
            .submit(&form, &[("payment_method", method)])
            .await
            .expect(422);
        assert_page(&page);
        assert!(
            page.text.contains("role=\"alert\"") && page.text.contains("value=\"ideal\""),
            "shows the list again"
        );
    }
    server.submit(&form, &[]).await.expect(422);
    let large = "x".repeat(20_000);
    assert_page(
        &server
            .submit(&form, &[("payment_method", &large)])
            .await
            .expect(413),
    );
    let json = server
        .http
        .post(&form.action)
        .header("origin", server.base())
        .json(&json!({ "payment_method": "ideal" }));
    assert_page(&server.send(json).await.expect(422));
    assert_eq!(
        server.payment(server.test_key(), &payment).await["status"],
        "created"
    );
}
