//! The simulators and the clock of a node, which the process of `dev` has for all its nodes.

use std::net::SocketAddr;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method};
use kassette_domain::secret::Secret;
use kassette_http::{Client, Guard, Request};
use serde_json::Value;
use url::Url;

use super::order::{ControlError, Order};

/// Longest wait for an answer: all that is due on each node can take long.
const PATIENCE: Duration = Duration::from_secs(120);
/// Largest answer: the books of a long test.
const MOST_BYTES: usize = 256 << 20;

/// Where the process of `dev` takes orders.
pub(crate) struct Elsewhere {
    url: Url,
    authorization: HeaderValue,
    client: Client,
}

impl Elsewhere {
    /// At a loopback address, with the secret that orders are believed by.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn new(address: SocketAddr, secret: &Secret) -> Result<Self, String> {
        let url = format!("http://{address}/");
        Ok(Self {
            url: Url::parse(&url).map_err(|error| error.to_string())?,
            authorization: authorization(secret).map_err(|error| error.to_string())?,
            client: Client::new(Guard {
                allow_loopback: true,
            }),
        })
    }

    /// Has it done; the answer is the order's.
    ///
    /// # Errors
    /// The process's, or that it does not answer.
    pub(crate) async fn ask(&self, order: &Order) -> Result<Value, ControlError> {
        let failed = |error: &dyn std::fmt::Display| ControlError::Failed(error.to_string());
        let body = serde_json::to_vec(order).map_err(|error| failed(&error))?;
        let headers = [
            (AUTHORIZATION, self.authorization.clone()),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ];
        let request = Request {
            method: Method::POST,
            url: self.url.clone(),
            headers: headers.into_iter().collect(),
            body: body.into(),
            deadline: PATIENCE,
            max_response: MOST_BYTES,
            hosts: None,
        };
        let sent = self.client.send(request).await;
        let response = sent.map_err(|error| failed(&error))?;
        let answer = serde_json::from_slice(&response.body);
        answer.map_err(|error| failed(&error))?
    }
}

/// What an order is believed by.
///
/// # Errors
/// Where the secret has other characters than those of a header.
pub(crate) fn authorization(
    secret: &Secret,
) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    HeaderValue::try_from(format!("Bearer {}", secret.expose()))
}
