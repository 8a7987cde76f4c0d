//! Merchants and resellers manage their own webhook endpoints over the API and receive events through them.

use serde_json::{Value, json};

use crate::harness::{Answer, Server, shared};
use crate::receiver::{Hook, Receiver, Reply};
use crate::reseller_calls::START;

const ENDPOINTS: &str = "/api/v1/account/webhook-endpoints";

impl Server {
    async fn account_key(&self, merchant: u64, environment: &str) -> String {
        let body = json!({ "environment": environment, "scopes": ["account:manage"] });
        let path = format!("/merchants/{merchant}/keys");
        let issued = self.admin("POST", &path, Some(&body)).await.expect(201);
        issued.json()["key"].as_str().unwrap().to_owned()
    }

    async fn delete(&self, key: &str, path: &str) -> Answer {
        let url = format!("{}{path}", self.base());
        self.send(self.http.delete(url).bearer_auth(key)).await
    }
}

#[tokio::test]
async fn a_backend_makes_its_endpoint_and_sends_again_what_failed() {
    let server = shared().await;
    let (merchant, pays, _) = server.merchant(json!({})).await;
    let key = server.account_key(merchant, "test").await;
    let live = server.account_key(merchant, "live").await;
    let receiver = Receiver::new().await;
    receiver.answer(Reply::Status(410));
    let body = json!({ "url": receiver.url(), "event_types": ["payment.pending"] });
    let made = server.post(&key, ENDPOINTS, &body).await.expect(201).json();
    let path = format!("{ENDPOINTS}/{}", made["id"].as_str().unwrap());
    server.get(&live, &path).await.expect(404);

    // One 410 switches nothing off. The backend sees it, switches the endpoint off and on, and has the event again.
    server.started(&pays, "ideal", json!({})).await;
    let refused = receiver.wait(1).await.remove(0);
    assert!(refused.is_signed_by(made["secret"].as_str().unwrap()));
    let url = format!("{}{path}", server.base());
    let off = server.http.patch(url).bearer_auth(&key);
    let off = server.send(off.json(&json!({ "enabled": false }))).await;
    assert_eq!(off.expect(200).json()["enabled"], false);
    let list = format!(
        "/api/v1/account/deliveries?endpoint_id={}",
        made["id"].as_str().unwrap()
    );
    let listed = server.get(&key, &list).await.expect(200).json();
    let delivery = &listed["deliveries"][0];
    assert_eq!(delivery["attempts"][0]["status"], 410);
    receiver.answer(Reply::Status(200));
    let url = format!("{}{path}", server.base());
    let on = server.http.patch(url).bearer_auth(&key);
    let on = server.send(on.json(&json!({ "enabled": true }))).await;
    assert_eq!(on.expect(200).json()["enabled"], true);
    let again = format!(
        "/api/v1/account/deliveries/{}/redeliver",
        delivery["id"].as_str().unwrap()
    );
    server.post(&key, &again, &json!({})).await.expect(201);
    let got = receiver.wait(2).await.remove(1);
    assert_eq!(got.event_id(), refused.event_id());

    let log = server
        .admin("GET", "/audit?action=endpoint&limit=100", None)
        .await;
    let log = log.expect(200).json();
    let object = format!("endpoint/{}", made["id"].as_str().unwrap());
    let ours = |line: &&Value| line["object"] == object && line["action"] == "endpoint.create";
    let line = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(ours)
        .unwrap();
    assert!(
        line["actor"].as_str().unwrap().starts_with("key/"),
        "{line}"
    );
    server.delete(&key, &path).await.expect(204);
    server.get(&key, &path).await.expect(404);
}

const RESELLERS: &str = "/api/v1/reseller/webhook-endpoints";

#[tokio::test]
async fn a_reseller_hears_of_its_live_payments_while_the_merchant_lets_it() {
    let server = shared().await;
    let (reseller, merchant, _) = server.reselling().await;
    let scopes = json!({ "environment": "live", "scopes": ["account:manage"] });
    let (_, key) = server.reseller_key(reseller.id, scopes).await;
    let receiver = Receiver::new().await;
    let asked = json!({ "url": receiver.url() });
    let made = server.reseller_post(&key, RESELLERS, &asked).await;
    let made = made.expect(201).json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let hook = Hook {
        id: text("id"),
        secret: text("secret"),
    };
    let path = format!("{RESELLERS}/{}", hook.id);
    let shown = server.reseller_get(&key, &path).await.expect(200).json();
    assert_eq!(
        (&shown["reseller_id"], &shown["environment"]),
        (&json!(reseller.id), &json!("live"))
    );
    let begin = async || {
        let made = server.resold(&reseller.live, merchant, json!({})).await;
        let body = json!({ "payment_id": made["payment_id"], "payment_method": "ideal" });
        let started = server.reseller_post(&reseller.live, START, &body).await;
        started.expect(200);
        made["payment_id"].clone()
    };
    receiver.answer(Reply::Status(503));
    let payment = begin().await;
    let got = receiver.wait(1).await.remove(0);
    assert!(got.is_signed_by(&hook.secret));
    let event = got.event();
    assert_eq!(
        (&event["data"]["payment_id"], got.kind().as_str()),
        (&payment, "payment.pending")
    );
    let listed = server.deliveries(&hook).await;
    let failed = server.attempted(&listed[0]["id"], 1).await;
    assert_eq!((listed.len(), &failed["status"]), (1, &json!("pending")));

    // A revocation also withholds redeliveries, and no new delivery is queued.
    receiver.answer(Reply::Status(200));
    server.set_standing(&reseller, merchant, "revoked").await;
    server.hook_act(&hook, "deliver", json!({})).await;
    let withheld = server.attempted(&failed["id"], 2).await;
    let why = withheld["attempts"][1]["error"].as_str().unwrap();
    assert!(why.starts_with("not sent: the merchant has not"), "{why}");
    assert_eq!(receiver.got().len(), 1);
    server.set_standing(&reseller, merchant, "authorized").await;
    server.roll_out(&reseller, false).await;
    server.hook_act(&hook, "deliver", json!({})).await;
    let withheld = server.attempted(&failed["id"], 3).await;
    let why = withheld["attempts"][2]["error"].as_str().unwrap();
    assert!(why.contains("not rolled out"), "{why}");
    server.roll_out(&reseller, true).await;
    server.hook_act(&hook, "deliver", json!({})).await;
    let again = receiver.wait(2).await.remove(1);
    assert_eq!(again.event_id(), got.event_id());
}
