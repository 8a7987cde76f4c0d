//! Status pages, for payments without a choice of methods: the state in words, and links.

use std::time::Duration;

use axum::response::Response;
use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::money::{Minor, Money};
use kassette_domain::payment::CheckoutMode;
use kassette_domain::provider::{PayerAction, RefundState};
use kassette_gateway::checkout::CheckoutView;
use url::Url;

use super::checkout_state::CheckoutState;
use super::ended;
use super::links;
use super::money::{self, OnRecord, Sentence};
use super::reply::{FormTarget, Refresh};
use super::templates::{Navigation, Primary, Receipt, State, Tone};
use super::visit::{PageOptions, Visit, address};
use crate::last_try;

/// How long a final return page is shown before it redirects to the shop (decisions, "Coming back").
const BACK_AFTER_SECONDS: u32 = 10;

/// The kind of page that shows a payment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PageKind<'a> {
    /// Its checkout page.
    Checkout(Updates),
    /// The return page of this attempt.
    Return(&'a Attempt),
}

/// How a checkout page updates while a change is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Updates {
    /// Shows changes.
    Shown,
    /// Does not update, because the payer has stopped updates.
    Stopped,
    /// Shows changes, follows a start in flight to the provider, and redirects to the shop once the payment is
    /// completed.
    Followed,
    /// Follows the closing of an attempt, and shows if the provider could not confirm it.
    Leaving,
}

impl Updates {
    /// Parses the query of a page's URL.
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
    on_the_way: Option<String>,
    receipt: Option<Receipt>,
    primary: Option<Primary>,
}

impl StatusText {
    const fn new(tone: Tone, heading: String, text: String) -> Self {
        Self {
            tone,
            heading,
            text,
            extra: None,
            on_the_way: None,
            receipt: None,
            primary: None,
        }
    }
}

/// Links of a page: another method if available, the shop, updates.
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
            visit.t.another_way_hint(&visit.provider(attempt)),
        )
    });
    let leaving = refresh.is_some() && state.is_final();
    // A failed direct payment can only be started again in the shop.
    let in_shop = matches!(state, CheckoutState::Direct);
    let updating = refresh.is_some() && !state.is_final();
    Navigation {
        another,
        back: view.back_to_merchant.clone(),
        back_soon: leaving.then(|| {
            let stay = match kind {
                PageKind::Checkout(_) => page.clone(),
                PageKind::Return(attempt) => {
                    format!("/return/{}?{STAY}", attempt.return_token.expose())
                }
            };
            (visit.t.back_soon(&view.merchant.name), stay)
        }),
        done: state.is_final() || in_shop,
        pause: updating.then(|| format!("{page}?{PAUSE}")),
        resume: matches!(kind, PageKind::Checkout(Updates::Stopped)).then_some(page),
    }
}

/// Query of a return page that does not redirect to the shop.
pub(crate) const STAY: &str = "stay";
/// Query of a page without updates.
const PAUSE: &str = "hold";
/// Query of a page that follows a start.
const WAIT: &str = "wait";
/// Query of a page that follows the closing of an attempt.
const LEAVE: &str = "leave";
/// Initial interval at which those pages reload.
const FOLLOW_SECONDS: u32 = 2;
/// Minimum interval at which a page with values to copy reloads in a browser without scripts.
const COPYING_SECONDS: u32 = 20;
const FOLLOW_FOR: Duration = Duration::from_secs(60);

/// Automatic reload or redirect of a page. `None` if the page does not change by itself.
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
            // A page forgotten in a tab reloads less often.
            let soon = waiting < FOLLOW_FOR;
            refresh.map(|seconds| Refresh {
                seconds: if soon { FOLLOW_SECONDS } else { seconds },
                to: Some(format!("{}/go", address(view))),
            })
        }
        // Closing takes no longer than the provider's time limit.
        PageKind::Checkout(updates) if matches!(state, CheckoutState::Closing(_)) => {
            Some(Refresh {
                seconds: FOLLOW_SECONDS,
                to: Some(match updates {
                    Updates::Leaving => left(&address(view)),
                    // The payer has chosen another method, which starts next.
                    Updates::Followed => followed(view),
                    Updates::Shown | Updates::Stopped => address(view),
                }),
            })
        }
        // The payer must act first.
        PageKind::Checkout(_) if matches!(state, CheckoutState::Open(_, action) if !waits(action)) => {
            None
        }
        // A payer who waited here is sent to the shop; one who opens the page later is not.
        PageKind::Checkout(Updates::Followed) if matches!(state, CheckoutState::Completed) => {
            back(view)
        }
        // With an explicit URL, because the page may be the response to a form. A start in flight elsewhere is
        // followed only there.
        PageKind::Checkout(_) => refresh.map(|seconds| Refresh {
            // Longer interval for values that the payer copies, if no script preserves the selection.
            seconds: match state {
                CheckoutState::Open(..) => seconds.max(COPYING_SECONDS),
                _ => seconds,
            },
            to: Some(match state {
                CheckoutState::Checking(_) => address(view),
                _ => followed(view),
            }),
        }),
        PageKind::Return(_) if state.is_final() => back(view),
        PageKind::Return(_) => refresh.map(|seconds| Refresh { seconds, to: None }),
    }
}

/// URL of the page that follows a start.
pub(crate) fn followed(view: &CheckoutView) -> String {
    format!("{}?{WAIT}", address(view))
}

/// URL of the page that follows the closing of an attempt; `page` is the payment's page.
pub(crate) fn left(page: &str) -> String {
    format!("{page}?{LEAVE}")
}

/// Redirect to the shop, if its URL is known.
fn back(view: &CheckoutView) -> Option<Refresh> {
    view.back_to_merchant.as_deref().map(|shop| Refresh {
        seconds: BACK_AFTER_SECONDS,
        to: Some(in_ascii(shop)),
    })
}

/// Whether our page waits for a report while the payer pays elsewhere.
const fn waits(action: &PayerAction) -> bool {
    matches!(action, PayerAction::Show(_))
}

/// A URL for a header: unchanged, except that non-ASCII host names and characters are encoded as browsers do.
fn in_ascii(address: &str) -> String {
    if address.is_ascii() {
        return address.to_owned();
    }
    Url::parse(address).map_or_else(|_| address.to_owned(), String::from)
}

/// The page for a state.
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
        on_the_way,
        receipt,
        primary,
    } = status_text(visit, view, state, kind);
    let stays = options.stays && state.is_final();
    options.refresh = refresh(visit, view, state, kind).filter(|_| !stays);
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
        on_the_way,
        receipt,
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
    let say = StatusText::new;
    match state {
        CheckoutState::Open(attempt, action) => open(visit, view, attempt, action, kind),
        CheckoutState::Lapsed(attempt) => say(
            Tone::Bad,
            t.lapsed_title(),
            t.lapsed_text(&visit.provider(attempt)),
        ),
        CheckoutState::Closing(attempt) => say(
            Tone::Waiting,
            t.checking_title(),
            t.another_way_hint(&visit.provider(attempt)),
        ),
        CheckoutState::Checking(attempt) if is_followed_at_first(visit, attempt, kind) => {
            let provider = visit.provider(attempt);
            let amount = t.money(view.aggregate.payment.due).to_string();
            StatusText {
                on_the_way: Some(provider.clone()),
                ..say(Tone::Calm, t.going_title(&provider), t.going_text(&amount))
            }
        }
        CheckoutState::Checking(attempt) => checking(visit, view, attempt),
        CheckoutState::Choose | CheckoutState::Direct | CheckoutState::Unavailable => {
            idle(visit, view, state, kind)
        }
        CheckoutState::Processing => say(Tone::Waiting, t.processing_title(), t.processing_text()),
        CheckoutState::Verification => {
            let provider = || match view.aggregate.open_attempt() {
                Some(open) => visit.provider(open),
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
            // Money of an attempt may still arrive; without an attempt it cannot.
            let tried = !view.aggregate.attempts.is_empty();
            let nothing = Sentence::of_unpaid(&view.aggregate) == Sentence::NotTaken;
            StatusText {
                extra: (tried && nothing).then(|| t.expired_late(shop)),
                ..expired
            }
        }
    }
}

/// Text for an ended payment; `nothing` is used if no money was taken.
fn over(visit: &Visit, view: &CheckoutView, heading: String, nothing: String) -> StatusText {
    let (t, shop) = (visit.t, view.merchant.name.as_str());
    let text = match Sentence::of_unpaid(&view.aggregate) {
        Sentence::GivenBack => t.money_given_back(shop),
        Sentence::Unclear => t.money_unclear(shop),
        Sentence::PartGivenBack => t.money_part_given_back(shop),
        Sentence::Received => t.money_received(shop),
        _ => nothing,
    };
    StatusText::new(Tone::Bad, heading, text)
}

/// How long providers usually take to answer a start.
const AT_FIRST: Duration = Duration::from_secs(10);

/// Whether the payer has just chosen a method, and the provider is not slower than usual.
fn is_followed_at_first(visit: &Visit, attempt: &Attempt, kind: PageKind<'_>) -> bool {
    matches!(kind, PageKind::Checkout(Updates::Followed))
        && visit.backend.now().since(attempt.opened_at) < AT_FIRST
}

/// Receipt of the attempt whose money completed the payment. `None` if only an operator's decision did.
fn receipt(visit: &Visit, view: &CheckoutView) -> Option<Receipt> {
    let (t, payment) = (visit.t, &view.aggregate.payment);
    let (paid, returned) = match Sentence::about(&view.aggregate) {
        Sentence::Paid(paid) => (paid, Minor::ZERO),
        Sentence::PaidAndPartReturned(paid, returned) => (paid, returned.amount),
        Sentence::PaidAndReturned(paid) => (paid, paid.amount),
        _ => return None,
    };
    let own = money::own(&view.aggregate)?;
    let written = |amount| t.money(Money { amount, ..paid });
    let made = own.funds.refunds.iter().filter(|refund| {
        refund.state == RefundState::Succeeded && refund.out > Minor::ZERO && !refund.is_withdrawal
    });
    let made: Vec<_> = made
        .map(|refund| (refund.occurred_at.unwrap_or(refund.at), refund.out))
        .collect();
    // Money returned otherwise, such as by a chargeback, is not a refund by the shop; then no total is shown.
    let adds_up = made.iter().map(|(_, out)| out.0).sum::<u64>() == returned.0;
    let at = payment.completed_at?.rfc3339();
    let references = &own.particulars.references;
    Some(Receipt {
        date: format!("{} {} UTC", day(&at), at.get(11..16).unwrap_or_default()),
        at: at.clone(),
        method: t.receipt_by(&visit.method(own), &visit.provider(own)),
        reference: references
            .first()
            .map(String::as_str)
            .or_else(|| own.reference())
            .map(str::to_owned),
        order: payment.order_id.as_str().to_owned(),
        merchant: view.merchant.name.clone(),
        paid: written(paid.amount),
        refunds: match adds_up {
            true => made
                .iter()
                .map(|(at, out)| (day(&at.rfc3339()).to_owned(), written(*out)))
                .collect(),
            false => Vec::new(),
        },
        rest: (adds_up && returned > Minor::ZERO)
            .then(|| written(Minor(paid.amount.0.saturating_sub(returned.0)))),
    })
}

/// The day of an RFC 3339 time, UTC.
fn day(at: &str) -> &str {
    at.get(..10).unwrap_or(at)
}

fn completed(visit: &Visit, view: &CheckoutView) -> StatusText {
    let (t, shop) = (visit.t, view.merchant.name.as_str());
    let paid = |money: Money| t.completed_text(&t.money(money).to_string(), shop);
    let (tone, heading, text) = match Sentence::about(&view.aggregate) {
        Sentence::Paid(money) => (Tone::Good, t.completed_title(), paid(money)),
        Sentence::PaidAndPartReturned(money, returned) => {
            let returned = t.money(returned).to_string();
            let text = format!("{} {}", paid(money), t.completed_part_returned(&returned));
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
        extra: (!extra.is_empty()).then(|| extra.join(" ")),
        receipt: receipt(visit, view),
        ..StatusText::new(tone, heading, text)
    }
}

/// Text while an attempt waits for the payer.
fn open(
    visit: &Visit,
    view: &CheckoutView,
    attempt: &Attempt,
    action: &PayerAction,
    kind: PageKind<'_>,
) -> StatusText {
    let t = visit.t;
    let provider = visit.provider(attempt);
    let page = address(view);
    if let (PageKind::Checkout(_), PayerAction::Post { url, fields }) = (kind, action) {
        let allowed = links::is_page(url, visit.backend.plain_loopback());
        return StatusText {
            primary: allowed.then(|| Primary::Post {
                url: url.clone(),
                fields: fields.clone(),
                label: t.go_link(&provider),
            }),
            ..StatusText::new(Tone::Calm, t.post_title(&provider), t.post_text(&provider))
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
    let is_declined = last_try::declined(attempt).is_some();
    StatusText {
        extra: is_declined.then(|| t.waiting_declined(&provider)),
        primary: Some(link),
        ..StatusText::new(tone, heading, text)
    }
}

/// Text for a start without an outcome. On the hosted page the payer can repeat it, with the same attempt.
fn checking(visit: &Visit, view: &CheckoutView, attempt: &Attempt) -> StatusText {
    let hosted = view.aggregate.payment.mode == CheckoutMode::Hosted && view.can_choose;
    StatusText {
        primary: hosted.then(|| Primary::Start {
            action: format!("{}/choose", address(view)),
            method: attempt.method.to_string(),
            label: visit.t.checking_retry(),
        }),
        ..StatusText::new(
            Tone::Waiting,
            visit.t.checking_title(),
            visit.t.checking_text(&visit.provider(attempt)),
        )
    }
}

/// Text if no attempt is open.
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
        // The page explains why the shop must start the payment again.
        (PageKind::Checkout(_), CheckoutState::Direct) => view.aggregate.attempts.last(),
        (PageKind::Checkout(_), _) => None,
    };
    let Some(attempt) = ended else {
        let (tone, heading, text) = match state {
            CheckoutState::Direct => (Tone::Calm, t.direct_title(), t.direct_text(shop)),
            _ => (Tone::Bad, t.unavailable_title(), t.unavailable_text(shop)),
        };
        return StatusText::new(tone, heading, text);
    };
    let provider = visit.provider(attempt);
    // Money of an earlier attempt may be on record.
    let record = OnRecord::of_all(&view.aggregate);
    let (tone, heading, text) = match record {
        OnRecord::Nothing if attempt.state() == AttemptState::Declined => {
            let reason = ended::reason(visit, attempt);
            let heading = reason.map(|reason| reason.trim_end_matches('.').to_owned());
            let heading = heading.unwrap_or_else(|| t.declined_title());
            (Tone::Bad, heading, t.not_taken())
        }
        OnRecord::Nothing => (Tone::Calm, t.ended_title(), t.ended_text(&provider)),
        OnRecord::Returned => (Tone::Bad, t.failed_title(), t.money_given_back(shop)),
        OnRecord::Unclear => (Tone::Bad, t.failed_title(), t.money_unclear(shop)),
        OnRecord::PartReturned => (Tone::Bad, t.failed_title(), t.money_part_given_back(shop)),
        OnRecord::Taken => (Tone::Bad, t.failed_title(), t.money_received(shop)),
    };
    // The next step matches the page's button.
    let next = match state {
        _ if record != OnRecord::Nothing => None,
        CheckoutState::Choose => Some(t.try_again()),
        CheckoutState::Direct => Some(t.pay_in_shop(shop)),
        _ => Some(t.unavailable_text(shop)),
    };
    let again = matches!((kind, state), (PageKind::Return(_), CheckoutState::Choose));
    StatusText {
        extra: next,
        primary: again.then(|| Primary::Link {
            href: address(view),
            label: t.choose_again(),
        }),
        ..StatusText::new(tone, heading, text)
    }
}
