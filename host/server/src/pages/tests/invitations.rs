//! The page on which a merchant answers a reseller's invitation.

use super::*;

fn desk() -> Shop {
    shop(view(Status::Created, vec![]))
}

#[tokio::test]
async fn an_open_invitation_says_who_asks_and_has_both_buttons() {
    let shop = desk();
    let page = shop.invitation().await;
    assert_eq!(page.status, StatusCode::OK);
    page.says("Agency &#60;b&#62;");
    page.says(" would like to take payments for you");
    page.says("Shop &#34;Seven&#34;");
    page.says(&format!(
        r#"method="post" action="/invitation/{INVITATION_TOKEN}""#
    ));
    page.says(r#"name="consent_code""#);
    page.says(r#"name="decision" value="accept""#);
    page.says(r#"name="decision" value="decline" formnovalidate"#);
    assert!(shop.asked().is_empty(), "looking changes nothing");
}

#[tokio::test]
async fn accepting_needs_the_code_and_leads_to_where_it_stands() {
    let shop = desk();
    let page = shop.decide("decision=accept&consent_code=+").await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("Please enter your consent code.");
    assert!(shop.asked().is_empty(), "an empty field is no try");

    let page = shop.decide("decision=accept&consent_code=km_wrong").await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.says("This code is wrong");
    page.omits("km_wrong");

    let body = format!("decision=accept&consent_code=+{CODE}%0A");
    let page = shop.decide(&body).await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    let address = format!("/invitation/{INVITATION_TOKEN}");
    assert_eq!(page.header("location"), address);
    shop.invitation().await.says("You have accepted");
    assert_eq!(shop.asked(), ["accept km_wrong", "accept km_right"]);
}

#[tokio::test]
async fn declining_needs_the_address_alone() {
    let shop = desk();
    let page = shop.decide("decision=decline&consent_code=").await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    shop.invitation().await.says("This invitation was declined");
}

#[tokio::test]
async fn what_is_answered_or_over_shows_no_form() {
    let shop = desk();
    for standing in DelegationStatus::ALL {
        if standing == DelegationStatus::Invited {
            continue;
        }
        *shop.backend.standing.lock().unwrap() = standing;
        let page = shop.invitation().await;
        assert_eq!(page.status, StatusCode::OK);
        page.omits("<form");
        let body = format!("decision=accept&consent_code={CODE}");
        let late = shop.decide(&body).await;
        assert_eq!(late.status, StatusCode::CONFLICT);
        late.omits("<form");
    }
}

#[tokio::test]
async fn a_form_without_a_decision_or_from_elsewhere_does_nothing() {
    let shop = desk();
    for body in ["", "decision=perhaps", "consent_code=km_right"] {
        let page = shop.decide(body).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
        page.says("Please press Accept or Decline.");
    }
    let foreign = Request::post(format!("/invitation/{INVITATION_TOKEN}"))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "cross-site");
    let foreign = foreign.body(Body::from("decision=decline")).unwrap();
    let page = shop.send(foreign).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    page.says(&format!(r#"href="/invitation/{INVITATION_TOKEN}""#));
    assert!(shop.asked().is_empty());
}

#[tokio::test]
async fn an_unknown_invitation_is_a_page_of_its_own() {
    let shop = desk();
    for token in ["nobody", "%20", &"x".repeat(65)] {
        let page = shop.get(&format!("/invitation/{token}")).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND);
        page.says("We do not know this invitation");
    }
    let page = shop.form("/invitation/nobody", "decision=decline").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
}
