//! A server with the simulated accounts of every module, a shop for each, and a proxy for all callbacks.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::harness::{Server, unique};
use crate::receiver::{Got, Receiver};
use crate::tap::Tap;

/// Runtime that outlives the tests' own ones, for proxies and receivers of shared servers.
pub(crate) static BACKGROUND: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
});

#[derive(Clone, Debug)]
pub(crate) struct Module {
    pub(crate) name: String,
    /// Account of the test environment.
    pub(crate) account: String,
    pub(crate) live_account: String,
    pub(crate) methods: Vec<String>,
}

pub(crate) struct Shop {
    pub(crate) key: String,
    secret: String,
}

/// A running `dev` with everything that the tests need.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) tap: Tap,
    pub(crate) modules: Vec<Module>,
    receiver: Receiver,
    shops: HashMap<String, Shop>,
    turns: HashMap<String, Mutex<()>>,
}

/// The shared server whose clock no test moves.
pub(crate) async fn calm() -> &'static World {
    static CALM: OnceCell<World> = OnceCell::const_new();
    CALM.get_or_init(World::new).await
}

/// The shared server whose clock tests move. The guard gives one test at a time access to it.
pub(crate) async fn hurried() -> (&'static World, MutexGuard<'static, ()>) {
    static HURRIED: OnceCell<World> = OnceCell::const_new();
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    (HURRIED.get_or_init(World::new).await, turn)
}

impl World {
    /// Starts a separate server, which the test may stop.
    pub(crate) async fn alone() -> &'static Self {
        Self::with("").await
    }

    /// Starts a separate server with this `kassette.toml`.
    pub(crate) async fn with(main: &str) -> &'static Self {
        Box::leak(Box::new(Self::configured(main).await))
    }

    async fn new() -> Self {
        Self::configured("").await
    }

    async fn configured(main: &str) -> Self {
        let server = Arc::new(Server::simulating(&wanted(), main).await);
        let inside = Arc::clone(&server);
        // All listeners must live as long as the server.
        let made = BACKGROUND.spawn(async move {
            let modules = modules(&inside).await;
            let both = |module: &Module| [module.account.clone(), module.live_account.clone()];
            let accounts: Vec<String> = modules.iter().flat_map(both).collect();
            let tap = Tap::before(&inside, &accounts).await;
            let receiver = Receiver::new().await;
            let mut shops = HashMap::new();
            for module in &modules {
                let shop = Shop::open(&inside, module, &receiver).await;
                shops.insert(module.account.clone(), shop);
            }
            (modules, tap, receiver, shops)
        });
        let (modules, tap, receiver, shops) = made.await.unwrap();
        let turn = |module: &Module| (module.account.clone(), Mutex::default());
        Self {
            server: Arc::into_inner(server).unwrap(),
            tap,
            turns: modules.iter().map(turn).collect(),
            modules,
            receiver,
            shops,
        }
    }

    /// Runs `act` for all modules concurrently, with exclusive use of each account. Panics with the names of the
    /// modules that failed.
    pub(crate) async fn each(&'static self, act: impl AsyncFn(Desk)) {
        let act = &act;
        let ended = join_all(self.modules.iter().map(|module| self.tried(module, act))).await;
        let failed: Vec<&str> = ended.into_iter().flatten().collect();
        assert!(failed.is_empty(), "failed for {failed:?}, as told above");
    }

    /// Runs `act` for one module, with exclusive use of its account.
    pub(crate) async fn one(&'static self, module: &'static Module, act: impl AsyncFn(Desk)) {
        let failed = self.tried(module, &act).await;
        assert_eq!(failed, None, "failed, as told above");
    }

    /// Runs `act` and returns the module's name if it panics.
    async fn tried(
        &'static self,
        module: &'static Module,
        act: &impl AsyncFn(Desk),
    ) -> Option<&'static str> {
        let turn = self.turns[&module.account].lock().await;
        let desk = Desk {
            world: self,
            module,
        };
        let ended = AssertUnwindSafe(act(desk)).catch_unwind().await;
        // Reset the account for the next test.
        self.tap.pass(&module.account);
        self.server.fault(&module.account, "none", 1).await;
        drop(turn);
        ended.err().map(|_| module.name.as_str())
    }

    /// Events that the merchant received about a payment, oldest first.
    pub(crate) fn told(&self, payment: &Value) -> Vec<Got> {
        let mut got = self.receiver.got();
        got.retain(|got| got.event()["data"]["payment_id"] == payment["payment_id"]);
        got
    }
}

/// A module of a server.
#[derive(Clone, Copy)]
pub(crate) struct Desk {
    pub(crate) world: &'static World,
    pub(crate) module: &'static Module,
}

impl Desk {
    pub(crate) fn server(&self) -> &'static Server {
        &self.world.server
    }

    pub(crate) fn account(&self) -> &'static str {
        &self.module.account
    }

    pub(crate) fn key(&self) -> &'static str {
        &self.shop().key
    }

    /// Secret of the shop's webhook endpoint.
    pub(crate) fn secret(&self) -> &'static str {
        &self.shop().secret
    }

    fn shop(&self) -> &'static Shop {
        &self.world.shops[&self.module.account]
    }

    /// A method of the module, for tests that need only one.
    pub(crate) fn any_method(&self) -> &'static str {
        &self.module.methods[0]
    }

    /// Applies a fault to the account's next call or callback.
    pub(crate) async fn fault(&self, fault: &str) {
        self.server().fault(self.account(), fault, 1).await;
    }

    /// Removes all faults of the account.
    pub(crate) async fn no_fault(&self) {
        self.fault("none").await;
    }
}

/// All modules with a simulator, or only the modules in `KASSETTE_MODULES`.
pub(crate) fn wanted() -> Vec<&'static str> {
    let mut modules = kassette_sim::modules().to_vec();
    if let Ok(asked) = std::env::var("KASSETTE_MODULES") {
        modules.retain(|module| asked.split(',').any(|asked| asked == *module));
        assert!(!modules.is_empty(), "no module of {asked}");
    }
    modules
}

/// Modules that a server is configured for, sorted by name. The sandbox is always included.
pub(crate) async fn modules(server: &Server) -> Vec<Module> {
    let listed = server.admin("GET", "/providers?limit=100", None).await;
    let listed = listed.expect(200).json();
    let accounts = listed["providers"].as_array().unwrap();
    let text = |account: &Value, field: &str| account[field].as_str().unwrap().to_owned();
    let of = |account: &Value| {
        let name = text(account, "module");
        let methods = account["methods"].as_array().unwrap().iter();
        Module {
            account: text(account, "id"),
            live_account: format!("{name}-live"),
            methods: methods
                .map(|method| method.as_str().unwrap().to_owned())
                .collect(),
            name,
        }
    };
    let simulated = accounts
        .iter()
        .filter(|account| account["simulated"] == true && account["environment"] == "test");
    let mut modules: Vec<Module> = simulated.map(of).collect();
    modules.sort_by(|one, other| one.name.cmp(&other.name));
    modules
}

impl Shop {
    async fn open(server: &Server, module: &Module, receiver: &Receiver) -> Self {
        let to_it = json!({ "enabled": true, "providers": [module.account] });
        let methods: serde_json::Map<String, Value> = module
            .methods
            .iter()
            .map(|method| (method.clone(), to_it.clone()))
            .collect();
        let body = json!({
            "name": format!("Shop {} {}", module.name, unique()),
            "live_approved": false,
            "fx_rates": { "EUR": "1.08", "GBP": "1.27", "INR": "0.012", "CAD": "0.73" },
            "policy": { "provider_choice": true, "methods": methods },
        });
        let made = server.admin("POST", "/merchants", Some(&body)).await;
        let id = made.expect(201).json()["merchant_id"].as_u64().unwrap();
        let key = server.refund_key(id, "test").await;
        let hook = server.hook(id, receiver, json!({})).await;
        Self {
            key,
            secret: hook.secret,
        }
    }
}
