//! Scripted versions over a log in memory.

use kassette_domain::conversation::{CallOutcome, Conversation, ProviderCall};
use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::payment::Purpose;
use kassette_domain::policy::MethodPolicy;
use kassette_domain::provider::{
    self, AttemptFacts, Open, Payer, PayerAction, StartFailure, Started,
};
use kassette_domain::routing::{
    AccountCandidate, Availability, Faulty, Health, RoutingRecord, Verdict,
};
use kassette_domain::time::Time;
use kassette_runtime::CallError;

use super::run::Item;
use super::*;

const ACTIVE: Digest = Digest([1; 32]);

fn id(name: &str) -> AccountId {
    AccountId::parse(name).unwrap()
}

fn context(currency: Currency, amount: u64) -> Context {
    let offered = |(name, priority)| AccountCandidate {
        id: id(name),
        minimum: None,
        maximum: None,
        fee: None,
        priority,
        health: Health {
            status: Availability::Operational,
            success: None,
            latency: None,
            samples: 0,
        },
    };
    Context {
        amount: Some(Minor(amount)),
        currency,
        usd: Some(Minor(amount)),
        environment: Environment::Live,
        email_known: false,
        country: None,
        now: Time::from_secs(7),
        settings: vec![("order".into(), "priority".into())],
        candidates: [("alpha", 2), ("beta", 1)].map(offered).into(),
    }
}

/// An answer in which every candidate is eligible, in this order.
fn ranked<'a>(names: impl IntoIterator<Item = &'a str>) -> RankAnswer {
    let verdict = |name| Verdict {
        id: id(name),
        outcome: Ok("it comes so".into()),
    };
    Ok(names.into_iter().map(verdict).collect())
}

fn no(ground: Ground) -> RankAnswer {
    let detail = "no".into();
    Err(RoutingRefusal { ground, detail })
}

/// Ranks the candidates in the order of the context.
fn in_order(context: &Context) -> RankAnswer {
    ranked(context.candidates.iter().map(|each| each.id.as_str()))
}

/// A recorded decision of the active version.
fn decided(number: u8, purpose: Purpose, context: Context) -> RoutingRecord {
    let answer = in_order(&context);
    let chosen = crate::routing::eligible(&answer).next().cloned();
    RoutingRecord {
        at: Time::from_secs(7),
        merchant: MerchantId(number.into()),
        method: MethodId::Ideal,
        digest: ACTIVE,
        purpose,
        payment: Some(PaymentId::from_bytes([number; 16])),
        attempt: None,
        chosen,
        context,
        answer: Some(answer),
    }
}

fn created(number: u8, currency: Currency, amount: u64) -> RoutingRecord {
    decided(number, Purpose::Create, context(currency, amount))
}

type Script = fn(&Context) -> Result<RankAnswer, CallError>;

fn scripted(script: Script) -> Ask {
    Box::new(move |context| ask(|context| script(context).map(Arc::new), context))
}

/// Differences between a candidate and the active version, which ranks in the order of the context. The log
/// is newest first.
fn compared(log: Vec<RoutingRecord>, candidate: Ask) -> Diff {
    let sides = Sides {
        digest: ACTIVE,
        active: scripted(|context| Ok(in_order(context))),
        candidate,
    };
    through(sides, log, MOST, None)
}

fn through(sides: Sides, log: Vec<RoutingRecord>, last: u64, merchant: Option<MerchantId>) -> Diff {
    let mut log = log.into_iter();
    let pages = move || Ok(log.by_ref().take(3).collect());
    let compare = move |items: &[Item<RoutingRecord>], diff: &mut Diff| sides.compare(items, diff);
    let bounds = Bounds {
        threads: 8,
        examples: Diff::default().examples.most,
    };
    let mut parts = run::begin(compare, Feed::new(pages, last, merchant), bounds).unwrap();
    let mut diff = Diff::default();
    while let Some(part) = parts.blocking_recv() {
        diff.add(part.unwrap().diff);
    }
    diff
}

fn payments(count: u8) -> Vec<RoutingRecord> {
    let amount = |number| 100 * u64::from(number);
    (1..=count)
        .map(|number| created(number, Currency::EUR, amount(number)))
        .collect()
}

#[test]
fn the_active_version_against_itself_differs_nowhere() {
    let mut log = payments(200);
    log.push(RoutingRecord {
        answer: Some(no(Ground::Country)),
        payment: None,
        chosen: None,
        ..created(7, Currency::EUR, 1)
    });
    let same: Ask = scripted(|context| match context.amount {
        Some(Minor(1)) => Ok(no(Ground::Country)),
        _ => Ok(in_order(context)),
    });
    let diff = compared(log, same);
    assert_eq!((diff.decisions, diff.candidate_cost.calls), (201, 201));
    let nothing = Diff {
        decisions: 201,
        active_cost: diff.active_cost,
        candidate_cost: diff.candidate_cost,
        ..Diff::default()
    };
    assert_eq!(diff, nothing);
}

/// Checks that a candidate fails for every decision.
fn fails(script: Script, word: &'static str) {
    let diff = compared(payments(3), scripted(script));
    assert_eq!((diff.decisions, diff.differing, diff.faults), (3, 3, 3));
    assert_eq!((diff.newly_impossible, diff.reordered), (0, 0));
    assert!(diff.moved.is_empty());
    let of = |(change, reason, currency): &(ReplayChange, &'static str, Option<Currency>)| {
        (*change, *reason, *currency)
    };
    let reasons: Vec<_> = diff.reasons.keys().map(of).collect();
    assert_eq!(reasons, [(ReplayChange::Fault, word, Some(Currency::EUR))]);
    let money: Vec<_> = diff.reasons.values().map(|sum| sum.amount).collect();
    assert_eq!(money, [600]);
}

#[test]
fn a_candidate_that_answers_nothing_is_a_fault() {
    fails(|_| Ok(ranked([])), "faulty");
}

#[test]
fn a_candidate_that_traps_is_a_fault() {
    fails(|_| Err(CallError::Trap), "trap");
}

#[test]
fn a_candidate_that_takes_too_long_is_a_fault() {
    fails(|_| Err(CallError::Deadline), "deadline");
}

#[test]
fn a_candidate_that_wants_too_much_memory_is_a_fault() {
    fails(|_| Err(CallError::Memory), "memory");
}

#[test]
fn a_candidate_that_returns_a_shorter_list_is_a_fault() {
    fails(|_| Ok(ranked(["alpha"])), "faulty");
    let module = |_: &Context| Ok(Arc::new(ranked(["alpha"])));
    let answer = ask(module, &context(Currency::EUR, 1));
    let missing = CallError::Faulty(Faulty::Missing(id("beta")));
    assert_eq!(answer.unwrap_err(), missing);
}

#[test]
fn a_candidate_that_fails_where_the_active_version_failed_is_not_the_same() {
    let unanswered = RoutingRecord {
        answer: None,
        ..created(1, Currency::EUR, 100)
    };
    let sides = Sides {
        digest: ACTIVE,
        active: scripted(|_| Err(CallError::Trap)),
        candidate: scripted(|_| Err(CallError::Trap)),
    };
    let diff = through(sides, vec![unanswered], MOST, None);
    assert_eq!((diff.differing, diff.faults, diff.active_faults), (1, 1, 1));
}

#[test]
fn a_candidate_that_refuses_some_is_not_the_same_and_each_payment_is_told() {
    let diff = compared(
        payments(3),
        scripted(|context| match context.amount {
            Some(Minor(200)) => Ok(no(Ground::Amount)),
            _ => Ok(in_order(context)),
        }),
    );
    assert_eq!((diff.differing, diff.newly_impossible), (1, 1));
    let key = (ReplayChange::NewlyImpossible, "amount", Some(Currency::EUR));
    let sum = Sum {
        payments: 1,
        amount: 200,
    };
    assert_eq!(diff.reasons, [(key, sum)].into());
    let payments: Vec<_> = diff
        .examples
        .latest
        .values()
        .map(|each| each.payment)
        .collect();
    assert_eq!(payments, [Some(PaymentId::from_bytes([2; 16]))]);
}

#[test]
fn a_refusal_on_another_ground_is_another_answer() {
    let refused = RoutingRecord {
        answer: Some(no(Ground::Country)),
        payment: None,
        chosen: None,
        ..created(1, Currency::EUR, 100)
    };
    let diff = compared(vec![refused.clone()], scripted(|_| Ok(no(Ground::Payer))));
    assert_eq!((diff.differing, diff.newly_impossible), (1, 0));
    let diff = compared(vec![refused], scripted(|context| Ok(in_order(context))));
    assert_eq!((diff.differing, diff.newly_possible), (1, 1));
    let key = (ReplayChange::NewlyPossible, "country", Some(Currency::EUR));
    assert_eq!(diff.reasons[&key].amount, 100);
}

/// Only HUF over 10,000.00 goes to beta.
fn forints_to_beta(context: &Context) -> Result<RankAnswer, CallError> {
    let is_large = context.amount > Some(Minor(1_000_000));
    match context.currency == Currency::HUF && is_large {
        true => Ok(ranked(["beta", "alpha"])),
        false => Ok(in_order(context)),
    }
}

#[test]
fn what_moves_is_exactly_what_differs_and_each_payment_counts_once() {
    let large = u64::MAX;
    let mut log = vec![
        // A payment that was created, started, and fell back. Its latest decision comes first.
        RoutingRecord {
            chosen: Some(id("beta")),
            ..decided(1, Purpose::Fallback, context(Currency::HUF, 5_000_000))
        },
        decided(1, Purpose::Start, context(Currency::HUF, 5_000_000)),
        created(1, Currency::HUF, 5_000_000),
        // Two payments that were created and started.
        decided(2, Purpose::Start, context(Currency::HUF, 1_000_001)),
        created(2, Currency::HUF, 1_000_001),
        decided(3, Purpose::Start, context(Currency::HUF, large)),
        created(3, Currency::HUF, large),
        // Not above the limit, or of another currency.
        created(4, Currency::HUF, 1_000_000),
        created(5, Currency::EUR, large),
        // A listing moves no money.
        RoutingRecord {
            payment: None,
            chosen: None,
            ..decided(6, Purpose::Listing, context(Currency::HUF, 2_000_000))
        },
    ];
    for number in 10..200 {
        log.push(created(number, Currency::HUF, 3_000_000));
    }
    let diff = compared(log, scripted(forints_to_beta));
    assert_eq!((diff.decisions, diff.differing), (200, 198));
    // The fallback skips alpha in both versions, so its payment stays at beta.
    let moved = Sum {
        payments: 192,
        amount: u128::from(large) + 1_000_001 + 190 * 3_000_000,
    };
    let key = (Currency::HUF, id("alpha"), id("beta"));
    assert_eq!(diff.moved, [(key, moved)].into());
    assert_eq!((diff.reordered, diff.faults), (1, 0));
    assert_eq!((diff.newly_possible, diff.newly_impossible), (0, 0));
    let latest: Vec<_> = diff.examples.latest.keys().copied().collect();
    let expected: Vec<u64> = [3, 5].into_iter().chain(10..28).collect();
    assert_eq!(latest, expected, "the latest are shown");
}

#[test]
fn a_decision_of_an_earlier_version_is_made_again_by_the_active_one() {
    let earlier = RoutingRecord {
        digest: Digest([9; 32]),
        answer: Some(ranked(["beta", "alpha"])),
        chosen: Some(id("beta")),
        ..created(1, Currency::EUR, 100)
    };
    let diff = compared(vec![earlier], scripted(|context| Ok(in_order(context))));
    assert_eq!((diff.decisions, diff.differing), (1, 0));
}

#[test]
fn no_more_is_read_than_was_asked_for_and_only_of_the_merchant() {
    let sides = || Sides {
        digest: ACTIVE,
        active: scripted(|context| Ok(in_order(context))),
        candidate: scripted(|_| Err(CallError::Trap)),
    };
    let all = through(sides(), payments(200), 7, None);
    assert_eq!((all.decisions, all.faults), (7, 7));
    let own = through(sides(), payments(200), 100, Some(MerchantId(42)));
    assert_eq!((own.decisions, own.faults), (1, 1));
    let none = through(sides(), payments(200), 41, Some(MerchantId(42)));
    assert_eq!(none.decisions, 0);
}

#[test]
fn settings_are_tried_in_the_place_of_those_of_the_record() {
    let module: Ask = scripted(|context| match context.settings.as_slice() {
        [(name, value)] if name == "order" && value == "cost" => Ok(ranked(["beta", "alpha"])),
        _ => Ok(in_order(context)),
    });
    let tried = under_settings(module, vec![("order".into(), "cost".into())]);
    let diff = compared(payments(2), tried);
    let key = (Currency::EUR, id("alpha"), id("beta"));
    assert_eq!(diff.moved[&key].payments, 2);
}

#[test]
fn a_policy_takes_accounts_methods_and_amounts_out() {
    let of = |methods: MethodPolicy, max_usd| {
        let policy = Policy {
            methods: [(MethodId::Ideal, methods)].into(),
            max_usd,
            ..Policy::default()
        };
        let module = scripted(|context| Ok(in_order(context)));
        compared(
            payments(3),
            under_policy(module, MethodId::Ideal, policy, false),
        )
    };
    let any = MethodPolicy {
        enabled: true,
        providers: None,
        min: None,
        max: None,
    };
    assert_eq!(of(any.clone(), None).differing, 0);
    let only = |name| MethodPolicy {
        providers: Some(vec![id(name)]),
        ..any.clone()
    };
    let to_beta = of(only("beta"), None);
    let key = (Currency::EUR, id("alpha"), id("beta"));
    assert_eq!(to_beta.moved[&key].amount, 600);
    assert_eq!(of(only("alpha"), None).reordered, 3);
    assert_eq!(of(only("gamma"), None).newly_impossible, 3);
    let off = MethodPolicy {
        enabled: false,
        ..any.clone()
    };
    assert_eq!(of(off, None).newly_impossible, 3);
    let over = of(any, Some(Minor(250)));
    let key = (ReplayChange::NewlyImpossible, "policy", Some(Currency::EUR));
    assert_eq!(over.reasons[&key].amount, 300);
}

/// A recorded start with this outcome.
fn started(outcome: Result<Started, StartFailure>, amount: u64) -> Conversation {
    let due = Money {
        amount: Minor(amount),
        currency: Currency::EUR,
    };
    Conversation {
        slot: Slot::of_provider("vendor").unwrap(),
        digest: ACTIVE,
        payment: Some(PaymentId::from_bytes([1; 16])),
        account: provider::AccountFacts {
            id: id("vendor-live"),
            environment: Environment::Live,
            now: Time::from_secs(7),
            callback_url: String::new(),
            settings: vec![],
        },
        payer_hosts: vec![],
        plain_loopback: false,
        call: ProviderCall::Start(AttemptFacts {
            id: AttemptId::from_bytes([1; 16]),
            method: MethodId::Ideal,
            due,
            order: String::new(),
            merchant: String::new(),
            return_url: String::new(),
            cancel_url: String::new(),
            expires: Time::from_secs(9),
            payer: Payer::default(),
            answers: vec![],
        }),
        exchanges: vec![],
        outcome: CallOutcome::Start(outcome),
    }
}

#[test]
fn recorded_calls_are_told_by_what_becomes_of_the_payment() {
    let open = || Ok(Started::Ask(vec![]));
    let declined = || Err(StartFailure::Declined("no".into()));
    let redirected = Ok(Started::Open(Open {
        reference: "pay_1".into(),
        action: PayerAction::Redirect("https://pay.example/1".into()),
        until: None,
    }));
    let said = |outcome, amount| Ok(started(outcome, amount));
    let calls: Vec<(Conversation, Result<Conversation, &str>)> = vec![
        (started(open(), 1), said(open(), 1)),
        (started(declined(), 1), said(declined(), 1)),
        (started(open(), 200), said(declined(), 200)),
        (started(declined(), 30), said(open(), 30)),
        (started(open(), 4), said(redirected, 4)),
        (started(open(), 5000), Err("unanswered")),
        (started(open(), 60000), Err("trap")),
    ];
    let mut diff = Diff::default();
    for (number, (active, candidate)) in (0..).zip(&calls) {
        diff.count_call(number, Ok(active), candidate.as_ref().map_err(|why| *why));
    }
    assert_eq!((diff.decisions, diff.differing, diff.faults), (7, 5, 2));
    assert_eq!((diff.newly_possible, diff.newly_impossible), (1, 1));
    let sums = diff.reasons.iter();
    let sums: Vec<_> = sums
        .map(|((change, why, _), sum)| (*change, *why, sum.amount))
        .collect();
    assert_eq!(
        sums,
        [
            (ReplayChange::NewlyPossible, "declined", 30),
            (ReplayChange::NewlyImpossible, "declined", 200),
            (ReplayChange::Fault, "trap", 60_000),
            (ReplayChange::Fault, "unanswered", 5_000),
            (ReplayChange::Otherwise, "action", 4),
        ]
    );
    assert_eq!(diff.examples.latest.len(), 5);
}
