//! A payment that cannot be chosen for now: its state in words, and the ways on from there.

use std::time::Duration;

use axum::response::Response;
use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::payment::CheckoutMode;
use kassette_domain::provider::Action;
use kassette_gateway::checkout::CheckoutView;
use url::Url;

use super::links;
use super::reply::{FormTarget, Refresh};
use super::stage::Stage;
use super::templates::{Primary, State, Tone, Ways};
use super::visit::{Manner, Visit, address};

/// How long a final return page stands before it leads back to the shop (decisions, "Coming back").
const BACK_AFTER_SECONDS: u32 = 3;

/// From where a payment is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// Its own page. `held` where the payer has stopped the updates.
    Checkout {
        /// No updates.
        held: bool,
    },
    /// The page on which payers come back from this attempt.
    Return(&'a Attempt),
}

/// What is said of a state.
struct Words {
    tone: Tone,
    heading: String,
    text: String,
    extra: Option<String>,
    primary: Option<Primary>,
}

/// The ways out of a page: another way where it can be chosen, the shop, the updates.
pub(crate) fn ways(
    visit: &Visit,
    view: &CheckoutView,
    stage: Stage<'_>,
    place: Place<'_>,
    refresh: Option<&Refresh>,
) -> Ways {
    let page = address(view);
    let open = match stage {
        Stage::Open(attempt, _) | Stage::Lapsed(attempt) => Some(attempt),
        _ => None,
    };
    let another = open.filter(|_| view.can_choose).map(|attempt| {
        (
            format!("{page}/abandon"),
            visit.t.another_way_hint(&visit.provider(attempt)),
        )
    });
    let leaving = refresh.is_some() && stage.is_final();
    let updating = refresh.is_some() && !stage.is_final();
    Ways {
        another,
        back: view.back_to_merchant.clone(),
        back_soon: leaving.then(|| visit.t.back_soon(&view.merchant.name)),
        done: stage.is_final(),
        pause: updating.then(|| format!("{page}?{HOLD}")),
        resume: matches!(place, Place::Checkout { held: true }).then_some(page),
    }
}

/// The query that stops a page's updates.
pub(crate) const HOLD: &str = "hold";

/// When and where a page about a state goes on by itself.
pub(crate) fn refresh(
    visit: &Visit,
    view: &CheckoutView,
    stage: Stage<'_>,
    place: Place<'_>,
) -> Option<Refresh> {
    let waiting = view.ledger.open_attempt().map_or(Duration::ZERO, |open| {
        visit.till.now().since(open.opened_at)
    });
    let news = stage.refresh_seconds(waiting);
    match place {
        Place::Checkout { held: true } => None,
        // The payer is to act; nothing is expected before.
        Place::Checkout { .. } if matches!(stage, Stage::Open(_, action) if !waits(action)) => None,
        // The address is named: the page may be the answer to a form.
        Place::Checkout { .. } => news.map(|seconds| Refresh {
            seconds,
            to: Some(address(view)),
        }),
        Place::Return(_) if stage.is_final() => {
            view.back_to_merchant.as_deref().map(|shop| Refresh {
                seconds: BACK_AFTER_SECONDS,
                to: Some(in_ascii(shop)),
            })
        }
        Place::Return(_) => news.map(|seconds| Refresh { seconds, to: None }),
    }
}

/// Whether our own page waits for news while the payer pays elsewhere.
const fn waits(action: &Action) -> bool {
    matches!(action, Action::Show(_))
}

/// An address as a header can hold it: unchanged, but for names and signs outside ASCII, which
/// browsers would encode the same way.
fn in_ascii(address: &str) -> String {
    if address.is_ascii() {
        return address.to_owned();
    }
    Url::parse(address).map_or_else(|_| address.to_owned(), String::from)
}

/// The page about a state.
pub(crate) fn state(
    visit: &Visit,
    view: &CheckoutView,
    stage: Stage<'_>,
    place: Place<'_>,
    mut manner: Manner,
) -> Response {
    let Words {
        tone,
        heading,
        text,
        extra,
        primary,
    } = words(visit, view, stage, place);
    manner.refresh = refresh(visit, view, stage, place);
    if matches!(primary, Some(Primary::Post { .. })) {
        manner.forms = FormTarget::Provider {
            plain_loopback: visit.till.plain_loopback(),
        };
    }
    let ways = ways(visit, view, stage, place, manner.refresh.as_ref());
    visit.page(view, &heading.clone(), manner, |frame| State {
        frame,
        tone,
        heading,
        text,
        extra,
        primary,
        ways,
    })
}

fn words(visit: &Visit, view: &CheckoutView, stage: Stage<'_>, place: Place<'_>) -> Words {
    let t = visit.t;
    let shop = view.merchant.name.as_str();
    let say = |tone, heading, text| Words {
        tone,
        heading,
        text,
        extra: None,
        primary: None,
    };
    match stage {
        Stage::Open(attempt, action) => open(visit, view, attempt, action, place),
        Stage::Lapsed(attempt) => say(
            Tone::Bad,
            t.lapsed_title(),
            t.lapsed_text(&visit.provider(attempt)),
        ),
        Stage::Checking(attempt) => checking(visit, view, attempt),
        Stage::Choose | Stage::Direct | Stage::Unavailable => idle(visit, view, stage, place),
        Stage::Processing => say(Tone::Waiting, t.processing_title(), t.processing_text()),
        Stage::Verification => say(
            Tone::Waiting,
            t.verification_title(),
            t.verification_text(shop),
        ),
        Stage::Review => say(Tone::Waiting, t.review_title(), t.review_text(shop)),
        Stage::Completed => completed(visit, view),
        Stage::Failed => say(Tone::Bad, t.failed_title(), t.failed_text(shop)),
        Stage::Cancelled => say(Tone::Bad, t.cancelled_title(), t.cancelled_text(shop)),
        Stage::Expired => say(Tone::Bad, t.expired_title(), t.expired_text(shop)),
    }
}

fn completed(visit: &Visit, view: &CheckoutView) -> Words {
    let due = view.ledger.payment.due;
    let test = view.ledger.payment.environment == kassette_domain::key::Environment::Test;
    Words {
        tone: Tone::Good,
        heading: visit.t.completed_title(),
        text: visit
            .t
            .completed_text(&due.to_string(), &view.merchant.name),
        extra: test.then(|| visit.t.completed_test()),
        primary: None,
    }
}

/// An attempt waits for the payer.
fn open(
    visit: &Visit,
    view: &CheckoutView,
    attempt: &Attempt,
    action: &Action,
    place: Place<'_>,
) -> Words {
    let t = visit.t;
    let provider = visit.provider(attempt);
    let page = address(view);
    if let (Place::Checkout { .. }, Action::Post { url, fields }) = (place, action) {
        let allowed = links::is_page(url, visit.till.plain_loopback());
        return Words {
            tone: Tone::Calm,
            heading: t.post_title(&provider),
            text: t.post_text(&provider),
            extra: None,
            primary: allowed.then(|| Primary::Post {
                url: url.clone(),
                fields: fields.clone(),
                label: t.go_link(&provider),
            }),
        };
    }
    let link = match action {
        Action::Redirect(_) => Primary::Link {
            href: format!("{page}/go"),
            label: t.go_link(&provider),
        },
        Action::Post { .. } | Action::Show(_) | Action::Ask(_) => Primary::Link {
            href: page,
            label: t.see_current(),
        },
    };
    let (tone, heading, text) = match place {
        Place::Checkout { .. } => (
            Tone::Calm,
            t.open_title(),
            t.open_text(&visit.method(attempt), &provider),
        ),
        Place::Return(_) => (
            Tone::Waiting,
            t.waiting_title(&provider),
            t.waiting_text(&provider),
        ),
    };
    Words {
        tone,
        heading,
        text,
        extra: None,
        primary: Some(link),
    }
}

/// A start without an outcome. On the hosted page the payer can have it repeated; it is the same
/// attempt then, never a second one.
fn checking(visit: &Visit, view: &CheckoutView, attempt: &Attempt) -> Words {
    let hosted = view.ledger.payment.mode == CheckoutMode::Hosted && view.can_choose;
    Words {
        tone: Tone::Waiting,
        heading: visit.t.checking_title(),
        text: visit.t.checking_text(&visit.provider(attempt)),
        extra: None,
        primary: hosted.then(|| Primary::Start {
            action: format!("{}/choose", address(view)),
            method: attempt.method.to_string(),
            label: visit.t.checking_retry(),
        }),
    }
}

/// Nobody is paying.
fn idle(visit: &Visit, view: &CheckoutView, stage: Stage<'_>, place: Place<'_>) -> Words {
    let t = visit.t;
    let shop = view.merchant.name.as_str();
    let (tone, heading, text) = match (place, stage) {
        (Place::Return(attempt), _) if attempt.state == AttemptState::Declined => (
            Tone::Bad,
            t.declined_title(),
            t.declined_text(&visit.provider(attempt)),
        ),
        (Place::Return(attempt), _) => (
            Tone::Calm,
            t.ended_title(),
            t.ended_text(&visit.provider(attempt)),
        ),
        (Place::Checkout { .. }, Stage::Direct) => {
            (Tone::Calm, t.direct_title(), t.direct_text(shop))
        }
        (Place::Checkout { .. }, _) => (Tone::Bad, t.unavailable_title(), t.unavailable_text(shop)),
    };
    let again = matches!((place, stage), (Place::Return(_), Stage::Choose));
    Words {
        tone,
        heading,
        text,
        extra: None,
        primary: again.then(|| Primary::Link {
            href: address(view),
            label: t.choose_again(),
        }),
    }
}
