//! Every combination of a payment and a key that has no access to it: 403 or 404, never data. Also, the effects of
//! a revocation.

use serde_json::{Value, json};

use crate::delegates::new_resold;
use crate::harness::{Answer, Server, shared};
use crate::pages::url;
use crate::reseller_calls::Reseller;

/// Owner of a key, or creator of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Merchant(u64),
    /// A reseller's ID, and whether its delegation by the payments' merchant is authorized.
    Reseller(u64, bool),
}

struct Key {
    whose: Whose,
    live: bool,
    key: String,
}

struct Made {
    by: Whose,
    merchant: u64,
    live: bool,
    body: Value,
}

impl Key {
    /// Expected statuses of reading and starting. `None` for a start that is allowed, which is not tried.
    fn expected(&self, made: &Made) -> (u16, Option<u16>) {
        if self.live != made.live {
            return (404, Some(404));
        }
        match (self.whose, made.by) {
            (Whose::Merchant(id), by) if id == made.merchant => match by {
                Whose::Merchant(_) => (200, None),
                // The merchant's payment, which only the reseller can start.
                Whose::Reseller(..) => (200, Some(409)),
            },
            (Whose::Reseller(id, lets), Whose::Reseller(maker, _)) if id == maker => {
                if lets {
                    (200, None)
                } else {
                    (403, Some(403))
                }
            }
            _ => (404, Some(404)),
        }
    }

    fn prefix(&self) -> &'static str {
        match self.whose {
            Whose::Merchant(_) => "/api/v1/payments",
            Whose::Reseller(..) => "/api/v1/reseller/payments",
        }
    }

    async fn read(&self, server: &Server, id: &str) -> Answer {
        let path = format!("{}/{id}", self.prefix());
        server.resell(&self.key, "GET", &path, None).await
    }

    async fn start(&self, server: &Server, id: &str) -> Answer {
        let path = format!("{}/start", self.prefix());
        let body = json!({ "payment_id": id, "payment_method": "ideal" });
        server.resell(&self.key, "POST", &path, Some(&body)).await
    }
}

/// Asserts that a refusal reveals nothing about the payment and equals that of a payment that does not exist.
#[track_caller]
fn tells_nothing(answer: &Answer, made: &Made, of_nobody: &Answer) {
    let error = answer.error();
    for field in ["payment_id", "order_id", "client_ref", "checkout_url"] {
        if let Some(text) = made.body[field].as_str() {
            assert!(!answer.text.contains(text), "{field}: {}", answer.text);
        }
    }
    if answer.status == 404 {
        assert_eq!(error, of_nobody.error());
    }
}

fn keys_of(reseller: &Reseller, lets: bool, keys: &mut Vec<Key>) {
    for (live, key) in [(false, &reseller.test), (true, &reseller.live)] {
        keys.push(Key {
            whose: Whose::Reseller(reseller.id, lets),
            live,
            key: key.clone(),
        });
    }
}

#[tokio::test]
async fn nobody_reaches_a_payment_that_is_not_theirs() {
    let server = shared().await;
    let mut keys = Vec::new();
    let mut merchants = Vec::new();
    for _ in 0..2 {
        let (id, test, live) = server.merchant(json!({})).await;
        for (live, key) in [(false, test), (true, live)] {
            keys.push(Key {
                whose: Whose::Merchant(id),
                live,
                key,
            });
        }
        merchants.push(id);
    }
    let [shop, other_shop] = merchants[..] else {
        unreachable!()
    };
    let (current, other, former) = (
        server.reseller().await,
        server.reseller().await,
        server.reseller().await,
    );
    server.set_standing(&current, shop, "authorized").await;
    server.set_standing(&former, shop, "authorized").await;
    server.set_standing(&other, other_shop, "authorized").await;
    keys_of(&current, true, &mut keys);
    keys_of(&other, false, &mut keys);
    keys_of(&former, false, &mut keys);

    let mut payments = Vec::new();
    for key in &keys[..2] {
        let fields = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
        payments.push(Made {
            by: key.whose,
            merchant: shop,
            live: key.live,
            body: server.create(&key.key, fields).await,
        });
    }
    for (reseller, lets) in [(&current, true), (&former, false)] {
        for (live, key) in [(false, &reseller.test), (true, &reseller.live)] {
            payments.push(Made {
                by: Whose::Reseller(reseller.id, lets),
                merchant: shop,
                live,
                body: server.resold(key, shop, json!({})).await,
            });
        }
    }
    server.set_standing(&former, shop, "revoked").await;

    let nobody = "0123456789abcdef0123456789abcdef";
    for key in &keys {
        let no_read = key.read(server, nobody).await.expect(404);
        let no_start = key.start(server, nobody).await.expect(404);
        for made in &payments {
            let id = made.body["payment_id"].as_str().unwrap();
            let (read, start) = key.expected(made);
            let answer = key.read(server, id).await;
            assert_eq!(answer.status, read, "{:?} reads {:?}", key.whose, made.by);
            if read == 200 {
                assert_eq!(answer.json()["payment_id"], id);
            } else {
                tells_nothing(&answer, made, &no_read);
            }
            if let Some(start) = start {
                let answer = key.start(server, id).await;
                assert_eq!(answer.status, start, "{:?} starts {:?}", key.whose, made.by);
                tells_nothing(&answer, made, &no_start);
            }
        }
    }
    for made in &payments {
        assert_eq!(server.inside(&made.body).await["attempts"], json!([]));
    }
}

#[tokio::test]
async fn no_reseller_makes_or_lists_payments_of_a_merchant_that_does_not_let_it() {
    let server = shared().await;
    let (shop, shop_key, shop_live) = server.merchant(json!({})).await;
    let (other_shop, ..) = server.merchant(json!({})).await;
    let (current, former) = (server.reseller().await, server.reseller().await);
    for reseller in [&current, &former] {
        server.set_standing(reseller, shop, "authorized").await;
    }
    let made = server.resold(&current.test, shop, json!({})).await;
    server.resold(&former.test, shop, json!({})).await;
    server.set_standing(&former, shop, "revoked").await;

    let list = |merchant: u64| format!("/api/v1/reseller/payments?merchant_id={merchant}");
    let create = "/api/v1/reseller/payments";
    for (reseller, merchant) in [
        (&current, other_shop),
        (&current, 999_999),
        (&former, shop),
        (&former, other_shop),
    ] {
        for key in [&reseller.test, &reseller.live] {
            let listed = server.resell(key, "GET", &list(merchant), None).await;
            let no_list = listed.expect(403).error();
            let body = new_resold(merchant, json!({}));
            let created = server.resell(key, "POST", create, Some(&body)).await;
            let no_create = created.expect(403).error();
            assert_eq!(
                no_list, no_create,
                "whether there is such a merchant is not told"
            );
        }
    }
    // Each reseller sees only its own payments, in the key's environment.
    let listed = server.resell(&current.test, "GET", &list(shop), None).await;
    let listed = listed.expect(200).json();
    let listed = listed["payments"].as_array().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["payment_id"], made["payment_id"]);
    let listed = server.resell(&current.live, "GET", &list(shop), None).await;
    assert_eq!(listed.expect(200).json()["payments"], json!([]));
    // References of another reseller neither conflict nor reveal anything.
    let theirs = json!({ "client_ref": "the-same-for-all", "order_id": "theirs" });
    server.resold(&current.test, shop, theirs).await;
    server.set_standing(&former, other_shop, "authorized").await;
    let ours = json!({ "client_ref": "the-same-for-all", "order_id": "ours" });
    let ours = server.resold(&former.test, other_shop, ours).await;
    assert_eq!(ours["order_id"], "ours");

    // Keys of merchants do not open reseller endpoints, and the reverse.
    for key in [&shop_key, &shop_live] {
        let merchants = server.get(key, "/api/v1/reseller/merchants").await;
        merchants.expect(401).error();
        server.get(key, &list(shop)).await.expect(401).error();
    }
    for key in [&current.test, &current.live] {
        let id = made["payment_id"].as_str().unwrap();
        let path = format!("/api/v1/payments/{id}");
        server
            .resell(key, "GET", &path, None)
            .await
            .expect(401)
            .error();
        server
            .resell(key, "GET", "/api/v1/methods", None)
            .await
            .expect(401)
            .error();
    }
}

#[tokio::test]
async fn resellers_see_their_own_invitations_and_merchants_alone() {
    let server = shared().await;
    let (one, two) = (server.reseller().await, server.reseller().await);
    let (shop, ..) = server.merchant(json!({})).await;
    let invitation = server.invite(&one.test).await;
    server.set_standing(&one, shop, "authorized").await;
    for key in [&two.test, &two.live] {
        let listed = server
            .resell(key, "GET", "/api/v1/reseller/merchants", None)
            .await;
        assert_eq!(
            listed.expect(200).json(),
            json!({ "merchants": [], "next_cursor": null })
        );
    }
    // The same reference of another reseller is a separate invitation.
    let body = json!({
        "email": "somebody@else.example", "business_name": "Else",
        "client_ref": invitation["client_ref"],
    });
    let theirs = server.resell(
        &two.test,
        "POST",
        "/api/v1/reseller/invitations",
        Some(&body),
    );
    let theirs = theirs.await.expect(200).json();
    assert_ne!(theirs["invitation_id"], invitation["invitation_id"]);
    assert_ne!(theirs["invitation_url"], invitation["invitation_url"]);
}

#[tokio::test]
async fn after_a_revocation_open_attempts_run_on_and_none_starts_on_the_page_either() {
    let server = shared().await;
    let reseller = server.reseller().await;
    let (shop, shop_key, _) = server.merchant(json!({})).await;
    server.set_standing(&reseller, shop, "authorized").await;
    let hosted = json!({ "checkout_mode": "hosted", "payment_method": null });
    let running = server.resold(&reseller.test, shop, hosted.clone()).await;
    let waiting = server.resold(&reseller.test, shop, hosted).await;
    let direct = server.resold(&reseller.test, shop, json!({})).await;
    let provider_page = server.chosen(&running, "ideal").await;
    let page = server.open(url(&waiting)).await.expect(200);
    assert!(page.text.contains("name=\"payment_method\""));
    server.set_standing(&reseller, shop, "revoked").await;

    let page = server.open(url(&waiting)).await.expect(200);
    assert!(
        !page.text.contains("name=\"payment_method\""),
        "{}",
        page.text
    );
    let form = crate::browser::Form {
        action: format!("{}/choose", url(&waiting)),
        hidden: vec![],
    };
    server
        .submit(&form, &[("payment_method", "ideal")])
        .await
        .expect(403);
    let body = json!({ "payment_id": direct["payment_id"], "payment_method": "ideal" });
    let started = server.resell(
        &reseller.test,
        "POST",
        "/api/v1/reseller/payments/start",
        Some(&body),
    );
    started.await.expect(403).error();
    assert_eq!(server.inside(&direct).await["attempts"], json!([]));
    assert_eq!(server.inside(&waiting).await["attempts"], json!([]));

    // An open attempt can still be paid, and the merchant gets the events.
    server.pay(&provider_page, "approve").await;
    let paid = server.until(&shop_key, &running, "completed").await;
    assert_eq!(paid["payment_id"], running["payment_id"]);
    // After a new authorization, the reseller can continue.
    server.set_standing(&reseller, shop, "authorized").await;
    let started = server.resell(
        &reseller.test,
        "POST",
        "/api/v1/reseller/payments/start",
        Some(&body),
    );
    started.await.expect(200);
}
