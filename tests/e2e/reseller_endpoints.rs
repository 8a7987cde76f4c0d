//! Invitations, merchants and visibility for resellers: exact shapes and statuses, and no data of others.

use serde_json::{Value, json};

use crate::harness::{Server, shared, unique};
use crate::reseller_calls::{INVITATIONS, MERCHANTS, PAYMENTS, Reseller, START, delegated};

/// Names of an object's fields, in order.
#[track_caller]
pub(crate) fn names(object: &Value) -> Vec<&str> {
    let object = object.as_object().unwrap();
    object.keys().map(String::as_str).collect()
}

/// A reseller's request for an invitation.
fn invitation() -> Value {
    json!({
        "email": "owner@shop.example", "business_name": "Bäckerei Müller & Söhne",
        "client_ref": format!("invite-{}", unique()),
    })
}

#[tokio::test]
async fn an_invitation_is_answered_in_full_and_replayed_by_its_reference() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let asked = invitation();
    let made = server
        .reseller_post(&reseller.live, INVITATIONS, &asked)
        .await;
    let made = made.expect(200);
    assert_eq!(made.header("idempotent-replayed"), None);
    assert_eq!(made.header("cache-control"), Some("no-store"));
    assert!(made.header("x-request-id").is_some());
    let body = made.json();
    let mut expected = [
        "invitation_id",
        "email",
        "business_name",
        "client_ref",
        "status",
        "invitation_url",
        "expires_at",
    ];
    expected.sort_unstable();
    let mut told = names(&body);
    told.sort_unstable();
    assert_eq!(told, expected);
    for name in ["email", "business_name", "client_ref"] {
        assert_eq!(body[name], asked[name]);
    }
    assert_eq!(body["status"], "invited");
    let url = body["invitation_url"].as_str().unwrap();
    assert!(url.starts_with(server.base()), "{url}");
    let expires: jiff::Timestamp = body["expires_at"].as_str().unwrap().parse().unwrap();
    let days = (expires.as_second() - server.now().await) as f64 / 86_400.0;
    assert!((days - 30.0).abs() < 0.1, "{days}");

    // Both environments share the references; the same data returns the same invitation.
    for key in [&reseller.live, &reseller.test] {
        let again = server
            .reseller_post(key, INVITATIONS, &asked)
            .await
            .expect(200);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.json(), body);
    }
    for (field, value) in [("email", "other@shop.example"), ("business_name", "Other")] {
        let mut other = asked.clone();
        other[field] = value.into();
        let refused = server
            .reseller_post(&reseller.test, INVITATIONS, &other)
            .await;
        assert!(refused.expect(409).error().contains(field));
    }
    // References of another reseller and of payments are independent.
    let other = server.reseller().await;
    let theirs = server.reseller_post(&other.test, INVITATIONS, &asked).await;
    assert_ne!(
        theirs.expect(200).json()["invitation_id"],
        body["invitation_id"]
    );
    let (merchant, ..) = server.merchant(json!({})).await;
    server.set_standing(&reseller, merchant, "authorized").await;
    let same = json!({ "client_ref": asked["client_ref"] });
    server.make_delegated(&reseller.test, merchant, same).await;
}

#[tokio::test]
async fn what_is_wrong_with_an_invitation_is_named() {
    let server = shared().await;
    let reseller = server.reseller().await;
    for (field, value) in [
        ("email", json!("nobody")),
        ("email", json!(null)),
        ("business_name", json!("")),
        ("business_name", json!("x".repeat(101))),
        ("client_ref", json!("with space")),
        ("client_ref", json!("x".repeat(191))),
        ("client_ref", json!(7)),
        ("wallet", json!("x")),
        ("merchant_id", json!(1)),
    ] {
        for key in [&reseller.test, &reseller.live] {
            let mut body = invitation();
            body[field] = value.clone();
            let refused = server.reseller_post(key, INVITATIONS, &body).await;
            let told = refused.expect(422).error();
            assert!(told.contains(field), "{field}: {told}");
        }
    }
    let listed = server.reseller_get(&reseller.test, MERCHANTS).await;
    assert_eq!(
        listed.expect(200).json(),
        json!({ "merchants": [], "next_cursor": null })
    );
}

#[tokio::test]
async fn merchants_are_told_with_where_the_reseller_stands() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let merchants = async || {
        let listed = server.reseller_get(&reseller.live, MERCHANTS).await;
        let body = listed.expect(200).json();
        assert_eq!(names(&body), ["merchants", "next_cursor"]);
        body["merchants"].as_array().unwrap().clone()
    };
    let asked = invitation();
    server
        .reseller_post(&reseller.test, INVITATIONS, &asked)
        .await
        .expect(200);
    let expected = json!({
        "merchant_id": null, "business_name": asked["business_name"], "status": "invited",
        "authorized_at": null, "client_ref": asked["client_ref"],
    });
    assert_eq!(merchants().await, std::slice::from_ref(&expected));
    let (merchant, ..) = server.merchant(json!({})).await;
    server.set_standing(&reseller, merchant, "authorized").await;
    let listed = merchants().await;
    assert_eq!(listed.len(), 2);
    assert!(listed.contains(&expected));
    let theirs = |listed: Vec<Value>| {
        let mut found = listed.into_iter();
        found.find(|each| each["merchant_id"] == merchant).unwrap()
    };
    let authorized = theirs(listed);
    assert_eq!(authorized["status"], "authorized");
    assert_eq!(authorized["client_ref"], Value::Null);
    let since = authorized["authorized_at"].as_str().unwrap();
    assert!(
        since.ends_with('Z') && since.parse::<jiff::Timestamp>().is_ok(),
        "{since}"
    );
    server.set_standing(&reseller, merchant, "revoked").await;
    assert_eq!(theirs(merchants().await)["status"], "revoked");
}

#[tokio::test]
async fn merchants_are_listed_in_pages_that_together_are_the_plain_list() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let page = async |query: &str| {
        let path = format!("{MERCHANTS}{query}");
        let listed = server.reseller_get(&reseller.live, &path).await;
        let listed = listed.expect(200).json();
        let merchants = listed["merchants"].as_array().unwrap().iter();
        let refs: Vec<Value> = merchants.map(|each| each["client_ref"].clone()).collect();
        (refs, listed["next_cursor"].as_str().map(str::to_owned))
    };
    for _ in 0..3 {
        let body = invitation();
        let answer = server.reseller_post(&reseller.test, INVITATIONS, &body);
        answer.await.expect(200);
    }
    let (invited, end) = page("").await;
    assert_eq!((invited.len(), end), (3, None));
    let (first, next) = page("?limit=2").await;
    let next = next.unwrap();
    assert_eq!(first, invited[..2]);
    let (rest, end) = page(&format!("?limit=2&cursor={next}")).await;
    assert_eq!((&rest[..], end), (&invited[2..], None));
    for whole in ["?limit=1000", "?limit=3"] {
        assert_eq!(page(whole).await, (invited.clone(), None), "{whole}");
    }
    for (wrong, named) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=07", "limit"),
        ("limit=", "limit"),
        ("cursor=nonsense", "cursor"),
        ("limit=1&limit=1", "limit"),
        ("page=2", "page"),
    ] {
        for key in [&reseller.test, &reseller.live] {
            let refused = server
                .reseller_get(key, &format!("{MERCHANTS}?{wrong}"))
                .await;
            let told = refused.expect(422).error();
            assert!(told.contains(named), "{wrong}: {told}");
        }
    }
}

/// Statuses of a key's requests: read and start the payment, list the merchant's payments, create a payment.
async fn refused(server: &Server, key: &str, merchant: u64, payment: &Value) -> [u16; 4] {
    let id = payment["payment_id"].as_str().unwrap();
    let start = json!({ "payment_id": id, "payment_method": "ideal" });
    let answers = [
        server.reseller_get(key, &format!("{PAYMENTS}/{id}")).await,
        server.reseller_post(key, START, &start).await,
        server
            .reseller_get(key, &format!("{PAYMENTS}?merchant_id={merchant}"))
            .await,
        server
            .reseller_post(key, PAYMENTS, &delegated(merchant, json!({})))
            .await,
    ];
    for answer in &answers {
        if answer.status != 200 {
            answer.error();
        }
        for secret in [id, payment["order_id"].as_str().unwrap()] {
            assert!(!answer.text.contains(secret), "{}", answer.text);
        }
    }
    answers.map(|answer| answer.status)
}

#[tokio::test]
async fn others_payments_are_not_found_and_merchants_that_did_not_authorize_are_forbidden() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let test = server
        .make_delegated(&reseller.test, merchant, direct.clone())
        .await;
    let live = server
        .make_delegated(&reseller.live, merchant, direct)
        .await;

    // Another reseller, either authorized for another merchant or for the same one.
    let stranger = server.reseller().await;
    let (rival, _, _) = server.reselling().await;
    server.set_standing(&rival, merchant, "authorized").await;
    for (key, payment) in [(&stranger.test, &test), (&stranger.live, &live)] {
        assert_eq!(
            refused(server, key, merchant, payment).await,
            [404, 404, 403, 403]
        );
    }
    for (key, payment) in [(&rival.test, &test), (&rival.live, &live)] {
        // The rival may work for the merchant, but cannot see the other reseller's payments.
        assert_eq!(
            refused(server, key, merchant, payment).await,
            [404, 404, 200, 200]
        );
    }
    // Key of the same reseller for the other environment.
    assert_eq!(
        refused(server, &reseller.live, merchant, &test).await[..2],
        [404, 404]
    );
    assert_eq!(
        refused(server, &reseller.test, merchant, &live).await[..2],
        [404, 404]
    );
    // A payment that the merchant created itself.
    let own = server.create(server.test_key(), json!({})).await;
    assert_eq!(
        refused(server, &reseller.test, 1, &own).await,
        [404, 404, 403, 403]
    );
    // A merchant that does not exist cannot be distinguished from one without a delegation.
    let listed = server
        .reseller_get(&reseller.test, &format!("{PAYMENTS}?merchant_id=1"))
        .await;
    let missing = format!("{PAYMENTS}?merchant_id=999999");
    let missing = server.reseller_get(&reseller.test, &missing).await;
    assert_eq!(listed.expect(403).error(), missing.expect(403).error());

    // A revocation ends all access of this reseller immediately, and of no other.
    server.set_standing(&reseller, merchant, "revoked").await;
    for (key, payment) in [(&reseller.test, &test), (&reseller.live, &live)] {
        assert_eq!(refused(server, key, merchant, payment).await, [403; 4]);
    }
    assert_eq!(
        refused(server, &rival.test, merchant, &test).await,
        [404, 404, 200, 200]
    );
    server.set_standing(&reseller, merchant, "authorized").await;
    let path = format!("{PAYMENTS}/{}", test["payment_id"].as_str().unwrap());
    server.reseller_get(&reseller.test, &path).await.expect(200);
}

#[tokio::test]
async fn the_demo_reseller_works_as_it_is_printed() {
    let server = shared().await;
    let demo = &server.ready()["resellers"][0];
    let text = |name: &str| demo[name].as_str().unwrap().to_owned();
    let reseller = Reseller {
        id: demo["reseller_id"].as_u64().unwrap(),
        test: text("test_key"),
        live: text("live_key"),
    };
    let merchant = demo["authorized_merchant_ids"][0].as_u64().unwrap();
    for (key, test_mode) in [(&reseller.test, true), (&reseller.live, false)] {
        let payment = server.make_delegated(key, merchant, json!({})).await;
        assert_eq!(payment["test_mode"], test_mode);
    }
}
