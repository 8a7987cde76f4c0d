//! A page on its way out: the headers that every one carries, and the few that differ.

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION,
    REFERRER_POLICY, REFRESH, SET_COOKIE, STRICT_TRANSPORT_SECURITY, VARY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderValue, StatusCode};

use super::texts::{CHOSEN, Texts};

/// Where a page's forms may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FormTarget {
    /// To ourselves alone.
    #[default]
    Own,
    /// To a vendor as well: the page that posts a module's form. A vendor's answer to the form
    /// may redirect to another of its hosts, which the policy covers too, so no single host is named.
    Provider {
        /// Plain http on loopback too (dev).
        plain_loopback: bool,
    },
}

impl FormTarget {
    const fn policy(self) -> &'static str {
        match self {
            Self::Own => {
                "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
            }
            Self::Provider {
                plain_loopback: false,
            } => {
                "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self' https:; base-uri 'none'; frame-ancestors 'none'"
            }
            Self::Provider {
                plain_loopback: true,
            } => {
                "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self' https: http://127.0.0.1:* http://localhost:*; base-uri 'none'; frame-ancestors 'none'"
            }
        }
    }
}

/// What a later load of a page is: itself again, or somewhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refresh {
    /// From now.
    pub(crate) seconds: u32,
    /// Where; none: the same address.
    pub(crate) to: Option<String>,
}

impl Refresh {
    /// The value of the header and of the element: `5` or `3; url=https://shop.example/`.
    pub(crate) fn content(&self) -> String {
        match &self.to {
            None => self.seconds.to_string(),
            Some(to) => format!("{}; url={to}", self.seconds),
        }
    }
}

/// A page with what its headers need to know.
pub(crate) struct Page<T> {
    /// The body.
    pub(crate) template: T,
    /// Its language.
    pub(crate) texts: Texts,
    pub(crate) status: StatusCode,
    /// Where its forms may lead.
    pub(crate) forms: FormTarget,
    /// Whether the next page may learn our address: on our own origin alone, or never.
    pub(crate) referrer: Referrer,
    /// When and where it goes on by itself.
    pub(crate) refresh: Option<Refresh>,
    /// Whether we are reached over https.
    pub(crate) secure: bool,
}

/// What the browser tells of our address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Referrer {
    /// All of it to ourselves, nothing to others. (Were it nothing at all, Chromium would send
    /// `Origin: null` with our own forms.)
    #[default]
    SameOrigin,
    /// Nothing: the page that leads away.
    None,
}

/// Powers that no page of ours needs.
const PERMISSIONS: &str = "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(), publickey-credentials-get=(), screen-wake-lock=(), usb=(), web-share=(), xr-spatial-tracking=()";

const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

impl<T: Template> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        let html = match self.template.render() {
            Ok(html) => html,
            Err(error) => {
                tracing::error!(%error, "a page could not be rendered");
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
        };
        let mut response = (self.status, html).into_response();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static(self.texts.tag()));
        headers.insert(VARY, HeaderValue::from_static("Accept-Language, Cookie"));
        headers.insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(self.forms.policy()),
        );
        headers.insert(
            REFERRER_POLICY,
            HeaderValue::from_static(match self.referrer {
                Referrer::SameOrigin => "same-origin",
                Referrer::None => "no-referrer",
            }),
        );
        // A header, which every browser obeys; as an element a delayed refresh is something that
        // accessibility checkers rightly report, so that one stands in `noscript` alone, for clients
        // that read no such header.
        if let Some(value) = self
            .refresh
            .and_then(|refresh| HeaderValue::from_str(&refresh.content()).ok())
        {
            headers.insert(REFRESH, value);
        }
        guard(&mut response, self.secure);
        response
    }
}

/// Whether our own pages are reached over https.
pub(crate) fn is_secure(public_url: &str) -> bool {
    public_url.starts_with("https://")
}

/// The answer to a form: on to a page of our own origin.
pub(crate) fn see_other(path: &str, secure: bool) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(location) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
        .headers_mut()
        .insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    guard(&mut response, secure);
    response
}

/// How long a payer's choice of a language is kept, in seconds: 30 days, about as long as a payment is
/// looked after.
const CHOICE_LIFE: u32 = 30 * 86_400;

/// The answer to a choice from the menu of languages: the same page, in that language from now on.
pub(crate) fn in_language(path: &str, tag: &str, secure: bool) -> Response {
    let mut response = see_other(path, secure);
    let only = if secure { "; Secure" } else { "" };
    let cookie =
        format!("{CHOSEN}={tag}; Path=/; Max-Age={CHOICE_LIFE}; HttpOnly; SameSite=Lax{only}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The headers that do not differ.
fn guard(response: &mut Response, secure: bool) {
    let headers = response.headers_mut();
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (PERMISSIONS_POLICY, PERMISSIONS),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
        (ROBOTS, "noindex, nofollow"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if secure {
        headers.insert(
            STRICT_TRANSPORT_SECURITY,
            HeaderValue::from_static("max-age=31536000"),
        );
    }
}
