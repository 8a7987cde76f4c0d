//! Native implementation of the host interface that a provider module uses.
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use kassette_plugin::{
    provider::{
        Encoding, Verb,
        http::{Credential, Request, Response, SendFailure},
        secrets::Algorithm,
    },
    testing::Host,
};

/// Timeout of a request, with a margin for a busy machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a request if a simulated time-out is due: enough for the effect that comes before it.
const HASTE: Duration = Duration::from_secs(2);

/// A secret for credentials and signatures.
#[derive(Clone)]
pub(crate) struct Secret {
    text: String,
    encoding: Encoding,
    /// Previous value, during a rotation.
    old: Option<String>,
}

impl Secret {
    pub(crate) fn new(text: &str, encoding: Encoding) -> Self {
        Self {
            text: text.to_owned(),
            encoding,
            old: None,
        }
    }

    pub(crate) fn rotate(&mut self, text: &str) {
        self.old = Some(std::mem::replace(&mut self.text, text.to_owned()));
    }

    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let texts = [Some(&self.text), self.old.as_ref()];
        let texts = texts.into_iter().flatten();
        texts.map(|text| key(text, self.encoding)).collect()
    }
}

fn key(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Text => text.as_bytes().to_vec(),
        Encoding::Hex => hex::decode(text).unwrap(),
        Encoding::Base64 => STANDARD
            .decode(text.strip_prefix("whsec_").unwrap_or(text))
            .unwrap(),
    }
}

/// A host that sends requests over this machine's network.
pub(crate) struct NativeHost {
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) tokens: Rc<RefCell<HashMap<String, String>>>,
    pub(crate) secrets: HashMap<String, Secret>,
    pub(crate) lose: Rc<RefCell<Option<&'static str>>>,
    /// Whether a simulated time-out is due and has not happened yet.
    pub(crate) hasty: Rc<Cell<bool>>,
    pub(crate) sent: Rc<RefCell<Vec<String>>>,
    /// Responses that [`Host::get_cached`] has stored, by URL.
    pub(crate) kept: Rc<RefCell<HashMap<String, Response>>>,
}

impl NativeHost {
    fn secret(&self, name: &str) -> Result<String, SendFailure> {
        let configured = self.secrets.get(name).map(|secret| secret.text.clone());
        configured
            .or_else(|| self.tokens.borrow().get(name).cloned())
            .ok_or_else(|| SendFailure::NotSent(format!("no secret {name}")))
    }

    async fn call(&self, request: &Request) -> Result<Response, SendFailure> {
        let method = match request.verb {
            Verb::Get => reqwest::Method::GET,
            Verb::Post => reqwest::Method::POST,
            Verb::Put => reqwest::Method::PUT,
            Verb::Patch => reqwest::Method::PATCH,
            Verb::Delete => reqwest::Method::DELETE,
        };
        let mut body = request.body.clone();
        let patience = if self.hasty.get() {
            HASTE
        } else {
            REQUEST_TIMEOUT
        };
        let mut call = client(patience).request(method, &request.url);
        for (name, value) in &request.headers {
            call = call.header(name, value);
        }
        for credential in &request.credentials {
            call = match credential {
                Credential::Bearer(name) => call.bearer_auth(self.secret(name)?),
                Credential::Basic(basic) => {
                    let password = basic.password.as_deref();
                    let password = password.map(|name| self.secret(name)).transpose()?;
                    call.basic_auth(self.secret(&basic.user)?, password)
                }
                Credential::Header(header) => {
                    let value = format!("{}{}", header.prefix, self.secret(&header.secret)?);
                    call.header(&header.name, value)
                }
                Credential::Field(field) => {
                    let value = self.secret(&field.secret)?;
                    let pair = kassette_plugin::encode::form(&[(&field.name, &value)]);
                    if !body.is_empty() {
                        body.push(b'&');
                    }
                    body.extend_from_slice(pair.as_bytes());
                    call
                }
            };
        }
        let answer = call.body(body).send().await.map_err(|error| {
            if error.is_timeout() {
                self.hasty.set(false);
            }
            if error.is_connect() {
                SendFailure::NotSent(error.to_string())
            } else {
                SendFailure::NoAnswer(error.to_string())
            }
        })?;
        let status = answer.status().as_u16();
        let header =
            |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
                let value = value.to_str().unwrap_or_default().to_owned();
                (name.to_string(), value)
            };
        let headers = answer.headers().iter().map(header).collect();
        let body = answer
            .bytes()
            .await
            .map_err(|error| SendFailure::NoAnswer(error.to_string()))?;
        Ok(Response {
            status,
            headers,
            body: body.to_vec(),
        })
    }
}

/// A client that does not follow redirects or use a proxy.
pub(crate) fn client(patience: Duration) -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(patience)
        .build()
        .unwrap()
}

fn code<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

pub(crate) fn mac(algorithm: Algorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
    match algorithm {
        Algorithm::HmacSha256 => code::<Hmac<sha2::Sha256>>(key, message),
        Algorithm::HmacSha512 => code::<Hmac<sha2::Sha512>>(key, message),
    }
}

impl Host for NativeHost {
    fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
        let path = request.url.splitn(4, '/').nth(3).unwrap_or_default();
        let verb = format!("{:?}", request.verb);
        let verb = verb.rsplit("::").next().unwrap_or_default().to_uppercase();
        self.sent.borrow_mut().push(format!("{verb} /{path}"));
        let mut answer = self.runtime.block_on(self.call(request))?;
        let kept = request.keep.as_ref();
        if let Some(keep) = kept.filter(|_| (200..300).contains(&answer.status)) {
            let body: Result<serde_json::Value, _> = serde_json::from_slice(&answer.body);
            let token = body.ok().and_then(|mut body| {
                let token = body.pointer_mut(&keep.pointer)?.take();
                answer.body = body.to_string().into_bytes();
                Some(token.as_str()?.to_owned())
            });
            let Some(token) = token else {
                return Err(SendFailure::NoAnswer("no token in the answer".into()));
            };
            self.tokens.borrow_mut().insert(keep.token.clone(), token);
        }
        let lost = self
            .lose
            .borrow()
            .is_some_and(|end| request.url.ends_with(end));
        if lost {
            *self.lose.borrow_mut() = None;
            return Err(SendFailure::NoAnswer("lost on the way".into()));
        }
        Ok(answer)
    }

    fn get_cached(&mut self, url: &str, _: u32) -> Result<Response, SendFailure> {
        if let Some(kept) = self.kept.borrow().get(url) {
            return Ok(kept.clone());
        }
        let answer = self.send(&Request {
            verb: Verb::Get,
            url: url.into(),
            headers: Vec::new(),
            credentials: Vec::new(),
            body: Vec::new(),
            keep: None,
        })?;
        if answer.status == 200 {
            let mut kept = self.kept.borrow_mut();
            kept.insert(url.to_owned(), answer.clone());
        }
        Ok(answer)
    }

    fn ready(&mut self, name: &str) -> bool {
        self.secret(name).is_ok()
    }

    fn sign(&mut self, name: &str, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
        let keys = self.secrets.get(name)?.keys();
        Some(mac(algorithm, keys.first()?, message))
    }

    fn verify(&mut self, name: &str, algorithm: Algorithm, message: &[u8], given: &[u8]) -> bool {
        let Some(secret) = self.secrets.get(name) else {
            return false;
        };
        let right = |key: &Vec<u8>| mac(algorithm, key, message) == given;
        secret.keys().iter().any(right)
    }
}
