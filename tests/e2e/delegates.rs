//! Requests of resellers, and of the operators who manage them.

use serde_json::{Value, json};

use crate::browser::Form;
use crate::harness::{Answer, Server, merge, unique};
use crate::reseller_calls::{Signed, delegated};

impl Server {
    /// A reseller's request, signed with the server's clock, which a test may have moved.
    pub(crate) async fn resell(
        &self,
        key: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let mut signed = Signed::new(key, method, path, body);
        signed.timestamp = self.now().await.to_string();
        self.ask(&signed).await
    }

    /// Creates a direct payment as a reseller for a merchant.
    pub(crate) async fn resold(&self, key: &str, merchant: u64, more: Value) -> Value {
        let body = new_resold(merchant, more);
        let made = self.resell(key, "POST", "/api/v1/reseller/payments", Some(&body));
        made.await.expect(200).json()
    }

    pub(crate) async fn invite(&self, key: &str) -> Value {
        let body = json!({
            "email": "owner@invited.example", "business_name": "Invited <Shop>",
            "client_ref": format!("invitation-{}", unique()),
        });
        let invited = self.resell(key, "POST", "/api/v1/reseller/invitations", Some(&body));
        invited.await.expect(200).json()
    }

    /// The entry of an invitation in the reseller's list of merchants.
    pub(crate) async fn invited(&self, key: &str, invitation: &Value) -> Value {
        let listed = self
            .resell(key, "GET", "/api/v1/reseller/merchants", None)
            .await;
        let listed = listed.expect(200).json();
        let merchants = listed["merchants"].as_array().unwrap();
        let ours = |each: &&Value| each["client_ref"] == invitation["client_ref"];
        merchants.iter().find(ours).unwrap().clone()
    }

    /// A code with which a merchant consents to an invitation.
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
    let direct = json!({ "checkout_mode": "direct", "payment_method": "ideal" });
    let mut body = delegated(merchant, direct);
    merge(&mut body, more);
    body
}
