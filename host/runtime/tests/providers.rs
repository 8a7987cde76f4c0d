//! Provider modules against a real listener: the outcome of a start according to the host.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::sync::{Arc, Mutex};

use kassette_domain::conversation::{CallOutcome, Deviation, HostCall, SendFailure};
use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::provider::{
    CallbackRequest, PayerAction, QueryPurpose, StartFailure, Started, Verb,
};
use kassette_runtime::{CallError, RecordedCall, Recorder, Recording, StartOutcome};
use support::vendor::{Bench, Vendor, sending};
use support::{Data, NOW, access, attempt, failure, provider, provider_with, redirect};
use tokio::net::TcpListener;

async fn outcome(
    vendor: &Vendor,
    verb: Option<u8>,
    then: impl FnOnce(&mut Data) -> String,
) -> StartOutcome {
    let mut data = Data::default();
    let then = then(&mut data);
    let start = match verb {
        Some(verb) => sending(&mut data, verb, &vendor.url(), &then),
        None => then,
    };
    Bench::new(vendor, &provider(data, &start)).start().await
}

const GET: Option<u8> = Some(0);
const POST: Option<u8> = Some(1);
const TRAP: &str = "unreachable";
const LOOP: &str = "(loop $again (br $again)) unreachable";

fn uncertain(outcome: &StartOutcome) -> bool {
    outcome.sent && matches!(outcome.result, Err(StartFailure::Uncertain(_)))
}

fn unavailable(outcome: &StartOutcome) -> bool {
    !outcome.sent && matches!(outcome.result, Err(StartFailure::Unavailable(_)))
}

#[tokio::test]
async fn a_start_that_went_well_is_believed() {
    let vendor = Vendor::start(true).await;
    let page = format!("http://{}/pay/1", vendor.address);
    let well = outcome(&vendor, POST, |data| {
        format!("(i32.const {})", redirect(data, &page))
    })
    .await;
    assert!(well.sent);
    let Ok(Started::Open(open)) = well.result else {
        panic!("{well:?}")
    };
    assert_eq!(
        (open.reference.as_str(), open.action),
        ("ref-1", PayerAction::Redirect(page))
    );
    assert_eq!(vendor.requests(), 1);
}

#[tokio::test]
async fn a_trap_is_uncertain_only_once_a_changing_request_left() {
    let vendor = Vendor::start(true).await;
    for body in [TRAP, LOOP] {
        assert!(
            unavailable(&outcome(&vendor, None, |_| body.into()).await),
            "{body}"
        );
        assert!(
            unavailable(&outcome(&vendor, GET, |_| body.into()).await),
            "{body}"
        );
        assert!(
            uncertain(&outcome(&vendor, POST, |_| body.into()).await),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_request_without_a_whole_answer_is_uncertain_whatever_the_module_says() {
    let silent = Vendor::start(false).await;
    // Either the wall-clock limit ends the call, or the request's deadline passes and the module answers.
    for kind in [0, 1, 2] {
        let said = outcome(&silent, POST, |data| {
            format!("(i32.const {})", failure(data, kind))
        })
        .await;
        assert!(uncertain(&said), "{said:?}");
    }
    assert_eq!(silent.requests(), 3);
    let read = outcome(&silent, GET, |data| {
        format!("(i32.const {})", failure(data, 0))
    })
    .await;
    assert!(unavailable(&read), "{read:?}");
}

#[tokio::test]
async fn a_request_that_never_left_is_not_uncertain() {
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Vendor {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
        }
    };
    let refused = outcome(&gone, POST, |_| TRAP.into()).await;
    assert!(unavailable(&refused), "{refused:?}");
}

#[tokio::test]
async fn a_module_reaches_only_the_accounts_hosts() {
    let (vendor, other) = (Vendor::start(true).await, Vendor::start(true).await);
    let mut data = Data::default();
    let page = redirect(&mut data, &format!("http://{}/pay", vendor.address));
    let start = sending(&mut data, 1, &other.url(), &format!("(i32.const {page})"));
    let reached = Bench::new(&vendor, &provider(data, &start)).start().await;
    assert_eq!((other.requests(), reached.sent), (0, false));
}

#[tokio::test]
async fn a_callback_or_query_that_traps_has_no_answer() {
    let vendor = Vendor::start(true).await;
    let bench = Bench::new(&vendor, &provider_with(Data::default(), TRAP, TRAP, LOOP));
    let incoming = CallbackRequest {
        verb: Verb::Post,
        path: String::new(),
        query: String::new(),
        headers: vec![("x".into(), "y".into())],
        body: vec![0; 1024],
    };
    assert_eq!(
        bench.module.callback(&bench.access, &incoming).await,
        Err(CallError::Trap)
    );
    let asked = bench
        .module
        .query(
            &bench.access,
            &attempt(),
            Some("ref"),
            QueryPurpose::Sync,
            None,
        )
        .await;
    assert_eq!(asked, Err(CallError::Deadline));
    assert_eq!(
        bench.module.health(&bench.access).await,
        Err(CallError::Trap)
    );
}

#[tokio::test]
async fn more_calls_than_places_are_busy_and_nothing_is_called() {
    let silent = Vendor::start(false).await;
    let mut data = Data::default();
    let start = sending(&mut data, 1, &silent.url(), TRAP);
    let folder = tempfile::tempdir().unwrap();
    let runtime = support::runtime_with(folder.path(), |config| config.pool.providers = 2);
    let bytes = provider(data, &start);
    runtime
        .install(&support::slot("provider.vendor"), &bytes, NOW)
        .unwrap();
    let module = runtime.provider("vendor").unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let (module, access) = (Arc::clone(&module), access(&silent.address.to_string()));
            tokio::spawn(async move { module.start(&access, &attempt()).await })
        })
        .collect();
    while silent.requests() < 2 {
        tokio::task::yield_now().await;
    }
    let third = module
        .start(&access(&silent.address.to_string()), &attempt())
        .await;
    assert!(unavailable(&third), "{third:?}");
    assert_eq!(silent.requests(), 2);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    drop(runtime);
}

#[tokio::test]
async fn faults_over_answers_of_one_accounts_provider_leave_the_version_serving() {
    let vendor = Vendor::start(true).await;
    let folder = tempfile::tempdir().unwrap();
    let runtime = support::runtime_with(folder.path(), |_| {});
    let install = |bytes: &[u8]| {
        let slot = support::slot("provider.vendor");
        runtime.install(&slot, bytes, NOW).unwrap();
        runtime.provider("vendor").unwrap()
    };
    let good = install(&provider(Data::default(), TRAP));
    let mut data = Data::default();
    let start = sending(&mut data, 1, &vendor.url(), TRAP);
    let bad = install(&provider(data, &start));
    let serving = |environment| runtime.provider_in("vendor", environment).unwrap().digest();
    let fail = async |account: &str, environment| {
        for _ in 0..12 {
            let mut access = access(&vendor.address.to_string());
            access.account.id = AccountId::parse(account).unwrap();
            access.account.environment = environment;
            assert!(uncertain(&bad.start(&access, &attempt()).await));
        }
    };
    fail("one", Environment::Live).await;
    assert_eq!(serving(Environment::Live), bad.digest());
    for account in ["one", "two"] {
        fail(account, Environment::Test).await;
    }
    assert_eq!(serving(Environment::Test), good.digest());
    assert_eq!(
        serving(Environment::Live),
        bad.digest(),
        "test counts for test"
    );
    fail("two", Environment::Live).await;
    assert_eq!(serving(Environment::Live), good.digest());
}

#[tokio::test]
async fn a_start_that_leads_to_a_page_elsewhere_is_told_with_the_providers_reference() {
    let vendor = Vendor::start(true).await;
    for (page, told) in [
        ("https://elsewhere.example/s3cret", "elsewhere.example"),
        (
            "ftp://elsewhere.example/s3cret",
            "ftp://elsewhere.example (no plain https address)",
        ),
        ("http://127.0.0.1:1/", "127.0.0.1:1"),
        ("nowhere", "what is no address"),
    ] {
        let bench = Bench::new(&vendor, &asking(&vendor, "", page));
        let refused = StartFailure::PageRefused {
            reference: "ref-1".into(),
            page: told.into(),
        };
        assert_eq!(bench.start().await.result, Err(refused));
    }
}

/// Records the calls of a bench.
fn recording(bench: &mut Bench) -> Arc<Mutex<Vec<RecordedCall>>> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&calls);
    let recorder = Recorder::new(move |call| kept.lock().unwrap().push(call));
    bench.access.recording = Recording::On(recorder);
    calls
}

/// Sends a request to a path of the provider, then sends the payer to a page.
fn asking(vendor: &Vendor, path: &str, page: &str) -> Vec<u8> {
    let mut data = Data::default();
    let page = format!("(i32.const {})", redirect(&mut data, page));
    let url = format!("{}{path}", vendor.url());
    let start = sending(&mut data, 1, &url, &page);
    provider(data, &start)
}

#[tokio::test]
async fn a_recorded_call_is_made_again_out_of_the_record_alone() {
    let vendor = Vendor::start(true).await;
    let page = format!("http://{}/pay/1", vendor.address);
    let mut bench = Bench::new(&vendor, &asking(&vendor, "", &page));
    let calls = recording(&mut bench);
    let outcome = bench.start().await;
    let call = calls.lock().unwrap().pop().unwrap();
    assert!(call.is_complete && call.failure.is_none());
    let recorded = call.conversation;
    assert_eq!(recorded.outcome, CallOutcome::Start(outcome.result));
    let [
        HostCall::Http {
            request,
            answer: Ok(answer),
        },
    ] = &recorded.exchanges[..]
    else {
        panic!("{recorded:?}");
    };
    assert_eq!((&request.url, answer.status), (&vendor.url(), 201));

    let again = bench.module.replay(&recorded).await.unwrap();
    assert!(again.is_complete && again.failure.is_none());
    assert_eq!(again.conversation, recorded);
    let replay = async |bytes: Vec<u8>| {
        let bench = Bench::new(&vendor, &bytes);
        bench.module.replay(&recorded).await.unwrap()
    };
    for (path, to, deviation) in [
        ("", page.as_str(), None),
        ("?expand=all", page.as_str(), Some(Deviation::Requests)),
        ("", &page.replace("pay/1", "pay/2"), Some(Deviation::Action)),
        (
            "?expand=all",
            &page.replace("pay/1", "pay/2"),
            Some(Deviation::Action),
        ),
    ] {
        let other = replay(asking(&vendor, path, to)).await;
        assert!(other.is_complete && other.failure.is_none(), "{path} {to}");
        assert_eq!(
            recorded.deviation(&other.conversation),
            deviation,
            "{path} {to}"
        );
    }
    let unrecorded = replay(asking(&vendor, "/1/capture", &page)).await;
    assert!(
        !unrecorded.is_complete,
        "nothing says what the vendor would have answered"
    );
    let astray = replay(asking(&vendor, "", "https://elsewhere.example/")).await;
    let refused = CallOutcome::Start(Err(StartFailure::PageRefused {
        reference: "ref-1".into(),
        page: "elsewhere.example".into(),
    }));
    assert_eq!(
        (astray.failure, astray.conversation.outcome),
        (None, refused)
    );
    let broken = replay(provider(Data::default(), TRAP)).await;
    assert_eq!(broken.failure, Some(CallError::Trap));
    let endless = replay(provider(Data::default(), LOOP)).await;
    assert!(endless.failure.is_some(), "{endless:?}");
    assert_eq!(vendor.requests(), 1, "the recorded call's own");
}

#[tokio::test]
async fn a_provider_that_gave_no_answer_gives_none_in_a_replay() {
    let vendor = Vendor::start(false).await;
    let page = format!("http://{}/pay/1", vendor.address);
    let mut bench = Bench::new(&vendor, &asking(&vendor, "", &page));
    let calls = recording(&mut bench);
    assert!(uncertain(&bench.start().await));
    let recorded = calls.lock().unwrap().pop().unwrap().conversation;
    let [
        HostCall::Http {
            answer: Err(SendFailure::NoAnswer(_)),
            ..
        },
    ] = &recorded.exchanges[..]
    else {
        panic!("{recorded:?}");
    };
    assert!(matches!(
        &recorded.outcome,
        CallOutcome::Start(Err(StartFailure::Uncertain(_)))
    ));
    let again = bench.module.replay(&recorded).await.unwrap();
    assert_eq!(recorded.deviation(&again.conversation), None);
    assert_eq!(vendor.requests(), 1);
}
