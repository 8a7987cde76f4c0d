//! The page about a payment for which nothing can be chosen now: its state in words, and the links from there.

use std::time::Duration;

use axum::response::Response;
use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::payment::CheckoutMode;
use kassette_domain::provider::PayerAction;
use kassette_gateway::checkout::CheckoutView;
use url::Url;

use super::checkout_state::CheckoutState;
use super::links;
use super::money::{self, OnRecord, Sentence};
use super::reply::{FormTarget, Refresh};
use super::templates::{Navigation, Primary, State, Tone};
use super::visit::{PageOptions, Visit, address};

/// How long a final return page stands before it leads back to the shop (decisions, "Coming back").
const BACK_AFTER_SECONDS: u32 = 3;

/// Which page shows a payment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PageKind<'a> {
    /// Its checkout page.
    Checkout(Updates),
    /// The page on which payers come back from this attempt.
    Return(&'a Attempt),
}

/// What a checkout page does where something is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Updates {
    /// It shows what comes.
    Shown,
    /// Nothing: the payer has stopped it.
    Stopped,
    /// It shows what comes, follows a start that is under way to the vendor, and leads back to the shop
    /// once paid.
    Followed,
    /// It follows the closing of an attempt, and says so where the vendor was not sure of it.
    Leaving,
}

impl Updates {
    /// What the query of a page's address asks for.
    pub(crate) fn asked(query: Option<&str>) -> Self {
        match query {
            Some(PAUSE) => Self::Stopped,
            Some(WAIT) => Self::Followed,
            Some(LEAVE) => Self::Leaving,
            _ => Self::Shown,
        }
    }
}

/// The text of a status page.
struct StatusText {
    tone: Tone,
    heading: String,
    text: String,
    extra: Option<String>,
    primary: Option<Primary>,
}

/// The links of a page: another method where it can be chosen, the shop, the updates.
pub(crate) fn navigation(
    visit: &Visit,
    view: &CheckoutView,
    state: CheckoutState<'_>,
    kind: PageKind<'_>,
    refresh: Option<&Refresh>,
) -> Navigation {
    let page = address(view);
    let open = match state {
        CheckoutState::Open(attempt, _) | CheckoutState::Lapsed(attempt) => Some(attempt),
        _ => None,
    };
    let another = open.filter(|_| view.can_choose).map(|attempt| {
        (
            format!("{page}/abandon"),
            visit.t.another_way_hint(&visit.provider(view, attempt)),
        )
    });
    let leaving = refresh.is_some() && state.is_final();
    // A direct payment that has come to nothing is started again in the shop, and nowhere else.
    let in_shop = matches!(state, CheckoutState::Direct);
    let updating = refresh.is_some() && !state.is_final();
    Navigation {
        another,
        back: view.back_to_merchant.clone(),
        back_soon: leaving.then(|| visit.t.back_soon(&view.merchant.name)),
        done: state.is_final() || in_shop,
        pause: updating.then(|| format!("{page}?{PAUSE}")),
        resume: matches!(kind, PageKind::Checkout(Updates::Stopped)).then_some(page),
    }
}

/// The query that stops a page's updates.
const PAUSE: &str = "hold";
/// The query of the page that follows what is under way.
const WAIT: &str = "wait";
/// The query of the page that follows the closing of an attempt.
const LEAVE: &str = "leave";
/// How often those pages look at first.
const FOLLOW_SECONDS: u32 = 2;
const FOLLOW_FOR: Duration = Duration::from_secs(60);

/// When and where a page about a state goes on by itself.
pub(crate) fn refresh(
    visit: &Visit,
    view: &CheckoutView,
    state: CheckoutState<'_>,
    kind: PageKind<'_>,
) -> Option<Refresh> {
    let waiting = view
        .aggregate
        .open_attempt()
        .map_or(Duration::ZERO, |open| {
            visit.backend.now().since(open.opened_at)
        });
    let refresh = state.refresh_seconds(waiting);
    match kind {
        PageKind::Checkout(Updates::Stopped) => None,
        PageKind::Checkout(Updates::Followed) if matches!(state, CheckoutState::Checking(_)) => {
            // A page that is forgotten in a tab looks less often.
            let soon = waiting < FOLLOW_FOR;
            refresh.map(|seconds| Refresh {
                seconds: if soon { FOLLOW_SECONDS } else { seconds },
                to: Some(format!("{}/go", address(view))),
            })
        }
        // It takes no longer than the vendor may.
        PageKind::Checkout(updates) if matches!(state, CheckoutState::Closing(_)) => {
            Some(Refresh {
                seconds: FOLLOW_SECONDS,
                to: Some(match updates {
                    Updates::Leaving => left(&address(view)),
                    // Another way has been chosen, and starts next.
                    Updates::Followed => followed(view),
                    Updates::Shown | Updates::Stopped => address(view),
                }),
            })
        }
        // The payer is to act; nothing is expected before.
        PageKind::Checkout(_) if matches!(state, CheckoutState::Open(_, action) if !waits(action)) => {
            None
        }
        // Who waited here for the payment goes on to the shop; who opens the page later does not.
        PageKind::Checkout(Updates::Followed) if matches!(state, CheckoutState::Completed) => {
            back(view)
        }
        // The address is named: the page may be the answer to a form. A start that is under way
        // elsewhere is followed there alone.
        PageKind::Checkout(_) => refresh.map(|seconds| Refresh {
            seconds,
            to: Some(match state {
                CheckoutState::Checking(_) => address(view),
                _ => followed(view),
            }),
        }),
        PageKind::Return(_) if state.is_final() => back(view),
        PageKind::Return(_) => refresh.map(|seconds| Refresh { seconds, to: None }),
    }
}

/// The page that follows what is under way.
pub(crate) fn followed(view: &CheckoutView) -> String {
    format!("{}?{WAIT}", address(view))
}

/// The page that follows the closing of an attempt, of a payment's page.
pub(crate) fn left(page: &str) -> String {
    format!("{page}?{LEAVE}")
}

/// Back to the shop, where it is known.
fn back(view: &CheckoutView) -> Option<Refresh> {
    view.back_to_merchant.as_deref().map(|shop| Refresh {
        seconds: BACK_AFTER_SECONDS,
        to: Some(in_ascii(shop)),
    })
}

/// Whether our own page waits for a report while the payer pays elsewhere.
const fn waits(action: &PayerAction) -> bool {
    matches!(action, PayerAction::Show(_))
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
pub(crate) fn page(
    visit: &Visit,
    view: &CheckoutView,
    state: CheckoutState<'_>,
    kind: PageKind<'_>,
    mut options: PageOptions,
) -> Response {
    let StatusText {
        tone,
        heading,
        text,
        extra,
        primary,
    } = status_text(visit, view, state, kind);
    options.refresh = refresh(visit, view, state, kind);
    if matches!(primary, Some(Primary::Post { .. })) {
        options.forms = FormTarget::Provider {
            plain_loopback: visit.backend.plain_loopback(),
        };
    }
    let navigation = navigation(visit, view, state, kind, options.refresh.as_ref());
    visit.page(view, &heading.clone(), options, |frame| State {
        frame,
        tone,
        heading,
        text,
        extra,
        primary,
        navigation,
    })
}

fn status_text(
    visit: &Visit,
    view: &CheckoutView,
    state: CheckoutState<'_>,
    kind: PageKind<'_>,
) -> StatusText {
    let t = visit.t;
    let shop = view.merchant.name.as_str();
    let say = |tone, heading, text| StatusText {
        tone,
        heading,
        text,
        extra: None,
        primary: None,
    };
    match state {
        CheckoutState::Open(attempt, action) => open(visit, view, attempt, action, kind),
        CheckoutState::Lapsed(attempt) => say(
            Tone::Bad,
            t.lapsed_title(),
            t.lapsed_text(&visit.provider(view, attempt)),
        ),
        CheckoutState::Closing(attempt) => say(
            Tone::Waiting,
            t.checking_title(),
            t.another_way_hint(&visit.provider(view, attempt)),
        ),
        CheckoutState::Checking(attempt) => checking(visit, view, attempt),
        CheckoutState::Choose | CheckoutState::Direct | CheckoutState::Unavailable => {
            idle(visit, view, state, kind)
        }
        CheckoutState::Processing => say(Tone::Waiting, t.processing_title(), t.processing_text()),
        CheckoutState::Verification => {
            let provider = || match view.aggregate.open_attempt() {
                Some(open) => visit.provider(view, open),
                None => t.provider_unnamed(),
            };
            let text = match money::has_arrived(&view.aggregate) {
                true => t.verification_text(shop),
                false => t.verification_awaited(&provider(), shop),
            };
            say(Tone::Waiting, t.verification_title(), text)
        }
        CheckoutState::Review => StatusText {
            extra: match Sentence::of_review(&view.aggregate) {
                Sentence::ReviewPartGivenBack => Some(t.review_part_given_back()),
                Sentence::ReviewGivenBack => Some(t.review_given_back()),
                _ => None,
            },
            ..say(Tone::Waiting, t.review_title(), t.review_text(shop))
        },
        CheckoutState::Completed => completed(visit, view),
        CheckoutState::Failed => over(visit, view, t.failed_title(), t.failed_text(shop)),
        CheckoutState::Cancelled => over(visit, view, t.cancelled_title(), t.cancelled_text(shop)),
        CheckoutState::Expired => {
            let expired = over(visit, view, t.expired_title(), t.expired_text(shop));
            // Money of an attempt may still arrive; without one there is none that could.
            let tried = !view.aggregate.attempts.is_empty();
            let nothing = Sentence::of_unpaid(&view.aggregate) == Sentence::NotTaken;
            StatusText {
                extra: (tried && nothing).then(|| t.expired_late(shop)),
                ..expired
            }
        }
    }
}

/// A payment that is over; `nothing` is said where no money was taken.
fn over(visit: &Visit, view: &CheckoutView, heading: String, nothing: String) -> StatusText {
    let (t, shop) = (visit.t, view.merchant.name.as_str());
    let text = match Sentence::of_unpaid(&view.aggregate) {
        Sentence::GivenBack => t.money_given_back(shop),
        Sentence::Unclear => t.money_unclear(shop),
        Sentence::PartGivenBack => t.money_part_given_back(shop),
        Sentence::Received => t.money_received(shop),
        _ => nothing,
    };
    StatusText {
        tone: Tone::Bad,
        heading,
        text,
        extra: None,
        primary: None,
    }
}

fn completed(visit: &Visit, view: &CheckoutView) -> StatusText {
    let (t, shop) = (visit.t, view.merchant.name.as_str());
    let paid =
        |money: kassette_domain::money::Money| t.completed_text(&t.money(money).to_string(), shop);
    let (tone, heading, text) = match Sentence::about(&view.aggregate) {
        Sentence::Paid(money) => (Tone::Good, t.completed_title(), paid(money)),
        Sentence::PaidAndPartReturned(money) => {
            let text = format!("{} {}", paid(money), t.completed_part_returned());
            (Tone::Good, t.completed_title(), text)
        }
        Sentence::PaidAndReturned(money) => {
            let text = t.returned_text(&t.money(money).to_string(), shop);
            (Tone::Calm, t.returned_title(), text)
        }
        _ => (Tone::Good, t.completed_title(), t.accepted_text(shop)),
    };
    let test = view.aggregate.payment.environment == kassette_domain::key::Environment::Test;
    let disputed = money::is_disputed(&view.aggregate).then(|| t.completed_disputed());
    let second = match money::second(&view.aggregate) {
        OnRecord::Taken => Some(t.second_received(shop)),
        OnRecord::PartReturned => Some(t.second_part_given_back(shop)),
        OnRecord::Returned => Some(t.second_given_back()),
        OnRecord::Nothing | OnRecord::Unclear => None,
    };
    let extra: Vec<_> = disputed
        .into_iter()
        .chain(second)
        .chain(test.then(|| t.completed_test()))
        .collect();
    StatusText {
        tone,
        heading,
        text,
        extra: (!extra.is_empty()).then(|| extra.join(" ")),
        primary: None,
    }
}

/// An attempt waits for the payer.
fn open(
    visit: &Visit,
    view: &CheckoutView,
    attempt: &Attempt,
    action: &PayerAction,
    kind: PageKind<'_>,
) -> StatusText {
    let t = visit.t;
    let provider = visit.provider(view, attempt);
    let page = address(view);
    if let (PageKind::Checkout(_), PayerAction::Post { url, fields }) = (kind, action) {
        let allowed = links::is_page(url, visit.backend.plain_loopback());
        return StatusText {
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
        PayerAction::Redirect(_) => Primary::Link {
            href: format!("{page}/go"),
            label: t.go_link(&provider),
        },
        PayerAction::Post { .. } | PayerAction::Show(_) | PayerAction::Ask(_) => Primary::Link {
            href: page,
            label: t.see_current(),
        },
    };
    let (tone, heading, text) = match kind {
        PageKind::Checkout(_) => (
            Tone::Calm,
            t.open_title(),
            t.open_text(&visit.method(attempt), &provider),
        ),
        PageKind::Return(_) => (
            Tone::Waiting,
            t.waiting_title(&provider),
            t.waiting_text(&provider),
        ),
    };
    StatusText {
        tone,
        heading,
        text,
        extra: None,
        primary: Some(link),
    }
}

/// A start without an outcome. On the hosted page the payer can have it repeated; it is the same
/// attempt then, never a second one.
fn checking(visit: &Visit, view: &CheckoutView, attempt: &Attempt) -> StatusText {
    let hosted = view.aggregate.payment.mode == CheckoutMode::Hosted && view.can_choose;
    StatusText {
        tone: Tone::Waiting,
        heading: visit.t.checking_title(),
        text: visit.t.checking_text(&visit.provider(view, attempt)),
        extra: None,
        primary: hosted.then(|| Primary::Start {
            action: format!("{}/choose", address(view)),
            method: attempt.method.to_string(),
            label: visit.t.checking_retry(),
        }),
    }
}

/// No attempt is open.
fn idle(
    visit: &Visit,
    view: &CheckoutView,
    state: CheckoutState<'_>,
    kind: PageKind<'_>,
) -> StatusText {
    let t = visit.t;
    let shop = view.merchant.name.as_str();
    let ended = match (kind, state) {
        (PageKind::Return(attempt), _) => Some(attempt),
        // The shop has to start it again: the page says why.
        (PageKind::Checkout(_), CheckoutState::Direct) => view.aggregate.attempts.last(),
        (PageKind::Checkout(_), _) => None,
    };
    let Some(attempt) = ended else {
        let (tone, heading, text) = match state {
            CheckoutState::Direct => (Tone::Calm, t.direct_title(), t.direct_text(shop)),
            _ => (Tone::Bad, t.unavailable_title(), t.unavailable_text(shop)),
        };
        return StatusText {
            tone,
            heading,
            text,
            extra: None,
            primary: None,
        };
    };
    let provider = visit.provider(view, attempt);
    // Money of an attempt before it may be on record.
    let record = OnRecord::of_all(&view.aggregate);
    let (tone, heading, text) = match record {
        OnRecord::Nothing if attempt.state == AttemptState::Declined => {
            (Tone::Bad, t.declined_title(), t.declined_text(&provider))
        }
        OnRecord::Nothing => (Tone::Calm, t.ended_title(), t.ended_text(&provider)),
        OnRecord::Returned => (Tone::Bad, t.failed_title(), t.money_given_back(shop)),
        OnRecord::Unclear => (Tone::Bad, t.failed_title(), t.money_unclear(shop)),
        OnRecord::PartReturned => (Tone::Bad, t.failed_title(), t.money_part_given_back(shop)),
        OnRecord::Taken => (Tone::Bad, t.failed_title(), t.money_received(shop)),
    };
    // What to do next is what the page's one button does.
    let next = match state {
        _ if record != OnRecord::Nothing => None,
        CheckoutState::Choose => Some(t.try_again()),
        CheckoutState::Direct => Some(t.pay_in_shop(shop)),
        _ => Some(t.unavailable_text(shop)),
    };
    let again = matches!((kind, state), (PageKind::Return(_), CheckoutState::Choose));
    StatusText {
        tone,
        heading,
        text,
        extra: next,
        primary: again.then(|| Primary::Link {
            href: address(view),
            label: t.choose_again(),
        }),
    }
}
