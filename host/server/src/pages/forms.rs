//! Reading forms: their origin, size limits and fields.

use axum::body::{Body, to_bytes};
use http::header::{CONTENT_TYPE, HeaderName, ORIGIN};
use http::{HeaderMap, Request};
use kassette_domain::secret::Secret;
use url::Url;

use crate::web::budget::Overloaded;

/// Maximum size of a form in bytes; forms contain a handful of answers.
const MOST_BYTES: usize = 16 * 1024;
/// Maximum number of fields: each method's `seen`, or a module's questions.
const MOST_FIELDS: usize = 64;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Reason why a form is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadForm {
    /// The form does not come from one of our pages.
    #[error("the form was sent from elsewhere")]
    Foreign,
    #[error("the form is longer than {MOST_BYTES} bytes")]
    TooLarge,
    /// The body is not a form, or has too many fields.
    #[error("the body is not a form of at most {MOST_FIELDS} fields")]
    Unreadable,
    /// Too many uploads are in progress.
    #[error("too much is being sent at once")]
    Busy,
}

/// A form's fields. The values may be personal data.
pub(crate) struct Form(Vec<(String, Secret)>);

impl Form {
    /// The first value of a field. `None` if the field is missing.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.expose())
    }
}

/// Whether a request that changes something comes from one of our pages: the browser sends `Sec-Fetch-Site:
/// same-origin`, or, if it does not support that header, our origin.
pub(crate) fn is_own(headers: &HeaderMap, public_url: &str) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site == "same-origin" && headers.get_all(SEC_FETCH_SITE).iter().count() == 1;
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else {
        return false;
    };
    let Ok(own) = Url::parse(public_url) else {
        return false;
    };
    let own = own.origin();
    own.is_tuple() && origin.as_bytes() == own.ascii_serialization().as_bytes()
}

/// Reads a form of one of our pages.
///
/// # Errors
/// See [`BadForm`]; the body of a foreign form is not read.
pub(crate) async fn read(request: Request<Body>, public_url: &str) -> Result<Form, BadForm> {
    if !is_own(request.headers(), public_url) {
        return Err(BadForm::Foreign);
    }
    let form = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|media_type| {
            media_type
                .trim()
                .eq_ignore_ascii_case("application/x-www-form-urlencoded")
        });
    if !form {
        return Err(BadForm::Unreadable);
    }
    let body = to_bytes(request.into_body(), MOST_BYTES)
        .await
        .map_err(|error| too_large_or_broken(&error))?;
    let fields = form_urlencoded::parse(&body)
        .take(MOST_FIELDS + 1)
        .map(|(name, value)| (name.into_owned(), Secret::new(value)))
        .collect::<Vec<_>>();
    if fields.len() > MOST_FIELDS {
        return Err(BadForm::Unreadable);
    }
    Ok(Form(fields))
}

fn too_large_or_broken(error: &axum::Error) -> BadForm {
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        if source.is::<http_body_util::LengthLimitError>() {
            return BadForm::TooLarge;
        }
        if source.is::<Overloaded>() {
            return BadForm::Busy;
        }
        cause = source.source();
    }
    BadForm::Unreadable
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "https://pay.example";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    http::HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn our_own_pages_are_recognised() {
        assert!(is_own(&headers(&[("sec-fetch-site", "same-origin")]), OWN));
        assert!(is_own(&headers(&[("origin", "https://pay.example")]), OWN));
        assert!(is_own(
            &headers(&[("origin", "http://127.0.0.1:8080")]),
            "http://127.0.0.1:8080"
        ));
    }

    #[test]
    fn everybody_else_is_refused() {
        for pairs in [
            &[][..],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[
                ("sec-fetch-site", "cross-site"),
                ("origin", "https://pay.example"),
            ],
            &[("origin", "null")],
            &[("origin", "https://pay.example.evil.test")],
            &[("origin", "http://pay.example")],
            &[("origin", "https://pay.example:8443")],
            &[("referer", "https://pay.example/checkout/x")],
        ] {
            assert!(!is_own(&headers(pairs), OWN), "{pairs:?}");
        }
        let mut twice = headers(&[("origin", "https://pay.example")]);
        twice.append(ORIGIN, http::HeaderValue::from_static("https://evil.test"));
        assert!(!is_own(&twice, OWN));
    }
}
