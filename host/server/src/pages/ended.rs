//! Texts about an attempt that ended without money: the reason, and advice for the payer.

use std::time::Duration;

use kassette_domain::attempt::{Attempt, AttemptState, Stage};
use kassette_domain::decline::DeclineCode;
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_gateway::checkout::CheckoutView;
use kassette_gateway::methods::Offer;

use super::checkout_state::CheckoutState;
use super::money::OnRecord;
use super::templates::Notice;
use super::texts::Texts;
use super::visit::Visit;

/// How long the same payer cannot choose a provider again that did not respond.
const DOWN_FOR: Duration = Duration::from_secs(60);

/// Why an attempt ended, in a sentence. The reasons are those of the API's `decline_code`; it has none for
/// suspected fraud or a stolen card.
pub(crate) fn reason(visit: &Visit, attempt: &Attempt) -> Option<String> {
    let (t, provider) = (visit.t, || visit.provider(attempt));
    Some(match DeclineCode::of_attempt(attempt)? {
        DeclineCode::InsufficientFunds => t.declined_funds(),
        DeclineCode::CardExpired => t.declined_expired(),
        DeclineCode::AuthenticationFailed => t.declined_authentication(),
        DeclineCode::LimitExceeded => t.declined_limit(),
        DeclineCode::Cancelled => t.declined_cancelled(),
        DeclineCode::Declined => t.declined_bank(),
        DeclineCode::Failed => t.declined_provider(&provider()),
        DeclineCode::Unavailable => t.down_title(&provider()),
    })
}

/// Advice for a payer who can choose another method.
fn advice(t: Texts, code: DeclineCode) -> String {
    match code {
        DeclineCode::InsufficientFunds => t.advice_funds(),
        DeclineCode::CardExpired => t.advice_expired(),
        DeclineCode::AuthenticationFailed => t.advice_authentication(),
        DeclineCode::LimitExceeded => t.advice_limit(),
        DeclineCode::Declined => t.advice_bank(),
        DeclineCode::Cancelled | DeclineCode::Failed => t.try_again(),
        DeclineCode::Unavailable => t.advice_down(),
    }
}

/// Notice about the last attempt. `None` if that attempt did not end without money, if another attempt's money
/// is on record, or if its provider was down more than a minute ago.
pub(crate) fn notice(visit: &Visit, view: &CheckoutView) -> Option<Notice> {
    let aggregate = &view.aggregate;
    let last = aggregate.attempts.last()?;
    let code = DeclineCode::of_attempt(last)?;
    let is_down = code == DeclineCode::Unavailable;
    let is_over = is_down && !is_down_now(visit, last);
    if is_over || OnRecord::of_all(aggregate) != OnRecord::Nothing {
        return None;
    }
    let nothing = match is_down {
        true => visit.t.down_text(),
        false => visit.t.not_taken(),
    };
    let can_choose = CheckoutState::from_view(view, visit.backend.now()) == CheckoutState::Choose;
    let what_to_do = can_choose.then(|| match is_last_but_one(aggregate) && !is_down {
        true => visit.t.one_try_left(),
        false => advice(visit.t, code),
    });
    let sentences: Vec<_> = [nothing].into_iter().chain(what_to_do).collect();
    Some(Notice {
        title: reason(visit, last)?,
        text: sentences.join(" "),
        bad: !is_down,
    })
}

/// Whether the payment fails with the next declined attempt.
fn is_last_but_one(aggregate: &PaymentAggregate) -> bool {
    let declined = |attempt: &&Attempt| attempt.state() == AttemptState::Declined;
    let declined = aggregate.attempts.iter().filter(declined).count();
    declined + 1 == usize::from(PaymentAggregate::MAX_DECLINES)
}

/// Whether an attempt ended less than a minute ago because its provider did not respond.
fn is_down_now(visit: &Visit, attempt: &Attempt) -> bool {
    let Stage::Ended { at, .. } = attempt.stage else {
        return false;
    };
    attempt.state() == AttemptState::Unavailable && visit.backend.now().since(at) < DOWN_FOR
}

/// Name of the provider because of which this payer cannot choose a method now: all of the method's providers
/// have recently failed to respond. `None` if the method can be chosen.
pub(crate) fn down(visit: &Visit, view: &CheckoutView, offer: &Offer) -> Option<String> {
    let mut attempts = view.aggregate.attempts.iter().rev();
    let last =
        attempts.find(|attempt| attempt.method == offer.method && is_down_now(visit, attempt))?;
    let all = offer.providers.iter().all(|provider| {
        let mut attempts = view.aggregate.attempts.iter();
        attempts.any(|attempt| attempt.account == provider.id && is_down_now(visit, attempt))
    });
    all.then(|| visit.provider(last))
}

/// Whether the last attempt used this method and was declined.
pub(crate) fn was_declined(view: &CheckoutView, offer: &Offer) -> bool {
    let last = view.aggregate.attempts.last();
    last.is_some_and(|last| last.method == offer.method && last.state() == AttemptState::Declined)
}
