//! Refunds: the outcome of a module's answers according to the host.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use kassette_domain::method::MethodId;
use kassette_domain::provider::{
    Given, QueryFailure, RefundFailure, RefundQuery, RefundState, RefundTerms,
};
use kassette_runtime::{CallError, LoadError};
use support::vendor::{Bench, Vendor, sending};
use support::{Data, NOW, Provider, Refunds, given, paid, provider, refund_order, terms};

const TRAP: &str = "unreachable";

/// A provider that supports refunds with these function bodies.
fn refunding(vendor: &Vendor, data: Data, terms: u32, refund: &str, query: u32) -> Bench {
    let refunds = Refunds {
        terms: format!("(i32.const {terms})"),
        refund: refund.into(),
        query: format!("(i32.const {query})"),
        cancel: format!("(i32.const {query})"),
    };
    let provider = Provider {
        data,
        refunds: Some(refunds),
        ..Provider::default()
    };
    Bench::new(vendor, &provider.build())
}

async fn refund(bench: &Bench) -> Result<Given, RefundFailure> {
    let (access, paid, order) = (&bench.access, paid(), refund_order());
    bench.module.refund(access, &paid, &order).await
}

async fn query_refund(bench: &Bench) -> Result<Result<Given, QueryFailure>, CallError> {
    let (access, paid, order) = (&bench.access, paid(), refund_order());
    bench
        .module
        .query_refund(access, &paid, &order, RefundQuery::Sync)
        .await
}

#[tokio::test]
async fn a_module_without_refunds_loads_and_gives_nothing_back() {
    let vendor = Vendor::start(true).await;
    let bench = Bench::new(&vendor, &provider(Data::default(), TRAP));
    assert_eq!(bench.module.refund_terms(&bench.access).await, Ok(vec![]));
    assert!(matches!(
        refund(&bench).await,
        Err(RefundFailure::Unavailable(_))
    ));
    assert!(matches!(
        query_refund(&bench).await,
        Ok(Err(QueryFailure::Unavailable(_)))
    ));
}

#[tokio::test]
async fn a_refund_is_told_as_the_module_tells_it() {
    let vendor = Vendor::start(true).await;
    let mut data = Data::default();
    let claim = format!("http://{}/claim/1", vendor.address);
    let first = given(&mut data, "re_1", 0, Some(&claim));
    let asked = given(&mut data, "re_1", 1, None);
    let told = terms(&mut data, &["ideal", "!", "credit_card"]);
    let body = sending(&mut data, 1, &vendor.url(), &format!("(i32.const {first})"));
    let bench = refunding(&vendor, data, told, &body, asked);
    let term = |method| RefundTerms {
        method,
        parts: true,
        at_most: Some(2),
        days: None,
        whole_units: Vec::new(),
    };
    assert_eq!(
        bench.module.refund_terms(&bench.access).await,
        Ok(vec![term(MethodId::Ideal), term(MethodId::CreditCard)])
    );
    let given = |state, claim_url| Given {
        reference: "re_1".into(),
        state,
        claim_url,
        detail: "so it says".into(),
        paid_out: None,
    };
    assert_eq!(
        refund(&bench).await,
        Ok(given(RefundState::Pending, Some(claim)))
    );
    assert_eq!(vendor.requests(), 1);
    assert_eq!(
        query_refund(&bench).await,
        Ok(Ok(given(RefundState::Succeeded, None)))
    );
}

#[tokio::test]
async fn a_refund_whose_answer_breaks_the_contract_is_uncertain_once_a_changing_request_left() {
    let vendor = Vendor::start(true).await;
    let long = "r".repeat(256);
    for reference in ["", "re\n1", long.as_str()] {
        for (sends, expected_uncertain) in [(true, true), (false, false)] {
            let mut data = Data::default();
            let answer = given(&mut data, reference, 1, None);
            let then = format!("(i32.const {answer})");
            let body = match sends {
                true => sending(&mut data, 1, &vendor.url(), &then),
                false => then,
            };
            let told = terms(&mut data, &["ideal", "ideal"]);
            let bench = refunding(&vendor, data, told, &body, answer);
            let refunded = refund(&bench).await;
            let uncertain = matches!(refunded, Err(RefundFailure::Uncertain(_)));
            let unavailable = matches!(refunded, Err(RefundFailure::Unavailable(_)));
            assert_eq!(
                (uncertain, unavailable),
                (expected_uncertain, !expected_uncertain),
                "{reference:?}: {refunded:?}"
            );
            assert!(matches!(
                query_refund(&bench).await,
                Err(CallError::BadReply(_))
            ));
            assert!(matches!(
                bench.module.refund_terms(&bench.access).await,
                Err(CallError::BadReply(_))
            ));
        }
    }
}

#[tokio::test]
async fn a_refund_with_a_claim_address_that_the_account_does_not_allow_is_made_without_it() {
    let vendor = Vendor::start(true).await;
    for claim in ["https://evil.example/claim", "javascript:alert(1)"] {
        let mut data = Data::default();
        let answer = given(&mut data, "re_1", 1, Some(claim));
        let told = terms(&mut data, &["ideal"]);
        let body = format!("(i32.const {answer})");
        let bench = refunding(&vendor, data, told, &body, answer);
        let given = refund(&bench).await.unwrap();
        assert_eq!((given.reference.as_str(), given.claim_url), ("re_1", None));
        assert!(given.detail.contains("claim address"), "{}", given.detail);
    }
}

#[tokio::test]
async fn a_refund_without_a_whole_answer_is_uncertain_whatever_the_module_says() {
    let silent = Vendor::start(false).await;
    let mut data = Data::default();
    let done = given(&mut data, "re_1", 1, None);
    let told = terms(&mut data, &[]);
    let body = sending(&mut data, 1, &silent.url(), &format!("(i32.const {done})"));
    let bench = refunding(&silent, data, told, &body, done);
    let refunded = refund(&bench).await;
    assert!(
        matches!(refunded, Err(RefundFailure::Uncertain(_))),
        "{refunded:?}"
    );
}

#[tokio::test]
async fn terms_are_told_without_a_request() {
    let vendor = Vendor::start(true).await;
    let mut data = Data::default();
    let told = terms(&mut data, &["ideal"]);
    let asking = sending(&mut data, 1, &vendor.url(), &format!("(i32.const {told})"));
    let refunds = Refunds {
        terms: asking,
        refund: TRAP.into(),
        query: TRAP.into(),
        cancel: TRAP.into(),
    };
    let provider = Provider {
        data,
        refunds: Some(refunds),
        ..Provider::default()
    };
    let bench = Bench::new(&vendor, &provider.build());
    let terms = bench.module.refund_terms(&bench.access).await;
    assert_eq!(terms.map(|terms| terms.len()), Ok(1));
    assert_eq!(vendor.requests(), 0);
}

#[test]
fn refunds_of_another_version_of_the_contract_are_refused() {
    let component = r#"(component (instance $empty)
        (export "kassette:plugin/payments@0.2.0" (instance $empty))
        (export "kassette:plugin/refunds@0.3.0" (instance $empty)))"#;
    let folder = tempfile::tempdir().unwrap();
    let refused = support::runtime(folder.path()).install(
        &support::slot("provider.vendor"),
        &wat::parse_str(component).unwrap(),
        NOW,
    );
    assert!(
        matches!(refused, Err(LoadError::OtherVersion { .. })),
        "{refused:?}"
    );
}
