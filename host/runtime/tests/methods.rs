//! Method modules, correct and hostile, in the real engine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::time::Duration;

use cpu_time::ThreadTime;
use kassette_domain::method::MethodId;
use kassette_domain::money::Currency;
use kassette_domain::routing::{Availability, Faulty, Ground, RoutingRefusal};
use kassette_runtime::{CallError, LoadError, MethodModule, SlotState};
use std::sync::Arc;
use support::{CONTEXT, HEAP, Method, NOW, context, runtime, slot};

fn load(method: Method) -> Arc<MethodModule> {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    runtime
        .install(&slot("method.ideal"), &method.build(), NOW)
        .unwrap();
    runtime.method(MethodId::Ideal).unwrap()
}

fn refused(method: Vec<u8>) -> LoadError {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let error = runtime
        .install(&slot("method.ideal"), &method, NOW)
        .unwrap_err();
    let status = &runtime.slots()[0];
    assert_eq!(status.last_error.as_deref(), Some(&*error.to_string()));
    assert_eq!((status.state, &status.active), (SlotState::Failed, &None));
    assert!(runtime.method(MethodId::Ideal).is_none());
    error
}

#[test]
fn an_honest_module_routes() {
    let module = load(Method::saying(&[
        ("b", Ok("cheapest")),
        ("a", Err("too dear")),
    ]));
    let verdicts = module.rank(&context(&["a", "b"])).unwrap().unwrap();
    assert_eq!(verdicts[0].id.as_str(), "b");
    assert_eq!(verdicts[0].outcome, Ok("cheapest".into()));
    assert_eq!(
        verdicts[1].outcome,
        Err(RoutingRefusal {
            ground: Ground::Other,
            detail: "too dear".into()
        })
    );
    assert_eq!(module.description().label, "iDEAL");
}

#[test]
fn each_call_has_a_fresh_instance() {
    // Counts its calls in memory, and refuses with as many letters.
    let mut counting = Method::ideal("");
    let letters = counting.data.put(b"aaaaaaaa");
    let answer = counting
        .data
        .put(&[1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    counting.rank = format!(
        "(i32.store (i32.const {}) (i32.const {letters}))
         (i32.store (i32.const {len}) (i32.add (i32.load (i32.const {len})) (i32.const 1)))
         (i32.const {answer})",
        answer + 8,
        len = answer + 12,
    );
    let module = load(counting);
    for _ in 0..3 {
        let refusal = module.rank(&context(&["a"])).unwrap().unwrap_err();
        assert_eq!(refusal.detail, "a");
    }
}

/// Covers both kinds of engine, which clear the whole memory or only written pages, and memory that the call has
/// grown by.
#[test]
fn nothing_stays_in_a_memory_however_large_it_is() {
    for pages in [1, 2, 40] {
        // Traps if it finds a value that an earlier call has left in one of these places.
        let places = [
            u32::try_from(HEAP).unwrap() * 3,
            pages * (64 << 10) - 8,
            (pages + 1) * (64 << 10) - 8,
        ];
        let found = places.map(|place| {
            format!(
                "(if (i64.ne (i64.load (i32.const {place})) (i64.const 0)) (then unreachable))
                 (i64.store (i32.const {place}) (i64.const -1))"
            )
        });
        let saying = Method::saying(&[("a", Ok("fresh"))]);
        let module = load(Method {
            rank: format!(
                "(drop (memory.grow (i32.const 1))) {} {}",
                found.concat(),
                saying.rank
            ),
            pages,
            ..saying
        });
        for call in 0..50 {
            let answer = module.rank(&context(&["a"]));
            assert!(answer.is_ok(), "{pages} pages, call {call}: {answer:?}");
        }
    }
}

#[test]
fn an_endless_loop_is_stopped_by_the_cpu_time_it_used() {
    let module = load(Method::ideal("(loop $again (br $again)) unreachable"));
    for _ in 0..5 {
        let before = ThreadTime::now();
        assert_eq!(module.rank(&context(&["a"])), Err(CallError::Deadline));
        let used = before.elapsed();
        assert!(used < Duration::from_millis(5 + 100), "{used:?}");
    }
}

#[test]
fn a_memory_bomb_is_stopped() {
    // Grows page by page until it is refused, then traps as an allocator does.
    let bomb = "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable";
    assert_eq!(
        load(Method::ideal(bomb)).rank(&context(&["a"])),
        Err(CallError::Memory)
    );
}

#[test]
fn endless_recursion_is_stopped() {
    let mut deep = Method::ideal("(call $deeper) unreachable");
    deep.more = "(func $deeper (call $deeper) (call $deeper))".into();
    assert_eq!(load(deep).rank(&context(&["a"])), Err(CallError::Stack));
}

#[test]
fn a_panic_is_a_trap_and_the_next_call_is_another() {
    let module = load(Method::ideal("unreachable"));
    for _ in 0..3 {
        assert_eq!(module.rank(&context(&["a"])), Err(CallError::Trap));
    }
}

#[test]
fn an_answer_that_points_outside_memory_is_a_trap() {
    let module = load(Method::ideal("(i32.const 0x7ffffff0)"));
    assert_eq!(module.rank(&context(&["a"])), Err(CallError::Trap));
}

#[test]
fn an_answer_that_claims_gigabytes_is_a_trap() {
    let mut huge = Method::ideal("");
    let mut answer = [0; 16];
    answer[8..12].copy_from_slice(&0x00ff_ffff_u32.to_le_bytes());
    huge.rank = format!("(i32.const {})", huge.data.put(&answer));
    assert_eq!(load(huge).rank(&context(&["a"])), Err(CallError::Trap));
}

#[test]
fn an_unbelievable_answer_is_none() {
    let unknown = load(Method::saying(&[("a", Ok("x")), ("zz", Ok("x"))]));
    assert_eq!(
        unknown.rank(&context(&["a"])),
        Err(CallError::Faulty(Faulty::Unknown))
    );
    let silent = load(Method::saying(&[]));
    assert!(matches!(
        silent.rank(&context(&["a"])),
        Err(CallError::Faulty(Faulty::Missing(_)))
    ));
    let careless = load(Method::saying(&[("a", Ok("x"))]));
    let mut stale = context(&["a"]);
    stale.candidates[0].health.status = Availability::Stale;
    assert!(matches!(
        careless.rank(&stale),
        Err(CallError::Faulty(Faulty::NotOperational(..)))
    ));
}

#[test]
fn a_text_over_its_limit_is_a_bad_reply() {
    let long = "x".repeat(201);
    let module = load(Method::saying(&[("a", Ok(&long))]));
    assert!(matches!(
        module.rank(&context(&["a"])),
        Err(CallError::BadReply(_))
    ));
}

#[test]
fn a_currency_that_the_module_leaves_out_is_refused_without_a_call() {
    let module = load(Method {
        currencies: &["EUR", "JPY"],
        ..Method::ideal("unreachable")
    });
    let mut dollars = context(&["a"]);
    dollars.currency = Currency::USD;
    assert_eq!(
        module.rank(&dollars).unwrap().unwrap_err().ground,
        Ground::Currency
    );
    assert_eq!(module.rank(&context(&["a"])), Err(CallError::Trap));
}

#[test]
fn what_is_no_component_is_refused_with_a_sentence() {
    assert_eq!(refused(b"".to_vec()), LoadError::NotWasm);
    assert_eq!(
        refused(b"MZ\x90\0 not a module".to_vec()),
        LoadError::NotWasm
    );
    let core = wat::parse_str("(module)").unwrap();
    let error = refused(core);
    assert_eq!(error, LoadError::CoreModule);
    assert!(error.to_string().contains("kassette plugin build"));
    let whole = Method::saying(&[]).build();
    let half = whole[..whole.len() / 2].to_vec();
    assert!(matches!(refused(half), LoadError::Invalid(_)));
}

#[test]
fn a_module_that_calls_itself_something_else_is_refused() {
    let other = Method {
        id: "paypal",
        ..Method::saying(&[])
    };
    let error = refused(other.build());
    assert!(error.to_string().contains("\"paypal\""), "{error}");
}

#[test]
fn a_module_whose_description_breaks_the_contract_is_refused() {
    let long = Method {
        label: "a label that is longer than forty bytes, really",
        ..Method::saying(&[])
    };
    assert!(matches!(
        refused(long.build()),
        LoadError::Describe(CallError::BadReply(_))
    ));
    let foreign = Method {
        currencies: &["JPY"],
        ..Method::saying(&[])
    };
    assert!(matches!(
        refused(foreign.build()),
        LoadError::Describe(CallError::BadReply(_))
    ));
}

#[test]
fn a_module_of_the_other_world_is_refused() {
    let provider = support::provider(support::Data::default(), "unreachable");
    let error = refused(provider).to_string();
    assert!(error.contains("kassette:plugin/http@0.2.0"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let method = Method::saying(&[]).build();
    let error = runtime
        .install(&slot("provider.vendor"), &method, NOW)
        .unwrap_err()
        .to_string();
    assert!(error.contains("kassette:plugin/payments@0.2.0"), "{error}");
    assert!(
        error.contains("belongs into a slot `method.<id>`"),
        "{error}"
    );
}

#[test]
fn a_module_for_another_version_of_the_contract_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(support::wit()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            let text = std::fs::read_to_string(&path)
                .unwrap()
                .replace("@0.2.0", "@2.0.0");
            std::fs::write(folder.path().join(path.file_name().unwrap()), text).unwrap();
        }
    }
    let core = format!(
        r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "kassette:plugin/routing@2.0.0#describe") (result i32) unreachable)
        (func (export "kassette:plugin/routing@2.0.0#check-settings") (param i32 i32) (result i32) unreachable)
        (func (export "kassette:plugin/routing@2.0.0#rank") {CONTEXT} (result i32) unreachable))"#
    );
    let error = refused(support::component(folder.path(), "method", &core));
    assert!(matches!(error, LoadError::OtherVersion { .. }), "{error}");
    assert!(error.to_string().contains("0.2.0"), "{error}");
}

#[test]
fn a_module_with_an_unknown_import_is_refused_by_its_name() {
    let component =
        wat::parse_str(r#"(component (import "acme:tools/oven@0.2.0" (instance)))"#).unwrap();
    let error = refused(component).to_string();
    assert!(error.contains("acme:tools/oven@0.2.0"), "{error}");
    assert!(error.contains("kassette:plugin/log@0.2.0"), "{error}");
}

#[test]
fn a_slot_whose_name_no_method_can_have_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let slot = slot("method.x");
    let short = Method {
        id: "x",
        ..Method::saying(&[])
    }
    .build();
    assert_eq!(
        runtime.install(&slot, &short, NOW),
        Err(LoadError::NoSuchMethod(slot.clone()))
    );
}
