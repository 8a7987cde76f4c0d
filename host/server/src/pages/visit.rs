//! A payer's request, with the data that every page needs.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, RawPathParams};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use kassette_domain::attempt::Attempt;
use kassette_domain::brand::Logo;
use kassette_domain::key::Environment;
use kassette_gateway::checkout::CheckoutView;

use super::PagesState;
use super::backend::Backend;
use super::checkout_state::CheckoutState;
use super::money::Sentence;
use super::reply::{self, FormTarget, Page, Referrer, Refresh, see_other};
use super::templates::{Frame, Notice, Summary, Watch};
use super::texts::Texts;

/// Maximum length of a token that is looked up; generated ones have 43 characters.
const MOST_TOKEN: usize = 64;

/// A payer's request.
pub(crate) struct Visit {
    /// The gateway.
    pub(crate) backend: Arc<dyn Backend>,
    /// The language.
    pub(crate) t: Texts,
    /// The token in the path. `None` if it cannot be valid.
    pub(crate) token: Option<String>,
    /// The origin of the pages.
    pub(crate) public_url: String,
    /// IP address of the payer's browser, for the provider.
    pub(crate) ip: Option<IpAddr>,
}

impl FromRequestParts<PagesState> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &PagesState,
    ) -> Result<Self, Self::Rejection> {
        let params = RawPathParams::from_request_parts(parts, state).await.ok();
        let token = params.and_then(|params| {
            let found = params.iter().find(|(name, _)| *name == "token");
            found.map(|(_, token)| token.to_owned())
        });
        let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let ip =
            peer.map(|ConnectInfo(peer)| state.trusted_proxies.client(peer.ip(), &parts.headers));
        Ok(Self {
            ip,
            backend: Arc::clone(&state.backend),
            t: Texts::negotiate(&parts.headers),
            token: token.filter(|text| text.len() <= MOST_TOKEN && text.bytes().all(plain)),
            public_url: state.backend.public_url(),
        })
    }
}

/// Properties of a page other than its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageOptions {
    /// Status code. `None` for 200.
    pub(crate) status: Option<StatusCode>,
    /// Notice above the page.
    pub(crate) notice: Option<Notice>,
    /// Allowed targets of forms.
    pub(crate) forms: FormTarget,
    /// How much of our URL the browser sends to other pages.
    pub(crate) referrer: Referrer,
    /// Automatic reload or redirect.
    pub(crate) refresh: Option<Refresh>,
    /// Target of an immediate redirect.
    pub(crate) leave: Option<String>,
    /// How the page's script follows the payment.
    pub(crate) watch: Option<Watch>,
    /// Whether the payer wants to stay on the page of an ended payment.
    pub(crate) stays: bool,
}

impl Visit {
    /// Whether the pages are served over https.
    pub(crate) fn secure(&self) -> bool {
        reply::is_secure(&self.public_url)
    }

    /// The provider's name for payers, or a generic text if its account no longer exists.
    pub(crate) fn provider(&self, attempt: &Attempt) -> String {
        let name = self.backend.provider_name(&attempt.account);
        name.unwrap_or_else(|| self.t.provider_unnamed())
    }

    /// The method's name for payers.
    pub(crate) fn method(&self, attempt: &Attempt) -> String {
        let method = self.backend.method(attempt.method);
        method.map_or_else(
            || attempt.method.to_string(),
            |method| method.label_in(self.t.tag()).to_owned(),
        )
    }

    /// A page about a payment; `fill` builds its template from the frame.
    pub(crate) fn page<T: askama::Template>(
        &self,
        view: &CheckoutView,
        heading: &str,
        options: PageOptions,
        fill: impl FnOnce(Frame) -> T,
    ) -> Response {
        let summary = self.summary(view);
        let title = format!("{heading} – {}", summary.merchant);
        self.framed(title, Some(summary), options, fill)
    }

    /// A page with its frame.
    pub(crate) fn framed<T: askama::Template>(
        &self,
        title: String,
        summary: Option<Summary>,
        options: PageOptions,
        fill: impl FnOnce(Frame) -> T,
    ) -> Response {
        let frame = Frame {
            t: self.t,
            title,
            summary,
            notice: options.notice,
            refresh: options.refresh.as_ref().map(Refresh::content),
            leave: options.leave,
            watch: options.watch,
        };
        let watched = frame.watch.is_some();
        Page {
            template: fill(frame),
            texts: self.t,
            status: options.status.unwrap_or(StatusCode::OK),
            forms: options.forms,
            referrer: options.referrer,
            refresh: options.refresh,
            watched,
            secure: self.secure(),
        }
        .into_response()
    }

    /// The payment's amount and merchant.
    pub(crate) fn summary(&self, view: &CheckoutView) -> Summary {
        let payment = &view.aggregate.payment;
        let merchant = view.merchant.name.clone();
        let (line, money) = match CheckoutState::from_view(view, self.backend.now()) {
            CheckoutState::Choose
            | CheckoutState::Direct
            | CheckoutState::Open(..)
            | CheckoutState::Checking(_) => (self.t.summary_pay(&merchant), payment.due),
            CheckoutState::Completed => match Sentence::about(&view.aggregate) {
                // The amount paid can differ from the amount due.
                Sentence::Paid(paid) | Sentence::PaidAndPartReturned(paid, _) => {
                    (self.t.summary_paid(&merchant), paid)
                }
                _ => (self.t.summary_about(&merchant), payment.due),
            },
            _ => (self.t.summary_about(&merchant), payment.due),
        };
        let brand = &view.merchant.brand;
        // The digest changes the URL with the logo, so that it can be cached. The URL does not contain the
        // token, because anyone with the token can pay.
        let merchant_id = view.merchant.id;
        let logo = |logo: &Logo| format!("/logos/{merchant_id}/{}.png", logo.digest());
        Summary {
            colour: brand.colour,
            logo: brand.logo.as_ref().map(logo),
            support: brand.support.clone(),
            test: payment.environment == Environment::Test,
            line,
            merchant,
            amount: self.t.money(money),
            about: view
                .description
                .as_ref()
                .map(|text| text.as_str().to_owned()),
            order: payment.order_id.as_str().to_owned(),
        }
    }

    /// A response without a page, with the headers of all pages.
    pub(crate) fn guarded(&self, answer: impl IntoResponse) -> Response {
        let mut response = answer.into_response();
        reply::guard(&mut response, self.secure());
        response
    }

    /// Redirects to a page of our origin.
    pub(crate) fn see_other(&self, path: &str) -> Response {
        see_other(path, self.secure())
    }
}

/// Path of a payment's page.
pub(crate) fn address(view: &CheckoutView) -> String {
    format!("/checkout/{}", view.aggregate.payment.token.expose())
}
