//! Signing in with an operator's token or with the link of `dev`, and signing out.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use askama::Template;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{RETRY_AFTER, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use kassette_domain::operator::{OperatorChange, Session};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_gateway::console::SignInError;
use parking_lot::Mutex;

use super::form::Form;
use super::reply::{ConsoleError, Html, see_other};
use super::{Console, STYLE, session};
use crate::proxies::subscriber;

/// Number of wrong tokens that an address may send within [`WINDOW`].
const MAX_WRONG: u32 = 10;
const WINDOW: Duration = Duration::from_secs(600);
/// Maximum number of addresses that are counted. The oldest is forgotten, so that a flood of addresses costs no
/// memory; a token has too many random bits to be guessed with any number of addresses.
const MAX_ADDRESSES: usize = 4096;

/// Wrong tokens by address, each with the time of the first.
#[derive(Default)]
pub(super) struct WrongTokens(Mutex<HashMap<IpAddr, (u32, Time)>>);

impl WrongTokens {
    /// Time until the address may try again, if it has sent too many wrong tokens.
    fn wait(&self, address: IpAddr, now: Time) -> Option<Duration> {
        let counted = self.0.lock();
        let (count, first) = counted.get(&subscriber(address))?;
        let end = first.after(WINDOW);
        (*count >= MAX_WRONG && now < end).then(|| end.since(now))
    }

    fn count(&self, address: IpAddr, now: Time) {
        let mut counted = self.0.lock();
        let address = subscriber(address);
        if counted.len() >= MAX_ADDRESSES && !counted.contains_key(&address) {
            counted.retain(|_, (_, first)| now < first.after(WINDOW));
            let oldest = counted.iter().min_by_key(|(_, (_, first))| *first);
            let oldest = oldest.map(|(address, _)| *address);
            if let Some(oldest) = oldest.filter(|_| counted.len() >= MAX_ADDRESSES) {
                counted.remove(&oldest);
            }
        }
        let (count, first) = counted.entry(address).or_insert((0, now));
        if now >= first.after(WINDOW) {
            (*count, *first) = (0, now);
        }
        *count = count.saturating_add(1);
    }
}

#[derive(Template)]
#[template(path = "console/sign_in.html")]
struct SignInPage {
    style: &'static str,
    /// Address to continue with.
    next: String,
    /// Why the token was refused. Empty for the first try.
    error: String,
    /// Minutes after which a session without requests ends.
    idle_minutes: u64,
}

impl SignInPage {
    fn new(next: String, error: &str) -> Html<Self> {
        Html(Self {
            style: &STYLE.path,
            next,
            error: error.to_owned(),
            idle_minutes: Session::IDLE.as_secs() / 60,
        })
    }
}

/// `GET /console/sign-in`: the form. With `link`, signs in.
pub(super) async fn show(
    State(console): State<Console>,
    request: Request,
) -> Result<Response, ConsoleError> {
    let (parts, _) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let parameter = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let found = pairs.find(|(known, _)| known == name);
        found.map(|(_, value)| value.into_owned())
    };
    let next = own_address(parameter("next").as_deref());
    let Some(link) = parameter("link") else {
        return Ok(SignInPage::new(next, "").into_response());
    };
    let begun = console.gateway().sign_in_by_link(&link).await;
    answer(
        &console,
        &parts,
        begun,
        next,
        "This link was used already. Sign in with a token.",
    )
    .await
}

/// `POST /console/sign-in`
pub(super) async fn sign_in(
    State(console): State<Console>,
    request: Request,
) -> Result<Response, ConsoleError> {
    let (parts, body) = request.into_parts();
    session::check_origin(&parts, &console)?;
    let form = Form::read(&parts, body).await?;
    let next = own_address(form.get("next"));
    let token = form.get("token").unwrap_or_default().trim();
    let begun = match limited(&console, &parts) {
        Some(wait) => return Ok(too_many(next, wait)),
        None => console.gateway().sign_in(token).await,
    };
    answer(&console, &parts, begun, next, "No operator has this token.").await
}

/// The answer to a token or a link. Ends the session that the browser had before.
async fn answer(
    console: &Console,
    parts: &Parts,
    begun: Result<Secret, SignInError>,
    next: String,
    refusal: &str,
) -> Result<Response, ConsoleError> {
    let is_secure = session::is_secure(parts, console);
    let cookie = match begun {
        Ok(cookie) => cookie,
        Err(SignInError::Refused) => {
            if let Some(address) = client(console, parts) {
                let now = console.gateway().clock().now();
                console.inner.wrong_tokens.count(address, now);
            }
            let page = SignInPage::new(next, refusal);
            return Ok((StatusCode::UNAUTHORIZED, page).into_response());
        }
        Err(SignInError::Store(fault)) => return Err(ConsoleError::of_fault(fault)),
        Err(error) => return Err(ConsoleError::internal(error)),
    };
    if let Some(before) = session::cookie(&parts.headers, is_secure) {
        end(console, &before, false).await?;
    }
    let mut response = see_other(&next);
    if let Some(cookie) = session::set_cookie(&cookie, is_secure) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// `POST /console/sign-out`, with `everywhere=true` for all sessions of the operator.
pub(super) async fn sign_out(
    State(console): State<Console>,
    request: Request,
) -> Result<Response, ConsoleError> {
    let (parts, body) = request.into_parts();
    let visit = session::of_request(&parts, &console).await?;
    session::check_origin(&parts, &console)?;
    let form = Form::read(&parts, body).await?;
    visit.check_csrf(form.get("csrf"))?;
    let is_secure = session::is_secure(&parts, &console);
    let mut query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let everywhere = query.any(|(name, value)| name == "everywhere" && value == "true")
        || form.get("everywhere") == Some("true");
    if let Some(cookie) = session::cookie(&parts.headers, is_secure) {
        end(&console, &cookie, everywhere).await?;
    }
    let mut response = see_other("/console/sign-in");
    if let Some(cookie) = session::remove_cookie(is_secure) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Ends the session of a cookie, or all sessions of its operator.
async fn end(console: &Console, cookie: &str, everywhere: bool) -> Result<(), ConsoleError> {
    let gateway = console.gateway();
    let found = gateway.console_session(cookie).await;
    let Some(found) = found.map_err(ConsoleError::of_fault)? else {
        return Ok(());
    };
    let change = match everywhere {
        true => OperatorChange::SignOutEverywhere,
        false => OperatorChange::SignOut {
            session: session::hash(cookie),
        },
    };
    match gateway.change_operator(found.operator.id, change).await {
        // It has ended in the meantime.
        Ok(()) | Err(SignInError::Refused) => Ok(()),
        Err(SignInError::Store(fault)) => Err(ConsoleError::of_fault(fault)),
        Err(error) => Err(ConsoleError::internal(error)),
    }
}

/// Address of the client, possibly behind trusted proxies.
fn client(console: &Console, parts: &Parts) -> Option<IpAddr> {
    let ConnectInfo(peer) = parts.extensions.get::<ConnectInfo<SocketAddr>>()?;
    Some(console.inner.proxies.client(peer.ip(), &parts.headers))
}

fn limited(console: &Console, parts: &Parts) -> Option<Duration> {
    let now = console.gateway().clock().now();
    console
        .inner
        .wrong_tokens
        .wait(client(console, parts)?, now)
}

fn too_many(next: String, wait: Duration) -> Response {
    let page = SignInPage::new(
        next,
        "Too many wrong tokens came from your address. Wait some minutes.",
    );
    let mut response = (StatusCode::TOO_MANY_REQUESTS, page).into_response();
    let seconds = HeaderValue::from(wait.as_secs().max(1));
    response.headers_mut().insert(RETRY_AFTER, seconds);
    response
}

/// An address of the console, else its first page. Browsers read a backslash as a slash, so there is none.
fn own_address(next: Option<&str>) -> String {
    let is_own = |next: &&str| {
        next.starts_with("/console/")
            && next
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    next.filter(is_own).unwrap_or("/console/").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_console_follow_a_sign_in() {
        let work = "/console/work?environment=test";
        assert_eq!(own_address(Some(work)), work);
        for other in [
            "https://evil.example/",
            "//evil.example/console/",
            "/\\evil.example",
            "/console/\\..\\..",
            "/admin/v1/merchants",
            "/console/\r\nSet-Cookie: x",
            "",
        ] {
            assert_eq!(own_address(Some(other)), "/console/", "{other}");
        }
        assert_eq!(own_address(None), "/console/");
    }

    #[test]
    fn only_wrong_tokens_count_and_only_for_their_address() {
        let (tokens, at) = (WrongTokens::default(), Time::from_secs);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        for _ in 0..MAX_WRONG {
            assert_eq!(tokens.wait(one, at(0)), None);
            tokens.count(one, at(0));
        }
        assert_eq!(tokens.wait(one, at(1)), Some(Duration::from_secs(599)));
        assert_eq!(tokens.wait(other, at(1)), None);
        assert_eq!(tokens.wait(one, at(600)), None);
        tokens.count(one, at(600));
        assert_eq!(tokens.wait(one, at(601)), None);
    }

    #[test]
    fn a_flood_of_addresses_takes_no_memory() {
        let tokens = WrongTokens::default();
        for number in 0..5000_u32 {
            let address = IpAddr::from((number + 1).to_be_bytes());
            tokens.count(address, Time::from_secs(u64::from(number / 100)));
        }
        assert_eq!(tokens.0.lock().len(), MAX_ADDRESSES);
    }
}
