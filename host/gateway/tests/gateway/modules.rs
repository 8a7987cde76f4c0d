//! Scripted modules, and a simulated provider with its records.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::{AccountId, AttemptId, Digest, RefundId, Slot};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::provider::{
    AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Condition, Given, Open,
    PaidFacts, Particulars, PayerAction, ProviderDescription, ProviderRefund, ProviderSettlement,
    ProviderStatus, QueryFailure, QueryPurpose, Question, QuestionKind, RefundFailure, RefundOrder,
    RefundQuery, RefundState, RefundTerms, Report, Service, StartFailure, Started,
};
use kassette_domain::routing::{
    Availability, Context, Ground, MethodDescription, RankAnswer, RoutingRefusal, Verdict,
};
use kassette_domain::setting::{SettingForm, SettingSpec};
use kassette_gateway::modules::{Access, Calling, Method, Modules, Provider, ProviderQuery};
use kassette_runtime::CallError;
use parking_lot::Mutex;
use tokio::sync::{Barrier, Notify, watch};

/// Behavior of the provider on a start.
#[derive(Clone)]
pub(crate) enum Script {
    /// Answers 503.
    Unavailable,
    /// Answers 503 with a `Retry-After`.
    Overloaded(Duration),
    /// Rejects this request only.
    Refused,
    /// The method is not activated.
    NotActivated,
    /// Creates the payment with a page on a host that the account does not allow.
    AnotherHost,
    Declined,
    /// The request does not arrive, and the caller cannot know that.
    LostBefore,
    /// Creates the payment, but the answer is lost.
    LostAfter,
    Ask,
    /// Creates the payment, then answers when it is notified.
    Slow(Arc<Notify>),
    /// Reports that it is unavailable when it is notified.
    SlowlyUnavailable(Arc<Notify>),
    /// Answers with a reference of another attempt.
    Reference(String),
}

/// Behavior of the provider on a refund.
#[derive(Clone)]
pub(crate) enum RefundScript {
    Unavailable,
    Refused,
    /// The request does not arrive, and the caller cannot know that.
    LostBefore,
    /// Refunds the money, but the answer is lost.
    LostAfter,
    /// The refund is pending.
    Pending,
    /// Refunds the money, and answers when it is notified.
    Slow(Arc<Notify>),
}

/// State of one attempt at the provider.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) reference: String,
    pub(crate) status: ProviderStatus,
    pub(crate) received: Minor,
    pub(crate) captured: u32,
}

#[derive(Default)]
struct Books {
    needs: Vec<SettingSpec>,
    meetings: HashMap<MethodId, Arc<Barrier>>,
    entries: HashMap<AttemptId, Entry>,
    scripts: HashMap<AccountId, VecDeque<Script>>,
    callbacks: VecDeque<Result<CallbackReply, CallbackFailure>>,
    starts: Vec<(AccountId, AttemptId)>,
    queries: Vec<(AttemptId, QueryPurpose)>,
    /// Accounts whose callbacks from strangers are never completely read.
    stuck: HashSet<AccountId>,
    /// Accounts whose queries are not answered.
    hanging: HashSet<AccountId>,
    /// Number of such callbacks that were started.
    stuck_calls: usize,
    silent: bool,
    down: bool,
    /// Refunds by their orders.
    refunds: HashMap<RefundId, ProviderRefund>,
    refund_scripts: VecDeque<RefundScript>,
    refund_calls: (usize, usize),
    /// Refund terms, for example no refunds or no partial refunds.
    terms: Option<Vec<RefundTerms>>,
    terms_fail: bool,
    /// Slots that are disabled.
    disabled: HashSet<&'static str>,
}

pub(crate) struct Vendor {
    books: Mutex<Books>,
    calls: watch::Sender<usize>,
    refunds_seen: watch::Sender<usize>,
    slot: Slot,
    description: ProviderDescription,
}

impl Vendor {
    pub(crate) fn new() -> Arc<Self> {
        let service = |method| Service {
            method,
            currencies: vec![],
            minimums: vec![],
        };
        Arc::new(Self {
            books: Mutex::default(),
            calls: watch::Sender::new(0),
            refunds_seen: watch::Sender::new(0),
            slot: Slot::of_provider("sandbox").unwrap(),
            description: ProviderDescription {
                id: "sandbox".into(),
                label: "Sandbox".into(),
                version: "1".into(),
                services: vec![service(MethodId::Ideal), service(MethodId::Paypal)],
                settings: vec![],
                secrets: vec![],
                tokens: vec![],
            },
        })
    }

    pub(crate) fn script(&self, account: &str, scripts: impl IntoIterator<Item = Script>) {
        let account = AccountId::parse(account).unwrap();
        let mut books = self.books.lock();
        books.scripts.entry(account).or_default().extend(scripts);
    }

    pub(crate) fn answer_callback(&self, answer: Result<CallbackReply, CallbackFailure>) {
        self.books.lock().callbacks.push_back(answer);
    }

    /// From now on the account's module never completes a callback from a stranger.
    pub(crate) fn stick_to_strangers(&self, account: &str) {
        let account = AccountId::parse(account).unwrap();
        self.books.lock().stuck.insert(account);
    }

    /// From now on queries at an account hang.
    pub(crate) fn hang(&self, account: &str) {
        let account = AccountId::parse(account).unwrap();
        self.books.lock().hanging.insert(account);
    }

    pub(crate) fn stuck_calls(&self) -> usize {
        self.books.lock().stuck_calls
    }

    /// From now on the module requires this setting of every account.
    pub(crate) fn need(&self, name: &str) {
        self.books.lock().needs.push(SettingSpec {
            name: name.into(),
            help: "shown beside the keys".into(),
            required: true,
            form: SettingForm::Text,
            default: None,
        });
    }

    /// From now on the method's module answers only when the number of callers that the barrier waits for has
    /// arrived.
    pub(crate) fn meet(&self, method: MethodId, meeting: &Arc<Barrier>) {
        let mut books = self.books.lock();
        books.meetings.insert(method, Arc::clone(meeting));
    }

    pub(crate) fn be_silent(&self, silent: bool) {
        self.books.lock().silent = silent;
    }

    /// Disables or enables a slot.
    pub(crate) fn switch(&self, slot: &'static str, on: bool) {
        let disabled = &mut self.books.lock().disabled;
        if on {
            disabled.remove(slot);
        } else {
            disabled.insert(slot);
        }
    }

    pub(crate) fn be_down(&self, down: bool) {
        self.books.lock().down = down;
    }

    pub(crate) fn starts(&self) -> Vec<(AccountId, AttemptId)> {
        self.books.lock().starts.clone()
    }

    pub(crate) fn queries(&self, purpose: QueryPurpose) -> usize {
        let books = self.books.lock();
        books
            .queries
            .iter()
            .filter(|(_, each)| *each == purpose)
            .count()
    }

    pub(crate) fn entry(&self, attempt: AttemptId) -> Option<Entry> {
        self.books.lock().entries.get(&attempt).cloned()
    }

    pub(crate) fn entries(&self) -> usize {
        self.books.lock().entries.len()
    }

    /// The payer acts at the provider.
    pub(crate) fn payer(&self, attempt: AttemptId, status: ProviderStatus) -> Report {
        let mut books = self.books.lock();
        let entry = books.entries.get_mut(&attempt).unwrap();
        entry.status = status;
        if status == ProviderStatus::Completed {
            entry.captured += 1;
            entry.received = Minor(4990);
        }
        report(entry)
    }

    /// The provider captures this amount. Returns its report.
    pub(crate) fn receives(&self, attempt: AttemptId, amount: Minor) -> Report {
        self.payer(attempt, ProviderStatus::Completed);
        let mut books = self.books.lock();
        let entry = books.entries.get_mut(&attempt).unwrap();
        entry.received = amount;
        report(entry)
    }

    pub(crate) fn script_refunds(&self, scripts: impl IntoIterator<Item = RefundScript>) {
        self.books.lock().refund_scripts.extend(scripts);
    }

    /// Sets the refund terms of the account.
    pub(crate) fn set_terms(&self, terms: Vec<RefundTerms>) {
        self.books.lock().terms = Some(terms);
    }

    /// Makes the account's module fail when it is asked for its refund terms.
    pub(crate) fn fail_terms(&self, fail: bool) {
        self.books.lock().terms_fail = fail;
    }

    /// Refunds that were made or are pending.
    pub(crate) fn refunds(&self) -> Vec<ProviderRefund> {
        self.books.lock().refunds.values().cloned().collect()
    }

    /// Numbers of refund requests and refund queries.
    pub(crate) fn refund_calls(&self) -> (usize, usize) {
        self.books.lock().refund_calls
    }

    /// Sets the state of a refund at the provider. Returns its report.
    pub(crate) fn refund_becomes(
        &self,
        attempt: AttemptId,
        order: RefundId,
        state: RefundState,
    ) -> Report {
        let mut books = self.books.lock();
        let refund = books.refunds.get_mut(&order).unwrap();
        refund.state = state;
        let refund = refund.clone();
        let mut report = report(&books.entries[&attempt]);
        report.particulars.refunds.push(refund);
        report
    }

    /// Waits until this many refunds have reached the provider.
    pub(crate) async fn refunds_reached(&self, refunds: usize) {
        let mut calls = self.refunds_seen.subscribe();
        calls.wait_for(|calls| *calls >= refunds).await.unwrap();
    }

    /// Waits until this many starts have reached the provider.
    pub(crate) async fn reached(&self, starts: usize) {
        let mut calls = self.calls.subscribe();
        calls.wait_for(|calls| *calls >= starts).await.unwrap();
    }
}

pub(crate) fn report(entry: &Entry) -> Report {
    let done = entry.status == ProviderStatus::Completed;
    Report {
        reference: entry.reference.clone(),
        status: entry.status,
        settlement: if done {
            ProviderSettlement::Confirmed
        } else {
            ProviderSettlement::Pending
        },
        received: entry.received,
        currency: "EUR".into(),
        returned: Minor(0),
        detail: String::new(),
        particulars: Particulars::default(),
    }
}

/// The modules of this provider.
pub(crate) struct Scripted(pub(crate) Arc<Vendor>);

impl Modules for Scripted {
    fn method(&self, method: MethodId, _: Environment) -> Option<Arc<dyn Method>> {
        Some(Arc::new(Ranks {
            slot: Slot::of_method(method),
            meeting: self.0.books.lock().meetings.get(&method).cloned(),
            description: Arc::new(MethodDescription {
                id: method,
                label: method.as_str().to_owned(),
                version: "1".into(),
                currencies: vec![],
                translations: vec![],
                icon: vec![],
                settings: vec![],
            }),
        }))
    }

    fn methods(&self) -> Vec<MethodId> {
        MethodId::SPECIFIED.into()
    }

    fn provider(&self, module: &str, _: Environment) -> Option<Arc<dyn Provider>> {
        (module == "sandbox").then(|| {
            let vendor = Arc::clone(&self.0);
            let description = ProviderDescription {
                settings: vendor.books.lock().needs.clone(),
                ..vendor.description.clone()
            };
            Arc::new(Speaks(vendor, description)) as Arc<dyn Provider>
        })
    }

    fn provider_version(&self, _: &Slot, _: &Digest) -> Option<Arc<dyn Provider>> {
        None
    }

    fn previous_provider(&self, _: &str, _: Environment) -> Option<Arc<dyn Provider>> {
        None
    }

    fn is_disabled(&self, slot: &Slot) -> bool {
        self.0.books.lock().disabled.contains(slot.as_str())
    }

    fn forget_tokens(&self, _: &AccountId) {}
}

struct Ranks {
    slot: Slot,
    /// Barrier that it waits at before it answers.
    meeting: Option<Arc<Barrier>>,
    description: Arc<MethodDescription>,
}

impl Ranks {
    fn verdicts(&self, context: &Context) -> Arc<RankAnswer> {
        let mut candidates = context.candidates.clone();
        candidates.sort_by_key(|each| std::cmp::Reverse(each.priority));
        let verdict = |candidate: &kassette_domain::routing::AccountCandidate| {
            let no = |ground| RoutingRefusal {
                ground,
                detail: "no".into(),
            };
            let bad = [Availability::Down, Availability::Stale];
            let outcome = if bad.contains(&candidate.health.status) {
                Err(no(Ground::Health))
            } else if !candidate.takes(context.amount) {
                Err(no(Ground::Amount))
            } else {
                Ok("by priority".to_owned())
            };
            Verdict {
                id: candidate.id.clone(),
                outcome,
            }
        };
        Arc::new(Ok(candidates.iter().map(verdict).collect()))
    }
}

impl Method for Ranks {
    fn slot(&self) -> &Slot {
        &self.slot
    }

    fn digest(&self) -> Digest {
        Digest::hash(b"method")
    }

    fn description(&self) -> &Arc<MethodDescription> {
        &self.description
    }

    fn check_settings(&self, _: &[(String, String)]) -> Result<Result<(), String>, CallError> {
        Ok(Ok(()))
    }
    fn at_once(&self, context: &Context) -> Option<Result<Arc<RankAnswer>, CallError>> {
        let here = self.meeting.is_none();
        here.then(|| Ok(self.verdicts(context)))
    }

    fn rank<'a>(
        self: Arc<Self>,
        context: &'a Context,
    ) -> Calling<'a, Result<Arc<RankAnswer>, CallError>> {
        Box::pin(async move {
            if let Some(meeting) = &self.meeting {
                meeting.wait().await;
            }
            Ok(self.verdicts(context))
        })
    }
}

/// The active version of the provider module, and its description.
struct Speaks(Arc<Vendor>, ProviderDescription);

impl Speaks {
    fn begin(&self, account: &AccountId, attempt: AttemptId) -> Option<Script> {
        let mut books = self.0.books.lock();
        books.starts.push((account.clone(), attempt));
        let script = books.scripts.get_mut(account).and_then(VecDeque::pop_front);
        drop(books);
        self.0.calls.send_modify(|calls| *calls += 1);
        script
    }

    fn give_back(&self, order: &RefundOrder, state: RefundState) -> Given {
        let mut books = self.0.books.lock();
        let refund = books
            .refunds
            .entry(order.id)
            .or_insert_with(|| ProviderRefund {
                id: format!("re-{}", order.id),
                order: Some(order.id),
                amount: order.amount,
                state,
                paid_out: None,
                at: None,
            });
        given(refund)
    }

    fn create(&self, attempt: AttemptId) -> Open {
        let mut books = self.0.books.lock();
        let entry = books.entries.entry(attempt).or_insert_with(|| Entry {
            reference: format!("ref-{attempt}"),
            status: ProviderStatus::Pending,
            received: Minor(0),
            captured: 0,
        });
        Open {
            reference: entry.reference.clone(),
            action: PayerAction::Redirect(format!("https://pay.example/{attempt}")),
            until: None,
        }
    }
}

fn given(refund: &ProviderRefund) -> Given {
    Given {
        reference: refund.id.clone(),
        state: refund.state,
        claim_url: None,
        detail: String::new(),
        paid_out: None,
    }
}

impl Provider for Speaks {
    fn slot(&self) -> &Slot {
        &self.0.slot
    }

    fn digest(&self) -> Digest {
        Digest::hash(b"provider")
    }

    fn description(&self) -> &ProviderDescription {
        &self.1
    }

    fn check_settings(
        &self,
        _: Environment,
        _: &[(String, String)],
    ) -> Result<Result<(), String>, CallError> {
        Ok(Ok(()))
    }
    fn start<'a>(
        &'a self,
        access: &'a Access,
        attempt: &'a AttemptFacts,
    ) -> Calling<'a, Result<Started, StartFailure>> {
        assert!(access.not_after.is_some(), "a start is held until a time");
        Box::pin(async move {
            let (account, id) = (&access.account.id, attempt.id);
            match self.begin(account, id) {
                None => {}
                Some(Script::Unavailable) => {
                    access.contact.fail("503", None);
                    return Err(StartFailure::Unavailable("503".into()));
                }
                Some(Script::Overloaded(wait)) => {
                    access.contact.fail("503", Some(wait));
                    return Err(StartFailure::Unavailable("503".into()));
                }
                Some(Script::Refused) => return Err(StartFailure::Unavailable("422".into())),
                Some(Script::NotActivated) => {
                    let why = "the method is not activated".to_owned();
                    return Err(StartFailure::NotActivated(why));
                }
                Some(Script::AnotherHost) => {
                    let open = self.create(id);
                    return Err(StartFailure::PageRefused {
                        reference: open.reference,
                        page: "checkout.vendor.example".into(),
                    });
                }
                Some(Script::Declined) => return Err(StartFailure::Declined("no".into())),
                Some(Script::LostBefore) => return Err(StartFailure::Uncertain("lost".into())),
                Some(Script::LostAfter) => {
                    self.create(id);
                    return Err(StartFailure::Uncertain("lost".into()));
                }
                Some(Script::Ask) if attempt.answers.is_empty() => {
                    return Ok(Started::Ask(vec![Question {
                        name: "email".into(),
                        label: "E-mail".into(),
                        kind: QuestionKind::Email,
                        required: true,
                        choices: vec![],
                    }]));
                }
                Some(Script::Ask) => {}
                Some(Script::SlowlyUnavailable(go)) => {
                    go.notified().await;
                    return Err(StartFailure::Unavailable("503".into()));
                }
                Some(Script::Slow(go)) => {
                    let open = self.create(id);
                    go.notified().await;
                    return Ok(Started::Open(open));
                }
                Some(Script::Reference(reference)) => {
                    let open = self.create(id);
                    return Ok(Started::Open(Open { reference, ..open }));
                }
            }
            Ok(Started::Open(self.create(id)))
        })
    }

    fn callback<'a>(
        &'a self,
        access: &'a Access,
        _: &'a CallbackRequest,
    ) -> Calling<'a, Result<Result<CallbackReply, CallbackFailure>, CallError>> {
        let mut books = self.0.books.lock();
        if access.stranger.is_some() && books.stuck.contains(&access.account.id) {
            books.stuck_calls += 1;
            return Box::pin(std::future::pending());
        }
        let answer = books.callbacks.pop_front();
        Box::pin(async move { answer.map(Ok).unwrap_or(Err(CallError::Trap)) })
    }

    fn query<'a>(
        &'a self,
        access: &'a Access,
        question: &'a ProviderQuery,
    ) -> Calling<'a, Result<Result<Report, QueryFailure>, CallError>> {
        let (id, purpose) = (question.attempt.id, question.purpose);
        let is_held = purpose != QueryPurpose::Sync;
        assert_eq!(access.not_after.is_some(), is_held, "{purpose:?}");
        let mut books = self.0.books.lock();
        books.queries.push((id, purpose));
        if books.hanging.contains(&access.account.id) {
            return Box::pin(std::future::pending());
        }
        if books.silent {
            let silent = QueryFailure::Unavailable("silent".into());
            return Box::pin(async move { Ok(Err(silent)) });
        }
        let answer = match books.entries.get_mut(&id) {
            None => Err(QueryFailure::Absent),
            Some(entry) => {
                if purpose == QueryPurpose::Capture && entry.status == ProviderStatus::Processing {
                    entry.status = ProviderStatus::Completed;
                    entry.captured += 1;
                    entry.received = question.attempt.due.amount;
                }
                let open = [ProviderStatus::Pending, ProviderStatus::Processing];
                if purpose == QueryPurpose::Cancel && open.contains(&entry.status) {
                    entry.status = ProviderStatus::Declined;
                }
                Ok(report(entry))
            }
        };
        Box::pin(async move { Ok(answer) })
    }

    fn refund_terms<'a>(
        &'a self,
        _: &'a Access,
    ) -> Calling<'a, Result<Vec<RefundTerms>, CallError>> {
        let books = self.0.books.lock();
        let any = RefundTerms {
            method: MethodId::Ideal,
            parts: true,
            at_most: None,
            days: None,
            whole_units: Vec::new(),
        };
        let terms = books.terms.clone().unwrap_or_else(|| vec![any]);
        let answer = if books.terms_fail {
            Err(CallError::Trap)
        } else {
            Ok(terms)
        };
        Box::pin(async move { answer })
    }

    fn refund<'a>(
        &'a self,
        access: &'a Access,
        paid: &'a PaidFacts,
        order: &'a RefundOrder,
    ) -> Calling<'a, Result<Given, RefundFailure>> {
        assert!(access.not_after.is_some(), "a refund is held until a time");
        Box::pin(async move {
            let script = {
                let mut books = self.0.books.lock();
                assert!(books.entries[&paid.attempt].received == paid.received);
                books.refund_calls.0 += 1;
                books.refund_scripts.pop_front()
            };
            let lost = || RefundFailure::Uncertain("lost".into());
            let answer = match script {
                None => Ok(self.give_back(order, RefundState::Succeeded)),
                Some(RefundScript::Pending) => Ok(self.give_back(order, RefundState::Pending)),
                Some(RefundScript::Unavailable) => Err(RefundFailure::Unavailable("429".into())),
                Some(RefundScript::Refused) => Err(RefundFailure::Refused("too old".into())),
                Some(RefundScript::LostBefore) => Err(lost()),
                Some(RefundScript::LostAfter) => {
                    self.give_back(order, RefundState::Succeeded);
                    Err(lost())
                }
                Some(RefundScript::Slow(go)) => {
                    let given = self.give_back(order, RefundState::Succeeded);
                    self.0.refunds_seen.send_modify(|seen| *seen += 1);
                    go.notified().await;
                    Ok(given)
                }
            };
            self.0.refunds_seen.send_modify(|seen| *seen += 1);
            answer
        })
    }

    fn query_refund<'a>(
        &'a self,
        _: &'a Access,
        _: &'a PaidFacts,
        order: &'a RefundOrder,
        _: RefundQuery,
    ) -> Calling<'a, Result<Result<Given, QueryFailure>, CallError>> {
        let mut books = self.0.books.lock();
        books.refund_calls.1 += 1;
        let answer = match books.refunds.get(&order.id) {
            _ if books.silent => Err(QueryFailure::Unavailable("silent".into())),
            Some(refund) => Ok(given(refund)),
            None => Err(QueryFailure::Absent),
        };
        Box::pin(async move { Ok(answer) })
    }

    fn health<'a>(&'a self, _: &'a Access) -> Calling<'a, Result<Condition, CallError>> {
        let down = self.0.books.lock().down;
        Box::pin(async move {
            Ok(if down {
                Condition::Down("down".into())
            } else {
                Condition::Operational
            })
        })
    }
}
