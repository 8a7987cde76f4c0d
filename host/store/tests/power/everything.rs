//! Every operation of a store, one after the other, and everything that can be read afterwards.
//!
//! The expected state after each is read from a store without a power cut, so it contains only what the operations
//! determine: IDs that the store draws are left out.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::connect::CodeUse;
use kassette_domain::delegation::DelegationDecision;
use kassette_domain::event::EventType;
use kassette_domain::id::{Digest, MerchantId, OperatorId, PaymentId, ResellerId, Slot};
use kassette_domain::key::{ApiKey, Environment, KeyOwner, TokenHash};
use kassette_domain::lifecycle::{
    Act, ClaimPurpose, NewCorrection, NewRefund, Query, StartResult, Step,
};
use kassette_domain::method::MethodId;
use kassette_domain::provider::{
    PayerAction, ProviderStatus, QueryPurpose, Question, QuestionKind, RefundState,
};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{DeliveryAttempt, Endpoint, HELD_BACK_MOST, MAX_RESPONSE, Tried};
use kassette_store::suite::fixtures::*;
use kassette_store::suite::{movements, refunds, resellers};
use kassette_store::{
    About, ClaimedDeliveries, DeliveryFilter, DueDelivery, EventsAsked, IdPrefix, MAX_CLOCK_STEP,
    MISSED_MOST, MadeDue, ModulesInfo, NodeInfo, NodeShare, RefundOrdered, Reserved, Retention,
    RoutingBatch, Store, Task,
};

/// Deeds in order: name of the operation, and its variant.
pub(crate) const DEEDS: &[&str] = &[
    "create_merchant",
    "replace_merchant",
    "issue_key",
    "keys_seen",
    "rotate_key",
    "revoke_key",
    "create_operator",
    "remove_operator",
    "create_operator",
    "switch_account",
    "audit",
    "create_endpoint: a",
    "create_endpoint: b",
    "replace_endpoint",
    "rotate_endpoint",
    "issue_connect_code",
    "use_connect_code",
    "exchange",
    "issue_connect_code: again",
    "exchange: again",
    "create_reseller",
    "set_live_rollout",
    "invite",
    "issue_consent_code",
    "accept_invitation",
    "invite: again",
    "decline_invitation",
    "set_delegation",
    "set_delegation: again",
    "create: resold",
    "set_schedule",
    "create",
    "step: open",
    "keep_callback",
    "step: started",
    "unknown_money",
    "work_done",
    "open_work",
    "close_work",
    "refund",
    "step: claim refund",
    "step: refund answered",
    "refund: unsettled",
    "step: settle refund",
    "step: correct",
    "book",
    "advance_closed_until",
    "advance_closed_until: jump",
    "confirm_clock",
    "create: due",
    "step: open due",
    "create: asked",
    "step: open asked",
    "step: started asked",
    "step: answered",
    "step: claim",
    "step: ask at",
    "step: query failed",
    "step: returned",
    "step: report",
    "step: act",
    "claim_due",
    "step: release",
    "step: redact",
    "claim",
    "tried",
    "tried_all",
    "hasten",
    "give_back",
    "queue_test",
    "redeliver",
    "replace_endpoint: off",
    "sweep",
    "replace_endpoint: on",
    "recover",
    "queue_missed",
    "delete_endpoint",
    "append_routing",
    "forget",
    "append_routing: again",
    "append_routing: conversations",
    "count_trial",
    "count_trial: again",
    "count_trial: later",
    NONCE,
    "prune_deliveries",
];
/// Further deeds, which change nothing that is read here.
pub(crate) const SILENT: [&str; 2] = ["probe", "backup"];
const NONCE: &str = "reserve_nonce";
const CLAIMED_FOR: Duration = Duration::from_secs(60);

/// Maps each kind of step to its deed. A new kind without a deed does not compile.
macro_rules! steps {
    ($($step:pat => $deed:literal,)+) => {
        const STEPS: &[&str] = &[$($deed),+];

        const fn deed(step: &Step) -> &'static str {
            match step {
                $($step => $deed,)+
            }
        }
    };
}

steps! {
    Step::Open(_) => "step: open",
    Step::Started { .. } => "step: started",
    Step::Answered { .. } => "step: answered",
    Step::Claim { .. } => "step: claim",
    Step::Report { .. } => "step: report",
    Step::QueryFailed { .. } => "step: query failed",
    Step::AskAt { .. } => "step: ask at",
    Step::Returned { .. } => "step: returned",
    Step::Refund(_) => "refund",
    Step::ClaimRefund { .. } => "step: claim refund",
    Step::RefundAnswered { .. } => "step: refund answered",
    Step::SettleRefund { .. } => "step: settle refund",
    Step::Correct(_) => "step: correct",
    Step::Act(_) => "step: act",
    Step::Release { .. } => "step: release",
    Step::Redact => "step: redact",
}

/// The operations that read or leave no row, all of which are asked here or by the judge of payments, or end a process.
const READS: [&str; 58] = [
    "find_ids",
    "reviewed",
    "announce",
    "announce_modules",
    "demanded",
    "live_nodes",
    "nodes",
    "share",
    "take_task",
    "account_switches",
    "accounts_in_use",
    "audit_log",
    "backlog",
    "by_checkout",
    "by_return",
    "connect_code",
    "connect_codes",
    "delegated_merchants",
    "delegation",
    "deliveries",
    "delivery",
    "directory_version",
    "endpoint",
    "endpoint_secrets",
    "endpoints",
    "events",
    "failed",
    "history",
    "invitation",
    "key",
    "key_by_id",
    "keys",
    "ledger",
    "movement",
    "movements",
    "movements_of",
    "aggregate",
    "merchant",
    "merchants",
    "next_due",
    "notes",
    "operator",
    "operators",
    "payment",
    "payments",
    "queued",
    "replay",
    "reseller",
    "reseller_payments",
    "resellers",
    "conversations",
    "routing_log",
    "shut_down",
    "verify_audit",
    "vitals",
    "waiting",
    "work",
    "work_item",
];

/// Operations that do nothing in an embedded store, which a single process uses.
const OF_NODES: [&str; 7] = [
    "shares_modules",
    "propose_version",
    "settle_version",
    "withdraw_version",
    "change_slot",
    "slot_changes",
    "module_bytes",
];

/// Operations on a whole store that are not run here: they only read one, or create a new one.
const WHOLE: [&str; 5] = [
    "backup",
    "receive",
    "restore",
    "verify_audit",
    "verify_backup",
];

/// Number of deeds.
pub(crate) const LENGTH: usize = DEEDS.len() + SILENT.len();

/// Operations that are not covered here: of the store's traits, according to their source files, steps of
/// payments, and operations on a whole store.
pub(crate) fn missing() -> BTreeSet<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = std::fs::read_dir(&sources)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| std::fs::read_to_string(path).unwrap());
    let asked = [
        include_str!("everything.rs"),
        include_str!("judge.rs"),
        include_str!("driver.rs"),
    ];
    let is_asked = |name: &str| asked.iter().any(|file| file.contains(&format!(".{name}(")));
    let done = DEEDS.iter().chain(&SILENT);
    let done: BTreeSet<&str> = done.filter_map(|deed| deed.split(':').next()).collect();
    let mut all = BTreeSet::new();
    for file in files {
        let traits = file.split("\npub trait ").skip(1);
        let bodies = traits.filter_map(|rest| rest.split("\n}").next());
        // Only stores are shared between threads; traits of values do not require `Sync`.
        let bodies = bodies.filter_map(|body| body.split_once(": Send + Sync {\n"));
        let functions = bodies.flat_map(|(_, body)| body.split("    fn ").skip(1));
        let names = functions.filter_map(|rest| rest.split('(').next());
        all.extend(names.map(str::to_owned));
    }
    assert!(all.len() > 80, "the traits were not found: {all:?}");
    all.retain(|name| {
        let name = name.as_str();
        !(done.contains(name)
            || READS.contains(&name) && is_asked(name)
            || OF_NODES.contains(&name))
    });
    let steps = STEPS.iter().filter(|step| !DEEDS.contains(step));
    all.extend(steps.map(|step| (*step).to_owned()));
    let is_called = |name: &str| {
        let call = format!("maintenance::{name}(");
        asked.iter().any(|file| file.contains(&call))
    };
    let maintenance = sources.join("sled/maintenance");
    for file in std::fs::read_dir(maintenance).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let functions = text.lines().filter_map(|line| line.strip_prefix("pub fn "));
        let names = functions.filter_map(|rest| rest.split('(').next());
        let missing = names.filter(|name| !WHOLE.contains(name) && !is_called(name));
        all.extend(missing.map(str::to_owned));
    }
    all
}

/// Time of a deed.
fn at(number: usize) -> Time {
    later(u64::try_from(number).unwrap())
}

fn tried(of: &DueDelivery, now: Time, delivered: bool) -> (kassette_domain::id::DeliveryId, Tried) {
    let attempt = DeliveryAttempt {
        at: now,
        status: Some(if delivered { 200 } else { 503 }),
        duration_ms: 9,
        error: (!delivered).then(|| "the receiver answered 503".into()),
        response: Some("x".repeat(MAX_RESPONSE)),
    };
    let tried = Tried {
        attempt,
        after: of.attempts,
        delivered,
        retry_at: now.after(Duration::from_secs(1000)),
    };
    (of.id, tried)
}

/// Claims due deliveries of an endpoint, in an order that does not depend on drawn IDs.
async fn claimed(store: &Arc<dyn Store>, name: &str, now: Time) -> Vec<DueDelivery> {
    let claimed = store.claim(endpoint(name, NOW).id, now, Duration::from_secs(60), 64);
    let ClaimedDeliveries::Due { mut deliveries, .. } = claimed.await.unwrap() else {
        panic!("{name} is held back");
    };
    deliveries.sort_by_key(|delivery| (delivery.created_at, delivery.kind.as_str()));
    deliveries
}

async fn give_back(store: &Arc<dyn Store>, deliveries: &[DueDelivery]) {
    let ids = deliveries.iter().map(|delivery| delivery.id).collect();
    store.give_back(ids).await.unwrap();
}

async fn read_endpoint(store: &Arc<dyn Store>, name: &str) -> Endpoint {
    store
        .endpoint(endpoint(name, NOW).id)
        .await
        .unwrap()
        .unwrap()
}

async fn switch(store: &Arc<dyn Store>, name: &str, enabled: bool, now: Time) {
    let before = read_endpoint(store, name).await;
    let after = Endpoint {
        enabled,
        ..before.clone()
    };
    let line = audited("endpoint.switch");
    store
        .replace_endpoint(before, after, line, now)
        .await
        .unwrap();
}

/// Response to the start of the payment `asked`.
fn asks() -> Step {
    let question = Question {
        name: "bank".into(),
        label: "Your bank".into(),
        kind: QuestionKind::Text,
        required: true,
        choices: Vec::new(),
    };
    Step::Started {
        held: None,
        attempt: attempt_id("three"),
        result: StartResult::Open {
            reference: None,
            action: PayerAction::Ask(vec![question]),
            until: None,
        },
        next: None,
    }
}

/// Performs the deed with this number.
pub(crate) async fn act(store: &Arc<dyn Store>, number: usize) {
    let now = at(number);
    let line = || audited(DEEDS.get(number).copied().unwrap_or("silent"));
    let merchant_key = |name| api_key(name, KeyOwner::Merchant(MerchantId(1)), Environment::Test);
    let code = |name| connect_code(name, "https://shop.example", Environment::Test);
    let reseller = ResellerId(1);
    let attempt = attempt_id("three");
    let told = *DEEDS.iter().chain(&SILENT).nth(number).unwrap();
    let step = async |name: &str, step: Step| {
        assert!(told.starts_with(deed(&step)), "{told}: {step:?}");
        done(store, payment_of(name), step, now).await;
    };
    match told {
        "create_merchant" => drop(
            store
                .create_merchant(merchant(true), line(), now)
                .await
                .unwrap(),
        ),
        "replace_merchant" => {
            let before = store.merchant(MerchantId(1)).await.unwrap().unwrap();
            let mut after = before.clone();
            after.name = "Shop seven".into();
            store
                .replace_merchant(before, after, line(), now)
                .await
                .unwrap();
        }
        "issue_key" => drop(
            store
                .issue_key(merchant_key("key"), line(), now)
                .await
                .unwrap(),
        ),
        "keys_seen" => {
            let seen = vec![(merchant_key("key").hash, now)];
            store.keys_seen(seen).await.unwrap();
        }
        "rotate_key" => {
            let (old, new) = (merchant_key("key").id, merchant_key("rotated"));
            store
                .rotate_key(old, new, later(90), line(), now)
                .await
                .unwrap();
        }
        "revoke_key" => {
            let id = merchant_key("rotated").id;
            store.revoke_key(id, line(), now).await.unwrap().unwrap();
        }
        "create_operator" => {
            let made = operator("ann", NOW);
            store.create_operator(made, line(), now).await.unwrap();
        }
        "remove_operator" => {
            let id = OperatorId::from_bytes(id_of("ann"));
            store.remove_operator(id, line(), now).await.unwrap();
        }
        "switch_account" => {
            store
                .switch_account(account("sandbox-test"), false, line(), now)
                .await
                .unwrap();
        }
        "audit" => drop(store.audit(line(), now).await.unwrap()),
        "create_endpoint: a" => drop(listen(store, endpoint("a", NOW)).await),
        "create_endpoint: b" => drop(listen(store, endpoint("b", NOW)).await),
        "replace_endpoint" => {
            let before = read_endpoint(store, "b").await;
            let url = "https://b.example/elsewhere".into();
            let after = Endpoint {
                url,
                ..before.clone()
            };
            store
                .replace_endpoint(before, after, line(), now)
                .await
                .unwrap();
        }
        "rotate_endpoint" => {
            let (id, new) = (endpoint("a", NOW).id, Secret::new("whsec_new"));
            let overlap = Duration::from_secs(3600);
            store
                .rotate_endpoint(id, new, overlap, line(), now)
                .await
                .unwrap();
        }
        "issue_connect_code" => {
            store
                .issue_connect_code(code("code"), line(), now)
                .await
                .unwrap();
        }
        "use_connect_code" => {
            store
                .use_connect_code(code("code").hash, CodeUse::Fetch, now)
                .await
                .unwrap();
        }
        "exchange" => {
            let exchange = exchange_of(&code("code"), "connected");
            store.exchange(exchange, line(), now).await.unwrap();
        }
        "issue_connect_code: again" => {
            store
                .issue_connect_code(code("more"), line(), now)
                .await
                .unwrap();
        }
        "exchange: again" => {
            let exchange = exchange_of(&code("more"), "connected again");
            store.exchange(exchange, line(), now).await.unwrap();
        }
        "create_reseller" => {
            store
                .create_reseller("Agency".into(), line(), now)
                .await
                .unwrap();
        }
        "set_live_rollout" => {
            store
                .set_live_rollout(reseller, true, line(), now)
                .await
                .unwrap();
        }
        "invite" => drop(resellers::invite(store, "first", "shop-1", now).await),
        "issue_consent_code" => assert!(resellers::issue(store, "c", 1, now).await),
        "accept_invitation" => {
            let (token, code) = (resellers::opens("first"), resellers::code("c"));
            store.accept_invitation(token, code, now).await.unwrap();
        }
        "invite: again" => drop(resellers::invite(store, "second", "shop-2", now).await),
        "decline_invitation" => {
            store
                .decline_invitation(resellers::opens("second"), now)
                .await
                .unwrap();
        }
        "set_delegation" => {
            store
                .set_delegation(
                    reseller,
                    MerchantId(1),
                    DelegationDecision::Revoke,
                    line(),
                    now,
                )
                .await
                .unwrap();
        }
        "set_delegation: again" => {
            store
                .set_delegation(
                    reseller,
                    MerchantId(1),
                    DelegationDecision::Authorize {
                        refunds: Some(true),
                    },
                    line(),
                    now,
                )
                .await
                .unwrap();
        }
        "create: resold" => {
            let new = resellers::resold("resold", 1, Environment::Test);
            store.create(new, None, now).await.unwrap();
        }
        NONCE => drop(nonce(store).await),
        "set_schedule" => store.set_schedule(Default::default()),
        "create" => drop(store.create(new_payment("paid"), None, now).await.unwrap()),
        "step: open" => step("paid", open("one", "sandbox-test")).await,
        "keep_callback" => {
            let report = report("vendor-1", ProviderStatus::Completed);
            let at = account("sandbox-test");
            store
                .keep_callback(at, "vendor-1".into(), Some(report), now)
                .await
                .unwrap();
        }
        "step: started" => step("paid", started("one", "vendor-1")).await,
        "unknown_money" => {
            let (found, movement) = movements::unknown("unknown", 100);
            store.unknown_money(found, movement, now).await.unwrap();
        }
        "open_work" => {
            let (found, movement) = movements::unknown("unknown", 100);
            store
                .open_work(found, movement.environment, now)
                .await
                .unwrap();
        }
        "close_work" => {
            let (found, _) = movements::unknown("unknown", 100);
            store.close_work(found.key, now).await.unwrap();
        }
        "work_done" => {
            let open = page(store.work(false, first(9)).await.unwrap()).items;
            store.work_done(open[0].id, line(), now).await.unwrap();
        }
        "refund" => {
            let new = refunds::order("back", "paid", Some(1000));
            let new = NewRefund {
                attempt: attempt_id("one"),
                ..new
            };
            let payment = PaymentId::from_bytes(id_of("paid"));
            let ordered = store.refund(payment, new, None, Some(line()), now).await;
            assert!(matches!(ordered, Ok(RefundOrdered::New { .. })));
        }
        "refund: unsettled" => {
            let new = NewRefund {
                attempt: attempt_id("one"),
                ..refunds::order("left", "paid", Some(500))
            };
            let payment = PaymentId::from_bytes(id_of("paid"));
            let long_ago = now.before(Duration::from_secs(3 * 24 * 3600));
            let ordered = store.refund(payment, new, None, None, long_ago).await;
            assert!(matches!(ordered, Ok(RefundOrdered::New { .. })));
        }
        "step: settle refund" => {
            let refund = refunds::refund_id("left");
            step("paid", Step::SettleRefund { refund, made: None }).await;
        }
        "step: correct" => {
            let new = NewCorrection {
                attempt: attempt_id("one"),
                ..movements::correction("one", "paid")
            };
            step("paid", Step::Correct(Box::new(new))).await;
        }
        "book" => {
            let (_, payout) = movements::unknown("a payout", 300);
            store.book(payout, Some(line()), now).await.unwrap();
        }
        "advance_closed_until" => {
            store.advance_closed_until(now, true).await.unwrap();
        }
        "advance_closed_until: jump" => {
            let jumped = now.after(MAX_CLOCK_STEP * 2);
            store.advance_closed_until(jumped, false).await.unwrap();
        }
        "confirm_clock" => {
            let confirmed = store.confirm_clock(line(), now).await.unwrap();
            assert!(confirmed.is_some());
        }
        "step: claim refund" => step("paid", refunds::claimed("back", 9000)).await,
        "step: refund answered" => {
            step("paid", refunds::answered("back", RefundState::Succeeded)).await;
        }
        "create: due" => drop(store.create(new_payment("due"), None, now).await.unwrap()),
        "step: open due" => step("due", open("two", "sandbox-test")).await,
        "create: asked" => {
            let mut noted = request("asked");
            noted.extras.notes = notes();
            let noted = of_request("asked", noted);
            drop(store.create(noted, None, now).await.unwrap());
        }
        "step: open asked" => step("asked", open("three", "sandbox-test")).await,
        "step: started asked" => step("asked", asks()).await,
        "step: answered" => {
            let answers = vec![("bank".into(), Secret::new("a bank"))];
            let busy_until = now;
            step(
                "asked",
                Step::Answered {
                    attempt,
                    answers,
                    busy_until,
                },
            )
            .await;
        }
        "step: claim" => {
            let (purpose, until) = (ClaimPurpose::Start, now);
            step(
                "asked",
                Step::Claim {
                    attempt,
                    purpose,
                    until,
                },
            )
            .await;
        }
        "step: ask at" => step("asked", Step::AskAt { attempt, at: now }).await,
        "step: query failed" => {
            let asked = Query {
                purpose: QueryPurpose::Sync,
                notices: 1,
                held: None,
            };
            let failed = Step::QueryFailed {
                attempt,
                asked,
                absent: false,
                scheduled: true,
            };
            step("asked", failed).await;
        }
        "step: returned" => {
            let query = Secret::new("status=unknown");
            step("asked", Step::Returned { attempt, query }).await;
        }
        "step: report" => {
            let processing = report("vendor-3", ProviderStatus::Processing);
            step("asked", news("three", processing)).await;
        }
        "step: act" => step("asked", Step::Act(Act::ToReview)).await,
        "step: release" => {
            let claimed_until = later(30 * 3600).after(CLAIMED_FOR);
            step("due", Step::Release { claimed_until }).await;
        }
        "step: redact" => step("asked", Step::Redact).await,
        "claim_due" => {
            let late = later(30 * 3600);
            store.claim_due(late, CLAIMED_FOR, 9).await.unwrap();
        }
        "claim" => {
            // Returns only if the previous process has not yet consumed the notification.
            tokio::select! {
                queued = store.queued() => drop(queued.unwrap()),
                () = tokio::task::yield_now() => {}
            }
            assert!(!store.waiting(None, 9).await.unwrap().is_empty());
            give_back(store, &claimed(store, "a", now).await).await;
        }
        "tried" => {
            let due = claimed(store, "a", now).await;
            let (id, tried) = tried(&due[0], now, false);
            store.tried(id, tried, None, now).await.unwrap();
            give_back(store, &due[1..]).await;
        }
        "tried_all" => {
            let due = claimed(store, "a", now).await;
            let tried = due
                .iter()
                .map(|delivery| tried(delivery, now, true))
                .collect();
            store.tried_all(tried, now).await.unwrap();
        }
        "give_back" => give_back(store, &claimed(store, "b", now).await).await,
        "queue_test" => {
            let id = endpoint("a", NOW).id;
            store.queue_test(id, line(), now).await.unwrap();
        }
        "redeliver" => {
            let listed = deliveries(store).await;
            let test = listed
                .iter()
                .find(|delivery| delivery.kind == EventType::WebhookTest);
            let id = test.unwrap().id;
            store.redeliver(id, line(), now).await.unwrap();
        }
        "replace_endpoint: off" => switch(store, "b", false, now).await,
        "sweep" => {
            let late = now.after(HELD_BACK_MOST).after(Duration::from_secs(60));
            store.sweep(endpoint("b", NOW).id, late).await.unwrap();
        }
        "replace_endpoint: on" => switch(store, "b", true, now).await,
        "recover" => {
            let id = endpoint("b", NOW).id;
            store
                .recover(id, NOW, None, Some(line()), now)
                .await
                .unwrap();
        }
        "queue_missed" => {
            let asked = EventsAsked {
                merchant: MerchantId(1),
                environment: Environment::Test,
                kind: None,
                since: None,
                until: None,
                payments: None,
            };
            let events = page(store.events(asked, first(MISSED_MOST)).await.unwrap()).items;
            let id = endpoint("b", NOW).id;
            store.queue_missed(id, events, now).await.unwrap();
        }
        "hasten" => {
            let id = endpoint("a", NOW).id;
            let made = store.hasten(id, None, Some(line()), now).await;
            assert!(matches!(made, Ok(MadeDue::Page { next: None, .. })));
        }
        "delete_endpoint" => {
            let id = endpoint("a", NOW).id;
            store.delete_endpoint(id, line(), now).await.unwrap();
        }
        "append_routing" | "append_routing: again" => {
            let methods = [MethodId::Ideal, MethodId::Paypal, MethodId::Ideal];
            let numbered = (number as u64..).zip(methods);
            let decisions = numbered.map(|(number, method)| routing_record(method, number));
            let batches = RoutingBatch::group(&decisions.collect::<Vec<_>>()).unwrap();
            store.append_routing(batches, now).await.unwrap();
        }
        "append_routing: conversations" => {
            let slots = ["provider.stripe", "provider.adyen", "provider.stripe"];
            let numbered = (number as u64..).zip(slots);
            let all = numbered.map(|(number, slot)| conversation(slot, number));
            let batches = RoutingBatch::group(&all.collect::<Vec<_>>()).unwrap();
            store.append_routing(batches, now).await.unwrap();
        }
        "count_trial" | "count_trial: again" => {
            let counted = vec![(1, counts(1)), (5, counts(2))];
            let counting = store.count_trial(trial("method.ideal", NOW), counted);
            counting.await.unwrap();
        }
        "count_trial: later" => {
            let counting = store.count_trial(trial("method.ideal", later(1)), vec![(9, counts(3))]);
            counting.await.unwrap();
        }
        "forget" => {
            let day = Some(Duration::from_secs(24 * 3600));
            let retention = Retention {
                decisions: day,
                personal_data: day,
                routing_log: day,
                ..Retention::default()
            };
            store.forget(retention, later(48 * 3600)).await.unwrap();
        }
        "prune_deliveries" => {
            store.prune_deliveries(later(3600), None, 32).await.unwrap();
        }
        "probe" => store.probe().await.unwrap(),
        "backup" => {
            let mut pieces = store.backup(now).await.unwrap().unwrap();
            while pieces.recv().await.is_some() {}
        }
        other => panic!("nothing is known of {other}"),
    }
}

async fn nonce(store: &Arc<dyn Store>) -> Reserved {
    store
        .reserve_nonce(nonce_of("nonce", NOW), NOW)
        .await
        .unwrap()
}

/// Whether the nonce is still reserved, if that deed was done before `done`. Reserves it otherwise.
pub(crate) async fn nonce_is_kept(store: &Arc<dyn Store>, done: usize) -> bool {
    let taken = DEEDS.iter().position(|deed| *deed == NONCE).unwrap();
    done <= taken || nonce(store).await == Reserved::Used
}

async fn deliveries(store: &Arc<dyn Store>) -> Vec<kassette_domain::webhook::Delivery> {
    page(
        store
            .deliveries(DeliveryFilter::default(), first(100))
            .await
            .unwrap(),
    )
    .items
}

/// Everything that can be read, as text.
pub(crate) async fn observe(store: &Arc<dyn Store>) -> String {
    let mut seen = String::new();
    // `next_due` changes with the judge's own payment, and `directory_version` with each process, so neither is
    // included.
    store.next_due().await.unwrap();
    store.directory_version();
    // The only node announces itself, which writes nothing.
    store.announce(NodeInfo::default());
    store.announce_modules(ModulesInfo::default());
    store.demanded();
    let nodes = store.nodes().await.unwrap();
    assert_eq!((nodes.len(), store.live_nodes()), (1, 1));
    assert_eq!(store.share(), NodeShare::WHOLE);
    assert_eq!(store.reviewed().await, Ok(None));
    let lease = Duration::from_secs(60);
    assert_eq!(store.take_task(Task::Forget, lease).await, Ok(true));
    macro_rules! see {
        ($($what:expr),+ $(,)?) => { $( seen += &format!("{:?}\n", $what); )+ };
    }
    let (merchant, reseller) = (MerchantId(1), ResellerId(1));
    for name in ["paid", "due", "asked", "resold"] {
        let id = PaymentId::from_bytes(id_of(name));
        see!(
            store.payment(id).await.unwrap(),
            store
                .find_ids(IdPrefix::parse(&id.to_string()).unwrap())
                .await
                .unwrap(),
            store.aggregate(payment_of(name)).await.unwrap(),
            store
                .by_checkout(TokenHash::hash(&token(name)))
                .await
                .unwrap(),
        );
        if let Some(history) = store.history(id).await.unwrap() {
            see!(history.decisions, history.transitions, history.notes);
            see!(store.notes(vec![id]).await.unwrap());
            let events = history.events.iter();
            see!(
                events
                    .map(|event| (event.kind, event.status, event.subject.clone()))
                    .collect::<Vec<_>>()
            );
        }
    }
    for name in ["one", "two", "three"] {
        let token = TokenHash::hash(&format!("return-token-of-{name}"));
        see!(store.by_return(token).await.unwrap());
    }
    see!(store.accounts_in_use().await.unwrap());
    see!(
        store
            .aggregate(About::Refund(refunds::refund_id("back")))
            .await
            .unwrap()
    );
    let work = page(store.work(false, first(9)).await.unwrap()).items;
    for item in &work {
        let found = store.work_item(item.id).await.unwrap();
        assert_eq!(found.as_ref(), Some(item));
    }
    see!(
        work.iter()
            .map(|item| (item.key.kind, item.amount, item.done_at))
            .collect::<Vec<_>>()
    );
    let listed = page(
        store
            .movements(Default::default(), first(100))
            .await
            .unwrap(),
    )
    .items;
    for each in &listed {
        let found = store.movement(each.payment, each.id).await.unwrap();
        assert_eq!(found.as_ref(), Some(each));
    }
    let paid = PaymentId::from_bytes(id_of("paid"));
    see!(
        listed,
        store.movements_of(paid).await.unwrap(),
        store.ledger().await.unwrap(),
    );
    see!(
        store.merchant(merchant).await.unwrap(),
        store.merchants(first(9)).await.unwrap(),
        store.operators(first(9)).await.unwrap(),
        store.operator(TokenHash::hash("ann")).await.unwrap(),
        store.account_switches().await.unwrap(),
    );
    let keys = store
        .keys(KeyOwner::Merchant(merchant), first(9))
        .await
        .unwrap();
    for listed in page(keys).items {
        let by_id = store.key_by_id(listed.id).await.unwrap();
        let by_hash = store.key(listed.hash).await.unwrap();
        // The time of a key's last use is written some time after the use, perhaps between these reads, and may be
        // lost with the process.
        let key = unused(listed);
        assert_eq!(by_id.map(unused).as_ref(), Some(&key));
        assert_eq!(by_hash.map(unused).as_ref(), Some(&key));
        see!(key);
    }
    for name in ["a", "b", "connected", "connected again"] {
        let found = store
            .endpoint_secrets(endpoint(name, NOW).id)
            .await
            .unwrap();
        see!(
            found
                .as_ref()
                .map(|(_, secrets)| secrets.signing(later(7200)).expose().to_owned())
        );
    }
    see!(
        store
            .endpoints(KeyOwner::Merchant(merchant), None, first(9))
            .await
            .unwrap(),
        store.connect_code(TokenHash::hash("code")).await.unwrap(),
        store.connect_codes(merchant, first(9)).await.unwrap(),
        store.reseller(reseller).await.unwrap(),
        store.resellers(first(9)).await.unwrap(),
        store.delegation(reseller, merchant).await.unwrap(),
        store
            .delegated_merchants(reseller, first(9), NOW)
            .await
            .unwrap(),
        store
            .reseller_payments(reseller, merchant, Environment::Test, first(9))
            .await
            .unwrap(),
    );
    for name in ["first", "second"] {
        let found = store.invitation(resellers::opens(name), NOW).await.unwrap();
        see!(found.map(|standing| (standing.status, standing.invitation)));
    }
    see!(
        store.routing_log(MethodId::Ideal, None).await.unwrap(),
        store.routing_log(MethodId::Paypal, None).await.unwrap(),
    );
    for slot in ["provider.stripe", "provider.adyen"] {
        let slot = Slot::parse(slot).unwrap();
        see!(store.conversations(&slot, None).await.unwrap());
    }
    for since in [NOW, later(1)] {
        let sums = store.count_trial(trial("method.ideal", since), vec![]);
        see!(sums.await.unwrap());
    }
    let mut listed: Vec<String> = Vec::new();
    for each in deliveries(store).await {
        assert_eq!(store.delivery(each.id).await.unwrap().as_ref(), Some(&each));
        listed.push(format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            each.endpoint,
            each.kind,
            each.payment,
            each.status,
            each.created_at,
            each.next_attempt_at,
            each.attempts
        ));
    }
    let asked = EventsAsked {
        merchant,
        environment: Environment::Test,
        kind: None,
        since: None,
        until: None,
        payments: None,
    };
    for (event, payment) in page(store.events(asked, first(100)).await.unwrap()).items {
        listed.push(format!(
            "{:?} {:?} {:?}",
            event.kind, event.created_at, payment.id
        ));
    }
    listed.sort();
    see!(
        listed,
        store.backlog().await.unwrap(),
        store.vitals().await.unwrap().newest,
    );
    let log = page(store.audit_log(first(100)).await.unwrap()).items;
    assert!(
        store.verify_audit().await.unwrap().breaks().is_empty(),
        "the audit log is broken"
    );
    // Rewriting a store adds entries.
    see!(
        log.iter()
            .map(|entry| &entry.audited)
            .filter(|audited| !matches!(audited.action.as_str(), "store.compact" | "store.rekey"))
            .collect::<Vec<_>>()
    );
    // Marks are keyed with a secret of the store.
    for mark in [
        "email_mark: Some([",
        "metadata_mark: Some([",
        "description_mark: Some([",
    ] {
        let mut parts = seen.split(mark);
        let first = parts.next().unwrap_or_default().to_owned();
        seen = parts.fold(first, |seen, part| seen + part.split_once("])").unwrap().1);
    }
    seen
}

fn unused(key: ApiKey) -> ApiKey {
    ApiKey {
        last_used_at: None,
        ..key
    }
}

/// Digests of the expected states, from an empty store to all deeds.
pub(crate) async fn states() -> Vec<Digest> {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> =
        kassette_store::SledStore::open(&crate::driver::options(folder.path())).unwrap();
    let mut states = Vec::new();
    for number in 0..=LENGTH {
        states.push(state(&store).await);
        if number < LENGTH {
            act(&store, number).await;
        }
    }
    store.shut_down().await.unwrap();
    states
}

/// Digest of the store's state.
pub(crate) async fn state(store: &Arc<dyn Store>) -> Digest {
    Digest::hash(observe(store).await.as_bytes())
}
