//! Responses with pages: the headers of all pages, and those that differ.

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION,
    REFERRER_POLICY, REFRESH, SET_COOKIE, STRICT_TRANSPORT_SECURITY, VARY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderValue, StatusCode};

use super::texts::{CHOSEN, Texts};

/// Allowed targets of a page's forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FormTarget {
    /// Only our own origin.
    #[default]
    Own,
    /// A provider as well: the page that posts a module's form. The provider may redirect the form to another
    /// of its hosts, which the policy also covers, so no single host is named.
    Provider {
        /// Whether to allow plain http on loopback (dev).
        plain_loopback: bool,
    },
}

impl FormTarget {
    const fn policy(self) -> &'static str {
        match self {
            Self::Own => {
                "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
            }
            Self::Provider {
                plain_loopback: false,
            } => {
                "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self' https:; base-uri 'none'; frame-ancestors 'none'"
            }
            Self::Provider {
                plain_loopback: true,
            } => {
                "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self' https: http://127.0.0.1:* http://localhost:*; base-uri 'none'; frame-ancestors 'none'"
            }
        }
    }
}

/// A delayed reload of the same page or of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refresh {
    /// Delay in seconds.
    pub(crate) seconds: u32,
    /// The target's URL. `None` for the same one.
    pub(crate) to: Option<String>,
}

impl Refresh {
    /// Value of the header and of the `meta` element: `5` or `3; url=https://shop.example/`.
    pub(crate) fn content(&self) -> String {
        match &self.to {
            None => self.seconds.to_string(),
            Some(to) => format!("{}; url={to}", self.seconds),
        }
    }
}

/// A page with the data for its headers.
pub(crate) struct Page<T> {
    /// The body.
    pub(crate) template: T,
    /// The page's language.
    pub(crate) texts: Texts,
    pub(crate) status: StatusCode,
    /// Allowed targets of forms.
    pub(crate) forms: FormTarget,
    /// Whether the next page may receive our URL.
    pub(crate) referrer: Referrer,
    /// Automatic reload or redirect.
    pub(crate) refresh: Option<Refresh>,
    /// Whether the page's script follows the payment.
    pub(crate) watched: bool,
    /// Whether the pages are served over https.
    pub(crate) secure: bool,
}

/// How much of our URL the browser sends to other pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Referrer {
    /// The whole URL to our origin, nothing to others. (If it were nothing at all, Chromium would send `Origin:
    /// null` with our own forms.)
    #[default]
    SameOrigin,
    /// Nothing, for the page that redirects to a provider.
    None,
}

/// Browser features that no page needs.
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
        // A header, which every browser obeys. Accessibility checkers rightly complain about a delayed refresh
        // element, so that is only inside `noscript`. A page with a script has no header, because a reload
        // would lose the payer's selection.
        if let Some(value) = self
            .refresh
            .filter(|_| !self.watched)
            .and_then(|refresh| HeaderValue::from_str(&refresh.content()).ok())
        {
            headers.insert(REFRESH, value);
        }
        guard(&mut response, self.secure);
        response
    }
}

/// Whether the pages are served over https.
pub(crate) fn is_secure(public_url: &str) -> bool {
    public_url.starts_with("https://")
}

/// Response to a form: redirects to a page of our origin.
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

/// How long the chosen language is stored, in seconds: 30 days, about as long as a payment is processed.
const CHOICE_LIFE: u32 = 30 * 86_400;

/// Response to a choice of language: the same page in that language.
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

/// Sets the headers that all pages have in common.
pub(crate) fn guard(response: &mut Response, secure: bool) {
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
