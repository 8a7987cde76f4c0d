//! The interface `payments`, to and from the domain.

use kassette_domain::id::{AttemptId, RefundId};
use kassette_domain::key::Environment;
use kassette_domain::money::Minor;
use kassette_domain::provider::{
    AccountFacts, AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Condition,
    Dispute, DisputeState, Instructions, Notice, Open, Particulars, PayerAction, QueryFailure,
    QueryPurpose, Question, QuestionKind, RefundState, Report, StartFailure, Started, Subject,
    VendorRefund, VendorSettlement, VendorStatus, Verb,
};
use kassette_domain::time::Time;

use super::bindings::provider::exports::kassette::plugin::payments as wit;
use super::bindings::provider::kassette::plugin::http as wit_http;
use super::bounds::{self, DETAIL, at_most, bad_reply};
use crate::error::CallError;
use crate::links::AllowedPages;
use crate::text;

/// Longest reference (the contract's limit).
const REFERENCE: usize = 255;
/// Other ids of one payment (the contract's limit).
const REFERENCES: usize = 8;
/// Refunds and disputes of one payment (the contract's limit).
const RETURNS: usize = 64;
/// A vendor's own status, reason or instrument; longer text is cut.
const WORD: usize = 64;
/// The shortest card numbers have so many digits.
const LEAST_CARD_DIGITS: usize = 12;
/// Notices of one callback: a vendor's batch, far below what fits into 256 KiB.
const NOTICES: usize = 256;
/// The vendor's answer to a callback is a short text.
const ANSWER: usize = 4 * 1024;
/// Media types of that answer: nothing that a browser would run on our origin.
const ANSWER_TYPES: [&str; 3] = [
    "text/plain",
    "application/json",
    "application/x-www-form-urlencoded",
];
/// What a page can reasonably ask at once.
const QUESTIONS: usize = 10;
/// A list of countries or banks.
const CHOICES: usize = 300;
/// Fields of a posted form, and all their bytes.
const FIELDS: usize = 100;
const FIELD_BYTES: usize = 64 * 1024;
/// Values to copy from instructions.
const DETAILS: usize = 20;
/// A sentence or two on the payer's page; longer text is cut.
const SENTENCE: usize = 1_000;
/// A heading on the payer's page; longer text is cut.
const HEADING: usize = 100;
/// A value that the payer copies; never cut, because half an address is another address.
const VALUE: usize = 500;
/// What a QR code can hold with room for error correction.
const QR: usize = 2_000;

// ---- what a module is told -------------------------------------------------------------------

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

/// The answer of `start`, every text and link checked.
pub(crate) fn started(
    answer: Result<wit::Started, wit::StartFailure>,
    pages: AllowedPages<'_>,
) -> Result<Result<Started, StartFailure>, CallError> {
    Ok(match answer {
        Ok(wit::Started::Open(open)) => Ok(Started::Open(self::open(open, pages)?)),
        Ok(wit::Started::Ask(questions)) => Ok(Started::Ask(self::questions(questions)?)),
        Err(wit::StartFailure::Unavailable(why)) => {
            Err(StartFailure::Unavailable(text::cut(&why, DETAIL)))
        }
        Err(wit::StartFailure::Declined(why)) => {
            Err(StartFailure::Declined(text::cut(&why, DETAIL)))
        }
        Err(wit::StartFailure::Uncertain(why)) => {
            Err(StartFailure::Uncertain(text::cut(&why, DETAIL)))
        }
    })
}

fn open(open: wit::Open, pages: AllowedPages<'_>) -> Result<Open, CallError> {
    let action = match open.action {
        wit::Action::Redirect(url) => PayerAction::Redirect(pages.check_page(&url)?),
        wit::Action::Post(form) => {
            let fields = at_most(form.fields, FIELDS, "a form has too many fields")?;
            let bytes: usize = fields
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            if bytes > FIELD_BYTES {
                return bad_reply("a form is too large");
            }
            PayerAction::Post {
                url: pages.check_page(&form.url)?,
                fields,
            }
        }
        wit::Action::Show(instructions) => {
            PayerAction::Show(self::instructions(instructions, pages)?)
        }
    };
    Ok(Open {
        reference: reference(open.reference)?,
        action,
        until: open.until.map(Time::from_millis),
    })
}

fn instructions(
    instructions: wit::Instructions,
    pages: AllowedPages<'_>,
) -> Result<Instructions, CallError> {
    let whole = |value: String, most, otherwise| bounds::within(value, most, otherwise);
    Ok(Instructions {
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
        link: instructions
            .link
            .map(|link| pages.check_link(&link))
            .transpose()?,
    })
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
    let label = text::cut(&question.label, HEADING);
    Ok(Question {
        name: question.name,
        label,
        kind,
        required: question.required,
        choices,
    })
}

/// The vendor's id: 1-255 bytes, printable.
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

/// One report, as far as its form tells whether it can be believed.
pub(crate) fn report(report: wit::Report) -> Result<Report, CallError> {
    let status = match report.status {
        wit::Status::Pending => VendorStatus::Pending,
        wit::Status::Processing => VendorStatus::Processing,
        wit::Status::VerificationPending => VendorStatus::VerificationPending,
        wit::Status::Review => VendorStatus::Review,
        wit::Status::Completed => VendorStatus::Completed,
        wit::Status::Overpaid => VendorStatus::Overpaid,
        wit::Status::Declined => VendorStatus::Declined,
        wit::Status::Failed => VendorStatus::Failed,
        wit::Status::Cancelled => VendorStatus::Cancelled,
        wit::Status::Expired => VendorStatus::Expired,
    };
    let settlement = match report.settlement {
        wit::Settlement::Pending => VendorSettlement::Pending,
        wit::Settlement::Confirmed => VendorSettlement::Confirmed,
        wit::Settlement::Failed => VendorSettlement::Failed,
    };
    if !bounds::is_currency(&report.received.currency) {
        return bad_reply("a report's currency is not three capital letters");
    }
    let taken = matches!(status, VendorStatus::Completed | VendorStatus::Overpaid);
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
        detail: bounds::within(report.detail, DETAIL, "a report's detail is over 200 bytes")?,
        particulars: particulars(report.particulars)?,
    })
}

fn particulars(told: wit::Particulars) -> Result<Particulars, CallError> {
    let ids = |ids: Vec<String>| ids.into_iter().map(reference).collect::<Result<_, _>>();
    if let Some(fee) = &told.fee
        && !bounds::is_currency(&fee.currency)
    {
        return bad_reply("a fee's currency is not three capital letters");
    }
    Ok(Particulars {
        provider_status: word(told.provider_status),
        reason: word(told.reason),
        references: ids(at_most(told.references, REFERENCES, "too many references")?)?,
        fee: told.fee.map(|fee| (Minor(fee.amount), fee.currency)),
        authorised_at: told.authorised_at.map(Time::from_millis),
        captured_at: told.captured_at.map(Time::from_millis),
        capture_before: told.capture_before.map(Time::from_millis),
        instrument: word(told.instrument).filter(|words| !names_a_card(words)),
        refunds: at_most(told.refunds, RETURNS, "too many refunds")?
            .into_iter()
            .map(refund)
            .collect::<Result<_, _>>()?,
        disputes: at_most(told.disputes, RETURNS, "too many disputes")?
            .into_iter()
            .map(dispute)
            .collect::<Result<_, _>>()?,
    })
}

/// One of the vendor's own words; an empty one tells nothing.
fn word(word: Option<String>) -> Option<String> {
    word.map(|word| text::cut(&word, WORD))
        .filter(|word| !word.is_empty())
}

/// Whether a text holds what could be a whole card number: nothing of the kind may be stored.
fn names_a_card(text: &str) -> bool {
    text.bytes().filter(u8::is_ascii_digit).count() >= LEAST_CARD_DIGITS
}

fn refund(told: wit::Refund) -> Result<VendorRefund, CallError> {
    Ok(VendorRefund {
        id: reference(told.id)?,
        // Another form is that of another system at the same account.
        order: told.order_id.and_then(|id| RefundId::parse(&id).ok()),
        amount: Minor(told.amount),
        state: refund_state(told.state),
    })
}

pub(super) fn refund_state(state: wit::RefundState) -> RefundState {
    match state {
        wit::RefundState::Pending => RefundState::Pending,
        wit::RefundState::Succeeded => RefundState::Succeeded,
        wit::RefundState::Failed => RefundState::Failed,
    }
}

fn dispute(told: wit::Dispute) -> Result<Dispute, CallError> {
    Ok(Dispute {
        id: reference(told.id)?,
        amount: Minor(told.amount),
        state: match told.state {
            wit::DisputeState::Open => DisputeState::Open,
            wit::DisputeState::Won => DisputeState::Won,
            wit::DisputeState::Lost => DisputeState::Lost,
        },
        reason: word(told.reason),
        respond_by: told.respond_by.map(Time::from_millis),
    })
}

/// The answer of `query`.
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

/// The answer of `callback`.
pub(crate) fn acknowledged(
    answer: Result<wit::CallbackReply, wit::CallbackFailure>,
    proved: bool,
) -> Result<Result<CallbackReply, CallbackFailure>, CallError> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(wit::CallbackFailure::Forged(why)) => {
            return Ok(Err(CallbackFailure::Forged(text::cut(&why, DETAIL))));
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
        .collect::<Result<_, _>>()?;
    let (status, media_type, body) = (answer.status, answer.media_type, answer.body);
    Ok(Ok(CallbackReply {
        proved,
        notices,
        status,
        media_type,
        body,
    }))
}

/// None where the notice is about an attempt that cannot be one of ours: a vendor's account may
/// serve other systems too.
fn notice(notice: wit::Notice) -> Option<Result<Notice, CallError>> {
    let about = match notice.about {
        wit::Subject::Attempt(id) => Ok(Subject::Attempt(AttemptId::parse(&id).ok()?)),
        wit::Subject::Reference(text) => reference(text).map(Subject::Reference),
    };
    Some(about.and_then(|about| {
        let report = notice.report.map(report).transpose()?;
        let reference = notice.reference.map(reference).transpose()?;
        Ok(Notice {
            about,
            reference,
            report,
        })
    }))
}

/// The answer of `health`.
pub(crate) fn condition(condition: wit::Condition) -> Condition {
    match condition {
        wit::Condition::Operational => Condition::Operational,
        wit::Condition::Degraded(why) => Condition::Degraded(text::cut(&why, DETAIL)),
        wit::Condition::Down(why) => Condition::Down(text::cut(&why, DETAIL)),
    }
}
