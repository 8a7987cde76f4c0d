//! A payer's browser: opens pages, follows links and sends forms.

use serde_json::Value;

use crate::harness::{Answer, Server};

impl Server {
    /// Opens a page.
    pub(crate) async fn open(&self, url: &str) -> Answer {
        self.send(self.http.get(url)).await
    }

    pub(crate) async fn open_with(&self, url: &str, name: &str, value: &str) -> Answer {
        self.send(self.http.get(url).header(name, value)).await
    }

    /// Sends a form of a gateway page, with the `Origin` header that a browser adds.
    pub(crate) async fn submit(&self, form: &Form, more: &[(&str, &str)]) -> Answer {
        let request = self.http.post(&form.action).header("origin", self.base());
        self.send(request.form(&form.with(more))).await
    }

    /// Chooses a method on the current hosted page of a payment.
    pub(crate) async fn choose(&self, payment: &Value, method: &str) -> Answer {
        let url = payment["checkout_url"].as_str().unwrap();
        let page = self.open(url).await.expect(200);
        self.submit(&Form::first(&page.text, url), &[("payment_method", method)])
            .await
    }

    /// Chooses a method that redirects, and returns the address of the provider's page.
    pub(crate) async fn chosen(&self, payment: &Value, method: &str) -> String {
        let answer = self.choose(payment, method).await.expect(303);
        let to = answer.header("location").unwrap();
        assert!(to.ends_with("/go"), "{to}");
        let page = self.open(&format!("{}{to}", self.base())).await.expect(200);
        primary_link(&page.text)
            .unwrap_or_else(|| panic!("no link to the provider:\n{}", page.text))
    }

    pub(crate) async fn payer_form(&self, provider_page: &str) -> Form {
        let page = self.open(provider_page).await.expect(200);
        Form::first(&page.text, provider_page)
    }

    /// Presses a button of the provider's page. The response redirects the browser.
    pub(crate) async fn press(&self, form: &Form, outcome: &str) -> Answer {
        let fields = form.with(&[("outcome", outcome)]);
        self.send(self.http.post(&form.action).form(&fields)).await
    }

    /// Opens the provider's page and presses a button. The response redirects the browser.
    pub(crate) async fn pay(&self, provider_page: &str, outcome: &str) -> Answer {
        let form = self.payer_form(provider_page).await;
        self.press(&form, outcome).await
    }
}

/// A form of a page: its target and its hidden fields.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) action: String,
    pub(crate) hidden: Vec<(String, String)>,
}

impl Form {
    /// The first form of a page. A plain text search is enough, because all pages come from the gateway and the
    /// simulators.
    pub(crate) fn first(html: &str, page_url: &str) -> Self {
        Self::nth(html, page_url, 0)
    }

    /// The form with this index on the page, from 0.
    pub(crate) fn nth(html: &str, page_url: &str, place: usize) -> Self {
        let form = html
            .split("<form")
            .nth(place + 1)
            .unwrap_or_else(|| panic!("no form {place} on the page:\n{html}"))
            .split("</form>")
            .next()
            .unwrap();
        let action = attribute(form, "action").unwrap_or_default();
        let hidden = form
            .split("<input")
            .skip(1)
            .filter(|input| attribute(input, "type").as_deref() == Some("hidden"))
            .filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value")?)))
            .collect();
        let base: url::Url = page_url.parse().unwrap();
        Self {
            action: base.join(&action).unwrap().into(),
            hidden,
        }
    }

    /// The hidden fields together with those that the payer enters or presses.
    pub(crate) fn with<'a>(&'a self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let hidden = self
            .hidden
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        hidden.chain(more.iter().copied()).collect()
    }
}

/// Target of a page's main link.
pub(crate) fn primary_link(html: &str) -> Option<String> {
    attribute(html.split("<a class=\"primary\"").nth(1)?, "href")
}

/// An attribute of the first tag of a fragment.
pub(crate) fn attribute(tag: &str, name: &str) -> Option<String> {
    let tag = tag.split('>').next()?;
    let from = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let value = tag[from..].split('"').next()?;
    Some(
        value
            .replace("&amp;", "&")
            .replace("&#38;", "&")
            .replace("&quot;", "\"")
            .replace("&#34;", "\""),
    )
}
