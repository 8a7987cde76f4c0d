//! What resellers and the operators behind them do in the tests.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::browser::Form;
use crate::harness::{Answer, Server, merge, unique};

/// A reseller with a key for each environment, rolled out.
pub(crate) struct Delegate {
    pub(crate) id: u64,
    pub(crate) test: String,
    pub(crate) live: String,
}

impl Server {
    /// A reseller of one's own.
    pub(crate) async fn delegate(&self) -> Delegate {
        let body = json!({ "name": format!("Agency {}", unique()) });
        let made = self.admin("POST", "/resellers", Some(&body)).await;
        let id = made.expect(201).json()["reseller_id"].as_u64().unwrap();
        let body = json!({ "enabled": true, "actor": "ann", "reason": "signed" });
        let path = format!("/resellers/{id}/live-rollout");
        self.admin("PUT", &path, Some(&body)).await.expect(200);
        let key = async |environment: &str| {
            let body = json!({ "environment": environment });
            let path = format!("/resellers/{id}/keys");
            let issued = self.admin("POST", &path, Some(&body)).await.expect(201);
            issued.json()["key"].as_str().unwrap().to_owned()
        };
        Delegate {
            id,
            test: key("test").await,
            live: key("live").await,
        }
    }

    /// An operator's word on a delegation.
    pub(crate) async fn set_delegation(&self, reseller: u64, merchant: u64, status: &str) {
        let body = json!({ "status": status, "actor": "ann", "reason": "asked for" });
        let path = format!("/resellers/{reseller}/delegations/{merchant}");
        self.admin("PUT", &path, Some(&body)).await.expect(200);
    }

    /// A reseller's request, signed where its key is a live one.
    pub(crate) async fn resell(
        &self,
        key: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let url = format!("{}{path}", self.base());
        let text = body.map(Value::to_string).unwrap_or_default();
        let mut request = self
            .http
            .request(method.parse().unwrap(), url)
            .bearer_auth(key);
        if key.starts_with("kr_live_") {
            let (at, nonce) = (self.now().await, format!("nonce-of-a-test-{}", unique()));
            let hash = hex::encode(Sha256::digest(text.as_bytes()));
            let lines = format!("{method}\n{path}\n{at}\n{nonce}\n{hash}");
            let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
            mac.update(lines.as_bytes());
            request = request
                .header("x-service-timestamp", at)
                .header("x-service-nonce", nonce)
                .header(
                    "x-service-signature",
                    hex::encode(mac.finalize().into_bytes()),
                );
        }
        if body.is_some() {
            request = request
                .header("content-type", "application/json")
                .body(text);
        }
        self.send(request).await
    }

    /// A direct payment that a reseller makes for a merchant.
    pub(crate) async fn resold(&self, key: &str, merchant: u64, more: Value) -> Value {
        let body = new_resold(merchant, more);
        let made = self.resell(key, "POST", "/api/v1/reseller/payments", Some(&body));
        made.await.expect(200).json()
    }

    /// Invites somebody; the invitation.
    pub(crate) async fn invite(&self, key: &str) -> Value {
        let body = json!({
            "email": "owner@invited.example", "business_name": "Invited <Shop>",
            "client_ref": format!("invitation-{}", unique()),
        });
        let invited = self.resell(key, "POST", "/api/v1/reseller/invitations", Some(&body));
        invited.await.expect(200).json()
    }

    /// A reseller's merchant of an invitation.
    pub(crate) async fn invited(&self, key: &str, invitation: &Value) -> Value {
        let listed = self
            .resell(key, "GET", "/api/v1/reseller/merchants", None)
            .await;
        let listed = listed.expect(200).json();
        let merchants = listed["merchants"].as_array().unwrap();
        let ours = |each: &&Value| each["client_ref"] == invitation["client_ref"];
        merchants.iter().find(ours).unwrap().clone()
    }

    /// A code for a merchant to consent with.
    pub(crate) async fn consent_code(&self, merchant: u64) -> String {
        let path = format!("/merchants/{merchant}/consent-codes");
        let issued = self.admin("POST", &path, None).await.expect(201).json();
        issued["code"].as_str().unwrap().to_owned()
    }

    /// Presses a button of an invitation's page.
    pub(crate) async fn decide_on(&self, invitation: &Value, decision: &str, code: &str) -> Answer {
        let url = invitation["invitation_url"].as_str().unwrap();
        let form = Form {
            action: url.to_owned(),
            hidden: vec![],
        };
        self.submit(&form, &[("consent_code", code), ("decision", decision)])
            .await
    }
}

/// A reseller's request for a direct payment; `more` overrides or adds fields.
pub(crate) fn new_resold(merchant: u64, more: Value) -> Value {
    let mut body = json!({
        "merchant_id": merchant, "client_ref": format!("ref-{}", unique()),
        "order_id": format!("order-{}", unique()), "amount": "49.90", "currency": "EUR",
        "checkout_mode": "direct", "payment_method": "ideal",
    });
    merge(&mut body, more);
    body
}
