use std::sync::Arc;

use bytes::Bytes;
use kassette_domain::id::{Digest, Slot};
use kassette_domain::provider::{Encoding, ProviderDescription};
use kassette_domain::time::Time;
use kassette_http::{NoAnswer, NotSent, StatusCode};
use parking_lot::Mutex;

use super::*;
use crate::access::AccountAccess;
use crate::config::RuntimeConfig;
use crate::fixtures::{access, hosts, secret};
use crate::host::Host;
use crate::limits::{Limits, ModuleClass};
use crate::outgoing::{Outgoing, Sending};
use crate::quarantine::{QuarantineRules, Quarantines};
use crate::sampled::Sampled;

/// A sent request as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::guest) struct Sent {
    pub(in crate::guest) url: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// Answers requests from a list and records them.
#[derive(Default)]
pub(in crate::guest) struct Script {
    answers: Mutex<Vec<Result<Response, SendError>>>,
    sent: Mutex<Vec<Sent>>,
}

impl Outgoing for Script {
    fn send<'a>(&'a self, request: Request<'a>) -> Sending<'a> {
        let headers = request.headers.iter().map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        });
        self.sent.lock().push(Sent {
            url: request.url.to_string(),
            headers: headers.collect(),
            body: String::from_utf8_lossy(&request.body).into_owned(),
        });
        let answer = self
            .answers
            .lock()
            .pop()
            .unwrap_or_else(|| answer(200, "{}"));
        Box::pin(async move { answer })
    }
}

pub(in crate::guest) fn answer(status: u16, body: &str) -> Result<Response, SendError> {
    Ok(Response {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        truncated: false,
    })
}

pub(in crate::guest) struct Bench {
    script: Arc<Script>,
    pub(in crate::guest) identity: Identity,
    pub(in crate::guest) call: CallState,
}

impl Bench {
    pub(in crate::guest) fn new(access: AccountAccess) -> Self {
        let script = Arc::new(Script::default());
        let clock = Arc::new(|| Time::from_secs(0));
        let host = Host::new(RuntimeConfig::new("/nowhere", clock), script.clone()).unwrap();
        let slot = Slot::parse("provider.vendor").unwrap();
        let limits = Limits::default().native;
        let identity = Identity {
            slot,
            digest: Digest([0; 32]),
            class: ModuleClass::Native,
            limits,
            quarantine: Quarantines::new(QuarantineRules::default()),
            is_trial: false,
            clock: Arc::new(|| Time::from_secs(0)),
            log_limit: Sampled::new("module", 1),
            callback_failure_limit: Sampled::new("callback-failure", 1),
        };
        let description = ProviderDescription {
            id: "vendor".into(),
            label: "Vendor".into(),
            version: "1".into(),
            services: vec![],
            settings: vec![],
            secrets: vec![],
            tokens: vec!["token".into()],
        };
        let ends = Instant::now() + Duration::from_secs(60);
        let call = CallState::new(access, Arc::new(description), Arc::new(host), ends);
        Self {
            script,
            identity,
            call,
        }
    }

    async fn send(&mut self, request: wit::Request) -> Result<wit::Response, wit::SendFailure> {
        self.call.send(&self.identity, request).await
    }

    pub(in crate::guest) fn sent(&self) -> Vec<Sent> {
        self.script.sent.lock().clone()
    }

    pub(in crate::guest) fn next(&self, answer: Result<Response, SendError>) {
        self.script.answers.lock().push(answer);
    }
}

fn request(verb: wit::Verb, url: &str) -> wit::Request {
    wit::Request {
        verb,
        url: url.into(),
        headers: vec![],
        credentials: vec![],
        body: vec![],
        keep: None,
    }
}

const API: &str = "https://api.vendor.example/v1/payments";

pub(in crate::guest) fn with_key() -> AccountAccess {
    let mut access = access();
    access.secrets = vec![
        secret(
            "key",
            &["sk_live_9f8e7d6c", "sk_old_11112222"],
            Encoding::Text,
            &["api.vendor.example"],
        ),
        secret(
            "user",
            &["client-4711"],
            Encoding::Text,
            &["login.vendor.example"],
        ),
    ];
    access
}

fn bearer(name: &str, url: &str) -> wit::Request {
    wit::Request {
        credentials: vec![wit::Credential::Bearer(name.into())],
        ..request(wit::Verb::Post, url)
    }
}

#[tokio::test]
async fn a_call_has_no_time_to_send_once_its_caller_s_right_to_it_has_ended() {
    let held_until = Instant::now() + Duration::from_secs(5);
    for (not_after, left) in [(None, 60), (Some(held_until), 5)] {
        let access = AccountAccess {
            not_after,
            ..with_key()
        };
        let left = Duration::from_secs(left);
        assert!(Bench::new(access).call.ends <= Instant::now() + left);
    }
}

#[tokio::test]
async fn credentials_are_written_where_the_module_asks_and_nowhere_else() {
    let mut bench = Bench::new(with_key());
    let asked = wit::Request {
        headers: vec![(
            "content-type".into(),
            "application/x-www-form-urlencoded".into(),
        )],
        credentials: vec![
            wit::Credential::Header(wit::SecretHeader {
                name: "x-api-key".into(),
                prefix: "token ".into(),
                secret: "key".into(),
            }),
            wit::Credential::Field(wit::SecretField {
                name: "k&y".into(),
                secret: "key".into(),
            }),
        ],
        body: b"order={key}&x=1".to_vec(),
        ..request(wit::Verb::Post, API)
    };
    bench.send(asked).await.unwrap();
    let sent = &bench.sent()[0];
    assert_eq!(sent.body, "order={key}&x=1&k%26y=sk_live_9f8e7d6c");
    assert!(
        sent.headers
            .contains(&("x-api-key".into(), "token sk_live_9f8e7d6c".into()))
    );
}

#[tokio::test]
async fn basic_credentials_join_two_secrets() {
    let mut access = with_key();
    access.secrets[1].hosts = hosts(&["api.vendor.example"]);
    let mut bench = Bench::new(access);
    let basic = wit::Basic {
        user: "user".into(),
        password: Some("key".into()),
    };
    let asked = wit::Request {
        credentials: vec![wit::Credential::Basic(basic)],
        ..request(wit::Verb::Get, API)
    };
    bench.send(asked).await.unwrap();
    let expected = "Basic Y2xpZW50LTQ3MTE6c2tfbGl2ZV85ZjhlN2Q2Yw==";
    assert!(
        bench.sent()[0]
            .headers
            .contains(&("authorization".into(), expected.into()))
    );
}

#[tokio::test]
async fn a_secret_is_not_sent_to_a_host_that_is_not_its_own() {
    let mut bench = Bench::new(with_key());
    for (name, url) in [
        ("key", "https://login.vendor.example/x"),
        ("user", API),
        ("unknown", API),
        ("token", API),
    ] {
        let refused = bench.send(bearer(name, url)).await;
        assert!(
            matches!(refused, Err(wit::SendFailure::NotSent(_))),
            "{name} {url}"
        );
    }
    assert_eq!(bench.sent(), []);
    assert!(!bench.call.sent_requests.any_sent);
}

#[tokio::test]
async fn only_the_accounts_hosts_are_reached() {
    let mut bench = Bench::new(access());
    for url in [
        "https://evil.example/",
        "https://api.vendor.example.evil.example/",
        "https://api.vendor.example@evil.example/",
        "http://api.vendor.example/",
        "https://api.vendor.example:8443/",
        "http://127.0.0.1:8080/",
        "https://localhost/",
        "nonsense",
    ] {
        let refused = bench.send(request(wit::Verb::Get, url)).await;
        assert!(
            matches!(refused, Err(wit::SendFailure::NotSent(_))),
            "{url}"
        );
    }
    assert_eq!(bench.sent(), []);
}

#[tokio::test]
async fn secrets_are_redacted_in_what_the_module_sees() {
    let mut bench = Bench::new(with_key());
    let mut echo = answer(
        401,
        "Invalid key sk_live_9f8e7d6c (c2tfbGl2ZV85ZjhlN2Q2Yw==), was sk_old_11112222, user client-4711",
    )
    .unwrap();
    echo.headers
        .insert("x-echo", "Bearer sk_live_9f8e7d6c".parse().unwrap());
    bench.next(Ok(echo));
    let seen = bench.send(bearer("key", API)).await.unwrap();
    let body = String::from_utf8(seen.body).unwrap();
    assert_eq!(
        seen.headers,
        [("x-echo".to_owned(), "Bearer ***".to_owned())]
    );
    for secret in ["sk_live", "c2tfbGl2"] {
        assert!(!body.contains(secret), "{body}");
    }
    // Secrets with fewer than 16 characters are not redacted, because other text could match them.
    for short in ["sk_old_11112222", "client-4711"] {
        assert!(body.contains(short), "{body}");
    }
    assert!(body.starts_with("Invalid key ***"));
}

fn token_request() -> wit::Request {
    let keep = wit::Keep {
        token: "token".into(),
        pointer: "/access_token".into(),
        expires_in: Some("/expires_in".into()),
    };
    wit::Request {
        keep: Some(keep),
        ..bearer("key", API)
    }
}

#[tokio::test]
async fn a_token_is_kept_by_the_host_and_hidden_from_the_module() {
    let mut bench = Bench::new(with_key());
    bench.next(answer(
        200,
        r#"{"access_token":"tok_a1b2c3","expires_in":"3600"}"#,
    ));
    let seen = bench.send(token_request()).await.unwrap();
    assert_eq!(seen.body, br#"{"access_token":"***","expires_in":"3600"}"#);
    assert!(super::super::secrets::ready(&bench.call.access, "token"));
    bench.send(bearer("token", API)).await.unwrap();
    assert!(
        bench.sent()[1]
            .headers
            .contains(&("authorization".into(), "Bearer tok_a1b2c3".into()))
    );
    // The token may be sent only to the hosts of the secret that requested it.
    let elsewhere = bench
        .send(bearer("token", "https://login.vendor.example/"))
        .await;
    assert!(matches!(elsewhere, Err(wit::SendFailure::NotSent(_))));
    // Another call of the account can use the token until it expires.
    bench.call.access.account.now = bench
        .call
        .access
        .account
        .now
        .after(Duration::from_secs(3540));
    assert!(!super::super::secrets::ready(&bench.call.access, "token"));
    assert!(matches!(
        bench.send(bearer("token", API)).await,
        Err(wit::SendFailure::NotSent(_))
    ));
}

#[tokio::test]
async fn a_token_is_kept_from_a_success_alone_and_under_a_listed_name() {
    let mut bench = Bench::new(with_key());
    bench.next(answer(400, r#"{"access_token":"tok_a1b2c3"}"#));
    bench.send(token_request()).await.unwrap();
    assert!(!super::super::secrets::ready(&bench.call.access, "token"));
    let mut unlisted = token_request();
    unlisted.keep.as_mut().unwrap().token = "key".into();
    assert!(matches!(
        bench.send(unlisted).await,
        Err(wit::SendFailure::NotSent(_))
    ));
    assert_eq!(bench.sent().len(), 1);
}

#[tokio::test]
async fn the_host_knows_what_left() {
    let mut bench = Bench::new(access());
    bench.next(Err(SendError::NoAnswer(NoAnswer::Deadline)));
    bench.send(request(wit::Verb::Get, API)).await.unwrap_err();
    assert!(!bench.call.sent_requests.any_sent, "a GET changes nothing");

    bench.next(Err(SendError::NotSent(NotSent::NoSuchName)));
    bench.send(request(wit::Verb::Post, API)).await.unwrap_err();
    assert!(
        !bench.call.sent_requests.any_sent && !bench.call.sent_requests.any_unanswered(),
        "nothing left"
    );

    bench.next(Err(SendError::NoAnswer(NoAnswer::Broken)));
    let failure = bench.send(request(wit::Verb::Post, API)).await.unwrap_err();
    assert!(matches!(failure, wit::SendFailure::NoAnswer(_)));
    assert!(bench.call.sent_requests.any_sent && bench.call.sent_requests.any_unanswered());

    bench.send(request(wit::Verb::Put, API)).await.unwrap();
    assert!(
        bench.call.sent_requests.any_unanswered(),
        "another request's answer settles nothing"
    );
    bench.send(request(wit::Verb::Post, API)).await.unwrap();
    assert!(
        !bench.call.sent_requests.any_unanswered(),
        "the same request, repeated, was answered"
    );
    assert!(bench.call.sent_requests.any_sent);
}

#[tokio::test]
async fn an_answer_over_the_limit_is_none() {
    let mut bench = Bench::new(access());
    bench.next(answer(200, "x").map(|answer| Response {
        truncated: true,
        ..answer
    }));
    let failure = bench.send(request(wit::Verb::Post, API)).await.unwrap_err();
    assert!(matches!(failure, wit::SendFailure::NoAnswer(_)));
    assert!(bench.call.sent_requests.any_unanswered());
}

#[tokio::test]
async fn a_call_sends_sixteen_requests_and_256_kib_each() {
    let mut bench = Bench::new(access());
    let large = wit::Request {
        body: vec![0; MAX_REQUEST_BYTES],
        ..request(wit::Verb::Post, API)
    };
    assert!(matches!(
        bench.send(large).await,
        Err(wit::SendFailure::NotSent(_))
    ));
    for _ in 1..MAX_REQUESTS {
        bench.send(request(wit::Verb::Get, API)).await.unwrap();
    }
    let over = bench.send(request(wit::Verb::Get, API)).await;
    assert!(matches!(over, Err(wit::SendFailure::NotSent(_))));
    assert_eq!(bench.sent().len(), 15);
}

#[tokio::test]
async fn headers_are_the_modules_only_as_far_as_they_steer_nothing() {
    let mut bench = Bench::new(with_key());
    for name in [
        "host",
        "Host",
        "user-agent",
        "content-length",
        "Accept-Encoding",
        "range",
        "bad name",
        "x\r\ny",
    ] {
        let asked = wit::Request {
            headers: vec![(name.into(), "1".into())],
            ..request(wit::Verb::Get, API)
        };
        assert!(
            matches!(bench.send(asked).await, Err(wit::SendFailure::NotSent(_))),
            "{name}"
        );
    }
    let smuggled = wit::Request {
        headers: vec![("x".into(), "1\r\nhost: evil".into())],
        ..request(wit::Verb::Get, API)
    };
    assert!(matches!(
        bench.send(smuggled).await,
        Err(wit::SendFailure::NotSent(_))
    ));
    let doubled = wit::Request {
        headers: vec![("authorization".into(), "mine".into())],
        ..bearer("key", API)
    };
    assert!(matches!(
        bench.send(doubled).await,
        Err(wit::SendFailure::NotSent(_))
    ));
    assert_eq!(bench.sent(), []);
}

#[tokio::test]
async fn an_answer_in_which_nothing_can_be_redacted_reaches_no_module() {
    for (coding, is_read) in [
        ("gzip", false),
        ("identity, br", false),
        ("Identity", true),
        ("", true),
    ] {
        let mut bench = Bench::new(with_key());
        let mut packed = answer(200, "{}").unwrap();
        let coding_value = coding.parse().unwrap();
        packed.headers.insert("content-encoding", coding_value);
        bench.script.answers.lock().push(Ok(packed));
        let answered = bench.send(request(wit::Verb::Post, API)).await;
        // It is unknown whether the provider executed it, as without a response.
        assert_eq!(
            bench.call.sent_requests.any_unanswered(),
            !is_read,
            "{coding}"
        );
        match answered {
            Ok(_) => assert!(is_read, "{coding}"),
            Err(wit::SendFailure::NoAnswer(why)) => assert!(!is_read, "{coding}: {why}"),
            Err(other) => panic!("{coding}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_repeat_that_never_left_leaves_the_first_try_open() {
    let mut bench = Bench::new(access());
    bench.next(Err(SendError::NoAnswer(NoAnswer::Deadline)));
    let first = bench.send(request(wit::Verb::Post, API)).await;
    assert!(matches!(first, Err(wit::SendFailure::NoAnswer(_))));
    bench.next(Err(SendError::NotSent(NotSent::NoSuchName)));
    let repeat = bench.send(request(wit::Verb::Post, API)).await;
    assert!(matches!(repeat, Err(wit::SendFailure::NotSent(_))));
    assert!(bench.call.sent_requests.any_sent && bench.call.sent_requests.any_unanswered());
    bench.send(request(wit::Verb::Post, API)).await.unwrap();
    assert!(
        !bench.call.sent_requests.any_unanswered(),
        "it was answered"
    );
}
