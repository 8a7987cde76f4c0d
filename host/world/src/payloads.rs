//! Replays payloads of real providers through a module natively: as webhooks, and as responses to the module's own
//! requests.
//!
//! The files are in `tests/payloads` of the module's crate. A file is the body, unless it has a field `body_text`
//! or `body`: then it also contains the headers or the HTTP status. A test in the same folder lists every file
//! with its expected interpretation, in the notation of [`callback_reading`] and [`report_reading`].
use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    marker::PhantomData,
    path::{Path, PathBuf},
    rc::Rc,
};

use kassette_plugin::{
    provider::{
        Account, Attempt, CallbackFailure, CallbackReply, CallbackRequest, DisputeKind,
        DisputeState, Encoding, Environment, Given, Money, Order, Paid, Payer, Provider,
        QueryFailure, QueryPurpose, RefundFailure, RefundState, Report, Settlement, StartFailure,
        Started, Status, Subject, Verb,
        http::{Request, Response, SendFailure},
        secrets::Algorithm,
    },
    testing::{Host, with_host},
};
use serde_json::Value;

use crate::host::{Secret, mac};

/// Id of the attempt in replayed calls.
pub const ATTEMPT: &str = "00000000000000000000000000000001";

/// Id of the refund order in replayed calls.
pub const ORDER: &str = "00000000000000000000000000000002";

/// Time of replayed calls, in milliseconds since 1970.
pub const NOW_MS: u64 = 1_800_000_000_000;

/// A recorded payload.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Header names are in lower case.
    pub headers: Vec<(String, String)>,
    /// HTTP status of a response. 200 if the file has none.
    pub status: u16,
    /// Exact bytes of the body.
    pub body: Vec<u8>,
}

impl Payload {
    /// The body as JSON, for example to replace references in it.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A response of the stub to requests with a method and a part of the URL, such as `GET /v1/disputes`. The first
/// match in the list counts.
#[derive(Clone, Debug)]
pub struct StubAnswer {
    pub request: String,
    pub status: u16,
    pub body: Vec<u8>,
}

impl StubAnswer {
    /// A response with status 200.
    #[must_use]
    pub fn ok(request: &str, body: &Value) -> Self {
        Self {
            request: request.into(),
            status: 200,
            body: body.to_string().into_bytes(),
        }
    }

    /// A response with a recorded payload.
    #[must_use]
    pub fn payload(request: &str, payload: &Payload) -> Self {
        Self {
            request: request.into(),
            status: payload.status,
            body: payload.body.clone(),
        }
    }
}

/// A module with a test account and the folder of its payloads.
pub struct Replay<P> {
    folder: PathBuf,
    pub account: Account,
    secrets: HashMap<String, Secret>,
    provider: PhantomData<P>,
}

impl<P: Provider> Replay<P> {
    /// A test account. Each secret is a constant in the encoding that the module's description requires.
    /// `manifest` is `env!("CARGO_MANIFEST_DIR")`.
    #[must_use]
    pub fn new(manifest: &str) -> Self {
        let description = P::describe();
        let secret = |encoding| match encoding {
            Encoding::Text => "secret",
            Encoding::Hex => "00112233445566778899aabbccddeeff",
            Encoding::Base64 => "c2VjcmV0",
        };
        let secrets = description.secrets.iter();
        let secrets = secrets.map(|need| {
            let value = Secret::new(secret(need.encoding), need.encoding);
            (need.name.clone(), value)
        });
        let id = format!("{}-test", description.id);
        Self {
            folder: Path::new(manifest).join("tests/payloads"),
            account: Account {
                environment: Environment::Test,
                now: NOW_MS,
                callback_url: format!("https://gateway.example/callbacks/{id}"),
                settings: Vec::new(),
                id,
            },
            secrets: secrets.collect(),
            provider: PhantomData,
        }
    }

    /// Replaces a setting.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        let settings = &mut self.account.settings;
        settings.retain(|(known, _)| known != name);
        settings.push((name.into(), value.into()));
        self
    }

    /// Replaces a secret, for example with a published test key.
    #[must_use]
    pub fn secret(mut self, name: &str, value: &str) -> Self {
        let needs = P::describe().secrets;
        let need = needs.iter().find(|need| need.name == name).unwrap();
        let secret = Secret::new(value, need.encoding);
        self.secrets.insert(name.into(), secret);
        self
    }

    /// Reads a payload. `name` is the file name without `.json`.
    #[must_use]
    pub fn payload(&self, name: &str) -> Payload {
        let bytes = std::fs::read(self.folder.join(format!("{name}.json"))).unwrap();
        let file: Value = serde_json::from_slice(&bytes).unwrap();
        let headers = file["headers"].as_object();
        let headers = headers.into_iter().flatten().map(|(name, value)| {
            let value = value.as_str().unwrap().to_owned();
            (name.to_ascii_lowercase(), value)
        });
        Payload {
            headers: headers.collect(),
            status: file["status"]
                .as_u64()
                .map_or(200, |status| u16::try_from(status).unwrap()),
            body: match (&file["body_text"], &file["body"]) {
                (Value::String(text), _) => text.clone().into_bytes(),
                (_, body @ Value::Object(_)) => body.to_string().into_bytes(),
                _ => bytes,
            },
        }
    }

    /// Fails unless the rows of a table match the files of the folder exactly.
    pub fn assert_complete<'a>(&self, rows: impl IntoIterator<Item = &'a str>) {
        let files = std::fs::read_dir(&self.folder)
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.strip_suffix(".json").map(str::to_owned)
            });
        let files: BTreeSet<String> = files.collect();
        let rows: BTreeSet<String> = rows.into_iter().map(str::to_owned).collect();
        assert_eq!(rows, files, "rows of the table, and files of the folder");
    }

    /// MAC of a message with a secret of the account.
    #[must_use]
    pub fn sign(&self, secret: &str, algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
        mac(algorithm, &self.secrets[secret].keys()[0], message)
    }

    /// Runs a call to the module with stubbed responses. Returns the result and the requests that the module sent.
    pub fn within<T>(&self, answers: &[StubAnswer], act: impl FnOnce() -> T) -> (T, Vec<Request>) {
        let sent = Rc::new(RefCell::new(Vec::new()));
        let host = StubHost {
            secrets: self.secrets.clone(),
            answers: answers.to_vec(),
            sent: Rc::clone(&sent),
        };
        let done = with_host(host, act);
        let sent = sent.take();
        (done, sent)
    }

    /// Posts a webhook to the module.
    ///
    /// # Errors
    /// The error of the module.
    pub fn callback(
        &self,
        headers: &[(&str, &str)],
        body: &[u8],
        answers: &[StubAnswer],
    ) -> Result<CallbackReply, CallbackFailure> {
        let headers = headers.iter();
        let incoming = CallbackRequest {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: headers
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            body: body.to_vec(),
        };
        let (reply, _) = self.within(answers, || P::callback(self.account.clone(), incoming));
        reply
    }

    /// Starts the attempt. Also returns the requests that the module sent.
    ///
    /// # Errors
    /// The error of the module.
    pub fn start(
        &self,
        attempt: &Attempt,
        answers: &[StubAnswer],
    ) -> (Result<Started, StartFailure>, Vec<Request>) {
        self.within(answers, || P::start(self.account.clone(), attempt.clone()))
    }

    /// Queries the status of the attempt.
    ///
    /// # Errors
    /// The error of the module.
    pub fn query(
        &self,
        attempt: &Attempt,
        reference: &str,
        purpose: QueryPurpose,
        answers: &[StubAnswer],
    ) -> Result<Report, QueryFailure> {
        let call = || {
            let reference = Some(reference.to_owned());
            P::query(
                self.account.clone(),
                attempt.clone(),
                reference,
                purpose,
                None,
            )
        };
        self.within(answers, call).0
    }

    /// Orders a refund.
    ///
    /// # Errors
    /// The error of the module.
    pub fn refund(
        &self,
        paid: &Paid,
        order: &Order,
        answers: &[StubAnswer],
    ) -> Result<Given, RefundFailure> {
        let call = || P::refund(self.account.clone(), paid.clone(), order.clone());
        self.within(answers, call).0
    }
}

/// The attempt [`ATTEMPT`] for an amount in minor units. It expires in an hour.
#[must_use]
pub fn attempt(method: &str, amount: u64, currency: &str) -> Attempt {
    Attempt {
        id: ATTEMPT.into(),
        method: method.into(),
        due: money(amount, currency),
        merchant_order: "order-1".into(),
        merchant: "Shop".into(),
        return_url: "https://gateway.example/return/t".into(),
        cancel_url: "https://gateway.example/return/t?cancelled".into(),
        expires: NOW_MS + 3_600_000,
        payer: Payer {
            email: None,
            ip: None,
            language: None,
            country: None,
        },
        answers: Vec::new(),
    }
}

/// The attempt [`ATTEMPT`] after it received an amount in minor units.
#[must_use]
pub fn paid(method: &str, reference: &str, amount: u64, currency: &str) -> Paid {
    Paid {
        attempt: ATTEMPT.into(),
        method: method.into(),
        reference: reference.into(),
        references: Vec::new(),
        received: money(amount, currency),
        captured_at: None,
        merchant_order: "order-1".into(),
        merchant: "Shop".into(),
    }
}

/// The refund order [`ORDER`] for an amount in minor units.
#[must_use]
pub fn order(amount: u64, currency: &str) -> Order {
    Order {
        id: ORDER.into(),
        amount: money(amount, currency),
        reason: None,
        asked_at: NOW_MS,
        reference: None,
    }
}

fn money(amount: u64, currency: &str) -> Money {
    Money {
        amount,
        currency: currency.into(),
    }
}

fn decimal(amount: u64) -> String {
    format!("{}.{:02}", amount / 100, amount % 100)
}

/// Summary of a webhook's result: the status of the gateway's response, then each notice. `ask` is a notice
/// without a report.
#[must_use]
pub fn callback_reading(reply: &Result<CallbackReply, CallbackFailure>) -> String {
    let reply = match reply {
        Ok(reply) => reply,
        Err(CallbackFailure::Forged(_)) => return "401".into(),
        Err(CallbackFailure::Malformed(why)) => return format!("400 {why}"),
        Err(CallbackFailure::Later(why)) => return format!("503 {why}"),
    };
    let notices = reply.notices.iter().map(|notice| {
        let about = match &notice.about {
            Subject::Attempt(id) if id == ATTEMPT => "",
            Subject::Attempt(id) | Subject::Reference(id) => id,
        };
        let told = match &notice.report {
            None => "ask".into(),
            Some(report) => reading(report),
        };
        format!("{told} {about}").trim().to_owned()
    });
    let status = reply.status.to_string();
    std::iter::once(status)
        .chain(notices)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Summary of a report: status, settlement unless pending, amount received, total refunded, reversed captures,
/// refunds, disputes, and unreadable parts.
#[must_use]
pub fn report_reading(report: &Result<Report, QueryFailure>) -> String {
    match report {
        Ok(report) => reading(report),
        Err(QueryFailure::Absent) => "absent".into(),
        Err(QueryFailure::Unavailable(why)) => format!("no answer: {why}"),
    }
}

/// Summary of a start, without reasons.
#[must_use]
pub const fn start_reading(started: &Result<Started, StartFailure>) -> &'static str {
    match started {
        Ok(Started::Open(_)) => "open",
        Ok(Started::Ask(_)) => "ask",
        Err(StartFailure::Unavailable(_)) => "unavailable",
        Err(StartFailure::NotActivated(_)) => "not activated",
        Err(StartFailure::Declined(_)) => "declined",
        Err(StartFailure::Uncertain(_)) => "uncertain",
    }
}

/// Summary of a refund order's result.
#[must_use]
pub fn given_reading(given: &Result<Given, RefundFailure>) -> String {
    match given {
        Ok(given) => format!("{} {}", given.reference, refund_state(given.state)),
        Err(RefundFailure::Unavailable(why)) => format!("unavailable: {why}"),
        Err(RefundFailure::Refused(why)) => format!("refused: {why}"),
        Err(RefundFailure::Uncertain(why)) => format!("uncertain: {why}"),
    }
}

fn reading(report: &Report) -> String {
    let status = match report.status {
        Status::Pending => "pending",
        Status::Processing => "processing",
        Status::VerificationPending => "verification-pending",
        Status::Review => "review",
        Status::Completed => "completed",
        Status::Overpaid => "overpaid",
        Status::Declined => "declined",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
        Status::Expired => "expired",
    };
    let settlement = match report.settlement {
        Settlement::Pending => "",
        Settlement::Confirmed => " confirmed",
        Settlement::Failed => " not-settled",
    };
    let received = &report.received;
    let mut told = format!(
        "{status}{settlement} {} {}",
        decimal(received.amount),
        received.currency
    );
    if report.given_back > 0 {
        told += &format!(", given back {}", decimal(report.given_back));
    }
    for capture in &report.particulars.captures {
        if capture.reversed {
            let amount = decimal(capture.amount);
            told += &format!(", capture {} {amount} reversed", capture.id);
        }
    }
    for refund in &report.particulars.refunds {
        let (amount, state) = (decimal(refund.amount), refund_state(refund.state));
        told += &format!(", refund {} {amount} {state}", refund.id);
    }
    for dispute in &report.particulars.disputes {
        let state = match dispute.state {
            DisputeState::Open => "open",
            DisputeState::Won => "won",
            DisputeState::Lost => "lost",
        };
        let amount = decimal(dispute.amount);
        let kind = match dispute.kind {
            DisputeKind::Inquiry => "inquiry",
            DisputeKind::Dispute => "dispute",
        };
        told += &format!(", {kind} {} {amount} {state}", dispute.id);
        if dispute.withdrawn > 0 {
            told += &format!(" with {} withdrawn", decimal(dispute.withdrawn));
        }
    }
    for sentence in &report.particulars.unreadable {
        told += &format!(", unreadable: {sentence}");
    }
    told
}

fn refund_state(state: RefundState) -> &'static str {
    match state {
        RefundState::Pending => "pending",
        RefundState::Succeeded => "succeeded",
        RefundState::Failed => "failed",
    }
}

/// A host with a list of responses instead of a network. All secrets and tokens count as ready.
struct StubHost {
    secrets: HashMap<String, Secret>,
    answers: Vec<StubAnswer>,
    sent: Rc<RefCell<Vec<Request>>>,
}

impl Host for StubHost {
    fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
        self.sent.borrow_mut().push(request.clone());
        let verb = match request.verb {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        };
        let fits = |answer: &&StubAnswer| {
            let (wanted, part) = answer.request.split_once(' ').unwrap();
            wanted == verb && request.url.contains(part)
        };
        let answer = self.answers.iter().find(fits);
        let answer = answer.ok_or_else(|| {
            SendFailure::NotSent(format!("the stub has no answer: {verb} {}", request.url))
        })?;
        Ok(Response {
            status: answer.status,
            headers: Vec::new(),
            body: answer.body.clone(),
        })
    }

    fn ready(&mut self, _: &str) -> bool {
        true
    }

    fn sign(&mut self, name: &str, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
        let keys = self.secrets.get(name)?.keys();
        Some(mac(algorithm, keys.first()?, message))
    }
}
