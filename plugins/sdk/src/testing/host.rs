//! A simulated host for provider modules.
use crate::provider::http::{Request, Response, SendFailure, Verb};
use crate::provider::secrets::Algorithm;
use std::cell::RefCell;

/// The imports of a provider module. By default the host has no network and no secrets.
pub trait Host {
    /// Answers [`crate::provider::http::send`].
    ///
    /// # Errors Any failure that the test needs; [`SendFailure::NotSent`] by default.
    fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
        Err(SendFailure::NotSent(format!(
            "no test host answers {}",
            request.url
        )))
    }

    /// Answers [`crate::provider::http::get_cached`]. By default calls [`Host::send`] without a cache.
    ///
    /// # Errors Like [`Host::send`].
    fn get_cached(&mut self, url: &str, life: u32) -> Result<Response, SendFailure> {
        let _ = life;
        self.send(&Request {
            verb: Verb::Get,
            url: url.into(),
            headers: Vec::new(),
            credentials: Vec::new(),
            body: Vec::new(),
            keep: None,
        })
    }

    /// Answers [`crate::provider::secrets::ready`].
    fn ready(&mut self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Answers [`crate::provider::secrets::sign`].
    fn sign(&mut self, name: &str, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
        let _ = (name, algorithm, message);
        None
    }

    /// Answers [`crate::provider::secrets::verify`]. By default accepts the code that [`Host::sign`] returns.
    fn verify(&mut self, name: &str, algorithm: Algorithm, message: &[u8], code: &[u8]) -> bool {
        self.sign(name, algorithm, message).as_deref() == Some(code)
    }
}

/// A host without network and secrets.
struct Nothing;
impl Host for Nothing {}

thread_local! {
    static HOST: RefCell<Box<dyn Host>> = RefCell::new(Box::new(Nothing));
}

/// Runs `act` while `host` answers the imports of this thread. Then restores the previous host, even after a
/// panic.
pub fn with_host<T>(host: impl Host + 'static, act: impl FnOnce() -> T) -> T {
    struct PutBack(Option<Box<dyn Host>>);
    impl Drop for PutBack {
        fn drop(&mut self) {
            if let Some(before) = self.0.take() {
                HOST.set(before);
            }
        }
    }
    let _put_back = PutBack(Some(HOST.replace(Box::new(host))));
    act()
}

pub(crate) fn send(request: &Request) -> Result<Response, SendFailure> {
    HOST.with_borrow_mut(|host| host.send(request))
}

pub(crate) fn get_cached(url: &str, life: u32) -> Result<Response, SendFailure> {
    HOST.with_borrow_mut(|host| host.get_cached(url, life))
}

pub(crate) fn ready(name: &str) -> bool {
    HOST.with_borrow_mut(|host| host.ready(name))
}

pub(crate) fn sign(name: &str, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
    HOST.with_borrow_mut(|host| host.sign(name, algorithm, message))
}

pub(crate) fn verify(name: &str, algorithm: Algorithm, message: &[u8], code: &[u8]) -> bool {
    HOST.with_borrow_mut(|host| host.verify(name, algorithm, message, code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{http, secrets};

    struct Echo;
    impl Host for Echo {
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(message.to_vec())
        }
    }

    fn request() -> Request {
        Request {
            verb: Verb::Get,
            url: "https://vendor.example".into(),
            headers: vec![],
            credentials: vec![],
            body: vec![],
            keep: None,
        }
    }

    #[test]
    fn without_a_host_nothing_is_sent_and_no_secret_is_there() {
        assert!(matches!(
            http::send(&request()),
            Err(SendFailure::NotSent(_))
        ));
        assert!(!secrets::ready("key"));
        assert_eq!(secrets::sign("key", Algorithm::HmacSha256, b"m"), None);
    }

    #[test]
    fn a_host_counts_only_within_its_call() {
        let right = with_host(Echo, || {
            secrets::verify("key", Algorithm::HmacSha256, b"m", b"m")
        });
        assert!(right);
        assert!(!secrets::verify("key", Algorithm::HmacSha256, b"m", b"m"));
    }

    #[test]
    fn the_host_before_comes_back_after_a_panic() {
        let ended = std::panic::catch_unwind(|| {
            with_host(Echo, || std::panic::resume_unwind(Box::new("as wanted")))
        });
        assert!(ended.is_err());
        assert_eq!(secrets::sign("key", Algorithm::HmacSha256, b"m"), None);
    }

    #[test]
    fn logging_natively_does_nothing() {
        crate::method::log(crate::method::Level::Info, "unheard");
        crate::provider::log(crate::provider::Level::Info, "unheard");
    }
}
