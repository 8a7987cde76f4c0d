//! Merchants accept and decline invitations of resellers on the invitation page.

use serde_json::json;

use crate::browser::Form;
use crate::harness::{Server, shared};
use crate::pages::assert_page;

const DAY: u64 = 24 * 3600;

#[tokio::test]
async fn a_merchant_accepts_with_its_code_and_with_nothing_less() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let invitation = server.invite(&reseller.test).await;
    assert_eq!(invitation["status"], "invited");
    let url = invitation["invitation_url"].as_str().unwrap();
    assert!(
        url.starts_with(&format!("{}/invitation/", server.base())),
        "{url}"
    );
    let page = server.open(url).await.expect(200);
    assert_page(&page);
    assert!(
        page.text.contains("Invited &#60;Shop&#62;"),
        "{}",
        page.text
    );
    assert!(!page.text.contains("owner@invited.example"));
    // Opening the page decides nothing, and accepting needs a valid code.
    let form = Form::first(&page.text, url);
    assert_eq!(form.action, url);
    for code in ["", " ", "km_wrong", &reseller.test] {
        let page = server
            .decide_on(&invitation, "accept", code)
            .await
            .expect(422);
        assert_page(&page);
        assert!(code.trim().is_empty() || !page.text.contains(code));
    }
    let entry = server.invited(&reseller.test, &invitation).await;
    assert_eq!(
        (&entry["status"], &entry["merchant_id"]),
        (&json!("invited"), &json!(null))
    );
    assert_eq!(entry["authorized_at"], json!(null));

    let code = server.consent_code(merchant).await;
    let answer = server
        .decide_on(&invitation, "accept", &format!(" {code}\n"))
        .await;
    assert_eq!(
        answer.expect(303).header("location"),
        url.strip_prefix(server.base())
    );
    let page = server.open(url).await.expect(200);
    assert!(page.text.contains("You have accepted"), "{}", page.text);
    let entry = server.invited(&reseller.test, &invitation).await;
    assert_eq!(entry["status"], "authorized");
    assert_eq!(entry["merchant_id"], merchant);
    assert_eq!(entry["business_name"], "Invited <Shop>");
    assert!(entry["authorized_at"].is_string());
    server.resold(&reseller.test, merchant, json!({})).await;

    for decision in ["accept", "decline"] {
        let late = server
            .decide_on(&invitation, decision, &code)
            .await
            .expect(409);
        assert!(late.text.contains("You have accepted"), "{}", late.text);
    }
    // A code is valid for one decision.
    let second = server.invite(&reseller.test).await;
    server.decide_on(&second, "accept", &code).await.expect(422);
}

#[tokio::test]
async fn declining_needs_the_address_alone_and_is_final() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let invitation = server.invite(&reseller.test).await;
    server
        .decide_on(&invitation, "decline", "")
        .await
        .expect(303);
    let entry = server.invited(&reseller.test, &invitation).await;
    assert_eq!(
        (&entry["status"], &entry["merchant_id"]),
        (&json!("declined"), &json!(null))
    );
    let code = server.consent_code(merchant).await;
    server
        .decide_on(&invitation, "accept", &code)
        .await
        .expect(409);
    // The refused decision did not use up the code.
    let another = server.invite(&reseller.test).await;
    server
        .decide_on(&another, "accept", &code)
        .await
        .expect(303);
}

#[tokio::test]
async fn five_wrong_tries_burn_a_code_and_four_do_not() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    for (tries, survives) in [(4, true), (5, false)] {
        for wrong in ["another code", "a wrong end"] {
            let code = server.consent_code(merchant).await;
            let end = if code.ends_with('x') { "y" } else { "x" };
            let wrong = match wrong {
                "another code" => "km_0123456789012345678901234567890123456789".to_owned(),
                _ => format!("{}{end}", &code[..code.len() - 1]),
            };
            let invitation = server.invite(&reseller.test).await;
            for _ in 0..tries {
                server
                    .decide_on(&invitation, "accept", &wrong)
                    .await
                    .expect(422);
            }
            let expected = if survives { 303 } else { 422 };
            let answer = server.decide_on(&invitation, "accept", &code).await;
            answer.expect(expected);
            if !survives {
                let elsewhere = server.invite(&reseller.test).await;
                server
                    .decide_on(&elsewhere, "accept", &code)
                    .await
                    .expect(422);
                let fresh = server.consent_code(merchant).await;
                server
                    .decide_on(&invitation, "accept", &fresh)
                    .await
                    .expect(303);
            }
        }
    }
}

#[tokio::test]
async fn forms_of_other_pages_and_links_answer_nothing() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let invitation = server.invite(&reseller.test).await;
    let url = invitation["invitation_url"].as_str().unwrap();
    for query in ["?decision=decline", "?decision=accept&consent_code=km_x"] {
        server.open(&format!("{url}{query}")).await.expect(200);
    }
    server.send(server.http.head(url)).await.expect(200);
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let foreign = server
            .http
            .post(url)
            .header(name, value)
            .form(&[("decision", "decline")]);
        server.send(foreign).await.expect(403);
    }
    let form = Form {
        action: url.to_owned(),
        hidden: vec![],
    };
    for fields in [&[][..], &[("decision", "maybe")]] {
        server.submit(&form, fields).await.expect(422);
    }
    let entry = server.invited(&reseller.test, &invitation).await;
    assert_eq!(entry["status"], "invited");
    let nobody = format!("{}/invitation/nobody", server.base());
    let page = server.open(&nobody).await.expect(404);
    assert_page(&page);
    let form = Form {
        action: nobody,
        hidden: vec![],
    };
    server
        .submit(&form, &[("decision", "decline")])
        .await
        .expect(404);
}

#[tokio::test]
async fn codes_end_after_a_day_and_invitations_after_thirty() {
    let server = Server::fresh().await;
    let reseller = server.reseller().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let invitation = server.invite(&reseller.test).await;
    let code = server.consent_code(merchant).await;
    server.advance(DAY).await;
    server
        .decide_on(&invitation, "accept", &code)
        .await
        .expect(422);
    server.advance(28 * DAY + DAY / 2).await;
    assert_eq!(
        server.invited(&reseller.test, &invitation).await["status"],
        "invited"
    );
    server.advance(DAY / 2).await;
    let url = invitation["invitation_url"].as_str().unwrap();
    let page = server.open(url).await.expect(200);
    assert!(
        page.text.contains("This invitation has expired"),
        "{}",
        page.text
    );
    let fresh = server.consent_code(merchant).await;
    for decision in ["accept", "decline"] {
        server
            .decide_on(&invitation, decision, &fresh)
            .await
            .expect(409);
    }
    let entry = server.invited(&reseller.test, &invitation).await;
    assert_eq!(
        (&entry["status"], &entry["merchant_id"]),
        (&json!("expired"), &json!(null))
    );
}
