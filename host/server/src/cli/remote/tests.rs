//! Arguments, and commands with an admin listener in this process.

use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind as Usage;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::client::Remote;
use super::*;
use crate::admin::tests::World;
use crate::listen::Listener;

/// Parses the arguments of a noun.
fn read<A: Action>(arguments: &str) -> Result<Noun<A>, clap::Error> {
    #[derive(Parser)]
    struct Line<A: Action> {
        #[command(flatten)]
        noun: Noun<A>,
    }
    let line = Line::<A>::try_parse_from(std::iter::once("kassette").chain(arguments.split(' ')));
    line.map(|line| line.noun)
}

fn call<A: Action>(arguments: &str) -> Call {
    read::<A>(arguments).unwrap().action.call().unwrap()
}

#[test]
fn an_actor_or_a_reason_has_an_effect_or_is_refused() {
    let idle = |line: &str| read::<AuditAction>(line).unwrap().connection.idle_flag();
    assert_eq!(idle("list"), None);
    assert_eq!(idle("list --actor ann"), Some("--actor"));
    assert_eq!(idle("list --reason why"), Some("--reason"));
    assert_eq!(call::<AuditAction>("list").method, http::Method::GET);
}

#[test]
fn commands_become_the_calls_of_the_contract() {
    let made = call::<MerchantAction>(
        r#"create --name Shop --fx-rate EUR=1.08 --fx-rate GBP=1.27 --policy {"max_usd":"9.00"}"#,
    );
    let body = json!({
        "name": "Shop", "live_approved": false, "fx_rates": { "EUR": "1.08", "GBP": "1.27" },
        "policy": { "max_usd": "9.00" },
    });
    assert_eq!(
        (made.path, made.body),
        (vec!["merchants".to_owned()], Some(body))
    );

    let changed = call::<MerchantAction>("update 7 --live-approved true --fx-rate EUR=none");
    assert_eq!(
        (&changed.method, changed.path.join("/")),
        (&Method::PATCH, "merchants/7".into())
    );
    let body = json!({ "live_approved": true, "fx_rates": { "EUR": null } });
    assert_eq!(changed.body, Some(body), "what is not said stays");

    let folder = tempfile::tempdir().unwrap();
    let logo = folder.path().join("logo.png");
    std::fs::write(&logo, b"pixels").unwrap();
    let changed = call::<MerchantAction>(&format!(
        "update 7 --colour #12453a --logo {} --show-provider true --support help@shop.example",
        logo.display()
    ));
    let brand = json!({ "colour": "#12453a", "logo": "cGl4ZWxz", "show_provider": true, "support": "help@shop.example" });
    assert_eq!(changed.body, Some(json!({ "brand": brand })));
    let reset = call::<MerchantAction>("update 7 --colour none --logo none --support none");
    let brand = json!({ "colour": null, "logo": null, "support": null });
    assert_eq!(reset.body, Some(json!({ "brand": brand })));

    let rates = call::<MerchantAction>("rates 7");
    assert_eq!(rates.path.join("/"), "merchants/7/rates");

    let explained = call::<MethodAction>(
        "explain --merchant-id 7 --environment live --amount 10.13 --currency CAD",
    );
    let query = [
        ("merchant_id", "7"),
        ("environment", "live"),
        ("amount", "10.13"),
        ("currency", "CAD"),
    ];
    assert_eq!(
        (explained.path.join("/"), explained.query),
        (
            "explain".into(),
            query.map(|(name, value)| (name, value.to_owned())).to_vec()
        )
    );

    let key = call::<KeyAction>("create --merchant-id 7 --environment live --scope payments:read");
    assert_eq!(
        (key.path.join("/"), key.shape),
        ("merchants/7/keys".into(), Shape::Once)
    );
    assert_eq!(
        key.body,
        Some(json!({ "environment": "live", "scopes": ["payments:read"], "expires_at": null }))
    );
    let key = call::<KeyAction>("create --reseller-id 3 --environment test");
    assert_eq!(key.path.join("/"), "resellers/3/keys");
    let rotated = call::<KeyAction>("rotate abc --overlap-hours 2");
    assert_eq!(rotated.path.join("/"), "keys/abc/rotate");

    let listed = call::<PaymentAction>("list --status review --merchant-id 7 --limit 5");
    let query = [("merchant_id", "7"), ("status", "review"), ("limit", "5")];
    assert_eq!(
        listed.query,
        query.map(|(name, value)| (name, value.to_owned()))
    );
    let found = call::<PaymentAction>(
        "list --provider-id sandbox-test --attempt-id ab --reference pi_1 \
         --since 2030-01-01T00:00:00Z --until 2030-02-01T00:00:00Z",
    );
    let query = [
        ("provider_id", "sandbox-test"),
        ("attempt_id", "ab"),
        ("reference", "pi_1"),
        ("since", "2030-01-01T00:00:00Z"),
        ("until", "2030-02-01T00:00:00Z"),
    ];
    assert_eq!(
        found.query,
        query.map(|(name, value)| (name, value.to_owned()))
    );
    let exported = call::<PaymentAction>("export --until 2030-02-01T00:00:00Z --environment live");
    let query = [("environment", "live"), ("until", "2030-02-01T00:00:00Z")];
    assert_eq!(
        (exported.path.join("/"), exported.shape),
        ("payments/export".into(), Shape::Text)
    );
    assert_eq!(
        exported.query,
        query.map(|(name, value)| (name, value.to_owned()))
    );
    let decided = call::<PaymentAction>("review abc --decision approve --settlement confirmed");
    assert_eq!(
        decided.body,
        Some(json!({ "decision": "approve", "settlement": "confirmed" }))
    );

    for (word, value) in [
        ("false", json!(false)),
        ("true", json!(true)),
        ("file", json!("file")),
    ] {
        let switched = call::<ProviderAction>(&format!("update sandbox-test --enabled {word}"));
        assert_eq!(switched.body, Some(json!({ "enabled": value })));
    }
    let listed = call::<DomainAction>("list --merchant-id 7");
    assert_eq!(
        (listed.method, listed.path.join("/")),
        (Method::GET, "merchants/7".into())
    );
    let merchant = json!({ "merchant_id": 7, "domains": [
        { "domain": "shop.example", "include_subdomains": true },
    ] });
    let told = show::readable(&listed.shape, &merchant, 60);
    assert!(
        told.contains("shop.example") && told.contains("true"),
        "{told}"
    );
    let removed = call::<DomainAction>("delete --merchant-id 7 --domain shop.example");
    assert_eq!(removed.path.join("/"), "merchants/7/domains/shop.example");
    assert_eq!(
        call::<WorkAction>("done abc").path.join("/"),
        "work/abc/done"
    );
    let code = call::<ConnectCodeAction>(
        "create --merchant-id 7 --environment test --site-url https://shop.example",
    );
    let body = json!({ "environment": "test", "site_url": "https://shop.example", "scopes": null });
    assert_eq!(code.path.join("/"), "merchants/7/connect-codes");
    assert_eq!((code.body, code.shape), (Some(body), Shape::Once));
    let listed = call::<ConnectCodeAction>("list --merchant-id 7");
    assert_eq!(
        (listed.method, listed.path.join("/")),
        (Method::GET, "merchants/7/connect-codes".into())
    );
    let made = call::<EndpointAction>(
        "create --merchant-id 7 --environment test --url https://shop.example/ --event-type payment.completed",
    );
    let body = json!({
        "url": "https://shop.example/", "environment": "test", "event_types": ["payment.completed"],
    });
    assert_eq!(made.path.join("/"), "merchants/7/webhook-endpoints");
    assert_eq!((made.body, made.shape), (Some(body), Shape::Once));
    let changed = call::<EndpointAction>("update abc --enabled false --all-event-types");
    let body = json!({ "enabled": false, "event_types": null });
    assert_eq!((changed.method, changed.body), (Method::PATCH, Some(body)));
    for (line, method, path) in [
        ("list --merchant 7", "GET", "webhook-endpoints"),
        (
            "list --reseller-id 2",
            "GET",
            "resellers/2/webhook-endpoints",
        ),
        (
            "create --reseller-id 2 --environment live --url https://agency.example/",
            "POST",
            "resellers/2/webhook-endpoints",
        ),
        ("show abc", "GET", "webhook-endpoints/abc"),
        ("delete abc", "DELETE", "webhook-endpoints/abc"),
        ("test abc", "POST", "webhook-endpoints/abc/test"),
        ("rotate abc", "POST", "webhook-endpoints/abc/rotate"),
        ("deliver abc", "POST", "webhook-endpoints/abc/deliver"),
        (
            "recover abc --since 2030-01-01T00:00:00Z",
            "POST",
            "webhook-endpoints/abc/recover",
        ),
    ] {
        let call = call::<EndpointAction>(line);
        assert_eq!(
            (call.method.as_str(), call.path.join("/")),
            (method, path.into())
        );
    }
    for (line, body) in [
        ("deliver --merchant-id 7", json!({ "merchant_id": 7 })),
        ("deliver --reseller-id 2", json!({ "reseller_id": 2 })),
        ("deliver --all", json!({ "all": true })),
    ] {
        let call = call::<EndpointAction>(line);
        assert_eq!(call.path.join("/"), "webhook-endpoints/deliver");
        assert_eq!(call.body, Some(body));
    }
    for wrong in [
        "deliver",
        "deliver abc --all",
        "deliver --all --merchant-id 7",
        "deliver --reseller-id 2 --merchant-id 7",
        "list --reseller-id 2 --merchant-id 7",
    ] {
        assert!(read::<EndpointAction>(wrong).is_err(), "{wrong}");
    }
    let listed = call::<DeliveryAction>("list --endpoint-id abc --status exhausted");
    let query = [("endpoint_id", "abc"), ("status", "exhausted")];
    assert_eq!(
        listed.query,
        query.map(|(name, value)| (name, value.to_owned()))
    );
    for (line, method, path, body) in [
        (
            "live-rollout 3 --enabled true --actor ann --reason go",
            "PUT",
            "resellers/3/live-rollout",
            Some(json!({ "enabled": true })),
        ),
        ("delegations 3", "GET", "resellers/3/delegations", None),
        (
            "authorize 3 --merchant-id 7",
            "PUT",
            "resellers/3/delegations/7",
            Some(json!({ "status": "authorized" })),
        ),
        (
            "authorize 3 --merchant-id 7 --refunds true",
            "PUT",
            "resellers/3/delegations/7",
            Some(json!({ "status": "authorized", "refunds": true })),
        ),
        (
            "revoke 3 --merchant-id 7",
            "PUT",
            "resellers/3/delegations/7",
            Some(json!({ "status": "revoked" })),
        ),
    ] {
        let call = call::<ResellerAction>(line);
        assert_eq!(
            (call.method.as_str(), call.path.join("/"), call.body),
            (method, path.into(), body)
        );
    }
    let code = call::<ConsentCodeAction>("create --merchant-id 7");
    assert_eq!(code.path.join("/"), "merchants/7/consent-codes");
    assert_eq!(code.shape, Shape::Once);
    let again = call::<DeliveryAction>("redeliver abc");
    assert_eq!(again.path.join("/"), "deliveries/abc/redeliver");
    assert_eq!(call::<AuditAction>("list").path, ["audit"]);
    let found = call::<AuditAction>(
        "list --action plugin --object plugin/method.ideal --operator ann \
         --since 2030-01-01T00:00:00Z --until 2030-02-01T00:00:00Z --limit 5",
    );
    let query = [
        ("action", "plugin"),
        ("object", "plugin/method.ideal"),
        ("operator", "ann"),
        ("since", "2030-01-01T00:00:00Z"),
        ("until", "2030-02-01T00:00:00Z"),
        ("limit", "5"),
    ];
    assert_eq!(
        found.query,
        query.map(|(name, value)| (name, value.to_owned()))
    );
    let exported = call::<AuditAction>("export --action plugin");
    assert_eq!(
        (exported.path.join("/"), exported.shape),
        ("audit/export".into(), Shape::Text)
    );
    assert_eq!(call::<PluginAction>("list").path, ["plugins"]);
    let back = call::<PluginAction>("rollback method.ideal");
    assert_eq!(back.path.join("/"), "plugins/method.ideal/rollback");
    for (line, method, path) in [
        (
            "disable method.ideal",
            "POST",
            "plugins/method.ideal/disable",
        ),
        ("enable method.ideal", "POST", "plugins/method.ideal/enable"),
        ("remove method.blik", "DELETE", "plugins/method.blik"),
    ] {
        let call = call::<PluginAction>(line);
        let path = (method, path.to_owned());
        assert_eq!((call.method.as_str(), call.path.join("/")), path);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ideal.wasm");
    std::fs::write(&file, b"a component").unwrap();
    let upload = call::<PluginAction>(&format!("upload method.ideal {}", file.display()));
    assert_eq!(upload.path.join("/"), "plugins/method.ideal");
    assert_eq!(
        upload.query,
        [],
        "the configuration says what becomes of it"
    );
    assert_eq!(upload.module.as_deref(), Some(&b"a component"[..]));
    for mode in ["activate", "shadow"] {
        let line = format!("upload method.ideal {} --mode {mode}", file.display());
        let upload = call::<PluginAction>(&line);
        assert_eq!(upload.query, [("mode", mode.to_owned())]);
    }

    let replay = format!("replay method.ideal {} --last 7", file.display());
    let replay = call::<PluginAction>(&replay);
    assert_eq!(replay.path.join("/"), "plugins/method.ideal/replay");
    assert_eq!(replay.query, [("last", "7".to_owned())]);
    assert_eq!(replay.module.as_deref(), Some(&b"a component"[..]));
    let written = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let settings = written("ideal.toml", "order = \"cost\"\nwero = true\nmost = 7");
    let tried = call::<PluginAction>(&format!("replay method.ideal --settings {settings}"));
    let body = json!({ "settings": { "order": "cost", "wero": true, "most": 7 } });
    assert_eq!(tried.body, Some(body));
    let policy = written("policy.json", r#"{"max_usd":"5.00"}"#);
    let line = format!("replay method.ideal --policy {policy} --merchant-id 3");
    let body = json!({ "policy": { "max_usd": "5.00" }, "merchant_id": 3 });
    assert_eq!(call::<PluginAction>(&line).body, Some(body));
    for wrong in [
        "replay method.ideal".to_owned(),
        format!("replay method.ideal a.wasm --settings {settings}"),
        "replay method.ideal a.wasm --last 0".to_owned(),
        "replay method.ideal a.wasm --merchant-id 3".to_owned(),
    ] {
        assert!(read::<PluginAction>(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_trial_is_begun_seen_and_ended_by_the_calls_of_the_contract() {
    let digest = "0f".repeat(32);
    for (line, method, act, body) in [
        ("promote method.ideal".to_owned(), "POST", "promote", None),
        ("diff method.ideal".to_owned(), "GET", "diff", None),
        (
            format!("pin method.ideal {digest}"),
            "POST",
            "pin",
            Some(json!({ "digest": digest })),
        ),
        (
            format!("canary method.ideal --digest {digest} --share 10"),
            "POST",
            "canary",
            Some(json!({ "digest": digest, "share": 10 })),
        ),
    ] {
        let call = call::<PluginAction>(&line);
        assert_eq!(call.method.as_str(), method, "{line}");
        assert_eq!(call.path.join("/"), format!("plugins/method.ideal/{act}"));
        assert_eq!((call.body, call.candidate_of), (body, None), "{line}");
    }
    for (every, seconds) in [("600", 600), ("90s", 90), ("10m", 600), ("2h", 7_200)] {
        let line = format!("canary method.ideal --steps 1,5,25,100 --every {every}");
        let ramp = call::<PluginAction>(&line);
        let body = json!({ "steps": [1, 5, 25, 100], "every_seconds": seconds });
        assert_eq!(ramp.body, Some(body), "{line}");
        assert_eq!(ramp.candidate_of.as_deref(), Some("method.ideal"));
    }
    for wrong in [
        "canary method.ideal",
        "canary method.ideal --share 0",
        "canary method.ideal --share 101",
        "canary method.ideal --share 5 --steps 5,10 --every 10m",
        "canary method.ideal --share 5 --every 10m",
        "canary method.ideal --steps 5,10",
        "canary method.ideal --steps 5,10 --every 10d",
        "canary method.ideal --steps 5,10 --every 9999999999999999999h",
        "canary method.ideal --steps 5,,10 --every 10m",
        "canary method.ideal --digest 0F --share 5",
        "pin method.ideal",
        "pin method.ideal 0f",
        "upload method.ideal a.wasm --mode canary",
    ] {
        assert!(read::<PluginAction>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn people_see_all_that_is_known_of_a_trial() {
    let digest = "0f".repeat(32);
    let slot = json!({
        "slot": "method.ideal", "state": "serving", "last_error": null,
        "active": { "digest": digest, "version": "1.0.0", "name": "iDEAL", "since": "2030-01-31T12:00:00.000Z" },
        "candidate": { "digest": digest, "mode": "canary", "share": 25, "since": "2030-01-31T12:00:00.000Z" },
    });
    let mut idle = slot.clone();
    idle["candidate"] = Value::Null;
    let answer = json!({ "plugins": [idle, slot], "next_cursor": null });
    let text = show::readable(&call::<PluginAction>("list").shape, &answer, 120);
    assert!(text.contains("canary") && text.contains("25"), "{text}");

    let mut diff = json!({
        "slot": "method.ideal", "mode": "canary", "since": "2030-01-31T12:00:00.000Z", "active": digest,
        "candidate": digest, "decisions": 812, "differing": 3, "faults": 0, "dropped": 7, "queued": 2,
        "moved": [{ "currency": "EUR", "from": "a-test", "to": "b-test", "payments": 3, "amount": "30.51" }],
        "evidence": {
            "starts": {
                "candidate": { "payments": 120, "failed": 31 },
                "control": { "payments": 1_080, "failed": 104 },
                "evidence": 12.5,
            },
            "completions": {
                "candidate": { "payments": 90, "failed": 40 },
                "control": { "payments": 970, "failed": 209 },
                "evidence": 1.25,
            },
            "compared": 119,
            "differing": 17,
        },
    });
    let shape = call::<PluginAction>("diff method.ideal").shape;
    let text = show::readable(&shape, &diff, 120);
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| {
            line.split([' ', '│'])
                .filter(|word| !word.is_empty())
                .collect()
        })
        .collect();
    for line in [
        ["mode", "canary"],
        ["dropped", "7"],
        ["queued", "2"],
        ["evidence.starts.candidate.failed", "31"],
        ["evidence.starts.control.payments", "1080"],
        ["evidence.starts.evidence", "12.5"],
        ["evidence.completions.candidate.payments", "90"],
        ["evidence.differing", "17"],
    ] {
        assert!(lines.iter().any(|shown| shown == &line), "{line:?}: {text}");
    }
    assert!(
        text.contains("\nmoved\n") && text.contains("30.51"),
        "{text}"
    );
    diff["evidence"] = Value::Null;
    let text = show::readable(&shape, &diff, 120);
    assert!(
        text.contains("evidence") && !text.contains("starts"),
        "{text}"
    );
}

#[test]
fn a_refund_always_has_a_key_and_says_how_to_repeat_it() {
    for refund in [
        || call::<PaymentAction>("refund 9f86 --amount 10.00"),
        || call::<PaymentAction>("refund 9f86"),
    ] {
        let (one, other) = (refund(), refund());
        assert_eq!(one.path.join("/"), "payments/9f86/refunds");
        let body = one.body.unwrap();
        let key = body["idempotency_key"].as_str().unwrap().to_owned();
        assert!(key.starts_with("cli-") && key.len() == 36, "{key}");
        assert_ne!(other.body.unwrap()["idempotency_key"], key.as_str());
        assert_eq!(one.again, Some(("--idempotency-key", key)));
    }
    let again = call::<WorkAction>("refund ab --idempotency-key same-one");
    assert_eq!(again.path.join("/"), "work/ab/refund");
    let body = json!({ "amount": null, "idempotency_key": "same-one" });
    assert_eq!(again.body, Some(body));
}

#[test]
fn wrong_usage_is_told_apart_from_a_refusal() {
    let usage = |error: clap::Error| (error.kind(), error.exit_code());
    let missing = read::<MerchantAction>("create").unwrap_err();
    assert_eq!(usage(missing), (Usage::MissingRequiredArgument, 2));
    let nothing = read::<MerchantAction>("update 7").unwrap_err();
    assert_eq!(usage(nothing), (Usage::MissingRequiredArgument, 2));
    let nothing = read::<EndpointAction>("update abc").unwrap_err();
    assert_eq!(usage(nothing), (Usage::MissingRequiredArgument, 2));
    let both = read::<EndpointAction>("update a --event-type webhook.test --all-event-types");
    assert_eq!(usage(both.unwrap_err()), (Usage::ArgumentConflict, 2));
    let both = read::<KeyAction>("list --merchant-id 7 --reseller-id 3").unwrap_err();
    assert_eq!(usage(both), (Usage::ArgumentConflict, 2));
    let neither = read::<KeyAction>("list").unwrap_err();
    assert_eq!(usage(neither), (Usage::MissingRequiredArgument, 2));
    let wrong = read::<KeyAction>("create --merchant-id 7 --environment prod").unwrap_err();
    assert_eq!(usage(wrong), (Usage::ValueValidation, 2));
    let wrong = read::<ProviderAction>("update a --enabled perhaps").unwrap_err();
    assert_eq!(wrong.exit_code(), 2);
    let both = read::<OperatorAction>("create --name a --role admin --config c --data-dir d");
    assert_eq!(usage(both.unwrap_err()), (Usage::ArgumentConflict, 2));
    let token = read::<OperatorAction>("list --token ko_x").unwrap_err();
    assert_eq!(usage(token), (Usage::UnknownArgument, 2));
}

#[test]
fn a_token_in_a_file_that_others_may_read_or_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "ko_x\n").unwrap();
    let read = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        token(Some(&file))
    };
    assert_eq!(read(0o600).unwrap(), Some(Secret::new("ko_x")));
    assert!(read(0o644).unwrap_err().contains("chmod 600"));
    assert!(read(0o620).unwrap_err().contains("chmod go-w"));
}

#[test]
fn a_token_is_never_sent_in_the_clear_over_a_network() {
    for fine in [
        "http://127.0.0.1:1/admin/v1",
        "http://[::1]:1",
        "http://localhost:1",
        "https://ops.example",
    ] {
        assert!(Remote::new(fine, None).is_ok(), "{fine}");
    }
    for wrong in [
        "http://ops.example",
        "http://10.0.0.1:8081",
        "ftp://localhost",
        "localhost:8081",
        "",
    ] {
        assert!(Remote::new(wrong, None).is_err(), "{wrong}");
    }
}

#[test]
fn tables_show_what_a_person_needs_and_nothing_that_steers_a_terminal() {
    let shape = Shape::List(
        "keys",
        &[("ID", "/key_id"), ("Scopes", "/scopes"), ("End", "/end")],
    );
    let answer = json!({
        "keys": [{ "key_id": "a\u{1b}[2J", "scopes": ["x", "y"], "end": null }],
        "next_cursor": "c1",
    });
    let shown = show::answer(&shape, &answer, false);
    for part in ["ID", "x, y", "--cursor c1", "\u{fffd}[2J"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'));
    let json: Value = serde_json::from_str(&show::answer(&shape, &answer, true)).unwrap();
    assert_eq!(json, answer, "scripts get the answer as it came");
    let none = json!({ "keys": [], "next_cursor": null });
    assert_eq!(show::answer(&shape, &none, false), "No keys.\n");
    let none_yet = json!({ "keys": [], "next_cursor": "c2" });
    let shown = show::answer(&shape, &none_yet, false);
    assert_eq!(shown, "No keys so far.\nThere may be more: --cursor c2\n");
    let gone = show::answer(&Shape::Nothing("It is gone.".into()), &Value::Null, true);
    assert_eq!(gone, "null\n", "JSON even where there is no content");
    let lists = Shape::ListOfLists(
        "methods",
        "accounts",
        &[("Method", "/method"), ("Account", "/id")],
    );
    let answer = json!({ "methods": [
        { "method": "ideal", "accounts": [{ "id": "a-test" }, { "id": "b-test" }] }, { "method": "klarna" },
    ] });
    let shown = show::answer(&lists, &answer, false);
    let told = ["ideal", "a-test", "b-test", "klarna"].map(|word| shown.find(word).unwrap());
    assert!(told.is_sorted(), "{shown}");
    let nested = json!({ "payment": { "id": "p" }, "attempts": [{ "state": "open" }] });
    let shown = show::answer(&Shape::Object, &nested, false);
    for part in ["payment.id", "attempts", "open"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let wide = json!({ "attempts": [
        { "state": "captured", "refunds": [{ "amount": "1.00" }] }, { "state": "closed" },
    ] });
    let shown = show::answer(&Shape::Object, &wide, false);
    let headed = |title: &str| shown.lines().filter(|line| *line == title).count();
    assert_eq!((headed("attempts"), headed("refunds")), (2, 1), "{shown}");
}

#[test]
fn a_refund_is_settled_and_a_correction_booked_by_command() {
    let settled = call::<RefundAction>("settle abc --outcome not_made");
    assert_eq!(settled.path.join("/"), "refunds/abc/settle");
    let body = json!({ "outcome": "not_made", "amount": null });
    assert_eq!(settled.body, Some(body));
    let booked = call::<FinanceAction>(
        "correct --provider-id stripe-live --effect out --amount 1.00 --currency EUR \
         --reference ch_1 --idempotency-key k1",
    );
    assert_eq!(booked.path, ["corrections"]);
    let body = booked.body.unwrap();
    assert_eq!(
        (
            &body["effect"],
            &body["provider_references"],
            &body["idempotency_key"]
        ),
        (&json!("out"), &json!(["ch_1"]), &json!("k1"))
    );
    let days = call::<FinanceAction>("days --from 2030-01-01 --to 2030-01-31 --zone Europe/Oslo");
    assert_eq!(days.path.join("/"), "finance/days");
    let query =
        ["from", "to", "zone"].map(|name| days.query.iter().any(|(known, _)| *known == name));
    assert_eq!(query, [true; 3]);
    let review =
        call::<PaymentAction>("review abc --decision approve --despite re-1 --despite dp-1");
    assert_eq!(review.body.unwrap()["despite"], json!(["re-1", "dp-1"]));
}

#[test]
fn the_work_list_is_shown_with_the_payments_in_review() {
    let shape = call::<WorkAction>("list").shape;
    let shown = |answer: &Value| show::readable(&shape, answer, 120);
    let id = "a".repeat(32);
    let payment = json!({
        "payment_id": id, "merchant_id": 7, "amount": "9.00", "currency": "EUR",
        "environment": "live", "review_cause": "mismatch", "order_id": "order-1",
        "created_at": "2030-01-31T12:00:00.000Z",
    });
    let answer = json!({
        "work": [], "next_cursor": null, "in_review": { "payments": [payment], "count": 3 },
    });
    let text = shown(&answer);
    for part in [
        "No work.",
        "The payments in review:",
        &id,
        "mismatch",
        "There are 2 more: kassette payment list --status review",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let none = json!({ "work": [], "in_review": { "payments": [], "count": 0 } });
    assert!(shown(&none).ends_with("\nNo payments in review.\n"));
    let unknown = json!({ "work": [], "in_review": null });
    assert!(shown(&unknown).ends_with("\nThe payments in review are still looked for.\n"));
    let later = json!({ "work": [] });
    assert_eq!(shown(&later), "No work.\n");
}

/// Every list has room for an item's name and state.
#[test]
fn tables_of_lists_fit_a_terminal() {
    let payment = json!({
        "payment_id": "a".repeat(32), "merchant_id": 1234, "order_id": "order-of-2030-0001",
        "amount": "12345.00", "currency": "EUR", "environment": "live", "payment_method": "credit_card",
        "status": "verification_pending", "settlement_status": "pending",
        "created_at": "2030-01-31T12:00:00.000Z",
    });
    let answer = json!({ "payments": [payment], "next_cursor": null });
    let text = show::readable(&call::<PaymentAction>("list").shape, &answer, 120);
    assert!(
        text.lines().all(|line| line.chars().count() <= 120),
        "{text}"
    );
    assert!(text.contains("verification_pending"), "{text}");
    assert!(
        text.contains("left out (") && text.contains("--json shows"),
        "{text}"
    );
}

#[tokio::test]
async fn a_call_in_slices_goes_on_to_the_end_and_says_how_far_it_came() {
    let slices = [
        json!({ "deliveries": 3, "disabled": 1, "next_cursor": "b" }),
        json!({ "deliveries": 2, "disabled": 0, "next_cursor": null }),
    ];
    let (asked, told) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let walk = async |broken: bool| {
        asked.lock().clear();
        let send = async |call: &Call| {
            let number = asked.lock().len();
            asked.lock().push(call.body.clone().unwrap());
            match broken && number == 1 {
                true => Err("the store is stopping (503)".to_owned()),
                false => Ok(slices[number].clone()),
            }
        };
        let tell = |line| told.lock().push(line);
        repeat(
            call::<EndpointAction>("deliver --all"),
            "made due",
            send,
            tell,
        )
        .await
    };
    let whole = walk(false).await;
    assert_eq!(whole, Ok(json!({ "deliveries": 5, "disabled": 1 })));
    let expected = [
        json!({ "all": true }),
        json!({ "all": true, "cursor": "b" }),
    ];
    assert_eq!(*asked.lock(), expected);
    assert_eq!(
        *told.lock(),
        ["made due so far: 3 deliveries, 1 disabled …"]
    );
    let why = walk(true).await.unwrap_err();
    let expected = "the store is stopping (503); made due so far: 3 deliveries, 1 disabled; again for the rest";
    assert_eq!(why, expected);
}

#[tokio::test]
async fn commands_reach_a_listener_and_say_what_it_refuses() {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), None)
        .await
        .unwrap();
    let address = listener.address();
    let world = World::named(address.to_string()).await;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(listener.serve(world.router(), stop.clone()));
    let remote = Arc::new(Remote::new(&format!("http://{address}/admin/v1"), None).unwrap());
    let send = async |call: Call, token: &Secret, said| remote.send(&call, token, said).await;

    let made = call::<MerchantAction>("create --name Shop");
    let said = (Some("änn"), Some("new shop"));
    let made = send(made, world.admin(), said).await.unwrap();
    assert_eq!(made["merchant_id"], 1);
    let key = call::<KeyAction>("create --merchant-id 1 --environment test");
    let key = send(key, world.admin(), (None, None)).await.unwrap();
    let revoke = format!("revoke {}", key["key_id"].as_str().unwrap());
    let unsaid = send(call::<KeyAction>(&revoke), world.admin(), (None, None)).await;
    assert_eq!(unsaid.unwrap_err(), "actor: is required (422)");
    let lost = (Some("änn"), Some("lost"));
    let gone = send(call::<KeyAction>(&revoke), world.admin(), lost)
        .await
        .unwrap();
    assert_eq!(gone, Value::Null);
    let log = send(call::<AuditAction>("list"), world.viewer(), (None, None))
        .await
        .unwrap();
    let entries = log["entries"].as_array().unwrap();
    let made = entries
        .iter()
        .find(|entry| entry["action"] == "merchant.create")
        .unwrap();
    assert_eq!(
        (&made["actor"], &made["reason"]),
        (&json!("änn"), &json!("new shop"))
    );

    let none = candidate(&remote, world.viewer(), "method.ideal").await;
    let why = none.unwrap_err();
    assert!(
        why.contains("no version is on trial in method.ideal"),
        "{why}"
    );

    let shown = send(
        call::<MerchantAction>("show 9"),
        world.viewer(),
        (None, None),
    )
    .await;
    assert_eq!(shown.unwrap_err(), "merchant not found (404)");
    let refused = send(
        call::<MerchantAction>("create --name x"),
        world.viewer(),
        (None, None),
    );
    assert!(refused.await.unwrap_err().ends_with("(403)"));
    let unknown = Secret::new("ko_nobody");
    let refused = send(call::<MerchantAction>("list"), &unknown, (None, None)).await;
    assert!(refused.unwrap_err().ends_with("(401)"));
    stop.cancel();
    serving.await.unwrap();
    let gone = send(call::<MerchantAction>("list"), world.viewer(), (None, None)).await;
    assert!(gone.unwrap_err().contains("is the server running?"));
}

#[tokio::test]
async fn the_first_operator_is_written_while_the_server_is_stopped() {
    use kassette_domain::key::TokenHash;
    use kassette_store::sled::{MasterKey, OpenOptions};
    use kassette_store::{Directory as _, Listed, Paging, SledStore, StoreHealth as _};

    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    std::fs::create_dir(&data_dir).unwrap();
    let master = crate::master_key::read_or_draw(&data_dir.join("master.key")).unwrap();
    let options = || OpenOptions {
        path: data_dir.join("store"),
        master: MasterKey::parse(master.expose()).unwrap(),
        cache_bytes: 8 << 20,
    };
    let line = format!(
        "create --name root --role admin --data-dir {}",
        data_dir.display()
    );
    let noun = read::<OperatorAction>(&line).unwrap();
    let asked = noun.action.first_operator().unwrap();
    assert!(asked.is_offline(true), "a folder is named");

    let running = SledStore::open(&options()).unwrap();
    let refused = first_operator::create(&noun.connection, asked)
        .await
        .unwrap_err();
    assert!(refused.contains("in use by another process"), "{refused}");
    running.shut_down().await.unwrap();

    let (answer, shape) = first_operator::create(&noun.connection, asked)
        .await
        .unwrap();
    assert_eq!(shape, Shape::Once);
    let store = SledStore::open(&options()).unwrap();
    let hash = TokenHash::hash(answer["token"].as_str().unwrap());
    let made = store.operator(hash).await.unwrap().unwrap();
    assert_eq!(made.name, "root");
    assert_eq!(answer["operator_id"], made.id.to_string());
    let log = store
        .audit_log(Paging {
            limit: 1,
            cursor: None,
        })
        .await
        .unwrap();
    let Listed::Page(log) = log else {
        panic!("a first page")
    };
    assert_eq!(log.items[0].audited.action, "operator.create");
    store.shut_down().await.unwrap();
}

#[test]
fn a_rotation_without_overlap_is_confirmed_first() {
    let confirms = |line: &str| call::<EndpointAction>(line).confirm.is_some();
    assert!(confirms("rotate abc"));
    assert!(confirms("rotate abc --overlap-hours 0"));
    assert!(!confirms("rotate abc --overlap-hours 1"));
    assert!(!confirms("rotate abc --yes"));
}

#[test]
fn deliveries_and_endpoints_are_filtered_by_the_names_of_the_query() {
    let line =
        "list --payment-id p --event-id e --merchant-id 7 --status failed --since s --until u";
    let listed = call::<DeliveryAction>(line);
    let names: Vec<_> = listed.query.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "payment_id",
            "event_id",
            "merchant_id",
            "status",
            "since",
            "until"
        ]
    );
    let failing = call::<EndpointAction>("list --merchant-id 7 --failing");
    let query = [
        ("merchant_id", "7".to_owned()),
        ("failing", "true".to_owned()),
    ];
    assert_eq!(
        (failing.path.join("/"), failing.query),
        ("webhook-endpoints".to_owned(), query.to_vec())
    );
    let of_reseller = call::<EndpointAction>("list --reseller-id 3");
    assert_eq!(of_reseller.path.join("/"), "resellers/3/webhook-endpoints");
    assert!(read::<EndpointAction>("list --reseller-id 3 --failing").is_err());
}
