//! Implements the interface to the modules with the runtime.

use std::collections::HashMap;
use std::sync::Arc;

use kassette_domain::id::{AccountId, Digest, Slot};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::provider::{
    AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Condition, Encoding, Given,
    PaidFacts, ProviderDescription, QueryFailure, RefundFailure, RefundOrder, RefundQuery,
    RefundTerms, Report, StartFailure, Started,
};
use kassette_domain::routing::{Context, MethodDescription, RankAnswer};
use kassette_domain::secret::Secret;
use kassette_runtime::{
    AccountAccess, CallError, MethodModule, ModuleClass, OpenedModule, ProviderModule, Recording,
    Runtime, SecretEntry, TokenStore,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::modules::{Access, Calling, Method, Modules, OnTrial, Provider, ProviderQuery};

/// Limits concurrent rankings by interpreted modules: each takes a thread of the blocking pool for up to 50
/// ms.
static INTERPRETED: Semaphore = Semaphore::const_new(8);

/// Tokens that modules obtained, per account.
type Tokens = Arc<Mutex<HashMap<AccountId, Arc<TokenStore>>>>;

/// Modules in WebAssembly.
pub struct WasmModules {
    runtime: Arc<Runtime>,
    tokens: Tokens,
}

impl WasmModules {
    /// The modules of a runtime.
    pub fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            tokens: Tokens::default(),
        }
    }

    fn wrap(&self, module: Arc<ProviderModule>) -> Arc<dyn Provider> {
        Arc::new(WasmProvider {
            module,
            tokens: Arc::clone(&self.tokens),
        })
    }
}

impl Modules for WasmModules {
    fn method(&self, method: MethodId, environment: Environment) -> Option<Arc<dyn Method>> {
        let module = self.runtime.method_in(method, environment)?;
        Some(module)
    }

    fn methods(&self) -> Vec<MethodId> {
        self.runtime.methods()
    }

    fn provider(&self, module: &str, environment: Environment) -> Option<Arc<dyn Provider>> {
        self.runtime
            .provider_in(module, environment)
            .map(|module| self.wrap(module))
    }

    fn provider_version(&self, slot: &Slot, digest: &Digest) -> Option<Arc<dyn Provider>> {
        let module = self.runtime.provider_version(slot, digest)?;
        Some(self.wrap(module))
    }

    fn previous_provider(
        &self,
        module: &str,
        environment: Environment,
    ) -> Option<Arc<dyn Provider>> {
        let module = self.runtime.provider_before(module, environment)?;
        Some(self.wrap(module))
    }

    fn is_disabled(&self, slot: &Slot) -> bool {
        self.runtime.is_disabled(slot)
    }

    fn has_trials(&self) -> bool {
        self.runtime.has_trials()
    }

    fn method_on_trial(&self, method: MethodId) -> Option<OnTrial<dyn Method>> {
        let staged = self.runtime.staged_method(method)?;
        let OpenedModule::Method(module) = &staged.module else {
            return None;
        };
        Some(OnTrial {
            candidate: Arc::clone(&staged.candidate),
            module: Arc::clone(module) as Arc<dyn Method>,
        })
    }

    fn provider_on_trial(&self, slot: &Slot) -> Option<OnTrial<dyn Provider>> {
        let staged = self.runtime.staged(slot)?;
        let OpenedModule::Provider(module) = &staged.module else {
            return None;
        };
        Some(OnTrial {
            candidate: Arc::clone(&staged.candidate),
            module: self.wrap(Arc::clone(module)),
        })
    }

    fn forget_tokens(&self, account: &AccountId) {
        if let Some(tokens) = self.tokens.lock().get(account) {
            tokens.clear();
        }
    }
}

impl Method for MethodModule {
    fn slot(&self) -> &Slot {
        self.slot()
    }

    fn digest(&self) -> Digest {
        self.digest()
    }

    fn description(&self) -> &Arc<MethodDescription> {
        self.description()
    }

    fn check_settings(
        &self,
        settings: &[(String, String)],
    ) -> Result<Result<(), String>, CallError> {
        self.check_settings(settings)
    }

    fn at_once(&self, context: &Context) -> Option<Result<Arc<RankAnswer>, CallError>> {
        match self.class() {
            ModuleClass::Native => Some(self.answer(context)),
            ModuleClass::Interpreted => self.cached_answer(context).map(Ok),
        }
    }

    fn rank<'a>(
        self: Arc<Self>,
        context: &'a Context,
    ) -> Calling<'a, Result<Arc<RankAnswer>, CallError>> {
        Box::pin(async move {
            let permit = INTERPRETED.acquire().await.map_err(|_| CallError::Busy)?;
            let context = context.clone();
            let ranked = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                self.answer(&context)
            });
            ranked.await.map_err(|_| CallError::Trap)?
        })
    }
}

struct WasmProvider {
    module: Arc<ProviderModule>,
    tokens: Tokens,
}

impl WasmProvider {
    /// Converts to the runtime's form: adds the key encodings of this version, and the tokens.
    fn access(&self, access: &Access) -> AccountAccess {
        let described = &self.module.description().secrets;
        let encoding = |name: &str| {
            let known = described.iter().find(|secret| secret.name == name);
            known.map_or(Encoding::Text, |secret| secret.encoding)
        };
        let secrets = access.secrets.iter().map(|secret| SecretEntry {
            name: secret.name.clone(),
            values: secret.values.clone(),
            encoding: encoding(&secret.name),
            hosts: secret.hosts.clone(),
        });
        let mut tokens = self.tokens.lock();
        let tokens = tokens.entry(access.account.id.clone()).or_default();
        AccountAccess {
            account: access.account.clone(),
            hosts: access.hosts.clone(),
            redirect_hosts: access.redirect_hosts.clone(),
            secrets: secrets.collect(),
            plain_loopback: access.plain_loopback,
            tokens: Arc::clone(tokens),
            stranger: access.stranger,
            not_after: access.not_after,
            contact: access.contact.clone(),
            recording: match &access.recorder {
                Some(recorder) => Recording::On(recorder.clone()),
                None => Recording::Off,
            },
        }
    }
}

impl Provider for WasmProvider {
    fn slot(&self) -> &Slot {
        self.module.slot()
    }

    fn digest(&self) -> Digest {
        self.module.digest()
    }

    fn description(&self) -> &ProviderDescription {
        self.module.description()
    }

    fn check_settings(
        &self,
        environment: Environment,
        settings: &[(String, String)],
    ) -> Result<Result<(), String>, CallError> {
        self.module.check_settings(environment, settings)
    }

    fn start<'a>(
        &'a self,
        access: &'a Access,
        attempt: &'a AttemptFacts,
    ) -> Calling<'a, Result<Started, StartFailure>> {
        Box::pin(async move {
            self.module
                .start(&self.access(access), attempt)
                .await
                .result
        })
    }

    fn callback<'a>(
        &'a self,
        access: &'a Access,
        incoming: &'a CallbackRequest,
    ) -> Calling<'a, Result<Result<CallbackReply, CallbackFailure>, CallError>> {
        Box::pin(async move { self.module.callback(&self.access(access), incoming).await })
    }

    fn query<'a>(
        &'a self,
        access: &'a Access,
        question: &'a ProviderQuery,
    ) -> Calling<'a, Result<Result<Report, QueryFailure>, CallError>> {
        Box::pin(async move {
            let access = self.access(access);
            let reference = question.reference.as_deref();
            let returned = question.returned.as_ref().map(Secret::expose);
            self.module
                .query(
                    &access,
                    &question.attempt,
                    reference,
                    question.purpose,
                    returned,
                )
                .await
        })
    }

    fn refund_terms<'a>(
        &'a self,
        access: &'a Access,
    ) -> Calling<'a, Result<Vec<RefundTerms>, CallError>> {
        Box::pin(async move { self.module.refund_terms(&self.access(access)).await })
    }

    fn refund<'a>(
        &'a self,
        access: &'a Access,
        paid: &'a PaidFacts,
        order: &'a RefundOrder,
    ) -> Calling<'a, Result<Given, RefundFailure>> {
        Box::pin(async move { self.module.refund(&self.access(access), paid, order).await })
    }

    fn query_refund<'a>(
        &'a self,
        access: &'a Access,
        paid: &'a PaidFacts,
        order: &'a RefundOrder,
        purpose: RefundQuery,
    ) -> Calling<'a, Result<Result<Given, QueryFailure>, CallError>> {
        Box::pin(async move {
            let access = self.access(access);
            self.module
                .query_refund(&access, paid, order, purpose)
                .await
        })
    }

    fn health<'a>(&'a self, access: &'a Access) -> Calling<'a, Result<Condition, CallError>> {
        Box::pin(async move { self.module.health(&self.access(access)).await })
    }
}
