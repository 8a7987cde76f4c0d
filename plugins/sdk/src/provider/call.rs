//! Builds requests step by step, and converts failures to those of the contract.
use super::http::{
    self, Basic, Credential, Header, Keep, Request, Response, SecretField, SecretHeader, Verb,
};
use super::{Account, Environment, QueryFailure, RefundFailure, StartFailure};
use crate::encode;
use crate::json::Json;
use crate::settings;

/// The setting that replaces the provider's own URL, for a simulator or a region.
pub const BASE_URL: &str = "base-url";

/// Reason why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The request was not sent, so the provider did nothing.
    NotSent(String),
    /// The request may have taken effect.
    NoAnswer(String),
}

impl Broken {
    /// The reason, as text for the operator.
    #[must_use]
    pub fn why(self) -> String {
        match self {
            Self::NotSent(why) | Self::NoAnswer(why) => why,
        }
    }
}

impl From<http::SendFailure> for Broken {
    fn from(failure: http::SendFailure) -> Self {
        match failure {
            http::SendFailure::NotSent(why) => Self::NotSent(why),
            http::SendFailure::NoAnswer(why) => Self::NoAnswer(why),
        }
    }
}

/// For a creation: if the request was not sent, the host tries another account; otherwise the result is unknown.
impl From<Broken> for StartFailure {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::NotSent(why) => Self::Unavailable(why),
            Broken::NoAnswer(why) => Self::Uncertain(why),
        }
    }
}

/// For a refund: if the request was not sent, the host tries again later; otherwise the result is unknown.
impl From<Broken> for RefundFailure {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::NotSent(why) => Self::Unavailable(why),
            Broken::NoAnswer(why) => Self::Uncertain(why),
        }
    }
}

/// For a query: no certain answer now.
impl From<Broken> for QueryFailure {
    fn from(broken: Broken) -> Self {
        Self::Unavailable(broken.why())
    }
}

/// A complete response with any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Headers in order of arrival, with names in lower case.
    pub headers: Vec<Header>,
    /// The exact bytes of the body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Whether the status is 2xx.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// The body as JSON. `None` if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Option<Json> {
        Json::parse(&self.body)
    }

    /// The value of the only header with this lower-case name, as [`header`].
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self {
            status: response.status,
            headers: response.headers,
            body: response.body,
        }
    }
}

/// The value of the only header with this lower-case name. `None` if it is missing or repeated: two proxies could
/// each use a different value.
#[must_use]
pub fn header<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    let mut found = headers.iter().filter(|(known, _)| known == name);
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value.as_str())
}

/// Base URL of the provider's API, without a slash at the end: the account's setting [`BASE_URL`], or else `live`
/// or `test`, according to the account's environment.
#[must_use]
pub fn base_url(account: &Account, live: &str, test: &str) -> String {
    let own = match account.environment {
        Environment::Live => live,
        Environment::Test => test,
    };
    let base = settings::text(&account.settings, BASE_URL).unwrap_or(own);
    base.trim_end_matches('/').to_owned()
}

/// A request that is being built.
#[derive(Clone, Debug)]
pub struct Call(Request);

impl Call {
    /// A request to an absolute URL with its query.
    #[must_use]
    pub fn new(verb: Verb, url: impl Into<String>) -> Self {
        Self(Request {
            verb,
            url: url.into(),
            headers: Vec::new(),
            credentials: Vec::new(),
            body: Vec::new(),
            keep: None,
        })
    }

    /// Adds a header without secrets.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.0.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a credential, which the host fills in.
    #[must_use]
    pub fn credential(mut self, credential: Credential) -> Self {
        self.0.credentials.push(credential);
        self
    }

    /// Adds `authorization: Bearer` with the secret or token of this name.
    #[must_use]
    pub fn bearer(self, secret: &str) -> Self {
        self.credential(Credential::Bearer(secret.to_owned()))
    }

    /// Adds `authorization: Basic`. User and password are names of secrets; without the second the password is
    /// empty.
    #[must_use]
    pub fn basic(self, user: &str, password: Option<&str>) -> Self {
        self.credential(Credential::Basic(Basic {
            user: user.to_owned(),
            password: password.map(str::to_owned),
        }))
    }

    /// Adds a header with a literal prefix and the secret of this name.
    #[must_use]
    pub fn secret_header(self, name: &str, prefix: &str, secret: &str) -> Self {
        self.credential(Credential::Header(SecretHeader {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
            secret: secret.to_owned(),
        }))
    }

    /// Adds a form field with the secret of this name.
    #[must_use]
    pub fn secret_field(self, name: &str, secret: &str) -> Self {
        self.credential(Credential::Field(SecretField {
            name: name.to_owned(),
            secret: secret.to_owned(),
        }))
    }

    /// Sets the body, byte for byte, and its content type.
    #[must_use]
    pub fn body(self, media_type: &str, body: Vec<u8>) -> Self {
        let mut call = self.header("content-type", media_type);
        call.0.body = body;
        call
    }

    /// Sets a JSON body and its content type.
    #[must_use]
    pub fn json(self, body: &Json) -> Self {
        self.body("application/json", body.to_string().into_bytes())
    }

    /// Sets a form-encoded body and its content type, with fields in this order.
    #[must_use]
    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let media_type = "application/x-www-form-urlencoded";
        self.body(media_type, encode::form(fields).into_bytes())
    }

    /// Lets the host keep a token from a 2xx response; see `keep` in the WIT.
    #[must_use]
    pub fn keep(mut self, token: &str, pointer: &str, expires_in: Option<&str>) -> Self {
        self.0.keep = Some(Keep {
            token: token.to_owned(),
            pointer: pointer.to_owned(),
            expires_in: expires_in.map(str::to_owned),
        });
        self
    }

    /// Sends the request and waits for the response.
    ///
    /// # Errors [`Broken`] if no complete response arrived. Every status is a response.
    pub fn send(&self) -> Result<Answer, Broken> {
        Ok(http::send(&self.0)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Host, with_host};

    struct Mirror;
    impl Host for Mirror {
        /// Answers with the headers and body of the request.
        fn send(&mut self, request: &Request) -> Result<Response, http::SendFailure> {
            Ok(Response {
                status: 201,
                headers: request.headers.clone(),
                body: request.body.clone(),
            })
        }
    }

    #[test]
    fn a_form_is_encoded_and_says_so() {
        let call = Call::new(Verb::Post, "https://vendor.example/v1").form(&[
            ("return_url", "https://shop.example/?a=b c"),
            ("amount", "4990"),
        ]);
        let answer = with_host(Mirror, || call.send()).unwrap();
        assert!(answer.is_success());
        assert_eq!(
            answer.header("content-type"),
            Some("application/x-www-form-urlencoded")
        );
        assert_eq!(
            answer.body,
            b"return_url=https%3A%2F%2Fshop.example%2F%3Fa%3Db%20c&amount=4990"
        );
    }

    #[test]
    fn a_header_that_stands_there_twice_is_none() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = [pair("a", "1"), pair("b", "2"), pair("b", "3")];
        assert_eq!(header(&headers, "a"), Some("1"));
        assert_eq!(header(&headers, "b"), None);
        assert_eq!(header(&headers, "c"), None);
    }

    #[test]
    fn the_setting_goes_before_the_vendors_own_address() {
        let mut account = Account {
            id: "vendor-live".into(),
            environment: Environment::Live,
            now: 0,
            callback_url: String::new(),
            settings: Vec::new(),
        };
        let base = |account: &Account| {
            base_url(
                account,
                "https://api.vendor.example/",
                "https://test.vendor.example",
            )
        };
        assert_eq!(base(&account), "https://api.vendor.example");
        account.environment = Environment::Test;
        assert_eq!(base(&account), "https://test.vendor.example");
        account.settings = vec![(BASE_URL.into(), "http://127.0.0.1:9/".into())];
        assert_eq!(base(&account), "http://127.0.0.1:9");
    }

    #[test]
    fn only_what_never_left_lets_another_provider_try() {
        let not_sent = Broken::NotSent("no".into());
        let no_answer = Broken::NoAnswer("late".into());
        assert!(matches!(
            StartFailure::from(not_sent.clone()),
            StartFailure::Unavailable(_)
        ));
        assert!(matches!(
            StartFailure::from(no_answer.clone()),
            StartFailure::Uncertain(_)
        ));
        assert!(matches!(
            RefundFailure::from(not_sent.clone()),
            RefundFailure::Unavailable(_)
        ));
        assert!(matches!(
            RefundFailure::from(no_answer.clone()),
            RefundFailure::Uncertain(_)
        ));
        for broken in [not_sent, no_answer] {
            assert!(matches!(
                QueryFailure::from(broken),
                QueryFailure::Unavailable(_)
            ));
        }
    }
}
