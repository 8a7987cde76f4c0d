//! The hosted page: what can be chosen, the choice, and what follows from it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse as _, Response};
use http::{Request, StatusCode};
use kassette_domain::attempt::AttemptState;
use kassette_domain::id::AccountId;
use kassette_domain::method::MethodId;
use kassette_domain::provider::{Instructions, Payer, PayerAction};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_gateway::checkout::CheckoutView;
use kassette_gateway::methods::{Offer, OfferedProvider};
use kassette_gateway::start::{Start, StartError, StartedPayment, Starter};
use tokio::time::timeout;

use super::checkout_state::CheckoutState;
use super::forms;
use super::money::OnRecord;
use super::problems::Problem;
use super::reply::Referrer;
use super::status::{self, PageKind, Updates, followed, left};
use super::templates::{Changed, Choose, Field, Go, Questions, Row, Show, TimeLeft};
use super::texts::Texts;
use super::visit::{PageOptions, Visit, address};
use super::{assets, icons, links, qr, questions};

/// `GET /checkout/{token}`
pub(crate) async fn show(visit: Visit, RawQuery(query): RawQuery) -> Response {
    match visit.view().await {
        Ok(view) => {
            let updates = Updates::asked(query.as_deref());
            let state = CheckoutState::of(&view, visit.backend.now());
            if updates == Updates::Leaving && !matches!(state, CheckoutState::Closing(_)) {
                return still_open(&visit, StatusCode::OK).await;
            }
            current(&visit, &view, updates, PageOptions::default())
        }
        Err(problem) => visit.problem(problem),
    }
}

/// `GET` of a form's address: where the payment stands.
pub(crate) async fn look_again(visit: Visit) -> Response {
    match &visit.token {
        Some(token) => visit.see_other(&format!("/checkout/{token}")),
        None => visit.problem(Problem::NotFound),
    }
}

/// `GET /checkout/{token}/go`: to the vendor, where the open attempt is continued there.
pub(crate) async fn go(visit: Visit) -> Response {
    let view = match visit.view().await {
        Ok(view) => view,
        Err(problem) => return visit.problem(problem),
    };
    let (attempt, target) = match CheckoutState::of(&view, visit.backend.now()) {
        CheckoutState::Open(attempt, PayerAction::Redirect(target)) => (attempt, target),
        CheckoutState::Checking(_) => return visit.see_other(&followed(&view)),
        // Its payer was not told when the start was answered.
        CheckoutState::Choose | CheckoutState::Unavailable
            if ended_in(&view, AttemptState::Declined) =>
        {
            let notice = Notice::declined(visit.t, &view);
            return again(&visit, &view, StatusCode::OK, notice);
        }
        CheckoutState::Choose | CheckoutState::Unavailable
            if ended_in(&view, AttemptState::Unavailable) =>
        {
            return again(
                &visit,
                &view,
                StatusCode::OK,
                Notice::not_available(visit.t),
            );
        }
        _ => return visit.see_other(&address(&view)),
    };
    if !links::is_page(target, visit.backend.plain_loopback()) {
        tracing::error!(attempt.id = %attempt.id, "an attempt leads to an address that no payer may be sent to");
        return visit.problem(Problem::Failure);
    }
    let (target, provider) = (target.clone(), visit.provider(&view, attempt));
    let options = PageOptions {
        referrer: Referrer::None,
        leave: Some(target.clone()),
        ..PageOptions::default()
    };
    let heading = visit.t.go_title(&provider);
    visit.page(&view, &heading, options, |frame| Go {
        frame,
        target,
        provider,
    })
}

/// `GET /checkout/{token}/logo/{file}`: the merchant's logo, where it is still that file.
pub(crate) async fn logo(visit: Visit, Path((_, file)): Path<(String, String)>) -> Response {
    let token = visit.token.as_deref().unwrap_or_default();
    let logo = match visit.backend.logo(token).await {
        Ok(logo) => logo.filter(|logo| file == format!("{}.png", logo.digest())),
        Err(fault) => return visit.problem(fault.into()),
    };
    match logo {
        Some(logo) => assets::unchanging("image/png", Body::from(logo.png().to_vec())),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// `POST /checkout/{token}/choose`
pub(crate) async fn choose(visit: Visit, request: Request<Body>) -> Response {
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
        let notice = Notice {
            sentence: None,
            advice: Some(visit.t.notice_choose()),
        };
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
        // The vendor takes its time: the start goes on, and the page that waits follows it there.
        Err(_) => visit.see_other(&followed(&view)),
        Ok(Ok(started)) => onwards(&visit, &view, &started),
        Ok(Err(StartError::AskAgain(account))) => changed(&visit, &view, method, &account),
        Ok(Err(error)) => refused(&visit, error).await,
    }
}

/// How long a payer's tap may show nothing.
const AT_ONCE: Duration = Duration::from_millis(1500);

/// Whether the last attempt of a payment is in a state.
fn ended_in(view: &CheckoutView, state: AttemptState) -> bool {
    let last = view.aggregate.attempts.last();
    last.is_some_and(|attempt| attempt.state == state)
}

/// `POST /checkout/{token}/answer`
pub(crate) async fn answer(visit: Visit, request: Request<Body>) -> Response {
    let form = match forms::read(request, &visit.public_url).await {
        Ok(form) => form,
        Err(bad) => return visit.problem(Problem::Form(bad)),
    };
    let view = match visit.view().await {
        Ok(view) => view,
        Err(problem) => return visit.problem(problem),
    };
    let CheckoutState::Open(_, PayerAction::Ask(asked)) =
        CheckoutState::of(&view, visit.backend.now())
    else {
        let notice = visit.t.notice_conflict().into();
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
        Ok(Err(error)) => refused(&visit, error).await,
    }
}

/// `POST /checkout/{token}/abandon`
pub(crate) async fn abandon(visit: Visit, request: Request<Body>) -> Response {
    if let Err(bad) = forms::read(request, &visit.public_url).await {
        return visit.problem(Problem::Form(bad));
    }
    let Some(token) = visit.token.clone() else {
        return visit.problem(Problem::NotFound);
    };
    let page = format!("/checkout/{token}");
    match timeout(AT_ONCE, visit.backend.abandon(&token)).await {
        // The closing goes on, and the page that follows it says how it ended.
        Err(_) => visit.see_other(&left(&page)),
        Ok(Err(fault)) => visit.problem(fault.into()),
        Ok(Ok(None)) => visit.problem(Problem::NotFound),
        Ok(Ok(Some(aggregate))) if aggregate.open_attempt().is_none() => visit.see_other(&page),
        Ok(Ok(Some(_))) => still_open(&visit, StatusCode::CONFLICT).await,
    }
}

impl Visit {
    /// The payment behind the token.
    async fn view(&self) -> Result<CheckoutView, Problem> {
        let token = self.token.as_deref().ok_or(Problem::NotFound)?;
        let view = self.backend.checkout(token).await?;
        view.ok_or(Problem::NotFound)
    }
}

/// After a start: to the vendor, or to what our own page shows before it.
fn onwards(visit: &Visit, view: &CheckoutView, started: &StartedPayment) -> Response {
    let page = address(view);
    match &started.attempt.action {
        Some(PayerAction::Redirect(_)) => visit.see_other(&format!("{page}/go")),
        _ => visit.see_other(&page),
    }
}

/// Why a start did not lead on, above where the payment stands now.
async fn refused(visit: &Visit, error: StartError) -> Response {
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
        StartError::NotAvailable(_) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            Notice::not_available(visit.t),
        ),
        StartError::Declined => {
            return match visit.view().await {
                Ok(view) => {
                    let notice = Notice::declined(visit.t, &view);
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
        Ok(view) => again(visit, &view, status, notice),
        Err(problem) => visit.problem(problem),
    }
}

fn takes_nothing(view: &CheckoutView) -> bool {
    OnRecord::of_all(&view.aggregate) == OnRecord::Nothing
}

async fn forbidden(visit: &Visit) -> Response {
    match visit.view().await {
        Ok(view) => {
            let notice = visit.t.notice_forbidden(&view.merchant.name);
            again(visit, &view, StatusCode::FORBIDDEN, notice.into())
        }
        Err(problem) => visit.problem(problem),
    }
}

/// The vendor could not be sure that the open attempt is closed, so nothing else opens.
async fn still_open(visit: &Visit, status: StatusCode) -> Response {
    let view = match visit.view().await {
        Ok(view) => view,
        Err(problem) => return visit.problem(problem),
    };
    let state = CheckoutState::of(&view, visit.backend.now());
    let (CheckoutState::Open(attempt, _)
    | CheckoutState::Lapsed(attempt)
    | CheckoutState::Checking(attempt)) = state
    else {
        // Something has happened meanwhile that says more than any notice.
        return visit.see_other(&address(&view));
    };
    let notice = visit.t.notice_still_open(&visit.provider(&view, attempt));
    again(visit, &view, status, notice.into())
}

/// What is said above a page about what the payer just did.
struct Notice {
    sentence: Option<String>,
    /// To choose; said only where the page offers a choice.
    advice: Option<String>,
}

impl From<String> for Notice {
    fn from(sentence: String) -> Self {
        Self {
            sentence: Some(sentence),
            advice: None,
        }
    }
}

impl Notice {
    fn declined(t: Texts, view: &CheckoutView) -> Self {
        // Another attempt's money is on record: no notice says that none was taken.
        if !takes_nothing(view) {
            return t.notice_conflict().into();
        }
        Self {
            sentence: Some(t.notice_declined()),
            advice: Some(t.try_again()),
        }
    }

    fn not_available(t: Texts) -> Self {
        Self {
            sentence: Some(t.notice_not_available()),
            advice: Some(t.choose_another()),
        }
    }
}

/// Where the payment stands, under a notice.
fn again(visit: &Visit, view: &CheckoutView, status: StatusCode, notice: Notice) -> Response {
    let can_choose = CheckoutState::of(view, visit.backend.now()) == CheckoutState::Choose;
    let advice = notice.advice.filter(|_| can_choose);
    let sentences: Vec<_> = notice.sentence.into_iter().chain(advice).collect();
    let options = PageOptions {
        status: Some(status),
        notice: (!sentences.is_empty()).then(|| sentences.join(" ")),
        ..PageOptions::default()
    };
    current(visit, view, Updates::Shown, options)
}

/// The page of a payment as it stands.
fn current(visit: &Visit, view: &CheckoutView, updates: Updates, options: PageOptions) -> Response {
    let state = CheckoutState::of(view, visit.backend.now());
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

fn offers(visit: &Visit, view: &CheckoutView, options: PageOptions) -> Response {
    let payment = &view.aggregate.payment;
    let preselected = |offer: &&Offer| payment.requested_method == Some(offer.method);
    let first = view.offers.iter().filter(preselected);
    let others = view.offers.iter().filter(|offer| !preselected(offer));
    // Most methods go through the same few providers.
    let mut sentences: HashMap<&str, Option<String>> = HashMap::new();
    let rows = first
        .chain(others)
        .filter_map(|offer| {
            let provider = offer.providers.first()?;
            let via = sentences.entry(&provider.name);
            let via = via.or_insert_with(|| via_sentence(visit, view, provider));
            Some(Row {
                preselected: preselected(&offer),
                ..row(visit, view, offer, provider, via.clone())
            })
        })
        .collect();
    let summary = visit.summary(view);
    let heading = visit
        .t
        .choose_title(&summary.amount.to_string(), &view.merchant.name);
    visit.framed(heading, Some(summary), options, |frame| Choose {
        frame,
        action: format!("{}/choose", address(view)),
        rows,
        back: view.back_to_merchant.clone(),
    })
}

/// Asks once more, because another account than the payer saw would be used.
fn changed(visit: &Visit, view: &CheckoutView, method: MethodId, account: &AccountId) -> Response {
    let offer = view.offers.iter().find(|offer| offer.method == method);
    let found = offer.and_then(|offer| {
        let mut providers = offer.providers.iter();
        let provider = providers.find(|provider| provider.id == *account)?;
        let via = via_sentence(visit, view, provider);
        Some(row(visit, view, offer, provider, via))
    });
    let Some(row) = found else {
        // The listing has changed meanwhile: the new one says it all.
        return again(
            visit,
            view,
            StatusCode::CONFLICT,
            Notice::not_available(visit.t),
        );
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

/// Through whom the money goes; none where the merchant's pages do not say it.
fn via_sentence(visit: &Visit, view: &CheckoutView, provider: &OfferedProvider) -> Option<String> {
    let is_shown = !view.merchant.brand.hides_provider;
    is_shown.then(|| visit.t.choose_via(&provider.name))
}

fn row(
    visit: &Visit,
    view: &CheckoutView,
    offer: &Offer,
    provider: &OfferedProvider,
    via: Option<String>,
) -> Row {
    let language = visit.t.tag();
    let translation = offer.description.translation(language);
    Row {
        method: offer.method.to_string(),
        preselected: false,
        label: offer.description.label_in(language).to_owned(),
        about: translation.and_then(|translation| translation.note.clone()),
        icon: icons::Drawn(Arc::clone(&offer.description)),
        seen: provider.id.as_str().to_owned(),
        provider: visit.provider_shown(view, Some(provider.name.clone())),
        via,
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
    let state = CheckoutState::of(view, visit.backend.now());
    let provider = view.aggregate.open_attempt().map_or_else(
        || visit.t.provider_unnamed(),
        |open| visit.provider(view, open),
    );
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
    let state = CheckoutState::of(view, visit.backend.now());
    let Some(open) = view.aggregate.open_attempt() else {
        return visit.problem(Problem::Failure);
    };
    let kind = PageKind::Checkout(updates);
    options.refresh = status::refresh(visit, view, state, kind);
    let navigation = status::navigation(visit, view, state, kind, options.refresh.as_ref());
    let plain_loopback = visit.backend.plain_loopback();
    let link = instructions.link.clone();
    let link = link.filter(|link| links::is_opener(link, plain_loopback));
    let until = open
        .until
        .map_or(open.expires_at, |until| until.min(open.expires_at));
    let qr = instructions.qr.as_deref().and_then(qr::draw);
    // Words alone say that something is awaited, such as the confirmation of what was paid.
    let can_pay = link.is_some() || qr.is_some() || !instructions.details.is_empty();
    let heading = match can_pay {
        true => visit.t.show_title(&visit.method(open)),
        false => visit.t.waiting_title(&visit.provider(view, open)),
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

/// How long an address or a code is good. A page cannot know the payer's clock without a script, so it says
/// what is left, and the time as all the world has it; its own updates count down.
fn time_left(t: Texts, until: Time, now: Time) -> TimeLeft {
    let minutes = until.since(now).as_secs().div_ceil(60);
    let left = match (minutes / 60, minutes % 60) {
        (0 | 1, _) => format!("{minutes}\u{a0}min"),
        (hours, 0) => format!("{hours}\u{a0}h"),
        (hours, minutes) => format!("{hours}\u{a0}h {minutes}\u{a0}min"),
    };
    let until = until.rfc3339();
    // The hour and the minute of an RFC 3339 time.
    let clock = until.get(11..16).unwrap_or(&until);
    TimeLeft {
        text: t.show_left(&left, clock),
        until,
    }
}
