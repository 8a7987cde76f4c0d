//! A payer's request, as far as every page needs it.

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
use super::templates::{Frame, Summary};
use super::texts::Texts;

/// Longest token that is looked up; ours have 43 characters.
const MOST_TOKEN: usize = 64;

/// One request of a payer.
pub(crate) struct Visit {
    /// The gateway.
    pub(crate) backend: Arc<dyn Backend>,
    /// The language.
    pub(crate) t: Texts,
    /// The token of the address; none for what cannot be one.
    pub(crate) token: Option<String>,
    /// The origin of our own pages.
    pub(crate) public_url: String,
    /// Where the payer's browser is, for the vendor.
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

/// What a page is, besides its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageOptions {
    /// The status; none is 200.
    pub(crate) status: Option<StatusCode>,
    /// What became of what the payer just did.
    pub(crate) notice: Option<String>,
    /// Where forms may lead.
    pub(crate) forms: FormTarget,
    /// What the next page learns of our address.
    pub(crate) referrer: Referrer,
    /// When and where it goes on by itself.
    pub(crate) refresh: Option<Refresh>,
    /// Where it goes on to at once.
    pub(crate) leave: Option<String>,
}

impl Visit {
    /// Whether we are reached over https.
    pub(crate) fn secure(&self) -> bool {
        reply::is_secure(&self.public_url)
    }

    /// The name under which payers know an attempt's provider.
    pub(crate) fn provider(&self, view: &CheckoutView, attempt: &Attempt) -> String {
        self.provider_shown(view, self.backend.provider_name(&attempt.account))
    }

    /// A provider's name, or words in its place where there is none or the merchant's pages name none.
    pub(crate) fn provider_shown(&self, view: &CheckoutView, name: Option<String>) -> String {
        name.filter(|_| !view.merchant.brand.hides_provider)
            .unwrap_or_else(|| self.t.provider_unnamed())
    }

    /// The name under which payers know an attempt's method.
    pub(crate) fn method(&self, attempt: &Attempt) -> String {
        let method = self.backend.method(attempt.method);
        method.map_or_else(
            || attempt.method.to_string(),
            |method| method.label_in(self.t.tag()).to_owned(),
        )
    }

    /// A page about a payment; `fill` makes its template from the frame.
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

    /// A page in its frame.
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
        };
        Page {
            template: fill(frame),
            texts: self.t,
            status: options.status.unwrap_or(StatusCode::OK),
            forms: options.forms,
            referrer: options.referrer,
            refresh: options.refresh,
            secure: self.secure(),
        }
        .into_response()
    }

    /// What is paid, to whom.
    pub(crate) fn summary(&self, view: &CheckoutView) -> Summary {
        let payment = &view.aggregate.payment;
        let merchant = view.merchant.name.clone();
        let (line, money) = match CheckoutState::of(view, self.backend.now()) {
            CheckoutState::Choose
            | CheckoutState::Direct
            | CheckoutState::Open(..)
            | CheckoutState::Checking(_) => (self.t.summary_pay(&merchant), payment.due),
            CheckoutState::Completed => match Sentence::about(&view.aggregate) {
                // What was paid may be another amount than was due.
                Sentence::Paid(paid) | Sentence::PaidAndPartReturned(paid) => {
                    (self.t.summary_paid(&merchant), paid)
                }
                _ => (self.t.summary_about(&merchant), payment.due),
            },
            _ => (self.t.summary_about(&merchant), payment.due),
        };
        let brand = &view.merchant.brand;
        // The digest makes another logo another address, so that each can be kept.
        let logo = |logo: &Logo| format!("{}/logo/{}.png", address(view), logo.digest());
        Summary {
            colour: brand.colour,
            logo: brand.logo.as_ref().map(logo),
            test: payment.environment == Environment::Test,
            line,
            merchant,
            amount: self.t.money(money),
            order: payment.order_id.as_str().to_owned(),
        }
    }

    /// On to a page of our own.
    pub(crate) fn see_other(&self, path: &str) -> Response {
        see_other(path, self.secure())
    }
}

/// The address of a payment's page.
pub(crate) fn address(view: &CheckoutView) -> String {
    format!("/checkout/{}", view.aggregate.payment.token.expose())
}
