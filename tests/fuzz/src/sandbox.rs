//! The sandbox's payer pages, with payments of the sandbox module in every state.
//!
//! `{p0}`, `{p1}` etc. in an input are replaced by the payments' tokens.

use std::cell::RefCell;

use kassette_plugin::provider::{Action, Open};
use kassette_provider_sandbox::Sandbox;
use kassette_sim::BookEntry;
use memchr::memmem;

use crate::talk::{self, Words};

/// Number of inputs after which new books are started.
const INPUTS: u32 = 2_000;
/// Outcomes that each payment already has.
const PAYMENTS: [&[&str]; 8] = [
    &[],
    &[],
    &["approve"],
    &["decline"],
    &["review"],
    &["approve", "dispute"],
    &["approve", "refund"],
    &["pending"],
];

struct Desk {
    world: kassette_world::World<Sandbox>,
    runtime: tokio::runtime::Runtime,
    words: Words,
    inputs: u32,
}

thread_local! {
    static DESK: RefCell<Option<Desk>> = const { RefCell::new(None) };
}

impl Desk {
    fn new() -> Self {
        let world = kassette_world::World::<Sandbox>::new("sandbox");
        let names = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];
        let mut words = Words::new();
        for (name, done) in names.into_iter().zip(PAYMENTS) {
            let started = kassette_world::open(world.start(&world.attempt("ideal", "EUR")));
            for outcome in done {
                world.choose(&started, outcome);
            }
            words.insert(name, token(&started));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            world,
            runtime,
            words,
            inputs: 0,
        }
    }

    fn books(&self) -> Vec<BookEntry> {
        self.world.entries()
    }
}

fn token(started: &Open) -> String {
    let Action::Redirect(page) = &started.action else {
        panic!("the sandbox redirects");
    };
    page.rsplit('/').next().unwrap_or_default().to_owned()
}

pub(crate) fn run(input: &[u8]) {
    if input.len() > crate::LONGEST {
        return;
    }
    DESK.with_borrow_mut(|kept| {
        // Books in which a rule was broken are not used again.
        let mut desk = kept.take().unwrap_or_else(Desk::new);
        let routes = desk.world.sim.payer_routes();
        for section in talk::split(input) {
            let now = desk.world.now() / 1000;
            let Some(asked) = talk::read(section, &desk.words, &Words::new(), now) else {
                continue;
            };
            let before = desk.books();
            let answer = desk.runtime.block_on(talk::send(&routes, &asked));
            let after = desk.books();
            judge(&asked, &answer, &before, &after);
        }
        desk.inputs += 1;
        *kept = (desk.inputs < INPUTS).then_some(desk);
    });
}

fn judge(asked: &talk::Request, answer: &talk::Answer, before: &[BookEntry], after: &[BookEntry]) {
    let told = || {
        let (method, target) = (&asked.method, &asked.target);
        format!(
            "{method} {target}: {} {:?} {}",
            answer.status,
            answer.headers,
            answer.text()
        )
    };
    talk::show(told);
    assert!(answer.status < 500, "a failure of ours: {}", told());
    let changing = asked.method == http::Method::POST && answer.status < 400;
    assert!(
        changing || before == after,
        "it changed the books: {}",
        told()
    );
    assert_eq!(before.len(), after.len(), "it made a payment: {}", told());
    for entry in after {
        assert!(entry.captured_times <= 1, "captured twice: {entry:?}");
        let cents = |text: &str| text.replace('.', "").parse::<u64>().unwrap();
        let left = cents(&entry.amount).checked_sub(cents(&entry.refunded));
        assert!(left.is_some(), "more was given back than taken: {entry:?}");
    }
    if answer.status == 303 {
        let to = answer.header("location");
        let back = ["http://127.0.0.1:1/return", "http://127.0.0.1:1/cancel"];
        assert!(
            back.iter().any(|back| to.starts_with(back)),
            "it leads away: {}",
            told()
        );
    }
    if answer.header("content-type").starts_with("text/html") {
        let policy = answer.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'"),
            "no policy: {}",
            told()
        );
        assert_eq!(
            answer.header("x-content-type-options"),
            "nosniff",
            "{}",
            told()
        );
        assert_eq!(
            answer.header("referrer-policy"),
            "no-referrer",
            "{}",
            told()
        );
        // For any request, the page consists only of its own markup, without scripts.
        assert!(
            memmem::find(&answer.body, b"<script").is_none(),
            "a script: {}",
            told()
        );
    }
    for secret in ["secretOfTheWorld", "newsOfTheWorld"] {
        let found = memmem::find(&answer.body, secret.as_bytes());
        assert!(found.is_none(), "{secret} was told: {}", told());
    }
}
