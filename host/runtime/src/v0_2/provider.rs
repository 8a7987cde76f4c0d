//! Converts the interface `payments` to and from the domain.

use kassette_domain::funds::Funds;
use kassette_domain::id::{AttemptId, RefundId};
use kassette_domain::key::Environment;
use kassette_domain::money::Minor;
use kassette_domain::provider::{
    AccountFacts, AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Condition,
    Dispute, DisputeKind, DisputeState, Instructions, Notice, Open, Particulars, PayerAction,
    ProviderCapture, ProviderRefund, ProviderSettlement, ProviderStatus, QueryFailure,
    QueryPurpose, Question, QuestionKind, RefundState, Report, StartFailure, Started, Subject,
    Verb,
};
use kassette_domain::question::is_forbidden;
use kassette_domain::time::Time;

use super::bindings::provider::exports::kassette::plugin::payments as wit;
use super::bindings::provider::kassette::plugin::http as wit_http;
use super::bounds::{self, DETAIL, at_most, bad_reply};
use crate::error::CallError;
use crate::links::{AllowedPages, PageRefused};
use crate::text;

/// Maximum length of a reference, in bytes, from the contract.
const REFERENCE: usize = 255;
/// Maximum number of other ids of a payment, from the contract.
const REFERENCES: usize = 8;
/// Maximum number of sentences about unreadable parts, from the contract.
const UNREADABLE: usize = 8;
/// Maximum length of a URL of the provider's dashboard, in bytes.
const PROVIDER_URL: usize = 2048;
/// Maximum length of a provider's status, reason or instrument, in bytes. Longer text is cut.
const WORD: usize = 64;
/// Number of digits of the shortest card numbers.
const LEAST_CARD_DIGITS: usize = 12;
/// Maximum number of notices in a callback: enough for a batch, and far fewer than fit into 256 KiB.
const NOTICES: usize = 256;
/// Maximum length of the response to a callback, in bytes.
const ANSWER: usize = 4 * 1024;
/// Media types of the response to a callback: none that a browser would execute on our origin.
const ANSWER_TYPES: [&str; 3] = [
    "text/plain",
    "application/json",
    "application/x-www-form-urlencoded",
];
/// Maximum number of questions on a page.
const QUESTIONS: usize = 10;
/// Maximum number of choices, for a list of countries or banks.
const CHOICES: usize = 300;
/// Maximum number of fields of a posted form, and maximum total size in bytes.
const FIELDS: usize = 100;
const FIELD_BYTES: usize = 64 * 1024;
/// Maximum number of values to copy in instructions.
const DETAILS: usize = 20;
/// Maximum length of text on the payer's page, in bytes. Longer text is cut.
const SENTENCE: usize = 1_000;
/// Maximum length of a heading on the payer's page, in bytes. Longer text is cut.
const HEADING: usize = 100;
/// Maximum length of a value that the payer copies, in bytes. Never cut, because a partial address is a different
/// one.
const VALUE: usize = 500;
/// Maximum length of the text of a QR code, in bytes, with space for error correction.
const QR: usize = 2_000;

// ---- input of a module -----------------------------------------------------------------------

pub(crate) fn account(account: &AccountFacts) -> wit::Account {
    wit::Account {
        id: account.id.as_str().to_owned(),
        environment: environment(account.environment),
        now: account.now.as_millis(),
        callback_url: account.callback_url.clone(),
        settings: account.settings.clone(),
    }
}

pub(crate) fn environment(environment: Environment) -> wit::Environment {
    match environment {
        Environment::Test => wit::Environment::Test,
        Environment::Live => wit::Environment::Live,
    }
}

pub(crate) fn attempt(facts: &AttemptFacts) -> wit::Attempt {
    let payer = &facts.payer;
    wit::Attempt {
        id: facts.id.to_string(),
        method: facts.method.as_str().to_owned(),
        due: wit::Money {
            amount: facts.due.amount.0,
            currency: facts.due.currency.code().to_owned(),
        },
        merchant_order: facts.order.clone(),
        merchant: facts.merchant.clone(),
        return_url: facts.return_url.clone(),
        cancel_url: facts.cancel_url.clone(),
        expires: facts.expires.as_millis(),
        payer: wit::Payer {
            email: payer.email.as_ref().map(|email| email.expose().to_owned()),
            ip: payer.ip.clone(),
            language: payer.language.clone(),
            country: payer.country.clone(),
        },
        answers: facts
            .answers
            .iter()
            .map(|(name, value)| (name.clone(), value.expose().to_owned()))
            .collect(),
    }
}

pub(crate) fn incoming(incoming: &CallbackRequest) -> wit::CallbackRequest {
    wit::CallbackRequest {
        verb: verb_to(incoming.verb),
        path: incoming.path.clone(),
        query: incoming.query.clone(),
        headers: incoming.headers.clone(),
        body: incoming.body.clone(),
    }
}

pub(crate) fn purpose(purpose: QueryPurpose) -> wit::QueryPurpose {
    match purpose {
        QueryPurpose::Capture => wit::QueryPurpose::Capture,
        QueryPurpose::Sync => wit::QueryPurpose::Sync,
        QueryPurpose::Cancel => wit::QueryPurpose::Cancel,
    }
}

fn verb_to(verb: Verb) -> wit_http::Verb {
    match verb {
        Verb::Get => wit_http::Verb::Get,
        Verb::Post => wit_http::Verb::Post,
        Verb::Put => wit_http::Verb::Put,
        Verb::Patch => wit_http::Verb::Patch,
        Verb::Delete => wit_http::Verb::Delete,
    }
}

pub(crate) fn verb_from(verb: wit_http::Verb) -> Verb {
    match verb {
        wit_http::Verb::Get => Verb::Get,
        wit_http::Verb::Post => Verb::Post,
        wit_http::Verb::Put => Verb::Put,
        wit_http::Verb::Patch => Verb::Patch,
        wit_http::Verb::Delete => Verb::Delete,
    }
}

// ---- start -----------------------------------------------------------------------------------

/// Converts the answer of `start` and checks all texts and links.
pub(crate) fn started(
    answer: Result<wit::Started, wit::StartFailure>,
    pages: AllowedPages<'_>,
) -> Result<Result<Started, StartFailure>, CallError> {
    Ok(match answer {
        Ok(wit::Started::Open(open)) => self::open(open, pages)?.map(Started::Open),
        Ok(wit::Started::Ask(questions)) => Ok(Started::Ask(self::questions(questions)?)),
        Err(wit::StartFailure::Unavailable(why)) => {
            Err(StartFailure::Unavailable(text::cut(&why, DETAIL)))
        }
        Err(wit::StartFailure::NotActivated(why)) => {
            Err(StartFailure::NotActivated(text::cut(&why, DETAIL)))
        }
        Err(wit::StartFailure::Declined(why)) => {
            Err(StartFailure::Declined(text::cut(&why, DETAIL)))
        }
        Err(wit::StartFailure::Uncertain(why)) => {
            Err(StartFailure::Uncertain(text::cut(&why, DETAIL)))
        }
    })
}

fn open(open: wit::Open, pages: AllowedPages<'_>) -> Result<Result<Open, StartFailure>, CallError> {
    let reference = reference(open.reference)?;
    Ok(match action(open.action, pages)? {
        Ok(action) => Ok(Open {
            reference,
            action,
            until: open.until.map(Time::from_millis),
        }),
        Err(PageRefused(page)) => Err(StartFailure::PageRefused { reference, page }),
    })
}

fn action(
    action: wit::Action,
    pages: AllowedPages<'_>,
) -> Result<Result<PayerAction, PageRefused>, CallError> {
    Ok(match action {
        wit::Action::Redirect(url) => pages.check_page(&url).map(PayerAction::Redirect),
        wit::Action::Post(form) => {
            let fields = at_most(form.fields, FIELDS, "a form has too many fields")?;
            let bytes: usize = fields
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            if bytes > FIELD_BYTES {
                return bad_reply("a form is too large");
            }
            let url = pages.check_page(&form.url);
            url.map(|url| PayerAction::Post { url, fields })
        }
        wit::Action::Show(instructions) => {
            self::instructions(instructions, pages)?.map(PayerAction::Show)
        }
    })
}

fn instructions(
    instructions: wit::Instructions,
    pages: AllowedPages<'_>,
) -> Result<Result<Instructions, PageRefused>, CallError> {
    let whole = |value: String, most, otherwise| bounds::within(value, most, otherwise);
    let link = match instructions.link.map(|link| pages.check_link(&link)) {
        Some(Err(refused)) => return Ok(Err(refused)),
        Some(Ok(link)) => Some(link),
        None => None,
    };
    Ok(Ok(Instructions {
        text: text::cut(&instructions.text, SENTENCE),
        details: at_most(instructions.details, DETAILS, "too many values to copy")?
            .into_iter()
            .map(|(label, value)| {
                let value = whole(value, VALUE, "a value to copy is over 500 bytes")?;
                Ok((text::cut(&label, HEADING), value))
            })
            .collect::<Result<_, CallError>>()?,
        qr: instructions
            .qr
            .map(|qr| whole(qr, QR, "the QR code's text is over 2,000 bytes"))
            .transpose()?,
        link,
    }))
}

fn questions(questions: Vec<wit::Question>) -> Result<Vec<Question>, CallError> {
    if questions.is_empty() {
        return bad_reply("nothing is asked");
    }
    let questions = at_most(questions, QUESTIONS, "too many questions")?;
    questions.into_iter().map(question).collect()
}

fn question(question: wit::Question) -> Result<Question, CallError> {
    if !bounds::is_kebab(&question.name) {
        return bad_reply("a question's name is not kebab-case");
    }
    let kind = match question.kind {
        wit::QuestionKind::Text => QuestionKind::Text,
        wit::QuestionKind::Email => QuestionKind::Email,
        wit::QuestionKind::Phone => QuestionKind::Phone,
        wit::QuestionKind::GivenName => QuestionKind::GivenName,
        wit::QuestionKind::FamilyName => QuestionKind::FamilyName,
        wit::QuestionKind::Choice => QuestionKind::Choice,
    };
    if kind == QuestionKind::Choice && question.choices.is_empty() {
        return bad_reply("a choice has no choices");
    }
    let choices = at_most(question.choices, CHOICES, "too many choices")?
        .into_iter()
        .map(|(value, label)| {
            let value = bounds::within(value, VALUE, "a choice's value is over 500 bytes")?;
            Ok((value, text::cut(&label, HEADING)))
        })
        .collect::<Result<_, CallError>>()?;
    let question = Question {
        name: question.name,
        label: text::cut(&question.label, HEADING),
        kind,
        required: question.required,
        choices,
    };
    if is_forbidden(&question) {
        return bad_reply("a question asks for a card number, a card code or a password");
    }
    Ok(question)
}

/// Checks an id of the provider: 1 to 255 bytes, printable.
pub(super) fn reference(reference: String) -> Result<String, CallError> {
    if reference.is_empty() || reference.len() > REFERENCE {
        return bad_reply("a reference is not 1-255 bytes");
    }
    if text::clean(&reference) != reference {
        return bad_reply("a reference is not printable");
    }
    Ok(reference)
}

// ---- notices ---------------------------------------------------------------------------------

/// Converts a report and checks its form.
pub(crate) fn report(report: wit::Report) -> Result<Report, CallError> {
    let status = match report.status {
        wit::Status::Pending => ProviderStatus::Pending,
        wit::Status::Processing => ProviderStatus::Processing,
        wit::Status::VerificationPending => ProviderStatus::VerificationPending,
        wit::Status::Review => ProviderStatus::Review,
        wit::Status::Completed => ProviderStatus::Completed,
        wit::Status::Overpaid => ProviderStatus::Overpaid,
        wit::Status::Declined => ProviderStatus::Declined,
        wit::Status::Failed => ProviderStatus::Failed,
        wit::Status::Cancelled => ProviderStatus::Cancelled,
        wit::Status::Expired => ProviderStatus::Expired,
    };
    let settlement = match report.settlement {
        wit::Settlement::Pending => ProviderSettlement::Pending,
        wit::Settlement::Confirmed => ProviderSettlement::Confirmed,
        wit::Settlement::Failed => ProviderSettlement::Failed,
    };
    if !bounds::is_currency(&report.received.currency) {
        return bad_reply("a report's currency is not three capital letters");
    }
    let taken = matches!(status, ProviderStatus::Completed | ProviderStatus::Overpaid);
    if taken && report.received.amount == 0 {
        return bad_reply("a capture is reported without an amount");
    }
    Ok(Report {
        reference: reference(report.reference)?,
        status,
        settlement,
        received: Minor(report.received.amount),
        currency: report.received.currency,
        returned: Minor(report.given_back),
        detail: text::cut(&report.detail, DETAIL),
        particulars: particulars(report.particulars),
    })
}

fn particulars(told: wit::Particulars) -> Particulars {
    // Problems in the details must not reject the report about the money.
    let mut unreadable = Vec::new();
    let ids = |ids: Vec<String>| ids.into_iter().filter_map(|id| reference(id).ok());
    let fee = told.fee.filter(|fee| bounds::is_currency(&fee.currency));
    Particulars {
        provider_status: word(told.provider_status),
        reason: word(told.reason),
        references: ids(told.references).take(REFERENCES).collect(),
        fee: fee.map(|fee| (Minor(fee.amount), fee.currency)),
        authorised_at: told.authorised_at.map(Time::from_millis),
        captured_at: told.captured_at.map(Time::from_millis),
        capture_before: told.capture_before.map(Time::from_millis),
        instrument: word(told.instrument).filter(|words| !names_a_card(words)),
        // Drop an unusable link.
        provider_url: told.provider_url.filter(|url| is_https(url)),
        captures: readable(
            told.captures,
            Funds::MOST,
            "capture",
            capture,
            &mut unreadable,
        ),
        refunds: readable(
            told.refunds,
            Funds::MOST_REFUNDS,
            "refund",
            refund,
            &mut unreadable,
        ),
        disputes: readable(
            told.disputes,
            Funds::MOST,
            "dispute",
            dispute,
            &mut unreadable,
        ),
        fraud_warning: word(told.fraud_warning),
        unreadable: unreadable
            .iter()
            .chain(&told.unreadable)
            .take(UNREADABLE)
            .map(|sentence| text::cut(sentence, DETAIL))
            .collect(),
    }
}

/// Converts the first `most` readable entries of a list. Adds to `unreadable` how many others were left out,
/// instead of rejecting the report.
fn readable<T, R>(
    list: Vec<T>,
    most: usize,
    kind: &str,
    read: impl Fn(T) -> Option<R>,
    unreadable: &mut Vec<String>,
) -> Vec<R> {
    let all = list.len();
    let kept: Vec<R> = list.into_iter().filter_map(read).take(most).collect();
    if kept.len() < all {
        let left_out = all - kept.len();
        unreadable.push(format!("{kind} entries left out of the report: {left_out}"));
    }
    kept
}

/// Whether operators can be shown the URL as a link: https, no user information, at most [`PROVIDER_URL`] bytes.
fn is_https(address: &str) -> bool {
    let url = url::Url::parse(address);
    address.len() <= PROVIDER_URL
        && url.is_ok_and(|url| {
            url.scheme() == "https" && url.username().is_empty() && url.password().is_none()
        })
}

fn capture(told: wit::Capture) -> Option<ProviderCapture> {
    Some(ProviderCapture {
        id: reference(told.id).ok()?,
        amount: Minor(told.amount),
        at: told.at.map(Time::from_millis),
        reversed: told.reversed,
    })
}

/// Cuts a text of the provider. `None` if it is empty.
fn word(word: Option<String>) -> Option<String> {
    word.map(|word| text::cut(&word, WORD))
        .filter(|word| !word.is_empty())
}

/// Whether a text has enough digits for a card number, which must not be stored.
fn names_a_card(text: &str) -> bool {
    text.bytes().filter(u8::is_ascii_digit).count() >= LEAST_CARD_DIGITS
}

fn refund(told: wit::Refund) -> Option<ProviderRefund> {
    Some(ProviderRefund {
        id: reference(told.id).ok()?,
        // An id in another form belongs to another system that uses the account.
        order: told.order_id.and_then(|id| RefundId::parse(&id).ok()),
        amount: Minor(told.amount),
        paid_out: paid_out(told.paid_out, Minor(told.amount)),
        at: told.at.map(Time::from_millis),
        state: refund_state(told.state),
    })
}

/// Limits the amount paid out to the amount of the refund.
pub(super) fn paid_out(told: Option<u64>, amount: Minor) -> Option<Minor> {
    told.map(|out| Minor(out).min(amount))
}

pub(super) fn refund_state(state: wit::RefundState) -> RefundState {
    match state {
        wit::RefundState::Pending => RefundState::Pending,
        wit::RefundState::Succeeded => RefundState::Succeeded,
        wit::RefundState::Failed => RefundState::Failed,
    }
}

fn dispute(told: wit::Dispute) -> Option<Dispute> {
    let lost = matches!(told.state, wit::DisputeState::Lost);
    // A lost dispute without a reported withdrawal counts with the disputed amount.
    let withdrawn = if lost && told.withdrawn == 0 {
        told.amount
    } else {
        told.withdrawn
    };
    Some(Dispute {
        id: reference(told.id).ok()?,
        kind: match told.kind {
            wit::DisputeKind::Inquiry => DisputeKind::Inquiry,
            wit::DisputeKind::Dispute => DisputeKind::Dispute,
        },
        amount: Minor(told.amount),
        withdrawn: Minor(withdrawn),
        ends_by_refund: told.ends_by_refund,
        listed_as_refund: told.listed_as_refund,
        at: told.at.map(Time::from_millis),
        state: match told.state {
            wit::DisputeState::Open => DisputeState::Open,
            wit::DisputeState::Won => DisputeState::Won,
            wit::DisputeState::Lost => DisputeState::Lost,
        },
        reason: word(told.reason),
        respond_by: told.respond_by.map(Time::from_millis),
    })
}

/// Converts the answer of `query`.
pub(crate) fn queried(
    answer: Result<wit::Report, wit::QueryFailure>,
) -> Result<Result<Report, QueryFailure>, CallError> {
    Ok(match answer {
        Ok(report) => Ok(self::report(report)?),
        Err(failure) => Err(query_failure(failure)),
    })
}

pub(super) fn query_failure(failure: wit::QueryFailure) -> QueryFailure {
    match failure {
        wit::QueryFailure::Unavailable(why) => QueryFailure::Unavailable(text::cut(&why, DETAIL)),
        wit::QueryFailure::Absent => QueryFailure::Absent,
    }
}

/// Converts the answer of `callback`. `proved` means that the host has verified the caller.
pub(crate) fn acknowledged(
    answer: Result<wit::CallbackReply, wit::CallbackFailure>,
    proved: bool,
) -> Result<Result<CallbackReply, CallbackFailure>, CallError> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(wit::CallbackFailure::Forged(why)) => {
            return Ok(Err(CallbackFailure::Forged(text::cut(&why, DETAIL))));
        }
        // It came from the provider, and a repetition would be equally malformed.
        Err(wit::CallbackFailure::Malformed(_)) if proved => {
            return Ok(Ok(CallbackReply {
                proved,
                notices: Vec::new(),
                status: 200,
                media_type: String::new(),
                body: String::new(),
            }));
        }
        Err(wit::CallbackFailure::Malformed(why)) => {
            return Ok(Err(CallbackFailure::Malformed(text::cut(&why, DETAIL))));
        }
        Err(wit::CallbackFailure::Later(why)) => {
            return Ok(Err(CallbackFailure::Later(text::cut(&why, DETAIL))));
        }
    };
    if !(200..=599).contains(&answer.status) {
        return bad_reply("the status of a callback's answer is not 200-599");
    }
    let media_type = answer
        .media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    let printable = answer
        .media_type
        .bytes()
        .all(|b| (b' '..=b'~').contains(&b));
    let known = media_type.is_empty() || ANSWER_TYPES.contains(&media_type);
    if !known || !printable || answer.media_type.len() > HEADING {
        return bad_reply(
            "the media type of a callback's answer is not plain text, JSON or a form",
        );
    }
    if answer.body.len() > ANSWER {
        return bad_reply("a callback's answer is over 4 KiB");
    }
    let notices = at_most(answer.notices, NOTICES, "too many notices")?
        .into_iter()
        .filter_map(notice)
        .collect();
    let (status, media_type, body) = (answer.status, answer.media_type, answer.body);
    Ok(Ok(CallbackReply {
        proved,
        notices,
        status,
        media_type,
        body,
    }))
}

/// Converts a notice. `None` if its attempt id is not ours: other systems may use the provider's account. If its
/// report violates the contract, only the report is dropped and the provider will be queried, so that other
/// notices of the batch are still processed.
fn notice(notice: wit::Notice) -> Option<Notice> {
    let about = match notice.about {
        wit::Subject::Attempt(id) => Subject::Attempt(AttemptId::parse(&id).ok()?),
        wit::Subject::Reference(text) => Subject::Reference(reference(text).ok()?),
    };
    Some(Notice {
        about,
        reference: notice.reference.and_then(|text| reference(text).ok()),
        report: notice.report.and_then(|told| report(told).ok()),
    })
}

/// Converts the answer of `health`.
pub(crate) fn condition(condition: wit::Condition) -> Condition {
    match condition {
        wit::Condition::Operational => Condition::Operational,
        wit::Condition::Degraded(why) => Condition::Degraded(text::cut(&why, DETAIL)),
        wit::Condition::Down(why) => Condition::Down(text::cut(&why, DETAIL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_for_a_card_number_or_a_password_is_a_bad_reply() {
        let asked = |name: &str, label: &str| {
            question(wit::Question {
                name: name.into(),
                label: label.into(),
                kind: wit::QuestionKind::Text,
                required: true,
                choices: Vec::new(),
            })
        };
        assert!(asked("holder", "Account holder").is_ok());
        for (name, label) in [("x", "Kartennummer"), ("bank-password", "Almost done")] {
            let refused = asked(name, label);
            assert!(matches!(refused, Err(CallError::BadReply(_))), "{label}");
        }
    }
    const AMOUNT: u64 = 990;

    fn nothing() -> wit::Particulars {
        wit::Particulars {
            provider_status: None,
            reason: None,
            references: vec![],
            fee: None,
            authorised_at: None,
            captured_at: None,
            capture_before: None,
            instrument: None,
            provider_url: None,
            captures: vec![],
            refunds: vec![],
            disputes: vec![],
            fraud_warning: None,
            unreadable: vec![],
        }
    }

    fn captured(id: &str) -> wit::Capture {
        wit::Capture {
            id: id.into(),
            amount: AMOUNT,
            at: Some(7),
            reversed: true,
        }
    }

    fn withdrawn(state: wit::DisputeState, withdrawn: u64) -> Minor {
        let told = wit::Dispute {
            id: "dp_1".into(),
            kind: wit::DisputeKind::Dispute,
            amount: AMOUNT,
            withdrawn,
            ends_by_refund: false,
            listed_as_refund: false,
            at: None,
            state,
            reason: None,
            respond_by: None,
        };
        dispute(told).unwrap().withdrawn
    }

    #[test]
    fn a_lost_dispute_without_a_withdrawal_counts_in_full() {
        use wit::DisputeState::{Lost, Open, Won};
        assert_eq!(withdrawn(Lost, 0), Minor(AMOUNT));
        assert_eq!(withdrawn(Lost, 300), Minor(300));
        assert_eq!(withdrawn(Open, 300), Minor(300));
        assert_eq!(
            (withdrawn(Open, 0), withdrawn(Won, 0)),
            (Minor(0), Minor(0))
        );
    }

    #[test]
    fn only_an_https_address_becomes_a_link_for_operators() {
        let link = |url: &str| {
            let told = wit::Particulars {
                provider_url: Some(url.into()),
                ..nothing()
            };
            particulars(told).provider_url
        };
        let page = "https://dashboard.vendor.example/payments/pi_1?mode=test";
        assert_eq!(link(page).as_deref(), Some(page));
        for dropped in [
            "http://dashboard.vendor.example/pi_1",
            "javascript:alert(1)",
            "https://user@vendor.example/",
            "https://user:word@vendor.example/",
            "/payments/pi_1",
            "",
            &format!("{page}{}", "x".repeat(PROVIDER_URL)),
        ] {
            assert_eq!(link(dropped), None, "{dropped}");
        }
    }

    #[test]
    fn eight_sentences_about_unreadable_parts_are_kept() {
        let told = wit::Particulars {
            unreadable: vec!["x".repeat(DETAIL + 1); 2 * UNREADABLE],
            ..nothing()
        };
        let kept = particulars(told).unreadable;
        assert_eq!(kept.len(), UNREADABLE);
        assert!(kept.iter().all(|sentence| sentence.len() <= DETAIL));
    }

    #[test]
    fn captures_keep_their_id_amount_time_and_reversal() {
        let told = |captures| {
            particulars(wit::Particulars {
                captures,
                ..nothing()
            })
        };
        let expected = ProviderCapture {
            id: "ch_1".into(),
            amount: Minor(AMOUNT),
            at: Some(Time::from_millis(7)),
            reversed: true,
        };
        assert_eq!(told(vec![captured("ch_1")]).captures, [expected]);
    }

    #[test]
    fn entries_over_the_limit_or_without_an_id_are_named_and_hide_no_others() {
        let captures = vec![captured("ch_1"), captured(""), captured("ch_2")];
        let refund = |number: usize| wit::Refund {
            id: format!("re_{number}"),
            order_id: None,
            amount: 1,
            paid_out: None,
            at: None,
            state: wit::RefundState::Succeeded,
        };
        let refunds: Vec<wit::Refund> = (0..Funds::MOST_REFUNDS + 3).map(refund).collect();
        let told = particulars(wit::Particulars {
            captures,
            refunds,
            unreadable: vec!["the fee cannot be read".into()],
            ..nothing()
        });
        assert_eq!(told.captures.len(), 2);
        assert_eq!(told.refunds.len(), Funds::MOST_REFUNDS);
        assert_eq!(told.refunds[0].id, "re_0");
        assert_eq!(
            told.unreadable,
            [
                "capture entries left out of the report: 1",
                "refund entries left out of the report: 3",
                "the fee cannot be read"
            ]
        );
    }

    #[test]
    fn no_more_than_the_amount_of_a_refund_has_gone_out() {
        assert_eq!(
            paid_out(Some(AMOUNT + 1), Minor(AMOUNT)),
            Some(Minor(AMOUNT))
        );
        assert_eq!(paid_out(Some(0), Minor(AMOUNT)), Some(Minor(0)));
        assert_eq!(paid_out(None, Minor(AMOUNT)), None);
    }
}
