//! Resellers: invitations that are answered one time, delegations with immediate effect, lists of payments.

use std::sync::Arc;

use kassette_domain::consent::ConsentCode;
use kassette_domain::delegation::{DelegatedMerchant, DelegationDecision, DelegationStatus};
use kassette_domain::id::{InvitationId, MerchantId, PaymentId, ResellerId};
use kassette_domain::invitation::{
    BusinessName, Invitation, InvitationRequest, NewInvitation, NotAnswered,
};
use kassette_domain::key::{Environment, KeyOwner, TokenHash};
use kassette_domain::lifecycle::{Act, Refusal, StartResult, Step, StepOutcome};
use kassette_domain::money::Minor;
use kassette_domain::order::{ClientRef, Email};
use kassette_domain::payment::{NewPayment, Origin, Status};
use kassette_domain::reseller::{Reseller, ResellerNotAllowed};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::Endpoint;

use super::Harness;
use super::fixtures::*;
use crate::{Answered, Created, InvitationStanding, Invited, Paging, Stepped, Store};

const CALLERS: usize = 64;

/// Creates a reseller. The first is number 1.
pub async fn reseller(store: &Arc<dyn Store>) -> Reseller {
    let made = store.create_reseller("Agency".into(), audited("reseller.create"), NOW);
    made.await.unwrap()
}

pub async fn roll_out(store: &Arc<dyn Store>, enabled: bool) -> Reseller {
    let line = audited("reseller.live_rollout");
    let switched = store.set_live_rollout(ResellerId(1), enabled, line, NOW);
    switched.await.unwrap().unwrap()
}

pub async fn delegate(store: &Arc<dyn Store>, merchant: u64, authorized: bool, at: Time) {
    let version = store.directory_version();
    let line = audited("delegation");
    let decision = match authorized {
        true => DelegationDecision::AUTHORIZE,
        false => DelegationDecision::Revoke,
    };
    let set = store.set_delegation(ResellerId(1), MerchantId(merchant), decision, line, at);
    set.await.unwrap().unwrap();
    assert!(version.is_none() || store.directory_version() != version);
}

/// An endpoint of reseller 1 for every event of the test environment.
pub fn resellers_endpoint(name: &str) -> Endpoint {
    Endpoint {
        owner: KeyOwner::Reseller(ResellerId(1)),
        ..endpoint(name, NOW)
    }
}

/// Issues a key of reseller 1 with this name.
async fn key(store: &Arc<dyn Store>, name: &str, environment: Environment) -> Option<TokenHash> {
    let key = api_key(name, KeyOwner::Reseller(ResellerId(1)), environment);
    let hash = key.hash;
    store
        .issue_key(key, audited("key.create"), NOW)
        .await
        .unwrap();
    Some(hash)
}

/// A payment of reseller 1 for a merchant, under the reference `ref-<name>`.
pub fn resold(name: &str, merchant: u64, environment: Environment) -> NewPayment {
    let mut request = request(name);
    request.merchant = MerchantId(merchant);
    request.environment = environment;
    request.origin = Origin::Reseller {
        reseller: ResellerId(1),
        client_ref: ClientRef::parse(&format!("ref-{name}")).unwrap(),
    };
    of_request(name, request)
}

fn new_invitation(id: &str, client_ref: &str) -> NewInvitation {
    NewInvitation {
        id: InvitationId::from_bytes(id_of(id)),
        request: InvitationRequest {
            reseller: ResellerId(1),
            client_ref: ClientRef::parse(client_ref).unwrap(),
            email: Email::parse("owner@shop.example").unwrap(),
            business_name: BusinessName::parse("Shop Seven").unwrap(),
        },
        token: Secret::new(invitation_token(id)),
    }
}

fn invitation_token(id: &str) -> String {
    format!("invitation-token-of-{id}")
}

pub fn opens(id: &str) -> TokenHash {
    TokenHash::hash(&invitation_token(id))
}

pub async fn invite(store: &Arc<dyn Store>, id: &str, client_ref: &str, at: Time) -> Invitation {
    match store
        .invite(new_invitation(id, client_ref), None, at)
        .await
        .unwrap()
    {
        Invited::New(standing) => {
            assert_eq!(standing.status, DelegationStatus::Invited);
            standing.invitation
        }
        other => panic!("{other:?}"),
    }
}

/// The text of a consent code.
pub fn code(name: &str) -> Secret {
    let random = name.repeat(40);
    Secret::new(format!("km_{}", &random[..40]))
}

pub async fn issue(store: &Arc<dyn Store>, name: &str, merchant: u64, at: Time) -> bool {
    let code = ConsentCode::new(&code(name), MerchantId(merchant), at);
    let issued = store.issue_consent_code(code, audited("consent_code.create"), at);
    issued.await.unwrap()
}

async fn merchants(store: &Arc<dyn Store>, at: Time) -> Vec<DelegatedMerchant> {
    let listed = store
        .delegated_merchants(ResellerId(1), first(100), at)
        .await;
    page(listed.unwrap()).items
}

async fn audits(store: &Arc<dyn Store>) -> Vec<kassette_domain::audit::Audited> {
    let listed = page(store.audit_log(first(100)).await.unwrap()).items;
    listed.into_iter().map(|entry| entry.audited).collect()
}

pub async fn resellers_are_counted_from_one_and_not_rolled_out(harness: &dyn Harness) {
    let store = harness.open().await;
    let first_made = reseller(&store).await;
    let second = reseller(&store).await;
    assert_eq!((first_made.id, second.id), (ResellerId(1), ResellerId(2)));
    assert!(!first_made.live_rollout);
    let listed = page(store.resellers(first(100)).await.unwrap()).items;
    assert_eq!(listed, [second, first_made.clone()]);
    let version = store.directory_version();
    assert!(roll_out(&store, true).await.live_rollout);
    assert!(version.is_none() || store.directory_version() != version);
    let stored = store.reseller(ResellerId(1)).await.unwrap().unwrap();
    assert!(stored.live_rollout);
    let line = &audits(&store).await[0];
    assert_eq!(line.before.as_deref(), Some("{\"live_rollout\":false}"));
    assert_eq!(line.after.as_deref(), Some("{\"live_rollout\":true}"));
    let nobody = store
        .set_live_rollout(ResellerId(9), true, audited("x"), NOW)
        .await;
    assert_eq!(nobody, Ok(None));
}

pub async fn a_key_needs_its_reseller(harness: &dyn Harness) {
    let store = harness.open().await;
    let issue = async |name: &str| {
        let key = api_key(name, KeyOwner::Reseller(ResellerId(1)), Environment::Live);
        store
            .issue_key(key, audited("key.create"), NOW)
            .await
            .unwrap()
    };
    assert_eq!(issue("a").await, crate::KeyIssued::Unknown);
    reseller(&store).await;
    assert!(matches!(issue("a").await, crate::KeyIssued::Done(_)));
}

pub async fn the_same_invitation_at_once_is_made_once(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&store);
        callers.push(tokio::spawn(async move {
            let new = new_invitation(&caller.to_string(), "a");
            store.invite(new, None, NOW).await
        }));
    }
    let (mut made, mut replayed) = (Vec::new(), Vec::new());
    for caller in callers {
        match caller.await.unwrap().unwrap() {
            Invited::New(standing) => made.push(standing),
            Invited::Replay(standing) => replayed.push(standing),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made.len(), replayed.len()), (1, CALLERS - 1));
    assert!(replayed.iter().all(|standing| *standing == made[0]));
    assert_eq!(merchants(&store, NOW).await.len(), 1);
}

pub async fn an_invitation_with_other_data_differs(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    reseller(&store).await;
    invite(&store, "a", "ref", NOW).await;
    let mut other = new_invitation("b", "ref");
    other.request.email = Email::parse("other@shop.example").unwrap();
    let differs = store.invite(other, None, NOW).await.unwrap();
    assert_eq!(differs, Invited::Differs { field: "email" });
    let mut other = new_invitation("b", "ref");
    other.request.business_name = BusinessName::parse("Shop Eight").unwrap();
    let differs = store.invite(other, None, NOW).await.unwrap();
    assert_eq!(
        differs,
        Invited::Differs {
            field: "business_name"
        }
    );
    // Another reseller's references are separate, and so are those of payments.
    let mut theirs = new_invitation("c", "ref");
    theirs.request.reseller = ResellerId(2);
    let made = store.invite(theirs, None, NOW).await.unwrap();
    assert!(matches!(made, Invited::New(_)), "{made:?}");
    let payment = store
        .create(resold("ref", 1, Environment::Test), None, NOW)
        .await;
    assert!(matches!(payment, Ok(Created::New(_))), "{payment:?}");
    invite(&store, "d", "ref-ref", NOW).await;
}

pub async fn only_a_usable_key_of_the_reseller_invites(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    let (test, live) = (
        key(&store, "test", Environment::Test).await,
        key(&store, "live", Environment::Live).await,
    );
    let ask = async |authority| {
        let new = new_invitation("a", "ref");
        store.invite(new, authority, NOW).await.unwrap()
    };
    for refused in [Some(TokenHash::hash("nobody's")), live] {
        assert_eq!(ask(refused).await, Invited::KeyRefused);
    }
    assert!(matches!(ask(test).await, Invited::New(_)));
    roll_out(&store, true).await;
    assert!(matches!(ask(live).await, Invited::Replay(_)));
    let id = api_key("test", KeyOwner::Reseller(ResellerId(1)), Environment::Test).id;
    store
        .revoke_key(id, audited("key.revoke"), NOW)
        .await
        .unwrap();
    assert_eq!(ask(test).await, Invited::KeyRefused);
}

pub async fn an_invitation_is_accepted_with_a_code_once(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    let merchant = shop(&store).await;
    invite(&store, "a", "ref", NOW).await;
    assert!(issue(&store, "x", merchant.0, NOW).await);
    assert!(!issue(&store, "y", 77, NOW).await, "nobody's code");
    let accept = async |id: &str, name: &str, at| {
        store
            .accept_invitation(opens(id), code(name), at)
            .await
            .unwrap()
    };
    assert_eq!(
        accept("a", "y", NOW).await,
        Answered::Not(NotAnswered::WrongCode)
    );
    assert_eq!(accept("nobody", "x", NOW).await, Answered::Unknown);
    let version = store.directory_version();
    let Answered::Accepted(delegation) = accept("a", "x", later(5)).await else {
        panic!("it was not accepted");
    };
    assert!(version.is_none() || store.directory_version() != version);
    assert_eq!(delegation.merchant, merchant);
    assert_eq!(
        store.delegation(ResellerId(1), merchant).await.unwrap(),
        Some(delegation)
    );
    let line = &audits(&store).await[0];
    assert_eq!(
        (line.action.as_str(), line.actor.as_str()),
        ("delegation.authorize", "merchant/1")
    );
    assert_eq!(line.object, "reseller/1/delegation/1");
    assert_eq!(
        accept("a", "x", later(6)).await,
        Answered::Not(NotAnswered::Over)
    );
    let declined = store
        .decline_invitation(opens("a"), later(6))
        .await
        .unwrap();
    assert_eq!(declined, Answered::Not(NotAnswered::Over));
    // The code is used up.
    invite(&store, "b", "ref-b", later(7)).await;
    assert_eq!(
        accept("b", "x", later(8)).await,
        Answered::Not(NotAnswered::WrongCode)
    );
    let Some(InvitationStanding { status, .. }) =
        store.invitation(opens("a"), later(9)).await.unwrap()
    else {
        panic!("it is gone");
    };
    assert_eq!(status, DelegationStatus::Authorized);
}

pub async fn an_invitation_is_accepted_once_at_any_concurrency(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    for name in ["x", "y"] {
        let merchant = shop(&store).await;
        assert!(issue(&store, name, merchant.0, NOW).await);
    }
    invite(&store, "a", "ref", NOW).await;
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&store);
        callers.push(tokio::spawn(async move {
            let name = if caller % 2 == 0 { "x" } else { "y" };
            store.accept_invitation(opens("a"), code(name), NOW).await
        }));
    }
    let mut accepted = 0;
    for caller in callers {
        match caller.await.unwrap().unwrap() {
            Answered::Accepted(_) => accepted += 1,
            other => assert_eq!(other, Answered::Not(NotAnswered::Over)),
        }
    }
    assert_eq!(accepted, 1);
    let authorized = merchants(&store, NOW).await;
    assert_eq!(authorized.len(), 1);
}

pub async fn wrong_tries_are_kept_and_burn_the_code(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    let merchant = shop(&store).await;
    invite(&store, "a", "ref", NOW).await;
    issue(&store, "x", merchant.0, NOW).await;
    for _ in 0..ConsentCode::TRIES {
        let wrong = store
            .accept_invitation(opens("a"), code("z"), later(1))
            .await;
        assert_eq!(wrong, Ok(Answered::Not(NotAnswered::WrongCode)));
    }
    let burnt = store
        .accept_invitation(opens("a"), code("x"), later(2))
        .await;
    assert_eq!(burnt, Ok(Answered::Not(NotAnswered::WrongCode)));
    // Not with another invitation either; a new code works.
    invite(&store, "b", "ref-b", later(3)).await;
    let burnt = store
        .accept_invitation(opens("b"), code("x"), later(4))
        .await;
    assert_eq!(burnt, Ok(Answered::Not(NotAnswered::WrongCode)));
    issue(&store, "w", merchant.0, later(5)).await;
    let accepted = store
        .accept_invitation(opens("a"), code("w"), later(6))
        .await;
    assert!(
        matches!(accepted, Ok(Answered::Accepted(_))),
        "{accepted:?}"
    );
}

pub async fn codes_end_and_are_taken_away_by_later_ones(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    let merchant = shop(&store).await;
    issue(&store, "x", merchant.0, NOW).await;
    let over = NOW.after(ConsentCode::LIFE);
    invite(&store, "a", "ref", NOW).await;
    let late = store.accept_invitation(opens("a"), code("x"), over).await;
    assert_eq!(late, Ok(Answered::Not(NotAnswered::WrongCode)));
    issue(&store, "y", merchant.0, over).await;
    // The same text can be issued again: nothing remains of the old code.
    assert!(issue(&store, "x", merchant.0, over).await);
}

pub async fn merchants_are_listed_with_what_became_of_them(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    for _ in 0..3 {
        shop(&store).await;
    }
    invite(&store, "open", "ref-open", later(1)).await;
    invite(&store, "declined", "ref-declined", later(2)).await;
    invite(&store, "accepted", "ref-accepted", later(3)).await;
    invite(&store, "again", "ref-again", later(4)).await;
    invite(&store, "late", "ref-late", later(5)).await;
    store
        .decline_invitation(opens("declined"), later(6))
        .await
        .unwrap();
    delegate(&store, 2, true, later(7)).await;
    delegate(&store, 3, true, later(8)).await;
    for (id, name, merchant) in [("accepted", "x", 1), ("again", "y", 1), ("late", "z", 3)] {
        issue(&store, name, merchant, later(9)).await;
        let accepted = store
            .accept_invitation(opens(id), code(name), later(9))
            .await;
        assert!(
            matches!(accepted, Ok(Answered::Accepted(_))),
            "{accepted:?}"
        );
    }
    delegate(&store, 1, false, later(10)).await;
    let seen = |merchants: Vec<DelegatedMerchant>| {
        let each = merchants.into_iter().map(|each| {
            let reference = each.client_ref.map(|each| each.as_str().to_owned());
            (each.merchant.map(|id| id.0), each.status, reference)
        });
        each.collect::<Vec<_>>()
    };
    let named = |name: &str| Some(format!("ref-{name}"));
    use DelegationStatus::{Authorized, Declined, Expired, Invited, Revoked};
    let mut expected = vec![
        (Some(2), Authorized, None),
        (Some(3), Authorized, named("late")),
        (Some(1), Revoked, named("again")),
        (None, Declined, named("declined")),
        (None, Invited, named("open")),
    ];
    assert_eq!(seen(merchants(&store, later(11)).await), expected);
    let end = later(1).after(Invitation::LIFE);
    expected[4].1 = Expired;
    assert_eq!(seen(merchants(&store, end).await), expected);
    // The same in pages, without other resellers' merchants.
    let mut paged = Vec::new();
    let mut paging = first(2);
    loop {
        let listed = store
            .delegated_merchants(ResellerId(1), paging.clone(), end)
            .await;
        let found = page(listed.unwrap());
        paged.extend(found.items);
        match found.next {
            None => break,
            cursor => paging.cursor = cursor,
        }
    }
    assert_eq!(seen(paged), expected);
    let other = store
        .delegated_merchants(ResellerId(2), first(100), end)
        .await;
    assert_eq!(page(other.unwrap()).items, []);
}

pub async fn an_operators_word_is_audited_with_what_was_before(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    let merchant = shop(&store).await;
    let set = async |reseller, merchant, decision| {
        let line = audited("delegation");
        let set = store.set_delegation(ResellerId(reseller), merchant, decision, line, NOW);
        set.await.unwrap()
    };
    let (authorize, revoke) = (DelegationDecision::AUTHORIZE, DelegationDecision::Revoke);
    assert_eq!(set(1, merchant, revoke).await, None, "nothing to revoke");
    assert_eq!(set(9, merchant, authorize).await, None);
    assert_eq!(set(1, MerchantId(9), authorize).await, None);
    let refunds = Some(true);
    let with_refunds = DelegationDecision::Authorize { refunds };
    for (decision, refunds) in [
        (authorize, false),
        (with_refunds, true),
        // Unchanged if it is not named.
        (authorize, true),
        (revoke, false),
        (authorize, false),
    ] {
        let delegation = set(1, merchant, decision).await.unwrap();
        assert_eq!(delegation.refunds, refunds, "{decision:?}");
        assert_eq!(merchants(&store, NOW).await[0].refunds, refunds);
    }
    let lines = audits(&store).await;
    let shown = |status: &str, refunds: bool| {
        Some(format!("{{\"status\":\"{status}\",\"refunds\":{refunds}}}"))
    };
    let told = |at: usize| (lines[at].before.clone(), lines[at].after.clone());
    assert_eq!(told(4), (None, shown("authorized", false)));
    assert_eq!(
        told(3),
        (shown("authorized", false), shown("authorized", true))
    );
    assert_eq!(
        told(1),
        (shown("authorized", true), shown("revoked", false))
    );
}

pub async fn one_reference_makes_one_payment_at_any_concurrency(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    for _ in 0..2 {
        shop(&store).await;
    }
    delegate(&store, 1, true, NOW).await;
    delegate(&store, 2, true, NOW).await;
    let authority = key(&store, "k", Environment::Test).await;
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&store);
        let mut new = resold("a", 1, Environment::Test);
        new.id = PaymentId::from_bytes(id_of(&caller.to_string()));
        callers.push(tokio::spawn(async move {
            store.create(new, authority, NOW).await
        }));
    }
    let mut made = 0;
    for caller in callers {
        match caller.await.unwrap().unwrap() {
            Created::New(_) => made += 1,
            Created::Replay(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(made, 1);
    let differs = async |new| match store.create(new, authority, NOW).await.unwrap() {
        Created::Differs { field } => field,
        other => panic!("{other:?}"),
    };
    let mut other = resold("a", 1, Environment::Test);
    other.request.due.amount = Minor(1);
    assert_eq!(differs(other).await, "amount");
    let other = resold("a", 2, Environment::Test);
    assert_eq!(differs(other).await, "merchant_id");
}

pub async fn a_payment_needs_key_delegation_rollout_and_approval(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    shop(&store).await;
    let unapproved = store
        .create_merchant(merchant(false), audited("x"), NOW)
        .await;
    assert_eq!(unapproved.unwrap().id, MerchantId(2));
    let (test, live) = (
        key(&store, "test", Environment::Test).await,
        key(&store, "live", Environment::Live).await,
    );
    let create = async |name: &str, merchant, environment, authority| {
        let new = resold(name, merchant, environment);
        store.create(new, authority, NOW).await.unwrap()
    };
    let barred = |barred| Created::Barred(barred);
    let (in_test, in_live) = (Environment::Test, Environment::Live);
    assert_eq!(
        create("a", 1, in_test, test).await,
        barred(ResellerNotAllowed::NotAuthorized)
    );
    assert_eq!(
        create("a", 77, in_test, test).await,
        barred(ResellerNotAllowed::NotAuthorized),
        "the answer does not tell that there is no such merchant"
    );
    delegate(&store, 1, true, NOW).await;
    delegate(&store, 2, true, NOW).await;
    assert_eq!(create("a", 1, in_live, test).await, Created::KeyRefused);
    assert_eq!(
        create("a", 1, in_live, live).await,
        barred(ResellerNotAllowed::NotRolledOut)
    );
    roll_out(&store, true).await;
    assert_eq!(
        create("b", 2, in_live, live).await,
        barred(ResellerNotAllowed::NotLiveApproved)
    );
    assert!(matches!(
        create("a", 1, in_live, live).await,
        Created::New(_)
    ));
    delegate(&store, 1, false, NOW).await;
    assert_eq!(
        create("a", 1, in_live, live).await,
        barred(ResellerNotAllowed::NotAuthorized),
        "not even a replay"
    );
}

pub async fn after_a_revocation_open_attempts_run_on_and_none_starts(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    shop(&store).await;
    delegate(&store, 1, true, NOW).await;
    for name in ["running", "falling", "waiting"] {
        store
            .create(resold(name, 1, Environment::Test), None, NOW)
            .await
            .unwrap();
    }
    for name in ["running", "falling"] {
        let attempt = format!("attempt of {name}");
        done(
            &store,
            payment_of(name),
            open(&attempt, "sandbox-test"),
            NOW,
        )
        .await;
    }
    delegate(&store, 1, false, NOW).await;
    let refused = store
        .step(
            payment_of("waiting"),
            open("new", "sandbox-test"),
            None,
            NOW,
        )
        .await;
    match refused.unwrap() {
        Stepped::Refused { aggregate, refusal } => {
            assert_eq!(refusal, Refusal::Barred(ResellerNotAllowed::NotAuthorized));
            assert_eq!(aggregate.payment.status, Status::Created);
        }
        other => panic!("{other:?}"),
    }
    // A fallback would be a new attempt.
    let step = Step::Started {
        held: None,
        attempt: attempt_id("attempt of falling"),
        result: StartResult::Unavailable("down".into()),
        next: Some(Box::new(choice("next", "sandbox-test"))),
    };
    match store
        .step(payment_of("falling"), step, None, NOW)
        .await
        .unwrap()
    {
        Stepped::Done {
            aggregate, outcome, ..
        } => {
            assert_eq!(outcome, StepOutcome::Done);
            assert_eq!(aggregate.attempts.len(), 1);
            assert_eq!(aggregate.payment.status, Status::Created);
        }
        other => panic!("{other:?}"),
    }
    // The running attempt is paid.
    let attempt = "attempt of running";
    done(
        &store,
        payment_of("running"),
        started(attempt, "vendor-1"),
        NOW,
    )
    .await;
    let paid = report(
        "vendor-1",
        kassette_domain::provider::ProviderStatus::Completed,
    );
    let (aggregate, _) = done(&store, payment_of("running"), news(attempt, paid), NOW).await;
    assert_eq!(aggregate.payment.status, Status::Completed);
    // A reseller that is authorized again can start again.
    delegate(&store, 1, true, NOW).await;
    done(
        &store,
        payment_of("waiting"),
        open("new", "sandbox-test"),
        NOW,
    )
    .await;
}

pub async fn a_resellers_payments_are_listed_while_more_arrive(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    let make = async |name: &str, merchant, environment, at| {
        let new = resold(name, merchant, environment);
        match store.create(new, None, at).await.unwrap() {
            Created::New(payment) => payment,
            other => panic!("{other:?}"),
        }
    };
    let mut made = Vec::new();
    for each in 0..7_u64 {
        made.push(make(&each.to_string(), 1, Environment::Test, later(each)).await);
    }
    made.reverse();
    make("live", 1, Environment::Live, later(3)).await;
    make("other-shop", 2, Environment::Test, later(3)).await;
    create(&store, "of-the-merchant", later(3)).await;
    let ask = async |reseller, merchant, environment, paging: Paging| {
        let asked = store.reseller_payments(
            ResellerId(reseller),
            MerchantId(merchant),
            environment,
            paging,
        );
        asked.await.unwrap()
    };
    let mut paging = first(3);
    let mut seen = Vec::new();
    loop {
        let found = page(ask(1, 1, Environment::Test, paging.clone()).await);
        seen.extend(found.items);
        match found.next {
            None => break,
            cursor => paging.cursor = cursor,
        }
        let name = format!("late-{}", seen.len());
        make(&name, 1, Environment::Test, later(100)).await;
    }
    assert_eq!(
        seen, made,
        "each once, newest first, none of the later ones"
    );
    let foreign = ask(1, 2, Environment::Test, paging.clone()).await;
    assert_eq!(foreign, crate::Listed::BadCursor);
    let foreign = ask(1, 1, Environment::Live, paging).await;
    assert_eq!(foreign, crate::Listed::BadCursor);
    let others = page(ask(2, 1, Environment::Test, first(100)).await).items;
    assert_eq!(others, []);
    // The list shows the current state of payments.
    done(&store, payment_of("6"), Step::Act(Act::Cancel), later(200)).await;
    let listed = page(ask(1, 1, Environment::Test, first(100)).await).items;
    let cancelled = listed.iter().find(|payment| payment.id == made[0].id);
    assert_eq!(cancelled.unwrap().status, Status::Cancelled);
}

pub async fn what_resellers_have_survives(harness: &dyn Harness) {
    let store = harness.open().await;
    reseller(&store).await;
    shop(&store).await;
    let invitation = invite(&store, "a", "ref", NOW).await;
    issue(&store, "x", 1, NOW).await;
    store.shut_down().await.unwrap();
    let store = harness.open().await;
    let found = store.invitation(opens("a"), NOW).await.unwrap().unwrap();
    assert_eq!(found.invitation, invitation);
    let accepted = store.accept_invitation(opens("a"), code("x"), NOW).await;
    assert!(
        matches!(accepted, Ok(Answered::Accepted(_))),
        "{accepted:?}"
    );
}

/// A row of each kind of resellers: an open and an accepted invitation, a merchant for which an operator
/// authorized the reseller, a used and an open code, a payment.
pub async fn everything_of_a_reseller(store: &Arc<dyn Store>) {
    reseller(store).await;
    let merchant = shop(store).await;
    delegate(store, merchant.0, true, NOW).await;
    invite(store, "open", "ref-open", NOW).await;
    invite(store, "accepted", "ref-accepted", NOW).await;
    for name in ["x", "y"] {
        issue(store, name, 1, NOW).await;
    }
    let accepted = store
        .accept_invitation(opens("accepted"), code("x"), NOW)
        .await;
    assert!(
        matches!(accepted, Ok(Answered::Accepted(_))),
        "{accepted:?}"
    );
    listen(store, resellers_endpoint("reseller's")).await;
    let new = resold("resold", 1, Environment::Test);
    let made = store.create(new, None, NOW).await.unwrap();
    assert!(matches!(made, Created::New(_)), "{made:?}");
}
