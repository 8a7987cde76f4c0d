//! Converts a request to the message of its connection.

use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Uri, Version};
use url::Url;

use crate::connect::Sender;
use crate::exchange::{NotSent, Request};
use crate::payload::Payload;

/// Default User-Agent.
const AGENT: &str = concat!("kassette/", env!("CARGO_PKG_VERSION"));

pub(crate) fn message(
    request: &Request<'_>,
    sender: &Sender,
) -> Result<http::Request<Payload>, NotSent> {
    let url = &request.url;
    let malformed = |_| NotSent::Malformed("the address");
    let mut message = http::Request::new(Payload::new(request.body.clone()));
    *message.method_mut() = request.method.clone();
    *message.headers_mut() = request.headers.clone();
    match sender {
        Sender::H1(_) => {
            *message.uri_mut() = target(url).parse::<Uri>().map_err(malformed)?;
            let host = HeaderValue::from_str(authority(url))
                .map_err(|_| NotSent::Malformed("the host"))?;
            message.headers_mut().insert(HOST, host);
        }
        Sender::H2(_) => {
            let absolute = format!("{}://{}{}", url.scheme(), authority(url), target(url));
            *message.uri_mut() = absolute.parse::<Uri>().map_err(malformed)?;
            *message.version_mut() = Version::HTTP_2;
        }
    }
    message
        .headers_mut()
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(AGENT));
    Ok(message)
}

/// Path and query.
fn target(url: &Url) -> &str {
    &url[url::Position::BeforePath..url::Position::AfterQuery]
}

/// Host, and the port if it is not the default port of the scheme.
fn authority(url: &Url) -> &str {
    &url[url::Position::BeforeHost..url::Position::AfterPort]
}
