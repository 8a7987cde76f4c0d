//! The payer at the page of a simulated provider.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use kassette_http::{HeaderMap, HeaderValue, Method};
use url::Url;

use super::Shop;

/// Maximum number of redirects that are followed.
const MAX_REDIRECTS: usize = 8;

/// A payment's page at the simulated provider: `…/pay/{session}`.
pub(super) struct PayerPage {
    page: Url,
    /// Target of the page's form.
    form: Url,
    session: String,
}

impl PayerPage {
    /// # Errors
    /// The address is not a page of a simulated provider.
    pub(super) fn new(address: &str) -> Result<Self, String> {
        let page: Option<Url> = address.parse().ok();
        let parts = page.as_ref().and_then(|page| page.path().rsplit_once('/'));
        let found = match (&page, parts) {
            (Some(page), Some((form, session))) if form.ends_with("/pay") => {
                let mut target = page.clone();
                target.set_path(form);
                Some(Self {
                    session: session.to_owned(),
                    form: target,
                    page: page.clone(),
                })
            }
            _ => None,
        };
        found.ok_or_else(|| {
            format!("the payment is at {address}, which is not a page of the sandbox: name another --method")
        })
    }

    /// Address of the page.
    pub(super) const fn address(&self) -> &Url {
        &self.page
    }

    /// Opens the page, which presses a button for some amounts, and returns to the gateway.
    pub(super) async fn open(&self, shop: &Shop) -> Result<(), String> {
        follow(shop, Method::GET, self.page.clone(), Bytes::new()).await
    }

    /// Presses a button.
    pub(super) async fn press(&self, shop: &Shop, outcome: &str) -> Result<(), String> {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("session", &self.session)
            .append_pair("outcome", outcome)
            .finish();
        follow(shop, Method::POST, self.form.clone(), body.into()).await
    }
}

/// Sends a request, and follows the redirects as a browser does.
async fn follow(shop: &Shop, method: Method, url: Url, body: Bytes) -> Result<(), String> {
    let (mut method, mut url, mut body) = (method, url, body);
    for _ in 0..MAX_REDIRECTS {
        let mut headers = HeaderMap::new();
        if method == Method::POST {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            headers.insert(CONTENT_TYPE, form);
        }
        let response = shop.send(method, url.clone(), headers, body).await?;
        let target = response.headers.get(LOCATION);
        let target = target.and_then(|target| url.join(target.to_str().ok()?).ok());
        match target {
            Some(target) if response.status.is_redirection() => url = target,
            _ if response.status.is_success() => return Ok(()),
            _ => return Err(format!("{url} answers {}", response.status)),
        }
        (method, body) = (Method::GET, Bytes::new());
    }
    Err(format!("{url}: too many redirects"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_page_of_a_simulated_provider_is_opened() {
        let page = PayerPage::new("http://127.0.0.1:9/sandbox-test/pay/tok_1").unwrap();
        assert_eq!(page.form.as_str(), "http://127.0.0.1:9/sandbox-test/pay");
        assert_eq!(page.session, "tok_1");
        for other in ["", "/pay/x", "https://provider.example/checkout/1"] {
            assert!(PayerPage::new(other).is_err(), "{other}");
        }
    }
}
