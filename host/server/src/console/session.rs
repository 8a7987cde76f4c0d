//! The session of a request, its cookie and its CSRF token; and whether a form comes from one of our pages.

use std::net::IpAddr;

use http::header::{COOKIE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use kassette_domain::key::TokenHash;
use kassette_domain::operator::Operator;
use kassette_domain::operator::Session;
use kassette_domain::secret::Secret;
use kassette_gateway::console::SignedInOperator;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::Console;
use super::reply::ConsoleError;

const SIGN_IN: &str = "/console/sign-in";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Name of the cookie. A browser accepts the prefix only from this host over https, for every path.
const SECURE_NAME: &str = "__Host-kassette_console";
/// Name of the cookie on loopback without TLS, where browsers refuse the prefix.
const PLAIN_NAME: &str = "kassette_console";

/// The session of a request.
pub(super) struct Visit {
    pub(super) operator: Operator,
    pub(super) session: Session,
    /// Value of the field `csrf` of every form of the session.
    pub(super) csrf: String,
}

impl Visit {
    /// Requires the session's CSRF token.
    ///
    /// # Errors
    /// 403 if it is missing or wrong.
    pub(super) fn check_csrf(&self, presented: Option<&str>) -> Result<(), ConsoleError> {
        let presented = presented.unwrap_or_default().as_bytes();
        match bool::from(presented.ct_eq(self.csrf.as_bytes())) {
            true => Ok(()),
            false => Err(ConsoleError::forbidden(
                "This form belongs to another session. Open the page again and repeat it.",
            )),
        }
    }
}

/// Returns the session of a request.
///
/// # Errors
/// A redirect to the sign-in page if there is none.
pub(super) async fn of_request(parts: &Parts, console: &Console) -> Result<Visit, ConsoleError> {
    let Some(cookie) = cookie(&parts.headers, is_secure(parts, console)) else {
        return Err(sign_in_first(parts));
    };
    let found = console.gateway().console_session(&cookie).await;
    let found = found.map_err(ConsoleError::of_fault)?;
    let Some(SignedInOperator { operator, session }) = found else {
        return Err(sign_in_first(parts));
    };
    Ok(Visit {
        operator,
        session,
        csrf: csrf(&cookie),
    })
}

fn sign_in_first(parts: &Parts) -> ConsoleError {
    let page = parts.uri.path_and_query().map(ToString::to_string);
    let page = page.filter(|_| parts.method == Method::GET && parts.uri.path() != "/console/");
    ConsoleError::SeeOther(match page {
        None => SIGN_IN.to_owned(),
        Some(page) => {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("next", &page);
            format!("{SIGN_IN}?{}", query.finish())
        }
    })
}

/// The CSRF token of a cookie's session. It reveals nothing about the cookie.
fn csrf(cookie: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"csrf of the console\0");
    hash.update(cookie.as_bytes());
    hex::encode(hash.finalize())
}

/// The cookie of a request. `None` if there is none or more than one: another port of this host may have set
/// the other.
pub(super) fn cookie(headers: &HeaderMap, is_secure: bool) -> Option<String> {
    let name = cookie_name(is_secure);
    let mut found = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(known, _)| *known == name)
        .map(|(_, value)| value.to_owned());
    match (found.next(), found.next()) {
        (Some(value), None) => Some(value),
        _ => None,
    }
}

/// SHA-256 of a cookie.
pub(super) fn hash(cookie: &str) -> TokenHash {
    TokenHash::hash(cookie)
}

const fn cookie_name(is_secure: bool) -> &'static str {
    match is_secure {
        true => SECURE_NAME,
        false => PLAIN_NAME,
    }
}

/// `Set-Cookie` that begins a session.
pub(super) fn set_cookie(cookie: &Secret, is_secure: bool) -> Option<HeaderValue> {
    header(cookie.expose(), "", is_secure)
}

/// `Set-Cookie` that removes the cookie.
pub(super) fn remove_cookie(is_secure: bool) -> Option<HeaderValue> {
    header("", "; Max-Age=0", is_secure)
}

fn header(value: &str, more: &str, is_secure: bool) -> Option<HeaderValue> {
    let name = cookie_name(is_secure);
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Whether the browser uses https: the listener speaks TLS, or a proxy in front does. Only a browser on this
/// machine uses a loopback name without TLS.
pub(super) fn is_secure(parts: &Parts, console: &Console) -> bool {
    console.inner.is_tls || !is_loopback(&host(parts))
}

fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        match port.bytes().all(|byte| byte.is_ascii_digit()) {
            true => name,
            false => host,
        }
    });
    let address = name.trim_start_matches('[').trim_end_matches(']').parse();
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

/// The host name and port of a request, which the listener has checked.
fn host(parts: &Parts) -> String {
    let said = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    said.or(authority).unwrap_or_default().to_owned()
}

/// Requires that a form does not come from another origin. Cookies and SameSite ignore ports, so both headers
/// are checked; every browser sends at least one of them.
///
/// # Errors
/// 403.
pub(super) fn check_origin(parts: &Parts, console: &Console) -> Result<(), ConsoleError> {
    let scheme = match is_secure(parts, console) {
        true => "https",
        false => "http",
    };
    let own = format!("{scheme}://{}", host(parts));
    let mut sites = parts.headers.get_all(SEC_FETCH_SITE).iter();
    let mut origins = parts.headers.get_all(ORIGIN).iter();
    let is_own = sites.all(|site| site == "same-origin")
        && origins.all(|origin| origin.as_bytes().eq_ignore_ascii_case(own.as_bytes()));
    match is_own {
        true => Ok(()),
        false => Err(ConsoleError::forbidden(
            "This form was sent by a page of another origin.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for host in [
            "localhost",
            "LOCALHOST:8081",
            "127.0.0.1:1",
            "[::1]:8081",
            "127.9.9.9",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "ops.example",
            "localhost.evil.example",
            "10.0.0.1:8081",
            "",
            "127.0.0.1.evil",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn two_cookies_of_the_same_name_are_no_session() {
        let cookies = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, HeaderValue::from_static(line));
            }
            headers
        };
        let one = cookies(&["a=1; kassette_console=x"]);
        assert_eq!(cookie(&one, false).as_deref(), Some("x"));
        assert_eq!(cookie(&one, true), None);
        for two in [
            cookies(&["kassette_console=x; kassette_console=y"]),
            cookies(&["kassette_console=x", "kassette_console=x"]),
        ] {
            assert_eq!(cookie(&two, false), None);
        }
    }
}
