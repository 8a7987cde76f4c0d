//! Access of a node to the clock and the simulators in the parent process.

use std::net::SocketAddr;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method};
use kassette_domain::secret::Secret;
use kassette_http::{Client, Guard, Request};
use serde_json::Value;
use url::Url;

use super::order::{ControlError, Order};

/// Timeout of an order. Due work on all nodes can take long.
const ORDER_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum size of a response, in bytes: the records of a long test.
const MOST_BYTES: usize = 256 << 20;

/// Client for orders to the parent process.
pub(crate) struct Elsewhere {
    url: Url,
    authorization: HeaderValue,
    client: Client,
}

impl Elsewhere {
    /// Creates a client for a loopback address, with the secret that authenticates orders.
    ///
    /// # Errors
    /// A sentence with the reason.
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

    /// Executes an order and returns its result.
    ///
    /// # Errors
    /// The error of the parent process, or of the connection to it.
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
            deadline: ORDER_TIMEOUT,
            max_response: MOST_BYTES,
            hosts: None,
        };
        let sent = self.client.send(request).await;
        let response = sent.map_err(|error| failed(&error))?;
        let answer = serde_json::from_slice(&response.body);
        answer.map_err(|error| failed(&error))?
    }
}

/// Value of the `Authorization` header of an order.
///
/// # Errors
/// If the secret has characters that are invalid in a header.
pub(crate) fn authorization(
    secret: &Secret,
) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    HeaderValue::try_from(format!("Bearer {}", secret.expose()))
}
