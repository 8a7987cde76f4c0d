//! The hosted checkout page: available methods, the payer's choice, and the next steps.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse as _, Response};
use http::{Request, StatusCode};
use kassette_domain::attempt::AttemptState;
use kassette_domain::id::{AccountId, MerchantId};
use kassette_domain::method::MethodId;
use kassette_domain::provider::{Instructions, Payer, PayerAction};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_gateway::checkout::CheckoutView;
use kassette_gateway::methods::{Offer, OfferedProvider};
use kassette_gateway::start::{Start, StartError, StartedPayment, Starter};
use tokio::time::timeout;

use super::assets::Keeper;
use super::checkout_state::{self, CheckoutState};
use super::forms;
use super::problems::Problem;
use super::reply::Referrer;
use super::status::{self, PageKind, Updates, followed, left};
use super::templates::{Changed, Choose, Field, Go, Notice, Questions, Row, Show, TimeLeft, Watch};
use super::texts::Texts;
use super::visit::{PageOptions, Visit, address};
use super::{assets, ended, icons, links, qr, questions};

/// `GET /checkout/{token}`
pub(crate) async fn show(mut visit: Visit, RawQuery(query): RawQuery) -> Response {
    match visit.view().await {
        Ok(view) => {
            let updates = Updates::asked(query.as_deref());
            let state = CheckoutState::from_view(&view, visit.backend.now());
            if updates == Updates::Leaving && !matches!(state, CheckoutState::Closing(_)) {
                return still_open(&mut visit, StatusCode::OK).await;
            }
            current(&visit, &view, updates, PageOptions::default())
        }
        Err(problem) => visit.problem(problem),
    }
}

/// `GET /checkout/{token}/status`: the version of the state that the page shows, as `{"version":"…"}`. The
/// page's script polls it.
pub(crate) async fn version(mut visit: Visit) -> Response {
    match visit.view().await {
        Ok(view) => {
            let version = checkout_state::version(&view, visit.backend.now());
            visit.guarded(axum::Json(serde_json::json!({ "version": version })))
        }
        Err(Problem::NotFound) => StatusCode::NOT_FOUND.into_response(),
        Err(problem) => visit.problem(problem),
    }
}

/// `GET` of a form's path: redirects to the payment's page.
pub(crate) async fn look_again(visit: Visit) -> Response {
    match &visit.token {
        Some(token) => visit.see_other(&format!("/checkout/{token}")),
        None => visit.problem(Problem::NotFound),
    }
}

/// `GET /checkout/{token}/go`: to the vendor, where the open attempt is continued there.
pub(crate) async fn go(mut visit: Visit) -> Response {
    let view = match visit.view().await {
        Ok(view) => view,
        Err(problem) => return visit.problem(problem),
    };
    let (attempt, target) = match CheckoutState::from_view(&view, visit.backend.now()) {
        CheckoutState::Open(attempt, PayerAction::Redirect(target)) => (attempt, target),
        CheckoutState::Checking(_) => return visit.see_other(&followed(&view)),
        // The payer was not informed when the start ended.
        CheckoutState::Choose | CheckoutState::Unavailable
            if ended_in(&view, &[AttemptState::Declined, AttemptState::Unavailable]) =>
        {
            let notice = about_last(&visit, &view);
            return again(&visit, &view, StatusCode::OK, notice);
        }
        _ => return visit.see_other(&address(&view)),
    };
    if !links::is_page(target, visit.backend.plain_loopback()) {
        tracing::error!(attempt.id = %attempt.id, "an attempt leads to an address that no payer may be sent to");
        return visit.problem(Problem::Failure);
    }
    let (target, provider) = (target.clone(), visit.provider(attempt));
    let options = PageOptions {
        referrer: Referrer::None,
        leave: Some(target.clone()),
        ..PageOptions::default()
    };
    let heading = visit.t.going_title(&provider);
    visit.page(&view, &heading, options, |frame| Go {
        frame,
        target,
        provider,
    })
}

/// `GET /logos/{merchant}/{file}`: a merchant's logo, if it is still that file.
pub(crate) async fn logo(visit: Visit, Path((merchant, file)): Path<(String, String)>) -> Response {
    let Ok(merchant) = merchant.parse() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let logo = match visit.backend.logo(MerchantId(merchant)).await {
        Ok(logo) => logo.filter(|logo| file == format!("{}.png", logo.digest())),
        Err(fault) => return visit.problem(fault.into()),
    };
    match logo {
        Some(logo) => assets::unchanging(
            "image/png",
            Keeper::Browser,
            Body::from(logo.png().to_vec()),
        ),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// `POST /checkout/{token}/choose`
pub(crate) async fn choose(mut visit: Visit, request: Request<Body>) -> Response {
    let form = match forms::read(request, &visit.public_url).await {
        Ok(form) => form,
        Err(bad) => return visit.problem(Problem::Form(bad)),
    };
    let view = match visit.view().await {
        Ok(view) => view,
        Err(problem) => return visit.problem(problem),
    };
    let is_there =
        |method: &MethodId| method.is_specified() || visit.backend.method(*method).is_some();
    let method = form.get("payment_method").and_then(MethodId::parse);
    let Some(method) = method.filter(is_there) else {
        let notice = can_choose(&visit, &view).then(|| visit.t.notice_choose().into());
        return again(&visit, &view, StatusCode::UNPROCESSABLE_ENTITY, notice);
    };
    let payment = &view.aggregate.payment;
    let start = Start {
        payment: payment.id,
        method,
        provider: None,
        starter: Starter::Page,
        seen: form
            .get(&format!("seen.{method}"))
            .and_then(|id| AccountId::parse(id).ok()),
        payer: Payer {
            email: payment
                .email
                .as_ref()
                .map(|email| Secret::new(email.expose())),
            ip: visit.ip.map(|ip| ip.to_string()),
            language: Some(visit.t.tag().to_owned()),
            country: None,
        },
    };
    match timeout(AT_ONCE, visit.backend.start(start)).await {
        // The provider is slow: the start continues, and the waiting page follows it.
        Err(_) => visit.see_other(&followed(&view)),
        Ok(Ok(started)) => onwards(&visit, &view, &started),
        Ok(Err(StartError::AskAgain(account))) => changed(&visit, &view, method, &account),
        Ok(Err(error)) => refused(&mut visit, error).await,
    }
}

/// Maximum time before a payer's action gets a response.
const AT_ONCE: Duration = Duration::from_millis(1500);

/// Whether the state of the payment's last attempt is one of `states`.
fn ended_in(view: &CheckoutView, states: &[AttemptState]) -> bool {
    let last = view.aggregate.attempts.last();
    last.is_some_and(|attempt| states.contains(&attempt.state()))
}

/// `POST /checkout/{token}/answer`
pub(crate) async fn answer(mut visit: Visit, request: Request<Body>) -> Response {
    let form = match forms::read(request, &visit.public_url).await {
        Ok(form) => form,
        Err(bad) => return visit.problem(Problem::Form(bad)),
    };
    let view = match visit.view().await {
        Ok(view) => view,
        Err(problem) => return visit.problem(problem),
    };
    let CheckoutState::Open(_, PayerAction::Ask(asked)) =
        CheckoutState::from_view(&view, visit.backend.now())
    else {
        let notice = Some(visit.t.notice_conflict().into());
        return again(&visit, &view, StatusCode::CONFLICT, notice);
    };
    let answers = match questions::read(asked, &form, visit.t) {
        Ok(answers) => answers,
        Err(fields) => {
            let options = PageOptions {
                status: Some(StatusCode::UNPROCESSABLE_ENTITY),
                ..PageOptions::default()
            };
            return ask(&visit, &view, fields, Updates::Shown, options);
        }
    };
    let token = visit.token.clone().unwrap_or_default();
    match timeout(AT_ONCE, visit.backend.answer(&token, answers)).await {
        Err(_) => visit.see_other(&followed(&view)),
        Ok(Ok(started)) => onwards(&visit, &view, &started),
        Ok(Err(error)) => refused(&mut visit, error).await,
    }
}

/// `POST /checkout/{token}/abandon`
pub(crate) async fn abandon(mut visit: Visit, request: Request<Body>) -> Response {
    if let Err(bad) = forms::read(request, &visit.public_url).await {
        return visit.problem(Problem::Form(bad));
    }
    let Some(token) = visit.token.clone() else {
        return visit.problem(Problem::NotFound);
    };
    let page = format!("/checkout/{token}");
    match timeout(AT_ONCE, visit.backend.abandon(&token)).await {
        // The closing continues, and the page that follows it shows its outcome.
        Err(_) => visit.see_other(&left(&page)),
        Ok(Err(fault)) => visit.problem(fault.into()),
        Ok(Ok(None)) => visit.problem(Problem::NotFound),
        Ok(Ok(Some(aggregate))) if aggregate.open_attempt().is_none() => visit.see_other(&page),
        Ok(Ok(Some(_))) => still_open(&mut visit, StatusCode::CONFLICT).await,
    }
}

impl Visit {
    /// The payment of the token. Sets the page to its language, unless the payer chose another.
    async fn view(&mut self) -> Result<CheckoutView, Problem> {
        let token = self.token.as_deref().ok_or(Problem::NotFound)?;
        let view = self.backend.checkout(token).await?;
        let view = view.ok_or(Problem::NotFound)?;
        self.t = self.t.preferring(view.aggregate.payment.locale.as_ref());
        Ok(view)
    }
}

/// Continues after a start: at the provider, or on our own page.
fn onwards(visit: &Visit, view: &CheckoutView, started: &StartedPayment) -> Response {
    let page = address(view);
    match started.attempt.action() {
        Some(PayerAction::Redirect(_)) => visit.see_other(&format!("{page}/go")),
        _ => visit.see_other(&page),
    }
}

/// Response to a failed start, usually the payment's page with a notice.
async fn refused(visit: &mut Visit, error: StartError) -> Response {
    let (status, notice) = match &error {
        StartError::NotFound => return visit.problem(Problem::NotFound),
        StartError::Random => {
            tracing::error!(%error, "a start failed");
            return visit.problem(Problem::Failure);
        }
        StartError::StillOpen(_) => return still_open(visit, StatusCode::CONFLICT).await,
        StartError::Conflict(_) | StartError::OtherMethod | StartError::AskAgain(_) => {
            (StatusCode::CONFLICT, visit.t.notice_conflict().into())
        }
        StartError::Unsettled { .. } => (StatusCode::CONFLICT, visit.t.notice_unsettled().into()),
        StartError::NotAvailable(_) | StartError::Declined => {
            return match visit.view().await {
                Ok(view) => {
                    let notice = match error {
                        StartError::Declined => about_last(visit, &view),
                        _ => Some(not_available(visit, &view)),
                    };
                    again(visit, &view, StatusCode::UNPROCESSABLE_ENTITY, notice)
                }
                Err(problem) => visit.problem(problem),
            };
        }
        StartError::NotLiveApproved | StartError::Barred(_) | StartError::ProviderChoice => {
            return forbidden(visit).await;
        }
        StartError::Store(_) => {
            let StartError::Store(fault) = error else {
                return visit.problem(Problem::Failure);
            };
            return visit.problem(fault.into());
        }
    };
    match visit.view().await {
        Ok(view) => again(visit, &view, status, Some(notice)),
        Err(problem) => visit.problem(problem),
    }
}

async fn forbidden(visit: &mut Visit) -> Response {
    match visit.view().await {
        Ok(view) => {
            let notice = visit.t.notice_forbidden(&view.merchant.name);
            again(visit, &view, StatusCode::FORBIDDEN, Some(notice.into()))
        }
        Err(problem) => visit.problem(problem),
    }
}

/// The vendor could not be sure that the open attempt is closed, so nothing else opens.
async fn still_open(visit: &mut Visit, status: StatusCode) -> Response {
    let view = match visit.view().await {
        Ok(view) => view,
        Err(problem) => return visit.problem(problem),
    };
    let state = CheckoutState::from_view(&view, visit.backend.now());
    let (CheckoutState::Open(attempt, _)
    | CheckoutState::Lapsed(attempt)
    | CheckoutState::Checking(attempt)) = state
    else {
        // The state has changed, and its page is more informative than the notice.
        return visit.see_other(&address(&view));
    };
    let notice = visit.t.notice_still_open(&visit.provider(attempt));
    again(visit, &view, status, Some(notice.into()))
}

impl From<String> for Notice {
    fn from(title: String) -> Self {
        Self {
            title,
            text: String::new(),
            bad: false,
        }
    }
}

fn can_choose(visit: &Visit, view: &CheckoutView) -> bool {
    CheckoutState::from_view(view, visit.backend.now()) == CheckoutState::Choose
}

/// A notice about the last attempt, which has just ended; if another attempt's money is on record, a notice
/// that something else has happened.
fn about_last(visit: &Visit, view: &CheckoutView) -> Option<Notice> {
    let notice = ended::notice(visit, view);
    Some(notice.unwrap_or_else(|| visit.t.notice_conflict().into()))
}

/// A notice that a method is unavailable, or that its provider did not respond.
fn not_available(visit: &Visit, view: &CheckoutView) -> Notice {
    let last_is_down = ended_in(view, &[AttemptState::Unavailable]);
    let notice = ended::notice(visit, view).filter(|_| last_is_down);
    notice.unwrap_or_else(|| Notice {
        text: match can_choose(visit, view) {
            true => visit.t.choose_another(),
            false => String::new(),
        },
        ..visit.t.notice_not_available().into()
    })
}

/// The payment's current page with a notice.
fn again(
    visit: &Visit,
    view: &CheckoutView,
    status: StatusCode,
    notice: Option<Notice>,
) -> Response {
    let options = PageOptions {
        status: Some(status),
        notice,
        ..PageOptions::default()
    };
    current(visit, view, Updates::Shown, options)
}

/// The payment's current page.
fn current(visit: &Visit, view: &CheckoutView, updates: Updates, options: PageOptions) -> Response {
    let state = CheckoutState::from_view(view, visit.backend.now());
    match state {
        CheckoutState::Choose => offers(visit, view, options),
        CheckoutState::Open(_, PayerAction::Ask(asked)) => ask(
            visit,
            view,
            questions::blank(asked, visit.t),
            updates,
            options,
        ),
        CheckoutState::Open(_, PayerAction::Show(instructions)) => {
            instruct(visit, view, instructions, updates, options)
        }
        _ => status::page(visit, view, state, PageKind::Checkout(updates), options),
    }
}

fn offers(visit: &Visit, view: &CheckoutView, mut options: PageOptions) -> Response {
    let payment = &view.aggregate.payment;
    let preselected = |offer: &&Offer| payment.requested_method == Some(offer.method);
    let first = view.offers.iter().filter(preselected);
    let others = view.offers.iter().filter(|offer| !preselected(offer));
    let mut rows: Vec<Row> = first
        .chain(others)
        .filter_map(|offer| {
            let provider = offer.providers.first()?;
            let mut row = row(visit, view, offer, provider);
            if let Some(down) = ended::down(visit, view, offer) {
                row.is_down = true;
                row.says = vec![(visit.t.choose_down(&down), false)];
            } else if ended::was_declined(view, offer) {
                row.says.push((visit.t.choose_declined(), true));
            }
            row.preselected = preselected(&offer) && !row.is_down;
            Some(row)
        })
        .collect();
    rows.sort_by_key(|row| row.is_down);
    if options.notice.is_none() {
        options.notice = ended::notice(visit, view);
    }
    let summary = visit.summary(view);
    let heading = visit
        .t
        .choose_title(&summary.amount.to_string(), &view.merchant.name);
    let again = !view.aggregate.attempts.is_empty();
    visit.framed(heading, Some(summary), options, |frame| Choose {
        frame,
        action: format!("{}/choose", address(view)),
        rows,
        again,
        back: view.back_to_merchant.clone(),
    })
}

/// Asks for confirmation because another account than the displayed one would be used.
fn changed(visit: &Visit, view: &CheckoutView, method: MethodId, account: &AccountId) -> Response {
    let offer = view.offers.iter().find(|offer| offer.method == method);
    let found = offer.and_then(|offer| {
        let mut providers = offer.providers.iter();
        let provider = providers.find(|provider| provider.id == *account)?;
        Some(row(visit, view, offer, provider))
    });
    let Some(row) = found else {
        // The available methods have changed, so the new list is shown.
        let notice = Some(not_available(visit, view));
        return again(visit, view, StatusCode::CONFLICT, notice);
    };
    let page = address(view);
    let heading = visit.t.changed_title();
    visit.page(view, &heading, PageOptions::default(), |frame| Changed {
        frame,
        action: format!("{page}/choose"),
        all: page,
        row,
    })
}

fn row(visit: &Visit, view: &CheckoutView, offer: &Offer, provider: &OfferedProvider) -> Row {
    let language = visit.t.tag();
    let translation = offer.description.translation(language);
    let about = translation.and_then(|translation| translation.note.clone());
    let is_named = view.merchant.brand.shows_provider;
    let via = is_named.then(|| visit.t.choose_via(&provider.name));
    Row {
        method: offer.method.to_string(),
        preselected: false,
        label: offer.description.label_in(language).to_owned(),
        says: about
            .into_iter()
            .chain(via)
            .map(|line| (line, false))
            .collect(),
        is_down: false,
        icon: icons::Drawn(Arc::clone(&offer.description)),
        seen: provider.id.as_str().to_owned(),
        provider: provider.name.clone(),
        note: provider.verification_note.clone(),
        link: provider
            .verification_url
            .clone()
            .filter(|url| links::is_page(url, true)),
    }
}

fn ask(
    visit: &Visit,
    view: &CheckoutView,
    fields: Vec<Field>,
    updates: Updates,
    options: PageOptions,
) -> Response {
    let state = CheckoutState::from_view(view, visit.backend.now());
    let provider = view
        .aggregate
        .open_attempt()
        .map_or_else(|| visit.t.provider_unnamed(), |open| visit.provider(open));
    let heading = visit.t.questions_title(&provider);
    let navigation = status::navigation(visit, view, state, PageKind::Checkout(updates), None);
    visit.page(view, &heading, options, |frame| Questions {
        frame,
        action: format!("{}/answer", address(view)),
        provider,
        fields,
        navigation,
    })
}

fn instruct(
    visit: &Visit,
    view: &CheckoutView,
    instructions: &Instructions,
    updates: Updates,
    mut options: PageOptions,
) -> Response {
    let state = CheckoutState::from_view(view, visit.backend.now());
    let Some(open) = view.aggregate.open_attempt() else {
        return visit.problem(Problem::Failure);
    };
    let kind = PageKind::Checkout(updates);
    options.refresh = status::refresh(visit, view, state, kind);
    let navigation = status::navigation(visit, view, state, kind, options.refresh.as_ref());
    options.watch = options.refresh.as_ref().map(|refresh| Watch {
        status: format!("{}/status", address(view)),
        version: checkout_state::version(view, visit.backend.now()),
        next: refresh.to.clone().unwrap_or_else(|| address(view)),
    });
    let plain_loopback = visit.backend.plain_loopback();
    let link = instructions.link.clone();
    let link = link.filter(|link| links::is_opener(link, plain_loopback));
    let until = open.usable_until();
    let qr = instructions.qr.as_deref().and_then(qr::draw);
    // If only a text is shown, the payer waits for something, such as a confirmation of the payment.
    let can_pay = link.is_some() || qr.is_some() || !instructions.details.is_empty();
    let heading = match can_pay {
        true => visit.t.show_title(&visit.method(open)),
        false => visit.t.waiting_title(&visit.provider(open)),
    };
    visit.page(view, &heading.clone(), options, |frame| Show {
        frame,
        heading,
        text: instructions.text.clone(),
        left: can_pay.then(|| time_left(visit.t, until, visit.backend.now())),
        details: instructions.details.clone(),
        qr,
        link: link.map(|link| {
            let label = match links::is_page(&link, plain_loopback) {
                true => visit.t.show_page(),
                false => visit.t.show_link(),
            };
            (link, label)
        }),
        paid: format!("/return/{}", open.return_token.expose()),
        navigation,
    })
}

/// Time until a link or code expires, as a duration, because the payer's clock and time zone are unknown.
fn time_left(t: Texts, until: Time, now: Time) -> TimeLeft {
    let minutes = until.since(now).as_secs().div_ceil(60);
    let left = match (minutes / 60, minutes % 60) {
        (0 | 1, _) => format!("{minutes}\u{a0}min"),
        (hours, 0) => format!("{hours}\u{a0}h"),
        (hours, minutes) => format!("{hours}\u{a0}h {minutes}\u{a0}min"),
    };
    TimeLeft {
        text: t.show_left(&left),
        until: until.rfc3339(),
    }
}
