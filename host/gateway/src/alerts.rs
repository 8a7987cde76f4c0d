//! Alerts: messages that operators get immediately, in addition to the log, the metrics and the audit log.

use std::time::Duration;

use kassette_http::{HeaderMap, HeaderName, HeaderValue, Method, Request, SendError, StatusCode};
use serde_json::{Value, json};
use tokio_util::bytes::Bytes;
use url::Url;

use crate::Gateway;

/// Pauses between the attempts to send an alert. Alerts that are not yet sent are lost when the process ends.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(600),
];
/// Time limit for name resolution, connection, request and response together.
const DEADLINE: Duration = Duration::from_secs(10);
const MAX_RESPONSE: usize = 4 << 10;

/// Reason why the alert service did not accept an alert.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error(transparent)]
    NoAnswer(#[from] SendError),
    #[error("it answered {0}")]
    Status(StatusCode),
}

impl Gateway {
    /// Sends a message to the operators' alert service if the settings name one. `kind` is the action's name
    /// in the audit log; the fields of the object `more` are added to the message.
    pub(crate) fn alert(&self, kind: &'static str, text: &str, more: &Value) {
        if self.settings().alerts_url.is_none() {
            return;
        }
        // Chat services show only `text`.
        let mut message = json!({
            "type": kind,
            "at": self.now().rfc3339(),
            "text": format!("Kassette: {text}"),
        });
        if let (Some(message), Some(more)) = (message.as_object_mut(), more.as_object()) {
            message.extend(more.clone());
        }
        let gateway = self.clone();
        tokio::spawn(async move { gateway.send_alert(kind, message.to_string().into()).await });
    }

    /// Sends an alert until the service accepts it or all attempts are used up.
    async fn send_alert(&self, kind: &'static str, message: Bytes) {
        for pause in PAUSES.map(Some).into_iter().chain([None]) {
            let settings = self.settings();
            let Some(url) = settings.alerts_url.clone() else {
                return;
            };
            let why = match self.try_alert(url, message.clone()).await {
                Ok(()) => return count("taken"),
                Err(why) => why,
            };
            let Some(pause) = pause else {
                count("failed");
                tracing::error!(alert = kind, error = %why, "an alert was not taken: no further try is made");
                return;
            };
            tracing::warn!(
                alert = kind, error = %why, next_try_seconds = pause.as_secs(),
                "an alert was not taken"
            );
            self.clock().wait_until(self.now().after(pause)).await;
        }
    }

    async fn try_alert(&self, url: Url, body: Bytes) -> Result<(), NotTaken> {
        let json = HeaderValue::from_static("application/json");
        let request = Request {
            method: Method::POST,
            url,
            headers: HeaderMap::from_iter([(HeaderName::from_static("content-type"), json)]),
            body,
            deadline: DEADLINE,
            max_response: MAX_RESPONSE,
            hosts: None,
        };
        let client = self.inner.deliverer.client();
        let status = client.send(request).await?.status;
        match status.is_success() {
            true => Ok(()),
            false => Err(NotTaken::Status(status)),
        }
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("kassette_alerts_total", "outcome" => outcome).increment(1);
}
