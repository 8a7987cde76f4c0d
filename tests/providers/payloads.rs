//! Payloads of the real providers (`providers/*/tests/payloads`), replayed against the running gateway: as
//! callbacks, signed under the account's key, and as answers to the gateway's own requests.
//!
//! The gateway's accounts use a proxy before each provider's simulator (`stub`). Payments are started, approved
//! and queried as usual, except that one response is the real provider's. `rows` contains the expected readings.

mod rows;
mod stub;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use kassette_sim::{Sim, SimAccount, SimConfig};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::rows::{Row, TABLES, Table, When};
use self::stub::{Payload, Stub};
use crate::harness::{Server, merge, new_payment, unique};
use crate::world::{BACKGROUND, wanted};

/// A gateway whose accounts use stubs.
struct Replay {
    server: Server,
    sim: Sim,
    stubs: HashMap<&'static str, Stub>,
}

async fn replay() -> &'static Replay {
    static REPLAY: OnceCell<Replay> = OnceCell::const_new();
    REPLAY.get_or_init(Replay::new).await
}

fn account(module: &str) -> String {
    format!("{module}-replay")
}

fn folder(module: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.join("../../providers")
        .join(module)
        .join("tests/payloads")
}

impl Replay {
    async fn new() -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let data = folder.path().join("simulators");
        // Simulators and stubs must outlive the runtime of the first test.
        let opened = BACKGROUND.spawn(async move {
            let accounts = TABLES.iter().map(|table| SimAccount {
                provider_id: account(table.module),
                module: table.module.into(),
                environment: kassette_sim::Environment::Test,
                client_id: "client_of_the_replay".into(),
                api_key: "apiKeyOfTheReplay0123456789".into(),
                callback_secret: "callbacksOfTheReplay0123456789".into(),
                callback_url: None,
                public_base: None,
            });
            let now = || {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                u64::try_from(since.unwrap().as_millis()).unwrap()
            };
            let config = SimConfig {
                listen: SocketAddr::from(([127, 0, 0, 1], 0)),
                data_dir: data,
                accounts: accounts.collect(),
                clock: Arc::new(now),
                record: None,
            };
            let sim = Sim::start(config).await.unwrap();
            let mut stubs = HashMap::new();
            for table in &TABLES {
                let api = sim.api_addr(&account(table.module)).unwrap();
                stubs.insert(table.module, Stub::before(api).await);
            }
            (sim, stubs)
        });
        let (sim, stubs) = opened.await.unwrap();
        let providers = folder.path().join("config/providers");
        std::fs::create_dir_all(&providers).unwrap();
        for table in &TABLES {
            let id = account(table.module);
            let file = account_file(&sim, &id, table.module, stubs[table.module].address);
            std::fs::write(providers.join(format!("{id}.toml")), file).unwrap();
        }
        let plugins = folder.path().join("data/plugins");
        std::fs::create_dir_all(&plugins).unwrap();
        let modules: Vec<&str> = TABLES.iter().map(|table| table.module).collect();
        for guest in kassette_build::guests_with(&modules) {
            let copy = plugins.join(format!("{}.wasm", guest.slot));
            std::fs::copy(&guest.path, copy).unwrap();
        }
        let server = Server::in_folder(folder).await;
        for table in &TABLES {
            // The module trusts a certificate only at its account's address, which is the stub's. PayPal's payers
            // return instead.
            if table.module != "paypal" {
                let id = account(table.module);
                let url = format!("{}/callbacks/{id}", server.base());
                sim.set_callback_url(&id, &url).unwrap();
            }
        }
        Self { server, sim, stubs }
    }
}

/// File of the account for a stub.
fn account_file(sim: &Sim, id: &str, module: &str, stub: SocketAddr) -> String {
    let (profile, api) = (sim.profile(id).unwrap(), sim.api_addr(id).unwrap());
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut file = format!(
        "module = \"{module}\"\nname = \"{}\"\nenvironment = \"test\"\nsimulated = true\nmerchants = \"all\"\n\
         hosts = [\"{stub}\", \"{api}\"]\nredirect_hosts = [\"{}\"]\n[settings]\n",
        profile.name,
        sim.addr()
    );
    for (name, value) in &profile.settings {
        let value = value.replace(&api.to_string(), &stub.to_string());
        file += &format!("{name} = {}\n", quoted(&value));
    }
    for (name, value) in &profile.secrets {
        file += &format!("[secrets.{name}]\nvalue = {}\n", quoted(value));
    }
    for method in profile.methods {
        file += &format!("[methods.{method}]\n");
    }
    file
}

/// A payload by its file name without `.json`, and the media type collected with it.
fn payload(module: &str, name: &str) -> (Payload, String) {
    let bytes = std::fs::read(folder(module).join(format!("{name}.json"))).unwrap();
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    let status = file["status"].as_u64().unwrap_or(200);
    let bytes = match (&file["body_text"], &file["body"]) {
        (Value::String(text), _) => text.clone().into_bytes(),
        (_, body @ Value::Object(_)) => body.to_string().into_bytes(),
        _ => bytes,
    };
    let media_type = file
        .pointer("/headers/Content-Type")
        .and_then(Value::as_str);
    let payload = Payload {
        status: u16::try_from(status).unwrap(),
        json: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        bytes,
    };
    (payload, media_type.unwrap_or("application/json").to_owned())
}

struct Case<'r> {
    replay: &'r Replay,
    table: &'static Table,
    key: &'r str,
    payment: Value,
}

impl Case<'_> {
    fn server(&self) -> &Server {
        &self.replay.server
    }

    fn stub(&self) -> &Stub {
        &self.replay.stubs[self.table.module]
    }

    /// The payload with the tested payment's references instead of another shop's.
    async fn with_our_references(&self, mut payload: Payload) -> Payload {
        let attempts = self.server().attempts(&self.payment).await;
        let Some(attempt) = attempts.last() else {
            return payload;
        };
        let id = attempt["attempt_id"].as_str().unwrap();
        let reference = attempt["reference"].as_str().unwrap_or_default();
        let references = attempt["references"].as_array().unwrap().iter();
        let mut references = references.filter_map(Value::as_str);
        let profile = self
            .replay
            .sim
            .profile(&account(self.table.module))
            .unwrap();
        let mut settings = profile.settings.into_iter();
        let mut setting = |wanted: &str| {
            let found = settings.find(|(name, _)| name == wanted);
            json!(found.unwrap().1)
        };
        let body = &mut payload.json;
        match self.table.module {
            "stripe" if body.pointer("/data/object").is_some() => {
                body["data"]["object"]["metadata"] = json!({ "attempt": id });
            }
            "adyen" => {
                body["live"] = json!("false");
                let merchant = setting("merchant-account");
                let items = body["notificationItems"].as_array_mut().unwrap();
                for item in items {
                    let item = &mut item["NotificationRequestItem"];
                    let report = item["eventCode"] == "REPORT_AVAILABLE";
                    if report && item["additionalData"]["hmacSignature"].is_null() {
                        // Adyen does not sign reports.
                        if let Some(fields) = item.as_object_mut() {
                            fields.remove("additionalData");
                        }
                        continue;
                    }
                    item["merchantAccountCode"] = merchant.clone();
                    item["merchantReference"] = json!(id);
                    if item["eventCode"] == "AUTHORISATION" {
                        item["pspReference"] = json!(id[..16].to_uppercase());
                    }
                    if item["additionalData"].is_null() {
                        item["additionalData"] = json!({});
                    }
                }
            }
            "btcpay" if body.get("storeId").is_some() || body.get("status").is_none() => {
                body["storeId"] = setting("store-id");
                body["metadata"]["orderId"] = json!(id);
            }
            "paysafe" => rename(body, "merchantRefNum", id),
            "revolut" if body.get("event").is_some() => {
                body["merchant_order_ext_ref"] = json!(id);
            }
            "razorpay" => {
                for name in ["payment", "order"] {
                    if let Some(entity) = body.pointer_mut(&format!("/payload/{name}/entity")) {
                        entity["notes"] = json!({ "attempt": id });
                    }
                }
                if let Some(link) = body.pointer_mut("/payload/payment_link/entity") {
                    link["reference_id"] = json!(id);
                }
                if let Some(paid) = references.find(|id| id.starts_with("pay_")) {
                    let text = String::from_utf8(payload.bytes.clone()).unwrap();
                    let named = body["payment_id"].as_str().unwrap_or(paid);
                    payload.bytes = text.replace(named, paid).into_bytes();
                    rename(body, "payment_id", paid);
                }
            }
            "paypal" => {
                // The dispute was collected as a query response, which has the same shape as an event's resource.
                if body.get("dispute_id").is_some() {
                    let resource = body.take();
                    *body =
                        json!({ "event_type": "CUSTOMER.DISPUTE.RESOLVED", "resource": resource });
                    body["resource"]["disputed_transactions"][0]["custom"] = json!(id);
                }
                if body["resource"].get("custom_id").is_some() {
                    body["resource"]["custom_id"] = json!(id);
                }
            }
            "mollie" if body.is_null() => {
                payload.bytes = format!("id={reference}").into_bytes();
                return payload;
            }
            _ => {}
        }
        payload
    }

    async fn start(&self) -> crate::harness::Answer {
        let body = json!({
            "payment_id": self.payment["payment_id"], "payment_method": self.table.method,
            "provider_id": account(self.table.module),
        });
        let server = self.server();
        server.post(self.key, "/api/v1/payments/start", &body).await
    }

    /// Summary of the payment, in the format of `rows`.
    async fn reading(&self) -> String {
        let inside = self.server().inside(&self.payment).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut told = text(&inside["payment"]["status"]);
        if let Some(attempt) = inside["attempts"].as_array().and_then(|all| all.last()) {
            let [received, returned, currency] =
                ["received", "returned", "currency"].map(|name| text(&attempt[name]));
            told += &format!(" {received} {currency}");
            if returned != "0.00" {
                told += &format!(", returned {returned}");
            }
        }
        for refund in inside["refunds"].as_array().unwrap() {
            let [amount, status] = ["amount", "status"].map(|name| text(&refund[name]));
            told += &format!(", refund {amount} {status}");
        }
        for dispute in inside["disputes"].as_array().unwrap() {
            let [kind, amount, state] =
                ["kind", "amount", "state"].map(|name| text(&dispute[name]));
            told += &format!(", {kind} {amount} {state}");
        }
        let work = self.server().work(&self.payment).await;
        let open = work.iter().filter(|item| item["done_at"].is_null());
        let kinds: BTreeSet<String> = open.map(|item| text(&item["kind"])).collect();
        for kind in kinds {
            told += &format!(", work: {kind}");
        }
        told
    }

    /// Posts a signed payload to the account's callback address.
    async fn post(&self, payload: &Payload, media_type: &str) -> u16 {
        let body = match &payload.json {
            Value::Null => String::from_utf8(payload.bytes.clone()).unwrap(),
            json => json.to_string(),
        };
        let id = account(self.table.module);
        let (headers, body) = self.replay.sim.signed(&id, &body, true).unwrap();
        let url = format!("{}/callbacks/{id}", self.server().base());
        let mut request = self
            .server()
            .http
            .post(url)
            .header("content-type", media_type);
        let api = self.replay.sim.api_addr(&id).unwrap().to_string();
        for (name, value) in headers {
            // PayPal's certificate URL must be at the account's own address.
            let value = value.replace(&api, &self.stub().address.to_string());
            request = request.header(name, value);
        }
        self.server().send(request.body(body)).await.status
    }

    /// Approves the payment and waits until it is completed.
    async fn pay(&self, begins: &str) {
        let (_, form) = self.server().to_the_vendor(begins).await;
        let pressed = self.server().press(&form, "approve").await.expect(303);
        if let Some(back) = pressed.header("location") {
            self.server().open(back).await;
        }
        self.server()
            .until(self.key, &self.payment, "completed")
            .await;
    }

    /// Makes the gateway query the provider and waits for the outcome.
    async fn ask(&self) {
        let asked = self.server().act(&self.payment, "query").await;
        assert_eq!(asked.status / 100, 2, "{asked:?}");
    }

    async fn run(&self, row: &Row) -> String {
        let (collected, media_type) = payload(self.table.module, row.name);
        if matches!(row.when, When::Start) {
            self.stub().arm(row.edits, collected);
            let answer = self.start().await;
            return format!("{}: {}", answer.status, self.reading().await);
        }
        let started = self.start().await.expect(200).json();
        let begins = started["redirect_url"].as_str().unwrap();
        match row.when {
            When::Open => drop(self.server().to_the_vendor(begins).await),
            When::Paid | When::Refund(_) => self.pay(begins).await,
            _ => {}
        }
        let ours = self.with_our_references(collected).await;
        match row.when {
            When::Callback => {
                let requests = self.stub().requests();
                let status = self.post(&ours, &media_type).await;
                let asks = row.reading.contains("asks");
                if asks {
                    let asked = async || (self.stub().requests() > requests).then_some(());
                    self.server()
                        .wait_for("a request to the provider", asked)
                        .await;
                    self.ask().await;
                }
                let asks = if asks { " asks" } else { "" };
                format!("{status}{asks}: {}", self.reading().await)
            }
            When::Refund(amount) => {
                self.stub().arm(row.edits, ours);
                let refund =
                    self.server()
                        .refund(self.key, &self.payment, json!({ "amount": amount }));
                let refund = refund.await;
                let told = refund.json();
                let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
                format!("{}: {} {}", refund.status, text("amount"), text("status"))
            }
            _ => {
                self.stub().arm(row.edits, ours);
                self.ask().await;
                self.reading().await
            }
        }
    }
}

/// Replaces the text of all fields with this name, recursively.
fn rename(value: &mut Value, field: &str, text: &str) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == field {
                    *value = json!(text);
                } else {
                    rename(value, field, text);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, field, text)),
        _ => {}
    }
}

async fn shop(server: &Server, table: &Table) -> String {
    let to_it = json!({ "enabled": true, "providers": [account(table.module)] });
    let body = json!({
        "name": format!("Replay {}", unique()), "live_approved": false,
        "fx_rates": { "EUR": "1.08", "GBP": "1.27", "INR": "0.012", "CAD": "0.73" },
        "policy": { "provider_choice": true, "methods": { table.method: to_it } },
    });
    let made = server
        .admin("POST", "/merchants", Some(&body))
        .await
        .expect(201);
    let id = made.json()["merchant_id"].as_u64().unwrap();
    server.refund_key(id, "test").await
}

async fn every_payload_has_its_reading(module: &str) {
    if !wanted().contains(&module) {
        return;
    }
    let table = TABLES.iter().find(|table| table.module == module).unwrap();
    let files = std::fs::read_dir(folder(module))
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".json").map(str::to_owned)
        });
    let files: BTreeSet<String> = files.collect();
    let names = table.rows.iter().map(|row| row.name.to_owned());
    assert_eq!(
        names.collect::<BTreeSet<_>>(),
        files,
        "rows, and files of the folder"
    );

    let replay = replay().await;
    let key = shop(&replay.server, table).await;
    let mut wrong = Vec::new();
    for row in table
        .rows
        .iter()
        .filter(|row| !matches!(row.when, When::Never(_)))
    {
        let (amount, currency) = row.due.split_once(' ').unwrap_or((row.due, table.currency));
        let mut body = new_payment();
        merge(
            &mut body,
            json!({
                "checkout_mode": "direct", "payment_method": table.method, "amount": amount,
                "currency": currency, "customer_email": "ann@example.com",
            }),
        );
        let made = replay.server.post(&key, "/api/v1/payments", &body).await;
        let case = Case {
            replay,
            table,
            key: &key,
            payment: made.expect(201).json(),
        };
        let reading = case.run(row).await;
        case.stub().disarm();
        if reading != row.reading {
            wrong.push(format!(
                "{}: {reading:?}, expected {:?}",
                row.name, row.reading
            ));
        }
    }
    assert!(wrong.is_empty(), "{module}:\n{}", wrong.join("\n"));
}

macro_rules! replays {
    ($($test:ident $module:literal),+ $(,)?) => {
        $(#[tokio::test]
        async fn $test() {
            every_payload_has_its_reading($module).await;
        })+
    };
}

replays! {
    payloads_of_adyen_are_read_by_the_gateway "adyen",
    payloads_of_btcpay_are_read_by_the_gateway "btcpay",
    payloads_of_mollie_are_read_by_the_gateway "mollie",
    payloads_of_paypal_are_read_by_the_gateway "paypal",
    payloads_of_paysafe_are_read_by_the_gateway "paysafe",
    payloads_of_razorpay_are_read_by_the_gateway "razorpay",
    payloads_of_revolut_are_read_by_the_gateway "revolut",
    payloads_of_stripe_are_read_by_the_gateway "stripe",
}
